"""World sources: the loader of each kind of file, and the record of what a loader read and omitted."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from pydantic import Field

from parhelion.core.config import At, Config, check
from parhelion.core.errors import unknown_name
from parhelion.core.reading import is_regular_file

if TYPE_CHECKING:
    from parhelion.world.world import World


class GeoOrigin(Config):
    """Position of a world on Earth (WGS 84): its origin, and the direction of its x axis."""

    latitude_deg: Annotated[float, Field(ge=-90, le=90)]
    """Geodetic latitude of the origin."""
    longitude_deg: Annotated[float, Field(ge=-180, le=180)]
    """Longitude of the origin."""
    altitude_m: Annotated[float, Field(ge=-1000, le=20_000)] = 0.0
    """Height of z = 0 above the ellipsoid."""
    x_azimuth_deg: Annotated[float, Field(ge=-360, le=360)] = 90.0
    """Azimuth of the x axis, clockwise from north; 90 is east."""


# ---- record of a loaded file -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Content:
    """One kind of content that a loader converted to geometry."""

    what: str
    """Kind, for example `highway=residential`."""
    count: int
    """Number of features in the file."""
    measure: float = 0.0
    """Total length [m] or area [m^2] in plan view; 0 for points."""
    unit: str = ""
    """"m", "m2", or "" for points."""


@dataclass(frozen=True)
class Omission:
    """One kind of content that a loader did not convert."""

    what: str
    count: int
    reason: str
    """Why it was omitted, for example `tag not supported`."""


@dataclass(frozen=True)
class Contents:
    """Record of what a loader read from a file and what it omitted: `world.contents`."""

    source: str
    """Path of the file."""
    format: str
    """Name of the format, for example `OpenStreetMap`."""
    read: tuple[Content, ...] = ()
    omitted: tuple[Omission, ...] = ()

    def measure(self, what: str) -> float:
        """Total length [m] or area [m^2] of a kind of content; 0 if the file has none."""
        return sum(entry.measure for entry in self.read if entry.what == what)


@dataclass
class Tally:
    """Counts of read and omitted features, collected while a file is converted."""

    _read: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)
    _omitted: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, what: str, measure: float = 0.0, unit: str = "", count: int = 1) -> None:
        """Count features that became geometry."""
        known, total = self._read.get((what, unit), (0, 0.0))
        self._read[what, unit] = (known + count, total + float(measure))

    def omit(self, what: str, reason: str, count: int = 1) -> None:
        """Count omitted features."""
        if count:
            self._omitted[what, reason] = self._omitted.get((what, reason), 0) + count

    def contents(self, source: str | PathLike[str], form: str) -> Contents:
        """Return the record, sorted by kind."""
        read = sorted((what, unit, *values) for (what, unit), values in self._read.items())
        omitted = sorted((what, reason, count) for (what, reason), count in self._omitted.items())
        return Contents(
            str(source),
            form,
            tuple(Content(what, count, measure, unit) for what, unit, count, measure in read),
            tuple(Omission(what, count, reason) for what, reason, count in omitted),
        )


# ---- table of loaders ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """A kind of file that `World.load` reads."""

    name: str
    suffixes: tuple[str, ...]
    place: str
    """Loader in this package, `module:function`; its arguments are the path, a seed, and its own parameters."""
    description: str
    """One line for listings."""

    @property
    def loader(self) -> Callable[..., World]:
        """Function that reads a file and returns its world."""
        module, _, name = self.place.partition(":")
        function: Callable[..., World] = getattr(import_module(f"{__package__}.{module}"), name)
        return function

    def load(self, path: str | PathLike[str], seed: int | None, params: Mapping[str, Any]) -> World:
        """Load a file; unknown parameters and values of the wrong type are refused."""
        loader = self.loader
        known = [name for name in inspect.signature(loader).parameters if name not in ("path", "seed")]
        hints = get_type_hints(loader)
        for name, value in params.items():
            if name not in known:
                raise unknown_name(f"parameter for {path}:", name, known, f"(it accepts: {', '.join(known)})")
            check(hints[name], value, At(path, name), strict=not isinstance(value, (list, tuple)))
        return loader(path, 0 if seed is None else seed, **params)


SOURCES = (
    Source("OpenStreetMap", (".osm", ".osm.pbf", ".pbf"), "maps.load:load_osm", "map with tags"),
    Source("GeoJSON", (".geojson",), "maps.load:load_geojson", "features with OpenStreetMap or Overture properties"),
    Source("CityJSON", (".city.json", ".cityjson"), "maps.cityjson:load_cityjson", "city model with surfaces"),
    Source("OpenDRIVE", (".xodr",), "roads.load:load_opendrive", "roads with lanes"),
    Source("GeoTIFF", (".tif", ".tiff"), "maps.terrain:load_geotiff", "heights with coordinates"),
    Source("ROS map", (), "maps.floorplan:load_ros_map", "occupancy grid (.yaml with an image)"),
    Source("rebuilt world", (), "rebuilt:load_rebuilt", "folder that `parhelion rebuild` writes"),
    Source("floor plan image", (".png", ".pgm", ".bmp"), "maps.floorplan:load_plan_image", "walls of a picture"),
    Source("SVG", (".svg",), "maps.floorplan:load_svg", "walls of a drawing"),
    Source("DXF", (".dxf",), "maps.floorplan:load_dxf", "walls of a drawing"),
)
"""Files that `World.load` reads with the loaders of this table."""

_HEAD_BYTES = 64 * 1024


def source_of(path: str | PathLike[str]) -> Source | None:
    """Return the kind of a file by its extension; for .json and .yaml also by its content. None for other kinds."""
    name = Path(path).name.lower()
    by_name = {source.name: source for source in SOURCES}
    found = [source for source in SOURCES if name.endswith(source.suffixes)] if name else []
    if found:
        return found[0]
    if os.path.isdir(path):  # False for names that no file can have, where pathlib raises an error
        return by_name["rebuilt world"] if (Path(path) / "world.yaml").is_file() else None
    if name.endswith(".json"):
        head = _head(path)
        if re.search(rb'"type"\s*:\s*"CityJSON"', head):
            return by_name["CityJSON"]
        return by_name["GeoJSON"] if re.search(rb'"type"\s*:\s*"Feature(Collection)?"', head) else None
    if name.endswith((".yaml", ".yml")):
        keys = set(re.findall(rb"^([a-z_]+)\s*:", _head(path), re.MULTILINE))
        if re.search(rb"^kind\s*:\s*rebuilt\s*$", _head(path), re.MULTILINE):
            return by_name["rebuilt world"]
        return by_name["ROS map"] if {b"image", b"resolution"} <= keys or b"occupied_thresh" in keys else None
    return None


def _head(path: str | PathLike[str]) -> bytes:
    if not is_regular_file(path):
        return b""  # the reader of the default kind reports the problem
    try:
        with Path(path).open("rb") as stream:
            return stream.read(_HEAD_BYTES)
    except OSError:
        return b""


def suffixes() -> Sequence[str]:
    """Extensions of all files of the table."""
    return [suffix for source in SOURCES for suffix in source.suffixes]
