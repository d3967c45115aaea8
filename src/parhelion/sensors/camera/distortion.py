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

PRECISION = 4e-15
"""Error of distorted coordinates at which Newton's method ends, relative to their size and a tenth."""

_NODES = 1025
_PLAIN_STEPS = 4
_MOST_STEPS = 60


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
        ratio = n / d
        grown = _horner(_derivative(self.numerator), s)
        if len(self.denominator) > 1:
            grown -= ratio * _horner(_derivative(self.denominator), s)
        grown *= s
        grown /= d
        return r * ratio, ratio + 2.0 * grown

    @property
    def is_plain(self) -> bool:
        """Whether d is r."""
        return not any(self.numerator[1:]) and not any(self.denominator[1:])

    def inverse(self, d: Floats, precision: float = PRECISION) -> Floats:
        """r of d, by Newton's method from a table; what lies beyond `end` gives `end`."""
        if self.is_plain:
            return np.minimum(d, self.end)
        nodes, values = _table(self, _reach(self, float(d.max(initial=0.0))))
        d = np.minimum(d, values[-1])
        r = np.interp(d, values, nodes)
        tolerance = precision * (0.1 + d)
        for _ in range(_PLAIN_STEPS):
            value, slope = self.with_slope(r)
            value -= d
            wrong = ~(np.abs(value) <= tolerance)
            if not wrong.any():
                return r
            with np.errstate(divide="ignore", invalid="ignore"):
                value /= slope
            r -= value
            np.clip(r, 0.0, nodes[-1], out=r)
        r[wrong] = self._bracketed(d[wrong], tolerance[wrong])
        return r

    def _bracketed(self, d: Floats, tolerance: Floats) -> Floats:
        """The same by Newton's method within brackets, halved where it leaves them: for the nearly flat edge."""
        nodes, values = _table(self, _reach(self, float(d.max(initial=0.0))))
        cell = np.clip(np.searchsorted(values, d), 1, len(nodes) - 1)
        low, high = nodes[cell - 1], nodes[cell]
        r = 0.5 * (low + high)
        for _ in range(_MOST_STEPS):
            value, slope = self.with_slope(r)
            error = value - d
            if (np.abs(error) <= tolerance).all():
                break
            low, high = np.where(error < 0.0, r, low), np.where(error > 0.0, r, high)
            with np.errstate(divide="ignore", invalid="ignore"):
                step = r - error / slope
            r = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))  # halved for NaN, too
        return r


def radial_map(model: str, distortion: Sequence[float]) -> RadialMap:
    """The radial part of a lens; numbers that are missing are 0."""
    return _radial_map(model, tuple(float(number) for number in distortion))


@lru_cache(maxsize=64)
def _radial_map(model: str, distortion: tuple[float, ...]) -> RadialMap:
    numbers = padded(model, distortion)
    numerator: tuple[float, ...]
    denominator: tuple[float, ...]
    if model == "equidistant":
        numerator, denominator = _trimmed(1.0, *numbers), (1.0,)
    else:
        k1, k2, _, _, k3, *rest = numbers
        numerator, denominator = _trimmed(1.0, k1, k2, k3), _trimmed(1.0, *rest)
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


def bend_with_slopes(
    radial: RadialMap, p1: float, p2: float, x: Floats, y: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """`bend`, and its Jacobian, which is symmetric: xd, yd, d xd / dx, d xd / dy = d yd / dx, d yd / dy."""
    xx, yy, xy = x * x, y * y, x * y
    s = xx + yy
    n, d = _horner(radial.numerator, s), _horner(radial.denominator, s)
    ratio = n / d
    grown = _horner(_derivative(radial.numerator), s)
    if len(radial.denominator) > 1:
        grown -= ratio * _horner(_derivative(radial.denominator), s)
    grown *= 2.0 / d
    px, py = p1 * x, p1 * y
    qx, qy = p2 * x, p2 * y
    return (
        x * ratio + 2.0 * p1 * xy + p2 * (s + 2.0 * xx),
        y * ratio + p1 * (s + 2.0 * yy) + 2.0 * p2 * xy,
        ratio + grown * xx + 2.0 * py + 6.0 * qx,
        grown * xy + 2.0 * px + 2.0 * qy,
        ratio + grown * yy + 6.0 * py + 2.0 * qx,
    )


def unbend(
    radial: RadialMap, p1: float, p2: float, xd: Floats, yd: Floats, precision: float = PRECISION
) -> tuple[Floats, Floats]:
    """Ideal coordinates of a pinhole lens from distorted ones; finite for all that is finite."""
    decentred = p1 != 0.0 or p2 != 0.0
    d = np.hypot(xd, yd)
    # Of a decentred lens, this is a start only.
    r = radial.inverse(d, 1e-3 if decentred else precision)
    ratio = np.divide(r, d, out=np.ones_like(d), where=d > 0.0)
    x, y = xd * ratio, yd * ratio
    if not decentred:
        return x, y
    # One round of Heikkilä and Silvén's fixed point takes off what decentring adds at the start.
    s = x * x + y * y
    x, y = (
        (xd - 2.0 * p1 * x * y - p2 * (s + 2.0 * x * x)) * ratio,
        (yd - p1 * (s + 2.0 * y * y) - 2.0 * p2 * x * y) * ratio,
    )
    tolerance = precision * (0.1 + d)
    for _ in range(_PLAIN_STEPS):
        step_x, step_y, error = _newton_step(radial, p1, p2, x, y, xd, yd)
        wrong = ~(error <= tolerance)
        if not wrong.any():
            return x, y
        x, y = _within(radial.end, x - step_x, y - step_y)
    x[wrong], y[wrong] = _damped(radial, p1, p2, x[wrong], y[wrong], xd[wrong], yd[wrong], tolerance[wrong])
    return x, y


def _damped(
    radial: RadialMap, p1: float, p2: float, x: Floats, y: Floats, xd: Floats, yd: Floats, tolerance: Floats
) -> tuple[Floats, Floats]:
    """Newton's method whose steps are halved until they better the result: for the edge of strong lenses."""
    size = np.ones_like(x)
    for _ in range(_MOST_STEPS):
        step_x, step_y, error = _newton_step(radial, p1, p2, x, y, xd, yd)
        # What no step betters has come as near as floating point, or the lens, lets it.
        if ((error <= tolerance) | (size < 1e-6)).all():
            break
        new_x, new_y = _within(radial.end, x - size * step_x, y - size * step_y)
        bx, by = bend(radial, p1, p2, new_x, new_y)
        better = np.hypot(bx - xd, by - yd) < error
        x, y = np.where(better, new_x, x), np.where(better, new_y, y)
        size = np.where(better, 1.0, 0.5 * size)
    return x, y


def _newton_step(
    radial: RadialMap, p1: float, p2: float, x: Floats, y: Floats, xd: Floats, yd: Floats
) -> tuple[Floats, Floats, Floats]:
    """What to subtract from x and y, and how far off they are."""
    ex, ey, a, b, c = bend_with_slopes(radial, p1, p2, x, y)
    ex -= xd
    ey -= yd
    determinant = a * c - b * b
    inverse = 1.0 / np.where(np.abs(determinant) > 1e-12, determinant, 1e-12)
    return (c * ex - b * ey) * inverse, (a * ey - b * ex) * inverse, np.hypot(ex, ey)


def _within(end: float, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    s = x * x + y * y
    if s.max(initial=0.0) <= end * end:
        return x, y
    r = np.sqrt(s)
    ratio = np.divide(end, r, out=np.ones_like(r), where=r > end)
    return x * ratio, y * ratio


def _trimmed(*coefficients: float) -> tuple[float, ...]:
    """Without zeros at the end, which would cost time."""
    return tuple(float(number) for number in np.trim_zeros(coefficients, "b"))


def _horner(coefficients: tuple[float, ...], s: Floats) -> Floats:
    if len(coefficients) == 1:
        return np.full_like(s, coefficients[0])
    value = s * coefficients[-1]
    value += coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        value *= s
        value += coefficient
    return value


def _derivative(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(power * number for power, number in enumerate(coefficients))[1:] or (0.0,)


def _first_root(coefficients: Floats) -> float:
    """The smallest positive root of a polynomial, lowest power first, that is 1 at 0; infinite where there is none."""
    if not np.isfinite(coefficients).all():
        return 0.0
    # Backwards, its roots are their inverses, and the first number is 1 however small the last one is.
    roots = np.roots(coefficients)
    real = roots.real[np.abs(roots.imag) <= 1e-9 * np.abs(roots)]
    largest = float(real.max(initial=0.0))
    return 1.0 / largest if largest > 1e-12 else math.inf


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
