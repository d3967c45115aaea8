"""Faults of one sensor, as in scenario files: at most one of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from parhelion.core.config import Config, parse
from parhelion.core.errors import FieldError
from parhelion.core.pose import Pose
from parhelion.sensors.faults.body import TemperatureFault
from parhelion.sensors.faults.camera import PixelFault
from parhelion.sensors.faults.fault import ClockFault, Fault, LossFault, MountFault, Unit
from parhelion.sensors.faults.gnss import JammingFault, SpoofingFault
from parhelion.sensors.faults.lidar import BlockedFault, ChannelFault, PacketFault


class Faults(Config):
    """Faults of one sensor; records are changed in the order of these fields."""

    mount: MountFault | None = None
    """True pose differs from the stated mount."""
    channels: ChannelFault | None = None
    """Dead channels of a lidar."""
    blocked: BlockedFault | None = None
    """Covered sector of a lidar."""
    packets: PacketFault | None = None
    """Lost packets of a lidar."""
    pixels: PixelFault | None = None
    """Dead and hot pixels of a camera."""
    jamming: JammingFault | None = None
    """Jammer near a GNSS receiver."""
    spoofing: SpoofingFault | None = None
    """False position of a GNSS receiver."""
    temperature: TemperatureFault | None = None
    """Drift of an IMU with temperature."""
    loss: LossFault | None = None
    """Lost samples."""
    clock: ClockFault | None = None
    """Jump and drift of the clock."""

    @classmethod
    def of(cls, faults: Faults | Mapping[str, Any]) -> Faults:
        """Faults from fields of a file."""
        return faults if isinstance(faults, Faults) else parse(cls, dict(faults), "faults")

    def present(self) -> dict[str, Fault]:
        """Faults by name, in the order of their effect."""
        named = {name: cast("Fault | None", getattr(self, name)) for name in type(self).model_fields}
        return {name: one for name, one in named.items() if one is not None}

    def check(self, kind: str) -> None:
        """Raise FieldError if a sensor of this kind cannot have one of the faults."""
        for name, one in self.present().items():
            if one.kinds and kind not in one.kinds:
                raise FieldError(f"faults.{name}: is for {' and '.join(one.kinds)}, not for a sensor of type {kind}")

    @property
    def mount_pose(self) -> Pose | None:
        """True pose of the sensor in the frame of its stated mount; None if it is there."""
        return None if self.mount is None else self.mount.pose

    def applied(self, record: Any, unit: Unit) -> Any:
        """Record with all faults."""
        for one in self.present().values():
            record = one.applied(record, unit)
        return record
