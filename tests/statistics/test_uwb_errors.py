"""Errors of ranging radios: their distributions against data sheets and records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import parhelion as ph
from chance import deviations, spread_bounds
from parhelion.sensors.waves.uwb.config import UwbConfig

ANCHORS = {"a": [0, 0, 3.0], "b": [10, 0, 2.0], "c": [10, 8, 3.5], "d": [0, 8, 0.5], "e": [5, 4, 4.0]}
PLACE = np.array([3.0, 2.0, 1.2])
STANDING = ph.Fixed(ph.Pose(PLACE))


def sheet(**changes: Any) -> UwbConfig:
    """DW1000 with only the errors named by the test."""
    plain = {"unit_bias_m": 0.0, "range_step_m": 0.0, "range_noise_m": 0.0, "max_rate_hz": 1000.0, "level_bias_m": []}
    return UwbConfig(**(ph.Uwb("qorvo/dw1000").config.model_dump() | plain | changes))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["two-way", "tdoa"])
def test_noise_has_the_recorded_standard_deviation(method: str) -> None:
    sensor = ph.Uwb(sheet(range_noise_m=0.03, sync_noise_ns=0.1), anchors=ANCHORS, rate_hz=1000.0, method=method)
    found = sensor.run(ph.World(), STANDING, duration=1.0, seed=3)
    # All differences share the first anchor, so only one column is compared.
    z = (found.error / found.range_std)[:, 1:2] if method == "tdoa" else found.error / found.range_std
    low, high = spread_bounds(z.size)
    assert abs(z.mean()) < deviations() / np.sqrt(z.size)
    assert low < z.std() < high


@pytest.mark.slow
def test_positions_scatter_by_their_covariance() -> None:
    found = ph.Uwb(sheet(range_noise_m=0.03), anchors=ANCHORS, rate_hz=1000.0).run(
        ph.World(), STANDING, duration=1.0, seed=3
    )
    whiten = np.linalg.inv(np.linalg.cholesky(found.position_covariance))
    z = np.einsum("nij,nj->ni", whiten, found.position - PLACE)
    low, high = spread_bounds(z.size)
    # Ranges are slightly non-linear over 3 cm: a thousandth of the standard deviation.
    assert np.abs(z.mean(axis=0)).max() < deviations(3) / np.sqrt(len(z)) + 0.01
    assert low < z.std() < high


def test_noise_grows_as_the_first_path_weakens() -> None:
    near, far = (
        ph.Uwb(sheet(), anchors=[[distance, 0, 0]], noise=False).measure(ph.World(), ph.Fixed(ph.Pose()), 0.0, 1)
        for distance in (3.0, 30.0)
    )
    assert far.snr[0, 0] - near.snr[0, 0] == pytest.approx(-20.0, abs=1e-6)
    assert far.range_std[0, 0] / near.range_std[0, 0] == pytest.approx(10.0, rel=1e-6)


def test_units_have_biases_that_stay_with_a_seed() -> None:
    anchors = [[10.0, 0.0, 0.1 * k] for k in range(60)]
    sensor = ph.Uwb(sheet(unit_bias_m=0.5), anchors=anchors, order=0)
    one, other = (sensor.run(ph.World(), STANDING, duration=0.2, seed=k).error for k in (1, 2))
    assert np.ptp(one, axis=0).max() < 0.1
    # Half of the variance belongs to the tag and is common; the other half differs between anchors.
    low, high = spread_bounds(59)
    assert low < one[0].std(ddof=1) / (0.5 / np.sqrt(2.0)) < high
    assert abs(one[0].mean() - other[0].mean()) > 0.01


def test_replies_by_another_clock_bias_ranges() -> None:
    anchors = [[10.0, 0.0, 0.1 * k] for k in range(200)]
    sensor = ph.Uwb(sheet(reply_time_s=1e-3, clock_error_ppm=1.0), anchors=anchors, order=0)
    bias = sensor.measure(ph.World(), STANDING, 0.0, 5).error[0]
    # c / 2 times 1 ms times 1 ppm is 0.15 m.
    low, high = spread_bounds(200)
    assert low < bias.std() / 0.1499 < high
