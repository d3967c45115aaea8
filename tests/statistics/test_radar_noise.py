"""False alarms of radars: as many as asked for, whatever the method and the number of looks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import parhelion as ph
from chance import LIKELY
from parhelion.core.random import Stream
from parhelion.core.trajectory import Fixed
from parhelion.rays.device import engine
from parhelion.sensors.radar.cfar import threshold_multiple
from parhelion.sensors.radar.device import RadarOnDevice
from wave_rigs import radar_config


def test_multiples_are_the_closed_forms() -> None:
    # One look, cell averaging: P = (1 + T / M)^-M.
    multiple = threshold_multiple("ca", 1e-4, 16, 12)
    assert (1.0 + multiple / 16.0) ** -16 == pytest.approx(1e-4, rel=1e-9)
    # One look, ordered statistic: the product of (M - i) / (M - i + T), i = 0 ... k - 1 (Rohling 1983).
    multiple = threshold_multiple("os", 1e-4, 16, 12)
    assert np.prod([(16 - i) / (16 - i + multiple) for i in range(12)]) == pytest.approx(1e-4, rel=1e-5)


@pytest.mark.parametrize(("method", "axis", "coherent"), [("ca", "range", True), ("os", "range", True),
                                                          ("ca", "speed", True), ("ca", "range", False)])  # fmt: skip
def test_noise_alone_alarms_at_the_rate_that_was_set(method: str, axis: str, coherent: bool) -> None:
    rate = 1e-3
    config = radar_config(
        detection={"method": method, "axis": axis, "false_alarm": rate},
        waveform={"coherent": coherent, "ramps": 64 if coherent else 6, "range_bins": 256},
        array={"azimuth_channels": 12 if coherent else 128},
    )
    radar = ph.Radar(config)
    device = RadarOnDevice(engine(), config, radar.axes)
    paths = radar.paths(ph.World(), pose=ph.Pose())
    counts = []
    for seed in range(8):
        frame = device.measure(paths, Stream(seed, "test"), None, Fixed(ph.Pose()), 0.0, noise=True)
        counts.append(len(frame.alarms))
    cells = frame.power.size
    # Cells share training cells, so that alarms of neighbours hang together: within frames they are worth a half.
    low, high = stats.poisson.ppf([0.5 * LIKELY, 1.0 - 0.5 * LIKELY], 0.5 * rate * cells * len(counts))
    assert low <= 0.5 * sum(counts) <= high
    # The same by the chi-square of the frames' counts.
    expected = rate * cells
    chi2 = np.sum((np.array(counts) - expected) ** 2 / (2.0 * expected))
    assert chi2 < stats.chi2.isf(LIKELY, len(counts))
    power = frame.power.astype(np.float64)
    looks = 1 if coherent else 6
    assert power.mean() == pytest.approx(1.0, abs=4.5 / np.sqrt(looks * power.size))
    assert power.var() * looks == pytest.approx(1.0, abs=4.5 * 3.0 / np.sqrt(power.size))
