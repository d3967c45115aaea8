"""Frames of other sensors of a scenario for the viewer: images and points nearest in time to a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.image import Image, Intrinsics
from parhelion.core.pose import Floats, Pose
from parhelion.live.viewer.layers import VIEWER, Dots, ViewerLayer
from parhelion.pictures.camera import points_over
from parhelion.scenario.scenario import Scenario
from parhelion.scenario.sensors import FrameOnBoard

MOST_COLUMNS = 960
"""Maximum width [pixels]; wider images are subsampled by an integer step."""


@dataclass(frozen=True, eq=False)
class CameraFrame:
    """Image of a camera in the scene."""

    name: str
    pose: Pose | None
    """Camera pose in the world, x forward; None if it is unknown."""
    pixels: NDArray[np.uint8]
    """Red, green, blue, shape (h, w, 3)."""
    lens: Intrinsics | None
    """Size of the original image."""
    time_s: float
    lines: tuple[str, ...] = ()

    @property
    def fov_rad(self) -> float:
        """Vertical field of view of the equivalent pinhole lens [rad]."""
        if self.lens is None:
            return float(np.radians(45.0))
        return float(2.0 * np.arctan(0.5 * self.lens.height / self.lens.fy))


class NearestFrames:
    """Frames of other sensors that accompany scans; the last frame of each sensor is cached."""

    def __init__(self, scenario: Scenario, shown: Callable[[ViewerLayer], object]) -> None:
        """`shown` selects the display function of a layer; sensors without one are skipped."""
        self._scenario = scenario
        self._sensors = [
            sensor
            for sensor in scenario.frame_sensors
            if (layer := VIEWER.get(sensor.record_type)) is not None and shown(layer) is not None
            if sensor.count(scenario.duration_s)
        ]
        self._kept: dict[str, tuple[Any, Any]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sensors with frames to show."""
        return tuple(sensor.name for sensor in self._sensors)

    def over_at(self, time_s: float) -> float:
        """End time [s] of the frames that accompany a scan at a time [s]."""
        ends = [sensor.start(self._number(sensor, time_s)) + sensor.length_s for sensor in self._sensors]
        return max(ends, default=time_s)

    def _number(self, sensor: FrameOnBoard, time_s: float) -> int:
        nearest = round((time_s - sensor.entry.phase_s) / sensor.period_s)
        return int(np.clip(nearest, 0, sensor.count(self._scenario.duration_s) - 1))

    def frame(self, name: str, time_s: float, air: object) -> Any:
        """Frame of a sensor nearest to a time [s]; measured again if `air` changed."""
        sensor = next(one for one in self._sensors if one.name == name)
        number = self._number(sensor, time_s)
        key = (number, air)
        if self._kept.get(name, (None,))[0] != key:
            self._kept[name] = (key, sensor.measure(self._scenario.world, number, self._scenario.seed))
        return self._kept[name][1]


class Points(NearestFrames):
    """Points of radars and pulse-echo sensors in the scene."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario, lambda layer: layer.dots)

    def at(self, time_s: float, air: object) -> Iterator[tuple[Dots, list[str]]]:
        """Points and panel text of each sensor, for the frame nearest to a time [s]."""
        for name in self.names:
            record = self.frame(name, time_s, air)
            layer = VIEWER.require(type(record))
            assert layer.dots is not None
            yield layer.dots(record), layer.lines(name, record)


class Cameras(NearestFrames):
    """Images that accompany scans; the last image of each camera is cached."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario, lambda layer: layer.picture)

    def at(self, time_s: float, air: object, points: Floats | None = None) -> Iterator[CameraFrame]:
        """Image of each camera nearest to a time [s], with projected points (n, 3) [m] of the world.

        `air` identifies the weather: if it changes, images are taken again.
        """
        for name in self.names:
            yield shot_of(name, self.image(name, time_s, air), points)

    def image(self, name: str, time_s: float, air: object) -> Image:
        """Image of one camera nearest to a time [s]."""
        found: Image = self.frame(name, time_s, air)
        return found


def shot_of(name: str, image: Image, points: Floats | None = None) -> CameraFrame:
    """Image in the scene with projected points (n, 3) [m] of the world, coloured by distance."""
    layer = VIEWER.require(type(image))
    assert layer.picture is not None
    pixels = layer.picture(image)
    if points is not None and image.intrinsics is not None and len(points):
        from parhelion.sensors.optics.camera.lens import project

        local = image.pose.inverse().apply(points)
        uv, inside = project(image.intrinsics, local)
        distance = np.linalg.norm(local[inside], axis=1)
        pixels = points_over(pixels, uv[inside], distance, size=max(2, round(image.width / 320)))
    step = -(-pixels.shape[1] // MOST_COLUMNS)
    shown = np.ascontiguousarray(pixels[::step, ::step])
    return CameraFrame(name, image.pose, shown, image.intrinsics, image.start_time, tuple(layer.lines(name, image)))
