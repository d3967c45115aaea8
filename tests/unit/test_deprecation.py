"""Deprecated names: they work, and their warning names the replacement and the version of removal."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from parhelion.core.deprecation import REMOVED_IN, deprecated_alias, deprecated_method, deprecated_names


def double(value: int) -> int:
    """Twice a number."""
    return 2 * value


class Weather:
    old = deprecated_method("old", "new")
    amount = deprecated_method("amount", "rate")

    def __init__(self) -> None:
        self.rate = 25

    def new(self, more: int) -> int:
        return self.rate + more


def test_functions_warn_at_the_line_that_calls_them() -> None:
    twice = deprecated_alias("twice", double)
    with pytest.warns(
        DeprecationWarning, match=rf"twice\(\) is deprecated .* version {REMOVED_IN}; use double\(\)"
    ) as seen:
        assert twice(4) == 8
    assert seen[0].filename == __file__
    assert twice.__doc__ == "Deprecated: use `double`."


def test_methods_and_attributes_warn() -> None:
    with pytest.warns(DeprecationWarning, match=r"Weather\.old is deprecated .* use Weather\.new") as seen:
        assert Weather().old(5) == 30
    assert seen[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"use Weather\.rate instead"):
        assert Weather().amount == 25


def test_names_of_modules_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("some_module")
    module.new = 3  # type: ignore[attr-defined]
    module.__getattr__ = deprecated_names("some_module", {"old": "new", "root": "math:sqrt"})  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "some_module", module)
    with pytest.warns(DeprecationWarning, match=r"some_module\.old is deprecated .* use some_module\.new") as seen:
        assert module.old == 3
    assert seen[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"use math\.sqrt instead"):
        assert module.root(9) == 3
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        module.other  # noqa: B018
