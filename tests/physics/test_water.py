"""Water: dispersion, spectra, Gerstner's and linear waves against closed forms and the equations of motion."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parhelion.core.errors import ConfigError
from parhelion.motion.sea_spectrum import GRAVITY_M_S2 as G
from parhelion.motion.sea_spectrum import dispersion, jonswap, jonswap_scales, spread_angle, wave_number
from parhelion.motion.water import CalmWater, GerstnerWater, GerstnerWave, OceanWater, Water
from parhelion.world.mesh import Mesh
from parhelion.world.water_surface import Lattice

TRAIN = GerstnerWave(amplitude_m=0.8, length_m=20.0, direction_deg=0.0)
SEA = OceanWater(10.0, 100e3, seed=4, depth_m=15.0, direction_deg=30.0)


def waters() -> dict[str, Water]:
    crossing = [GerstnerWave(0.4, 15.0, 20.0), GerstnerWave(0.2, 7.0, -70.0, phase_deg=50.0)]
    return {
        "calm": CalmWater(1.5, current_m_s=(0.3, -0.1)),
        "gerstner": GerstnerWater(crossing, level_m=1.5),
        "gerstner-shallow": GerstnerWater(crossing, level_m=1.5, depth_m=3.0),
        "ocean": OceanWater(9.0, 30e3, seed=2, level_m=1.5, components=64),
        "ocean-shallow": OceanWater(9.0, 30e3, seed=2, level_m=1.5, depth_m=5.0, components=64),
    }


WATERS = waters()


# ---- linear theory -------------------------------------------------------------------------------------------------


def test_dispersion_in_its_limits() -> None:
    k = np.array([0.01, 0.1, 1.0])
    np.testing.assert_allclose(dispersion(k), np.sqrt(G * k), rtol=1e-14)
    np.testing.assert_allclose(dispersion(k, 1e4), np.sqrt(G * k), rtol=1e-14)
    shallow = 1e-3 / k  # k h = 1e-3: all waves run at sqrt(g h)
    for number, depth in zip(k, shallow, strict=True):
        assert dispersion(number, depth) / number == pytest.approx(math.sqrt(G * depth), rel=1e-6)
    assert dispersion(2 * np.pi / 100.0) == pytest.approx(2 * np.pi / 8.004, rel=1e-3)  # 100 m long, 8.0 s


@given(st.floats(1e-4, 50.0), st.floats(0.01, 1e4))
def test_wave_number_inverts_dispersion(k: float, depth: float) -> None:
    assert wave_number(dispersion(k, depth), depth) == pytest.approx(k, rel=1e-10)


def test_jonswap_without_its_peak_holds_the_energy_of_pierson_and_moskowitz() -> None:
    alpha, peak = jonswap_scales(12.0, 80e3)
    omega = np.geomspace(0.3 * peak, 300.0 * peak, 200_001)
    m0 = np.trapezoid(jonswap(omega, 12.0, 80e3, peak_factor=1.0), omega)
    assert m0 == pytest.approx(alpha * G**2 / (5.0 * peak**4), rel=1e-6)


def test_jonswap_numbers_by_hand() -> None:
    # U = 10 m/s over 100 km: X = 9806.65, alpha = 0.076 X^-0.22 = 0.01006, omega_p = 22 g/U X^-0.33 = 1.0393 rad/s.
    alpha, peak = jonswap_scales(10.0, 100e3)
    assert alpha == pytest.approx(0.010064, rel=1e-3)
    assert peak == pytest.approx(1.0393, rel=1e-3)
    top = alpha * G**2 * peak**-5 * math.exp(-1.25) * 3.3
    assert jonswap(peak, 10.0, 100e3) == pytest.approx(top, rel=1e-12)
    grid = np.linspace(0.5, 3.0, 2501)
    assert grid[np.argmax(jonswap(grid, 10.0, 100e3))] == pytest.approx(peak, rel=0.01)
    # Goda's approximation of the integral: m0 = alpha g^2 omega_p^-4 (0.065 gamma^0.803 + 0.135)
    omega = np.geomspace(0.3, 60.0, 40_001)
    m0 = np.trapezoid(jonswap(omega, 10.0, 100e3), omega)
    assert m0 == pytest.approx(alpha * G**2 * peak**-4 * (0.065 * 3.3**0.803 + 0.135), rel=0.01)


def test_a_long_fetch_is_a_fully_developed_sea() -> None:
    assert jonswap_scales(10.0, 1e6) == jonswap_scales(10.0, 1e7)
    assert jonswap_scales(10.0, 1e7)[1] * 10.0 / G == pytest.approx(0.84, abs=0.02)  # Pierson and Moskowitz 1964


def test_shallow_water_limits_the_spectrum() -> None:
    omega = np.array([0.3, 0.6, 1.2, 6.0])
    ratio = jonswap(omega, 15.0, 300e3, depth_m=2.0) / jonswap(omega, 15.0, 300e3)
    # Kitaigorodskii's factor is omega^2 h / (2 g) in shallow and 1 in deep water.
    assert ratio[0] == pytest.approx(0.5 * omega[0] ** 2 * 2.0 / G, rel=0.01)
    assert ratio[-1] == pytest.approx(1.0, abs=1e-3)
    assert np.all(np.diff(ratio) > 0)
    assert np.isfinite(jonswap(50.0, 15.0, 300e3, depth_m=1e4))


@pytest.mark.parametrize("spreading", [1.0, 10.0, 50.0])
def test_directions_have_the_mean_resultant_of_their_law(spreading: float) -> None:
    angles = spread_angle((np.arange(20_000) + 0.5) / 20_000, spreading)
    # For cos^2s of half the angle the mean of cos is s/(s + 1) (Longuet-Higgins et al. 1963).
    assert np.mean(np.cos(angles)) == pytest.approx(spreading / (spreading + 1.0), rel=1e-3)
    assert np.mean(np.sin(angles)) == pytest.approx(0.0, abs=1e-6)


# ---- what every water keeps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WATERS)
def test_slopes_and_rate_are_the_heights_derivatives(name: str) -> None:
    water, step = WATERS[name], 1e-5
    x, y = np.meshgrid(np.linspace(-20.0, 20.0, 7), np.linspace(5.0, 30.0, 5))
    surface = water.surface(x, y, 2.3)
    np.testing.assert_array_equal(water.height(x, y, 2.3).shape, x.shape)
    np.testing.assert_allclose(water.height(x, y, 2.3), surface.height, atol=1e-12)
    along = (water.height(x + step, y, 2.3) - water.height(x - step, y, 2.3)) / (2 * step)
    across = (water.height(x, y + step, 2.3) - water.height(x, y - step, 2.3)) / (2 * step)
    rate = (water.height(x, y, 2.3 + step) - water.height(x, y, 2.3 - step)) / (2 * step)
    for got, expected in ((surface.slope_x, along), (surface.slope_y, across), (surface.rate, rate)):
        np.testing.assert_allclose(got, expected, atol=1e-7)
    normal = water.normal(x, y, 2.3)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=-1), 1.0, atol=1e-14)
    np.testing.assert_allclose(normal[..., 0] / normal[..., 2], -along, atol=1e-7)


@pytest.mark.parametrize("name", WATERS)
def test_a_lattice_is_the_surface_at_its_points(name: str) -> None:
    water = WATERS[name]
    i, j = np.arange(6)[:, None], np.arange(4)[None, :]
    seen = water.lattice(Lattice((3.0, -2.0), (0.7, 0.2), (-0.3, 0.9), (6, 4)), 11.0)
    direct = water.surface(3.0 + 0.7 * i - 0.3 * j, -2.0 + 0.2 * i + 0.9 * j, 11.0)
    for field in ("height", "slope_x", "slope_y", "rate", "velocity_x", "velocity_y", "acceleration_z"):
        np.testing.assert_allclose(getattr(seen, field), getattr(direct, field), atol=1e-12)


@pytest.mark.parametrize("name", WATERS)
def test_surface_particles_stay_on_the_surface(name: str) -> None:
    """The kinematic condition: w = dh/dt + u dh/dx + v dh/dy; for linear waves to first order, at the mean level."""
    water = WATERS[name]
    x = np.linspace(-30.0, 30.0, 41)
    surface = water.surface(x, 0.0 * x, 5.0)
    linear = name.startswith("ocean")
    z = np.full_like(x, water.level_m) if linear else surface.height
    u, v, w = np.moveaxis(water.velocity(x, 0.0 * x, z, 5.0), -1, 0)
    np.testing.assert_allclose([u, v], [surface.velocity_x, surface.velocity_y], atol=1e-12)
    carried = 0.0 if linear else u * surface.slope_x + v * surface.slope_y
    np.testing.assert_allclose(w, surface.rate + carried, atol=1e-10)


@pytest.mark.parametrize("name", WATERS)
def test_mesh_lies_on_the_surface(name: str) -> None:
    water = WATERS[name]
    vertices, faces = water.mesh(3.0, (4.0, -3.0), (20.0, 10.0), (16, 8))
    assert vertices.shape == (17 * 9, 3)
    assert faces.shape == (2 * 16 * 8, 3)
    np.testing.assert_allclose(water.height(vertices[:, 0], vertices[:, 1], 3.0), vertices[:, 2], atol=1e-11)
    a, b, c = (vertices[faces[:, n]] for n in range(3))
    assert np.all(np.cross(b - a, c - a)[:, 2] > 0.0)  # counter-clockwise from above, no folds
    assert np.array_equal(np.unique(faces), np.arange(len(vertices)))
    Mesh(vertices, faces)  # a mesh that a world takes, without triangles that vanish
    np.testing.assert_allclose(vertices[:, :2].mean(axis=0), (4.0, -3.0), atol=0.5)


def test_square_meshes_take_one_number() -> None:
    vertices, faces = CalmWater(0.5).mesh(0.0, size=4.0, cells=2)
    assert len(vertices) == 9
    assert len(faces) == 8
    assert set(vertices[:, 2]) == {0.5}
    np.testing.assert_array_equal(vertices.min(axis=0)[:2], (-2.0, -2.0))


@pytest.mark.parametrize("name", WATERS)
def test_acceleration_of_the_water_at_the_surface(name: str) -> None:
    """Upward: the particle's own, by differences along its path. Aside: -g times the slope, in linear waves."""
    water, h = WATERS[name], 1e-4
    x, y, t = np.linspace(-30.0, 30.0, 41), np.full(41, 4.0), 5.0
    surface = water.surface(x, y, t)
    linear = name.startswith("ocean")  # first order: at a fixed place of the mean level
    ahead, behind = (
        water.velocity(
            x + (0.0 if linear else s * surface.velocity_x),
            y + (0.0 if linear else s * surface.velocity_y),
            np.full(41, water.level_m if linear else 99.0),
            t + s,
        )
        for s in (h, -h)
    )
    change = (ahead - behind) / (2 * h)
    np.testing.assert_allclose(change[:, 2], surface.acceleration_z, atol=1e-5)
    if linear:
        np.testing.assert_allclose(change[:, 0], -G * surface.slope_x, atol=1e-5)


# ---- Gerstner ------------------------------------------------------------------------------------------------------


def test_gerstner_crest_trough_mean_and_speed() -> None:
    water = GerstnerWater([TRAIN], level_m=2.0)
    k, a = 2 * np.pi / 20.0, 0.8
    omega = math.sqrt(G * k)
    x = np.linspace(0.0, 20.0, 4001)[:-1]
    height = water.height(x, 0.0, 0.0)
    assert height.max() == pytest.approx(2.0 + a, abs=1e-12)
    assert height.min() == pytest.approx(2.0 - a, abs=1e-6)
    assert height.mean() == pytest.approx(2.0 - k * a * a / 2.0, abs=1e-6)
    later = 1.7  # the shape runs unchanged at omega/k
    np.testing.assert_allclose(water.height(x + omega / k * later, 3.0, later), height, atol=1e-11)


def test_gerstner_surface_is_a_trochoid() -> None:
    """Labels a map to x = a - A sin(theta), z = A cos(theta)."""
    water = GerstnerWater([TRAIN])
    k, a, t = 2 * np.pi / 20.0, np.linspace(0.0, 40.0, 101), 3.1
    theta = k * a - math.sqrt(G * k) * t
    np.testing.assert_allclose(water.height(a - 0.8 * np.sin(theta), 0.0, t), 0.8 * np.cos(theta), atol=1e-11)
    speed = np.linalg.norm(water.velocity(a, 0.0, 100.0, t), axis=-1)
    np.testing.assert_allclose(speed, 0.8 * math.sqrt(G * k), rtol=1e-10)  # on circles, at constant speed


def test_gerstner_pressure_is_constant_along_the_surface() -> None:
    """The force on a surface particle, its acceleration less gravity, is normal to the surface: omega^2 = g k."""
    water = GerstnerWater([TRAIN])
    k, omega = 2 * np.pi / 20.0, float(water.components.omega_rad_s[0])
    a, t, h = np.linspace(0.0, 20.0, 33), 0.9, 1e-3

    def path(time: float) -> np.ndarray:
        theta = k * a - omega * time
        return np.stack([a - 0.8 * np.sin(theta), 0.8 * np.cos(theta)], axis=-1)

    force = (path(t + h) - 2.0 * path(t) + path(t - h)) / h**2 + np.array([0.0, G])
    normal = water.normal(path(t)[:, 0], 0.0, t)[:, [0, 2]]
    crossed = force[:, 0] * normal[:, 1] - force[:, 1] * normal[:, 0]
    np.testing.assert_allclose(crossed / np.linalg.norm(force, axis=1), 0.0, atol=1e-6)


def test_gerstner_orbits_decay_with_depth_and_flatten_over_ground() -> None:
    deep = GerstnerWater([TRAIN])
    k = 2 * np.pi / 20.0
    down = deep.velocity(5.0, 0.0, deep.height(5.0, 0.0, 0.0) - np.array([0.0, 4.0]), 0.0)
    assert np.linalg.norm(down[1]) / np.linalg.norm(down[0]) == pytest.approx(math.exp(-4.0 * k), rel=1e-12)
    shallow = GerstnerWater([GerstnerWave(0.2, 20.0)], depth_m=2.0)
    assert float(shallow.components.omega_rad_s[0]) == pytest.approx(math.sqrt(G * k * math.tanh(2.0 * k)), rel=1e-14)
    crest = shallow.velocity(0.0, 0.0, 10.0, 0.0)[0]
    assert crest == pytest.approx(0.2 * float(shallow.components.omega_rad_s[0]) / math.tanh(2.0 * k), rel=1e-12)


@given(st.floats(0.01, 0.85), st.floats(0.0, 360.0), st.floats(-1e4, 1e4), st.floats(-1e4, 1e4))
def test_gerstner_is_found_far_out_and_for_steep_waves(steepness: float, angle: float, x: float, y: float) -> None:
    wave = GerstnerWave(steepness * 10.0 / (2 * np.pi), 10.0, angle)
    water = GerstnerWater([wave])
    k, (cos, sin) = 2 * np.pi / 10.0, (math.cos(math.radians(angle)), math.sin(math.radians(angle)))
    theta = k * (x * cos + y * sin)
    px = x - wave.amplitude_m * cos * math.sin(theta)
    py = y - wave.amplitude_m * sin * math.sin(theta)
    assert float(water.height(px, py, 0.0)) == pytest.approx(wave.amplitude_m * math.cos(theta), abs=1e-7)


# ---- wind sea ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wind", "fetch", "depth"), [(10.0, 100e3, math.inf), (5.0, 300.0, math.inf), (14.0, 1e5, 8.0)]
)
def test_significant_height_is_that_of_the_spectrum(wind: float, fetch: float, depth: float) -> None:
    water = OceanWater(wind, fetch, seed=1, depth_m=depth)
    peak = jonswap_scales(wind, fetch)[1]
    omega = np.geomspace(0.3 * peak, 100.0 * peak, 40_001)
    spectrum = 4.0 * math.sqrt(np.trapezoid(jonswap(omega, wind, fetch, depth), omega))
    assert water.significant_height_m == pytest.approx(spectrum, rel=0.005)


def test_significant_height_of_the_sampled_field() -> None:
    water = OceanWater(10.0, 100e3, seed=3)
    assert water.significant_height_m == pytest.approx(2.01, abs=0.01)
    assert water.peak_period_s == pytest.approx(6.05, abs=0.01)
    # 57 m are a wave length at the peak: 2 km x 2 km at ten times hold thousands of waves.
    heights = np.stack([water.mesh(40.0 * n, (0, 0), 2000.0, 250)[0][:, 2] for n in range(10)])
    assert 4.0 * heights.std() == pytest.approx(water.significant_height_m, rel=0.03)
    assert heights.mean() == pytest.approx(0.0, abs=0.02)
    skew = np.mean(heights**3) / heights.std() ** 3
    kurtosis = np.mean(heights**4) / heights.std() ** 4
    assert abs(skew) < 0.05  # linear waves: normal heights
    assert kurtosis == pytest.approx(3.0, abs=0.15)


def test_a_point_sees_the_spectrum_of_the_wind() -> None:
    """Welch's estimate at one place against JONSWAP, in bands about the peak; 60 degrees of freedom a band."""
    from scipy.signal import welch

    water = OceanWater(10.0, 100e3, seed=5, components=512)
    times = np.arange(0.0, 6000.0, 0.5)
    waves = water.components
    record = np.cos(waves.phase_rad - np.outer(times, waves.omega_rad_s)) @ waves.amplitude_m
    assert record[7] == pytest.approx(float(water.height(0.0, 0.0, 3.5)), abs=1e-12)
    frequency, density = welch(record, fs=2.0, nperseg=1024)
    omega, per_omega = 2 * np.pi * frequency, density / (2 * np.pi)
    for low, high in ((0.85, 1.25), (1.25, 1.8), (1.8, 2.6)):
        band = (omega > low) & (omega < high)
        expected = np.trapezoid(jonswap(omega[band], 10.0, 100e3), omega[band])
        assert np.trapezoid(per_omega[band], omega[band]) == pytest.approx(expected, rel=0.15)


def test_flow_under_the_sea_has_no_sources_no_curl_and_no_way_through_the_ground() -> None:
    x, y, z, h = np.array([3.0, -8.0]), np.array([1.0, 4.0]), np.array([-2.0, -9.0]), 1e-4

    def derivative(axis: int) -> np.ndarray:
        step = np.eye(3)[axis] * h
        forward = SEA.velocity(x + step[0], y + step[1], z + step[2], 7.0)
        return (forward - SEA.velocity(x - step[0], y - step[1], z - step[2], 7.0)) / (2 * h)

    jacobian = np.stack([derivative(axis) for axis in range(3)], axis=-1)  # [..., component, axis]
    np.testing.assert_allclose(np.trace(jacobian, axis1=1, axis2=2), 0.0, atol=1e-8)
    np.testing.assert_allclose(jacobian, np.swapaxes(jacobian, 1, 2), atol=1e-8)
    assert np.max(np.abs(jacobian)) > 0.01
    np.testing.assert_allclose(SEA.velocity(x, y, -15.0, 7.0)[:, 2], 0.0, atol=1e-15)
    assert np.max(np.abs(SEA.velocity(x, y, -15.0, 7.0)[:, 0])) > 1e-3


def test_waves_run_with_the_wind() -> None:
    waves = OceanWater(8.0, 50e3, seed=9, direction_deg=120.0, components=2000).components
    angle = np.arctan2(waves.wave_y_1_m, waves.wave_x_1_m) - math.radians(120.0)
    assert np.mean(np.cos(angle)) == pytest.approx(10.0 / 11.0, abs=0.01)
    assert np.mean(np.sin(angle)) == pytest.approx(0.0, abs=0.03)
    np.testing.assert_allclose(waves.omega_rad_s, dispersion(waves.wave_number_1_m), rtol=1e-12)


def test_same_seed_same_bits_other_seed_other_waves() -> None:
    x = np.linspace(0.0, 100.0, 50)
    one, again, other = (OceanWater(8.0, 1e4, seed=s).height(x, 0.0, 1.0) for s in (3, 3, 4))
    assert one.tobytes() == again.tobytes()
    assert np.abs(one - other).max() > 0.01


def test_any_number_of_threads_gives_the_same_bits() -> None:
    script = """
import hashlib
import numpy as np
from parhelion.motion.water import GerstnerWater, GerstnerWave, OceanWater
sea, x = OceanWater(10.0, 1e5, 3), np.linspace(-300.0, 300.0, 9001)
crossing = GerstnerWater([GerstnerWave(0.3, 12.0, 20.0), GerstnerWave(0.2, 7.0, 70.0)])
parts = [sea.mesh(1.0, size=300.0, cells=201)[0], sea.height(x, 1.0, 2.0), sea.surface(x, 1.0, 2.0).slope_x]
parts += [crossing.mesh(1.0, size=300.0, cells=201)[0], crossing.height(x, 1.0, 2.0)]
print(*(hashlib.sha256(np.ascontiguousarray(part).tobytes()).hexdigest() for part in parts))
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
            capture_output=True, text=True, timeout=60, check=True,
        ).stdout
        for threads in ("1", "4")
    }  # fmt: skip
    assert len(found) == 1


def test_many_places_give_what_few_do() -> None:
    x = np.linspace(-500.0, 500.0, 20_001)
    np.testing.assert_allclose(SEA.height(x, 2.0, 1.0)[::2000], SEA.height(x[::2000], 2.0, 1.0), rtol=0, atol=1e-12)
    assert SEA.height(np.zeros((0,)), np.zeros((0,)), 0.0).shape == (0,)
    assert SEA.velocity(np.zeros((2, 3)), 0.0, -1.0, 0.0).shape == (2, 3, 3)


def test_short_waves_can_be_left_out() -> None:
    squares = Lattice((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (30, 30))
    full = SEA.lattice(squares, 0.0)
    long = SEA.lattice(squares, 0.0, shortest_m=12.0)
    none = SEA.lattice(squares, 0.0, shortest_m=1e6)
    assert 0.0 < np.abs(full.height - long.height).max() < 0.5 * SEA.significant_height_m
    assert full.slope_x.std() > 1.2 * long.slope_x.std()
    assert np.all(none.height == SEA.level_m)
    crossing = GerstnerWater([GerstnerWave(0.4, 15.0), GerstnerWave(0.1, 2.0, 90.0)])
    alone = GerstnerWater([GerstnerWave(0.4, 15.0)])
    place = (Lattice((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (5, 5)), 2.0)
    for shortest, expected in ((1.0, crossing), (3.0, alone), (20.0, CalmWater())):
        np.testing.assert_array_equal(crossing.lattice(*place, shortest).height, expected.lattice(*place).height)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CalmWater(math.nan), "water: level_m: must be a finite number, got nan"),
        (lambda: CalmWater(current_m_s=(1.0, 2.0, 3.0)), "current_m_s: must be 2 finite numbers"),
        (lambda: CalmWater(density_kg_m3=0.0), "density_kg_m3: must be above 0, got 0.0"),
        (lambda: GerstnerWater([]), "at least one wave"),
        (lambda: GerstnerWater([GerstnerWave(0.0, 10.0)]), "amplitude_m: must be above 0"),
        (lambda: GerstnerWater([GerstnerWave(2.0, 10.0)]), "is 1.26 and must be below 0.9"),
        (lambda: GerstnerWater([TRAIN], depth_m=math.nan), "depth_m: must be above 0, got nan"),
        (lambda: OceanWater(0.0, 1e3), "wind_speed_m_s: must be from 0.5 to 60, got 0.0"),
        (lambda: OceanWater(math.nan, 1e3), "wind_speed_m_s"),
        (lambda: OceanWater(5.0, -1.0), "fetch_m: must be above 0 and at most 1e"),
        (lambda: OceanWater(5.0, 1e3, components=0), "components: must be a whole number from 1 to 2000, got 0"),
        (lambda: OceanWater(5.0, 1e3, seed=-1), "seed: must be a whole number"),
        (lambda: OceanWater(5.0, 1e3, depth_m=0.0), "depth_m"),
        (lambda: OceanWater(5.0, 1e3, spreading="much"), "spreading: must be from 0 to 500, got 'much'"),
        (lambda: SEA.mesh(0.0, cells=0), "cells: must be a whole number"),
        (lambda: SEA.mesh(0.0, size=-3.0), "size: must be above 0, got -3.0"),
        (lambda: SEA.mesh(math.nan), "time: must be a finite number, got nan"),
    ],
)
def test_bad_input_is_named(make: object, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        make()  # type: ignore[operator]
    assert message in str(error.value)
    assert "\n" not in str(error.value)
