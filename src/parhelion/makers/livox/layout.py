"""Layout of the points that livox_ros_driver2 publishes as PointCloud2 (`xfer_format` 0)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.makers.layouts import ClockXyzirt, whole


class LivoxPoints(ClockXyzirt):
    """Packed points of 26 bytes: tag, line, and `timestamp` on the sensor's clock [ns]."""

    dtype = np.dtype(
        [
            ("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<f4"), ("tag", "u1"), ("line", "u1"),
            ("timestamp", "<f8"),
        ]
    )  # fmt: skip
    unit_s = 1e-9

    def points(self, cloud: PointCloud, height: int = 0) -> NDArray[Any]:
        """See `CloudLayout.points`."""
        rows, fields = super().points(cloud, height), cloud.fields
        if "ring" in fields:
            rows["line"] = whole(fields["ring"], "u1")
        if "tag" in fields:
            rows["tag"] = whole(fields["tag"], "u1")
        elif "return_index" in fields:
            rows["tag"] = fields["return_index"] << 4  # bits 4 and 5 number the return
        return rows
