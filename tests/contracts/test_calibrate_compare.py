"""Several recordings of one sensor that agree or disagree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from calibrate_rigs import CHANGED, changed_sheet, recording
from parhelion.calibrate.drive.compare import Compared, RecordingComparison, _worst, compare_drives, compared
from parhelion.calibrate.drive.drive import calibrate_drive
from parhelion.calibrate.drive.report import comparison_rows, write_comparison
from parhelion.calibrate.range_images import RangeImage, range_image, read_drive
from parhelion.core.errors import ConfigError

OTHER = [[1.5, 0.05], [2.5, 0.1], [4.0, 0.3], [6.0, 0.6], [8.0, 0.85], [11.0, 1.0]]
"""An overlap curve that rises later than that of `CHANGED`."""


def drive(overlap: list[list[float]], start_m: float, seed: int) -> list[RangeImage]:
    sheet = changed_sheet("ouster/os0-32", **{**CHANGED, "range": {**CHANGED["range"], "overlap": overlap}})
    world = ph.World.load("city")
    x, y, _ = world.viewpoint.xyz
    poses = [ph.Pose((x + start_m + 3.0 * k, y, 1.4)) for k in range(2)]
    scans = ph.Lidar(sheet).scan_many(world, poses, seed=seed, time=[0.1 * k for k in range(2)])
    return [range_image(scan, f"turn {k}") for k, scan in enumerate(scans)]


@pytest.fixture(scope="module")
def found() -> RecordingComparison:
    first, other = drive(CHANGED["range"]["overlap"], 0.0, 3), drive(OTHER, 20.0, 5)
    return compare_drives([("a", first), ("b", other)], ph.Lidar("ouster/os0-32").config)


def test_a_field_that_differs_is_named_and_the_rest_is_not(found: RecordingComparison) -> None:
    assert [one.field for one in found.differing] == ["range.overlap"]
    assert {"receiver.threshold_photons", "noise.range_sigma_m", "range.rated"} <= {one.field for one in found.fields}


def test_the_sheet_holds_both_within_its_error(found: RecordingComparison) -> None:
    section = found.together.sheet.calibration
    assert section is not None
    assert list(section.disagree) == ["range.overlap"]
    assert "a 0." in section.disagree["range.overlap"]
    (one,) = found.differing
    middle = np.mean(one.values)
    assert max(abs(value - middle) for value in one.values) < middle * section.error["range.overlap"]
    alone = [part.error["range.overlap"] for part in found.each]
    assert section.error["range.overlap"] > 2.0 * max(alone)
    # The joint fit determines the other fields better than one recording does.
    for name in ("receiver.threshold_photons", "range.rated"):
        assert section.error[name] < np.mean([part.error[name] for part in found.each])


def test_the_page_shows_each_recording(found: RecordingComparison, tmp_path: Path) -> None:
    write_comparison(found, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Comparison of recordings" in text
    assert "Intervals do not overlap: range.overlap." in text
    assert text.count("<figure>") == text.count('<svg class="plot"') == 13  # four comparisons, and nine of the sheet
    assert [row[1] for row in comparison_rows(found)].count("do not overlap") == 1


def test_one_of_many_entries_may_differ_by_chance() -> None:
    """Two values 1.05 half widths apart differ as a single number, but not as one of 32."""
    values, errors = np.zeros((2, 32)), np.ones((2, 32))
    values[1, 7] = 2.1
    assert not _worst("x", values, errors, [""] * 32).differs
    assert _worst("x", values[:, 7:8], errors[:, 7:8], [""]).differs
    assert _worst("x", 2.0 * values, errors, [f"ring {k}" for k in range(32)]).where == "ring 7"
    assert Compared("x", (1.0, np.nan), (0.1, 0.1), False).in_words(("a", "b")) == "a 1 ± 0.1"


def test_real_sensors_of_one_family_are_compared_in_common_fields() -> None:
    """An OS0-32 and an OS0-128, whose newer firmware reports ranges in steps of 8 mm."""
    names = ("os0-32", "os0-128")
    each = [calibrate_drive(read_drive(recording(n)), ph.Lidar(f"ouster/{n}").config, recording=n) for n in names]
    by_field = {one.field: one for one in compared(each)}
    assert by_field["range.resolution_m"].values == (0.001, 0.008)
    assert by_field["range.resolution_m"].differs
    assert not by_field["noise.range_sigma_m"].differs


def test_recordings_need_names_that_differ() -> None:
    with pytest.raises(ConfigError, match="need different names"):
        compare_drives([("a", []), ("a", [])], ph.Lidar("ouster/os0-32").config)
