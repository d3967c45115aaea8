"""A warehouse with rack rows, aisles, doors and floor places, drawn anew for every seed."""

from __future__ import annotations

import numpy as np

from parhelion.world.procedural.build import LayoutWorld, world_of
from parhelion.world.procedural.warehouse import warehouse


def build(
    seed: int = 0,
    *,
    size_m: tuple[float, float] = (40.0, 25.0),
    rack_rows: int | None = None,
    aisle_m: float = 3.0,
    density: float = 0.7,
    roof: bool = True,
) -> LayoutWorld:
    """The world of `parhelion.world.procedural.warehouse`; its layout is kept as `world.layout`."""
    layout = warehouse(size_m, rack_rows=rack_rows, aisle_m=aisle_m, density=density, roof=roof, seed=seed)
    world = world_of(layout)
    if roof:
        _light(world)
    return world


def _light(world: LayoutWorld) -> None:
    """High-bay lamps below the roof, every 8 m, of 13 000 lm each: some 200 lx on the floor (round figures)."""
    bounds = world.bounds
    assert bounds is not None  # it has a floor
    low, high = bounds
    spans = [np.linspace(a, b, max(2, round((b - a) / 8.0)) + 1) for a, b in zip(low[:2], high[:2], strict=True)]
    for x in 0.5 * (spans[0][1:] + spans[0][:-1]):
        for y in 0.5 * (spans[1][1:] + spans[1][:-1]):
            world.add_lamp(
                (float(x), float(y), float(high[2]) - 0.4),
                inner_deg=35.0,
                outer_deg=75.0,
                flux_lm=13_000.0,
                colour_temperature_k=4000.0,
                lit="always",
            )
