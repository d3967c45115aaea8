"""Boards: recordings, board detection, profiles, gaps, system constants, and identification of materials."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

import parhelion as ph
from parhelion.calibrate.boards.boards import (
    BoardCalibration,
    Stage,
    _at_reference,
    calibrate_boards,
    distance_notes,
    in_sector,
    read_boards,
    stages_of,
)
from parhelion.calibrate.boards.example import SETUPS, TRUTHS, Setup, make_shots, write_text
from parhelion.calibrate.boards.find import _planes, find_boards
from parhelion.calibrate.boards.held_out import HeldOutScore, compare
from parhelion.calibrate.boards.profile import FEWEST_BINS, MaterialShots, fit_brdf, fit_profile, shots_at, together
from parhelion.calibrate.boards.shots import BoardShots, from_angles, read_shots
from parhelion.calibrate.identify import identify
from parhelion.calibrate.sheet import write_sheet
from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError, FormatError
from parhelion.sensors.optics.lidar.profiles import STEPS, alias_table, angle_code, angle_of_code
from parhelion.surfaces import brdf
from pins import check

RPLIDAR, VLP = "slamtec/rplidar-a1", "velodyne/vlp-16"
SMALL = {RPLIDAR: replace(SETUPS[RPLIDAR], revolutions=40), VLP: replace(SETUPS[VLP], revolutions=4)}


def board_yaml(folder: Path, *entries: dict[str, object], **more: object) -> Path:
    file = folder / "boards.yaml"
    file.write_text(yaml.safe_dump({"boards": list(entries), **more}), encoding="utf-8")
    return file


@pytest.mark.parametrize("sensor", [RPLIDAR, VLP])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_boards_are_found_to_a_centimetre_and_half_a_degree(sensor: str, seed: int) -> None:
    """Board rotated by 3 degrees, 20 % of the shots from elsewhere, a wall behind it."""
    setup = replace(SMALL[sensor], outliers=0.2, tilt_deg=3.0, warp_m=0.0)
    shots = make_shots(TRUTHS[sensor]["cardboard"], setup, sensor, seed=seed)
    board = find_boards(shots, seed=seed)[0]
    assert board.distance_m == pytest.approx(setup.distance_m, abs=0.01)
    normal = -np.array([np.cos(np.radians(3.0)), np.sin(np.radians(3.0)), 0.0])
    assert np.degrees(np.arccos(board.normal @ normal)) < 0.5
    # Beams hit the rim only partly: one beam step on either side.
    step = np.radians(1.0 if sensor == RPLIDAR else 0.4) * np.hypot(setup.distance_m, setup.width_m / 2) ** 2
    assert board.width_m == pytest.approx(setup.width_m, abs=2.5 * step / setup.distance_m)
    # Rows are 2 degrees apart; the space between them is not an edge.
    height = 0.0 if sensor == RPLIDAR else setup.height_m
    assert board.height_m == pytest.approx(height, abs=2.0 * np.radians(2.0) * setup.distance_m)


def test_clouds_without_lost_shots_show_the_whole_height() -> None:
    shots = make_shots(TRUTHS[VLP]["cardboard"], SMALL[VLP], VLP, seed=1)
    board = find_boards(replace(shots.rows(~shots.lost), knows_lost=False))[0]
    assert board.height_m == pytest.approx(SMALL[VLP].height_m, abs=2.0 * np.radians(2.0) * SMALL[VLP].distance_m)


def test_typed_distance_and_width_choose_the_board() -> None:
    setup = replace(SMALL[RPLIDAR], width_m=0.4)
    shots = make_shots(TRUTHS[RPLIDAR]["foam"], setup, RPLIDAR, seed=4)
    board = find_boards(shots, distance_m=0.5, width_m=0.4)[0]
    assert board.distance_m == pytest.approx(0.5, abs=0.01)
    assert board.width_m == pytest.approx(0.4)
    assert np.degrees(np.arctan(0.2 / 0.5)) == pytest.approx(shots_at(board, shots).angle_deg.max(), abs=4.5)
    with pytest.raises(ConfigError, match=r"no board found near 5 m"):
        find_boards(shots, distance_m=5.0, width_m=0.4)[0]


def test_no_plane_is_no_board() -> None:
    random = np.random.default_rng(1)
    scatter = from_angles(
        random.uniform(1, 9, 3000), np.ones(3000), random.uniform(-3, 3, 3000), random.uniform(-1, 1, 3000)
    )
    with pytest.raises(ConfigError, match="no board found"):
        find_boards(scatter)[0]
    with pytest.raises(ConfigError, match="no board found"):
        find_boards(from_angles(np.full(50, np.inf), np.zeros(50), np.linspace(-1, 1, 50)))[0]


def test_text_is_read_as_apollosim_writes_it(tmp_path: Path) -> None:
    """Kepets 2024, figure A.2: distance, intensity, angle in radians; inf, NaN and 0 are lost."""
    file = tmp_path / "wood.txt"
    file.write_text("0.512,47.0,-0.00434\ninf,0.0,0.00437\n0.0,0,0.013\nnan,0,0.02\n0.504,47,1.5707963\n")
    shots = read_shots(file)
    assert shots.lost.tolist() == [False, True, True, True, False]
    np.testing.assert_allclose(shots.range[[0, 4]], [0.512, 0.504])
    np.testing.assert_allclose(shots.direction[4], [0.0, 1.0, 0.0], atol=1e-6)
    table = tmp_path / "wood.csv"
    table.write_text("angle_deg,range_m,intensity\n90,2.5,10\n0,0,0\n")
    shots = read_shots(table)
    np.testing.assert_allclose(shots.direction[0], [0.0, 1.0, 0.0], atol=1e-6)
    assert shots.lost.tolist() == [False, True]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1.0,nan,0.1\n", "line 1 has a return without an intensity"),
        ("1.0,5.0,nan\n", "angle that is not a number"),
        ("range_m,intensity\n1,2\n", "must have the columns distance, intensity and angle"),
        ("", "empty|no shots"),
        ("a,b,c\n", "damaged"),
    ],
)
def test_bad_text_is_reported_in_one_sentence(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "bad.txt"
    file.write_text(content)
    with pytest.raises(FormatError, match=words):
        read_shots(file)


@pytest.mark.slow
def test_recordings_of_every_kind_give_the_same_shots(tmp_path: Path) -> None:
    """The scan of a board as archive, bag of laser scans and capture."""
    import parhelion as ph
    from parhelion.io import FieldsDroppedWarning
    from parhelion.io.ros import BagWriter, Message, Topic
    from parhelion.io.ros.messages import LASER_SCAN, definition_of, laser_scan

    world = ph.World()
    world.add(ph.shapes.box(0.1, 3.0, 2.0), material="plywood", label="board", pose=ph.Pose((2.05, 0.0, 0.0)))
    flat = ph.Lidar(RPLIDAR).scan(world, pose=ph.Pose(), seed=1)
    flat.save(tmp_path / "scan.npz")
    reach = [find_boards(read_shots(tmp_path / "scan.npz"))[0].distance_m]
    with BagWriter(tmp_path / "bag.mcap") as bag:
        bag.add(Topic("/scan", LASER_SCAN, definition_of(LASER_SCAN)))
        data = laser_scan(flat, "laser", 0, range_min_m=0.1, range_max_m=12.0)
        bag.write(Message("/scan", LASER_SCAN, 0, data))
    from_bag = read_shots(tmp_path / "bag.mcap")
    assert from_bag.lost.sum() == flat.lost.sum() > 0
    reach.append(find_boards(from_bag)[0].distance_m)
    many = ph.Lidar(VLP).scan(world, pose=ph.Pose(), seed=1)
    with pytest.warns(FieldsDroppedWarning):
        many.save(tmp_path / "vlp.pcap")
    captured = read_shots(tmp_path / "vlp.pcap", sensor=VLP)
    assert (~captured.lost).sum() == len(many)  # packets are filled up, so that a few lost shots more are in them
    assert captured.lost.sum() >= many.lost.sum() > 0
    reach.append(find_boards(captured)[0].distance_m)
    np.testing.assert_allclose(reach, 2.0, atol=0.02)


def seen(sensor: str, material: str, seed: int = 3, **changes: object) -> object:
    setup = replace(SMALL[sensor], **changes)  # type: ignore[arg-type]
    shots = make_shots(TRUTHS[sensor][material], setup, sensor, seed=seed)
    return shots_at(find_boards(shots)[0], shots)


@pytest.mark.slow
def test_two_values_come_out_as_two_values_and_drops_once() -> None:
    """The RPLIDAR's 0 and 47: no Gaussian between them; drop rates within four binomial deviations of the truth."""
    profile, _ = fit_profile(seen(RPLIDAR, "epoxy"))  # type: ignore[arg-type]
    assert profile.kind == "values"
    assert profile.intensity == [0.0, 47.0]
    truth = TRUTHS[RPLIDAR]["epoxy"]
    middle = np.arange(2.5, 90.0, 5.0)
    known = np.asarray(profile.shots) > 100
    rate, shots = truth.drop_at(middle), np.maximum(profile.shots, 1)
    off = (np.asarray(profile.drop) - rate) / np.sqrt(rate * (1.0 - rate) / shots)
    assert np.abs(off[known][:-1]).max() < 4.0
    assert len(off[known]) >= 10


@pytest.mark.slow
def test_gaps_are_filled_by_the_model_and_continue_at_the_border() -> None:
    profile, fit = fit_profile(seen(VLP, "epoxy"))  # type: ignore[arg-type]
    assert fit is not None
    assert fit.error < 0.5 * fit.constant_error
    counts, cells = np.asarray(profile.counts), np.asarray(profile.intensity)
    mean = counts @ (0.5 * (cells[1:] + cells[:-1])) / counts.sum(axis=1)
    last = int(np.flatnonzero(profile.shots)[-1])
    assert np.asarray(profile.shots)[last + 1 :].sum() == 0
    assert abs(mean[last + 1] - mean[last]) < 0.35 * mean[last]
    assert np.all(np.diff(mean[last:]) < 0.0)  # darker and darker towards grazing incidence
    assert np.all(np.diff(profile.drop[last:]) >= 0.0)
    assert profile.brdf is not None
    assert profile.brdf.model == fit.model


def test_the_fitted_model_is_the_true_one_and_a_constant_is_not_hidden() -> None:
    angle = np.arange(2.5, 70.0, 5.0)
    cos = np.cos(np.radians(angle))
    level = 60.0 * np.pi * np.asarray(brdf.oren_nayar(cos, reflectance=0.5, sigma_rad=0.5)) * 2.0 * cos
    found = fit_brdf(angle, level, 0.01 * level)
    assert found is not None
    assert found.error < 0.02
    np.testing.assert_allclose(found.at(np.array([75.0, 80.0])), 60.0 * 2.0 * np.pi * np.asarray(
        brdf.oren_nayar(np.cos(np.radians([75.0, 80.0])), reflectance=0.5, sigma_rad=0.5)
    ) * np.cos(np.radians([75.0, 80.0])), rtol=0.1)  # fmt: skip
    noise = np.random.default_rng(2).normal(50.0, 1.0, len(angle))
    assert fit_brdf(angle, noise, np.ones(len(angle))) is None


@pytest.mark.slow
def test_boards_of_one_material_are_taken_together_and_differences_count() -> None:
    parts = [seen(RPLIDAR, name, seed=s) for s, name in ((3, "plywood"), (4, "plywood"), (5, "epoxy"))]
    parts = [replace(part, board=np.full(len(part), float(k))) for k, part in enumerate(parts)]  # type: ignore
    alike, unlike = (fit_profile(together([parts[0], part]), gaps=False)[0] for part in parts[1:])  # type: ignore
    alone = fit_profile(parts[0], gaps=False)[0]  # type: ignore[arg-type]
    assert sum(alike.shots) > 1.9 * sum(alone.shots)
    # If boards differ by 15 % or more, the rate is far less certain than the number of shots suggests.
    steep = slice(10, 13)
    assert np.mean(unlike.drop_error[steep]) > 2.0 * np.mean(alike.drop_error[steep])


def is_better(found: HeldOutScore) -> bool:
    """True if the profile is better than the textbook by both measures."""
    return found.log_likelihood > found.textbook_log_likelihood and found.wasserstein < found.textbook_wasserstein


@pytest.mark.slow
@pytest.mark.parametrize("sensor", [RPLIDAR, VLP])
def test_held_out_shots_are_predicted_better_than_by_the_best_textbook(sensor: str) -> None:
    """All five materials, by likelihood and by distance, compared with the best of the four models."""
    assert len(TRUTHS[sensor]) == 5
    books = set()
    for name in TRUTHS[sensor]:
        found = compare(seen(sensor, name, seed=6))  # type: ignore[arg-type]
        assert is_better(found), name
        books.add(found.textbook)
    assert len(books) > 1  # no single model is best for all


@pytest.mark.slow
def test_a_boards_file_becomes_a_small_sheet(tmp_path: Path) -> None:
    for name in ("plywood", "foam"):
        write_text(make_shots(TRUTHS[VLP][name], SMALL[VLP], VLP, seed=5), tmp_path / f"{name}.csv")
    file = board_yaml(
        tmp_path, *({"material": name, "recording": f"{name}.csv"} for name in ("plywood", "foam")),
        targets=[{"reflectance": 0.8, "range_m": 120.0}, {"reflectance": 0.1, "range_m": 50.0}],
    )  # fmt: skip
    watched: list[tuple[Stage, BoardCalibration]] = []
    found = calibrate_boards(file, ph.Lidar(VLP).config, watch=lambda stage, so_far: watched.append((stage, so_far)))
    assert [one.name for one in found.materials] == ["plywood", "foam"]
    assert tuple(stage for stage, _ in watched) == found.stages == stages_of(read_boards(file))
    assert [so_far.done for _, so_far in watched] == list(range(1, 10))
    profiled = next(so_far for stage, so_far in watched if stage == Stage("profile", "plywood"))
    assert [one.name for one in profiled.recordings] == ["plywood.csv"]
    assert profiled.materials[0].comparison is None
    assert all(one.comparison is not None and is_better(one.comparison) for one in found.materials)
    assert found.notes == []
    for one, result in zip(found.recordings, found.materials, strict=True):
        assert (one.taken, one.lost) == (len(result.shots), int(np.isnan(result.shots.error_m).sum()))
    out = tmp_path / "my-lidar.yaml"
    write_sheet(found.sheet, out)
    assert ph.Lidar(out).config == found.sheet
    assert out.stat().st_size < 25_000
    # Huang 2023, table II, Velodyne-16.
    section = found.sheet.calibration
    assert section is not None
    constant = section.constants[-1]
    assert constant.gamma_per_m == pytest.approx(2.346e-3, rel=1e-3)
    assert constant.k_m2 == pytest.approx(31_600, rel=2e-3)
    assert len(section.constants) == 2


@pytest.mark.slow
def test_apollosims_statistics_fold_drops_into_intensities(tmp_path: Path) -> None:
    """Both statistics of the same boards: equal drop rates, and one more zero per lost shot."""
    write_text(make_shots(TRUTHS[RPLIDAR]["epoxy"], SMALL[RPLIDAR], RPLIDAR, seed=5), tmp_path / "epoxy.txt")
    entry, preset = {"material": "epoxy", "recording": "epoxy.txt"}, ph.Lidar(RPLIDAR).config
    own = calibrate_boards(board_yaml(tmp_path, entry), preset).materials[0].profile
    theirs = calibrate_boards(board_yaml(tmp_path, entry, statistics="apollosim"), preset).materials[0].profile
    known = np.asarray(own.shots) > 0
    np.testing.assert_allclose(np.array(theirs.drop)[known], np.array(own.drop)[known], rtol=1e-6)
    zeros = [np.array(one.counts)[known, 0] / np.array(one.counts)[known].sum(axis=1) for one in (own, theirs)]
    drop = np.array(own.drop)[known]
    np.testing.assert_allclose(zeros[1], drop + (1.0 - drop) * zeros[0], atol=0.01)


def test_huangs_ouster_row_is_clamped_with_a_note(tmp_path: Path) -> None:
    file = board_yaml(tmp_path, targets=[{"reflectance": 0.8, "range_m": 200.0}, {"reflectance": 0.1, "range_m": 70.0}])
    found = calibrate_boards(file, ph.Lidar("ouster/os1-128").config)
    assert "negative extinction" in found.notes[0]
    assert found.sheet.calibration is not None
    assert found.sheet.calibration.constants[-1].gamma_per_m == 0.0
    assert len(found.sheet.range.rated) == 1


@pytest.mark.slow
def test_bad_boards_are_reported_in_one_sentence(tmp_path: Path) -> None:
    preset = ph.Lidar(RPLIDAR).config
    narrow = make_shots(TRUTHS[RPLIDAR]["foam"], replace(SMALL[RPLIDAR], width_m=0.08, tilt_deg=0.0), RPLIDAR, seed=1)
    write_text(narrow, tmp_path / "narrow.txt")
    one = {"material": "foam", "recording": "narrow.txt", "distance_m": 0.5, "width_m": 0.08}
    with pytest.raises(ConfigError, match=r"only one angle of incidence|no board found"):
        calibrate_boards(board_yaml(tmp_path, one), preset)
    with pytest.raises(FormatError, match="no such file"):
        calibrate_boards(board_yaml(tmp_path, {"material": "foam", "recording": "none.txt"}), preset)
    with pytest.raises(ConfigError, match="neither boards nor targets"):
        calibrate_boards(board_yaml(tmp_path), preset)
    full = make_shots(TRUTHS[RPLIDAR]["foam"], SMALL[RPLIDAR], RPLIDAR, seed=1)
    kept = full.rows(~full.lost)
    points = PointCloud(kept.points, {"intensity": kept.intensity})
    points.save(tmp_path / "points.npz")
    found = calibrate_boards(board_yaml(tmp_path, {"material": "foam", "recording": "points.npz"}), preset)
    assert "drop rate is unknown" in found.notes[0]
    assert set(found.materials[0].profile.drop_error) == {1.0}


def test_alias_tables_are_exact() -> None:
    chance = np.random.default_rng(3).random(24) ** 3
    own, alias = alias_table(chance)
    made = np.bincount(np.arange(24), own / 24, 24) + np.bincount(alias, (1.0 - own) / 24, 24)
    np.testing.assert_allclose(made, chance / chance.sum(), atol=1e-12)


def test_angles_survive_their_code() -> None:
    angle = np.linspace(0.0, 90.0, 181)
    code = angle_code(np.cos(np.radians(angle)))
    assert code.max() == STEPS
    np.testing.assert_allclose(angle_of_code(code), angle, atol=0.25)


@pytest.mark.slow
def test_materials_are_identified_by_their_returns(tmp_path: Path) -> None:
    """Boards of foam and epoxy, one cloud each: nine of ten points get the right name."""
    sheets = []
    for name in ("foam", "epoxy"):
        write_text(make_shots(TRUTHS[VLP][name], SMALL[VLP], VLP, seed=6), tmp_path / f"{name}.csv")
        sheets.append({"material": name, "recording": f"{name}.csv"})
    config = calibrate_boards(board_yaml(tmp_path, *sheets), ph.Lidar(VLP).config).sheet
    for number, name in enumerate(("foam", "epoxy")):
        shots: BoardShots = make_shots(TRUTHS[VLP][name], replace(SMALL[VLP], revolutions=1, outliers=0.0), VLP, seed=9)
        board = find_boards(shots)[0]
        own = shots.rows(board.holds(shots) & ~shots.lost)
        found = identify(PointCloud(own.points, {"intensity": own.intensity}), config)
        best = found.best
        assert np.mean(best[best >= 0] == number) > 0.9
        assert found.summary()[0][0] == name
    with pytest.raises(ConfigError, match="no calibrated materials"):
        identify(PointCloud(np.zeros((20, 3)), {"intensity": np.zeros(20)}), ph.Lidar(VLP).config)


def test_a_setup_has_the_stated_truth() -> None:
    """Drop rate and mean intensity of generated shots, within four standard errors."""
    truth = TRUTHS[VLP]["plywood"]
    shots = make_shots(truth, Setup(2.0, 4.0, tilt_deg=0.0, warp_m=0.0, outliers=0.0, revolutions=6), VLP, seed=2)
    aimed = shots.rows(find_boards(shots)[0].holds(shots, 0.05))
    angle = np.degrees(np.arccos(aimed.direction[:, 0]))
    expected = truth.drop_at(angle)
    off = (aimed.lost.sum() - expected.sum()) / np.sqrt((expected * (1 - expected)).sum())
    assert abs(off) < 4.0
    level, mean = aimed.intensity[~aimed.lost], truth.mean_at(angle[~aimed.lost])
    assert abs((level - mean).mean()) < 4.0 * (level - mean).std() / np.sqrt(len(level))


def test_linear_intensities_are_converted_to_the_reference_distance() -> None:
    """At 60 degrees, the surface of a board at 10 m is 20 m away: 16 times the intensity at 5 m."""
    preset = ph.Lidar("ouster/os1-128").config
    plain = preset.model_copy(update={"range": preset.range.model_copy(update={"overlap": None})})
    none = np.zeros(2)
    seen = MaterialShots(np.array([0.0, 60.0]), none, np.array([3.0, 3.0]), (10.0, 10.0), True, none)
    board = SimpleNamespace(distance_m=10.0)
    assert _at_reference(seen, board, plain).intensity == pytest.approx([12.0, 48.0])  # type: ignore[arg-type]
    assert _at_reference(seen, board, ph.Lidar(VLP).config) is seen  # type: ignore[arg-type]


def test_sectors_run_counter_clockwise_and_may_cross_the_back() -> None:
    azimuth = np.radians(np.arange(-170.0, 181.0, 10.0))
    shots: Any = SimpleNamespace(direction=np.stack([np.cos(azimuth), np.sin(azimuth), 0.0 * azimuth], axis=1))

    def degrees(sector: tuple[float, float]) -> list[int]:
        return np.rint(np.degrees(azimuth[in_sector(shots, sector)])).astype(int).tolist()

    assert degrees((-15.0, 25.0)) == [-10, 0, 10, 20]
    assert degrees((165.0, -165.0)) == [-170, 170, 180]
    assert degrees((25.0, -15.0)) == [k for k in range(-170, 181, 10) if not -15 < k < 25]


def test_common_offsets_of_stated_distances_need_three_boards() -> None:
    """Offsets of 0.1 m, and a fourth board that was measured from elsewhere."""
    assert distance_notes([("a", 0.5, 0.4), ("b", 0.7, 0.6)]) == []
    assert distance_notes([("a", 0.5, 0.5), ("b", 0.7, 0.7), ("c", 0.9, 0.9)]) == []
    notes = distance_notes([("a", 0.5, 0.4), ("b", 0.7, 0.6), ("c", 0.9, 0.8), ("d", 1.5, 1.2), ("e", None, 2.0)])
    assert len(notes) == 2
    assert notes[0].startswith("stated distances exceed the measured ones by 0.100 m (standard deviation 0.000 m, 3 ")
    assert notes[1] == "d: the stated distance 1.5 m does not share this offset; 1.300 m would"


@pytest.mark.parametrize("sensor", [RPLIDAR, VLP])
def test_numbers_of_boards(sensor: str) -> None:
    """Planes, edges, shots and fits of a board before a wall: recorded."""
    setup = replace(SMALL[sensor], outliers=0.2, tilt_deg=3.0)
    shots = make_shots(TRUTHS[sensor]["cardboard"], setup, sensor, seed=2)
    planes, total = _planes(shots, None, None, 2)
    typed = find_boards(shots, distance_m=setup.distance_m, width_m=0.8 * setup.width_m, seed=2)[0]
    found = [*planes, typed, find_boards(replace(shots, knows_lost=False), seed=2)[0]]
    sides = [np.concatenate([one.normal, one.across, one.up, one.edges_m, [one.distance_m]]) for one in found]
    board = found[0]
    own = shots_at(board, shots, 3)
    check(
        f"calibrate/boards-{sensor}", rel=1e-5, sides=np.array(sides),
        counts=[total, *(number for one in found for number in (one.inliers, one.points, one.faces_sensor))],
        angles=own.angle_deg, errors=own.error_m, intensity=own.intensity, which=own.board, ends=own.distance_m,
        azimuth=[one.azimuth_deg for one in found], held=[one.holds(shots).sum() for one in found],
    )  # fmt: skip
    near, far = replace(own, distance_m=(1.0, 2.5)), replace(own, distance_m=(0.7, 2.0), knows_lost=False)
    both = together([near, far])
    assert both.distance_m == (0.7, 2.5)
    assert not both.knows_lost
    assert together([near, near]).knows_lost
    assert len(both) == 2 * len(own)


def test_levels_below_one_have_a_fit() -> None:
    """The fit scales with the level, and needs six bins of which one returns."""
    angle = np.arange(2.5, 75.0, 5.0)
    level, error = np.cos(np.radians(angle)) ** 1.5, np.full(len(angle), 0.01)
    found = [fit_brdf(angle, factor * level, factor * error) for factor in (0.2, 50.0)]
    for one, factor in zip(found, (0.2, 50.0), strict=True):
        assert one is not None
        assert one.model == found[0].model  # type: ignore[union-attr]
        assert one.scale == pytest.approx(factor / 0.2 * found[0].scale, rel=1e-4)  # type: ignore[union-attr]
        assert one.error == pytest.approx(found[0].error, rel=1e-3)  # type: ignore[union-attr]
    assert fit_brdf(angle, 0.0 * level, error) is None
    assert fit_brdf(angle[: FEWEST_BINS - 1], level[: FEWEST_BINS - 1], error[: FEWEST_BINS - 1]) is None
    assert fit_brdf(angle[:FEWEST_BINS], level[:FEWEST_BINS], error[:FEWEST_BINS]) is not None
    assert fit_brdf(angle, np.ones(len(angle)), error) is None
