"""The receiver's edges: bad files, bad places, too few satellites, walls, and the promise of equal bits."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from gnss_rigs import BROADCAST, plain, sheet
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.gps_time import GpsTime
from parhelion.core.streams import ABSENT, NO_FIX
from parhelion.sensors.check import same_bits
from parhelion.sensors.waves.gnss import rinex_nav
from parhelion.sensors.waves.gnss.config import GnssConfig
from parhelion.sensors.waves.gnss.rinex_nav import _header, read_navigation
from parhelion.sensors.waves.gnss.satellites import SIGNALS, Ephemerides, nominal, states

STILL = ph.Fixed(ph.Pose((0, 0, 2)))


@pytest.fixture
def navigation(tmp_path: Path) -> Path:
    file = tmp_path / "sky.rnx"
    ph.Gnss("u-blox/f9p", epoch="2024-06-21T12:00:00Z").save_navigation(ph.World(), file)
    return file


# ---- navigation files ------------------------------------------------------------------------------------------------


def test_a_sky_comes_back_from_its_file(navigation: Path) -> None:
    nav = read_navigation(navigation)
    start = GpsTime(nav.start.week, 0.0)
    eph = nominal(["gps", "galileo", "beidou"], GpsTime(start.week, 475_218.0))
    at = np.full((1, len(eph.names)), 476_000.0)
    row = [one.pick(at[:, 0], eph.names) for one in (eph, nav.ephemerides)]
    assert np.all(row[1] >= 0)
    assert states(nav.ephemerides, row[1], at).xyz == pytest.approx(states(eph, row[0], at).xyz, abs=1e-3)
    found = ph.Gnss("u-blox/f9p", ephemeris=navigation, epoch="2024-06-21T12:00:00Z", noise=False, order=0)
    assert np.abs(found.run(ph.World(), STILL, duration=0.2).error).max() < 1e-3


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: "", "is no RINEX file"),
        (lambda text: text[:300], "the header has no end"),
        (lambda text: text[: text.index("G03 ")] + text[text.index("G03 ") :][:250], "is cut off"),
        (lambda text: text.replace("N: GNSS NAV", "OBSERVATION"), "holds no navigation messages"),
        (lambda text: text.replace("     3.04", "     4.00"), "versions 2 and 3"),
        (lambda text: text.replace("G01 2024", "X01 2024"), "is no satellite"),
        (lambda text: text.replace("G01 2024 06", "G01 2024 66"), "no such time"),
        (lambda text: text.split("END OF HEADER")[0] + "END OF HEADER\n", "has no ephemeris"),
    ],
)
def test_damaged_files_are_rejected(navigation: Path, spoil, message: str) -> None:  # type: ignore[no-untyped-def]
    spoilt = spoil(navigation.read_text())
    navigation.write_text(spoilt)
    with pytest.raises(FormatError, match=message) as error:
        read_navigation(navigation)
    assert str(navigation) in str(error.value)


def test_impossible_orbits_are_rejected(navigation: Path) -> None:
    lines = navigation.read_text().splitlines(keepends=True)
    first = next(k for k, line in enumerate(lines) if line.startswith("G01"))
    lines[first + 2] = lines[first + 2][:23] + f"{0.9:19.12E}" + lines[first + 2][42:]
    navigation.write_text("".join(lines))
    with pytest.raises(FormatError, match=r"e must be from 0 to 0\.3, got 0\.9"):
        read_navigation(navigation)


def test_a_file_of_another_day_is_rejected(navigation: Path) -> None:
    with pytest.raises(ConfigError, match=r"sky\.rnx: its ephemerides are for 2024-06-21 .* 2024-06-23 12:00 UTC"):
        ph.Gnss("u-blox/f9p", ephemeris=navigation, epoch="2024-06-23T12:00:00Z")
    world = ph.World()
    world.daylight = ph.Daylight(time="2024-07-01T12:00:00+00:00", latitude_deg=50, longitude_deg=10)
    with pytest.raises(ConfigError, match="its ephemerides are for"):
        ph.Gnss("u-blox/f9p", ephemeris=navigation).run(world, STILL)


@pytest.mark.skipif(not BROADCAST.exists(), reason="the broadcast file lies outside of the repository")
def test_a_real_file_gives_a_sky() -> None:
    found = ph.Gnss("u-blox/f9p", ephemeris=BROADCAST, noise=False, order=0).run(plain(), STILL, duration=0.2)
    assert np.abs(found.error).max() < 1e-3
    assert 6 <= found.satellites_used[0] <= 14


# ---- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"latitude_deg": 95.0, "longitude_deg": 0.0}, "latitude_deg: must be from -90 to 90"),
        ({"latitude_deg": 45.0}, "give it together with longitude_deg"),
        ({"epoch": "yesterday"}, "epoch: must be a time"),
        ({"epoch": "1970-01-01T00:00:00Z"}, "when GPS time begins"),
        ({"constellations": ["navic"]}, "constellations: must be of gps, galileo"),
        ({"order": 3}, "order: must be 0, 1 or 2"),
        ({"rate_hz": 1000.0}, "rate_hz: must be above 0 and at most"),
        ({"rule": "magic"}, "rule: must be physics or vane"),
    ],
)
def test_bad_options_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ph.Gnss("u-blox/f9p", **options)  # type: ignore[arg-type]


def test_place_and_time_come_from_the_daylight() -> None:
    world = ph.World()
    world.daylight = ph.Daylight(
        time="2024-03-01T06:00:00+00:00", latitude_deg=-33.9, longitude_deg=18.4, x_azimuth_deg=0
    )
    found = ph.Gnss("u-blox/f9p", noise=False, order=0).run(world, STILL, duration=0.2)
    assert (found.latitude[0], found.longitude[0]) == pytest.approx((-33.9, 18.4), abs=1e-6)
    assert found.metadata["x_azimuth_deg"] == 0.0
    assert ph.Gnss("u-blox/f9p").epoch_in(world).utc().isoformat() == "2024-03-01T06:00:00+00:00"


def test_every_preset_has_its_sources() -> None:
    for name in ph.presets("gnss"):
        found = sheet(name)
        covered = {path.split(".")[0] for source in found.sources for path in source.covers} | {
            path.split(".")[0] for path in found.assumed
        }
        assert {"rate_hz", "max_rate_hz", "constellations", "bands", "cn0_zenith_dbhz", "antenna", "loops"} <= covered
    with pytest.raises(ValueError, match="needs two bands"):
        sheet("u-blox/m8", fix={"ionosphere": "two-frequencies"})
    with pytest.raises(ValueError, match="must be L1"):
        GnssConfig.model_validate({**sheet("u-blox/m8").model_dump(), "bands": ["L5"]})


# ---- no fix ----------------------------------------------------------------------------------------------------------


def test_fewer_than_four_satellites_give_no_fix() -> None:
    config = sheet("u-blox/m8", fix={"elevation_mask_deg": 60.0}, constellations=["gps"])
    found = ph.Gnss(config).run(plain(), STILL, duration=0.4)
    assert (found.mode == NO_FIX).all()
    assert np.isnan(found.position).all()
    assert np.isnan(found.latitude).all()
    assert found.satellites_used.tolist() == [0, 0]
    # Tracked signals are still reported.
    assert found.tracked.sum() > 0
    assert np.isfinite(found.true_position).all()


def test_an_antenna_in_a_wall_warns_and_has_no_fix() -> None:
    world = plain()
    world.add(ph.shapes.box(10, 10, 10), material="concrete", label="building", pose=ph.Pose((0, 0, 5)))
    with pytest.warns(UserWarning, match=r"the antenna at \(0.00, 0.00, 2.00\) m is inside a solid object"):
        found = ph.Gnss("u-blox/m8").run(world, STILL, duration=0.2)
    assert found.mode.tolist() == [NO_FIX]
    assert not found.tracked.any()


def test_what_is_hidden_from_it_does_not_block() -> None:
    world = plain()
    world.add(
        ph.shapes.box(10, 10, 10), material="concrete", label="building", pose=ph.Pose((0, 0, 5)), hidden_from="gnss"
    )
    assert ph.Gnss("u-blox/m8").run(world, STILL, duration=0.2).mode.tolist() == [3]


# ---- bits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moving", [False, True])
def test_split_runs_give_the_same_bits(moving: bool) -> None:
    world = plain()
    if moving:
        drive = ph.ConstantTwist(ph.Pose((-10, 6, 2)), velocity=(4.0, 0.0, 0.0))
        world.add_actor(ph.shapes.box(12, 3, 4), material="steel", label="bus", trajectory=drive)
    receiver = ph.Gnss("u-blox/m8", rate_hz=5.0)
    motion = ph.ConstantTwist(ph.Pose((0, 0, 2)), velocity=(1.0, 0.2, 0.0))
    whole = receiver.run(world, motion, start=29.0, duration=2.0, seed=4)
    parts = [receiver.run(world, motion, start=29.0 + k, duration=1.0, seed=4) for k in range(2)]
    for k, part in enumerate(parts):
        assert same_bits(whole.select(slice(5 * k, 5 * k + 5)), part)
    assert not same_bits(parts[0], receiver.run(world, motion, start=29.0, duration=1.0, seed=5))
    stream = receiver.stream(world, motion, 4, start=29.0)
    assert len(stream.until(29.05)) == 1
    assert len(stream.until(29.1)) == 0
    assert same_bits(stream.until(30.0), whole.select(slice(1, 5)))


def test_the_mount_moves_the_antenna() -> None:
    turned = ph.Fixed(ph.Pose((10, 0, 0), rpy_deg=(0, 0, 90)))
    found = ph.Gnss("u-blox/m8", noise=False, order=0).run(
        ph.World(), turned, duration=0.2, mount=ph.Pose((1.0, 0.0, 2.0))
    )
    assert found.position[0] == pytest.approx([10.0, 1.0, 2.0], abs=1e-3)
    assert np.all(found.status[found.elevation < 0] == ABSENT)


# ---- kernels ---------------------------------------------------------------------------------------------------------


def test_epochs_satellites_and_edits_share_their_kernels() -> None:
    import drjit as dr

    world = plain()
    world.add(ph.shapes.box(30, 8, 12), material="concrete", label="building", pose=ph.Pose((10, 12, 6)))
    drive = ph.ConstantTwist(ph.Pose((0, 0, 2)), velocity=(4.0, 0.5, 0.0))
    dr.set_flag(dr.JitFlag.KernelHistory, True)
    try:
        dr.kernel_history_clear()
        for k in range(12):
            # Other numbers of epochs, satellites, obstacles and reflections, hence of rays.
            receiver = ph.Gnss("u-blox/f9p", constellations=["gps", "galileo", "beidou"][: 1 + k % 3], order=1 + k % 2)
            receiver.run(world, drive, start=k, duration=0.2 * (1 + k % 4), seed=k)
            if k % 3 == 2:
                place = ph.Pose((5.0 * k, -15.0, 4.0))
                world.add(ph.shapes.box(6, 6, 8), material="brick", label="building", pose=place)
        kernels = {entry["hash"] for entry in dr.kernel_history() if str(entry["type"]).endswith("JIT")}
    finally:
        dr.set_flag(dr.JitFlag.KernelHistory, False)
    # Nearest hits, blocked rays, and what preparing the scene takes.
    assert 1 <= len(kernels) <= 6


# ---- unseen objects --------------------------------------------------------------------------------------------------


def _site(order: int = 1, *, unseen: bool = False) -> ph.World:
    """A street with trees over a deep cellar; `order` -1 adds its objects in reverse."""
    rng = np.random.default_rng(3)
    objects = [
        (ph.shapes.plane(300, 200), "asphalt", "road", (0, 0, 0)),
        (ph.shapes.plane(9, 9), "wood", "x", (0, 0, -40)),
    ]
    for k, x in enumerate(np.arange(-60.0, 61.0, 15.0)):
        height = 8.0 + 2.3 * rng.uniform()
        objects.append((ph.shapes.box(12, 9, height), "brick", "building", (x, (-1) ** k * 13.0, height / 2)))
        objects.append((ph.shapes.sphere(2.0 + rng.uniform()), "leaf", "vegetation", (x + 6, (-1) ** k * -6.0, 5.3)))
    objects.append((ph.shapes.box(60, 1, 9), "concrete", "wall", (0, 60, 4.5)))
    if unseen:
        objects.insert(1, (ph.shapes.box(0.2, 0.3, 0.2), "steel", "building", (4, 1, -3)))
        objects.insert(9, (ph.shapes.box(3, 3, 3), "steel", "box", (1, 62, -8)))
        objects.append((ph.shapes.sphere(1.0), "leaf", "vegetation", (9, 2, -9)))
    world = ph.World("site")
    for shape, material, label, place in objects[::order]:
        world.add(shape, material=material, label=label, pose=ph.Pose(place))
    return world


def test_unseen_objects_and_the_order_of_objects_change_no_bit() -> None:
    drive = ph.ConstantTwist(ph.Pose((-20, 0.5, 1.6), rpy_deg=(1, -2, 5)), velocity=(6.0, 0.2, 0.0))
    receiver = ph.Gnss("u-blox/f9p", rate_hz=1.0, rtk_baseline_km=5.0)
    first = receiver.run(_site(), drive, duration=6.0, seed=7)
    for other in (_site(-1), _site(unseen=True), _site(-1, unseen=True)):
        assert same_bits(first, receiver.run(other, drive, duration=6.0, seed=7))
    # A box that moves underground changes the kernel, and no bit.
    site = _site()
    below = ph.ConstantTwist(ph.Pose((0, 0, -6)), velocity=(2.0, 0.0, 0.0))
    site.add_actor(ph.shapes.box(2, 2, 2), material="steel", label="car", trajectory=below)
    assert same_bits(first, receiver.run(site, drive, duration=6.0, seed=7))


def test_frequencies_and_chips_of_the_open_signals() -> None:
    """Carrier [MHz], chip rate [MHz] and modulation of the interface documents; GLONASS also has a channel spacing."""
    known = {
        "L1": {"G": (1575.42, 1.023, 0), "E": (1575.42, 1.023, 1), "C": (1575.42, 1.023, 1), "R": (1602.0, 0.511, 0)},
        "L2": {"G": (1227.6, 1.023, 0), "E": (1207.14, 10.23, 0), "C": (1207.14, 10.23, 0), "R": (1246.0, 0.511, 0)},
    }
    for band, systems in known.items():
        found = {
            letter: (1e-6 * one.frequency_hz, 1e-6 * one.chip_rate_hz, one.boc) for letter, one in SIGNALS[band].items()
        }
        assert found == {letter: pytest.approx(values) for letter, values in systems.items()}
    assert (SIGNALS["L1"]["R"].channel_hz, SIGNALS["L2"]["R"].channel_hz) == (562.5e3, 437.5e3)


def test_columns_of_the_ionosphere_in_headers() -> None:
    """RINEX 2: 2X, 4D12.4; RINEX 3: A4, 1X, 4D12.4. Numbers may fill their columns."""
    wide = "".join(f"{one:>12}" for one in ("-1.2345D-08", "1.2346D-08", "-3.4567D-08", "-4.5678D+04"))
    full = "-12.345D-018" + "-23.456D-018" + "-34.567D-018" + "-45.678D+014"
    for content in (wide, full):
        expected = [float(content[12 * k : 12 * k + 12].replace("D", "E")) for k in range(4)]
        two = ["     2.11           N".ljust(60) + "RINEX VERSION / TYPE"]
        two += [f"  {content}".ljust(60) + f"ION {name}" for name in ("ALPHA", "BETA")]
        three = ["     3.04           N".ljust(60) + "RINEX VERSION / TYPE"]
        three += [f"{name} {content}".ljust(60) + "IONOSPHERIC CORR" for name in ("GPSA", "GPSB")]
        for lines in (two, three):
            _, found, _ = _header(Path("a.nav"), [*lines, " " * 60 + "END OF HEADER"])
            assert found is not None
            assert [one.tolist() for one in found] == [expected, expected]


@pytest.mark.parametrize("version", [2, 3])
def test_every_column_of_a_record_is_read_as_its_field(version: int, tmp_path: Path) -> None:
    """19 columns per number after 3 (version 2) or 4 blanks; the first line has the time and three numbers."""
    rows = [name for row in rinex_nav._ROWS for name in row]
    values = {name: (k + 1.5) * 10.0 ** (k % 7 - 3) * (-1) ** k for k, name in enumerate(["af0", "af1", "af2", *rows])}
    values |= {"e": 0.0125, "root_a": 5153.5, "toe_second": 7200.0, "week": 2200.0, "health": 63.0}

    def numbers(names: list[str]) -> str:
        return "".join(f"{values[name]:19.12E}".replace("E", "D") for name in names)

    head = " 7 22  3 08 12 34 56.5" if version == 2 else "E07 2022 03 08 12 34 56"
    lines = [head + numbers(["af0", "af1", "af2"])]
    lines += [" " * (version + 1) + numbers(list(row)) for row in rinex_nav._ROWS]
    found = rinex_nav._row(tmp_path / "a.nav", 9, lines, float(version))
    second = 2 * 86400.0 + 12 * 3600.0 + 34 * 60.0 + (56.5 if version == 2 else 56.0)
    expected = values | {"satellite": "G07" if version == 2 else "E07", "toc_week": 2200, "toc_second": second}
    assert found == {name: value if name == "satellite" else pytest.approx(value) for name, value in expected.items()}
    for year, text in ((1980, "80"), (2079, "79")):
        old = [lines[0].replace(" 22 ", f" {text} ", 1), *lines[1:]]
        if version == 2:
            week = rinex_nav._row(tmp_path / "a.nav", 9, old, 2.0)["toc_week"]
            assert week == GpsTime.from_calendar(datetime(year, 3, 8)).week
    damages = ((0, 4, "no whole number|no such time"), (1, 4 + 19 * 3 + 5, "line 10: .* is no number"))
    for line, start, message in damages:
        broken = list(lines)
        broken[line] = broken[line][:start] + "x?" + broken[line][start + 2 :]
        with pytest.raises(FormatError, match=message):
            rinex_nav._row(tmp_path / "a.nav", 9, broken, float(version))
    needed = list(lines)
    needed[3] = needed[3][: version + 1] + " " * 19 + needed[3][version + 20 :]
    with pytest.raises(FormatError, match="line 12: toe_second is missing"):
        rinex_nav._row(tmp_path / "a.nav", 9, needed, float(version))
    for name, wrong in (("e", 1.0), ("root_a", 100.0), ("toe_second", 604_801.0), ("week", 10_001.0), ("e", -0.1)):
        with pytest.raises(FormatError, match=f"line 4: {name} must be from"):
            rinex_nav._check(tmp_path / "a.nav", 4, values | {name: wrong})


def test_times_of_records_count_from_the_earliest_week_and_beidou_is_14_s_behind(tmp_path: Path) -> None:
    """The orbit reference is in the week nearest to the clock reference."""
    names = [name for row in rinex_nav._ROWS for name in row]
    common = dict.fromkeys(["af0", "af1", "af2", *names], 0.0) | {"e": 0.01, "root_a": 5153.5}
    rows = [
        common | {"satellite": "G01", "toc_week": 2201, "toc_second": 100.0, "toe_second": 604_000.0},
        common | {"satellite": "C02", "toc_week": 2200, "toc_second": 604_700.0, "toe_second": 50.0},
        common | {"satellite": "E03", "toc_week": 2200, "toc_second": 3600.0, "toe_second": 3600.0, "health": 5.0},
    ]
    found = rinex_nav._collected(rows, None, {"R": 2})  # type: ignore[arg-type]
    eph = found.ephemerides
    assert found.start == GpsTime(2200, 0.0)
    assert found.left_out == {"R": 2}
    assert eph.toc.tolist() == [604_900.0, 604_714.0, 3600.0]
    assert eph.toe.tolist() == [604_000.0, 604_864.0, 3600.0]
    assert eph.health.tolist() == [0, 0, 5]


def four() -> Ephemerides:
    """A satellite of each system with all elements unlike; GPS and BeiDou refer to times across a change of week."""
    k = np.arange(4.0)
    names = [one.name for one in fields(Ephemerides) if one.name not in ("satellite", "health", "fit_s")]
    numbers = {name: (1.0 + 0.1 * n + 0.01 * k) * 10.0 ** (n % 5 - 4) for n, name in enumerate(names)}
    numbers |= {
        "toe": np.array([-7200.0, 530_000.0, 5.0, 0.0]), "toc": np.array([-7184.0, 530_010.0, 7.0, 0.0]),
        "root_a": 5153.0 + k, "e": 0.01 * (1.0 + k), "toe_second": np.array([597_600.0, 3600.0, 604_791.0, 0.0]),
    }  # fmt: skip
    return Ephemerides(
        satellite=np.array(["G07", "E11", "C19", "R03"]),
        health=np.array([0, 5, 1, 0]),
        fit_s=np.full(4, 7200.0),
        **numbers,
    )


def test_written_navigation_files_have_the_columns_of_the_format(tmp_path: Path) -> None:
    """RINEX 3.04, table A5 to A14, read here by columns; and by the reader."""
    eph, start = four(), GpsTime(2200, 86_400.0)
    alpha, beta = np.array([1.2345e-8, -2e-8, 3e-7, 4e-7]), np.array([9e4, -1.5e5, 6e4, 3.9e5])
    rinex_nav.write_navigation(tmp_path / "a.nav", eph, start, (alpha, beta))
    lines = (tmp_path / "a.nav").read_text().splitlines()
    assert lines[0] == "     3.04           N: GNSS NAV DATA    M: MIXED            RINEX VERSION / TYPE"
    assert lines[1][60:] == "PGM / RUN BY / DATE "
    assert lines[2].startswith("GPSA   1.2345D-08 -2.0000D-08")
    assert lines[3][:17] == "GPSB   9.0000D+04"
    assert lines[4].split() == ["18", "LEAP", "SECONDS"]
    assert lines[5].split() == ["END", "OF", "HEADER"]
    assert {len(line) for line in lines[:6]} == {80}
    assert len(lines) == 6 + 3 * 8
    calendar = ["2022 03 06 22 00 16", "2022 03 13 03 13 30", "2022 03 06 23 59 53"]
    behind, weeks = [0.0, 0.0, 14.0], [2200, 2201, 2200 - 1356]
    rate = {"G": 7.2921151467e-5, "E": 7.2921151467e-5, "C": 7.2921150e-5}
    for k in range(3):
        part = lines[6 + 8 * k : 14 + 8 * k]
        letter = str(eph.satellite[k])[0]
        second = (start.second + eph.toe[k] - behind[k]) % 604_800.0
        assert part[0][:3] == eph.satellite[k]
        assert part[0][3:23] == f" {calendar[k]}"
        node = eph.omega0[k] + rate[letter] * (second - eph.toe_second[k])
        expected = [
            [eph.af0[k], eph.af1[k], eph.af2[k]],
            [1.0, eph.crs[k], eph.dn[k], eph.m0[k]],
            [eph.cuc[k], eph.e[k], eph.cus[k], eph.root_a[k]],
            [second, eph.cic[k], node, eph.cis[k]],
            [eph.i0[k], eph.crc[k], eph.omega[k], eph.omega_dot[k]],
            [eph.i_dot[k], 517.0 if letter == "E" else 0.0, weeks[k], 0.0],
            [eph.accuracy_m[k], eph.health[k], eph.tgd[k], 0.0 if letter == "E" else 1.0],
            [second, 4.0] if letter == "G" else [second, 0.0],
        ]
        for number, (line, values) in enumerate(zip(part, expected, strict=True)):
            begin = 23 if number == 0 else 4
            found = [float(line[begin + 19 * n : begin + 19 * n + 19].replace("D", "E")) for n in range(len(values))]
            assert found == pytest.approx(values, rel=1e-11), (k, number)
            assert len(line) == begin + 19 * len(values)
    read = read_navigation(tmp_path / "a.nav")
    assert (read.start, read.left_out) == (GpsTime(2200, 0.0), {})
    assert read.klobuchar is not None
    assert read.klobuchar[0] == pytest.approx(alpha, rel=1e-4)
    assert read.klobuchar[1] == pytest.approx(beta, rel=1e-4)
    assert read.ephemerides.toe == pytest.approx(eph.toe[:3] + 86_400.0)
    assert read.ephemerides.toc == pytest.approx(eph.toc[:3] + 86_400.0)
    assert read.ephemerides.accuracy_m == pytest.approx(eph.accuracy_m[:3], rel=1e-12)


def record(head: str, version: float = 3.0) -> list[str]:
    """A record of zeros with possible orbital elements."""
    names = [name for row in rinex_nav._ROWS for name in row]
    values = dict.fromkeys(names, 0.0) | {"root_a": 5153.5}
    blank = " " * (4 if version >= 3.0 else 3)
    rows = ["".join(f"{values[name]:19.12E}" for name in row) for row in rinex_nav._ROWS]
    return [head + "".join(f"{0.0:19.12E}" for _ in range(3)), *(blank + row for row in rows)]


def test_times_and_names_of_records_fill_their_columns() -> None:
    """Two digits of month, day, hour, minute and second; a blank instead of a leading zero."""
    file = Path("a.nav")
    moment = GpsTime.from_calendar(datetime(2021, 11, 28, 19, 45, 37))
    for head, version, name in (
        ("E27 2021 11 28 19 45 37", 3.0, "E27"), ("C 7 2021 11 28 19 45 37", 3.02, "C07"),
        ("19 21 11 28 19 45 37.0", 2.1, "G19"), (" 9 21 11 28 19 45 37.0", 2.0, "G09"),
    ):  # fmt: skip
        found = rinex_nav._row(file, 1, record(head, version), version)
        assert (found["satellite"], found["toc_week"], found["toc_second"]) == (name, moment.week, moment.second)
    half = rinex_nav._row(file, 1, record("19 21 11 28 19 45 37.5", 2.1), 2.1)
    assert half["toc_second"] == moment.second + 0.5
    for name in ("E00", "R07", "Gxx", "G0x", "Gx1"):
        with pytest.raises(FormatError, match="is no satellite"):
            rinex_nav._row(file, 1, record(f"{name} 2021 11 28 19 45 37"), 3.0)
    for name in ("G10", "G20"):
        assert rinex_nav._row(file, 1, record(f"{name} 2021 11 28 19 45 37"), 3.0)["satellite"] == name


def test_limits_of_orbital_elements_are_allowed() -> None:
    good = {"e": 0.0, "root_a": 5153.0, "toe_second": 0.0, "week": 0.0}
    ends = {"e": (0.0, 0.3), "root_a": (4000.0, 7000.0), "toe_second": (0.0, 604_800.0), "week": (0.0, 10_000.0)}
    for name, (low, high) in ends.items():
        for value, inside in ((low, True), (high, True), (low - 0.01, False), (high * 1.001 + 0.01, False)):
            if inside:
                rinex_nav._check(Path("a.nav"), 1, {**good, name: value})
            else:
                with pytest.raises(FormatError, match=f"{name} must be from {low:g} to {high:g}, got"):
                    rinex_nav._check(Path("a.nav"), 1, {**good, name: value})


def test_records_follow_each_other_by_their_number_of_lines() -> None:
    """Eight lines per record, four of GLONASS and SBAS; blank lines between them are skipped."""
    lines = ["header", "G01", *"abcdefg", "", "R02", *"abc", "S20", *"abc", "  ", "E03", *"abcdefg"]
    found = list(rinex_nav._records(Path("a.nav"), lines, 1, 3.0))
    assert [(number, system, len(part), part[0]) for number, system, part in found] == [
        (2, "G", 8, "G01"), (11, "R", 4, "R02"), (15, "S", 4, "S20"), (20, "E", 8, "E03"),
    ]  # fmt: skip
    old = list(rinex_nav._records(Path("a.nav"), ["1", *"abcdefg", "2", *"abcdefg"], 0, 2.1))
    assert [(number, system, part[0]) for number, system, part in old] == [(1, "G", "1"), (9, "G", "2")]
    with pytest.raises(FormatError, match="the record of line 2 has 7 of 8 lines"):
        list(rinex_nav._records(Path("a.nav"), lines[:8], 1, 3.0))
    with pytest.raises(FormatError, match="line 2: 'X01' is no satellite"):
        list(rinex_nav._records(Path("a.nav"), ["header", "X01"], 1, 3.0))


def test_headers_of_every_version() -> None:
    def lines(version: str, kind: str = "N") -> list[str]:
        return [f"{version:>9}{'':11}{kind:<40}RINEX VERSION / TYPE", f"{'':60}END OF HEADER"]

    for version in ("2.00", "3.99"):
        assert _header(Path("a"), lines(version)) == (float(version), None, 2)
    for version in ("1.99", "4.00"):
        with pytest.raises(FormatError, match="versions 2 and 3 can be read"):
            _header(Path("a"), lines(version))
    assert _header(Path("a"), lines("3.04", "n"))[0] == 3.04
    with pytest.raises(FormatError, match="holds no navigation messages; its type is 'O'"):
        _header(Path("a"), lines("3.04", "O"))
    one = lines("3.04")
    one.insert(1, f"{'GPSA ' + 4 * '  1.0000D+00':<60}IONOSPHERIC CORR")
    assert _header(Path("a"), one)[1:] == (None, 3)
    assert rinex_nav._number(Path("a"), 1, " ") == 0.0
    for text, message in (("1.5x", "line 7: '1.5x' is no number"), ("inf", "line 7: 'inf' is not finite")):
        with pytest.raises(FormatError, match=message):
            rinex_nav._number(Path("a"), 7, text)
