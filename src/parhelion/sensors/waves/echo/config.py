"""The data sheet of a pulse-echo sensor: what a preset file may say. Units are in the names; sources are required."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from parhelion.core.config import Config, NonNegative, Number, Positive
from parhelion.sensors.waves.config import WaveSheet, beam_shape
from parhelion.sensors.waves.echo import sound

MOST_SAMPLES = 50_000_000
"""Samples of one ping, all microphones together."""

Angle = Annotated[float, Field(gt=0, le=180)]


class SoundMedium(Config):
    """What the sound goes through."""

    kind: Literal["air", "water"]
    temperature_c: Annotated[float, Field(ge=-40, le=60)] = 15.0
    humidity_percent: Annotated[float, Field(ge=0, le=100)] = 60.0
    pressure_kpa: Annotated[float, Field(gt=1, le=1000)] = 101.325
    salinity: Annotated[float, Field(ge=0, le=45)] = 35.0
    """Per mille."""
    depth_m: Annotated[float, Field(ge=0, le=11_000)] = 5.0
    ph: Annotated[float, Field(ge=7, le=9)] = 8.0

    @property
    def speed_m_s(self) -> float:
        """Speed of sound [m/s]."""
        if self.kind == "air":
            return float(sound.air_speed_m_s(self.temperature_c))
        return float(sound.water_speed_m_s(self.temperature_c, self.salinity, self.depth_m))

    def absorption(self, frequency_hz: Any) -> sound.Floats:
        """One way, over frequencies [dB/m]."""
        if self.kind == "air":
            return sound.air_absorption_db_per_m(
                frequency_hz, self.temperature_c, self.humidity_percent, self.pressure_kpa
            )
        return sound.water_absorption_db_per_m(frequency_hz, self.temperature_c, self.salinity, self.depth_m, self.ph)

    def absorption_db_per_m(self, frequency_hz: float) -> float:
        """One way at one frequency [dB/m]."""
        return float(self.absorption(frequency_hz))

    @property
    def reference_pa(self) -> float:
        """Pressure that levels are told over: 20 uPa in air, 1 uPa in water."""
        return 20e-6 if self.kind == "air" else 1e-6


class Transducer(Config):
    """Directivity of emitter or receiver."""

    azimuth_width_deg: Angle
    """Full width at half power."""
    elevation_width_deg: Angle
    sidelobe_db: Annotated[float, Field(ge=-100, le=0)] = -25.0

    @property
    def shape(self) -> tuple[float, float, float]:
        """Widths over both direction cosines, and the floor: arguments of `beam_gain`."""
        return beam_shape(self.azimuth_width_deg, self.elevation_width_deg, self.sidelobe_db)


class Noise(Config):
    """What the receiver hears where there is nothing to hear."""

    wind_m_s: Annotated[float, Field(ge=0, le=40)] = 5.0
    """Of the sea's surface; 5 m/s is between sea states 2 and 3."""
    shipping: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Distant ships, from few to many; counts below 1 kHz."""
    hydrophone_db: Annotated[float, Field(ge=0, le=60)] = 10.0
    """The electronics' own noise over the thermal noise of the water."""
    microphone_dba: Annotated[float, Field(ge=-20, le=100)] = 30.0
    """Equivalent noise level of a microphone in air."""


class Pulse(Config):
    """What is sent."""

    duration_ms: Positive
    bandwidth_khz: NonNegative = 0.0
    """Swept during the pulse; 0 is a tone, whose length sets the range resolution."""


class EchoConfig(WaveSheet):
    """One pulse-echo sensor model."""

    plain_sources_cover = ("field",)

    medium: SoundMedium
    frequency_khz: Annotated[float, Field(ge=0.4, le=1000)]
    """Middle of the band; the absorption formulas end at 0.4 and 1000 kHz."""
    source_level_db: Annotated[float, Field(ge=0, le=260)]
    """At 1 m on the axis, over 20 uPa in air and 1 uPa in water."""
    mode: Literal["active", "passive", "both"] = "active"
    """Whether it hears echoes of its own pulse, the world's sounds, or both."""
    noise: Noise = Noise()
    noise_level_db: Annotated[float, Field(ge=-100, le=200)] | None = None
    """In the receiver's band, over the same pressure; by `noise` where not given."""
    listening_band_khz: tuple[Positive, Positive] | None = None
    """What the receiver lets through; the pulse's own band where not given."""
    threshold_db: Annotated[float, Field(ge=0, le=60)] = 12.0
    """Over the noise, from which on an echo counts."""
    emitter: Transducer
    receiver: Transducer
    pulse: Pulse
    range_m: tuple[NonNegative, Positive]
    """Nearest and farthest range."""
    beams: tuple[Annotated[int, Field(ge=1, le=4096)], Annotated[int, Field(ge=1, le=4096)]] = (1, 1)
    """Directions that are told apart across azimuth and elevation: 1 and 1 for a single beam."""
    microphones_mm: list[tuple[Number, Number, Number]] = Field(
        default_factory=lambda: [(0.0, 0.0, 0.0)], max_length=1024
    )
    """Where they are in the sensor's frame."""
    sample_rate_khz: Positive | None = None
    """Of waveforms; four times the highest frequency where not given."""

    @model_validator(mode="after")
    def _holds_together(self) -> EchoConfig:
        if self.range_m[1] <= self.range_m[0]:
            raise ValueError(f"range_m must rise, got {self.range_m[0]:g} to {self.range_m[1]:g}")
        band = self.listening_band_khz
        if band is not None and band[1] <= band[0]:
            raise ValueError(f"listening_band_khz must rise, got {band[0]:g} to {band[1]:g}")
        if band is not None and 0.5e-3 * self.sampling_hz < band[1]:
            raise ValueError("listening_band_khz must end below half of sample_rate_khz")
        if 0.5 * self.pulse.bandwidth_khz >= self.frequency_khz:
            raise ValueError("pulse.bandwidth_khz must be less than twice frequency_khz")
        if self.listening_s > (1.0 + 1e-6) / self.rate_hz:
            raise ValueError(
                f"range_m: echoes of {self.range_m[1]:g} m take {self.listening_s:.3g} s, "
                f"a ping at {self.rate_hz:g} Hz {1.0 / self.rate_hz:.3g} s"
            )
        if len(self.microphones_mm) * self.listening_s * self.sampling_hz > MOST_SAMPLES:
            raise ValueError(f"a waveform would have more than {MOST_SAMPLES} samples")
        return self

    @property
    def wavelength_m(self) -> float:
        """[m]"""
        return self.medium.speed_m_s / (1e3 * self.frequency_khz)

    @property
    def listening_s(self) -> float:
        """From the pulse's begin to the end of the farthest echo [s]."""
        return 2.0 * self.range_m[1] / self.medium.speed_m_s + 1e-3 * self.pulse.duration_ms

    @property
    def sampling_hz(self) -> float:
        """Samples a second of waveforms."""
        if self.sample_rate_khz is not None:
            return 1e3 * self.sample_rate_khz
        highest = self.frequency_khz + 0.5 * self.pulse.bandwidth_khz
        return 4e3 * max(highest, 0.0 if self.listening_band_khz is None else self.listening_band_khz[1])

    @property
    def band_hz(self) -> tuple[float, float]:
        """Lowest and highest frequency that the receiver lets through [Hz]."""
        if self.listening_band_khz is not None:
            return 1e3 * self.listening_band_khz[0], 1e3 * self.listening_band_khz[1]
        width = 1e3 * self.pulse.bandwidth_khz if self.pulse.bandwidth_khz > 0 else 1e3 / self.pulse.duration_ms
        middle = 1e3 * self.frequency_khz
        return max(1.0, middle - 0.5 * width), middle + 0.5 * width

    @property
    def noise_db(self) -> float:
        """Noise in the receiver's band [dB over 20 uPa in air, 1 uPa in water]."""
        if self.noise_level_db is not None:
            return self.noise_level_db
        low, high = self.band_hz
        hertz = np.linspace(low, high, 257)
        if self.medium.kind == "air":
            return float(sound.microphone_noise_db(self.noise.microphone_dba) + 10.0 * np.log10(high - low))
        sea = sound.sea_noise_db(hertz, self.noise.wind_m_s, self.noise.shipping)
        own = sound.thermal_noise_db(hertz) + self.noise.hydrophone_db
        level = 10.0 * np.log10(10.0 ** (sea / 10.0) + 10.0 ** (own / 10.0))
        return sound.band_level_db(level, hertz) - sound.directivity_index_db(*self.receiver.shape)

    @property
    def range_step_m(self) -> float:
        """Range resolution [m]: c / 2 B of a sweep, half a pulse's length of a tone."""
        seconds = 1e-3 / self.pulse.bandwidth_khz if self.pulse.bandwidth_khz > 0 else 1e-3 * self.pulse.duration_ms
        return 0.5 * self.medium.speed_m_s * seconds

    @property
    def processing_gain_db(self) -> float:
        """What a matched filter gains on a sweep [dB]: 10 log10(B T); a tone gains nothing over its own band."""
        return float(10.0 * np.log10(max(1.0, self.pulse.bandwidth_khz * self.pulse.duration_ms)))

    def snr_db(self, range_m: float, target_strength_db: float) -> float:
        """The sonar equation on the axis [dB]: SL - 40 lg R - 2 a R + TS, over the noise and with the filter's gain."""
        loss = 40.0 * np.log10(range_m) + 2.0 * range_m * self.medium.absorption_db_per_m(1e3 * self.frequency_khz)
        level = self.source_level_db - loss + target_strength_db
        return float(level - self.noise_db + self.processing_gain_db)

    def reach_m(self, target_strength_db: float) -> float:
        """Range [m] up to which a target on the axis passes the threshold, whatever `range_m` says."""
        low, high = 1e-3, 1e5
        for _ in range(80):
            middle = float(np.sqrt(low * high))
            low, high = (middle, high) if self.snr_db(middle, target_strength_db) > self.threshold_db else (low, middle)
        return low

    def pulse_at(self, time_s: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The pulse over time after its begin, peak 1: a tone or sweep under Hann's window."""
        length = 1e-3 * self.pulse.duration_ms
        inside = (time_s >= 0.0) & (time_s <= length)
        low = 1e3 * (self.frequency_khz - 0.5 * self.pulse.bandwidth_khz)
        slope = 1e3 * self.pulse.bandwidth_khz / length
        phase = 2.0 * np.pi * (low * time_s + 0.5 * slope * time_s**2)
        return np.asarray(np.where(inside, np.sin(np.pi * time_s / length) ** 2 * np.sin(phase), 0.0))
