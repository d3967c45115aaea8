"""How large a YAML file may become. A few hundred bytes of references to references can stand for terabytes.

The check follows the parser's events, before anything is built of them. What a reference stands for counts each time,
as it does for whoever walks over the data afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from parhelion.core.errors import ConfigError

DEEPEST_NESTING = 100
"""The C loader builds nested values by recursion without a limit: deep nesting would end the process."""
MOST_VALUES = 1_500_000
"""A layout with the largest height map has a million numbers; building so many takes some seconds."""
MOST_KEYS = 20_000
"""Keys of one mapping. Whole numbers can be chosen so that all fall into one slot of the table."""
LONGEST_NUMBER = 400
"""Digits grow into numbers in quadratic time."""

_NUMBER = re.compile(r"[-+0-9._:eExXoa-fA-F]+")


def check_events(file: Path, events: Iterable[Any]) -> None:
    """Raise ConfigError where the file is too deep, too large, or refers to itself."""
    known: dict[str, tuple[int, int]] = {}  # values and levels of what each anchor stands for
    outer: list[tuple[Any, int, int, int]] = []  # start, values, levels and entries of each collection around
    start: Any = None  # of the collection that is open, and what it holds so far, itself included
    values, levels, entries = 1, 0, 0
    for event in events:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            more, below = 1, 0
            if len(event.value) > LONGEST_NUMBER and event.implicit[0] and _NUMBER.fullmatch(event.value):
                raise _error(file, event, f"holds a number of more than {LONGEST_NUMBER} digits")
            if event.anchor is not None:
                known[event.anchor] = (1, 0)
        elif kind is yaml.SequenceStartEvent or kind is yaml.MappingStartEvent:
            outer.append((start, values, levels, entries))
            if len(outer) > DEEPEST_NESTING:
                raise _error(file, event, f"is nested deeper than {DEEPEST_NESTING} levels")
            start, values, levels, entries = event, 1, 1, 0
            continue
        elif kind is yaml.SequenceEndEvent or kind is yaml.MappingEndEvent:
            more, below = values, levels
            if start.anchor is not None:
                known[start.anchor] = (values, levels)
            start, values, levels, entries = outer.pop()
        elif kind is yaml.AliasEvent:
            if event.anchor in {one.anchor for one in (start, *(row[0] for row in outer)) if one is not None}:
                raise _error(file, event, f"refers to {event.anchor!r} from within itself")
            more, below = known.get(event.anchor, (1, 0))
        else:
            continue
        values += more
        entries += 1
        if values > MOST_VALUES:
            raise _error(file, event, f"holds more than {MOST_VALUES} values, references counted each time")
        if below >= levels:
            levels = below + 1
            if len(outer) + below > DEEPEST_NESTING:
                raise _error(file, event, f"is nested deeper than {DEEPEST_NESTING} levels")
        if entries > 2 * MOST_KEYS and type(start) is yaml.MappingStartEvent:
            raise _error(file, event, f"holds a mapping of more than {MOST_KEYS} keys")


def _error(file: Path, event: Any, problem: str) -> ConfigError:
    where = f" line {event.start_mark.line + 1}" if event.start_mark else ""
    return ConfigError(f"{file}:{where} {problem}")
