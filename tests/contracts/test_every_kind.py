"""One script for every kind of sensor, without special cases: create, measure, save, load, compare, draw."""

from __future__ import annotations

from pathlib import Path

import pytest

import parhelion as ph

MOTION = ph.ConstantTwist(ph.Pose((0.0, 0.0, 2.0)), velocity=(1.0, 0.2, 0.0))
USERS = ("sounder", "thermometer", "toy-camera")
"""Kinds of the package in tests/user_package."""


@pytest.fixture(scope="module")
def yard() -> ph.World:
    world = ph.World("yard")
    world.add(ph.shapes.plane(50, 50), material="concrete", label="road")
    world.add(ph.shapes.box(2, 4, 3), material="brick", label="wall", pose=ph.Pose((8.0, 0.0, 1.5)))
    for k, (x, y) in enumerate([(9, 9), (9, -9), (-9, 9), (-9, -9)]):
        world.add(ph.shapes.box(0.1, 0.1, 0.1), material="plastic", name=f"anchor-{k}", pose=ph.Pose((x, y, 3.0 + k)))
    return world


@pytest.mark.usefixtures("user_package")
@pytest.mark.parametrize("kind", [*ph.sensors(), *USERS])
def test_every_kind_can_do_the_same(kind: str, yard: ph.World, tmp_path: Path) -> None:
    sensor = ph.sensor(kind, ph.presets(kind)[0], name="it")
    assert len(repr(sensor)) < 200
    measure = sensor.run if hasattr(sensor, "run") else sensor.measure
    record = measure(yard, MOTION, seed=7)
    assert isinstance(record, ph.Record)
    assert len(repr(record)) < 200
    assert "\n" not in repr(record)
    record.save(tmp_path / "record.npz")
    loaded = type(record).load(tmp_path / "record.npz")
    assert record.equals(loaded)
    assert not record.equals(measure(yard, MOTION, seed=8))
    record.plot(tmp_path / "record.png")
    assert (tmp_path / "record.png").stat().st_size > 1000
    assert len(record.to_dataframe().columns) > 0


@pytest.mark.parametrize("kind", list(ph.sensors()))
def test_every_preset_is_named_by_maker_and_model(kind: str) -> None:
    for name in ph.presets(kind):
        maker, model = name.split("/")
        assert maker
        assert model
        assert name == name.lower()
        assert repr(ph.sensor(kind, name.upper())) == repr(ph.sensor(kind, name))
