"""Arce's measures (2025, appendix B) and Huang's tables on constructed clouds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError
from parhelion.evaluate.clouds import rates
from parhelion.evaluate.clouds.compare import Options, _histogram, _scan_area, compare, compare_files
from parhelion.evaluate.clouds.objects import by_distance, objects_in, upright_box


def test_rates_are_shares_of_all_detected_points() -> None:
    found = rates.PointsByOrigin(correct=150, false=50, total=200)
    assert found.detection_rate_percent == 75.0
    assert found.false_detection_rate_percent == 25.0


def test_origin_determines_false_detections() -> None:
    """A surface, two drops, a ghost and a false alarm: the last two are detected, but neither an object nor rain."""
    cloud = PointCloud(np.zeros((5, 3)), {"origin": np.array([0, 1, 1, 5, 6], np.uint8)})
    assert rates.detections(cloud) == rates.PointsByOrigin(1, 2, 5)


def test_without_origin_the_dry_cloud_is_the_reference() -> None:
    dry = PointCloud(np.array([[10.0, 0, 0], [20.0, 0, 0]]))
    wet = PointCloud(np.array([[10.05, 0, 0], [20.3, 0, 0], [3.0, 0, 0]]))
    assert rates.detections(wet, dry) == rates.PointsByOrigin(1, 2, 3)
    assert rates.detections(wet, dry, tolerance_m=0.5) == rates.PointsByOrigin(2, 1, 3)
    with pytest.raises(ConfigError, match="dry reference"):
        rates.detections(wet)


def test_range_error_is_the_mean_of_absolute_differences() -> None:
    assert rates.range_error([10.0, 20.0], [10.5, 18.5]) == pytest.approx(1.0)
    with pytest.raises(ConfigError, match="pairs"):
        rates.range_error([1.0], [1.0, 2.0])


def test_ranges_are_paired_by_shot() -> None:
    def cloud(rows: list[tuple[int, int, float]]) -> PointCloud:
        ring, column, away = (np.array(part) for part in zip(*rows, strict=True))
        fields = {"ring": ring.astype(np.uint16), "column": column.astype(np.uint16)}
        return PointCloud(np.stack([away, 0 * away, 0 * away], axis=1), fields)

    real = cloud([(0, 0, 10.0), (0, 1, 11.0), (1, 0, 12.0)])
    simulated = cloud([(1, 0, 12.5), (0, 1, 11.1), (3, 3, 50.0)])
    pairs = rates.paired_ranges(real, simulated)
    assert pairs is not None
    assert rates.range_error(*pairs) == pytest.approx(0.3)
    assert rates.paired_ranges(real, PointCloud(np.zeros((1, 3)))) is None


def test_snr_of_a_known_signal() -> None:
    # Two values 11 and 9: mean 10, deviation 1, 20 dB.
    assert rates.snr_db([11.0, 9.0]) == pytest.approx(20.0)
    assert rates.snr_db([5.0, 5.0]) == math.inf
    with pytest.raises(ConfigError, match="above 0"):
        rates.snr_db([-1.0, 1.0])


def test_snr_of_shots_excludes_the_contrast_of_the_scene() -> None:
    """A bright shot 110, 90 and a dark one 11, 9: 20 dB each, though over all points it is about 1 dB."""
    bright, dark = np.array([110.0, 90.0] * 3), np.array([11.0, 9.0] * 3)
    scans = [(np.array([4, 7]), np.array([a, b])) for a, b in zip(bright, dark, strict=True)]
    assert rates.snr_of_shots(scans) == (pytest.approx(20.0), 2)
    assert rates.snr_db(np.concatenate([bright, dark])) < 2.0
    with pytest.raises(ConfigError, match="no shot returned"):
        rates.snr_of_shots(scans[:3])


def test_shots_without_scatter_count() -> None:
    """99 constant shots and one with deviation/mean 0.1: mean square 1e-4, 40 dB, not the 20 dB of the one."""
    scans = [(np.arange(100), np.where(np.arange(100) == 3, value, 10.0)) for value in [11.0, 9.0] * 3]
    assert rates.snr_of_shots(scans) == (pytest.approx(40.0), 100)
    steady = [(np.arange(4), np.full(4, 2.0))] * 6
    assert rates.snr_of_shots(steady) == (math.inf, 4)


def test_scan_area_of_a_whole_sphere_and_of_a_small_window() -> None:
    assert rates.scan_area(360.0, 180.0, 3.0) == pytest.approx(4 * np.pi * 9.0)
    assert rates.scan_area(1.0, 1.0, 100.0) == pytest.approx((100 * np.radians(1.0)) ** 2, rel=1e-4)
    assert rates.density(500, 250.0) == 2.0


@pytest.mark.parametrize(
    "given", [(0.0, 20.0, 5.0), (361.0, 20.0, 5.0), (90.0, 0.0, 5.0), (90.0, 181.0, 5.0), (90.0, 20.0, 0.0)]
)
def test_each_number_of_a_scanned_area_is_checked(given: tuple[float, float, float]) -> None:
    with pytest.raises(ConfigError, match="scan area"):
        rates.scan_area(*given)
    assert rates.scan_area(360.0, 180.0, 1.0) == pytest.approx(4.0 * math.pi)


def test_shots_that_return_too_rarely_are_left_out_of_the_snr() -> None:
    """Shot 9 has one return, and shot 4 five of 10, 10, 10, 10, 15: mean 11, variance 4."""
    scans = [
        (np.array([4, 9][: 1 + (k == 0)]), np.array([15.0 if k == 4 else 10.0, 3.0][: 1 + (k == 0)])) for k in range(5)
    ]
    found = rates.snr_of_shots(scans)
    assert found == (pytest.approx(-10.0 * math.log10(4.0 / 121.0)), 1)
    # The single return has no scatter, so it halves the mean square.
    assert rates.snr_of_shots(scans, fewest=1) == (pytest.approx(-10.0 * math.log10(2.0 / 121.0)), 2)
    dark = [(np.array([1, 2]), np.array([0.0, value])) for value in (1.0, 3.0)]
    assert rates.snr_of_shots(dark, fewest=2) == (pytest.approx(-10.0 * math.log10(1.0 / 4.0)), 1)


def test_sparsity_gives_the_figures_of_huangs_table() -> None:
    """Table V, 35 to 70 m and beyond 70 m; the density is printed with two decimals."""
    for clear, foggy, printed in (
        (21.50, 19.38, 9.86),
        (21.50, 18.46, 14.14),
        (21.50, 17.78, 17.30),
        (10.76, 8.81, 18.11),
    ):
        assert rates.sparsity_percent(clear, foggy) == pytest.approx(printed, abs=0.06)


def test_mape_is_relative_to_measured_values() -> None:
    assert rates.mape_percent([100.0, 50.0], [90.0, 60.0]) == pytest.approx((10.0 + 20.0) / 2)
    with pytest.raises(ConfigError, match="must not be 0"):
        rates.mape_percent([0.0], [1.0])


def turned_box(length: float, width: float, height: float, turn_deg: float) -> np.ndarray:
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (0, 1)]) * [length, width, height]
    c, s = np.cos(np.radians(turn_deg)), np.sin(np.radians(turn_deg))
    return corners @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])


@pytest.mark.parametrize("turn_deg", [0.0, 17.0, 45.0, 133.0])
def test_the_smallest_box_is_found_at_any_rotation(turn_deg: float) -> None:
    assert upright_box(turned_box(4.5, 1.8, 1.5, turn_deg)) == pytest.approx((4.5, 1.8, 1.5), abs=1e-9)


def test_points_on_a_line_have_a_flat_box() -> None:
    line = np.stack([np.arange(5.0), np.arange(5.0), np.zeros(5)], axis=1)
    assert upright_box(line) == pytest.approx((4 * np.sqrt(2), 0.0, 0.0), abs=1e-9)


def scene(*objects: tuple[int, float, np.ndarray]) -> PointCloud:
    """Cars: instance, distance, points around the origin."""
    xyz = np.concatenate([points + np.array([away, 0, 0]) for _, away, points in objects])
    instance = np.concatenate([np.full(len(points), number, np.uint32) for number, _, points in objects])
    fields = {"instance": instance, "label": np.full(len(xyz), 3, np.uint16)}
    return PointCloud(xyz, fields, names={"label": {3: "car"}})


def test_objects_by_distance_class() -> None:
    box = turned_box(4.0, 2.0, 1.5, 30.0)
    near, far = np.concatenate([box, box]), np.concatenate([box] * 3) * [0.5, 1, 1]
    objects = objects_in(scene((1, 10.0, near), (2, 50.0, far), (9, 20.0, box[:4])))
    assert [one.instance for one in objects] == [1, 2]
    rows = by_distance(objects, (0.0, 30.0, 60.0), {1: 12.0, 2: 24.0})
    assert [(row.from_m, row.objects, row.count) for row in rows] == [(0.0, 1, 16.0), (30.0, 1, 24.0)]
    assert rows[0].volume_m3 == pytest.approx(12.0)
    assert rows[0].density_m3 == pytest.approx(16 / 12.0)
    assert rows[0].truncation_percent == pytest.approx(0.0, abs=1e-9)
    assert rows[1].truncation_percent == pytest.approx(100 * (1 - objects[1].volume_m3 / 24.0))
    with pytest.raises(ConfigError, match="instance"):
        objects_in(PointCloud(np.zeros((1, 3))))


def test_a_comparison_contains_all_measures() -> None:
    rng = np.random.default_rng(0)
    points = turned_box(4.0, 2.0, 1.5, 30.0)[rng.integers(0, 8, 60)]
    real = scene((1, 10.0, points)).with_fields(intensity=rng.uniform(10, 20, 60))
    simulated = scene((1, 10.1, points)).with_fields(intensity=np.asarray(real.intensity) + 2.0)
    found = compare(real, simulated)
    assert found.chamfer_m == pytest.approx(0.2, abs=1e-9)
    assert found.emd_m == pytest.approx(0.1, abs=1e-9)
    assert found.emd_exact
    assert found.wasserstein["intensity"] == pytest.approx(2.0)
    assert found.objects[0]["label"] == "car"
    assert found.objects[0]["chamfer_m"] == pytest.approx(0.2, abs=1e-9)
    assert found.detection_rate_percent == {"real": 100.0, "simulated": 100.0}
    assert found.sparsity_percent == 0.0
    with pytest.raises(ConfigError, match="no common field 'near_ir'"):
        compare(real, simulated, Options(fields=("near_ir",)))


def with_lost(cloud: PointCloud, number: int, value: float) -> PointCloud:
    """Cloud with rows of lost shots, whose fields are 0."""
    xyz = np.concatenate([cloud.xyz, np.full((number, 3), value, cloud.xyz.dtype)])
    fields = {name: np.concatenate([part, np.zeros(number, part.dtype)]) for name, part in cloud.fields.items()}
    return PointCloud(xyz, fields, cloud.frame, cloud.names)


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_lost_shots_are_in_no_measure(value: float, tmp_path: Path) -> None:
    """Their range of 0 was compared before: a Wasserstein distance of metres between clouds of the same surfaces."""
    random = np.random.default_rng(5)

    def cloud(shift: float) -> PointCloud:
        xyz = np.stack(
            [random.uniform(8.0, 12.0, 400) + shift, random.normal(size=400), random.normal(size=400)], axis=1
        )
        level = random.uniform(1.0, 50.0, 400).astype(np.float32)
        return PointCloud(xyz, {"range": np.linalg.norm(xyz, axis=1).astype(np.float32), "intensity": level})

    clouds = {"real": cloud(0.0), "simulated": cloud(0.24)}
    plain = compare(clouds["real"], clouds["simulated"])
    lossy = {"real": with_lost(clouds["real"], 100, value), "simulated": with_lost(clouds["simulated"], 10, value)}
    assert compare(lossy["real"], lossy["simulated"]) == plain
    assert plain.wasserstein["range"] == pytest.approx(0.24, abs=0.1)
    for name, one in lossy.items():
        one.save(tmp_path / f"{name}.npz")
    found = compare_files([(tmp_path / "real.npz", tmp_path / "simulated.npz")])
    assert found["wasserstein"] == pytest.approx(plain.wasserstein)
    assert found["points_real"] == found["points_simulated"] == 400


def test_histograms_of_two_sets_share_their_bins() -> None:
    found = _histogram(np.array([0.0, 1.0, 1.0, 10.0]), np.array([2.0, 2.0]))
    middle, real, simulated = (np.array(found[name]) for name in ("middle", "real", "simulated"))
    assert np.diff(middle) == pytest.approx(10.0 / len(middle))
    assert (middle[0] + middle[-1]) / 2.0 == pytest.approx(5.0)
    assert (real.sum(), simulated.sum()) == (pytest.approx(1.0), pytest.approx(1.0))
    assert (real[0], real[-1]) == (0.25, 0.25)
    assert simulated.max() == 1.0
    assert _histogram(np.ones(3), np.ones(2))["middle"][0] == pytest.approx(1.0 + 0.5 / len(middle))


def test_the_snr_of_a_still_scene_is_that_of_its_shots(tmp_path: Path) -> None:
    """Intensities 9 and 11 of each shot, written in another order: 20 dB, and 26 dB for 19 and 21."""
    random, pairs = np.random.default_rng(1), []
    ring, column = (part.ravel() for part in np.meshgrid(np.arange(4), np.arange(30), indexing="ij"))
    xyz = random.uniform(5.0, 9.0, (120, 3))
    for k in range(6):
        files = []
        for name, mean in (("real", 10.0), ("simulated", 20.0)):
            order = random.permutation(120)
            sign = (-1.0) ** (k + ring + column)
            fields = {"ring": ring, "column": column, "intensity": mean + sign}
            PointCloud(xyz[order], {key: part[order] for key, part in fields.items()}).save(tmp_path / f"{name}{k}.npz")
            files.append(tmp_path / f"{name}{k}.npz")
        pairs.append((files[0], files[1]))
    found = compare_files(pairs, Options(still=True))
    assert found["snr_db"] == {"real": pytest.approx(20.0), "simulated": pytest.approx(20.0 * math.log10(20.0))}
    PointCloud(xyz).save(tmp_path / "bare.npz")
    with pytest.raises(ConfigError, match="--still: the simulated clouds need the fields ring, column"):
        compare_files([(pairs[0][0], tmp_path / "bare.npz")], Options(still=True))


def test_the_scanned_area_is_that_of_the_angles_of_all_points() -> None:
    """90 degrees by 20 degrees at 10 m: an angle times the height of a zone of the sphere."""
    turn, rise = (one.ravel() for one in np.meshgrid(np.radians(np.arange(90) + 0.5), np.radians([-10.0, 0.0, 10.0])))
    points = 10.0 * np.column_stack([np.cos(rise) * np.cos(turn), np.cos(rise) * np.sin(turn), np.sin(rise)])
    assert _scan_area(points) == pytest.approx(0.5 * np.pi * 2.0 * np.sin(np.radians(10.0)) * 100.0, rel=1e-9)
