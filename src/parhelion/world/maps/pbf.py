"""Reader of OpenStreetMap's protocol buffer files (.osm.pbf), with limits on every size.

The wire format has five types of fields; only variable-length integers and byte strings occur in these files.
Format: https://wiki.openstreetmap.org/wiki/PBF_Format
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.reading import UnpackingBudget

LARGEST_FILE_BYTES = 512 * 1024 * 1024
_LARGEST_HEADER, _LARGEST_BLOB = 64 * 1024, 32 * 1024 * 1024
"""Limits of the format [bytes]: header of a blob, and its unpacked content."""
_SUPPORTED = {"OsmSchema-V0.6", "DenseNodes", "HistoricalInformation"}
_MEMBER_KINDS = ("node", "way", "relation")


@dataclass
class Block:
    """Objects of one block of the file."""

    ids: list[int] = field(default_factory=list)
    lon: list[float] = field(default_factory=list)
    lat: list[float] = field(default_factory=list)
    node_tags: dict[int, dict[str, str]] = field(default_factory=dict)
    ways: dict[int, tuple[list[int], dict[str, str]]] = field(default_factory=dict)
    relations: dict[int, tuple[list[tuple[str, int, str]], dict[str, str]]] = field(default_factory=dict)
    bounds: tuple[float, float, float, float] | None = None


def blocks(file: Path, content: bytes) -> Iterator[Block]:
    """Yield the blocks of a file; the first one holds only its bounds."""
    budget = UnpackingBudget(file, len(content), once=_LARGEST_BLOB)
    place, first = 0, True
    while place < len(content):
        if place + 4 > len(content):
            raise FormatError(f"{file}: not a whole .pbf file: it ends within a block")
        size = int.from_bytes(content[place : place + 4], "big")
        if size > _LARGEST_HEADER or place + 4 + size > len(content):
            raise FormatError(f"{file}: not a .pbf file of OpenStreetMap, or not whole: a header of {size} bytes")
        header = _fields(file, content[place + 4 : place + 4 + size])
        place += 4 + size
        kind, length = bytes(_last(header, 1, b"")), int(_last(header, 3, 0))
        if place + length > len(content):
            raise FormatError(f"{file}: not a whole .pbf file: it ends within a block")
        data = _unpacked(file, content[place : place + length], budget)
        place += length
        if first and kind != b"OSMHeader":
            raise FormatError(f"{file}: not a .pbf file of OpenStreetMap: its first block is no header")
        first = False
        if kind == b"OSMHeader":
            yield _header(file, data)
        elif kind == b"OSMData":
            yield _primitives(file, data)


def _unpacked(file: Path, blob: bytes, budget: UnpackingBudget) -> bytes:
    fields = _fields(file, blob)
    if 1 in fields:
        raw = bytes(_last(fields, 1, b""))
        budget.spend(len(raw))
        return raw
    if 3 not in fields:
        raise FormatError(f"{file}: its blocks must be raw or packed with zlib; convert it with osmium cat -f pbf")
    size = int(_last(fields, 2, 0))
    budget.spend(size)
    inflater = zlib.decompressobj()
    data = inflater.decompress(bytes(_last(fields, 3, b"")), size + 1)
    if len(data) != size:
        raise FormatError(f"{file}: a block unpacks to another size than it states")
    return data


def _header(file: Path, data: bytes) -> Block:
    fields = _fields(file, data)
    for name in fields.get(4, []):
        if bytes(name).decode("utf-8", "replace") not in _SUPPORTED:
            raise FormatError(f"{file}: needs the feature {bytes(name)[:40]!r}, which is not supported")
    block = Block()
    if 1 in fields:
        box = _fields(file, fields[1][-1])
        left, right, top, bottom = (_zigzag_one(int(_last(box, k, 0))) * 1e-9 for k in (1, 2, 3, 4))
        block.bounds = (left, bottom, right, top)
    return block


def _primitives(file: Path, data: bytes) -> Block:
    fields = _fields(file, data)
    texts = [bytes(text).decode("utf-8", "replace") for text in _fields(file, _last(fields, 1, b"")).get(1, [])]
    granularity = int(_last(fields, 17, 100))
    lat_offset, lon_offset = (_signed(int(_last(fields, k, 0))) for k in (19, 20))

    def text(row: int) -> str:
        if not 0 <= row < len(texts):
            raise FormatError(f"{file}: refers to text {row} of {len(texts)}")
        return texts[row]

    block = Block()

    def degrees(values: NDArray[np.int64], offset: int) -> list[float]:
        return (1e-9 * (offset + granularity * values.astype(np.float64))).tolist()

    def tags(message: dict[int, list[Any]]) -> dict[str, str]:
        keys, values = _packed(file, message, 2), _packed(file, message, 3)
        return {text(int(k)): text(int(v)) for k, v in zip(keys, values, strict=False)}

    for group in fields.get(2, []):
        parts = _fields(file, group)
        for raw in parts.get(1, []):
            node = _fields(file, raw)
            number = _zigzag_one(int(_last(node, 1, 0)))
            block.ids.append(number)
            block.lat += degrees(np.array([_zigzag_one(int(_last(node, 8, 0)))]), lat_offset)
            block.lon += degrees(np.array([_zigzag_one(int(_last(node, 9, 0)))]), lon_offset)
            if found := tags(node):
                block.node_tags[number] = found
        for raw in parts.get(2, []):
            dense = _fields(file, raw)
            ids = np.cumsum(_zigzag(_packed(file, dense, 1)))
            lat, lon = (np.cumsum(_zigzag(_packed(file, dense, k))) for k in (8, 9))
            if not len(ids) == len(lat) == len(lon):
                raise FormatError(f"{file}: nodes with {len(ids)} numbers, {len(lat)} and {len(lon)} coordinates")
            block.ids += ids.tolist()
            block.lat += degrees(lat, lat_offset)
            block.lon += degrees(lon, lon_offset)
            _dense_tags(block, ids.tolist(), _packed(file, dense, 10).tolist(), text)
        for raw in parts.get(3, []):
            way = _fields(file, raw)
            refs = np.cumsum(_zigzag(_packed(file, way, 8))).tolist()
            block.ways[int(_last(way, 1, 0))] = (refs, tags(way))
        for raw in parts.get(4, []):
            relation = _fields(file, raw)
            roles, kinds = _packed(file, relation, 8).tolist(), _packed(file, relation, 10).tolist()
            refs = np.cumsum(_zigzag(_packed(file, relation, 9))).tolist()
            members = [
                (_MEMBER_KINDS[kind] if 0 <= kind < 3 else "", ref, text(role))
                for role, ref, kind in zip(roles, refs, kinds, strict=False)
            ]
            block.relations[int(_last(relation, 1, 0))] = (members, tags(relation))
    return block


def _dense_tags(block: Block, ids: list[int], pairs: list[int], text: Any) -> None:
    """Keys and values of all nodes in a row, each node closed by a zero."""
    node, k = 0, 0
    while k < len(pairs) and node < len(ids):
        if pairs[k] == 0:
            node, k = node + 1, k + 1
        elif k + 1 < len(pairs):
            block.node_tags.setdefault(ids[node], {})[text(pairs[k])] = text(pairs[k + 1])
            k += 2
        else:
            return


# ---- wire format -----------------------------------------------------------------------------------------------------


def _fields(file: Path, data: bytes) -> dict[int, list[Any]]:
    """Values by field number: integers, or bytes."""
    found: dict[int, list[Any]] = {}
    place, view = 0, memoryview(data)
    while place < len(view):
        key, place = _varint(file, view, place)
        number, kind = key >> 3, key & 7
        value: Any
        if kind == 0:
            value, place = _varint(file, view, place)
        elif kind == 2:
            size, place = _varint(file, view, place)
            if place + size > len(view):
                raise FormatError(f"{file}: not a whole .pbf file: a field is longer than its block")
            value, place = view[place : place + size], place + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, place = view[place : place + size], place + size
        else:
            raise FormatError(f"{file}: not a .pbf file of OpenStreetMap: a field of type {kind}")
        found.setdefault(number, []).append(value)
    return found


def _varint(file: Path, view: memoryview, place: int) -> tuple[int, int]:
    value, shift = 0, 0
    while place < len(view) and shift < 70:
        byte = view[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
    raise FormatError(f"{file}: not a whole .pbf file: a number does not end")


def _last(fields: dict[int, list[Any]], number: int, default: Any) -> Any:
    return fields[number][-1] if number in fields else default


def _packed(file: Path, fields: dict[int, list[Any]], number: int) -> NDArray[np.uint64]:
    """Integers of a packed field, decoded all at once."""
    parts = [np.frombuffer(part, np.uint8) for part in fields.get(number, []) if isinstance(part, memoryview)]
    data = np.concatenate(parts) if parts else np.zeros(0, np.uint8)
    if len(data) == 0:
        return np.zeros(0, np.uint64)
    last = np.flatnonzero(data < 0x80)
    if len(last) == 0 or last[-1] != len(data) - 1:
        raise FormatError(f"{file}: not a whole .pbf file: a number does not end")
    first = np.concatenate([[0], last[:-1] + 1])
    position = np.arange(len(data)) - np.repeat(first, last - first + 1)
    if position.max() > 9:
        raise FormatError(f"{file}: not a .pbf file of OpenStreetMap: a number of more than ten bytes")
    shifted = (data & 0x7F).astype(np.uint64) << (7 * position).astype(np.uint64)
    return np.bitwise_or.reduceat(shifted, first)


def _zigzag(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    return (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64)


def _zigzag_one(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
