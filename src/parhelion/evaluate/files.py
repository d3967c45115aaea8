"""JSON files of evaluations, written atomically."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from parhelion.core.files import atomic_write


def _plain(value: Any) -> Any:
    """Value with infinity and NaN, which JSON lacks, replaced by null."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write plain values as JSON."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(_plain(content), indent=1, allow_nan=False) + "\n", encoding="utf-8")
