"""Rain streaks and snowflakes in an image, for the same weather as the lidar.

    weather, camera, time -> Streaks -> Layer (cover and light per pixel) -> image

Camera and lidar share the rate, the drop sizes, the wind and the weather's seed, but not the individual drops: a lidar
draws the drops that it can detect per beam.

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

# ---- Capsules on the pixel grid: discs that move along a line during the exposure -----------------------------------


_MOST_FRAGMENTS = 2_000_000
"""Fragments per batch."""


class Fragments(NamedTuple):
    """Pixels covered by capsules."""

    pixel: NDArray[np.int64]
    """Row-major pixel number."""
    capsule: NDArray[np.int64]
    """Number of the capsule."""
    coverage: Floats
    """Covered fraction of the pixel, in (0, 1]; for capsules thinner than a pixel, limited to their width."""


def capsules(start: Floats, end: Floats, width_px: Floats, width: int, height: int) -> Iterator[Fragments]:
    """Fragments of capsules from `start` to `end` (n, 2) [pixel], in batches, ordered by capsule.

    Edges are ramps of one pixel, so that the sum over pixels conserves the area (`drawn_area`).
    """
    if len(start) == 0:
        return
    radius = np.maximum(0.5 * width_px, 0.5)
    thin = np.minimum(width_px, 1.0)
    reach = radius + 0.5
    step = end - start
    steep = np.abs(step[:, 1]) > np.abs(step[:, 0])
    # Capsules are traversed along their longer axis ("along"), with few pixels across.
    along = np.where(steep[:, None], start[:, ::-1], start)
    run = np.where(steep[:, None], step[:, ::-1], step)
    slope = np.divide(run[:, 1], run[:, 0], out=np.zeros(len(run)), where=run[:, 0] != 0.0)
    half = reach * np.sqrt(1.0 + slope * slope)
    size = np.where(steep, height, width)
    low = np.maximum(np.ceil(np.minimum(along[:, 0], along[:, 0] + run[:, 0]) - reach), 0.0)
    high = np.minimum(np.floor(np.maximum(along[:, 0], along[:, 0] + run[:, 0]) + reach), size - 1.0)
    steps = np.maximum(high - low + 1.0, 0.0).astype(np.int64)
    across = np.ceil(2.0 * half).astype(np.int64) + 1
    each = steps * across
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
        # Keep the pixels inside both the image and their capsule.
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
    """Sum of the pixel coverage of a capsule: length times width, plus its two ends and their one-pixel ramp.

    Capsules thinner than a pixel are drawn one pixel wide and fainter.
    """
    drawn, thin = np.maximum(width_px, 1.0), np.minimum(width_px, 1.0)
    return thin * (drawn * length_px + 0.25 * np.pi * drawn * drawn + np.pi / 12.0)


# ---- streaks --------------------------------------------------------------------------------------------------------


Floats = NDArray[np.float64]

THINNEST_PX = 0.02
"""Smallest image width of a drop that is drawn [pixel] (VANE)."""
MOST_STREAKS = 20_000
"""Largest mean number of streaks per image; if there would be more, only the nearest are drawn."""
NEAREST_M = 0.1
"""Smallest distance of a drop from the lens [m]."""

_LENS_MARGIN = 1.15
"""Margin for lens distortion, relative to the undistorted image size."""
_TO_OPTICAL = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
"""Rotation from the sensor frame (x forward, y left, z up) to the optical frame (x right, y down, z forward)."""


@dataclass(frozen=True, eq=False)
class Streaks:
    """Particles that cross the view during one exposure."""

    start: Floats
    """Column and row [pixel] when the shutter opens, shape (n, 2)."""
    end: Floats
    """Column and row [pixel] when the shutter closes, shape (n, 2)."""
    depth_m: Floats
    """Distance at mid-exposure [m], shape (n,): along the optical axis, or along the ray for a fisheye lens."""
    width_px: Floats
    """Diameter of the image without defocus [pixel], shape (n,)."""
    blur_px: Floats
    """Diameter of the circle of confusion [pixel], shape (n,)."""
    cover: Floats
    """Fraction of the circumscribed disc that the particle covers, shape (n,)."""
    brightness: Floats
    """Radiance relative to that of the surroundings, shape (n,)."""
    inside: NDArray[np.bool_]
    """True if the centre lies in the view, false if the streak only reaches into it, shape (n,)."""

    def __len__(self) -> int:
        return len(self.depth_m)

    @property
    def length_px(self) -> Floats:
        """Length of the streak [pixel], shape (n,)."""
        return np.asarray(np.hypot(*(self.end - self.start).T))


@dataclass(frozen=True, eq=False)
class Layer:
    """Layer of streaks over an image: radiance = (1 - share) scene + light * radiance of the surroundings."""

    share: NDArray[np.float32]
    """Fraction of the exposure during which a particle covers the pixel, flat."""
    light: NDArray[np.float32]
    """Covered fraction times the brightness of the particles, flat."""
    mask: NDArray[np.float32]
    """Largest coverage of the pixel by one streak, regardless of exposure time: VANE's rain mask, flat."""


def farthest_m(focal_px: float, diameter_m: float) -> float:
    """Distance [m] beyond which the image of a drop is too thin to draw: f D / (0.02 d_pix), f / d_pix [pixel]."""
    return focal_px * diameter_m / THINNEST_PX


def view_steradian(lens: Intrinsics) -> float:
    """Volume of the view up to depth z divided by z^3 / 3: w h / (fx fy), or the solid angle of a fisheye image."""
    if lens.model != "equidistant":
        return lens.width * lens.height / (lens.fx * lens.fy)
    column, row = np.meshgrid(np.arange(lens.width), np.arange(lens.height))
    angle = np.hypot((column - lens.cx) / lens.fx, (row - lens.cy) / lens.fy)
    return float(np.where(angle < np.pi, np.sinc(angle / np.pi), 0.0).sum() / (lens.fx * lens.fy))


def reaches(kinds: list[ParticleClass], lens: Intrinsics, most: float = MOST_STREAKS) -> list[float]:
    """Maximum drawing distance of each class [m].

    It is `farthest_m`, reduced by a common factor where more than `most` streaks would be drawn.
    """
    focal = (lens.fx * lens.fy) ** 0.5
    far = np.array([farthest_m(focal, kind.typical_m) for kind in kinds])
    number = np.array([kind.number_per_m3 for kind in kinds])
    cubes = float((number * far**3).sum())
    factor = (3.0 * most / view_steradian(lens) + NEAREST_M**3 * number.sum()) / max(cubes, 1e-300)
    return [float(max(z, NEAREST_M)) for z in far * min(factor, 1.0) ** (1.0 / 3.0)]


def project_plain(points: Floats, lens: Intrinsics) -> Floats:
    """Columns and rows [pixel] of points (n, 3) in the optical frame, without lens distortion."""
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
    """Streaks of one exposure that starts at `time` [s], for a camera that moves from `pose` to `end_pose`.

    The image of a drop is f D / Z wide and moves by f v t / Z. The aperture diameter `aperture_m` blurs drops that are
    not at `focus_m`. Lens distortion is neglected.
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
    kind: ParticleClass,
    far: float,
    seed: int,
    lens: Intrinsics,
    poses: tuple[Pose, Pose],
    time: float,
    exposure_s: float,
) -> tuple[Any, ...]:
    """Columns of `Streaks` for one class, with diameters in place of widths."""
    middle = time + 0.5 * exposure_s
    moved = float(np.linalg.norm(poses[1].xyz - poses[0].xyz))
    margin = moved + 1.5 * (float(np.linalg.norm(kind.velocity_m_s)) + kind.flutter_m_s) * exposure_s
    cells = _cells_in_view(kind, lens, poses[0], far, margin, middle)
    drops = drops_in_cells(kind, seed, cells, middle)
    near_view = _near_view(_optical(drops.xyz, poses[0]), lens, far, margin)
    xyz, velocity, diameter = drops.xyz[near_view], drops.velocity_m_s[near_view], drops.diameter_m[near_view]
    half_path = 0.5 * exposure_s * velocity
    # Optical frame when the shutter opens, at mid-exposure (mean of both poses) and when it closes.
    ends = [_optical(xyz + sign * half_path, pose) for sign, pose in zip((-1.0, 1.0), poses, strict=True)]
    centre = 0.5 * (_optical(xyz, poses[0]) + _optical(xyz, poses[1]))
    depth = np.linalg.norm(centre, axis=1) if lens.model == "equidistant" else centre[:, 2]
    near = (depth > NEAREST_M) & (depth <= far)
    if lens.model != "equidistant":
        near &= (ends[0][:, 2] > 0.5 * NEAREST_M) & (ends[1][:, 2] > 0.5 * NEAREST_M)
    kept = np.flatnonzero(near)
    start, end, at = (project_plain(points[kept], lens) for points in (*ends, centre))
    inside = _in_picture(at, at, lens, 0.0)
    # Blurred and wide streaks reach into the image from farther outside.
    seen = _in_picture(np.minimum(start, end), np.maximum(start, end), lens, 30.0)
    kept, start, end, inside = kept[seen], start[seen], end[seen], inside[seen]
    count = len(kept)
    return (
        start,
        end,
        depth[kept],
        diameter[kept],
        np.full(count, kind.cover),
        np.full(count, kind.brightness),
        inside,
    )


def _optical(xyz: Floats, pose: Pose) -> Floats:
    # BLAS is avoided: its sums may differ between machines, and it is slow for these shapes.
    turn = pose.rotation @ _TO_OPTICAL.T
    x, y, z = (xyz - pose.xyz).T
    return np.stack([x * turn[0, k] + y * turn[1, k] + z * turn[2, k] for k in range(3)], axis=1)


def _near_view(points: Floats, lens: Intrinsics, far: float, margin: float) -> NDArray[np.int64]:
    """Indices of points in the optical frame that are in or near the view (a coarse test)."""
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
    """Lattice cells that intersect the cone around the view."""
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
    """Layer of streaks over an image. Streaks behind the scene depth `depth_m` (h, w) [m] are hidden.

    A drop's disc moves along its streak, so it covers a pixel for the fraction (disc area) / (streak area) of the
    exposure. The streak area is that on the pixel grid, so that the fractions of one drop sum to its disc. Defocus
    widens the streak and lowers the fraction. Fractions of several drops combine like independent probabilities.
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
        # Sums run in the order of the drops on every machine.
        gone += np.bincount(pixel, np.log1p(-np.minimum(here, 0.999999)), pixels)
        total += np.bincount(pixel, here, pixels)
        light += np.bincount(pixel, here * streaks.brightness[number], pixels)
        np.maximum.at(mask, pixel, coverage)
    covered = -np.expm1(gone)
    bright = covered * np.divide(light, total, out=np.zeros(pixels), where=total > 0.0)
    return Layer(*(values.astype(np.float32) for values in (covered, bright, mask)))


def with_layer(planes: list[Array], share: Array, light: Array, surroundings: list[Any]) -> list[Array]:
    """Radiance of each band behind a layer; `surroundings` is the mean surrounding radiance per band.

    `share` and `light` are the arrays of the layer, NumPy or Dr.Jit like the planes.
    """
    return [plane * (1.0 - share) + light * around for plane, around in zip(planes, surroundings, strict=True)]


def vane_blend(picture: NDArray[Any], mask: NDArray[Any], white: float = 1.0) -> Floats:
    """VANE's blend of a rain mask (h, w) into a linear image (h, w) or (h, w, bands).

    With I the image divided by `white`: I_b = I + RM (1 - I) (1 - mean I), then the 3 x 3 mean I_bs of I_b inside the
    streaks only: I_bs RM + I (1 - RM). (VANE's eq. 7.9 prints the image mean for the last I, which would grey the whole
    image.)
    """
    image = np.asarray(picture, np.float64) / white
    rain = np.asarray(mask, np.float64)
    rain = rain if image.ndim == 2 else rain[..., None]
    bright = image + rain * np.maximum(1.0 - image, 0.0) * np.maximum(1.0 - image.mean(), 0.0)
    edges = np.pad(bright, [(1, 1), (1, 1), (0, 0)][: image.ndim], mode="edge")
    rows, columns = image.shape[:2]
    smooth = sum(edges[a : a + rows, b : b + columns] for a in range(3) for b in range(3)) / 9.0
    return np.asarray((smooth * rain + image * (1.0 - rain)) * white)
