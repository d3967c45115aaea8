"""Scores of trajectories against closed forms, and against evo where it is installed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from oracles import oracle
from parhelion.core.errors import ConfigError
from parhelion.core.pose import quat_from_rpy, quat_multiply
from parhelion.evaluate.slam import trajectories as tracks
from parhelion.evaluate.slam.study import bootstrap, scored, summary, weather_fields
from parhelion.io.poses import TimedPoses


def straight(length_m: float, step_m: float = 1.0, scale: float = 1.0) -> TimedPoses:
    x = np.arange(0.0, length_m + step_m / 2, step_m)
    xyz = np.stack([x * scale, 0 * x, 0 * x], axis=1)
    return TimedPoses(0.1 * np.arange(len(x)), xyz, np.tile([0.0, 0, 0, 1.0], (len(x), 1)))


def winding(noise: float = 0.0, seed: int = 0) -> TimedPoses:
    t = np.linspace(0.0, 60.0, 600)
    rng = np.random.default_rng(seed)
    xyz = np.stack([60 * np.sin(t / 12), 80 * np.cos(t / 9), 2 * np.sin(t / 3)], axis=1)
    quat = quat_from_rpy(0.05 * np.sin(t), 0.03 * np.cos(t), t / 5)
    drift = np.cumsum(rng.normal(0.0, noise, (len(t), 3)), axis=0)
    shake = quat_from_rpy(*np.cumsum(rng.normal(0.0, noise / 20, (3, len(t))), axis=1))
    return TimedPoses(t, xyz + drift, quat_multiply(quat, shake))


def test_a_moved_trajectory_has_no_error() -> None:
    truth = winding()
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    estimate = tracks.moved(truth, turn, np.array([5.0, -3.0, 100.0]))
    assert tracks.ate(estimate, truth).translation < 1e-9
    assert tracks.ate(estimate, truth).rotation < 1e-5
    assert tracks.rpe(estimate, truth, frames=1).translation < 1e-9
    assert tracks.end_drift_percent(estimate, truth) < 1e-9


def test_a_path_that_is_a_hundredth_too_long_drifts_by_one_percent() -> None:
    """Relative errors of a segment of length L are 0.01 L, over whole steps of a metre; ATE is that of a ramp."""
    truth, estimate = straight(400.0), straight(400.0, scale=1.01)
    drift = tracks.kitti_drift(estimate, truth)
    assert drift is not None
    # A segment ends at the first pose beyond its length, one step of a metre later.
    expected = np.mean([1.01, 1.005, 1 + 1 / 300], dtype=float)
    assert drift.translation == pytest.approx(expected, rel=0.003)
    assert drift.rotation == pytest.approx(0.0, abs=1e-9)
    assert tracks.end_drift_percent(estimate, truth) == pytest.approx(1.0)
    assert tracks.rpe(estimate, truth, metres=10.0).translation == pytest.approx(0.1)
    ramp = 0.01 * (np.arange(401) - 200.0)
    assert tracks.ate(estimate, truth).translation == pytest.approx(np.sqrt(np.mean(ramp**2)), rel=1e-9)


def test_a_rotation_error_is_in_degrees() -> None:
    truth = straight(300.0)
    turn = quat_from_rpy(0.0, 0.0, np.radians(0.02) * np.arange(301))
    drift = tracks.kitti_drift(TimedPoses(truth.times, truth.xyz, turn), truth, lengths_m=(100.0,), step=10)
    assert drift is not None
    assert drift.rotation == pytest.approx(0.02 * 101, rel=1e-6)


def test_a_short_path_has_no_kitti_drift() -> None:
    assert tracks.kitti_drift(straight(50.0), straight(50.0)) is None
    assert scored(straight(50.0), straight(50.0), "own").drift_percent is None


def test_truth_is_taken_at_the_times_of_the_estimate() -> None:
    truth = straight(10.0)
    late = TimedPoses(truth.times[:-1] + 0.05, truth.xyz[:-1] + np.array([0.5, 0, 0]), truth.quat_xyzw[:-1])
    found, true = tracks.matched(late, truth)
    np.testing.assert_allclose(found.xyz, true.xyz, atol=1e-9)


def test_bad_trajectories_are_rejected() -> None:
    good = straight(10.0)
    with pytest.raises(ConfigError, match="estimated trajectory: a trajectory needs at least 3 poses"):
        tracks.matched(straight(1.0), good)
    broken = TimedPoses(good.times, np.where(np.arange(11)[:, None] == 4, np.nan, good.xyz), good.quat_xyzw)
    with pytest.raises(ConfigError, match="positions must be finite, got NaN or infinity in pose 4"):
        tracks.matched(broken, good)
    with pytest.raises(ConfigError, match="do not overlap in time"):
        tracks.matched(TimedPoses(good.times + 100.0, good.xyz, good.quat_xyzw), good)


@pytest.mark.oracle
@pytest.mark.slow
def test_scores_are_those_of_evo() -> None:
    metrics = oracle("evo.core.metrics")
    from evo.core.trajectory import PoseTrajectory3D

    truth, estimate = winding(), winding(noise=0.02, seed=3)

    def theirs(poses: TimedPoses) -> object:
        return PoseTrajectory3D(poses.xyz, poses.quat_xyzw[:, [3, 0, 1, 2]], poses.times)

    pair = theirs(truth), theirs(estimate)

    def score(kind: type, relation: str, *options: object) -> float:
        measure = kind(getattr(metrics.PoseRelation, relation), *options)
        measure.process_data(pair)
        return float(measure.get_statistic(metrics.StatisticsType.rmse))

    for frames in (1, 7):
        ours = tracks.rpe(estimate, truth, frames=frames)
        asked = (frames, metrics.Unit.frames)
        assert ours.translation == pytest.approx(score(metrics.RPE, "translation_part", *asked), rel=1e-9)
        assert ours.rotation == pytest.approx(score(metrics.RPE, "rotation_angle_deg", *asked), rel=1e-6)
    by_way = tracks.rpe(estimate, truth, metres=10.0).translation
    along_truth = (10.0, metrics.Unit.meters, 0.1, False, True)
    assert by_way == pytest.approx(score(metrics.RPE, "translation_part", *along_truth), rel=1e-9)
    pair[1].align(pair[0])
    ours = tracks.ate(estimate, truth)
    assert ours.translation == pytest.approx(score(metrics.APE, "translation_part"), rel=1e-9)
    assert ours.rotation == pytest.approx(score(metrics.APE, "rotation_angle_deg"), rel=1e-6)


def test_drift_is_that_of_a_plain_loop_over_matrices() -> None:
    """KITTI's method: matrices, and a search for the first pose beyond each length."""
    truth, estimate = winding(), winding(noise=0.02, seed=3)

    def matrices(poses: TimedPoses) -> list[np.ndarray]:
        from parhelion.core.pose import Pose

        return [Pose(xyz, quat).matrix for xyz, quat in zip(poses.xyz, poses.quat_xyzw, strict=True)]

    true, found = matrices(truth), matrices(estimate)
    way = [0.0]
    for a, b in pairwise(true):
        way.append(way[-1] + float(np.linalg.norm(b[:3, 3] - a[:3, 3])))
    shifts, turns = [], []
    for first in range(0, len(true), 10):
        for length in range(100, 900, 100):
            last = next((k for k in range(first, len(true)) if way[k] > way[first] + length), None)
            if last is None:
                continue
            error = np.linalg.inv(np.linalg.inv(true[first]) @ true[last]) @ np.linalg.inv(found[first]) @ found[last]
            shifts.append(100 * np.linalg.norm(error[:3, 3]) / length)
            cosine = np.clip((np.trace(error[:3, :3]) - 1) / 2, -1, 1)
            turns.append(100 * np.degrees(np.arccos(cosine)) / length)
    drift = tracks.kitti_drift(estimate, truth)
    assert drift is not None
    assert drift.translation == pytest.approx(np.mean(shifts), rel=1e-9)
    assert drift.rotation == pytest.approx(np.mean(turns), rel=1e-6)


def test_intervals_of_means() -> None:
    values = np.random.default_rng(0).normal(5.0, 1.0, 400)
    found = bootstrap(values.tolist())
    assert found.low is not None
    assert found.high is not None
    # The interval of a mean of many: 1.96 standard errors to each side.
    half = 1.96 * values.std() / np.sqrt(400)
    assert found.mean == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.15 * half)
    assert bootstrap([2.0]).low is None
    assert bootstrap([2.0, 3.0]) == bootstrap([2.0, 3.0])


def test_a_summary_has_a_row_for_each_weather() -> None:
    truth = straight(400.0)
    runs = [
        scored(straight(400.0, scale=1.0 + drift), truth, "own", weather, seed)
        for weather, drift in (("clear", 0.01), ("fog=100", 0.02))
        for seed in range(3)
    ]
    rows = summary(runs)
    assert [row["weather"] for row in rows] == ["clear", "fog=100"]
    assert rows[1]["end_drift_percent"]["mean"] == pytest.approx(2.0)
    assert rows[1]["runs"] == 3


def test_weather_by_words() -> None:
    assert weather_fields("clear") == {}
    assert weather_fields("own") is None
    assert weather_fields("rain=25,fog=800") == {"rain_rate_mm_h": 25.0, "visibility_m": 800.0}
    for wrong, words in (("fogg=1", "did you mean 'fog'"), ("rain=much", "needs a number"), ("rain=-1", "rain")):
        with pytest.raises(ConfigError, match=words):
            weather_fields(wrong)


def test_alignment_never_mirrors() -> None:
    """A path mirrored at its flattest plane: no rotation undoes it, and four times its least variance remains."""
    truth = winding()
    centred = truth.xyz - truth.xyz.mean(axis=0)
    variances, axes = np.linalg.eigh(centred.T @ centred / len(centred))
    mirror = np.eye(3) - 2.0 * np.outer(axes[:, 0], axes[:, 0])
    estimate = TimedPoses(truth.times, truth.xyz @ mirror, truth.quat_xyzw)
    assert tracks.ate(estimate, truth).translation == pytest.approx(2.0 * np.sqrt(variances[0]), rel=1e-9)
    fitted = tracks.aligned(estimate, truth)
    centred = [one.xyz - one.xyz.mean(axis=0) for one in (estimate, fitted)]
    rotation = np.linalg.lstsq(*centred, rcond=None)[0]
    assert np.linalg.det(rotation) == pytest.approx(1.0)
