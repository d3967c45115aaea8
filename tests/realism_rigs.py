"""Frames of a made-up sensor in a hall, drawn from closed forms, whose noise, steps and losses are known."""

from __future__ import annotations

import numpy as np

import parhelion as ph

RINGS, COLUMNS = 24, 600
FRAMES = 4


def frame(
    seed: int,
    *,
    place: int = 0,
    noise_m: float = 0.01,
    step_m: float = 0.0,
    levels: int = 0,
    lost: float = 0.05,
    drift_deg: float = 0.0,
) -> ph.PointCloud:
    """A sensor 1.5 m above rough ground, in a hall of 20 m by 12 m with bumpy walls; every shot of the rest is lost."""
    rng = np.random.default_rng(seed)
    ring, column = (part.ravel() for part in np.meshgrid(np.arange(RINGS), np.arange(COLUMNS), indexing="ij"))
    azimuth = 2.0 * np.pi * (column + 0.5) / COLUMNS
    elevation = np.radians(-16.0 + ring + drift_deg * np.sin(azimuth))
    bumps = 0.05 * np.sin(7.0 * azimuth + place) + 0.03 * np.sin(23.0 * azimuth + 5.0 * elevation)
    with np.errstate(divide="ignore"):
        across = np.minimum(10.0 / np.abs(np.cos(azimuth)), 6.0 / np.abs(np.sin(azimuth))) / np.cos(elevation)
        down = np.where(elevation < 0.0, 1.5 / np.maximum(np.sin(-elevation), 1e-9), np.inf)
    metres = np.minimum(across, down) + bumps + noise_m * rng.normal(size=len(ring))
    if step_m:
        metres = np.maximum(np.rint(metres / step_m), 1.0) * step_m
    intensity = (0.5 + 0.3 * np.sin(9.0 * azimuth) + 0.05 * rng.normal(size=len(ring))).clip(0.0, 1.0)
    if levels:
        intensity = np.rint(intensity * levels) / levels
    unit = np.stack(
        [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)], axis=1
    )
    kept = rng.random(len(ring)) >= lost
    fields = {"ring": ring.astype(np.uint16), "column": column.astype(np.uint16), "intensity": intensity}
    return ph.PointCloud(unit[kept] * metres[kept, None], {name: value[kept] for name, value in fields.items()})


def drive(first: int, **how: float) -> list[ph.PointCloud]:
    return [frame(first + k, place=k, **how) for k in range(FRAMES)]  # type: ignore[arg-type]
