"""Layouts of points in PointCloud2, as ROS drivers of real sensors publish them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import unknown_name
from parhelion.makers import RosDriver, maker_called, makers

Columns = dict[str, NDArray[Any]]


class CloudLayout(ABC):
    """Layout of a driver's PointCloud2. Subclasses set `dtype` and implement `points`."""

    dtype: np.dtype[Any]
    """Structure of one point, with `x`, `y` and `z`."""
    zero_is_missing: bool = False
    """True if the driver marks shots without a return by a point at 0, 0, 0."""

    @abstractmethod
    def points(self, cloud: PointCloud, height: int = 0) -> NDArray[Any]:
        """Points of a cloud in its own order; `height` is that of the organised cloud that they go into, 0 if none."""

    def values(self, cloud: PointCloud, height: int, names: Collection[str]) -> Columns:
        """Some fields of `points`; layouts of large clouds may compute them without the others."""
        rows = self.points(cloud, height)
        return {name: rows[name] for name in names if name in (rows.dtype.names or ())}

    def rows(self, cloud: PointCloud, echo: int = 0) -> tuple[NDArray[Any], tuple[int, int]]:
        """Points in the driver's order, and (height, width). `echo` selects the return for one-return layouts."""
        return self.points(cloud), (1, len(cloud))

    def stamped(self, rows: NDArray[Any], time_ns: int) -> NDArray[Any]:
        """Rows of `rows` in a message with that stamp, for drivers whose points have times on the sensor's clock."""
        return rows

    def matches(self, dtype: np.dtype[Any]) -> bool:
        """True if a message of this structure needs the layout's own conversion (`columns`)."""
        return False

    def columns(self, columns: Columns, height: int) -> Columns:
        """Columns of a message with values that common conversions do not cover converted to Parhelion's units."""
        return columns


class PackedXyzirt(CloudLayout):
    """velodyne_pointcloud's PointXYZIRT, packed, 22 bytes per point; `time` [s] after the header's stamp."""

    dtype = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<f4"), ("ring", "<u2"), ("time", "<f4")])

    def points(self, cloud: PointCloud, height: int = 0) -> NDArray[Any]:
        """See `CloudLayout.points`."""
        rows = with_xyz(self.dtype, cloud)
        for name in ("intensity", "ring", "time"):
            if name in cloud.fields:
                rows[name] = cloud.fields[name]
        return rows


XYZIRT = PackedXyzirt()
"""Default layout."""


class ClockXyzirt(CloudLayout):
    """Packed points of 26 bytes with `timestamp` on the sensor's clock [s], as hesai_ros_driver and rslidar_sdk do."""

    dtype = np.dtype(
        [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<f4"), ("ring", "<u2"), ("timestamp", "<f8")]
    )
    unit_s: float = 1.0
    """Unit of `timestamp`."""

    def points(self, cloud: PointCloud, height: int = 0) -> NDArray[Any]:
        """See `CloudLayout.points`; times count from the start of the cloud."""
        rows = with_xyz(self.dtype, cloud)
        for name, ours in (("intensity", "intensity"), ("ring", "ring"), ("timestamp", "time")):
            if ours in cloud.fields and name in (self.dtype.names or ()):
                rows[name] = cloud.fields[ours]
        rows["timestamp"] /= self.unit_s
        return rows

    def stamped(self, rows: NDArray[Any], time_ns: int) -> NDArray[Any]:
        """See `CloudLayout.stamped`."""
        rows["timestamp"] += time_ns * (1e-9 / self.unit_s)
        return rows


CLOCK_XYZIRT = ClockXyzirt()
"""Layout of the drivers of Hesai and RoboSense."""


class PackedXyzvirt(CloudLayout):
    """Packed points of 26 bytes with `velocity`, the radial velocity [m/s], of lidars that measure it."""

    dtype = np.dtype(
        [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("velocity", "<f4"), ("intensity", "<f4"), ("ring", "<u2"),
         ("time", "<f4")]
    )  # fmt: skip

    def points(self, cloud: PointCloud, height: int = 0) -> NDArray[Any]:
        """See `CloudLayout.points`."""
        rows = with_xyz(self.dtype, cloud)
        for name, ours in (("velocity", "radial_velocity"), *((one, one) for one in ("intensity", "ring", "time"))):
            if ours in cloud.fields:
                rows[name] = cloud.fields[ours]
        return rows


XYZVIRT = PackedXyzvirt()
"""Layout with radial velocity."""


def with_xyz(dtype: np.dtype[Any], cloud: PointCloud) -> NDArray[Any]:
    """Rows of a structure with a cloud's coordinates; all other fields are 0."""
    rows = np.zeros(len(cloud), dtype)
    for axis, name in enumerate("xyz"):
        rows[name] = cloud.xyz[:, axis]
    return rows


def whole(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Values rounded into the range of an integer type; NaN becomes 0."""
    limits = np.iinfo(dtype)
    clean = np.rint(np.asarray(values, np.float64))
    if not np.isfinite(clean).all():
        clean = np.nan_to_num(clean, nan=0.0, posinf=limits.max, neginf=0.0)
    return np.clip(clean, limits.min, limits.max, out=clean).astype(dtype)


def layouts() -> dict[str, CloudLayout]:
    """Driver layouts by the maker's name."""
    return {name: maker.ros.layout for name, maker in makers().items() if maker.ros.layout is not None}


def driver_called(layout: str) -> RosDriver:
    """ROS driver with the layout `layout`."""
    known = layouts()
    if layout not in known:
        raise unknown_name("layout of point clouds", layout, [*known, "all"])
    return maker_called(layout).ros
