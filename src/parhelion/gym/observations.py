"""Observation spaces of sensors: a table that maps a type of record to a space and to the array of a record.

    OBSERVATIONS.add(MyRecord, my_reading)      # packages that add sensors call this

A function of the table receives the sensor, an example record and the options, and returns a `Reading`. All bounds are
finite; values beyond them are clipped, and missing values (NaN) are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.consumers import Consumer
from parhelion.core.frames import EchoScan, RadarScan
from parhelion.core.image import Image
from parhelion.core.streams import BarometerData, GnssData, ImuData, MagnetometerData, OdometryData, Samples, UwbData
from parhelion.pictures.grids import azimuth_elevation, is_organised

LARGEST = 1e6
"""Bound of numbers without a limit of their own."""
_ELEVATIONS = 32
"""Rows of the range image of a lidar whose shots do not lie on rings."""


@dataclass(frozen=True)
class Options:
    """Settings of observations."""

    rows: int = 1
    """Samples of a stream sensor per observation."""
    azimuths: int = 360
    """Largest number of columns of a lidar's range image."""
    points: int = 64
    """Largest number of detections of a radar or echo sensor."""


@dataclass(frozen=True)
class Reading:
    """Observation of one sensor."""

    space: spaces.Space[Any]
    blank: Any
    """Observation before the first measurement."""
    read: Callable[[Any, Any], Any]
    """Next observation from the previous one and a record."""


Function = Callable[[Any, Any, Options], Reading]


# ---- frames ---------------------------------------------------------------------------------------------------------


class _RangeImage:
    """Nearest range of a scan by ring and azimuth; row 0 is at the top, column 0 at the left, straight ahead in the
    middle for a full revolution."""

    def __init__(self, example: Scan, far_m: float, options: Options) -> None:
        self._far = np.float32(far_m)
        azimuth, elevation = azimuth_elevation(example)
        self._fixed = is_organised(example)
        """True if all scans have the same directions, so that bins are computed once."""
        self._left, self._right = float(azimuth.max(initial=0.0)), float(azimuth.min(initial=0.0))
        if self._left - self._right > 6.0:
            self._left, self._right = np.pi, -np.pi
        self._top, self._bottom = float(elevation.max(initial=0.0)), float(elevation.min(initial=0.0))
        rings = np.unique(example.shots.ring)
        rows = len(rings) if self._fixed else _ELEVATIONS
        per_row = max(1, len(example.shots) // rows)
        self.shape = (rows, min(options.azimuths, per_row))
        self._bin = self._bins(example)

    def _bins(self, scan: Scan) -> NDArray[np.intp]:
        """Pixel of each shot, as an index into the flat image."""
        azimuth, elevation = azimuth_elevation(scan)
        rows, columns = self.shape
        column = (self._left - azimuth) / max(self._left - self._right, 1e-6) * columns
        if self._fixed:
            rings, ring = np.unique(scan.shots.ring, return_inverse=True)
            row = len(rings) - 1 - ring
        else:
            row = np.floor((self._top - elevation) / max(self._top - self._bottom, 1e-6) * rows)
        clipped = (np.clip(np.floor(values), 0, size - 1) for values, size in ((row, rows), (column, columns)))
        return np.ravel_multi_index([one.astype(np.intp) for one in clipped], self.shape)

    def read(self, previous: Any, scan: Scan) -> NDArray[np.float32]:
        """Image of a scan [m]; the bin of a direction without a return has the longest range."""
        bins = self._bin if self._fixed and len(self._bin) == len(scan.shots) else self._bins(scan)
        image = np.full(self.shape[0] * self.shape[1], self._far)
        np.minimum.at(image, bins[scan.fields["shot"]], scan.fields["range"])
        return image.reshape(self.shape)


def _range_image(sensor: Any, example: Scan, options: Options) -> Reading:
    """Range image up to the longest range of the data sheet, which is the value of directions without a return."""
    far_m = float(sensor.config.range.max_m)
    image = _RangeImage(example, far_m, options)
    space = spaces.Box(0.0, far_m, image.shape, np.float32)
    return Reading(space, np.full(image.shape, far_m, np.float32), image.read)


def _picture(sensor: Any, example: Image, options: Options) -> Reading:
    """Picture as it is; a depth camera adds its depth [m], 0 without a measurement."""
    colour = example.colour
    dtype: Any = colour.dtype.type
    most = LARGEST if colour.dtype.kind == "f" else np.iinfo(dtype).max
    picture = spaces.Box(0, most, colour.shape, dtype)
    blank: Any = np.zeros(colour.shape, dtype)
    if example.measured_depth is None:
        return Reading(picture, blank, lambda previous, image: _copied(image.colour, most))
    depth = spaces.Box(0.0, np.float32(1e3), example.measured_depth.shape, np.float32)
    both = spaces.Dict({"colour": picture, "depth": depth})
    blanks = {"colour": blank, "depth": np.zeros(depth.shape, np.float32)}

    def read(previous: Any, image: Image) -> dict[str, NDArray[Any]]:
        return {"colour": _copied(image.colour, most), "depth": _bounded(image.measured_depth, 1e3)}

    return Reading(both, blanks, read)


def _copied(values: NDArray[Any], most: float) -> NDArray[Any]:
    return np.clip(values, 0, most) if values.dtype.kind == "f" else np.array(values)


def _detections(names: tuple[str, ...]) -> Function:
    """Function for records with a varying number of points: the first rows of their fields, and a mask."""

    def reading(sensor: Any, example: PointCloud, options: Options) -> Reading:
        shape = (options.points, len(names))
        space = spaces.Dict(
            {"points": spaces.Box(-LARGEST, LARGEST, shape, np.float32), "mask": spaces.MultiBinary(options.points)}
        )

        def read(previous: Any, record: PointCloud) -> dict[str, NDArray[Any]]:
            count = min(len(record), options.points)
            points, mask = np.zeros(shape, np.float32), np.zeros(options.points, np.int8)
            for k, name in enumerate(names):
                points[:count, k] = _bounded(record.fields[name][:count])
            mask[:count] = 1
            return {"points": points, "mask": mask}

        blank = {"points": np.zeros(shape, np.float32), "mask": np.zeros(options.points, np.int8)}
        return Reading(space, blank, read)

    return reading


# ---- samples --------------------------------------------------------------------------------------------------------


def _columns(*names: str) -> Function:
    """Function for samples: the latest rows of these fields, the newest last."""

    def reading(sensor: Any, example: Samples, options: Options) -> Reading:
        present = [name for name in names if getattr(example, name) is not None]

        def rows(record: Samples) -> NDArray[np.float32]:
            parts = [np.asarray(getattr(record, name), np.float64).reshape(len(record), -1) for name in present]
            return _bounded(np.concatenate(parts, axis=1))

        return _latest(rows, rows(example).shape[1], options)

    return reading


def _all_columns(sensor: Any, example: Samples, options: Options) -> Reading:
    """All columns of numbers of samples without an entry of their own."""

    def rows(record: Samples) -> NDArray[np.float32]:
        columns = [one.values for one in record.table() if one.name != "time" and one.values.dtype.kind in "fiub"]
        return _bounded(np.stack([np.asarray(one, np.float64) for one in columns], axis=1))

    return _latest(rows, rows(example).shape[1], options)


def _latest(rows: Callable[[Any], NDArray[np.float32]], columns: int, options: Options) -> Reading:
    shape = (options.rows, columns)

    def read(previous: NDArray[np.float32], record: Samples) -> NDArray[np.float32]:
        return np.concatenate([previous, rows(record)])[-options.rows :] if len(record) else previous

    return Reading(spaces.Box(-LARGEST, LARGEST, shape, np.float32), np.zeros(shape, np.float32), read)


def _bounded(values: Any, most: float = LARGEST) -> NDArray[np.float32]:
    """Finite numbers within the bounds: NaN becomes 0."""
    return np.clip(np.nan_to_num(np.asarray(values, np.float64), posinf=most, neginf=-most), -most, most).astype(
        np.float32
    )


OBSERVATIONS: Consumer[Function] = Consumer(
    "gymnasium",
    {
        Scan: _range_image,
        Image: _picture,
        RadarScan: _detections(("range", "azimuth", "elevation", "radial_velocity", "rcs")),
        EchoScan: _detections(("range", "azimuth", "elevation", "snr")),
        ImuData: _columns("specific_force", "angular_rate"),
        OdometryData: _columns("velocity", "angular_velocity", "xyz", "quat_xyzw"),
        BarometerData: _columns("pressure", "altitude"),
        MagnetometerData: _columns("magnetic_field"),
        GnssData: _columns("mode", "position", "velocity"),
        UwbData: _columns("range", "position"),
        Samples: _all_columns,
    },
)
"""Functions that return the observation of a sensor, by type of its records."""
