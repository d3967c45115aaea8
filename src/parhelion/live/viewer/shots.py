"""The cameras of a scenario for the viewer: the picture nearest to a scan, and the scan's points over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.image import Image, Intrinsics
from parhelion.core.pose import Floats, Pose
from parhelion.live.viewer.layers import VIEWER
from parhelion.pictures.camera import points_over
from parhelion.scenario.scenario import Scenario
from parhelion.scenario.sensors import FrameOnBoard

MOST_COLUMNS = 960
"""A wider picture is sent with every second, third ... pixel alone."""


@dataclass(frozen=True, eq=False)
class Shot:
    """A camera's picture in the scene."""

    name: str
    pose: Pose
    """The camera in the world, x forward."""
    pixels: NDArray[np.uint8]
    """Red, green, blue, shape (h, w, 3)."""
    lens: Intrinsics | None
    """Of the picture as it was taken."""
    time_s: float
    lines: tuple[str, ...] = ()

    @property
    def fov_rad(self) -> float:
        """Angle from the upper to the lower edge, as a pinhole lens would have it."""
        if self.lens is None:
            return float(np.radians(45.0))
        return float(2.0 * np.arctan(0.5 * self.lens.height / self.lens.fy))


class Cameras:
    """Takes the pictures that go with scans; the last one of each camera is kept."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._cameras = [
            sensor
            for sensor in scenario.frame_sensors
            if (layer := VIEWER.get(sensor.record_type)) is not None and layer.picture is not None
            if sensor.count(scenario.duration_s)
        ]
        self._kept: dict[str, tuple[Any, Any]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Of the cameras that have pictures to show."""
        return tuple(camera.name for camera in self._cameras)

    def over_at(self, time_s: float) -> float:
        """When the pictures that go with a time [s] are all taken."""
        ends = [camera.start(self._number(camera, time_s)) + camera.length_s for camera in self._cameras]
        return max(ends, default=time_s)

    def _number(self, camera: FrameOnBoard, time_s: float) -> int:
        nearest = round((time_s - camera.entry.phase_s) / camera.period_s)
        return int(np.clip(nearest, 0, camera.count(self._scenario.duration_s) - 1))

    def at(self, time_s: float, air: object, points: Floats | None = None) -> Iterator[Shot]:
        """The picture of each camera that is nearest to a time [s], with points (n, 3) [m] of the world over it.

        `air` is what weather it is: with another, pictures are taken anew.
        """
        for name in self.names:
            yield shot_of(name, self.image(name, time_s, air), points)

    def image(self, name: str, time_s: float, air: object) -> Image:
        """What one camera measures nearest to a time [s]."""
        camera = next(one for one in self._cameras if one.name == name)
        number = self._number(camera, time_s)
        key = (number, air)
        if self._kept.get(name, (None,))[0] != key:
            self._kept[name] = (key, camera.measure(self._scenario.world, number, self._scenario.seed))
        found: Image = self._kept[name][1]
        return found


def shot_of(name: str, image: Image, points: Floats | None = None) -> Shot:
    """A picture in the scene, with points (n, 3) [m] of the world over it, coloured by their distance."""
    layer = VIEWER.of(type(image))
    assert layer.picture is not None
    pixels = layer.picture(image)
    if points is not None and image.intrinsics is not None and len(points):
        from parhelion.sensors.camera.lens import project

        local = image.pose.inverse().apply(points)
        uv, inside = project(image.intrinsics, local)
        distance = np.linalg.norm(local[inside], axis=1)
        pixels = points_over(pixels, uv[inside], distance, size=max(2, round(image.width / 320)))
    step = -(-pixels.shape[1] // MOST_COLUMNS)
    shown = np.ascontiguousarray(pixels[::step, ::step])
    return Shot(name, image.pose, shown, image.intrinsics, image.start_time, tuple(layer.lines(name, image)))
