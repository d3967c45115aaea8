"""Tests of the tool behind `make mutants`: its changes, its exceptions, and the existence of the files in its table."""

from __future__ import annotations

import ast
from pathlib import Path

from mutants.changes import changes
from mutants.rooms import ROOMS, held_by
from mutants.run import ROOT, SOURCE, all_mutants

SEEN = b'''
LIMIT = 0.5
MASK = 0x10
def f(a: int | None, b=2):
    """Docstring of 3."""
    if not a and b < 3:
        return -a * (b + 1)
    return (a
            % b)
'''
UNSEEN = b'''
"""Words."""
from typing import TYPE_CHECKING, overload
if TYPE_CHECKING:
    N = 1
__all__ = ["f"]
X: int | None
@overload
def f(a: int) -> int: return 1 + 2
@lru_cache(maxsize=8)
def g(a: "int | None" = None):
    """1 + 1"""
    assert a is not None
    print(1 + 2)
    raise ValueError(f"{a + 1} is not {2}" + "!")
class C:
    def __repr__(self): return "x" * 3
'''
WHOLE = b"""
a = max(_BLOCK // n)
b = (x + np.pi) % (2.0 * np.pi)
c = (x + 0.5 * p) % p
d = (x + 180.0) % 360.0
e = (x + p) % p
"""


def test_changes_are_single_and_reported_with_their_location() -> None:
    found = {(change.line, change.old, change.new) for change in changes(SEEN)}
    assert found == {
        (2, "0.5", "0.55"), (3, "0x10", "17"), (3, "0x10", "15"), (4, "2", "3"), (4, "2", "1"), (6, "not a", "(a)"),
        (6, "and", "or"), (6, "<", ">="), (6, "<", "<="), (6, "3", "4"), (6, "3", "2"), (7, "-a * (b + 1)", "None"),
        (7, "-a", "+(a)"), (7, "*", "/"), (7, "+", "-"), (7, "1", "2"),
        (8, "a\n            % b", "None"), (9, "%", "*"),
    }  # fmt: skip
    for change in changes(SEEN):
        changed = change.applied(SEEN)
        assert changed != SEEN
        ast.parse(changed)


def test_what_nobody_sees_is_left_alone() -> None:
    assert changes(UNSEEN) == []


def test_blocks_and_half_periods_change_nothing() -> None:
    """A half period may be added or subtracted before a modulo; a whole one is not of this form."""
    signs = [(change.line, change.old, change.new) for change in changes(WHOLE) if change.old in "+-"]
    assert signs == [(6, "+", "-")]
    assert not [change for change in changes(WHOLE) if change.line == 2]
    assert {change.line for change in changes(WHOLE) if change.old == "%"} == {3, 4, 5, 6}


def test_the_table_is_of_files_that_are_there() -> None:
    for start, tests in ROOMS:
        assert tests
        assert all((ROOT / "tests" / test.partition("::")[0]).is_file() for test in tests), start
        place = ROOT / SOURCE / start
        assert place.exists() or list(place.parent.glob(f"{place.name}*.py")), start
    assert held_by("cli/measure.py") == []
    assert held_by("core/random.py")


def test_mutants_of_one_file() -> None:
    found = all_mutants(["core/random.py"])
    assert {mutant.path for mutant in found} == {"core/random.py"}
    source = Path(ROOT / SOURCE / "core/random.py").read_bytes()
    for mutant in found:
        ast.parse(mutant.change.applied(source))
    assert str(found[0]).startswith("src/parhelion/core/random.py:")
