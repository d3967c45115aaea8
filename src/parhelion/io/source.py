"""The bytes of a file, or one clear sentence why there are none."""

from __future__ import annotations

from parhelion.core.reading import open_file, read_bytes

__all__ = ["open_file", "read_bytes"]
