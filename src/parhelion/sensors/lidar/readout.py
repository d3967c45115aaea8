"""Readout: what the sensor writes down of each return, in the kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from parhelion.core.arrays import Ints, Keys, Masks, Reals, namespace
from parhelion.core.random import to_normal, words
from parhelion.core.records import ORIGINS
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.scene import NOTHING
from parhelion.sensors.lidar.detection import FALSE_ALARM, Return, echo_of
from parhelion.sensors.lidar.echoes import GHOST_BIT, NO_ACTOR, NO_ECHO, SCATTERER_BIT, Block
from parhelion.sensors.lidar.intensity import SCALES, in_steps, reflectivity
from parhelion.sensors.lidar.noise import range_sigma
from parhelion.sensors.lidar.profiled import ACTOR_BITS, ANGLE_BITS, ANGLE_SHIFT, ProfiledParts, share_left
from parhelion.sensors.light.air import Air
from parhelion.sensors.light.beams import Beams
from parhelion.sensors.light.curve import Curve

_NOISE_DRAW = 3000
_SURFACE, _MULTIPATH, _NOISE = (ORIGINS.index(name) for name in ("surface", "multipath", "noise"))


@kernel_tree()
@dataclass
class Readout:
    """Errors and scales that turn a return into numbers, opaque to the kernel compiler."""

    noisy: bool
    sigma_0: Reals
    sigma_1: Reals
    sigma_curve: Curve | None
    threshold_to_noise: Reals
    bias: Reals
    """Range error of each shot's channel [m], one value a shot, or None."""
    resolution: Reals
    """Step of the reported range [m], or None."""
    saturation: Reals
    """Highest power that the receiver can tell, or None."""
    intensity_sigma: Reals
    """Relative deviation of intensity, or None."""
    intensity_scale: str
    intensity_resolution: Reals
    photons: Reals
    """Photons at the detection threshold, for scales that count them."""
    threshold: Reals
    extinction: Reals
    overlap: Curve | None
    """Share of the return that the receiver collects by range, which the firmware divides out of reflectivity."""
    direction: Reals
    """Reported direction of each shot in the sensor frame, in rows of four."""
    origin: Reals
    """Where each shot leaves in the sensor frame [m], in rows of four."""


@dataclass
class ReadReturn:
    """One return of each beam, as kernel variables. Values that are read together are one vector."""

    valid: Masks
    measured: Reals
    """Range, power, reflectivity and intensity."""
    place: Reals
    """Coordinates, and the bits of the part's number."""
    source: Ints
    """Number of the actor, and of the point's origin."""


@kernel_tree()
@dataclass
class Row:
    """One return of every beam in device memory: as reported, the numbers of a beam together."""

    valid: Masks = None
    measured: Reals = None
    place: Reals = None
    source: Ints = None

    @classmethod
    def of(cls, engine: Engine, found: ReadReturn) -> Row:
        """Evaluate what was reported of all beams, in order."""
        dr = engine.dr
        row = cls(found.valid, *(dr.ravel(values) for values in (found.measured, found.place, found.source)))
        dr.eval(*vars(row).values())
        return row

    def overwrite(self, engine: Engine, beam: Ints, better: ReadReturn) -> None:
        """Put what was reported of some beams, by number, in place of what is there."""
        dr = engine.dr
        for name, values in vars(better).items():
            dr.scatter(getattr(self, name), values, beam)
        dr.eval(*vars(self).values())


def read_out(
    engine: Engine,
    readout: Readout,
    blocks: list[Block],
    found: list[Return],
    beams: Beams,
    beam: Ints,
    keys: Keys,
    displaced: Callable[[Reals, Ints, Keys], Reals] | None = None,
    profiled: ProfiledParts | None = None,
    air: Air | None = None,
) -> list[ReadReturn]:
    """Noise, steps, scales and coordinates of each return.

    `displaced` is the range of a surface's return as the weather lets it appear, of range, shot and key. `profiled` are
    parts whose noise comes from profiles, and `air` is what dims their signal, None in clear air.
    """
    no_actor = NO_ACTOR if profiled is None else ACTOR_BITS
    mi, dr = engine.mi, engine.dr
    shot, key = beams.draws(engine, beam, keys)
    fours = (dr.gather(mi.Vector4f, values, shot) for values in (readout.direction, readout.origin))
    direction, origin = (mi.Vector3f(four.x, four.y, four.z) for four in fours)
    gain = beams.aim(engine, beam).gain
    rows = []
    for number, item in enumerate(found):
        valid = item.range < NO_ECHO
        power = item.power
        if readout.saturation is not None:
            power = namespace(power).minimum(power, readout.saturation)
        luck: tuple[Reals, Reals] = (0.0, 0.0)
        if readout.noisy:
            a, b, _, _ = words(key, shot, _NOISE_DRAW + number)
            luck = to_normal(a, b)
        made = valid & (item.slot != FALSE_ALARM)
        echo = echo_of(engine, blocks, item.slot, made)
        in_air = made & ((echo.actor & SCATTERER_BIT) != 0)
        true_range = item.range
        if displaced is not None:
            true_range = dr.select(made & ~in_air, displaced(true_range, shot, key), true_range)
        range_m = _measured_range(engine, readout, true_range, power, shot, luck[0], valid)
        overlap = 1.0 if readout.overlap is None else readout.overlap(dr.select(valid, item.range, 0.0), valid)
        if gain is not None:
            # Makers calibrate strengths of channels out of reflectivity, as they do overlap.
            overlap = overlap * gain
        equal = reflectivity(
            power, item.range, threshold=readout.threshold, extinction_per_m=readout.extinction, overlap=overlap
        )
        seen = power
        if readout.noisy and readout.intensity_sigma is not None:
            factor = namespace(power).maximum(1.0 + readout.intensity_sigma * luck[1], 0.0)
            seen, equal = power * factor, equal * factor
        value = SCALES[readout.intensity_scale](seen, equal, readout.photons)
        value = in_steps(value, readout.intensity_resolution)
        ghost = made & ((echo.actor & GHOST_BIT) != 0)
        if profiled is not None:
            code = (echo.actor & ANGLE_BITS) >> ANGLE_SHIFT
            on_surface = made & ~in_air & ~ghost
            left = None
            if air is not None:
                left = share_left(air, readout.extinction, blocks, beams.aim(engine, beam), item.range, on_surface)
            drawn = profiled.draw(echo.part, code, key, shot, number, on_surface, left)
            valid &= ~(drawn.held & drawn.lost)
            range_m = dr.select(drawn.held, in_steps(true_range + drawn.error, readout.resolution), range_m)
            shown = drawn.intensity
            if profiled.profiles.reference is not None:
                shown = shown * drawn.scale * overlap / (true_range * true_range)
            value = dr.select(drawn.held, in_steps(shown, readout.intensity_resolution), value)
        source = dr.select(made, dr.select(ghost, mi.UInt32(_MULTIPATH), _SURFACE), _NOISE)
        actor = echo.actor & no_actor
        source = dr.select(in_air, actor, source)
        actor = dr.select(made & ~in_air & (actor != no_actor), actor, NOTHING)
        xyz = origin + range_m * direction
        part = dr.reinterpret_array(mi.Float, dr.select(made, echo.part, NOTHING))
        rows.append(
            ReadReturn(
                valid, mi.Vector4f(range_m, seen, equal, value), mi.Vector4f(xyz.x, xyz.y, xyz.z, part),
                mi.Vector2u(actor, source),
            )
        )  # fmt: skip
    return rows


def _measured_range(
    engine: Engine, readout: Readout, true_range: Reals, power: Reals, shot: Ints, luck: Reals, valid: Masks
) -> Reals:
    """Range with noise, channel bias and the sensor's step; `luck` is a standard normal number a beam."""
    mi, dr = engine.mi, engine.dr
    range_m = true_range
    if readout.noisy:
        if readout.sigma_curve is not None:
            sigma = readout.sigma_curve(dr.select(valid, true_range, 0.0), valid)
        else:
            snr = namespace(power).maximum(power, 1e-6) * readout.threshold_to_noise
            sigma = range_sigma(snr, sigma_0=readout.sigma_0, sigma_1=readout.sigma_1)
        range_m = range_m + sigma * luck
        if readout.bias is not None:
            range_m = range_m + dr.gather(mi.Float, readout.bias, shot)
    return in_steps(range_m, readout.resolution)
