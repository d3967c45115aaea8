"""Readout: what the sensor writes down of each return, in the kernel, and the scan record made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Ints, Keys, Masks, Reals, namespace
from parhelion.core.random import to_normal, words
from parhelion.core.records import FIELDS, ORIGINS, Scan, Shots
from parhelion.core.trajectory import Trajectory
from parhelion.rays.device import Engine, copied, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.rows import Rows, room
from parhelion.rays.scene import NOTHING
from parhelion.sensors.lidar.ambient import Ambient
from parhelion.sensors.lidar.detection import FALSE_ALARM, Return, echo_of
from parhelion.sensors.lidar.echoes import GHOST_BIT, NO_ACTOR, NO_ECHO, SCATTERER_BIT, Block, in_rows
from parhelion.sensors.lidar.emit import ShotArrays
from parhelion.sensors.lidar.intensity import SCALES, in_steps, reflectivity
from parhelion.sensors.lidar.noise import range_sigma
from parhelion.sensors.lidar.patterns import ShotTable
from parhelion.sensors.lidar.profiled import ACTOR_BITS, ANGLE_BITS, ANGLE_SHIFT, ProfiledParts, share_left
from parhelion.sensors.light.air import Air
from parhelion.sensors.light.beams import Beams
from parhelion.sensors.light.curve import Curve
from parhelion.sensors.light.target import PartNames, Target

_NOISE_DRAW = 3000
_SURFACE, _MULTIPATH, _NOISE = (ORIGINS.index(name) for name in ("surface", "multipath", "noise"))


@kernel_tree()
@dataclass
class Readout:
    """Errors and scales that turn a return into numbers, opaque to the kernel compiler."""

    noisy: bool
    sigma_0: Reals
    sigma_1: Reals
    sigma_curve: Curve | None
    threshold_to_noise: Reals
    bias: Reals
    """Range error of each shot's channel [m], one value a shot, or None."""
    resolution: Reals
    """Step of the reported range [m], or None."""
    saturation: Reals
    """Highest power that the receiver can tell, or None."""
    intensity_sigma: Reals
    """Relative deviation of intensity, or None."""
    intensity_scale: str
    intensity_resolution: Reals
    photons: Reals
    """Photons at the detection threshold, for scales that count them."""
    threshold: Reals
    extinction: Reals
    overlap: Curve | None
    """Share of the return that the receiver collects by range, which the firmware divides out of reflectivity."""
    direction: Reals
    """Reported direction of each shot in the sensor frame, in rows of four."""
    origin: Reals
    """Where each shot leaves in the sensor frame [m], in rows of four."""


@dataclass
class ReadReturn:
    """One return of each beam, as kernel variables. Values that are read together are one vector."""

    valid: Masks
    measured: Reals
    """Range, power, reflectivity and intensity."""
    place: Reals
    """Coordinates, and the bits of the part's number."""
    source: Ints
    """Number of the actor, and of the point's origin."""


@kernel_tree()
@dataclass
class Row:
    """One return of every beam in device memory: as reported, the numbers of a beam together."""

    valid: Masks = None
    measured: Reals = None
    place: Reals = None
    source: Ints = None

    @classmethod
    def of(cls, engine: Engine, found: ReadReturn) -> Row:
        """Evaluate what was reported of all beams, in order."""
        dr = engine.dr
        row = cls(found.valid, *(dr.ravel(values) for values in (found.measured, found.place, found.source)))
        dr.eval(*vars(row).values())
        return row

    def overwrite(self, engine: Engine, beam: Ints, better: ReadReturn) -> None:
        """Put what was reported of some beams, by number, in place of what is there."""
        dr = engine.dr
        for name, values in vars(better).items():
            dr.scatter(getattr(self, name), values, beam)
        dr.eval(*vars(self).values())


def read_out(
    engine: Engine,
    readout: Readout,
    blocks: list[Block],
    found: list[Return],
    beams: Beams,
    beam: Ints,
    keys: Keys,
    displaced: Callable[[Reals, Ints, Keys], Reals] | None = None,
    profiled: ProfiledParts | None = None,
    air: Air | None = None,
) -> list[ReadReturn]:
    """Noise, steps, scales and coordinates of each return.

    `displaced` is the range of a surface's return as the weather lets it appear, of range, shot and key. `profiled` are
    parts whose noise comes from profiles, and `air` is what dims their signal, None in clear air.
    """
    no_actor = NO_ACTOR if profiled is None else ACTOR_BITS
    mi, dr = engine.mi, engine.dr
    shot, key = beams.draws(engine, beam, keys)
    fours = (dr.gather(mi.Vector4f, values, shot) for values in (readout.direction, readout.origin))
    direction, origin = (mi.Vector3f(four.x, four.y, four.z) for four in fours)
    rows = []
    for number, item in enumerate(found):
        valid = item.range < NO_ECHO
        power = item.power
        if readout.saturation is not None:
            power = namespace(power).minimum(power, readout.saturation)
        luck: tuple[Reals, Reals] = (0.0, 0.0)
        if readout.noisy:
            a, b, _, _ = words(key, shot, _NOISE_DRAW + number)
            luck = to_normal(a, b)
        made = valid & (item.slot != FALSE_ALARM)
        echo = echo_of(engine, blocks, item.slot, made)
        in_air = made & ((echo.actor & SCATTERER_BIT) != 0)
        true_range = item.range
        if displaced is not None:
            true_range = dr.select(made & ~in_air, displaced(true_range, shot, key), true_range)
        range_m = _measured_range(engine, readout, true_range, power, shot, luck[0], valid)
        overlap = 1.0 if readout.overlap is None else readout.overlap(dr.select(valid, item.range, 0.0), valid)
        equal = reflectivity(
            power, item.range, threshold=readout.threshold, extinction_per_m=readout.extinction, overlap=overlap
        )
        seen = power
        if readout.noisy and readout.intensity_sigma is not None:
            factor = namespace(power).maximum(1.0 + readout.intensity_sigma * luck[1], 0.0)
            seen, equal = power * factor, equal * factor
        value = SCALES[readout.intensity_scale](seen, equal, readout.photons)
        value = in_steps(value, readout.intensity_resolution)
        ghost = made & ((echo.actor & GHOST_BIT) != 0)
        if profiled is not None:
            code = (echo.actor & ANGLE_BITS) >> ANGLE_SHIFT
            on_surface = made & ~in_air & ~ghost
            left = None
            if air is not None:
                left = share_left(air, readout.extinction, blocks, beams.aim(engine, beam), item.range, on_surface)
            drawn = profiled.draw(echo.part, code, key, shot, number, on_surface, left)
            valid &= ~(drawn.held & drawn.lost)
            range_m = dr.select(drawn.held, in_steps(true_range + drawn.error, readout.resolution), range_m)
            shown = drawn.intensity
            if profiled.profiles.reference is not None:
                shown = shown * drawn.scale * overlap / (true_range * true_range)
            value = dr.select(drawn.held, in_steps(shown, readout.intensity_resolution), value)
        source = dr.select(made, dr.select(ghost, mi.UInt32(_MULTIPATH), _SURFACE), _NOISE)
        actor = echo.actor & no_actor
        source = dr.select(in_air, actor, source)
        actor = dr.select(made & ~in_air & (actor != no_actor), actor, NOTHING)
        xyz = origin + range_m * direction
        part = dr.reinterpret_array(mi.Float, dr.select(made, echo.part, NOTHING))
        rows.append(
            ReadReturn(
                valid, mi.Vector4f(range_m, seen, equal, value), mi.Vector4f(xyz.x, xyz.y, xyz.z, part),
                mi.Vector2u(actor, source),
            )
        )  # fmt: skip
    return rows


def _measured_range(
    engine: Engine, readout: Readout, true_range: Reals, power: Reals, shot: Ints, luck: Reals, valid: Masks
) -> Reals:
    """Range with noise, channel bias and the sensor's step; `luck` is a standard normal number a beam."""
    mi, dr = engine.mi, engine.dr
    range_m = true_range
    if readout.noisy:
        if readout.sigma_curve is not None:
            sigma = readout.sigma_curve(dr.select(valid, true_range, 0.0), valid)
        else:
            snr = namespace(power).maximum(power, 1e-6) * readout.threshold_to_noise
            sigma = range_sigma(snr, sigma_0=readout.sigma_0, sigma_1=readout.sigma_1)
        range_m = range_m + sigma * luck
        if readout.bias is not None:
            range_m = range_m + dr.gather(mi.Float, readout.bias, shot)
    return in_steps(range_m, readout.resolution)


@dataclass
class Points:
    """The valid returns of a launch as NumPy arrays, in order of scan, shot and range."""

    fields: dict[str, NDArray[Any]]
    xyz: NDArray[np.float32]
    returns: NDArray[np.uint8]
    """Number of returns of each beam, shape (scans, beams of a scan)."""
    borders: list[int]
    """Row of the first point of each scan, and at the end the number of all points."""
    counted: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
    """Near infrared, and signal where there is no return, shape (scans, beams of a scan); None where not counted."""


_MEASURED = ("range", "intensity", "reflectivity", "power")
_ORDER = (
    *_MEASURED, "ring", "column", "time", "return_index", "return_count",
    "material", "label", "instance", "velocity", "origin", "shot",
)  # fmt: skip


@kernel_tree()
@dataclass
class Returns:
    """The returns of a launch on the device, and which of them there are, in the order of records."""

    rows: list[Row] = field(default_factory=list)
    """One for each return that a beam may have."""
    beam: Ints = None
    """Beams in the order of records: they were traced ring by ring, records go shot by shot."""
    counts: Ints = None
    """How many returns each of those has."""
    flags: Ints = None
    """1 for their returns that there are, else 0, beam by beam."""

    @classmethod
    def of(
        cls, engine: Engine, rows: list[Row], count: int, everyone: Rows, returns: Rows, per_scan: Ints, places: Ints
    ) -> Returns:
        """Of `everyone`, the beams, and of the `returns` that they may have; `places` is that of `ShotArrays`."""
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


class PointsExpected:
    """The size of the point buffer, learnt from earlier launches of as many beams.

    Asking the device for the number of points would stall both: Python would wait for the device, and the device then
    for the next kernel. If the buffer turns out too small, the points are looked up once more.
    """

    def __init__(self) -> None:
        self._expected: dict[int, int] = {}

    def room(self, beams: int, most: int) -> int:
        """Rows of the buffer for a number of beams, which cannot have more points than `most`."""
        return room(min(most, self._expected.get(beams, most)))

    def learn(self, beams: int, points: int) -> None:
        """Take note of the number of points that a launch gave.

        The buffer grows at once, and shrinks by a tenth a launch towards the size of the last.
        """
        self._expected[beams] = max(points + points // 8 + 1, 9 * self._expected.get(beams, 0) // 10)


def collect(
    target: Target,
    found: Returns,
    beams: Beams,
    shots: ShotArrays,
    ambient: Ambient | None,
    expected: PointsExpected,
) -> Points:
    """Drop what is not valid and look up what was hit: on the device, where it is done in parallel.

    `ambient` is what the sensor counts of every beam, returned or not; None where it counts nothing.
    """
    engine, most = target.engine, beams.count * len(found.rows)
    velocity = None if target.scene.moving is None else target.scene.moving.velocity
    near_ir = None if ambient is None else ambient.near_ir
    tables = target.names, beams.shot, shots.time, shots.ring_column, velocity, near_ir

    def look_up(room_for: int) -> dict[str, Any]:
        returns, points = Rows.kept(engine, most), Rows.kept(engine, room_for)
        return engine.frozen(_look_up)(found, tables, returns, points, beams.count)

    room_for = expected.room(beams.count, most)
    values = look_up(room_for)
    returns = found.counts.numpy().astype(np.uint8).reshape(-1, shots.count)
    borders = [0, *np.cumsum(returns.sum(axis=1, dtype=np.int64)).tolist()]
    count = borders[-1]
    expected.learn(beams.count, count)
    if count > room_for:
        values = look_up(expected.room(beams.count, most))
    xyz, *more = (
        np.array(values.pop(name).numpy()[: 3 * count]).reshape(-1, 3) for name in ("xyz", "velocity") if name in values
    )
    fields = {"velocity": more[0] if more else np.zeros((count, 3), np.float32)}
    for key, value in values.items():
        fields |= _unpacked(key.split(), value.numpy()[:count])
    order = [name for name in (*_MEASURED, "near_ir", *_ORDER[len(_MEASURED) :]) if name in fields]
    counted = None
    if ambient is not None:
        light, noise = (copied(values).reshape(-1, shots.count) for values in ambient.in_order(engine, found.beam))
        # Noise is what the sensor writes down where there is no return.
        counted = light, np.where(returns == 0, np.rint(noise), 0.0).astype(np.float32)
    return Points({name: fields[name] for name in order}, xyz, returns, borders, counted)


def _look_up(
    found: Returns,
    tables: tuple[PartNames, Reals, Reals, Reals, Reals, Reals],
    returns: Rows,
    points: Rows,
    beams: int,
) -> dict[str, Any]:
    """The fields of all returns that there are; small ones two or four to a word, so that less is copied.

    `returns` are those that there may be, `points` those that there is memory for. Rows after the last point have no
    meaning.
    """
    engine = running_engine()
    dr, mi, rows, n = engine.dr, engine.mi, found.rows, len(found.rows)
    parts, shots_of_beams, times, ring_columns, velocity, near_ir = tables
    row, room_for = points.index, points.room
    picked = returns.pick(found.flags, into=points)
    # Rows after the last return read the first one; nobody looks at them.
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
    values = {
        **dict(zip(_MEASURED, (measured.x, measured.w, measured.z, measured.y), strict=True)),
        "time": dr.gather(mi.Float, times, shot),
        "shot": shot,
        "instance": names["instance"],
        "ring column": dr.gather(mi.UInt32, ring_columns, shot),
        "material label": names["material"] | (names["label"] << 16),
        "return_index return_count origin": number | (total << 8) | (origin << 16),
    }
    if near_ir is not None:
        values["near_ir"] = dr.gather(mi.Float, near_ir, beam)
    values["xyz"] = in_rows(engine, mi.Vector3f(place.x, place.y, place.z), row, room_for)
    if velocity is not None:
        moved = actor != NOTHING
        speed = dr.gather(mi.Vector4f, velocity, dr.select(moved, actor, 0), moved)
        values["velocity"] = in_rows(engine, mi.Vector3f(speed.x, speed.y, speed.z), row, room_for)
    dr.eval(values)
    return values


def _counts(engine: Engine, valid: Masks, count: int, beam: Ints, registers: int, below: Ints) -> Ints:
    """How many registers with numbers under `below` are valid of a beam, one of `count`."""
    dr, mi = engine.dr, engine.mi
    total = dr.zeros(mi.UInt32, dr.width(beam))
    for k in range(registers):
        use = dr.gather(mi.Bool, valid, k * count + beam) & (below > k)
        total += dr.select(use, mi.UInt32(1), 0)
    return total


def _joined(dr: Any, rows: list[Row], name: str) -> Any:
    values = [getattr(row, name) for row in rows]
    return values[0] if len(values) == 1 else dr.concat(values)


def _unpacked(names: list[str], words: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The fields that travelled in one array of words, lowest bits first."""
    if len(names) == 1:
        return {names[0]: _typed(names[0], words)}
    fields = {name: np.empty(len(words), FIELDS[name].dtype) for name in names}
    for number, values in enumerate(fields.values()):
        # NumPy shifts in pieces here: shifting all words of a large batch at once would need another large array.
        np.right_shift(words, number * (16 if len(names) == 2 else 8), out=values, casting="unsafe")
    return fields


def _typed(name: str, values: NDArray[Any]) -> NDArray[Any]:
    spec = FIELDS[name]
    shaped = values.reshape(-1, spec.columns) if spec.columns > 1 else values
    # A copy in any case: what records hold must not be Dr.Jit's memory, which only its own thread may free.
    return shaped.astype(spec.dtype)


def scans_of(
    points: Points,
    table: ShotTable,
    target: Target,
    motions: list[Trajectory],
    starts: list[float],
    metadata: list[dict[str, Any]],
) -> list[Scan]:
    """One record a scan."""
    names = {
        "label": target.label_names,
        "material": target.material_names,
        "origin": dict(enumerate(ORIGINS)),
    }
    scans = []
    for i, (motion, start) in enumerate(zip(motions, starts, strict=True)):
        rows = slice(points.borders[i], points.borders[i + 1])
        counted = () if points.counted is None else tuple(values[i] for values in points.counted)
        shots = Shots(
            table.direction, table.origin, table.recorded_time, table.ring, table.column, points.returns[i], *counted
        )
        scans.append(
            Scan(
                points.xyz[rows], {name: values[rows] for name, values in points.fields.items()},
                "sensor", names, metadata[i], shots=shots, motion=motion, start_time=start,
            )
        )  # fmt: skip
    return scans
