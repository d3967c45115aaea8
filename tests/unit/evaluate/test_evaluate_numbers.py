"""Recorded numbers of whole evaluations, with pages and pictures: realism, clouds, drives, drops and detections."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.clouds import PointCloud
from parhelion.core.pose import quat_from_rpy, quat_multiply
from parhelion.evaluate.clouds import drops
from parhelion.evaluate.clouds.compare import Options as CloudOptions
from parhelion.evaluate.clouds.compare import _shots_of, compare_files, page_of, summary_rows
from parhelion.evaluate.detections import evaluate_pair, nuscenes
from parhelion.evaluate.detections.nuscenes_files import CLASSES, NuScenesBoxes, NuScenesPair
from parhelion.evaluate.realism import Options, compare, measures, report, shots
from parhelion.evaluate.realism.features import FEATURES
from parhelion.evaluate.slam import trajectories
from parhelion.evaluate.slam.maps import Voxels
from parhelion.io.poses import TimedPoses
from pins import check, even, of_this_processor
from realism_rigs import drive


def numbers_in(value: Any) -> Any:
    """Logarithms of all numbers of nested plain values, and of texts."""
    return even(_numbers_in(value))


def _numbers_in(value: Any) -> list[float]:
    """All numbers of nested plain values, and of texts; NaN for None."""
    if isinstance(value, dict):
        return [one for key in value for one in _numbers_in(value[key])]
    if isinstance(value, (list, tuple)):
        return [one for part in value for one in _numbers_in(part)]
    if isinstance(value, str):
        text = re.sub(r"base64,[^\"']*", "", value)
        return [float(len(text)), *(float(one) for one in re.findall(r"-?\d+\.?\d*(?:e[-+]?\d+)?", text))]
    return [np.nan if value is None else float(value)]


def drawn(figure: Any) -> Any:
    """Logarithms of the numbers of all that a figure shows: limits, ticks, points, their values, lines and titles."""
    found: list[float] = [*figure.get_size_inches()]
    for axes in figure.axes:
        found += [*axes.get_position().bounds, *axes.get_xlim(), *axes.get_ylim(), *axes.get_xticks()]
        found += _numbers_in([axes.get_title(), axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel()])
        found.append(axes.title.get_fontsize())
        for one in axes.collections:
            offsets, level = np.ma.filled(one.get_offsets(), np.nan), one.get_array()
            found += [*np.ravel(offsets), *np.ravel(one.get_sizes() if hasattr(one, "get_sizes") else 0.0)]
            found += [*np.ravel(one.get_linewidths())]
            found += [] if level is None else [*np.ravel(np.ma.filled(level, np.nan)), *one.get_clim()]
        for line in axes.lines:
            found += [*np.ravel(line.get_xydata()), line.get_linewidth()]
        for patch in axes.patches:
            found += [*np.ravel(patch.get_path().vertices)]
    return even(found)


@pytest.mark.slow
@of_this_processor
def test_a_comparison_of_drives() -> None:
    pytest.importorskip("sklearn", minversion="1.5", reason="recorded with a later classifier")
    pytest.importorskip("matplotlib", minversion="3.9", reason="recorded with later pictures")
    result = compare(drive(100)[:2], drive(200, noise_m=0.004, step_m=0.05)[:2], Options(most_points=1500))
    places = report.places(result)
    assert len(places) > 2
    plain = report.as_dict(result)
    assert "separates the sets" in plain["verdict"]
    text = [report.columns(result), report.table_rows(result), report.facts(result), report.shot_rows(result),
            report.feature_rows(result.best.features)]  # fmt: skip
    check(
        "evaluate/realism", rel=1e-8, plain=numbers_in(plain), text=numbers_in(text),
        real=result.best.scores_real, simulated=result.best.scores_simulated, values=result.samples[1].values,
    )  # fmt: skip
    page = re.sub(r"data:[^\"']*", "", report.page_of(result, "one", "two"))
    check("evaluate/realism-page", rel=1e-8, page=numbers_in(page))
    check(
        "evaluate/realism-pictures", rel=1e-8, scores=drawn(report.score_picture(result)),
        few=drawn(report.score_picture(result, 200)), places=drawn(report.place_picture(result, places)),
    )  # fmt: skip


def test_verdicts_and_warnings() -> None:
    """A test separates from 0.55 on, and from 0.02 above the largest floor."""
    some = ("a", "roughness", "m", 0.1, 0.9, 0.012, 0.034)
    row = report.FeatureResult(*some)

    def verdict(auc: float, floors: list[float], intensity: bool = False) -> str:
        test = report.TwoSample(auc, auc - 0.01, auc + 0.02, [row])
        floor = {
            str(k): {"shape": replace_auc(one), "everything": replace_auc(one + 0.1)} for k, one in enumerate(floors)
        }
        result: Any = type("R", (), {"best": test, "everything": test if intensity else None, "floor": floor})
        return report.verdict(result)

    def replace_auc(auc: float) -> Any:
        return report.TwoSample(auc, auc, auc)

    assert verdict(0.549, [0.5]) == "The classifier does not separate the sets (AUC 0.55; real against real: 0.50)."
    assert verdict(0.551, []).startswith(
        "The classifier separates the sets with an AUC of 0.55 (one real frame gives no floor). The largest"
    )
    assert verdict(0.551, []).endswith("contribution is the roughness: 0.012 m real, 0.034 m simulated (medians).")
    assert verdict(0.629, [0.5, 0.61]).startswith("The classifier does not separate")
    assert verdict(0.631, [0.61, 0.5]).startswith("The classifier separates")
    assert verdict(0.7, [0.6], intensity=True).startswith("The classifier does not separate the sets (AUC 0.70; real")
    assert verdict(0.73, [0.6], intensity=True).startswith("The classifier separates")
    assert report._step(0.0) == "less than 1 mm"
    assert report._step(0.05) == "50 mm"


def test_pictures_of_places_show_what_there_is() -> None:
    """A real set of fewer frames shows its last; points within a cell to each side, across the north as well."""
    random = np.random.default_rng(5)

    def frame(n: int) -> SimpleNamespace:
        azimuth, elevation = random.uniform(0.0, 6.28, n), random.uniform(-0.2, 0.2, n)
        return SimpleNamespace(name=f"{n}", azimuth=azimuth, elevation=elevation, range=random.uniform(2, 50, n))

    sets = ([frame(600)], [frame(500), frame(700)])
    where = [(1, 3.0, 4.0), (0, 355.0, -5.0), (1, 120.0, 8.0)]
    found = [report.RecognisedPart(one[0], one[1], one[2], 0.9, "bend", 10.0 + k) for k, one in enumerate(where)]
    result: Any = SimpleNamespace(sets=sets)
    figure = report.place_picture(result, found)
    check("evaluate/places", rel=1e-7, drawn=drawn(figure))
    sizes = [len(axes.collections[0].get_offsets()) for axes in figure.axes]
    for place, shown in zip(found, zip(sizes[::2], sizes[1::2], strict=True), strict=True):
        for k, count in zip((1, 0), shown, strict=True):
            one = sets[k][min(place.frame, len(sets[k]) - 1)]
            aside = (np.degrees(one.azimuth) - place.azimuth_deg + 180.0) % 360.0 - 180.0
            near = (np.abs(aside) < 12.0) & (np.abs(np.degrees(one.elevation) - place.elevation_deg) < 6.0)
            assert count == near.sum()


def test_a_reason_needs_six_points_and_some_weight() -> None:
    """The feature with the largest difference from the real median, in units of the real quartiles."""
    names = [feature.name for feature in FEATURES]
    real = np.tile(np.linspace(0.0, 1.0, 101)[:, None], (1, len(FEATURES)))
    own = np.full((8, len(FEATURES)), 0.6)
    own[:, names.index("planarity")] = 0.9
    own[:, names.index("incidence")] = 1.4

    def reason(count: int, weight: float) -> str:
        values = own.copy()
        values[count:, names.index("incidence")] = np.nan
        ranked = [("incidence", weight), ("planarity", 0.1), ("linearity", 0.1)]
        features = [SimpleNamespace(name=name, importance=one, unit="") for name, one in ranked]
        best = SimpleNamespace(features=features)
        samples = (SimpleNamespace(values=real), SimpleNamespace(values=values))
        result: Any = SimpleNamespace(samples=samples, best=best)
        return report._reason(result, np.arange(8))

    assert reason(6, 0.003).startswith("incidence 1.4")
    assert reason(5, 0.003).startswith("planarity 0.9")
    assert reason(6, 0.0029).startswith("planarity 0.9")
    assert (
        report._reason(SimpleNamespace(best=SimpleNamespace(features=[])), np.arange(2)) == "several features together"
    )  # type: ignore[arg-type]


def test_shots_of_random_pictures() -> None:
    random = np.random.default_rng(7)

    def pair(shape: tuple[int, int]) -> shots.ShotPair:
        real = np.where(random.random(shape) < 0.7, random.uniform(1.0, 60.0, shape), np.nan)
        made = np.where(random.random(shape) < 0.8, real + random.normal(0.0, 0.1, shape), np.nan)
        level = random.uniform(0.0, 255.0, shape)
        return shots.ShotPair(
            real, made, level, 0.4 * level + 30.0 * random.random(shape), random.random(shape) < 0.9, "x"
        )

    pairs = [pair((16, 240)), pair((8, 300))]
    found = measures(pairs)
    check("evaluate/shots", rel=1e-9, all=numbers_in([vars(found)[name] for name in sorted(vars(found))]))
    for one in pairs:
        hit = np.isfinite(one.simulated) & one.fired
        padded = [np.pad(np.where(part, 1.0, 0.0), ((1, 1), (4, 4)), mode="edge") for part in (hit, one.fired)]
        views = [np.lib.stride_tricks.sliding_window_view(part, (3, 9)).sum(axis=(2, 3)) for part in padded]
        assert shots._predicted(one) == pytest.approx(views[0] / views[1])
    rows = shots._calibration(np.array([0.0, 0.04, 0.96, 1.0]), np.array([True, False, True, True]))
    assert [row["shots"] for row in rows] == [2, 2]
    assert [(row["predicted"], row["real"]) for row in rows] == [(0.02, 0.5), (0.98, 1.0)]
    ends = np.array([0.0, 1.0 / shots.BINS, 1.0 - 1.5 / shots.BINS, 1.0 - 1e-9, 1.0])
    assert [row["shots"] for row in shots._calibration(ends, np.ones(5, bool))] == [1, 1, 1, 2]


def test_shots_by_their_columns() -> None:
    """The first of two returns counts; where one cloud knows its lost shots, all others were not fired."""
    ring, column = np.array([0, 0, 1, 2, 2]), np.array([0, 0, 3, 1, 2])
    xyz = np.array([[2.0, 0, 0], [5.0, 0, 0], [0, 3.0, 0], [0, 0, 0], [0, 0, 7.0]])
    level = np.arange(5.0)
    lossy = PointCloud(xyz, {"ring": ring, "column": column, "intensity": level})
    whole = lossy.select(np.array([0, 2]))
    pair = shots._by_columns(lossy, whole)
    assert pair.fired.shape == (3, 4)
    assert np.argwhere(pair.fired).tolist() == [[0, 0], [1, 3], [2, 1], [2, 2]]
    assert [pair.real[0, 0], pair.real[1, 3], pair.real[2, 2]] == [2.0, 3.0, 7.0]
    assert np.isfinite(pair.real).sum() == 3
    assert np.isfinite(pair.simulated).sum() == 2
    assert (pair.real_intensity[0, 0], pair.real_intensity[2, 2], pair.simulated_intensity[1, 3]) == (0.0, 4.0, 2.0)
    assert shots._by_columns(whole, whole).fired.all()


# ---- clouds ----------------------------------------------------------------------------------------------------------


def cloud(random: np.random.Generator, number: int, shift: float) -> PointCloud:
    """Points of three objects and of the ground, with rings, columns, labels and origins."""
    n = 300
    middle = np.array([[8.0, 2.0, 0.5], [25.0, -6.0, 1.0], [47.0, 9.0, 1.5], [12.0, -4.0, -1.5]])
    item = np.arange(n) % 4
    xyz = middle[item] + random.uniform(-0.9, 0.9, (n, 3)) + [shift, 0.0, 0.0]
    fields = {
        "ring": random.integers(0, 20, n).astype(np.uint16), "column": random.integers(0, 40, n).astype(np.uint16),
        "intensity": random.uniform(5.0, 90.0, n) + number, "instance": np.where(item < 3, item + 1, 0),
        "label": np.array([1, 1, 2, 0])[item], "range": np.linalg.norm(xyz, axis=1).astype(np.float32),
    }  # fmt: skip
    return PointCloud(xyz, fields, names={"label": {0: "ground", 1: "car", 2: "person"}})


def test_comparisons_of_clouds(tmp_path: Path) -> None:
    random, pairs = np.random.default_rng(3), []
    for k in range(3):
        files = [tmp_path / f"{who}-{k}.npz" for who in ("real", "made")]
        cloud(random, k, 0.0).save(files[0])
        cloud(random, 2 * k, 0.15).select(np.arange(300) % (7 + k) > 0).save(files[1])
        pairs.append((files[0], files[1]))
    cloud(random, 0, 0.05).save(tmp_path / "dry.npz")
    found = compare_files(pairs, CloudOptions(tolerance_m=0.3, exact_points=20), dry=tmp_path / "dry.npz")
    check(
        "evaluate/clouds", found=numbers_in(found),
        rows=numbers_in([list(row) for row in summary_rows(found)]),
        page=numbers_in(page_of(found, "one", "two")),
    )  # fmt: skip
    keys, values = _shots_of(PointCloud.load(pairs[0][0]), "real")
    one = PointCloud.load(pairs[0][0])
    first = {
        (int(r), int(c)): v
        for r, c, v in reversed(list(zip(one.ring, one.fields["column"], one.intensity, strict=True)))
    }
    assert dict(zip(keys.tolist(), values.tolist(), strict=True)) == {r * 65536 + c: v for (r, c), v in first.items()}


def test_drops_of_a_beam(tmp_path: Path) -> None:
    beam = ph.Lidar("velodyne/vlp-16").config.beam
    found = drops.drops_per_beam(drops.beam_volumes(beam, np.linspace(1.0, 90.0, 40)), seed=3)
    drops.write_csv(tmp_path / "drops.csv", found)
    check(
        "evaluate/drops", edges=found[0].edges, beams=[one.beams for one in found], mean=[one.mean for one in found],
        table=numbers_in((tmp_path / "drops.csv").read_text()),
    )  # fmt: skip
    three = [drops.Drops((1.0, k + 2.0), np.array([-0.5, 0.5, 2.5]), np.array([3, k]), 0.5 * k) for k in range(3)]
    drops.write_csv(tmp_path / "three.csv", three)
    assert (tmp_path / "three.csv").read_text().splitlines() == [
        "drops_from,drops_to,beams_1_to_2_mm_h,beams_1_to_3_mm_h,beams_1_to_4_mm_h", "0,0,3,3,3", "1,2,0,1,2",
    ]  # fmt: skip


def test_a_picture_of_drops() -> None:
    pytest.importorskip("matplotlib", minversion="3.9", reason="recorded with later pictures")
    beam = ph.Lidar("velodyne/vlp-16").config.beam
    found = drops.drops_per_beam(drops.beam_volumes(beam, np.linspace(1.0, 90.0, 40)), seed=3)
    check("evaluate/drops-picture", picture=drawn(drops.picture(found, "beam")))


# ---- drives and maps -------------------------------------------------------------------------------------------------


def walk(noise: float) -> TimedPoses:
    """A winding path of 130 m, with an error that grows."""
    t, random = np.linspace(0.0, 30.0, 300), np.random.default_rng(4)
    xyz = np.stack([20.0 * np.sin(t / 5.0), 40.0 * np.cos(t / 9.0), 2.0 * np.sin(t / 3.0)], axis=1)
    drift = np.cumsum(random.normal(0.0, noise, (300, 3)), axis=0)
    shake = quat_from_rpy(*np.cumsum(random.normal(0.0, noise / 20.0, (3, 300)), axis=1))
    turn = quat_multiply(quat_from_rpy(0.05 * np.sin(t), 0.03 * np.cos(t), t / 5.0), shake)
    return TimedPoses(t + (0.01 if noise else 0.0), xyz + drift, turn)


def test_scores_of_a_drive() -> None:
    estimate, truth = trajectories.matched(walk(0.02), walk(0.0))
    mirrored = replace(estimate, xyz=estimate.xyz * [1.0, 1.0, -1.0])
    drift = trajectories.kitti_drift(estimate, truth, (20.0, 50.0, 90.0), 7)
    assert drift is not None
    errors = [trajectories.ate(estimate, truth), trajectories.rpe(estimate, truth, frames=7),
              trajectories.rpe(estimate, truth, metres=4.0), trajectories.ate(mirrored, truth), drift]  # fmt: skip
    fitted = [trajectories.aligned(one, truth) for one in (estimate, mirrored)]
    fitted.append(trajectories.from_first_pose(estimate, truth))
    check(
        "evaluate/drive", rel=1e-7, errors=even([(one.translation, one.rotation) for one in errors]),
        end=trajectories.end_drift_percent(estimate, truth), length=trajectories.path_length(truth),
        xyz=[one.xyz for one in fitted], turns=[np.abs(one.quat_xyzw) for one in fitted], truth=truth.xyz,
    )  # fmt: skip
    # Rotation and mirror image have the same nearest rotation only where the path is flat.
    assert np.linalg.det(np.linalg.lstsq(mirrored.xyz - mirrored.xyz.mean(0), fitted[1].xyz - fitted[1].xyz.mean(0),
                                         rcond=None)[0]) == pytest.approx(1.0)  # fmt: skip


@pytest.mark.parametrize("merge", [2_000_000, 50])
def test_voxels_hold_the_means_of_their_points(merge: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from parhelion.evaluate.slam import maps

    monkeypatch.setattr(maps, "_MERGE", merge)
    random, found, every = np.random.default_rng(8), Voxels(0.5), []
    for _ in range(4):
        points, level = random.uniform(-1.5, 2.5, (60, 3)), random.uniform(0.0, 9.0, 60)
        found.add(points, level)
        every.append(np.column_stack([points, level]))
        assert len(found._parts) == (1 if merge == 50 else len(every))
        assert found._rows == sum(len(keys) for keys, _ in found._parts)
    found.add(np.zeros((0, 3)), None)
    rows = np.concatenate(every)
    cells = np.floor(rows[:, :3] / 0.5).astype(int)
    names = sorted({tuple(cell) for cell in cells})
    means = np.array([rows[(cells == name).all(axis=1)].mean(axis=0) for name in names])
    made = found.cloud()
    assert np.column_stack([made.xyz, made.intensity]) == pytest.approx(means, rel=1e-5)
    assert made.metadata["voxel_m"] == 0.5
    found.add(np.zeros((1, 3)), None)
    assert "intensity" not in found.cloud().fields


# ---- detections ------------------------------------------------------------------------------------------------------


def test_scores_of_detections() -> None:
    random = np.random.default_rng(6)

    def boxes(n: int, near: NuScenesBoxes | None) -> NuScenesBoxes:
        pick = np.arange(n) % (80 if near is None else len(near.kind))
        kind = np.sort(random.integers(0, len(CLASSES) - 2, n)) if near is None else near.kind[pick]
        centre = (
            random.uniform(-30.0, 30.0, (n, 3)) if near is None else near.centre[pick] + random.normal(0, 0.8, (n, 3))
        )
        angle = random.uniform(-3.0, 3.0, n)
        turn = np.column_stack([np.cos(angle / 2), 0 * angle, 0 * angle, np.sin(angle / 2)])
        return NuScenesBoxes(
            sample=np.arange(n) % 4 if near is None else near.sample[pick], kind=kind, centre=centre,
            size=random.uniform(0.5, 4.0, (n, 3)), quat_wxyz=turn, velocity=random.normal(0.0, 3.0, (n, 2)),
            attribute=random.integers(0, 8, n), score=np.zeros(n) if near is None else random.random(n),
        )  # fmt: skip

    labels = boxes(80, None)
    result = evaluate_pair(NuScenesPair(labels, boxes(150, labels), 4, 1, 2))
    check(
        "evaluate/nuscenes", result=numbers_in(result), summary=numbers_in(nuscenes.summary_rows(result)),
        table=numbers_in(nuscenes.table_rows(result)), page=numbers_in(nuscenes.page_of(result, "one", "two")),
    )  # fmt: skip
