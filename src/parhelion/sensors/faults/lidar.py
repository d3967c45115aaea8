"""Faults of lidars: dead channels, blocked sectors, and lost packets.

Shots without data are lost shots of the record: they have no return.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from parhelion.core.clouds import Scan
from parhelion.core.config import Fraction
from parhelion.core.errors import ConfigError
from parhelion.sensors.faults.fault import TimedFault, Unit, lost_blocks

Degrees = Annotated[float, Field(ge=-360.0, le=360.0)]


class _ShotFault(TimedFault, ABC):
    """A fault that takes the returns of some shots."""

    kinds: ClassVar[Sequence[str]] = ("lidar",)

    @abstractmethod
    def gone(self, scan: Scan, unit: Unit) -> NDArray[np.bool_]:
        """Mask of the shots whose returns are lost while the fault is present."""

    def applied(self, record: Scan, unit: Unit) -> Scan:
        """Scan without the returns of these shots."""
        shots = record.shots
        gone = self.gone(record, unit) & self.active(record.start_time + shots.time.astype(np.float64))
        if not gone.any():
            return record
        kept = record.select(~gone[record.fields["shot"]])
        count = np.where(gone, 0, shots.return_count).astype(shots.return_count.dtype)
        dark: dict[str, Any] = {
            name: np.where(gone, 0.0, values).astype(np.float32)
            for name in ("near_ir", "noise")
            if (values := getattr(shots, name)) is not None
        }
        return dataclasses.replace(kept, shots=dataclasses.replace(shots, return_count=count, **dark))


class ChannelFault(_ShotFault):
    """Channels whose laser or detector has failed."""

    dead: Annotated[list[Annotated[int, Field(ge=0, le=65535)]], Field(max_length=4096)] = []  # noqa: RUF012
    """Numbers of the channels, as in the field `ring`."""

    def gone(self, scan: Scan, unit: Unit) -> NDArray[np.bool_]:
        """Shots of dead channels."""
        return np.isin(scan.shots.ring, self.dead)


class BlockedFault(_ShotFault):
    """A sector that something opaque covers, such as tape or a part of the robot that was added later.

    The sector runs counter-clockwise from `from_deg` to `to_deg`; 0 is ahead, and 90 is left.
    """

    from_deg: Degrees
    to_deg: Degrees
    lowest_deg: Annotated[float, Field(ge=-90.0, le=90.0)] = -90.0
    """Lowest elevation that is covered."""
    highest_deg: Annotated[float, Field(ge=-90.0, le=90.0)] = 90.0

    @model_validator(mode="after")
    def _in_order(self) -> BlockedFault:
        if self.highest_deg <= self.lowest_deg:
            raise ConfigError(f"highest_deg: must be above lowest_deg, {self.lowest_deg:g}, got {self.highest_deg:g}")
        return self

    def gone(self, scan: Scan, unit: Unit) -> NDArray[np.bool_]:
        """Shots into the sector."""
        x, y, z = scan.shots.direction.astype(np.float64).T
        beyond = (np.degrees(np.arctan2(y, x)) - self.from_deg) % 360.0
        up = np.degrees(np.arctan2(z, np.hypot(x, y)))
        width = self.to_deg - self.from_deg
        width = 360.0 if abs(width) >= 360.0 else width % 360.0
        return (beyond <= width) & (up >= self.lowest_deg) & (up <= self.highest_deg)


class PacketFault(_ShotFault):
    """Packets that are lost in the network, with all their firings."""

    lost: Fraction = 0.0
    """Fraction of the packets."""
    columns: Annotated[int, Field(ge=1, le=65536)] = 16
    """Consecutive firings of all channels in a packet: 16 in those of Ouster, 12 or 24 in those of Velodyne."""
    burst: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Number of packets in a row that are lost together."""

    def gone(self, scan: Scan, unit: Unit) -> NDArray[np.bool_]:
        """Shots of lost packets."""
        packet = scan.shots.column.astype(np.int64) // (self.columns * self.burst)
        packet += 65536 * round(scan.start_time * unit.rate_hz)
        return lost_blocks(packet, self.lost, unit, "packets")
