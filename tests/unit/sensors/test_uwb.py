"""Ranging radios: impulse response, first path, receiver errors, positions, and error messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.sensors.check import check_sensor
from parhelion.sensors.sheets import PRESETS
from parhelion.sensors.waves.uwb import channel
from parhelion.sensors.waves.uwb.channel import response_noise_dbm
from parhelion.sensors.waves.uwb.config import UwbConfig
from parhelion.sensors.waves.uwb.solve import locate

SQUARE = {"a": [0, 0, 3.0], "b": [10, 0, 2.0], "c": [10, 8, 3.5], "d": [0, 8, 0.5], "e": [5, 4, 4.0]}
STANDING = ph.Fixed(ph.Pose((3.0, 2.0, 1.2)))


def floor() -> ph.World:
    world = ph.World()
    world.add(ph.shapes.plane(100, 100), material="concrete", label="floor")
    return world


def sheet(**changes: Any) -> UwbConfig:
    return UwbConfig(**(ph.Uwb("qorvo/dw1000").config.model_dump() | changes))


# ---- channel ---------------------------------------------------------------------------------------------------------


def test_the_pulse_has_its_bandwidth() -> None:
    time = np.linspace(-400e-9, 400e-9, 2**15)
    shape = channel.pulse(time, 499.2e6, 0.5)
    assert channel.pulse([0.0, 1 / 499.2e6], 499.2e6, 0.5) == pytest.approx([1.0, 0.0], abs=1e-9)
    spectrum = np.abs(np.fft.fft(shape))
    frequency = np.fft.fftfreq(len(time), time[1] - time[0])
    inside = np.abs(frequency) < 400e6
    measured = np.sqrt(np.sum(frequency[inside] ** 2 * spectrum[inside]) / np.sum(spectrum[inside]))
    assert channel.effective_bandwidth(499.2e6, 0.5) == pytest.approx(measured, rel=2e-3)
    assert channel.effective_bandwidth(1.0, 0.0) == pytest.approx(np.sqrt(1 / 12))


def test_thermal_noise() -> None:
    # The well-known -174 dBm/Hz is -173.975 at 290 K.
    assert channel.noise_dbm(1.0, 0.0) == pytest.approx(-173.975, abs=1e-3)
    assert channel.noise_dbm(500e6, 8.0) == pytest.approx(-173.975 + 86.990 + 8.0, abs=1e-3)


def test_one_path_is_found_where_it_is() -> None:
    for delay in (0.0, 1.234567e-8, 1e-6):
        found = channel.first_path(np.array([delay]), np.array([1e-4j]), 499.2e6, 0.5, 1e-10, 30.0)
        assert found is not None
        assert (found.delay_s - delay) * SPEED_OF_LIGHT_M_S == pytest.approx(0.0, abs=1e-4)
        assert found.power == pytest.approx(1e-8, rel=1e-6)


def test_the_first_path_not_the_strongest_is_timed_down_to_the_threshold() -> None:
    delay, gain = np.array([10e-9, 40e-9]), np.array([1e-5, 1e-4 + 0j])
    first = channel.first_path(delay, gain, 499.2e6, 0.5, 1e-11, 30.0)
    strongest = channel.first_path(delay, gain, 499.2e6, 0.5, 1e-9, 30.0)
    narrow_range = channel.first_path(delay, gain, 499.2e6, 0.5, 1e-11, 15.0)
    assert first is not None
    assert strongest is not None
    assert narrow_range is not None
    assert first.delay_s == pytest.approx(10e-9, abs=0.1e-9)
    assert strongest.delay_s == pytest.approx(40e-9, abs=0.1e-9)
    assert narrow_range.delay_s == pytest.approx(40e-9, abs=0.1e-9)
    assert channel.first_path(delay, gain, 499.2e6, 0.5, 1e-7, 30.0) is None


def test_paths_closer_than_the_bandwidth_blend_to_a_later_one() -> None:
    late_m = []
    for bandwidth in (499.2e6, 80e6):
        found = channel.first_path(np.array([0.0, 1e-9]), np.array([1e-4, 1e-4 + 0j]), bandwidth, 0.5, 1e-12, 30.0)
        assert found is not None
        late_m.append(found.delay_s * SPEED_OF_LIGHT_M_S)
    assert late_m == pytest.approx([0.15, 0.15], abs=1e-3)


@pytest.mark.parametrize("roll_off", [0.0, 0.1, 0.5])
def test_side_lobes_are_no_first_path(roll_off: float) -> None:
    # The first path is far below the threshold; the side lobes before the strong path exceed it.
    delay, gain = np.array([0.0, 10e-9]), np.array([1e-7, 1e-4 + 0j])
    found = channel.first_path(delay, gain, 499.2e6, roll_off, 1e-14, 40.0)
    assert found is not None
    assert found.delay_s == pytest.approx(10e-9, abs=0.01e-9)


def test_narrow_bands_fade_and_wide_ones_do_not() -> None:
    delay, gain = np.array([0.0, 10e-9]), np.array([1.0, -1.0 + 0j])
    assert channel.received_gain(delay, gain, 1.0) == pytest.approx(0.0, abs=1e-12)
    assert channel.received_gain(delay, gain, 1e9) == pytest.approx(2.0, rel=0.1)


def test_the_bound_on_arrival_times() -> None:
    # 500 MHz flat, 20 dB: 1 / (2 sqrt 2 pi * 144.3 MHz * 10) = 78 ps, 23 mm.
    sigma = channel.arrival_sigma(100.0, channel.effective_bandwidth(500e6, 0.0))
    assert float(sigma) * SPEED_OF_LIGHT_M_S == pytest.approx(0.02338, rel=1e-3)


def test_distance_by_signal_strength_is_free_space_for_an_exponent_of_two() -> None:
    found = ph.Uwb("bluetooth/rssi", anchors=[[7.0, 0, 0]], noise=False).measure(
        ph.World(), ph.Fixed(ph.Pose()), 0.0, 1
    )
    assert found.range[0, 0] == pytest.approx(7.0, rel=1e-6)


def test_a_recorded_impulse_response_peaks_at_the_first_path() -> None:
    world, way = floor(), ph.ConstantTwist(ph.Pose((3.0, 2.0, 1.2)), (1.0, 0.0, 0.0))
    tag = ph.Uwb("qorvo/dw1000", SQUARE, 20.0, noise=False, cir=True)
    found = tag.run(world, way, start=0.0, duration=0.5, seed=7)
    assert found.cir is not None
    assert found.cir_time is not None
    assert found.cir.shape == (10, 5, len(found.cir_time))
    first = np.abs(found.cir[:, :, np.argmin(np.abs(found.cir_time))]) ** 2
    noise_mw = 10.0 ** (response_noise_dbm(tag.config) / 10.0)
    np.testing.assert_allclose(10.0 * np.log10(first / noise_mw), found.snr, atol=1e-3)
    assert np.all(first > 0.9 * np.abs(found.cir[:, :, found.cir_time < -3e-9]).max(axis=2) ** 2), (
        "nothing comes before"
    )


def test_taps_have_the_phase_of_their_path() -> None:
    wave = SPEED_OF_LIGHT_M_S / ph.Uwb("qorvo/dw1000", SQUARE).config.carrier_hz
    lengths = 5.0 + wave * np.array([0.0, 0.25, 0.5, 0.9])
    tag = ph.Uwb("qorvo/dw1000", [[one, 0.0, 2.0] for one in lengths], noise=False, cir=True)
    found = tag.run(ph.World(), ph.Pose((0, 0, 2)), duration=0.1)
    assert found.cir is not None
    assert found.cir_time is not None
    turn = found.cir[0, :, np.argmin(np.abs(found.cir_time))] * np.exp(2j * np.pi * lengths / wave)
    assert np.angle(turn) == pytest.approx(np.zeros(4), abs=1e-3)


def test_noise_of_impulse_responses_changes_no_range_and_no_batch() -> None:
    world, way = floor(), ph.ConstantTwist(ph.Pose((3.0, 2.0, 1.2)), (1.0, 0.0, 0.0))
    plain, heard = (ph.Uwb("qorvo/dw1000", SQUARE, 20.0, cir=cir) for cir in (False, True))
    found = heard.run(world, way, start=0.0, duration=1.0, seed=7)
    expected = plain.run(world, way, start=0.0, duration=1.0, seed=7)
    assert expected.cir is None
    np.testing.assert_array_equal(found.range, expected.range)
    later = heard.run(world, way, start=0.5, duration=0.5, seed=7)
    assert found.cir is not None
    assert later.cir is not None
    np.testing.assert_array_equal(found.cir[10:], later.cir)
    quiet = ph.Uwb("qorvo/dw1000", SQUARE, 20.0, noise=False, cir=True).run(world, way, start=0.0, duration=1.0, seed=7)
    assert quiet.cir is not None
    noise = found.cir - quiet.cir
    # 12 800 complex numbers: their mean power has a standard deviation of 0.9 %.
    expected_mw = 10.0 ** (response_noise_dbm(heard.config) / 10.0)
    assert np.mean(np.abs(noise) ** 2) == pytest.approx(expected_mw, rel=0.06)


# ---- ranges ----------------------------------------------------------------------------------------------------------


def test_free_space_ranges_without_noise_are_true() -> None:
    found = ph.Uwb("qorvo/dw1000", anchors=SQUARE, noise=False).run(ph.World(), STANDING, duration=0.3)
    assert found.anchors == tuple(SQUARE)
    assert found.error == pytest.approx(np.zeros((3, 5)), abs=1e-4)
    assert found.position == pytest.approx(np.tile([3.0, 2.0, 1.2], (3, 1)), abs=1e-3)
    assert found.los.all()


def test_a_wall_makes_ranges_longer_never_shorter() -> None:
    world = floor()
    world.add(ph.shapes.box(0.2, 30, 12), material="concrete", label="wall", pose=ph.Pose((5.0, 0.0, 6.0)))
    sensor = ph.Uwb(sheet(tx_power_dbm=20.0), anchors=[[10.0, y, 2.0] for y in (-3.0, 0.0, 3.0)], noise=False, order=0)
    found = sensor.measure(world, ph.Fixed(ph.Pose((0, 0, 1.5))), 0.0, 1)
    assert not found.los.any()
    # A concrete wall of 0.2 m: (sqrt(5.24) - 1) 0.2 = 0.26 m at normal incidence.
    assert found.error[0, 1] == pytest.approx(0.2578, abs=2e-3)
    assert np.all(found.error > 0.2)


def test_behind_metal_the_range_is_that_of_the_mirror() -> None:
    world = floor()
    world.add(ph.shapes.box(0.1, 4, 4), material="steel", label="wall", pose=ph.Pose((5.0, 0.0, 2.0)))
    world.add(ph.shapes.box(20, 0.2, 8), material="concrete", label="wall", pose=ph.Pose((5.0, 7.0, 4.0)))
    sensor = ph.Uwb(sheet(tx_power_dbm=0.0), anchors=[[10.0, 0.0, 2.0]], noise=False)
    found = sensor.measure(world, ph.Fixed(ph.Pose((0, 0, 2.0))), 0.0, 1)
    assert not found.los[0, 0]
    assert found.error[0, 0] == pytest.approx(np.hypot(10.0, 2 * 6.9) - 10.0, abs=0.05)


def test_far_anchors_are_not_received() -> None:
    found = ph.Uwb("qorvo/dw1000", anchors=[[5.0, 0, 0], [280.0, 0, 0]]).measure(
        ph.World(), ph.Fixed(ph.Pose()), 0.0, 1
    )
    assert np.isfinite(found.range[0]).tolist() == [True, False]
    assert np.isnan(found.rssi[0, 1])
    assert found.los[0].all()


def test_differences_of_arrival() -> None:
    sensor = ph.Uwb("qorvo/dw1000", anchors=SQUARE, method="tdoa", noise=False)
    found = sensor.measure(ph.World(), STANDING, 0.0, 1)
    assert found.method == "tdoa"
    assert found.range[0, 0] == 0.0
    assert found.error == pytest.approx(np.zeros((1, 5)), abs=1e-4)
    assert found.position[0] == pytest.approx([3.0, 2.0, 1.2], abs=5e-3)


@pytest.mark.slow
def test_split_runs_give_the_same_bits() -> None:
    world = floor()
    passing = ph.ConstantTwist(ph.Pose((5.0, -3.0, 1.0)), velocity=(0.0, 2.0, 0.0))
    world.add_actor(ph.shapes.box(1, 1, 2), material="steel", label="machine", trajectory=passing)
    motion = ph.ConstantTwist(ph.Pose((1, 1, 1)), velocity=(0.7, 0.4, 0.0))
    sensor = ph.Uwb("qorvo/dw3000", anchors=SQUARE, name="tag")
    whole = sensor.run(world, motion, duration=3.0, seed=5)
    parts = [sensor.run(world, motion, start=s, duration=1.0, seed=5) for s in (0.0, 1.0, 2.0)]
    for name in ("range", "rssi", "position", "los"):
        assert np.array_equal(getattr(whole, name), np.concatenate([getattr(p, name) for p in parts]), equal_nan=True)
    stream = sensor.stream(world, motion, seed=5)
    assert np.array_equal(stream.until(0.05).range, whole.range[:1], equal_nan=True)
    assert len(stream.until(0.08)) == 0


@pytest.mark.parametrize("preset", ph.presets("uwb"))
def test_every_preset_keeps_the_contract_and_has_sources(preset: str) -> None:
    sensor = ph.Uwb(preset, anchors=SQUARE)
    check_sensor(sensor, floor(), ph.ConstantTwist(ph.Pose((1, 1, 1)), velocity=(1.0, 0.2, 0.0)))
    config = sensor.config
    reported = {name for source in config.sources for name in source.covers} | set(config.assumed)
    given = set(config.model_fields_set) - {"name", "sources", "assumed"}
    assert given - reported <= {"method"}
    assert reported <= set(UwbConfig.model_fields)


def test_anchors_of_the_world() -> None:
    world = floor()
    for k, (x, y) in enumerate([(0, 0), (9, 0), (9, 9), (0, 9)]):
        world.add(ph.shapes.box(0.1, 0.1, 0.2), material="steel", name=f"anchor-{k}/housing", pose=ph.Pose((x, y, 3)))
    found = ph.Uwb("qorvo/dw1000", noise=False).measure(world, STANDING, 0.0, 1)
    assert found.anchors == ("anchor-0", "anchor-1", "anchor-2", "anchor-3")
    assert found.anchor_xyz[2] == pytest.approx([9, 9, 3])
    # The steel housing of an anchor does not block its antenna.
    assert found.los.all()


# ---- positions -------------------------------------------------------------------------------------------------------


def test_positions_from_ranges() -> None:
    places = np.array(list(SQUARE.values()), dtype=np.float64)
    truth = np.array([[3.0, 2.0, 1.2], [7.7, 6.1, 0.4]])
    ranges = np.linalg.norm(truth[:, None] - places, axis=2)
    found = locate(places, ranges, 0.05)
    assert found.position == pytest.approx(truth, abs=1e-6)
    ranges[0, 1] = np.nan
    assert locate(places, ranges).position == pytest.approx(truth, abs=1e-6)
    assert np.isnan(locate(places, [[3.0, 4.0, np.nan, np.nan, np.nan]]).position).all()
    flat = locate(places, ranges, height_m=1.2)
    assert flat.position[0] == pytest.approx(truth[0], abs=1e-6)


def test_dilution_of_precision_by_hand() -> None:
    # Three anchors along the axes: orthogonal rows, so each coordinate has the deviation of its range.
    found = locate(np.eye(3) * 10.0, [[10.0, 10.0, 10.0]], 0.3, start=(0.1, 0.0, 0.0))
    assert found.position[0] == pytest.approx([0, 0, 0], abs=1e-6)
    assert found.gdop[0] == pytest.approx(np.sqrt(3.0), rel=1e-6)
    assert found.covariance[0] == pytest.approx(0.09 * np.eye(3), abs=1e-6)


@pytest.mark.parametrize(
    ("anchors", "words"),
    [
        ([[1, 2, 3]] * 4, "all 4 are at one place"),
        ([[0, 0, 0], [1, 1, 1], [2, 2, 2], [5, 5, 5]], "on one line"),
        ([[0, 0, 0], [1, 0, 0]], "2 are too few"),
    ],
)
def test_layouts_without_a_position_are_reported(anchors: list[list[float]], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        locate(anchors, [[1.0] * len(anchors)])
    if "one place" in words:
        with pytest.raises(ConfigError, match=words):
            ph.Uwb("qorvo/dw1000", anchors=anchors)
        return
    # The sensor still measures ranges, but no position.
    sensor = ph.Uwb("qorvo/dw1000", anchors=anchors, name="tag")
    found = sensor.measure(ph.World(), STANDING, 0.0, 1)
    assert np.isfinite(found.range).all()
    assert np.isnan(found.position).all()
    with pytest.warns(UserWarning, match=f"uwb tag: .*{words}.* the record contains ranges without positions"):
        sensor.stream(ph.World(), STANDING, 1)


# ---- errors -------------------------------------------------------------------------------------------------------


def test_bad_arguments_raise() -> None:
    with pytest.raises(ConfigError, match="anchors: the list is empty"):
        ph.Uwb("qorvo/dw1000", anchors=[])
    with pytest.raises(ConfigError, match="anchors: none given, and the world has no objects"):
        ph.Uwb("qorvo/dw1000").measure(floor(), STANDING, 0.0, 1)
    with pytest.raises(ConfigError, match="anchors: b: must be three finite coordinates"):
        ph.Uwb("qorvo/dw1000", anchors={"a": [0, 0, 1], "b": [0, float("nan"), 1]})
    with pytest.raises(ConfigError, match="anchors: give positions by name"):
        ph.Uwb("qorvo/dw1000", anchors="everywhere")
    with pytest.raises(ConfigError, match="order: must be 0, 1 or 2"):
        ph.Uwb("qorvo/dw1000", anchors=SQUARE, order=3)
    with pytest.raises(ConfigError, match="method: must be two-way, tdoa or rssi"):
        ph.Uwb("qorvo/dw1000", anchors=SQUARE, method="guess")


def test_a_sheet_without_bandwidth_is_reported_with_its_file(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text((PRESETS / "uwb/qorvo/dw1000.yaml").read_text().replace("bandwidth_mhz: 499.2", "bandwidth_mhz: 0"))
    with pytest.raises(
        ConfigError, match=r"mine\.yaml: bandwidth_mhz: expected a number above 0 and up to 10000 MHz, got 0"
    ):
        ph.Uwb(own, anchors=SQUARE)
    with pytest.raises(ConfigError, match="unknown uwb 'qorvo/dw100': did you mean 'qorvo/dw1000'"):
        ph.Uwb("qorvo/dw100", anchors=SQUARE)


def test_an_anchor_inside_a_wall_is_reported() -> None:
    world = floor()
    world.add(
        ph.shapes.box(0.3, 20, 6), material="brick", label="wall", name="west-wall", pose=ph.Pose((5.0, 0.0, 3.0))
    )
    sensor = ph.Uwb("qorvo/dw1000", anchors={"good": [0, 0, 2], "bad": [5.02, 1.0, 2.0]})
    with pytest.raises(ConfigError, match=r"anchors: bad at \(5.02, 1, 2\) m is inside 'west-wall'"):
        sensor.measure(world, STANDING, 0.0, 1)


def test_a_carrier_outside_a_material_table_is_reported() -> None:
    sensor = ph.Uwb(sheet(carrier_ghz=0.8), anchors=SQUARE)
    with pytest.raises(ConfigError, match=r"'concrete': no permittivity at 0\.8 GHz"):
        sensor.measure(floor(), STANDING, 0.0, 1)
    assert np.isfinite(sensor.measure(ph.World(), STANDING, 0.0, 1).range).all()
