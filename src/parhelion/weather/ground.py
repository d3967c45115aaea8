"""Wet and snowy ground: its state over time, and where puddles and snow lie.

The state is three shares: `wetness` of the area that water wets, `puddles` of level ground, and `snow_cover` of
surfaces that face up. They are set by hand, or follow from the rain by a bucket model: rain fills a store, evaporation
empties it. Functions of position are written once for NumPy and Dr.Jit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainValidator

from parhelion.core.arrays import Masks, Reals, namespace
from parhelion.core.errors import ConfigError
from parhelion.core.random import Stream, to_normal
from parhelion.weather.parts import Amount, Schedule, Slider, bounds_of, value_at

if TYPE_CHECKING:
    from parhelion.weather.weather import Weather

FROM_RAIN = "from-rain"
"""Value of `wetness` and `puddles` that derives them from the rain."""
HALF_WET = 0.5
"""Wetness from which surfaces count as wet where there is no state in between: friction, and dust, which wet ground
binds (assumed)."""
STEP = 0.01
"""Steps of the shares: sensors prepare their tables for one state, so a slow change prepares at most 100 of them."""


def _share(name: str, words: str, hint: str) -> Amount:
    option, word = f"--{name.replace('_', '-')}", name.replace("_", " ")
    return Amount(name, name, option, "SHARE", words, "", 0.0, 1.0, Slider(1.0, STEP, hint=hint), word=word)


AMOUNTS = {
    "wetness": _share("wetness", "Wet share of surfaces, 0 to 1, or from-rain.", "1 in rain"),
    "puddles": _share("puddles", "Share of level ground under puddles, 0 to 1, or from-rain.", "0.3 after heavy rain"),
    "snow_cover": _share("snow_cover", "Share of surfaces facing up that snow covers, 0 to 1.", "patches below 1"),
}
"""Shares by name, each with limits, shell option and slider."""


def share_check(name: str) -> PlainValidator:
    """Validator of a share: a number or a schedule from 0 to 1, or `from-rain` where rain can derive it."""
    number = AMOUNTS[name].check

    def check(value: Any) -> Any:
        if isinstance(value, str):
            if value == FROM_RAIN and name != "snow_cover":
                return value
            raise ValueError("must be a number from 0 to 1" + ("" if name == "snow_cover" else f", or {FROM_RAIN!r}"))
        return number.func(value)  # type: ignore[call-arg]

    return PlainValidator(check)


class Ground(NamedTuple):
    """State of the ground at one time, in steps of STEP."""

    wetness: float
    puddles: float
    snow_cover: float
    seed: int
    """Seed of the weather, which places puddles and patches of snow."""

    @property
    def is_patchy(self) -> bool:
        """True if puddles or snow lie somewhere."""
        return self.puddles > 0.0 or self.snow_cover > 0.0


def ground_at(weather: Weather, time: float) -> Ground | None:
    """State of the ground at a time [s]; None if it is dry and bare, or if the weather does not state it."""
    stated = [getattr(weather, name) for name in AMOUNTS]
    if stated == [None, None, None]:
        return None
    shares = []
    for name, value in zip(AMOUNTS, stated, strict=True):
        if value == FROM_RAIN:
            share = _from_rain(weather, time)[name == "puddles"]
        else:
            share = 0.0 if value is None else value_at(value, time)
        shares.append(round(round(share / STEP) * STEP, 2))
    return Ground(shares[0], shares[1], shares[2], weather.seed) if any(shares) else None


def is_constant(weather: Weather) -> bool:
    """True if the ground is the same at all times."""
    for value in (getattr(weather, name) for name in AMOUNTS):
        if value == FROM_RAIN:
            low, high = (0.0, 0.0) if weather.rain is None else bounds_of(weather.rain.rate_mm_h)
        else:
            low, high = (0.0, 0.0) if value is None else bounds_of(value)
        if low != high:
            return False
    return True


# ---- wetting and drying ---------------------------------------------------------------------------------------------

WETTING_MM, STORE_MM, MOST_PUDDLES = 0.3, 1.8, 0.3
"""Water that wets the whole surface, water that also fills its depressions [mm], and the share of level ground that is
then under water. Depressions of paved surfaces store 1.3 to 2.5 mm (EPA, Storm Water Management Model reference manual
vol. I, 2016: 0.05 to 0.1 inch); the wetting water and the share are assumed."""
STANDARD_AIR = (15.0, 70.0)
"""Temperature [°C] and relative humidity [%] if the weather states none (assumed)."""


def evaporation_mm_h(temperature_c: float, humidity_percent: float, wind_m_s: float) -> float:
    """Evaporation of a wet surface [mm/h] by the aerodynamic formula of Penman 1948.

        E = 0.26 (1 + 0.54 u) (e_s - e) / 24

    with wind u [m/s] at 2 m and vapour pressures [hPa] (e_s by Magnus' formula). Sunlight on the surface, which
    multiplies it by a few, is neglected. 0.11 mm/h at 15 °C, 70 % and 2 m/s: a film of 0.3 mm dries in 2.7 h.
    """
    saturated = 6.112 * math.exp(17.62 * temperature_c / (243.12 + temperature_c))
    return 0.26 * (1.0 + 0.54 * wind_m_s) * saturated * (1.0 - 0.01 * humidity_percent) / 24.0


def stored_water_mm(
    rain_rate_mm_h: Schedule, time: float, *, evaporation: float, store_mm: float = STORE_MM, start_mm: float = 0.0
) -> float:
    """Water on a paved surface [mm] at a time [s], between 0 and `store_mm`; the excess runs off.

        dS/dt = r(t) - E,  0 <= S <= store_mm

    S is `start_mm` at the first time of the schedule, and before. Rain [mm/h] is linear between the times of the
    schedule, so S is a parabola between its limits, integrated in 64 steps per interval with the mean rain of each.
    """
    if not isinstance(rain_rate_mm_h, (list, tuple)):
        raise ConfigError("stored_water_mm: needs a schedule of pairs; constant rain has no beginning")
    starts = [float(pair[0]) for pair in rain_rate_mm_h]
    water, knots = start_mm, [one for one in starts if one < time] + [time]
    for first, last in itertools.pairwise(knots):
        edges = np.linspace(first, last, 65)
        rates = value_at(rain_rate_mm_h, 0.5 * (edges[1:] + edges[:-1]))
        for rate in rates:
            water = min(max(water + (float(rate) - evaporation) * (last - first) / 64 / 3600.0, 0.0), store_mm)
    return water


def shares_of_water(water_mm: float) -> tuple[float, float]:
    """Wetness and share of puddles by the stored water [mm]."""
    wetness = min(water_mm / WETTING_MM, 1.0)
    return wetness, MOST_PUDDLES * min(max(water_mm - WETTING_MM, 0.0) / (STORE_MM - WETTING_MM), 1.0)


def _from_rain(weather: Weather, time: float) -> tuple[float, float]:
    """Wetness and puddles by the rain. Constant rain has lasted; a schedule that starts with rain starts on wet
    ground."""
    if weather.rain is None:
        return 0.0, 0.0
    rate = weather.rain.rate_mm_h
    if not isinstance(rate, Sequence):
        return shares_of_water(STORE_MM if rate > 0.0 else 0.0)
    temperature, humidity = (
        default if value is None else value
        for value, default in zip((weather.temperature_c, weather.humidity_percent), STANDARD_AIR, strict=True)
    )
    dries = evaporation_mm_h(temperature, humidity, math.hypot(*weather.wind_m_s[:2]))
    start = STORE_MM if rate[0][1] > 0.0 else 0.0
    return shares_of_water(stored_water_mm(rate, time, evaporation=dries, start_mm=start))


# ---- places ---------------------------------------------------------------------------------------------------------

TILE = 256
"""Points of a tile along each side."""
CELL_M = 0.25
"""Distance between points [m]; tiles repeat after 64 m."""
SIZES_M = {"puddles": 3.0, "snow": 5.0}
"""Typical distance between patches [m] (assumed)."""
LEVEL_COS = math.cos(math.radians(3.0))
"""Puddles lie on ground of at most 3 degrees (assumed: roads have a cross slope of 1.4 degrees)."""
SNOW_COS = (math.cos(math.radians(60.0)), math.cos(math.radians(35.0)))
"""Snow thins out between slopes of 35 and 60 degrees and slides off steeper ones (assumed, angles of avalanches)."""


@lru_cache(maxsize=8)
def patch_tile(seed: int, name: str) -> NDArray[np.float32]:
    """Periodic random field, shape (TILE, TILE): smooth, with values that are uniform in (0, 1).

    Patches lie where the field is below `patch_level`.
    """
    return patch_field(Stream(seed, f"weather/ground/{name}"), (TILE, TILE), CELL_M, (SIZES_M[name], SIZES_M[name]))


def patch_field(stream: Stream, shape: tuple[int, int], cell: float, sizes: tuple[float, float]) -> NDArray[np.float32]:
    """Periodic random field of smooth patches, by rank: its values are uniform in (0, 1).

    White noise with the spectrum exp(-k^2) / (1 + k^2), where k is the wavenumber times the distance between patches
    along rows and columns, `sizes`, in the unit of `cell`, over 2 pi.
    """
    number = np.arange(shape[0] * shape[1])
    words = stream.words(number)
    noise = np.fft.fft2(to_normal(words[0], words[1])[0].reshape(shape))
    down, along = (np.fft.fftfreq(count, cell) * size for count, size in zip(shape, sizes, strict=True))
    square = down[:, None] ** 2 + along**2
    smooth = np.fft.ifft2(noise * np.sqrt(np.exp(-square) / (1.0 + square))).real
    order = np.empty(len(number))
    order[np.argsort(smooth.ravel(), kind="stable")] = (number + 0.5) / len(number)
    field = order.reshape(shape).astype(np.float32)
    field.setflags(write=False)
    return field


@lru_cache(maxsize=256)
def patch_level(seed: int, name: str, share: float) -> float:
    """Value of the field below which this share of the plane lies.

    Interpolation between the points of the tile narrows the distribution of values, so that the level is not the share.
    """
    if share in (0.0, 1.0):
        return 2.0 * share - 0.5  # beyond all values
    row, column = np.mgrid[0 : 2 * TILE, 0 : 2 * TILE] * (0.5 * CELL_M) + 0.25 * CELL_M
    return float(np.quantile(tile_value(patch_tile(seed, name).ravel(), column, row), share))


def tile_value(tile: Any, x: Reals, y: Reals) -> Reals:
    """Bilinear value of a flat tile at positions in the world [m]; NumPy or Dr.Jit arrays."""
    xp = namespace(x, y)
    u, v = x * (1.0 / CELL_M), y * (1.0 / CELL_M)
    left, low = xp.floor(u), xp.floor(v)
    a, b = u - left, v - low
    # Floats below 2^24 are exact; the modulo by subtraction is for negative numbers, which unsigned ones cannot hold.
    i, j = (xp.uint32(n - xp.floor(n * (1.0 / TILE)) * float(TILE)) for n in (left, low))

    def at(row: Any, column: Any) -> Any:
        place = (row & (TILE - 1)) * TILE + (column & (TILE - 1))
        if xp.name == "numpy":
            return tile[place]
        import drjit as dr
        import mitsuba as mi

        return dr.gather(mi.Float, tile, place)

    near = at(j, i) + a * (at(j, i + 1) - at(j, i))
    far = at(j + 1, i) + a * (at(j + 1, i + 1) - at(j + 1, i))
    return near + b * (far - near)


def snow_share(cos_slope: Reals) -> Reals:
    """Share of the snow cover of level ground that stays on a slope, by the upward component of the unit normal."""
    xp = namespace(cos_slope)
    low, high = SNOW_COS
    along = xp.clip((cos_slope - low) * (1.0 / (high - low)), 0.0, 1.0)
    return along * along * (3.0 - 2.0 * along)


def in_puddle(value: Reals, cos_slope: Reals, level: Reals) -> Masks:
    """Mask of places under puddles, by the value of the tile there and `patch_level`."""
    return (value < level) & (cos_slope > LEVEL_COS)


def in_snow(value: Reals, cos_slope: Reals, level: Reals) -> Masks:
    """Mask of places under snow, by the value of the tile there and `patch_level`."""
    return value < level * snow_share(cos_slope)
