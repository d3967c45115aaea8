"""Interference: pulses of other lidars of the same model by their timing, and the sun in the field of view.

Another lidar fires the same pulses on its own clock. Its spots on surfaces, and its beam itself, send light into this
receiver. Light that arrives while a shot's gate is open, from within the receiver's field of view, is indistinguishable
from an echo: it becomes a false point at half the distance that light travels between firing and arrival.

A receiver that looks into the sun collects 10^5 times the light of a white wall. Its shot noise exceeds the threshold,
so that the strongest of the noise in the gate becomes a false point at a random range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from parhelion.core.clouds import ORIGINS, Scan
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.core.pose import quat_rotate
from parhelion.core.random import Stream, to_unit
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.link_budget import reflectivity, threshold_photons
from parhelion.sensors.optics.lidar.points import with_points
from parhelion.sensors.scene import OtherSensor, others_of
from parhelion.weather.daylight import SUN_HALF_ANGLE_RAD

if TYPE_CHECKING:
    from parhelion.sensors.optics.lidar.lidar import Lidar
    from parhelion.world.world import World

LEAST_ACCEPTANCE_RAD = 2e-3
"""Least half angle of the receiver's field of view [rad] (assumed): receivers look at a little more than their beam."""
DIRECT_POWER = 1e6
"""Power of a beam that hits the receiver itself [P_min] (assumed): far above that of any surface."""


class Interferer(OtherSensor):
    """Another lidar of the same model, at rest or on an actor, with its own clock."""

    offset_s: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """Start of one of its frames on the world's clock."""
    period_ppm: Annotated[float, Field(ge=-1e5, le=1e5)] = 0.0
    """Deviation of its frame period from that of this lidar."""


def interferers_of(given: Sequence[Interferer | Mapping[str, Any]]) -> tuple[Interferer, ...]:
    """Interferers of an option of a lidar."""
    return others_of(Interferer, given)


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
    config = lidar.config
    times, look, exits = _looks(scan)
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
    return _with_false_points(scan, lidar, shot, range_m, power, "interference")


def _with_false_points(
    scan: Scan,
    lidar: Lidar,
    shot: NDArray[np.int64],
    range_m: NDArray[np.float64],
    power: NDArray[np.float64],
    origin: str,
) -> Scan:
    """Scan in which the strongest light of a shot replaces its return if that is weaker, above the threshold."""
    config, constant = lidar.config, lidar.system_constant
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
        {"power": power, "reflectivity": equal, "intensity": intensity, "origin": ORIGINS.index(origin)},
    )


def _looks(scan: Scan) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Times [s] of all shots, and their directions and exits in the world."""
    times = scan.start_time + scan.shots.time.astype(np.float64)
    seconds, rows = np.unique(times, return_inverse=True)
    xyz, quat = scan.motion.sample(seconds)
    look = quat_rotate(quat[rows], scan.shots.direction.astype(np.float64))
    return times, look, xyz[rows] + quat_rotate(quat[rows], scan.shots.origin.astype(np.float64))


def _arrivals(
    other: Interferer, lidar: Lidar, world: World, place: NDArray[np.float64], first_s: float, last_s: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Times [s], directions towards the source and powers [P_min] of the light of another lidar at a place."""
    motion = other.motion(world)
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
        theirs = source.scan(world, trajectory=motion, time=start, seed=0, frame=number % 2**32)
        fired = start + theirs.shots.time.astype(np.float64)
        at = theirs.in_world().xyz
        way = np.linalg.norm(at - place, axis=1)
        shot = theirs.fields["shot"].astype(np.int64)
        times.append(fired[shot] + (theirs.fields["range"].astype(np.float64) + way) / SPEED_OF_LIGHT_M_S)
        points.append(at)
        # A diffuse spot is as bright from any side: its own echo, from the distance of this receiver.
        near = np.maximum(way, 0.1)
        powers.append(theirs.fields["power"] * (theirs.fields["range"] / near) ** 2)
        direct, distance, exits = _direct(theirs, place, lidar)
        times.append(fired[direct] + distance / SPEED_OF_LIGHT_M_S)
        points.append(exits)
        powers.append(np.full(len(direct), DIRECT_POWER))
    toward = np.concatenate(points) - place
    toward /= np.maximum(np.linalg.norm(toward, axis=1, keepdims=True), 1e-9)
    return np.concatenate(times), toward, np.concatenate(powers).astype(np.float64)


def _direct(
    theirs: Scan, place: NDArray[np.float64], lidar: Lidar
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Shots of another lidar whose beam meets a place, with distances [m] and exits; none if something is between."""
    _, look, exits = _looks(theirs)
    away = place - exits
    distance = np.linalg.norm(away, axis=1)
    half = 0.5e-3 * max(lidar.config.beam.divergence_mrad)
    hits = np.linalg.norm(look - away / np.maximum(distance, 1e-9)[:, None], axis=1) < 2.0 * np.sin(0.5 * half)
    nearest = np.full(len(theirs.shots), np.inf)
    np.minimum.at(nearest, theirs.fields["shot"].astype(np.int64), theirs.fields["range"].astype(np.float64))
    shot = np.flatnonzero(hits & (nearest > distance - 0.3))
    return shot, distance[shot], exits[shot]


# ---- the sun in the field of view ------------------------------------------------------------------------------------


REFERENCE_KLX = 100.0
"""Sunlight on a white wall behind half of the rated noise, for sheets that do not state it (assumed)."""
_EXTRATERRESTRIAL_KLX = 133.0


def sun_normal_klx(elevation_rad: float, cloud_optical_depth: float = 0.0) -> float:
    """Illuminance of the direct sun on a surface that faces it [klx]; 0 below the horizon.

        E = 133 klx 0.7^(m^0.678) exp(-tau m)

    m = 1 / sin(elevation) is the air mass, at most 38 (A. B. Meinel, M. P. Meinel, "Applied solar energy", 1976).
    """
    if elevation_rad <= 0.0:
        return 0.0
    mass = min(1.0 / float(np.sin(elevation_rad)), 38.0)
    return float(_EXTRATERRESTRIAL_KLX * 0.7 ** (mass**0.678) * np.exp(-cloud_optical_depth * mass))


def share_of_disc(offset_rad: NDArray[np.float64], field_rad: float, disc_rad: float) -> NDArray[np.float64]:
    """Share of a disc within a circular field of view whose axis is `offset_rad` from the centre of the disc."""
    d, r, a = np.asarray(offset_rad, np.float64), field_rad, disc_rad
    near = np.clip(d, abs(r - a) + 1e-15, r + a - 1e-15)
    first = a * a * np.arccos((near**2 + a * a - r * r) / (2.0 * near * a))
    second = r * r * np.arccos((near**2 + r * r - a * a) / (2.0 * near * r))
    root = (-near + a + r) * (near + a - r) * (near - a + r) * (near + a + r)
    lens = (first + second - 0.5 * np.sqrt(np.maximum(root, 0.0))) / (np.pi * a * a)
    whole = min(1.0, (r / a) ** 2)
    return np.where(d <= abs(r - a), whole, np.where(d >= r + a, 0.0, np.minimum(lens, whole)))


def blinded_sigma(config: LidarConfig, sun_klx: NDArray[np.float64], half_angle_rad: float) -> NDArray[np.float64]:
    """Standard deviation of the noise [P_min] with direct sunlight of `sun_klx` [klx] in the field of view.

    A white wall in E_ref sends E_ref / pi per steradian into the field of pi h^2, the sun its illuminance E: the
    background grows from 1 to 1 + E / (E_ref h^2), and the noise with its root, where half of the rated noise power is
    electronic as in `background_noise_factor`.
    """
    rated = config.noise.background_klx or REFERENCE_KLX
    more = sun_klx / (rated * half_angle_rad**2)
    return np.sqrt(1.0 + 0.5 * more) / config.receiver.threshold_to_noise


def with_sunlight(scan: Scan, lidar: Lidar, world: World, stream: Stream) -> Scan:
    """Scan with the false points of shots that look into the sun of the world's daylight.

    Coherent lidars are not affected: they receive one spatial mode within the bandwidth of the beat signal.
    """
    from scipy.special import ndtri

    if world.daylight is None:
        raise ConfigError("sun_in_view: the world has no sun; set world.daylight")
    if lidar.config.fmcw is not None:
        return scan
    _, look, exits = _looks(scan)
    toward = world.daylight.sun(scan.start_time)
    half = acceptance_rad(lidar.config.beam.divergence_mrad)
    offset = 2.0 * np.arcsin(np.clip(0.5 * np.linalg.norm(look - toward, axis=1), 0.0, 1.0))
    shot = np.flatnonzero(offset < half + SUN_HALF_ANGLE_RAD)
    full = sun_normal_klx(float(np.arcsin(toward[2])), world.daylight.cloud_optical_depth)
    if not len(shot) or full == 0.0:
        return scan
    hidden = world.cast(exits[shot], np.broadcast_to(toward, (len(shot), 3)), scan.start_time).found
    shot = shot[~hidden]
    share = share_of_disc(offset[shot], half, SUN_HALF_ANGLE_RAD)
    sigma = blinded_sigma(lidar.config, full * share, half)
    limits = lidar.config.range
    windows = max(1.0, (limits.max_m - limits.min_m) / lidar.config.receiver.merge_distance_m)
    a, b, _, _ = Stream(stream.seed, f"{stream.name}/sun", stream.number).words(shot)
    # The largest of independent noise in all windows of the gate.
    loudest = sigma * ndtri(np.asarray(to_unit(a), np.float64) ** (1.0 / windows))
    range_m = limits.min_m + (limits.max_m - limits.min_m) * np.asarray(to_unit(b), np.float64)
    return _with_false_points(scan, lidar, shot, range_m, loudest, "sunlight")
