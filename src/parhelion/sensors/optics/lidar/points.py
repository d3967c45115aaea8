"""Points of a launch: selection of valid returns, attributes of the surfaces hit, and scan records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import UNSET, Bool, DrJit, Float, Int
from parhelion.core.clouds import FIELDS, ORIGINS, Scan, Shots, origin_names
from parhelion.core.errors import ConfigError, MissingDependencyError, unknown_name
from parhelion.core.trajectory import Trajectory
from parhelion.rays.device import Engine, copied, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.lock import DeviceOwned, engine_lock
from parhelion.rays.replay import Rows, capacity
from parhelion.rays.scene import NOTHING
from parhelion.sensors.optics.beams import Beams
from parhelion.sensors.optics.lidar.echoes import in_rows
from parhelion.sensors.optics.lidar.emit import ShotArrays
from parhelion.sensors.optics.lidar.fmcw import Doppler
from parhelion.sensors.optics.lidar.patterns import ShotTable
from parhelion.sensors.optics.lidar.readout import Ambient, ReturnRow
from parhelion.sensors.optics.scene import LightScene, PartNames
from parhelion.sensors.scene import NO_MATERIAL


@dataclass
class Points:
    """Valid returns of a launch as NumPy arrays, in order of scan, shot and range."""

    fields: dict[str, NDArray[Any]]
    xyz: NDArray[np.float32]
    returns: NDArray[np.uint8]
    """Number of returns of each beam, shape (scans, beams of a scan)."""
    borders: list[int]
    """Row of the first point of each scan, followed by the total number of points."""
    counted: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
    """Near infrared, and signal of shots without a return, shape (scans, beams of a scan); None if not reported."""


_MEASURED = ("range", "intensity", "reflectivity", "power")
_ORDER = (
    *_MEASURED,
    "ring",
    "column",
    "time",
    "return_index",
    "return_count",
    "material",
    "label",
    "instance",
    "velocity",
    "radial_velocity",
    "origin",
    "shot",
)


@kernel_tree()
@dataclass
class Returns:
    """Returns of a launch on the device, with flags of the valid ones in record order."""

    rows: list[ReturnRow] = field(default_factory=list)
    """One entry for each possible return of a beam."""
    beam: Int = UNSET
    """Beam numbers in record order: beams are traced ring by ring, records are ordered by shot."""
    counts: Int = UNSET
    """Number of returns of each of those beams."""
    flags: Int = UNSET
    """1 for valid returns and 0 for the others, beam by beam."""

    @classmethod
    def of(
        cls,
        engine: Engine,
        rows: list[ReturnRow],
        count: int,
        everyone: Rows,
        returns: Rows,
        per_scan: Int,
        places: Int,
    ) -> Returns:
        """Count and flag returns; `everyone` numbers the beams, `returns` their possible returns, and `places` is
        `ShotArrays.place`."""
        dr, mi, n = engine.dr, engine.mi, len(rows)
        place, index = everyone.index, returns.index
        valid = _joined(dr, rows, "valid")
        first = (place // per_scan) * per_scan
        beam = first + dr.gather(mi.UInt32, places, place - first)
        counts = _counts(engine, valid, count, beam, n, mi.UInt32(n))
        dr.eval(counts, beam)
        row = index // n
        there = dr.gather(mi.Bool, valid, (index - row * n) * count + dr.gather(mi.UInt32, beam, row))
        flags = dr.select(there, mi.UInt32(1), 0)
        dr.eval(flags)
        return cls(rows, beam, counts, flags)


@dataclass
class Received:
    """Result of a launch on the device."""

    returns: Returns
    beams: Beams
    shots: ShotArrays
    ambient: Ambient | None
    """Ambient counts of every beam, with or without a return; None if the sensor reports none."""
    casts: list[Any]
    """Numbers of rays cast, as integers or arrays of one element."""
    specular_casts: Int | None
    doppler: Doppler | None = None
    """Inputs of the radial velocity; None if the sensor does not measure it."""

    def tables(self, target: LightScene) -> Tables:
        """Lookup tables of the point attributes."""
        velocity = UNSET if target.scene.moving is None else target.scene.moving.velocity
        near_ir = UNSET if self.ambient is None else self.ambient.near_ir
        return target.names, self.beams.shot, self.shots.time, self.shots.ring_column, velocity, near_ir, self.doppler


class PointsExpected:
    """Size of the point buffer, estimated from earlier launches with the same number of beams.

    Reading the number of points from the device would stall both sides: Python waits for the device, and the device
    then waits for the next kernel. If the buffer is too small, the points are looked up once more.
    """

    def __init__(self) -> None:
        self._expected: dict[int, int] = {}

    def capacity(self, beams: int, most: int) -> int:
        """Rows of the buffer for a number of beams with at most `most` points."""
        return capacity(min(most, self._expected.get(beams, most)))

    def learn(self, beams: int, points: int) -> None:
        """Record the number of points of a launch.

        The buffer grows at once, and shrinks by a tenth per launch towards the size of the last one.
        """
        self._expected[beams] = max(points + points // 8 + 1, 9 * self._expected.get(beams, 0) // 10)


def collect(target: LightScene, sent: Received, expected: PointsExpected) -> Points:
    """Drop invalid returns and look up the surfaces hit, in parallel on the device."""
    engine, found, beams, shots = target.engine, sent.returns, sent.beams, sent.shots
    most, tables = beams.count * len(found.rows), sent.tables(target)

    def look_up(capacity: int) -> dict[str, Any]:
        returns, points = Rows.cached(engine, most), Rows.cached(engine, capacity)
        return engine.frozen(_look_up)(found, tables, returns, points, beams.count)

    capacity = expected.capacity(beams.count, most)
    values = look_up(capacity)
    returns = found.counts.numpy().astype(np.uint8).reshape(-1, shots.count)
    borders = [0, *np.cumsum(returns.sum(axis=1, dtype=np.int64)).tolist()]
    count = borders[-1]
    expected.learn(beams.count, count)
    if count > capacity:
        values = look_up(expected.capacity(beams.count, most))
    xyz, *more = (
        np.array(values.pop(name).numpy()[: 3 * count]).reshape(-1, 3) for name in ("xyz", "velocity") if name in values
    )
    fields = {"velocity": more[0] if more else np.zeros((count, 3), np.float32)}
    for key, value in values.items():
        fields |= _unpacked(key.split(), value.numpy()[:count])
    order = [name for name in (*_MEASURED, "near_ir", *_ORDER[len(_MEASURED) :]) if name in fields]
    counted = None
    if sent.ambient is not None:
        ordered = sent.ambient.in_order(engine, found.beam)
        light, noise = (copied(values).reshape(-1, shots.count) for values in ordered)
        # The sensor reports the noise count of shots without a return.
        counted = light, np.where(returns == 0, np.rint(noise), 0.0).astype(np.float32)
    return Points({name: fields[name] for name in order}, xyz, returns, borders, counted)


Tables = tuple[PartNames, Int, Float, Int, Float, Float, Doppler | None]
"""Names of parts, shots of beams, times of shots, ring and column of shots, velocities of actors, near infrared, and
inputs of the radial velocity."""


def _look_up(found: Returns, tables: Tables, returns: Rows, points: Rows, beams: int) -> dict[str, Any]:
    """Fields of all valid returns; small fields share a word to reduce copying.

    `returns` numbers the possible returns, `points` the rows of the buffer. Rows after the last point are undefined.
    """
    values = looked_up(found, tables, returns, points, beams)
    together = {
        "ring column": values.pop("ring") | (values.pop("column") << 16),
        "material label": values.pop("material") | (values.pop("label") << 16),
        "return_index return_count origin": (
            values.pop("return_index") | (values.pop("return_count") << 8) | (values.pop("origin") << 16)
        ),
    }
    values |= together
    running_engine().dr.eval(values)
    return values


def looked_up(found: Returns, tables: Tables, returns: Rows, points: Rows, beams: int) -> dict[str, Any]:
    """Fields of all valid returns, as kernel variables; rows after the last point are undefined."""
    engine = running_engine()
    dr, mi, rows, n = engine.dr, engine.mi, found.rows, len(found.rows)
    parts, shots_of_beams, times, ring_columns, velocity, near_ir, doppler = tables
    row, capacity = points.index, points.capacity
    picked = returns.pick(found.flags, into=points)
    # Rows after the last return read the first one; they are discarded.
    chosen = dr.gather(mi.UInt32, picked.numbers, row, row < picked.count)
    place_in_order = chosen // n
    register = chosen - place_in_order * n
    beam, total = (dr.gather(mi.UInt32, values, place_in_order) for values in (found.beam, found.counts))
    source = register * beams + beam
    shot = dr.gather(mi.UInt32, shots_of_beams, beam)
    number = _counts(engine, _joined(dr, rows, "valid"), beams, beam, n, register)
    measured, place = (dr.gather(mi.Vector4f, _joined(dr, rows, name), source) for name in ("measured", "place"))
    actor, origin = dr.gather(mi.Vector2u, _joined(dr, rows, "source"), source)
    part = dr.reinterpret_array(mi.UInt32, place.w)
    names = parts.at(part)
    ring_column = dr.gather(mi.UInt32, ring_columns, shot)
    values = {
        **dict(zip(_MEASURED, (measured.x, measured.w, measured.z, measured.y), strict=True)),
        "time": dr.gather(mi.Float, times, shot),
        "shot": shot,
        "instance": names["instance"],
        "ring": ring_column & 0xFFFF,
        "column": ring_column >> 16,
        "material": names["material"],
        "label": names["label"],
        "return_index": number,
        "return_count": total,
        "origin": origin,
    }
    if near_ir is not None:
        values["near_ir"] = dr.gather(mi.Float, near_ir, beam)
    values["xyz"] = in_rows(engine, mi.Vector3f(place.x, place.y, place.z), row, capacity)
    speed = None
    if velocity is not None:
        moved = actor != NOTHING
        speed = dr.gather(mi.Vector4f, velocity, dr.select(moved, actor, 0), moved)
        values["velocity"] = in_rows(engine, mi.Vector3f(speed.x, speed.y, speed.z), row, capacity)
    if doppler is not None:
        values["radial_velocity"] = doppler.speeds(beam, shot, number, measured.y, speed)
    return values


def _counts(engine: Engine, valid: Bool, count: int, beam: Int, registers: int, below: Int) -> Int:
    """Number of valid registers below `below` of each beam; `count` is the number of beams."""
    dr, mi = engine.dr, engine.mi
    total = dr.zeros(mi.UInt32, dr.width(beam))
    for k in range(registers):
        use = dr.gather(mi.Bool, valid, k * count + beam) & (below > k)
        total += dr.select(use, mi.UInt32(1), 0)
    return total


def _joined(dr: DrJit, rows: list[ReturnRow], name: str) -> Any:
    values = [getattr(row, name) for row in rows]
    return values[0] if len(values) == 1 else dr.concat(values)


def _unpacked(names: list[str], words: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Fields packed into one array of words, lowest bits first."""
    if len(names) == 1:
        return {names[0]: _typed(names[0], words)}
    fields = {name: np.empty(len(words), FIELDS[name].dtype) for name in names}
    for number, values in enumerate(fields.values()):
        # With `out`, NumPy shifts in chunks; a plain shift of a large batch would allocate another large array.
        np.right_shift(words, number * (16 if len(names) == 2 else 8), out=values, casting="unsafe")
    return fields


def _typed(name: str, values: NDArray[Any]) -> NDArray[Any]:
    spec = FIELDS[name]
    shaped = values.reshape(-1, spec.columns) if spec.columns > 1 else values
    # Always a copy: records must not hold Dr.Jit's memory, which only its own thread may free.
    return shaped.astype(spec.dtype)


def scans_of(
    points: Points,
    table: ShotTable,
    target: LightScene,
    motions: list[Trajectory],
    starts: list[float],
    metadata: list[dict[str, Any]],
) -> list[Scan]:
    """One record per scan."""
    names = {"label": target.label_names, "material": target.material_names, "origin": origin_names()}
    scans = []
    for i, (motion, start) in enumerate(zip(motions, starts, strict=True)):
        rows = slice(points.borders[i], points.borders[i + 1])
        counted = () if points.counted is None else tuple(values[i] for values in points.counted)
        shots = Shots(
            table.direction, table.origin, table.recorded_time, table.ring, table.column, points.returns[i], *counted
        )
        scans.append(
            Scan(
                points.xyz[rows],
                {name: values[rows] for name, values in points.fields.items()},
                "sensor",
                names,
                metadata[i],
                shots=shots,
                motion=motion,
                start_time=start,
            )
        )
    return scans


NEAR_REFLECTIVITY = 0.1
"""Reflectivity that dirt on the window has in points (assumed)."""
_BLOCKED = 0.5
"""Covered share of a beam from which the echo of the window outshines that of the world (assumed)."""


def with_near_returns(scan: Scan, near: NDArray[np.float64], range_m: float, intensity: float) -> Scan:
    """Scan whose shots through mud and ice report one point on the window instead of their returns.

    `near` is the covered share of each shot. The point lies at the shortest range of the sensor.
    """
    blocked = np.flatnonzero(near >= _BLOCKED)
    values = {"power": 1.0, "reflectivity": NEAR_REFLECTIVITY, "intensity": intensity}
    origin = {"origin": ORIGINS.index("window")}
    return with_points(scan, blocked, np.full(len(blocked), range_m), values | origin)


def with_points(scan: Scan, shot: NDArray[Any], range_m: NDArray[Any], values: Mapping[str, Any]) -> Scan:
    """Scan in which some shots report one point of no surface at a range [m], in place of their returns.

    `values` are further fields of these points, numbers or one per shot.
    """
    shots = scan.shots
    kept = ~np.isin(scan.fields["shot"], shot)
    whole: dict[str, Any] = {
        "range": range_m, "return_count": 1, "material": NO_MATERIAL, "shot": shot, "ring": shots.ring[shot],
        "column": shots.column[shot], "time": shots.time[shot], **values,
    }  # fmt: skip
    order = np.argsort(np.concatenate([scan.fields["shot"][kept], shot]), kind="stable")
    fields = {}
    for name, present in scan.fields.items():
        added = np.zeros((len(shot), *present.shape[1:]), present.dtype)
        added[:] = whole.get(name, 0)
        fields[name] = np.concatenate([present[kept], added])[order]
    xyz = shots.origin[shot] + np.asarray(range_m, np.float32)[:, None] * shots.direction[shot]
    counts = shots.return_count.copy()
    counts[shot] = 1
    points = np.concatenate([scan.xyz[kept], xyz.astype(scan.xyz.dtype)])[order]
    return replace(scan, xyz=points, fields=fields, shots=replace(shots, return_count=counts))


# ---- tensors --------------------------------------------------------------------------------------------------------
# Scans that stay on the device: fields of many scans as arrays for exchange with other libraries by DLPack.


DEFAULT_TENSORS = ("xyz", "intensity", "ring", "time", "label", "instance")
"""Default fields of `scan_tensors`."""
KNOWN = (
    "xyz", "range", "intensity", "reflectivity", "power", "near_ir", "ring", "column", "time", "return_index",
    "return_count", "material", "label", "instance", "velocity", "radial_velocity", "origin", "shot",
)  # fmt: skip
_WHOLE = ("ring", "column", "return_index", "return_count", "material", "label", "instance", "origin", "shot")
_THREE = ("xyz", "velocity")


@dataclass(frozen=True, eq=False)
class ScanTensors(DeviceOwned):
    """Several scans with concatenated points.

    On a GPU, a field is a Dr.Jit array in GPU memory; on the CPU, it is a NumPy array. Both support `__dlpack__`.
    Real numbers are float32; labels, rings and other whole numbers are int32. `xyz` and `velocity` have shape
    (points, 3), all others (points,).

    A consumer that imports a field by DLPack shares Dr.Jit's memory and must release it in the thread that scans.
    `torch` returns copies on the same device that any thread may release.

    >>> poses = [ph.Pose(xyz=(0, 0, 2)), ph.Pose(xyz=(1, 0, 2))]
    >>> (batch,) = ph.Lidar("velodyne/vlp-16").scan_tensors(ph.World.load("cuboids"), poses, seed=7)
    >>> len(batch), batch["xyz"].shape[1]
    (2, 3)
    """

    fields: dict[str, Any]
    first: NDArray[np.int64]
    """Row of each scan's first point, followed by the total number of points; on the host, shape (scans + 1,)."""
    device: str
    """'cpu', 'cuda' or 'metal'."""
    names: dict[str, dict[int, str]] = field(default_factory=dict)
    """Names of the numbers in the fields label and material."""

    def __len__(self) -> int:
        """Number of scans."""
        return len(self.first) - 1

    def __getitem__(self, name: str) -> Any:
        """Field of all points."""
        if name not in self.fields:
            raise unknown_name("field", name, self.fields)
        return self.fields[name]

    def torch(self) -> dict[str, Any]:
        """Fields as PyTorch tensors on the same device, copied into PyTorch's memory."""
        try:
            import torch
        except ImportError:
            raise MissingDependencyError("PyTorch tensors need the package torch: run 'pip install torch'") from None
        with engine_lock:
            made = {name: torch.from_dlpack(values).clone() for name, values in self.fields.items()}
            if self.device == "cuda":
                # The next scan may reuse this memory in another CUDA stream than the copies.
                torch.cuda.current_stream().synchronize()
        return made


def chosen_fields(fields: Sequence[str]) -> tuple[str, ...]:
    """Validated field names without duplicates."""
    if isinstance(fields, str) or not len(fields):
        raise ConfigError(f"fields: expected a list of names, for example {list(DEFAULT_TENSORS)}, got {fields!r}")
    for name in fields:
        if name not in KNOWN:
            raise unknown_name("field", name, KNOWN)
    return tuple(dict.fromkeys(fields))


def tensors_of(target: LightScene, sent: Received, expected: PointsExpected, fields: tuple[str, ...]) -> ScanTensors:
    """Points of a launch, looked up on the device; only the number of points per scan is copied to the host."""
    engine, found, beams, shots = target.engine, sent.returns, sent.beams, sent.shots
    most, tables = beams.count * len(found.rows), sent.tables(target)
    for name, table in (("near_ir", tables[-2]), ("radial_velocity", tables[-1])):
        if name in fields and table is None:
            raise ConfigError(f"fields: {name}: this sensor does not report it")

    def look_up(capacity: int) -> dict[str, Any]:
        returns, points = Rows.cached(engine, most), Rows.cached(engine, capacity)
        return engine.frozen(_chosen)(found, tables, returns, points, beams.count, fields)

    capacity = expected.capacity(beams.count, most)
    values = look_up(capacity)
    counts = copied(engine.dr.block_sum(found.counts, shots.count)).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(counts)])
    count = int(first[-1])
    expected.learn(beams.count, count)
    if count > capacity:
        values = look_up(expected.capacity(beams.count, most))
    names = {"label": target.label_names, "material": target.material_names}
    return ScanTensors(
        {name: _shaped(engine, name, values.get(name), count) for name in fields}, first, engine.device, names
    )


def _chosen(
    found: Returns, tables: Tables, returns: Rows, points: Rows, beams: int, fields: tuple[str, ...]
) -> dict[str, Any]:
    """Kernel that returns the requested fields; traced once."""
    mi, dr = running_engine().mi, running_engine().dr
    values = looked_up(found, tables, returns, points, beams)
    # Labels and similar numbers are below 2^31, and few libraries support unsigned integers.
    chosen = {name: mi.Int32(values[name]) if name in _WHOLE else values[name] for name in fields if name in values}
    dr.eval(chosen)
    return chosen


def _shaped(engine: Engine, name: str, values: Any, count: int) -> Any:
    """Valid rows in the field's shape: a tensor on the GPU, or a NumPy array on the CPU."""
    mi, dr = engine.mi, engine.dr
    columns = 3 if name in _THREE else 1
    shape = (count, 3) if columns == 3 else (count,)
    if values is None:  # nothing moves, so no velocity was looked up
        assert FIELDS[name].columns == 3
        values = dr.zeros(mi.Float, max(1, columns * count))
    if engine.device == "cpu":
        return copied(values)[: columns * count].reshape(shape)
    kind = mi.TensorXi if name in _WHOLE else mi.TensorXf
    if not count:
        return kind(dr.zeros(mi.Int32 if name in _WHOLE else mi.Float, 0), shape=shape)
    return kind(dr.reshape(values, columns * count, shrink=True), shape=shape)


def tensors_from(engine: Engine, scans: Sequence[Scan], fields: tuple[str, ...]) -> ScanTensors:
    """Tensors of finished scans, uploaded to the engine's device."""
    first = np.concatenate([[0], np.cumsum([len(scan) for scan in scans])]).astype(np.int64)
    names: dict[str, dict[int, str]] = {"label": {}, "material": {}}
    for scan in scans:
        for name, known in names.items():
            known.update(scan.names.get(name, {}))
    found: dict[str, Any] = {}
    for name in fields:
        parts = [scan.xyz if name == "xyz" else scan.fields.get(name) for scan in scans]
        if any(part is None for part in parts):
            raise ConfigError(f"fields: {name}: this sensor does not report it")
        kind: Any = np.int32 if name in _WHOLE else np.float32
        columns = (3,) if name in _THREE else ()
        values = np.concatenate([np.zeros((0, *columns)), *parts]).astype(kind)  # type: ignore[arg-type]
        if engine.device != "cpu":
            mi = engine.mi
            tensor = mi.TensorXi if name in _WHOLE else mi.TensorXf
            values = tensor((mi.Int32 if name in _WHOLE else mi.Float)(values.ravel()), shape=values.shape)
        found[name] = values
    return ScanTensors(found, first, engine.device, names)
