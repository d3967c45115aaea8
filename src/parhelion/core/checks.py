"""Checks of numbers from users. Errors name the field, the value and the allowed range."""

from __future__ import annotations

import math
from typing import Any

from parhelion.core.errors import ConfigError


def finite(field: str, value: Any) -> float:
    """Return `value` as a finite float."""
    number = _number(field, value, "a finite number")
    if not math.isfinite(number):
        raise ConfigError(f"{field}: must be a finite number, got {value!r}")
    return number


def above(field: str, value: Any, low: float, high: float = math.inf, *, infinite: bool = False) -> float:
    """Return `value` as a float above `low` and at most `high`; infinity only if `infinite` allows it."""
    allowed = f"above {low:g}" + (f" and at most {high:g}" if high < math.inf else "")
    number = _number(field, value, allowed)
    if not low < number <= high or (number == math.inf and not infinite):
        raise ConfigError(f"{field}: must be {allowed}, got {value!r}")
    return number


def within(field: str, value: Any, low: float, high: float) -> float:
    """Return `value` as a float from `low` to `high`, both inclusive."""
    number = _number(field, value, f"from {low:g} to {high:g}")
    if not low <= number <= high:
        raise ConfigError(f"{field}: must be from {low:g} to {high:g}, got {value!r}")
    return number


def whole(field: str, value: Any, low: int, high: int) -> int:
    """Return `value` as an integer from `low` to `high`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not low <= int(value) <= high:
        raise ConfigError(f"{field}: must be a whole number from {low} to {high}, got {value!r}")
    return int(value)


def vector(field: str, value: Any, size: int) -> tuple[float, ...]:
    """Return `value` as `size` finite floats."""
    try:
        numbers = tuple(float(one) for one in value)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{field}: must be {size} numbers, got {value!r}") from None
    if len(numbers) != size or not all(map(math.isfinite, numbers)):
        raise ConfigError(f"{field}: must be {size} finite numbers, got {value!r}")
    return numbers


def _number(field: str, value: Any, allowed: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{field}: must be {allowed}, got {value!r}") from None
