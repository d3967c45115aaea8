"""Objects in clouds by distance: number of points, size and truncation, as in Huang 2023, Tables III to V."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from parhelion.core.clouds import PointCloud, origin_names
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats

DISTANCE_CLASSES_M = (0.0, 30.0, 45.0, 60.0, 120.0)
"""Edges of distance classes [m]: those of Table IV, and one for larger distances."""
FEWEST_POINTS = 10
"""Smallest number of points of an object whose size is measured."""


@dataclass(frozen=True, eq=False)
class SampledObject:
    """One object as sampled by a cloud."""

    label: str
    instance: int
    distance_m: float
    """Horizontal distance from the sensor to the centre of its points."""
    points: Floats
    """Points of the object [m], shape (n, 3)."""
    size_m: tuple[float, float, float]
    """Length, width and height of the smallest upright box around the points."""

    @property
    def count(self) -> int:
        return len(self.points)

    @property
    def volume_m3(self) -> float:
        """Volume of the box."""
        return float(np.prod(self.size_m))

    @property
    def density_m3(self) -> float:
        """Points over the volume of the box [1/m³]; each side of the box counts as at least 0.1 m."""
        return self.count / float(np.prod(np.maximum(self.size_m, 0.1)))


def objects_in(
    cloud: PointCloud, labels: Iterable[str] | None = None, fewest: int = FEWEST_POINTS
) -> list[SampledObject]:
    """Objects of a cloud in the sensor's frame by its field `instance`; of the given labels, or all.

    Points without a surface, such as rain, belong to no object.
    """
    if "instance" not in cloud.fields:
        raise ConfigError("objects: the cloud has no field 'instance', so its points belong to no object")
    names: Mapping[int, str] = cloud.names.get("label", {})
    wanted = None if labels is None else set(labels)
    instance, xyz = np.asarray(cloud.fields["instance"]), np.asarray(cloud.xyz, np.float64)
    kept = (instance > 0) & np.isfinite(xyz).all(axis=1)
    if "origin" in cloud.fields:
        words = cloud.names.get("origin") or origin_names()
        kept &= np.isin(cloud.fields["origin"], [k for k, word in words.items() if word == "surface"])
    label = np.asarray(cloud.fields["label"]) if "label" in cloud.fields else np.zeros(len(cloud), np.int64)
    rows = np.flatnonzero(kept)
    rows = rows[np.argsort(instance[rows], kind="stable")]
    if not len(rows):
        return []
    groups = np.split(rows, np.flatnonzero(np.diff(instance[rows])) + 1)
    found = []
    for group in groups:
        word = names.get(int(np.bincount(label[group].astype(np.int64)).argmax()), "object")
        if len(group) < fewest or (wanted is not None and word not in wanted):
            continue
        points = xyz[group]
        away = float(np.linalg.norm(points.mean(axis=0)[:2]))
        found.append(SampledObject(word, int(instance[group[0]]), away, points, upright_box(points)))
    return found


def upright_box(points: Floats) -> tuple[float, float, float]:
    """Length, width and height [m] of the smallest box around points (n, 3) whose third axis is upright."""
    height = float(np.ptp(points[:, 2]))
    flat = points[:, :2] - points[:, :2].mean(axis=0)
    edges = _hull_edges(flat)
    # One side of the smallest rectangle lies on a side of the convex hull (Freeman and Shapira 1975).
    along = edges / np.linalg.norm(edges, axis=1, keepdims=True)
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    spans = np.ptp(along @ flat.T, axis=1), np.ptp(across @ flat.T, axis=1)
    best = int(np.argmin(spans[0] * spans[1]))
    sides = sorted((float(spans[0][best]), float(spans[1][best])), reverse=True)
    return sides[0], sides[1], height


def _hull_edges(flat: Floats) -> Floats:
    """Sides of the convex hull of points (n, 2), shape (k, 2); for collinear points, the line."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        corners = flat[ConvexHull(flat).vertices]
    except (QhullError, ValueError):
        _, _, axes = np.linalg.svd(flat, full_matrices=False)
        return np.asarray(axes[:1], np.float64)
    edges = np.roll(corners, -1, axis=0) - corners
    return np.asarray(edges[np.linalg.norm(edges, axis=1) > 0.0], np.float64)


@dataclass(frozen=True)
class DistanceRow:
    """Means over the objects of one label in one distance class."""

    label: str
    from_m: float
    to_m: float
    objects: int
    count: float
    volume_m3: float
    density_m3: float
    truncation_percent: float | None
    """Share of the complete box that the points do not span; None if complete boxes are unknown."""


def by_distance(
    objects: Sequence[SampledObject],
    edges_m: Sequence[float] = DISTANCE_CLASSES_M,
    whole_m3: Mapping[int, float] | None = None,
) -> list[DistanceRow]:
    """Means by label and distance class. `whole_m3` is the volume of the complete box by instance [m³]."""
    if len(edges_m) < 2 or any(b <= a for a, b in pairwise(edges_m)):
        raise ConfigError(f"distance classes: edges must increase, got {', '.join(f'{edge:g}' for edge in edges_m)}")
    rows = []
    for label in sorted({one.label for one in objects}):
        for low, high in pairwise(edges_m):
            group = [one for one in objects if one.label == label and low <= one.distance_m < high]
            if not group:
                continue
            lost = [
                100.0 * max(0.0, 1.0 - one.volume_m3 / whole_m3[one.instance])
                for one in group
                if whole_m3 is not None and whole_m3.get(one.instance, 0.0) > 0.0
            ]
            parts = ([one.count for one in group], [one.volume_m3 for one in group], [one.density_m3 for one in group])
            count, volume, dense = (float(np.mean(part)) for part in parts)
            truncated = float(np.mean(lost)) if lost else None
            rows.append(DistanceRow(label, low, high, len(group), count, volume, dense, truncated))
    return rows


def largest_boxes(*clouds_objects: Sequence[SampledObject]) -> dict[int, float]:
    """Largest box of each instance in any of the clouds [m³], as an estimate of the complete box."""
    found: dict[int, float] = {}
    for objects in clouds_objects:
        for one in objects:
            found[one.instance] = max(found.get(one.instance, 0.0), one.volume_m3)
    return found
