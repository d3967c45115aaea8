"""Camera geometry: OpenCV calibration, agreement with a lidar, flow, shutter, aperture and motion blur."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates, maximum_filter, minimum_filter

import parhelion as ph
from camera_rigs import BRIGHT, DARK, above, camera_sheet, flat, light, moments
from parhelion.core.pose import quat_conjugate, quat_rotate
from parhelion.core.trajectory import ConstantTwist, Trajectory
from rigs import sheet

Array = NDArray[Any]
DISTORTION = [-0.12, 0.05, 0.0015, -0.001]
SQUARE_M = 0.1
COLUMNS, ROWS = 9, 6
GAP_M = 5e-4
"""Boards lie this much above the ground, so that their shadow is too small to see."""


def distorted() -> ph.CameraConfig:
    """A lens with all the numbers that a calibration finds, 8 bits a pixel."""
    lens = {"fx": 330.0, "fy": 334.0, "cx": 243.0, "cy": 176.5, "distortion": DISTORTION}
    return camera_sheet(
        480, 360, lens=lens, sensor={"adc_bits": 12, "output_bits": 8}, exposure={"mode": "auto", "target": 0.4}
    )


def board(pattern: Array, squares: tuple[int, int], size_m: float) -> ph.World:
    """A level board with a pattern of squares, row 0 of it at +y."""
    texture = np.kron(pattern, np.ones((24, 24))).astype(np.float32)
    world = ph.World()
    world.add(ph.shapes.plane(squares[0] * size_m, squares[1] * size_m), material="lambert-90", texture=texture)
    world.add(ph.shapes.plane(60, 60), material="lambert-40", pose=ph.Pose((0, 0, -1)))
    return world


def looking_at(
    target: tuple[float, float], distance: float, tilt_deg: float, azimuth_deg: float, roll_deg: float
) -> ph.Pose:
    """A camera that looks at a place on the ground from a distance, tilted off the vertical."""
    about = ph.Pose((*target, 0.0), rpy_deg=(0, 0, azimuth_deg))
    return about @ ph.Pose(rpy_deg=(0, 90 - tilt_deg, 0)) @ ph.Pose((-distance, 0, 0), rpy_deg=(roll_deg, 0, 0))


# ---- OpenCV --------------------------------------------------------------------------------------------------------


def test_opencv_calibration_of_rendered_boards_gives_the_lens_back() -> None:
    cv2 = pytest.importorskip("cv2")
    pattern = np.indices((ROWS + 3, COLUMNS + 3)).sum(axis=0) % 2
    pattern[[0, -1]], pattern[:, [0, -1]] = 1, 1
    world = board(0.05 + 0.9 * pattern, (COLUMNS + 3, ROWS + 3), SQUARE_M)
    camera = ph.Camera(distorted(), samples=24, bounces=0, noise=False, truth=())
    corners = np.zeros((COLUMNS * ROWS, 3), np.float32)
    corners[:, :2] = np.mgrid[:COLUMNS, :ROWS].T.reshape(-1, 2) * SQUARE_M
    found_at, pictures = [], 12
    for number in range(pictures):
        turn = 360.0 * number / pictures
        aim = (0.15 * np.cos(2.1 * number), 0.1 * np.sin(3.3 * number))
        pose = looking_at(aim, 1.1 + 0.06 * (number % 4), 12 + 7 * (number % 5), turn, -turn + 90 + 5 * (number % 3))
        picture = camera.shoot(world, pose=pose, seed=number).colour
        found, places = cv2.findChessboardCorners(picture, (COLUMNS, ROWS))
        if found:
            # Windows stay within their squares, which are about 25 pixels wide.
            found_at.append(cv2.cornerSubPix(picture, places, (8, 8), (-1, -1), (3, 50, 1e-4)))
    assert len(found_at) >= 10
    flags = cv2.CALIB_FIX_K3
    error, matrix, numbers, _, _, sigma, _, _ = cv2.calibrateCameraExtended(
        [corners] * len(found_at), found_at, picture.shape[::-1], None, None, flags=flags
    )
    lens = camera.intrinsics
    want = np.array([lens.fx, lens.fy, lens.cx, lens.cy, *DISTORTION])
    got = np.array([matrix[0, 0], matrix[1, 1], matrix[0, 2], matrix[1, 2], *numbers.ravel()[:4]])
    assert error < 0.1
    assert np.all(np.abs(got - want) < 4.0 * sigma.ravel()[:8])


def test_opencv_undistort_straightens_edges() -> None:
    cv2 = pytest.importorskip("cv2")
    stripes = np.tile([0.05, 0.95], 12)[None, :]
    world = board(stripes, (24, 24), 0.15)
    camera = ph.Camera(distorted(), samples=80, bounces=0, noise=False, truth=())
    lens = camera.intrinsics
    worst = []
    for roll in (0.0, 90.0):
        # A small turn, so that edges cross pixels everywhere.
        pose = ph.Pose((0, 0, 1.4)) @ ph.Pose(rpy_deg=(0, 0, roll + 3.0)) @ ph.Pose(rpy_deg=(0, 90, 0))
        picture = camera.shoot(world, pose=pose, seed=3).colour
        bent = _bends(picture.astype(float), roll == 0)
        straight = cv2.undistort(picture, lens.matrix, np.array(DISTORTION)).astype(float)
        worst.append(_bends(straight, roll == 0))
        assert bent > 1.0  # without it, the test would show nothing
    assert max(worst) < 0.2


def _bends(picture: Array, along_rows: bool) -> float:
    """Largest distance [pixel] of the stripes' edges from straight lines; edges run along columns or along rows."""
    lines = (picture.T if along_rows else picture)[40:-40]
    middle = 0.5 * (picture.max() + picture.min())
    places: list[list[tuple[int, float]]] = []
    for number, line in enumerate(lines):
        for k in np.nonzero((line[:-1] < middle) != (line[1:] < middle))[0]:
            place = k + (middle - line[k]) / (line[k + 1] - line[k])
            # An edge goes on where it was on the line before.
            for edge in places:
                if edge[-1][0] == number - 1 and abs(edge[-1][1] - place) < 2.0:
                    edge.append((number, place))
                    break
            else:
                places.append([(number, place)])
    whole = [np.array(edge) for edge in places if len(edge) > 0.9 * len(lines)]
    assert len(whole) >= 6
    return max(float(np.max(np.abs(e[:, 1] - np.polyval(np.polyfit(*e.T, 1), e[:, 0])))) for e in whole)


# ---- truth ---------------------------------------------------------------------------------------------------------


def test_lidar_points_lie_on_their_objects_in_the_picture() -> None:
    world = ph.World.load("city")
    pose = world.viewpoint
    pattern = {
        "kind": "raster", "rate_hz": 10, "columns": 200, "rows": 140,
        "azimuth_deg": (-32, 32), "elevation_deg": (-22, 22),
    }  # fmt: skip
    scan = ph.Lidar(sheet(pattern=pattern), noise=False).scan(world, pose=pose)
    camera = ph.Camera("generic/vga", width=480, height=360, picture=False, truth=("label", "instance"))
    image = camera.shoot(world, pose=pose)
    assert image.label is not None
    assert image.instance is not None
    uv, inside = camera.project(scan.xyz)
    column, row = np.round(uv[inside]).astype(int).T
    for mask, own in ((image.label, scan.label), (image.instance, scan.instance)):
        away_from_edges = (maximum_filter(mask, 5) == minimum_filter(mask, 5))[row, column]
        assert away_from_edges.sum() > 5000
        agree = (mask[row, column] == own[inside])[away_from_edges].mean()
        assert agree >= 0.995


def test_flow_is_the_difference_of_two_pictures() -> None:
    """Flow maps each point of the earlier picture to its pixel in the later picture."""
    world = flat(size=200.0)
    world.add(ph.shapes.box(0.5, 40, 20), material="brick", label="wall", pose=ph.Pose((25, 0, 5)))
    actor = ConstantTwist(ph.Pose((12, 1, 1.2), rpy_deg=(0, 0, 30)), (1.0, -4.0, 0.0), (0.0, 0.0, 0.8))
    world.add_actor(ph.shapes.box(4, 2, 2), trajectory=actor, material="car-paint-black", label="car")
    drive = ConstantTwist(ph.Pose((0, 0, 1.5)), (6.0, 0.5, 0.2), (0.05, 0.1, 0.3))
    lens = {"fx": 180.0, "distortion": [-0.1, 0.02, 0.001, 0.001]}
    truth = ("depth", "flow", "instance")
    camera = ph.Camera(camera_sheet(192, 144, lens=lens), picture=False, truth=truth)
    times = [0.0, 1.0 / camera.rate_hz]
    first, later = (camera.shoot(world, trajectory=drive, time=t) for t in times)
    for image in (first, later):
        assert image.flow is not None
        assert image.depth is not None
        assert image.instance is not None
    half = 0.5 * camera.config.exposure.time_s
    # World places of the later pixels, taken back to the earlier time with the body that they are on.
    car = world.objects[-1].instance
    on_car = (later.instance == car) & np.isfinite(later.depth)
    place = _places(camera, later.depth, drive, times[1] + half)
    place[on_car] = _carried(place[on_car], actor, times[1] + half, times[0] + half)
    xyz, quat = drive.sample([times[0] + half])
    local = quat_rotate(quat_conjugate(quat[0]), place - xyz[0])
    uv, inside = camera.project(np.where(np.isfinite(local), local, 0.0).reshape(-1, 3))
    uv, inside = uv.reshape(*later.depth.shape, 2), inside.reshape(later.depth.shape) & np.isfinite(later.depth)
    at = [np.where(inside, uv[..., k], 0.0) for k in (1, 0)]
    # Seen in both, and on one surface all around, so that the flow may be interpolated.
    whole = (maximum_filter(first.instance, 5) == minimum_filter(first.instance, 5)).astype(float)
    known = inside & (map_coordinates(whole, at, order=0) == 1.0) & np.isfinite(local).all(axis=-1)
    known &= np.abs(map_coordinates(first.depth, at, order=0) / local[..., 0] - 1.0) < 0.05
    back = np.stack([map_coordinates(first.flow[..., k], at, order=1) for k in (0, 1)], axis=-1)
    rows, columns = np.indices(later.depth.shape)
    miss = np.hypot(uv[..., 0] + back[..., 0] - columns, uv[..., 1] + back[..., 1] - rows)
    # The edges between the sides of the box bend the flow within a pixel.
    for which, least in ((known & ~on_car, 5000), (known & on_car, 300)):
        assert which.sum() > least
        assert np.abs(back[which]).max() > 5.0
        assert np.quantile(miss[which], 0.95) < 0.02


def _places(camera: ph.Camera, depth: Array, motion: Trajectory, time: float) -> Array:
    """World coordinates of what pixels show."""
    from parhelion.sensors.optics.camera.lens import directions

    rows, columns = np.indices(depth.shape)
    looked = directions(camera.intrinsics, np.stack([columns.ravel(), rows.ravel()], axis=1)).reshape(*depth.shape, 3)
    xyz, quat = motion.sample([time])
    return quat_rotate(quat[0], looked / looked[..., :1] * depth[..., None]) + xyz[0]


def _carried(points: Array, body: Trajectory, then: float, now: float) -> Array:
    """Points of a moving body at another time."""
    xyz, quat = body.sample([then, now])
    return quat_rotate(quat[1], quat_rotate(quat_conjugate(quat[0]), points - xyz[0])) + xyz[1]


# ---- shutter, aperture, motion -------------------------------------------------------------------------------------


def moving_board(speed: float, edge_y: float = 0.0) -> ph.World:
    """A bright board that runs to the right of a camera above it, its left edge in front at time 0."""
    world = flat(DARK)
    start = ph.Pose((0.0, edge_y - 5.0, GAP_M))
    motion = ConstantTwist(start, (0.0, -speed, 0.0))
    world.add_actor(ph.shapes.plane(10, 10), trajectory=motion, material=BRIGHT)
    return world


def test_a_rolling_shutter_skews_what_passes() -> None:
    height_m, line_time, speed = 4.0, 40e-6, 20.0
    shutter = {"kind": "rolling", "line_time_us": line_time * 1e6}
    config = camera_sheet(128, 96, shutter=shutter, exposure={"time_s": 1e-6})
    picture = light(config, moving_board(speed, 0.3), pose=above(height_m + GAP_M), samples=64, seed=2)
    place, _ = moments(picture)
    slope, first = np.polyfit(np.arange(len(place)), place, 1)
    want = line_time * speed * 200.0 / height_m
    assert abs(slope - want) * len(place) < 0.1
    assert first == pytest.approx(63.5 - 0.3 * 200.0 / height_m, abs=0.1)


def test_a_thin_lens_blurs_what_is_out_of_focus() -> None:
    for distance, focus in ((4.0, 1.0), (1.0, 6.0)):
        lens = {"fx": 400.0, "f_number": 0.1, "focal_length_mm": 2.0, "focus_m": focus}
        config = camera_sheet(48, 96, lens=lens)
        world = flat(DARK)
        world.add(ph.shapes.plane(10, 10), material=BRIGHT, pose=ph.Pose((0, -5.0, GAP_M)))
        picture = light(config, world, pose=above(distance + GAP_M), samples=256, seed=1)
        # A disc of diameter c has the variance c^2 / 16 along any line.
        blur = 4.0 * np.sqrt(moments(picture.mean(axis=0))[1])
        # Thin lens: c = f^2 / N |z - s| / (z (s - f)), in pixels of 5 um.
        want = 2e-3**2 / 0.1 * abs(distance - focus) / (distance * (focus - 2e-3)) / 5e-6
        assert blur == pytest.approx(want, rel=0.02)


def test_motion_blur_is_as_long_as_the_way_during_the_exposure() -> None:
    exposure, speed, height_m = 0.02, 15.0, 4.0
    config = camera_sheet(96, 24, exposure={"time_s": exposure})
    picture = light(config, moving_board(speed, 0.2), pose=above(height_m + GAP_M), samples=128, seed=4)
    place, variance = moments(picture.mean(axis=0))
    way = speed * exposure * 200.0 / height_m
    assert np.sqrt(12.0 * variance) == pytest.approx(way, rel=0.02)
    assert place == pytest.approx(47.5 - 0.2 * 50.0 + way / 2, abs=0.1)


# ---- the same bytes ------------------------------------------------------------------------------------------------

PICTURES = """
import hashlib, sys
import parhelion as ph
world = ph.World()
world.add(ph.shapes.plane(60, 60), material="asphalt")
for k in range(9):
    world.add(ph.shapes.box(1 + k % 3, 2, 1 + k), material="brick", pose=ph.Pose((8 + 2 * k, 7 * (k % 3 - 1), 0.5)))
camera = ph.Camera("generic/vga", width=64, height=48, samples=4)
for frame in map(int, sys.argv[1:]):
    image = camera.shoot(world, pose=ph.Pose((0, 0, 2)), seed=5, time=0.1 * frame, frame=frame)
    print(frame, hashlib.sha256(image.colour.tobytes() + image.depth.tobytes()).hexdigest())
"""


def test_the_same_bytes_for_any_number_of_threads_and_any_order() -> None:
    def started(threads: int, *frames: int) -> subprocess.Popen[str]:
        environment = {**os.environ, "PARHELION_THREADS": str(threads)}
        command = [sys.executable, "-c", PICTURES, *map(str, frames)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    runs = [started(1, 0, 1, 2), started(2, 2, 0, 1)]
    one, two = (sorted(run.communicate(timeout=120)[0].split("\n")) for run in runs)
    assert all(run.returncode == 0 for run in runs)
    assert one == two
    assert len(set(one)) == 4
    assert hashlib.sha256(b"").hexdigest() not in "".join(one)
