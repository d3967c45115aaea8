"""Does a glTF file hold the numbers that it claims? Asked before the parser takes memory for them.

An accessor without a buffer stands for zeros, as many as it says; one with a buffer cannot claim more than is there.
Layout: glTF 2.0, https://registry.khronos.org/glTF/specs/2.0/glTF-2.0.html
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parhelion.core.errors import FormatError
from parhelion.core.reading import UnpackingBudget

_BYTES = {5120: 1, 5121: 1, 5122: 2, 5123: 2, 5125: 4, 5126: 4}
_VALUES = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}


def check_gltf(file: Path, data: bytes) -> None:
    """Raise FormatError where the accessors of a .gltf or .glb file are not what the format allows."""
    document = _document(file, data)
    budget = UnpackingBudget(file, len(data))
    accessors = document.get("accessors", [])
    if not isinstance(accessors, list):
        raise FormatError(f"{file}: accessors must be a list")
    for row, entry in enumerate(accessors):
        where = f"{file}: accessors[{row}]"
        if not isinstance(entry, Mapping):
            raise FormatError(f"{where}: must be a mapping")
        count, part, kind = entry.get("count"), entry.get("componentType"), entry.get("type")
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count < 2**31:
            raise FormatError(f"{where}: count must be a whole number above 0, got {str(count)[:40]}")
        if not isinstance(part, int) or part not in _BYTES:
            raise FormatError(
                f"{where}: componentType must be one of {', '.join(map(str, _BYTES))}, got {str(part)[:40]}"
            )
        if not isinstance(kind, str) or kind not in _VALUES:
            raise FormatError(f"{where}: type must be one of {', '.join(_VALUES)}, got {str(kind)[:40]}")
        if entry.get("bufferView") is None:
            budget.spend(count * _BYTES[part] * _VALUES[kind])


def _document(file: Path, data: bytes) -> Mapping[str, Any]:
    text = data
    if data[:4] == b"glTF":
        if len(data) < 20:
            raise FormatError(f"{file}: not a whole .glb file: it ends within its header")
        length, kind = struct.unpack_from("<I4s", data, 12)
        if kind != b"JSON" or length > len(data) - 20:
            raise FormatError(f"{file}: not a whole .glb file: its first chunk is no JSON, or not all there")
        text = data[20 : 20 + length]
    try:
        document = json.loads(text.decode("utf-8"))
    except ValueError:
        raise FormatError(f"{file}: not a whole {file.suffix} file: its JSON is damaged") from None
    if not isinstance(document, Mapping):
        raise FormatError(f"{file}: not a whole {file.suffix} file: its JSON is no mapping")
    return document
