"""One picture from light to record: meter, expose, add precipitation, read out, add ground truth."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.image import MOBILITY, Image
from parhelion.core.pose import Pose
from parhelion.core.random import Stream
from parhelion.core.trajectory import Fixed, Mounted, Trajectory, pose_at, velocity_at
from parhelion.rays.device import copied
from parhelion.sensors.optics.camera.denoise import Layers, filtered, method_of, open_image_denoised
from parhelion.sensors.optics.camera.depth import DepthDraws, StereoCalibration, flight_depth, stereo_depth
from parhelion.sensors.optics.camera.device import CameraOnDevice
from parhelion.sensors.optics.camera.electronics import SensorElectronics, axis_cosines, develop
from parhelion.sensors.optics.camera.lens import aperture_radius_m, lights
from parhelion.sensors.optics.camera.lens_drops import LensDrops, lens_drops, through_lens_drops
from parhelion.sensors.optics.camera.path import RenderInputs
from parhelion.sensors.optics.camera.readout import AutoExposure, Exposure, auto_exposure, meter, with_glare
from parhelion.sensors.optics.camera.scene import CameraScene
from parhelion.sensors.optics.camera.streaks import layer_of, streaks_of, vane_blend, with_layer
from parhelion.sensors.optics.camera.thermal import ThermalElectronics, develop_thermal
from parhelion.sensors.optics.camera.truth import ObjectFinder, PixelTruth, flow, mobility_mask
from parhelion.sensors.optics.camera.view import View
from parhelion.sensors.optics.lighting import lighting, mean_radiance
from parhelion.sensors.optics.sky import SkyLight
from parhelion.sensors.optics.window import LENS_MM, Window, drops_in_picture, through, window_map
from parhelion.weather.daylight import Daylight
from parhelion.weather.weather import Weather

if TYPE_CHECKING:
    from parhelion.sensors.optics.camera.camera import Camera


class GrainWarning(UserWarning):
    """Monte Carlo noise of the renderer exceeds the noise of the simulated sensor."""


GRAIN_LIMIT = 20.0
"""A camera warns if the noise of the renderer exceeds this multiple of the sensor noise in a tenth of the pixels."""
DROPS_WIDTH_PX = 640
"""Width of the picture in which drops on the window have radii of 6 to 30 pixels, as `lens_drops` has."""
_GRAIN_STEP = 37
"""Every 37th pixel is compared; the number is prime, so that the pixels spread over rows and colours."""


# ---- shot -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Shot:
    """State of one picture: camera, scene, weather, motion and time."""

    camera: Camera
    device: CameraOnDevice
    electronics: SensorElectronics | ThermalElectronics
    target: CameraScene
    weather: Weather | None
    daylight: Daylight
    motion: Trajectory
    start: float
    stream: Stream
    finder: ObjectFinder | None
    mobility: dict[int, int] | None = None
    """Code of mobility of each instance; None if it is not requested."""

    def photograph(self, exposure: Exposure | AutoExposure, seed: int, world: str) -> Image:
        """Take the picture."""
        camera, intrinsics = self.camera, self.camera.intrinsics
        metadata: dict[str, Any] = {
            "sensor": camera.model,
            "seed": seed,
            "time": self.start,
            "rate_hz": camera.rate_hz,
            "world": world,
        }
        colour: NDArray[Any] = np.zeros((intrinsics.height, intrinsics.width), np.uint8)
        right: NDArray[Any] | None = None
        taken = exposure if isinstance(exposure, Exposure) else Exposure(exposure.max_time_s)
        if camera.picture:
            taken = self._metered(exposure)
            metadata |= {"exposure_s": taken.time_s, "gain_db": taken.gain_db, "samples": camera.samples}
            colour = self._picture(taken)
            if intrinsics.baseline_m:
                stream = replace(self.stream, name=f"{self.stream.name}/right")
                right = replace(self._second_lens(), stream=stream)._picture(taken)
        truth: dict[str, Any] = {}
        if camera.truth or camera.config.depth is not None:
            seen = self._pixel_truth(taken)
            truth = self._truth(taken, seen)
            if camera.config.depth is not None:
                truth["measured_depth"] = self._measured_depth(taken, seen, None if right is None else (colour, right))
        start_pose = self.motion.pose if isinstance(self.motion, Fixed) else pose_at(self.motion, self.start)
        bands = camera.config.sensor.band_names if camera.picture else ()
        moves = {} if self.mobility is None else {"mobility": MOBILITY}
        return Image(
            colour=colour,
            right=right,
            bands=bands,
            intrinsics=intrinsics,
            start_time=self.start,
            pose=start_pose,
            names={"label": {0: "none", **self.target.label_names}, **moves},
            metadata=metadata,
            **truth,
        )

    @property
    def _optics(self) -> dict[str, float]:
        """Aperture radius and focus distance [m]; a pinhole has no defocus."""
        sheet = self.camera.config.lens
        if sheet.focus_m is None:
            return {"aperture_m": 0.0, "focus_m": np.inf}
        radius = aperture_radius_m(self.camera.config.focal_length_mm, sheet.f_number)
        return {"aperture_m": radius, "focus_m": sheet.focus_m}

    def _view(self, exposure_s: float, *, coarse: bool = False) -> View:
        # The coarse picture has fewer rows; it is exposed at one time.
        line_time = 0.0 if coarse else self.camera.line_time_s
        return self.device.view(
            self.target,
            self.motion,
            self.start,
            line_time_s=line_time,
            exposure_s=exposure_s,
            coarse=coarse,
            **self._optics,
        )

    def _sky(self) -> SkyLight:
        return lighting(self.daylight, self.camera.bands, weather=self.weather, time=self.start)

    def _scene(self, view: View) -> RenderInputs:
        return self.device.scene(self.target, view, self._sky(), self.weather, self.start, self.camera.bounces)

    def _metered(self, exposure: Exposure | AutoExposure) -> Exposure:
        """Exposure settings: as given, or from the light meter on a coarse picture."""
        if isinstance(exposure, Exposure):
            return exposure
        if isinstance(self.electronics, ThermalElectronics):
            return Exposure(exposure.max_time_s)
        view = self._view(exposure.min_time_s, coarse=True)
        stream = replace(self.stream, name=f"{self.stream.name}/meter")
        radiance = self.device.metered(self.target, self._scene(view), stream)
        rates = radiance * np.array(self.electronics.electrons_per_radiance())
        counts = np.sum([meter(rates[:, band]) for band in range(rates.shape[1])], axis=0)
        return auto_exposure(counts, self.electronics.full_scale_e, exposure)

    def _picture(self, taken: Exposure) -> NDArray[Any]:
        """Image of one lens, as stored by the sensor."""
        camera, device, electronics = self.camera, self.device, self.electronics
        view = self._view(taken.time_s)
        if isinstance(electronics, ThermalElectronics):
            day, samples = self.daylight, camera.samples
            planes = [device.expose_heat(self.target, view, day, self.weather, self.start, self.stream, samples)]
        else:
            scene = device.guided(self.target, self._scene(view), self.stream)
            method = method_of(camera.denoise, developed=camera.developed)
            if method == "filter":
                planes, error = self._filtered(scene, view)
            else:
                planes, error = device.expose(self.target, scene, self.stream, camera.samples)
            if method == "oidn":
                smooth = open_image_denoised(_stacked(planes, view))
                planes = [device.engine.table(smooth[..., band]) for band in range(smooth.shape[2])]
            elif camera.developed and camera.noise:
                self._compare_grain(planes, error, taken, view)
            planes = self._behind_rain(planes, taken, view)
            if camera.window is not None:
                planes = self._behind_window(planes, view, camera.window)
            if camera.lens_drops:
                drops = lens_drops(camera.intrinsics, seed=self.stream.seed, count=camera.lens_drops)
                seen = [through_lens_drops(copied(plane), drops, view.width, view.height) for plane in planes]
                planes = [device.engine.table(one.astype(np.float32)) for one in seen]
        share = camera.config.lens.glare
        if share and not isinstance(electronics, ThermalElectronics):
            bright = with_glare(_stacked(planes, view), share)
            planes = [device.engine.table(bright[..., band]) for band in range(bright.shape[2])]
        circle = camera.config.lens.image_circle_deg
        if circle is not None:
            shown = device.engine.table(lights(circle, device.middles).ravel().astype(np.float32))
            planes = [plane * shown for plane in planes]
        if not camera.developed:
            return _stacked(planes, view)
        if isinstance(electronics, ThermalElectronics):
            return develop_thermal(planes[0], electronics, self.stream, width=view.width, height=view.height).colour
        lens = camera.intrinsics
        cosines = axis_cosines(lens) if electronics.vignetting else None
        done = develop(
            planes,
            electronics,
            taken,
            self.stream,
            width=view.width,
            height=view.height,
            cos_axis=cosines,
            principal_point=(lens.cx, lens.cy),
        )
        return done.colour

    def _filtered(self, scene: RenderInputs, view: View) -> tuple[list[Any], Any]:
        """Radiance with filtered indirect light, and its relative standard error."""
        camera, device = self.camera, self.device
        planes = device.expose_layers(self.target, scene, self.stream, camera.samples)
        return filtered(
            Layers.of(planes, len(camera.bands)),
            view.width,
            view.height,
            pixel_rad=1.0 / camera.intrinsics.fx,
            samples=camera.samples,
            engine=device.engine,
        )

    def _compare_grain(self, planes: list[Any], error: Any, taken: Exposure, view: View) -> None:
        """Warn once per camera if the noise of the renderer is far above that of the sensor."""
        camera, electronics, engine = self.camera, self.electronics, self.device.engine
        assert isinstance(electronics, SensorElectronics)
        if camera.samples < 2:
            return
        count = view.width * view.height
        rows = engine.dr.arange(engine.mi.UInt32, 0, count, _GRAIN_STEP)
        seen = [copied(engine.dr.gather(engine.mi.Float, one, rows)).astype(np.float64) for one in (*planes, error)]
        rates = np.array(electronics.electrons_per_radiance())[:, None] * np.stack(seen[:-1])
        signal = np.minimum(rates.mean(axis=0) * taken.time_s, electronics.full_well_e)
        step = 1.0 / (np.sqrt(12.0) * electronics.dn_per_e(taken.gain_db))
        noise = np.sqrt(signal + electronics.dark_current_e_s * taken.time_s + electronics.read_noise_e**2 + step**2)
        ratio = float(np.percentile(seen[-1] * signal / noise, 90.0))
        if ratio > GRAIN_LIMIT and not camera.has_warned:
            camera.has_warned = True
            warnings.warn(
                f"{camera.model}: with samples={camera.samples}, the noise of the renderer is {ratio:.0f} times the "
                "sensor noise or more in a tenth of the pixels; use more samples (noise falls with their square root) "
                "or a denoiser (denoise='auto')",
                GrainWarning,
                stacklevel=2,
            )

    def _behind_rain(self, planes: list[Any], taken: Exposure, view: View) -> list[Any]:
        """Picture with streaks of drops, flakes and other particles in front of it."""
        if self.weather is None or self.weather.is_clear(self.start):
            return planes
        lens, optics = self.camera.intrinsics, self._optics
        poses = [pose_at(self.motion, self.start + after) for after in (0.0, taken.time_s)]
        streaks = streaks_of(
            self.weather,
            lens,
            poses[0],
            self.start,
            taken.time_s,
            end_pose=poses[1],
            model=self.camera.rain_blend,
            aperture_m=2.0 * optics["aperture_m"],
            focus_m=optics["focus_m"],
        )
        if not len(streaks):
            return planes
        layer = layer_of(streaks, lens.width, lens.height, self.device.pixel_truth(self.target, view).depth)
        table = self.device.engine.table
        if self.camera.rain_blend == "vane":
            assert isinstance(self.electronics, SensorElectronics)
            # VANE blends the image relative to white: the radiance that saturates the sensor.
            rates = np.array(self.electronics.electrons_per_radiance())
            white = self.electronics.full_scale_e / (rates * taken.time_s * 10.0 ** (taken.gain_db / 20.0))
            mask = layer.mask.reshape(lens.height, lens.width)
            blended = vane_blend(_stacked(planes, view) / white, mask) * white
            return [table(blended[..., band].astype(np.float32)) for band in range(len(planes))]
        around = [float(v) for v in mean_radiance(self._sky())]
        return with_layer(planes, table(layer.share), table(layer.light), around)

    def _behind_window(self, planes: list[Any], view: View, window: Window) -> list[Any]:
        """Picture through a dirty window: dimmed by patches out of focus, with glare, and through drops."""
        speed = 0.0 if isinstance(self.motion, Fixed) else float(np.linalg.norm(velocity_at(self.motion, self.start)))
        drops, *others = window.shares(self.start, self.weather, speed)
        table = self.device.engine.table
        if any(others):
            passed, scattered = (one[..., None] for one in self._patches(window, others))
            clear = _stacked(planes, view)
            seen = passed * clear + scattered * with_glare(clear, 1.0)
            planes = [table(seen[..., band]) for band in range(len(planes))]
        if drops:
            some = self._window_drops(window, drops)
            planes = [
                table(through_lens_drops(copied(plane), some, view.width, view.height).astype(np.float32))
                for plane in planes
            ]
        return planes

    def _patches(self, window: Window, others: Sequence[float]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Transmitted and scattered share of each pixel behind patches of dirt, each of shape (h, w)."""
        sheet = self.camera.config
        pupil_m = 2.0 * aperture_radius_m(sheet.focal_length_mm, sheet.lens.f_number)
        found = window_map(window.seed, (0.0, *others), 1e3 * pupil_m)
        middles = self.device.middles
        passed, scattered = (
            through(one, middles.reshape(-1, 3), LENS_MM).reshape(middles.shape[:2]).astype(np.float32)
            for one in (found.transmittance, found.scattered)
        )
        return passed, scattered

    def _window_drops(self, window: Window, share: float) -> LensDrops:
        """Drops that cover a share of the window."""
        lens = self.camera.intrinsics
        scale = lens.width / DROPS_WIDTH_PX
        radii = (max(1.0, 6.0 * scale), max(2.0, 30.0 * scale))
        count = drops_in_picture(share, lens.width, lens.height, radii)
        return lens_drops(lens, seed=window.seed, count=count, radius_px=radii)

    def _window_truth(self) -> NDArray[np.float32]:
        """Share of the light of each pixel that passes the window undeflected, shape (h, w); 1 without dirt."""
        clear = np.ones(self.device.middles.shape[:2], np.float32)
        window = self.camera.window
        if window is None:
            return clear
        speed = 0.0 if isinstance(self.motion, Fixed) else float(np.linalg.norm(velocity_at(self.motion, self.start)))
        drops, *others = window.shares(self.start, self.weather, speed)
        if any(others):
            clear = self._patches(window, others)[0]
        if drops:
            clear = clear * (1.0 - self._window_drops(window, drops).share.reshape(clear.shape))
        return clear.astype(np.float32)

    def _second_lens(self) -> Shot:
        """Same picture through the second lens."""
        return replace(self, motion=Mounted(self.motion, Pose(xyz=(0.0, -self.camera.intrinsics.baseline_m, 0.0))))

    def _pixel_truth(self, taken: Exposure) -> PixelTruth:
        """Ground truth at the pixel centres, within the image circle of the lens."""
        seen = self.device.pixel_truth(self.target, self._view(taken.time_s))
        circle = self.camera.config.lens.image_circle_deg
        return seen if circle is None else seen.within(lights(circle, self.device.middles))

    def _measured_depth(
        self, taken: Exposure, seen: PixelTruth, pictures: tuple[NDArray[Any], NDArray[Any]] | None
    ) -> NDArray[np.float32]:
        """Measured depth of a depth camera [m]."""
        config, middles = self.camera.config, self.device.middles
        assert config.depth is not None
        stream = replace(self.stream, name=f"{self.stream.name}/depth")
        draws = DepthDraws.of(stream, seen.depth.shape, noise=self.camera.noise)
        if config.depth.kind == "time-of-flight":
            return flight_depth(config.depth, middles, seen, draws, config.sensor.full_well_e)
        assert config.stereo is not None  # validated by CameraConfig
        right = self._second_lens()._pixel_truth(taken)
        lens = self.camera.intrinsics
        unit = StereoCalibration.of(config.stereo, self.electronics.identity) if self.camera.noise else None
        return stereo_depth(config.stereo, config.depth, lens, middles, seen, right, draws, pictures, unit)

    def _truth(self, taken: Exposure, seen: PixelTruth) -> dict[str, Any]:
        """Requested ground truth."""
        camera, lens, line_time = self.camera, self.camera.intrinsics, self.camera.line_time_s
        found: dict[str, Any] = {
            name: getattr(seen, name) for name in ("depth", "normal", "label", "instance") if name in camera.truth
        }
        if self.mobility is not None:
            found["mobility"] = mobility_mask(seen, self.mobility)
        if "window" in camera.truth:
            found["window"] = self._window_truth()
        if "flow" in camera.truth:
            middles, scene = self.device.middles, self.target.scene
            times = self.start + 0.5 * taken.time_s + line_time * np.arange(len(middles))
            found["flow"] = flow(seen, middles, self.motion, scene, lens, times, 1.0 / camera.rate_hz)
        if self.finder is not None:
            middle = self.start + 0.5 * (taken.time_s + line_time * (len(seen.depth) - 1))
            found["objects"] = self.finder.find(seen, lens, pose_at(self.motion, middle), middle)
        return found


def _stacked(planes: list[Any], view: View) -> NDArray[np.float32]:
    """Image (h, w, bands) from flat device arrays."""
    return np.stack([copied(plane).reshape(view.height, view.width) for plane in planes], axis=-1)
