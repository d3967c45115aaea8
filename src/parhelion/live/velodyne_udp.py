"""Velodyne lidars of a scenario on the network: data and position packets by UDP, in real time."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError
from parhelion.io.packets.velodyne import DATA_PORT
from parhelion.io.packets.velodyne_models import MODELS
from parhelion.io.packets.velodyne_position import POSITION_PORT
from parhelion.io.packets.velodyne_stream import VelodyneStream
from parhelion.live.udp import LOOPBACK, TimedSender, checked_host, checked_port
from parhelion.outputs.pcap import packets_like

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step


class VelodyneUdp:
    """Sends the packets of a scenario's Velodyne lidars, each packet at its own time.

        stream = VelodyneUdp(scenario)
        for step in scenario:
            stream.take(step)
        stream.close()

    The first such lidar sends to `port` (and its position packets to `position_port`), the second to the ports after
    them, and so on. `take` waits where the simulation is faster than real time. Packets of a scan can only leave when
    it is over, so all are one scan late, as long as the simulation keeps up.
    """

    def __init__(
        self,
        scenario: Scenario,
        host: str = LOOPBACK,
        port: int = DATA_PORT,
        *,
        position_port: int = POSITION_PORT,
        allow_remote: bool = False,
        epoch_s: float | None = None,
    ) -> None:
        """`epoch_s` is UTC [s since 1970] at the scenario's time 0; by default now, as a real sensor's clock would."""
        host = checked_host(host, allow_remote)
        models: dict[str, str] = {}
        others: list[str] = []
        for scanner in scenario.giving(Scan):
            try:
                models[scanner.name] = packets_like(scanner.sensor)
            except ConfigError as reason:
                others.append(f"{scanner.sensor.model} ({reason})")
        lidars = [scanner for scanner in scenario.giving(Scan) if models.get(scanner.name) in MODELS]
        if not lidars:
            ousters = [s.sensor.model for s in scenario.giving(Scan) if s.name in models]
            there = ", ".join([*ousters, *others]) or "none"
            raise ConfigError(
                f"scenario: has no lidar with Velodyne packets ({', '.join(MODELS)}); its lidars: {there}"
            )
        self.ports: dict[str, tuple[int, int]] = {}
        """By lidar: port of its data and of its position packets."""
        for number, scanner in enumerate(lidars):
            self.ports[scanner.name] = (
                checked_port("port", port + number),
                checked_port("position_port", position_port + number),
            )
        used = [one for pair in self.ports.values() for one in pair]
        if len(set(used)) < len(used):
            raise ConfigError(
                f"port: {port} and position_port: {position_port} are too close for {len(lidars)} lidars; "
                f"they must be at least {len(lidars)} apart"
            )
        epoch = time.time() if epoch_s is None else epoch_s
        self._streams: dict[str, VelodyneStream] = {}
        for scanner in lidars:
            try:
                self._streams[scanner.name] = VelodyneStream(
                    models[scanner.name], returns=scanner.sensor.config.receiver.returns, epoch_s=epoch
                )
            except ConfigError as error:
                raise ConfigError(f"sensors: {scanner.name}: {error}") from None
        self._sent = 0
        self._shift, self._last = 0.0, 0.0
        # One sender a lidar: two lidars do not wait for each other's packets.
        self._senders = {name: TimedSender(host, allow_remote=allow_remote) for name in self._streams}

    @property
    def sent(self) -> int:
        """Datagrams sent so far."""
        return self._sent + sum(sender.sent for sender in self._senders.values())

    def take(self, step: Step) -> None:
        """Queue the packets that a step's scans fill."""
        if step.time <= self._last:
            self._shift += self._last  # the scenario began anew: the sensors' clocks go on
        self._last = step.time
        for name, scans in step.scans.items():
            if name not in self._streams:
                continue
            data, position = self.ports[name]
            for _, scan in scans:
                shifted = replace(scan, start_time=scan.start_time + self._shift) if self._shift else scan
                datagrams = self._streams[name].add(shifted)
                self._senders[name].send(datagrams, {DATA_PORT: data, POSITION_PORT: position})

    def close(self, *, drain: bool = True) -> None:
        """Send what waits, at its times, and end; without `drain` what waits is dropped."""
        senders, self._senders = self._senders, {}
        with ExitStack() as stack:
            for sender in senders.values():
                stack.callback(sender.close, drain=drain)
            for name, sender in senders.items():
                if drain:
                    data, position = self.ports[name]
                    sender.send(self._streams[name].finish(), {DATA_PORT: data, POSITION_PORT: position})
        self._sent = sum(sender.sent for sender in senders.values())
