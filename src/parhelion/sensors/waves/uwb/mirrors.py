"""Mirrors that an anchor may see: sequences of planes found by rays, with the images of the anchor behind them.

Anchors stand still, so the search is made once for each world and anchor: rays in all directions, mirrored once. What
they meet are the sequences of planes by which a wave can reach the anchor. The anchor's image behind the planes of a
sequence turns the broken path of a wave into a straight line (Allen and Berkley 1979, J. Acoust. Soc. Am. 65, 943).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.rays.records import Rays
from parhelion.sensors.waves.uwb.scene import RadioScene
from parhelion.world.planes import Patches

SEARCH_RAYS = 65_536
"""Rays of the search from each anchor: one each 0.8 degrees, 1 m wide at 70 m."""
SMALLEST_MIRROR_M2 = 0.05
"""Smaller planes are no mirrors."""
SMALLEST_OF_PAIR_M2 = 0.5
"""Smaller planes are no mirrors of a path with two: both would weaken it."""
_OFF_M = 2e-3


@dataclass(frozen=True, eq=False)
class Gates:
    """The first planes of sequences, one row each."""

    normal: Floats
    offset: Floats
    """Of the plane [m], shape (s,)."""
    after: Floats
    """Height of the image over the plane [m], shape (s,)."""
    lower: Floats
    upper: Floats


@dataclass(frozen=True, eq=False)
class Sequences:
    """Planes in the order from tag to anchor, and images of the anchor; s rows."""

    anchor: NDArray[np.int64]
    """Number of the anchor, shape (s,)."""
    first: NDArray[np.int64]
    """The plane that a wave from the tag meets first, shape (s,)."""
    second: NDArray[np.int64]
    """The plane that it meets next; -1 where there is none, shape (s,)."""
    image: Floats
    """The anchor mirrored at the second plane, then at the first [m], shape (s, 3)."""
    half_image: Floats
    """The anchor mirrored at the second plane alone [m], shape (s, 3)."""

    def __len__(self) -> int:
        return len(self.anchor)

    def gates(self, planes: Patches) -> Gates:
        """The first planes of all rows side by side: looked up once, and read for every measurement."""
        if "_gates" not in self.__dict__:
            first = self.first
            normal = planes.normal[first]
            after = np.einsum("ij,ij->i", normal, self.image) - planes.offset[first]
            made = Gates(normal, planes.offset[first], after, planes.lower[first], planes.upper[first])
            self.__dict__["_gates"] = made
        found: Gates = self.__dict__["_gates"]
        return found

    def rows(self, wanted: NDArray[np.int64] | NDArray[np.bool_]) -> Sequences:
        """Some rows."""
        return Sequences(*(getattr(self, one.name)[wanted] for one in fields(self)))


@lru_cache(maxsize=4)
def sphere(count: int) -> Floats:
    """Unit vectors evenly over the sphere (golden spiral), shape (count, 3)."""
    k = np.arange(count) + 0.5
    z = 1.0 - 2.0 * k / count
    angle = np.pi * (1.0 + np.sqrt(5.0)) * k
    r = np.sqrt(1.0 - z * z)
    return np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)


def mirrored_at(point: Floats, planes: Patches, number: NDArray[np.int64]) -> Floats:
    """Points (n, 3) [m] mirrored at planes (n,)."""
    normal = planes.normal[number]
    height = np.einsum("ij,ij->i", normal, point) - planes.offset[number]
    return np.asarray(point - 2.0 * height[:, None] * normal)


def sequences(radio: RadioScene, anchors: Floats, order: int, reach_m: float) -> Sequences:
    """All sequences of up to `order` (0, 1, 2) mirrors that rays from anchors (a, 3) [m] find within a reach [m]."""
    parts = [_none(), *(_of_anchor(radio, k, anchor, order, reach_m) for k, anchor in enumerate(anchors))]
    return Sequences(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Sequences)))


def _none() -> Sequences:
    nothing = np.zeros(0, np.int64)
    return Sequences(nothing, nothing, nothing, np.zeros((0, 3)), np.zeros((0, 3)))


def _of_anchor(radio: RadioScene, number: int, anchor: Floats, order: int, reach_m: float) -> Sequences:
    planes = radio.patches
    if order < 1 or not len(planes):
        return _none()
    mirrors = (planes.area >= SMALLEST_MIRROR_M2) & ~radio.foliage[planes.part]
    direction = sphere(SEARCH_RAYS)
    start = np.broadcast_to(anchor, direction.shape)
    near, where, onward = _bounce(radio, mirrors, start, direction, reach_m)
    last = np.unique(near)
    half = mirrored_at(np.broadcast_to(anchor, (len(last), 3)), planes, last)
    none = np.full(len(last), -1, np.int64)
    once = Sequences(np.full(len(last), number), last, none, half, np.broadcast_to(anchor, half.shape))
    if order < 2:
        return once
    large = mirrors & (planes.area >= SMALLEST_OF_PAIR_M2)
    wide = large[near]
    near, where, onward = near[wide], where[wide], onward[wide]
    far, _, _, rows = _bounce_with_rows(radio, large, where, onward, reach_m)
    pairs = np.unique(far * len(planes) + near[rows])
    first, second = pairs // len(planes), pairs % len(planes)
    keep = first != second
    first, second = first[keep], second[keep]
    half = mirrored_at(np.broadcast_to(anchor, (len(first), 3)), planes, second)
    twice = Sequences(np.full(len(first), number), first, second, mirrored_at(half, planes, first), half)
    return Sequences(
        *(np.concatenate([getattr(once, one.name), getattr(twice, one.name)]) for one in fields(Sequences))
    )


def _bounce(
    radio: RadioScene, mirrors: NDArray[np.bool_], start: Floats, direction: Floats, reach_m: float
) -> tuple[NDArray[np.int64], Floats, Floats]:
    return _bounce_with_rows(radio, mirrors, start, direction, reach_m)[:3]


def _bounce_with_rows(
    radio: RadioScene, mirrors: NDArray[np.bool_], start: Floats, direction: Floats, reach_m: float
) -> tuple[NDArray[np.int64], Floats, Floats, NDArray[np.int64]]:
    """Of rays that meet a mirror: its plane, the place on their side of it, the direction onward, and their row."""
    count = len(start)
    hits = radio.standing.cast(Rays(start, direction, np.zeros(count), np.full(count, reach_m)))
    patch = radio.patch_of(hits.triangle)
    rows = np.flatnonzero((patch >= 0) & mirrors[patch])
    patch, d = patch[rows], direction[rows]
    normal = radio.patches.normal[patch]
    toward = np.einsum("ij,ij->i", normal, d)
    place = start[rows] + hits.range[rows, None] * d - _OFF_M * np.sign(toward)[:, None] * normal
    return patch, place, d - 2.0 * toward[:, None] * normal, rows
