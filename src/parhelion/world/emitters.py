"""Lamps and sounds of a world, static or carried by an actor. They have no geometry: rays pass through them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from parhelion.core import config
from parhelion.core.config import Config
from parhelion.core.errors import ConfigError, FormatError, unknown_name
from parhelion.core.pose import Floats, Pose
from parhelion.core.reading import file_reader, read_bytes
from parhelion.core.trajectory import Fixed, Mounted, Trajectory, pose_at, velocity_at
from parhelion.world.labels import LabelTable
from parhelion.world.mesh import LARGEST_COORDINATE_M
from parhelion.world.parts import WorldObject

Coordinate = Annotated[float, Field(ge=-LARGEST_COORDINATE_M, le=LARGEST_COORDINATE_M)]
HalfAngle = Annotated[float, Field(gt=0, le=180)]
_Entry = TypeVar("_Entry", "WorldLamp", "WorldSound")


class Lamp(Config):
    """A point light with a cone. World files list it in `lamps`."""

    xyz: tuple[Coordinate, Coordinate, Coordinate]
    """Position in the world, or in the frame of `actor` [m]."""
    direction: tuple[float, float, float] = (0.0, 0.0, -1.0)
    """Axis of the cone in the same frame, of any length above 0."""
    inner_deg: Annotated[float, Field(ge=0, le=180)] | None = None
    """Half-angle of the cone of full intensity; omnidirectional if `inner_deg` and `outer_deg` are None."""
    outer_deg: HalfAngle | None = None
    """Half-angle of the cone beyond which it is dark. In between, intensity falls smoothly with the cosine."""
    flux_lm: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Total luminous flux."""
    intensity_cd: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Luminous intensity inside the inner cone, instead of the flux."""
    colour_temperature_k: Annotated[float, Field(ge=1000, le=20000)] = 3000.0
    """Temperature of a black body with the same spectrum."""
    lit: Literal["night", "always", "never"] = "night"
    """Times when it is lit. (`on` and `off` are truth values in YAML.)"""
    name: str | None = None
    actor: str | Annotated[int, Field(ge=0)] | None = None
    """Name or instance number of the actor or object that carries it."""

    @model_validator(mode="after")
    def _consistent(self) -> Lamp:
        if (self.flux_lm is None) == (self.intensity_cd is None):
            raise ValueError("give flux_lm or intensity_cd")
        if (self.inner_deg is None) != (self.outer_deg is None):
            raise ValueError("give both inner_deg and outer_deg, or neither for an omnidirectional lamp")
        if self.inner_deg is not None and self.outer_deg is not None and self.inner_deg >= self.outer_deg:
            raise ValueError("inner_deg must be below outer_deg")
        length = math.hypot(*self.direction)
        if not 1e-9 < length < 1e9:
            raise ValueError("direction must have a length above 0")
        return self

    @property
    def axis(self) -> tuple[float, float, float]:
        """`direction` as a unit vector."""
        x, y, z = np.array(self.direction) / math.hypot(*self.direction)
        return float(x), float(y), float(z)

    @property
    def solid_angle_sr(self) -> float:
        """Flux divided by intensity [sr]: 2 pi (1 - (cos inner + cos outer) / 2), or 4 pi if omnidirectional."""
        if self.inner_deg is None or self.outer_deg is None:
            return 4.0 * math.pi
        cosines = math.cos(math.radians(self.inner_deg)) + math.cos(math.radians(self.outer_deg))
        return 2.0 * math.pi * (1.0 - 0.5 * cosines)

    @property
    def candela(self) -> float:
        """Luminous intensity inside the inner cone [cd]."""
        if self.intensity_cd is not None:
            return self.intensity_cd
        assert self.flux_lm is not None  # ensured by the validator
        return self.flux_lm / self.solid_angle_sr


@dataclass(frozen=True, eq=False)
class WorldLamp:
    """A lamp in a world. It is immutable: to change it, remove it and add another one."""

    lamp: Lamp
    carrier: int = -1
    """`index` of the object that carries it, -1 for none."""


def lamp_of(fields: dict[str, Any], carrier: WorldObject | None, objects: Iterable[WorldObject]) -> WorldLamp:
    """Return a lamp from its fields; on an actor it stays in the actor's frame, otherwise it is in the world frame."""
    if carrier is not None:
        fields = {**fields, "actor": carrier.name}
    lamp = config.parse(Lamp, fields, "lamp")
    if lamp.actor is None:
        return WorldLamp(lamp)
    if carrier is None:
        carrier = _carrier("lamp", lamp.actor, objects)
    if carrier.is_actor:
        return WorldLamp(lamp, carrier.index)
    placed = put(lamp, carrier.pose)
    return WorldLamp(placed.model_copy(update={"actor": None}), carrier.index)


def _carrier(what: str, key: str | int, objects: Iterable[WorldObject]) -> WorldObject:
    """Return the first object with a name or instance number; it carries the frame of the instance."""
    items = list(objects)
    for item in items:
        if key == (item.instance if isinstance(key, int) else item.name):
            return item
    if isinstance(key, int):
        raise ConfigError(f"{what}: actor: no object has the instance number {key}")
    raise unknown_name(f"{what}: actor", key, {item.name for item in items})


def _actor_field(carrier: WorldObject, objects: Iterable[WorldObject]) -> str | int:
    """Reference to a carrier in a world file: its name, or its instance number if the name is ambiguous."""
    namesakes = {item.instance for item in objects if item.name == carrier.name}
    return carrier.name if len(namesakes) == 1 else carrier.instance


def put(lamp: Lamp, pose: Pose) -> Lamp:
    """Transform a lamp from the frame at `pose` to the world."""
    xyz = pose.apply(np.array([lamp.xyz]))[0]
    direction = pose.rotation @ np.array(lamp.axis)
    return lamp.model_copy(update={"xyz": tuple(xyz.tolist()), "direction": tuple(direction.tolist())})


def lamp_fields(entry: WorldLamp, objects: Iterable[WorldObject]) -> dict[str, Any]:
    """Fields of a lamp in a world file."""
    fields = entry.lamp.model_dump(mode="json", exclude_defaults=True)
    carrier = next((item for item in objects if item.index == entry.carrier), None)
    if entry.lamp.actor is not None and carrier is not None:
        fields["actor"] = _actor_field(carrier, objects)
    return fields


# ---- Sounds: named sound sources in a world, static or carried by actors --------------------------------------------


Khz = Annotated[float, Field(gt=0, le=1000)]
LARGEST_BYTES = 1 << 28
MOST_SAMPLES = 20_000_000
"""Largest number of samples of a recorded sound."""


class Sound(Config):
    """A continuous omnidirectional point source of sound. World files and scenarios list it in `sounds`."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    xyz: tuple[Coordinate, Coordinate, Coordinate] = (0.0, 0.0, 0.0)
    """Position in the world, or in the frame of `actor` [m]."""
    level_db: Annotated[float, Field(ge=0, le=260)]
    """Level at 1 m by mean square, relative to 20 uPa in air and 1 uPa in water."""
    tone_khz: Khz | None = None
    """Frequency of a pure tone."""
    band_khz: tuple[Khz, Khz] | None = None
    """Alternatively, limits of white noise."""
    wav: str | None = None
    """Alternatively, a recording that repeats: the first channel of a WAV file, relative to the folder of this file."""
    label: str = "object"
    """Semantic class; a source with a carrier has the class of the carrier."""
    actor: str | Annotated[int, Field(ge=0)] | None = None
    """Name or instance number of the actor or object that carries it; in scenarios also the name of a vehicle."""

    @model_validator(mode="after")
    def _one_signal(self) -> Sound:
        if sum(given is not None for given in (self.tone_khz, self.band_khz, self.wav)) != 1:
            raise ValueError("give one of tone_khz, band_khz, wav")
        if self.band_khz is not None and self.band_khz[1] <= self.band_khz[0]:
            raise ValueError(f"band_khz must increase, got {self.band_khz[0]:g} to {self.band_khz[1]:g}")
        return self


@dataclass(frozen=True, eq=False)
class Recording:
    """Content of a WAV file, normalised to a mean square of 1."""

    samples: NDArray[np.float64]
    rate_hz: float


@dataclass(frozen=True, eq=False)
class WorldSound:
    """A sound in a world. It is immutable: to change it, remove it and add another one."""

    sound: Sound
    motion: Trajectory
    """Motion of the source."""
    label_id: int
    instance: int = 0
    carrier: int = -1
    """`index` of the object that carries it, -1 for none."""
    recording: Recording | None = None
    file: Path | None = None
    """WAV file, or None."""

    @property
    def name(self) -> str:
        """Name of the source in echo records."""
        return self.sound.name

    def place(self, time: float) -> tuple[Floats, Floats]:
        """Position [m] and velocity [m/s] in the world at a time [s], shape (3,) each."""
        if isinstance(self.motion, Fixed):
            return self.motion.pose.xyz, np.zeros(3)
        return pose_at(self.motion, time).xyz, velocity_at(self.motion, time)


@file_reader()
def read_wav(path: str | PathLike[str]) -> Recording:
    """Read the first channel of a PCM WAV file of 8 to 32 bits."""
    import wave

    file = Path(path)
    whole = read_bytes(file, largest=LARGEST_BYTES, what="a recording of sound")
    try:
        with wave.open(BytesIO(whole), "rb") as opened:
            channels, width, rate, count = opened.getparams()[:4]
            if not 1 <= width <= 4:
                raise FormatError(f"{file}: has samples of {8 * width} bits; 8 to 32 are supported")
            if rate < 1:
                raise FormatError(f"{file}: has no sample rate")
            if not 0 < count <= MOST_SAMPLES:
                raise FormatError(f"{file}: has {count} samples; 1 to {MOST_SAMPLES} are supported")
            data = opened.readframes(min(count, len(whole)))
    except (wave.Error, EOFError, OSError, RuntimeError) as error:  # also raised for a wrong length
        why = f" ({error})" if str(error) else ""
        raise FormatError(f"{file}: is not a PCM WAV file{why}") from None
    raw = np.frombuffer(data[: len(data) // (channels * width) * channels * width], np.uint8)
    first = raw.reshape(-1, channels, width)[:, 0]
    if width == 1:  # the only unsigned width
        values = first[:, 0].astype(np.float64) - 128.0
    else:
        wide = np.zeros((len(first), 4), np.uint8)
        wide[:, 4 - width :] = first
        values = wide.view("<i4")[:, 0].astype(np.float64)
    size = float(np.sqrt(np.mean(values**2))) if len(values) else 0.0
    if size == 0.0:
        raise FormatError(f"{file}: is silent")
    return Recording(values / size, float(rate))


def sound_of(
    sound: Sound, folder: Path, carrier: WorldObject | None, motion: Trajectory | None, labels: LabelTable
) -> WorldSound:
    """Return a sound of a world. `motion` is that of the carrying frame, if it differs from that of the carrier."""
    file = None if sound.wav is None else folder / sound.wav
    recording = None if file is None else read_wav(file)
    frame: Trajectory = Fixed(Pose())
    if motion is not None:
        frame = motion
    elif carrier is not None:
        frame = Fixed(carrier.pose) if carrier.trajectory is None else carrier.trajectory
    place = Mounted(frame, Pose(sound.xyz))
    still = Fixed(frame.pose @ Pose(sound.xyz)) if isinstance(frame, Fixed) else place
    label = labels.use(sound.label) if carrier is None else carrier.label_id
    known = (0, -1) if carrier is None else (carrier.instance, carrier.index)
    return WorldSound(sound, still, label, *known, recording, file)


def sound_fields(entry: WorldSound, objects: Iterable[WorldObject], relative: Any) -> dict[str, Any]:
    """Fields of a sound in a world file."""
    fields = entry.sound.model_dump(mode="json", exclude_defaults=True)
    if entry.file is not None:
        fields["wav"] = relative(entry.file)
    if entry.carrier >= 0:
        carrier = next(item for item in objects if item.index == entry.carrier)
        fields["actor"] = _actor_field(carrier, objects)
    elif not isinstance(entry.motion, Fixed):
        raise ConfigError(f"sound {entry.name!r}: a world file cannot store a moving sound without an actor")
    return fields


class HasEmitters:
    """Mixin of `World` for its lamps and sounds."""

    _lamps: tuple[WorldLamp, ...]
    _sounds: tuple[WorldSound, ...]
    _objects: dict[int, WorldObject]
    _labels: LabelTable
    _lock: RLock

    def _report(self, edit: str, item: WorldObject | None = None, **arguments: Any) -> None:
        """Notify the watcher of edits; `World` has one."""

    @property
    def lamps(self) -> tuple[WorldLamp, ...]:
        """Lamps in order of adding; a new tuple after every change."""
        return self._lamps

    @property
    def sounds(self) -> tuple[WorldSound, ...]:
        """Sounds in order of adding; a new tuple after every change."""
        return self._sounds

    @property
    def source_names(self) -> dict[int, str]:
        """Names of the values of the field `source` of echoes: 0 is the sensor's own pulse, followed by each sound."""
        return {0: "own pulse", **{number + 1: entry.name for number, entry in enumerate(self._sounds)}}

    def add_lamp(self, xyz: Any, *, carrier: WorldObject | None = None, **fields: Any) -> WorldLamp:
        """Add a lamp at `xyz` [m]; with a `carrier`, in its frame and moving with it.

        `fields` are those of `parhelion.world.emitters.Lamp`: direction, inner_deg, outer_deg, flux_lm or intensity_cd,
        colour_temperature_k, lit, name. A lamp has no triangles, so `version` does not change.
        """
        with self._lock:
            self._check_carrier(carrier)
            plain = xyz.tolist() if isinstance(xyz, np.ndarray) else xyz
            entry = lamp_of({"xyz": plain, **fields}, carrier, self._objects.values())
            self._lamps = (*self._lamps, entry)
        self._report("add_lamp")
        return entry

    def _check_carrier(self, carrier: WorldObject | None) -> None:
        if carrier is not None and self._objects.get(carrier.index) is not carrier:
            raise ConfigError(f"world: {carrier!r} is not in this world")

    def add_sound(
        self,
        name: str,
        *,
        level_db: float,
        carrier: WorldObject | None = None,
        motion: Trajectory | None = None,
        folder: str | PathLike[str] = ".",
        **fields: Any,
    ) -> WorldSound:
        """Add a sound source with a level at 1 m [dB relative to 20 uPa in air, 1 uPa in water].

        `fields` are those of `parhelion.world.emitters.Sound`: xyz, one of tone_khz, band_khz and wav (relative to
        `folder`), label, actor. It moves with its `carrier`, or with the frame that has the given `motion`. A sound has
        no triangles, so `version` does not change.
        """
        sound = config.parse(Sound, {"name": name, "level_db": level_db, **fields}, "sound")
        with self._lock:
            if any(own.name == sound.name for own in self._sounds):
                raise ConfigError(f"sound: the name {sound.name!r} is given twice")
            self._check_carrier(carrier)
            if carrier is None and motion is None and sound.actor is not None:
                carrier = _carrier("sound", sound.actor, self._objects.values())
            entry = sound_of(sound, Path(folder), carrier, motion, self._labels)
            self._sounds = (*self._sounds, entry)
        self._report("add_sound")
        return entry

    def remove_lamp(self, entry: WorldLamp) -> None:
        """Remove a lamp. Removing an object also removes its lamps."""
        with self._lock:
            self._lamps = _without("lamp", self._lamps, entry)
        self._report("remove_lamp")

    def remove_sound(self, entry: WorldSound) -> None:
        """Remove a sound. Removing an object also removes its sounds."""
        with self._lock:
            self._sounds = _without("sound", self._sounds, entry)
        self._report("remove_sound")

    def _remove_emitters_of(self, item: WorldObject) -> None:
        self._lamps = tuple(entry for entry in self._lamps if entry.carrier != item.index)
        self._sounds = tuple(entry for entry in self._sounds if entry.carrier != item.index)


def _without(what: str, entries: tuple[_Entry, ...], gone: _Entry) -> tuple[_Entry, ...]:
    if not any(own is gone for own in entries):
        raise ConfigError(f"world: this {what} is not in this world")
    return tuple(own for own in entries if own is not gone)
