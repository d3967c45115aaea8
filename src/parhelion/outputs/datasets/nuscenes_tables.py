"""The tables of a nuScenes data set, built up scan by scan.

Source: the schema of the nuScenes development kit (Caesar et al., "nuScenes: A multimodal dataset for autonomous
driving", CVPR 2020). Tokens are hashes of what a row stands for, so the same run gives the same tokens.
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
"""Folder of the tables, which is also what tools are told to load."""
SAMPLE_PERIOD_S = 0.5
"""Key frames, which are annotated, come at 2 Hz."""
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
"""Names of the split mini_train, then of mini_val: tools that look for splits by name find no other scenes."""
TURN = Pose(rpy_deg=(0.0, 0.0, -90.0))
"""The axes of nuScenes' lidar (x right, y forward, z up) in ours (x forward, y left, z up)."""

CATEGORIES = (
    "human.pedestrian.adult", "human.pedestrian.child", "human.pedestrian.wheelchair", "human.pedestrian.stroller",
    "human.pedestrian.personal_mobility", "human.pedestrian.police_officer", "human.pedestrian.construction_worker",
    "animal", "vehicle.car", "vehicle.motorcycle", "vehicle.bicycle", "vehicle.bus.bendy", "vehicle.bus.rigid",
    "vehicle.truck", "vehicle.construction", "vehicle.emergency.ambulance", "vehicle.emergency.police",
    "vehicle.trailer", "movable_object.barrier", "movable_object.trafficcone", "movable_object.pushable_pullable",
    "movable_object.debris", "static_object.bicycle_rack",
)  # fmt: skip
"""nuScenes' own categories; a set has them all, and more where its things fall under none."""
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
"""Visible shares in percent; the tokens are 1 to 4."""


def visibility_token(hidden: float) -> str:
    """Token of a visible share, from the hidden one; what no shot could meet (NaN) is not visible."""
    visible = 0.0 if not np.isfinite(hidden) else 1.0 - hidden
    return str(1 + int(np.searchsorted((0.4, 0.6, 0.8), visible, side="right")))


def attribute_of(category: str, label: str, *, moving: bool, parked: bool) -> str | None:
    """Attribute of a thing in a category; None where nuScenes has none for it."""
    if category in ("vehicle.bicycle", "vehicle.motorcycle"):
        return "cycle.with_rider" if label in ("bicyclist", "motorcyclist") else "cycle.without_rider"
    if category.startswith("human.pedestrian."):
        return "pedestrian.moving" if moving else "pedestrian.standing"
    if category.startswith("vehicle."):
        return "vehicle.moving" if moving else "vehicle.parked" if parked else "vehicle.stopped"
    return None


def camera_channel(name: str) -> str:
    """Channel of a camera: front and cam_front are CAM_FRONT."""
    return f"CAM_{_plain(name, 'CAMERA_', 'CAM_')}"


def radar_channel(name: str) -> str:
    """Channel of a radar: front and radar-front are RADAR_FRONT."""
    return f"RADAR_{_plain(name, 'RADAR_')}"


def _plain(name: str, *prefixes: str) -> str:
    plain = "".join(c if c.isalnum() else "_" for c in name.upper())
    for word in prefixes:
        plain = plain.removeprefix(word)
    return plain


def key_frames(starts: Floats) -> NDArray[np.int64]:
    """Numbers of the scans, of those that begin at even times `starts` [s], which are samples: one every 0.5 s."""
    if len(starts) < 2:
        return np.arange(len(starts))
    period = (starts[-1] - starts[0]) / (len(starts) - 1)
    wanted = np.arange(int((starts[-1] - starts[0]) / SAMPLE_PERIOD_S + 1e-9) + 1) * SAMPLE_PERIOD_S
    return np.unique(np.minimum(np.round(wanted / period).astype(np.int64), len(starts) - 1))


def nearest_of(starts: Floats, samples: Floats, reach_s: float) -> dict[int, int]:
    """For scans that begin at `starts` [s], the number of the sample [s] of which each is the key frame, if of any.

    That is the scan nearest to the sample's time, at most `reach_s` away, and each scan of one sample only.
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
    """A box of one sample, in the global frame."""

    instance: int
    category: str
    attribute: str | None
    visibility: str
    centre: Floats
    """[m], shape (3,)."""
    size: Floats
    """Length, width, height [m]."""
    quat_xyzw: Floats
    velocity: Floats
    """True velocity [m/s], shape (3,): a field that nuScenes does not have."""
    points: int
    """Lidar points in the box."""


@dataclass(frozen=True, eq=False)
class CameraChannel:
    """What the tables say of a camera."""

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
    """One scene: what one vehicle saw."""

    name: str
    logfile: str
    vehicle: str
    location: str
    description: str
    channels: dict[str, Pose] = field(default_factory=dict)
    """Pose of each sensor on the vehicle, in our axes, by channel."""
    cameras: dict[str, CameraChannel] = field(default_factory=dict)
    """Channels that are cameras."""
    radars: set[str] = field(default_factory=set)
    """Channels that are radars."""
    samples: list[int] = field(default_factory=list)
    """Timestamps [µs]."""
    sweeps: list[_Sweep] = field(default_factory=list)
    tracks: dict[int, list[tuple[int, Annotation]]] = field(default_factory=dict)
    """By instance: numbers of samples, and the boxes there."""
    radar_points: dict[int, list[Floats]] = field(default_factory=dict)
    """By number of the sample: places (n, 3) [m] of the radars' detections in the global frame."""
    _unseen: dict[int, list[tuple[int, Annotation]]] = field(default_factory=dict)

    def radar_points_in(self, sample: int, box: Annotation) -> int:
        """Detections of a sample above a box's ground: radars tell heights poorly, or not at all."""
        found = np.concatenate([np.zeros((0, 3)), *self.radar_points.get(sample, [])])
        local = quat_rotate(quat_conjugate(box.quat_xyzw), found - box.centre)
        return int(np.count_nonzero(np.all(np.abs(local[:, :2]) <= 0.5 * box.size[:2], axis=1)))

    def add_sweep(self, channel: str, timestamp: int, filename: str, ego: Pose, sample: int | None) -> None:
        """A scan at a time [µs]; `sample` is the number of the sample whose key frame it is."""
        self.sweeps.append(_Sweep(channel, timestamp, filename, ego, sample))

    def add_sample(self, timestamp: int, seen: Iterable[Annotation], unseen: Iterable[Annotation]) -> None:
        """The next sample: boxes with points of it, and those without.

        A box without points is kept only between two samples in which the thing was seen, so that tracks are whole.
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
    """All tables of a set."""

    def __init__(self, *key: object) -> None:
        """`key` is what tells this set from others: tokens follow from it."""
        self._key = key
        self.scenes: list[SceneTables] = []

    def token(self, *parts: object) -> str:
        """A token of 32 hexadecimal digits."""
        return hashlib.blake2b(repr((self._key, parts)).encode(), digest_size=16).hexdigest()

    def map_name(self, scene: SceneTables) -> str:
        """File of a scene's map."""
        return f"maps/{self.token('map', scene.name)}.png"

    def files(self) -> dict[str, bytes]:
        """The JSON file of every table, by its path in the set."""
        return {
            f"{VERSION}/{name}.json": (json.dumps(rows, indent=1) + "\n").encode() for name, rows in self.rows().items()
        }

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of every table, of the scenes that have samples."""
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
                {
                    "token": self.token("sensor", name),
                    "channel": name,
                    "modality": _modality(name, scenes),
                }
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
            # A sweep belongs to the sample that follows it, since tools find its boxes between that and the one before.
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
    """nuScenes' axes of a sensor in ours: radars there look along x, too."""
    return OPTICAL if channel in scene.cameras else Pose() if channel in scene.radars else TURN


def _links(tokens: list[str], row: int) -> dict[str, str]:
    return {"prev": tokens[row - 1] if row else "", "next": tokens[row + 1] if row + 1 < len(tokens) else ""}


def _placed(pose: Pose) -> dict[str, list[float]]:
    return {"translation": pose.xyz.tolist(), "rotation": np.roll(pose.quat_xyzw, 1).tolist()}


def map_mask(triangles: Floats, width_m: float, height_m: float) -> bytes:
    """A map's mask as PNG, 0.1 m a pixel: white where triangles (n, 3, 2) [m] lie, seen from above.

    The picture's lower left corner is the origin of the global frame, as the development kit takes it.
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


# ---- nuScenes' radar files: a binary PCD of 18 fields, one row a detection ------------------------------------------
# Source: https://github.com/nutonomy/nuscenes-devkit (RadarPointCloud.from_file), which says what the codes mean. Its
# reader wants a row in every file, so a frame without detections has one of NaN, and a byte behind the last row.


LAYOUT = np.dtype(
    [
        ("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("dyn_prop", "i1"), ("id", "<i2"), ("rcs", "<f4"), ("vx", "<f4"),
        ("vy", "<f4"), ("vx_comp", "<f4"), ("vy_comp", "<f4"), ("is_quality_valid", "i1"), ("ambig_state", "i1"),
        ("x_rms", "i1"), ("y_rms", "i1"), ("invalid_state", "i1"), ("pdh0", "i1"), ("vx_rms", "i1"), ("vy_rms", "i1"),
    ]
)  # fmt: skip
"""A row: x ahead and y to the left in the radar's frame [m], cross-section [dBsm], velocities [m/s]."""
MOVING, STATIONARY, ONCOMING = 0, 1, 2
"""Codes of `dyn_prop`."""
UNAMBIGUOUS = 3
"""Code of `ambig_state`; tools leave out detections with others."""
LIKELY_REAL = 1
"""Code of `pdh0`: less than 25 % chance of a false alarm."""


def rows_of(scan: RadarScan, own_velocity: NDArray[np.float64], moving_m_s: float) -> NDArray[np.void]:
    """The rows of a frame.

    `own_velocity` (3,) [m/s] is the radar's over ground, in its own frame. A radar measures the velocity along the line
    of sight alone: `vx` and `vy` are that as a vector; `vx_comp` and `vy_comp` have the radar's own share taken out.
    What is faster than `moving_m_s` moves away or comes. Rows carry what a radar knows, so mirrored and false ones are
    not marked; the fields of accuracy (`rms`) are 0.
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
    """The file of some rows."""
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
