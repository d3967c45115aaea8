"""Range, elevation and azimuth errors of rows, from rooms in closed form: intervals have their stated coverage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from parhelion.calibrate.drive.channels import ChannelErrors, _levers, channel_errors
from parhelion.calibrate.range_images import RangeImage

Floats = NDArray[np.float64]
ROWS, COLUMNS, SIGMA_M = 24, 512, 0.006
ELEVATION = np.linspace(25.0, -25.0, ROWS)
ERRORS = {"range": 0.012, "elevation": 0.05, "azimuth": 0.05}
"""Standard deviations of random rows: metres and degrees."""


def beams(elevation_deg: Floats, azimuth_deg: Floats) -> Floats:
    """Directions of a frame with azimuth errors `azimuth_deg` of rows, shape (rows, columns, 3)."""
    azimuth = np.radians(azimuth_deg)[:, None] - 2.0 * np.pi * np.arange(COLUMNS) / COLUMNS
    elevation = np.broadcast_to(np.radians(elevation_deg)[:, None], azimuth.shape)
    level = np.cos(elevation)
    return np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)], axis=-1)


def to_room(direction: Floats, place: Floats, yaw: Floats, size: Floats) -> Floats:
    """Ranges from within a box rotated by `yaw` about the sensor's axis: the nearest of its six sides."""
    cos, sin = np.cos(yaw), np.sin(yaw)
    x, y, z = np.moveaxis(direction, -1, 0)
    u = np.stack([cos * x - sin * y, sin * x + cos * y, z], axis=-1)
    with np.errstate(divide="ignore"):
        return np.where(u > 0, (size - place) / u, -place / u).min(axis=-1)


def recorded(
    random: np.random.Generator,
    off: dict[str, Floats],
    frames: int = 3,
    *,
    stagger_deg: float = 0.0,
    moves: bool = False,
) -> list[RangeImage]:
    """Frames in rooms by a sensor with these errors of rows, which reports its nominal angles.

    Rows may point to either side alternately, and the sensor may move at 10 m/s and rotate by 20 degrees per second.
    """
    aside = stagger_deg * np.where(np.arange(ROWS) % 2, 1.0, -1.0)
    nominal = beams(ELEVATION, aside)
    true = beams(ELEVATION + off["elevation"], aside + off["azimuth"])
    time = 0.1 * np.arange(COLUMNS) / COLUMNS * moves
    made = []
    for _ in range(frames):
        size = random.uniform([10.0, 8.0, 3.5], [20.0, 14.0, 5.0])
        yaw, place = random.uniform(0.0, 2.0 * np.pi), size * random.uniform(0.3, 0.7, 3)
        way = np.array([np.cos(yaw), np.sin(yaw), 0.0])
        moved = place + 10.0 * time[:, None] * way
        metres = to_room(true, moved, yaw + np.radians(20.0) * time, size) + off["range"][:, None]
        nothing = np.full(metres.shape, np.nan)
        no = np.zeros(metres.shape, bool)
        metres = metres + random.normal(0.0, SIGMA_M, metres.shape)
        frame = RangeImage(
            "room", metres, nothing, nothing, nothing, no, no, ELEVATION, 0.0, nominal, np.zeros_like(nominal)
        )
        made.append(frame)
    return made


def drawn(random: np.random.Generator, **deviation: float) -> dict[str, Floats]:
    return {name: random.normal(0.0, deviation.get(name, 0.0), ROWS) for name in ERRORS}


def found_and_error(found: ChannelErrors, name: str) -> tuple[Floats, Floats]:
    part: Any = getattr(found, name)
    return part.off, part.error


def test_intervals_of_all_three_kinds_have_their_stated_coverage() -> None:
    """Eight sensors with range, elevation and azimuth errors at once. Rows share planes: four count as one."""
    held: dict[str, list[bool]] = {name: [] for name in ERRORS}
    for seed in range(8):
        random = np.random.default_rng(seed)
        off = drawn(random, **ERRORS)
        found = channel_errors(recorded(random, off), SIGMA_M)
        for name, truth in off.items():
            value, error = found_and_error(found, name)
            held[name] += (np.abs(value - (truth - truth.mean())) < 1.96 * error).tolist()
            # The errors must be small enough to be useful.
            part: Any = getattr(found, name)
            steps = part.step_error[part.steps_resolved]
            assert len(steps) >= 4
            assert np.median(steps) < 0.5 * ERRORS[name]
        assert min(found.range.significance, found.elevation.significance, found.azimuth.significance) > 2.0
    for name, inside in held.items():
        count = len(inside) // 4
        assert sum(inside) / 4 >= binom.ppf(1e-3, count, 0.95), f"{name}: {sum(inside)} of {len(inside)}"


def test_a_sensor_without_errors_shows_none() -> None:
    for seed in range(6):
        random = np.random.default_rng(100 + seed)
        found = channel_errors(recorded(random, drawn(random)), SIGMA_M)
        assert found.azimuth.known
        assert not any(getattr(found, name).significant for name in ERRORS)


@pytest.mark.parametrize("kind", list(ERRORS))
def test_errors_of_one_kind_do_not_leak_into_the_others(kind: str) -> None:
    random = np.random.default_rng(7)
    found = channel_errors(recorded(random, drawn(random, **{kind: 2.0 * ERRORS[kind]})), SIGMA_M)
    for name in ERRORS:
        assert getattr(found, name).significant == (name == kind), name


def test_oblique_rows_of_a_moving_sensor_are_resolved() -> None:
    """Rows pointing alternately 3 degrees left and right see a wall at other times: motion is not an error of rows."""
    for seed in range(4):
        random = np.random.default_rng(20 + seed)
        straight = channel_errors(recorded(random, drawn(random), stagger_deg=3.0, moves=True), SIGMA_M)
        assert straight.range.known
        assert not any(getattr(straight, name).significant for name in ERRORS)
    held = []
    for seed in range(4):
        random = np.random.default_rng(10 + seed)
        off = drawn(random, **ERRORS)
        found = channel_errors(recorded(random, off, stagger_deg=3.0, moves=True), SIGMA_M)
        assert found.range.significance > 2.0
        for name, truth in off.items():
            value, error = found_and_error(found, name)
            held += (np.abs(value - (truth - truth.mean())) < 1.96 * error).tolist()
    assert sum(held) / 4 >= binom.ppf(1e-3, len(held) // 4, 0.95), f"{sum(held)} of {len(held)}"


def test_rows_without_planes_are_unchanged() -> None:
    random = np.random.default_rng(3)
    frames = recorded(random, drawn(random, **ERRORS))
    for frame in frames:
        frame.range[:8] = np.nan
    found = channel_errors(frames, SIGMA_M).azimuth
    assert not found.resolved[:8].any()
    assert found.resolved[8:].sum() >= 8
    np.testing.assert_array_equal(found.correction[~found.resolved], 0.0)
    assert abs(found.correction.sum()) < 1e-9  # the yaw of the sensor is not observable


def test_levers_are_derivatives_of_ranges_to_a_plane() -> None:
    """Against finite differences, on an inclined plane."""
    plane = np.array([0.11, -0.07, 0.05])
    step = 1e-6
    azimuth, elevation = np.radians([20.0, -35.0]), np.radians([10.0, -5.0])

    def metres(a: Floats, e: Floats) -> Floats:
        u = np.stack([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)], axis=-1)
        return 1.0 / (u @ plane)

    u = np.stack([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)], axis=-1)
    levers = _levers(plane[None], u[None], np.zeros((1, 2, 3)))[0]
    by_elevation = (metres(azimuth, elevation + step) - metres(azimuth, elevation - step)) / (2.0 * step)
    by_azimuth = (metres(azimuth + step, elevation) - metres(azimuth - step, elevation)) / (2.0 * step)
    np.testing.assert_allclose(levers, np.stack([np.ones(2), by_elevation, by_azimuth], axis=-1), rtol=1e-6)
