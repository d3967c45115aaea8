"""Recorded numbers of formulas and tables of radio, satellites and sound."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.gps_time import GpsTime
from parhelion.sensors.waves import radio
from parhelion.sensors.waves.echo import sound
from parhelion.sensors.waves.gnss import earth, reception, satellites, vane
from parhelion.sensors.waves.radar import adc, baseband, detection, rcs
from parhelion.sensors.waves.uwb import channel, solve
from parhelion.sensors.waves.uwb.paths import RadioPaths, in_order
from pins import check, even

EPOCH = GpsTime.of(datetime(2022, 3, 4, 5, 6, 7, tzinfo=timezone.utc))
ANGLES = np.linspace(0.1, 1.5, 9)


def bent() -> satellites.Ephemerides:
    """All satellites with elliptic orbits and every correction."""
    eph = satellites.nominal(list(satellites.SYSTEMS), EPOCH)
    k = np.arange(len(eph.toe))
    small = {name: 1e-6 * (1 + n) * np.cos(k + n) for n, name in enumerate(("cuc", "cus", "cic", "cis"))}
    metres = {"crc": 100.0 * np.sin(k), "crs": 80.0 * np.cos(k)}
    clock = {"af0": 1e-4 * np.sin(k), "af1": 1e-11 * np.cos(k), "af2": 1e-18 * np.sin(k), "toc": eph.toe - 300.0}
    changed = {"e": 0.01 + 0.0002 * k, "omega": 0.1 * k, "i_dot": 1e-10 * np.cos(k), **small, **metres, **clock}
    return satellites.Ephemerides(**{**vars_of(eph), **changed})


def vars_of(eph: satellites.Ephemerides) -> dict[str, np.ndarray]:
    return {name: getattr(eph, name) for name in eph.__dataclass_fields__}


def test_orbits_of_all_constellations() -> None:
    eph = satellites.nominal(list(satellites.SYSTEMS), EPOCH)
    numbers = {name: value for name, value in vars_of(eph).items() if value.dtype.kind in "fi"}
    check("gnss/nominal", rel=1e-9, **numbers)
    row = np.arange(len(eph.toe))[None]
    found = satellites.states(bent(), row, np.array([[EPOCH.second]]) + np.zeros(row.shape))
    check("gnss/states", rel=1e-9, xyz=found.xyz, velocity=found.velocity, clock=found.clock, rate=found.clock_rate)


def test_velocities_and_clock_rates_are_derivatives() -> None:
    eph = bent()
    row, step = np.arange(len(eph.toe))[None], 0.5
    before, at, after = (
        satellites.states(eph, row, EPOCH.second + k * step + np.zeros(row.shape)) for k in (-1.0, 0.0, 1.0)
    )
    np.testing.assert_allclose(at.velocity, (after.xyz - before.xyz) / (2 * step), atol=2e-4)
    np.testing.assert_allclose(at.clock_rate, (after.clock - before.clock) / (2 * step), atol=1e-14)


def test_signals_of_all_satellites() -> None:
    names = satellites.nominal(list(satellites.SYSTEMS), EPOCH).names
    for band in satellites.SIGNALS:
        found = satellites.band_of(band, names, ["glonass"])
        check(f"gnss/signals-{band}", frequency=found.frequency_hz, chip=found.chip_m, boc=found.boc)
    assert sorted(satellites.GEOSTATIONARY) == [1, 2, 3, 4, 5, 59, 60, 61, 62, 63]


def test_air_and_receivers_of_satellites() -> None:
    alpha, beta = np.array([1.1e-8, 1.5e-8, -6e-8, -1.2e-7]), np.array([9.2e4, 1.3e5, -6.5e4, -3.9e5])
    where = {"latitude": 0.8, "longitude": 0.15, "azimuth": ANGLES, "elevation": ANGLES}
    second = np.full(9, 50_000.0)
    cn0 = np.linspace(20.0, 50.0, 9)
    chips = np.linspace(-1.6, 1.6, 17)
    check(
        "gnss/formulas",
        klobuchar=earth.klobuchar(alpha, beta, *where.values(), second), shell=earth.thin_shell(ANGLES),
        other=earth.at_frequency(2.0, np.array([1.2e9, 1.176e9])), zenith=earth.zenith_delays(ANGLES, 500.0 * ANGLES),
        saastamoinen=earth.saastamoinen(0.8, 300.0, ANGLES), niell=earth.niell(0.8, 300.0, ANGLES, 100.0),
        geodetic=earth.geodetic(6.4e6 * np.column_stack([np.cos(ANGLES), 0.3 * ANGLES, np.sin(ANGLES)])),
        wet=vane.wet_delay(np.degrees(ANGLES), ANGLES),
        ephemeris=vane.ephemeris_error(np.degrees(ANGLES), 2e7 * ANGLES),
        bpsk=reception.correlation(chips), boc=reception.correlation(chips, True),
        code=reception.code_sigma(cn0, 293.0, 0.5, 1.0, 0.02), phase=reception.phase_sigma(cn0, 15.0, 0.02),
        rate=reception.rate_sigma(cn0, 15.0, 0.02),
        leaves=reception.foliage_db(5.0 * ANGLES, 1.575e9, np.degrees(ANGLES)),
    )  # fmt: skip


def test_sound_in_air_and_water() -> None:
    hertz = np.geomspace(50.0, 400e3, 15)
    check(
        "echo/formulas",
        air=sound.air_speed_m_s(np.linspace(-20, 40, 5)), air_db=sound.air_absorption_db_per_m(hertz, 15.0, 40.0, 95.0),
        water=sound.water_speed_m_s(np.linspace(0, 30, 5), 30.0, 50.0),
        water_db=sound.water_absorption_db_per_m(hertz, 12.0, 30.0, 50.0, 7.9), wind=sound.wind_noise_db(hertz, 7.0),
        ships=sound.shipping_noise_db(hertz, 0.3), turbulence=sound.turbulence_noise_db(hertz),
        heat=sound.thermal_noise_db(hertz), sea=sound.sea_noise_db(hertz, 7.0, 0.3), a=sound.a_weight_db(hertz),
        microphone=sound.microphone_noise_db(30.0), band=sound.band_level_db(np.linspace(20, 40, 15), hertz),
        index=sound.directivity_index_db(0.3, 0.2, 0.01),
    )  # fmt: skip
    names = ["concrete", "steel", "water", "sand", "fabric", "glass", "snow", "unknown", "grass", "wood", "rubber"]
    for medium in ("air", "water"):
        table, finishes = sound.table(names, medium)
        check(f"echo/materials-{medium}", table=table, finishes=[tuple(vars(one).values()) for one in finishes])


@pytest.mark.parametrize("model", ["ti/iwr6843", "continental/ars408-21-far", "navtech/cts350-x"])
def test_radar_baseband(model: str) -> None:
    config, metres = ph.Radar(model).config, np.linspace(0.5, 60.0, 13)
    check(
        f"radar/baseband-{model}", beat=baseband.beat_frequency_hz(config, metres),
        filter=baseband.filter_power(config, metres), noise=baseband.noise_share(config, metres),
        sensitivity=baseband.sensitivity(config, metres),
        oscillator=baseband.oscillator_noise(config, np.geomspace(1e3, 1e7, 9)),
        correlated=baseband.correlated_share(np.geomspace(1e3, 1e7, 13), metres),
        leakage=adc.leakage_samples(config, 4),
    )  # fmt: skip


def test_thresholds_speeds_and_clusters_of_radar() -> None:
    multiples = [
        detection.threshold_multiple(method, 1e-4, 16, 12, looks, window, 2)
        for method in ("ca", "os") for looks in (1, 3) for window in ("none", "hann")
    ]  # fmt: skip
    rng = np.random.default_rng(3)
    xyz, power, speed = rng.normal(0.0, 4.0, (60, 3)), rng.exponential(1.0, 60), rng.normal(0.0, 2.0, 60)
    clusters = detection.clusters_of(xyz, power, speed, 1.5, 0.05)
    check(
        "radar/detection", rel=1e-5, multiples=multiples, correlation=detection.training_correlation(8, 2, "hann"),
        unfolded=detection.unfold_speeds(speed, speed * 0.7, (6.0, 7.3), (-20.0, 25.0)),
        error=detection.speed_error_m_s(np.geomspace(1.0, 1e4, 5), 0.3), centres=clusters.xyz,
        speeds=clusters.speed_m_s,
        powers=clusters.power, owners=clusters.owner,
        ground=detection.ground_returns(xyz, speed, power > 0.5, 0.4),
    )  # fmt: skip


def test_cross_sections() -> None:
    box = ph.World()
    box.add(ph.shapes.box(0.2, 0.3, 0.25), material="steel")
    box.add(ph.shapes.box(0.3, 0.1, 0.2), material="plastic", pose=ph.Pose((0.25, 0.1, 0.0)))
    found = rcs.rcs(
        box, frequency_ghz=10.0, azimuth_deg=np.linspace(0, 90, 5), elevation_deg=10.0, tubes_per_wavelength=5.0
    )
    numbers = {name: value for name, value in vars(found).items() if isinstance(value, np.ndarray)}
    check("radar/rcs", rel=1e-4, plate=rcs.plate_m2(0.2, 0.3, ANGLES, 0.03), corner=rcs.corner_m2(0.2, 0.03), **numbers)


def test_pulses_and_positions_of_ultra_wideband() -> None:
    time_s, rng = np.linspace(-5e-9, 20e-9, 60), np.random.default_rng(5)
    delay, gain = np.array([3e-9, 4.5e-9, 9e-9]), np.array([1e-4, 3e-4j, -2e-4])
    first = channel.first_path(delay, gain, 5e8, 0.4, 1e-10, 20.0)
    assert first is not None
    sheet = ph.Uwb("qorvo/dw1000").config
    level = np.linspace(-100.0, -50.0, 9)
    anchors = np.column_stack([rng.uniform(-9, 9, (6, 2)), rng.uniform(1, 5, 6)])
    ranges = np.linalg.norm(anchors - [1.0, 2.0, 1.5], axis=1) + rng.normal(0.0, 0.1, 6)
    fixes = [
        solve.locate(anchors, ranges, 0.1), solve.locate(anchors, ranges, 0.1, height_m=1.5),
        solve.locate(anchors, ranges - ranges[0], 0.1, differences=True),
    ]  # fmt: skip
    two = sheet.model_copy(update={"level_bias_m": [(-60.0, -0.1), (-80.0, 0.1)], "calibration_level_dbm": -80.0})
    # 0.01 m per dB, also above the strongest level of the table.
    bias = channel.level_bias_m(np.array([-50.0, -70.0]), two) / two.level_bias_gain
    assert bias == pytest.approx([-0.3, -0.1])
    check(
        "uwb/formulas", rel=1e-5, pulse=channel.pulse(time_s, 5e8, 0.4),
        bandwidth=channel.effective_bandwidth(5e8, 0.4),
        noise=channel.noise_dbm(5e8, 6.0), response=channel.impulse_response(delay, gain, time_s, 5e8, 0.4),
        gain=channel.received_gain(delay, gain, 5e8), first=[1e9 * first.delay_s, 1e9 * first.power],
        sigma=channel.arrival_sigma(np.geomspace(1, 1e4, 5), 2e8),
        distance=channel.distance_by_rssi(level, 0.0, 2.4e9, 2.2),
        saturated=channel.saturated(level, -75.0, 0.5), bias=channel.level_bias_m(level, sheet),
        share=channel.received_share(level, sheet), sent=channel.sent_dbm(sheet),
        positions=[one.position for one in fixes], dop=[one.gdop for one in fixes],
        covariances=[np.asarray(one.covariance)[..., :2, :2] for one in fixes],
        shadow=channel.shadowing(rng.normal(0.0, 9.0, (8, 3)), 4, "a", 5.0),
    )  # fmt: skip


def paths_of(seed: int, samples: int = 3, anchors: int = 4) -> RadioPaths:
    """Random paths of all links: direct ones, some through walls, reflections and diffraction."""
    rng = np.random.default_rng(seed)
    rows = samples * anchors * 5
    sample, anchor = np.repeat(np.arange(samples), anchors * 5), np.tile(np.repeat(np.arange(anchors), 5), samples)
    order = np.tile([0, 1, 1, 2, 0], samples * anchors)
    surfaces = np.where(order == 0, rng.integers(0, 2, rows), 0)
    edges = np.tile([0, 0, 0, 0, 1], samples * anchors)
    length = rng.uniform(3.0, 9.0, rows) + 1.5 * order
    gain = 0.0037 / length * np.exp(2j * np.pi * rng.random(rows)) * rng.uniform(0.2, 1.0, rows)
    nowhere = np.full((rows, 3), np.nan)
    found = RadioPaths(
        sample, anchor, order, surfaces, length, length / 299_792_458.0 + 1e-10 * surfaces, gain, nowhere, nowhere,
        np.full((rows, 2, 3), np.nan), edges,
    )  # fmt: skip
    # The first link has no path, the second one path alone.
    return in_order(found.rows(np.r_[5, 10:rows]))


@pytest.mark.parametrize("model", ["qorvo/dw1000", "qorvo/dw3000", "bluetooth/rssi", "bluetooth/channel-sounding"])
def test_links_of_paths(model: str) -> None:
    sheet, paths = ph.Uwb(model).config, paths_of(3)
    rng = np.random.default_rng(4)
    near = channel.links_of(paths, 3, 4, sheet)
    far = channel.links_of(
        paths, 3, 4, sheet.model_copy(update={"max_range_m": 6.0}), rng.random((3, 4)), rng.normal(0, 4, (3, 4)), 7
    )
    assert near.los.sum() > 2
    assert np.isnan(near.rssi_dbm[0, 0])
    time, response = channel.impulse_responses(paths, near, sheet)
    check(
        f"uwb/links-{model}", rel=1e-7, near=even(list(vars(near).values())),
        far=even(list(vars(far).values())), sigma=even(channel.arrival_sigma_m(near, sheet)),
        time=even(time), real=even(response.real), imaginary=even(response.imag),
    )  # fmt: skip


def test_first_paths_of_many_responses() -> None:
    """The first maximum of the response above the threshold, found here by fine sampling around every path."""
    rng, found, seen = np.random.default_rng(6), [], 0
    for _ in range(60):
        count = rng.integers(1, 7)
        delay = np.sort(rng.uniform(10e-9, 60e-9, count))
        gain = 10.0 ** rng.uniform(-5.5, -3.0, count) * np.exp(2j * np.pi * rng.random(count))
        one = channel.first_path(delay, gain, 5e8, 0.4, 1e-9, 15.0)
        found.append([np.nan, np.nan] if one is None else [one.delay_s, one.power])
        strongest = np.abs(gain).max() ** 2
        if one is not None:
            seen += 1
            threshold = max(1e-9, strongest * 10.0**-1.5)
            assert one.power >= 0.9 * threshold
            assert one.power == pytest.approx(
                np.abs(channel.impulse_response(delay, gain, np.array([one.delay_s]), 5e8, 0.4)[0]) ** 2, rel=0.02
            )
            assert np.abs(delay - one.delay_s).min() < 1.0 / 5e8
        else:
            assert strongest < 1.5e-9
    assert 40 < seen < 60
    check("uwb/first-paths", rel=1e-7, found=even(found))
    alone = channel.first_path(np.array([2e-8]), np.array([1e-4 + 0j]), 5e8, 0.4, 1e-8, 15.0)
    assert alone == channel.FirstPath(2e-8, pytest.approx(1e-8))
    assert channel.first_path(np.array([2e-8]), np.array([1e-4 + 0j]), 5e8, 0.4, 1.001e-8, 15.0) is None


def test_diffuse_arrivals_of_rooms() -> None:
    """Room electromagnetics: the mean gain lambda^2 c tau / (8 pi V), less the reflections that were found."""
    paths, wave = paths_of(5), radio.Wave(6.5e9)
    rng = np.random.default_rng(7)
    tags, anchors = rng.uniform(-4, 4, (3, 3)), rng.uniform(-4, 4, (4, 3))
    rooms = [
        channel.Rooms(
            rng.uniform(40, 90, n), np.where(np.arange(n) == 1, 0.0, rng.uniform(1e-8, 3e-8, n)), rng.uniform(2, 4, n)
        )
        for n in (4, 3)
    ]
    made = channel.with_diffuse(paths, *rooms, anchors, tags, wave)
    assert len(made) == len(paths) + 2 * 3 * channel.DIFFUSE_TAPS
    check(
        "uwb/diffuse", rel=1e-7, delay=even(made.delay), length=made.length, real=even(made.gain.real),
        imaginary=even(made.gain.imag), order=made.order, anchor=made.anchor, sample=made.sample,
    )  # fmt: skip
    nothing = channel.Rooms(rooms[0].volume_m3, 0.0 * rooms[0].decay_s, rooms[0].free_path_m)
    assert channel.with_diffuse(paths, nothing, rooms[1], anchors, tags, wave) is paths
    # Means over many places: the power of the tail is that of the formula.
    many = rng.uniform(-50, 50, (400, 3))
    none = paths.rows(np.zeros(0, np.int64))
    wide = [channel.Rooms(np.full(n, 60.0), np.full(n, 2e-8), np.full(n, 3.0)) for n in (1, 400)]
    tail = channel.with_diffuse(none, *wide, np.zeros((1, 3)), many, wave)
    mean = np.sum(np.abs(tail.gain) ** 2) / 400
    expected = wave.length_m**2 * 299_792_458.0 * 2e-8 / (8.0 * np.pi * 60.0) * channel.OPENING
    assert mean == pytest.approx(expected, rel=0.1)
    onset = (np.linalg.norm(many, axis=1) + 1.5) / 299_792_458.0
    first = np.array([tail.delay[tail.sample == k].min() for k in range(400)])
    assert np.all(first >= onset)
    assert np.all(first < onset + 2e-8 * channel.LONGEST / channel.DIFFUSE_TAPS)
