"""A weather as one lidar meets it: how its air dims, which of its drops are detected, what its fog sends back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Ints, Keys, Reals
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.random import to_normal, to_unit, words
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.lock import OnDevice
from parhelion.sensors.optics.air import Air, DrawnDrops, DustOnDevice, DustTable, FieldOnDevice, integrate
from parhelion.sensors.optics.beams import Beams
from parhelion.sensors.optics.lidar.air_echoes import (
    DUST_LIDAR_RATIO_SR,
    RAIN,
    SNOW,
    Falling,
    FogEcho,
    ScattererCounts,
    Scatterers,
    count_scatterers,
    fog_echo,
)
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.emit import cross_section
from parhelion.sensors.optics.lidar.link_budget import SystemConstant, overlap_curve, overlap_share
from parhelion.weather.detectable import detectable
from parhelion.weather.drop_sizes import drop_sizes
from parhelion.weather.fog import SoftEchoShares, soft_echo
from parhelion.weather.medium import Component, Medium
from parhelion.weather.rain import (
    drop_backscatter,
    drop_cross_section,
    goodin2019_range_sigma,
    rain_range_shift,
    vane_range,
)
from parhelion.weather.snow import flake_backscatter, flake_cross_section
from parhelion.weather.weather import Weather

_LEAST_FLOOR = 0.15
_RANGE_ERROR_DRAW = 4000


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

    law: str
    """That of VANE or Goodin 2019, which go with their models of extinction, or of Filgueira 2017."""
    rate: Reals
    """Rain rate [mm/h]."""
    extinction: Reals
    """Of the rain [1/m]."""

    def __call__(self, range_m: Reals, shot: Ints, key: Keys) -> Reals:
        """Ranges [m] of returns as they appear, with the random words of their shots and scans."""
        if self.law == "vane":
            return vane_range(range_m, to_unit(words(key, shot, _RANGE_ERROR_DRAW)[0]))
        if self.law == "goodin2019":
            a, b, _, _ = words(key, shot, _RANGE_ERROR_DRAW)
            return range_m + goodin2019_range_sigma(range_m, self.rate) * to_normal(a, b)[0]
        return range_m + rain_range_shift(self.extinction * range_m)


class WeatherOnDevice(OnDevice):
    """The tables of a sensor for weathers, made when first needed."""

    def __init__(self, engine: Engine, config: LidarConfig, constant: SystemConstant, noise_sigma: float) -> None:
        """`noise_sigma` is that of the receiver without signal, in units of P_min; 0 for none, shot noise included."""
        self.engine, self.config, self.constant = engine, config, constant
        photons = config.receiver.threshold_photons if noise_sigma > 0.0 else None
        self.noise_sigma, self.shot_noise = noise_sigma, 1.0 / photons if photons else 0.0
        # Echoes below the threshold may pass it with the receiver's noise: those are drawn, too.
        self.floor = max(1.0 - 5.0 * float(np.hypot(noise_sigma, np.sqrt(self.shot_noise))), _LEAST_FLOOR)
        self.strongest = max(config.receiver.channel_gain, default=1.0)
        self.floor /= self.strongest
        self.overlap_curve = overlap_curve(engine, config.range.overlap)
        self.pulse_length_m = SPEED_OF_LIGHT_M_S * config.receiver.pulse_length_ns * 1e-9
        self._falling: dict[tuple[Any, ...], Falling | None] = {}
        self._fields: dict[str, tuple[Medium, NDArray[np.float64], FieldOnDevice]] = {}
        self._fog_shares: tuple[NDArray[np.float64], SoftEchoShares] | None = None
        self._fog: dict[tuple[Any, ...], FogEcho | None] = {}

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
        keys: Keys,
        clear_per_m: float | None = None,
    ) -> LaunchWeather:
        """Everything for the beams of a launch; `clear_per_m` is the extinction of air without weather [1/m]."""
        clear_air = self.constant.gamma_per_m if clear_per_m is None else clear_per_m
        engine = self.engine
        lucky = self.lucky(weather)
        uniform = clear_air
        lucky_extinction: Reals = None
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
        fog = self._fog_echo(medium, fields.get("fog"), mean)
        air = Air(extinction, lucky_extinction)
        falling = self._all_falling(weather, medium, mean, fields)
        # Python waits for the counts, so they are started before anything that takes long.
        drawn = count_scatterers(engine, falling, beams, keys)
        if common:
            air.tables.append(integrate(engine, beams, group, list(common.values()), reach))
        if own:
            air.tables.append(integrate(engine, beams, group, list(own.values()), reach, lucky=True))
        dust = [
            DustTable.of(engine, beams, group, DustOnDevice.of(engine, grid, per_mass, local_origin), reach)
            for grid, per_mass in medium.dust
        ]
        air.tables += dust
        number = engine.number
        air.drawn += [DrawnDrops(number(kind.depth), number(1.0 / kind.farthest_m), field) for kind, field in falling]
        scatterers = None
        if falling or fog is not None or dust:
            gain = 0.5 * self.pulse_length_m / (DUST_LIDAR_RATIO_SR * self.constant.threshold)
            scatterers = Scatterers(
                [(drops.tables, field) for drops, field in falling], fog, dust, engine.number(gain),
                engine.number(self.config.receiver.dust_optical_depth), self.overlap_curve if dust else None, reach,
            )  # fmt: skip
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
            wanted.append((SNOW, "constant-intercept", medium.snow_rate_mm_h, "snow"))
        found = []
        # Tables are made for the rounded number that they are stored under, so that a new sensor makes the same ones.
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
                return flake_backscatter(diameter_mm, self.config.wavelength_nm)
            return drop_backscatter(diameter_mm, self.config.wavelength_nm)

        def taken(diameter_mm: NDArray[Any]) -> NDArray[Any]:
            if origin == SNOW:
                return flake_cross_section(diameter_mm, self.config.wavelength_nm)
            return drop_cross_section(diameter_mm)

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

        return Falling.of(
            self.engine, origin, table, backscatter=backscatter, taken=taken, geometry=geometry, area=area
        )

    def overlap(self, range_m: NDArray[Any]) -> NDArray[Any]:
        """Share of a return that the receiver collects, by range [m]."""
        return overlap_share(self.config.range.overlap, range_m)

    # ---- fog ---------------------------------------------------------------------------------------------------

    def _fog_echo(self, medium: Medium, field: FieldOnDevice | None, extinction: float) -> FogEcho | None:
        if medium.backscatter_per_m_sr <= 0.0:
            return None
        # Made of the rounded numbers by which it is kept, as above.
        backscatter, extinction = round(medium.backscatter_per_m_sr, 9), round(extinction, 6)
        key = backscatter, extinction, None if field is None else id(field)
        if key not in self._fog:
            if len(self._fog) >= 64:
                self._fog.pop(next(iter(self._fog)))
            grid, signal = self._fog_curve(backscatter, extinction)
            self._fog[key] = fog_echo(
                self.engine, grid, signal, extinction, mode=self.config.receiver.returns,
                cell_m=0.5 * self.pulse_length_m, gap_m=self.config.receiver.merge_distance_m,
                nearest_m=self.config.range.min_m, noise_sigma=self.noise_sigma, shot_noise=self.shot_noise,
                field=field, strongest=self.strongest,
            )  # fmt: skip
        return self._fog[key]

    def _fog_signal(self, backscatter: float, extinction: float, range_m: NDArray[np.float64]) -> NDArray[np.float64]:
        """Signal of even fog in units of P_min at ranges [m]."""
        near = np.maximum(range_m, 1e-3)
        signal = soft_echo(
            near, extinction_per_m=extinction, backscatter_per_m_sr=backscatter, pulse_length_m=self.pulse_length_m,
            overlap=self.overlap,
        )  # fmt: skip
        return signal / self.constant.threshold

    def _fog_curve(self, backscatter: float, extinction: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Signal of even fog in units of P_min, on a grid of ranges [m] that is kept."""
        if self._fog_shares is None:  # of this sensor for any fog: fog that changes with time asks again and again
            limits = self.config.range
            grid = np.geomspace(max(limits.min_m, 0.05), min(limits.max_m, 200.0), 800)
            self._fog_shares = grid, SoftEchoShares.of(grid, self.pulse_length_m, self.overlap)
        grid, shares = self._fog_shares
        return grid, shares.signal(extinction, backscatter) / self.constant.threshold

    # ---- range -------------------------------------------------------------------------------------------------

    def _displaced(self, weather: Weather, medium: Medium) -> Displacement | None:
        part = medium.component("rain")
        if weather.rain is None or part is None:
            return None
        law: str = weather.rain.model
        if law not in ("vane", "goodin2019"):
            if weather.rain.range_shift == "none":
                return None
            law = weather.rain.range_shift
        number = self.engine.number
        return Displacement(law, number(medium.rain_rate_mm_h), number(part.extinction_per_m))
