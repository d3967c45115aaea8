"""Livox packets: bytes as another implementation reads them, written from the protocol's tables, and round trips."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.streams import ImuData
from parhelion.io.captures import read_imu, write_capture
from parhelion.io.pcap import read_pcap
from parhelion.makers import Datagram, codecs
from parhelion.makers.livox.packets import MODELS, is_imu, model_of, sdk_of

EPOCH_S = 1_700_000_000.0
CASES = [
    ("livox/mid-360", 1),
    ("livox/hap", 1),
    ("livox/mid-40", 1),
    ("livox/avia", 1),
    ("livox/avia", 2),
    ("livox/avia", 3),
]


@pytest.fixture(scope="module")
def world() -> ph.World:
    world = ph.World()
    world.add(ph.shapes.box(60, 60, 0.2), material="concrete", pose=ph.Pose(xyz=(0, 0, -2)))
    world.add(ph.shapes.box(1, 30, 8), material="grass", pose=ph.Pose(xyz=(12, 0, 0)))
    return world


def recorded(world: ph.World, model: str, returns: int) -> tuple[list[ph.Scan], list[Datagram]]:
    mode = {1: "strongest", 2: "dual", 3: "all"}[returns]
    lidar = ph.Lidar(model) if returns == 1 else ph.Lidar(model, returns=mode)
    scans = [lidar.scan(world, pose=ph.Pose(), time=0.1 * k, seed=k) for k in range(2)]
    stream = codecs()["livox"].stream(model, returns=mode, epoch_s=EPOCH_S)
    return scans, [one for scan in scans for one in stream.add(scan)] + stream.finish()


def sdk_2(packet: bytes) -> list[tuple[int, float, int, int, int, int, int]]:
    """Returns of a packet: place in ns, x, y, z [mm], reflectivity, tag, as livox_ros_driver2 does it."""
    version, length, interval, dots, _, frame, kind, _, _, crc, stamp = struct.unpack_from("<BHHHHBBB12sIQ", packet)
    assert (version, length, kind, frame) == (0, len(packet), 1, 0)
    assert crc == zlib.crc32(packet[28:])
    found = []
    for k in range(dots):
        x, y, z, level, tag = struct.unpack_from("<iiiBB", packet, 36 + 14 * k)
        if (x, y, z) != (0, 0, 0):
            found.append((stamp + k * interval * 100 // dots, x, y, z, level, tag, k))
    return found


def sdk_1(packet: bytes, dots_per_s: float) -> list[tuple[float, int, int, int, int, int, int]]:
    version, _, _, _, status, _, kind, stamp = struct.unpack_from("<BBBBIBBQ", packet)
    dots, returns, size = {0: (100, 1, 13), 2: (96, 1, 14), 4: (48, 2, 14), 7: (30, 3, 14)}[kind]
    assert (version, status, len(packet)) == (5, 0, 18 + dots * returns * size)
    found = []
    for k in range(dots):
        for number in range(returns):
            at = 18 + (k * returns + number) * size
            x, y, z, level = struct.unpack_from("<iiiB", packet, at)
            tag = packet[at + 13] if size == 14 else 0
            if (x, y, z) != (0, 0, 0):
                found.append((stamp + k * 1e9 / dots_per_s, x, y, z, level, tag, k))
    return found


@pytest.mark.parametrize(("model", "returns"), CASES)
def test_packets_hold_the_scan(world: ph.World, model: str, returns: int) -> None:
    scans, datagrams = recorded(world, model, returns)
    about = MODELS[model]
    read = [sdk_2(one.payload) if about.sdk == 2 else sdk_1(one.payload, about.dots_per_s) for one in datagrams]
    table = np.array([row for rows in read for row in rows], np.float64)
    assert len(table) == sum(map(len, scans))
    order = [np.lexsort((scan.fields["return_index"], scan.ring, scan.column)) for scan in scans]
    xyz = np.concatenate([scan.xyz[rows] for scan, rows in zip(scans, order, strict=True)])
    level = np.concatenate([scan.intensity[rows] for scan, rows in zip(scans, order, strict=True)])
    ring = np.concatenate([scan.ring[rows] for scan, rows in zip(scans, order, strict=True)])
    times = np.concatenate([scan.start_time + scan.time[rows] for scan, rows in zip(scans, order, strict=True)])
    np.testing.assert_allclose(table[:, 1:4], 1e3 * xyz, atol=0.51)
    np.testing.assert_array_equal(table[:, 4], np.rint(level))
    # Lines fire together here, but a packet gives each dot its own time: less than one firing apart.
    np.testing.assert_allclose(1e-9 * table[:, 0] - EPOCH_S, times, atol=1.1 * about.lines / about.dots_per_s)
    if model != "livox/hap":  # dots of two scans share a packet of the HAP, whose frames are no whole number of firings
        np.testing.assert_array_equal(table[:, 6] % about.lines, ring)
    index = np.concatenate([scan.fields["return_index"][rows] for scan, rows in zip(scans, order, strict=True)])
    np.testing.assert_array_equal(table[:, 5], np.zeros(len(table)) if model == "livox/mid-40" else index * 16)


@pytest.mark.parametrize(("model", "returns"), CASES)
def test_frames_of_a_capture(world: ph.World, model: str, returns: int) -> None:
    scans, datagrams = recorded(world, model, returns)
    frames = list(codecs()["livox"].frames(datagrams, model=None, metadata=None, source="test"))
    assert [frame.metadata["sensor"] for frame in frames] == [model, model]
    order = [np.lexsort((scan.fields["return_index"], scan.ring, scan.column)) for scan in scans]
    sent = np.concatenate([scan.xyz[rows] for scan, rows in zip(scans, order, strict=True)])
    np.testing.assert_allclose(np.concatenate([frame.xyz for frame in frames]), sent, atol=5.1e-4)
    for scan, frame, rows in zip(scans, frames, order, strict=True):
        if model == "livox/hap":  # its 45 198 dots end 4 us before the next scan, in the middle of a packet
            assert abs(len(frame) - len(scan)) <= 5
        else:
            np.testing.assert_array_equal(frame.intensity, scan.intensity[rows])
        assert abs(frame.start_time - EPOCH_S - scan.start_time) < 2e-5
        assert abs(len(frame.shots) - len(scan.shots)) <= 5
        found = frame.shots.direction[frame.fields["shot"]]
        off = np.degrees(np.linalg.norm(np.cross(found, frame.xyz / frame.range[:, None]), axis=1))
        assert off.max() < (0.02 if returns == 1 else 0.2)  # of several returns, the farthest defines the direction


def test_late_and_lost_packets(world: ph.World) -> None:
    _, datagrams = recorded(world, "livox/mid-360", 1)
    whole, again = list(datagrams), list(datagrams)
    again[10], again[11] = again[11], again[10]
    again.insert(20, again[20])
    frames = [list(codecs()["livox"].frames(one, model=None, metadata=None, source="test")) for one in (whole, again)]
    for a, b in zip(*frames, strict=True):
        np.testing.assert_array_equal(a.xyz, b.xyz)
    del whole[5:8]
    first = next(codecs()["livox"].frames(whole, model=None, metadata=None, source="test"))
    assert first.metadata["missing_columns"] == 3 * 96 // 4
    assert len(first.shots) == 20000 - 3 * 96


def test_imu_packets(tmp_path: Path, world: ph.World) -> None:
    time = np.arange(20) * 0.005
    force, rate = np.tile([0.1, -0.2, 9.80665], (20, 1)), np.tile([0.3, 0.2, -0.1], (20, 1))
    none = np.zeros((3, 3))
    samples = ImuData(
        time, specific_force=force, angular_rate=rate, specific_force_covariance=none, angular_rate_covariance=none
    )
    for model, sdk in (("livox/mid-360", 2), ("livox/avia", 1)):
        scan = ph.Lidar(model).scan(world, pose=ph.Pose(), seed=1)
        write_capture([scan], tmp_path / "x.pcap", imu=samples, epoch_s=EPOCH_S)
        sent = [one.payload for one in read_pcap(tmp_path / "x.pcap") if is_imu(one.payload)]
        assert {is_imu(one) for one in sent} == {sdk}
        gyro = struct.unpack_from("<6f", sent[3], 36 if sdk == 2 else 18)
        np.testing.assert_allclose(gyro, [0.3, 0.2, -0.1, 0.1 / 9.80665, -0.2 / 9.80665, 1.0], rtol=1e-6)
        found = read_imu(tmp_path / "x.pcap")
        np.testing.assert_allclose(found.time, EPOCH_S + time, atol=1e-6)
        np.testing.assert_allclose(found.specific_force, force, rtol=1e-6)
        np.testing.assert_allclose(found.angular_rate, rate, rtol=1e-6)


def test_spherical_and_low_resolution_dots() -> None:
    """Distance 10 m, 30 deg left and 60 deg from the zenith, in each of the layouts with angles or centimetres."""
    point = 10.0 * np.array([np.sin(np.pi / 3) * np.cos(np.pi / 6), np.sin(np.pi / 3) * np.sin(np.pi / 6), 0.5])
    angles, depth = struct.pack("<HH", 6000, 3000), struct.pack("<IBB", 10000, 77, 0)
    head = struct.pack("<BBBBIBBQ", 5, 0, 1, 0, 0, 1, 0, 10**18)

    def sdk_1_packet(kind: int, body: bytes) -> bytes:
        return head[:9] + bytes([kind]) + head[10:] + body

    single = struct.pack("<I", 10000) + angles + b"\x4d"
    centimetres = b"".join(struct.pack("<h", round(value)) for value in 100.0 * point) + b"\x4d\0"
    packets = {
        "spherical": sdk_1_packet(1, single * 100),
        "extended": sdk_1_packet(3, (single + b"\0") * 96),
        "dual": sdk_1_packet(5, (angles + depth * 2) * 48),
        "triple": sdk_1_packet(8, (angles + depth * 3) * 30),
        "low": struct.pack("<BHHHHBBB12xIQ", 0, 36 + 8 * 96, 4800, 96, 0, 0, 2, 1, 0, 10**18) + centimetres * 96,
    }
    for name, packet in packets.items():
        (scan,) = codecs()["livox"].frames(
            [Datagram(0.0, packet, ("", 0), ("", 0))], model=None, metadata=None, source=""
        )
        np.testing.assert_allclose(scan.xyz, np.tile(point, (len(scan), 1)), atol=6e-3 if name == "low" else 2e-3)
        assert set(scan.intensity) == {77.0}
        assert (
            len(scan) == len(scan.shots) == {"spherical": 100, "dual": 48, "triple": 30}.get(name, 96)
        )  # copies merge


def test_gps_time_is_a_date() -> None:
    stamp = bytes([23, 11, 14, 22]) + struct.pack("<I", 800_000_000)
    packet = struct.pack("<BBBBIBB", 5, 0, 1, 0, 0, 3, 2) + stamp + struct.pack("<iiiBB", 1000, 0, 0, 9, 0) * 96
    (scan,) = codecs()["livox"].frames([Datagram(0.0, packet, ("", 0), ("", 0))], model=None, metadata=None, source="")
    assert scan.start_time == pytest.approx(1_700_000_000.0 + 0.0, abs=1e-3)  # 2023-11-14 22:13:20 UTC


def test_recognition_and_errors(world: ph.World) -> None:
    codec = codecs()["livox"]
    assert [codec.model_for(ph.Lidar(name).shots()) for name in MODELS] == list(MODELS)
    with pytest.raises(ConfigError, match=r"it has 16 lines of .* dots per second"):
        codec.model_for(ph.Lidar("velodyne/vlp-16").shots())
    with pytest.raises(ConfigError, match="hold 1 returns, not the mode 'dual'"):
        codec.stream("livox/mid-360", returns="dual")
    with pytest.raises(ConfigError, match="Livox model with packets"):
        codec.stream("livox/tele-15")
    _, datagrams = recorded(world, "livox/mid-360", 1)
    packet = datagrams[0].payload
    assert (sdk_of(packet), sdk_of(packet[:-1]), sdk_of(b"\xff" + packet[1:])) == (2, 0, 0)
    assert model_of(packet).name == "livox/mid-360"
    with pytest.raises(FormatError, match="no packets found"):
        list(codec.frames([], model=None, metadata=None, source="test"))
    with pytest.raises(FormatError, match="they are of SDK 2, but a livox/avia sends those of SDK 1"):
        list(codec.frames(datagrams, model="livox/avia", metadata=None, source="test"))
