"""The data sheet of a camera: what a preset file may say. Units are in the names; sources are required."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from parhelion.core.config import Config, Fraction, NonNegative, Number, Positive, Source, parse
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.core.image import Intrinsics
from parhelion.sensors.optics.camera import lens

# ---- What a camera's data sheet may say of a second lens and of the depth that it reports ---------------------------


class Stereo(Config):
    """A second lens to the right of the first, of the same make and parallel to it."""

    baseline_m: Positive
    """Distance of the two lenses."""
    subpixel_px: NonNegative = 0.0
    """Standard deviation of the disparity that matching finds on well textured surfaces [pixel]."""
    min_disparity_px: NonNegative = 0.0
    """Disparities below have no answer: it ends the range."""
    max_disparity_px: Positive | None = None
    """Disparities above have no answer: what is nearer is not seen; null for no end."""
    active: bool = False
    """Whether a projector puts a texture on bare surfaces."""
    window_px: Annotated[int, Field(ge=1, le=63)] = 5
    """Side of the windows that are matched, an odd number: the borders of what is near grow by about half of it."""

    @model_validator(mode="after")
    def _ordered(self) -> Stereo:
        if self.window_px % 2 == 0:
            raise ValueError(f"window_px must be odd, got {self.window_px}")
        if self.max_disparity_px is not None and self.max_disparity_px <= self.min_disparity_px:
            raise ValueError("max_disparity_px must be larger than min_disparity_px")
        return self


class DepthNoise(Config):
    """Standard deviation of depth z [m]: constant_m + linear z + quadratic_per_m z^2, beside that of disparity."""

    constant_m: NonNegative = 0.0
    linear: NonNegative = 0.0
    quadratic_per_m: NonNegative = 0.0


class TimeOfFlight(Config):
    """Light that a camera sends out and demodulates by itself."""

    modulation_mhz: Positive
    """Frequency of its modulation; the phase repeats after c / 2f of range."""
    signal_e: Positive
    """Electrons in a pixel from a white surface at 1 m that faces the camera."""
    ambient_e: NonNegative = 0.0
    """Electrons in a pixel from all other light."""
    contrast: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Of the demodulation."""
    least_signal_to_noise: NonNegative = 3.0
    """Amplitude over its noise below which a pixel has no answer."""
    wraps: bool = False
    """Whether ranges beyond the phase's repeat come back as short ones; else more frequencies tell them apart."""
    edge_share: Positive = 0.05
    """Neighbours whose ranges differ by more than this share mix at the edge between them."""
    multipath: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Light that comes round by another surface, over that which comes straight; the same for all pixels."""
    multipath_m: NonNegative = 0.5
    """How much longer its range is, below the half of the phase's repeat: measured ranges only grow."""

    @model_validator(mode="after")
    def _later(self) -> TimeOfFlight:
        half = SPEED_OF_LIGHT_M_S / (4e6 * self.modulation_mhz)
        if self.multipath and self.multipath_m >= half:
            raise ValueError(f"multipath_m must be below {half:.3g}, half of what the phase repeats after")
        return self


class Depth(Config):
    """What a depth camera reports."""

    kind: Literal["stereo", "time-of-flight"]
    min_m: NonNegative
    max_m: Positive
    resolution_m: NonNegative = 0.0
    """Step of the reported depth; 0 is continuous."""
    noise: DepthNoise = DepthNoise()
    time_of_flight: TimeOfFlight | None = None
    """Of a camera by time of flight; null where no more than its noise is known."""

    @model_validator(mode="after")
    def _ordered(self) -> Depth:
        if self.time_of_flight is not None and self.kind != "time-of-flight":
            raise ValueError("the section time_of_flight is for kind: time-of-flight")
        if self.max_m <= self.min_m:
            raise ValueError(f"max_m ({self.max_m:g}) must be larger than min_m ({self.min_m:g})")
        return self


# ---- config ---------------------------------------------------------------------------------------------------------


MOST_PIXELS = 120_000_000
"""Pixels of one picture; the truth of so many takes some gigabytes."""

Side = Annotated[int, Field(ge=1, le=16384)]
BandName = Literal["red", "green", "blue", "mono", "nir", "swir", "thermal"]
Nanometres = Annotated[float, Field(ge=100, le=20_000)]


class Picture(Config):
    """Size of the picture that the camera gives, after any binning."""

    width: Side
    height: Side

    @model_validator(mode="after")
    def _countable(self) -> Picture:
        if self.width * self.height > MOST_PIXELS:
            raise ValueError(f"{self.width} x {self.height} are more than {MOST_PIXELS} pixels")
        return self


class Lens(Config):
    """Where the lens puts directions, and how much light it lets through.

    The focal length in pixels is `fx` (and `fy`), or follows from `hfov_deg`, or from `focal_length_mm` and the pitch.
    """

    kind: Literal["pinhole", "fisheye"] = "pinhole"
    """`pinhole` keeps lines straight but for its distortion; `fisheye` puts equal angles at equal distances."""
    fx: Positive | None = None
    """Focal length along rows [pixel]."""
    fy: Positive | None = None
    """Focal length along columns [pixel]; as fx where not given."""
    cx: Number | None = None
    """Column of the principal point [pixel], the middle of the first pixel being 0; central where not given."""
    cy: Number | None = None
    """Row of the principal point [pixel]; central where not given."""
    hfov_deg: Annotated[float, Field(gt=0, lt=360)] | None = None
    """Horizontal field from the outer edge of the first pixel to that of the last, distortion included."""
    skew: Number = 0.0
    """Shift of columns with height [pixel]."""
    distortion: list[Number] = Field(default_factory=list, max_length=8)
    """OpenCV's k1 k2 p1 p2 k3 and k4 k5 k6 of a pinhole lens, k1 k2 k3 k4 of a fisheye; missing ones are 0."""
    focal_length_mm: Positive | None = None
    """For the aperture and its blur; fx times the pitch where not given."""
    f_number: Positive = 2.8
    focus_m: Positive | None = None
    """Distance in focus; null is a pinhole: everything is sharp."""
    image_circle_deg: Annotated[float, Field(gt=0, le=360)] | None = None
    """Angle across the circle that the lens lights; pixels beyond it are black; null where it lights them all."""
    vignetting: Fraction = 0.0
    """Share of the natural fall of light towards the edge, cos^4 of the angle off the axis: 0 none, 1 all of it."""
    chromatic_aberration: list[Annotated[float, Field(ge=0.9, le=1.1)]] = Field(default_factory=list)
    """Size of each band's picture about the principal point, relative to 1; empty for none."""

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
        """The name of its model in `Intrinsics`."""
        if self.kind == "fisheye":
            return "equidistant"
        return "plumb_bob" if len(self.distortion) <= 5 else "rational_polynomial"


class RoundBand(Config):
    """A band by its middle and width: a filter as makers state it."""

    name: str = Field(min_length=1, max_length=64)
    centre_nm: Nanometres
    width_nm: Positive
    """Full width at half maximum."""


class CurveBand(Config):
    """A band by its measured response."""

    name: str = Field(min_length=1, max_length=64)
    wavelength_nm: list[Nanometres] = Field(min_length=2, max_length=10_000)
    """Rising from entry to entry."""
    response: list[NonNegative]
    """Relative response at each wavelength, linear between them, 0 outside."""

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
    """So that an error speaks of the kind of band that was meant, not of all three."""
    if isinstance(value, CurveBand) or (isinstance(value, dict) and ("response" in value or "wavelength_nm" in value)):
        return "CurveBand"
    return "RoundBand" if isinstance(value, (dict, RoundBand)) else "name"


Band = Annotated[
    Annotated[BandName, Tag("name")] | Annotated[RoundBand, Tag("RoundBand")] | Annotated[CurveBand, Tag("CurveBand")],
    Discriminator(_kind_of_band),
]


class PixelArray(Config):
    """From photons to numbers. Noise is zero by default: a preset says what its sensor has."""

    pixel_um: Positive
    """Pitch of the picture's pixels, after any binning."""
    bands: list[Band] = Field(min_length=1, max_length=32)
    """Names of usual bands, or bands of one's own."""
    bayer: Literal["RGGB", "BGGR", "GRBG", "GBRG"] | None = None
    """Colours of the filters over the first two rows; null where every pixel has every band."""
    full_well_e: Positive = 10_000.0
    """Electrons that a pixel holds at most."""
    quantum_efficiency: Annotated[float, Field(gt=0, le=1)] | list[Annotated[float, Field(gt=0, le=1)]] = 0.5
    """Electrons for each photon at the peak of a band: one number, or one for each band."""
    read_noise_e: NonNegative = 0.0
    """Standard deviation of a pixel read in the dark at no gain [electrons]."""
    dark_current_e_s: NonNegative = 0.0
    """Electrons a second without light, at 20 to 25 degrees Celsius."""
    gain_e_per_dn: Positive | None = None
    """Electrons for one step of the converter at 0 dB; where not given, the full well reaches its last step."""
    black_level_dn: NonNegative = 0.0
    """Step that the converter gives without light or noise."""
    adc_bits: Annotated[int, Field(ge=4, le=24)] = 12
    output_bits: Literal[8, 16] = 8
    gamma: Literal["srgb", "linear"] | Annotated[float, Field(ge=0.2, le=5)] = "srgb"
    """Curve from light to output: sRGB's, none, or output = light ^ (1 / gamma)."""
    white_balance: Literal["auto", "none"] | list[Positive] = "none"
    """Factor on each band: of a grey picture (auto), 1 (none), or as listed."""
    prnu: Fraction = 0.0
    """Relative standard deviation of the pixels' gains."""
    dsnu_e: NonNegative = 0.0
    """Standard deviation of the pixels' dark signals [electrons]."""

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
    """How long and with how much gain a picture is taken."""

    mode: Literal["auto", "manual"] = "auto"
    time_s: Annotated[float, Field(gt=0, le=3600)] = 0.005
    """Exposure time in manual mode, and where auto begins."""
    max_time_s: Annotated[float, Field(gt=0, le=3600)] = 0.03
    """Longest time that auto takes; a frame's period ends it as well."""
    min_time_s: Annotated[float, Field(gt=0, le=3600)] = 1e-5
    gain_db: Annotated[float, Field(ge=-60, le=120)] = 0.0
    """Gain in manual mode."""
    max_gain_db: Annotated[float, Field(ge=0, le=120)] = 24.0
    """Highest gain that auto takes, once the time is at its longest."""
    target: Annotated[float, Field(gt=0, lt=1)] = 0.18
    """Mean of the picture that auto aims for, as a share of full scale before gamma."""

    @model_validator(mode="after")
    def _ordered(self) -> ExposureSheet:
        if self.min_time_s > self.max_time_s:
            raise ValueError(f"min_time_s ({self.min_time_s:g}) must not be above max_time_s ({self.max_time_s:g})")
        return self


class Shutter(Config):
    """When the rows are exposed."""

    kind: Literal["global", "rolling"] = "global"
    line_time_us: NonNegative = 0.0
    """Of a rolling shutter: time from the start of one row to that of the next, top to bottom."""

    @model_validator(mode="after")
    def _timed(self) -> Shutter:
        if self.kind == "rolling" and self.line_time_us == 0:
            raise ValueError("a rolling shutter needs line_time_us")
        if self.kind == "global" and self.line_time_us > 0:
            raise ValueError("line_time_us is for a rolling shutter; a global one exposes all rows at once")
        return self


class Thermal(Config):
    """A thermal camera: its picture is temperature."""

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
    """One camera model."""

    name: str
    maker: str = ""
    model: str = ""
    description: str = ""
    rate_hz: Annotated[float, Field(ge=0.01, le=100_000)]
    """Pictures a second by default."""
    image: Picture
    lens: Lens
    sensor: PixelArray
    exposure: ExposureSheet = ExposureSheet()
    shutter: Shutter = Shutter()
    jpeg_quality: Annotated[int, Field(ge=1, le=100)] | None = None
    """Quality of the compression that pictures go through; null for none."""
    stereo: Stereo | None = None
    depth: Depth | None = None
    thermal: Thermal | None = None
    sources: list[Source] = Field(min_length=1)
    """A plain text stands for a source of the whole sheet."""
    assumed: dict[str, str] = Field(default_factory=dict)
    """Fields that no source gives, and why this value was taken."""

    @model_validator(mode="before")
    @classmethod
    def _sources_in_words(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("sources"), list):
            whole = ["image", "lens", "sensor"]
            spoken = [{"title": one, "covers": whole} if isinstance(one, str) else one for one in data["sources"]]
            return {**data, "sources": spoken}
        return data

    @model_validator(mode="after")
    def _holds_together(self) -> CameraConfig:
        bands = self.sensor.band_names
        scales = self.lens.chromatic_aberration
        if scales and len(scales) != len(bands):
            raise ValueError(f"lens.chromatic_aberration has {len(scales)} entries for {len(bands)} bands")
        if ("thermal" in bands) != (self.thermal is not None):
            raise ValueError("a thermal camera has the band thermal and the section thermal, others have neither")
        if self.thermal is not None and bands != ("thermal",):
            raise ValueError(f"the band thermal stands alone, got {', '.join(bands)}")
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

    @property
    def focal_length_mm(self) -> float:
        """Focal length of the lens [mm], as given or derived from the focal length in pixels."""
        given = self.lens.focal_length_mm
        return self.intrinsics().fx * self.sensor.pixel_um * 1e-3 if given is None else given

    def intrinsics(self) -> Intrinsics:
        """Where the lens puts directions on the picture."""
        sheet, width, height = self.lens, self.image.width, self.image.height
        if sheet.fx is not None:
            fx = sheet.fx
        elif sheet.hfov_deg is not None:
            fx = lens.focal_length_px(width, sheet.hfov_deg, sheet.model, sheet.distortion)
        else:
            assert sheet.focal_length_mm is not None  # the lens has seen to it
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
        """The same camera with a lens as measured, such as one of `load_intrinsics`; `lens.scaled` changes its size."""
        lens.check(intrinsics)
        if (intrinsics.width, intrinsics.height) != (self.image.width, self.image.height):
            raise ConfigError(
                f"{self.name}: the calibration is of {intrinsics.width} x {intrinsics.height} pixels, the camera gives "
                f"{self.image.width} x {self.image.height}"
            )
        own = {name: getattr(intrinsics, name) for name in ("fx", "fy", "cx", "cy", "skew")}
        own["kind"] = "fisheye" if intrinsics.model == "equidistant" else "pinhole"
        own["distortion"] = list(intrinsics.distortion)
        sheet = self.model_dump()
        sheet["lens"] |= {**own, "hfov_deg": None}
        return parse(CameraConfig, sheet, f"{self.name}, calibrated")
