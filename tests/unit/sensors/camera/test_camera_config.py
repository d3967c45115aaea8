"""Data sheets of cameras: every preset is valid and states its sources; invalid sheets are rejected."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import parhelion as ph
from parhelion.core.config import Config, parse
from parhelion.core.errors import ConfigError
from parhelion.core.image import Intrinsics
from parhelion.sensors.optics.camera import lens
from parhelion.sensors.optics.camera.config import CameraConfig
from parhelion.sensors.sheets import load_sheet

# Width and height, horizontal field [deg], bands as the makers state them; the field of lenses chosen freely is ours.
SHEETS = {
    "flir/blackfly-s-16s2c": (1440, 1080, None, "red green blue"),
    "flir/boson-640": (640, 512, 32.0, "thermal"),
    "flir/lepton-3.5": (160, 120, 57.0, "thermal"),
    "generic/fisheye-190": (1280, 960, 190.0, "red green blue"),
    "generic/mwir-640": (640, 512, 20.0, "mwir"),
    "generic/vga": (640, 480, 70.0, "red green blue"),
    "intel/realsense-d435-colour": (1920, 1080, 69.4, "red green blue"),
    "intel/realsense-d435-depth": (1280, 720, 87.0, "mono"),
    "micasense/rededge-mx": (1280, 960, 47.2, "red green blue nir red-edge"),
    "microsoft/azure-kinect-depth": (640, 576, 75.0, "nir"),
    "onsemi/ar0231": (1928, 1208, 60.0, "red green blue"),
    "sony/imx586-phone": (4000, 3000, None, "red green blue"),
    "stereolabs/zed-2": (1920, 1080, None, "red green blue"),
}

SMALL: dict[str, Any] = {
    "name": "small",
    "rate_hz": 30.0,
    "image": {"width": 64, "height": 48},
    "lens": {"hfov_deg": 70.0},
    "sensor": {"pixel_um": 3.0, "bands": ["red", "green", "blue"]},
    "sources": ["made up"],
}


def small(**changes: Any) -> CameraConfig:
    """The small camera, with fields changed by path, such as lens__fx."""
    data: dict[str, Any] = {name: dict(value) if isinstance(value, dict) else value for name, value in SMALL.items()}
    for path, value in changes.items():
        section, _, field = path.partition("__")
        if field:
            data[section] = {**data.get(section, {}), field: value}
        else:
            data[section] = value
    return parse(CameraConfig, data, "small.yaml")


def test_the_table_of_sheets_is_complete() -> None:
    assert ph.presets("camera") == sorted(SHEETS)


@pytest.mark.parametrize("name", sorted(SHEETS))
def test_size_field_and_bands_are_the_makers(name: str) -> None:
    width, height, hfov_deg, bands = SHEETS[name]
    config = load_sheet("camera", CameraConfig, name)
    intrinsics = config.intrinsics()
    lens.check(intrinsics)
    assert (intrinsics.width, intrinsics.height) == (width, height)
    assert config.sensor.band_names == tuple(bands.split())
    if hfov_deg is not None:
        left, right = lens.directions(intrinsics, [[-0.5, intrinsics.cy], [width - 0.5, intrinsics.cy]])
        angle = math.degrees(math.atan2(left[1], left[0]) - math.atan2(right[1], right[0]))
        assert angle == pytest.approx(hfov_deg, abs=1e-6)
    # Focal length, pitch and field of one camera agree within the tolerance that makers give for the field.
    assert intrinsics.fx * config.sensor.pixel_um * 1e-3 == pytest.approx(config.focal_length_mm, rel=0.06)


def at_path(config: CameraConfig, path: str) -> Any:
    value: Any = config
    for part in path.split("."):
        value = getattr(value, part)
    return value


def fields_set(section: Any) -> Iterator[str]:
    """Fields that a sheet sets, those of nested sections by their path."""
    for name in section.model_fields_set:
        value = getattr(section, name)
        if isinstance(value, Config):
            yield from (f"{name}.{inner}" for inner in fields_set(value))
        else:
            yield name


@pytest.mark.parametrize("name", sorted(SHEETS))
def test_every_number_has_a_source_or_a_reason(name: str) -> None:
    config = load_sheet("camera", CameraConfig, name)
    stated = [path for source in config.sources for path in source.covers] + list(config.assumed)
    for path in stated:
        at_path(config, path)  # no source speaks of a field that does not exist
    blocks = ("image", "lens", "sensor", "exposure", "shutter", "stereo", "depth", "thermal")
    given = {"rate_hz"} | {"jpeg_quality" for quality in [config.jpeg_quality] if quality is not None}
    given |= {f"{b}.{field}" for b in blocks if getattr(config, b) for field in fields_set(getattr(config, b))}
    assert not {field for field in given if not any(field == p or field.startswith(p + ".") for p in stated)}


@pytest.mark.parametrize("name", sorted(SHEETS))
def test_depth_cameras_reach_what_they_state(name: str) -> None:
    config = load_sheet("camera", CameraConfig, name)
    if config.depth is None or config.stereo is None or config.stereo.max_disparity_px is None:
        return
    nearest = config.intrinsics().fx * config.stereo.baseline_m / config.stereo.max_disparity_px
    assert nearest <= config.depth.min_m


@pytest.mark.parametrize("name", sorted(SHEETS))
def test_presets_say_the_same_after_a_round_through_yaml(name: str) -> None:
    config = load_sheet("camera", CameraConfig, name)
    again = parse(CameraConfig, yaml.safe_load(yaml.safe_dump(config.model_dump(mode="json"))), "again")
    assert again == config


def test_names_are_found_in_any_case_and_near_misses_suggested() -> None:
    assert load_sheet("camera", CameraConfig, "Generic/VGA") is load_sheet("camera", CameraConfig, "generic/vga")
    with pytest.raises(ConfigError, match=r"unknown camera 'generic/vgaa': did you mean 'generic/vga'\?"):
        load_sheet("camera", CameraConfig, "generic/vgaa")
    with pytest.raises(ConfigError, match="no such file"):
        load_sheet("camera", CameraConfig, "nowhere.yaml")


def test_a_sheet_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(SMALL))
    config = load_sheet("camera", CameraConfig, file)
    assert config.sources[0].title == "made up"
    assert config.intrinsics() == Intrinsics(64, 48, config.intrinsics().fx, config.intrinsics().fx, 31.5, 23.5)
    file.write_text(yaml.safe_dump({**SMALL, "lens": {"hfov_deg": 70.0, "f_numbr": 2.0}}))
    with pytest.raises(ConfigError, match=r"mine\.yaml: lens\.f_numbr: unknown field; did you mean 'f_number'\?"):
        load_sheet("camera", CameraConfig, file)


def test_three_ways_to_say_the_focal_length() -> None:
    assert small(lens={"fx": 50.0}).intrinsics().fy == 50.0
    assert small(lens={"hfov_deg": 90.0}).intrinsics().fx == pytest.approx(32.0)
    assert small(lens={"focal_length_mm": 0.15}).intrinsics().fx == pytest.approx(50.0)
    assert small(lens={"fx": 50.0}).focal_length_mm == pytest.approx(0.15)


def test_lens_models_by_kind_and_numbers() -> None:
    assert small(lens__distortion=[0.1]).intrinsics().model == "plumb_bob"
    assert small(lens__distortion=[0.1, 0, 0, 0, 0, 0.1]).intrinsics().model == "rational_polynomial"
    assert small(lens__kind="fisheye", lens__hfov_deg=190.0).intrinsics().model == "equidistant"
    assert small(stereo={"baseline_m": 0.1}).intrinsics().baseline_m == 0.1


@pytest.mark.parametrize("model", ["plumb_bob", "equidistant"])
@pytest.mark.parametrize("name", sorted(SHEETS))
def test_a_calibrated_camera_has_the_lens_that_was_measured(name: str, model: str) -> None:
    config = load_sheet("camera", CameraConfig, name)
    w, h = config.image.width, config.image.height
    measured = Intrinsics(w, h, 1.1 * w, 1.11 * w, 0.49 * w, 0.52 * h, 0.5, model, (0.01,))
    calibrated = config.calibrated(measured)
    found = calibrated.intrinsics()
    assert found == replace(measured, baseline_m=found.baseline_m)
    assert calibrated.sensor == config.sensor
    with pytest.raises(ConfigError, match="the calibration is for 64 x 48 pixels"):
        config.calibrated(lens.scaled(measured, 64, 48))


def test_efficiency_is_one_number_or_one_for_each_band() -> None:
    assert small(sensor__quantum_efficiency=0.4).sensor.band_efficiencies == (0.4, 0.4, 0.4)
    assert small(sensor__quantum_efficiency=[0.4, 0.5, 0.6]).sensor.band_efficiencies == (0.4, 0.5, 0.6)


def test_bands_of_ones_own() -> None:
    curve = {"name": "odd", "wavelength_nm": [400.0, 500.0, 600.0], "response": [0.0, 1.0, 0.0]}
    sensor = small(sensor__bands=["mono", {"name": "edge", "centre_nm": 717.0, "width_nm": 12.0}, curve]).sensor
    assert sensor.band_names == ("mono", "edge", "odd")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lens": {}}, "lens: give fx or hfov_deg"),
        ({"lens": {"fx": 50.0, "hfov_deg": 60.0}}, "lens: give either fx or hfov_deg"),
        ({"lens": {"fx": -50.0}}, r"lens\.fx: expected a number above 0"),
        ({"lens": {"fx": math.nan}}, r"lens\.fx: "),
        ({"lens": {"hfov_deg": 185.0}}, "below 180, got 185; kind: fisheye?"),
        ({"lens__distortion": [-0.9], "lens__hfov_deg": 30.0, "image": {"width": 64, "height": 640}}, "folds back"),
        ({"lens__distortion": [-0.9]}, "hfov_deg 70 exceeds"),
        ({"lens__distortion": [0.0] * 5, "lens__kind": "fisheye"}, "4 numbers at most"),
        ({"lens__cx": 1e6}, "cx must be within"),
        ({"lens__chromatic_aberration": [1.0]}, "chromatic_aberration has 1 entries for 3 bands"),
        ({"sensor__bands": ["mono", "mono"]}, "different names"),
        ({"sensor__bands": ["mono"], "sensor__bayer": "RGGB"}, "a Bayer pattern needs the bands red, green, blue"),
        ({"sensor__bands": ["thermal"]}, "the section thermal"),
        ({"thermal": {"netd_mk": 50.0, "span_c": [0.0, 100.0]}}, "section thermal"),
        ({"sensor__quantum_efficiency": [0.5]}, "quantum_efficiency has 1 entries for 3 bands"),
        ({"sensor__black_level_dn": 4095.0}, "black_level_dn must be below"),
        ({"sensor__output_bits": 12}, "output_bits"),
        ({"sensor__bands": [{"name": "x", "wavelength_nm": [500, 400], "response": [1, 1]}]}, "must increase"),
        ({"sensor__bands": ["purple"]}, r"sensor\.bands\[0\]: expected 'red', 'green', .*, got 'purple'"),
        ({"sensor__bands": [{"name": "x", "centre_nm": 500}]}, r"bands\[0\]\.width_nm: is required"),
        ({"image": {"width": 16384, "height": 16384}}, "more than 120000000 pixels"),
        ({"exposure": {"mode": "manual", "time_s": 0.5}}, "longer than a frame"),
        ({"exposure": {"min_time_s": 0.5}}, "must not be above max_time_s"),
        ({"shutter": {"kind": "rolling"}}, "needs line_time_us"),
        ({"shutter": {"kind": "global", "line_time_us": 10.0}}, "a global one exposes all rows at once"),
        ({"shutter": {"kind": "rolling", "line_time_us": 1000.0}}, "48 rows take 0.048 s"),
        ({"depth": {"kind": "stereo", "min_m": 0.1, "max_m": 5.0}}, "needs the section stereo"),
        ({"depth": {"kind": "time-of-flight", "min_m": 5.0, "max_m": 5.0}}, "must be larger than min_m"),
        ({"jpeg_quality": 0}, "jpeg_quality"),
        ({"sources": []}, "sources"),
    ],
)
def test_bad_sheets_are_refused_with_the_name_of_the_file(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        small(**changes)
    assert str(caught.value).startswith("small.yaml")
