"""Number of distinct kernels of radio and sound sensors: independent of edits, anchors and measurements."""

from __future__ import annotations

import math

import numpy as np
import pytest

import parhelion as ph
from parhelion.rays.device import engine
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene
from soak.rigs import measured, sensor, yard

EDITS = 8
MOST = 4
"""Casts at static and at moving geometry, each with rows of any number, and two kernels for tables."""


def _measure(kind: str, model: str, world: ph.World, edit: int) -> None:
    """Measure with other numbers of anchors, samples and diffracting edges for each edit."""
    motion = ph.ConstantTwist(ph.Pose((0, 0, 1.5)), (0.5, 0.3, 0))
    if kind == "uwb":
        anchors = {f"a{k}": (10 * math.cos(k), 10 * math.sin(k), 2 + 0.1 * k) for k in range(2 + edit)}
        tag = ph.Uwb(model, anchors=anchors, diffraction=bool(edit % 2))
        tag.run(world, motion, duration=0.3 + 0.1 * edit, seed=edit)
    elif kind == "gnss":
        ph.Gnss(model).run(world, motion, duration=0.4 + 0.2 * edit, seed=edit)
    else:
        ph.Echo(model).measure(world, pose=ph.Pose((0.1 * edit, 0, 1.5)), seed=edit)


@pytest.mark.parametrize("moving", [False, True], ids=["static", "moving"])
@pytest.mark.parametrize(
    ("kind", "model"),
    [("uwb", "qorvo/dw1000"), ("uwb", "bluetooth/rssi"), ("gnss", "u-blox/f9p"), ("echo", "cosys/ertis-array")],
)
def test_edits_anchors_and_epochs_share_a_few_kernels(kind: str, model: str, moving: bool) -> None:
    """Before kernels were independent of the number of rays, this took 40 to 160 of them."""
    dr = engine().dr
    world = ph.World()
    world.add(ph.shapes.box(40, 40, 1), material="concrete", pose=ph.Pose(xyz=(0, 0, -0.5)))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history()
        for edit in range(EDITS):
            place = ph.Pose(xyz=(3 + 2 * edit, 3 * (-1) ** edit, 1))
            world.add(
                ph.shapes.box(1, 1 + 0.1 * edit, 2 + 0.3 * edit), material=("brick", "steel")[edit % 2], pose=place
            )
            if moving:
                path = ph.ConstantTwist(ph.Pose((6, -9 + edit, 1)), (0, 0.1, 0))
                world.add_actor(ph.shapes.box(1, 1, 1), trajectory=path)
            _measure(kind, model, world, edit)
        found = {one["hash"] for one in dr.kernel_history() if one["type"] == dr.KernelType.JIT}
    assert 1 <= len(found) <= MOST


def test_casts_of_any_number_of_rays_share_one_kernel() -> None:
    """A single ray has its own kernel."""
    dr = engine().dr
    world = ph.World()
    world.add(ph.shapes.box(40, 40, 1), pose=ph.Pose(xyz=(0, 0, -0.5)))
    scene = RayScene(world.geometry())
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history()
        for count in (1, 2, 3, 7, 100, 255, 256, 257, 1000, 4097, 30_001):
            origin = np.tile([0.0, 0.0, 2.0], (count, 1))
            hits = scene.cast(Rays.of(origin, np.tile([0.0, 0.0, -1.0], (count, 1)), 0.0, 10.0))
            assert np.allclose(hits.range, 2.0)
        found = {one["hash"] for one in dr.kernel_history() if one["type"] == dr.KernelType.JIT}
    assert len(found) <= 2


@pytest.mark.parametrize("kind", ["lidar", "camera", "radar", "echo"])
def test_edits_need_no_further_recordings(kind: str) -> None:
    """Scenes are built at addresses of any alignment; each combination of alignments had a recording of its own."""
    world, one = yard(), sensor(kind)
    box = world.add(ph.shapes.box(1, 1, 1), material="brick", pose=ph.Pose((8, 0, 0.5)))

    def recordings_after(edits: int) -> int:
        nonlocal box
        for edit in range(edits):
            world.remove(box)
            box = world.add(ph.shapes.box(1, 1, 1), material="brick", pose=ph.Pose((8 + 0.01 * edit, 0, 0.5)))
            measured(one, world, seed=1)
            measured(one, world, seed=1)  # the first call may merge arrays that share their memory
        return sum(function.n_recordings for function in engine()._frozen.values())

    before = recordings_after(2)
    assert recordings_after(12) == before


def test_many_numbers_in_between_need_no_other_recordings() -> None:
    """Long runs use many times and seeds. Equal numbers of a call remain one array, as when it was recorded."""
    world, camera, one = yard(), sensor("camera"), engine()
    for k in range(3):
        measured(camera, world, time=0.1 * k, seed=k)
    before = sum(function.n_recordings for function in one._frozen.values())
    for k in range(3, 6):
        for number in range(1500):
            one.number(1e3 * k + 0.25 * number)
        measured(camera, world, time=0.1 * k, seed=k)
    assert sum(function.n_recordings for function in one._frozen.values()) == before
    assert len(one._numbers) < 2048
