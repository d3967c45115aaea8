"""Things of streets and quays as parts in their own frame: foot at z = 0 (of a vessel, the water's level).

Most have a natural size, that of what their maker draws; where a layout says another size they are stretched to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.random import Stream
from parhelion.world.kit import city_ground, props, vehicles, waterfront
from parhelion.world.kit.buildings import Band, building
from parhelion.world.kit.many import boxes
from parhelion.world.kit.props import Part, grouped
from parhelion.world.kit.trees import tree
from parhelion.world.lamps import Lamp
from parhelion.world.procedural import street, water
from parhelion.world.procedural.draws import generator_at
from parhelion.world.procedural.fields import Params
from parhelion.world.procedural.layout import LayoutObject

HULL_M = {"barge": 42.0, "tug": 18.0, "yacht": 10.0, "motor-boat": 8.0}
"""Length of a hull where nothing is said [m]."""
STOREY_M = 3.1
Size = tuple[float, float, float]


def _vessel(params: water.VesselParams) -> list[Part]:
    hull = HULL_M[params.type] if params.hull_m is None else params.hull_m
    if params.type == "barge":
        return waterfront.barge(generator_at(params.seed, "world/vessel"), hull, params.cargo)
    if params.type == "tug":
        return waterfront.tug(hull)
    return waterfront.sailing_yacht(hull) if params.type == "yacht" else waterfront.motor_boat(hull)


def _containers(params: water.ContainersParams) -> list[Part]:
    paint = np.array([waterfront.CONTAINER_PAINTS.index(name) for name in params.paints])
    return waterfront.painted_containers(paint, np.array([[0.0, 0.0, params.base_m]]), np.zeros(1), len(paint))


_NATURAL: dict[type[Params], Callable[[Any], list[Part]]] = {
    street.BenchParams: lambda _: props.bench(),
    street.LampParams: lambda p: props.lamp_pole(p.height_m, p.arm_m),
    street.SignParams: lambda p: props.traffic_sign(p.plate),
    street.LightParams: lambda p: props.traffic_light(arm=p.arm_m),
    street.BinParams: lambda _: props.litter_bin(),
    street.HydrantParams: lambda _: props.hydrant(),
    street.BicycleParams: lambda _: vehicles.bicycle(),
    street.ShelterParams: lambda _: props.shelter(),
    street.CarParams: lambda p: vehicles.car(p.shape, p.paint),
    street.LorryParams: lambda p: vehicles.lorry(p.paint),
    street.PersonParams: lambda p: props.person(p.height_m, p.stride_m),
    water.VesselParams: _vessel,
    water.CraneParams: lambda p: waterfront.crane(p.reach_m, p.lift_deg),
    water.ContainersParams: _containers,
}
"""Makers of things that have a natural size."""


@lru_cache(maxsize=256)
def _natural(params: Params) -> tuple[tuple[Part, ...], Size]:
    """The parts of a thing, and its size: twice as far as it reaches from its middle along x and y, and its height."""
    parts = _NATURAL[type(params)](params)
    points = np.concatenate([part.mesh.vertices for part in parts])
    across = 2.0 * np.abs(points[:, :2]).max(axis=0)
    height = points[:, 2].max() - getattr(params, "base_m", 0.0)
    return tuple(parts), (float(across[0]), float(across[1]), float(height))


def natural_size(params: Params) -> Size:
    """Length, width and height [m] of what the maker of such a thing draws."""
    return _natural(params)[1]


def town_parts(thing: LayoutObject) -> list[Part] | None:
    """The parts of a thing of streets or quays, or None for one of another sort."""
    params = thing.params
    if type(params) in _NATURAL:
        parts, size = _natural(params)
        if thing.size == size:
            return list(parts)
        factor = tuple(wanted / own for wanted, own in zip(thing.size, size, strict=True))
        return [part._replace(mesh=part.mesh.scaled(factor)) for part in parts]
    if isinstance(params, street.BuildingParams):
        return _building(thing.size, params)
    if isinstance(params, street.PlantedTreeParams):
        return list(_planted(thing.size, params))
    if isinstance(params, street.FenceParams):
        return _fence(thing.size, params)
    if isinstance(params, street.TreePitsParams):
        return [city_ground.tree_pits(np.array(params.points), params.width_m)]
    if isinstance(params, street.StreetsParams):
        return _streets(thing.size, params)
    return None


def lamps_of(thing: LayoutObject) -> list[Lamp]:
    """The lights of a thing in its own frame: that of a street lamp, none of all others."""
    if not isinstance(thing.params, street.LampParams):
        return []
    lamp = Lamp(**props.street_light(thing.params.height_m, thing.params.arm_m))
    factor = [wanted / own for wanted, own in zip(thing.size, natural_size(thing.params), strict=True)]
    x, y, z = (place * stretch for place, stretch in zip(lamp.xyz, factor, strict=True))
    return [lamp.model_copy(update={"xyz": (x, y, z)})]


def bands_of(height: float, params: street.BuildingParams) -> list[Band]:
    """A building's storeys; where none are said, equal ones of about 3.1 m that fill its height [m]."""
    if params.bands:
        top = params.bands[-1].bottom_m + params.bands[-1].storeys * params.bands[-1].storey_height_m
        if abs(top - height) > 1e-3:
            raise ConfigError(f"the height of a building must be that of its bands, {top:g} m, got {height:g}")
        return [
            Band(
                band.bottom_m,
                band.storeys,
                band.storey_height_m,
                band.pitch_m,
                band.window_width_m,
                band.sill_m,
                band.window_height_m,
                band.recess_m,
            )
            for band in params.bands
        ]
    storeys = max(1, round(height / STOREY_M))
    each = height / storeys
    return [Band(0.0, storeys, each, 3.3, 1.3, 0.28 * each, 0.5 * each)]


def _building(size: Size, params: street.BuildingParams) -> list[Part]:
    length, width, height = size
    parts = building(
        generator_at(params.seed, "world/building"),
        length,
        width,
        bands_of(height, params),
        wall=params.wall,
        roof=params.roof,
        balconies=params.balconies,
        blind_sides=params.blind_sides,
    )
    if params.gates:
        gate = boxes([[s * 0.3 * length, -width / 2 - 0.03, 1.55] for s in (-1, 1)], (3.0, 0.1, 3.1))
        parts.append(Part("gates", gate, "galvanised-steel", "building"))
    return parts


_drawn: dict[tuple[Size, street.PlantedTreeParams], list[Part]] = {}


def remember_tree(size: Size, params: street.PlantedTreeParams, parts: list[Part]) -> None:
    """Keep the parts of a tree that was drawn to pass its part of a stream over, so that it is not drawn again."""
    if len(_drawn) >= 64:
        _drawn.clear()
    _drawn[size, params] = parts


@lru_cache(maxsize=64)
def _planted(size: Size, params: street.PlantedTreeParams) -> tuple[Part, ...]:
    length, width, height = size
    if params.clear_trunk_m >= 0.9 * height:
        raise ConfigError(f"clear_trunk_m must be below 0.9 of the height, {0.9 * height:g} m")
    if (size, params) in _drawn:
        return tuple(_drawn.pop((size, params)))
    rng = generator_at(params.seed, "world/planted-tree")
    parts = tree(rng, height, length / 2, params.clear_trunk_m, params.leaves, params.leaf_m)
    if width == length:
        return tuple(parts)
    return tuple(part._replace(mesh=part.mesh.scaled((1.0, width / length, 1.0))) for part in parts)


def fence_lines(size: Size, params: street.FenceParams) -> tuple[street.Line, ...]:
    """Starts and ends of a fence's lines in its own frame."""
    return params.lines or (((-size[0] / 2, 0.0), (size[0] / 2, 0.0)),)


def _fence(size: Size, params: street.FenceParams) -> list[Part]:
    pieces = []
    for row, (start, end) in enumerate(fence_lines(size, params)):
        if start == end:
            raise ConfigError(f"lines[{row}] of a fence must have two different ends")
        pieces += props.fence(start, end, size[2], params.base_m)
    return grouped(pieces)


def streets_side(blocks: int) -> float:
    """Length of a grid of streets with its belt of hills [m]."""
    return 2 * (blocks * city_ground.PITCH / 2 + city_ground.ROAD_HALF + city_ground.TERRAIN_WIDTH)


def _streets(size: Size, params: street.StreetsParams) -> list[Part]:
    side = streets_side(params.blocks)
    if max(abs(size[0] - side), abs(size[1] - side)) > 1e-3:
        raise ConfigError(f"streets of {params.blocks} blocks a side have the size [{side:g}, {side:g}, 0]")
    green = np.zeros(params.blocks**2, dtype=bool)
    green[list(params.lawns)] = True
    return [
        *city_ground.ground(Stream(params.seed, "world/city/ground").generator(), params.blocks, green),
        city_ground.markings(params.blocks),
        city_ground.manholes(Stream(params.seed, "world/city/manholes").generator(), params.blocks),
    ]
