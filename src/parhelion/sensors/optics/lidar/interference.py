"""Interference by other lidars of the same model: their pulses in this receiver, by their timing.

Another lidar fires the same pulses on its own clock. Its spots on surfaces, and its beam itself, send light into this
receiver. Light that arrives while a shot's gate is open, from within the receiver's field of view, is indistinguishable
from an echo: it becomes a false point at half the distance that light travels between firing and arrival.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from parhelion.core.clouds import ORIGINS, Scan
from parhelion.core.config import Config, parse
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose, quat_rotate
from parhelion.sensors.optics.lidar.link_budget import reflectivity, threshold_photons
from parhelion.sensors.optics.lidar.points import with_points

if TYPE_CHECKING:
    from parhelion.sensors.optics.lidar.lidar import Lidar
    from parhelion.world.world import World

_Number = Annotated[float, Field(allow_inf_nan=False)]

LEAST_ACCEPTANCE_RAD = 2e-3
"""Least half angle of the receiver's field of view [rad] (assumed): receivers look at a little more than their beam."""
DIRECT_POWER = 1e6
"""Power of a beam that hits the receiver itself [P_min] (assumed): far above that of any surface."""


class Interferer(Config):
    """Another lidar of the same model, at rest, with its own clock."""

    xyz: tuple[_Number, _Number, _Number]
    """Position in the world [m]."""
    yaw_deg: _Number = 0.0
    """Heading."""
    offset_s: _Number = 0.0
    """Start of one of its frames on the world's clock."""
    period_ppm: Annotated[float, Field(ge=-1e5, le=1e5)] = 0.0
    """Deviation of its frame period from that of this lidar."""


def interferers_of(given: Sequence[Interferer | Mapping[str, Any]]) -> tuple[Interferer, ...]:
    """Interferers of an option of a lidar."""
    if isinstance(given, (str, Mapping)) or not isinstance(given, Sequence):
        raise ConfigError(f"interferers: expected a list such as [{{xyz: [20, 0, 2]}}], got {given!r}")
    return tuple(
        one if isinstance(one, Interferer) else parse(Interferer, one, f"interferers[{number}]")
        for number, one in enumerate(given)
    )


def false_range_m(fired_s: Any, arrived_s: Any) -> Any:
    """Range [m] that a receiver reports for light that arrives after its own shot was fired."""
    return 0.5 * SPEED_OF_LIGHT_M_S * (arrived_s - fired_s)


def acceptance_rad(divergence_mrad: Sequence[float]) -> float:
    """Half angle of the receiver's field of view [rad]: that of the beam, at least LEAST_ACCEPTANCE_RAD."""
    return max(0.5e-3 * max(divergence_mrad), LEAST_ACCEPTANCE_RAD)


def coincidences(
    fired_s: NDArray[np.float64],
    look: NDArray[np.float64],
    arrived_s: NDArray[np.float64],
    came_from: NDArray[np.float64],
    *,
    gate_s: float,
    half_angle_rad: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of shots and arrivals: light that arrives within the gate of a shot, from the direction of its look.

    `fired_s` (n,) and unit vectors `look` (n, 3) are those of the shots, `arrived_s` (m,) and unit vectors `came_from`
    (m, 3), towards the source, those of the arrivals.
    """
    order = np.argsort(arrived_s, kind="stable")
    times = arrived_s[order]
    first, last = np.searchsorted(times, fired_s), np.searchsorted(times, fired_s + gate_s)
    counts = last - first
    shot = np.repeat(np.arange(len(fired_s)), counts)
    place = np.arange(len(shot)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    arrival = order[place]
    # The chord is accurate for small angles, the scalar product is not.
    near = np.linalg.norm(look[shot] - came_from[arrival], axis=1) < 2.0 * np.sin(0.5 * half_angle_rad)
    return shot[near], arrival[near]


def with_interference(scan: Scan, lidar: Lidar, world: World) -> Scan:
    """Scan with the false points that other lidars cause; each replaces the return of its shot if that is weaker."""
    config, constant = lidar.config, lidar.system_constant
    times = scan.start_time + scan.shots.time.astype(np.float64)
    seconds, rows = np.unique(times, return_inverse=True)
    xyz, quat = scan.motion.sample(seconds)
    look = quat_rotate(quat[rows], scan.shots.direction.astype(np.float64))
    exits = xyz[rows] + quat_rotate(quat[rows], scan.shots.origin.astype(np.float64))
    found: list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]] = []
    centre = exits.mean(axis=0)
    for other in lidar.interferers:
        arrived, came_from, power = _arrivals(other, lidar, world, centre, float(times.min()), float(times.max()))
        shot, arrival = coincidences(
            times,
            look,
            arrived,
            came_from,
            gate_s=2.0 * config.range.max_m / SPEED_OF_LIGHT_M_S,
            half_angle_rad=acceptance_rad(config.beam.divergence_mrad),
        )
        found.append((shot, false_range_m(times[shot], arrived[arrival]), power[arrival]))
    if not found:
        return scan
    shot = np.concatenate([one[0] for one in found])
    range_m, power = (np.concatenate([one[k] for one in found]) for k in (1, 2))
    own = np.zeros(len(scan.shots))
    np.maximum.at(own, scan.fields["shot"].astype(np.int64), scan.fields["power"].astype(np.float64))
    shown = (power >= 1.0) & (power > own[shot]) & (range_m >= config.range.min_m)
    order = np.lexsort((-power[shown], shot[shown]))
    shot, range_m, power = shot[shown][order], range_m[shown][order], power[shown][order]
    strongest = np.unique(shot, return_index=True)[1]
    shot, range_m, power = shot[strongest], range_m[strongest], power[strongest]
    equal = reflectivity(power, range_m, threshold=constant.threshold, extinction_per_m=constant.gamma_per_m)
    intensity = lidar.intensity_scale.encode(power, equal, threshold_photons(config))
    return with_points(
        scan,
        shot,
        range_m,
        {"power": power, "reflectivity": equal, "intensity": intensity, "origin": ORIGINS.index("interference")},
    )


def _arrivals(
    other: Interferer, lidar: Lidar, world: World, place: NDArray[np.float64], first_s: float, last_s: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Times [s], directions towards the source and powers [P_min] of the light of another lidar at a place."""
    pose = Pose(xyz=other.xyz, rpy_deg=(0.0, 0.0, other.yaw_deg))
    period = (1.0 + 1e-6 * other.period_ppm) / lidar.rate_hz
    source = lidar.silent_twin()
    numbers = range(
        int(np.floor((first_s - other.offset_s) / period)), int(np.floor((last_s - other.offset_s) / period)) + 1
    )
    times: list[Any] = []
    points: list[Any] = []
    powers: list[Any] = []
    for number in numbers:
        start = other.offset_s + number * period
        theirs = source.scan(world, pose=pose, time=start, seed=0, frame=number % 2**32)
        fired = start + theirs.shots.time.astype(np.float64)
        at = theirs.in_world().xyz
        way = np.linalg.norm(at - place, axis=1)
        shot = theirs.fields["shot"].astype(np.int64)
        times.append(fired[shot] + (theirs.fields["range"].astype(np.float64) + way) / SPEED_OF_LIGHT_M_S)
        points.append(at)
        # A diffuse spot is as bright from any side: its own echo, from the distance of this receiver.
        near = np.maximum(way, 0.1)
        powers.append(theirs.fields["power"] * (theirs.fields["range"] / near) ** 2)
        direct, distance = _direct(theirs, pose, place, lidar)
        times.append(fired[direct] + distance / SPEED_OF_LIGHT_M_S)
        points.append(np.broadcast_to(pose.xyz, (len(direct), 3)))
        powers.append(np.full(len(direct), DIRECT_POWER))
    toward = np.concatenate(points) - place
    toward /= np.maximum(np.linalg.norm(toward, axis=1, keepdims=True), 1e-9)
    return np.concatenate(times), toward, np.concatenate(powers).astype(np.float64)


def _direct(theirs: Scan, pose: Pose, place: NDArray[np.float64], lidar: Lidar) -> tuple[NDArray[np.int64], float]:
    """Shots of another lidar whose beam meets a place, and its distance [m]; none if something is in between."""
    away = place - pose.xyz
    distance = float(np.linalg.norm(away))
    direction = quat_rotate(pose.quat_xyzw[None], theirs.shots.direction.astype(np.float64))
    half = 0.5e-3 * max(lidar.config.beam.divergence_mrad)
    hits = np.linalg.norm(direction - away / max(distance, 1e-9), axis=1) < 2.0 * np.sin(0.5 * half)
    nearest = np.full(len(theirs.shots), np.inf)
    np.minimum.at(nearest, theirs.fields["shot"].astype(np.int64), theirs.fields["range"].astype(np.float64))
    return np.flatnonzero(hits & (nearest > distance - 0.3)), distance
