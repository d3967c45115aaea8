"""A second program on the bus, with hand-written types and the decoder of Cyclone's Python API.

    python dds_peer.py {"domain": 60, "topic": "/points", "kind": "PointCloud2", "count": 5, ...}

It prints "ready" once it listens, then one JSON line with the messages that it received.
"""

# Cyclone evaluates the annotations of its types, so they must not be postponed.
import hashlib
import json
import struct
import sys
import time
from dataclasses import dataclass
from typing import Any

from cyclonedds.core import DDSException
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import array, float32, float64, int32, sequence, uint8, uint32
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

CONFIGURATIONS = {
    # Settings of rmw_cyclonedds with ROS_LOCALHOST_ONLY=1.
    "localhost-only": "<General><Interfaces><NetworkInterface address='127.0.0.1'/></Interfaces></General>",
    # Settings with ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST and the loopback interface selected.
    "localhost-range": "<General><Interfaces><NetworkInterface name='lo'/></Interfaces>"
    "<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>"
    "<MaxAutoParticipantIndex>32</MaxAutoParticipantIndex><Peers><Peer address='localhost'/></Peers></Discovery>",
}


@dataclass
class Time_(IdlStruct, typename="builtin_interfaces.msg.dds_.Time_"):
    sec: int32
    nanosec: uint32


@dataclass
class Header_(IdlStruct, typename="std_msgs.msg.dds_.Header_"):
    stamp: Time_
    frame_id: str


@dataclass
class PointField_(IdlStruct, typename="sensor_msgs.msg.dds_.PointField_"):
    name: str
    offset: uint32
    datatype: uint8
    count: uint32


@dataclass
class PointCloud2_(IdlStruct, typename="sensor_msgs.msg.dds_.PointCloud2_"):
    header: Header_
    height: uint32
    width: uint32
    fields: sequence[PointField_]
    is_bigendian: bool
    point_step: uint32
    row_step: uint32
    data: sequence[uint8]
    is_dense: bool


@dataclass
class Vector3_(IdlStruct, typename="geometry_msgs.msg.dds_.Vector3_"):
    x: float64
    y: float64
    z: float64


@dataclass
class Quaternion_(IdlStruct, typename="geometry_msgs.msg.dds_.Quaternion_"):
    x: float64
    y: float64
    z: float64
    w: float64


@dataclass
class Transform_(IdlStruct, typename="geometry_msgs.msg.dds_.Transform_"):
    translation: Vector3_
    rotation: Quaternion_


@dataclass
class TransformStamped_(IdlStruct, typename="geometry_msgs.msg.dds_.TransformStamped_"):
    header: Header_
    child_frame_id: str
    transform: Transform_


@dataclass
class TFMessage_(IdlStruct, typename="tf2_msgs.msg.dds_.TFMessage_"):
    transforms: sequence[TransformStamped_]


@dataclass
class Imu_(IdlStruct, typename="sensor_msgs.msg.dds_.Imu_"):
    header: Header_
    orientation: Quaternion_
    orientation_covariance: array[float64, 9]
    angular_velocity: Vector3_
    angular_velocity_covariance: array[float64, 9]
    linear_acceleration: Vector3_
    linear_acceleration_covariance: array[float64, 9]


@dataclass
class Twist_(IdlStruct, typename="geometry_msgs.msg.dds_.Twist_"):
    linear: Vector3_
    angular: Vector3_


@dataclass
class Point_(IdlStruct, typename="geometry_msgs.msg.dds_.Point_"):
    x: float64
    y: float64
    z: float64


@dataclass
class Pose_(IdlStruct, typename="geometry_msgs.msg.dds_.Pose_"):
    position: Point_
    orientation: Quaternion_


@dataclass
class PoseWithCovariance_(IdlStruct, typename="geometry_msgs.msg.dds_.PoseWithCovariance_"):
    pose: Pose_
    covariance: array[float64, 36]


@dataclass
class ObjectHypothesis_(IdlStruct, typename="vision_msgs.msg.dds_.ObjectHypothesis_"):
    class_id: str
    score: float64


@dataclass
class ObjectHypothesisWithPose_(IdlStruct, typename="vision_msgs.msg.dds_.ObjectHypothesisWithPose_"):
    hypothesis: ObjectHypothesis_
    pose: PoseWithCovariance_


@dataclass
class BoundingBox3D_(IdlStruct, typename="vision_msgs.msg.dds_.BoundingBox3D_"):
    center: Pose_
    size: Vector3_


@dataclass
class Detection3D_(IdlStruct, typename="vision_msgs.msg.dds_.Detection3D_"):
    header: Header_
    results: sequence[ObjectHypothesisWithPose_]
    bbox: BoundingBox3D_
    id: str


@dataclass
class Detection3DArray_(IdlStruct, typename="vision_msgs.msg.dds_.Detection3DArray_"):
    header: Header_
    detections: sequence[Detection3D_]


@dataclass
class Range_(IdlStruct, typename="sensor_msgs.msg.dds_.Range_"):
    header: Header_
    radiation_type: uint8
    field_of_view: float32
    min_range: float32
    max_range: float32
    range: float32


@dataclass
class JazzyRange_(IdlStruct, typename="sensor_msgs.msg.dds_.Range_"):
    header: Header_
    radiation_type: uint8
    field_of_view: float32
    min_range: float32
    max_range: float32
    range: float32
    variance: float32


class Undecoded:
    """A cloud whose bytes are counted and not decoded, because the Python decoder is slow."""

    def __init__(self, data: bytes) -> None:
        self.size, self.number = len(data), struct.unpack_from("<i", data, 4)[0]


KINDS = {"PointCloud2": PointCloud2_, "Undecoded": PointCloud2_, "TFMessage": TFMessage_, "Imu": Imu_}
KINDS |= {"Detection3DArray": Detection3DArray_, "Range": Range_, "JazzyRange": JazzyRange_}


def summary_of(kind: str, sample: Any) -> Any:
    """Part of a message that goes into the report."""
    if kind == "PointCloud2":
        fields = {field.name: field.offset for field in sample.fields}
        digest = hashlib.sha256(bytes(sample.data)).hexdigest()
        return [sample.header.stamp.sec, sample.header.frame_id, sample.height * sample.width, fields, digest]
    if kind == "Undecoded":
        return [sample.number, sample.size]
    if kind == "TFMessage":
        return [
            [one.header.frame_id, one.child_frame_id, one.transform.translation.x] for one in sample.transforms
        ]  # fmt: skip
    if kind == "Detection3DArray":
        return [
            [one.results[0].hypothesis.class_id, one.id, one.bbox.center.position.x, one.bbox.size.z]
            for one in sample.detections
        ]
    if kind.endswith("Range"):
        return [sample.range, getattr(sample, "variance", None)]
    return [sample.linear_acceleration.z, sample.orientation_covariance[0]]


def listen(order: dict[str, Any], participant: DomainParticipant) -> None:
    kind = order["kind"]
    if kind == "Undecoded":
        PointCloud2_.deserialize = lambda data: Undecoded(data)
    qos = Qos(
        Policy.Reliability.Reliable(0) if order.get("reliable", True) else Policy.Reliability.BestEffort,
        Policy.Durability.TransientLocal if order.get("latched") else Policy.Durability.Volatile,
        Policy.History.KeepLast(order.get("depth", 5)),
    )
    topic = Topic(participant, "rt" + order["topic"], KINDS[kind])
    reader = DataReader(participant, topic, qos)
    print("ready", flush=True)
    got: list[Any] = []
    until = time.monotonic() + order.get("seconds", 8)
    first = last = 0.0
    while len(got) < order["count"] and time.monotonic() < until:
        for sample in reader.take(5):
            if not hasattr(sample, "sample_info") or not sample.sample_info.valid_data:
                continue
            last = time.monotonic()
            first = first or last
            got.append(summary_of(kind, sample))
        time.sleep(0.001)
    print(json.dumps({"got": got, "seconds": last - first}), flush=True)


def drive(order: dict[str, Any], participant: DomainParticipant) -> None:
    """Send Twist messages until asked to stop."""
    topic = Topic(participant, "rt" + order["topic"], Twist_)
    writer = DataWriter(participant, topic, Qos(Policy.Reliability.Reliable(0), Policy.History.KeepLast(1)))
    print("ready", flush=True)
    until = time.monotonic() + order["seconds"]
    while time.monotonic() < until:
        writer.write(Twist_(Vector3_(order["x"], 0.0, 0.0), Vector3_(0.0, 0.0, 0.0)))
        time.sleep(0.05)


def main() -> None:
    order = json.loads(sys.argv[1])
    inner = CONFIGURATIONS[order.get("configuration", "localhost-only")]
    inner += "<Internal><SocketReceiveBufferSize min='default' max='64 MiB'/></Internal>"
    try:
        domain = Domain(order["domain"], f"<CycloneDDS><Domain Id='any'>{inner}</Domain></CycloneDDS>")
        participant = DomainParticipant(order["domain"])
    except DDSException as error:
        sys.exit(str(error))
    (drive if order.get("drive") else listen)(order, participant)
    del participant, domain


if __name__ == "__main__":
    main()
