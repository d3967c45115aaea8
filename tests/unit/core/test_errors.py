"""Errors that help: the nearest name, and one sentence."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import parhelion.core.errors as errors
from parhelion.core.errors import ConfigError, ParhelionError, nearest_name, unknown_name

SENSORS = ["velodyne/vlp-16", "velodyne/vlp-32c", "ouster/os1-128", "ouster/os0-32", "livox/mid-360"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("velodyne/vlp16", "velodyne/vlp-16"),
        ("VELODYNE/VLP-16", "velodyne/vlp-16"),
        ("vlp-32c", "velodyne/vlp-32c"),
        ("os1-128", "ouster/os1-128"),
        ("mid", "livox/mid-360"),  # too short to be close, but contained
        ("zzz", None),
        ("", None),
    ],
)
def test_the_nearest_name(written: str, meant: str | None) -> None:
    assert nearest_name(written, SENSORS) == meant


def test_the_spelling_that_is_known_comes_back() -> None:
    assert nearest_name("concret", ["Concrete"]) == "Concrete"
    assert nearest_name("conc", iter(["Concrete-Rough", "Concrete"])) == "Concrete"
    assert nearest_name("concrete", []) is None


@settings(deadline=None)
@given(st.text(string.ascii_lowercase, min_size=5), st.integers(0, 100))
def test_one_wrong_letter_is_forgiven(name: str, place: int) -> None:
    place %= len(name)
    wrong = name[:place] + "#" + name[place + 1 :]
    assert nearest_name(wrong, [name, "#" * 40]) == name


@settings(deadline=None)
@given(st.text(), st.lists(st.text(), max_size=5))
def test_the_answer_is_always_one_of_the_names(name: str, known: list[str]) -> None:
    assert nearest_name(name, known) in (*known, None)


def test_the_sentence_for_an_unknown_name() -> None:
    assert str(unknown_name("sensor", "vlp16", SENSORS)) == "unknown sensor 'vlp16': did you mean 'velodyne/vlp-16'?"
    assert str(unknown_name("sensor", "q", ["b", "a"], "(or a path)")) == "unknown sensor 'q': known: a, b (or a path)"
    assert str(unknown_name("sensor", "!", map(str, range(13)))) == "unknown sensor '!': 13 are known"
    assert isinstance(unknown_name("sensor", "q", []), ConfigError)


def test_every_error_of_ours_has_one_base() -> None:
    ours = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)]
    assert len(ours) == 6
    assert all(issubclass(error, ParhelionError) and error.__doc__ for error in ours)
    assert not issubclass(ParhelionError, ValueError)


def test_a_missing_system_library_of_the_engine_is_named() -> None:
    from parhelion.rays.device import _missing

    outer = NameError("name '_drjit_ext' is not defined")
    outer.__context__ = ImportError("libatomic.so.1: cannot open shared object file: No such file or directory")
    assert str(_missing(outer)) == (
        "the ray engine needs the system library libatomic.so.1: run 'sudo apt-get install libatomic1'"
    )
    assert "pip install mitsuba drjit" in str(_missing(ImportError("No module named 'drjit'")))
