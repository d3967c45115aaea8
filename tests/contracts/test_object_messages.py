"""Truth of objects as ROS messages: boxes against closed forms, points and masks; poses, anchors, and distributions."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rosbags.highlevel import AnyReader

from parhelion.core.errors import ConfigError
from parhelion.core.image import OPTICAL, Image
from parhelion.core.pose import Pose
from parhelion.io.ros import BagReader, decode
from parhelion.io.ros import messages as ros
from parhelion.io.ros.types import definition_of
from parhelion.outputs.foxglove.feed import FoxgloveFeed
from parhelion.outputs.ros import objects as truth
from parhelion.outputs.ros.feed import RosFeed
from parhelion.scenario import Scenario

pytestmark = pytest.mark.slow

SPEED_M_S, TURN_DEG_S, HEADING_DEG = 4.0, 30.0, 20.0
SIZE_M = (2.0, 1.0, 1.5)
EYE = Pose((0.0, 0.0, 1.6))
ANCHORS = {"north": [0, 9, 3], "east": [9, 0, 3], "roof-1": [-9, -3, 4]}
SCENE: dict[str, Any] = {
    "name": "objects", "seed": 4, "duration_s": 0.35, "world": "empty.yaml",
    "objects": [
        {"shape": {"kind": "plane", "size_m": [40, 40]}, "material": "concrete", "label": "road"},
        {"shape": {"kind": "box", "size_m": [0.5, 0.5, 1]}, "pose": {"xyz": [5, -3, 0.5], "rpy_deg": [0, 0, 30]},
         "material": "steel", "label": "machine", "mobility": "movable"},
    ],
    "actors": [
        {"name": "cart 1", "shape": {"kind": "box", "size_m": list(SIZE_M)}, "label": "truck", "material": "steel",
         "trajectory": {"constant": {"xyz": [6, 2, 0.75], "rpy_deg": [0, 0, HEADING_DEG],
                                     "velocity_m_s": [SPEED_M_S, 0, 0], "turn_rate_deg_s": TURN_DEG_S}}},
    ],
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [0, 0, 1.2]},
         "options": {"sub_rays": 1}},
        {"name": "eye", "type": "camera", "model": "generic/vga", "mount": {"xyz": [0, 0, 1.6]}, "rate_hz": 5,
         "options": {"width": 160, "samples": 1, "picture": False, "truth": ["label", "instance", "objects"]}},
        {"name": "tag", "type": "uwb", "model": "qorvo/dw1000", "mount": {"xyz": [1, 1, 1]},
         "options": {"anchors": ANCHORS}},
    ],
    "outputs": [{"kind": "bag"}],
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("objects")
    (folder / "empty.yaml").write_text("name: empty\n")
    Scenario.from_mapping(SCENE, folder).run(folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def sent(run: Path) -> dict[str, list[Any]]:
    """Decoded messages by topic."""
    found = defaultdict(list)
    for message in BagReader(run / "bag"):
        found[message.topic].append(decode(message.type, message.data))
    return found


def xyz(vector: Any) -> list[float]:
    return [vector.x, vector.y, vector.z]


def yaw(quat: Any) -> float:
    assert (quat.x, quat.y) == (0.0, 0.0)
    return 2.0 * math.atan2(quat.z, quat.w)


def seconds(message: Any) -> float:
    return ros.nanoseconds(message.header.stamp) / 1e9


def test_boxes_are_those_of_the_closed_form(sent: dict[str, list[Any]]) -> None:
    """A box that turns about its middle, and one that rests; the road is static and has no box."""
    found = sent["/ground_truth/objects"]
    assert [seconds(one) for one in found] == [0.0, 0.1, 0.2, 0.3]
    for array in found:
        assert array.header.frame_id == "map"
        by_class = {one.results[0].hypothesis.class_id: one for one in array.detections}
        assert set(by_class) == {"truck", "machine"}
        time, moving, still = seconds(array), by_class["truck"], by_class["machine"]
        assert xyz(moving.bbox.center.position) == pytest.approx([6 + SPEED_M_S * time, 2.0, 0.75], abs=1e-9)
        assert xyz(moving.bbox.size) == pytest.approx(SIZE_M, abs=1e-9)
        assert yaw(moving.bbox.center.orientation) == pytest.approx(math.radians(HEADING_DEG + TURN_DEG_S * time))
        assert xyz(still.bbox.center.position) == pytest.approx([5, -3, 0.5])
        assert yaw(still.bbox.center.orientation) == pytest.approx(math.radians(30))
        assert moving.results[0].hypothesis.score == 1.0
        assert moving.results[0].pose.pose == moving.bbox.center


def test_points_of_an_instance_lie_on_its_box(sent: dict[str, list[Any]], run: Path) -> None:
    import parhelion as ph

    cloud = ph.PointCloud.load(run / "top" / "000001.pcd")
    for box in sent["/ground_truth/objects"][1].detections:
        mine = cloud.fields["instance"] == int(box.id)
        assert mine.sum() > 20, box.results[0].hypothesis.class_id
        turning = box.results[0].hypothesis.class_id == "truck"
        # Each point at the time of its own shot; range noise of a VLP-16 is 3 cm at most.
        late = cloud.time[mine, None] if turning else np.zeros((int(mine.sum()), 1))
        at = cloud.xyz[mine] + [0, 0, 1.2] - xyz(box.bbox.center.position) - late * [SPEED_M_S, 0, 0]
        heading = yaw(box.bbox.center.orientation) + math.radians(TURN_DEG_S) * late[:, 0]
        local = np.stack([
            np.cos(heading) * at[:, 0] + np.sin(heading) * at[:, 1],
            np.cos(heading) * at[:, 1] - np.sin(heading) * at[:, 0], at[:, 2],
        ], axis=1)  # fmt: skip
        outside = np.abs(local) - 0.5 * np.array(xyz(box.bbox.size))
        assert outside.max() < 0.12
        assert np.median(np.abs(outside.max(axis=1))) < 0.03


def test_moving_objects_have_a_pose_a_velocity_and_a_frame(sent: dict[str, list[Any]]) -> None:
    found = sent["/actors/cart_1/odom"]
    assert [seconds(one) for one in found] == [0.0, 0.1, 0.2, 0.3]
    frames = {one.child_frame_id for one in found}
    assert len(frames) == 1
    assert next(iter(frames)).endswith("-cart 1")
    for one in found:
        heading = math.radians(HEADING_DEG + TURN_DEG_S * seconds(one))
        assert xyz(one.pose.pose.position) == pytest.approx([6 + SPEED_M_S * seconds(one), 2.0, 0.75], abs=1e-9)
        # The twist is in the frame of the object.
        body = [SPEED_M_S * math.cos(heading), -SPEED_M_S * math.sin(heading), 0.0]
        assert xyz(one.twist.twist.linear) == pytest.approx(body, abs=1e-5)
        assert xyz(one.twist.twist.angular) == pytest.approx([0, 0, math.radians(TURN_DEG_S)], abs=1e-5)
    moved = [one for message in sent["/tf"] for one in message.transforms if one.child_frame_id in frames]
    assert [xyz(one.transform.translation) for one in moved] == [xyz(one.pose.pose.position) for one in found]


def test_boxes_in_pictures_are_those_of_the_masks(sent: dict[str, list[Any]]) -> None:
    names = {one.class_id: one.class_name for one in sent["/ground_truth/label_info"][0].class_map}
    assert {"road", "truck", "machine"} <= set(names.values())
    found = sent["/eye/ground_truth/objects"]
    masks = zip(sent["/eye/ground_truth/instance/image_raw"], sent["/eye/ground_truth/label/image_raw"], strict=True)
    assert len(found) == 2
    for array, (instance, label) in zip(found, masks, strict=True):
        assert array.header == instance.header
        assert array.header.frame_id == "eye_optical_frame"
        numbers = instance.data.view("<i4").reshape(instance.height, instance.width)
        labels = label.data.view("<u2").reshape(label.height, label.width)
        assert {one.results[0].hypothesis.class_id for one in array.detections} >= {"truck", "machine"}
        for one in array.detections:
            rows, columns = np.nonzero(numbers == int(one.id))
            box, centre = one.bbox, one.bbox.center.position
            assert centre.x - 0.5 * box.size_x == columns.min()
            assert centre.x + 0.5 * box.size_x == columns.max() + 1
            assert centre.y - 0.5 * box.size_y == rows.min()
            assert centre.y + 0.5 * box.size_y == rows.max() + 1
            assert {names[value] for value in labels[rows, columns]} == {one.results[0].hypothesis.class_id}


def test_poses_in_pictures_are_those_of_the_boxes(sent: dict[str, list[Any]]) -> None:
    # A rolling shutter exposes the middle row later than the header's time; here the resting object is compared.
    space = {one.id: one for one in sent["/ground_truth/objects"][0].detections}
    seen = {one.id: one for one in sent["/eye/ground_truth/objects"][0].detections}
    number = next(key for key, one in space.items() if one.results[0].hypothesis.class_id == "machine")
    in_map = (EYE @ OPTICAL).apply(np.array([xyz(seen[number].results[0].pose.pose.position)]))
    assert in_map[0].tolist() == pytest.approx(xyz(space[number].bbox.center.position), abs=1e-6)


def test_anchors_are_markers_and_frames(sent: dict[str, list[Any]], run: Path) -> None:
    markers = sent["/uwb/anchors"]
    assert len(markers) == 1
    spheres = [one for one in markers[0].markers if one.type == 2]
    texts = [one.text for one in markers[0].markers if one.type == 9]
    assert [xyz(one.pose.position) for one in spheres] == list(ANCHORS.values())
    assert texts == list(ANCHORS)
    assert len({one.id for one in markers[0].markers}) == 2 * len(ANCHORS)
    fixed = {one.child_frame_id: one for message in sent["/tf_static"] for one in message.transforms}
    for name, place in ANCHORS.items():
        assert fixed[f"anchor/{name}"].header.frame_id == "map"
        assert xyz(fixed[f"anchor/{name}"].transform.translation) == place
    # Late subscribers of a played bag receive them, too.
    about = yaml.safe_load((run / "bag" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    topics = [one["topic_metadata"] for one in about["topics_with_message_count"]]
    latched = {one["name"] for one in topics if "durability: 1" in one["offered_qos_profiles"]}
    assert latched == {"/tf_static", "/uwb/anchors", "/ground_truth/label_info"}


def test_another_reader_decodes_them_by_the_definitions_in_the_bag(run: Path) -> None:
    with AnyReader([run / "bag"]) as reader:
        kinds = {}
        for connection, _, data in reader.messages():
            kinds[connection.topic] = reader.deserialize(data, connection.msgtype)
    assert kinds["/ground_truth/objects"].detections[0].bbox.size.x > 0.0
    assert kinds["/uwb/anchors"].markers[0].ns == "anchors"


def test_foxglove_has_the_same_frames_and_boxes(run: Path) -> None:
    pytest.importorskip("foxglove", reason="needs foxglove-sdk")
    scenario = Scenario.from_mapping({**SCENE, "outputs": []}, run.parent)
    feed = FoxgloveFeed(scenario)
    first = {message.topic: message.data for message in feed.first()}
    data = first["/tf_static"]
    assert all(f"anchor/{name}".encode() in (data() if callable(data) else data) for name in ANCHORS)
    boxes = [message for step in scenario for message in feed.of(step) if message.topic == "/boxes"]
    assert len(boxes) == 4
    assert b"truck" in boxes[0].data
    assert b"road" not in boxes[0].data


def test_they_can_be_left_out(run: Path) -> None:
    feed = RosFeed(Scenario.from_mapping({**SCENE, "outputs": []}, run.parent), objects=False)
    topics = {message.topic for step in feed.scenario for message in feed.of(step)}
    assert not topics & {"/ground_truth/objects", "/actors/cart_1/odom", "/ground_truth/label_info"}
    assert feed.advertised_truth == {}


def test_objects_that_come_and_go(run: Path) -> None:
    scenario = Scenario.from_mapping({**SCENE, "outputs": [], "sensors": SCENE["sensors"][:1]}, run.parent)
    feed = RosFeed(scenario)
    feed.first()
    counts, names = [], []
    for step in scenario:
        for message in feed.of(step):
            if message.topic == truth.OBJECTS:
                counts.append(len(decode(message.type, message.data).detections))
            if message.topic == truth.LABELS:
                names.append({one.class_name for one in decode(message.type, message.data).class_map})
        if step.number == 14:  # 0.15 s
            import parhelion as ph

            step.world.add_actor(
                ph.shapes.box(1, 1, 1), material="steel", label="bus", trajectory=ph.Fixed(ph.Pose((0, 5, 0.5)))
            )
    assert counts == [2, 2, 3, 3]
    assert len(names) == 2
    assert names[1] - names[0] == {"bus"}


# ---- definitions and distributions ----------------------------------------------------------------------------------


def test_definitions_have_the_hashes_that_ros_publishes() -> None:
    """RIHS01 as in the installed packages of ROS 2 Jazzy (vision_msgs 4.1, ackermann_msgs 2.0, common_interfaces)."""
    assert definition_of("vision_msgs/msg/Detection3DArray")[1] == (
        "RIHS01_793f5eab9595ac1c0da07873cc859db42eae51f0ee76056db8562515d830e018"
    )
    assert definition_of("visualization_msgs/msg/MarkerArray")[1] == (
        "RIHS01_86cb8800b6fb05b5eff1abd7a56f62a5641d3ae9a1c29e78e67e704f1d067dcf"
    )
    assert definition_of("ackermann_msgs/msg/AckermannDriveStamped")[1] == (
        "RIHS01_48ca7612a08d3bb72744fd98b71b7cf2ea24c6ad50fa4e1aa0bbad963c90d8cf"
    )
    assert definition_of(ros.RANGE, "jazzy")[1] == (
        "RIHS01_b42b62562e93cbfe9d42b82fe5994dfa3d63d7d5c90a317981703f7388adff3a"
    )
    assert definition_of(ros.RANGE)[1] != definition_of(ros.RANGE, "jazzy")[1]
    assert definition_of(ros.IMU) == definition_of(ros.IMU, "jazzy")


@pytest.mark.parametrize("distro", ["humble", "jazzy"])
def test_ranges_have_the_layout_of_the_distribution(distro: str, tmp_path: Path) -> None:
    data = ros.range_message(1.5, (0.2, 4.0), 0.3, "sonar", 1_000_000_000, distro=distro)
    bare = len(ros.range_message(1.5, (0.2, 4.0), 0.3, "sonar", 1_000_000_000))
    assert len(data) == bare + (4 if distro == "jazzy" else 0)
    found = decode(ros.RANGE, data)
    assert (found.range, found.field_of_view) == (1.5, pytest.approx(0.3))
    assert hasattr(found, "variance") == (distro == "jazzy")
    sonar = {"name": "sonar", "type": "echo", "model": "generic/ultrasonic-ranger", "mount": {"xyz": [0, 0, 1]}}
    (tmp_path / "empty.yaml").write_text("name: empty\n")
    scene = {**SCENE, "sensors": [sonar], "actors": [], "duration_s": 0.2}
    scenario = Scenario.from_mapping({**scene, "outputs": [{"kind": "bag", "ros_distro": distro}]}, tmp_path)
    scenario.run(tmp_path / "out")
    assert f"ros_distro: {distro}" in (tmp_path / "out" / "bag" / "metadata.yaml").read_text()
    bag = BagReader(tmp_path / "out" / "bag")
    assert ("float32 variance" in bag.topics["/sonar/range"].definition) == (distro == "jazzy")
    assert bag.topics["/sonar/range"].hash == definition_of(ros.RANGE, distro)[1]
    with AnyReader([tmp_path / "out" / "bag"]) as reader:
        chosen = [one for one in reader.connections if one.topic == "/sonar/range"]
        ranges = [reader.deserialize(data, one.msgtype) for one, _, data in reader.messages(chosen)]
    assert ranges
    assert {hasattr(one, "variance") for one in ranges} == {distro == "jazzy"}


def test_unknown_distributions_are_refused(run: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected humble, iron, jazzy, .*got 'foxy'"):
        RosFeed(Scenario.from_mapping({**SCENE, "outputs": []}, run.parent), distro="foxy")


def test_pictures_are_sent_raw_and_compressed_side_by_side(user_package: None, run: Path) -> None:
    camera = {"name": "eye", "type": "toy-camera", "model": "toy/colour", "mount": {"xyz": [0, 0, 1.5]}}
    scenario = Scenario.from_mapping({**SCENE, "outputs": [], "sensors": [camera], "duration_s": 0.2}, run.parent)
    feed = RosFeed(scenario, images="raw+png")
    assert set(feed.advertised) == {"/eye/image_raw", "/eye/image_raw/compressed", "/eye/camera_info"}
    found: dict[str, Any] = {}
    shots: list[Image] = []
    for step in scenario:
        shots += [image for _, image in step.frames.get("eye", ())]
        found |= {one.topic: decode(one.type, one.data) for one in feed.of(step)}
    raw, packed = found["/eye/image_raw"], found["/eye/image_raw/compressed"]
    assert raw.header == packed.header
    from io import BytesIO

    from PIL import Image as Picture

    pixels = np.asarray(Picture.open(BytesIO(packed.data.tobytes())))
    np.testing.assert_array_equal(pixels, raw.data.reshape(pixels.shape))
    np.testing.assert_array_equal(pixels, shots[-1].colour)
