"""Wheels, air pressure and Earth's field against closed forms and published tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from parhelion.core.config import parse
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.core.trajectory import ConstantTwist, Fixed
from parhelion.motion.state import BodyState
from parhelion.sensors.body.barometer import (
    Barometer,
    BarometerConfig,
    geometric_altitude,
    geopotential_height,
    isa_height,
    isa_pressure,
)
from parhelion.sensors.body.magnetometer import Iron, Magnetometer, MagnetometerConfig, earth_field
from parhelion.sensors.body.odometry import Odometry, OdometryConfig, dead_reckoned
from parhelion.sensors.check import check_sensor, same_bits
from parhelion.sensors.sheets import preset_names
from parhelion.world.world import World

SOURCE = [{"title": "a test", "covers": ["name"]}]
HUSKY = "clearpath/husky"
CAR = "generic/passenger-car"


class Circle:
    """A level drive along a circle about (0, radius), forward: speed and yaw rate are constant."""

    def __init__(self, speed: float, yaw_rate: float) -> None:
        self.speed, self.yaw_rate = speed, yaw_rate

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        state = self.state(times)
        return state.xyz, state.quat_xyzw

    def state(self, times: ArrayLike) -> BodyState:
        t = np.asarray(times, dtype=np.float64)
        yaw, none = self.yaw_rate * t, np.zeros_like(t)
        radius = self.speed / self.yaw_rate
        ahead = np.stack([np.cos(yaw), np.sin(yaw), none], axis=1)
        aside = np.stack([-np.sin(yaw), np.cos(yaw), none], axis=1)
        quat = np.stack([none, none, np.sin(yaw / 2), np.cos(yaw / 2)], axis=1)
        rate = np.stack([none, none, np.full_like(t, self.yaw_rate)], axis=1)
        xyz = np.array([0.0, radius, 0.0]) - radius * aside
        still = np.zeros((len(t), 3))
        return BodyState(t, xyz, quat, self.speed * ahead, rate, self.speed * self.yaw_rate * aside, still)


def wheels(**changes: Any) -> OdometryConfig:
    """A differential drive without errors and with fine ticks, but for the changes."""
    data = {
        "name": "test", "kind": "differential", "rate_hz": 50.0, "max_rate_hz": 1000.0, "wheel_radius_m": 0.1,
        "track_m": 0.5, "ticks_per_turn": 100_000, "sources": SOURCE,
    }  # fmt: skip
    return parse(OdometryConfig, data | changes, "a test")


def yaw_of(quat: Floats) -> Floats:
    return 2.0 * np.arctan2(quat[:, 2], quat[:, 3])


# ---- odometry ------------------------------------------------------------------------------------------------------


def test_straight_line_and_spot_turn() -> None:
    straight = Odometry(wheels(), noise=False).run(None, ConstantTwist(Pose(), velocity=(0.8, 0, 0)), 0.0, 10.0)
    np.testing.assert_allclose(straight.wheel_speed, 8.0, atol=1e-8)
    np.testing.assert_allclose(straight.xyz[-1], [8.0, 0.0, 0.0], atol=1e-8)
    assert straight.ticks[-1] == pytest.approx(80.0 / (2.0 * np.pi) * 100_000, abs=1)
    spot = Odometry(wheels(), noise=False).run(None, ConstantTwist(Pose(), angular_velocity=(0, 0, 0.5)), 0.0, 4.0)
    np.testing.assert_allclose(spot.wheel_speed, np.tile([-1.25, 1.25], (200, 1)), atol=1e-8)
    np.testing.assert_allclose(spot.xyz, 0.0, atol=1e-8)
    assert yaw_of(spot.quat_xyzw)[-1] == pytest.approx(2.0, abs=1e-8)
    np.testing.assert_allclose(spot.time, np.arange(1, 201) / 50.0)
    xyz, _ = dead_reckoned(np.full(9, np.pi / 18), np.full(9, np.pi / 18))
    np.testing.assert_allclose(xyz[-1], [1.0, 1.0, 0.0], atol=1e-14)  # a quarter of a circle of radius 1


@pytest.mark.parametrize("model", [wheels(), HUSKY, "pioneer/p3-dx", CAR])
def test_a_circle_without_noise_is_the_circle(model: Any) -> None:
    """Within rounding: arcs of constant curvature are dead-reckoned exactly; the Husky's wider track cancels."""
    motion = Circle(1.5, 0.3)
    data = Odometry(model, noise=False).run(None, motion, 0.0, 20.0, seed=3)
    xyz, quat = motion.sample(data.time)
    np.testing.assert_allclose(data.xyz, xyz, atol=1e-9)
    np.testing.assert_allclose(np.abs(np.sum(data.quat_xyzw * quat, axis=1)), 1.0, atol=1e-12)
    np.testing.assert_allclose(data.velocity, np.tile([1.5, 0.0, 0.0], (len(data), 1)), atol=1e-9)
    np.testing.assert_allclose(data.angular_velocity[:, 2], 0.3, atol=1e-9)


def test_wheels_of_a_car_follow_ackermann() -> None:
    """Each wheel rolls on its own circle about the common centre; the bicycle's angle is atan(L / R)."""
    data = Odometry(CAR, noise=False).run(None, Circle(5.0, 0.5), 0.0, 1.0)
    radius, base, half, wheel = 10.0, 2.7, 0.775, 0.31
    rear = np.array([radius - half, radius + half])
    expected = 0.5 / wheel * np.concatenate([rear, np.hypot(rear, base)])
    np.testing.assert_allclose(data.wheel_speed, np.tile(expected, (50, 1)), rtol=1e-9)
    assert data.wheels == ("rear-left", "rear-right", "front-left", "front-right")
    assert data.steering_angle is not None
    np.testing.assert_allclose(data.steering_angle, np.arctan(2.7 / 10.0), atol=1e-12)
    back = Odometry(CAR, noise=False).run(None, Circle(-5.0, -0.5), 0.0, 1.0)
    assert back.steering_angle is not None
    np.testing.assert_allclose(back.steering_angle, np.arctan(2.7 / 10.0), atol=1e-12)
    assert (back.wheel_speed < 0).all()
    still = Odometry(CAR, noise=False).run(None, Fixed(Pose()), 0.0, 1.0)
    np.testing.assert_array_equal(still.steering_angle, np.zeros(50))


def test_mount_off_the_body_s_origin() -> None:
    """The axle 1 m behind the body's origin: the origin's sideways speed is not the wheels' business."""
    motion = ConstantTwist(Pose(), angular_velocity=(0, 0, 0.5))
    data = Odometry(wheels(), noise=False).run(None, motion, 0.0, 2.0, mount=Pose((-1.0, 0.25, 0.0)))
    np.testing.assert_allclose(data.velocity[:, 0], -0.125, atol=1e-8)  # ω × r of (-1, 0.25): -0.5 · 0.25 forward


def test_radius_errors_turn_a_straight_line_into_the_known_circle() -> None:
    """Radii true by f_l, f_r: rolled v / f, so yaw rate v (1/f_r - 1/f_l) / track and speed v (1/f_r + 1/f_l) / 2."""
    odometry = Odometry(wheels(radius_error_percent=2.0, track_error_percent=5.0))
    left, right = odometry.errors(4).radius_factor
    data = odometry.run(None, ConstantTwist(Pose(), velocity=(1.0, 0, 0)), 0.0, 20.0, seed=4)
    yaw_rate, speed = (1 / right - 1 / left) / 0.5, (1 / right + 1 / left) / 2
    step = 2.0 * np.pi * 0.1 / 100_000
    assert yaw_of(data.quat_xyzw)[-1] == pytest.approx(yaw_rate * 20.0, abs=3 * step / 0.5)
    radius = speed / yaw_rate
    end = [radius * np.sin(20 * yaw_rate), radius * (1 - np.cos(20 * yaw_rate)), 0.0]
    np.testing.assert_allclose(data.xyz[-1], end, atol=1e-3)
    assert abs(end[1]) > 0.1
    track = odometry.errors(4).track_factor
    spin = odometry.run(None, ConstantTwist(Pose(), angular_velocity=(0, 0, 1.0)), 0.0, 2.0, seed=4)
    expected = 2.0 * track * (1 / right + 1 / left) / 2
    assert yaw_of(spin.quat_xyzw)[-1] == pytest.approx(expected, abs=3 * step / 0.5)
    assert abs(expected - 2.0) > 0.01


def test_slip_makes_the_wheels_roll_farther() -> None:
    motion = ConstantTwist(Pose(), velocity=(1.0, 0, 0))
    data = Odometry(wheels(slip_percent=10.0)).run(None, motion, 0.0, 10.0, seed=1)
    assert data.xyz[-1, 0] == pytest.approx(10.0 / 0.9, abs=1e-4)
    random = wheels(slip_sigma_percent=2.0, slip_correlation_time_s=0.1)
    data = Odometry(random).run(None, motion, 0.0, 400.0, seed=1)
    # 20 000 samples with a memory of 10 in all: relative deviation of sigma about √(10 / 20 000), 5 of them.
    slip = 1.0 - 1.0 / (0.1 * data.wheel_speed)
    np.testing.assert_allclose(slip.std(axis=0), 0.02, rtol=0.11)
    assert abs(np.corrcoef(slip.T)[0, 1]) < 0.1


def test_ticks() -> None:
    motion = ConstantTwist(Pose(), velocity=(0.5, 0, 0))
    config = wheels(ticks_per_turn=64)
    data = Odometry(config).run(None, motion, 0.0, 20.0, seed=2)
    step = 2.0 * np.pi / 64
    assert data.ticks.dtype == np.int64
    counts = data.wheel_speed / 50.0 / step
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-9)
    np.testing.assert_array_equal(np.rint(counts[1:]), np.diff(data.ticks, axis=0))
    travelled = (data.ticks[-1] - data.ticks[0]) * step * 0.1
    assert travelled == pytest.approx([0.5 * 19.98] * 2, abs=step * 0.1)
    assert np.unique(np.rint(counts)).tolist() == [1.0, 2.0]  # 1.02 on average
    assert (data.ticks[0] >= 0).all()
    backward = Odometry(config).run(None, ConstantTwist(Pose(), velocity=(-0.5, 0, 0)), 0.0, 20.0, seed=2)
    assert backward.xyz[-1, 0] == pytest.approx(-10.0, abs=0.02)


def test_steering_errors() -> None:
    data = {"steering_offset_deg": 1.0, "steering_noise_deg": 0.1}
    car = Odometry(wheels(kind="car", wheelbase_m=2.5, **data))
    run = car.run(None, Circle(5.0, 0.2), 0.0, 100.0, seed=3)
    assert run.steering_angle is not None
    error = np.degrees(run.steering_angle - np.arctan(2.5 * 0.2 / 5.0))
    assert error.mean() == pytest.approx(np.degrees(car.errors(3).steering_offset_rad), abs=0.1 * 4 / np.sqrt(5000))
    assert error.std() == pytest.approx(0.1, rel=0.05)


def test_bad_wheels() -> None:
    with pytest.raises(ConfigError, match="wheelbase_m must be given for a car, and only for a car"):
        wheels(kind="car")
    with pytest.raises(ConfigError, match="slip_sigma_percent above 0 needs slip_correlation_time_s"):
        wheels(slip_sigma_percent=1.0)
    with pytest.raises(ConfigError, match=r"wheel_radius_m: .*; ticks_per_turn"):
        wheels(ticks_per_turn=0, wheel_radius_m=float("nan"))
    with pytest.raises(ConfigError, match=r"unknown odometry 'husky': did you mean 'clearpath/husky'\?"):
        Odometry("husky")


# ---- barometer -----------------------------------------------------------------------------------------------------


def test_standard_atmosphere_against_its_tables() -> None:
    """ISO 2533 by geopotential height, and US Standard Atmosphere 1976 by geometric altitude."""
    height = [-1000.0, 0.0, 1000.0, 5000.0, 11_000.0, 20_000.0, 32_000.0]
    table = [113_929.0, 101_325.0, 89_874.6, 54_019.9, 22_632.0, 5_474.88, 868.014]
    np.testing.assert_allclose(isa_pressure(height), table, rtol=1e-5)
    altitude = geopotential_height([1000.0, 5000.0, 10_000.0, 20_000.0])
    np.testing.assert_allclose(isa_pressure(altitude), [89_876.0, 54_048.0, 26_500.0, 5_529.3], rtol=1e-5)


@pytest.mark.parametrize("day", [(101_325.0, 288.15), (98_000.0, 265.0), (104_000.0, 305.0)])
def test_height_and_pressure_are_inverse(day: tuple[float, float]) -> None:
    height = np.linspace(-4_900.0, 31_900.0, 500)
    np.testing.assert_allclose(isa_height(isa_pressure(height, *day), *day), height, atol=1e-7)
    np.testing.assert_allclose(geometric_altitude(geopotential_height(height)), height, atol=1e-7)
    # dp/dh = -ρ g: hydrostatic balance, whatever the layer.
    slope = (isa_pressure(height + 0.5, *day) - isa_pressure(height - 0.5, *day)).ravel()
    temperature = day[1] - 6.5e-3 * np.minimum(height, 11_000) + 1e-3 * np.maximum(height - 20_000, 0)
    density = isa_pressure(height, *day) / (287.05287 * temperature)
    near_edge = np.min(np.abs(height[:, None] - [11_000.0, 20_000.0]), axis=1) < 1.0
    np.testing.assert_allclose(slope[~near_edge], (-density * 9.80665)[~near_edge], rtol=1e-6)


def barometer(**changes: Any) -> BarometerConfig:
    data = {"name": "test", "rate_hz": 50.0, "max_rate_hz": 200.0, "sources": SOURCE}
    return parse(BarometerConfig, data | changes, "a test")


def test_barometer_without_errors() -> None:
    climb = ConstantTwist(Pose(), velocity=(0, 0, 2.0))
    data = Barometer(barometer(), noise=False, altitude_m=500.0).run(None, climb, 0.0, 10.0, mount=Pose((0, 0, 1.5)))
    np.testing.assert_allclose(data.altitude, 501.5 + 2.0 * data.time, atol=1e-7)
    assert data.pressure[0] == pytest.approx(float(isa_pressure(geopotential_height(501.5))), rel=1e-12)
    assert data.pressure_variance == 0.0
    # On a day of low pressure an altimeter set to the standard shows too high: about 8.3 m a hectopascal.
    low = Barometer(barometer(), noise=False, sea_level_pa=100_325.0).run(None, Fixed(Pose()), 0.0, 0.1)
    assert low.altitude[0] == pytest.approx(83.5, abs=0.5)


def test_barometer_noise_offset_drift_delay_and_rounding() -> None:
    still = Fixed(Pose())
    noisy = Barometer(barometer(noise_pa=3.0)).run(None, still, 0.0, 200.0, seed=1)
    assert noisy.pressure.std() == pytest.approx(3.0, rel=4 / np.sqrt(2 * 10_000))
    assert noisy.pressure_variance == 9.0
    offsets = [Barometer(barometer(offset_pa=50.0)).run(None, still, 0.0, 0.02, seed=s).pressure[0] for s in range(400)]
    assert np.std(np.array(offsets) - 101_325.0) == pytest.approx(50.0, rel=4 / np.sqrt(800))
    drift = Barometer(barometer(drift_pa=5.0, drift_correlation_time_s=1.0)).run(None, still, 0.0, 4000.0, seed=1)
    assert drift.pressure.std() == pytest.approx(5.0, rel=0.1)  # 2000 independent values: 6 deviations
    lag = np.corrcoef(drift.pressure[:-50], drift.pressure[50:])[0, 1]
    assert lag == pytest.approx(np.exp(-1.0), abs=0.1)
    late = Barometer(barometer(delay_s=0.5)).run(None, ConstantTwist(Pose(), velocity=(0, 0, 2.0)), 0.0, 1.0)
    np.testing.assert_allclose(late.altitude, 2.0 * (late.time - 0.5), atol=1e-6)
    steps = Barometer(barometer(resolution_pa=2.0, noise_pa=5.0)).run(None, still, 0.0, 5.0).pressure / 2.0
    np.testing.assert_array_equal(steps, np.rint(steps))


def test_bad_air() -> None:
    with pytest.raises(ConfigError, match="altitude: the standard atmosphere reaches from -5000 to 32000 m"):
        isa_pressure([0.0, np.nan])
    with pytest.raises(ConfigError, match="pressure: must be finite and above 0 Pa"):
        isa_height(0.0)
    with pytest.raises(ConfigError, match=r"sea_level_pa: must be from 80000 to 110000 Pa, got 1013\.25"):
        Barometer(barometer(), sea_level_pa=1013.25)
    with pytest.raises(ConfigError, match="altitude_m: must be finite"):
        Barometer(barometer(), altitude_m=np.nan)
    with pytest.raises(ConfigError, match="drift_pa above 0 needs drift_correlation_time_s"):
        barometer(drift_pa=1.0)


# ---- magnetometer --------------------------------------------------------------------------------------------------

# Published test values of WMM2025: year, height [km], latitude, longitude [deg], north, east, down [nT].
WMM2025 = [
    (2025.0, 28, 89, -121, -255, -1482, 56194),
    (2025.0, 65, 43, 93, 24300, 211, 50038),
    (2025.0, 39, -59, -8, 14358, -4049, -24389),
    (2025.0, 18, 0, 21, 29275, 660, -14317),
    (2026.5, 14, 0, 80, 39431, -2133, -12189),
    (2026.5, 12, -79, 115, -9614, -8786, -58104),
    (2027.5, 0, -13, -59, 21366, -6733, -6112),
    (2028.5, 11, 34, 0, 29078, 798, 30946),
    (2029.0, 95, -70, 42, 10426, -14921, -38237),
    (2029.5, 31, 13, -132, 27796, 4421, 17188),
]


@pytest.mark.parametrize("row", WMM2025)
def test_world_magnetic_model_against_its_test_values(row: tuple[float, ...]) -> None:
    """Within the rounding of the published table."""
    year, height_km, latitude, longitude, north, east, down = row
    found = earth_field(latitude, longitude, height_km * 1000.0, year) * 1e9
    np.testing.assert_allclose(found, [east, north, -down], atol=0.51)


def test_dipole_alone() -> None:
    """Degree 1: strength B0 √(1 + 3 sin² of the magnetic latitude) on a sphere, within the ellipsoid's flattening."""
    axis = np.array([-1410.8, 4545.4, -29351.8])
    moment = np.linalg.norm(axis)
    for latitude, longitude in ((0.0, 0.0), (48.0, 11.0), (-35.0, 150.0)):
        up = np.array([np.cos(np.radians(latitude)) * np.cos(np.radians(longitude)),
                       np.cos(np.radians(latitude)) * np.sin(np.radians(longitude)),
                       np.sin(np.radians(latitude))])  # fmt: skip
        expected = moment * np.sqrt(1.0 + 3.0 * (up @ axis / moment) ** 2)
        found = np.linalg.norm(earth_field(latitude, longitude, degree=1)) * 1e9
        assert found == pytest.approx(expected, rel=0.01)
    for pole in (90.0, -90.0):
        assert np.linalg.norm(earth_field(pole, 0.0)) == pytest.approx(np.linalg.norm(earth_field(pole, 77.0)))


def compass(**changes: Any) -> MagnetometerConfig:
    data = {"name": "test", "rate_hz": 50.0, "max_rate_hz": 200.0, "range_ut": 800.0, "sources": SOURCE}
    return parse(MagnetometerConfig, data | changes, "a test")


def test_field_turns_with_the_sensor() -> None:
    """x to the east at first: a quarter turn to the left makes it north, so it reads the northern field."""
    exact = Magnetometer(compass(), noise=False, field_ut=(1.0, 20.0, -45.0))
    east = exact.run(None, Fixed(Pose()), 0.0, 0.02).magnetic_field[0]
    north = exact.run(None, Fixed(Pose()), 0.0, 0.02, mount=Pose(rpy_deg=(0, 0, 90))).magnetic_field[0]
    upside = exact.run(None, Fixed(Pose(rpy_deg=(180, 0, 0))), 0.0, 0.02).magnetic_field[0]
    expected = [[1.0, 20.0, -45.0], [20.0, -1.0, -45.0], [1.0, -20.0, 45.0]]
    np.testing.assert_allclose(1e6 * np.array([east, north, upside]), expected, atol=1e-12)
    munich = Magnetometer(compass(), noise=False, latitude_deg=48.1, longitude_deg=11.6)
    declination = np.degrees(np.arctan2(munich.field[0], munich.field[1]))
    assert declination == pytest.approx(4.2, abs=0.3)
    assert np.linalg.norm(munich.field) == pytest.approx(48.8e-6, rel=0.01)


def test_iron_makes_the_sphere_an_ellipsoid() -> None:
    """Readings of a tumbling sensor lie on |soft⁻¹ (B - hard)| = |field|."""
    iron = Iron(np.array([[1.05, 0.02, 0.0], [0.02, 0.97, -0.03], [0.0, -0.03, 1.01]]), np.array([8e-6, -3e-6, 5e-6]))
    motion = ConstantTwist(Pose(), angular_velocity=(0.7, 1.1, 0.4))
    data = Magnetometer(compass(), iron=iron).run(None, motion, 0.0, 20.0)
    sphere = (data.magnetic_field - iron.hard) @ np.linalg.inv(iron.soft).T
    np.testing.assert_allclose(np.linalg.norm(sphere, axis=1), np.hypot(20e-6, 45e-6), rtol=1e-12)
    drawn = [Magnetometer(compass(hard_iron_ut=10.0, soft_iron_percent=3.0)).iron(seed) for seed in range(400)]
    soft, hard = np.array([i.soft for i in drawn]) - np.eye(3), np.array([i.hard for i in drawn])
    np.testing.assert_array_equal(soft, np.swapaxes(soft, 1, 2))
    np.testing.assert_allclose(soft.std(axis=0), 0.03, rtol=4.5 / np.sqrt(800))
    assert hard.std() == pytest.approx(10e-6, rel=4 / np.sqrt(2400))


def test_magnetometer_noise_saturation_and_rounding() -> None:
    still = Fixed(Pose())
    data = Magnetometer(compass(noise_ut=0.5, resolution_ut=0.3)).run(None, still, 0.0, 200.0, seed=1)
    counts = data.magnetic_field / 0.3e-6
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-7)
    expected = 0.25e-12 + 0.09e-12 / 12.0
    assert data.magnetic_field_covariance[0, 0] == pytest.approx(expected)
    np.testing.assert_allclose(data.magnetic_field.var(axis=0), expected, rtol=5 * np.sqrt(2 / 10_000))
    weak = Magnetometer(compass(range_ut=30.0)).run(None, still, 0.0, 0.02).magnetic_field[0]
    np.testing.assert_allclose(1e6 * weak, [0.0, 20.0, -30.0], atol=1e-9)


def test_bad_fields() -> None:
    for arguments, message in (
        ((91.0, 0.0), "latitude_deg: must be from -90 to 90, got 91"),
        ((0.0, np.nan), "longitude_deg: must be from -180 to 360, got nan"),
        ((0.0, 0.0, 0.0, 2031.0), "year: must be from 2025 to 2030, got 2031"),
        ((0.0, 0.0, 0.0, 2025.0, 13), "degree: must be a whole number from 1 to 12, got 13"),
    ):
        with pytest.raises(ConfigError, match=message):
            earth_field(*arguments)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="latitude_deg: give it together with longitude_deg"):
        Magnetometer(compass(), latitude_deg=1.0)
    with pytest.raises(ConfigError, match="field_ut: give it or latitude_deg"):
        Magnetometer(compass(), latitude_deg=1.0, longitude_deg=1.0, field_ut=(0, 1, 2))
    with pytest.raises(ConfigError, match="field_ut: must be 3 finite numbers"):
        Magnetometer(compass(), field_ut=(0, np.nan, 2))
    with pytest.raises(ConfigError, match=r"iron: hard must be \(3,\) finite numbers"):
        Iron(np.eye(3), np.zeros(2))


# ---- all of them ---------------------------------------------------------------------------------------------------

ALL = [
    *((Odometry, name) for name in preset_names("odometry")),
    *((Barometer, name) for name in preset_names("barometer")),
    *((Magnetometer, name) for name in preset_names("magnetometer")),
]


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_contract_and_presets(kind: Any, name: str) -> None:
    sensor = kind(name)
    motion = Circle(1.5, 0.2)
    check_sensor(sensor, World(), motion, time=3.3)
    assert same_bits(sensor.run(None, motion, 1.0, 1.0, seed=1), kind(name).run(None, motion, 1.0, 1.0, seed=1))
    assert not same_bits(
        sensor.run(None, motion, 1.0, 1.0, seed=1), kind(name, name="two").run(None, motion, 1.0, 1.0, seed=1)
    )
    stated = {path for source in sensor.config.sources for path in source.covers} | set(sensor.config.assumed)
    plain = {"name", "kind", "sources", "assumed"}
    assert stated == sensor.config.model_fields_set - plain
    with pytest.raises(ConfigError, match="rate_hz: must be above 0"):
        kind(name, rate_hz=np.nan)
    with pytest.raises(ConfigError, match="motion: expected an object with sample"):
        sensor.run(None, "drive", 0.0, 1.0)


@pytest.mark.parametrize("sensor", [Barometer("bosch/bmp388"), Magnetometer("bosch/bmm150")])
def test_split_runs_give_the_same_bits(sensor: Any) -> None:
    motion = Circle(1.5, 0.2)
    whole = sensor.run(None, motion, 0.0, 10.0, seed=5)
    parts = [sensor.run(None, motion, a, b - a, seed=5) for a, b in ((0.0, 4.1), (4.1, 10.0))]
    name = "pressure" if isinstance(sensor, Barometer) else "magnetic_field"
    assert np.concatenate([getattr(part, name) for part in parts]).tobytes() == getattr(whole, name).tobytes()
