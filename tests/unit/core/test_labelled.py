"""Records as labelled arrays: names of dimensions, coordinates, units, and values that are shared."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.core.streams import ImuData, OdometryData


@pytest.mark.slow
def test_samples_points_and_pixels_have_named_dimensions_and_units() -> None:
    pytest.importorskip("xarray")
    time, three = np.arange(4) * 0.01, np.arange(12.0).reshape(4, 3)
    imu = ImuData(time, three, three + 1, np.eye(3), np.eye(3)).to_xarray()
    assert dict(imu.sizes)["row"] == 4
    assert float(imu.angular_rate.sel(angular_rate_axis="z")[1]) == three[1, 2] + 1
    assert imu.angular_rate.attrs == {"units": "rad/s", "frame": "sensor"}
    assert imu.time.attrs["units"] == "s"
    assert imu.specific_force_covariance.shape == (3, 3)

    cloud = ph.PointCloud(three, {"range": np.arange(4, dtype=np.float32)}, metadata={"sensor": "own", "seed": 3})
    found = cloud.to_xarray()
    assert (found.attrs["sensor"], found.range.dims, found.xyz.dims) == ("own", ("point",), ("point", "axis"))
    assert float(found.xyz.sel(axis="y")[2]) == three[2, 1]
    assert np.shares_memory(found.range.values, cloud.fields["range"])

    image = ph.Image(np.zeros((2, 5, 3), np.uint8), ("red", "green", "blue"), depth=np.ones((2, 5), np.float32))
    picture = image.to_xarray()
    assert dict(picture.sizes) == {"line": 2, "column": 5, "band": 3}
    assert picture.depth.attrs["units"] == "m"


def test_wheels_have_names() -> None:
    pytest.importorskip("xarray")
    husky = ph.Odometry("clearpath/husky")
    motion = ph.ConstantTwist(ph.Pose(), velocity=(1, 0, 0))
    wheels = husky.run(ph.World(), motion, duration=0.1, seed=1)
    assert isinstance(wheels, OdometryData)
    found = wheels.to_xarray()
    assert list(found.wheel.values) == list(wheels.wheels)
    assert found.ticks.dims == ("row", "wheel")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(MissingDependencyError, match=r"parhelion\[dataframe\]"):
        ph.PointCloud(np.zeros((1, 3)), {}).to_xarray()


@pytest.mark.slow
def test_scans_come_one_after_the_other_with_the_bits_of_all_at_once() -> None:
    world = ph.World("wall")
    world.add(ph.shapes.box(1, 8, 3), material="brick", label="wall", pose=ph.Pose(xyz=(5, 0, 0)))
    lidar = ph.Lidar("velodyne/vlp-16", sub_rays=1)
    poses = [ph.Pose(), ph.Pose(), ph.Pose(xyz=(1, 0, 0)), ph.Pose(), ph.Pose(xyz=(1, 0, 0))]
    calls: list[tuple[int, int]] = []
    whole = lidar.scan_many(world, poses, seed=5, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (5, 5)
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})
    one_by_one = list(lidar.scan_iter(world, poses, seed=5, at_once=2))
    assert all(a.equals(b) for a, b in zip(whole, one_by_one, strict=True))
    assert not whole[0].equals(whole[1]), "the same pose and time, with independent noise"
    assert not whole[2].equals(whole[4])
    with pytest.raises(ConfigError, match="at_once: must be at least 1"):
        next(lidar.scan_iter(world, poses, at_once=0))
