"""A scenario that has cameras and no lidar: its pictures, and what they show as points where its depth is known."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.image import Image
from parhelion.core.records import PointCloud, Scan
from parhelion.live.viewer.shots import Cameras
from parhelion.live.viewer.stages import Measured, Request, ScenarioStage, Stage, weather_of
from parhelion.pictures.camera import image_colours
from parhelion.scenario.scenario import Scenario
from parhelion.world.world import World

MOST_POINTS = 150_000
"""Of a picture with more pixels every second, third ... is shown as a point."""


def scenario_stage(scenario: Scenario, title: str = "", *, time: float = 0.0) -> Stage:
    """A scenario to look at: by its lidars, or by its cameras where it has no lidar."""
    if not scenario.giving(Scan) and Cameras(scenario).names:
        return PicturesStage(scenario, title, time=time)
    return ScenarioStage(scenario, title, time=time)


class PicturesStage:
    """The cameras of a scenario, as `parhelion run` has them; time goes by the frames of the chosen one."""

    def __init__(self, scenario: Scenario, title: str = "", *, time: float = 0.0) -> None:
        self._scenario, self._cameras = scenario, Cameras(scenario)
        if not self._cameras.names:
            raise ConfigError(f"{scenario.source}: has neither lidar nor camera, so there is nothing to show")
        self.world: World | None = scenario.world
        self.title = scenario.settings.name or title or "scenario"
        self.duration_s = scenario.duration_s
        self.cameras = self._cameras.names
        at = min(float(time), scenario.duration_s)
        self.places = {name: Request(place=name, time_s=at) for name in self.cameras}
        self._sensors = {sensor.name: sensor for sensor in scenario.frame_sensors}
        self._base = scenario.world.weather
        self._walk: Iterator[Any] = scenario.walk(lambda sensor, number: False)
        self._walked_s = 0.0

    def period_s(self, request: Request) -> float:
        """Time between pictures [s]."""
        return self._sensors[request.place].period_s

    def scan_start(self, request: Request) -> float:
        """Start [s] of the picture that is taken at the request's time."""
        sensor = self._sensors[request.place]
        last = sensor.count(self.duration_s) - 1
        return sensor.start(
            int(np.clip(np.floor((request.time_s - sensor.start(0)) / sensor.period_s + 1e-6), 0, last))
        )

    def measure(self, request: Request) -> Measured:
        """The pictures at a time, and the points of the chosen one."""
        begun = clock.perf_counter()
        start = self.scan_start(request)
        self._drive_until(self._cameras.over_at(start))
        self._scenario.world.weather = weather_of(self._base, request, (0.0, 0.0, 0.0))
        air = (request.rain_rate_mm_h, request.visibility_m, request.snow_rate_mm_h)
        shots = tuple(self._cameras.at(start, air)) if request.pictures else ()
        image = self._cameras.image(request.place, start, air)
        return Measured(
            points_of(image), image.start_time, image.pose, seconds=clock.perf_counter() - begun, pictures=shots,
            notes=tuple(line for shot in shots for line in shot.lines),
        )  # fmt: skip

    def _drive_until(self, time: float) -> None:
        while self._walked_s < time - 1e-12:
            step = next(self._walk, None)
            if step is None:
                return
            self._walked_s = step.time


def points_of(image: Image) -> PointCloud:
    """What a picture shows, as points of the world with its colours; none where no depth is known."""
    depth = image.depth if image.measured_depth is None else image.measured_depth
    if depth is None or image.intrinsics is None:
        return PointCloud(np.zeros((0, 3)), {"rgb": np.zeros((0, 3), np.uint8)}, "world")
    from parhelion.sensors.camera.lens import directions

    step = int(np.ceil(np.sqrt(image.width * image.height / MOST_POINTS)))
    v, u = (axis.ravel() for axis in np.mgrid[: image.height : step, : image.width : step])
    along = directions(image.intrinsics, np.stack([u, v], axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = depth[v, u] / along[:, 0]
    known = np.isfinite(distance) & (distance > 0.0)
    fields: dict[str, NDArray[Any]] = {
        "rgb": image_colours(image)[v, u][known], "range": distance[known].astype(np.float32)
    }  # fmt: skip
    for name in ("label", "instance"):
        values = getattr(image, name)
        if values is not None:
            fields[name] = values[v, u][known]
    local = along[known] * distance[known, None]
    return PointCloud(image.pose.apply(local), fields, "world", image.names, image.metadata)
