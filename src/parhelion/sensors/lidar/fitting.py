"""A world and a mount fitted to a recording: where the sensor stood, and what surfaces and receiver are like.

First the place, by Gauss and Newton on simulated ranges: the same shots are simulated without noise at a guess and at
ten poses beside it, whose differences are the gradient. The heading follows from edges, which have none. From there
`signal_fit` goes on with all parameters together.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.records import Scan
from parhelion.sensors.lidar.signal_fit import LidarFit, SignalSearch, by_shot, moved

if TYPE_CHECKING:
    from parhelion.sensors.lidar.lidar import Lidar
    from parhelion.world.world import World

Floats = NDArray[np.float64]

STEP_M, STEP_RAD = 0.005, 0.0005
"""How far beside the guess the gradient is taken."""
PASSES = ((1.0, 0.2, 5, 1.0), (0.2, 0.06, 3, 0.3), (0.06, 0.05, 2, 0.15), (0.05, 0.05, 1, 0.1))
"""Residuals [m] that count in the first and the last of some rounds, and how far the heading is looked for then [deg]:
far residuals are edges, and other things than meant."""
HEADING_DEG = 3.0
"""How far off the guess the heading is looked for at first."""
MISSED_M = 0.5
FEWEST_SHOTS = 100
LEAST_HEADING_ERROR_RAD = 1e-4


def fit(lidar: Lidar, world: World, recording: Scan, *, pose: Pose | None = None) -> LidarFit:
    """Pose and reflectances that make a simulated scan of `world` most like the recording.

    `pose` is a guess, by default the world's viewpoint; it may be off by some decimetres and degrees. The recording
    must have the sensor's table of shots. Raises ConfigError where too little of the recording fits the world.
    """
    if not isinstance(recording, Scan) or not len(recording.shots):
        raise ConfigError("fit: the recording needs its table of shots; give a Scan")
    table = lidar.shots(recording.start_time)
    if len(recording.shots) != len(table) or not np.allclose(recording.shots.direction, table.direction, atol=1e-3):
        raise ConfigError("fit: the recording's shots are not those of this sensor")
    still = copy.copy(lidar)  # with its rate and columns; device memory does not travel
    still.noise = False
    measured = by_shot(recording, recording.fields["range"])
    search = _Search(still, world, measured, recording.start_time)
    now = search.turned_best(world.viewpoint if pose is None else pose, HEADING_DEG)
    for first, last, rounds, span_deg in PASSES:
        for number in range(rounds):
            gate = first * (last / first) ** (number / max(rounds - 1, 1))
            now = search.step(now, gate)
        now = search.turned_best(now, span_deg)
    beside = [_moved(now, axis, 4.0 * sign) for axis in (1, 2) for sign in (1.0, -1.0)]
    signal = SignalSearch(lidar, still, world, recording, [now, *beside])
    return signal.fit(now, max(search.heading_error_rad, LEAST_HEADING_ERROR_RAD))


class _Search:
    """Poses tried against the ranges of a recording.

    Ranges tell position, roll and pitch by their gradient. The heading shows at edges, where ranges jump and have no
    gradient: there, the share of shots that meet something else is least for the right one, and grows evenly to
    either side.
    """

    def __init__(self, still: Lidar, world: World, measured: Floats, time: float) -> None:
        self.still, self.world, self.measured, self.time = still, world, measured, time
        self.error, self.rms, self.shots, self.heading_error_rad = np.zeros(5), 0.0, 0, 0.0

    def ranges(self, poses: list[Pose]) -> list[Floats]:
        """Simulated ranges of all shots at poses."""
        scans = self.still.scan_many(self.world, poses, time=self.time)
        return [by_shot(scan, scan.fields["range"]) for scan in scans]

    def step(self, now: Pose, gate_m: float) -> Pose:
        """One step of Gauss and Newton in position, roll and pitch."""
        sizes = np.array([_step(k) for k in range(5)])
        here, *beside = self.ranges([now, *(_moved(now, axis, sign) for axis in range(5) for sign in (1.0, -1.0))])
        gradient = np.stack([(beside[2 * k] - beside[2 * k + 1]) / (2.0 * sizes[k]) for k in range(5)], axis=1)
        off = self.measured - here
        # Where poses beside the guess meet other surfaces, the difference is no gradient.
        smooth = np.all(np.abs(gradient * sizes) < 0.1, axis=1)
        use = np.isfinite(off) & np.isfinite(gradient).all(axis=1) & smooth & (np.abs(off) < gate_m)
        if use.sum() < FEWEST_SHOTS:
            fitting = f"only {int(use.sum())} shots fit the world within {gate_m:.2f} m"
            raise ConfigError(f"fit: {fitting}; guess a nearer pose")
        a, b = gradient[use], off[use]
        usual = max(1.4826 * float(np.median(np.abs(b - np.median(b)))), 1e-4)
        weight = 1.0 / np.maximum(1.0, np.abs(b) / (1.5 * usual))
        normal = a.T @ (weight[:, None] * a)
        change = np.linalg.solve(normal + 1e-9 * np.eye(5) * np.trace(normal), a.T @ (weight * b))
        self.error = np.sqrt(np.diag(np.linalg.inv(normal))) * usual
        self.rms, self.shots = float(np.sqrt(np.mean(b**2))), int(use.sum())
        return moved(now, np.append(change, 0.0))

    def turned_best(self, now: Pose, span_deg: float, number: int = 17) -> Pose:
        """The pose turned about the vertical so that as many shots as can be meet what they met."""
        turns = np.radians(np.linspace(-span_deg, span_deg, number))
        poses = [moved(now, np.array([0.0, 0.0, 0.0, 0.0, 0.0, turn])) for turn in turns]
        wrong = np.array([self._wrong(one) for one in self.ranges(poses)])
        # Two even slopes that meet at the right heading: the place where they fit best.
        places = np.linspace(turns[0], turns[-1], 20 * number)
        misfits, slopes = [], []
        for place in places:
            design = np.stack([np.ones(number), np.abs(turns - place)], axis=1)
            found, left, *_ = np.linalg.lstsq(design, wrong, rcond=None)
            misfits.append(float(left[0]) if len(left) and found[1] > 0.0 else np.inf)
            slopes.append(float(found[1]))
        best = int(np.argmin(misfits))
        if not np.isfinite(misfits[best]):
            return now
        scatter = np.sqrt(misfits[best] / number)
        self.heading_error_rad = float(scatter / slopes[best] / np.sqrt(number))
        return moved(now, np.array([0.0, 0.0, 0.0, 0.0, 0.0, places[best]]))

    def _wrong(self, simulated: Floats) -> float:
        """Mean of how far shots miss what they met, 1 where that is half a metre or nothing at all."""
        lost, gone = np.isnan(self.measured), np.isnan(simulated)
        off = np.minimum(np.abs(self.measured - simulated) / MISSED_M, 1.0)
        return float(np.mean(np.where(lost & gone, 0.0, np.where(lost | gone, 1.0, off))))


def _step(axis: int) -> float:
    return STEP_M if axis < 3 else STEP_RAD


def _moved(pose: Pose, axis: int, sign: float) -> Pose:
    change = np.zeros(6)
    change[axis] = sign * _step(axis)
    return moved(pose, change)
