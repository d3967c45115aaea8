"""Lidars that measure phases: ambiguity, mixed surfaces and noise against closed forms shared with cameras."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.sensors.optics.camera.config import TimeOfFlight
from parhelion.sensors.optics.camera.depth import flight_sigma
from parhelion.sensors.optics.lidar.config import Amcw, LidarConfig, RatedRange
from parhelion.sensors.optics.phase import ambiguity_m, phase_range, phase_sigma_m, unfolded, wrapped

FINE_MHZ = 53.2


def lidar(coarse_mhz: float | None = None, rated_m: float = 59.0, **options: Any) -> ph.Lidar:
    sheet = ph.Lidar("hokuyo/urg-04lx").config
    rated = [RatedRange(reflectance=0.9, range_m=rated_m)]
    limits = sheet.range.model_copy(update={"max_m": 60.0, "resolution_m": 0.0, "rated": rated})
    change = {"amcw": Amcw(fine_mhz=FINE_MHZ, coarse_mhz=coarse_mhz), "range": limits}
    return ph.Lidar(sheet.model_copy(update=change), **options)


def board(*ranges: float) -> ph.World:
    """White boards ahead; of two, the nearer one covers the left half."""
    world = ph.World()
    for number, range_m in enumerate(ranges):
        left = 0.0 if len(ranges) == 1 or number else 2.0
        place = ph.Pose(xyz=(range_m + 0.05, left, 0))
        world.add(ph.shapes.box(0.1, 4, 4), material="lambert-90", label="board", pose=place)
    return world


def ahead(sensor: ph.Lidar, world: ph.World, seed: int = 1) -> tuple[float, float]:
    """Range and power of the shot along x."""
    scan = sensor.scan(world, pose=ph.Pose(), seed=seed)
    row = int(np.argmax(sensor.shots().direction[:, 0]))
    mine = scan.fields["shot"] == row
    return float(scan.fields["range"][mine][0]), float(scan.fields["power"][mine][0])


def test_formulas_are_those_of_the_cameras() -> None:
    assert ambiguity_m(20e6) == pytest.approx(SPEED_OF_LIGHT_M_S / 40e6)
    flight = TimeOfFlight(modulation_mhz=20.0, signal_e=1e4, ambient_e=300.0, contrast=0.6)
    snr = 0.6 * 5e3 / np.sqrt(5e3 + 300.0)
    expected = SPEED_OF_LIGHT_M_S / (4.0 * np.sqrt(2.0) * np.pi * 20e6) / snr
    assert flight_sigma(flight, np.array([5e3]))[0] == pytest.approx(expected)
    assert phase_sigma_m(snr, modulation_hz=20e6) == pytest.approx(expected)
    period, true = ambiguity_m(FINE_MHZ * 1e6), np.array([0.1, 2.0, 2.9, 13.7])
    angle = 2.0 * np.pi * true / period
    np.testing.assert_allclose(phase_range(np.cos(angle), np.sin(angle), ambiguity=period), true % period, atol=1e-7)
    rough = true + np.array([1.0, -1.0, 1.3, -1.3])
    found = unfolded(true % period, rough, fine_ambiguity=period, coarse_ambiguity=22.0)
    np.testing.assert_allclose(found, true, atol=1e-12)
    assert wrapped(23.0, 22.0) == pytest.approx(1.0)


def test_ranges_repeat_after_the_ambiguity() -> None:
    """2.8 m with one frequency; with 6.65 MHz, which selects the period, 22.5 m."""
    period, coarse = ambiguity_m(FINE_MHZ * 1e6), ambiguity_m(6.65e6)
    alone, both = lidar(noise=False), lidar(6.65, noise=False)
    for true in (1.0, 2.5, 4.0, 9.5, 20.0, 25.0):
        world = board(true)
        assert ahead(alone, world)[0] == pytest.approx(true % period, abs=3e-3)
        assert ahead(both, world)[0] == pytest.approx(true % coarse, abs=3e-3)


def test_two_surfaces_in_one_beam_give_one_range_between_them() -> None:
    """Sum of the phasors of both halves, by their own powers; pulses of the same beam would give either range."""
    near, far = 1.5, 2.1
    sensor = lidar(noise=False, sampling="fixed")
    single = [ahead(sensor, board(range_m)) for range_m in (near, far)]
    found, power = ahead(sensor, board(near, far))
    period = ambiguity_m(FINE_MHZ * 1e6)
    # The beam along x grazes the edge at y = 0: half of its sub-rays meet each board.
    phasors = [0.5 * p * np.exp(2j * np.pi * r / period) for r, p in single]
    total = sum(phasors)
    expected = float(np.angle(total) / (2 * np.pi) * period % period)
    # 25 sub-rays: 12 or 13 on each side, and those on the edge.
    assert near + 0.1 < found < far - 0.1
    assert found == pytest.approx(expected, abs=0.06)
    assert power == pytest.approx(abs(total), rel=0.15)
    assert power < 0.5 * (single[0][1] + single[1][1])


def test_noise_of_the_phase() -> None:
    """Range scatters by c / (4 sqrt(2) pi f SNR) on top of the constant part, within four standard errors."""
    sensor, world = lidar(rated_m=9.0), board(3.0)
    scans = sensor.scan_many(world, [ph.Pose()] * 150, seed=2)
    row = int(np.argmax(sensor.shots().direction[:, 0]))
    ranges = np.array([scan.fields["range"][scan.fields["shot"] == row][0] for scan in scans], float)
    power = ahead(lidar(rated_m=9.0, noise=False), world)[1]
    receiver, noise = sensor.config.receiver, sensor.config.noise
    sigma = np.hypot(
        noise.range_sigma_m, phase_sigma_m(power * receiver.threshold_to_noise, modulation_hz=FINE_MHZ * 1e6)
    )
    assert sigma > 1.3 * noise.range_sigma_m
    # 3 m lies beyond the first period.
    assert ranges.std() == pytest.approx(sigma, rel=4.0 / np.sqrt(2 * len(ranges)))
    assert abs(ranges.mean() - 3.0 % ambiguity_m(FINE_MHZ * 1e6)) < 4.0 * sigma / np.sqrt(len(ranges)) + 1e-3


def test_sheets_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValueError, match=r"coarse_mhz \(60\) must be below fine_mhz \(53.2\)"):
        Amcw(fine_mhz=FINE_MHZ, coarse_mhz=60.0)
    data = ph.Lidar("hokuyo/urg-04lx").config.model_dump()
    data["receiver"]["returns_offered"] = ["strongest", "all"]
    with pytest.raises(ValueError, match="amcw has one range per shot"):
        LidarConfig(**data)
