"""Values that change with time: the opening of a door, the height of a fork, the joint angles of an arm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats

Schedule = float | Sequence[Any] | Callable[[Floats], ArrayLike]
"""A constant, pairs (time [s], value) in increasing order of time, or a function from times (n,) to values."""


def schedule(field: str, given: Schedule, *, low: float = -np.inf, high: float = np.inf, columns: int = 1) -> Scheduled:
    """Return a validated schedule of values from `low` to `high`, `columns` numbers each; errors name `field`."""
    if callable(given):
        return Scheduled(field, low, high, columns, function=given)
    try:
        rows = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        try:  # pairs of a time and several numbers
            rows = np.array([[time, *values] for time, values in given], dtype=np.float64)  # type: ignore[union-attr]
        except (TypeError, ValueError):
            raise ConfigError(f"{field}: must be a value, or pairs of a time and a value, got {given!r}") from None
    if rows.shape == (() if columns == 1 else (columns,)):
        rows = np.concatenate([[0.0], rows.reshape(-1)])[None, :]
    if rows.ndim != 2 or rows.shape[1] != columns + 1 or len(rows) == 0 or not np.all(np.isfinite(rows)):
        raise ConfigError(
            f"{field}: must be {columns} finite number{'s' if columns > 1 else ''}, or pairs of a time and as many "
            f"numbers, got {given!r}"
        )
    if np.any(np.diff(rows[:, 0]) <= 0.0):
        raise ConfigError(f"{field}: times must be strictly increasing, got {rows[:, 0].tolist()}")
    return Scheduled(field, low, high, columns, times=rows[:, 0], values=rows[:, 1:])


class Scheduled:
    """Values as a function of time, constant before the first and after the last time.

    Between two times the value follows 10x³ - 15x⁴ + 6x⁵, the straight move of least jerk (Flash and Hogan 1985). It
    starts and ends at rest, and its peak speed is 15/8 of the mean.
    """

    def __init__(
        self,
        field: str,
        low: float,
        high: float,
        columns: int,
        *,
        times: Floats | None = None,
        values: Floats | None = None,
        function: Callable[[Floats], ArrayLike] | None = None,
    ) -> None:
        self._field, self._low, self._high, self._columns = field, low, high, columns
        self._times, self._values, self._function = times, values, function
        if values is not None:
            self._check(values)

    def __call__(self, times: ArrayLike) -> Floats:
        """Values at times (n,) [s], shape (n, columns)."""
        at = np.asarray(times, dtype=np.float64)
        if self._function is not None:
            values = np.asarray(self._function(at), dtype=np.float64)
            if values.size != len(at) * self._columns:
                raise ConfigError(
                    f"{self._field}: the function must return {self._columns} values per time, got shape {values.shape}"
                )
            return self._check(values.reshape(len(at), self._columns))
        assert self._times is not None
        assert self._values is not None
        if len(self._times) == 1:
            return np.tile(self._values, (len(at), 1))
        row = np.clip(np.searchsorted(self._times, at, side="right") - 1, 0, len(self._times) - 2)
        share = np.clip((at - self._times[row]) / (self._times[row + 1] - self._times[row]), 0.0, 1.0)
        return self._values[row] + eased(share)[:, None] * (self._values[row + 1] - self._values[row])

    def _check(self, values: Floats) -> Floats:
        wrong = ~((values >= self._low) & (values <= self._high)) | ~np.isfinite(values)
        if np.any(wrong):
            raise ConfigError(
                f"{self._field}: must be from {self._low:g} to {self._high:g}, got {float(values[wrong][0]):g}"
            )
        return values


def eased(share: Floats) -> Floats:
    """Minimum-jerk easing 10x³ - 15x⁴ + 6x⁵ of numbers from 0 to 1."""
    return share**3 * (10.0 + share * (6.0 * share - 15.0))
