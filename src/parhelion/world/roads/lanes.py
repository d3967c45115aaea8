"""Graph of lanes: centre lines, their successors through junctions, and routes for traffic."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.world.roads.reader import Connection, Link, Road, RoadNetwork, Section
from parhelion.world.roads.shape import borders, points

DRIVEN = {"driving", "entry", "exit", "onRamp", "offRamp", "connectingRamp", "bus", "taxi", "HOV", "bidirectional"}
"""Kinds of lanes for vehicles."""
DEFAULT_SPEED_M_S = 13.9
_STEP_M = 1.0
_SAME_M = 0.5
"""Largest gap between the end of a lane and the start of its successor [m]."""

Key = tuple[str, int, int]
"""Number of the road, row of the section, number of the lane."""


@dataclass(eq=False)
class Lane:
    """A lane of one section, in its direction of travel."""

    key: Key
    line: Floats
    """Centre line in the direction of travel, shape (n, 3) [m]."""
    width_m: float
    """Mean width."""
    speed_m_s: float
    """Speed limit, or 50 km/h without one."""
    in_junction: bool
    successors: list[int] = field(default_factory=list)
    """Rows of the lanes that follow."""

    @property
    def length_m(self) -> float:
        """Length of the centre line."""
        return float(np.linalg.norm(np.diff(self.line, axis=0), axis=1).sum())


@dataclass(eq=False)
class LaneGraph:
    """Lanes for vehicles, and how they follow each other: `world.lanes` of a world from OpenDRIVE."""

    lanes: list[Lane]
    network: RoadNetwork | None = None
    """Roads that the lanes belong to."""

    def row(self, road: str, lane: int, section: int = 0) -> int:
        """Row of a lane, by the numbers of its road, lane and section."""
        for row, entry in enumerate(self.lanes):
            if entry.key == (str(road), section, lane):
                return row
        known = ", ".join(f"{a}/{c}" for a, b, c in [entry.key for entry in self.lanes][:8])
        raise ConfigError(f"lanes: no lane {lane} on road {road!r}; it has, among others: {known}")

    def route(self, start: int, end: int) -> list[int]:
        """Rows of the lanes of the shortest route, both ends included."""
        found = self._shortest(start, end, cycle=False)
        if found is None:
            a, b = (self.lanes[row].key for row in (start, end))
            raise ConfigError(f"lanes: no route from lane {a[2]} of road {a[0]!r} to lane {b[2]} of road {b[0]!r}")
        return found

    def loop(self, start: int) -> list[int] | None:
        """Rows of the shortest closed route that begins with a lane; None without one."""
        return self._shortest(start, start, cycle=True)

    def _shortest(self, start: int, end: int, *, cycle: bool) -> list[int] | None:
        best: dict[int, float] = {}
        before: dict[int, int] = {}
        heap: list[tuple[float, int, int]] = []
        if cycle:
            heap = [(self.lanes[row].length_m, row, start) for row in self.lanes[start].successors]
        else:
            heap = [(0.0, start, -1)]
        heapq.heapify(heap)
        while heap:
            length, row, came = heapq.heappop(heap)
            if row in best:
                continue
            best[row], before[row] = length, came
            if row == end:
                path = [row]
                while before[path[-1]] != -1 and not (cycle and before[path[-1]] == start):
                    path.append(before[path[-1]])
                return [start, *path[::-1]][: -1 if cycle else None] if cycle else path[::-1]
            for after in self.lanes[row].successors:
                if after not in best:
                    heapq.heappush(heap, (length + self.lanes[after].length_m, after, row))
        return None

    def line(self, route: Sequence[int]) -> Floats:
        """Centre line (n, 3) [m] of lanes that follow each other, without repeated points."""
        rows = np.concatenate([self.lanes[row].line for row in route])
        keep = np.concatenate([[True], np.linalg.norm(np.diff(rows, axis=0), axis=1) > 0.2])
        return rows[keep]

    def loops(self) -> list[list[int]]:
        """Closed routes that together cover all lanes that lie on one, each lane covered as rarely as possible."""
        covered: set[int] = set()
        found = []
        order = sorted(range(len(self.lanes)), key=lambda row: (self.lanes[row].in_junction, -self.lanes[row].length_m))
        for row in order:
            if row in covered:
                continue
            loop = self.loop(row)
            if loop is not None:
                covered.update(loop)
                found.append(loop)
        return found

    def separate_loops(self) -> list[list[int]]:
        """Closed routes that share no lane, the longest first, for traffic that is independent on each of them."""
        used: set[int] = set()
        found = []
        for loop in sorted(self.loops(), key=lambda rows: (-sum(self.lanes[row].length_m for row in rows), rows)):
            if used.isdisjoint(loop):
                used.update(loop)
                found.append(loop)
        return found

    def closed_line(self, route: Sequence[int], spacing_m: float = 4.0) -> Floats:
        """Points (n, 3) [m] of a closed route, about `spacing_m` apart, for a motion that repeats."""
        line = self.line(route)
        closed = np.vstack([line, line[:1]])
        away = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
        count = max(4, round(float(away[-1]) / spacing_m))
        place = np.linspace(0.0, away[-1], count, endpoint=False)
        return np.column_stack([np.interp(place, away, closed[:, k]) for k in range(3)])


def lane_graph(network: RoadNetwork) -> LaneGraph:
    """Build the graph of the lanes for vehicles."""
    lanes: list[Lane] = []
    rows: dict[Key, int] = {}
    for road in network.roads.values():
        for k, section in enumerate(road.sections):
            for number, lane in section.lanes.items():
                if number == 0 or lane.kind not in DRIVEN:
                    continue
                line, width = _centre(road, section, number)
                if len(line) < 2:
                    continue
                rows[road.number, k, number] = len(lanes)
                speed = lane.speed_m_s or road.speed_m_s or DEFAULT_SPEED_M_S
                lanes.append(Lane((road.number, k, number), line, width, speed, road.in_junction))
    for road in network.roads.values():
        for key, other in _links(network, road):
            if key in rows and other in rows:
                a, b = lanes[rows[key]], lanes[rows[other]]
                # Links do not state the direction of travel: the lane whose end meets a start comes first.
                if _meet(a, b):
                    a.successors += [rows[other]] if rows[other] not in a.successors else []
                if _meet(b, a):
                    b.successors += [rows[key]] if rows[key] not in b.successors else []
    return LaneGraph(lanes, network)


def _meet(first: Lane, second: Lane) -> bool:
    return bool(np.linalg.norm(first.line[-1] - second.line[0]) < _SAME_M)


def _centre(road: Road, section: Section, number: int) -> tuple[Floats, float]:
    """Centre line of a lane in its direction of travel, and its mean width [m]."""
    length = section.end - section.s
    s = np.linspace(section.s, section.end, max(2, int(np.ceil(length / _STEP_M)) + 1))
    inner, outer = borders(road, section, s)[number]
    line = points(road, s, (inner + outer) / 2)
    forward = (number < 0) != road.left_hand
    return line if forward else line[::-1], float(np.abs(outer - inner).mean())


def _links(network: RoadNetwork, road: Road) -> Iterator[tuple[Key, Key]]:
    """Pairs of lanes that are linked: between sections, to the neighbours of the road, and through junctions."""
    last = len(road.sections) - 1
    for k, section in enumerate(road.sections):
        for number, lane in section.lanes.items():
            key = (road.number, k, number)
            if lane.after is not None:
                yield from _pair(
                    network, key, (road.number, k + 1, lane.after), road.after if k == last else None, k < last
                )
            if lane.before is not None:
                yield from _pair(
                    network, key, (road.number, k - 1, lane.before), road.before if k == 0 else None, k > 0
                )
    for connection in [one for rows in network.junctions.values() for one in rows if one.incoming == road.number]:
        yield from _through(network, road, connection)


def _pair(network: RoadNetwork, key: Key, inside: Key, link: Link | None, within: bool) -> Iterator[tuple[Key, Key]]:
    if within:
        yield key, inside
    elif link is not None and link.kind == "road" and link.number in network.roads:
        sections = network.roads[link.number].sections
        yield key, (link.number, 0 if link.contact == "start" else len(sections) - 1, inside[2])


def _through(network: RoadNetwork, road: Road, connection: Connection) -> Iterator[tuple[Key, Key]]:
    other = network.roads.get(connection.connecting)
    if other is None:
        return
    at_contact = 0 if connection.contact == "start" else len(other.sections) - 1
    # The junction is at the end of the road, or at its start.
    ends = [len(road.sections) - 1] if road.after and road.after.kind == "junction" else []
    ends += [0] if road.before and road.before.kind == "junction" else []
    for k in dict.fromkeys(ends or [len(road.sections) - 1, 0]):
        for start, end in connection.lanes:
            yield (road.number, k, start), (other.number, at_contact, end)
