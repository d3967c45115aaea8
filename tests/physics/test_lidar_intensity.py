"""Intensity: the vendors' scales, the range-corrected reflectivity of known walls, retro-reflectors, wavelength."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import parhelion as ph
from parhelion.makers.scales import scale_called, scales
from parhelion.rays.device import engine
from parhelion.sensors.optics.lidar.config import Intensity
from parhelion.sensors.optics.lidar.link_budget import reflectivity
from rigs import one_beam, sheet, wall

Array = NDArray[Any]
SCALES = scales()

# Reflectances from nothing to well beyond any retro-reflector, closely about the knee at 1.
EQUAL = np.concatenate([np.linspace(0, 1.1, 2201), np.geomspace(1.1, 1e5, 400)])
POWER = np.concatenate([np.linspace(0, 2, 201), np.geomspace(2, 1e7, 400)])

# One sensor of each maker and intensity scale, with distances that all of them see in full.
PRESETS = [
    "velodyne/vlp-16",
    "velodyne/hdl-64e",
    "ouster/os1-128",
    "ouster/os0-32",
    "livox/mid-40",
    "livox/mid-360",
    "hesai/xt32",
    "robosense/rs-16",
    "slamtec/rplidar-a1",
    "sick/lms-111",
    "hokuyo/utm-30lx",
]


def scaled(name: str, equal: Array, power: Array | None = None) -> Array:
    """A scale for reflectances, or for powers [P_min]; without a power, that of echoes well above the threshold."""
    strong = np.full_like(equal, 100.0) if power is None else power
    return np.asarray(SCALES[name].encode(strong, equal, 6.0), np.float64)


# ---- scales --------------------------------------------------------------------------------------------------------


def test_data_sheets_may_name_every_scale_and_no_other() -> None:
    assert [Intensity(scale=name).scale for name in SCALES] == list(SCALES)
    with pytest.raises(ValueError, match=r"expected 'velodyne', .*'none'"):
        Intensity(scale="sepia")


@pytest.mark.parametrize("name", sorted(set(SCALES) - {"ouster", "echo", "power", "none", "velodyne-hdl64"}))
def test_reflectance_scales_rise_without_a_jump(name: str) -> None:
    value = scaled(name, EQUAL)
    assert value[0] == 0
    assert np.all(np.diff(value) >= 0)
    assert np.all(np.diff(value[EQUAL <= 1]) > 0)
    at_knee = scaled(name, np.array([1 - 1e-9, 1.0, 1 + 1e-9]))
    assert np.ptp(at_knee) < 1e-4
    if name != "reflectance":
        assert value.max() == 255


@pytest.mark.parametrize("name", ["velodyne", "robosense"])
def test_velodynes_scale(name: str) -> None:
    diffuse = np.array([0, 0.1, 0.5, 0.8, 1.0])
    assert scaled(name, diffuse) == pytest.approx(100 * diffuse)
    retro = scaled(name, np.array([1.05, 5.0, 100.0, 999.0]))
    assert np.all((retro > 100) & (retro < 255))
    assert scaled(name, np.array([1000.0, 1e6])) == pytest.approx([255, 255])
    # Three decades above a white diffuser share 155 counts.
    assert scaled(name, np.array([10.0, 100.0])) == pytest.approx([100 + 155 / 3, 100 + 310 / 3])


def test_the_vls_128_counts_diffuse_targets_up_to_110() -> None:
    assert scaled("velodyne-vls", np.array([0.1, 0.5, 1.0])) == pytest.approx([11, 55, 110])
    retro = scaled("velodyne-vls", np.array([1.1, 50.0]))
    assert np.all((retro > 110) & (retro < 255))


@pytest.mark.parametrize("name", ["velodyne", "velodyne-vls", "robosense", "livox", "hesai"])
def test_makers_scales_fall_to_0_at_the_threshold(name: str) -> None:
    full = scaled(name, np.array([0.4]))[0]
    weak = scaled(name, np.full(5, 0.4), np.array([0.5, 1.0, 2.0, 3.0, 50.0]))
    half = (2.0 - scale_called(name).zero_power) / (3.0 - scale_called(name).zero_power)
    assert weak == pytest.approx([0, 0, half * full, full, full])


def test_livox_scale() -> None:
    assert scaled("livox", np.array([0.1, 1.0])) == pytest.approx([15, 150])
    retro = scaled("livox", np.array([2.0, 50.0]))
    assert np.all((retro > 150) & (retro < 255))
    assert scaled("livox", np.array([1e4])) == pytest.approx([255])


def test_hesais_scale_is_percent() -> None:
    assert scaled("hesai", np.array([0.1, 1.0, 2.0, 2.55, 3.0])) == pytest.approx([10, 100, 200, 255, 255])


def test_ousters_signal_is_proportional_to_power_and_blind_to_range() -> None:
    power = np.array([1.0, 2.0, 100.0, 5000.0])
    assert scaled("ouster", np.full(4, 0.3), power) == pytest.approx(6 * power)
    assert scaled("ouster", np.ones(1), np.array([1e6])) == pytest.approx([65535])


def test_echo_amplitude_is_logarithmic() -> None:
    power = np.array([0.5, 1.0, 10.0, 100.0, 1e5, 1e9])
    assert scaled("echo", np.ones(6), power) == pytest.approx([0, 0, 51, 102, 255, 255])


def test_plain_scales() -> None:
    assert np.array_equal(scaled("reflectance", EQUAL), EQUAL)
    assert np.array_equal(scaled("power", np.ones_like(POWER), POWER), POWER)
    assert not np.any(scaled("none", np.ones_like(POWER), POWER))


@pytest.mark.parametrize("name", sorted(SCALES))
def test_kernels_give_the_same_scale(name: str) -> None:
    mi = engine().mi
    for power, equal in ((POWER, np.full_like(POWER, 0.4)), (np.full_like(EQUAL, 3.0), EQUAL)):
        p, e = power.astype(np.float32), equal.astype(np.float32)
        kernel = SCALES[name].encode(mi.Float(p), mi.Float(e), 6.0).numpy()
        assert kernel == pytest.approx(scaled(name, e.astype(float), p.astype(float)), rel=3e-6, abs=1e-4)


@settings(deadline=None)
@given(st.floats(0.01, 1.0), st.floats(0.5, 300.0), st.floats(0.0, 0.01), st.floats(1e-7, 1e-3))
def test_reflectivity_inverts_the_link_budget(rho: float, range_m: float, gamma: float, threshold: float) -> None:
    power = rho / np.pi * np.exp(-2 * gamma * range_m) / range_m**2 / threshold
    assert reflectivity(power, range_m, threshold=threshold, extinction_per_m=gamma) == pytest.approx(rho)


# ---- walls seen by whole sensors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("distance", [2.5, 4.0, 7.0])
@pytest.mark.parametrize("name", PRESETS)
def test_a_lambertian_wall_has_its_reflectance_times_the_cosine_at_any_range(name: str, distance: float) -> None:
    """The power falls with range, the corrected reflectivity does not."""
    scan = ph.Lidar(name, noise=False, sub_rays=1, returns="strongest").scan(
        wall(distance, "lambert-50", size=6.0), pose=ph.Pose()
    )
    cosine = scan.shots.direction[scan.shot, 0].astype(float)
    assert len(scan) > 30
    assert np.max(np.abs(scan.reflectivity / (0.5 * cosine) - 1)) < 1e-3
    assert np.ptp(cosine) > 0.001


@pytest.mark.parametrize("name", ["velodyne/vlp-16", "ouster/os1-128", "hesai/xt32"])
def test_the_same_with_the_whole_footprint(name: str) -> None:
    scan = ph.Lidar(name, noise=False).scan(wall(9.0, "lambert-50", size=12.0), pose=ph.Pose())
    inside = np.all(np.abs(scan.xyz[:, 1:]) < 5.8, axis=1)  # beams that are on the wall in full
    cosine = scan.shots.direction[scan.shot, 0].astype(float)
    assert inside.sum() > 300
    assert np.max(np.abs(scan.reflectivity / (0.5 * cosine) - 1)[inside]) < 5e-3


def test_two_rated_ranges_and_their_extinction_are_corrected_too() -> None:
    hazy = {"rated": [{"reflectance": 0.8, "range_m": 120}, {"reflectance": 0.1, "range_m": 50}]}
    lidar = ph.Lidar(one_beam(range=hazy), noise=False)
    assert lidar.system_constant.gamma_per_m > 2e-3
    for distance in (5.0, 20.0, 60.0):
        assert lidar.scan(wall(distance), pose=ph.Pose()).reflectivity[0] == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("percent", [5, 20, 80, 100])
def test_velodyne_reports_percent_of_a_wall_as_whole_counts(percent: int) -> None:
    scan = ph.Lidar("velodyne/vlp-16", noise=False, sub_rays=1).scan(
        wall(8.0, f"lambert-{percent}", size=20.0), pose=ph.Pose()
    )
    cosine = scan.shots.direction[scan.shot, 0].astype(float)
    assert np.array_equal(scan.intensity, np.round(scan.intensity))
    strong = scan.power > 3.0
    assert strong.sum() > 1000
    assert np.max(np.abs(scan.intensity - percent * cosine)[strong]) <= 0.501
    assert scan.intensity.max() <= 100


def test_ouster_reports_a_signal_that_falls_with_the_square_of_range() -> None:
    config = one_beam(intensity={"scale": "ouster"})
    near, far = (ph.Lidar(config, noise=False).scan(wall(r), pose=ph.Pose()) for r in (10.0, 30.0))
    assert near.intensity[0] / far.intensity[0] == pytest.approx(9.0, rel=1e-4)
    assert near.intensity[0] == pytest.approx(6 * near.power[0], rel=1e-6)
    counted = one_beam(intensity={"scale": "ouster"}, receiver={"threshold_photons": 9.0})
    assert ph.Lidar(counted, noise=False).scan(wall(10.0), pose=ph.Pose()).intensity[0] == pytest.approx(
        9 * near.power[0], rel=1e-6
    )
    assert near.reflectivity[0] == pytest.approx(far.reflectivity[0], rel=1e-4)


def test_an_oblique_wall_is_darker_by_the_cosine() -> None:
    for turn_deg in (0.0, 45.0, 70.0):
        scan = ph.Lidar(one_beam(), noise=False).scan(wall(10.0, turn_deg=turn_deg), pose=ph.Pose())
        assert scan.intensity[0] == pytest.approx(0.5 * np.cos(np.radians(turn_deg)), rel=1e-4)


# ---- materials -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "white"), [("velodyne/vlp-16", 100), ("robosense/rs-16", 100), ("livox/mid-40", 150)])
def test_retro_sheeting_is_above_every_diffuse_wall(name: str, white: float) -> None:
    lidar = ph.Lidar(name, noise=False, sub_rays=1, returns="strongest")
    sign = lidar.scan(wall(20.0, "retro-sheeting", size=4.0), pose=ph.Pose())
    paper = lidar.scan(wall(20.0, "lambert-100", size=4.0), pose=ph.Pose())
    assert len(sign) >= len(paper) > 5
    assert sign.intensity.min() > white
    assert sign.intensity.max() <= 255
    assert paper.intensity.max() <= white
    assert sign.reflectivity.min() > 100 * paper.reflectivity.max()


def reflectivity_at(material: str, wavelength_nm: float) -> float:
    scan = ph.Lidar(one_beam(wavelength_nm=wavelength_nm), noise=False).scan(wall(10.0, material), pose=ph.Pose())
    return float(scan.reflectivity[0])


def test_a_leaf_is_bright_in_the_near_infrared_and_dark_in_the_red() -> None:
    infrared, red = reflectivity_at("leaf", 905), reflectivity_at("leaf", 660)
    assert infrared > 6 * red
    # The table's values, and the little that its roughness takes at normal incidence.
    assert infrared == pytest.approx(0.4887, rel=0.06)
    assert red == pytest.approx(0.0521, rel=0.06)


@pytest.mark.parametrize(
    ("material", "low", "high"),
    [
        ("leaf", 0.6, 1.0),
        ("grass", 0.5, 1.0),
        ("needles", 0.5, 1.0),
        ("concrete", -0.1, 0.2),
        ("lambert-50", -1e-4, 1e-4),
    ],
)
def test_vegetation_index(material: str, low: float, high: float) -> None:
    infrared, red = reflectivity_at(material, 905), reflectivity_at(material, 660)
    assert low <= (infrared - red) / (infrared + red) <= high


def test_wet_objects_darken_at_1550_nm() -> None:
    assert reflectivity_at("snow", 1550) < 0.3 * reflectivity_at("snow", 905)
    assert reflectivity_at("leaf", 1550) < 0.7 * reflectivity_at("leaf", 905)


def test_sensors_of_two_wavelengths_share_a_world() -> None:
    world = wall(10.0, "leaf")
    scans = [ph.Lidar(sheet(wavelength_nm=w), noise=False).scan(world, pose=ph.Pose()) for w in (905, 660, 905)]
    assert np.array_equal(scans[0].intensity, scans[2].intensity)
    assert scans[0].intensity.mean() > 6 * scans[1].intensity.mean()
    assert scans[0].range == pytest.approx(scans[1].range, abs=1e-6)
