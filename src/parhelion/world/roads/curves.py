"""Reference lines of OpenDRIVE in closed form, and piecewise cubic profiles along them.

Source: ASAM OpenDRIVE 1.6, section 7 (geometry) and 8 to 10 (elevation, superelevation, lanes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parhelion.core.pose import Floats

_SMALLEST_RATE = 1e-12
"""Change of curvature [1/m^2] below which a spiral is an arc: 5 um of heading error over a kilometre."""
_ARC_STEPS = 2000
"""Steps for the arc length of a polynomial."""


@dataclass(frozen=True, eq=False)
class Cubics:
    """Piecewise polynomial a + b d + c d^2 + e d^3 with the distance d from the start of each piece; 0 without any."""

    start: Floats
    """Start of each piece [m], ascending, shape (n,)."""
    factors: Floats
    """Shape (n, 4)."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> Cubics:
        """Profile of rows (start, a, b, c, d), in any order."""
        table = np.array(sorted(rows, key=lambda row: row[0]), dtype=np.float64).reshape(-1, 5)
        return cls(table[:, 0], table[:, 1:])

    def __call__(self, s: Floats) -> Floats:
        """Values at stations s (n,) [m]."""
        if len(self.start) == 0:
            return np.zeros(len(s))
        row = np.clip(np.searchsorted(self.start, s + 1e-9, side="right") - 1, 0, len(self.start) - 1)
        d = s - self.start[row]
        a, b, c, e = self.factors[row].T
        return np.where(d < -1e-6, 0.0, a + d * (b + d * (c + d * e)))

    @property
    def is_straight(self) -> bool:
        """True if no piece bends."""
        return not len(self.start) or not np.any(self.factors[:, 2:])


@dataclass(frozen=True)
class Element:
    """One element of a reference line."""

    s: float
    """Station of its start [m]."""
    x: float
    y: float
    heading: float
    """Heading at its start [rad]."""
    length: float
    kind: str
    """`line`, `arc`, `spiral`, `poly3` or `paramPoly3`."""
    values: tuple[float, ...] = ()
    """Curvature; curvature at start and end [1/m]; a, b, c, d; or aU, bU, cU, dU, aV, bV, cV, dV."""
    normalised: bool = False
    """True if the parameter of a paramPoly3 runs from 0 to 1, otherwise it is the arc length."""

    def local(self, d: Floats) -> tuple[Floats, Floats, Floats]:
        """Position (u along the start heading, v to its left) [m] and heading [rad] at distances d (n,) [m]."""
        if self.kind == "line":
            return d, np.zeros_like(d), np.zeros_like(d)
        if self.kind == "arc":
            return _arc(self.values[0], d)
        if self.kind == "spiral":
            first, last = self.values
            return spiral(first, (last - first) / self.length, d)
        return self._polynomial(d)

    def _polynomial(self, d: Floats) -> tuple[Floats, Floats, Floats]:
        u_factors, v_factors = (
            (np.array([0.0, 1.0, 0.0, 0.0]), np.array(self.values))
            if self.kind == "poly3"
            else (np.array(self.values[:4]), np.array(self.values[4:]))
        )
        powers = np.arange(4)

        def value(factors: Floats, p: Floats) -> Floats:
            return np.asarray((factors * p[:, None] ** powers).sum(axis=1))

        def slope(factors: Floats, p: Floats) -> Floats:
            return np.asarray((factors[1:] * powers[1:] * p[:, None] ** powers[:3]).sum(axis=1))

        p = d
        if self.kind == "paramPoly3" and self.normalised:
            p = d / self.length
        elif self.kind == "poly3":
            # Its parameter is u, and stations are arc lengths.
            grid = np.linspace(0.0, self.length, _ARC_STEPS + 1)
            middle = (grid[1:] + grid[:-1]) / 2
            speed = np.hypot(1.0, slope(v_factors, middle))
            arc = np.concatenate([[0.0], np.cumsum(speed * np.diff(grid))])
            p = np.interp(d, arc, grid)
        heading = np.arctan2(slope(v_factors, p), slope(u_factors, p))
        return value(u_factors, p), value(v_factors, p), heading


def _arc(curvature: float, d: Floats) -> tuple[Floats, Floats, Floats]:
    turn = curvature * d
    # sinc avoids the division by a small curvature.
    chord = d * np.sinc(turn / (2 * np.pi))
    return chord * np.cos(turn / 2), chord * np.sin(turn / 2), turn


def spiral(curvature: float, rate: float, d: Floats) -> tuple[Floats, Floats, Floats]:
    """Clothoid: position and heading at distances d (n,) from a start with a curvature [1/m] that changes at a
    constant rate [1/m^2], in Fresnel integrals."""
    if abs(rate) < _SMALLEST_RATE:
        return _arc(curvature, d)
    from scipy.special import fresnel

    sign = 1.0 if rate > 0 else -1.0
    a = np.sqrt(abs(rate) / np.pi)
    b = sign * curvature / (np.pi * a)
    zero = -sign * np.pi / 2 * b**2
    s1, c1 = fresnel(a * d + b)
    s0, c0 = fresnel(b)
    ds, dc = s1 - s0, c1 - c0
    u = (np.cos(zero) * dc - sign * np.sin(zero) * ds) / a
    v = (np.sin(zero) * dc + sign * np.cos(zero) * ds) / a
    return u, v, curvature * d + rate * d**2 / 2


@dataclass(frozen=True, eq=False)
class ReferenceLine:
    """Plan view of a road."""

    elements: tuple[Element, ...]

    def at(self, s: Floats) -> tuple[Floats, Floats]:
        """Positions (n, 2) [m] and headings (n,) [rad] at stations s (n,) [m]."""
        starts = np.array([element.s for element in self.elements])
        row = np.clip(np.searchsorted(starts, s + 1e-9, side="right") - 1, 0, len(starts) - 1)
        xy, heading = np.empty((len(s), 2)), np.empty(len(s))
        for k in np.unique(row):
            element, chosen = self.elements[k], row == k
            u, v, turn = element.local(np.maximum(s[chosen] - element.s, 0.0))
            cos, sin = np.cos(element.heading), np.sin(element.heading)
            xy[chosen] = np.column_stack([element.x + cos * u - sin * v, element.y + sin * u + cos * v])
            heading[chosen] = element.heading + turn
        return xy, heading

    def stations(self, length: float, straight_m: float, bend_m: float) -> Floats:
        """Stations [m] of a mesh: the ends of elements, and steps on straight and on bent ones."""
        found = [np.array([0.0, length])]
        for element in self.elements:
            end = min(element.s + element.length, length)
            step = straight_m if element.kind == "line" else bend_m
            found.append(np.linspace(element.s, end, max(1, int(np.ceil((end - element.s) / step))) + 1))
        return np.unique(np.clip(np.round(np.concatenate(found), 6), 0.0, length))
