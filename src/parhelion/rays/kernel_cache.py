"""Disk cache of compiled kernels, pruned to a bound on age and size.

Dr.Jit stores every kernel in ~/.drjit and never deletes one. Kernels that were not used for PARHELION_CACHE_DAYS (60 by
default) are deleted when the engine starts, then the least recently stored until PARHELION_CACHE_MIB (1024) suffice.
Another process loses nothing: a file that it has open stays readable, and a kernel that it misses is compiled again.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from parhelion.core.errors import ConfigError

SETTINGS = {"PARHELION_CACHE_DAYS": 60, "PARHELION_CACHE_MIB": 1024}
"""Environment variables and their defaults."""
_YOUNG_S = 3600.0
"""Younger files are left: another process may be writing them."""


def folder() -> Path:
    """Folder of the cache."""
    return Path.home() / ".drjit"


def contents(place: Path) -> list[tuple[float, int, Path]]:
    """Time of last use or change [s], size [byte] and path of each kernel, the oldest first."""
    found = []
    with suppress(OSError):
        for entry in os.scandir(place):
            if entry.name.endswith(".bin"):
                with suppress(OSError):  # deleted in the meantime
                    state = entry.stat(follow_symlinks=False)
                    found.append((max(state.st_atime, state.st_mtime), state.st_size, Path(entry.path)))
    return sorted(found)


def limit(variable: str) -> int:
    """Value of a setting."""
    text = os.environ.get(variable, "").strip() or str(SETTINGS[variable])
    if not text.isdecimal():
        raise ConfigError(f"{variable}: must be a whole number of at least 0, got {text!r}")
    return int(text)


def prune(place: Path) -> int:
    """Delete old kernels beyond the limits; return their number."""
    now, most = time.time(), limit("PARHELION_CACHE_MIB") << 20
    too_old = now - limit("PARHELION_CACHE_DAYS") * 86400.0
    kernels = contents(place)
    total, deleted = sum(size for _, size, _ in kernels), 0
    for used, size, path in kernels:
        if (used >= too_old and total <= most) or used > now - _YOUNG_S:
            break
        with suppress(OSError):
            path.unlink()
            total, deleted = total - size, deleted + 1
    return deleted
