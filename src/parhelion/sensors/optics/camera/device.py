"""Device arrays of a camera, and the launches of its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.random import Stream
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.rays.device import Engine, copied
from parhelion.rays.lock import DeviceOwned
from parhelion.sensors.optics.air import Air
from parhelion.sensors.optics.camera.air import AirLight, air_of
from parhelion.sensors.optics.camera.guide import LEAST_CONTRAST, RAYS, TEST_RAYS, Guide, contrast, tiles_of
from parhelion.sensors.optics.camera.lights import SkyOnDevice, lamps_lit
from parhelion.sensors.optics.camera.path import RenderInputs, guide_rays, render
from parhelion.sensors.optics.camera.scene import CameraScene
from parhelion.sensors.optics.camera.thermal import Warmth, render_heat
from parhelion.sensors.optics.camera.truth import PixelTruth, trace_truth
from parhelion.sensors.optics.camera.view import View, upload
from parhelion.sensors.optics.lighting import (
    HAZE_ASYMMETRY,
    clear_air_extinction,
    cloud_of_weather,
    layer_reflectance,
    lighting,
    mean_radiance,
)
from parhelion.sensors.optics.sky import SkyLight
from parhelion.surfaces.bands import THERMAL_FROM_NM, Band, box_band
from parhelion.surfaces.thermal import dew_point_c
from parhelion.weather.air import AirContents, air_contents
from parhelion.weather.daylight import Daylight
from parhelion.weather.weather import Weather

SOLAR = box_band("solar", 2150.0, 3700.0)
"""Whole solar spectrum, which heats surfaces."""
REACH_M = 50_000.0
"""Maximum length of rays [m]."""
HETEROGENEOUS_REACH_M = 2000.0
"""Range up to which heterogeneous weather is integrated [m]; beyond it, the extinction at the end continues."""
HAZE_LAYER_M = 1250.0
"""Scale height of haze [m]: path length of a vertical ray through it."""
METER_STEP = 8
"""Factor by which the image of the light meter is smaller along each side."""
METER_SAMPLES = 4
"""Rays per pixel of the light meter."""


class CameraOnDevice(DeviceOwned):
    """Device arrays that all pictures of a camera share."""

    def __init__(self, engine: Engine, corners: NDArray[np.float32], bands: tuple[Band, ...]) -> None:
        self.engine, self.corners, self.bands = engine, corners, bands
        row, column = (n // 2 for n in corners.shape[:2])
        self.pixel_rad = float(np.linalg.norm(corners[row, column] - corners[row, column - 1]))
        """Angle of a pixel in the middle of the picture [rad]."""
        self._tables = upload(engine, corners)
        self._coarse = _thinned(corners)
        self._coarse_tables = upload(engine, self._coarse)
        self._warmth: tuple[Any, Any, Warmth] | None = None
        self._skies: dict[int, tuple[SkyLight, SkyOnDevice]] = {}
        self._sees_air = all(band.centre_nm < THERMAL_FROM_NM for band in bands)

    @cached_property
    def middles(self) -> NDArray[np.float64]:
        """Unit directions of the pixel centres in the sensor frame, shape (h, w, 3)."""
        corners = self.corners.astype(np.float64)
        middles = corners[:-1, :-1] + corners[:-1, 1:] + corners[1:, :-1] + corners[1:, 1:]
        middles /= np.linalg.norm(middles, axis=-1, keepdims=True)
        return middles

    def view(
        self,
        target: CameraScene,
        motion: Trajectory,
        start: float,
        *,
        line_time_s: float,
        exposure_s: float,
        aperture_m: float,
        focus_m: float,
        coarse: bool = False,
    ) -> View:
        """View of one exposure; `coarse` selects the resolution of the light meter."""
        corners, tables = (self._coarse, self._coarse_tables) if coarse else (self.corners, self._tables)
        duration = exposure_s + line_time_s * (corners.shape[0] - 2)
        place = motion.pose.xyz if isinstance(motion, Fixed) else motion.sample(np.array([start]))[0][0]
        if target.scene.changes:
            target.scene.set_window(start, duration, place)
        return View.of(
            self.engine,
            corners,
            motion,
            start,
            line_time_s=line_time_s,
            exposure_s=exposure_s,
            aperture_m=aperture_m,
            focus_m=focus_m,
            origin=target.scene.origin,
            tables=tables,
        )

    def scene(
        self,
        target: CameraScene,
        view: View,
        sky: SkyLight,
        weather: Weather | None,
        time: float,
        bounces: int,
    ) -> RenderInputs:
        """Inputs of the renderer for one exposure."""
        engine, night = self.engine, lamps_lit(sky)
        ground = None if weather is None else weather.ground(time)
        covered, lamps = target.in_weather(ground, night=night), target.lamps(night=night)
        reach = engine.number(REACH_M)
        air = self._air(target, view, sky, weather, time)
        return RenderInputs(
            bounces,
            view,
            covered.surfaces,
            target.textures,
            self._sky(sky),
            lamps,
            air,
            reach,
            covered.looks,
            target.holes,
            target.patterns,
            engine.number(self.pixel_rad),
            covered.patches,
        )

    def _sky(self, sky: SkyLight) -> SkyOnDevice:
        """Sky on the device, cached for the next picture."""
        known = self._skies.get(id(sky))
        if known is None or known[0] is not sky:
            if len(self._skies) >= 8:
                self._skies.clear()
            known = self._skies[id(sky)] = (sky, SkyOnDevice.of(self.engine, sky))
        return known[1]

    def _air(
        self, target: CameraScene, view: View, sky: SkyLight, weather: Weather | None, time: float
    ) -> AirLight | None:
        """Air in front of the camera, or None for thermal bands, in which it is not visible."""
        if not self._sees_air:
            return None
        engine = self.engine
        middles = [band.centre_nm for band in self.bands]
        clear = np.sum(clear_air_extinction(self.bands, sky.turbidity), axis=0)
        media = None if weather is None else [air_contents(weather, time, nm) for nm in middles]
        if media is None or media[0].is_clear:
            air, total = Air(engine.number(float(clear[0]))), clear
            top, asymmetry = HAZE_LAYER_M, HAZE_ASYMMETRY
        else:
            air = air_of(
                engine, view, media[0], float(clear[0]), target.scene.origin, engine.number(HETEROGENEOUS_REACH_M)
            )
            total = clear + [sum(part.extinction_per_m for part in one.components) for one in media]
            layers = [part.light.layer_m for part in media[0].components if part.light.layer_m is not None]
            top, asymmetry = min(layers, default=HAZE_LAYER_M), media[0].asymmetry
        number = engine.number
        return AirLight(
            air,
            [number(float(one / total[0])) for one in total],
            number(top),
            [number(float(one)) for one in mean_radiance(sky)],
            [number(float(one)) for one in sky.sun_irradiance],
            [number(float(one)) for one in sky.sun_direction],
            number(asymmetry),
            number(float(total[0])),
            *_clouds(engine, [] if media is None else media),
        )

    def expose(
        self, target: CameraScene, scene: RenderInputs, stream: Stream, samples: int, *, first: int = 0
    ) -> tuple[list[Any], Any]:
        """Mean radiance of the pixels [W/(m^2 sr)], one flat device array per band, and its relative standard error."""
        *planes, error = self._rendered(target, scene, stream, samples, first, layered=False)
        return planes, error

    def expose_layers(self, target: CameraScene, scene: RenderInputs, stream: Stream, samples: int) -> list[Any]:
        """Light of the pixels as flat device arrays, for `denoise.Layers`."""
        return self._rendered(target, scene, stream, samples, 0, layered=True)

    def _rendered(
        self, target: CameraScene, scene: RenderInputs, stream: Stream, samples: int, first: int, *, layered: bool
    ) -> list[Any]:
        engine, count = self.engine, scene.view.width * scene.view.height
        shoot = engine.frozen(render, casts=True)
        return shoot(
            scene,
            target.scene.for_kernels(),
            engine.counting(count),
            self._keys(stream),
            engine.whole(samples),
            engine.whole(first),
            count,
            layered,
        )

    def guided(self, target: CameraScene, scene: RenderInputs, stream: Stream) -> RenderInputs:
        """Inputs of the renderer with a guide of the indirect light, where that reduces noise."""
        if not scene.bounces:
            return scene
        engine, view = self.engine, scene.view
        tiles = tiles_of(view.width, view.height)
        trace = engine.frozen(guide_rays, casts=True)
        keys = self._keys(replace(stream, name=f"{stream.name}/guide"))

        def traced(rays: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
            lanes = engine.counting(tiles[0] * tiles[1] * rays)
            numbers = engine.whole(tiles[1]), engine.whole(rays)
            bins, light = trace(scene, target.scene.for_kernels(), lanes, keys, *numbers)
            return copied(bins).astype(np.int64), copied(light)

        if contrast(tiles, traced(TEST_RAYS)[1]) < LEAST_CONTRAST:
            return scene
        return replace(scene, guide=Guide.of(engine, tiles, *traced(RAYS)))

    def expose_heat(
        self,
        target: CameraScene,
        view: View,
        day: Daylight,
        weather: Weather | None,
        time: float,
        stream: Stream,
        samples: int,
    ) -> Any:
        """Mean thermal radiance of the pixels [W/(m^2 sr)], a flat device array."""
        engine, count = self.engine, view.width * view.height
        solar = lighting(day, (SOLAR,), weather=weather, time=time)
        cloud, wind = day.cloud_optical_depth, 2.0
        if weather is not None:
            cloud = max(cloud, cloud_of_weather(weather, time))
            wind = max(wind, float(np.linalg.norm(weather.wind_m_s)))
            day = _with_air(day, weather)
        ground = None if weather is None else weather.ground(time)
        key = (id(target), id(solar), day, cloud, wind, ground)
        if self._warmth is None or self._warmth[0] != key:
            materials, rows = target.thermal_materials(ground)
            made = Warmth.of(
                engine,
                materials,
                rows,
                self.bands[0],
                day,
                solar,
                cloud,
                wind,
                target.heat,
                target.patches_in(ground),
            )
            self._warmth = (key, (target, solar), made)
        shoot = engine.frozen(render_heat, casts=True)
        return shoot(
            view,
            self._warmth[2],
            engine.number(REACH_M),
            target.scene.for_kernels(),
            engine.counting(count),
            self._keys(stream),
            engine.whole(samples),
            count,
        )

    def _keys(self, stream: Stream) -> tuple[Any, Any]:
        opaque, kind = self.engine.dr.opaque, self.engine.mi.UInt32
        low, high = stream.key
        return opaque(kind, low), opaque(kind, high)

    def metered(self, target: CameraScene, scene: RenderInputs, stream: Stream) -> NDArray[np.float64]:
        """Radiance of a low-resolution picture for the light meter, shape (pixels, bands)."""
        planes, _ = self.expose(target, scene, stream, METER_SAMPLES)
        return np.stack([copied(plane).astype(np.float64) for plane in planes], axis=1)

    def pixel_truth(self, target: CameraScene, view: View) -> PixelTruth:
        """Ground truth at the pixel centres."""
        return trace_truth(
            self.engine,
            view,
            target.names,
            target.scene.for_kernels(),
            self.engine.number(REACH_M),
            moves=target.scene.moving is not None,
            holes=target.holes,
        )


def _with_air(day: Daylight, weather: Weather) -> Daylight:
    """Daylight with the air temperature and dew point of the weather, where it states them."""
    air, humidity = getattr(weather, "temperature_c", None), getattr(weather, "humidity_percent", None)
    if air is None and humidity is None:
        return day
    air = day.air_temperature_c if air is None else float(air)
    dew = min(day.dew_point_c, air) if humidity is None else dew_point_c(air, float(humidity))
    return day.model_copy(update={"air_temperature_c": air, "dew_point_c": dew})


def _thinned(corners: NDArray[np.float32]) -> NDArray[np.float32]:
    """Pixel corners of a smaller image with the same field of view."""
    rows, columns = (np.unique(np.linspace(0, n - 1, max(2, n // METER_STEP)).astype(int)) for n in corners.shape[:2])
    return np.ascontiguousarray(corners[np.ix_(rows, columns)])


def _clouds(engine: Engine, contents: Sequence[AirContents]) -> tuple[list[Any], list[Any]]:
    """Relative extinction of media on grids in each band, and the share of light that an opaque layer returns."""
    if not contents or not contents[0].grids:
        return [], []
    weights = [[one.light.extinction_per_m for one in part.grids] for part in contents]
    ratio = [sum(row) / sum(weights[0]) for row in weights]
    returned = [
        float(np.average([layer_reflectance(one.light.albedo, one.light.asymmetry) for one in part.grids], weights=row))
        for part, row in zip(contents, weights, strict=True)
    ]
    return [engine.number(one) for one in ratio], [engine.number(one) for one in returned]
