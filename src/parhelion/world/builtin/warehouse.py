"""A warehouse with rack rows, aisles, doors and floor places, drawn anew for every seed."""

from __future__ import annotations

from parhelion.world.procedural.build import LayoutWorld, world_of
from parhelion.world.procedural.hall import warehouse


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
    return world_of(layout)
