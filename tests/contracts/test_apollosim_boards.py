"""ApolloSim's own recordings of boards in front of a real RPLIDAR A1 (Kepets 2024), through the whole calibration.

The recordings are outside the repository (`../shared/data/apollosim_rplidar_a1`); tests skip if they are absent.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest
import yaml

import parhelion as ph
from parhelion.calibrate.boards.boards import BoardCalibration, calibrate_boards, distance_notes
from parhelion.calibrate.boards.find import find_boards
from parhelion.calibrate.boards.held_out import compare
from parhelion.calibrate.boards.report import simulated_profiles
from parhelion.calibrate.boards.shots import from_angles, read_shots
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.config import MaterialProfile

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "apollosim_rplidar_a1"
STATED_M = {"wall": 0.457, "wood": 0.389, "metal": 0.479, "metal2": 0.188, "acrylic": 0.230}
WIDTH_M = {"wall": 1.25, "wood": 1.25, "metal": 1.0, "metal2": 0.8, "acrylic": 1.25}
"""Distances and widths of `data.config`."""
MEASURED_M = {"wall": 0.385, "wood": 0.313, "metal": 0.224, "metal2": 0.121, "acrylic": 0.163}
"""Ranges along the normal of the board, which stands at 180 degrees."""
RPLIDAR = "slamtec/rplidar-a1"


def recording(name: str) -> Path:
    file = DATA / f"{name}_data.txt.xz"
    if not file.is_file():
        pytest.skip(f"recording {file.name} is not available")
    return file.resolve()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> BoardCalibration:
    boards = [
        {
            "material": name,
            "recording": str(recording(name)),
            "distance_m": stated,
            "width_m": WIDTH_M[name],
            "azimuth_deg": [90.0, 270.0],
        }
        for name, stated in STATED_M.items()
    ]
    file = tmp_path_factory.mktemp("apollosim") / "boards.yaml"
    file.write_text(yaml.safe_dump({"boards": boards}))
    return calibrate_boards(file, ph.Lidar(RPLIDAR).config)


@pytest.mark.parametrize("name", ["wall", "wood", "metal2", "acrylic"])
def test_the_board_is_found_with_and_without_its_stated_distance(name: str) -> None:
    """Not the objects at the side, and in spite of the 7 cm between the stated distance and the ranges."""
    shots = read_shots(recording(name))
    for distance_m in (None, STATED_M[name]):
        board = find_boards(shots, distance_m=distance_m)[0]
        assert board.distance_m == pytest.approx(MEASURED_M[name], abs=0.003)
        assert abs(abs(board.azimuth_deg) - 180.0) < 2.0


def test_a_wrong_distance_is_rejected_or_outweighed_by_the_sector(found: BoardCalibration) -> None:
    with pytest.raises(ConfigError, match=r"near 0\.479 m: the surfaces are at 0\.22 m at -178 deg"):
        find_boards(read_shots(recording("metal")), distance_m=0.479)[0]
    assert found.recordings[2].board is not None
    assert found.recordings[2].board.distance_m == pytest.approx(MEASURED_M["metal"], abs=0.003)
    text = "\n".join(found.notes)
    assert "metal: distance_m: 0.479 m is stated, but the board in this sector is at 0.224 m" in text
    assert "stated distances exceed the measured ones by 0.071 m (standard deviation 0.004 m, 4 boards)" in text
    assert "metal: the stated distance 0.479 m does not share this offset; 0.297 m would" in text


def test_two_surfaces_that_face_the_sensor_are_reported(tmp_path: Path) -> None:
    """The metal board at 180 degrees, and something at 0.12 m and 1 degree."""
    file = tmp_path / "boards.yaml"
    file.write_text(yaml.safe_dump({"boards": [{"material": "metal", "recording": str(recording("metal"))}]}))
    notes = calibrate_boards(file, ph.Lidar(RPLIDAR).config).notes
    assert any("a surface at 0.22 m and -178 deg faces the sensor as well" in note for note in notes)


def test_offsets_of_stated_distances() -> None:
    assert distance_notes([("a", 0.5, 0.5), ("b", 0.7, 0.7), ("c", 0.9, 0.9)]) == []
    assert distance_notes([("a", 0.5, 0.4), ("b", 0.7, 0.6), ("c", None, 0.9)]) == []
    assert len(distance_notes([("a", 0.5, 0.4), ("b", 0.7, 0.6), ("c", 0.9, 0.8)])) == 1


def test_an_oblique_surface_is_not_the_board() -> None:
    """A board at 0.4 m that faces the sensor, and the side of a cabinet whose plane is nearer."""
    azimuth = np.radians(np.arange(-180.0, 180.0, 0.5))
    board = 0.4 / np.cos(azimuth)
    side = 0.3 / np.cos(azimuth - np.radians(80.0))
    distance = np.where(np.abs(azimuth) < 0.7, board, np.where((azimuth > 0.75) & (azimuth < 1.2), side, np.inf))
    noise = np.random.default_rng(1).normal(0.0, 1e-3, (20, len(azimuth)))
    shots = from_angles((distance + noise).ravel(), np.full(noise.size, 47.0), np.tile(azimuth, 20))
    found = find_boards(shots)[0]
    assert found.distance_m == pytest.approx(0.4, abs=0.002)


def test_compressed_text_is_read(tmp_path: Path) -> None:
    file = tmp_path / "board.txt.xz"
    file.write_bytes(lzma.compress(b"0.5,47,0.1\ninf,0,0.2\n"))
    np.testing.assert_allclose(read_shots(file).range, [0.5, np.nan])


def known_bins(profile: MaterialProfile) -> np.ndarray:
    return np.flatnonzero(np.asarray(profile.shots) > 0)


def test_drop_rates_are_those_of_apollosims_own_statistics(found: BoardCalibration) -> None:
    """Columns of `evaluation/real_data.txt`: material, angle, intensity, its deviation, that of range, drop rate."""
    file = DATA / "evaluation_real_data.txt.xz"
    if not file.is_file():
        pytest.skip(f"{file.name} is not available")
    rows: dict[str, list[list[float]]] = {}
    for line in lzma.decompress(file.read_bytes()).decode().split():
        name, *numbers = line.split(",")
        rows.setdefault(name, []).append([float(number) for number in numbers])
    for one in found.materials:
        table = np.array(rows[one.name])
        bins = np.digitize(np.degrees(table[:, 0]), one.profile.angle_deg) - 1
        # Bins at the end of either selection of angles hold other shots.
        for k in np.unique(bins)[:-2]:
            assert one.profile.drop[k] == pytest.approx(table[bins == k, 4].mean(), abs=0.05)
            assert set(one.profile.intensity) == {47.0}  # 0 marks lost shots only


def test_simulated_boards_are_like_the_recorded_ones(found: BoardCalibration) -> None:
    """Figures 5.3 and 5.4: drop rates within 3 percentage points, range noise within 25 % per angle."""
    simulated = simulated_profiles(found)
    assert found.sheet.range.min_m < 0.12  # the preset has 0.15 m, and would lose the nearest board
    for one in found.materials:
        again = simulated[one.name]
        assert again is not None
        both = np.intersect1d(known_bins(one.profile), known_bins(again))
        assert len(both) >= 12
        for k in both:
            assert again.drop[k] == pytest.approx(one.profile.drop[k], abs=0.03)
            if one.profile.drop[k] < 0.9:
                assert again.range_sigma_m[k] == pytest.approx(one.profile.range_sigma_m[k], rel=0.25)


def test_held_out_shots_are_predicted_better_than_by_textbook_noise(found: BoardCalibration) -> None:
    for one in found.materials:
        score = one.comparison
        assert score is not None
        assert score.range_log_likelihood > score.textbook_range_log_likelihood + 0.3
        assert score.wasserstein < score.textbook_wasserstein
        if one.name == "metal":  # no shot is lost, and all intensities are equal: nothing to predict
            assert score.log_likelihood == pytest.approx(score.textbook_log_likelihood)
        else:
            assert score.log_likelihood > score.textbook_log_likelihood + 0.01


def test_held_out_beams_are_predicted_better_than_by_textbook_noise(found: BoardCalibration) -> None:
    """Shots of one beam in several scans are alike, so a random split of shots would put them on both sides."""
    for one in found.materials:
        beams, number = np.unique(np.round(one.shots.angle_deg, 3), return_inverse=True)
        assert len(beams) > 200
        score = compare(one.shots, held=(np.random.default_rng(5).random(len(beams)) < 0.3)[number])
        assert score.range_log_likelihood > score.textbook_range_log_likelihood + 0.3
        assert score.log_likelihood >= score.textbook_log_likelihood
