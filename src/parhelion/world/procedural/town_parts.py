"""Parts of the objects of streets and quays in their own frame: base at z = 0 (the water level for vessels).

Most objects have a natural size; they are scaled if a layout gives another size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.random import Stream
from parhelion.world.emitters import Lamp
from parhelion.world.kit import city_ground, props, vehicles, waterfront
from parhelion.world.kit.buildings import Band, building, building_draws
from parhelion.world.kit.instances import boxes, copies, moved, quads, struts
from parhelion.world.kit.plants import tree
from parhelion.world.kit.props import KitPart, grouped
from parhelion.world.kit.waterfront import bollard, bridge
from parhelion.world.mesh import Mesh
from parhelion.world.procedural import kinds
from parhelion.world.procedural.footprints import BRIDGE_PIER_M, fence_lines
from parhelion.world.procedural.kinds import Params, generator_at, place_of
from parhelion.world.procedural.layout import LayoutObject
from parhelion.world.shapes import grid_terrain, plane

HULL_M = {"barge": 42.0, "tug": 18.0, "yacht": 10.0, "motor-boat": 8.0}
"""Default length of a hull [m]."""
STOREY_M = 3.1
Size = tuple[float, float, float]


def _vessel(params: kinds.VesselParams) -> list[KitPart]:
    hull = HULL_M[params.type] if params.hull_m is None else params.hull_m
    if params.type == "barge":
        return waterfront.barge(generator_at(params.seed, "world/vessel"), hull, params.cargo)
    if params.type == "tug":
        return waterfront.tug(hull)
    return waterfront.sailing_yacht(hull) if params.type == "yacht" else waterfront.motor_boat(hull)


def _containers(params: kinds.ContainersParams) -> list[KitPart]:
    paint = np.array([waterfront.CONTAINER_PAINTS.index(name) for name in params.paints])
    return waterfront.painted_containers(paint, np.array([[0.0, 0.0, params.base_m]]), np.zeros(1), len(paint))


_NATURAL: dict[str, Callable[[Any], list[KitPart]]] = {
    "bench": lambda _: props.bench(),
    "lamp": lambda p: props.lamp_pole(p.height_m, p.arm_m),
    "traffic-sign": lambda p: props.traffic_sign(p.plate),
    "traffic-light": lambda p: props.traffic_light(arm=p.arm_m),
    "litter-bin": lambda _: props.litter_bin(),
    "hydrant": lambda _: props.hydrant(),
    "bicycle": lambda _: vehicles.bicycle(),
    "shelter": lambda _: props.shelter(),
    "car": lambda p: vehicles.car(p.shape, p.paint),
    "lorry": lambda p: vehicles.lorry(p.paint),
    "person": lambda p: props.person(p.height_m, p.stride_m, props.Outfit(p.clothes, p.trousers, p.hair, p.long_hair)),
    "vessel": _vessel,
    "crane": lambda p: waterfront.crane(p.reach_m, p.lift_deg),
    "containers": _containers,
}
"""Functions that build the parts of kinds with a natural size."""


@lru_cache(maxsize=256)
def _natural(kind: str, params: Params) -> tuple[tuple[KitPart, ...], Size]:
    """Parts of an object, and its size: twice its reach from the middle along x and y, and its height."""
    parts = _NATURAL[kind](params)
    points = np.concatenate([part.mesh.vertices for part in parts])
    across = 2.0 * np.abs(points[:, :2]).max(axis=0)
    height = points[:, 2].max() - getattr(params, "base_m", 0.0)
    return tuple(parts), (float(across[0]), float(across[1]), float(height))


def natural_size(kind: str, params: Params) -> Size:
    """Natural length, width and height [m] of an object."""
    return _natural(kind, params)[1]


def town_parts(item: LayoutObject) -> list[KitPart]:
    """Parts of an object of streets or quays."""
    if item.kind not in _NATURAL:
        return _SIZED[item.kind](item.size, item.params)
    parts, size = _natural(item.kind, item.params)
    if item.size == size:
        return list(parts)
    factor = tuple(wanted / own for wanted, own in zip(item.size, size, strict=True))
    return [part._replace(mesh=part.mesh.scaled(factor)) for part in parts]


def lamps_of(item: LayoutObject) -> list[Lamp]:
    """Lamps of an object in its frame; only street lamps have one."""
    if not isinstance(item.params, kinds.LampParams):
        return []
    lamp = Lamp(**props.street_light(item.params.height_m, item.params.arm_m))
    factor = [wanted / own for wanted, own in zip(item.size, natural_size(item.kind, item.params), strict=True)]
    x, y, z = (place * stretch for place, stretch in zip(lamp.xyz, factor, strict=True))
    return [lamp.model_copy(update={"xyz": (x, y, z)})]


def bands_of(height: float, params: kinds.BuildingParams) -> list[Band]:
    """Storeys of a building; by default equal ones of about 3.1 m that fill its height [m]."""
    if params.bands:
        top = params.bands[-1].bottom_m + params.bands[-1].storeys * params.bands[-1].storey_height_m
        if abs(top - height) > 1e-3:
            raise ConfigError(f"the height of a building must be that of its bands, {top:g} m, got {height:g}")
        return [Band(*(value for _, value in band)) for band in params.bands]
    storeys = max(1, round(height / STOREY_M))
    each = height / storeys
    return [Band(0.0, storeys, each, 3.3, 1.3, 0.28 * each, 0.5 * each)]


def _building(size: Size, params: kinds.BuildingParams) -> list[KitPart]:
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
        open_windows=params.open_windows,
    )
    if params.gates:
        gate = boxes([[s * 0.3 * length, -width / 2 - 0.03, 1.55] for s in (-1, 1)], (3.0, 0.1, 3.1))
        parts.append(KitPart("gates", gate, "galvanised-steel", "building"))
    return parts


def pass_over_building(rng: np.random.Generator, length: float, width: float, params: kinds.BuildingParams) -> float:
    """Height [m] of a building by its bands; advances the stream by the draws of the building.

    The building itself is generated later, from the current position of the stream.
    """
    top = params.bands[-1]
    height = top.bottom_m + top.storeys * top.storey_height_m
    bands = bands_of(height, params)
    rng.random(building_draws(length, width, bands, roof=params.roof, blind_sides=params.blind_sides))
    return height


def dressed(params: kinds.PersonParams, number: int) -> kinds.PersonParams:
    """Person with the outfit of a number."""
    return params.model_copy(update=props.OUTFITS[number % len(props.OUTFITS)]._asdict())


_drawn: dict[tuple[Size, kinds.PlantedTreeParams], list[KitPart]] = {}


def drawn_tree(
    rng: np.random.Generator,
    heights: tuple[float, float],
    radii: tuple[float, float],
    clear: float,
    leaves: int,
    leaf: float,
    form: Literal["spray", "blade"] = "spray",
) -> tuple[Size, kinds.PlantedTreeParams]:
    """Size and parameters of one tree from the stream, which advances by the draws of the tree.

    Its parts are cached, so that they are not generated twice.
    """
    height, radius = float(rng.uniform(*heights)), float(rng.uniform(*radii))
    trunk = 1.45 * 0.055 * height**0.55
    params = kinds.PlantedTreeParams(
        trunk_radius_m=trunk, clear_trunk_m=clear, leaves=leaves, leaf_m=leaf, leaf_form=form, seed=place_of(rng)
    )
    if len(_drawn) >= 64:
        _drawn.clear()
    size = (2 * radius, 2 * radius, height)
    _drawn[size, params] = tree(rng, height, radius, clear, leaves, leaf, form == "blade")
    return size, params


@lru_cache(maxsize=64)
def _planted(size: Size, params: kinds.PlantedTreeParams) -> tuple[KitPart, ...]:
    length, width, height = size
    if params.clear_trunk_m >= 0.9 * height:
        raise ConfigError(f"clear_trunk_m must be below 0.9 of the height, {0.9 * height:g} m")
    if (size, params) in _drawn:
        return tuple(_drawn.pop((size, params)))
    rng = generator_at(params.seed, "world/planted-tree")
    blades = params.leaf_form == "blade"
    parts = tree(rng, height, length / 2, params.clear_trunk_m, params.leaves, params.leaf_m, blades)
    if width == length:
        return tuple(parts)
    return tuple(part._replace(mesh=part.mesh.scaled((1.0, width / length, 1.0))) for part in parts)


def _fence(size: Size, params: kinds.FenceParams) -> list[KitPart]:
    pieces = []
    for row, (start, end) in enumerate(fence_lines(size, params)):
        if start == end:
            raise ConfigError(f"lines[{row}] of a fence must have two different ends")
        pieces += props.fence(start, end, size[2], params.base_m)
    return grouped(pieces)


def streets_side(blocks: int) -> float:
    """Length of a grid of streets with its belt of hills [m]."""
    return 2 * (blocks * city_ground.PITCH / 2 + city_ground.ROAD_HALF + city_ground.TERRAIN_WIDTH)


def _streets(size: Size, params: kinds.StreetsParams) -> list[KitPart]:
    side = streets_side(params.blocks)
    if max(abs(size[0] - side), abs(size[1] - side)) > 1e-3:
        raise ConfigError(f"streets of {params.blocks} blocks per side have the size [{side:g}, {side:g}, 0]")
    green = np.zeros(params.blocks**2, dtype=bool)
    green[list(params.lawns)] = True
    return [
        *city_ground.ground(Stream(params.seed, "world/city/ground").generator(), params.blocks, green),
        city_ground.markings(params.blocks),
        city_ground.manholes(Stream(params.seed, "world/city/manholes").generator(), params.blocks),
    ]


# ---- The basin of a harbour, its equipment and its bridges; the water level is z = 0 --------------------------------


_COPING_M = 0.35


def _basin(size: Size, params: kinds.BasinParams) -> list[KitPart]:
    length, width, quay = size
    if min(length, width) < 10.0 or quay < 0.5:
        raise ConfigError(f"a basin must be at least 10 x 10 m with quays of 0.5 m, got {size!r}")
    return [
        _water(length, width, params),
        *_ground(length / 2, width / 2, quay, params),
        *_walls(length / 2, width / 2, quay, params),
    ]


def _water(length: float, width: float, params: kinds.BasinParams) -> KitPart:
    """Surface of the water in cells of 1 m, with 16 plane waves of 4 to 14 m length in random directions."""
    nx, ny = int(length) + 1, int(width) + 1
    if params.ripple_m == 0:
        return KitPart("water", plane(nx, ny), "water", "water")
    rng = Stream(params.seed, "world/harbour/water").generator()
    x, y = np.meshgrid(np.linspace(-nx / 2, nx / 2, nx + 1), np.linspace(-ny / 2, ny / 2, ny + 1))
    wave_length, heading = rng.uniform(4.0, 14.0, 16), rng.uniform(0, 2 * np.pi, 16)
    phase = rng.uniform(0, 2 * np.pi, 16)
    k = 2.0 * np.pi / wave_length
    height = np.zeros_like(x)
    for wave in range(16):
        height += np.cos(k[wave] * (np.cos(heading[wave]) * x + np.sin(heading[wave]) * y) + phase[wave])
    # Sixteen waves of equal amplitude a have a variance of 16 a^2 / 2.
    return KitPart("water", grid_terrain(height * params.ripple_m * np.sqrt(2.0 / 16.0)), "water", "water")


def _ground(half_length: float, half_width: float, quay: float, params: kinds.BasinParams) -> list[KitPart]:
    """Land on all sides, paved near the water, and the bed of the basin."""
    near, far = half_width + params.wall_m, half_width + params.land_m
    paved = half_width + min(params.paved_m, 0.9 * params.land_m)
    end, outer = half_length + params.wall_m, half_length + params.ends_m
    strips = [
        (-outer, near, outer, paved),
        (-outer, -paved, outer, -near),
        (end, -near, outer, near),
        (-outer, -near, -end, near),
    ]
    back = [(-outer, paved, outer, far), (-outer, -far, outer, -paved)]
    bed = plane(2 * half_length + 2, 2 * half_width + 2).transformed(Pose((0.0, 0.0, -params.depth_m)))
    return [
        KitPart("paving", _rectangles(strips, quay), "concrete", "quay"),
        KitPart("yard", _rectangles(back, quay), "asphalt", "road"),
        KitPart("bed", bed, "sand", "terrain"),
    ]


def _rectangles(rows: list[tuple[float, float, float, float]], z: float) -> Mesh:
    """Level rectangles x0, y0, x1, y1 that face up."""
    return quads([[[x0, y0, z], [x1, y0, z], [x1, y1, z], [x0, y1, z]] for x0, y0, x1, y1 in rows])


def _walls(half_length: float, half_width: float, quay: float, params: kinds.BasinParams) -> list[KitPart]:
    """Granite walls around the basin with a projecting concrete coping."""
    thick, bed = params.wall_m, -params.depth_m
    x, y = half_length + thick / 2, half_width + thick / 2
    sides = np.array([[0, y], [0, -y], [x, 0], [-x, 0]])
    runs = np.array([[2 * half_length + 2 * thick, thick]] * 2 + [[thick, 2 * half_width]] * 2)
    height = quay - bed - _COPING_M
    wall = boxes(np.column_stack([sides, np.full(4, bed + height / 2)]), np.column_stack([runs, np.full(4, height)]))
    proud = 0.12 * np.array([[0, 1]] * 2 + [[1, 0]] * 2)
    coping = boxes(
        np.column_stack([sides, np.full(4, quay - _COPING_M / 2)]),
        np.column_stack([runs + proud, np.full(4, _COPING_M)]),
    )
    return [KitPart("walls", wall, "granite", "quay"), KitPart("coping", coping, "concrete", "quay")]


def _ladder(x: float, y: float, quay: float) -> Mesh:
    rungs = np.array([[x, y, z] for z in np.arange(-1.0, quay, 0.3)])
    rails = struts(
        [[x - 0.2, y, -1.2], [x + 0.2, y, -1.2]], [[x - 0.2, y, quay + 0.3], [x + 0.2, y, quay + 0.3]], 0.025, 6
    )
    return Mesh.merged([rails, struts(moved(rungs, -0.2, 0, 0), moved(rungs, 0.2, 0, 0), 0.015, 5)])


def _bridge(size: Size, params: kinds.BridgeParams) -> list[KitPart]:
    deck_width, whole, height = size
    road = params.crown_m + 1.1
    if abs(height - road) > 1e-3:
        raise ConfigError(f"the height of a bridge must be 1.1 m over its crown_m, {road:g} m, got {height:g}")
    ramp = whole / 2 - (params.span_m / 2 - 1.0 + BRIDGE_PIER_M)
    if ramp < 2.0 or deck_width < 2.0:
        least = params.span_m + 2 * (BRIDGE_PIER_M + 1.0)
        raise ConfigError(f"a bridge must be at least 2 m wide and {least:g} m long for its span_m, got {size!r}")
    if params.quay_m >= road:
        raise ConfigError(f"quay_m of a bridge must be below its road at {road:g} m, got {params.quay_m:g}")
    return bridge(params.span_m, deck_width, params.crown_m, params.quay_m, ramp)


def _bollards(_: Size, params: kinds.BollardsParams) -> list[KitPart]:
    at = np.array([[x, y, 0.0] for x, y in params.points])
    return [KitPart("bollards", copies(bollard(), at), "steel", "quay")]


def _fenders(_: Size, params: kinds.FendersParams) -> list[KitPart]:
    return [KitPart("fender-strips", boxes(params.points, (0.4, 0.2, 1.2)), "rubber", "quay")]


def _ladders(_: Size, params: kinds.LaddersParams) -> list[KitPart]:
    ladders = Mesh.merged([_ladder(x, y, params.quay_m) for x, y in params.points])
    return [KitPart("ladders", ladders, "galvanised-steel", "ladder")]


def _rails(_: Size, params: kinds.RailsParams) -> list[KitPart]:
    return [KitPart("crane-rails", boxes(params.points, (params.length_m, 0.12, 0.1)), "steel", "rail")]


def _piles(_: Size, params: kinds.PilesParams) -> list[KitPart]:
    feet = np.array(params.points)
    piles = struts(feet, moved(feet, 0, 0, params.length_m), params.radius_m, 12)
    return [KitPart("dolphins", piles, "wood", "other-structure")]


_SIZED: dict[str, Callable[[Size, Any], list[KitPart]]] = {
    "building": _building,
    "planted-tree": lambda size, params: list(_planted(size, params)),
    "fence": _fence,
    "tree-pits": lambda _, params: [city_ground.tree_pits(np.array(params.points), params.width_m)],
    "streets": _streets,
    "basin": _basin,
    "bollards": _bollards,
    "fenders": _fenders,
    "ladders": _ladders,
    "rails": _rails,
    "piles": _piles,
    "bridge": _bridge,
}
"""Functions that build the parts of kinds from their size."""
