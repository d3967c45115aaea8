"""The basin of a harbour, its gear and its bridges as parts in their own frame. Water level is z = 0."""

from __future__ import annotations

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.random import Stream
from parhelion.world.kit.many import boxes, copies, moved, quads, struts
from parhelion.world.kit.props import Part
from parhelion.world.kit.waterfront import bollard, bridge
from parhelion.world.mesh import Mesh
from parhelion.world.procedural import water
from parhelion.world.procedural.layout import LayoutObject
from parhelion.world.procedural.pieces import BRIDGE_PIER_M
from parhelion.world.shapes import grid_terrain, plane

_COPING_M = 0.35


def harbour_parts(thing: LayoutObject) -> list[Part] | None:
    """The parts of a basin, of its gear or of a bridge, or None for a thing of another sort."""
    params = thing.params
    if isinstance(params, water.BasinParams):
        return _basin(thing.size, params)
    if isinstance(params, water.BollardsParams):
        at = np.array([[x, y, 0.0] for x, y in params.points])
        return [Part("bollards", copies(bollard(), at), "steel", "quay")]
    if isinstance(params, water.FendersParams):
        return [Part("fender-strips", boxes(params.points, (0.4, 0.2, 1.2)), "rubber", "quay")]
    if isinstance(params, water.LaddersParams):
        ladders = Mesh.merged([_ladder(x, y, params.quay_m) for x, y in params.points])
        return [Part("ladders", ladders, "galvanised-steel", "ladder")]
    if isinstance(params, water.RailsParams):
        return [Part("crane-rails", boxes(params.points, (params.length_m, 0.12, 0.1)), "steel", "rail")]
    if isinstance(params, water.PilesParams):
        feet = np.array(params.points)
        piles = struts(feet, moved(feet, 0, 0, params.length_m), params.radius_m, 12)
        return [Part("dolphins", piles, "wood", "other-structure")]
    if isinstance(params, water.BridgeParams):
        return _bridge(thing.size, params)
    return None


def _basin(size: tuple[float, float, float], params: water.BasinParams) -> list[Part]:
    length, width, quay = size
    if min(length, width) < 10.0 or quay < 0.5:
        raise ConfigError(f"a basin must be at least 10 x 10 m with quays of 0.5 m, got {size!r}")
    return [
        _water(length, width, params),
        *_ground(length / 2, width / 2, quay, params),
        *_walls(length / 2, width / 2, quay, params),
    ]


def _water(length: float, width: float, params: water.BasinParams) -> Part:
    """The water's surface in cells of 1 m, with 16 plane waves of 4 to 14 m length in random directions."""
    nx, ny = int(length) + 1, int(width) + 1
    if params.ripple_m == 0:
        return Part("water", plane(nx, ny), "water", "water")
    rng = Stream(params.seed, "world/harbour/water").generator()
    x, y = np.meshgrid(np.linspace(-nx / 2, nx / 2, nx + 1), np.linspace(-ny / 2, ny / 2, ny + 1))
    wave_length, heading = rng.uniform(4.0, 14.0, 16), rng.uniform(0, 2 * np.pi, 16)
    phase = rng.uniform(0, 2 * np.pi, 16)
    k = 2.0 * np.pi / wave_length
    height = np.zeros_like(x)
    for wave in range(16):
        height += np.cos(k[wave] * (np.cos(heading[wave]) * x + np.sin(heading[wave]) * y) + phase[wave])
    # Sixteen waves of equal amplitude a have a variance of 16 a^2 / 2.
    return Part("water", grid_terrain(height * params.ripple_m * np.sqrt(2.0 / 16.0)), "water", "water")


def _ground(half_length: float, half_width: float, quay: float, params: water.BasinParams) -> list[Part]:
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
        Part("paving", _rectangles(strips, quay), "concrete", "quay"),
        Part("yard", _rectangles(back, quay), "asphalt", "road"),
        Part("bed", bed, "sand", "terrain"),
    ]


def _rectangles(rows: list[tuple[float, float, float, float]], z: float) -> Mesh:
    """Level rectangles x0, y0, x1, y1 that face up."""
    return quads([[[x0, y0, z], [x1, y0, z], [x1, y1, z], [x0, y1, z]] for x0, y0, x1, y1 in rows])


def _walls(half_length: float, half_width: float, quay: float, params: water.BasinParams) -> list[Part]:
    """Walls of granite around the basin with a concrete coping that stands out a little."""
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
    return [Part("walls", wall, "granite", "quay"), Part("coping", coping, "concrete", "quay")]


def _ladder(x: float, y: float, quay: float) -> Mesh:
    rungs = np.array([[x, y, z] for z in np.arange(-1.0, quay, 0.3)])
    rails = struts(
        [[x - 0.2, y, -1.2], [x + 0.2, y, -1.2]], [[x - 0.2, y, quay + 0.3], [x + 0.2, y, quay + 0.3]], 0.025, 6
    )
    return Mesh.merged([rails, struts(moved(rungs, -0.2, 0, 0), moved(rungs, 0.2, 0, 0), 0.015, 5)])


def _bridge(size: tuple[float, float, float], params: water.BridgeParams) -> list[Part]:
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
