"""From a camera's data sheet to the numbers that its parts work with."""

from __future__ import annotations

from parhelion.core.config import parse
from parhelion.core.errors import ConfigError
from parhelion.sensors.camera import lens
from parhelion.sensors.camera.colour import colour_matrix
from parhelion.sensors.camera.config import CameraConfig, CurveBand, RoundBand
from parhelion.sensors.camera.electronics import SensorElectronics
from parhelion.sensors.camera.exposure import AutoExposure, Exposure
from parhelion.sensors.camera.thermal import ThermalElectronics
from parhelion.surfaces.bands import Band, gaussian_band, named_band


def chosen(
    config: CameraConfig,
    rate_hz: float | None,
    width: int | None,
    height: int | None,
    exposure_s: float | None,
    gain_db: float | None,
) -> CameraConfig:
    """The data sheet with the user's choices in it, checked again."""
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


def _resize(config: CameraConfig, data: dict, width: int | None, height: int | None) -> None:  # type: ignore[type-arg]
    """Another resolution of the same field: larger or smaller pixels on the same sensor."""
    old = config.intrinsics()
    if width is None:
        assert height is not None
        width = max(1, round(old.width * height / old.height))
    height = max(1, round(old.height * width / old.width)) if height is None else height
    if width < 1 or height < 1:
        raise ConfigError(f"width and height: must be 1 pixel or more, got {width} and {height}")
    new = lens.scaled(old, width, height)
    # Rows are read in the same time, so that the picture is skewed by as much.
    data["shutter"]["line_time_us"] *= old.height / height
    data["image"] = {"width": width, "height": height}
    data["lens"] |= {"fx": new.fx, "fy": new.fy, "cx": new.cx, "cy": new.cy, "skew": new.skew, "hfov_deg": None}
    data["lens"]["focal_length_mm"] = config.focal_length_mm
    sensor, ratio = data["sensor"], old.width / width
    # Pixels that hold the charge of several fill as they did; their noises add by squares.
    for name, factor in (
        ("pixel_um", ratio), ("full_well_e", ratio**2), ("dark_current_e_s", ratio**2), ("read_noise_e", ratio),
        ("dsnu_e", ratio), ("gain_e_per_dn", ratio**2),
    ):  # fmt: skip
        if sensor[name] is not None:
            sensor[name] *= factor


def bands_of(config: CameraConfig) -> tuple[Band, ...]:
    """The bands of a sheet."""
    found = []
    for band in config.sensor.bands:
        if isinstance(band, CurveBand):
            found.append(Band(band.name, band.wavelength_nm, band.response))
        elif isinstance(band, RoundBand):
            found.append(gaussian_band(band.name, band.centre_nm, band.width_nm))
        else:
            found.append(named_band(band))
    return tuple(found)


def electronics_of(
    config: CameraConfig, bands: tuple[Band, ...], identity: str, *, noise: bool
) -> SensorElectronics | ThermalElectronics:
    """The sensor of a sheet."""
    sensor, optics = config.sensor, config.lens
    if config.thermal is not None:
        low, high = config.thermal.span_c
        first, last = bands[0].range_nm
        return ThermalElectronics(
            identity=identity,
            band_um=(first * 1e-3, last * 1e-3),
            netd_k=config.thermal.netd_mk * 1e-3 if noise else 0.0,
            range_k=(low + 273.15, high + 273.15),
        )
    gamma = sensor.gamma
    return SensorElectronics(
        identity=identity,
        wavelengths_nm=tuple(band.centre_nm for band in bands),
        quantum_efficiency=sensor.band_efficiencies,
        pixel_um=sensor.pixel_um,
        f_number=optics.f_number,
        vignetting=optics.vignetting,
        full_well_e=sensor.full_well_e,
        dark_current_e_s=sensor.dark_current_e_s,
        read_noise_e=sensor.read_noise_e,
        prnu=sensor.prnu if noise else 0.0,
        dsnu_e=sensor.dsnu_e if noise else 0.0,
        black_level_dn=sensor.black_level_dn,
        adc_bits=min(sensor.adc_bits, 16),
        bayer=sensor.bayer,
        chromatic_scale=tuple(optics.chromatic_aberration) or None,
        white_balance=sensor.white_balance if isinstance(sensor.white_balance, str) else tuple(sensor.white_balance),
        # Numbers that go to a screen are a screen's colours; linear ones stay the sensor's own.
        colour_matrix=colour_matrix(bands) if gamma != "linear" and _is_colour(config) else None,
        curve=gamma if isinstance(gamma, str) else "gamma",
        gamma=2.2 if isinstance(gamma, str) else gamma,
        output_bits=sensor.output_bits,
        jpeg_quality=config.jpeg_quality,
        noise=noise,
    )


def _is_colour(config: CameraConfig) -> bool:
    return config.sensor.band_names == ("red", "green", "blue")


def exposure_of(config: CameraConfig) -> Exposure | AutoExposure:
    """How pictures are taken."""
    sheet = config.exposure
    if sheet.mode == "manual":
        return Exposure(sheet.time_s, sheet.gain_db)
    longest = min(sheet.max_time_s, 1.0 / config.rate_hz)
    return AutoExposure(
        min(sheet.min_time_s, longest), longest, 0.0, max_gain_db=sheet.max_gain_db, target=sheet.target
    )
