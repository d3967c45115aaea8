"""ouster-ros: layout of its PointCloud2, ouster_ros::Point.

48 bytes per point, aligned to 16; organised and destaggered, NaN where there is no return.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud, Scan, Shots
from parhelion.makers.layouts import CloudLayout, Columns, whole

_OURS = {
    "t": ("time", 1e9),
    "reflectivity": ("reflectivity", 100.0),
    "ambient": ("near_ir", 1.0),
    "range": ("range", 1e3),
}
"""Our field and the factor to the driver's unit, for fields that differ."""


class OusterPoints(CloudLayout):
    """Fields of ouster-ros: `t` [ns] after the header's stamp, `range` [mm], `ring` 0 at the top."""

    zero_is_missing = True
    dtype = np.dtype(
        {
            "names": ["x", "y", "z", "intensity", "t", "reflectivity", "ring", "ambient", "range"],
            "formats": ["<f4", "<f4", "<f4", "<f4", "<u4", "<u2", "<u2", "<u2", "<u4"],
            "offsets": [0, 4, 8, 16, 20, 24, 26, 28, 32],
            "itemsize": 48,
        }
    )

    def points(self, cloud: PointCloud, height: int = 0) -> NDArray[Any]:
        """See `CloudLayout.points`."""
        rows = np.zeros(len(cloud), self.dtype)
        for name, values in self.values(cloud, height, self.dtype.names or ()).items():
            rows[name] = values
        return rows

    def values(self, cloud: PointCloud, height: int, names: Collection[str]) -> Columns:
        """See `CloudLayout.values`."""
        fields, found = cloud.fields, dict[str, NDArray[Any]]()
        for name in names:
            ours, factor = _OURS.get(name, (name, 1.0))
            if name in ("x", "y", "z"):
                found[name] = cloud.xyz[:, "xyz".index(name)]
            elif name == "range" and "range" not in fields:
                found[name] = whole(np.linalg.norm(cloud.xyz, axis=1) * 1000.0, "u4")
            elif ours in fields:
                kind = self.dtype[name]
                held = fields[ours]
                found[name] = held if kind.kind == "f" else whole(held.astype(np.float64) * factor, kind.str[1:])
        # Ouster's reflectivity is one byte in a two-byte field.
        if "reflectivity" in found:
            found["reflectivity"] = np.minimum(found["reflectivity"], 255)
        if "ring" in names:
            found["ring"] = _from_the_other_end(found.get("ring", np.zeros(len(cloud), np.uint16)), height)
        return found

    def rows(self, cloud: PointCloud, echo: int = 0) -> tuple[NDArray[Any], tuple[int, int]]:
        """An image of rings times columns with one return per shot, the strongest or the next for `echo` = 1."""
        if not isinstance(cloud, Scan) or len(cloud.shots) == 0:
            return super().rows(cloud)
        shots = cloud.shots
        rings, columns = int(shots.ring.max()) + 1, int(shots.column.max()) + 1
        cell = _cells(shots, rings, columns)
        image = np.zeros(rings * columns, self.dtype)
        for axis in "xyz":
            image[axis] = np.nan
        image["ring"] = np.repeat(np.arange(rings), columns)
        image["t"][cell] = whole(shots.time.astype(np.float64) * 1e9, "u4")
        # Pixels without a return keep the ambient and noise counts.
        if shots.near_ir is not None:
            image["ambient"][cell] = whole(shots.near_ir, "u2")
        if shots.noise is not None and echo == 0:
            image["intensity"][cell] = shots.noise
        chosen = np.flatnonzero(strength_rank(cloud, np.arange(len(cloud))) == echo)
        image[cell[cloud.fields["shot"][chosen]]] = self.points(cloud, rings)[chosen]
        return image, (rings, columns)

    def matches(self, dtype: np.dtype[Any]) -> bool:
        """See `CloudLayout.matches`."""
        names = ("t", "reflectivity", "ring", "range")
        return set(names) <= set(dtype.names or ()) and all(dtype[name].kind == "u" for name in names)

    def columns(self, columns: Columns, height: int) -> Columns:
        """See `CloudLayout.columns`."""
        ring = _from_the_other_end(columns["ring"], height).astype(np.uint16)
        share = (columns["reflectivity"] / np.float32(100.0)).astype(np.float32)
        return {**columns, "ring": ring, "reflectivity": share}


def _from_the_other_end(ring: NDArray[Any], height: int) -> NDArray[Any]:
    """Rings counted from the top instead of the bottom, or back.

    A cloud that is not organised does not state its number of rings: Ouster builds powers of two, from 16.
    """
    highest = int(ring.max(initial=0)) + 1
    rings = height if height > 1 else max(16, 1 << (highest - 1).bit_length())
    return rings - 1 - np.minimum(ring, rings - 1)


def strength_rank(scan: Scan, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rank by strength within each shot of the points `rows`: 0 for the strongest return, 1 for the next."""
    shot = scan.fields["shot"][rows].astype(np.int64)
    if not len(rows) or scan.shots.return_count.max(initial=0) <= 1:
        return np.zeros(len(rows), np.int64)
    strength = scan.fields.get("power", scan.fields.get("intensity", -scan.fields["range"]))[rows]
    order = np.lexsort((np.arange(len(rows)), -strength.astype(np.float64), shot))
    ordered = shot[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    index = np.arange(len(rows))
    rank = np.empty(len(rows), np.int64)
    rank[order] = index - np.maximum.accumulate(np.where(begins, index, 0))
    return rank


_known_cells: list[tuple[Shots, NDArray[np.int64]]] = []


def _cells(shots: Shots, rings: int, columns: int) -> NDArray[np.int64]:
    """Place of each shot in the image, row by row; cached for the next scan of the same pattern."""
    for known, cells in _known_cells:
        if all(getattr(known, name) is getattr(shots, name) for name in ("direction", "ring", "column")):
            return cells
    cells = (rings - 1 - shots.ring.astype(np.int64)) * columns + _destaggered(shots, rings, columns)
    _known_cells[4:] = []
    _known_cells.insert(0, (shots, cells))
    return cells


def _destaggered(shots: Shots, rings: int, columns: int) -> NDArray[np.int64]:
    """Column of each shot in an image whose columns are directions: rings fire into different ones at the same time."""
    column = shots.column.astype(np.int64)
    angle = np.arctan2(shots.direction[:, 1], shots.direction[:, 0]).astype(np.float64)
    step = 2.0 * np.pi / columns
    clockwise = 1.0
    first_ring = shots.ring == shots.ring[0]
    seen = np.unwrap(angle[first_ring][np.argsort(column[first_ring], kind="stable")])
    if len(seen) > 1:
        clockwise = -1.0 if seen[-1] < seen[0] else 1.0
        if abs(abs(seen[-1] - seen[0]) - 2.0 * np.pi) > 2.0 * step:
            return column  # not a full revolution, so columns cannot be rolled
    # Without the rotation, the ring's own offset remains; its mean over the columns has no jitter.
    rest = np.exp(1j * (angle - clockwise * step * column))
    mean = np.bincount(shots.ring, rest.real, rings) + 1j * np.bincount(shots.ring, rest.imag, rings)
    offset = np.angle(mean * np.conj(np.sum(mean)))
    shift = clockwise * offset / step
    if np.max(np.abs(shift - np.rint(shift))) > 0.25:
        # The mean of all rings lies between two columns: use the ring nearest to it as reference.
        shift = shift - shift[np.argmin(np.abs(shift))]
    return (column + np.rint(shift).astype(np.int64)[shots.ring]) % columns
