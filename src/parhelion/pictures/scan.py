"""Pictures of scans: panorama and top view of one scan; perspective view and map of the scans of a drive."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.pictures import panels
from parhelion.pictures.grids import is_organised, panorama
from parhelion.pictures.relief import Relief
from parhelion.pictures.style import (
    ACCENT,
    HEIGHT_COLOURS,
    INK,
    SHEET,
    check_picture,
    colour_labels,
    quiet,
    rgb,
    save,
    sheet,
)
from parhelion.world.world import World

_WIDTH_IN, _HEIGHT_IN = 15.0, 10.6
_FLAT_M = 0.05
_DRIVE_HEIGHT_IN = 15.4
_MOST_POINTS = 3_000_000
_NEAREST_M = 0.5
_WIDEST_PIXELS = 7
"""Side of the square of a near point."""
_FADE_M = 140.0
_GOLDEN = 0.6180339887498949
_SKY = "#1b2531"
_SURFACE_LIGHT = 0.42
"""Brightness of the surfaces behind points, as a share of that of the points."""


def draw_scan(scan: Scan, path: str | PathLike[str], title: str | None = None) -> None:
    """Draw range and intensity panoramas, and top views by label and by height.

    Patterns without a grid are drawn as dots over azimuth and elevation, sensors with one or two rings as a profile.
    Top views are in the sensor frame at the start of the scan, x forward.
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
    """Sensor and world, if the scan names them."""
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
    """Range and intensity panoramas between two heights of the sheet; `note` follows the titles."""
    if not is_organised(scan):
        grid = figure.add_gridspec(1, 2, left=0.045, right=0.94, top=top, bottom=bottom, wspace=0.17)
        for column, name in enumerate(("range", "intensity")):
            panels.scatter_panel(figure.add_subplot(grid[0, column]), scan, name, note)
        return
    layout = panorama(scan)
    if layout.shape[0] <= 2:
        grid = figure.add_gridspec(1, 1, left=0.045, right=0.94, top=top, bottom=bottom)
        panels.profile_panel(figure.add_subplot(grid[0, 0]), scan, note)
        return
    grid = figure.add_gridspec(2, 1, left=0.045, right=0.94, top=top, bottom=bottom, hspace=0.24)
    for row, name in enumerate(("range", "intensity")):
        axes = figure.add_subplot(grid[row, 0])
        panels.panorama_panel(axes, scan, layout, name, note, azimuth_labels=row == 1)


def _from_above(figure: Any, scan: Scan) -> None:
    points = scan.deskewed() if scan.frame == "sensor" else scan
    xyz = np.asarray(points.xyz, np.float64)
    grid = figure.add_gridspec(1, 2, left=0.045, right=0.985, top=0.475, bottom=0.055, wspace=0.36)
    by_label, beside = (figure.add_subplot(grid[0, column]) for column in range(2))
    middle, half = panels.reach(xyz, 1.5, sensor=True)
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
        panels.scalar_map_panel(beside, xyz, xyz[:, 2], extent, HEIGHT_COLOURS, "height above the sensor [m]")
    else:
        quiet(beside, "From above, by range")
        distance = points.fields["range"]
        panels.scalar_map_panel(beside, xyz, distance, extent, HEIGHT_COLOURS, "range [m]")
    for axes in (by_label, beside):
        panels.sensor_mark(axes, 0.0, 0.0, 0.0, 0.09 * (extent[1] - extent[0]) / 2)


# ---- many scans of a drive -------------------------------------------------------------------------------------------


class DrivePoints:
    """Points of many scans in the world frame, thinned if they become too many to draw.

    drive = Drive()
    for scan in scans:
        drive.add(scan)
    drive.draw("drive.png")

    With a `world`, its surfaces are the dark background of the perspective view.
    """

    def __init__(self, world: World | None = None) -> None:
        self.world = world
        self.scan_count = 0
        self.point_count = 0
        self._places: list[Pose] = []
        self._last: Scan | None = None
        self._origin = np.zeros(3)
        self._batches: list[dict[str, NDArray[Any]]] = []
        self._held = 0
        self._voxel_m = 0.1

    def add(self, scan: Scan) -> None:
        """Add a scan; its points are transformed to the world frame by the pose at each shot."""
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
                # Relative to the first pose, because map coordinates exceed the precision of float32.
                "xyz": (world.xyz - self._origin).astype(np.float32),
                "label": world.fields.get("label", zeros).astype(np.uint16),
                "brightness": world.fields.get("reflectivity", zeros).astype(np.float32),
            }
        )
        self._held += len(scan)
        if self._held > _MOST_POINTS:
            self._thin()

    def _thin(self) -> None:
        """Keep one point per voxel; voxels grow until the points are few enough."""
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
        figure = sheet(_WIDTH_IN, _DRIVE_HEIGHT_IN)
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
        """Perspective view from behind and above the first pose, along the path."""
        axes = figure.add_axes((0.045, 0.625, 0.94, 0.315))
        width, height = (int(side) for side in panels.panel_pixels(axes))
        first = self._places[0]
        forward = first.rotation[:, 0]
        near = self._last.fields["range"] if self._last is not None else np.zeros(0)
        size = (
            float(np.clip(np.median(near) / 8.0, 0.1, 1.0)) if near.size else 1.0
        )  # indoor scenes are smaller than streets
        eye = size * (np.array([0.0, 0.0, 6.5]) - 9.0 * forward)
        aim = size * 26.0 * forward
        camera = PinholeView(Pose.look_at(eye, aim), width, height, 75.0)
        light = 0.5 + 0.62 * np.sqrt(np.clip(points["brightness"], 0.0, 1.0))
        colour = np.clip(colour_labels(points["label"], names) * light[:, None], 0.0, 1.0)
        background: Any = rgb("#0a0c10")
        if self.world is not None and self.world.bounds is not None:
            below = np.array([place.xyz for place in self._places])
            background = behind_points(Relief(self.world, below=below), camera, self._origin, _FADE_M)
        image = render(points["xyz"], colour, camera, background=background, point_size_m=0.06 * size, fade_m=_FADE_M)
        axes.imshow(image, interpolation="nearest", aspect="auto")
        quiet(axes)
        axes.set(xticks=[], yticks=[])
        self._overlay(
            axes, "All points, from behind the first sensor pose; colour shows the label, brightness the reflectance"
        )

    def _map(self, figure: Any, points: dict[str, NDArray[Any]], names: dict[int, str]) -> None:
        """Top view in world coordinates, with the path."""
        axes = figure.add_axes((0.045, 0.275, 0.94, 0.33))
        way = np.array([place.xyz for place in self._places])
        xyz = points["xyz"].astype(np.float64) + self._origin
        middle = (way.min(axis=0) + way.max(axis=0)) / 2
        away = np.abs(xyz[:, :2] - middle[:2]) if len(xyz) else np.ones((1, 2))
        # Crop the sides more than the path direction: the panel is wide and streets are long.
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
        self._overlay(axes, "Top view, world frame; sensor path in orange")

    def _overlay(self, axes: Any, text: str) -> None:
        box = {"facecolor": SHEET, "edgecolor": "none", "alpha": 0.75, "pad": 4}
        axes.text(0.008, 0.975, text, transform=axes.transAxes, va="top", color=INK, fontsize=9.5, bbox=box)


def draw_drive(scans: Iterable[Scan], path: str | PathLike[str], title: str | None = None) -> None:
    """Draw all points of the scans in perspective and from above with the sensor path, and the last scan."""
    drive = DrivePoints()
    for scan in scans:
        drive.add(scan)
    drive.draw(path, title)


# ---- points in perspective -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PinholeView:
    """A pinhole camera that looks along the x axis of its pose, z up."""

    pose: Pose
    width: int
    height: int
    """Size of the image [pixels]."""
    field_of_view_deg: float
    """Horizontal angle of view."""

    @property
    def focal(self) -> float:
        """Focal length [pixels]."""
        return float(0.5 * self.width / np.tan(0.5 * np.radians(self.field_of_view_deg)))


def render(
    points: NDArray[Any],
    colour: NDArray[Any],
    camera: PinholeView,
    *,
    background: Any,
    point_size_m: float,
    fade_m: float,
) -> NDArray[np.float32]:
    """An image (height, width, 3) in [0, 1] of points (n, 3) [m] with colours (n, 3) in [0, 1].

    A point covers a square of `point_size_m` at its distance, 1 to 7 pixels wide; its colour falls towards
    `background`, a colour or a picture of that size, as exp(-distance / `fade_m`).
    """
    local = (points - camera.pose.xyz) @ camera.pose.rotation
    ahead = np.flatnonzero(local[:, 0] > _NEAREST_M)
    ahead = ahead[
        np.argsort(-local[ahead, 0], kind="stable")
    ]  # far points first: the last point drawn on a pixel remains
    depth = local[ahead, 0]
    column = 0.5 * camera.width - camera.focal * local[ahead, 1] / depth
    row = 0.5 * camera.height - camera.focal * local[ahead, 2] / depth
    framed = (np.abs(column) < 2 * camera.width) & (np.abs(row) < 2 * camera.height)
    ahead, depth, column, row = (values[framed] for values in (ahead, depth, column, row))
    side = np.clip(camera.focal * point_size_m / depth, 1.0, _WIDEST_PIXELS)
    # Rounded up or down by a sequence of equal shares: a common rounding would change the size of all points at one
    # distance, which is visible as a seam.
    side = np.floor(side + ahead * _GOLDEN % 1.0)
    owner = _nearest_owner(np.round(column - side / 2), np.round(row - side / 2), depth, side, camera)
    image = np.array(np.broadcast_to(background, (camera.height, camera.width, 3)), np.float64).reshape(-1, 3)
    drawn = owner >= 0
    fade = np.exp(-depth[owner[drawn]] / fade_m)[:, None]
    image[drawn] = colour[ahead[owner[drawn]]] * fade + image[drawn] * (1.0 - fade)
    return np.asarray(image.reshape(camera.height, camera.width, 3), np.float32)


def _nearest_owner(
    left: NDArray[Any], top: NDArray[Any], depth: NDArray[Any], side: NDArray[Any], camera: PinholeView
) -> NDArray[np.intp]:
    """Row number of the nearest point whose square covers each pixel, or -1; points are sorted from far to near."""
    owner = np.full(camera.height * camera.width, -1, np.intp)
    nearest = np.full(owner.shape, np.inf)
    candidate = np.empty(owner.shape, np.intp)
    for step in range(int(side.max(initial=0.0))):
        wide = np.flatnonzero(side > step)
        # One more row and column of the squares that are wide enough.
        for down, right in [(step, k) for k in range(step + 1)] + [(k, step) for k in range(step)]:
            x, y = left[wide] + right, top[wide] + down
            inside = (x >= 0) & (x < camera.width) & (y >= 0) & (y < camera.height)
            covers = wide[inside]
            pixel = (y[inside] * camera.width + x[inside]).astype(np.intp)
            candidate[pixel] = covers
            # Of several points that cover a pixel, only the nearest remains.
            first = candidate[pixel] == covers
            pixel, covers = pixel[first], covers[first]
            closer = depth[covers] < nearest[pixel]
            owner[pixel[closer]] = covers[closer]
            nearest[pixel[closer]] = depth[covers[closer]]
    return owner


def behind_points(relief: Relief, camera: PinholeView, origin: NDArray[Any], fade_m: float) -> NDArray[np.float64]:
    """Surfaces of a world as a dark background (height, width, 3) for `render`, with a sky above the horizon.

    `origin` (3,) [m] is the position in the world from which the camera and the points are counted.
    """
    pose = Pose(camera.pose.xyz + origin, camera.pose.quat_xyzw)
    colour, distance = relief.in_perspective(pose, camera.width, camera.height, camera.focal)
    sky = np.linspace(0.5, 1.0, camera.height)[:, None, None] * rgb(_SKY)
    near = (_SURFACE_LIGHT * np.exp(-distance / fade_m))[..., None]
    return np.asarray(np.where(np.isfinite(distance)[..., None], colour * near + sky * (1.0 - near), sky))
