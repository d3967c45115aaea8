"""Lamps: sources of light in a world, standing or carried by an actor. They are no geometry: rays pass through them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from threading import RLock
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from parhelion.core import config
from parhelion.core.config import Config
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.pose import Pose
from parhelion.world.mesh import LARGEST_COORDINATE_M
from parhelion.world.parts import WorldObject

Coordinate = Annotated[float, Field(ge=-LARGEST_COORDINATE_M, le=LARGEST_COORDINATE_M)]
HalfAngle = Annotated[float, Field(gt=0, le=180)]


class Lamp(Config):
    """A point of light with a cone. World files hold this model in their list `lamps`."""

    xyz: tuple[Coordinate, Coordinate, Coordinate]
    """Place in the world, or in the frame of `actor` [m]."""
    direction: tuple[float, float, float] = (0.0, 0.0, -1.0)
    """Axis of the cone, of any length above 0, in the same frame."""
    inner_deg: Annotated[float, Field(ge=0, le=180)] | None = None
    """Half-angle of the cone of full intensity; None with `outer_deg` None shines all around."""
    outer_deg: HalfAngle | None = None
    """Half-angle beyond which it is dark. Between the two the intensity falls smoothly with the cosine."""
    flux_lm: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Luminous flux of the whole lamp."""
    intensity_cd: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Luminous intensity inside the inner cone, in place of the flux."""
    colour_temperature_k: Annotated[float, Field(ge=1000, le=20000)] = 3000.0
    """Of the black body whose spectrum it has."""
    lit: Literal["night", "always", "never"] = "night"
    """When it shines. (`on` and `off` are truth values in YAML.)"""
    name: str | None = None
    actor: str | Annotated[int, Field(ge=0)] | None = None
    """Name or instance number of the actor or object that carries it."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Lamp:
        if (self.flux_lm is None) == (self.intensity_cd is None):
            raise ValueError("give flux_lm or intensity_cd")
        if (self.inner_deg is None) != (self.outer_deg is None):
            raise ValueError("give inner_deg and outer_deg together, or neither for a lamp that shines all around")
        if self.inner_deg is not None and self.outer_deg is not None and self.inner_deg >= self.outer_deg:
            raise ValueError("inner_deg must be below outer_deg")
        length = math.hypot(*self.direction)
        if not 1e-9 < length < 1e9:
            raise ValueError("direction must have a length above 0")
        return self

    @property
    def axis(self) -> tuple[float, float, float]:
        """`direction` as a unit vector."""
        x, y, z = np.array(self.direction) / math.hypot(*self.direction)
        return float(x), float(y), float(z)

    @property
    def solid_angle_sr(self) -> float:
        """Flux over intensity: 2 pi (1 - (cos inner + cos outer) / 2), or 4 pi all around."""
        if self.inner_deg is None or self.outer_deg is None:
            return 4.0 * math.pi
        cosines = math.cos(math.radians(self.inner_deg)) + math.cos(math.radians(self.outer_deg))
        return 2.0 * math.pi * (1.0 - 0.5 * cosines)

    @property
    def candela(self) -> float:
        """Luminous intensity inside the inner cone [cd]."""
        if self.intensity_cd is not None:
            return self.intensity_cd
        assert self.flux_lm is not None  # the validator's other case
        return self.flux_lm / self.solid_angle_sr


@dataclass(frozen=True, eq=False)
class WorldLamp:
    """A lamp that is in a world. It does not change: to change it, remove it and add another."""

    lamp: Lamp
    carrier: int = -1
    """`index` of the object that carries it, -1 for none."""


def lamp_of(fields: dict[str, Any], carrier: WorldObject | None, objects: Iterable[WorldObject]) -> WorldLamp:
    """A lamp from its fields; on an actor it stays in the actor's frame, on what stands it is put into the world."""
    if carrier is not None:
        fields = {**fields, "actor": carrier.name}
    lamp = config.parse(Lamp, fields, "lamp")
    if lamp.actor is None:
        return WorldLamp(lamp)
    if carrier is None:
        carrier = _carrier(lamp.actor, list(objects))
    if carrier.is_actor:
        return WorldLamp(lamp, carrier.index)
    placed = put(lamp, carrier.pose)
    return WorldLamp(placed.model_copy(update={"actor": None}), carrier.index)


def _carrier(called: str | int, objects: list[WorldObject]) -> WorldObject:
    """The object of a name or an instance number; of several the first, which carries the thing's own frame."""
    for item in objects:
        if called == (item.instance if isinstance(called, int) else item.name):
            return item
    if isinstance(called, int):
        raise ConfigError(f"lamp: actor: no object has the instance number {called}")
    raise unknown_name("lamp: actor", called, {item.name for item in objects})


def put(lamp: Lamp, pose: Pose) -> Lamp:
    """The same lamp from the frame that lies at `pose`."""
    xyz = pose.apply(np.array([lamp.xyz]))[0]
    direction = pose.rotation @ np.array(lamp.axis)
    return lamp.model_copy(update={"xyz": tuple(xyz.tolist()), "direction": tuple(direction.tolist())})


def lamp_fields(entry: WorldLamp, objects: Iterable[WorldObject]) -> dict[str, Any]:
    """What a world file says of a lamp; its carrier by instance number where several things have the name."""
    fields = entry.lamp.model_dump(mode="json", exclude_defaults=True)
    carrier = next((item for item in objects if item.index == entry.carrier), None)
    if entry.lamp.actor is not None and carrier is not None:
        namesakes = {item.instance for item in objects if item.name == carrier.name}
        fields["actor"] = carrier.name if len(namesakes) == 1 else carrier.instance
    return fields


class HasLamps:
    """What a world does with its lamps."""

    _lamps: tuple[WorldLamp, ...]
    _objects: dict[int, WorldObject]
    _lock: RLock

    @property
    def lamps(self) -> tuple[WorldLamp, ...]:
        """Sources of light, in order of adding; another tuple after every change."""
        return self._lamps

    def add_lamp(self, xyz: Any, *, carrier: WorldObject | None = None, **fields: Any) -> WorldLamp:
        """Add a source of light at `xyz` [m], in the frame of `carrier` where one is given; it goes with it.

        `fields` are those of `parhelion.world.lamps.Lamp`: direction, inner_deg, outer_deg, flux_lm or intensity_cd,
        colour_temperature_k, lit, name. A lamp has no triangles, and `version` stays as it is.
        """
        with self._lock:
            if carrier is not None and self._objects.get(carrier.index) is not carrier:
                raise ConfigError(f"world: {carrier!r} is not in this world")
            plain = xyz.tolist() if isinstance(xyz, np.ndarray) else xyz
            entry = lamp_of({"xyz": plain, **fields}, carrier, self._objects.values())
            self._lamps = (*self._lamps, entry)
            return entry

    def remove_lamp(self, entry: WorldLamp) -> None:
        """Take a lamp out of the world. Removing an object removes its lamps, too."""
        with self._lock:
            if not any(own is entry for own in self._lamps):
                raise ConfigError("world: this lamp is not in this world")
            self._lamps = tuple(own for own in self._lamps if own is not entry)

    def _leave_lamps_of(self, item: WorldObject) -> None:
        self._lamps = tuple(entry for entry in self._lamps if entry.carrier != item.index)
