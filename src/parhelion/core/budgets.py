"""Budgets of worlds: limits on triangles and texture pixels, so that a small file cannot ask for gigabytes.

An environment variable raises a limit: PARHELION_MOST_TRIANGLES, PARHELION_MOST_PIXELS or
PARHELION_MOST_MODEL_PIXELS.
"""

from __future__ import annotations

import os

from parhelion.core.errors import ConfigError

LIMITS = {"triangles": 20_000_000, "pixels": 32 * 1024 * 1024, "model_pixels": 256 * 1024 * 1024}
"""Default limits: triangles of a world, pixels of one texture (16 bytes each while it is read), and pixels of all
images of one model file (4 bytes each)."""


def check_budget(what: str, wanted: int, source: str) -> None:
    """Raise ConfigError if `wanted` triangles or pixels exceed the limit."""
    variable = f"PARHELION_MOST_{what.upper()}"
    text = os.environ.get(variable, "").strip() or str(LIMITS[what])
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{variable}: must be a whole number above 0, got {text!r}")
    if wanted > int(text):
        raise ConfigError(
            f"{source}: {wanted} {what.replace('_', ' ')} exceed the limit of {text}; "
            f"set {variable}={wanted} to allow them"
        )
