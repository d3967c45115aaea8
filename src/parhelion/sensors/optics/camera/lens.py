"""Lens models: projection of points to pixels and directions of pixels. Pure float64 functions.

Directions and points are in the sensor frame (x forward, y left, z up). Pixels follow the OpenCV convention: the centre
of the first pixel is (0, 0), u counts columns and v rows, so an image covers u from -0.5 to width - 0.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import polynomial
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.image import LENS_MODELS, Intrinsics

# ---- distortion -----------------------------------------------------------------------------------------------------
# Distortion and its inverse, in normalised coordinates. Pinhole lenses use the Brown-Conrady model in OpenCV's form
# with 5 coefficients or, with a denominator, 8: Brown, "Decentering distortion of lenses", Photogrammetric Engineering
# 32 (1966). Fisheye lenses use the model of Kannala and Brandt, "A generic camera model and calibration method for
# conventional, wide-angle, and fish-eye lenses", IEEE TPAMI 28 (2006), in OpenCV's form with 4 coefficients. The
# inverse uses Newton's method; for decentred lenses it starts from the fixed point of Heikkilä and Silvén, "A four-step
# camera calibration procedure with implicit image correction", CVPR 1997.


Floats = NDArray[np.float64]

WIDEST_TANGENT = 1e4
"""Largest tangent of the angle from the axis of a pinhole lens: 89.994 degrees."""
COEFFICIENTS = {"plumb_bob": 5, "rational_polynomial": 8, "equidistant": 4}
"""Maximum number of distortion coefficients per lens model."""

PRECISION = 4e-15
"""Tolerance of Newton's method on distorted coordinates d, relative to d + 0.1."""

_NODES = 1025
_PLAIN_STEPS = 4
_MOST_STEPS = 60


@dataclass(frozen=True)
class RadialMap:
    """Radial distortion: ideal distance from the axis r to distorted distance d = r N(r^2) / D(r^2).

    For a pinhole lens, r is the tangent of the angle from the axis; for a fisheye lens, the angle [rad].
    """

    numerator: tuple[float, ...]
    """Coefficients of N, lowest power first; the first is 1."""
    denominator: tuple[float, ...]
    """Coefficients of D, lowest power first; the first is 1."""
    fold: float
    """Value of r at which the distortion folds back or has a pole; infinite if it never does."""
    end: float
    """Largest r at which the map is used: before the fold, and within the range of the model."""

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
        """True if there is no distortion (d = r)."""
        return not any(self.numerator[1:]) and not any(self.denominator[1:])

    def inverse(self, d: Floats, precision: float = PRECISION) -> Floats:
        """r of d, by Newton's method from a table; values beyond `end` return `end`."""
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
        """r of d by Newton's method with bisection, for the nearly flat edge of the map."""
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
            r = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))  # bisection also for NaN
        return r


def radial_map(model: str, distortion: Sequence[float]) -> RadialMap:
    """Radial distortion of a lens; missing coefficients are 0."""
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
    """Distortion coefficients of the model, padded with 0."""
    if model not in LENS_MODELS:
        raise ConfigError(f"lens: model must be one of {', '.join(LENS_MODELS)}, got {model!r}")
    most = COEFFICIENTS[model]
    if len(distortion) > most:
        raise ConfigError(f"lens: distortion of model {model} has {most} numbers at most, got {len(distortion)}")
    return (*distortion, *(0.0,) * (most - len(distortion)))


def bend(radial: RadialMap, p1: float, p2: float, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Distorted coordinates of a pinhole lens from ideal ones: radial distortion and decentring by p1 and p2."""
    s = x * x + y * y
    ratio = _horner(radial.numerator, s) / _horner(radial.denominator, s)
    return (
        x * ratio + 2.0 * p1 * x * y + p2 * (s + 2.0 * x * x),
        y * ratio + p1 * (s + 2.0 * y * y) + 2.0 * p2 * x * y,
    )


def bend_with_slopes(
    radial: RadialMap, p1: float, p2: float, x: Floats, y: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """`bend` and its symmetric Jacobian: xd, yd, d xd / dx, d xd / dy = d yd / dx, d yd / dy."""
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
    """Ideal coordinates of a pinhole lens from distorted ones; finite for finite input."""
    decentred = p1 != 0.0 or p2 != 0.0
    d = np.hypot(xd, yd)
    # For a decentred lens, this is only the initial value.
    r = radial.inverse(d, 1e-3 if decentred else precision)
    ratio = np.divide(r, d, out=np.ones_like(d), where=d > 0.0)
    x, y = xd * ratio, yd * ratio
    if not decentred:
        return x, y
    # One fixed-point iteration of Heikkilä and Silvén removes the decentring from the initial value.
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
    """Newton's method with step halving until the error decreases, for the edge of strongly distorted lenses."""
    size = np.ones_like(x)
    for _ in range(_MOST_STEPS):
        step_x, step_y, error = _newton_step(radial, p1, p2, x, y, xd, yd)
        # Points that no step improves have reached the limit of floating point or of the lens.
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
    """Newton step of x and y, and the distance from the target."""
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
    """Coefficients without trailing zeros, which would cost time."""
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
    """Smallest positive root of a polynomial (lowest power first) whose value at 0 is 1; infinite if there is none."""
    if not np.isfinite(coefficients).all():
        return 0.0
    # np.roots takes the highest power first: it returns the inverse roots, and the leading coefficient is always 1.
    roots = np.roots(coefficients)
    real = roots.real[np.abs(roots.imag) <= 1e-9 * np.abs(roots)]
    largest = float(real.max(initial=0.0))
    return 1.0 / largest if largest > 1e-12 else math.inf


def _reach(radial: RadialMap, d: float) -> float:
    """Smallest power of two of r whose distorted value reaches `d`, or the end of the map."""
    r = 1.0
    while r < radial.end and float(radial(np.array(r))) < d:
        r *= 2.0
    return min(r, radial.end)


@lru_cache(maxsize=64)
def _table(radial: RadialMap, reach: float) -> tuple[Floats, Floats]:
    nodes = np.linspace(0.0, reach, _NODES)
    # Rounding may swap two values at a nearly flat end.
    return nodes, np.maximum.accumulate(radial(nodes))


# ---- lens -----------------------------------------------------------------------------------------------------------


_BLOCK = 16384
"""Points processed per block. Their arrays stay in the processor cache, which is several times faster."""
_TABLE_PRECISION = 1e-9
"""Tolerance for the table of corners, which has float32 precision."""


def project(intrinsics: Intrinsics, points: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    """Pixels (n, 2) of points (n, 3) [m] in the sensor frame, and a mask (n,) of those inside the image.

    A point is inside if it is in front of the lens, within the image, and within the field in which the distortion does
    not fold back. Points without a pixel, behind the lens or beyond the fold, are NaN.
    """
    given = np.asarray(points, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] != 3:
        raise ConfigError(f"project: points must have shape (n, 3), got {given.shape}")
    x, y, z = -given[:, 1], -given[:, 2], given[:, 0]
    with np.errstate(all="ignore"):
        xd, yd, seen = (_project_fisheye if intrinsics.model == "equidistant" else _project_pinhole)(
            intrinsics, x, y, z
        )
        u = intrinsics.fx * xd + intrinsics.skew * yd + intrinsics.cx
        v = intrinsics.fy * yd + intrinsics.cy
        uv = np.where(seen[:, None], np.stack([u, v], axis=1), np.nan)
        inside = (u >= -0.5) & (u < intrinsics.width - 0.5) & (v >= -0.5) & (v < intrinsics.height - 0.5)
    return uv, seen & inside


def _project_pinhole(
    intrinsics: Intrinsics, x: Floats, y: Floats, z: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    radial, p1, p2 = _parts(intrinsics)
    x, y = x / z, y / z
    seen = (z > 0.0) & (np.hypot(x, y) <= radial.end)
    xd, yd, a, b, c = bend_with_slopes(radial, p1, p2, x, y)
    if p1 != 0.0 or p2 != 0.0:
        seen &= a * c - b * b > 0.0
    return xd, yd, seen


def _project_fisheye(
    intrinsics: Intrinsics, x: Floats, y: Floats, z: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    radial, _, _ = _parts(intrinsics)
    aside = np.hypot(x, y)
    angle = np.arctan2(aside, z)
    ratio = np.divide(radial(angle), aside, out=np.zeros_like(aside), where=aside > 0.0)
    seen = (angle <= radial.end) & ((aside > 0.0) | (z > 0.0)) & np.isfinite(aside) & np.isfinite(z)
    return x * ratio, y * ratio, seen


def lights(image_circle_deg: float, points: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """Mask of points or directions (..., 3) in the sensor frame within an image circle of this full angle."""
    angle = np.arctan2(np.hypot(points[..., 1], points[..., 2]), points[..., 0])
    within: NDArray[np.bool_] = angle <= math.radians(image_circle_deg) / 2.0
    return within


def directions(intrinsics: Intrinsics, uv: ArrayLike) -> Floats:
    """Unit directions (n, 3) of pixels (n, 2) in the sensor frame: the inverse of `project`.

    For a lens that passes `check`, projecting the directions reproduces the pixels to 1e-9. Pixels beyond the fold are
    mapped to its edge, so the result is finite for all finite pixels.
    """
    given = np.asarray(uv, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] != 2:
        raise ConfigError(f"directions: pixels must have shape (n, 2), got {given.shape}")
    looked = np.empty((len(given), 3))
    for start in range(0, len(given), _BLOCK):
        block = given[start : start + _BLOCK]
        looked[start : start + _BLOCK] = _directions(intrinsics, block[:, 0], block[:, 1])
    return looked


def _directions(intrinsics: Intrinsics, u: Floats, v: Floats, precision: float = PRECISION) -> Floats:
    radial, p1, p2 = _parts(intrinsics)
    yd = (v - intrinsics.cy) / intrinsics.fy
    xd = (u - intrinsics.cx - intrinsics.skew * yd) / intrinsics.fx
    if intrinsics.model == "equidistant":
        d = np.hypot(xd, yd)
        angle = radial.inverse(d, precision)
        ratio = np.divide(np.sin(angle), d, out=np.ones_like(d), where=d > 0.0)
        return np.stack([np.cos(angle), -xd * ratio, -yd * ratio], axis=1)
    x, y = unbend(radial, p1, p2, xd, yd, precision)
    looked = np.stack([np.ones_like(x), -x, -y], axis=1)
    looked /= np.sqrt(1.0 + x * x + y * y)[:, None]
    return looked


def corner_directions(intrinsics: Intrinsics) -> NDArray[np.float32]:
    """Unit directions of all pixel corners, shape (height + 1, width + 1, 3), read-only.

    Entry (i, j) is at u = j - 0.5, v = i - 0.5: pixel (i, j) lies between entries (i, j) and (i + 1, j + 1).
    """
    return _corner_directions(replace(intrinsics, distortion=tuple(intrinsics.distortion), baseline_m=0.0))


@lru_cache(maxsize=4)
def _corner_directions(intrinsics: Intrinsics) -> NDArray[np.float32]:
    width, height = intrinsics.width, intrinsics.height
    looked = np.empty((height + 1, width + 1, 3), dtype=np.float32)
    u = np.arange(width + 1) - 0.5
    rows = max(1, _BLOCK // (width + 1))
    for start in range(0, height + 1, rows):
        v = np.arange(start, min(start + rows, height + 1)) - 0.5
        block = _directions(intrinsics, np.tile(u, len(v)), np.repeat(v, width + 1), _TABLE_PRECISION)
        looked[start : start + len(v)] = block.reshape(len(v), width + 1, 3)
    looked.setflags(write=False)
    return looked


def check(intrinsics: Intrinsics) -> None:
    """Raise ConfigError if no real lens of this model can produce such an image."""
    _check_numbers(intrinsics)
    radial, p1, p2 = _parts(intrinsics)
    corners = _grid(intrinsics, 2)
    yd = (corners[:, 1] - intrinsics.cy) / intrinsics.fy
    xd = (corners[:, 0] - intrinsics.cx - intrinsics.skew * yd) / intrinsics.fx
    d = np.hypot(xd, yd)
    worst = int(np.argmax(d))
    reach = float(radial(np.array(radial.end)))
    if d[worst] > reach:
        share = reach / d[worst]
        centre = np.array([intrinsics.cx, intrinsics.cy])
        edge = centre + share * (corners[worst] - centre)
        away = f"{np.linalg.norm(edge - centre):.1f} pixels from the principal point, near pixel {_pixel(edge)}"
        if radial.fold <= radial.end * (1.0 + 1e-6):
            what = f"distortion folds back {away}, at {_angle(intrinsics, radial.end)}"
        elif intrinsics.model == "equidistant":
            what = f"a fisheye looks straight back {away}"
        else:
            what = f"a pinhole lens looks sideways, 90 degrees off its axis, {away}"
        raise ConfigError(f"lens: {what}, but the picture reaches to {_pixel(corners[worst])}")
    if p1 != 0.0 or p2 != 0.0:
        _check_decentring(intrinsics, radial, p1, p2)


def _check_numbers(intrinsics: Intrinsics) -> None:
    for name in ("width", "height"):
        if getattr(intrinsics, name) < 1:
            raise ConfigError(f"lens: {name} must be at least 1 pixel, got {getattr(intrinsics, name)}")
    for name in ("fx", "fy"):
        value = getattr(intrinsics, name)
        if not (math.isfinite(value) and value > 0.0):
            raise ConfigError(f"lens: {name} must be a positive number of pixels, got {value}")
    for name, size in (("cx", intrinsics.width), ("cy", intrinsics.height)):
        value = getattr(intrinsics, name)
        if not -size <= value <= 2 * size:  # not so for NaN
            raise ConfigError(
                f"lens: {name} must be within one picture's size of the picture, {-size} to {2 * size}, got {value}"
            )
    if not abs(intrinsics.skew) < intrinsics.fx:
        raise ConfigError(f"lens: skew must be smaller than fx ({intrinsics.fx:g}), got {intrinsics.skew}")
    if not (math.isfinite(intrinsics.baseline_m) and intrinsics.baseline_m >= 0.0):
        raise ConfigError(f"lens: baseline_m must be 0 or more, got {intrinsics.baseline_m}")
    for index, number in enumerate(padded(intrinsics.model, intrinsics.distortion)):
        if not abs(number) < 1e6:
            raise ConfigError(f"lens: distortion[{index}] must be between -1e6 and 1e6, got {number}")


def _check_decentring(intrinsics: Intrinsics, radial: RadialMap, p1: float, p2: float) -> None:
    """Raise ConfigError if decentring folds the image. There is no closed form, so a grid of pixels is checked."""
    pixels = _grid(intrinsics, 33)
    looked = directions(intrinsics, pixels)
    x, y = -looked[:, 1] / looked[:, 0], -looked[:, 2] / looked[:, 0]
    _, _, a, b, c = bend_with_slopes(radial, p1, p2, x, y)
    uv, _ = project(intrinsics, looked)
    missed = ~(np.abs(uv - pixels).max(axis=1) < 1e-6)
    folded = ~(a * c - b * b > 0.0) | missed
    if folded.any():
        middle = np.array([intrinsics.cx, intrinsics.cy])
        away = np.linalg.norm(pixels - middle, axis=1)
        first = int(np.argmin(np.where(folded, away, np.inf)))
        raise ConfigError(
            f"lens: distortion folds back {away[first]:.1f} pixels from the principal point, near pixel "
            f"{_pixel(pixels[first])}, through its decentring p1 = {p1:g}, p2 = {p2:g}"
        )


def focal_length_px(width: int, hfov_deg: float, model: str = "plumb_bob", distortion: Sequence[float] = ()) -> float:
    """Focal length [pixel] at which a centred image of this width covers `hfov_deg` from edge to edge.

    Radial distortion is included, decentring is not.
    """
    half = math.radians(hfov_deg) / 2.0
    r = half if model == "equidistant" else math.tan(half)
    radial = radial_map(model, distortion)
    if not 0.0 < r <= radial.end:
        raise ConfigError(f"lens: hfov_deg {hfov_deg:g} exceeds the field of this lens model and distortion")
    return width / 2.0 / float(radial(np.array(r)))


def scaled(intrinsics: Intrinsics, width: int, height: int) -> Intrinsics:
    """Same lens and field of view with another number of pixels, binned or enlarged."""
    if width < 1 or height < 1:
        raise ConfigError(f"lens: width and height must be at least 1 pixel, got {width} x {height}")
    across, down = width / intrinsics.width, height / intrinsics.height
    return replace(
        intrinsics,
        width=width,
        height=height,
        fx=intrinsics.fx * across,
        fy=intrinsics.fy * down,
        cx=(intrinsics.cx + 0.5) * across - 0.5,
        cy=(intrinsics.cy + 0.5) * down - 0.5,
        skew=intrinsics.skew * across,
    )


def aperture_radius_m(focal_mm: float, f_number: float) -> float:
    """Radius [m] of the entrance pupil of a thin lens: focal length / (2 f-number)."""
    return focal_mm * 1e-3 / (2.0 * f_number)


def _parts(intrinsics: Intrinsics) -> tuple[RadialMap, float, float]:
    radial = radial_map(intrinsics.model, intrinsics.distortion)
    if intrinsics.model == "equidistant":
        return radial, 0.0, 0.0
    numbers = padded(intrinsics.model, intrinsics.distortion)
    return radial, numbers[2], numbers[3]


def _grid(intrinsics: Intrinsics, count: int) -> Floats:
    """Regular grid of pixel positions over the image including its edges, shape (count * count, 2)."""
    u = np.linspace(-0.5, intrinsics.width - 0.5, count)
    v = np.linspace(-0.5, intrinsics.height - 0.5, count)
    return np.stack([np.tile(u, count), np.repeat(v, count)], axis=1)


def _pixel(uv: Floats) -> str:
    return f"({uv[0]:.1f}, {uv[1]:.1f})"


def _angle(intrinsics: Intrinsics, r: float) -> str:
    degrees = math.degrees(r if intrinsics.model == "equidistant" else math.atan(r))
    return f"{degrees:.1f} degrees off the axis"
