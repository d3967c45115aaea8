"""Open country with boulders, bushes, some trees and a trail, drawn anew for every seed."""

from __future__ import annotations

from parhelion.world.procedural.build import LayoutWorld, world_of
from parhelion.world.procedural.countryside import offroad


def build(
    seed: int = 0,
    *,
    size_m: tuple[float, float] = (120.0, 80.0),
    roughness_m: float = 2.0,
    hurst: float = 0.75,
    trees_per_ha: float = 30.0,
    rocks_per_ha: float = 120.0,
    bushes_per_ha: float = 80.0,
    trail: bool = True,
    height_map: str | None = None,
    height_range_m: tuple[float, float] | None = None,
) -> LayoutWorld:
    """The world of `parhelion.world.procedural.countryside`; its layout is kept as `world.layout`."""
    layout = offroad(
        size_m,
        roughness_m=roughness_m,
        hurst=hurst,
        trees_per_ha=trees_per_ha,
        rocks_per_ha=rocks_per_ha,
        bushes_per_ha=bushes_per_ha,
        trail=trail,
        height_map=height_map,
        height_range_m=height_range_m,
        seed=seed,
    )
    return world_of(layout)
