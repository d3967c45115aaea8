"""Data sheets with measured numbers in them, and how they become files."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import yaml

from parhelion.core.config import parse
from parhelion.core.files import atomic_write
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.link_budget import system_constant

CONFIDENCE = 0.95
"""That of all intervals in files."""
DIGITS = 3
"""Digits of errors in files."""


@dataclass(frozen=True)
class SheetChanges:
    """What a recording tells of some fields of a sheet, by path."""

    changed: dict[str, Any] = field(default_factory=dict)
    """New values."""
    error: dict[str, float] = field(default_factory=dict)
    """Standard errors; of curves relative to their values."""
    kept: dict[str, str] = field(default_factory=dict)
    """Fields that stay as they are, and why."""

    def add(self, other: SheetChanges) -> None:
        """Take over what another step tells."""
        for mine, further in zip(vars(self).values(), vars(other).values(), strict=True):
            mine.update(further)


def with_changes(sheet: LidarConfig, changes: Mapping[str, Any]) -> LidarConfig:
    """A sheet with fields replaced by path, such as `range.overlap`, checked again."""
    data = sheet.model_dump(mode="python")
    for path, value in changes.items():
        *above, last = path.split(".")
        place = data
        for name in above:
            place = place[name]
        place[last] = deepcopy(value)  # a later path may lead into it
    return parse(LidarConfig, data, sheet.name)


def short(value: float, digits: int = DIGITS) -> float:
    """A number with few digits that matter."""
    return float(f"{value:.{digits}g}")


def calibrated_sheet(
    preset: LidarConfig, found: SheetChanges, recording: str, turns: int, constant: tuple[float, float] | None = None
) -> LidarConfig:
    """The preset with measured fields in it, the recording among its sources, and what was kept and why.

    `constant` is the system constant [m²] that the recording tells, and half the width of its interval.
    """
    changed, error, before = found.changed, found.error, preset.calibration
    constants = [] if before is None else [entry.model_dump() for entry in before.constants]
    known = system_constant(preset)
    entries = [
        {"source": f"rated ranges of {preset.name}", "k_m2": short(known.k_m2, 5), "gamma_per_m": known.gamma_per_m}
    ]
    if constant is not None:
        entries.append(
            {
                "source": f"signal over reflectivity in {recording}",
                "k_m2": short(constant[0], 5),
                "gamma_per_m": 0.0,
                "k_error_m2": short(constant[1]),
            }
        )
    constants += [entry for entry in entries if entry["source"] not in {old["source"] for old in constants}]
    section = {
        "recording": recording,
        "turns": turns,
        "confidence": CONFIDENCE if error else None,
        "error": {name: short(value) for name, value in error.items()},
        "kept": found.kept,
        "constants": constants,
        "materials": {} if before is None else {k: v.model_dump() for k, v in before.materials.items()},
        "unknown": "nearest" if before is None else before.unknown,
    }
    covered = list(changed) or ["calibration"]
    source = {
        "title": f"Recording {recording} ({turns} turns), by parhelion calibrate",
        "covers": covered,
        "note": "half widths of 95 % intervals are in calibration.error",
    }
    # A source no longer stands for fields which were measured.
    others = [(entry.model_dump(), [name for name in entry.covers if name not in covered]) for entry in preset.sources]
    assumed = {
        name: why
        for name, why in preset.assumed.items()
        if not any(f"{one}.".startswith(f"{name}.") for one in changed)
    }
    changes = {
        **changed,
        "sources": [*({**entry, "covers": left} for entry, left in others if left), source],
        "assumed": assumed,
        "calibration": section,
    }
    return with_changes(preset, changes)


class _Plain(yaml.SafeDumper):
    """Lists of numbers on one line, mappings in blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _flow(dumper: yaml.SafeDumper, data: Any) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", list(data), flow_style=_is_numbers(list(data)))


def _is_numbers(data: Any) -> bool:
    """Whether there are no words among the entries, however deep."""
    if isinstance(data, dict):
        data = data.values()
    elif not isinstance(data, (list, tuple)):
        return not isinstance(data, str)
    return all(_is_numbers(one) for one in data)


_Plain.add_representer(list, _flow)
_Plain.add_representer(tuple, _flow)


def write_sheet(sheet: LidarConfig, path: str | PathLike[str]) -> None:
    """A sheet as YAML, fields in the order of the model; what has its default value is left out."""
    data = sheet.model_dump(mode="json", exclude_defaults=True)
    text = yaml.dump(data, Dumper=_Plain, sort_keys=False, width=116, allow_unicode=True)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
