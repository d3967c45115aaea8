"""The bytes of a file, or one clear sentence why there are none."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from parhelion.core.errors import FormatError


def read_bytes(path: Path) -> bytes:
    """The whole content of a regular file."""
    try:
        # Before opening: opening a pipe would wait for a writer that may never come.
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise FormatError(f"{path}: is a folder, not a file")
        if not stat.S_ISREG(mode):
            raise FormatError(f"{path}: is not a regular file")
        return path.read_bytes()
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file") from None
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:  # a NUL in the name
        raise FormatError(f"{str(path)!r}: cannot be read ({error})") from None
