"""Which things of a world stand for good, which could be moved, and which move by themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from parhelion.core.errors import ConfigError
from parhelion.world.parts import WorldObject
from parhelion.world.world import World

Mobility = Literal["static", "movable", "dynamic"]
"""Built in; stands but may be carried away (a pallet, a parked car); moves by itself (a person, a car that drives)."""


def mobility_table(world: World) -> dict[int, str]:
    """The world's table `mobility` by instance number, begun where the world has none yet."""
    table: dict[int, str] = vars(world).setdefault("mobility", {})
    return table


def set_mobility(world: World, instance: int, mobility: Mobility) -> None:
    """Enter an instance in the table."""
    if mobility not in get_args(Mobility):
        raise ConfigError(f"mobility: must be one of {', '.join(get_args(Mobility))}, got {mobility!r}")
    mobility_table(world)[int(instance)] = mobility


def mobility_of(world: World, instance: int, items: Iterable[WorldObject] | None = None) -> Mobility:
    """What the table says of an instance; without an entry, actors are dynamic and all else is static.

    `items` are the instance's objects, for callers that have them at hand.
    """
    known = vars(world).get("mobility", {}).get(int(instance))
    if known is not None:
        return known
    if items is None:
        items = [item for item in world.objects if item.instance == instance]
    moves = any(item.is_actor for item in items)
    return "dynamic" if moves else "static"
