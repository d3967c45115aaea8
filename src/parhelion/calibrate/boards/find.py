"""Board detection in a recording: a plane by random sampling, and its edges.

The plane is the one that most points share within some centimetres (RANSAC, Fischler and Bolles 1981), refined by least
squares along the beams. The board ends where the returns on the plane end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parhelion.calibrate.boards.shots import BoardShots
from parhelion.calibrate.range_images import Floats, Mask
from parhelion.core.errors import ConfigError

CLOSE_M = 0.04
"""Largest distance of a point from a candidate plane that it is counted on, during the search."""
TRIES = 500
MOST_POINTS = 4000
FEWEST_POINTS = 30
MOST_PLANES = 4
LEAST_SHARE = 0.08
"""Smallest share of all points that a board must contain."""
GAP = 4.0
"""A board ends at a gap between returns of this many typical spacings."""
DISTANCE_SHARE, REFERENCE_M = 0.2, 0.1
"""Tolerances of a stated distance: relative, and absolute [m], because users measure it from a point of the housing."""
FACING_SHARE = 0.1
"""A board faces the sensor if the foot of the perpendicular lies at least this share of its width inside its edges."""
FACING_RATIO = 1.5
"""Largest ratio of the distance of a board that faces the sensor to that of a nearer, oblique surface."""
INSET = 0.03
"""Share of the board that is excluded at each edge, where beams hit it only partly."""


@dataclass(frozen=True, eq=False)
class Board:
    """Flat board in the sensor frame."""

    normal: Floats
    """Unit normal towards the sensor, shape (3,)."""
    distance_m: float
    """Distance of the sensor from the plane of the board."""
    across: Floats
    up: Floats
    """Unit vectors in the plane, horizontal and as vertical as possible, shape (3,)."""
    edges_m: tuple[float, float, float, float]
    """Extent along `across` and along `up`, relative to the foot of the perpendicular [m]: (min, max, min, max)."""
    inliers: int
    points: int
    faces_sensor: bool = True
    """The foot of the perpendicular lies well within the detected edges, as on a board put in front of a sensor."""

    @property
    def width_m(self) -> float:
        """Extent along `across`."""
        return self.edges_m[1] - self.edges_m[0]

    @property
    def height_m(self) -> float:
        """Extent along `up`; 0 for planar scanners."""
        return self.edges_m[3] - self.edges_m[2]

    @property
    def azimuth_deg(self) -> float:
        """Azimuth of the foot of the perpendicular, counter-clockwise from x [deg], -180 to 180."""
        return float(np.degrees(np.arctan2(-self.normal[1], -self.normal[0])))

    def true_range(self, shots: BoardShots) -> Floats:
        """Range [m] at which each shot meets the plane; not finite or negative if it does not."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return -(self.distance_m + shots.origin @ self.normal) / (shots.direction @ self.normal)

    def incidence_deg(self, shots: BoardShots) -> Floats:
        """Angle between each shot and the normal [deg]."""
        return np.degrees(np.arccos(np.clip(-(shots.direction @ self.normal), -1.0, 1.0)))

    def holds(self, shots: BoardShots, inset: float = INSET) -> Mask:
        """Mask of shots aimed at the board, with or without a return, excluding its rim."""
        there = self.true_range(shots)
        place = shots.origin + np.where(np.isfinite(there), there, 0.0)[:, None] * shots.direction
        x, y = place @ self.across, place @ self.up
        left, right, low, high = self.edges_m
        dx, dy = inset * (right - left), inset * (high - low)
        inside = (x >= left + dx) & (x <= right - dx)
        if high - low > 0.0:
            inside &= (y >= low + dy) & (y <= high - dy)
        return inside & (there > 0.0)


def find_boards(
    shots: BoardShots, *, distance_m: float | None = None, width_m: float | None = None, seed: int = 1
) -> list[Board]:
    """Planes that contain a sufficient share of the points, with their edges, the most likely board first.

    That is the nearest plane, unless one that faces the sensor is at most `FACING_RATIO` times as far. `distance_m` and
    `width_m` select the plane and its extent: |theta| < atan(w/2d), ApolloSim eq. 4.1. ConfigError if there is
    no such plane.
    """
    found, total = _planes(shots, distance_m, width_m, seed)
    near = [one for one in found if distance_m is None or abs(one.distance_m - distance_m) <= tolerance_m(distance_m)]
    if not near:
        where = "" if distance_m is None else f" near {distance_m:g} m"
        others = "; ".join(f"{one.distance_m:.2f} m at {one.azimuth_deg:.0f} deg" for one in found)
        reason = (
            f"the surfaces are at {others}; correct distance_m, or give azimuth_deg"
            if others
            else f"no plane contains {100 * LEAST_SHARE:.0f} % of the {total} returns (at least {FEWEST_POINTS})"
        )
        raise ConfigError(f"no board found{where}: {reason}")
    large = [board for board in near if board.inliers > 0.25 * max(one.inliers for one in near)]
    return sorted(large, key=lambda board: board.distance_m * (1.0 if board.faces_sensor else FACING_RATIO))


def tolerance_m(distance_m: float) -> float:
    """Largest difference [m] between a stated distance and that of its board."""
    return max(DISTANCE_SHARE * distance_m, REFERENCE_M)


def _planes(shots: BoardShots, distance_m: float | None, width_m: float | None, seed: int) -> tuple[list[Board], int]:
    """Planes of a recording, and the number of its returns."""
    random = np.random.default_rng(seed)
    points = shots.points[~shots.lost]
    total = len(points)
    flat = total > 0 and float(np.ptp(shots.direction[:, 2])) < 1e-3
    if distance_m is not None and total:
        # Candidates for a board at that distance: points clearly nearer or far behind its rim are excluded.
        reach = np.linalg.norm(points, axis=1)
        far = np.hypot(distance_m, 0.5 * (width_m or 4.0 * distance_m))
        points = points[(reach > distance_m - tolerance_m(distance_m)) & (reach < 1.25 * far)]
    left = points
    found: list[Board] = []
    for _ in range(MOST_PLANES):
        if len(left) < max(FEWEST_POINTS, LEAST_SHARE * total):
            break
        plane = _largest_plane(left, random, flat)
        if plane is None:
            break
        normal, offset = _refined(*plane, left, flat)
        on = np.abs(left @ normal + offset) < CLOSE_M
        if on.sum() < max(FEWEST_POINTS, LEAST_SHARE * total):
            break
        found.append(_bounded(normal, offset, left[on], flat, width_m, total, shots))
        left = left[~on]
    return found, total


def _largest_plane(points: Floats, random: np.random.Generator, flat: bool) -> tuple[Floats, float] | None:
    """Plane through random samples that most points are close to; vertical for planar scanners."""
    some = points if len(points) <= MOST_POINTS else points[random.choice(len(points), MOST_POINTS, replace=False)]
    picked = some[random.integers(0, len(some), (TRIES, 3))]
    a = picked[:, 1] - picked[:, 0]
    b = np.broadcast_to([0.0, 0.0, 1.0], a.shape) if flat else picked[:, 2] - picked[:, 0]
    normal = np.cross(a, b)
    size = np.linalg.norm(normal, axis=1)
    good = size > 1e-6
    if not good.any():
        return None
    normal, start = normal[good] / size[good, None], picked[good, 0]
    offset = -np.einsum("ij,ij->i", normal, start)
    count = (np.abs(some @ normal.T + offset) < CLOSE_M).sum(axis=0)
    best = int(np.argmax(count))
    return normal[best], float(offset[best])


def _refined(normal: Floats, offset: float, points: Floats, flat: bool) -> tuple[Floats, float]:
    """Least squares over close points with a shrinking tolerance; the normal points towards the sensor."""
    close = CLOSE_M
    for _ in range(12):
        off = points @ normal + offset
        on = points[np.abs(off) < close]
        if len(on) < 5:
            break
        # The plane extends beyond the edges of the board, where it may intersect a distant wall.
        for axis in _axes(normal)[: 1 if flat else 2]:
            place = on @ axis
            low, high = _ends(place)
            on = on[(place >= low) & (place <= high)]
        middle = on.mean(axis=0)
        spread = on - middle
        if flat:
            spread = spread[:, :2]
        rotated = np.linalg.svd(spread.T @ spread)[0]
        new = rotated[:, -1]
        normal = np.append(new, 0.0) if flat else new
        offset = float(-normal @ middle)
        scatter = 1.4826 * float(np.median(np.abs(on @ normal + offset)))
        # The tolerance shrinks slowly: a slightly misaligned plane would otherwise lock onto the points closest to it.
        close = float(np.clip(4.0 * scatter, max(0.005, 0.7 * close), CLOSE_M))
    if offset < 0.0:
        normal, offset = -normal, -offset
    return normal, float(offset)


def _bounded(
    normal: Floats, offset: float, on: Floats, flat: bool, width_m: float | None, total: int, shots: BoardShots
) -> Board:
    across, up = _axes(normal)
    x, y = on @ across, on @ up
    beams = _beams(Board(normal, offset, across, up, (0.0, 0.0, 0.0, 0.0), 0, 0), shots)
    beside = beams[(beams[:, 1] >= y.min()) & (beams[:, 1] <= y.max()), 0]
    # Without lost shots in the recording, open air between two boards cannot be distinguished from a gap between beams.
    left, right = _ends(x, beside if shots.knows_lost else None)
    low, high = (0.0, 0.0)
    if not flat:
        low, high = _ends(y, beams[(beams[:, 0] >= left) & (beams[:, 0] <= right), 1])
    facing = min(-left, right) >= FACING_SHARE * (right - left)
    if width_m is not None:
        middle = 0.5 * (left + right) if right - left < 1.5 * width_m else 0.0
        left, right = middle - 0.5 * width_m, middle + 0.5 * width_m
    return Board(normal, offset, across, up, (left, right, low, high), len(on), total, facing)


def _beams(plane: Board, shots: BoardShots) -> Floats:
    """Intersections of beams with a plane, along `across` and `up`, shape (n, 2)."""
    there = plane.true_range(shots)
    meets = np.isfinite(there) & (there > 0.0)
    place = shots.origin[meets] + there[meets, None] * shots.direction[meets]
    return np.stack([place @ plane.across, place @ plane.up], axis=1)


def _axes(normal: Floats) -> tuple[Floats, Floats]:
    """Unit vectors in a plane: horizontal, and as vertical as possible."""
    across = np.cross([0.0, 0.0, 1.0], normal)
    if np.linalg.norm(across) < 1e-3:
        across = np.array([1.0, 0.0, 0.0])
    across = across / np.linalg.norm(across)
    return across, np.cross(normal, across)


def _ends(place: Floats, beams: Floats | None = None) -> tuple[float, float]:
    """Limits of the largest run of points without a wide gap.

    `beams` are the intersections of all beams with the plane. A stretch without beams, as between rows, is not a gap.
    """
    ordered = np.sort(place)
    bins = np.linspace(ordered[0], ordered[-1] + 1e-9, 121)
    counts = np.histogram(ordered, bins)[0]
    met = None if beams is None or not len(beams) else np.maximum(counts, np.histogram(beams, bins)[0])
    if met is None:
        thick = np.flatnonzero(counts > 0.15 * float(np.median(counts[counts > 0])))
        # Sensor rows are spaced apart: a gap is wide relative to the typical step.
        steps = np.diff(thick)
        typical = max(1.0, float(np.quantile(steps, 0.9))) if len(steps) else 1.0
    else:
        share = counts / np.maximum(met, 1)
        thick = np.flatnonzero(share > 0.15 * float(np.median(share[counts > 0])))
        steps, typical = np.diff(np.cumsum(met > 0)[thick]), 1.0
    runs = np.split(thick, np.flatnonzero(steps > GAP * typical) + 1)
    best = max(runs, key=lambda run: int(counts[run].sum()))
    inside = ordered[(ordered >= bins[best[0]]) & (ordered <= bins[best[-1] + 1])]
    return float(inside[0]), float(inside[-1])
