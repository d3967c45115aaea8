"""Radar sensor: emit, cast, reflect, accumulate, add noise, detect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.clouds import ORIGINS, origin_names
from parhelion.core.config import parse
from parhelion.core.errors import ConfigError
from parhelion.core.frames import AdcFrame, CrossSections, RadarCube, RadarScan
from parhelion.core.pose import Pose
from parhelion.core.random import Stream, to_normal, to_unit
from parhelion.core.trajectory import Trajectory, pose_at, velocity_at
from parhelion.rays.device import engine
from parhelion.rays.lock import locked
from parhelion.rays.origin import cell_around
from parhelion.sensors.base import FrameSensor, checked_world, finite_time, motion_of, place_of
from parhelion.sensors.scene import others_of
from parhelion.sensors.sheets import open_sheet
from parhelion.sensors.waves.bounce import BouncePaths
from parhelion.sensors.waves.radar.adc import adc_samples
from parhelion.sensors.waves.radar.baseband import sensitivity
from parhelion.sensors.waves.radar.config import RadarConfig
from parhelion.sensors.waves.radar.cube import Axes, scatterers_of
from parhelion.sensors.waves.radar.detection import (
    clusters_of,
    ground_returns,
    peaks_of,
    speed_error_m_s,
    unfold_speeds,
)
from parhelion.sensors.waves.radar.device import RadarFrame, RadarOnDevice, cross_section_m2, table
from parhelion.sensors.waves.radar.interference import OtherRadar
from parhelion.sensors.waves.radar.plumes import IN_AIR, through_grids
from parhelion.sensors.waves.scene import WaveScene, beam_gain, taken, wave_scene
from parhelion.weather.weather import Weather
from parhelion.world.world import World

_SURFACE, _MULTIPATH, _NOISE = (ORIGINS.index(name) for name in ("surface", "multipath", "noise"))

CLUSTER_SNR = 5.0
"""Threshold of the cluster mode in units of the noise."""


class Radar(FrameSensor[RadarConfig, RadarScan]):
    """Radar that points along x.

    >>> import parhelion as ph
    >>> radar = ph.Radar("ti/iwr6843")
    >>> world = ph.World()
    >>> _ = world.add(ph.shapes.box(0.2, 0.2, 0.2), material="steel", pose=ph.Pose((5, 0, 0)))
    >>> detections = radar.scan(world, pose=ph.Pose(), seed=7)
    >>> print(f"{detections.range[0]:.1f} m")
    4.9 m

    Args:
        model: Preset name, YAML file or `RadarConfig`.
        name: Name of this unit; units of one model with different names have independent noise.
        rate_hz: Frames or revolutions per second [Hz]; by default that of the data sheet.
        noise: False disables receiver noise.
        rays: Number of rays that sample the world.
        bounces: Largest number of reflections of a ray.
        mode: "cube" (CFAR over range, speed and angle) or "cluster" (the method of VANE).
        cube: True adds the cube of powers to the record.
        interferers: Other radars of the same model, each with xyz, yaw_deg, actor, slope and offset_us; see
            `parhelion.sensors.waves.radar.interference`.
    """

    kind = "radar"

    def __init__(
        self,
        model: str | PathLike[str] | RadarConfig,
        *,
        name: str = "",
        rate_hz: float | None = None,
        noise: bool = True,
        rays: int | None = None,
        bounces: int | None = None,
        mode: Literal["cube", "cluster"] = "cube",
        cube: bool = False,
        interferers: Sequence[OtherRadar | Mapping[str, Any]] = (),
    ) -> None:
        sheet = open_sheet("radar", RadarConfig, model)
        config = sheet.config
        if mode not in ("cube", "cluster"):
            raise ConfigError(f"mode: must be cube or cluster, got {mode!r}")
        chosen = {"rays": rays, "bounces": bounces}
        if rate_hz is not None or any(value is not None for value in chosen.values()):
            data = config.model_dump(mode="python")
            data["field"] |= {key: value for key, value in chosen.items() if value is not None}
            if rate_hz is not None:
                data["rate_hz"] = rate_hz
                if data["turning"] is not None:
                    data["turning"]["rate_rpm"] = 60.0 * rate_hz
            config = parse(RadarConfig, data, config.name)
        super().__init__(config, sheet.name, name=name, rate_hz=config.rate_hz, noise=noise)
        self.mode, self.cube = mode, cube
        self.interferers = others_of(OtherRadar, interferers)
        """Other radars of the same model whose signals cause ghosts and a raised floor."""
        if self.interferers and mode == "cluster":
            raise ConfigError("interferers: mode cluster has no noise floor; use mode cube")
        self.axes = Axes.of(config)
        """Axes of the cube."""
        self._on_device: RadarOnDevice | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_on_device": None}

    @property
    def frame_duration_s(self) -> float:
        """Time from the start of a frame to its last ramp [s]."""
        return self.config.frame_s

    scan = FrameSensor[RadarConfig, RadarScan].measure
    """Measure one frame; another name of `measure`."""

    @locked
    def paths(
        self,
        world: World,
        *,
        pose: Pose | None = None,
        trajectory: Trajectory | None = None,
        mount: Pose | None = None,
        time: float = 0.0,
    ) -> BouncePaths:
        """Paths of one frame before cube and noise, one row per ray and return."""
        motion, start = motion_of(checked_world(world), None, pose, trajectory, mount), finite_time(time)
        device, target, weather = self._ready(world, motion, start)
        return device.trace(target, motion, start, weather)

    @locked
    def adc(
        self,
        world: World,
        *,
        pose: Pose | None = None,
        trajectory: Trajectory | None = None,
        mount: Pose | None = None,
        time: float = 0.0,
        seed: int = 0,
    ) -> AdcFrame:
        """Raw samples of one frame: all receivers and ramps, before any transform."""
        motion, start = motion_of(checked_world(world), None, pose, trajectory, mount), finite_time(time)
        device, target, weather = self._ready(world, motion, start)
        paths = device.trace(target, motion, start, weather)
        scatterers = scatterers_of(paths, device.power(paths), self.axes)
        stream = Stream(seed, f"radar/adc/{self.model}/{self.name}")
        samples = adc_samples(self.config, scatterers, self.axes, stream, noise=self.noise)
        config = self.config
        return AdcFrame(samples, config.range_step_m, 2.0 * config.largest_speed_m_s / config.waveform.ramps)

    def rcs(
        self,
        target: Any,
        azimuth_deg: ArrayLike = 0.0,
        elevation_deg: ArrayLike = 0.0,
        *,
        mode: Literal["optics", "power"] = "optics",
        distance_m: float | None = None,
        **more: Any,
    ) -> CrossSections:
        """Cross-sections of one object at this radar's frequency, for directions in the frame of the object.

        "optics" adds fields by physical optics and is the reference; it accepts the options of
        `parhelion.sensors.waves.radar.rcs.rcs`. "power" adds rays by power, as scans do, for a radar at `distance_m`.
        """
        from parhelion.sensors.waves.radar.rcs import power_rcs, rcs

        given: dict[str, Any] = {
            "frequency_ghz": self.config.frequency_ghz,
            "azimuth_deg": azimuth_deg,
            "elevation_deg": elevation_deg,
        }
        if mode == "optics":
            if distance_m is not None:
                raise ConfigError('rcs: distance_m requires mode="power"; physical optics assumes an infinite distance')
            return rcs(target, **given, **more)
        if mode != "power":
            raise ConfigError(f"mode: must be optics or power, got {mode!r}")
        return power_rcs(target, **given, distance_m=distance_m, **more)

    def _ready(self, world: World, motion: Trajectory, start: float) -> tuple[RadarOnDevice, WaveScene, Weather | None]:
        place = place_of(motion, start)
        config = self.config
        hertz = config.frequency_ghz * 1e9
        with world.edits():
            # The origin of the engine's float32 coordinates depends on the sensor only: with that of the whole world,
            # an object anywhere would change the rounding of every path.
            cell = cell_around(place.xyz)
            weather = world.weather
            ground = None if weather is None else weather.ground(start)
            # A scene is prepared for each state, so that slow changes have steps of 0.1.
            wetness = 0.0 if ground is None else round(ground.wetness, 1)
            snowy = ground is not None and ground.snow_cover >= 0.5
            target = wave_scene(
                world,
                self.visibility_keys,
                lambda names: table(names, hertz, wetness),
                ("radio", hertz, wetness),
                config.wavelength_m,
                cell,
                snowy=snowy,
            )
        if self._on_device is None:
            self._on_device = RadarOnDevice(engine(), config, self.axes)
        return self._on_device, target, weather

    @locked
    def _measure(self, world: World, motion: Trajectory, start: float, seed: int, stream: Stream) -> RadarScan:
        place = place_of(motion, start)
        device, target, weather = self._ready(world, motion, start)
        paths = device.trace(target, motion, start, weather)
        metadata = {"sensor": self.model, "world": world.name, "seed": int(seed), "time": start, "mode": self.mode}
        if self.mode == "cluster":
            fields = self._clusters(device, target, paths, motion, start)
            made = None
        else:
            paths = through_grids(paths, weather, self.config, motion, start, target.scene, self._gain)
            floor = None
            if self.interferers:
                heard = device.interference(self.interferers, world, motion, start, target)
                paths, floor = BouncePaths.joined([paths, heard.ghosts]), heard.floor
            found = device.measure(paths, stream, weather, motion, start, noise=self.noise, floor=floor)
            fields = self._detections(device, target, found, weather, start, stream)
            made = self._cube(found.power) if self.cube else None
        azimuth, elevation, distance = (fields[name].astype(np.float64) for name in ("azimuth", "elevation", "range"))
        level = np.cos(elevation)
        unit = np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)], axis=1)
        names = {"label": target.label_names, "origin": origin_names()}
        return RadarScan(
            (distance[:, None] * unit).astype(np.float32),
            fields,
            "sensor",
            names,
            metadata,
            cube=made,
            pose=place,
            start_time=start,
            duration=self.config.frame_s,
        )

    def _cube(self, power: NDArray[np.float32]) -> RadarCube:
        axes = self.axes
        return RadarCube(power, axes.range, axes.speed, axes.elevation, axes.azimuth)

    def _detections(
        self,
        device: RadarOnDevice,
        target: WaveScene,
        found: RadarFrame,
        weather: Weather | None,
        start: float,
        stream: Stream,
    ) -> dict[str, NDArray[Any]]:
        """Fields of detections in the order of descending power."""
        config, axes = self.config, self.axes
        peaks = peaks_of(found.power, found.peaks, axes, config.detection)
        keep = peaks.range_m >= max(config.minimum_range_m, config.range_step_m)
        keep &= found.power.ravel()[peaks.cell] >= 10.0 ** (config.detection.floor_db / 10.0)
        order = np.flatnonzero(keep)[np.argsort(-peaks.power[keep], kind="stable")]
        cell = peaks.cell[order]
        owner = found.signal.owners(cell)
        there = owner >= 0
        scatterer = found.scatterers.owner[np.maximum(owner, 0)] if len(found.scatterers) else np.zeros(len(cell), int)
        # A peak is noise if most of its power is missing in the cube without noise.
        clean = found.signal.real[cell].astype(np.float64) ** 2 + found.signal.imaginary[cell].astype(np.float64) ** 2
        r, d, _, a = np.unravel_index(cell, axes.shape)
        clutter = found.clutter[r] * found.spread[d, a]
        in_air = device.in_air(weather, start)
        # The medium with the strongest backscatter is the origin of clutter.
        strongest = max(in_air, key=lambda one: one[1].reflectivity_m2_m3)[0].code if in_air else _NOISE
        ghost = there & (found.paths.bounces[scatterer] > 1) if len(found.paths) else there
        origin = np.where(ghost, _MULTIPATH, _SURFACE)
        in_grid = there & (found.paths.bounces[scatterer] == IN_AIR) if len(found.paths) else there
        if in_grid.any():
            origin = np.where(in_grid, found.paths.patch[scatterer], origin)
        made_by_noise = ~there | (clean < 0.5 * found.power.ravel()[cell])
        origin = np.where(made_by_noise, np.where(clutter > 1.0, strongest, _NOISE), origin)
        part = found.paths.part[scatterer] if len(found.paths) else np.zeros(len(cell), np.uint32)
        real = ~made_by_noise
        solid = real & ~in_grid
        range_m, azimuth, elevation = peaks.range_m[order], peaks.azimuth[order], peaks.elevation[order]
        power = np.maximum(peaks.power[order] - 1.0, 1e-9) * device.noise_w
        gain = self._gain(azimuth, elevation) * sensitivity(config, range_m)
        loss = sum(effect.loss_db_per_km for _, effect in in_air)
        if loss > 0.0:
            gain = gain * 10.0 ** (-2e-4 * loss * range_m)
        sigma = cross_section_m2(device.constant_w * gain, power, range_m)
        snr = peaks.power[order] / peaks.noise[order]
        times = device.times_of(np.stack([np.cos(azimuth), np.sin(azimuth)], axis=1))
        speed = peaks.speed_m_s[order]
        if config.waveform.second_interval_us is not None and len(order):
            true = found.scatterers.speed_m_s[np.maximum(owner, 0)] if len(found.scatterers) else speed
            speed = self._unfolded(speed, true, real, cell, snr, stream)
        fields: dict[str, NDArray[Any]] = {
            "range": range_m.astype(np.float32),
            "azimuth": azimuth.astype(np.float32),
            "elevation": elevation.astype(np.float32),
            "radial_velocity": speed.astype(np.float32),
            "rcs": _decibels(sigma),
            "snr": _decibels(snr),
            "time": times.astype(np.float32),
            "label": np.where(solid, taken(target.part_label, part), 0).astype(np.uint16),
            "instance": np.where(solid, taken(target.part_instance, part), 0).astype(np.uint32),
            "bounces": np.where(real, taken(found.paths.bounces, scatterer), 0).astype(np.uint8),
            "origin": origin.astype(np.uint8),
        }
        reported = fields["rcs"] >= config.detection.least_rcs_dbsm
        return {name: values[reported] for name, values in fields.items()}

    def _unfolded(
        self,
        speed: NDArray[np.float64],
        true: NDArray[np.float64],
        real: NDArray[np.bool_],
        cell: NDArray[np.int64],
        snr: NDArray[np.float64],
        stream: Stream,
    ) -> NDArray[np.float64]:
        """Speeds of detections with the second train of ramps, which measures the same scatterers with its own error.

        `true` are the speeds of the scatterers [m/s]. A peak of noise has no counterpart in the second train, so its
        second speed is random.
        """
        wave, wavelength = self.config.waveform, self.config.wavelength_m
        assert wave.second_interval_us is not None
        assert wave.speed_limits_m_s is not None
        spans = (wavelength / (2e-6 * wave.interval_us), wavelength / (2e-6 * wave.second_interval_us))
        a, b, c, _ = replace(stream, name=f"{stream.name}/second-train").words(cell.astype(np.uint32))
        error = speed_error_m_s(snr, spans[1] / wave.ramps) * to_normal(a, b)[0]
        second = np.where(real, true + error, spans[1] * to_unit(c))
        return unfold_speeds(speed, second, spans, wave.speed_limits_m_s)

    def _clusters(
        self, device: RadarOnDevice, target: WaveScene, paths: BouncePaths, motion: Trajectory, start: float
    ) -> dict[str, NDArray[Any]]:
        """Fields of the targets by the method of VANE, without the ground."""
        half = 0.5 * paths.length.astype(np.float64)
        power, toward = device.power(paths), paths.direction.astype(np.float64)
        local, speed = toward * half[:, None], 0.5 * paths.rate.astype(np.float64)
        pose, resolution = pose_at(motion, start), self.config.lateral_resolution_m
        own = toward @ (pose.rotation.T @ velocity_at(motion, start))
        ground = ground_returns(local @ pose.rotation.T, speed + own, paths.bounces == 1, resolution)
        rows = np.flatnonzero(~ground)
        found = clusters_of(local[rows], power[rows], speed[rows], resolution, CLUSTER_SNR)
        xyz, owner = found.xyz, rows[found.owner]
        distance = np.linalg.norm(xyz, axis=1)
        azimuth = np.arctan2(xyz[:, 1], xyz[:, 0])
        elevation = np.arcsin(np.clip(xyz[:, 2] / np.maximum(distance, 1e-9), -1.0, 1.0))
        watts = found.power * device.noise_w
        gain = self._gain(azimuth, elevation) * sensitivity(self.config, distance)
        sigma = cross_section_m2(device.constant_w * gain, watts, distance)
        part, bounces = paths.part[owner], paths.bounces[owner]
        return {
            "range": distance.astype(np.float32),
            "azimuth": azimuth.astype(np.float32),
            "elevation": elevation.astype(np.float32),
            "radial_velocity": found.speed_m_s.astype(np.float32),
            "rcs": _decibels(sigma),
            "snr": _decibels(found.power),
            "time": device.times_of(paths.direction[owner]).astype(np.float32),
            "label": taken(target.part_label, part),
            "instance": taken(target.part_instance, part),
            "bounces": bounces,
            "origin": np.where(bounces > 1, _MULTIPATH, _SURFACE).astype(np.uint8),
        }

    def _gain(self, azimuth: NDArray[np.float64], elevation: NDArray[np.float64]) -> NDArray[np.float64]:
        """Two-way gain of the antennas relative to their axes; a rotating antenna has its axis at every azimuth."""
        config, gain = self.config, np.ones(len(azimuth))
        aside = np.zeros(len(azimuth)) if config.turning is not None else np.sin(azimuth) * np.cos(elevation)
        for antenna in (config.transmit, config.receive):
            gain = gain * beam_gain(1.0, aside, np.sin(elevation), *antenna.shape)
        return gain

    def __repr__(self) -> str:
        config = self.config
        return (
            f"<Radar {self.model}: {config.frequency_ghz:g} GHz, {config.range_step_m:.2g} m to "
            f"{config.largest_range_m:.4g} m, at {self.rate_hz:g} Hz>"
        )


def _decibels(values: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.asarray(10.0 * np.log10(np.maximum(values, 1e-30)), np.float32)
