"""The footprint of a pulse: exact moments, equal weights, the order of probes, and what divergence means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import parhelion as ph
from parhelion.sensors.optics.lidar.config import Beam
from parhelion.sensors.optics.lidar.emit import ALL_PROBES, MIDDLE, PROBES, SECTORS, Footprint, footprint, unit_points

Array = NDArray[Any]

SHAPES = ("ellipse", "rectangle")
PROFILES = ("gaussian", "uniform")
# Second moment along each axis: sigma^2 of a Gaussian, r^2 / 4 of a disc, a^2 / 3 of a square.
VARIANCE = {
    ("ellipse", "gaussian"): 1.0,
    ("rectangle", "gaussian"): 1.0,
    ("ellipse", "uniform"): 0.25,
    ("rectangle", "uniform"): 1 / 3,
}


def beam(**fields: Any) -> Footprint:
    return footprint(Beam(**{"divergence_mrad": (3.0, 3.0), **fields}))


# ---- moments -------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(3, 1024), st.sampled_from(SHAPES), st.sampled_from(PROFILES))
def test_mean_and_second_moments_are_exact(count: int, shape: str, profile: str) -> None:
    points = unit_points(count, shape, profile)
    assert points.shape == (count, 2)
    assert np.all(np.isfinite(points))
    assert np.abs(points.mean(axis=0)).max() < 1e-12
    assert points.T @ points / count == pytest.approx(VARIANCE[shape, profile] * np.eye(2), abs=1e-12)


@settings(deadline=None)
@given(st.integers(4, 400), st.sampled_from(SHAPES), st.sampled_from(PROFILES))
def test_points_are_apart_and_within_the_beam(count: int, shape: str, profile: str) -> None:
    points = unit_points(count, shape, profile)
    gaps = np.linalg.norm(points[:, None] - points[None], axis=-1) + 1e9 * np.eye(count)
    # A share of the disc or square as wide as its even part of the area would be.
    assert gaps.min() > 0.15 / np.sqrt(count)
    if profile == "uniform":
        reach = np.abs(points).max() if shape == "rectangle" else np.linalg.norm(points, axis=1).max()
        assert reach < (1.05 if count >= 9 else 1.3)


@pytest.mark.parametrize("count", [25, 121, 400])
def test_discs_are_filled_evenly(count: int) -> None:
    radius = np.linalg.norm(unit_points(count, "ellipse", "uniform"), axis=1)
    for part in (0.3, 0.5, 0.8):  # the share within a radius is its area
        assert np.mean(radius < part) == pytest.approx(part**2, abs=2.5 / np.sqrt(count) * part)
    spread = np.linalg.norm(unit_points(count, "ellipse", "gaussian"), axis=1)
    assert np.mean(spread < np.sqrt(2 * np.log(2))) == pytest.approx(0.5, abs=1.2 / np.sqrt(count))  # Rayleigh's median


def test_three_points_are_a_triangle() -> None:
    points = unit_points(3, "ellipse", "gaussian")
    assert np.linalg.norm(points, axis=1) == pytest.approx([np.sqrt(2)] * 3)
    sides = np.linalg.norm(points - np.roll(points, 1, axis=0), axis=1)
    assert sides == pytest.approx([np.sqrt(6)] * 3)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("profile", PROFILES)
def test_two_points_are_opposite(shape: str, profile: str) -> None:
    points = unit_points(2, shape, profile)
    assert points[0] == pytest.approx(-points[1])
    assert 0.3 < np.linalg.norm(points[0]) < 1.5


@settings(deadline=None)
@given(st.integers(1, 1024), st.sampled_from(SHAPES), st.sampled_from(PROFILES))
def test_weights_are_equal_and_sum_to_one(count: int, shape: str, profile: str) -> None:
    made = beam(sub_rays=count, shape=shape, profile=profile)
    assert len(made) == count
    assert np.unique(made.weight).size == 1
    assert np.sum(made.weight, dtype=np.float64) == pytest.approx(1.0, abs=1e-6)
    for array in (made.slope, made.offset, made.weight):
        assert array.dtype == np.float32
        assert np.all(np.isfinite(array))


# ---- what divergence means -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated_at", "profile", "shape", "sigma_per_half_width"),
    [
        ("1/e2", "gaussian", "ellipse", 1 / 2),  # exp(-r^2 / 2 sigma^2) = 1/e^2 at r = 2 sigma
        ("fwhm", "gaussian", "ellipse", 1 / np.sqrt(2 * np.log(2))),  # ... = 1/2 at r = 1.177 sigma
        ("1/e2", "gaussian", "rectangle", 1 / 2),
        ("edge", "uniform", "ellipse", 1 / 2),  # a disc of radius a has a variance of a^2 / 4 along each axis
        ("edge", "uniform", "rectangle", 1 / np.sqrt(3)),
        ("fwhm", "uniform", "ellipse", 1 / 2),
    ],
)
@pytest.mark.parametrize("count", [9, 25, 100])
def test_divergence_definitions(
    stated_at: str, profile: str, shape: str, sigma_per_half_width: float, count: int
) -> None:
    made = beam(divergence_mrad=(6.0, 1.5), divergence_at=stated_at, profile=profile, shape=shape, sub_rays=count)
    half_width = np.tan(np.array([6.0, 1.5]) * 1e-3 / 2)
    sigma = np.sqrt(np.mean(made.slope.astype(np.float64) ** 2, axis=0))
    assert sigma == pytest.approx(half_width * sigma_per_half_width, rel=1e-5)
    assert np.mean(made.slope[:, 0] * made.slope[:, 1]) == pytest.approx(0, abs=1e-12)


def test_the_share_within_the_stated_width_is_a_gaussians() -> None:
    # Of a round Gaussian, 1 - e^-2 of the energy is within 1/e^2 and one half within the half maximum.
    for stated_at, share in (("1/e2", 1 - np.exp(-2)), ("fwhm", 0.5)):
        made = beam(divergence_mrad=(4.0, 4.0), divergence_at=stated_at, sub_rays=1000)
        inside = np.linalg.norm(made.slope, axis=1) < np.tan(2e-3)
        assert np.sum(made.weight[inside]) == pytest.approx(share, abs=0.045)  # half a ring


def test_one_sub_ray_is_the_axis() -> None:
    for shape in SHAPES:
        for profile in PROFILES:
            made = beam(sub_rays=1, shape=shape, profile=profile, exit_diameter_mm=10)
            assert made.slope.tolist() == [[0, 0]]
            assert made.offset.tolist() == [[0, 0]]
            assert made.weight.tolist() == [1]


def test_a_beam_without_divergence_has_a_width_from_its_exit_alone() -> None:
    made = beam(divergence_mrad=(0, 0), exit_diameter_mm=12.0, sub_rays=25)
    assert not np.any(made.slope)
    assert np.sqrt(np.mean(made.offset.astype(np.float64) ** 2, axis=0)) == pytest.approx([3e-3, 3e-3], rel=1e-5)
    assert not np.any(beam(exit_diameter_mm=0.0).offset)


def test_the_beam_widens_from_its_exit() -> None:
    """Each sub-ray starts where it will stay in the beam: at range R the half width is the exit's plus R tan."""
    made = beam(divergence_mrad=(3.0, 1.0), exit_diameter_mm=10.0, sub_rays=49)
    at_range = made.offset + 20.0 * made.slope
    half_width = 2 * np.sqrt(np.mean(at_range.astype(np.float64) ** 2, axis=0))
    assert half_width == pytest.approx(5e-3 + 20 * np.tan([1.5e-3, 0.5e-3]), rel=1e-4)


# ---- probes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("count", [25, 49, 81, 121, 289])
def test_the_first_four_probes_are_the_rim_along_the_axes(count: int, profile: str) -> None:
    slope = beam(sub_rays=count, profile=profile).slope.astype(np.float64)
    rim = np.linalg.norm(slope, axis=1).max()
    assert slope[:PROBES] == pytest.approx(rim * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]]), rel=1e-5, abs=1e-9)
    assert slope[MIDDLE] == pytest.approx([0, 0], abs=1e-9)
    between = np.arctan2(slope[MIDDLE + 1 : ALL_PROBES, 1], slope[MIDDLE + 1 : ALL_PROBES, 0])
    assert np.degrees(between) == pytest.approx([45, 135, -135, -45], abs=1e-3)
    assert np.linalg.norm(slope[MIDDLE + 1 : ALL_PROBES], axis=1) == pytest.approx([rim] * 4, rel=1e-5)


@settings(deadline=None)
@given(st.integers(ALL_PROBES + 1, 400), st.sampled_from(SHAPES), st.sampled_from(PROFILES))
def test_every_eighth_lies_between_one_early_and_one_late_probe(count: int, shape: str, profile: str) -> None:
    made = beam(sub_rays=count, shape=shape, profile=profile)
    slope = made.slope.astype(np.float64)
    angle = np.arctan2(slope[:, 1], slope[:, 0])
    middle = np.linalg.norm(slope[MIDDLE])
    assert middle == pytest.approx(np.linalg.norm(slope, axis=1).min(), rel=1e-5, abs=1e-9)
    rim = sorted(set(range(ALL_PROBES)) - {MIDDLE})
    assert sorted(made.sector_rim.ravel().tolist()) == sorted([*rim, *rim])
    assert np.all((made.sector_rim < PROBES).sum(axis=1) == 1)
    assert np.all((made.sector_rim > MIDDLE).sum(axis=1) == 1)
    # Going round from the second probe of an eighth, a point of it is met no later than the first.
    last, first = angle[made.sector_rim[made.sector].T]
    others = np.arange(count) != MIDDLE
    width, place = (last - first) % (2 * np.pi), (angle - first + 1e-6) % (2 * np.pi)
    assert np.all(place[others] <= width[others] + 2e-6)
    assert angle_sum(made.sector_rim, angle) == pytest.approx(2 * np.pi)


@settings(deadline=None)
@given(st.integers(1, 400), st.sampled_from(SHAPES))
def test_every_sub_ray_beside_the_probes_is_a_member_of_its_eighth(count: int, shape: str) -> None:
    made = beam(sub_rays=count, shape=shape)
    members = made.sector_members()
    assert members.shape[0] == SECTORS
    row, column = np.nonzero(members != 0xFFFFFFFF)
    numbers = members[row, column]
    assert sorted(numbers.tolist()) == list(range(ALL_PROBES, count))
    assert np.array_equal(made.sector[numbers], row)
    assert np.all(column < np.bincount(row, minlength=SECTORS)[row]), "the empty places come last"


def angle_sum(rim: Array, angle: Array) -> float:
    """All eighths together, which make a full turn where none overlaps."""
    return float(np.sum((angle[rim[:, 0]] - angle[rim[:, 1]]) % (2 * np.pi)))


@settings(deadline=None)
@given(st.integers(2, 400), st.sampled_from(SHAPES))
def test_ordering_changes_no_point(count: int, shape: str) -> None:
    made = beam(sub_rays=count, shape=shape, divergence_mrad=(2.0, 2.0))
    points = unit_points(count, shape, "gaussian") * np.tan(1e-3) / 2
    assert np.sort(made.slope[:, 0]) == pytest.approx(np.sort(points[:, 0]), abs=1e-8)
    assert np.sort(made.slope[:, 1]) == pytest.approx(np.sort(points[:, 1]), abs=1e-8)
    assert len(np.unique(made.slope, axis=0)) == count


def test_few_sub_rays_need_no_probes() -> None:
    for count in range(1, ALL_PROBES + 1):
        made = beam(sub_rays=count)
        assert made.sector.tolist() == [0] * count
        assert made.sector_rim.shape == (8, 2)


@pytest.mark.parametrize("name", ["velodyne/vlp-16", "ouster/os1-128", "livox/mid-360"])
def test_five_points_give_the_mean_of_all_sub_rays(name: str) -> None:
    shape = footprint(ph.Lidar(name).config.beam)
    weights = shape.five_point_weights()
    assert weights is not None
    x, y = (shape.slope.astype(np.float64) / np.abs(shape.slope).max()).T
    for values in (x, y, x * y, x**2, y**2, 1 / (1 + 0.05 * x + 0.03 * y) ** 2):
        assert weights @ values[:5] == pytest.approx(values.mean(), abs=1e-4)


def test_heterogeneous_probes_have_no_such_weights() -> None:
    config = ph.Lidar("velodyne/vlp-16").config.beam.model_copy(update={"shape": "rectangle", "profile": "uniform"})
    assert footprint(config).five_point_weights() is None
