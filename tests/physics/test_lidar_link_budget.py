"""Received power and longest ranges against closed forms and published figures."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.link_budget import (
    SystemConstant,
    UnphysicalExtinctionWarning,
    one_target,
    overlap_share,
    received_power,
    two_targets,
)
from rigs import many_beams, one_beam, sheet, wall


def longest_range(material: str, config: object, low: float, high: float) -> float:
    """Range at which a wall is just detected, by bisection with the whole sensor."""
    lidar = ph.Lidar(config, noise=False)
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (middle, high) if len(lidar.scan(wall(middle, material), pose=ph.Pose())) else (low, middle)
    return low


def test_rated_range_is_met_by_the_rated_target() -> None:
    assert longest_range("lambert-90", one_beam(), 50, 150) == pytest.approx(100.0, abs=0.02)


def test_ten_percent_target_follows_the_square_law() -> None:
    assert longest_range("lambert-10", one_beam(), 10, 100) == pytest.approx(100 * np.sqrt(0.1 / 0.9), abs=0.02)


def test_os1_calibrated_on_ten_percent_sees_eighty_percent_at_113_m() -> None:
    assert float(one_target(0.1, 40.0).max_range(0.8)) == pytest.approx(113.1, abs=0.1)


def test_vane_noise_cutoff() -> None:
    assert one_target(0.9, 100.0).threshold == pytest.approx(0.9 / (np.pi * 100.0**2))


def test_huang_velodyne_16() -> None:
    constant = two_targets((0.8, 0.1), (120, 50))
    assert constant.gamma_per_m == pytest.approx(2.346e-3, abs=1e-6)
    assert constant.k_m2 == pytest.approx(31_600, rel=1e-3)


def test_huang_ouster_128_is_unphysical_and_clamped() -> None:
    with pytest.warns(UnphysicalExtinctionWarning, match=r"-7\.77e-05"):
        constant = two_targets((0.8, 0.1), (200, 70))
    assert constant.gamma_per_m == 0.0
    # The refitted constant lies between those of the two targets.
    assert 200**2 / 0.8 >= constant.k_m2 >= 70**2 / 0.1 or 200**2 / 0.8 <= constant.k_m2 <= 70**2 / 0.1


@given(st.floats(5, 300), st.floats(1.05, 4), st.floats(0.02, 0.9), st.floats(1e-5, 5e-3))
def test_two_targets_inverts_the_range_equation(r1: float, factor: float, rho1: float, gamma: float) -> None:
    r2 = r1 * factor
    k = r1**2 / (rho1 * np.exp(-2 * gamma * r1))
    rho2 = r2**2 / (k * np.exp(-2 * gamma * r2))
    if rho2 > 1:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnphysicalExtinctionWarning)
        constant = two_targets((rho1, rho2), (r1, r2))
    assert constant.gamma_per_m == pytest.approx(gamma, rel=1e-5, abs=1e-9)
    assert constant.k_m2 == pytest.approx(k, rel=1e-5)
    # Lambert W gives the ranges back.
    assert constant.max_range([rho1, rho2]) == pytest.approx([r1, r2], rel=1e-6)


def test_max_range_is_continuous_in_extinction() -> None:
    clear, hazy = SystemConstant(1e4, 0.0).max_range(0.5), SystemConstant(1e4, 1e-9).max_range(0.5)
    assert clear == pytest.approx(np.sqrt(5e3))
    assert hazy == pytest.approx(float(clear), rel=1e-6)
    assert SystemConstant(1e4, 0.0).max_range(0.5, gamma_per_m=1e-2) < clear


def test_bad_rated_ranges_are_refused() -> None:
    with pytest.raises(ConfigError, match="need different"):
        two_targets((0.8, 0.1), (50, 50))
    with pytest.raises(ConfigError, match="reflectance"):
        one_target(1.5, 100)


@pytest.mark.parametrize("turn_deg", [0.0, 30.0, 60.0, 75.0])
def test_flat_wall_without_divergence_is_the_closed_form(turn_deg: float) -> None:
    scan = ph.Lidar(sheet(), noise=False).scan(wall(20.0, "lambert-50", turn_deg=turn_deg), pose=ph.Pose())
    direction = scan.shots.direction[scan.shot].astype(float)
    turn = np.radians(turn_deg)
    normal = np.array([np.cos(turn), np.sin(turn), 0.0])
    cosine = direction @ normal
    expected_range = 20.0 * normal[0] / cosine
    assert len(scan) == 105
    assert scan.range == pytest.approx(expected_range, rel=1e-5)
    threshold = 0.9 / (np.pi * 100.0**2)
    assert scan.power == pytest.approx((0.5 / np.pi) * cosine / expected_range**2 / threshold, rel=1e-4)
    assert scan.reflectivity == pytest.approx(0.5 * cosine, rel=1e-4)


@pytest.mark.parametrize("sampling", ["fixed", "adaptive"])
@pytest.mark.parametrize("turn_deg", [0.0, 60.0, 80.0])
def test_flat_wall_with_divergence_is_the_footprint_integral(turn_deg: float, sampling: str) -> None:
    # A wide Gaussian beam, so that the integral differs from its middle: 1/e^2 full angle 40 mrad, sigma 10 mrad.
    config = one_beam(
        beam={"divergence_mrad": (40, 40), "sub_rays": 121}, receiver={"merge_distance_m": 50.0, "returns": "strongest"}
    )
    scan = ph.Lidar(config, noise=False, sampling=sampling).scan(wall(20.0, turn_deg=turn_deg), pose=ph.Pose())
    sigma = np.tan(20e-3) / 2
    node, weight = np.polynomial.hermite_e.hermegauss(41)
    u, v = np.meshgrid(sigma * node, sigma * node)
    w = np.outer(weight, weight) / (2 * np.pi)
    ray = np.stack([np.ones_like(u), u, v], axis=-1)
    ray /= np.linalg.norm(ray, axis=-1, keepdims=True)
    turn = np.radians(turn_deg)
    normal = np.array([np.cos(turn), np.sin(turn), 0.0])
    cosine = np.abs(ray @ normal)
    r = 20.0 * normal[0] / cosine
    density = w * (0.5 / np.pi) * cosine / r**2
    threshold = 0.9 / (np.pi * 100.0**2)
    assert scan.power[0] == pytest.approx(density.sum() / threshold, rel=5e-3)
    assert scan.range[0] == pytest.approx((density * r).sum() / density.sum(), rel=2e-3)


def test_a_target_smaller_than_the_beam_returns_its_share() -> None:
    config = one_beam(
        beam={"divergence_mrad": (20, 20), "profile": "uniform", "sub_rays": 900, "divergence_at": "edge"}
    )
    world = ph.World()
    world.add(ph.shapes.board(0.2, 0.2, 0.001), material="lambert-90", pose=ph.Pose((20, 0, 0)))
    scan = ph.Lidar(config, noise=False, sampling="fixed").scan(world, pose=ph.Pose())
    share = 0.2**2 / (np.pi * (20 * np.tan(0.01)) ** 2)
    assert scan.power[0] == pytest.approx(share * (100 / 20) ** 2, rel=0.03)


def test_extinction_dims_two_ways_and_energy_never_grows() -> None:
    r = np.linspace(1, 200, 50)
    keep = {"weight": 1.0, "reflected": 0.3, "range_m": r, "threshold": 1e-5}
    clear, hazy = (received_power(**keep, optical_depth=a * r) for a in (0.0, 0.01))
    assert hazy / clear == pytest.approx(np.exp(-0.02 * r))
    assert np.all(np.diff(clear) < 0)


def test_overlap_curve_cuts_the_near_field() -> None:
    near = {"min_m": 0.1, "max_m": 300, "rated": [{"reflectance": 0.9, "range_m": 100}]}
    config = one_beam(range={**near, "overlap": [(10.0, 0.5), (20.0, 1.0)]})
    # Below its first point a curve goes on with the square of range.
    for distance, overlap in ((5.0, 0.125), (15.0, 0.75), (40.0, 1.0)):
        with_curve = ph.Lidar(config, noise=False).scan(wall(distance), pose=ph.Pose()).power[0]
        without = ph.Lidar(one_beam(), noise=False).scan(wall(distance), pose=ph.Pose()).power[0]
        assert with_curve / without == pytest.approx(overlap, rel=2e-3)


def test_one_number_of_overlap_is_the_law_of_a_blurred_spot() -> None:
    assert overlap_share(6.0, [1.5, 3.0, 6.0, 60.0]) == pytest.approx([1 / 16, 0.25, 1.0, 1.0])
    assert overlap_share(None, [0.01, 5.0]) == pytest.approx([1.0, 1.0])
    assert overlap_share(0.0, [0.01, 5.0]) == pytest.approx([1.0, 1.0])
    lidar = ph.Lidar(one_beam(range={"overlap": 8.0}), noise=False)
    # Nearer than that, power stays the same: what 1/R^2 adds, the blur takes.
    near = [lidar.scan(wall(distance), pose=ph.Pose()) for distance in (1.5, 3.0, 6.0)]
    assert [scan.power[0] for scan in near] == pytest.approx([0.5 / 0.9 * (100 / 8) ** 2] * 3, rel=2e-3)
    assert [scan.reflectivity[0] for scan in near] == pytest.approx([0.5] * 3, rel=1e-4)


@pytest.mark.parametrize("name", ["ouster/os0-32", "ouster/os1-32", "velodyne/vlp-16"])
@pytest.mark.parametrize("distance", [1.5, 3.0, 8.0, 20.0, 40.0])
def test_a_board_of_50_percent_reads_50_near_and_far(name: str, distance: float) -> None:
    lidar = ph.Lidar(name)
    if lidar.max_range(0.5) < distance:
        assert (name, distance) == ("ouster/os0-32", 40.0)
        return
    scan = lidar.scan(wall(distance, "lambert-50", size=0.4 * distance), pose=ph.Pose(), seed=3)
    inside = np.all(np.abs(scan.xyz[:, 1:]) < 0.15 * distance, axis=1)
    assert inside.sum() > 20
    percent = 100.0 * scan.reflectivity if name.startswith("ouster") else scan.intensity
    assert np.median(percent[inside]) == pytest.approx(50.0, abs=3.0)


@pytest.mark.parametrize("name", ["ouster/os0-32", "ouster/os1-128", "velodyne/vlp-32c"])
def test_rated_range_holds_where_the_receiver_does_not_collect_all(name: str) -> None:
    lidar = ph.Lidar(name, noise=False, sub_rays=1)
    rated = lidar.config.range.rated[0]
    just, material = lidar.max_range(rated.reflectance), f"lambert-{round(100 * rated.reflectance)}"
    sheet_of_it = {"range": lidar.config.range.model_dump(), "receiver": lidar.config.receiver.model_dump()}
    level = ph.Lidar(one_beam(**sheet_of_it), noise=False)
    near, far = (level.scan(wall(just * f, material), pose=ph.Pose()) for f in (0.99, 1.01))
    assert len(far) == 0
    assert 1.0 <= near.power[0] < 1.04
    # With noise, the rated share of shots detects it at the rated range.
    n = 20_000
    found = len(
        ph.Lidar(many_beams(n, **sheet_of_it)).scan(wall(0.999 * rated.range_m, material), pose=ph.Pose(), seed=4)
    )
    # A thousandth nearer, within the range gate, the echo is 0.2 % stronger: half a percent more are found.
    assert found / n == pytest.approx(rated.detection, abs=0.005 + 4 * np.sqrt(0.25 / n))
