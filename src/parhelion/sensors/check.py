"""What every sensor must keep: one public checker, for our own sensors and for users' own."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from parhelion.core.clouds import FIELDS, PointCloud
from parhelion.core.errors import ParhelionError
from parhelion.core.trajectory import Trajectory
from parhelion.world.world import World


class ContractError(ParhelionError):
    """A sensor breaks the contract."""


class Sensor(Protocol):
    """Anything that measures a world from a motion, at a time, with a seed."""

    def measure(self, world: World, motion: Trajectory, time: float, seed: int) -> Any:
        """One measurement."""
        ...


def arrays_of(measurement: Any) -> dict[str, np.ndarray[Any, Any]]:
    """All arrays of a measurement by name."""
    if isinstance(measurement, PointCloud):
        return {"xyz": measurement.xyz, **measurement.fields}
    return {name: value for name, value in vars(measurement).items() if isinstance(value, np.ndarray)}


def same_bits(a: Any, b: Any) -> bool:
    """Whether two measurements are the same, byte for byte."""
    left, right = arrays_of(a), arrays_of(b)
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and left[name].tobytes() == right[name].tobytes() for name in left
    )


def check_sensor(sensor: Sensor, world: World, motion: Trajectory, *, time: float = 0.0) -> None:
    """Raise ContractError unless the sensor keeps the contract in this world.

    The same seed gives the same bits; another seed gives others (where the sensor has noise); points have a frame,
    coordinates that are finite, and known fields of the right type and shape; an empty world gives an empty
    measurement, not an error.
    """
    first = sensor.measure(world, motion, time, 7)
    if not same_bits(first, sensor.measure(world, motion, time, 7)):
        raise ContractError("the same seed gave different bits")
    if getattr(sensor, "noise", True) and same_bits(first, sensor.measure(world, motion, time, 8)):
        raise ContractError("another seed gave the same bits")
    if isinstance(first, PointCloud):
        _check_cloud(first)
    nothing = sensor.measure(World(), motion, time, 7)
    if isinstance(nothing, PointCloud):
        invented = len(nothing) - int(np.sum(nothing.fields["origin"] == _code(nothing, "noise")))
        if invented:
            raise ContractError(f"an empty world gave {invented} points of surfaces")


def _code(cloud: PointCloud, name: str) -> int:
    return next(code for code, word in cloud.names["origin"].items() if word == name)


def _check_cloud(cloud: PointCloud) -> None:
    if not cloud.frame:
        raise ContractError("the points have no frame")
    if not np.all(np.isfinite(cloud.xyz)):
        raise ContractError("some coordinates are not finite")
    for name, values in cloud.fields.items():
        spec = FIELDS.get(name)
        if spec is None:
            raise ContractError(f"field {name!r} is not in the table of fields, so it has no unit")
        if values.dtype != np.dtype(spec.dtype):
            raise ContractError(f"field {name!r} is {values.dtype}, not {spec.dtype}")
        if values.shape != ((len(cloud),) if spec.columns == 1 else (len(cloud), spec.columns)):
            raise ContractError(f"field {name!r} has shape {values.shape}")
