"""Interface of sensors and consumers: every kind with every consumer, and a new kind end to end."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader
from toy_sensors.thermometer import Thermometer

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.core.streams import Samples
from parhelion.gym.observations import OBSERVATIONS
from parhelion.live.viewer.layers import VIEWER
from parhelion.outputs.consumers import CONSUMERS, REPORT
from parhelion.outputs.ros.rules import ROS
from parhelion.outputs.topics import TOPICS
from parhelion.sensors import kinds
from parhelion.sensors.check import check_sensor
from parhelion.sensors.kinds import SensorKind, kind_named, register_kind

KINDS = sorted(kinds.kinds())


@pytest.fixture
def thermometer(user_package: None) -> SensorKind:
    return kind_named("thermometer")


# ---- kinds x readers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_every_reader_knows_every_kind_or_says_why_not(name: str) -> None:
    kind = kind_named(name)
    for consumer in (*CONSUMERS, REPORT[kind.output], VIEWER, OBSERVATIONS):
        assert consumer.covers(kind.record_type), f"{consumer.name} has neither a function nor a reason for {name}"
        if consumer.get(kind.record_type) is None:
            reason = consumer.reason(kind.record_type)
            assert reason is not None
            assert len(reason) > 20


def test_a_type_without_an_entry_is_an_error() -> None:
    class Smell:
        pass

    for consumer in (*CONSUMERS, OBSERVATIONS):
        assert not consumer.covers(Smell)
        with pytest.raises(ConfigError, match="no entry for records of type Smell"):
            consumer.get(Smell)


@pytest.mark.parametrize("name", KINDS)
def test_presets_of_every_kind_can_be_made_and_keep_the_contract(name: str) -> None:
    kind = kind_named(name)
    assert kind.summary
    assert issubclass(kind.record_type, Samples) == (kind.output == "samples")
    assert ph.sensors()[name] == kind.preset_names() == sorted(kind.preset_names()) != []
    motion = ph.ConstantTwist(ph.Pose((0, 0, 2)), velocity=(1.0, 0.2, 0.0))
    world = ph.World()
    world.add(ph.shapes.plane(50, 50), material="concrete", label="road")
    for k, (x, y) in enumerate([(9, 9), (9, -9), (-9, 9), (-9, -9)]):
        world.add(ph.shapes.box(0.1, 0.1, 0.1), material="plastic", name=f"anchor-{k}", pose=ph.Pose((x, y, 3.0 + k)))
    for preset in kind.preset_names()[:2]:
        sensor = kind.sensor(preset, name="it")
        assert isinstance(sensor.measure(world, motion, 0.0, 3), kind.record_type)
        check_sensor(sensor, world, motion)


def test_unknown_kinds_are_reported_with_the_nearest() -> None:
    fields = {"duration_s": 1, "world": "test-range", "sensors": [{"name": "a", "type": "lider", "model": "x"}]}
    with pytest.raises(ConfigError, match=r"type: must be one of lidar, .*imu.*did you mean 'lidar'"):
        ph.Scenario.from_mapping(fields)
    with pytest.raises(ConfigError, match="unknown type of sensor 'lider'"):
        kind_named("lider")
    with pytest.raises(ConfigError, match="'lidar' is a kind of Parhelion's own"):
        register_kind(kind_named("lidar"))


# ---- a new kind end to end -------------------------------------------------------------------------------------------


def scene(**more: Any) -> dict[str, Any]:
    return {
        "duration_s": 0.5, "seed": 4, "world": "test-range", "weather": {"rain_rate_mm_h": 0, "wind_m_s": [3, 4, 0]},
        "vehicles": [{"name": "robot", "model": "clearpath/husky", "follow": {"points": [[5, 1, 0]]}}],
        "sensors": [
            {"name": "lidar", "type": "lidar", "model": "sick/lms-111", "vehicle": "robot",
             "mount": {"xyz": [0, 0, 1]}},
            {"name": "odo", "type": "odometry", "model": "clearpath/husky", "vehicle": "robot"},
        ],
        **more,
    }  # fmt: skip


def test_a_new_kind_reaches_bag_csv_report_and_viewer(thermometer: SensorKind, tmp_path: Path) -> None:
    fields = scene()
    fields["sensors"].append({"name": "air", "type": "thermometer", "model": "toy/pt100", "rate_hz": 20})
    assert ph.sensors()["thermometer"] == ["toy/pt100"]
    for consumer in (*CONSUMERS, REPORT[thermometer.output], VIEWER, OBSERVATIONS):
        assert consumer.covers(thermometer.record_type)
    summary = ph.Scenario.from_mapping(fields).run(tmp_path / "out")
    rows = np.genfromtxt(tmp_path / "out" / "air.csv", delimiter=",", names=True)
    assert len(rows) == 10
    # 288.15 K minus 1 K for 5 m/s of wind: the sensor received the weather of the world.
    assert rows["temperature"].mean() == pytest.approx(287.15, abs=4 * 0.1 / np.sqrt(10))
    with AnyReader([tmp_path / "out" / "bag"]) as bag:
        connections = [one for one in bag.connections if one.topic == "/temperature"]
        stored = [bag.deserialize(raw, one.msgtype) for one, _, raw in bag.messages(connections)]
    assert [message.fluid_pressure for message in stored] == pytest.approx(rows["temperature"].tolist())
    assert summary.report is not None
    assert "air: temperature" in summary.report.read_text()
    from parhelion.live.viewer.stages import ScenarioStage

    stage = ScenarioStage(ph.Scenario.from_mapping(fields), time=0.3)
    shown = stage.measure(stage.places["lidar"])
    assert any(note.startswith("air: temperature 287") and note.endswith(" K") for note in shown.notes)


def test_records_that_ros_leaves_out_reach_foxglove(thermometer: SensorKind, tmp_path: Path) -> None:
    record = thermometer.record_type
    rule, topic = ROS.require(record), TOPICS.require(record)
    ROS.skip(record, "no driver has this message")
    TOPICS._table.pop(record)
    try:
        fields = scene(outputs=[{"kind": "bag"}, {"kind": "foxglove"}])
        fields["sensors"].append({"name": "air", "type": "thermometer", "model": "toy/pt100", "rate_hz": 20})
        ph.Scenario.from_mapping(fields).run(tmp_path / "out")
    finally:
        ROS.add(record, rule)
        TOPICS.add(record, topic)
    with (tmp_path / "out" / "foxglove.mcap").open("rb") as file:
        messages = [json.loads(message.data) for _, _, message in make_reader(file).iter_messages(["/air"])]
    assert len(messages) == 10
    assert {message["frame_id"] for message in messages} == {"air_link"}
    with AnyReader([tmp_path / "out" / "bag"]) as bag:
        assert "/air" not in bag.topics


def test_samples_are_written_as_npz_on_request(thermometer: SensorKind, tmp_path: Path) -> None:
    fields = scene()
    fields["sensors"] += [
        {"name": "air", "type": "thermometer", "model": "toy/pt100", "format": "npz"},
        {"name": "fix", "type": "gnss", "model": "u-blox/m8", "mount": {"xyz": [0, 0, 2]}, "format": "npz"},
    ]
    ph.Scenario.from_mapping(fields).run(tmp_path / "out")
    for name, record, rows in (("air", thermometer.record_type, 5), ("fix", ph.GnssData, 3)):
        assert len(record.load(tmp_path / "out" / f"{name}.npz")) == rows
    fields["sensors"][-1]["format"] = "bag"
    with pytest.raises(ConfigError, match="unknown format of samples 'bag'"):
        ph.Scenario.from_mapping(fields)


def test_the_new_kind_is_short() -> None:
    assert len(Path(inspect.getfile(Thermometer)).read_text().splitlines()) < 100


def test_the_new_kind_keeps_the_contract(thermometer: SensorKind) -> None:
    check_sensor(thermometer.sensor("toy/pt100"), ph.World(), ph.Fixed(ph.Pose()))


@pytest.mark.usefixtures("user_package")
def test_frames_of_a_new_type_reach_files_and_report(tmp_path: Path) -> None:
    fields = scene(outputs=[{"kind": "bag"}])
    fields["sensors"].append({"name": "depth", "type": "sounder", "model": "toy/sounder", "vehicle": "robot"})
    summary = ph.Scenario.from_mapping(fields).run(tmp_path / "out")
    assert [file.read_text() for file in sorted((tmp_path / "out" / "depth").iterdir())] == [
        "2.00", "2.10", "2.20", "2.30", "2.40",
    ]  # fmt: skip
    assert summary.report is not None
    assert "<p>depth: [2.0, 2.2, 2.4]</p>" in summary.report.read_text()


# ---- measured once ---------------------------------------------------------------------------------------------------


def test_samples_are_measured_once_for_all_readers(
    thermometer: SensorKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[int] = []
    real = Thermometer._samples

    def counted(self: Any, world: Any, motion: Any, first: int, count: int, *rest: Any) -> Any:
        measured.append(count)
        return real(self, world, motion, first, count, *rest)

    monkeypatch.setattr(Thermometer, "_samples", counted)
    fields = scene(outputs=[{"kind": "bag"}, {"kind": "foxglove"}])
    fields["sensors"].append({"name": "air", "type": "thermometer", "model": "toy/pt100", "vehicle": "robot"})
    ph.Scenario.from_mapping(fields).run(tmp_path / "out")
    # Foxglove measures one sample of a sensor at rest, for the schema.
    assert sum(measured) == 5 + 1


def test_wheel_odometry_accumulates_over_the_steps() -> None:
    scenario = ph.Scenario.from_mapping(scene(duration_s=3.0))
    steps = [step.samples("odo") for step in scenario]
    positions = np.concatenate([found.xyz for found in steps])
    ticks = np.concatenate([found.ticks for found in steps])
    whole = scenario.stream_sensor("odo").stream(scenario.world, scenario.seed).until(3.0)
    assert len(positions) == len(whole) > 50
    assert np.linalg.norm(positions[-1]) > 0.5
    assert positions == pytest.approx(whole.xyz, abs=1e-4)
    assert np.abs(ticks - whole.ticks).max() <= 1
    assert np.all(np.diff(np.linalg.norm(positions, axis=1)) > -1e-3)


def test_a_step_without_a_sample_gives_none(thermometer: SensorKind) -> None:
    fields = scene(duration_s=0.2, step_s=0.01)
    fields["sensors"].append({"name": "air", "type": "thermometer", "model": "toy/pt100", "rate_hz": 10})
    for name, expected in (("air", 2), ("odo", None)):
        counts = [len(step.samples(name)) for step in ph.Scenario.from_mapping(fields)]
        assert min(counts) == 0
        if expected is not None:
            assert sum(counts) == expected


def test_asking_late_gives_only_the_step_s_own_samples() -> None:
    fields = scene(duration_s=0.2, step_s=0.05)
    fields["sensors"].append({"name": "imu", "type": "imu", "model": "bosch/bmi160", "vehicle": "robot"})
    every = [step.samples("imu") for step in ph.Scenario.from_mapping(fields)]
    last = [step.samples("imu") for step in ph.Scenario.from_mapping(fields) if step.number == 3]
    assert np.array_equal(last[0].time, every[3].time)
    assert np.array_equal(last[0].specific_force, every[3].specific_force)


def test_a_preset_has_one_name_however_it_is_spelt() -> None:
    world = ph.World()
    world.add(ph.shapes.plane(50, 50), material="concrete", label="road", pose=ph.Pose((0, 0, -2)))
    one, other = (ph.Lidar(name).scan(world, pose=ph.Pose(), seed=3) for name in ("velodyne/vlp-16", "Velodyne/VLP-16"))
    assert one.metadata["sensor"] == other.metadata["sensor"] == "velodyne/vlp-16"
    assert np.array_equal(one.range, other.range)


def test_a_sheet_of_its_own_keeps_its_maker(tmp_path: Path) -> None:
    from parhelion.sensors.sheets import PRESETS

    own = tmp_path / "mine.yaml"
    own.write_text((PRESETS / "lidar" / "ouster" / "os1-32.yaml").read_text().replace("maker: ouster\n", ""))
    assert ph.Lidar(own).config.maker == "ouster"
    fields = scene(outputs=[{"kind": "bag"}, {"kind": "pcap"}], duration_s=0.2)
    fields["sensors"][0] |= {"model": str(own)}
    ph.Scenario.from_mapping(fields).run(tmp_path / "out")
    assert (tmp_path / "out" / "lidar.pcap").exists()
    with AnyReader([tmp_path / "out" / "bag"]) as bag:
        assert "/ouster/points" in bag.topics
