"""Wake of a vessel on deep water: Kelvin's ship waves, the bow wave, and foam.

Waves that stand still relative to a vessel of speed v have the wave number k = g / (v^2 cos^2 q), where q is the angle
between their direction and the course (Kelvin 1887). Their sum behind the bow,

    z = A  integral of exp(-(k s)^2 / 2) cos(k (x cos q + y sin q)) dq,

has crests across the course of length 2 pi v^2 / g, diverging crests beside it, and ends at arcsin(1/3) = 19.47 degrees
on either side. The angle is a result of the sum. x is the distance behind the bow, y the distance aside; s is the size
of the disturbance, which makes no waves much shorter than itself.

Foam covers the crest of a bow wave that is steep enough to break, and the track of the hull, where it decays with time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.checks import above
from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.pose import Floats, quat_rotate
from parhelion.core.trajectory import Trajectory
from parhelion.motion.water import Surface, Water
from parhelion.world.water_surface import Lattice

KELVIN_ANGLE_RAD = float(np.arcsin(1.0 / 3.0))
"""Half angle of the wake, 19.47 degrees, at any speed."""
SLOWEST_M_S = 0.3
"""Speed below which a wake is left out; its waves would be shorter than 6 cm."""
WAVE_SHARE, BOW_SHARE = 0.1, 0.5
"""Amplitude of the transverse waves one wavelength behind the bow, and height of the bow wave, relative to the height
of stagnation v^2 / 2g (assumed; they depend on the shape of the hull)."""
ANGLES, WIDEST_RAD = 512, np.radians(65.0)
"""Number of wave directions, and the widest one."""
_SOFT_RAD = np.radians(15.0)
WAVELENGTHS = 20.0
"""Length of the wake in transverse wavelengths, with a soft end; beyond it, the sum over directions would repeat."""

BREAKING_SLOPES = (0.2, 0.4)
"""Slopes of the water at which foam begins and at which it covers the surface. Stokes' highest wave has a slope of
tan 30 degrees = 0.58 at its crest, and waves break before they reach it; the range is assumed."""
FOAM_S = 8.0
"""Time constant [s] of the decay of foam. Foam of breaking waves decays exponentially within seconds; assumed to be at
the upper end behind a hull, because bubbles from below the surface keep rising."""
FOAM_SPEEDS_M_S = (0.5, 4.0)
"""Speeds [m/s] of a hull at which its track begins to foam and at which foam covers its width (assumed)."""
_FOAM_AGES, _TRACK_STEPS = 4.0, 96
"""Length of the foam's track in time constants, and the number of its segments."""


def foam_share(age_s: Floats, aside_m: Floats, speed_m_s: Floats, width_m: float) -> Floats:
    """Share of the water that foam covers, `age_s` after a hull has passed at a distance aside, from 0 to 1.

    The width of the track grows with the fifth root of the distance, as turbulent wakes of bodies with thrust do
    (assumed); its sides fade over the outer half.
    """
    slow, fast = FOAM_SPEEDS_M_S
    distance = speed_m_s * age_s
    half = 0.5 * width_m * (1.0 + distance / width_m) ** 0.2
    across = _ramp(2.0 * (1.0 - np.abs(aside_m) / half))[0]
    return np.clip((speed_m_s - slow) / (fast - slow), 0.0, 1.0) * across * np.exp(-age_s / FOAM_S)


def transverse_length_m(speed_m_s: float) -> float:
    """Length of the transverse waves of a vessel in deep water [m]: 2 pi v^2 / g."""
    return 2.0 * np.pi * speed_m_s * speed_m_s / STANDARD_GRAVITY_M_S2


def kelvin_waves(
    behind_m: Floats, aside_m: Floats, speed_m_s: float, size_m: float, *, shortest_m: float = 0.0
) -> Floats:
    """Height [m] and its slopes astern and aside, shape (3, n), at places (n,) relative to the bow.

    Free waves of deep water, linear in their height. A vessel on a straight course at constant speed; waves shorter
    than `shortest_m` are left out.
    """
    length = transverse_length_m(speed_m_s)
    # Equal steps of the tangent: the phase of neighbouring directions then differs by less than pi in the whole wake.
    tangent = np.linspace(-np.tan(WIDEST_RAD), np.tan(WIDEST_RAD), ANGLES)
    angle = np.arctan(tangent)
    k = 2.0 * np.pi / length / np.cos(angle) ** 2
    spectrum = np.exp(-0.5 * (k * size_m) ** 2) * (tangent[1] - tangent[0]) / (1.0 + tangent**2)
    spectrum *= _ramp((WIDEST_RAD - np.abs(angle)) / _SOFT_RAD)[0]  # an abrupt end would send waves outside of the wake
    amplitude = WAVE_SHARE * speed_m_s * speed_m_s / (2.0 * STANDARD_GRAVITY_M_S2)
    seen = 2.0 * np.pi / k >= shortest_m
    angle, k, spectrum = angle[seen], k[seen], amplitude * spectrum[seen]
    along, across = k * np.cos(angle), k * np.sin(angle)
    phase = behind_m[:, None] * along + aside_m[:, None] * across
    sine = np.sin(phase)
    waves = np.stack([np.cos(phase) @ spectrum, -sine @ (spectrum * along), -sine @ (spectrum * across)])
    # Waves rise within a quarter of their length behind the bow and fade at the end of the wake.
    rise, slope = _ramp(behind_m / (0.25 * length))
    fade, fall = _ramp((WAVELENGTHS * length - behind_m) / (0.25 * WAVELENGTHS * length))
    envelope = rise * fade
    change = slope * fade / (0.25 * length) - rise * fall / (0.25 * WAVELENGTHS * length)
    shaped: Floats = waves * envelope
    shaped[1] += waves[0] * change
    return shaped


def _ramp(x: Floats) -> tuple[Floats, Floats]:
    """Smooth step from 0 at 0 to 1 at 1, and its slope."""
    share = np.clip(x, 0.0, 1.0)
    return share * share * (3.0 - 2.0 * share), 6.0 * share * (1.0 - share)


@dataclass(frozen=True, eq=False)
class Wake:
    """Wake of one vessel."""

    motion: Trajectory
    """Motion of the vessel's frame, x forward; known up to the time of a query."""
    length_m: float
    width_m: float
    """Size of the hull; the bow is half the length ahead of the frame."""
    fastest_m_s: float = 10.0
    """Speed up to which meshes are prepared; a faster vessel has the wake of this speed."""

    def __post_init__(self) -> None:
        for field in ("length_m", "width_m", "fastest_m_s"):
            above(f"wake: {field}", getattr(self, field), 0.0)

    @property
    def size_m(self) -> float:
        """Size of the disturbance [m]: half the width."""
        return 0.5 * self.width_m

    @property
    def components(self) -> Floats:
        """Heights that waves and bow wave do not exceed [m], and their wave numbers [1/m], shape (2, 2)."""
        height = self.fastest_m_s**2 / (2.0 * STANDARD_GRAVITY_M_S2)
        numbers = [2.0 * np.pi / transverse_length_m(self.fastest_m_s), 1.0 / self.size_m]
        return np.array([[3.0 * WAVE_SHARE * height, BOW_SHARE * height], numbers])

    def at(self, x: Floats, y: Floats, time: float, shortest_m: float = 0.0) -> Floats:
        """Height [m], slopes along x and y, and rate [m/s] at places of the world, shape (4, ...)."""
        result = np.zeros((4, *np.shape(x)))
        place, _ = self.motion.sample(np.array([time - 0.05, time]))
        velocity = (place[1] - place[0])[:2] / 0.05
        speed = float(np.hypot(*velocity))
        if speed < SLOWEST_M_S:
            return result
        forward = velocity / speed
        speed = min(speed, self.fastest_m_s)
        bow = place[1, :2] + 0.5 * self.length_m * forward
        behind = -((x - bow[0]) * forward[0] + (y - bow[1]) * forward[1])
        aside = (x - bow[0]) * -forward[1] + (y - bow[1]) * forward[0]
        size = self.size_m
        reach = WAVELENGTHS * transverse_length_m(speed)
        near = (behind > -4.0 * size) & (behind < reach) & (np.abs(aside) < 4.0 * size + 0.5 * np.maximum(behind, 0.0))
        if not near.any():
            return result
        b, a = behind[near], aside[near]
        height, astern, abeam = kelvin_waves(b, a, speed, size, shortest_m=shortest_m)
        if shortest_m <= 2.0 * np.pi * size:
            hump = BOW_SHARE * speed * speed / (2.0 * STANDARD_GRAVITY_M_S2)
            hump = hump * np.exp(-0.5 * (b * b + a * a) / size**2)
            height, astern, abeam = height + hump, astern - hump * b / size**2, abeam - hump * a / size**2
        result[0][near] = height
        result[1][near] = -astern * forward[0] - abeam * forward[1]
        result[2][near] = -astern * forward[1] + abeam * forward[0]
        result[3][near] = speed * astern
        return result

    def foam(self, x: Floats, y: Floats, time: float) -> Floats:
        """Share of the surface (n,) that foam covers at places (n,) of the world, from 0 to 1."""
        _, slope_x, slope_y, _ = self.at(x, y, time)
        begins, covers = BREAKING_SLOPES
        breaking = np.clip((np.hypot(slope_x, slope_y) - begins) / (covers - begins), 0.0, 1.0)
        times = time - np.linspace(0.0, _FOAM_AGES * FOAM_S, _TRACK_STEPS + 1)
        place, quat = self.motion.sample(times)
        track = place[:, :2] + 0.5 * self.length_m * quat_rotate(quat, np.array([1.0, 0.0, 0.0]))[:, :2]
        margin = 2.0 * self.width_m
        low, high = track.min(axis=0) - margin, track.max(axis=0) + margin
        near = np.flatnonzero((x > low[0]) & (x < high[0]) & (y > low[1]) & (y < high[1]))
        if not len(near):
            return breaking
        along = np.diff(track, axis=0)
        length = np.hypot(*along.T)
        speed = length / (times[0] - times[1])
        safe = np.maximum(length, 1e-9)
        dx, dy = x[near, None] - track[:-1, 0], y[near, None] - track[:-1, 1]
        share = np.clip((dx * along[:, 0] + dy * along[:, 1]) / safe**2, 0.0, 1.0)
        aside = np.hypot(dx - share * along[:, 0], dy - share * along[:, 1])
        age = (np.arange(_TRACK_STEPS) + share) * (times[0] - times[1])
        found = foam_share(age, aside, np.broadcast_to(speed, age.shape), self.width_m).max(axis=1)
        result = breaking.copy()
        result[near] = np.maximum(breaking[near], found)
        return result


@dataclass(frozen=True)
class _Components:
    """Amplitudes and wave numbers of a base water and of wakes, from which meshes are prepared."""

    amplitude_m: Floats
    wave_number_1_m: Floats


class WaterWithWakes(Water):
    """Water with the wakes of vessels. Vessels float on the water without wakes."""

    def __init__(self, base: Water, wakes: Sequence[Wake]) -> None:
        self.base, self.wakes = base, tuple(wakes)
        self.level_m, self.density_kg_m3 = base.level_m, base.density_kg_m3
        own: Any = getattr(base, "components", None)
        heights, numbers = np.concatenate([np.zeros((2, 0)), *(one.components for one in self.wakes)], axis=1)
        if own is not None:
            heights = np.concatenate([own.amplitude_m, heights])
            numbers = np.concatenate([own.wave_number_1_m, numbers])
        self.components = _Components(heights, numbers)

    def surface(self, x: ArrayLike, y: ArrayLike, time: float) -> Surface:
        """Return the state of the surface; its velocities are those of the base."""
        found = self.base.surface(x, y, time)
        height, slope_x, slope_y, rate = self._wakes(np.asarray(x, np.float64), np.asarray(y, np.float64), time, 0.0)
        return Surface(
            found.height + height,
            found.slope_x + slope_x,
            found.slope_y + slope_y,
            found.rate + rate,
            found.velocity_x,
            found.velocity_y,
            found.acceleration_z,
        )

    def rising(self, lattice: Lattice, time: float, shortest_m: float = 0.0) -> tuple[Floats, Floats]:
        """Return the heights [m] and their rates [m/s] on a lattice."""
        corner, along, across, counts = lattice
        i, j = np.arange(counts[0])[:, None], np.arange(counts[1])[None, :]
        x, y = (corner[n] + along[n] * i + across[n] * j for n in (0, 1))
        height, rate = self.base.rising(lattice, time, shortest_m)
        added = self._wakes(x, y, time, shortest_m)
        return height + added[0], rate + added[3]

    def foam(self, x: Floats, y: Floats, time: float) -> Floats:
        """Share of the surface (n,) that foam of all wakes covers, from 0 to 1."""
        clear = np.ones(len(x))
        for one in self.wakes:
            clear *= 1.0 - one.foam(x, y, time)
        return 1.0 - clear

    def velocity(self, x: ArrayLike, y: ArrayLike, z: ArrayLike, time: float) -> Floats:
        """Velocity of the water without wakes."""
        return self.base.velocity(x, y, z, time)

    def _wakes(self, x: Floats, y: Floats, time: float, shortest_m: float) -> Floats:
        x, y = np.broadcast_arrays(x, y)
        total = np.zeros((4, *x.shape))
        for one in self.wakes:
            total += one.at(x, y, time, shortest_m)
        return total
