"""ROS 2 messages as DDS types, made from their definitions, that take and give ready CDR bytes.

Cyclone checks every sample against the type that it was told, and newer ROS 2 peers compare types member by member
(XTypes), so a type says all its members; what is skipped is only the slow way from Python objects to bytes and back.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Any

from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.io.ros.types import definition_of, type_store

INSTALL_DDS = "live ROS 2 needs the package cyclonedds: pip install 'parhelion[ros]'"


def dds_topic(topic: str) -> str:
    """Name on the wire of a ROS 2 topic: '/points' is 'rt/points'."""
    return "rt/" + topic.lstrip("/")


def dds_type_name(name: str) -> str:
    """Name on the wire of a ROS 2 message: 'sensor_msgs/msg/Imu' is 'sensor_msgs::msg::dds_::Imu_'."""
    package, _, message = name.partition("/msg/")
    if not package or not message or "/" in package + message:
        raise ConfigError(f"{name!r} is no message of ROS 2: write it as in 'sensor_msgs/msg/Imu'")
    return f"{package}::msg::dds_::{message}_"


@cache
def dds_type(name: str) -> Any:
    """The DDS type of a message: an instance holds the CDR bytes of one in `cdr`."""
    definitions = _definitions()
    if name not in definitions:
        raise ConfigError(f"{name!r} is no message that ROS 2 Humble defines")
    try:
        from cyclonedds.idl import IdlStruct
        from cyclonedds.idl.annotations import final
    except ImportError:
        raise MissingDependencyError(INSTALL_DDS) from None
    members = {member: _member_type(node) for member, node in definitions[name][1]}

    def body(namespace: dict[str, Any]) -> None:
        namespace["__annotations__"] = members
        namespace.update(__init__=_init, serialize=_serialize)
        namespace["deserialize"] = namespace["deserialize_key"] = classmethod(_deserialize)

    typename = dds_type_name(name).replace("::", ".")
    return final(types.new_class(name.rpartition("/")[2], (IdlStruct,), {"typename": typename}, body))


def type_hash(name: str) -> str:
    """The hash of a message's definition (RIHS01), which peers from ROS 2 Iron on look for."""
    return definition_of(name)[1]


def _init(self: Any, cdr: bytes = b"") -> None:
    self.cdr = cdr


def _serialize(self: Any, *_: Any, **__: Any) -> bytes:
    return self.cdr  # type: ignore[no-any-return]


def _deserialize(cls: Any, data: bytes, *_: Any, **__: Any) -> Any:
    return cls(bytes(data))


def _definitions() -> Any:
    store = type_store()
    # The name changed between versions of rosbags.
    return getattr(store, "fielddefs", None) or store.FIELDDEFS


def _member_type(node: Any) -> Any:
    """The type of a member, from what the parser of definitions made of it."""
    from cyclonedds.idl import types as idl
    from rosbags.interfaces import Nodetype

    kind, what = node
    if kind == Nodetype.NAME:
        return dds_type(what)
    if kind == Nodetype.BASE:
        base, bound = what
        if base == "string":
            return idl.bounded_str[bound] if bound else str
        plain = {"bool": bool, "octet": idl.uint8, "byte": idl.uint8, "char": idl.uint8}
        return plain[base] if base in plain else getattr(idl, base)
    inner, count = what
    element = _member_type(inner)
    if kind == Nodetype.ARRAY:
        return idl.array[element, count]
    return idl.sequence[element, count] if count else idl.sequence[element]
