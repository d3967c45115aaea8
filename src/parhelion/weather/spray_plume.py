"""Spray behind a vehicle on a wet road, as parcels that spread in its wake and fall.

The near wake of a vehicle is as wide and as high as its rear. Fine drops fill it, move with its air, which slows down,
spread with its turbulence, and fall to the road by their size. All motions have closed forms, so that a parcel at any
time follows from its number, the seed and the motion of the vehicle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from parhelion.core.pose import Floats, quat_rotate
from parhelion.core.random import Stream, to_normal, to_unit
from parhelion.core.trajectory import Trajectory
from parhelion.weather.media.dust import check_number, check_vector
from parhelion.weather.media.spray import (
    REFERENCE_MM,
    TYRE_WIDTH_M,
    airborne_share,
    drop_diameter_mm,
    fall_speed_m_s,
    picked_up_kg_m,
)
from parhelion.weather.plume import Ground, Particles, living, sampled

LIFETIME_S = 5.0
"""Time after which spray is left out; a vehicle that cuts in disturbs sensors for up to four seconds (Walz et al. 2021,
A Benchmark for Spray from Nearby Cutting Vehicles)."""
WAKE_SHARE, WAKE_S = 0.3, 0.5
"""Velocity of the wake's air relative to that of the vehicle, and time in which it slows down by e (assumed)."""
TURBULENCE, EDDY_S = 0.06, 0.5
"""Standard deviation of the wake's velocity relative to the vehicle's speed, in each axis, and time over which it
persists (assumed: spreads by 0.9 m at 30 m/s)."""
LUMPS_PER_S = 400.0
"""Lumps of spray per second: eddies that each carry drops of all sizes. A lidar sees lumps, where the echo exceeds its
threshold, so this number decides on the points that it returns. Assumed, for published counts (Walz et al. 2021)."""
CLASSES = 8
"""Parcels of one lump, with one drop size each. Counts with 16 or 32 agree within a tenth."""


@dataclass(frozen=True, eq=False)
class SprayParcels(Particles):
    """Parcels of spray at one time, oldest first, world frame."""

    diameter_mm: Floats
    """Diameter of the drops of each parcel [mm], shape (n,)."""

    @property
    def optical_mass_kg(self) -> Floats:
        """Mass of drops of REFERENCE_MM with the same extinction [kg], shape (n,)."""
        return self.mass_kg * (REFERENCE_MM / self.diameter_mm)


@dataclass(frozen=True, eq=False)
class SprayPlume:
    """Spray of a vehicle that drives along a trajectory from time 0."""

    trajectory: Trajectory
    """Motion of the vehicle's frame, x forward, known up to the time of a query."""
    ground: Ground
    """Height of the road below points, and 1 where it is paved, otherwise 0."""
    film_mm: Callable[[Floats], Floats]
    """Depth of water on the road by time [s]."""
    seed: int = 0
    name: str = "vehicle"
    """Name of the random stream."""
    width_m: float = 1.8
    length_m: float = 4.5
    height_m: float = 1.5
    """Size of the vehicle."""
    tyre_width_m: float = TYRE_WIDTH_M
    wind_m_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    parcels_per_s: float = 500.0

    def __post_init__(self) -> None:
        for field in ("width_m", "length_m", "height_m", "tyre_width_m", "parcels_per_s"):
            check_number(field, getattr(self, field), above=0.0)
        check_vector("wind_m_s", self.wind_m_s)

    def particles(self, time: float) -> SprayParcels:
        """All parcels emitted before `time` [s] and younger than LIFETIME_S, including those on the road."""
        now = check_number("time", time)
        number, begin, end = living(now, 0.0, np.inf, self.parcels_per_s, LIFETIME_S, live=True)
        birth = 0.5 * (begin + end)
        place, quat = sampled(self.trajectory, birth)
        path = sampled(self.trajectory, end)[0] - sampled(self.trajectory, begin)[0]
        distance = np.sqrt((path * path).sum(axis=1))
        speed = distance / (end - begin)
        stream = Stream(self.seed, f"weather/spray/{self.name}")
        # Drops of one lump start at one place and move with one eddy; they differ in size, one of each class.
        classes = max(1, round(self.parcels_per_s / LUMPS_PER_S))
        lump, size_class = number // classes, number % classes
        aside, up, *_ = (to_unit(word) for word in stream.words(lump, 0))
        size = (size_class + to_unit(stream.words(number, 2)[0])) / classes
        rear = np.column_stack(
            [np.full(len(number), -0.5 * self.length_m), self.width_m * (aside - 0.5), np.zeros(len(number))]
        )
        offset = quat_rotate(quat, rear)
        offset[:, 2] = 0.0
        ground, share = self.ground(place + offset)
        mass = picked_up_kg_m(self.film_mm(birth), tyre_width_m=self.tyre_width_m) * distance
        mass = mass * airborne_share(speed) * share
        wet = mass > 0.0
        age, speed, ground = (now - birth)[wet], speed[wet], ground[wet]
        diameter = drop_diameter_mm(size[wet], speed)
        a, b, c, d = stream.words(lump[wet], 1)
        eddy = np.column_stack([*to_normal(a, b), to_normal(c, d)[0]]) * (TURBULENCE * speed)[:, None]
        drift = WAKE_SHARE * (path / (end - begin)[:, None])[wet]
        drift[:, 2] = 0.0
        slowed, spread = np.exp(-age / WAKE_S)[:, None], np.exp(-age / EDDY_S)[:, None]
        moved = (
            WAKE_S * (1.0 - slowed) * drift + EDDY_S * (1.0 - spread) * eddy + age[:, None] * np.array(self.wind_m_s)
        )
        xyz = np.column_stack([(place + offset)[wet, :2], ground]) + moved
        fall = fall_speed_m_s(diameter)
        # Turbulence moves drops away from the road as well as towards it.
        height = np.abs(self.height_m * up[wet] + moved[:, 2]) - fall * age
        settled = height <= 0.0
        xyz[:, 2] = ground + np.maximum(height, 0.0)
        velocity = slowed * drift + spread * eddy + np.array(self.wind_m_s)
        velocity[:, 2] -= fall
        return SprayParcels(xyz, np.where(settled[:, None], 0.0, velocity), age, mass[wet], settled, diameter)
