"""Rows of numbers as text, written and read without a Python loop over rows."""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.io.columns import cast

_ROWS_AT_ONCE = 16384


def _value_format(dtype: np.dtype[Any]) -> str:
    # Enough digits that reading gives the same bits: nine for float32, the shortest exact form for float64.
    if dtype.kind == "f":
        return "%.9g" if dtype.itemsize == 4 else "%r"
    return "%d"


def format_rows(columns: Sequence[NDArray[Any]], separator: str) -> Iterator[bytes]:
    """Text of the table, in pieces of many rows each; every value reads back as the same bits."""
    row = separator.join(_value_format(column.dtype) for column in columns) + "\n"
    for start in range(0, len(columns[0]), _ROWS_AT_ONCE):
        lists = [column[start : start + _ROWS_AT_ONCE].tolist() for column in columns]
        # One format call for the whole piece: the values are interleaved and converted in C.
        values = tuple(itertools.chain.from_iterable(zip(*lists, strict=True)))
        yield ((row * len(lists[0])) % values).encode("ascii")


def parse_rows(
    data: bytes, dtypes: Sequence[np.dtype[Any]], rows: int | None, path: Path, separator: str | None = None
) -> list[NDArray[Any]]:
    """The first `rows` rows (None: all) of a text table as one array a column, in the types asked for.

    Columns are parted by `separator`, or by any white space where it is None. Blank lines are skipped.
    """
    if rows == 0 or (rows is None and not data.strip()):
        return [np.empty(0, dtype) for dtype in dtypes]
    # Asked before parsing, since the parser takes memory for all rows at once.
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    if rows is not None and lines < rows:
        raise FormatError(f"{path}: truncated, {rows} rows are promised and at most {lines} are there")
    # Whole numbers of eight bytes lose digits in a float64; all others pass through it, "3.0" as well as "3".
    exact = [dtype if dtype.kind in "iu" and dtype.itemsize == 8 else np.dtype(np.float64) for dtype in dtypes]
    record = np.dtype([(str(i), dtype) for i, dtype in enumerate(exact)])
    text = io.StringIO(data.decode("latin-1"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that blank lines are no rows is just what is meant
            # NumPy before 2 cuts the fraction off a number in a column of whole ones, and only warns of it.
            warnings.simplefilter("error", DeprecationWarning)
            table = np.loadtxt(text, record, comments=None, delimiter=separator, max_rows=rows, ndmin=1)
    except (ValueError, OverflowError, DeprecationWarning) as error:
        raise FormatError(f"{path}: the table of points is damaged ({_first_line(error)})") from None
    if rows is not None and len(table) < rows:
        raise FormatError(f"{path}: truncated, {rows} rows are promised and {len(table)} are there")
    return [cast(table[str(i)], dtype.name, str(i + 1), path) for i, dtype in enumerate(dtypes)]


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".;") if str(error) else type(error).__name__
