"""The table of a campaign: a row a run, in the order of the rows, as Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from typing import Any

from parhelion.campaign.store import INSTALL
from parhelion.campaign.study import Study
from parhelion.core.errors import FormatError, MissingDependencyError

TABLE = "results.parquet"
_OWN = ("row", "cell", "draw", "seed")
_AFTER = ("status", "error", "scenario_sha256", "version", "device")


def arrow() -> Any:
    """The module pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet

        return pyarrow
    except ImportError:
        raise MissingDependencyError(f"the table of a campaign needs pyarrow; run {INSTALL}") from None


def table_bytes(
    study: Study, results: dict[int, dict[str, Any]], numbers: Iterable[int], about: dict[str, Any]
) -> bytes:
    """The table of the rows of these numbers as a Parquet file; `about` is kept in it as JSON."""
    pa = arrow()
    rows = [study.row(number) for number in sorted(numbers)]
    columns: dict[str, Any] = {
        name: pa.array([getattr(row, "number" if name == "row" else name) for row in rows], pa.int64()) for name in _OWN
    }
    for path in study.settings.vary:
        columns[path] = _column(pa, [row.values[path] for row in rows], _all_values(study, path))
    for name in _AFTER:
        columns[name] = pa.array([results[row.number].get(name) for row in rows], pa.string())
    for name in study.numbers:
        columns[name] = pa.array([results[row.number].get("numbers", {}).get(name) for row in rows], pa.float64())
    table = pa.table(columns).replace_schema_metadata({"parhelion": json.dumps(about, sort_keys=True)})
    out = io.BytesIO()
    pa.parquet.write_table(table, out, compression="zstd")
    return out.getvalue()


def _all_values(study: Study, path: str) -> list[Any]:
    return study.drawn[path] if path in study.drawn else study.settings.grid[path]


def _column(pa: Any, values: list[Any], options: list[Any]) -> Any:
    """Values as the narrowest type that holds all that the study may give; lists and mappings as JSON text."""
    kinds = {type(value) for value in options}
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int}:
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array([float(value) for value in values], pa.float64())
    if kinds == {str}:
        return pa.array(values, pa.string())
    return pa.array([json.dumps(value, sort_keys=True) for value in values], pa.string())


def results_of(data: bytes, where: str, numbers: Iterable[str]) -> dict[int, dict[str, Any]]:
    """The results that a table holds, by row."""
    pa = arrow()
    try:
        table = pa.parquet.read_table(io.BytesIO(data)).to_pydict()
        kept = {name: table[name] for name in (*_AFTER, *numbers)}
        return {
            row: {
                "row": row,
                **{name: kept[name][k] for name in _AFTER},
                "numbers": {name: kept[name][k] for name in numbers},
            }
            for k, row in enumerate(table["row"])
        }
    except (pa.ArrowException, KeyError, OSError) as error:
        raise FormatError(
            f"{where}: cannot be read as the table of this study ({' '.join(str(error).split())[:200]})"
        ) from None
