"""Detector of radars on small cubes, against plain NumPy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import parhelion as ph
from parhelion.rays.device import engine
from parhelion.sensors.waves.radar.config import Detection
from parhelion.sensors.waves.radar.cube import Axes
from parhelion.sensors.waves.radar.detection import Cells, clusters_of, detect, ground_returns, noise_around, peaks_of
from pins import check, even

SHAPE = (12, 6, 3, 5)
MULTIPLE = 1.25


def cells(method: str, *, along_speed: bool, wraps: bool, shape: tuple[int, ...] = SHAPE) -> Cells:
    """Detector with two training cells on each side behind one guard cell."""
    return Cells(method, along_speed, *shape, 2, 1, 3, wraps, engine().number(MULTIPLE))  # type: ignore[arg-type]


def training(power: NDArray[np.float64], at: tuple[int, ...], along_speed: bool) -> NDArray[np.float64]:
    """Training cells (2, 2) of a cell: below and above; at the ends of the range axis, those farther on."""
    r, d, e, a = at
    ranges, speeds = power.shape[:2]
    found = []
    for side in (-1, 1):
        for step in (2, 3):
            if along_speed:
                found.append(power[r, (d + side * step) % speeds, e, a])
                continue
            place = r + side * step
            if not 0 <= place < ranges:
                place = min(max(r - side * (step + 2), 0), ranges - 1)
            found.append(power[place, d, e, a])
    return np.array(found).reshape(2, 2)


def expected(power: NDArray[np.float64], method: str, *, along_speed: bool, wraps: bool) -> tuple[list[int], list[int]]:
    """Cells above the threshold, and those that are maxima; speed is periodic, azimuth only if it wraps."""
    passed, peaks = [], []
    for number, at in enumerate(np.ndindex(power.shape)):
        own, around = power[at], training(power, at, along_speed)
        if method == "ca":
            alarm = own > MULTIPLE * around.mean()
        elif method == "so":
            alarm = own > MULTIPLE * around.mean(axis=1).min()
        else:
            alarm = np.count_nonzero(MULTIPLE * around < own) >= 3
        if not alarm:
            continue
        passed.append(number)
        highest = True
        for axis, periodic in enumerate((False, True, False, wraps)):
            for step in (-1, 1):
                beside = list(at)
                beside[axis] += step
                if not periodic and not 0 <= beside[axis] < power.shape[axis]:
                    continue
                beside[axis] %= power.shape[axis]
                there = power[tuple(beside)]
                highest &= own >= there if step < 0 else own > there
        if highest:
            peaks.append(number)
    return passed, peaks


@pytest.mark.parametrize("wraps", [False, True], ids=["sector", "around"])
@pytest.mark.parametrize("along_speed", [False, True], ids=["range", "speed"])
@pytest.mark.parametrize("method", ["ca", "so", "os"])
def test_alarms_and_peaks_of_every_cell(method: str, along_speed: bool, wraps: bool) -> None:
    """Small whole numbers, so that sums are exact and neighbours are often equal."""
    power = np.random.default_rng(6).integers(1, 7, SHAPE).astype(np.float64)
    want = expected(power, method, along_speed=along_speed, wraps=wraps)
    assert len(want[1]) >= 5
    found = detect(engine(), cells(method, along_speed=along_speed, wraps=wraps), engine().table(power))
    assert [one.tolist() for one in found] == list(want)


@pytest.mark.parametrize("ranges", [4, 5, 7])
def test_alarms_with_few_ranges(ranges: int) -> None:
    """Replacements of missing training cells may lie beyond the other end."""
    power = np.random.default_rng(7).integers(1, 7, (ranges, *SHAPE[1:])).astype(np.float64)
    want = expected(power, "ca", along_speed=False, wraps=False)
    assert len(want[0]) >= 5
    found = detect(engine(), cells("ca", along_speed=False, wraps=False, shape=power.shape), engine().table(power))
    assert [one.tolist() for one in found] == list(want)


@pytest.mark.parametrize("axis", ["range", "speed"])
@pytest.mark.parametrize("method", ["ca", "so", "os"])
def test_noise_around_cells(method: str, axis: str) -> None:
    """Means of the training cells, also at both ends."""
    power = np.random.default_rng(8).exponential(1.0, (14, 9, 2, 3)).astype(np.float32)
    at = tuple(np.array(one) for one in np.unravel_index(np.arange(0, power.size, 5), power.shape))
    settings = Detection(method=method, axis=axis, training=4, guard=1)  # type: ignore[arg-type]
    found = noise_around(power, at, settings)
    if method != "os":
        around = [training(power.astype(np.float64), one, axis == "speed") for one in zip(*at, strict=True)]
        means = [one.mean() if method == "ca" else one.mean(axis=1).min() for one in around]
        assert found == pytest.approx(means, rel=1e-6)
    check(f"radar/noise-{method}-{axis}", noise=found)


@pytest.mark.parametrize("resolution_m", [0.4, 2.0, 40.0])
def test_returns_of_the_ground(resolution_m: float) -> None:
    """A gentle slope, with a car that stands and one that moves on it."""
    x, y = (one.ravel() for one in np.meshgrid(np.arange(0.0, 20.0, 0.5), np.arange(-6.0, 6.0, 0.5)))
    z = 0.05 * x + 0.02 * np.sin(y)
    car = (np.abs(x - 9.0) < 2.0) & (np.abs(y - 1.0) < 1.0)
    xyz = np.column_stack([x, y, z + np.where(car, 1.0, 0.0)])
    moving = np.where((np.abs(x - 15.0) < 1.0) & (np.abs(y + 3.0) < 1.0), 2.0, 0.0)
    found = ground_returns(xyz, moving, np.arange(len(x)) % 7 != 0, resolution_m)
    check(f"radar/ground-{resolution_m:g}", found=found)


@pytest.mark.parametrize("wraps", [False, True], ids=["sector", "around"])
def test_the_first_azimuth_is_beside_the_last(wraps: bool) -> None:
    """The stronger of two peaks across the seam wins only if the azimuths wrap around."""
    power = np.full((12, 1, 1, 8), 1.0)
    power[5, 0, 0, 0], power[5, 0, 0, 7] = 50.0, 80.0
    found = detect(engine(), cells("ca", along_speed=False, wraps=wraps, shape=power.shape), engine().table(power))
    assert found[0].tolist() == [40, 47]
    assert found[1].tolist() == ([47] if wraps else [40, 47])


@pytest.mark.parametrize("model", ["ti/iwr6843", "continental/ars408-21-far", "navtech/cts350-x", "ti/mmwcas-imaging"])
def test_numbers_of_peaks(model: str) -> None:
    """Places, directions, powers and noise of peaks of a random cube without their sidelobes: recorded."""
    config = ph.Radar(model).config
    axes = Axes.of(config)
    shape = tuple(min(size, most) for size, most in zip(axes.shape, (40, 24, 12, 400), strict=True))
    few: Any = SimpleNamespace(
        shape=shape, config=config, azimuth=axes.azimuth[: shape[3]], elevation=axes.elevation[: shape[2]],
        speed=np.linspace(-3.0, 4.0, shape[1]),
    )  # fmt: skip
    random = np.random.default_rng(9)
    power = random.exponential(1.0, shape).astype(np.float32)
    strong = random.permutation(power.size)[:60]
    power.ravel()[strong] = 10.0 ** random.uniform(1.0, 6.0, 60)
    cells = np.sort(np.concatenate([strong, np.arange(0, power.size, 1 + power.size // 200)]))
    found = peaks_of(power, cells, few, config.detection)
    assert 3 < len(found.cell) < len(cells)
    check(f"radar/peaks-{model}", rel=1e-6, **{name: even(value) for name, value in vars(found).items()})


def test_numbers_of_clusters() -> None:
    """Centroids, mean speeds and owners by the powers of connected cells, in the order of their power."""
    random = np.random.default_rng(10)
    xyz = np.concatenate([random.normal(0.0, 0.4, (20, 3)) + centre for centre in ([0, 0, 0], [8, 1, 0], [3, 9, 2])])
    power, speed = random.exponential(1.0, 60), random.normal(0.0, 2.0, 60)
    power[20:40] *= 5.0
    found = clusters_of(xyz, power, speed, 2.0)
    assert len(found.power) == 3
    groups = [np.arange(20) + 20 * k for k in (1, *sorted((0, 2), key=lambda k: -power[20 * k : 20 * k + 20].sum()))]
    for k, own in enumerate(groups):
        assert found.power[k] == pytest.approx(power[own].sum())
        assert found.xyz[k] == pytest.approx(np.average(xyz[own], axis=0, weights=power[own]))
        assert found.speed_m_s[k] == pytest.approx(np.average(speed[own], weights=power[own]))
        assert found.owner[k] in own
        assert power[found.owner[k]] == power[own].max()
    weak = clusters_of(xyz, power, speed, 0.3, 1.0)
    check("radar/clusters", rel=1e-7, **vars(weak))
    assert len(clusters_of(xyz[:0], power[:0], speed[:0], 1.0).power) == 0
    assert len(clusters_of(xyz, power, speed, 2.0, power.sum()).power) == 0
