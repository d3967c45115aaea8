"""Fixtures shared by the contract tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import modules of docs/figures, and unload them afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(FIGURES))
    yield import_module
    for name in set(sys.modules) - before:
        if str(FIGURES) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
