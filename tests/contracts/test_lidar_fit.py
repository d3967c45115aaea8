"""`Lidar.fit`: mount, materials and receiver from one scan of a known world."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from calibrate_rigs import changed_sheet
from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError
from parhelion.rays.device import engine
from parhelion.sensors.optics.lidar.link_budget import SystemConstant, overlap_share
from parhelion.sensors.optics.lidar.signal_model import ShotPlanes, SignalModel

BOARDS = {"distances": (5.0, 8.0, 12.0, 20.0), "board_size": 1.5}
BOARD_PERCENT = (10, 30, 50, 70, 90)
TRUE, GUESSED = (10, 30, 50, 70, 90), (20, 40, 45, 60, 80)


@pytest.fixture(scope="module")
def recording() -> tuple[ph.Pose, ph.Scan]:
    truth = ph.World.load("test-range", **BOARDS, reflectances_percent=TRUE)
    pose = ph.Pose((0.15, -0.1, 2.08), rpy_deg=(0.8, -0.6, 1.5))
    return pose, ph.Lidar("velodyne/vlp-16").scan(truth, pose=pose, seed=3)


def test_mount_and_reflectances_are_found(recording: tuple[ph.Pose, ph.Scan]) -> None:
    pose, scan = recording
    world = ph.World.load("test-range", **BOARDS, reflectances_percent=GUESSED)
    found = ph.Lidar("velodyne/vlp-16").fit(world, scan)
    assert np.abs(found.pose.xyz - pose.xyz).max() < 0.005
    assert np.abs((found.pose.inverse() @ pose).rpy_deg).max() < 0.1
    for true, guessed in zip(TRUE, GUESSED, strict=True):
        assert found.reflectance[f"lambert-{guessed}"] == pytest.approx(0.01 * true, rel=0.02)
    assert found.shots > 5000
    assert found.range_rms_m < 0.03


def test_range_errors_of_rings_do_not_pull_the_pose() -> None:
    """The range as it is, whose boards are far: rings of a VLP-16 are off by 12 mm, which moved the pose by 6 mm."""
    world = ph.World.load("test-range")
    lidar = ph.Lidar("velodyne/vlp-16")
    found = lidar.fit(world, lidar.scan(world, pose=ph.Pose((0, 0, 2)), seed=3))
    assert np.abs(found.pose.xyz - (0, 0, 2)).max() < 0.005
    assert np.abs(found.pose.rpy_deg).max() < 0.1


def test_what_does_not_fit_is_reported(recording: tuple[ph.Pose, ph.Scan]) -> None:
    _, scan = recording
    world = ph.World.load("test-range", **BOARDS)
    with pytest.raises(ConfigError, match="table of shots differs"):
        ph.Lidar("ouster/os1-32").fit(world, scan)
    with pytest.raises(ConfigError, match="table of shots"):
        ph.Lidar("velodyne/vlp-16").fit(world, PointCloud(scan.xyz, scan.fields))  # type: ignore[arg-type]
    empty = ph.World()
    empty.add(ph.shapes.box(1, 1, 1), material="concrete", label="wall", pose=ph.Pose((90.0, 0.0, 0.0)))
    with pytest.raises(ConfigError, match="pass a more accurate pose"):
        ph.Lidar("velodyne/vlp-16").fit(empty, scan, pose=ph.Pose())


def facets(roughness_deg: float, reflectance: float) -> ph.World:
    """Boards of one rough material around a sensor, slanted by 0 to 65 degrees, and a matt one beside each."""
    world = ph.World("facets")
    spectrum = {"wavelength_um": [0.4, 1.6], "reflectance": [reflectance, reflectance]}
    brdf = {"model": "oren-nayar", "roughness_deg": roughness_deg}
    rough = ph.Material(name="plaster", sources=["made for this test"], spectrum=spectrum, brdf=brdf)
    world.add(ph.shapes.plane(60, 60), material="asphalt", label="ground", pose=ph.Pose((0, 0, -2)))
    for number in range(16):
        heading = 22.5 * number
        along = np.array([np.cos(np.radians(heading)), np.sin(np.radians(heading)), 0.0])
        slant = (0, 20, 40, 55, 65)[number % 5]
        material = "lambert-50" if number % 4 == 3 else rough
        board = ph.Pose((6.0 + 0.3 * number) * along, rpy_deg=(0, 0, heading + slant))
        world.add(ph.shapes.box(0.05, 1.6, 3.0), material=material, label="wall", pose=board)
    return world


def test_slopes_are_those_of_finite_differences() -> None:
    """By every parameter, of range, power and reflectivity: four kinds of BRDF, an overlap curve, extinction."""
    rng = np.random.default_rng(0)
    count = 300
    direction = rng.normal(size=(count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    normal = -direction + 0.4 * rng.normal(size=(count, 3))
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    normal[np.sum(normal * direction, axis=1) > -0.2] = [0, 0, 1]
    facing = np.sum(normal * direction, axis=1) < -0.2
    direction, normal = direction[facing], normal[facing]
    pivot = np.array([1.0, -2.0, 0.5])
    origin = pivot + 0.05 * rng.normal(size=direction.shape)
    place = origin + rng.uniform(2.0, 40.0, len(direction))[:, None] * direction
    known = {one.name: one for one in ph.World.load("city").materials}
    materials = [known[name] for name in ("asphalt", "steel", "plastic", "brick")]
    constant = ph.Lidar("velodyne/vlp-16").system_constant
    constant = SystemConstant(constant.k_m2, 2e-3)
    kinds = rng.integers(0, 4, len(direction))
    shots = ShotPlanes(origin, direction, pivot, place, normal, kinds)
    for overlap in (7.0, [(3.0, 0.1), (8.0, 0.4), (20.0, 1.0)]):
        model = SignalModel(engine(), materials, 905.0, constant, overlap)
        parameters = model.start + 0.0
        # A single range of full overlap differs in the last parameter alone.
        which = np.arange(len(parameters)) if model.knots is not None else np.array([len(parameters) - 1])
        slopes = model.derivatives(shots, parameters, which)
        assert slopes.shape == (3, len(shots), len(which))
        for column, number in enumerate(which):
            step = 1e-5 * np.eye(len(parameters))[number]
            above, below = (np.stack(model.at(shots, parameters + sign * step)) for sign in (1, -1))
            # Differences are good to some 1e-6 themselves; a kink of the overlap may lie between the two.
            off = np.abs((above - below) / 2e-5 - slopes[:, :, column]) / (1.0 + np.abs(slopes[:, :, column]))
            assert np.quantile(off, 0.995) < 1e-5, f"parameter {number}: {off.max():.1e}"
        assert np.abs(slopes[1][:, -1]).max() > 0.5  # the overlap does count


def test_overlap_of_another_unit_is_found() -> None:
    """A receiver that opens at ranges 1.15 times those of the sheet: its curve where the recording has shots.

    The fit determines the product with the system constant, which the sheet's rated range gives another value for the
    other curve. Corners of the two curves lie at other ranges, which is worth up to 2 %.
    """
    preset = ph.Lidar("ouster/os0-32", columns=512)
    curve = preset.config.range.overlap
    assert isinstance(curve, list)
    other = [(1.15 * r, share) for r, share in curve]
    unit = ph.Lidar(changed_sheet("ouster/os0-32", range={"overlap": other}), columns=512)
    world = ph.World.load("test-range", **BOARDS)
    scan = unit.scan(world, pose=world.viewpoint, seed=2)
    found = preset.fit(world, scan)
    known = [k for k, error in enumerate(found.overlap_error) if error > 0]
    assert isinstance(found.overlap, list)
    near = scan.range[(scan.range > found.overlap[known[0] + 1][0]) & (scan.range < 8.0)]
    ranges = np.quantile(near, np.linspace(0.02, 0.98, 25))
    ratio = overlap_share(found.overlap, ranges) * preset.system_constant.k_m2
    ratio /= overlap_share(other, ranges) * unit.system_constant.k_m2
    np.testing.assert_allclose(ratio, 1.0, atol=0.03)
    before = overlap_share(curve, ranges) * preset.system_constant.k_m2
    assert np.max(before / (overlap_share(other, ranges) * unit.system_constant.k_m2)) > 1.4  # the sheet is off
    for true in BOARD_PERCENT:
        assert found.reflectance[f"lambert-{true}"] == pytest.approx(0.01 * true, rel=0.02)


def test_roughness_is_found() -> None:
    pose = ph.Pose((0.02, -0.01, 0.0))
    lidar = ph.Lidar("velodyne/vlp-16")
    scan = lidar.scan(facets(30.0, 0.5), pose=pose, seed=4)
    found = lidar.fit(facets(12.0, 0.35), scan, pose=ph.Pose())
    assert found.roughness["plaster"] == pytest.approx(30.0, rel=0.05)
    assert found.reflectance["plaster"] == pytest.approx(0.5, rel=0.02)
    assert found.reflectance["lambert-50"] == pytest.approx(0.5, rel=0.02)
    assert np.abs(found.pose.xyz - pose.xyz).max() < 0.005


def test_a_threshold_is_found_by_lost_shots() -> None:
    """A unit that detects at 70 m instead of the rated 100 m: its threshold lies (100 / 70)^2 times higher."""
    world = ph.World("room")
    world.add(ph.shapes.plane(60, 60), material="asphalt", label="ground", pose=ph.Pose((0, 0, -2)))
    for number, (x, y) in enumerate(((28, 0), (24, 9), (0, 22), (-18, 14), (-26, -3), (3, -20))):
        heading = float(np.degrees(np.arctan2(y, x)))
        board = ph.shapes.box(0.1, 7, 6)
        percent = (5, 10)[number % 2]
        world.add(board, material=f"lambert-{percent}", label="wall", pose=ph.Pose((x, y, 0), rpy_deg=(0, 0, heading)))
    rated = ph.Lidar("velodyne/vlp-16").config.range.rated[0]
    shorter = {"rated": [{**rated.model_dump(), "range_m": 0.7 * rated.range_m}]}
    unit = ph.Lidar(changed_sheet("velodyne/vlp-16", range=shorter))
    found = ph.Lidar("velodyne/vlp-16").fit(world, unit.scan(world, pose=ph.Pose(), seed=5), pose=ph.Pose())
    assert found.threshold is not None
    assert found.threshold_error < 0.1
    assert found.threshold == pytest.approx(1.0 / 0.7**2, abs=4.0 * found.threshold_error)
