"""A recorded cloud after weather: what is kept of it, what is new, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.records import FIELDS, ORIGINS, PointCloud, Scan
from parhelion.core.reflectivity import reflectivity_counts
from parhelion.rays.scene import NOTHING
from parhelion.sensors.lidar.recorded_shots import RecordedShots
from parhelion.sensors.light.target import NO_MATERIAL
from parhelion.world.labels import SEMANTIC_KITTI

IN_THE_AIR = ("rain", "fog", "snow", "dust")
"""Origins of points that weather made."""


@dataclass
class Found:
    """The returns after weather, as NumPy arrays in order of shot and range."""

    xyz: NDArray[np.float32]
    range_m: NDArray[np.float32]
    power: NDArray[np.float32]
    reflectivity: NDArray[np.float32]
    intensity: NDArray[np.float32]
    shot: NDArray[np.uint32]
    source: NDArray[np.uint32]
    """Row of the cloud that the point was, or NOTHING."""
    origin: NDArray[np.uint32]


def as_it_was(cloud: PointCloud) -> PointCloud:
    """The cloud itself, with the field that says what made each point: without weather, surfaces made them."""
    if "origin" in cloud.fields:
        return cloud
    origin = np.zeros(len(cloud), FIELDS["origin"].dtype)
    names = {**cloud.names, "origin": dict(enumerate(ORIGINS))}
    return replace(cloud.with_fields(origin=origin), names=names)


def earlier_weather(cloud: PointCloud) -> list[str]:
    """A word of warning where a cloud was measured in weather, or had some put on it: both then count."""
    origin = cloud.fields.get("origin")
    words = dict(cloud.names.get("origin", {})) or dict(enumerate(ORIGINS))
    in_air = []
    if origin is not None:
        codes, counts = np.unique(origin[np.isfinite(cloud.xyz).all(axis=1)], return_counts=True)
        told = {str(words.get(int(code), "")): int(count) for code, count in zip(codes, counts, strict=True)}
        in_air = [f"{told[word]} points of {word}" for word in IN_THE_AIR if word in told]
    if in_air:
        return [f"the cloud holds weather already ({', '.join(in_air)}): the new one was put on top of it"]
    if "weather_notes" in cloud.metadata:
        return ["weather was put on this cloud before: the new one was put on top of it"]
    return []


def assembled(cloud: PointCloud, shots: RecordedShots, found: Found, *, counts: bool = False) -> PointCloud:
    """The cloud with its points dimmed, moved, dropped and joined by those of the air.

    `counts` tells that its reflectivities are whole numbers on Ouster's scale.
    """
    new = found.source == NOTHING
    source = np.where(new, 0, found.source).astype(np.int64)
    # New points take ring, column and time of a point of the same shot, or of the shot itself.
    alike = source.copy()
    alike[new] = shots.row_like(found.shot[new])
    lost = found.shot >= shots.points_shots
    exit_m = shots.exits(found.shot)
    xyz = found.xyz if exit_m is None else found.xyz + exit_m
    measured = {
        "range": found.range_m, "power": found.power, "intensity": found.intensity,
        "reflectivity": reflectivity_counts(found.reflectivity) if counts else found.reflectivity,
        "origin": np.where(new, found.origin, 0),
    }  # fmt: skip
    fields: dict[str, NDArray[Any]] = {}
    for name, held in cloud.fields.items():
        # Of a cloud without points every field is taken as that of one with a point of zeros, which none is alike.
        values = held if len(cloud) else np.zeros((1, *held.shape[1:]), held.dtype)
        if name in measured:
            fields[name] = measured[name].astype(values.dtype)
            if name == "origin":
                fields[name] = np.where(new, found.origin, values[source]).astype(values.dtype)
        elif name in ("ring", "column", "time", "shot", "direction"):
            fields[name] = shots.of_shot(name, values, alike, lost, found.shot)
        else:
            taken = values[source]
            taken[new] = NO_MATERIAL if name == "material" and taken.dtype == np.uint16 else 0
            # Labels without words are SemanticKITTI's, which has a class for what is in the air.
            if name == "label" and "label" not in cloud.names and taken.dtype.kind in "iu":
                taken[new] = SEMANTIC_KITTI["outlier"]
            fields[name] = taken
    if "origin" not in fields:
        fields["origin"] = measured["origin"].astype(FIELDS["origin"].dtype)
    if "return_count" in fields:
        total = np.bincount(found.shot, minlength=shots.count)
        fields["return_count"] = total[found.shot].astype(fields["return_count"].dtype)
        if "return_index" in fields:
            first = np.concatenate([[0], np.cumsum(total)[:-1]])
            fields["return_index"] = (np.arange(len(found.shot)) - first[found.shot]).astype(
                fields["return_index"].dtype
            )
    names = {**cloud.names, "origin": dict(enumerate(ORIGINS))}
    metadata = {**cloud.metadata, "weather_notes": shots.notes}
    if isinstance(cloud, Scan):
        total = np.bincount(found.shot, minlength=shots.count)[shots.table_places()]
        kept = replace(cloud.shots, return_count=total.astype(np.uint8))
        return Scan(
            xyz, fields, cloud.frame, names, metadata, shots=kept, motion=cloud.motion, start_time=cloud.start_time
        )
    out = PointCloud(xyz.astype(cloud.xyz.dtype, copy=False), fields, cloud.frame, names, metadata)
    return shots.with_lost_rows(cloud, out, found.shot)
