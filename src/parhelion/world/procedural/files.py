"""Worlds from layout files (.yaml, .json) and maps of buildings (.geojson)."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import Any

from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.reading import file_reader, is_regular_file
from parhelion.world.procedural.build import LayoutWorld, world_of
from parhelion.world.procedural.checks import check
from parhelion.world.procedural.layout import Layout
from parhelion.world.procedural.maps import buildings_from

_MAP_OPTIONS = ("units", "origin", "height_m", "storey_m", "margin_m", "wall", "roof", "ground")


def is_list(path: str | PathLike[str]) -> bool:
    """Return True if a file is a layout or a map, by its extension; a YAML layout has the field `size`."""
    file = Path(path)
    if file.suffix.lower() not in (".yaml", ".yml"):
        return file.suffix.lower() in (".json", ".geojson")
    if not is_regular_file(file):
        return False  # the reader of world files reports the problem
    try:
        with file.open("rb") as stream:
            return any(re.match(rb"""["']?size["']?\s*:""", line) for line in stream)
    except (OSError, ValueError):
        return False


@file_reader(ConfigError)
def load_listed(path: str | PathLike[str], params: dict[str, Any]) -> LayoutWorld:
    """Load the world of a layout file or of a map; `check=False` also builds a layout with problems."""
    file = Path(path)
    params = dict(params)
    is_map = file.suffix.lower() == ".geojson"
    checked = params.pop("check", not is_map)
    known = _MAP_OPTIONS if is_map else ()
    for name in params:
        if name not in known:
            raise unknown_name(f"parameter for {file}:", name, (*known, "check"))
    layout = buildings_from(file, **params) if is_map else Layout.load(file)
    if checked:
        require_sound(layout, file)
    return world_of(layout)


def require_sound(layout: Layout, source: str | PathLike[str] = "layout") -> None:
    """Raise an error with the rows of the list in which `check` finds problems."""
    rows = (
        item.model_copy(update={"name": f"objects[{row}] ({layout.title(row)})"})
        for row, item in enumerate(layout.objects)
    )
    problems = check(layout.model_copy(update={"objects": tuple(rows)}))
    if problems:
        more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise ConfigError(f"{source}: {'; '.join(problems[:3])}{more}")
