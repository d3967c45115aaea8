"""Readout: noise, quantisation, intensity scale and coordinates of each return, in the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from parhelion.core.arrays import UNSET, Bool, Float, Int, Ints, IntVector, Keys, Masks, Reals, Vectors4, namespace
from parhelion.core.clouds import ORIGINS
from parhelion.core.random import to_normal, to_unit, words
from parhelion.makers.scales import scale_called
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.replay import Rows
from parhelion.rays.scene import NOTHING
from parhelion.sensors.optics.beams import Beams, RangeCurve
from parhelion.sensors.optics.lidar.detection import FALSE_ALARM, Return, echo_of
from parhelion.sensors.optics.lidar.draws import AMBIENT_DRAW, DROPOUT_DRAW, READOUT_DRAW
from parhelion.sensors.optics.lidar.echoes import GHOST_BIT, NO_ACTOR, NO_ECHO, SCATTERER_BIT, Block, Echoes, EchoRows
from parhelion.sensors.optics.lidar.fmcw import speckle
from parhelion.sensors.optics.lidar.link_budget import in_steps, range_sigma, reflectivity
from parhelion.sensors.optics.lidar.profiles import ACTOR_BITS, ANGLE_BITS, ANGLE_SHIFT, share_left
from parhelion.sensors.optics.scene import PartNames

if TYPE_CHECKING:
    from parhelion.sensors.optics.lidar.reception import Reception

_SURFACE, _MULTIPATH, _NOISE = (ORIGINS.index(name) for name in ("surface", "multipath", "noise"))


@kernel_tree()
@dataclass
class Readout:
    """Errors and scales that convert a return into reported values, opaque to the kernel compiler."""

    noisy: bool
    sigma_0: Reals
    sigma_1: Reals
    sigma_curve: RangeCurve | None
    threshold_to_noise: Reals
    bias: Float
    """Range error of each shot's channel [m], one value per shot, or None."""
    resolution: Reals
    """Step of the reported range [m], or None."""
    saturation: Reals
    """Power at which the receiver saturates [P_min], or None."""
    intensity_sigma: Reals
    """Relative deviation of intensity, or None."""
    intensity_factor: Float
    """Factor on the intensity of each shot's channel, one value per shot, or None."""
    dropout: Reals
    """Probability that a return is lost regardless of its signal, or None."""
    intensity_scale: str
    intensity_resolution: Reals
    photons: Reals
    """Photons at the detection threshold, for scales in photons."""
    threshold: Reals
    extinction: Reals
    overlap: RangeCurve | None
    """Share of the return that the receiver collects, by range; the firmware divides reflectivity by it."""
    window: Float
    """Two-way transmittance of the window for each shot, or None; the firmware does not know of it."""
    coherent: bool
    """True for FMCW lidars, whose range noise falls with the root of the power."""
    looks: int
    """Number of averaged speckle patterns; 0 without speckle."""
    direction: Float
    """Reported direction of each shot in the sensor frame, in rows of four."""
    origin: Float
    """Beam exit of each shot in the sensor frame [m], in rows of four."""


@dataclass
class ReadReturn:
    """One return of each beam, as kernel variables. Values that are read together form one vector."""

    valid: Bool
    measured: Vectors4
    """Range, power, reflectivity and intensity."""
    place: Vectors4
    """Coordinates, and the bits of the part's number."""
    source: IntVector
    """Actor number and origin code."""


@kernel_tree()
@dataclass
class ReturnRow:
    """One reported return of every beam in device memory."""

    valid: Bool = UNSET
    measured: Float = UNSET
    place: Float = UNSET
    source: Int = UNSET

    @classmethod
    def of(cls, engine: Engine, found: ReadReturn) -> ReturnRow:
        """Evaluate the returns of all beams, in order."""
        dr = engine.dr
        row = cls(found.valid, *(dr.ravel(values) for values in (found.measured, found.place, found.source)))
        dr.eval(*vars(row).values())
        return row

    def overwrite(self, engine: Engine, beam: Int, better: ReadReturn) -> None:
        """Replace the returns of the beams with these numbers."""
        dr = engine.dr
        for name, values in vars(better).items():
            dr.scatter(getattr(self, name), values, beam)
        dr.eval(*vars(self).values())


def read_out(reception: Reception, blocks: list[Block], found: list[Return], beam: Int) -> list[ReadReturn]:
    """Apply noise, quantisation, intensity scale and coordinates to each return."""
    engine, readout, beams, keys = running_engine(), reception.readout, reception.beams, reception.keys
    profiled, air, displaced = reception.profiled, reception.air, reception.displaced
    no_actor = NO_ACTOR if profiled is None else ACTOR_BITS
    mi, dr = engine.mi, engine.dr
    shot, key = beams.draws(engine, beam, keys)
    fours = (dr.gather(mi.Vector4f, values, shot) for values in (readout.direction, readout.origin))
    direction, origin = (mi.Vector3f(four.x, four.y, four.z) for four in fours)
    gain = beams.aim(engine, beam).gain
    scale = scale_called(readout.intensity_scale)
    rows = []
    for number, item in enumerate(found):
        valid = item.range < NO_ECHO
        if readout.dropout is not None:
            valid &= to_unit(words(key, shot, DROPOUT_DRAW + number)[0]) >= readout.dropout
        power = item.power
        if readout.saturation is not None:
            power = namespace(power).minimum(power, readout.saturation)
        deviations: tuple[Reals, Reals] = (0.0, 0.0)
        if readout.noisy:
            a, b, _, _ = words(key, shot, READOUT_DRAW + number)
            deviations = to_normal(a, b)
        made = valid & (item.slot != FALSE_ALARM)
        echo = echo_of(engine, blocks, item.slot, made)
        in_air = made & ((echo.actor & SCATTERER_BIT) != 0)
        true_range = item.range
        if displaced is not None:
            true_range = dr.select(made & ~in_air, displaced(true_range, shot, key), true_range)
        range_m = _measured_range(engine, readout, true_range, power, shot, deviations[0], valid)
        overlap = 1.0 if readout.overlap is None else readout.overlap(dr.select(valid, item.range, 0.0), valid)
        if gain is not None:
            # Makers calibrate channel gains and overlap out of reflectivity.
            overlap = overlap * gain
        if readout.looks:
            # The firmware does not know of speckle.
            overlap = overlap / cast("Float", speckle(key, shot, readout.looks))
        if readout.window is not None:
            overlap = overlap / dr.gather(mi.Float, readout.window, shot)
        equal = reflectivity(
            power, item.range, threshold=readout.threshold, extinction_per_m=readout.extinction, overlap=overlap
        )
        value = scale.encode(power, equal, readout.photons)
        if readout.noisy:
            value = _noisy_intensity(readout, value, shot, deviations[1], scale.bits)
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
                valid,
                mi.Vector4f(range_m, power, equal, value),
                mi.Vector4f(xyz.x, xyz.y, xyz.z, part),
                mi.Vector2u(actor, source),
            )
        )
    return rows


def _noisy_intensity(readout: Readout, value: Reals, shot: Ints, deviation: Reals, bits: int) -> Reals:
    """Intensity with noise from shot to shot and the factor of its channel, within the range of its scale."""
    if readout.intensity_sigma is None and readout.intensity_factor is None:
        return value
    xp, engine = namespace(value), running_engine()
    if readout.intensity_sigma is not None:
        value = value * xp.maximum(1.0 + readout.intensity_sigma * deviation, 0.0)
    if readout.intensity_factor is not None:
        value = value * engine.dr.gather(engine.mi.Float, readout.intensity_factor, shot)
    return xp.minimum(value, float(2**bits - 1)) if bits else value


def _measured_range(
    engine: Engine, readout: Readout, true_range: Reals, power: Reals, shot: Ints, deviation: Reals, valid: Masks
) -> Reals:
    """Range with noise, channel bias and quantisation; `deviation` is one standard normal number per beam."""
    mi, dr = engine.mi, engine.dr
    range_m = true_range
    if readout.noisy:
        if readout.sigma_curve is not None:
            sigma = readout.sigma_curve(dr.select(valid, true_range, 0.0), valid)
        else:
            snr = namespace(power).maximum(power, 1e-6) * readout.threshold_to_noise
            snr = dr.sqrt(snr) if readout.coherent else snr
            sigma = cast("Float", range_sigma(snr, sigma_0=readout.sigma_0, sigma_1=readout.sigma_1))
        range_m = range_m + sigma * deviation
        if readout.bias is not None:
            range_m = range_m + dr.gather(mi.Float, readout.bias, shot)
    return in_steps(range_m, readout.resolution)


# ---- ambient --------------------------------------------------------------------------------------------------------
# Photon-counting sensors report ambient light and noise for every shot, with or without a return. Ouster's pixels
# without a return are not empty: their near infrared is that of the surface in the beam, and their signal is the
# largest noise count that the receiver found. In recordings this is 5 or 6 photons, about as many as the weakest
# returns have.


SKY_REFLECTANCE = 0.35
"""Reflectance of a surface that is as bright as the sky. In recordings of an OS0 and an OS1, pixels without a return,
most of them sky, have the same median as the others (607 and 586, 351 and 376 counts)."""
NOISE_COUNT = 0.98
NOISE_SPREAD = 0.3
"""Mean and standard deviation of the largest noise count, as shares of the threshold: 5.4 and 1.6 of 5.5 photons. The
recordings have medians of 5 and 6 photons, and 3 to 12 photons between the 5th and 95th percentiles."""


@kernel_tree()
@dataclass
class Ambient:
    """Ambient counts of every beam, on the device."""

    near_ir: Float = UNSET
    """Ambient light [counts]."""
    noise: Float = UNSET
    """Largest noise count [photons]."""

    def in_order(self, engine: Engine, beam: Ints) -> tuple[Reals, Reals]:
        """Near infrared and noise of the beams with these numbers."""
        return engine.frozen(_in_order)(self, beam)


def ambient_light(
    engine: Engine,
    names: PartNames,
    echoes: Echoes,
    beams: Beams,
    keys: Keys | None,
    sun_klx: Reals,
    photons: Reals,
) -> Ambient:
    """Ambient counts of all beams of a launch; `keys` is None for the mean without random noise."""
    rows, each = (echoes.wide, echoes.slots) if echoes.probes is None else (echoes.probes.echoes, 4)
    everyone = Rows.cached(engine, beams.count)
    return engine.frozen(_ambient)(names, rows, engine.whole(each), beams, everyone, keys, sun_klx, photons)


def near_infrared(reflectance: Reals, *, sun_klx: Reals) -> Reals:
    """Ambient light at the lidar's wavelength [counts, 16 bit].

    Lambertian surface in uniform light of `sun_klx`: ten counts per klx for a perfect white surface. Shadows and the
    sun's direction are not modelled. The gain is assumed; Ouster does not publish it.
    """
    return namespace(reflectance).minimum(10.0 * sun_klx * reflectance, 65535.0)


def _ambient(
    names: PartNames,
    rows: EchoRows,
    each: Ints,
    beams: Beams,
    everyone: Rows,
    keys: Keys | None,
    sun_klx: Reals,
    photons: Reals,
) -> Ambient:
    engine = running_engine()
    dr, mi, beam = engine.dr, engine.mi, everyone.index
    # The first sub-ray represents the beam.
    part = rows.at(beam * each).part
    reflectance = dr.select(part == NOTHING, SKY_REFLECTANCE, names.reflectance(part))
    deviation = mi.Float(0.0)
    if keys is not None:
        shot, key = beams.draws(engine, beam, keys)
        a, b, _, _ = words(key, shot, AMBIENT_DRAW)
        deviation = to_normal(a, b)[0]
    noise = namespace(deviation).maximum(photons * (NOISE_COUNT + NOISE_SPREAD * deviation), 0.0)
    found = Ambient(cast("Float", near_infrared(reflectance, sun_klx=sun_klx)), cast("Float", noise))
    dr.eval(found.near_ir, found.noise)
    return found


def _in_order(ambient: Ambient, beam: Ints) -> tuple[Reals, Reals]:
    dr, mi = running_engine().dr, running_engine().mi
    values = dr.gather(mi.Float, ambient.near_ir, beam), dr.gather(mi.Float, ambient.noise, beam)
    dr.eval(*values)
    return values
