"""Dust trail behind a vehicle, as parcels that fly, slow down and land (VANE, chapter 8).

A parcel represents many grains and carries their mass. Parcels are emitted at a fixed rate along a trajectory. The
position of a parcel at any time follows from its number, the seed and the trajectory, so times may be queried in any
order.

VANE does not describe the ground. Here, a parcel that reaches the ground stays there: it keeps its mass until its life
ends, is marked `settled`, and does not contribute to the airborne density.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Table
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, quat_rotate
from parhelion.core.random import Stream, to_unit
from parhelion.core.trajectory import Trajectory
from parhelion.weather.grids import DensityGrid
from parhelion.weather.media.dust import (
    DRAG_PER_M,
    DUST_LIFETIME_S,
    check_number,
    check_vector,
    drag_coefficient,
    emission_factor_lb_per_mile,
    emitted_mass_kg,
)

GRAVITY_M_S2 = 9.81
STEP_S = 0.1
HORIZONTAL_SHARE = 0.5
"""Horizontal velocity of new dust relative to that of the vehicle (VANE eq. 8.4)."""
UPWARD_SHARE = 0.75
"""Upward velocity of new dust relative to the vehicle's speed (VANE eq. 8.4)."""
AT_REST_M_S = 0.05
"""Speed below which a vehicle with a recorded motion raises nothing."""
LARGEST_SCATTER = 0.5
"""Largest random part of the initial velocity, relative to its deterministic part (VANE eq. 8.5)."""
MOST_PARCELS = 2**31

Ground = Callable[[Floats], tuple[Floats, Floats]]
"""Function of wheel positions (n, 3) [m]: height of the ground below them [m], and share of the emission there, each of
shape (n,); the share is 1 on ground that emits and 0 elsewhere."""


@dataclass(frozen=True, eq=False)
class Particles(Table):
    """Parcels of a trail at one time, oldest first, world frame."""

    xyz: Floats
    """Positions [m], shape (n, 3)."""
    velocity: Floats
    """Velocities [m/s], shape (n, 3)."""
    age: Floats
    """Time since birth [s], shape (n,)."""
    mass_kg: Floats
    """Mass of dust in each parcel [kg], shape (n,)."""
    settled: NDArray[np.bool_]
    """True if the parcel lies on the ground, shape (n,)."""

    @property
    def airborne(self) -> Particles:
        """Parcels that are not on the ground."""
        return self.rows(~self.settled)

    @property
    def optical_mass_kg(self) -> Floats:
        """Mass for which the medium's extinction per mass holds [kg], shape (n,)."""
        return self.mass_kg


@dataclass(frozen=True, eq=False)
class DustPlume:
    """Dust raised by a vehicle that drives along a trajectory between two times."""

    trajectory: Trajectory
    """Motion of the vehicle's centre, x forward."""
    start_s: float
    """Start of the emission [s]."""
    end_s: float
    """End of the emission [s]; may be infinite."""
    seed: int = 0
    name: str = "vehicle"
    """Name of the random stream: trails of one seed and different names have independent dust."""
    weight_kg: float = 2000.0
    silt_percent: float = 8.5
    """Silt in the road's surface [%]; 8.5 is AP-42's mean of construction sites."""
    moisture_percent: float = 0.2
    """Water in the road's surface [%]; 0.2 is a dry road, the reference of the emission formula."""
    width_m: float = 2.0
    """Width of the vehicle [m]: dust is emitted in two spheres of this diameter, half the width to the left and right.
    """
    length_m: float = 5.0
    """Length of the vehicle [m]: the spheres are half the length behind its centre."""
    ground_z_m: float | None = 0.0
    """Height of flat ground [m], or None for the height of the trajectory at the emission of each parcel."""
    ground: Ground | None = None
    """Ground below the wheels, instead of `ground_z_m`."""
    live: bool = False
    """True for a motion that is recorded up to the time of the query only: parcels of unfinished intervals are left
    out, so that a later query for the same time returns the same parcels."""
    wind_m_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Velocity of the air [m/s], world frame."""
    parcels_per_s: float = 500.0
    lifetime_s: float = DUST_LIFETIME_S
    drag_per_m: float = DRAG_PER_M
    gravity_m_s2: float = GRAVITY_M_S2
    """Gravity on a parcel; below 9.81 for dust that the turbulent wake keeps aloft."""
    step_s: float = STEP_S
    """Time step of the flight [s]."""

    def __post_init__(self) -> None:
        start = check_number("start_s", self.start_s)
        if self.end_s != np.inf:
            check_number("end_s", self.end_s, least=start)
        for field in ("width_m", "length_m", "parcels_per_s", "lifetime_s"):
            check_number(field, getattr(self, field), above=0.0)
        check_number("step_s", self.step_s, least=1e-3)
        for field in ("drag_per_m", "gravity_m_s2"):
            check_number(field, getattr(self, field), least=0.0)
        check_vector("wind_m_s", self.wind_m_s)
        if self.ground_z_m is not None:
            check_number("ground_z_m", self.ground_z_m)
        _ = self._stream.key, self.emission_factor  # validates the seed and the road

    @property
    def emission_factor(self) -> float:
        """Dust per distance driven [lb per vehicle mile]."""
        return emission_factor_lb_per_mile(self.silt_percent, self.weight_kg, self.moisture_percent)

    @property
    def _stream(self) -> Stream:
        return Stream(self.seed, f"weather/dust/{self.name}")

    def particles(self, time: float) -> Particles:
        """All parcels emitted at or before `time` [s] and younger than the lifetime, including those on the ground.

        A stationary vehicle emits none. The sum of the masses is the mass emitted within the lifetime.
        """
        now = check_number("time", time)
        number, begin, end = living(now, self.start_s, self.end_s, self.parcels_per_s, self.lifetime_s, live=self.live)
        birth = 0.5 * (begin + end)
        place, quat = sampled(self.trajectory, birth)
        distance = sampled(self.trajectory, end)[0] - sampled(self.trajectory, begin)[0]
        velocity = distance / (end - begin)[:, None]
        speed = np.sqrt((velocity * velocity).sum(axis=1))
        if self.live:  # a vehicle in contact with the ground is never perfectly still
            speed = np.where(speed < AT_REST_M_S, 0.0, speed)
        mass = np.asarray(emitted_mass_kg(self.emission_factor, speed, end - begin))
        wheel = self._wheel(number, quat)
        if self.ground is not None:
            ground, share = self.ground(place + wheel)
            mass = mass * share
        else:
            ground = place[:, 2] if self.ground_z_m is None else np.full(len(place), float(self.ground_z_m))
        xyz, velocity = self._born(number, np.column_stack([place[:, :2], ground]), wheel, velocity, speed)
        driven = mass > 0.0
        age = (now - birth)[driven]
        xyz, velocity, settled = fly(
            xyz[driven],
            velocity[driven],
            age,
            ground_z_m=ground[driven],
            wind_m_s=self.wind_m_s,
            gravity_m_s2=self.gravity_m_s2,
            drag_per_m=self.drag_per_m,
            lifetime_s=self.lifetime_s,
            step_s=self.step_s,
        )
        return Particles(xyz, velocity, age, mass[driven], settled)

    def grid(self, time: float) -> DensityGrid:
        """Density of the airborne parcels at `time` [s]."""
        dust = self.particles(time).airborne
        return DensityGrid.from_parcels(dust.xyz, dust.mass_kg)

    def _wheel(self, number: NDArray[np.int64], quat: Floats) -> Floats:
        """Positions (n, 3) of the emitting wheels relative to the vehicle's centre, without their height."""
        side = self._stream.words(number, 0)[0]
        half_width = 0.5 * self.width_m
        wheel = np.zeros((len(number), 3))
        wheel[:, 0] = -0.5 * self.length_m
        wheel[:, 1] = np.where(side >> np.uint32(31), half_width, -half_width)
        offset = quat_rotate(quat, wheel)
        offset[:, 2] = 0.0
        return offset

    def _born(
        self, number: NDArray[np.int64], place: Floats, wheel: Floats, velocity: Floats, speed: Floats
    ) -> tuple[Floats, Floats]:
        """Initial positions and velocities of parcels whose vehicle is above the ground point `place`."""
        _, *where = self._stream.words(number, 0)
        *direction, size = (to_unit(word) for word in self._stream.words(number, 1)[:3])
        radius, *angles = (to_unit(word) for word in where)
        in_sphere = (0.5 * self.width_m * np.cbrt(radius))[:, None] * unit_vectors(*angles)
        # The lower half of the sphere is below ground and is mirrored upwards.
        in_sphere[:, 2] = np.abs(in_sphere[:, 2])
        thrown = np.column_stack([HORIZONTAL_SHARE * velocity[:, :2], UPWARD_SHARE * speed])
        scatter = LARGEST_SCATTER * size * np.sqrt((thrown * thrown).sum(axis=1))
        return place + wheel + in_sphere, thrown + scatter[:, None] * unit_vectors(*direction)


def living(
    now: float, start_s: float, end_s: float, parcels_per_s: float, lifetime_s: float, *, live: bool = False
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Numbers of the parcels that exist at `now`, and the time interval [s] whose mass each represents.

    A parcel is emitted in the middle of its interval. With `live`, unfinished intervals are left out.
    """
    # The offset prevents rounding from adding a parcel of zero duration at the end.
    count = np.ceil((end_s - start_s) * parcels_per_s - 1e-6)
    # Two extra parcels on either side; the exact test below decides regardless of rounding.
    newest = np.clip((now - start_s) * parcels_per_s + 2.0, 0.0, count)
    oldest = np.clip((now - lifetime_s - start_s) * parcels_per_s - 2.0, 0.0, count)
    if newest >= MOST_PARCELS:
        raise ConfigError(f"parcels_per_s: {newest:.3g} parcels until {now} s exceed the limit of {MOST_PARCELS:.3g}")
    number = np.arange(int(oldest), int(newest))
    begin = start_s + number / parcels_per_s
    end = np.minimum(start_s + (number + 1) / parcels_per_s, end_s)
    age = now - 0.5 * (begin + end)
    there = (age >= 0.0) & (age < lifetime_s)
    if live:
        there &= end <= now
    return number[there], begin[there], end[there]


def sampled(trajectory: Trajectory, times: Floats) -> tuple[Floats, Floats]:
    """Positions and quaternions of an emitting vehicle, checked."""
    xyz, quat = trajectory.sample(times)
    if xyz.shape != (len(times), 3) or quat.shape != (len(times), 4):
        raise ConfigError(f"trajectory: {len(times)} times gave positions {xyz.shape} and quaternions {quat.shape}")
    if not (np.all(np.isfinite(xyz)) and np.all(np.isfinite(quat))):
        raise ConfigError("trajectory: positions and quaternions must be finite while dust is emitted")
    return xyz, quat


def fly(
    xyz: ArrayLike,
    velocity: ArrayLike,
    age_s: ArrayLike,
    *,
    ground_z_m: ArrayLike = 0.0,
    wind_m_s: ArrayLike = (0.0, 0.0, 0.0),
    gravity_m_s2: float = GRAVITY_M_S2,
    drag_per_m: float = DRAG_PER_M,
    lifetime_s: float = DUST_LIFETIME_S,
    step_s: float = STEP_S,
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Positions (n, 3), velocities (n, 3) and landed flags (n,) of parcels of age (n,) [s].

    `xyz` and `velocity` are those at emission. Solves dv/dt = g - a(t) w |w| with w = v - wind (VANE eq. 8.6, in still
    air) in full steps from the emission of each parcel and a shorter last one. A parcel that reaches the ground stops
    there. Steps should be well below 1 / sqrt(C_d g); the default has errors of millimetres to 5 cm.
    """
    place, speed = (np.array(np.asarray(values, dtype=np.float64).T, order="C") for values in (xyz, velocity))
    age = np.array(age_s, dtype=np.float64)
    if age.ndim != 1 or not place.shape == speed.shape == (3, age.size):
        raise ConfigError("fly: xyz and velocity must have shape (n, 3) and age_s (n,)")
    ground = np.array(np.broadcast_to(np.asarray(ground_z_m, dtype=np.float64), age.shape))
    if not all(np.all(np.isfinite(values)) for values in (place, speed, age, ground)) or np.any(age < 0.0):
        raise ConfigError("fly: positions, velocities, ages and ground must be finite, ages not negative")
    place[2] = np.maximum(place[2], ground)
    step = check_number("step_s", step_s, above=0.0)
    gravity = check_number("gravity_m_s2", gravity_m_s2, least=0.0)
    air = _Air(check_vector("wind_m_s", wind_m_s)[:, None], gravity, drag_per_m, lifetime_s)

    full_steps = np.floor(age / step)
    settled = np.zeros(age.size, dtype=np.bool_)
    index = np.arange(age.size)
    now_place, now_speed, now_ground = place, speed, ground
    for number in range(int(full_steps.max(initial=0.0)) + 1):
        done = (full_steps[index] <= number) | settled[index]
        if done.any():
            place[:, index[done]], speed[:, index[done]] = now_place[:, done], now_speed[:, done]
            index, now_ground = index[~done], now_ground[~done]
            now_place, now_speed = now_place[:, ~done], now_speed[:, ~done]
        if index.size == 0:
            break
        now_place, now_speed, landed = air.carry(now_place, now_speed, now_ground, number * step, step)
        settled[index[landed]] = True
    up = np.flatnonzero(~settled)
    begin = full_steps[up] * step
    rest = np.maximum(age[up] - begin, 0.0)  # rounding may make the difference slightly negative
    place[:, up], speed[:, up], landed = air.carry(place[:, up], speed[:, up], ground[up], begin, rest)
    settled[up[landed]] = True
    return place.T.copy(), speed.T.copy(), settled


@dataclass(frozen=True, eq=False)
class _Air:
    """Forces on a parcel in flight."""

    wind: Floats
    gravity: float
    drag_per_m: float
    lifetime_s: float

    def carry(
        self, place: Floats, velocity: Floats, ground: Floats, age: Floats | float, h: Floats | float
    ) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Positions (3, n) and velocities (3, n) a time `h` after `age`, and the numbers of the parcels that landed.

        With x = a |w| h, the velocity through the air w becomes (w + g h (1 + x / 2)) / (1 + a h |w|_mid). |w|_mid is
        |w| plus the effect of gravity over half a step. The step is of second order, exact for drag alone, for free
        fall and at terminal speed, and bounded for any step size; VANE's explicit step diverges for x above 2.
        """
        drag = drag_coefficient(age + 0.5 * h, lifetime_s=self.lifetime_s, drag_per_m=self.drag_per_m)
        through_air = velocity - self.wind
        speed = np.sqrt((through_air * through_air).sum(axis=0))
        upward = through_air[2] / np.maximum(speed, 1e-300)
        middle_speed = np.maximum(speed - (0.5 * self.gravity * h) * upward, 0.0)
        through_air[2] -= (self.gravity * h) * (1.0 + (0.5 * h * drag) * speed)
        new_velocity = through_air / (1.0 + (drag * h) * middle_speed) + self.wind
        new_place = place + (0.5 * h) * (velocity + new_velocity)
        landed = np.flatnonzero(new_place[2] < ground)
        if landed.size:
            before, after = place[:, landed], new_place[:, landed]
            new_place[:, landed] = before + (before[2] - ground[landed]) / (before[2] - after[2]) * (after - before)
            new_place[2, landed] = ground[landed]
            new_velocity[:, landed] = 0.0
        return new_place, new_velocity, landed


def unit_vectors(u: Floats, v: Floats) -> Floats:
    """Uniform directions over the sphere from two uniform numbers in (0, 1), shape (n, 3)."""
    z = 2.0 * u - 1.0
    across, angle = np.sqrt(1.0 - z * z), 2.0 * np.pi * v
    return np.column_stack([across * np.cos(angle), across * np.sin(angle), z])
