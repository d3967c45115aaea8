"""Surfels: small disks on the surfaces that a drive has seen, from its points by moving least squares (MLS).

Points of all frames are averaged in voxels. At each voxel a plane is fitted to the neighbouring voxels with a Gaussian
weight and a robust distance (Alexa et al. 2003, "Computing and rendering point set surfaces"; Fleishman et al. 2005 for
the robust weight). The disk lies on this plane; its radius reaches the fifth neighbour, so that disks overlap where
points are dense and holes between sparse points stay open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from parhelion.rebuild.frames import Floats, Mask, Singles
from parhelion.world.coverage import packed_cells
from parhelion.world.rebuilt import hexagons

NEIGHBOURS = 32
"""Number of neighbouring voxels of a plane."""
REACH_VOXELS = 3.0
"""Standard deviation of the Gaussian weight, in voxels."""
SCALE_M, SCALE_SHARE = 0.02, 0.0005
"""Scale of the robust distance: constant part [m], and share of the range."""
RADIUS_NEIGHBOUR = 5
"""Neighbour whose distance is the radius."""
LEAST_RADIUS_VOXELS, MOST_RADIUS_M = 0.6, 0.4
THIN_FLATNESS = 0.1
"""Ratio of the smallest to the middle variance above which neighbours form no plane; disks there are small."""
ROUNDS = 3
_CHUNK = 100_000


@dataclass(frozen=True, eq=False)
class Voxels:
    """Mean points of occupied voxels."""

    size_m: float
    key: NDArray[np.int64]
    """Packed place of each voxel, increasing, shape (n,)."""
    total: Floats
    """Sums over the points: position [m], direction of the shots, range [m], shape (n, 7)."""
    count: NDArray[np.int64]
    """Number of points, shape (n,)."""

    @classmethod
    def empty(cls, size_m: float) -> Voxels:
        """No voxels."""
        return cls(size_m, np.zeros(0, np.int64), np.zeros((0, 7)), np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.key)

    def with_points(self, points: Floats, along: Floats, range_m: Singles) -> Voxels:
        """Voxels with further points."""
        key = np.concatenate([self.key, packed_cells(points, self.size_m)])
        rows = np.concatenate([points, along, range_m.astype(np.float64)[:, None]], axis=1)
        total = np.concatenate([self.total, rows])
        count = np.concatenate([self.count, np.ones(len(points), np.int64)])
        order = np.argsort(key, kind="stable")
        key = key[order]
        first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.zeros(0, np.int64)
        if not len(first):
            return self
        return Voxels(
            self.size_m, key[first], np.add.reduceat(total[order], first), np.add.reduceat(count[order], first)
        )

    @property
    def centre(self) -> Floats:
        """Mean point of each voxel [m], shape (n, 3)."""
        return self.total[:, :3] / self.count[:, None]

    @property
    def along(self) -> Floats:
        """Mean direction of the shots of each voxel, shape (n, 3)."""
        return self.total[:, 3:6] / self.count[:, None]

    @property
    def range_m(self) -> Floats:
        """Mean range of the points of each voxel [m], shape (n,)."""
        return self.total[:, 6] / self.count


@dataclass(frozen=True, eq=False)
class Surfels:
    """Disks on surfaces."""

    centre: Floats
    """Centre of each disk [m], shape (n, 3)."""
    normal: Singles
    """Unit normal towards the sensor, shape (n, 3)."""
    radius: Singles
    """Radius [m], shape (n,)."""

    def __len__(self) -> int:
        return len(self.centre)

    def rows(self, wanted: NDArray[np.int64] | Mask) -> Surfels:
        """Selected disks."""
        return replace(self, **{one.name: getattr(self, one.name)[wanted] for one in fields(self)})

    def triangles(self) -> tuple[Floats, NDArray[np.int32]]:
        """Vertices (6 n, 3) [m] and faces (4 n, 3) of hexagons with the area of the disks."""
        return hexagons(self.centre, self.normal, self.radius)


def fitted(voxels: Voxels) -> Surfels:
    """Disks on the surfaces through voxels."""
    from scipy.spatial import cKDTree

    tree = cKDTree(voxels.centre)
    parts = list(_fitted_chunks(voxels, tree))
    return Surfels(*(np.concatenate([part[k] for part in parts]) for k in range(3)))


def _fitted_chunks(voxels: Voxels, tree: object) -> Iterator[tuple[Floats, Singles, Singles]]:
    centre, along, range_m = voxels.centre, voxels.along, voxels.range_m
    most = min(NEIGHBOURS, len(voxels))
    weight_of = np.minimum(voxels.count, 8).astype(np.float64)
    for start in range(0, len(voxels), _CHUNK):
        rows = slice(start, start + _CHUNK)
        distance, near = tree.query(centre[rows], k=most, workers=-1)  # type: ignore[attr-defined]
        reach = REACH_VOXELS * voxels.size_m
        weight = np.exp(-0.5 * (distance / reach) ** 2) * weight_of[near]
        scale = SCALE_M + SCALE_SHARE * range_m[rows]
        place = centre[near]
        normal, middle, flatness = plane(place, weight)
        for _ in range(ROUNDS - 1):
            off = np.einsum("nki,ni->nk", place - middle[:, None], normal) / scale[:, None]
            normal, middle, flatness = plane(place, weight / (1.0 + off**2) ** 2)
        off = np.einsum("ni,ni->n", centre[rows] - middle, normal)
        # Isolated points keep their place: a plane far from them is that of another surface.
        onto = np.abs(off) < 3.0 * scale
        point = centre[rows] - np.where(onto, off, 0.0)[:, None] * normal
        facing = np.einsum("ni,ni->n", normal, along[rows])
        normal = np.where((facing > 0.0)[:, None], -normal, normal)
        thin = ~onto | (flatness > THIN_FLATNESS)
        normal = np.where(thin[:, None], _toward(along[rows]), normal)
        least = LEAST_RADIUS_VOXELS * voxels.size_m
        far = distance[:, min(RADIUS_NEIGHBOUR, most - 1)]
        radius = np.clip(far, least, np.where(thin, 1.2 * least, MOST_RADIUS_M))
        yield point, normal.astype(np.float32), radius.astype(np.float32)


def _toward(along: Floats) -> Floats:
    length = np.linalg.norm(along, axis=1, keepdims=True)
    return -along / np.maximum(length, 1e-9)


def plane(place: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Weighted planes through groups of points: unit normals (n, 3), means (n, 3), and flatness (n,).

    The flatness is the smallest variance divided by the middle one: 0 for a plane, 1 for a line or a ball.
    """
    share = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
    middle = np.einsum("nk,nki->ni", share, place)
    off = place - middle[:, None]
    spread = np.einsum("nk,nki,nkj->nij", share, off, off, optimize=True)
    values, vectors = np.linalg.eigh(spread)
    return vectors[:, :, 0], middle, values[:, 0] / np.maximum(values[:, 1], 1e-12)
