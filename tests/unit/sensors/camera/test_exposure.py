"""The choice of exposure time and gain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from parhelion.core.errors import ConfigError
from parhelion.core.random import Stream
from parhelion.rays.device import engine
from parhelion.sensors.optics.camera.electronics import SensorElectronics, develop
from parhelion.sensors.optics.camera.readout import AutoExposure, Exposure, auto_exposure, meter

WELL = 10_000.0
BIN = 2.0 ** (1.0 / 256.0) - 1.0
"""Half of a bin of the light meter, relative: 0.27 %."""


def clipped_mean(rates: np.ndarray, chosen: Exposure) -> float:
    return float(np.minimum(rates * chosen.time_s * 10.0 ** (chosen.gain_db / 20.0) / WELL, 1.0).mean())


def scene(seed: int = 0) -> np.ndarray:
    """Light of a wide range, some of it far too bright: electrons a second."""
    a = (np.arange(20_000) * 0.6180339887 + seed * 0.1) % 1.0
    return 10.0 ** (4.0 + 4.0 * a)


@pytest.mark.parametrize("target", [0.02, 0.18, 0.5, 0.9])
def test_the_clipped_mean_reaches_the_target(target: float) -> None:
    settings = AutoExposure(target=target, min_time_s=1e-9, max_time_s=10.0)
    rates = scene()
    chosen = auto_exposure(meter(rates), WELL, settings)
    assert clipped_mean(rates, chosen) == pytest.approx(target, rel=BIN)
    assert chosen.gain_db == 0.0


def test_a_sun_in_the_picture_does_not_blacken_the_rest() -> None:
    rates = np.full(10_000, 1e5)
    sunny = rates.copy()
    sunny[:10] = 1e12
    plain, bright = (auto_exposure(meter(r), WELL, AutoExposure()) for r in (rates, sunny))
    # Ten full pixels of 10 000 are 0.001 of the mean.
    assert bright.time_s == pytest.approx(plain.time_s * (0.18 - 0.001) / 0.18 / 0.999, rel=2 * BIN)


def test_percentile() -> None:
    rates = scene()
    settings = AutoExposure(meter="percentile", percentile=90.0, target=0.8, min_time_s=1e-9, max_time_s=10.0)
    chosen = auto_exposure(meter(rates), WELL, settings)
    assert np.percentile(rates, 90.0) * chosen.time_s / WELL == pytest.approx(0.8, rel=2 * BIN)


def test_time_first_then_gain_within_limits() -> None:
    settings = AutoExposure(min_time_s=1e-4, max_time_s=0.01, gain_db=3.0, max_gain_db=20.0)
    # Electrons a second that would need 1 s, 0.1 s, 1 ms and 1 us at the least gain.
    for wanted_s, time, gain_db in ((1.0, 0.01, 20.0), (0.02, 0.01, 3 + 6.0206), (1e-3, 1e-3, 3.0), (1e-6, 1e-4, 3.0)):
        rate = 0.18 * WELL / (wanted_s * 10 ** (3 / 20))
        chosen = auto_exposure(meter(np.full(100, rate)), WELL, settings)
        assert chosen.time_s == pytest.approx(time, rel=BIN)
        assert chosen.gain_db == pytest.approx(gain_db, abs=20 * np.log10(1 + BIN))


def test_darkness_gets_all_there_is() -> None:
    settings = AutoExposure(max_time_s=0.03, max_gain_db=12.0)
    assert auto_exposure(meter(np.zeros(50)), WELL, settings) == Exposure(0.03, 12.0)
    few = np.zeros(1000)
    few[:3] = 1e6  # however bright, three of 1000 pixels cannot make a mean of 0.18
    assert auto_exposure(meter(few), WELL, settings) == Exposure(0.03, 12.0)


def test_the_picture_has_the_wanted_level() -> None:
    sensor = replace(SensorElectronics(), white_balance="none", curve="linear", output_bits=16, prnu=0.0)
    radiance = np.full((40, 60, 3), 1.0) * (8.0, 11.0, 9.0)
    made = develop(radiance, sensor, AutoExposure(target=0.3), Stream(1, "c"), with_raw=True)
    assert made.raw is not None
    signal = (made.raw.astype(float) - 64.0) / (4095 - 64)
    # 2400 pixels of about 3150 electrons: shot noise leaves 3.7e-4 of the mean, of which 4 deviations.
    assert signal.mean() == pytest.approx(0.3, rel=BIN + 4 * 3.7e-4)


def test_kernels_count_the_same() -> None:
    rates = scene().astype(np.float32)
    found = meter(engine().table(rates)).numpy()
    host = meter(rates.astype(float))
    assert found.sum() == host.sum() == len(rates)
    # A logarithm in float32 is off by about 1e-6, 2e-4 of a bin: values that near to its edge may change sides.
    assert np.abs(np.cumsum(found.astype(int)) - np.cumsum(host)).max() <= 3


@pytest.mark.parametrize(
    "change", [{"min_time_s": 0.0}, {"max_time_s": 1e-9}, {"max_gain_db": -1.0}, {"target": 1.0}, {"percentile": 0.0}]
)
def test_wrong_settings_are_reported(change: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="exposure"):
        AutoExposure(**change)  # type: ignore[arg-type]
