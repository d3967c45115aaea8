"""Ground-truth boxes: they contain the points of their instance, and the written files follow their formats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.core.pose import quat_rotate
from parhelion.motion.actors import add_car, add_forklift, add_loaded_pallet, add_person, scatter, set_mobility
from parhelion.motion.boxes import BoxTruth
from parhelion.outputs.datasets.boxes import (
    CAMERA_FROM_LIDAR,
    kitti_lines,
    nuscenes_annotations,
    write_kitti_labels,
    write_nuscenes_boxes,
)
from rigs import sheet

AROUND = {
    "kind": "raster", "rate_hz": 10, "azimuth_deg": (-179, 179), "elevation_deg": (-25, 10), "columns": 720, "rows": 24,
}  # fmt: skip
HEAD = {"min_m": 0.1, "max_m": 300, "rated": [{"reflectance": 0.1, "range_m": 200}]}
SENSOR = ph.Pose((0, 0, 1.7), rpy_deg=(1, -2, 25))


def lidar() -> ph.Lidar:
    return ph.Lidar(sheet(pattern=AROUND, range=HEAD), noise=False)


def yard() -> ph.World:
    """Static objects in all directions."""
    world = ph.World()
    world.add(ph.shapes.plane(60, 60), material="concrete", label="floor")
    add_car(world, ph.Pose((9, 2, 0), rpy_deg=(0, 0, 35)), "suv")
    add_person(world, ph.Pose((4, -5, 0), rpy_deg=(0, 0, 120)))
    add_forklift(world, ph.Pose((-7, 3, 0), rpy_deg=(0, 0, -60)), 1.0)
    add_loaded_pallet(world, ph.Pose((-4, -6, 0), rpy_deg=(0, 0, 10)), seed=2)
    scatter(world, (2, 2, 6, 6), count=6, seed=1)
    return world


def test_boxes_hold_all_points_of_their_instance() -> None:
    """A standing scene without noise: every point within 2 cm of its box, in the world and in the sensor's frame."""
    world = yard()
    scan = lidar().scan(world, pose=SENSOR)
    frame = BoxTruth(world).of(scan)
    points = scan.in_world().xyz
    assert len(frame.world) == len(frame.sensor) == 11
    seen = 0
    for box, local in zip(frame.world, frame.sensor, strict=True):
        # Ghosts off the car's glass carry its number, too, but are no points of its surface.
        own = (scan.instance == box.instance) & (scan.origin == 0)
        assert box.points == local.points == own.sum()
        assert box.contains(points[own], 0.02).all()
        assert local.contains(scan.xyz[own], 0.02).all()
        assert np.all(box.velocity == 0.0)
        seen += int(own.sum())
    assert seen == np.count_nonzero(scan.origin == 0)
    cars = [box for box in frame.world if box.label == "car"]
    # Boxes are tight, too: none could lose 5 cm, as far as the points show it.
    assert cars[0].points > 200
    assert not cars[0].contains(points[scan.instance == cars[0].instance], -0.05).all()


def test_box_of_a_turned_block_is_the_block() -> None:
    world = ph.World()
    pose = ph.Pose((3, 4, 1), rpy_deg=(0, 0, 50))
    item = world.add(ph.shapes.box(4, 2, 1), material="steel", label="machine", pose=pose)
    (box,) = BoxTruth(world).at(0.0)
    assert box.centre == pytest.approx([3, 4, 1])
    assert box.size == pytest.approx([4, 2, 1])
    assert np.degrees(box.yaw) == pytest.approx(50)
    assert (box.label, box.mobility, box.instance, box.frame) == ("machine", "static", item.instance, "world")
    corners = box.corners()
    assert corners.min(axis=0) == pytest.approx(item.bounds()[0])
    assert corners.max(axis=0) == pytest.approx(item.bounds()[1])
    assert corners[7] == pytest.approx(pose.apply([2, 1, 0.5]))
    seen = box.seen_from(SENSOR)
    assert SENSOR.apply(seen.corners()) == pytest.approx(corners, abs=1e-12)
    assert seen.frame == "sensor"


def test_moving_objects_are_boxed_where_their_points_are() -> None:
    """A car at 15 m/s and a sensor at 8 m/s: with "points" boxes hold the raw points within 2 cm and the skew."""
    world = ph.World()
    speed = 15.0
    car = add_car(world, ph.ConstantTwist(ph.Pose((-13, 8, 0)), (speed, 0, 0)), "estate")
    person = add_person(world, ph.ConstantTwist(ph.Pose((20, -6.8, 0), rpy_deg=(0, 0, 90)), (0, 1.4, 0)))
    drive = ph.ConstantTwist(ph.Pose((0, 0, 1.7)), (8, 0, 0), (0, 0, 0.3))
    scan = lidar().scan(world, trajectory=drive, time=2.0)
    truth = BoxTruth(world)
    frame = truth.of(scan, "points")
    for box, local, velocity in zip(frame.world, frame.sensor, ((speed, 0, 0), (0, 1.4, 0)), strict=True):
        own = (scan.instance == box.instance) & (scan.origin == 0)
        assert box.points == own.sum() > 40
        time = scan.time[own].astype(np.float64)
        skew = np.max(np.abs(time - time.mean())) * np.linalg.norm(np.subtract(velocity, (8, 0, 0)))
        assert local.contains(scan.xyz[own], 0.02 + skew).all()
        assert box.velocity[:2] == pytest.approx(velocity[:2], abs=1e-2)
        assert abs(box.velocity[2]) < 0.7
        # At each point's own time the box holds it exactly, wherever the motion is.
        points = scan.in_world().xyz[own]
        at = [next(b for b in truth.at(2.0 + float(t)) if b.instance == box.instance) for t in time[::9]]
        assert all(b.contains(p, 0.02) for b, p in zip(at, points[::9], strict=True))
    start = truth.of(scan)
    by_instance = {box.instance: box for box in start.world}
    assert by_instance[car.instance].centre[0] == pytest.approx(-13 + 2.0 * speed, abs=0.1)
    assert by_instance[person.instance].time == 2.0
    assert truth.of(scan, 5.0).world[0].centre[0] == pytest.approx(-13 + 5.0 * speed, abs=0.1)


def test_boxes_of_articulated_objects_are_one_and_grow_with_the_stride() -> None:
    world = ph.World()
    add_person(world, ph.ConstantTwist(ph.Pose(), (1.4, 0, 0)))
    truth = BoxTruth(world)
    boxes = [truth.at(float(t))[0] for t in np.linspace(0, 1.05, 30)]
    length = np.array([box.size[0] for box in boxes])
    assert len(truth.at(0.0)) == 1
    assert length.max() > 0.9 > 0.6 > length.min()
    assert np.array([box.size[2] for box in boxes]) == pytest.approx(1.72, abs=0.05)
    assert np.array([box.centre[2] - box.size[2] / 2 for box in boxes]) == pytest.approx(0.0, abs=1e-6)


def test_choice_of_instances_and_changes_of_the_world() -> None:
    world = yard()
    assert {box.label for box in BoxTruth(world, labels=("car", "person")).at(0.0)} == {"car", "person"}
    dynamic = BoxTruth(world, mobility=("dynamic",))
    assert {box.label for box in dynamic.at(0.0)} == {"person", "forklift"}
    truth = BoxTruth(world)
    before = truth.at(0.0)
    hidden = world.add(ph.shapes.box(1, 1, 1), material="steel", hidden_from="lidar")
    item = world.add(ph.shapes.box(1, 1, 1), material="steel")
    after = truth.at(1.0)
    assert len(after) == len(before) + 1
    assert hidden.instance not in {box.instance for box in after}
    assert all(box.time == 1.0 for box in after)
    set_mobility(world, item.instance, "movable")
    assert truth.at(0.0)[-1].mobility == "movable"
    with pytest.raises(ConfigError, match="boxes: time must be finite, got nan"):
        truth.at(float("nan"))
    assert BoxTruth(ph.World()).at(0.0) == []


def test_kitti_labels_lead_back_to_the_box(tmp_path: Path) -> None:
    """Corners rebuilt as KITTI's tools do it (location, sizes, rotation_y in camera axes) are those of the box."""
    world = ph.World()
    add_car(world, ph.Pose((12, 3, 0), rpy_deg=(0, 0, 35)))
    scan = lidar().scan(world, pose=ph.Pose((0, 0, 1.7), rpy_deg=(0, 0, 10)))
    frame = BoxTruth(world).of(scan)
    write_kitti_labels(frame, tmp_path / "000000.txt")
    words = (tmp_path / "000000.txt").read_text().split()
    assert len(words) == 15
    assert words[:3] == ["Car", "0.00", "3"]
    alpha, *image_box, height, width, length, x, y, z, turn = map(float, words[3:])
    assert image_box == [-1.0] * 4
    xs = np.array([1, 1, -1, -1, 1, 1, -1, -1]) * length / 2
    ys = np.array([0, 0, 0, 0, -1, -1, -1, -1]) * height
    zs = np.array([1, -1, -1, 1, 1, -1, -1, 1]) * width / 2
    about_y = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
    corners = (about_y @ np.stack([xs, ys, zs])).T + np.array([x, y, z])
    true = frame.sensor[0].corners() @ CAMERA_FROM_LIDAR.T
    apart = np.linalg.norm(corners[:, None] - true[None], axis=2)
    assert np.sort(apart.min(axis=1)) == pytest.approx(0.0, abs=1e-3)
    assert len(set(apart.argmin(axis=1).tolist())) == 8
    assert alpha == pytest.approx(turn - np.arctan2(x, z), abs=1e-3)
    # The car's nose in camera axes: rotation_y turns the camera's x axis onto it.
    nose = CAMERA_FROM_LIDAR @ quat_rotate(frame.sensor[0].quat_xyzw, np.array([1.0, 0, 0]))
    assert about_y @ [1, 0, 0] == pytest.approx(nose, abs=1e-3)


def test_kitti_labels_in_the_lidars_axes() -> None:
    world = ph.World()
    add_car(world, ph.Pose((12, 3, 0), rpy_deg=(0, 0, 35)))
    (box,) = BoxTruth(world).at(0.0)
    words = kitti_lines([box], frame="lidar")[0].split()
    numbers = [float(word) for word in words[8:]]
    assert numbers[:3] == pytest.approx([box.size[2], box.size[1], box.size[0]], abs=1e-4)
    assert numbers[3:6] == pytest.approx([*box.centre[:2], 0.0], abs=1e-4)
    assert numbers[6] == pytest.approx(np.radians(35), abs=1e-4)
    with pytest.raises(ConfigError, match="kitti labels: frame must be camera or lidar, got 'robot'"):
        kitti_lines([box], frame="robot")  # type: ignore[arg-type]


def test_unseen_boxes_are_left_out_of_kitti_files(tmp_path: Path) -> None:
    world = ph.World()
    world.add(ph.shapes.board(20, 20), material="brick", pose=ph.Pose((6, 0, 0)))
    add_car(world, ph.Pose((12, 0, 0)))
    frame = BoxTruth(world).of(lidar().scan(world, pose=ph.Pose((0, 0, 1.7))))
    for least, kinds in ((1, ["Misc"]), (0, ["Misc", "Car"])):
        write_kitti_labels(frame, tmp_path / "label.txt", least_points=least)
        lines = (tmp_path / "label.txt").read_text().splitlines()
        assert [line.split()[0] for line in lines] == kinds


def test_nuscenes_boxes(tmp_path: Path) -> None:
    world = ph.World()
    add_car(world, ph.ConstantTwist(ph.Pose((0, 8, 0), rpy_deg=(0, 0, 30)), (3, 0, 0)))
    add_person(world, ph.Pose((5, 0, 0)))
    scans = [lidar().scan(world, pose=SENSOR, time=time) for time in (0.0, 0.5)]
    truth = BoxTruth(world)
    frames = [truth.of(scan) for scan in scans]
    write_nuscenes_boxes(frames, tmp_path / "boxes.json")
    content = json.loads((tmp_path / "boxes.json").read_text())
    samples = list(content["results"].values())
    assert len(samples) == 2
    for frame, rows in zip(frames, samples, strict=True):
        for box, row in zip(frame.world, rows, strict=True):
            length, width, height = box.size
            assert row["translation"] == pytest.approx(box.centre)
            assert row["size"] == pytest.approx([width, length, height])
            w, x, y, z = row["rotation"]
            assert ph.Pose(quat_xyzw=(x, y, z, w)).rotation == pytest.approx(
                ph.Pose(quat_xyzw=box.quat_xyzw).rotation, abs=1e-12
            )
            assert row["velocity"] == pytest.approx(box.velocity)
            assert row["num_lidar_pts"] == box.points
    car, person = samples[1]
    assert car["category_name"] == "vehicle.car"
    assert person["category_name"] == "human.pedestrian.adult"
    assert car["rotation"][0] == pytest.approx(np.cos(np.radians(15)))
    assert car["velocity"] == pytest.approx([3, 0, 0], abs=1e-6)
    assert car["instance_token"] == samples[0][0]["instance_token"]
    assert car["token"] != samples[0][0]["token"]
    first = (tmp_path / "boxes.json").read_bytes()
    write_nuscenes_boxes([truth.of(scan) for scan in scans], tmp_path / "boxes.json")
    assert (tmp_path / "boxes.json").read_bytes() == first
    write_nuscenes_boxes(frames, tmp_path / "sensor.json", frame="sensor", least_points=10**6)
    assert all(rows == [] for rows in json.loads((tmp_path / "sensor.json").read_text())["results"].values())


def test_labels_without_a_category_keep_their_word() -> None:
    world = ph.World()
    scatter(world, (0, 0, 3, 3), kinds=("cup",), count=1)
    assert nuscenes_annotations(BoxTruth(world).at(0.0), "s")[0]["category_name"] == "movable_object.cup"
