"""Places on the lanes of a world from OpenDRIVE: where a lane is, what lies beside it, and what follows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.world.roads.lanes import LaneGraph
from parhelion.world.roads.shape import borders, headings, points

_FARTHEST_M = 2000.0
"""Distance along lanes within which another place is searched."""


class LaneMap:
    """Lanes of a graph by row and distance [m] from their start, in the direction of travel."""

    def __init__(self, graph: LaneGraph) -> None:
        if graph.network is None:
            raise ConfigError("the lanes have no roads; load the world from an OpenDRIVE file")
        self.graph, self.roads = graph, graph.network.roads
        self._rows = {lane.key: row for row, lane in enumerate(graph.lanes)}
        self._along: list[Floats] = []
        self._tangents: list[Floats] = []
        for lane in graph.lanes:
            self._along.append(_distances(lane.line))
            self._tangents.append(np.gradient(lane.line, self._along[-1], axis=0))
        self.length = np.array([along[-1] for along in self._along])
        self._index: Any = None

    def point(self, row: int, distance: float, left_m: float) -> tuple[Floats, Floats]:
        """Position (3,) and direction of travel (3,) at a distance along a lane, `left_m` [m] left of its centre."""
        along = self._along[row]
        line, tangents = self.graph.lanes[row].line, self._tangents[row]
        at = np.array([np.interp(distance, along, line[:, k]) for k in range(3)])
        ahead = np.array([np.interp(distance, along, tangents[:, k]) for k in range(3)])
        flat = np.hypot(ahead[0], ahead[1])
        return at + left_m * np.array([-ahead[1], ahead[0], 0.0]) / flat, ahead / np.linalg.norm(ahead)

    # ---- places of a file ------------------------------------------------------------------------------------------

    def forward(self, row: int) -> bool:
        """True if traffic on a lane moves along its road's reference line."""
        number, lane, _ = self._keyed(row)
        return (lane < 0) != self.roads[number].left_hand

    def _keyed(self, row: int) -> tuple[str, int, int]:
        number, section, lane = self.graph.lanes[row].key
        return number, lane, section

    def on_lane(self, road: str, lane: int, s: float) -> tuple[int, float] | None:
        """Row and distance of a station of a lane for vehicles; None for other lanes."""
        section = self._section(road, s)
        row = self._rows.get((road, section, lane))
        if row is None:
            return None
        part = self.roads[road].sections[section]
        share = (min(max(s, part.s), part.end) - part.s) / max(part.end - part.s, 1e-9)
        along = self._along[row]
        place = float(
            np.interp((share if self.forward(row) else 1.0 - share) * (len(along) - 1), np.arange(len(along)), along)
        )
        return row, place

    def _section(self, road: str, s: float) -> int:
        if road not in self.roads:
            known = ", ".join(list(self.roads)[:8])
            raise ConfigError(f"the world has no road {road!r}; it has, among others: {known}")
        starts = [part.s for part in self.roads[road].sections]
        return max(int(np.searchsorted(starts, s + 1e-6, side="right")) - 1, 0)

    def beside_road(self, road: str, s: float, t: float | None, lane: int = 0) -> tuple[Floats, float]:
        """Position (3,) and heading [rad] at a station, at `t` [m] or in the middle of a lane of any kind."""
        section = self.roads[road].sections[self._section(road, s)]
        at = np.array([min(max(s, 0.0), self.roads[road].length - 1e-6)])
        if t is None:
            if lane not in section.lanes:
                raise ConfigError(f"road {road!r} has no lane {lane} at {s:g} m")
            inner, outer = borders(self.roads[road], section, at)[lane]
            t = float(0.5 * (inner[0] + outer[0]))
        return points(self.roads[road], at, np.array([t]))[0], float(headings(self.roads[road], at)[0])

    def nearest(self, xyz: Floats, heading: float) -> tuple[int, float, float] | None:
        """Row, distance and offset to the left of the lane at a point that leads in a direction; None without one."""
        from scipy.spatial import cKDTree

        if self._index is None:
            lines = [lane.line for lane in self.graph.lanes]
            owner = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
            self._index = cKDTree(np.concatenate(lines)), owner
        tree, owner = self._index
        found: tuple[float, int, float, float] | None = None
        for row in dict.fromkeys(owner[tree.query_ball_point(xyz, 6.0)].tolist()):
            along = self._along[row]
            line = self.graph.lanes[row].line
            k = int(np.argmin(np.linalg.norm(line - xyz, axis=1)))
            ahead = self._tangents[row][k] / np.linalg.norm(self._tangents[row][k])
            gap = xyz - line[k]
            left = float(ahead[0] * gap[1] - ahead[1] * gap[0])
            turned = np.cos(np.arctan2(ahead[1], ahead[0]) - heading)
            if (
                turned > 0.5
                and abs(left) < 0.5 * self.graph.lanes[row].width_m + 0.5
                and (not found or abs(left) < found[0])
            ):
                found = abs(left), row, float(np.clip(along[k] + gap @ ahead, 0.0, along[-1])), left
        return None if found is None else found[1:]

    # ---- neighbours ------------------------------------------------------------------------------------------------

    def lateral(self, row: int, number: int, distance: float) -> tuple[int, float] | None:
        """Row and distance of the lane with a number on the same road, beside a place; None without one."""
        road, section, _ = self.graph.lanes[row].key
        other = self._rows.get((road, section, number))
        if other is None:
            return None
        share = distance / self.length[row]
        return other, float((share if self.forward(row) == self.forward(other) else 1.0 - share) * self.length[other])

    def number_beside(self, row: int, left: int) -> int:
        """Number of the lane that is `left` lanes to the left, in the direction of travel; 0 is no lane."""
        _, lane, _ = self._keyed(row)
        moved = lane + (left if self.forward(row) else -left)
        return moved if moved * lane > 0 else moved + (1 if moved > lane else -1)

    def follower(self, row: int) -> int | None:
        """Row of the lane that continues a lane most directly; None at an end."""
        after = self.graph.lanes[row].successors
        if not after:
            return None
        here = self._tangents[row][-1]
        ends = [self._tangents[other][-1] @ here for other in after]
        return after[int(np.argmax(ends))]

    def gap(self, row: int, distance: float, other_row: int, other: float, route: list[int]) -> float | None:
        """Distance [m] along lanes from one place to another that lies ahead on the route; None if it does not."""
        if row == other_row and other >= distance:
            return other - distance
        length, rest, now = self.length[row] - distance, list(route), row
        while length < _FARTHEST_M:
            after = rest.pop(0) if rest else self.follower(now)
            if after is None:
                return None
            if after == other_row:
                return float(length + other)
            length += self.length[after]
            now = after
        return None


def _distances(line: Floats) -> Floats:
    found: Floats = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])
    return found
