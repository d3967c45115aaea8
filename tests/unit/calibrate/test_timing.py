"""Rotation rate, jitter, columns and firing period from time stamps of pulses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from calibrate_rigs import recording
from parhelion import Lidar, Pose, World
from parhelion.calibrate.drive.timing import (
    FEWEST_FRAMES,
    Number,
    Timing,
    _jitter,
    fit_timing,
    in_words,
    timing_changes,
    timing_rows,
)
from parhelion.calibrate.range_images import RangeImage, range_image, read_drive
from parhelion.calibrate.sheet import with_changes
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.config import SpinningPattern
from pins import check, even

Floats = NDArray[np.float64]
ROWS = 2


def frame(time: Floats, phase: Floats, start_s: float = 0.0, *, numbered: bool = True) -> RangeImage:
    """Frame from the time [s] and the azimuth [revolutions] of its columns; the second row fires a little later."""
    times = np.stack([time, time + 1e-6])
    azimuth = 2.0 * np.pi * np.stack([phase, phase + 0.01])
    direction = np.stack([np.cos(azimuth), np.sin(azimuth), np.zeros_like(azimuth)], axis=-1)
    blank, no = np.full(times.shape, np.nan), np.zeros(times.shape, bool)
    return RangeImage(
        "turn", np.ones(times.shape), blank, blank, blank, no, no, np.array([1.0, -1.0]), 0.0, direction,
        np.zeros_like(direction), time=times, start_s=start_s, numbered=numbered,
    )  # fmt: skip


def spun(
    random: np.random.Generator, frames: int, rate_hz: float, jitter: float, columns: int = 128
) -> list[RangeImage]:
    """Clockwise revolutions of slightly varying duration."""
    lengths = (1.0 + random.normal(0.0, jitter, frames)) / rate_hz
    begins = np.concatenate([[0.0], np.cumsum(lengths)[:-1]])
    share = np.arange(columns) / columns
    return [frame(share * length, -share, 1e9 + begin) for length, begin in zip(lengths, begins, strict=True)]


def test_intervals_of_rate_and_jitter_have_their_stated_coverage() -> None:
    """Sixty recordings of twelve revolutions, each with a random duration."""
    random = np.random.default_rng(1)
    held = [0, 0]
    for _ in range(60):
        rate, jitter = random.uniform(5.0, 20.0), random.uniform(2e-4, 2e-3)
        found = fit_timing(spun(random, 12, rate, jitter))
        assert found.jitter is not None
        held[0] += abs(found.rate_hz.value - rate) < 1.96 * found.rate_hz.error
        held[1] += abs(found.jitter.value - jitter) < 1.96 * found.jitter.error
        assert found.rate_hz.error < 2.0 * rate * jitter / np.sqrt(12)
    assert held[0] >= binom.ppf(1e-3, 60, 0.95)
    # The standard deviation of eleven durations is not quite normal, so 90 % are required.
    assert held[1] >= binom.ppf(1e-3, 60, 0.90)


def test_the_firing_period_is_found_from_stamps_of_whole_microseconds() -> None:
    """Packets of 24 firings whose stamps are cut to microseconds, as Velodyne's are."""
    random = np.random.default_rng(2)
    held = 0
    for _ in range(60):
        period = random.uniform(50.0, 60.0)
        number = np.arange(1800)
        packet = number // 24
        stamp = np.floor(packet * 24 * period + random.uniform(0.0, 1.0))
        time = 1e-6 * (stamp + number % 24 * period)
        found = fit_timing([frame(time, -10.0 * time)])
        assert found.period_us is not None
        assert found.period_us.error < 3e-4
        held += abs(found.period_us.value - period) < 1.96 * found.period_us.error
    assert held >= binom.ppf(1e-3, 60, 0.95)


def test_revolutions_between_frames_are_counted() -> None:
    """Every third frame of a recording, followed by another recording on another clock."""
    every = spun(np.random.default_rng(3), 31, 9.93, 1e-3)[::3]
    later = [replace(one, start_s=one.start_s - 5e8) for one in every if one.start_s is not None]
    for frames in (every, [*every, *later]):
        found = fit_timing(frames)
        assert found.rate_hz.value == pytest.approx(9.93, abs=1.96 * found.rate_hz.error)
        assert found.rate_hz.error < 0.003
        assert found.columns is not None
        assert found.columns.value == pytest.approx(128.0, abs=1e-6)


def test_missing_stamps_are_reported() -> None:
    one = spun(np.random.default_rng(4), 1, 10.0, 0.0)[0]
    with pytest.raises(ConfigError, match="no time stamps"):
        fit_timing([replace(one, time=None)])
    with pytest.raises(ConfigError, match="no frame has time stamps over"):
        fit_timing([frame(np.linspace(0.0, 0.03, 40), np.linspace(0.0, 0.3, 40))])
    alone = fit_timing([one])
    assert alone.jitter is None
    unnumbered = fit_timing([replace(one, numbered=False)])
    assert unnumbered.columns is None
    changes = timing_changes(unnumbered, Lidar("velodyne/vlp-16").config.pattern)
    assert changes.kept["pattern.firing_period_us"] == "the recording does not number its firings"


def test_rate_of_points_without_lost_shots_in_any_order() -> None:
    """Columns by azimuth, as in clouds without column numbers: time decreases with azimuth from an arbitrary start."""
    time = np.arange(400) / 4000.0
    phase = 0.2 - 10.0 * time
    order = np.argsort(phase % 1.0)
    one = frame(time[order], phase[order], numbered=False)
    assert one.time is not None
    one.time[:, 40:70] = np.nan
    found = fit_timing([one])
    assert found.rate_hz.value == pytest.approx(10.0, abs=1e-6)


def timing(rate: float, columns: int, period_us: float | None = None, error: float = 0.004) -> Timing:
    period = None if period_us is None else Number(period_us, 1e-4)
    return Timing(Number(rate, error), 3, np.full((3, 8), rate), None, Number(columns, 1e-6), period)


def test_modes_of_sensors_that_fire_by_angle() -> None:
    preset = Lidar("ouster/os0-32").config
    same = timing_changes(timing(10.01, 1024), preset.pattern)
    assert not same.changed
    assert same.kept["pattern.rate_hz"] == "1024 columns at 10.0100 ± 0.0078 Hz are the mode of the preset"
    fast = timing_changes(timing(19.97, 512), preset.pattern)
    pattern = with_changes(preset, fast.changed).pattern
    assert isinstance(pattern, SpinningPattern)
    assert (pattern.columns, pattern.rate_hz) == (512, 20.0)
    assert (pattern.columns_offered, pattern.rates_hz) == ([1024, 2048], [10.0])
    assert "not a mode of the sensor" in timing_changes(timing(20.0, 2048), preset.pattern).kept["pattern.rate_hz"]
    assert "not a mode of the sensor" in timing_changes(timing(10.0, 1000), preset.pattern).kept["pattern.rate_hz"]


def test_rate_and_period_of_sensors_that_fire_by_time() -> None:
    preset = Lidar("velodyne/vlp-16").config
    same = timing_changes(timing(10.005, 1808, 55.2961), preset.pattern)
    assert not same.changed
    other = timing_changes(timing(9.9321, 1820, 55.31), preset.pattern)
    assert other.changed["pattern.rate_hz"] == 9.9321
    assert 10.0 in other.changed["pattern.rates_hz"]
    assert other.changed["pattern.firing_period_us"] == 55.31
    assert with_changes(preset, other.changed).pattern.rate_hz == 9.9321


def test_scans_in_another_mode_are_recognised() -> None:
    lidar = Lidar("ouster/os0-32", rate_hz=20.0, columns=512)
    world = World.load("warehouse")
    scans = [lidar.scan(world, pose=Pose((k, 0, 1.4)), time=0.05 * k, seed=k) for k in range(2)]
    found = fit_timing([range_image(scan) for scan in scans])
    changes = timing_changes(found, Lidar("ouster/os0-32").config.pattern)
    assert (changes.changed["pattern.columns"], changes.changed["pattern.rate_hz"]) == (512, 20.0)


def test_a_real_vlp_16_fires_as_in_its_manual() -> None:
    found = fit_timing(read_drive(recording("vlp-16")))
    assert found.period_us is not None
    assert found.period_us.error < 2e-4
    assert found.period_us.value == pytest.approx(55.296, abs=1.96 * found.period_us.error)
    assert found.rate_hz.value == pytest.approx(10.0, abs=0.05)
    rows = timing_rows(found, Lidar("velodyne/vlp-16").config.pattern)
    assert [row[0] for row in rows] == ["rotation rate [Hz]", "columns per revolution", "firing period [us]"]


@pytest.mark.parametrize("name", ["os0-32", "os0-128", "os1-32", "os1-128"])
def test_real_ousters_rotate_ten_times_per_second(name: str) -> None:
    """By the time stamps of their columns, over one revolution or three."""
    found = fit_timing(read_drive(recording(name)))
    assert found.columns is not None
    assert found.columns.value == pytest.approx(1024.0, abs=1e-4)
    assert found.rate_hz.value == pytest.approx(10.0, abs=1.96 * found.rate_hz.error)
    assert found.rate_hz.error < 0.02
    assert not timing_changes(found, Lidar(f"ouster/{name}").config.pattern).changed


def test_jitter_of_revolutions_prefers_their_durations() -> None:
    """Durations of single revolutions, or the speeds of the pulses if there are too few of them."""
    lengths = np.column_stack([0.1 + 1e-4 * np.arange(FEWEST_FRAMES), np.ones(FEWEST_FRAMES)])
    slopes = 10.0 + 0.1 * np.arange(FEWEST_FRAMES)
    single, speeds = lengths[:, 0], 1.0 / slopes
    found = _jitter(lengths[1:], slopes)  # just enough of them
    assert found is not None
    assert found.value == pytest.approx(np.std(single[1:], ddof=1) / np.mean(single[1:]))
    assert found.error == pytest.approx(found.value / np.sqrt(2.0 * (FEWEST_FRAMES - 2)))
    few = _jitter(lengths[2:], slopes)
    assert few is not None
    assert few.value == pytest.approx(np.std(speeds, ddof=1) / np.mean(speeds))
    assert _jitter(lengths[2:], slopes[2:]) is None


@pytest.mark.parametrize(("frames", "every"), [(2, 1), (3, 1), (4, 1), (12, 1), (31, 3)])
def test_numbers_of_made_up_drives(frames: int, every: int) -> None:
    """Rate by revolutions or by sections, jitter, columns and period of noisy stamps with gaps: recorded."""
    random = np.random.default_rng(frames)
    parts = []
    for k, one in enumerate(spun(random, frames, 9.93, 1e-3)[::every]):
        assert one.time is not None
        one.time[:] += random.normal(0.0, 2e-6, one.time.shape)
        one.time[0, 20 + k : 40] = np.nan
        one.time[1, :3] = np.nan
        parts.append(replace(one, numbered=k % 4 != 1))
    found = fit_timing(parts)
    numbers = [number for one in (found.rate_hz, found.jitter, found.columns, found.period_us) for number in one or ()]
    rows = timing_rows(found, Lidar("velodyne/vlp-16").config.pattern)
    check(
        f"calibrate/timing-{frames}", rel=1e-6, numbers=even(numbers), frames=found.frames, parts=found.part_rates_hz,
        words=[float(word) for _, text, _ in rows for word in text.split(" ± ")],
    )  # fmt: skip


def test_the_period_and_columns_of_exact_stamps() -> None:
    """128 columns in a tenth of a second: 781.25 us apart; the rate of a clockwise head is positive."""
    found = fit_timing(spun(np.random.default_rng(1), 5, 10.0, 0.0))
    assert found.columns is not None
    assert found.period_us is not None
    assert found.jitter is not None
    assert (found.rate_hz.value, found.columns.value, found.period_us.value) == pytest.approx((10.0, 128.0, 781.25))
    assert found.part_rates_hz == pytest.approx(np.full((5, 8), 10.0))
    assert found.frames == 5
    assert in_words(Number(10.0, 1e-12)) == "10"
    assert in_words(Number(9.93214, 0.00123), 2.0) == "19.8643 ± 0.0048"
    assert in_words(Number(1234.5, 40.0)) == "1234 ± 78"
