"""Bags that are small, and would take all memory or never end."""

from __future__ import annotations

import sqlite3
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hostile_rigs import fence
from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError
from parhelion.io.ros import BagReader, BagWriter, Message, cloud_of, read_bag
from parhelion.io.ros.clouds import POINT_CLOUD, point_cloud2
from parhelion.io.ros.mcap import MAGIC

CLOUD = PointCloud(np.ones((5, 3), np.float32), {"intensity": np.ones(5, np.float32)})
GIB = 1 << 30


def zstd_of_zeros(size: int, *, declare_size: bool) -> bytes:
    """zstd stream that decompresses to `size` zeros, a multiple of 16 MiB; `declare_size` stores the size in it."""
    import zstandard

    piece = bytes(1 << 24)
    packer = zstandard.ZstdCompressor(write_content_size=declare_size).compressobj(size=size if declare_size else -1)
    return b"".join(packer.compress(piece) for _ in range(size >> 24)) + packer.flush()


def lz4_of_zeros(size: int) -> bytes:
    import lz4.frame

    packer = lz4.frame.LZ4FrameCompressor()
    piece = bytes(1 << 24)
    return packer.begin() + b"".join(packer.compress(piece) for _ in range(size >> 24)) + packer.flush()


def mcap(*chunks: tuple[str, int, bytes]) -> bytes:
    """An MCAP file without an end, of chunks given by compression, claimed size and data."""

    def record(kind: int, content: bytes) -> bytes:
        return struct.pack("<BQ", kind, len(content)) + content

    def chunk(name: str, size: int, data: bytes) -> bytes:
        head = struct.pack("<QQQII", 0, 0, size, 0, len(name)) + name.encode()
        return record(6, head + struct.pack("<Q", len(data)) + data)

    return MAGIC + record(1, struct.pack("<II", 0, 0)) + b"".join(chunk(*one) for one in chunks)


@pytest.mark.parametrize("kind", ["zstd, declared", "zstd, not declared", "lz4"])
def test_one_chunk_of_gigabytes_is_not_unpacked(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "trap.mcap"
    data = lz4_of_zeros(6 * GIB) if kind == "lz4" else zstd_of_zeros(6 * GIB, declare_size=kind == "zstd, told")
    file.write_bytes(mcap((kind[:4].strip(","), 6 * GIB, data)))
    with fence(), pytest.raises(FormatError, match=r"trap\.mcap: a compressed chunk claims to hold 6442450944 bytes"):
        BagReader(file)


def test_a_chunk_that_is_more_than_it_claims_is_cut_there(tmp_path: Path) -> None:
    file = tmp_path / "trap.mcap"
    for name, data in (("lz4", lz4_of_zeros(2 * GIB)), ("zstd", zstd_of_zeros(2 * GIB, declare_size=False))):
        file.write_bytes(mcap((name, 1 << 20, data)))
        with fence(), pytest.warns(UserWarning, match="is truncated"):
            assert BagReader(file).count == 0


def test_many_chunks_share_one_budget(tmp_path: Path) -> None:
    file = tmp_path / "trap.mcap"
    size = 128 << 20
    # Records of an unknown kind are skipped, so all of these would be decompressed.
    piece = struct.pack("<BQ", 200, size - 9) + bytes(size - 9)
    import zstandard

    chunk = ("zstd", size, zstandard.ZstdCompressor().compress(piece))
    file.write_bytes(mcap(*[chunk] * 40))
    with fence(), pytest.raises(FormatError, match="claim to decompress to more than 100 times as much"):
        BagReader(file)


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    file = tmp_path / "trap.db3"
    with BagWriter(file) as out:
        out.write(Message("/points", POINT_CLOUD, 7, point_cloud2(CLOUD, "lidar", 7)))
    return file


def changed(file: Path, *commands: str) -> Path:
    base = sqlite3.connect(file)
    for command in commands:
        base.execute(command)
    base.commit()
    base.close()
    return file


ENDLESS = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id, 1 AS topic_id, x AS timestamp"
)


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        (["UPDATE messages SET data = 6000000000"], "must be bytes with an integer time, got int and int"),
        (["UPDATE messages SET data = 'words'"], "must be bytes with an integer time, got str and int"),
        (["CREATE TABLE m AS SELECT * FROM messages", "DROP TABLE messages",
          "CREATE TABLE messages(id, topic_id, timestamp, data)", "INSERT INTO messages VALUES (1, 1, 1, NULL)"],
         "got NoneType and int"),
        (["UPDATE messages SET timestamp = 'now'"], "got bytes and str"),
        (["DROP TABLE messages", f"CREATE VIEW messages AS {ENDLESS}, zeroblob(9) AS data FROM n"],
         "has no table of messages"),
        (["DROP TABLE messages",
          "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id, timestamp, data AS (zeroblob(900000000)))",
          "INSERT INTO messages VALUES (1, 1, 1)"], "has no table of messages"),
        (["DROP TABLE topics", "CREATE TABLE topics(id, name, type, serialization_format)",
          "INSERT INTO topics VALUES (NULL, 5, x'00', 3)"], "the topic '5' must have an integer number"),
    ],
    ids=["number", "words", "nothing", "time", "view", "computed", "topic"],
)  # fmt: skip
def test_rows_that_are_no_messages(bag: Path, commands: list[str], message: str) -> None:
    changed(bag, *commands)
    with fence(), pytest.raises(FormatError, match=rf"trap\.db3: .*{message}"):
        list(read_bag(bag))


def branch(child: int, cells: int = 300, page: int = 4096) -> bytes:
    """A page of a table in SQLite that is a branch, all of whose twigs are the same page."""
    start = page - 5 * cells
    places = b"".join(struct.pack(">H", start + 5 * k) for k in range(cells))
    head = struct.pack(">BHHHBI", 5, 0, cells, start, 0, child) + places
    return head.ljust(start, b"\0") + struct.pack(">IB", child, 1) * cells


def test_pages_that_are_named_over_and_over_come_to_an_end(tmp_path: Path) -> None:
    file = tmp_path / "trap.db3"
    with BagWriter(file) as out:
        for k in range(20_000):
            out.write(Message("/points", POINT_CLOUD, k, b"1234"))
    base = sqlite3.connect(file)
    root = base.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()[0]
    base.close()
    data = bytearray(file.read_bytes())
    leaves = [number + 1 for number in range(1, len(data) // 4096) if data[4096 * number] == 13][-6:]
    for place, child in zip([root, *leaves], leaves, strict=False):
        data[4096 * (place - 1) : 4096 * place] = branch(child)
    file.write_bytes(data)
    with fence(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            assert sum(1 for _ in read_bag(file)) < 5_000_000
        except FormatError as error:
            assert "trap.db3: " in str(error)  # noqa: PT017


def packed_bag(folder: Path, data: bytes) -> Path:
    import yaml

    folder.mkdir()
    with BagWriter(folder / "x_0.db3") as out:
        out.write(Message("/points", POINT_CLOUD, 7, data))
    about = {"relative_file_paths": ["x_0.db3"], "compression_mode": "MESSAGE", "compression_format": "zstd"}
    (folder / "metadata.yaml").write_text(yaml.safe_dump({"rosbag2_bagfile_information": about}))
    return folder


@pytest.mark.parametrize("declare_size", [True, False])
def test_a_packed_message_of_gigabytes_is_not_unpacked(tmp_path: Path, declare_size: bool) -> None:
    folder = packed_bag(tmp_path / "bag", zstd_of_zeros(6 * GIB, declare_size=declare_size))
    with fence(), pytest.raises(FormatError, match=r"x_0\.db3: .*(decompress|compressed chunk)"):
        list(read_bag(folder))


def test_packed_messages_are_read(tmp_path: Path) -> None:
    import zstandard

    data = point_cloud2(CLOUD, "lidar", 7)
    for number, packer in enumerate((zstandard.ZstdCompressor(), zstandard.ZstdCompressor(write_content_size=False))):
        folder = packed_bag(tmp_path / f"bag{number}", packer.compress(data))
        assert [message.data for message in read_bag(folder)] == [data]


def with_field(change: Callable[[Any], None]) -> Message:
    from parhelion.io.ros.types import decode, encode

    decoded = decode(POINT_CLOUD, point_cloud2(CLOUD, "lidar", 7))
    change(decoded)
    return Message("/points", POINT_CLOUD, 7, encode(POINT_CLOUD, decoded))


def test_fields_of_clouds_that_do_not_fit(tmp_path: Path) -> None:
    def several(decoded: Any) -> None:
        decoded.fields[0].count = 2

    def repeated(decoded: Any) -> None:
        decoded.fields[3].count = 2**32 - 1

    with pytest.raises(FormatError, match="/points: the fields x, y and z must have one number each"):
        cloud_of(with_field(several))
    with fence(), pytest.raises(FormatError, match="does not fit into a point"):
        cloud_of(with_field(repeated))
