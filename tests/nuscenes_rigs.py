"""A nuScenes data set of boxes alone, drawn at random, and a detector's results for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.pose import Pose, quat_from_rpy
from parhelion.evaluate.detections.nuscenes_files import ATTRIBUTES, CLASS_OF_CATEGORY, CLASSES
from parhelion.outputs.datasets.nuscenes_tables import VERSION, Annotation, SceneTables, Tables, map_mask

CATEGORIES = (*CLASS_OF_CATEGORY, "animal", "vehicle.emergency.police")
"""Categories of the classes, and two that are not scored."""
SCENES = ("scene-0061", "scene-0553", "scene-0103")
"""Two of the split mini_train, one of mini_val."""


def write_set(folder: Path, seed: int = 0, *, samples: int = 4, objects: int = 60) -> Path:
    """Scenes with objects of all classes: near and far, with points and without, some visible only once."""
    rng = np.random.default_rng(seed)
    tables = Tables("boxes", seed)
    for name in SCENES:
        scene = SceneTables(name, f"log-{name}", "car", "nowhere", "boxes alone", {"LIDAR_TOP": Pose((0, 0, 2))})
        tables.scenes.append(scene)
        drawn = [_item(rng, number) for number in range(objects)]
        # The samples of the last scene lie far apart in time, so its boxes have no velocity.
        step = 500_000 if name != SCENES[2] else 2_000_000
        for number in range(samples):
            stamp = number * step
            ego = Pose((3.0 * number, 0.5 * number, 0), rpy_deg=(0, 0, 4 * number))
            scene.add_sweep("LIDAR_TOP", stamp, f"samples/{name}-{number}.pcd.bin", ego, number)
            seen = [_at(item, 1e-6 * stamp) for item in drawn if number in item["samples"]]
            scene.add_sample(stamp, seen, [])
    for name, data in tables.files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    for scene in tables.scenes:
        file = folder / tables.map_name(scene)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(map_mask(np.zeros((0, 3, 2)), 10.0, 10.0))
    return folder


def _item(rng: np.random.Generator, number: int) -> dict[str, Any]:
    rack = number < 2
    category = "static_object.bicycle_rack" if rack else str(rng.choice(CATEGORIES))
    if 2 <= number < 8:
        category = ("vehicle.bicycle", "vehicle.motorcycle")[number % 2]
    kind = CLASS_OF_CATEGORY.get(category, "")
    words = [word for word in ATTRIBUTES if word.startswith({"pedestrian": "ped", "bicycle": "cyc", "motorcycle": "cyc"}
             .get(kind, "veh"))]  # fmt: skip
    plain = kind in ("barrier", "traffic_cone", "") or rng.random() < 0.15
    place = np.append(rng.uniform(-45, 45, 2), 0.9)
    if rack or 2 <= number < 8:  # cycles in and beside racks
        place = np.array([12.0 * (number % 2), 8.0, 0.9]) + (0 if rack else rng.uniform(-3, 3, 3) * [1, 1, 0.1])
    return {
        "number": number, "category": category, "attribute": None if plain else str(rng.choice(words)),
        "place": place, "size": rng.uniform(3, 5, 3) if rack else rng.uniform(0.5, 4.5, 3),
        "turn": quat_from_rpy(0.0, 0.0, rng.uniform(-np.pi, np.pi)),
        "velocity": np.append(rng.normal(0, 4, 2), 0.0), "points": int(rng.choice([0, 3, 40], p=[0.15, 0.35, 0.5])),
        "samples": set(range(4)) if rng.random() < 0.8 else {int(rng.integers(4))},
    }  # fmt: skip


def _at(item: dict[str, Any], time: float) -> Annotation:
    return Annotation(
        item["number"], item["category"], item["attribute"], "4", item["place"] + item["velocity"] * time,
        item["size"], item["turn"], item["velocity"], item["points"],
    )  # fmt: skip


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / VERSION / f"{table}.json").read_text())
    return found


def write_results(
    folder: Path,
    path: Path,
    seed: int = 0,
    *,
    scenes: tuple[str, ...] = SCENES[:2],
    error: float = 1.0,
    missed: float = 0.15,
    invented: int = 12,
) -> Path:
    """Detections of the scenes: labels with errors, some twice, some missed, some of another class, some invented."""
    rng = np.random.default_rng(seed + 1)
    category = {row["token"]: row["name"] for row in rows(folder, "category")}
    of_instance = {row["token"]: category[row["category_token"]] for row in rows(folder, "instance")}
    attribute = {row["token"]: row["name"] for row in rows(folder, "attribute")}
    names = {row["token"]: row["name"] for row in rows(folder, "scene")}
    wanted = [row["token"] for row in rows(folder, "sample") if names[row["scene_token"]] in scenes]
    results: dict[str, list[dict[str, Any]]] = {token: [] for token in wanted}
    for row in rows(folder, "sample_annotation"):
        kind = CLASS_OF_CATEGORY.get(of_instance[row["instance_token"]])
        if row["sample_token"] not in results or kind is None:
            continue
        for _ in range(0 if rng.random() < missed else int(rng.choice([1, 2], p=[0.85, 0.15]))):
            word = attribute[row["attribute_tokens"][0]] if row["attribute_tokens"] else ""
            right = rng.random() < 1.0 - 0.2 * error
            turn = quat_from_rpy(0.0, 0.0, rng.normal(0, 0.6 * error))
            x, y, z, w = np.roll(row["rotation"], -1)
            other = turn[2] * w + turn[3] * z, turn[3] * w - turn[2] * z
            results[row["sample_token"]].append(
                {
                    "sample_token": row["sample_token"],
                    "translation": (np.array(row["translation"]) + rng.normal(0, 0.7 * error, 3)).tolist(),
                    "size": (np.array(row["size"]) * rng.uniform(1 - 0.3 * error, 1 + 0.3 * error, 3)).tolist(),
                    "rotation": [float(other[1]), float(x), float(y), float(other[0])],
                    "velocity": (np.array(row["velocity"][:2]) + rng.normal(0, error, 2)).tolist(),
                    "detection_name": kind if right else str(rng.choice(CLASSES)),
                    # Two digits: many scores are equal, and the order of such matters.
                    "detection_score": round(float(rng.uniform(0.05, 1.0)), 2),
                    "attribute_name": word if rng.random() < 1.0 - 0.3 * error else "",
                }
            )  # fmt: skip
    for token in wanted:
        for _ in range(invented):
            results[token].append(
                {
                    "sample_token": token, "translation": [*rng.uniform(-40, 40, 2).tolist(), 1.0],
                    "size": rng.uniform(0.5, 4, 3).tolist(), "rotation": [1.0, 0.0, 0.0, 0.0],
                    "velocity": [0.0, 0.0], "detection_name": str(rng.choice(CLASSES)),
                    "detection_score": round(float(rng.uniform(0.0, 0.6)), 2), "attribute_name": "vehicle.parked",
                }
            )  # fmt: skip
    path.write_text(json.dumps({"meta": {"use_lidar": True}, "results": results}))
    return path
