"""Contract of a maker's packets: scans and IMU samples to datagrams and back, metadata, ports and HTTP interface."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.core.files import write_whole
from parhelion.core.pose import Pose
from parhelion.core.reading import is_regular_file
from parhelion.core.streams import ImuData
from parhelion.makers import LOOPBACK, Datagram

Metadata = Mapping[str, Any]
"""Description of one sensor that is needed to decode its packets, ready for JSON."""


class ShotPattern(Protocol):
    """Table of shots of a scan or of a sensor. Rings count from the lowest laser."""

    @property
    def direction(self) -> NDArray[Any]: ...
    @property
    def time(self) -> NDArray[Any]: ...
    @property
    def ring(self) -> NDArray[Any]: ...
    @property
    def column(self) -> NDArray[Any]: ...


class PacketStream(Protocol):
    """Datagrams of one sensor, record after record."""

    @property
    def metadata(self) -> Metadata | None:
        """Metadata of the sensor; None if its packets need none, or before the first scan."""
        ...

    def add(self, record: Scan | ImuData) -> list[Datagram]:
        """Datagrams that a further record completes, in order of time; none for records that the sensor lacks."""
        ...

    def finish(self) -> list[Datagram]:
        """Datagrams that remain at the end."""
        ...


class HttpApi(Protocol):
    """Documents that a sensor serves by HTTP. Paths have no query and no trailing slash."""

    home: str
    """Path of the main document."""

    def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON content of a GET request."""
        ...

    def put(self, path: str, body: bytes, client: str) -> tuple[int, Any]:
        """Status and JSON content of a PUT or POST request from the IP address `client`."""
        ...


class Codec(ABC):
    """Packets of one maker's sensors. Subclasses set the attributes and override what their packets need."""

    title: str
    """Maker's name in messages."""
    models: tuple[str, ...]
    """Presets with packets; `*` matches anything."""
    expects: str
    """Required content of a capture, for messages: 'Velodyne data packets (1206 bytes)'."""
    ports: ClassVar[Mapping[str, int]]
    """Default UDP port per kind of packet, the lidar's first."""
    port_step: int = 1
    """Distance of the ports of two sensors of one scenario."""
    fields: tuple[str, ...] = ()
    """Fields of points that packets carry in addition to `FIELDS_HELD`."""
    uses_metadata: bool = False
    """True if packets cannot be decoded without metadata."""
    takes_metadata: bool = False
    """True if packets can be decoded without metadata, but better with that of the individual unit."""
    has_imu: bool = False
    """True if the sensor has an IMU inside, whose samples it sends."""
    carries_angles: bool = False
    """True if recordings contain the beam angles of the individual unit."""
    carries_serial: bool = False
    """True if packets identify the sensor that sent them; otherwise its IP address does."""
    checks_shots: bool = False
    """True if `model_for` rejects shots that the packets cannot hold."""
    clock_is_utc: bool = True
    """True if the sensor's clock is set to UTC; False if it counts from power-on."""

    def knows(self, sensor: str) -> bool:
        """True if `sensor` is the name of a preset with packets."""
        return any(fnmatchcase(sensor, pattern) for pattern in self.models)

    @abstractmethod
    def model_for(self, shots: ShotPattern) -> str:
        """Model whose packets hold such shots; ConfigError with the reason if there is none."""

    @abstractmethod
    def stream(
        self,
        model: str,
        *,
        returns: str | None = None,
        metadata: Metadata | None = None,
        ports: Mapping[str, int] | None = None,
        epoch_s: float = 0.0,
    ) -> PacketStream:
        """Stream of packets of one sensor.

        `returns` is the return mode, by default that of the scans; ConfigError if packets cannot hold it. `metadata` is
        by default derived from the first scan. `epoch_s` is the sensor's clock [s] at time 0 of the records' clock.
        """

    @abstractmethod
    def recogniser(self, metadata: Metadata | None) -> Callable[[bytes], bool]:
        """Function that returns True for the payload of a lidar packet of this maker."""

    @abstractmethod
    def frames(
        self, datagrams: Iterable[Datagram], *, model: str | None, metadata: Metadata | None, source: str
    ) -> Iterator[Scan]:
        """Scans of one sensor's datagrams, one per frame; other datagrams are skipped. `source` is for messages."""

    def imu(self, payloads: Iterable[bytes]) -> ImuData | None:
        """Samples of IMU packets; None if the maker has no such packets."""
        return None

    def ports_from(self, first: int) -> dict[str, int]:
        """Ports of a sensor whose lidar packets go to the port `first`."""
        names = list(self.ports)
        return {**self.ports, names[0]: first}

    def metadata(
        self,
        source: Any,
        *,
        name: str = "",
        imu: Pose | None = None,
        ports: Mapping[str, int] | None = None,
        host: str = LOOPBACK,
    ) -> dict[str, Any] | None:
        """Metadata of a lidar or scan; None if packets need none.

        `name` distinguishes sensors of one model, `imu` is the pose of the IMU in the sensor frame, `host` and `ports`
        are the destination of the packets.
        """
        return None

    def metadata_beside(self, capture: str | PathLike[str]) -> Path | None:
        """Metadata file next to a capture; None if there is none or packets need none."""
        return None

    def read_metadata(self, path: str | PathLike[str]) -> dict[str, Any]:
        """Metadata of a file; FormatError if it is damaged."""
        return {}

    def http(self, metadata: Metadata) -> HttpApi | None:
        """HTTP interface of the sensor; None if it has none."""
        return None


def json_beside(capture: str | PathLike[str]) -> Path | None:
    """Path of the .json file with the same name as a capture, or of the one whose name the capture's starts with."""
    file = Path(capture)
    exact = file.with_suffix(".json")
    if is_regular_file(exact):
        return exact
    try:
        found = [entry for entry in file.parent.glob("*.json") if file.stem.startswith(entry.stem)]
    except OSError:
        return None
    return max(found, key=lambda entry: (len(entry.stem), entry.name), default=None)


def write_metadata(metadata: Metadata, path: str | PathLike[str]) -> None:
    """Write a metadata file, whole or not at all."""
    write_whole(path, (json.dumps(metadata, indent=2, sort_keys=True) + "\n").encode())
