"""Sensors and measurements shared by the tests of weather in scans."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

import parhelion as ph
from parhelion.core.clouds import ORIGINS
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.emit import cross_section
from parhelion.sensors.optics.lidar.link_budget import overlap_share
from parhelion.weather.air import air_contents
from parhelion.weather.media.rain import drop_backscatter, drop_cross_section
from parhelion.weather.media.snow import flake_backscatter, flake_cross_section
from parhelion.weather.particles import Detectable, detectable, drop_sizes, obscured, sample
from rigs import OPEN_AT_1_M

NM = 905.0
BEAM = {"divergence_mrad": (3.0, 1.2), "exit_diameter_mm": 9.5, "sub_rays": 25}
RECEIVER = {"pulse_length_ns": 6.0, "merge_distance_m": 1.0}
STRONG = {"min_m": 0.5, "max_m": 150, "rated": [{"reflectance": 0.9, "range_m": 1000}], "overlap": OPEN_AT_1_M}
"""A laser so strong that dimmed surfaces stay above the threshold."""
SURFACE, RAIN, FOG, SNOW, DUST = (ORIGINS.index(name) for name in ("surface", "rain", "fog", "snow", "dust"))


def open_at_1_m(range_m: Any) -> np.ndarray:
    """Overlap by range [m]."""
    return overlap_share(OPEN_AT_1_M, range_m)


def seen(weather: ph.Weather | None, world: ph.World, config: LidarConfig, **options: Any) -> ph.Scan:
    world.weather = weather
    keys = {"pose", "trajectory", "time", "seed"} & options.keys()
    place = {name: options.pop(name) for name in keys}
    if "trajectory" not in place:
        place = {"pose": ph.Pose(), **place}
    return ph.Lidar(config, noise=False, **options).scan(world, **place)


def surface_power(scan: ph.Scan) -> np.ndarray:
    """Power per shot, from surfaces only; NaN if there is none."""
    power = np.full(len(scan.shots), np.nan)
    chosen = scan.origin == SURFACE
    power[scan.shot[chosen]] = scan.power[chosen]
    return power


def depth(weather: ph.Weather, world: ph.World, config: LidarConfig, **options: Any) -> np.ndarray:
    """One-way optical depth to the surface hit by each shot, from its power with and without the weather."""
    clear, dimmed = (surface_power(seen(air, world, config, returns="last", **options)) for air in (None, weather))
    assert np.all(np.isfinite(dimmed))
    return -0.5 * np.log(dimmed / clear)


def integral(weather: ph.Weather, start: Any, direction: Any, length: Any, time: Any = 0.0) -> np.ndarray:
    """Optical depth along rays in NumPy, by 1000 steps. The field is static except for the wind, which moves it to
    `time`.
    """
    way, reach = np.asarray(direction, dtype=float), np.asarray(length, dtype=float)
    share = (np.arange(1000) + 0.5) / 1000
    drift = np.asarray(time, dtype=float)[..., None] * np.array(weather.wind_m_s)
    at = (np.asarray(start) - drift)[..., None, :] + (reach[..., None] * share)[..., None] * way[:, None, :]
    return air_contents(weather, 0.0, NM).extinction(at.reshape(-1, 3)).reshape(at.shape[:-1]).mean(axis=-1) * reach


def summed(
    weather: ph.Weather, start: Any, direction: Any, length: Any, time: Any = 0.0, *, reach: float = 150.0
) -> np.ndarray:
    """Optical depth as summed by the kernels: 32 steps that are uniform in the square root of range up to `reach`, each
    sampled at its centre. The step that contains the end of the path counts up to that end. Several lengths may be
    given per ray.
    """
    way, to = np.asarray(direction, dtype=float), np.asarray(length, dtype=float)
    ends = reach * (np.arange(33) / 32) ** 2
    middle, step = 0.5 * (ends[1:] + ends[:-1]), np.diff(ends)
    passed = np.clip(to[..., None] - ends[:-1], 0.0, step)
    drift = np.asarray(time, dtype=float)[..., None] * np.array(weather.wind_m_s)
    at = (np.asarray(start) - drift)[..., None, :] + middle[:, None] * way[:, None, :]
    extinction = air_contents(weather, 0.0, NM).extinction(at.reshape(-1, 3)).reshape(at.shape[:-1])
    return (extinction if to.ndim == 1 else extinction[:, None, :]) * passed @ np.ones(32)


def table_of(kind: str, rate: float, config: LidarConfig, floor: float = 1.0, more: float = 0.0) -> Detectable:
    """Drops or flakes whose echo is at least `floor` thresholds, computed only with the weather package.

    `more` is the extinction of other media in the air [1/m].
    """
    sizes = drop_sizes("marshall-palmer" if kind == "rain" else "constant-intercept", rate)
    backscatter = (lambda d: drop_backscatter(d, NM)) if kind == "rain" else flake_backscatter
    return detectable(
        sizes, backscatter, area=lambda z: cross_section(config.beam, z), overlap=open_at_1_m,
        extinction_per_m=more + extinction_of(kind, rate), threshold=ph.Lidar(config).system_constant.threshold,
        floor=floor, least_range_m=config.range.min_m, largest_range_m=config.range.max_m,
    )  # fmt: skip


def extinction_of(kind: str, rate: float) -> float:
    return air_contents(ph.Weather(**{f"{kind}_rate_mm_h": rate}), 0.0, NM).components[0].extinction_per_m


def shares_taken(kind: str, rate: float, config: LidarConfig) -> tuple[float, np.ndarray]:
    """Mean number of drops or flakes drawn per beam, and the share of the beam that each covers, uniformly drawn."""
    table = table_of(kind, rate, config)
    u = (np.arange(1000) + 0.5) / 1000
    range_m, diameter = sample(table, *(axis.ravel() for axis in np.meshgrid(u, u)))
    taken = drop_cross_section(diameter) if kind == "rain" else flake_cross_section(diameter, NM)
    return table.mean, np.asarray(obscured(taken, cross_section(config.beam, range_m)))


def fan(columns: int = 40, rows: int = 4, width_deg: float = 30.0) -> dict[str, Any]:
    return {
        "kind": "raster", "rate_hz": 10, "azimuth_deg": (-width_deg, width_deg), "elevation_deg": (-4, 4),
        "columns": columns, "rows": rows,
    }  # fmt: skip


@lru_cache(maxsize=1)
def yard() -> ph.World:
    """Ground, walls on two sides, poles; open on the other sides."""
    world = ph.World("yard")
    world.add(ph.shapes.plane(60, 60), material="asphalt", label="road", pose=ph.Pose((0, 0, -1.8)))
    for turn in (90, 180):
        pose = ph.Pose(rpy_deg=(0, 0, turn)) @ ph.Pose((20, 0, 0))
        world.add(ph.shapes.box(1, 40, 8), material="lambert-50", label="building", pose=pose)
    for k in range(6):
        world.add(ph.shapes.cylinder(0.1, 5), material="wood", label="pole", pose=ph.Pose((5.0 + k, 3.0 * k - 8, 0)))
    return world


def of_origin(cloud: ph.PointCloud, *origins: int) -> np.ndarray:
    return np.isin(cloud.fields["origin"], origins) & np.isfinite(cloud.xyz).all(axis=1)


BLOWN = ph.Weather(
    rain=ph.Rain(rate_mm_h=30, heterogeneity=ph.Heterogeneity(scale_m=40)),
    fog=ph.Fog(visibility_m=200, heterogeneity=ph.Heterogeneity(scale_m=20)),
    snow_rate_mm_h=1, dust=[ph.DustCloud(centre_m=(8, 3, 0), half_size_m=(3, 3, 2), density_kg_m3=5e-5)],
    wind_m_s=(3, 0, 0),
)  # fmt: skip
"""All kinds of weather, heterogeneous where possible, in the wind."""
