"""Hesai packets: recordings of real sensors against an independent driver, and round trips of simulated scans."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lidar_recorded_rigs as rig
import parhelion as ph
from parhelion.core.errors import ConfigError, FormatError
from parhelion.io.captures import read_frames, write_capture
from parhelion.io.pcap import PcapWriter, read_pcap
from parhelion.makers import Datagram, codecs
from parhelion.makers.hesai.models import MODELS, model_of
from parhelion.makers.hesai.packets import calibrated, read_angles, sequences_in
from parhelion.makers.revolutions import scan_of
from parhelion.makers.spinning import Sequences
from rigs import post_and_hedge

EPOCH_S = 1_700_000_000.0
RECORDINGS = [
    ("hesai_pandar40p", "Pandar40P", "hesai/pandar40p", 1799, 5),
    ("hesai_xt32", "PandarXT32", "hesai/xt32", 2000, 4),
    ("hesai_qt64", "PandarQT64", "hesai/qt64", 600, 2),
]
"""Recording, angle file, model, firing sequences per revolution, and those per packet in dual mode."""
needs_recordings = pytest.mark.skipif(not rig.NEBULA.exists(), reason="needs nebula_packets of ../shared/data")


def payloads(name: str) -> list[bytes]:
    _, bodies, _ = rig.packets(name)
    size = int(np.ascontiguousarray(bodies[:1, -4:]).view("<u4")[0, 0])
    return [bytes(body[:size]) for body in bodies]


def datagrams(packets: list[bytes]) -> Iterator[Datagram]:
    return (Datagram(0.0, packet, ("192.168.1.201", 10000), ("255.255.255.255", 2368)) for packet in packets)


# ---- recordings -----------------------------------------------------------------------------------------------------


@needs_recordings
@pytest.mark.parametrize(("name", "angles", "model", "columns", "per_packet"), RECORDINGS)
def test_real_packets_revolution_by_revolution(
    name: str, angles: str, model: str, columns: int, per_packet: int
) -> None:
    packets = payloads(name)
    unit = read_angles(rig.NEBULA / f"{angles}.csv")
    frames = list(codecs()["hesai"].frames(datagrams(packets), model=None, metadata=unit, source="test"))
    lasers = MODELS[model].rotor.channels
    assert {frame.metadata["sensor"] for frame in frames} == {model}
    assert {frame.metadata["returns"] for frame in frames} == {"dual"}
    assert sum(len(frame.shots) for frame in frames) == len(packets) * per_packet * lasers
    for frame in frames[1:-1]:  # the recording starts and ends within a revolution
        assert abs(len(frame.shots) // lasers - columns) <= 1
        assert frame.metadata["missing_columns"] == 0
        assert frame.metadata["rate_hz"] == pytest.approx(10.0, abs=0.02)
        assert np.ptp(frame.time) == pytest.approx(0.1, abs=2e-4)


@needs_recordings
@pytest.mark.parametrize(("name", "angles", "model", "columns", "per_packet"), RECORDINGS)
def test_points_of_an_independent_driver(name: str, angles: str, model: str, columns: int, per_packet: int) -> None:
    """Every point of the Nebula driver's cloud is one of ours, to the rounding of its float32 numbers.

    The driver uses the azimuth of a block for all of its lasers, so firing times are 0 here; its y is our x.
    """
    from scipy.spatial import cKDTree

    about = MODELS[model]
    unit = calibrated(about.rotor, read_angles(rig.NEBULA / f"{angles}.csv"))
    parts = list(sequences_in(payloads(name), about, replace(unit, fire_time_us=(0.0,) * unit.channels)))
    scan = scan_of(Sequences.joined([part[0] for part in parts]), parts[0][1], "dual")
    ours = np.stack([-scan.xyz[:, 1], scan.xyz[:, 0], scan.xyz[:, 2]], axis=1)
    theirs = ph.PointCloud.load(rig.NEBULA / f"{name}.pcd").xyz
    apart, _ = cKDTree(ours).query(theirs)
    assert len(theirs) > 30_000
    assert apart.max() < 1e-5  # 120 m in float32 have 8 um


@needs_recordings
def test_wrong_calibrations_are_found() -> None:
    """The comparison above can fail: with the lasers of another unit, points are millimetres to centimetres off."""
    from scipy.spatial import cKDTree

    about = MODELS["hesai/xt32"]
    rotor = replace(about.rotor, fire_time_us=(0.0,) * 32)
    parts = list(sequences_in(payloads("hesai_xt32")[:500], about, rotor))
    scan = scan_of(Sequences.joined([part[0] for part in parts]), rotor, "dual")
    theirs = ph.PointCloud.load(rig.NEBULA / "hesai_xt32.pcd").xyz
    apart, _ = cKDTree(np.stack([-scan.xyz[:, 1], scan.xyz[:, 0], scan.xyz[:, 2]], axis=1)).query(theirs[::20])
    assert np.median(apart) > 2e-3


@needs_recordings
def test_capture_with_the_angles_of_the_unit(tmp_path: Path) -> None:
    packets = payloads("hesai_xt32")[:520]
    with PcapWriter(tmp_path / "drive.pcap") as capture:
        for number, one in enumerate(datagrams(packets)):
            capture.write(number * 1e-4, *one[1:])
    angles = rig.NEBULA / "PandarXT32.csv"
    nominal = next(read_frames(tmp_path / "drive.pcap"))
    given = next(read_frames(tmp_path / "drive.pcap", metadata=angles))
    (tmp_path / "drive.csv").write_bytes(angles.read_bytes())
    beside = next(read_frames(tmp_path / "drive.pcap"))
    np.testing.assert_array_equal(given.xyz, beside.xyz)
    off = np.linalg.norm(given.xyz - nominal.xyz, axis=1) / given.range
    assert 0.02 < np.degrees(np.median(off)) < 0.2  # a unit differs from the nominal angles
    (tmp_path / "drive.csv").write_text("x,y,z\n1,2,3\n")
    assert len(next(read_frames(tmp_path / "drive.pcap"))) == len(nominal)  # a table of points, no angles
    with pytest.raises(FormatError, match=r"drive\.csv"):
        list(read_frames(tmp_path / "drive.pcap", metadata=tmp_path / "drive.csv"))
    with pytest.raises(FormatError, match="has 64 lasers, a hesai/xt32 has 32"):
        list(read_frames(tmp_path / "drive.pcap", metadata=rig.NEBULA / "Pandar64.csv"))


# ---- simulated scans ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world() -> ph.World:
    return post_and_hedge()


def written(world: ph.World, model: str, returns: str) -> tuple[list[ph.Scan], list[bytes]]:
    lidar = ph.Lidar(model, returns=returns)
    scans = [lidar.scan(world, pose=ph.Pose(), time=0.1 * k, seed=k) for k in range(2)]
    stream = codecs()["hesai"].stream(model, returns=returns, epoch_s=EPOCH_S)
    sent = [one for scan in scans for one in stream.add(scan)] + stream.finish()
    assert (np.diff([one.time_s for one in sent]) > 0).all()
    return scans, [one.payload for one in sent]


def ranges_of(packet: bytes, model: str) -> tuple[float, int, list[tuple[int, list[tuple[int, int]]]]]:
    """Time [s], number, and azimuth with distances and intensities of each block, by the tables of the manuals."""
    if model == "hesai/xt32":
        head, blocks, lasers, size, tail, order = 12, 8, 32, 4, 1052, "<10xBH6BIBI"
        mode, _, *date, micro, _, number = struct.unpack_from(order, packet, tail)
        year = 1900
        assert packet[:12] == bytes([0xEE, 0xFF, 6, 1, 0, 0, 32, 8, packet[8], 4, packet[10], 1])
    else:
        head, blocks, lasers, size, tail, order = 8, 6, 64, 3, 1172, "<5xBxxHIBB6BI"
        _, _, micro, mode, _, *date, number = struct.unpack_from(order, packet, tail)
        year = 2000
        assert packet[:8] == bytes([0xEE, 0xFF, 64, 6, 0, 4, 0, 0])
    assert mode in (0x38, 0x39)
    seconds = np.datetime64(
        f"{date[0] + year:04}-{date[1]:02}-{date[2]:02}T{date[3]:02}:{date[4]:02}:{date[5]:02}"
    ).astype(np.int64)
    found = []
    for block in range(blocks):
        at = head + block * (2 + lasers * size)
        (azimuth,) = struct.unpack_from("<H", packet, at)
        found.append((azimuth, [struct.unpack_from("<HB", packet, at + 2 + k * size) for k in range(lasers)]))
    return float(seconds) + micro * 1e-6, number, found


@pytest.mark.parametrize(
    ("model", "returns"), [("hesai/xt32", "last"), ("hesai/xt32", "dual"), ("hesai/pandar64", "dual")]
)
def test_packets_by_the_manual_s_tables(world: ph.World, model: str, returns: str) -> None:
    scans, packets = written(world, model, returns)
    read = [ranges_of(packet, model) for packet in packets]
    assert [number for _, number, _ in read] == list(range(1, len(read) + 1))
    pair = 2 if returns == "dual" else 1
    per_packet = len(read[0][2]) // pair
    # The packet's time stamp belongs to its last block (XT32 +6 us; Pandar64 -97.248 us).
    period = 50e-6 if model == "hesai/xt32" else 100e-3 / 1800
    stamps = np.array([time for time, _, _ in read]) - EPOCH_S
    after = {"hesai/xt32": 6e-6, "hesai/pandar64": -97.248e-6}[model]
    np.testing.assert_allclose(
        stamps[:-1] + after, (np.arange(len(stamps) - 1) * per_packet + per_packet - 1) * period, atol=2e-6
    )
    far = np.array([[[cell[0] for cell in cells] for _, cells in blocks[::pair]] for _, _, blocks in read])
    far = far.reshape(-1, far.shape[-1])[: sum(len(scan.shots) for scan in scans) // far.shape[-1]]
    lasers = far.shape[1]
    elevation = np.array(MODELS[model].rotor.elevation_deg)
    rank = np.argsort(np.argsort(elevation))
    first = 0
    for scan in scans:
        columns = len(scan.shots) // lasers
        expected = np.zeros((columns, lasers))
        order = np.argsort(scan.range, kind="stable")  # the farthest return of a shot comes last
        expected[scan.column[order], scan.ring[order]] = scan.range[order]
        np.testing.assert_allclose(far[first : first + columns] * 0.004, expected[:, rank], atol=2.1e-3)
        first += columns
    heads = np.array([azimuth for _, _, blocks in read for azimuth, _ in blocks[::pair]][: len(far)])
    turned = 36000 * period / 0.1
    assert np.abs((heads - np.arange(len(far)) * turned + 18000) % 36000 - 18000).max() <= 1.0


@pytest.mark.parametrize(("model", "returns"), [("hesai/xt32", "dual"), ("hesai/pandar64", "last")])
def test_round_trip(world: ph.World, model: str, returns: str, tmp_path: Path) -> None:
    scans, packets = written(world, model, returns)
    assert {model_of(packet) for packet in packets} == {MODELS[model]}
    frames = list(codecs()["hesai"].frames(datagrams(packets), model=None, metadata=None, source="test"))
    assert [len(frame.shots) for frame in frames] == [len(scan.shots) for scan in scans]
    for scan, frame in zip(scans, frames, strict=True):
        assert abs(frame.start_time - EPOCH_S - scan.start_time - scan.shots.time.min()) < 2e-6
        a, b = (np.lexsort((one.shots.ring, one.shots.column)) for one in (scan, frame))
        np.testing.assert_array_equal(scan.shots.ring[a], frame.shots.ring[b])
        off = np.linalg.norm(scan.shots.direction[a] - frame.shots.direction[b], axis=1)
        assert np.degrees(off.max()) < 0.008  # azimuths are in steps of 0.01 deg
        np.testing.assert_allclose(scan.shots.time[a] - scan.shots.time.min(), frame.shots.time[b], atol=3e-6)
        if returns == "last":
            np.testing.assert_array_equal(scan.lost[a], frame.lost[b])
            np.testing.assert_allclose(np.sort(scan.range), np.sort(frame.range), atol=2.1e-3)
    write_capture(scans, tmp_path / "x.pcap", epoch_s=EPOCH_S)
    assert [one.payload for one in read_pcap(tmp_path / "x.pcap")] == packets


def test_errors(world: ph.World) -> None:
    codec: Any = codecs()["hesai"]
    assert codec.model_for(ph.Lidar("hesai/pandar64").shots()) == "hesai/pandar64"
    with pytest.raises(ConfigError, match="it has 128 channels, but Hesai packets exist for 40"):
        codec.model_for(ph.Lidar("hesai/at128").shots())
    with pytest.raises(ConfigError, match="Hesai model with packets"):
        codec.stream("hesai/at128")
    with pytest.raises(FormatError, match="no packets found"):
        list(codec.frames([], model=None, metadata=None, source="x"))
    _, packets = written(world, "hesai/xt32", "last")
    with pytest.raises(FormatError, match="they are of a hesai/xt32, not of a hesai/qt64"):
        list(codec.frames(datagrams(packets), model="hesai/qt64", metadata=None, source="x"))
    assert [model_of(packet) for packet in (packets[0][:-1], b"\xff" + packets[0][1:], b"")] == [None] * 3
