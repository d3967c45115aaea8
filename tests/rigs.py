"""Small sensors and worlds whose answers are known in closed form."""

from __future__ import annotations

from typing import Any

import parhelion as ph
from parhelion.core.config import parse
from parhelion.sensors.optics.lidar.config import LidarConfig

OPEN_AT_1_M = [(0.9, 0.0), (1.0, 1.0)]
"""Overlap that hides only the nearest metre, so that the effects of surfaces and air are unmodified beyond it."""


def sheet(**sections: Any) -> LidarConfig:
    """Data sheet of a plain lidar: 21 x 5 beams within a few degrees, no noise terms; sections override fields."""
    data: dict[str, Any] = {
        "name": "rig",
        "wavelength_nm": 905,
        "pattern": {
            "kind": "raster", "rate_hz": 10, "azimuth_deg": (-5, 5), "elevation_deg": (-1, 1), "columns": 21, "rows": 5,
        },
        "beam": {"divergence_mrad": (0, 0), "sub_rays": 1},
        "range": {
            "min_m": 0.1, "max_m": 300, "rated": [{"reflectance": 0.9, "range_m": 100}], "overlap": OPEN_AT_1_M,
        },
        "receiver": {"returns": "strongest", "merge_distance_m": 1.0, "threshold_to_noise": 6},
        "noise": {},
        "intensity": {"scale": "reflectance"},
        "sources": [{"title": "made for tests", "covers": ["pattern"]}],
    }  # fmt: skip
    for name, values in sections.items():
        data[name] = {**data[name], **values} if isinstance(data.get(name), dict) and "kind" not in values else values
    return parse(LidarConfig, data, "rig")


def one_beam(**sections: Any) -> LidarConfig:
    """The same data sheet with a single beam along x."""
    pattern = {
        "kind": "raster", "rate_hz": 10, "azimuth_deg": (0, 0), "elevation_deg": (0, 0), "columns": 1, "rows": 1,
    }  # fmt: skip
    return sheet(**{"pattern": pattern, **sections})


def many_beams(count: int, **sections: Any) -> LidarConfig:
    """`count` identical beams along x, for statistics."""
    pattern = {
        "kind": "raster", "rate_hz": 10, "azimuth_deg": (0, 1e-9), "elevation_deg": (0, 0), "columns": count, "rows": 1,
    }  # fmt: skip
    return sheet(**{"pattern": pattern, **sections})


def wall(distance: float, material: str = "lambert-50", *, size: float = 50.0, turn_deg: float = 0.0) -> ph.World:
    """Board that faces the origin, with its near face at `distance` on the x axis, rotated about the vertical."""
    world = ph.World()
    add_wall(world, distance, material, size=size, turn_deg=turn_deg)
    return world


def add_wall(
    world: ph.World, distance: float, material: str, *, size: float = 50.0, turn_deg: float = 0.0, y: float = 0.0
) -> None:
    """Add one more such board."""
    vertices, faces = ph.shapes.plane(size, size).vertices, ph.shapes.plane(size, size).faces
    # The level plane faces up; pitched by -90 degrees it faces -x.
    world.add(
        (vertices, faces), material=material, label="board",
        pose=ph.Pose((distance, y, 0), rpy_deg=(0, 0, turn_deg)) @ ph.Pose(rpy_deg=(0, -90, 0)),
    )  # fmt: skip


def post_and_hedge() -> ph.World:
    """World with ground, a thin post at 6 m and a hedge at 14 m."""
    world = ph.World()
    world.add(ph.shapes.box(80, 80, 0.2), material="concrete", pose=ph.Pose(xyz=(0, 0, -2)))
    world.add(ph.shapes.box(0.2, 0.2, 6), material="concrete", pose=ph.Pose(xyz=(6, 1, 0)))
    world.add(ph.shapes.box(1, 40, 8), material="grass", pose=ph.Pose(xyz=(14, 0, 0)))
    return world
