"""Fixes in files and messages: NMEA, RINEX, UBX, tables, ROS, Foxglove, the report and the viewer."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import parhelion as ph
from gnss_rigs import plain, sheet
from oracles import oracle
from parhelion.core.gps_time import GpsTime
from parhelion.core.streams import NO_FIX, RTK_FIXED, RTK_FLOAT, SINGLE, GnssData
from parhelion.io import gnss
from parhelion.live.viewer.layers import VIEWER
from parhelion.pictures.charts import sky_plot
from pins import check, even

DRIVE = ph.ConstantTwist(ph.Pose((0, 0, 2)), velocity=(3.0, 0.0, 0.0))


@pytest.fixture(scope="module")
def fixes() -> GnssData:
    receiver = ph.Gnss("u-blox/f9p", rate_hz=2.0, order=1, latitude_deg=-33.9, longitude_deg=-70.6)
    return receiver.run(plain(), DRIVE, duration=1.5, seed=3)


@pytest.fixture(scope="module")
def lost() -> GnssData:
    return ph.Gnss(sheet("u-blox/m8", fix={"elevation_mask_deg": 60.0}, constellations=["gps"])).run(
        plain(), DRIVE, duration=0.2
    )


def test_checksums_and_angles() -> None:
    # The example of the standard's own text.
    text = gnss.sentence("GPGGA,092750.000,5321.6802,N,00630.3372,W,1,8,1.03,61.7,M,55.2,M,,")
    assert text == "$GPGGA,092750.000,5321.6802,N,00630.3372,W,1,8,1.03,61.7,M,55.2,M,,*76\r\n"
    assert gnss._angle(-33.9999999999, 2, "NS") == "3400.00000,S"
    assert gnss._angle(6.505621, 3, "EW") == "00630.33726,E"


def test_sentences_of_fixes(fixes: GnssData) -> None:
    lines = [line.strip() for line in gnss.sentences(fixes)]
    kinds = [line[3:6] for line in lines]
    assert kinds.count("GGA") == kinds.count("RMC") == 3
    first = lines[kinds.index("GGA")].split(",")
    assert first[1] == "120000.00"
    assert (first[3], first[5], first[6]) == ("S", "W", "1")
    assert int(first[7]) == fixes.satellites_used[0]
    move = lines[kinds.index("RMC")].split(",")
    assert float(move[7]) == pytest.approx(3.0 / 0.514444, abs=0.3)
    assert float(move[8]) == pytest.approx(90.0, abs=3.0)
    seen = [line for line in lines if line[3:6] == "GSV" and line.startswith("$GP")]
    assert int(seen[0].split(",")[3]) == sum(
        fixes.status[0, j] > 0 for j, name in enumerate(fixes.satellites) if name[0] == "G"
    )


@pytest.mark.oracle
def test_every_field_of_the_satellites_is_that_of_the_record(fixes: GnssData) -> None:
    """NMEA 4.10: GSA lists 12 used satellites with the system, GSV 4 satellites in view per sentence."""
    talkers, offset = {"G": ("GP", "1"), "R": ("GL", "2"), "E": ("GA", "3"), "C": ("GB", "4")}, {"R": 64}
    lines = [line.strip().partition("*")[0][1:].split(",") for line in gnss.sentences(fixes)]
    starts = [k for k, words in enumerate(lines) if words[0] == "GNGGA"]
    for k, (start, end) in enumerate(zip(starts, [*starts[1:], len(lines)], strict=True)):
        own = lines[start:end]
        east, north = fixes.to_enu(fixes.velocity)[k][:2]
        move = next(words for words in own if words[0] == "GNRMC")
        assert (move[2], move[12], move[13]) == ("A", "A", "V")
        assert float(move[7]) == pytest.approx(np.hypot(east, north) * 3600.0 / 1852.0, abs=6e-4)
        assert float(move[8]) == pytest.approx(np.degrees(np.arctan2(east, north)) % 360.0, abs=6e-3)
        for letter, (talker, system) in talkers.items():
            rows = [j for j, name in enumerate(fixes.satellites) if name[0] == letter]
            if not rows:
                continue
            numbers = {j: int(fixes.satellites[j][1:]) + offset.get(letter, 0) for j in rows}
            used = [words for words in own if words[0] == "GNGSA" and words[18] == system]
            assert all(len(words) == 19 and words[1:3] == ["A", "3"] for words in used)
            assert [int(n) for words in used for n in words[3:15] if n] == [
                numbers[j] for j in rows if fixes.used[k, j]
            ]
            assert all(used[page][3:15].count("") == 0 for page in range(len(used) - 1))
            assert {tuple(words[15:18]) for words in used} == {tuple(f"{one:.2f}" for one in fixes.dop[k, 1:4])}
            views = [words for words in own if words[0] == f"{talker}GSV"]
            seen = [j for j in rows if fixes.status[k, j] > 0]
            assert [words[1:4] for words in views] == [
                [str(len(views)), str(page + 1), f"{len(seen):02d}"] for page in range(len(views))
            ]
            assert len(views) == max(1, -(-len(seen) // 4))
            found = [words[4 + 4 * n : 8 + 4 * n] for words in views for n in range((len(words) - 5) // 4)]
            assert all(len(words) == 5 + 4 * 4 for words in views[:-1])
            for j, cells in zip(seen, found, strict=True):
                assert int(cells[0]) == numbers[j]
                assert int(cells[1]) == pytest.approx(np.degrees(fixes.elevation[k, j]), abs=0.51)
                assert (int(cells[2]) - np.degrees(fixes.azimuth[k, j]) + 180.0) % 360.0 == pytest.approx(
                    180.0, abs=0.51
                )
                heard = fixes.cn0[k, j]
                assert (float(cells[3]) if cells[3] else None) == (
                    pytest.approx(heard, abs=0.51) if heard == heard else None
                )


def test_sentences_read_back(fixes: GnssData) -> None:
    reader = oracle("pynmeagps")
    found = [reader.NMEAReader.parse(line) for line in gnss.sentences(fixes)]
    positions = [(one.lat, one.lon, one.alt) for one in found if one.msgID == "GGA"]
    wanted = np.stack([fixes.latitude, fixes.longitude, fixes.altitude], axis=1)
    assert np.array(positions) == pytest.approx(wanted, abs=1e-3)
    assert np.abs(np.array(positions)[:, :2] - wanted[:, :2]).max() < 1e-7


def test_no_fix_is_reported(lost: GnssData) -> None:
    lines = list(gnss.sentences(lost))
    assert ",,,,,0,00,99.99,,M" in lines[0]
    assert ",V,,,,," in lines[1]
    assert "GSA,A,1,," in lines[2]
    payload = next(gnss.messages(lost))[6:-2]
    assert payload[20] == 0
    assert "no fix" in VIEWER.require(GnssData).lines("gnss", lost)[0]


def test_ubx_navigation_solution(fixes: GnssData, tmp_path: Path) -> None:
    file = tmp_path / "fixes.ubx"
    gnss.write_ubx(fixes, file)
    data = file.read_bytes()
    assert len(data) == 3 * 100
    payload = data[6:98]
    assert struct.unpack_from("<I", payload)[0] == round(fixes.metadata["gps_second"] * 1000)
    longitude, latitude = struct.unpack_from("<ii", payload, 24)
    assert (latitude * 1e-7, longitude * 1e-7) == pytest.approx((fixes.latitude[0], fixes.longitude[0]), abs=1e-7)


@pytest.mark.oracle
def test_ubx_is_read_by_pyubx2(fixes: GnssData) -> None:
    found = oracle("pyubx2").UBXReader.parse(next(gnss.messages(fixes)))
    assert (found.identity, found.numSV, found.fixType) == ("NAV-PVT", fixes.satellites_used[0], 3)
    assert found.velE == pytest.approx(3000.0, abs=200.0)


def test_rinex_holds_every_range_to_a_millimetre(fixes: GnssData, tmp_path: Path) -> None:
    file = tmp_path / "fixes.rnx"
    gnss.write_rinex(fixes, file)
    lines = file.read_text().splitlines()
    assert all(line[60:].strip() for line in lines[: lines.index(next(x for x in lines if "END OF HEADER" in x))])
    assert any(line.startswith("E    8 C1C L1C D1C S1C C7Q L7Q D7Q S7Q") for line in lines)
    assert any("GLONASS SLOT / FRQ #" in line for line in lines)
    epochs = [line for line in lines if line.startswith("> ")]
    assert len(epochs) == 3
    assert int(epochs[0][32:35]) == int(fixes.tracked[0].sum())
    k = next(j for j in range(len(fixes.satellites)) if fixes.tracked[0, j])
    row = next(line for line in lines if line.startswith(fixes.satellites[k]) and "C" not in line[1:])
    assert float(row[3:17]) == pytest.approx(fixes.pseudorange[0, k], abs=6e-4)


def test_the_sky_and_the_lines_of_sight(fixes: GnssData) -> None:
    picture = sky_plot(fixes)
    assert picture.startswith("<svg")
    seen = int((fixes.status[-1] > 0).sum())
    assert picture.count('r="5"') == seen
    layer = VIEWER.require(GnssData)
    assert layer.segments is not None
    lines = layer.segments(fixes)
    ends, colours = lines.ends, lines.colours
    assert ends.shape == (seen, 2, 3) == colours.shape
    assert np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) == pytest.approx(60.0)
    assert layer.segments(fixes.select(slice(0, 0))) is None
    assert "satellites used" in layer.lines("gnss", fixes)[0]


@pytest.mark.slow
def test_a_scenario_writes_all_of_it(tmp_path: Path) -> None:
    fields = {
        "duration_s": 1.0, "seed": 4, "world": "test-range",
        "vehicles": [{"name": "robot", "model": "clearpath/husky", "follow": {"points": [[5, 1, 0]]}}],
        "sensors": [
            {"name": "gps", "type": "gnss", "model": "u-blox/m8", "vehicle": "robot", "mount": {"xyz": [0, 0, 1.2]},
             "options": {"latitude_deg": 48.0, "longitude_deg": 11.0}},
            {"name": "base", "type": "gnss", "model": "generic/survey", "mount": {"xyz": [0, 0, 3]}},
        ],
        "outputs": [{"kind": "bag"}, {"kind": "foxglove"}],
    }  # fmt: skip
    summary = ph.Scenario.from_mapping(fields).run(tmp_path / "out")
    names = {file.name for file in summary.files}
    assert {"gps.csv", "gps-satellites.csv", "gps.nmea", "gps.rnx", "gps.ubx", "base.csv"} <= names
    rows = np.genfromtxt(tmp_path / "out" / "gps.csv", delimiter=",", names=True)
    assert len(rows) == 5
    assert rows["latitude_deg"] == pytest.approx(48.0, abs=1e-3)
    assert rows["true_position_z"] == pytest.approx(rows["true_position_z"][0], abs=0.1)
    # The reader needs packages that the writer does without, such as apsw for rosbags 0.11.
    reader = pytest.importorskip("rosbags.highlevel", reason="a package of the bag reader is missing")
    with reader.AnyReader([tmp_path / "out" / "bag"]) as bag:
        stored = {
            topic: [bag.deserialize(raw, one.msgtype) for one, _, raw in bag.messages(info.connections)]
            for topic, info in bag.topics.items()
            if "fix" in topic
        }
    assert {"/gps/fix", "/gps/fix_velocity", "/base/fix", "/base/fix_velocity"} == set(stored)
    assert [one.latitude for one in stored["/gps/fix"]] == pytest.approx(rows["latitude_deg"].tolist())
    assert stored["/gps/fix"][0].status.status == 0
    assert stored["/gps/fix"][0].position_covariance[0] > 0
    assert summary.report is not None
    page = summary.report.read_text()
    assert "gps: sky" in page
    assert "gps: position error" in page


@pytest.mark.slow
def test_the_viewer_draws_lines_of_sight() -> None:
    from parhelion.live.viewer.stages import ScenarioStage

    fields = {
        "duration_s": 1.0, "world": "test-range",
        "sensors": [
            {"name": "lidar", "type": "lidar", "model": "sick/lms-111", "mount": {"xyz": [0, 0, 1]}},
            {"name": "gps", "type": "gnss", "model": "u-blox/m8", "mount": {"xyz": [0, 0, 2]}},
        ],
    }  # fmt: skip
    stage = ScenarioStage(ph.Scenario.from_mapping(fields), time=0.5)
    shown = stage.measure(stage.places["lidar"])
    (lines,) = shown.segments
    ends, colours = lines.ends, lines.colours
    assert ends[:, 0] == pytest.approx(np.tile([0.0, 0.0, 2.0], (len(ends), 1)))
    assert len(ends) == len(colours) > 8
    assert any(note.startswith("gps: single, error") for note in shown.notes)


def test_messages_have_types_on_the_wire() -> None:
    pytest.importorskip("cyclonedds", reason="cyclonedds is not installed")
    from parhelion.io.ros import messages as ros
    from parhelion.live.dds import dds_type

    assert "sensor_msgs.msg.dds_.NavSatFix_" in repr(dds_type(ros.NAV_SAT_FIX))
    assert "geometry_msgs.msg.dds_.TwistStamped_" in repr(dds_type(ros.TWIST))


def test_rinex_columns(fixes: GnssData, tmp_path: Path) -> None:
    """Every observation is in the columns of RINEX 3.04: 3 of the satellite, then F14.3 and two flags for each."""
    file = tmp_path / "fixes.rnx"
    gnss.write_rinex(fixes, file)
    lines = file.read_text().splitlines()
    end = next(k for k, line in enumerate(lines) if "END OF HEADER" in line)
    assert lines[0][:60].split() == ["3.04", "OBSERVATION", "DATA", "M:", "MIXED"]
    assert (lines[0][:9], lines[0][20], lines[0][40], lines[0][60:].rstrip()) == (
        "     3.04",
        "O",
        "M",
        "RINEX VERSION / TYPE",
    )
    place = next(line for line in lines if line[60:].rstrip() == "APPROX POSITION XYZ")
    assert 6.3e6 < np.linalg.norm([float(place[k : k + 14]) for k in (0, 14, 28)]) < 6.4e6
    types = {line[0]: line[6:60].split() for line in lines[:end] if line[60:].rstrip() == "SYS / # / OBS TYPES"}
    assert all(
        int(line[3:6]) == len(types[line[0]]) for line in lines[:end] if line[60:].rstrip() == "SYS / # / OBS TYPES"
    )
    first = next(line for line in lines if line[60:].rstrip() == "TIME OF FIRST OBS")
    assert lines[end + 1][1:29].split()[:5] == [f"{int(first[6 * k : 6 * k + 6]):02d}" for k in range(5)]
    assert float(lines[end + 1][18:29]) == float(first[30:43])
    assert (first[48:51], lines[end + 1][31]) == ("GPS", "0")
    arrays = [
        (fixes.pseudorange, fixes.carrier, fixes.doppler, fixes.cn0),
        (fixes.pseudorange_2, fixes.carrier_2, fixes.doppler_2, fixes.cn0_2),
    ]
    at, checked = end + 1, 0
    for epoch in range(len(fixes)):
        count = int(lines[at][32:35])
        for line in lines[at + 1 : at + 1 + count]:
            k = fixes.satellites.index(line[:3])
            values = [one[epoch, k] for band in arrays for one in band if one is not None][: len(types[line[0]])]
            for column, value in enumerate(values):
                text = line[3 + 16 * column : 17 + 16 * column].strip()
                assert (float(text) if text else np.nan) == pytest.approx(value, abs=5.1e-4, nan_ok=True)
                assert not line[17 + 16 * column : 19 + 16 * column].strip()
                checked += 1
        at += 1 + count
    assert at == len(lines)
    assert checked > 100


def test_flags_of_a_solution() -> None:
    """Bit 0 fix, bit 1 corrections, bits 6 and 7 carrier solution."""
    for mode, quality, flags in (
        (NO_FIX, SINGLE, 0), (3, SINGLE, 1), (3, RTK_FLOAT, 1 + 2 + 64), (3, RTK_FIXED, 1 + 2 + 128), (3, None, 1),
    ):  # fmt: skip
        known = None if quality is None else np.array([quality])
        assert gnss._flags(SimpleNamespace(mode=np.array([mode]), quality=known), 0) == flags  # type: ignore[arg-type]


def made_up() -> GnssData:
    """Six epochs of forty satellites with all numbers unlike: without a fix, single, corrected, float and fixed.

    The record crosses midnight, the end of a GPS week and the end of a month.
    """
    rng, n, m = np.random.default_rng(12), 6, 40
    names = [f"{'GREC'[k % 4]}{k // 4 + 1:02d}" for k in range(m)]
    tracked = rng.random((n, m)) < 0.8
    used = (tracked & (rng.random((n, m)) < 0.7)).astype(np.int64)
    known = np.array([0, 3, 3, 3, 3, 3])

    def values(low: float, high: float) -> np.ndarray:
        return np.where(tracked, rng.uniform(low, high, (n, m)), np.nan)

    def fixed(*shape: int, low: float, high: float) -> np.ndarray:
        found = rng.uniform(low, high, (n, *shape))
        found[0] = np.nan
        return found

    root = fixed(3, 3, low=-2.0, high=2.0)
    return GnssData(
        time=np.array([0.0, 0.05, 0.25, 1.2, 3.7, 90.0]), satellites=tuple(names),
        receiver_time=604_798.0 + np.array([0.0, 0.05, 0.25, 1.2, 3.7, 90.0]) + 1e-6 * np.arange(n), mode=known,
        position=fixed(3, low=-9, high=9), velocity=fixed(3, low=-9, high=9),
        position_covariance=root @ root.transpose(0, 2, 1), latitude=fixed(low=-60, high=60),
        longitude=fixed(low=-170, high=170), altitude=fixed(low=-50, high=900), dop=fixed(4, low=0.6, high=9.0),
        consistent=np.ones(n, np.int64), clock_bias=fixed(low=0, high=1e-6), clock_drift=fixed(low=0, high=1e-9),
        azimuth=rng.uniform(0.0, 6.28318, (n, m)), elevation=rng.uniform(0.1, 1.5, (n, m)),
        status=np.where(tracked, 1, 0), used=used, cn0=values(22, 52), pseudorange=values(2e7, 2.6e7),
        carrier=values(1e8, 1.4e8), doppler=values(-4e3, 4e3), residual=values(-3, 3),
        true_position=np.zeros((n, 3)), cn0_2=values(20, 48), pseudorange_2=values(2e7, 2.6e7),
        carrier_2=values(1e8, 1.4e8), doppler_2=values(-4e3, 4e3),
        quality=np.array([NO_FIX, SINGLE, SINGLE + 1, RTK_FLOAT, RTK_FIXED, RTK_FIXED]),
        metadata={
            "gps_week": 2194, "gps_second": 604_798.0, "bands": ["L1", "L2"], "latitude_deg": 48.0, "rate_hz": 5.0,
            "longitude_deg": 11.0, "altitude_m": 500.0, "sensor": "a receiver with a long name", "x_azimuth_deg": 65.0,
            "glonass_channels": {name: k % 14 - 7 for k, name in enumerate(names) if name[0] == "R"},
        },
    )  # fmt: skip


def test_numbers_of_all_files() -> None:
    """Every number and every column of the texts; the fields of every message, with both checksums: recorded."""
    data, start = made_up(), GpsTime(2194, 0.0)
    for name, one in (
        ("whole", data),
        ("single band", replace(data, pseudorange_2=None)),
        ("plain", replace(data, quality=None)),
    ):
        texts = {
            "nmea": "".join(gnss.sentences(one)), "header": gnss.header(one, start),
            "body": "".join(gnss.body(one, start)),
        }  # fmt: skip
        numbers = {key: [float(word) for word in re.findall(r"-?\d+\.?\d*", text)] for key, text in texts.items()}
        shape = [len(line) for text in texts.values() for line in text.splitlines()]
        packets = list(gnss.messages(one))
        assert {len(packet) for packet in packets} == {100}
        fields = [struct.unpack(gnss._LAYOUT, packet[6:-2]) for packet in packets]
        ends = [list(packet[:6]) + list(packet[-2:]) for packet in packets]
        check(
            f"gnss/files-{name}",
            rel=1e-9,
            fields=even(fields),
            ends=ends,
            shape=shape,
            **{k: even(v) for k, v in numbers.items()},
        )
        for packet in packets:
            a = np.cumsum(np.frombuffer(packet[2:-2], np.uint8).astype(int))
            assert packet[-2:] == bytes([int(a[-1]) % 256, int(a.sum()) % 256])


def test_checksums_of_sentences_are_those_of_their_bytes() -> None:
    for line in gnss.sentences(made_up()):
        body, _, found = line.strip()[1:].partition("*")
        assert int(found, 16) == int(np.bitwise_xor.reduce(np.frombuffer(body.encode(), np.uint8)))


def test_solutions_hold_the_fields_of_the_record() -> None:
    """UBX-NAV-PVT: degrees by 1e-7, millimetres, millimetres per second, and 1e-5 degrees of heading."""
    data = made_up()
    assert [gnss._flags(data, k) for k in range(6)] == [0, 1, 3, 3 + 64, 3 + 128, 3 + 128]
    for k, packet in enumerate(gnss.messages(data)):
        fields = struct.unpack(gnss._LAYOUT, packet[6:-2])
        tow = round((604_798.0 + data.time[k]) * 1000) % 604_800_000
        assert (fields[0], fields[10], fields[13]) == (tow, 3 if k else 0, data.used[k].sum())
        if k:
            east, north, up = data.to_enu(data.velocity)[k]
            speed = np.hypot(east, north)
            assert fields[14:18] == pytest.approx(
                (1e7 * data.longitude[k], 1e7 * data.latitude[k], *[1e3 * data.altitude[k]] * 2), abs=0.6
            )
            variance = np.diag(data.position_covariance[k])
            assert fields[18:20] == pytest.approx(
                (1e3 * np.sqrt(variance[0] + variance[1]), 1e3 * np.sqrt(variance[2])), abs=0.6
            )
            assert fields[20:24] == pytest.approx((1e3 * north, 1e3 * east, -1e3 * up, 1e3 * speed), abs=0.6)
            assert fields[24] == pytest.approx(1e5 * (np.degrees(np.arctan2(east, north)) % 360.0), abs=0.6)
            assert fields[27] == round(100 * data.dop[k, 1])
