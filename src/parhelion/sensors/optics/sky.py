"""Sun and sky radiance as a table over direction and band.

By day, the angular distribution follows Hosek and Wilkie (`hosek_wilkie`), per wavelength, and the level follows Bird
(`clear_spectrum`), so that sun and sky share one energy balance and one spectrum from 300 to 4000 nm. Beyond 720 nm,
the distribution at 720 nm is used. With the sun below 5 degrees and below the horizon, the level follows the
illuminances of the Astronomical Almanac (`natural_illuminance`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError
from parhelion.surfaces.bands import Band, luminous
from parhelion.weather.daylight import SUN_HALF_ANGLE_RAD

# ---- Bird's simple spectral model: direct and diffuse irradiance of the clear sky from 300 to 4000 nm ---------------
# Bird and Riordan 1984 (SERI/TR-215-2436), in the form of the later program spectrl2_2.c, as in
# `pvlib.spectrum.spectrl2`. Equation numbers refer to the report. The model was fitted to air masses up to about 5 (sun
# above 11 degrees); it is extrapolated down to 0 degrees.


DATA = Path(__file__).parent / "data" / "bird-riordan-1984.csv"
ANGSTROM_EXPONENT = 1.3
"""Angstrom exponent of haze, as used by Preetham, Shirley and Smits (1999) for their turbidity."""
WATER_VAPOUR_CM = 1.42
OZONE_CM = 0.344
"""Precipitable water and ozone of the U.S. standard atmosphere (ASTM G173)."""

_ALBEDO_400, _ALBEDO_VARIATION, _ASYMMETRY = 0.945, 0.095, 0.65
"""Single-scattering albedo of rural aerosol at 400 nm, its variation with wavelength, and its asymmetry (report)."""
_OZONE_HEIGHT = 22.0 / 6370.0
_DIFFUSE_MASS = 1.8
"""Air mass of isotropic light."""


@dataclass(frozen=True, eq=False)
class ClearSpectrum:
    """Spectral irradiance at the ground under a clear sky."""

    wavelength_nm: Floats
    """Wavelengths [nm], shape (122,)."""
    direct: Floats
    """Direct irradiance normal to the beam [W/(m^2 nm)], shape (122,)."""
    diffuse: Floats
    """Diffuse irradiance on level ground, including ground light scattered back [W/(m^2 nm)], shape (122,)."""


@lru_cache(maxsize=1)
def _table() -> Floats:
    table = np.loadtxt(DATA, delimiter=",", skiprows=4).T
    table.setflags(write=False)
    return table


def air_mass(elevation_rad: float) -> float:
    """Relative optical air mass by Kasten and Young 1989: 1 at the zenith, 38 at the horizon."""
    degrees = max(float(np.degrees(elevation_rad)), 0.0)
    return float(1.0 / (np.sin(np.radians(degrees)) + 0.50572 * (degrees + 6.07995) ** -1.6364))


def haze_optical_depth(turbidity: float, wavelength_nm: Floats | float) -> Floats:
    """Vertical optical depth of haze: Angstrom's (0.04608 T - 0.04856) (lambda / 1 um)^-1.3, not below 0.

    Preetham, Shirley and Smits 1999 (appendix 1), for turbidities of about 1.1 to 10.
    """
    beta = max(0.04608 * turbidity - 0.04856, 0.0)
    return np.asarray(beta * (np.asarray(wavelength_nm) * 1e-3) ** -ANGSTROM_EXPONENT)


def clear_spectrum(
    elevation_rad: float,
    turbidity: float,
    *,
    ground_albedo: float = 0.2,
    distance_factor: float = 1.0,
    water_vapour_cm: float = WATER_VAPOUR_CM,
    ozone_cm: float = OZONE_CM,
) -> ClearSpectrum:
    """Direct and diffuse spectral irradiance at sea level for a sun elevation from 0 to pi/2.

    `distance_factor` is the square of (mean / actual) distance to the sun, 0.967 to 1.034.
    """
    wavelength, above, vapour, ozone, gas = _table()
    micron = wavelength * 1e-3
    cosine = float(np.sin(elevation_rad))
    haze = haze_optical_depth(turbidity, wavelength)
    scattered = _ALBEDO_400 * np.exp(-_ALBEDO_VARIATION * np.log(wavelength / 400.0) ** 2)  # 3-16
    rayleigh = 1.0 / (micron**4 * (115.6406 - 1.3366 / micron**2))  # 2-4
    ozone_mass = (1.0 + _OZONE_HEIGHT) / np.sqrt(cosine**2 + 2.0 * _OZONE_HEIGHT)  # 2-10
    through_ozone = np.exp(-ozone * ozone_cm * ozone_mass)  # 2-9

    def losses(mass: float) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Transmittances: air, water vapour, mixed gases, haze by scattering, haze by absorption."""
        water, mixed = vapour * water_vapour_cm * mass, gas * mass
        return (
            np.exp(-rayleigh * mass),
            np.exp(-0.2385 * water / (1.0 + 20.07 * water) ** 0.45),  # 2-8
            np.exp(-1.41 * mixed / (1.0 + 118.3 * mixed) ** 0.45),  # 2-11
            np.exp(-scattered * haze * mass),  # 3-9
            np.exp(-(1.0 - scattered) * haze * mass),  # 3-10
        )

    air, water, mixed, spread, absorbed = losses(air_mass(elevation_rad))
    kept = above * distance_factor * through_ozone * water * mixed * absorbed
    direct = kept * air * spread  # 2-1

    log = np.log(1.0 - _ASYMMETRY)  # 3-14
    a = log * (1.459 + log * (0.1595 + log * 0.4129))  # 3-12
    b = log * (0.0783 + log * (-0.3824 - log * 0.5874))  # 3-13
    forward = 1.0 - 0.5 * np.exp((a + b * cosine) * cosine)  # 3-11
    forward_diffuse = 1.0 - 0.5 * np.exp((a + b / _DIFFUSE_MASS) / _DIFFUSE_MASS)  # 3-15
    by_air = 0.5 * kept * cosine * (1.0 - air**0.95)  # 3-5
    by_haze = kept * cosine * air**1.5 * (1.0 - spread) * forward  # 3-6

    air_d, water_d, mixed_d, spread_d, absorbed_d = losses(_DIFFUSE_MASS)
    back = mixed_d * water_d * absorbed_d * (0.5 * (1.0 - air_d) + (1.0 - forward_diffuse) * air_d * (1.0 - spread_d))
    ground = (direct * cosine + by_air + by_haze) * back * ground_albedo / (1.0 - back * ground_albedo)  # 3-7, 3-8
    short = np.where(wavelength <= 450.0, ((wavelength + 550.0) * 1e-3) ** 1.8, 1.0)  # 3-17
    return ClearSpectrum(wavelength, direct, (by_air + by_haze + ground) * short)


# ---- The clear sky's radiance by direction: Hosek and Wilkie 2012, from 320 to 720 nm -------------------------------
# "An analytic model for full spectral sky-dome radiance", ACM Transactions on Graphics 31(4). The coefficients are read
# from the data of Mitsuba's `sunsky` emitter in its wheel (BSD licence of the two authors, included there). Valid for
# turbidities of 1 to 10, ground albedos of 0 to 1 and a sun above the horizon.


WAVELENGTHS_NM = np.arange(320.0, 721.0, 40.0)
"""Wavelengths of the model's coefficients [nm], shape (11,)."""
TURBIDITIES = (1.0, 10.0)

_BINOMIAL = np.array([1.0, 5.0, 10.0, 10.0, 5.0, 1.0])
_FLOAT64 = 11
"""Type number of float64 in Mitsuba's tensor files."""


def read_tensors(path: Path) -> dict[str, Floats]:
    """Read the float64 tensors of a Mitsuba tensor file, by name."""
    content = path.read_bytes()
    try:
        magic, _, _, count = struct.unpack_from("<12sBBI", content, 0)
        if magic != b"tensor_file\0":
            raise FormatError(f"{path}: is not a Mitsuba tensor file")
        place, tensors = struct.calcsize("<12sBBI"), {}
        for _ in range(count):
            (length,) = struct.unpack_from("<H", content, place)
            name = content[place + 2 : place + 2 + length].decode("ascii")
            place += 2 + length
            dimensions, kind, offset = struct.unpack_from("<HBQ", content, place)
            place += struct.calcsize("<HBQ")
            shape = struct.unpack_from(f"<{dimensions}Q", content, place)
            place += 8 * dimensions
            if kind == _FLOAT64:
                values = np.frombuffer(content, "<f8", count=int(np.prod(shape)), offset=offset)
                tensors[name] = values.reshape(shape)
    except (struct.error, UnicodeDecodeError, ValueError):
        raise FormatError(f"{path}: the tensor file is damaged") from None
    return tensors


@lru_cache(maxsize=1)
def _coefficients() -> tuple[Floats, Floats]:
    """Parameters (turbidity, albedo, control point, wavelength, 9), and mean radiances without the last axis."""
    spec = PathFinder.find_spec("mitsuba")  # found without importing it
    folders = list(spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        file = Path(folder) / "data" / "sunsky" / "sunsky_datasets.bin"
        if file.is_file():
            tensors = read_tensors(file)
            return tensors["sky_params_spec"], tensors["sky_rad_spec"]
    raise MissingDependencyError(
        "sky light needs the data of Mitsuba 3.7 or newer (mitsuba/data/sunsky): run 'pip install -U mitsuba'"
    )


def hosek_wilkie(directions: Floats, sun: Floats, turbidity: float, ground_albedo: float) -> Floats:
    """Sky radiance [W/(m^2 sr nm)] in directions (n, 3), z up, at `WAVELENGTHS_NM`, shape (n, 11).

    `sun` (3,) is the unit vector to the sun, not below the horizon. Directions below the horizon return the value at
    the horizon. The solar disc is not included.
    """
    parameters, levels = _coefficients()
    elevation = np.arcsin(np.clip(sun[2], 0.0, 1.0))
    x = np.cbrt(elevation / (0.5 * np.pi))
    bezier = _BINOMIAL * (1.0 - x) ** np.arange(5, -1, -1) * x ** np.arange(6)

    step = np.clip(turbidity, *TURBIDITIES) - 1.0
    low = min(int(step), len(levels) - 2)

    def chosen(table: Floats) -> Floats:
        by_turbidity = (1.0 - (step - low)) * table[low] + (step - low) * table[low + 1]
        by_albedo = (1.0 - ground_albedo) * by_turbidity[0] + ground_albedo * by_turbidity[1]
        return np.tensordot(bezier, by_albedo, axes=1)

    a, b, c, d, e, f, g, i, h = chosen(parameters).T  # the last two are stored in this order
    cos_theta = np.clip(directions[:, 2:3], 0.0, 1.0)
    cos_gamma = np.clip(directions @ sun, -1.0, 1.0)[:, None]
    gamma = np.arccos(cos_gamma)
    halo = (1.0 + cos_gamma**2) / (1.0 + h**2 - 2.0 * h * cos_gamma) ** 1.5
    height = 1.0 + a * np.exp(b / (cos_theta + 0.01))
    around = c + d * np.exp(e * gamma) + f * cos_gamma**2 + g * halo + i * np.sqrt(cos_theta)
    return np.maximum(height * around * chosen(levels), 0.0)


# ---- sky ------------------------------------------------------------------------------------------------------------


Floats = NDArray[np.float64]

ROWS, COLUMNS = 128, 256
SPECTRUM_NM = (300.0, 4000.0)
LOW_SUN_DEG = 5.0
"""Sun elevation [deg] below which Bird's model is too dark, and measured illuminances set the level."""
NIGHT_LUX = 6.5e-4
"""Illuminance of a moonless night sky [lux]: airglow and stars, 2.1e-4 cd/m^2 (about 21.8 mag per square arcsec)."""


@dataclass(frozen=True, eq=False)
class SkyLight:
    """Sun and sky in several bands. Table rows below the horizon contain the radiance of level ground."""

    bands: tuple[Band, ...]
    radiance: NDArray[np.float32]
    """Radiance [W/(m^2 sr)] in each band without the solar disc, shape (rows, columns, bands).

    Row r is centred on the angle (r + 0.5) / rows * 180 degrees from the zenith (z up), column c on the angle
    (c + 0.5) / columns * 360 degrees from x towards y, both in the world frame. The number of rows is even, so that
    the horizon lies between two rows."""
    sun_direction: Floats
    """Unit vector to the sun in the world frame, shape (3,); z is negative at night."""
    sun_irradiance: Floats
    """Irradiance of the beam on a plane normal to it [W/m^2] in each band, shape (bands,)."""
    horizontal_irradiance: Floats
    """Irradiance of sun and sky on level ground [W/m^2] in each band, shape (bands,)."""
    illuminance_lux: float
    """Illuminance of sun and sky on level ground [lux]."""
    sun_illuminance_lux: float
    """Illuminance of the beam on a plane normal to it [lux]."""
    ground_albedo: float
    turbidity: float
    sun_half_angle_rad: float = SUN_HALF_ANGLE_RAD

    @property
    def diffuse_irradiance(self) -> Floats:
        """Irradiance of the sky alone on level ground [W/m^2], shape (bands,)."""
        return self.horizontal_irradiance - self.sun_irradiance * max(float(self.sun_direction[2]), 0.0)

    def radiance_at(self, directions: Floats) -> Floats:
        """Radiance in directions (n, 3), interpolated linearly, shape (n, bands)."""
        rows, columns = self.radiance.shape[:2]
        unit = directions / np.linalg.norm(directions, axis=-1, keepdims=True)
        row = np.arccos(np.clip(unit[:, 2], -1.0, 1.0)) / np.pi * rows - 0.5
        column = np.arctan2(unit[:, 1], unit[:, 0]) / (2.0 * np.pi) * columns - 0.5
        r, c = np.floor(row).astype(int), np.floor(column).astype(int)
        down, right = (row - r)[:, None], (column - c)[:, None]

        def cell(i: NDArray[np.int_], j: NDArray[np.int_]) -> Floats:
            return self.radiance[np.clip(i, 0, rows - 1), j % columns].astype(np.float64)

        upper = (1.0 - right) * cell(r, c) + right * cell(r, c + 1)
        lower = (1.0 - right) * cell(r + 1, c) + right * cell(r + 1, c + 1)
        return (1.0 - down) * upper + down * lower


def cell_directions(rows: int = ROWS, columns: int = COLUMNS) -> Floats:
    """Unit vectors to the centres of a table's cells, shape (rows, columns, 3)."""
    theta = (np.arange(rows) + 0.5) / rows * np.pi
    phi = (np.arange(columns) + 0.5) / columns * 2.0 * np.pi
    level = np.sin(theta)[:, None]
    z = np.broadcast_to(np.cos(theta)[:, None], (rows, columns))
    return np.stack([level * np.cos(phi), level * np.sin(phi), z], axis=-1)


def cosine_weights(rows: int = ROWS, columns: int = COLUMNS) -> Floats:
    """Integral of the cosine to the zenith over each cell [sr], shape (rows, columns); 0 below the horizon."""
    edge = np.sin(np.arange(rows // 2 + 1) / rows * np.pi) ** 2
    upper = np.diff(edge) * np.pi / columns
    return np.repeat(np.concatenate([upper, np.zeros(rows - rows // 2)])[:, None], columns, axis=1)


def solid_angles(rows: int = ROWS, columns: int = COLUMNS) -> Floats:
    """Solid angle of each cell [sr], shape (rows, columns)."""
    z = np.cos(np.arange(rows + 1) / rows * np.pi)
    return np.repeat((-np.diff(z) * 2.0 * np.pi / columns)[:, None], columns, axis=1)


_PIECES = (
    (-18.0, -12.0, (13.84, 262.72, 1447.42, 2797.93)),
    (-12.0, -5.0, (2.70, 12.17, -431.69, -1899.83)),
    (-5.0, -0.8, (2.88, 21.81, -258.11, -858.36)),
    (-0.8, 5.0, (2.88, 22.26, -207.64, 1034.30)),
    (5.0, 20.0, (3.05, 13.28, -45.98, 64.33)),
    (20.0, 90.0, (3.74, 3.97, -4.07, 1.47)),
)


def natural_illuminance(elevation_deg: float) -> float:
    """Illuminance of level ground by sun and clear sky [lux], from the sun's elevation of -18 to 90 degrees.

    log10 E = a + b x + c x^2 + d x^3, x = elevation / 90, as in the Explanatory Supplement to the Astronomical Almanac
    (Seidelmann 1992), after Janiczek and DeYoung 1987 (U.S. Naval Observatory Circular 171). It is 759 lx at sunset,
    3.4 lx at -6 degrees, 6.5e-4 lx at -18 degrees, and constant below.
    """
    at = float(np.clip(elevation_deg, -18.0, 90.0))
    for first, last, coefficients in _PIECES:
        if first <= at <= last:
            return float(10.0 ** np.polynomial.polynomial.polyval(at / 90.0, coefficients))
    raise AssertionError("the pieces cover all elevations")


def clear_sky(
    bands: Sequence[Band],
    sun_direction: Floats,
    *,
    turbidity: float = 3.0,
    ground_albedo: float = 0.2,
    distance_factor: float = 1.0,
    shape: tuple[int, int] = (ROWS, COLUMNS),
) -> SkyLight:
    """Sun and clear sky for any sun elevation; `turbidity` from 1 (pure air) to 10 (dense haze)."""
    _check(bands, turbidity, ground_albedo, shape)
    sun = np.asarray(sun_direction, dtype=np.float64)
    sun = sun / np.linalg.norm(sun)
    elevation_deg = float(np.degrees(np.arcsin(np.clip(sun[2], -1.0, 1.0))))
    wavelength, direct, diffuse, night = _spectra(elevation_deg, turbidity, ground_albedo, distance_factor)
    above = np.stack([band.weights(wavelength) for band in bands], axis=1)  # (122, bands)
    to_model = _interpolation(wavelength)

    glow_from = _raised(sun)
    cells = cell_directions(*shape).reshape(-1, 3)
    cosines = cosine_weights(*shape).reshape(-1)
    seen = hosek_wilkie(cells, glow_from, turbidity, ground_albedo)
    unit = seen / (cosines @ seen)  # unit irradiance at each wavelength
    table = unit @ (to_model.T @ (diffuse[:, None] * above)) + (night @ above) / np.pi
    beam = direct @ above
    level = (diffuse + night + direct * max(float(sun[2]), 0.0)) @ above
    table[cells[:, 2] < 0.0] = ground_albedo * level / np.pi
    radiance = table.reshape(*shape, len(bands)).astype(np.float32)
    sun_lux = float(luminous(wavelength, direct))
    lux = float(luminous(wavelength, diffuse + night)) + sun_lux * max(float(sun[2]), 0.0)
    for array in (radiance, sun, beam, level):
        array.setflags(write=False)
    return SkyLight(tuple(bands), radiance, sun, beam, level, lux, sun_lux, ground_albedo, turbidity)


def _check(bands: Sequence[Band], turbidity: float, ground_albedo: float, shape: tuple[int, int]) -> None:
    if not bands:
        raise ConfigError("light: at least one band is required")
    for band in bands:
        first, last = band.range_nm
        if first < SPECTRUM_NM[0] or last > SPECTRUM_NM[1]:
            raise ConfigError(
                f"band {band.name!r}: sun and sky are known from {SPECTRUM_NM[0]:g} to {SPECTRUM_NM[1]:g} nm, "
                f"and the band needs {first:g} to {last:g} nm"
            )
    if not TURBIDITIES[0] <= turbidity <= TURBIDITIES[1]:
        raise ConfigError(f"light: turbidity must be from 1 to 10, got {turbidity:g}")
    if not 0.0 <= ground_albedo <= 1.0:
        raise ConfigError(f"light: ground_albedo must be from 0 to 1, got {ground_albedo:g}")
    if shape[0] < 4 or shape[1] < 4 or shape[0] % 2:
        raise ConfigError(f"light: a table needs 4 columns and an even number of rows from 4 up, got {shape}")


def _raised(sun: Floats) -> Floats:
    """Direction of the sun, or its projection on the horizon if it is below, where the twilight glow stays."""
    if sun[2] >= 0.0:
        return sun
    level = np.hypot(sun[0], sun[1])
    return np.array([1.0, 0.0, 0.0]) if level < 1e-9 else np.array([sun[0] / level, sun[1] / level, 0.0])


def _interpolation(wavelength: Floats) -> Floats:
    """Interpolation matrix (n, 11) from Hosek and Wilkie's wavelengths to others, constant beyond the ends."""
    return np.stack([np.interp(wavelength, WAVELENGTHS_NM, row) for row in np.eye(len(WAVELENGTHS_NM))], axis=1)


def _spectra(
    elevation_deg: float, turbidity: float, ground_albedo: float, distance: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Wavelengths [nm], and spectral irradiance of beam, sky and night sky [W/(m^2 nm)]."""
    options = {"ground_albedo": ground_albedo, "distance_factor": distance}
    here = clear_spectrum(np.radians(max(elevation_deg, 0.0)), turbidity, **options)
    half = np.degrees(SUN_HALF_ANGLE_RAD)
    direct = here.direct * np.clip(0.5 * (elevation_deg / half + 1.0), 0.0, 1.0)  # visible part of the disc
    wavelength, nothing = here.wavelength_nm, np.zeros_like(direct)
    if elevation_deg >= LOW_SUN_DEG:
        return wavelength, direct, here.diffuse, nothing
    low = clear_spectrum(np.radians(LOW_SUN_DEG), turbidity, **options)
    sky_lux = float(luminous(wavelength, low.diffuse))
    joint = sky_lux + float(luminous(wavelength, low.direct)) * np.sin(np.radians(LOW_SUN_DEG))
    share = float(np.clip(elevation_deg / LOW_SUN_DEG, 0.0, 1.0))
    wanted = natural_illuminance(elevation_deg) * (joint / natural_illuminance(LOW_SUN_DEG)) ** share
    beam_lux = float(luminous(wavelength, direct)) * max(np.sin(np.radians(elevation_deg)), 0.0)
    # The night sky is added for a sun below the horizon; at sunset it is a millionth of the total.
    flat = np.ones_like(wavelength)
    night = flat * (NIGHT_LUX / float(luminous(wavelength, flat))) if elevation_deg < 0.0 else nothing
    lux = max(wanted - beam_lux - (NIGHT_LUX if elevation_deg < 0.0 else 0.0), 0.0)
    return wavelength, direct, low.diffuse * (lux / sky_lux), night
