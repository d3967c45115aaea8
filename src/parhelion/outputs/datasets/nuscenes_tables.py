"""Tables of a nuScenes data set, built scan by scan, and its radar files.

Source: the schema of the nuScenes development kit (Caesar et al., "nuScenes: A multimodal dataset for autonomous
driving", CVPR 2020). Tokens are hashes of the identity of a row, so the same run gives the same tokens.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.frames import RadarScan
from parhelion.core.image import OPTICAL
from parhelion.core.pose import Floats, Pose, quat_conjugate, quat_rotate

VERSION = "v1.0-mini"
"""Folder of the tables, and the version to load with nuScenes tools."""
SAMPLE_PERIOD_S = 0.5
"""Period of the annotated key frames [s]."""
SCENE_NAMES = (
    "scene-0061",
    "scene-0553",
    "scene-0655",
    "scene-0757",
    "scene-0796",
    "scene-1077",
    "scene-1094",
    "scene-1100",
    "scene-0103",
    "scene-0916",
)
"""Scene names of the splits mini_train and mini_val; tools that use splits find no other names."""
LIDAR_AXES = Pose(rpy_deg=(0.0, 0.0, -90.0))
"""Pose of the axes of a nuScenes lidar (x right, y forward, z up) in ours (x forward, y left, z up)."""

CATEGORIES = (
    "human.pedestrian.adult", "human.pedestrian.child", "human.pedestrian.wheelchair", "human.pedestrian.stroller",
    "human.pedestrian.personal_mobility", "human.pedestrian.police_officer", "human.pedestrian.construction_worker",
    "animal", "vehicle.car", "vehicle.motorcycle", "vehicle.bicycle", "vehicle.bus.bendy", "vehicle.bus.rigid",
    "vehicle.truck", "vehicle.construction", "vehicle.emergency.ambulance", "vehicle.emergency.police",
    "vehicle.trailer", "movable_object.barrier", "movable_object.trafficcone", "movable_object.pushable_pullable",
    "movable_object.debris", "static_object.bicycle_rack",
)  # fmt: skip
"""Categories of nuScenes; a data set has all of them, and further ones for other objects."""
ATTRIBUTES = {
    "vehicle.moving": "Vehicle is moving.",
    "vehicle.stopped": "Vehicle stands, and could drive on.",
    "vehicle.parked": "Vehicle is parked.",
    "cycle.with_rider": "There is a rider on it.",
    "cycle.without_rider": "There is no rider on it.",
    "pedestrian.sitting_lying_down": "The person sits or lies.",
    "pedestrian.standing": "The person stands.",
    "pedestrian.moving": "The person moves.",
}
VISIBILITY = ("v0-40", "v40-60", "v60-80", "v80-100")
"""Visible fractions in percent; the tokens are 1 to 4."""


def visibility_token(hidden: float) -> str:
    """Token of the visible fraction, from the hidden one; NaN (no shot passes through the box) is not visible."""
    visible = 0.0 if not np.isfinite(hidden) else 1.0 - hidden
    return str(1 + int(np.searchsorted((0.4, 0.6, 0.8), visible, side="right")))


def attribute_of(category: str, label: str, *, moving: bool, parked: bool) -> str | None:
    """Attribute of an object in a category; None if nuScenes has none for it."""
    if category in ("vehicle.bicycle", "vehicle.motorcycle"):
        return "cycle.with_rider" if label in ("bicyclist", "motorcyclist") else "cycle.without_rider"
    if category.startswith("human.pedestrian."):
        return "pedestrian.moving" if moving else "pedestrian.standing"
    if category.startswith("vehicle."):
        return "vehicle.moving" if moving else "vehicle.parked" if parked else "vehicle.stopped"
    return None


def camera_channel(name: str) -> str:
    """Channel of a camera: front and cam_front become CAM_FRONT."""
    return f"CAM_{_plain(name, 'CAMERA_', 'CAM_')}"


def radar_channel(name: str) -> str:
    """Channel of a radar: front and radar-front become RADAR_FRONT."""
    return f"RADAR_{_plain(name, 'RADAR_')}"


def _plain(name: str, *prefixes: str) -> str:
    plain = "".join(c if c.isalnum() else "_" for c in name.upper())
    for word in prefixes:
        plain = plain.removeprefix(word)
    return plain


def key_frames(starts: Floats) -> NDArray[np.int64]:
    """Numbers of the scans that are samples, one every 0.5 s, from evenly spaced start times `starts` [s]."""
    if len(starts) < 2:
        return np.arange(len(starts))
    period = (starts[-1] - starts[0]) / (len(starts) - 1)
    wanted = np.arange(int((starts[-1] - starts[0]) / SAMPLE_PERIOD_S + 1e-9) + 1) * SAMPLE_PERIOD_S
    return np.unique(np.minimum(np.round(wanted / period).astype(np.int64), len(starts) - 1))


def nearest_of(starts: Floats, samples: Floats, reach_s: float) -> dict[int, int]:
    """Numbers of the samples by number of their key frame, from the start times of scans and the times of samples [s].

    The key frame of a sample is the nearest scan in time, at most `reach_s` [s] away. A scan is the key frame of one
    sample at most.
    """
    if not len(starts) or not len(samples):
        return {}
    found: dict[int, int] = {}
    rows = np.searchsorted(0.5 * (starts[1:] + starts[:-1]), samples)
    for sample, scan in enumerate(rows.tolist()):
        off = abs(starts[scan] - samples[sample])
        if off <= reach_s and (scan not in found or off < abs(starts[scan] - samples[found[scan]])):
            found[scan] = sample
    return found


@dataclass(frozen=True, eq=False)
class Annotation:
    """Box of an object in one sample, in the global frame."""

    instance: int
    category: str
    attribute: str | None
    visibility: str
    centre: Floats
    """Centre [m], shape (3,)."""
    size: Floats
    """Length, width, height [m]."""
    quat_xyzw: Floats
    velocity: Floats
    """True velocity [m/s], shape (3,); nuScenes does not have this field."""
    points: int
    """Number of lidar points in the box."""


@dataclass(frozen=True, eq=False)
class CameraChannel:
    """Calibration of a camera in the tables."""

    matrix: Floats
    """Camera matrix, shape (3, 3)."""
    width: int
    height: int


@dataclass(frozen=True, eq=False)
class _Sweep:
    channel: str
    timestamp: int
    filename: str
    ego: Pose
    sample: int | None


@dataclass
class SceneTables:
    """One scene: the measurements of one vehicle."""

    name: str
    logfile: str
    vehicle: str
    location: str
    description: str
    channels: dict[str, Pose] = field(default_factory=dict)
    """Pose of each sensor on the vehicle, in our axes, by channel."""
    cameras: dict[str, CameraChannel] = field(default_factory=dict)
    """Calibration of cameras, by channel."""
    radars: set[str] = field(default_factory=set)
    """Channels of radars."""
    samples: list[int] = field(default_factory=list)
    """Timestamps of the samples [µs]."""
    sweeps: list[_Sweep] = field(default_factory=list)
    """All frames."""
    tracks: dict[int, list[tuple[int, Annotation]]] = field(default_factory=dict)
    """Numbers of samples with the box in each, by instance."""
    radar_points: dict[int, list[Floats]] = field(default_factory=dict)
    """Positions (n, 3) [m] of radar detections in the global frame, by number of the sample."""
    _unseen: dict[int, list[tuple[int, Annotation]]] = field(default_factory=dict)

    def radar_points_in(self, sample: int, box: Annotation) -> int:
        """Number of detections of a sample above the footprint of a box; radars hardly measure heights."""
        found = np.concatenate([np.zeros((0, 3)), *self.radar_points.get(sample, [])])
        local = quat_rotate(quat_conjugate(box.quat_xyzw), found - box.centre)
        return int(np.count_nonzero(np.all(np.abs(local[:, :2]) <= 0.5 * box.size[:2], axis=1)))

    def add_sweep(self, channel: str, timestamp: int, filename: str, ego: Pose, sample: int | None) -> None:
        """Add a frame at a time [µs]; `sample` is the number of its sample if it is a key frame."""
        self.sweeps.append(_Sweep(channel, timestamp, filename, ego, sample))

    def add_sample(self, timestamp: int, seen: Iterable[Annotation], unseen: Iterable[Annotation]) -> None:
        """Add the next sample, with its boxes with points and those without.

        A box without points is included only between two samples in which the object was visible, so that tracks have
        no gaps.
        """
        number = len(self.samples)
        self.samples.append(timestamp)
        for one in unseen:
            if one.instance in self.tracks:
                self._unseen.setdefault(one.instance, []).append((number, one))
        for one in seen:
            track = self.tracks.setdefault(one.instance, [])
            track += self._unseen.pop(one.instance, [])
            track.append((number, one))


class Tables:
    """All tables of a data set."""

    def __init__(self, *key: object) -> None:
        """Create empty tables; `key` identifies the data set and is part of all tokens."""
        self._key = key
        self.scenes: list[SceneTables] = []

    def token(self, *parts: object) -> str:
        """Token of 32 hexadecimal digits."""
        return hashlib.blake2b(repr((self._key, parts)).encode(), digest_size=16).hexdigest()

    def map_name(self, scene: SceneTables) -> str:
        """File name of the map of a scene."""
        return f"maps/{self.token('map', scene.name)}.png"

    def files(self) -> dict[str, bytes]:
        """JSON file of every table, by path in the data set."""
        return {
            f"{VERSION}/{name}.json": (json.dumps(rows, indent=1) + "\n").encode() for name, rows in self.rows().items()
        }

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Rows of every table, for the scenes that have samples."""
        scenes = [scene for scene in self.scenes if scene.samples]
        used = {one.category for scene in scenes for track in scene.tracks.values() for _, one in track}
        categories = [*CATEGORIES, *sorted(used - set(CATEGORIES))]
        channels = list(dict.fromkeys(channel for scene in scenes for channel in scene.channels))
        tables: dict[str, list[dict[str, Any]]] = {
            "category": [
                {"token": self.token("category", name), "name": name, "description": ""} for name in categories
            ],
            "attribute": [
                {"token": self.token("attribute", name), "name": name, "description": text}
                for name, text in ATTRIBUTES.items()
            ],
            "visibility": [
                {"token": str(row), "level": level, "description": f"visible share {level[1:]} % of the lidar's shots"}
                for row, level in enumerate(VISIBILITY, start=1)
            ],
            "sensor": [
                {"token": self.token("sensor", name), "channel": name, "modality": _modality(name, scenes)}
                for name in channels
            ],
        }
        for name in ("calibrated_sensor", "ego_pose", "log", "scene", "sample", "sample_data", "map", "instance"):
            tables[name] = []
        tables["sample_annotation"] = []
        for scene in scenes:
            self._add_frames(tables, scene)
            self._add_boxes(tables, scene)
        return tables

    def _add_frames(self, tables: Mapping[str, list[dict[str, Any]]], scene: SceneTables) -> None:
        token, name = self.token, scene.name
        log = token("log", name)
        tables["log"].append(
            {
                "token": log,
                "logfile": scene.logfile,
                "vehicle": scene.vehicle,
                "date_captured": "1970-01-01",
                "location": scene.location,
            }
        )
        tables["map"].append(
            {
                "token": token("map", name),
                "log_tokens": [log],
                "category": "semantic_prior",
                "filename": self.map_name(scene),
            }
        )
        samples = [token("sample", name, stamp) for stamp in scene.samples]
        tables["scene"].append(
            {
                "token": token("scene", name),
                "log_token": log,
                "nbr_samples": len(samples),
                "first_sample_token": samples[0],
                "last_sample_token": samples[-1],
                "name": name,
                "description": scene.description,
            }
        )
        for row, (one, stamp) in enumerate(zip(samples, scene.samples, strict=True)):
            tables["sample"].append(
                {"token": one, "timestamp": stamp, **_links(samples, row), "scene_token": token("scene", name)}
            )
        for channel, mount in scene.channels.items():
            sensor, camera = token("calibrated_sensor", name, channel), scene.cameras.get(channel)
            tables["calibrated_sensor"].append(
                {
                    "token": sensor,
                    "sensor_token": token("sensor", channel),
                    **_placed(mount @ _axes_of(scene, channel)),
                    "camera_intrinsic": [] if camera is None else camera.matrix.tolist(),
                }
            )
            sweeps = [sweep for sweep in scene.sweeps if sweep.channel == channel]
            data = [token("sample_data", name, channel, sweep.timestamp) for sweep in sweeps]
            # A sweep belongs to the next sample, because tools interpolate its boxes between that and the previous one.
            following = np.searchsorted(scene.samples, [sweep.timestamp for sweep in sweeps])
            for row, sweep in enumerate(sweeps):
                key = sweep.sample is not None and sweep.sample < len(samples)
                sample = sweep.sample if key and sweep.sample is not None else min(following[row], len(samples) - 1)
                tables["ego_pose"].append({"token": data[row], "timestamp": sweep.timestamp, **_placed(sweep.ego)})
                tables["sample_data"].append(
                    {
                        "token": data[row],
                        "sample_token": samples[sample],
                        "ego_pose_token": data[row],
                        "calibrated_sensor_token": sensor,
                        "timestamp": sweep.timestamp,
                        "fileformat": "pcd" if camera is None else "png",
                        "is_key_frame": key,
                        "height": 0 if camera is None else camera.height,
                        "width": 0 if camera is None else camera.width,
                        "filename": sweep.filename,
                        **_links(data, row),
                    }
                )

    def _add_boxes(self, tables: Mapping[str, list[dict[str, Any]]], scene: SceneTables) -> None:
        token, name = self.token, scene.name
        for instance, track in sorted(scene.tracks.items()):
            boxes = [token("annotation", name, instance, scene.samples[number]) for number, _ in track]
            tables["instance"].append(
                {
                    "token": token("instance", name, instance),
                    "category_token": token("category", track[0][1].category),
                    "nbr_annotations": len(boxes),
                    "first_annotation_token": boxes[0],
                    "last_annotation_token": boxes[-1],
                }
            )
            for row, (number, one) in enumerate(track):
                length, width, height = one.size.tolist()
                tables["sample_annotation"].append(
                    {
                        "token": boxes[row],
                        "sample_token": token("sample", name, scene.samples[number]),
                        "instance_token": token("instance", name, instance),
                        "attribute_tokens": [] if one.attribute is None else [token("attribute", one.attribute)],
                        "visibility_token": one.visibility,
                        "translation": one.centre.tolist(),
                        "size": [width, length, height],
                        "rotation": np.roll(one.quat_xyzw, 1).tolist(),
                        **_links(boxes, row),
                        "num_lidar_pts": one.points,
                        "num_radar_pts": scene.radar_points_in(number, one),
                        "velocity": one.velocity.tolist(),
                    }
                )


def _modality(channel: str, scenes: Iterable[SceneTables]) -> str:
    for scene in scenes:
        if channel in scene.channels:
            return "camera" if channel in scene.cameras else "radar" if channel in scene.radars else "lidar"
    return "lidar"


def _axes_of(scene: SceneTables, channel: str) -> Pose:
    """Pose of the nuScenes axes of a sensor in ours; those of radars are the same, with x forward."""
    return OPTICAL if channel in scene.cameras else Pose() if channel in scene.radars else LIDAR_AXES


def _links(tokens: list[str], row: int) -> dict[str, str]:
    return {"prev": tokens[row - 1] if row else "", "next": tokens[row + 1] if row + 1 < len(tokens) else ""}


def _placed(pose: Pose) -> dict[str, list[float]]:
    return {"translation": pose.xyz.tolist(), "rotation": np.roll(pose.quat_xyzw, 1).tolist()}


def map_mask(triangles: Floats, width_m: float, height_m: float) -> bytes:
    """Map mask as PNG with 0.1 m per pixel: white on triangles (n, 3, 2) [m], seen from above.

    The lower left corner is the origin of the global frame, as the development kit assumes.
    """
    from io import BytesIO

    from PIL import Image, ImageDraw

    size = max(1, round(10.0 * width_m)), max(1, round(10.0 * height_m))
    picture = Image.new("L", size, 0)
    pixels = np.stack([10.0 * triangles[..., 0], size[1] - 10.0 * triangles[..., 1]], axis=-1)
    low, high = pixels.min(axis=1), pixels.max(axis=1)
    draw = ImageDraw.Draw(picture)
    for corners in pixels[np.all((high >= 0.0) & (low <= size), axis=1)].tolist():
        draw.polygon([tuple(corner) for corner in corners], fill=255)
    data = BytesIO()
    picture.save(data, format="PNG")
    return data.getvalue()


# ---- radar files: a binary PCD with 18 fields, one row per detection ------------------------------------------------
# Source: https://github.com/nutonomy/nuscenes-devkit (RadarPointCloud.from_file), which defines the codes. It requires
# at least one row, so a frame without detections has one row of NaN, and a byte after the last row.


LAYOUT = np.dtype(
    [
        ("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("dyn_prop", "i1"), ("id", "<i2"), ("rcs", "<f4"), ("vx", "<f4"),
        ("vy", "<f4"), ("vx_comp", "<f4"), ("vy_comp", "<f4"), ("is_quality_valid", "i1"), ("ambig_state", "i1"),
        ("x_rms", "i1"), ("y_rms", "i1"), ("invalid_state", "i1"), ("pdh0", "i1"), ("vx_rms", "i1"), ("vy_rms", "i1"),
    ]
)  # fmt: skip
"""Fields of a detection: x forward and y left in the radar frame [m], cross-section [dBsm], velocities [m/s]."""
MOVING, STATIONARY, ONCOMING = 0, 1, 2
"""Codes of `dyn_prop`."""
UNAMBIGUOUS = 3
"""Code of `ambig_state`; tools skip detections with other codes."""
LIKELY_REAL = 1
"""Code of `pdh0`: probability of a false alarm below 25 %."""


def rows_of(scan: RadarScan, own_velocity: NDArray[np.float64], moving_m_s: float) -> NDArray[np.void]:
    """Rows of a frame.

    `own_velocity` (3,) [m/s] is the velocity of the radar over ground, in its own frame. A radar measures only the
    velocity along the line of sight: `vx` and `vy` are its components; `vx_comp` and `vy_comp` are compensated for the
    motion of the radar. Detections faster than `moving_m_s` count as moving or oncoming. As in real data, multipath
    detections and false alarms are not marked. The fields of accuracy (`rms`) are 0.
    """
    rows = np.zeros(len(scan), LAYOUT)
    xyz = scan.xyz.astype(np.float64)
    unit = xyz / np.maximum(np.linalg.norm(xyz, axis=1, keepdims=True), 1e-9)
    speed = scan.fields["radial_velocity"].astype(np.float64)
    over_ground = speed + unit @ own_velocity
    rows["x"], rows["y"], rows["z"] = xyz.T
    rows["id"] = np.arange(len(scan)) % 32768
    rows["rcs"] = scan.fields["rcs"]
    rows["vx"], rows["vy"] = (speed[:, None] * unit[:, :2]).T
    rows["vx_comp"], rows["vy_comp"] = (over_ground[:, None] * unit[:, :2]).T
    rows["dyn_prop"] = np.where(
        np.abs(over_ground) <= moving_m_s, STATIONARY, np.where(over_ground < 0.0, ONCOMING, MOVING)
    )
    rows["is_quality_valid"], rows["ambig_state"], rows["pdh0"] = 1, UNAMBIGUOUS, LIKELY_REAL
    return rows


def encode(rows: NDArray[np.void]) -> bytes:
    """Encode rows as a file."""
    if not len(rows):
        rows = np.zeros(1, LAYOUT)
        for name in LAYOUT.names or ():
            if LAYOUT[name].kind == "f":
                rows[name] = np.nan
    names = LAYOUT.names or ()
    kinds = {"f": "F", "i": "I"}
    lines = [
        "# .PCD v0.7 - Point Cloud Data file format",
        "VERSION 0.7",
        f"FIELDS {' '.join(names)}",
        f"SIZE {' '.join(str(LAYOUT[name].itemsize) for name in names)}",
        f"TYPE {' '.join(kinds[LAYOUT[name].kind] for name in names)}",
        f"COUNT {' '.join('1' for _ in names)}",
        f"WIDTH {len(rows)}",
        "HEIGHT 1",
        "VIEWPOINT 0 0 0 1 0 0 0",
        f"POINTS {len(rows)}",
        "DATA binary",
    ]
    return "\n".join(lines).encode() + b"\n" + rows.tobytes() + b"\n"
