"""Plain things of a layout as parts in their own frame: foot at z = 0, centred in x and y."""

from __future__ import annotations

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.world.kit.many import boxes, struts
from parhelion.world.kit.props import Part
from parhelion.world.mesh import Mesh
from parhelion.world.procedural import kinds
from parhelion.world.procedural.goods import pallet_parts, rack_parts
from parhelion.world.procedural.layout import LayoutObject
from parhelion.world.procedural.outlines import outline_parts
from parhelion.world.procedural.plane import beside_line, to_line
from parhelion.world.procedural.plants import bush_parts, rock_parts, tree_parts
from parhelion.world.procedural.quays import harbour_parts
from parhelion.world.procedural.relief import height_field
from parhelion.world.procedural.town_things import town_parts
from parhelion.world.shapes import grid_terrain, plane


def parts_of(thing: LayoutObject) -> list[Part]:
    """The parts of one thing, a rack's loads aside. Parts with the kind's own label take the thing's."""
    kind = kinds.KINDS[thing.kind]
    return [part._replace(label=thing.label if part.label == kind.label else part.label) for part in _parts(thing)]


def _parts(thing: LayoutObject) -> list[Part]:
    length, width, height = thing.size
    params = thing.params
    if isinstance(params, kinds.RackParams):
        return rack_parts(length, width, height, params)
    if isinstance(params, kinds.PalletParams):
        return pallet_parts(length, width, height, params.goods)
    if isinstance(params, kinds.TreeParams):
        return tree_parts(length, width, height, params)
    if isinstance(params, kinds.BushParams):
        return bush_parts(length, width, height, params)
    if isinstance(params, kinds.RockParams):
        return rock_parts(length, width, height, params)
    if isinstance(params, kinds.TerrainParams):
        return terrain_parts(thing, params)
    if isinstance(params, kinds.DoorParams):
        return _door(length, width, height, params)
    if isinstance(params, kinds.MarkerParams):
        return _marker(length, width, height, params)
    if isinstance(params, kinds.AnchorParams):
        return _anchor(length, width, height)
    if isinstance(params, kinds.ChargerParams):
        return _charger(length, width, height)
    if isinstance(params, kinds.ConeParams):
        return _cone(length, width, height)
    if isinstance(params, kinds.PillarParams) and params.round:
        pillar = struts([[0.0, 0.0, 0.0]], [[0.0, 0.0, height]], 0.5, 24).scaled((length, width, 1.0))
        return [Part("pillar", pillar, params.material, "column")]
    if isinstance(params, kinds.GroundParams):
        return [Part("ground", plane(length, width), params.material, "floor")]
    if isinstance(params, (kinds.WallParams, kinds.BoxParams, kinds.PillarParams, kinds.RoofParams)):
        block = boxes([[0.0, 0.0, height / 2]], thing.size)
        return [Part(thing.kind, block, params.material, kinds.KINDS[thing.kind].label)]
    parts = town_parts(thing)
    if parts is None:
        parts = harbour_parts(thing)
    if parts is None:
        parts = outline_parts(thing)
    if parts is not None:
        return parts
    raise ConfigError(f"layout: there is no way to build a {thing.kind}")


def _door(length: float, width: float, height: float, params: kinds.DoorParams) -> list[Part]:
    """The leaf of a rolling door, raised by its open share; all of it is wound up into a beam at the head."""
    free, roll = params.free_height(height), params.drum_height(height)
    leaf = boxes([[0.0, 0.0, (free + height) / 2]], (length, 0.4 * width, height - free))
    drum = boxes([[0.0, 0.0, height - roll / 2]], (length, width, roll))
    return [Part("leaf", Mesh.merged([leaf, drum]), params.material, "door")]


def _marker(length: float, width: float, height: float, params: kinds.MarkerParams) -> list[Part]:
    """A thin sheet on the +x face of a plate."""
    middle = height / 2
    plate = boxes([[-length / 4, 0.0, middle]], (length / 2, width, height))
    sheet = boxes([[length / 4, 0.0, middle]], (length / 2, 0.96 * width, 0.96 * height))
    return [Part("plate", plate, "aluminium", "target"), Part("sheet", sheet, params.material, "target")]


def _anchor(length: float, width: float, height: float) -> list[Part]:
    """A housing with a short aerial."""
    body = boxes([[0.0, 0.0, 0.35 * height]], (length, width, 0.7 * height))
    aerial = struts([[0.0, 0.0, 0.7 * height]], [[0.0, 0.0, height]], 0.15 * min(length, width), 8)
    return [Part("housing", Mesh.merged([body, aerial]), "plastic", "object")]


def _charger(length: float, width: float, height: float) -> list[Part]:
    """A cabinet with two copper rails low on its +x face."""
    cabinet = boxes([[-0.05 * length, 0.0, height / 2]], (0.9 * length, width, height))
    rails = boxes([[0.45 * length, 0.0, z * height] for z in (0.12, 0.2)], (0.1 * length, 0.6 * width, 0.04 * height))
    return [Part("cabinet", cabinet, "car-paint-white", "machine"), Part("rails", rails, "copper", "machine")]


def _cone(length: float, width: float, height: float) -> list[Part]:
    """A cone with a foot plate and a reflecting collar."""
    z = np.array([[0.06, 0.45], [0.45, 0.65], [0.65, 1.0]])
    radius = np.array([[0.36, 0.24], [0.24, 0.17], [0.17, 0.06]])
    base = np.zeros((3, 2))
    lower, upper = np.column_stack([base, z[:, 0]]), np.column_stack([base, z[:, 1]])
    scale = (length, width, height)
    foot = boxes([[0.0, 0.0, 0.03]], (0.7, 0.7, 0.06))
    body = Mesh.merged([foot, struts(lower[[0, 2]], upper[[0, 2]], radius[[0, 2]], 16)]).scaled(scale)
    collar = struts(lower[1:2], upper[1:2], radius[1:2], 16).scaled(scale)
    return [Part("body", body, "plastic", "cone"), Part("collar", collar, "retro-sheeting", "cone")]


def terrain_parts(thing: LayoutObject, params: kinds.TerrainParams) -> list[Part]:
    """The ground's triangles, those of the track apart."""
    field = height_field(thing)
    mesh = grid_terrain(field.z, field.cell)
    if not params.track:
        return [Part("ground", mesh, params.material, "terrain")]
    middle = mesh.vertices[mesh.faces][..., :2].mean(axis=1)
    on_track = np.zeros(len(middle), dtype=bool)
    rows = beside_line(middle, params.track, params.track_width_m / 2)
    on_track[rows] = to_line(middle[rows], params.track)[0] < params.track_width_m / 2
    parts = []
    for name, chosen, material, label in (
        ("ground", ~on_track, params.material, "terrain"),
        ("track", on_track, params.track_material, "road"),
    ):
        if chosen.any():
            parts.append(Part(name, mesh.select(chosen), material, label))
    return parts
