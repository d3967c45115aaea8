"""Bags as MCAP files, profile ros2: chunks are on disk when they are full, so a killed writer loses the last one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.io.ros.topics import Topic

MAGIC = b"\x89MCAP0\r\n"
CHUNK_BYTES = 1 << 20
COMPRESSIONS = ("zstd", "lz4", "none")
LIBRARY = "parhelion"


def need_mcap() -> None:
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
        need_mcap()
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
