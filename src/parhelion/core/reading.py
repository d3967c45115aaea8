"""Reading files that anyone may have made: which are opened, how far they may unpack, and what is told of failures.

A reader's door is one `with reading(path)` or `@reader`: whatever a damaged file makes the parts behind it raise
becomes one error that names the file. Limits on sizes stay with the formats, before anything is allocated.
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

from parhelion.core.errors import FormatError, ParhelionError

ALWAYS_UNPACKED_BYTES = 64 * 1024 * 1024
LARGEST_EXPANSION = 100
"""Clouds and their messages shrink to a tenth at best; all zeros shrink to a thousandth and less."""

AnyPath = str | PathLike[str]
Item = TypeVar("Item")
Function = TypeVar("Function", bound=Callable[..., Any])


def shown(path: AnyPath) -> str:
    """The name of a file for a message; names that cannot be printed as they are come in quotes."""
    text = str(path)
    return text if text.isprintable() else repr(text)


@contextmanager
def reading(path: AnyPath, error: type[ParhelionError] = FormatError) -> Iterator[None]:
    """Whatever escapes becomes an `error` that names the file; warnings and interrupts pass.

    Our own errors keep their kind, and get the name where they lack it. Numbers out of range are checked, or kept
    as they are: a damaged file is no reason to warn of arithmetic.
    """
    with np.errstate(all="ignore"), _guarded(path, error):
        yield


@contextmanager
def _guarded(path: AnyPath, error: type[ParhelionError]) -> Iterator[None]:
    try:
        yield
    except ParhelionError as problem:
        said = str(problem)
        if "\n" not in said and (str(path) in said or shown(path) in said):
            raise
        # Told by a part that does not know of files, or in the words of a library.
        name = "" if str(path) in said else f"{shown(path)}: "
        raise type(problem)(name + " ".join(said.split())) from problem.__cause__
    except Warning:
        raise
    except Exception as problem:
        raise error(sentence(path, problem)) from problem
    except BaseException as problem:
        # Failures inside of compiled Rust code are no Exception, but must not end a program either.
        if type(problem).__name__ != "PanicException":
            raise
        raise error(sentence(path, problem)) from None


def reader(error: type[ParhelionError] = FormatError) -> Callable[[Function], Function]:
    """Make a function whose first argument is a file's path a guarded door; see `reading`."""

    def guard(function: Function) -> Function:
        @wraps(function)
        def guarded(path: Any, *args: Any, **options: Any) -> Any:
            with reading(path, error):
                return function(path, *args, **options)

        return cast(Function, guarded)

    return guard


def reading_each(path: AnyPath, items: Iterator[Item], error: type[ParhelionError] = FormatError) -> Iterator[Item]:
    """The items, each fetched as within `reading`; what is done with them is not guarded."""
    with _guarded(path, error):
        yield from items


def sentence(path: AnyPath, problem: BaseException) -> str:
    """One sentence for a failure that no reader foresaw."""
    name = shown(path)
    if isinstance(problem, MemoryError):
        return f"{name}: too large for the memory of this machine"
    if isinstance(problem, RecursionError):
        return f"{name}: is nested too deeply"
    if isinstance(problem, OSError) and problem.strerror:
        return f"{name}: cannot be read ({problem.strerror})"
    reason = " ".join(str(problem).split())[:120]
    kind = type(problem).__name__
    return f"{name}: is damaged, or not what its name says ({f'{kind}: {reason}' if reason else kind})"


def open_file(path: AnyPath, error: type[ParhelionError] = FormatError) -> BinaryIO:
    """A regular file, open for reading; pipes and devices are refused before they can keep a reader waiting."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise error(f"{shown(path)}: is a folder, not a file")
        if not stat.S_ISREG(mode):
            raise error(f"{shown(path)}: is not a regular file")
        return Path(path).open("rb")
    except FileNotFoundError:
        raise error(f"{shown(path)}: no such file") from None
    except OSError as problem:
        raise error(f"{shown(path)}: cannot be read ({problem.strerror or problem})") from None
    except ValueError as problem:  # a NUL in the name
        raise error(f"{shown(path)}: cannot be read ({problem})") from None


def read_bytes(
    path: AnyPath, error: type[ParhelionError] = FormatError, *, largest: int | None = None, what: str = ""
) -> bytes:
    """The whole content of a regular file; beyond `largest` bytes it is refused as not being `what`."""
    with open_file(path, error) as stream:
        try:
            # The size is asked for first: to read up to a limit would take the limit's memory for any file.
            if largest is not None and os.fstat(stream.fileno()).st_size > largest:
                raise error(f"{shown(path)}: larger than {largest >> 20} MiB, not {what or 'a file of this kind'}")
            return stream.read()
        except OSError as problem:
            raise error(f"{shown(path)}: cannot be read ({problem.strerror or problem})") from None


def is_regular_file(path: AnyPath) -> bool:
    """Whether there is a regular file of this name, directly or behind links."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


class UnpackingBudget:
    """How many bytes a packed file may become: many times its own size, but not thousands of times."""

    def __init__(self, path: AnyPath, packed_bytes: int, *, once: int | None = None) -> None:
        """`once` is the most that one piece alone may become."""
        self.left = ALWAYS_UNPACKED_BYTES + LARGEST_EXPANSION * packed_bytes
        self._path, self._packed, self._once = path, packed_bytes, once

    def spend(self, size: int) -> None:
        """Ask for `size` bytes more, before they are unpacked; raises FormatError where that is too much."""
        if self._once is not None and size > self._once:
            raise FormatError(
                f"{shown(self._path)}: one packed piece of it claims {size} bytes, {self._once} at most are unpacked"
            )
        self.left -= size
        if size < 0 or self.left < 0:
            raise FormatError(
                f"{shown(self._path)}: its {self._packed} bytes claim to unpack to more than {LARGEST_EXPANSION} times "
                f"as much and {ALWAYS_UNPACKED_BYTES >> 20} MiB, so it is damaged or a trap"
            )


# ---- npy ------------------------------------------------------------------------------------------------------------
# Arrays in NumPy's own format (.npy), from bytes that anyone may have made: no pickle, sizes checked first.


_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def array_of(content: bytes) -> NDArray[Any]:
    """The array, read-only; raises ValueError where the bytes are no array of plain values, or not a whole one."""
    buffer = io.BytesIO(content)
    version = np.lib.format.read_magic(buffer)
    if version not in _HEADERS:
        raise ValueError(f"it has the unknown version {version[0]}.{version[1]}")
    shape, fortran, dtype = _HEADERS[version](buffer)
    if dtype.hasobject or dtype.names is not None or dtype.subdtype is not None:
        raise ValueError("it holds Python objects or records")
    count, start = math.prod(shape), buffer.tell()
    if any(side < 0 for side in shape) or count * dtype.itemsize > len(content) - start:
        raise ValueError(f"it claims the shape {_short(shape)}, more than is there")
    if dtype.itemsize == 0:
        raise ValueError("its values have no size")
    values = np.frombuffer(content, dtype, count, start)
    return values.reshape(shape, order="F" if fortran else "C")


def _short(shape: tuple[int, ...]) -> str:
    text = str(shape) if math.prod(shape) < 10**30 else "of an absurd size"
    return text if len(text) <= 80 else f"{text[:60]} ..."
