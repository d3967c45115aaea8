"""Weather on the command line: the same bits as from Python, one sentence for what is wrong, and whole files."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.cli.weather_options import WeatherOptions, in_words
from parhelion.core.clouds import ORIGINS
from parhelion.pictures.weather import weather_changes
from parhelion.weather import media
from parhelion.weather.media.dust import DENSITY
from parhelion.weather.media.fog import FOG_MODELS
from parhelion.weather.media.rain import RAIN_MODELS

Run = Callable[..., Any]
Fails = Callable[..., str]

SMALL_SCAN = ("scan", "--world", "cuboids", "--sensor", "velodyne/vlp-16", "--sub-rays", "1")
SENSOR = ("--sensor", "velodyne/vlp-16")


@pytest.fixture(autouse=True)
def coarse_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures in a fraction of the time; what they show is tested elsewhere."""
    monkeypatch.setattr("parhelion.pictures.style.DPI", 20)


def small_lidar() -> ph.Lidar:
    return ph.Lidar("velodyne/vlp-16", sub_rays=1)


def words(text: str) -> str:
    """Text without the spaces that tables and numbers have."""
    return re.sub(r"\s+", "", text)


# ---- options -------------------------------------------------------------------------------------------------------


def test_options_mean_the_weather_of_the_same_fields() -> None:
    options = WeatherOptions(
        rain=25, visibility=800, snow=2, dust=["1,2,3,4", "5,6,7,8,0.001"], wind="3,-1",
        rain_model="vane", fog_model="kruse", heterogeneous_fog=True,
    )  # fmt: skip
    clouds = [
        ph.DustCloud(centre_m=(1, 2, 3), half_size_m=(4, 4, 4), density_kg_m3=DENSITY.default),
        ph.DustCloud(centre_m=(5, 6, 7), half_size_m=(8, 8, 8), density_kg_m3=0.001),
    ]
    assert options.weather() == ph.Weather(
        rain=ph.Rain(rate_mm_h=25, model="vane"),
        fog=ph.Fog(visibility_m=800, model="kruse", heterogeneity=ph.Heterogeneity()),
        snow_rate_mm_h=2,
        dust=clouds,
        wind_m_s=(3, -1, 0),
    )


def test_nothing_given_leaves_the_base() -> None:
    base = ph.Weather(rain_rate_mm_h=3)
    assert WeatherOptions().weather() is None
    assert WeatherOptions().weather(base) is base


def test_a_file_is_the_base_that_options_change(tmp_path: Path) -> None:
    file = tmp_path / "weather.yaml"
    cloud = ph.DustCloud(centre_m=(0, 0, 0), half_size_m=(1, 1, 1), density_kg_m3=0.1)
    ph.Weather(
        rain=ph.Rain(rate_mm_h=10, model="goodin2019"), fog=ph.Fog(visibility_m=90, backscatter=0.03), dust=[cloud]
    ).save(file)
    meant = WeatherOptions(rain=30, heterogeneous_fog=True, dust=["9,9,9,2"], file=file).weather(
        ph.Weather(snow_rate_mm_h=9)
    )
    assert meant is not None
    assert meant.rain == ph.Rain(rate_mm_h=30, model="goodin2019")
    assert meant.fog == ph.Fog(visibility_m=90, backscatter=0.03, heterogeneity=ph.Heterogeneity())
    assert meant.snow is None  # the file stands for all of what was there before
    assert [part.centre_m for part in meant.dust] == [(0, 0, 0), (9, 9, 9)]


def test_every_model_of_the_weather_can_be_named() -> None:
    choices = {option.flag: option.choices for medium in media.table().values() for option in medium.options}
    assert choices["--rain-model"] == tuple(RAIN_MODELS)
    assert choices["--fog-model"] == tuple(FOG_MODELS)


def test_the_earlier_name_of_an_option_works_with_a_warning(run: Run) -> None:
    result = run(*SMALL_SCAN, "--visibility", 100, "--uneven-fog")
    assert result.exit_code == 0, result.output
    assert "--uneven-fog is deprecated; use --heterogeneous-fog" in result.stderr  # wording: ok
    assert "--uneven-fog" not in run("scan", "--help").output


def test_weather_in_words() -> None:
    assert in_words(ph.Weather(rain_rate_mm_h=25, visibility_m=800)) == "rain 25 mm/h, visibility 800 m"
    assert in_words(ph.Weather()) == "clear"


WRONG_VALUES = [
    ("--rain", "-3", "0 to 500 mm/h"),
    ("--rain", "nan", "finite"),
    ("--rain", "inf", "finite"),
    ("--visibility", "0", "from 5 to"),
    ("--visibility", "nan", "finite"),
    ("--snow", "51", "0 to 50 mm/h"),
    ("--wind", "200,0", "-100 to 100 m/s"),
    ("--wind", "nan,0", "finite"),
    ("--dust", "0,0,0,-1", "radius"),
    ("--dust", "0,0,0,nan", "radius"),
    ("--dust", "0,0,0,5,2", "density_kg_m3"),
    ("--weather", "no-such.yaml", "no such file"),
]


@pytest.mark.parametrize(("option", "value", "message"), WRONG_VALUES)
def test_wrong_values_are_reported_with_the_name_of_the_option(
    fails: Fails, option: str, value: str, message: str
) -> None:
    line = fails(*SMALL_SCAN, option, value)
    assert message in line
    assert option in line or value in line
    assert fails("weather", Path(__file__), "-o", "x.pcd", *SENSOR, option, value) == line


@pytest.mark.parametrize(
    "options",
    [
        ("--rain", "much"),
        ("--wind", "1"),
        ("--wind", "a,b"),
        ("--dust", "1,2,3"),
        ("--rain", "5", "--rain-model", "mei"),
        ("--rain-model", "vane"),
        ("--fog-model", "kim"),
        ("--heterogeneous-fog",),
    ],
)
def test_options_that_cannot_be_read_or_hang_in_the_air(run: Run, options: tuple[str, ...]) -> None:
    result = run(*SMALL_SCAN, *options)
    assert result.exit_code == 2
    assert options[-1 if len(options) == 1 else -2] in result.stderr
    assert "Traceback" not in result.output


# ---- scan ----------------------------------------------------------------------------------------------------------


def test_scan_in_weather_is_what_python_gives(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "scan.npz"
    result = run(*SMALL_SCAN, "--rain", 100, "--visibility", 200, "--seed", 5, "-o", file)
    assert result.exit_code == 0, result.output
    world = ph.World.load("cuboids")
    world.weather = ph.Weather(rain_rate_mm_h=100, visibility_m=200)
    expected = small_lidar().scan(world, seed=5)
    written = ph.PointCloud.load(file)
    assert np.array_equal(written.xyz, expected.xyz)
    assert np.array_equal(written.origin, expected.origin)
    text = words(result.stdout)
    assert "weatherrain100mm/h,visibility200m" in text
    for name in ("rain", "fog"):
        count = int(np.sum(expected.origin == ORIGINS.index(name)))
        assert count > 100
        assert f"{name}{count}({100 * count / len(expected):.1f}%)" in text
    assert "lostto" not in text  # that takes a second scan, which only the picture pays for
    in_air = int(np.sum(expected.label == 0))
    assert f"intheair{in_air}" in text


def test_no_rain_at_all_is_clear_air(run: Run, tmp_path: Path) -> None:
    clear, dry = tmp_path / "clear.npz", tmp_path / "dry.npz"
    assert run(*SMALL_SCAN, "-o", clear).exit_code == 0
    result = run(*SMALL_SCAN, "--rain", 0, "-o", dry, "--png", tmp_path / "dry.png")
    assert result.exit_code == 0, result.output
    assert np.array_equal(ph.PointCloud.load(clear).xyz, ph.PointCloud.load(dry).xyz)
    assert words("from the air  no points") in words(result.stdout)
    assert not (tmp_path / "dry-weather.png").exists()


def test_the_weather_of_a_world_file_is_changed_not_replaced(run: Run, tmp_path: Path) -> None:
    world = ph.World.load("cuboids")
    world.weather = ph.Weather(rain_rate_mm_h=20, visibility_m=500)
    file = tmp_path / "wet.yaml"
    world.save(file)
    result = run("scan", "-w", file, *SMALL_SCAN[3:], "--rain", 60)
    assert result.exit_code == 0, result.output
    assert "rain 60 mm/h, visibility 500 m" in result.stdout


def test_the_picture_compares_with_clear_air(run: Run, tmp_path: Path) -> None:
    result = run(*SMALL_SCAN, "--rain", 50, "--seed", 2, "--png", tmp_path / "scan.png")
    assert result.exit_code == 0, result.output
    assert sorted(file.name for file in tmp_path.iterdir()) == ["scan-weather.png", "scan.png"]
    world, lidar = ph.World.load("cuboids"), small_lidar()
    clear = lidar.scan(world, seed=2)
    world.weather = ph.Weather(rain_rate_mm_h=50)
    changes = weather_changes(clear, lidar.scan(world, seed=2))
    assert f"{len(changes.lost)}of{len(clear)}pointsofclearair" in words(result.stdout)
    assert f"{changes.outshone}ofthemreplacedbyanechooftheair" in words(result.stdout)


def test_of_several_scans_the_last_is_compared(run: Run, tmp_path: Path) -> None:
    result = run(*SMALL_SCAN, "--snow", 2, "--scans", 2, "--png", tmp_path / "drive.png")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "drive-weather.png").read_bytes().startswith(b"\x89PNG")
    assert "in the last scan" in result.stdout


# ---- weather on recorded clouds ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded() -> ph.Scan:
    return small_lidar().scan(ph.World.load("cuboids"), seed=1)


@pytest.fixture
def folder(recorded: ph.Scan, tmp_path: Path) -> Path:
    """Three clouds, one of them in a folder of its own, and files that are none."""
    place = tmp_path / "in"
    (place / "deeper").mkdir(parents=True)
    recorded.save(place / "a.pcd")
    recorded.save(place / "b.ply")
    recorded.save(place / "deeper" / "c.npz")
    (place / "notes.txt").write_text("no cloud")
    (place / "deeper" / "c.label").write_bytes(b"")
    (place / ".hidden.pcd").write_text("no cloud")
    return place


def files_below(place: Path) -> list[str]:
    return sorted(str(file.relative_to(place)) for file in place.rglob("*") if file.is_file())


def test_weather_on_a_file_is_what_python_gives(run: Run, recorded: ph.Scan, tmp_path: Path) -> None:
    dry, wet, picture = tmp_path / "dry.pcd", tmp_path / "wet.npz", tmp_path / "wet.png"
    recorded.save(dry)
    result = run("weather", dry, "-o", wet, "--rain", 100, *SENSOR, "--seed", 9, "--png", picture)
    assert result.exit_code == 0, result.output
    before, after = ph.PointCloud.load(dry), ph.PointCloud.load(wet)
    expected = ph.Weather(rain_rate_mm_h=100).apply(before, sensor="velodyne/vlp-16", seed=9)
    assert np.array_equal(after.xyz, expected.xyz)
    assert np.array_equal(after.intensity, expected.intensity)
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = words(result.stdout)
    drops = int(np.sum(after.origin == ORIGINS.index("rain")))
    lost = len(before) - (len(after) - drops)
    assert drops > 100
    assert lost > 10
    assert f"pointsin{len(before)}pointsout{len(after)}lost{lost}" in text
    assert f"rain{drops}(" in text
    for note in after.metadata["weather_notes"]:
        assert f"note: {note}" in result.stdout


def test_a_folder_keeps_names_and_numbers_its_clouds(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("weather", folder, "-o", out, "--visibility", 50, *SENSOR, "--time", 2.0)
    assert result.exit_code == 0, result.output
    assert files_below(out) == ["a.pcd", "b.ply", "deeper/c.npz"]
    assert "wrote 3 files" in result.stdout
    weather, lidar = ph.Weather(visibility_m=50), ph.Lidar("velodyne/vlp-16")
    for number, name in enumerate(files_below(out)):
        cloud = ph.PointCloud.load(folder / name)
        expected = weather.apply(cloud, sensor=lidar, frame=number, time=2.0 + number / lidar.rate_hz)
        assert np.array_equal(ph.PointCloud.load(out / name).xyz, expected.xyz), name
    # The clouds are the same, and so would be their fog if they had the same number.
    assert not np.array_equal(ph.PointCloud.load(out / "a.pcd").xyz, ph.PointCloud.load(out / "b.ply").xyz)


def test_an_unfinished_folder_is_taken_up_again(run: Run, folder: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    command = ("--snow", 2, *SENSOR, "--format", "pcd")
    assert run("weather", folder, "-o", whole, *command).exit_code == 0
    shutil.copytree(whole, parts)
    (parts / "b.pcd").unlink()
    (parts / "a.pcd").write_bytes(b"mine")
    result = run("weather", folder, "-o", parts, *command)
    assert result.exit_code == 0, result.output
    assert "wrote 1 file to" in result.stdout
    assert "skipped 2" in result.stdout
    assert (parts / "a.pcd").read_bytes() == b"mine"
    assert (parts / "b.pcd").read_bytes() == (whole / "b.pcd").read_bytes()
    again = run("weather", folder, "-o", parts, *command, "--png", tmp_path / "none.png")
    assert "wrote 0 files" in again.stdout
    assert "not drawn" in again.stdout
    assert run("weather", folder, "-o", parts, *command, "--overwrite").exit_code == 0
    assert (parts / "a.pcd").read_bytes() == (whole / "a.pcd").read_bytes()


def test_out_may_lie_within_in(run: Run, folder: Path) -> None:
    for expected in ("wrote 3 files", "skipped 3"):
        result = run("weather", folder, "-o", folder / "wet", "--rain", 5, *SENSOR)
        assert expected in result.stdout, result.output
    assert files_below(folder / "wet") == ["a.pcd", "b.ply", "deeper/c.npz"]


def test_the_sensor_may_be_the_clouds_own(run: Run, fails: Fails, folder: Path, tmp_path: Path) -> None:
    named, own = tmp_path / "named.pcd", tmp_path / "own.pcd"
    assert run("weather", folder / "a.pcd", "-o", named, "--rain", 5, *SENSOR).exit_code == 0
    assert run("weather", folder / "a.pcd", "-o", own, "--rain", 5).exit_code == 0
    assert named.read_bytes() == own.read_bytes()
    ph.PointCloud(np.ones((5, 3)), {"intensity": np.ones(5)}).save(tmp_path / "bare.ply")
    assert "--sensor" in fails("weather", tmp_path / "bare.ply", "-o", tmp_path / "x.pcd", "--rain", 5)


def test_fields_that_a_format_cannot_hold_are_reported_once(run: Run, folder: Path, tmp_path: Path) -> None:
    result = run("weather", folder, "-o", tmp_path / "out", "--rain", 5, *SENSOR, "--format", "kitti")
    assert result.exit_code == 0, result.output
    assert files_below(tmp_path / "out") == ["a.bin", "b.bin", "deeper/c.bin"]
    assert result.stderr.count("warning:") == 1
    assert "origin" in result.stderr


def test_clouds_without_intensity(run: Run, fails: Fails, recorded: ph.Scan, tmp_path: Path) -> None:
    bare = tmp_path / "bare.pcd"
    ph.PointCloud(recorded.xyz).save(bare)
    line = fails("weather", bare, "-o", tmp_path / "wet.pcd", "--rain", 50, *SENSOR)
    assert "bare.pcd" in line
    assert "intensity" in line
    assert not (tmp_path / "wet.pcd").exists()
    result = run("weather", bare, "-o", tmp_path / "wet.pcd", "--rain", 50, *SENSOR, "--reflectance", 0.3)
    assert result.exit_code == 0, result.output
    assert "rain" in result.stdout


def test_a_bad_cloud_does_not_stop_the_folder(run: Run, folder: Path, recorded: ph.Scan, tmp_path: Path) -> None:
    for name in ("b1.pcd", "b2.pcd"):
        ph.PointCloud(recorded.xyz).save(folder / name)
    (folder / "torn.pcd").write_bytes((folder / "a.pcd").read_bytes()[:5000])
    result = run("weather", folder, "-o", tmp_path / "out", "--rain", 5, *SENSOR)
    assert result.exit_code == 1
    assert files_below(tmp_path / "out") == ["a.pcd", "b.ply", "deeper/c.npz"]
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning:")]
    assert len(warnings) == 2  # one a reason, not one a file
    assert any("b1.pcd and 1 more" in line and "intensity" in line for line in warnings)
    assert any("torn.pcd" in line for line in warnings)
    assert "error: " in result.stderr
    assert "3 of 6 files could not be processed" in result.stderr


def test_what_cannot_be_done_is_one_sentence(fails: Fails, folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    command = ("--rain", 5, *SENSOR)
    assert "no clouds in this folder" in fails("weather", empty, "-o", tmp_path / "out", *command)
    assert not (tmp_path / "out").exists()
    assert "no such file" in fails("weather", tmp_path / "gone.pcd", "-o", tmp_path / "x.pcd", *command)
    assert "same folder" in fails("weather", folder, "-o", folder, *command)
    assert "would replace the input" in fails(
        "weather", folder / "a.pcd", "-o", folder / "a.pcd", "--overwrite", *command
    )
    assert "--overwrite" in fails("weather", folder / "a.pcd", "-o", folder / "b.ply", *command)
    assert "unknown file extension" in fails("weather", folder / "a.pcd", "-o", tmp_path / "x.what", *command)
    assert "must end in" in fails("weather", folder, "-o", tmp_path / "out", *command, "--png", tmp_path / "x.gif")
    assert "unknown lidar" in fails("weather", folder, "-o", tmp_path / "out", "--rain", 5, "--sensor", "no-such")
    assert "several files would become" in _twins(fails, folder, tmp_path / "out", command)


def _twins(fails: Fails, folder: Path, out: Path, command: tuple[object, ...]) -> str:
    shutil.copy(folder / "b.ply", folder / "a.ply")
    return fails("weather", folder, "-o", out, "--format", "npz", *command)


def test_no_weather_is_a_usage_error(run: Run, folder: Path, tmp_path: Path) -> None:
    result = run("weather", folder, "-o", tmp_path / "out", *SENSOR)
    assert result.exit_code == 2
    assert "--visibility" in result.stderr


def test_help_has_examples_that_work(run: Run) -> None:
    result = run("weather", "--help")
    assert result.exit_code == 0
    assert "\n  parhelion weather recorded.pcd -o wet.pcd --rain 25" in result.stdout
    assert "--rain 25" in run("scan", "--help").stdout


def test_ctrl_c_leaves_whole_files(recorded: ph.Scan, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    recorded.save(source / "000.pcd")
    for number in range(1, 300):
        os.link(source / "000.pcd", source / f"{number:03d}.pcd")
    command = [
        sys.executable, "-m", "parhelion", "weather", str(source), "-o", str(out), "--visibility", "50", *SENSOR,
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_interruptible
    )
    deadline = time.monotonic() + 30
    # Files being written have names of their own, which a plain pattern would count.
    while len(list(out.glob("[0-9][0-9][0-9].pcd"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stderr.strip() == "stopped"
    done = sorted(out.iterdir())
    assert 4 <= len(done) < 300
    assert [file.name for file in done] == [f"{number:03d}.pcd" for number in range(len(done))]
    assert min(len(ph.PointCloud.load(file)) for file in done) > 1000


def _interruptible() -> None:
    # A test run in the background may have SIGINT ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give IN and -o OUT, or --ros2 IN OUT, or --udp-in PORT --udp-out PORT"),
        (("--ros2", "/a", "/b"), "live data do not name their sensor"),
        (("--ros2", "/a", "/b", "--udp-in", "2368"), "give --ros2 or --udp-in, not both"),
        (("--udp-in", "2368", "--sensor", "velodyne/vlp-16"), "--udp-in and --udp-out go together"),
        (("in.pcd", "--ros2", "/a", "/b", "--sensor", "velodyne/vlp-16"), "applies to recorded data only"),
    ],
)
def test_live_options_that_do_not_go_together(run: Callable[..., Any], arguments: tuple[str, ...], words: str) -> None:
    result = run("weather", *arguments, "--rain", 5)
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.stderr.replace("│", " ").split())
