"""Ranges from the phase of modulated light, for time-of-flight cameras and amplitude-modulated (AMCW) lidars.

Light modulated at f returns from the range R with the phase 4 pi f R / c, so ranges repeat after c / 2f. All light of a
pixel or beam adds up to one phasor

    Z = sum over paths of P_k exp(4 pi i f R_k / c)

whose angle is the measured phase: several surfaces in one beam, or light over other surfaces (multipath), give
one range between or beyond them. A second, coarse frequency selects the period of the fine one, and repeats later.
Functions take NumPy or Dr.Jit arrays.

Source: M. Hansard, S. Lee, O. Choi, R. Horaud, "Time-of-flight cameras", 2012, sections 1.2 and 1.3.
"""

from __future__ import annotations

import math
from typing import Any

from parhelion.core.arrays import Reals, namespace
from parhelion.core.constants import SPEED_OF_LIGHT_M_S


def ambiguity_m(modulation_hz: float) -> float:
    """Range after which the phase repeats [m]: c / 2f."""
    return SPEED_OF_LIGHT_M_S / (2.0 * modulation_hz)


def phase_sigma_m(snr: Reals, *, modulation_hz: float) -> Reals:
    """Standard deviation of range [m]: c / (4 sqrt(2) pi f SNR), by the amplitude of four-phase sampling."""
    return ambiguity_m(modulation_hz) / (2.0 * math.sqrt(2.0) * math.pi) / snr


def wrapped(range_m: Reals, ambiguity: Any) -> Reals:
    """Range within the first period."""
    xp = namespace(range_m, ambiguity)
    return range_m - ambiguity * xp.floor(range_m / ambiguity)


def phase_range(real: Reals, imaginary: Reals, *, ambiguity: Any) -> Reals:
    """Range [m] of a phasor, from 0 to the ambiguity; the angle is accurate to 1e-8.

    Three half-angle steps reduce the tangent to below 0.2, where a series converges. Dr.Jit's own function of two
    arguments aborts with some versions of LLVM.
    """
    xp = namespace(real, imaginary)
    size = xp.sqrt(real * real + imaginary * imaginary) + 1e-30
    half = imaginary / (size + xp.abs(real))
    quarter = half / (1.0 + xp.sqrt(1.0 + half * half))
    eighth = quarter / (1.0 + xp.sqrt(1.0 + quarter * quarter))
    square = eighth * eighth
    series = 1.0 + square * (-1 / 3 + square * (1 / 5 + square * (-1 / 7 + square * (1 / 9))))
    angle = 8.0 * eighth * series
    turned = xp.where(imaginary < 0.0, -math.pi - angle, math.pi - angle)
    return wrapped(xp.where(real < 0.0, turned, angle) * (ambiguity / (2.0 * math.pi)), ambiguity)


def unfolded(fine_m: Reals, coarse_m: Reals, *, fine_ambiguity: Any, coarse_ambiguity: Any) -> Reals:
    """Range [m] of the fine phase in the period that is nearest to the coarse range, from 0 to the coarse ambiguity."""
    xp = namespace(fine_m, coarse_m)
    period = xp.floor((coarse_m - fine_m) / fine_ambiguity + 0.5)
    return wrapped(fine_m + period * fine_ambiguity, coarse_ambiguity)
