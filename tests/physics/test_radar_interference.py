"""Ghosts and the raised floor by other radars, against the one-way radar equation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.clouds import ORIGINS
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.sensors.waves.radar.cube import noise_bandwidth
from parhelion.sensors.waves.radar.device import noise_power_w
from parhelion.sensors.waves.radar.interference import crossing_share, one_way_power_w

MODEL, GHOST = "continental/ars408-21-far", ORIGINS.index("interference")
FACING = {"xyz": [20.0, 0.0, 0.0], "yaw_deg": 180.0}


def empty() -> ph.World:
    world = ph.World()
    world.add(ph.shapes.box(0.2, 0.2, 0.2), material="steel", label="box", pose=ph.Pose((0, -4, 0)))  # out of view
    return world


def scan(world: ph.World, others: list[dict[str, Any]], **options: Any) -> ph.RadarScan:
    return ph.Radar(MODEL, interferers=others, **options).scan(world, pose=ph.Pose(), seed=3)


def test_one_way_power_and_crossing_by_hand() -> None:
    config = ph.Radar(MODEL).config
    # Friis: P_t G_t G_r (lambda / 4 pi d)^2 in decibels.
    decibels = config.power_dbm - 30 + config.transmit.gain_dbi + config.receive.gain_dbi - config.losses_db
    decibels += 20 * np.log10(config.wavelength_m / (4 * np.pi * 20.0))
    assert 10 * np.log10(one_way_power_w(config, 20.0, 1.0)) == pytest.approx(decibels)
    wave = config.waveform
    band_mhz = wave.range_bins / wave.ramp_us
    # Twice the slope: the difference of the frequencies runs through the band within band T / B.
    assert crossing_share(config, 2.0) == pytest.approx(band_mhz / wave.bandwidth_mhz)
    assert crossing_share(config, 1.0 + 1e-6) == 1.0


@pytest.mark.slow
def test_ramps_in_step_cause_a_ghost() -> None:
    world, late_m = empty(), 12.0
    clean = scan(world, [])
    seen = scan(world, [{**FACING, "offset_us": 1e6 * late_m / SPEED_OF_LIGHT_M_S}])
    assert not np.any(clean.fields["origin"] == GHOST)
    ghosts = np.flatnonzero(seen.fields["origin"] == GHOST)
    assert len(ghosts) >= 1
    best = ghosts[np.argmax(seen.fields["snr"][ghosts])]
    step = ph.Radar(MODEL).config.range_step_m
    assert seen.range[best] == pytest.approx(0.5 * (20.0 + late_m), abs=step)
    assert abs(np.degrees(seen.azimuth[best])) < 8.0
    assert seen.fields["label"][best] == 0
    # As strong as a cross-section of 4 pi R^4 / d^2 at its range, 33 dBsm: 20 dB more than a car.
    expected = 10 * np.log10(4 * np.pi * 16.0**4 / 20.0**2)
    assert seen.fields["rcs"][best] == pytest.approx(expected, abs=2.0)


@pytest.mark.slow
def test_crossing_ramps_raise_the_floor_in_their_direction() -> None:
    radar = ph.Radar(MODEL, interferers=[{**FACING, "slope": 2.0}], cube=True)
    config, axes = radar.config, radar.axes
    seen = radar.scan(empty(), pose=ph.Pose(), seed=3)
    clean = ph.Radar(MODEL, cube=True).scan(empty(), pose=ph.Pose(), seed=3)
    assert seen.cube is not None
    assert clean.cube is not None
    wave = config.waveform
    bandwidths = noise_bandwidth(wave.range_window) * noise_bandwidth(wave.speed_window)
    per_cell = one_way_power_w(config, 20.0, 1.0) * bandwidths / (wave.range_bins * wave.ramps)
    raised = crossing_share(config, 2.0) * per_cell / noise_power_w(config, axes)
    assert raised > 10.0
    ahead = int(np.argmin(np.abs(axes.azimuth)))
    far = seen.cube.power.shape[0] // 2
    ratio = seen.cube.power[far:, :, :, ahead].mean() / clean.cube.power[far:, :, :, ahead].mean()
    # Cells are correlated by the windows; a tenth covers their noise and the neighbouring beams' sidelobes.
    assert ratio == pytest.approx(1.0 + raised, rel=0.1)
    assert len(seen) <= len(clean) + 20


@pytest.mark.slow
def test_walls_hide_and_actors_carry_radars() -> None:
    world = empty()
    world.add_actor(
        ph.shapes.box(0.05, 0.05, 0.05), material="steel", label="car", name="truck",
        trajectory=ph.ConstantTwist(ph.Pose((20, 0, -2)), velocity=(-4, 0, 0)),
    )  # fmt: skip
    moving = scan(world, [{"xyz": [0, 0, 2], "yaw_deg": 180.0, "actor": "truck"}])
    ghosts = np.flatnonzero(moving.fields["origin"] == GHOST)
    best = ghosts[np.argmax(moving.fields["snr"][ghosts])]
    # One way: half the speed at which the distance shrinks.
    config = ph.Radar(MODEL).config
    cell = 2.0 * config.largest_speed_m_s / config.waveform.ramps
    assert moving.radial_velocity[best] == pytest.approx(-2.0, abs=cell)
    world.add(ph.shapes.box(0.2, 6, 6), material="concrete", label="wall", pose=ph.Pose((10, 0, 0)))
    hidden = scan(world, [FACING])
    assert not np.any(hidden.fields["origin"] == GHOST)


def test_options_and_errors() -> None:
    for wrong, words in (([{"xyz": [0, 0]}], r"interferers\[0\]"), ({"xyz": [0, 0, 0]}, "expected a list")):
        with pytest.raises(ph.ConfigError, match=words):
            ph.Radar(MODEL, interferers=wrong)  # type: ignore[arg-type]
    with pytest.raises(ph.ConfigError, match="mode cluster has no noise floor"):
        ph.Radar(MODEL, mode="cluster", interferers=[FACING])
