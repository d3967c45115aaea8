"""Recorded numbers of calibrations on made-up observations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.calibrate.beam_angles import _of_capture
from parhelion.calibrate.boards import profile
from parhelion.calibrate.drive import revisits
from parhelion.calibrate.range_images import RangeImage, _strongest_last, range_image
from pins import check


def shots(*, few_values: bool = False, knows_lost: bool = True, seed: int = 3) -> profile.MaterialShots:
    """Shots at two boards with incidence up to 60°; the second board returns less."""
    rng = np.random.default_rng(seed)
    angle, board = rng.uniform(0.0, 60.0, 900), rng.integers(0, 2, 900).astype(np.float64)
    level = np.cos(np.radians(angle)) * rng.normal(100.0, 5.0, 900)
    error = rng.normal(0.004, 0.01, 900) + 1e-4 * angle
    gone = rng.random(900) < 0.02 + 0.004 * angle * (0.5 + board)
    gone &= knows_lost
    level = np.where(level > 60.0, 47.0, 20.0) if few_values else level
    return profile.MaterialShots(
        angle, np.where(gone, np.nan, error), np.where(gone, np.nan, level), (1.0, 2.5), knows_lost, board
    )


@pytest.mark.parametrize("few_values", [False, True])
@pytest.mark.parametrize("knows_lost", [False, True])
def test_profiles_of_boards(few_values: bool, knows_lost: bool) -> None:
    found, brdf = profile.fit_profile(shots(few_values=few_values, knows_lost=knows_lost), reference_m=1.2)
    numbers = {
        name: getattr(found, name)
        for name in ("angle_deg", "shots", "drop", "drop_error", "range_bias_m", "range_sigma_m", "intensity", "counts")
    }
    fitted = [] if brdf is None else [*brdf.parameters, brdf.scale, brdf.error, brdf.constant_error]
    check(f"calibrate/profile-{few_values}-{knows_lost}", rel=1e-4, **numbers, brdf=fitted, ends=found.recorded_deg)


def test_boards_that_differ_widen_the_error() -> None:
    """Rates 0.5 and 0.1 of 20 shots each: half of the variance 0.08 minus the noise p (1 - p) / n."""
    gone = np.r_[np.arange(20) < 10, np.arange(20) < 2]
    both = profile.MaterialShots(
        np.full(40, 2.0), np.where(gone, np.nan, 0.0), np.ones(40), (1.0, 1.0), True, np.repeat([0.0, 1.0], 20)
    )
    place = np.zeros(40, np.int64)
    p = np.array([10.5, 2.5]) / 21.0
    noise = np.mean(p * (1.0 - p) / 20.0)
    assert profile._between_boards(both, place, 2) == pytest.approx([np.sqrt((0.08 - noise) / 2.0), 0.0], rel=1e-12)
    # A bin with shots at one of the boards has no difference.
    apart = profile._between_boards(both, np.repeat([0, 1], 20), 2)
    assert apart.tolist() == [0.0, 0.0]
    one = profile._between_boards(both.rows(both.board == 0.0), place[:20], 2)
    assert one.tolist() == [0.0, 0.0]


def observations(rows: int = 4) -> revisits.Observations:
    """Places on floors and walls, seen six times at 1 to 25 m, with an overlap that is full beyond 8 m."""
    rng = np.random.default_rng(21)
    places, each = 120, 6
    place = np.repeat(np.arange(places), each)
    metres = np.repeat(np.geomspace(1.5, 20.0, places), each) * np.tile(np.geomspace(0.8, 1.25, each), places)
    cosine = rng.uniform(0.2, 1.0, len(place))
    row = rng.integers(0, rows, len(place))
    floor = np.repeat(np.arange(places) % 2 == 0, each)
    level = np.repeat(rng.normal(5.0, 0.5, places), each) + 1.5 * np.log(np.minimum(metres / 8.0, 1.0))
    level += 0.7 * np.log(cosine) + 0.05 * np.sin(row) + rng.normal(0.0, 0.03, len(place))
    pixels = rng.integers(5, 40, len(place)).astype(np.float64)
    return revisits.Observations(place, place // 7, level, np.log(metres), np.log(cosine), floor, pixels, row)


@pytest.mark.parametrize("most_m", [30.0, 7.0], ids=["whole", "still rising"])
def test_curve_of_revisited_places(most_m: float) -> None:
    every = observations()
    near = np.exp(every.range) < most_m
    some = revisits.Observations(*(values[near] for values in vars(every).values()))
    family = ph.Lidar("ouster/os0-32").config.range.overlap
    found = revisits._curve(some, family, 4)
    if most_m > 20.0:
        true = np.minimum(found.range / 8.0, 1.0) ** 1.5
        assert np.mean((found.low < true) & (true < found.high)) > 0.9
    check(
        f"calibrate/revisits-{most_m:g}", rel=1e-5, range=found.range, share=found.share, low=found.low,
        high=found.high, count=found.count, plateau=found.plateau_m, open=found.open_m,
    )  # fmt: skip


def test_places_count_if_they_are_seen_from_other_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Place 7 is seen at ratios of 1.2, place 8 of 1.05 only; weak and bright observations bound the ranges."""
    ranges = {0: [2.0, 5.0, 4.0], 1: [2.4, 5.25, 4.6]}

    def part(frame: Any, pixels: Any, placed: Any, number: int, least: float, most: float) -> dict[str, Any]:
        metres = np.array(ranges[number])
        return {
            "key": np.array([7, 8, 9]), "block": np.array([70, 80, 90]), "level": 10.0 * metres,
            "range": np.log(metres), "pixels": np.array([3.0, 4.0, 5.0]), "grade": np.array([0.0, 0.0, number * 1.0]),
            "row": np.array([1.0, 2.0, 3.0]), "normal": np.array([[0.0, 0.0, 2.0], [1.0, 0.0, 0.0], [0.0, 3.0, 4.0]]),
            "view": np.tile([0.6, 0.0, -0.8], (3, 1)),
        }  # fmt: skip

    monkeypatch.setattr(revisits, "_of_frame", part)
    placed: Any = SimpleNamespace(known=[True, True])
    frame: Any = None
    found = revisits.gather([frame, frame], [frame, frame], placed, 1.0, 9.0)
    assert np.exp(found.range) == pytest.approx([2.0, 2.4])
    assert found.level == pytest.approx([20.0, 24.0])
    assert np.exp(found.cosine) == pytest.approx([0.8, 0.8])
    assert found.floor.tolist() == [True, True]
    assert (found.place.tolist(), found.block.tolist(), found.row.tolist()) == ([0, 0], [0, 0], [1, 1])


def test_angles_of_a_capture_have_three_digits() -> None:
    azimuth = np.radians(10.0) * np.arange(4.0) + np.array([[0.012345], [-0.1]])
    head = np.radians(10.0) * np.arange(4.0) + np.zeros((2, 1))
    direction = np.stack([np.cos(azimuth), np.sin(azimuth), 0.0 * azimuth], axis=-1)
    origin = 0.02 * np.stack([np.cos(head), np.sin(head), 0.0 * head], axis=-1)
    one, never = np.ones((2, 4)), np.zeros((2, 4), bool)
    frame = RangeImage(
        "made", one, one, one, one, never, never, np.array([1.23456, -7.8]), 0.02, direction, origin
    )  # fmt: skip
    assert _of_capture(frame) == {"elevation_deg": [1.235, -7.8], "azimuth_deg": [0.707, -5.73]}


class _Returns:
    """Three returns of two shots."""

    def __init__(self, fields: dict[str, Any], return_count: list[int]) -> None:
        self.fields, self.shots = fields, SimpleNamespace(return_count=np.array(return_count))

    def __len__(self) -> int:
        return 3


def test_the_strongest_return_is_written_last() -> None:
    strength = {"intensity": np.array([3.0, 1.0, 2.0])}
    for fields, count, order in ((strength, [2, 1], [1, 2, 0]), (strength, [1, 1], [0, 1, 2]), ({}, [2, 1], [0, 1, 2])):
        scan: Any = _Returns(fields, count)
        assert _strongest_last(scan).tolist() == order


@pytest.mark.parametrize(
    ("name", "words"), [("", "cloud: has no field 'ring'"), ("my.pcd", "my.pcd: has no field 'ring'")]
)
def test_clouds_without_rows_are_named(name: str, words: str) -> None:
    with pytest.raises(ph.FormatError, match=words):
        range_image(ph.PointCloud(np.ones((3, 3))), name)
