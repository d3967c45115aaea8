"""Noise of calibrated materials, drawn from their profiles inside the scan's kernels.

Echoes carry the angle of incidence in spare bits of their actor's number, in 255 steps of sin(angle / 2). A return from
a material with a profile is dropped, displaced and given an intensity by the profile of its angle; the distribution of
intensities is drawn from by Walker's alias method (1977): one uniform number, one row of a table, exact for sensors
that report a few values only. Materials without a profile have that of the nearest calibrated one (`nearest.py`),
shifted: its tables once more with other numbers in them, so that kernels are the same. Weather dims what is drawn.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.errors import ParhelionError
from parhelion.core.random import to_normal, to_unit, words
from parhelion.makers.scales import IntensityScale, scale_called
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.optics.air import Air, two_way
from parhelion.sensors.optics.beams import BeamAim
from parhelion.sensors.optics.lidar.config import LidarConfig, MaterialProfile
from parhelion.sensors.optics.lidar.echoes import Block
from parhelion.sensors.optics.lidar.link_budget import overlap_share
from parhelion.surfaces import library
from parhelion.surfaces.material import Material, reflected, reflection_table

# ---- Materials without a profile, seen through the nearest calibrated one -------------------------------------------
# The nearest is the calibrated material whose model returns most nearly as much at every angle: the least root mean
# square of ln(f cos) between the two, both at the sensor's wavelength. Its profile is then shifted by the ratio of the
# two models, so that what is left to chance is how far real materials differ from their models.


COMPARED_DEG = np.arange(2.5, 80.0, 5.0)
"""Angles of incidence at which models are compared; beyond, all of them fall to 0."""
LEAST_RETURN = 1e-6
"""f cos [1/sr] that counts as nothing: a white target that faces the sensor has 0.32."""
_LEAST_KEPT = 1e-9


@dataclass(frozen=True, eq=False)
class Substitute:
    """A calibrated material that stands for one without a profile."""

    name: str
    """Of the material without a profile."""
    calibrated: str
    distance: float
    """Root mean square of the logarithm of the ratio over the compared angles."""
    own: Material
    other: Material
    wavelength_nm: float

    def ratio(self, angle_deg: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the material returns over what the calibrated one does, by angle of incidence."""
        one, two = returned([self.own, self.other], angle_deg, self.wavelength_nm)
        return np.asarray(np.maximum(one, LEAST_RETURN) / np.maximum(two, LEAST_RETURN))


def drop_at(drop: Reals, ratio: Reals) -> Reals:
    """Share of lost shots when the signal is `ratio` times that at which the share `drop` is lost.

    1 - (1 - drop)^(1 / ratio): a pulse is lost where its energy falls below a threshold, and energy that speckle or
    grain scatters exponentially about its mean does so with the chance 1 - exp(-threshold / mean). A material of which
    nothing is lost stays so; a signal of 0 is always lost. Arrays of either kind.
    """
    xp = namespace(drop, ratio)
    kept = xp.maximum(1.0 - drop, _LEAST_KEPT)
    return 1.0 - xp.exp(xp.log(kept) / xp.maximum(ratio, _LEAST_KEPT))


def returned(
    materials: Sequence[Material], angle_deg: NDArray[np.float64], wavelength_nm: float
) -> NDArray[np.float64]:
    """f cos(theta) [1/sr] of materials, shape (materials, angles)."""
    table = reflection_table(materials, wavelength_nm, textured=False).astype(np.float64)
    cosine = np.cos(np.radians(np.asarray(angle_deg, np.float64)))
    number = np.repeat(np.arange(len(materials)), len(cosine))
    return np.asarray(reflected(np.tile(cosine, len(materials)), number, table)).reshape(len(materials), -1)


def substitute_for(
    calibrated: Sequence[str], materials: Sequence[Material], wavelength_nm: float
) -> tuple[list[Substitute], list[str]]:
    """Which calibrated material stands for each other one of a world; and the names of those for which none does.

    Mirrors, panes, water and retro-reflectors are left to the sensor's own model: a ratio of diffuse returns says
    nothing of them. So are all materials where no calibrated one is known to the world or the library.
    """
    own = {material.name: material for material in materials}
    known = [found for found in (_known(name, own) for name in calibrated) if found is not None and _is_plain(found[1])]
    missing = [material for material in own.values() if material.name not in calibrated]
    plain = [material for material in missing if _is_plain(material)] if known else []
    alone = [material.name for material in missing if material not in plain]
    if not plain:
        return [], sorted(alone)
    levels = np.log(
        np.maximum(returned([*plain, *(one for _, one in known)], COMPARED_DEG, wavelength_nm), LEAST_RETURN)
    )
    apart = levels[: len(plain), None] - levels[None, len(plain) :]
    distance = np.sqrt(np.mean(apart**2, axis=-1))
    chosen = np.argmin(distance, axis=1)
    found = [
        Substitute(material.name, known[k][0], float(distance[row, k]), material, known[k][1], wavelength_nm)
        for row, (material, k) in enumerate(zip(plain, chosen.tolist(), strict=True))
    ]
    return found, sorted(alone)


def _is_plain(material: Material) -> bool:
    return material.retro is None and material.specular is None


def _known(name: str, own: dict[str, Material]) -> tuple[str, Material] | None:
    """The material that a profile is of: the world's of this name, else the library's."""
    if name in own:
        return name, own[name]
    try:
        return name, library.material(name)
    except ParhelionError:
        return None


# ---- profiles -------------------------------------------------------------------------------------------------------


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
MOST_BYTE = 255.0
ECHO_STEP = MOST_BYTE / float(np.log(1e5))
"""What the scale `echo`, a logarithm of power, adds for each factor of e."""


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


@kernel_tree(fixed=("cells", "logarithmic"))
@dataclass
class Profiles:
    """Profiles of all materials of a sensor, as tables of the device."""

    cells: int
    """Cells of intensity of every bin."""
    logarithmic: bool
    """Whether intensities are a logarithm of the signal, so that a factor on the signal is a step on them."""
    bins: Any
    """Number of the bin of each profile and step of angle; 0 is none."""
    noise: Any
    """Drop rate, range bias [m], range deviation [m] and width of a cell, by bin; width 0 for lone values."""
    draws: Any
    """Own share, lower end, lower end of the alias, and 0, by bin and cell."""
    reach: Any
    """Longest recorded distance [m] of each profile, and the power [P_min] that it stands for at least up to there; of
    profile 0, none, both are 0."""
    reference: Any
    """What intensities are divided by to hold at any range: xi / R^2 at the reference; None where they hold as is."""

    @classmethod
    def of(cls, engine: Engine, rows: ProfileRows, standing: Sequence[Substitute] = ()) -> Profiles:
        """The tables of a data sheet's profiles, and after them those of materials that they stand for."""
        every = [rows.own[name] for name in rows.own]
        every += [_shifted(rows.own[one.calibrated], one, rows.scale) for one in standing]
        first = np.cumsum([1, *(len(one.noise) for one in every)])
        bins = [np.zeros(STEPS + 1, np.uint32)]
        bins += [np.where(one.bins > 0, one.bins - 1 + start, 0) for one, start in zip(every, first[:-1], strict=True)]
        reach = np.array([(0.0, 0.0), *((one.reach_m, one.least) for one in every)], np.float32)
        reference = None
        if rows.scale.linear_in_power:
            reference = engine.table(np.array([1.0, *(one.reference for one in every)], np.float32))
        noise = np.concatenate([np.zeros((1, 4)), *(one.noise for one in every)])
        draws = np.concatenate([np.zeros((1, rows.cells, 4)), *(one.draws for one in every)])
        return cls(
            rows.cells, rows.scale.logarithmic, engine.table(np.concatenate(bins).astype(np.uint32)),
            engine.table(noise.astype(np.float32)), engine.table(draws.astype(np.float32)), engine.table(reach),
            reference,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ProfileRow:
    """The tables of one profile."""

    angle_deg: NDArray[np.float64]
    """Middles of its bins of incidence."""
    bins: NDArray[np.int64]
    """Number of the bin of each step of angle, from 1; 0 is none."""
    noise: NDArray[np.float64]
    """As in `Profiles`, shape (bins, 4)."""
    draws: NDArray[np.float64]
    """As in `Profiles`, shape (bins, cells, 4)."""
    reach_m: float
    least: float
    reference: float


@dataclass(frozen=True, eq=False)
class ProfileRows:
    """The tables of a data sheet's profiles, made once."""

    own: dict[str, ProfileRow]
    """By name of the material."""
    cells: int
    scale: IntensityScale

    @classmethod
    def of(cls, config: LidarConfig) -> ProfileRows | None:
        """The tables of a data sheet; None where it has no profile."""
        materials = {} if config.calibration is None else config.calibration.materials
        if not materials:
            return None
        cells = max(len(row) for profile in materials.values() for row in profile.counts)
        own = {}
        for name, profile in materials.items():
            noise, draws = _tables(profile, cells)
            edges, metres = np.asarray(profile.angle_deg), profile.reference_m
            reference = metres**2 / float(overlap_share(config.range.overlap, np.array([metres]))[0])
            own[name] = ProfileRow(
                0.5 * (edges[1:] + edges[:-1]), _bin_numbers(profile), np.array(noise), np.array(draws),
                profile.distance_m[1], SURE_POWER, reference,
            )  # fmt: skip
        return cls(own, cells, scale_called(config.intensity.scale))


def _shifted(row: ProfileRow, standing: Substitute, scale: IntensityScale) -> ProfileRow:
    """The tables of a profile for a material that returns another share of the light.

    Intensities follow the ratio of the models, bin by bin of angle, and lost shots the changed signal. Lone values,
    which say nothing of the signal, stay.
    """
    ratio = standing.ratio(row.angle_deg)
    noise, draws = row.noise.copy(), row.draws.copy()
    noise[:, 0] = drop_at(noise[:, 0], ratio)
    cells = noise[:, 3] > 0.0
    if scale.logarithmic:
        draws[cells, :, 1:3] = np.maximum(draws[cells, :, 1:3] + ECHO_STEP * np.log(ratio[cells])[:, None, None], 0.0)
    else:
        noise[cells, 3] *= ratio[cells]
        draws[cells, :, 1:3] *= ratio[cells][:, None, None]
    if scale.bits == 8:
        noise[:, 3] = np.minimum(noise[:, 3], MOST_BYTE)
        draws[..., 1:3] = np.minimum(draws[..., 1:3], (MOST_BYTE - noise[:, 3])[:, None, None])
    usual = float(np.exp(np.mean(np.log(standing.ratio(COMPARED_DEG)))))
    return replace(row, noise=noise, draws=draws, least=row.least * usual)


def _bin_numbers(profile: MaterialProfile) -> NDArray[np.int64]:
    """Number of the bin of each step of angle, from 1; 0 where nothing is recorded and no model fills the gap."""
    angle = angle_of_code(np.arange(STEPS + 1))
    edges = np.asarray(profile.angle_deg)
    number = np.clip(np.digitize(angle, edges) - 1, 0, len(edges) - 2)
    known = np.array([sum(row) > 0 for row in profile.counts])
    if profile.brdf is None:
        known &= np.asarray(profile.shots) > 0
    return np.where(known[number], 1 + number, 0)


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
    def of(cls, engine: Engine, rows: ProfileRows, standing: Sequence[Substitute], materials: Sequence[str]) -> Any:
        """`materials` are those of the world's parts."""
        names = [*rows.own, *(one.name for one in standing)]
        numbers = {name: number + 1 for number, name in enumerate(names)}
        table = np.array([numbers.get(name, 0) for name in materials] or [0], np.uint32)
        return cls(engine.table(table), Profiles.of(engine, rows, standing))

    def at(self, part: Any, active: Any) -> Any:
        """Profile numbers of parts."""
        return running_engine().dr.gather(running_engine().mi.UInt32, self.number, part, active)

    def at_least(self, part: Any, range_m: Any, active: Any) -> Any:
        """Power in clear air that parts have at least, of a whole beam [P_min]: 0 without a profile or farther away."""
        dr, mi = running_engine().dr, running_engine().mi
        reach = dr.gather(mi.Vector2f, self.profiles.reach, self.at(part, active), active)
        return dr.select(active & (range_m <= reach.x * 1.05), reach.y, 0.0)

    def draw(self, part: Any, code: Any, key: Any, shot: Any, number: int, active: Any, left: Any = None) -> Drawn:
        """What the profiles of parts say of a return, by luck of its own.

        `left` is the share of the signal that weather leaves of it, None in clear air.
        """
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
        drop = noise.x
        if left is not None:
            # Lone values say nothing of the signal, so they stay.
            dimmed = value * left
            if all_of.logarithmic:
                dimmed = namespace(value).maximum(value + ECHO_STEP * dr.log(left), 0.0)
            value, drop = dr.select(noise.w > 0.0, dimmed, value), drop_at(drop, left)
        scale = 1.0 if all_of.reference is None else dr.gather(mi.Float, all_of.reference, profile, held)
        return Drawn(held, to_unit(e) < drop, noise.y + noise.z * to_normal(a, b)[0], value, scale)


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


def share_left(air: Air, clear_per_m: Any, blocks: Sequence[Block], aim: BeamAim, range_m: Any, active: Any) -> Any:
    """Share of a surface's signal that weather leaves on both ways, beyond what clear air takes (`clear_per_m`)."""
    left = two_way(air, clear_per_m, aim, running_engine().dr.select(active, range_m, 0.0))
    # Drops that are drawn one by one dim all echoes of surfaces of their beam alike.
    for scale in [block.scale for block in blocks if block.scale is not None][:1]:
        left = left * scale
    return left


def warn_uncalibrated(standing: Sequence[Substitute], alone: Sequence[str], sensor: str, told: set[str]) -> None:
    """One warning that names the materials of a world without a profile, once for each, and what is used for them."""
    new = [one for one in standing if one.name not in told]
    usual = sorted(name for name in alone if name not in told)
    told.update(one.name for one in new)
    told.update(usual)
    parts = []
    if new:
        used: dict[str, list[str]] = {}
        for one in sorted(new, key=lambda one: one.name):
            used.setdefault(one.calibrated, []).append(one.name)
        words = "; ".join(f"that of {name} for {', '.join(those)}" for name, those in sorted(used.items()))
        parts.append(f"no calibrated profile of some materials, so the nearest is used, shifted: {words}")
    if usual:
        parts.append(f"no calibrated profile of {', '.join(usual)}; the sensor's usual noise is used for them")
    if parts:
        warnings.warn(f"{sensor}: {'; '.join(parts)}", UncalibratedMaterialWarning, stacklevel=3)
