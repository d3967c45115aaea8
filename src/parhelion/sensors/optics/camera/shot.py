"""One picture from light to record: meter, expose, put rain in front, read out, and tell the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import MissingDependencyError
from parhelion.core.image import Image
from parhelion.core.pose import Pose
from parhelion.core.random import Stream
from parhelion.core.trajectory import Fixed, Mounted, Trajectory, pose_at
from parhelion.rays.device import copied
from parhelion.sensors.optics.camera.depth import DepthDraws, flight_depth, stereo_depth
from parhelion.sensors.optics.camera.device import CameraOnDevice
from parhelion.sensors.optics.camera.electronics import SensorElectronics, axis_cosines, develop
from parhelion.sensors.optics.camera.lens import aperture_radius_m, lights
from parhelion.sensors.optics.camera.lens_drops import lens_drops, through_lens_drops
from parhelion.sensors.optics.camera.path import RenderInputs
from parhelion.sensors.optics.camera.readout import AutoExposure, Exposure, auto_exposure, meter
from parhelion.sensors.optics.camera.scene import CameraScene
from parhelion.sensors.optics.camera.streaks import layer_of, streaks_of, with_layer
from parhelion.sensors.optics.camera.thermal import ThermalElectronics, develop_thermal
from parhelion.sensors.optics.camera.truth import ObjectFinder, PixelTruth, flow
from parhelion.sensors.optics.camera.view import View
from parhelion.sensors.optics.lighting import lighting, mean_radiance
from parhelion.weather.daylight import Daylight
from parhelion.weather.weather import Weather

if TYPE_CHECKING:
    from parhelion.sensors.optics.camera.camera import Camera

# ---- denoise --------------------------------------------------------------------------------------------------------
# Smoothing the grain of few rays with Intel's Open Image Denoise. The picture is then no longer without bias.


def denoised(radiance: NDArray[np.float32]) -> NDArray[np.float32]:
    """Band radiance (h, w, bands) without its grain.

    Bands are smoothed three at a time, each three with the same network; noise of the sensor comes afterwards.
    """
    run = _denoiser()
    bands = radiance.shape[2]
    result = np.empty_like(radiance)
    for first in range(0, bands, 3):
        # Three bands at least: the last ones are repeated where there are fewer.
        chosen = [min(first + k, bands - 1) for k in range(3)]
        colour = np.ascontiguousarray(radiance[..., chosen], dtype=np.float32)
        smooth = np.asarray(run(colour, hdr=True))
        for k, band in enumerate(chosen):
            result[..., band] = smooth[..., k]
    return np.maximum(result, 0.0)


def _denoiser() -> Any:
    try:
        from pyoidn import denoise
    except ImportError:
        raise MissingDependencyError(
            "denoise: needs the package pyoidn: run 'pip install parhelion[denoise]'"
        ) from None
    return denoise


# ---- shot -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ExposureJob:
    """What a picture is taken of."""

    target: CameraScene
    weather: Weather | None
    daylight: Daylight
    motion: Trajectory
    start: float
    stream: Stream
    finder: ObjectFinder | None


def photograph(
    camera: Camera,
    device: CameraOnDevice,
    shot: ExposureJob,
    electronics: SensorElectronics | ThermalElectronics,
    exposure: Exposure | AutoExposure,
    seed: int,
    world: str,
) -> Image:
    """Take the picture."""
    intrinsics = camera.intrinsics
    metadata: dict[str, Any] = {
        "sensor": camera.model, "seed": seed, "time": shot.start, "rate_hz": camera.rate_hz, "world": world,
    }  # fmt: skip
    colour: NDArray[Any] = np.zeros((intrinsics.height, intrinsics.width), np.uint8)
    right: NDArray[Any] | None = None
    taken = exposure if isinstance(exposure, Exposure) else Exposure(exposure.max_time_s)
    if camera.picture:
        taken = _metered(camera, device, shot, electronics, exposure)
        metadata |= {"exposure_s": taken.time_s, "gain_db": taken.gain_db, "samples": camera.samples}
        colour = _picture(camera, device, shot, electronics, taken, shot.motion)
        if intrinsics.baseline_m:
            other = replace(shot, stream=replace(shot.stream, name=f"{shot.stream.name}/right"))
            right = _picture(camera, device, other, electronics, taken, _beside(camera, shot))
    truth: dict[str, Any] = {}
    if camera.truth or camera.config.depth is not None:
        seen = _look(camera, device, shot, taken, shot.motion)
        truth = _truth(camera, device, shot, taken, seen)
        if camera.config.depth is not None:
            pictures = None if right is None else (colour, right)
            truth["measured_depth"] = _measured_depth(camera, device, shot, taken, seen, pictures)
    start_pose = shot.motion.pose if isinstance(shot.motion, Fixed) else pose_at(shot.motion, shot.start)
    bands = camera.config.sensor.band_names if camera.picture else ()
    return Image(
        colour=colour, right=right, bands=bands, intrinsics=intrinsics, start_time=shot.start, pose=start_pose,
        names={"label": {0: "none", **shot.target.label_names}}, metadata=metadata, **truth,
    )  # fmt: skip


def _view(
    camera: Camera,
    device: CameraOnDevice,
    shot: ExposureJob,
    exposure_s: float,
    motion: Trajectory,
    *,
    coarse: bool = False,
) -> View:
    sheet = camera.config.lens
    focus = np.inf if sheet.focus_m is None else sheet.focus_m
    aperture = 0.0 if sheet.focus_m is None else aperture_radius_m(camera.config.focal_length_mm, sheet.f_number)
    # The coarse picture has fewer rows, which take as long together.
    line_time = 0.0 if coarse else camera.line_time_s
    return device.view(
        shot.target, motion, shot.start, line_time_s=line_time, exposure_s=exposure_s, aperture_m=aperture,
        focus_m=focus, coarse=coarse,
    )  # fmt: skip


def _scene(camera: Camera, device: CameraOnDevice, shot: ExposureJob, view: View) -> RenderInputs:
    sky = lighting(shot.daylight, camera.bands, weather=shot.weather, time=shot.start)
    return device.scene(shot.target, view, sky, shot.weather, shot.start, camera.bounces)


def _metered(
    camera: Camera, device: CameraOnDevice, shot: ExposureJob, electronics: SensorElectronics | ThermalElectronics,
    exposure: Exposure | AutoExposure,
) -> Exposure:  # fmt: skip
    """Time and gain: as set, or for the light of a coarse picture."""
    if isinstance(exposure, Exposure):
        return exposure
    if isinstance(electronics, ThermalElectronics):
        return Exposure(exposure.max_time_s)
    view = _view(camera, device, shot, exposure.min_time_s, shot.motion, coarse=True)
    stream = replace(shot.stream, name=f"{shot.stream.name}/meter")
    radiance = device.metered(shot.target, _scene(camera, device, shot, view), stream)
    rates = radiance * np.array(electronics.electrons_per_radiance())
    counts = np.sum([meter(rates[:, band]) for band in range(rates.shape[1])], axis=0)
    return auto_exposure(counts, electronics.full_well_e, exposure)


def _picture(
    camera: Camera, device: CameraOnDevice, shot: ExposureJob, electronics: SensorElectronics | ThermalElectronics,
    taken: Exposure, motion: Trajectory,
) -> NDArray[Any]:  # fmt: skip
    """What the sensor reads."""
    view = _view(camera, device, shot, taken.time_s, motion)
    if isinstance(electronics, ThermalElectronics):
        day, stream = shot.daylight, shot.stream
        planes = [device.expose_heat(shot.target, view, day, shot.weather, shot.start, stream, camera.samples)]
    else:
        planes = device.expose(shot.target, _scene(camera, device, shot, view), shot.stream, camera.samples)
        if camera.denoise:
            smooth = denoised(_stacked(planes, view))
            planes = [device.engine.table(smooth[..., band]) for band in range(smooth.shape[2])]
        planes = _behind_rain(camera, device, shot, planes, taken, motion, view)
        if camera.lens_drops:
            drops = lens_drops(camera.intrinsics, seed=shot.stream.seed, count=camera.lens_drops)
            seen = [through_lens_drops(copied(plane), drops, view.width, view.height) for plane in planes]
            planes = [device.engine.table(one.astype(np.float32)) for one in seen]
    circle = camera.config.lens.image_circle_deg
    if circle is not None:
        shown = device.engine.table(lights(circle, device.middles).ravel().astype(np.float32))
        planes = [plane * shown for plane in planes]
    if not camera.developed:
        return _stacked(planes, view)
    if isinstance(electronics, ThermalElectronics):
        return develop_thermal(planes[0], electronics, shot.stream, width=view.width, height=view.height).colour
    lens = camera.intrinsics
    cosines = axis_cosines(lens) if electronics.vignetting else None
    done = develop(
        planes, electronics, taken, shot.stream, width=view.width, height=view.height, cos_axis=cosines,
        principal_point=(lens.cx, lens.cy),
    )  # fmt: skip
    return done.colour


def _stacked(planes: list[Any], view: View) -> NDArray[np.float32]:
    """Flat arrays of the device as one picture (h, w, bands)."""
    return np.stack([copied(plane).reshape(view.height, view.width) for plane in planes], axis=-1)


def _behind_rain(
    camera: Camera, device: CameraOnDevice, shot: ExposureJob, planes: list[Any], taken: Exposure, motion: Trajectory,
    view: View,
) -> list[Any]:  # fmt: skip
    """The picture with streaks of drops, flakes and other particles in front of it."""
    if shot.weather is None or shot.weather.is_clear(shot.start):
        return planes
    lens, sheet = camera.intrinsics, camera.config.lens
    aperture = 0.0 if sheet.focus_m is None else 2.0 * aperture_radius_m(camera.config.focal_length_mm, sheet.f_number)
    poses = [pose_at(motion, shot.start + after) for after in (0.0, taken.time_s)]
    streaks = streaks_of(
        shot.weather, lens, poses[0], shot.start, taken.time_s, end_pose=poses[1], aperture_m=aperture,
        focus_m=np.inf if sheet.focus_m is None else sheet.focus_m,
    )  # fmt: skip
    if not len(streaks):
        return planes
    depth = device.look(shot.target, view).depth
    layer = layer_of(streaks, lens.width, lens.height, depth)
    sky = lighting(shot.daylight, camera.bands, weather=shot.weather, time=shot.start)
    table = device.engine.table
    return with_layer(planes, table(layer.share), table(layer.light), [float(v) for v in mean_radiance(sky)])


def _beside(camera: Camera, shot: ExposureJob) -> Trajectory:
    """How the second lens moves."""
    return Mounted(shot.motion, Pose(xyz=(0.0, -camera.intrinsics.baseline_m, 0.0)))


def _look(camera: Camera, device: CameraOnDevice, shot: ExposureJob, taken: Exposure, motion: Trajectory) -> PixelTruth:
    """What the middles of pixels show, within the circle that the lens lights."""
    seen = device.look(shot.target, _view(camera, device, shot, taken.time_s, motion))
    circle = camera.config.lens.image_circle_deg
    return seen if circle is None else seen.within(lights(circle, device.middles))


def _measured_depth(
    camera: Camera, device: CameraOnDevice, shot: ExposureJob, taken: Exposure, seen: PixelTruth,
    pictures: tuple[NDArray[Any], NDArray[Any]] | None,
) -> NDArray[np.float32]:  # fmt: skip
    """What a depth camera reports."""
    sheet, stereo = camera.config.depth, camera.config.stereo
    assert sheet is not None
    stream = replace(shot.stream, name=f"{shot.stream.name}/depth")
    draws = DepthDraws.of(stream, seen.depth.shape, noise=camera.noise)
    if sheet.kind == "time-of-flight":
        return flight_depth(sheet, device.middles, seen, draws, camera.config.sensor.full_well_e)
    assert stereo is not None  # the data sheet has seen to it
    right = _look(camera, device, shot, taken, _beside(camera, shot))
    return stereo_depth(stereo, sheet, camera.intrinsics, device.middles, seen, right, draws, pictures)


def _truth(
    camera: Camera, device: CameraOnDevice, shot: ExposureJob, taken: Exposure, seen: PixelTruth
) -> dict[str, Any]:
    """What was asked for beside the picture."""
    found: dict[str, Any] = {
        name: getattr(seen, name) for name in ("depth", "normal", "label", "instance") if name in camera.truth
    }
    if "flow" in camera.truth:
        found["flow"] = _flow(camera, device, shot, taken, seen)
    if shot.finder is not None:
        middle = shot.start + 0.5 * (taken.time_s + camera.line_time_s * (len(seen.depth) - 1))
        found["objects"] = shot.finder.find(seen, camera.intrinsics, pose_at(shot.motion, middle), middle)
    return found


def _flow(
    camera: Camera, device: CameraOnDevice, shot: ExposureJob, taken: Exposure, seen: PixelTruth
) -> NDArray[np.float32]:
    times = shot.start + 0.5 * taken.time_s + camera.line_time_s * np.arange(len(device.middles))
    return flow(seen, device.middles, shot.motion, shot.target.scene, camera.intrinsics, times, 1.0 / camera.rate_hz)
