"""What the fields of foreign point clouds mean: names and units of common drivers, turned into ours."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.io.columns import Columns

_SAME_RING = ("line", "channel", "laser_id")
_SAME = {"intensities": "intensity", "i": "intensity", "ambient": "near_ir", **dict.fromkeys(_SAME_RING, "ring")}
"""Names that mean one of ours in the same unit."""
_RELATIVE_TIME = ("t", "time", "offset_time")
"""Time after the header's stamp: seconds where they have a fraction, else nanoseconds."""
_CLOCK_TIME = ("timestamp", "time_stamp")
"""Time on the sensor's clock, in s or ns."""
OF_SHOTS = ("ring", "column", *_SAME_RING, *_RELATIVE_TIME, *_CLOCK_TIME)
"""Fields that belong to a shot whether or not it had a return."""
_NANOSECONDS_FROM = 1e14
"""A clock's number above this can only be nanoseconds: as seconds it would be three million years."""


def rows_as_columns(rows: NDArray[Any]) -> Columns:
    """The fields of a structured array one by one; those of several values become two-dimensional."""
    return {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()}


def to_our_units(columns: Columns) -> Columns:
    """Fields by our names and units, where it is known what they mean; the rest as they are."""
    found: Columns = {}
    for name, values in columns.items():
        ours = _SAME.get(name, name)
        if name in _RELATIVE_TIME and values.ndim == 1:
            found.setdefault("time", _seconds(values))
        elif name == "range" and values.dtype.kind in "iu":
            found["range"] = (values * 1e-3).astype(np.float32)
        elif name in ("rgb", "rgba") and values.dtype.itemsize == 4 and values.ndim == 1:
            found |= _colour(name, values)
        elif ours == "near_ir":
            found["near_ir"] = values.astype(np.float32)
        elif ours == "ring" and values.dtype.kind in "iuf":
            found.setdefault("ring", np.clip(np.nan_to_num(values), 0, 65535).astype(np.uint16))
        elif ours == "intensity":
            found.setdefault("intensity", values.astype(np.float32))
        else:
            found[ours if ours not in columns else name] = values
    clock = next((name for name in _CLOCK_TIME if name in columns and columns[name].ndim == 1), None)
    if clock is not None and "time" not in found:
        found["time"] = _since_first(columns[clock])
    return _vectors(found)


def _seconds(values: NDArray[Any]) -> NDArray[np.float32]:
    scale = 1e-9 if values.dtype.kind in "iu" else 1.0
    return (values.astype(np.float64) * scale).astype(np.float32)


def _clock(values: NDArray[Any]) -> tuple[float, float]:
    """When the first point was measured, in the clock's own unit, and how many seconds that unit is."""
    finite = values[np.isfinite(values)].astype(np.float64)
    first = float(finite.min(initial=np.inf)) if len(finite) else 0.0
    return first, 1e-9 if first > _NANOSECONDS_FROM else 1.0


def _since_first(clock: NDArray[Any]) -> NDArray[np.float32]:
    first, unit = _clock(clock)
    return np.nan_to_num((clock.astype(np.float64) - first) * unit).astype(np.float32)


def their_values(name: str, before: NDArray[Any], cloud: PointCloud) -> NDArray[Any] | None:
    """A field of another driver from our fields, or None where the name means the same to us.

    `before` are the values that the field had: they say in which unit it counts.
    """
    fields, whole = cloud.fields, before.dtype.kind in "iu"
    if name in _CLOCK_TIME and "time" in fields:
        first, unit = _clock(before)
        return first + fields["time"].astype(np.float64) / unit
    if name in _RELATIVE_TIME and "time" in fields:
        return fields["time"].astype(np.float64) * (1e9 if whole else 1.0)
    if name == "range" and whole and "range" in fields:
        return fields["range"].astype(np.float64) * 1000.0
    if name == "rgba" and "rgb" in fields:
        return packed_colour(fields["rgb"], fields.get("alpha")).view(before.dtype)
    ours = _SAME.get(name)
    return None if ours is None else fields.get(ours)


def packed_colour(rgb: NDArray[Any], alpha: NDArray[Any] | None = None) -> NDArray[np.float32]:
    """Colours as PCL packs them: blue, green, red and alpha as the bytes of a float32."""
    packed = np.zeros((len(rgb), 4), np.uint8)
    packed[:, 2::-1] = rgb
    if alpha is not None:
        packed[:, 3] = alpha
    return packed.view("<f4")[:, 0]


def _colour(name: str, values: NDArray[Any]) -> Columns:
    """PCL's packed colour: blue, green, red, alpha in the bytes of one word, whatever its declared type."""
    packed = values.view(np.uint8).reshape(-1, 4)
    colour = {"rgb": np.ascontiguousarray(packed[:, 2::-1])}
    return colour if name == "rgb" else {**colour, "alpha": packed[:, 3].copy()}


def _vectors(columns: Columns) -> Columns:
    """Three fields called name_x, name_y and name_z are one of three columns."""
    found: Columns = {}
    for name, values in columns.items():
        stem = name[:-2]
        parts = [columns.get(f"{stem}_{axis}") for axis in "xyz"]
        if name[-2:] in ("_x", "_y", "_z") and stem and all(part is not None for part in parts):
            if name.endswith("_x"):
                found[stem] = np.stack([part for part in parts if part is not None], axis=1)
        else:
            found[name] = values
    return found
