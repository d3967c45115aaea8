"""Generators of forests and of open country: terrain with a track, trees at a given density, bushes, boulders.

Dimensions are round figures: trees of 5 to 22 m, trunk radii of 1.2 % of the height, about one conifer in three trees,
in patches.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.checks import whole
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.core.random import Stream
from parhelion.world.procedural.footprints import along_line, to_line
from parhelion.world.procedural.heightmap import read_height_map
from parhelion.world.procedural.layout import Layout, LayoutObject, LayoutPose, Passage, PlannedDrive
from parhelion.world.procedural.placing import number, pair
from parhelion.world.procedural.relief import HeightField, height_field

TRACK_WIDTH_M = 3.2
VERGE_M = 0.9
"""Free width on each side of the track [m]."""
TREE_SPACING_M = 1.1
"""Smallest distance between the middles of two trees [m]."""
_EDGE_M = 1.2
"""Smallest distance of plants from the edge of the plan [m]."""
_FREE_BESIDE_M, _FREE_HEIGHT_M = 1.8, 3.4
"""Half width and height of the space above the track that is free of leaves [m]."""
_ROUNDS = 80
_TRUNK_SHARE = 0.012

Line = list[tuple[float, float]]


def forest(
    size_m: tuple[float, float] = (80.0, 80.0),
    *,
    density_per_ha: float = 500.0,
    roughness_m: float = 0.8,
    seed: int = 0,
) -> Layout:
    """Generate a forest with a track along x through the origin, where the ground is at z = 0.

    Args:
        size_m: Length and width [m], 20 to 1000.
        density_per_ha: Trees per hectare (10 000 m^2) of the plan, 0 to 1500; managed forests have 200 to 1000.
        roughness_m: Standard deviation of the height of the ground [m], 0 to 8.
        seed: The same seed gives the same layout.
    """
    length, width = pair("forest: size_m", size_m, (20.0, 20.0), 1000.0)
    density = number("forest: density_per_ha", density_per_ha, 0.0, 1500.0)
    roughness = number("forest: roughness_m", roughness_m, 0.0, 8.0)
    track = winding_track(Stream(seed, "world/forest/track").generator(), length, width)
    draw = int(Stream(seed, "world/forest/ground").generator().integers(2**31))
    params = {
        "roughness_m": roughness,
        "seed": draw,
        "track": tuple(track),
        "track_width_m": TRACK_WIDTH_M,
        "cell_m": _cell(length, width),
    }
    ground = LayoutObject(kind="terrain", name="ground", size=(length, width, 0.0), params=params)  # type: ignore[arg-type]
    trees = round(density * length * width / 1e4)
    counts = (trees, round(0.0025 * length * width), round(0.012 * length * width))
    return _country("forest", seed, ground, track, counts, "track")


def _cell(length: float, width: float) -> float:
    """Cell width of a terrain [m]: about 400 cells per side, and at least 0.5 m."""
    return max(0.5, round(float(np.sqrt(length * width)) / 400.0, 1))


def _country(
    rule: str, seed: int, ground: LayoutObject, track: Line, counts: tuple[int, int, int], way: str | None
) -> Layout:
    """Layout of a terrain with trees, boulders and bushes, `counts` of each; `way` is the name of the track."""
    length, width, _ = ground.size
    plan = Plantation(np.array([length, width]), np.array(track), height_field(ground), ground.pose.xyz[2], rule)
    trees, rocks, bushes = (Stream(seed, f"world/{rule}/{name}").generator() for name in ("trees", "rocks", "bushes"))
    objects = (ground, *plan.trees(trees, counts[0]), *plan.rocks(rocks, counts[1]), *plan.bushes(bushes, counts[2]))
    inner = tuple(point for point in track if abs(point[0]) <= length / 2 - 2.0)
    return Layout(
        name=rule,
        seed=seed,
        size=(length, width),
        objects=objects,
        ways=() if way is None else (Passage(name=way, points=inner, width_m=TRACK_WIDTH_M),),
        drive=None if way is None else PlannedDrive(points=inner, speed_m_s=3.0, height_m=1.6),
        viewpoint=LayoutPose(xyz=(0.0, 0.0, 1.8)),
    )


def winding_track(rng: np.random.Generator, length: float, width: float) -> Line:
    """Points of a winding, drivable line along x through the origin, at least 5 m from the long edges."""
    pieces = max(8, round(length / 2.0))
    x = np.linspace(-length / 2, length / 2, 2 * (pieces // 2) + 1)
    y = np.zeros(len(x))
    for period, share in ((1.1 * max(length, 40.0), 0.24), (0.47 * max(length, 40.0), 0.07)):
        # The amplitude limits the slope, independently of the width of the plan.
        height = min(share * width, 0.13 * period)
        phase = rng.uniform(0.0, 2 * np.pi)
        y += rng.uniform(0.6, 1.0) * height * (np.sin(2 * np.pi * x / period + phase) - np.sin(phase))
    far = np.abs(y).max()
    y *= min(1.0, (width / 2 - 5.0) / far)
    return [(round(float(a), 3), round(float(b), 3)) for a, b in zip(x, y, strict=True)]


class Plantation:
    """Plants on a height field whose frame is at the height `base_m` [m]; `rule` is for messages."""

    def __init__(self, size: Floats, track: Floats, field: HeightField, base_m: float, rule: str) -> None:
        self._base = base_m
        self._rule = rule
        self._half = size / 2 - _EDGE_M
        self._track = along_line(track, 2.0)
        self._field = field
        self._xy: list[Floats] = []
        self._radius: list[Floats] = []

    def _places(self, rng: np.random.Generator, radius: Floats, gap_m: float, what: str) -> Floats:
        """Positions (n, 2) of discs with the given radii, at least `gap_m` from each other and from earlier ones.

        Random positions are drawn in rounds; of two that are too close, the first stays (a hard-core process, Matern
        1960).
        """
        from scipy.spatial import cKDTree

        count = len(radius)
        found = np.zeros((count, 2))
        open_rows: NDArray[np.intp] = np.arange(count)
        for _ in range(_ROUNDS):
            if len(open_rows) == 0:
                break
            at = np.round(rng.uniform(-self._half, self._half, (len(open_rows), 2)), 3)
            mine = radius[open_rows]
            good = np.all(np.abs(at) + mine[:, None] <= self._half + _EDGE_M, axis=1)
            good &= to_line(at, self._track)[0] > TRACK_WIDTH_M / 2 + VERGE_M + mine
            settled, reach = np.concatenate([*self._xy, at]), np.concatenate([*self._radius, mine])
            before = len(settled) - len(at)
            pairs = cKDTree(settled).query_pairs(2 * float(reach.max()) + gap_m, output_type="ndarray")
            pairs = pairs[pairs[:, 1] >= before]
            apart = np.hypot(*(settled[pairs[:, 0]] - settled[pairs[:, 1]]).T)
            clash = pairs[apart < reach[pairs[:, 0]] + reach[pairs[:, 1]] + gap_m]
            good[clash[:, 1] - before] = False
            rows = open_rows[good]
            found[rows] = at[good]
            self._xy.append(at[good])
            self._radius.append(mine[good])
            open_rows = open_rows[~good]
        if len(open_rows):
            raise ConfigError(
                f"{self._rule}: there is no space for {count} {what} in this plan; lower their number or enlarge size_m"
            )
        return found

    def _poses(self, rng: np.random.Generator, places: Floats, sink: Floats) -> list[LayoutPose]:
        z = self._base + self._field.at(places[:, 0], places[:, 1]) - sink
        yaw = rng.uniform(0.0, 360.0, len(places))
        return [
            LayoutPose(xyz=(x, y, round(h, 3)), yaw_deg=round(angle, 1))
            for x, y, h, angle in zip(*(v.tolist() for v in (*places.T, z, yaw)), strict=True)
        ]

    def trees(self, rng: np.random.Generator, count: int) -> list[LayoutObject]:
        """Trees of all ages; tall ones are rarer."""
        height = np.round(5.0 + 17.0 * rng.beta(2.0, 2.5, count), 2)
        radius = np.round(_TRUNK_SHARE * height + rng.uniform(0.0, 0.05, count), 3)
        gap = max(0.1, TREE_SPACING_M - 2 * float(radius.max(initial=0.0)))
        places = self._places(rng, radius, gap, "trees")
        # Conifers stand in patches: a wave over the plan modulates their probability.
        wave = np.sin(places @ rng.normal(0.0, 0.09, 2) + rng.uniform(0.0, 2 * np.pi))
        conifer = rng.uniform(size=count) < 0.35 + 0.3 * wave
        crown = np.round(height * np.where(conifer, rng.uniform(0.22, 0.3, count), rng.uniform(0.3, 0.45, count)), 2)
        clear = np.round(np.where(conifer, rng.uniform(0.05, 0.25, count), rng.uniform(0.25, 0.45, count)), 2)
        # Crowns above the track leave space for vehicles.
        over = to_line(places, self._track)[0] - crown / 2 < _FREE_BESIDE_M
        clear = np.where(over, np.maximum(clear, np.ceil(100.0 * _FREE_HEIGHT_M / height) / 100.0), clear)
        draw = rng.integers(2**31, size=count)
        poses = self._poses(rng, places, np.full(count, 0.05))
        params = [
            {
                "species": "conifer" if conifer[k] else "broadleaf",
                "trunk_radius_m": float(radius[k]),
                "clear_trunk_share": float(clear[k]),
                "seed": int(draw[k]),
            }
            for k in range(count)
        ]
        return _items_of_kind("tree", poses, crown, height, params)

    def rocks(self, rng: np.random.Generator, count: int) -> list[LayoutObject]:
        """Boulders of 0.3 to 1.8 m, a quarter of their height in the ground."""
        across = np.round(0.3 + 1.5 * rng.beta(1.2, 3.0, count), 2)
        flat = np.round(across * rng.uniform(0.5, 0.9, count), 2)
        places = self._places(rng, across / 2, 0.1, "boulders")
        poses = self._poses(rng, places, 0.25 * flat)
        draw = rng.integers(2**31, size=count)
        return _items_of_kind("rock", poses, across, flat, [{"seed": int(one)} for one in draw])

    def bushes(self, rng: np.random.Generator, count: int) -> list[LayoutObject]:
        """Bushes of 0.5 to 1.6 m."""
        across = np.round(rng.uniform(0.5, 1.6, count), 2)
        tall = np.round(across * rng.uniform(0.6, 1.1, count), 2)
        places = self._places(rng, across / 2, 0.05, "bushes")
        poses = self._poses(rng, places, np.full(count, 0.05))
        draw = rng.integers(2**31, size=count)
        return _items_of_kind("bush", poses, across, tall, [{"seed": int(one)} for one in draw])


def _items_of_kind(
    kind: str, poses: list[LayoutPose], across: Floats, height: Floats, params: list[dict[str, Any]]
) -> list[LayoutObject]:
    """Objects of one kind with equal length and width."""
    sizes = zip(across.tolist(), across.tolist(), height.tolist(), strict=True)
    return [
        LayoutObject(kind=kind, name=f"{kind}-{k}", pose=pose, size=size, params=entry)  # type: ignore[arg-type]
        for k, (pose, size, entry) in enumerate(zip(poses, sizes, params, strict=True))
    ]


# ---- offroad --------------------------------------------------------------------------------------------------------
# Open country: fractal relief or a height map, boulders, some trees and bushes, a trail.


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
    """Generate open country with a trail along x through the origin.

    Args:
        size_m: Length and width [m], 20 to 1000.
        roughness_m: Standard deviation of the heights [m], 0 to 20.
        hurst: Smoothness of the heights, from 0.1 (jagged) to 0.95 (smooth).
        trees_per_ha: Trees per hectare, 0 to 1500.
        rocks_per_ha: Boulders per hectare, 0 to 3000.
        bushes_per_ha: Bushes per hectare, 0 to 3000.
        trail: False for neither trail nor drive.
        height_map: File or array (see `read_height_map`) that replaces the fractal relief; heights are then relative
            to that of the origin.
        height_range_m: Heights of black and white in an image [m].
        seed: The same seed gives the same layout.
    """
    length, width = pair("off-road: size_m", size_m, (20.0, 20.0), 1000.0)
    roughness = number("off-road: roughness_m", roughness_m, 0.0, 20.0)
    smooth = number("off-road: hurst", hurst, 0.1, 0.95)
    counts = {
        name: number(f"off-road: {name}", value, 0.0, most)
        for name, value, most in (
            ("trees_per_ha", trees_per_ha, 1500.0),
            ("rocks_per_ha", rocks_per_ha, 3000.0),
            ("bushes_per_ha", bushes_per_ha, 3000.0),
        )
    }
    if not isinstance(trail, (bool, np.bool_)):
        raise ConfigError(f"off-road: trail must be true or false, got {trail!r}")
    if height_map is None and height_range_m is not None:
        raise ConfigError("off-road: height_range_m is for a height_map: give height_map as well")
    seed = whole("off-road: seed", seed, 0, 2**63 - 1)
    # Without a trail, a few metres around the viewpoint are free.
    track = winding_track(Stream(seed, "world/off-road/trail").generator(), length, width) if trail else _HERE
    params: dict[str, Any] = {"material": "soil", "track_width_m": TRACK_WIDTH_M, "track": track if trail else ()}
    if height_map is None:
        params |= {
            "roughness_m": roughness,
            "hurst": smooth,
            "seed": int(Stream(seed, "world/off-road/ground").generator().integers(2**31)),
            "cell_m": _cell(length, width),
        }
    else:
        heights = read_height_map(height_map, range_m=height_range_m)
        params["heights_m"] = tuple(map(tuple, heights.tolist()))
    size = (length, width, 0.0)
    ground = LayoutObject(kind="terrain", name="ground", size=size, params=params)  # type: ignore[arg-type]
    if height_map is not None:
        level = round(float(height_field(ground).at(0.0, 0.0)), 4)
        ground = ground.model_copy(update={"pose": LayoutPose(xyz=(0.0, 0.0, -level + 0.0))})
    hectares = length * width / 1e4
    trees, rocks, bushes = (round(count * hectares) for count in counts.values())
    return _country("off-road", seed, ground, track, (trees, rocks, bushes), "trail" if trail else None)


_HERE = [(-2.0, 0.0), (2.0, 0.0)]
