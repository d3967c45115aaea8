"""Camera electronics: from the radiance of every pixel to the stored image.

    light -> electrons -> digital numbers -> colours -> stored values

The steps are array functions, here and in `readout`, written once for NumPy and Dr.Jit. Dr.Jit arrays stay on their
device until the image is complete.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Keys, Reals, is_drjit, namespace
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.image import Intrinsics
from parhelion.core.random import Stream
from parhelion.rays.device import Static, copied
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.optics.camera.pixel_planes import (
    Array,
    blur_weights,
    blurred,
    gather,
    mirrored,
    pictured,
    places,
    planes_of,
    zoomed,
)
from parhelion.sensors.optics.camera.readout import (
    AutoExposure,
    Exposure,
    auto_exposure,
    collected,
    digitised,
    electrons_per_radiance,
    falloff,
    meter,
)

# ---- Bayer mosaic and demosaicing -----------------------------------------------------------------------------------
# Planes are flat arrays. The mosaic is mirrored at its edges, so that the colour pattern continues.
#
# Source: H. S. Malvar, L. He, R. Cutler, "High-quality linear interpolation for demosaicing of Bayer-patterned color
# images", ICASSP 2004.


PATTERNS = ("RGGB", "BGGR", "GRBG", "GBRG")
"""Bayer patterns: colours of the first two pixels of row 0, then of row 1."""
DEMOSAICS = ("malvar", "bilinear")


def sites(pixel: Array, width: int, pattern: str) -> tuple[Array, Array, Array]:
    """Masks of the red pixels, of the blue pixels, and of the pixels in rows with red filters."""
    if pattern not in PATTERNS:
        raise unknown_name("Bayer pattern", pattern, PATTERNS)
    row, column = places(pixel, width)
    red = pattern.index("R")
    in_red_row = (row & 1) == red // 2
    in_red_column = (column & 1) == red % 2
    return in_red_row & in_red_column, ~in_red_row & ~in_red_column, in_red_row


def mosaic(red: Array, green: Array, blue: Array, pixel: Array, width: int, pattern: str) -> Array:
    """Value of the colour that each pixel measures."""
    is_red, is_blue, _ = sites(pixel, width, pattern)
    xp = namespace(red, pixel)
    return xp.where(is_red, red, xp.where(is_blue, blue, green))


def quad_largest(raw: Array, pixel: Array, width: int, height: int) -> Array:
    """Largest value of the 2 x 2 colour cell (red, blue and two green pixels) that each pixel belongs to."""
    xp = namespace(raw, pixel)
    row, column = places(pixel, width)
    top, left = row - (row & 1), column - (column & 1)
    # With an odd size, the last row or column is paired with the one before it.
    bottom, right = mirrored(top + 1, height), mirrored(left + 1, width)
    upper = xp.maximum(gather(raw, top * width + left), gather(raw, top * width + right))
    lower = xp.maximum(gather(raw, bottom * width + left), gather(raw, bottom * width + right))
    return xp.maximum(upper, lower)


def demosaic(
    raw: Array, pixel: Array, width: int, height: int, pattern: str, method: str = "malvar"
) -> tuple[Array, Array, Array]:
    """Red, green and blue of every pixel of a mosaic. Both methods are exact where each colour is constant.

    `malvar` corrects the bilinear value by the curvature of the pixel's own colour, with gains 1/2, 5/8 and 3/4. It is
    exact for grey gradients, and may slightly overshoot the surrounding values.
    """
    if method not in DEMOSAICS:
        raise unknown_name("demosaic method", method, DEMOSAICS)
    xp = namespace(raw, pixel)
    row, column = places(pixel, width)

    def at(down: int, right: int) -> Any:
        return gather(raw, mirrored(row + down, height) * width + mirrored(column + right, width))

    own = gather(raw, pixel)
    beside, above = at(0, -1) + at(0, 1), at(-1, 0) + at(1, 0)
    corners = at(-1, -1) + at(-1, 1) + at(1, -1) + at(1, 1)
    if method == "bilinear":
        green_here, along, across = 0.25 * (beside + above), 0.5 * beside, 0.5 * above
        opposite = 0.25 * corners
    else:
        far_beside, far_above = at(0, -2) + at(0, 2), at(-2, 0) + at(2, 0)
        green_here = 0.125 * (4.0 * own + 2.0 * (beside + above) - far_beside - far_above)
        along = 0.125 * (5.0 * own + 4.0 * beside - far_beside - corners + 0.5 * far_above)
        across = 0.125 * (5.0 * own + 4.0 * above - far_above - corners + 0.5 * far_beside)
        opposite = 0.125 * (6.0 * own + 2.0 * corners - 1.5 * (far_beside + far_above))
    is_red, is_blue, in_red_row = sites(pixel, width, pattern)
    red = xp.where(is_red, own, xp.where(is_blue, opposite, xp.where(in_red_row, along, across)))
    green = xp.where(is_red | is_blue, green_here, own)
    blue = xp.where(is_blue, own, xp.where(is_red, opposite, xp.where(in_red_row, across, along)))
    return red, green, blue


# ---- White balance, colour matrix, response curve, quantisation, JPEG -----------------------------------------------
# All but JPEG are written once for NumPy and Dr.Jit. The linear signal is 0 at the black level and 1 at saturation.
#
# Sources: IEC 61966-2-1 (sRGB); G. Buchsbaum, "A spatial processor model for object colour perception", 1980 (grey
# world).


CURVES = ("srgb", "gamma", "linear")


def response(signal: Array, curve: str, gamma: float = 2.2) -> Array:
    """Output value for a linear signal, both from 0 to 1; signals beyond are clipped."""
    xp = namespace(signal)
    x = xp.clip(signal, 0.0, 1.0)
    if curve == "srgb":
        return xp.where(x <= 0.0031308, 12.92 * x, 1.055 * xp.power(xp.maximum(x, 1e-6), 1.0 / 2.4) - 0.055)
    if curve == "gamma":
        return xp.where(x > 0.0, xp.power(xp.maximum(x, 1e-12), 1.0 / gamma), 0.0)
    if curve == "linear":
        return x
    raise unknown_name("response curve", curve, CURVES)


def quantised(value: Array, bits: int) -> Array:
    """Values from 0 to 1 quantised to `bits`, as floats."""
    return namespace(value).floor(value * float(2**bits - 1) + 0.5)


def grey_world_gains(means: Sequence[Reals]) -> list[Reals]:
    """Gains that equalise the means of all bands; the smallest is 1, so that saturated pixels stay white.

    Means are those of the linear signal. A band whose mean is 0 or less gets a gain of 1.
    """
    xp = namespace(*means)
    top = means[0]
    for mean in means[1:]:
        top = xp.maximum(top, mean)
    return [xp.where(mean > 0.0, top / xp.maximum(mean, 1e-9), 1.0) for mean in means]


def mixed(planes: Sequence[Array], matrix: tuple[tuple[float, ...], ...] | None) -> list[Array]:
    """Output bands: each row of the matrix times the planes of the sensor."""
    if matrix is None:
        return list(planes)
    out = []
    for row in matrix:
        total = planes[0] * row[0]
        for weight, plane in zip(row[1:], planes[1:], strict=True):
            total = total + weight * plane
        out.append(total)
    return out


def jpeg(colour: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """8-bit image (h, w) or (h, w, 3) after JPEG compression with quality 1 to 95 (Pillow)."""
    import io

    from PIL import Image

    if colour.dtype != np.uint8 or not (colour.ndim == 2 or (colour.ndim == 3 and colour.shape[2] == 3)):
        raise ConfigError(f"jpeg_quality: JPEG stores 8 bits and 1 or 3 bands, got {colour.dtype} {colour.shape}")
    store = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(colour)).save(store, "JPEG", quality=quality)
    store.seek(0)
    with Image.open(store) as picture:
        return np.array(picture)


# ---- electronics ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SensorElectronics:
    """Parameters of the sensor and of the lens transmission."""

    identity: str = "camera"
    """Identity of the unit. It selects the fixed patterns, which are the same in every frame."""
    wavelengths_nm: tuple[float, ...] = (600.0, 540.0, 460.0)
    """Mean wavelength of each band [nm]."""
    quantum_efficiency: tuple[float, ...] = (0.5, 0.6, 0.5)
    """Electrons per photon of each band, including the colour filter."""
    pixel_um: float = 3.45
    """Side of a pixel [um]."""
    f_number: float = 2.8
    """Focal length divided by the diameter of the entrance pupil."""
    transmission: float = 0.9
    """Transmittance of the lens."""
    vignetting: float = 1.0
    """Exponent on the natural falloff cos^4: 0 none, 1 natural."""
    full_well_e: float = 10_500.0
    """Full-well capacity [e]."""
    gain_e_per_dn: float | None = None
    """Electrons per digital number at a gain of 0 dB; None if the full well just saturates the converter."""
    dark_current_e_s: float = 1.0
    """Dark current [e/s]."""
    read_noise_e: float = 2.2
    """Standard deviation of read noise [e]."""
    prnu: float = 0.005
    """Relative standard deviation of the pixel gains."""
    dsnu_e: float = 0.5
    """Standard deviation of the pixel offsets [e]."""
    black_level_dn: float = 64.0
    """Digital number without light [DN]."""
    adc_bits: int = 12
    """Resolution of the converter [bit]."""
    bayer: str | None = "RGGB"
    """Colour filters of the first two rows; None for a sensor that measures every band in every pixel."""
    demosaic: str = "malvar"
    """Demosaicing method, one of DEMOSAICS."""
    chromatic_scale: tuple[float, ...] | None = None
    """Magnification of each band about the principal point; None for a lens without chromatic aberration."""
    blur_px: float = 0.0
    """Standard deviation of the Gaussian point spread of the lens [pixel]; 0 for a perfectly sharp lens."""
    white_balance: Literal["auto", "none"] | tuple[float, ...] = "auto"
    """Grey world, none, or the gain of each band."""
    colour_matrix: tuple[tuple[float, ...], ...] | None = None
    """Matrix from sensor bands to output bands, applied after white balance."""
    curve: str = "srgb"
    """Response curve, one of CURVES."""
    gamma: float = 2.2
    """Exponent of the curve `gamma`: stored value = signal^(1 / gamma)."""
    output_bits: int = 8
    """Resolution of the output, 8 or 16 bit."""
    jpeg_quality: int | None = None
    """Quality of JPEG compression; None for no compression."""
    noise: bool = True
    """True adds shot and read noise. Fixed patterns are separate; set `prnu` and `dsnu_e` to 0 to omit them."""

    def __post_init__(self) -> None:
        bands = len(self.wavelengths_nm)
        lists = {"quantum_efficiency": self.quantum_efficiency, "chromatic_scale": self.chromatic_scale}
        if not isinstance(self.white_balance, str):
            lists["white_balance"] = self.white_balance
        for name, values in lists.items():
            if values is not None and len(values) != bands:
                raise ConfigError(f"sensor: {name} has {len(values)} entries for {bands} bands")
        if self.bayer is not None:
            if self.bayer not in PATTERNS:
                raise unknown_name("Bayer pattern", self.bayer, PATTERNS)
            if bands != 3:
                raise ConfigError(f"sensor: a Bayer pattern needs red, green and blue, got {bands} bands")
        if isinstance(self.white_balance, str) and self.white_balance not in ("auto", "none"):
            raise unknown_name("white balance", self.white_balance, ("auto", "none"))
        if self.demosaic not in DEMOSAICS:
            raise unknown_name("demosaic method", self.demosaic, DEMOSAICS)
        if self.curve not in CURVES:
            raise unknown_name("response curve", self.curve, CURVES)
        if self.output_bits not in (8, 16):
            raise ConfigError(f"sensor: output_bits must be 8 or 16, got {self.output_bits}")
        if not 1 <= self.adc_bits <= 16 or not 0.0 <= self.black_level_dn < self.largest_dn:
            raise ConfigError("sensor: adc_bits must be from 1 to 16, and black_level_dn below their largest number")
        if self.jpeg_quality is not None and (self.output_bits != 8 or bands not in (1, 3)):
            raise ConfigError("sensor: jpeg_quality needs output_bits 8 and 1 or 3 bands")
        if self.colour_matrix is not None and any(len(row) != bands for row in self.colour_matrix):
            raise ConfigError(f"sensor: rows of colour_matrix must have {bands} entries")

    @property
    def largest_dn(self) -> int:
        """Largest digital number of the converter."""
        return int(2**self.adc_bits - 1)

    def dn_per_e(self, gain_db: float = 0.0) -> float:
        """Digital numbers per electron (the system gain K of EMVA 1288)."""
        per_e = (self.largest_dn - self.black_level_dn) / self.full_well_e
        if self.gain_e_per_dn is not None:
            per_e = 1.0 / self.gain_e_per_dn
        return float(per_e * 10.0 ** (gain_db / 20.0))

    @property
    def full_scale_e(self) -> float:
        """Electrons that saturate the converter at a gain of 0 dB [e]; it may exceed the full well."""
        if self.gain_e_per_dn is None:
            return self.full_well_e
        return (self.largest_dn - self.black_level_dn) * self.gain_e_per_dn

    def electrons_per_radiance(self) -> tuple[float, ...]:
        """Electrons per second in an on-axis pixel per radiance [W/(m^2 sr)], for each band."""
        return tuple(
            electrons_per_radiance(
                pixel_um=self.pixel_um,
                wavelength_nm=nm,
                quantum_efficiency=qe,
                f_number=self.f_number,
                transmission=self.transmission,
            )
            for nm, qe in zip(self.wavelengths_nm, self.quantum_efficiency, strict=True)
        )


@dataclass(frozen=True, eq=False)
class Developed:
    """Image and exposure settings."""

    colour: NDArray[Any]
    """Shape (h, w) or (h, w, bands), uint8 or uint16."""
    exposure_time_s: float
    """Exposure time [s]."""
    gain_db: float
    """Gain [dB]."""
    raw: NDArray[np.uint16] | None = None
    """Digital numbers of the converter, if requested: (h, w) for a mosaic or one band, (h, w, bands) otherwise."""


def develop(
    radiance: Reals | Sequence[Any],
    electronics: SensorElectronics,
    exposure: Exposure | AutoExposure,
    stream: Stream,
    *,
    width: int | None = None,
    height: int | None = None,
    cos_axis: Reals | None = None,
    principal_point: tuple[float, float] | None = None,
    with_raw: bool = False,
) -> Developed:
    """Image of a scene with the given band radiance [W/(m^2 sr)].

    `radiance` is a NumPy array (h, w, bands), or a list of flat arrays, one per band, with `width` and `height`. Flat
    arrays are Dr.Jit arrays, processed by kernels, or NumPy arrays. `stream` selects the noise. `cos_axis` is the
    cosine between each pixel's ray and the axis (`axis_cosines`); without it there is no vignetting. `principal_point`
    (column, row) is the centre of chromatic aberration; by default the image centre.
    """
    planes, width, height = planes_of(radiance, width, height)
    if len(planes) != len(electronics.wavelengths_nm):
        raise ConfigError(f"radiance: expected {len(electronics.wavelengths_nm)} bands, got {len(planes)}")
    bench = _Bench(any(is_drjit(plane) for plane in planes), width * height)
    centre = principal_point or (0.5 * (width - 1), 0.5 * (height - 1))
    if electronics.blur_px:
        weights = bench.numbers(blur_weights(electronics.blur_px))
        for down in (False, True):
            planes = bench.run(_blur, planes, bench.pixel, weights, Static((width, height, down)))
    rates = bench.run(
        _light,
        planes,
        bench.pixel,
        bench.plane(cos_axis) if electronics.vignetting else None,
        bench.numbers(electronics.electrons_per_radiance()),
        bench.numbers(electronics.chromatic_scale or ()),
        bench.numbers(centre),
        Static((width, height, electronics.bayer, electronics.vignetting)),
    )
    if isinstance(exposure, AutoExposure):
        counts = sum(bench.host(bench.run(meter, rate)).astype(np.int64) for rate in rates)
        exposure = auto_exposure(np.asarray(counts), electronics.full_scale_e, exposure)
    e, time = electronics, exposure.time_s
    keys = (replace(stream, name=f"{stream.name}/readout").key, Stream(0, f"fixed-pattern/{e.identity}").key)
    raws = bench.run(
        _read,
        rates,
        bench.pixel,
        bench.keys(keys),
        bench.numbers(
            (
                time,
                e.dark_current_e_s * time,
                e.prnu,
                e.dsnu_e,
                e.full_well_e,
                e.read_noise_e,
                e.dn_per_e(exposure.gain_db),
                e.black_level_dn,
                e.largest_dn,
            )
        ),
        Static((e.prnu > 0.0 or e.dsnu_e > 0.0, e.noise)),
    )
    if e.white_balance == "auto":
        levels = bench.numbers((e.black_level_dn, e.largest_dn))
        balance = bench.run(_means, raws, bench.pixel, levels, Static((width, height, e.bayer)))
    else:
        balance = [] if e.white_balance == "none" else bench.numbers(e.white_balance)
    stored = bench.run(
        _finish,
        raws,
        bench.pixel,
        balance,
        bench.numbers((e.black_level_dn, 1.0 / (e.largest_dn - e.black_level_dn))),
        Static(
            (
                width,
                height,
                e.bayer,
                e.demosaic,
                e.white_balance == "auto",
                e.colour_matrix,
                e.curve,
                e.gamma,
                e.output_bits,
            )
        ),
    )
    colour = bench.picture(stored, width, height, e.output_bits)
    if e.jpeg_quality is not None:
        colour = jpeg(colour, e.jpeg_quality)
    raw = pictured([bench.host(one).astype(np.uint16) for one in raws], width, height) if with_raw else None
    return Developed(colour, time, exposure.gain_db, raw)


def axis_cosines(intrinsics: Intrinsics) -> NDArray[np.float32]:
    """Cosine between the axis and the ray of each pixel, in row-major order, without lens distortion.

    For an `equidistant` lens, the angle is proportional to the distance from the principal point.
    """
    column, row = np.meshgrid(np.arange(intrinsics.width), np.arange(intrinsics.height))
    y = (row - intrinsics.cy) / intrinsics.fy
    x = (column - intrinsics.cx - intrinsics.skew * y) / intrinsics.fx
    if intrinsics.model == "equidistant":
        cosine = np.maximum(np.cos(np.minimum(np.hypot(x, y), math.pi)), 0.0)
    else:
        cosine = 1.0 / np.sqrt(1.0 + x * x + y * y)
    return cosine.ravel().astype(np.float32)


# ---- processing steps, for NumPy and Dr.Jit arrays -----------------------------------------------------------------


def _blur(planes: list[Array], pixel: Array, weights: list[Reals], fixed: Any) -> list[Array]:
    """Point spread of the lens along rows or columns."""
    width, height, down = fixed.values
    return [blurred(plane, pixel, width, height, weights, down=down) for plane in planes]


def _light(
    planes: list[Array],
    pixel: Array,
    cos_axis: Array,
    scales: list[Reals],
    zooms: list[Reals],
    centre: list[Reals],
    fixed: Any,
) -> list[Array]:
    """Photoelectrons per second in each pixel: of its own colour, or of every band."""
    width, height, bayer, vignetting = fixed.values
    if zooms:
        at = (centre[0], centre[1])
        planes = [zoomed(p, pixel, width, height, at, zoom) for p, zoom in zip(planes, zooms, strict=True)]
    rates: list[Array] = [plane * scale for plane, scale in zip(planes, scales, strict=True)]
    if bayer is not None:
        red, green, blue = rates
        rates = [mosaic(red, green, blue, pixel, width, bayer)]
    if cos_axis is not None:
        share = falloff(cos_axis, vignetting)
        rates = [rate * share for rate in rates]
    return [namespace(rate).maximum(rate, 0.0) for rate in rates]


def _read(rates: list[Array], pixel: Array, keys: tuple[Keys, Keys], numbers: list[Reals], fixed: Any) -> list[Array]:
    """Digital numbers of each pixel."""
    patterned, noisy = fixed.values
    time, dark, prnu, dsnu, full_well, read_noise, gain, black, largest = numbers
    raws = []
    for band, rate in enumerate(rates):
        electrons = collected(
            rate * time,
            pixel * len(rates) + band if len(rates) > 1 else pixel,
            *keys,
            dark_e=dark,
            prnu=prnu,
            dsnu_e=dsnu,
            full_well_e=full_well,
            read_noise_e=read_noise,
            patterned=patterned,
            noisy=noisy,
        )
        raws.append(digitised(electrons, dn_per_e=gain, black_level_dn=black, largest_dn=largest))
    return raws


def _means(raws: list[Array], pixel: Array, levels: list[Reals], fixed: Any) -> list[Reals]:
    """Mean signal of each band over the pixels without a saturated band, whose colour would be unknown."""
    width, height, bayer = fixed.values
    black, largest = levels
    if bayer is None:
        is_open = raws[0] < largest
        for raw in raws[1:]:
            is_open = is_open & (raw < largest)
        return [_mean_signal(raw, is_open, black) for raw in raws]
    is_red, is_blue, _ = sites(pixel, width, bayer)
    is_open = quad_largest(raws[0], pixel, width, height) < largest
    of_band = (is_red, ~(is_red | is_blue), is_blue)
    return [_mean_signal(raws[0], site & is_open, black) for site in of_band]


def _mean_signal(raw: Array, wanted: Array, black: Reals) -> Any:
    """Mean of selected digital numbers above black. Integer sums do not depend on the order of summation."""
    xp = namespace(raw)
    if not is_drjit(raw):
        return np.float64(raw[wanted].sum() / max(int(wanted.sum()), 1) - black)
    import drjit as dr

    whole: Any = dr.uint64_array_t(type(raw))
    total = dr.sum(whole(xp.where(wanted, raw, 0.0)))
    number = dr.sum(xp.where(wanted, xp.uint32(raw) * 0 + 1, 0))
    return type(raw)(total) / xp.maximum(type(raw)(number), 1.0) - black


def _finish(raws: list[Array], pixel: Array, balance: list[Reals], numbers: list[Reals], fixed: Any) -> list[Array]:
    """Stored values of each output band, as floats."""
    width, height, bayer, method, is_auto, matrix, curve, gamma, bits = fixed.values
    black, per_dn = numbers
    bands = list(raws) if bayer is None else list(demosaic(raws[0], pixel, width, height, bayer, method))
    signals = [(band - black) * per_dn for band in bands]
    if balance:
        gains = grey_world_gains(balance) if is_auto else balance
        signals = [signal * gain for signal, gain in zip(signals, gains, strict=True)]
    if matrix is not None:
        # Pixels that are saturated in all bands stay white.
        signals = [namespace(signal).minimum(signal, 1.0) for signal in signals]
    return [quantised(response(signal, curve, gamma), bits) for signal in mixed(signals, matrix)]


class _Bench:
    """Runs the steps directly on NumPy arrays, or as replayed kernels on Dr.Jit arrays."""

    def __init__(self, on_device: bool, pixels: int) -> None:
        self._engine = running_engine() if on_device else None
        self.pixel = np.arange(pixels, dtype=np.uint32) if self._engine is None else self._engine.counting(pixels)

    def run(self, step: Any, *args: Any) -> Any:
        """Run a step and evaluate its results."""
        if self._engine is None:
            return step(*args)
        done = self._engine.frozen(step)(*args)
        self._engine.dr.eval(done)
        return done

    def numbers(self, values: Any) -> list[Reals]:
        """Kernel arguments for numbers, so that other values do not need another kernel."""
        return [float(v) if self._engine is None else self._engine.number(float(v)) for v in values]

    def keys(self, keys: Any) -> Any:
        """Kernel arguments for random keys."""
        if self._engine is None:
            return keys
        dr, mi = self._engine.dr, self._engine.mi
        return tuple(tuple(dr.opaque(mi.UInt32, word) for word in key) for key in keys)

    def plane(self, values: Any) -> Any:
        """Per-pixel array on the device or host where the steps run."""
        if values is None:
            return None
        if self._engine is None:
            return np.asarray(values, np.float64).ravel()
        return values if is_drjit(values) else self._engine.table(np.asarray(values, np.float32))

    def host(self, values: Any) -> NDArray[Any]:
        """Copy of an array as a NumPy array."""
        return np.asarray(values) if self._engine is None else copied(values)

    def picture(self, stored: list[Array], width: int, height: int, bits: int) -> NDArray[Any]:
        """Integer output image, (h, w) or (h, w, bands)."""
        kind: Any = np.uint8 if bits == 8 else np.uint16
        if self._engine is None or len(stored) == 1 or bits != 8:
            return pictured([self.host(one).astype(kind) for one in stored], width, height)
        packed = self.run(_interleaved, stored, self.pixel, Static((width * height,)))
        return copied(packed).reshape(height, width, len(stored))


def _interleaved(stored: list[Array], pixel: Array, fixed: Any) -> Array:
    """Bytes of all bands, interleaved by pixel."""
    engine = running_engine()
    dr, mi = engine.dr, engine.mi
    out = dr.empty(mi.UInt8, fixed.values[0] * len(stored))
    for band, plane in enumerate(stored):
        dr.scatter(out, mi.UInt8(mi.UInt32(plane)), pixel * len(stored) + band)
    return out
