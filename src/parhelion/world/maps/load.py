"""Loaders of maps, for `World.load`."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np

from parhelion.core.checks import within
from parhelion.core.errors import ConfigError
from parhelion.core.reading import file_reader
from parhelion.surfaces import library
from parhelion.world.maps import geojson, osm
from parhelion.world.maps.build import map_world
from parhelion.world.maps.features import Feature, RawMap, projected
from parhelion.world.maps.plane import MapGround
from parhelion.world.maps.sorting import MAIN_KEYS, MapOptions
from parhelion.world.maps.streets import BRIDGE_M
from parhelion.world.sources import GeoOrigin, Tally
from parhelion.world.world import World

Numbers = Sequence[float]


@file_reader(ConfigError)
def load_osm(
    path: str | PathLike[str],
    seed: int = 0,
    *,
    origin: tuple[float, ...] | None = None,
    terrain: str | None = None,
    terrain_range_m: tuple[float, float] | None = None,
    margin_m: float = 30.0,
    ground: str = "grass",
    trees_per_ha: float = 250.0,
    windows: bool = True,
    water_drop_m: float | None = None,
    bridge_m: float = BRIDGE_M,
) -> World:
    """Load a map of OpenStreetMap, as XML (.osm) or protocol buffers (.osm.pbf).

    Args:
        path: The file.
        seed: Seed of plants.
        origin: Latitude, longitude and optionally height of the origin of the world; by default the middle of the map.
        terrain: Heights of the ground: a GeoTIFF, or an image or table of heights that covers the map.
        terrain_range_m: Heights of black and white of an image [m].
        margin_m: Width of the ground around the features [m].
        ground: Material of ground without a feature.
        trees_per_ha: Trees per hectare of forest.
        windows: Whether walls have windows.
        water_drop_m: Height of the ground above all water [m]; by default 1.5 at quays, 1.0 at rivers, 0.3 elsewhere.
        bridge_m: Height of bridges above the ground, for each layer [m].
    """
    tally = Tally()
    raw = osm.read_osm(Path(path), tally)
    options = _options(path, margin_m, ground, trees_per_ha, windows, water_drop_m, bridge_m)
    return _world(Path(path), "OpenStreetMap", raw, seed, origin, True, terrain, terrain_range_m, options, tally)


@file_reader(ConfigError)
def load_geojson(
    path: str | PathLike[str],
    seed: int = 0,
    *,
    units: Literal["degrees", "metres"] = "degrees",
    untagged: Literal["omit", "building"] = "omit",
    origin: tuple[float, ...] | None = None,
    terrain: str | None = None,
    terrain_range_m: tuple[float, float] | None = None,
    margin_m: float = 30.0,
    ground: str = "grass",
    trees_per_ha: float = 250.0,
    windows: bool = True,
    water_drop_m: float | None = None,
    bridge_m: float = BRIDGE_M,
) -> World:
    """Load features from GeoJSON; properties are tags of OpenStreetMap, or the fields of Overture Maps.

    Args:
        path: The file.
        seed: Seed of plants.
        units: "degrees" for longitude and latitude (WGS 84), or "metres" for x and y.
        untagged: "building" for outlines without a supported tag, for files of building footprints.
        origin: Latitude and longitude (x and y in metres) of the origin of the world; by default the middle of the map.
        terrain: Heights of the ground: a GeoTIFF, or an image or table of heights that covers the map.
        terrain_range_m: Heights of black and white of an image [m].
        margin_m: Width of the ground around the features [m].
        ground: Material of ground without a feature.
        trees_per_ha: Trees per hectare of forest.
        windows: Whether walls have windows.
        water_drop_m: Height of the ground above all water [m]; by default 1.5 at quays, 1.0 at rivers, 0.3 elsewhere.
        bridge_m: Height of bridges above the ground, for each layer [m].
    """
    tally = Tally()
    raw = geojson.read_geojson(Path(path), tally)
    if not raw.shapes:
        raise ConfigError(f"{path}: has no features with a geometry")
    if untagged == "building":
        _tag_buildings(raw)
    options = _options(path, margin_m, ground, trees_per_ha, windows, water_drop_m, bridge_m)
    degrees = units == "degrees"
    return _world(Path(path), "GeoJSON", raw, seed, origin, degrees, terrain, terrain_range_m, options, tally)


def _tag_buildings(raw: RawMap) -> None:
    for row, (tags, shape) in enumerate(zip(raw.tags, raw.shapes, strict=True)):
        if shape.geom_type in ("Polygon", "MultiPolygon") and not any(key in tags for key in ("water", *MAIN_KEYS)):
            raw.tags[row] = {**tags, "building": "yes"}


def _options(
    path: str | PathLike[str],
    margin_m: float,
    ground: str,
    trees_per_ha: float,
    windows: bool,
    water_drop_m: float | None,
    bridge_m: float,
) -> MapOptions:
    library.material(ground)
    return MapOptions(
        within(f"{path}: margin_m", margin_m, 0.0, 2000.0),
        ground,
        within(f"{path}: trees_per_ha", trees_per_ha, 0.0, 5000.0),
        windows,
        None if water_drop_m is None else within(f"{path}: water_drop_m", water_drop_m, 0.0, 50.0),
        within(f"{path}: bridge_m", bridge_m, 0.5, 100.0),
    )


def _world(
    file: Path,
    form: str,
    raw: RawMap,
    seed: int,
    origin: Numbers | None,
    degrees: bool,
    terrain: str | None,
    terrain_range_m: tuple[float, float] | None,
    options: MapOptions,
    tally: Tally,
) -> World:
    features, place = projected(raw, origin, degrees=degrees)
    ground = MapGround() if terrain is None else _terrain(file, terrain, terrain_range_m, features, place, options)
    world = map_world(str(file), features, place, ground, seed, options, tally)
    world.name = file.name.partition(".")[0]
    world.contents = tally.contents(file, form)
    world.patterns = True
    return world


def _terrain(
    file: Path,
    terrain: str,
    range_m: tuple[float, float] | None,
    features: Sequence[Feature],
    origin: GeoOrigin | None,
    options: MapOptions,
) -> MapGround:
    """Ground from heights; relative paths are in the folder of the map."""
    import shapely

    from parhelion.world.maps.terrain import ground_from

    low_x, low_y, high_x, high_y = shapely.total_bounds(np.array([feature.shape for feature in features], dtype=object))
    margin = options.margin_m
    low = np.floor([low_x - margin, low_y - margin])
    high = np.ceil([high_x + margin, high_y + margin])
    path = Path(terrain) if Path(terrain).is_absolute() else file.parent / terrain
    return ground_from(path, range_m, origin, low, high)
