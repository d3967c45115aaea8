"""Drift of inertial sensors with temperature."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from parhelion.core.config import NonNegative, Positive
from parhelion.core.pose import Floats
from parhelion.core.random import Stream
from parhelion.core.streams import ImuData
from parhelion.sensors.faults.fault import Fault, Unit

CALIBRATED_C = 25.0
"""Temperature at which biases are calibrated."""
GRAVITY_M_S2 = 9.80665


class TemperatureFault(Fault):
    """Biases that change with temperature: b(T) = c (T - 25 °C), with T = ambient + rise (1 - exp(-t / tau)).

    Each unit draws its coefficients from normal distributions with the given standard deviations. The defaults are the
    typical coefficients of the data sheet of the Bosch BMI160.
    """

    kinds: ClassVar[Sequence[str]] = ("imu",)

    ambient_c: Annotated[float, Field(ge=-60.0, le=150.0)] = CALIBRATED_C
    """Temperature of the sensor at the start."""
    rise_c: Annotated[float, Field(ge=-150.0, le=150.0)] = 0.0
    """Warming until the temperature is steady."""
    tau_s: Positive = 300.0
    """Time constant of the warming."""
    gyro_deg_s_per_c: NonNegative = 0.05
    """Standard deviation of the coefficients of the gyroscopes."""
    accel_mg_per_c: NonNegative = 1.0
    """Standard deviation of the coefficients of the accelerometers, in thousandths of standard gravity."""

    def temperature_c(self, times: Floats) -> Floats:
        """Temperature of the sensor [°C] at times [s]."""
        return self.ambient_c + self.rise_c * -np.expm1(-np.maximum(times, 0.0) / self.tau_s)

    def coefficients(self, unit: Unit) -> tuple[Floats, Floats]:
        """Coefficients of the angular rate [rad/s/°C] and specific force [m/s²/°C] of a unit, shape (3,) each."""
        draws = Stream(unit.seed, f"{unit.key}/faults/temperature").generator().normal(size=6)
        return (
            np.radians(self.gyro_deg_s_per_c) * draws[:3],
            1e-3 * GRAVITY_M_S2 * self.accel_mg_per_c * draws[3:],
        )

    def applied(self, record: ImuData, unit: Unit) -> ImuData:
        """Samples with the biases of the temperature."""
        above = (self.temperature_c(record.time) - CALIBRATED_C)[:, None]
        rate, force = self.coefficients(unit)
        return dataclasses.replace(
            record,
            angular_rate=record.angular_rate + above * rate,
            specific_force=record.specific_force + above * force,
        )
