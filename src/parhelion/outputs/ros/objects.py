"""Ground truth of objects as ROS messages: boxes, poses and velocities, names of classes, and markers of places.

| topic | type | contents |
| --- | --- | --- |
| /ground_truth/objects | vision_msgs/Detection3DArray | boxes of all movable and dynamic objects, in `map` |
| /actors/<name>/odom | nav_msgs/Odometry | pose and velocity of a moving object |
| /tf | tf2_msgs/TFMessage | `map` to `actor/<number>-<name>` |
| /ground_truth/label_info | vision_msgs/LabelInfo | names of classes, once and after changes |

Detections of ground truth have the score 1 and no covariance. `id` is the number of the instance, as in masks and
clouds, and `class_id` is the name of the class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.image import OPTICAL, SeenObject
from parhelion.core.pose import quat_conjugate, quat_rotate
from parhelion.io.ros import messages as ros
from parhelion.io.ros.messages import Message, Transform, axes, pose_message
from parhelion.io.ros.types import encode, header, new
from parhelion.motion.boxes import Box, BoxTruth
from parhelion.motion.state import state_of
from parhelion.outputs.topics import MAP, actor_frame, ros_name

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario
    from parhelion.world.parts import WorldObject

OBJECTS, LABELS = "/ground_truth/objects", "/ground_truth/label_info"
OBJECTS_PERIOD_S = 0.1
"""Period of the truth of objects [s]; once per step if steps are longer."""
DETECTIONS_3D = "vision_msgs/msg/Detection3DArray"
DETECTIONS_2D = "vision_msgs/msg/Detection2DArray"
LABEL_INFO = "vision_msgs/msg/LabelInfo"
MARKERS = "visualization_msgs/msg/MarkerArray"
_SPHERE, _TEXT = 2, 9
_ANCHOR_M, _LETTER_M = 0.2, 0.3
_ANCHOR_COLOUR = (0.95, 0.55, 0.1, 1.0)


def _certain(class_id: str, pose: Any) -> Any:
    """Hypothesis of ground truth."""
    kind = new("vision_msgs/msg/ObjectHypothesis", class_id=class_id, score=1.0)
    placed = new("geometry_msgs/msg/PoseWithCovariance", pose=pose, covariance=np.zeros(36))
    return new("vision_msgs/msg/ObjectHypothesisWithPose", hypothesis=kind, pose=placed)


def detections_3d(time_ns: int, frame_id: str, boxes: Iterable[Box]) -> bytes:
    """vision_msgs/Detection3DArray of boxes: centre and size [m], orientation, label and instance."""
    top = header(time_ns, frame_id)
    found = []
    for box in boxes:
        pose = pose_message(box.centre, box.quat_xyzw)
        found.append(
            new(
                "vision_msgs/msg/Detection3D",
                header=top,
                results=[_certain(box.label, pose)],
                bbox=new("vision_msgs/msg/BoundingBox3D", center=pose, size=axes("Vector3", box.size)),
                id=str(box.instance),
            )
        )
    return encode(DETECTIONS_3D, new(DETECTIONS_3D, header=top, detections=found))


def detections_2d(time_ns: int, frame_id: str, objects: Iterable[SeenObject], names: Mapping[int, str]) -> bytes:
    """vision_msgs/Detection2DArray of the objects in an image: boxes of their visible parts [pixel].

    The pose of a hypothesis is the middle of the object's 3D box in the optical frame (x right, y down, z forward).
    """
    to_optical = OPTICAL.inverse()
    top = header(time_ns, frame_id)
    found = []
    for one in objects:
        left, upper, right, lower = one.visible_box
        point = new("vision_msgs/msg/Point2D", x=0.5 * (left + right), y=0.5 * (upper + lower))
        box = new(
            "vision_msgs/msg/BoundingBox2D",
            center=new("vision_msgs/msg/Pose2D", position=point, theta=0.0),
            size_x=float(right - left),
            size_y=float(lower - upper),
        )
        place = to_optical @ one.pose
        found.append(
            new(
                "vision_msgs/msg/Detection2D",
                header=top,
                results=[_certain(names.get(one.label, str(one.label)), pose_message(place.xyz, place.quat_xyzw))],
                bbox=box,
                id=str(one.instance),
            )
        )
    return encode(DETECTIONS_2D, new(DETECTIONS_2D, header=top, detections=found))


def label_info(time_ns: int, frame_id: str, names: Mapping[int, str]) -> bytes:
    """vision_msgs/LabelInfo: names of the numbers in label masks and in the field `label` of clouds."""
    classes = [new("vision_msgs/msg/VisionClass", class_id=number, class_name=name) for number, name in names.items()]
    info = new(LABEL_INFO, header=header(time_ns, frame_id), class_map=classes, threshold=0.0)
    return encode(LABEL_INFO, info)


def place_markers(time_ns: int, frame_id: str, space: str, places: Mapping[str, ArrayLike]) -> bytes:
    """visualization_msgs/MarkerArray: a sphere and its name at each place [m]."""
    none = new("builtin_interfaces/msg/Duration", sec=0, nanosec=0)
    upright = (0.0, 0.0, 0.0, 1.0)
    red, green, blue, alpha = _ANCHOR_COLOUR
    colour = new("std_msgs/msg/ColorRGBA", r=red, g=green, b=blue, a=alpha)
    found: list[Any] = []
    for name, xyz in places.items():
        above = np.asarray(xyz, np.float64) + np.array([0.0, 0.0, _ANCHOR_M + 0.5 * _LETTER_M])
        for kind, at, size, text in ((_SPHERE, xyz, _ANCHOR_M, ""), (_TEXT, above, _LETTER_M, name)):
            found.append(
                new(
                    "visualization_msgs/msg/Marker",
                    header=header(time_ns, frame_id),
                    ns=space,
                    id=len(found),
                    type=kind,
                    action=0,
                    pose=pose_message(at, upright),
                    scale=axes("Vector3", (size, size, size)),
                    color=colour,
                    lifetime=none,
                    frame_locked=False,
                    points=[],
                    colors=[],
                    texture_resource="",
                    texture=_no_texture(time_ns),
                    uv_coordinates=[],
                    text=text,
                    mesh_resource="",
                    mesh_file=new("visualization_msgs/msg/MeshFile", filename="", data=np.zeros(0, np.uint8)),
                    mesh_use_embedded_materials=False,
                )
            )
    return encode(MARKERS, new(MARKERS, markers=found))


def _no_texture(time_ns: int) -> Any:
    return new("sensor_msgs/msg/CompressedImage", header=header(time_ns, ""), format="", data=np.zeros(0, np.uint8))


# ---- truth of a scenario --------------------------------------------------------------------------------------------


class _Mover(NamedTuple):
    """A moving object: the main body of an instance."""

    item: WorldObject
    topic: str
    frame: str


class ObjectMessages:
    """Truth of the objects of a scenario at given times. Objects that are added or removed are taken into account."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._boxes = BoxTruth(scenario.world, mobility=("movable", "dynamic"), sensor=())
        self._version: Any = None
        self._movers: list[_Mover] = []
        self.restart()

    @property
    def advertised(self) -> dict[str, str]:
        """Topics that are always there, and their types."""
        return {OBJECTS: DETECTIONS_3D, LABELS: LABEL_INFO}

    def restart(self) -> None:
        """Restart together with the scenario."""
        self._names: dict[int, str] = {}
        self._pending: list[tuple[float, int]] = []

    def note(self, time_s: float, stamp_ns: int) -> Iterator[Message]:
        """Note a time [s] for which truth is due, which is now; return messages if objects were added or removed.

        Poses are computed for several times at once. Those of earlier times are computed with the objects of that time.
        """
        world = self._scenario.world
        if self._version != world.version:
            yield from self.noted()
            self._version, self._movers = world.version, self._found()
            self._boxes.refresh()
        if world.label_names != self._names:
            self._names = dict(world.label_names)
            yield Message(LABELS, LABEL_INFO, stamp_ns, label_info(stamp_ns, MAP, self._names))
        self._pending.append((time_s, stamp_ns))

    def noted(self) -> Iterator[Message]:
        """Messages of the noted times."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        times = np.array([time for time, _ in pending])
        for (_, stamp_ns), boxes in zip(pending, self._boxes.over(times, update=False), strict=True):
            yield Message(OBJECTS, DETECTIONS_3D, stamp_ns, detections_3d(stamp_ns, MAP, boxes))
        moved: dict[int, list[Transform]] = {stamp_ns: [] for _, stamp_ns in pending}
        for item, topic, frame in self._movers:
            assert item.trajectory is not None
            state = state_of(item.trajectory, times)
            velocity = quat_rotate(quat_conjugate(state.quat_xyzw), state.velocity)
            for row, (_, stamp_ns) in enumerate(pending):
                xyz, quat = state.xyz[row], state.quat_xyzw[row]
                moved[stamp_ns].append(Transform(MAP, frame, stamp_ns, xyz, quat))
                data = ros.odometry(stamp_ns, MAP, frame, xyz, quat, velocity[row], state.angular_velocity[row])
                yield Message(topic, ros.ODOMETRY, stamp_ns, data)
        for stamp_ns, transforms in moved.items():
            if transforms:
                yield Message("/tf", ros.TF, stamp_ns, ros.tf_message(transforms))

    def _found(self) -> list[_Mover]:
        """First object of each moving instance; vehicles have topics and frames of their own."""
        own = {robot.instance for robot in self._scenario.robots.values()}
        mains: dict[int, WorldObject] = {}
        for item in self._scenario.world.objects:
            if item.trajectory is not None and item.instance not in own:
                mains.setdefault(item.instance, item)
        # The parts of an actor are named 'walker/torso', 'walker/head' ...
        names = {number: ros_name(item.name.split("/")[0] or item.label) for number, item in mains.items()}
        count = Counter(names.values())
        found = []
        for number, item in mains.items():
            name = names[number] if count[names[number]] == 1 else f"{names[number]}_{number}"
            found.append(_Mover(item, f"/actors/{name}/odom", actor_frame(item)))
        return found
