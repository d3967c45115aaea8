"""Worlds from the layouts of `parhelion.world.procedural`, stored as `world.layout`, and from OpenDRIVE files."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.resources import as_file, files
from typing import Any

import numpy as np

from parhelion.core.pose import Pose
from parhelion.world.procedural.build import LayoutWorld, timed_path, world_of
from parhelion.world.procedural.city import city
from parhelion.world.procedural.countryside import forest, offroad
from parhelion.world.procedural.harbour import harbour
from parhelion.world.procedural.layout import Layout
from parhelion.world.procedural.warehouse import warehouse
from parhelion.world.world import World


def _builder(rule: Callable[..., Layout], **types: Any) -> Callable[..., LayoutWorld]:
    """Return the builder of a generator's worlds; `types` replace types of parameters that files restrict."""

    @wraps(rule)
    def build(seed: int = 0, **params: Any) -> LayoutWorld:
        return world_of(rule(**params, seed=seed))

    build.__annotations__ = {**rule.__annotations__, **types}
    return build


build_city = _builder(city)
build_forest = _builder(forest)
build_harbour = _builder(harbour)
build_off_road = _builder(offroad, height_map=str | None)


@wraps(warehouse)
def build_warehouse(seed: int = 0, **params: Any) -> LayoutWorld:
    """Build the world of a warehouse; with a roof it has lamps."""
    world = world_of(warehouse(**params, seed=seed))
    if params.get("roof", True):
        _light(world)
    return world


def _light(world: LayoutWorld) -> None:
    """Add high-bay lamps below the roof, every 8 m, of 13 000 lm each: about 200 lx on the floor (round figures)."""
    bounds = world.bounds
    assert bounds is not None  # it has a floor
    low, high = bounds
    spans = [np.linspace(a, b, max(2, round((b - a) / 8.0)) + 1) for a, b in zip(low[:2], high[:2], strict=True)]
    for x in 0.5 * (spans[0][1:] + spans[0][:-1]):
        for y in 0.5 * (spans[1][1:] + spans[1][:-1]):
            world.add_lamp(
                (float(x), float(y), float(high[2]) - 0.4),
                inner_deg=35.0,
                outer_deg=75.0,
                flux_lm=13_000.0,
                colour_temperature_k=4000.0,
                lit="always",
            )


# ---- worlds from OpenDRIVE files, written by tools/road_worlds.py ----------------------------------------------------


_DRIVE_HEIGHT_M = 1.8


def _build(name: str, seed: int, margin_m: float, ground: str, objects: bool, speed_m_s: float) -> World:
    """World of a file, with a drive along the first closed route of its lanes."""
    from parhelion.world.roads.load import load_opendrive

    with as_file(files("parhelion.world.roads") / "data" / f"{name}.xodr") as file:
        world = load_opendrive(file, seed, margin_m=margin_m, ground=ground, objects=objects)
    world.patterns = True
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
