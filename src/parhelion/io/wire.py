"""Records as binary messages, readable without extra packages in C++ and JavaScript.

    "PHR1" | uint32 n | n bytes of JSON, padded with spaces | columns, each aligned to 8 bytes

All numbers are little endian. The JSON object has `sensor`, `frame`, `time_ns`, `type` (of the record), `columns`, and
`about` (all values that are not arrays). A column is [name, dtype, shape, offset]; the offset [bytes] counts from the
end of the JSON text.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import FormatError
from parhelion.core.records import Record
from parhelion.io.columns import DTYPES
from parhelion.io.npz import described, rebuilt

MAGIC = b"PHR1"
_ALIGN = 8
_TYPES = frozenset((*DTYPES, "complex64", "complex128", "bool"))


@dataclass(frozen=True)
class PackedRecord:
    """Record that is ready to be sent, with a header to which each receiver adds its own fields."""

    header: Mapping[str, Any]
    columns: bytes

    def message(self, **fields: Any) -> bytes:
        """Bytes of the message, with further fields of the header."""
        text = json.dumps({**fields, **self.header}, separators=(",", ":")).encode("ascii")
        text += b" " * (-(len(text) + len(MAGIC) + 4) % _ALIGN)
        return b"".join((MAGIC, struct.pack("<I", len(text)), text, self.columns))


def packed(record: Record, sensor: str, frame: int, time_s: float, *, complete: bool = False) -> PackedRecord:
    """Pack a record. Scans are sent as point clouds, with their shots and motion only if `complete`."""
    if isinstance(record, Scan) and not complete:
        about = {**record.metadata, "start_time": float(record.start_time)}
        record = PointCloud(record.xyz, record.fields, record.frame, record.names, about)
    arrays, text = described(record, sensor)
    columns, parts, size = [], [], 0
    for name, values in arrays.items():
        little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        columns.append([name, values.dtype.name, list(values.shape), size])
        pad = -little.nbytes % _ALIGN
        parts += [little.tobytes(), b"\0" * pad]
        size += little.nbytes + pad
    header = {
        "sensor": sensor,
        "frame": frame,
        "time_ns": round(time_s * 1e9),
        "type": type(record).__name__,
        "columns": columns,
        "about": text,
    }
    return PackedRecord(header, b"".join(parts))


def unpacked(message: bytes) -> tuple[dict[str, Any], Record]:
    """Header and record of a message; raise FormatError if it is damaged."""
    try:
        if message[:4] != MAGIC:
            raise ValueError("it does not start with PHR1")
        (length,) = struct.unpack_from("<I", message, 4)
        header = json.loads(message[8 : 8 + length])
        start, arrays = 8 + length, {}
        for name, dtype, shape, offset in header["columns"]:
            if dtype not in _TYPES or not all(isinstance(one, int) and one >= 0 for one in (*shape, offset)):
                raise ValueError(f"the column {str(name)[:60]!r} has an invalid type, shape or offset")
            count = int(np.prod(shape, dtype=object)) if shape else 1
            kind = np.dtype(dtype).newbyteorder("<")
            if start + offset + count * kind.itemsize > len(message):
                raise ValueError(f"the column {str(name)[:60]!r} is not complete")
            # A copy: the columns outlive the message and are aligned.
            values = np.frombuffer(message, kind, count, start + offset).reshape(shape)
            arrays[str(name)] = values.astype(np.dtype(dtype))
        return header, rebuilt(arrays, str(header["about"]), Record, Path(str(header["sensor"])))
    except (ValueError, TypeError, KeyError, IndexError, struct.error, RecursionError) as error:
        raise FormatError(f"record: the message is damaged ({error})") from None
