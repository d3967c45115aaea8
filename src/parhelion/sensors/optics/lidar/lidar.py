"""The lidar: emit, cast, reflect, attenuate, detect, record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from parhelion.core.clouds import Scan, Waveform
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.random import Stream, repeated
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.makers.scales import IntensityScale, scale_called
from parhelion.rays.lock import locked
from parhelion.rays.origin import Cell, cell_around, runs
from parhelion.sensors.base import FrameSensor, checked_world, finite_time, motion_of
from parhelion.sensors.optics.lidar.config import LidarConfig, ReturnMode
from parhelion.sensors.optics.lidar.device import Launch, LidarOnDevice, place_at
from parhelion.sensors.optics.lidar.interference import Interferer, interferers_of, with_interference, with_sunlight
from parhelion.sensors.optics.lidar.link_budget import (
    AbsoluteBudget,
    SystemConstant,
    absolute_budget,
    max_range,
    system_constant,
    with_rated_table,
)
from parhelion.sensors.optics.lidar.patterns import ShotTable, repeats, shot_table
from parhelion.sensors.optics.lidar.points import DEFAULT_TENSORS, ScanTensors, chosen_fields, tensors_from
from parhelion.sensors.optics.lidar.validity import Validity, weather_validity
from parhelion.sensors.optics.scene import LightScene, light_scene
from parhelion.sensors.optics.window import Window, window_of
from parhelion.sensors.sheets import open_sheet, unstated_noise
from parhelion.world.world import World

if TYPE_CHECKING:
    from parhelion.sensors.optics.lidar.fit import LidarFit

Sampling = Literal["adaptive", "fixed"]


class Lidar(FrameSensor[LidarConfig, Scan]):
    """Lidar. Every shot is measured at its own time, with sensor and actors at their positions at that time.

    Args:
        model: Preset name, YAML file or `LidarConfig`.
        name: Name that distinguishes it from other sensors of its model: objects may be hidden from it, and its noise
            differs from theirs.
        rate_hz: Frames per second; one of the rates that the sensor offers.
        noise: False gives the noiseless measurement.
        columns: Columns per revolution; one of the numbers that the sensor offers.
        returns: Return mode; one of those that the sensor offers.
        max_returns: Largest number of returns per shot.
        sub_rays: Number of rays that sample the footprint; 1 is a ray without width.
        sampling: "adaptive" (further sub-rays only where probes disagree) or "fixed" (all of them).
        bounces: Largest number of mirrors and glass panes on a path; 0 ignores them.
        sun_klx: Sunlight [klx]; by default that of the rated ranges.
        interferers: Other lidars of the same model whose pulses cause false points, each with xyz, yaw_deg, offset_s,
            period_ppm and actor.
        sun_in_view: True to blind shots that look into the sun of the world's daylight.
        window: Dirt on the window: a `Window`, or its fields such as {"mud": 0.1}; None is clean.

    Example:
        >>> import parhelion as ph
        >>> lidar = ph.Lidar("velodyne/vlp-16")
        >>> lidar
        <Lidar velodyne/vlp-16: 28928 shots per scan at 10 Hz>
        >>> round(lidar.max_range(0.9))
        100
    """

    kind = "lidar"

    def __init__(
        self,
        model: str | PathLike[str] | LidarConfig,
        *,
        name: str = "",
        rate_hz: float | None = None,
        noise: bool = True,
        columns: int | None = None,
        returns: ReturnMode | None = None,
        max_returns: int | None = None,
        sub_rays: int | None = None,
        sampling: Sampling = "adaptive",
        bounces: int = 2,
        sun_klx: float | None = None,
        window: Window | Mapping[str, Any] | None = None,
        interferers: Sequence[Interferer | Mapping[str, Any]] = (),
        sun_in_view: bool = False,
    ) -> None:
        sheet = open_sheet("lidar", LidarConfig, model)
        is_own_file = sheet.preset is None and sheet.file is not None
        config = _chosen(sheet.config, returns=returns, max_returns=max_returns, sub_rays=sub_rays)
        config = with_rated_table(config)
        self.unstated_noise = unstated_noise(sheet.config)
        """Noise fields that the data sheet does not give and that are 0."""
        self.not_offered = _not_offered(sheet.config, returns)
        """Sentence on a return mode that the sensor does not offer; '' otherwise."""
        if sampling not in ("adaptive", "fixed"):
            raise ConfigError(f"sampling: must be 'adaptive' or 'fixed', got {sampling!r}")
        if isinstance(bounces, bool) or not isinstance(bounces, int) or not 0 <= bounces <= 8:
            raise ConfigError(f"bounces: must be a whole number from 0 to 8, got {bounces!r}")
        if sun_klx is not None and not (np.isfinite(sun_klx) and sun_klx >= 0):
            raise ConfigError(f"sun_klx: must be finite and not negative, got {sun_klx!r}")
        for what, given in (("rate_hz", rate_hz), ("columns", columns)):
            if given is not None and (isinstance(given, bool) or not isinstance(given, (int, float, np.number))):
                raise ConfigError(f"{what}: must be a number, got {given!r}")
        rate = float(rate_hz if rate_hz is not None else config.pattern.rate_hz)
        super().__init__(config, str(model) if is_own_file else sheet.name, name=name, rate_hz=rate, noise=noise)
        self.sampling, self.bounces, self.sun_klx = sampling, bounces, sun_klx
        self.interferers = interferers_of(interferers)
        """Other lidars of the same model whose pulses cause false points."""
        self.sun_in_view = sun_in_view
        """True if the sun in the field of view blinds shots."""
        self._twin: Lidar | None = None
        self.window = window_of(window)
        """Dirt on the window; None for a clean one."""
        self._pattern_options: dict[str, Any] = {"rate_hz": rate_hz, "columns": columns, "folder": sheet.folder}
        self._repeats = repeats(config.pattern)
        self._table: ShotTable | None = None
        self._on_device: LidarOnDevice | None = None
        self.recorded_weather: Any = None
        """Tables for weather on recorded clouds, created on first use."""
        self.shots(0.0)  # reports a wrong rate or table file now rather than at the first scan

    def __getstate__(self) -> dict[str, Any]:
        # Device memory cannot be pickled, and computing the table of shots is faster than transferring it.
        folder = self._pattern_options["folder"]
        options = {**self._pattern_options, "folder": None if folder is None else folder.absolute()}
        reset = {"_on_device": None, "recorded_weather": None, "_table": None, "_pattern_options": options}
        reset["_twin"] = None
        return {**self.__dict__, **reset}

    @property
    def system_constant(self) -> SystemConstant:
        """System constant that follows from the rated ranges of the data sheet."""
        return system_constant(self.config)

    @property
    def intensity_scale(self) -> IntensityScale:
        """Scale of the field `intensity`."""
        return scale_called(self.config.intensity.scale)

    def silent_twin(self) -> Lidar:
        """Lidar of the same model and pattern without noise, dirt, faults and interferers, as an interferer."""
        if self._twin is None:
            self._twin = copy(self)
            self._twin.__dict__.update(
                self.__getstate__(), noise=False, window=None, interferers=(), sun_in_view=False, faults=None, name=""
            )
        return self._twin

    @property
    def absolute_budget(self) -> AbsoluteBudget:
        """Link budget in watts and photons; needs the section `transmitter` of the data sheet."""
        return absolute_budget(self.config)

    @property
    def weather_validity(self) -> dict[str, Validity]:
        """Validity of this sensor's points in each medium, by name of the medium."""
        calibration = self.config.calibration
        calibrated = calibration is not None and "range.overlap" in calibration.error
        return weather_validity(self.model, maker=self.config.maker, calibrated=calibrated)

    def max_range(self, reflectance: float = 0.9) -> float:
        """Longest range [m] at which a Lambertian target facing the sensor is detected in clear air."""
        return max_range(self.config, reflectance)

    def shots(self, time: float = 0.0) -> ShotTable:
        """Table of shots of the scan that starts at `time` [s]."""
        table = self._table  # another thread may request another time meanwhile
        if table is None or not self._repeats:
            start = 0.0 if self._repeats else float(time)
            self._table = table = shot_table(self.config.pattern, frame_start_s=start, **self._pattern_options)
        return table

    scan = FrameSensor[LidarConfig, Scan].measure
    """Measure one scan; alias of `measure`."""

    def scan_many(
        self,
        world: World,
        poses: Iterable[Pose | Trajectory],
        *,
        time: float | Sequence[float] = 0.0,
        seed: int = 0,
        frames: Sequence[int] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Scan]:
        """Measure many scans in few launches, one per pose or trajectory; each equals the result of `scan` alone.

        Scans of equal time and pose differ in their noise; the first of them equals `scan`. `progress` is called after
        each launch with the number of finished scans and of all.
        """
        motions, times = _motions(poses, time, frames)
        streams, true = self._numbered(motions, times, seed, frames), [self._true_motion(one) for one in motions]
        return [self._faulty(scan, seed) for scan in self._scans(world, true, times, seed, streams, progress)]

    def scan_iter(
        self,
        world: World,
        poses: Iterable[Pose | Trajectory],
        *,
        time: float | Sequence[float] = 0.0,
        seed: int = 0,
        frames: Sequence[int] | None = None,
        at_once: int = 16,
    ) -> Iterator[Scan]:
        """Yield the scans of `scan_many` one after the other, so that only `at_once` of them are in memory.

        Edits of the world in between apply to scans that are not measured yet.

        >>> world = ph.World()
        >>> _ = world.add(ph.shapes.box(2, 2, 2), material="concrete", pose=ph.Pose(xyz=(5, 0, 0)))
        >>> lidar = ph.Lidar("velodyne/vlp-16")
        >>> sum(1 for scan in lidar.scan_iter(world, [ph.Pose()] * 3) if len(scan))
        3
        """
        if at_once < 1:
            raise ConfigError(f"at_once: must be at least 1, got {at_once}")
        motions, times = _motions(poses, time, frames)
        streams = self._numbered(motions, times, seed, frames)
        true = [self._true_motion(one) for one in motions]
        for first in range(0, len(motions), at_once):
            part = slice(first, first + at_once)
            for scan in self._scans(world, true[part], times[part], seed, streams[part]):
                yield self._faulty(scan, seed)

    @locked
    def scan_tensors(
        self,
        world: World,
        poses: Iterable[Pose | Trajectory],
        *,
        time: float | Sequence[float] = 0.0,
        seed: int = 0,
        frames: Sequence[int] | None = None,
        fields: Sequence[str] = DEFAULT_TENSORS,
    ) -> list[ScanTensors]:
        """Measure the scans of `scan_many` as arrays that stay on the engine's device, several scans per item."""
        if self.faults is not None:
            raise ConfigError("scan_tensors: has no faults of sensors; use scan, scan_many or scan_iter")
        motions, times = _motions(poses, time, frames)
        wanted = chosen_fields(fields)
        if self.interferers or self.sun_in_view or (self.window is not None and self.window.near_returns):
            # These replace points after the measurement, on the host.
            checked_world(world)
            scans = self._scans(world, motions, times, seed, self._numbered(motions, times, seed, frames))
            return [tensors_from(self._target(world).engine, scans, wanted)]
        return [
            self._device(launch.target).tensors(launch, wanted)
            for launch in self._launches(world, motions, times, self._numbered(motions, times, seed, frames))
        ]

    def fit(self, world: World, recording: Scan, *, pose: Pose | None = None) -> LidarFit:
        """Fit the pose of this sensor in `world`, and the reflectances of its materials, to a recorded scan.

        `pose` is a guess, off by at most a few decimetres and degrees; by default it is the world's viewpoint.
        """
        from parhelion.sensors.optics.lidar.fit import fit

        return fit(self, world, recording, pose=pose)

    @property
    def frame_duration_s(self) -> float:
        """Time [s] from a scan's start to its last shot."""
        return float(self.shots(0.0).time.max(initial=0.0))

    @locked
    def waveform(
        self,
        world: World,
        shots: Sequence[int],
        *,
        pose: Pose | None = None,
        trajectory: Trajectory | None = None,
        mount: Pose | None = None,
        time: float = 0.0,
        seed: int = 0,
        frame: int | None = None,
        bin_size_m: float = 0.15,
        range_m: tuple[float, float] | None = None,
    ) -> Waveform:
        """Digitised signal of selected shots (rows of the table of shots), with all sub-rays traced."""
        motion, start = motion_of(checked_world(world), None, pose, trajectory, mount), finite_time(time)
        with world.edits():
            cell = cell_around(place_at(motion, start))
            target, weather = self._target(world, cell), world.weather
        stream = self._stream(seed, motion, start, frame)
        launch = Launch(target, weather, self.shots(start), [motion], [start], [stream])
        return self._device(target).waveform(launch, np.asarray(shots), bin_size_m, range_m)

    def _measure(self, world: World, motion: Trajectory, start: float, seed: int, stream: Stream) -> Scan:
        return self._scans(world, [motion], [start], seed, [stream])[0]

    def _numbered(
        self, motions: list[Trajectory], times: list[float], seed: int, frames: Sequence[int] | None
    ) -> list[Stream]:
        """Random stream of each scan.

        Without frame numbers, a scan of the same time and pose as an earlier one gets other noise than that.
        """
        streams, seen = [], Counter[int]()
        for i, (motion, start) in enumerate(zip(motions, times, strict=True)):
            stream = self._stream(seed, motion, start, None if frames is None else frames[i])
            if frames is None:
                repeats, number = seen[stream.number], stream.number
                seen[number] += 1
                if repeats:
                    stream = replace(stream, number=repeated(number, repeats))
            streams.append(stream)
        return streams

    @locked
    def _scans(
        self,
        world: World,
        motions: list[Trajectory],
        times: list[float],
        seed: int,
        streams: list[Stream],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Scan]:
        scans: list[Scan] = []
        for launch in self._launches(world, motions, times, streams):
            metadata = [
                {
                    "sensor": self.model,
                    "maker": self.config.maker,
                    "product": self.config.name,
                    "seed": int(seed),
                    "time": start,
                    "rate_hz": self.rate_hz,
                    "returns": self.config.receiver.returns,
                    "sampling": self.sampling,
                    "world": world.name,
                }
                for start in launch.times
            ]
            measured = self._device(launch.target).scan(launch, metadata)
            if self.interferers:
                measured = [with_interference(scan, self, world) for scan in measured]
            if self.sun_in_view:
                pairs = zip(measured, launch.streams, strict=True)
                measured = [with_sunlight(scan, self, world, stream) for scan, stream in pairs]
            scans += measured
            if progress is not None:
                progress(len(scans), len(motions))
        return scans

    def _launches(
        self, world: World, motions: list[Trajectory], times: list[float], streams: list[Stream]
    ) -> Iterator[Launch]:
        """Launches that measure a world from these motions, in order. Scans share launches where possible."""
        checked_world(world)
        places = [place_at(motion, start) for motion, start in zip(motions, times, strict=True)]
        with ExitStack() as unchanged:
            # All scans see one state of the world: edits by other threads take effect before or after, not in between.
            unchanged.enter_context(world.edits())
            weather = world.weather
            # Weather that changes is prepared for one time.
            same_air = (weather is None or weather.is_constant) and self.window is None
            cells = list(runs(places))
            for rows, cell in cells:
                target = self._target(world, cell)
                if len(cells) == 1:
                    unchanged.close()  # the target is a copy
                device = self._device(target)
                # Patterns that do not repeat have the same number of shots at any time, so the last table suffices.
                shots = len(self.shots() if self._table is None else self._table)
                some, their = motions[rows], times[rows]
                for batch in device.batches(target, some, their, shots=shots, same_shots=self._repeats and same_air):
                    part = slice(*batch)
                    table = self.shots(their[batch[0]])
                    yield Launch(target, weather, table, some[part], their[part], streams[rows][part])

    def _target(self, world: World, cell: Cell | None = None) -> LightScene:
        kind, *names = self.visibility_keys
        return light_scene(world, kind, names=tuple(names), wavelength_nm=self.config.wavelength_nm, cell=cell)

    def _device(self, target: LightScene) -> LidarOnDevice:
        if self._on_device is None:
            self._on_device = LidarOnDevice(target.engine, self)
        return self._on_device

    def __repr__(self) -> str:
        return f"<Lidar {self.model}: {len(self.shots())} shots per scan at {self.rate_hz:g} Hz>"


def _motions(
    poses: Iterable[Pose | Trajectory], time: float | Sequence[float], frames: Sequence[int] | None
) -> tuple[list[Trajectory], list[float]]:
    """Motion of the sensor in each scan, and start time of each scan."""
    motions: list[Trajectory] = [Fixed(p) if isinstance(p, Pose) else p for p in poses]
    for row, motion in enumerate(motions):
        if not isinstance(motion, Trajectory):
            raise ConfigError(f"poses[{row}]: must be a Pose or a trajectory, got {type(motion).__name__}")
    times = _one_per_scan(time, len(motions))
    if frames is not None and len(frames) != len(motions):
        raise ConfigError(f"frames: {len(frames)} numbers for {len(motions)} scans")
    return motions, [finite_time(t) for t in times]


def _one_per_scan(time: float | Sequence[float], count: int) -> list[float]:
    try:
        times = np.asarray(time, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"time: must be one number [s] or one per scan, got {time!r}") from None
    if times.ndim > 1 or (times.ndim == 1 and len(times) != count):
        raise ConfigError(f"time: got {len(times)} times for {count} scans; pass one, or one per scan")
    return [float(one) for one in np.broadcast_to(times, (count,))]


def _not_offered(config: LidarConfig, returns: str | None) -> str:
    """Sentence on a return mode that the data sheet does not list."""
    receiver = config.receiver
    offered = list(dict.fromkeys([receiver.returns, *receiver.returns_offered]))
    if returns is None or returns in offered:
        return ""
    return (
        f"{config.name} does not offer the return mode {returns!r}, only {', '.join(offered)}; points are those of a "
        "receiver that does"
    )


def _chosen(
    config: LidarConfig, *, returns: ReturnMode | None, max_returns: int | None, sub_rays: int | None
) -> LidarConfig:
    """Data sheet with the user's choices, validated again."""
    from parhelion.core.config import parse

    receiver = {"returns": returns, "max_returns": max_returns}
    changes = {
        "receiver": {k: v for k, v in receiver.items() if v is not None},
        "beam": {"sub_rays": sub_rays} if sub_rays is not None else {},
    }
    if not any(changes.values()):
        return config
    data = config.model_dump(mode="python")
    for section, values in changes.items():
        data[section].update(values)
    return parse(LidarConfig, data, config.name)
