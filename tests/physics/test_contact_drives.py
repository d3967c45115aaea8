"""Random drives in built-in worlds; `tests/soak/drives.py` runs many more."""

from __future__ import annotations

import pytest

import parhelion as ph
from soak.drives import drive


@pytest.mark.slow
@pytest.mark.parametrize("name", ["warehouse", "off-road"])
def test_random_drives_stay_on_the_ground_and_outside_of_walls(name: str) -> None:
    """Also checks that a resumed drive has the same bits."""
    found = drive(ph.World.load(name), name, count=16, seconds=2.0, seed=5)
    assert found.drives == 16
    assert found.problems == []
    assert found.wheel_m.max() <= 0.02
    assert found.missed < 0.002
