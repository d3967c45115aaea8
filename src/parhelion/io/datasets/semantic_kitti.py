"""SemanticKITTI's classes: which of them our words are, which move, and the file that its tools read.

Source: Behley et al., "SemanticKITTI: A Dataset for Semantic Scene Understanding of LiDAR Sequences", ICCV 2019, and
the label definition that comes with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

OUTLIER = "outlier"
OTHER = "other-object"
"""What has no class of its own."""

NEAREST: Mapping[str, str] = {
    "vehicle": "other-vehicle", "vessel": "other-vehicle", "forklift": "other-vehicle", "robot": "other-vehicle",
    "floor": "other-ground", "ground": "other-ground", "quay": "other-ground", "water": "other-ground",
    "rail": "other-ground", "rock": "terrain",
    "wall": "building", "ceiling": "building", "roof": "building", "window": "building", "door": "building",
    "railing": "fence",
    "bridge": "other-structure", "crane": "other-structure", "tank": "other-structure", "pipe": "other-structure",
    "column": "other-structure", "stairs": "other-structure",
}  # fmt: skip
"""The nearest class of words that SemanticKITTI does not have; all further ones are `OTHER`."""

MOVING: Mapping[str, str] = {
    "car": "moving-car", "bicyclist": "moving-bicyclist", "person": "moving-person",
    "motorcyclist": "moving-motorcyclist", "on-rails": "moving-on-rails", "bus": "moving-bus", "truck": "moving-truck",
    "other-vehicle": "moving-other-vehicle",
}  # fmt: skip
"""Classes of what moves, by the class of the same thing at rest."""

THINGS = ("car", "bicycle", "bus", "motorcycle", "on-rails", "truck", "other-vehicle", "person", "bicyclist",
          "motorcyclist", *MOVING.values())  # fmt: skip
"""Classes whose points carry an instance number."""

LEARNING: tuple[tuple[str, ...], ...] = (
    ("unlabeled", "outlier", "other-structure", "other-object"), ("car", "moving-car"), ("bicycle",), ("motorcycle",),
    ("truck", "moving-truck"),
    ("other-vehicle", "bus", "on-rails", "moving-bus", "moving-on-rails", "moving-other-vehicle"),
    ("person", "moving-person"), ("bicyclist", "moving-bicyclist"), ("motorcyclist", "moving-motorcyclist"),
    ("road", "lane-marking"), ("parking",), ("sidewalk",), ("other-ground",), ("building",), ("fence",),
    ("vegetation",), ("trunk",), ("terrain",), ("pole",), ("traffic-sign",),
)  # fmt: skip
"""The classes that are learned, 0 (not counted) to 19, each with the labels that fall under it, its own name first."""

COLOURS: Mapping[str, tuple[int, int, int]] = {
    "unlabeled": (0, 0, 0), "outlier": (0, 0, 255), "car": (245, 150, 100), "bicycle": (245, 230, 100),
    "bus": (250, 80, 100), "motorcycle": (150, 60, 30), "on-rails": (255, 0, 0), "truck": (180, 30, 80),
    "other-vehicle": (255, 0, 0), "person": (30, 30, 255), "bicyclist": (200, 40, 255), "motorcyclist": (90, 30, 150),
    "road": (255, 0, 255), "parking": (255, 150, 255), "sidewalk": (75, 0, 75), "other-ground": (75, 0, 175),
    "building": (0, 200, 255), "fence": (50, 120, 255), "other-structure": (0, 150, 255),
    "lane-marking": (170, 255, 150), "vegetation": (0, 175, 0), "trunk": (0, 60, 135), "terrain": (80, 240, 150),
    "pole": (150, 240, 255), "traffic-sign": (0, 0, 255), "other-object": (255, 255, 50),
}  # fmt: skip
"""Colours of SemanticKITTI's tools, blue green red; what moves has that of the same thing at rest."""


def class_of(word: str, numbers: Mapping[str, int]) -> str:
    """SemanticKITTI's class of one of our words; `numbers` are the label numbers of its classes."""
    return word if word in numbers else NEAREST.get(word, OTHER)


class ClassTable:
    """Turns label numbers of a world into SemanticKITTI's, many at once."""

    def __init__(self, names: Mapping[int, str], numbers: Mapping[str, int]) -> None:
        self.names = dict(names)
        self.classes = {word: class_of(word, numbers) for word in self.names.values()}
        self.at_rest: NDArray[np.uint16] = np.zeros(1 << 16, np.uint16)
        for number, word in self.names.items():
            self.at_rest[number] = numbers[self.classes[word]]
        self.moving: NDArray[np.uint16] = np.arange(1 << 16, dtype=np.uint16)
        for word, goes in MOVING.items():
            self.moving[numbers[word]] = numbers[goes]
        self.is_thing: NDArray[np.bool_] = np.zeros(1 << 16, bool)
        self.is_thing[[numbers[word] for word in THINGS]] = True


def config_file(numbers: Mapping[str, int], sequences: Sequence[int]) -> bytes:
    """semantic-kitti.yaml, in the form that SemanticKITTI's own tools read. Every sequence is in train and valid."""
    resting = {goes: word for word, goes in MOVING.items()}
    learned = {word: row for row, words in enumerate(LEARNING) for word in words}
    content: dict[str, Any] = {
        "labels": {number: word for word, number in numbers.items()},
        "color_map": {number: list(COLOURS[resting.get(word, word)]) for word, number in numbers.items()},
        "learning_map": {number: learned[word] for word, number in numbers.items()},
        "learning_map_inv": {row: numbers[words[0]] for row, words in enumerate(LEARNING)},
        "learning_ignore": {row: row == 0 for row in range(len(LEARNING))},
        "split": {"train": list(sequences), "valid": list(sequences), "test": []},
    }
    return yaml.safe_dump(content, sort_keys=False).encode()


def map_file(words: Mapping[str, int], numbers: Mapping[str, int]) -> bytes:
    """label-map.yaml: for every word of the run its number in our clouds, and the class that it became here."""
    rows = {}
    for word, number in sorted(words.items(), key=lambda item: item[1]):
        name = class_of(word, numbers)
        rows[word] = {"ours": number, "class": name, "number": numbers[name]}
        if name in MOVING:
            rows[word]["moving"] = numbers[MOVING[name]]
    note = "# Our words, their numbers in clouds of this run, and SemanticKITTI's classes that they became.\n"
    return (note + yaml.safe_dump({"labels": rows}, sort_keys=False)).encode()
