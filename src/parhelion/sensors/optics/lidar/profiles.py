"""Noise of calibrated materials, drawn from their profiles in the scan's kernels.

Echoes carry the angle of incidence in spare bits of the actor number, in 255 steps of sin(angle / 2). For a material
with a profile, the bin of that angle decides whether a return is lost, its range error and its intensity. Intensities
are sampled by Walker's alias method (1977): one uniform number and one table row, exact also for sensors that report
only a few values. A material without a profile uses that of the most similar calibrated material, scaled by the ratio
of their reflection models. Its tables have the same layout, so the kernels are the same. Weather attenuates the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Bool, Float, Int, Keys, Reals, namespace
from parhelion.core.errors import ParhelionError
from parhelion.core.random import to_normal, to_unit, words
from parhelion.makers.scales import IntensityScale, scale_called
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.optics.air import Air, two_way
from parhelion.sensors.optics.beams import BeamAim
from parhelion.sensors.optics.lidar.config import LidarConfig, MaterialProfile
from parhelion.sensors.optics.lidar.draws import PROFILE_DRAW
from parhelion.sensors.optics.lidar.echoes import Block
from parhelion.sensors.optics.lidar.link_budget import overlap_share
from parhelion.surfaces import library
from parhelion.surfaces.material import Material, reflected, reflection_table

# ---- Substitutes: calibrated materials that stand in for those without a profile ------------------------------------
# The substitute is the calibrated material with the smallest RMS difference of ln(f cos) over angle, at the sensor's
# wavelength. Its profile is scaled by the ratio of the two models. The remaining error is the deviation of the real
# materials from their models.


COMPARED_DEG = np.arange(2.5, 80.0, 5.0)
"""Angles of incidence at which models are compared; beyond them, all models fall to 0."""
LEAST_RETURN = 1e-6
"""Smallest f cos [1/sr] that is distinguished from 0; a white target facing the sensor has 0.32."""
_LEAST_KEPT = 1e-9


@dataclass(frozen=True, eq=False)
class Substitute:
    """Calibrated material that stands in for one without a profile."""

    name: str
    """Name of the material without a profile."""
    calibrated: str
    """Name of the calibrated material."""
    distance: float
    """RMS of the log ratio of the models over the compared angles."""
    own: Material
    other: Material
    wavelength_nm: float

    def ratio(self, angle_deg: NDArray[np.float64]) -> NDArray[np.float64]:
        """Ratio of the material's return to that of the calibrated one, by angle of incidence."""
        one, two = returned([self.own, self.other], angle_deg, self.wavelength_nm)
        return np.asarray(np.maximum(one, LEAST_RETURN) / np.maximum(two, LEAST_RETURN))


def drop_at(drop: Reals, ratio: Reals) -> Reals:
    """Share of lost shots if the signal is `ratio` times that at which the share `drop` is lost.

    1 - (1 - drop)^(1 / ratio): a pulse is lost if its energy is below a threshold, and energy with an exponential
    distribution (speckle, grain) is below it with probability 1 - exp(-threshold / mean). A drop rate of 0 stays 0; a
    signal of 0 is always lost. NumPy or Dr.Jit arrays.
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
    """Substitute of each material of a world without a profile, and the names of materials without a substitute.

    Mirrors, panes, water and retro-reflectors use the sensor's own model, because a ratio of diffuse returns does not
    describe them. So do all materials if neither the world nor the library knows a calibrated one.
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
    """Material of a profile by name: from the world, or from the library."""
    if name in own:
        return name, own[name]
    try:
        return name, library.material(name)
    except ParhelionError:
        return None


# ---- profiles -------------------------------------------------------------------------------------------------------


STEPS = 255
ANGLE_SHIFT = 22
"""Lowest bit of the angle of incidence in an actor number; the flags of echoes are above the angle."""
ACTOR_BITS = (1 << ANGLE_SHIFT) - 1
"""Bits of the actor number if echoes carry angles; all ones mean no actor."""
ANGLE_BITS = 0xFF << ANGLE_SHIFT
SURE_POWER = 8.0
"""Least power [P_min] of a calibrated material within the distances of its boards, where its profile alone decides
which shots are lost."""
MOST_BYTE = 255.0
ECHO_STEP = MOST_BYTE / float(np.log(1e5))
"""Step of the scale `echo`, a logarithm of power, for each factor of e."""


class UncalibratedMaterialWarning(UserWarning):
    """A world contains materials without a profile of the sensor."""


def angle_code(cosine: Any) -> Any:
    """Code of an angle of incidence, from 0 (normal) to STEPS (grazing); NumPy or Dr.Jit arrays."""
    xp = namespace(cosine)
    return xp.uint32(xp.sqrt(xp.clip(1.0 - cosine, 0.0, 1.0)) * float(STEPS) + 0.5)


def angle_of_code(code: Any) -> Any:
    """Angle of incidence [deg] of a code."""
    return np.degrees(np.arccos(1.0 - (np.asarray(code, np.float64) / STEPS) ** 2))


def alias_table(chance: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Walker's alias table of a distribution: the own share of each cell, and the alias of the rest."""
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
    """Profiles of all materials of a sensor, as tables on the device."""

    cells: int
    """Intensity cells per bin."""
    logarithmic: bool
    """True if intensity is a logarithm of the signal, so that a factor on the signal is a step in intensity."""
    bins: Int
    """Bin number by profile and angle code; 0 means none."""
    noise: Float
    """Drop rate, range bias [m], range deviation [m] and cell width by bin; width 0 for discrete values."""
    draws: Float
    """Own share, lower end, lower end of the alias, and 0, by bin and cell."""
    reach: Float
    """Longest recorded distance [m] of each profile, and its least power [P_min] up to there; both 0 for profile 0,
    which means none."""
    reference: Float | None
    """R^2 / xi at the reference range of each profile; None if intensities do not depend on range."""

    @classmethod
    def of(cls, engine: Engine, rows: ProfileRows, standing: Sequence[Substitute] = ()) -> Profiles:
        """Upload the tables of a data sheet's profiles, followed by those of the substitutes."""
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
            rows.cells,
            rows.scale.logarithmic,
            engine.table(np.concatenate(bins).astype(np.uint32)),
            engine.table(noise.astype(np.float32)),
            engine.table(draws.astype(np.float32)),
            engine.table(reach),
            reference,
        )


@dataclass(frozen=True, eq=False)
class ProfileRow:
    """Tables of one profile."""

    angle_deg: NDArray[np.float64]
    """Centres of its bins of incidence."""
    bins: NDArray[np.int64]
    """Bin number of each angle code, from 1; 0 means none."""
    noise: NDArray[np.float64]
    """See `Profiles.noise`; shape (bins, 4)."""
    draws: NDArray[np.float64]
    """See `Profiles.draws`; shape (bins, cells, 4)."""
    reach_m: float
    least: float
    reference: float


@dataclass(frozen=True, eq=False)
class ProfileRows:
    """Tables of a data sheet's profiles, computed once."""

    own: dict[str, ProfileRow]
    """Tables by name of the material."""
    cells: int
    scale: IntensityScale

    @classmethod
    def of(cls, config: LidarConfig) -> ProfileRows | None:
        """Tables of a data sheet; None if it has no profile."""
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
                0.5 * (edges[1:] + edges[:-1]),
                _bin_numbers(profile),
                np.array(noise),
                np.array(draws),
                profile.distance_m[1],
                SURE_POWER,
                reference,
            )
        return cls(own, cells, scale_called(config.intensity.scale))


def _shifted(row: ProfileRow, standing: Substitute, scale: IntensityScale) -> ProfileRow:
    """Tables of a profile, scaled to a material of different reflectance.

    Intensities are scaled by the ratio of the models in each bin of angle, and drop rates follow the changed signal.
    Discrete values, which do not depend on the signal, stay unchanged.
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
    mean_ratio = float(np.exp(np.mean(np.log(standing.ratio(COMPARED_DEG)))))
    return replace(row, noise=noise, draws=draws, least=row.least * mean_ratio)


def _bin_numbers(profile: MaterialProfile) -> NDArray[np.int64]:
    """Bin number of each angle code, from 1; 0 if nothing is recorded there and no model fills the gap."""
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
    """Profile number of each part of a world; 0 means none."""

    number: Int
    profiles: Profiles

    @classmethod
    def of(
        cls, engine: Engine, rows: ProfileRows, standing: Sequence[Substitute], materials: Sequence[str]
    ) -> ProfiledParts:
        """Assign profiles by the names of the parts' `materials`."""
        names = [*rows.own, *(one.name for one in standing)]
        numbers = {name: number + 1 for number, name in enumerate(names)}
        table = np.array([numbers.get(name, 0) for name in materials] or [0], np.uint32)
        return cls(engine.table(table), Profiles.of(engine, rows, standing))

    def at(self, part: Int, active: Bool) -> Int:
        """Profile numbers of parts."""
        return running_engine().dr.gather(running_engine().mi.UInt32, self.number, part, active)

    def at_least(self, part: Int, range_m: Float, active: Bool) -> Float:
        """Least power of a whole beam in clear air [P_min]; 0 without a profile or beyond the recorded distance."""
        dr, mi = running_engine().dr, running_engine().mi
        reach = dr.gather(mi.Vector2f, self.profiles.reach, self.at(part, active), active)
        return dr.select(active & (range_m <= reach.x * 1.05), reach.y, 0.0)

    def draw(
        self, part: Int, code: Int, key: Keys, shot: Int, number: int, active: Bool, left: Float | None = None
    ) -> Drawn:
        """Draw loss, range error and intensity of returns from the profiles of their parts.

        `left` is the share of the signal that weather transmits; None in clear air.
        """
        dr, mi, all_of = running_engine().dr, running_engine().mi, self.profiles
        profile = self.at(dr.select(active, part, 0), active)
        row = dr.gather(mi.UInt32, all_of.bins, profile * (STEPS + 1) + code, active)
        held = active & (row != 0)
        noise = dr.gather(mi.Vector4f, all_of.noise, row, held)
        a, b, c, d = words(key, shot, PROFILE_DRAW + 2 * number)
        e, _, _, _ = words(key, shot, PROFILE_DRAW + 2 * number + 1)
        place = to_unit(c) * float(all_of.cells)
        cell = namespace(place).uint32(place)
        cell = dr.select(cell < all_of.cells, cell, all_of.cells - 1)
        draw = dr.gather(mi.Vector4f, all_of.draws, row * all_of.cells + cell, held)
        low = dr.select(place - mi.Float(cell) < draw.x, draw.y, draw.z)
        value = low + noise.w * to_unit(d)
        drop = noise.x
        if left is not None:
            # Discrete values do not depend on the signal and stay unchanged.
            dimmed = value * left
            if all_of.logarithmic:
                dimmed = namespace(value).maximum(value + ECHO_STEP * dr.log(left), 0.0)
            value, drop = dr.select(noise.w > 0.0, dimmed, value), cast("Float", drop_at(drop, left))
        scale = 1.0 if all_of.reference is None else dr.gather(mi.Float, all_of.reference, profile, held)
        return Drawn(held, to_unit(e) < drop, noise.y + noise.z * to_normal(a, b)[0], value, scale)


@dataclass
class Drawn:
    """Random outcome of returns with a profile, as kernel variables."""

    held: Bool
    """Mask of returns with a profile."""
    lost: Bool
    error: Float
    """Range error [m]."""
    intensity: Float
    scale: Reals
    """R^2 / xi at the reference range of the intensities, or 1."""


def share_left(
    air: Air, clear_per_m: Reals, blocks: Sequence[Block], aim: BeamAim, range_m: Float, active: Bool
) -> Float:
    """Two-way transmittance of weather relative to clear air of extinction `clear_per_m`."""
    left = two_way(air, clear_per_m, aim, running_engine().dr.select(active, range_m, 0.0))
    # Individually drawn drops attenuate all surface echoes of their beam equally.
    for scale in [block.scale for block in blocks if block.scale is not None][:1]:
        left = left * scale
    return left


def warn_uncalibrated(standing: Sequence[Substitute], alone: Sequence[str], sensor: str, warned: set[str]) -> None:
    """Warn about materials without a profile and name their substitutes, once per material (`warned`)."""
    new = [one for one in standing if one.name not in warned]
    without = sorted(name for name in alone if name not in warned)
    warned.update(one.name for one in new)
    warned.update(without)
    parts = []
    if new:
        used: dict[str, list[str]] = {}
        for one in sorted(new, key=lambda one: one.name):
            used.setdefault(one.calibrated, []).append(one.name)
        words = "; ".join(f"that of {name} for {', '.join(those)}" for name, those in sorted(used.items()))
        parts.append(f"some materials have no calibrated profile; the most similar one is scaled and used: {words}")
    if without:
        parts.append(f"no calibrated profile of {', '.join(without)}; the sensor's default noise is used for them")
    if parts:
        warnings.warn(f"{sensor}: {'; '.join(parts)}", UncalibratedMaterialWarning, stacklevel=3)
