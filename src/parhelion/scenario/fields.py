"""Dotted paths into the fields of a scenario: `weather.rain_rate_mm_h`, `sensors.top.options.sub_rays`.

Studies vary fields by path, and `parhelion run --set` changes them. Entries of lists are addressed by their name, or by
their index from 0. A path need not be in the file: it is sufficient that the schema contains it.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, get_args

from parhelion.core import config
from parhelion.core.errors import ConfigError, nearest_name
from parhelion.core.explain import UNITS, unit_of
from parhelion.scenario.schema import ScenarioFile
from parhelion.sensors.kinds import kinds
from parhelion.weather.weather import weather_fields


def settings_of(path: str | PathLike[str], changes: Mapping[str, Any]) -> ScenarioFile:
    """Checked settings of a scenario file, with other values at some paths."""
    if not changes:
        return config.load(ScenarioFile, Path(path))
    given = config.read_yaml(Path(path))
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: expected a mapping, got {type(given).__name__}")
    return config.parse(ScenarioFile, changed(given, changes, Path(path).parent, str(path)), path)


def changed(fields: Mapping[str, Any], changes: Mapping[str, Any], folder: Path, source: str) -> dict[str, Any]:
    """Copy of a scenario's fields with other values at some paths; a path that leads nowhere is a ConfigError."""
    scenario = unfolded(fields, folder, changes)
    for path in changes:
        check_path(scenario, path, source)
    for path, value in changes.items():
        with_value(scenario, path, copy.deepcopy(value))
    return scenario


def unfolded(fields: Mapping[str, Any], folder: Path, paths: Iterable[str] | None = None) -> dict[str, Any]:
    """Copy of a scenario's fields in which short forms are expanded to mappings, so that paths lead into them.

    With `paths`, only the short forms on these paths are expanded.
    """
    scenario = copy.deepcopy(dict(fields))
    entered = {"world", "weather"} if paths is None else {path.partition(".")[0] for path in paths if "." in path}
    if "world" in entered and isinstance(scenario.get("world"), str):
        scenario["world"] = {"name": scenario["world"]}
    if "weather" in entered and isinstance(scenario.get("weather"), str) and "\0" not in scenario["weather"]:
        scenario["weather"] = config.read_yaml(folder / scenario["weather"])
    return scenario


def with_value(fields: dict[str, Any], path: str, value: Any) -> None:
    """Set a value in a scenario's fields; missing mappings on the path are created."""
    *way, last = path.split(".")
    here: Any = fields
    for step in way:
        found = _child(here, step)
        if found is None and isinstance(here, dict):
            found = here[step] = {}
        here = found
    if isinstance(here, list):
        here[_place(here, last)] = value
    elif isinstance(here, dict):
        here[last] = value
    else:
        raise ConfigError(f"{path!r} is not in the scenario; {'.'.join(way)} has no further fields")


def check_path(fields: Mapping[str, Any], path: str, source: str) -> None:
    """Check that a path leads to a field of the scenario; the error suggests the nearest one that does."""
    here: Any = fields
    models: list[Any] | None = [ScenarioFile]
    steps = path.split(".")
    for k, step in enumerate(steps):
        known = _names(here, models, steps[:k], fields)
        if here is not None and not isinstance(here, (dict, list)):
            known = []  # a plain value has no fields
        if known is None and k < len(steps) - 1 and isinstance(here, dict):
            here = _child(here, step)  # any name is allowed here, but the values on the path are known
            continue
        if known is None:
            return
        if step not in known:
            raise ConfigError(f"{source}: {path!r} is not in the scenario; {_advice(steps, k, known)}")
        models = _models_below(models, here, steps[: k + 1])
        here = _child(here, step)


_IMPLIED = ("weather", "options", "faults", "world", "params")
"""Steps of a path that its name in a report omits."""
_ENTRIES = {"xyz": ("x", "y", "z"), "rpy_deg": ("roll", "pitch", "yaw"), "quat_xyzw": ("x", "y", "z", "w")}
"""Names of the entries of vectors."""


def path_in_words(path: str) -> tuple[str, str]:
    """Name of a field for reports, and its unit: 'rain rate', 'mm/h' for `weather.rain_rate_mm_h`.

    Fields of a named sensor or vehicle name it: 'sub rays of top' for `sensors.top.options.sub_rays`, 'mount x of top'
    for `sensors.top.mount.xyz.0`.
    """
    *way, last = path.split(".")
    unit = unit_of(last)
    entries = _ENTRIES.get(way[-1], ()) if way else ()
    if last.isdecimal() and int(last) < len(entries):
        unit, last = unit_of(way.pop()), entries[int(last)]
    words = last.split("_")
    end = next((k for k in range(1, len(words)) if "_".join(words[k:]) in UNITS), len(words))
    unit = unit.replace("degrees Celsius", "°C").replace("degrees", "°")
    owner = ""
    if len(way) > 1 and way[0] in ("sensors", "vehicles"):
        owner, way = f" of {way[1]}", way[2:]
    inner = [step.replace("_", " ") for step in way if step not in _IMPLIED]
    return " ".join([*inner, *words[:end]]) + owner, unit


def value_in_words(path: str, value: str) -> str:
    """A value of a varied field with its name and unit: 'rain rate 25 mm/h'."""
    words, unit = path_in_words(path)
    return f"{words} {value} {unit}".rstrip()


def _advice(steps: list[str], k: int, known: list[str]) -> str:
    nearest = nearest_name(steps[k], known)
    if nearest is not None:
        return f"did you mean {'.'.join([*steps[:k], nearest, *steps[k + 1 :]])!r}?"
    place = ".".join(steps[:k]) or "the scenario"
    return f"{place} has: {', '.join(known[:12])}" if known else f"{place} has no further fields"


def _names(here: Any, models: list[Any] | None, way: list[str], fields: Mapping[str, Any]) -> list[str] | None:
    """Names that may follow at a place; None if any name is allowed and is checked later."""
    if isinstance(here, list):
        named = [entry["name"] for entry in here if isinstance(entry, dict) and isinstance(entry.get("name"), str)]
        return [*named, *map(str, range(len(here)))]
    if len(way) == 3 and way[0] == "sensors" and way[2] == "options":
        return _options(_child(fields["sensors"], way[1]))
    if models is None:
        return None
    own = [str(key) for key in here] if isinstance(here, dict) else []
    return list(dict.fromkeys([*(name for model in models for name in model.model_fields), *own]))


def _models_below(models: list[Any] | None, here: Any, way: list[str]) -> list[Any] | None:
    """Configuration models one level below: [] below a plain value, None if anything is allowed."""
    if way == ["weather"]:
        return [weather_fields()]
    if models is None or isinstance(here, list):
        return models  # models of a list apply to its entries
    annotations = [model.model_fields[way[-1]].annotation for model in models if way[-1] in model.model_fields]
    found = [model for annotation in annotations for model in _models_in(annotation)]
    return None if not found and any("Any" in str(annotation) for annotation in annotations) else found


def _models_in(annotation: Any) -> list[Any]:
    """Configuration models anywhere in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, config.Config):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]


def _options(entry: Any) -> list[str] | None:
    """Names of the options of a scenario's sensor."""
    kind = kinds().get(entry.get("type", "")) if isinstance(entry, dict) else None
    if kind is None:
        return None
    taken = inspect.signature(kind.sensor).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in taken):
        return None
    return [one.name for one in taken if one.name not in ("model", "name")]


def _child(here: Any, step: str) -> Any:
    if isinstance(here, list):
        return here[_place(here, step)]
    return here.get(step) if isinstance(here, dict) else None


def _place(entries: list[Any], step: str) -> int:
    for k, entry in enumerate(entries):
        if isinstance(entry, dict) and entry.get("name") == step:
            return k
    return int(step)
