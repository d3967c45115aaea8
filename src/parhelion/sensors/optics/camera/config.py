"""Camera data sheet: the fields of a preset file. Units are in the names; sources are required."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from parhelion.core.config import Config, Fraction, NonNegative, Number, Positive, Source, parse
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.core.image import Intrinsics
from parhelion.sensors.optics.camera import lens
from parhelion.surfaces.bands import THERMAL_FROM_NM, gaussian_band, named_band
from parhelion.surfaces.bands import Band as SpectralBand

# ---- Second lens and depth measurement ------------------------------------------------------------------------------


class Stereo(Config):
    """Second lens to the right of the first, of the same type and parallel to it."""

    baseline_m: Positive
    """Distance between the two lenses [m]."""
    subpixel_px: NonNegative = 0.0
    """Standard deviation of the matched disparity on well textured surfaces [pixel]."""
    min_disparity_px: NonNegative = 0.0
    """Smallest disparity that is reported [pixel]; it limits the maximum range."""
    max_disparity_px: Positive | None = None
    """Largest disparity that is reported [pixel]; it limits the minimum range; null for no limit."""
    active: bool = False
    """True if a projector adds texture to bare surfaces."""
    window_px: Annotated[int, Field(ge=1, le=63)] = 5
    """Side of the matching window [pixel], an odd number. Borders of near objects grow by about half of it."""
    correlation_px: NonNegative = 0.0
    """Standard deviation of the Gaussian kernel that correlates the noise of neighbouring disparities [pixel]; 0 for
    independent pixels."""
    pattern_m: Positive | None = None
    """Distance [m] at which photon noise of the projected pattern equals `subpixel_px`. The noise of disparity is
    subpixel_px sqrt(1 + (z / pattern_m)^2); null for constant noise."""
    offset_px: NonNegative = 0.0
    """Standard deviation between units of a constant disparity error [pixel]: a rotation of one lens about the
    vertical axis since calibration."""
    tilt_px: NonNegative = 0.0
    """Standard deviation between units of the disparity error at the image edges [pixel], linear over columns and
    over rows."""
    scale: NonNegative = 0.0
    """Relative standard deviation between units of the calibrated focal length times baseline."""

    @model_validator(mode="after")
    def _ordered(self) -> Stereo:
        if self.window_px % 2 == 0:
            raise ValueError(f"window_px must be odd, got {self.window_px}")
        if self.max_disparity_px is not None and self.max_disparity_px <= self.min_disparity_px:
            raise ValueError("max_disparity_px must be larger than min_disparity_px")
        return self


class DepthNoise(Config):
    """Additional standard deviation of depth z [m]: constant_m + linear z + quadratic_per_m z^2."""

    constant_m: NonNegative = 0.0
    linear: NonNegative = 0.0
    quadratic_per_m: NonNegative = 0.0


class TimeOfFlight(Config):
    """Modulated light source and demodulating pixels of a time-of-flight camera."""

    modulation_mhz: Positive
    """Modulation frequency f [MHz]; the phase repeats after a range of c / 2f."""
    signal_e: Positive
    """Electrons per pixel from a white surface at 1 m that faces the camera."""
    ambient_e: NonNegative = 0.0
    """Electrons per pixel from ambient light."""
    contrast: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Demodulation contrast."""
    least_signal_to_noise: NonNegative = 3.0
    """Minimum ratio of amplitude to its noise; pixels below it report no depth."""
    wraps: bool = False
    """True if ranges beyond the ambiguity range c / 2f wrap; false if further frequencies resolve the ambiguity."""
    edge_share: Positive = 0.05
    """Relative range difference of neighbouring pixels above which they mix at the edge between them."""
    multipath: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Ratio of light received over another surface to direct light; the same for all pixels."""
    multipath_m: NonNegative = 0.5
    """Additional range of that light [m]; below half of the ambiguity range, so that measured ranges only grow."""
    interreflection: bool = False
    """True computes the light that arrives over one other visible surface from the scene, instead of a constant."""
    harmonic: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    """Relative amplitude of the third harmonic of the modulation after calibration. Four-phase sampling aliases it,
    so ranges oscillate ("wiggle") by harmonic c / (4 pi f) with a period of c / 8f."""

    @model_validator(mode="after")
    def _later(self) -> TimeOfFlight:
        half = SPEED_OF_LIGHT_M_S / (4e6 * self.modulation_mhz)
        if self.multipath and self.multipath_m >= half:
            raise ValueError(f"multipath_m must be below {half:.3g}, half of the ambiguity range")
        return self


class Depth(Config):
    """Depth output of a depth camera."""

    kind: Literal["stereo", "time-of-flight"]
    """Measuring principle."""
    min_m: NonNegative
    """Smallest reported depth [m]."""
    max_m: Positive
    """Largest reported depth [m]."""
    resolution_m: NonNegative = 0.0
    """Step of the reported depth [m]; 0 is continuous."""
    noise: DepthNoise = DepthNoise()
    """Additional noise of the reported depth."""
    time_of_flight: TimeOfFlight | None = None
    """Light source and pixels of a time-of-flight camera; null if only `noise` is known."""

    @model_validator(mode="after")
    def _ordered(self) -> Depth:
        if self.time_of_flight is not None and self.kind != "time-of-flight":
            raise ValueError("the section time_of_flight is for kind: time-of-flight")
        if self.max_m <= self.min_m:
            raise ValueError(f"max_m ({self.max_m:g}) must be larger than min_m ({self.min_m:g})")
        return self


# ---- config ---------------------------------------------------------------------------------------------------------


MOST_PIXELS = 120_000_000
"""Maximum number of pixels per image; ground truth of that size takes several gigabytes."""

Side = Annotated[int, Field(ge=1, le=16384)]
BandName = Literal["red", "green", "blue", "mono", "nir", "swir", "mwir", "thermal"]
Nanometres = Annotated[float, Field(ge=100, le=20_000)]


class Picture(Config):
    """Size of the output image, after any binning."""

    width: Side
    """Columns [pixel]."""
    height: Side
    """Rows [pixel]."""

    @model_validator(mode="after")
    def _countable(self) -> Picture:
        if self.width * self.height > MOST_PIXELS:
            raise ValueError(f"{self.width} x {self.height} are more than {MOST_PIXELS} pixels")
        return self


class Lens(Config):
    """Lens: projection, aperture and aberrations.

    The focal length in pixels is `fx` (and `fy`), or follows from `hfov_deg`, or from `focal_length_mm` and the pixel
    pitch.
    """

    kind: Literal["pinhole", "fisheye"] = "pinhole"
    """`pinhole` is rectilinear apart from its distortion; `fisheye` is equidistant."""
    fx: Positive | None = None
    """Focal length along rows [pixel]."""
    fy: Positive | None = None
    """Focal length along columns [pixel]; fx by default."""
    cx: Number | None = None
    """Column of the principal point [pixel], where the centre of the first pixel is 0; image centre by default."""
    cy: Number | None = None
    """Row of the principal point [pixel]; image centre by default."""
    hfov_deg: Annotated[float, Field(gt=0, lt=360)] | None = None
    """Horizontal field of view [deg] between the outer edges of the first and last pixel, distortion included."""
    skew: Number = 0.0
    """Skew coefficient of the camera matrix [pixel]."""
    distortion: list[Number] = Field(default_factory=list, max_length=8)
    """OpenCV's k1 k2 p1 p2 k3 and k4 k5 k6 of a pinhole lens, k1 k2 k3 k4 of a fisheye; missing ones are 0."""
    focal_length_mm: Positive | None = None
    """Focal length [mm] for aperture and defocus; fx times the pixel pitch by default."""
    f_number: Positive = 2.8
    """Focal length divided by the diameter of the entrance pupil."""
    focus_m: Positive | None = None
    """Focus distance [m]; null disables defocus blur."""
    image_circle_deg: Annotated[float, Field(gt=0, le=360)] | None = None
    """Full angle of the image circle [deg]; pixels outside are black; null if it covers the whole image."""
    vignetting: Fraction = 0.0
    """Exponent on the natural falloff cos^4 of the angle off the axis: 0 none, 1 natural."""
    chromatic_aberration: list[Annotated[float, Field(ge=0.9, le=1.1)]] = Field(default_factory=list)
    """Lateral magnification of each band about the principal point, relative to 1; empty for none."""
    blur_px: Annotated[float, Field(ge=0, le=8)] = 0.0
    """Standard deviation of the Gaussian point spread of lens and optical low-pass filter [pixel]. The modulation
    transfer at the Nyquist frequency is 1.27 exp(-4.93 blur_px^2): 0.37 for 0.5; 0 is a perfectly sharp lens."""
    glare: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    """Share of the light that the lens scatters over the picture: halos of lamps; good lenses have 0.01 to 0.03."""

    @model_validator(mode="after")
    def _one_scale(self) -> Lens:
        if self.fx is not None and self.hfov_deg is not None:
            raise ValueError("give either fx or hfov_deg")
        if self.fx is None and self.fy is not None:
            raise ValueError("fy needs fx")
        if self.fx is None and self.hfov_deg is None and self.focal_length_mm is None:
            raise ValueError("give fx or hfov_deg, or focal_length_mm to go with sensor.pixel_um")
        if self.kind == "pinhole" and self.hfov_deg is not None and self.hfov_deg >= 180:
            raise ValueError(f"hfov_deg of a pinhole lens must be below 180, got {self.hfov_deg:g}; kind: fisheye?")
        if self.kind == "fisheye" and len(self.distortion) > 4:
            raise ValueError(f"distortion of a fisheye lens has 4 numbers at most, got {len(self.distortion)}")
        return self

    @property
    def model(self) -> str:
        """Name of the lens model in `Intrinsics`."""
        if self.kind == "fisheye":
            return "equidistant"
        return "plumb_bob" if len(self.distortion) <= 5 else "rational_polynomial"


class RoundBand(Config):
    """Gaussian band given by centre and width, as filter manufacturers state them."""

    name: str = Field(min_length=1, max_length=64)
    """Name of the band."""
    centre_nm: Nanometres
    """Centre wavelength [nm]."""
    width_nm: Positive
    """Full width at half maximum [nm]."""


class CurveBand(Config):
    """Band given by its measured response."""

    name: str = Field(min_length=1, max_length=64)
    """Name of the band."""
    wavelength_nm: list[Nanometres] = Field(min_length=2, max_length=10_000)
    """Wavelengths [nm], ascending."""
    response: list[NonNegative]
    """Relative response at each wavelength, linear in between, 0 outside."""

    @model_validator(mode="after")
    def _curve(self) -> CurveBand:
        if len(self.response) != len(self.wavelength_nm):
            raise ValueError(f"response has {len(self.response)} entries for {len(self.wavelength_nm)} wavelengths")
        if any(after <= before for before, after in pairwise(self.wavelength_nm)):
            raise ValueError("wavelength_nm must increase from entry to entry")
        if max(self.response) <= 0:
            raise ValueError("response is 0 everywhere")
        return self


def _kind_of_band(value: Any) -> str:
    """Tag of the union member, so that an error refers to one kind of band instead of all three."""
    if isinstance(value, CurveBand) or (isinstance(value, dict) and ("response" in value or "wavelength_nm" in value)):
        return "CurveBand"
    return "RoundBand" if isinstance(value, (dict, RoundBand)) else "name"


Band = Annotated[
    Annotated[BandName, Tag("name")] | Annotated[RoundBand, Tag("RoundBand")] | Annotated[CurveBand, Tag("CurveBand")],
    Discriminator(_kind_of_band),
]


class PixelArray(Config):
    """Pixel array and converter. All noise terms are 0 by default; a preset states those of its sensor."""

    pixel_um: Positive
    """Pixel pitch of the output image [um], after any binning."""
    bands: list[Band] = Field(min_length=1, max_length=32)
    """Names of predefined bands, or custom bands."""
    bayer: Literal["RGGB", "BGGR", "GRBG", "GBRG"] | None = None
    """Colour filter pattern of the first two rows; null if every pixel measures every band."""
    full_well_e: Positive = 10_000.0
    """Full-well capacity [electrons]."""
    quantum_efficiency: Annotated[float, Field(gt=0, le=1)] | list[Annotated[float, Field(gt=0, le=1)]] = 0.5
    """Electrons per photon at the peak of a band: one number, or one per band."""
    read_noise_e: NonNegative = 0.0
    """Standard deviation of a dark pixel at 0 dB [electrons]."""
    dark_current_e_s: NonNegative = 0.0
    """Dark current [electrons/s] at 20 to 25 degrees Celsius."""
    gain_e_per_dn: Positive | None = None
    """Electrons per step of the converter at 0 dB; by default the full well reaches the last step."""
    black_level_dn: NonNegative = 0.0
    """Output of the converter without light or noise [DN]."""
    adc_bits: Annotated[int, Field(ge=4, le=24)] = 12
    """Resolution of the converter [bit]."""
    output_bits: Literal[8, 16] = 8
    """Resolution of the output image [bit]."""
    gamma: Literal["srgb", "linear"] | Annotated[float, Field(ge=0.2, le=5)] = "srgb"
    """Response curve: sRGB, linear, or output = light ^ (1 / gamma)."""
    white_balance: Literal["auto", "none"] | list[Positive] = "none"
    """Gain per band: from the grey-world assumption (auto), 1 (none), or as listed."""
    prnu: Fraction = 0.0
    """Photo-response non-uniformity: relative standard deviation of the pixel gains."""
    dsnu_e: NonNegative = 0.0
    """Dark-signal non-uniformity: standard deviation of the pixel offsets [electrons]."""

    @model_validator(mode="after")
    def _fits_bands(self) -> PixelArray:
        names = self.band_names
        if len(set(names)) != len(names):
            raise ValueError(f"bands must have different names, got {', '.join(names)}")
        if self.bayer is not None and names != ("red", "green", "blue"):
            raise ValueError(f"a Bayer pattern needs the bands red, green, blue, got {', '.join(names)}")
        for field in ("quantum_efficiency", "white_balance"):
            value = getattr(self, field)
            if isinstance(value, list) and len(value) != len(names):
                raise ValueError(f"{field} has {len(value)} entries for {len(names)} bands")
        if self.black_level_dn >= 2**self.adc_bits - 1:
            raise ValueError(f"black_level_dn must be below the last of 2^{self.adc_bits} steps")
        return self

    @property
    def band_names(self) -> tuple[str, ...]:
        """Names of the bands in order."""
        return tuple(band if isinstance(band, str) else band.name for band in self.bands)

    @property
    def band_efficiencies(self) -> tuple[float, ...]:
        """Peak quantum efficiency of each band."""
        peak = self.quantum_efficiency
        return tuple(peak) if isinstance(peak, list) else (peak,) * len(self.bands)


class ExposureSheet(Config):
    """Exposure time and gain."""

    mode: Literal["auto", "manual"] = "auto"
    """Automatic or fixed exposure."""
    time_s: Annotated[float, Field(gt=0, le=3600)] = 0.005
    """Exposure time in manual mode [s]."""
    max_time_s: Annotated[float, Field(gt=0, le=3600)] = 0.03
    """Longest exposure time in auto mode [s]; the frame period also limits it."""
    min_time_s: Annotated[float, Field(gt=0, le=3600)] = 1e-5
    """Shortest exposure time in auto mode [s]."""
    gain_db: Annotated[float, Field(ge=-60, le=120)] = 0.0
    """Gain in manual mode [dB]."""
    max_gain_db: Annotated[float, Field(ge=0, le=120)] = 24.0
    """Largest gain in auto mode [dB]; gain rises once the exposure time is at its limit."""
    target: Annotated[float, Field(gt=0, lt=1)] = 0.18
    """Target of the image mean in auto mode, as a fraction of full scale before gamma."""

    @model_validator(mode="after")
    def _ordered(self) -> ExposureSheet:
        if self.min_time_s > self.max_time_s:
            raise ValueError(f"min_time_s ({self.min_time_s:g}) must not be above max_time_s ({self.max_time_s:g})")
        return self


class Shutter(Config):
    """Shutter timing."""

    kind: Literal["global", "rolling"] = "global"
    """Global or rolling shutter."""
    line_time_us: NonNegative = 0.0
    """Time between the starts of consecutive rows of a rolling shutter [us], top to bottom."""

    @model_validator(mode="after")
    def _timed(self) -> Shutter:
        if self.kind == "rolling" and self.line_time_us == 0:
            raise ValueError("a rolling shutter needs line_time_us")
        if self.kind == "global" and self.line_time_us > 0:
            raise ValueError("line_time_us is for a rolling shutter; a global one exposes all rows at once")
        return self


class Thermal(Config):
    """Thermal camera; its image is temperature."""

    netd_mk: NonNegative
    """Noise equivalent temperature difference at 30 degrees Celsius: standard deviation of a pixel [mK]."""
    span_c: tuple[Annotated[float, Field(ge=-273.15)], Annotated[float, Field(le=5000)]]
    """Temperatures [degree Celsius] at the first and last step of the output."""

    @model_validator(mode="after")
    def _ordered(self) -> Thermal:
        if self.span_c[1] <= self.span_c[0]:
            raise ValueError(f"span_c must rise, got {self.span_c[0]:g} to {self.span_c[1]:g}")
        return self


class CameraConfig(Config):
    """Data sheet of one camera model.

    >>> ph.Camera("generic/vga").config.name
    'Generic VGA camera'
    """

    name: str
    """Name of the camera."""
    maker: str = ""
    """Manufacturer."""
    model: str = ""
    """Model designation of the manufacturer."""
    description: str = ""
    """One-line description."""
    rate_hz: Annotated[float, Field(ge=0.01, le=100_000)]
    """Default frame rate [Hz]."""
    image: Picture
    """Image size."""
    lens: Lens
    """Projection, aperture and aberrations."""
    sensor: PixelArray
    """Pixel array and converter."""
    exposure: ExposureSheet = ExposureSheet()
    """Exposure time and gain."""
    shutter: Shutter = Shutter()
    """Shutter timing."""
    jpeg_quality: Annotated[int, Field(ge=1, le=100)] | None = None
    """JPEG quality of the output images; null for no compression."""
    stereo: Stereo | None = None
    """Second lens; null for a monocular camera."""
    depth: Depth | None = None
    """Depth output; null if the camera reports none."""
    thermal: Thermal | None = None
    """Thermal read-out; required for thermal bands."""
    sources: list[Source] = Field(min_length=1)
    """Sources of the numbers. A plain string is a source of the whole sheet."""
    assumed: dict[str, str] = Field(default_factory=dict)
    """Fields without a source, and the reason for their values."""

    @model_validator(mode="before")
    @classmethod
    def _expand_plain_sources(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("sources"), list):
            whole = ["image", "lens", "sensor"]
            sources = [{"title": one, "covers": whole} if isinstance(one, str) else one for one in data["sources"]]
            return {**data, "sources": sources}
        return data

    @model_validator(mode="after")
    def _holds_together(self) -> CameraConfig:
        bands = self.sensor.band_names
        scales = self.lens.chromatic_aberration
        if scales and len(scales) != len(bands):
            raise ValueError(f"lens.chromatic_aberration has {len(scales)} entries for {len(bands)} bands")
        emits = any(band.centre_nm > THERMAL_FROM_NM for band in self.spectral_bands())
        if emits != (self.thermal is not None):
            raise ValueError(
                f"a camera with a band centred beyond {THERMAL_FROM_NM:g} nm (mwir, thermal) needs the section "
                "thermal, and others have none"
            )
        if self.thermal is not None and len(bands) != 1:
            raise ValueError(f"a thermal camera has one band, got {', '.join(bands)}")
        if self.depth is not None and self.depth.kind == "stereo" and self.stereo is None:
            raise ValueError("depth.kind stereo needs the section stereo")
        period = 1.0 / self.rate_hz
        if self.exposure.mode == "manual" and self.exposure.time_s > period * (1 + 1e-6):
            raise ValueError(
                f"exposure.time_s ({self.exposure.time_s:g}) is longer than a frame at {self.rate_hz:g} Hz"
            )
        readout = self.image.height * self.shutter.line_time_us * 1e-6
        if readout > period * (1 + 1e-6):
            raise ValueError(
                f"shutter.line_time_us: {self.image.height} rows take {readout:.4g} s, a frame at {self.rate_hz:g} Hz "
                f"{period:.4g} s"
            )
        lens.check(self.intrinsics())
        return self

    def spectral_bands(self) -> tuple[SpectralBand, ...]:
        """Spectral responses of the bands."""
        found = []
        for band in self.sensor.bands:
            if isinstance(band, CurveBand):
                found.append(SpectralBand(band.name, band.wavelength_nm, band.response))
            elif isinstance(band, RoundBand):
                found.append(gaussian_band(band.name, band.centre_nm, band.width_nm))
            else:
                found.append(named_band(band))
        return tuple(found)

    @property
    def focal_length_mm(self) -> float:
        """Focal length [mm], as given or derived from the focal length in pixels."""
        given = self.lens.focal_length_mm
        return self.intrinsics().fx * self.sensor.pixel_um * 1e-3 if given is None else given

    def intrinsics(self) -> Intrinsics:
        """Lens model of the output image."""
        sheet, width, height = self.lens, self.image.width, self.image.height
        if sheet.fx is not None:
            fx = sheet.fx
        elif sheet.hfov_deg is not None:
            fx = lens.focal_length_px(width, sheet.hfov_deg, sheet.model, sheet.distortion)
        else:
            assert sheet.focal_length_mm is not None  # validated by Lens
            fx = sheet.focal_length_mm * 1e3 / self.sensor.pixel_um
        return Intrinsics(
            width=width,
            height=height,
            fx=fx,
            fy=fx if sheet.fy is None else sheet.fy,
            cx=(width - 1) / 2 if sheet.cx is None else sheet.cx,
            cy=(height - 1) / 2 if sheet.cy is None else sheet.cy,
            skew=sheet.skew,
            model=sheet.model,
            distortion=tuple(sheet.distortion),
            baseline_m=0.0 if self.stereo is None else self.stereo.baseline_m,
        )

    def calibrated(self, intrinsics: Intrinsics) -> CameraConfig:
        """Copy of the data sheet with a calibrated lens, for example from `load_intrinsics` or `lens.scaled`."""
        lens.check(intrinsics)
        if (intrinsics.width, intrinsics.height) != (self.image.width, self.image.height):
            raise ConfigError(
                f"{self.name}: the calibration is for {intrinsics.width} x {intrinsics.height} pixels, but the camera "
                f"has {self.image.width} x {self.image.height}; rescale it with lens.scaled"
            )
        own = {name: getattr(intrinsics, name) for name in ("fx", "fy", "cx", "cy", "skew")}
        own["kind"] = "fisheye" if intrinsics.model == "equidistant" else "pinhole"
        own["distortion"] = list(intrinsics.distortion)
        sheet = self.model_dump()
        sheet["lens"] |= {**own, "hfov_deg": None}
        return parse(CameraConfig, sheet, f"{self.name}, calibrated")
