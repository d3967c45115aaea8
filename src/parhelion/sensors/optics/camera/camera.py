"""The camera: emit, cast, reflect, attenuate, expose, read out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.config import parse
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.image import Image, Intrinsics
from parhelion.core.random import Stream
from parhelion.core.trajectory import Trajectory
from parhelion.rays.device import engine
from parhelion.rays.lock import locked
from parhelion.rays.origin import cell_around
from parhelion.sensors.base import FrameSensor, finite_time, place_of
from parhelion.sensors.optics.camera import lens
from parhelion.sensors.optics.camera.calibration_files import load_intrinsics
from parhelion.sensors.optics.camera.config import CameraConfig
from parhelion.sensors.optics.camera.denoise import method_of
from parhelion.sensors.optics.camera.device import CameraOnDevice
from parhelion.sensors.optics.camera.electronics import SensorElectronics
from parhelion.sensors.optics.camera.lattice import MODELS
from parhelion.sensors.optics.camera.readout import AutoExposure, Exposure
from parhelion.sensors.optics.camera.scene import camera_target
from parhelion.sensors.optics.camera.shot import Shot
from parhelion.sensors.optics.camera.thermal import ThermalElectronics
from parhelion.sensors.optics.camera.truth import TRUTH, ObjectFinder, mobility_codes
from parhelion.sensors.optics.lighting import lighting
from parhelion.sensors.optics.window import Window, window_of
from parhelion.sensors.sheets import open_sheet
from parhelion.surfaces import library
from parhelion.surfaces.bands import Band, planck_radiance
from parhelion.weather.daylight import Daylight
from parhelion.world.world import World

# ---- colour ---------------------------------------------------------------------------------------------------------
# Conversion of sensor bands to display colours by a colour matrix, as in every colour camera. The matrix is fitted to
# the spectra of the material library in daylight: white-balanced sensor readings against CIE colours. Grey stays grey.


_GRID_NM = np.arange(380.0, 781.0, 5.0)
_DAYLIGHT_K = 5800.0
_SRGB_OF_XYZ = np.array([[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]])
"""Linear sRGB of CIE XYZ (IEC 61966-2-1)."""


def eye_responses(wavelength_nm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Colour matching functions x, y, z of the CIE 1931 observer, shape (3, n).

    Sums of Gaussians after Wyman, Sloan and Shirley 2013 (JCGT 2.2), within 1 % of the peaks of the CIE tables.
    """

    def lobe(height: float, middle: float, left: float, right: float) -> NDArray[np.float64]:
        width = np.where(wavelength_nm < middle, left, right)
        return np.asarray(height * np.exp(-0.5 * ((wavelength_nm - middle) / width) ** 2))

    x = lobe(1.056, 599.8, 37.9, 31.0) + lobe(0.362, 442.0, 16.0, 26.7) - lobe(0.065, 501.1, 20.4, 26.2)
    y = lobe(0.821, 568.8, 46.9, 40.5) + lobe(0.286, 530.9, 16.3, 31.1)
    z = lobe(1.217, 437.0, 11.8, 36.0) + lobe(0.681, 459.0, 26.0, 13.8)
    return np.stack([x, y, z])


@lru_cache(maxsize=16)
def colour_matrix(bands: tuple[Band, ...]) -> tuple[tuple[float, ...], ...] | None:
    """Linear sRGB of a white-balanced reading of three bands; None for any other number of bands.

    Each row sums to 1, so that greys stay as they are.
    """
    if len(bands) != 3:
        return None
    daylight = planck_radiance(_GRID_NM, _DAYLIGHT_K)
    spectra = []
    for name in library.material_names():
        spectrum = library.material(name).spectrum
        spectra.append(np.interp(_GRID_NM * 1e-3, spectrum.wavelength_um, spectrum.reflectance))
    reflectance = np.array(spectra)
    # Sensors count photons, and a watt carries more photons at longer wavelengths.
    read = np.stack([np.interp(_GRID_NM, b.wavelength_nm, b.response, left=0, right=0) * _GRID_NM for b in bands])
    seen = _SRGB_OF_XYZ @ eye_responses(_GRID_NM)
    raw = (reflectance * daylight) @ read.T / (daylight @ read.T)
    wanted = (reflectance * daylight) @ seen.T / (daylight @ seen.T)
    # Each row sums to 1, so the last column follows from the others.
    differences, rest = raw[:, :2] - raw[:, 2:], wanted - raw[:, 2:]
    found, *_ = np.linalg.lstsq(differences, rest, rcond=None)
    matrix = np.vstack([found, 1.0 - found.sum(axis=0)]).T
    return tuple(tuple(float(v) for v in row) for row in matrix)


# ---- Parameters of the lens, sensor and exposure models from the data sheet -----------------------------------------


def with_settings(
    config: CameraConfig,
    rate_hz: float | None,
    width: int | None,
    height: int | None,
    exposure_s: float | None,
    gain_db: float | None,
) -> CameraConfig:
    """Data sheet with the user's settings applied, validated again."""
    if rate_hz is width is height is exposure_s is gain_db is None:
        return config
    data = config.model_dump(mode="python")
    if rate_hz is not None:
        data["rate_hz"] = rate_hz
    if width is not None or height is not None:
        _resize(config, data, width, height)
    if exposure_s is not None:
        data["exposure"] |= {"mode": "manual", "time_s": exposure_s}
    if gain_db is not None:
        if exposure_s is None and config.exposure.mode == "auto":
            raise ConfigError("gain_db: needs exposure_s, or a data sheet with a manual exposure")
        data["exposure"]["gain_db"] = gain_db
    return parse(CameraConfig, data, config.name)


def with_calibration(config: CameraConfig, file: str | PathLike[str]) -> CameraConfig:
    """Data sheet with the lens and the image size of a calibration file; the sensor keeps its size and electronics."""
    found = load_intrinsics(file, width=config.image.width, height=config.image.height)
    if (found.width, found.height) != (config.image.width, config.image.height):
        config = with_settings(config, None, found.width, found.height, None, None)
    return config.calibrated(found)


def _resize(config: CameraConfig, data: dict, width: int | None, height: int | None) -> None:  # type: ignore[type-arg]
    """Change the resolution at the same field of view: larger or smaller pixels on the same sensor."""
    old = config.intrinsics()
    if width is None:
        assert height is not None
        width = max(1, round(old.width * height / old.height))
    height = max(1, round(old.height * width / old.width)) if height is None else height
    if width < 1 or height < 1:
        raise ConfigError(f"width and height: must be 1 pixel or more, got {width} and {height}")
    new = lens.scaled(old, width, height)
    # The whole frame is read out in the same time, so rolling-shutter skew stays the same.
    data["shutter"]["line_time_us"] *= old.height / height
    data["image"] = {"width": width, "height": height}
    data["lens"] |= {"fx": new.fx, "fy": new.fy, "cx": new.cx, "cy": new.cy, "skew": new.skew, "hfov_deg": None}
    data["lens"]["focal_length_mm"] = config.focal_length_mm
    sensor, ratio = data["sensor"], old.width / width
    data["lens"]["blur_px"] = min(data["lens"]["blur_px"] / ratio, 8.0)
    # A binned pixel sums the charge of several pixels; their noise variances add.
    for name, factor in (
        ("pixel_um", ratio),
        ("full_well_e", ratio**2),
        ("dark_current_e_s", ratio**2),
        ("read_noise_e", ratio),
        ("dsnu_e", ratio),
        ("gain_e_per_dn", ratio**2),
    ):
        if sensor[name] is not None:
            sensor[name] *= factor
    if data["stereo"] is not None:
        # Calibration errors are angles; the noise of matching is in pixels of the image that is matched.
        for name in ("offset_px", "tilt_px"):
            data["stereo"][name] /= ratio


def electronics_of(
    config: CameraConfig, bands: tuple[Band, ...], identity: str, *, noise: bool
) -> SensorElectronics | ThermalElectronics:
    """Sensor electronics of a data sheet."""
    sensor, optics = config.sensor, config.lens
    if config.thermal is not None:
        low, high = config.thermal.span_c
        return ThermalElectronics(
            identity=identity,
            band=bands[0],
            netd_k=config.thermal.netd_mk * 1e-3 if noise else 0.0,
            range_k=(low + 273.15, high + 273.15),
        )
    gamma, is_colour = sensor.gamma, sensor.band_names == ("red", "green", "blue")
    return SensorElectronics(
        identity=identity,
        wavelengths_nm=tuple(band.centre_nm for band in bands),
        quantum_efficiency=sensor.band_efficiencies,
        pixel_um=sensor.pixel_um,
        f_number=optics.f_number,
        vignetting=optics.vignetting,
        full_well_e=sensor.full_well_e,
        gain_e_per_dn=sensor.gain_e_per_dn,
        dark_current_e_s=sensor.dark_current_e_s,
        read_noise_e=sensor.read_noise_e,
        prnu=sensor.prnu if noise else 0.0,
        dsnu_e=sensor.dsnu_e if noise else 0.0,
        black_level_dn=sensor.black_level_dn,
        adc_bits=min(sensor.adc_bits, 16),
        bayer=sensor.bayer,
        chromatic_scale=tuple(optics.chromatic_aberration) or None,
        blur_px=optics.blur_px,
        white_balance=sensor.white_balance if isinstance(sensor.white_balance, str) else tuple(sensor.white_balance),
        # Images for display are converted to display colours; linear output keeps the sensor's own bands.
        colour_matrix=colour_matrix(bands) if gamma != "linear" and is_colour else None,
        curve=gamma if isinstance(gamma, str) else "gamma",
        gamma=2.2 if isinstance(gamma, str) else gamma,
        output_bits=sensor.output_bits,
        jpeg_quality=config.jpeg_quality,
        noise=noise,
    )


def exposure_of(config: CameraConfig) -> Exposure | AutoExposure:
    """Exposure settings of a data sheet."""
    sheet = config.exposure
    if sheet.mode == "manual":
        return Exposure(sheet.time_s, sheet.gain_db)
    longest = min(sheet.max_time_s, 1.0 / config.rate_hz)
    return AutoExposure(
        min(sheet.min_time_s, longest), longest, 0.0, max_gain_db=sheet.max_gain_db, target=sheet.target
    )


# ---- camera ---------------------------------------------------------------------------------------------------------


DEFAULT_TRUTH = ("depth", "normal", "label", "instance")


class Camera(FrameSensor[CameraConfig, Image]):
    """Camera. Sun and sky come from `world.daylight`, a clear day by default.

    >>> import parhelion as ph
    >>> camera = ph.Camera("generic/vga", width=16, samples=1)
    >>> image = camera.shoot(ph.World.load("cuboids"), pose=ph.Pose(xyz=(0, 0, 2)), seed=7)
    >>> image.colour.shape, image.depth.shape
    ((12, 16, 3), (12, 16))

    Args:
        model: Preset name, YAML file or `CameraConfig`.
        name: Name that distinguishes this camera from others of the same model; each name has its own noise.
        rate_hz: Frame rate [Hz]; by default that of the data sheet.
        noise: False simulates a sensor without noise.
        width: Image width [pixel], for another resolution of the same field of view.
        height: Image height [pixel], for another resolution of the same field of view.
        samples: Rays per pixel.
        bounces: Maximum number of scattering events after the first surface.
        truth: Ground-truth images to return: depth, normal, label, instance, mobility, flow, window, objects.
        picture: False omits the colour image and returns ground truth only.
        developed: False returns band radiance [W/(m^2 sr)] as float32, before lens falloff and sensor.
        exposure_s: Exposure time [s]; replaces automatic exposure.
        gain_db: Gain [dB]; replaces automatic gain.
        denoise: Removal of the renderer's Monte Carlo noise: "auto" filters indirect light of developed pictures,
            "filter" also that of radiance, "oidn" uses Intel Open Image Denoise, "none" leaves the picture unbiased.
            True and False mean "oidn" and "none".
        lens_drops: Number of water drops on the lens.
        window: Dirt on the window before the lens: a `Window`, or its fields such as {"mud": 0.1}; None is clean.
        rain_blend: Blend of rain streaks: "physical" (drop sizes of the weather, brightness by exposure) or "vane" (one
            drop size and the image blend of VANE, ERDC/GSL TR-20-32 chapter 7).
        calibration: Calibration file of OpenCV or ROS (YAML) with the lens and the image size of your own camera.
    """

    kind = "camera"

    def __init__(
        self,
        model: str | PathLike[str] | CameraConfig,
        *,
        name: str = "",
        rate_hz: float | None = None,
        noise: bool = True,
        width: int | None = None,
        height: int | None = None,
        samples: int = 8,
        bounces: int = 1,
        truth: Collection[str] = DEFAULT_TRUTH,
        picture: bool = True,
        developed: bool = True,
        exposure_s: float | None = None,
        gain_db: float | None = None,
        denoise: bool | Literal["auto", "filter", "oidn", "none"] = "auto",
        lens_drops: int = 0,
        window: Window | Mapping[str, Any] | None = None,
        rain_blend: Literal["physical", "vane"] = "physical",
        calibration: str | PathLike[str] | None = None,
    ) -> None:
        sheet = open_sheet("camera", CameraConfig, model)
        own = sheet.config if calibration is None else with_calibration(sheet.config, calibration)
        wholes = (("samples", samples, 1, 4096), ("bounces", bounces, 0, 16), ("lens_drops", lens_drops, 0, 10_000))
        for what, value, low, high in wholes:
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"{what}: must be a whole number from {low} to {high}, got {value!r}")
        if rain_blend not in MODELS:
            raise unknown_name("rain_blend", str(rain_blend), MODELS)
        method_of(denoise, developed=developed)
        for one in truth:
            if one not in TRUTH:
                raise unknown_name("truth", one, TRUTH)
        config = with_settings(own, rate_hz, width, height, exposure_s, gain_db)
        super().__init__(config, sheet.name, name=name, rate_hz=config.rate_hz, noise=noise)
        self.samples, self.bounces = samples, bounces
        self.truth, self.picture, self.developed, self.denoise = tuple(truth), picture, developed, denoise
        self.lens_drops, self.rain_blend = lens_drops, rain_blend
        self.window = window_of(window)
        """Dirt on the window before the lens; None for a clean one."""
        self.has_warned = False
        """True after a warning about renderer noise, which is given once per camera."""
        self.intrinsics: Intrinsics = self.config.intrinsics()
        """Lens model."""
        self.bands = self.config.spectral_bands()
        self._electronics = electronics_of(self.config, self.bands, self._identity, noise=noise)
        self._exposure = exposure_of(self.config)
        self._on_device: CameraOnDevice | None = None
        self._finder: tuple[World, ObjectFinder] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_on_device": None, "_finder": None}

    @property
    def frame_duration_s(self) -> float:
        """Longest time [s] from the start of a frame to the end of the last row's exposure."""
        exposure = self.config.exposure
        longest = exposure.time_s if exposure.mode == "manual" else exposure.max_time_s
        return longest + self.line_time_s * (self.intrinsics.height - 1)

    @property
    def line_time_s(self) -> float:
        """Time between the exposures of consecutive rows [s]; 0 for a global shutter."""
        return self.config.shutter.line_time_us * 1e-6

    def project(self, points: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Project points (n, 3) [m] in the sensor frame (x forward, y left, z up) onto the image.

        Return columns and rows (n, 2) [pixel], where the centre of the first pixel is (0, 0), and a mask (n,) of the
        points inside the image.
        """
        array = np.asarray(points, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != 3:
            raise ConfigError(f"points: must have shape (n, 3), got {array.shape}")
        uv, inside = lens.project(self.intrinsics, array)
        circle = self.config.lens.image_circle_deg
        return uv, inside if circle is None else inside & lens.lights(circle, array)

    shoot = FrameSensor[CameraConfig, Image].measure
    """Take one picture; alias of `measure`."""

    def reflected_light(self, world: World, time: float = 0.0) -> NDArray[np.float64]:
        """Radiance of a horizontal white diffuse surface in the open [W/(m^2 sr)], per band.

        Radiance of an image divided by this value is reflectance, for example for a vegetation index.
        """
        daylight = Daylight() if world.daylight is None else world.daylight
        sky = lighting(daylight, self.bands, weather=world.weather, time=finite_time(time))
        return np.asarray(sky.horizontal_irradiance / np.pi)

    @locked
    def _measure(self, world: World, motion: Trajectory, start: float, seed: int, stream: Stream) -> Image:
        camera = place_of(motion, start)
        with world.edits():
            # The picture uses one state of the world: edits by other threads take effect before or after it.
            cell = cell_around(camera.xyz)
            target = camera_target(world, self.visibility_keys, self.bands, cell)
            weather, daylight = world.weather, world.daylight
            finder = self._objects(world) if "objects" in self.truth else None
            codes = mobility_codes(world, start, 1.0 / self.rate_hz) if "mobility" in self.truth else None
        if self._on_device is None:
            self._on_device = CameraOnDevice(engine(), lens.corner_directions(self.intrinsics), self.bands)
        day = Daylight() if daylight is None else daylight
        shot = Shot(
            self, self._on_device, self._electronics, target, weather, day, motion, start, stream, finder, codes
        )
        return shot.photograph(self._exposure, int(seed), world.name)

    def _objects(self, world: World) -> ObjectFinder:
        if self._finder is None or self._finder[0] is not world:
            self._finder = (world, ObjectFinder(world, self.visibility_keys))
        return self._finder[1]

    def __repr__(self) -> str:
        size = f"{self.intrinsics.width} x {self.intrinsics.height} pixels"
        return f"<Camera {self.model}: {size}, {', '.join(self.config.sensor.band_names)} at {self.rate_hz:g} Hz>"
