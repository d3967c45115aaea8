"""Lidars of a scenario on the network: UDP packets in real time, and the HTTP interface of a sensor."""

from __future__ import annotations

import errno
import ipaddress
import json
import queue
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.streams import ImuData
from parhelion.live.web import REFUSED, LocalHandler, Served
from parhelion.makers import LOOPBACK, Datagram, codecs
from parhelion.makers.codec import Codec, HttpApi, Metadata, write_metadata
from parhelion.outputs.captures import PacketSource, packets_like

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step
    from parhelion.scenario.sensors import FrameOnBoard

BATCH_S = 0.002
"""Interval [s] within which datagrams are sent together; the timer resolution is not much finer."""
CATCH_UP = 2.0
"""Speed factor for late datagrams; a burst would overflow the buffer of the receiver."""
BURST_S = 0.01
"""Delay [s] that is recovered at once; default receive buffers hold about 90 packets."""
GIVE_UP_S = 1.0
"""Delay [s] beyond which the clock of the sender is reset."""
LEAD_S = 0.05
"""Initial delay [s], which hides slightly late scans."""
AHEAD_S = 0.3
"""Maximum lead [s] of the simulation over the sent datagrams."""
_SEND_BUFFER = 4 << 20
_MOST_BODY = 65536  # bytes of an HTTP request; a configuration has a few hundred
_PATIENCE_S = 10.0


def checked_host(host: str, allow_remote: bool = False) -> str:
    """Check an IPv4 address for sending or serving; remote addresses require explicit permission."""
    try:
        address = ipaddress.IPv4Address(LOOPBACK if host == "localhost" else host)
    except ValueError:
        raise ConfigError(f"host: expected an IPv4 address such as {LOOPBACK}, got {host!r}") from None
    if not address.is_loopback and not allow_remote:
        raise ConfigError(
            f"host: {host} is not on this machine; traffic stays on {LOOPBACK} unless remote addresses are allowed "
            "(allow_remote=True, --anywhere)"
        )
    return str(address)


def checked_port(name: str, port: int) -> int:
    """Check a UDP port."""
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535:
        raise ConfigError(f"{name}: a UDP port is an integer from 1 to 65535, got {port!r}")
    return port


class TimedSender:
    """Thread that sends datagrams at their times.

        with TimedSender("127.0.0.1") as sender:
            sender.send(datagrams)

    The first datagram is sent almost at once and sets the clock: a datagram t seconds later is sent t seconds later.
    `send` waits if the caller runs ahead of real time. Late datagrams are never sent in a burst but at twice their
    rate until the delay is recovered.
    """

    def __init__(self, host: str = LOOPBACK, *, allow_remote: bool = False, ahead_s: float = AHEAD_S) -> None:
        self.host = checked_host(host, allow_remote)
        self.sent = 0
        """Datagrams sent so far."""
        self.latest_s = 0.0
        """Longest delay of a datagram after its due time so far [s]."""
        self.restarts = 0
        """Number of clock resets because the caller fell too far behind."""
        self._ahead_s = ahead_s
        self._waiting: queue.SimpleQueue[tuple[float, bytes, int] | None] = queue.SimpleQueue()
        self._offset: float | None = None  # wall clock minus the datagrams' clock [s]
        self._failure: OSError | None = None
        self._closed = False
        self._stop = threading.Event()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        if allow_remote:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self._thread = threading.Thread(target=self._run, name="parhelion-udp", daemon=True)
        self._thread.start()

    def send(self, datagrams: Iterable[Datagram]) -> None:
        """Queue datagrams, in order of time."""
        self._check()
        last = None
        for datagram in datagrams:
            self._waiting.put((datagram.time_s, datagram.payload, datagram.target[1]))
            last = datagram.time_s
        if last is not None:
            self._hold_back(last)

    def _hold_back(self, last: float) -> None:
        """Wait until the time of a datagram is near."""
        while not self._stop.is_set():
            offset = self._offset
            if offset is not None and last + offset - time.monotonic() <= self._ahead_s:
                break
            if offset is None and self._waiting.empty():
                break
            self._stop.wait(0.002)
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            reason = self._failure.strerror or str(self._failure)
            raise ConfigError(f"packets cannot be sent to {self.host} ({reason})")
        if self._closed:
            raise ConfigError(f"packets cannot be sent to {self.host}: the sender is already closed")

    def _run(self) -> None:
        before = paced = 0.0
        while not self._stop.is_set():
            entry = self._waiting.get()
            if entry is None:
                return
            when, payload, port = entry
            now = time.monotonic()
            if self._offset is None:
                self._offset = now - when + LEAD_S
                before, paced = when, now
            elif when < before or now - (when + self._offset) > GIVE_UP_S:
                self._offset = now - when
                before, paced = when, now
                self.restarts += 1
            due = when + self._offset
            paced = max(due, paced + (when - before) / CATCH_UP, now - BURST_S)
            before = when
            if paced > now + BATCH_S and self._stop.wait(paced - now):
                return
            self.latest_s = max(self.latest_s, time.monotonic() - due)
            try:
                self._socket.sendto(payload, (self.host, port))
            except OSError as error:
                # A missing receiver is not an error, as with a real sensor.
                if error.errno != errno.ECONNREFUSED:
                    self._failure = error
                    self._stop.set()
                    return
            self.sent += 1

    def close(self, *, drain: bool = True) -> None:
        """Send queued datagrams at their times and stop; without `drain` they are dropped."""
        if self._closed:
            return
        if not drain:
            self._stop.set()
        self._waiting.put(None)
        self._thread.join()
        self._socket.close()
        failed = self._failure
        self._closed = True
        if failed is not None and drain:
            self._check()

    def __enter__(self) -> TimedSender:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(drain=kind is None)


# ---- lidars of a scenario -------------------------------------------------------------------------------------------


@dataclass
class _Sensor:
    """One lidar of the scenario with its sender."""

    packets: PacketSource
    sender: TimedSender


class PacketUdp:
    """Sender of the packets of one maker's lidars in a scenario, each at its time.

        stream = PacketUdp(scenario, "velodyne")
        for step in scenario:
            stream.take(step)
        stream.close()

    The first lidar sends to `ports`, each further one to ports shifted by the maker's step. IMU packets of sensors with
    a built-in IMU come from the first IMU on the same vehicle. `take` waits if the simulation is faster than real time.
    The packets of a scan are sent when it is complete, so all arrive one scan late.
    """

    def __init__(
        self,
        scenario: Scenario,
        maker: str,
        host: str = LOOPBACK,
        ports: int | Mapping[str, int] | None = None,
        *,
        http_port: int | None = None,
        allow_remote: bool = False,
        epoch_s: float | None = None,
        **options: Any,
    ) -> None:
        """Open the sockets.

        `ports` is the port of the lidar packets, or ports by kind of packet, such as `{"data": 2368}`.
        `http_port` serves the HTTP interface of the first sensor, the next port that of the second, and so on; 0
        selects free ports, None serves nothing. `epoch_s` is the clock of the sensors [s] at time 0 of the scenario: by
        default now, or 0 for clocks that start at power-on. `options` are passed to the maker's metadata, such as
        Ouster's `profile`.
        """
        if maker not in codecs():
            raise unknown_name("maker with packets", maker, codecs())
        self.codec: Codec = codecs()[maker]
        host = checked_host(host, allow_remote)
        lidars = _lidars(scenario, maker, self.codec)
        self.ports = _ports(self.codec, [scanner.name for scanner, _ in lidars], ports)
        """Ports by lidar and kind of packet."""
        self.metadata: dict[str, Metadata] = {}
        """Metadata by lidar, for makers whose packets need it."""
        self.servers: dict[str, SensorHttp] = {}
        """HTTP server by lidar, if `http_port` was given."""
        self._sensors: dict[str, _Sensor] = {}
        self._sent = 0
        self._shift, self._last = 0.0, 0.0
        if epoch_s is None:
            epoch_s = time.time() if self.codec.clock_is_utc else 0.0
        try:
            for number, (scanner, model) in enumerate(lidars):
                port = None if http_port is None else http_port + number if http_port else 0
                self._open(scenario, scanner, model, host, port, allow_remote, epoch_s, options)
        except BaseException:
            self.close(drain=False)
            raise

    def _open(
        self,
        scenario: Scenario,
        scanner: FrameOnBoard,
        model: str,
        host: str,
        http_port: int | None,
        allow_remote: bool,
        epoch_s: float,
        options: Mapping[str, Any],
    ) -> None:
        codec, name, ports = self.codec, scanner.name, self.ports[scanner.name]
        about = {"ports": ports, "host": host, **options}
        packets = PacketSource.of(scenario, scanner, codec, model, about, ports=ports, epoch_s=epoch_s)
        known = packets.stream.metadata
        if known is not None:
            self.metadata[name] = known
        if http_port is not None:
            api = codec.http(known or {})
            if api is None:
                raise ConfigError(f"http_port: {codec.title} sensors have no HTTP interface")
            self.servers[name] = SensorHttp(api, host, http_port, allow_remote=allow_remote)
        # One sender per lidar, so that lidars do not wait for each other.
        sender = TimedSender(host, allow_remote=allow_remote)
        self._sensors[name] = _Sensor(packets, sender)

    @property
    def sent(self) -> int:
        """Datagrams sent so far."""
        return self._sent + sum(sensor.sender.sent for sensor in self._sensors.values())

    def write_metadata(self, folder: str | Path) -> list[Path]:
        """Write NAME.json of every lidar with metadata into a folder, for tools that read it from a file."""
        files = [Path(folder) / f"{name}.json" for name in self.metadata]
        for file, known in zip(files, self.metadata.values(), strict=True):
            write_metadata(known, file)
        return files

    def take(self, step: Step) -> None:
        """Queue the packets of a step."""
        if step.time <= self._last:
            self._shift += self._last  # the scenario restarted: the clocks of the sensors continue
        self._last = step.time
        for name, sensor in self._sensors.items():
            source = sensor.packets
            if source.imu is not None:
                source.waiting += source.stream.add(_later(step.samples(source.imu), self._shift))
            for _, scan in step.scans.get(name, ()):
                packets = source.stream.add(_later(scan, self._shift))
                end = packets[-1].time_s if packets else float("-inf")
                sensor.sender.send(source.merged(packets, end))

    def close(self, *, drain: bool = True) -> None:
        """Send queued packets at their times and stop; without `drain` they are dropped. A second call is allowed."""
        sensors, self._sensors = self._sensors, {}
        with ExitStack() as stack:
            for server in self.servers.values():
                stack.callback(server.close)
            for sensor in sensors.values():
                stack.callback(sensor.sender.close, drain=drain)
            for sensor in sensors.values():
                if drain:
                    sensor.sender.send(sensor.packets.merged(sensor.packets.stream.finish(), float("inf")))
        self._sent += sum(sensor.sender.sent for sensor in sensors.values())


def _later(record: Scan | ImuData, shift_s: float) -> Scan | ImuData:
    """Record with its times shifted by `shift_s`."""
    if shift_s == 0.0:
        return record
    if isinstance(record, Scan):
        return replace(record, start_time=record.start_time + shift_s)
    return replace(record, time=record.time + shift_s)


def _lidars(scenario: Scenario, maker: str, codec: Codec) -> list[tuple[FrameOnBoard, str]]:
    """Lidars of a maker with packets, and their models."""
    found, others = [], []
    for scanner in scenario.giving(Scan):
        lidar = scanner.sensor
        try:
            if lidar.config.maker == maker:
                found.append((scanner, packets_like(lidar)[1]))
            else:
                others.append(lidar.model)
        except ConfigError as reason:
            others.append(f"{lidar.model} ({reason})")
    if not found:
        models, there = ", ".join(codec.models), ", ".join(others) or "none"
        raise ConfigError(f"scenario: has no lidar with {codec.title} packets ({models}); its lidars: {there}")
    return found


def _ports(codec: Codec, names: list[str], given: int | Mapping[str, int] | None) -> dict[str, dict[str, int]]:
    """Ports of each lidar by kind of packet."""
    first = codec.ports_from(given) if isinstance(given, int) else {**codec.ports, **(given or {})}
    unknown = next((kind for kind in first if kind not in codec.ports), None)
    if unknown is not None:
        raise unknown_name(f"kind of {codec.title} packets", unknown, codec.ports)
    found = {
        name: {kind: checked_port(f"{kind}_port", port + codec.port_step * number) for kind, port in first.items()}
        for number, name in enumerate(names)
    }
    used = [port for ports in found.values() for port in ports.values()]
    if len(set(used)) < len(used):
        given_ports = " and ".join(f"{kind}_port: {port}" for kind, port in first.items())
        raise ConfigError(f"{given_ports} would send two packet streams of {len(names)} lidars to one port")
    return found


# ---- HTTP -----------------------------------------------------------------------------------------------------------


class SensorHttp(Served):
    """HTTP interface of one sensor, served until closed.

        with SensorHttp(codec.http(metadata), port=8080) as server:
            print(server.url)                 # for an Ouster: http://127.0.0.1:8080/api/v1/sensor/metadata

    `port` 0 selects a free port. Real sensors use port 80, which most systems reserve for administrators. Hosts other
    than loopback are refused unless `allow_remote` is set.
    """

    def __init__(self, api: HttpApi, host: str = LOOPBACK, port: int = 0, *, allow_remote: bool = False) -> None:
        host = checked_host(host, allow_remote)
        if not 0 <= port <= 65535:
            raise ConfigError(f"sensor HTTP: the port must be from 0 to 65535, got {port}")
        handler = type("Handler", (_Handler,), {"api": api, "bound": host})
        super().__init__(host, port, handler, "sensor HTTP", "another port")
        self._home = api.home

    @property
    def url(self) -> str:
        """Address of the main document."""
        return f"http://{self.host}:{self.port}{self._home}"


class _Handler(LocalHandler):
    api: HttpApi
    timeout = _PATIENCE_S

    def refuse(self) -> None:
        self._reply(403, {"error": REFUSED.strip()})

    def do_GET(self) -> None:
        self._reply(*self.api.get(self._path()))

    def do_DELETE(self) -> None:
        self.close_connection = True
        self._reply(405, {"error": "the simulated sensor's configuration is fixed by its scenario"})

    def do_PUT(self) -> None:
        size = self.headers.get("Content-Length", "0")
        if not size.isdigit() or int(size) > _MOST_BODY:
            self.close_connection = True
            self._reply(413, {"error": f"a request holds at most {_MOST_BODY} bytes"})
            return
        self._reply(*self.api.put(self._path(), self.rfile.read(int(size)), self.client_address[0]))

    do_POST = do_PUT

    def _path(self) -> str:
        # Queries select between states of the sensor, which has only one here.
        return urlsplit(self.path).path.rstrip("/")

    def _reply(self, status: int, content: Any) -> None:
        self.reply(status, json.dumps(content).encode(), "application/json")
