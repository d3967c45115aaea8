"""Open country by rule: relief by a fractal rule or from a height map, boulders, some trees and bushes, a trail."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.random import Stream
from parhelion.world.procedural.heightmap import read_height_map
from parhelion.world.procedural.layout import Drive, Layout, LayoutObject, LayoutPose, Way
from parhelion.world.procedural.placing import number, pair, whole
from parhelion.world.procedural.relief import height_field
from parhelion.world.procedural.woods import TRACK_WIDTH_M, Plantation, winding_track


def offroad(
    size_m: tuple[float, float] = (120.0, 80.0),
    *,
    roughness_m: float = 2.0,
    hurst: float = 0.75,
    trees_per_ha: float = 30.0,
    rocks_per_ha: float = 120.0,
    bushes_per_ha: float = 80.0,
    trail: bool = True,
    height_map: str | PathLike[str] | ArrayLike | None = None,
    height_range_m: tuple[float, float] | None = None,
    seed: int = 0,
) -> Layout:
    """Open country of `size_m` (length, width, 20 to 1000 m) with a trail along x through the origin.

    `roughness_m` is the standard deviation of the heights (0 to 20 m), `hurst` their smoothness (0.1 jagged to 0.95
    smooth). `height_map` (a file or an array, see `read_height_map`) takes the place of the rule, `height_range_m`
    the heights of an image's black and white; heights then count from that of the origin. Trees (0 to 1500), boulders
    and bushes (0 to 3000) are counted per hectare. Without `trail` there is neither trail nor drive. The same seed
    gives the same layout.
    """
    length, width = pair("off-road", "size_m", size_m, 20.0, 1000.0)
    roughness = number("off-road", "roughness_m", roughness_m, 0.0, 20.0)
    smooth = number("off-road", "hurst", hurst, 0.1, 0.95)
    counts = {
        name: number("off-road", name, value, 0.0, most)
        for name, value, most in (
            ("trees_per_ha", trees_per_ha, 1500.0),
            ("rocks_per_ha", rocks_per_ha, 3000.0),
            ("bushes_per_ha", bushes_per_ha, 3000.0),
        )
    }
    if not isinstance(trail, (bool, np.bool_)):
        raise ConfigError(f"off-road: trail must be true or false, got {trail!r}")
    if height_map is None and height_range_m is not None:
        raise ConfigError("off-road: height_range_m is for a height_map: give that, too")
    seed = whole("off-road", "seed", seed, 0, 2**63 - 1)
    # Without a trail a few metres around the viewpoint are kept free.
    track = winding_track(Stream(seed, "world/off-road/trail").generator(), length, width) if trail else _HERE
    params: dict[str, Any] = {"material": "soil", "track_width_m": TRACK_WIDTH_M, "track": track if trail else ()}
    if height_map is None:
        params |= {
            "roughness_m": roughness,
            "hurst": smooth,
            "seed": int(Stream(seed, "world/off-road/ground").generator().integers(2**31)),
            "cell_m": max(0.5, round(float(np.sqrt(length * width)) / 400.0, 1)),
        }
    else:
        heights = read_height_map(height_map, range_m=height_range_m)
        params["heights_m"] = tuple(map(tuple, heights.tolist()))
    size = (length, width, 0.0)
    ground = LayoutObject(kind="terrain", name="ground", size=size, params=params)  # type: ignore[arg-type]
    if height_map is not None:
        level = round(float(height_field(ground).at(0.0, 0.0)), 4)
        ground = ground.model_copy(update={"pose": LayoutPose(xyz=(0.0, 0.0, -level + 0.0))})
    plan = Plantation(np.array([length, width]), np.array(track), height_field(ground), ground.pose.xyz[2], "off-road")
    hectares = length * width / 1e4
    objects = [
        ground,
        *plan.trees(_stream(seed, "trees"), round(counts["trees_per_ha"] * hectares)),
        *plan.rocks(_stream(seed, "rocks"), round(counts["rocks_per_ha"] * hectares)),
        *plan.bushes(_stream(seed, "bushes"), round(counts["bushes_per_ha"] * hectares)),
    ]
    inner = tuple(point for point in track if abs(point[0]) <= length / 2 - 2.0)
    return Layout(
        name="off-road",
        seed=seed,
        size=(length, width),
        objects=tuple(objects),
        ways=(Way(name="trail", points=inner, width_m=TRACK_WIDTH_M),) if trail else (),
        drive=Drive(points=inner, speed_m_s=3.0, height_m=1.6) if trail else None,
        viewpoint=LayoutPose(xyz=(0.0, 0.0, 1.8)),
    )


_HERE = [(-2.0, 0.0), (2.0, 0.0)]


def _stream(seed: int, name: str) -> np.random.Generator:
    return Stream(seed, f"world/off-road/{name}").generator()
