"""Directions on the sphere, and unit vectors."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from parhelion.core.pose import Floats

GOLDEN_ANGLE_RAD = np.pi * (3.0 - np.sqrt(5.0))
"""Angle between successive points of a golden spiral [rad]."""


@lru_cache(maxsize=8)
def fibonacci_sphere(count: int) -> Floats:
    """Unit vectors spread evenly over the sphere (golden spiral), from the zenith down; read-only, shape (count, 3).

    The first half of an even count covers the upper hemisphere.
    """
    k = np.arange(count) + 0.5
    z = 1.0 - 2.0 * k / count
    angle = np.pi * (1.0 + np.sqrt(5.0)) * k
    r = np.sqrt(1.0 - z * z)
    found = np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)
    found.setflags(write=False)
    return found


def unit(vector: Floats) -> tuple[Floats, Floats]:
    """Unit vectors along vectors (n, 3), zero for zero vectors, and the lengths (n,)."""
    length = np.sqrt(np.einsum("ij,ij->i", vector, vector))
    return vector / np.where(length > 0, length, 1.0)[:, None], length
