"""What a camera measures: a picture, and the truth of every pixel beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.measured import Record, column
from parhelion.core.pose import Pose


@dataclass(frozen=True, eq=False)
class Image(Record):
    """One exposure. Row 0 is at the top, column 0 at the left, as pictures are stored.

    The truth arrays are None where they were not asked for.
    """

    colour: NDArray[Any]
    """What the sensor reads, shape (h, w) or (h, w, bands): uint8, uint16, or float32 before the converter."""
    start_time: float = 0.0
    """Start of the exposure on the world's clock [s]."""
    pose: Pose = field(default_factory=Pose)
    """The camera in the world at that time: x forward, y left, z up."""
    depth: NDArray[np.float32] | None = field(
        default=None, metadata=column("m", "sensor", "h", "w", dtype="float32", finite=False)
    )
    """Distance along the optical axis [m], infinite where nothing is seen, shape (h, w)."""
    normal: NDArray[np.float32] | None = field(
        default=None, metadata=column("1", "sensor", "h", "w", 3, dtype="float32")
    )
    """Unit normal of the surface, zero where nothing is seen, shape (h, w, 3)."""
    label: NDArray[np.uint16] | None = field(default=None, metadata=column("", "", "h", "w", dtype="uint16"))
    """Class of what is seen, 0 for nothing, shape (h, w)."""
    instance: NDArray[np.uint32] | None = field(default=None, metadata=column("", "", "h", "w", dtype="uint32"))
    """Number of the object that is seen, 0 for nothing, shape (h, w)."""
    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """What the numbers of coded fields stand for."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values that came with the image: sensor, seed, exposure ..."""

    def __post_init__(self) -> None:
        colour = np.asarray(self.colour).view()
        if colour.ndim not in (2, 3) or 0 in colour.shape or colour.dtype not in (np.uint8, np.uint16, np.float32):
            raise ConfigError(
                "Image: colour must have shape (h, w) or (h, w, bands) and be uint8, uint16 or float32, "
                f"got {colour.dtype} {colour.shape}"
            )
        colour.setflags(write=False)
        object.__setattr__(self, "colour", colour)
        super().__post_init__()

    def _sizes(self) -> Mapping[str, int]:
        return {"h": self.colour.shape[0], "w": self.colour.shape[1]}

    @property
    def width(self) -> int:
        """Pixels of a row."""
        return int(self.colour.shape[1])

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.colour.shape[0])

    def __repr__(self) -> str:
        bands = 1 if self.colour.ndim == 2 else self.colour.shape[2]
        sensor = self.metadata.get("sensor", "")
        return f"<Image: {sensor + ', ' if sensor else ''}{self.width} x {self.height} pixels, {bands} bands>"
