"""Sensors and targets for tests of wave sensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import parhelion as ph
from parhelion.core.config import parse
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.sensors.waves.echo.config import EchoConfig
from parhelion.sensors.waves.radar.config import RadarConfig


def radar_config(**more: Any) -> RadarConfig:
    """A small 77 GHz radar; sections are merged."""
    antenna = {"gain_dbi": 10, "azimuth_width_deg": 90, "elevation_width_deg": 20}
    fields: dict[str, Any] = {
        "name": "test", "rate_hz": 10, "frequency_ghz": 77, "power_dbm": 12, "transmit": antenna, "receive": antenna,
        "noise_figure_db": 12, "sources": ["of the tests"],
        "waveform": {"bandwidth_mhz": 500, "ramp_us": 40, "interval_us": 60, "ramps": 64, "range_bins": 400},
        "array": {"azimuth_channels": 12},
        "field": {"azimuth_deg": (-40, 40), "elevation_deg": (-8, 8), "rays": 40_000, "bounces": 1},
    }  # fmt: skip
    for key, value in more.items():
        fields[key] = {**fields[key], **value} if isinstance(value, dict) and key in fields else value
    return parse(RadarConfig, fields, "test")


def narrow(half_deg: float, **more: Any) -> RadarConfig:
    """The same radar with all rays in a narrow cone."""
    field = {"azimuth_deg": (-half_deg, half_deg), "elevation_deg": (-half_deg, half_deg), **more}
    return radar_config(field=field)


def alone(mesh: Any, distance: float = 50.0, material: str = "steel") -> ph.World:
    """World with one target ahead."""
    world = ph.World()
    world.add(mesh, material=material, label="target", pose=ph.Pose((distance, 0.0, 0.0)))
    return world


def trihedral(side: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A corner of three right triangles that opens along -x."""
    corners = np.array([[0, 0, 0], [side, 0, 0], [0, side, 0], [0, 0, side]], float)
    forward = -np.ones(3) / np.sqrt(3.0)
    left = np.cross([0.0, 0.0, 1.0], forward)
    left /= np.linalg.norm(left)
    turn = np.stack([forward, left, np.cross(forward, left)])
    return corners @ turn.T, np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1]])


def sonar(**more: object) -> EchoConfig:
    """Omnidirectional sonar."""
    wide = {"azimuth_width_deg": 180, "elevation_width_deg": 180, "sidelobe_db": 0}
    fields = {
        "name": "test", "rate_hz": 5, "medium": {"kind": "air", "temperature_c": 20}, "frequency_khz": 40,
        "source_level_db": 120, "noise_level_db": 0, "emitter": wide, "receiver": wide, "pulse": {"duration_ms": 0.2},
        "field": {"azimuth_deg": (-89, 89), "elevation_deg": (-89, 89), "rays": 200_000, "bounces": 1},
        "range_m": (0.05, 10), "sources": ["of the tests"], "beams": (16, 16), **more,
    }  # fmt: skip
    return parse(EchoConfig, fields, "test")


def doppler_hz(rate_m_s: NDArray[np.floating], frequency_hz: float) -> NDArray[np.float64]:
    """Shift in frequency of a path whose length grows by `rate_m_s` [m/s]: - rate f / c."""
    return np.asarray(-np.asarray(rate_m_s, np.float64) * frequency_hz / SPEED_OF_LIGHT_M_S)
