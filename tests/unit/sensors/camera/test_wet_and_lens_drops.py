"""Wet surfaces and drops on the lens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from parhelion.core.errors import ConfigError
from parhelion.core.image import Intrinsics
from parhelion.core.random import Stream, to_unit
from parhelion.rays.device import engine
from parhelion.sensors.optics.camera.lens_drops import lens_drops, through_lens_drops
from parhelion.surfaces.wet import diffuse_fresnel, wet_factor

LENS = Intrinsics(160, 120, 150.0, 150.0, 79.5, 59.5)


@pytest.mark.parametrize("n", [1.128, 1.33, 1.5, 2.0])
def test_diffuse_reflectance_against_its_closed_form(n: float) -> None:
    """The integral of Fresnel's formulas over the cosine, as Walsh (1926) solved it."""
    m = n * n
    closed = 0.5 + (n - 1) * (3 * n + 1) / (6 * (n + 1) ** 2)
    closed += m * (m - 1) ** 2 / (m + 1) ** 3 * np.log((n - 1) / (n + 1))
    closed -= 2 * n**3 * (m + 2 * n - 1) / ((m + 1) * (m * m - 1))
    closed += 8 * m * m * (m * m + 1) / ((m + 1) * (m * m - 1) ** 2) * np.log(n)
    assert diffuse_fresnel(n) == pytest.approx(closed, rel=1e-6)


def test_wet_surfaces_are_darker() -> None:
    dry = np.linspace(0.02, 0.98, 49)
    for model in ("lekner-dorf", "angstrom"):
        wet = dry * wet_factor(dry, model=model)
        assert np.all(wet < dry)
        assert np.all(np.diff(wet) > 0)
    # Both corrections of Lekner and Dorf darken what is not nearly white further.
    middle = dry < 0.8
    assert np.all((wet_factor(dry) < wet_factor(dry, model="angstrom"))[middle])
    assert 0.3 * wet_factor(0.3, model="angstrom") == pytest.approx(0.3 / (1.7689 * 0.7 + 0.3))
    # Dry sand of 0.35 is measured at 0.18 to 0.25 when wet (Twomey, Bohren and Mergenthaler 1986 cite such values).
    assert 0.18 < 0.35 * wet_factor(0.35) < 0.25
    with pytest.raises(ConfigError, match="wet surfaces"):
        wet_factor(0.3, model="soaked")


def test_wet_factor() -> None:
    # By hand: p = 0.47195, R = 0.02006, q = 1.06711; a = 0.7 (0.3 q + 0.7) = 0.71409.
    wet = 0.97994 * 0.52805 * 0.28591 / (1.0 - 0.47195 * 0.28591)
    assert wet_factor(0.3) == pytest.approx(wet / 0.3, rel=1e-4)
    assert wet_factor(0.3, porous=0.0) == 1.0
    assert 0.0 < wet_factor(0.0) < 0.6
    e = engine()
    dry = np.linspace(0.0, 1.0, 11)
    assert wet_factor(e.table(dry.astype(np.float32))).numpy() == pytest.approx(wet_factor(dry), rel=1e-4)


@dataclass
class OnDevice:
    """The fields of lens drops, where kernels read them."""

    share: Any
    column: Any
    row: Any
    spread_px: Any
    light: Any


def test_drops_on_the_lens_turn_the_view_over() -> None:
    found = lens_drops(LENS, seed=5, count=1, radius_px=(20.0, 20.0))
    share = found.share.reshape(120, 160)
    a, b, _, _ = Stream(5, "camera/lens-drops").words(np.arange(1))
    centre = float(to_unit(b)[0]) * 120 - 0.5, float(to_unit(a)[0]) * 160 - 0.5
    assert 0.24 < (share > 0.5).sum() / (np.pi * 20.0**2) <= 1.01  # at a corner a quarter of it is seen
    row, column = np.indices(share.shape)
    clear = (share > 0) & (found.light.reshape(share.shape) == 1.0)
    shown_right = found.column.reshape(share.shape) - centre[1]
    shown_down = found.row.reshape(share.shape) - centre[0]
    far = clear & (np.hypot(row - centre[0], column - centre[1]) > 3.0)
    assert np.all((shown_right * (column - centre[1]))[far & (np.abs(column - centre[1]) > 2)] < 0)
    assert np.all((shown_down * (row - centre[0]))[far & (np.abs(row - centre[0]) > 2)] < 0)
    untouched = share == 0.0
    assert np.array_equal(found.column.reshape(share.shape)[untouched], column[untouched])


def test_pictures_through_drops() -> None:
    found = lens_drops(LENS, seed=2, count=12)
    plane = (np.arange(160 * 120) % 160).astype(float)
    seen = through_lens_drops(plane, found, 160, 120)
    untouched = found.share == 0.0
    assert np.array_equal(seen[untouched], plane[untouched])
    assert np.abs(seen - plane)[~untouched].max() > 5.0
    flat = through_lens_drops(np.full(160 * 120, 3.0), found, 160, 120)
    assert flat.max() <= 3.0 + 1e-6
    e = engine()
    on_device = OnDevice(*(e.table(getattr(found, n)) for n in OnDevice.__dataclass_fields__))
    made = through_lens_drops(e.table(plane.astype(np.float32)), on_device, 160, 120).numpy()
    assert made == pytest.approx(seen, abs=1e-3)
    again = lens_drops(LENS, seed=2, count=12)
    assert np.array_equal(again.column, found.column)
    assert lens_drops(LENS, seed=2, count=0).share.max() == 0.0
    with pytest.raises(ConfigError, match="lens drops"):
        lens_drops(LENS, seed=2, count=-1)
