"""State of a lidar on the device, and the order in which its kernels run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import UNSET, Float, Int, Keys, State
from parhelion.core.clouds import Scan, Waveform
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.core.random import Stream, to_normal, words
from parhelion.core.trajectory import Fixed, Trajectory, velocity_at
from parhelion.makers.scales import scale_called
from parhelion.rays.device import Engine, copied
from parhelion.rays.lock import DeviceOwned
from parhelion.sensors.optics.air import Air
from parhelion.sensors.optics.beams import Beams, RangeCurve
from parhelion.sensors.optics.lidar.air_echoes import draw_scatterers
from parhelion.sensors.optics.lidar.detection import Detector
from parhelion.sensors.optics.lidar.echoes import Block
from parhelion.sensors.optics.lidar.emit import ShotArrays, SubRays, aim, footprint, in_fours
from parhelion.sensors.optics.lidar.fmcw import doppler_of, range_sigma_m, snr_at_threshold
from parhelion.sensors.optics.lidar.illuminate import Optics, Reflection, illuminate_adaptively, illuminate_all
from parhelion.sensors.optics.lidar.link_budget import (
    channel_biases,
    channel_elevations,
    channel_gains,
    channel_intensities,
    noise_sigma,
    overlap_curve,
    threshold_photons,
)
from parhelion.sensors.optics.lidar.patterns import ShotTable, group_size
from parhelion.sensors.optics.lidar.points import (
    NEAR_REFLECTIVITY,
    PointsExpected,
    Received,
    ScanTensors,
    collect,
    scans_of,
    tensors_of,
    with_near_returns,
)
from parhelion.sensors.optics.lidar.profiles import ProfiledParts, ProfileRows, substitute_for, warn_uncalibrated
from parhelion.sensors.optics.lidar.readout import Readout, ambient_light
from parhelion.sensors.optics.lidar.reception import Reception, receive
from parhelion.sensors.optics.lidar.specular import WaterColumn, trace_specular
from parhelion.sensors.optics.lidar.weather import LaunchWeather, LidarWeather
from parhelion.sensors.optics.phase import phase_sigma_m
from parhelion.sensors.optics.scene import LightScene
from parhelion.sensors.optics.window import RADIUS_MM, through, window_map
from parhelion.sensors.scene import motion_knots
from parhelion.weather.air import AirContents, air_contents
from parhelion.weather.volume_echo import pulse_shape
from parhelion.weather.weather import Weather

if TYPE_CHECKING:
    from parhelion.sensors.optics.lidar.lidar import Lidar

# Sub-ray slots of one launch: enough to keep the device busy, few enough to bound memory (12 bytes per slot).
_SLOTS_PER_LAUNCH = {"cpu": 4_000_000, "cuda": 32_000_000, "metal": 32_000_000}
_MOST_SAMPLES = 200_000_000
"""Limit of samples of a digitised signal, all shots together."""


@dataclass(frozen=True)
class Launch:
    """Inputs of scans that share kernels."""

    target: LightScene
    weather: Weather | None
    table: ShotTable
    motions: list[Trajectory]
    times: list[float]
    streams: list[Stream]


class LidarOnDevice(DeviceOwned):
    """Device state that is reused from scan to scan."""

    def __init__(self, engine: Engine, lidar: Lidar) -> None:
        config, constant, sun_klx, noise = lidar.config, lidar.system_constant, lidar.sun_klx, lidar.noise
        self.engine, self.config, self.noisy = engine, config, noise
        self.sampling, self.bounces = lidar.sampling, lidar.bounces
        self.sub_rays = SubRays.of(engine, footprint(config.beam))
        limits = config.range
        opaque = self._opaque
        self.optics = Optics(
            threshold=opaque(constant.threshold),
            # Rated ranges include the extinction of the air in which they were rated, so it counts as clear air.
            extinction=opaque(constant.gamma_per_m),
            min_range=opaque(limits.min_m),
            max_range=opaque(limits.max_m),
            exit_m=opaque(config.beam.exit_diameter_mm * 1e-3),
            spread=opaque(float(np.mean(config.beam.divergence_mrad)) * 1e-3),
            overlap=overlap_curve(engine, limits.overlap),
        )
        self.noise_sigma = noise_sigma(config, sun_klx)
        sun = config.noise.background_klx if sun_klx is None else sun_klx
        self.sun_klx = opaque(sun) if scale_called(config.intensity.scale).ambient else None
        self._photons = opaque(threshold_photons(config))
        self.detector = Detector.of(engine, config, self.noise_sigma, noisy=noise)
        self.weather = LidarWeather(engine, config, constant, self.noise_sigma if noise else 0.0)
        self._expected = PointsExpected()
        self._profiles = ProfileRows.of(config) if noise else None
        self._profiled: tuple[LightScene, ProfiledParts] | None = None
        self._uncalibrated: set[str] = set()
        self._group: int | None = None
        self._looks = 0 if config.fmcw is None or not noise else config.fmcw.looks
        self._still: tuple[Weather, AirContents] | None = None
        self._table: ShotTable | None = None
        self._through: tuple[ShotTable, tuple[float, ...], NDArray[np.float64]] | None = None
        self._seen_through: NDArray[np.float64] | None = None
        self._window, self._aperture_mm = lidar.window, config.beam.exit_diameter_mm
        self._shots: ShotArrays | None = None
        self._readout: Readout | None = None

    def _opaque(self, value: float) -> Float:
        return self.engine.dr.opaque(self.engine.mi.Float, float(value))

    def batches(
        self, target: LightScene, motions: list[Trajectory], times: list[float], *, shots: int, same_shots: bool
    ) -> Iterator[tuple[int, int]]:
        """First row and end row of each group of scans, of `shots` shots each, that can share a launch.

        Moving bodies and patterns that never repeat are prepared for one start time, so scans at other times need a
        separate launch. Water waves are prepared for one neighbourhood.
        """
        most = max(1, _SLOTS_PER_LAUNCH[self.engine.device] // max(1, shots * self.sub_rays.count))
        one_time = target.scene.changes or not same_shots
        places: list[tuple[int, int] | None] = [None] * len(times)
        if target.scene.surface is not None:
            starts = [place_at(motion, time) for motion, time in zip(motions, times, strict=True)]
            places = [target.scene.neighbourhood(start) for start in starts]
        first = 0
        while first < len(times):
            last = first + 1
            while last < len(times) and last - first < most and (not one_time or times[last] == times[first]):
                if places[last] != places[first]:
                    break
                last += 1
            yield first, last
            first = last

    def _upload(self, table: ShotTable, launch: Launch | None = None) -> tuple[ShotArrays, Readout]:
        """Shots and readout of a table, and with a launch through the window at its start."""
        seen = self._seen_through if launch is None else self.through_window(launch)
        is_new = self._table is not table or seen is not self._seen_through
        if is_new or self._shots is None or self._readout is None:
            self._group = None if self._table is not table else self._group
            self._table, self._seen_through = table, seen
            rings = int(table.ring.max(initial=0)) + 1
            gains = channel_gains(self.config, rings)
            gains = None if gains is None else gains[table.ring]
            if seen is not None:
                gains = seen[0] if gains is None else gains * seen[0]
            raised = channel_elevations(self.config.noise, rings, self.config.name) if self.noisy else None
            self._shots = ShotArrays.upload(self.engine, table, gains, raised)
            self._readout = self._make_readout(table, None if seen is None else seen[0])
        return self._shots, self._readout

    def through_window(self, launch: Launch) -> NDArray[np.float64] | None:
        """Two-way transmittance of the window, and covered share, of each shot, shape (2, shots); None if clean.

        The last one is returned again while the state of the window and the shots are the same.
        """
        if self._window is None:
            return None
        motion, time, table = launch.motions[0], launch.times[0], launch.table
        speed = 0.0 if isinstance(motion, Fixed) else float(np.linalg.norm(velocity_at(motion, time)))
        shares = self._window.shares(time, launch.weather, speed)
        if not any(shares):
            return None
        known = self._through
        if known is None or known[0] is not table or known[1] != shares:
            found = window_map(self._window.seed, shares, self._aperture_mm)
            passed, near = (through(one, table.direction, RADIUS_MM) for one in (found.transmittance, found.near))
            known = self._through = (table, shares, np.stack([np.maximum(passed * passed, 1e-9), near]))
        return known[2]

    def _make_readout(self, table: ShotTable, window: NDArray[np.float64] | None) -> Readout:
        noise, config = self.config.noise, self.config
        jitter_m = noise.time_jitter_ns * 1e-9 * SPEED_OF_LIGHT_M_S / 2.0
        biases = channel_biases(noise, int(table.ring.max(initial=0)) + 1, config.name)
        bias = UNSET if biases is None else self.engine.table(biases[table.ring])
        factors = channel_intensities(noise, int(table.ring.max(initial=0)) + 1, config.name)

        def optional(value: float | None) -> Any:
            return self._opaque(value) if value else None

        fmcw, sigma_1, ratio = config.fmcw, noise.range_sigma_snr_m, 1.0 / self.noise_sigma
        if fmcw is not None:
            bandwidth, chirp = fmcw.bandwidth_ghz * 1e9, fmcw.chirp_us * 1e-6
            sigma_1 = float(cast(float, range_sigma_m(1.0, bandwidth_hz=bandwidth, chirp_s=chirp)))
            ratio = snr_at_threshold(fmcw)
        if config.amcw is not None and not sigma_1:
            sigma_1 = float(cast(float, phase_sigma_m(1.0, modulation_hz=1e6 * config.amcw.fine_mhz)))
        return Readout(
            noisy=self.noisy,
            sigma_0=self._opaque(np.hypot(noise.range_sigma_m, jitter_m)),
            sigma_1=self._opaque(sigma_1),
            sigma_curve=RangeCurve.of(self.engine, "noise.range_sigma_table", noise.range_sigma_table)
            if noise.range_sigma_table
            else None,
            threshold_to_noise=self._opaque(ratio),
            bias=bias,
            resolution=optional(config.range.resolution_m),
            saturation=optional(config.receiver.saturation),
            intensity_sigma=optional(noise.intensity_sigma),
            intensity_factor=UNSET if factors is None else self.engine.table(factors[table.ring]),
            dropout=optional(config.receiver.dropout if self.noisy else None),
            intensity_scale=config.intensity.scale,
            intensity_resolution=optional(config.intensity.resolution),
            photons=self._photons,
            threshold=self.optics.threshold,
            extinction=self.optics.extinction,
            overlap=self.optics.overlap,
            window=UNSET if window is None else self.engine.table(window),
            coherent=fmcw is not None,
            looks=self._looks,
            direction=in_fours(self.engine, _reported_direction(table, noise.encoder_step_deg)),
            origin=in_fours(self.engine, table.origin),
        )

    def _emit(self, launch: Launch) -> tuple[Beams, Keys]:
        scene, times, duration = launch.target.scene, launch.times, launch.table.duration
        shots, _ = self._upload(launch.table, launch)
        if scene.changes:
            scene.set_window(times[0], duration, place_at(launch.motions[0], times[0]))
        knots, count = motion_knots(launch.motions, times, duration, scene.origin)
        if not np.all(np.isfinite(knots)):
            raise ConfigError("pose: the sensor's motion is not finite during the scan")
        low, high = zip(*(stream.key for stream in launch.streams), strict=True)
        keys = self.engine.table(np.array(low, np.uint32)), self.engine.table(np.array(high, np.uint32))
        noise = self.config.noise if self.noisy else None
        varies = LidarWeather.varies_per_pulse(launch.weather)
        beams = aim(self.engine, shots, knots, count, duration, keys, noise, varies_per_pulse=varies, looks=self._looks)
        return beams, keys

    def _launch_weather(self, launch: Launch, beams: Beams, keys: Keys) -> LaunchWeather | None:
        """Weather of a launch, or None in clear air."""
        weather = launch.weather
        if weather is None:
            return None
        # Constant weather is evaluated once; the object is frozen, so its identity is a valid cache key.
        if self._still is None or self._still[0] is not weather:
            air = air_contents(weather, launch.times[0], self.config.wavelength_nm)
            self._still = (weather, air) if weather.is_constant else None
        else:
            air = self._still[1]
        if air.is_clear:
            return None
        if self._group is None:
            self._group = group_size(launch.table)
        return self.weather.prepare(air, beams, self._group, launch.target.scene.origin, keys=keys)

    def scan(self, launch: Launch, metadata: list[dict[str, Any]]) -> list[Scan]:
        """Measure scans that share one launch: emit, cast, reflect, attenuate, detect, record."""
        sent = self._received(launch)
        points = collect(launch.target, sent, self._expected)
        # Counters are read last, because reading them makes Python wait for the device.
        specular = 0 if sent.specular_casts is None else int(sent.specular_casts[0])
        casts = sum(number if isinstance(number, int) else int(number[0]) for number in sent.casts)
        for entry in metadata:
            entry["casts_per_beam"] = (casts + specular) / sent.beams.count
            entry["specular_casts_per_beam"] = specular / sent.beams.count
        scans = scans_of(points, launch.table, launch.target, launch.motions, launch.times, metadata)
        return scans if self._seen_through is None else [self._behind_window(scan) for scan in scans]

    def _behind_window(self, scan: Scan) -> Scan:
        """Scan with the transmittance of the window, and with its echoes if the firmware reports them."""
        assert self._seen_through is not None
        assert self._window is not None
        passed, near = self._seen_through
        scan = replace(scan, shots=replace(scan.shots, window=passed.astype(np.float32)))
        if not self._window.near_returns:
            return scan
        scale = scale_called(self.config.intensity.scale)
        intensity = scale.encode(np.array([1.0]), np.array([NEAR_REFLECTIVITY]), threshold_photons(self.config))
        return with_near_returns(scan, near, self.config.range.min_m, float(np.atleast_1d(intensity)[0]))

    def tensors(self, launch: Launch, fields: tuple[str, ...]) -> ScanTensors:
        """Measure the same scans and leave the fields on the device."""
        return tensors_of(launch.target, self._received(launch), self._expected, fields)

    def _received(self, launch: Launch) -> Received:
        """Run all stages of a launch except the record: emit, cast, reflect, attenuate, detect."""
        target = launch.target
        if len(launch.table) == 0:
            raise ConfigError(f"{self.config.name}: the pattern has no shots")
        beams, keys = self._emit(launch)
        weather = self._launch_weather(launch, beams, keys)
        air = Air(self.optics.extinction) if weather is None else weather.air
        ground = None if launch.weather is None else launch.weather.ground(launch.times[0])
        # Profiles were measured on dry surfaces.
        profiled = self._profiled_parts(target) if ground is None else None
        surfaces = target.surfaces_in(ground)
        light = Reflection(surfaces, self.sub_rays, self.optics, air, profiled, weathered=weather is not None)
        scene = target.scene.for_kernels()
        if self.sampling == "adaptive":
            echoes = illuminate_adaptively(light, scene, beams, self.detector.merge_distance)
        else:
            echoes = illuminate_all(light, scene, beams)
        in_air = None
        if weather is not None and weather.scatterers is not None:
            in_air = draw_scatterers(self.engine, weather.scatterers, weather.drawn, echoes, beams, keys, air)
        displaced = None if weather is None else weather.displaced
        dimming = None if weather is None or profiled is None else air
        shots, readout = self._upload(launch.table)
        reception = Reception(self.detector, readout, beams, keys, in_air, displaced, profiled, dimming)
        behind, more_casts = None, None
        if self.bounces and surfaces.has_specular:
            behind, more_casts = trace_specular(light, scene, echoes, beams, self.bounces)
        returns = receive(self.engine, reception, echoes, behind, shots)
        ambient = None
        if self.sun_klx is not None:
            noise_keys = keys if self.noisy else None
            ambient = ambient_light(self.engine, target.names, echoes, beams, noise_keys, self.sun_klx, self._photons)
        doppler = doppler_of(
            self.engine, self.config, launch.table, launch.motions, launch.times, launch.streams, noisy=self.noisy
        )
        return Received(returns, beams, shots, ambient, echoes.casts, more_casts, doppler)

    def _profiled_parts(self, target: LightScene) -> ProfiledParts | None:
        """Parts of a world whose materials are calibrated; None if the sensor's sheet has no profile."""
        if self._profiles is None:
            return None
        if self._profiled is None or self._profiled[0] is not target:
            calibration = self.config.calibration
            assert calibration is not None
            names = tuple(self._profiles.own)
            if calibration.unknown == "nearest":
                standing, alone = substitute_for(names, target.materials, self.config.wavelength_nm)
            else:
                standing, alone = [], sorted({material.name for material in target.materials} - set(names))
            warn_uncalibrated(standing, alone, self.config.name, self._uncalibrated)
            part_materials = [target.material_names[row] for row in target.material_rows.tolist()]
            self._profiled = target, ProfiledParts.of(self.engine, self._profiles, standing, part_materials)
        return self._profiled[1]

    def waveform(
        self, launch: Launch, shots: NDArray[Any], bin_size_m: float, window_m: tuple[float, float] | None
    ) -> Waveform:
        """Digitised signal over range of selected shots of one scan."""
        if shots.ndim != 1 or shots.size == 0 or shots.dtype.kind not in "iu":
            raise ConfigError("shots: must be a non-empty list of row numbers")
        if shots.min() < 0 or shots.max() >= len(launch.table):
            raise ConfigError(f"shots: row numbers must be from 0 to {len(launch.table) - 1}")
        beams, keys = self._emit(launch)
        weather = self._launch_weather(launch, beams, keys)
        air = Air(self.optics.extinction) if weather is None else weather.air
        ground = None if launch.weather is None else launch.weather.ground(launch.times[0])
        light = Reflection(launch.target.surfaces_in(ground), self.sub_rays, self.optics, air)
        scene = launch.target.scene.for_kernels()
        echoes = illuminate_all(light, scene, beams)
        everyone = self.engine.dr.arange(self.engine.mi.UInt32, beams.count)
        blocks = echoes.blocks(self.engine, everyone)
        column = None
        if self.bounces and light.surfaces.has_specular:
            behind, _ = trace_specular(light, scene, echoes, beams, self.bounces)
            if behind is not None:
                blocks.append(behind.of_all(self.engine, beams.count))
                column = (
                    WaterColumn(light, launch.target.names, blocks[0], blocks[1]) if light.surfaces.has_water else None
                )
        background = None
        if weather is not None and weather.scatterers is not None:
            # A digitised signal contains the whole echo of a volume, a return only its peak.
            background, weather.scatterers.volumes = weather.volume_signal, []
            in_air = draw_scatterers(self.engine, weather.scatterers, weather.drawn, echoes, beams, keys, air)
            if in_air is not None:
                blocks = in_air.join(self.engine, blocks, everyone)
        window = window_m or (0.0, self.config.range.max_m)
        return self._digitised(launch, blocks, beams, shots, window, bin_size_m, background, column)

    def _digitised(
        self,
        launch: Launch,
        blocks: list[Block],
        beams: Beams,
        shots: NDArray[Any],
        window_m: tuple[float, float],
        bin_size_m: float,
        background: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None,
        column: WaterColumn | None = None,
    ) -> Waveform:
        """W(r) = sum of P_k p(r - R_k) + noise, of selected shots at bins within `window_m`; one kernel thread per bin.

        `blocks` are the echoes of all `beams`. `background` is a further signal of every shot, by range [m], and
        `column` that of the water below it.
        """
        first, last = window_m
        if not (np.isfinite([first, last, bin_size_m]).all() and bin_size_m > 0 and last > first >= 0):
            raise ConfigError(f"waveform: the window {window_m} m holds no bin of size {bin_size_m} m")
        bins = int(np.floor((last - first) / bin_size_m)) + 1
        if bins * len(shots) > _MOST_SAMPLES:
            raise ConfigError(
                f"waveform: {bins} bins for {len(shots)} shots exceed {_MOST_SAMPLES} samples; "
                "choose fewer shots or larger bins"
            )
        engine, sigma = self.engine, self.noise_sigma if self.noisy else 0.0
        dr, mi = engine.dr, engine.mi
        index = dr.arange(mi.UInt32, bins * len(shots))
        width = dr.opaque(mi.UInt32, bins)
        row = index // width
        place = self._opaque(first) + mi.Float(index - row * width) * self._opaque(bin_size_m)
        shot = dr.gather(mi.UInt32, engine.table(shots), row)
        length = self._opaque(SPEED_OF_LIGHT_M_S * (self.config.receiver.pulse_length_ns * 1e-9))
        beam = dr.gather(mi.UInt32, self._upload(launch.table)[0].place, shot)
        signal = mi.Float(0.0)
        for block in blocks:
            signal = signal + _summed(engine, block, beam, place, length)
        if column is not None:
            signal = signal + column.signal(beam, place, length)
        if background is not None:
            levels = engine.table(background(first + bin_size_m * np.arange(bins, dtype=np.float64)))
            level = dr.gather(mi.Float, levels, index - row * width)
            gain = beams.aim(engine, beam).gain
            signal = signal + (level if gain is None else level * gain)
        if sigma > 0:
            (stream,) = launch.streams
            # The element is the bin within the shot's window and the draw is the shot, so that the noise of a shot does
            # not depend on which other shots are selected.
            low, high = (dr.opaque(mi.UInt32, word) for word in replace(stream, name=f"{stream.name}/waveform").key)
            a, b, _, _ = words((low, high), index - row * width, shot)
            signal = signal + self._opaque(sigma) * to_normal(a, b)[0]
        samples = copied(mi.Float(signal)).reshape(len(shots), bins)
        return Waveform(shots.astype(np.uint32), float(first), float(bin_size_m), samples, float(sigma))


def place_at(motion: Trajectory, time: float) -> NDArray[np.float64]:
    """Position [m] of a sensor at a time [s], shape (3,)."""
    return motion.pose.xyz if isinstance(motion, Fixed) else motion.sample(np.array([time]))[0][0]


def _reported_direction(table: ShotTable, encoder_step_deg: float) -> NDArray[np.float64]:
    """Reported directions, with azimuth rounded to steps of the encoder."""
    direction = table.direction.astype(np.float64)
    if not encoder_step_deg:
        return direction
    step = np.radians(encoder_step_deg)
    azimuth = np.round(np.arctan2(direction[:, 1], direction[:, 0]) / step) * step
    level = np.hypot(direction[:, 0], direction[:, 1])
    return np.stack([level * np.cos(azimuth), level * np.sin(azimuth), direction[:, 2]], axis=1)


def _summed(engine: Engine, block: Block, beam: Int, place: Float, length: Float) -> Float:
    """Signal of a block's echoes at positions along beams."""
    dr, mi = engine.dr, engine.mi

    def of_beam(values: Float | Int) -> Any:
        return values if dr.width(values) == 1 else dr.gather(type(values), values, beam)

    first, count = of_beam(block.first), of_beam(block.count)
    scale = mi.Float(1.0) if block.scale is None else of_beam(block.scale)

    def step(k: Int, total: Float) -> State:
        echo = block.rows.at(first + k)
        shape = pulse_shape(place - echo.range, length_m=length)
        return k + 1, total + dr.select(echo.power > 0.0, echo.power * shape, 0.0)

    _, total = dr.while_loop((mi.UInt32(0), mi.Float(0.0)), lambda k, total: k < count, step)
    return total * scale
