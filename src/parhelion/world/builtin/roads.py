"""Built-in worlds from OpenDRIVE files that ship with the package, written by tools/road_worlds.py."""

from __future__ import annotations

from importlib.resources import as_file, files

from parhelion.core.pose import Pose
from parhelion.world.procedural.build import timed_path
from parhelion.world.roads.load import load_opendrive
from parhelion.world.world import World

_DRIVE_HEIGHT_M = 1.8


def _build(name: str, seed: int, margin_m: float, ground: str, objects: bool, speed_m_s: float) -> World:
    """World of a file, with a drive along the first closed route of its lanes."""
    with as_file(files("parhelion.world.roads") / "data" / f"{name}.xodr") as file:
        world = load_opendrive(file, seed, margin_m=margin_m, ground=ground, objects=objects)
    line = world.lanes.closed_line(world.lanes.loops()[0], 2.0)
    world.path = timed_path(line[:, :2], speed_m_s, line[:, 2] + _DRIVE_HEIGHT_M)
    x, y, z = line[0].tolist()
    ahead = world.path.sample([0.0])[1][0]
    world.viewpoint = Pose((x, y, z + _DRIVE_HEIGHT_M), ahead)
    return world


def build_highway(seed: int = 0, *, margin_m: float = 40.0, ground: str = "grass", objects: bool = True) -> World:
    """Build the motorway."""
    return _build("highway", seed, margin_m, ground, objects, 25.0)


def build_park(seed: int = 0, *, margin_m: float = 40.0, ground: str = "grass", objects: bool = True) -> World:
    """Build the park."""
    return _build("park", seed, margin_m, ground, objects, 1.5)


def build_roundabout(seed: int = 0, *, margin_m: float = 40.0, ground: str = "grass", objects: bool = True) -> World:
    """Build the roundabout."""
    return _build("roundabout", seed, margin_m, ground, objects, 7.0)


def build_suburb(seed: int = 0, *, margin_m: float = 40.0, ground: str = "grass", objects: bool = True) -> World:
    """Build the residential streets."""
    return _build("suburb", seed, margin_m, ground, objects, 7.0)
