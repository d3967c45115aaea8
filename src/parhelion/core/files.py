"""Atomic writing of files: a temporary name first, flushed to the disk, and renamed on success."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any

from parhelion.core.errors import ConfigError, FormatError


def write_whole(path: str | PathLike[str], data: bytes) -> None:
    """Write a file under a temporary name and rename it, so that an existing file is never left half overwritten."""
    file = Path(path)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(data)
            sync(temporary)
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # ValueError: an invalid file name
        raise ConfigError(f"{file}: cannot be written ({getattr(error, 'strerror', None) or error})") from None


def sync(file: Path) -> None:
    """Wait until the contents of a file are on the disk.

    A file system may store a rename before the contents of the file. Without this call, a power failure after the
    rename can leave an empty file under the final name.
    """
    # Windows flushes writable files only.
    descriptor = os.open(file, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Lock a folder for one writing program; a second one gets a ConfigError.

    The operating system releases the lock when the program ends, even if it is killed.
    """
    place = folder / ".writing"
    try:
        lock = os.open(place, os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written to ({error.strerror})") from None
    try:
        try:
            _lock(lock)
        except OSError:
            raise ConfigError(
                f"{folder}: another program is writing into this folder; wait for it, or choose another folder"
            ) from None
        try:
            yield
        finally:
            if sys.platform != "win32":  # Windows does not delete an open file
                place.unlink(missing_ok=True)
    finally:
        os.close(lock)
    if sys.platform == "win32":
        with suppress(OSError):  # the next program has it open
            place.unlink()


def _lock(descriptor: int) -> None:
    """Lock an open file until it is closed; raise OSError if another program has locked it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_TEMPORARY = re.compile(r"\.parhelion-[0-9a-f]{12}-.*", re.DOTALL)


def _checked_target(path: str | PathLike[str]) -> Path:
    # Links are resolved, so that the linked file is replaced and not the link.
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise FormatError(f"{path}: is a folder, not a file")
    if target.exists() and not target.is_file():
        raise FormatError(f"{path}: is not a regular file, so it cannot be replaced")
    if not target.parent.is_dir():
        raise FormatError(f"{path}: the folder {target.parent} does not exist")
    return target


@contextmanager
def atomic_write(path: str | PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the same folder, which is renamed to `path` when the block succeeds.

        with atomic_write("report.html") as temporary:
            temporary.write_text(page)

    The temporary name has the same extension as `path`. If the block raises or is interrupted, the temporary file is
    removed and an existing file at `path` stays unchanged. An `OSError` of the file itself (full disk, missing
    permission) becomes a `FormatError` that names `path`.
    """
    try:
        target = _checked_target(path)
    except (OSError, ValueError) as error:  # a folder without permission, an invalid file name
        raise FormatError(f"{path!s}: cannot be written ({getattr(error, 'strerror', None) or error})") from None
    temporary = target.with_name(f".parhelion-{secrets.token_hex(6)}-{target.name[-64:]}")
    try:
        # Reserve the name with default permissions, and detect an unwritable folder before any work is done.
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        if target.exists():
            os.chmod(temporary, target.stat().st_mode & 0o777)
        yield temporary
        sync(temporary)
        os.replace(temporary, target)
    except OSError as error:
        _remove(temporary)
        if error.filename is not None and os.fspath(error.filename) not in (str(temporary), str(target)):
            raise  # the error concerns another file, which it names
        raise FormatError(f"{path}: cannot be written ({error.strerror or error})") from None
    except BaseException:  # including Ctrl-C: no partial file may remain
        _remove(temporary)
        raise


def remove_litter(folder: Path) -> None:
    """Remove temporary files that killed programs left in a folder and its subfolders. No program may be writing there.

    Subfolders that another program has locked are skipped.
    """
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not Path(place, name, ".writing").exists()]
        for name in files:
            if _TEMPORARY.fullmatch(name):
                _remove(Path(place, name))


def _remove(temporary: Path) -> None:
    with suppress(OSError):
        temporary.unlink()


# ---- JSON ------------------------------------------------------------------------------------------------------------


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
