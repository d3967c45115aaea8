"""What lenses do to the distance from the axis, and the way back. Pure float64 functions of normalised coordinates.

Pinhole lenses are Brown-Conrady's model as OpenCV writes it, of 5 numbers or, with a denominator, of 8: Brown,
"Decentering distortion of lenses", Photogrammetric Engineering 32 (1966). Fisheyes are the model of Kannala and Brandt,
"A generic camera model and calibration method for conventional, wide-angle, and fish-eye lenses", IEEE TPAMI 28 (2006),
in OpenCV's form of 4 numbers. The way back is Newton's method; where a lens is decentred, it starts from the fixed
point of Heikkilä and Silvén, "A four-step camera calibration procedure with implicit image correction", CVPR 1997.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import polynomial
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.image import LENS_MODELS

Floats = NDArray[np.float64]

WIDEST_TANGENT = 1e4
"""A pinhole lens maps tangents of angles; this one belongs to 89.994 degrees."""
COEFFICIENTS = {"plumb_bob": 5, "rational_polynomial": 8, "equidistant": 4}
"""How many numbers the distortion of a model has at most."""

_NODES = 1025
_MOST_STEPS = 60
_PRECISION = 4e-15


@dataclass(frozen=True)
class RadialMap:
    """Distance from the axis before (r) and after (d) the lens: d = r N(r^2) / D(r^2).

    Of a pinhole lens, r is the tangent of the angle from the axis; of a fisheye, the angle [rad].
    """

    numerator: tuple[float, ...]
    """Of N, lowest power first; the first is 1."""
    denominator: tuple[float, ...]
    fold: float
    """The r from which on the lens folds back, or has a pole; infinite where it never does."""
    end: float
    """The largest r at which the map is used: before the fold, and within the model's own range."""

    def __call__(self, r: Floats) -> Floats:
        """d of r."""
        s = r * r
        return r * _horner(self.numerator, s) / _horner(self.denominator, s)

    def with_slope(self, r: Floats) -> tuple[Floats, Floats]:
        """d of r, and its derivative."""
        s = r * r
        n, d = _horner(self.numerator, s), _horner(self.denominator, s)
        n1, d1 = _horner(_derivative(self.numerator), s), _horner(_derivative(self.denominator), s)
        ratio = n / d
        return r * ratio, ratio + 2.0 * s * (n1 - ratio * d1) / d

    @property
    def is_plain(self) -> bool:
        """Whether d is r."""
        return not any(self.numerator[1:]) and not any(self.denominator[1:])

    def inverse(self, d: Floats) -> Floats:
        """r of d, by Newton's method between two nodes of a table; what lies beyond `end` gives `end`."""
        if self.is_plain:
            return np.minimum(d, self.end)
        nodes, values = _table(self, _reach(self, float(d.max(initial=0.0))))
        d = np.minimum(d, values[-1])
        cell = np.clip(np.searchsorted(values, d), 1, len(nodes) - 1)
        low, high = nodes[cell - 1], nodes[cell]
        below, above = values[cell - 1], values[cell]
        r = low + (high - low) * (d - below) / (above - below)
        active = np.arange(len(d))
        for _ in range(_MOST_STEPS):
            at = r[active]
            value, slope = self.with_slope(at)
            error = value - d[active]
            wrong = np.abs(error) > _PRECISION * (0.1 + d[active])
            if not wrong.any():
                break
            active, at, error, slope = active[wrong], at[wrong], error[wrong], slope[wrong]
            low[active] = np.where(error < 0.0, at, low[active])
            high[active] = np.where(error > 0.0, at, high[active])
            with np.errstate(divide="ignore", invalid="ignore"):
                step = at - error / slope
            kept = (step >= low[active]) & (step <= high[active])  # not so for NaN
            r[active] = np.where(kept, step, 0.5 * (low[active] + high[active]))
        return r


def radial_map(model: str, distortion: Sequence[float]) -> RadialMap:
    """The radial part of a lens; numbers that are missing are 0."""
    return _radial_map(model, tuple(float(number) for number in distortion))


@lru_cache(maxsize=64)
def _radial_map(model: str, distortion: tuple[float, ...]) -> RadialMap:
    numbers = padded(model, distortion)
    if model == "equidistant":
        numerator, denominator = (1.0, *numbers), (1.0,)
    else:
        k1, k2, _, _, k3, *rest = numbers
        numerator, denominator = (1.0, k1, k2, k3), (1.0, *rest)
    # The sign of the slope of r N / D is that of N D + 2 s (N' D - N D') in s = r^2, before the first pole.
    n, d = np.array(numerator), np.array(denominator)
    bent = polynomial.polysub(
        polynomial.polymul(polynomial.polyder(n), d), polynomial.polymul(n, polynomial.polyder(d))
    )
    slope = polynomial.polyadd(polynomial.polymul(n, d), 2.0 * polynomial.polymulx(bent))
    fold = math.sqrt(min(_first_root(slope), _first_root(d)))
    widest = math.pi if model == "equidistant" else WIDEST_TANGENT
    # Just before a fold the map still rises; at a pole it is infinite.
    return RadialMap(numerator, denominator, fold, min(fold * (1.0 - 1e-9), widest))


def padded(model: str, distortion: Sequence[float]) -> tuple[float, ...]:
    """All numbers of the model's distortion, missing ones as 0."""
    if model not in LENS_MODELS:
        raise ConfigError(f"lens: model must be one of {', '.join(LENS_MODELS)}, got {model!r}")
    most = COEFFICIENTS[model]
    if len(distortion) > most:
        raise ConfigError(f"lens: distortion of model {model} has {most} numbers at most, got {len(distortion)}")
    return (*distortion, *(0.0,) * (most - len(distortion)))


def bend(radial: RadialMap, p1: float, p2: float, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Distorted coordinates of a pinhole lens from ideal ones: radial, and decentred by p1 and p2."""
    s = x * x + y * y
    ratio = _horner(radial.numerator, s) / _horner(radial.denominator, s)
    return (
        x * ratio + 2.0 * p1 * x * y + p2 * (s + 2.0 * x * x),
        y * ratio + p1 * (s + 2.0 * y * y) + 2.0 * p2 * x * y,
    )


def bend_slopes(radial: RadialMap, p1: float, p2: float, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """The Jacobian of `bend`, which is symmetric: d xd / dx, d xd / dy = d yd / dx, d yd / dy."""
    s = x * x + y * y
    n, d = _horner(radial.numerator, s), _horner(radial.denominator, s)
    ratio = n / d
    grown = 2.0 * (_horner(_derivative(radial.numerator), s) - ratio * _horner(_derivative(radial.denominator), s)) / d
    return (
        ratio + grown * x * x + 2.0 * p1 * y + 6.0 * p2 * x,
        grown * x * y + 2.0 * p1 * x + 2.0 * p2 * y,
        ratio + grown * y * y + 6.0 * p1 * y + 2.0 * p2 * x,
    )


def unbend(radial: RadialMap, p1: float, p2: float, xd: Floats, yd: Floats) -> tuple[Floats, Floats]:
    """Ideal coordinates of a pinhole lens from distorted ones; finite for all that is finite."""
    x, y = _along(radial, xd, yd)
    if p1 == 0.0 and p2 == 0.0:
        return x, y
    # One round of Heikkilä and Silvén's fixed point: take off what decentring adds at the first guess.
    s = x * x + y * y
    x, y = _along(
        radial,
        xd - 2.0 * p1 * x * y - p2 * (s + 2.0 * x * x),
        yd - p1 * (s + 2.0 * y * y) - 2.0 * p2 * x * y,
    )
    active = np.arange(len(x))
    for _ in range(_MOST_STEPS):
        at_x, at_y = x[active], y[active]
        ex, ey, wrong = _errors(radial, p1, p2, at_x, at_y, xd[active], yd[active])
        if not wrong.any():
            break
        active, at_x, at_y, ex, ey = active[wrong], at_x[wrong], at_y[wrong], ex[wrong], ey[wrong]
        step_x, step_y = _newton_step(radial, p1, p2, at_x, at_y, ex, ey)
        before = np.hypot(ex, ey)
        size = np.ones(len(active))
        for _ in range(8):  # a step that makes things worse is halved
            new_x, new_y = _within(radial.end, at_x - size * step_x, at_y - size * step_y)
            bx, by, _ = _errors(radial, p1, p2, new_x, new_y, xd[active], yd[active])
            worse = ~(np.hypot(bx, by) < before)
            if not worse.any():
                break
            size[worse] *= 0.5
        # What no step betters has come as near as floating point, or the lens, lets it.
        x[active], y[active] = np.where(worse, at_x, new_x), np.where(worse, at_y, new_y)
        active = active[~worse]
    return x, y


def _errors(
    radial: RadialMap, p1: float, p2: float, x: Floats, y: Floats, xd: Floats, yd: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    at_x, at_y = bend(radial, p1, p2, x, y)
    ex, ey = at_x - xd, at_y - yd
    return ex, ey, np.abs(ex) + np.abs(ey) > _PRECISION * (0.1 + np.abs(xd) + np.abs(yd))


def _newton_step(
    radial: RadialMap, p1: float, p2: float, x: Floats, y: Floats, ex: Floats, ey: Floats
) -> tuple[Floats, Floats]:
    a, b, c = bend_slopes(radial, p1, p2, x, y)
    determinant = a * c - b * b
    safe = np.where(np.abs(determinant) > 1e-12, determinant, 1e-12)
    return (c * ex - b * ey) / safe, (a * ey - b * ex) / safe


def _along(radial: RadialMap, xd: Floats, yd: Floats) -> tuple[Floats, Floats]:
    """Undo the radial part alone."""
    d = np.hypot(xd, yd)
    r = radial.inverse(d)
    ratio = np.divide(r, d, out=np.ones_like(d), where=d > 0.0)
    return xd * ratio, yd * ratio


def _within(end: float, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    r = np.hypot(x, y)
    ratio = np.divide(end, r, out=np.ones_like(r), where=r > end)
    return x * ratio, y * ratio


def _horner(coefficients: tuple[float, ...], s: Floats) -> Floats:
    value = np.full_like(s, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value *= s
        value += coefficient
    return value


def _derivative(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(power * number for power, number in enumerate(coefficients))[1:] or (0.0,)


def _first_root(coefficients: Floats) -> float:
    """The smallest positive root of a polynomial, lowest power first; infinite where there is none."""
    trimmed = np.trim_zeros(coefficients, "b")
    if len(trimmed) < 2:
        return math.inf
    with np.errstate(all="ignore"):
        try:
            roots = polynomial.polyroots(trimmed)
        except np.linalg.LinAlgError:  # coefficients so far apart that their ratio overflows
            return 0.0
    real = roots.real[(np.abs(roots.imag) <= 1e-9 * np.abs(roots)) & (roots.real > 0.0)]
    return float(real.min(initial=math.inf))


def _reach(radial: RadialMap, d: float) -> float:
    """A power of two of r whose d is at least as large, or the end of the map."""
    r = 1.0
    while r < radial.end and float(radial(np.array(r))) < d:
        r *= 2.0
    return min(r, radial.end)


@lru_cache(maxsize=64)
def _table(radial: RadialMap, reach: float) -> tuple[Floats, Floats]:
    nodes = np.linspace(0.0, reach, _NODES)
    # Rounding may put two values of a nearly flat end in the wrong order.
    return nodes, np.maximum.accumulate(radial(nodes))
