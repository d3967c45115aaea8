"""Ground-truth boxes as KITTI labels and nuScenes annotations.

frame = BoxTruth(world).of(scan)
write_kitti_labels(frame, "label_2/000000.txt")
write_nuscenes_boxes([frame], "boxes.json")
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.files import atomic_write
from parhelion.core.pose import quat_rotate
from parhelion.motion.boxes import Box, BoxFrame, BoxTruth

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario
    from parhelion.scenario.sensors import FrameOnBoard


def movable_truth(scenario: Scenario, scanner: FrameOnBoard) -> BoxTruth:
    """Boxes of moving and movable objects, except the robot that carries the lidar."""
    return BoxTruth(
        scenario.world,
        mobility=("movable", "dynamic"),
        sensor=scanner.sensor.visibility_keys,
        without=scenario.own_instances(scanner),
    )


# ---- KITTI -----------------------------------------------------------------------------------------------------------

KITTI_TYPES = {
    "car": "Car",
    "moving-car": "Car",
    "truck": "Truck",
    "moving-truck": "Truck",
    "bus": "Truck",
    "person": "Pedestrian",
    "moving-person": "Pedestrian",
    "bicyclist": "Cyclist",
    "moving-bicyclist": "Cyclist",
    "on-rails": "Tram",
    "moving-on-rails": "Tram",
}
"""KITTI type by label; all other labels are Misc."""
CAMERA_FROM_LIDAR = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
"""Rotation from lidar axes to KITTI's camera axes (x right, y down, z forward); the camera faces along the x axis."""


def kitti_lines(boxes: Iterable[Box], *, frame: Literal["camera", "lidar"] = "camera") -> list[str]:
    """Lines of a KITTI label file (object benchmark, label_2), 15 words each.

    type, truncated (0), occluded (3: unknown), alpha, 2D box (four times -1: no image), height, width, length [m],
    location x, y, z [m] of the centre of the lower face, rotation. With `frame="camera"`, location and rotation_y are
    in camera axes at the position of the lidar (calibration: `CAMERA_FROM_LIDAR`, no translation), as KITTI's tools
    expect; rotation_y = 0 faces along the camera's x axis, and alpha is rotation_y minus the bearing atan2(x, z). With
    `frame="lidar"`, they are in lidar axes, the rotation is the yaw about z, and alpha is the yaw minus the bearing
    atan2(y, x). The format has one angle, so only the heading of tilted objects is given.
    """
    if frame not in ("camera", "lidar"):
        raise ConfigError(f"kitti labels: frame must be camera or lidar, got {frame!r}")
    lines = []
    for box in boxes:
        length, width, height = box.size
        foot = box.centre + quat_rotate(box.quat_xyzw, np.array([0.0, 0.0, -0.5 * height]))
        rotation = box.yaw
        bearing = np.arctan2(foot[1], foot[0])
        if frame == "camera":
            foot = CAMERA_FROM_LIDAR @ foot
            rotation, bearing = wrapped(-rotation - 0.5 * np.pi), np.arctan2(foot[0], foot[2])
        numbers = [wrapped(rotation - bearing), -1.0, -1.0, -1.0, -1.0, height, width, length, *foot, rotation]
        kind = KITTI_TYPES.get(box.label, "Misc")
        lines.append(" ".join([kind, "0.00", "3", *(f"{number + 0.0:.4f}" for number in numbers)]))
    return lines


def write_kitti_labels(
    frame: BoxFrame, path: str | PathLike[str], *, axes: Literal["camera", "lidar"] = "camera", least_points: int = 1
) -> None:
    """Write the boxes of one scan with at least `least_points` points, in the sensor frame; see `kitti_lines`."""
    chosen = [box for box in frame.sensor if box.points >= least_points]
    text = "".join(f"{line}\n" for line in kitti_lines(chosen, frame=axes))
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def wrapped(angle: float) -> float:
    """Wrap an angle [rad] to -pi .. pi."""
    return float(np.mod(angle + np.pi, 2.0 * np.pi) - np.pi)


# ---- nuScenes --------------------------------------------------------------------------------------------------------

NUSCENES_CATEGORIES = {
    "car": "vehicle.car",
    "moving-car": "vehicle.car",
    "truck": "vehicle.truck",
    "bus": "vehicle.bus.rigid",
    "bicycle": "vehicle.bicycle",
    "bicyclist": "vehicle.bicycle",
    "motorcycle": "vehicle.motorcycle",
    "motorcyclist": "vehicle.motorcycle",
    "person": "human.pedestrian.adult",
    "moving-person": "human.pedestrian.adult",
    "cone": "movable_object.trafficcone",
    "forklift": "vehicle.construction",
}
"""nuScenes category by label; all other labels get `static_object.`, `movable_object.` or `dynamic_object.` as
prefix."""


def nuscenes_annotations(boxes: Iterable[Box], sample: str) -> list[dict[str, object]]:
    """Boxes as nuScenes annotations: centre, size as width, length, height, and rotation as w, x, y, z.

    Velocity is [x, y, z] in the axes of the translation [m/s]. Tokens depend only on sample and instance.
    """
    rows: list[dict[str, object]] = []
    for box in boxes:
        length, width, height = box.size.tolist()
        x, y, z, w = box.quat_xyzw.tolist()
        category = NUSCENES_CATEGORIES.get(box.label, f"{box.mobility}_object.{box.label}")
        rows.append(
            {
                "token": _token(sample, box.instance),
                "sample_token": _token(sample),
                "instance_token": _token("instance", box.instance),
                "category_name": category,
                "attribute": box.mobility,
                "translation": box.centre.tolist(),
                "size": [width, length, height],
                "rotation": [w, x, y, z],
                "velocity": box.velocity.tolist(),
                "num_lidar_pts": int(box.points),
                "time": box.time,
            }
        )
    return rows


def write_nuscenes_boxes(
    frames: Sequence[BoxFrame],
    path: str | PathLike[str],
    *,
    frame: Literal["world", "sensor"] = "world",
    least_points: int = 0,
) -> None:
    """Write the boxes of scans as one JSON file: lists of annotations by sample token, in order of the frames."""
    if frame not in ("world", "sensor"):
        raise ConfigError(f"nuscenes boxes: frame must be world or sensor, got {frame!r}")
    samples: dict[str, list[dict[str, object]]] = {}
    for number, one in enumerate(frames):
        chosen = [box for box in (one.world if frame == "world" else one.sensor) if box.points >= least_points]
        name = f"{number} {one.time!r}"
        samples[_token(name)] = nuscenes_annotations(chosen, name)
    content = {"meta": {"frame": frame, "units": "m, m/s", "use_lidar": True}, "results": samples}
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _token(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
