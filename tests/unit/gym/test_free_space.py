"""Free ground of worlds with known geometry."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.gym.free_space import FreeSpace


def hall(*boxes: tuple[tuple[float, float, float], tuple[float, float, float]]) -> ph.World:
    """A floor of 8 m by 4 m with boxes, given by size and centre."""
    world = ph.World("hall")
    world.add(ph.shapes.plane(8, 4), material="concrete", label="floor")
    for size, centre in boxes:
        world.add(ph.shapes.box(*size), material="wood", label="box", pose=ph.Pose(xyz=centre))
    return world


@pytest.mark.slow
def test_distance_to_a_box_and_to_the_edge() -> None:
    space = FreeSpace.of(hall(((1, 1, 1), (0, 0, 0.5))), height_m=0.5, cell_m=0.1)
    assert space.height.shape == (80, 40)
    assert np.nanmax(np.abs(space.height[space.reachable()])) < 1e-5
    assert space.clearance_at(0.0, 0.0) == pytest.approx(0.4, abs=0.2)  # on the box: up to its edge
    assert not space.reachable()[space.cell_of(0.0, 0.0)]
    assert space.clearance_at(1.55, 0.0) == pytest.approx(1.0, abs=0.15)
    assert space.clearance_at(3.85, 0.0) == pytest.approx(0.15, abs=0.1)
    assert space.clearance_at(9.0, 0.0) == 0.0
    assert np.isnan(space.height_at(9.0, 0.0))


def test_a_vehicle_passes_below_what_is_higher_than_itself() -> None:
    table = ((2, 2, 0.1), (0, 0, 1.05))
    assert FreeSpace.of(hall(table), height_m=0.9, cell_m=0.1).clearance_at(0.0, 0.0) > 1.0
    tall = FreeSpace.of(hall(table), height_m=1.2, cell_m=0.1)
    assert tall.height_at(0.0, 0.0) == pytest.approx(1.1, abs=1e-4)
    assert not tall.reachable()[tall.cell_of(0.0, 0.0)]


def test_the_ground_of_a_slab_is_its_top() -> None:
    world = ph.World("slab")
    world.add(ph.shapes.box(4, 4, 0.3), material="concrete", label="floor")
    space = FreeSpace.of(world, height_m=0.5, cell_m=0.2)
    assert space.height_at(0.0, 0.0) == pytest.approx(0.15, abs=1e-4)
    assert space.reachable().sum() > 300


def test_places_lie_in_the_larger_of_two_rooms() -> None:
    wall = ((0.02, 4, 2), (-1.234, 0, 1))  # thinner than a cell
    places = FreeSpace.of(hall(wall), height_m=0.5, cell_m=0.1).places(0.3)
    assert len(places) > 1000
    assert places[:, 0].min() > -1.234 + 0.3 - 0.1
    np.testing.assert_allclose(places[:, 2], 0.0, atol=1e-5)


@pytest.mark.parametrize(("slope", "free"), [(0.3, True), (0.8, False)])
def test_steep_ground_is_blocked(slope: float, free: bool) -> None:
    world = ph.World("slope")
    world.add(([[0, 0, 0], [4, 0, 4 * slope], [4, 4, 4 * slope], [0, 4, 0]], [[0, 1, 2], [0, 2, 3]]), label="terrain")
    space = FreeSpace.of(world, height_m=0.5, cell_m=0.2)
    assert (space.clearance_at(2.0, 2.0) > 0.5) == free
    assert space.height_at(2.1, 2.1) == pytest.approx(2.1 * slope, abs=1e-3)


def test_errors_state_the_remedy() -> None:
    with pytest.raises(ConfigError, match="the world is empty; add ground"):
        FreeSpace.of(ph.World(), height_m=0.5)
    with pytest.raises(ConfigError, match="set an area"):
        FreeSpace.of(hall(), height_m=0.5, cell_m=0.001)
    with pytest.raises(ConfigError, match=r"no place for a vehicle of radius 3\.00 m"):
        FreeSpace.of(hall(), height_m=0.5).places(3.0)


def test_an_area_limits_the_grid() -> None:
    space = FreeSpace.of(hall(), height_m=0.5, cell_m=0.5, area_m=(-1.5, -1.0, 2.0, 9.0))
    assert space.height.shape == (7, 6)
    assert space.low.tolist() == [-1.5, -1.0]
