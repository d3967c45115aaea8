"""The receiver's search against a plain one in NumPy that leaves no window out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parhelion.core.random import Stream, to_normal, words
from parhelion.rays.device import engine
from parhelion.sensors.optics.beams import Beams
from parhelion.sensors.optics.lidar.detection import Detector, detect
from parhelion.sensors.optics.lidar.echoes import Block, EchoRows, ReturnEcho

MOST = 6
MERGE_M = 1.0
SIGMA = 1.0 / 6.0
BEAMS = 2000
KEY = Stream(5, "windows", 0).key


def echoes(rng: np.random.Generator, held: bool) -> tuple[np.ndarray, np.ndarray]:
    """Ranges and powers (beams, rows): clusters of weak echoes, some strong ones, and gaps without power."""
    rows = 5 if held else 25
    where = rng.uniform(2.0, 60.0, (BEAMS, 4))
    cluster = rng.integers(0, 4, (BEAMS, rows))
    ranges = np.take_along_axis(where, cluster, axis=1) + rng.normal(0.0, 0.6, (BEAMS, rows))
    powers = rng.lognormal(np.log(2.5 / rows), 1.3, (BEAMS, rows)) * (rng.random((BEAMS, rows)) < 0.8)
    return np.maximum(ranges, 0.5).astype(np.float32), powers.astype(np.float32)


SHOT_NOISE = 1.0 / 9.0


def plain_search(
    ranges: np.ndarray, powers: np.ndarray, shot: int, noise: bool, dead_m: float, shot_noise: float
) -> list[float]:
    """Power of each return of one beam in order of range: every window from the nearest echo on is tried."""
    real = powers > 0
    r, p = ranges[real].astype(np.float64), powers[real].astype(np.float64)
    found: list[float] = []
    start, anchor, number = (r.min() if len(r) else np.inf), -1e6, 0
    while np.isfinite(start) and len(found) < MOST:
        end = start + MERGE_M
        if start > anchor + MERGE_M:
            anchor, number = start, number + 1
        a, b, _, _ = words(KEY, np.array([shot]), number)
        power = p[(r >= start) & (r <= end)].sum()
        noise = np.sqrt(SIGMA**2 + shot_noise * power) * float(to_normal(a, b)[0][0]) if noise else 0.0
        hit = power + noise >= 1.0
        if hit:
            found.append(float(power))
        if not np.any(r > end):
            break
        ahead = r[r > (end + dead_m if hit else start)]
        start = ahead.min() if len(ahead) else np.inf
    return found


def fast_search(
    ranges: np.ndarray, powers: np.ndarray, noise: bool, dead_m: float, held: int, shot_noise: float
) -> list[list[float]]:
    eng = engine()
    dr, mi = eng.dr, eng.mi
    rows = ranges.shape[1]
    echo = ReturnEcho(
        eng.table(ranges), eng.table(powers), dr.zeros(mi.UInt32, ranges.size), dr.zeros(mi.UInt32, ranges.size)
    )
    beam = dr.arange(mi.UInt32, BEAMS)
    block = Block(EchoRows.of(eng, echo), beam * rows, mi.UInt32(rows), held=held)
    zero: Any = dr.zeros(mi.Float, 4 * BEAMS)
    beams = Beams(BEAMS, dr.zeros(mi.UInt32, BEAMS), beam, (zero, zero, zero))
    detector = Detector(
        mode="all", max_returns=MOST, merge_distance=eng.number(MERGE_M), dead_distance=eng.number(dead_m),
        noise_sigma=eng.number(SIGMA), shot_noise=eng.number(shot_noise) if shot_noise else None, noisy=noise,
        false_alarm_chance=None, min_range=eng.number(0.0), max_range=eng.number(100.0),
    )  # fmt: skip
    keys = tuple(eng.table(np.array([word], np.uint32)) for word in KEY)
    found = detect(eng, detector, [block], beams, beam, keys)  # type: ignore[arg-type]
    power = np.stack([np.where(item.range.numpy() < 1e29, item.power.numpy(), 0.0) for item in found], axis=1)
    return [row[row > 0].tolist() for row in power]


@pytest.mark.parametrize("dead_m", [0.0, 3.0])
@pytest.mark.parametrize("held", [0, 5])
@pytest.mark.parametrize(("noise", "shot_noise"), [(False, 0.0), (True, 0.0), (True, SHOT_NOISE)])
def test_no_window_that_counts_is_left_out(noise: bool, shot_noise: float, held: int, dead_m: float) -> None:
    ranges, powers = echoes(np.random.default_rng(held + 10 * noise), held > 0)
    found = fast_search(ranges, powers, noise, dead_m, held, shot_noise)
    expected = [
        plain_search(r, p, shot, noise, dead_m, shot_noise)
        for shot, (r, p) in enumerate(zip(ranges, powers, strict=True))
    ]
    assert sum(len(beam) > 1 for beam in expected) > BEAMS / 10, "too few beams have several returns"
    assert any(not beam for beam in expected)
    same = [
        len(one) == len(other) and np.allclose(one, other, rtol=1e-4)
        for one, other in zip(found, expected, strict=True)
    ]
    # Noise may be drawn for other windows once some are passed over, which a few beams in a thousand show.
    assert np.mean(same) == 1.0 if not noise else np.mean(same) > 0.99
    counts = [np.bincount([len(beam) for beam in which], minlength=MOST + 1) for which in (found, expected)]
    assert np.abs(counts[0] - counts[1]).max() <= (0.01 * BEAMS if noise else 0)
