"""What a return's power becomes: reflectivity, and each vendor's own intensity scale. Arrays of either kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from parhelion.core.arrays import Reals, namespace
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.link_budget import LEAST_OVERLAP

FULL_SCALE_POWER = 3.0
"""Power [P_min] from which on makers' calibrated scales read the reflectivity itself."""


def reflectivity(
    power: Reals, range_m: Reals, *, threshold: Reals, extinction_per_m: Reals = 0.0, overlap: Reals = 1.0
) -> Reals:
    """Range-corrected reflectance: that of a Lambertian target, facing the sensor, which returns this power.

    `power` in units of P_min, `threshold` P_min / C [1/(m^2 sr)], `extinction_per_m` one way, `overlap` the share that
    the receiver collects at this range: makers calibrate it out. 1 is a perfect white diffuser; retro-reflectors exceed
    it by far.
    """
    xp = namespace(power, range_m)
    clear = np.pi * power * threshold * range_m * range_m * xp.exp(2.0 * extinction_per_m * range_m)
    return clear / xp.maximum(overlap, LEAST_OVERLAP)


def _near_threshold(power: Reals) -> Reals:
    """Factor on calibrated reflectivity of weak echoes: 0 at the threshold, 1 from FULL_SCALE_POWER times it on.

    Makers' eight-bit scales fall to 0 for echoes that are barely seen: a VLP-16 recording has a median intensity of 0
    between 40 and 60 m, where the weakest target that it can see has 15 to 30 % by the range law. The line is assumed.
    """
    xp = namespace(power)
    return xp.clip((power - 1.0) * (1.0 / (FULL_SCALE_POWER - 1.0)), 0.0, 1.0)


def velodyne(power: Reals, reflectivity: Reals, photons: Reals = None) -> Reals:
    """Velodyne's calibrated reflectivity: 0-100 for diffuse targets of 0-100 %, 101-255 for retro-reflectors.

    VLP-16 user manual 63-9243 section 6.1: 100 is a diffuse reflector of 100 %, 255 an ideal retro-reflector. The
    manual gives no curve between; a logarithmic one over three decades of gain is assumed here.
    """
    return _near_threshold(power) * _diffuse_then_retro(reflectivity, 100.0)


def velodyne_vls(power: Reals, reflectivity: Reals, photons: Reals = None) -> Reals:
    """The VLS-128's scale: 0-110 for diffuse targets of 0-100 %, 111-255 for retro-reflectors (its manual)."""
    return _near_threshold(power) * _diffuse_then_retro(reflectivity, 110.0)


def _diffuse_then_retro(reflectivity: Reals, white: float) -> Reals:
    """Linear up to `white` for a perfect diffuser, then logarithmic over three decades of gain up to 255."""
    xp = namespace(reflectivity)
    above = white + (255.0 - white) * xp.log(xp.maximum(reflectivity, 1.0)) / np.log(1000.0)
    return xp.where(reflectivity <= 1.0, white * reflectivity, xp.minimum(above, 255.0))


USUAL_PHOTONS = 6.0
"""Photons at the threshold of a sensor that counts them, where its data sheet does not say."""


def threshold_photons(config: LidarConfig) -> float:
    """Photons at the detection threshold, for scales that count them."""
    return config.receiver.threshold_photons or USUAL_PHOTONS


def ouster(power: Reals, reflectivity: Reals, photons: Reals = USUAL_PHOTONS) -> Reals:
    """Ouster's signal channel: photons counted, not range-corrected, 16 bit; `photons` are those at the threshold."""
    return namespace(power).minimum(photons * power, 65535.0)


def livox(power: Reals, reflectivity: Reals, photons: Reals = None) -> Reals:
    """Livox: 0-150 for diffuse targets of 0-100 %, 151-255 for total reflection (user manuals)."""
    return _near_threshold(power) * _diffuse_then_retro(reflectivity, 150.0)


def hesai(power: Reals, reflectivity: Reals, photons: Reals = None) -> Reals:
    """Hesai: one count a percent of reflectance, up to 255 (manuals: 0 to 255 %)."""
    return _near_threshold(power) * namespace(reflectivity).minimum(100.0 * reflectivity, 255.0)


def robosense(power: Reals, reflectivity: Reals, photons: Reals = None) -> Reals:
    """RoboSense: 0-100 for diffuse targets, 101-255 for retro-reflectors, like Velodyne's scale."""
    return velodyne(power, reflectivity)


def echo(power: Reals, reflectivity: Reals, photons: Reals = None) -> Reals:
    """2D scanners: echo amplitude, logarithmic in received power, 0 at the threshold and 255 at 100 000 times it."""
    xp = namespace(power)
    return xp.clip(255.0 * xp.log(xp.maximum(power, 1.0)) / np.log(1e5), 0.0, 255.0)


def near_infrared(reflectance: Reals, *, sun_klx: Reals) -> Reals:
    """Ouster's near-infrared channel: ambient light at the lidar's wavelength, in counts.

    A Lambertian surface under even light of `sun_klx`, ten counts a klx for a perfect white one, 16 bit. The light
    comes from everywhere: neither shadows nor the sun's direction are modelled. The gain is assumed; Ouster gives none.
    """
    return namespace(reflectance).minimum(10.0 * sun_klx * reflectance, 65535.0)


_WHITE = {"velodyne": 100.0, "robosense": 100.0, "velodyne-vls": 110.0, "livox": 150.0}


BYTE_SCALES = (*_WHITE, "hesai", "echo")
"""Scales of one byte."""


def in_steps(value: Reals, step: Reals) -> Reals:
    """A value as a sensor writes it down: in whole steps; as it is where the step is None. Arrays of either kind."""
    return value if step is None else namespace(value).round(value / step) * step


def reflectivity_of(scale: str, value: Reals) -> Reals:
    """The reflectivity that a maker's intensity stands for, where its scale is one of reflectivity; else None.

    Of echoes near the threshold, whose intensity falls to 0, it gives too little: `recorded.py` bounds it by what the
    sensor can see.
    """
    xp = namespace(value)
    if scale in _WHITE:
        white = _WHITE[scale]
        retro = xp.exp((value - white) * (np.log(1000.0) / (255.0 - white)))
        return xp.where(value <= white, value / white, retro)
    if scale == "hesai":
        return 0.01 * value
    return value if scale == "reflectance" else None


def calibrated(scale: str) -> bool:
    """Whether a maker's scale is one of calibrated reflectivity, which falls to 0 near the threshold."""
    return scale in _WHITE or scale == "hesai"


def power_of(scale: str, value: Reals, photons_at_threshold: float) -> Reals:
    """The power in units of P_min that a maker's intensity stands for, where its scale is one of power; else None."""
    if scale == "ouster":
        return value / photons_at_threshold
    if scale == "echo":
        return namespace(value).exp(value * (np.log(1e5) / 255.0))
    return value if scale == "power" else None


SCALES: Mapping[str, Callable[[Reals, Reals, Reals], Reals]] = {
    "velodyne": velodyne,
    "velodyne-vls": velodyne_vls,
    "ouster": ouster,
    "livox": livox,
    "hesai": hesai,
    "robosense": robosense,
    "echo": echo,
    "reflectance": lambda power, reflectivity, photons: reflectivity,
    "power": lambda power, reflectivity, photons: power,
    "none": lambda power, reflectivity, photons: 0.0 * power,
}
"""Makers' scales by the name a preset gives: of power [P_min], reflectivity, and photons at the threshold."""
