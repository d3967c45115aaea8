"""Spray: film, water in the air, sizes of drops, plume behind a vehicle, and its effects on sensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import parhelion as ph
from parhelion.core.pose import Floats
from parhelion.core.water import water_permittivity
from parhelion.weather.air import air_contents
from parhelion.weather.grids import DensityGrid
from parhelion.weather.media import spray
from parhelion.weather.media.rain import drop_backscatter
from parhelion.weather.media.spray import SPRAY
from parhelion.weather.spray_plume import CLASSES, LIFETIME_S, LUMPS_PER_S, SprayPlume
from rigs import one_beam, wall
from weather_rigs import STRONG, depth

# ---- formulas ------------------------------------------------------------------------------------------------------


def test_film_by_hand() -> None:
    """0.01485 0.5^0.11 7.3^0.43 25^0.59 / 0.02^0.42 = 1.117 mm, less the texture of 0.5 mm."""
    assert spray.film_depth_mm(25.0) == pytest.approx(0.617, abs=1e-3)
    assert spray.film_depth_mm(0.0) == 0.0
    assert np.all(spray.film_depth_mm([1.0, 5.0]) == 0.0), "light rain stays within the texture"
    low, high = spray.film_depth_mm([10.0, 50.0])
    assert 0.1 < low < 0.2 < 1.0 < high < 1.3, "about 0.2 to 1 mm at 10 to 50 mm/h"
    steep = spray.film_depth_mm(25.0, slope=0.04)
    assert (steep + 0.5) / (0.617 + 0.5) == pytest.approx(2.0**-0.42, rel=1e-3)


def test_tyres_pick_up_the_film_until_their_grooves_are_full() -> None:
    assert spray.picked_up_kg_m(0.5) == pytest.approx(1000 * 0.2 * 2 * 0.5e-3)
    assert spray.picked_up_kg_m(5.0) == pytest.approx(1000 * 0.2 * 2 * 2.4e-3)
    assert spray.picked_up_kg_m(0.5, tyre_width_m=0.3) == pytest.approx(0.3)


@pytest.mark.parametrize("speed", [6.0, 18.0, 30.0])
def test_the_share_in_the_air_is_that_of_the_distribution(speed: float) -> None:
    """Number-weighted log-normal sizes with the mean of the experiment, integrated over the mass up to 0.5 mm."""
    mean = 0.8 * 6.0 / speed
    median = mean * np.exp(-0.5 * 0.8**2)
    sizes = stats.lognorm(s=0.8, scale=median)
    assert sizes.mean() == pytest.approx(mean)

    def mass(log_d: float) -> float:
        return float(np.exp(4.0 * log_d) * sizes.pdf(np.exp(log_d)))

    small = integrate.quad(mass, -12.0, np.log(0.5))[0]
    whole = integrate.quad(mass, -12.0, 8.0, points=(np.log(median) + 2.0,))[0]
    assert spray.airborne_share(speed) == pytest.approx(small / whole, rel=2e-3)


def test_spray_grows_with_the_second_to_third_power_of_speed() -> None:
    slow, fast = (speed * spray.airborne_share(speed) for speed in (80 / 3.6, 130 / 3.6))
    assert 2.0 < np.log(fast / slow) / np.log(130 / 80) < 3.0
    assert spray.airborne_share(50 / 3.6) < 0.07, "hardly any below 60 km/h"


def test_sizes_follow_the_distribution_of_mass() -> None:
    u = (np.arange(20_000) + 0.5) / 20_000
    sizes = spray.drop_diameter_mm(u, 30.0)
    assert sizes.min() >= 0.05
    assert sizes.max() <= 0.5
    below = np.array([spray.airborne_share(30.0) * np.mean(sizes < d) for d in (0.1, 0.2, 0.4)])
    expected = stats.norm.cdf(np.log(np.array([0.1, 0.2, 0.4]) / spray.mass_median_mm(30.0)) / 0.8)
    assert below == pytest.approx(expected, rel=0.01)


def test_extinction_per_mass_of_a_drop() -> None:
    area, mass = np.pi / 4 * (0.3e-3) ** 2, 1000 * np.pi / 6 * (0.3e-3) ** 3
    assert pytest.approx(2.0 * area / mass) == spray.EXTINCTION_M2_KG
    for wavelength_nm in (903.0, 905.0, 1550.0):
        light = SPRAY.effects.light(None, 0.0, wavelength_nm)
        backscatter_per_kg = float(drop_backscatter(0.3, wavelength_nm)) / mass
        assert light.extinction_per_m / light.lidar_ratio_sr == pytest.approx(backscatter_per_kg, rel=0.01)


def test_radio_is_rayleighs() -> None:
    effect = SPRAY.effects.radio_per_mass(None, 77e9)
    permittivity = water_permittivity(77e9)
    real, imaginary = permittivity.real, abs(permittivity.imag)
    # ITU-R P.840: 0.819 f / (e'' (1 + n^2)) dB/km per g/m^3, n = (2 + e') / e''.
    itu = 0.819 * 77.0 / (imaginary * (1.0 + ((2.0 + real) / imaginary) ** 2))
    assert effect.loss_db_per_km / 1000.0 == pytest.approx(itu, rel=2e-3)
    wavelength = 299792458.0 / 77e9
    k2 = abs((permittivity - 1) / (permittivity + 2)) ** 2
    one = np.pi**5 * k2 * (0.3e-3) ** 6 / wavelength**4
    number = 1.0 / (1000 * np.pi / 6 * (0.3e-3) ** 3)
    assert effect.reflectivity_m2_m3 == pytest.approx(one * number, rel=1e-9)


# ---- plume ---------------------------------------------------------------------------------------------------------


def road(points: Floats) -> tuple[Floats, Floats]:
    return np.zeros(len(points)), np.ones(len(points))


def plume(speed: float = 30.0, film_mm: float = 0.5, **fields: Any) -> SprayPlume:
    path = ph.ConstantTwist(ph.Pose(), velocity=(speed, 0.0, 0.0))
    return SprayPlume(path, road, lambda times: np.full(times.shape, film_mm), **fields)


def test_the_mass_is_what_was_thrown_off_in_the_lifetime() -> None:
    drops = plume().particles(20.0)
    rate = 30.0 * spray.picked_up_kg_m(0.5) * spray.airborne_share(30.0)
    assert drops.mass_kg.sum() == pytest.approx(rate * LIFETIME_S, rel=1e-3)
    air = drops.airborne
    assert 0.0 < air.mass_kg.sum() < drops.mass_kg.sum()
    on_road = drops.rows(drops.settled)
    assert np.all(on_road.xyz[:, 2] == 0.0)
    assert air.mass_kg.sum() + on_road.mass_kg.sum() == pytest.approx(drops.mass_kg.sum())


def test_light_across_the_plume_meets_the_cross_sections_of_its_drops() -> None:
    """Optical depth summed over parallel rays is the sum of 3 m / (rho D)."""
    air = plume(parcels_per_s=300.0).particles(10.0).airborne
    grid = DensityGrid.from_parcels(air.xyz, air.optical_mass_kg)
    step = 0.5
    x, z = np.arange(120.0, 330.0, step), np.arange(-1.0, 9.0, step)
    rays = np.stack(np.meshgrid(x, [-20.0], z, indexing="ij"), axis=-1).reshape(-1, 3)
    total = grid.optical_depth(rays, (0.0, 1.0, 0.0), np.inf, spray.EXTINCTION_M2_KG).sum() * step**2
    assert total == pytest.approx((3.0 * air.mass_kg / (1000.0 * 1e-3 * air.diameter_mm)).sum(), rel=0.01)


def test_drops_spread_in_the_wake_drift_with_the_wind_and_fall_by_size() -> None:
    plumes = [plume(parcels_per_s=400.0, wind_m_s=(0.0, 3.0, 0.0), seed=seed).particles(10.0) for seed in range(10)]
    drops = plumes[0]
    olds = [one.rows((one.age > 1.9) & (one.age < 2.1)) for one in plumes]
    xyz, age = np.concatenate([one.xyz for one in olds]), np.concatenate([one.age for one in olds])
    spread = 0.5 * 0.06 * 30.0 * (1.0 - np.exp(-2.0 / 0.5))
    assert xyz[:, 1].mean() == pytest.approx(6.0, abs=0.15)
    assert xyz[:, 1].std() == pytest.approx(np.hypot(spread, 1.8 / np.sqrt(12.0)), rel=0.1)
    birth = 30.0 * (10.0 - age) - 0.5 * 4.5
    assert (xyz[:, 0] - birth).mean() == pytest.approx(0.3 * 30.0 * 0.5 * (1.0 - np.exp(-4.0)), abs=0.2)
    aloft = drops.rows((drops.age > 1.0) & ~drops.settled)
    assert aloft.diameter_mm.mean() < 0.7 * drops.diameter_mm.mean(), "large drops fall first"
    assert spray.fall_speed_m_s(0.3) == pytest.approx(1.17)


def test_same_bits_for_the_same_time() -> None:
    one, other = plume(seed=4).particles(7.0), plume(seed=4).particles(7.0)
    assert np.array_equal(one.xyz, other.xyz)
    assert not np.array_equal(one.xyz, plume(seed=5).particles(7.0).xyz)
    assert len(plume(film_mm=0.0).particles(7.0)) == 0


# ---- sensors -------------------------------------------------------------------------------------------------------


def cloud(density: float, x: float = 30.0, half: float = 4.0) -> ph.Weather:
    part = ph.SprayCloud(centre_m=(x, 0, 0), half_size_m=(half, half, half), density_kg_m3=density)
    return ph.Weather(spray=[part])


def test_a_beam_through_a_cloud_meets_its_closed_form() -> None:
    tau = depth(cloud(2e-3), wall(60.0), one_beam(range=STRONG))
    assert tau == pytest.approx(spray.EXTINCTION_M2_KG * 2e-3 * 4 * 16 / 15, rel=0.01)


def test_thin_spray_is_below_the_threshold_and_dense_spray_near_by_returns() -> None:
    """Unlike dust, whose rule by VANE always reports what it selects."""
    lidar, world = ph.Lidar("velodyne/vlp-16", sub_rays=1), ph.World()
    world.add(ph.shapes.plane(200, 200), material="asphalt", label="road", pose=ph.Pose((0, 0, -1.7)))

    def count(weather: ph.Weather) -> int:
        world.weather = weather
        return int(np.count_nonzero(lidar.scan(world, seed=1).origin == SPRAY.code))

    assert count(cloud(5e-3, x=60.0)) == 0
    assert count(cloud(0.2, x=12.0)) > 50
    assert count(cloud(0.0, x=12.0)) == 0


def test_cameras_and_lidars_get_the_same_grid() -> None:
    weather = cloud(2e-3)
    for wavelength_nm in (450.0, 905.0):
        (one,) = air_contents(weather, 0.0, wavelength_nm).grids
        assert one.per_mass == spray.EXTINCTION_M2_KG
        assert one.grid.mass_kg == pytest.approx(2e-3 * 4.0**3 * 32 * np.pi / 105, rel=1e-9)


def test_a_radar_sees_dense_spray_and_loses_power_behind_it() -> None:
    radar, world = ph.Radar("ti/mmwcas-imaging", noise=False), ph.World()
    world.add(ph.shapes.box(0.1, 2, 2), material="steel", label="wall", pose=ph.Pose((20.05, 0, 0)))

    def scan(weather: ph.Weather | None) -> Any:
        world.weather = weather
        return radar.scan(world, pose=ph.Pose(), seed=1)

    clear, dense = scan(None), scan(cloud(0.5, x=12.0, half=1.5))
    assert not np.any(clear.origin == SPRAY.code)
    echoes = dense.origin == SPRAY.code
    assert np.any(echoes)
    assert np.all(np.abs(dense.range[echoes] - 12.0) < 2.5)
    assert np.all(dense.label[echoes] == 0)
    strongest = [one.rcs[(one.origin == 0) & (one.range > 19.0)].max() for one in (clear, dense)]
    loss = SPRAY.effects.radio_per_mass(None, radar.config.frequency_ghz * 1e9).loss_db_per_km
    assert strongest[0] - strongest[1] == pytest.approx(2.0 * loss * 1e-3 * 0.5 * 1.5 * 16 / 15, rel=0.2)


def test_files_and_conditions_hold_it() -> None:
    weather = cloud(5e-3)
    assert ph.Weather.from_mapping(weather.to_mapping()) == weather
    assert weather.at(0.0).spray_density_kg_m3 == (5e-3,)
    assert not weather.at(0.0).is_clear


def _lumpiness(parcels_per_s: float) -> float:
    """Mean density that the optical mass itself sees [kg/m^3], of five seeds; echoes over a threshold follow it."""
    found = []
    for seed in range(5):
        air = plume(parcels_per_s=parcels_per_s, seed=seed).particles(10.0).airborne
        density = DensityGrid.from_parcels(air.xyz, air.optical_mass_kg).density_kg_m3
        found.append(float((density**2).sum() / density.sum()))
    return float(np.mean(found))


def test_the_lumps_of_a_plume_do_not_depend_on_the_number_of_parcels() -> None:
    """Parcels sample the drops of a fixed number of lumps. One parcel per lump, of one size, doubles it."""
    few, many = (_lumpiness(LUMPS_PER_S * classes) for classes in (CLASSES, 4 * CLASSES))
    assert few == pytest.approx(many, rel=0.12)
    assert _lumpiness(LUMPS_PER_S) > 2.0 * many


def test_drops_of_a_lump_start_at_one_place_and_fall_by_their_size() -> None:
    drops = plume(parcels_per_s=LUMPS_PER_S * CLASSES).particles(2.0)
    rows = np.arange(len(drops.mass_kg)) // CLASSES
    young = [np.flatnonzero(rows == k) for k in np.unique(rows)[-20:]]
    for one in young:
        assert np.ptp(drops.xyz[one, 1]) < 0.02  # they left the tyre within 2.5 ms
        assert len(np.unique(drops.diameter_mm[one])) > CLASSES // 2
