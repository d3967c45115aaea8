"""What radars and sounders have in common: one frame, as points that the sensor found."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from parhelion.core.pose import Pose
from parhelion.core.records import PointCloud


@dataclass(frozen=True, eq=False, repr=False)
class FramePoints(PointCloud):
    """Points of one frame in the sensor's frame, and where the sensor was."""

    pose: Pose = field(default_factory=Pose, kw_only=True)
    """The sensor in the world at the frame's start."""
    start_time: float = field(default=0.0, kw_only=True)
    """Start of the frame on the world's clock [s]."""
    duration: float = field(default=0.0, kw_only=True)
    """How long the frame took [s]."""

    def in_world(self) -> PointCloud:
        """The points in the world's frame (float64), by the pose at the frame's start."""
        points = self.pose.apply(self.xyz.astype(np.float64))
        return PointCloud(points, self.fields, "world", self.names, self.metadata)
