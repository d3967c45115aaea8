"""RoboSense's packets behind the makers' contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import ClassVar

from parhelion.core.clouds import Scan
from parhelion.core.errors import FormatError, unknown_name
from parhelion.makers import Datagram
from parhelion.makers.codec import Codec, Metadata, ShotPattern
from parhelion.makers.robosense.models import M1, SPINNING, is_difop, is_m1, spinning_model_of
from parhelion.makers.robosense.packets import RoboSenseStream, spinning_frames
from parhelion.makers.robosense.solid import m1_frames
from parhelion.makers.spinning import matching_model

_MOST_SKIPPED = 65536  # DIFOP packets before the first MSOP packet


class RoboSenseCodec(Codec):
    """Angles of the lasers are in DIFOP packets; those of the RS-16 and the Helios are nominal without them."""

    title = "RoboSense"
    models = (*SPINNING, M1)
    expects = "RoboSense MSOP packets (1248 or 1210 bytes)"
    ports: ClassVar[Mapping[str, int]] = {"msop": 6699, "difop": 7788}
    carries_angles = checks_shots = True

    def model_for(self, shots: ShotPattern) -> str:
        """See `Codec.model_for`."""
        writable = [model.rotor for model in SPINNING.values() if model.nominal]
        return matching_model(shots, writable, self.title).name

    def stream(
        self,
        model: str,
        *,
        returns: str | None = None,
        metadata: Metadata | None = None,
        ports: Mapping[str, int] | None = None,
        epoch_s: float = 0.0,
    ) -> RoboSenseStream:
        """See `Codec.stream`."""
        known = {name: one for name, one in SPINNING.items() if one.nominal}
        if model not in known:
            raise unknown_name("RoboSense model whose packets are written", model, known)
        return RoboSenseStream(known[model], returns, {**self.ports, **(ports or {})}, epoch_s)

    def recogniser(self, metadata: Metadata | None) -> Callable[[bytes], bool]:
        """See `Codec.recogniser`."""
        return lambda payload: is_difop(payload) or is_m1(payload) or spinning_model_of(payload) is not None

    def frames(
        self, datagrams: Iterable[Datagram], *, model: str | None, metadata: Metadata | None, source: str
    ) -> Iterator[Scan]:
        """See `Codec.frames`."""
        payloads = (one.payload for one in datagrams)
        before: list[bytes] = []
        for payload in payloads:
            before = [*before[-_MOST_SKIPPED:], payload] if is_difop(payload) else before
            found = spinning_model_of(payload)
            if found is None and not is_m1(payload):
                continue
            name = M1 if found is None else found.name
            if model not in (None, name):
                raise FormatError(f"RoboSense packets: they are of a {name}, not of a {model}")
            rest = chain(before, [payload], payloads)
            yield from m1_frames(rest) if found is None else spinning_frames(rest, found)
            return
        raise FormatError("RoboSense packets: no MSOP packets found")

    def ports_from(self, first: int) -> dict[str, int]:
        """See `Codec.ports_from`."""
        return {"msop": first, "difop": first + 1089 if first + 1089 < 65536 else first - 1}


CODEC = RoboSenseCodec()
