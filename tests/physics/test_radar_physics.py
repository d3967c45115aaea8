"""Radar against closed forms: cross-sections, the radar equation, Doppler, mirrors, rain."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.sensors.waves.radar.cube import Axes, array_pattern, array_response, noise_bandwidth, window_response
from parhelion.sensors.waves.radar.device import finish, noise_power_w, received_constant_w, reflection
from parhelion.sensors.waves.scene import cosines
from parhelion.weather.media.rain import rain_attenuation_db_per_km, rain_coefficients, rain_reflectivity
from wave_rigs import alone, doppler_hz, narrow, radar_config, trihedral

WAVELENGTH = SPEED_OF_LIGHT_M_S / 77e9


def decibels(value: float) -> float:
    return float(10.0 * np.log10(value))


def seen(world: ph.World, half_deg: float, **more: object) -> float:
    """Total apparent cross-section [m^2] of the paths."""
    paths = ph.Radar(narrow(half_deg, **more)).paths(world, pose=ph.Pose())
    return float(paths.cross_section.sum(dtype=np.float64))


def test_a_plate_has_4_pi_area_squared_over_wavelength_squared() -> None:
    world = alone(ph.shapes.board(0.1, 0.1, 0.001))
    assert decibels(seen(world, 0.1) / (4 * np.pi * 0.1**4 / WAVELENGTH**2)) == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize("radius", [0.25, 0.5, 1.0])
def test_a_sphere_has_pi_radius_squared(radius: float) -> None:
    world = alone(ph.shapes.sphere(radius))
    found = seen(world, 1.2 * np.degrees(radius / 50.0))
    assert decibels(found / (np.pi * radius**2)) == pytest.approx(0.0, abs=0.5)


def test_a_corner_has_4_pi_side_to_the_4th_over_3_wavelength_squared() -> None:
    world = alone(trihedral(0.2))
    exact = 4 * np.pi * 0.2**4 / (3 * WAVELENGTH**2)
    assert decibels(seen(world, 0.3, bounces=3) / exact) == pytest.approx(0.0, abs=2.0)
    assert seen(world, 0.3, bounces=2) < 1e-3 * exact


def test_a_wall_is_a_mirror() -> None:
    # An image as far behind the wall: pi R^2, whatever the size of the wall.
    for distance in (20.0, 40.0):
        found = seen(alone(ph.shapes.board(6.0, 6.0, 0.1), distance), 3.0)
        assert decibels(found / (np.pi * (distance - 0.05) ** 2)) == pytest.approx(0.0, abs=0.2)


def test_power_falls_with_the_fourth_power_of_range() -> None:
    distance = np.array([20.0, 40.0, 80.0])
    power = []
    for one in distance:
        radar = ph.Radar(narrow(1.2 * np.degrees(0.5 / one)))
        found = radar.paths(alone(ph.shapes.sphere(0.5), one), pose=ph.Pose())
        power.append(float(np.sum(found.cross_section / (0.5 * found.length.astype(float)) ** 4)))
    slope = np.polyfit(np.log(distance), np.log(power), 1)[0]
    assert slope == pytest.approx(-4.0, abs=0.05)


def test_the_cube_gives_range_speed_and_cross_section() -> None:
    world = ph.World()
    world.add_actor(
        ph.shapes.sphere(0.5), material="steel", label="car",
        trajectory=ph.ConstantTwist(ph.Pose((40.5, 0, 0)), velocity=(-5.0, 0.0, 0.0)),
    )  # fmt: skip
    radar = ph.Radar(radar_config(field={"azimuth_deg": (-15, 15), "elevation_deg": (-2, 2), "rays": 300_000}))
    found = radar.scan(world, pose=ph.Pose(), seed=3)
    best = int(np.argmax(found.snr))
    middle = 40.5 - 0.5 - 5.0 * 0.5 * radar.frame_duration_s
    assert found.range[best] == pytest.approx(middle, abs=0.1)
    assert found.radial_velocity[best] == pytest.approx(-5.0, abs=0.05)
    assert found.rcs[best] == pytest.approx(decibels(np.pi * 0.25), abs=1.0)
    assert found.names["label"][int(found.label[best])] == "car"
    expected = received_constant_w(radar.config) * np.pi * 0.25 / 40.0**4 / noise_power_w(radar.config, radar.axes)
    # The noise is a mean of 16 cells, about 1.3 dB; the mean of nine frames is within 2 dB.
    more = [radar.scan(world, pose=ph.Pose(), seed=seed).snr.max() for seed in range(10, 18)]
    assert np.mean([found.snr[best], *more]) == pytest.approx(decibels(expected), abs=2.0)


def test_noise_is_boltzmann_s_over_the_time_that_is_added_up() -> None:
    config = radar_config(waveform={"range_window": "none", "speed_window": "none"})
    seconds = 64 * 12 * 40e-6
    exact = 1.380649e-23 * 290.0 * 10**1.2 / seconds
    assert noise_power_w(config, Axes.of(config)) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("spin", [0.0, 2.0])
def test_doppler_of_a_moving_plate(spin: float) -> None:
    ego, plate = np.array([12.0, 3.0, 0.0]), np.array([-7.0, 1.0, 0.5])
    world = ph.World()
    world.add_actor(
        ph.shapes.board(0.1, 0.1, 0.001), material="steel",
        trajectory=ph.ConstantTwist(ph.Pose((30.0, 0, 0)), velocity=tuple(plate), angular_velocity=(0, 0, spin)),
    )  # fmt: skip
    radar = ph.Radar(narrow(1.0, rays=200_000))
    paths = radar.paths(world, trajectory=ph.ConstantTwist(ph.Pose(), velocity=tuple(ego)))
    # In the frame's middle, where all rays are sent; the mean over the plate is that of its middle.
    at = 0.5 * radar.frame_duration_s
    line = np.array([30.0, 0, 0]) + (plate - ego) * at
    exact = -2.0 * np.dot(plate - ego, line / np.linalg.norm(line)) * 77e9 / SPEED_OF_LIGHT_M_S
    found = doppler_hz(paths.rate, 77e9)
    mean = np.average(found, weights=paths.cross_section.astype(float))
    lever = 2.0 * spin * 0.05 * 77e9 / SPEED_OF_LIGHT_M_S
    if spin == 0.0:
        toward = paths.direction.astype(float)
        for_each = -2.0 * (toward @ (plate - ego)) * 77e9 / SPEED_OF_LIGHT_M_S
        assert np.abs(found - for_each).max() < 0.1
        assert mean == pytest.approx(exact, abs=0.5)  # rays do not sample the plate's middle exactly
    else:
        assert np.ptp(found) == pytest.approx(2.0 * lever, rel=0.1)  # its edges come and go


def test_a_mirror_shows_a_ghost_at_the_mirrored_place() -> None:
    world = ph.World()
    world.add(ph.shapes.box(30.0, 0.1, 6.0), material="steel", label="wall", pose=ph.Pose((20.0, 5.05, 0.0)))
    world.add(ph.shapes.sphere(0.5), material="steel", label="target", pose=ph.Pose((24.0, 0.0, 0.0)))
    radar = ph.Radar(radar_config(field={"rays": 200_000, "bounces": 2}), noise=False)
    paths = radar.paths(world, pose=ph.Pose())
    back = (paths.bounces == 3) & (paths.part == 1)
    place = np.average(
        paths.direction[back] * 0.5 * paths.length[back, None], axis=0, weights=paths.cross_section[back].astype(float)
    )
    # Mirrored at y = 5, the centre is at (24, 10); the near side of the sphere reflects.
    image = np.array([24.0, 10.0, 0.0])
    assert place == pytest.approx(image * (1.0 - 0.5 / np.linalg.norm(image)), abs=0.1)
    scan = radar.scan(world, pose=ph.Pose(), seed=1)
    ghost = (scan.origin == 5) & (np.abs(scan.range - 25.5) < 0.4) & (np.abs(scan.azimuth - np.arctan2(10, 24)) < 0.06)
    assert ghost.any()
    assert np.all(scan.label[ghost] == next(k for k, v in scan.names["label"].items() if v == "target"))
    # Out over the mirror and directly back: half of both lengths, in the direction of the target itself.
    straight = (paths.bounces == 2) & (paths.part == 1)
    assert 0.5 * paths.length[straight].min() > 0.5 * (23.5 + 25.0)


def test_the_road_mirrors_with_the_lengths_and_losses_of_two_rays() -> None:
    # A sphere 30 m ahead and 2 m above the road, the radar at 1 m: ways over the image below the road.
    radius, height, above, ahead = 0.3, 1.0, 2.0, 30.0
    world = ph.World()
    world.add(ph.shapes.plane(80.0, 20.0), material="asphalt", label="road", pose=ph.Pose((30.0, 0.0, 0.0)))
    world.add(ph.shapes.sphere(radius, 4), material="steel", label="target", pose=ph.Pose((ahead, 0.0, above)))
    field = {"azimuth_deg": (-1, 1), "elevation_deg": (-8, 4), "rays": 400_000, "bounces": 2}
    paths = ph.Radar(radar_config(field=field)).paths(world, pose=ph.Pose((0.0, 0.0, height)))
    paths = paths.rows(paths.part == 1)
    straight = np.hypot(ahead, above - height) - radius
    mirrored = np.hypot(ahead, above + height) - radius
    # The reflection point has the half-vector as its normal: one path over the road shortens by 2 r cos(between).
    between = 0.5 * (np.arctan2(above + height, ahead) + np.arctan2(above - height, ahead))
    once = np.hypot(ahead, above - height) + np.hypot(ahead, above + height) - 2.0 * radius * np.cos(between)
    sine = (above + height) / np.hypot(ahead, above + height)
    share = float(np.interp(sine, cosines(), reflection("asphalt", 77e9)))
    share *= np.exp(-((4.0 * np.pi * finish("asphalt").height_m * sine / WAVELENGTH) ** 2))
    # The antenna pattern, 20 degrees wide, in both directions.
    up, down = (
        np.exp(-4.0 * np.log(2.0) * (one / (2.0 * np.sin(np.radians(10.0)))) ** 2)
        for one in ((above - height) / np.hypot(ahead, above - height), sine)
    )
    sigma = np.pi * radius**2
    for bounces, length, strength in (
        (1, 2.0 * straight, sigma * up**2), (2, once, sigma * share * up * down),
        (3, 2.0 * mirrored, sigma * share**2 * down**2),
    ):  # fmt: skip
        rows = paths.bounces == bounces
        weight = paths.cross_section[rows].astype(np.float64)
        assert np.average(paths.length[rows].astype(np.float64), weights=weight) == pytest.approx(length, abs=0.02)
        assert decibels(weight.sum() / strength) == pytest.approx(0.0, abs=0.5)
    # The image lies below the road.
    low = np.average(paths.direction[paths.bounces == 3, 2], weights=paths.cross_section[paths.bounces == 3])
    assert low == pytest.approx(-sine, abs=0.005)


def test_doppler_over_a_mirror_is_that_of_the_image() -> None:
    # A static steel wall at y = 5: the image of the sphere moves with the mirrored velocity.
    velocity, ego = np.array([-8.0, 3.0, 0.0]), np.array([10.0, 0.0, 0.0])
    world = ph.World()
    world.add(ph.shapes.box(30.0, 0.1, 6.0), material="steel", label="wall", pose=ph.Pose((20.0, 5.05, 0.0)))
    motion = ph.ConstantTwist(ph.Pose((24.0, 0.0, 0.0)), velocity=tuple(velocity))
    world.add_actor(ph.shapes.sphere(0.5), material="steel", label="target", trajectory=motion)
    radar = ph.Radar(radar_config(field={"rays": 100_000, "bounces": 2}))
    paths = radar.paths(world, trajectory=ph.ConstantTwist(ph.Pose(), velocity=tuple(ego)))
    back = paths.rows((paths.bounces == 3) & (paths.part == 1))
    exact = -2.0 * (back.direction.astype(float) @ (velocity * [1, -1, 1] - ego)) * 77e9 / SPEED_OF_LIGHT_M_S
    assert len(back) > 20
    assert np.abs(doppler_hz(back.rate, 77e9) - exact).max() < 0.1


def test_attenuation_by_rain_is_that_of_p838() -> None:
    k, alpha = rain_coefficients(10e9)
    # Table 5 of P.838-3: 0.01217 and 1.2571 horizontal, 0.01129 and 1.2156 vertical.
    assert k == pytest.approx(0.5 * (0.01217 + 0.01129), rel=1e-3)
    assert alpha == pytest.approx((0.01217 * 1.2571 + 0.01129 * 1.2156) / (0.01217 + 0.01129), rel=1e-3)
    assert rain_attenuation_db_per_km(77e9, 25.0) == pytest.approx(11.2, abs=0.3)
    world = alone(ph.shapes.sphere(0.5), 100.0)
    dry = seen(world, 0.35)
    world.weather = ph.Weather(rain_rate_mm_h=25)
    loss = 2.0 * 0.0995 * float(rain_attenuation_db_per_km(77e9, 25.0))
    assert decibels(dry / seen(world, 0.35)) == pytest.approx(loss, abs=0.05)


def test_rain_at_long_waves_sends_back_as_rayleigh_s() -> None:
    # Z = 200 R^1.6 mm^6/m^3 is Marshall and Palmer's own power law.
    wavelength = SPEED_OF_LIGHT_M_S / 3e9
    exact = np.pi**5 * 0.93 * 200 * 10.0**1.6 * 1e-18 / wavelength**4
    assert decibels(rain_reflectivity(3e9, 10.0) / exact) == pytest.approx(0.0, abs=1.5)
    assert rain_reflectivity(77e9, 25.0) < np.pi**5 * 0.93 * 200 * 25**1.6 * 1e-18 / WAVELENGTH**4


@pytest.mark.parametrize(("name", "cells"), [("none", 1.0), ("hann", 1.5), ("hamming", 1.3628), ("blackman", 1.7268)])
def test_windows_are_those_of_harris(name: str, cells: float) -> None:
    assert noise_bandwidth(name) == pytest.approx(cells, abs=1e-3)
    assert window_response(name, np.zeros(1))[0] == pytest.approx(1.0)
    count, offset = 4096, np.array([0.3, 1.4, 2.6])
    from scipy.signal import windows

    shape = windows.get_window("boxcar" if name == "none" else name, count, fftbins=True)
    tone = np.array([np.abs(np.sum(shape * np.exp(2j * np.pi * np.arange(count) * k / count))) for k in offset])
    assert np.abs(window_response(name, offset)) == pytest.approx(tone / shape.sum(), abs=2e-3)


def test_beams_of_an_array_are_dirichlet_s() -> None:
    channel = np.arange(8) - 3.5
    for offset in (0.0, 0.4, 1.0, 2.7, 8.0):
        exact = np.mean(np.exp(2j * np.pi * channel * offset / 8)).real
        assert array_response("none", np.array([offset]), 8)[0] == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("window", ["none", "hann", "hamming", "blackman"])
def test_all_beams_at_once_are_the_same(window: str) -> None:
    offset = np.array([0.0, 0.3, 3.0, 7.5, 11.9, 3.0 + 1e-10, -2.4])
    exact = array_response(window, offset[:, None] - np.arange(9), 12)
    assert array_pattern(window, offset, 9, 12) == pytest.approx(exact, abs=1e-7)
