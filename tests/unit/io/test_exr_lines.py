"""EXR files of ours against other readers and writers, and other compressions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parhelion.core.errors import FormatError
from parhelion.core.image import Image
from parhelion.io.images.exr import packed, unpacked

SHAPE = (37, 23)
ZIPPED = b"compression\0compression\0\x01\0\0\0\x03"
CORNER = np.array([22, 36], "<i4").tobytes()
"""Last column and line in the header."""


def channels(seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    smooth = np.linspace(0.0, 5.0, SHAPE[0] * SHAPE[1]).reshape(SHAPE)
    return {
        "R": rng.normal(size=SHAPE).astype(np.float32),
        "G": smooth.astype(np.float32),
        "depth.Z": np.where(smooth > 4.0, np.inf, smooth).astype(np.float32),
    }


def test_what_is_written_is_read() -> None:
    wanted = channels()
    found = unpacked(packed(wanted, {"about": "grüße"}), Path("a.exr"))
    assert found.texts["about"] == "grüße"
    for name, values in wanted.items():
        assert np.array_equal(found.channels[name], values)


def test_mitsuba_reads_what_we_write(tmp_path: Path) -> None:
    mi = pytest.importorskip("mitsuba")
    wanted = channels()
    (tmp_path / "a.exr").write_bytes(packed(wanted, {}))
    bitmap = mi.Bitmap(str(tmp_path / "a.exr"))
    names = [field.name for field in bitmap.struct_()]
    values = np.array(bitmap, dtype=np.float32)
    for name, expected in wanted.items():
        assert np.array_equal(values[:, :, names.index(name)], expected)


def test_other_packings_are_reported(tmp_path: Path) -> None:
    """Mitsuba packs by wavelets (PIZ), which we do not read."""
    mi = pytest.importorskip("mitsuba")
    mi.Bitmap(np.random.default_rng(2).random((19, 31, 3)).astype(np.float32)).write(str(tmp_path / "a.exr"))
    with pytest.raises(FormatError, match="PIZ compression is not supported; save it with ZIP"):
        Image.load(tmp_path / "a.exr")


def test_runs_and_halves_are_read() -> None:
    """A file as others write it: half-precision numbers, packed by run lengths, one line a chunk."""
    row = np.array([1.0, 1.0, 1.0, 1.0, 2.0, 2.5], "<f2")
    raw = np.frombuffer(row.tobytes(), np.uint8)
    parted = np.concatenate([raw[0::2], raw[1::2]])
    changed = parted.copy()
    changed[1:] = parted[1:] - parted[:-1] + np.uint8(128)
    runs = bytes([256 - len(changed)]) + changed.tobytes()
    repeats = bytes([len(changed) - 1, 0])
    window = np.array([0, 3, 5, 3], "<i4").tobytes()
    head = b"\x76\x2f\x31\x01" + b"\x02\0\0\0"
    listed = b"Y\0" + np.array([1, 0, 1, 1], "<u4").tobytes() + b"\0"
    for name, kind, value in (
        (b"channels", b"chlist", listed), (b"compression", b"compression", b"\x01"), (b"dataWindow", b"box2i", window),
    ):  # fmt: skip
        head += name + b"\0" + kind + b"\0" + np.array(len(value), "<u4").tobytes() + value
    head += b"\0"
    start = np.array([len(head) + 8], "<u8").tobytes()
    # Packed lines must be shorter than the line itself to count as packed: here they are all zero.
    data = head + start + np.array([3, len(repeats)], "<u4").tobytes() + repeats
    zero = unpacked(data, Path("a.exr")).channels["Y"]
    expected = np.cumsum(np.concatenate([[0], np.full(11, 128)]), dtype=np.uint8)
    halves = np.empty(12, np.uint8)
    halves[0::2], halves[1::2] = expected[:6], expected[6:]
    assert np.array_equal(zero[0], np.frombuffer(halves.tobytes(), "<f2").astype(np.float32), equal_nan=True)
    plain = head + start + np.array([3, 12], "<u4").tobytes() + row.tobytes()
    assert np.array_equal(unpacked(plain, Path("a.exr")).channels["Y"][0], row.astype(np.float32))
    assert len(runs) == 13


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"no" + data[2:], "is not an EXR file"),
        (lambda data: data[:5] + b"\x02" + data[6:], "tiled"),
        (lambda data: data[:200], "truncated"),
        (lambda data: data[:-40], "truncated|damaged"),
        (lambda data: data.replace(ZIPPED, ZIPPED[:-1] + b"\x04"), "PIZ"),
        (lambda data: data.replace(CORNER, np.array([60000, 60000], "<i4").tobytes()), "decompress"),
    ],
)  # fmt: skip
def test_damage_is_one_sentence(change, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        unpacked(change(packed(channels(), {})), Path("a.exr"))
