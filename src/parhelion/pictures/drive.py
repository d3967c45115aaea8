"""Several scans as one picture: the street as a passenger would see its points, the map, and one scan."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.pictures import panels
from parhelion.pictures.perspective import Camera, render
from parhelion.pictures.scan import scan_title, sensor_panels
from parhelion.pictures.style import ACCENT, INK, SHEET, check_picture, colour_labels, quiet, save, sheet

_WIDTH_IN, _HEIGHT_IN = 15.0, 15.4
_MOST_POINTS = 3_000_000


class Drive:
    """Points of many scans in the world frame, thinned where they become too many to draw.

    drive = Drive()
    for scan in scans:
        drive.add(scan)
    drive.draw("drive.png")
    """

    def __init__(self) -> None:
        self.scan_count = 0
        self.point_count = 0
        self._places: list[Pose] = []
        self._last: Scan | None = None
        self._origin = np.zeros(3)
        self._batches: list[dict[str, NDArray[Any]]] = []
        self._held = 0
        self._voxel_m = 0.1

    def add(self, scan: Scan) -> None:
        """Take one more scan; its points are moved into the world by the pose at each shot."""
        world = scan.in_world()
        if not self._places:
            self._origin = scan.pose.xyz
        self._places.append(scan.pose)
        self._last = scan
        self.scan_count += 1
        self.point_count += len(scan)
        zeros = np.zeros(len(scan))
        self._batches.append(
            {
                # Relative to the first pose: map coordinates would not fit float32.
                "xyz": (world.xyz - self._origin).astype(np.float32),
                "label": world.fields.get("label", zeros).astype(np.uint16),
                "brightness": world.fields.get("reflectivity", zeros).astype(np.float32),
            }
        )
        self._held += len(scan)
        if self._held > _MOST_POINTS:
            self._thin()

    def _thin(self) -> None:
        """Keep one point a voxel, of larger voxels each time that is not enough."""
        points = self._points()
        while True:
            cell = np.round(points["xyz"] / self._voxel_m).astype(np.int64)
            key = (cell[:, 0] << 42) ^ ((cell[:, 1] & 0x1FFFFF) << 21) ^ (cell[:, 2] & 0x1FFFFF)
            first = np.sort(np.unique(key, return_index=True)[1])
            points = {name: values[first] for name, values in points.items()}
            if len(first) < _MOST_POINTS // 2:
                break
            self._voxel_m *= 1.5
        self._batches, self._held = [points], len(first)

    def _points(self) -> dict[str, NDArray[Any]]:
        return {name: np.concatenate([batch[name] for batch in self._batches]) for name in self._batches[0]}

    def draw(self, path: str | PathLike[str], title: str | None = None) -> None:
        """Write the picture."""
        check_picture(path)
        if self._last is None:
            raise ConfigError("draw_drive: there is no scan to draw")
        scan, points = self._last, self._points()
        figure = sheet(_WIDTH_IN, _HEIGHT_IN)
        panels.heading(figure, title or scan_title(scan), self._facts())
        names = {0: "in the air", **scan.names.get("label", {})}
        self._street(figure, points, names)
        self._map(figure, points, names)
        sensor_panels(figure, scan, top=0.215, bottom=0.035, note=f" of the last scan, t = {scan.start_time:.1f} s")
        save(figure, path)

    def _facts(self) -> str:
        path = np.array([place.xyz for place in self._places])
        length = float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())
        way = f"{length:.1f} m driven" if length > 0.01 else "standing"
        facts = f"{self.scan_count} scans   |   {self.point_count:,} points   |   {way}"
        return facts.replace(",", " ")

    def _street(self, figure: Any, points: dict[str, NDArray[Any]], names: dict[int, str]) -> None:
        """The points from behind and above the first pose, along the way."""
        from matplotlib.colors import to_rgb

        axes = figure.add_axes((0.045, 0.625, 0.94, 0.315))
        width, height = (int(side) for side in panels.panel_pixels(axes))
        first = self._places[0]
        forward = first.rotation[:, 0]
        near = self._last.fields["range"] if self._last is not None else np.zeros(0)
        size = float(np.clip(np.median(near) / 8.0, 0.1, 1.0)) if near.size else 1.0  # rooms are smaller than streets
        eye = size * (np.array([0.0, 0.0, 6.5]) - 9.0 * forward)
        aim = size * 26.0 * forward
        camera = Camera(Pose.look_at(eye, aim), width, height, 75.0)
        light = 0.35 + 0.75 * np.sqrt(np.clip(points["brightness"], 0.0, 1.0))
        colour = np.clip(colour_labels(points["label"], names) * light[:, None], 0.0, 1.0)
        image = render(
            points["xyz"], colour, camera, background=to_rgb("#0a0c10"), point_size_m=0.06 * size, fade_m=140.0
        )
        axes.imshow(image, interpolation="nearest", aspect="auto")
        quiet(axes)
        axes.set(xticks=[], yticks=[])
        self._overlay(
            axes, "All points, from behind the sensor's first place; colour is the label, light is reflectance"
        )

    def _map(self, figure: Any, points: dict[str, NDArray[Any]], names: dict[int, str]) -> None:
        """The points from above in world coordinates, with the way."""
        axes = figure.add_axes((0.045, 0.275, 0.94, 0.33))
        way = np.array([place.xyz for place in self._places])
        xyz = points["xyz"].astype(np.float64) + self._origin
        middle = (way.min(axis=0) + way.max(axis=0)) / 2
        away = np.abs(xyz[:, :2] - middle[:2]) if len(xyz) else np.ones((1, 2))
        # Less of the sides than of the way ahead: the panel is wide, and streets are long.
        half = [max(1.05 * float(np.percentile(away[:, axis], share)), 1.0) for axis, share in ((0, 96.0), (1, 88.0))]
        extent = panels.fitted_extent(axes, middle, *half)
        panels.map_panel(axes, xyz, panels.label_rgb(points["label"], names, xyz[:, 2]), extent)
        quiet(axes)
        axes.set(xlabel="x [m]", ylabel="y [m]")
        axes.plot(way[:, 0], way[:, 1], color=SHEET, linewidth=4.5, solid_capstyle="round")
        axes.plot(way[:, 0], way[:, 1], color=ACCENT, linewidth=2.2, solid_capstyle="round")
        last = self._places[-1]
        panels.sensor_mark(axes, last.xyz[0], last.xyz[1], np.radians(last.rpy_deg[2]), 0.03 * (extent[1] - extent[0]))
        panels.label_legend(axes, points["label"], names, most=14, loc="upper right")
        self._overlay(axes, "From above, world frame; the way of the sensor in orange")

    def _overlay(self, axes: Any, text: str) -> None:
        box = {"facecolor": SHEET, "edgecolor": "none", "alpha": 0.75, "pad": 4}
        axes.text(0.008, 0.975, text, transform=axes.transAxes, va="top", color=INK, fontsize=9.5, bbox=box)


def draw_drive(scans: Iterable[Scan], path: str | PathLike[str], title: str | None = None) -> None:
    """All points of the scans as one sees them and from above, with the way of the sensor, and the last scan."""
    drive = Drive()
    for scan in scans:
        drive.add(scan)
    drive.draw(path, title)
