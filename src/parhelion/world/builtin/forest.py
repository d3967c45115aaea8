"""A forest on rolling ground with a track through it, drawn anew for every seed."""

from __future__ import annotations

from parhelion.world.procedural.build import LayoutWorld, world_of
from parhelion.world.procedural.countryside import forest


def build(
    seed: int = 0,
    *,
    size_m: tuple[float, float] = (80.0, 80.0),
    density_per_ha: float = 500.0,
    roughness_m: float = 0.8,
) -> LayoutWorld:
    """The world of `parhelion.world.procedural.forest`; its layout is kept as `world.layout`."""
    return world_of(forest(size_m, density_per_ha=density_per_ha, roughness_m=roughness_m, seed=seed))
