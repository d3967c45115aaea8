"""Motion of a vehicle that was driven: recorded step by step, smooth in between, replayed exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, quat_multiply
from parhelion.motion.checks import above
from parhelion.motion.curves import aligned, turn_rates
from parhelion.motion.state import BodyState, checked_times
from parhelion.motion.vehicles.base import Vehicle, state_of_rows
from parhelion.motion.vehicles.commands import Command

Controller = Callable[[Any], Command]
"""Gives a vehicle its command for the next step. One with a method `reset` is reset when a drive begins."""

MOST_STEPS = 10_000_000


def drive(vehicle: Vehicle, controller: Controller | Command, duration: float, dt: float = 0.02) -> DrivenMotion:
    """Drive a vehicle from where it is for `duration` [s], asking the controller (or holding one command) every `dt`.

    The last step may end up to `dt` after the duration. The same vehicle state and controller give the same bits.
    """
    above("drive: duration", duration, 0.0)
    above("drive: dt", dt, 0.0)
    steps = max(1, math.ceil(duration / dt - 1e-9))
    if steps > MOST_STEPS:
        raise ConfigError(f"drive: duration {duration} s in steps of {dt} s is more than {MOST_STEPS} steps")
    reset = getattr(controller, "reset", None)
    if callable(reset):
        reset()
    rows = [vehicle.row()]
    for _ in range(steps):
        vehicle.step(controller(vehicle) if callable(controller) else controller, dt)
        rows.append(vehicle.row())
    return DrivenMotion(state_of_rows(np.array(rows)))


class DrivenMotion:
    """A recorded drive. At the recorded times it gives the recorded state, bit for bit.

    Between them position and quaternion components are polynomials of degree 5 that meet value, velocity and
    acceleration at both ends (Hermite): all are continuous, also where a command made the vehicle's own acceleration
    jump, which is spread over the step before. Outside of the recording the body rests at its first or last pose.
    """

    def __init__(self, recorded: BodyState) -> None:
        times = recorded.time
        if len(times) < 2 or np.any(np.diff(times) <= 0.0):
            raise ConfigError("driven motion: needs states at two or more times that increase")
        self.recorded = recorded
        """The states as they were recorded."""
        quat = aligned(recorded.quat_xyzw)
        spin, twist = (
            np.concatenate([rate, np.zeros((len(times), 1))], axis=1)
            for rate in (recorded.angular_velocity, recorded.angular_acceleration)
        )
        turning = 0.5 * quat_multiply(quat, spin)
        # q'' = (q' w + q a) / 2, products of quaternions
        bending = 0.5 * (quat_multiply(turning, spin) + quat_multiply(quat, twist))
        self._factors = _hermite(
            np.diff(times)[:, None],
            np.concatenate([recorded.xyz, quat], axis=1),
            np.concatenate([recorded.velocity, turning], axis=1),
            np.concatenate([recorded.acceleration, bending], axis=1),
        )

    @property
    def start_time(self) -> float:
        return float(self.recorded.time[0])

    @property
    def end_time(self) -> float:
        return float(self.recorded.time[-1])

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        # As `state`, to the same bits, without the derivatives.
        within, row, leg = self._places(checked_times(times))
        c0, c1, c2, c3, c4, c5 = self._factors[:, leg]
        t = (within - self.recorded.time[leg])[:, None]
        value = c0 + t * (c1 + t * (c2 + t * (c3 + t * (c4 + t * c5))))
        xyz, quat = value[:, :3], value[:, 3:]
        quat = quat / np.sqrt(np.sum(quat**2, axis=-1, keepdims=True))
        exact = within == self.recorded.time[row]
        if exact.any():
            xyz, quat = xyz.copy(), quat.copy()
            xyz[exact], quat[exact] = self.recorded.xyz[row[exact]], self.recorded.quat_xyzw[row[exact]]
        return xyz, quat

    def _places(self, asked: Floats) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
        """Times within the recording, the last record not after each, and the step that each is in."""
        knots = self.recorded.time
        within = np.clip(asked, knots[0], knots[-1])
        row = np.searchsorted(knots, within, side="right") - 1
        return within, row, np.minimum(row, len(knots) - 2)

    def state(self, times: ArrayLike) -> BodyState:
        """The whole state at `times` (n,) [s]."""
        asked, knots = checked_times(times), self.recorded.time
        within, row, leg = self._places(asked)
        jet = _polynomial(self._factors[:, leg], (within - knots[leg])[:, None])
        quat, omega, alpha = turn_rates(jet[..., 3:])
        parts = [jet[0, :, :3], quat, jet[1, :, :3], omega, jet[2, :, :3], alpha]
        exact = (within == knots[row])[:, None]
        known = self.recorded
        stored = [known.xyz, known.quat_xyzw, known.velocity, known.angular_velocity]
        stored += [known.acceleration, known.angular_acceleration]
        parts = [np.where(exact, array[row], part) for array, part in zip(stored, parts, strict=True)]
        # A clock that counts in steps and one that adds them up differ by rounding, not by a rest.
        still = (np.abs(asked - within) > 1e-9)[:, None]
        parts[2:] = [np.where(still, 0.0, part) for part in parts[2:]]
        return BodyState(asked, *parts)


def _hermite(step: Floats, value: Floats, first: Floats, second: Floats) -> Floats:
    """Factors (6, n - 1, m) of powers of the time since each interval's start."""
    gap = value[1:] - value[:-1] - step * (first[:-1] + 0.5 * step * second[:-1])
    slope = step * (first[1:] - first[:-1] - step * second[:-1])
    bend = step**2 * (second[1:] - second[:-1])
    return np.stack(
        [
            value[:-1],
            first[:-1],
            0.5 * second[:-1],
            (10.0 * gap - 4.0 * slope + 0.5 * bend) / step**3,
            (-15.0 * gap + 7.0 * slope - bend) / step**4,
            (6.0 * gap - 3.0 * slope + 0.5 * bend) / step**5,
        ]
    )


def _polynomial(factors: Floats, t: Floats) -> Floats:
    """Values, first and second derivatives (3, n, m) of polynomials with factors (6, n, m) at times (n, 1)."""
    c0, c1, c2, c3, c4, c5 = factors
    value = c0 + t * (c1 + t * (c2 + t * (c3 + t * (c4 + t * c5))))
    first = c1 + t * (2.0 * c2 + t * (3.0 * c3 + t * (4.0 * c4 + t * 5.0 * c5)))
    return np.stack([value, first, 2.0 * c2 + t * (6.0 * c3 + t * (12.0 * c4 + t * 20.0 * c5))])
