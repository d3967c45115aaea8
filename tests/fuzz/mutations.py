"""Damage to files as caused by bad disks, other programs and attackers, generated from one seed."""

from __future__ import annotations

import io
import random
import re
import struct
import zipfile
from collections.abc import Callable

from fuzz.structures import restructured

NUMBERS = (
    "0", "-1", "1", "2", "255", "256", "65535", "65536", "2147483647", "2147483648", "4294967295", "9" * 19, "9" * 380,
    "1e308", "-1e308", "1e-320", "1e19", "1e6", "1000000", "0.0000001", "nan", "inf", "-inf", "0x7f", "1:00:00",
)  # fmt: skip
WORDS = (
    "", "null", "true", "[]", "{}", "[[]]", "-", ":", "*a", "&a", "<<", "~", "!!python/object:os.system", "\\u0000",
    "x", "é", "\x00", "../../etc/passwd", "[" * 60, "{" * 60, "<a>", "&amp;", "NaN", '"', "'", "#", "%", "\n", "\t",
    "b" * 300,
)  # fmt: skip
WHOLE = (0, 1, -1, 2, 3, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 10**9, 10**6)
_FORMATS = ("<b", "<h", "<i", "<q", ">h", ">i", ">q", "<f", "<d", ">d")


def _flip(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _byte(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 10, 32, rng.randrange(256)))


def _number(data: bytearray, rng: random.Random) -> None:
    """Overwrite bytes with a number at the limit of some type."""
    code = rng.choice(_FORMATS)
    if code[1] in "fd":
        content = struct.pack(code, rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e38, -1e-40)))
    else:
        size = struct.calcsize(code)
        content = (rng.choice(WHOLE) & ((1 << (8 * size)) - 1)).to_bytes(size, "little" if code[0] == "<" else "big")
    place = rng.randrange(len(data))
    data[place : place + len(content)] = content


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _drop(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    del data[place : place + rng.choice((1, 2, 4, 8, 16, 100, 1000))]


def _repeat(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    piece = data[place : place + rng.choice((1, 4, 16, 64, 256))]
    data[place:place] = piece * rng.choice((1, 2, 5, 50))


def _insert(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    data[place:place] = rng.randbytes(rng.choice((1, 2, 4, 8, 50)))


def _move(data: bytearray, rng: random.Random) -> None:
    size = rng.choice((1, 4, 8, 16, 64, 256))
    source, target = rng.randrange(len(data)), rng.randrange(len(data))
    piece = data[source : source + size]
    data[target : target + len(piece)] = piece


def _figure(data: bytearray, rng: random.Random) -> None:
    """Replace a number in a text by another one."""
    found = list(re.finditer(rb"[-+]?[0-9][0-9.eE+]*", data[:200_000]))
    if found:
        one = rng.choice(found)
        data[one.start() : one.end()] = rng.choice(NUMBERS).encode()


def _word(data: bytearray, rng: random.Random) -> None:
    """Replace a word in a text by another one."""
    found = list(re.finditer(rb"[A-Za-z_]{1,40}|[\[\]{}:,<>\"]", data[:200_000]))
    if found:
        one, other = rng.choice(found), rng.choice(found)
        new = rng.choice(WORDS).encode() if rng.random() < 0.6 else other[0]
        data[one.start() : one.end()] = new


def _line(data: bytearray, rng: random.Random) -> None:
    """Duplicate, delete or move a line."""
    lines = bytes(data).split(b"\n")
    row, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[row : row + 1] = rng.choice(([], [lines[row]] * 2, [lines[other]], [lines[row]] * 30))
    data[:] = b"\n".join(lines)


_ANY: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip, _flip, _byte, _byte, _number, _number, _number, _cut, _drop, _repeat, _insert, _move, _figure, _word, _line,
)  # fmt: skip
_TEXT = (_figure, _figure, _figure, _word, _word, _line, _byte, _cut, _drop, _repeat)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The same bytes with one to a few damages, half of them to the structure where that is known."""
    if rng.random() < 0.5 and (changed := restructured(data, rng)) is not None:
        return changed
    if data[:2] == b"PK" and rng.random() < 0.7:
        return _in_archive(data, rng)
    kinds = _TEXT if b"\0" not in data[:4096] else _ANY
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if result:
            rng.choice(kinds)(result, rng)
    return bytes(result)


def _in_archive(data: bytes, rng: random.Random) -> bytes:
    """Damage inside one archive member, with its checksum corrected."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    chosen = rng.choice(list(members))
    members[chosen] = mutated(members[chosen], rng)
    if rng.random() < 0.1:
        del members[rng.choice(list(members))]
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return result.getvalue()
