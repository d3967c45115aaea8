"""Captures of a run: for every lidar with known packets, what the real one would have sent, as NAME.pcap."""

from __future__ import annotations

import heapq
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from parhelion.core.errors import ConfigError
from parhelion.io.packets.capture import PacketStream, has_packets, imu_datagrams, stream_of, write_document
from parhelion.io.packets.pcap import Datagram, PcapWriter

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step
    from parhelion.scenario.sensors import SamplerOnBoard, ScannerOnBoard


@dataclass
class _Sensor:
    stream: PacketStream
    capture: PcapWriter
    imu: str | None
    """The IMU that an Ouster has inside: the one on its vehicle."""
    waiting: list[Datagram] = field(default_factory=list)
    """IMU packets that are younger than the lidar's."""

    def write(self, lidar: list[Datagram]) -> None:
        end = lidar[-1].time_s if lidar else float("inf")
        due = [datagram for datagram in self.waiting if datagram.time_s <= end]
        self.waiting = self.waiting[len(due) :]
        for datagram in heapq.merge(due, lidar, key=lambda one: one.time_s):
            self.capture.write(*datagram)


class PcapSink:
    """Writes the packets of a run's lidars; files appear when the run is over."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self._sensors: dict[str, _Sensor] = {}
        known = [scanner for scanner in scenario.scanners if has_packets(scanner.lidar.model)]
        without = [f"{s.name} ({s.lidar.model})" for s in scenario.scanners if s not in known]
        if without:
            warnings.warn(f"no capture of {', '.join(without)}: their packets are not known", stacklevel=2)
        try:
            for scanner in known:
                imu = _imu_of(scanner, scenario)
                stream = _stream(scanner, imu)
                capture = PcapWriter(folder / f"{scanner.name}.pcap")
                self._sensors[scanner.name] = _Sensor(stream, capture, None if imu is None else imu.name)
        except BaseException:
            self.abandon()
            raise

    def take(self, step: Step) -> None:
        """Write the packets that a step's scans fill."""
        for name, sensor in self._sensors.items():
            if sensor.imu is not None and sensor.stream.document is not None:
                sensor.waiting += imu_datagrams(step.samples(sensor.imu), sensor.stream.document)
            for _, scan in step.scans.get(name, ()):
                try:
                    datagrams = sensor.stream.add(scan)
                except ConfigError as error:
                    raise ConfigError(f"sensors: {name}: {error}") from None
                sensor.write(datagrams)

    def close(self) -> list[Path]:
        """Finish the captures: the files."""
        files: list[Path] = []
        try:
            for sensor in self._sensors.values():
                sensor.write(sensor.stream.finish())
                sensor.write([])
                sensor.capture.close()
                files += [sensor.capture.path, *write_document(sensor.stream.document, sensor.capture.path)]
        except BaseException:
            self.abandon()
            raise
        self._sensors = {}
        return files

    def abandon(self) -> None:
        """Remove what was written: a capture is whole or not there."""
        for sensor in self._sensors.values():
            sensor.capture.abandon()
        self._sensors = {}


def _imu_of(scanner: ScannerOnBoard, scenario: Scenario) -> SamplerOnBoard | None:
    """The IMU of an Ouster: the first on its vehicle. A Velodyne sends none."""
    if scanner.body is None or not scanner.lidar.model.startswith("ouster/"):
        return None
    return next((one for one in scenario.samplers if one.body is scanner.body and one.entry.type == "imu"), None)


def _stream(scanner: ScannerOnBoard, imu: SamplerOnBoard | None) -> PacketStream:
    lidar = scanner.lidar
    try:
        document = None
        if lidar.model.startswith("ouster/"):
            from parhelion.io.packets.ouster_metadata import metadata

            place = None if imu is None else scanner.mount.inverse() @ imu.mount
            document = metadata(lidar, name=scanner.name, imu=place)
        return stream_of(lidar.model, returns=lidar.config.receiver.returns, document=document)
    except ConfigError as error:
        raise ConfigError(f"sensors: {scanner.name}: {error}") from None
