"""Anchors: where a sensor's user put them, or those that stand in the world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.sensors.uwb.scene import HOUSING, RadioScene, housings
from parhelion.sensors.uwb.walls import wall_around
from parhelion.world.world import World

MOST_ANCHORS = 1000


@dataclass(frozen=True, eq=False)
class Anchors:
    """Names and places of anchors."""

    names: tuple[str, ...]
    xyz: Floats
    """Positions in the world [m], shape (a, 3)."""

    def __len__(self) -> int:
        return len(self.names)


def given_anchors(value: Any) -> Anchors:
    """Anchors as their user wrote them: positions by name, or a list of positions, or an array (a, 3)."""
    if isinstance(value, Anchors):
        return value
    if isinstance(value, Mapping):
        names, places = tuple(str(name) for name in value), list(value.values())
    elif isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str):
        places = list(value)
        names = tuple(f"anchor-{k}" for k in range(len(places)))
    else:
        raise ConfigError(f"anchors: give positions by name, or a list of positions, got {type(value).__name__}")
    if not places:
        raise ConfigError("anchors: there is none; give at least one position")
    if len(places) > MOST_ANCHORS:
        raise ConfigError(f"anchors: {len(places)} are more than {MOST_ANCHORS}")
    for name, place in zip(names, places, strict=True):
        try:
            point = np.asarray(place, dtype=np.float64)
        except (TypeError, ValueError):
            point = np.zeros(0)
        if point.shape != (3,) or not np.all(np.isfinite(point)):
            raise ConfigError(f"anchors: {name}: must be three finite coordinates in m, got {place!r}")
    found = np.array([np.asarray(place, dtype=np.float64) for place in places])
    if len(found) > 1 and np.ptp(found, axis=0).max() < 1e-3:
        raise ConfigError(f"anchors: all {len(found)} are at one place, so ranges to them give no position")
    return Anchors(names, found)


def anchors_of(world: World) -> Anchors:
    """The anchors that stand in a world; none in a world with nothing in it."""
    found = housings(world)
    if not found and world.objects:
        raise ConfigError(
            f"anchors: none were given, and the world has none (objects whose names begin with {HOUSING!r})"
        )
    return Anchors(tuple(found), np.array(list(found.values())).reshape(-1, 3))


def check_places(radio: RadioScene, anchors: Anchors) -> None:
    """Raise ConfigError where an anchor is inside of a wall."""
    for name, place in zip(anchors.names, anchors.xyz, strict=True):
        wall = wall_around(radio, place)
        if wall is not None:
            at = ", ".join(f"{value:g}" for value in place)
            raise ConfigError(f"anchors: {name} at ({at}) m is inside of {wall!r}; move it out of the wall")
