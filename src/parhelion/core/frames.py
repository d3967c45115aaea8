"""Records of radars and echo sensors: one frame of points, with the radar cube or the sound waveform if requested."""

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


@dataclass(frozen=True, eq=False, repr=False)
class FramePoints(PointCloud):
    """Points of one measurement in the sensor frame, with pose and time of the sensor."""

    pose: Pose = field(default_factory=Pose, kw_only=True)
    """Pose of the sensor in the world at the start of the frame."""
    start_time: float = field(default=0.0, kw_only=True, metadata=scalar("s"))
    """Start of the frame [s] on the world's clock."""
    duration: float = field(default=0.0, kw_only=True, metadata=scalar("s"))
    """Duration of the frame [s]."""

    def in_world(self) -> PointCloud:
        """Return the points in the world frame (float64), transformed by the pose at the start of the frame."""
        points = self.pose.apply(self.xyz.astype(np.float64))
        return PointCloud(points, self.fields, "world", self.names, self.metadata)


# ---- radar ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RadarCube(Record):
    """Power over range, radial velocity, elevation and azimuth, relative to the thermal noise per cell.

    >>> power = np.ones((3, 2, 1, 2))
    >>> power[1, 0, 0, 1] = 40.0
    >>> cube = ph.RadarCube(power, range=[1, 2, 3], radial_velocity=[-1, 0], elevation=[0], azimuth=[-0.1, 0.1])
    >>> cube.range_azimuth.tolist()
    [[1.0, 1.0], [1.0, 40.0], [1.0, 1.0]]
    """

    power: NDArray[np.float32] = field(metadata=column("noise power", "sensor", "r", "d", "e", "a", dtype="float32"))
    """Power [thermal noise per cell], shape (ranges, velocities, elevations, azimuths)."""
    range: Floats = field(metadata=column("m", "sensor", "r"))
    """Range of each bin [m], shape (ranges,)."""
    radial_velocity: Floats = field(metadata=column("m/s", "sensor", "d"))
    """Radial velocity of each bin [m/s], positive for receding targets, shape (velocities,)."""
    elevation: Floats = field(metadata=column("rad", "sensor", "e"))
    """Elevation of each beam [rad], up is positive, shape (elevations,)."""
    azimuth: Floats = field(metadata=column("rad", "sensor", "a"))
    """Azimuth of each beam [rad], left is positive, shape (azimuths,). Array beams are spaced evenly in its sine."""

    def _sizes(self) -> Mapping[str, int]:
        return dict(zip("rdea", np.shape(self.power), strict=False))

    def table(self) -> list[Column]:
        """Columns with one row per range bin: its strongest cell."""
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
        """Maximum over all beams, shape (ranges, velocities)."""
        return np.asarray(self.power.max(axis=(2, 3)))

    @property
    def range_azimuth(self) -> NDArray[np.float32]:
        """Maximum over velocity and elevation, shape (ranges, azimuths)."""
        return np.asarray(self.power.max(axis=(1, 2)))


@dataclass(frozen=True, eq=False)
class AdcFrame(Record):
    """Complex baseband samples of one radar frame, in units of the standard deviation of their thermal noise.

    >>> tone = np.exp(2j * np.pi * 5 / 32 * np.arange(32)) * np.ones((16, 4, 1))  # range bin 5, at rest
    >>> frame = ph.AdcFrame(tone, range_step_m=0.05, speed_step_m_s=0.1)
    >>> range_bin, speed_bin = np.unravel_index(np.argmax(frame.range_velocity()), (32, 16))
    >>> int(range_bin), int(speed_bin) - 8
    (5, 0)
    """

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
    """Radar cross-sections of an object by direction of transmitter and receiver, in the object frame.

    >>> sphere = ph.CrossSections([0, 90], [0, 0], [0, 90], [0, 0], sigma=[1.0, 10.0], frequency_ghz=77)
    >>> sphere.dbsm.tolist()
    [0.0, 10.0]
    """

    azimuth_deg: Floats = field(metadata=column("deg", "object", "n"))
    """Azimuth of the transmitter [deg] as seen from the object, shape (n,)."""
    elevation_deg: Floats = field(metadata=column("deg", "object", "n"))
    """Elevation of the transmitter [deg], shape (n,)."""
    receiver_azimuth_deg: Floats = field(metadata=column("deg", "object", "n"))
    """Azimuth of the receiver [deg], shape (n,)."""
    receiver_elevation_deg: Floats = field(metadata=column("deg", "object", "n"))
    """Elevation of the receiver [deg], shape (n,)."""
    sigma: Floats = field(metadata=column("m^2", "object", "n"))
    """Cross-section [m²] for all received power, averaged over both transmitted polarisations, shape (n,)."""
    scattering: NDArray[np.complex128] | None = field(
        default=None, metadata=column("m", "object", "n", 2, 2, dtype="complex128")
    )
    """Scattering matrix S [m] of E_s = S E exp(-j k r) / r, shape (n, 2, 2). Rows are received, columns transmitted
    polarisations; horizontal, then vertical. None if powers were summed instead of fields."""
    frequency_ghz: float = field(default=0.0, metadata=scalar("GHz"))
    """Frequency [GHz]."""

    def _sizes(self) -> Mapping[str, int]:
        return {"n": len(self.azimuth_deg)}

    def _labels(self) -> Mapping[str | int, Sequence[str]]:
        return {2: "hv"}

    def _repr_parts(self) -> list[str]:
        known = "sigma" if self.scattering is None else "sigma, scattering"
        return [f"{len(self.azimuth_deg)} directions", f"{self.frequency_ghz:g} GHz", known]

    @property
    def dbsm(self) -> Floats:
        """Cross-section [dBsm], decibels relative to 1 m², shape (n,)."""
        return np.asarray(10.0 * np.log10(np.maximum(self.sigma, 1e-30)))

    @property
    def polarised(self) -> Floats:
        """Cross-section [m²] of each pair of polarisations, 4 pi |S|², shape (n, 2, 2)."""
        if self.scattering is None:
            raise ConfigError("cross-sections: polarisations are available only if fields were summed, not powers")
        return np.asarray(4.0 * np.pi * np.abs(self.scattering) ** 2)


@dataclass(frozen=True, eq=False, repr=False)
class RadarScan(FramePoints):
    """One frame or revolution of a radar: its detections, strongest first.

    Measured fields: range [m], azimuth and elevation [rad], radial_velocity [m/s], rcs [dBsm], snr [dB], time within
    the frame [s]. Truth: label, instance, bounces, origin ('surface', 'multipath', 'rain', 'noise').

    >>> scan = ph.RadarScan([[10.0, 0.0, 0.0]], {"radial_velocity": np.array([-2.0], np.float32)}, start_time=3.0)
    >>> scan.radial_velocity.tolist(), scan.units["radial_velocity"]
    ([-2.0], 'm/s')
    """

    cube: RadarCube | None = field(default=None, kw_only=True)
    """Radar cube of the detections; None unless requested."""


# ---- echo -----------------------------------------------------------------------------------------------------------


SOUND = len(ORIGINS)
"""Value of `origin` for a sound source of the world heard directly; a reflected one counts as multipath."""
ECHO_ORIGINS = (*ORIGINS, "sound")


@dataclass(frozen=True, eq=False)
class EchoWaveform(Record):
    """Sound pressure at each microphone, from the start of the pulse.

    >>> sound = ph.EchoWaveform(np.zeros((2, 480)), rate_hz=48_000.0, position=[[0, 0.1, 0], [0, -0.1, 0]])
    >>> sound
    <EchoWaveform: 2 microphones, 480 samples at 48000 Hz, 0.01 s>
    """

    samples: NDArray[np.float32] = field(metadata=column("Pa", "sensor", "m", "t", dtype="float32"))
    """Sound pressure [Pa], shape (microphones, samples)."""
    rate_hz: float = field(metadata=scalar("Hz"))
    """Sample rate [Hz]."""
    position: Floats = field(metadata=column("m", "sensor", "m", 3))
    """Position of each microphone [m], shape (microphones, 3)."""

    def _sizes(self) -> Mapping[str, int]:
        return dict(zip("mt", np.shape(self.samples), strict=False))

    @property
    def time(self) -> Floats:
        """Time of each sample after the start of the pulse [s], shape (samples,)."""
        return np.asarray(np.arange(self.samples.shape[1]) / self.rate_hz)

    def table(self) -> list[Column]:
        channels = [Column(f"pressure_{k}", "Pa", values) for k, values in enumerate(self.samples)]
        return [Column("time", "s", self.time), *channels]

    def _repr_parts(self) -> list[str]:
        count, length = self.samples.shape
        return [f"{count} microphones", f"{length} samples at {self.rate_hz:g} Hz", f"{length / self.rate_hz:.4g} s"]

    def save_wav(self, path: str | PathLike[str]) -> None:
        """Write all channels as 16-bit WAV, scaled so that the loudest sample is at full scale."""
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
    """One ping: its echoes, nearest first, and sounds of the world if the sensor listens to them.

    Fields: range [m] (half the path length of an echo, the full path length of a sound), azimuth and elevation [rad],
    path_length [m], attenuation and snr [dB], bounces, label, instance, origin, source, time of arrival [s].

    >>> scan = ph.EchoScan([[1.5, 0.0, 0.0]], {"range": np.array([1.5], np.float32)}, nearest=1.5)
    >>> scan.nearest, len(scan)
    (1.5, 1)
    """

    waveform: EchoWaveform | None = field(default=None, kw_only=True)
    """Received sound pressure; None unless requested."""
    nearest: float = field(default=float("inf"), kw_only=True, metadata=scalar("m", "sensor"))
    """Range [m] of the first echo of the sensor's own pulse above the threshold; infinite without one."""
