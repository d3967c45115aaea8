"""Dust: emission, flight of parcels, density grids and optical depth against closed forms and independent solutions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parhelion.core.errors import ConfigError
from parhelion.weather.grids import MOST_CELLS, DensityGrid, ellipsoid_cloud
from parhelion.weather.media.dust import (
    KG_PER_M_FROM_LB_PER_MILE,
    drag_coefficient,
    emission_factor_lb_per_mile,
    emitted_mass_kg,
)
from parhelion.weather.plume import GRAVITY_M_S2, fly

SHORT_TON_KG = 907.18474


# Emission


def test_the_reference_road_and_vehicle_give_the_scale_factor() -> None:
    assert emission_factor_lb_per_mile(12.0, 3.0 * SHORT_TON_KG, 0.2) == pytest.approx(10.0, rel=1e-12)


def test_emission_factor_by_hand() -> None:
    # 32 times less silt: 32^-0.8 = 1/16; four times the weight: 2; 32 times the moisture: 32^-0.4 = 1/4.
    assert emission_factor_lb_per_mile(12.0 / 32.0, 12.0 * SHORT_TON_KG, 6.4) == pytest.approx(10.0 / 32.0, rel=1e-12)
    # A car of 2000 kg on a dry construction site: 10 * 0.75891 * 0.85725.
    assert emission_factor_lb_per_mile(8.5, 2000.0, 0.2) == pytest.approx(6.506, abs=5e-4)
    # Weight in pounds, as VANE prints, would give a factor sqrt(2000) more.
    assert emission_factor_lb_per_mile(8.5, 2000.0 * 2000.0, 0.2) == pytest.approx(6.506 * np.sqrt(2000.0), rel=1e-4)
    assert emission_factor_lb_per_mile(0.0, 2000.0, 0.2) == 0.0


def test_a_pound_a_mile_is_a_pound_after_a_mile() -> None:
    assert pytest.approx(2.82e-4, rel=6e-4) == KG_PER_M_FROM_LB_PER_MILE  # VANE's rounded figure
    assert emitted_mass_kg(1.0, 10.0, 160.9344) == pytest.approx(0.45359237, rel=1e-12)
    np.testing.assert_allclose(emitted_mass_kg(2.0, np.array([0.0, 5.0]), 1.0), [0.0, 10 * 2.81849e-4], rtol=1e-5)


# Drag


def test_drag_grows_to_99_percent() -> None:
    np.testing.assert_allclose(drag_coefficient(np.array([0.0, 10.0])), [0.0, 1.0 - np.exp(-4.6)])
    assert drag_coefficient(10.0) == pytest.approx(0.99, abs=1e-4)
    assert drag_coefficient(2.0, lifetime_s=4.0, drag_per_m=3.0) == pytest.approx(3.0 * (1.0 - np.exp(-2.3)))


def test_kernels_get_the_same_drag() -> None:
    from parhelion.rays.device import engine

    x = np.array([0.0, 1e-4, 3e-4, 2e-3, 5.0], np.float32)
    in_kernel = np.array(drag_coefficient(engine().mi.Float(x)))
    np.testing.assert_allclose(in_kernel, drag_coefficient(x.astype(np.float64)), rtol=1e-5, atol=1e-6)


# Flight


def test_free_fall_without_drag_is_a_parabola() -> None:
    age = np.array([0.0, 0.013, 0.3, 1.0, 4.99])
    start, velocity = np.tile([1.0, 2.0, 500.0], (5, 1)), np.tile([3.0, -4.0, 5.0], (5, 1))
    xyz, v, settled = fly(start, velocity, age, drag_per_m=0.0)
    expected = start + velocity * age[:, None]
    expected[:, 2] -= 0.5 * GRAVITY_M_S2 * age**2
    np.testing.assert_allclose(xyz, expected, rtol=1e-12)
    np.testing.assert_allclose(v[:, 2], 5.0 - GRAVITY_M_S2 * age, atol=1e-11)
    assert not settled.any()


def test_drag_alone_slows_as_the_closed_form() -> None:
    age = np.linspace(0.0, 10.0, 57)
    velocity = np.tile([6.0, 0.0, 8.0], (len(age), 1))
    _, v, _ = fly(np.zeros((len(age), 3)), velocity, age, gravity_m_s2=0.0)
    # 1/v grows by the integral of the drag.
    integral = age - 10.0 / 4.6 * (1.0 - np.exp(-4.6 * age / 10.0))
    speed = 1.0 / (1.0 / 10.0 + integral)
    np.testing.assert_allclose(v, speed[:, None] * np.array([0.6, 0.0, 0.8]), rtol=2e-3, atol=1e-12)


@pytest.mark.parametrize("drag", [0.1, 1.0, 4.0, 1900.0])
@pytest.mark.parametrize("first", [-20.0, 0.0, 10.0])
def test_terminal_speed(drag: float, first: float) -> None:
    wind = (2.0, -1.0, 0.0)
    _, v, _ = fly([(0, 0, 1e4)], [(30.0, 0.0, first)], [100.0], drag_per_m=drag, wind_m_s=wind)
    np.testing.assert_allclose(v[0], [2.0, -1.0, -np.sqrt(GRAVITY_M_S2 / drag)], rtol=1e-6, atol=1e-6)


def test_flight_against_an_independent_solver() -> None:
    from scipy.integrate import solve_ivp

    wind = np.array([2.0, -3.0, 0.5])
    velocity = np.array([[5.0, 0.0, 7.5], [9.0, -2.0, 11.0], [2.0, 3.0, 3.5]])

    def slope(t: float, state: np.ndarray) -> np.ndarray:
        w = state[3:] - wind
        pull = np.array([0.0, 0.0, -9.81])
        return np.concatenate([state[3:], pull - (1.0 - np.exp(-0.46 * t)) * np.linalg.norm(w) * w])

    for age in (0.37, 1.4, 6.0):
        xyz, v, _ = fly(np.tile([0.0, 0.0, 100.0], (3, 1)), velocity, np.full(3, age), wind_m_s=wind)
        fine, _, _ = fly(np.tile([0.0, 0.0, 100.0], (3, 1)), velocity, np.full(3, age), wind_m_s=wind, step_s=0.01)
        for parcel in range(3):
            start = np.array([0.0, 0.0, 100.0, *velocity[parcel]])
            exact = solve_ivp(slope, (0.0, age), start, rtol=1e-10, atol=1e-10).y[:, -1]
            np.testing.assert_allclose(xyz[parcel], exact[:3], atol=0.03)
            np.testing.assert_allclose(v[parcel], exact[3:], atol=0.03)
            np.testing.assert_allclose(fine[parcel], exact[:3], atol=5e-4)  # second order: a hundredth


def test_parcels_stop_on_the_ground() -> None:
    ages = np.array([0.5, 1.9, 2.1, 9.0])
    flight = {"drag_per_m": 0.0, "ground_z_m": 2.0}
    xyz, v, settled = fly(np.tile([0.0, 0.0, 2.0], (4, 1)), np.tile([3.0, 0.0, GRAVITY_M_S2], (4, 1)), ages, **flight)
    np.testing.assert_array_equal(settled, [False, False, True, True])
    # Up and down again in 2 s, 6 m on; within a step it falls along a chord.
    np.testing.assert_allclose(xyz[2:], [[6.0, 0.0, 2.0]] * 2, atol=0.01)
    assert np.all(v[2:] == 0.0)
    assert np.all(xyz[:2, 2] > 2.0)


def test_nothing_flies_without_parcels() -> None:
    xyz, v, settled = fly(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0))
    assert xyz.shape == v.shape == (0, 3)
    assert settled.shape == (0,)


# Grid


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 300), st.floats(0.01, 1000.0), st.floats(0.05, 3.0))
def test_the_grid_conserves_mass_and_centre(seed: int, count: int, spread: float, cell: float) -> None:
    rng = np.random.default_rng(seed)
    xyz, mass = rng.normal(0.0, spread, (count, 3)), rng.uniform(0.0, 1.0, count)
    grid = DensityGrid.from_parcels(xyz, mass, cell_m=cell)
    assert grid.mass_kg == pytest.approx(mass.sum(), rel=1e-9)
    nodes = np.moveaxis(np.indices(grid.shape), 0, -1) * grid.cell_m + grid.origin_m
    centre = (grid.density_kg_m3[..., None] * nodes).sum(axis=(0, 1, 2)) * grid.cell_m**3 / mass.sum()
    np.testing.assert_allclose(centre, (mass[:, None] * xyz).sum(axis=0) / mass.sum(), atol=1e-9 * (spread + cell))
    assert np.prod(grid.shape) <= MOST_CELLS
    assert np.log2(grid.cell_m / cell) == pytest.approx(round(np.log2(grid.cell_m / cell)), abs=1e-9)


def test_cells_are_ten_parcel_radii_and_widen_when_there_are_too_many() -> None:
    near = DensityGrid.from_parcels([[0, 0, 0], [1, 1, 1]], [1, 1])
    assert near.cell_m == pytest.approx(0.5)
    wide = DensityGrid.from_parcels([[0, 0, 0], [80, 80, 10]], [1, 1])
    assert wide.cell_m == pytest.approx(1.0)
    assert wide.shape == (84, 84, 14)  # both nodes around the last parcel, and an empty one on every side
    assert np.all(wide.density_kg_m3[[0, -1]] == 0.0)
    assert DensityGrid.from_parcels([[-3, -3, -3], [1e6, 1e6, 1e6]], [1, 1]).mass_kg == pytest.approx(2.0)


def test_the_interpolated_field_integrates_to_the_mass() -> None:
    rng = np.random.default_rng(3)
    grid = DensityGrid.from_parcels(rng.uniform(0, 1, (20, 3)), rng.uniform(0, 1, 20), cell_m=0.5)
    part = grid.cell_m / 4
    axes = [np.arange(-4, 4 * n + 4) * part + part / 2 + o for n, o in zip(grid.shape, grid.origin_m, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    assert grid.density_at(points).sum() * part**3 == pytest.approx(grid.mass_kg, rel=1e-9)


def test_density_between_nodes_and_outside() -> None:
    density = np.arange(27.0).reshape(3, 3, 3)
    grid = DensityGrid((10.0, 20.0, 30.0), 2.0, density)
    at = grid.density_at([[12, 22, 32], [13, 22, 32], [13, 23, 33], [14, 24, 34], [15, 24, 34]])
    np.testing.assert_allclose(at, [13.0, 17.5, 19.5, 26.0, 13.0])
    far = [[16, 24, 34], [8, 20, 30], [-1e300, 0, 0], [12, 22, 1e18]]
    np.testing.assert_array_equal(grid.density_at(far), 0.0)
    np.testing.assert_allclose(grid.extinction(650.0), 650.0 * density)


def test_optical_depth_of_a_uniform_cloud() -> None:
    grid = DensityGrid((0.0, 0.0, 0.0), 0.5, np.full((21, 21, 21), 2e-4))
    way = np.array([1.0, 2.0, -0.5]) / np.linalg.norm([1.0, 2.0, -0.5])
    inside = grid.optical_depth([[2.0, 2.0, 5.0], [5.0, 5.0, 5.0]], way, [3.3, 0.0])
    np.testing.assert_allclose(inside, [2600.0 * 2e-4 * 3.3, 0.0], rtol=1e-12)
    # Through all of it along a line of nodes: as if every node filled its cell.
    through = grid.optical_depth((-50.0, 5.0, 5.0), (1.0, 0.0, 0.0), np.inf, 650.0)
    np.testing.assert_allclose(through, 650.0 * 2e-4 * 21 * 0.5, rtol=1e-12)
    ends_within = grid.optical_depth((-50.0, 5.0, 5.0), (1.0, 0.0, 0.0), 54.0)
    # The rim rises linearly over a cell, as much as half a cell of full density.
    np.testing.assert_allclose(ends_within, 2600.0 * 2e-4 * (4.0 + 0.25), rtol=1e-3)


def test_rays_that_miss_meet_nothing() -> None:
    grid = ellipsoid_cloud((0, 0, 0), (2, 2, 2), 1e-3)
    origins = [[-10, 0, 0], [-10, 5, 0], [0, 0, 10], [10, 0, 0], [0, 0, 0], [-10, 0, 0]]
    ways = [[-1, 0, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
    lengths = [100.0, 100.0, np.inf, np.inf, 0.0, 7.0]
    np.testing.assert_array_equal(grid.optical_depth(origins, ways, lengths), 0.0)


def test_two_grids_add() -> None:
    rng = np.random.default_rng(8)
    xyz, mass = rng.uniform(0.1, 3.9, (200, 3)), rng.uniform(0, 1e-3, 200)
    corners = np.array([[0.0, 0.0, 0.0], [4.0, 4.0, 4.0]])
    parts = [
        DensityGrid.from_parcels(np.vstack([corners, xyz[s]]), [0, 0, *mass[s]]) for s in (slice(80), slice(80, 200))
    ]
    both = DensityGrid.from_parcels(np.vstack([corners, xyz]), [0, 0, *mass])
    ray = ((-5.0, 1.7, 2.2), (1.0, 0.0, 0.0), 20.0)
    np.testing.assert_allclose(sum(part.optical_depth(*ray) for part in parts), both.optical_depth(*ray), rtol=1e-12)


# Placed clouds


@pytest.mark.parametrize(
    ("half", "tolerance"),
    # The last has too many cells of a sixth of its thickness, and a third blurs it more.
    [((3.0, 3.0, 3.0), 0.02), ((12.0, 4.0, 2.0), 0.02), ((0.5, 8.0, 3.0), 0.05)],
)
def test_ellipsoid_has_its_mass_and_chords(half: tuple[float, float, float], tolerance: float) -> None:
    centre, density = np.array([100.0, -20.0, 3.0]), 5e-4
    grid = ellipsoid_cloud(centre, half, density)
    assert grid.mass_kg == pytest.approx(density * np.prod(half) * 32 * np.pi / 105, rel=1e-12)
    for axis in range(3):
        way = np.eye(3)[axis]
        for aside in (0.0, 0.3, 0.6):
            start = centre - 50.0 * way
            start[(axis + 1) % 3] += aside * half[(axis + 1) % 3]
            # Of a ray at relative distance b from the middle: 16/15 a (1 - b^2)^(5/2).
            expected = density * half[axis] * 16 / 15 * (1 - aside**2) ** 2.5
            path = grid.density_path(start, way, 200.0)[0]
            assert path == pytest.approx(expected, abs=tolerance * density * half[axis])


def test_ellipsoid_fades_without_an_edge() -> None:
    grid = ellipsoid_cloud((0, 0, 0), (4, 4, 4), 1.0)
    s = np.linspace(0.0, 1.2, 200)
    density = grid.density_at(np.column_stack([4 * s, 0 * s, 0 * s]))
    np.testing.assert_allclose(density, np.where(s < 1, (1 - s**2) ** 2, 0.0), atol=0.03)
    assert np.all(np.diff(density) <= 1e-12)


def test_a_flat_cloud_stays_within_the_limit() -> None:
    grid = ellipsoid_cloud((0, 0, 0), (500.0, 300.0, 0.5), 1e-3)
    assert np.prod(grid.shape) <= MOST_CELLS
    assert grid.mass_kg == pytest.approx(1e-3 * 500 * 300 * 0.5 * 32 * np.pi / 105, rel=1e-12)


# Bad input


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: emission_factor_lb_per_mile(-1, 2000, 0.2), r"silt_percent: .* at least 0 and at most 100, got -1"),
        (lambda: emission_factor_lb_per_mile(12, 0, 0.2), r"weight_kg: .* above 0, got 0"),
        (lambda: emission_factor_lb_per_mile(12, 2000, 0), r"moisture_percent: .* above 0 and at most 100, got 0"),
        (lambda: emission_factor_lb_per_mile(12, "2000", 0.2), r"weight_kg: .*got '2000'"),
        (lambda: emitted_mass_kg(1.0, np.array([1.0, -2.0]), 1.0), r"speed_m_s: .*got -2"),
        (lambda: drag_coefficient(-1.0), r"age_s: .*got -1"),
        (lambda: DensityGrid((0, 0), 1.0, np.zeros((1, 1, 1))), r"origin_m: must be 3 finite numbers"),
        (lambda: DensityGrid((0, 0, 0), 0.0, np.zeros((1, 1, 1))), r"cell_m: .*above 0"),
        (lambda: DensityGrid((0, 0, 0), 1.0, np.zeros((1, 1))), r"density_kg_m3: .*got \(1, 1\)"),
        (lambda: DensityGrid((0, 0, 0), 1.0, np.full((1, 1, 1), np.nan)), r"density_kg_m3: must be finite"),
        (lambda: DensityGrid.from_parcels([[0, 0, np.inf]], [1]), r"xyz: must be finite"),
        (lambda: DensityGrid.from_parcels([[0, 0, 0]], [-1]), r"mass_kg: .*none negative"),
        (lambda: ellipsoid_cloud((0, 0, 0), (1, 0, 1), 1e-3), r"half_size_m: .*each above 0, got \(1, 0, 1\)"),
        (lambda: ellipsoid_cloud((0, 0, 0), (1, 1, 1), -1), r"density_kg_m3: .*at least 0"),
        (lambda: ellipsoid_cloud((0, 0, 0), (1, 1, 1), 1).density_path((0, 0, 0), (1, 1, 0), 1), r"unit vectors"),
        (lambda: ellipsoid_cloud((0, 0, 0), (1, 1, 1), 1).density_path((0, 0, 0), (1, 0, 0), -1), r"length_m: "),
        (lambda: ellipsoid_cloud((0, 0, 0), (1, 1, 1), 1).density_at([1, 2]), r"xyz: .*\(\.\.\., 3\)"),
        (lambda: fly([[0, 0, 0]], [[0, 0, 0]], [-1.0]), r"ages not negative"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()
