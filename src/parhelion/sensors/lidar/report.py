"""Recording: what the sensor writes down of each return, in the kernel, and the scan record made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import namespace
from parhelion.core.random import to_normal, words
from parhelion.core.records import ORIGINS, Scan, Shots
from parhelion.core.trajectory import Trajectory
from parhelion.rays.device import Engine
from parhelion.rays.scene import NOTHING
from parhelion.sensors.lidar.curve import Curve
from parhelion.sensors.lidar.emit import Beams
from parhelion.sensors.lidar.illuminate import NO_ECHO, Echoes
from parhelion.sensors.lidar.intensity import SCALES, reflectivity
from parhelion.sensors.lidar.noise import range_sigma
from parhelion.sensors.lidar.patterns import ShotTable
from parhelion.sensors.lidar.receiver import FALSE_ALARM, Return
from parhelion.sensors.lidar.target import Target

_RANGE_DRAW, _INTENSITY_DRAW = 3000, 4000
_SURFACE, _MULTIPATH, _NOISE = (ORIGINS.index(name) for name in ("surface", "multipath", "noise"))
SPEED_OF_LIGHT_M_S = 299_792_458.0


@dataclass
class Reporter:
    """Errors and scales that turn a return into numbers, opaque to the kernel compiler."""

    noisy: bool
    sigma_0: Any
    sigma_1: Any
    sigma_curve: Curve | None
    threshold_to_noise: Any
    bias: Any
    """Range error of each shot's channel [m], one value a shot, or None."""
    resolution: Any
    """Step of the reported range [m], or None."""
    saturation: Any
    """Highest power that the receiver can tell, or None."""
    intensity_sigma: Any
    """Relative deviation of intensity, or None."""
    intensity_scale: str
    intensity_resolution: Any
    threshold: Any
    extinction: Any
    direction: Any
    """Reported direction of each shot, sensor frame."""
    origin: Any


@dataclass
class Row:
    """One return of every beam, as evaluated device arrays."""

    valid: Any
    xyz: Any
    range: Any
    power: Any
    reflectivity: Any
    intensity: Any
    part: Any
    actor: Any
    origin: Any


def report(
    engine: Engine, reporter: Reporter, echoes: Echoes, found: list[Return], beams: Beams, beam: Any, keys: Any
) -> list[Row]:
    """Noise, steps, scales and coordinates of each return."""
    mi, dr = engine.mi, engine.dr
    shot = dr.gather(mi.UInt32, beams.shot, beam)
    key: Any = ()
    if reporter.noisy:
        scan = dr.gather(mi.UInt32, beams.scan, beam)
        key = tuple(dr.gather(mi.UInt32, word, scan) for word in keys)
    direction = dr.gather(mi.Vector3f, reporter.direction, shot)
    origin = dr.gather(mi.Vector3f, reporter.origin, shot)
    rows = []
    for number, item in enumerate(found):
        valid = item.range < NO_ECHO
        power = item.power
        if reporter.saturation is not None:
            power = namespace(power).minimum(power, reporter.saturation)
        range_m = _measured_range(engine, reporter, item, power, shot, key, number, valid)
        equal = reflectivity(power, item.range, threshold=reporter.threshold, extinction_per_m=reporter.extinction)
        seen = power
        if reporter.noisy and reporter.intensity_sigma is not None:
            a, b, _, _ = words(key, shot, _INTENSITY_DRAW + number)
            factor = namespace(power).maximum(1.0 + reporter.intensity_sigma * to_normal(a, b)[0], 0.0)
            seen, equal = power * factor, equal * factor
        value = SCALES[reporter.intensity_scale](seen, equal)
        if reporter.intensity_resolution is not None:
            value = dr.round(value / reporter.intensity_resolution) * reporter.intensity_resolution
        made = valid & (item.slot != FALSE_ALARM)
        slot = dr.select(made, item.slot, 0)
        part = dr.gather(mi.UInt32, echoes.part, slot, made)
        actor = mi.UInt32(NOTHING) if echoes.actor is None else dr.gather(mi.UInt32, echoes.actor, slot, made)
        source = dr.select(made, mi.UInt32(_SURFACE), _NOISE)
        if echoes.ghost is not None:
            source = dr.select(made & (dr.gather(mi.UInt32, echoes.ghost, slot, made) != 0), _MULTIPATH, source)
        rows.append(
            Row(
                valid, origin + range_m * direction, range_m, seen, equal, value,
                dr.select(made, part, NOTHING), dr.select(made, actor, NOTHING), source,
            )
        )  # fmt: skip
    for row in rows:
        dr.schedule(row.valid, row.xyz, row.range, row.power, row.reflectivity, row.intensity)
        dr.schedule(row.part, row.actor, row.origin)
    dr.eval()
    return rows


def _measured_range(
    engine: Engine, reporter: Reporter, item: Return, power: Any, shot: Any, key: Any, number: int, valid: Any
) -> Any:
    mi, dr = engine.mi, engine.dr
    range_m = item.range
    if reporter.noisy:
        if reporter.sigma_curve is not None:
            sigma = reporter.sigma_curve(dr.select(valid, item.range, 0.0), valid)
        else:
            snr = namespace(power).maximum(power, 1e-6) * reporter.threshold_to_noise
            sigma = range_sigma(snr, sigma_0=reporter.sigma_0, sigma_1=reporter.sigma_1)
        a, b, _, _ = words(key, shot, _RANGE_DRAW + number)
        range_m = range_m + sigma * to_normal(a, b)[0]
        if reporter.bias is not None:
            range_m = range_m + dr.gather(mi.Float, reporter.bias, shot)
    if reporter.resolution is not None:
        range_m = dr.round(range_m / reporter.resolution) * reporter.resolution
    return range_m


def scans_of(
    rows: list[Row],
    beams: Beams,
    table: ShotTable,
    target: Target,
    motions: list[Trajectory],
    starts: list[float],
    metadata: list[dict[str, Any]],
) -> list[Scan]:
    """One record a scan, points in order of shot and then of range."""
    count, n = len(motions), len(table.time)
    stacked = {
        name: _stack(rows, name) for name in ("valid", "range", "power", "reflectivity", "intensity", "part", "origin")
    }
    xyz = np.stack([np.moveaxis(row.xyz.numpy(), 0, -1) for row in rows], axis=1)
    actor = _stack(rows, "actor") if target.scene.moving is not None else None
    velocity = None if target.scene.moving is None else target.scene.moving.velocity.numpy().reshape(-1, 4)[:, :3]
    names = {
        "label": target.label_names,
        "material": target.material_names,
        "origin": dict(enumerate(ORIGINS)),
    }
    scans = []
    for i in range(count):
        block = slice(i * n, (i + 1) * n)
        valid = stacked["valid"][block]
        shot, register = np.nonzero(valid)
        returns = valid.sum(axis=1).astype(np.uint8)
        # Registers of one shot are filled in order of range and without gaps at the front only for two of the modes;
        # counting the valid ones before each gives the return's number in every mode.
        order = (np.cumsum(valid, axis=1) - 1)[shot, register].astype(np.uint8)
        part = stacked["part"][block][valid]
        known = part != NOTHING
        row = np.where(known, part, 0)
        moving = np.zeros((len(shot), 3), np.float32)
        if actor is not None and velocity is not None:
            on = actor[block][valid]
            moving[on != NOTHING] = velocity[on[on != NOTHING]]
        fields: dict[str, NDArray[Any]] = {
            **{name: stacked[name][block][valid] for name in ("range", "intensity", "reflectivity", "power")},
            "ring": table.ring[shot],
            "column": table.column[shot],
            "time": table.time[shot].astype(np.float32),
            "return_index": order,
            "return_count": returns[shot],
            "material": _looked_up(target.parts.material, row, known, np.uint16),
            "label": _looked_up(target.parts.label, row, known, np.uint16),
            "instance": _looked_up(target.parts.instance, row, known, np.uint32),
            "velocity": moving,
            "origin": stacked["origin"][block][valid].astype(np.uint8),
            "shot": shot.astype(np.uint32),
        }
        shots = Shots(table.direction, table.origin, table.time.astype(np.float32), table.ring, table.column, returns)
        scans.append(
            Scan(
                xyz[block][valid], fields, "sensor", names, metadata[i],
                shots=shots, motion=motions[i], start_time=starts[i],
            )
        )  # fmt: skip
    return scans


def _stack(rows: list[Row], name: str) -> NDArray[Any]:
    return np.stack([getattr(row, name).numpy() for row in rows], axis=1)


def _looked_up(table: NDArray[Any], row: NDArray[Any], known: NDArray[Any], dtype: Any) -> NDArray[Any]:
    if len(table) == 0:
        return np.zeros(len(row), dtype)
    return np.where(known, table[row], 0).astype(dtype)
