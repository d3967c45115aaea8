"""Realism: restored rings, the two-sample test on sets whose answer is known, and shots compared one by one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.spatial import cKDTree

import parhelion as ph
from lidar_recorded_rigs import KITTI, points_of
from parhelion.core.errors import ConfigError, FormatError
from parhelion.evaluate.realism import Options, auc_of, compare, frame_of, measures, pair_of, report
from parhelion.evaluate.realism.features import (
    _FEWEST_NEIGHBOURS as FEWEST_NEIGHBOURS,
)
from parhelion.evaluate.realism.features import (
    _TINY,
    CELL_M,
    FEATURES,
    LONGEST_RUN,
    NEIGHBOURS,
    REACH_M,
    Scale,
    at_resolution,
    features_of,
    range_step,
)
from parhelion.evaluate.realism.features import (
    _WINDOW as WINDOW,
)
from parhelion.evaluate.realism.rings import Frame
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


# ---- features --------------------------------------------------------------------------------------------------------


def by_loops(one: Frame, row: int, level: np.ndarray) -> dict[str, float]:
    """Features of one point, as they are defined, without tables or vectors."""
    assert one.ring is not None
    nan, found = float("nan"), {}
    xyz, metres, ring = one.xyz, one.range, one.ring
    here = xyz[row]
    after = row + 1 if row + 1 < len(one) and ring[row + 1] == ring[row] and one.missing[row] == 0.0 else None
    before = row - 1 if row > 0 and ring[row - 1] == ring[row] and one.missing[row - 1] == 0.0 else None
    arc = max(np.hypot(here[0], here[1]), 0.05 * metres[row]) * one.step
    found["spacing_along"] = nan if after is None else np.linalg.norm(xyz[after] - here) / arc
    found["intensity_along"] = nan if after is None else abs(level[after] - level[row])
    if after is None or before is None:
        found["bend"] = found["edge"] = nan
    else:
        found["bend"] = np.linalg.norm((xyz[before] + xyz[after]) / 2 - here)
        found["edge"] = max(abs(metres[k] - metres[row]) / metres[row] for k in (before, after))
    runs = [one.missing[row]] + ([one.missing[row - 1]] if row else [])
    known = [run for run in runs if np.isfinite(run)]
    found["dropout_run"] = max(known) if known else nan
    window = range(max(row - WINDOW, 0), min(row + WINDOW, len(one)))
    lost = sum(min(0.0 if np.isnan(one.missing[k]) else one.missing[k], LONGEST_RUN) for k in window)
    found["dropouts"] = lost / (lost + len(window))
    above = [k for k in range(len(one)) if ring[k] == ring[row] + 1]
    nearest = min(above, key=lambda k: (round(abs(one.azimuth[k] - one.azimuth[row]), 9), -k), default=None)
    if nearest is None or abs(one.azimuth[nearest] - one.azimuth[row]) >= 1.5 * one.step:
        found["spacing_across"] = found["intensity_across"] = nan
    else:
        rise = max(abs(one.elevation[nearest] - one.elevation[row]), 1e-4)
        turn = one.azimuth[nearest] - one.azimuth[row]
        found["spacing_across"] = np.linalg.norm(xyz[nearest] - here) / (metres[row] * np.hypot(rise, turn))
        found["intensity_across"] = abs(level[nearest] - level[row])
    first = {}
    for k, point in enumerate(xyz):
        first.setdefault(tuple(np.floor(point / CELL_M).astype(int)), k)
    near = sorted(first.values(), key=lambda k: np.linalg.norm(xyz[k] - here))[:NEIGHBOURS]
    near = [k for k in near if np.linalg.norm(xyz[k] - here) < REACH_M]
    if len(near) < FEWEST_NEIGHBOURS:
        return found | dict.fromkeys(("roughness", "planarity", "linearity", "incidence", "intensity_texture"), nan)
    spread, axes = np.linalg.eigh(np.cov(xyz[near].T, bias=True))
    low, middle, high = np.sqrt(np.maximum(spread, 0.0))
    found |= {"roughness": low, "planarity": (middle - low) / high, "linearity": (high - middle) / high}
    found["incidence"] = abs(axes[:, 0] @ here) / metres[row]
    found["intensity_texture"] = np.std(level[near])
    return found


def test_features_are_those_of_their_definitions() -> None:
    cloud = frame(8, lost=0.2)
    one = frame_of(cloud.select((cloud.fields["ring"] % 3 != 2) & (cloud.fields["column"] % 300 < 45)))
    level = np.random.default_rng(1).random(len(one))
    rows = np.r_[0:6, np.random.default_rng(2).choice(len(one), 50, replace=False), len(one) - 6 : len(one)]
    found = features_of(one, rows, level)
    expected = [by_loops(one, int(row), level) for row in rows]
    for k, feature in enumerate(FEATURES):
        values = np.array([each[feature.name] for each in expected])
        values = np.log10(values + _TINY) if feature.logarithm else values
        # Roughness is the smallest root of a covariance, which cancels down to the square root of its rounding.
        np.testing.assert_allclose(found[:, k], values, rtol=1e-6, atol=1e-6, err_msg=feature.name)
        assert np.isfinite(values).sum() > 10
    assert np.isnan(found).any()
    without = features_of(one, rows, None)
    blind = np.array([feature.name.startswith("intensity") for feature in FEATURES])
    assert np.isnan(without[:, blind]).all()
    assert np.array_equal(without[:, ~blind], found[:, ~blind], equal_nan=True)


def test_ranks_of_intensity_are_uniform_within_their_level() -> None:
    """Levels 3, 5 and 9 with 1, 2 and 1 quarters of the points."""
    one = SimpleNamespace(intensity=np.array([5.0, 3.0, 9.0, 5.0]))
    scale = Scale.of([one, SimpleNamespace(intensity=None)])  # type: ignore[list-item]
    assert scale.levels.tolist() == [3.0, 5.0, 9.0]
    assert scale.edges.tolist() == [0.0, 0.25, 0.75, 1.0]
    drawn = np.random.default_rng(4).random(2000)
    ranks = scale.ranks(np.full(2000, 5.0), np.random.default_rng(4))
    assert ranks == pytest.approx(0.25 + 0.5 * drawn)
    assert scale.blurred(np.array([0.3] * 1000 + [0.9] * 1000), np.random.default_rng(4)) == pytest.approx(
        np.r_[0.25 + 0.5 * drawn[:1000], 0.75 + 0.25 * drawn[1000:]]
    )
    assert scale.blurred(np.array([0.0, 1.0]), np.random.default_rng(4)) == pytest.approx(
        [0.25 * drawn[0], 0.75 + 0.25 * drawn[1]]
    )


def test_ranges_are_dithered_within_their_step() -> None:
    one = frame_of(frame(1))
    assert at_resolution(one, 0.0, 1) is one
    rough = at_resolution(one, 0.5, 1, 2)
    noise = np.random.default_rng((1, 2)).random(len(one)) - 0.5
    metres = np.maximum((np.rint(one.range / 0.5) + noise) * 0.5, 0.5 * one.range)
    assert rough.range == pytest.approx(metres)
    assert np.linalg.norm(rough.xyz, axis=1) == pytest.approx(metres, rel=1e-6)
    assert rough.xyz / rough.range[:, None] == pytest.approx(one.xyz / one.range[:, None], abs=1e-6)


@pytest.mark.parametrize("step", [0.5, 0.04, 0.025, 0.004, 0.001])
def test_range_steps_are_found(step: float) -> None:
    assert range_step([frame_of(frame(3, step_m=step))]) == pytest.approx(step)
    assert range_step([frame_of(frame(3))]) == 0.0


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


def test_places_are_the_cells_of_the_highest_scores() -> None:
    """Cells of 12 by 6 degrees with 12 points or more; neighbours of a place show the same object."""
    # Frame, azimuth and elevation [deg], number of points, and score of each cell.
    cells = [(0, 100, 3, 20, 0.9), (1, 100, 3, 20, 0.8), (0, 112, 9, 20, 0.85), (0, 124, 3, 12, 0.7),
             (1, 10, -9, 11, 0.99), (1, 200, -9, 30, 0.6), (1, 40, 21, 20, np.nan)]  # fmt: skip
    rows = [one for cell in cells for one in [cell] * cell[3]]
    frame_of_row = np.array([one[0] for one in rows])
    frames = []
    for k in (0, 1):
        angles = np.radians([one[1:3] for one in rows if one[0] == k]) + 1e-3
        metres = np.arange(len(angles)) + 1.0
        xyz = np.column_stack([0.0 * metres, 0.0 * metres, metres * np.sin(angles[:, 1])])
        frames.append(Frame("made", xyz, metres, angles[:, 0], None, None, "none", 0.0, 0.0 * metres))
    row = np.array([int(np.sum(frame_of_row[:n] == k)) for n, k in enumerate(frame_of_row)])
    values = np.full((len(rows), len(FEATURES)), 0.5)
    roughness = [feature.name for feature in FEATURES].index("roughness")
    values[:, roughness] = -1.0
    real = np.tile(np.linspace(0.0, 1.0, 101)[:, None], (1, len(FEATURES)))
    ranked = (("roughness", 0.1, "m"), ("planarity", 0.1, ""), ("edge", 0.0, ""))
    features = [SimpleNamespace(name=name, importance=weight, unit=unit) for name, weight, unit in ranked]
    result: Any = SimpleNamespace(
        samples=(SimpleNamespace(values=real), SimpleNamespace(values=values, frame=frame_of_row, row=row)),
        sets=(None, frames),
        best=SimpleNamespace(scores_simulated=np.array([one[4] for one in rows]), features=features),
    )
    found = report.places(result)
    assert [(one.frame, one.azimuth_deg, one.elevation_deg, one.score) for one in found] == [
        (0, 102.0, 3.0, pytest.approx(0.9)), (0, 126.0, 3.0, pytest.approx(0.7)), (1, 198.0, -9.0, pytest.approx(0.6)),
    ]  # fmt: skip
    assert [one.distance_m for one in found] == [10.5, 46.5, 46.5]
    assert all(one.reason.startswith("roughness 0.1") and one.reason.endswith(" m") for one in found)
    assert len(report.places(result, most=2)) == 2


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


def test_frames_without_rings_are_no_pair() -> None:
    clouds = [ph.PointCloud(one.xyz, {"ring": one.fields["ring"]}) for one in (frame(5), frame(6))]
    known = [frame_of(one) for one in clouds]
    bare = [replace(one, ring=None) for one in known]
    for frames in ((bare[0], known[1]), (known[0], bare[1]), (replace(known[0], step=0.0), known[1])):
        assert pair_of(*clouds, frames=frames) is None
    assert pair_of(*clouds, frames=(known[0], known[1])) is not None


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
