"""Ouster's intensity: a 16-bit photon count, and an 8-bit reflectivity in packets and driver clouds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.makers.scales import IntensityScale

_DOUBLING = 16.0  # counts of reflectivity in which the reflectance doubles, above 100; assumed, Ouster gives no curve


def reflectivity_counts(reflectivity: NDArray[Any]) -> NDArray[np.uint8]:
    """Ouster's 8-bit reflectivity: 1 % per count up to 100, logarithmic for retro-reflectors up to 255.

    Above 100, a doubling every 16 counts is assumed, so that 255 is 825 times a white diffuser.
    """
    value = np.nan_to_num(np.asarray(reflectivity, np.float64), nan=0.0)
    bright = 100.0 + _DOUBLING * np.log2(np.maximum(value, 1.0))
    return np.clip(np.rint(np.where(value <= 1.0, 100.0 * value, bright)), 0, 255).astype(np.uint8)


def reflectivity_of_counts(counts: NDArray[Any]) -> NDArray[np.float32]:
    """Reflectance for Ouster's 8-bit reflectivity."""
    value = np.asarray(counts, np.float64)
    return np.where(value <= 100.0, 0.01 * value, 2.0 ** ((value - 100.0) / _DOUBLING)).astype(np.float32)


class PhotonCount(IntensityScale):
    """Ouster's signal channel: photons counted, not corrected for range, 16 bit."""

    bits, counts_photons, linear_in_power, ambient, byte_reflectivity = 16, True, True, True, True

    def encode(self, power: Reals, reflectivity: Reals, photons: Reals) -> Reals:
        """See `IntensityScale.encode`."""
        return namespace(power).minimum(photons * power, 65535.0)

    def power(self, value: Reals, photons: Reals) -> Reals:
        """See `IntensityScale.power`."""
        return value / photons

    def reflectivity_bytes(self, reflectivity: NDArray[Any]) -> NDArray[np.uint8]:
        """See `reflectivity_counts`."""
        return reflectivity_counts(reflectivity)

    def reflectivity_of_bytes(self, counts: NDArray[Any]) -> NDArray[np.float32]:
        """See `reflectivity_of_counts`."""
        return reflectivity_of_counts(counts)
