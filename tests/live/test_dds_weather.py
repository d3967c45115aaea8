"""Weather and daylight of a stream by topics: visible in the next scan, published, logged, and equal in a replay."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dds_rigs import DOMAIN

pytest.importorskip("cyclonedds", reason="live ROS 2 needs cyclonedds")
pytest.importorskip("rosbags", reason="ROS messages need rosbags")

import yaml
from typer.testing import CliRunner

from control_rigs import YARD, yard
from parhelion.cli.app import app
from parhelion.io.ros.types import Message, decode, encode, new
from parhelion.live.pacing import PacedRun
from parhelion.live.ros import FLOAT, STATE, STRING, AirControl
from parhelion.live.simulation import AirTopics
from parhelion.scenario.control import Control
from parhelion.scenario.events import log_in, read_events
from parhelion.scenario.scenario import Step
from parhelion.scenario.verbs import Quit, StepVerb, verb_of


def number(value: float) -> bytes:
    return encode(FLOAT, new(FLOAT, data=value))


class Bus:
    """Node whose messages arrive after given steps."""

    def __init__(self, planned: dict[int, dict[str, list[bytes]]]) -> None:
        self.planned, self.step, self.published, self.topics = planned, 0, [], []  # type: ignore[var-annotated]

    def subscribe(self, topic: str, kind: str) -> Any:
        assert kind == FLOAT
        self.topics.append(topic)
        bus = self

        class Received:
            def take(self) -> list[bytes]:
                return bus.planned.get(bus.step, {}).get(topic, [])

        return Received()

    def advertise(self, topic: str, kind: str) -> None:
        assert (topic, kind) == (STATE, STRING)

    def publish(self, message: Message) -> None:
        self.published.append(json.loads(decode(STRING, message.data).data))


PLAN = {
    15: {"/weather/rain_rate_mm_h": [number(5.0), number(60.0)], "/daylight/sun_elevation_deg": [number(5.0)]},
    20: {"/weather/rain_rate_mm_h": [number(-3.0)], "/weather/visibility_m": [b"nonsense"]},
    21: {"/weather/snow_rate_mm_h": [number(math.nan)], "/daylight/sun_elevation_deg": [number(500.0)]},
    35: {"/weather/rain_rate_mm_h": [number(0.0)], "/weather/visibility_m": [number(80.0)]},
    45: {"/weather/visibility_m": [number(math.inf)]},
}


def test_topics_change_the_next_scan_and_the_log_repeats_it(tmp_path: Path) -> None:
    scenario, bus, log = yard(duration_s=0.6), Bus(PLAN), tmp_path / "events.jsonl"
    air = AirControl(scenario, bus)
    scans: list[Any] = []

    def controlled(step: Step) -> None:
        bus.step = step.number
        scans.extend(scan for _, scan in step.frames.get("top", ()))
        air(step)

    PacedRun(scenario, {}, speed=1000.0, controllers=[controlled], events=log).run()
    assert {"/weather/rain_rate_mm_h", "/weather/visibility_m", "/weather/snow_rate_mm_h"} < set(bus.topics)
    assert (air.messages, air.refused) == (5, 4)
    assert [(one["time_s"], one["weather"], one["daylight"]) for one in bus.published] == [
        (0.01, {}, {}),
        (0.16, {"rain_rate_mm_h": 60.0}, {"sun_elevation_deg": 5.0}),
        (0.36, {"visibility_m": 80.0}, {"sun_elevation_deg": 5.0}),
        (0.46, {}, {"sun_elevation_deg": 5.0}),
    ]
    drops = [int((scan.origin == 1).sum()) for scan in scans]
    assert [count > 0 for count in drops] == [False, True, True, False, False, False]
    fog = [int((scan.origin == 2).sum()) for scan in scans]
    assert [count > 0 for count in fog] == [False, False, False, True, False, False]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line.get("op"), line.get("step")) for line in lines[1:]] == [
        ("weather", 16), ("daylight", 16), ("weather", 36), ("weather", 36), ("weather", 46), ("quit", 60),
    ]  # fmt: skip
    again: list[Any] = []
    second = yard(duration_s=0.6)
    control = Control(second, script=read_events(log, second))
    control.listeners.append(lambda sensor, *found: again.append(found[-1]) if sensor == "top" else None)
    control.run()
    assert control.deviations == []
    assert all(one.equals(other) for one, other in zip(scans, again, strict=True))


def test_an_interrupted_stream_completes_its_log(tmp_path: Path) -> None:
    scenario, log = yard(duration_s=5.0), tmp_path / "events.jsonl"
    air = AirControl(scenario)
    air.change("/weather", "rain_rate_mm_h", 20.0)

    def progress(status: Any) -> None:
        if status.simulated_s > 0.1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        PacedRun(scenario, {}, speed=1000.0, controllers=[air], events=log).run(progress)
    assert caught.tb is not None  # which holds the frames, and with them a generator that is not closed
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line.get("op"), line.get("step")) for line in lines[1:]] == [("weather", 1), ("quit", 11)]
    second = yard(duration_s=5.0)
    control = Control(second, script=read_events(log, second))
    control.run()
    assert control.deviations == []
    assert control.step_number == 11


def test_parameters_change_a_stream() -> None:
    from parhelion.live.dds import DdsNode
    from parhelion.live.services import ServiceClient
    from parhelion.live.simulation import AirParameters, _value

    scenario = yard(duration_s=0.5)
    with DdsNode(DOMAIN + 3) as node:
        air = AirControl(scenario, node)
        parameters = AirParameters(air, node)
        name, kind = "/parhelion/set_parameters", "rcl_interfaces/srv/SetParameters"
        client = ServiceClient(node, name, kind)
        client.wait()
        steps = iter(scenario)
        replies: list[Any] = []
        values = {"weather.rain_rate_mm_h": 30.0, "weather.visibility_m": -1.0, "daylight.sun_elevation_deg": 5.0}
        given = [new("rcl_interfaces/msg/Parameter", name=key, value=_value(one)) for key, one in values.items()]
        thread = threading.Thread(target=lambda: replies.append(client.call(30.0, parameters=given)))
        thread.start()
        while thread.is_alive():
            step = next(steps)
            air(step)
            thread.join(0.1)
        assert [one.successful for one in replies[0].results] == [True, False, True]
        assert "visibility_m" in replies[0].results[1].reason
        assert scenario.world.weather is not None
        assert scenario.world.weather.to_mapping() == {"rain_rate_mm_h": 30.0}
        get = ServiceClient(node, "/parhelion/get_parameters", "rcl_interfaces/srv/GetParameters")
        get.wait()
        found = get.call(names=["weather.rain_rate_mm_h", "daylight.sun_elevation_deg", "weather.hail"]).values
        assert [(one.type, one.double_value) for one in found] == [(3, 30.0), (3, 5.0), (0, 0.0)]
        names = ServiceClient(node, "/parhelion/list_parameters", "rcl_interfaces/srv/ListParameters")
        names.wait()
        assert "weather.snow_rate_mm_h" in names.call(prefixes=["weather"], depth=0).result.names
        parameters.close()


class Post:
    """Node whose messages arrive when a test puts them, and that records what is published."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[bytes]] = {}
        self.published: list[Message] = []

    def subscribe(self, topic: str, kind: str) -> Any:
        self.waiting[topic] = []
        post = self

        class Received:
            def take(self) -> list[bytes]:
                found, post.waiting[topic] = post.waiting[topic], []
                return found

        return Received()

    def advertise(self, topic: str, kind: str) -> None: ...

    def publish(self, message: Message) -> None:
        self.published.append(message)

    def of(self, topic: str) -> list[Any]:
        return [decode(one.type, one.data) for one in list(self.published) if one.topic == topic]

    def states(self) -> list[dict[str, Any]]:
        return [json.loads(one.data) for one in self.of(STATE)]


def until(happens: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not happens():
        time.sleep(0.005)
    return happens()


def test_topics_change_a_served_scenario_and_the_clock_repeats_in_a_pause(tmp_path: Path) -> None:
    scenario, post = yard(duration_s=100.0, outputs=[]), Post()
    control = Control(scenario, log=log_in(tmp_path, scenario, playing=False), playing=False, speed=math.inf)
    scans: list[Any] = []
    control.listeners.append(lambda sensor, *found: scans.append(found[-1]) if sensor == "top" else None)
    air = AirTopics(control, post)  # type: ignore[arg-type]
    thread = threading.Thread(target=control.run)
    thread.start()
    try:
        assert until(lambda: post.states() == [{"time_s": 0.0, "weather": {}, "daylight": {}}])
        assert until(lambda: len(post.of("/clock")) > 2)  # paused at the start
        assert {one.clock.sec for one in post.of("/clock")} == {0}
        post.waiting["/weather/rain_rate_mm_h"] = [b"nonsense"]
        post.waiting["/weather/visibility_m"] = [number(-4.0)]
        assert until(lambda: air.refused == 2)
        control.call(StepVerb(steps=10), 30.0)
        post.waiting["/weather/rain_rate_mm_h"] = [number(5.0), number(60.0)]
        post.waiting["/daylight/sun_elevation_deg"] = [number(5.0)]
        assert until(lambda: air.messages == 2)
        control.call(StepVerb(steps=10), 30.0)
        control.call(verb_of({"op": "weather", "changes": {"rain_rate_mm_h": None}}, "test"), 30.0)  # another client
        assert until(lambda: post.states()[-1]["weather"] == {})
        control.call(StepVerb(steps=10), 30.0)
    finally:
        control.call(Quit(), 30.0)
        thread.join(30.0)
        air.close()
    assert not thread.is_alive()
    assert post.states()[-1] == {"time_s": 0.2, "weather": {}, "daylight": {"sun_elevation_deg": 5.0}}
    assert [bool((scan.origin == 1).any()) for scan in scans] == [False, True, False]
    second = yard(duration_s=100.0, outputs=[])
    again: list[Any] = []
    control = Control(second, script=read_events(tmp_path / "events.jsonl", second))
    control.listeners.append(lambda sensor, *found: again.append(found[-1]) if sensor == "top" else None)
    control.run()
    assert control.deviations == []
    assert len(again) == len(scans) == 3
    assert all(one.equals(other) for one, other in zip(scans, again, strict=True))


def test_the_command_takes_weather_and_logs_it(tmp_path: Path) -> None:
    file, log = tmp_path / "yard.yaml", tmp_path / "events.jsonl"
    file.write_text(yaml.safe_dump({**YARD, "duration_s": 0.3, "outputs": []}))
    words = ["stream", str(file), "--ros2", "--domain", str(DOMAIN), "--weather-topic", "--events", str(log)]
    done = CliRunner().invoke(app, [*words, "--rain", "40", "--speed", "100"])
    assert done.exit_code == 0, done.output
    assert "weather and daylight listens to /weather/..., /daylight/..." in done.output
    first = json.loads(log.read_text().splitlines()[1])
    assert (first["step"], first["op"], first["result"]) == (0, "weather", {"weather": {"rain_rate_mm_h": 40.0}})
    done = CliRunner().invoke(app, ["run", str(file), "-o", str(tmp_path / "out"), "--events", str(log)])
    assert done.exit_code == 0, done.output
    import parhelion as ph

    cloud = ph.PointCloud.load(tmp_path / "out" / "top" / "000000.pcd")
    assert np.count_nonzero(cloud.origin == 1) > 10
    for wrong in (["--weather-topic", "--velodyne-udp"], ["--ros2", "--events", str(log)],
                  ["--ros2", "--events", str(tmp_path / "x"), "--loop"]):  # fmt: skip
        assert CliRunner().invoke(app, ["stream", str(file), *wrong]).exit_code == 2
