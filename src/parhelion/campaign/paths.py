"""Dotted paths into a scenario's fields: sensors.top.options.sub_rays, weather.rain_rate_mm_h, world.params.density.

Entries of lists are found by their name, or by their number from 0. A path need not be in the file already: it is
enough that the schema knows it.
"""

from __future__ import annotations

import copy
import inspect
from pathlib import Path
from typing import Any, get_args

from parhelion.core import config
from parhelion.core.errors import ConfigError, nearest_name
from parhelion.scenario.schema import ScenarioFile
from parhelion.sensors.kinds import kinds
from parhelion.weather.config import WeatherFields


def unfolded(fields: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A copy of a scenario's fields in which what may be a single word is written out, so that paths lead into it."""
    scenario = copy.deepcopy(fields)
    if isinstance(scenario.get("world"), str):
        scenario["world"] = {"name": scenario["world"]}
    if isinstance(scenario.get("weather"), str):
        scenario["weather"] = config.read_yaml(folder / scenario["weather"])
    return scenario


def with_value(fields: dict[str, Any], path: str, value: Any) -> None:
    """Set a value in a scenario's fields; mappings that are missing on the way are made."""
    *way, last = path.split(".")
    here: Any = fields
    for step in way:
        found = _child(here, step)
        if found is None and isinstance(here, dict):
            found = here[step] = {}
        here = found
    if isinstance(here, list):
        here[_place(here, last)] = value
    else:
        here[last] = value


def check_path(fields: dict[str, Any], path: str, source: str) -> None:
    """See that a path leads to a place of the scenario; else tell the nearest one that does."""
    here: Any = fields
    models: list[Any] | None = [ScenarioFile]
    steps = path.split(".")
    for k, step in enumerate(steps):
        known = _names(here, models, steps[:k], fields)
        if known is None:
            return
        if step not in known:
            raise ConfigError(f"{source}: vary: {path!r} is not in the scenario; {_advice(steps, k, known)}")
        models = _models_below(models, here, steps[: k + 1])
        here = _child(here, step)


def _advice(steps: list[str], k: int, known: list[str]) -> str:
    nearest = nearest_name(steps[k], known)
    if nearest is not None:
        return f"did you mean {'.'.join([*steps[:k], nearest, *steps[k + 1 :]])!r}?"
    place = ".".join(steps[:k]) or "the scenario"
    return f"{place} has: {', '.join(known[:12])}" if known else f"{place} holds nothing further"


def _names(here: Any, models: list[Any] | None, way: list[str], fields: dict[str, Any]) -> list[str] | None:
    """Names that may follow at a place; None where anything may: whoever reads it will tell."""
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
    """The configuration models one step further: [] below a plain value, None where anything may be."""
    if way == ["weather"]:
        return [WeatherFields]
    if models is None or isinstance(here, list):
        return models  # those of a list hold for its entries
    annotations = [model.model_fields[way[-1]].annotation for model in models if way[-1] in model.model_fields]
    found = [model for annotation in annotations for model in _models_in(annotation)]
    return None if not found and any("Any" in str(annotation) for annotation in annotations) else found


def _models_in(annotation: Any) -> list[Any]:
    """Configuration models anywhere in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, config.Config):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]


def _options(entry: Any) -> list[str] | None:
    """Names of the options that a scenario's sensor takes."""
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
