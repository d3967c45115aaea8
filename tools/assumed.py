"""Sources of the numbers in sensor presets: which were opened, quoted or assumed, and which state neither.

    python tools/assumed.py [--list] [--check] [KIND ...]

Prints one Markdown table row per kind. `--list` adds every assumed field with its reason, `--check` exits with status 1
if a number has neither a source nor a reason. A field is covered by the longest path in `sources[].covers` or `assumed`
of its file that is equal to it or contains it; where both name the same path, it counts as assumed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

PRESETS = Path(__file__).resolve().parents[1] / "src" / "parhelion" / "sensors" / "presets"
STATES = ("opened", "quoted", "assumed", "unstated")
SKIPPED = ("name", "sources", "assumed")


def numbers(value: Any, path: str = "") -> Iterator[str]:
    """Paths of all numbers in a data sheet, such as `gyroscope.range_deg_s`; a list counts as one field."""
    if isinstance(value, dict):
        for key, item in value.items():
            if path or key not in SKIPPED:
                yield from numbers(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        if any(True for item in value for _ in numbers(item, path)):
            yield path
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path


def state_of(path: str, sheet: dict[str, Any]) -> tuple[str, str]:
    """State of one number, one of STATES, and its reason or the title of its source."""
    stated = [(name, "assumed", reason) for name, reason in sheet.get("assumed", {}).items()]
    for source in sheet["sources"]:
        state = "quoted" if source.get("quoted") else "opened"
        stated += [(name, state, source["title"]) for name in source["covers"]]
    fitting = [
        row for row in stated if path == row[0] or path.startswith(row[0] + ".") or row[0].startswith(path + ".")
    ]
    if not fitting:
        return "unstated", ""
    # The longest path decides; at equal length, the first in the order assumed, opened, quoted.
    order = {"assumed": 0, "opened": 1, "quoted": 2}
    _, state, reason = min(fitting, key=lambda row: (-len(row[0]), order[row[1]]))
    return state, reason


def audit(kind: str) -> list[tuple[str, str, str, str]]:
    """Preset, field, state and reason of every number of a kind."""
    rows = []
    for file in sorted((PRESETS / kind).glob("*/*.yaml")):
        sheet = yaml.safe_load(file.read_text(encoding="utf-8"))
        name = file.relative_to(PRESETS / kind).with_suffix("").as_posix()
        rows += [(name, path, *state_of(path, sheet)) for path in numbers(sheet)]
    return rows


def table(found: dict[str, list[tuple[str, str, str, str]]]) -> str:
    """Markdown table of the counts, one row per kind."""
    lines = [f"| kind | presets | numbers | {' | '.join(STATES)} |", "| --- |" + " --- |" * (2 + len(STATES))]
    for kind, rows in found.items():
        counts = Counter(state for _, _, state, _ in rows)
        cells = [len({name for name, *_ in rows}), len(rows), *(counts[state] for state in STATES)]
        lines.append(f"| {kind} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--list", action="store_true", help="list every assumed or unstated field with its reason")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a number is unstated")
    options = parser.parse_args(arguments)
    known = sorted(folder.name for folder in PRESETS.iterdir() if folder.is_dir())
    if unknown := sorted(set(options.kinds) - set(known)):
        parser.error(f"unknown kind {', '.join(unknown)}; choose from {', '.join(known)}")
    found = {kind: audit(kind) for kind in options.kinds or known}
    print(table(found))
    if options.list:
        for kind, rows in found.items():
            for name, path, state, reason in rows:
                if state in ("assumed", "unstated"):
                    print(f"{kind} {name}: {path}: {state}{': ' + reason if reason else ''}")
    unstated = sum(state == "unstated" for rows in found.values() for _, _, state, _ in rows)
    if options.check and unstated:
        print(f"{unstated} numbers have neither a source nor a reason; --list names them", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
