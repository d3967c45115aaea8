"""Data sheets with measured values, and their YAML files."""

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
"""Confidence level of all intervals in files."""
DIGITS = 3
"""Significant digits of errors in files."""


@dataclass(frozen=True)
class SheetChanges:
    """Measured values of data sheet fields, by field path."""

    changed: dict[str, Any] = field(default_factory=dict)
    """New values."""
    error: dict[str, float] = field(default_factory=dict)
    """Standard errors; for curves, relative to their values."""
    kept: dict[str, str] = field(default_factory=dict)
    """Unchanged fields, each with the reason."""

    def add(self, other: SheetChanges) -> None:
        """Add the changes of another step."""
        for mine, further in zip(vars(self).values(), vars(other).values(), strict=True):
            mine.update(further)


def with_changes(sheet: LidarConfig, changes: Mapping[str, Any]) -> LidarConfig:
    """Data sheet with fields replaced by path, for example `range.overlap`, and validated again."""
    data = sheet.model_dump(mode="python")
    for path, value in changes.items():
        *above, last = path.split(".")
        place = data
        for name in above:
            place = place[name]
        place[last] = deepcopy(value)  # a later path may lead into it
    return parse(LidarConfig, data, sheet.name)


def short(value: float, digits: int = DIGITS) -> float:
    """Value rounded to a few significant digits."""
    return float(f"{value:.{digits}g}")


def calibrated_sheet(
    preset: LidarConfig, found: SheetChanges, recording: str, frames: int, constant: tuple[float, float] | None = None
) -> LidarConfig:
    """Preset with measured fields, the recording among its sources, and the unchanged fields with reasons.

    `constant` is the system constant [m²] measured from the recording, and the half width of its interval.
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
        "turns": frames,
        "confidence": CONFIDENCE if error else None,
        "error": {name: short(value) for name, value in error.items()},
        "kept": found.kept,
        "constants": constants,
        "materials": {} if before is None else {k: v.model_dump() for k, v in before.materials.items()},
        "unknown": "nearest" if before is None else before.unknown,
    }
    covered = list(changed) or ["calibration"]
    source = {
        "title": f"Recording {recording}{f' ({frames} frames)' if frames else ''}, by parhelion calibrate",
        "covers": covered,
        "note": "half widths of 95 % intervals are in calibration.error",
    }
    # Existing sources no longer cover the measured fields.
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
    """YAML dumper that writes lists of numbers on one line and mappings in blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _flow(dumper: yaml.SafeDumper, data: Any) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", list(data), flow_style=_is_numbers(list(data)))


def _is_numbers(data: Any) -> bool:
    """Test whether nested entries contain no strings."""
    if isinstance(data, dict):
        data = data.values()
    elif not isinstance(data, (list, tuple)):
        return not isinstance(data, str)
    return all(_is_numbers(one) for one in data)


_Plain.add_representer(list, _flow)
_Plain.add_representer(tuple, _flow)


def write_sheet(sheet: LidarConfig, path: str | PathLike[str]) -> None:
    """Write a data sheet as YAML, with fields in model order and without default values."""
    data = sheet.model_dump(mode="json", exclude_defaults=True)
    text = yaml.dump(data, Dumper=_Plain, sort_keys=False, width=116, allow_unicode=True)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
