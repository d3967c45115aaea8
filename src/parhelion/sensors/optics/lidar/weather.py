"""Weather for one lidar: attenuation, detectable particles, echoes of volumes and grids, range shifts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import UNSET, Float, Int, Keys
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.random import words
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.lock import DeviceOwned
from parhelion.sensors.optics.air import (
    Air,
    DeviceField,
    DeviceGrid,
    DrawnDepth,
    GridDepth,
    VaryingExtinction,
    integrate,
)
from parhelion.sensors.optics.beams import Beams
from parhelion.sensors.optics.lidar.air_echoes import (
    GRID_LEAST_POWER,
    DrawnParticles,
    GridEcho,
    ScattererCounts,
    Scatterers,
    VolumeEcho,
    count_scatterers,
    volume_echo,
)
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.draws import SHIFT_DRAW
from parhelion.sensors.optics.lidar.emit import cross_section
from parhelion.sensors.optics.lidar.fmcw import brightest_speckle
from parhelion.sensors.optics.lidar.link_budget import SystemConstant, overlap_curve, overlap_share
from parhelion.weather.air import AirComponent, AirContents
from parhelion.weather.media import PulseLaw, ShiftLaw
from parhelion.weather.particles import detectable
from parhelion.weather.volume_echo import SoftEchoShares, soft_echo
from parhelion.weather.weather import Weather

_LEAST_FLOOR = 0.15


@dataclass
class LaunchWeather:
    """Weather inputs of the kernels of one launch."""

    air: Air
    scatterers: Scatterers | None
    drawn: ScattererCounts | None
    """Numbers of drawn particles, or None if there are none."""
    volume_signal: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None
    """Signal of all volume echoes at mean density [P_min], by range [m]; None if there are none."""
    displaced: Displacement | None
    """Range shift of surfaces, or None."""


@kernel_tree(fixed=("law", "draw"))
@dataclass
class Shift:
    """Range shift of surfaces by one medium."""

    law: ShiftLaw
    draw: int
    """Number of its random draw."""
    amount: Float
    extinction: Float
    """Extinction of the medium [1/m]."""


@kernel_tree()
@dataclass
class Displacement:
    """Range shift of surfaces by all media."""

    shifts: list[Shift]

    def __call__(self, range_m: Float, shot: Int, key: Keys) -> Float:
        """Shifted ranges [m] of returns, with the random words of their shots and scans."""
        for shift in self.shifts:
            drawn = words(key, shot, shift.draw)
            range_m = cast("Float", shift.law(range_m, drawn, shift.amount, shift.extinction))
        return range_m


class LidarWeather(DeviceOwned):
    """Weather tables of one sensor, created on first use."""

    def __init__(self, engine: Engine, config: LidarConfig, constant: SystemConstant, noise_sigma: float) -> None:
        """Prepare for a sensor; `noise_sigma` is the receiver's noise without signal [P_min], 0 for no noise at all."""
        self.engine, self.config, self.constant = engine, config, constant
        photons = config.receiver.threshold_photons if noise_sigma > 0.0 else None
        self.noise_sigma, self.shot_noise = noise_sigma, 1.0 / photons if photons else 0.0
        # Echoes below the threshold may pass it with the receiver's noise, so they are drawn as well.
        self.floor = max(1.0 - 5.0 * float(np.hypot(noise_sigma, np.sqrt(self.shot_noise))), _LEAST_FLOOR)
        self.looks = config.fmcw.looks if config.fmcw is not None and noise_sigma > 0.0 else 0
        self.floor /= max(config.receiver.channel_gain, default=1.0) * brightest_speckle(self.looks)
        self.overlap_curve = overlap_curve(engine, config.range.overlap)
        self.pulse_length_m = SPEED_OF_LIGHT_M_S * config.receiver.pulse_length_ns * 1e-9
        self._particles: dict[tuple[Any, ...], DrawnParticles | None] = {}
        self._fields: dict[str, tuple[AirContents, NDArray[np.float64], DeviceField]] = {}
        self._volume_shares: tuple[NDArray[np.float64], SoftEchoShares] | None = None
        self._volumes: dict[tuple[Any, ...], VolumeEcho | None] = {}

    @staticmethod
    def varies_per_pulse(weather: Weather | None) -> bool:
        """Return True if extinction varies from pulse to pulse."""
        return weather is not None and any(
            medium.effects.per_pulse(part) is not None for medium, part, _ in weather.parts()
        )

    def prepare(
        self,
        contents: AirContents,
        beams: Beams,
        group: int,
        local_origin: NDArray[np.float64],
        *,
        keys: Keys,
    ) -> LaunchWeather:
        """Weather of the beams of a launch, in addition to clear air."""
        clear_air = self.constant.gamma_per_m
        engine = self.engine
        number = engine.number
        uniform = clear_air
        air = Air(UNSET)
        fields: dict[str, DeviceField] = {}
        common: list[DeviceField] = []
        varying: dict[PulseLaw, list[DeviceField]] = {}
        for part in contents.components:
            law = part.medium.effects.per_pulse(part.part)
            if part.field is not None:
                fields[part.name] = self._field(part, contents, local_origin)
                (common if law is None else varying.setdefault(law, [])).append(fields[part.name])
            elif law is not None:
                air.varying.append(VaryingExtinction(law, number(part.extinction_per_m)))
            else:
                uniform += part.extinction_per_m
        mean = clear_air + sum(part.extinction_per_m for part in contents.components)
        air.extinction, reach = number(uniform), number(self.config.range.max_m)
        volumes = [echo for part in contents.components if (echo := self._volume(part, fields, mean)) is not None]
        falling = self._all_particles(contents, mean, fields)
        # Python waits for the counts, so they are launched before the long kernels.
        drawn = count_scatterers(engine, falling, beams, keys)
        if common:
            air.tables.append(integrate(engine, beams, group, common, reach))
        for law, some in varying.items():
            air.tables.append(integrate(engine, beams, group, some, reach, law=law))
        grids = self._grids(contents, beams, group, local_origin, reach)
        air.tables += [table for grid in grids for table in grid.tables]
        air.drawn += [DrawnDepth(number(kind.depth), number(1.0 / kind.farthest_m), field) for kind, field in falling]
        scatterers = None
        if falling or volumes or grids:
            scatterers = Scatterers([(drops.tables, field) for drops, field in falling], volumes, grids, self.looks)
        backscatter = contents.backscatter_per_m_sr
        signal = partial(self._volume_signal, backscatter, mean) if backscatter else None
        return LaunchWeather(air, scatterers, drawn, signal, self._displaced(contents))

    def _grids(
        self, contents: AirContents, beams: Beams, group: int, local_origin: NDArray[np.float64], reach: Float
    ) -> list[GridEcho]:
        """Echoes of media on grids, one per medium."""
        number, echoes = self.engine.number, dict[str, GridEcho]()
        for one in contents.grids:
            medium, echo = one.medium, echoes.get(one.medium.name)
            if echo is None:
                gain = 0.5 * self.pulse_length_m / (one.light.lidar_ratio_sr * self.constant.threshold)
                least = 0.0 if one.light.by_own_power else GRID_LEAST_POWER
                echo = echoes[medium.name] = GridEcho(
                    medium.code,
                    medium.draw,
                    [],
                    number(gain),
                    number(self.config.receiver.dust_optical_depth),
                    number(least),
                    self.overlap_curve,
                    reach,
                )
            grid = DeviceGrid.of(self.engine, one.grid, one.per_mass, local_origin)
            echo.tables.append(GridDepth.of(self.engine, beams, group, grid, reach))
        return list(echoes.values())

    def _field(self, part: AirComponent, contents: AirContents, local_origin: NDArray[np.float64]) -> DeviceField:
        """Density field on the device, cached while weather and world stay the same."""
        cached = self._fields.get(part.name)
        if cached is None or cached[0] is not contents or not np.array_equal(cached[1], local_origin):
            cached = (contents, local_origin, DeviceField.of(self.engine, part, contents, local_origin))
            self._fields[part.name] = cached
        return cached[2]

    # ---- particles that are drawn one by one -------------------------------------------------------------------

    def _all_particles(
        self, contents: AirContents, extinction: float, fields: dict[str, DeviceField]
    ) -> list[tuple[DrawnParticles, DeviceField | None]]:
        found = []
        # Tables use the rounded extinction of their cache key, so that they do not depend on the order of requests.
        extinction = round(extinction, 6)
        for part in contents.components:
            key = (part.name, part.part, part.amount, extinction)
            if key not in self._particles:
                if len(self._particles) >= 64:  # amounts that change with time: the oldest is no longer needed
                    self._particles.pop(next(iter(self._particles)))
                self._particles[key] = self._make_particles(part, extinction)
            drops = self._particles[key]
            if drops is not None:
                found.append((drops, fields.get(part.name)))
        return found

    def _make_particles(self, part: AirComponent, extinction: float) -> DrawnParticles | None:
        particles = part.medium.effects.particles(part.part, part.amount)
        if particles is None:
            return None
        limits, threshold = self.config.range, self.constant.threshold

        def backscatter(diameter_mm: NDArray[Any]) -> NDArray[Any]:
            return particles.backscatter(diameter_mm, self.config.wavelength_nm)

        def taken(diameter_mm: NDArray[Any]) -> NDArray[Any]:
            return particles.cross_section(diameter_mm, self.config.wavelength_nm)

        def area(range_m: NDArray[Any]) -> NDArray[Any]:
            return cross_section(self.config.beam, range_m)

        table = detectable(
            particles.sizes,
            backscatter,
            area=area,
            overlap=self.overlap,
            extinction_per_m=extinction,
            threshold=threshold,
            floor=self.floor,
            least_range_m=limits.min_m,
            largest_range_m=limits.max_m,
        )
        if not table.mean > 1e-9:
            return None

        def geometry(range_m: NDArray[Any]) -> NDArray[Any]:
            dimmed = self.overlap(range_m) * np.exp(-2.0 * extinction * range_m)
            return dimmed / (area(range_m) * range_m**2 * threshold)

        return DrawnParticles.of(
            self.engine, part.medium, table, backscatter=backscatter, taken=taken, geometry=geometry, area=area
        )

    def overlap(self, range_m: NDArray[Any]) -> NDArray[Any]:
        """Share of a return that the receiver collects, by range [m]."""
        return overlap_share(self.config.range.overlap, range_m)

    # ---- volume echoes -----------------------------------------------------------------------------------------

    def _volume(self, part: AirComponent, fields: dict[str, DeviceField], extinction: float) -> VolumeEcho | None:
        if part.light.backscatter_per_m_sr <= 0.0:
            return None
        # Rounded as in its cache key, see `_all_particles`.
        backscatter, extinction = round(part.light.backscatter_per_m_sr, 9), round(extinction, 6)
        field = fields.get(part.name)
        key = part.name, backscatter, extinction, None if field is None else id(field)
        if key not in self._volumes:
            if len(self._volumes) >= 64:
                self._volumes.pop(next(iter(self._volumes)))
            grid, signal = self._volume_curve(backscatter, extinction)
            noise = self.noise_sigma, self.shot_noise
            self._volumes[key] = volume_echo(
                self.engine, part.medium, self.config, grid, signal, extinction, noise, field, self.looks
            )
        return self._volumes[key]

    def _volume_signal(
        self, backscatter: float, extinction: float, range_m: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Signal at mean density [P_min] at ranges [m]."""
        near = np.maximum(range_m, 1e-3)
        signal = soft_echo(
            near,
            extinction_per_m=extinction,
            backscatter_per_m_sr=backscatter,
            pulse_length_m=self.pulse_length_m,
            overlap=self.overlap,
        )
        return signal / self.constant.threshold

    def _volume_curve(self, backscatter: float, extinction: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Cached grid of ranges [m], and the signal at mean density [P_min] on it."""
        if self._volume_shares is None:  # the same for all media and densities
            limits = self.config.range
            grid = np.geomspace(max(limits.min_m, 0.05), min(limits.max_m, 200.0), 800)
            self._volume_shares = grid, SoftEchoShares.of(grid, self.pulse_length_m, self.overlap)
        grid, shares = self._volume_shares
        return grid, shares.signal(extinction, backscatter) / self.constant.threshold

    # ---- range -------------------------------------------------------------------------------------------------

    def _displaced(self, contents: AirContents) -> Displacement | None:
        number, shifts = self.engine.number, []
        for part in contents.components:
            shift = part.medium.effects.range_shift(part.part, part.amount, part.extinction_per_m)
            if shift is not None:
                draw = part.medium.draw + SHIFT_DRAW
                shifts.append(Shift(shift.law, draw, number(shift.amount), number(shift.extinction_per_m)))
        return Displacement(shifts) if shifts else None
