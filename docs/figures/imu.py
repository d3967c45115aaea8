"""Allan deviation, walking bias, and how far dead reckoning drifts, by grade of inertial unit: docs/images/imu.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from page import BLUE, GREEN, GREY, ORANGE, RED, finish, sheet

from parhelion.calibrate.imu import AllanFit, allan_deviation
from parhelion.motion.state import BodyState
from parhelion.sensors.body.imu import STANDARD_GRAVITY, Imu

UNITS = {
    "invensense/mpu-9250": (ORANGE, "MPU-9250, consumer"),
    "analog-devices/adis16470": (GREEN, "ADIS16470, industrial"),
    "analog-devices/adis16495-1": (BLUE, "ADIS16495-1, tactical"),
}
DEG = np.pi / 180.0
HOURS, RATE_HZ = 2.0, 50.0
SEEDS = 60


class Still:
    """Stands level for ever."""

    def sample(self, times: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        state = self.state(times)
        return state.xyz, state.quat_xyzw

    def state(self, times: ArrayLike) -> BodyState:
        t = np.asarray(times, dtype=np.float64)
        rest = np.zeros((len(t), 3))
        return BodyState(t, rest, np.tile([0.0, 0.0, 0.0, 1.0], (len(t), 1)), rest, rest, rest, rest)


def draw_allan(axes: Any) -> None:
    """Simulated gyroscopes, one unit each, against the curves of their sheets."""
    tau = np.geomspace(0.1, 3000.0, 200)
    for name, (colour, label) in UNITS.items():
        imu = Imu(name, rate_hz=RATE_HZ)
        gyro = imu.config.gyroscope
        data = imu.run(None, Still(), 0.0, 3600.0 * HOURS, seed=1)
        times, deviation = allan_deviation(data.angular_rate / DEG * 3600.0, RATE_HZ, np.geomspace(0.1, 720.0, 36))
        fit = AllanFit(
            gyro.noise_deg_s_sqrt_hz * 3600.0, gyro.bias_instability_deg_h, gyro.bias_correlation_time_s or 1.0
        )
        axes.loglog(tau, fit.deviation(tau), color=colour, label=label)
        axes.loglog(times, np.sqrt(np.mean(deviation**2, axis=1)), "o", color=colour, markersize=3)
        axes.axhline(gyro.bias_instability_deg_h, color=colour, linewidth=0.8, linestyle=":")
    axes.plot([], [], color=GREY, linewidth=0.8, linestyle=":", label="bias instability of the sheet")
    axes.set(xlabel="τ [s]", ylabel="Allan deviation [deg/h]", title=f"Gyroscopes, {HOURS:g} h at rest")
    axes.legend(fontsize=8)


def draw_bias(axes: Any) -> None:
    """The part of the bias that walks, x axis of one unit each."""
    for name, (colour, _) in UNITS.items():
        imu = Imu(name, rate_hz=1.0)
        gyro, _ = imu.biases(0.0, 3600.0, 1)
        walk = (gyro - imu.unit(1).gyroscope.bias)[:, 0]
        axes.plot(np.arange(3600) / 60.0, walk / DEG * 3600.0, color=colour, linewidth=1.0)
    axes.set(xlabel="time [min]", ylabel="bias [deg/h]", title="Gauss–Markov part of the bias")


def draw_drift(axes: Any) -> None:
    """Level position error of dead reckoning from rest, by small angles; units with the bias of the start taken off."""
    duration, rate_hz = 60.0, 50.0
    time = np.arange(int(duration * rate_hz)) / rate_hz
    for name, (colour, _) in UNITS.items():
        imu = Imu(name, rate_hz=rate_hz)
        errors = []
        for seed in range(SEEDS):
            data = imu.run(None, Still(), 0.0, duration + 10.0, seed=seed)
            rest = slice(0, int(10.0 * rate_hz))  # ten seconds of standing, as a robot would before it starts
            rate = (data.angular_rate - data.angular_rate[rest].mean(axis=0))[rest.stop :]
            force = (data.specific_force - data.specific_force[rest].mean(axis=0))[rest.stop :]
            tilt = np.cumsum(rate, axis=0) / rate_hz
            wrong = force[:, :2] + STANDARD_GRAVITY * np.stack([tilt[:, 1], -tilt[:, 0]], axis=1)
            errors.append(np.cumsum(np.cumsum(wrong, axis=0), axis=0) / rate_hz**2)
        axes.loglog(time[1:], np.sqrt(np.mean(np.square(errors), axis=(0, 2)))[1:], color=colour)
    axes.plot(time[500:], 2e-6 * time[500:] ** 3, color=RED, linewidth=0.8, linestyle="--", label="∝ t³")
    axes.set(xlabel="time [s]", ylabel="RMS position error [m]", title=f"Dead reckoning, {SEEDS} units each")
    axes.set_ylim(1e-4, 30.0)
    axes.set_xlim(0.5, 60.0)
    axes.legend(fontsize=8)


if __name__ == "__main__":
    figure, (left, middle, right) = sheet(13.0, 3.9, 3)
    draw_allan(left)
    draw_bias(middle)
    draw_drift(right)
    finish(figure, "imu")
