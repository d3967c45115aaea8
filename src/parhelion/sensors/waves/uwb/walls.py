"""The direct way from tag to anchor, through whatever is between them.

Rays give the surfaces that it meets in order. Two faces of one object closer than THICKEST_WALL_M are one wall of that
thickness; any other surface is a sheet of its material's usual thickness. So a closed box far wider than a wall weakens
twice, by its two walls, and a wall modelled with both faces once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.geometry import fibonacci_sphere
from parhelion.core.pose import Floats
from parhelion.rays.records import Hits, Rays
from parhelion.sensors.waves.radio import CLOSED_DB, RadioScene, Wave, decibel, foliage_loss_db, slab_delay_m, transmit
from parhelion.surfaces.radio import Complexes

THICKEST_WALL_M = 0.5
"""Two faces of one object nearer to each other are the faces of one wall."""
MOST_SURFACES = 48
"""A way through more surfaces is taken as closed."""
LEAF_GAP_M = 3.0
"""Leaves farther apart along the way are crowns of their own, with air between."""
_OFF_M = 1e-3


@dataclass(frozen=True, eq=False)
class DirectWays:
    """The direct way of each link."""

    gain: Complexes
    """Amplitude and phase against free space, shape (n,); 0 where nothing passes."""
    extra_m: Floats
    """Extra length that walls make [m], shape (n,)."""
    surfaces: Floats
    """Number of surfaces in the way, shape (n,)."""
    solid: NDArray[np.bool_]
    """Whether any of them is more than leaves, shape (n,)."""


def through(radio: RadioScene, start: Floats, end: Floats, times: Floats, wave: Wave) -> DirectWays:
    """The direct ways from `start` to `end` (n, 3) [m] at times (n,) [s]."""
    n = len(start)
    gain, extra, surfaces, solid = np.ones(n, np.complex128), np.zeros(n), np.zeros(n), np.zeros(n, bool)
    met = _surfaces(radio, start, end, times)
    for row, crossed in met.items():
        direction = end[row] - start[row]
        direction = direction / np.sqrt(direction @ direction)
        gain[row], extra[row] = _weakened(radio, direction, crossed, wave)
        surfaces[row] = len(crossed)
        solid[row] = not all(radio.foliage[part] for _, part, _ in crossed)
    return DirectWays(gain, extra, surfaces, solid)


_Surface = tuple[float, int, Floats]
"""Distance [m], part and normal."""


def _surfaces(radio: RadioScene, start: Floats, end: Floats, times: Floats) -> dict[int, list[_Surface]]:
    """The surfaces that each segment meets, in order; segments without any are left out."""
    vector = end - start
    length = np.sqrt(np.einsum("ij,ij->i", vector, vector))
    direction = vector / length[:, None]
    gone, rows = np.zeros(len(start)), np.arange(len(start))
    found: dict[int, list[_Surface]] = {}
    for _ in range(MOST_SURFACES):
        origin = start[rows] + gone[rows, None] * direction[rows]
        left = np.maximum(length[rows] - gone[rows], 0.0)
        hits = radio.scene.cast(Rays(origin, direction[rows], times[rows], left))
        reached = hits.found
        distance, normal = _exact(radio, start[rows], direction[rows], gone[rows] + hits.range, hits)
        for k in np.flatnonzero(reached):
            row = int(rows[k])
            found.setdefault(row, []).append((float(distance[k]), int(hits.part[k]), normal[k]))
            gone[row] += hits.range[k] + _OFF_M
        onward = reached & ~(radio.closed[np.maximum(hits.part, 0)] if len(radio.closed) else False)
        rows = rows[onward & (gone[rows] < length[rows])]
        if not len(rows):
            break
    return found


def _exact(radio: RadioScene, start: Floats, direction: Floats, distance: Floats, hits: Hits) -> tuple[Floats, Floats]:
    """Distances [m] and normals of hits, in float64 where a plane gives them."""
    patch, planes = radio.patches.patch_of(hits.triangle), radio.patches
    if not len(planes):
        return distance, hits.normal
    flat = patch >= 0
    normal = np.where(flat[:, None], planes.normal[patch], hits.normal)
    toward = np.einsum("ij,ij->i", normal, direction)
    flat &= np.abs(toward) > 1e-4
    height = planes.offset[patch] - np.einsum("ij,ij->i", normal, start)
    return np.where(flat, height / np.where(flat, toward, 1.0), distance), normal


def _weakened(radio: RadioScene, direction: Floats, crossed: list[_Surface], wave: Wave) -> tuple[complex, float]:
    """Amplitude and phase against free space, and extra length [m], of one way through surfaces."""
    if len(crossed) >= MOST_SURFACES:
        return 0j, 0.0
    own = wave.field(direction[None])
    field, extra, leaf_m, last_leaf = own.astype(np.complex128), 0.0, 0.0, -np.inf
    k = 0
    while k < len(crossed):
        at, part, normal = crossed[k]
        k += 1
        if radio.foliage[part]:
            leaf_m += at - last_leaf if at - last_leaf < LEAF_GAP_M else 0.0
            last_leaf = at
            continue
        if radio.closed[part]:
            return 0j, 0.0
        cos = abs(float(direction @ normal))
        thickness = float(radio.thickness[part])
        if k < len(crossed) and _one_wall(radio, direction, (at, part, normal), crossed[k]):
            thickness = (crossed[k][0] - at) * cos
            k += 1
        eta = radio.permittivity[part : part + 1]
        field = transmit(field, direction[None], normal[None], eta, np.array([thickness]), wave.carrier_hz)
        extra += float(slab_delay_m(cos, eta[0], thickness))
        if float(decibel(np.sqrt(np.sum(np.abs(field) ** 2)))) < -CLOSED_DB:
            return 0j, 0.0
    passed = complex(np.sum(field * own)) * 10.0 ** (-float(foliage_loss_db(leaf_m, wave.carrier_hz)) / 20.0)
    return passed, extra


def _one_wall(radio: RadioScene, direction: Floats, near: _Surface, far: _Surface) -> bool:
    """Whether two surfaces that follow each other are the two faces of one wall."""
    alike = radio.object_index[near[1]] == radio.object_index[far[1]]
    enters, leaves = float(direction @ near[2]) < 0.0, float(direction @ far[2]) > 0.0
    thick = (far[0] - near[0]) * abs(float(direction @ near[2]))
    return bool(alike and enters and leaves and thick <= THICKEST_WALL_M)


def wall_around(radio: RadioScene, place: Floats) -> str | None:
    """The object in whose wall a point (3,) [m] lies; None where it lies in none.

    It lies in a wall if a line through it, of many, leaves one object on both sides within THICKEST_WALL_M.
    """
    half = np.concatenate([np.eye(3), fibonacci_sphere(128)[:64]])
    both = np.concatenate([half, -half])
    hits = radio.standing.cast(Rays.of(np.broadcast_to(place, both.shape), both, 0.0, THICKEST_WALL_M))
    behind = hits.found & (np.einsum("ij,ij->i", hits.normal, both) > 0.0)
    one, other = behind[: len(half)], behind[len(half) :]
    thick = hits.range[: len(half)] + hits.range[len(half) :]
    thing = np.where(hits.found, radio.object_index[np.maximum(hits.part, 0)] if len(radio.object_index) else -1, -1)
    inside = one & other & (thick <= THICKEST_WALL_M) & (thing[: len(half)] == thing[len(half) :])
    if not inside.any():
        return None
    return radio.object_names.get(int(thing[: len(half)][inside][0]), "a wall")
