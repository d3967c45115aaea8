"""The vessel against closed forms: Archimedes, natural periods, terminal speed, energy, and long waves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_from_rpy
from parhelion.motion.drivers import drive
from parhelion.motion.sea_spectrum import GRAVITY_M_S2 as G
from parhelion.motion.vehicles import Hull, ThrustCommand, Vessel, vehicle, vehicle_sheet
from parhelion.motion.vehicles.sheets import HullConfig, Source, Thruster, VesselConfig
from parhelion.motion.water import CalmWater, GerstnerWater, GerstnerWave, OceanWater, Water

LENGTH, BEAM, HEIGHT, MASS, KEEL_TO_MASS = 4.0, 2.0, 1.0, 2000.0, 0.4
DRAUGHT = MASS / (1000.0 * LENGTH * BEAM)
GYRATION = (0.7, 1.1, 1.2)
ADDED = (0.1, 0.8, 0.9, 0.25, 0.6, 0.5)
IDLE = ThrustCommand(0.0, 0.0)


def barge(water: Water | None = None, **changes: Any) -> Vessel:
    """A box without drag, its thrusters at the height of the centre of mass."""
    motor = {"x_m": -1.8, "height_m": KEEL_TO_MASS, "max_forward_n": 500.0, "max_reverse_n": 300.0, "lag_s": 0.4}
    fields: dict[str, Any] = {
        "kind": "vessel",
        "name": "barge",
        "mass_kg": MASS,
        "size_m": (LENGTH, BEAM, HEIGHT),
        "hull": HullConfig(shape="box", length_m=LENGTH, beam_m=BEAM, height_m=HEIGHT),
        "centre_of_mass_height_m": KEEL_TO_MASS,
        "gyration_m": GYRATION,
        "added_mass": ADDED,
        "linear_drag": (0.0,) * 6,
        "quadratic_drag": (0.0,) * 6,
        "port": Thruster(y_m=0.6, **motor),
        "starboard": Thruster(y_m=-0.6, **motor),
        "sources": [Source(title="test", covers=["hull"])],
    }
    return Vessel(VesselConfig(**{**fields, **changes}), water)


def rows(one: Vessel, seconds: float, command: ThrustCommand = IDLE, dt: float = 0.02) -> Floats:
    found = [one.row()]
    for _ in range(round(seconds / dt)):
        one.step(command, dt)
        found.append(one.row())
    return np.array(found)


def period(times: Floats, values: Floats) -> float:
    """Mean time between zero crossings, doubled; crossings by linear interpolation."""
    at = np.flatnonzero(values[:-1] * values[1:] < 0.0)
    cross = times[at] - values[at] * (times[at + 1] - times[at]) / (values[at + 1] - values[at])
    assert len(cross) > 5
    return 2.0 * float(np.mean(np.diff(cross)))


# ---- hull ----------------------------------------------------------------------------------------------------------


def test_a_box_hull_by_hand() -> None:
    hull = Hull.box(LENGTH, BEAM, HEIGHT)
    assert hull.volume(0.3) == pytest.approx(LENGTH * BEAM * 0.3, rel=1e-14)
    assert hull.volume(-1.0) == 0.0
    assert hull.volume(9.0) == pytest.approx(LENGTH * BEAM * HEIGHT, rel=1e-14)
    assert hull.draught(2.0) == pytest.approx(0.25, rel=1e-14)
    assert hull.centre_of_buoyancy(0.3) == pytest.approx((0.0, 0.15), abs=1e-14)
    area, roll, pitch = hull.waterplane(0.3)
    assert area == pytest.approx(LENGTH * BEAM, rel=1e-14)
    assert roll == pytest.approx(LENGTH * BEAM**3 / 12.0, rel=1e-14)
    assert pitch == pytest.approx(BEAM * LENGTH**3 / 12.0, rel=1e-14)


def test_a_boat_hull_by_integrals() -> None:
    """Full width on 60 % of the length, a parabola on the rest: plan area L B (0.6 + 0.4 * 2/3)."""
    hull = Hull.boat(5.0, 2.0, 1.5, bow_share=0.4)
    assert hull.waterplane(0.5)[0] == pytest.approx(10.0 * (0.6 + 0.4 * 2.0 / 3.0), rel=1e-12)
    wedge = Hull.boat(5.0, 2.0, 1.5, deadrise_deg=20.0)
    side = math.tan(math.radians(20.0))  # height of the bottom at the sides
    assert wedge.volume(0.9) == pytest.approx(5.0 * (2.0 * 0.9 - side), rel=1e-12)
    rising = Hull.boat(5.0, 2.0, 1.5, bow_share=0.4, bow_rise_m=0.3)
    lost = 5.0 * 0.4 * 2.0 * 0.3 * (1.0 / 3.0 - 1.0 / 5.0)  # integral of xi^2 (1 - xi^2)
    assert rising.volume(0.9) == pytest.approx(hull.volume(0.9) - lost, rel=1e-12)


def test_a_mesh_hull_is_what_its_mesh_encloses() -> None:
    import trimesh

    box = trimesh.creation.box((LENGTH, BEAM, HEIGHT))
    hull = Hull.from_mesh(box.vertices, box.faces)
    assert hull.volume(0.3) == pytest.approx(LENGTH * BEAM * 0.3, rel=1e-9)
    assert hull.bottom.min() == 0.0
    ball = trimesh.creation.icosphere(subdivisions=3, radius=1.0)
    round_hull = Hull.from_mesh(ball.vertices, ball.faces, along=24, across=24)
    cap = math.pi * 0.7**2 * (3.0 - 0.7) / 3.0
    assert round_hull.volume(0.7) == pytest.approx(cap, rel=0.02)
    with pytest.raises(ConfigError, match="finite triangles"):
        Hull.from_mesh([[0, 0, 0], [1, 0, 0], [0, 1, np.nan]], [[0, 1, 2]])
    with pytest.raises(ConfigError, match="no height"):
        Hull.from_mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])


# ---- floating ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("density", "level"), [(1000.0, 0.0), (1025.0, 2.5)])
def test_it_floats_at_the_draught_of_archimedes(density: float, level: float) -> None:
    one = barge(CalmWater(level, density_kg_m3=density))
    draught = MASS / (density * LENGTH * BEAM)
    assert one.draught_m == pytest.approx(draught, rel=1e-12)
    found = rows(one, 2.0)
    np.testing.assert_allclose(found[:, 3], level + KEEL_TO_MASS - draught, atol=1e-9)  # at rest it stays
    np.testing.assert_allclose(found[:, 8:20], 0.0, atol=1e-9)


def test_dropped_it_settles_at_its_draught() -> None:
    one = barge(linear_drag=(500.0, 500.0, 20e3, 2e3, 8e3, 2e3))
    one.reset(Pose((1.0, 2.0, 0.3), rpy_deg=(8, 3, 40)), afloat=False)
    found = rows(one, 12.0)
    np.testing.assert_allclose(found[-1, 1:3], (1.0, 2.0), atol=0.5)
    assert found[-1, 3] == pytest.approx(KEEL_TO_MASS - DRAUGHT, abs=1e-5)
    np.testing.assert_allclose(Pose(quat_xyzw=found[-1, 4:8]).rpy_deg[:2], 0.0, atol=0.01)


def test_heave_has_its_natural_period() -> None:
    one = barge()
    one.reset(Pose((0, 0, KEEL_TO_MASS - DRAUGHT + 0.05)), afloat=False)
    found = rows(one, 6.0)
    expected = 2 * math.pi * math.sqrt(MASS * (1 + ADDED[2]) / (1000.0 * G * LENGTH * BEAM))
    assert period(found[:, 0], found[:, 3] - (KEEL_TO_MASS - DRAUGHT)) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("axis", "extent"), [(0, BEAM), (1, LENGTH)])
def test_roll_and_pitch_have_their_natural_period(axis: int, extent: float) -> None:
    one = barge()
    metacentre = DRAUGHT / 2 + extent**2 / (12 * DRAUGHT) - KEEL_TO_MASS  # KB + BM - KG of a box
    inertia = MASS * GYRATION[axis] ** 2 * (1 + ADDED[3 + axis])
    expected = 2 * math.pi * math.sqrt(inertia / (MASS * G * metacentre))
    if axis == 0:
        assert one.metacentric_height_m == pytest.approx(metacentre, rel=1e-12)
        assert one.roll_period_s == pytest.approx(expected, rel=1e-12)
    tilt = [0.0, 0.0, 0.0]
    tilt[axis] = 1.5
    one.reset(Pose((0, 0, KEEL_TO_MASS - DRAUGHT), rpy_deg=tilt), afloat=False)
    found = rows(one, 9.0, dt=0.02)
    angle = 2.0 * found[:, 4 + axis]  # small: twice the quaternion's part
    assert period(found[:, 0], angle) == pytest.approx(expected, rel=2e-3)
    assert np.abs(found[:, 9 - axis]).max() < 1e-3  # it rolls without going anywhere


def test_a_top_heavy_vessel_does_not_stay_upright() -> None:
    one = barge(centre_of_mass_height_m=1.6)
    assert one.metacentric_height_m < 0.0
    assert one.roll_period_s == math.inf
    one.reset(Pose((0, 0, 1.6 - DRAUGHT), rpy_deg=(0.5, 0, 0)), afloat=False)
    found = rows(one, 3.0)
    assert np.abs(found[-1, 4]) > 5 * np.abs(found[0, 4])


def test_a_roll_decays_by_its_damping() -> None:
    """Linear damping D of I q'' + D q' + C q = 0: amplitude falls by exp(-D t / (2 I))."""
    inertia = MASS * GYRATION[0] ** 2 * (1 + ADDED[3])
    damping = 500.0
    one = barge(linear_drag=(0, 0, 0, damping, 0, 0))
    one.reset(Pose((0, 0, KEEL_TO_MASS - DRAUGHT), rpy_deg=(2, 0, 0)), afloat=False)
    found = rows(one, 12.0)
    turns = int(12.0 / one.roll_period_s / 2)  # whole halves of the record
    split = int(turns * one.roll_period_s / 0.02)
    early, late = np.abs(found[:split, 4]).max(), np.abs(found[split : 2 * split, 4]).max()
    assert late / early == pytest.approx(math.exp(-damping * split * 0.02 / (2 * inertia)), rel=0.01)


# ---- thrust and drag -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("linear", "square", "push"), [(800.0, 0.0, 900.0), (0.0, 500.0, 400.0), (300.0, 400.0, 700.0)]
)
def test_terminal_speed_under_constant_thrust(linear: float, square: float, push: float) -> None:
    one = barge(linear_drag=(linear, 0, 1e3, 0, 1e3, 0), quadratic_drag=(square, 0, 0, 0, 0, 0))
    rows(one, 22.0, ThrustCommand(push / 2, push / 2), dt=0.1)
    if square:
        expected = (-linear + math.sqrt(linear**2 + 4 * square * push)) / (2 * square)
    else:
        expected = push / linear
    assert one.speed_m_s == pytest.approx(expected, rel=1e-3)
    assert one.resistance_n(one.speed_m_s) == pytest.approx(push, rel=2e-3)
    assert one.xyz[1] == pytest.approx(0.0, abs=1e-9)


def test_speeding_up_moves_the_added_mass_too() -> None:
    one = barge(port=barge().config.port.model_copy(update={"lag_s": 0.0}))
    one.step(ThrustCommand(300.0, 0.0), 0.02)
    (state,) = one.state().acceleration
    assert state[0] == pytest.approx(300.0 / (MASS * (1 + ADDED[0])), rel=1e-3)
    yaw = one.state().angular_acceleration[0, 2]
    assert yaw == pytest.approx(-300.0 * 0.6 / (MASS * GYRATION[2] ** 2 * (1 + ADDED[5])), rel=1e-3)


def test_thrusters_lag_and_have_limits() -> None:
    one = barge()
    for _ in range(20):
        one.step(ThrustCommand(9e9, -9e9), 0.02)
    reached = 1 - math.exp(-1.0)  # one time constant
    assert one.thrust_n == pytest.approx((500.0 * reached, -300.0 * reached), rel=1e-9)
    assert one.steering_rad == 0.0  # these thrusters are fixed


def test_unequal_thrust_and_steering_turn_it() -> None:
    drag = {"linear_drag": (60, 800, 1e4, 1e3, 1e3, 900), "quadratic_drag": (40, 500, 0, 0, 0, 800)}
    left = barge(**drag)
    rows(left, 4.0, ThrustCommand(100.0, 300.0))
    assert left.yaw_rate_rad_s > 0.02
    steered = barge(**drag, max_steering_rad=0.5)
    rows(steered, 4.0, ThrustCommand(200.0, 200.0, steering_rad=0.3))
    assert steered.steering_rad == pytest.approx(0.3, abs=1e-12)
    assert steered.yaw_rate_rad_s > 0.02
    torque = 400.0 * math.sin(0.3) * 1.8  # force aside at the stern
    rows(steered, 16.0, ThrustCommand(200.0, 200.0, steering_rad=0.3))
    rate = steered.yaw_rate_rad_s
    assert 900 * rate + 800 * rate**2 == pytest.approx(torque, rel=0.02)


def test_a_current_carries_it() -> None:
    one = barge(CalmWater(current_m_s=(0.4, -0.2)), linear_drag=(1e3, 2e3, 1e3, 1e3, 1e3, 1e3))
    one.reset(Pose(rpy_deg=(0, 0, 70)))
    found = rows(one, 16.0, dt=0.1)
    np.testing.assert_allclose(found[-1, 8:11], (0.4, -0.2, 0.0), atol=2e-3)


# ---- energy --------------------------------------------------------------------------------------------------------

_part = st.floats(-1.0, 1.0)


@settings(max_examples=6, deadline=None)
@given(st.tuples(*([_part] * 9)))
def test_energy_never_grows_without_thrust_and_waves(start: tuple[float, ...]) -> None:
    one = barge(linear_drag=(50, 300, 5e3, 800, 2e3, 500), quadratic_drag=(40, 400, 2e3, 200, 500, 800))
    rest = one.energy_j()
    pose = Pose((0, 0, KEEL_TO_MASS - DRAUGHT + 0.15 * start[0]), quat_from_rpy(0.2 * start[1], 0.1 * start[2], 0.0))
    one.reset(pose, afloat=False, velocity_m_s=[2.0 * v for v in start[3:6]], turn_rate_rad_s=start[6:9])
    energy = [one.energy_j() - rest]
    for _ in range(100):
        one.step(IDLE, 0.02)
        energy.append(one.energy_j() - rest)
    assert min(energy) > -1e-9 * max(energy[0], 1.0)  # the rest is the lowest
    assert np.diff(energy).max() <= 1e-6 * max(energy[0], 1.0)


def test_energy_stays_without_drag() -> None:
    one = barge()
    rest = one.energy_j()
    start = {"velocity_m_s": (1.0, 0.5, 0.1), "turn_rate_rad_s": (0.15, 0.1, 0.4)}
    one.reset(Pose((0, 0, KEEL_TO_MASS - DRAUGHT - 0.03), rpy_deg=(3, 1, 0)), afloat=False, **start)
    first = one.energy_j() - rest
    for _ in range(300):
        one.step(IDLE, 0.02)
    assert one.energy_j() - rest == pytest.approx(first, rel=1e-6)
    # Where the bottom leaves the water in a hard roll, steps meet kinks of the force.
    one.reset(Pose((0, 0, KEEL_TO_MASS - DRAUGHT), rpy_deg=(25, 0, 0)), afloat=False)
    first = one.energy_j() - rest
    for _ in range(300):
        one.step(IDLE, 0.02)
    assert one.energy_j() - rest == pytest.approx(first, rel=2e-3)


# ---- waves ---------------------------------------------------------------------------------------------------------


def test_in_long_waves_it_follows_the_surface() -> None:
    """A wave of 80 m, 20 hulls long and far slower than the hull's own periods: it heaves and pitches as the water."""
    wave = GerstnerWater([GerstnerWave(0.5, 80.0)])
    one = barge(wave, linear_drag=(10, 10, 8e3, 1.5e3, 4e3, 10))
    found = rows(one, 15.0, dt=0.1)[70:]
    water = np.array([wave.surface(x, y, t).height for t, x, y in found[:, :3]])
    slope = np.array([wave.surface(x, y, t).slope_x for t, x, y in found[:, :3]])
    heave = found[:, 3] - (KEEL_TO_MASS - DRAUGHT)
    assert np.ptp(heave) == pytest.approx(np.ptp(water), rel=0.01)
    np.testing.assert_allclose(heave, water, atol=0.01)
    pitch = -2.0 * found[:, 5]  # bow up where the surface rises
    np.testing.assert_allclose(pitch, slope, atol=0.006)
    assert np.ptp(slope) > 0.07


def test_waves_carry_it_as_their_water_moves() -> None:
    """A light float in a long wave moves on the particles' circle: its velocity has the orbit's size."""
    wave = GerstnerWater([GerstnerWave(0.5, 80.0)])
    one = barge(wave, linear_drag=(5e3, 5e3, 8e3, 1.5e3, 4e3, 10))
    found = rows(one, 15.0, dt=0.1)[70:]
    orbit = 0.5 * math.sqrt(G * 2 * math.pi / 80.0)
    np.testing.assert_allclose(np.hypot(found[:, 8], found[:, 10]), orbit, rtol=0.12)


def test_short_ripples_do_not_move_it() -> None:
    one = barge(OceanWater(3.0, 100.0, seed=1))  # waves of 20 cm length
    found = rows(one, 5.0)
    np.testing.assert_allclose(found[:, 3], found[0, 3], atol=1e-5)


def test_a_wind_sea_rolls_aurora_most_from_the_side() -> None:
    water = OceanWater(6.0, 3000.0, seed=2, depth_m=4.0)
    assert water.significant_height_m == pytest.approx(0.185, abs=0.005)
    roll = {}
    for heading in (0.0, 90.0):
        one = vehicle("dlr/aurora", water=water)
        one.reset(Pose(rpy_deg=(0, 0, heading)))
        state = drive(one, IDLE, 14.0, 0.1).recorded
        angles = np.array([Pose(quat_xyzw=q).rpy_deg for q in state.quat_xyzw])
        roll[heading] = angles[:, 0].std()
        assert 0.005 < state.xyz[:, 2].std() < 0.25 * water.significant_height_m
        assert angles[:, 1].std() > 0.2
    assert 1.0 < roll[90.0] < 10.0
    assert roll[90.0] > 1.5 * roll[0.0]


def test_halving_the_step_changes_little_in_waves() -> None:
    water = OceanWater(8.0, 20e3, seed=6)
    ends = []
    for dt in (0.01, 0.0025):
        one = vehicle("dlr/aurora", water=water)
        for _ in range(round(3.0 / dt)):
            one.step(ThrustCommand(300.0, 300.0), dt)
        ends.append(one.xyz)
    np.testing.assert_allclose(ends[0], ends[1], atol=0.01)


# ---- preset --------------------------------------------------------------------------------------------------------


def test_aurora_is_a_boat_one_would_board() -> None:
    one = vehicle("dlr/aurora")
    assert isinstance(one, Vessel)
    assert one.draught_m == pytest.approx(0.33, abs=0.01)
    assert one.metacentric_height_m == pytest.approx(1.0, abs=0.02)
    assert one.roll_period_s == pytest.approx(1.75, abs=0.01)
    for _ in range(280):
        one.step(ThrustCommand(600.0, 600.0), 0.1)
    assert one.speed_m_s == pytest.approx(4.55, abs=0.05)
    assert one.resistance_n(10.0 / 3.6) == pytest.approx(0.03 * 1700.0 * G, rel=0.05)


def test_bad_vessels_are_named() -> None:
    sheet = vehicle_sheet("dlr/aurora")
    assert isinstance(sheet, VesselConfig)
    with pytest.raises(ConfigError, match=r"would sink with 50 m\^3"):
        Vessel(sheet.model_copy(update={"mass_kg": 50_000.0}))
    with pytest.raises(ConfigError, match=r"length_m: must be above 0, got nan"):
        Hull.box(math.nan, 1.0, 1.0)
    with pytest.raises(ConfigError, match=r"velocity_m_s: must be 3 finite numbers"):
        Vessel(sheet).reset(velocity_m_s=(0.0, math.nan, 0.0))
