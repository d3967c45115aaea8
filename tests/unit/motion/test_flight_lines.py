"""Flight lines: spacing by overlap, motion on lines and in turns, and their entry in scenarios."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.trajectory import Mounted
from parhelion.motion.flight_lines import FlightLines, flight_of
from parhelion.scenario.bodies import motion_of
from parhelion.scenario.motions import FlightEntry, MotionEntry

PLAN = {"height_m": 300.0, "speed_m_s": 50.0, "half_angle_deg": 20.0, "overlap": 0.3}
AREA = (0.0, 0.0, 1000.0, 400.0)


def test_lines_cover_the_area_with_the_overlap() -> None:
    flight = FlightLines(AREA, **PLAN)
    swath = 2.0 * 300.0 * np.tan(np.radians(20.0))
    y = flight.ends[:, 0, 1]
    np.testing.assert_allclose(np.diff(y), 0.7 * swath)
    assert y.min() - 0.5 * swath <= 0.0
    assert y.max() + 0.5 * swath >= 400.0
    assert y.max() - 0.7 * swath + 0.5 * swath < 400.0  # one line fewer would not do
    np.testing.assert_allclose(flight.ends[:, :, 2], 300.0)


def test_aircraft_flies_to_and_fro_at_constant_speed_and_turns_smoothly() -> None:
    flight = FlightLines(AREA, **PLAN, heading_deg=30.0, start_s=5.0)
    times = np.linspace(5.0, flight.end_s, 20_001)
    xyz, quat = flight.sample(times)
    speed = np.linalg.norm(np.diff(xyz, axis=0), axis=1) / np.diff(times)
    lines = flight.line(times)
    np.testing.assert_allclose(speed[(lines[1:] > 0) & (lines[:-1] == lines[1:])], 50.0, rtol=1e-6)
    # No jumps of position or speed: cubic turns of 10 s change the velocity by at most 6 v / T and the offset's share.
    assert np.abs(np.diff(speed)).max() < 0.2
    yaw = np.unwrap(2.0 * np.arctan2(quat[:, 2], quat[:, 3]))
    assert np.abs(np.diff(yaw)).max() < 0.02
    along = np.stack([np.cos(yaw), np.sin(yaw)], axis=1)
    moved = np.diff(xyz[:, :2], axis=0)
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    on_line = (lines[1:] > 0) & (lines[:-1] == lines[1:])
    np.testing.assert_allclose(np.sum(along[1:] * moved, axis=1)[on_line], 1.0, atol=1e-6)
    assert set(lines.tolist()) == set(range(len(flight.ends) + 1))
    assert flight.line([4.9, flight.end_s + 0.1]).tolist() == [0, 0]


def test_scenarios_fly_lines_and_sensors_know_them() -> None:
    entry = MotionEntry(flight_lines=FlightEntry(area_m=AREA, **PLAN))
    flight = motion_of(entry, None)  # type: ignore[arg-type]
    assert isinstance(flight, FlightLines)
    assert flight_of(Mounted(flight, ph.Pose())) is flight
    assert flight_of(ph.Fixed(ph.Pose())) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"overlap": 1.0}, "overlap from 0 to below 1"),
        ({"speed_m_s": 0.0}, "must be above 0"),
        ({"area_m": (0, 0, 0, 1)}, "x0 < x1"),
    ],
)
def test_impossible_plans_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ph.ConfigError, match=message):
        FlightLines(**{"area_m": AREA, **PLAN, **change})  # type: ignore[arg-type]
