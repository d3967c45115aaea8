"""Waves on the water of a world: meshes of water that follow a `Water` of `parhelion.motion`.

The water keeps its outline, so no quay is flooded. Inside the outline it is meshed again, finest near the sensor, and
the mesh is raised to the surface at the middle time of each scan. Waves shorter than three cells are omitted. A mesh is
used instead of intersecting rays with the formula: the sum over hundreds of waves per ray would cost a hundred times
more, and grazing rays, which are most of a ship's rays, need an acceleration structure anyway. Faces keep their flat
normals: beams whose probes lie on one face need no further rays, and at grazing angles a face never leans away from a
ray that hits it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.core.random import Stream, to_unit
from parhelion.rays.geometry import RaisedSurface, Triangles
from parhelion.surfaces import library
from parhelion.surfaces.material import Material, SpectrumTable
from parhelion.world.parts import WorldObject, WorldPart

# ---- outline --------------------------------------------------------------------------------------------------------
# Areas seen from above: their outline, a test of points inside, and a graded mesh of triangles.


_SAME_POINT_M = 1e-6
_PAIRS_AT_ONCE = 2_000_000
_MOST_ROUNDS = 12
"""Rounds in which missing segments of the outline are split; each needs one triangulation."""
_SHORTEST_M = 5e-3
"""Shortest segment of the outline to split [m]. Borders of overlapping meshes cross, and no mesh contains both."""


@dataclass(frozen=True, eq=False)
class Outline:
    """Directed segments around an area, the area on their left; interior seams cancel out."""

    segments: Floats
    """Start and end (x, y) [m], shape (n, 2, 2)."""

    @classmethod
    def of(cls, corners: Floats) -> Outline:
        """Return the outline of triangles, corners of shape (m, 3, 2) in any winding; degenerate ones are ignored."""
        a, b, c = (corners[:, k] for k in range(3))
        twice = _cross(b - a, c - a)
        corners = np.where(twice[:, None, None] < 0, corners[:, ::-1], corners)[twice != 0]
        points, number = np.unique(
            np.round(corners.reshape(-1, 2) / _SAME_POINT_M).astype(np.int64), axis=0, return_inverse=True
        )
        face = number.reshape(-1, 3)
        edges = np.concatenate([face[:, [0, 1]], face[:, [1, 2]], face[:, [2, 0]]])
        # An edge that two triangles share occurs once in each direction, which cancels out.
        undirected, row = np.unique(np.sort(edges, axis=1), axis=0, return_inverse=True)
        sign = np.where(edges[:, 0] < edges[:, 1], 1, -1)
        total = np.bincount(row.ravel(), sign, len(undirected)).astype(int)
        border = np.repeat(undirected, np.abs(total), axis=0)
        border = np.where(np.repeat(total, np.abs(total))[:, None] < 0, border[:, ::-1], border)
        places = np.zeros((len(points), 2))
        places[number.ravel()] = corners.reshape(-1, 2)
        return cls(places[_straightened(border, places)])

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lower and upper corner (x, y) [m]."""
        points = self.segments.reshape(-1, 2)
        return points.min(axis=0), points.max(axis=0)

    def winding(self, points: Floats) -> NDArray[np.int64]:
        """Winding number of the outline around points (n, 2): 0 outside, 1 inside, more where areas overlap."""
        start, end = self.segments[:, 0], self.segments[:, 1]
        winding = np.zeros(len(points), np.int64)
        step = max(1, _PAIRS_AT_ONCE // max(len(start), 1))
        for first in range(0, len(points), step):
            x, y = points[first : first + step, 0, None], points[first : first + step, 1, None]
            rises = (start[:, 1] <= y) & (end[:, 1] > y)
            falls = (start[:, 1] > y) & (end[:, 1] <= y)
            side = (end[:, 0] - start[:, 0]) * (y - start[:, 1]) - (x - start[:, 0]) * (end[:, 1] - start[:, 1])
            winding[first : first + step] = np.sum(rises & (side > 0), axis=1) - np.sum(falls & (side < 0), axis=1)
        return winding

    def distance(self, points: Floats) -> Floats:
        """Distance of points (n, 2) from the nearest segment [m]."""
        start, along = self.segments[:, 0], self.segments[:, 1] - self.segments[:, 0]
        squared = np.maximum(np.sum(along**2, axis=1), 1e-30)
        found = np.empty(len(points))
        step = max(1, _PAIRS_AT_ONCE // max(len(start), 1))
        for first in range(0, len(points), step):
            away = points[first : first + step, None] - start
            share = np.clip(np.sum(away * along, axis=2) / squared, 0.0, 1.0)
            found[first : first + step] = np.linalg.norm(away - share[..., None] * along, axis=2).min(axis=1)
        return found


def _cross(a: Floats, b: Floats) -> Floats:
    cross: Floats = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return cross


def _straightened(edges: NDArray[np.int64], places: Floats) -> NDArray[np.int64]:
    """Directed edges (n, 2) with collinear successive edges joined."""
    out = np.full(len(places), -1)
    out[edges[:, 0]] = edges[:, 1]
    single = (np.bincount(edges[:, 0], minlength=len(places)) == 1) & (
        np.bincount(edges[:, 1], minlength=len(places)) == 1
    )
    before = np.full(len(places), -1)
    before[edges[:, 1]] = edges[:, 0]
    middle = np.flatnonzero(single)
    back, ahead = places[middle] - places[before[middle]], places[out[middle]] - places[middle]
    lengths = np.linalg.norm(back, axis=1) * np.linalg.norm(ahead, axis=1)
    straight = (np.abs(_cross(back, ahead)) <= 1e-9 * lengths) & (np.sum(back * ahead, axis=1) > 0)
    passed = np.zeros(len(places), bool)
    passed[middle[straight]] = True
    edges = edges[~passed[edges[:, 0]]]
    while np.any(going := passed[edges[:, 1]]):
        # Collinear points have a single successor: double the stride of every pointer until all ends are corners.
        edges[going, 1] = out[edges[going, 1]]
        jump = passed & passed[np.maximum(out, 0)]
        out[jump] = out[out[jump]]
    return edges


@dataclass(frozen=True)
class Grading:
    """Nested squares around a centre, each with twice the lattice spacing of the next inner one."""

    centre: tuple[float, float]
    steps: tuple[float, ...]
    """Distance of neighbouring lattice points in each square [m], ascending."""
    halves: tuple[float, ...]
    """Half the side of each square [m], ascending."""

    def level(self, points: Floats, margin: Floats | float = 0.0) -> NDArray[np.int64]:
        """Number of the smallest square that contains points (n, 2), moved `margin` [m] towards the centre."""
        away = np.max(np.abs(points - np.array(self.centre)), axis=1) - margin
        return np.minimum(np.searchsorted(self.halves, away, side="right"), len(self.halves) - 1)

    def lattice(self, lower: Floats, upper: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Lattice points within bounds (n, 2) [m] and their squares; the rim of a square belongs to the next one."""
        points, levels = [], []
        for number, (step, half) in enumerate(zip(self.steps, self.halves, strict=True)):
            axes = []
            for k in (0, 1):
                first = int(np.ceil(max(-half, lower[k] - self.centre[k]) / step))
                last = int(np.floor(min(half, upper[k] - self.centre[k]) / step))
                axes.append(self.centre[k] + step * np.arange(first, last + 1))
            square = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
            square = square[self.level(square) == number]
            points.append(square)
            levels.append(np.full(len(square), number))
        return np.concatenate(points), np.concatenate(levels)


def graded_mesh(outline: Outline, grading: Grading) -> tuple[Floats, NDArray[np.int32], int]:
    """Vertices (n, 2) and counter-clockwise triangles (m, 3) that fill an outline and follow a grading.

    Also returns the number of vertices on the outline, which come first. The mesh is a Delaunay triangulation of the
    lattice points inside and of points along the outline. Segments of the outline that are not edges of the mesh are
    split until all are.
    """
    from scipy.spatial import Delaunay

    steps = np.array(grading.steps)
    inner, level = grading.lattice(*outline.bounds)
    inner = inner[(outline.winding(inner) > 0) & (outline.distance(inner) > 0.55 * steps[level])]
    spans = _borders(_cut(outline.segments, grading), outline)
    for _ in range(_MOST_ROUNDS):
        ends, number = np.unique(spans.reshape(-1, 2), axis=0, return_inverse=True)
        vertices = np.concatenate([ends, inner])
        faces = Delaunay(vertices).simplices.astype(np.int64)
        edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
        wanted = np.sort(number.reshape(-1, 2), axis=1) @ np.array([len(vertices), 1])
        missing = ~np.isin(wanted, np.sort(edges, axis=1) @ np.array([len(vertices), 1]))
        missing &= np.linalg.norm(spans[:, 1] - spans[:, 0], axis=1) > _SHORTEST_M
        if not missing.any():
            break
        spans = np.concatenate([spans[~missing], _split(spans[missing], ends)])
    corners = vertices[faces]
    twice = _cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    faces = np.where(twice[:, None] < 0, faces[:, ::-1], faces)
    longest = np.max(np.sum((corners - np.roll(corners, 1, axis=1)) ** 2, axis=2), axis=1)
    inside = (np.abs(twice) > 1e-7 * longest) & (outline.winding(corners.mean(axis=1)) > 0)
    return vertices, faces[inside].astype(np.int32), len(ends)


def _cut(segments: Floats, grading: Grading) -> Floats:
    """Segments halved until none is longer than the local lattice step."""
    done, steps = [], np.array(grading.steps)
    while len(segments):
        length = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
        # Step of the finest square that the segment touches.
        fits = length <= steps[grading.level(segments.mean(axis=1), length)] * (1.0 + 1e-9)
        done.append(segments[fits])
        segments = _halved(segments[~fits])
    return np.concatenate(done)


def _split(spans: Floats, points: Floats) -> Floats:
    """Segments split in two, at the point on them that is nearest to their middle, otherwise in the middle."""
    along = spans[:, 1] - spans[:, 0]
    length = np.linalg.norm(along, axis=1)
    away = points[None] - spans[:, None, 0]
    share = np.sum(away * along[:, None], axis=2) / (length**2)[:, None]
    aside = np.abs(_cross(along[:, None], away)) / length[:, None]
    off_middle = np.where((aside < 1e-7) & (share > 1e-6) & (share < 1.0 - 1e-6), np.abs(share - 0.5), np.inf)
    nearest = np.argmin(off_middle, axis=1)
    on = np.isfinite(off_middle[np.arange(len(spans)), nearest])
    cut = np.where(on[:, None], points[nearest], spans.mean(axis=1))
    return np.concatenate([np.stack([spans[:, 0], cut], axis=1), np.stack([cut, spans[:, 1]], axis=1)])


def _borders(spans: Floats, outline: Outline) -> Floats:
    """Segments with the area on one side only; seams, and borders inside another mesh, are removed."""
    along = spans[:, 1] - spans[:, 0]
    aside = 1e-5 * np.stack([-along[:, 1], along[:, 0]], axis=1) / np.linalg.norm(along, axis=1)[:, None]
    middle = spans.mean(axis=1)
    left, right = (outline.winding(middle + sign * aside) > 0 for sign in (1.0, -1.0))
    return spans[left != right]


def _halved(segments: Floats) -> Floats:
    middle = segments.mean(axis=1)
    return np.concatenate([np.stack([segments[:, 0], middle], axis=1), np.stack([middle, segments[:, 1]], axis=1)])


# ---- water surface --------------------------------------------------------------------------------------------------


LABEL = "water"
"""Label of the water of a world."""
FINEST_CELL_M = 0.25
COARSEST_CELL_M = 16.0
MOST_TRIANGLES = 40_000
HALF_CELLS = 20
"""Number of cells from the centre of a square of the mesh to its side."""
LEVELS = 6
"""Number of squares around the sensor, each twice as wide as the previous one; one more square covers the rest."""
CELLS_PER_WAVE = 3.0
"""Cells per wavelength of the shortest wave; shorter waves are omitted, because aliasing would be worse."""
FINE_CELLS_PER_WAVE = 16.0
"""Cells per wavelength near the sensor, for the shortest relevant waves: crests are then 2 % too low at most."""
SAME_LEVEL_M = 1.0
"""Largest difference [m] between the mean height of a mesh and the water level; other meshes are not changed."""
_CACHED_MESHES = 16


class Lattice(NamedTuple):
    """Points corner + i along + j across (x, y) [m] for i and j from 0 to `counts` - 1."""

    corner: Sequence[float]
    along: Sequence[float]
    across: Sequence[float]
    counts: tuple[int, int]


@runtime_checkable
class Waves(Protocol):
    """Water with waves, for example `GerstnerWater` and `OceanWater` of `parhelion.motion.water`."""

    level_m: float
    """Mean height, z of the world [m]."""
    components: Any
    """Waves with `amplitude_m` and `wave_number_1_m`, arrays of shape (n,)."""

    def rising(self, lattice: Lattice, time: float, shortest_m: float = 0.0) -> tuple[Floats, Floats]:
        """Heights [m] and their rates [m/s] on a lattice, without waves shorter than `shortest_m`."""
        ...


@dataclass(frozen=True, eq=False)
class _Mesh:
    """Mesh of one neighbourhood, without heights."""

    plane: Floats
    """Vertices (x, y) [m], shape (n, 2)."""
    faces: NDArray[np.int32]
    part: NDArray[np.uint32]
    squares: tuple[Lattice, ...]
    """Lattice points of each square that the mesh needs."""
    rows: NDArray[np.int64]
    """Lattice point of each vertex, numbered over all squares, shape (n,)."""
    along_outline: tuple[NDArray[np.int64], Floats]
    """Four lattice points around each of the first vertices, which lie on the outline, and their weights, (4, k)."""
    corners: NDArray[np.int64]
    """`faces` by column, shape (3, m)."""
    slopes: Floats
    """Coefficients of each face's slopes by the heights of its corners [1/m], shape (2, 3, m)."""
    middle: Floats
    """Centre of each face (x, y) [m], shape (2, m)."""
    patch: Floats
    """Random numbers from 0 to 1 that round the share of foam up or down, fixed to their places, shape (m,)."""


class WaterSurface:
    """Water of a world with waves. `at` returns its triangles for a neighbourhood and a time."""

    def __init__(self, water: Waves, sheets: Sequence[tuple[int, Floats]], foam: Sequence[int] = ()) -> None:
        """Prepare the outline; `sheets` are part numbers with the corners of their triangles, (m, 3, 2) [m].

        `foam` are the part numbers of faces that foam covers in equal steps up to all of it.
        """
        self.water, self._foam = water, np.array(foam, np.uint32)
        self._parts = [(number, Outline.of(corners)) for number, corners in sheets]
        self.outline = Outline(np.concatenate([outline.segments for _, outline in self._parts]))
        self.cell_m = FINEST_CELL_M if len(foam) else finest_cell(water)
        self.most_triangles = MOST_TRIANGLES
        self._meshes: OrderedDict[tuple[int, int], _Mesh] = OrderedDict()
        lower, upper = self.outline.bounds
        rise = float(np.sum(np.asarray(water.components.amplitude_m)))
        self.bounds = np.append(lower, water.level_m - rise), np.append(upper, water.level_m + rise)

    @property
    def stride_m(self) -> float:
        """Side of the squares within which places share one mesh [m]."""
        return HALF_CELLS * self.cell_m

    def neighbourhood(self, xyz: Floats) -> tuple[int, int]:
        """Return the key of the square that contains a place; the mesh is the same within it."""
        return int(np.floor(xyz[0] / self.stride_m)), int(np.floor(xyz[1] / self.stride_m))

    def at(self, neighbourhood: tuple[int, int], time: float) -> RaisedSurface:
        """Return the surface for a neighbourhood at `time` [s]."""
        mesh = self._mesh(neighbourhood)
        height, rate = self._lattices(mesh, time)
        z, rise = height[mesh.rows], rate[mesh.rows]
        rows, weights = mesh.along_outline
        z[: weights.shape[1]] = np.einsum("kn,kn->n", height[rows], weights)
        rise[: weights.shape[1]] = np.einsum("kn,kn->n", rate[rows], weights)
        slope = np.einsum("akm,km->am", mesh.slopes, z[mesh.corners])
        normal = np.ones((len(mesh.faces), 3))
        normal[:, :2] = -slope.T
        normal /= np.sqrt(1.0 + slope[0] ** 2 + slope[1] ** 2)[:, None]
        part = mesh.part
        if len(self._foam):
            share = self.water.foam(*mesh.middle, time)  # type: ignore[attr-defined]
            step = np.floor(share * len(self._foam) + mesh.patch).astype(np.int64)
            part = np.where(step > 0, self._foam[np.clip(step - 1, 0, len(self._foam) - 1)], part)
        triangles = Triangles(np.column_stack([mesh.plane, z]), mesh.faces, part)
        return RaisedSurface(triangles, normal, np.einsum("km->m", rise[mesh.corners]) / 3.0)

    def _lattices(self, mesh: _Mesh, time: float) -> tuple[Floats, Floats]:
        """Heights and their rates at the lattice points of all squares, flattened."""
        longest = 2.0 * np.pi / float(np.min(self.water.components.wave_number_1_m))
        heights, rates = [], []
        for square in mesh.squares:
            shortest, count = CELLS_PER_WAVE * square.along[0], square.counts[0] * square.counts[1]
            if shortest > longest:
                heights.append(np.full(count, self.water.level_m))
                rates.append(np.zeros(count))
                continue
            height, rate = self.water.rising(square, time, shortest)
            heights.append(height.ravel())
            rates.append(rate.ravel())
        return np.concatenate(heights), np.concatenate(rates)

    def _mesh(self, neighbourhood: tuple[int, int]) -> _Mesh:
        if neighbourhood in self._meshes:
            self._meshes.move_to_end(neighbourhood)
            return self._meshes[neighbourhood]
        cell = self.cell_m
        mesh = self._build(neighbourhood, cell)
        while len(mesh.faces) > MOST_TRIANGLES and cell < 64.0 * self.cell_m:
            cell *= 2.0
            mesh = self._build(neighbourhood, cell)
        if len(mesh.faces) > MOST_TRIANGLES:
            raise ConfigError(
                f"water: the outline of the world's water needs {len(mesh.faces)} triangles, but the limit is "
                f"{MOST_TRIANGLES}; simplify it"
            )
        self._meshes[neighbourhood] = mesh
        while len(self._meshes) > _CACHED_MESHES:
            self._meshes.popitem(last=False)
        return mesh

    def _build(self, neighbourhood: tuple[int, int], cell: float) -> _Mesh:
        lower, upper = self.outline.bounds
        stride = self.stride_m
        centre = ((neighbourhood[0] + 0.5) * stride, (neighbourhood[1] + 0.5) * stride)
        grading = _grading(centre, cell, float(max(np.max(upper - centre), np.max(centre - lower))))
        plane, faces, count = graded_mesh(self.outline, grading)
        if not len(faces):
            raise ConfigError("water: the world's water has no area")
        part = self._part_of(plane[faces].mean(axis=1))
        squares, rows, weights = _lookup(plane, grading)
        on_outline = np.ascontiguousarray(rows[:count].T), np.ascontiguousarray(weights[:count].T)
        corners = np.ascontiguousarray(faces.T).astype(np.int64)
        middle = np.ascontiguousarray(plane[faces].mean(axis=1).T)
        return _Mesh(
            plane,
            faces,
            part,
            squares,
            rows[:, 0].copy(),
            on_outline,
            corners,
            _slopes(plane[faces]),
            middle,
            _patches(middle),
        )

    def _part_of(self, points: Floats) -> NDArray[np.uint32]:
        """Part number of points, the first one where meshes overlap."""
        part = np.full(len(points), self._parts[0][0], np.uint32)
        if len(self._parts) > 1:
            for number, outline in reversed(self._parts):
                part[outline.winding(points) > 0] = number
        return part


def _patches(middle: Floats) -> Floats:
    """Random numbers (m,) from 0 to 1 for places (2, m) [m], the same within squares of 1/8 m."""
    x, y = np.floor(8.0 * middle).astype(np.int64)
    element = (x * 73_856_093 ^ y * 19_349_663) & 0xFFFFFFFF
    return np.asarray(to_unit(Stream(0, "water/foam").words(element)[0]), np.float64)


def has_foam(water: Any) -> bool:
    """Return True for water with foam, which has the method `foam(x, y, time)` -> shares from 0 to 1."""
    return callable(getattr(water, "foam", None))


FOAM_STEPS = 4
"""Number of materials of foam, from a quarter of it to all."""


def foam_materials(water: Material) -> list[Material]:
    """Mixtures of water and sea foam by area, as diffuse reflectance; foam leaves no mirror image."""
    foam = library.material("sea-foam")
    um = np.array(foam.spectrum.wavelength_um)
    below = np.interp(um, water.spectrum.wavelength_um, water.spectrum.reflectance)
    mixed = []
    for step in range(1, FOAM_STEPS):
        share = step / FOAM_STEPS
        values = share * np.array(foam.spectrum.reflectance) + (1.0 - share) * below
        spectrum = SpectrumTable(wavelength_um=um.tolist(), reflectance=np.round(values, 6).tolist())
        name = f"sea-foam-{round(100 * share)}"
        mixed.append(foam.model_copy(update={"name": name, "spectrum": spectrum}))
    return [*mixed, foam]


def is_sheet(item: WorldObject, water: Waves) -> bool:
    """Return True if an object is part of this water: static, labelled water, and at its level."""
    if item.label != LABEL or item.is_actor:
        return False
    height = np.concatenate([part.placed[:, 2] for part in item.parts])
    return bool(abs(np.mean(height) - water.level_m) <= SAME_LEVEL_M)


def check_water(water: Any, objects: Sequence[WorldObject]) -> Waves | None:
    """Return the water for a world, None if it has no waves; raises if the world has no suitable meshes."""
    if water is None or not hasattr(water, "rising"):
        if water is not None:
            raise ConfigError(f"world: water must be a Water of parhelion.motion.water, got {type(water).__name__}")
        return None
    if not isinstance(water, Waves):
        return None
    sheets = [item for item in objects if is_sheet(item, water)]
    if not sheets:
        raise ConfigError(
            f"world: no static object has the label {LABEL!r} within {SAME_LEVEL_M:g} m of the water level "
            f"{water.level_m:g} m; add one first, for example a plane"
        )
    for item in sheets:
        if any(part.texture >= 0 for part in item.parts):
            raise ConfigError(f"world: {item.name!r} has a texture, which is not supported for water with waves")
    return water


def sheet_corners(part: WorldPart) -> Floats:
    """Corners of a part's triangles seen from above, (m, 3, 2) [m]."""
    return part.placed[part.mesh.faces][..., :2]


def finest_cell(water: Waves) -> float:
    """Cell size near the sensor [m]: 0.25 m times a power of two, which resolves 99 % of the variance of the height."""
    length = 2.0 * np.pi / np.asarray(water.components.wave_number_1_m, dtype=np.float64)
    energy = np.asarray(water.components.amplitude_m, dtype=np.float64) ** 2
    order = np.argsort(-length)
    share = np.cumsum(energy[order]) / np.sum(energy)
    shown = float(length[order][np.searchsorted(share, 0.99 - 1e-12)])
    power = np.floor(np.log2(shown / FINE_CELLS_PER_WAVE / FINEST_CELL_M))
    return float(np.clip(FINEST_CELL_M * 2.0**power, FINEST_CELL_M, COARSEST_CELL_M))


def _grading(centre: tuple[float, float], cell: float, reach: float) -> Grading:
    steps: list[float] = []
    halves: list[float] = []
    while not halves or halves[-1] < reach:
        step = 2.0 * steps[-1] if steps else cell
        while len(steps) == LEVELS and HALF_CELLS * step < reach:
            step *= 2.0
        steps.append(step)
        halves.append(HALF_CELLS * step)
    return Grading(centre, tuple(steps), tuple(halves))


def _lookup(plane: Floats, grading: Grading) -> tuple[tuple[Lattice, ...], NDArray[np.int64], Floats]:
    """Required lattices, four lattice points per vertex, and their weights (bilinear interpolation)."""
    level = grading.level(plane)
    squares = []
    rows, weights, first = np.zeros((len(plane), 4), np.int64), np.zeros((len(plane), 4)), 0
    for number, step in enumerate(grading.steps):
        here = np.flatnonzero(level == number)
        if not len(here):
            continue
        place = (plane[here] - np.array(grading.centre)) / step
        below = np.floor(place + 1e-9)
        share = np.clip(place - below, 0.0, 1.0)
        low = below.min(axis=0)
        cell = (below - low).astype(np.int64)
        counts = (int(cell[:, 0].max()) + 2, int(cell[:, 1].max()) + 2)
        corner = np.array(grading.centre) + low * step
        squares.append(Lattice((float(corner[0]), float(corner[1])), (step, 0.0), (0.0, step), counts))
        base = first + cell[:, 0] * counts[1] + cell[:, 1]
        rows[here] = np.stack([base, base + counts[1], base + 1, base + counts[1] + 1], axis=1)
        (x, y), (x0, y0) = share.T, 1.0 - share.T
        weights[here] = np.stack([x0 * y0, x * y0, x0 * y, x * y], axis=1)
        first += counts[0] * counts[1]
    return tuple(squares), rows, weights


def _slopes(corners: Floats) -> Floats:
    """Coefficients (2, 3, m) of the slopes of faces by the heights of their corners (m, 3, 2)."""
    x, y = corners[..., 0].T, corners[..., 1].T
    ahead, behind = [1, 2, 0], [2, 0, 1]
    twice = (x[1] - x[0]) * (y[2] - y[0]) - (x[2] - x[0]) * (y[1] - y[0])
    return np.stack([y[ahead] - y[behind], x[behind] - x[ahead]]) / twice
