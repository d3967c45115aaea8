"""One valid file of the corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Seed:
    """A valid file, and the function that reads it."""

    file: Path
    read: Callable[[Path], Any]

    @property
    def name(self) -> str:
        return f"{self.file.parent.name}/{self.file.name}"
