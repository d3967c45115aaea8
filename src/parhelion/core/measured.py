"""The base of records: arrays with a unit, a frame and a shape on every field.

    class Range(Record):
        range: Floats = field(metadata=column("m", "sensor", "n"))

`units(record)` gives units and frames as data, for whoever writes them to a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError


def column(unit: str, frame: str, *shape: str | int, dtype: str = "float64", finite: bool = True) -> dict[str, Any]:
    """What a field holds: unit, frame ('' where none applies) and shape.

    Letters in `shape` stand for sizes that differ from record to record: n samples, w wheels, h rows of pixels.
    `finite` says whether numbers must be.
    """
    return {"unit": unit, "frame": frame, "shape": shape, "dtype": dtype, "finite": finite}


class Record:
    """A frozen dataclass whose arrays are checked when it is made, and read-only afterwards."""

    def _sizes(self) -> Mapping[str, int]:
        """What the letters in the shapes of this record stand for."""
        return {}

    def _units(self) -> dict[str, tuple[str, str]]:
        return _declared(self)

    def __post_init__(self) -> None:
        sizes = self._sizes()
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if "shape" not in one.metadata or value is None:
                continue
            array = np.asarray(value, dtype=one.metadata["dtype"]).view()
            expected = tuple(sizes.get(size, size) for size in one.metadata["shape"])
            if array.shape != expected:
                raise ConfigError(
                    f"{type(self).__name__}: {one.name} must have shape {expected}, got shape {array.shape}"
                )
            if one.metadata["finite"] and not np.all(np.isfinite(array)):
                raise ConfigError(f"{type(self).__name__}: {one.name} must be finite")
            array.setflags(write=False)
            object.__setattr__(self, one.name, array)


def units(record: Record | type[Record]) -> dict[str, tuple[str, str]]:
    """Unit and frame of every array of a record, by field name; the frame is '' where none applies."""
    return record._units() if isinstance(record, Record) else _declared(record)


def _declared(record: Any) -> dict[str, tuple[str, str]]:
    return {one.name: (one.metadata["unit"], one.metadata["frame"]) for one in fields(record) if "unit" in one.metadata}
