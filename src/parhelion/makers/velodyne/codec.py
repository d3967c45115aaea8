"""Velodyne's packets behind the makers' contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar

from parhelion.core.clouds import Scan
from parhelion.makers import Datagram
from parhelion.makers.codec import Codec, Metadata, ShotPattern
from parhelion.makers.velodyne.decode import DATA_SIZE, is_data_packet, velodyne_frames
from parhelion.makers.velodyne.encode import DATA_PORT, POSITION_PORT, VelodyneStream
from parhelion.makers.velodyne.models import MODELS, matching_model


class VelodyneCodec(Codec):
    """Packets name their model but contain no angles, so a sensor must have the beams of a known model."""

    title = "Velodyne"
    models = tuple(MODELS)
    expects = f"Velodyne data packets ({DATA_SIZE} bytes)"
    ports: ClassVar[Mapping[str, int]] = {"data": DATA_PORT, "position": POSITION_PORT}
    checks_shots = True

    def model_for(self, shots: ShotPattern) -> str:
        """See `Codec.model_for`."""
        return matching_model(shots).name

    def stream(
        self,
        model: str,
        *,
        returns: str | None = None,
        metadata: Metadata | None = None,
        ports: Mapping[str, int] | None = None,
        epoch_s: float = 0.0,
    ) -> VelodyneStream:
        """See `Codec.stream`."""
        return VelodyneStream(model, returns=returns, epoch_s=epoch_s, ports=self.ports if ports is None else ports)

    def recogniser(self, metadata: Metadata | None) -> Callable[[bytes], bool]:
        """See `Codec.recogniser`."""
        return is_data_packet

    def frames(
        self, datagrams: Iterable[Datagram], *, model: str | None, metadata: Metadata | None, source: str
    ) -> Iterator[Scan]:
        """See `Codec.frames`."""
        return velodyne_frames((one for one in datagrams if is_data_packet(one.payload)), model)


CODEC = VelodyneCodec()
