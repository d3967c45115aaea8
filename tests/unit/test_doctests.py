"""Examples in the docstrings of public names. Lines with `>>> ` see the names of the module, `np` and `ph`."""

from __future__ import annotations

import doctest
from importlib import import_module

import numpy as np
import pytest

import parhelion as ph

MODULES = sorted(set(ph._HOME.values()))


def examples(module: str) -> list[doctest.DocTest]:
    """Examples of the public names that `module` defines, of their methods and properties."""
    owner = import_module(f"parhelion.{module}")
    names = [name for name, home in ph._HOME.items() if home == module]
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [
        test
        for name in names
        for test in finder.find(getattr(owner, name), name, owner, {**vars(owner), "np": np, "ph": ph})
    ]
    return [test for test in found if test.examples]


@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples_run(module: str) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report: list[str] = []
    for test in examples(module):
        runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


def test_public_classes_have_examples() -> None:
    """Every class of the public API shows its use."""
    shown = {test.name.split(".")[0] for module in MODULES for test in examples(module)}
    classes = {name for name in ph._HOME if isinstance(getattr(ph, name), type)}
    assert sorted(classes - shown) == []
