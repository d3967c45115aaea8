"""Colours of points from the fields of a cloud, with their legend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import FIELDS, PointCloud
from parhelion.core.errors import unknown_name
from parhelion.pictures.style import LABEL_COLOURS, further_colour, label_colour
from parhelion.weather import media

Colours = NDArray[np.uint8]

UNKNOWN = "#6b7480"
"""Colour of points without a value."""

IN_THE_AIR = "in the air"
"""Label of echoes of rain, fog, snow and dust, which belong to no labelled object."""

_FIRST = ("intensity", "reflectivity", "range", "height", "ring", "label", "origin", "material", "rgb")
"""Fields offered first, in this order; other fields of a cloud follow by name."""
_CODED = ("label", "origin", "material", "instance")
_MAPS = {
    "intensity": "inferno",
    "reflectivity": "magma",
    "range": "viridis_r",
    "near_ir": "cividis",
    "power": "inferno",
}
_LEGEND_ROWS = 10
# Most surfaces are dark and a few are very bright: the square root spreads the dark ones over the colours.
_BY_SQUARE = ("intensity", "reflectivity", "power", "near_ir")

_ORIGIN_COLOURS = {
    "surface": "#5f6b7a",
    "multipath": "#ff7ab6",
    "noise": "#45d6c8",
    "window": "#c8a04a",
    "interference": "#ff5d5d",
    "sunlight": "#ffd24a",
}
_NO_LABEL = {"none": UNKNOWN, "unlabeled": UNKNOWN}


@dataclass(frozen=True)
class Ramp:
    """Legend of a number: from `low` to `high` through `stops`, linear or quadratic."""

    field: str
    unit: str
    low: float
    high: float
    stops: tuple[str, ...]
    """Equidistant colours, as `#rrggbb`."""
    power: float = 1.0
    """Exponent: the value at fraction s of the ramp is low + (high - low) s^power."""

    def value_at(self, share: float) -> float:
        """Value of the colour at a fraction of the ramp, 0 to 1."""
        return self.low + (self.high - self.low) * share**self.power


@dataclass(frozen=True)
class Swatches:
    """Legend of a coded field: its names, the most common first."""

    field: str
    rows: tuple[tuple[str, str, int], ...]
    """Name, colour as `#rrggbb`, number of points."""
    left_out: int = 0
    """Number of further names."""


Legend = Ramp | Swatches | None


@dataclass(frozen=True, eq=False)
class Painted:
    """Colours of the points, shape (n, 3), with their legend."""

    colours: Colours
    legend: Legend


def colour_choices(cloud: PointCloud) -> list[str]:
    """Fields by which a cloud can be coloured."""
    plain = [
        name
        for name, values in cloud.fields.items()
        if (values.ndim == 1 and np.issubdtype(values.dtype, np.number)) or (name == "rgb" and values.shape[1:] == (3,))
    ]
    known = [name for name in _FIRST if name in plain or name in ("range", "height")]
    return known + sorted(name for name in plain if name not in known and name not in ("shot", "return_count"))


def paint(cloud: PointCloud, by: str, limits: tuple[float, float] | None = None) -> Painted:
    """Colour a cloud by one of its fields, or by `range` or `height`; `limits` fixes the ends of the ramp."""
    choices = colour_choices(cloud)
    if by not in choices:
        raise unknown_name("field to colour by:", by, choices)
    if by == "rgb":
        return Painted(np.ascontiguousarray(cloud.fields["rgb"], dtype=np.uint8), None)
    values = _values(cloud, by)
    if by in _CODED or by in cloud.names:
        return _coded(values, by, cloud.names.get(by, {}))
    low, high = limits if limits is not None else robust_limits(values)
    table = ramp(_MAPS.get(by, "viridis"))
    power = 2.0 if by in _BY_SQUARE else 1.0
    with np.errstate(invalid="ignore"):
        share = np.clip((values.astype(np.float32) - low) / (high - low), 0.0, 1.0) ** (1.0 / power)
    known = np.isfinite(share)
    colours = table[np.round(255.0 * np.where(known, share, 0.0)).astype(np.uint8)]
    colours[~known] = rgb(UNKNOWN)
    stops = tuple(hexadecimal(table[k]) for k in np.linspace(0, 255, 9).astype(int))
    return Painted(colours, Ramp(by, unit_of(by), low, high, stops, power))


def _values(cloud: PointCloud, by: str) -> NDArray[Any]:
    if by in cloud.fields:
        return cloud.fields[by]
    return cloud.xyz[:, 2] if by == "height" else np.linalg.norm(cloud.xyz, axis=1)


def unit_of(field: str) -> str:
    """Unit of a field, or an empty string."""
    if field == "height":
        return "m"
    return FIELDS[field].unit if field in FIELDS else ""


def robust_limits(values: NDArray[Any]) -> tuple[float, float]:
    """1st and 99th percentile of the finite values, so that outliers do not reduce the contrast."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0, 1.0
    low, high = (float(limit) for limit in np.percentile(finite, [1.0, 99.0]))
    return (low, high) if high > low else (low, low + max(abs(low) * 1e-3, 1e-3))


def _coded(values: NDArray[Any], field: str, names: Mapping[int, str]) -> Painted:
    numbers, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    words = [names.get(int(number), f"{field} {int(number)}") for number in numbers]
    chosen = [_colour_of(word, int(number), field) for word, number in zip(words, numbers, strict=True)]
    table = np.array([rgb(colour) for colour in chosen], dtype=np.uint8).reshape(-1, 3)
    order = np.argsort(-counts, kind="stable")
    rows = tuple((words[k], chosen[k], int(counts[k])) for k in order[:_LEGEND_ROWS])
    return Painted(table[inverse.reshape(-1)], Swatches(field, rows, max(0, len(order) - len(rows))))


def _colour_of(word: str, number: int, field: str) -> str:
    if field == "origin":
        return _ORIGIN_COLOURS.get(word) or media.colours().get(word, UNKNOWN)
    if field == "label" and word != f"label {number}":
        return _NO_LABEL.get(word) or label_colour(word)
    return LABEL_COLOURS.get(word) or _NO_LABEL.get(word) or further_colour(number)


@lru_cache(maxsize=16)
def ramp(name: str) -> Colours:
    """256 colours of a perceptually uniform colour map, shape (256, 3)."""
    from matplotlib import colormaps

    # Inferno and magma begin with black, which is invisible on the dark background.
    first = 0.16 if name in ("inferno", "magma") else 0.0
    table = np.round(255.0 * colormaps[name](np.linspace(first, 1.0, 256))[:, :3]).astype(np.uint8)
    table.setflags(write=False)
    return table


def rgb(colour: str) -> tuple[int, int, int]:
    """Red, green, blue from 0 to 255 of `#rrggbb`."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def hexadecimal(colour: NDArray[Any]) -> str:
    """`#rrggbb` of red, green, blue from 0 to 255."""
    red, green, blue = (round(float(part)) for part in colour)
    return f"#{red:02x}{green:02x}{blue:02x}"
