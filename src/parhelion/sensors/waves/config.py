"""What the data sheets of radars and pulse-echo sensors share."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from parhelion.core.config import Config, DataSheet


class FieldOfRays(Config):
    """Directions that rays are sent into, and how many."""

    azimuth_deg: tuple[Annotated[float, Field(ge=-180, le=180)], Annotated[float, Field(ge=-180, le=180)]]
    """From the right to the left edge; left is positive."""
    elevation_deg: tuple[Annotated[float, Field(ge=-90, le=90)], Annotated[float, Field(ge=-90, le=90)]]
    rays: Annotated[int, Field(ge=1, le=20_000_000)] = 100_000
    bounces: Annotated[int, Field(ge=1, le=3)] = 2
    """Surfaces on the way, at most."""

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
    """Fields that a source covers if it is given as plain text."""

    maker: str = ""
    model: str = ""
    description: str = ""
    rate_hz: Annotated[float, Field(ge=0.01, le=1000)]
    """Frames, turns or pings a second."""
    field: FieldOfRays

    @model_validator(mode="before")
    @classmethod
    def _sources_in_words(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("sources"), list):
            covers = list(cls.plain_sources_cover)
            spoken = [{"title": one, "covers": covers} if isinstance(one, str) else one for one in data["sources"]]
            return {**data, "sources": spoken}
        return data
