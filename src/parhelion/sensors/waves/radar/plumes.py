"""Spray and other media on grids in a radar frame: loss along the paths, and echoes of the cells.

Drops are small against the wavelength. Each node of a grid is one scatterer, whose cross-section is the reflectivity
per mass times the mass of the node; nodes within one cell of the radar add by power. The air moves with the wind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Pose
from parhelion.core.trajectory import Trajectory, pose_at, velocity_at
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene
from parhelion.sensors.waves.bounce import BouncePaths
from parhelion.sensors.waves.radar.config import RadarConfig
from parhelion.weather.grids import DensityGrid
from parhelion.weather.media import Medium, Radio
from parhelion.weather.weather import Weather

IN_AIR = 0
"""Number of reflections of an echo of the air; `patch` of its row is the code of the medium."""

Gain = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]
"""Two-way antenna gain relative to the axis by azimuth and elevation [rad]."""


def grids_in(weather: Weather | None, time: float, frequency_hz: float) -> list[tuple[Medium, Radio, DensityGrid]]:
    """Media on grids that act on radio waves, with the effect of 1 kg/m^3."""
    found = []
    for medium, part, _, row in [] if weather is None else weather.present(time):
        effect = None if medium.place is None else medium.effects.radio_per_mass(part, frequency_hz)
        if weather is not None and effect is not None:
            grid = medium.effects.density(part, weather, time, medium.name, row)
            if isinstance(grid, DensityGrid) and grid.mass_kg > 0.0:
                found.append((medium, effect, grid))
    return found


def through_grids(
    paths: BouncePaths,
    weather: Weather | None,
    config: RadarConfig,
    motion: Trajectory,
    start: float,
    scene: RayScene,
    gain: Gain,
) -> BouncePaths:
    """Paths with the loss of the grids, and rows for the echoes of the grids."""
    grids = grids_in(weather, start, config.frequency_ghz * 1e9)
    if weather is None or not grids:
        return paths
    pose = pose_at(motion, start)
    shown = [paths]
    depth = np.zeros(len(paths))
    for medium, effect, grid in grids:
        loss = effect.loss_db_per_km * 1e-4 * np.log(10.0)
        if len(paths):
            toward = paths.direction.astype(np.float64)
            toward /= np.linalg.norm(toward, axis=1, keepdims=True)
            depth += loss * grid.density_path(pose.xyz, toward @ pose.rotation.T, paths.distance.astype(np.float64))
        if config.rain_clutter:
            air = np.asarray(weather.wind_m_s) - velocity_at(motion, start)
            shown.append(_echoes(medium, effect, grid, config, pose, air, start, scene, gain))
    # The cross-section of a row is two-way: the loss of the last leg counts twice.
    faded = (paths.cross_section * np.exp(-2.0 * depth)).astype(np.float32)
    return BouncePaths.joined([replace(paths, cross_section=faded), *shown[1:]])


def _echoes(
    medium: Medium,
    effect: Radio,
    grid: DensityGrid,
    config: RadarConfig,
    pose: Pose,
    air_m_s: NDArray[np.float64],
    start: float,
    scene: RayScene,
    gain: Gain,
) -> BouncePaths:
    """Rows of the nodes of a grid that the radar sees."""
    node = np.argwhere(grid.density_kg_m3 > 0.0)
    place = grid.origin_m + grid.cell_m * node
    local = (place - pose.xyz) @ pose.rotation
    distance = np.sqrt((local * local).sum(axis=1))
    ahead = (distance > max(config.minimum_range_m, config.range_step_m)) & (distance < config.largest_range_m)
    if config.turning is None:
        ahead &= local[:, 0] > 0.0
    node, place, local, distance = node[ahead], place[ahead], local[ahead], distance[ahead]
    if not len(node):
        return BouncePaths.none()
    toward = local / distance[:, None]
    count = len(node)
    rays = Rays(np.tile(pose.xyz, (count, 1)), toward @ pose.rotation.T, np.full(count, start), distance)
    open_ = ~scene.is_blocked(rays)
    node, toward, distance = node[open_], toward[open_], distance[open_]
    mass = grid.density_kg_m3[tuple(node.T)] * grid.cell_m**3
    lobes = gain(np.arctan2(toward[:, 1], toward[:, 0]), np.arcsin(np.clip(toward[:, 2], -1.0, 1.0)))
    radial = toward @ (pose.rotation.T @ air_m_s)
    count, small = len(node), np.float32
    return BouncePaths(
        (effect.reflectivity_m2_m3 * mass * lobes).astype(small),
        (2.0 * distance).astype(small),
        (2.0 * radial).astype(small),
        toward.astype(small),
        distance.astype(small),
        np.zeros(count, np.uint32),
        np.full(count, medium.code, np.uint32),
        np.full(count, IN_AIR, np.uint8),
        np.zeros(count, np.int64),
    )
