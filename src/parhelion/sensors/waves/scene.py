"""Scene for waves of one frequency: reflection and roughness of surfaces, scattering lobes and flat patches.

A flat patch reflects into a lobe whose width is limited by diffraction at the size of the patch. The facets of a curved
body approximate a smooth surface: the angle between neighbouring facets widens their lobes, so that together they
reflect as the smooth surface does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import namespace
from parhelion.core.pose import Floats
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.geometry import Triangles
from parhelion.rays.lock import DeviceOwned
from parhelion.rays.origin import Cell
from parhelion.sensors.scene import NO_MATERIAL, Covered, covered_parts, scene_cache, shared_scene
from parhelion.sensors.waves.focus import FocusObjects
from parhelion.sensors.waves.planes import connected_groups
from parhelion.surfaces.library import material as material_called
from parhelion.world.world import World

ANGLES = 65
"""Cosines of incidence at which reflection is tabulated, evenly from 0 to 1."""
HALF_POWER = 4.0 * float(np.log(2.0))
"""Exponent of a Gaussian beam in units of its full width at half power."""


@dataclass(frozen=True)
class Finish:
    """Roughness of a surface at the scale of the wavelength."""

    slope: float
    """Root of twice the variance of the surface slopes: the m of Beckmann's lobe."""
    height_m: float
    """Standard deviation of the height [m]; it attenuates the specular wave."""
    scattered_db: float
    """Diffuse backscatter [dB]: cross-section per area is this times the cosine of incidence."""


@kernel_tree()
@dataclass
class WaveSurfaces:
    """Tables of materials on the device, and the material of each part."""

    materials: Any
    """Material row of each part."""
    rows: Any
    """Four numbers per material: slope^2, (4 pi height / wavelength)^2, scattered share, 0."""
    reflection: Any
    """Power reflectance, `ANGLES` numbers per material."""

    @classmethod
    def of(
        cls,
        engine: Engine,
        part_rows: NDArray[Any],
        reflection: NDArray[np.float64],
        finishes: list[Finish],
        wavelength_m: float,
    ) -> WaveSurfaces:
        """Upload the tables; `reflection` (materials, ANGLES) is ordered by cosine of incidence."""
        columns = [
            (one.slope**2, (4.0 * np.pi * one.height_m / wavelength_m) ** 2, 10.0 ** (one.scattered_db / 10.0), 0.0)
            for one in finishes
        ]
        # Kernels cannot gather from empty arrays, so the tables have at least one row.
        rows = np.array(columns or [(0.0, 0.0, 0.0, 0.0)], np.float32)
        shares = reflection if len(reflection) else np.zeros((1, ANGLES))
        parts = part_rows if len(part_rows) else np.zeros(1, np.uint32)
        return cls(engine.table(parts), engine.table(rows), engine.table(shares.astype(np.float32)))

    def material(self, part: Any, active: Any) -> Any:
        """Material row of parts."""
        dr, mi = running_engine().dr, running_engine().mi
        return dr.gather(mi.UInt32, self.materials, dr.select(active, part, 0), active)

    def finish(self, material: Any, active: Any) -> tuple[Any, Any, Any]:
        """Slope^2, squared phase of the height at normal incidence, and scattered share."""
        dr, mi = running_engine().dr, running_engine().mi
        row = dr.gather(mi.Vector4f, self.rows, material, active)
        return row.x, row.y, row.z

    def mirrored(self, material: Any, cosine: Any, active: Any) -> Any:
        """Power reflectance of the smooth surface."""
        dr, mi = running_engine().dr, running_engine().mi
        place = cosine * (ANGLES - 1.0)
        place = dr.select(place < 0.0, 0.0, dr.select(place > ANGLES - 1.001, ANGLES - 1.001, place))
        below = mi.UInt32(place)
        at = material * ANGLES + below
        low, high = (dr.gather(mi.Float, self.reflection, at + k, active) for k in (0, 1))
        return dr.fma(place - mi.Float(below), high - low, low)


def cosines() -> NDArray[np.float64]:
    """Cosines of incidence of the reflection table, shape (ANGLES,)."""
    return np.linspace(0.0, 1.0, ANGLES)


def beckmann(cosine: Any, first: Any, second: Any, m2_first: Any, m2_second: Any) -> Any:
    """Beckmann's density of facet normals [1/sr] around a direction, with separate widths along two axes.

    `cosine`, `first` and `second` are the components of the direction along the normal and the two axes of the surface.
    The widths m^2 are twice the variance of slopes. Density times cosine integrates to 1 over the hemisphere (Beckmann
    and Spizzichino 1963; Walter et al. 2007).
    """
    xp = namespace(cosine, m2_first)
    safe = xp.maximum(cosine, 1e-4)
    inverse = 1.0 / (safe * safe)
    exponent = (first * first / m2_first + second * second / m2_second) * inverse
    value = xp.exp(-exponent) * inverse * inverse / (np.pi * xp.sqrt(m2_first * m2_second))
    return xp.where(cosine > 1e-4, value, 0.0)


def beam_gain(x: Any, aside: Any, up: Any, across: Any, upward: Any, floor: Any) -> Any:
    """Power gain relative to the axis for unit directions (x forward, `aside`, `up`): a Gaussian beam with a floor.

    `across` and `upward` are full widths at half power in direction cosines. The gain behind the antenna is zero.
    """
    xp = namespace(up, x)
    a, b = aside / across, up / upward
    bell = xp.maximum(xp.exp(-HALF_POWER * (a * a + b * b)), floor)
    return xp.where(x > 0.0, bell, 0.0)


def near_bend2(bend2: Any, length: Any, distance: Any) -> Any:
    """Squared angle [rad^2] between neighbouring facets as seen from a distance [m].

    Across a facet of `length` [m], the direction to the sensor changes by length / distance on top of the normal. Flat
    patches (`bend2` of 0) stay flat.
    """
    xp = namespace(length, bend2)
    angle = xp.sqrt(bend2) + length / distance
    return xp.where(bend2 > 1e-6, angle * angle, bend2)


def lobe_width2(length: Any, bend2: Any, slope2: Any, wavelength: Any, zone: Any, spacing: Any, distance: Any) -> Any:
    """Squared width m^2 of the scattering lobe along one axis of a patch.

    The width combines roughness, the angle to neighbouring facets and diffraction at the patch, lambda^2 / (4 pi L^2).
    A patch larger than the Fresnel zone (area `zone` [m^2]) counts as large as the zone. A distant plate then has a
    cross-section of 4 pi A^2 / lambda^2, and a wall that of a mirror, pi R^2. The angular spacing of the rays [rad] is
    added for patches many rays wide. It blurs the position of the reflection on a wall and leaves its power unchanged.
    """
    xp = namespace(length, bend2)
    square = length * length
    seen = xp.minimum(square, zone)
    footprint = 3.0 * spacing * distance
    wide = xp.where(length > footprint, spacing * spacing, 0.0)
    return slope2 + bend2 + wide + wavelength * wavelength / (4.0 * np.pi * xp.maximum(seen, 1e-12))


FLAT_RAD = np.radians(0.5)
"""Neighbours whose normals differ by less belong to one patch [rad]."""
EDGE_RAD = np.radians(40.0)
"""Neighbours whose normals differ by more meet at a real edge [rad]."""
WELD_M = 1e-4
"""Corners closer than this are merged [m]."""
WAVE_SLOPE = 0.1
"""Slope between the facets of water with waves, whose mesh changes with time."""
_BENDING = 2.0 / 3.0
"""Normalisation: three neighbours at an angle a around a triangle sum to 3/2 a^2 along every axis."""


@dataclass(frozen=True, eq=False)
class PatchRows:
    """Patch properties, one row per triangle."""

    axis: Floats
    """Unit vector along the first axis of the triangle's patch, shape (n, 3)."""
    length: Floats
    """Extents of the patch along its two axes [m], shape (n, 2). Their product is the area of the patch."""
    bend: Floats
    """Squared angle to the neighbouring facets along both axes [rad^2], shape (n, 2)."""
    number: NDArray[np.int64]
    """Number of the triangle's patch, shape (n,)."""
    edges: Floats
    """Edges opposite the three corners: vector of a sharp edge [m], and the triangle's height over it [m], shape (n, 3,
    4). The height is negative for an edge without a neighbour and 0 for edges that are not sharp."""


def patches_of(triangles: Triangles) -> PatchRows:
    """Group triangles into flat patches."""
    count = len(triangles)
    corners = triangles.vertices[triangles.faces]
    normal = triangles.normals()
    a, b = _neighbours(corners)
    angle = np.arccos(np.clip(np.abs(np.sum(normal[a] * normal[b], axis=1)), -1.0, 1.0))
    same_part = triangles.part[a] == triangles.part[b]
    flat = same_part & (angle < FLAT_RAD)
    number = connected_groups(count, a[flat], b[flat]).astype(np.int64)
    patches = int(number.max(initial=-1)) + 1
    area = 0.5 * np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    middle = corners.mean(axis=1)

    def summed(values: Floats) -> Floats:
        flat = values.reshape(count, -1)
        columns = [np.bincount(number, flat[:, k], patches) for k in range(flat.shape[1])]
        return np.stack(columns, axis=1).astype(np.float64).reshape(patches, *values.shape[1:])

    whole = summed(area[:, None])[:, 0]
    centre = summed(area[:, None] * middle) / whole[:, None]
    offset = corners - centre[number][:, None]
    # Second moments of a triangle: sum over its corners and its centre, weighted with 1/12 and 9/12 of the area.
    mean = offset.mean(axis=1)
    moment = np.einsum("nki,nkj->nij", offset, offset) + 9.0 * np.einsum("ni,nj->nij", mean, mean)
    spread = summed(area[:, None, None] * moment / 12.0) / whole[:, None, None]
    bends = (angle >= FLAT_RAD) & (angle < EDGE_RAD)
    bending = _bending(count, a[bends], b[bends], angle[bends], normal, middle)
    share = np.bincount(number, minlength=patches)[:, None, None]
    curved = _BENDING * summed(bending) / share
    return _rows(normal, number, whole, spread, curved, _sharp_edges(corners, a, b, angle))


def _sharp_edges(corners: Floats, a: NDArray[np.int64], b: NDArray[np.int64], angle: Floats) -> Floats:
    """Sharp edges of triangles with corners (n, 3, 3): those to neighbours beyond EDGE_RAD, and those without one."""
    found = np.zeros((len(corners), 3, 4))
    if not len(corners):
        return found
    for corner in range(3):
        found[:, corner, :3] = corners[:, (corner + 2) % 3] - corners[:, (corner + 1) % 3]
    length = np.linalg.norm(found[..., :3], axis=2)
    twice = np.linalg.norm(np.cross(found[:, 0, :3], found[:, 1, :3]), axis=1)
    height = twice[:, None] / np.maximum(length, 1e-12)
    middle = _position_hash(_edge_middles(corners).reshape(-1, 3)).reshape(-1, 3)
    shared, smooth = np.zeros((len(corners), 3), bool), np.zeros((len(corners), 3), bool)
    for one, other in ((a, b), (b, a)):
        # The common edge of a pair is the one whose middle both have.
        same = middle[one][:, :, None] == middle[other][:, None, :]
        row, which = np.nonzero(same.any(axis=2))
        shared[one[row], which] = True
        smooth[one[row], which] |= angle[row] < EDGE_RAD
    found[..., 3] = np.where(shared, height, -height)
    found[smooth] = 0.0
    return found


def _edge_middles(corners: Floats) -> Floats:
    """Middles of the edges opposite the three corners, shape (n, 3, 3)."""
    return np.asarray(
        0.5
        * np.stack(
            [corners[:, 1] + corners[:, 2], corners[:, 2] + corners[:, 0], corners[:, 0] + corners[:, 1]], axis=1
        )
    )


def _neighbours(corners: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of triangles that share an edge; corners (n, 3, 3).

    Pairs and their order depend on the positions of the corners only, not on the order of the triangles.
    """
    count = len(corners)
    if not count:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    place = _position_hash(corners.reshape(-1, 3)).reshape(count, 3)
    ends = np.stack([place[:, [0, 1]], place[:, [1, 2]], place[:, [2, 0]]], axis=1).reshape(-1, 2)
    low, high = (np.ascontiguousarray(one) for one in (ends.min(axis=1), ends.max(axis=1)))
    edge = _mixed(_mixed(low.view(np.uint64)) + high.view(np.uint64))
    own = _position_hash(corners.mean(axis=1))
    order = np.lexsort((np.repeat(own, 3), edge))
    sorted_edges, owner = edge[order], order // 3
    # If more than two triangles share an edge, each is paired with the next.
    pair = np.flatnonzero(sorted_edges[1:] == sorted_edges[:-1])
    return owner[pair], owner[pair + 1]


def _position_hash(xyz: Floats) -> NDArray[np.int64]:
    """One hash per position (n, 3) [m], rounded to WELD_M; three coordinates do not fit into one word.

    The finaliser of SplitMix64 (Steele, Lea and Flood 2014) mixes one coordinate after the other. Simple products of
    the coordinates collide for one in twenty edges of a sphere, whose vertices differ by signs and permutations.
    """
    found = np.zeros(len(xyz), np.uint64)
    for cells in np.round(xyz / WELD_M).astype(np.int64).view(np.uint64).reshape(-1, 3).T:
        found = _mixed(found + cells)
    return found.view(np.int64)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's next word after each of some words."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


def _bending(
    count: int, a: NDArray[np.int64], b: NDArray[np.int64], angle: Floats, normal: Floats, middle: Floats
) -> Floats:
    """Sum of angle^2 times the dyad of the direction, over the neighbours of each triangle, shape (n, 3, 3)."""
    toward = middle[b] - middle[a]
    # Projected into the plane of the first triangle, which is accurate enough for angles below 40 degrees.
    toward = toward - np.sum(toward * normal[a], axis=1, keepdims=True) * normal[a]
    # A degenerate triangle with coincident corners defines no direction.
    length = np.linalg.norm(toward, axis=1, keepdims=True)
    toward = np.divide(toward, length, out=np.zeros_like(toward), where=length > 1e-12)
    turned = np.cross(normal[a], normal[b])
    size = np.linalg.norm(turned, axis=1, keepdims=True)
    across = np.cross(np.divide(turned, size, out=np.zeros_like(turned), where=size > 1e-9), normal[a])
    across = np.where(size > 1e-9, across, toward)
    dyad = (angle**2)[:, None, None] * across[:, :, None] * across[:, None, :]
    result = np.zeros((count, 9))
    for column in range(9):
        values = dyad.reshape(-1, 9)[:, column]
        result[:, column] = np.bincount(a, values, count) + np.bincount(b, values, count)
    return result.reshape(count, 3, 3)


def _rows(
    normal: Floats, number: NDArray[np.int64], area: Floats, spread: Floats, curved: Floats, edges: Floats
) -> PatchRows:
    """Axes, extents and bends of patches, for each triangle."""
    # The axes follow the curvature of a curved body and the shape of a flat patch.
    bent = np.trace(curved, axis1=1, axis2=2) > 1e-9
    _, vectors = np.linalg.eigh(np.where(bent[:, None, None], curved, spread))
    first = vectors[:, :, 2]
    axis = first[number]
    axis = axis - np.sum(axis * normal, axis=1, keepdims=True) * normal
    axis /= np.maximum(np.linalg.norm(axis, axis=1, keepdims=True), 1e-12)
    second = np.cross(normal, axis)
    own_spread, own_curved = spread[number], curved[number]

    def along(tensor: Floats, direction: Floats) -> Floats:
        return np.maximum(np.einsum("ni,nij,nj->n", direction, tensor, direction), 0.0)

    ratio = np.sqrt((along(own_spread, axis) + 1e-18) / (along(own_spread, second) + 1e-18))
    length = np.sqrt(area[number])[:, None] * np.stack([np.sqrt(ratio), 1.0 / np.sqrt(ratio)], axis=1)
    bend = np.stack([along(own_curved, axis), along(own_curved, second)], axis=1)
    return PatchRows(axis, length, bend, number, edges)


@kernel_tree()
@dataclass
class FacetPatches:
    """Patch rows of all triangles on the device: static triangles, then bodies, then one row for water waves."""

    rows: Any
    """Eight numbers per triangle: axis, patch number, extents, bends."""
    edges: Any
    """Twelve numbers per triangle: `PatchRows.edges`."""
    last: Any
    """Number of the row for water waves."""

    @classmethod
    def of(cls, engine: Engine, rows_of: list[PatchRows | None]) -> FacetPatches:
        """Tables of the static triangles and of each body; None stands for a body without triangles."""
        found, edges, first = [], [], 0
        for rows in rows_of:
            if rows is not None:
                table = np.zeros((len(rows.number), 8), np.float32)
                table[:, :3], table[:, 4:6], table[:, 6:8] = rows.axis, rows.length, rows.bend
                table[:, 3] = (rows.number + first).astype(np.uint32).view(np.float32)
                first += int(rows.number.max()) + 1
                found.append(table)
                edges.append(rows.edges.astype(np.float32).reshape(-1, 12))
        waves = np.array([[1.0, 0.0, 0.0, 0.0, 1.0, 1.0, WAVE_SLOPE**2, WAVE_SLOPE**2]], np.float32)
        waves[0, 3] = np.array([first], np.uint32).view(np.float32)[0]
        table = np.concatenate([*found, waves])
        edges.append(np.zeros((1, 12), np.float32))
        return cls(engine.table(table), engine.table(np.concatenate(edges)), engine.whole(len(table) - 1))

    def at(self, triangle: Any, active: Any) -> tuple[Any, Any, Any, Any]:
        """Axis, patch number, extents (2) and bends (2) of triangles."""
        dr, mi = running_engine().dr, running_engine().mi
        row = dr.select(triangle < self.last, triangle, self.last)
        row = dr.select(active, row, 0)
        a = dr.gather(mi.Vector4f, self.rows, row * 2, active)
        b = dr.gather(mi.Vector4f, self.rows, row * 2 + 1, active)
        return (
            mi.Vector3f(a.x, a.y, a.z),
            dr.reinterpret_array(mi.UInt32, a.w),
            (b.x, b.y),
            (b.z, b.w),
        )

    def edge(self, triangle: Any, corner: int, active: Any) -> Any:
        """Vector [m] of the sharp edge opposite a corner and the height over it, four numbers."""
        dr, mi = running_engine().dr, running_engine().mi
        row = dr.select(active & (triangle < self.last), triangle, self.last)
        return dr.gather(mi.Vector4f, self.edges, row * 3 + corner, active)


def taken(values: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """Rows of an array, or zeros if the array is empty."""
    return values[rows] if len(values) else np.zeros(len(rows), values.dtype)


def upward_parts(triangles: Triangles, parts: int) -> NDArray[np.bool_]:
    """Mask of the parts whose static triangles face up by at least half of their area; boxes and walls do not."""
    corners = triangles.vertices[triangles.faces]
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    whole = np.bincount(triangles.part, np.linalg.norm(across, axis=1), parts)
    return np.asarray((whole > 0.0) & (np.bincount(triangles.part, across[:, 2], parts) >= 0.5 * whole))


MaterialTable = Callable[[list[str]], tuple[NDArray[np.float64], list[Finish]]]
"""Function from material names to their reflection by cosine of incidence and their finishes."""


class WaveScene(DeviceOwned):
    """The scene on the device, for one kind of wave."""

    def __init__(
        self,
        world: World,
        visibility_keys: tuple[str, ...],
        table: MaterialTable,
        wavelength_m: float,
        covered: Covered,
        scenes: dict[Hashable, object],
        cell: Cell | None,
        snowy: bool,
    ) -> None:
        kind, *names = visibility_keys
        self.scene = shared_scene(world, kind, tuple(names), scenes, cell)
        engine = self.scene.engine
        materials, rows = covered_parts(world, covered)
        if snowy:
            materials.append(material_called("snow"))
            level = upward_parts(self.scene.geometry.static, len(world.parts))
            rows = np.where(level, len(materials) - 1, rows).astype(np.uint16)
        parts = world.parts
        names_of = [material.name for material in materials]
        reflection, finishes = table(names_of)
        self.surfaces = WaveSurfaces.of(engine, rows, reflection, finishes, wavelength_m)
        # Patches do not depend on the frequency, so all wave sensors of a world share them.
        key = ("patches", id(self.scene), cell)
        if key not in scenes:
            geometry = self.scene.geometry
            blocks = (geometry.static, *(body.triangles for body in geometry.actors))
            found = [patches_of(one) if len(one) else None for one in blocks]
            curved = [np.zeros(0, bool) if one is None else np.any(one.bend > 1e-6, axis=1) for one in found]
            scenes[key] = FacetPatches.of(engine, found), curved
        self.patches: FacetPatches
        self.patches, curved = scenes[key]  # type: ignore[misc]
        slope = np.array([finish.slope for finish in finishes] or [0.0])
        self.objects = FocusObjects.of(
            self.scene.geometry, parts.object_index, slope[np.minimum(rows, len(slope) - 1)], curved
        )
        self.part_label = parts.label.astype(np.uint16)
        self.part_instance = parts.instance.astype(np.uint32)
        self.part_material = rows.astype(np.uint16)
        self.label_names = dict(world.label_names)
        self.material_names = {**dict(enumerate(names_of)), NO_MATERIAL: "none"}


def wave_scene(
    world: World,
    visibility_keys: tuple[str, ...],
    table: MaterialTable,
    wave: Hashable,
    wavelength_m: float,
    cell: Cell | None,
    *,
    snowy: bool = False,
) -> WaveScene:
    """Scene of a world for one sensor, built on first use and cached until the world changes.

    `wave` identifies the wave, for example ("radio", 77e9). With `snowy`, snow lies on the parts that face up.
    """
    cache = scene_cache(world, cell)
    covered = () if world.weather is None else world.weather.covered
    kind, *names = visibility_keys
    key = (wave, id(world.geometry(kind, *names)), covered, snowy, cell)
    if key not in cache:
        cache[key] = WaveScene(world, visibility_keys, table, wavelength_m, covered, cache, cell, snowy)
    target: WaveScene = cache[key]
    return target
