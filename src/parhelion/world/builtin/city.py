"""A city: a grid of streets with sidewalks, corner buildings, parked cars, trees and all that stands about."""

from __future__ import annotations

from parhelion.world.procedural.build import LayoutWorld, world_of
from parhelion.world.procedural.city import city


def build(
    seed: int = 0,
    *,
    blocks: int = 4,
    cars: int = 52,
    trees: int = 84,
    people: int = 30,
    signs: int | None = None,
    target_triangles: int | None = None,
) -> LayoutWorld:
    """The world of `parhelion.world.procedural.city`; its layout is kept as `world.layout`."""
    layout = city(
        blocks, cars=cars, trees=trees, people=people, signs=signs, target_triangles=target_triangles, seed=seed
    )
    return world_of(layout)
