"""A city: a grid of streets with sidewalks, corner buildings, parked cars, trees and all that stands about."""

from __future__ import annotations

import numpy as np

from parhelion.world.procedural.build import LayoutWorld, world_of
from parhelion.world.procedural.city import city
from parhelion.world.procedural.countryside import forest, offroad
from parhelion.world.procedural.harbour import harbour
from parhelion.world.procedural.warehouse import warehouse


def build_city(
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


# ---- A forest on rolling ground with a track through it, drawn anew for every seed ----------------------------------


def build_forest(
    seed: int = 0,
    *,
    size_m: tuple[float, float] = (80.0, 80.0),
    density_per_ha: float = 500.0,
    roughness_m: float = 0.8,
) -> LayoutWorld:
    """The world of `parhelion.world.procedural.forest`; its layout is kept as `world.layout`."""
    return world_of(forest(size_m, density_per_ha=density_per_ha, roughness_m=roughness_m, seed=seed))


# ---- harbour --------------------------------------------------------------------------------------------------------
# A harbour basin: a canal between granite quays, moored vessels, an arched bridge, warehouses and cranes.


def build_harbour(
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


# ---- Open country with boulders, bushes, some trees and a trail, drawn anew for every seed --------------------------


def build_off_road(
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


# ---- A warehouse with rack rows, aisles, doors and floor places, drawn anew for every seed --------------------------


def build_warehouse(
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
