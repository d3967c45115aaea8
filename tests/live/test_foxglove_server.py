"""The live server for Foxglove, tested with clients of its protocol; all traffic stays on this machine."""

from __future__ import annotations

import copy
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("foxglove", reason="the server is made with foxglove-sdk")
pytest.importorskip("websockets", reason="the rig speaks WebSocket")

from typer.testing import CliRunner

from foxglove_rigs import Client, Received, cloud, entities, transforms
from parhelion.cli.app import app
from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.live.foxglove import FoxgloveServer
from parhelion.live.pacing import PacedRun
from parhelion.scenario import Scenario

FIELDS: dict[str, Any] = {
    "name": "a robot among boxes",
    "seed": 3,
    "duration_s": 0.4,
    "world": "cuboids",
    "vehicles": [
        {"name": "husky", "model": "clearpath/husky"},
        {"name": "van", "motion": {"constant": {"xyz": [8, -6, 1], "velocity_m_s": [-3, 0, 0]}},
         "body": {"shape": {"kind": "box", "size_m": [4, 2, 2]}, "material": "brick", "label": "car"}},
    ],
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "husky", "mount": {"xyz": [0, 0, 0.8]},
         "options": {"sub_rays": 1}},
        {"name": "imu", "type": "imu", "model": "analog-devices/adis16470", "vehicle": "husky", "rate_hz": 100},
    ],
    "outputs": [],
}  # fmt: skip
CLOUDS = "/velodyne_points"


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return Scenario.from_mapping(copy.deepcopy(FIELDS))


@pytest.fixture
def server(scenario: Scenario) -> Iterator[FoxgloveServer]:
    made = FoxgloveServer(scenario, port=0)
    yield made
    made.close()


def wait_for(client: Client, topic: str) -> Received:
    """The next message of a topic."""
    while (message := client.next()).topic != topic:
        pass
    return message


def settle(*clients: Client) -> None:
    """Wait until subscriptions are active: the server then repeats the messages that it sends once."""
    for client in clients:
        client.subscribe("/names")
        wait_for(client, "/names")


def test_clouds_reach_several_clients_as_measured(server: FoxgloveServer, scenario: Scenario) -> None:
    with Client(server.url) as first, Client(server.url) as second:
        assert first.info["name"] == "a robot among boxes"
        assert first.topics[CLOUDS]["schemaName"] == "foxglove.PointCloud"
        for client in (first, second):
            client.subscribe(CLOUDS)
        settle(first, second)
        scans = []
        for step in scenario:
            server.take(step)
            scans += [scan for _, scan in step.scans.get("top", ())]
        assert len(scans) == 4
        for client in (first, second):
            for scan in scans:
                message = wait_for(client, CLOUDS)
                got = cloud(message.data)
                assert len(got.points) == len(scan) > 1000
                assert np.array_equal(got.points["x"], scan.xyz[:, 0])
                assert np.array_equal(got.points["intensity"], scan.intensity)
                assert message.time_ns == round(1e9 * (scan.start_time + float(scan.shots.time.max())))
        assert first.times == sorted(first.times)
        assert first.times[-1] >= 300_000_000


def test_a_client_that_comes_late_gets_the_scene(server: FoxgloveServer, scenario: Scenario) -> None:
    with Client(server.url) as early:
        early.subscribe("/scene")
        assert wait_for(early, "/scene").time_ns == 1
        for step in scenario:
            server.take(step)
        with Client(server.url) as late:
            late.subscribe("/scene", "/tf_static")
            got = {message.topic: message for message in (late.next(), late.next())}
            found = {entity.name: entity for entity in entities(got["/scene"].data)}
            assert "world" in found
            assert sum(name.endswith("-van") for name in found) == 1
            assert all(entity.models[0][:4] == b"glTF" for entity in found.values())
            assert transforms(got["/tf_static"].data)["velodyne"][1] == [0, 0, 0.8]


def test_poses_boxes_and_samples_come_at_each_step(server: FoxgloveServer, scenario: Scenario) -> None:
    asked = ("/tf", "/boxes", "/imu/data", "/clock", "/van/ground_truth/pose", "/van/ground_truth/path")
    with Client(server.url) as client:
        client.subscribe(*asked)
        settle(client)
        for step in scenario:
            server.take(step)
        server.close()
        found: dict[str, list[Received]] = {topic: [] for topic in asked}
        # At equal times, boxes come last.
        while not found["/boxes"] or found["/boxes"][-1].time_ns < 400_000_000:
            message = client.next()
            found[message.topic].append(message)
    counts = {topic: len(messages) for topic, messages in found.items()}
    assert (counts["/clock"], counts["/imu/data"], counts["/boxes"]) == (21, 40, 5)
    assert counts["/van/ground_truth/pose"] == 21
    assert json.loads(found["/imu/data"][0].data)["frame_id"] == "imu_link"
    van = transforms(found["/tf"][-1].data)["van/base_link"]
    assert van[1] == pytest.approx([8 - 1.2, -6, 1])


def test_a_client_that_vanishes_holds_up_nobody(server: FoxgloveServer, scenario: Scenario) -> None:
    with Client(server.url) as stays:
        leaves = Client(server.url)
        for client in (stays, leaves):
            client.subscribe(CLOUDS)
        settle(stays, leaves)
        for step in scenario:
            if step.number == 15:
                leaves.socket.socket.shutdown(socket.SHUT_RDWR)  # no closing handshake
            server.take(step)
        assert [len(cloud(wait_for(stays, CLOUDS).data).points) > 1000 for _ in range(4)] == [True] * 4
        leaves.close()


def test_in_step_with_the_clock_and_on_through_the_rounds(scenario: Scenario) -> None:
    server = FoxgloveServer(scenario, port=0)
    stream = PacedRun(scenario, {"Foxglove": server}, ahead_s=0.2, loop=True)
    failures: list[BaseException] = []
    thread = threading.Thread(target=lambda: _run(stream, failures))
    with Client(server.url) as client:
        client.subscribe(CLOUDS, "/tf")
        settle(client)
        thread.start()
        try:
            found = [wait_for(client, CLOUDS) for _ in range(6)]
            stamps = [cloud(message.data).time_ns for message in found]
        finally:
            stream.stop()
            thread.join(20)
    assert not failures
    assert not thread.is_alive()
    assert stamps == [round(k * 1e8) for k in range(6)]  # time continues in the second round


def _run(stream: PacedRun, failures: list[BaseException]) -> None:
    try:
        stream.run()
    except BaseException as error:
        failures.append(error)


def test_a_client_that_does_not_read_costs_no_time(server: FoxgloveServer, scenario: Scenario) -> None:
    client = Client(server.url)
    client.subscribe(CLOUDS)
    settle(client)
    step = next(step for step in scenario if step.scans)
    message = next(one for _, one in server.prepare(step) + server.rest() if one.topic == CLOUDS)
    began = time.monotonic()
    for _ in range(300):  # far more than socket buffers hold, about 400 MB
        server.take(message)
    assert time.monotonic() - began < 8.0
    client.socket.socket.shutdown(socket.SHUT_RDWR)
    client.close()


def test_a_port_in_use_is_reported(server: FoxgloveServer, scenario: Scenario) -> None:
    with pytest.raises(ConfigError, match=rf"port: {server.port} on 127\.0\.0\.1 is already in use"):
        FoxgloveServer(scenario, port=server.port)


def test_the_command_reports_a_port_in_use(server: FoxgloveServer, tmp_path: Path) -> None:
    file = tmp_path / "robot.yaml"
    file.write_text(json.dumps(FIELDS))
    result = CliRunner().invoke(app, ["stream", str(file), "--foxglove", str(server.port)], prog_name="parhelion")
    assert result.exit_code == 1
    lines = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert "already in use" in lines[0]


def test_only_this_machine_unless_asked(scenario: Scenario) -> None:
    with pytest.raises(ConfigError, match=r"host: 0\.0\.0\.0 is not on this machine; .*--anywhere"):
        FoxgloveServer(scenario, "0.0.0.0", 0)
    with pytest.raises(ConfigError, match="host: expected an IPv4 address"):
        FoxgloveServer(scenario, "the moon", 0)
    with pytest.raises(ConfigError, match="port: must be an integer from 0 to 65535, got 70000"):
        FoxgloveServer(scenario, port=70000)
    made = FoxgloveServer(scenario, "localhost", 0)
    assert made.url == f"ws://127.0.0.1:{made.port}"
    made.close()
    made.close()
    with pytest.raises(ConfigError, match="already closed"):
        made.take(next(iter(made._latched.values())))


def test_a_missing_package_is_reported(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "foxglove", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'parhelion\[view\]'"):
        FoxgloveServer(scenario, port=0)
