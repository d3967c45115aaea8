"""Captures of a run: NAME.pcap with the packets of the real sensor, for every lidar whose packets are supported."""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parhelion.core.clouds import Scan
from parhelion.core.consumers import Consumer
from parhelion.core.errors import ConfigError
from parhelion.core.frames import FramePoints
from parhelion.core.image import Image
from parhelion.core.streams import ImuData, Samples
from parhelion.io.captures import codec_for, write_metadata_beside
from parhelion.io.pcap import PcapWriter
from parhelion.makers import Datagram
from parhelion.makers.codec import Codec, PacketStream

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step
    from parhelion.scenario.sensors import FrameOnBoard, StreamOnBoard
    from parhelion.sensors.optics.lidar.lidar import Lidar


@dataclass
class PacketSource:
    """Packets of one lidar of a run and its built-in IMU."""

    stream: PacketStream
    """Encoder of the packets."""
    imu: str | None
    """Name of the built-in IMU: the first IMU on the same vehicle."""
    waiting: list[Datagram] = field(default_factory=list)
    """IMU packets that are later than the lidar's packets."""

    @classmethod
    def of(
        cls, scenario: Scenario, scanner: FrameOnBoard, codec: Codec, model: str, about: dict[str, Any], **options: Any
    ) -> PacketSource:
        """Packets of a lidar as `model`; `about` is passed to the codec's metadata, `options` to its stream."""
        imu = imu_inside(codec, scanner, scenario)
        place = None if imu is None else scanner.mount.inverse() @ imu.mount
        try:
            metadata = codec.metadata(scanner.sensor, name=scanner.name, imu=place, **about)
            returns = scanner.sensor.config.receiver.returns
            stream = codec.stream(model, returns=returns, metadata=metadata, **options)
        except ConfigError as error:
            raise ConfigError(f"sensors: {scanner.name}: {error}") from None
        return cls(stream, None if imu is None else imu.name)

    def merged(self, packets: list[Datagram], end_s: float) -> Iterator[Datagram]:
        """Packets of the lidar, and those of the IMU up to a time [s], in chronological order."""
        due = [datagram for datagram in self.waiting if datagram.time_s <= end_s]
        self.waiting = self.waiting[len(due) :]
        return heapq.merge(due, packets, key=lambda one: one.time_s)


@dataclass
class _Sensor:
    packets: PacketSource
    capture: PcapWriter
    lidar: list[Datagram] = field(default_factory=list)
    """Lidar packets that wait for the IMU packets of the same time."""

    def write(self, *, last: bool = False) -> None:
        """Write all packets of the lidar and the IMU packets up to them (all if `last`), in chronological order."""
        end = self.lidar[-1].time_s if self.lidar and not last else float("inf")
        for datagram in self.packets.merged(self.lidar, end):
            self.capture.write(*datagram)
        self.lidar = []


def _add_scan(sensor: _Sensor, scan: Scan) -> None:
    """Packets of the lidar's maker, if supported."""
    sensor.lidar += sensor.packets.stream.add(scan)


def _add_imu(sensor: _Sensor, samples: ImuData) -> None:
    """Samples of lidars with a built-in IMU."""
    sensor.packets.waiting += sensor.packets.stream.add(samples)


PACKETS: Consumer[Callable[[_Sensor, Any], None]] = Consumer("packets", {Scan: _add_scan, ImuData: _add_imu})
"""Addition of a record to the packets of a lidar, by type of record; samples are those of its built-in IMU."""
PACKETS.skip(Samples, "no packets of a real sensor are known for it")
PACKETS.skip(FramePoints, "radars and echo sensors use CAN or serial lines, not network packets")
PACKETS.skip(Image, "cameras use GigE Vision, USB or CSI, not packets that a capture could replay")


class PcapSink:
    """Writes the packets of the lidars of a run; files appear at the end of the run."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self._sensors: dict[str, _Sensor] = {}
        known: list[tuple[FrameOnBoard, Codec, str]] = []
        for scanner in scenario.giving(Scan):
            try:
                known.append((scanner, *packets_like(scanner.sensor)))
            except ConfigError as reason:
                warnings.warn(f"no capture of {scanner.name} ({scanner.sensor.model}): {reason}", stacklevel=2)
        try:
            for scanner, codec, model in known:
                packets = PacketSource.of(scenario, scanner, codec, model, {})
                self._sensors[scanner.name] = _Sensor(packets, PcapWriter(folder / f"{scanner.name}.pcap"))
        except BaseException:
            self.abandon()
            raise

    def take(self, step: Step) -> None:
        """Write the packets that the scans of a step complete."""
        for name, sensor in self._sensors.items():
            packets = sensor.packets
            for _, scan in step.scans.get(name, ()):
                try:
                    PACKETS.require(type(scan))(sensor, scan)
                except ConfigError as error:
                    raise ConfigError(f"sensors: {name}: {error}") from None
            samples = step.new_samples().get(packets.imu) if packets.imu is not None else None
            if samples is not None:
                PACKETS.require(type(samples))(sensor, samples)
            if sensor.lidar and (packets.imu is None or samples is not None):
                sensor.write()

    def close(self) -> list[Path]:
        """Finish the captures and return the files."""
        files: list[Path] = []
        try:
            for sensor in self._sensors.values():
                sensor.lidar += sensor.packets.stream.finish()
                sensor.write(last=True)
                sensor.capture.close()
                files += [
                    sensor.capture.path,
                    *write_metadata_beside(sensor.packets.stream.metadata, sensor.capture.path),
                ]
        except BaseException:
            self.abandon()
            raise
        self._sensors = {}
        return files

    def abandon(self) -> None:
        """Remove incomplete captures."""
        for sensor in self._sensors.values():
            sensor.capture.abandon()
        self._sensors = {}


def packets_like(lidar: Lidar) -> tuple[Codec, str]:
    """Codec of a lidar and the preset that sends the same packets. Raise ConfigError with the reason if there is none.

    The maker in the data sheet and the channels decide, so a copy of a data sheet sends the same packets.
    """
    if not lidar.config.maker:
        raise ConfigError("its data sheet does not name a maker")
    return codec_for(lidar.config.maker, lidar.shots())


def imu_inside(codec: Codec, scanner: FrameOnBoard, scenario: Scenario) -> StreamOnBoard | None:
    """Built-in IMU of a lidar whose packets include one: the first IMU on its vehicle."""
    if not codec.has_imu or scanner.body is None:
        return None
    on_it = (one for one in scenario.stream_sensors if one.body is scanner.body)
    return next((one for one in on_it if issubclass(one.record_type, ImuData)), None)
