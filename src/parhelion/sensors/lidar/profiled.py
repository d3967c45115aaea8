"""Noise of calibrated materials, drawn from their profiles inside the scan's kernels.

Echoes carry the angle of incidence in spare bits of their actor's number, in 255 steps of sin(angle / 2). A return from
a material with a profile is dropped, displaced and given an intensity by the profile of its angle; the distribution of
intensities is drawn from by Walker's alias method (1977): one uniform number, one row of a table, exact for sensors
that report a few values only.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import namespace
from parhelion.core.random import to_normal, to_unit, words
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.lidar.config import LidarConfig
from parhelion.sensors.lidar.overlap import overlap_share
from parhelion.sensors.lidar.profile import MaterialProfile

STEPS = 255
ANGLE_SHIFT = 22
"""Bits above this one hold the angle, below the flags of echoes."""
ACTOR_BITS = (1 << ANGLE_SHIFT) - 1
"""An actor's number where echoes carry angles; all ones stand for none."""
ANGLE_BITS = 0xFF << ANGLE_SHIFT
SURE_POWER = 8.0
"""Power [P_min] that a calibrated material has at least within the distances of its boards: its profile alone says what
is lost there."""
_DRAW = 4000


class UncalibratedMaterialWarning(UserWarning):
    """A world holds materials of which the sensor has no profile."""


def angle_code(cosine: Any) -> Any:
    """Steps of an angle of incidence, 0 face on and STEPS grazing; arrays of either kind."""
    xp = namespace(cosine)
    return xp.uint32(xp.sqrt(xp.clip(1.0 - cosine, 0.0, 1.0)) * float(STEPS) + 0.5)


def angle_of_code(code: Any) -> Any:
    """The angle of incidence [deg] that a step stands for."""
    return np.degrees(np.arccos(1.0 - (np.asarray(code, np.float64) / STEPS) ** 2))


def alias_table(chance: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Walker's table of a distribution: the share of each cell that is its own, and whose the rest is."""
    n = len(chance)
    scaled = chance / chance.sum() * n
    own, alias = np.ones(n), np.arange(n)
    small = [k for k in range(n) if scaled[k] < 1.0]
    large = [k for k in range(n) if scaled[k] >= 1.0]
    while small and large:
        low, high = small.pop(), large.pop()
        own[low], alias[low] = scaled[low], high
        scaled[high] -= 1.0 - scaled[low]
        (small if scaled[high] < 1.0 else large).append(high)
    return own, alias


@kernel_tree(fixed=("cells",))
@dataclass
class Profiles:
    """Profiles of all materials of a sensor, as tables of the device."""

    cells: int
    """Cells of intensity of every bin."""
    bins: Any
    """Number of the bin of each profile and step of angle; 0 is none."""
    noise: Any
    """Drop rate, range bias [m], range deviation [m] and width of a cell, by bin."""
    draws: Any
    """Own share, lower end, lower end of the alias, and 0, by bin and cell."""
    reach: Any
    """Longest recorded distance of each profile [m]; of profile 0, none, it is 0."""
    reference: Any
    """What intensities are divided by to hold at any range: xi / R^2 at the reference; None where they hold as is."""

    @classmethod
    def of(cls, engine: Engine, config: LidarConfig) -> tuple[Profiles, tuple[str, ...]] | None:
        """The profiles of a data sheet and the names of their materials; None where it has none."""
        materials = {} if config.calibration is None else config.calibration.materials
        if not materials:
            return None
        cells = max(len(row) for profile in materials.values() for row in profile.counts)
        noise, draws = [np.zeros(4)], [np.zeros((cells, 4))]
        bins = [np.zeros(STEPS + 1, np.uint32)]
        for profile in materials.values():
            bins.append(_bin_numbers(profile, len(noise)))
            rows, tables = _tables(profile, cells)
            noise += rows
            draws += tables
        reach = [0.0, *(profile.distance_m[1] for profile in materials.values())]
        reference = None
        if config.intensity.scale in ("ouster", "power"):
            metres = np.array([1.0, *(profile.reference_m for profile in materials.values())])
            reference = engine.table((metres**2 / overlap_share(config.range.overlap, metres)).astype(np.float32))
        return cls(
            cells, engine.table(np.concatenate(bins).astype(np.uint32)), engine.table(np.array(noise, np.float32)),
            engine.table(np.concatenate(draws).astype(np.float32)), engine.table(np.array(reach, np.float32)),
            reference,
        ), tuple(materials)  # fmt: skip


def _bin_numbers(profile: MaterialProfile, first: int) -> NDArray[np.uint32]:
    """Number of the bin of each step of angle; 0 where nothing is recorded and no model fills the gap."""
    angle = angle_of_code(np.arange(STEPS + 1))
    edges = np.asarray(profile.angle_deg)
    number = np.clip(np.digitize(angle, edges) - 1, 0, len(edges) - 2)
    known = np.array([sum(row) > 0 for row in profile.counts])
    if profile.brdf is None:
        known &= np.asarray(profile.shots) > 0
    return np.where(known[number], first + number, 0).astype(np.uint32)


def _tables(profile: MaterialProfile, cells: int) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    edges = np.asarray(profile.intensity, np.float64)
    low = edges if profile.kind == "values" else edges[:-1]
    width = 0.0 if profile.kind == "values" else float(np.mean(np.diff(edges)))
    noise, draws = [], []
    for k, row in enumerate(profile.counts):
        noise.append(np.array([profile.drop[k], profile.range_bias_m[k], profile.range_sigma_m[k], width]))
        chance = np.zeros(cells)
        chance[: len(row)] = row if sum(row) > 0 else 1.0
        own, alias = alias_table(chance)
        lower = np.concatenate([low, np.full(cells - len(low), low[-1])])
        draws.append(np.stack([own, lower, lower[alias], np.zeros(cells)], axis=1))
    return noise, draws


@kernel_tree()
@dataclass
class ProfiledParts:
    """Which profile each part of a world has, 0 for none."""

    number: Any
    profiles: Profiles

    @classmethod
    def of(
        cls, engine: Engine, profiles: Profiles, names: tuple[str, ...], materials: dict[int, str], rows: NDArray[Any]
    ) -> ProfiledParts:
        """`materials` are the world's by number, `rows` the material of each part."""
        numbers = {name: number + 1 for number, name in enumerate(names)}
        table = np.array([numbers.get(materials[row], 0) for row in rows.tolist()] or [0], np.uint32)
        return cls(engine.table(table), profiles)

    def at(self, part: Any, active: Any) -> Any:
        """Profile numbers of parts."""
        return running_engine().dr.gather(running_engine().mi.UInt32, self.number, part, active)

    def at_least(self, part: Any, range_m: Any, active: Any) -> Any:
        """Power that parts have at least, of a whole beam [P_min]: 0 for those without a profile or farther away."""
        dr, mi = running_engine().dr, running_engine().mi
        reach = dr.gather(mi.Float, self.profiles.reach, self.at(part, active), active)
        return dr.select(active & (range_m <= reach * 1.05), SURE_POWER, 0.0)

    def draw(self, part: Any, code: Any, key: Any, shot: Any, number: int, active: Any) -> Drawn:
        """What the profiles of parts say of a return, by luck of its own."""
        dr, mi, all_of = running_engine().dr, running_engine().mi, self.profiles
        profile = self.at(dr.select(active, part, 0), active)
        row = dr.gather(mi.UInt32, all_of.bins, profile * (STEPS + 1) + code, active)
        held = active & (row != 0)
        noise = dr.gather(mi.Vector4f, all_of.noise, row, held)
        a, b, c, d = words(key, shot, _DRAW + 2 * number)
        e, _, _, _ = words(key, shot, _DRAW + 2 * number + 1)
        place = to_unit(c) * float(all_of.cells)
        cell = namespace(place).uint32(place)
        cell = dr.select(cell < all_of.cells, cell, all_of.cells - 1)
        draw = dr.gather(mi.Vector4f, all_of.draws, row * all_of.cells + cell, held)
        low = dr.select(place - mi.Float(cell) < draw.x, draw.y, draw.z)
        value = low + noise.w * to_unit(d)
        scale = 1.0 if all_of.reference is None else dr.gather(mi.Float, all_of.reference, profile, held)
        return Drawn(held, to_unit(e) < noise.x, noise.y + noise.z * to_normal(a, b)[0], value, scale)


@dataclass
class Drawn:
    """Luck of returns with a profile, as kernel variables."""

    held: Any
    """Which returns have one."""
    lost: Any
    error: Any
    """Of range [m]."""
    intensity: Any
    scale: Any
    """R^2 / xi at the range that intensities hold for, or 1."""


def tell_missing(names: tuple[str, ...], materials: dict[int, str], sensor: str, told: set[str]) -> None:
    """One warning that names the materials of a world without a profile, once for each."""
    missing = sorted({name for name in materials.values() if name != "none"} - set(names) - told)
    if missing:
        told.update(missing)
        warnings.warn(
            f"{sensor}: no calibrated profile of {', '.join(missing)}; the sensor's usual noise is used for them",
            UncalibratedMaterialWarning,
            stacklevel=3,
        )
