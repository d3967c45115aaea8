"""Livox's packets behind the makers' contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar

import numpy as np

from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.streams import ImuData
from parhelion.makers import Datagram
from parhelion.makers.codec import Codec, Metadata, ShotPattern
from parhelion.makers.livox.frames import LivoxStream, decode_imu, livox_frames
from parhelion.makers.livox.packets import MODELS, LivoxModel, sdk_of

_RATE_TOLERANCE = 0.05


class LivoxCodec(Codec):
    """Packets contain points, so no angles are needed; lines follow from the place of a dot in its packet."""

    title = "Livox"
    models = tuple(MODELS)
    expects = "Livox point packets (SDK 1 or SDK 2)"
    ports: ClassVar[Mapping[str, int]] = {"points": 56301, "imu": 56401}
    fields = ("tag",)
    has_imu = True

    def model_for(self, shots: ShotPattern) -> str:
        """See `Codec.model_for`."""
        lines = int(shots.ring.max()) + 1 if len(shots.ring) else 0
        lasts = float(np.ptp(shots.time)) if len(shots.ring) else 0.0
        rate = (len(shots.ring) - lines) / lasts if lasts > 0.0 else 0.0
        for model in MODELS.values():
            if lines == model.lines and abs(rate / model.dots_per_s - 1.0) < _RATE_TOLERANCE:
                return model.name
        known = ", ".join(f"{model.lines} of {model.dots_per_s:.0f}/s ({model.name})" for model in MODELS.values())
        raise ConfigError(f"it has {lines} lines of {rate:.0f} dots per second, but Livox packets exist for {known}")

    def stream(
        self,
        model: str,
        *,
        returns: str | None = None,
        metadata: Metadata | None = None,
        ports: Mapping[str, int] | None = None,
        epoch_s: float = 0.0,
    ) -> LivoxStream:
        """See `Codec.stream`."""
        return LivoxStream(_model_called(model), returns, self.ports if ports is None else ports, epoch_s)

    def recogniser(self, metadata: Metadata | None) -> Callable[[bytes], bool]:
        """See `Codec.recogniser`."""
        return lambda payload: sdk_of(payload) > 0

    def frames(
        self, datagrams: Iterable[Datagram], *, model: str | None, metadata: Metadata | None, source: str
    ) -> Iterator[Scan]:
        """See `Codec.frames`."""
        return livox_frames((one.payload for one in datagrams), None if model is None else _model_called(model))

    def imu(self, payloads: Iterable[bytes]) -> ImuData:
        """See `Codec.imu`."""
        return decode_imu(payloads)

    def ports_from(self, first: int) -> dict[str, int]:
        """See `Codec.ports_from`."""
        return {"points": first, "imu": first + 100}


def _model_called(name: str) -> LivoxModel:
    if name not in MODELS:
        raise unknown_name("Livox model with packets", name, MODELS)
    return MODELS[name]


CODEC = LivoxCodec()
