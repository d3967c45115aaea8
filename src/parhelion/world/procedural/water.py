"""What things of harbours and canals may say of themselves: the basin, its gear, bridges, vessels, cranes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from parhelion.world.procedural.draws import ThingSeed
from parhelion.world.procedural.fields import Metres, Params, Place, Plan, Seed

Paint = Literal["car-paint-red", "car-paint-blue", "car-paint-silver", "galvanised-steel"]


class BasinParams(Params):
    """A basin between quay walls, and the land around; `size` is that of the water, and the quays' height over it."""

    land_m: Metres = 70.0
    """Depth of the land beyond the long quays."""
    ends_m: Metres = 40.0
    """Depth of the land beyond the short quays."""
    paved_m: Metres = 18.0
    """Width of the paved strip along the long quays."""
    wall_m: Metres = 0.9
    """Thickness of the quay walls."""
    depth_m: Metres = 3.0
    """Depth of the water."""
    ripple_m: Annotated[float, Field(ge=0.0, le=0.2)] = 0.012
    """Standard deviation of the water's height, 0 for a mirror."""
    seed: Seed = 0
    """Draws the ripples."""


class BollardsParams(Params):
    """Mooring bollards, each at a point of the plan."""

    points: Annotated[tuple[Plan, ...], Field(min_length=1)]


class FendersParams(Params):
    """Rubber strips on a quay wall, each with its middle at a point."""

    points: Annotated[tuple[Place, ...], Field(min_length=1)]


class LaddersParams(Params):
    """Ladders on a quay wall, each at a point of the plan, from the water to 0.3 m over the quay."""

    points: Annotated[tuple[Plan, ...], Field(min_length=1)]
    quay_m: Metres = 1.6


class RailsParams(Params):
    """Crane rails along x, each with its middle at a point."""

    points: Annotated[tuple[Place, ...], Field(min_length=1)]
    length_m: Metres = 100.0


class PilesParams(Params):
    """Piles in the water, each with its foot at a point."""

    points: Annotated[tuple[Place, ...], Field(min_length=1)]
    length_m: Metres = 5.2
    radius_m: Metres = 0.22


class BridgeParams(Params):
    """A masonry arch along y over a canal, with ramps; `size` is its width, its length with ramps, and its road."""

    span_m: Annotated[float, Field(ge=10.0, le=500.0)] = 50.0
    """Width of the canal."""
    crown_m: Metres = 6.4
    """Free height over the water in the middle; the road is 1.1 m above it."""
    quay_m: Metres = 1.6
    """Height of the quays over the water, where the ramps end."""


class VesselParams(Params):
    """A vessel, its bow at +x, its pose on the water's level; drawn for its hull's length, then stretched to `size`."""

    type: Literal["barge", "tug", "yacht", "motor-boat"] = "motor-boat"
    hull_m: Metres | None = None
    """Length of the hull; by default 42 m, 18 m, 10 m and 8 m in the order of the types."""
    cargo: Literal["gravel", "containers"] = "gravel"
    """Of a barge."""
    seed: ThingSeed = 0
    """Draws a barge's cargo."""


class CraneParams(Params):
    """A portal crane, its jib along +x."""

    reach_m: Metres = 24.0
    """Length of the jib."""
    lift_deg: Annotated[float, Field(ge=0.0, le=85.0)] = 35.0


class ContainersParams(Params):
    """A stack of 20-foot containers along x."""

    paints: Annotated[tuple[Paint, ...], Field(min_length=1, max_length=9)] = ("car-paint-red",)
    """One a container, from below."""
    base_m: Annotated[float, Field(ge=-100.0, le=1000.0)] = 0.0
    """Height of the foot over the pose."""
