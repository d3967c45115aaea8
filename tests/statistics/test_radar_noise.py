"""False alarm rate of radars: as configured, for every method and number of looks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

import parhelion as ph
from chance import LIKELY, deviations
from parhelion.core.random import Stream
from parhelion.core.trajectory import Fixed
from parhelion.rays.device import engine
from parhelion.sensors.waves.radar import detection
from parhelion.sensors.waves.radar.config import RadarConfig
from parhelion.sensors.waves.radar.cube import noise_correlation, noise_taps
from parhelion.sensors.waves.radar.detection import threshold_multiple
from parhelion.sensors.waves.radar.device import RadarOnDevice
from wave_rigs import radar_config


def test_multiples_are_the_closed_forms() -> None:
    # Cell averaging with N = 1: P = (1 + T / M)^-M.
    multiple = threshold_multiple("ca", 1e-4, 16, 12)
    assert (1.0 + multiple / 16.0) ** -16 == pytest.approx(1e-4, rel=1e-9)
    # Cell averaging with N > 1: Fisher's distribution.
    assert threshold_multiple("ca", 1e-4, 16, 12, 6) == pytest.approx(stats.f.isf(1e-4, 12, 192), rel=1e-9)
    # Ordered statistic with N = 1: the product of (M - i) / (M - i + T), i = 0 ... k - 1 (Rohling 1983).
    multiple = threshold_multiple("os", 1e-4, 16, 12)
    assert np.prod([(16 - i) / (16 - i + multiple) for i in range(12)]) == pytest.approx(1e-4, rel=1e-5)


FALSE_ALARM, TRAINING, GUARD = 1e-3, 16, 2
REACH = GUARD + TRAINING // 2
"""Distance of the farthest training cell."""


def counts_of(config: RadarConfig, frames: int) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Alarms in pure noise, shape (frames, ranges, speeds, elevations, azimuths), and the last cube."""
    radar = ph.Radar(config)
    device = RadarOnDevice(engine(), config, radar.axes)
    paths = radar.paths(ph.World(), pose=ph.Pose())
    alarms = np.zeros((frames, int(np.prod(radar.axes.shape))), bool)
    for seed in range(frames):
        frame = device.measure(paths, Stream(seed, "test"), None, Fixed(ph.Pose()), 0.0, noise=True)
        alarms[seed, frame.alarms] = True
    return alarms.reshape(frames, *radar.axes.shape), frame.power


def noise_config(method: str, axis: str, coherent: bool, window: str = "none") -> RadarConfig:
    return radar_config(
        detection={"method": method, "axis": axis, "false_alarm": FALSE_ALARM, "training": TRAINING, "guard": GUARD},
        waveform={"coherent": coherent, "ramps": 64 if coherent else 6, "range_bins": 256, "range_window": window,
                  "speed_window": window},
        array={"azimuth_channels": 12 if coherent else 128},
    )  # fmt: skip


@pytest.mark.parametrize(("method", "axis", "coherent", "window"), [
    ("ca", "range", True, "none"), ("ca", "range", True, "hann"), ("ca", "speed", True, "hann"),
    ("ca", "range", False, "hann"), ("os", "range", True, "none"), ("os", "range", True, "hann"),
    ("so", "range", True, "none"), ("so", "range", True, "hann"),
])  # fmt: skip
def test_noise_alone_alarms_at_the_rate_that_was_set(method: str, axis: str, coherent: bool, window: str) -> None:
    alarms, power = counts_of(noise_config(method, axis, coherent, window), 16)
    ties = 2 * (len(noise_taps(window)) - 1)  # cells farther apart than this are independent
    if axis == "range":
        along = np.moveaxis(alarms, 1, -1)[:, :: ties + 1]
    else:
        along = np.moveaxis(alarms, 2, -1)[:, :: ties + 1]
    size = along.shape[-1]
    if axis == "range" and coherent and ties:
        along = along[:, : (along.shape[1] * (ties + 1) - ties) // (ties + 1)]  # speeds go around
    # Cells whose training cells are independent of each other's alarm independently, so that their number is
    # binomial, exactly. There are as many such sets as places to begin.
    step = 2 * REACH + 1 + ties
    for first in range(step):
        if axis == "range":
            # Near the ends, training cells lie elsewhere.
            places = np.arange(REACH + first, size - REACH, step)
        else:
            places = (first + step * np.arange(size // step)) % size
        draws = along[..., places]
        low, high = stats.binom.ppf([0.5 * LIKELY / step, 1.0 - 0.5 * LIKELY / step], draws.size, FALSE_ALARM)
        assert low <= np.count_nonzero(draws) <= high
    if axis == "range" and window == "none":
        # At the ends, cells farther away stand in: one cell a row at each end.
        ends = along[..., [0, size - 1]]
        low, high = stats.binom.ppf([0.5 * LIKELY, 1.0 - 0.5 * LIKELY], ends.size, FALSE_ALARM)
        assert low <= np.count_nonzero(ends) <= high
    looks = 1 if coherent else 6
    power = power.astype(np.float64)
    # Powers of tied cells are correlated by the square of their noise's correlation, along each axis.
    worth = np.sum(noise_correlation(window, np.arange(-ties, ties + 1)) ** 2) ** (2 if coherent else 1)
    assert power.mean() == pytest.approx(1.0, abs=deviations() * np.sqrt(worth / (looks * power.size)))
    if window == "none":
        # The variance of gamma numbers' variance is (mu4 - mu2^2) / n = (6 / N^3 + 2 / N^2) / n.
        spread = np.sqrt((6.0 / looks**3 + 2.0 / looks**2) / power.size)
        assert power.var() == pytest.approx(1.0 / looks, abs=deviations() * spread)


def test_windows_tie_neighbouring_cells() -> None:
    # Hann's: -2/3 and 1/6, so that powers are correlated by their squares.
    assert noise_correlation("hann", np.arange(4)) == pytest.approx([1.0, -2.0 / 3.0, 1.0 / 6.0, 0.0])
    white = np.random.default_rng(3).normal(size=(2, 4096, 64))
    from scipy.signal import windows

    cells = np.fft.fft(windows.get_window("blackman", 64) * (white[0] + 1j * white[1]), axis=1)
    for lag in range(5):
        found = np.mean(cells * np.conj(np.roll(cells, lag, axis=1))).real / np.mean(np.abs(cells) ** 2)
        bound = deviations(5) / np.sqrt(4096 * 64 / 4.0)  # of cells four apart at least half are independent
        assert found == pytest.approx(float(noise_correlation("blackman", np.array([lag]))[0]), abs=bound)
    _, power = counts_of(noise_config("ca", "range", True, "hann"), 1)
    apart = power.astype(np.float64) - 1.0
    for axis, stride in ((0, (slice(None), slice(0, 60, 3))), (1, (slice(0, 255, 3), slice(None)))):
        rows = np.moveaxis(apart[stride], axis, -1)  # rows that are three cells apart
        for lag in (1, 2, 3):
            each = np.mean(rows[..., lag:] * rows[..., :-lag], axis=-1).ravel()
            expected = float(noise_correlation("hann", np.array([lag]))[0]) ** 2
            assert each.mean() == pytest.approx(expected, abs=deviations(6) * each.std() / np.sqrt(each.size))


def test_drawn_ranks_agree_with_the_integral() -> None:
    for looks, chance in ((1, 1e-2), (1, 1e-4), (4, 1e-3)):
        levels = detection._Levels(np.eye(16), 12, looks)
        multiple = threshold_multiple("os", chance, 16, 12, looks)
        each = special.gammaincc(looks, multiple * levels._level) * np.exp(levels._weight)
        assert levels.chance(multiple) == pytest.approx(np.mean(each), rel=1e-12)
        assert np.mean(each) == pytest.approx(chance, abs=deviations(3) * each.std() / np.sqrt(each.size))
        assert each.std() / np.sqrt(each.size) < 0.03 * chance  # as settled as is claimed


def both_alarm(lag: int, share: float) -> float:
    """Probability that two cells of exponential noise, `lag` apart, both exceed `share` times their training sum.

    x > share S_x and y > share S_y. If neither trains the other, the chance is the mean of exp(-share (S_x + S_y)), and
    cells that both share count twice. If they train each other, x > A + share y and y > B + share x is a cone with its
    tip at x + y = (A + B) / (1 - share), which leaves (1 - share) / (1 + share) of exp(-(x + y)) there.
    """
    near = {*range(-REACH, -GUARD), *range(GUARD + 1, REACH + 1)}
    far = {lag + one for one in near}
    shared = len(near & far)
    if lag in near:
        if share >= 1.0:
            return 0.0
        inner, alone = share / (1.0 - share), TRAINING - 1 - shared
        return (1.0 - share) / (1.0 + share) * (1.0 + 2.0 * inner) ** -shared * (1.0 + inner) ** (-2.0 * alone)
    return float((1.0 + 2.0 * share) ** -shared * (1.0 + share) ** (-2.0 * (TRAINING - shared)))


@pytest.mark.parametrize("axis", ["range", "speed"])
def test_alarms_of_neighbours_hang_together_as_derived(axis: str) -> None:
    alarms, _ = counts_of(noise_config("ca", axis, True), 40)
    along = np.moveaxis(alarms, 1 if axis == "range" else 2, -1)
    if axis == "range":
        along = along[..., REACH:-REACH]
    size = along.shape[-1]
    share = threshold_multiple("ca", FALSE_ALARM, TRAINING, 12) / TRAINING
    assert both_alarm(10 * REACH, share) == pytest.approx(FALSE_ALARM**2)  # far apart they do not
    lags = np.arange(1, 2 * REACH + 1)
    pairs = size - lags if axis == "range" else np.full(len(lags), size)
    together = np.array([both_alarm(int(lag), share) for lag in lags])
    variance = size * FALSE_ALARM * (1.0 - FALSE_ALARM) + 2.0 * np.sum(pairs * (together - FALSE_ALARM**2))
    # Rows are independent of each other, and so are frames.
    rows = along[0, ..., 0].size
    counts = along.reshape(len(along), -1).sum(axis=1)
    chi2 = np.sum((counts - rows * size * FALSE_ALARM) ** 2) / (rows * variance)
    low, high = stats.chi2.ppf([0.5 * LIKELY, 1.0 - 0.5 * LIKELY], len(counts))
    assert low < chi2 < high
    # Pairs themselves: their number is Poisson's but for the few that share a cell. Neighbours alarm together six times
    # as often as independent cells would, cells that train each other hardly ever.
    for lags_, least in (((1, 2), 3.0), (range(GUARD + 1, REACH + 1), 0.0), (range(REACH + 1, 2 * REACH + 1), 1.0)):
        found, expected, independent = 0, 0.0, 0.0
        for lag in lags_:
            other = along[..., lag:] if axis == "range" else np.roll(along, -lag, axis=-1)
            found += np.count_nonzero(along[..., : other.shape[-1]] & other)
            expected += len(along) * rows * pairs[lag - 1] * together[lag - 1]
            independent += len(along) * rows * pairs[lag - 1] * FALSE_ALARM**2
        assert expected >= least * independent
        low, high = stats.poisson.ppf([LIKELY / 6.0, 1.0 - LIKELY / 6.0], expected)
        assert low <= found <= high
