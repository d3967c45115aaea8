"""Realism: restored rings, the two-sample test on sets whose answer is known, and shots compared one by one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import cKDTree

import parhelion as ph
from lidar_recorded_rigs import KITTI, points_of
from parhelion.core.errors import ConfigError, FormatError
from parhelion.evaluate.realism import Options, auc_of, compare, frame_of, measures, pair_of, report
from parhelion.evaluate.realism.features import REACH_M, range_step
from parhelion.evaluate.realism.study import Realism
from parhelion.evaluate.realism.two_sample import (
    GUARD_DEG,
    SECTOR_DEG,
    common_features,
    samples_of,
    sectors,
    two_sample,
)
from realism_rigs import COLUMNS, RINGS, drive, frame


def without_rings(cloud: ph.PointCloud, order: np.ndarray) -> tuple[ph.PointCloud, np.ndarray]:
    """The points alone in another order, and their true rings."""
    return ph.PointCloud(cloud.xyz[order]), np.asarray(cloud.fields["ring"], np.int64)[order]


def rings_agree(cloud: ph.PointCloud, true: np.ndarray) -> bool:
    """All restored rings contain the points of one true ring, in the same order of height."""
    found = frame_of(cloud)
    assert found.ring is not None
    key = {tuple(point): ring for point, ring in zip(cloud.xyz.tolist(), true.tolist(), strict=True)}
    return np.array_equal(found.ring, [key[tuple(point)] for point in found.xyz.tolist()])


# ---- rings -----------------------------------------------------------------------------------------------------------


def test_rings_of_files_without_ring_numbers() -> None:
    cloud = frame(1)
    by_laser = np.lexsort((cloud.fields["column"], -cloud.fields["ring"].astype(int)))
    by_column = np.lexsort((cloud.fields["ring"], cloud.fields["column"]))
    assert rings_agree(*without_rings(cloud, by_laser))
    assert rings_agree(*without_rings(cloud, by_column))
    # Elevations that drift by two ring spacings overlap, but are continuous along the file.
    tilted = frame(1, drift_deg=1.0)
    order = np.lexsort((tilted.fields["ring"], tilted.fields["column"]))
    assert rings_agree(*without_rings(tilted, order))


def test_points_in_no_order_have_no_rings() -> None:
    points = np.random.default_rng(3).normal(size=(5000, 3)) * 5.0
    assert frame_of(ph.PointCloud(points)).ring is None


def test_missing_shots_are_counted() -> None:
    cloud = frame(1, lost=0.0)
    column, ring = (cloud.fields[name].astype(int) for name in ("column", "ring"))
    gap = (column >= 100) & (column < 105) & (ring == 7)
    found = frame_of(cloud.select(~gap))
    assert found.step == pytest.approx(2.0 * np.pi / COLUMNS, rel=1e-6)
    assert np.nansum(found.missing) == 5
    assert found.ring is not None
    assert found.ring[np.nanargmax(found.missing)] == 7


def test_a_frame_with_few_points_is_an_error() -> None:
    with pytest.raises(FormatError, match="has 10 points"):
        frame_of(ph.PointCloud(np.ones((10, 3))))


# ---- two-sample test -------------------------------------------------------------------------------------------------


def test_auc_is_the_probability_of_the_right_order() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, 40), rng.integers(1, 6, 60)
    pairs = (b[None, :] > a[:, None]).mean() + 0.5 * (b[None, :] == a[:, None]).mean()
    assert auc_of(np.concatenate([a, b]).astype(float), np.repeat([0, 1], [40, 60])) == pytest.approx(pairs)
    with pytest.raises(ConfigError, match="both sets"):
        auc_of(np.ones(3), np.ones(3))


def test_training_and_test_never_share_a_sector() -> None:
    degrees = np.arange(0.0, 360.0, 0.25)
    number, guarded = sectors(np.radians(degrees))
    half = number % 2
    kept = [degrees[~guarded & (half == k)] for k in (0, 1)]
    nearest = np.abs((kept[0][:, None] - kept[1][None] + 180.0) % 360.0 - 180.0).min()
    assert nearest >= 2.0 * GUARD_DEG
    assert len(np.unique(number)) == 360.0 / SECTOR_DEG


@pytest.fixture(scope="module")
def real() -> list[ph.PointCloud]:
    return drive(100)


def chance(result: Realism) -> float:
    """Bound of |AUC - 1/2| for sets of one distribution.

    The AUC of n against n independent points has a variance of (2n + 1) / (12 n²) (Mann and Whitney 1947). Points
    within twice the radius of a neighbourhood share neighbours, so that many count as one. 3.9 deviations are exceeded
    1 time in 10 000.
    """
    sample, frames = result.samples[0], result.sets[0]
    shared = []
    for number, one in enumerate(frames):
        points = one.xyz[sample.row[sample.frame == number]]
        tree = cKDTree(points)
        shared.append(tree.count_neighbors(tree, 2.0 * REACH_M) / len(points))
    n = len(sample) / float(np.mean(shared))
    return float(3.9 * np.sqrt((2.0 * n + 1.0) / (12.0 * n * n)))


SMALL = Options(most_points=4000)


def test_frames_of_one_distribution_are_not_separated(real: list[ph.PointCloud]) -> None:
    result = compare(real, drive(200), SMALL)
    assert chance(result) < 0.11  # the bound excludes every AUC that would matter
    for test in (result.shape, result.best, result.floor["alternate frames"]["shape"]):
        assert abs(test.auc - 0.5) < chance(result)
    assert "does not separate" in report.verdict(result)
    assert result.shots is not None
    assert result.shots.hit_agreement == pytest.approx(0.95**2 + 0.05**2, abs=0.005)


def test_storage_in_millimetres_or_few_levels_is_no_giveaway(real: list[ph.PointCloud]) -> None:
    """Range steps below the common resolution and four-bit intensities are properties of files, not of sensors."""
    sets = [frame_of(one) for one in real], [frame_of(one) for one in drive(200, step_m=0.003, levels=16)]
    assert range_step(sets[1]) == pytest.approx(0.003)
    samples = samples_of(sets, 0.003, 0, 6000)
    columns = common_features(*samples, intensity=True)
    first = two_sample(*samples, columns, 0, explain=False)
    assert abs(first.auc - 0.5) < 0.06
    again = two_sample(*samples, columns, 0, explain=False)
    assert np.array_equal(again.scores_simulated, first.scores_simulated, equal_nan=True)


# ---- shots -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbered", [True, False])
def test_shots_with_a_known_error(numbered: bool) -> None:
    """A simulation 3 cm too far that loses every tenth of the real returns, and nothing else."""
    one = frame(5, lost=0.2, noise_m=0.0)
    reach = np.linalg.norm(one.xyz, axis=1)
    made = one.with_fields(intensity=2.0 * one.fields["intensity"])
    made = ph.PointCloud(made.xyz * (1.0 + 0.03 / reach)[:, None], made.fields).select(np.arange(len(one)) % 10 > 0)
    clouds = [one, made]
    if not numbered:
        clouds = [ph.PointCloud(c.xyz, {k: c.fields[k] for k in ("ring", "intensity")}) for c in clouds]
    pair = pair_of(*clouds)
    assert pair is not None
    assert pair.same_view
    assert pair.matched_by == ("ring and column" if numbered else "ring and azimuth")
    found = measures([pair])
    total, returned = RINGS * COLUMNS, len(one)
    assert found.shots == total
    assert found.range_error_median_m == pytest.approx(0.03, abs=1e-6)
    assert found.near_share_of_hits == 1.0
    assert found.near_share_of_returns == pytest.approx(len(made) / returned)
    assert found.hit_agreement == pytest.approx(1.0 - (returned - len(made)) / total)
    assert found.real_returns_hit == pytest.approx(len(made) / returned)
    assert found.real_losses_hit == 0.0
    # Losses are independent: the share around a shot, its own included, is the whole truth about it.
    assert sum(row["shots"] for row in found.calibration) == total
    # Twice the intensity is the same scale after medians are made equal.
    assert found.intensity_wasserstein == pytest.approx(0.0, abs=0.01)
    assert found.intensity[0]["recorded"] > 0.5


def test_frames_of_other_places_are_no_pair_of_shots(real: list[ph.PointCloud]) -> None:
    turned = ph.PointCloud(real[0].xyz[:, [1, 0, 2]] * [1, -1, 1] * 3.0, real[0].fields)
    pair = pair_of(real[0], turned)
    assert pair is not None
    assert not pair.same_view


# ---- recordings ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not KITTI.exists(), reason="needs kitti0005_hdl64_pose of ../shared/data")
def test_neighbouring_frames_of_a_recording_are_not_separated() -> None:
    """KITTI stores no rings, millimetres and 100 levels of intensity; neighbours are 0.4 m apart."""
    points = [points_of(KITTI / "lidar" / f"{k:06d}.dz") for k in (60, 61)]
    clouds = [ph.PointCloud(one[:, :3], {"intensity": one[:, 3]}) for one in points]
    sets = [frame_of(clouds[0])], [frame_of(clouds[1])]
    assert [one.rings_from for (one,) in sets] == ["file order"] * 2
    assert [one.rings for (one,) in sets] == [64, 64]
    assert range_step(sets[0]) == 0.001
    samples = samples_of(sets, 0.003, 0, 8000)
    assert two_sample(*samples, common_features(*samples, intensity=True), 0, explain=False).auc < 0.55
