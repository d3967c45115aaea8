"""Finished runs, bags, folders and clouds in the viewer, without a browser: what is shown, and weather on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import parhelion as ph
from parhelion.core.errors import FormatError
from parhelion.live.viewer import CloudStage, RecordingStage, Session, recording_stage
from parhelion.live.viewer.colours import Ramp
from parhelion.live.viewer.opening import first_camera, free_place, point_size_of, roof_cut
from parhelion.live.viewer.runs import RunStage, _reading, is_run
from parhelion.live.viewer.session import share_limits
from parhelion.live.viewer.stages import ScenarioStage, ViewFrame, WorldStage

LIDAR = {"type": "lidar", "model": "velodyne/vlp-16", "vehicle": "robot"}
SCENARIO: dict[str, Any] = {
    "name": "two lidars", "duration_s": 0.5, "step_s": 0.05, "seed": 3, "world": "cuboids", "boxes": "nuscenes",
    "report": False,
    "vehicles": [{"name": "robot", "motion": {"constant": {"velocity_m_s": [2, 0, 0], "turn_rate_deg_s": 20}}}],
    "actors": [{"shape": {"kind": "box", "size_m": [1, 2, 3]}, "label": "car", "name": "van",
                "trajectory": {"fixed": {"xyz": [6, 2, 1.5], "rpy_deg": [0, 0, 30]}}}],
    "sensors": [
        {"name": "top", **LIDAR, "mount": {"xyz": [0, 0, 1.5]}},
        {"name": "low", **LIDAR, "mount": {"xyz": [0.4, 0, 0.5], "rpy_deg": [0, 5, 0]}},
        {"name": "front", "type": "camera", "model": "generic/vga", "vehicle": "robot", "rate_hz": 5,
         "mount": {"xyz": [0.3, 0, 1]}, "options": {"width": 48, "samples": 1, "bounces": 0}},
        {"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "robot", "rate_hz": 50},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "out"
    ph.Scenario.from_mapping(SCENARIO).run(folder)
    contact = {"time_s": 0.2, "body": "robot", "other": "van", "xyz": [5, 2, 1], "normal": [-1, 0, 0]}
    lines = [json.dumps({**contact, "time_s": at, "impulse_n_s": 3.0}) for at in (0.2, 0.25)]
    (folder / "truth" / "collisions.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def shown(session: Session) -> ViewFrame:
    session.update()
    assert session.error == ""
    assert session.measured is not None
    return session.measured


def test_a_run_shows_the_recorded_clouds_of_all_lidars(run: Path) -> None:
    assert is_run(run)
    session = Session(RunStage(run))
    live = Session(ScenarioStage(ph.Scenario.from_mapping(SCENARIO)))
    assert session.stage.lidars == live.stage.lidars == ("top", "low")
    for number in (2, 0):
        for one in (session, live):
            one.change(time_s=0.1 * number + 0.05)
        found, simulated = shown(session).cloud, shown(live).cloud
        # Files hold single precision, and the motion of the vehicle at its steps: on an arc of 20 deg/s and 2 m/s, the
        # chord over 0.05 s deviates by 2 * 0.35 * 0.05^2 / 8 = 0.2 mm; at 40 m, half a step of slerp has no error.
        assert len(found) == len(simulated)
        np.testing.assert_allclose(found.xyz, simulated.xyz, atol=2e-3)
        assert np.array_equal(found.lidar, simulated.lidar)
        assert np.array_equal(found.intensity, simulated.intensity)
    session.change(hidden=("top",))
    only = shown(session).cloud
    assert len(only) == np.count_nonzero(found.lidar == 1)
    assert session.colour_by == "intensity"


def test_a_run_shows_its_other_sensors_boxes_trajectory_and_collisions(run: Path) -> None:
    session = Session(RunStage(run))
    session.change(time_s=0.25)
    found = shown(session)
    (picture,) = found.pictures
    assert (picture.name, picture.time_s, picture.pixels.shape) == ("front", 0.2, (36, 48, 3))
    path, boxes, arrows = found.segments
    truth = np.loadtxt(run / "truth" / "robot.tum")
    np.testing.assert_allclose(path.ends[0, 0], truth[0, 1:4], atol=1e-9)
    np.testing.assert_allclose(path.ends[-1, 1], truth[-1, 1:4], atol=1e-9)
    centres = boxes.ends.reshape(-1, 24, 3).mean(axis=1)
    van = int(np.argmin(np.linalg.norm(centres - (6.0, 2.0, 1.5), axis=1)))
    edges = np.linalg.norm(boxes.ends[12 * van : 12 * van + 12, 1] - boxes.ends[12 * van : 12 * van + 12, 0], axis=1)
    np.testing.assert_allclose(np.sort(edges), np.repeat([1.0, 2.0, 3.0], 4), atol=1e-6)
    assert len(arrows.ends) == len(found.dots[0].xyz) == 1  # contacts that last are one collision
    assert any("collision: robot and van at 0.20 s" in note for note in found.notes)
    assert any(note.startswith("imu: specific force ") for note in found.notes)
    assert [body.name for body in session.stage.plain_bodies] == ["robot"]
    assert session.stage.world is not None


def test_sliders_apply_the_weather_of_the_command(run: Path, tmp_path: Path) -> None:
    session = Session(RunStage(run))
    session.change(time_s=0.35, hidden=("low",), amounts={"fog": 30.0})
    foggy = shown(session).cloud
    recorded = ph.PointCloud.load(run / "top" / "000003.pcd")
    wet = ph.Weather(visibility_m=30).apply(recorded, sensor="velodyne/vlp-16", frame=3, time=0.3)
    assert np.array_equal(foggy.intensity, wet.intensity)
    assert np.count_nonzero(foggy.origin == 2) > 100
    session.change(amounts={"fog": float("inf")})
    assert np.array_equal(shown(session).cloud.intensity, recorded.intensity)
    bare = ph.PointCloud(recorded.xyz, {"intensity": recorded.intensity})
    bare.save(tmp_path / "scan.pcd")
    unknown = recording_stage(tmp_path / "scan.pcd")
    assert unknown.media == ()
    assert "--sensor" in Session(unknown).update().measured.notes[-1]  # type: ignore[union-attr]
    assert "rain" in recording_stage(tmp_path / "scan.pcd", sensor="velodyne/vlp-16").media


@pytest.mark.slow
def test_a_run_is_shown_in_its_world_with_the_files_beside_the_scenario(tmp_path: Path) -> None:
    place, run = tmp_path / "project", tmp_path / "runs" / "out"
    place.mkdir()
    trimesh.creation.box((2, 2, 2)).export(place / "crate.stl")
    crate = {"mesh": "crate.stl", "name": "crate", "label": "box", "material": "steel",
             "trajectory": {"fixed": {"xyz": [8, 0, 1]}}}  # fmt: skip
    ph.Scenario.from_mapping({**SCENARIO, "duration_s": 0.1, "sensors": SCENARIO["sensors"][:1], "actors": [crate]},
                             place).run(run)  # fmt: skip
    stage = RunStage(run)
    assert stage.world is not None
    assert "crate" in {one.name for one in stage.world.objects}
    assert shown(Session(stage)).notes == ("cloud 0 of 1", "1 boxes")
    trimesh.creation.box((3, 2, 2)).export(place / "crate.stl")
    assert "crate.stl changed since; the world may differ" in shown(Session(RunStage(run))).notes
    (place / "crate.stl").unlink()
    stage = RunStage(run)
    assert stage.world is None
    assert any("the world is not shown" in one for one in shown(Session(stage)).notes)


def test_readings_of_vectors_share_their_name() -> None:
    names = ["time", "specific_force_x", "specific_force_y", "specific_force_z", "distance", "a", "b"]
    table = names, np.array([[0.0, 1.0, 2.0, 9.80665, 4.0, 5.0, 6.0]])
    assert _reading("imu", table, 0.1) == "imu: specific force 1, 2, 9.81; distance 4; a 5; 1 more"


def test_points_are_a_few_pixels_wide_at_the_camera() -> None:
    def size(distance_m: float) -> float:
        cloud = ph.PointCloud(np.array([[distance_m, 0.0, 0.0]] * 3), {})
        return point_size_of(ViewFrame(cloud), np.zeros(3))

    assert [size(far) for far in (2.0, 10.0, 20.0, 500.0)] == pytest.approx([0.015, 0.03, 0.06, 0.2])


def test_bags_and_folders(run: Path) -> None:
    bag = Session(recording_stage(run / "bag"))
    assert len(bag.stage.lidars) == 2
    assert "rain" in bag.stage.media  # the bag names its sensors
    bag.change(time_s=0.31)
    found = shown(bag)
    assert found.pose is not None
    truth = np.loadtxt(run / "truth" / "top.tum")
    row = int(np.argmin(np.linalg.norm(truth[:, 1:4] - found.pose.xyz, axis=1)))
    np.testing.assert_allclose(found.pose.xyz, truth[row, 1:4], atol=0.11)  # a cloud is stored when its scan is over
    assert found.pictures[0].pixels.shape == (36, 48, 3)
    back = Session(recording_stage(run / "bag"))
    assert len(shown(back).cloud) > 0
    folder = recording_stage(run / "low")
    assert isinstance(folder, RecordingStage)
    assert folder.duration_s == pytest.approx(0.1 * (len(list((run / "low").glob("*.pcd"))) - 1))
    (run / "low" / "extra.ply").write_bytes(b"")
    try:
        with pytest.raises(FormatError, match="several formats"):
            recording_stage(run / "low")
    finally:
        (run / "low" / "extra.ply").unlink()


def test_a_run_without_clouds_and_damaged_runs_are_reported(run: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(FormatError, match="is not the manifest of a run"):
        RunStage(tmp_path)
    (tmp_path / "manifest.json").write_text((run / "manifest.json").read_text())
    with pytest.raises(FormatError, match="no clouds to show"):
        RunStage(tmp_path)


# ---- opening view --------------------------------------------------------------------------------------------------


def room() -> ph.World:
    """A hall of 20 m x 10 m x 5 m with a machine in its middle, where the default viewpoint is."""
    world = ph.World("hall")
    boxes = [((20, 10, 0.2), (0, 0, -0.1), "floor"), ((20, 10, 0.3), (0, 0, 5.15), "ceiling")]
    boxes += [((0.2, 10, 5), (x, 0, 2.5), "wall") for x in (-10, 10)] + [
        ((20, 0.2, 5), (0, y, 2.5), "wall") for y in (-5, 5)
    ]
    for size, xyz, label in [*boxes, ((2.0, 2.0, 3.0), (0, 0, 1.5), "machine")]:
        world.add(ph.shapes.box(*size), material="concrete", label=label, pose=ph.Pose(xyz))
    return world


def test_the_view_opens_inside_of_the_hall_and_without_its_roof() -> None:
    world = room()
    assert np.linalg.norm(free_place(world).xyz[:2]) > 1.5  # not inside of the machine
    stage = WorldStage(world, "velodyne/vlp-16", pose=ph.Pose((-8.5, 0, 1.5)))
    measured = shown(Session(stage))
    cut = roof_cut(world, measured.pose)
    assert cut == pytest.approx(5.0 - 0.4, abs=1e-3)
    place, _ = first_camera(measured, world, cut)
    # The default camera would be behind the wall at x = -10 m. The ray from the chosen one to the lidar, which starts
    # at the cut, reaches the lidar.
    way = np.array([-8.5, 0, 1.5]) - place
    start = place + max(0.0, (cut - place[2]) / way[2]) * way
    left = np.array([-8.5, 0, 1.5]) - start
    assert world.cast(start, left).range[0] > np.linalg.norm(left) - 0.05
    yard = ph.World("yard")
    yard.add(ph.shapes.box(20, 20, 0.2), material="asphalt", label="road", pose=ph.Pose((0, 0, -0.1)))
    assert roof_cut(yard, ph.Pose((0, 0, 2))) is None


def test_two_sessions_share_a_clock() -> None:
    first, second = (Session(ScenarioStage(ph.Scenario.from_mapping({**SCENARIO, "sensors": [
        {"name": "top", **LIDAR, "mount": {"xyz": [0, 0, 1.5]}}]}))) for _ in range(2))  # fmt: skip
    second.follows = True
    first.listeners.append(second.take_over)
    answers: list[dict[str, Any]] = []
    second.listeners.append(answers.append)
    first.toggle()
    first.tick(0.25)
    second.tick(0.25)  # a follower has no clock of its own
    assert second.playing
    assert second.request.time_s == first.request.time_s == pytest.approx(0.25)
    assert answers == []  # what a session takes over is not sent back


def test_two_sessions_share_their_colours() -> None:
    clouds = [ph.PointCloud(np.eye(3), {"intensity": np.array([0.0, 1.0, top])}) for top in (2.0, 50.0)]
    sessions = [Session(CloudStage(one)) for one in clouds]
    for one in sessions:
        one.update()
    share_limits(*sessions)
    shown = [one.update() for _ in range(2) for one in sessions]
    assert not any(one.is_due for one in sessions)
    last = [found.painted.legend for found in (shown[2], shown[1]) if found is not None]
    assert last[0] == last[1]
    assert isinstance(last[0], Ramp)
    assert last[0].high > 40.0
