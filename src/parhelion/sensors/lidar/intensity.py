"""What a return's power becomes: reflectivity, and each vendor's own intensity scale. Arrays of either kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from parhelion.core.arrays import namespace


def reflectivity(power: Any, range_m: Any, *, threshold: Any, extinction_per_m: Any = 0.0) -> Any:
    """Range-corrected reflectance: that of a Lambertian target, facing the sensor, which returns this power.

    `power` in units of P_min, `threshold` P_min / C [1/(m^2 sr)], `extinction_per_m` one way. 1 is a perfect white
    diffuser; retro-reflectors exceed it by far.
    """
    xp = namespace(power, range_m)
    return np.pi * power * threshold * range_m * range_m * xp.exp(2.0 * extinction_per_m * range_m)


def velodyne(power: Any, reflectivity: Any) -> Any:
    """Velodyne's calibrated reflectivity: 0-100 for diffuse targets of 0-100 %, 101-255 for retro-reflectors.

    VLP-16 user manual 63-9243 section 6.1: 100 is a diffuse reflector of 100 %, 255 an ideal retro-reflector. The
    manual gives no curve between; a logarithmic one over three decades of gain is assumed here.
    """
    xp = namespace(reflectivity)
    above = 100.0 + 155.0 * xp.log(xp.maximum(reflectivity, 1.0)) / np.log(1000.0)
    return xp.where(reflectivity <= 1.0, 100.0 * reflectivity, xp.minimum(above, 255.0))


def ouster(power: Any, reflectivity: Any) -> Any:
    """Ouster's signal channel: photons counted, not range-corrected, 16 bit.

    The threshold is taken as 12 photons, the lowest SNR for which the OS1 data sheet states a precision.
    """
    return namespace(power).minimum(12.0 * power, 65535.0)


def eight_bit_reflectance(power: Any, reflectivity: Any) -> Any:
    """Reflectance in percent up to 100 and compressed beyond up to 255, as Livox, Hesai and RoboSense document it.

    Livox user manuals: 0-150 for diffuse targets of 0-100 %, 151-255 for total reflection. Hesai and RoboSense map
    0-255 likewise with other knees; their presets name their own scale.
    """
    xp = namespace(reflectivity)
    above = 150.0 + 105.0 * xp.log(xp.maximum(reflectivity, 1.0)) / np.log(1000.0)
    return xp.where(reflectivity <= 1.0, 150.0 * reflectivity, xp.minimum(above, 255.0))


def hesai(power: Any, reflectivity: Any) -> Any:
    """Hesai: one count a percent of reflectance, up to 255 (manuals: 0 to 255 %)."""
    return namespace(reflectivity).minimum(100.0 * reflectivity, 255.0)


def robosense(power: Any, reflectivity: Any) -> Any:
    """RoboSense: 0-100 for diffuse targets, 101-255 for retro-reflectors, like Velodyne's scale."""
    return velodyne(power, reflectivity)


def echo(power: Any, reflectivity: Any) -> Any:
    """2D scanners: echo amplitude, logarithmic in received power, 0 at the threshold and 255 at 100 000 times it."""
    xp = namespace(power)
    return xp.clip(255.0 * xp.log(xp.maximum(power, 1.0)) / np.log(1e5), 0.0, 255.0)


def near_infrared(reflectance: Any, *, sun_klx: Any) -> Any:
    """Ouster's near-infrared channel: ambient light at the lidar's wavelength, in counts.

    A Lambertian surface under even light of `sun_klx`, ten counts a klx for a perfect white one, 16 bit. The light
    comes from everywhere: neither shadows nor the sun's direction are modelled. The gain is assumed; Ouster gives none.
    """
    return namespace(reflectance).minimum(10.0 * sun_klx * reflectance, 65535.0)


def reflectivity_of(scale: str, value: Any) -> Any:
    """The reflectivity that a vendor's intensity stands for, where its scale is one of reflectivity; else None."""
    xp = namespace(value)
    if scale in ("velodyne", "robosense"):
        return xp.where(value <= 100.0, 0.01 * value, xp.exp((value - 100.0) * (np.log(1000.0) / 155.0)))
    if scale == "livox":
        return xp.where(value <= 150.0, value / 150.0, xp.exp((value - 150.0) * (np.log(1000.0) / 105.0)))
    if scale == "hesai":
        return 0.01 * value
    return value if scale == "reflectance" else None


def power_of(scale: str, value: Any) -> Any:
    """The power in units of P_min that a vendor's intensity stands for, where its scale is one of power; else None."""
    if scale == "ouster":
        return value / 12.0
    if scale == "echo":
        return namespace(value).exp(value * (np.log(1e5) / 255.0))
    return value if scale == "power" else None


SCALES: Mapping[str, Callable[[Any, Any], Any]] = {
    "velodyne": velodyne,
    "ouster": ouster,
    "livox": eight_bit_reflectance,
    "hesai": hesai,
    "robosense": robosense,
    "echo": echo,
    "reflectance": lambda power, reflectivity: reflectivity,
    "power": lambda power, reflectivity: power,
    "none": lambda power, reflectivity: 0.0 * power,
}
"""Vendor scales by the name a preset gives."""
