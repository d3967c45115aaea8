"""Rows of numbers that a run adds step by step: the latest in memory, older ones in a temporary file.

A run of any length thus needs the same memory, and everything that was recorded can still be read, bit for bit.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

RECENT_BYTES = 1 << 18
"""Size of the latest rows that stay in memory."""
RECENT_ROWS = 512
"""Smallest number of rows that stay in memory: at 20 rows per second, those of the last 25 s."""


class History:
    """Rows of equal shape, numbered from 0.

    >>> history = History((2,))
    >>> for k in range(3):
    ...     history.append((k, 10.0 * k))
    >>> len(history), history.rows(1, 3).tolist()
    (3, [[1.0, 10.0], [2.0, 20.0]])
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any = np.float64, recent_rows: int | None = None) -> None:
        """Create an empty history; `recent_rows` rows at least stay in memory, by default those of `RECENT_BYTES`."""
        self._row_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self._recent = recent_rows or max(RECENT_BYTES // max(self._row_bytes, 1), RECENT_ROWS)
        self._buffer: NDArray[Any] = np.empty((min(64, 2 * self._recent), *shape), dtype)
        self._count = 0
        self._stored = 0
        """Number of rows in the file; the buffer starts after them."""
        self._file: IO[bytes] | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self._buffer.dtype

    def __len__(self) -> int:
        return self._count

    def append(self, row: ArrayLike) -> None:
        """Add a row."""
        place = self._count - self._stored
        if place < len(self._buffer):
            self._buffer[place] = row
            self._count += 1
        else:
            self.extend(np.asarray(row, self._buffer.dtype)[None])

    def extend(self, rows: NDArray[Any]) -> None:
        """Add rows, shape (n, ...)."""
        while len(rows):
            place = self._count - self._stored
            if place == len(self._buffer) < 2 * self._recent:
                more = np.empty((min(place, 2 * self._recent - place), *self._buffer.shape[1:]), self._buffer.dtype)
                self._buffer = np.concatenate([self._buffer, more])
            elif place == len(self._buffer):
                self._store()
                place = self._count - self._stored
            part = rows[: len(self._buffer) - place]
            self._buffer[place : place + len(part)] = part
            self._count += len(part)
            rows = rows[len(part) :]

    def _store(self) -> None:
        """Move all but the latest rows to the file."""
        if self._file is None:
            # The file has no name, so that it disappears with the process, even if that is killed.
            self._file = tempfile.TemporaryFile(prefix="parhelion-", buffering=0)  # noqa: SIM115
        older = len(self._buffer) - self._recent
        self._file.write(self._buffer[:older].tobytes())
        self._buffer[: self._recent] = self._buffer[older:].copy()
        self._stored += older

    def rows(self, begin: int, end: int) -> NDArray[Any]:
        """Return the rows from `begin` to before `end`; rows beyond the ends are omitted."""
        begin, end = max(begin, 0), min(end, self._count)
        recent = self._buffer[max(begin - self._stored, 0) : max(end - self._stored, 0)]
        if begin >= self._stored or begin >= end:
            return recent.copy()
        assert self._file is not None
        size = (min(end, self._stored) - begin) * self._row_bytes
        stored = self._read(size, begin * self._row_bytes)
        older = np.frombuffer(stored, self._buffer.dtype).reshape(-1, *self._buffer.shape[1:])
        return np.concatenate([older, recent])

    def _read(self, size: int, start: int) -> bytes:
        assert self._file is not None
        if sys.platform != "win32":
            return os.pread(self._file.fileno(), size, start)
        self._file.seek(start)
        stored: bytes = self._file.read(size)
        self._file.seek(0, os.SEEK_END)  # where the next rows go
        return stored

    def around(self, low: float, high: float) -> tuple[int, NDArray[Any]]:
        """Rows that enclose the numbers `low` to `high`, which may be fractions, and the number of the first of them.

        There are two rows at least if the history has two.
        """
        last = self._count - 1
        begin = int(np.clip(np.floor(low), 0, max(last - 1, 0)))
        return begin, self.rows(begin, int(np.clip(np.ceil(high), begin + 1, last)) + 1)
