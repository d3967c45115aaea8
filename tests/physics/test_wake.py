"""Wakes of vessels: Kelvin's angle and wavelength, slopes and rates, and the surface that sensors see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.motion.wake import (
    FOAM_S,
    KELVIN_ANGLE_RAD,
    Wake,
    WaterWithWakes,
    foam_share,
    kelvin_waves,
    transverse_length_m,
)
from parhelion.motion.water import CalmWater, GerstnerWater, GerstnerWave
from parhelion.world.water_surface import Lattice

SPEED = 4.0
LENGTH = 2.0 * np.pi * SPEED**2 / 9.80665


def test_transverse_waves_have_the_length_of_waves_of_the_same_speed() -> None:
    """The phase speed sqrt(g / k) of a wave that follows the vessel is that of the vessel."""
    assert transverse_length_m(SPEED) == pytest.approx(LENGTH)
    x = np.linspace(4.0, 14.0, 4001) * LENGTH
    height = kelvin_waves(x, np.zeros_like(x), SPEED, 0.5)[0]
    rises = np.flatnonzero((height[:-1] < 0.0) & (height[1:] >= 0.0))
    assert np.diff(x[rises]).mean() == pytest.approx(LENGTH, rel=0.01)


@pytest.mark.parametrize("wavelengths", [4.0, 9.0])
def test_amplitude_by_stationary_phase(wavelengths: float) -> None:
    """On the course, A sqrt(2 pi / k x) cos(k x + pi / 4), without the short waves."""
    x = (np.linspace(-0.5, 0.5, 201) + wavelengths) * LENGTH
    k = 2.0 * np.pi / LENGTH
    share = 0.1 * SPEED**2 / (2.0 * 9.80665) * np.exp(-0.5 * (k * 1.5) ** 2)
    expected = share * np.sqrt(2.0 * np.pi / (k * x)) * np.cos(k * x + np.pi / 4)
    found = kelvin_waves(x, np.zeros_like(x), SPEED, 1.5)[0]
    assert np.max(np.abs(found - expected)) < 0.15 * np.max(np.abs(expected))


@pytest.mark.parametrize("speed", [2.0, 4.0, 7.0])
def test_the_wake_ends_at_kelvins_angle(speed: float) -> None:
    """Envelope of the waves on an arc behind the vessel: strongest near 19.47 degrees, gone beyond."""
    assert np.degrees(KELVIN_ANGLE_RAD) == pytest.approx(19.47, abs=0.01)
    length = transverse_length_m(speed)
    angle = np.radians(np.linspace(0.0, 35.0, 106))
    radius = np.linspace(9.0, 12.0, 61) * length
    b, a = (radius[:, None] * one for one in (np.cos(angle), np.sin(angle)))
    height = kelvin_waves(b.ravel(), a.ravel(), speed, 0.05 * length)[0].reshape(b.shape)
    strength = height.std(axis=0)
    peak = np.degrees(angle[np.argmax(strength)])
    assert 17.0 < peak < 19.6
    assert strength[angle > np.radians(24.0)].max() < 0.08 * strength.max()
    assert strength[angle > np.radians(28.0)].max() < 0.01 * strength.max()
    half = np.degrees(angle[np.flatnonzero(strength > 0.5 * strength.max())[-1]])
    assert half == pytest.approx(19.47, abs=1.0)


def sailing(speed: float = SPEED, course_deg: float = 30.0) -> Wake:
    way = np.radians(course_deg)
    velocity = (speed * np.cos(way), speed * np.sin(way), 0.0)
    return Wake(ph.ConstantTwist(ph.Pose(), velocity=velocity), length_m=6.0, width_m=2.0)


def test_slopes_and_rate_are_derivatives() -> None:
    wake, rng = sailing(), np.random.default_rng(1)
    x, y = rng.uniform(-60.0, 8.0, 400), rng.uniform(-45.0, 8.0, 400)
    step = 1e-4
    _, slope_x, slope_y, rate = wake.at(x, y, 2.0)
    assert np.abs(rate).max() > 0.05
    for found, low, high in (
        (slope_x, wake.at(x - step, y, 2.0), wake.at(x + step, y, 2.0)),
        (slope_y, wake.at(x, y - step, 2.0), wake.at(x, y + step, 2.0)),
        (rate, wake.at(x, y, 2.0 - step), wake.at(x, y, 2.0 + step)),
    ):
        expected = (high[0] - low[0]) / (2.0 * step)
        assert np.quantile(np.abs(found - expected), 0.99) < 2e-3 * np.abs(expected).max() + 1e-5


def test_the_wake_follows_the_vessel_and_nothing_is_ahead() -> None:
    wake = sailing(course_deg=90.0)
    behind = np.linspace(0.0, 60.0, 100)
    one = wake.at(np.zeros(100), 3.0 - behind, 0.0)[0]
    other = wake.at(np.zeros(100), 3.0 + 8.0 - behind, 2.0)[0]
    assert other == pytest.approx(one, abs=1e-9)
    assert one[0] == pytest.approx(0.5 * SPEED**2 / (2 * 9.80665), rel=1e-6), "the bow wave"
    assert np.all(wake.at(np.zeros(50), np.linspace(8.0, 50.0, 50), 0.0) == 0.0)
    assert np.all(sailing(speed=0.1).at(np.zeros(9), np.linspace(-30, 0, 9), 0.0) == 0.0)


def test_wakes_add_to_the_waves_and_stay_within_their_bound() -> None:
    sea = GerstnerWater([GerstnerWave(amplitude_m=0.2, length_m=12.0)])
    wake = sailing()
    water = WaterWithWakes(sea, [wake])
    lattice = Lattice((-40.0, -30.0), (0.5, 0.0), (0.0, 0.5), (90, 70))
    height, rate = water.rising(lattice, 1.0)
    base, slow = sea.rising(lattice, 1.0)
    x, y = np.meshgrid(-40.0 + 0.5 * np.arange(90), -30.0 + 0.5 * np.arange(70), indexing="ij")
    added = wake.at(x, y, 1.0)
    assert np.array_equal(height, base + added[0])
    assert np.array_equal(rate, slow + added[3])
    assert 0.0 < np.abs(added[0]).max() < wake.components[0].sum()
    assert water.surface(x, y, 1.0).height == pytest.approx(sea.surface(x, y, 1.0).height + added[0])


def test_a_lidar_sees_the_bow_wave_of_a_vessel_on_calm_water() -> None:
    world = ph.World()
    world.add(ph.shapes.plane(200, 200), material="water", label="water")
    world.set_water(WaterWithWakes(CalmWater(), [sailing(course_deg=0.0)]))
    surface = world.geometry("lidar").surface
    assert surface is not None
    raised = surface.at(surface.neighbourhood(np.zeros(3)), 0.0).triangles.vertices
    bow = np.hypot(raised[:, 0] - 3.0, raised[:, 1]) < 0.5
    assert raised[bow, 2].max() == pytest.approx(0.5 * SPEED**2 / (2 * 9.80665), rel=0.1)
    ahead = raised[:, 0] > 10.0
    assert np.all(raised[ahead, 2] == 0.0)


def test_a_vessel_of_a_scenario_has_a_wake(tmp_path: Path) -> None:
    sea = {"shape": {"kind": "plane", "size_m": [300, 300]}, "material": "water", "label": "water"}
    (tmp_path / "sea.yaml").write_text(yaml.safe_dump({"objects": [sea]}))
    boat = {"name": "boat", "model": "dlr/aurora", "start": {"xyz": [-10, 0, 0]}, "wake": True,
            "follow": {"points": [[100, 0, 0]], "speed_m_s": 2.0}}  # fmt: skip
    gauge = {"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "boat"}
    fields: dict[str, Any] = {
        "duration_s": 8.0, "step_s": 0.05, "world": "sea.yaml", "vehicles": [boat], "sensors": [gauge], "outputs": [],
        "report": False,
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"vehicles\[0\]\.wake: there is no water for a wake"):
        ph.Scenario.from_mapping(fields, tmp_path)
    made = ph.Scenario.from_mapping({**fields, "water": {"kind": "calm"}}, tmp_path)
    assert sum(1 for _ in made) == 160
    surface = made.world.geometry("lidar").surface
    assert surface is not None
    key = surface.neighbourhood(np.zeros(3))
    assert np.all(surface.at(key, 0.0).triangles.vertices[:, 2] == 0.0), "at rest"
    raised = surface.at(key, 8.0).triangles.vertices
    place = made.bodies["boat"].motion.sample(np.array([8.0]))[0][0]
    highest = raised[np.argmax(raised[:, 2])]
    assert highest[2] > 0.01
    assert np.hypot(*(highest - place)[:2]) < 4.0


# ---- foam -----------------------------------------------------------------------------------------------------------


def test_foam_decays_with_its_time_constant_and_fades_to_the_sides() -> None:
    age, width = np.array([0.0, FOAM_S, 2.0 * FOAM_S]), 2.0
    middle = foam_share(age, np.zeros(3), np.full(3, 4.0), width)
    assert middle == pytest.approx(np.exp([0.0, -1.0, -2.0]))
    assert foam_share(age, np.full(3, 5.0), np.full(3, 4.0), width) == pytest.approx([0.0, 0.0, 0.0])
    slow = foam_share(age[:1], np.zeros(1), np.array([2.25]), width)
    assert slow == pytest.approx([0.5])  # half-way between the speeds of no and of full foam
    assert foam_share(age[:1], np.zeros(1), np.array([0.4]), width) == pytest.approx([0.0])


def test_foam_lies_where_the_hull_has_been_also_in_a_turn() -> None:
    """A vessel on a circle of 20 m: foam on the circle behind it, none on the straight line behind it."""
    angle = 4.0 / 20.0

    class Turning:
        def sample(self, times: Any) -> tuple[Any, Any]:
            turned = angle * np.asarray(times, np.float64)
            place = np.stack([20.0 * np.sin(turned), 20.0 - 20.0 * np.cos(turned), np.zeros_like(turned)], axis=1)
            zero = np.zeros_like(turned)
            return place, np.stack([zero, zero, np.sin(0.5 * turned), np.cos(0.5 * turned)], axis=1)

    wake = Wake(Turning(), 2.0, 2.0)
    back = np.array([-4.0, -6.0])  # seconds before now
    x, y = 20.0 * np.sin(angle * back), 20.0 - 20.0 * np.cos(angle * back)
    on_track = wake.foam(x, y, 0.0)
    assert np.all(on_track > 0.9 * np.exp(back / FOAM_S) * 0.95)
    assert wake.foam(np.array([-20.0]), np.array([0.0]), 0.0) < 0.05
    assert wake.foam(np.array([20.0]), np.array([0.0]), 0.0) == 0.0


def test_a_steep_bow_wave_breaks_and_a_flat_one_does_not() -> None:
    """The hump h exp(-r^2 / 2 s^2) is steepest at r = s: slope h / s e^-1/2."""
    for speed, foams in ((2.0, False), (7.0, True)):
        wake = sailing(speed=speed, course_deg=0.0)
        height = 0.5 * speed**2 / (2 * 9.80665)
        ahead = np.array([3.0 + wake.size_m])
        assert (height / wake.size_m * np.exp(-0.5) > 0.4) == foams
        assert (wake.foam(ahead, np.zeros(1), 0.0)[0] > 0.5) == foams


def test_faces_of_the_water_become_foam_behind_a_vessel_and_a_lidar_sees_them() -> None:
    def scan(speed: float) -> Any:
        world = ph.World()
        world.add(ph.shapes.plane(200, 200), material="water", label="water")
        world.set_water(WaterWithWakes(CalmWater(), [sailing(speed=speed, course_deg=0.0)]))
        surface = world.geometry("lidar").surface
        assert surface is not None
        raised = surface.at(surface.neighbourhood(np.zeros(3)), 0.0).triangles
        assert len(world.parts.material) == 5
        # A lidar 5 m above the track, 10 m behind the vessel, at 45 degrees: clear water mirrors away from it.
        pose = ph.Pose((-15.0, 0.0, 5.0), rpy_deg=(0.0, 45.0, 0.0))
        found = ph.Lidar("velodyne/vlp-16").scan(world, pose=pose, seed=1)
        names = [world.materials[world.parts.material[k]].name for k in range(5)]
        return raised, names, found

    raised, names, fast = scan(4.0)
    assert names == ["water", "sea-foam-25", "sea-foam-50", "sea-foam-75", "sea-foam"]
    middle = raised.vertices[raised.faces].mean(axis=1)
    behind = (np.abs(middle[:, 1]) < 0.4) & (middle[:, 0] < -2.0) & (middle[:, 0] > -8.0)
    share = raised.part[behind].mean() / 4.0
    assert share == pytest.approx(np.exp(-(5.0 + 3.0) / 4.0 / FOAM_S), abs=0.06)
    far = np.abs(middle[:, 1]) > 8.0
    assert raised.part[far].max() == 0
    _, _, still = scan(0.1)
    near = (np.abs(fast.in_world().xyz[:, 1]) < 1.0) & (fast.in_world().xyz[:, 2] < 1.0)
    assert near.sum() > 20
    assert len(still) < 0.2 * len(fast)
