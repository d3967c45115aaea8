"""Arrays in NumPy's own format (.npy), from bytes that anyone may have made: no pickle, sizes checked first."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
