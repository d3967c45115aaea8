"""Fields that the data sheets of radars and pulse-echo sensors share."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from parhelion.core.config import Config, DataSheet


def beam_shape(azimuth_width_deg: float, elevation_width_deg: float, sidelobe_db: float) -> tuple[float, float, float]:
    """Widths of a beam over both direction cosines, and its floor: arguments of `beam_gain`."""
    widths = (azimuth_width_deg, elevation_width_deg)
    across, upward = (float(2.0 * np.sin(np.radians(min(width, 180.0) / 2.0))) for width in widths)
    return across, upward, float(10.0 ** (sidelobe_db / 10.0))


class FieldOfRays(Config):
    """Angular range and number of the rays."""

    azimuth_deg: tuple[Annotated[float, Field(ge=-180, le=180)], Annotated[float, Field(ge=-180, le=180)]]
    """Right and left edge [deg]; left is positive."""
    elevation_deg: tuple[Annotated[float, Field(ge=-90, le=90)], Annotated[float, Field(ge=-90, le=90)]]
    """Lower and upper edge [deg]."""
    rays: Annotated[int, Field(ge=1, le=20_000_000)] = 100_000
    bounces: Annotated[int, Field(ge=1, le=3)] = 2
    """Largest number of surfaces on a path before it returns to the sensor."""

    @property
    def grid(self) -> tuple[int, int]:
        """Columns and rows of rays; the angular cells are as square as possible."""
        wide, high = (edges[1] - edges[0] for edges in (self.azimuth_deg, self.elevation_deg))
        columns = max(1, round(np.sqrt(self.rays * wide / high)))
        return columns, max(1, round(self.rays / columns))

    @property
    def angles_rad(self) -> tuple[float, float, float, float]:
        """Azimuth of the first edge and step of columns, elevation of the first edge and step of rows [rad]."""
        first, steps = [], []
        for edges, count in zip((self.azimuth_deg, self.elevation_deg), self.grid, strict=True):
            first.append(np.radians(edges[0]))
            steps.append(np.radians(edges[1] - edges[0]) / count)
        return first[0], steps[0], first[1], steps[1]

    @model_validator(mode="after")
    def _ordered(self) -> FieldOfRays:
        for name in ("azimuth_deg", "elevation_deg"):
            low, high = getattr(self, name)
            if high <= low:
                raise ValueError(f"{name} must rise, got {low:g} to {high:g}")
        return self


class WaveSheet(DataSheet):
    """One model of a sensor that sends waves and receives their echoes."""

    plain_sources_cover: ClassVar[tuple[str, ...]]
    """Fields covered by a source that is given as plain text."""

    maker: str = ""
    model: str = ""
    description: str = ""
    rate_hz: Annotated[float, Field(ge=0.01, le=1000)]
    """Frames, revolutions or pings per second [Hz]."""
    field: FieldOfRays

    @model_validator(mode="before")
    @classmethod
    def _sources_in_words(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("sources"), list):
            covers = list(cls.plain_sources_cover)
            sources = [{"title": one, "covers": covers} if isinstance(one, str) else one for one in data["sources"]]
            return {**data, "sources": sources}
        return data
