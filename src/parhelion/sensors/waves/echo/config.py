"""Data sheet of a pulse-echo sensor: the fields of a preset file. Units are in the names; sources are required."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from parhelion.core.config import Config, NonNegative, Number, Positive
from parhelion.sensors.waves.config import WaveSheet, beam_shape
from parhelion.sensors.waves.echo import sound
from parhelion.weather.weather import Weather

MOST_SAMPLES = 50_000_000
"""Maximum number of samples per ping, summed over all microphones."""

Angle = Annotated[float, Field(gt=0, le=180)]


class SoundMedium(Config):
    """Medium of the sound: air or water."""

    kind: Literal["air", "water"]
    temperature_c: Annotated[float, Field(ge=-40, le=60)] = 15.0
    humidity_percent: Annotated[float, Field(ge=0, le=100)] = 60.0
    pressure_kpa: Annotated[float, Field(gt=1, le=1000)] = 101.325
    salinity: Annotated[float, Field(ge=0, le=45)] = 35.0
    """Salinity in parts per thousand."""
    depth_m: Annotated[float, Field(ge=0, le=11_000)] = 5.0
    ph: Annotated[float, Field(ge=7, le=9)] = 8.0

    @property
    def speed_m_s(self) -> float:
        """Speed of sound [m/s]."""
        if self.kind == "air":
            return float(sound.air_speed_m_s(self.temperature_c))
        return float(sound.water_speed_m_s(self.temperature_c, self.salinity, self.depth_m))

    def absorption(self, frequency_hz: Any) -> sound.Floats:
        """One-way absorption at frequencies [Hz], in dB/m."""
        if self.kind == "air":
            return sound.air_absorption_db_per_m(
                frequency_hz, self.temperature_c, self.humidity_percent, self.pressure_kpa
            )
        return sound.water_absorption_db_per_m(frequency_hz, self.temperature_c, self.salinity, self.depth_m, self.ph)

    def absorption_db_per_m(self, frequency_hz: float) -> float:
        """One-way absorption at a single frequency [dB/m]."""
        return float(self.absorption(frequency_hz))

    @property
    def reference_pa(self) -> float:
        """Reference pressure of levels: 20 uPa in air, 1 uPa in water."""
        return 20e-6 if self.kind == "air" else 1e-6


class Transducer(Config):
    """Directivity of an emitter or receiver."""

    azimuth_width_deg: Angle
    """Full width at half power."""
    elevation_width_deg: Angle
    sidelobe_db: Annotated[float, Field(ge=-100, le=0)] = -25.0

    @property
    def shape(self) -> tuple[float, float, float]:
        """Widths over both direction cosines and the side-lobe floor: the arguments of `beam_gain`."""
        return beam_shape(self.azimuth_width_deg, self.elevation_width_deg, self.sidelobe_db)


class Noise(Config):
    """Noise sources of the receiver."""

    wind_m_s: Annotated[float, Field(ge=0, le=40)] = 5.0
    """Wind over the sea surface; 5 m/s lies between sea states 2 and 3."""
    shipping: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Density of distant shipping from 0 (few) to 1 (many); relevant below 1 kHz."""
    hydrophone_db: Annotated[float, Field(ge=0, le=60)] = 10.0
    """Noise of the electronics above the thermal noise of the water."""
    microphone_dba: Annotated[float, Field(ge=-20, le=100)] = 30.0
    """Equivalent noise level of a microphone in air."""


class Pulse(Config):
    """Transmitted pulse."""

    duration_ms: Positive
    bandwidth_khz: NonNegative = 0.0
    """Bandwidth of the sweep; 0 selects a tone, whose duration sets the range resolution."""


class Ranger(Config):
    """Receiver of a simple ranger: a comparator that reports the first crossing of a fixed threshold."""

    rise_ms: Positive
    """Time constant with which the envelope of an echo builds up: Q / (pi f) of the transducers."""
    ring_level_db: Annotated[float, Field(ge=0, le=260)]
    """Equivalent level of the ringing at the receiver when the pulse ends."""
    ring_decay_ms: Positive
    """Time constant of the amplitude of the ringing."""
    amplitude_jitter: NonNegative = 0.0
    """Relative standard deviation of the echo amplitude between pings (turbulence, supply voltage)."""
    spurious_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Fraction of readings that are spurious, uniform over the range of the sensor."""
    timer_us: NonNegative = 0.0
    """Resolution of the timer."""


class EchoConfig(WaveSheet):
    """Data sheet of one pulse-echo sensor model.

    >>> ph.Echo("generic/ultrasonic-ranger").config.name
    'Generic ultrasonic ranger'
    """

    plain_sources_cover = ("field",)

    medium: SoundMedium
    frequency_khz: Annotated[float, Field(ge=0.4, le=1000)]
    """Centre of the band; the absorption formulas are valid from 0.4 to 1000 kHz."""
    source_level_db: Annotated[float, Field(ge=0, le=260)]
    """Source level at 1 m on the axis, re 20 uPa in air and 1 uPa in water."""
    mode: Literal["active", "passive", "both"] = "active"
    """Signals to receive: echoes of the own pulse (active), sounds of the world (passive), or both."""
    noise: Noise = Noise()
    noise_level_db: Annotated[float, Field(ge=-100, le=200)] | None = None
    """Noise level in the receiver band, re the same pressure; computed from `noise` by default."""
    listening_band_khz: tuple[Positive, Positive] | None = None
    """Pass band of the receiver; by default the band of the pulse."""
    threshold_db: Annotated[float, Field(ge=0, le=60)] = 12.0
    """Detection threshold above the noise."""
    emitter: Transducer
    receiver: Transducer
    pulse: Pulse
    range_m: tuple[NonNegative, Positive]
    """Minimum and maximum range."""
    ranger: Ranger | None = None
    """Threshold receiver that determines `nearest`; None times the echo itself."""
    beams: tuple[Annotated[int, Field(ge=1, le=4096)], Annotated[int, Field(ge=1, le=4096)]] = (1, 1)
    """Number of resolved directions in azimuth and elevation: 1 and 1 for a single beam."""
    microphones_mm: list[tuple[Number, Number, Number]] = Field(
        default_factory=lambda: [(0.0, 0.0, 0.0)], max_length=1024
    )
    """Microphone positions in the sensor frame."""
    sample_rate_khz: Positive | None = None
    """Sampling rate of waveforms; by default four times the highest frequency."""

    @model_validator(mode="after")
    def _holds_together(self) -> EchoConfig:
        if self.range_m[1] <= self.range_m[0]:
            raise ValueError(f"range_m must increase, got {self.range_m[0]:g} to {self.range_m[1]:g}")
        band = self.listening_band_khz
        if band is not None and band[1] <= band[0]:
            raise ValueError(f"listening_band_khz must increase, got {band[0]:g} to {band[1]:g}")
        if band is not None and 0.5e-3 * self.sampling_hz < band[1]:
            raise ValueError("listening_band_khz must end below half of sample_rate_khz")
        if 0.5 * self.pulse.bandwidth_khz >= self.frequency_khz:
            raise ValueError("pulse.bandwidth_khz must be less than twice frequency_khz")
        if self.listening_s > (1.0 + 1e-6) / self.rate_hz:
            raise ValueError(
                f"range_m: echoes from {self.range_m[1]:g} m take {self.listening_s:.3g} s, but pings at "
                f"{self.rate_hz:g} Hz are {1.0 / self.rate_hz:.3g} s apart; lower range_m or rate_hz"
            )
        if len(self.microphones_mm) * self.listening_s * self.sampling_hz > MOST_SAMPLES:
            raise ValueError(f"a waveform would have more than {MOST_SAMPLES} samples; lower sample_rate_khz")
        return self

    @property
    def wavelength_m(self) -> float:
        """Wavelength at the centre frequency [m]."""
        return self.medium.speed_m_s / (1e3 * self.frequency_khz)

    @property
    def listening_s(self) -> float:
        """Time from the start of the pulse to the end of the farthest echo [s]."""
        return 2.0 * self.range_m[1] / self.medium.speed_m_s + 1e-3 * self.pulse.duration_ms

    @property
    def sampling_hz(self) -> float:
        """Sampling rate of waveforms [Hz]."""
        if self.sample_rate_khz is not None:
            return 1e3 * self.sample_rate_khz
        highest = self.frequency_khz + 0.5 * self.pulse.bandwidth_khz
        return 4e3 * max(highest, 0.0 if self.listening_band_khz is None else self.listening_band_khz[1])

    @property
    def band_hz(self) -> tuple[float, float]:
        """Lower and upper limit of the receiver band [Hz]."""
        if self.listening_band_khz is not None:
            return 1e3 * self.listening_band_khz[0], 1e3 * self.listening_band_khz[1]
        width = 1e3 * self.pulse.bandwidth_khz if self.pulse.bandwidth_khz > 0 else 1e3 / self.pulse.duration_ms
        middle = 1e3 * self.frequency_khz
        return max(1.0, middle - 0.5 * width), middle + 0.5 * width

    @property
    def noise_db(self) -> float:
        """Noise level in the receiver band [dB re 20 uPa in air, 1 uPa in water]."""
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
        """Range resolution [m]: c / 2B for a sweep, half the pulse length for a tone."""
        seconds = 1e-3 / self.pulse.bandwidth_khz if self.pulse.bandwidth_khz > 0 else 1e-3 * self.pulse.duration_ms
        return 0.5 * self.medium.speed_m_s * seconds

    @property
    def processing_gain_db(self) -> float:
        """Matched-filter gain for a sweep [dB]: 10 log10(B T); 0 for a tone."""
        return float(10.0 * np.log10(max(1.0, self.pulse.bandwidth_khz * self.pulse.duration_ms)))

    def snr_db(self, range_m: float, target_strength_db: float) -> float:
        """Signal-to-noise ratio on the axis [dB]: SL - 40 lg R - 2 a R + TS - NL + processing gain (sonar equation)."""
        loss = 40.0 * np.log10(range_m) + 2.0 * range_m * self.medium.absorption_db_per_m(1e3 * self.frequency_khz)
        level = self.source_level_db - loss + target_strength_db
        return float(level - self.noise_db + self.processing_gain_db)

    def reach_m(self, target_strength_db: float) -> float:
        """Maximum range [m] at which a target on the axis exceeds the threshold, regardless of `range_m`."""
        low, high = 1e-3, 1e5
        for _ in range(80):
            middle = float(np.sqrt(low * high))
            low, high = (middle, high) if self.snr_db(middle, target_strength_db) > self.threshold_db else (low, middle)
        return low

    def pulse_at(self, time_s: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Pulse at times after its start, with peak 1: a tone or sweep with a Hann window."""
        length = 1e-3 * self.pulse.duration_ms
        inside = (time_s >= 0.0) & (time_s <= length)
        low = 1e3 * (self.frequency_khz - 0.5 * self.pulse.bandwidth_khz)
        slope = 1e3 * self.pulse.bandwidth_khz / length
        phase = 2.0 * np.pi * (low * time_s + 0.5 * slope * time_s**2)
        return np.asarray(np.where(inside, np.sin(np.pi * time_s / length) ** 2 * np.sin(phase), 0.0))

    def in_weather(self, weather: Weather | None) -> EchoConfig:
        """Data sheet with the temperature, humidity and pressure of the air, or with the wind over the water."""
        if weather is None:
            return self
        if self.medium.kind == "water":
            wind = float(np.hypot(*weather.wind_m_s[:2]))
            noise = self.noise.model_copy(update={"wind_m_s": min(wind, 40.0)})
            return self.model_copy(update={"noise": noise}) if wind > 0 else self
        changes = {"temperature_c": weather.temperature_c, "humidity_percent": weather.humidity_percent}
        changes["pressure_kpa"] = None if weather.pressure_hpa is None else 0.1 * weather.pressure_hpa
        given = {name: value for name, value in changes.items() if value is not None}
        return self.model_copy(update={"medium": self.medium.model_copy(update=given)}) if given else self
