"""What the viewer shows of each type of record: a cloud in the scene, or lines of text beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.core.inertial import Samples, units
from parhelion.core.readers import Readers
from parhelion.core.records import Scan


@dataclass(frozen=True)
class ViewerLayer:
    """How the viewer shows records of one type."""

    in_scene: bool
    """Whether it is a cloud in the scene, chosen and coloured by the panel."""
    lines: Callable[[str, Any], list[str]]
    """Lines of text for the panel, of a sensor's name and its latest record."""


def _reading(name: str, samples: Samples) -> list[str]:
    """The last sample in numbers, with units."""
    if not len(samples):
        return []
    told, parts = units(samples), []
    for field in samples._columns():
        value = np.atleast_1d(getattr(samples, field)[-1])
        if field != "time" and field in told and value.size <= 3:
            numbers = ", ".join(f"{number:.4g}" for number in value.tolist())
            parts.append(f"{field.replace('_', ' ')} {numbers} {told[field][0]}".rstrip())
    return [f"{name}: {'; '.join(parts)}"]


VIEWER: Readers[ViewerLayer] = Readers(
    "viewer", {Scan: ViewerLayer(True, lambda name, scan: []), Samples: ViewerLayer(False, _reading)}
)
"""How the viewer shows each type of record."""
