"""Safe reading of untrusted files: regular files only, limited decompression, one clear error per failure.

Each reader uses `with reading(path)` or `@file_reader()`: any exception that a damaged file causes becomes one error
that names the file. The formats themselves check sizes before they allocate memory.
"""

from __future__ import annotations

import io
import math
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError, MissingDependencyError, ParhelionError

ALWAYS_UNPACKED_BYTES = 64 * 1024 * 1024
LARGEST_EXPANSION = 100
"""Real clouds and their messages compress by a factor of 10 at most; zeros compress by a factor of 1000 and more."""

AnyPath = str | PathLike[str]
Item = TypeVar("Item")
Function = TypeVar("Function", bound=Callable[..., Any])


def shown(path: AnyPath) -> str:
    """Name of a file for a message, in quotes if it is not printable."""
    text = str(path)
    return text if text.isprintable() else repr(text)


@contextmanager
def reading(path: AnyPath, error: type[ParhelionError] = FormatError) -> Iterator[None]:
    """Turn any exception in the block into an `error` that names the file. Warnings and interrupts pass unchanged.

    Parhelion's own errors keep their class; the file name is added if it is missing. NumPy's arithmetic warnings are
    silenced, because damaged files may contain any number.
    """
    with np.errstate(all="ignore"), _guarded(path, error):
        yield


@contextmanager
def _guarded(path: AnyPath, error: type[ParhelionError]) -> Iterator[None]:
    try:
        yield
    except ParhelionError as problem:
        text = str(problem)
        if "\n" not in text and (str(path) in text or shown(path) in text):
            raise
        # The message lacks the file name, or spans several lines because it quotes a library.
        name = "" if str(path) in text else f"{shown(path)}: "
        raise type(problem)(name + " ".join(text.split())) from problem.__cause__
    except Warning:
        raise
    except ImportError as problem:
        raise missing_package(path, problem) from problem
    except Exception as problem:
        raise error(sentence(path, problem)) from problem
    except BaseException as problem:
        # A panic in compiled Rust code is not an Exception, but must not end the program either.
        if type(problem).__name__ != "PanicException":
            raise
        raise error(sentence(path, problem)) from None


def file_reader(error: type[ParhelionError] = FormatError) -> Callable[[Function], Function]:
    """Decorator that runs a function within `reading`; its first argument is the path of the file."""

    def guard(function: Function) -> Function:
        @wraps(function)
        def guarded(path: Any, *args: Any, **options: Any) -> Any:
            with reading(path, error):
                return function(path, *args, **options)

        return cast(Function, guarded)

    return guard


def reading_each(path: AnyPath, items: Iterator[Item]) -> Iterator[Item]:
    """Yield the items, each fetched as within `reading`; the code that uses them is not guarded."""
    with _guarded(path, FormatError):
        yield from items


def missing_package(path: AnyPath, problem: ImportError) -> MissingDependencyError:
    """Error for a file whose reader imports a package that is not installed: the file itself may be whole."""
    package = (problem.name or "").partition(".")[0].replace("_", "-")
    advice = f"the package {package}: pip install {package}" if package else f"another package ({problem})"
    return MissingDependencyError(f"{shown(path)}: reading it needs {advice}")


def utf8(data: bytes) -> bytes:
    """Text in UTF-8; text in any other encoding is taken as Latin-1, which assigns a character to every byte."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1").encode("utf-8")
    return data


def sentence(path: AnyPath, problem: BaseException) -> str:
    """One-sentence message for an unexpected exception."""
    name = shown(path)
    if isinstance(problem, MemoryError):
        return f"{name}: too large for the memory of this machine"
    if isinstance(problem, RecursionError):
        return f"{name}: is nested too deeply"
    if isinstance(problem, OSError) and problem.strerror:
        return f"{name}: cannot be read ({problem.strerror})"
    reason = " ".join(str(problem).split())[:120]
    kind = type(problem).__name__
    return f"{name}: is damaged, or not of the type that its name implies ({f'{kind}: {reason}' if reason else kind})"


_collected: list[set[Path]] = []
"""Sets that collect the files that are read; see `files_read`."""


@contextmanager
def files_read() -> Iterator[set[Path]]:
    """Collect the absolute paths of all files that are read in the block, by any thread."""
    found: set[Path] = set()
    _collected.append(found)
    try:
        yield found
    finally:
        _collected[:] = [one for one in _collected if one is not found]


def open_file(path: AnyPath, error: type[ParhelionError] = FormatError) -> BinaryIO:
    """Open a regular file for reading. Pipes and devices are rejected, because reading them could block."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise error(f"{shown(path)}: is a folder, not a file")
        if not stat.S_ISREG(mode):
            raise error(f"{shown(path)}: is not a regular file")
        stream = Path(path).open("rb")  # noqa: SIM115
    except FileNotFoundError:
        raise error(f"{shown(path)}: no such file") from None
    except OSError as problem:
        raise error(f"{shown(path)}: cannot be read ({problem.strerror or problem})") from None
    except ValueError as problem:  # a NUL character in the name
        raise error(f"{shown(path)}: cannot be read ({problem})") from None
    for found in _collected:
        found.add(Path(path).absolute())
    return stream


def read_bytes(
    path: AnyPath, error: type[ParhelionError] = FormatError, *, largest: int | None = None, what: str = ""
) -> bytes:
    """Read a regular file completely. A file of more than `largest` bytes is rejected as not being `what`."""
    with open_file(path, error) as stream:
        try:
            # Check the size first: `read(limit)` would allocate memory for the whole limit.
            if largest is not None and os.fstat(stream.fileno()).st_size > largest:
                raise error(f"{shown(path)}: larger than {largest >> 20} MiB, not {what or 'a file of this kind'}")
            return stream.read()
        except OSError as problem:
            raise error(f"{shown(path)}: cannot be read ({problem.strerror or problem})") from None


def is_regular_file(path: AnyPath) -> bool:
    """Return whether a path is a regular file or a link to one."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


class UnpackingBudget:
    """Limit on the decompressed size of a file: 64 MiB plus 100 times the compressed size."""

    def __init__(self, path: AnyPath, packed_bytes: int, *, once: int | None = None) -> None:
        """Start with the budget of a file of `packed_bytes`; `once` limits the decompressed size of one chunk."""
        self.left = ALWAYS_UNPACKED_BYTES + LARGEST_EXPANSION * packed_bytes
        self._path, self._packed, self._once = path, packed_bytes, once

    def spend(self, size: int) -> None:
        """Reserve `size` bytes before they are decompressed. Raise FormatError if the budget is exceeded."""
        if self._once is not None and size > self._once:
            raise FormatError(
                f"{shown(self._path)}: a compressed chunk claims to hold {size} bytes; the limit is {self._once}"
            )
        self.left -= size
        if size < 0 or self.left < 0:
            raise FormatError(
                f"{shown(self._path)}: its {self._packed} bytes claim to decompress to more than {LARGEST_EXPANSION} "
                f"times as much and {ALWAYS_UNPACKED_BYTES >> 20} MiB, so it is damaged or malicious"
            )


# ---- npy ------------------------------------------------------------------------------------------------------------
# Arrays in NumPy's .npy format from untrusted bytes: no pickle, sizes are checked first.


_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def array_of(content: bytes) -> NDArray[Any]:
    """Return the array, read-only. Raise ValueError if the bytes are not a complete array of plain values."""
    buffer = io.BytesIO(content)
    version = np.lib.format.read_magic(buffer)
    if version not in _HEADERS:
        raise ValueError(f"its format version {version[0]}.{version[1]} is not supported")
    shape, fortran, dtype = _HEADERS[version](buffer)
    if dtype.hasobject or dtype.names is not None or dtype.subdtype is not None:
        raise ValueError("it contains Python objects or structured values")
    count, start = math.prod(shape), buffer.tell()  # wording: ok
    if any(side < 0 for side in shape) or count * dtype.itemsize > len(content) - start:
        raise ValueError(f"it claims the shape {_short(shape)}, which is more data than it contains")
    if dtype.itemsize == 0:
        raise ValueError("its values have no size")
    values = np.frombuffer(content, dtype, count, start)
    return values.reshape(shape, order="F" if fortran else "C")


def _short(shape: tuple[int, ...]) -> str:
    text = str(shape) if math.prod(shape) < 10**30 else "of an absurd size"
    return text if len(text) <= 80 else f"{text[:60]} ..."
