"""The viewer without a browser: when it measures, colours, picking, the clock."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.clouds import ORIGINS
from parhelion.core.errors import ConfigError
from parhelion.live.viewer import CloudStage, Request, ScenarioStage, Session, ViewFrame, WorldStage
from parhelion.live.viewer.colours import Ramp
from parhelion.live.viewer.opening import first_camera
from parhelion.live.viewer.scene import moving_bodies, part_colour, standing_meshes
from parhelion.live.viewer.server import check_port, png_of
from parhelion.live.viewer.session import point_facts
from parhelion.live.viewer.stages import beams_of, weather_of
from parhelion.live.web import is_loopback


class CountingStage:
    """A stage whose cloud contains its time, and that counts its measurements."""

    title, world, duration_s = "counting", None, 2.0
    cameras: tuple[str, ...] = ()
    lidars: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    plain_bodies: tuple[Any, ...] = ()
    base_weather = None

    def __init__(self, fails_from: float = math.inf) -> None:
        self.places = {
            "a": Request(place="a", model="m"),
            "b": Request(place="b", model="n", mount_xyz=(1.0, 2.0, 3.0)),
        }
        self.requests: list[Request] = []
        self._fails_from = fails_from

    def period_s(self, request: Request) -> float:
        return 0.1

    def scan_start(self, request: Request) -> float:
        return math.floor(request.time_s / 0.1 + 1e-6) * 0.1

    def measure(self, request: Request) -> ViewFrame:
        self.requests.append(request)
        if request.time_s >= self._fails_from:
            raise ConfigError("the sky fell down")
        intensity = np.linspace(0.0, 1.0 + request.time_s, 50, dtype=np.float32)
        return ViewFrame(ph.PointCloud(np.eye(3).repeat(17, axis=0)[:50], {"intensity": intensity}), request.time_s)


@pytest.fixture(scope="module")
def small_world() -> ph.World:
    world = ph.World("yard")
    world.add(ph.shapes.box(40, 40, 0.2), material="asphalt", label="road", pose=ph.Pose(xyz=(0, 0, -0.1)))
    world.add(ph.shapes.box(1, 6, 3), material="brick", label="building", pose=ph.Pose(xyz=(8, 0, 1.5)))
    world.add(ph.shapes.box(1, 1, 2), material="glass", label="window", pose=ph.Pose(xyz=(0, 6, 1)))
    path = ph.ConstantTwist(ph.Pose(xyz=(4, -5, 0.5)), velocity=(0, 2, 0))
    world.add_actor(ph.shapes.box(1, 1, 1), material="car-paint-red", label="car", trajectory=path)
    return world


# ---- when something is measured ------------------------------------------------------------------------------------


def test_only_what_changed_is_measured_again() -> None:
    stage = CountingStage()
    session = Session(stage)
    first = session.update()
    assert first is not None
    assert first.new_cloud
    assert session.update() is None
    session.change(colour_by="height")
    recoloured = session.update()
    assert recoloured is not None
    assert not recoloured.new_cloud
    assert recoloured.measured is first.measured
    session.change(time_s=0.04)  # still within the first scan
    assert session.update() is None
    session.change(amounts={"rain": 5.0})
    session.change(amounts={"rain": 6.0})  # a slider that is moved past 5
    assert session.update() is not None
    assert [request.amounts for request in stage.requests] == [(), (("rain", 6.0),)]


def test_the_clock_plays_pauses_steps_and_ends() -> None:
    session = Session(CountingStage())
    session.tick(1.0)
    assert session.request.time_s == 0.0
    session.toggle()
    session.change(speed=2.0)
    session.tick(0.3)
    assert session.request.time_s == pytest.approx(0.6)
    session.step(1)
    session.update()
    assert not session.playing
    assert session.request.time_s == pytest.approx(0.7)
    session.step(-3)
    session.update()
    assert session.request.time_s == pytest.approx(0.4)
    session.toggle()
    for _ in range(5):
        session.tick(100.0)  # a long wait advances the clock by half a second at most, times the speed
    assert session.request.time_s == 2.0
    assert not session.playing
    session.toggle()
    assert session.playing
    assert session.request.time_s == 0.0


def test_another_lidar_brings_its_own_model_and_mount() -> None:
    session = Session(CountingStage())
    session.change(mount_xyz=(9.0, 9.0, 9.0))
    session.change(place="b")
    assert session.request.model == "n"
    assert session.request.mount_xyz == (1.0, 2.0, 3.0)


def test_a_failed_measurement_is_reported_once_and_leaves_the_last_cloud() -> None:
    stage = CountingStage(fails_from=1.0)
    session = Session(stage)
    session.update()
    kept = session.measured
    session.change(time_s=1.5)
    assert session.update() is None
    assert session.error == "the sky fell down"
    assert session.measured is kept
    session.update()
    assert len(stage.requests) == 2
    session.change(time_s=0.5)
    assert session.update() is not None
    assert session.error == ""


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown setting 'fov'"):
        Session(CountingStage()).change(fov=3)


def test_ramps_keep_their_ends_while_playing() -> None:
    session = Session(CountingStage())
    session.update()
    session.toggle()
    session.tick(0.5)
    playing = session.update()
    session.step()
    paused = session.update()
    assert playing is not None
    assert paused is not None
    assert isinstance(playing.painted.legend, Ramp)
    assert isinstance(paused.painted.legend, Ramp)
    assert playing.painted.legend.high < 1.0
    assert paused.painted.legend.high > 1.5


def test_a_point_says_all_its_fields_with_units(small_world: ph.World) -> None:
    session = Session(WorldStage(small_world, "velodyne/vlp-16", pose=ph.Pose(xyz=(0, 0, 2))))
    session.update()
    measured = session.measured
    assert measured is not None
    row = len(measured.cloud) // 2
    target = measured.cloud.xyz[row]
    pick = session.pick((0.0, 0.0, 2.0), target - (0.0, 0.0, 2.0))
    assert pick is not None
    facts = {name: (value, unit) for name, value, unit in pick.facts}
    assert set(measured.cloud.fields) <= set(facts)
    assert facts["range"][1] == "m"
    assert float(facts["range"][0]) == pytest.approx(float(measured.cloud.range[pick.row]), rel=1e-5)
    assert facts["label"][0].split()[0] in {"road", "building", "window", "car"}
    assert point_facts(measured.cloud, pick.row) == list(pick.facts)


# ---- what is shown -------------------------------------------------------------------------------------------------


def test_the_same_request_gives_the_same_cloud(small_world: ph.World) -> None:
    clouds = []
    for _ in range(2):
        session = Session(WorldStage(small_world, "velodyne/vlp-16", pose=ph.Pose(xyz=(0, 0, 2)), seed=5))
        session.change(amounts={"rain": 30.0})
        session.update()
        assert session.measured is not None
        clouds.append(session.measured.cloud)
    np.testing.assert_array_equal(clouds[0].xyz, clouds[1].xyz)
    assert np.count_nonzero(clouds[0].origin == ORIGINS.index("rain")) > 0


def test_sliders_change_the_weather_and_the_end_of_visibility_is_clear() -> None:
    own = ph.Weather(rain_rate_mm_h=10, visibility_m=300)
    at = (0.0, 0.0, 0.0)
    assert weather_of(None, Request(), at) is None
    assert weather_of(own, Request(), at) == own
    fog = weather_of(own, Request(amounts=(("rain", 0.0),)), at)
    assert fog is not None
    assert fog.rain is None
    assert fog.fog == own.fog
    assert weather_of(own, Request(amounts=(("rain", 0.0), ("fog", math.inf))), at) is None
    dusty = weather_of(None, Request(amounts=(("dust", 1e-4), ("snow", 1.0))), at)
    assert dusty is not None
    assert len(dusty.dust) == 1
    assert dusty.at(0).snow_rate_mm_h == 1.0


def test_a_scenario_shows_the_very_scans_of_a_run() -> None:
    fields = {
        "duration_s": 0.5,
        "seed": 3,
        "world": "cuboids",
        "vehicles": [
            {"name": "robot", "model": "clearpath/husky", "follow": {"points": [[5, 1, 0]], "speed_m_s": 0.8}},
        ],
        "sensors": [
            {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "robot",
             "mount": {"xyz": [0.1, 0, 0.8], "rpy_deg": [0, 10, 33.3]}},
        ],
    }  # fmt: skip
    run = {n: scan for step in ph.Scenario.from_mapping(fields) for n, scan in step.scans.get("top", [])}
    session = Session(ScenarioStage(ph.Scenario.from_mapping(fields)))
    for number in (3, 1):  # also back in time
        session.change(time_s=0.1 * number + 0.05)
        session.update()
        assert session.measured is not None
        assert session.measured.time_s == pytest.approx(0.1 * number)
        np.testing.assert_array_equal(session.measured.cloud.xyz, run[number].in_world().xyz)
        np.testing.assert_array_equal(session.measured.cloud.intensity, run[number].intensity)
    session.change(time_s=0.5)  # the last complete scan, as in the run
    session.update()
    assert session.measured.time_s == pytest.approx(0.1 * max(run))
    session.change(model="ouster/os1-32", mount_xyz=(0.0, 0.0, 3.0))
    session.update()
    assert session.error == ""
    assert session.measured.pose is not None
    assert session.measured.pose.xyz[2] > 2.5


def test_a_scenario_without_lidar_is_refused() -> None:
    imu = {"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "robot"}
    fields = {"duration_s": 1, "world": "cuboids", "vehicles": [{"name": "robot", "model": "clearpath/husky"}]}
    with pytest.raises(ConfigError, match="has no lidar"):
        ScenarioStage(ph.Scenario.from_mapping({**fields, "sensors": [imu]}))


def test_recordings_lose_lost_shots_and_far_origins_only_on_the_screen() -> None:
    xyz = np.random.default_rng(1).normal((4.5e5, 5.4e6, 100.0), size=(50, 3))
    xyz[3] = np.nan
    session = Session(CloudStage(ph.PointCloud(xyz, {"intensity": np.arange(50.0)})))
    session.update()
    measured = session.measured
    assert measured is not None
    assert len(measured.cloud) == 49
    assert "1 rows without coordinates" in measured.notes[0]
    local = measured.cloud.xyz - measured.offset
    assert np.abs(local).max() < 10
    pick = session.pick(local[10] - (5, 0, 0), (1, 0, 0))
    assert pick is not None
    assert pick.facts[1][1].startswith("45")


def test_a_recording_without_intensity_is_coloured_by_height() -> None:
    session = Session(CloudStage(ph.PointCloud(np.eye(3))))
    session.update()
    assert session.colour_by == "height"
    wrong = Session(CloudStage(ph.PointCloud(np.eye(3))), colour_by="intensity")
    with pytest.raises(ConfigError, match="unknown field"):
        wrong.update()


def test_a_colour_that_the_cloud_does_not_have_ends_nothing() -> None:
    session = Session(CloudStage(ph.PointCloud(np.eye(3), {"intensity": np.arange(3.0)})))
    session.update()
    session.change(colour_by="no such field")
    shown = session.update()
    assert shown is not None
    assert session.colour_by == "intensity"
    assert not session.is_due


def test_beams_end_at_their_points(small_world: ph.World) -> None:
    scan = ph.Lidar("velodyne/vlp-16").scan(small_world, pose=ph.Pose(xyz=(0, 0, 2), rpy_deg=(3, 4, 5)), seed=1)
    beams = beams_of(scan, 100)
    assert 80 < len(beams.point) <= 100
    met = beams.point >= 0
    np.testing.assert_allclose(beams.ends[met, 1], scan.in_world().xyz[beams.point[met]], atol=1e-6)
    lengths = np.linalg.norm(beams.ends[:, 1] - beams.ends[:, 0], axis=1)
    np.testing.assert_allclose(lengths[~met], 12.0, atol=1e-4)
    assert len(np.unique(scan.ring[beams.point[met]])) >= 6


def test_meshes_are_few_and_hold_all_triangles(small_world: ph.World) -> None:
    meshes, left_out = standing_meshes(small_world)
    bodies = moving_bodies(small_world)
    assert left_out == 0
    assert {mesh.name for mesh in meshes} == {"asphalt", "brick", "glass"}
    assert len(bodies) == 1
    shown = sum(len(mesh.faces) for mesh in [*meshes, *bodies[0].meshes])
    assert shown == small_world.triangle_count
    for mesh in meshes:
        assert mesh.faces.max() < len(mesh.vertices)
    assert next(mesh for mesh in meshes if mesh.name == "glass").opacity is not None
    _, left_out = standing_meshes(small_world, most=20)
    assert left_out == 16  # of the triangles of three boxes, those that are smaller than the 20th


def test_materials_look_like_themselves(small_world: ph.World) -> None:
    colours = {part.material.name: part_colour(part) for item in small_world.objects for part in item.parts}
    red, green, blue = colours["car-paint-red"]
    assert red > 1.5 * max(green, blue)
    assert max(colours["asphalt"]) - min(colours["asphalt"]) < 40
    assert colours["brick"][0] > colours["brick"][2]


def test_the_first_camera_looks_at_the_sensor_from_behind(small_world: ph.World) -> None:
    session = Session(WorldStage(small_world, "velodyne/vlp-16", pose=ph.Pose(xyz=(0, 0, 2), rpy_deg=(0, 0, 90))))
    session.update()
    assert session.measured is not None
    position, target = first_camera(session.measured)
    assert position[1] < -2 < target[1]
    assert position[2] > 3


# ---- the server's small parts --------------------------------------------------------------------------------------


def test_addresses() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("192.168.1.7")
    with pytest.raises(ConfigError, match="not an address of this machine"):
        check_port("no-such-host.invalid", 0)
    with pytest.raises(ConfigError, match="from 0 to 65535"):
        check_port("127.0.0.1", 70000)


def test_a_port_in_use_is_reported() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port}: Address already in use.*--port"):
            check_port("127.0.0.1", port)
    check_port("127.0.0.1", port)


def test_clear_parts_of_a_picture_become_the_background() -> None:
    import io

    from PIL import Image

    picture = np.zeros((2, 2, 4), np.uint8)
    picture[0, 0] = (200, 100, 50, 255)
    again = np.asarray(Image.open(io.BytesIO(png_of(picture))))
    assert again.shape == (2, 2, 3)
    assert again[0, 0].tolist() == [200, 100, 50]
    assert again[1, 1].tolist() == [14, 17, 22]


def test_a_colour_that_is_asked_for_while_another_is_painted_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page requests a colour that the cloud does not have while the last cloud is painted: the next cycle corrects
    it.
    """
    from parhelion.live.viewer import session as module

    session = Session(CloudStage(ph.PointCloud(np.eye(3), {"intensity": np.arange(3.0)})))
    session.update()
    true_paint = module.paint

    def interrupted(*given: Any) -> Any:
        painted = true_paint(*given)
        if given[1] == "height":
            session.change(colour_by="no such field")
        return painted

    monkeypatch.setattr(module, "paint", interrupted)
    session.change(colour_by="height")
    shown = session.update()
    assert shown is not None
    assert shown.by == "height"
    assert session.is_due
    monkeypatch.setattr(module, "paint", true_paint)
    session.update()
    assert session.colour_by == "height"
    assert not session.is_due
