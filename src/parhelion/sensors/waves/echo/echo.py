"""Pulse-echo sensor: emit, cast, bounce, group echoes, detect."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import FIELDS, ORIGINS
from parhelion.core.config import parse
from parhelion.core.errors import ConfigError
from parhelion.core.frames import ECHO_ORIGINS, SOUND, EchoScan, EchoWaveform
from parhelion.core.pose import Pose
from parhelion.core.random import Stream, to_normal, to_unit
from parhelion.core.trajectory import Trajectory
from parhelion.rays.device import engine
from parhelion.rays.lock import locked
from parhelion.rays.origin import cell_around
from parhelion.sensors.base import FrameSensor, place_of
from parhelion.sensors.sheets import open_sheet
from parhelion.sensors.waves.bounce import BouncePaths, Emission, Pattern, trace_paths
from parhelion.sensors.waves.echo import passive
from parhelion.sensors.waves.echo.config import EchoConfig, Ranger
from parhelion.sensors.waves.echo.sound import scatters, table
from parhelion.sensors.waves.motion import Moves
from parhelion.sensors.waves.scene import WaveScene, taken, wave_scene
from parhelion.weather.weather import Weather
from parhelion.world.world import World

# ---- Echoes from ray paths, and the pressure at the microphones -----------------------------------------------------


_LEADING = 0.1
"""An echo starts with its first ray whose power is at least this fraction of the strongest."""

_FINER = 8
"""Oversampling factor of the grid on which echoes are placed."""


def grouped(paths: BouncePaths, config: EchoConfig) -> dict[str, NDArray[Any]]:
    """Group rays of one range cell and beam into echoes and sum their power.

    The receiver cannot separate them, so an echo does not depend on how a surface is divided into triangles.

    Columns: power relative to the source at 1 m, times 4 pi; two-way path length [m]; row of the strongest path.
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
    beam = keys[0] * config.beams[1] + keys[1]
    order = np.lexsort((np.arange(len(paths)), length, beam))
    if not len(order):
        empty = np.zeros(0)
        return {"power": empty, "length": empty, "row": np.zeros(0, np.int64)}
    cell = _cells(beam[order], 0.5 * length[order], power[order], config.range_step_m)
    begins = np.flatnonzero(np.r_[True, (np.diff(beam[order]) != 0) | (np.diff(cell) != 0)])
    group = np.repeat(np.arange(len(begins)), np.diff(np.r_[begins, len(order)]))
    strong = np.lexsort((-power[order], group))[begins]
    row = order[strong]
    leads = power[order] >= _LEADING * power[row][group]
    first = np.minimum.reduceat(np.where(leads, length[order], np.inf), begins)
    return {"power": np.add.reduceat(power[order], begins), "length": first, "row": row}


def _cells(
    beam: NDArray[np.int64], range_m: NDArray[np.float64], power: NDArray[np.float64], step_m: float
) -> NDArray[np.int64]:
    """Number of the range cell of each ray; rays are sorted by beam and range.

    The grid of each beam begins where one cell holds the most power, so that the strongest echo is not split.
    """
    reach = float(range_m.max()) + 2.0 * step_m
    along = beam * reach + range_m
    total = np.concatenate([[0.0], np.cumsum(power)])
    inside = total[np.searchsorted(along, along + step_m)] - total[:-1]
    begins = np.flatnonzero(np.r_[True, np.diff(beam) != 0])
    group = np.repeat(np.arange(len(begins)), np.diff(np.r_[begins, len(beam)]))
    best = np.lexsort((-inside, group))[begins]
    return np.asarray(np.floor((range_m - range_m[best][group]) / step_m + 1e-9).astype(np.int64))


def speckle(place: NDArray[np.float64], cell_m: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Power factors and phases [cycles] of echoes from rough surfaces at positions (n, 3) [m] in the world.

    Many scatterers in a range cell sum to a circular normal number: its power is exponential with mean 1 and its phase
    is uniform (Goodman 1975, in Laser Speckle, chapter 2). The values depend on the position only, so the speckle is
    constant while sensor and surface stay still. It decorrelates over `cell_m`, half the receiver aperture.
    """
    cell = np.floor(np.asarray(place, np.float64) / cell_m).astype(np.int64)
    mixed = (cell[:, 0] * 73_856_093) ^ (cell[:, 1] * 19_349_663) ^ (cell[:, 2] * 83_492_791)
    a, b, _, _ = Stream(0, "echo/speckle").words((mixed & 0xFFFFFFFF).astype(np.uint32))
    return -np.log(np.maximum(1.0 - to_unit(a), 1e-9)), np.asarray(to_unit(b), np.float64)


def speckled(
    found: dict[str, NDArray[Any]], paths: BouncePaths, rough: NDArray[np.bool_], place: Pose, config: EchoConfig
) -> dict[str, NDArray[Any]]:
    """Echoes with the speckle of their surfaces; `rough` is True for paths whose last surface scatters."""
    row = found["row"]
    power, phase = np.ones(len(row)), np.zeros(len(row))
    some = np.flatnonzero(rough[row])
    if len(some):
        last = paths.direction[row[some]].astype(np.float64) * paths.distance[row[some], None]
        half_aperture = config.wavelength_m / (2.0 * min(config.receiver.shape[:2]))
        power[some], phase[some] = speckle(place.apply(last), half_aperture)
    return {**found, "power": found["power"] * power, "phase": phase}


def echo_pressures(
    paths: BouncePaths, found: dict[str, NDArray[Any]], config: EchoConfig, count: int
) -> NDArray[np.float64]:
    """Pressure [Pa] of all echoes at each microphone, shape (microphones, count)."""
    from scipy.fft import irfft, next_fast_len, rfft

    rate, speed = config.sampling_hz, config.medium.speed_m_s
    microphones = np.asarray(config.microphones_mm, np.float64) * 1e-3
    samples = np.zeros((len(microphones), count))
    row = found["row"]
    direction, distance = paths.direction[row].astype(np.float64), paths.distance[row].astype(np.float64)
    last = direction * np.minimum(distance, 0.5 * found["length"])[:, None]
    there = found["length"] - np.linalg.norm(last, axis=1)
    pressure = config.medium.reference_pa * 10.0 ** (config.source_level_db / 20.0)
    amplitude = np.sqrt(2.0) * pressure * np.sqrt(found["power"] / (4.0 * np.pi))
    phase_delay = found["phase"] / (1e3 * config.frequency_khz)
    # Place echoes as impulses on a finer grid, split between two steps, and convolve once with the pulse.
    fine = rate * _FINER
    steps = count * _FINER
    pulse = config.pulse_at(np.arange(int(np.ceil(1e-3 * config.pulse.duration_ms * fine)) + 1) / fine)
    size = int(next_fast_len(steps + len(pulse), real=True))
    spectrum = rfft(pulse, size)
    for number, microphone in enumerate(microphones):
        delay = (there + np.linalg.norm(last - microphone, axis=1)) / speed + phase_delay
        at = delay * fine
        below = np.minimum(np.floor(at).astype(np.int64), steps - 2)
        share = at - below
        spikes = np.bincount(below, amplitude * (1.0 - share), steps) + np.bincount(below + 1, amplitude * share, steps)
        samples[number] = irfft(rfft(spikes, size) * spectrum, size)[:steps:_FINER]
    return samples


# ---- echo -----------------------------------------------------------------------------------------------------------


Floats = NDArray[np.float64]

COMPENSATED_PERIODS = 2
"""Periods that a ranger subtracts from the crossing of its threshold: those of a strong echo."""
_FAINT_DB = 20.0
"""Margin below the noise down to which single rays are followed, because many of them form one echo."""
_FIELDS = (
    "range",
    "azimuth",
    "elevation",
    "path_length",
    "attenuation",
    "snr",
    "bounces",
    "time",
    "label",
    "instance",
    "origin",
    "source",
)


class Echo(FrameSensor[EchoConfig, EchoScan]):
    """Pulse-echo sensor for sound in air or in water. It points along x.

    >>> import parhelion as ph
    >>> world = ph.World()
    >>> wall = world.add(ph.shapes.board(2, 2), material="concrete", pose=ph.Pose(xyz=(2, 0, 0.5)))
    >>> echoes = ph.Echo("generic/ultrasonic-ranger", noise=False).ping(world, pose=ph.Pose(xyz=(0, 0, 0.5)))
    >>> round(echoes.nearest, 1)
    2.0

    The world is static from the emission of the pulse to the reception of its echoes.

    Args:
        model: Preset name, YAML file or `EchoConfig`.
        name: Name that distinguishes sensors of the same model; each name has its own noise.
        rate_hz: Pings per second; the default comes from the data sheet.
        noise: False removes receiver noise.
        rays: Number of rays that sample the world.
        bounces: Maximum number of reflections per ray.
        waveform: True adds the pressure at each microphone.
        mode: "active" (echoes of its own pulse), "passive" (sounds of the world) or "both".
        sounds: Names of the sounds to receive; all by default.
    """

    kind = "echo"

    def __init__(
        self,
        model: str | PathLike[str] | EchoConfig,
        *,
        name: str = "",
        rate_hz: float | None = None,
        noise: bool = True,
        rays: int | None = None,
        bounces: int | None = None,
        waveform: bool = False,
        mode: str | None = None,
        sounds: Sequence[str] | None = None,
    ) -> None:
        sheet = open_sheet("echo", EchoConfig, model)
        config = sheet.config
        if any(one is not None for one in (rate_hz, rays, bounces, mode)):
            data = config.model_dump(mode="python")
            data["rate_hz"] = config.rate_hz if rate_hz is None else rate_hz
            data["mode"] = config.mode if mode is None else mode
            data["field"] |= {k: v for k, v in {"rays": rays, "bounces": bounces}.items() if v is not None}
            config = parse(EchoConfig, data, config.name)
        super().__init__(config, sheet.name, name=name, rate_hz=config.rate_hz, noise=noise)
        self.waveform = waveform
        if isinstance(sounds, str) or (sounds is not None and not all(isinstance(one, str) for one in sounds)):
            raise ConfigError(f"sounds: give a list of names, got {sounds!r}")
        if sounds is not None and config.mode == "active":
            raise ConfigError("sounds: an active sensor receives no sounds of the world; set mode to passive or both")
        self.sounds = None if sounds is None else tuple(sounds)

    def check_world(self, world: World) -> None:
        """Raise ConfigError if `sounds` names a sound that the world does not have."""
        passive.chosen_sounds(world, self.sounds)

    @property
    def frame_duration_s(self) -> float:
        """Time [s] from the pulse to the end of the farthest echo."""
        return self.config.listening_s

    ping = FrameSensor[EchoConfig, EchoScan].measure
    """Measure one ping; alias of `measure`."""

    def _target(self, world: World, place: Pose, start: float, config: EchoConfig) -> WaveScene:
        medium = config.medium
        with world.edits():
            cell = cell_around(place.xyz)
            wave = ("sound", medium.kind, config.wavelength_m)
            target = wave_scene(
                world, self.visibility_keys, lambda names: table(names, medium.kind), wave, config.wavelength_m, cell
            )
        if target.scene.changes:
            target.scene.set_window(start, 1e-3, place.xyz)
        return target

    def _trace(
        self, target: WaveScene, motion: Trajectory, start: float, weather: Weather | None, config: EchoConfig
    ) -> BouncePaths:
        running, scene = engine(), target.scene
        rays = config.field
        columns, rows = rays.grid
        number = running.number
        # Lowest strength, referred to 1 m, at which a single ray is followed.
        floor = config.noise_db - config.processing_gain_db
        faint = 10.0 ** (0.1 * (floor - _FAINT_DB - config.source_level_db)) * 4.0 * np.pi
        hertz = 1e3 * config.frequency_khz
        in_air = 0.0 if weather is None or config.medium.kind != "air" else weather.sound(start, hertz)
        loss = (config.medium.absorption_db_per_m(hertz) + in_air) * 0.1 * np.log(10.0)
        azimuth, azimuth_step, elevation, elevation_step = map(number, rays.angles_rad)
        emission = Emission(
            rays.bounces,
            False,
            scene.moving is not None,
            running.whole(rows),
            azimuth,
            azimuth_step,
            elevation,
            elevation_step,
            number(0.0),
            number(0.0),
            Pattern.of(running, config.emitter.shape),
            Pattern.of(running, config.receiver.shape),
            number(config.wavelength_m),
            number(1.5 * config.range_m[1]),
            number(2.0 * config.range_m[0]),
            number(2.0 * config.range_m[1]),
            number(faint),
            number(loss),
        )
        moves = Moves.of(running, scene, motion, start, 1e-3)
        return trace_paths(running, target, emission, moves, scene.for_kernels(), columns * rows)

    @locked
    def _measure(self, world: World, motion: Trajectory, start: float, seed: int, stream: Stream) -> EchoScan:
        config = self.config.in_weather(world.weather)
        place = place_of(motion, start)
        target = self._target(world, place, start, config)
        active = config.mode != "passive"
        paths = self._trace(target, motion, start, world.weather, config) if active else BouncePaths.none()
        rough = taken(_rough_parts(target), paths.part)
        echoes = speckled(grouped(paths, config), paths, rough, place, config)
        rows = _echo_rows(paths, echoes, target, config)
        if config is not self.config or (world.weather is not None and any(world.weather.wind_m_s)):
            _stretch(rows, self.config.medium.speed_m_s, config, place, world.weather)
        sounds = None
        if config.mode != "active":
            numbers = passive.chosen_sounds(world, self.sounds)
            sounds = passive.hear(world, self.visibility_keys, target.scene, config, motion, place, start, numbers)
            sounds = sounds.rows(sounds.level_db >= config.noise_db - _FAINT_DB)
            heard_rows = _sound_rows(world, sounds, config)
            rows = {name: np.concatenate([values, heard_rows[name]]) for name, values in rows.items()}
        if self.noise and len(rows["level"]):
            rows["level"] = rows["level"] + _noise_db(rows["level"] - rows["floor"], stream)
        snr = rows["level"] - rows["floor"]
        loud = np.flatnonzero((snr >= config.threshold_db) & _above_ringing(rows, config))
        loud = loud[np.lexsort((loud, rows["range"][loud]))]
        detected = {name: values[loud] for name, values in rows.items()}
        fields = {name: detected[name].astype(FIELDS[name].dtype) for name in _FIELDS if name in detected}
        direction = detected["direction"]
        fields |= {
            "azimuth": np.arctan2(direction[:, 1], direction[:, 0]).astype(np.float32),
            "elevation": np.arcsin(np.clip(direction[:, 2], -1.0, 1.0)).astype(np.float32),
            "attenuation": (detected["sent"] - detected["level"]).astype(np.float32),
            "snr": snr[loud].astype(np.float32),
        }
        names = {
            "label": {**target.label_names, **world.label_names},
            "origin": dict(enumerate(ECHO_ORIGINS)),
            "source": world.source_names,
        }
        metadata = {"sensor": self.model, "world": world.name, "seed": int(seed), "time": start, "mode": config.mode}
        heard = self._heard(world, paths, echoes, sounds, place, start, seed, stream, config) if self.waveform else None
        own = detected["source"] == 0
        nearest = float(detected["range"][own].min(initial=np.inf))
        if config.ranger is not None:
            nearest = self._reading(config.ranger, nearest, snr[loud][own], stream)
        elif self.noise and np.isfinite(nearest):
            # Noise shifts the threshold crossing by the range resolution over twice the amplitude SNR.
            a, b, _, _ = stream.words(np.array([0], np.uint32), 7)
            spread = config.range_step_m / (2.0 * 10.0 ** (snr[loud][own][0] / 20.0))
            nearest += float(to_normal(a, b)[0][0]) * spread
        return EchoScan(
            (direction * detected["range"][:, None]).astype(np.float32),
            {name: fields[name] for name in _FIELDS},
            "sensor",
            names,
            metadata,
            waveform=heard,
            pose=place,
            start_time=start,
            duration=config.listening_s,
            nearest=nearest,
        )

    def _reading(self, ranger: Ranger, nearest: float, snr_db: Floats, stream: Stream) -> float:
        """Range [m] at which the comparator trips; infinite without an echo.

        Emitter, receiver and filter are three resonators, so the envelope of an echo rises as
        1 - (1 + x + x^2/2) exp(-x), x the time over the rise time. The comparator trips at the first crest of the
        carrier above the threshold: a reading is late by whole periods, each half a wavelength of range.
        """
        config = self.config
        a, b, c, _ = stream.words(np.array([0, 1], np.uint32), 7)
        drawn, share = to_normal(a, b)[0], np.asarray(to_unit(c), np.float64)
        low, high = config.range_m
        if self.noise and share[0] < ranger.spurious_share:
            return float(low + (high - low) * share[1])
        if not np.isfinite(nearest):
            return nearest
        rise, hertz = 1e-3 * ranger.rise_ms, 1e3 * config.frequency_khz
        steps = np.linspace(0.0, 1e-3 * config.pulse.duration_ms / rise, 2001)
        envelope = 1.0 - (1.0 + steps + 0.5 * steps**2) * np.exp(-steps)
        jitter = 1.0 + ranger.amplitude_jitter * float(drawn[0]) if self.noise else 1.0
        needed = 10.0 ** ((config.threshold_db - float(snr_db[0])) / 20.0) / max(jitter, 1e-3)
        crossing = rise * float(np.interp(needed * envelope[-1], envelope, steps))
        late = (np.ceil(crossing * hertz) - COMPENSATED_PERIODS) / hertz
        time = 2.0 * nearest / config.medium.speed_m_s + late
        if self.noise and ranger.timer_us:
            tick = 1e-6 * ranger.timer_us
            time = np.floor(time / tick + share[1]) * tick
        return float(0.5 * time * config.medium.speed_m_s)

    def _heard(
        self,
        world: World,
        paths: BouncePaths,
        echoes: dict[str, NDArray[Any]],
        sounds: passive.Heard | None,
        place: Pose,
        start: float,
        seed: int,
        stream: Stream,
        config: EchoConfig,
    ) -> EchoWaveform:
        """Pressure at each microphone: one delayed pulse per echo, the sounds of the world, and noise."""
        rate = config.sampling_hz
        microphones = np.asarray(config.microphones_mm, np.float64) * 1e-3
        count = int(np.ceil(config.listening_s * rate)) + 1
        samples = np.zeros((len(microphones), count))
        if config.mode != "passive":
            samples += echo_pressures(paths, echoes, config, count)
        if sounds is not None and len(sounds):
            samples += passive.pressures(world, sounds, config, place, start, count, seed)
        if self.noise:
            level = config.medium.reference_pa * 10.0 ** (config.noise_db / 20.0)
            a, b, _, _ = stream.words(np.arange(samples.size), 1)
            samples += level * to_normal(a, b)[0].reshape(samples.shape)
        return EchoWaveform(samples.astype(np.float32), rate, microphones)

    def __repr__(self) -> str:
        config = self.config
        low, high = config.range_m
        return f"<Echo {self.model}: {config.frequency_khz:g} kHz in {config.medium.kind}, {low:g} to {high:g} m>"


def _echo_rows(
    paths: BouncePaths, echoes: dict[str, NDArray[Any]], target: WaveScene, config: EchoConfig
) -> dict[str, NDArray[Any]]:
    """Columns of the echoes of the own pulse."""
    row, length = echoes["row"], echoes["length"]
    bounces = paths.bounces[row]
    return {
        "level": config.source_level_db + 10.0 * np.log10(echoes["power"] / (4.0 * np.pi)),
        "floor": np.full(len(row), config.noise_db - config.processing_gain_db),
        "sent": np.full(len(row), config.source_level_db),
        "range": 0.5 * length,
        "path_length": length,
        "direction": paths.direction[row].astype(np.float64),
        "bounces": bounces,
        "time": length / config.medium.speed_m_s,
        "label": taken(target.part_label, paths.part[row]),
        "instance": taken(target.part_instance, paths.part[row]),
        "source": np.zeros(len(row), np.int64),
        "origin": np.where(bounces > 1, ORIGINS.index("multipath"), 0),
    }


def _stretch(
    rows: dict[str, NDArray[Any]], assumed_m_s: float, config: EchoConfig, place: Pose, weather: Weather | None
) -> None:
    """Change times and ranges in place for the actual speed of sound; the sensor assumes that of its data sheet.

    With the wind w, the way to a target and back takes sqrt(c^2 - w_t^2) c / (c^2 - w^2) as long, w_t across the way.
    """
    c = config.medium.speed_m_s
    factor = np.ones(len(rows["range"]))
    if config.medium.kind == "air" and weather is not None and any(weather.wind_m_s):
        wind = np.array(weather.wind_m_s) @ place.rotation
        along = rows["direction"] @ wind
        across = np.maximum(wind @ wind - along**2, 0.0)
        factor = np.sqrt(c**2 - across) * c / (c**2 - wind @ wind)
    rows["time"] = rows["time"] * factor
    for name in ("range", "path_length"):
        rows[name] = rows[name] * factor * (assumed_m_s / c)


def _above_ringing(rows: dict[str, NDArray[Any]], config: EchoConfig) -> NDArray[np.bool_]:
    """True for echoes that exceed the ringing of the emitter at their arrival."""
    if config.ranger is None:
        return np.ones(len(rows["level"]), bool)
    after_ms = 1e3 * rows["time"] + np.where(rows["source"] == 0, 0.0, np.inf)
    waited = np.maximum(after_ms - config.pulse.duration_ms, 0.0) / config.ranger.ring_decay_ms
    return np.asarray(rows["level"] > config.ranger.ring_level_db - 8.686 * waited)


def _sound_rows(world: World, heard: passive.Heard, config: EchoConfig) -> dict[str, NDArray[Any]]:
    """Columns of the sounds of the world."""
    return {
        "level": heard.level_db,
        "floor": np.full(len(heard), config.noise_db),
        "range": heard.length,
        "path_length": heard.length,
        "direction": heard.direction,
        **passive.columns_of(world, heard, config, (SOUND, ORIGINS.index("multipath"))),
    }


def _rough_parts(target: WaveScene) -> NDArray[np.bool_]:
    """True for parts with a rough surface, whose echoes have speckle."""
    names = target.material_names
    known = {row: scatters(names[int(row)]) for row in np.unique(target.part_material)}
    return np.array([known[row] for row in target.part_material], bool)


def _noise_db(snr_db: Floats, stream: Stream) -> Floats:
    """Change of echo levels by noise [dB]: a normal number with the noise amplitude is added to the echo amplitude."""
    a, b, _, _ = stream.words(np.arange(len(snr_db)))
    amplitude = 1.0 + to_normal(a, b)[0] * 10.0 ** (-np.asarray(snr_db) / 20.0) / np.sqrt(2.0)
    return np.asarray(20.0 * np.log10(np.maximum(np.abs(amplitude), 1e-3)))
