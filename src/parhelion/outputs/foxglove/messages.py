"""Foxglove messages of clouds, samples and poses, and the channels that send them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import MissingDependencyError
from parhelion.core.pose import Floats
from parhelion.core.streams import Samples, units
from parhelion.io.columns import as_rows, numeric, split
from parhelion.outputs.foxglove.scene import axes_of, packed, pose_of, timestamp

INSTALL = "Foxglove needs the package foxglove-sdk: pip install 'parhelion[view]'"
TIME_SCHEMA = {"type": "object", "properties": {"sec": {"type": "integer"}, "nsec": {"type": "integer"}}}
_NUMBER = {"type": "number"}
_SPELLING = {"rgb": ("red", "green", "blue")}


@dataclass(frozen=True)
class FoxgloveMessage:
    """One message."""

    topic: str
    """Name of the topic."""
    time_ns: int
    """Time of sending [ns]."""
    body: bytes | Callable[[], bytes]
    """Serialized message, or a function that returns it."""
    schema: Any = None
    """Schema, for topics that the feed did not announce."""

    @property
    def data(self) -> bytes:
        """Serialized message."""
        return self.body if isinstance(self.body, bytes) else self.body()


def need_foxglove() -> Any:
    """Import the package foxglove. Raise MissingDependencyError with the install command if it is missing."""
    try:
        import foxglove
    except ImportError:
        raise MissingDependencyError(INSTALL) from None
    return foxglove


class Channels:
    """Topics of a feed in a context of the Foxglove SDK."""

    def __init__(self, context: Any, topics: Mapping[str, Any]) -> None:
        self._context = context
        self._channels: dict[str, Any] = {}
        for topic, schema in topics.items():
            self._add(topic, schema)

    def _add(self, topic: str, schema: Any) -> None:
        encoding = "json" if schema.encoding == "jsonschema" else schema.encoding
        self._channels[topic] = need_foxglove().Channel(
            topic, message_encoding=encoding, schema=schema, context=self._context
        )

    def log(self, message: FoxgloveMessage) -> None:
        """Send a message to all subscribers; without subscribers it is not serialized."""
        if message.topic not in self._channels and message.schema is not None:
            self._add(message.topic, message.schema)
        channel = self._channels[message.topic]
        if channel.has_sinks():
            # A chunk of a recording that starts at 0 would be regarded as empty.
            channel.log(message.data, log_time=max(message.time_ns, 1))

    @property
    def heard(self) -> bool:
        """True if any topic has a subscriber."""
        return any(channel.has_sinks() for channel in self._channels.values())

    def close(self) -> None:
        """Close all topics."""
        for channel in self._channels.values():
            channel.close()


def cloud_message(cloud: PointCloud, frame: str, time_ns: int) -> bytes:
    """foxglove.PointCloud with all fields of a cloud; fields with several columns become `velocity_x` etc."""
    from foxglove.messages import PackedElementField, PackedElementFieldNumericType
    from foxglove.messages import PointCloud as CloudMessage

    rows = as_rows(split(cloud, Path(frame), _stored, _SPELLING).columns)
    assert rows.dtype.fields is not None
    columns = [
        PackedElementField(
            name=name, offset=offset, type=getattr(PackedElementFieldNumericType, kind.name.capitalize())
        )
        for name, (kind, offset, *_) in rows.dtype.fields.items()
    ]
    return packed(
        CloudMessage(
            timestamp=timestamp(time_ns),
            frame_id=frame,
            pose=pose_of(np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])),
            point_stride=rows.itemsize,
            fields=columns,
            data=rows.tobytes(),
        )
    )


def _stored(values: NDArray[Any]) -> NDArray[Any] | None:
    """Convert a column to a type of Foxglove, which has no 64-bit integers."""
    plain = numeric(values)
    return plain.astype("<f8") if plain is not None and plain.dtype.kind in "iu" and plain.itemsize == 8 else plain


def transforms_message(placed: list[tuple[str, str, Floats, Floats]], time_ns: int) -> bytes:
    """foxglove.FrameTransforms from parent, child, position [m] and orientation of each frame."""
    from foxglove.messages import FrameTransform, FrameTransforms, Quaternion, Vector3

    at = timestamp(time_ns)
    found = []
    for parent, child, xyz, quat in placed:
        found.append(
            FrameTransform(
                timestamp=at,
                parent_frame_id=parent,
                child_frame_id=child,
                translation=Vector3(**axes_of(xyz)),
                rotation=Quaternion(**axes_of(quat)),
            )
        )
    return packed(FrameTransforms(transforms=found))


def as_json(content: dict[str, Any]) -> bytes:
    """Serialize a message as JSON."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def time_fields(time_ns: int) -> dict[str, int]:
    """Time stamp [ns] as fields of a JSON message."""
    return {"sec": time_ns // 10**9, "nsec": time_ns % 10**9}


def schema_of(name: str) -> Any:
    """Schema of a Foxglove message, for example 'PointCloud'."""
    from foxglove import messages

    return getattr(messages, name).get_schema()


def json_schema(name: str, properties: dict[str, Any]) -> Any:
    """Schema of JSON messages."""
    from foxglove import Schema

    content = {"title": name, "type": "object", "properties": properties}
    return Schema(name=name, encoding="jsonschema", data=json.dumps(content).encode())


# ---- samples ---------------------------------------------------------------------------------------------------------


def samples_schema(samples: Samples) -> Any:
    """Schema of one sample of a stream sensor, with units and frames."""
    known = units(samples)
    properties: dict[str, Any] = {"timestamp": TIME_SCHEMA, "frame_id": {"type": "string"}}
    for name, axes in _sample_fields(samples).items():
        kind: dict[str, Any] = _NUMBER
        if axes:
            kind = {"type": "object", "properties": dict.fromkeys(axes, _NUMBER)}
        elif getattr(samples, name).ndim > 1:
            kind = {"type": "array", "items": _NUMBER}
        unit, frame = known[name]
        properties[name] = {**kind, "description": f"[{unit}] {frame}".strip()}
    return json_schema(f"parhelion.{type(samples).__name__}", properties)


def samples_content(samples: Samples) -> Iterator[tuple[float, dict[str, Any]]]:
    """Time [s] and fields of each sample; vectors have one entry per axis."""
    axes = _sample_fields(samples)
    columns = [_listed(getattr(samples, name)) for name in axes]
    for time_s, *values in zip(samples.time.tolist(), *columns, strict=True):
        pairs = zip(axes.items(), values, strict=True)
        yield time_s, {name: dict(zip(of, value, strict=True)) if of else value for (name, of), value in pairs}


def _listed(values: NDArray[Any]) -> list[Any]:
    """Values for JSON: null for NaN and infinity, 0 and 1 for booleans."""
    if values.dtype == bool:
        return list(values.astype(np.uint8).tolist())
    if values.dtype.kind == "f" and not np.all(np.isfinite(values)):
        found = values.astype(object)
        found[~np.isfinite(values)] = None
        return list(found.tolist())
    return list(values.tolist())


def _sample_fields(samples: Samples) -> dict[str, str]:
    """Fields with one row per sample except the time, and the axes of those that are vectors in space.

    Complex fields are skipped, because JSON has no complex numbers.
    """
    found = {}
    for one in fields(samples):
        shape, values = one.metadata.get("shape", ()), getattr(samples, one.name)
        if shape[:1] == ("n",) and one.name != "time" and values is not None and values.dtype.kind != "c":
            found[one.name] = {("n", 3): "xyz", ("n", 4): "xyzw"}.get(shape, "")
    return found
