"""Objects of a layout for generators: at a pose, of their natural size, and without overlaps; checks of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.world.procedural.checks import TOUCH_M
from parhelion.world.procedural.footprints import footprints, interpenetrations
from parhelion.world.procedural.kinds import Params
from parhelion.world.procedural.layout import Layout, LayoutObject, LayoutPose
from parhelion.world.procedural.town_parts import natural_size


def placed(
    kind: str, name: str, xyz: Sequence[SupportsFloat], yaw_deg: SupportsFloat, size: Sequence[float], params: Params
) -> LayoutObject:
    """Return an object at `xyz` [m] with the heading `yaw_deg`."""
    x, y, z = (float(value) for value in xyz)
    pose = LayoutPose(xyz=(x, y, z), yaw_deg=float(yaw_deg))
    length, width, height = size
    return LayoutObject(kind=kind, name=name, pose=pose, size=(length, width, height), params=params)


def natural(
    kind: str, name: str, xyz: Sequence[SupportsFloat], yaw_deg: SupportsFloat, params: Params = Params()
) -> LayoutObject:
    """Return an object of its natural size."""
    return placed(kind, name, xyz, yaw_deg, natural_size(kind, params), params)


def number(field: str, value: Any, low: float, high: float) -> float:
    """Check that a parameter is a number within a range."""
    good = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not good or not low <= value <= high:
        raise ConfigError(f"{field}: must be a number from {low:g} to {high:g}, got {value!r}")
    return float(value)


def pair(field: str, value: Any, low: tuple[float, float], high: float) -> tuple[float, float]:
    """Check that a parameter is a length and a width, each at least its value in `low`."""
    try:
        first, second = value
    except (TypeError, ValueError):
        raise ConfigError(f"{field}: must be a length and a width, got {value!r}") from None
    return number(f"{field}[0]", first, low[0], high), number(f"{field}[1]", second, low[1], high)


def without_clashes(objects: Sequence[LayoutObject], size: tuple[float, float]) -> list[LayoutObject]:
    """Return the objects that overlap no earlier one and lie within the plan of `size` [m]."""
    obstacles = footprints(Layout(size=size, objects=tuple(objects)))
    beyond = (np.abs(obstacles.middle) + obstacles.reach > np.array(size) / 2 + TOUCH_M).any(axis=1)
    dropped = set(obstacles.row[beyond])
    first, second, _ = interpenetrations(obstacles, TOUCH_M)
    rows = np.sort(np.stack([obstacles.row[first], obstacles.row[second]], axis=1), axis=1)
    # Sorted by the later object of each pair, so that it is known whether the earlier one stays.
    for before, after in rows[np.argsort(rows[:, 1], kind="stable")]:
        if before not in dropped:
            dropped.add(after)
    return [item for row, item in enumerate(objects) if row not in dropped]
