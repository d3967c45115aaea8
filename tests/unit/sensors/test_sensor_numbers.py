"""Recorded numbers of whole measurements, one or more per kind of sensor that senses waves or light."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.sensors.optics.camera.config import Stereo
from parhelion.sensors.optics.camera.depth import StereoCalibration
from pins import check, of_this_processor
from soak.rigs import MOTION, yard

pytestmark = of_this_processor


def street() -> ph.World:
    """The yard with a tower, a post, a glass pane and a person."""
    world = yard()
    for size, material, label, place in (
        ((8, 8, 30), "concrete", "building", (-12, 6, 15)), ((0.2, 0.2, 3), "steel", "pole", (6, -3, 1.5)),
        ((0.05, 4, 3), "glass", "window", (9, -6, 1.5)), ((0.5, 0.5, 1.7), "fabric", "person", (5, 2, 0.85)),
        ((8, 8, 14), "leaves", "vegetation", (2, 8, 12)), ((8, 8, 14), "leaves", "vegetation", (-8, -4, 12)),
    ):  # fmt: skip
        world.add(ph.shapes.box(*size), material=material, label=label, pose=ph.Pose(place))
    world.add(ph.shapes.sphere(0.4), material="steel", label="ball", pose=ph.Pose((7.0, 0.5, 1.2)))
    return world


def pinned(name: str, record: Any, rel: float = 1e-6) -> None:
    """Compare all numeric columns of a record."""
    arrays = {key: value for key, value in vars(record).items() if isinstance(value, np.ndarray)}
    arrays |= dict(vars(record).get("fields", {}))
    numeric = {key: value for key, value in arrays.items() if value.dtype.kind in "fiubc"}
    numeric["scalars"] = np.array([value for value in vars(record).values() if isinstance(value, (int, float))])
    assert len(numeric) > 3
    check(name, rel=rel, rows=float(len(record)) if hasattr(record, "__len__") else 0.0, **numeric)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("u-blox/m8", {}), ("u-blox/f9p", {}), ("generic/automotive", {}),
        ("u-blox/f9p", {"latitude_deg": -33.0, "longitude_deg": 151.0, "epoch": "2022-07-01T03:00:00+00:00"}),
    ],
)  # fmt: skip
def test_positions(model: str, options: dict[str, Any]) -> None:
    found = ph.Gnss(model, rate_hz=2.0, **options).run(street(), MOTION, duration=3.0, seed=5)
    pinned(f"gnss/{model}-{len(options)}", found, rel=1e-5)


@pytest.mark.parametrize("model", ["u-blox/f9p", "generic/survey"])
def test_positions_with_corrections(model: str) -> None:
    """Under open sky, single, differential, float and fixed solutions follow each other; the street loses carriers."""
    for name, world in (("open", yard()), ("street", street())):
        receiver = ph.Gnss(model, rate_hz=0.5, rtk_baseline_km=12.0)
        pinned(
            f"gnss/{model}-rtk-{name}", receiver.run(world, ph.Fixed(ph.Pose((4, 0, 2))), duration=40.0, seed=5), 1e-5
        )


def test_positions_by_the_rules_of_vane() -> None:
    receiver = ph.Gnss("u-blox/f9p", rate_hz=1.0, rule="vane")
    drive = ph.ConstantTwist(ph.Pose((-6.5, -1.0, 1.5)), velocity=(1.0, 0.5, 0.0))
    pinned("gnss/vane", receiver.run(street(), drive, duration=3.0, seed=5), rel=1e-5)


@pytest.mark.parametrize("model", ["bluetooth/channel-sounding", "ieee/802.11mc-80mhz", "qorvo/dw3000"])
def test_radio_ranges_of_other_standards(model: str) -> None:
    tag = ph.Uwb(model, rate_hz=5.0)
    pinned(f"uwb/{model}", tag.run(street(), MOTION, duration=1.0, seed=5), rel=1e-5)


@pytest.mark.parametrize("diffraction", [False, True])
@pytest.mark.parametrize("model", ["qorvo/dw1000", "bluetooth/rssi"])
def test_radio_ranges(model: str, diffraction: bool) -> None:
    more = {"cir": True, "diffuse": True} if model == "qorvo/dw1000" else {}
    tag = ph.Uwb(model, diffraction=diffraction, rate_hz=5.0, **more)
    pinned(f"uwb/{model}-{diffraction}", tag.run(street(), MOTION, duration=1.0, seed=5), rel=1e-5)


@pytest.mark.parametrize("mode", ["cube", "cluster"])
@pytest.mark.parametrize("model", ["ti/iwr6843", "continental/ars408-21-far"])
def test_radar_detections(model: str, mode: str) -> None:
    world = street()
    world.weather = ph.Weather(rain_rate_mm_h=30)
    found = ph.Radar(model, mode=mode).measure(world, MOTION, time=0.2, seed=5)
    pinned(f"radar/{model}-{mode}", found, rel=1e-3)


def test_samples_of_a_radar() -> None:
    radar = ph.Radar("ti/iwr6843", cube=True)
    found = radar.measure(street(), MOTION, time=0.2, seed=5)
    assert found.cube is not None
    check(
        "radar/samples",
        rel=1e-3,
        adc=radar.adc(street(), trajectory=MOTION, time=0.2, seed=5).samples,
        power=found.cube.power,
    )


@pytest.mark.parametrize("model", ph.presets("echo"))
def test_echoes(model: str) -> None:
    world = street()
    world.add_sound(name="fan", level_db=85, tone_khz=40.0, xyz=(3, 1, 1))
    pinned(f"echo/{model}", ph.Echo(model).measure(world, MOTION, time=0.2, seed=5), rel=1e-3)


@pytest.mark.parametrize(
    "model", [one for one in ph.presets("camera") if one.startswith(("flir/", "intel/", "microsoft/", "onsemi/"))]
)
def test_pictures(model: str) -> None:
    world = street()
    world.weather = ph.Weather(rain_rate_mm_h=30)
    camera = ph.Camera(model, width=64, samples=2, denoise="none", lens_drops=3)
    pinned(f"camera/{model}", camera.measure(world, MOTION, time=0.2, seed=5), rel=3e-3)


def test_the_calibration_of_a_stereo_unit() -> None:
    stereo = Stereo(baseline_m=0.05, offset_px=0.1, tilt_px=0.2, scale=0.01)
    found = StereoCalibration.of(stereo, "unit 7")
    numbers = [found.offset_px, *found.tilt_px, found.scale]
    check("camera/stereo-unit", numbers=numbers, error=found.error_px((3, 4)))


# ---- other places, modes and models ----------------------------------------------------------------------------------


def rooms() -> ph.World:
    """Two rooms behind walls of 0.2 m, one of which has a door; a cupboard, a tree in a tub, and a sheet of glass."""
    world = ph.World("rooms")
    for size, material, place in (
        ((10, 6, 0.2), "concrete", (0, 0, -0.1)), ((10, 6, 0.2), "concrete", (0, 0, 2.8)),
        ((10, 0.2, 2.7), "brick", (0, 3, 1.35)), ((10, 0.2, 2.7), "brick", (0, -3, 1.35)),
        ((0.2, 6, 2.7), "concrete", (5, 0, 1.35)), ((0.2, 6, 2.7), "concrete", (-5, 0, 1.35)),
        ((0.12, 4.5, 2.7), "plaster", (0, 0.75, 1.35)), ((0.6, 0.4, 1.8), "wood", (2.5, 2.0, 0.9)),
        ((0.6, 0.6, 0.6), "leaves", (-2.0, 1.0, 1.4)), ((0.4, 0.4, 0.4), "leaves", (-2.8, 1.1, 1.4)),
    ):  # fmt: skip
        world.add(ph.shapes.box(*size), material=material, label="wall", pose=ph.Pose(place))
    world.add(ph.shapes.board(1.0, 1.0), material="glass", label="pane", pose=ph.Pose((1.5, -1.0, 1.2)))
    for k, place in enumerate([(4.5, 2.5, 2.4), (4.5, -2.5, 2.2), (-4.5, 2.4, 2.3), (-4.5, -2.4, 2.5)]):
        world.add(
            ph.shapes.box(0.1, 0.1, 0.1), material="plastic", label="anchor", name=f"anchor-{k}", pose=ph.Pose(place)
        )
    return world


@pytest.mark.parametrize("order", [0, 2])
def test_ranges_within_rooms(order: int) -> None:
    walk = ph.ConstantTwist(ph.Pose((-3.5, 1.0, 1.4)), velocity=(4.0, -0.8, 0.0))
    tag = ph.Uwb("qorvo/dw1000", rate_hz=4.0, cir=True, diffuse=True, diffraction=True, order=order)
    pinned(f"uwb/rooms-{order}", tag.run(rooms(), walk, duration=1.5, seed=5), 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "mode"), [("cosys/ertis-array", "passive"), ("generic/forward-looking-750", "both")])
def test_sounds_at_microphones(model: str, mode: str, tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "knock.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(192_000)
        file.writeframes((12_000 * np.sin(np.arange(3000) ** 1.3)).astype("<i2").tobytes())
    world = rooms()
    config = ph.Echo(model).config
    config = config.model_copy(update={"microphones_mm": config.microphones_mm[:3], "mode": mode})
    low, high = (1e-3 * edge for edge in config.band_hz)
    middle, louder = 0.5 * (low + high), 0 if mode == "passive" else 90  # water: above 1 µPa
    car = world.add_actor(
        ph.shapes.box(0.2, 0.2, 0.2), material="steel", label="cart",
        trajectory=ph.ConstantTwist(ph.Pose((-1.0, -2.0, 0.5)), (3.0, 0.4, 0)),
    )  # fmt: skip
    world.add_sound(name="whistle", level_db=95 + louder, tone_khz=middle, xyz=(-2.0, -1.5, 1.2))
    world.add_sound(name="hiss", level_db=90 + louder, band_khz=(0.9 * low, middle), xyz=(-3.0, 2.2, 1.6))
    world.add_sound(name="cart", level_db=92 + louder, band_khz=(middle, high), xyz=(0, 0, 0.3), carrier=car)
    world.add_sound(name="far", level_db=60 + louder, tone_khz=min(2.0 * high, 1000.0), xyz=(-3.0, 2.2, 1.6))
    if model.startswith("cosys"):
        world.add_sound(name="knock", level_db=88, wav="knock.wav", folder=tmp_path, xyz=(-1.0, 2.0, 0.8))
    place = ph.ConstantTwist(ph.Pose((-4.0, -1.0, 1.3), rpy_deg=(2, -3, 30)), velocity=(0.5, 0.1, 0.0))
    listener = ph.Echo(config, rays=3000, bounces=1, waveform=mode == "passive")
    found = listener.measure(world, place, time=0.2, seed=5)
    assert {1, 2, 3} <= set(found.source)
    pinned(f"echo/{model}-{mode}", found, rel=1e-3)
    if mode == "passive":
        assert found.waveform is not None
        check(f"echo/{model}-pressure", rel=1e-3, pressure=found.waveform.samples)


@pytest.mark.parametrize("model", ["navtech/cts350-x", "ti/mmwcas-imaging", "continental/ars408-21-near"])
def test_other_radars(model: str) -> None:
    pinned(f"radar/{model}", ph.Radar(model, mode="cluster").measure(rooms(), MOTION, time=0.2, seed=5), 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["stereolabs/zed-2", "sony/imx586-phone", "micasense/rededge-mx", "generic/mwir-640"])
def test_other_cameras(model: str) -> None:
    world = street()
    world.weather = ph.Weather(snow_rate_mm_h=2, rain_rate_mm_h=5)
    camera = ph.Camera(model, width=48, samples=2, denoise="none", lens_drops=4)
    pinned(f"camera/{model}", camera.measure(world, MOTION, time=0.2, seed=5), 3e-3)
