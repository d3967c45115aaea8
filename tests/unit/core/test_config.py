"""Configuration files: errors name the file, the field, the allowed values and the nearest name; no code is run."""

from __future__ import annotations

import copy
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from parhelion.calibrate.boards.boards import BoardsFile
from parhelion.core.config import DEEPEST_NESTING, LARGEST_CONFIG_BYTES, Config, load, parse, read_yaml
from parhelion.core.errors import ConfigError
from parhelion.core.explain import in_yaml
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.sheets import PRESETS

VLP16 = read_yaml(PRESETS / "lidar" / "velodyne" / "vlp-16.yaml")
AVIA = read_yaml(PRESETS / "lidar" / "livox" / "avia.yaml")


def message_for(data: Any, model: type[Config] = LidarConfig) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(model, data, "my.yaml")
    return str(caught.value)


def changed(*path: Any, to: Any) -> dict[str, Any]:
    """The VLP-16's data sheet with one value changed or added."""
    data: Any = copy.deepcopy(VLP16)
    at = data
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = to
    return data  # type: ignore[no-any-return]


# ---- what is wrong, and where --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "to", "message"),
    [
        (("wavelength_nm",), 100, r"wavelength_nm: expected a number from 350 to 2500 nm, got 100"),
        (("wavelength_nm",), "red", r"wavelength_nm: expected a number from 350 to 2500 nm, got 'red'"),
        (("wavelength_nm",), float("nan"), r"wavelength_nm: expected a finite number .*, got nan"),
        (("range", "max_m"), float("inf"), r"range.max_m: expected a finite number above 0 and up to 1e9 m, got inf"),
        (("beam", "sub_rays"), 0, r"beam.sub_rays: expected a whole number from 1 to 1024, got 0"),
        (("beam", "sub_rays"), 2.5, r"beam.sub_rays: expected a whole number from 1 to 1024, got 2.5"),
        (
            ("beam", "divergence_mrad"),
            [3, -1],
            r"beam.divergence_mrad\[1\]: expected a number from 0 to 1e9 mrad, got -1",
        ),
        (
            ("beam", "divergence_mrad"),
            [3],
            r"beam.divergence_mrad: expected a list of 2 numbers from 0 to 1e9 mrad, got \[3\]",
        ),
        (("receiver", "returns"), "best", r"returns: expected 'first', 'strongest', 'last', 'dual' or 'all'"),
        (
            ("intensity", "scale"),
            None,
            r"intensity.scale: expected 'velodyne', .*, got null",
        ),
        (("pattern", "kind"), "spin", r"pattern.kind: expected 'spinning', .*, got 'spin'; did you mean 'spinning'\?"),
        (("pattern",), {"rate_hz": 10}, r"pattern.kind: is required \('spinning', 'raster'"),
        (("pattern",), 7, r"pattern: "),
        (("pattern", "channels", "elevation_deg", 3), "x", r"channels.elevation_deg\[3\]: .*, got 'x'"),
        (("pattern", "channels", "azimuth_deg"), [0.0], r"azimuth_deg has 1 entries for 16 channels"),
        (("range", "min_m"), 1e6, r"range: max_m \(.*\) must exceed min_m"),
        (("sources",), [], r"sources: expected a non-empty list of mappings \{title: ..., covers: ...\}, got \[\]"),
        (("sources", 0, "title"), None, r"sources\[0\].title: expected text, got null"),
    ],
)
def test_values_that_are_not_allowed(path: tuple[Any, ...], to: Any, message: str) -> None:
    text = message_for(changed(*path, to=to))
    assert text.startswith("my.yaml: ")
    assert "\n" not in text
    with pytest.raises(ConfigError, match=f"^my.yaml: .*{message}"):
        raise ConfigError(text)


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        (("wavelenght_nm",), "wavelength_nm"),
        (("beam", "divergance_mrad"), "divergence_mrad"),
        (("range", "rated", 0, "reflectence"), "reflectance"),  # within a list
        (("sources", 0, "titel"), "title"),
        (("pattern", "rate"), "rate_hz"),  # within one of several kinds
        (("pattern", "channels", "elevation"), "elevation_deg"),
    ],
)
def test_unknown_fields_are_reported_with_the_nearest(path: tuple[Any, ...], nearest: str) -> None:
    text = message_for(changed(*path, to=1))
    assert f"{path[-1]}: unknown field; did you mean {nearest!r}?" in text


def test_a_field_like_no_other_is_answered_by_the_known_ones() -> None:
    assert message_for(changed("beam", "qqqq", to=1)) == (
        "my.yaml: beam.qqqq: unknown field; known: divergence_mrad, divergence_at, exit_diameter_mm, shape, profile, "
        "sub_rays"
    )


def test_missing_fields_are_named_and_counted() -> None:
    text = message_for({})
    assert text == (
        "my.yaml: name: is required (text); wavelength_nm: is required (a number from 350 to 2500 nm); "
        "pattern: is required (a mapping with kind: 'spinning', 'raster', 'rosette', 'non-repetitive', 'swath' or "
        "'table'); "
        "beam: is required ({divergence_mrad: ...}); range: is required ({min_m: ..., max_m: ..., rated: ...}); "
        "and 2 more"
    )


@pytest.mark.parametrize("data", [None, [], "text", 3, {1, 2}])
def test_a_file_must_hold_fields(data: Any) -> None:
    assert message_for(data).startswith("my.yaml: expected a mapping of fields, got ")


def test_fields_that_are_no_words() -> None:
    text = message_for({**VLP16, 1: 2, None: 3})
    assert "expected text as the name of a field, got 1" in text


def test_long_values_and_names_are_not_printed_in_full() -> None:
    assert len(message_for({**VLP16, "x" * 1_000_000: 1})) < 300
    assert "beam.'a\\nb': unknown field" in message_for(changed("beam", "a\nb", to=1))
    assert len(message_for(changed("wavelength_nm", to="x" * 1_000_000))) < 300
    assert len(message_for(changed("wavelength_nm", to=10**5000))) < 300
    assert len(message_for(changed("name", to=10**5000))) < 300


class Square(Config):
    kind: Literal["square"]
    side_m: float


class Disc(Config):
    radius_m: float


class Drawing(Config):
    shapes: dict[str, Square | Disc | float] = Field(default_factory=dict)
    inner: Drawing | None = None


def test_nearest_names_in_mappings_unions_and_optional_models() -> None:
    text = message_for({"shapes": {"a": {"kind": "square", "side": 1.0}}}, Drawing)
    assert "did you mean 'side_m'?" in text
    assert "unknown field; did you mean 'shapes'?" in message_for({"inner": {"inner": {"shape": {}}}}, Drawing)


def test_checked_values_are_frozen() -> None:
    config = parse(LidarConfig, VLP16, "my.yaml")
    with pytest.raises(ValueError, match="frozen"):
        config.wavelength_nm = 1  # type: ignore[misc]


# ---- files ---------------------------------------------------------------------------------------------------------


def test_a_good_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("radius_m: 2.5\n")
    assert load(Disc, tmp_path / "a.yaml").radius_m == 2.5
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfradius_m: 2.5\n")
    assert load(Disc, str(tmp_path / "bom.yaml")).radius_m == 2.5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [1, 2\nb: 3\n", r"line 2, column 2 "),
        (b"a: 1\n  b: 2\n", r"line 2, column 4 "),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", r"is not a text file"),
        (bytes(range(256)) * 50, r"is not a text file"),
        (b"a\0b", r"not valid YAML"),
        ("a: 1".encode("utf-16"), r"is not a text file"),
        (b"a: 1\n---\nb: 2\n", r"line 2, column 1 "),
        (b"a: 2020-99-99\n", r"not valid for its YAML type \(month must be in 1..12"),
        (b"a: !!int x\n", r"not valid for its YAML type"),
        (b"a: !!bool maybe\n", r"not valid for its YAML type$"),
        (b"a: !!timestamp x\n", r"not valid for its YAML type$"),
        (b"a: " + b"9" * 5000, r"line 1 contains a number of more than 400 digits"),
        (b"? [a]\n: b\n", r"line 1, column 3 found unhashable key"),
        (b"a: *nobody\n", r"line 1, column 4 "),
        (b"", r"expected a mapping of fields, got null"),
    ],
)
def test_files_that_are_no_configuration(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"bad\.yaml: ?(contains a value that is )?{message}") as caught:
        load(Disc, file)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: no such file"):
        read_yaml(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match=r"is a folder, not a file"):
        read_yaml(tmp_path)
    with pytest.raises(ConfigError, match=r"cannot be read \(File name too long\)"):
        read_yaml("x" * 5000)
    with pytest.raises(ConfigError, match=r"'a.x00b': cannot be read"):
        read_yaml("a\0b")


def test_a_file_that_may_not_be_read(users_folder: Path) -> None:
    secret = users_folder / "secret.yaml"
    secret.write_text("a: 1")
    assert read_yaml(secret) == {"a": 1}
    secret.chmod(0)
    with pytest.raises(ConfigError, match=r"secret\.yaml: cannot be read \(Permission denied\)"):
        read_yaml(secret)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "huge.yaml", "wb") as file:
        file.truncate(LARGEST_CONFIG_BYTES + 1)
    with pytest.raises(ConfigError, match=r"huge\.yaml: larger than 64 MiB"):
        read_yaml(tmp_path / "huge.yaml")
    if Path("/dev/zero").exists():  # its size is 0, and it never ends
        with pytest.raises(ConfigError, match=r"/dev/zero: is not a regular file"):
            read_yaml("/dev/zero")


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_deep_nesting_is_refused_and_does_not_end_the_process(tmp_path: Path, opening: str) -> None:
    (tmp_path / "deep.yaml").write_text("a:\n  " + opening * 50_000)
    script = f"from parhelion.core.config import read_yaml; read_yaml({str(tmp_path / 'deep.yaml')!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "ConfigError" in done.stderr.splitlines()[-1]
    assert "deep.yaml: line 2" in done.stderr.splitlines()[-1]


def test_nesting_up_to_the_limit_is_fine(tmp_path: Path) -> None:
    (tmp_path / "deep.yaml").write_text("[" * DEEPEST_NESTING + "]" * DEEPEST_NESTING + "\n")
    value = read_yaml(tmp_path / "deep.yaml")
    for _ in range(DEEPEST_NESTING - 1):
        (value,) = value
    assert value == []
    (tmp_path / "deep.yaml").write_text("[" * (DEEPEST_NESTING + 1) + "]" * (DEEPEST_NESTING + 1))
    with pytest.raises(ConfigError, match=r"line 1 is nested deeper than 100 levels"):
        read_yaml(tmp_path / "deep.yaml")


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for path in (("name",), ("sources",), ("pattern", "channels", "elevation_deg")):
        assert message_for(changed(*path, to=loop)).startswith("my.yaml: ")


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.system ['touch {mark}']",
        "!!python/object/new:os.system ['touch {mark}']",
        "!!python/object:pathlib.Path {{}}",
        "!!python/name:os.system",
        "!!python/module:os",
        "!!python/tuple [1, 2]",
        "!anything {{}}",
    ],
)
def test_tags_that_would_run_code_are_refused(tmp_path: Path, value: str) -> None:
    mark = tmp_path / "ran"
    (tmp_path / "evil.yaml").write_text(f"radius_m: {value.format(mark=mark)}\n")
    with pytest.raises(ConfigError, match=r"evil\.yaml: line 1, column 11 could not determine a constructor"):
        load(Disc, tmp_path / "evil.yaml")
    assert not mark.exists()


# ---- any change of a good file -------------------------------------------------------------------------------------

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.binary(max_size=4), st.dates(),
    st.sampled_from([10**400, 1e308, -0.0, "spinning", "raster", "rosette"]),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3),
    max_leaves=5,
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all values within nested mappings and lists."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [found for key, value in inner for found in [(*path, key), *places(value, (*path, key))]]


SHEETS = {"vlp-16": (VLP16, places(VLP16)), "avia": (AVIA, places(AVIA))}


def checked(data: Any) -> tuple[LidarConfig | None, str]:
    """The data sheet, or the sentence that refuses it; any other error is a failure."""
    try:
        return parse(LidarConfig, data, "my.yaml"), ""
    except ConfigError as error:
        return None, str(error)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(SHEETS)), st.data())
def test_a_changed_data_sheet_is_taken_or_refused_in_one_sentence(name: str, data: st.DataObject) -> None:
    base, known = SHEETS[name]
    mutant = copy.deepcopy(base)
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from(known))
        at: Any = mutant
        try:
            for part in way:
                at = at[part]
            at[last]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
        action = data.draw(st.sampled_from(["set", "remove", "rename"]))
        if action == "set" or not isinstance(at, dict):
            at[last] = data.draw(values)
        elif action == "remove":
            del at[last]
        else:
            at[data.draw(st.text(max_size=8) | st.integers() | st.none())] = at.pop(last)
    config, refusal = checked(mutant)
    if config is not None:
        assert parse(LidarConfig, config.model_dump(), "again") == config
    else:
        assert refusal.startswith("my.yaml: ")
        assert "\n" not in refusal
        assert len(refusal) < 2000


def test_values_in_messages_are_cut_below_four_levels() -> None:
    assert in_yaml({"a": {"b": {"c": {"d": 1}}}}) == "{a: {b: {c: {d: ...}}}}"
    assert in_yaml([[[[7]]]]) == "[[[[...]]]]"
    assert in_yaml([[[7]]]) == "[[[7]]]"


def test_many_errors_are_explained_quickly(tmp_path: Path) -> None:
    """The list of 100 000 wrong entries took 40 s."""
    file = tmp_path / "boards.yaml"
    file.write_text("boards: [" + "0, " * 100_000 + "0]\n")
    began = time.monotonic()
    with pytest.raises(ConfigError, match=r"boards\.yaml: boards\[0\]: expected"):
        load(BoardsFile, file)
    assert time.monotonic() - began < 10.0
