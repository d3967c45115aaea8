"""Rain streaks and snow flakes in a picture, of the same weather as the lidar's.

    weather, camera, time -> Streaks -> Layer (share and light of a pixel) -> picture

Shared with the lidar are the rate, the drop sizes, the wind and the weather's seed; the drops themselves are not: a
lidar draws those that it can detect beam by beam.

Sources: VANE (ERDC/GSL TR-20-32) chapter 7; K. Garg and S. K. Nayar, "Vision and rain", IJCV 75, 2007.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.image import Intrinsics
from parhelion.core.pose import Pose
from parhelion.sensors.optics.camera.lattice import ParticleClass, drops_in_cells, particle_classes
from parhelion.sensors.optics.camera.pixel_planes import Array
from parhelion.weather.weather import Weather

# ---- Capsules on a grid of pixels: discs that moved along a line while the shutter was open -------------------------


_MOST_FRAGMENTS = 2_000_000
"""Fragments that are worked on at a time."""


class Fragments(NamedTuple):
    """Pixels that capsules touch."""

    pixel: NDArray[np.int64]
    """Number of the pixel, row after row."""
    capsule: NDArray[np.int64]
    """Number of the capsule."""
    coverage: Floats
    """Share of the pixel within it, above 0 up to 1. Of capsules that are thinner than a pixel, it is their width's."""


def capsules(start: Floats, end: Floats, width_px: Floats, width: int, height: int) -> Iterator[Fragments]:
    """Fragments of capsules from `start` to `end` (n, 2) [pixel], in batches, ordered by capsule.

    An edge is a ramp of one pixel, so that sums over pixels keep the area (`drawn_area`).
    """
    if len(start) == 0:
        return
    radius = np.maximum(0.5 * width_px, 0.5)
    thin = np.minimum(width_px, 1.0)
    reach = radius + 0.5
    step = end - start
    steep = np.abs(step[:, 1]) > np.abs(step[:, 0])
    # Along the axis on which it is longer ("along"), a capsule has few pixels across.
    along = np.where(steep[:, None], start[:, ::-1], start)
    run = np.where(steep[:, None], step[:, ::-1], step)
    slope = np.divide(run[:, 1], run[:, 0], out=np.zeros(len(run)), where=run[:, 0] != 0.0)
    half = reach * np.sqrt(1.0 + slope * slope)
    size = np.where(steep, height, width)
    low = np.maximum(np.ceil(np.minimum(along[:, 0], along[:, 0] + run[:, 0]) - reach), 0.0)
    high = np.minimum(np.floor(np.maximum(along[:, 0], along[:, 0] + run[:, 0]) + reach), size - 1.0)
    many = np.maximum(high - low + 1.0, 0.0).astype(np.int64)
    across = np.ceil(2.0 * half).astype(np.int64) + 1
    each = many * across
    total = np.cumsum(each)
    first = total - each
    bounds = [0]
    while bounds[-1] < len(total):
        done = int(total[bounds[-1] - 1]) if bounds[-1] else 0
        bounds.append(max(int(np.searchsorted(total, done + _MOST_FRAGMENTS, side="right")), bounds[-1] + 1))
    for a, b in pairwise(bounds):
        number = np.repeat(np.arange(a, b), each[a:b])
        place = np.arange(len(number)) - np.repeat(first[a:b] - first[a], each[a:b])
        main = low[number] + place // across[number]
        middle = along[number, 1] + slope[number] * (main - along[number, 0])
        side = np.ceil(middle - half[number]) + place % across[number]
        # Of these, the pixels that lie in the picture and in their capsule.
        turned = steep[number]
        u, v = np.where(turned, side, main), np.where(turned, main, side)
        x, y = u - start[number, 0], v - start[number, 1]
        length = (step * step).sum(axis=1)[number]
        share = (x * step[number, 0] + y * step[number, 1]) / np.maximum(length, 1e-12)
        share = np.clip(share, 0.0, 1.0)
        away = np.hypot(x - share * step[number, 0], y - share * step[number, 1])
        coverage = np.clip(radius[number] + 0.5 - away, 0.0, 1.0) * thin[number]
        seen = (coverage > 0.0) & (u >= 0) & (u < width) & (v >= 0) & (v < height)
        pixel = (v[seen] * width + u[seen]).astype(np.int64)
        yield Fragments(pixel, number[seen], coverage[seen])


def drawn_area(length_px: Any, width_px: Any) -> Any:
    """Sum of the coverage of a capsule's pixels: its length times its width, its two ends, and their ramp of one pixel.

    Thin ones are drawn one pixel wide and fainter.
    """
    drawn, thin = np.maximum(width_px, 1.0), np.minimum(width_px, 1.0)
    return thin * (drawn * length_px + 0.25 * np.pi * drawn * drawn + np.pi / 12.0)


# ---- streaks --------------------------------------------------------------------------------------------------------


Floats = NDArray[np.float64]

THINNEST_PX = 0.02
"""Drops whose image is thinner are not drawn (VANE)."""
MOST_STREAKS = 20_000
"""Mean number of streaks in a picture at most. Where there would be more, only the nearer ones are drawn."""
NEAREST_M = 0.1
"""Nothing falls nearer to the lens."""

_LENS_MARGIN = 1.15
"""How much wider than without distortion a lens may see, measured on the picture."""
_TO_OPTICAL = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
"""From x forward, y left, z up to x right, y down, z forward."""


@dataclass(frozen=True, eq=False)
class Streaks:
    """What falls through the view during one exposure."""

    start: Floats
    """Column and row [pixel] at the opening of the shutter, shape (n, 2)."""
    end: Floats
    """At its closing."""
    depth_m: Floats
    """Distance in the middle of the exposure [m], shape (n,): along the axis, or along the ray of a fisheye lens."""
    width_px: Floats
    """Diameter of the image [pixel], without defocus."""
    blur_px: Floats
    """Diameter of the circle of confusion [pixel]."""
    cover: Floats
    """Share of its disc that it covers."""
    brightness: Floats
    """Its radiance over that of the surroundings."""
    inside: NDArray[np.bool_]
    """Whether its middle lies in the view; others only reach into it."""

    def __len__(self) -> int:
        return len(self.depth_m)

    @property
    def length_px(self) -> Floats:
        """Length of the path of the image [pixel]."""
        return np.asarray(np.hypot(*(self.end - self.start).T))


@dataclass(frozen=True, eq=False)
class Layer:
    """What lies over a picture: radiance = (1 - share) scene + light times radiance of the surroundings."""

    share: NDArray[np.float32]
    """Share of the exposure for which something is in front of a pixel, flat."""
    light: NDArray[np.float32]
    """That share times the brightness of what is there."""
    mask: NDArray[np.float32]
    """The largest coverage of a pixel by one streak, whatever the exposure: VANE's rain mask."""


def farthest_m(focal_px: float, diameter_m: float) -> float:
    """Where the image of a drop becomes too thin to be drawn [m]: f D / (0.02 d_pix), f / d_pix [pixel]."""
    return focal_px * diameter_m / THINNEST_PX


def view_steradian(lens: Intrinsics) -> float:
    """Volume of the view up to depth z, over z^3 / 3: w h / (fx fy), or the solid angle of a fisheye's picture."""
    if lens.model != "equidistant":
        return lens.width * lens.height / (lens.fx * lens.fy)
    column, row = np.meshgrid(np.arange(lens.width), np.arange(lens.height))
    angle = np.hypot((column - lens.cx) / lens.fx, (row - lens.cy) / lens.fy)
    return float(np.where(angle < np.pi, np.sinc(angle / np.pi), 0.0).sum() / (lens.fx * lens.fy))


def reaches(kinds: list[ParticleClass], lens: Intrinsics, most: float = MOST_STREAKS) -> list[float]:
    """How far away each kind is drawn [m]: to `farthest_m`, or less, by one factor for all, where more than `most`
    would be drawn."""
    focal = (lens.fx * lens.fy) ** 0.5
    far = np.array([farthest_m(focal, kind.typical_m) for kind in kinds])
    number = np.array([kind.number_per_m3 for kind in kinds])
    cubes = float((number * far**3).sum())
    factor = (3.0 * most / view_steradian(lens) + NEAREST_M**3 * number.sum()) / max(cubes, 1e-300)
    return [float(max(z, NEAREST_M)) for z in far * min(factor, 1.0) ** (1.0 / 3.0)]


def project_plain(points: Floats, lens: Intrinsics) -> Floats:
    """Columns and rows [pixel] of points (n, 3) in the optical frame, by a lens without distortion."""
    x, y, z = points.T
    if lens.model == "equidistant":
        across = np.hypot(x, y)
        scale = np.arctan2(across, z) / np.maximum(across, 1e-12)
    else:
        scale = 1.0 / np.maximum(z, 1e-3)
    return np.stack([lens.fx * x * scale + lens.skew * y * scale + lens.cx, lens.fy * y * scale + lens.cy], axis=1)


def streaks_of(
    weather: Weather,
    lens: Intrinsics,
    pose: Pose,
    time: float,
    exposure_s: float,
    *,
    end_pose: Pose | None = None,
    model: str = "physical",
    most: float = MOST_STREAKS,
    aperture_m: float = 0.0,
    focus_m: float = np.inf,
) -> Streaks:
    """The streaks of one exposure that begins at `time` [s], of a camera at `pose` (x forward) that ends at `end_pose`.

    The image of a drop is f D / Z wide and moves by f v t / Z. `aperture_m`, the lens's opening, blurs what is not at
    `focus_m`. The lens has no distortion here.
    """
    if not exposure_s > 0.0:
        raise ConfigError(f"exposure: must be above 0 s, got {exposure_s!r}")
    kinds = particle_classes(weather, time, pose.xyz, model)
    last = pose if end_pose is None else end_pose
    found = [
        _streaks_of_kind(kind, far, weather.seed, lens, (pose, last), time, exposure_s)
        for kind, far in zip(kinds, reaches(kinds, lens, most), strict=True)
    ]
    columns = [np.concatenate(parts) for parts in zip(*found, strict=True)] if found else _NOTHING
    start, end, depth, diameter, cover, brightness, inside = columns
    focal = (lens.fx * lens.fy) ** 0.5
    blur = aperture_m * focal * np.abs(1.0 / depth - 1.0 / focus_m)
    return Streaks(start, end, depth, focal * diameter / depth, blur, cover, brightness, inside.astype(bool))


_NOTHING: list[Any] = [np.zeros((0, 2)), np.zeros((0, 2)), *(np.zeros(0) for _ in range(5))]


def _streaks_of_kind(
    kind: ParticleClass, far: float, seed: int, lens: Intrinsics, poses: tuple[Pose, Pose], time: float,
    exposure_s: float,
) -> tuple[Any, ...]:  # fmt: skip
    """Columns of `Streaks` for one kind, and diameters in place of widths."""
    middle = time + 0.5 * exposure_s
    moved = float(np.linalg.norm(poses[1].xyz - poses[0].xyz))
    margin = moved + 1.5 * (float(np.linalg.norm(kind.velocity_m_s)) + kind.flutter_m_s) * exposure_s
    cells = _cells_in_view(kind, lens, poses[0], far, margin, middle)
    drops = drops_in_cells(kind, seed, cells, middle)
    near_view = _near_view(_optical(drops.xyz, poses[0]), lens, far, margin)
    xyz, velocity, diameter = drops.xyz[near_view], drops.velocity_m_s[near_view], drops.diameter_m[near_view]
    half_path = 0.5 * exposure_s * velocity
    # Optical frame at the opening, in the middle (the mean of both poses) and at the closing of the shutter.
    ends = [_optical(xyz + sign * half_path, pose) for sign, pose in zip((-1.0, 1.0), poses, strict=True)]
    centre = 0.5 * (_optical(xyz, poses[0]) + _optical(xyz, poses[1]))
    depth = np.linalg.norm(centre, axis=1) if lens.model == "equidistant" else centre[:, 2]
    near = (depth > NEAREST_M) & (depth <= far)
    if lens.model != "equidistant":
        near &= (ends[0][:, 2] > 0.5 * NEAREST_M) & (ends[1][:, 2] > 0.5 * NEAREST_M)
    kept = np.flatnonzero(near)
    start, end, at = (project_plain(points[kept], lens) for points in (*ends, centre))
    inside = _in_picture(at, at, lens, 0.0)
    # Blurred and wide ones reach into the picture from farther outside.
    seen = _in_picture(np.minimum(start, end), np.maximum(start, end), lens, 30.0)
    kept, start, end, inside = kept[seen], start[seen], end[seen], inside[seen]
    count = len(kept)
    return (
        start, end, depth[kept], diameter[kept], np.full(count, kind.cover), np.full(count, kind.brightness),
        inside,
    )  # fmt: skip


def _optical(xyz: Floats, pose: Pose) -> Floats:
    # Without BLAS, whose sums may differ from machine to machine, and which is slow at such shapes.
    turn = pose.rotation @ _TO_OPTICAL.T
    x, y, z = (xyz - pose.xyz).T
    return np.stack([x * turn[0, k] + y * turn[1, k] + z * turn[2, k] for k in range(3)], axis=1)


def _near_view(points: Floats, lens: Intrinsics, far: float, margin: float) -> NDArray[np.int64]:
    """Numbers of points in the optical frame in or near the view; the rest need not be looked at closely."""
    x, y, z = points.T
    if lens.model == "equidistant":
        return np.flatnonzero(x * x + y * y + z * z < (far + margin) ** 2)
    depth = np.maximum(z, 0.0) * _LENS_MARGIN
    near = (z > 0.0) & (z < far + margin)
    for along, low, high in (
        (x, (-0.5 - lens.cx) / lens.fx, (lens.width - 0.5 - lens.cx) / lens.fx),
        (y, (-0.5 - lens.cy) / lens.fy, (lens.height - 0.5 - lens.cy) / lens.fy),
    ):
        near &= (along > low * depth - margin) & (along < high * depth + margin)
    return np.flatnonzero(near)


def _in_picture(low: Floats, high: Floats, lens: Intrinsics, margin: float) -> NDArray[np.bool_]:
    edge = np.array([lens.width, lens.height]) - 0.5 + margin
    return np.asarray(((high >= -0.5 - margin) & (low < edge)).all(axis=1))


def _cells_in_view(
    kind: ParticleClass, lens: Intrinsics, pose: Pose, far: float, margin: float, time: float
) -> NDArray[np.int64]:
    """Cells of the lattice that touch the cone around the view."""
    corner = np.array([[u, v] for u in (-0.5, lens.width - 0.5) for v in (-0.5, lens.height - 0.5)])
    off = np.hypot((corner[:, 0] - lens.cx) / lens.fx, (corner[:, 1] - lens.cy) / lens.fy).max()
    fisheye = lens.model == "equidistant"
    half_angle = min(float(off), np.pi) if fisheye else float(np.arctan(_LENS_MARGIN * off))
    length = far if fisheye or half_angle > 1.4 else far / np.cos(half_angle)
    here = (pose.xyz - np.asarray(kind.velocity_m_s) * time) / kind.cell_m
    axes = [
        np.arange(np.floor(c - (length + margin) / kind.cell_m), np.ceil(c + (length + margin) / kind.cell_m))
        for c in here
    ]
    cells = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    away = (cells + 0.5 - here) * kind.cell_m
    distance = np.linalg.norm(away, axis=1)
    radius = 0.5 * np.sqrt(3.0) * kind.cell_m + margin
    forward = away @ pose.rotation[:, 0]
    angle = np.arccos(np.clip(forward / np.maximum(distance, 1e-9), -1.0, 1.0))
    widened = half_angle + np.arcsin(np.minimum(radius / np.maximum(distance, radius), 1.0))
    touched = (distance <= radius) | ((angle <= widened) & (distance <= length + radius))
    if not fisheye:
        touched &= forward <= far + radius
    return np.asarray(cells[touched]).astype(np.int64)


def layer_of(streaks: Streaks, width: int, height: int, depth_m: Any = None) -> Layer:
    """The streaks as a layer over a picture. Where `depth_m` (h, w) says that the scene is nearer, there are none.

    A drop's disc passes over its streak: of the exposure, it is before a pixel for the share (disc's area) / (area
    of the streak). The area is that on the grid of pixels, so that the shares of one drop sum up to its disc. Defocus
    widens the streak and lowers the share. Shares of several drops combine as chances do.
    """
    pixels = width * height
    drawn_px = np.hypot(streaks.width_px, streaks.blur_px)
    disc = 0.25 * np.pi * streaks.width_px**2 * streaks.cover
    share = np.minimum(disc / drawn_area(streaks.length_px, drawn_px), 1.0)
    scene = None if depth_m is None else np.asarray(depth_m, np.float64).ravel()
    gone, total, light, mask = (np.zeros(pixels) for _ in range(4))
    for part in capsules(streaks.start, streaks.end, drawn_px, width, height):
        pixel, number, coverage = part
        if scene is not None:
            before = streaks.depth_m[number] < scene[pixel]
            pixel, number, coverage = pixel[before], number[before], coverage[before]
        here = share[number] * coverage
        # Sums run in the order of the drops, whatever the machine.
        gone += np.bincount(pixel, np.log1p(-np.minimum(here, 0.999999)), pixels)
        total += np.bincount(pixel, here, pixels)
        light += np.bincount(pixel, here * streaks.brightness[number], pixels)
        np.maximum.at(mask, pixel, coverage)
    covered = -np.expm1(gone)
    bright = covered * np.divide(light, total, out=np.zeros(pixels), where=total > 0.0)
    return Layer(*(values.astype(np.float32) for values in (covered, bright, mask)))


def with_layer(planes: list[Array], share: Array, light: Array, surroundings: list[Any]) -> list[Array]:
    """Radiance of each band behind a layer; `surroundings` is the mean radiance around, one number a band.

    Arrays of either kind; `share` and `light` are those of the layer, where the planes are.
    """
    return [plane * (1.0 - share) + light * around for plane, around in zip(planes, surroundings, strict=True)]


def vane_blend(picture: NDArray[Any], mask: NDArray[Any], white: float = 1.0) -> Floats:
    """VANE's streaks on a linear picture (h, w) or (h, w, bands), by its rain mask (h, w).

    With I the picture over `white`: I_b = I + RM (1 - I) (1 - mean I), then the mean of 3 x 3 pixels of I_b within the
    streaks only: I_bs RM + I (1 - RM). (VANE's eq. 7.9 prints the mean for the last I, which would grey all of it.)
    """
    image = np.asarray(picture, np.float64) / white
    rain = np.asarray(mask, np.float64)
    rain = rain if image.ndim == 2 else rain[..., None]
    bright = image + rain * np.maximum(1.0 - image, 0.0) * np.maximum(1.0 - image.mean(), 0.0)
    edges = np.pad(bright, [(1, 1), (1, 1), (0, 0)][: image.ndim], mode="edge")
    rows, columns = image.shape[:2]
    smooth = sum(edges[a : a + rows, b : b + columns] for a in range(3) for b in range(3)) / 9.0
    return np.asarray((smooth * rain + image * (1.0 - rain)) * white)
