"""Paths from a point to another over flat mirrors, by images (Allen and Berkley 1979, J. Acoust. Soc. Am. 65, 943).

The source's image behind the mirrors of a sequence turns a broken path into a straight line: its length and direction
come from float64 planes. Rays find which sequences there are where trying all would take too long, and tell whether
every mirror is there and every leg free.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.rays.records import Hits, Rays
from parhelion.world.planes import Patches

SEARCH_RAYS = 16_384
"""Rays that look for sequences of mirrors: one each 1.6 degrees."""
SMALLEST_MIRROR_M2 = 0.05
"""Smaller planes are no mirrors."""
MOST_TRIED = 100_000
"""Up to so many sequences are all tried; of more, those that rays find."""
LAYER_M = 5e-3
"""Planes that lie closer are layers of one mirror."""
LIFT_M = 1e-3
_SAME_PLANE = 0.9998

Whole = NDArray[np.int64]


class Caster(Protocol):
    """Whatever casts rays: a ray scene."""

    def cast(self, rays: Rays) -> Hits:
        """The nearest triangle each ray meets, within its range."""
        ...


@dataclass(frozen=True, eq=False)
class ImagePaths:
    """Paths from one source to one receiver, n rows; the first is the direct one where that is free."""

    mirrors: Whole
    """Patches in the order from the receiver, -1 where there is none, shape (n, order)."""
    image: Floats
    """The source behind all mirrors [m], shape (n, 3)."""
    cosine: Floats
    """Of incidence at each mirror, NaN where there is none, shape (n, order)."""
    before: Floats
    """Way from the receiver to each mirror [m], NaN where there is none, shape (n, order)."""
    length: Floats
    """Of the whole way [m], shape (n,)."""

    def __len__(self) -> int:
        return len(self.length)

    @property
    def order(self) -> Whole:
        """Number of mirrors, shape (n,)."""
        return np.asarray(np.sum(self.mirrors >= 0, axis=1))

    def rows(self, wanted: Whole | NDArray[np.bool_]) -> ImagePaths:
        """Some rows."""
        return ImagePaths(*(getattr(self, one.name)[wanted] for one in fields(self)))


def mirrored_vector(vector: Floats, mirrors: Whole, planes: Patches) -> Floats:
    """A vector (3,), such as a velocity, as each row's mirrors (n, order) show it to the receiver, shape (n, 3)."""
    found = np.repeat(np.asarray(vector, np.float64)[None], len(mirrors), axis=0)
    for step in reversed(range(mirrors.shape[1])):
        rows = np.flatnonzero(mirrors[:, step] >= 0)
        normal = planes.normal[mirrors[rows, step]]
        found[rows] -= 2.0 * np.einsum("ij,ij->i", normal, found[rows])[:, None] * normal
    return found


def sequences(
    scene: Caster, planes: Patches, usable: NDArray[np.bool_], receiver: Floats, time: float, order: int
) -> list[Whole]:
    """Sequences of 0, 1 ... `order` mirrors among the `usable` patches that a wave to the receiver may take.

    Each in the order from the receiver, shape (k, number of mirrors). They do not depend on where the wave begins.
    """
    mirrors = np.flatnonzero(usable & (planes.area >= SMALLEST_MIRROR_M2)).astype(np.int64)
    found = [np.zeros((1, 0), np.int64)]
    while len(found) <= order and len(mirrors) and len(mirrors) ** len(found) <= MOST_TRIED:
        grid = np.meshgrid(*[mirrors] * len(found), indexing="ij")
        tried = np.stack([one.ravel() for one in grid], axis=1)
        found.append(np.asarray(tried[np.all(tried[:, 1:] != tried[:, :-1], axis=1)]))
    if len(found) > order or not len(mirrors):
        return found
    is_mirror = np.zeros(len(planes), bool)
    is_mirror[mirrors] = True
    direction = sphere(SEARCH_RAYS)
    place = np.broadcast_to(receiver, direction.shape)
    met = np.zeros((len(direction), 0), np.int64)
    for count in range(1, order + 1):
        n = len(direction)
        hits = scene.cast(Rays(place, direction, np.full(n, time), np.full(n, np.inf)))
        patch = _patch_of(planes, hits.triangle)
        rows = np.flatnonzero((patch >= 0) & is_mirror[patch])
        patch, ahead = patch[rows], direction[rows]
        normal = planes.normal[patch]
        toward = np.einsum("ij,ij->i", normal, ahead)
        place = place[rows] + hits.range[rows, None] * ahead - LIFT_M * np.sign(toward)[:, None] * normal
        direction = ahead - 2.0 * toward[:, None] * normal
        met = np.concatenate([met[rows], patch[:, None]], axis=1)
        if count >= len(found):
            found.append(np.unique(met, axis=0))
    return found


def image_paths(
    scene: Caster, planes: Patches, tried: list[Whole], source: Floats, receiver: Floats, time: float,
    passes: NDArray[np.bool_],
) -> ImagePaths:  # fmt: skip
    """All paths from a source by the `sequences` of a receiver at a time [s].

    `passes` says of each part of the world whether the source's own leg goes through it: a body does not hide what
    sounds inside of it.
    """
    order = len(tried) - 1
    found = [_free(scene, planes, source, receiver, rows, time, order, passes) for rows in tried]
    joined = ImagePaths(*(np.concatenate([getattr(one, part.name) for one in found]) for part in fields(ImagePaths)))
    return _without_layers(joined.rows(np.lexsort((joined.length, joined.order))), planes)


@lru_cache(maxsize=4)
def sphere(count: int) -> Floats:
    """Unit vectors evenly over the sphere (golden spiral), shape (count, 3)."""
    k = np.arange(count) + 0.5
    z = 1.0 - 2.0 * k / count
    angle = np.pi * (1.0 + np.sqrt(5.0)) * k
    r = np.sqrt(1.0 - z * z)
    return np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)


def _patch_of(planes: Patches, triangle: Whole) -> Whole:
    known = planes.of_triangle
    if not len(known):
        return np.full(len(triangle), -1, np.int64)
    standing = (triangle >= 0) & (triangle < len(known))
    return np.where(standing, known[np.clip(triangle, 0, len(known) - 1)], -1).astype(np.int64)


def _free(
    scene: Caster, planes: Patches, source: Floats, receiver: Floats, tried: Whole, time: float, order: int,
    passes: NDArray[np.bool_],
) -> ImagePaths:  # fmt: skip
    """Those of the tried sequences (k, count) by which a wave gets through."""
    count = tried.shape[1]
    images = [np.repeat(source[None].astype(np.float64), len(tried), axis=0)]
    for step in reversed(range(count)):
        normal, offset = planes.normal[tried[:, step]], planes.offset[tried[:, step]]
        height = np.einsum("ij,ij->i", normal, images[0]) - offset
        images.insert(0, images[0] - 2.0 * height[:, None] * normal)
    points, keep = [np.repeat(receiver[None].astype(np.float64), len(tried), axis=0)], np.ones(len(tried), bool)
    for step in range(count):
        good, place = _crossing(planes, tried[:, step], points[-1], images[step])
        keep &= good
        points.append(place)
    kept = np.flatnonzero(keep)
    tried, images = tried[kept], [one[kept] for one in images]
    points = [one[kept] for one in points] + [images[-1]]
    good = _legs_free(scene, planes, tried, points, time, passes)
    tried, points, image = tried[good], [one[good] for one in points], images[0][good]
    wide = np.full((len(tried), order), -1, np.int64)
    wide[:, :count] = tried
    cosine, before = np.full((len(tried), order), np.nan), np.full((len(tried), order), np.nan)
    way = np.zeros(len(tried))
    for step in range(count):
        leg = points[step + 1] - points[step]
        size = np.linalg.norm(leg, axis=1)
        way = way + size
        before[:, step] = way
        normal = planes.normal[tried[:, step]]
        cosine[:, step] = np.abs(np.einsum("ij,ij->i", normal, leg)) / np.maximum(size, 1e-12)
    return ImagePaths(wide, image, cosine, before, np.linalg.norm(image - receiver, axis=1))


def _crossing(planes: Patches, patch: Whole, start: Floats, end: Floats) -> tuple[NDArray[np.bool_], Floats]:
    """Whether segments meet planes inside of their boxes, and where [m]."""
    normal, offset = planes.normal[patch], planes.offset[patch]
    before = np.einsum("ij,ij->i", normal, start) - offset
    after = np.einsum("ij,ij->i", normal, end) - offset
    apart = before * after < 0.0
    share = before / np.where(apart, before - after, 1.0)
    place = start + np.where(apart, share, 0.0)[:, None] * (end - start)
    inside = np.all((place >= planes.lower[patch] - LAYER_M) & (place <= planes.upper[patch] + LAYER_M), axis=1)
    return apart & inside, place


def _legs_free(
    scene: Caster, planes: Patches, tried: Whole, points: list[Floats], time: float, passes: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Whether each mirror is there, and all legs are free; one launch of rays. `points` go from receiver to source."""
    count, n = tried.shape[1], len(tried)
    if not n:
        return np.zeros(0, bool)
    starts, stops, downs = [points[0]], [], []
    for step in range(count):
        normal = planes.normal[tried[:, step]]
        side = np.sign(np.einsum("ij,ij->i", normal, points[step]) - planes.offset[tried[:, step]])[:, None]
        lifted = points[step + 1] + LIFT_M * side * normal
        stops.append(lifted)
        starts.append(lifted)
        downs.append(lifted - 2.0 * LIFT_M * side * normal)
    stops.append(points[-1])
    start, stop = np.concatenate([*starts, *starts[1:]]), np.concatenate([*stops, *downs])
    way = stop - start
    length = np.linalg.norm(way, axis=1)
    direction = way / np.maximum(length, 1e-12)[:, None]
    hits = scene.cast(Rays(start, direction, np.full(len(start), time), np.maximum(length, 1e-9)))
    legs = hits.found[: (count + 1) * n].reshape(count + 1, n).copy()
    # The last leg ends in the source, and what carries it does not hide it.
    part = hits.part[count * n : (count + 1) * n]
    if len(passes):
        legs[-1] &= ~passes[np.clip(part, 0, len(passes) - 1)]
    good = ~legs.any(axis=0)
    for step in range(count):
        met = _patch_of(planes, hits.triangle[(count + 1 + step) * n : (count + 2 + step) * n])
        same = np.abs(np.einsum("ij,ij->i", planes.normal[tried[:, step]], planes.normal[met])) > _SAME_PLANE
        good &= (met >= 0) & ((met == tried[:, step]) | same)
    return np.asarray(good)


def _without_layers(found: ImagePaths, planes: Patches) -> ImagePaths:
    """Of paths by layers of one mirror, or by two patches that meet at the mirror point, only one; rows by order."""
    if len(found) < 2:
        return found
    # Images in one cell of the layers' size are one; the larger mirrors come first.
    cell = np.round(found.image / (4.0 * LAYER_M)).astype(np.int64)
    area = np.where(found.mirrors >= 0, planes.area[found.mirrors], 1.0).prod(axis=1) if len(planes) else found.length
    order = np.lexsort((-area, found.order))
    key = np.concatenate([found.order[:, None], cell], axis=1)[order]
    _, first = np.unique(key, axis=0, return_index=True)
    return found.rows(np.sort(order[first]))
