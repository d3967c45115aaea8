"""Drops in beams against the closed form of the beam and of the drop sizes."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.evaluate.clouds.drops import (
    BANDS_MM_H,
    RATES,
    beam_lengths,
    beam_volumes,
    drops_per_beam,
    picture,
    write_csv,
)
from parhelion.weather.particles import drop_sizes, drops_in_beam


def test_volume_of_a_beam_is_that_of_a_cone() -> None:
    """An elliptic cone frustum: the integral of pi (a + b x)(c + d x) over the range."""
    beam = ph.Lidar("velodyne/vlp-16").config.beam
    metres = np.array([10.0, 100.0])
    a = 0.5e-3 * beam.exit_diameter_mm
    b, d = (np.tan(0.5e-3 * angle) for angle in beam.divergence_mrad)
    integral = np.pi * (a * a * metres + a * (b + d) * metres**2 / 2.0 + b * d * metres**3 / 3.0)
    np.testing.assert_allclose(beam_volumes(beam, metres), integral, rtol=1e-6)
    np.testing.assert_allclose(beam_volumes(beam, metres, "cylinder"), np.pi * a * a * metres, rtol=1e-6)


def test_mean_number_is_volume_times_density(tmp_path: Path) -> None:
    n = 2000
    volume = np.full(n, 5e-3)
    found = drops_per_beam(volume, seed=3)
    for one, (low, high) in zip(found, BANDS_MM_H, strict=True):
        expected = np.mean(
            [5e-3 * drop_sizes("marshall-palmer", rate).count() for rate in np.linspace(low, high, RATES)]
        )
        # The mean of n x RATES Poisson numbers: 3.9 deviations are exceeded 1 time in 10 000.
        assert one.mean == pytest.approx(expected, abs=3.9 * np.sqrt(expected / (n * RATES)))
        assert one.beams.sum() == pytest.approx(n * RATES, rel=0.005)
    means = [one.mean for one in found[1:]]
    assert means == sorted(means)
    write_csv(tmp_path / "drops.csv", found)
    rows = list(csv.DictReader((tmp_path / "drops.csv").open()))
    assert rows[0]["drops_from"] == "0"
    assert sum(int(row["beams_25_to_50_mm_h"]) for row in rows) == found[2].beams.sum()
    assert len(picture(found, "beam").axes) == len(BANDS_MM_H)
    with pytest.raises(ConfigError, match="bands must rise"):
        drops_per_beam(volume, [(5.0, 5.0)])


def test_the_path_of_a_shot_ends_at_its_farthest_return() -> None:
    """Shot 1 has returns at 3 m and 8 m, shot 2 none, so that its path is the largest range."""
    fields = {"shot": np.array([0, 1, 1]), "range": np.array([5.0, 8.0, 3.0], np.float32)}
    scan: Any = SimpleNamespace(shots=range(3), fields=fields)
    assert beam_lengths(scan, 100.0).tolist() == [5.0, 8.0, 100.0]


def test_histograms_hold_every_beam_once() -> None:
    """20 rates of each band; bins start at 0 and 1 drop, and the last holds the largest number."""
    volume = np.array([0.5, 20.0, 300.0])
    found = drops_per_beam(volume, ((5.0, 10.0), (10.0, 100.0)), seed=3)
    for one, (low, high) in zip(found, ((5.0, 10.0), (10.0, 100.0)), strict=True):
        assert one.band_mm_h == (low, high)
        assert one.beams.sum() == 3 * 20
        assert one.edges[:2].tolist() == [-0.5, 0.5]
        assert np.all(np.diff(one.edges) >= 1.0)
        means = [drops_in_beam(drop_sizes("marshall-palmer", rate), volume) for rate in np.linspace(low, high, 20)]
        # A mean of 60 Poisson numbers: five standard deviations.
        assert one.mean == pytest.approx(np.mean(means), abs=5.0 * np.sqrt(np.mean(means) / 60.0))
    assert found[0].edges.tolist() == found[1].edges.tolist()
    for low, high in ((0.0, 5.0), (5.0, 5.0), (7.0, 5.0)):
        with pytest.raises(ConfigError, match="bands must rise"):
            drops_per_beam(np.ones(2), ((low, high),))
