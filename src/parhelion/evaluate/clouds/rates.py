"""Measures of a lidar in rain, as defined by Arce 2025, appendix B: eqs. (B.1) to (B.6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.clouds import PointCloud, origin_names
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.evaluate.clouds.distances import nearest_distances, points_of
from parhelion.weather import media

DEFAULT_TOLERANCE_M = 0.2
"""Default distance from the reference within which a detection is correct."""


@dataclass(frozen=True)
class PointsByOrigin:
    """Points of a cloud by origin."""

    correct: int
    """Points on objects."""
    false: int
    """Points caused by drops, flakes, fog or dust."""
    total: int
    """All detected points; ghosts of reflections and false alarms are neither correct nor rain."""

    @property
    def detection_rate_percent(self) -> float:
        """Share of correct points among all detected points [%] (B.1)."""
        return 100.0 * self.correct / self.total

    @property
    def false_detection_rate_percent(self) -> float:
        """Share of points classified as rain among all detected points [%] (B.2)."""
        return 100.0 * self.false / self.total


def detections(
    cloud: PointCloud, reference: PointCloud | None = None, tolerance_m: float | None = None
) -> PointsByOrigin:
    """Points on objects, and points caused by weather.

    Simulated clouds state the origin of each point in the field `origin`. A recorded point is correct if the dry
    reference has a point within `tolerance_m` (default 0.2 m), and false otherwise.
    """
    if tolerance_m is None and "origin" in cloud.fields:
        return _by_origin(cloud)
    if reference is None:
        raise ConfigError("detection rate: the cloud has no field 'origin', so a dry reference cloud is needed")
    points = points_of(cloud, "cloud")
    near = nearest_distances(points, points_of(reference, "reference cloud")) <= (tolerance_m or DEFAULT_TOLERANCE_M)
    correct = int(np.count_nonzero(near))
    return PointsByOrigin(correct, len(points) - correct, len(points))


def _by_origin(cloud: PointCloud) -> PointsByOrigin:
    if not len(cloud):
        raise ConfigError("detection rate: the cloud is empty")
    names: Mapping[int, str] = cloud.names.get("origin") or origin_names()

    def number(*words: str) -> int:
        wanted = [code for code, word in names.items() if word in words]
        return int(np.count_nonzero(np.isin(cloud.fields["origin"], wanted)))

    return PointsByOrigin(number("surface"), number(*media.names()), len(cloud))


def range_error(real: ArrayLike, simulated: ArrayLike) -> float:
    """Mean absolute difference between corresponding ranges [m] (B.3)."""
    a, b = np.asarray(real, np.float64), np.asarray(simulated, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise ConfigError(f"range error: ranges must be pairs, got {a.shape} and {b.shape}")
    if not len(a):
        raise ConfigError("range error: no pairs of ranges")
    return float(np.mean(np.abs(a - b)))


def snr_db(signal: ArrayLike) -> float:
    """Signal-to-noise ratio 20 log10(mean / standard deviation) [dB] (B.4); infinite without scatter."""
    values = np.asarray(signal, np.float64)
    if not len(values):
        raise ConfigError("SNR: no values of the signal")
    mean, deviation = float(values.mean()), float(values.std())
    if mean <= 0.0:
        raise ConfigError(f"SNR: the mean of the signal must be above 0, got {mean:g}")
    return math.inf if deviation == 0.0 else 20.0 * math.log10(mean / deviation)


def snr_of_shots(signals: list[tuple[NDArray[np.int64], Floats]], fewest: int = 5) -> tuple[float, int]:
    """SNR of a stationary scene from several scans [dB], and the number of shots it is based on.

    Each scan gives the numbers of its shots and their signal. Every shot that returned in `fewest` scans or more has a
    mean and a deviation over the scans; the ratio (B.4) is that of the root mean square of deviation/mean. Shots
    without scatter are included, because without them only the outliers of a static scene remain. Unlike
    the ratio over one cloud, differences between bright and dark surfaces do not count as noise.
    """
    if not signals:
        raise ConfigError("SNR: no scans")
    shots = np.concatenate([shot for shot, _ in signals]).astype(np.int64)
    values = np.concatenate([value for _, value in signals]).astype(np.float64)
    names, shots = np.unique(shots, return_inverse=True)
    number = np.bincount(shots, minlength=len(names))
    mean = np.bincount(shots, values, len(names)) / np.maximum(number, 1)
    variance = np.bincount(shots, np.square(values - mean[shots]), len(names)) / np.maximum(number, 1)
    kept = (number >= fewest) & (mean > 0.0)
    if not kept.any():
        raise ConfigError(f"SNR: no shot returned in {fewest} scans or more with a signal above 0")
    noise = float(np.mean(variance[kept] / np.square(mean[kept])))
    return (math.inf if noise == 0.0 else -10.0 * math.log10(noise)), int(kept.sum())


def density(valid_points: int, scan_area: float) -> float:
    """Valid points over the scanned area [1/m²] (B.5); with a volume [m³] it is Huang's density [1/m³]."""
    if not scan_area > 0.0:
        raise ConfigError(f"density: the scanned area must be above 0, got {scan_area:g}")
    return valid_points / scan_area


def scan_area(fov_horizontal_deg: float, fov_vertical_deg: float, range_m: float) -> float:
    """Area [m²] of the section of a sphere in the field of view of a lidar, centred on the horizon, at a range.

    Arce states that field of view and range determine the area; this is the area itself.
    """
    if not (0.0 < fov_horizontal_deg <= 360.0 and 0.0 < fov_vertical_deg <= 180.0 and range_m > 0.0):
        raise ConfigError("scan area: give angles within 360° and 180°, and a range above 0")
    half = math.radians(fov_vertical_deg) / 2.0
    return math.radians(fov_horizontal_deg) * 2.0 * math.sin(half) * range_m**2


def sparsity_percent(clear_density: float, density_in_weather: float) -> float:
    """Loss of density relative to clear air [%] (Huang 2023, Table V)."""
    if not clear_density > 0.0:
        raise ConfigError(f"sparsity: the density in clear air must be above 0, got {clear_density:g}")
    return 100.0 * (1.0 - density_in_weather / clear_density)


def mape_percent(measured: ArrayLike, simulated: ArrayLike) -> float:
    """Mean absolute percentage error of simulated relative to measured values [%] (B.6)."""
    y, x = np.asarray(measured, np.float64), np.asarray(simulated, np.float64)
    if y.shape != x.shape or y.ndim != 1 or not len(y):
        raise ConfigError(f"MAPE: give equal numbers of simulated and measured values, got {y.shape} and {x.shape}")
    if np.any(y == 0.0) or not np.all(np.isfinite([*y, *x])):
        raise ConfigError("MAPE: measured values must not be 0, and all values finite")
    return float(100.0 * np.mean(np.abs((y - x) / y)))


# ---- pairs of points -------------------------------------------------------------------------------------------------


def paired_ranges(real: PointCloud, simulated: PointCloud) -> tuple[Floats, Floats] | None:
    """Ranges of the same shots in two clouds [m]; None if the clouds do not identify shots.

    Shots are identified by `ring` and `column`, or by `shot`; of several returns the first in the file counts.
    """
    keys = _shot_numbers(real, simulated)
    if keys is None:
        return None
    (a, rows_a), (b, rows_b) = (np.unique(key, return_index=True) for key in keys)
    _, in_a, in_b = np.intersect1d(a, b, assume_unique=True, return_indices=True)
    return ranges_of(real)[rows_a[in_a]], ranges_of(simulated)[rows_b[in_b]]


def _shot_numbers(real: PointCloud, simulated: PointCloud) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    def both_have(*names: str) -> bool:
        return all(name in cloud.fields for cloud in (real, simulated) for name in names)

    if both_have("ring", "column"):
        first, second = (
            np.asarray(cloud.fields["ring"], np.int64) * 2**32 + np.asarray(cloud.fields["column"], np.int64)
            for cloud in (real, simulated)
        )
        return first, second
    if both_have("shot"):
        return np.asarray(real.fields["shot"], np.int64), np.asarray(simulated.fields["shot"], np.int64)
    return None


def ranges_of(cloud: PointCloud) -> Floats:
    """Range of each point [m]: the measured one, or the distance from the sensor."""
    if "range" in cloud.fields:
        return np.asarray(cloud.fields["range"], np.float64)
    return np.asarray(np.linalg.norm(np.asarray(cloud.xyz, np.float64), axis=1), np.float64)
