"""Lossless JSON encoding of values of records: numbers, strings, None, tuples, mappings, poses, lenses, nested records.

Arrays are stored elsewhere: a function stores each one and returns the JSON value that refers to it. A type that JSON
lacks is an object with one key: {"tuple": [...]}, {"map": [[key, value], ...]}, {"array": name}; a dataclass is
{"type": name, "values": {...}}. Decoding only ever constructs records and the classes in `PARTS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.frames import EchoScan, RadarScan
from parhelion.core.image import Intrinsics, SeenObject
from parhelion.core.pose import Pose
from parhelion.core.records import Record
from parhelion.core.streams import GnssData, UwbData
from parhelion.io.columns import plain_value

KNOWN_RECORDS = (EchoScan, GnssData, RadarScan, UwbData)
"""Importing these defines all records of the package, so that `record_type` finds them."""
PARTS = {one.__name__: one for one in (Pose, Intrinsics, SeenObject)}
"""Classes of values within records."""

Store = Callable[[str, NDArray[Any]], Any]


def record_type(name: str, first: type[Record] = Record) -> type[Record] | None:
    """Return the type of record called `name`, searching the subclasses of `first` first; None if unknown."""
    for base in (first, Record):
        waiting: list[type[Record]] = [base]
        while waiting:
            one = waiting.pop()
            if one.__name__ == name:
                return one
            waiting += one.__subclasses__()
    return None


def safe_key(key: str, taken: Collection[str]) -> str:
    """Name for an array in an archive: ASCII letters, digits, underscores and dots, not in `taken`."""
    plain = key if key.isascii() and all(part.isidentifier() or part.isdigit() for part in key.split(".")) else "array"
    name, count = plain, 0
    while name in taken:
        count += 1
        name = f"{plain}.{count}"
    return name


def encoded(value: Any, store: Store, key: str = "") -> Any:
    """Encode a value for JSON; `key` names it for `store`. Raise TypeError for objects that are not plain data."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError(f"{key} contains Python objects")
        return store(key, value)
    if isinstance(value, Record) or type(value).__name__ in PARTS:
        inside = {one.name: getattr(value, one.name) for one in fields(value)}
        prefix = f"{key}." if key else ""
        return {
            "type": type(value).__name__,
            "values": {name: encoded(part, store, prefix + name) for name, part in inside.items()},
        }
    if isinstance(value, Mapping):
        if not all(isinstance(name, (str, int, np.integer)) for name in value):
            raise TypeError(f"{key} has keys that are neither strings nor integers")
        pairs = ((name if isinstance(name, str) else int(name), part) for name, part in value.items())
        return {"map": [[name, encoded(part, store, f"{key}.{name}")] for name, part in pairs]}
    if isinstance(value, (tuple, list)):
        items = [encoded(part, store, f"{key}.{k}") for k, part in enumerate(value)]
        return items if isinstance(value, list) else {"tuple": items}
    if is_dataclass(value):
        raise TypeError(f"{key} is a {type(value).__name__}, which is not a record")
    return plain_value(value)


def decoded(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Inverse of `encoded`. Raise ValueError, TypeError or KeyError if the data is damaged."""
    if isinstance(value, list):
        return [decoded(part, arrays) for part in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"type", "values"}:
        inside = {name: decoded(part, arrays) for name, part in value["values"].items()}
        kind = PARTS.get(value["type"]) or record_type(value["type"])
        if kind is None:
            raise ValueError(f"contains the unknown type {str(value['type'])[:60]!r}")
        return made(kind, inside)
    if set(value) == {"array"}:
        return arrays[value["array"]]
    if set(value) == {"tuple"}:
        return tuple(decoded(part, arrays) for part in value["tuple"])
    if set(value) == {"map"}:
        return {name: decoded(part, arrays) for name, part in value["map"]}
    raise ValueError("the description of the record in it is damaged")


def made(kind: Any, values: dict[str, Any]) -> Any:
    """Construct a record, pose, lens or object from these values after checking their types."""
    for one in fields(kind):
        if one.name in values and not _fits(values[one.name], one.metadata, str(one.type)):
            raise ValueError(f"{kind.__name__}: {one.name} must be {one.type}, got {type(values[one.name]).__name__}")
    return kind(**values)


_PLAIN: dict[str, Any] = {"float": (float, int), "int": int, "str": str, "bool": bool}


def _fits(value: Any, metadata: Mapping[str, Any], annotation: str) -> bool:
    if value is None:
        return "None" in annotation or annotation == "Any"
    if "shape" in metadata:
        return isinstance(value, np.ndarray) and value.dtype == np.dtype(metadata["dtype"])
    if annotation in _PLAIN:
        return isinstance(value, _PLAIN[annotation])
    if annotation.startswith("tuple["):
        item = annotation[6:].split(",")[0].strip("] ")
        return isinstance(value, tuple) and all(isinstance(part, _PLAIN.get(item, object)) for part in value)
    if annotation.startswith(("Mapping[", "dict[")):
        return isinstance(value, Mapping)
    if annotation.startswith(("NDArray", "Floats")):
        return isinstance(value, np.ndarray)
    kinds = [kind for word in re.findall(r"\w+", annotation) if (kind := PARTS.get(word) or record_type(word))]
    return isinstance(value, tuple(kinds)) if kinds else not is_dataclass(value)
