"""Writing small files whole or not at all. Clouds and long streams go through `parhelion.io.atomic`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Keep a folder for one program at a time; another that asks meanwhile is told so.

    The system gives the folder free when the program ends, however it ends.
    """
    import fcntl

    place = folder / ".writing"
    try:
        lock = os.open(place, os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written to ({error.strerror})") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"{folder}: another program is writing into this folder; wait for it, or choose another folder"
            ) from None
        try:
            yield
        finally:
            place.unlink(missing_ok=True)
    finally:
        os.close(lock)
