"""Dust and spray that the vehicles of a scenario raise: fields of the file, and the plumes in the weather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from parhelion.contact.below import PAVED, UNPAVED, GroundBelow
from parhelion.core.config import Config
from parhelion.core.trajectory import Trajectory
from parhelion.motion.actors.body import Actor
from parhelion.weather.media.spray import EXTINCTION_M2_KG, TYRE_WIDTH_M
from parhelion.weather.raised import Chassis, DustRaiser, Raised, RaisedPart, Raiser, SprayRaiser
from parhelion.weather.spray_plume import CLASSES, LUMPS_PER_S
from parhelion.weather.weather import Weather
from parhelion.world.world import World

SPRAY_PARCELS_PER_S = CLASSES * LUMPS_PER_S
"""Parcels of spray of one vehicle."""
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


class RaisesSpray(Config):
    """Spray that a vehicle raises on wet paved roads."""

    film_mm: Annotated[float, Field(ge=0, le=20)] | None = None
    """Depth of water on the road; by default that of the rain."""
    tyre_width_m: Annotated[float, Field(gt=0, le=2)] = TYRE_WIDTH_M
    """Width of the tyres of one track."""


class Raises(Config):
    """Fields of a vehicle that raises dust or spray."""

    raises_dust: RaisesDust | None = None
    """Dust from unpaved ground below the wheels."""
    raises_spray: RaisesSpray | None = None
    """Spray from wet paved roads below the wheels."""


class Plumes:
    """Media that the vehicles of a scenario raise."""

    def __init__(self, world: World) -> None:
        self._ground = GroundBelow(world)
        self._raisers: dict[str, list[Raiser]] = {"dust": [], "spray": []}
        self._media: list[Raised] = []
        self._raised: tuple[tuple[str, RaisedPart], ...] | None = None

    def add(self, entry: Raises, name: str, motion: Trajectory, **size: float) -> None:
        """Add a vehicle; `size` holds fields of `Chassis`."""
        dust, spray = entry.raises_dust, entry.raises_spray
        if dust is not None:
            own = size if dust.weight_kg is None else {**size, "weight_kg": dust.weight_kg}
            chassis = Chassis(name, motion, self._ground.of(UNPAVED), **own)
            self._raisers["dust"].append(DustRaiser(chassis, dust.silt_percent, dust.moisture_percent))
        if spray is not None:
            chassis = Chassis(name, motion, self._ground.of(PAVED), **size)
            self._raisers["spray"].append(SprayRaiser(chassis, spray.film_mm, spray.tyre_width_m))

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
            made = {
                "dust": Raised(self._raisers["dust"]),
                "spray": Raised(self._raisers["spray"], EXTINCTION_M2_KG, SPRAY_PARCELS_PER_S, LUMPS_PER_S),
            }
            self._media = list(made.values())
            self._raised = tuple((name, part) for name, one in made.items() for part in one.parts())
        weather = world.weather
        if self._raised != (() if weather is None else weather.raised):
            world.weather = (Weather() if weather is None else weather).with_raised(self._raised)
