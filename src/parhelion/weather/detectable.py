"""The few drops of a beam that a lidar can see, drawn without drawing the rest.

Drops are a Poisson process over range z and diameter D with density A(z) N(D), A the beam's cross-section. A beam of
100 m in rain holds thousands, and nearly all of them return far less than the detection threshold. Those that return
at least `floor` thresholds are again a Poisson process, with density A(z) N(D) 1[echo(D, z) >= floor]: thinning is
exact, not an approximation. The mean is the integral of A(z) n(z) over range, n(z) being the number of drops larger
than the least that is detectable at z; range then follows A(z) n(z), and diameter, given range, the tail of N(D).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.errors import ConfigError
from parhelion.weather.drop_sizes import DropSizes

STEPS = 1024
"""Points of the tables over range, at even steps of the distribution function."""
TAIL_STEPS = 4096
"""Points of the table over diameter, at even steps of ln tail."""

_COARSE, _FINE = 4096, 16384
_NEAREST_M = 1e-3
# A chance of exp(-24) is smaller than the smallest uniform number of a 24-bit draw.
_DEEPEST = 24.0


@dataclass(frozen=True, eq=False)
class Detectable:
    """Tables from which detectable drops are drawn; see `sample`."""

    mean: float
    """Mean of the Poisson number of detectable drops in a beam."""
    range_m: NDArray[np.float64]
    """Range at even steps of its distribution function from 0 to 1; the two ends are a quarter step inside."""
    log_tail: NDArray[np.float64]
    """ln of the number of drops [1/m^3] above the least detectable diameter, at those ranges."""
    log_tail_steps: NDArray[np.float64]
    """Even, ascending steps of ln of the number of drops [1/m^3] above a diameter."""
    diameter_mm: NDArray[np.float64]
    """The diameter at each of those steps; it descends."""


def drop_echo(
    backscatter_m2_sr: Reals,
    *,
    beam_area_m2: Reals,
    range_m: Reals,
    extinction_per_m: Reals,
    overlap: Reals = 1.0,
    threshold: Reals,
) -> Reals:
    """Echo of one drop in units of the detection threshold: (sigma_b / A) T^2 xi / z^2 / (P_min / C).

    The drop stands anywhere in a beam of even brightness and cross-section A(z), larger than the drop; `threshold` is
    P_min / C [1/(m^2 sr)], `extinction_per_m` one way and uniform. Arrays of either kind.
    """
    transmission = namespace(range_m, backscatter_m2_sr).exp(-2.0 * extinction_per_m * range_m)
    return backscatter_m2_sr / beam_area_m2 * transmission * overlap / (range_m * range_m * threshold)


def obscured(cross_section_m2: Reals, area_m2: Reals) -> Reals:
    """Share of the beam's area that a drop with this extinction cross-section takes away, at most 1; either kind."""
    return namespace(cross_section_m2, area_m2).minimum(cross_section_m2 / area_m2, 1.0)


def detectable(
    sizes: DropSizes,
    backscatter: Callable[[NDArray[np.float64]], ArrayLike],
    *,
    area: Callable[[NDArray[np.float64]], ArrayLike],
    overlap: Callable[[NDArray[np.float64]], ArrayLike],
    extinction_per_m: float,
    threshold: float,
    floor: float = 1.0,
    least_range_m: float,
    largest_range_m: float,
) -> Detectable:
    """Tables of the drops between two ranges whose echo is at least `floor` detection thresholds.

    `backscatter` takes D [mm] to sigma_b [m^2/sr], `area` range to the beam's cross-section [m^2], `overlap` range to
    the share that the receiver sees. The least detectable diameter is taken from sigma_b made rising (its running
    maximum over D): where a larger drop returns a little less than a smaller one it counts as returning as much.
    Nothing is drawn nearer than 1 mm. With no detectable drop `mean` is 0 and the tables are of numbers all the same.
    """
    _check(extinction_per_m, threshold, floor, least_range_m, largest_range_m)
    diameter, above = sizes.tail_table()
    strength = np.maximum.accumulate(np.asarray(backscatter(diameter), dtype=np.float64))
    if not (np.all(np.isfinite(strength)) and np.all(strength >= 0.0)):
        raise ConfigError("backscatter: must be finite and 0 m^2/sr or more for every diameter")

    def density(z: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Detectable drops per metre of range, and per m^3."""
        beam = np.broadcast_to(np.asarray(area(z), dtype=np.float64), z.shape)
        if not (np.all(np.isfinite(beam)) and np.all(beam > 0.0)):
            raise ConfigError("area: must be finite and above 0 m^2 at every range")
        # The echo is linear in sigma_b, so that of 1 m^2/sr says which sigma_b is needed.
        unit = drop_echo(
            np.ones_like(z), beam_area_m2=beam, range_m=z, extinction_per_m=extinction_per_m,
            overlap=np.asarray(overlap(z), dtype=np.float64), threshold=threshold,
        )  # fmt: skip
        needed = np.where(unit > 0.0, floor / np.where(unit > 0.0, unit, 1.0), np.inf)
        number = np.interp(_least_with(strength, diameter, needed), diameter, above, right=0.0)
        return beam * number, number

    near = max(least_range_m, _NEAREST_M)
    # Denser near the sensor, where the drops are.
    coarse = near + (largest_range_m - near) * np.linspace(0.0, 1.0, _COARSE) ** 2
    seen = np.flatnonzero(density(coarse)[0] > 0.0)
    if seen.size == 0:
        return _nothing(near, largest_range_m)
    first, last = coarse[max(seen[0] - 1, 0)], coarse[min(seen[-1] + 1, _COARSE - 1)]
    z = np.linspace(first, last, _FINE)
    per_m, number = density(z)
    cumulative = np.concatenate([[0.0], np.cumsum(0.5 * (per_m[1:] + per_m[:-1]) * np.diff(z))])
    mean = float(cumulative[-1])
    if mean <= 0.0:
        return _nothing(near, largest_range_m)
    range_m = _inverse(cumulative / mean, z)
    log_tail = np.log(np.interp(range_m, z, number))
    top, bottom = float(np.log(above[0])), float(log_tail.min()) - _DEEPEST
    log_tail_steps = np.linspace(bottom, top, TAIL_STEPS)
    # Where small drops are rare the tail hardly falls at first; the last point steps in by a quarter, as at the ends
    # of range, or a line would lead from the drops that are there to the least of all.
    at = np.minimum(log_tail_steps, top - 0.25 * (log_tail_steps[1] - log_tail_steps[0]))
    descending = np.interp(np.exp(at), above[::-1], diameter[::-1])
    return Detectable(mean, range_m, log_tail, log_tail_steps, descending)


def sample(table: Detectable, u1: ArrayLike, u2: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Range [m] and diameter [mm] of detectable drops from pairs of uniform numbers in (0, 1)."""
    place = np.asarray(u1, dtype=np.float64) * (table.range_m.size - 1)
    steps = np.arange(table.range_m.size)
    log_number = np.interp(place, steps, table.log_tail) + np.log(np.asarray(u2, dtype=np.float64))
    return np.interp(place, steps, table.range_m), np.interp(log_number, table.log_tail_steps, table.diameter_mm)


def counts(table: Detectable, u: ArrayLike) -> NDArray[np.int64]:
    """How many detectable drops each beam has: Poisson numbers by inversion of uniform numbers in (0, 1)."""
    chance = np.asarray(u, dtype=np.float64)
    if table.mean <= 0.0:
        return np.zeros(chance.shape, dtype=np.int64)
    from scipy.special import pdtr

    # 12 standard deviations above the mean, and never fewer than 40 for small means.
    most = int(table.mean + 12.0 * np.sqrt(table.mean) + 40.0)
    return np.asarray(np.searchsorted(pdtr(np.arange(most), table.mean), chance, side="left"), dtype=np.int64)


def _check(extinction: float, threshold: float, floor: float, least: float, largest: float) -> None:
    for name, value, good, allowed in (
        ("extinction_per_m", extinction, np.isfinite(extinction) and extinction >= 0.0, "0 /m or more"),
        ("threshold", threshold, np.isfinite(threshold) and threshold > 0.0, "above 0 /(m^2 sr)"),
        ("floor", floor, np.isfinite(floor) and floor > 0.0, "above 0"),
        ("least_range_m", least, np.isfinite(least) and least >= 0.0, "0 m or more"),
        ("largest_range_m", largest, np.isfinite(largest) and largest > max(least, _NEAREST_M), "above the least"),
    ):
        if not good:
            raise ConfigError(f"{name}: must be finite and {allowed}, got {value!r}")


def _least_with(
    strength: NDArray[np.float64], diameter: NDArray[np.float64], needed: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Least diameter [mm] whose running maximum of sigma_b reaches what is needed; beyond the last where none does."""
    row = np.searchsorted(strength, needed, side="left")
    high = np.clip(row, 1, diameter.size - 1)
    low = high - 1
    rise = strength[high] - strength[low]
    part = np.clip((needed - strength[low]) / np.where(rise > 0.0, rise, 1.0), 0.0, 1.0)
    between = diameter[low] + part * (diameter[high] - diameter[low])
    return np.where(row == 0, diameter[0], np.where(row == diameter.size, 2.0 * diameter[-1], between))


def _inverse(cumulative: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranges at even steps of a distribution function that rises from 0 to 1."""
    # Flat stretches have no drops, and no inverse.
    rising = np.concatenate([[False], np.diff(cumulative) > 0.0, [False]])
    keep = rising[1:] | rising[:-1]
    # The ends step in by a quarter: at the very ends the number of detectable drops may be 0, and its logarithm is
    # what lines are drawn through.
    u = np.clip(np.arange(STEPS), 0.25, STEPS - 1.25) / (STEPS - 1)
    return np.interp(u, cumulative[keep], z[keep])


def _nothing(near: float, far: float) -> Detectable:
    """Tables that hold numbers everywhere, for a mean of 0."""
    return Detectable(
        0.0,
        np.linspace(near, far, STEPS),
        np.zeros(STEPS),
        np.linspace(-_DEEPEST, 0.0, TAIL_STEPS),
        np.ones(TAIL_STEPS),
    )
