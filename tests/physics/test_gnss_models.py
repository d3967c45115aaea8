"""Satellite navigation, formula by formula: published values and closed forms."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pytest
from scipy.special import fresnel

import parhelion as ph
from gnss_rigs import BROADCAST, canyon, plain
from parhelion.core.gps_time import GpsTime, leap_seconds
from parhelion.core.gps_time import moment as moment_of
from parhelion.sensors.waves.diffraction import diffracted_amplitude
from parhelion.sensors.waves.gnss import earth, vane
from parhelion.sensors.waves.gnss.earth import Local, Place, geodetic
from parhelion.sensors.waves.gnss.paths import find_paths
from parhelion.sensors.waves.gnss.reception import amplitudes, code_sigma, correlation, gain, phase_sigma, track
from parhelion.sensors.waves.gnss.rinex_nav import read_navigation
from parhelion.sensors.waves.gnss.satellites import SYSTEMS, eccentric_anomaly, nominal, states
from parhelion.sensors.waves.radio import FoliageEllipsoids, satellite_scene

R = np.radians


# ---- time and place --------------------------------------------------------------------------------------------------


def test_gps_time_of_known_moments() -> None:
    # RTKLIB's week and second of 2021-04-28 20:30:00 UTC; 18 leap seconds.
    assert GpsTime.of(moment_of("2021-04-28T20:30:00Z")) == GpsTime(2155, 333_018.0)
    assert leap_seconds(datetime(1980, 1, 7, tzinfo=timezone.utc)) == 0
    assert leap_seconds(datetime(2016, 12, 31, 23, tzinfo=timezone.utc)) == 17
    assert GpsTime(2155, 333_018.0).utc() == datetime(2021, 4, 28, 20, 30, tzinfo=timezone.utc)
    assert GpsTime(2155, 333_018.0).calendar(0.25)[:5] == (2021, 4, 28, 20, 30)
    assert GpsTime(2155, 333_018.0).calendar(0.25)[5] == pytest.approx(18.25)


def test_the_world_lies_on_the_ellipsoid() -> None:
    place = Place(48.0, 11.0, 500.0)
    lat, lon, height = geodetic(place.to_ecef([[0.0, 0.0, 30.0], [1000.0, 0.0, 0.0]]))
    assert (lat[0], lon[0], height[0]) == pytest.approx((48.0, 11.0, 530.0), abs=1e-8)
    assert lon[1] > 11.0
    # The tangent plane leaves the ellipsoid by x^2 / 2 R.
    assert height[1] == pytest.approx(500.0 + 1000.0**2 / (2 * 6.388e6), abs=1e-3)
    assert place.to_world(place.to_ecef([3.0, -4.0, 5.0])) == pytest.approx([3.0, -4.0, 5.0], abs=1e-8)
    north = Place(48.0, 11.0, 500.0, x_azimuth_deg=0.0)
    assert geodetic(north.to_ecef([1000.0, 0.0, 0.0]))[0] > 48.0
    azimuth, elevation = Local.at(place.zero[None]).angles(place.rotate_to_ecef([[[1.0, 0.0, 1.0]]]) / np.sqrt(2))
    assert np.degrees([azimuth[0, 0], elevation[0, 0]]) == pytest.approx([90.0, 45.0])


# ---- orbits ----------------------------------------------------------------------------------------------------------


def test_kepler_s_equation() -> None:
    mean, e = np.linspace(-3.0, 3.0, 25), np.full(25, 0.2)
    found = eccentric_anomaly(mean, e)
    assert found - e * np.sin(found) == pytest.approx(mean, abs=1e-14)


def test_nominal_constellations_are_where_their_documents_say() -> None:
    epoch = GpsTime.of(moment_of("2024-06-21T12:00:00Z"))
    eph = nominal(list(SYSTEMS), epoch)
    names = eph.names
    assert [sum(name[0] == letter for name in names) for letter in "GERC"] == [24, 24, 24, 30]
    row = eph.pick(np.array([epoch.second]), names)
    found = states(eph, row, np.full(row.shape, epoch.second))
    lat, lon, height = (dict(zip(names, value[0], strict=True)) for value in geodetic(found.xyz))
    # Altitudes by the systems' documents; geostationary ones over the equator and their longitudes.
    assert height["E07"] == pytest.approx(23_222e3, abs=25e3)
    assert [lon[name] for name in ("C59", "C60", "C61")] == pytest.approx([80.0, 110.5, 140.0], abs=1e-6)
    assert [lat[name] for name in ("C59", "C60", "C61")] == pytest.approx([0.0] * 3, abs=1e-6)
    assert max(abs(lat[name]) for name in names) < 65.0
    assert all(abs(lon[name] - 118.0) < 30.0 for name in ("C38", "C39", "C40"))
    # Slots A1 and A2 of GPS: 106.34 degrees apart in one plane.
    a, b = (found.xyz[0, names.index(name)] for name in ("G01", "G02"))
    assert np.degrees(np.arccos(a @ b / np.linalg.norm(a) / np.linalg.norm(b))) == pytest.approx(106.34, abs=1e-3)


@pytest.mark.parametrize("hours", [0.0, 5.0])
def test_velocities_and_clock_rates_are_the_derivatives(hours: float) -> None:
    epoch = GpsTime.of(moment_of("2024-06-21T12:00:00Z"))
    eph = nominal(list(SYSTEMS), GpsTime(epoch.week, epoch.second + 3600 * hours))
    if BROADCAST.exists():
        eph = read_navigation(BROADCAST).ephemerides
    at = float(np.median(eph.toe)) + 600.0
    row = eph.pick(np.array([at]), eph.names)
    before, now, after = (states(eph, row, np.full(row.shape, at + d)) for d in (-0.5, 0.0, 0.5))
    assert np.nanmax(np.abs(after.xyz - before.xyz - now.velocity)) < 1e-4
    assert np.nanmax(np.abs(after.clock - before.clock - now.clock_rate)) < 1e-18


@pytest.mark.skipif(not BROADCAST.exists(), reason="the broadcast file lies outside of the repository")
def test_ephemerides_of_neighbouring_hours_agree() -> None:
    # Two messages of one satellite, two hours apart, describe the same orbit within the accuracy of broadcasts.
    nav = read_navigation(BROADCAST)
    eph = nav.ephemerides
    assert (len(eph), len(eph.names), nav.start.week) == (105, 32, 2155)
    assert nav.klobuchar is not None
    assert nav.klobuchar[1].tolist() == [88060.0, 49150.0, -131100.0, -327700.0]
    rows = np.flatnonzero(eph.satellite == "G03")[:2]
    middle = np.full(2, float(eph.toe[rows].mean()))
    found = states(eph, rows, middle)
    assert np.linalg.norm(found.xyz[1] - found.xyz[0]) < 3.0


# ---- air -------------------------------------------------------------------------------------------------------------

ALPHA, BETA = np.array([2e-8, -8e-9, -5e-8, 1e-7]), np.array([2e5, 2e5, -1e5, -1e6])


@pytest.mark.parametrize(
    ("azimuth", "elevation", "ionosphere", "troposphere", "dry", "wet"),
    [
        (60.0, 75.0, 6.73590532, 2.447998701, 1.035184526, 1.035233787),
        (190.0, 3.0, 21.63454151, 45.18089165, 14.643271712, 16.455045695),
    ],
)
def test_air_against_rtklib_s_unit_test(
    azimuth: float, elevation: float, ionosphere: float, troposphere: float, dry: float, wet: float
) -> None:
    lat, lon, height = R(35.0), R(140.0), 100.0
    second = GpsTime.from_calendar(datetime(2007, 1, 16, 1)).second
    found = earth.klobuchar(ALPHA, BETA, lat, lon, R(azimuth), R(elevation), second)
    assert found == pytest.approx(ionosphere, abs=5e-9)
    assert earth.saastamoinen(lat, height, R(elevation), 0.5) == pytest.approx(troposphere, rel=5e-10)
    # Its test of the mapping is at 06:00.
    assert earth.niell(lat, height, R(elevation), 16.25) == pytest.approx((dry, wet), abs=2e-8)


def test_simple_mappings_are_one_at_the_zenith() -> None:
    assert earth.thin_shell(np.pi / 2) == pytest.approx(1.0, abs=2e-4)
    assert earth.continued_fraction(1.0, 0.1, 0.2, 0.3) == pytest.approx(1.0)
    assert vane.wet_delay(np.array(45.0), np.array(np.pi / 2)) == pytest.approx(0.1)
    assert earth.at_frequency(1.0, 1_176.45e6) == pytest.approx((1575.42 / 1176.45) ** 2)


# ---- loops -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spacing", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_multipath_envelope_of_an_early_late_loop(spacing: float, sign: float) -> None:
    # Closed form for one copy in or against the phase (van Nee 1993): a rise, a level of a d / 2, a fall to 1 + d / 2.
    a = 0.5 * sign
    delay = np.array([0.01, 0.02, 0.6, 1.0 + spacing / 2 + 0.05])
    found, _ = track(np.stack([0 * delay, delay], axis=1), np.tile([1.0, a], (4, 1)), spacing)
    assert found[:2] == pytest.approx(a * delay[:2] / (1 + a), abs=2e-6)
    if spacing < 0.6:
        assert found[2] == pytest.approx(a * spacing / 2, abs=2e-6)
    assert found[3] == pytest.approx(0.0, abs=2e-6)


def test_a_lone_copy_is_followed_wherever_it_is() -> None:
    rest, prompt = track([[2.7, 0.0]], [[0.3j, 0.0]], 0.1)
    assert (rest[0], prompt[0]) == (2.7, 0.3j)
    # A weaker copy 0.02 chips after it pulls by a d / (1 + a).
    both, _ = track([[2.7, 2.72]], [[0.3, 0.1]], 0.1)
    assert both[0] == pytest.approx(2.7 + 0.02 / 3 / (1 + 1 / 3), abs=2e-6)


def test_shapes_of_the_codes() -> None:
    assert correlation([0.0, 0.5, 1.0, 1.5]).tolist() == [1.0, 0.5, 0.0, 0.0]
    assert correlation([0.0, 1 / 3, 0.5, 0.75, 1.0], True) == pytest.approx([1.0, 0.0, -0.5, -0.25, 0.0], abs=1e-12)


def test_noise_of_the_loops() -> None:
    # By hand at 45 dB-Hz: a code loop of 1 chip, 1 Hz and 20 ms has 1.2 m, a phase loop of 10 Hz 0.5 mm.
    assert code_sigma(45.0, 293.05, 1.0, 1.0, 0.02) == pytest.approx(1.17, abs=0.02)
    assert phase_sigma(45.0, 10.0, 0.02) * 0.19 == pytest.approx(0.00054, abs=2e-5)


# ---- ways ------------------------------------------------------------------------------------------------------------


def seen(world: ph.World, xyz: tuple[float, float, float], azimuth: list[float], elevation: list[float], order: int,
         diffraction: bool = False):  # type: ignore[no-untyped-def]  # fmt: skip
    az, el = R(azimuth), R(elevation)
    u = np.stack([np.cos(el) * np.sin(az), np.cos(el) * np.cos(az), np.sin(el)], axis=1)[None]
    radio, wanted = satellite_scene(world, ("gnss",)), np.ones((1, len(az)), bool)
    return find_paths(radio, np.array([xyz]), np.zeros(1), u, wanted, order, diffraction)


def test_extra_path_over_the_ground() -> None:
    elevation = [10.0, 30.0, 60.0, 89.0]
    for height in (1.5, 20.0):
        found = seen(plain(), (3.0, 4.0, height), [0.0, 100.0, 200.0, 300.0], elevation, 2).paths
        once = found.rows(found.order == 1)
        assert len(found) == 8
        assert once.extra == pytest.approx(2 * height * np.sin(R(elevation))[once.satellite], abs=1e-6)


def test_a_wall_blocks_on_one_side_and_mirrors_on_the_other() -> None:
    world = ph.World()
    world.add(ph.shapes.box(100, 1, 50), material="concrete", label="building", pose=ph.Pose((0, 10.5, 25)))
    found = seen(world, (0.0, 0.0, 2.0), [0.0, 180.0], [20.0, 20.0], 1)
    assert found.clear.tolist() == [[False, True]]
    once = found.paths.rows(found.paths.order == 1)
    # The mirror is 10 m north: extra path 2 d cos(elevation).
    assert once.extra == pytest.approx([2 * 10.0 * np.cos(R(20.0))], abs=1e-6)
    assert once.satellite.tolist() == [1]


def test_signals_bend_around_the_edge_of_a_screen() -> None:
    edge, antenna = np.array([0.0, 10.0, 6.0]), np.array([0.0, 0.0, 2.0])
    corners = np.array([[-200, 10, -100], [200, 10, -100], [200, 10, 6], [-200, 10, 6]], float)
    world = ph.World()
    world.add((corners, np.array([[0, 1, 2], [0, 2, 3]])), material="steel", label="wall", name="screen")
    elevation = np.array([5.0, 15.0, 21.0, 40.0])
    assert len(seen(world, tuple(antenna), [0.0] * 4, list(elevation), 0).paths) == 1
    found = seen(world, tuple(antenna), [0.0] * 4, list(elevation), 0, diffraction=True).paths
    bent = found.rows(found.edges == 1)
    # Three satellites are behind the screen, whose edge is 21.8 degrees up; the fourth is over it.
    assert bent.satellite.tolist() == [0, 1, 2]
    assert found.rows(found.edges == 0).satellite.tolist() == [3]
    assert bent.corner[:, 0] == pytest.approx(np.tile(edge, (3, 1)), abs=5e-3)
    step = edge - antenna
    distance, up = np.hypot(10.0, 4.0), np.arctan2(4.0, 10.0)
    away = np.stack([np.zeros(3), np.cos(R(elevation[:3])), np.sin(R(elevation[:3]))], axis=1)
    assert bent.extra == pytest.approx(distance - away @ step, abs=2e-3)
    # A plane wave behind a knife edge: nu = angle sqrt(2 d / lambda), and the Fresnel integral.
    wave = 0.190294
    s, c = fresnel((up - R(elevation[:3])) * np.sqrt(2.0 * distance / wave))
    level = 20.0 * np.log10(np.hypot(1 - c - s, c - s) / 2.0)
    assert 20 * np.log10(np.abs(diffracted_amplitude(bent.extra, wave))) == pytest.approx(level, abs=0.2)
    # The receiver tracks the signal at that level, less the gain of its antenna towards the edge.
    antenna_sheet = ph.Gnss("u-blox/f9p").config
    received = amplitudes(bent, np.array([[0.0, 0.0, 0.0, 1.0]]), antenna_sheet, "L1", np.full(3, wave), None)
    right, _ = gain(antenna_sheet.antenna, bent.arrival)
    assert 20 * np.log10(np.abs(received) / right) == pytest.approx(level, abs=0.2)


def test_two_mirrors_in_a_street() -> None:
    found = seen(canyon(20.0), (0.0, 3.0, 2.0), [180.0], [60.0], 2).paths
    twice = found.rows(found.order == 2)
    # By ground and wall: the extra paths add up, whichever comes first.
    ground, wall = 2 * 2.0 * np.sin(R(60.0)), 2 * 7.0 * np.cos(R(60.0))
    assert np.any(np.abs(twice.extra - ground - wall) < 1e-5)
    assert np.all(np.isfinite(twice.corner))


@pytest.mark.slow
def test_metal_mirrors_reverse_the_hand_of_polarisation() -> None:
    # One mirror makes a left-handed wave, two make a right-handed one again, each without loss.
    world = ph.World()
    world.add(ph.shapes.plane(4000, 4000), material="steel", label="ground")
    world.add(ph.shapes.box(4000, 0.2, 2000), material="steel", label="wall", pose=ph.Pose((0, 10.1, 0)))
    found = seen(world, (0.0, 0.0, 2.0), [180.0], [40.0], 2).paths
    sheet = ph.Gnss("u-blox/f9p").config
    level = np.abs(
        amplitudes(found, np.array([[0.0, 0.0, 0.0, 1.0]]), sheet, "L1", np.full(len(found), 0.190294), None)
    )
    right, left = gain(sheet.antenna, found.arrival)
    assert sorted(found.order.tolist()) == [0, 1, 1, 2]
    assert level == pytest.approx(np.where(found.order == 1, left, right), rel=2e-3)
    assert np.all(np.abs(right / left - 1.0) > 0.05)


def test_small_and_thin_objects_neither_block_nor_mirror() -> None:
    world = plain()
    world.add(ph.shapes.box(0.2, 0.2, 30), material="steel", label="pole", pose=ph.Pose((0, 3, 15)))
    found = seen(world, (0.0, 0.0, 2.0), [0.0], [20.0], 1)
    assert found.clear.all()
    assert found.paths.order.tolist() == [0, 1]


def test_length_inside_crowns() -> None:
    crowns = FoliageEllipsoids(np.array([[0.0, 10.0, 5.0]]), np.array([[2.0, 3.0, 4.0]]))
    origin, north = np.array([[0.0, 0.0, 5.0]]), np.array([[0.0, 1.0, 0.0]])
    assert crowns.inside(origin, north, np.array([np.inf])) == pytest.approx([6.0])
    assert crowns.inside(origin, north, np.array([10.0])) == pytest.approx([3.0])
    assert crowns.inside(origin, -north, np.array([np.inf])) == pytest.approx([0.0])


def test_zenith_delays_follow_the_weather() -> None:
    dry, wet = earth.zenith_delays(R(48.0), 500.0)
    same = earth.AirAtHeight.of(ph.Weather(), 500.0)
    assert np.array(earth.zenith_delays(R(48.0), 500.0, same)) == pytest.approx(np.array([dry, wet]), rel=1e-12)
    low = earth.AirAtHeight(pressure_hpa=same.pressure_hpa - 20.0, temperature_c=30.0, humidity=0.9, height_m=500.0)
    dry_low, wet_low = earth.zenith_delays(R(48.0), 500.0, low)
    # 2.28 mm of delay per hectopascal; warm, humid air holds more vapour: 38 instead of 9.7 hPa.
    assert dry - dry_low == pytest.approx(20.0 * 0.0022768, rel=2e-3)
    assert wet_low / wet == pytest.approx(38.1 / 9.7, rel=0.1)


def test_the_weather_of_a_world_reaches_pseudoranges_and_barometers() -> None:
    world, still = ph.World(), ph.Pose((0.0, 0.0, 2.0))
    calm = ph.Gnss("u-blox/m8", noise=False, order=0).run(world, still, duration=0.2)
    standard = ph.Barometer("bosch/bmp388", noise=False).run(world, ph.Pose(), duration=0.1)
    world.weather = ph.Weather(pressure_hpa=970.0)
    found = ph.Gnss("u-blox/m8", noise=False, order=0).run(world, still, duration=0.2)
    # 2.2768 mm per hPa at the zenith (Saastamoinen), and 1 / sin(elevation) as much above 45 degrees, to 0.1 %.
    up = found.tracked & (found.elevation > R(45.0))
    shorter = ((calm.pseudorange - found.pseudorange) * np.sin(found.elevation))[up]
    assert len(shorter) >= 2
    assert shorter == pytest.approx(np.full(len(shorter), 43.25 * 0.0022768), abs=0.003)
    assert np.nanmax(calm.pseudorange - found.pseudorange) > 0.09
    low = ph.Barometer("bosch/bmp388", noise=False).run(world, ph.Pose(), duration=0.1)
    assert standard.pressure[0] == pytest.approx(101_325.0)
    assert low.pressure[0] == pytest.approx(97_000.0)
    assert ph.Barometer("bosch/bmp388", noise=False, altitude_m=500.0).run(world, ph.Pose(), duration=0.1).pressure[
        0
    ] == pytest.approx(97_000.0)
