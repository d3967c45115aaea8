"""One scan as a picture: what the sensor sees all around, and its points from above."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError
from parhelion.pictures import panels
from parhelion.pictures.grids import is_organised, panorama
from parhelion.pictures.style import HEIGHT_COLOURS, check_picture, quiet, save, sheet

_WIDTH_IN, _HEIGHT_IN = 15.0, 10.6
_FLAT_M = 0.05


def draw_scan(scan: Scan, path: str | PathLike[str], title: str | None = None) -> None:
    """Range and intensity as the sensor sees them, and the points from above by label and by height.

    Spinning and raster sensors give panoramas; patterns without a grid give dots over azimuth and elevation; sensors
    of one or two rings a profile. The view from above is in the sensor frame at the start of the scan, x forward.
    """
    check_picture(path)
    if not isinstance(scan, Scan):
        raise ConfigError(f"draw_scan: expected a Scan with its table of shots, got {type(scan).__name__}")
    figure = sheet(_WIDTH_IN, _HEIGHT_IN)
    panels.heading(figure, title or scan_title(scan), scan_facts(scan))
    sensor_panels(figure, scan, top=0.895, bottom=0.555)
    _from_above(figure, scan)
    save(figure, path)


def scan_title(scan: Scan) -> str:
    """Sensor and world, as far as the scan knows them."""
    known = [str(scan.metadata[key]) for key in ("sensor", "world") if scan.metadata.get(key)]
    return "  ·  ".join(known) or "scan"


def scan_facts(scan: Scan) -> str:
    """Numbers of points and shots, lost ones, and the nearest and farthest range."""
    lost = int(scan.lost.sum())
    facts = [f"{len(scan):,} points of {len(scan.shots):,} shots", f"{lost:,} without return"]
    if len(scan):
        distance = scan.fields["range"]
        facts.append(f"range {distance.min():.2f} to {distance.max():.1f} m")
    facts.append(f"t = {scan.start_time:.2f} s")
    return "   |   ".join(facts).replace(",", " ")


def sensor_panels(figure: Any, scan: Scan, *, top: float, bottom: float, note: str = "") -> None:
    """Range and intensity from the sensor's own place, between two heights of the sheet; `note` follows the titles."""
    if not is_organised(scan):
        grid = figure.add_gridspec(1, 2, left=0.045, right=0.94, top=top, bottom=bottom, wspace=0.17)
        for column, name in enumerate(("range", "intensity")):
            panels.scatter_panel(figure, figure.add_subplot(grid[0, column]), scan, name, note)
        return
    layout = panorama(scan)
    if layout.shape[0] <= 2:
        grid = figure.add_gridspec(1, 1, left=0.045, right=0.94, top=top, bottom=bottom)
        panels.profile_panel(figure, figure.add_subplot(grid[0, 0]), scan, note)
        return
    grid = figure.add_gridspec(2, 1, left=0.045, right=0.94, top=top, bottom=bottom, hspace=0.24)
    for row, name in enumerate(("range", "intensity")):
        axes = figure.add_subplot(grid[row, 0])
        panels.panorama_panel(figure, axes, scan, layout, name, note, azimuth_labels=row == 1)


def _from_above(figure: Any, scan: Scan) -> None:
    points = scan.deskewed() if scan.frame == "sensor" else scan
    xyz = np.asarray(points.xyz, np.float64)
    grid = figure.add_gridspec(1, 2, left=0.045, right=0.985, top=0.475, bottom=0.055, wspace=0.36)
    by_label, beside = (figure.add_subplot(grid[0, column]) for column in range(2))
    middle, half = _reach(xyz)
    extent = panels.fitted_extent(by_label, middle, *half)
    names = scan.names.get("label", {})
    quiet(by_label, "From above, by label")
    if "label" in points.fields:
        label = points.fields["label"]
        panels.map_panel(by_label, xyz, panels.label_rgb(label, names, xyz[:, 2]), extent)
        panels.label_legend(
            by_label, label, names, most=16, loc="upper left", bbox_to_anchor=(1.015, 1.0), borderaxespad=0.0
        )
    if len(xyz) and np.ptp(xyz[:, 2]) > _FLAT_M:
        quiet(beside, "From above, by height")
        panels.scalar_map_panel(figure, beside, xyz, xyz[:, 2], extent, HEIGHT_COLOURS, "height above the sensor [m]")
    else:
        quiet(beside, "From above, by range")
        distance = points.fields["range"]
        panels.scalar_map_panel(figure, beside, xyz, distance, extent, HEIGHT_COLOURS, "range [m]")
    for axes in (by_label, beside):
        panels.sensor_mark(axes, 0.0, 0.0, 0.0, 0.09 * (extent[1] - extent[0]) / 2)


def _reach(xyz: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Middle and half sides [m] of a rectangle that holds the sensor and nearly all points."""
    if len(xyz) == 0:
        return np.zeros(2), np.ones(2)
    low, high = np.percentile(xyz[:, :2], [1.5, 98.5], axis=0)
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    return (low + high) / 2, np.maximum(1.06 * (high - low) / 2, 0.5)
