"""Ouster lidars of a scenario on the network: lidar and IMU packets by UDP in real time, metadata by HTTP."""

from __future__ import annotations

import heapq
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError
from parhelion.core.streams import ImuData
from parhelion.io.packets.ouster import OusterEncoder, Packets, encode_imu, metadata
from parhelion.io.packets.ouster_metadata import write_metadata
from parhelion.io.packets.pcap import Datagram
from parhelion.live.ouster_http import OusterHttp
from parhelion.live.udp import LOOPBACK, TimedSender, checked_host, checked_port

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step
    from parhelion.scenario.sensors import FrameOnBoard, StreamOnBoard

LIDAR_PORT, IMU_PORT = 7502, 7503
"""Where Ouster's sensors send to unless told otherwise."""


@dataclass
class _Sensor:
    """One Ouster of the scenario, and what it has not sent yet."""

    encoder: OusterEncoder
    imu: str | None
    sender: TimedSender
    frame_number: int = 0
    waiting: list[Datagram] = field(default_factory=list)
    """IMU packets that are younger than the last lidar packet."""


class OusterUdp:
    """Sends the packets of a scenario's Ouster lidars, each packet at its own time.

        stream = OusterUdp(scenario)
        for step in scenario:
            stream.take(step)
        stream.close()

    The first Ouster sends to `lidar_port` and `imu_port`, the next to ports 2 higher, and so on. IMU packets come from
    the first IMU on the same vehicle, where it has one. `profile` names the lidar profile; by default single or dual
    return, as the sensor is set. `http_port` serves the metadata of the first Ouster there, of the next on the port
    after it; 0 takes free ports, None serves nothing. `take` waits where the simulation is faster than real time.
    A scan's packets leave when it is over, so all come one scan late.
    """

    def __init__(
        self,
        scenario: Scenario,
        host: str = LOOPBACK,
        lidar_port: int = LIDAR_PORT,
        imu_port: int = IMU_PORT,
        *,
        profile: str | None = None,
        http_port: int | None = None,
        allow_remote: bool = False,
        epoch_s: float = 0.0,
    ) -> None:
        """`epoch_s` is the sensors' clock [s] at the scenario's time 0; unless set, sensors count from power-on."""
        host = checked_host(host, allow_remote)
        lidars = [scanner for scanner in scenario.giving(Scan) if _is_ouster(scanner)]
        if not lidars:
            there = ", ".join(scanner.sensor.model for scanner in scenario.giving(Scan)) or "none"
            raise ConfigError(f"scenario: has no Ouster lidar (ouster/*); its lidars: {there}")
        self.ports: dict[str, tuple[int, int]] = {}
        """By lidar: port of its lidar and of its IMU packets."""
        for number, scanner in enumerate(lidars):
            self.ports[scanner.name] = (
                checked_port("lidar_port", lidar_port + 2 * number),
                checked_port("imu_port", imu_port + 2 * number),
            )
        used = [port for pair in self.ports.values() for port in pair]
        if len(set(used)) < len(used):
            raise ConfigError(f"lidar_port: {lidar_port} and imu_port: {imu_port} would send two streams to one port")
        self.documents: dict[str, dict[str, Any]] = {}
        """By lidar: its metadata."""
        self.servers: dict[str, OusterHttp] = {}
        """By lidar: what answers for its metadata, where `http_port` was given."""
        self._sensors: dict[str, _Sensor] = {}
        self._sent = 0
        self._shift, self._last = epoch_s, 0.0
        for scanner in lidars:
            imu = _imu_of(scanner, scenario)
            try:
                self.documents[scanner.name] = metadata(
                    scanner.sensor, profile, name=scanner.name,
                    imu=None if imu is None else scanner.mount.inverse() @ imu.mount,
                    lidar_port=self.ports[scanner.name][0], imu_port=self.ports[scanner.name][1], host=host,
                )  # fmt: skip
            except ConfigError as error:
                raise ConfigError(f"sensors: {scanner.name}: {error}") from None
        try:
            for number, scanner in enumerate(lidars):
                document = self.documents[scanner.name]
                if http_port is not None:
                    port = http_port + number if http_port else 0
                    self.servers[scanner.name] = OusterHttp(document, host, port, allow_remote=allow_remote)
                imu = _imu_of(scanner, scenario)
                sender = TimedSender(host, allow_remote=allow_remote)
                name = None if imu is None else imu.name
                self._sensors[scanner.name] = _Sensor(OusterEncoder(document), name, sender)
        except BaseException:
            self.close(drain=False)
            raise

    @property
    def sent(self) -> int:
        """Datagrams sent so far."""
        return self._sent + sum(sensor.sender.sent for sensor in self._sensors.values())

    def write_metadata(self, folder: str | Path) -> list[Path]:
        """Write NAME.json of every Ouster into a folder, for tools that take it as a file; the files."""
        files = [Path(folder) / f"{name}.json" for name in self.documents]
        for file, document in zip(files, self.documents.values(), strict=True):
            write_metadata(document, file)
        return files

    def take(self, step: Step) -> None:
        """Queue what a step gave."""
        if step.time <= self._last:
            self._shift += self._last  # the scenario began anew: the sensors' clocks go on
        self._last = step.time
        for name, sensor in self._sensors.items():
            if sensor.imu is not None:
                samples = encode_imu(step.samples(sensor.imu), self.ports[name][1], self._shift)
                sensor.waiting += self._datagrams(samples)
            for _, scan in step.scans.get(name, ()):
                packets = sensor.encoder.packets(scan, sensor.frame_number, self._shift)
                sensor.frame_number += 1
                end = float(packets.time[-1])
                due = [item for item in sensor.waiting if item.time_s <= end]
                sensor.waiting = sensor.waiting[len(due) :]
                sensor.sender.send(heapq.merge(due, self._datagrams(packets), key=lambda item: item.time_s))

    def close(self, *, drain: bool = True) -> None:
        """Send what waits, at its times, and end; without `drain` what waits is dropped. A second call does nothing."""
        sensors, self._sensors = self._sensors, {}
        with ExitStack() as stack:
            for server in self.servers.values():
                stack.callback(server.close)
            for sensor in sensors.values():
                stack.callback(sensor.sender.close, drain=drain)
            for sensor in sensors.values():
                if drain and sensor.waiting:
                    sensor.sender.send(sensor.waiting)
        self._sent += sum(sensor.sender.sent for sensor in sensors.values())

    def _datagrams(self, packets: Packets) -> list[Datagram]:
        end = (LOOPBACK, packets.port)
        rows = zip(packets.time.tolist(), packets.data, strict=True)
        return [Datagram(time, row.tobytes(), end, end) for time, row in rows]


def _is_ouster(scanner: FrameOnBoard) -> bool:
    return bool(scanner.sensor.config.maker == "ouster")


def _imu_of(scanner: FrameOnBoard, scenario: Scenario) -> StreamOnBoard | None:
    """The first IMU on the lidar's vehicle."""
    if scanner.body is None:
        return None
    found = (one for one in scenario.stream_sensors if one.body is scanner.body)
    return next((one for one in found if issubclass(one.record_type, ImuData)), None)
