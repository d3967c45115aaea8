"""Oracles: packages of the extra `oracles` that results are compared with.

A test that needs one has the marker `oracle`. It is skipped if the package is missing; with PARHELION_ORACLES=1, as
`make test-oracles` sets it, it fails.
"""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from typing import Any, NoReturn

import pytest


def oracle(module: str) -> Any:
    """Import an oracle."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return import_module(module)
        except ImportError as error:
            missing(f"the oracle {module} is missing ({error}): pip install -e '.[oracles]'")


def missing(reason: str) -> NoReturn:
    """End a test whose oracle is missing."""
    if os.environ.get("PARHELION_ORACLES") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)
