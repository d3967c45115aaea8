"""Weather clutter close to the sensor, counted on simulated scans in the same way as on recordings.

The same functions make the table in docs/weather-validation.md and serve the tests. Every count comes with the number
of shots that it is a share of, because many of them are small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import parhelion as ph
from parhelion.core.clouds import ORIGINS

SURFACE, RAIN, FOG, SNOW = (ORIGINS.index(name) for name in ("surface", "rain", "fog", "snow"))
STEP_M = 0.5
"""A point is isolated if both neighbours in its ring are lost or farther from it than this [m]."""


@dataclass(frozen=True)
class Count:
    """A count and its total."""

    found: int
    of: int

    @property
    def percent(self) -> float:
        return 100.0 * self.found / self.of


def scans_of(
    sensor: str,
    world: ph.World,
    weather: ph.Weather | None,
    poses: Sequence[ph.Pose],
    seeds: Sequence[int],
    returns: str | None = None,
) -> Iterator[ph.Scan]:
    """Scans from all poses with all seeds, one at a time, so that only one is in memory."""
    world.weather = weather
    lidar = ph.Lidar(sensor) if returns is None else ph.Lidar(sensor, returns=returns)
    for seed in seeds:
        for frame, pose in enumerate(poses):
            yield lidar.scan(world, pose=pose, seed=seed, frame=frame)


def in_rings(scan: ph.Scan, *, above_deg: float | None = None, highest: int | None = None) -> NDArray[np.bool_]:
    """Mask of the shots of rings above an elevation, or of a number of highest rings."""
    if above_deg is not None:
        return np.asarray(np.degrees(np.arcsin(scan.shots.direction[:, 2])) > above_deg)
    assert highest is not None
    return np.asarray(scan.shots.ring > scan.shots.ring.max() - highest)


@dataclass(frozen=True)
class FogCount:
    """Fog as seen by the upper rings of an HDL-32E."""

    lost: Count
    near: Count
    """Points of the air nearer than the limit, relative to all shots."""
    near_surfaces: Count
    """Surfaces nearer than the limit, which belong to the scene and not to the fog."""
    within_20_m: Count
    """Share of the returns."""


def fog_count(scans: Iterator[ph.Scan], near_m: float, **rings: float) -> FogCount:
    """Returns of the chosen rings in fog."""
    shots = lost = near = surfaces = close = returns = 0
    for scan in scans:
        chosen = in_rings(scan, **rings)  # type: ignore[arg-type]
        mine = chosen[scan.shot]
        shots += int(chosen.sum())
        lost += int((chosen & scan.lost).sum())
        close_by = mine & (scan.range < near_m)
        near += int((close_by & (scan.origin != SURFACE)).sum())
        surfaces += int((close_by & (scan.origin == SURFACE)).sum())
        returns += int(mine.sum())
        close += int((mine & (scan.range < 20.0)).sum())
    return FogCount(Count(lost, shots), Count(near, shots), Count(surfaces, shots), Count(close, returns))


def points_of(scans: Iterator[ph.Scan], origin: int) -> tuple[Count, NDArray[np.float64]]:
    """Shots that hold a point of this origin, and the ranges of all such points [m]."""
    shots = found = 0
    ranges = []
    for scan in scans:
        mine = scan.origin == origin
        shots += len(scan.shots)
        found += len(np.unique(scan.shot[mine]))
        ranges.append(scan.range[mine])
    return Count(found, shots), np.concatenate(ranges).astype(np.float64)


def isolated(scans: Iterator[ph.Scan], low_m: float, high_m: float, highest: int) -> tuple[Count, Count]:
    """Points in a span of range without a neighbour in their ring, in the highest rings: all of them, and those of the
    air.

    Recordings do not distinguish drops from edges of objects; in simulated scans both are known.
    """
    every = air = pulses = 0
    for scan in scans:
        rings, columns = int(scan.shots.ring.max()) + 1, int(scan.shots.column.max()) + 1
        place = (rings - 1 - scan.ring.astype(int), scan.column.astype(int))
        distance, of_air = np.full((rings, columns), np.nan), np.zeros((rings, columns), bool)
        distance[place], of_air[place] = scan.range, np.isin(scan.origin, (RAIN, FOG, SNOW))
        distance, of_air = distance[:highest], of_air[:highest]
        apart = [~(np.abs(np.roll(distance, step, axis=1) - distance) <= STEP_M) for step in (-1, 1)]
        alone = (distance > low_m) & (distance < high_m) & apart[0] & apart[1]
        every += int(alone.sum())
        air += int((alone & of_air).sum())
        pulses += distance.size
    return Count(every, pulses), Count(air, pulses)


def within_box(scans: Iterator[ph.Scan], origin: int, half_m: float) -> list[int]:
    """Points of this origin in each scan whose x and y both lie within +-half_m."""
    counts = []
    for scan in scans:
        inside = np.all(np.abs(scan.xyz[:, :2]) < half_m, axis=1)
        counts.append(int(np.sum(inside & (scan.origin == origin))))
    return counts
