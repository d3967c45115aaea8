"""Semantic labels and their numbers: those of SemanticKITTI, and additional ones.

Source of the numbers below 100 and from 252 to 259: the label definition of SemanticKITTI (Behley et al.,
"SemanticKITTI: A Dataset for Semantic Scene Understanding of LiDAR Sequences", ICCV 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from parhelion.core.errors import ConfigError, unknown_name

SEMANTIC_KITTI: Mapping[str, int] = MappingProxyType(
    {
        "unlabeled": 0,
        "outlier": 1,
        "car": 10,
        "bicycle": 11,
        "bus": 13,
        "motorcycle": 15,
        "on-rails": 16,
        "truck": 18,
        "other-vehicle": 20,
        "person": 30,
        "bicyclist": 31,
        "motorcyclist": 32,
        "road": 40,
        "parking": 44,
        "sidewalk": 48,
        "other-ground": 49,
        "building": 50,
        "fence": 51,
        "other-structure": 52,
        "lane-marking": 60,
        "vegetation": 70,
        "trunk": 71,
        "terrain": 72,
        "pole": 80,
        "traffic-sign": 81,
        "other-object": 99,
        "moving-car": 252,
        "moving-bicyclist": 253,
        "moving-person": 254,
        "moving-motorcyclist": 255,
        "moving-on-rails": 256,
        "moving-bus": 257,
        "moving-truck": 258,
        "moving-other-vehicle": 259,
    }
)

FURTHER: Mapping[str, int] = MappingProxyType(
    {
        "object": 100,
        "board": 101,
        "cylinder": 102,
        "cuboid": 103,
        "water": 104,
        "vessel": 105,
        "quay": 106,
        "bridge": 107,
        "wall": 108,
        "machine": 109,
        "floor": 110,
        "ceiling": 111,
        "furniture": 112,
        "container": 113,
        "crane": 114,
        "buoy": 115,
        "rock": 116,
        "railing": 117,
        "traffic-light": 118,
        "target": 119,
        "ground": 120,
        "roof": 121,
        "window": 122,
        "door": 123,
        "shelf": 124,
        "pallet": 125,
        "pipe": 126,
        "cable": 127,
        "tank": 128,
        "sphere": 129,
        "cone": 130,
        "ladder": 131,
        "stairs": 132,
        "column": 133,
        "rail": 134,
    }
)

LABELS: Mapping[str, int] = MappingProxyType({**SEMANTIC_KITTI, **FURTHER})
"""Labels whose number is the same in all worlds."""
GROUND_LABELS = frozenset(
    {"road", "parking", "sidewalk", "other-ground", "lane-marking", "terrain", "floor", "ground", "quay", "bridge"}
)
"""Labels of surfaces on which vehicles and people move."""

FIRST_OWN_ID = 260
"""First number of labels that are not in the table; SemanticKITTI's moving classes end at 259."""

LARGEST_ID = 65535
"""Largest label number: 16 bits, as in SemanticKITTI's files."""

_NAMES = {number: name for name, number in LABELS.items()}


def label_id(name: str) -> int:
    """Number of a label in the common table."""
    if name not in LABELS:
        raise unknown_name("label", name, LABELS)
    return LABELS[name]


def label_name(number: int) -> str:
    """Label with a number in the common table."""
    if number not in _NAMES:
        raise ConfigError(f"no label has the number {number}; world.label_names lists the labels of a world")
    return _NAMES[number]


class LabelTable:
    """Labels of one world; those outside of the common table are numbered in order of first use."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._next_own = FIRST_OWN_ID

    def use(self, name: str) -> int:
        """Return the number of a label in this world; a new label gets the next number."""
        known = self._ids.get(name) if isinstance(name, str) else None
        if known is not None:
            return known
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ConfigError(f"label: must be a word, for example 'building', got {name!r}")
        number = LABELS.get(name)
        if number is None:
            if self._next_own > LARGEST_ID:
                raise ConfigError(f"label {name!r}: a world can have {LARGEST_ID - FIRST_OWN_ID + 1} own labels")
            number = self._next_own
            self._next_own += 1
        self._ids[name] = number
        return number

    @property
    def names(self) -> dict[int, str]:
        """Labels by number, of all numbers in use."""
        return {number: name for name, number in sorted(self._ids.items(), key=lambda item: item[1])}
