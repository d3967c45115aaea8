"""Unseen objects and the order of adding objects change no bit of any record.

Every preset family of every kind measures two worlds in clear air and in rain: as they are, with a small box 3 m under
the ground that is added first, one behind a wall and one 3 km away, and with the objects added in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.sensors.check import arrays_of
from parhelion.sensors.kinds import kinds

Add = Callable[[ph.World], object]
MOTION = ph.ConstantTwist(ph.Pose((0.3, -0.2, 1.7), rpy_deg=(1, -2, 20)), velocity=(2.0, 0.3, 0.0))
UNDER_WATER = ph.ConstantTwist(ph.Pose((0.3, -0.2, -3.0), rpy_deg=(1, 4, 20)), velocity=(1.0, 0.1, 0.0))
FAMILIES = {
    "lidar": ("hesai/at128", "hokuyo/utm-30lx", "livox/mid-360", "ouster/os0-32", "velodyne/vlp-16"),
    "camera": (
        "flir/lepton-3.5", "generic/fisheye-190", "generic/vga", "intel/realsense-d435-depth", "micasense/rededge-mx",
        "microsoft/azure-kinect-depth",
    ),
    "gnss": ("generic/phone", "u-blox/f9p"),
    "uwb": ("bluetooth/channel-sounding", "bluetooth/rssi", "qorvo/dw1000"),
    "imu": ("bosch/bmi160",),
    "odometry": ("clearpath/husky",),
    "barometer": ("bosch/bmp388",),
    "magnetometer": ("bosch/bmm150",),
}  # fmt: skip
"""Presets of the kinds whose presets differ by numbers only, or are slow; all presets of the others are measured."""


def placed(shape: Any, material: str, xyz: tuple[float, float, float], yaw: float = 0.0, **more: Any) -> Add:
    """Entry of a list of objects. Its instance number is given, as automatic ones follow the order of adding."""
    pose = ph.Pose(xyz, rpy_deg=(0.0, 0.0, yaw))
    return lambda world: world.add(shape, material=material, pose=pose, **more)


def yard() -> list[Add]:
    """Ground, walls on two sides, a glass pane, some boxes, a passing car and four anchors.

    The pane ends above the ground: a ray through it would hit either of two surfaces at the same place.
    """
    objects = [
        placed(ph.shapes.plane(120, 80), "concrete", (0, 0, 0), label="road", instance=1),
        placed(ph.shapes.box(40, 1, 5), "brick", (10, 14, 2.5), label="wall", instance=2),
        placed(ph.shapes.box(40, 1, 5), "concrete", (10, -12, 2.5), label="building", instance=3),
        placed(ph.shapes.box(0.02, 6, 4), "glass", (8, -4, 2.02), label="building", instance=4),
        placed(ph.shapes.box(1, 8, 3), "steel", (20, 3, 1.5), 15.0, label="container", instance=5),
        placed(ph.shapes.box(0.05, 0.5, 2.2), "plywood", (2.6, 0.7, 1.1), 20.0, label="board", instance=7),
        placed(ph.shapes.sphere(0.6), "plastic", (4, 4, 1.0), label="box", instance=6),
    ]
    for k, (x, y) in enumerate([(9, 9), (9, -9), (-9, 9), (-9, -9)]):
        box = ph.shapes.box(0.1, 0.1, 0.1)
        objects.append(placed(box, "plastic", (x, y, 3.0 + k), name=f"anchor-{k}", instance=10 + k))
    drive = ph.ConstantTwist(ph.Pose((12.0, 5.0, 0.8)), velocity=(-8.0, 0.0, 0.0))
    objects.append(
        lambda world: world.add_actor(
            ph.shapes.box(4.2, 1.8, 1.5), material="car-paint-white", trajectory=drive, label="car", instance=20
        )
    )
    return objects


def hall() -> list[Add]:
    """A closed hall of six slabs whose middle is not at the zero of the world, with pillars and anchors."""
    objects = [
        placed(ph.shapes.box(34, 26, 0.5), "concrete", (7, 3, -0.25), label="floor", instance=1),
        placed(ph.shapes.box(34, 26, 0.3), "concrete", (7, 3, 7.0), label="ceiling", instance=2),
        placed(ph.shapes.box(0.05, 0.5, 2.2), "plywood", (2.6, 0.7, 1.1), 20.0, label="board", instance=7),
    ]
    for k, (x, y, yaw) in enumerate([(7, 15.5, 0), (7, -9.5, 0), (23.5, 3, 90), (-9.5, 3, 90)]):
        wall = ph.shapes.box(34 if yaw == 0 else 25, 0.4, 7)
        objects.append(placed(wall, "plaster", (x, y, 3.5), yaw, label="wall", instance=30 + k))
    for k, (x, y) in enumerate([(4, 5), (12, 5), (4, -5), (12, -5)]):
        objects.append(placed(ph.shapes.cylinder(0.3, 6.8), "steel", (x, y, 3.4), label="pole", instance=10 + k))
        box = ph.shapes.box(0.1, 0.1, 0.1)
        objects.append(placed(box, "plastic", (x + 2, y, 2.5), name=f"anchor-{k}", instance=20 + k))
    return objects


def basin() -> list[Add]:
    """Water over a sandy bed, with a quay and some stones: for sonar."""
    return [
        placed(ph.shapes.plane(80, 80), "water", (0, 0, 0), label="water", instance=1),
        placed(ph.shapes.plane(80, 80), "gravel", (0, 0, -9), label="terrain", instance=2),
        placed(ph.shapes.box(1, 60, 12), "concrete", (15, 0, -4), label="wall", instance=3),
        placed(ph.shapes.sphere(0.7), "granite", (6, 2, -8.5), label="rock", instance=4),
        placed(ph.shapes.box(1, 1, 1), "steel", (8, -3, -8.5), 30.0, label="box", instance=5),
    ]


WORLDS = {"yard": yard, "hall": hall, "basin": basin}
UNSEEN = (
    placed(ph.shapes.box(0.2, 0.2, 0.2), "wood", (4.0, 1.0, -3.0), label="box", instance=90),
    placed(ph.shapes.box(2.0, 2.0, 2.0), "steel", (3.0, 70.0, 1.0), label="box", instance=91),
    placed(ph.shapes.box(1.0, 1.0, 1.0), "wood", (30.0, 3000.0, 0.5), label="box", instance=92),
)
UNSEEN_IN_WATER = (
    placed(ph.shapes.box(0.2, 0.2, 0.2), "wood", (4.0, 1.0, -12.0), label="box", instance=90),
    placed(ph.shapes.box(2.0, 2.0, 2.0), "steel", (30.0, 3.0, -5.0), label="box", instance=91),
    placed(ph.shapes.box(1.0, 1.0, 1.0), "wood", (3000.0, 30.0, -4.0), label="box", instance=92),
)


def world_of(objects: list[Add], weather: ph.Weather | None) -> ph.World:
    world = ph.World("site")
    for add in objects:
        add(world)
    if weather is not None:
        world.weather = weather
    return world


def variants(name: str) -> Iterator[tuple[str, list[Add]]]:
    objects = WORLDS[name]()
    first, *others = UNSEEN_IN_WATER if name == "basin" else UNSEEN
    yield "as it is", objects
    yield "unseen objects", [first, *objects, *others]
    yield "another order", [*objects[3:], *reversed(objects[:3])]


def named(record: Any) -> dict[str, Any]:
    """Arrays of a record. Materials are numbered in the order of adding, so they are compared by name."""
    arrays, names = arrays_of(record), getattr(record, "names", {}).get("material", {})
    if "material" in arrays:
        arrays["material"] = np.array([names.get(int(code), "none") for code in arrays["material"].ravel()])
    return arrays


def presets() -> Iterator[Any]:
    for kind in kinds():
        for preset in FAMILIES.get(kind, ph.presets(kind)):
            yield pytest.param(kind, preset, id=preset)


def sensor_of(kind: str, preset: str) -> Any:
    options = {"width": 80, "samples": 2} if kind == "camera" else {}
    return ph.sensor(kind, preset, **options)


@pytest.mark.parametrize(("kind", "preset"), presets())
def test_unseen_objects_and_the_order_of_objects_change_no_bit(kind: str, preset: str) -> None:
    sensor = sensor_of(kind, preset)
    in_water = kind == "echo" and sensor.config.medium.kind == "water"
    for name in ("basin",) if in_water else ("yard", "hall"):
        for weather in (None, ph.Weather(rain_rate_mm_h=25)):
            found: dict[str, Any] = {}
            for variant, objects in variants(name):
                world, motion = world_of(objects, weather), UNDER_WATER if in_water else MOTION
                if hasattr(sensor, "run"):
                    record = sensor.run(world, motion, start=0.0, duration=3.0 / sensor.rate_hz, seed=7)
                else:
                    record = sensor.measure(world, motion, time=0.3, seed=7)
                found[variant] = named(record)
            first = found.pop("as it is")
            assert any(values.size for values in first.values())
            for variant, arrays in found.items():
                differing = [key for key in first if arrays[key].tobytes() != first[key].tobytes()]
                where = f"{preset} in {name}, {'clear air' if weather is None else 'rain'}, {variant}"
                assert not differing, f"{where}: {differing} differ"


@pytest.mark.parametrize(
    ("kind", "preset"), [("uwb", "qorvo/dw1000"), ("uwb", "bluetooth/rssi"), ("echo", "cosys/ertis-array")]
)
def test_an_object_in_sight_changes_the_record(kind: str, preset: str) -> None:
    board = placed(ph.shapes.box(0.2, 4.0, 3.0), "brick", (1.5, 0.4, 1.5), label="wall", instance=93)
    plain, changed = (
        named(sensor_of(kind, preset).measure(world_of(objects, None), MOTION, time=0.3, seed=7))
        for objects in (yard(), [*yard(), board])
    )
    assert any(plain[key].tobytes() != changed[key].tobytes() for key in plain)
