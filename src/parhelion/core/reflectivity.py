"""Ouster's 8-bit scale of reflectivity, as packets and its drivers' clouds carry it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_DOUBLING = 16.0  # counts of reflectivity in which the reflectance doubles, above 100; assumed, Ouster gives no curve


def reflectivity_counts(reflectivity: NDArray[Any]) -> NDArray[np.uint8]:
    """Ouster's 8-bit reflectivity: 1 % a count up to 100, logarithmic for retro-reflectors up to 255.

    Between, a doubling every 16 counts is assumed, so that 255 is 825 times a white diffuser.
    """
    value = np.nan_to_num(np.asarray(reflectivity, np.float64), nan=0.0)
    bright = 100.0 + _DOUBLING * np.log2(np.maximum(value, 1.0))
    return np.clip(np.rint(np.where(value <= 1.0, 100.0 * value, bright)), 0, 255).astype(np.uint8)


def reflectivity_of_counts(counts: NDArray[Any]) -> NDArray[np.float32]:
    """The reflectance that Ouster's 8-bit reflectivity stands for."""
    value = np.asarray(counts, np.float64)
    return np.where(value <= 100.0, 0.01 * value, 2.0 ** ((value - 100.0) / _DOUBLING)).astype(np.float32)
