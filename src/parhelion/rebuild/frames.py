"""Frames of a recording for rebuilding: every shot with its direction, time and range, including lost shots."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import quat_multiply, quat_rotate

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class FrameShots:
    """Shots of one revolution in the sensor frame."""

    name: str
    """Name in messages, for example the file and the number of the frame."""
    time_s: float
    """Time of the pose of the frame [s], by the clock of the recording."""
    direction: Singles
    """Unit direction of each shot, shape (n, 3)."""
    range_m: Singles
    """Distance from the beam exit to the strongest return [m]; NaN for lost shots, shape (n,)."""
    origin: Singles
    """Beam exit of each shot [m], shape (n, 3)."""
    delay_s: Singles
    """Time of each shot relative to `time_s` [s], shape (n,); zeros for snapshots."""
    ring: NDArray[np.int16]
    """Ring of each shot, 0 the lowest; -1 if unknown, shape (n,)."""
    intensity: Singles
    """Intensity on the scale of the recording; NaN for lost shots and recordings without intensity, shape (n,)."""
    knows_lost: bool = True
    """The frame contains lost shots."""
    is_reflectance: bool = False
    """`intensity` is the calibrated reflectivity of the sensor: 1 for a white diffuser that faces it, at any range."""

    def __len__(self) -> int:
        return len(self.range_m)

    @property
    def returned(self) -> Mask:
        """Mask of the shots with a return, shape (n,)."""
        return np.isfinite(self.range_m)

    def rows(self, wanted: NDArray[np.int64] | Mask) -> FrameShots:
        """Selected shots."""
        names = ("direction", "range_m", "origin", "delay_s", "ring", "intensity")
        return replace(self, **{name: getattr(self, name)[wanted] for name in names})


@dataclass(frozen=True, eq=False)
class Path:
    """Poses of the frames and the motion of the sensor during each frame."""

    xyz: Floats
    """Position at the time of each frame [m], shape (frames, 3)."""
    quat_xyzw: Floats
    """Orientation, sensor to world, shape (frames, 4)."""
    velocity: Floats
    """Velocity in the world frame during the frame [m/s], shape (frames, 3); zeros for snapshots."""
    rate: Floats
    """Angular rate in the sensor frame during the frame [rad/s], shape (frames, 3); zeros for snapshots."""

    def __len__(self) -> int:
        return len(self.xyz)

    def rows(self, wanted: NDArray[np.int64] | list[int]) -> Path:
        """Selected frames."""
        return Path(self.xyz[wanted], self.quat_xyzw[wanted], self.velocity[wanted], self.rate[wanted])

    @classmethod
    def joined(cls, parts: list[Path]) -> Path:
        """All frames of several paths, in order."""
        names = ("xyz", "quat_xyzw", "velocity", "rate")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def motion(self, number: int, delay_s: Singles) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and quaternions (n, 4) of the sensor at delays after the time of a frame [s]."""
        delay = delay_s.astype(np.float64)[:, None]
        xyz = self.xyz[number] + delay * self.velocity[number]
        half = 0.5 * delay * self.rate[number]
        # Rotations within a frame are small: a normalised first-order quaternion is exact to the third order.
        turn = np.concatenate([half, np.ones((len(half), 1))], axis=1)
        turn /= np.linalg.norm(turn, axis=1, keepdims=True)
        return xyz, quat_multiply(np.broadcast_to(self.quat_xyzw[number], turn.shape), turn)

    def rays(self, number: int, frame: FrameShots) -> tuple[Floats, Floats]:
        """Start points (n, 3) [m] and unit directions (n, 3) of the shots of a frame in the world."""
        xyz, quat = self.motion(number, frame.delay_s)
        return xyz + quat_rotate(quat, frame.origin.astype(np.float64)), quat_rotate(
            quat, frame.direction.astype(np.float64)
        )

    def points(self, number: int, frame: FrameShots) -> tuple[Floats, Floats]:
        """World positions (n, 3) [m] of the returns of a frame, and directions (n, 3) of their shots."""
        start, along = self.rays(number, frame)
        return start + frame.range_m.astype(np.float64)[:, None] * along, along
