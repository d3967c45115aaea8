"""`parhelion shoot`: pictures from the shell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from parhelion import Image
from parhelion.cli.app import app

SMALL = ("--world", "test-range", "--camera", "generic/vga", "--width", "48", "--samples", "1")


def shoot(*options: object) -> Result:
    return CliRunner().invoke(app, ["shoot", *map(str, options)])


def test_a_picture_its_truth_and_what_was_done(tmp_path: Path) -> None:
    result = shoot(*SMALL, "--rain", 20, "-o", tmp_path / "a.png", "--truth", tmp_path / "truth.png")
    assert result.exit_code == 0, result.output
    image = Image.load(tmp_path / "a.png")
    assert (image.width, image.height) == (48, 36)
    assert (tmp_path / "truth.png").stat().st_size > 10_000
    for words in ("48 x 36 pixels", "exposure", "rain 20 mm/h", f"wrote {tmp_path / 'a.png'}"):
        assert words in result.stdout, result.stdout


def test_several_pictures_go_into_a_folder_and_exr_holds_depth(tmp_path: Path) -> None:
    result = shoot(*SMALL, "--pictures", 2, "-o", tmp_path / "many")
    assert result.exit_code == 0, result.output
    assert sorted(file.name for file in (tmp_path / "many").iterdir()) == ["000000.png", "000001.png"]
    assert shoot(*SMALL, "-o", tmp_path / "a.exr").exit_code == 0
    depth = Image.load(tmp_path / "a.exr").depth
    assert depth is not None
    assert np.isfinite(depth).any()


def test_day_and_night_differ(tmp_path: Path) -> None:
    same = ("--exposure", 0.0002, "--no-noise")
    assert shoot(*SMALL, *same, "--sun", 40, "-o", tmp_path / "day.png").exit_code == 0
    assert shoot(*SMALL, *same, "--sun", -30, "-o", tmp_path / "night.png").exit_code == 0
    day, night = (Image.load(tmp_path / f"{name}.png").colour.mean() for name in ("day", "night"))
    assert day > 40.0
    assert night < 5.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--camera", "generic/vgs"), "did you mean 'generic/vga'"),
        (("--exposure", "0"), "exposure"),
        (("--at", "52"), "--at: expected LAT,LON to go with --time"),
        (("--sun", "100"), "sun_elevation_deg"),
        (("-o", "a.gif"), "unknown file extension"),
        (("-o", "none/a.png"), "does not exist"),
        (("--ndvi", "n.png"), "does not have the bands red and nir"),
        (("--gain", "6"), "gain_db: needs exposure_s"),
    ],
)
def test_bad_input_is_one_sentence(
    options: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = shoot(*SMALL, *options)
    assert result.exit_code != 0
    message = " ".join((result.output + (str(result.exception) if result.exception else "")).split())
    assert words in message.replace("│ ", ""), message
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_rain_blend_and_denoise_reach_the_camera(tmp_path: Path) -> None:
    base = ("--world", "cuboids", "--camera", "generic/vga", "--width", 64, "--samples", 2, "--rain", 100)
    found = {}
    for name, extra in (("plain", ()), ("vane", ("--rain-blend", "vane")), ("none", ("--denoise", "none"))):
        file = tmp_path / f"{name}.npz"
        result = shoot(*base, "--exposure", 0.005, *extra, "-o", file)
        assert result.exit_code == 0, result.output
        found[name] = Image.load(file).colour
    assert not np.array_equal(found["plain"], found["vane"])
    assert not np.array_equal(found["plain"], found["none"])
    assert shoot(*base, "--rain-blend", "paint").exit_code == 2
