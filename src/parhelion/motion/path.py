"""A smooth line through points in space, by arc length."""

from __future__ import annotations

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.motion.curves import cubic, jet_of, quintic

_NODES = 16  # of the quintic, between two waypoints
_GAUSS_NODES, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(5)


class Path:
    """Curve P(s) through waypoints, four times continuously differentiable; |P'| = 1 to a per mille, or to a per cent
    in hairpins.

    First a cubic spline over the centripetal parameter, whose steps are the roots of the distances: it keeps close to
    the straight lines between waypoints where their distances differ much (Lee, 1989). Then a quintic through 16
    points a leg of that cubic, against their arc length: it differs from the cubic by little, passes the waypoints
    too, and its curvature has no kinks. Open ends are straight (no curvature).
    """

    def __init__(self, waypoints: Floats, *, closed: bool = False) -> None:
        points = np.concatenate([waypoints, waypoints[:1]]) if closed else waypoints
        steps = np.sqrt(np.linalg.norm(np.diff(points, axis=0), axis=1))
        knots = np.concatenate([[0.0], np.cumsum(steps)])
        line = cubic(knots, points, closed=closed)

        edges = (knots[:-1, None] + steps[:, None] * np.arange(_NODES) / _NODES).ravel()
        edges = np.concatenate([edges, knots[-1:]])
        half = 0.5 * np.diff(edges)
        inside = edges[:-1, None] + half[:, None] * (1.0 + _GAUSS_NODES)
        speed = np.linalg.norm(line(inside, nu=1), axis=-1)
        arc = np.concatenate([[0.0], np.cumsum(half * (speed @ _GAUSS_WEIGHTS))])

        nodes = line(edges)
        nodes[::_NODES] = points
        self.closed = closed
        self.length_m = float(arc[-1])
        self.waypoint_arc = arc[::_NODES]
        """Arc length [m] of the waypoints from the first one; with `closed`, the whole length at the end."""
        quarters = [0.75 * arc[:-1] + 0.25 * arc[1:], 0.25 * arc[:-1] + 0.75 * arc[1:]]
        self.grid = np.sort(np.concatenate([arc, *quarters]))
        """Arc lengths [m] close enough together to see every bend."""
        self._curve = quintic(arc, nodes, closed=closed)

    def jet(self, arc: Floats, order: int) -> Floats:
        """P(s) and its derivatives up to `order`, shape (order + 1, n, 3), at arc lengths [m]."""
        return jet_of(self._curve, arc, order)

    def curvature(self, arc: Floats) -> Floats:
        """Curvature [1/m] at arc lengths [m]."""
        _, first, second = self.jet(arc, 2)
        return np.linalg.norm(np.cross(first, second), axis=1) / np.linalg.norm(first, axis=1) ** 3

    def require_no_turning_back(self) -> None:
        """Refuse a line with a cusp, where it has no direction."""
        tangent = self.jet(self.grid, 1)[1]
        back = np.sum(tangent[1:] * tangent[:-1], axis=1) <= 0.0
        if np.any(back):
            raise ConfigError(
                f"spline: the waypoints turn back on the spot near waypoint {self._nearest(back)}; part the motion "
                f"there, or put a waypoint aside so that there is room to turn"
            )

    def require_horizontal_direction(self) -> None:
        """Refuse a line that is vertical somewhere, where it has no heading."""
        tangent = self.jet(self.grid, 1)[1]
        level = tangent[:, :2]
        steep = np.linalg.norm(level, axis=1) < 1e-3 * np.linalg.norm(tangent, axis=1)
        steep[1:] |= np.sum(level[1:] * level[:-1], axis=1) <= 0.0
        if np.any(steep):
            raise ConfigError(
                f"spline: the line is vertical near waypoint {self._nearest(steep)}, so facing 'forward' has no "
                f"heading there; give quaternions as facing"
            )

    def _nearest(self, where: Floats) -> int:
        at = self.grid[int(np.argmax(where))]
        number = int(np.argmin(np.abs(self.waypoint_arc - at)))
        return number % (len(self.waypoint_arc) - 1) if self.closed else number
