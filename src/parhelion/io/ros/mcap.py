"""Bags as MCAP files, profile ros2. Full chunks are flushed to disk, so a killed program loses at most the last one."""

from __future__ import annotations

import heapq
import io
import os
import struct
import warnings
from array import array
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError
from parhelion.core.reading import UnpackingBudget, open_file
from parhelion.io.ros.storage import LARGEST_CHUNK, BagWarning, Topic, unpacked
from parhelion.io.ros.types import Message

MAGIC = b"\x89MCAP0\r\n"
CHUNK_BYTES = 1 << 20
COMPRESSIONS = ("zstd", "lz4", "none")
LIBRARY = "parhelion"


def need_mcap() -> None:
    try:
        import mcap  # noqa: F401
    except ImportError:
        raise MissingDependencyError("MCAP files need the package mcap: pip install mcap") from None


class _Unbuffered:
    """File that flushes every write, because buffers are lost if the process is killed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.writes = file, 0

    def write(self, data: Any) -> int:
        self.writes += 1
        count = self._file.write(data)
        self._file.flush()
        return count

    def tell(self) -> int:  # wording: ok
        return self._file.tell()  # wording: ok

    def flush(self) -> None:
        self._file.flush()


class McapOut:
    """Writer of one MCAP file."""

    def __init__(self, path: Path, compression: str) -> None:
        need_mcap()
        from mcap.writer import CompressionType, Writer

        if compression not in COMPRESSIONS:
            raise ConfigError(f"bag: compression must be one of {', '.join(COMPRESSIONS)}, got {compression!r}")
        self._file = path.open("wb")
        self._stream = _Unbuffered(self._file)
        chosen = CompressionType[compression.upper()]
        self._writer: Any = Writer(self._stream, chunk_size=CHUNK_BYTES, compression=chosen)  # type: ignore[arg-type]
        self._writer.start(profile="ros2", library=LIBRARY)
        self._schemas: dict[tuple[str, str], int] = {}

    def add(self, topic: Topic) -> int:
        """Add a topic and return its number."""
        key = (topic.type, topic.definition)
        if key not in self._schemas:
            self._schemas[key] = self._writer.register_schema(
                topic.type, topic.encoding if topic.definition else "", topic.definition.encode("utf-8")
            )
        about = {"offered_qos_profiles": topic.qos, "topic_type_hash": topic.hash}
        return int(self._writer.register_channel(topic.name, topic.serialization, self._schemas[key], about))

    def write(self, number: int, time_ns: int, data: bytes) -> bool:
        """Write a message. Return whether all messages so far are on disk."""
        before = self._stream.writes
        # By the specification, a chunk that starts at time 0 has no messages, so programs skip it.
        at = max(time_ns, 1)
        self._writer.add_message(number, log_time=at, data=data, publish_time=at)
        return self._stream.writes != before

    def close(self) -> None:
        """Write index and footer."""
        if not self._file.closed:
            try:
                self._writer.finish()
            finally:
                self._file.close()

    def drop(self) -> None:
        """Close the file without writing index and footer."""
        self._file.close()


# ---- reading --------------------------------------------------------------------------------------------------------
# Untrusted MCAP files: chunks are decompressed one at a time, within limits, and a damaged end causes a warning.
# Layout: https://mcap.dev/spec. The package mcap parses the records. It would decompress chunks of any claimed size,
# so chunks are decompressed here.


_FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _CHUNK_INDEX, _STATISTICS = 2, 3, 4, 5, 6, 8, 11
_HEAD = struct.Struct("<BQ")  # kind and length of a record
_MESSAGE_HEAD = struct.Struct("<HIQQ")  # channel, sequence, times of logging and of publishing
# First and last time, decompressed size and checksum, length of the name of the compression.
_CHUNK_HEAD = struct.Struct("<QQQII")
_FOOTER_BYTES = _HEAD.size + 20 + len(MAGIC)


def _in_file(file: BinaryIO, size: int, wanted: Collection[int]) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each record of the wanted kinds, from the current position to the footer or end of file."""
    while True:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            raise EOFError
        kind, length = _HEAD.unpack(head)
        place = file.tell()  # wording: ok
        if kind == 0 or length > size - place:
            raise EOFError("" if kind else "a record of kind 0")
        if kind == _FOOTER:
            return
        if kind in wanted:
            yield kind, file.read(length)
        else:
            file.seek(place + length)


def _in_chunk(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Kind, start and end of each record of a chunk."""
    place, end = 0, len(data)
    while place < end:
        if place + _HEAD.size > end:
            raise ValueError("a chunk ends within a record")
        kind, length = _HEAD.unpack_from(data, place)
        place += _HEAD.size
        if kind == 0 or length > end - place or (kind == _MESSAGE and length < _MESSAGE_HEAD.size):
            raise ValueError("a record does not fit into its chunk")
        yield kind, place, place + length
        place += length


def _opened(content: bytes, budget: UnpackingBudget) -> bytes:
    """Decompress the records of a chunk."""
    size, _, letters = _CHUNK_HEAD.unpack_from(content)[2:]
    place = _CHUNK_HEAD.size + letters + 8
    if place > len(content):
        raise ValueError("a chunk is too short")
    length = int.from_bytes(content[place - 8 : place], "little")
    if length > len(content) - place:
        raise ValueError("a chunk is truncated")
    name = content[_CHUNK_HEAD.size : place - 8].decode("utf-8", "replace")
    return unpacked(name, content[place : place + length], size, budget)


def _parsed(kind: int, content: bytes) -> Any:
    """Parse a schema, channel, chunk index or statistics record with the package mcap."""
    from mcap import records
    from mcap.data_stream import ReadDataStream

    kinds: dict[int, Any] = {
        _SCHEMA: records.Schema,
        _CHANNEL: records.Channel,
        _CHUNK_INDEX: records.ChunkIndex,
        _STATISTICS: records.Statistics,
    }
    return kinds[kind].read(ReadDataStream(io.BytesIO(content)))


class _Chunk:
    """Messages of one chunk in chronological order. Only the chunk is in memory, not a copy of each message."""

    def __init__(self, offset: int, data: bytes) -> None:
        self.offset, self._data = offset, data
        times, starts, ends = array("Q"), array("Q"), array("Q")
        for kind, start, end in _in_chunk(data):
            if kind == _MESSAGE:
                times.append(_MESSAGE_HEAD.unpack_from(data, start)[2])
                starts.append(start)
                ends.append(end)
        order = np.argsort(np.frombuffer(times, np.uint64), kind="stable") if times else np.zeros(0, np.int64)
        self._rows = iter(order.tolist())
        self._times, self._starts, self._ends = times, starts, ends

    def next(self) -> tuple[int, int, int, int, bytes] | None:
        """Time, offset of the chunk, number in the chunk, channel and content of the next message."""
        row = next(self._rows, None)
        if row is None:
            return None
        start = self._starts[row]
        channel = _MESSAGE_HEAD.unpack_from(self._data, start)[0]
        return self._times[row], self.offset, row, channel, self._data[start + _MESSAGE_HEAD.size : self._ends[row]]


class McapIn:
    """Reader of one MCAP file, complete or truncated."""

    def __init__(self, path: Path) -> None:
        need_mcap()
        self.path = path
        with open_file(path) as file:
            self._size = os.fstat(file.fileno()).st_size
            if file.read(8) != MAGIC:
                raise FormatError(f"{path}: this is not an MCAP file")
            file.seek(-min(8, self._size), 2)
            whole = file.read(8) == MAGIC and self._size > _FOOTER_BYTES
        self.topics: dict[str, Topic] = {}
        self._in_order = True
        self._index: list[Any] = []
        """Index of the chunks; empty for a file that is read sequentially."""
        if not (whole and self._read_summary()):
            self._scan()

    def _budget(self) -> UnpackingBudget:
        return UnpackingBudget(self.path, self._size, once=LARGEST_CHUNK)

    def _read_summary(self) -> bool:
        """Read topics and chunk index from the end of the file. Return whether they are available."""
        schemas: dict[int, Any] = {}
        channels: dict[int, Any] = {}
        index, statistics = [], None
        wanted = (_SCHEMA, _CHANNEL, _CHUNK_INDEX, _STATISTICS)
        try:
            with open_file(self.path) as file:
                file.seek(self._size - _FOOTER_BYTES)
                kind, length, start = struct.unpack("<BQQ", file.read(17))
                if kind != _FOOTER or length != 20 or not start:
                    return False
                file.seek(start)
                for kind, content in _in_file(file, self._size, wanted):
                    record = _parsed(kind, content)
                    if kind == _SCHEMA:
                        schemas[record.id] = record
                    elif kind == _CHANNEL:
                        channels[record.id] = record
                    elif kind == _CHUNK_INDEX:
                        index.append(record)
                    else:
                        statistics = record
        except Exception:  # a damaged summary raises many types of exceptions; the messages are read sequentially then
            return False
        if statistics is None or not index:
            return False
        for number, channel in channels.items():
            count = statistics.channel_message_counts.get(number, 0)
            self._note(self.topics, channel, schemas.get(channel.schema_id), count)
        self._index = sorted(index, key=lambda one: (one.message_start_time, one.chunk_start_offset))
        self._schemas, self._channels = schemas, channels
        return True

    @staticmethod
    def _note(topics: dict[str, Topic], channel: Any, schema: Any, count: int) -> None:
        earlier = topics.get(channel.topic)
        text = schema.data.decode("utf-8", "replace") if schema is not None else ""
        about = channel.metadata
        topics[channel.topic] = Topic(
            channel.topic,
            schema.name if schema is not None else "",
            count + (earlier.count if earlier is not None else 0),
            text,
            schema.encoding if schema is not None and schema.encoding else "ros2msg",
            about.get("offered_qos_profiles", ""),
            about.get("topic_type_hash", ""),
            channel.message_encoding,
        )

    def _from_front(self) -> Iterator[tuple[int, bytes]]:
        """Kind and content of every schema, channel and message, in file order."""
        budget = self._budget()
        with open_file(self.path) as file:
            file.seek(len(MAGIC))
            for kind, content in _in_file(file, self._size, (_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK)):
                if kind != _CHUNK:
                    yield kind, content
                    continue
                data = _opened(content, budget)
                for inner, start, end in _in_chunk(data):
                    if inner in (_SCHEMA, _CHANNEL, _MESSAGE):
                        yield inner, data[start:end]

    def _records(self, warn: bool) -> Iterator[tuple[Any, Any, Message | None]]:
        """Schema, channel and message of each record in file order, as far as the file can be read."""
        schemas: dict[int, Any] = {}
        channels: dict[int, Any] = {}
        records = self._from_front()
        while True:
            try:
                kind, content = next(records)
                record: Any = None if kind == _MESSAGE else _parsed(kind, content)
            except StopIteration:
                return
            except FormatError:
                raise  # the file exceeds a limit, so it is malicious rather than truncated
            except Exception as error:  # truncated within a record; the type of the exception depends on the position
                if warn:
                    reason = "it was not closed" if not str(error) else f"it is damaged: {error}"
                    text = f"{self.path}: the file is truncated ({reason}); the part before is read"
                    warnings.warn(text, BagWarning, stacklevel=4)
                return
            if kind == _SCHEMA:
                schemas[record.id] = record
            elif kind == _CHANNEL:
                if record.id not in channels:
                    channels[record.id] = record
                    yield schemas.get(record.schema_id), record, None
            elif len(content) >= _MESSAGE_HEAD.size:
                number, _, time_ns, _ = _MESSAGE_HEAD.unpack_from(content)
                if number in channels:
                    channel = channels[number]
                    schema = schemas.get(channel.schema_id)
                    name = schema.name if schema is not None else ""
                    yield schema, channel, Message(channel.topic, name, time_ns, content[_MESSAGE_HEAD.size :])

    def _scan(self) -> None:
        last = 0
        counts: dict[str, int] = {}
        for schema, channel, message in self._records(warn=True):
            if message is None:
                self._note(self.topics, channel, schema, 0)
                continue
            counts[channel.topic] = counts.get(channel.topic, 0) + 1
            self._in_order &= message.time_ns >= last
            last = message.time_ns
        for name, topic in self.topics.items():
            self.topics[name] = Topic(**{**topic.__dict__, "count": counts.get(name, 0)})

    def messages(self, names: Collection[str] | None) -> Iterator[Message]:
        """Iterate over messages in chronological order."""
        if self._index:
            yield from self._by_index(names)
            return
        found = (
            message
            for _, channel, message in self._records(warn=False)
            if message is not None and (names is None or channel.topic in names)
        )
        yield from found if self._in_order else sorted(found, key=lambda message: message.time_ns)

    def _by_index(self, names: Collection[str] | None) -> Iterator[Message]:
        wanted = {number for number, one in self._channels.items() if names is None or one.topic in names}
        # A chunk without a message index may contain any channel.
        waiting = [
            one for one in self._index if not one.message_index_offsets or wanted & one.message_index_offsets.keys()
        ]
        budget = self._budget()
        heap: list[tuple[int, int, int, int, bytes, _Chunk]] = []
        try:
            with open_file(self.path) as file:
                for place in [*waiting, None]:
                    # Yield the messages of open chunks up to the start of the next chunk.
                    while heap and (place is None or heap[0][0] < place.message_start_time):
                        time_ns, _, _, number, data, chunk = heapq.heappop(heap)
                        self._push(heap, chunk)
                        if number in wanted or number not in self._channels:
                            channel = self._channels[number]
                            schema = self._schemas[channel.schema_id] if channel.schema_id else None
                            yield Message(channel.topic, schema.name if schema else "", time_ns, data)
                    if place is not None:
                        self._push(heap, _Chunk(place.chunk_start_offset, self._chunk_at(file, place, budget)))
        except (FormatError, GeneratorExit):
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise FormatError(f"{self.path}: a chunk is damaged ({reason})") from None

    @staticmethod
    def _push(heap: list[tuple[int, int, int, int, bytes, _Chunk]], chunk: _Chunk) -> None:
        found = chunk.next()
        if found is not None:
            heapq.heappush(heap, (*found, chunk))

    def _chunk_at(self, file: BinaryIO, place: Any, budget: UnpackingBudget) -> bytes:
        file.seek(min(place.chunk_start_offset, self._size))
        kind, content = next(_in_file(file, self._size, range(256)), (0, b""))
        if kind != _CHUNK:
            raise ValueError(f"there is no chunk at {place.chunk_start_offset}")
        return _opened(content, budget)
