"""Damage to the structure of files: keys, types, order and shapes in YAML, JSON, XML and NumPy archives.

The results can be parsed; values are missing, doubled, misplaced, or of other types and sizes.
"""

from __future__ import annotations

import copy
import io
import json
import math
import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
LONG = "b" * 300
"""Longer than a file name may be."""
DEEP = "[" * 3000 + "]" * 3000
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 10**6, 2**31, 2**63, 10**30, 0.5, -0.0, 1e-300, 1e9, 1e308, -1e308, math.nan,
    math.inf, -math.inf, "", "x", "0", "1e3", "nan", " ", "é", "\x00", "../x", "x" * 3000, "2024-01-01", [], {}, [[]],
    [0], [1, 2, 3], [math.nan] * 3, ["a", "b"], [[0, 0, 0]], [{}], {"x": 1}, {"": None}, {"kind": "box"},
    list(range(2000)),
)  # fmt: skip


@lru_cache(maxsize=256)
def parsed(data: bytes) -> tuple[str, Any] | None:
    """Kind ('json', 'yaml', 'xml', 'npz', 'npy') and content of a file; None if it has no structure that is known."""
    if data[:2] == b"PK" or data[:6] == b"\x93NUMPY":
        try:
            found = np.load(io.BytesIO(data), allow_pickle=False)
            return ("npy", found) if isinstance(found, np.ndarray) else ("npz", dict(found))
        except (ValueError, OSError, KeyError):
            return None
    if b"\0" in data[:4096] or len(data) > 200_000:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if text.lstrip().startswith("<"):
        return _or_none("xml", ElementTree.fromstring, text)
    lines = text.splitlines()
    if len(lines) > 1 and all(line.startswith("{") for line in lines):
        return _or_none("lines", lambda _: [json.loads(line) for line in lines], text)
    found = _or_none("json", json.loads, text) or _or_none("yaml", lambda t: yaml.load(t, Loader=_Loader), text)
    return found if found is not None and isinstance(found[1], dict | list) else None


def _or_none(kind: str, read: Callable[[str], Any], text: str) -> tuple[str, Any] | None:
    try:
        return kind, read(text)
    except (ValueError, yaml.YAMLError, ElementTree.ParseError):
        return None


def restructured(data: bytes, rng: random.Random) -> bytes | None:
    """File with one to a few damages of its structure; None if its structure is not known."""
    known = parsed(data)
    if known is None:
        return None
    kind, content = known
    content = copy.deepcopy(content)
    if kind == "npy":
        return _stored(np.save, _array(content, rng))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = {"xml": _element, "npz": _members}.get(kind, _tree)(content, rng)
    if kind == "npz":
        return _stored(lambda file, arrays: np.savez(file, **arrays), content)
    if kind == "xml":
        return ElementTree.tostring(content)
    if kind == "lines":
        return "".join(json.dumps(line) + "\n" for line in content if isinstance(content, list)).encode()
    if kind == "json":
        text = json.dumps(content)
        return (text.replace('"deep"', DEEP, 1) if rng.random() < 0.5 else text).encode()
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False).encode("utf-8", "surrogatepass")


def _stored(write: Callable[[Any, Any], None], content: Any) -> bytes:
    file = io.BytesIO()
    write(file, content)
    return file.getvalue()


# ---- trees of mappings and lists -------------------------------------------------------------------------------------


def _places(node: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Container and key of every value below a node."""
    pairs = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, value in pairs:
        found.append((node, key))
        _places(value, found)
    return found


def _tree(content: Any, rng: random.Random) -> Any:
    places = _places(content, [])
    if not places:
        return copy.deepcopy(rng.choice(VALUES))  # further damages change it in place
    where, key = rng.choice(places)
    other, other_key = rng.choice(places)
    value, action = where[key], rng.randrange(12)
    if action == 0:
        del where[key]
    elif action in (1, 2, 3):
        where[key] = copy.deepcopy(rng.choice(VALUES))
    elif action == 4:
        where[key] = copy.deepcopy(other[other_key])
    elif action == 5 and isinstance(where, dict):
        new = rng.choice([one for _, one in places if isinstance(one, str)] + ["", "x", "name", "kind", "deep", LONG])
        where[new] = where.pop(key)
    elif action == 6:
        where[key] = rng.choice(([value], {"x": value}, [value, value], str(value), [[value]]))
    elif action == 7 and isinstance(where, list):
        where[:] = where * rng.choice((2, 3, 50)) if rng.random() < 0.5 else where[::-1]
    elif action == 8 and isinstance(where, list):
        where[key:key] = [copy.deepcopy(other[other_key])]
    elif action == 9 and isinstance(value, int | float) and not isinstance(value, bool):
        change = rng.choice((-1, 0, 1000, 1e-3, 1e12, 0.5, 7))
        where[key] = rng.choice((value * change, str(value), [value], bool(value), -value))
    elif action == 10 and isinstance(value, dict | list):
        value.clear()
    elif action == 11 and isinstance(where, dict):
        where[rng.choice(("deep", "x", "extra", 0, "1"))] = rng.choice(("deep", *VALUES))
    else:
        where[key], other[other_key] = other[other_key], where[key]
        if _loops(content):
            where[key], other[other_key] = other[other_key], where[key]
    return content


def _loops(content: Any, above: tuple[int, ...] = ()) -> bool:
    """True if a container contains itself."""
    if id(content) in above:
        return True
    inner = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return any(_loops(one, (*above, id(content))) for one in inner if isinstance(one, dict | list))


# ---- XML -------------------------------------------------------------------------------------------------------------

_TEXTS = (
    "", "0", "-1", "1e308", "nan", "inf", "1 2", "0 0 0", "0 0 1e19", "1 2 3 4", "x", "é", "/", "../x.obj", "9" * 400,
    "base", LONG,
)  # fmt: skip


def _element(root: Any, rng: random.Random) -> Any:
    every = list(root.iter())
    one, other = rng.choice(every), rng.choice(every)
    action = rng.randrange(8)
    if action == 0 and len(one):
        one.remove(rng.choice(list(one)))
    elif action == 1:
        other.append(copy.deepcopy(one))
    elif action == 2:
        one.tag = other.tag
    elif action in (3, 4, 5) and one.attrib:
        name = rng.choice(list(one.attrib))
        values = [value for each in every for value in each.attrib.values()]
        one.attrib[name] = rng.choice((rng.choice(_TEXTS), rng.choice(values)))
        if action == 5:
            del one.attrib[name]
    elif action == 6 and other.attrib:
        name = rng.choice(list(other.attrib))
        one.attrib[name] = other.attrib[name]
    elif action == 7 and len(one):
        children = list(one)
        one[:] = children[::-1] if rng.random() < 0.5 else children * 3
    else:
        one.text = rng.choice(_TEXTS)
    return root


# ---- NumPy -----------------------------------------------------------------------------------------------------------

_TYPES = ("f4", "f8", "i1", "u1", "i4", "u4", "i8", "u8", "?", "c8", "f2", ">f4", ">i8", "U5", "S5", "M8[s]")


def _array(values: Any, rng: random.Random) -> Any:
    action = rng.randrange(8)
    if action == 0:
        return values[:0] if values.ndim else values.reshape(0, 1)[:0] if values.size == 0 else np.zeros((0,))
    if action == 1:
        return values[..., None]
    if action == 2:
        return values.reshape(-1)
    if action == 3:
        return np.swapaxes(values, 0, -1) if values.ndim > 1 else values[None] if values.ndim else values
    if action == 4:
        return np.concatenate([values, values]) if values.ndim else np.full(3, values)
    if action == 5 and values.dtype.kind == "f" and values.size:
        changed = values.copy()
        changed.flat[rng.randrange(values.size)] = rng.choice((math.nan, math.inf, -math.inf, 1e30, -1.0, 0.0))
        return changed
    if action == 6 and values.dtype.kind in "iu" and values.size:
        limits = np.iinfo(values.dtype)
        changed = values.copy()
        changed.flat[rng.randrange(values.size)] = rng.choice((limits.min, limits.max, 0))
        return changed
    with np.errstate(all="ignore"):
        try:
            return values.astype(rng.choice(_TYPES))
        except (ValueError, TypeError):
            return np.zeros(values.shape, rng.choice(_TYPES))


def _members(arrays: Any, rng: random.Random) -> Any:
    if not arrays:
        return arrays
    name, other = rng.choice(list(arrays)), rng.choice(list(arrays))
    action = rng.randrange(5)
    if action == 0:
        del arrays[name]
    elif action == 1:
        arrays[name], arrays[other] = arrays[other], arrays[name]
    elif action == 2:
        arrays[rng.choice(("x", "time", "extra", other))] = arrays[name]
    elif arrays[name].dtype.kind == "U" and arrays[name].ndim == 0:
        text = restructured(str(arrays[name]).encode(), rng) or b"{}"
        arrays[name] = np.array(text.decode("utf-8", "replace"))
    else:
        arrays[name] = _array(arrays[name], rng)
    return arrays
