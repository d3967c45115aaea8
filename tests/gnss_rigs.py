"""Worlds, receivers and reference computations for tests of satellite navigation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import parhelion as ph
from parhelion.sensors.waves.gnss.config import GnssConfig

BROADCAST = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "gnss" / "brdc1180.21n"
"""Broadcast ephemerides of GPS for the evening of 2021-04-28 (IGS, CDDIS); not part of the repository."""
EVENING = "2021-04-28T20:30:00+00:00"


def sheet(name: str = "u-blox/m8", **changes: Any) -> GnssConfig:
    """A preset with fields replaced; `fix`, `loops`, `budget` and `antenna` take mappings."""
    fields = ph.Gnss(name).config.model_dump()
    for key, value in changes.items():
        fields[key] = {**fields[key], **value} if isinstance(value, dict) else value
    return GnssConfig.model_validate(fields)


def plain(material: str = "concrete") -> ph.World:
    """A wide plain."""
    world = ph.World("plain")
    world.add(ph.shapes.plane(400, 400), material=material, label="road")
    return world


def canyon(width: float, height: float = 25.0) -> ph.World:
    """A street along x between two rows of houses."""
    world = ph.World("canyon")
    world.add(ph.shapes.plane(600, 400), material="asphalt", label="road")
    for side in (-1, 1):
        row = ph.Pose((0, side * (width / 2 + 10), height / 2))
        world.add(ph.shapes.box(300, 20, height), material="concrete", label="building", pose=row)
    return world
