"""A frame sensor that follows the contract without the base class, with its own type of record."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import parhelion as ph
from parhelion.core.pose import Floats
from parhelion.core.streams import column
from parhelion.outputs.consumers import CONSUMERS
from parhelion.outputs.files import FILES, FileRule
from parhelion.outputs.report.frames import FRAMES


def presets() -> list[str]:
    """Names of its presets."""
    return ["toy/sounder"]


@dataclass(frozen=True, eq=False)
class Ping(ph.Record):
    """One frame of an echo sounder."""

    range: Floats = field(metadata=column("m", "sensor", 1))
    """Range of the echo [m], shape (1,)."""
    start_time: float = 0.0


class Sounder:
    """One range per ping, determined only by time and seed."""

    rate_hz, frame_duration_s, noise = 10.0, 0.01, True

    def __init__(self, model: str, *, name: str = "") -> None:
        self.model, self.name, self.visibility_keys = model, name, ("sounder", model, name)

    def measure(self, world: Any, motion: Any, time: float = 0.0, seed: int = 0, *, frame: int | None = None) -> Ping:
        """One ping."""
        return Ping(np.array([2.0 + time + 1e-4 * seed]), time)


def _write(ping: Ping, file: Path) -> list[str]:
    file.write_text(f"{ping.range[0]:.2f}")
    return []


FILES.add(Ping, FileRule(lambda sensor, scenario: ".txt", _write))
FRAMES.add(
    Ping, lambda name, model, pings: f"<p>{name}: {[round(float(one.range[0]), 1) for one in pings.values()]}</p>"
)
for consumer in CONSUMERS[1:]:
    consumer.skip(Ping, "this is a sensor of the tests")
