"""Mie's theory against an independent implementation, and the averages that a lidar needs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from parhelion.core import water
from parhelion.core.errors import ConfigError
from parhelion.core.water import water_index
from parhelion.weather import mie
from parhelion.weather.mie import (
    differential_backscatter,
    efficiencies,
    large_sphere_extinction,
    mie_series,
    size_parameter,
)


def outside_mie(index: complex, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Q_ext and Q_back of miepython, whose index is n - i k."""
    miepython = pytest.importorskip("miepython")
    q_ext, _, q_back, _ = miepython.efficiencies_mx(index.conjugate(), x)
    return q_ext, q_back


@pytest.mark.parametrize(
    "index", [water_index(905.0), water_index(1550.0), water_index(1940.0), 1.227 + 7.53e-4j, 1.5 + 0j]
)
def test_series_against_an_independent_one(index: complex) -> None:
    x = np.array([57.0, 63.7, 101.1, 333.3, 1000.2, 3000.7])
    x = x[index.imag * x < 10.0]
    q_ext, towards = mie_series(index, x, np.zeros(1))
    theirs_ext, theirs_back = outside_mie(index, x)
    assert q_ext == pytest.approx(theirs_ext, rel=1e-8)
    assert towards[0] == pytest.approx(theirs_back, rel=1e-5)


def test_series_off_the_axis_against_an_independent_one() -> None:
    miepython = pytest.importorskip("miepython")
    index, angle = water_index(905.0), np.array([0.0, 2e-3, 0.01, 0.3])
    for x in (80.0, 700.5):
        _, towards = mie_series(index, np.array([x]), angle)
        s1, s2 = miepython.S1_S2(index.conjugate(), x, -np.cos(angle), norm="wiscombe")
        assert towards[:, 0] == pytest.approx(2.0 * (np.abs(s1) ** 2 + np.abs(s2) ** 2) / x**2, rel=1e-5)


def test_convention_of_q_back() -> None:
    """A perfect mirror ball sends its shadow evenly into 4 pi: Q_back = 1, and D^2 / 16 for each steradian."""
    diameter_mm = 2.0
    shadow_m2 = np.pi / 4 * (diameter_mm * 1e-3) ** 2
    assert differential_backscatter(diameter_mm, 1.0) == pytest.approx(shadow_m2 / (4 * np.pi))


@pytest.mark.parametrize("wavelength", [905.0, 1550.0])
def test_extinction_of_large_spheres(wavelength: float) -> None:
    for x, single in ((100.0, 5e-2), (200.0, 3e-2), (400.0, 2e-2), (1100.0, 1e-2)):
        band = x * np.exp(np.linspace(-0.1, 0.1, 41))
        theirs, _ = outside_mie(water_index(wavelength), band)
        ours = large_sphere_extinction(band * wavelength * 1e-6 / np.pi, wavelength)
        assert np.mean(ours) == pytest.approx(np.mean(theirs), rel=5e-3)
        assert ours == pytest.approx(theirs, rel=single)


@pytest.mark.parametrize("acceptance_mrad", [0.0, 10.0])
@pytest.mark.parametrize("row", [4, 12, 20])
def test_table_against_random_means(row: int, acceptance_mrad: float) -> None:
    """1500 sizes at random, fixed seed, and 64 even steps of solid angle: within 12 %, about three times the noise."""
    diameters = np.geomspace(0.05, 10.0, 48)
    draw = np.random.default_rng(row)
    tile = draw.choice(5, size=1500, p=np.array([1, 2, 3, 2, 1]) / 9.0) - 2
    spread = (tile + draw.uniform(-0.5, 0.5, 1500)) * np.log(diameters[1] / diameters[0])
    x = np.sort(size_parameter(diameters[row] * np.exp(spread), 905.0))
    angle = acceptance_mrad * 1e-3 * np.sqrt((np.arange(64) + 0.5) / 64) if acceptance_mrad else np.zeros(1)
    theirs_ext, towards = mie_series(water_index(905.0), x, angle)
    q_ext, q_back = efficiencies(diameters[row], 905.0, acceptance_mrad=acceptance_mrad)
    assert float(q_ext) == pytest.approx(theirs_ext.mean(), rel=1e-3)
    assert float(q_back) == pytest.approx(towards.mean(), rel=0.12)


def test_the_glory_is_narrow() -> None:
    """A 2 mm drop at 905 nm: several straight back, a few tenths for a receiver that has a width."""
    back, cone = (float(efficiencies(2.0, 905.0, acceptance_mrad=a)[1]) for a in (0.0, 10.0))
    assert 4.0 < back < 9.0
    assert 0.2 < cone < 0.4


def test_rays_in_the_limit() -> None:
    """Away from the glory what is left are the two rays along the axis: R and R (1 - R)^2 (n / (2 - n))^2, within 6 %.

    Water at 2000 nm absorbs the second, and the first is left to 1 %.
    """
    n = 1.333
    front = ((n - 1) / (n + 1)) ** 2
    rays = front + front * (1 - front) ** 2 * (n / (2 - n)) ** 2
    assert efficiencies([4.0, 8.0], 2500.0, n + 0j, acceptance_mrad=50.0)[1] == pytest.approx(rays, rel=0.06)
    m = water_index(2000.0)
    assert efficiencies([1.0, 5.0], 2000.0)[1] == pytest.approx(abs((m - 1) / (m + 1)) ** 2, rel=0.01)


def test_opaque_spheres_only_mirror() -> None:
    index = 1.4 + 0.02j
    q_ext, q_back = efficiencies(np.array([0.3, 5.0]), 905.0, index)
    assert q_back == pytest.approx(abs((index - 1) / (index + 1)) ** 2, rel=1e-3)
    x = size_parameter(np.array([0.3]), 905.0)
    theirs_ext, theirs_back = outside_mie(index, x)
    assert q_ext[0] == pytest.approx(theirs_ext[0], rel=1e-3)
    assert q_back[0] == pytest.approx(theirs_back[0], rel=0.02)


@pytest.mark.parametrize(
    ("wavelength", "published"),
    [(550.0, 1.333 + 1.96e-9j), (1549.0, 1.318 + 1.348e-4j)],
)
def test_indices(wavelength: float, published: complex) -> None:
    assert water_index(wavelength).real == pytest.approx(published.real, abs=5e-4)
    assert water_index(wavelength).imag == pytest.approx(published.imag, rel=0.03)


def test_water_absorbs_as_measured() -> None:
    """Absorption 4 pi k / lambda at 905 and 1550 nm: about 7 and 1080 per metre (Segelstein 1981)."""
    assert 4 * np.pi * water_index(905.0).imag / 905e-9 == pytest.approx(7.1, rel=0.05)
    assert 4 * np.pi * water_index(1550.0).imag / 1550e-9 == pytest.approx(1085, rel=0.05)


def test_tables_are_made_once() -> None:
    from parhelion.weather import mie

    efficiencies(1.0, 905.0)
    before = mie._table.cache_info()
    efficiencies(np.array([0.05, 0.3, 10.0]), 905.0)
    after = mie._table.cache_info()
    assert (after.misses, after.hits) == (before.misses, before.hits + 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: efficiencies(0.01), "diameter_mm: must be from 0.05 to 10 mm, got 0.01"),
        (lambda: efficiencies([1.0, np.nan]), "diameter_mm: .* got nan"),
        (lambda: efficiencies(1.0, 300.0), "wavelength_nm: must be from 350 to 2500 nm, got 300.0"),
        (lambda: efficiencies(1.0, float("nan")), "wavelength_nm: .* got nan"),
        (lambda: efficiencies(1.0, 905.0, 1.1 + 0j), "index: must be n \\+ i k with n from 1.2 to 2.5"),
        (lambda: efficiencies(1.0, 905.0, 1.33 - 0.1j), "index: .* k from 0"),
        (lambda: efficiencies(1.0, acceptance_mrad=float("nan")), "acceptance_mrad: must be from 0 to 50 mrad"),
        (lambda: water_index(3000.0), "wavelength_nm"),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()  # type: ignore[operator]


def test_indices_fall_with_wavelength_and_their_tables_are_in_order() -> None:
    """Water has normal dispersion between its bands in the ultraviolet and at 3 um: n falls throughout."""
    assert np.all(np.diff(water._WATER_N_NM) > 0)
    assert np.all(np.diff(water._WATER_N) <= 0)
    assert np.all(np.diff(water._WATER_K_NM) > 0)
    assert len(water._WATER_K_NM) == len(water._WATER_K)


def test_tables_of_the_package_are_what_the_series_gives() -> None:
    """One of them computed again, to the last digit kept: Q_ext has six, ln Q_back four."""
    wavelength = 865.0
    again = mie.computed_table(wavelength, mie.water_index(wavelength), mie.DEFAULT_ACCEPTANCE_MRAD)
    for ours, theirs, digit in zip(mie.shipped()[wavelength], again, (1e-12, 1e-6, 1e-4), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1.01 * digit)


def test_every_preset_has_its_table() -> None:
    sheets = (Path(ph.__file__).parent / "sensors" / "presets" / "lidar").rglob("*.yaml")
    lines = [re.search(r"^wavelength_nm: ([\d.]+)", sheet.read_text(encoding="utf-8"), re.M) for sheet in sheets]
    stated = {float(line[1]) for line in lines if line}
    assert len(stated) > 2
    assert stated <= set(mie.SHIPPED_NM)
    assert all(len(columns[0]) == 48 for columns in mie.shipped().values())
