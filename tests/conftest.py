"""Settings of all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from parhelion.core.random import Stream

# The same examples in every run, so that a run says something of the code alone; PARHELION_FUZZ=1 looks for new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("new", derandomize=False)
settings.load_profile("new" if os.environ.get("PARHELION_FUZZ") == "1" else "same")

# Statistical tests must hold for any random key, not for one: with a salt, all streams have other keys.
_SALT = os.environ.get("PARHELION_TEST_SALT", "")
if _SALT:
    _plain_key = Stream.key.fget  # type: ignore[attr-defined]
    Stream.key = property(lambda stream: _plain_key(replace(stream, name=f"{stream.name}#{_SALT}")))  # type: ignore[method-assign,assignment]

_UNIT = Path(__file__).parent / "unit"
_NOBODY = 65534


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Unit tests are quick unless they are marked as slow."""
    for item in items:
        if item.path.is_relative_to(_UNIT) and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.quick)


@pytest.fixture
def users_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder of a user who has no special rights, as whom the test runs: root may read and write everything."""
    if os.geteuid() != 0:
        yield tmp_path
        return
    with TemporaryDirectory() as folder:
        try:
            os.chown(folder, _NOBODY, _NOBODY)
            os.seteuid(_NOBODY)
        except OSError as error:
            pytest.skip(f"root may do everything, and cannot become another user here ({error})")
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)
