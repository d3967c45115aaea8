"""A medium of another package: one file and one row make it available to sensors, viewer, CLI, studies and report.

The example is tests/toy_ash.py. No file of src/ refers to it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import yaml
from matplotlib.text import Text
from typer.testing import CliRunner

import parhelion as ph
from campaign_rigs import InThisProcess, study_in
from parhelion.campaign import campaign
from parhelion.campaign.measures import air_points
from parhelion.cli.app import app
from parhelion.core.errors import ConfigError
from parhelion.live.viewer.panel import Panel
from parhelion.live.viewer.stages import Request, weather_of
from parhelion.pictures.weather import weather_changes, weather_picture
from parhelion.rays.device import engine
from parhelion.scenario.fields import check_path
from parhelion.sensors.optics.lidar.air_echoes import COUNT_LIMIT
from parhelion.sensors.optics.lidar.draws import PROFILE_DRAW
from parhelion.sensors.optics.lidar.weather import LidarWeather
from parhelion.weather import media
from parhelion.weather.air import air_contents
from parhelion.weather.media import unregister_medium
from parhelion.weather.media.rain import RAIN
from parhelion.weather.sound_loss import rain_loss_db_per_m
from rigs import one_beam, wall
from toy_ash import ASH, EXTINCTION_M2_MG
from weather_rigs import STRONG, depth

SRC = Path(ph.__file__).parent
THICK = {"ash_density_mg_m3": 300}
SCAN = ("scan", "--world", "cuboids", "--sensor", "velodyne/vlp-16", "--sub-rays", "1")


@pytest.fixture(autouse=True)
def ash() -> Iterator[None]:
    """The example medium in the table, for one test."""
    ph.register_medium(ASH)
    yield
    unregister_medium("ash")


def lidar() -> ph.Lidar:
    return ph.Lidar("velodyne/vlp-16", sub_rays=1)


def scan_in(weather: ph.Weather | None) -> ph.Scan:
    world = ph.World.load("cuboids")
    world.weather = weather
    return lidar().scan(world, seed=3)


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words], prog_name="parhelion")


# ---- the table -----------------------------------------------------------------------------------------------------


def test_no_file_of_the_source_knows_the_toy() -> None:
    known = [file for file in SRC.rglob("*.py") if re.search(r"\bash\b", file.read_text(), re.IGNORECASE)]
    assert known == []


def test_no_file_of_the_source_lists_the_media() -> None:
    """The only exception is `ORIGINS`, which files store."""
    listed = re.compile(r"""rain["'],\s*["']fog["'],\s*["']snow["']""")
    assert [file.name for file in SRC.rglob("*.py") if listed.search(file.read_text())] == ["clouds.py"]


@pytest.mark.parametrize(
    ("medium", "message"),
    [
        (ASH, "'ash' is registered already"),
        (media.Medium("soot", 5, "Soot", "#000000", ASH.part, ASH.amount, ASH.effects), "from 16 to 255, got 5"),
        (
            media.Medium("soot", 16, "Soot", "#000000", ASH.part, ASH.amount, ASH.effects),
            "16 or 'soot' is already registered",
        ),
        (
            media.Medium("noise", 17, "Noise", "#000000", ASH.part, ASH.amount, ASH.effects),
            "'noise' is already registered",
        ),
    ],
)
def test_names_and_codes_are_unique(medium: ph.Medium, message: str) -> None:
    before = media.names()
    with pytest.raises(ConfigError, match=message):
        ph.register_medium(medium)
    assert media.names() == before


def test_built_in_media_stay() -> None:
    with pytest.raises(ConfigError, match="no medium 'rain' is registered"):
        unregister_medium("rain")
    assert media.table()["rain"] is RAIN


def test_random_draws_of_media_do_not_overlap() -> None:
    first = sorted(medium.draw for medium in media.table().values())
    assert min(np.diff(first)) >= 500
    assert ASH.draw == 26000


def test_range_shifts_and_profiles_draw_other_numbers() -> None:
    """A calibrated lidar draws both for the same shot."""
    sensor = lidar()
    tables = LidarWeather(engine(), sensor.config, sensor.system_constant, 0.0)
    weather = ph.Weather(rain=ph.Rain(rate_mm_h=20, model="vane"))
    shifted = tables._displaced(air_contents(weather, 0.0, 903.0))
    assert shifted is not None
    (shift,) = shifted.shifts
    assert RAIN.draw + COUNT_LIMIT < shift.draw < RAIN.draw + 500
    assert shift.draw > PROFILE_DRAW + 100


def test_another_package_brings_it_by_an_entry_point(tmp_path: Path) -> None:
    folder = tmp_path / "toy_ash-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-ash\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[parhelion.media]\nash = toy_ash:ASH\n")
    paths = [str(tmp_path), str(Path(__file__).parents[1]), str(SRC.parent)]
    code = "import parhelion as ph; print(ph.Weather(ash_density_mg_m3=5))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, capture_output=True,
        text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.stdout.strip() == "<Weather ash 5 mg/m³>", done.stderr


# ---- weather -------------------------------------------------------------------------------------------------------


def test_files_hold_it(tmp_path: Path) -> None:
    short = ph.Weather(rain_rate_mm_h=2, **THICK)
    full = ph.Weather(ash={"density_mg_m3": [[0, 1], [9, 5]], "heterogeneity": {"contrast": 0.7}}, seed=3)
    for weather in (short, full):
        weather.save(tmp_path / "weather.yaml")
        assert ph.Weather.load(tmp_path / "weather.yaml") == weather
    assert short.to_mapping() == {"rain_rate_mm_h": 2, "ash_density_mg_m3": 300}
    assert repr(full) == "<Weather ash 1 to 5 mg/m³>"
    assert full.at(4.5).ash_density_mg_m3 == 3.0
    assert full.replace(ash_density_mg_m3=7).at(0).ash_density_mg_m3 == 7.0
    assert full.replace(ash=None).is_clear()
    assert not full.is_constant
    assert short != short.replace(ash_density_mg_m3=299)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ash_density_mg_m3": -1}, r"ash_density_mg_m3: must be from 0 to 1000 mg/m³, got -1"),
        ({"ash": {"density_mg_m3": 2000}}, r"ash\.density_mg_m3: must be from 0 to 1000 mg/m³, got 2000"),
        ({"ash": {"density": 5}}, r"ash\.density: unknown field; did you mean 'density_mg_m3'"),
        ({"ash": {}, "ash_density_mg_m3": 1}, r"ash\.density_mg_m3: is required"),
        ({"ash": {"density_mg_m3": 1}, "ash_density_mg_m3": 1}, "set ash or ash_density_mg_m3, not both"),
        ({"ash_densty_mg_m3": 1}, r"ash_densty_mg_m3: unknown field; did you mean 'ash_density_mg_m3'"),
    ],
)
def test_wrong_values_are_named_as_in_the_file(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^weather: .*{message}"):
        ph.Weather(**fields)


def test_a_weather_made_before_the_medium_has_none_of_it() -> None:
    unregister_medium("ash")
    weather = ph.Weather(rain_rate_mm_h=5)
    ph.register_medium(ASH)
    assert weather.ash is None
    assert weather == ph.Weather(rain_rate_mm_h=5)


# ---- sensors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("density", [5.0, 30.0])
def test_transmission_follows_beer_and_lambert(density: float) -> None:
    tau = depth(ph.Weather(ash_density_mg_m3=density), wall(60.0), one_beam(range=STRONG))
    assert tau == pytest.approx(EXTINCTION_M2_MG * density * 60.0, rel=1e-3)


def test_none_of_it_gives_the_bits_of_clear_air() -> None:
    clear, none = scan_in(None), scan_in(ph.Weather(ash_density_mg_m3=0))
    assert np.array_equal(clear.xyz, none.xyz)
    for name, values in clear.fields.items():
        assert np.array_equal(values, none.fields[name], equal_nan=values.dtype.kind == "f"), name


def test_a_lidar_reports_it_and_files_name_it(tmp_path: Path) -> None:
    clear, scan = scan_in(None), scan_in(ph.Weather(**THICK))
    echoes = scan.origin == ASH.code
    assert np.count_nonzero(echoes) > 100
    assert scan.names["origin"][ASH.code] == "ash"
    assert np.median(scan.range[echoes]) < np.median(clear.range)
    scan.save(tmp_path / "scan.npz")
    assert ph.PointCloud.load(tmp_path / "scan.npz").names["origin"][ASH.code] == "ash"
    assert air_points(scan)["air_points"] == np.count_nonzero(echoes)
    changes = weather_changes(clear, scan)
    assert changes.invented["ash"] == np.count_nonzero(echoes)
    words = [text.get_text() for text in weather_picture(clear, scan).findobj(Text)]
    assert any("new, from ash" in word for word in words), words


def test_it_comes_beside_other_media_and_in_banks() -> None:
    weather = ph.Weather(
        ash={"density_mg_m3": 130, "heterogeneity": {"contrast": 0.9}}, visibility_m=110, rain_rate_mm_h=300, seed=1
    )
    found = scan_in(weather).origin
    assert {ASH.code, media.table()["fog"].code, RAIN.code} <= set(found.tolist())


def test_recorded_clouds_get_it() -> None:
    clear = scan_in(None)
    after = ph.Weather(**THICK).apply(clear, sensor=lidar(), seed=2)
    assert np.count_nonzero(after.origin == ASH.code) > 100
    assert after.names["origin"][ASH.code] == "ash"


def test_a_camera_sees_less_contrast() -> None:
    camera = ph.Camera("generic/vga", width=48, height=36, samples=4, noise=False, exposure_s=0.004)
    world = ph.World.load("cuboids")
    pictures = []
    for weather in (None, ph.Weather(ash_density_mg_m3=200)):
        world.weather = weather
        pictures.append(camera.shoot(world, seed=1).colour.astype(np.float64))
    spread = [picture.std() / picture.mean() for picture in pictures]
    assert spread[1] < 0.7 * spread[0]


def test_radars_and_sounders_lose_power_in_it() -> None:
    weather = ph.Weather(ash_density_mg_m3=10, rain_rate_mm_h=5)
    effects = {medium.name: effect for medium, effect in weather.radio(0.0, 77e9)}
    assert effects["ash"].loss_db_per_km == pytest.approx(1e-14 * 10 * 77e9)
    assert list(effects) == ["rain", "ash"]
    assert weather.sound(0.0, 40e3) == pytest.approx(0.01 + rain_loss_db_per_m(5.0, 40e3))
    world = wall(2.0, "concrete", size=4.0)
    sounder = ph.Echo("generic/ultrasonic-ranger", noise=False)
    levels = []
    for air in (None, ph.Weather(ash_density_mg_m3=1000)):
        world.weather = air
        levels.append(sounder.ping(world, pose=ph.Pose()).fields["attenuation"].min())
    assert levels[1] - levels[0] == pytest.approx(2 * 2.0 * 1.0, abs=0.1)  # 1 dB/m, two-way


# ---- shell, viewer, study, report ----------------------------------------------------------------------------------


def test_the_shell_has_an_option() -> None:
    assert re.search(r"--ash\s+MG_M3\s+Density of volcanic ash", run("scan", "--help").output)
    done = run(*SCAN, "--ash", 300, "--seed", 3)
    assert done.exit_code == 0, done.output
    count = int(np.count_nonzero(scan_in(ph.Weather(**THICK)).origin == ASH.code))
    assert f"fromtheairash{count}(" in re.sub(r"\s", "", done.output)
    wrong = run(*SCAN, "--ash", -1)
    assert wrong.exit_code == 1
    assert "--ash: must be from 0 to 1000 mg/m³, got -1" in wrong.stderr


def test_the_viewer_has_a_slider() -> None:
    weather = ph.Weather(ash_density_mg_m3=7)
    stage = SimpleNamespace(
        cameras=(), lidars=(), media=tuple(media.table()), duration_s=0.0, base_weather=weather, world=ph.World()
    )
    session = MagicMock(stage=stage, choices=["range"], colour_by="range", request=Request())
    server = MagicMock()
    Panel(server, session, [], MagicMock())
    calls = {call.args[0]: call for call in server.gui.add_slider.call_args_list}
    own = ["rain [mm/h]", "visibility [m]", "snow [mm/h]", "dust [mg/m³]", "spray [g/m³]", "smoke [mg/m³]"]
    assert list(calls) == ["point [cm]", *own, "ash [mg/m³]", "wetness", "puddles", "snow cover"]
    assert calls["ash [mg/m³]"].args[1:] == (0.0, 200.0, 1.0, 7.0)
    weather = weather_of(ph.Weather(rain_rate_mm_h=1), Request(amounts=(("ash", 20.0),)), (0.0, 0.0, 0.0))
    assert weather == ph.Weather(rain_rate_mm_h=1, ash_density_mg_m3=20)


def test_a_study_varies_it() -> None:
    check_path({}, "weather.ash_density_mg_m3", "study.yaml")
    check_path({}, "weather.ash.density_mg_m3", "study.yaml")
    with pytest.raises(ConfigError, match=r"did you mean 'weather\.ash_density_mg_m3'"):
        check_path({}, "weather.ash_densty_mg_m3", "study.yaml")


def test_a_campaign_has_it_as_an_axis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'parhelion[campaign]'")
    monkeypatch.setattr(campaign, "crew_of", InThisProcess)
    study = study_in(tmp_path, {"weather": {}}, vary={"weather.ash_density_mg_m3": [0, 900]}, seeds=1)
    campaign.run_campaign(study, tmp_path / "out", workers=1, command="parhelion campaign study.yaml -o out")
    cells = json.loads((tmp_path / "out" / "summary.json").read_text())["cells"]
    none, some = (cell["numbers"]["air_points"]["mean"] for cell in cells)
    assert none == 0 < some
    assert "weather.ash_density_mg_m3" in (tmp_path / "out" / "report.html").read_text()


def test_a_report_shows_it(tmp_path: Path) -> None:
    scenario = {
        "duration_s": 0.2, "world": "cuboids", "weather": {"ash_density_mg_m3": [[0, 200], [1, 400]]},
        "sensors": [{"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "options": {"sub_rays": 1}}],
    }  # fmt: skip
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(scenario))
    done = run("run", tmp_path / "scenario.yaml", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "out" / "report.html").read_text()
    assert "200 → 400 mg/m³" in page
    assert re.search(r">ash<", page), "a curve of the points over time"
