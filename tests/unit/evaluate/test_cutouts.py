"""Objects cut out by boxes, aligned and compared; simpler lidar models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError, FormatError
from parhelion.evaluate.clouds import Boxes, boxes_of, compare_objects, cut_out, geometric, random_drop
from parhelion.evaluate.clouds.cutouts import GROUND_M, nearest_alike, objects_of, page_of

SIZE = np.array([4.0, 2.0, 1.5])


def shell(points: int = 600, seed: int = 0) -> np.ndarray:
    """Points on the sides of a car of 4 m by 2 m by 1.5 m, in its own frame."""
    rng = np.random.default_rng(seed)
    xyz = rng.uniform(-0.5, 0.5, (points, 3))
    side = rng.integers(0, 2, points)
    xyz[np.arange(points), side] = np.sign(xyz[np.arange(points), side]) * 0.5
    return np.asarray(xyz * SIZE)


def scene(places: list[tuple[float, float, float]], shift: float = 0.0, seed: int = 0) -> tuple[ph.PointCloud, Boxes]:
    """Cars at (x, y, yaw), on a road 1.75 m below the sensor; `shift` moves their points along their own x axis."""
    rng = np.random.default_rng(9)
    parts = [np.column_stack([rng.uniform(-60, 60, (4000, 2)), np.full(4000, -1.75)])]
    centres = np.array([(x, y, -1.0) for x, y, _ in places])
    for (_, _, yaw), centre in zip(places, centres, strict=True):
        turn = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1.0]])
        parts.append((shell(seed=seed) + np.array([shift, 0, 0])) @ turn.T + centre)
    yaws = np.array([yaw for _, _, yaw in places])
    boxes = Boxes(("Car",) * len(places), centres, np.tile(SIZE, (len(places), 1)), yaws)
    return ph.PointCloud(np.concatenate(parts)), boxes


def test_objects_of_other_places_coincide_in_the_frame_of_their_boxes() -> None:
    (first,), (second,) = (cut_out(*scene([place])) for place in ((12.0, 5.0, 0.7), (14.0, -9.0, -2.0)))
    np.testing.assert_allclose(first.points, second.points, atol=1e-5)
    # The road, 15 cm around the lower face, is no part of the car.
    assert first.points[:, 2].min() >= GROUND_M - 0.5 * SIZE[2]
    assert first.distance_m == pytest.approx(13.0)
    # The sensor stands in the direction (-12, -5) from the car, whose front points to 0.7 rad.
    assert first.side_deg == pytest.approx(np.degrees(np.arctan2(-5.0, -12.0) - 0.7) % 360.0, abs=1e-6)
    assert first.volume_m3 == pytest.approx(4.0 * 2.0 * (1.5 - GROUND_M), rel=0.02)


def test_distances_of_shifted_objects_are_known() -> None:
    """Every object is shifted by 5 cm; the earth mover's distance is the shift, exactly."""
    real = cut_out(*scene([(10.0, 0.0, 0.3), (40.0, 3.0, 0.3), (-35.0, 8.0, 2.0)]))
    made = cut_out(*scene([(10.0, 0.0, 0.3), (40.0, 3.0, 0.3), (-35.0, 8.0, 2.0)], shift=0.05))
    result = compare_objects(real, made)
    assert [(row["from_m"], row["real"]["objects"], row["pairs"]) for row in result["rows"]] == [(0, 1, 1), (30, 2, 2)]
    for row in result["rows"]:
        assert row["emd_m"] == pytest.approx(0.05, abs=1e-4)
        assert row["emd_exact"]
        assert 0.0 < row["chamfer_m"] <= 0.1 + 1e-6
        assert row["real"]["truncation_percent"] == pytest.approx(100 * GROUND_M / 1.5, abs=3.0)
    assert "Objects compared" in page_of(result, "a", "b")


def test_objects_seen_from_another_side_are_not_compared() -> None:
    real = cut_out(*scene([(15.0, 0.0, 0.0)]))
    same, behind, far = (cut_out(*scene([place]))[0] for place in ((18.0, 0.0, 0.1), (15.0, 0, np.pi), (40.0, 0, 0)))
    assert nearest_alike(real[0], [behind, far]) is None
    assert nearest_alike(real[0], [behind, far, same]) is same
    result = compare_objects(real, [behind])
    assert result["rows"][0]["pairs"] == 0
    assert result["rows"][0]["chamfer_m"] is None
    with pytest.raises(ConfigError, match="simulated clouds have no points in any box"):
        compare_objects(real, [])


def test_label_files_in_both_axes(tmp_path: Path) -> None:
    """A box 12 m ahead and 5 m to the left, 30° to the left, as KITTI writes it in lidar and in camera axes."""
    yaw = np.radians(30.0)
    for axes, numbers in (
        ("lidar", (12.0, 5.0, -1.75, yaw)),
        ("camera", (-5.0, 1.75, 12.0, -yaw - np.pi / 2)),
    ):
        place = " ".join(f"{one:.6f}" for one in numbers)
        file = tmp_path / f"{axes}.txt"
        file.write_text(f"Car 0 0 0 -1 -1 -1 -1 1.5 2.0 4.0 {place}\nDontCare -1 -1 -10 0 0 9 9 -1 -1 -1 -9 -9 -9 -9\n")
        found = boxes_of(file, axes)  # type: ignore[arg-type]
        assert found.kind == ("Car",)
        np.testing.assert_allclose(found.centre, [[12.0, 5.0, -1.0]], atol=1e-5)
        np.testing.assert_allclose(found.size, [SIZE])
        assert found.yaw[0] == pytest.approx(yaw, abs=1e-5)
    cloud, _ = scene([(12.0, 5.0, yaw)])
    cloud.save(tmp_path / "lidar.pcd")
    assert len(objects_of(tmp_path / "lidar.pcd", None, "lidar")) == 1
    (tmp_path / "run" / "roof-boxes").mkdir(parents=True)
    (tmp_path / "run" / "roof").mkdir()
    cloud.save(tmp_path / "run" / "roof" / "000000.pcd")
    (tmp_path / "lidar.txt").rename(tmp_path / "run" / "roof-boxes" / "000000.txt")
    assert len(objects_of(tmp_path / "run" / "roof", None, "lidar")) == 1
    with pytest.raises(FormatError, match="no KITTI label file"):
        objects_of(tmp_path / "lidar.pcd", tmp_path.parent, "lidar")


def test_simpler_models() -> None:
    """Pure geometry returns every shot on a black wall beyond the range of the sensor; random drop keeps its share."""
    world = ph.World()
    world.add(ph.shapes.box(1, 100, 60), material="rubber", label="wall", pose=ph.Pose(xyz=(80.5, 0, 0)))
    lidar = ph.Lidar("velodyne/vlp-16")
    cloud = geometric(world, lidar, ph.Pose())
    np.testing.assert_allclose(cloud.xyz[:, 0], 80.0, atol=1e-3)
    # The wall spans ±32.0° of azimuth at all 16 elevations: 64.0° / 0.2° shots.
    step = np.degrees(2.0 * np.arctan2(50.0, 80.0)) / (360.0 * 16 / len(lidar.shots()))
    assert len(cloud) == pytest.approx(16 * step, rel=0.01)
    kept = random_drop(cloud, 0.3, seed=1)
    assert len(kept) == pytest.approx(0.7 * len(cloud), abs=3.9 * np.sqrt(0.21 * len(cloud)))
    assert np.array_equal(random_drop(cloud, 0.3, seed=1).xyz, kept.xyz)
    with pytest.raises(ConfigError, match="from 0 to below 1"):
        random_drop(cloud, 1.0)
