"""Intensity, signal and loss of presets against figures of recordings, fitted or predicted as the presets state."""

from __future__ import annotations

import lzma
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import parhelion as ph
from chance import deviations
from parhelion.core.random import Stream, to_unit
from parhelion.makers.scales import scale_called
from parhelion.sensors.optics.lidar.recorded_gaps import rings_of
from rigs import many_beams, wall

DATA = Path(__file__).parents[3] / "shared/data"


def kitti(name: str) -> NDArray[np.float32]:
    """First scan of a set: x, y, z [m] and intensity from 0 to 1."""
    folder = DATA / name / "lidar"
    if not folder.is_dir():
        pytest.skip(f"needs the recording {folder}")
    file = sorted(folder.glob("*.dz"))[0].read_bytes()
    count, scale = struct.unpack("<4sII", file[:12])[1:]
    data = lzma.decompress(file[12:])
    planes = np.frombuffer(data, np.uint8, 12 * count).reshape(3, 4, count).transpose(0, 2, 1)
    xyz = np.ascontiguousarray(planes).view("<i4")[:, :, 0].astype(np.int64).cumsum(axis=1).T / 1000.0
    return np.c_[xyz, np.frombuffer(data, "<u2", count, 12 * count) / scale].astype(np.float32)


@pytest.mark.parametrize(
    ("name", "within_deg"),
    [("kitti0005_hdl64_pose", 0.01), ("kitti_cam_lidar_0926", 0.02)],
    ids=["fitted", "predicted"],
)
def test_points_of_kitti_lie_in_the_rings_of_the_s2(name: str, within_deg: float) -> None:
    points, lidar = kitti(name)[:, :3], ph.Lidar("velodyne/hdl-64e-s2")
    rings = rings_of(points, lidar)
    assert rings is not None
    table = lidar.shots()
    own = np.sort(table.elevation[table.column == 0])
    assert np.median(np.abs(np.sort(rings.elevation) - own)) < np.radians(within_deg)
    assert rings_of(points, ph.Lidar("velodyne/hdl-64e")) is None, "an S3 has other rings"


def test_road_of_an_hdl_64e_reads_as_recorded() -> None:
    """KITTI: 0.25 to 0.31 of full scale, 64 to 79 counts, and rings that differ; another unit: 114."""
    world, lidar = ph.World("road"), ph.Lidar("velodyne/hdl-64e-s2")
    world.add(ph.shapes.plane(80, 80), material="asphalt", label="road", pose=ph.Pose((0, 0, -1.73)))
    scan = lidar.scan(world, pose=ph.Pose(), seed=3)
    near = (scan.range > 5) & (scan.range < 16)
    assert 60 < np.median(scan.intensity[near]) < 85
    medians = [np.median(scan.intensity[near & (scan.ring == k)]) for k in np.unique(scan.ring[near])]
    assert 0.1 < np.std(np.log(medians)) < 0.35
    order = np.lexsort((scan.column, scan.ring))
    rank = np.argsort(np.argsort(scan.intensity[order] + 1e-3 * to_unit(Stream(1, "ties").words(order)[0]))) / len(scan)
    together = np.diff(scan.ring[order].astype(int)) == 0
    assert 0.07 < np.mean(np.abs(np.diff(rank))[together]) < 0.17


@pytest.mark.slow
def test_far_returns_of_a_vlp_16_read_0_as_recorded() -> None:
    """In a recording, 56 % of the returns from 40 to 60 m read 0. Fitted: the power at which counts begin."""
    file = DATA / "lidar/velodyne_vlp16.pcap"
    if not file.exists():
        pytest.skip(f"needs the recording {file}")
    world = ph.World.load("city")
    zeros = []
    for cloud in (ph.PointCloud.load(file), ph.Lidar("velodyne/vlp-16").scan(world, pose=world.viewpoint, seed=1)):
        near, far = ((cloud.range > low) & (cloud.range < high) for low, high in ((5.0, 30.0), (40.0, 60.0)))
        assert np.mean(cloud.intensity[near] == 0) < 0.05
        zeros.append(np.mean(cloud.intensity[far] == 0))
    assert zeros[1] == pytest.approx(zeros[0], abs=0.15)


def test_signal_of_an_os2_is_the_recorded_one() -> None:
    """372 000 photons m^2 at a reflectance of 1 on the plateau."""
    for model in ("ouster/os2-32", "ouster/os2-64", "ouster/os2-128"):
        lidar = ph.Lidar(model)
        photons = lidar.config.receiver.threshold_photons
        assert photons is not None
        assert photons * lidar.system_constant.k_m2 == pytest.approx(372_000, rel=0.05)
        assert lidar.config.receiver.dropout == 0.006


def test_returns_are_lost_at_any_signal() -> None:
    n = 60_000
    lost = [
        ph.Lidar(many_beams(n, receiver={"dropout": 0.006})).scan(wall(at), pose=ph.Pose(), seed=1).lost.mean()
        for at in (2.0, 20.0)
    ]
    assert lost == pytest.approx([0.006, 0.006], abs=deviations() * np.sqrt(0.006 / n))
    quiet = ph.Lidar(many_beams(1000, receiver={"dropout": 0.5}), noise=False).scan(wall(20.0), pose=ph.Pose())
    assert not quiet.lost.any()


@pytest.mark.parametrize("scale", ["velodyne", "velodyne-vls", "hesai", "hesai-pandar64", "livox", "echo", "ouster"])
def test_received_power_is_the_inverse_of_intensity(scale: str) -> None:
    one = scale_called(scale)
    power = np.geomspace(1.6, 300.0, 200)
    for white in (2.0, 20.0, 500.0):
        value = np.asarray(one.encode(power, power / white, 5.5))
        below = value < (65535 if scale == "ouster" else 254)
        assert np.asarray(one.received(value, white, 5.5))[below] == pytest.approx(power[below], rel=2e-3), white
