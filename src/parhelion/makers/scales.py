"""Intensity scales: conversion of received power and reflectivity to the numbers that a lidar reports, and back.

Each maker lists its scales under the names that data sheets use (`intensity.scale`). This module contains the base
class, the families that several makers share, and the scales of no maker. Formulas accept arrays of NumPy and Dr.Jit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.errors import unknown_name

FULL_SCALE_POWER = 3.0
"""Power [P_min] above which calibrated scales report the reflectivity itself."""
_ECHO_DECADES = np.log(1e5)


class IntensityScale(ABC):
    """Intensity scale of a lidar. Subclasses set the attributes and implement `encode`."""

    bits: int = 0
    """Width of the reported number; 0 for scales without a limit."""
    calibrated: bool = False
    """True for scales of reflectivity that fall to 0 near the detection threshold."""
    typical_reflectance: float | None = None
    """Reflectance to assume for recordings if intensity hardly depends on the signal; None for informative scales."""
    counts_photons: bool = False
    linear_in_power: bool = False
    """True for scales proportional to received power: they fall with range as the signal does."""
    logarithmic: bool = False
    """True for scales on which a factor in power is a constant step."""
    ambient: bool = False
    """True if the sensor also reports ambient light (`near_ir`), including for shots without a return."""
    byte_reflectivity: bool = False
    """True if packets and drivers report reflectivity as one byte in addition to intensity."""

    @abstractmethod
    def encode(self, power: Reals, reflectivity: Reals, photons: Reals) -> Reals:
        """Intensity of a return.

        `power` is in units of the detection threshold, `reflectivity` is 1 for a white diffuser, `photons` is the
        photon count at the threshold.
        """

    def reflectivity(self, value: Reals) -> Reals | None:
        """Reflectivity for an intensity far above the threshold; None if the scale does not determine it.

        Calibrated scales fall to 0 near the threshold; `received` takes this into account.
        """
        return None

    def power(self, value: Reals, photons: Reals) -> Reals | None:
        """Power in units of the threshold for an intensity; None if the scale does not determine it."""
        return None

    def received(self, value: Reals, white: Reals, photons: Reals) -> Reals | None:
        """Power [P_min] of a return with this intensity, the inverse of `encode`; None if the scale does not define it.

        `white` is the power [P_min] that a white diffuser facing the sensor would return from the same range.
        """
        power = self.power(value, photons)
        if power is not None:
            return power
        reflectivity = self.reflectivity(value)
        return None if reflectivity is None else reflectivity * white

    def reflectivity_bytes(self, reflectivity: NDArray[Any]) -> NDArray[np.uint8]:
        """Reflectivity as the byte that packets and drivers report: by default one count per percent, up to 255."""
        value = np.nan_to_num(np.asarray(reflectivity, np.float64), nan=0.0)
        return np.clip(np.rint(100.0 * value), 0, 255).astype(np.uint8)

    def reflectivity_of_bytes(self, counts: NDArray[Any]) -> NDArray[np.float32]:
        """Inverse of `reflectivity_bytes`."""
        return (0.01 * np.asarray(counts, np.float64)).astype(np.float32)


def near_threshold(power: Reals, zero: float = 1.0) -> Reals:
    """Factor on calibrated reflectivity of weak echoes: 0 up to the power `zero` [P_min], 1 from FULL_SCALE_POWER on.

    Eight-bit scales fall to 0 for echoes that are barely detected: a VLP-16 recording has a median intensity of 0
    between 40 and 60 m, where the weakest detectable target has 15 to 30 % by the range law. The line is assumed.
    """
    xp = namespace(power)
    return xp.clip((power - zero) * (1.0 / (FULL_SCALE_POWER - zero)), 0.0, 1.0)


class CalibratedByte(IntensityScale):
    """Base of one-byte scales of reflectivity that fall to 0 near the threshold. Subclasses implement `level`."""

    bits, calibrated = 8, True
    white: float = 100.0
    """Counts of a perfect diffuser."""
    zero_power: float = 1.0
    """Power [P_min] up to which intensity is 0."""

    @abstractmethod
    def level(self, reflectivity: Reals) -> Reals:
        """Counts of a reflectivity far above the threshold."""

    def encode(self, power: Reals, reflectivity: Reals, photons: Reals) -> Reals:
        """See `IntensityScale.encode`."""
        return near_threshold(power, self.zero_power) * self.level(reflectivity)

    def received(self, value: Reals, white: Reals, photons: Reals) -> Reals:
        """See `IntensityScale.received`."""
        xp, zero = namespace(value, white), self.zero_power
        full = cast("Reals", self.reflectivity(value)) * white
        # Below FULL_SCALE_POWER the level is multiplied by (P - zero) / (FULL_SCALE_POWER - zero): bisection in P.
        low, high = zero + 0.0 * full, FULL_SCALE_POWER + 0.0 * full
        for _ in range(12):
            middle = 0.5 * (low + high)
            below = near_threshold(middle, zero) * self.level(middle / white) < value
            low, high = xp.where(below, middle, low), xp.where(below, high, middle)
        return xp.where(full >= FULL_SCALE_POWER, full, 0.5 * (low + high))


class DiffuseThenRetro(CalibratedByte):
    """One byte: linear up to `white` for a perfect diffuser, then logarithmic up to 255 for retro-reflectors.

    Manuals give no curve above `white`; three decades of gain are assumed.
    """

    def __init__(self, white: float, zero_power: float = 1.0) -> None:
        self.white, self.zero_power = white, zero_power

    def level(self, reflectivity: Reals) -> Reals:
        """See `CalibratedByte.level`."""
        xp, white = namespace(reflectivity), self.white
        above = white + (255.0 - white) * xp.log(xp.maximum(reflectivity, 1.0)) / np.log(1000.0)
        return xp.where(reflectivity <= 1.0, white * reflectivity, xp.minimum(above, 255.0))

    def reflectivity(self, value: Reals) -> Reals:
        """See `IntensityScale.reflectivity`."""
        xp, white = namespace(value), self.white
        retro = xp.exp((value - white) * (np.log(1000.0) / (255.0 - white)))
        return xp.where(value <= white, value / white, retro)


class RootByte(CalibratedByte):
    """One byte: `white` times the square root of reflectivity, up to 255, so that dark surfaces keep some contrast.

    In recordings of two Pandar64, roads read 43 to 80 counts, and 5, 50 and 95 % of all points 26, 65 and 157: too much
    for one count per percent, and a narrower spread than that of reflectivities. No maker publishes the curve.
    """

    def __init__(self, white: float) -> None:
        self.white = white

    def level(self, reflectivity: Reals) -> Reals:
        """See `CalibratedByte.level`."""
        xp = namespace(reflectivity)
        return xp.minimum(self.white * xp.sqrt(xp.maximum(reflectivity, 0.0)), 255.0)

    def reflectivity(self, value: Reals) -> Reals:
        """See `IntensityScale.reflectivity`."""
        share = value * (1.0 / self.white)
        return share * share


class CompressedByte(CalibratedByte):
    """One byte that hardly depends on reflectivity: `white` times the reflectivity to a small power, up to 255.

    The HDL-64E sets laser power and gain by the last echo. In recordings of an S2, road and walls read 0.27 and 0.30 of
    full scale from 3 to 22 m, although their range-corrected reflectivities differ by a factor of ten. Intensity does
    not determine the signal then: recordings are taken to have a typical reflectance, unless they fade.
    """

    typical_reflectance = 0.2

    def __init__(self, white: float, exponent: float) -> None:
        self.white, self.exponent = white, exponent

    def level(self, reflectivity: Reals) -> Reals:
        """See `CalibratedByte.level`."""
        xp = namespace(reflectivity)
        return xp.minimum(self.white * xp.exp(self.exponent * xp.log(xp.maximum(reflectivity, 1e-6))), 255.0)

    def reflectivity(self, value: Reals) -> Reals:
        """See `IntensityScale.reflectivity`."""
        xp = namespace(value)
        return xp.exp(xp.log(xp.maximum(value, 0.1) * (1.0 / self.white)) * (1.0 / self.exponent))

    def received(self, value: Reals, white: Reals, photons: Reals) -> Reals:
        """See `IntensityScale.received`."""
        xp = namespace(value, white)
        typical = self.typical_reflectance * white
        share = value * (1.0 / (self.white * self.typical_reflectance**self.exponent))
        faded = self.zero_power + (FULL_SCALE_POWER - self.zero_power) * xp.minimum(share, 1.0)
        # Close by, low values are noise: echoes of typical targets are far above the threshold.
        is_weak = (share < 0.8) & (typical < 4.0 * FULL_SCALE_POWER)
        return xp.where(is_weak, faded, xp.maximum(typical, FULL_SCALE_POWER))


class Percent(CalibratedByte):
    """One byte: one count per percent of reflectance, up to 255."""

    def level(self, reflectivity: Reals) -> Reals:
        """See `CalibratedByte.level`."""
        return namespace(reflectivity).minimum(100.0 * reflectivity, 255.0)

    def reflectivity(self, value: Reals) -> Reals:
        """See `IntensityScale.reflectivity`."""
        return 0.01 * value


class EchoAmplitude(IntensityScale):
    """One byte, logarithmic in received power: 0 at the threshold, 255 at 100 000 times it (2D scanners)."""

    bits, logarithmic = 8, True

    def encode(self, power: Reals, reflectivity: Reals, photons: Reals) -> Reals:
        """See `IntensityScale.encode`."""
        xp = namespace(power)
        return xp.clip(255.0 * xp.log(xp.maximum(power, 1.0)) / _ECHO_DECADES, 0.0, 255.0)

    def power(self, value: Reals, photons: Reals) -> Reals:
        """See `IntensityScale.power`."""
        return namespace(value).exp(value * (_ECHO_DECADES / 255.0))


class Reflectance(IntensityScale):
    """The reflectivity itself."""

    def encode(self, power: Reals, reflectivity: Reals, photons: Reals) -> Reals:
        """See `IntensityScale.encode`."""
        return reflectivity

    def reflectivity(self, value: Reals) -> Reals:
        """See `IntensityScale.reflectivity`."""
        return value


class Power(IntensityScale):
    """Received power in units of the threshold."""

    linear_in_power = True

    def encode(self, power: Reals, reflectivity: Reals, photons: Reals) -> Reals:
        """See `IntensityScale.encode`."""
        return power

    def power(self, value: Reals, photons: Reals) -> Reals:
        """See `IntensityScale.power`."""
        return value


class NoIntensity(IntensityScale):
    """0 for every return."""

    def encode(self, power: Reals, reflectivity: Reals, photons: Reals) -> Reals:
        """See `IntensityScale.encode`."""
        return 0.0 * power


_OF_NO_MAKER: Mapping[str, IntensityScale] = {
    "echo": EchoAmplitude(),
    "reflectance": Reflectance(),
    "power": Power(),
    "none": NoIntensity(),
}


def scales() -> dict[str, IntensityScale]:
    """All intensity scales by name: those of every maker, and those of none."""
    from parhelion.makers import makers

    return {name: scale for maker in makers().values() for name, scale in maker.scales.items()} | dict(_OF_NO_MAKER)


def scale_called(name: str) -> IntensityScale:
    """The intensity scale that data sheets call `name`."""
    known = scales()
    if name not in known:
        raise unknown_name("intensity scale", name, known)
    return known[name]
