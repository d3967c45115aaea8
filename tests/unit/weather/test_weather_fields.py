"""Heterogeneous density as a field, and a weather as numbers at one time and wavelength."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import parhelion as ph
from parhelion.core.random import Stream, to_normal
from parhelion.weather.air import air_contents
from parhelion.weather.fields import CELLS, EDDIES, DensityField, _gradient_noise, density_field, factor
from parhelion.weather.grids import ellipsoid_cloud
from parhelion.weather.media.fog import fog_extinction
from parhelion.weather.media.rain import rain_extinction
from parhelion.weather.media.snow import snow_extinction

NM = 905.0


def field(
    scale_m: float = 40.0, *, seed: int = 0, name: str = "fog", flat: bool = False, **values: float
) -> DensityField:
    return density_field(ph.Heterogeneity(scale_m=scale_m, **values), seed=seed, name=name, flat=flat)


def places(count: int = 20_000, reach: float = 500.0, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-reach, reach, (count, 3))


# ---- the field -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contrast", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("octaves", [1, 4, 6])
def test_mean_is_one_and_deviation_is_the_contrast(contrast: float, octaves: int) -> None:
    density = field(contrast=contrast, octaves=octaves).table[..., 0].astype(float)
    assert density.mean() == pytest.approx(1.0, abs=1e-6)
    assert density.min() > 0.0
    # Log-normal with this deviation; the noise itself is only nearly normal, which its tail shows at high contrast.
    assert density.std() == pytest.approx(contrast, rel=0.02 + 0.1 * contrast)
    assert np.log(density).std() == pytest.approx(np.sqrt(np.log1p(contrast**2)), rel=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_cells_of_rain_have_mean_one_over_the_ground(seed: int) -> None:
    one = field(300.0, seed=seed, name="rain", flat=True, contrast=0.6)
    x, y = np.meshgrid(np.arange(CELLS) * one.cell_m, np.arange(CELLS) * one.cell_m)
    level = one.at(np.column_stack([x.ravel(), y.ravel(), np.full(x.size, 7.0)]))
    assert level.mean() == pytest.approx(1.0, abs=1e-6)
    assert np.log(level).std() == pytest.approx(np.sqrt(np.log1p(0.6**2)), rel=1e-5)


def test_neighbours_in_a_row_of_the_table_are_the_neighbours() -> None:
    density = field().table
    assert density.shape == (CELLS, CELLS, CELLS, 4)
    assert np.array_equal(density[..., 1], np.roll(density[..., 0], -1, axis=0))
    assert np.array_equal(density[..., 2], np.roll(density[..., 0], -1, axis=1))
    assert np.array_equal(density[..., 3], np.roll(density[..., 1], -1, axis=1))
    with pytest.raises(ValueError, match="read-only"):
        density[0, 0, 0, 0] = 2.0


def test_at_lattice_points_and_half_way_between() -> None:
    one = field(scale_m=16.0)
    assert one.cell_m == 16.0 * EDDIES / CELLS == 1.0
    corner = one.table[..., 0].astype(float)
    assert one.at(np.array([[3.0, 5.0, 7.0]]))[0] == pytest.approx(corner[3, 5, 7], rel=1e-6)
    assert one.at(np.array([[3.5, 5.0, 7.0]]))[0] == pytest.approx(corner[3:5, 5, 7].mean(), rel=1e-6)
    middle = one.at(np.array([[3.5, 5.5, 7.5]]))[0]
    assert middle == pytest.approx(corner[3:5, 5:7, 7:9].mean(), rel=1e-6)
    # Across the border of the table the last point's neighbour is the first.
    assert one.at(np.array([[-0.5, 0.0, 0.0]]))[0] == pytest.approx(corner[[-1, 0], 0, 0].mean(), rel=1e-6)


def test_it_repeats_after_four_of_the_largest_eddies_and_far_from_zero() -> None:
    one, at = field(scale_m=40.0), places(2000)
    period = 40.0 * EDDIES
    for shift in ([period, 0, 0], [0, -3 * period, 0], [0, 0, 2 * period], [6250 * period, -12500 * period, 0]):
        assert one.at(at + np.array(shift)) == pytest.approx(one.at(at), abs=1e-6)
    assert not np.allclose(one.at(at + np.array([period / 2, 0, 0])), one.at(at), atol=0.1)


def test_drift_carries_the_field_along() -> None:
    one, at, drift = field(), places(2000), np.array([12.3, -4.5, 0.6])
    assert one.at(at + drift, drift) == pytest.approx(one.at(at), abs=1e-9)
    assert np.abs(one.at(at, drift) - one.at(at)).mean() > 0.05


def test_cells_of_rain_are_the_same_at_every_height() -> None:
    flat, at = field(300.0, name="rain", flat=True), places(2000)
    assert np.array_equal(flat.at(at), flat.at(at * [1, 1, 0]))
    assert not np.allclose(flat.at(at), flat.at(at + np.array([100.0, 0, 0])), atol=0.1)
    assert not np.allclose(field(300.0).at(at), field(300.0).at(at * [1, 1, 0]), atol=0.1)


@pytest.mark.parametrize("change", [{"seed": 1}, {"name": "rain"}])
def test_other_seeds_and_kinds_have_eddies_elsewhere(change: dict[str, object]) -> None:
    a, b = field(octaves=3).table[..., 0].ravel(), field(octaves=3, **change).table[..., 0].ravel()
    # About EDDIES^3 = 64 independent eddies: 4 / sqrt(64) is beyond 99.9 %.
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.5
    assert not np.array_equal(a, b)
    assert field(octaves=3).table is field(octaves=3).table


@pytest.mark.slow
def test_eddies_have_the_stated_size_and_no_direction() -> None:
    at = places(40_000)

    def alike(one: DensityField, step_m: float, axis: int) -> float:
        step = np.zeros(3)
        step[axis] = step_m
        return float(np.corrcoef(one.at(at), one.at(at + step))[0, 1])

    for scale in (10.0, 40.0):
        one = field(scale)
        for axis in range(3):
            assert alike(one, 0.1 * scale, axis) > 0.75
            assert abs(alike(one, 1.2 * scale, axis)) < 0.3
    # Finer octaves make it rougher: alike over a shorter way.
    assert alike(field(octaves=1), 4.0, 0) > alike(field(octaves=4), 4.0, 0) + 0.02
    assert alike(field(roughness=0.2), 4.0, 0) > alike(field(roughness=0.9), 4.0, 0) + 0.05


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    st.tuples(*[st.floats(-1e7, 1e7)] * 3),
    st.floats(0.1, 1e4),
    st.integers(0, 3),
    st.tuples(*[st.floats(-1e5, 1e5)] * 3),
)
def test_every_place_lies_between_the_least_and_the_largest_factor(
    place: tuple[float, float, float], scale: float, seed: int, drift: tuple[float, float, float]
) -> None:
    one = field(scale, seed=seed)
    value = one.at(np.array([place]), np.array(drift))[0]
    assert one.table.min() * (1 - 1e-6) <= value <= one.table.max() * (1 + 1e-6)


def test_kernels_read_the_same_numbers() -> None:
    from parhelion.rays.device import engine

    machine, one = engine(), field()
    at = places(5000, 100.0) / one.cell_m
    x, y, z = (machine.mi.Float(column.astype(np.float32)) for column in at.T)
    in_kernel = factor(machine.table(one.table), x, y, z).numpy()
    # 24 bits over a table of 64 cells leave 4e-6 of a cell; neighbours differ by less than 1.
    assert in_kernel == pytest.approx(one.at(at * one.cell_m), abs=3e-5)


# ---- the medium ----------------------------------------------------------------------------------------------------


def test_extinctions_add() -> None:
    weather = ph.Weather(rain_rate_mm_h=25, visibility_m=800, snow_rate_mm_h=2)
    air, at = air_contents(weather, 0.0, NM), places(10)
    expected = rain_extinction(25) + fog_extinction(800.0) + snow_extinction(2)
    assert air.extinction(at) == pytest.approx(np.full(10, expected), rel=1e-12)
    assert [part.name for part in air.components] == ["rain", "fog", "snow"]
    assert air.is_uniform
    assert not air.is_clear
    assert [part.amount for part in air.components] == [25.0, 800.0, 2.0]


@pytest.mark.parametrize("wavelength", [850.0, 905.0, 1550.0])
def test_wavelength_enters(wavelength: float) -> None:
    air = air_contents(ph.Weather(visibility_m=2000), 0.0, wavelength)
    assert air.extinction(np.zeros((1, 3)))[0] == pytest.approx(fog_extinction(2000.0, "kim", wavelength), rel=1e-12)


def test_backscatter_of_fog_is_its_factor_over_the_optical_range() -> None:
    air = air_contents(ph.Weather(fog=ph.Fog(visibility_m=200, backscatter=0.07)), 0.0, NM)
    optical_range = np.log(20.0) / fog_extinction(200.0)
    assert air.backscatter_per_m_sr == pytest.approx(0.07 / optical_range, rel=1e-12)
    assert air_contents(ph.Weather(rain_rate_mm_h=5), 0.0, NM).backscatter_per_m_sr == 0.0


@pytest.mark.parametrize(
    "weather",
    [
        ph.Weather(),
        ph.Weather(rain_rate_mm_h=0, snow_rate_mm_h=0),
        ph.Weather(wind_m_s=(10, 0, 0), seed=5),
        ph.Weather(dust=[ph.DustCloud(centre_m=(5, 0, 0), half_size_m=(2, 2, 2), density_kg_m3=0)]),
    ],
)
def test_clear_air(weather: ph.Weather) -> None:
    air = air_contents(weather, 3.0, NM)
    assert air.is_clear
    assert air.is_uniform
    assert np.all(air.extinction(places(10)) == 0.0)


def test_schedules_are_taken_at_the_time() -> None:
    weather = ph.Weather(rain_rate_mm_h=[[0, 0], [10, 20]], visibility_m=[[0, 1000], [10, 500]])
    assert [part.name for part in air_contents(weather, 0.0, NM).components] == ["fog"]
    air = air_contents(weather, 5.0, NM)
    assert air.components[0].amount == 10.0
    expected = rain_extinction(10.0) + fog_extinction(750.0)
    assert air.extinction(np.zeros((1, 3)))[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_heterogeneous_parts_have_fields_that_drift_with_the_wind() -> None:
    weather = ph.Weather(
        rain=ph.Rain(rate_mm_h=10, heterogeneity=ph.Heterogeneity(contrast=0.8)),
        fog=ph.Fog(visibility_m=500, heterogeneity=ph.Heterogeneity()),
        wind_m_s=(3, -2, 0), seed=4,
    )  # fmt: skip
    now, later, at = air_contents(weather, 0.0, NM), air_contents(weather, 7.0, NM), places(500)
    assert not now.is_uniform
    assert later.drift_m == pytest.approx([21, -14, 0])
    assert later.extinction(at + later.drift_m) == pytest.approx(now.extinction(at), rel=1e-9)
    rain, fog = now.components
    assert rain.field is not None
    assert fog.field is not None
    assert rain.field.flat
    assert not fog.field.flat
    assert rain.field.cell_m == 300.0 * EDDIES / CELLS
    by_hand = rain_extinction(10.0) * rain.field.at(at) + fog_extinction(500.0) * fog.field.at(at)
    assert now.extinction(at) == pytest.approx(by_hand, rel=1e-12)
    # The mean over space is that of even weather.
    everywhere = now.extinction(places(200_000, 1e4))
    assert everywhere.mean() == pytest.approx(rain_extinction(10.0) + fog_extinction(500.0), rel=0.01)


def test_no_contrast_is_even_weather() -> None:
    weather = ph.Weather(fog=ph.Fog(visibility_m=500, heterogeneity=ph.Heterogeneity(contrast=0.0)))
    assert air_contents(weather, 0.0, NM).is_uniform


def test_dust_stands_or_drifts() -> None:
    still = ph.DustCloud(centre_m=(20, 0, 0), half_size_m=(4, 4, 2), density_kg_m3=1e-4, mass_extinction_m2_kg=650)
    weather = ph.Weather(dust=[still], wind_m_s=(2, 0, 0))
    at = np.random.default_rng(2).uniform([14, -5, -3], [26, 5, 3], (500, 3))
    expected = 650.0 * ellipsoid_cloud((20, 0, 0), (4, 4, 2), 1e-4).density_at(at)
    assert expected.max() > 0.04
    for time in (0.0, 5.0):
        assert air_contents(weather, time, NM).extinction(at) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    moving = weather.replace(dust=[still.model_copy(update={"drifts": True})])
    assert air_contents(moving, 5.0, NM).extinction(at + np.array([10.0, 0, 0])) == pytest.approx(
        expected, rel=1e-6, abs=1e-9
    )
    assert not air_contents(weather, 0.0, NM).is_uniform


def test_dust_of_a_trail_begins_with_it_and_ends_after_its_life() -> None:
    trail = ph.DustTrail(path=[[1, 0, 0, 0], [5, 40, 0, 0]])
    weather = ph.Weather(dust=[trail])
    assert air_contents(weather, 1.0, NM).is_clear
    raised = air_contents(weather, 4.0, NM)
    (raised_grid,) = raised.grids
    grid, per_mass = raised_grid.grid, raised_grid.per_mass
    assert per_mass == 2600.0
    assert grid.mass_kg > 0.0
    assert air_contents(weather, 5.0 + 10.0 + 0.1, NM).is_clear


def test_gradient_noise_is_perlins() -> None:
    """Perlin 2002 by hand at some points: dot products of corner gradients, faded by 6 t^5 - 15 t^4 + 10 t^3."""
    stream, eddies = Stream(3, "noise"), 8
    x, y = to_normal(*stream.words(np.arange(eddies**3))[:2])
    z, _ = to_normal(*stream.words(np.arange(eddies**3))[2:])
    gradient = np.stack([x, y, z], axis=-1).astype(float)
    gradient = (gradient / np.linalg.norm(gradient, axis=1)[:, None]).reshape(eddies, eddies, eddies, 3)
    found = _gradient_noise(eddies, stream)
    for point in ((0, 0, 0), (5, 17, 40), (63, 62, 3), (31, 8, 63)):
        place = (np.array(point) + 0.5) * eddies / 64
        cell, t = np.floor(place).astype(int), place % 1.0
        fade = 6 * t**5 - 15 * t**4 + 10 * t**3
        total = 0.0
        for corner in np.ndindex(2, 2, 2):
            weight = np.prod(np.where(np.array(corner) == 1, fade, 1 - fade))
            total += weight * float(gradient[tuple((cell + corner) % eddies)] @ (t - corner))
        assert found[point] == pytest.approx(total, rel=1e-5, abs=1e-7)
