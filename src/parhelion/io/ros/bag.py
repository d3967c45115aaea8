"""ROS 2 bags: folders with metadata.yaml as rosbag2 writes them, or single .mcap and .db3 files.

with BagWriter("bag") as bag:
    bag.write(Message("/imu/data", IMU, time_ns, data))
for message in read_bag("bag", topics=["/imu/data"]):
    print(message.time_ns, decode(message.type, message.data))
"""

from __future__ import annotations

import heapq
import shutil
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path

from parhelion.core.errors import ConfigError, FormatError, unknown_name
from parhelion.core.reading import is_regular_file, open_file, reading, reading_each, shown
from parhelion.io.ros.mcap import McapIn, McapOut
from parhelion.io.ros.sqlite import SqliteIn, SqliteOut
from parhelion.io.ros.storage import (
    METADATA,
    BagWarning,
    Topic,
    read_metadata,
    sensors_in,
    topic_of,
    with_definition,
    write_metadata,
)
from parhelion.io.ros.types import HUMBLE, Message, check_distro

__all__ = ["STORAGES", "BagReader", "BagWarning", "BagWriter", "Topic", "is_bag", "read_bag"]

STORAGES = {"mcap": ".mcap", "sqlite3": ".db3"}
"""Storage plugins and their file extensions."""
_METADATA_EVERY = 16  # flushes between two updates of metadata.yaml


def is_bag(path: str | PathLike[str]) -> bool:
    """Return whether a path is a bag: a folder that contains one, or a file with the extension of a bag."""
    place = Path(path)
    if place.is_dir():
        return any(_storage_files(place)) or _is_bag_metadata(place / METADATA)
    return place.suffix.lower() in STORAGES.values()


def _is_bag_metadata(file: Path) -> bool:
    """Return whether a metadata.yaml belongs to rosbag2; other programs use the name as well."""
    if not is_regular_file(file):
        return False
    with open_file(file) as stream:
        return b"rosbag2_bagfile_information" in stream.read(4096)


def _storage_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in STORAGES.values() and file.is_file())


class BagWriter:
    """Writer of bags, message by message. Topics with message types of ROS 2 need not be added first.

    A path that ends with .mcap or .db3 is a single file; any other is a folder with the file and metadata.yaml. If the
    program is killed, the bag can be read up to its last chunk or commit, both of about 1 MiB. With `overwrite`, an
    existing bag is replaced when the new one is complete.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        storage: str | None = None,
        *,
        compression: str = "zstd",
        overwrite: bool = False,
        distro: str = HUMBLE,
    ) -> None:
        """Open a bag.

        `storage` is 'mcap' (default) or 'sqlite3'; `compression` (MCAP) is 'zstd', 'lz4' or 'none'. `distro` is the
        distribution of ROS 2 that defines the types.
        """
        self.path, self._distro = Path(path), check_distro(distro)
        self._single = self.path.suffix.lower() in STORAGES.values()
        meant = next((k for k, ending in STORAGES.items() if ending == self.path.suffix.lower()), "mcap")
        self.storage = storage or meant
        if self.storage not in STORAGES:
            raise unknown_name("storage of bags", self.storage, STORAGES)
        if self._single and self.storage != meant:
            raise ConfigError(f"{self.path}: a file with this extension uses {meant}, not {self.storage}")
        self._place = self._free_place(overwrite)
        ending = STORAGES[self.storage]
        self._file = self._place if self._single else self._place / f"{self.path.name}_0{ending}"
        self._topics: dict[str, Topic] = {}
        self._numbers: dict[str, int] = {}
        self._span: tuple[int, int] | None = None
        self._flushes = 0
        self.sensors: dict[str, str] = {}
        """Models of the sensors by topic; written to metadata.yaml."""
        self._open = True
        try:
            if not self._single:
                self._place.mkdir(parents=True)
            self._out: McapOut | SqliteOut = (
                McapOut(self._file, compression) if self.storage == "mcap" else SqliteOut(self._file)
            )
            self._note()
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise FormatError(f"{self.path}: the bag cannot be written ({reason})") from None

    def _free_place(self, overwrite: bool) -> Path:
        """Path to write to: the path itself, or a temporary one in the same folder if a bag exists."""
        if not self.path.exists():
            if self._single and not self.path.absolute().parent.is_dir():
                raise FormatError(f"{self.path}: the folder {self.path.absolute().parent} does not exist")
            return self.path
        if self.path.is_dir() == self._single:
            raise FormatError(f"{self.path}: is {'a folder, not a file' if self._single else 'a file, not a folder'}")
        empty = self.path.is_dir() and not any(self.path.iterdir())
        if empty:
            self.path.rmdir()
            return self.path
        if not overwrite:
            raise FormatError(f"{self.path}: already exists")
        if self.path.is_dir() and not _only_a_bag(self.path):
            raise FormatError(f"{self.path}: contains files that are not part of a bag, so it is not replaced")
        place = self.path.with_name(
            f"{self.path.stem}.new{self.path.suffix}" if self._single else f"{self.path.name}.new"
        )
        _remove(place)
        return place

    @property
    def files(self) -> list[Path]:
        """Files of the finished bag."""
        if self._single:
            return [self.path]
        return [self.path / self._file.name, self.path / METADATA]

    def add(self, topic: Topic) -> None:
        """Add a topic, for example from another bag with custom types."""
        if topic.name not in self._numbers:
            known = with_definition(replace(topic, count=0))
            self._numbers[topic.name] = self._out.add(known)
            self._topics[topic.name] = known

    def write(self, message: Message) -> None:
        """Write one message; messages must be in chronological order."""
        if not self._open:
            raise ConfigError(f"{self.path}: the bag is closed")
        if message.time_ns < 0:
            raise ConfigError(f"{message.topic}: a bag cannot store negative times, got {message.time_ns / 1e9:g} s")
        if message.topic not in self._numbers:
            self.add(topic_of(message.topic, message.type, self._distro))
        topic = self._topics[message.topic]
        if topic.type != message.type:
            raise ConfigError(f"{message.topic}: has the type {topic.type}, so it cannot take a {message.type}")
        try:
            flushed = self._out.write(self._numbers[message.topic], message.time_ns, message.data)
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise FormatError(f"{self.path}: cannot be written ({reason})") from None
        self._topics[message.topic] = replace(topic, count=topic.count + 1)
        first, last = self._span or (message.time_ns, message.time_ns)
        self._span = min(first, message.time_ns), max(last, message.time_ns)
        if flushed:
            self._flushes += 1
            if self._flushes % _METADATA_EVERY == 1:
                self._note()

    def _note(self) -> None:
        if not self._single:
            topics = list(self._topics.values())
            write_metadata(self._place, self._file.name, self.storage, topics, self._span, self._distro, self.sensors)

    def close(self) -> None:
        """Finish the bag and replace an existing one."""
        if not self._open:
            return
        self._open = False
        try:
            self._out.close()
            self._note()
            if self._place != self.path:
                if self._single:
                    self._place.replace(self.path)
                else:
                    _remove(self.path)
                    self._place.rename(self.path)
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise FormatError(f"{self.path}: cannot be written ({reason})") from None

    def leave_off(self) -> None:
        """Stop early: finish a new bag, but discard one that would replace an existing bag."""
        if self._place == self.path:
            self.close()
        else:
            self.discard()

    def discard(self) -> None:
        """Remove what was written; an existing bag stays unchanged."""
        if self._open:
            self._open = False
            self._out.drop()
            _remove(self._place)

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _only_a_bag(folder: Path) -> bool:
    def belongs(file: Path) -> bool:
        return file.name == METADATA or any(f"{ending}" in file.name for ending in STORAGES.values())

    return all(file.is_file() and belongs(file) for file in folder.iterdir())


def _remove(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    else:
        for ending in ("", "-journal"):
            place.with_name(place.name + ending).unlink(missing_ok=True)


class BagReader:
    """Reader of bags: a folder, split or not, or a single .mcap or .db3 file. A damaged end causes a BagWarning."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        with reading(self.path):
            self._stores = self._opened()
        self.sensors: dict[str, str] = sensors_in(read_metadata(self.path)) if self.path.is_dir() else {}
        """Models of the sensors by topic, as far as metadata.yaml states them."""
        self.topics: dict[str, Topic] = {}
        """Topics by name, with type and number of messages."""
        for store in self._stores:
            for name, topic in store.topics.items():
                earlier = self.topics.get(name)
                count = topic.count + (earlier.count if earlier is not None else 0)
                self.topics[name] = replace(topic, count=count)

    def _opened(self) -> list[McapIn | SqliteIn]:
        about = {}
        try:
            if self.path.is_dir():
                about = read_metadata(self.path)
                files = self._listed(about) or _storage_files(self.path)
            elif self.path.exists():
                files = [self.path]
            else:
                raise FormatError(f"{shown(self.path)}: no such bag")
            if not files:
                raise FormatError(f"{self.path}: no bag in this folder ({', '.join(STORAGES.values())})")
            return [self._store(file, about) for file in files]
        except OSError as error:
            raise FormatError(f"{self.path}: cannot be read ({error.strerror or error})") from None

    def _listed(self, about: dict[str, object]) -> list[Path]:
        """Files listed in metadata.yaml, in order."""
        names = about.get("relative_file_paths")
        files = [self.path / Path(str(name)).name for name in names] if isinstance(names, list) else []
        files = list(dict.fromkeys(files))
        missing = [file for file in files if not file.exists()]
        if missing:
            raise FormatError(f"{missing[0]}: the file is missing, but {METADATA} lists it")
        return files

    @staticmethod
    def _store(file: Path, about: dict[str, object]) -> McapIn | SqliteIn:
        mode = str(about.get("compression_mode") or "").lower()
        if mode == "file" or file.suffix.lower() == ".zstd":
            raise FormatError(f"{file}: the whole file is compressed; decompress it first: zstd -d {file.name}")
        if file.suffix.lower() == ".mcap":
            return McapIn(file)
        if file.suffix.lower() == ".db3":
            return SqliteIn(file, mode)
        if file.suffix.lower() == ".bag":
            raise FormatError(f"{file}: is a ROS 1 bag; convert it first: rosbags-convert {file.name}")
        raise FormatError(f"{file}: is not a bag; supported are {', '.join(STORAGES.values())} and folders of them")

    @property
    def count(self) -> int:
        """Number of messages."""
        return sum(topic.count for topic in self.topics.values())

    def of_type(self, kind: str) -> list[Topic]:
        """Topics of a type, for example 'sensor_msgs/msg/PointCloud2'."""
        return [topic for topic in self.topics.values() if topic.type == kind]

    def messages(self, topics: Collection[str] | None = None) -> Iterator[Message]:
        """Iterate over messages in chronological order, of the given topics or of all."""
        if topics is not None:
            for name in topics:
                if name not in self.topics:
                    raise unknown_name(f"topic of {self.path}", name, self.topics)
        streams = [reading_each(store.path, store.messages(topics)) for store in self._stores]
        return streams[0] if len(streams) == 1 else heapq.merge(*streams, key=lambda message: message.time_ns)

    def __iter__(self) -> Iterator[Message]:
        return self.messages()


def read_bag(path: str | PathLike[str], topics: Collection[str] | None = None) -> Iterator[Message]:
    """Iterate over the messages of a bag in chronological order, of the given topics or of all."""
    return BagReader(path).messages(topics)
