"""Procedural worlds, built from the layouts of `parhelion.world.procedural`, which are stored as `world.layout`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from parhelion.world.procedural.build import LayoutWorld, world_of
from parhelion.world.procedural.city import city
from parhelion.world.procedural.countryside import forest, offroad
from parhelion.world.procedural.harbour import harbour
from parhelion.world.procedural.layout import Layout
from parhelion.world.procedural.warehouse import warehouse


def _builder(rule: Callable[..., Layout], **types: Any) -> Callable[..., LayoutWorld]:
    """Return the builder of a generator's worlds; `types` replace types of parameters that files restrict."""

    @wraps(rule)
    def build(seed: int = 0, **params: Any) -> LayoutWorld:
        return world_of(rule(**params, seed=seed))

    build.__annotations__ = {**rule.__annotations__, **types}
    return build


build_city = _builder(city)
build_forest = _builder(forest)
build_harbour = _builder(harbour)
build_off_road = _builder(offroad, height_map=str | None)


@wraps(warehouse)
def build_warehouse(seed: int = 0, **params: Any) -> LayoutWorld:
    """Build the world of a warehouse; with a roof it has lamps."""
    world = world_of(warehouse(**params, seed=seed))
    if params.get("roof", True):
        _light(world)
    return world


def _light(world: LayoutWorld) -> None:
    """Add high-bay lamps below the roof, every 8 m, of 13 000 lm each: about 200 lx on the floor (round figures)."""
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
