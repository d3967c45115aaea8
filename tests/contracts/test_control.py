"""Control of a running scenario: verbs between steps, refusals, the event log, and equal replays."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import parhelion as ph
from control_rigs import YARD, hashes, random_verb, yard
from parhelion.contact.terrain import surfaces_of
from parhelion.core.errors import ConfigError, FormatError
from parhelion.scenario import Scenario
from parhelion.scenario.control import MOST_WAITING, Control
from parhelion.scenario.events import EventLog, read_events
from parhelion.scenario.verbs import VERBS, Quit, Status, VerbError, verb_of

Call = Callable[..., dict[str, Any]]


def controlled(
    scenario: Scenario, client: Callable[[Call], None], *, folder: Path | None = None, playing: bool = False,
    log: Path | None = None, speed: float = float("inf"),
) -> Control:  # fmt: skip
    """Run a scenario while `client`, in another thread, sends verbs; the run ends after it."""
    made = EventLog(log, scenario, playing=playing) if log is not None else None
    control = Control(scenario, log=made, playing=playing, speed=speed)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            client(lambda op, **fields: control.call(verb_of({"op": op, **fields}), 60.0))
        except BaseException as error:
            failures.append(error)
        finally:
            control.call(Quit(), 60.0)

    thread = threading.Thread(target=work)
    thread.start()
    control.run(folder)
    thread.join()
    for failure in failures:
        raise failure
    return control


def replayed(scenario: Scenario, log: Path, folder: Path) -> Control:
    script = read_events(log, scenario)
    control = Control(scenario, script=script, log=EventLog(folder / "events.jsonl", scenario, playing=script.playing))
    control.run(folder)
    return control


def refused(call: Call, op: str, **fields: Any) -> str:
    with pytest.raises(VerbError) as error:
        call(op, **fields)
    return error.value.code


# ---- equal replays ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_of_random_verbs_repeats_byte_for_byte(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    verbs = [random_verb(chance) for _ in range(120)]
    verbs.insert(70, {"op": "reset", "keep": ["weather"]})

    codes = set()

    def client(call: Call) -> None:
        for verb in verbs:
            try:
                call(**verb)
            except VerbError as error:
                codes.add(error.code)

    controlled(yard(), client, folder=tmp_path / "served", log=tmp_path / "served" / "events.jsonl")
    assert {"not_found", "unsupported"} <= codes <= {"not_found", "name_taken", "unsupported", "invalid", "wrong_state"}
    control = replayed(yard(), tmp_path / "served" / "events.jsonl", tmp_path / "again")
    assert control.deviations == []
    first, second = hashes(tmp_path / "served"), hashes(tmp_path / "again")
    assert first == second
    assert {"events.jsonl", "imu.csv", "bag/bag_0.mcap", "top/000000.pcd", "reset-1/manifest.json"} <= set(first)


def test_every_kind_of_output_accepts_edits(tmp_path: Path) -> None:
    outputs = [{"kind": kind} for kind in ("bag", "pcap", "kitti-object", "nuscenes", "foxglove")]

    def client(call: Call) -> None:
        call("step", steps=12)
        sensor = {"name": "low", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "robot"}
        call("attach", sensor=sensor)
        call("attach", sensor={"name": "imu-2", "type": "imu", "model": "xsens/mti-3", "vehicle": "robot"})
        call("step", steps=21)
        call("mount", sensor="top", pose={"xyz": [0, 0, 2]})
        call("detach", sensor="imu")
        call("step", steps=20)

    controlled(yard(outputs=outputs, report=True, boxes="kitti"), client, folder=tmp_path)
    assert sorted(file.name for file in (tmp_path / "low").iterdir()) == ["000000.pcd", "000001.pcd", "000002.pcd",
                                                                          "000003.pcd"]  # fmt: skip
    assert len((tmp_path / "imu-2.csv").read_text().splitlines()) > 20
    assert "edits" not in (tmp_path / "report.html").read_text()[:100]
    heights = np.loadtxt(tmp_path / "truth" / "top.tum")[:, 3]
    assert np.allclose(np.diff(heights), [0, 0, 0, 1], atol=0.02)
    topics = {one["topic_metadata"]["name"]: one["message_count"] for one in
              yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
              ["topics_with_message_count"]}  # fmt: skip
    assert topics["/low/velodyne_points"] == 4
    assert topics["/tf_static"] == 3  # at the start, after the attachment, after the new mount


def test_a_loop_with_edits_is_logged_and_repeats(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    scans, samples = [], []
    for step in yard().walk(events=log):
        scans += [scan for _, scan in step.frames.get("top", ())]
        samples.append(step.samples("imu"))
        if step.number == 14:
            step.world.weather = ph.Weather(rain_rate_mm_h=30, visibility_m=300)
            box = step.world.add(ph.shapes.box(1, 1, 1), material="wood", pose=ph.Pose((2, 0, 0.5), rpy_deg=(0, 0, 20)))
            step.world.add_actor(ph.shapes.sphere(0.4), trajectory=ph.Pose((1, 2, 1)), label="ball")
            step.command("robot", ph.DriveCommand(0.5, 0.2))
            step.move("buggy", ph.Pose((1, 3, 0)))
        if step.number == 40:
            step.world.remove(box)
            step.world.daylight = ph.Daylight(sun_elevation_deg=5)
            step.mount("top", ph.Pose((0, 0, 1.5)))
            step.attach({"name": "low", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "robot"})
        if step.number == 60:
            break
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line.get("op") for line in lines] == [
        None, "weather", "add", "add", "command", "set_state", "remove", "daylight", "mount", "attach", "quit",
    ]  # fmt: skip
    assert [line.get("step") for line in lines[1:]] == [15] * 5 + [41] * 4 + [61]
    seen: dict[str, list[Any]] = {}
    again = yard()
    control = Control(again, script=read_events(log, again))
    control.listeners.append(lambda sensor, number, time, record: seen.setdefault(sensor, []).append(record))
    control.run()
    assert control.deviations == []
    assert len(scans) == 6
    assert all(one.equals(other) for one, other in zip(scans, seen["top"], strict=True))
    assert len(seen["low"]) == 2
    before = np.concatenate([part.specific_force for part in samples])
    assert np.array_equal(before, np.concatenate([part.specific_force for part in seen["imu"]]))


def test_edits_that_a_log_cannot_hold_are_refused(tmp_path: Path) -> None:
    steps = yard().walk(events=tmp_path / "events.jsonl")
    step = next(steps)
    path = ph.Waypoints([0.0, 1.0], [ph.Pose(), ph.Pose((1, 0, 0))])
    with pytest.raises(ConfigError, match="an actor along a trajectory cannot be logged; give a pose"):
        step.world.add_actor(ph.shapes.box(1, 1, 1), trajectory=path)
    with pytest.raises(ConfigError, match=r"world.add_lamp: cannot be logged"):
        step.world.add_lamp((0, 0, 3), flux_lm=500)
    steps.close()
    assert step.world.on_edit is None
    step.world.add_lamp((0, 0, 3), flux_lm=500)


# ---- verbs -----------------------------------------------------------------------------------------------------------


def test_entities_move_are_seen_and_disappear() -> None:
    found: dict[str, Any] = {}

    def client(call: Call) -> None:
        before = call("rays", origins=[[0, 0, 0.5]], directions=[[1, 0, 0]])["range_m"][0]
        call("spawn", name="crate", shape={"kind": "box", "size_m": [1, 1, 1]}, pose={"xyz": [2, 0, 0.5]}, label="box")
        hit = call("rays", origins=[[0, 0, 0.5]], directions=[[1, 0, 0]])
        assert (hit["label"], hit["entity"]) == (["box"], ["crate"])
        assert hit["range_m"][0] == pytest.approx(1.5, abs=1e-5)
        call("set_state", entity="crate", pose={"xyz": [3, 0, 0.5]}, velocity=[2, 0, 0])
        assert call("get_state", entity="crate")["pose"]["xyz"] == [3, 0, 0.5]
        version = found["scenario"].world.version
        call("step", steps=10)
        assert call("get_state", entity="crate")["pose"]["xyz"] == pytest.approx([3.2, 0, 0.5])
        call("set_state", entity="crate", pose={"xyz": [4, 0, 0.5]})
        assert found["scenario"].world.version == version  # moving an actor rebuilds no scene
        assert call("bounds", entity="crate") == {"lower": [3.5, -0.5, 0.0], "upper": [4.5, 0.5, 1.0]}
        call("delete", entity="crate")
        assert call("rays", origins=[[0, 0, 0.5]], directions=[[1, 0, 0]])["range_m"][0] == before
        assert refused(call, "get_state", entity="crate") == "not_found"
        # An object of the world can be moved and deleted, too, and a reset brings it back.
        pose = call("get_state", entity="cuboid-1")["pose"]
        call("set_state", entity="cuboid-1", pose={"xyz": [2, 0, 0.5]})
        assert call("rays", origins=[[0, 0, 0.5]], directions=[[1, 0, 0]])["entity"] == ["cuboid-1"]
        call("delete", entity="cuboid-1")
        assert refused(call, "get_state", entity="cuboid-1") == "not_found"
        call("reset")
        assert call("get_state", entity="cuboid-1")["pose"] == pose

    found["scenario"] = yard()
    controlled(found["scenario"], client)


def test_weather_changes_the_next_scan() -> None:
    def client(call: Call) -> None:
        call("step", steps=10)
        clear = call("latest", sensor="top")["record"]
        assert call("weather", changes={"rain_rate_mm_h": 100}) == {"weather": {"rain_rate_mm_h": 100.0}}
        call("step", steps=10)
        wet = call("latest", sensor="top")["record"]
        rain = clear.names["origin"]["rain"] if "rain" in clear.names.get("origin", {}) else 1
        assert not (clear.origin == rain).any()
        assert (wet.origin == rain).sum() > 50
        assert call("weather", changes={"rain_rate_mm_h": None}) == {"weather": {}}
        assert call("daylight", changes={"sun_elevation_deg": 5}) == {"daylight": {"sun_elevation_deg": 5.0}}
        assert refused(call, "weather", changes={"rain_rate_mm_h": -1}) == "invalid"
        assert refused(call, "daylight", changes={"sun": 5}) == "invalid"
        assert call("status")["weather"] == {}

    controlled(yard(), client)


def test_verbs_that_do_not_fit_are_refused() -> None:
    def client(call: Call) -> None:
        assert refused(call, "spawn", shape={"kind": "box", "size_m": [1, 1, -1]}) == "invalid"
        assert refused(call, "spawn", mesh="../../etc/passwd") == "invalid"
        assert refused(call, "spawn", mesh="nothing.obj") == "not_found"
        assert refused(call, "spawn", mesh="a.obj", vertices=[[0, 0, 0]] * 3, faces=[[0, 1, 2]]) == "invalid"
        assert refused(call, "spawn", vertices=[[0, 0, 0]] * 3, faces=[[0, 1, 2]]) == "invalid"
        assert refused(call, "spawn", vertices=[[0, 0, 0]] * 3, faces=[[0, 1, 10**30]]) == "invalid"
        assert refused(call, "spawn", vertices=[[0, 0, 0]] * 3) == "invalid"
        assert refused(call, "spawn", name="robot", shape={"kind": "box", "size_m": [1, 1, 1]}) == "name_taken"
        crate = {"shape": {"kind": "box", "size_m": [1, 1, 1]}, "pose": {"xyz": [0.3, 0, 0.5]}}
        assert refused(call, "spawn", **crate) == "invalid"  # inside of the robot
        assert refused(call, "set_state", entity="cuboid-1", pose=crate["pose"]) == "invalid"
        assert refused(call, "delete", entity="robot") == "unsupported"
        assert refused(call, "set_state", entity="robot", pose={}) == "unsupported"
        assert refused(call, "command", vehicle="buggy", kind="drive") == "unsupported"
        assert refused(call, "command", vehicle="robot", kind="thrust") == "unsupported"
        assert refused(call, "command", vehicle="robot", kind="drive", values={"speed": 1}) == "invalid"
        assert refused(call, "mount", sensor="imu", pose={}) == "invalid"
        assert refused(call, "attach", sensor={"name": "top", "type": "lidar", "model": "velodyne/vlp-16"}) == "invalid"
        assert refused(call, "attach", sensor={"name": "x", "type": "lidar", "model": "../x.yaml"}) == "invalid"
        eye = {"name": "eye", "type": "camera", "model": "generic/vga", "options": {"calibration": "/etc/passwd"}}
        assert refused(call, "attach", sensor=eye) == "invalid"
        assert refused(call, "latest", sensor="top") == "not_found"
        assert refused(call, "step", steps=0) == "invalid"
        assert refused(call, "rays", origins=[[0, 0, 0]] * 2, directions=[[1, 0, 0]] * 3) == "invalid"
        assert refused(call, "dance") == "unknown_op"
        assert refused(call, "add", shape={"kind": "box", "size_m": [1, 1, 1]}) == "unknown_op"  # of logs only
        with pytest.raises(VerbError, match=r"message: unknown op 'spawm' \(did you mean 'spawn'\?\)"):
            call("spawm")
        call("play")
        assert refused(call, "step") == "wrong_state"
        call("pause")

    controlled(yard(), client, speed=1.0)


def test_the_clock_plays_pauses_steps_and_ends() -> None:
    def client(call: Call) -> None:
        assert call("step", steps=5) == {"step": 5, "time_s": 0.05}
        assert refused(call, "step", steps=1000) == "failed"
        assert call("status")["state"] == "ended"
        assert refused(call, "play") == "wrong_state"
        call("reset")
        assert {"step": 0, "state": "paused", "episode": 1}.items() <= call("status").items()
        call("play")
        assert call("status")["state"] in ("playing", "ended")

    controlled(yard(duration_s=0.2), client)


def test_a_full_queue_and_a_finished_run_refuse_verbs() -> None:
    control = Control(yard(), playing=False)
    replies: list[Any] = []
    for _ in range(MOST_WAITING):
        control.submit(Status(), replies.append)
    with pytest.raises(VerbError, match="1000 verbs are waiting"):
        control.submit(Status(), replies.append)
    control._ending = Quit()
    control.run()
    assert [one.error.code for one in replies] == ["wrong_state"] * MOST_WAITING
    with pytest.raises(VerbError, match="the run is over"):
        control.submit(Status(), replies.append)


def test_every_verb_has_an_effect_and_a_description() -> None:
    from parhelion.scenario.editor import Editor

    clock = {"play", "pause", "step", "reset", "quit", "status"}
    assert {op for op in VERBS if not hasattr(Editor, f"_do_{op}")} == clock
    assert all(verb.__doc__ for verb in VERBS.values())


# ---- logs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [], "is not an event log"),
        (lambda lines: ["{}", *lines[1:]], "is not an event log"),
        (lambda lines: [lines[0].replace('"version": 1', '"version": 9'), *lines[1:]], "has version 9, expected 1"),
        (lambda lines: [*lines[:1], "nonsense"], "line 2 is not a JSON object"),
        (lambda lines: [*lines[:1], '{"step": -1, "op": "play", "args": {}}'], "line 2: expected step, op and args"),
        (lambda lines: [*lines[:1], '{"step": 0, "op": "sing", "args": {}}'], "line 2: unknown op 'sing'"),
        (lambda lines: [*lines, '{"step": 3, "op": "play"}', '{"step": 2, "op": "play"}'], "step 2 follows step 3"),
    ],
)  # fmt: skip
def test_damaged_logs_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    EventLog(log, yard()).close()
    log.write_text("".join(line + "\n" for line in change(log.read_text().splitlines())))
    with pytest.raises(FormatError, match=message):
        read_events(log, yard())


def test_a_log_fits_its_own_scenario_and_survives_a_kill(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    EventLog(log, yard()).close()
    with pytest.raises(ConfigError, match="was recorded with another scenario, seed or setting"):
        read_events(log, yard(seed=4))
    with log.open("a") as file:
        file.write('{"step": 0, "time_s": 0.0, "op": "weather", "args": {"changes": {}}, "result": {}}\n{"step": 1, "t')
    assert [event.verb.op for event in read_events(log, yard()).events] == ["weather"]  # type: ignore[attr-defined]


def test_the_command_repeats_a_run(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from parhelion.cli.app import app

    file = tmp_path / "yard.yaml"
    file.write_text(yaml.safe_dump({**YARD, "duration_s": 0.3}))

    def client(call: Call) -> None:
        call("step", steps=11)
        call("weather", changes={"rain_rate_mm_h": 50})
        call("step", steps=10)

    controlled(Scenario.load(file), client, folder=tmp_path / "a", log=tmp_path / "a" / "events.jsonl")
    run = ["run", str(file), "--events", str(tmp_path / "a" / "events.jsonl"), "-o"]
    result = CliRunner().invoke(app, [*run, str(tmp_path / "b")])
    assert result.exit_code == 0, result.output
    assert "at 0.21 s: quit" in result.output
    assert hashes(tmp_path / "a") == hashes(tmp_path / "b")
    result = CliRunner().invoke(app, [*run, str(tmp_path / "a")])
    assert result.exit_code == 1
    assert "already contains events.jsonl of another run; choose another folder" in result.output
    result = CliRunner().invoke(app, ["run", str(file), "-o", str(tmp_path / "a")])
    assert result.exit_code == 1
    assert "contains a run of another scenario or version" in result.output


@pytest.mark.parametrize(("edit", "words"), [
    (lambda step: step.command("robot", ph.SteerCommand(1.0, 0.1)), "accepts DriveCommand, got SteerCommand"),
    (lambda step: step.command("robot", 5), "accepts DriveCommand, got int"),
    (lambda step: step.command("buggy", ph.DriveCommand(1.0)), "buggy: is moved from outside"),
    (lambda step: step.move("buggy", (1, 2, 0)), "buggy: pose: must be a Pose, .*, got tuple"),
    (lambda step: step.mount("top", (0, 0, 1)), "top: pose: must be a Pose, .*, got tuple"),
    (lambda step: step.attach("low"), "sensor: expected a mapping of fields, got 'low'"),
    (lambda step: step.world.remove("cuboid-1"), "give the object that add returned, .*, not 'cuboid-1'"),
])  # fmt: skip
def test_mistakes_in_a_loop_are_explained_where_they_are_made(edit: Any, words: str) -> None:
    step = next(iter(yard()))
    with pytest.raises(ConfigError, match=words):
        edit(step)


def test_weather_of_a_step_is_that_of_its_world() -> None:
    step = next(iter(yard()))
    with pytest.raises(AttributeError):
        step.weather = ph.Weather(rain_rate_mm_h=5)  # type: ignore[attr-defined]


def test_a_reset_ends_the_steps_of_another_client() -> None:
    control = Control(yard(duration_s=100.0), playing=False, speed=float("inf"))
    thread = threading.Thread(target=control.run)
    replies: list[Any] = []
    thread.start()
    try:
        control.submit(verb_of({"op": "step", "steps": 5000}), replies.append)
        control.call(verb_of({"op": "reset"}), 60.0)
        control.call(Status(), 60.0)
    finally:
        control.call(Quit(), 60.0)
        thread.join(60.0)
    assert re.match("reset ended the steps at .* s, .* steps early$", str(replies[0].error))


def test_a_vehicle_falls_when_everything_is_removed() -> None:
    steps = iter(yard(sensors=YARD["sensors"][1:], vehicles=[{"name": "robot", "model": "clearpath/husky"}]))
    step = next(steps)
    for item in step.world.objects:
        step.world.remove(item)
    assert len(surfaces_of(step.world, wet=False)) == 1  # Dr.Jit ends the process when a kernel reads an empty table
    for _ in range(20):
        step = next(steps)
    assert step.state("robot").xyz[0, 2] == pytest.approx(-9.81 / 2 * 0.2**2, rel=0.1)
