"""YAML files that are small, or harmless to look at, and would take hours or terabytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostile_rigs import fence
from parhelion.core.config import DEEPEST_NESTING, MOST_KEYS, MOST_VALUES, read_yaml
from parhelion.core.errors import ConfigError, FormatError
from parhelion.io.ros import BagReader
from parhelion.weather import Weather


def doubled(levels: int, first: str, line: str) -> str:
    """Anchors a0, a1 ..., each made of the one before twice."""
    return first + "".join(line.format(k, k - 1) for k in range(1, levels))


LAUGHS = doubled(40, "a0: &a0 [x, y]\n", "a{0}: &a{0} [*a{1}, *a{1}]\n")
MERGES = doubled(40, "a0: &a0 {x: 1}\n", "a{0}: &a{0}\n  <<: [*a{1}, *a{1}]\n")
CHAIN = doubled(DEEPEST_NESTING + 2, "a0: &a0 [x]\n", "a{0}: &a{0} [*a{1}]\n")
SAME_SLOT = "".join(f"{k * (2**61 - 1)}: 1\n" for k in range(1, 60_000))  # Python's hash of all these is 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, f"line 19 contains more than {MOST_VALUES} values, with aliases expanded"),
        (MERGES, f"contains more than {MOST_VALUES} values"),
        (CHAIN, f"is nested deeper than {DEEPEST_NESTING} levels"),
        ("a: &a [1, *a]\n", "line 1 refers to 'a' from within itself"),
        ("a: &a {b: {c: *a}}\n", "line 1 refers to 'a' from within itself"),
        ("a: &a\n  <<: *a\n", "line 2 refers to 'a' from within itself"),
        ("a: 1" + ":00" * 300_000 + "\n", "line 1 contains a number of more than 400 digits"),
        ("- 12345\n" * 8_000_000, f"contains more than {MOST_VALUES} values"),
        (SAME_SLOT, f"line {MOST_KEYS + 1} contains a mapping of more than {MOST_KEYS} keys"),
    ],
    ids=[
        "laughs",
        "merges",
        "chain",
        "list in itself",
        "mapping in itself",
        "merge in itself",
        "clock",
        "60 MB",
        "slot",
    ],
)
def test_files_that_grow_are_refused_before_they_do(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "trap.yaml"
    file.write_text(text)
    with fence(), pytest.raises(ConfigError, match=message) as caught:
        read_yaml(file)
    assert str(caught.value).startswith(f"{file}: line ")


def test_references_that_stay_small_are_followed(tmp_path: Path) -> None:
    file = tmp_path / "fine.yaml"
    file.write_text("a: &a {x: 1, y: [1, 2]}\nb:\n  <<: *a\n  y: 3\nc: [*a, *a]\n")
    first = {"x": 1, "y": [1, 2]}
    assert read_yaml(file) == {"a": first, "b": {"x": 1, "y": 3}, "c": [first, first]}


def test_long_text_is_no_long_number(tmp_path: Path) -> None:
    file = tmp_path / "fine.yaml"
    file.write_text(f"a: {'0 ' * 300}end\nb: '{'1' * 500}'\n")
    assert read_yaml(file)["b"] == "1" * 500


def test_numbers_that_no_field_can_hold_are_reported_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "weather.yaml"
    file.write_text(f"rain: {{rate_mm_h: {'9' * 399}}}\n")
    with fence(), pytest.raises(ConfigError, match=r"weather\.yaml: "):
        Weather.load(file)


def test_the_metadata_of_a_bag_is_read_with_the_same_care(tmp_path: Path) -> None:
    (tmp_path / "metadata.yaml").write_text("rosbag2_bagfile_information: 1\n" + LAUGHS)
    (tmp_path / "x.mcap").write_bytes(b"")
    with fence(), pytest.raises(FormatError, match="with aliases expanded"):
        BagReader(tmp_path)


def test_a_list_in_place_of_a_number_is_explained_once(tmp_path: Path) -> None:
    """Every entry has an error for each kind of value, and each took the time of the whole list."""
    file = tmp_path / "weather.yaml"
    file.write_text("rain:\n  rate_mm_h:\n" + "".join(f"  - {k}\n" for k in range(3000)))
    with fence(2.0), pytest.raises(ConfigError, match=r"rain\.rate_mm_h"):
        Weather.load(file)
