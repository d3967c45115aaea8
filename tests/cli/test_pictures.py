"""Pictures: the grids behind them exactly, the drawings as files of the right size that show something."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import parhelion as ph
from parhelion import pictures
from parhelion.core.clouds import Shots
from parhelion.core.trajectory import ConstantTwist
from parhelion.pictures.grids import panorama
from parhelion.pictures.scan import PinholeView, render


@pytest.fixture(scope="module")
def world() -> ph.World:
    return ph.World.load("cuboids")


@pytest.fixture(scope="module")
def scan(world: ph.World) -> ph.Scan:
    return ph.Lidar("velodyne/vlp-16", sub_rays=1, noise=False).scan(world)


def _spinning(azimuth_deg: np.ndarray, elevation_deg: np.ndarray) -> ph.Scan:
    """A scan whose every shot returns from 10 m, its azimuth in `intensity`; shapes (columns, rings)."""
    azimuth, elevation = np.radians(azimuth_deg), np.radians(elevation_deg)
    columns, rings = azimuth.shape
    column, ring = (axis.ravel() for axis in np.indices((columns, rings)))
    direction = np.stack(
        [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)], axis=-1
    ).reshape(-1, 3)
    n = len(direction)
    shots = Shots(
        direction.astype(np.float32), np.zeros((n, 3), np.float32), np.zeros(n, np.float32),
        ring.astype(np.uint16), column.astype(np.uint16), np.ones(n, np.uint8),
    )  # fmt: skip
    wrapped = (azimuth_deg.ravel() + 180.0) % 360.0 - 180.0
    fields = {
        "range": np.full(n, 10.0, np.float32),
        "intensity": wrapped.astype(np.float32),
        "ring": ring.astype(np.uint16),
        "shot": np.arange(n, dtype=np.uint32),
    }
    return ph.Scan((10 * direction).astype(np.float32), fields, shots=shots)


@pytest.mark.parametrize("sense", [-1, 1])
@pytest.mark.parametrize("start_deg", [0.0, 180.0, 37.3])
def test_panorama_runs_from_left_to_right_whichever_way_the_head_turns(sense: int, start_deg: float) -> None:
    columns, stagger = 360, np.array([-4.2, 1.4, 4.2])
    turn = start_deg + sense * np.arange(columns)[:, None] * (360.0 / columns)
    elevation = np.broadcast_to(np.array([-10.0, 0.0, 10.0]), (columns, 3))
    image = pictures.intensity_image(_spinning(turn + stagger, elevation))
    assert image.shape == (3, columns)
    assert np.all(np.isfinite(image))  # every shot has a pixel of its own
    expected = 180.0 - np.arange(columns)
    off = (image - expected + 180.0) % 360.0 - 180.0
    assert np.abs(off).max() <= 0.5 + 1e-3 + 0.5  # half a column of the ring's own, half of the grid's


def test_ring_0_is_the_bottom_row(scan: ph.Scan) -> None:
    image = pictures.field_image(scan, "ring")
    row, column = np.nonzero(np.isfinite(image))
    assert np.array_equal(image[row, column], 15 - row)
    assert row.max() == 15


def test_range_image_holds_every_range_once(scan: ph.Scan) -> None:
    image = pictures.range_image(scan)
    assert image.shape[0] == 16
    assert np.array_equal(np.sort(image[np.isfinite(image)]), np.sort(scan.range))


def test_left_of_the_image_is_left_of_the_sensor() -> None:
    # A board at +y (left), a quarter of the way from the left edge where the back is.
    world = ph.World()
    world.add(ph.shapes.box(1, 1, 4), material="concrete", pose=ph.Pose((0, 10, 0)))
    image = pictures.range_image(ph.Lidar("velodyne/vlp-16", sub_rays=1).scan(world, pose=ph.Pose()))
    columns = np.flatnonzero(np.isfinite(image).any(axis=0)) / image.shape[1]
    assert columns.mean() == pytest.approx(0.25, abs=0.01)


def test_a_sector_keeps_its_edges(world: ph.World) -> None:
    scan = ph.Lidar("hokuyo/utm-30lx", sub_rays=1).scan(world, pose=ph.Pose((0, 0, 0.5)))
    grid = panorama(scan)
    assert grid.shape == (1, 1081)
    assert grid.azimuth_deg == pytest.approx((135.125, -135.125), abs=0.02)


def test_prism_patterns_are_not_organised(world: ph.World, scan: ph.Scan) -> None:
    rosette = ph.Lidar("livox/mid-40", sub_rays=1).scan(world)
    assert pictures.is_organised(scan)
    assert not pictures.is_organised(rosette)
    with pytest.raises(ph.ConfigError, match="rings and columns"):
        pictures.range_image(rosette)


def test_birds_eye_takes_the_highest_point_and_has_y_up() -> None:
    points = [[0.5, 0.5, 1.0], [0.5, 0.5, 3.0], [0.5, 0.5, 2.0], [1.5, -0.5, 7.0], [9.0, 9.0, 9.0], [0.5, -0.5, np.nan]]
    image = pictures.birds_eye(points, extent=(0, 2, -1, 1), cell_m=1.0)
    assert np.array_equal(image, np.array([[3.0, np.nan], [np.nan, 7.0]], np.float32), equal_nan=True)
    values = pictures.birds_eye(points, [10, 20, 30, 40, 50, 60], extent=(0, 2, -1, 1), cell_m=1.0)
    assert values[0, 0] == 20
    with pytest.raises(ph.ConfigError, match="larger than 0"):
        pictures.birds_eye(points, extent=(0, 0, -1, 1), cell_m=1.0)


def test_render_puts_near_points_before_far_ones_and_left_to_the_left() -> None:
    camera = PinholeView(ph.Pose(), width=101, height=101, field_of_view_deg=90.0)
    points = np.array([[10.0, 0.0, 0.0], [5.0, 0.0, 0.0], [10.0, 5.0, 5.0], [-5.0, 0.0, 0.0]])
    red, green, blue = np.eye(3)
    image = render(
        points, np.array([red, green, blue, red]), camera, background=(0, 0, 0), point_size_m=0.0, fade_m=1e9
    )
    assert np.allclose(image[50, 50], green, atol=1e-6)
    rows, columns = np.nonzero(image[..., 2] > 0.5)
    assert (rows.tolist(), columns.tolist()) == ([25], [25])  # 5 m up and 5 m left at 10 m: half-way to the corner
    assert image[..., 0].max() < 1e-6  # the far one is hidden, the one behind is not seen


@pytest.mark.parametrize("model", ["velodyne/vlp-16", "livox/mid-40", "sick/lms-111"])
def test_draw_scan_for_every_kind_of_pattern(world: ph.World, tmp_path: Path, model: str) -> None:
    file = tmp_path / "scan.png"
    pictures.draw_scan(ph.Lidar(model, sub_rays=1).scan(world, pose=ph.Pose((0, 0, 0.8))), file, title="a scan")
    with Image.open(file) as image:
        assert image.size == (1800, 1272)
        colours = image.convert("RGB").getcolors(10**7)
    assert colours is not None
    assert len(colours) > 200


def test_draw_scan_without_points(tmp_path: Path) -> None:
    empty = ph.Lidar("velodyne/vlp-16", sub_rays=1).scan(ph.World())
    assert len(empty) == 0
    pictures.draw_scan(empty, tmp_path / "empty.png")
    assert (tmp_path / "empty.png").stat().st_size > 1000


def test_draw_drive(world: ph.World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parhelion.pictures.scan._MOST_POINTS", 20_000)
    motion = ConstantTwist(ph.Pose((0, 0, 2)), velocity=(10.0, 0.0, 0.0))
    lidar = ph.Lidar("velodyne/vlp-16", sub_rays=1)
    drive = pictures.DrivePoints()
    for number in range(3):
        drive.add(lidar.scan(world, trajectory=motion, time=0.1 * number))
    assert drive.point_count > 30_000
    assert drive._held < 20_000  # thinned
    drive.draw(tmp_path / "drive.png")
    with Image.open(tmp_path / "drive.png") as image:
        assert image.size[0] == 1800


def test_pictures_need_a_known_ending_and_a_scan(scan: ph.Scan, tmp_path: Path) -> None:
    with pytest.raises(ph.ConfigError, match="must end in"):
        pictures.draw_scan(scan, tmp_path / "scan.bmp")
    with pytest.raises(ph.ConfigError, match="expected a Scan"):
        pictures.draw_scan(scan.in_world(), tmp_path / "scan.png")  # type: ignore[arg-type]
    with pytest.raises(ph.ConfigError, match="no scan"):
        pictures.draw_drive([], tmp_path / "drive.png")
    with pytest.raises(ph.ConfigError, match="contains nothing to draw"):
        pictures.draw_world(ph.World("void"), tmp_path / "void.png")
