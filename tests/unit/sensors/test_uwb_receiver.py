"""Receiver of UWB radios: power, sensitivity, bias by level, saturation, impulse responses; shadowing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.sensors.waves.uwb.channel import (
    impulse_responses,
    level_bias_m,
    links_of,
    received_share,
    rooms_at,
    saturated,
    sent_dbm,
    shadowing,
    with_diffuse,
)
from parhelion.sensors.waves.uwb.config import UwbConfig
from parhelion.sensors.waves.uwb.paths import RadioPaths


def sheet(**changes: object) -> UwbConfig:
    return UwbConfig(**(ph.Uwb("qorvo/dw1000").config.model_dump() | changes))


def received(distance_m: float, **options: object) -> float:
    """Fraction of 30 frames that a DW1000 receives in free space."""
    tag = ph.Uwb("qorvo/dw1000", anchors=[[distance_m, 0, 0]], cir=False, **options)  # type: ignore[arg-type]
    return float(np.isfinite(tag.run(ph.World(), ph.Pose(), duration=3.0, seed=5).range).mean())


def test_a_dw1000_reaches_the_range_of_its_data_sheet() -> None:
    assert received(290.0, data_rate_kbps=110, channel=2) == 1.0
    assert received(100.0) == 1.0
    assert received(250.0) == 0.0


def test_an_anchor_without_a_path_changes_no_other_response() -> None:
    """The first row of paths belongs to the second link."""
    x = np.array([1.0])
    paths = RadioPaths(
        *(np.array([number]) for number in (0, 1, 0, 0)), 6.0 * x, 6.0 / SPEED_OF_LIGHT_M_S * x, 1e-3 * x + 0j,
        *np.zeros((2, 1, 3)), np.full((1, 2, 3), np.nan), np.zeros(1, np.int64),
    )  # fmt: skip
    found = links_of(paths, 1, 2, sheet())
    assert np.isfinite(found.arrival_m).tolist() == [[False, True]]
    assert found.arrival_m[0, 1] == pytest.approx(6.0)
    time, response = impulse_responses(paths, found, sheet())
    assert np.isnan(response[0, 0]).all()
    # At the first path, a pulse of unit peak: transmitted amplitude [sqrt(mW)] times the gain.
    assert response[0, 1, np.argmin(np.abs(time))] == pytest.approx(1e-3 * 10.0 ** (sent_dbm(sheet()) / 20.0), rel=1e-5)


def test_short_frames_are_sent_with_more_power() -> None:
    # 264 symbols of 1.018 us, a header of 21 bits of 1.026 us, 208 coded bits of 0.128 us: 0.317 ms, so 4.99 dB.
    assert sheet().frame_s == pytest.approx(316.9e-6, rel=1e-3)
    assert sheet().boost_db == pytest.approx(4.99, abs=0.01)
    assert sheet(data_rate_kbps=110).boost_db == 0.0
    short = {6800: {"preamble_symbols": 64, "sensitivity_dbm": -94.0}}
    assert sheet(modes=short, payload_bytes=12).boost_db == 9.0


def test_the_packet_error_rate_is_that_of_the_data_sheet() -> None:
    one = sheet(sensitivity_margin_db=0.0)
    share = received_share(np.array([-94.0, -93.0, -60.0, -120.0]), one)
    assert share == pytest.approx([0.9**2, 0.99**2, 1.0, 0.0], abs=1e-6)


def test_the_range_bias_follows_the_level_by_aps011() -> None:
    plain = sheet(level_bias_gain=1.0, calibration_level_dbm=-77.0)
    assert level_bias_m(np.array([-61.0, -77.0, -79.0, -95.0, -120.0]), plain) == pytest.approx(
        [-0.110, 0.0, 0.021, 0.086, 0.086]
    )
    # Above the table, the slope of its first two rows: 2.5 mm per dB.
    assert level_bias_m(np.array([-57.0]), plain) == pytest.approx([-0.120])
    tag = ph.Uwb(sheet(unit_bias_m=0.0, range_noise_m=0.0, range_step_m=0.0), anchors=[[3, 0, 0], [100, 0, 0]])
    error = tag.run(ph.World(), ph.Pose(), duration=20.0, seed=1).error.mean(axis=0)
    assert error[1] - error[0] == pytest.approx(0.34, abs=0.02)


def test_the_reported_level_saturates_at_close_range() -> None:
    assert saturated(np.array([-110.0, -79.0, -30.0]), -79.0, 1.0) == pytest.approx([-110.0, -82.0, -79.0], abs=0.02)
    tag = ph.Uwb("qorvo/dw1000", anchors=[[1, 0, 0], [2, 0, 0], [90, 0, 0]])
    found = tag.run(ph.World(), ph.Pose(), duration=5.0, seed=1)
    assert found.first_path_power is not None
    level, first = found.rssi.mean(axis=0), found.first_path_power.mean(axis=0)
    assert level[:2] == pytest.approx([-79.0, -79.0], abs=0.3)
    assert first[:2] == pytest.approx([-80.7, -80.7], abs=0.3)
    assert level[2] == pytest.approx(-91.2, abs=0.6)


def test_uwb_records_hold_taps_and_first_path_power(tmp_path: Path) -> None:
    found = ph.Uwb("qorvo/dw3000", anchors=[[4, 0, 0]]).run(ph.World(), ph.Pose(), duration=1.0, seed=1)
    assert found.cir is not None
    assert found.cir_time is not None
    assert np.diff(found.cir_time) == pytest.approx(1.0016e-9, rel=1e-3)
    assert "first_path_power_anchor-0" in found.to_dataframe().columns
    found.save(tmp_path / "ranges.npz")
    again = ph.UwbData.load(tmp_path / "ranges.npz")
    assert again.first_path_power is not None
    np.testing.assert_array_equal(again.first_path_power, found.first_path_power)
    assert ph.Uwb("bluetooth/rssi", anchors=[[4, 0, 0]]).run(ph.World(), ph.Pose(), duration=1.0, seed=1).cir is None


def room() -> ph.World:
    world = ph.World()
    for sign in (-1, 1):
        for axis, size in enumerate(((0.2, 6.4, 3.4), (4.4, 0.2, 3.4), (4.4, 6.4, 0.2))):
            xyz = [0.0, 0.0, 0.0]
            xyz[axis] = sign * (2.1, 3.1, 1.6)[axis]
            world.add(ph.shapes.box(*size), material="concrete", name=f"wall {sign} {axis}", pose=ph.Pose(xyz=xyz))
    return world


def test_closed_rooms_have_a_diffuse_field_of_their_volume() -> None:
    world = room()
    tag = ph.Uwb("qorvo/dw1000", anchors=[[1.0, 1.0, 0.5]], noise=False)
    site = tag._site(world)
    place = np.array([[-1.0, -1.5, 0.0]])
    found = rooms_at(site.radio, place)
    # 4 x 6 x 3 m: V = 72 m3, A = 108 m2, mean free path 4 V / A = 2.67 m.
    assert found.volume_m3 == pytest.approx([72.0], rel=0.1)
    assert found.free_path_m == pytest.approx([2.67], rel=0.15)
    paths = tag.paths(world, place)
    both = with_diffuse(paths, site.rooms, found, site.anchors.xyz, place, tag.wave)
    diffuse = both.order == 3
    expected = tag.wave.length_m**2 * 2.998e8 * found.decay_s[0] / (8.0 * np.pi * 72.0)
    # 48 exponential powers, less the power of the reflections that were found.
    assert 0.1 < np.sum(np.abs(both.gain[diffuse]) ** 2) / expected < 1.5
    assert np.all(both.delay[diffuse] > paths.delay.min())
    outside = ph.Uwb("qorvo/dw1000", anchors=[[9.0, 1.0, 0.5]], noise=False)._site(world)
    assert outside.rooms.decay_s[0] == 0.0


@pytest.mark.slow
def test_radios_that_hop_receive_each_carrier_in_turn() -> None:
    # Over a metal ground, the fading of a narrow band depends on the carrier: that of each channel by itself.
    world = ph.World()
    world.add(ph.shapes.plane(100, 100), material="steel")
    place, anchors = ph.Pose((0, 0, 1.5)), [[17.0, 3.0, 2.0]]
    fields = ph.Uwb("bluetooth/rssi").config.model_dump() | {"rssi_step_db": 0.0}
    hopping = ph.Uwb(UwbConfig(**fields), anchors=anchors, noise=False).run(world, place, duration=0.6, seed=1)
    alone = [
        ph.Uwb(UwbConfig(**fields | {"carrier_ghz": ghz, "hop_carriers_ghz": []}), anchors=anchors, noise=False)
        .run(world, place, duration=0.1, seed=1)
        .rssi[0, 0]
        for ghz in fields["hop_carriers_ghz"]
    ]
    assert np.ptp(alone) > 1.0
    # Free-space loss stays that of the middle of the band: 20 lg(2.480 / 2.426) = 0.19 dB.
    assert hopping.rssi[:6, 0] == pytest.approx([*alone, *alone], abs=0.25)


def test_shadowing_is_a_standard_normal_field_with_its_correlation_distance() -> None:
    place = np.random.default_rng(1).uniform(-200.0, 200.0, (4000, 3))
    values = np.concatenate([shadowing(place, seed, "x", 2.0) for seed in range(8)])
    apart = np.concatenate([shadowing(place + np.array([2.0, 0.0, 0.0]), seed, "x", 2.0) for seed in range(8)])
    assert values.std() == pytest.approx(1.0, abs=0.05)
    assert np.mean(values * apart) == pytest.approx(np.exp(-1.0), abs=0.08)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"channel": 6}, r"channel: must be one of \[1, 2, 3, 4, 5, 7, 9\], got 6"),
        ({"data_rate_kbps": 27000}, "data_rate_kbps: .* has 110, 850, 6800, got 27000"),
    ],
)
def test_bad_options_are_reported(options: dict[str, int], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ph.Uwb("qorvo/dw1000", **options)  # type: ignore[arg-type]
