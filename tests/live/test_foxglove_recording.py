"""A run as a recording for Foxglove, read with the package mcap and with a parser of the wire format only."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from mcap.exceptions import EndOfFile
from mcap.reader import make_reader
from mcap.records import Channel, Message
from mcap.stream_reader import StreamReader

pytest.importorskip("foxglove", reason="recordings for Foxglove need foxglove-sdk")
pytest.importorskip("websockets", reason="the rig speaks WebSocket")

from foxglove_rigs import cloud, entities, numbers, transforms, wire
from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError
from parhelion.outputs.foxglove.feed import MOST_PATH_POSES, FoxgloveFeed, FoxgloveSink, _Path
from parhelion.outputs.foxglove.messages import cloud_message
from parhelion.outputs.foxglove.scene import glb
from parhelion.scenario import Scenario
from run_rigs import ONE_WALL

FIELDS: dict[str, Any] = {
    "name": "yard",
    "seed": 7,
    "duration_s": 0.3,
    "world": "yard.yaml",
    "vehicles": [
        {"name": "husky", "model": "clearpath/husky", "start": {"xyz": [1, 2, 0], "rpy_deg": [0, 0, 30]},
         "follow": {"points": [[5, 5, 0]], "speed_m_s": 0.9}},
        {"name": "van", "motion": {"constant": {"xyz": [8, -6, 1], "velocity_m_s": [-3, 0, 0]}},
         "body": {"shape": {"kind": "box", "size_m": [4, 2, 2]}, "material": "brick", "label": "car"}},
    ],
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "husky",
         "mount": {"xyz": [0.1, 0, 0.8], "rpy_deg": [0, 5, 0]}, "options": {"sub_rays": 1}},
        {"name": "imu", "type": "imu", "model": "analog-devices/adis16470", "vehicle": "husky", "rate_hz": 200},
        {"name": "wheels", "type": "odometry", "model": "clearpath/husky", "vehicle": "husky"},
    ],
    "outputs": [{"kind": "foxglove"}],
}  # fmt: skip
IMU_ALONE = FIELDS["sensors"][1:2]


def scenario_in(folder: Path, **changes: Any) -> Scenario:
    (folder / "yard.yaml").write_text(yaml.safe_dump(ONE_WALL))
    return Scenario.from_mapping({**copy.deepcopy(FIELDS), **changes}, folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("yard")
    scenario_in(folder).run(folder / "out")
    return folder / "out"


def messages(run: Path, topic: str) -> list[Any]:
    with (run / "foxglove.mcap").open("rb") as file:
        return [message for _, _, message in make_reader(file).iter_messages([topic])]


@pytest.fixture(scope="module")
def scans(run: Path) -> list[Any]:
    return [scan for step in scenario_in(run.parent) for _, scan in step.scans.get("top", ())]


def test_topics_schemas_and_counts(run: Path) -> None:
    with (run / "foxglove.mcap").open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    assert summary.statistics is not None
    counts = summary.statistics.channel_message_counts
    found = {
        channel.topic: (summary.schemas[channel.schema_id].name, channel.message_encoding, counts.get(number, 0))
        for number, channel in summary.channels.items()
    }
    truth = {
        f"{name}/ground_truth/{what}": (f"foxglove.{kind}", "protobuf", count)
        for name in ("", "/van")
        for what, kind, count in (("pose", "PoseInFrame", 16), ("path", "PosesInFrame", 1))
    }
    assert found == {
        "/scene": ("foxglove.SceneUpdate", "protobuf", 1), "/boxes": ("foxglove.SceneUpdate", "protobuf", 4),
        "/tf": ("foxglove.FrameTransforms", "protobuf", 16), "/tf_static": ("foxglove.FrameTransforms", "protobuf", 1),
        "/velodyne_points": ("foxglove.PointCloud", "protobuf", 3), "/names": ("parhelion.Names", "json", 1),
        "/clock": ("parhelion.Clock", "json", 16), "/imu/data": ("parhelion.ImuData", "json", 60),
        "/odom": ("parhelion.OdometryData", "json", 15), **truth,
    }  # fmt: skip


def test_clouds_equal_the_scans_to_the_bit(run: Path, scans: list[Any]) -> None:
    found = messages(run, "/velodyne_points")
    assert len(found) == len(scans) == 3
    for message, scan in zip(found, scans, strict=True):
        got = cloud(message.data)
        assert len(got.points) == len(scan) > 1000
        assert got.time_ns == round(scan.start_time * 1e9) <= message.log_time
        assert got.frame == "velodyne"
        for axis, name in enumerate("xyz"):
            assert np.array_equal(got.points[name], scan.xyz[:, axis])
            assert np.array_equal(got.points[f"velocity_{name}"], scan.velocity[:, axis])
        plain = [name for name in scan.fields if name != "velocity"]
        assert set(got.points.dtype.names) == {*"xyz", "velocity_x", "velocity_y", "velocity_z", *plain}
        for name in plain:
            assert np.array_equal(got.points[name], scan.fields[name]), name
            assert got.points[name].dtype == scan.fields[name].dtype


def test_frames_carry_points_into_the_world(run: Path, scans: list[Any]) -> None:
    mounted = transforms(messages(run, "/tf_static")[0].data)
    assert mounted["velodyne"][0] == "base_link"
    assert mounted["velodyne"][1] == pytest.approx([0.1, 0, 0.8])
    later = next(message for message in messages(run, "/tf") if message.log_time == 200_000_000)
    moved = transforms(later.data)
    assert set(moved) == {"base_link", "van/base_link", "actor/2-van"}
    assert moved["actor/2-van"][:2] == ("map", pytest.approx([8 - 0.6, -6, 1]))
    truth = scans[2].motion.sample(np.array([0.2]))[0][0]
    from parhelion.core.pose import Pose

    base, mount = Pose(*moved["base_link"][1:]), Pose(*mounted["velodyne"][1:])
    assert (base @ mount).xyz == pytest.approx(truth, abs=1e-6)


def test_the_scene_is_models_that_another_program_reads(run: Path) -> None:
    import trimesh

    found = {entity.name: entity for entity in entities(messages(run, "/scene")[0].data)}
    assert {name: entity.frame for name, entity in found.items()} == {"world": "map", "actor/2-van": "actor/2-van"}
    loaded = trimesh.load(io.BytesIO(found["world"].models[0]), file_type="glb")
    low, high = loaded.bounds
    # glTF has y up: x, y, z of the world are x, -z, y of the model.
    assert low == pytest.approx([-30, 0, -30], abs=1e-5)
    assert high == pytest.approx([30, 4, 30], abs=1e-5)
    assert sum(len(mesh.faces) for mesh in loaded.geometry.values()) == 2 + 12
    van = trimesh.load(io.BytesIO(found["actor/2-van"].models[0]), file_type="glb")
    assert van.extents == pytest.approx([4, 2, 2], abs=1e-5)


def test_boxes_lie_around_what_moves(run: Path) -> None:
    for message in messages(run, "/boxes"):
        (box,) = entities(message.data)
        place, turn, size = box.cubes[0]
        assert box.frame == "map"
        assert place == pytest.approx([8 - 3e-9 * message.log_time, -6, 1], abs=1e-6)
        assert np.abs(turn) == pytest.approx([0, 0, 0, 1])
        assert size == pytest.approx([4, 2, 2])


def test_samples_are_those_of_the_sensor(run: Path) -> None:
    scenario = scenario_in(run.parent)
    for _ in scenario:
        pass
    data = scenario.stream_sensor("imu").stream(scenario.world, scenario.seed).until(0.3)
    found = [json.loads(message.data) for message in messages(run, "/imu/data")]
    rates = np.array([[one["angular_rate"][axis] for axis in "xyz"] for one in found])
    assert rates == pytest.approx(data.angular_rate, abs=1e-9)
    assert [one["timestamp"]["nsec"] for one in found] == [round(t * 1e9) for t in data.time]
    names = json.loads(messages(run, "/names")[0].data)
    assert names["label"]["40"] == "road"
    assert names["origin"]["0"] == "surface"


def test_the_way_so_far_ends_where_the_vehicle_is() -> None:
    path = _Path()
    for k in range(3 * MOST_PATH_POSES + 1):
        path.add(np.array([0.1 * k, 0.0, 0.0]), np.array([0.0, 0.0, 0.0, 1.0]))
    places = [numbers(wire(pose).get(1, [b""])[0], 3)[0] for pose in wire(path.message(5))[3]]
    assert len(places) <= MOST_PATH_POSES + 1
    assert places[0] == 0.0
    assert places[-1] == pytest.approx(300.0)
    assert np.diff(places).min() > 0


def test_another_run_gives_the_same_bits(run: Path, tmp_path: Path) -> None:
    scenario_in(tmp_path).run(tmp_path / "out")
    digests = [hashlib.sha256((at / "foxglove.mcap").read_bytes()).digest() for at in (run, tmp_path / "out")]
    assert digests[0] == digests[1]


def test_an_earlier_recording_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    scenario = scenario_in(tmp_path, sensors=IMU_ALONE)
    (tmp_path / "foxglove.mcap").write_bytes(b"earlier")
    sink = FoxgloveSink(scenario, tmp_path)
    sink.abandon()
    assert (tmp_path / "foxglove.mcap").read_bytes() == b"earlier"
    sink = FoxgloveSink(scenario, tmp_path)
    for step in scenario:
        sink.take(step)
    assert (tmp_path / "foxglove.mcap").read_bytes() == b"earlier"
    assert sink.close() == [tmp_path / "foxglove.mcap"]
    assert len(messages(tmp_path, "/tf")) == 16
    assert [file.name for file in tmp_path.glob("*.mcap")] == ["foxglove.mcap"]


def test_a_run_that_stops_leaves_a_whole_file(tmp_path: Path) -> None:
    scenario = scenario_in(tmp_path, sensors=IMU_ALONE, duration_s=3.0)
    sink = FoxgloveSink(scenario, tmp_path)
    for step in scenario:
        sink.take(step)
        if step.time >= 1.5:
            break
    sink.abandon()
    assert messages(tmp_path, "/clock")[-1].log_time == 1_500_000_000


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    scenario = scenario_in(tmp_path, sensors=IMU_ALONE)
    with pytest.raises(FormatError, match=r"none/foxglove.mcap: cannot be written"):
        FoxgloveSink(scenario, tmp_path / "none")
    (tmp_path / "foxglove.mcap").mkdir()
    with pytest.raises(FormatError, match="is a folder"):
        FoxgloveSink(scenario, tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk without room")
def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    scenario = scenario_in(tmp_path, sensors=IMU_ALONE)
    (tmp_path / "foxglove.mcap").symlink_to("/dev/full")
    # A link to a device: the recording is written next to the link target, so that location is full too.
    (tmp_path / "foxglove.new.mcap").symlink_to("/dev/full")
    with pytest.raises(FormatError, match=r"foxglove.mcap: cannot be written \(No space left"):
        FoxgloveSink(scenario, tmp_path).close()


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = [sys.argv[2], sys.argv[2] + "/live"]
from test_foxglove_recording import scenario_in
from parhelion.outputs.foxglove.feed import FoxgloveSink

scenario = scenario_in(Path(sys.argv[1]), duration_s=9.0)
sink = FoxgloveSink(scenario, Path(sys.argv[1]))
for step in scenario:
    sink.take(step)
    if step.time > 1.3:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_leaves_all_but_the_last_chunk(tmp_path: Path) -> None:
    tests = str(Path(__file__).parent.parent)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), tests], timeout=60, env=os.environ)
    assert ended.returncode == -signal.SIGKILL
    topics: dict[int, str] = {}
    clouds = []
    with (tmp_path / "foxglove.mcap").open("rb") as file, suppress(EndOfFile):
        for record in StreamReader(file).records:
            if isinstance(record, Channel):
                topics[record.id] = record.topic
            elif isinstance(record, Message) and topics[record.channel_id] == "/velodyne_points":
                clouds.append(cloud(record.data))
    # The last of the ten clouds of the first second may be in a chunk that is not complete.
    assert len(clouds) >= 9
    assert [round(one.time_ns / 1e8) for one in clouds] == list(range(len(clouds)))


def test_empty_and_coloured_clouds() -> None:
    empty = cloud(cloud_message(PointCloud(np.zeros((0, 3), np.float32)), "lidar", 5))
    assert (len(empty.points), empty.frame, empty.time_ns) == (0, "lidar", 5)
    fields = {"rgb": np.array([[1, 2, 3]], np.uint8), "number": np.array([7], np.int64), "flag": np.array([True])}
    got = cloud(cloud_message(PointCloud(np.ones((1, 3)), fields), "lidar", 0)).points
    assert [got[name][0] for name in ("red", "green", "blue", "number", "flag")] == [1, 2, 3, 7, 1]
    assert got["x"].dtype == np.float64


def test_large_clouds_are_packed_without_delay() -> None:
    count = 128 * 1024
    values = {f"field{k}": np.zeros(count, np.float32) for k in range(9)}
    big = PointCloud(np.zeros((count, 3), np.float32), values)
    cloud_message(big, "lidar", 0)
    began = time.perf_counter()
    assert len(cloud_message(big, "lidar", 0)) > 48 * count
    # About 10 ms on one idle core; ten revolutions per second leave 100 ms.
    assert time.perf_counter() - began < 0.1


def test_a_model_is_a_whole_file_seen_from_both_sides(tmp_path: Path) -> None:
    import trimesh

    feed = FoxgloveFeed(scenario_in(tmp_path, sensors=IMU_ALONE))
    item = next(item for item in feed.scenario.world.objects if item.is_actor)
    data = glb(item.parts)
    assert len(data) % 4 == 0
    assert int.from_bytes(data[8:12], "little") == len(data)
    (mesh,) = trimesh.load(io.BytesIO(data), file_type="glb").geometry.values()
    assert mesh.visual.material.doubleSided


def test_protocol_buffers_decodes_every_message_by_the_schemas_in_the_file(run: Path) -> None:
    pytest.importorskip("google.protobuf", reason="the decoder of others is protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds: dict[str, Any] = {}
    counts: dict[str, int] = {}
    with (run / "foxglove.mcap").open("rb") as file:
        for schema, channel, message in make_reader(file).iter_messages():
            assert schema is not None
            if channel.message_encoding != "protobuf":
                assert schema.encoding == "jsonschema"
                assert set(json.loads(message.data)) <= set(json.loads(schema.data)["properties"])
                continue
            if schema.name not in kinds:
                pool = descriptor_pool.DescriptorPool()
                for part in descriptor_pb2.FileDescriptorSet.FromString(schema.data).file:
                    pool.Add(part)
                kinds[schema.name] = message_factory.GetMessageClass(pool.FindMessageTypeByName(schema.name))
            decoded = kinds[schema.name].FromString(message.data)
            if channel.topic == "/velodyne_points":
                assert len(decoded.data) == decoded.point_stride * len(cloud(message.data).points)
            counts[channel.topic] = counts.get(channel.topic, 0) + 1
    assert counts["/velodyne_points"] == 3
    assert counts["/scene"] == 1
