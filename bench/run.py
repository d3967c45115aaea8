"""Measure Parhelion and print tables of ratios, all taken in one run on this machine.

python bench/run.py                      # everything, about five minutes on two cores
python bench/run.py --quick              # less of everything, about two minutes
python bench/run.py --only engines scans # some tables
python bench/run.py --json out.json --markdown docs/benchmarks.md
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

import machine
from tables import Table, show, write_markdown
from workloads import Settings

# Cold processes and memory come first, while this process holds little memory.
_TABLES: Mapping[str, tuple[str, str]] = {
    "latency": ("latency", "tables"),
    "memory": ("latency", "memory_tables"),
    "engines": ("engines", "tables"),
    "scans": ("scans", "tables"),
    "adaptive": ("adaptive", "tables"),
    "actors": ("actors", "tables"),
    "edits": ("edits", "tables"),
    "batch": ("batch", "tables"),
    "tensors": ("tensors", "tables"),
    "anatomy": ("anatomy", "tables"),
    "weather": ("weather", "tables"),
    "node": ("node", "tables"),
    "camera": ("camera", "tables"),
    "waves": ("waves", "tables"),
    "scenarios": ("scenarios", "tables"),
    "growth": ("growth", "tables"),
    "contact": ("contact", "tables"),
}


def main() -> None:
    """Parse the options, measure, show and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and sizes")
    parser.add_argument("--only", nargs="+", choices=sorted(_TABLES), metavar="NAME", help=", ".join(_TABLES))
    parser.add_argument("--json", type=Path, metavar="OUT", help="write all figures, unrounded, to this file")
    parser.add_argument("--markdown", type=Path, metavar="OUT", help="write the tables into this page")
    options = parser.parse_args()
    for path in (options.json, options.markdown):
        if path is not None and not path.absolute().parent.is_dir():
            parser.error(f"{path}: there is no folder {path.parent}")

    start, others = time.perf_counter(), machine.OtherPrograms()
    header = machine.description()
    print("\n".join(header), end="\n\n", flush=True)
    measured: list[Table] = []
    for name in options.only or _TABLES:
        module, function = _TABLES[name]
        tables: Callable[[Settings], Iterator[Table]] = getattr(import_module(module), function)
        for table in tables(Settings(quick=options.quick)):
            show(table)
            measured.append(table)
    header.append(f"the run took {time.perf_counter() - start:.0f} s; {others}")
    print(header[-1])
    if options.json is not None:
        record = {"machine": header, "tables": [table.record() for table in measured]}
        options.json.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if options.markdown is not None:
        write_markdown(options.markdown, header, measured)


if __name__ == "__main__":
    main()
