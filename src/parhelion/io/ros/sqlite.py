"""Bags as SQLite files in the layout of rosbag2. A killed program loses the messages after the last commit."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from urllib.parse import quote

from parhelion.core.errors import FormatError
from parhelion.core.reading import UnpackingBudget, open_file
from parhelion.io.ros.storage import LARGEST_CHUNK, BagWarning, Topic, unpacked
from parhelion.io.ros.types import Message

COMMIT_BYTES = 1 << 20
_STEPS_AT_ONCE = 100_000
_FREE_STEPS = 2_000_000
_STEPS_PER_BYTE = 4
"""SQLite needs about a dozen virtual-machine steps to read a row of a few bytes, and some more to sort it."""
_HEAD = b"SQLite format 3\x00"
_TABLES = """
CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL);
CREATE TABLE metadata(id INTEGER PRIMARY KEY, metadata_version INTEGER NOT NULL, metadata TEXT NOT NULL);
CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
  serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL, type_description_hash TEXT NOT NULL);
CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL, encoding TEXT NOT NULL,
  encoded_message_definition TEXT NOT NULL, type_description_hash TEXT NOT NULL);
CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL,
  data BLOB NOT NULL);
CREATE INDEX timestamp_idx ON messages (timestamp ASC);
INSERT INTO schema VALUES (4, 'iron');
"""


class SqliteOut:
    """Writer of one SQLite file."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        # One thread may open and close the file and another write to it, but never at the same time.
        self._base = sqlite3.connect(path, check_same_thread=False)
        self._base.executescript(_TABLES)
        self._base.commit()
        self._types: set[str] = set()
        self._topics = 0
        self._pending = 0

    def add(self, topic: Topic) -> int:
        """Add a topic and return its number."""
        if topic.type not in self._types and topic.definition:
            self._types.add(topic.type)
            row = (topic.type, topic.encoding, topic.definition, topic.hash)
            self._base.execute("INSERT INTO message_definitions VALUES (NULL, ?, ?, ?, ?)", row)
        self._topics += 1
        about = (self._topics, topic.name, topic.type, topic.serialization, topic.qos, topic.hash)
        self._base.execute("INSERT INTO topics VALUES (?, ?, ?, ?, ?, ?)", about)
        return self._topics

    def write(self, number: int, time_ns: int, data: bytes) -> bool:
        """Write a message. Return whether all messages so far are on disk."""
        self._base.execute("INSERT INTO messages VALUES (NULL, ?, ?, ?)", (number, time_ns, data))
        self._pending += len(data) + 64
        if self._pending < COMMIT_BYTES:
            return False
        self._base.commit()
        self._pending = 0
        return True

    def close(self) -> None:
        """Commit the remaining messages and close the file."""
        self._base.commit()
        self._base.close()

    def drop(self) -> None:
        """Close the file without committing the last messages."""
        self._base.close()


class SqliteIn:
    """Reader of one SQLite file."""

    def __init__(self, path: Path, compression: str = "") -> None:
        self.path, self._packed = path, compression == "message"
        with open_file(path) as file:
            head = file.read(100)
            self._size = os.fstat(file.fileno()).st_size
        if head[:16] != _HEAD:
            raise FormatError(f"{path}: this is not an SQLite file")
        self._filled: tempfile.TemporaryDirectory[str] | None = None
        self._fill(head)
        if any(path.with_name(path.name + ending).exists() for ending in ("-journal", "-wal")):
            warnings.warn(
                f"{path}: the file was not closed; it is read up to its last commit", BagWarning, stacklevel=4
            )
        self.topics: dict[str, Topic] = {}
        try:
            base = self._open()
            try:
                self._read_topics(base)
            finally:
                base.close()
        except sqlite3.Error as error:
            raise FormatError(f"{path}: cannot be read as a bag ({error})") from None

    def _fill(self, head: bytes) -> None:
        """Extend a copy of a truncated file to the declared size, because SQLite does not open it otherwise."""
        if len(head) < 100:
            raise FormatError(f"{self.path}: truncated within its header")
        page, pages = struct.unpack(">H", head[16:18])[0], struct.unpack(">I", head[28:32])[0]
        size = (65536 if page == 1 else page) * pages
        if self.path.stat().st_size >= size:
            return
        warnings.warn(f"{self.path}: the file is truncated; the part before is read", BagWarning, stacklevel=5)
        self._filled = tempfile.TemporaryDirectory(prefix="parhelion-bag-")
        copy = Path(self._filled.name) / "bag.db3"
        shutil.copyfile(self.path, copy)
        os.truncate(copy, size)

    def _open(self) -> sqlite3.Connection:
        base = self._connected()
        # The number of steps is limited by the size of the file: a malicious file can refer to the same pages over and
        # over, so that reading never ends.
        left = (_FREE_STEPS + _STEPS_PER_BYTE * self._size) // _STEPS_AT_ONCE

        def count() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        base.set_progress_handler(count, _STEPS_AT_ONCE)
        base.text_factory = lambda text: text.decode("utf-8", "replace")
        return base

    def _connected(self) -> sqlite3.Connection:
        if self._filled is not None:
            return sqlite3.connect(Path(self._filled.name) / "bag.db3")
        # Opened for writing if SQLite has to roll back an unfinished commit.
        left = any(self.path.with_name(self.path.name + ending).exists() for ending in ("-journal", "-wal"))
        mode = "rw" if left else "ro"
        return sqlite3.connect(f"file:{quote(str(self.path.absolute()))}?mode={mode}", uri=True)

    def _columns(self, base: sqlite3.Connection, table: str) -> set[str]:
        """Names of the columns of a table; empty if there is no such table.

        Views, virtual tables and computed columns are ignored, because they can expand to more data than the file has.
        """
        found = base.execute(
            "SELECT count(*) FROM sqlite_master WHERE name = ? AND type = 'table' AND rootpage > 0", (table,)
        ).fetchone()
        return {row[1] for row in base.execute(f"PRAGMA table_info({table})")} if found[0] else set()

    def _read_topics(self, base: sqlite3.Connection) -> None:
        columns = self._columns(base, "topics")
        if not {"id", "name", "type", "serialization_format"} <= columns:
            raise FormatError(f"{self.path}: has no table of topics, so it is not a ROS 2 bag")
        if not {"id", "topic_id", "timestamp", "data"} <= self._columns(base, "messages"):
            raise FormatError(f"{self.path}: has no table of messages, so it is not a ROS 2 bag")
        definitions = {}
        if {"topic_type", "encoding", "encoded_message_definition"} <= self._columns(base, "message_definitions"):
            for kind, encoding, text in base.execute(
                "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
            ):
                definitions[kind] = (_text(text), _text(encoding))
        qos = "offered_qos_profiles" if "offered_qos_profiles" in columns else "''"
        code = "type_description_hash" if "type_description_hash" in columns else "''"
        counts = self._counts(base)
        for number, name, kind, serialization, offered, hash_ in base.execute(
            f"SELECT id, name, type, serialization_format, {qos}, {code} FROM topics ORDER BY id"
        ):
            if not isinstance(number, int) or not isinstance(name, str) or not isinstance(kind, str):
                raise FormatError(
                    f"{self.path}: the topic {str(name)[:40]!r} must have an integer number, and text as name and type"
                )
            text, encoding = definitions.get(kind, ("", "ros2msg"))
            self.topics[name] = Topic(
                name, kind, counts.get(number, 0), text, encoding, _text(offered), _text(hash_), _text(serialization)
            )

    def _counts(self, base: sqlite3.Connection) -> dict[int, int]:
        self._broken = False
        try:
            return dict(base.execute("SELECT topic_id, count(*) FROM messages GROUP BY topic_id").fetchall())
        except sqlite3.DatabaseError:
            self._broken = True
        counts: dict[int, int] = {}
        try:
            # Count row by row up to the damage, because `count(*)` fails completely.
            for (number,) in base.execute("SELECT topic_id FROM messages NOT INDEXED"):
                counts[number] = counts.get(number, 0) + 1
        except sqlite3.DatabaseError as error:
            if self._filled is None:
                text = f"{self.path}: the file is damaged ({error}); the part before is read"
                warnings.warn(text, BagWarning, stacklevel=6)
        return counts

    def messages(self, names: Collection[str] | None) -> Iterator[Message]:
        """Iterate over messages in chronological order, or in order of writing if the file is damaged."""
        base = self._open()
        try:
            chosen = {
                number: (name, kind)
                for number, name, kind in base.execute("SELECT id, name, type FROM topics")
                if names is None or name in names
            }
            marks = ",".join("?" * len(chosen))
            order = "NOT INDEXED" if self._broken else ""
            last = "" if self._broken else "ORDER BY timestamp, id"
            query = f"SELECT topic_id, timestamp, data FROM messages {order} WHERE topic_id IN ({marks}) {last}"
            unpack = self._unpacker()
            for number, time_ns, data in base.execute(query, list(chosen)):
                if not isinstance(time_ns, int) or not isinstance(data, bytes):
                    raise FormatError(
                        f"{self.path}: a message of {chosen[number][0]} must be bytes with an integer time, got "
                        f"{type(data).__name__} and {type(time_ns).__name__}"
                    )
                yield Message(*chosen[number], time_ns, unpack(data))
        except sqlite3.DatabaseError as error:
            if not self._broken:
                raise FormatError(f"{self.path}: the file is damaged ({error})") from None
        finally:
            base.close()

    def _unpacker(self) -> Callable[[bytes], bytes]:
        if not self._packed:
            return bytes
        budget = UnpackingBudget(self.path, self._size, once=LARGEST_CHUNK)
        return lambda data: unpacked("zstd", data, None, budget)


def _text(value: object) -> str:
    """Return the value if it is text, otherwise an empty text."""
    return value if isinstance(value, str) else ""
