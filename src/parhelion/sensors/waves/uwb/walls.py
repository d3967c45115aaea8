"""Transmission along the straight line from tag to anchor, through the obstacles between them.

Rays return the surfaces along the line in order. Two faces of one object closer than THICKEST_WALL_M form one wall of
that thickness. Any other surface is a sheet with the default thickness of its material. A closed box much wider than a
wall therefore attenuates twice, and a wall modelled with both faces attenuates once.
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
"""Maximum distance [m] between two faces of one object that form one wall."""
MOST_SURFACES = 48
"""A line through more surfaces transmits nothing."""
LEAF_GAP_M = 3.0
"""Minimum gap [m] along the line between separate crowns; air fills the gap."""
_OFFSET_M = 1e-3


@dataclass(frozen=True, eq=False)
class Transmission:
    """Transmission along the straight line of each link."""

    gain: Complexes
    """Complex gain relative to free space, shape (n,); 0 if the line is blocked."""
    extra_m: Floats
    """Extra path length due to walls [m], shape (n,)."""
    surfaces: Floats
    """Number of surfaces on the line, shape (n,)."""
    solid: NDArray[np.bool_]
    """True if any of them is not foliage, shape (n,)."""


def through(radio: RadioScene, start: Floats, end: Floats, times: Floats, wave: Wave) -> Transmission:
    """Transmission along the lines from `start` to `end` (n, 3) [m] at times (n,) [s]."""
    n = len(start)
    gain, extra, surfaces, solid = np.ones(n, np.complex128), np.zeros(n), np.zeros(n), np.zeros(n, bool)
    met = _surfaces(radio, start, end, times)
    for row, crossed in met.items():
        direction = end[row] - start[row]
        direction = direction / np.sqrt(direction @ direction)
        gain[row], extra[row] = _attenuated(radio, direction, crossed, wave)
        surfaces[row] = len(crossed)
        solid[row] = not all(radio.foliage[part] for _, part, _ in crossed)
    return Transmission(gain, extra, surfaces, solid)


_Surface = tuple[float, int, Floats]
"""Distance [m], part and normal."""


def _surfaces(radio: RadioScene, start: Floats, end: Floats, times: Floats) -> dict[int, list[_Surface]]:
    """Surfaces along each segment, in order; unobstructed segments have no entry."""
    vector = end - start
    length = np.sqrt(np.einsum("ij,ij->i", vector, vector))
    direction = vector / length[:, None]
    travelled, rows = np.zeros(len(start)), np.arange(len(start))
    found: dict[int, list[_Surface]] = {}
    for _ in range(MOST_SURFACES):
        origin = start[rows] + travelled[rows, None] * direction[rows]
        left = np.maximum(length[rows] - travelled[rows], 0.0)
        hits = radio.scene.cast(Rays(origin, direction[rows], times[rows], left))
        reached = hits.found
        distance, normal = _exact(radio, start[rows], direction[rows], travelled[rows] + hits.range, hits)
        for k in np.flatnonzero(reached):
            row = int(rows[k])
            found.setdefault(row, []).append((float(distance[k]), int(hits.part[k]), normal[k]))
            travelled[row] += hits.range[k] + _OFFSET_M
        onward = reached & ~(radio.closed[np.maximum(hits.part, 0)] if len(radio.closed) else False)
        rows = rows[onward & (travelled[rows] < length[rows])]
        if not len(rows):
            break
    return found


def _exact(radio: RadioScene, start: Floats, direction: Floats, distance: Floats, hits: Hits) -> tuple[Floats, Floats]:
    """Distances [m] and normals of hits, in float64 for hits on known planes."""
    patch, planes = radio.patches.patch_of(hits.triangle), radio.patches
    if not len(planes):
        return distance, hits.normal
    flat = patch >= 0
    normal = np.where(flat[:, None], planes.normal[patch], hits.normal)
    toward = np.einsum("ij,ij->i", normal, direction)
    flat &= np.abs(toward) > 1e-4
    height = planes.offset[patch] - np.einsum("ij,ij->i", normal, start)
    return np.where(flat, height / np.where(flat, toward, 1.0), distance), normal


def _attenuated(radio: RadioScene, direction: Floats, crossed: list[_Surface], wave: Wave) -> tuple[complex, float]:
    """Complex gain relative to free space and extra length [m] of one line through surfaces."""
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
    """Return True if two consecutive surfaces are the two faces of one wall."""
    same_object = radio.object_index[near[1]] == radio.object_index[far[1]]
    enters, leaves = float(direction @ near[2]) < 0.0, float(direction @ far[2]) > 0.0
    thick = (far[0] - near[0]) * abs(float(direction @ near[2]))
    return bool(same_object and enters and leaves and thick <= THICKEST_WALL_M)


def wall_around(radio: RadioScene, place: Floats) -> str | None:
    """Name of the object whose wall contains a point (3,) [m]; None if there is none.

    A point is inside a wall if at least one of many lines through it leaves the same object on both sides within
    THICKEST_WALL_M.
    """
    half = np.concatenate([np.eye(3), fibonacci_sphere(128)[:64]])
    both = np.concatenate([half, -half])
    hits = radio.standing.cast(Rays.of(np.broadcast_to(place, both.shape), both, 0.0, THICKEST_WALL_M))
    behind = hits.found & (np.einsum("ij,ij->i", hits.normal, both) > 0.0)
    one, other = behind[: len(half)], behind[len(half) :]
    thick = hits.range[: len(half)] + hits.range[len(half) :]
    item = np.where(hits.found, radio.object_index[np.maximum(hits.part, 0)] if len(radio.object_index) else -1, -1)
    inside = one & other & (thick <= THICKEST_WALL_M) & (item[: len(half)] == item[len(half) :])
    if not inside.any():
        return None
    return radio.object_names.get(int(item[: len(half)][inside][0]), "a wall")
