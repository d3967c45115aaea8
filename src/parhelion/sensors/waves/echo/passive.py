"""Passive listening: sounds of the world at a receiver, over direct paths and flat reflectors.

    level = SL in the band - 20 lg L - a(f) L + 10 lg (reflections) + receiver gain

A sound reaches the receiver directly if nothing blocks the line, and from its image sources behind reflectors. The
pressure at each microphone is the sound, delayed by the path from the image to that microphone, absorbed at each
frequency, and Doppler-stretched if source or receiver move.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.pose import Pose
from parhelion.core.random import Stream, to_normal
from parhelion.core.trajectory import Fixed, Trajectory, velocity_at
from parhelion.rays.scene import RayScene
from parhelion.sensors.waves.echo.config import MOST_SAMPLES, EchoConfig, SoundMedium
from parhelion.sensors.waves.echo.sound import finish_of, reflection
from parhelion.sensors.waves.mirrors import MirrorFinder, MirrorPaths, MirrorRules
from parhelion.sensors.waves.planes import PlanePatches, planes_of
from parhelion.sensors.waves.radio import plate_share
from parhelion.sensors.waves.scene import ANGLES, beam_gain
from parhelion.world.emitters import WorldSound
from parhelion.world.world import World

Floats = NDArray[np.float64]
BINS = 33
"""Number of frequencies at which the absorption of a band is evaluated."""
_ROUGHEST = 6.0
"""Squared phase of the surface height above which less than 1/400 of the power is reflected at normal incidence."""
_FINER = 8
"""Oversampling factor before Doppler stretching."""
_FASTEST = 0.9
"""Maximum speed of sources and receivers as a fraction of the speed of sound."""
RULES = MirrorRules(
    order=2, rays=16_384, lift_m=1e-3, parallel=0.9998, smallest_m2=(0.05, 0.05), layer_m=5e-3, most_tried=100_000
)
"""Search rules: rays are 1.6 degrees apart."""
_EDGE = 512
"""Number of samples before and after the recorded window, for filter transients."""


@dataclass(frozen=True, eq=False)
class Heard(Table):
    """Sounds at the receiver, one row per path; n rows."""

    sound: NDArray[np.int64]
    """Index in `world.sounds`."""
    level_db: Floats
    length: Floats
    """Path length from the sound [m]."""
    direction: Floats
    """Unit vectors towards the source, sensor frame, shape (n, 3)."""
    bounces: NDArray[np.int64]
    part: NDArray[np.int64]
    """Part of the last reflector; -1 for a direct path."""
    gain: Floats
    """Ratio of the pressure at the receiver to that at 1 m, without absorption."""
    image: Floats
    """Position of the image source, world frame [m], shape (n, 3)."""
    rates: Floats
    """Rate of change of the path length by the motion of the source and of the receiver [m/s], shape (n, 2)."""


def chosen_sounds(world: World, names: tuple[str, ...] | None) -> list[int]:
    """Indices of the sounds that a sensor receives: all, or those with the given names."""
    known = [entry.name for entry in world.sounds]
    for name in names or ():
        if name not in known:
            raise unknown_name("sound", name, known)
    return [number for number, name in enumerate(known) if names is None or name in names]


def spectrum_in(entry: WorldSound, band_hz: tuple[float, float]) -> tuple[Floats, Floats]:
    """Frequencies [Hz] and fractions of the sound power in a band; their sum is the total fraction in the band."""
    low, high = band_hz
    sound, recording = entry.sound, entry.recording
    if sound.tone_khz is not None:
        inside = low <= 1e3 * sound.tone_khz <= high
        return np.array([1e3 * sound.tone_khz]), np.array([1.0 if inside else 0.0])
    if sound.band_khz is not None:
        first, last = (1e3 * edge for edge in sound.band_khz)
        begin, end = max(low, first), min(high, last)
        edges = np.linspace(begin, max(begin, end), BINS + 1)
        return 0.5 * (edges[1:] + edges[:-1]), np.diff(edges) / (last - first)
    assert recording is not None  # the sound's validator: tone, band or recording
    power = np.abs(np.fft.rfft(recording.samples)) ** 2
    hertz = np.fft.rfftfreq(len(recording.samples), 1.0 / recording.rate_hz)
    edges = np.linspace(low, high, BINS + 1)
    share, _ = np.histogram(hertz, edges, weights=power / power.sum())
    return 0.5 * (edges[1:] + edges[:-1]), np.asarray(share, np.float64)


def hear(
    world: World,
    keys: tuple[str, ...],
    scene: RayScene,
    config: EchoConfig,
    motion: Trajectory,
    place: Pose,
    time: float,
    numbers: list[int],
) -> Heard:
    """Sounds with the given indices at the receiver."""
    planes = planes_of(world, *keys)
    rules = replace(RULES, order=config.field.bounces)
    finder = MirrorFinder(scene, planes, rules, _mirrors(world, planes, config))
    speed = np.zeros(3) if isinstance(motion, Fixed) else velocity_at(motion, time)
    found, tried = [_nothing()], None
    for number in numbers:
        entry = world.sounds[number]
        hertz, share = spectrum_in(entry, config.band_hz)
        if not share.sum() > 0.0:
            continue
        wavelength = config.medium.speed_m_s / float(np.sum(hertz * share) / share.sum())
        surfaces = _Mirrors.of(world, config.medium.kind, wavelength)
        if tried is None:
            tried = finder.search(place.xyz, time)
        source, velocity = entry.place(time)
        passes = np.asarray(world.parts.instance == entry.instance) if entry.carrier >= 0 else None
        known = finder.behind(tried, source)
        paths = finder.without_layers(finder.paths(place.xyz[None], known, np.full(1, time), passes))
        shown = finder.shown(velocity, paths)
        found.append(_levels(number, entry, paths, planes, surfaces, config, place, speed, shown, hertz, share))
    return Heard.joined(found)


def _roughness(names: list[str], wavelength_m: float) -> Floats:
    return np.array([(4.0 * np.pi * finish_of(name).height_m / wavelength_m) ** 2 for name in names])


def _mirrors(world: World, planes: PlanePatches, config: EchoConfig) -> NDArray[np.bool_]:
    """True for planes smooth enough for specular reflection at the lowest frequency of the band."""
    rough = _roughness([one.name for one in world.materials], config.medium.speed_m_s / config.band_hz[0])
    return np.asarray(rough < _ROUGHEST)[planes.material] if len(planes) else np.zeros(0, bool)


@dataclass(frozen=True, eq=False)
class _Mirrors:
    """Acoustic reflection of the planes of a world, one row per material."""

    reflection: Floats
    roughness: Floats
    """Squared phase of the surface height at normal incidence."""
    wavelength_m: float

    @classmethod
    def of(cls, world: World, medium: str, wavelength_m: float) -> _Mirrors:
        names = [material.name for material in world.materials]
        table = np.array([reflection(name, medium) for name in names]).reshape(len(names), ANGLES)
        return cls(table, _roughness(names, wavelength_m), wavelength_m)

    def amplitude(self, paths: MirrorPaths, planes: PlanePatches) -> Floats:
        """Pressure factor of all reflections of each path, shape (n,)."""
        found = np.ones(len(paths))
        for step in range(paths.mirrors.shape[1]):
            rows = np.flatnonzero(paths.mirrors[:, step] >= 0)
            patch = paths.mirrors[rows, step]
            cos, before = paths.cosine[rows, step], np.sum(paths.legs[rows, : step + 1], axis=1)
            material = planes.material[patch]
            at = np.clip(cos, 0.0, 1.0) * (self.reflection.shape[1] - 1)
            low = np.minimum(at.astype(np.int64), self.reflection.shape[1] - 2)
            first, second = self.reflection[material, low], self.reflection[material, low + 1]
            power = first + (at - low) * (second - first)
            power = power * np.exp(-self.roughness[material] * cos**2)
            after = np.maximum(paths.length[rows] - before, 1e-6)
            share = plate_share(planes.area[patch], cos, np.maximum(before, 1e-6), after, self.wavelength_m)
            found[rows] *= np.sqrt(power) * share
        return found


def _levels(
    number: int,
    entry: WorldSound,
    paths: MirrorPaths,
    planes: PlanePatches,
    surfaces: _Mirrors,
    config: EchoConfig,
    place: Pose,
    speed: Floats,
    shown: Floats,
    hertz: Floats,
    share: Floats,
) -> Heard:
    toward = (paths.image - place.xyz) / np.maximum(paths.length, 1e-9)[:, None]
    local = toward @ place.rotation
    gain = np.sqrt(beam_gain(local[:, 0], local[:, 1], local[:, 2], *config.receiver.shape))
    # Real sources are extended, so spherical spreading from a point stops at 0.1 m.
    gain = gain * surfaces.amplitude(paths, planes) / np.maximum(paths.length, 0.1)
    transmitted = np.sum(share * 10.0 ** (-0.1 * np.outer(paths.length, config.medium.absorption(hertz))), axis=1)
    with np.errstate(divide="ignore"):
        level = entry.sound.level_db + 20.0 * np.log10(gain) + 10.0 * np.log10(transmitted)
    rates = np.stack([np.einsum("ij,ij->i", toward, shown), -toward @ speed], axis=1)
    heard = Heard(
        np.full(len(paths), number), level, paths.length, local, paths.order, paths.part[:, 0], gain, paths.image, rates
    )
    return heard.rows(np.isfinite(level))


def _nothing() -> Heard:
    none, whole = np.zeros(0), np.zeros(0, np.int64)
    return Heard(whole, none, none, np.zeros((0, 3)), whole, whole, none, np.zeros((0, 3)), np.zeros((0, 2)))


# ---- waveforms -----------------------------------------------------------------------------------------------------


def pressures(
    world: World, heard: Heard, config: EchoConfig, place: Pose, start: float, count: int, seed: int
) -> Floats:
    """Pressure [Pa] at each microphone from `start` [s] on, shape (microphones, count)."""
    rate, c = config.sampling_hz, config.medium.speed_m_s
    microphones = place.apply(np.asarray(config.microphones_mm, np.float64) * 1e-3)
    found = np.zeros((len(microphones), count))
    for number in np.unique(heard.sound):
        own = heard.rows(heard.sound == number)
        entry = world.sounds[number]
        _check(entry, own, rate, c)
        # Emission time is D t - delay, t after the start: receiver and source each stretch time by their own speed.
        stretch = (1.0 - own.rates[:, 1] / c) / (1.0 + own.rates[:, 0] / c)
        front = int(np.ceil(1.1 * own.length.max() / c * rate)) + _EDGE
        more = int(np.ceil(np.abs(stretch - 1.0).max() * (front + count)))
        size = 2 * more + front + count + _EDGE
        signal = _signal(entry, start - (more + front) / rate, size, rate, seed)
        window = front + count + _EDGE
        hertz = np.asarray(np.fft.rfftfreq(window, 1.0 / rate), np.float64)
        open_to = (hertz >= config.band_hz[0]) & (hertz <= config.band_hz[1])
        amplitude = config.medium.reference_pa * 10.0 ** (entry.sound.level_db / 20.0)
        plain = np.fft.rfft(signal[more : more + window])
        total = np.zeros((len(microphones), len(hertz)), np.complex128)
        for row in range(len(own)):
            spectrum = plain
            if abs(stretch[row] - 1.0) > 1e-9:
                spectrum = np.fft.rfft(_stretched(signal, more, front, window, stretch[row]))
            filtered = amplitude * own.gain[row] * spectrum * _absorbed(config.medium, hertz, open_to, own.length[row])
            path_m = np.linalg.norm(own.image[row] - microphones, axis=1)
            delay = path_m / (c * (1.0 - own.rates[row, 1] / c))
            total += filtered * np.exp(-2j * np.pi * hertz * delay[:, None])
        found += np.fft.irfft(total, window)[:, front : front + count]
    return found


def _check(entry: WorldSound, own: Heard, rate: float, speed_m_s: float) -> None:
    """Raise ConfigError if no waveform can be computed."""
    if np.abs(own.rates).max() > _FASTEST * speed_m_s:
        fast = float(np.abs(own.rates).max())
        raise ConfigError(
            f"sound {entry.name!r}: its path length changes by {fast:.0f} m/s; waveforms support up to {_FASTEST:g} of "
            f"the speed of sound, {speed_m_s:.0f} m/s"
        )
    if own.length.max() / speed_m_s * rate > MOST_SAMPLES:
        raise ConfigError(
            f"sound {entry.name!r}: it is {own.length.max():.0f} m away, which is too far for a waveform of "
            f"{rate / 1e3:g} kHz; set sample_rate_khz lower"
        )


def _absorbed(medium: SoundMedium, hertz: Floats, open_to: NDArray[np.bool_], length: float) -> Floats:
    factor = np.zeros(len(hertz))
    factor[open_to] = 10.0 ** (-medium.absorption(hertz[open_to]) * length / 20.0)
    return factor


def _stretched(signal: Floats, more: int, front: int, window: int, stretch: float) -> Floats:
    """Resample the signal on a clock that runs `stretch` times as fast and agrees at the start of the window."""
    fine = np.fft.irfft(np.fft.rfft(signal), _FINER * len(signal)) * _FINER
    at = more + front + stretch * (np.arange(window) - front)
    return np.asarray(np.interp(at * _FINER, np.arange(len(fine)), fine))


def _signal(entry: WorldSound, begin: float, count: int, rate: float, seed: int) -> Floats:
    """Source signal with mean square 1 on the world clock, starting at `begin` [s]."""
    sound, recording = entry.sound, entry.recording
    # Noise is a function of the world clock, so consecutive pings continue the same signal.
    first = int(np.floor(begin * rate))
    time = begin + np.arange(count) / rate
    if sound.tone_khz is not None:
        return np.asarray(np.sqrt(2.0) * np.sin(2.0 * np.pi * 1e3 * sound.tone_khz * time))
    if sound.band_khz is not None:
        element = ((first + np.arange(count)) % 2**32).astype(np.uint32)
        a, b, _, _ = Stream(seed, f"echo/sound/{sound.name}").words(element)
        spectrum = np.fft.rfft(to_normal(a, b)[0])
        hertz = np.fft.rfftfreq(count, 1.0 / rate)
        low, high = (1e3 * edge for edge in sound.band_khz)
        spectrum[(hertz < low) | (hertz > high)] = 0.0
        return np.asarray(np.fft.irfft(spectrum, count) * np.sqrt(0.5 * rate / (high - low)))
    assert recording is not None  # the sound's validator: tone, band or recording
    samples = recording.samples
    if recording.rate_hz > rate:  # remove frequencies that would alias
        spectrum = np.fft.rfft(samples)
        spectrum[np.fft.rfftfreq(len(samples), 1.0 / recording.rate_hz) > 0.5 * rate] = 0.0
        samples = np.fft.irfft(spectrum, len(samples))
    heard = np.interp(time * recording.rate_hz, np.arange(len(samples)), samples, period=float(len(samples)))
    spectrum = np.fft.rfft(heard)
    spectrum[np.fft.rfftfreq(count, 1.0 / rate) > 0.5 * recording.rate_hz] = 0.0
    return np.asarray(np.fft.irfft(spectrum, count))


def columns_of(world: World, heard: Heard, config: EchoConfig, own_origin: tuple[int, int]) -> dict[str, NDArray[Any]]:
    """Cloud fields derived from the rows; `own_origin` holds the origin codes of direct and reflected sounds."""
    parts = world.parts
    mirrored = heard.part >= 0
    at = np.maximum(heard.part, 0)
    entries = world.sounds
    labels = np.array([one.label_id for one in entries] or [0])[heard.sound]
    instances = np.array([one.instance for one in entries] or [0])[heard.sound]
    if len(parts):
        labels = np.where(mirrored, parts.label[at], labels)
        instances = np.where(mirrored, parts.instance[at], instances)
    return {
        "time": heard.length / config.medium.speed_m_s,
        "label": labels,
        "instance": instances,
        "origin": np.where(mirrored, own_origin[1], own_origin[0]),
        "source": heard.sound + 1,
        "bounces": heard.bounces,
        "sent": np.array([one.sound.level_db for one in entries] or [0.0])[heard.sound],
    }
