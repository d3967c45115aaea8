"""The shape of a lidar's pulse, which echoes of surfaces and of fog have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from parhelion.core.arrays import namespace


def pulse_shape(offset_m: Any, *, length_m: Any) -> Any:
    """The pulse over range, peak 1 at 0: cos^2(pi x / L) for |x| < L / 2, L = c tau_H.

    It is the emitted sin^2(pi t / 2 tau_H) on [0, 2 tau_H] with x = c t / 2 measured from its peak; the half-power
    width is tau_H in time and L / 2 in range. Arrays of either kind.
    """
    xp = namespace(offset_m)
    wave = xp.cos(np.pi * offset_m / length_m)
    return xp.where(xp.abs(offset_m) < 0.5 * length_m, wave * wave, 0.0 * wave)
