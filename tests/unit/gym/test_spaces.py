"""Actions and observations: limits of data sheets, and arrays of records with known contents."""

from __future__ import annotations

import math

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.gym.actions import actions_of
from parhelion.gym.observations import LARGEST, OBSERVATIONS, Options
from parhelion.motion.vehicles.library import vehicle_sheet

# ---- actions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "action", "command"),
    [
        ("clearpath/husky", [0.5, -0.25], ph.DriveCommand(0.5, -0.25)),
        ("clearpath/husky", [9.0, -9.0], ph.DriveCommand(1.0, -2.0)),
        ("bmw/320i", [3.0, 0.25], ph.SteerCommand(3.0, 0.25)),
        ("asctec/hummingbird", [0.5, 0.25, -0.5, 1.0], ph.VelocityCommand((0.5, 0.25, -0.5), 1.0)),
        ("dlr/aurora", [4.0, -2.0], ph.ThrustCommand(4.0, -2.0)),
    ],
)
def test_actions_are_commands_within_the_limits(model: str, action: list[float], command: object) -> None:
    actions = actions_of(vehicle_sheet(model))
    numbers = len(actions.names)
    assert actions.space.shape == (numbers,)
    assert actions.command(action + [0.0] * (numbers - len(action))) == command


def test_limits_are_those_of_the_data_sheet() -> None:
    sheet = vehicle_sheet("clearpath/husky")
    assert actions_of(sheet).space.high.tolist() == [sheet.max_speed_m_s, sheet.max_yaw_rate_rad_s]  # type: ignore[union-attr]


def test_wrong_actions_and_vehicles_are_errors() -> None:
    actions = actions_of(vehicle_sheet("clearpath/husky"))
    for wrong in ([0.0], [0.0, math.nan], [0.0, 0.0, 0.0]):
        with pytest.raises(ConfigError, match=r"expected 2 finite numbers \(speed_m_s, yaw_rate_rad_s\)"):
            actions.command(wrong)
    with pytest.raises(ConfigError, match="no entry for vehicles of type str"):
        actions_of("husky")


# ---- observations ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_range_image_shows_ahead_in_the_middle_and_left_on_the_left() -> None:
    world = ph.World()
    for x, y in ((6.0, 0.0), (0.0, 4.0)):
        world.add(ph.shapes.box(2, 2, 6), material="concrete", pose=ph.Pose(xyz=(x, y, 0)))
    lidar = ph.Lidar("velodyne/vlp-16", noise=False)
    scan = lidar.scan(world, pose=ph.Pose())
    reading = OBSERVATIONS.require(type(scan))(lidar, scan, Options(azimuths=360))
    image = reading.read(reading.blank, scan)
    far = lidar.config.range.max_m
    assert reading.space.contains(image)
    assert reading.space.contains(reading.blank)
    assert image.shape == (16, 360)
    middle = image[8]  # the ring 1 deg above or below the horizon
    assert middle[175:185] == pytest.approx(5.0, abs=0.05)
    assert middle[85:95] == pytest.approx(3.0, abs=0.05)
    assert (middle[260:280] == far).all()
    assert (middle[0:10] == far).all()
    # Row 0 is the highest ring: the top of the box ahead is 3 m up, beyond 16 deg only for the box on the left.
    assert image[0, 180] == pytest.approx(5.0 / math.cos(math.radians(15.0)), abs=0.05)


def test_the_nearest_return_of_a_bin_counts() -> None:
    world = ph.World()
    world.add(ph.shapes.box(2, 2, 6), material="concrete", pose=ph.Pose(xyz=(6, 0, 0)))
    lidar = ph.Lidar("velodyne/vlp-16")
    scan = lidar.scan(world, pose=ph.Pose(), seed=3)
    reading = OBSERVATIONS.require(type(scan))(lidar, scan, Options(azimuths=1))
    image = reading.read(reading.blank, scan)
    nearest = [scan.range[scan.ring == ring].min(initial=lidar.config.range.max_m) for ring in range(16)]
    assert image[::-1, 0].tolist() == nearest


def test_detections_are_padded_and_masked() -> None:
    names = ("range", "azimuth", "elevation", "radial_velocity", "rcs")
    fields = {name: np.arange(3, dtype=np.float32) + 10 * k for k, name in enumerate(names)}
    scan = ph.RadarScan(np.ones((3, 3)), fields)
    for capacity, count in ((5, 3), (2, 2)):
        reading = OBSERVATIONS.require(ph.RadarScan)(None, scan, Options(points=capacity))
        found = reading.read(reading.blank, scan)
        assert reading.space.contains(found)
        assert found["mask"].tolist() == [1] * count + [0] * (capacity - count)
        assert found["points"][:count, 3].tolist() == [30.0, 31.0, 32.0][:count]
        assert not found["points"][count:].any()


def test_samples_are_the_latest_rows() -> None:
    def data(*times: float) -> ph.ImuData:
        force = np.array([[t, 0.0, 9.8] for t in times]).reshape(-1, 3)
        return ph.ImuData(list(times), force, -force, np.eye(3), np.eye(3))

    reading = OBSERVATIONS.require(ph.ImuData)(None, data(0.0), Options(rows=3))
    assert reading.space.shape == (3, 6)
    first = reading.read(reading.blank, data(1.0, 2.0))
    assert first[:, 0].tolist() == [0.0, 1.0, 2.0]
    second = reading.read(first, data(3.0, 4.0))
    assert second[:, 0].tolist() == [2.0, 3.0, 4.0]
    assert second[:, 3].tolist() == [-2.0, -3.0, -4.0]
    assert reading.read(second, data()) is second


def test_missing_and_large_values_stay_within_the_bounds() -> None:
    gap = np.nan
    data = ph.UwbData(
        time=[0.0], anchors=("A", "B"), anchor_xyz=[[0, 0, 2], [8, 0, 2]], range=[[5.0, gap]], range_std=[[0.05, gap]],
        rssi=[[-81.0, gap]], snr=[[22.0, gap]], los=[[True, False]], true_range=[[5.0, 5.0]],
        position=[[1e9, -1e9, gap]], position_covariance=np.full((1, 3, 3), gap), gdop=[gap],
    )  # fmt: skip
    reading = OBSERVATIONS.require(ph.UwbData)(None, data, Options())
    found = reading.read(reading.blank, data)
    assert reading.space.contains(found)
    assert found.tolist() == [[5.0, 0.0, LARGEST, -LARGEST, 0.0]]


def test_pictures_keep_their_type_and_depth_is_finite() -> None:
    colour = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    plain = ph.Image(colour)
    reading = OBSERVATIONS.require(ph.Image)(None, plain, Options())
    assert reading.read(None, plain).tolist() == colour.tolist()
    assert reading.space.dtype == np.uint8
    depth = np.full((2, 4), 1.5, np.float32)
    depth[0, 0] = np.nan
    deep = ph.Image(colour, measured_depth=depth)
    reading = OBSERVATIONS.require(ph.Image)(None, deep, Options())
    found = reading.read(reading.blank, deep)
    assert reading.space.contains(found)
    assert found["depth"].ravel().tolist() == [0.0] + [1.5] * 7


def test_a_type_without_an_entry_is_an_error() -> None:
    with pytest.raises(ConfigError, match="gymnasium: no entry for records of type Record"):
        OBSERVATIONS.require(ph.Record)
