"""Bags as MCAP files, profile ros2: chunks are on disk when they are full, so a killed writer loses the last one."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError
from parhelion.io.ros.topics import BagWarning, Topic
from parhelion.io.ros.types import Message

MAGIC = b"\x89MCAP0\r\n"
CHUNK_BYTES = 1 << 20
COMPRESSIONS = ("zstd", "lz4", "none")
LIBRARY = "parhelion"


def _need_mcap() -> None:
    try:
        import mcap  # noqa: F401
    except ImportError:
        raise MissingDependencyError("MCAP files need the package mcap: run 'pip install mcap'") from None


class _Through:
    """A file whose every write reaches the operating system at once: buffers die with their process."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.writes = file, 0

    def write(self, data: Any) -> int:
        self.writes += 1
        count = self._file.write(data)
        self._file.flush()
        return count

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()


class McapOut:
    """Writes one MCAP file."""

    def __init__(self, path: Path, compression: str) -> None:
        _need_mcap()
        from mcap.writer import CompressionType, Writer

        if compression not in COMPRESSIONS:
            raise ConfigError(f"bag: compression must be one of {', '.join(COMPRESSIONS)}, got {compression!r}")
        self._file = path.open("wb")
        self._stream = _Through(self._file)
        chosen = CompressionType[compression.upper()]
        self._writer: Any = Writer(self._stream, chunk_size=CHUNK_BYTES, compression=chosen)  # type: ignore[arg-type]
        self._writer.start(profile="ros2", library=LIBRARY)
        self._schemas: dict[tuple[str, str], int] = {}

    def add(self, topic: Topic) -> int:
        """Announce a topic: its number."""
        key = (topic.type, topic.definition)
        if key not in self._schemas:
            self._schemas[key] = self._writer.register_schema(
                topic.type, topic.encoding if topic.definition else "", topic.definition.encode("utf-8")
            )
        about = {"offered_qos_profiles": topic.qos, "topic_type_hash": topic.hash}
        return int(self._writer.register_channel(topic.name, topic.serialization, self._schemas[key], about))

    def write(self, number: int, time_ns: int, data: bytes) -> bool:
        """Write a message: whether all messages up to this one are on disk now."""
        before = self._stream.writes
        # A chunk that begins at 0 is one without messages, by the format's own rule, and readers skip it.
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
        """Close without an end."""
        self._file.close()


class McapIn:
    """Reads one MCAP file, with or without its end."""

    def __init__(self, path: Path) -> None:
        _need_mcap()
        self.path = path
        with path.open("rb") as file:
            if file.read(8) != MAGIC:
                raise FormatError(f"{path}: this is not an MCAP file")
            file.seek(0, 2)
            file.seek(-min(8, file.tell()), 2)
            self._whole = file.read(8) == MAGIC and path.stat().st_size > 16
        self.topics: dict[str, Topic] = {}
        self._in_order = True
        found = self._summary() if self._whole else None
        if found is None:
            self._scan()
        else:
            self.topics = found

    def _summary(self) -> dict[str, Topic] | None:
        """Topics by the summary at the file's end; None where it has none that helps."""
        from mcap.reader import make_reader

        try:
            with self.path.open("rb") as file:
                summary = make_reader(file).get_summary()
        except Exception:  # a damaged summary fails in many ways; the messages themselves are read then
            self._whole = False
            return None
        if summary is None or summary.statistics is None or not summary.chunk_indexes:
            self._whole = False
            return None
        counts = summary.statistics.channel_message_counts
        topics: dict[str, Topic] = {}
        for number, channel in summary.channels.items():
            self._note(topics, channel, summary.schemas.get(channel.schema_id), counts.get(number, 0))
        return topics

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

    def _records(self, tell: bool) -> Iterator[tuple[Any, Any, Any]]:
        """Schema, channel and message one after the other, from the front, as far as they can be read."""
        from mcap.records import Channel, Schema
        from mcap.records import Message as Record
        from mcap.stream_reader import StreamReader

        schemas: dict[int, Any] = {}
        channels: dict[int, Any] = {}
        with self.path.open("rb") as file:
            records = StreamReader(file).records
            while True:
                try:
                    record = next(records)
                except StopIteration:
                    return
                except Exception as error:  # cut off within a record: which error depends on where
                    if tell:
                        reason = "it was not closed" if not str(error) else f"it is damaged there: {error}"
                        text = f"{self.path}: the file breaks off ({reason}); what came before is read"
                        warnings.warn(text, BagWarning, stacklevel=4)
                    return
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel):
                    if record.id not in channels:
                        channels[record.id] = record
                        yield schemas.get(record.schema_id), record, None
                elif isinstance(record, Record) and record.channel_id in channels:
                    channel = channels[record.channel_id]
                    yield schemas.get(channel.schema_id), channel, record

    def _scan(self) -> None:
        last = 0
        counts: dict[str, int] = {}
        for schema, channel, record in self._records(tell=True):
            if record is None:
                self._note(self.topics, channel, schema, 0)
                continue
            counts[channel.topic] = counts.get(channel.topic, 0) + 1
            self._in_order &= record.log_time >= last
            last = record.log_time
        for name, topic in self.topics.items():
            self.topics[name] = Topic(**{**topic.__dict__, "count": counts.get(name, 0)})

    def messages(self, names: Collection[str] | None) -> Iterator[Message]:
        """Messages in the order of time."""
        if not self._whole:
            found = (
                Message(channel.topic, schema.name if schema is not None else "", record.log_time, record.data)
                for schema, channel, record in self._records(tell=False)
                if record is not None and (names is None or channel.topic in names)
            )
            yield from found if self._in_order else sorted(found, key=lambda message: message.time_ns)
            return
        from mcap.reader import make_reader

        with self.path.open("rb") as file:
            try:
                for schema, channel, record in make_reader(file).iter_messages(topics=names):
                    kind = schema.name if schema is not None else ""
                    yield Message(channel.topic, kind, record.log_time, bytes(record.data))
            except (FormatError, GeneratorExit):
                raise
            except Exception as error:
                reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                raise FormatError(f"{self.path}: a chunk is damaged ({reason})") from None
