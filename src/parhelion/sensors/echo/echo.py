"""The pulse-echo sensor: emit, cast, bounce, gather echoes, hear them."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.config import parse
from parhelion.core.echo import EchoScan, EchoWaveform
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.random import Stream, number_of, to_normal, to_unit
from parhelion.core.records import ORIGINS
from parhelion.core.trajectory import Fixed, Trajectory, pose_at
from parhelion.rays.device import engine
from parhelion.rays.middle import cell_of
from parhelion.rays.turns import in_turn
from parhelion.sensors.echo.config import EchoConfig, Transducer, load_echo_config
from parhelion.sensors.echo.materials import table
from parhelion.sensors.frame import finite_time, motion_of, own_name
from parhelion.sensors.waves.motion import Moves
from parhelion.sensors.waves.paths import Paths, trace_paths
from parhelion.sensors.waves.shoot import Emission, Pattern
from parhelion.sensors.waves.target import WaveTarget, wave_target
from parhelion.world.world import World

Floats = NDArray[np.float64]

_FAINT_DB = 20.0
"""Single rays may lie this far below the noise: many of them make an echo."""
_LEADING = 0.1
"""An echo begins with the first of its rays that has this share of its strongest."""

_FINER = 8
"""Echoes are placed on a grid so much finer than the samples."""


class Echo:
    """A pulse-echo sensor by preset name, YAML file or configuration: sound in air or in water.

        echoes = Echo("generic/ultrasonic-ranger").ping(world, pose=Pose(xyz=(0, 0, 0.5)), seed=7)
        echoes.nearest, echoes.range, echoes.attenuation, echoes.label

    `waveform=True` gives what each microphone hears; `rays` and `bounces` say how finely the world is sampled;
    `noise=False` is a receiver without noise; `name` tells this one from others of its model.
    """

    def __init__(
        self,
        model: str | PathLike[str] | EchoConfig,
        *,
        rate_hz: float | None = None,
        rays: int | None = None,
        bounces: int | None = None,
        waveform: bool = False,
        noise: bool = True,
        name: str = "",
    ) -> None:
        if isinstance(model, EchoConfig):
            config, self.model = model, model.name
        elif isinstance(model, (str, PathLike)):
            config = load_echo_config(model)
            self.model = config.name if Path(model).suffix.lower() in (".yaml", ".yml") else str(model).lower()
        else:
            kind = type(model).__name__
            raise ConfigError(f"echo: give the name of a preset, a YAML file or an EchoConfig, got {kind}")
        if rate_hz is not None or rays is not None or bounces is not None:
            data = config.model_dump(mode="python")
            data["rate_hz"] = config.rate_hz if rate_hz is None else rate_hz
            data["field"] |= {k: v for k, v in {"rays": rays, "bounces": bounces}.items() if v is not None}
            config = parse(EchoConfig, data, config.name)
        self.config, self.rate_hz = config, config.rate_hz
        self.waveform, self.noise, self.name = waveform, noise, name

    @property
    def _identity(self) -> str:
        return self.model + (f"/{self.name}" if self.name else "")

    @property
    def known_as(self) -> tuple[str, ...]:
        """Names that objects may be hidden from: its kind, model and name, and one that no other sensor can have."""
        return ("echo", self.model, *((self.name, own_name(self.name)) if self.name else ()))

    @property
    def frame_duration_s(self) -> float:
        """Time [s] from the pulse to the end of the farthest echo."""
        return self.config.listening_s

    def ping(
        self,
        world: World,
        *,
        pose: Pose | None = None,
        trajectory: Trajectory | None = None,
        mount: Pose | None = None,
        time: float = 0.0,
        seed: int = 0,
        frame: int | None = None,
    ) -> EchoScan:
        """One ping from a standing (`pose`) or moving (`trajectory`) place, by default the world's viewpoint.

        The sensor looks along x; `mount` is its pose on the moving body. The pulse is sent at `time` [s] on the world's
        clock, and the world stands still until its echoes are back.
        """
        if not isinstance(world, World):
            raise ConfigError(f"world: expected a parhelion World, got {type(world).__name__}")
        return self._ping(world, motion_of(world, pose, trajectory, mount), finite_time(time), seed, frame)

    def measure(self, world: World, motion: Trajectory, time: float, seed: int, frame: int | None = None) -> EchoScan:
        """The contract of every frame sensor: one measurement of a world from a motion."""
        return self.ping(world, trajectory=motion, time=time, seed=seed, frame=frame)

    def _trace(self, world: World, motion: Trajectory, place: Pose, start: float) -> tuple[Paths, WaveTarget]:
        config, running = self.config, engine()
        medium = config.medium
        with world.edits():
            cell = cell_of(world.geometry(*self.known_as), place.xyz)
            wave = ("sound", medium.kind, config.wavelength_m)
            target = wave_target(
                world, self.known_as, lambda names: table(names, medium.kind), wave, config.wavelength_m, cell
            )
        scene = target.scene
        if scene.changes:
            scene.set_window(start, 1e-3, place.xyz)
        rays = config.field
        wide, high = (edges[1] - edges[0] for edges in (rays.azimuth_deg, rays.elevation_deg))
        columns = max(1, round(np.sqrt(rays.rays * wide / high)))
        rows = max(1, round(rays.rays / columns))
        number = running.number
        # Strength at which a single ray, at 1 m, is as faint as is still followed.
        floor = config.noise_level_db - config.processing_gain_db
        faint = 10.0 ** (0.1 * (floor - _FAINT_DB - config.source_level_db)) * 4.0 * np.pi
        loss = medium.absorption_db_per_m(1e3 * config.frequency_khz) * 0.1 * np.log(10.0)
        emission = Emission(
            rays.bounces, False, scene.moving is not None, running.whole(rows), number(np.radians(rays.azimuth_deg[0])),
            number(np.radians(wide) / columns), number(np.radians(rays.elevation_deg[0])),
            number(np.radians(high) / rows), number(0.0), number(0.0), _pattern(config.emitter),
            _pattern(config.receiver), number(config.wavelength_m), number(1.5 * config.range_m[1]),
            number(2.0 * config.range_m[0]), number(2.0 * config.range_m[1]), number(faint), number(loss),
        )  # fmt: skip
        moves = Moves.of(running, scene, motion, start, 1e-3)
        return trace_paths(running, target, emission, moves, scene.for_kernels(), columns * rows), target

    @in_turn
    def _ping(self, world: World, motion: Trajectory, start: float, seed: int, frame: int | None) -> EchoScan:
        config = self.config
        place = motion.pose if isinstance(motion, Fixed) else pose_at(motion, start)
        stream = Stream(seed, f"echo/{self._identity}", number_of(start, place) if frame is None else frame)
        paths, target = self._trace(world, motion, place, start)
        found = _gathered(paths, config)
        level = config.source_level_db + 10.0 * np.log10(found["power"] / (4.0 * np.pi))
        floor = config.noise_level_db - config.processing_gain_db
        if self.noise and len(level):
            level = level + _noise_db(level - floor, stream)
        snr = level - floor
        row = found["row"]
        loud = np.flatnonzero(snr >= config.threshold_db)
        loud = loud[np.lexsort((loud, found["length"][loud]))]
        row, length = row[loud], found["length"][loud]
        direction = paths.direction[row].astype(np.float64)
        bounces = paths.bounces[row]
        half = 0.5 * length
        fields: dict[str, NDArray[Any]] = {
            "range": half.astype(np.float32),
            "azimuth": np.arctan2(direction[:, 1], direction[:, 0]).astype(np.float32),
            "elevation": np.arcsin(np.clip(direction[:, 2], -1.0, 1.0)).astype(np.float32),
            "path_length": length.astype(np.float32),
            "attenuation": (config.source_level_db - level[loud]).astype(np.float32),
            "snr": snr[loud].astype(np.float32), "bounces": bounces,
            "time": (length / config.medium.speed_m_s).astype(np.float32),
            "label": _of(target.part_label, paths.part[row]), "instance": _of(target.part_instance, paths.part[row]),
            "origin": np.where(bounces > 1, ORIGINS.index("multipath"), 0).astype(np.uint8),
        }  # fmt: skip
        names = {"label": target.label_names, "origin": dict(enumerate(ORIGINS))}
        facts = {"sensor": self.model, "world": world.name, "seed": int(seed), "time": start}
        heard = self._heard(paths, found, stream) if self.waveform else None
        nearest = float(half.min(initial=np.inf))
        if self.noise and np.isfinite(nearest):
            # The first passage of a threshold moves by the resolution over twice the amplitude's signal over noise.
            a, b, _, _ = stream.words(np.array([0], np.uint32), 7)
            spread = config.range_step_m / (2.0 * 10.0 ** (snr[loud[0]] / 20.0))
            nearest += float(to_normal(a, b)[0][0]) * spread
        return EchoScan(
            (direction * half[:, None]).astype(np.float32), fields, "sensor", names, facts, waveform=heard, pose=place,
            start_time=start, duration=config.listening_s, nearest=nearest,
        )  # fmt: skip

    def _heard(self, paths: Paths, found: dict[str, NDArray[Any]], stream: Stream) -> EchoWaveform:
        """Pressure at each microphone: every echo as a pulse of its own delay, and noise."""
        config = self.config
        rate, speed = config.sampling_hz, config.medium.speed_m_s
        microphones = np.asarray(config.microphones_mm, np.float64) * 1e-3
        count = int(np.ceil(config.listening_s * rate)) + 1
        samples = np.zeros((len(microphones), count))
        row = found["row"]
        direction, distance = paths.direction[row].astype(np.float64), paths.distance[row].astype(np.float64)
        last = direction * np.minimum(distance, 0.5 * found["length"])[:, None]
        there = found["length"] - np.linalg.norm(last, axis=1)
        pressure = config.medium.reference_pa * 10.0 ** (config.source_level_db / 20.0)
        amplitude = np.sqrt(2.0) * pressure * np.sqrt(found["power"] / (4.0 * np.pi))
        # The sign of a rough surface's echo belongs to the surface: it does not change from ping to ping.
        turn = to_unit(Stream(0, "echo/patch-phase").words(paths.patch[row])[0]) / (1e3 * config.frequency_khz)
        # Echoes as spikes on a finer grid, each shared between two steps, and then one convolution with the pulse.
        fine = rate * _FINER
        steps = count * _FINER
        pulse = config.pulse_at(np.arange(int(np.ceil(1e-3 * config.pulse.duration_ms * fine)) + 1) / fine)
        spectrum = np.fft.rfft(pulse, 2 * steps)
        for number, microphone in enumerate(microphones):
            delay = (there + np.linalg.norm(last - microphone, axis=1)) / speed + turn
            at = delay * fine
            below = np.minimum(np.floor(at).astype(np.int64), steps - 2)
            share = at - below
            spikes = np.bincount(below, amplitude * (1.0 - share), steps) + np.bincount(
                below + 1, amplitude * share, steps
            )
            samples[number] = np.fft.irfft(np.fft.rfft(spikes, 2 * steps) * spectrum)[:steps:_FINER]
        if self.noise:
            level = config.medium.reference_pa * 10.0 ** (config.noise_level_db / 20.0)
            a, b, _, _ = stream.words(np.arange(samples.size), 1)
            samples += level * to_normal(a, b)[0].reshape(samples.shape)
        return EchoWaveform(samples.astype(np.float32), rate, microphones)

    def __repr__(self) -> str:
        config = self.config
        low, high = config.range_m
        return f"<Echo {self.model}: {config.frequency_khz:g} kHz in {config.medium.kind}, {low:g} to {high:g} m>"


def _pattern(transducer: Transducer) -> Pattern:
    number = engine().number
    across, upward = (
        2.0 * np.sin(np.radians(width / 2.0))
        for width in (transducer.azimuth_width_deg, transducer.elevation_width_deg)
    )
    return Pattern(number(across), number(upward), number(10.0 ** (transducer.sidelobe_db / 10.0)))


def _gathered(paths: Paths, config: EchoConfig) -> dict[str, NDArray[Any]]:
    """Echoes: rays of one range cell, beam, part and kind of path, added by power.

    power: over that of the source at 1 m, times 4 pi; length of the way there and back [m]; row of the strongest path.
    """
    length = paths.length.astype(np.float64)
    power = paths.cross_section / (0.5 * length) ** 4
    direction = paths.direction.astype(np.float64)
    keys = []
    for value, edges, count in (
        (np.degrees(np.arctan2(direction[:, 1], direction[:, 0])), config.field.azimuth_deg, config.beams[0]),
        (np.degrees(np.arcsin(np.clip(direction[:, 2], -1, 1))), config.field.elevation_deg, config.beams[1]),
    ):
        share = (value - edges[0]) / (edges[1] - edges[0])
        keys.append(np.clip(np.floor(share * count), 0, count - 1).astype(np.int64))
    cell = np.floor(0.5 * length / config.range_step_m).astype(np.int64)
    patch = paths.patch.astype(np.int64) * 8 + paths.bounces
    order = np.lexsort((np.arange(len(paths)), patch, cell, keys[1], keys[0]))
    if not len(order):
        empty = np.zeros(0)
        return {"power": empty, "length": empty, "row": np.zeros(0, np.int64)}
    stacked = np.stack([keys[0], keys[1], cell, patch])[:, order]
    begins = np.flatnonzero(np.r_[True, np.any(np.diff(stacked, axis=1) != 0, axis=0)])
    group = np.repeat(np.arange(len(begins)), np.diff(np.r_[begins, len(order)]))
    strong = np.lexsort((-power[order], group))[begins]
    row = order[strong]
    leads = power[order] >= _LEADING * power[row][group]
    first = np.minimum.reduceat(np.where(leads, length[order], np.inf), begins)
    return {"power": np.add.reduceat(power[order], begins), "length": first, "row": row}


def _noise_db(snr_db: Floats, stream: Stream) -> Floats:
    """How much noise changes the level of echoes [dB]: a normal number of the noise's size on their amplitude."""
    a, b, _, _ = stream.words(np.arange(len(snr_db)))
    amplitude = 1.0 + to_normal(a, b)[0] * 10.0 ** (-np.asarray(snr_db) / 20.0) / np.sqrt(2.0)
    return np.asarray(20.0 * np.log10(np.maximum(np.abs(amplitude), 1e-3)))


def _of(values: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    return values[rows] if len(values) else np.zeros(len(rows), values.dtype)
