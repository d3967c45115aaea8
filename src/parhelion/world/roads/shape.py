"""Borders of lanes, and points of a road in space."""

from __future__ import annotations

import numpy as np

from parhelion.core.pose import Floats
from parhelion.world.roads.reader import Road, RoadLane, Section

STRAIGHT_M, BEND_M = 5.0, 1.0
"""Steps of a mesh along straight and bent elements [m]; a step of 1 m leaves an arc of 20 m radius by 6 mm."""


def points(road: Road, s: Floats, t: Floats, up: Floats | float = 0.0) -> Floats:
    """Points (n, 3) [m] at stations s (n,) and distances t (n,) to the left of the reference line.

    Superelevation turns the cross-section about the reference line; `up` is perpendicular to it.
    """
    xy, heading = road.line.at(s)
    roll = road.superelevation(s)
    lift = np.broadcast_to(np.asarray(up, dtype=np.float64), s.shape)
    level = t * np.cos(roll) - lift * np.sin(roll)
    x = xy[:, 0] - np.sin(heading) * level
    y = xy[:, 1] + np.cos(heading) * level
    return np.column_stack([x, y, road.elevation(s) + t * np.sin(roll) + lift * np.cos(roll)])


def headings(road: Road, s: Floats) -> Floats:
    """Headings (n,) [rad] of the reference line."""
    return road.line.at(s)[1]


def borders(road: Road, section: Section, s: Floats) -> dict[int, tuple[Floats, Floats]]:
    """Inner and outer distance to the left of the reference line (n,) [m] of each lane of a section."""
    # The end of a section belongs to it: profiles may jump where the next one begins.
    s = np.minimum(s, section.end - 1e-7)
    offset = road.offset(s)
    found = {0: (offset, offset)}
    for sign in (1, -1):
        inner = offset
        for number in sorted((n for n in section.lanes if n * sign > 0), key=abs):
            lane = section.lanes[number]
            if lane.border is not None:
                outer = offset + sign * np.abs(lane.border(s))
            else:
                outer = inner + sign * np.maximum(lane.width(s), 0.0)
            found[number] = (inner, outer)
            inner = outer
    return found


def stations(road: Road, section: Section) -> Floats:
    """Stations of the mesh of a section: those of the reference line, and the starts of all profiles."""
    whole = road.line.stations(road.length, STRAIGHT_M, BEND_M)
    profiles = [road.elevation, road.superelevation, road.offset]
    profiles += [lane.width for lane in section.lanes.values()]
    inside = [whole]
    for profile in profiles:
        inside.append(profile.start)
        if not profile.is_straight:
            inside.append(np.arange(section.s, section.end, 2.0))
    inside += [np.array([mark.s for lane in section.lanes.values() for mark in lane.marks])]
    inside += [np.array([row[0] for lane in section.lanes.values() for row in lane.heights])]
    s = np.concatenate([*inside, [section.s, section.end]])
    # Stations are rounded to 1 um, so the last one may lie that much beyond the end.
    s = np.unique(np.clip(s[(s > section.s - 1e-5) & (s < section.end + 1e-5)], section.s, section.end))
    keep = np.concatenate([[True], np.diff(s) > 1e-4])
    return s[keep]


def lane_height(lane: RoadLane, s: Floats) -> tuple[Floats, Floats]:
    """Heights (n,) of the inner and outer border of a lane above the road [m]."""
    inner, outer = np.zeros(len(s)), np.zeros(len(s))
    for start, low, high in sorted(lane.heights):
        inner, outer = np.where(s >= start - 1e-9, low, inner), np.where(s >= start - 1e-9, high, outer)
    return inner, outer
