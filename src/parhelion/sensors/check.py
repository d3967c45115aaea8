"""Contract of every sensor, and a public checker for built-in and third-party sensors.

    ph.check_sensor(ph.Radar("ti/iwr6843"))
    ph.check_sensor(MySensor("my/one"), world, motion)

A frame sensor has `measure(world, motion, time, seed, *, frame=None)`; a stream sensor has `run(world, motion, start,
duration, seed, *, mount=None)` and `stream(world, motion, seed, *, mount=None, start=0.0)`. The base classes in
`sensors/base.py` provide these methods; a sensor may also follow the contract without them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from parhelion.core.clouds import FIELDS, PointCloud
from parhelion.core.errors import ParhelionError
from parhelion.core.image import Image
from parhelion.core.pose import Pose
from parhelion.core.records import Record, units
from parhelion.core.streams import Samples, joined
from parhelion.core.trajectory import ConstantTwist, Trajectory
from parhelion.sensors.kinds import kinds
from parhelion.world import shapes
from parhelion.world.world import World

SAMPLES = 3
"""Number of samples of the run that checks stream sensors."""
_PICTURES = ("colour", "right")
"""Arrays of images without a single unit: counts or radiance, whose type `Image` checks."""


class ContractError(ParhelionError):
    """A sensor breaks the contract.

    >>> issubclass(ph.ContractError, ph.ParhelionError)
    True
    """


def arrays_of(measurement: Any) -> dict[str, np.ndarray[Any, Any]]:
    """All arrays of a measurement by name."""
    if isinstance(measurement, PointCloud):
        return {"xyz": measurement.xyz, **measurement.fields}
    return {name: value for name, value in vars(measurement).items() if isinstance(value, np.ndarray)}


def same_bits(a: Any, b: Any) -> bool:
    """Return whether two measurements are the same, byte for byte."""
    left, right = arrays_of(a), arrays_of(b)
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and left[name].tobytes() == right[name].tobytes() for name in left
    )


def check_sensor(
    sensor: Any, world: World | None = None, motion: Trajectory | None = None, *, time: float = 0.0
) -> None:
    """Raise ContractError unless a sensor follows the contract in this world.

    The same seed gives the same bits; a different seed gives different bits if the sensor has noise. Every array of a
    record has a unit and the declared type and shape, and is finite and read-only. An empty world gives no surface
    points and no error. Samples of a stream are in the order of time; a split run and `stream` give the same bits as
    one run, unless the sensor accumulates; a span without a sample gives an empty record.

    Args:
        sensor: Any sensor, of Parhelion or of another package.
        world: The world to measure; by default a small yard with four anchors.
        motion: Motion of the sensor; by default a slow drive through the yard.
        time: Start of the measurement [s].
    """
    world = _yard() if world is None else world
    motion = ConstantTwist(Pose((0.0, 0.0, 2.0)), velocity=(1.0, 0.2, 0.0)) if motion is None else motion
    is_stream = hasattr(sensor, "run")
    measure = _measurer(sensor, motion, time, is_stream)
    first = measure(world, 7)
    _check_type(sensor, first, is_stream)
    _check_arrays(first)
    if not same_bits(first, measure(world, 7)):
        raise ContractError("the same seed gave different bits")
    if getattr(sensor, "noise", True) and same_bits(first, measure(world, 8)):
        raise ContractError("another seed gave the same bits")
    nothing = measure(World(), 7)
    if type(nothing) is not type(first):
        raise ContractError(f"an empty world gave {type(nothing).__name__}, not {type(first).__name__}")
    if isinstance(nothing, PointCloud) and (invented := _surface_points(nothing)):
        raise ContractError(f"an empty world gave {invented} points of surfaces")
    if is_stream:
        _check_stream(sensor, world, motion, time, first)


def _yard() -> World:
    world = World("yard")
    world.add(shapes.plane(50, 50), material="concrete", label="road")
    for k, (x, y) in enumerate([(9, 9), (9, -9), (-9, 9), (-9, -9)]):
        world.add(shapes.box(0.1, 0.1, 0.1), material="plastic", name=f"anchor-{k}", pose=Pose((x, y, 3.0 + k)))
    return world


def _measurer(sensor: Any, motion: Trajectory, time: float, is_stream: bool) -> Callable[[World, int], Any]:
    """Function that measures a world with a seed."""
    rate = getattr(sensor, "rate_hz", None)
    if not (isinstance(rate, (int, float)) and np.isfinite(rate) and rate > 0):
        raise ContractError(f"rate_hz must be a number above 0, got {rate!r}")
    if not isinstance(getattr(sensor, "name", None), str):
        raise ContractError("name must be a string; it is '' by default")
    if is_stream:
        _check_call(sensor, "run", "(world, motion, start, duration, seed, *, mount=None)", 5, mount=None)
        _check_call(sensor, "stream", "(world, motion, seed, *, mount=None, start=0.0)", 3, mount=None, start=0.0)
        return lambda world, seed: sensor.run(world, motion, time, SAMPLES / rate, seed)
    _check_call(sensor, "measure", "(world, motion, time, seed, *, frame=None)", 4, frame=None)
    length, keys = getattr(sensor, "frame_duration_s", None), getattr(sensor, "visibility_keys", None)
    if not (isinstance(length, (int, float)) and np.isfinite(length) and length >= 0):
        raise ContractError(f"frame_duration_s must be a number of seconds, got {length!r}")
    if not (isinstance(keys, tuple) and all(isinstance(key, str) for key in keys)):
        raise ContractError(f"visibility_keys must be a tuple of strings, got {keys!r}")
    return lambda world, seed: sensor.measure(world, motion, time, seed)


def _check_call(sensor: Any, name: str, signature: str, count: int, **options: Any) -> None:
    """Check that a method accepts the arguments of the contract."""
    try:
        inspect.signature(getattr(sensor, name)).bind(*[None] * count, **options)
    except (AttributeError, TypeError, ValueError):
        raise ContractError(f"{type(sensor).__name__} must have {name}{signature}") from None


def _check_type(sensor: Any, record: Any, is_stream: bool) -> None:
    base: type = Samples if is_stream else Record
    if not isinstance(record, base):
        raise ContractError(f"a measurement must be a {base.__name__}, got {type(record).__name__}")
    kind = kinds().get(getattr(sensor, "kind", ""))
    if kind is not None and not isinstance(record, kind.record_type):
        raise ContractError(f"the kind {kind.name!r} declares {kind.record_type.__name__}, got {type(record).__name__}")


def _check_arrays(record: Record) -> None:
    if isinstance(record, PointCloud):
        _check_cloud(record)
    declared = {one.name: one.metadata for one in fields(record) if "shape" in one.metadata}  # type: ignore[arg-type]
    sizes: dict[Any, int] = {}
    for name, values in arrays_of(record).items():
        if name not in units(record) and not (isinstance(record, Image) and name in _PICTURES):
            raise ContractError(f"array {name!r} has no unit; declare it with column(unit, frame, *shape)")
        if values.flags.writeable:
            raise ContractError(f"array {name!r} can be changed; records are read-only")
        if name in declared:
            _check_column(name, values, declared[name], sizes)


def _check_column(name: str, values: Any, declared: Any, sizes: dict[Any, int]) -> None:
    """Check an array against its declaration; `sizes` holds the symbolic sizes resolved so far."""
    if values.dtype != np.dtype(declared["dtype"]):
        raise ContractError(f"array {name!r} is {values.dtype}, not {declared['dtype']}")
    expected = tuple(
        size if isinstance(size, int) else sizes.setdefault(size, found)
        for size, found in zip(declared["shape"], values.shape, strict=False)
    )
    if values.shape != expected or len(declared["shape"]) != values.ndim:
        raise ContractError(f"array {name!r} has shape {values.shape}, declared as {declared['shape']}")
    if declared["finite"] and not np.all(np.isfinite(values)):
        raise ContractError(f"array {name!r} is not finite")


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


def _surface_points(cloud: PointCloud) -> int:
    """Number of points that are not noise, by their origin where they have one."""
    origin = cloud.fields.get("origin")
    noise = [code for code, word in cloud.names.get("origin", {}).items() if word == "noise"]
    return len(cloud) if origin is None else int(np.sum(~np.isin(origin, noise)))


def _check_stream(sensor: Any, world: World, motion: Trajectory, time: float, whole: Samples) -> None:
    period = 1.0 / sensor.rate_hz
    if len(whole) == 0:
        raise ContractError(f"a run of {SAMPLES} periods gave no sample")
    if np.any(np.diff(whole.time) < 0):
        raise ContractError("the samples are not in the order of time")
    if whole.time[0] < time - 1e-9 or whole.time[-1] > time + (SAMPLES + 1) * period:
        raise ContractError(f"the samples are at {whole.time[0]:g} to {whole.time[-1]:g} s, outside of their run")
    empty = sensor.run(world, motion, time - (time % period) + 0.25 * period, 0.5 * period, 7)
    if type(empty) is not type(whole) or len(empty):
        raise ContractError("a span between two samples must give an empty record of the same type")
    if getattr(sensor, "accumulates", False):
        return
    parts = [
        sensor.run(world, motion, time, period, 7),
        sensor.run(world, motion, time + period, period * (SAMPLES - 1), 7),
    ]
    if not same_bits(joined(parts), whole):
        raise ContractError("a run in two parts gave other bits than one run; set `accumulates` if that is meant")
    stream = sensor.stream(world, motion, 7, start=time)
    if not same_bits(joined([stream.until(time + period), stream.until(time + SAMPLES * period)]), whole):
        raise ContractError("stream() gave other samples than run()")
