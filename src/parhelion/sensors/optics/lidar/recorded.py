"""Weather on recorded clouds: the cloud that the sensor would have recorded in rain, fog, snow or dust.

A recording stores the direction, range and intensity of each return. Weather attenuates these echoes, adds the echoes
of the air, and both pass through the sensor's receiver again. Recorded ranges contain the sensor's noise already, so
none is added to them. Receiver noise does decide, as in a scan, which weak echoes are detected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Bool, Float, Int, Reals, Vectors, namespace
from parhelion.core.clouds import FIELDS, PointCloud, Scan, origin_names
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.random import Stream, to_unit, words
from parhelion.makers.scales import scale_called
from parhelion.rays.device import engine
from parhelion.rays.lock import locked
from parhelion.rays.scene import NOTHING
from parhelion.sensors.optics.air import Air, two_way
from parhelion.sensors.optics.beams import Beams
from parhelion.sensors.optics.lidar.air_echoes import draw_scatterers
from parhelion.sensors.optics.lidar.detection import Detector, Return, detect, echo_of, row_of
from parhelion.sensors.optics.lidar.draws import PULSE_DRAW, WITHIN_STEP_DRAW
from parhelion.sensors.optics.lidar.echoes import NO_ECHO, SCATTERER_BIT, Echoes, EchoRows, ReturnEcho
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.sensors.optics.lidar.link_budget import (
    channel_gains,
    in_steps,
    noise_sigma,
    power_with_chance,
    reflectivity,
    threshold_photons,
)
from parhelion.sensors.optics.lidar.recorded_shots import (
    OF_SHOTS,
    RecordedShots,
    byte_scale,
    recorded_shots,
    reflectance_of,
)
from parhelion.sensors.optics.lidar.weather import LidarWeather
from parhelion.sensors.scene import NO_MATERIAL
from parhelion.weather import media
from parhelion.weather.air import AirContents, air_contents
from parhelion.weather.weather import Weather
from parhelion.world.labels import SEMANTIC_KITTI

# ---- The recorded cloud after weather: remaining points, new points and notes ---------------------------------------


@dataclass
class FoundReturns:
    """Returns after weather, as NumPy arrays in order of shot and range."""

    xyz: NDArray[np.float32]
    range_m: NDArray[np.float32]
    power: NDArray[np.float32]
    reflectivity: NDArray[np.float32]
    intensity: NDArray[np.float32]
    shot: NDArray[np.uint32]
    source: NDArray[np.uint32]
    """Row of the original point in the cloud, or NOTHING for a new point."""
    origin: NDArray[np.uint32]
    remaining: NDArray[np.float32]
    """Power of an original point relative to that in the recording; 1 for new points."""
    same: NDArray[np.bool_]
    """True for original points at the recorded range, up to rounding."""


def unchanged(cloud: PointCloud) -> PointCloud:
    """Unmodified cloud with a field `origin`; without weather, every point comes from a surface."""
    if "origin" in cloud.fields:
        return cloud
    origin = np.zeros(len(cloud), FIELDS["origin"].dtype)
    names = {**cloud.names, "origin": origin_names()}
    return replace(cloud.with_fields(origin=origin), names=names)


def earlier_weather(cloud: PointCloud) -> list[str]:
    """Note for a cloud that was measured in weather or had weather applied: the effects accumulate."""
    origin = cloud.fields.get("origin")
    names = dict(cloud.names.get("origin", {})) or origin_names()
    in_air = []
    if origin is not None:
        codes, counts = np.unique(origin[np.isfinite(cloud.xyz).all(axis=1)], return_counts=True)
        present = {str(names.get(int(code), "")): int(count) for code, count in zip(codes, counts, strict=True)}
        in_air = [f"{present[name]} points of {name}" for name in media.names() if name in present]
    if in_air:
        return [f"the cloud contains weather already ({', '.join(in_air)}); the new weather was added to it"]
    if "weather_notes" in cloud.metadata:
        return ["weather was applied to this cloud before; the new weather was added to it"]
    return []


def assembled(cloud: PointCloud, shots: RecordedShots, found: FoundReturns, lidar: Lidar) -> PointCloud:
    """Cloud with attenuated, displaced and lost points, and with the points of the air.

    Every array is allocated once, with rows for the shots without a return at its end if the recording has such rows.
    """
    count, added = len(found.shot), np.flatnonzero(found.source == NOTHING)
    source = found.source.astype(np.int64)
    source[added] = 0
    shot = np.concatenate([found.shot, shots.missing(found.shot)]).astype(np.int64)
    # New points get ring, column and time from a point of the same shot, or from the shot itself.
    alike = np.concatenate([source, shots.row_like(shot[count:])])
    alike[added] = shots.row_like(shot[added])
    unseen = np.flatnonzero(shot >= shots.points_shots)
    fields: dict[str, NDArray[Any]] = {}
    for name, held in cloud.fields.items():
        # An empty cloud is treated as a single all-zero point; no real point matches it.
        values = held if len(cloud) else np.zeros((1, *held.shape[1:]), held.dtype)
        if name in OF_SHOTS:
            fields[name] = shots.of_shot(name, values, alike, unseen, shot)
            continue
        rows = fields[name] = np.empty((len(shot), *values.shape[1:]), values.dtype)
        rows[count:] = 0
        if name == "intensity" and shots.intensity is None:
            rows[:count] = 0
            continue
        if (measured := _measured(name, values, found, source, added, cloud, lidar)) is not None:
            rows[:count] = measured
            continue
        values.take(source, axis=0, out=rows[:count])
        rows[added] = NO_MATERIAL if name == "material" and rows.dtype == np.uint16 else 0
        # Labels without names are SemanticKITTI's, whose class `outlier` covers points in the air.
        if name == "label" and "label" not in cloud.names and rows.dtype.kind in "iu":
            rows[added] = SEMANTIC_KITTI["outlier"]
    if "origin" not in fields:
        fields["origin"] = np.zeros(len(shot), FIELDS["origin"].dtype)
        fields["origin"][added] = found.origin[added]
    if "return_count" in fields:
        total = np.bincount(found.shot, minlength=shots.count)
        fields["return_count"][:count] = total[found.shot]
        if "return_index" in fields:
            first = np.concatenate([[0], np.cumsum(total)[:-1]])
            fields["return_index"][:count] = np.arange(count) - first[found.shot]
    names = {**cloud.names, "origin": origin_names()}
    metadata = {**cloud.metadata, "weather_notes": shots.notes}
    xyz = _coordinates(cloud, shots, found, source, len(shot))
    if isinstance(cloud, Scan):
        total = np.bincount(found.shot, minlength=shots.count)[shots.table_places()]
        table = replace(cloud.shots, return_count=total.astype(np.uint8))
        return Scan(
            xyz, fields, cloud.frame, names, metadata, shots=table, motion=cloud.motion, start_time=cloud.start_time
        )
    return PointCloud(xyz, fields, cloud.frame, names, metadata)


def _coordinates(
    cloud: PointCloud, shots: RecordedShots, found: FoundReturns, source: NDArray[np.int64], count: int
) -> NDArray[Any]:
    """Coordinates of `count` rows: recorded points keep theirs to the last bit unless weather displaced them."""
    xyz = np.empty((count, 3), cloud.xyz.dtype)
    seen = xyz[: len(source)]
    if len(cloud):
        cloud.xyz.take(source, axis=0, out=seen)
    moved = np.flatnonzero(~found.same)
    exit_m = shots.exits(found.shot[moved])
    seen[moved] = found.xyz[moved] if exit_m is None else found.xyz[moved] + exit_m
    if shots.lost_xyz is not None:
        xyz[len(source) :] = shots.lost_xyz
    return xyz


def _measured(
    name: str,
    values: NDArray[Any],
    found: FoundReturns,
    source: NDArray[np.int64],
    added: NDArray[np.int64],
    cloud: PointCloud,
    lidar: Lidar,
) -> NDArray[Any] | None:
    """Values of a field that the sensor measures, for the returns that were found; None for other fields."""
    if name == "range":
        return found.range_m
    if name == "power":
        return found.power
    if name == "intensity":
        # Conversion to the sensor's scale and back may change the last bit.
        now, before = found.intensity.astype(values.dtype), values.take(source)
        same = _close(now, before, 0.0)
        same[added] = False
        return np.where(same, before, now)
    if name == "origin":
        origin = values.take(source)
        origin[added] = found.origin[added]
        return origin
    if name != "reflectivity":
        return None
    reflectivity = found.reflectivity
    if len(cloud) and (known := reflectance_of(cloud, lidar, source)) is not None:
        known *= found.remaining
        known[added] = reflectivity[added]
        reflectivity = known
    bytes_on = byte_scale(cloud, lidar)
    return reflectivity if bytes_on is None else bytes_on.reflectivity_bytes(reflectivity)


def _close(found: NDArray[Any], recorded: NDArray[Any], slack: float) -> NDArray[np.bool_]:
    """Mask of values that differ from the recorded ones by rounding only; np.isclose takes five times as long."""
    close: NDArray[np.bool_] = np.abs(found - recorded) <= slack + 1e-6 * np.abs(recorded)
    return close


# ---- recorded -------------------------------------------------------------------------------------------------------


def lidar_of(sensor: Any) -> Lidar:
    """Lidar as passed, or loaded from a preset name or file."""
    return sensor if isinstance(sensor, Lidar) else _named(str(sensor))


@lru_cache(maxsize=8)
def _named(name: str) -> Lidar:
    return Lidar(name)


@locked
def weathered(
    cloud: PointCloud,
    weather: Weather,
    lidar: Lidar,
    *,
    seed: int = 0,
    frame: int = 0,
    time: float = 0.0,
    pose: Pose | None = None,
    reflectance: float | None = None,
    no_returns: str = "auto",
) -> PointCloud:
    """Apply weather to a recorded cloud.

    `lidar` is the sensor that recorded it. `pose` is its position in the world, which matters only for heterogeneous
    weather and dust. `reflectance` replaces intensity if the cloud has none. `no_returns` selects how shots without a
    return are found: 'auto' (in the cloud, by the sensor's pattern, or between the points) or 'none'. Limitations are
    listed in `metadata['weather_notes']`.
    """
    if not isinstance(cloud, PointCloud):
        raise ConfigError(f"weather: expected a parhelion PointCloud, got {type(cloud).__name__}")
    if reflectance is not None and not (np.isfinite(reflectance) and 0.0 < reflectance <= 1.0):
        raise ConfigError(f"reflectance: must be above 0 and at most 1, got {reflectance!r}")
    air = air_contents(weather, time, lidar.config.wavelength_nm)
    if air.is_clear:
        return unchanged(cloud)
    shots = recorded_shots(cloud, lidar, no_returns, reflectance)
    if shots.count == 0:
        return unchanged(cloud)
    stream = Stream(seed, f"recorded/{lidar.model}", frame)
    found = _Launch(lidar, weather, air, stream, cloud, shots, reflectance, pose or Pose()).run()
    shots.notes.extend(earlier_weather(cloud))
    if weather.ground(time) is not None:
        shots.notes.append("wetness, puddles and snow cover are not applied: a cloud does not name its surfaces")
    return assembled(cloud, shots, found, lidar)


_MOST_DEVIATIONS = 3.0
"""Standard deviations of the noise by which a recorded point may have been below the threshold."""
_CERTAIN_DEVIATIONS = 6.0
"""Standard deviations by which a point that is certain to be detected is set above the threshold."""
_LEAST_POWER = 0.05
"""Lower bound of the power of a recorded point [P_min]; with shot noise alone, it could have been 0."""


class _Launch:
    """One cloud on the device."""

    def __init__(
        self,
        lidar: Lidar,
        weather: Weather,
        air: AirContents,
        stream: Stream,
        cloud: PointCloud,
        shots: RecordedShots,
        reflectance: float | None,
        pose: Pose,
    ) -> None:
        self.engine = engine()
        self.sigma = noise_sigma(lidar.config, lidar.sun_klx) if lidar.noise else 0.0
        photons = lidar.config.receiver.threshold_photons if self.sigma > 0.0 else None
        self.shot_noise = 1.0 / photons if photons else 0.0
        self.config, self.constant = lidar.config, lidar.system_constant
        if lidar.recorded_weather is None:
            lidar.recorded_weather = LidarWeather(self.engine, self.config, self.constant, self.sigma)
        self.tables: LidarWeather = lidar.recorded_weather
        self.weather, self.air, self.stream, self.pose = weather, air, stream, pose
        self.cloud, self.shots, self.reflectance = cloud, shots, reflectance
        self.direction, self.length = self._directions()

    def run(self) -> FoundReturns:
        """Attenuate the recorded echoes, draw those of the air, detect both."""
        dr, mi = self.engine.dr, self.engine.mi
        low, high = (self.engine.table(np.array([word], np.uint32)) for word in self.stream.key)
        key = low, high
        beams = self._beams(self._gains())
        launch = self.tables.prepare(self.air, beams, 1, self.pose.xyz, keys=key)
        echoes = self._surfaces(beams, launch.air)
        beam = dr.arange(mi.UInt32, self.shots.count)
        blocks = echoes.blocks(self.engine, beam)
        if launch.scatterers is not None:
            in_air = draw_scatterers(self.engine, launch.scatterers, launch.drawn, echoes, beams, key, launch.air)
            if in_air is not None:
                blocks = in_air.join(self.engine, blocks, beam)
        returns = detect(self.engine, self._detector(), blocks, beams, beam, key)
        word = dr.gather(mi.UInt32, low, beams.scan), dr.gather(mi.UInt32, high, beams.scan)
        gain = beams.aim(self.engine, beam).gain
        parts = []
        for item in returns:
            # Shots of unknown direction return nothing.
            valid = (item.range < NO_ECHO) & (self.length > 0.0)
            echo = echo_of(self.engine, blocks, item.slot, valid)
            in_the_air = (echo.actor & SCATTERER_BIT) != 0
            true_share = dr.reinterpret_array(mi.Float, echo.actor) / echo.power
            item = replace(item, power=dr.select(valid & ~in_the_air, item.power * true_share, item.power))
            range_m = item.range
            if launch.displaced is not None:
                range_m = dr.select(in_the_air, range_m, launch.displaced(range_m, beams.shot, word))
            parts.append(self._outcome(item, valid, echo, in_the_air, range_m, gain))
        return self._collected(parts)

    def _directions(self) -> tuple[Vectors, Float]:
        """Unit directions from the beam exit in the sensor frame, and the range of the first return."""
        dr, mi = self.engine.dr, self.engine.mi
        v = dr.unravel(mi.Vector3f, self.engine.table(self.shots.vectors))
        length = dr.norm(v)
        direction = v / dr.select(length > 0, length, 1.0)
        dr.schedule(direction, length)
        return direction, length

    def _gains(self) -> NDArray[np.float32] | None:
        """Gain of each shot's ring; None if all are equal or rings are unknown."""
        if channel_gains(self.config, 0) is None:
            return None
        ring = self.shots.rings(self.cloud)
        gains = None if ring is None else channel_gains(self.config, int(ring.max(initial=0)) + 1)
        return None if gains is None else gains[ring].astype(np.float32)

    def _beams(self, gains: NDArray[np.float32] | None) -> Beams:
        dr, mi, count = self.engine.dr, self.engine.mi, self.shots.count
        axis = self.direction
        if not self.air.is_uniform:
            # Opaque, like all numbers that change from cloud to cloud; otherwise each cloud would compile new kernels.
            rotation = [
                [dr.opaque(mi.Float, float(v)) for v in row] for row in (self.pose.apply(np.eye(3)) - self.pose.xyz).T
            ]
            axis = mi.Vector3f(*(sum(row[j] * axis[j] for j in range(3)) for row in rotation))  # type: ignore[misc]
        index = dr.arange(mi.UInt32, count)
        pulse_draw: Reals = 0.0
        if LidarWeather.varies_per_pulse(self.weather):
            low, high = (dr.opaque(mi.UInt32, word) for word in self.stream.key)
            pulse_draw = to_unit(words((low, high), index, PULSE_DRAW)[0])
        zero = dr.zeros(mi.Float, count)
        gain = zero if gains is None else self.engine.table(gains)
        rows = tuple(
            dr.ravel(mi.Vector4f(v.x, v.y, v.z, last))
            for v, last in ((axis, zero), (mi.Vector3f(zero), pulse_draw), (mi.Vector3f(zero), gain))
        )
        scan = dr.zeros(mi.UInt32, count)
        dr.eval(scan, index, *rows)
        return Beams(count, scan, index, rows, gains is not None)  # type: ignore[arg-type]

    def _surfaces(self, beams: Beams, air: Air) -> Echoes:
        """Recorded returns, attenuated by the weather.

        Their power is the one on which the receiver decides. The true power is stored as bits in place of the actor
        number, which recordings do not have; the scatterer bit is then unset, because no power is negative.
        """
        dr, mi = self.engine.dr, self.engine.mi
        shots, slots = self.shots, self.shots.slots
        index = dr.arange(mi.UInt32, shots.count * slots)
        beam = index // slots
        if shots.rows is None:
            source, here = index, index < dr.opaque(mi.UInt32, shots.points)
        else:
            source = self.engine.table(shots.rows.ravel().astype(np.uint32))
            here = source != NOTHING
        range_m = dr.select(here, self.length if slots == 1 else self.engine.table(shots.ranges.ravel()), 1.0)
        self.recorded_m = range_m
        aim = beams.aim(self.engine, beam)
        power = self._recorded_power(index, dr.select(here, source, 0), range_m, here, aim.gain)
        # A recorded point was detected, so its power was at least near the threshold.
        least = max(cast(float, power_with_chance(-_MOST_DEVIATIONS, self.sigma, self.shot_noise)), _LEAST_POWER)
        power = namespace(power).maximum(power, dr.opaque(mi.Float, least))
        self.clear = power
        dr.eval(power, range_m)
        # Clear air attenuated the recorded returns already.
        dimmed = power * two_way(air, dr.opaque(mi.Float, self.constant.gamma_per_m), aim, range_m)
        # Unused rows of a shot with a return must not extend its reach, or particles would be drawn behind its surface.
        unused = dr.select(beam < dr.opaque(mi.UInt32, shots.points_shots), mi.Float(0.0), NO_ECHO)
        echo = ReturnEcho(
            dr.select(here, range_m, unused),
            dr.select(here, self._given_detected(dimmed, power), 0.0),
            dr.select(here, source, NOTHING),
            dr.reinterpret_array(mi.UInt32, dimmed),
        )
        return Echoes(slots, EchoRows.of(self.engine, echo), None, None, None, [])

    def _given_detected(self, dimmed: Float, clear: Float) -> Float:
        """Power of recorded points that passes the threshold with the probability conditioned on their detection.

        A recorded point was detected in clear air. It is still detected with the probability at the attenuated power
        divided by that at the clear power, which is 1 without weather.
        """
        if self.sigma == 0.0:
            return dimmed
        dr, mi = self.engine.dr, self.engine.mi
        sigma, shot_noise = (dr.opaque(mi.Float, value) for value in (self.sigma, self.shot_noise))
        root_2 = float(np.sqrt(2.0))

        def chance(power: Float) -> Float:
            return 0.5 + 0.5 * dr.erf((power - 1.0) / (root_2 * dr.sqrt(sigma * sigma + shot_noise * power)))

        xp = namespace(dimmed)
        still = 2.0 * chance(dimmed) / chance(clear) - 1.0
        deviations = root_2 * dr.erfinv(xp.clip(still, -0.9999, 0.99999))
        deviations = dr.select(still > 0.99999, _CERTAIN_DEVIATIONS, deviations)
        return xp.maximum(dimmed, power_with_chance(deviations, sigma, shot_noise))

    def _white(self, range_m: Float, here: Bool, gain: Float | None) -> Float:
        """Power [P_min] of a white diffuser facing the sensor at ranges [m]."""
        dr, curve = self.engine.dr, self.tables.overlap_curve
        overlap = 1.0 if curve is None else curve(range_m, here)
        overlap = overlap if gain is None else overlap * gain
        clear = dr.exp(-2.0 * self.constant.gamma_per_m * range_m)
        return overlap * clear / (np.pi * self.constant.threshold * range_m * range_m)

    def _recorded_power(self, index: Int, source: Int, range_m: Float, here: Bool, gain: Float | None) -> Float:
        """Power [P_min] of the recorded returns: as recorded, or by inverting the intensity scale."""
        dr, mi, shots = self.engine.dr, self.engine.mi, self.shots
        if shots.power is not None and len(shots.power):
            return dr.gather(mi.Float, self.engine.table(shots.power), source, here)
        white = self._white(range_m, here, gain)
        typical = scale_called(self.config.intensity.scale).typical_reflectance
        if shots.intensity is None or (typical is not None and self.reflectance is not None):
            if self.reflectance is not None:
                equal = dr.opaque(mi.Float, float(self.reflectance))
            elif shots.reflectance is not None:
                known = shots.reflectance if len(shots.reflectance) else np.zeros(1, np.float32)
                equal = dr.gather(mi.Float, self.engine.table(known), source, here)
            else:
                raise ConfigError(
                    "weather: the cloud has no field intensity; pass a reflectance to use for all of its points"
                )
        else:
            return self._inverted(index, source, here, white)
        return equal * white

    def _intensity(self, source: Int, here: Bool) -> Float:
        """Recorded intensity on the sensor's scale."""
        dr, mi, known = self.engine.dr, self.engine.mi, self.shots.intensity
        # Kernels cannot gather from empty arrays, even if the mask is False everywhere.
        values = known if known is not None and len(known) else np.zeros(1, np.float32)
        return dr.gather(mi.Float, self.engine.table(values), source, here)

    def _within_step(self, index: Int, source: Int, here: Bool) -> tuple[Float, Float, Float]:
        """Recorded intensity, its value before rounding, uniform within its step, and the uniform number used.

        `index` numbers the returns of the shots, `source` is their row of the cloud.
        """
        dr, mi, step = self.engine.dr, self.engine.mi, self.shots.intensity_step
        value = self._intensity(source, here)
        low, high = (dr.opaque(mi.UInt32, word) for word in self.stream.key)
        draw = to_unit(words((low, high), index, WITHIN_STEP_DRAW)[0])
        # Slightly less than the whole step, so that rounding returns the recorded value.
        spread = dr.opaque(mi.Float, 0.998 * step)
        return value, dr.select(value > 0.0, value + spread * (draw - 0.5), 0.5 * spread * draw), draw

    def _inverted(self, index: Int, source: Int, here: Bool, white: Float) -> Float:
        """Power [P_min] of recorded intensities, given that they were detected.

        Where several powers have the same intensity, one is drawn: uniformly within the rounding step, and below the
        smallest step, where intensity is 0, in proportion to the probability of detection.
        """
        dr, mi, step = self.engine.dr, self.engine.mi, self.shots.intensity_step
        scale, photons = scale_called(self.config.intensity.scale), threshold_photons(self.config)
        value, before, draw = self._within_step(index, source, here)
        power = cast("Float | None", scale.received(before, white, photons))
        if power is None:
            raise ConfigError(f"weather: reflectance cannot be derived from the intensity of {self.config.name}")
        if step == 0.0:
            return power
        # Powers below the first step. Their probability of detection is Phi(x), x = (P - 1) / sigma, whose integral is
        # G(x) = x Phi(x) + phi(x); Newton's method from the upper end solves G(x) = draw G(x_max).
        most = cast("Float", scale.received(dr.opaque(mi.Float, 0.5 * step), white, photons))
        xp = namespace(most)
        sigma = float(np.hypot(self.sigma, np.sqrt(self.shot_noise)))
        if sigma == 0.0:
            return dr.select(value > 0.0, power, 1.0 + draw * xp.maximum(most - 1.0, 0.0))
        top = xp.clip((most - 1.0) * (1.0 / sigma), -_MOST_DEVIATIONS, 1e4)

        def integral(x: Float) -> tuple[Float, Float]:
            phi = 0.5 + 0.5 * dr.erf(x * float(np.sqrt(0.5)))
            return x * phi + float(1.0 / np.sqrt(2.0 * np.pi)) * dr.exp(-0.5 * x * x), phi

        wanted, x = draw * integral(top)[0], top
        for _ in range(8):
            reached, phi = integral(x)
            x = xp.maximum(x - (reached - wanted) / xp.maximum(phi, 1e-4), -_MOST_DEVIATIONS)
        return dr.select(value > 0.0, power, 1.0 + sigma * x)

    def _detector(self) -> Detector:
        merge, gap = None, self.shots.least_gap()
        if gap is not None:
            # Returns that the sensor resolved are not merged again.
            merge = self.engine.table(np.minimum(self.config.receiver.merge_distance_m, 0.99 * gap))
        return Detector.of(
            self.engine, self.config, self.sigma, noisy=self.sigma > 0.0, merge_distance=merge, false_alarms=False
        )

    def _outcome(
        self, item: Return, valid: Bool, echo: ReturnEcho, in_the_air: Bool, range_m: Float, gain: Float | None
    ) -> dict[str, Any]:
        """Reported values of one return of every shot."""
        dr, mi = self.engine.dr, self.engine.mi
        resolution = self.config.range.resolution_m
        range_m = dr.select(valid, range_m, 0.0)
        range_m = dr.select(in_the_air, in_steps(range_m, resolution or None), range_m)
        curve = self.tables.overlap_curve
        at_range = dr.select(valid, item.range, 0.0)
        overlap = 1.0 if curve is None else curve(at_range, valid)
        equal = reflectivity(
            item.power,
            at_range,
            threshold=self.constant.threshold,
            extinction_per_m=self.constant.gamma_per_m,
            overlap=overlap if gain is None else overlap * gain,
        )
        sheet, photons = self.config.intensity, threshold_photons(self.config)
        scale = scale_called(sheet.scale)
        value = in_steps(scale.encode(item.power, equal, photons), sheet.resolution or None)
        on_surface = valid & ~in_the_air
        source = dr.select(on_surface, echo.part, 0)
        row = dr.select(on_surface, row_of(item.slot), 0)
        clear = dr.gather(mi.Float, self.clear, row, on_surface)
        before_m = dr.gather(mi.Float, self.recorded_m, row, on_surface)
        # Range times direction differs from the recorded point in the last bit.
        same = on_surface & (abs(range_m - before_m) <= 1e-5 + 1e-6 * before_m)
        remaining = dr.select(on_surface, item.power / namespace(clear).maximum(clear, 1e-6), 1.0)
        if self.shots.intensity is not None:
            # Recorded intensities fall in proportion to the scale's own: without weather they stay as they are.
            recorded, before, _ = self._within_step(row, source, on_surface)
            full = scale.encode(clear, clear * equal / item.power, photons)
            now = scale.encode(item.power, equal, photons)
            if self.shots.power is not None:
                half = 0.499 * self.shots.intensity_step
                before = cast("Float", namespace(full).clip(full, recorded - half, recorded + half))
            ratio = dr.select(full > 0.0, now / full, 0.0)
            kept = in_steps(dr.select(recorded > 0.0, before * ratio, 0.0), self.shots.intensity_step or None)
            if scale.received(recorded, 1.0, photons) is None:
                kept = recorded
            value = dr.select(on_surface, kept, value)
        at = range_m * self.direction
        return {
            "valid": valid,
            "x": at.x,
            "y": at.y,
            "z": at.z,
            "range_m": range_m,
            "power": item.power,
            "reflectivity": equal,
            "intensity": value * self.shots.intensity_unit,
            "source": dr.select(on_surface, echo.part, NOTHING),
            "origin": dr.select(in_the_air, echo.actor & 0xFF, mi.UInt32(0)),
            "remaining": remaining,
            "same": same,
        }

    def _collected(self, parts: list[dict[str, Any]]) -> FoundReturns:
        """Valid returns of all registers, in order of shot."""
        for part in parts:
            self.engine.dr.schedule(*part.values())
        self.engine.dr.eval()
        # Selected in NumPy: a kernel that gathers the valid rows takes as long as the detection. The copies of `take`
        # and `compress` are the only ones; Dr.Jit's memory must not leave this function.
        valid = np.stack([part["valid"].numpy() for part in parts], axis=1).ravel()
        chosen = np.flatnonzero(valid)

        def of(name: str) -> NDArray[Any]:
            first = parts[0][name].numpy()
            if len(parts) == 1:
                return np.asarray(first.take(chosen))
            return np.stack([first, *(part[name].numpy() for part in parts[1:])], axis=1).ravel().take(chosen)

        xyz = np.empty((len(chosen), 3), np.float32)
        for axis, name in enumerate("xyz"):
            xyz[:, axis] = of(name)
        names = ("range_m", "power", "reflectivity", "intensity", "source", "origin", "remaining", "same")
        return FoundReturns(xyz, shot=(chosen // len(parts)).astype(np.uint32), **{name: of(name) for name in names})
