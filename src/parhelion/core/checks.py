"""Checks of numbers from users. Errors name the field, the value and the allowed range."""

from __future__ import annotations

import math
import os
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


# ---- budgets of worlds -----------------------------------------------------------------------------------------------


LIMITS = {"triangles": 20_000_000, "pixels": 32 * 1024 * 1024, "model_pixels": 256 * 1024 * 1024}
"""Default limits: triangles of a world, pixels of one texture (16 bytes each while it is read), and pixels of all
images of one model file (4 bytes each)."""


def check_budget(what: str, wanted: int, source: str) -> None:
    """Raise ConfigError if `wanted` triangles or pixels exceed the limit: a small file cannot ask for gigabytes.

    An environment variable raises a limit: PARHELION_MOST_TRIANGLES, _PIXELS or _MODEL_PIXELS.
    """
    variable = f"PARHELION_MOST_{what.upper()}"
    text = os.environ.get(variable, "").strip() or str(LIMITS[what])
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{variable}: must be a whole number above 0, got {text!r}")
    if wanted > int(text):
        raise ConfigError(
            f"{source}: {wanted} {what.replace('_', ' ')} exceed the limit of {text}; "
            f"set {variable}={wanted} to allow them"
        )
