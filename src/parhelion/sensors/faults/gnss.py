"""Attacks on receivers of satellite navigation: a jammer that raises the noise, and a spoofer that moves the fix."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from parhelion.core.pose import Floats
from parhelion.core.streams import GnssData
from parhelion.sensors.faults.fault import TimedFault, Unit

NOISE_DBW_HZ = -203.9
"""Density of thermal noise at 290 K, -174 dBm/Hz, and 0.1 dB."""
CHIP_RATE_HZ = 1.023e6
SPREAD = 2.22
"""Resistance of the correlator to a jammer as wide as the band (Kaplan and Hegarty 2017, section 9.2)."""
L1_WAVELENGTH_M = 0.190294
_NEAREST_M = 1.0


class JammingFault(TimedFault):
    """A jammer: it raises the noise, so that weak satellites, then all, are lost.

    With the power J at the antenna, C/N0 falls by 10 log10(1 + J / (N0 Q Rc)) for every satellite (Kaplan and Hegarty
    2017, equation 9.18, for equal antenna gains). The jammer is in free space and in view. Personal privacy devices
    emit about 1 to 30 dBm.
    """

    kinds: ClassVar[Sequence[str]] = ("gnss",)

    xyz: tuple[float, float, float]
    """Position in the world [m]."""
    power_dbm: Annotated[float, Field(ge=-60.0, le=80.0)] = 10.0
    """Radiated power."""
    antenna_db: Annotated[float, Field(ge=-40.0, le=20.0)] = -5.0
    """Gain of the receiving antenna towards the horizon (assumed)."""

    def loss_db(self, xyz: Floats, times: Floats) -> Floats:
        """Loss of C/N0 [dB] at positions (n, 3) [m] and times (n,) [s]."""
        away = np.maximum(np.linalg.norm(xyz - np.array(self.xyz), axis=1), _NEAREST_M)
        spread_db = 20.0 * np.log10(4.0 * np.pi * away / L1_WAVELENGTH_M)
        power_dbw = self.power_dbm - 30.0 + self.antenna_db - spread_db
        ratio = 10.0 ** (0.1 * (power_dbw - NOISE_DBW_HZ)) / (SPREAD * CHIP_RATE_HZ)
        return np.where(self.active(times), 10.0 * np.log10(1.0 + ratio), 0.0)


class SpoofingFault(TimedFault):
    """A spoofer that has captured the receiver and moves its position away, at first slowly.

    The ranges fit the false position, so the consistency test of the receiver passes. Fixes are only moved where the
    receiver has one. Such an attack was shown on a yacht (Psiaki and Humphreys 2016).
    """

    kinds: ClassVar[Sequence[str]] = ("gnss",)

    offset_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Jump of the position in the world."""
    velocity_m_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Velocity at which it then moves on."""

    def moved(self, times: Floats) -> tuple[Floats, Floats]:
        """Errors of the position (n, 3) [m] and velocity (n, 3) [m/s] at times (n,) [s]."""
        active = self.active(times)[:, None]
        since = np.maximum(times - self.from_s, 0.0)[:, None]
        velocity = np.array(self.velocity_m_s)
        return active * (np.array(self.offset_m) + since * velocity), active * velocity[None, :]

    def applied(self, record: GnssData, unit: Unit) -> GnssData:
        """Fixes and ranges of the false position."""
        from parhelion.sensors.waves.gnss.earth import Place, geodetic
        from parhelion.sensors.waves.gnss.satellites import band_of

        away, speed = self.moved(record.time)
        if not away.any() and not speed.any():
            return record
        about = record.metadata
        place = Place(about["latitude_deg"], about["longitude_deg"], about["altitude_m"], about["x_azimuth_deg"])
        position = record.position + away
        latitude, longitude, altitude = geodetic(place.to_ecef(position))
        # Towards each satellite, in the axes of the world: azimuth is clockwise from north.
        turn = np.radians(about["x_azimuth_deg"]) - record.azimuth
        level = np.cos(record.elevation)
        toward = np.stack([level * np.cos(turn), level * np.sin(turn), np.sin(record.elevation)], axis=2)
        longer_m = -np.sum(toward * away[:, None], axis=2)
        faster = -np.sum(toward * speed[:, None], axis=2)
        ranges = {}
        for ending, band in zip(("", "_2"), about["bands"], strict=False):
            wavelength = band_of(band, record.satellites).wavelength_m
            ranges[f"pseudorange{ending}"] = getattr(record, f"pseudorange{ending}") + longer_m
            ranges[f"carrier{ending}"] = getattr(record, f"carrier{ending}") + longer_m / wavelength
            ranges[f"doppler{ending}"] = getattr(record, f"doppler{ending}") - faster / wavelength
        return dataclasses.replace(
            record,
            position=position,
            velocity=record.velocity + speed,
            latitude=latitude,
            longitude=longitude,
            altitude=altitude,
            **ranges,
        )
