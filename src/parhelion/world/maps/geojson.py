"""GeoJSON (RFC 7946): features with the tags of OpenStreetMap, or with the fields of Overture Maps, as properties."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.world.maps.features import RawMap
from parhelion.world.procedural.layout import read_json
from parhelion.world.sources import Tally

_DEEPEST = 3
"""Collections within collections."""

_OVERTURE_BUILDING = {
    "height": "height", "num_floors": "building:levels", "min_height": "min_height", "roof_shape": "roof:shape",
    "min_floor": "building:min_level", "roof_height": "roof:height", "roof_color": "roof:colour",
    "roof_material": "roof:material", "facade_color": "building:colour", "facade_material": "building:material",
    "roof_direction": "roof:direction", "roof_orientation": "roof:orientation",
}  # fmt: skip
"""Fields of Overture's theme `buildings`, and the tags of the same meaning.

Source: schema of the Overture Maps Foundation, https://docs.overturemaps.org/schema/"""


def read_geojson(file: Path, tally: Tally) -> RawMap:
    """Read the features of a GeoJSON file; features without a geometry are counted in `tally`."""
    return features_of(read_json(file, "a map; cut out the part that is needed"), str(file), tally)


def features_of(data: Any, source: str, tally: Tally) -> RawMap:
    """Features of parsed GeoJSON."""
    raw = RawMap(source)
    _add(raw, data, source, {}, tally, 0)
    return raw


def _add(raw: RawMap, data: Any, where: str, tags: dict[str, str], tally: Tally, depth: int) -> None:
    kind = data.get("type") if isinstance(data, Mapping) else None
    if depth > _DEEPEST:
        raise ConfigError(f"{where}: is nested deeper than {_DEEPEST} collections")
    if kind == "FeatureCollection":
        features = data.get("features")
        if not isinstance(features, list):
            raise ConfigError(f"{where}: features must be a list")
        for k, feature in enumerate(features):
            _add(raw, feature, f"{where}: features[{k}]", tags, tally, depth + 1)
    elif kind == "Feature":
        properties = data.get("properties")
        own = tags_of(properties if isinstance(properties, Mapping) else {})
        if data.get("geometry") is None:
            tally.omit("feature without a geometry", "nothing to show")
        else:
            _add(raw, data["geometry"], f"{where}.geometry", own, tally, depth + 1)
    elif kind == "GeometryCollection":
        parts = data.get("geometries")
        if not isinstance(parts, list):
            raise ConfigError(f"{where}: geometries must be a list")
        for k, part in enumerate(parts):
            _add(raw, part, f"{where}.geometries[{k}]", tags, tally, depth + 1)
    else:
        shape = _shape(kind, data.get("coordinates") if isinstance(data, Mapping) else None, where)
        prefix = f"{raw.source}: "
        raw.add(where[len(prefix) :] if where.startswith(prefix) else where, tags, shape)


def _shape(kind: Any, coordinates: Any, where: str) -> Any:
    import shapely

    if kind == "Point":
        return shapely.Point(_points([coordinates], where, 1)[0])
    if kind == "LineString":
        return shapely.LineString(_points(coordinates, f"{where}.coordinates", 2))
    if kind == "Polygon":
        return _polygon(coordinates, f"{where}.coordinates")
    if kind in ("MultiPoint", "MultiLineString", "MultiPolygon"):
        if not isinstance(coordinates, list):
            raise ConfigError(f"{where}.coordinates: must be a list")
        named = [(part, f"{where}.coordinates[{k}]") for k, part in enumerate(coordinates)]
        if kind == "MultiPoint":
            return shapely.MultiPoint([_points([part], place, 1)[0] for part, place in named])
        if kind == "MultiLineString":
            return shapely.MultiLineString([_points(part, place, 2) for part, place in named])
        return shapely.MultiPolygon([_polygon(part, place) for part, place in named])
    known = "FeatureCollection, Feature, GeometryCollection, Point, LineString, Polygon or a multiple of them"
    raise ConfigError(f"{where}: type must be {known}, got {str(kind)[:40]!r}")


def _polygon(rings: Any, where: str) -> Any:
    import shapely

    if not isinstance(rings, list) or not rings:
        raise ConfigError(f"{where}: must be a list of rings")
    outer, *holes = (_points(ring, f"{where}[{k}]", 3) for k, ring in enumerate(rings))
    return shapely.Polygon(outer, holes)


def _points(value: Any, where: str, least: int) -> Any:
    try:
        points = np.array([[point[0], point[1]] for point in value], dtype=np.float64)
    except (TypeError, ValueError, IndexError, KeyError):
        raise ConfigError(f"{where}: must be a list of points of two numbers") from None
    if points.ndim != 2 or len(points) < least:
        raise ConfigError(f"{where}: must have at least {least} points, got {len(points)}")
    if not np.isfinite(points).all():
        row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise ConfigError(f"{where}[{row}]: is not a number")
    return points


def tags_of(properties: Mapping[str, Any]) -> dict[str, str]:
    """Tags of OpenStreetMap in the properties of a feature: as they are, in a field `tags`, or from Overture."""
    nested = properties.get("tags")
    merged = {**properties, **nested} if isinstance(nested, Mapping) else dict(properties)
    tags = {
        str(name): _text(value)
        for name, value in merged.items()
        if isinstance(value, (str, int, float, bool)) and value is not None
    }
    theme, kind = tags.get("theme"), tags.get("type")
    if theme is None and kind not in ("building", "building_part", "segment"):
        return tags
    return _overture(tags, theme or "", kind or "")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _overture(tags: dict[str, str], theme: str, kind: str) -> dict[str, str]:
    value = tags.get("class") or tags.get("subtype") or "yes"
    if kind in ("building", "building_part"):
        found = {_OVERTURE_BUILDING[name]: text for name, text in tags.items() if name in _OVERTURE_BUILDING}
        key = "building" if kind == "building" else "building:part"
        return {**found, key: tags.get("class", "yes")}
    if kind == "segment":
        key = {"road": "highway", "rail": "railway", "water": "waterway"}.get(tags.get("subtype", "road"), "highway")
        return {**{k: v for k, v in tags.items() if k in ("width", "lanes", "layer")}, key: value}
    if theme == "base" and kind == "water":
        return {"natural": "water", "water": value}
    if theme == "base" and kind in ("land", "land_use", "land_cover"):
        return {"natural" if kind != "land_use" else "landuse": value}
    return tags
