"""All that a Velodyne sends over the network: data packets, and position packets among them."""

from __future__ import annotations

import numpy as np

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError
from parhelion.io.packets.pcap import Datagram
from parhelion.io.packets.velodyne import DATA_PORT, Packets, VelodyneEncoder
from parhelion.io.packets.velodyne_models import VelodyneModel
from parhelion.io.packets.velodyne_position import POSITION_PORT, position_packets

SENSOR_ADDRESS = "192.168.1.201"
"""The makers' default; the sensors send to everyone."""
EVERYONE_ADDRESS = "255.255.255.255"
POSITION_INTERVAL_S = 0.007
"""A recorded VLP-16 sent a position packet every 7.07 ms on average."""


class VelodyneStream:
    """The datagrams of one sensor, in order of time, scan after scan."""

    def __init__(
        self,
        model: str | VelodyneModel,
        *,
        returns: str | None = None,
        epoch_s: float = 0.0,
        position_interval_s: float | None = POSITION_INTERVAL_S,
        latitude_deg: float | None = None,
        longitude_deg: float | None = None,
    ) -> None:
        """`epoch_s`: UTC [s since 1970] at time 0. `position_interval_s`: None for no position packets."""
        if position_interval_s is not None and not 1e-4 <= position_interval_s < np.inf:
            raise ConfigError(f"position_interval_s: must be at least 0.0001 s, got {position_interval_s!r}")
        self._encoder = VelodyneEncoder(model, returns=returns, epoch_s=epoch_s)
        self._interval = position_interval_s
        self._place = {"latitude_deg": latitude_deg, "longitude_deg": longitude_deg}
        self._next_position: float | None = None

    def add(self, scan: PointCloud) -> list[Datagram]:
        """What is sent up to the last packet that a further scan fills."""
        return self._datagrams(self._encoder.add(scan))

    def finish(self) -> list[Datagram]:
        """What is sent with the last packet."""
        return self._datagrams(self._encoder.finish())

    def _datagrams(self, data: Packets) -> list[Datagram]:
        if not len(data):
            return []
        epoch = self._encoder.epoch_s
        found = _addressed(data, DATA_PORT, epoch)
        if self._interval is not None:
            first, last = float(data.time_s[0]), float(data.time_s[-1])
            start = first if self._next_position is None else self._next_position
            if not first - 2 * self._interval <= start:
                start = first  # the sensor was off in between
            count = max(0, int(np.floor((last - start) / self._interval)) + 1)
            times = start + self._interval * np.arange(count, dtype=np.float64)
            self._next_position = start + self._interval * count
            places = position_packets(times, epoch_s=epoch, **self._place)
            found = sorted([*found, *_addressed(places, POSITION_PORT, epoch)], key=lambda datagram: datagram.time_s)
        return found


def _addressed(packets: Packets, port: int, epoch_s: float) -> list[Datagram]:
    source, target = (SENSOR_ADDRESS, port), (EVERYONE_ADDRESS, port)
    times = (packets.time_s + epoch_s).tolist()
    return [Datagram(time, data, source, target) for time, data in zip(times, packets.payloads(), strict=True)]
