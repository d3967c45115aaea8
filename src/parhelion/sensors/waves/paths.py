"""The paths of one measurement on the host: from the kernel's arrays to one table."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.random import Stream
from parhelion.rays.device import Engine
from parhelion.rays.replay import SceneArrays
from parhelion.sensors.waves.motion import Moves
from parhelion.sensors.waves.shoot import Emission, shoot
from parhelion.sensors.waves.target import WaveTarget

_COLUMNS = 9
ENCLOSED_M = 0.5
"""A sensor that sees nothing but insides of surfaces this near is in a wall."""
_JITTER = Stream(0, "waves/jitter").key
"""Where within its cell each ray goes: always the same, so that what stands still looks the same in every frame."""


@dataclass(frozen=True, eq=False)
class Paths:
    """Ways from the sensor to a surface and back, one row a ray and way."""

    cross_section: NDArray[np.float32]
    """Apparent radar cross-section [m^2] of the ray's share, gains relative to the axis and absorption included."""
    length: NDArray[np.float32]
    """There and back [m]."""
    rate: NDArray[np.float32]
    """How fast the length grows [m/s]."""
    direction: NDArray[np.float32]
    """Unit vectors that it comes from, sensor's frame, shape (n, 3)."""
    distance: NDArray[np.float32]
    """From the receiver to the last surface, along `direction` [m]."""
    part: NDArray[np.uint32]
    patch: NDArray[np.uint32]
    bounces: NDArray[np.uint8]
    """Surfaces on the way, mirrors on the way back included."""
    ray: NDArray[np.int64]
    """Number of the ray."""

    @classmethod
    def none(cls) -> Paths:
        """Of a sensor that sends nothing."""
        real, whole = np.zeros(0, np.float32), np.zeros(0, np.uint32)
        return cls(
            real, real, real, np.zeros((0, 3), np.float32), real, whole, whole, np.zeros(0, np.uint8),
            np.zeros(0, np.int64),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.length)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Paths:
        """Some of them."""
        return Paths(*(getattr(self, one.name)[rows] for one in fields(self)))


def trace_paths(
    engine: Engine, target: WaveTarget, emission: Emission, moves: Moves, cast: SceneArrays, rays: int
) -> Paths:
    """Shoot all rays and collect the answers, in the order of rays within each way of answering."""
    opaque, kind = engine.dr.opaque, engine.mi.UInt32
    keys = (opaque(kind, _JITTER[0]), opaque(kind, _JITTER[1]))
    run = engine.frozen(shoot, casts=True)
    found = run(emission, moves, target.patches, target.surfaces, cast, engine.counting(rays), keys)
    tables: list[list[NDArray[Any]]] = [[] for _ in range(_COLUMNS + 2)]
    for way in range(len(found) // _COLUMNS):
        columns = [values.numpy() for values in found[way * _COLUMNS : (way + 1) * _COLUMNS]]
        rows = np.flatnonzero(columns[0])
        for table, values in zip(tables, columns, strict=False):
            table.append(values[rows])
        # 1; then back along the way and straight, by turns.
        surfaces = 1 if way == 0 else (way + 1) // 2 + 1
        bounces = 2 * surfaces - 1 if way % 2 or way == 0 else surfaces
        tables[-2].append(np.full(len(rows), bounces, np.uint8))
        tables[-1].append(rows)
    if np.all(found[-1].numpy() < ENCLOSED_M):
        raise ConfigError(
            f"pose: the sensor is inside something: every ray meets its inside within {ENCLOSED_M:g} m; move "
            "the sensor, or hide the body around it with hidden_from"
        )
    sigma, length, rate, x, y, z, distance, part, patch, bounces_of, ray = (np.concatenate(one) for one in tables)
    return Paths(sigma, length, rate, np.stack([x, y, z], axis=1), distance, part, patch, bounces_of, ray)
