"""Boxes of a nuScenes data set and of detection results for it.

Frame: the global one of the data set, x and y horizontal, z up. Sources: the schema of the nuScenes development kit and
the result format of its detection task (Caesar et al., "nuScenes: A multimodal dataset for autonomous driving",
CVPR 2020).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table
from parhelion.core.errors import FormatError, nearest_name
from parhelion.core.pose import Floats, quat_conjugate, quat_rotate
from parhelion.core.reading import read_bytes, reading

Rows = NDArray[np.int64]

RANGES_M = {
    "car": 50.0,
    "truck": 50.0,
    "bus": 50.0,
    "trailer": 50.0,
    "construction_vehicle": 50.0,
    "pedestrian": 40.0,
    "motorcycle": 40.0,
    "bicycle": 40.0,
    "traffic_cone": 30.0,
    "barrier": 30.0,
}
"""Classes of the task, and the horizontal distance from the vehicle within which each is scored [m]."""
CLASSES = tuple(RANGES_M)
CLASS_OF_CATEGORY = {
    "movable_object.barrier": "barrier",
    "vehicle.bicycle": "bicycle",
    "vehicle.bus.bendy": "bus",
    "vehicle.bus.rigid": "bus",
    "vehicle.car": "car",
    "vehicle.construction": "construction_vehicle",
    "vehicle.motorcycle": "motorcycle",
    "human.pedestrian.adult": "pedestrian",
    "human.pedestrian.child": "pedestrian",
    "human.pedestrian.construction_worker": "pedestrian",
    "human.pedestrian.police_officer": "pedestrian",
    "movable_object.trafficcone": "traffic_cone",
    "vehicle.trailer": "trailer",
    "vehicle.truck": "truck",
}
"""Annotations of other categories are not scored."""
ATTRIBUTES = (
    "pedestrian.moving",
    "pedestrian.sitting_lying_down",
    "pedestrian.standing",
    "cycle.with_rider",
    "cycle.without_rider",
    "vehicle.moving",
    "vehicle.parked",
    "vehicle.stopped",
)
NO_ATTRIBUTE = -1
MOST_BOXES = 500
"""Largest number of detections per sample."""
_RACK = "static_object.bicycle_rack"
_IN_RACKS = ("bicycle", "motorcycle")
_LONGEST_STEP_S = 1.5
"""Largest interval between samples for a velocity; twice that between the previous and the next sample."""
_TABLES = (
    "attribute",
    "calibrated_sensor",
    "category",
    "ego_pose",
    "instance",
    "sample",
    "sample_annotation",
    "sample_data",
    "scene",
    "sensor",
)


@dataclass(frozen=True, eq=False)
class NuScenesBoxes(Table):
    """Boxes of many samples, one row per box, in file order."""

    sample: Rows
    """Index of the sample, shape (n,)."""
    kind: Rows
    """Row in `CLASSES`, shape (n,)."""
    centre: Floats
    """Centre [m], shape (n, 3)."""
    size: Floats
    """Width, length, height [m], shape (n, 3)."""
    quat_wxyz: Floats
    """Orientation, shape (n, 4)."""
    velocity: Floats
    """Horizontal velocity [m/s], shape (n, 2); NaN if unknown."""
    attribute: Rows
    """Row in `ATTRIBUTES`, or NO_ATTRIBUTE, shape (n,)."""
    score: Floats
    """Score of detections, shape (n,); 0 for labels."""

    @property
    def yaw(self) -> Floats:
        """Direction of the length of the box from above [rad], shape (n,)."""
        forward = quat_rotate(_xyzw(self.quat_wxyz), np.array([1.0, 0.0, 0.0]))
        return np.arctan2(forward[:, 1], forward[:, 0])


@dataclass(frozen=True, eq=False)
class NuScenesPair:
    """Labels and detections within the range of their class."""

    labels: NuScenesBoxes
    found: NuScenesBoxes
    scenes: int
    """Number of scored scenes, of `all_scenes` in the data set."""
    all_scenes: int
    samples: int


def read_pair(folder: Path, results: Path) -> NuScenesPair:
    """Labels of a data set and detections of a results file, for the scenes that the results cover."""
    tables = _read_tables(folder)
    by_sample = _read_results(results)
    with reading(folder):
        samples = {str(row["token"]): row for row in tables["sample"]}
        for token in by_sample:
            if token not in samples:
                raise FormatError(f"{results}: results: {token!r} is not a sample of {folder}")
        touched = {samples[token]["scene_token"] for token in by_sample}
        wanted = {token: k for k, token in enumerate(t for t, row in samples.items() if row["scene_token"] in touched)}
        missing = [token for token in wanted if token not in by_sample]
        if missing:
            raise FormatError(
                f"{results}: results: {len(missing)} samples of its scenes are missing, for example "
                f"{missing[0]!r}; a sample without detections needs an empty list"
            )
        ego = _ego_places(tables, wanted)
        labels, racks = _labels(tables, wanted)
    found = _found(results, by_sample, wanted)
    labels, found = (_in_reach(boxes, ego, racks) for boxes in (labels, found))
    return NuScenesPair(labels, found, len(touched), len(tables["scene"]), len(wanted))


# ---- the data set ----------------------------------------------------------------------------------------------------


def tables_folder(folder: Path) -> Path:
    """Folder with the tables: the given one, or the only subfolder that has them."""
    if not folder.is_dir():
        raise FormatError(f"{folder}: no such folder; give the folder of a nuScenes data set")
    if (folder / "sample_annotation.json").is_file():
        return folder
    found = sorted(file.parent for file in folder.glob("*/sample_annotation.json"))
    if not found:
        raise FormatError(f"{folder}: not a nuScenes data set; no subfolder has a sample_annotation.json")
    if len(found) > 1:
        names = ", ".join(place.name for place in found)
        raise FormatError(f"{folder}: contains several data sets ({names}); give the folder of one of them")
    return found[0]


def _json(path: Path) -> Any:
    content = read_bytes(path)
    with reading(path):
        try:
            return json.loads(content.decode("utf-8"))
        except ValueError as error:
            raise FormatError(f"{path}: not a JSON file ({error})") from None


def _read_tables(folder: Path) -> dict[str, list[dict[str, Any]]]:
    place = tables_folder(folder)
    tables = {}
    for name in _TABLES:
        rows = _json(place / f"{name}.json")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise FormatError(f"{place / name}.json: expected a list of rows")
        tables[name] = rows
    if not tables["sample"]:
        raise FormatError(f"{place}: the data set has no samples")
    return tables


def _ego_places(tables: Mapping[str, list[dict[str, Any]]], wanted: Mapping[str, int]) -> Floats:
    """Position of the vehicle at each sample [m], shape (samples, 3): that of the lidar's key frame."""
    sensors = {row["token"] for row in tables["sensor"] if row["channel"] == "LIDAR_TOP"}
    lidars = {row["token"] for row in tables["calibrated_sensor"] if row["sensor_token"] in sensors}
    pose_of = {
        row["sample_token"]: row["ego_pose_token"]
        for row in tables["sample_data"]
        if row["is_key_frame"] and row["calibrated_sensor_token"] in lidars and row["sample_token"] in wanted
    }
    for token in wanted:
        if token not in pose_of:
            raise FormatError(f"sample {token!r} has no key frame of LIDAR_TOP")
    needed = set(pose_of.values())
    places = {row["token"]: row["translation"] for row in tables["ego_pose"] if row["token"] in needed}
    return np.array([places[pose_of[token]] for token in wanted], np.float64).reshape(-1, 3)


def _labels(
    tables: Mapping[str, list[dict[str, Any]]], wanted: Mapping[str, int]
) -> tuple[NuScenesBoxes, NuScenesBoxes]:
    """Annotations of the task's classes that have points, and bicycle racks."""
    category = {row["token"]: row["name"] for row in tables["category"]}
    of_instance = {row["token"]: category[row["category_token"]] for row in tables["instance"]}
    attribute = {row["token"]: row["name"] for row in tables["attribute"]}
    stamps = {row["token"]: 1e-6 * row["timestamp"] for row in tables["sample"]}
    by_token = {row["token"]: row for row in tables["sample_annotation"]}
    kept: list[dict[str, Any]] = []
    racks: list[dict[str, Any]] = []
    for row in tables["sample_annotation"]:
        name = of_instance[row["instance_token"]]
        if row["sample_token"] not in wanted:
            continue
        if name == _RACK:
            racks.append({**row, "detection_name": _IN_RACKS[0], "velocity": (np.nan, np.nan)})
        elif name in CLASS_OF_CATEGORY and row["num_lidar_pts"] + row["num_radar_pts"] != 0:
            words = [attribute[token] for token in row["attribute_tokens"]]
            if len(words) > 1:
                raise FormatError(f"annotation {row['token']!r} has {len(words)} attributes; one is allowed")
            known = {"detection_name": CLASS_OF_CATEGORY[name], "attribute_name": "".join(words)}
            kept.append({**row, **known, "velocity": _velocity(row, by_token, stamps)})
    labels, empty = (_boxes(rows, [wanted[row["sample_token"]] for row in rows]) for rows in (kept, racks))
    return labels, empty


def _velocity(
    row: dict[str, Any], by_token: Mapping[str, dict[str, Any]], stamps: Mapping[str, float]
) -> tuple[float, float]:
    """Horizontal velocity [m/s] from the previous and next box of the instance; NaN if none is close in time."""
    first = by_token[row["prev"]] if row["prev"] else row
    last = by_token[row["next"]] if row["next"] else row
    step = stamps[last["sample_token"]] - stamps[first["sample_token"]]
    longest = _LONGEST_STEP_S * (2.0 if row["prev"] and row["next"] else 1.0)
    if not 0.0 < step <= longest:
        return np.nan, np.nan
    x, y = (float(b) - float(a) for a, b in zip(first["translation"][:2], last["translation"][:2], strict=True))
    return x / step, y / step


# ---- the results -----------------------------------------------------------------------------------------------------


def _read_results(path: Path) -> dict[str, list[dict[str, Any]]]:
    data = _json(path)
    results = data.get("results") if isinstance(data, dict) else None
    if not isinstance(results, dict):
        raise FormatError(f"{path}: expected a field results with the detections of each sample")
    if not results:
        raise FormatError(f"{path}: results: contains no samples")
    for token, rows in results.items():
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise FormatError(f"{path}: results: {token!r}: expected a list of boxes")
        if len(rows) > MOST_BOXES:
            raise FormatError(f"{path}: results: {token!r}: {len(rows)} boxes; {MOST_BOXES} are allowed")
    return results


def _found(path: Path, by_sample: dict[str, list[dict[str, Any]]], wanted: Mapping[str, int]) -> NuScenesBoxes:
    rows, samples = [], []
    for token, boxes in by_sample.items():
        for number, box in enumerate(boxes):
            _check(f"{path}: results: {token!r}[{number}]", box, token)
            rows.append(box)
            samples.append(wanted[token])
    with reading(path):
        return _boxes(rows, samples)


def _check(where: str, box: dict[str, Any], token: str) -> None:
    lengths = {"translation": 3, "size": 3, "rotation": 4, "velocity": 2}
    for name in (*lengths, "detection_name", "detection_score", "attribute_name"):
        if name not in box:
            raise FormatError(f"{where}: {name} is required")
    for name, length in lengths.items():
        value = box[name]
        numbers = isinstance(value, list) and len(value) == length and all(_is_number(one) for one in value)
        if not numbers or not (name == "velocity" or np.all(np.isfinite(np.asarray(value, np.float64)))):
            raise FormatError(f"{where}: {name} must be {length} finite numbers, got {_shown(value)}")
    if box.get("sample_token", token) != token:
        raise FormatError(f"{where}: sample_token belongs to another sample")
    if min(box["size"]) <= 0.0:
        raise FormatError(f"{where}: size must be above 0, got {_shown(box['size'])}")
    if not any(box["rotation"]):
        raise FormatError(f"{where}: rotation must not be zero")
    score = box["detection_score"]
    if not _is_number(score) or not math.isfinite(score) or score < 0.0:
        raise FormatError(f"{where}: detection_score must be a number of 0 or more, got {_shown(score)}")
    for name, known in (("detection_name", CLASSES), ("attribute_name", ("", *ATTRIBUTES))):
        if box[name] not in known:
            nearest = nearest_name(str(box[name]), known) if isinstance(box[name], str) else None
            hint = f"; did you mean {nearest!r}?" if nearest else ""
            raise FormatError(f"{where}: {name}: {_shown(box[name])} is unknown{hint}")


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 1e300 or value != value  # NaN marks an unknown velocity


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# ---- both ------------------------------------------------------------------------------------------------------------


def _boxes(rows: list[dict[str, Any]], samples: list[int]) -> NuScenesBoxes:
    number = {name: k for k, name in enumerate(CLASSES)}
    attribute = {name: k for k, name in enumerate(ATTRIBUTES)}

    def table(name: str, width: int) -> Floats:
        return np.array([row[name] for row in rows], np.float64).reshape(-1, width)

    turn = table("rotation", 4)
    length = np.linalg.norm(turn, axis=1, keepdims=True)
    if not np.all(length > 0.0):
        raise FormatError("a rotation must not be zero")
    return NuScenesBoxes(
        np.array(samples, np.int64),
        np.array([number[row["detection_name"]] for row in rows], np.int64),
        table("translation", 3),
        table("size", 3),
        turn / length,
        table("velocity", 2),
        np.array([attribute.get(row.get("attribute_name", ""), NO_ATTRIBUTE) for row in rows], np.int64),
        np.array([row.get("detection_score", 0.0) for row in rows], np.float64),
    )


def _xyzw(quat_wxyz: Floats) -> Floats:
    return np.roll(quat_wxyz, -1, axis=-1)


def _in_reach(boxes: NuScenesBoxes, ego: Floats, racks: NuScenesBoxes) -> NuScenesBoxes:
    """Boxes within the range of their class, excluding cycles in racks."""
    away = boxes.centre[:, :2] - ego[boxes.sample, :2]
    reach = np.array(list(RANGES_M.values()))
    near = np.sqrt(np.sum(away * away, axis=1)) < reach[boxes.kind]
    cycles = np.flatnonzero(np.isin(boxes.kind, [CLASSES.index(name) for name in _IN_RACKS]) & near)
    for number in range(len(racks)):
        there = cycles[boxes.sample[cycles] == racks.sample[number]]
        offset = boxes.centre[there] - racks.centre[number]
        local = quat_rotate(quat_conjugate(_xyzw(racks.quat_wxyz[number])), offset)
        half = 0.5 * racks.size[number, [1, 0, 2]]
        near[there[np.all(np.abs(local) <= half, axis=1)]] = False
    return boxes.rows(near)
