"""The camera: emit, cast, reflect, attenuate, expose, read out."""

from __future__ import annotations

from collections.abc import Collection
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.image import Image, Intrinsics
from parhelion.core.pose import Pose
from parhelion.core.trajectory import Trajectory
from parhelion.rays.device import engine
from parhelion.rays.middle import cell_of
from parhelion.rays.turns import in_turn
from parhelion.sensors.camera import lens
from parhelion.sensors.camera.config import CameraConfig, load_camera_config
from parhelion.sensors.camera.device import CameraOnDevice
from parhelion.sensors.camera.seen_objects import ObjectFinder
from parhelion.sensors.camera.sheet import bands_of, chosen, electronics_of, exposure_of
from parhelion.sensors.camera.shot import Shot, photograph
from parhelion.sensors.camera.target import camera_target
from parhelion.sensors.camera.truth import TRUTH
from parhelion.sensors.frame import Framed, checked_world, finite_time, motion_of, place_of
from parhelion.sensors.light.lighting import lighting
from parhelion.sensors.presets import given_sheet
from parhelion.weather.daylight import Daylight
from parhelion.world.world import World

USUAL_TRUTH = ("depth", "normal", "label", "instance")


class Camera(Framed):
    """A camera by preset name, YAML file or configuration.

        camera = Camera("generic/vga")
        image = camera.shoot(world, pose=Pose(xyz=(0, 0, 2)), seed=7)

    `width` and `height` give another resolution of the same field; `samples` are rays through each pixel, `bounces`
    how often light may be scattered on after the first surface; `truth` names what comes beside the picture (depth,
    normal, label, instance, flow, objects), and `picture=False` leaves the picture itself out, for truth alone;
    `developed=False` gives the light itself, band radiance [W/(m^2 sr)] as float32, before lens falloff and sensor;
    `noise=False` is a sensor without noise; `exposure_s` and `gain_db` set what the sheet leaves to the automatic;
    `denoise` smooths the grain of few rays; `lens_drops` is how many drops lie on the lens;
    `name` tells this one from others of its model.
    """

    kind = "camera"

    def __init__(
        self,
        model: str | PathLike[str] | CameraConfig,
        *,
        rate_hz: float | None = None,
        width: int | None = None,
        height: int | None = None,
        samples: int = 8,
        bounces: int = 1,
        truth: Collection[str] = USUAL_TRUTH,
        picture: bool = True,
        developed: bool = True,
        noise: bool = True,
        exposure_s: float | None = None,
        gain_db: float | None = None,
        denoise: bool = False,
        lens_drops: int = 0,
        name: str = "",
    ) -> None:
        config, self.model = given_sheet("camera", CameraConfig, load_camera_config, model)
        wholes = (("samples", samples, 1, 4096), ("bounces", bounces, 0, 16), ("lens_drops", lens_drops, 0, 10_000))
        for what, value, low, high in wholes:
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"{what}: must be a whole number from {low} to {high}, got {value!r}")
        for one in truth:
            if one not in TRUTH:
                raise unknown_name("truth", one, TRUTH)
        self.config = chosen(config, rate_hz, width, height, exposure_s, gain_db)
        self.rate_hz = self.config.rate_hz
        self.samples, self.bounces, self.noise, self.name = samples, bounces, noise, name
        self.truth, self.picture, self.developed, self.denoise = tuple(truth), picture, developed, denoise
        self.lens_drops = lens_drops
        self.intrinsics: Intrinsics = self.config.intrinsics()
        """The lens."""
        self.bands = bands_of(self.config)
        self._electronics = electronics_of(self.config, self.bands, self._identity, noise=noise)
        self._exposure = exposure_of(self.config)
        self._on_device: CameraOnDevice | None = None
        self._finder: tuple[World, ObjectFinder] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_on_device": None, "_finder": None}

    @property
    def frame_duration_s(self) -> float:
        """Time [s] from a frame's start to the end of its last row's exposure, at the longest."""
        exposure = self.config.exposure
        longest = exposure.time_s if exposure.mode == "manual" else exposure.max_time_s
        return longest + self.line_time_s * (self.intrinsics.height - 1)

    @property
    def line_time_s(self) -> float:
        """From one row's exposure to the next [s]; 0 for a global shutter."""
        return self.config.shutter.line_time_us * 1e-6

    def project(self, points: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Where points (n, 3) [m] of the sensor's frame (x forward, y left, z up) are on the picture.

        Columns and rows (n, 2) [pixel], the middle of the first pixel being (0, 0), and which lie on the picture.
        """
        array = np.asarray(points, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != 3:
            raise ConfigError(f"points: must have shape (n, 3), got {array.shape}")
        uv, inside = lens.project(self.intrinsics, array)
        circle = self.config.lens.image_circle_deg
        return uv, inside if circle is None else inside & lens.lights(circle, array)

    def shoot(
        self,
        world: World,
        *,
        pose: Pose | None = None,
        trajectory: Trajectory | None = None,
        mount: Pose | None = None,
        time: float = 0.0,
        seed: int = 0,
        frame: int | None = None,
    ) -> Image:
        """One picture from a standing (`pose`) or moving (`trajectory`) place, by default the world's viewpoint.

        `mount` is the camera's pose on the moving body. The first row's exposure starts at `time` [s] on the world's
        clock. Sun and sky are those of `world.daylight`, by default a clear day; the air is that of `world.weather`.
        `frame` numbers the measurement for the random streams; by default it follows from time and pose.
        """
        return self._shoot(world, motion_of(world, pose, trajectory, mount), finite_time(time), seed, frame)

    def reflected_light(self, world: World, time: float = 0.0) -> NDArray[np.float64]:
        """Radiance of a white matt surface that lies level in the open [W/(m^2 sr)], for each band.

        The light of a picture divided by it is reflectance, as for a vegetation index.
        """
        daylight = Daylight() if world.daylight is None else world.daylight
        sky = lighting(daylight, self.bands, weather=world.weather, time=finite_time(time))
        return np.asarray(sky.horizontal_irradiance / np.pi)

    def measure(self, world: World, motion: Trajectory, time: float, seed: int, frame: int | None = None) -> Image:
        """The contract of every frame sensor: one measurement of a world from a motion."""
        return self.shoot(world, trajectory=motion, time=time, seed=seed, frame=frame)

    @in_turn
    def _shoot(self, world: World, motion: Trajectory, start: float, seed: int, frame: int | None) -> Image:
        checked_world(world)
        camera, stream = place_of(motion, start), self._stream(seed, motion, start, frame)
        with world.edits():
            # One state of the world for the whole picture: edits by other threads come before or after.
            cell = cell_of(world.geometry(*self.known_as), camera.xyz)
            target = camera_target(world, self.known_as, self.bands, cell)
            weather, daylight = world.weather, world.daylight
            finder = self._objects(world) if "objects" in self.truth else None
        if self._on_device is None:
            self._on_device = CameraOnDevice(engine(), lens.corner_directions(self.intrinsics), self.bands)
        shot = Shot(target, weather, Daylight() if daylight is None else daylight, motion, start, stream, finder)
        return photograph(self, self._on_device, shot, self._electronics, self._exposure, int(seed), world.name)

    def _objects(self, world: World) -> ObjectFinder:
        if self._finder is None or self._finder[0] is not world:
            self._finder = (world, ObjectFinder(world, self.known_as))
        return self._finder[1]

    def __repr__(self) -> str:
        size = f"{self.intrinsics.width} x {self.intrinsics.height} pixels"
        return f"<Camera {self.model}: {size}, {', '.join(self.config.sensor.band_names)} at {self.rate_hz:g} Hz>"
