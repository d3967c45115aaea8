"""Small layouts of every generator, and objects for layouts written by hand."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

from parhelion.world.procedural import Layout, LayoutObject, LayoutPose, city, forest, harbour, offroad, warehouse

RULES: dict[str, Any] = {
    "warehouse": lambda seed: warehouse((24.0, 16.0), seed=seed),
    "forest": lambda seed: forest((24.0, 24.0), density_per_ha=300.0, seed=seed),
    "city": lambda seed: city(2, cars=12, trees=8, people=6, seed=seed),
    "harbour": lambda seed: harbour(120.0, 36.0, people=5, trees=3, seed=seed),
    "off-road": lambda seed: offroad((40.0, 30.0), seed=seed),
}


@cache
def made(rule: str, seed: int = 0) -> Layout:
    layout: Layout = RULES[rule](seed)
    return layout


def layout_object(kind: str, x: float = 0.0, y: float = 0.0, size: Any = (1.0, 1.0, 1.0), **more: Any) -> LayoutObject:
    z, yaw = more.pop("z", 0.0), more.pop("yaw", 0.0)
    return LayoutObject(kind=kind, pose=LayoutPose(xyz=(x, y, z), yaw_deg=yaw), size=size, **more)


def layout(*objects: LayoutObject, size: tuple[float, float] = (20.0, 20.0), **more: Any) -> Layout:
    return Layout(name="test", size=size, objects=objects, **more)


def basin(*objects: LayoutObject, **more: Any) -> Layout:
    water = layout_object("basin", size=(60.0, 30.0, 1.6), params={"land_m": 20.0, "ends_m": 20.0})
    return Layout(size=(100.0, 70.0), objects=(water, *objects), **more)


def counts(layout: Layout) -> Counter[str]:
    return Counter(item.kind for item in layout.objects)
