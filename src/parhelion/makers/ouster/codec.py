"""Ouster's packets, metadata and HTTP interface behind the makers' contract."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from parhelion.core.clouds import Scan
from parhelion.core.pose import Pose
from parhelion.core.streams import ImuData
from parhelion.makers import LOOPBACK, Datagram
from parhelion.makers.codec import Codec, Metadata, ShotPattern, json_beside
from parhelion.makers.ouster.layout import packet_type
from parhelion.makers.ouster.metadata import describe, metadata, read_metadata
from parhelion.makers.ouster.packets import OusterEncoder, Packets, decode_imu, encode_imu, frames


class OusterStream:
    """Lidar and IMU packets of one sensor; frames keep the number of decoded packets, others count from 0."""

    def __init__(self, document: Metadata | None, epoch_s: float) -> None:
        self.metadata = document
        self._epoch_s = epoch_s
        self._encoder: OusterEncoder | None = None
        self._frame_number = 0

    def add(self, record: Scan | ImuData) -> list[Datagram]:
        """Packets of a scan or of IMU samples; none for samples before the metadata is known."""
        if isinstance(record, ImuData):
            if self.metadata is None:
                return []
            return _datagrams(encode_imu(record, describe(self.metadata).imu_port, self._epoch_s))
        if self._encoder is None:
            self.metadata = metadata(record) if self.metadata is None else self.metadata
            self._encoder = OusterEncoder(self.metadata)
        known = record.metadata.get("frame_id")  # of packets that were decoded; frames of ROS have names
        number = known if isinstance(known, int) else self._frame_number
        packets = self._encoder.packets(record, number, self._epoch_s)
        self._frame_number = number + 1
        return _datagrams(packets)

    def finish(self) -> list[Datagram]:
        """Nothing: every scan fills its packets."""
        return []


def _datagrams(packets: Packets) -> list[Datagram]:
    end = (LOOPBACK, packets.port)
    return [Datagram(t, row.tobytes(), end, end) for t, row in zip(packets.time.tolist(), packets.data, strict=True)]


class OusterCodec(Codec):
    """The metadata contains the beam angles, so any sensor with Ouster's columns has packets."""

    title = "Ouster"
    models = ("ouster/*",)
    expects = "Ouster packets with the sensor's metadata beside the capture, as a .json of the same name"
    ports: ClassVar[Mapping[str, int]] = {"lidar": 7502, "imu": 7503}
    port_step = 2
    fields = ("reflectivity", "near_ir")
    uses_metadata = has_imu = carries_angles = carries_serial = True
    clock_is_utc = False

    def model_for(self, shots: ShotPattern) -> str:
        """See `Codec.model_for`."""
        return "ouster/own-sheet"

    def stream(
        self,
        model: str,
        *,
        returns: str | None = None,
        metadata: Metadata | None = None,
        ports: Mapping[str, int] | None = None,
        epoch_s: float = 0.0,
    ) -> OusterStream:
        """See `Codec.stream`. The metadata determines returns and ports."""
        return OusterStream(metadata, epoch_s)

    def recogniser(self, metadata: Metadata | None) -> Callable[[bytes], bool]:
        """See `Codec.recogniser`."""
        if metadata is None:
            return lambda payload: False
        sensor = describe(metadata)
        size = packet_type(sensor.profile, sensor.channels).itemsize
        return lambda payload: len(payload) == size

    def frames(
        self, datagrams: Iterable[Datagram], *, model: str | None, metadata: Metadata | None, source: str
    ) -> Iterator[Scan]:
        """See `Codec.frames`."""
        return frames((one.payload for one in datagrams), {} if metadata is None else metadata, source)

    def imu(self, payloads: Iterable[bytes]) -> ImuData:
        """See `Codec.imu`."""
        return decode_imu(payloads)

    def ports_from(self, first: int) -> dict[str, int]:
        """See `Codec.ports_from`."""
        return {"lidar": first, "imu": first + 1}

    def metadata(
        self,
        source: Any,
        *,
        name: str = "",
        imu: Pose | None = None,
        ports: Mapping[str, int] | None = None,
        host: str = LOOPBACK,
        profile: str | None = None,
    ) -> dict[str, Any]:
        """See `Codec.metadata`. `profile` is the lidar profile, by default single or dual as the sensor is set."""
        to = self.ports if ports is None else ports
        return metadata(source, profile, name=name, imu=imu, lidar_port=to["lidar"], imu_port=to["imu"], host=host)

    def metadata_beside(self, capture: str | PathLike[str]) -> Path | None:
        """See `Codec.metadata_beside`."""
        return json_beside(capture)

    def read_metadata(self, path: str | PathLike[str]) -> dict[str, Any]:
        """See `Codec.read_metadata`."""
        return read_metadata(path)

    def http(self, metadata: Metadata) -> OusterApi:
        """See `Codec.http`."""
        return OusterApi(metadata)


CODEC = OusterCodec()


# ---- HTTP interface, as far as tools request it before they listen ---------------------------------------------------


PREFIX = "/api/v1"
_CONFIG = f"{PREFIX}/sensor/config"
_FIXED = "the simulated sensor's configuration is fixed by its scenario"


class OusterApi:
    """Responses of one sensor, by path."""

    home = f"{PREFIX}/sensor/metadata"

    def __init__(self, document: Mapping[str, Any]) -> None:
        describe(document)
        known = json.loads(json.dumps(document))
        config, info = known.get("config_params", {}), known.get("sensor_info", {})
        self._config = config
        self._answers = {
            self.home: known,
            **{f"{self.home}/{section}": content for section, content in known.items()},
            _CONFIG: config,
            **{f"{_CONFIG}/{name}": value for name, value in config.items()},
            f"{PREFIX}/sensor/cmd/get_config_param": config,
            f"{PREFIX}/sensor/cmd/get_sensor_info": info,
            f"{PREFIX}/sensor/alerts": {"active": [], "log": [], "next_cursor": 0},
            f"{PREFIX}/user/data": "",
            f"{PREFIX}/system/firmware": {"fw": info.get("image_rev", "")},
        }

    def get(self, path: str) -> tuple[int, Any]:
        """Content of a path."""
        if path in self._answers:
            return 200, self._answers[path]
        return 404, {"error": f"no such resource: {path}"}

    def put(self, path: str, body: bytes, client: str) -> tuple[int, Any]:
        """Accept a configuration that changes nothing, because some tools always send theirs."""
        if path != _CONFIG and not path.startswith(f"{_CONFIG}/"):
            return 405, {"error": f"{path} cannot be written"}
        try:
            wanted = json.loads(body) if body else {}
        except (ValueError, RecursionError):
            return 400, {"error": "the request's body is not JSON"}
        if path != _CONFIG:
            wanted = {path.removeprefix(f"{_CONFIG}/"): wanted}
        changed = _differences(wanted, self._config, client)
        if changed:
            return 400, {"error": f"{_FIXED}; it differs in {', '.join(changed)}"}
        return 200, self._config


def _differences(wanted: Any, active: Mapping[str, Any], client: str) -> list[str]:
    """Names of the requested settings that differ from the active ones."""
    if not isinstance(wanted, Mapping):
        return ["the whole"]
    if wanted.get("udp_dest") == "@auto":  # to the client itself
        wanted = {**wanted, "udp_dest": client}
    return [str(name) for name, value in wanted.items() if name not in active or active[name] != value][:8]
