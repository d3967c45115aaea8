"""A harbour basin: a canal between granite quays, moored vessels, an arched bridge, warehouses and cranes."""

from __future__ import annotations

from parhelion.world.procedural.build import LayoutWorld, world_of
from parhelion.world.procedural.harbour import harbour


def build(
    seed: int = 0,
    *,
    length_m: float = 300.0,
    width_m: float = 50.0,
    bridge: bool = True,
    vessels: int | None = None,
    cranes: int | None = None,
    bollard_spacing_m: float = 12.0,
    ripple_height: float = 0.012,
    people: int = 16,
    trees: int = 14,
) -> LayoutWorld:
    """The world of `parhelion.world.procedural.harbour`; its layout is kept as `world.layout`."""
    layout = harbour(
        length_m,
        width_m,
        bridge=bridge,
        vessels=vessels,
        cranes=cranes,
        bollard_spacing_m=bollard_spacing_m,
        ripple_height=ripple_height,
        people=people,
        trees=trees,
        seed=seed,
    )
    return world_of(layout)
