"""What a radar measures: detections as points, and the cube they were found in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import ORIGINS, PointCloud
from parhelion.core.errors import ConfigError
from parhelion.core.files import write_whole
from parhelion.core.pose import Floats, Pose
from parhelion.core.records import Column, Record, column, scalar

# ---- What radars and sounders have in common: one frame, as points that the sensor found ----------------------------


@dataclass(frozen=True, eq=False, repr=False)
class FramePoints(PointCloud):
    """Points of one frame in the sensor's frame, and where the sensor was."""

    pose: Pose = field(default_factory=Pose, kw_only=True)
    """The sensor in the world at the frame's start."""
    start_time: float = field(default=0.0, kw_only=True, metadata=scalar("s"))
    """Start of the frame on the world's clock [s]."""
    duration: float = field(default=0.0, kw_only=True, metadata=scalar("s"))
    """How long the frame took [s]."""

    def in_world(self) -> PointCloud:
        """The points in the world's frame (float64), by the pose at the frame's start."""
        points = self.pose.apply(self.xyz.astype(np.float64))
        return PointCloud(points, self.fields, "world", self.names, self.metadata)


# ---- frames ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RadarCube(Record):
    """Power over range, radial velocity, elevation and azimuth, in units of the thermal noise of a cell."""

    power: NDArray[np.float32] = field(metadata=column("noise power", "sensor", "r", "d", "e", "a", dtype="float32"))
    """Shape (ranges, velocities, elevations, azimuths)."""
    range: Floats = field(metadata=column("m", "sensor", "r"))
    radial_velocity: Floats = field(metadata=column("m/s", "sensor", "d"))
    """Away is positive."""
    elevation: Floats = field(metadata=column("rad", "sensor", "e"))
    azimuth: Floats = field(metadata=column("rad", "sensor", "a"))
    """Left is positive. Beams of an array are even in the sine of it."""

    def _sizes(self) -> Mapping[str, int]:
        return dict(zip("rdea", np.shape(self.power), strict=False))

    def table(self) -> list[Column]:
        """One row per range bin: its strongest cell."""
        ranges = len(self.range) if self.power.size else 0
        cells = self.power[:ranges].reshape(ranges, int(np.prod(self.power.shape[1:])))
        strongest = cells.argmax(axis=1) if ranges else np.zeros(0, np.intp)
        speed, elevation, azimuth = np.unravel_index(strongest, self.power.shape[1:])
        found = {
            "range": self.range[:ranges],
            "power": cells[np.arange(ranges), strongest],
            "radial_velocity": self.radial_velocity[speed],
            "elevation": self.elevation[elevation],
            "azimuth": self.azimuth[azimuth],
        }
        return [Column(name, self.units[name], values) for name, values in found.items()]

    @property
    def range_velocity(self) -> NDArray[np.float32]:
        """The strongest beam over range and velocity, shape (ranges, velocities)."""
        return np.asarray(self.power.max(axis=(2, 3)))

    @property
    def range_azimuth(self) -> NDArray[np.float32]:
        """The strongest velocity and elevation over range and azimuth, shape (ranges, azimuths)."""
        return np.asarray(self.power.max(axis=(1, 2)))


@dataclass(frozen=True, eq=False)
class AdcFrame(Record):
    """Complex baseband samples of one frame, in units of the standard deviation of their thermal noise."""

    samples: NDArray[np.complex64] = field(metadata=column("noise", "sensor", "m", "c", "n", dtype="complex64"))
    """Shape (ramps, channels, samples). Channels run over elevation, then azimuth; azimuth is the fastest index."""
    range_step_m: float = field(metadata=scalar("m"))
    """Range of one bin of the transform over samples."""
    speed_step_m_s: float = field(metadata=scalar("m/s"))
    """Radial velocity of one bin of the transform over ramps; away is positive."""

    def _sizes(self) -> Mapping[str, int]:
        return dict(zip("mcn", np.shape(self.samples), strict=False))

    def table(self) -> list[Column]:
        """Mean power of each sample of a ramp, over ramps and channels."""
        power = np.mean(np.abs(self.samples) ** 2, axis=(0, 1)) if self.samples.size else np.zeros(0)
        return [Column("sample", "", np.arange(len(power))), Column("power", "noise power", power)]

    def counts(self, noise_counts: float = 4.0) -> NDArray[np.int16]:
        """Samples as converters deliver them, rounded and clipped to 16 bits: real and imaginary part, shape (..., 2).

        `noise_counts` is the standard deviation of the thermal noise, both parts together [counts].
        """
        scaled = np.stack([self.samples.real, self.samples.imag], axis=-1) * noise_counts
        return np.clip(np.rint(scaled), -32768, 32767).astype(np.int16)

    def range_velocity(self) -> NDArray[np.float64]:
        """Mean power over channels by range and velocity, with Hann's windows, in units of its own thermal noise.

        Shape (ranges, velocities); velocity 0 is in the middle, as in `RadarCube`.
        """
        ramps, _, count = self.samples.shape
        fast, slow = (0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(size) / size) for size in (count, ramps))
        spectrum = np.fft.fft(np.fft.fft(self.samples * fast, axis=2) * slow[:, None, None], axis=0)
        power = np.mean(np.abs(np.fft.fftshift(spectrum, axes=0)) ** 2, axis=1)
        return np.asarray(power.T / (np.sum(fast**2) * np.sum(slow**2)))


@dataclass(frozen=True, eq=False)
class CrossSections(Record):
    """How a thing scatters a wave, by the direction that it is seen from, in the thing's own frame."""

    azimuth_deg: Floats = field(metadata=column("deg", "object", "n"))
    """Where the transmitter stands, seen from the thing."""
    elevation_deg: Floats = field(metadata=column("deg", "object", "n"))
    receiver_azimuth_deg: Floats = field(metadata=column("deg", "object", "n"))
    receiver_elevation_deg: Floats = field(metadata=column("deg", "object", "n"))
    sigma: Floats = field(metadata=column("m^2", "object", "n"))
    """Cross-section: all that comes back, as the mean of both polarisations that may be sent."""
    scattering: NDArray[np.complex128] | None = field(
        default=None, metadata=column("m", "object", "n", 2, 2, dtype="complex128")
    )
    """S of E_s = S E exp(-j k r) / r: rows are what is received, columns what is sent; horizontal, then vertical. None
    where powers were added, not fields."""
    frequency_ghz: float = field(default=0.0, metadata=scalar("GHz"))

    def _sizes(self) -> Mapping[str, int]:
        return {"n": len(self.azimuth_deg)}

    def _labels(self) -> Mapping[str | int, Sequence[str]]:
        return {2: "hv"}

    def _facts(self) -> list[str]:
        known = "sigma" if self.scattering is None else "sigma, scattering"
        return [f"{len(self.azimuth_deg)} directions", f"{self.frequency_ghz:g} GHz", known]

    @property
    def dbsm(self) -> Floats:
        """`sigma` in decibels over 1 m^2."""
        return np.asarray(10.0 * np.log10(np.maximum(self.sigma, 1e-30)))

    @property
    def polarised(self) -> Floats:
        """Cross-section [m^2] of each pair of polarisations, 4 pi |S|^2, shape (n, 2, 2)."""
        if self.scattering is None:
            raise ConfigError("cross-sections: polarisations are known where fields were added, not powers")
        return np.asarray(4.0 * np.pi * np.abs(self.scattering) ** 2)


@dataclass(frozen=True, eq=False, repr=False)
class RadarScan(FramePoints):
    """One frame or turn of a radar: its detections, strongest first.

    Fields: range, azimuth, elevation, radial_velocity, rcs, snr; what made them: label, instance, origin ('surface',
    'multipath', 'rain', 'noise'), bounces; time within the frame.
    """

    cube: RadarCube | None = field(default=None, kw_only=True)
    """Where it was asked for."""


# ---- What a pulse-echo sensor measures: echoes as points, and what its microphones hear -----------------------------


SOUND = len(ORIGINS)
"""Value of `origin` of a sound of the world that comes straight; over mirrors it is multipath."""
ECHO_ORIGINS = (*ORIGINS, "sound")


@dataclass(frozen=True, eq=False)
class EchoWaveform(Record):
    """Sound pressure at each microphone, from the moment the pulse begins."""

    samples: NDArray[np.float32] = field(metadata=column("Pa", "sensor", "m", "t", dtype="float32"))
    """Shape (microphones, samples)."""
    rate_hz: float = field(metadata=scalar("Hz"))
    """Samples per second."""
    position: Floats = field(metadata=column("m", "sensor", "m", 3))
    """Of the microphones, shape (microphones, 3)."""

    def _sizes(self) -> Mapping[str, int]:
        return dict(zip("mt", np.shape(self.samples), strict=False))

    @property
    def time(self) -> Floats:
        """Time of each sample after the start of the pulse [s], shape (samples,)."""
        return np.asarray(np.arange(self.samples.shape[1]) / self.rate_hz)

    def table(self) -> list[Column]:
        channels = [Column(f"pressure_{k}", "Pa", values) for k, values in enumerate(self.samples)]
        return [Column("time", "s", self.time), *channels]

    def _facts(self) -> list[str]:
        count, length = self.samples.shape
        return [f"{count} microphones", f"{length} samples at {self.rate_hz:g} Hz", f"{length / self.rate_hz:.4g} s"]

    def save_wav(self, path: str | PathLike[str]) -> None:
        """Write all channels as 16-bit WAV, the loudest sample at full scale."""
        import io
        import wave
        from pathlib import Path

        peak = float(np.abs(self.samples).max(initial=0.0)) or 1.0
        pcm = np.round(self.samples.T / peak * 32767.0).astype("<i2")
        stream = io.BytesIO()
        with wave.open(stream, "wb") as file:
            file.setnchannels(self.samples.shape[0])
            file.setsampwidth(2)
            file.setframerate(round(self.rate_hz))
            file.writeframes(pcm.tobytes())
        write_whole(Path(path), stream.getvalue())


@dataclass(frozen=True, eq=False, repr=False)
class EchoScan(FramePoints):
    """One ping: its echoes, nearest first, and the world's sounds where it listens.

    Fields: range (half the way of an echo, the whole way of a sound), azimuth, elevation, path_length, attenuation,
    snr, bounces, label, instance, origin, source, time of arrival.
    """

    waveform: EchoWaveform | None = field(default=None, kw_only=True)
    """Where it was asked for."""
    nearest: float = field(default=float("inf"), kw_only=True, metadata=scalar("m", "sensor"))
    """Range of the first echo of its own pulse that passes the threshold [m]; infinite where none does."""
