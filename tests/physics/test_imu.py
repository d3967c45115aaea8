"""The inertial unit against closed forms: what it should read in known motions, and what its errors do."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from parhelion.core.config import parse
from parhelion.core.errors import ConfigError
from parhelion.core.noise import AxesErrors, digitised, sample_span
from parhelion.core.pose import Floats, Pose, quat_from_rpy, quat_multiply, quat_rotate
from parhelion.core.streams import BarometerData, ImuData, MagnetometerData, OdometryData, units
from parhelion.core.trajectory import ConstantTwist, Fixed
from parhelion.motion.state import BodyState
from parhelion.sensors.body.imu import STANDARD_GRAVITY, Imu, ImuConfig, UnitErrors
from parhelion.sensors.check import check_sensor, same_bits
from parhelion.sensors.sheets import PRESETS, preset_names
from parhelion.world.world import World

G = 9.80665
ADIS = "analog-devices/adis16470"
DEG = np.pi / 180.0


class Known:
    """A motion given by its closed form: subclasses implement position, angles and their derivatives."""

    def path(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        """Position, velocity and acceleration, (n, 3) each."""
        still = np.zeros((len(t), 3))
        return still, still, still

    def angles(self, t: Floats) -> tuple[Floats, Floats]:
        """Roll, pitch, yaw [rad] and their derivatives, (n, 3) each."""
        still = np.zeros((len(t), 3))
        return still, still

    def body_rate(self, t: Floats) -> Floats:
        (roll, pitch, _), (p, q, r) = (values.T for values in self.angles(t))
        return np.stack(
            [
                p - r * np.sin(pitch),
                q * np.cos(roll) + r * np.sin(roll) * np.cos(pitch),
                r * np.cos(roll) * np.cos(pitch) - q * np.sin(roll),
            ],
            axis=1,
        )

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        t = np.asarray(times, dtype=np.float64)
        return self.path(t)[0], quat_from_rpy(*self.angles(t)[0].T)

    def state(self, times: ArrayLike) -> BodyState:
        t = np.asarray(times, dtype=np.float64)
        xyz, velocity, acceleration = self.path(t)
        change = (self.body_rate(t + 1e-5) - self.body_rate(t - 1e-5)) / 2e-5
        quat = quat_from_rpy(*self.angles(t)[0].T)
        return BodyState(t, xyz, quat, velocity, self.body_rate(t), acceleration, change)


class FreeFall(Known):
    def path(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        down = np.array([0.0, 0.0, -G])
        return 0.5 * t[:, None] ** 2 * down, t[:, None] * down, np.tile(down, (len(t), 1))


class Turntable(Known):
    """Turns about the vertical, faster and faster: yaw = rate t + spin t² / 2."""

    def __init__(self, rate: float, spin: float = 0.0) -> None:
        self.rate, self.spin = rate, spin

    def angles(self, t: Floats) -> tuple[Floats, Floats]:
        none = np.zeros_like(t)
        angle = np.stack([none, none, self.rate * t + 0.5 * self.spin * t**2], axis=1)
        return angle, np.stack([none, none, self.rate + self.spin * t], axis=1)


class Shaker(Known):
    """5 cm at 2 Hz along x."""

    def path(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        w, along = 4.0 * np.pi, np.array([0.05, 0.0, 0.0])
        s, c = np.sin(w * t)[:, None], np.cos(w * t)[:, None]
        return s * along, w * c * along, -w * w * s * along


class Wild(Known):
    """A drive in figures of eight over rough ground, with 3 Hz coning of 2 degrees and a heave in phase with it."""

    OMEGA = np.array([0.21, 0.13, 0.31, 6.0 * np.pi])

    def path(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        a, b, c, d = self.OMEGA
        x = (30.0 * np.sin(a * t), 30.0 * a * np.cos(a * t), -30.0 * a * a * np.sin(a * t))
        y = (15.0 * np.sin(b * t + 1), 15.0 * b * np.cos(b * t + 1), -15.0 * b * b * np.sin(b * t + 1))
        z = (
            np.sin(c * t) + 0.005 * np.sin(d * t),
            c * np.cos(c * t) + 0.005 * d * np.cos(d * t),
            -c * c * np.sin(c * t) - 0.005 * d * d * np.sin(d * t),
        )
        first, second, third = (np.stack(part, axis=1) for part in zip(x, y, z, strict=True))
        return first, second, third

    def angles(self, t: Floats) -> tuple[Floats, Floats]:
        d = self.OMEGA[3]
        roll = (0.1 * np.sin(0.5 * t) + 0.035 * np.sin(d * t), 0.05 * np.cos(0.5 * t) + 0.035 * d * np.cos(d * t))
        pitch = (0.1 * np.cos(0.4 * t) + 0.035 * np.cos(d * t), -0.04 * np.sin(0.4 * t) - 0.035 * d * np.sin(d * t))
        yaw = (2.0 * np.sin(0.2 * t), 0.4 * np.cos(0.2 * t))
        angle, rate = (np.stack(part, axis=1) for part in zip(roll, pitch, yaw, strict=True))
        return angle, rate


def truth(motion: Any, *, duration: float = 2.0, rate_hz: float = 200.0, mount: Pose | None = None) -> ImuData:
    return Imu(ADIS, rate_hz=rate_hz, noise=False).run(None, motion, 0.0, duration, mount=mount)


def bare(**changes: dict[str, Any]) -> ImuConfig:
    """A unit without any error but those given."""
    data: dict[str, Any] = {
        "name": "bare", "grade": "tactical", "rate_hz": 100.0, "max_rate_hz": 1000.0,
        "gyroscope": {"range_deg_s": 1000.0} | changes.get("gyroscope", {}),
        "accelerometer": {"range_g": 50.0} | changes.get("accelerometer", {}),
        "sources": [{"title": "a test", "covers": ["name"]}],
    }  # fmt: skip
    if "orientation" in changes:
        data["orientation"] = changes["orientation"]
    return parse(ImuConfig, data, "a test")


# ---- truth ---------------------------------------------------------------------------------------------------------


def test_at_rest_it_reads_g_upward() -> None:
    data = truth(Fixed(Pose((3.0, -2.0, 1.0), rpy_deg=(0, 0, 40))))
    np.testing.assert_allclose(data.specific_force, np.tile([0.0, 0.0, G], (400, 1)), atol=1e-9)
    np.testing.assert_allclose(data.angular_rate, 0.0, atol=1e-10)
    np.testing.assert_array_equal(data.time, np.arange(400) / 200.0)
    assert STANDARD_GRAVITY == G


@pytest.mark.parametrize("tilt_deg", [30.0, -75.0, 180.0])
def test_gravity_turns_with_body_and_mount(tilt_deg: float) -> None:
    s, c = np.sin(tilt_deg * DEG), np.cos(tilt_deg * DEG)
    by_body = truth(Fixed(Pose(rpy_deg=(tilt_deg, 0, 0))))
    by_mount = truth(Fixed(Pose()), mount=Pose(rpy_deg=(tilt_deg, 0, 0)))
    for data in (by_body, by_mount):
        np.testing.assert_allclose(data.specific_force, np.tile([0.0, G * s, G * c], (400, 1)), atol=1e-9)


def test_free_fall_reads_nothing() -> None:
    np.testing.assert_allclose(truth(FreeFall()).specific_force, 0.0, atol=1e-12)


def test_turntable_with_lever_arm() -> None:
    """Centripetal -ω² r inward, Euler α r along the motion, g upward."""
    rate, spin, r = 2.0, 0.3, 0.4
    data = truth(Turntable(rate, spin), mount=Pose((r, 0.0, 0.1)))
    omega = rate + spin * data.time
    expected = np.stack([-(omega**2) * r, np.full(400, spin * r), np.full(400, G)], axis=1)
    np.testing.assert_allclose(data.specific_force, expected, atol=1e-8)
    np.testing.assert_allclose(data.angular_rate, np.stack([0 * omega, 0 * omega, omega], axis=1), atol=1e-12)


def test_turntable_of_which_only_poses_are_known() -> None:
    """The same by numeric derivatives, with a mount that is turned a quarter: tolerance of those derivatives."""
    motion = ConstantTwist(Pose(), angular_velocity=(0.0, 0.0, 2.0))
    data = truth(motion, mount=Pose((0.4, 0.0, 0.0), rpy_deg=(0, 0, 90)))
    np.testing.assert_allclose(data.specific_force, np.tile([0.0, 4.0 * 0.4, G], (400, 1)), atol=1e-6)
    np.testing.assert_allclose(data.angular_rate, np.tile([0.0, 0.0, 2.0], (400, 1)), atol=1e-9)


def test_known_sine() -> None:
    data = truth(Shaker())
    w = 4.0 * np.pi
    np.testing.assert_allclose(data.specific_force[:, 0], -0.05 * w**2 * np.sin(w * data.time), atol=1e-12)
    assert np.abs(data.specific_force[:, 0]).max() == pytest.approx(7.8957, abs=0.01)


def turn_of(vector: Floats) -> Floats:
    angle = float(np.linalg.norm(vector))
    return np.append(0.5 * np.sinc(angle / (2.0 * np.pi)) * vector, np.cos(0.5 * angle))


def strapdown(data: ImuData, xyz: Floats, quat: Floats, velocity: Floats) -> tuple[Floats, Floats]:
    """Position and orientation at the last sample, by the two-sample algorithm with coning and sculling terms.

    Savage 1998: increments of each half from the parabola through three samples.
    """
    h = data.time[1] - data.time[0]
    gravity = np.array([0.0, 0.0, -G])
    halves = [
        (h * (5 * s[:-2:2] + 8 * s[1:-1:2] - s[2::2]) / 12, h * (8 * s[1:-1:2] + 5 * s[2::2] - s[:-2:2]) / 12)
        for s in (data.angular_rate, data.specific_force)
    ]
    (turns_1, turns_2), (pushes_1, pushes_2) = halves
    before = quat_rotate(quat, data.specific_force[0]) + gravity
    for k, (t1, t2, p1, p2) in enumerate(zip(turns_1, turns_2, pushes_1, pushes_2, strict=True)):
        turn, push = t1 + t2, p1 + p2
        lean = np.cross(turn, push)
        push = push + 0.5 * lean + np.cross(turn, lean) / 6.0 + 2.0 / 3.0 * (np.cross(t1, p2) + np.cross(p1, t2))
        faster = velocity + quat_rotate(quat, push) + 2.0 * h * gravity
        quat = quat_multiply(quat, turn_of(turn + 2.0 / 3.0 * np.cross(t1, t2)))
        after = quat_rotate(quat, data.specific_force[2 * k + 2]) + gravity
        xyz = xyz + h * (velocity + faster) + h * h / 3.0 * (before - after)
        velocity, before = faster, after
    return xyz, quat


def test_integrated_truth_returns_the_trajectory() -> None:
    """60 s at 200 Hz, at a lever arm: within 1 cm and 0.01 degrees of where the mount is."""
    motion, mount = Wild(), Pose((0.7, -0.3, 0.4), rpy_deg=(5, -10, 120))
    data = truth(motion, duration=60.0 + 1.0 / 200.0, mount=mount)
    assert data.time[-1] == 60.0
    xyz, quat = motion.sample([0.0, 60.0])
    start, end = (Pose(xyz[i], quat[i]) @ mount for i in (0, 1))
    body = motion.state([0.0])
    velocity = body.velocity[0] + quat_rotate(quat[0], np.cross(body.angular_velocity[0], mount.xyz))
    found_xyz, found_quat = strapdown(data, start.xyz, start.quat_xyzw, velocity)
    assert np.linalg.norm(found_xyz - end.xyz) < 0.01
    assert 2.0 * np.degrees(np.arccos(min(1.0, abs(float(found_quat @ end.quat_xyzw))))) < 0.01
    assert np.linalg.norm(end.xyz - start.xyz) > 1.0  # it did go somewhere


# ---- errors --------------------------------------------------------------------------------------------------------


def test_fixed_errors_are_the_matrix_the_bias_and_the_g_sensitivity() -> None:
    matrix = np.array([[1.01, 0.002, -0.003], [0.001, 0.99, 0.004], [-0.002, 0.003, 1.002]])
    unit = UnitErrors(
        AxesErrors(matrix, np.array([0.01, -0.02, 0.03])),
        AxesErrors(matrix.T, np.array([0.1, 0.2, -0.3])),
        np.array([[1e-4, 0.0, 2e-4], [0.0, 3e-4, 0.0], [0.0, 0.0, -1e-4]]),
    )
    motion = ConstantTwist(Pose(rpy_deg=(20, -10, 0)), angular_velocity=(0.0, 0.0, 1.0))
    true = truth(motion, duration=1.0, rate_hz=100.0)
    data = Imu(bare(), unit=unit).run(None, motion, 0.0, 1.0)
    force = true.specific_force @ matrix + [0.1, 0.2, -0.3]
    rate = true.angular_rate @ matrix.T + true.specific_force @ unit.g_sensitivity.T + [0.01, -0.02, 0.03]
    np.testing.assert_allclose(data.specific_force, force, atol=1e-12)
    np.testing.assert_allclose(data.angular_rate, rate, atol=1e-12)


def test_saturation() -> None:
    motion = ConstantTwist(Pose(), angular_velocity=(0.0, 0.0, -200.0 * DEG))
    data = Imu("analog-devices/adis16495-1").run(None, motion, 0.0, 1.0, seed=1, mount=Pose((30.0, 0.0, 0.0)))
    assert np.abs(data.angular_rate[:, 2] + 125.0 * DEG).max() < 1e-9
    assert np.abs(data.specific_force[:, 0] + 8.0 * G).max() < 1e-6  # 37 g inward is more than its 8 g


def test_quantisation() -> None:
    config = bare(gyroscope={"resolution_deg_s": 0.1, "noise_deg_s_sqrt_hz": 0.05},
                  accelerometer={"resolution_mg": 3.0, "noise_ug_sqrt_hz": 1000.0})  # fmt: skip
    data = Imu(config).run(None, Fixed(Pose()), 0.0, 20.0, seed=3)
    for values, step in ((data.angular_rate, 0.1 * DEG), (data.specific_force, 0.003 * G)):
        counts = values / step
        np.testing.assert_allclose(counts, np.rint(counts), atol=1e-9)
        assert len(np.unique(np.rint(counts[:, 0]))) > 5
    # Rounding adds step² / 12 to the variance of noise wider than a step (Widrow); 2000 samples, 5 deviations.
    variance = data.angular_rate.var(axis=0)
    expected = (0.5 * DEG) ** 2 + (0.1 * DEG) ** 2 / 12.0
    assert data.angular_rate_covariance[0, 0] == pytest.approx(expected)
    np.testing.assert_allclose(variance, expected, rtol=5.0 * np.sqrt(2.0 / 2000.0))
    assert digitised(np.array([2.0, -2.0, 0.26]), 1.0, 0.3) == pytest.approx([0.9, -0.9, 0.3])
    assert digitised(np.array([2.0, -2.0, 0.26]), 1.0, 0.0) == pytest.approx([1.0, -1.0, 0.26])


def test_orientation_of_a_unit_that_estimates_it() -> None:
    sheet = {"roll_pitch_deg": 1.0, "yaw_deg": 2.0, "correlation_time_s": 0.5}
    pose = Pose(rpy_deg=(10, 20, 30))
    imu = Imu(bare(orientation=sheet))
    data = imu.run(None, Fixed(pose), 0.0, 2000.0, seed=1)
    assert data.orientation is not None
    assert data.orientation_covariance is not None
    np.testing.assert_allclose(np.linalg.norm(data.orientation, axis=1), 1.0, atol=1e-12)
    back = np.array([-1.0, -1.0, -1.0, 1.0]) * pose.quat_xyzw
    turn = 2.0 * quat_multiply(data.orientation, np.tile(back, (len(data), 1)))[:, :3]
    # 2000 s hold some 2000 independent values of a walk of 0.5 s; 5 %.
    np.testing.assert_allclose(np.degrees(turn.std(axis=0)), [1.0, 1.0, 2.0], rtol=0.05)
    np.testing.assert_allclose(np.degrees(np.sqrt(np.diag(data.orientation_covariance))), [1.0, 1.0, 2.0])
    exact = Imu(bare(orientation=sheet), noise=False).run(None, Fixed(pose), 0.0, 1.0)
    assert exact.orientation is not None
    np.testing.assert_allclose(exact.orientation, np.tile(pose.quat_xyzw, (100, 1)), atol=1e-15)
    assert Imu(ADIS).run(None, Fixed(pose), 0.0, 0.1).orientation is None


# ---- the same again ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0.0, -3.0, 1.7e9])
def test_a_split_run_gives_the_same_bits(start: float) -> None:
    imu, motion = Imu("xsens/mti-3"), Turntable(0.2)
    whole = imu.run(None, motion, start, 10.0, seed=5)
    parts = [imu.run(None, motion, start + a, b - a, seed=5) for a, b in ((0.0, 3.71), (3.71, 3.72), (3.72, 10.0))]
    assert [len(part) for part in parts] == [371, 1, 628]
    for name in ("time", "specific_force", "angular_rate", "orientation"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        assert joined.tobytes() == getattr(whole, name).tobytes(), name


def test_seeds_names_and_the_contract() -> None:
    motion = Turntable(0.5)
    imu = Imu("bosch/bmi160")
    check_sensor(imu, World(), motion, time=12.3)
    first = imu.run(None, motion, 0.0, 2.0, seed=1)
    assert same_bits(first, Imu("bosch/bmi160").run(None, motion, 0.0, 2.0, seed=1))
    for other in (
        imu.run(None, motion, 0.0, 2.0, seed=2),
        Imu("bosch/bmi160", name="rear").run(None, motion, 0.0, 2.0, seed=1),
    ):
        assert np.mean(other.angular_rate == first.angular_rate) < 0.1
        assert np.mean(other.specific_force == first.specific_force) < 0.1
    one = imu.measure(World(), motion, 1.0, 1)
    assert len(one) == 1
    np.testing.assert_array_equal(one.angular_rate[0], first.angular_rate[200])


def test_spans_of_samples() -> None:
    assert sample_span(0.0, 1.0, 100.0) == (0, 100)
    assert sample_span(0.3, 0.3, 10.0) == (3, 3)  # 0.3 + 0.3 lies a rounding step off 0.6
    assert sample_span(0.301, 0.3, 10.0) == (4, 3)
    assert sample_span(1.7e9 + 0.1, 0.2, 100.0) == (170_000_000_010, 20)


def test_records_are_frozen_and_say_their_units() -> None:
    data = truth(Fixed(Pose()), duration=0.1)
    with pytest.raises(ValueError, match="read-only"):
        data.specific_force[0] = 0.0
    assert units(data)["specific_force"] == ("m/s^2", "sensor")
    for record in (ImuData, OdometryData, BarometerData, MagnetometerData):
        assert all(unit for unit, _ in units(record).values())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(data)).specific_force, data.specific_force)
    with pytest.raises(ConfigError, match=r"ImuData: angular_rate must have shape \(2, 3\), got shape \(1, 3\)"):
        ImuData(np.zeros(2), np.zeros((2, 3)), np.zeros((1, 3)), np.eye(3), np.eye(3))
    with pytest.raises(ConfigError, match="ImuData: specific_force must be finite"):
        ImuData(np.zeros(1), np.full((1, 3), np.nan), np.zeros((1, 3)), np.eye(3), np.eye(3))


# ---- presets and bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", preset_names("imu"))
def test_every_figure_of_a_preset_has_a_source_or_a_reason(name: str) -> None:
    config = Imu(name).config
    stated = {path for source in config.sources for path in source.covers} | set(config.assumed)
    given = {f"{block}.{field}" for block in ("gyroscope", "accelerometer", "orientation")
             for field in getattr(getattr(config, block), "model_fields_set", set())}  # fmt: skip
    given |= {"rate_hz", "max_rate_hz"}
    assert stated == given


def test_presets_hold_the_figures_of_their_sheets() -> None:
    adis, tactical, bosch = (Imu(n).config for n in (ADIS, "analog-devices/adis16495-1", "bosch/bmi160"))
    # Angular random walk in deg/√h is 60 N; a one-sided noise density is √2 N.
    assert 60.0 * adis.gyroscope.noise_deg_s_sqrt_hz == pytest.approx(0.34, rel=0.01)
    assert np.sqrt(2.0) * adis.gyroscope.noise_deg_s_sqrt_hz == pytest.approx(0.008, rel=0.01)
    assert 60.0 * adis.accelerometer.noise_ug_sqrt_hz * 1e-6 * G == pytest.approx(0.037, rel=0.01)
    assert 60.0 * tactical.gyroscope.noise_deg_s_sqrt_hz == pytest.approx(0.09, rel=0.01)
    assert np.sqrt(2.0) * bosch.gyroscope.noise_deg_s_sqrt_hz == pytest.approx(0.007, rel=0.01)
    assert np.sqrt(2.0) * bosch.accelerometer.noise_ug_sqrt_hz == pytest.approx(180.0, rel=0.01)


def test_presets_by_name_and_by_path(tmp_path: Path) -> None:
    copy = tmp_path / "mine.yaml"
    copy.write_text((PRESETS / "imu/bosch/bmi160.yaml").read_text().replace("rate_hz: 200.0", "rate_hz: 400.0", 1))
    assert Imu(copy).rate_hz == 400.0
    assert repr(Imu("Bosch/BMI160", rate_hz=50)) == "<Imu bosch/bmi160: 50 Hz>"


@pytest.mark.parametrize("rate_hz", [0.0, -1.0, np.nan, 1e9])
def test_bad_rates(rate_hz: float) -> None:
    with pytest.raises(ConfigError, match="rate_hz: must be above 0 and at most 2000 Hz, got"):
        Imu(ADIS, rate_hz=rate_hz)


def test_bad_input_gives_a_one_line_error() -> None:
    with pytest.raises(ConfigError, match=r"unknown imu 'bosch/bmi16': did you mean 'bosch/bmi160'\?"):
        Imu("bosch/bmi16")
    imu = Imu(ADIS)
    with pytest.raises(ConfigError, match="motion: expected an object with sample"):
        imu.run(None, "drive", 0.0, 1.0)  # type: ignore[arg-type]
    for duration in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ConfigError, match="duration: must be finite and above 0 s"):
            imu.run(None, Fixed(Pose()), 0.0, duration)
    with pytest.raises(ConfigError, match=r"duration: 1e\+06 s at 200 Hz is more than 100000000 samples"):
        imu.run(None, Fixed(Pose()), 0.0, 1e6)
    with pytest.raises(ConfigError, match="time: must be finite"):
        imu.measure(World(), Fixed(Pose()), np.nan, 0)
    with pytest.raises(ConfigError, match="seed: must be a whole number"):
        imu.run(None, Fixed(Pose()), 0.0, 1.0, seed=-1)
    with pytest.raises(ConfigError, match="gyroscope: bias_instability_deg_h above 0 needs bias_correlation_time_s"):
        bare(gyroscope={"bias_instability_deg_h": 1.0})
    with pytest.raises(ConfigError, match=r"did you mean 'noise_deg_s_sqrt_hz'\?; accelerometer\.noise_ug_sqrt_hz"):
        bare(gyroscope={"noise_deg_s": 1.0}, accelerometer={"noise_ug_sqrt_hz": float("nan")})
    with pytest.raises(ConfigError, match=r"unit errors: bias must be \(3,\) finite numbers"):
        AxesErrors(np.eye(3), np.array([0.0, np.nan, 0.0]))
