"""Worlds from layout files (.yaml, .json)."""

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


def is_list(path: str | PathLike[str]) -> bool:
    """Return True if a file is a layout, by its extension; a YAML layout has the field `size`."""
    file = Path(path)
    if file.suffix.lower() not in (".yaml", ".yml"):
        return file.suffix.lower() == ".json"
    if not is_regular_file(file):
        return False  # the reader of world files reports the problem
    try:
        with file.open("rb") as stream:
            return any(re.match(rb"""["']?size["']?\s*:""", line) for line in stream)
    except (OSError, ValueError):
        return False


@file_reader(ConfigError)
def load_listed(path: str | PathLike[str], params: dict[str, Any]) -> LayoutWorld:
    """Load the world of a layout file; `check=False` also builds a layout with problems."""
    file = Path(path)
    params = dict(params)
    checked = params.pop("check", True)
    for name in params:
        raise unknown_name(f"parameter for {file}:", name, ("check",))
    layout = Layout.load(file)
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
