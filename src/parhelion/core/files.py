"""Writing small files whole or not at all. Clouds and long streams go through `parhelion.io.atomic`."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path

from parhelion.core.errors import ConfigError


def write_whole(path: str | PathLike[str], data: bytes) -> None:
    """Write a file under a temporary name and rename it, so that an earlier file is never left half overwritten."""
    file = Path(path)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(data)
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # a ValueError is a name that no file can have
        raise ConfigError(f"{file}: cannot be written ({getattr(error, 'strerror', None) or error})") from None
