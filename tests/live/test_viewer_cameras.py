"""Cameras in the viewer, without a browser: assignment of pictures to scans, and points drawn over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.live.viewer import Session
from parhelion.live.viewer.panel import Panel, PanelActions
from parhelion.live.viewer.scene import Scene
from parhelion.live.viewer.stages import PicturesStage, ScenarioStage, scenario_stage

pytestmark = pytest.mark.usefixtures("user_package")

LIDAR = {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "car", "mount": {"xyz": [0, 0, 1.5]}}
CAMERA = {
    "name": "front", "type": "toy-camera", "model": "toy/colour", "vehicle": "car", "rate_hz": 4,
    "mount": {"xyz": [0, 0, 1.4]},
}  # fmt: skip


def scenario(*sensors: Any) -> ph.Scenario:
    vehicle = {"name": "car", "motion": {"constant": {"xyz": [0, 0, 0], "velocity_m_s": [2, 0, 0]}}}
    return ph.Scenario.from_mapping(
        {"duration_s": 1.0, "world": "cuboids", "vehicles": [vehicle], "sensors": list(sensors)}
    )


def test_a_scan_has_the_nearest_picture_and_its_points_over_it() -> None:
    stage = scenario_stage(scenario(LIDAR, CAMERA))
    assert isinstance(stage, ScenarioStage)
    assert stage.cameras == ("front",)
    session = Session(stage)
    session.change(time_s=0.45)
    shown = session.update()
    assert shown is not None
    (shot,) = shown.measured.pictures
    assert shot.time_s == pytest.approx(0.5)  # frames every 0.25 s
    assert shot.pose.xyz[0] == pytest.approx(1.0)
    assert any(note.startswith("front: 96 x 64 pixels") for note in shown.measured.notes)
    session.change(points_over=True)
    over = session.update()
    assert over is not None
    assert np.mean(over.measured.pictures[0].pixels != shot.pixels) > 0.5
    session.change(pictures=False)
    none = session.update()
    assert none is not None
    assert none.measured.pictures == ()
    assert np.array_equal(none.measured.cloud.xyz, shown.measured.cloud.xyz)


def test_cameras_without_a_lidar_show_points_of_their_depth() -> None:
    stage = scenario_stage(scenario(CAMERA), time=0.3)
    assert isinstance(stage, PicturesStage)
    session = Session(stage, colour_by="rgb")
    shown = session.update()
    assert shown is not None
    measured = shown.measured
    assert measured.time_s == pytest.approx(0.25)
    assert measured.pose is not None
    assert 1000 < len(measured.cloud) <= 96 * 64
    ahead = measured.pose.inverse().apply(measured.cloud.xyz)
    assert ahead[:, 0].min() > 0.0
    assert len(measured.pictures) == 1
    blind = {**CAMERA, "options": {"truth": False}}
    empty = Session(scenario_stage(scenario(blind))).update()
    assert empty is not None
    assert len(empty.measured.cloud) == 0
    with pytest.raises(ConfigError, match="has no lidar"):
        scenario_stage(scenario({"name": "imu", "type": "imu", "model": "bosch/bmi160", "vehicle": "car"}))


class Recorder:
    """Mock of viser that records its calls and returns handles."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.scene = self.gui = self

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            self.calls.append((name, args, options))  # type: ignore[arg-type]
            return Handle()

        return call


class Handle:
    options: tuple[str, ...] = ()
    visible, label = False, ""

    def add_tab(self, *_: Any) -> Handle:
        return Handle()

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def on_update(self, change: Any) -> None:
        pass

    on_click = on_update

    def remove(self) -> None:
        pass


def test_the_picture_is_in_the_scene_and_in_the_panel() -> None:
    session = Session(scenario_stage(scenario(LIDAR, CAMERA)))
    shown = session.update()
    assert shown is not None
    server = Recorder()
    scene = Scene(server, None)
    scene.show(shown)
    (frustum,) = [call for call in server.calls if call[0] == "add_camera_frustum"]
    _, (_, fov, aspect), options = frustum  # type: ignore[misc]
    assert (fov, aspect) == pytest.approx((2 * np.arctan(32 / 76.8), 1.5))
    # The optical axis, z of the frustum, points forward along the camera's x.
    w, x, y, z = options["wxyz"]
    assert ph.Pose(quat_xyzw=(x, y, z, w)).apply((0, 0, 1)) == pytest.approx((1, 0, 0), abs=1e-9)
    assert options["position"] == pytest.approx((0, 0, 1.4))
    nothing = PanelActions(*[lambda *_: None] * 7)
    panel = Panel(server, session, ["velodyne/vlp-16"], nothing)
    panel.show(shown.painted.legend)
    labels = [call[2].get("label") for call in server.calls if call[0] == "add_image"]  # type: ignore[misc]
    assert labels == ["front"]
    (picture,) = panel._pictures.values()
    assert picture.visible is True
    assert np.array_equal(picture.image, shown.measured.pictures[0].pixels)
