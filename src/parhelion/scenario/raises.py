"""Dust and spray that the vehicles of a scenario raise: fields of the file, and the plumes in the weather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from parhelion.contact.below import UNPAVED, GroundBelow
from parhelion.core.config import Config
from parhelion.core.trajectory import Trajectory
from parhelion.motion.actors.body import Actor
from parhelion.weather.raised import Chassis, DustRaiser, Raised, RaisedPart
from parhelion.weather.weather import Weather
from parhelion.world.world import World

CAR_KG, LORRY_KG = 1500.0, 12_000.0
"""Weights of the cars and lorries of traffic: round figures (assumed, the kit's models have none)."""


class RaisesDust(Config):
    """Dust that a vehicle raises on soil, sand and gravel."""

    silt_percent: Annotated[float, Field(ge=0, le=100)] = 8.5
    """Silt in the surface; 8.5 is the mean of construction sites (EPA AP-42, 13.2.2)."""
    moisture_percent: Annotated[float, Field(ge=0.01, le=100)] = 0.2
    """Water in the surface; 0.2 is a dry road."""
    weight_kg: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Weight of the vehicle; by default that of its data sheet, 2000 for a given motion, 1500 for a car of traffic."""


class Raises(Config):
    """Fields of a vehicle that raises dust."""

    raises_dust: RaisesDust | None = None
    """Dust from unpaved ground below the wheels."""


class Plumes:
    """Media that the vehicles of a scenario raise."""

    def __init__(self, world: World) -> None:
        self._ground = GroundBelow(world)
        self._dust: list[DustRaiser] = []
        self._raised: list[tuple[str, RaisedPart]] | None = None
        self._media: list[Raised] = []

    def add(self, entry: Raises, name: str, motion: Trajectory, **size: float) -> None:
        """Add a vehicle; `size` holds fields of `Chassis`."""
        if entry.raises_dust is not None:
            own = {} if entry.raises_dust.weight_kg is None else {"weight_kg": entry.raises_dust.weight_kg}
            chassis = Chassis(name, motion, self._ground.of(UNPAVED), **{**size, **own})
            dust = entry.raises_dust
            self._dust.append(DustRaiser(chassis, dust.silt_percent, dust.moisture_percent))

    def add_actors(self, entry: Raises, actors: Sequence[Actor]) -> None:
        """Add cars of traffic, with the sizes of their bodies."""
        for actor in actors:
            body = actor.objects[0]
            if body.trajectory is not None:
                corners = np.concatenate([part.mesh.vertices for part in body.parts])
                length, width, height = np.ptp(corners, axis=0).tolist()
                weight = CAR_KG if actor.label == "car" else LORRY_KG
                size = {"weight_kg": weight, "width_m": width, "length_m": length, "height_m": height}
                self.add(entry, actor.name, body.trajectory, **size)

    def restart(self) -> None:
        """Forget the plumes of an earlier run."""
        for one in self._media:
            one.restart()

    def attach(self, world: World) -> None:
        """Add the raised media to the weather of a world, in place of those of another scenario."""
        if self._raised is None:
            self._media = [Raised(self._dust)]
            self._raised = [("dust", part) for part in self._media[0].parts()]
        weather = world.weather
        raised = tuple(self._raised)
        if raised != (() if weather is None else weather.raised):
            world.weather = (Weather() if weather is None else weather).with_raised(raised)
