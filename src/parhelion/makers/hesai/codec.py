"""Hesai's packets behind the makers' contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from parhelion.core.clouds import Scan
from parhelion.core.errors import unknown_name
from parhelion.core.reading import is_regular_file
from parhelion.makers import Datagram
from parhelion.makers.codec import Codec, Metadata, ShotPattern
from parhelion.makers.hesai.models import MODELS, HesaiModel, model_of
from parhelion.makers.hesai.packets import HesaiStream, hesai_frames, read_angles
from parhelion.makers.spinning import matching_model


class HesaiCodec(Codec):
    """Packets contain no angles: nominal ones are used, or those of the unit's angle correction file."""

    title = "Hesai"
    models = tuple(MODELS)
    expects = "Hesai point packets (1072, 1080, 1194, 1198, 1262 or 1266 bytes)"
    ports: ClassVar[Mapping[str, int]] = {"data": 2368}
    takes_metadata = checks_shots = True

    def model_for(self, shots: ShotPattern) -> str:
        """See `Codec.model_for`."""
        return matching_model(shots, [model.rotor for model in MODELS.values()], self.title).name

    def stream(
        self,
        model: str,
        *,
        returns: str | None = None,
        metadata: Metadata | None = None,
        ports: Mapping[str, int] | None = None,
        epoch_s: float = 0.0,
    ) -> HesaiStream:
        """See `Codec.stream`."""
        return HesaiStream(_model_called(model), returns, (ports or self.ports)["data"], epoch_s)

    def recogniser(self, metadata: Metadata | None) -> Callable[[bytes], bool]:
        """See `Codec.recogniser`."""
        return lambda payload: model_of(payload) is not None

    def frames(
        self, datagrams: Iterable[Datagram], *, model: str | None, metadata: Metadata | None, source: str
    ) -> Iterator[Scan]:
        """See `Codec.frames`."""
        known = None if model is None else _model_called(model)
        return hesai_frames((one.payload for one in datagrams), known, metadata)

    def metadata_beside(self, capture: str | PathLike[str]) -> Path | None:
        """See `Codec.metadata_beside`: a .csv of the same name with the unit's angles."""
        file = Path(capture).with_suffix(".csv")
        return file if is_regular_file(file) else None

    def read_metadata(self, path: str | PathLike[str]) -> dict[str, Any]:
        """See `Codec.read_metadata`."""
        return read_angles(path)


def _model_called(name: str) -> HesaiModel:
    if name not in MODELS:
        raise unknown_name("Hesai model with packets", name, MODELS)
    return MODELS[name]


CODEC = HesaiCodec()
