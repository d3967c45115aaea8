"""Maps of drives with known poses, and localisation in them, in a box whose walls are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.core.pose import Floats, quat_conjugate, quat_from_rpy, quat_rotate
from parhelion.evaluate.slam.drives import Frame, recorded_drive
from parhelion.evaluate.slam.localise import Localised, localise, scored, summary
from parhelion.evaluate.slam.maps import Voxels, build_map
from parhelion.evaluate.slam.odometry import Setup
from parhelion.io import poses as tum
from parhelion.io.poses import TimedPoses

PERIOD_S, SPEED_M_S, TURN_RAD_S = 0.1, 4.0, 0.3
HALF_M = np.array([10.0, 7.0, 3.0])
LABELS = {0: "building", 1: "moving-car", 2: "car"}


class BoxDrive:
    """A sensor that drives through a closed box while it scans: every point is on a wall at the time of its shot."""

    setup = Setup(PERIOD_S)
    count = 8

    def __init__(self, noise_m: float = 0.0, share: float = 1.0) -> None:
        self.noise_m, self.share = noise_m, share

    def at(self, times: Floats) -> tuple[Floats, Floats]:
        times = np.asarray(times, np.float64)
        angle = TURN_RAD_S * times
        radius = SPEED_M_S / TURN_RAD_S
        place = np.stack([radius * np.sin(angle) - 2.0, radius * (1.0 - np.cos(angle)), 0.0 * times], axis=1)
        return place, np.stack([quat_from_rpy(0.0, 0.0, one) for one in angle])

    def truth(self) -> TimedPoses:
        times = np.linspace(0.0, (self.count + 1) * PERIOD_S, 200)
        return TimedPoses(times, *self.at(times))

    def frames(self) -> Iterator[Frame]:
        for number in range(self.count):
            rng = np.random.default_rng(number)
            n = round(3000 * self.share)
            delay = np.sort(rng.random(n)).astype(np.float32) * PERIOD_S
            place, turn = self.at(PERIOD_S * number + delay.astype(np.float64))
            ray = rng.normal(size=(n, 3))
            ray /= np.linalg.norm(ray, axis=1, keepdims=True)
            reach = np.min(np.where(ray > 0, HALF_M - place, -HALF_M - place) / ray, axis=1)
            reach += self.noise_m * rng.normal(size=n)
            xyz = quat_rotate(quat_conjugate(turn), ray * reach[:, None])
            fields = {"time": delay, "intensity": np.full(n, 0.5, np.float32), "label": np.arange(n) % 3}
            cloud = PointCloud(xyz, fields, names={"label": LABELS})
            yield Frame(PERIOD_S * number, cloud, None)


def wall_distances(points: Floats) -> Floats:
    return np.abs(HALF_M - np.abs(points)).min(axis=1)


def test_points_of_a_moving_sensor_lie_on_the_walls() -> None:
    """Without the time of the shots, 4 m/s over 0.1 s would shift points by up to 0.4 m."""
    cloud = build_map(BoxDrive(), voxel_m=1e-3)
    assert cloud.frame == "world"
    assert len(cloud) == pytest.approx(8 * 3000, rel=1e-3)
    # The spline between true poses 4.5 ms apart is exact to far below a millimetre.
    assert wall_distances(cloud.xyz.astype(np.float64)).max() < 1e-4
    assert np.all(cloud.fields["intensity"] == 0.5)


def test_moving_objects_and_labels_are_omitted() -> None:
    everything, static, least = (
        len(build_map(BoxDrive(), 1e-3, **how)) for how in ({}, {"static": True}, {"static": True, "without": ["car"]})
    )
    assert static == pytest.approx(2 * everything / 3, rel=0.01)
    assert least == pytest.approx(everything / 3, rel=0.01)


def test_a_voxel_keeps_the_mean_of_its_points() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(-3.0, 3.0, (4000, 3))
    voxels = Voxels(0.5)
    for part in np.array_split(points, 7):
        voxels.add(part, None)
    cloud = voxels.cloud()
    cells = np.floor(points / 0.5)
    assert len(cloud) == len(np.unique(cells, axis=0))
    own = points[(cells == np.floor(cloud.xyz[17] / 0.5)).all(axis=1)]
    np.testing.assert_allclose(cloud.xyz[17], own.mean(axis=0), atol=1e-6)
    with pytest.raises(ConfigError, match="farther than"):
        voxels.add(np.array([[1e9, 0.0, 0.0]]), None)


def test_errors_are_those_in_the_frame_of_the_map() -> None:
    """A trajectory that is shifted as a whole has no odometry error, but is wrong in a map."""
    truth = BoxDrive().truth()
    shifted = TimedPoses(truth.times, truth.xyz + np.array([0.3, 0.4, 0.0]), truth.quat_xyzw)
    found = scored(shifted, truth, "any")
    assert found.rms_m == found.max_m == pytest.approx(0.5)
    assert found.rms_deg == pytest.approx(0.0, abs=1e-5)
    far = TimedPoses(truth.times, truth.xyz + np.where(np.arange(200)[:, None] < 50, 2.0, 0.0), truth.quat_xyzw)
    assert scored(far, truth, "any").lost_percent == 25.0


def test_runs_of_one_seed_are_compared_with_clear_air() -> None:
    def run(weather: str, seed: int, rms: float) -> Localised:
        return Localised("gicp", weather, seed, 9, 1000.0, 9.0, rms, rms, rms, 0.1, 0.0, 0)

    rows = summary([run("clear", 0, 0.1), run("fog=50", 0, 0.15), run("clear", 1, 0.3), run("fog=50", 1, 0.34)])
    assert rows[0]["more_than_clear_m"] is None
    assert rows[1]["more_than_clear_m"]["mean"] == pytest.approx(0.045)


@pytest.mark.parametrize("method", ["gicp", "vgicp", "plane-icp"])
def test_a_drive_is_localised_in_its_map(method: str) -> None:
    pytest.importorskip("small_gicp")
    cloud = build_map(BoxDrive(), 0.1)
    ((result, poses),) = localise(BoxDrive(noise_m=0.01), cloud, [method])
    assert result.unregistered == 0
    # 3000 points with 1 cm of noise on six walls; voxels of 0.25 m average few of them.
    assert result.rms_m < 0.01
    assert result.rms_deg < 0.1
    assert poses.times[0] == pytest.approx(PERIOD_S)
    # Scans with hardly any point keep the predicted motion, and are counted.
    ((sparse, _),) = localise(BoxDrive(share=0.01), cloud, [method])
    assert sparse.unregistered == BoxDrive.count
    assert sparse.rms_m < 0.05


def test_an_unknown_method_or_source(tmp_path: Path) -> None:
    cloud = build_map(BoxDrive(), 0.5)
    try:
        with pytest.raises(ConfigError, match="gicp"):
            localise(BoxDrive(), cloud, ["gipc"])
    except MissingDependencyError:
        pytest.skip("needs small_gicp")
    (tmp_path / "truth").mkdir()
    for name in ("front", "rear"):
        (tmp_path / name).mkdir()
        tum.write_tum(BoxDrive().truth(), tmp_path / "truth" / f"{name}.tum")
    with pytest.raises(ConfigError, match=r"several lidars; give one of .*front, .*rear"):
        recorded_drive(tmp_path)
