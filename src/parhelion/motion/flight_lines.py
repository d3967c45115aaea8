"""Flight lines of a survey: parallel lines over a rectangle, flown to and fro, with turns in between.

Neighbouring lines overlap by a share p of their swath S = 2 h tan(a), where h is the height above ground and a the half
angle of the scanner, so they lie S (1 - p) apart. Turns are cubic curves that leave and join the lines at their speed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats

MOST_LINES = 10_000


class FlightLines:
    """Motion of an aircraft along parallel lines; at rest at the ends of the flight.

    Args:
        area_m: Rectangle x0, y0, x1, y1 to cover [m].
        height_m: Height above `ground_m` [m].
        speed_m_s: Speed on the lines.
        half_angle_deg: Half angle of the swath that is planned with.
        overlap: Share of the swath that neighbouring lines have in common.
        heading_deg: Direction of the first line, counter-clockwise from x.
        turn_s: Duration of the curve between two lines.
        ground_m: Height of the ground that the swath is planned for.
        start_s: Time at the start of the first line.

    >>> flight = ph.FlightLines((0, 0, 1000, 400), height_m=300, speed_m_s=50, half_angle_deg=20, overlap=0.3)
    >>> flight
    <FlightLines: 3 lines, 152.9 m apart, 3 km in 80 s>
    >>> flight.line([10.0, 25.0]).tolist()
    [1, 0]
    """

    def __init__(
        self,
        area_m: tuple[float, float, float, float],
        *,
        height_m: float,
        speed_m_s: float,
        half_angle_deg: float,
        overlap: float = 0.3,
        heading_deg: float = 0.0,
        turn_s: float = 10.0,
        ground_m: float = 0.0,
        start_s: float = 0.0,
    ) -> None:
        numbers = [*area_m, height_m, speed_m_s, half_angle_deg, overlap, heading_deg, turn_s, ground_m, start_s]
        if len(area_m) != 4 or not np.all(np.isfinite(numbers)):
            raise ConfigError("flight lines: area_m must be x0, y0, x1, y1, and all numbers finite")
        if not (area_m[2] > area_m[0] and area_m[3] > area_m[1]):
            raise ConfigError(f"flight lines: area_m must be x0, y0, x1, y1 with x0 < x1 and y0 < y1, got {area_m}")
        if min(height_m, speed_m_s, turn_s) <= 0 or not 0 < half_angle_deg < 80 or not 0 <= overlap < 1:
            raise ConfigError(
                "flight lines: height_m, speed_m_s and turn_s must be above 0, half_angle_deg from 0 to 80, overlap "
                f"from 0 to below 1, got {height_m:g}, {speed_m_s:g}, {turn_s:g}, {half_angle_deg:g}, {overlap:g}"
            )
        heading = np.radians(heading_deg)
        along, across = np.array([np.cos(heading), np.sin(heading)]), np.array([-np.sin(heading), np.cos(heading)])
        low, high = np.array(area_m[:2]), np.array(area_m[2:])
        middle = 0.5 * (low + high)
        length, width = (float(np.sum(np.abs(axis) * (high - low))) for axis in (along, across))
        swath = 2.0 * height_m * float(np.tan(np.radians(half_angle_deg)))
        self.spacing_m = swath * (1.0 - overlap)
        """Distance of neighbouring lines [m]."""
        count = 1 + int(np.ceil(max(width - swath, 0.0) / self.spacing_m - 1e-9))
        if count > MOST_LINES:
            raise ConfigError(f"flight lines: {count} lines; at most {MOST_LINES} are supported")
        place = self.spacing_m * (np.arange(count) - 0.5 * (count - 1))
        self._sense = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)
        centre = middle + place[:, None] * across
        ends = np.stack([centre - 0.5 * length * along, centre + 0.5 * length * along], axis=1)
        ends[1::2] = ends[1::2, ::-1]
        self.ends = np.concatenate([ends, np.full((count, 2, 1), ground_m + height_m)], axis=2)
        """Start and end of each line, shape (lines, 2, 3) [m]."""
        self._along = np.append(along, 0.0)
        self._heading, self.speed_m_s, self._length, self._turn_s = heading, speed_m_s, length, turn_s
        self._flown_s = length / speed_m_s
        self.starts_s = start_s + np.arange(count) * (self._flown_s + turn_s)
        """Start time of each line [s]."""

    @property
    def end_s(self) -> float:
        """Time at the end of the last line [s]."""
        return float(self.starts_s[-1] + self._flown_s)

    def line(self, times: ArrayLike) -> NDArray[np.int64]:
        """Number of the line at `times` (n,) [s], from 1; 0 in turns, and before and after the flight."""
        t = np.asarray(times, dtype=np.float64)
        row = np.searchsorted(self.starts_s, t, side="right")
        on_line = (row > 0) & (t <= self.starts_s[np.maximum(row, 1) - 1] + self._flown_s)
        return np.where(on_line, row, 0)

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Return positions (n, 3) [m] and quaternions (n, 4) at times (n,) [s]."""
        t = np.clip(np.asarray(times, dtype=np.float64), self.starts_s[0], self.end_s)
        row = np.searchsorted(self.starts_s, t, side="right") - 1
        since = t - self.starts_s[row]
        sense = self._sense[row]
        xyz = self.ends[row, 0] + (np.minimum(since, self._flown_s) * self.speed_m_s * sense)[:, None] * self._along
        # In turns, u runs from 0 to 1: a Hermite curve between the ends of two lines, of equal and opposite velocity.
        u = np.clip((since - self._flown_s) / self._turn_s, 0.0, 1.0)[:, None]
        after = self.ends[np.minimum(row + 1, len(self.ends) - 1), 0]
        speed = (self.speed_m_s * self._turn_s * sense)[:, None] * self._along
        xyz = xyz + (after - self.ends[row, 1]) * (u * u * (3.0 - 2.0 * u)) + speed * (u * (1.0 - u))
        yaw = self._heading + np.where(sense > 0, 0.0, np.pi) + np.pi * sense * (u * u * (3.0 - 2.0 * u))[:, 0]
        quat = np.zeros((len(t), 4))
        quat[:, 2], quat[:, 3] = np.sin(0.5 * yaw), np.cos(0.5 * yaw)
        return xyz, quat

    def __repr__(self) -> str:
        total = len(self.ends) * self._length / 1000.0
        seconds = self.end_s - self.starts_s[0]
        return f"<FlightLines: {len(self.ends)} lines, {self.spacing_m:.1f} m apart, {total:g} km in {seconds:g} s>"


def flight_of(motion: Any) -> FlightLines | None:
    """Flight lines of a motion, also of a sensor mounted on an aircraft; None for other motions."""
    while motion is not None and not isinstance(motion, FlightLines):
        motion = getattr(motion, "body", None)
    return motion
