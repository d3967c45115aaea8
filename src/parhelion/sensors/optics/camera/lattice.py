"""Drops and flakes in the air before a camera: how many, how large, how fast, and where at any time.

Space is a lattice of cells that falls and drifts with the mean velocity of its drops. A drop is a function of the
weather's seed, its cell and its number in the cell; within the cell it moves by what its velocity differs from the
mean, and comes in again on the other side. So frames show the same drops move, any frame can be asked for alone, and
no two places repeat. A drop lives until it wraps: some seconds.

Sources: VANE (ERDC/GSL TR-20-32) chapter 7, whose number and size of drops are those of G. Feingold and Z. Levin,
J. Clim. Appl. Meteorol. 25, 1986; fall speeds after R. Gunn and G. D. Kinzer, J. Meteorol. 6, 1949.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import namespace
from parhelion.core.errors import unknown_name
from parhelion.core.random import Stream, philox, to_unit
from parhelion.rays.device import copied
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.optics.camera.readout import poisson
from parhelion.weather.drop_sizes import DropSizes, drop_sizes
from parhelion.weather.fields import density_field
from parhelion.weather.snow import AREA_RATIO, flake_diameter
from parhelion.weather.weather import Weather

Floats = NDArray[np.float64]

MODELS = ("physical", "vane")
CELL_M = 2.0
"""Side of the lattice's cells."""
SMALL_CELL_M = 1.0
"""The same for the two smallest classes, which are drawn only near the lens."""
VELOCITY_SPREAD = 0.15
"""Each component of a drop's velocity is even within this share of its mean (VANE)."""
DROP_BRIGHTNESS = 0.94
"""Radiance of a drop over the mean of what it refracts, a field of 165 degrees (Garg and Nayar 2007)."""
FLAKE_BRIGHTNESS = 0.9
"""Radiance of a flake over the mean of all that shines on it: ice hardly absorbs, and some light goes through."""
FLAKE_SPEED = 1.0
"""Fall speed of aggregates [m/s], as in the sizes of snow."""
FLAKE_FLUTTER = 0.2
"""Flakes wander to the sides by up to this speed [m/s]."""
DROP_EDGES_MM = (0.5, 1.0, 1.5, 2.2, 3.2, 10.0)
"""Classes of drops, each with a lattice of its own, since large ones fall faster. Smaller ones are not drawn: they fall
at less than 2 m/s and are as good as invisible one by one."""
FLAKE_EDGES_MM = (0.5, 0.8, 1.2, 2.0, 20.0)
"""Classes of flakes, by melted diameter."""
_FEW = 4096
"""Random words that NumPy draws itself."""


def drops_per_m3(rain_rate_mm_h: Any) -> Any:
    """Drops in a cubic metre: 172 R^0.22; arrays of either kind."""
    return 172.0 * namespace(rain_rate_mm_h).power(rain_rate_mm_h, 0.22)


def drop_diameter(rain_rate_mm_h: Any) -> Any:
    """Geometric mean diameter of drops [m]: 0.75e-3 R^0.21; arrays of either kind."""
    return 0.75e-3 * namespace(rain_rate_mm_h).power(rain_rate_mm_h, 0.21)


def terminal_velocity(diameter_m: Any) -> Any:
    """Fall speed of drops in still air [m/s]: 3.1654 ln D + 26.006, D [m]; arrays of either kind.

    Within 10 % of Gunn and Kinzer's measurements from 0.5 to 5 mm. Below 0.27 mm the formula would be negative, and 0
    is given.
    """
    xp = namespace(diameter_m)
    return xp.maximum(3.1654 * xp.log(diameter_m) + 26.006, 0.0)


@dataclass(frozen=True, eq=False)
class FallingClass:
    """Drops or flakes of about one size."""

    name: str
    """Chooses the random stream."""
    number_per_m3: float
    velocity_m_s: tuple[float, float, float]
    """Mean velocity, by which the lattice moves."""
    wind_m_s: tuple[float, float, float]
    diameter_m: Callable[[Floats], Floats]
    """Diameter by a uniform number."""
    typical_m: float
    """Diameter that stands for all: how far away they are drawn follows from it."""
    speed_m_s: Callable[[Floats], Floats]
    """Fall speed by diameter."""
    flutter_m_s: float = 0.0
    cover: float = 1.0
    """Share of the disc around it that it covers."""
    brightness: float = DROP_BRIGHTNESS
    cell_m: float = CELL_M


def falling_classes(weather: Weather, time: float, place: Floats, model: str = "physical") -> list[FallingClass]:
    """What falls at a time around a place in the world; nothing in dry air.

    `vane`: 172 R^0.22 drops a cubic metre, all of the diameter 0.75 R^0.21 mm. `physical`: the weather's own drop
    sizes, as the lidar's. Snow is the same in both.
    """
    if model not in MODELS:
        raise unknown_name("model of streaks", model, MODELS)
    now = weather.at(time)
    found: list[FallingClass] = []
    if weather.rain is not None and now.rain_rate_mm_h > 0.0:
        share = _local_share(weather, "rain", place, time)
        if model == "vane":
            found.append(_vane_class(now.rain_rate_mm_h, share, now.wind_m_s))
        else:
            sizes = drop_sizes(weather.rain.drop_sizes, now.rain_rate_mm_h)
            found += _rain_classes(sizes, share, now.wind_m_s)
    if weather.snow is not None and now.snow_rate_mm_h > 0.0:
        share = _local_share(weather, "snow", place, time)
        found += _snow_classes(drop_sizes("constant-intercept", now.snow_rate_mm_h), share, now.wind_m_s)
    return [one for one in found if one.number_per_m3 > 0.0]


def _local_share(weather: Weather, kind: str, place: Floats, time: float) -> float:
    """Density here over the mean one, where there are cells of stronger and weaker rain or snow."""
    cells = getattr(getattr(weather, kind), "cells", None)
    if cells is None:
        return 1.0
    field = density_field(cells, seed=weather.seed, name=kind, flat=True)
    return float(field.at(np.asarray(place, np.float64)[None], np.asarray(weather.wind_m_s) * time)[0])


def _with_fall(wind: tuple[float, float, float], speed: float) -> tuple[float, float, float]:
    return wind[0], wind[1], wind[2] - speed


def _vane_class(rate: float, share: float, wind: tuple[float, float, float]) -> FallingClass:
    size = float(drop_diameter(rate))
    speed = float(terminal_velocity(np.float64(size)))
    return FallingClass(
        "rain/vane", share * float(drops_per_m3(rate)), _with_fall(wind, speed), wind,
        lambda u: np.full(u.shape, size), size, terminal_velocity,
    )  # fmt: skip


def _rain_classes(sizes: DropSizes, share: float, wind: tuple[float, float, float]) -> list[FallingClass]:
    found = []
    for number, (low, high) in enumerate(pairwise(DROP_EDGES_MM)):
        # Speeds of the lattices do not depend on the rate: where it changes, the drops stay.
        typical = 1e-3 * (low * min(high, 5.0)) ** 0.5
        velocity = _with_fall(wind, float(terminal_velocity(np.float64(typical))))
        count, draw = _within(sizes, low, high)
        name, size = f"rain/{number}", _scaled(draw, 1e-3)
        cell = SMALL_CELL_M if number < 2 else CELL_M
        found.append(FallingClass(name, share * count, velocity, wind, size, typical, terminal_velocity, cell_m=cell))
    return found


def _snow_classes(sizes: DropSizes, share: float, wind: tuple[float, float, float]) -> list[FallingClass]:
    found = []
    velocity = _with_fall(wind, FLAKE_SPEED)
    for number, (low, high) in enumerate(pairwise(FLAKE_EDGES_MM)):
        typical = 1e-3 * float(flake_diameter((low * min(high, 4.0)) ** 0.5))
        count, draw = _within(sizes, low, high)
        flakes = FallingClass(
            f"snow/{number}", share * count, velocity, wind, _flakes(draw), typical, _flake_speed,
            FLAKE_FLUTTER, AREA_RATIO, FLAKE_BRIGHTNESS, SMALL_CELL_M if number < 2 else CELL_M,
        )  # fmt: skip
        found.append(flakes)
    return found


def _flake_speed(diameter_m: Floats) -> Floats:
    return np.full(diameter_m.shape, FLAKE_SPEED)


def _within(sizes: DropSizes, low_mm: float, high_mm: float) -> tuple[float, Callable[[Floats], Floats]]:
    """Number [1/m^3] between two diameters, and their diameters [mm] by a uniform number."""
    steps = np.linspace(low_mm, high_mm, 257)
    above = sizes.number_above(steps)
    count = float(above[0] - above[-1])
    share = (above[0] - above) / max(count, 1e-300)
    return count, lambda u: np.interp(u, share, steps)


def _scaled(draw: Callable[[Floats], Floats], factor: float) -> Callable[[Floats], Floats]:
    return lambda u: factor * draw(u)


def _flakes(draw: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    return lambda u: 1e-3 * np.asarray(flake_diameter(draw(u)))


@dataclass(frozen=True, eq=False)
class Drops:
    """Some drops at one time."""

    xyz: Floats
    """Places in the world [m], shape (n, 3)."""
    velocity_m_s: Floats
    """Shape (n, 3)."""
    diameter_m: Floats
    """Shape (n,)."""


def drops_in_cells(kind: FallingClass, seed: int, cells: NDArray[np.int64], time: float) -> Drops:
    """The drops of some cells of the lattice, whole numbers (n, 3), at a time [s]."""
    key = tuple(np.uint32(word) for word in Stream(seed, f"camera/{kind.name}").key)
    corner = cells.astype(np.uint32)
    a, b, _, _ = _words(corner, np.zeros(len(cells), np.uint32), key)
    mean = np.full(len(cells), kind.number_per_m3 * kind.cell_m**3)
    counts = np.asarray(poisson(mean, a, b)).astype(np.int64)
    cell = np.repeat(np.arange(len(cells)), counts)
    first = np.cumsum(counts) - counts
    number = (np.arange(len(cell)) - np.repeat(first, counts)).astype(np.uint32)
    drawn = _words(corner[cell], number + np.uint32(1), key)
    x, y, z, size = (to_unit(w) for w in drawn)
    # Places take the upper 23 bits of a word; the lower 9 are left for the velocity.
    spread = [((w & np.uint32(511)).astype(np.float64) + 0.5) / 256.0 - 1.0 for w in drawn[:3]]
    diameter = kind.diameter_m(size)
    fall = kind.speed_m_s(diameter)
    velocity = np.empty((len(cell), 3))
    for axis in range(3):
        still = kind.wind_m_s[axis] - (fall if axis == 2 else 0.0)
        flutter = kind.flutter_m_s if axis < 2 else 0.0
        velocity[:, axis] = still * (1.0 + VELOCITY_SPREAD * spread[axis]) + flutter * spread[axis]
    mean_velocity = np.asarray(kind.velocity_m_s)
    within = np.mod(kind.cell_m * np.stack([x, y, z], axis=1) + (velocity - mean_velocity) * time, kind.cell_m)
    return Drops(kind.cell_m * cells[cell] + mean_velocity * time + within, velocity, diameter)


def _words(cells: NDArray[np.uint32], last: NDArray[np.uint32], key: Any) -> Any:
    """Random words of cells and numbers in them. Kernels and NumPy give the same bits; kernels are faster."""
    if len(last) < _FEW:
        zero = np.zeros(len(last), np.uint32)
        with np.errstate(over="ignore"):
            return philox((cells[:, 0], cells[:, 1], cells[:, 2], last), (zero + key[0], zero + key[1]))
    engine = running_engine()
    counter = [engine.table(column) for column in (*cells.T, last)]
    drawn = engine.frozen(philox)(tuple(counter), tuple(engine.dr.opaque(engine.mi.UInt32, int(k)) for k in key))
    engine.dr.eval(drawn)
    return tuple(copied(word) for word in drawn)
