"""Services of simulation_interfaces: calls of an independent DDS client, damaged requests, soak and equal replay."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dds_rigs import DOMAIN

pytest.importorskip("cyclonedds", reason="services need cyclonedds")
pytest.importorskip("rosbags", reason="ROS messages need rosbags")

from control_rigs import hashes, yard
from parhelion.io.ros.service_types import SERVICES, register_services
from parhelion.io.ros.types import definition_of, encode, hash_of, new, type_store
from parhelion.live.dds import DdsNode
from parhelion.live.services import ServiceClient, service_type, split_header, user_data, with_header
from parhelion.live.simulation import FEATURE_NUMBERS, ONLY_ROS, SimulationServices
from parhelion.scenario.control import Control
from parhelion.scenario.editor import FEATURES
from parhelion.scenario.events import EventLog, read_events
from parhelion.scenario.verbs import Quit, VerbError

PEER = Path(__file__).parent / "simulation_peer.py"
OWN = DOMAIN + 2
VERBS = int(os.environ.get("PARHELION_SOAK_VERBS", "60"))
"""Number of random calls; 1000 for a soak."""


class Served:
    """A scenario with services, run in a thread."""

    def __init__(self, control: Control, services: SimulationServices, folder: Path | None) -> None:
        self.control, self.services = control, services
        self.thread = threading.Thread(target=control.run, args=[folder])
        self.thread.start()

    def end(self) -> None:
        with suppress(VerbError):
            self.control.call(Quit(), 60.0)
        self.thread.join(60.0)
        assert not self.thread.is_alive()
        self.services.close()


def served(folder: Path | None = None, **options: Any) -> Served:
    scenario = yard(duration_s=200.0, outputs=[], **options)
    log = None if folder is None else EventLog(folder / "events.jsonl", scenario, playing=False)
    control = Control(scenario, log=log, playing=False, speed=float("inf"))
    return Served(control, SimulationServices(control, DdsNode(OWN)), folder)


@pytest.fixture
def running() -> Iterator[Served]:
    made = served()
    yield made
    made.end()


def peer(**order: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(PEER), json.dumps({"domain": OWN, **order})], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_an_independent_client_controls_the_scenario(running: Served) -> None:
    found = peer(fixed=True)
    assert set(found["features"]) == set(FEATURE_NUMBERS.values())
    assert set(FEATURES) | set(ONLY_ROS) == set(FEATURE_NUMBERS)
    assert found["state"] == 2  # paused
    assert found["spawned"] == "crate"
    assert found["codes"] == [101, 104, 103, 106, 2, 0, 1, 4, 4, 4], found["messages"]
    assert found["messages"][4] == "no entity 'ghost'"
    assert found["pose"] == [pytest.approx(3.2), 2.0, 100_000_000, "map"]
    assert found["bounds"] == [1, pytest.approx(3.7), pytest.approx(2.7)]
    assert found["crates"] == ["crate"]
    assert found["parameters"] == [True, False, False]
    assert found["playing"] == [1, 101, 4, 1]
    assert (found["reset"], found["after"]) == (1, [])
    assert running.services.server.counts.failures == []


def test_further_services_of_an_independent_client(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    import parhelion as ph

    tetrahedron = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"
    (tmp_path / "parts" / "a.obj").write_text(tetrahedron)
    (tmp_path / "notes.txt").write_text("no mesh")
    settings = yard(duration_s=5.0, outputs=[]).settings
    scenario = ph.Scenario(settings, tmp_path)
    control = Control(scenario, playing=False, speed=float("inf"))
    run = Served(control, SimulationServices(control, DdsNode(OWN)), None)
    try:
        found = peer(further=True)
    finally:
        run.end()
    assert found["both"] == [1, "s0", "s1"]
    assert found["again"] == [150, [101, ""], [1, "s2"]]
    assert found["spawnables"] == [["parts/a.obj", "mesh file (obj)"]]
    assert found["sources"] == 0
    assert found["tags"] == ["box", "spawned"]
    assert found["world"] == scenario.world.name
    assert found["poses"]["viewpoint"] == pytest.approx(float(scenario.world.viewpoint.xyz[2]))
    assert found["starts"] == ["start/robot", "start/buggy"]
    assert found["any"] == ["s0", "s1", "s2"]
    assert found["all"] == []
    assert found["in_box"] == ["s0", "s2"]
    assert found["in_sphere"] == ["s1"]
    assert found["hull"] == 0


def test_an_independent_client_steps_by_an_action(running: Served) -> None:
    found = peer(action=True)
    assert (found["accepted"], found["again"]) == (True, False)
    assert found["result"] == [4, 1]  # succeeded, OK
    assert found["feedback"] == [[10, 15], [20, 5], [25, 0]]
    assert found["busy"] == [6, "another call of step is not finished"]  # aborted
    assert found["canceling"] == [0, [2]]
    assert found["canceled"] == [True, 5, 4]
    assert found["none"] == [6, 4]
    assert found["unknown"] == [0, 2, 3]
    assert found["statuses"] == {"1": 4, "2": 5, "3": 6, "4": 6}
    assert running.services.server.counts.failures == []
    # The clock stands where the goals left it: 25 steps, and those of the goal that was cancelled.
    step = running.control.call(_status(), 30.0)["step"]
    assert step >= 25
    time.sleep(0.2)
    assert running.control.call(_status(), 30.0)["step"] == step


def test_random_calls_leave_no_trace_and_repeat_byte_for_byte(tmp_path: Path) -> None:
    run = served(tmp_path / "a")  # with a robot in contact
    found = peer(verbs=VERBS, seed=5)
    assert found["mixed"]["answered"] == VERBS
    assert found["mixed"]["ok"] > VERBS // 3
    threads = threading.active_count()
    if VERBS > 100:
        before = _resident_mb()
        peer(verbs=VERBS // 2, seed=6)
        assert _resident_mb() < before + 50
        assert threading.active_count() <= threads + 1
    assert run.services.server.counts.failures == []
    run.end()
    again = yard(duration_s=200.0, outputs=[])
    script = read_events(tmp_path / "a" / "events.jsonl", again)
    log = EventLog(tmp_path / "b" / "events.jsonl", again, playing=script.playing)
    control = Control(again, script=script, log=log)
    control.run(tmp_path / "b")
    assert control.deviations == []
    assert hashes(tmp_path / "a") == hashes(tmp_path / "b")


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_damaged_and_foreign_requests_are_ignored(running: Served) -> None:
    """Random bytes with a header, requests that are too long, and writers without a client id."""
    server, kind = running.services.server, "simulation_interfaces/srv/StepSimulation_Request"
    node = running.services.node
    client = ServiceClient(node, "/parhelion/step_simulation", "simulation_interfaces/srv/StepSimulation")
    client.wait()
    chance = random.Random(1)
    for length in (0, 3, 8, 11, 12, 40, 4000):
        data = b"\0\1\0\0" + chance.randbytes(16) + chance.randbytes(length)
        with suppress(Exception):  # Cyclone refuses to send some of them
            client._writer.write(service_type(kind)(data))
    from cyclonedds.qos import Policy, Qos
    from cyclonedds.util import duration

    qos = Qos(
        Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(10),
        Policy.DataRepresentation(use_cdrv0_representation=True),
    )  # fmt: skip
    foreign = node.endpoint("writer", "rq/parhelion/step_simulationRequest", service_type(kind), qos)
    for _ in range(100):
        if foreign.get_publication_matched_status().current_count:
            break
        time.sleep(0.02)
    foreign.write(service_type(kind)(with_header(encode(kind, new(kind, steps=3)), 1, 1)))
    reply = client.call(steps=2)
    assert reply.result.result == 1
    deadline = time.monotonic() + 5.0
    while not server.counts.foreign and time.monotonic() < deadline:
        time.sleep(0.02)
    assert server.counts.foreign
    assert server.counts.refused >= 2
    assert server.counts.failures == []
    assert running.control.call(_status(), 30.0)["step"] == 2  # none of the damaged requests took a step


def _status() -> Any:
    from parhelion.scenario.verbs import Status

    return Status()


def test_headers_and_type_hashes_are_those_of_ros() -> None:
    register_services()
    body = b"\0\1\0\0" + bytes(range(8))
    sample = with_header(body, 0x0102030405060708, -2)
    assert sample == b"\0\1\0\0" + bytes([8, 7, 6, 5, 4, 3, 2, 1]) + b"\xfe" + b"\xff" * 7 + bytes(range(8))
    assert split_header(sample) == (0x0102030405060708, -2, body)
    assert user_data(None) == {}
    # Members that no message of ROS has are one byte.
    empty = "simulation_interfaces/srv/GetSimulatorFeatures_Request"
    assert encode(empty, new(empty, structure_needs_at_least_one_member=0)) == b"\0\1\0\0\0"
    # As published with the packages of ROS 2 Jazzy.
    assert hash_of("action_msgs/srv/CancelGoal_Request") == (
        "RIHS01_3d3c84653c1f96918086887e1dcb236faec88b81a5b14fd4cf4840065bcdf8af"
    )
    for name in SERVICES:
        assert definition_of(f"simulation_interfaces/srv/{name}_Request")[1].startswith("RIHS01_")
    # rosbags pads the same fields of the two variants of SetEntityState in the same way, up to the flags.
    fields = getattr(type_store(), "fielddefs", None) or type_store().FIELDDEFS
    short = [name for name, _ in fields["simulation_interfaces/srv/SetEntityState_Request"][1]]
    long = [name for name, _ in fields["simulation_interfaces/srv/SetEntityStateFlags_Request"][1]]
    assert long == [*short, "set_pose", "set_twist", "set_acceleration"]


def test_version_2_sets_only_what_its_flags_name() -> None:
    control = Control(yard(duration_s=5.0, outputs=[]), playing=False, speed=float("inf"))
    run = Served(control, SimulationServices(control, DdsNode(OWN), version=2), None)
    try:
        spawn = ServiceClient(run.services.node, "/parhelion/spawn_entity", "simulation_interfaces/srv/SpawnEntity")
        spawn.wait()
        from parhelion.live.simulation import _rest, _state_of

        box = json.dumps({"shape": {"kind": "box", "size_m": [1, 1, 1]}})
        place = _rest().pose
        place.position.x = 8.0
        stamped = new("geometry_msgs/msg/PoseStamped", header=_rest().header, pose=place)
        made = spawn.call(name="a", allow_renaming=False, uri="", resource_string=box, entity_namespace="",
                          initial_pose=stamped)  # fmt: skip
        assert made.entity_name == "a"
        kind = "simulation_interfaces/srv/SetEntityStateFlags"
        setter = ServiceClient(run.services.node, "/parhelion/set_entity_state", kind)
        setter.wait()
        pose = {"xyz": [4.0, 0.0, 0.0], "quat_xyzw": [0.0, 0.0, 0.0, 1.0]}
        moved = _state_of({"time_s": 0.0, "pose": pose, "velocity": [1.0, 0, 0], "angular_velocity": [0, 0, 0]})
        reply = setter.call(entity="a", state=moved, set_pose=False, set_twist=True, set_acceleration=False)
        assert reply.result.result == 1
        from parhelion.scenario.verbs import GetState

        state = control.call(GetState(entity="a"), 30.0)
        assert (state["pose"]["xyz"], state["velocity"]) == ([8.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    finally:
        run.end()


@pytest.mark.slow
def test_a_client_that_leaves_at_once_harms_nobody(running: Served) -> None:
    """Requests of a process that ends before it reads a reply; another one is answered afterwards."""
    order = json.dumps({"domain": OWN, "leave": True})
    assert subprocess.run([sys.executable, str(PEER), order], timeout=120, check=False).returncode == 0
    assert peer(verbs=5, seed=1)["mixed"]["answered"] == 5
    assert running.services.server.counts.failures == []
    assert running.control.step_number > 0  # the requests of the one that left were executed
