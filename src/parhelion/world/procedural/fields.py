"""What fields of a layout are made of: numbers with their ranges, and the base of what kinds say of themselves."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from parhelion.core.config import Config

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Metres = Annotated[float, Field(gt=0.0, le=1000.0)]
Coordinate = Annotated[float, Field(ge=-1e6, le=1e6)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Plan = tuple[Coordinate, Coordinate]
"""A point of the plan [m]."""
Near = Annotated[float, Field(ge=-1000.0, le=1000.0)]
NearPlan = tuple[Near, Near]
"""A point [m] in the frame of a thing, which is never larger than the plan."""
Place = tuple[Coordinate, Coordinate, Coordinate]
"""A point in space [m]."""
Mobility = Literal["static", "movable", "dynamic"]


class Params(Config):
    """Base of what one kind says beyond pose and size."""
