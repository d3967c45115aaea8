"""A weather as one lidar meets it: how its air dims, which of its drops are detected, what its fog sends back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.random import to_normal, to_unit, words
from parhelion.rays.device import Engine, kernel_tree
from parhelion.sensors.lidar.air import Air, DustOnDevice, DustTable, FieldOnDevice, integrate
from parhelion.sensors.lidar.beam import cross_section
from parhelion.sensors.lidar.config import LidarConfig
from parhelion.sensors.lidar.emit import Beams
from parhelion.sensors.lidar.falling import Falling
from parhelion.sensors.lidar.link_budget import SystemConstant
from parhelion.sensors.lidar.scatterers import (
    DUST_LIDAR_RATIO_SR,
    RAIN,
    SNOW,
    SOFT_DEVIATION,
    ScattererCounts,
    Scatterers,
    SoftEcho,
    count_scatterers,
)
from parhelion.weather.detectable import detectable
from parhelion.weather.drop_sizes import drop_sizes
from parhelion.weather.fog import SoftEchoShares, near_overlap, soft_echo
from parhelion.weather.medium import Component, Medium
from parhelion.weather.rain import drop_backscatter, goodin2019_range_sigma, rain_range_shift, vane_range
from parhelion.weather.snow import flake_backscatter
from parhelion.weather.weather import Weather

SPEED_OF_LIGHT_M_S = 299_792_458.0
_SOFT_STEPS = 128
_LEAST_FLOOR = 0.15
_RANGE_ERROR_DRAW = 4000
_DENSEST_FACTOR = 5.0
"""Uneven fog is hardly anywhere denser than this many times its mean."""


@dataclass
class LaunchWeather:
    """What the kernels of one launch need to know of the weather."""

    air: Air
    scatterers: Scatterers | None
    drawn: ScattererCounts | None
    """How many drops and flakes there are, or None where none fall."""
    fog_signal: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None
    """Signal of fog of mean density in units of P_min, by range [m]; None where there is no fog."""
    displaced: Displacement | None
    """How far off the rain lets surfaces appear; None where it does not."""


@kernel_tree()
@dataclass
class Displacement:
    """Where rain lets a surface appear."""

    model: str
    rate: Any
    """Rain rate [mm/h]."""
    extinction: Any
    """Of the rain [1/m]."""

    def __call__(self, range_m: Any, shot: Any, key: Any) -> Any:
        """Ranges [m] of returns as they appear, with the random words of their shots and scans."""
        if self.model == "vane":
            return vane_range(range_m, to_unit(words(key, shot, _RANGE_ERROR_DRAW)[0]))
        if self.model == "goodin2019":
            a, b, _, _ = words(key, shot, _RANGE_ERROR_DRAW)
            return range_m + goodin2019_range_sigma(range_m, self.rate) * to_normal(a, b)[0]
        return range_m + rain_range_shift(self.extinction * range_m)


class WeatherOnDevice:
    """The tables of a sensor for weathers, made when first needed."""

    def __init__(self, engine: Engine, config: LidarConfig, constant: SystemConstant, noise_sigma: float) -> None:
        self.engine, self.config, self.constant = engine, config, constant
        # Echoes below the threshold may pass it with the receiver's noise: those are drawn, too.
        self.floor = max(1.0 - 5.0 * noise_sigma, _LEAST_FLOOR)
        self.pulse_length_m = SPEED_OF_LIGHT_M_S * config.receiver.pulse_length_ns * 1e-9
        self._falling: dict[tuple[Any, ...], Falling | None] = {}
        self._fields: dict[str, tuple[Medium, NDArray[np.float64], FieldOnDevice]] = {}
        self._soft_shares: tuple[NDArray[np.float64], SoftEchoShares] | None = None
        self._soft: dict[tuple[float, float], tuple[float, float, Any]] = {}

    @staticmethod
    def lucky(weather: Weather | None) -> bool:
        """Whether extinction varies from pulse to pulse."""
        return weather is not None and weather.rain is not None and weather.rain.model == "vane"

    def prepare(
        self,
        weather: Weather,
        medium: Medium,
        beams: Beams,
        group: int,
        local_origin: NDArray[np.float64],
        *,
        keys: tuple[Any, Any],
        clear_per_m: float | None = None,
    ) -> LaunchWeather:
        """Everything for the beams of a launch; `clear_per_m` is the extinction of air without weather [1/m]."""
        clear_air = self.constant.gamma_per_m if clear_per_m is None else clear_per_m
        engine = self.engine
        lucky = self.lucky(weather)
        uniform = clear_air
        lucky_extinction: Any = None
        common: dict[str, FieldOnDevice] = {}
        own: dict[str, FieldOnDevice] = {}
        for part in medium.components:
            with_luck = lucky and part.kind == "rain"
            if part.field is not None:
                (own if with_luck else common)[part.kind] = self._field(part, medium, local_origin)
            elif with_luck:
                lucky_extinction = engine.number(part.extinction_per_m)
            else:
                uniform += part.extinction_per_m
        fields = common | own
        mean = clear_air + sum(part.extinction_per_m for part in medium.components)
        extinction = engine.number(uniform)
        reach = engine.number(self.config.range.max_m)
        soft = self._soft_echo(medium, fields.get("fog"), mean)
        air = Air(extinction, lucky_extinction)
        falling = self._all_falling(weather, medium, mean, fields)
        # Counts are waited for, so they come before anything that takes long.
        drawn = count_scatterers(engine, falling, beams, keys)
        if common:
            watched = list(common).index("fog") if soft is not None and "fog" in common else None
            table = integrate(
                engine, beams, group, list(common.values()), reach, watched=watched, other_extinction=extinction
            )
            air.tables.append(table)
            if soft is not None and watched is not None:
                soft.table = table
        if own:
            air.tables.append(integrate(engine, beams, group, list(own.values()), reach, lucky=True))
        dust = [
            DustTable.of(engine, beams, group, DustOnDevice.of(engine, grid, per_mass, local_origin), reach)
            for grid, per_mass in medium.dust
        ]
        air.tables += dust
        if falling:
            depth = sum(kind.depth for kind, _ in falling)
            zone = max(kind.farthest_m for kind, _ in falling)
            air.near = engine.number(depth), engine.number(1.0 / zone)
        scatterers = None
        if falling or soft is not None or dust:
            gain = 0.5 * self.pulse_length_m / (DUST_LIDAR_RATIO_SR * self.constant.threshold)
            scatterers = Scatterers(
                [(drops.tables, field) for drops, field in falling], soft, dust, engine.number(gain), reach
            )
        signal = partial(self._fog_signal, medium.backscatter_per_m_sr, mean) if medium.backscatter_per_m_sr else None
        return LaunchWeather(air, scatterers, drawn, signal, self._displaced(weather, medium))

    def _field(self, part: Component, medium: Medium, local_origin: NDArray[np.float64]) -> FieldOnDevice:
        """A field on the device, kept while weather and world stay the same."""
        kept = self._fields.get(part.kind)
        if kept is None or kept[0] is not medium or not np.array_equal(kept[1], local_origin):
            kept = (medium, local_origin, FieldOnDevice.of(self.engine, part, medium, local_origin))
            self._fields[part.kind] = kept
        return kept[2]

    # ---- drops and flakes --------------------------------------------------------------------------------------

    def _all_falling(
        self, weather: Weather, medium: Medium, extinction: float, fields: dict[str, FieldOnDevice]
    ) -> list[tuple[Falling, FieldOnDevice | None]]:
        wanted: list[tuple[int, str, float, str]] = []
        if weather.rain is not None and medium.rain_rate_mm_h > 0.0:
            wanted.append((RAIN, weather.rain.drop_sizes, medium.rain_rate_mm_h, "rain"))
        if weather.snow is not None and medium.snow_rate_mm_h > 0.0:
            wanted.append((SNOW, "gunn-marshall", medium.snow_rate_mm_h, "snow"))
        found = []
        # Made of the rounded number by which they are kept: tables of earlier scans are those of a new sensor.
        extinction = round(extinction, 6)
        for origin, sizes, rate, kind in wanted:
            key = (origin, sizes, rate, extinction)
            if key not in self._falling:
                if len(self._falling) >= 64:  # rates that change with time: the oldest are not asked for again
                    self._falling.pop(next(iter(self._falling)))
                self._falling[key] = self._make_falling(origin, sizes, rate, extinction)
            drops = self._falling[key]
            if drops is not None:
                found.append((drops, fields.get(kind)))
        return found

    def _make_falling(self, origin: int, sizes_name: str, rate: float, extinction: float) -> Falling | None:
        sizes = drop_sizes(sizes_name, rate)
        limits, threshold = self.config.range, self.constant.threshold

        def backscatter(diameter_mm: NDArray[Any]) -> NDArray[Any]:
            if origin == SNOW:
                return flake_backscatter(diameter_mm)
            return drop_backscatter(diameter_mm, self.config.wavelength_nm)

        def area(range_m: NDArray[Any]) -> NDArray[Any]:
            return cross_section(self.config.beam, range_m)

        table = detectable(
            sizes, backscatter, area=area, overlap=self.overlap, extinction_per_m=extinction, threshold=threshold,
            floor=self.floor, least_range_m=limits.min_m, largest_range_m=limits.max_m,
        )  # fmt: skip
        if not table.mean > 1e-9:
            return None

        def geometry(range_m: NDArray[Any]) -> NDArray[Any]:
            dimmed = self.overlap(range_m) * np.exp(-2.0 * extinction * range_m)
            return dimmed / (area(range_m) * range_m**2 * threshold)

        return Falling.of(self.engine, origin, table, backscatter=backscatter, geometry=geometry, area=area)

    def overlap(self, range_m: NDArray[Any]) -> NDArray[Any]:
        """Overlap of emitter and receiver: the sensor's own, or the one that Hahner et al. 2021 take."""
        points = self.config.range.overlap
        if points:
            at, value = np.asarray(points, dtype=np.float64).T
            return np.interp(range_m, at, value)
        return np.asarray(near_overlap(np.asarray(range_m, dtype=np.float64)))

    # ---- fog ---------------------------------------------------------------------------------------------------

    def _soft_echo(self, medium: Medium, field: FieldOnDevice | None, extinction: float) -> SoftEcho | None:
        if medium.backscatter_per_m_sr <= 0.0:
            return None
        number = self.engine.number
        key = (round(medium.backscatter_per_m_sr, 9), round(extinction, 6))  # and made of these, as above
        if key not in self._soft:
            if len(self._soft) >= 64:
                self._soft.pop(next(iter(self._soft)))
            peak_m, power, ranges = self._soft_curve(*key)
            steps = np.stack([ranges[:-1], np.diff(ranges)], axis=1)
            self._soft[key] = peak_m, power, self.engine.table(steps)
        peak_m, power, ranges = self._soft[key]
        if power * (1.0 + 5.0 * SOFT_DEVIATION) * (1.0 if field is None else _DENSEST_FACTOR) < self.floor:
            return None
        far_gain = medium.backscatter_per_m_sr * 0.5 * self.pulse_length_m / self.constant.threshold
        return SoftEcho(
            number(peak_m), number(power), ranges, _SOFT_STEPS, number(far_gain), field, None
        )  # fmt: skip

    def _fog_signal(self, backscatter: float, extinction: float, range_m: NDArray[np.float64]) -> NDArray[np.float64]:
        """Signal of even fog in units of P_min at ranges [m]."""
        near = np.maximum(range_m, 1e-3)
        signal = soft_echo(
            near, extinction_per_m=extinction, backscatter_per_m_sr=backscatter, pulse_length_m=self.pulse_length_m,
            overlap=self.overlap,
        )  # fmt: skip
        return signal / self.constant.threshold

    def _soft_curve(self, backscatter: float, extinction: float) -> tuple[float, float, NDArray[np.float64]]:
        """Range and power of the echo's peak, and ranges at even steps of probability.

        Where the fluctuating signal is highest: with a gamma law of shape m in each stretch of fog, that is near a
        place with a chance that falls like the mean signal to the power m.
        """
        if self._soft_shares is None:  # of this sensor for any fog: fog that changes with time asks again and again
            limits = self.config.range
            grid = np.geomspace(max(limits.min_m, 0.05), min(limits.max_m, 200.0), 800)
            self._soft_shares = grid, SoftEchoShares.of(grid, self.pulse_length_m, self.overlap)
        grid, shares = self._soft_shares
        signal = shares.signal(extinction, backscatter) / self.constant.threshold
        peak = int(np.argmax(signal))
        if not signal[peak] > 0.0:
            return float(grid[0]), 0.0, np.full(_SOFT_STEPS + 1, grid[0])
        weight = (signal / signal[peak]) ** (1.0 / SOFT_DEVIATION**2)
        likely = weight > 1e-4  # beyond, rounding would leave a long tail at the last step
        chance = np.cumsum((weight * np.gradient(grid))[likely])
        even = np.linspace(0.0, 1.0, _SOFT_STEPS + 1)
        return float(grid[peak]), float(signal[peak]), np.interp(even, chance / chance[-1], grid[likely])

    # ---- range -------------------------------------------------------------------------------------------------

    def _displaced(self, weather: Weather, medium: Medium) -> Displacement | None:
        part = medium.component("rain")
        if weather.rain is None or part is None:
            return None
        number = self.engine.number
        return Displacement(weather.rain.model, number(medium.rain_rate_mm_h), number(part.extinction_per_m))
