"""Rows of a layout for rules: things at a pose, things of their natural size, and lists without clashes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.world.procedural.checks import TOUCH_M
from parhelion.world.procedural.footprints import footprints, near_pairs, overlap_depth
from parhelion.world.procedural.kinds import Params
from parhelion.world.procedural.layout import Layout, LayoutObject, LayoutPose
from parhelion.world.procedural.town_parts import natural_size


def placed(
    kind: str, name: str, xyz: Sequence[SupportsFloat], yaw_deg: SupportsFloat, size: Sequence[float], params: Params
) -> LayoutObject:
    """A thing at `xyz` [m], turned by `yaw_deg`."""
    x, y, z = (float(value) for value in xyz)
    pose = LayoutPose(xyz=(x, y, z), yaw_deg=float(yaw_deg))
    length, width, height = size
    return LayoutObject(kind=kind, name=name, pose=pose, size=(length, width, height), params=params)


def natural(
    kind: str, name: str, xyz: Sequence[SupportsFloat], yaw_deg: SupportsFloat, params: Params = Params()
) -> LayoutObject:
    """A thing of the size that its maker gives it."""
    return placed(kind, name, xyz, yaw_deg, natural_size(kind, params), params)


def whole(rule: str, name: str, value: Any, low: int, high: int) -> int:
    """A parameter that must be a whole number within a range."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= high:
        raise ConfigError(f"{rule}: {name} must be a whole number from {low} to {high}, got {value!r}")
    return int(value)


def number(rule: str, name: str, value: Any, low: float, high: float) -> float:
    """A parameter that must be a number within a range."""
    good = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not good or not low <= value <= high:
        raise ConfigError(f"{rule}: {name} must be a number from {low:g} to {high:g}, got {value!r}")
    return float(value)


def pair(rule: str, name: str, value: Any, low: tuple[float, float], high: float) -> tuple[float, float]:
    """A parameter that must be a length and a width, each from its own least value on."""
    try:
        first, second = value
    except (TypeError, ValueError):
        raise ConfigError(f"{rule}: {name} must be a length and a width, got {value!r}") from None
    return number(rule, f"{name}[0]", first, low[0], high), number(rule, f"{name}[1]", second, low[1], high)


def without_clashes(objects: Sequence[LayoutObject], size: tuple[float, float]) -> list[LayoutObject]:
    """The things without those that would share room with an earlier one, or reach beyond the plan of `size` [m]."""
    layout = Layout(size=size, objects=tuple(objects))
    things = footprints(layout)
    dropped = set(things.row[(np.abs(things.middle) + things.reach > np.array(size) / 2 + TOUCH_M).any(axis=1)])
    first, second = near_pairs(things)
    upright = np.minimum(things.high[first], things.high[second]) - np.maximum(things.low[first], things.low[second])
    clash = np.minimum(overlap_depth(things, first, second), upright) > TOUCH_M
    rows = np.sort(np.stack([things.row[first[clash]], things.row[second[clash]]], axis=1), axis=1)
    # By the later thing of each pair, so that whether the earlier one stays is known before it is asked.
    for before, after in rows[np.argsort(rows[:, 1], kind="stable")]:
        if before not in dropped:
            dropped.add(after)
    return [thing for row, thing in enumerate(objects) if row not in dropped]
