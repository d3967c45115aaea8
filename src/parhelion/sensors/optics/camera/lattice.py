"""Number, size, velocity and position of drops and flakes in front of a camera.

Space is divided into a lattice of cells that falls and drifts with the mean velocity of its drops. A drop is a function
of the weather's seed, its cell and its number in the cell. Within the cell it moves by the difference between its
velocity and the mean, with periodic boundaries. Consecutive frames therefore show the same moving drops, any frame can
be computed alone, and no two places repeat. A drop exists for some seconds, until it crosses a cell boundary.

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

from parhelion.core.errors import unknown_name
from parhelion.core.random import Stream, philox, to_unit
from parhelion.rays.device import copied
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.optics.camera.readout import poisson
from parhelion.weather.fields import DensityField
from parhelion.weather.media import Particles
from parhelion.weather.weather import Present, Weather

Floats = NDArray[np.float64]

MODELS = ("physical", "vane")
CELL_M = 2.0
"""Side of the lattice cells [m]."""
SMALL_CELL_M = 1.0
"""Side of the cells [m] for the two smallest classes, which are drawn only near the lens."""
VELOCITY_SPREAD = 0.15
"""Half-width of the uniform distribution of each velocity component, relative to its mean (VANE)."""
_FEW = 4096
"""Largest number of random words drawn with NumPy."""


@dataclass(frozen=True, eq=False)
class ParticleClass:
    """Particles of one medium in one size class."""

    name: str
    """Name of the random stream."""
    number_per_m3: float
    """Number density [1/m^3]."""
    velocity_m_s: tuple[float, float, float]
    """Mean velocity [m/s], with which the lattice moves."""
    wind_m_s: tuple[float, float, float]
    """Wind velocity [m/s]."""
    diameter_m: Callable[[Floats], Floats]
    """Diameter [m] as a function of a uniform number."""
    typical_m: float
    """Representative diameter [m]; it determines the maximum drawing distance."""
    speed_m_s: Callable[[Floats], Floats]
    """Fall speed [m/s] as a function of diameter [m]."""
    flutter_m_s: float = 0.0
    """Half-width of the additional horizontal velocity [m/s]."""
    cover: float = 1.0
    """Fraction of the circumscribed disc that the particle covers."""
    brightness: float = 1.0
    """Radiance relative to that of the surroundings."""
    cell_m: float = CELL_M
    """Side of the lattice cells [m]."""


def particle_classes(weather: Weather, time: float, place: Floats, model: str = "physical") -> list[ParticleClass]:
    """Particle classes at a time and position in the world; empty in dry air.

    `vane`: 172 R^0.22 rain drops per cubic metre, all with a diameter of 0.75 R^0.21 mm. `physical`: the drop size
    distribution of the weather, as for the lidar. Other media are the same in both.
    """
    if model not in MODELS:
        raise unknown_name("model of streaks", model, MODELS)
    found: list[ParticleClass] = []
    for one in weather.present(time):
        particles = one.medium.effects.particles(one.part, one.amount)
        if particles is not None:
            name, share = one.medium.name, _local_share(weather, one, place, time)
            if model == "vane" and particles.vane is not None:
                found.append(_vane_class(name, particles, share, weather.wind_m_s))
            else:
                found += _size_classes(name, particles, share, weather.wind_m_s)
    return [one for one in found if one.number_per_m3 > 0.0]


def _local_share(weather: Weather, one: Present, place: Floats, time: float) -> float:
    """Local density relative to the mean, in heterogeneous weather."""
    field = one.medium.effects.density(one.part, weather, time, one.medium.name, one.row)
    if not isinstance(field, DensityField):
        return 1.0
    return float(field.at(np.asarray(place, np.float64)[None], np.asarray(weather.wind_m_s) * time)[0])


def _with_fall(wind: tuple[float, float, float], speed: float) -> tuple[float, float, float]:
    return wind[0], wind[1], wind[2] - speed


def _vane_class(name: str, particles: Particles, share: float, wind: tuple[float, float, float]) -> ParticleClass:
    assert particles.vane is not None
    number, size = particles.vane
    speed = float(particles.speed_m_s(np.float64(size)))
    return ParticleClass(
        f"{name}/vane",
        share * number,
        _with_fall(wind, speed),
        wind,
        lambda u: np.full(u.shape, size),
        size,
        particles.speed_m_s,
        particles.flutter_m_s,
        particles.cover,
        particles.brightness,
    )


def _size_classes(
    name: str, particles: Particles, share: float, wind: tuple[float, float, float]
) -> list[ParticleClass]:
    found = []
    for number, (low, high) in enumerate(pairwise(particles.edges_mm)):
        # Lattice velocities do not depend on the amount, so the particles persist when it changes.
        typical = float(particles.diameter_m((low * min(high, particles.largest_typical_mm)) ** 0.5))
        velocity = _with_fall(wind, float(particles.speed_m_s(np.float64(typical))))
        count, size = _within(particles, low, high)
        one = ParticleClass(
            f"{name}/{number}",
            share * count,
            velocity,
            wind,
            size,
            typical,
            particles.speed_m_s,
            particles.flutter_m_s,
            particles.cover,
            particles.brightness,
            SMALL_CELL_M if number < 2 else CELL_M,
        )
        found.append(one)
    return found


def _within(particles: Particles, low_mm: float, high_mm: float) -> tuple[float, Callable[[Floats], Floats]]:
    """Number density [1/m^3] between two diameters, and the diameter [m] as a function of a uniform number."""
    steps = np.linspace(low_mm, high_mm, 257)
    above = particles.sizes.number_above(steps)
    count = float(above[0] - above[-1])
    share = (above[0] - above) / max(count, 1e-300)
    return count, lambda u: np.asarray(particles.diameter_m(np.interp(u, share, steps)))


@dataclass(frozen=True, eq=False)
class Drops:
    """Drops at one time."""

    xyz: Floats
    """Positions in the world [m], shape (n, 3)."""
    velocity_m_s: Floats
    """Velocities [m/s], shape (n, 3)."""
    diameter_m: Floats
    """Diameters [m], shape (n,)."""


def drops_in_cells(kind: ParticleClass, seed: int, cells: NDArray[np.int64], time: float) -> Drops:
    """Drops in lattice cells, given by integer indices (n, 3), at a time [s]."""
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
    # Positions use the upper 23 bits of a word, velocities the lower 9.
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
    """Random words of cells and drop numbers. Kernels and NumPy give identical bits; kernels are faster."""
    if len(last) < _FEW:
        zero = np.zeros(len(last), np.uint32)
        with np.errstate(over="ignore"):
            return philox((cells[:, 0], cells[:, 1], cells[:, 2], last), (zero + key[0], zero + key[1]))
    engine = running_engine()
    counter = [engine.table(column) for column in (*cells.T, last)]
    drawn = engine.frozen(philox)(tuple(counter), tuple(engine.dr.opaque(engine.mi.UInt32, int(k)) for k in key))
    engine.dr.eval(drawn)
    return tuple(copied(word) for word in drawn)
