"""Lint of words: it reports expressions in prose, openings and names, and skips code and exempt lines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import wording


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('"""What a beam gives."""', "opens with 'What'"),
        ("told = 1", "name told"),
        ("x = 1  # as the file says", "says"),
        ('raise ValueError("give 10 points a second")', "points a second"),
        ('"""Return one turn of a lidar."""', "one turn"),
    ],
)
def test_idiom_is_reported(line: str, found: str) -> None:
    assert found in [words for _, words, _ in wording.python_findings(line + "\n")]


@pytest.mark.parametrize(
    "line", ['"""Return `told` per second."""', "turn_rate = 1  # angular velocity", '"""Things"""[1:]', "x = 'a said'"]
)
def test_plain_lines_pass(line: str) -> None:
    assert list(wording.python_findings(line + "\n")) == []


def test_lines_marked_as_fine_and_code_blocks_of_pages_are_skipped(tmp_path: Path) -> None:
    source, page = tmp_path / "a.py", tmp_path / "b.md"
    source.write_text("# he told it  # wording: ok\n# he told it\n", encoding="utf-8")
    page.write_text("```\nhe told it\n```\nhe told it\n", encoding="utf-8")
    assert [line for line, *_ in wording.findings(source)] == [2]
    assert [line for line, *_ in wording.findings(page)] == [4]
