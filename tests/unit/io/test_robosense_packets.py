"""RoboSense packets: bytes as another implementation reads them, written from the driver's tables, and round trips."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from scipy.spatial import cKDTree

import parhelion as ph
from parhelion.core.errors import ConfigError, FormatError
from parhelion.makers import Datagram, codecs
from parhelion.makers.robosense.models import AIRY, BPEARL, HELIOS, RS_16, RS_32, is_difop, spinning_model_of
from rigs import post_and_hedge

EPOCH_S = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC
CASES = [("robosense/rs-16", "strongest"), ("robosense/rs-16", "dual"), ("robosense/helios-32", "last"),
         ("robosense/helios-32", "dual")]  # fmt: skip


def codec() -> Any:
    return codecs()["robosense"]


@pytest.fixture(scope="module")
def world() -> ph.World:
    return post_and_hedge()


def sent_by(world: ph.World, model: str, returns: str) -> tuple[list[ph.Scan], list[Datagram]]:
    lidar = ph.Lidar(model, returns=returns)
    scans = [lidar.scan(world, pose=ph.Pose(), time=0.1 * k, seed=k) for k in range(2)]
    stream = codec().stream(model, returns=returns, epoch_s=EPOCH_S)
    return scans, [one for scan in scans for one in stream.add(scan)] + stream.finish()


def frames_of(packets: list[bytes], model: str | None = None) -> list[ph.Scan]:
    given = [Datagram(0.0, packet, ("", 0), ("", 0)) for packet in packets]
    return list(codec().frames(given, model=model, metadata=None, source="test"))


# ---- writing --------------------------------------------------------------------------------------------------------


def points_of(packet: bytes, model: str, dual: bool) -> list[tuple[float, float, float, float, int, int]]:
    """x, y, z [m], time [s], channel and intensity of the returns of an MSOP packet, as rs_driver computes them."""
    rs16 = model.endswith("16")
    fire = [2.8 * k for k in range(16)] if rs16 else HELIOS.rotor.fire_time_us
    vertical = RS_16.rotor.elevation_deg if rs16 else HELIOS.rotor.elevation_deg
    unit, centre, period = (0.005, 0.03825, 55.5) if rs16 else (0.0025, 0.03498, 55.56)
    if rs16:
        year, month, day, hour, minute, second, ms, us = struct.unpack_from(">6BHH", packet, 20)
        assert (year, month, day, hour, minute) == (23, 11, 14, 22, 13)
        stamp = 1_700_000_000 - 20 + second + ms * 1e-3 + us * 1e-6
    else:
        high, low, us = struct.unpack_from(">HII", packet, 20)
        stamp = high * 2**32 + low + us * 1e-6
    heads = [struct.unpack_from(">H", packet, 44 + 100 * block)[0] for block in range(12)]
    assert all(packet[42 + 100 * block : 44 + 100 * block] == b"\xff\xee" for block in range(12))
    found = []
    for block in range(12):
        twin = 1 if rs16 or not dual else 2
        other = block + twin if block + twin < 12 else block - twin
        turned = abs((heads[other] - heads[block] + 18000) % 36000 - 18000)
        passed = block // 2 if dual and not rs16 else block * (1 if dual or not rs16 else 2)
        for cell in range(32):
            distance, level = struct.unpack_from(">HB", packet, 46 + 100 * block + 3 * cell)
            if not distance:
                continue
            laser, second_half = (cell % 16, cell // 16) if rs16 else (cell, 0)
            late = fire[laser] + (period if rs16 and not dual and second_half else 0.0)
            span = 2 * period if rs16 and not dual else period
            azimuth = np.radians(0.01 * (heads[block] + turned * late / span))
            up, metres = np.radians(vertical[laser]), distance * unit
            level_m = metres * np.cos(up) + centre
            found.append(
                (level_m * np.cos(azimuth), -level_m * np.sin(azimuth), metres * np.sin(up),
                 stamp + 1e-6 * (passed * period + late), laser, level)
            )  # fmt: skip
    return found


@pytest.mark.parametrize(("model", "returns"), CASES)
def test_packets_hold_the_scan(world: ph.World, model: str, returns: str) -> None:
    scans, datagrams = sent_by(world, model, returns)
    msop = [one.payload for one in datagrams if one.target[1] == 6699]
    assert all((len(one), one[-2:]) == (1248, b"\x00\xff") for one in msop)
    table = np.array([row for one in msop for row in points_of(one, model, returns == "dual")])
    sent = np.concatenate([scan.xyz for scan in scans])
    lasers = (RS_16 if model.endswith("16") else HELIOS).rotor
    if returns == "dual":  # single returns are written twice
        table = np.unique(table, axis=0)
    if returns != "last":
        assert len(table) == len(sent)
    far, there = cKDTree(sent).query(table[:, :3])
    back, _ = cKDTree(table[:, :3]).query(sent)
    # Half a count of range, and azimuths in steps of 0.01 deg. Where two scans meet in a packet, the head jumps by a
    # part of a firing period: real sensors never do.
    bound = 0.5 * lasers.unit_m + np.linalg.norm(sent, axis=1).max() * np.radians(0.012)
    assert max(np.quantile(far, 0.999), np.quantile(back, 0.999) if returns != "last" else 0.0) < bound
    assert far.max() < 20 * bound
    times = np.concatenate([scan.start_time + scan.time for scan in scans])[there]
    off = np.abs((table[:, 3] - EPOCH_S - times + 0.05) % 0.1 - 0.05)  # a standing sensor: revolutions are equal
    assert np.quantile(off, 0.98) < 2e-6  # 24 of 1801 firing sequences share a packet with the other scan
    np.testing.assert_array_equal(lasers.ring[table[:, 4].astype(int)], np.concatenate([s.ring for s in scans])[there])
    levels = np.concatenate([scan.intensity for scan in scans])[there]
    assert (table[:, 5] == levels).mean() > 0.95


@pytest.mark.parametrize(("model", "returns"), CASES)
def test_round_trip(world: ph.World, model: str, returns: str) -> None:
    scans, datagrams = sent_by(world, model, returns)
    packets = [one.payload for one in datagrams]
    frames = frames_of(packets)
    assert {(frame.metadata["sensor"], frame.metadata["returns"]) for frame in frames} == {(model, returns)}
    assert abs(sum(len(frame) for frame in frames) - sum(map(len, scans))) <= 40
    for scan, frame in zip(scans, frames, strict=True):
        lasers = int(scan.ring.max()) + 1
        assert abs(len(frame.shots) - len(scan.shots)) <= 24 * lasers  # the end is padded
        count = min(len(scan.shots), len(frame.shots)) - lasers
        a, b = (np.lexsort((one.shots.ring, one.shots.column))[:count] for one in (scan, frame))
        if abs(frame.start_time - EPOCH_S - scan.start_time) < 1e-5:  # the same firing sequence comes first
            off = np.linalg.norm(scan.shots.direction[a] - frame.shots.direction[b], axis=1)
            assert np.degrees(off.max()) < 0.012
            np.testing.assert_allclose(scan.shots.origin[a], frame.shots.origin[b], atol=1e-5)
    without = frames_of([one for one in packets if not is_difop(one)])
    assert {frame.metadata["returns"] for frame in without} == {"dual" if returns == "dual" else "strongest"}
    assert [len(frame) for frame in without] == [len(frame) for frame in frames]


def test_difop_of_a_unit(world: ph.World) -> None:
    """Angles of the unit replace the nominal ones, here with every laser 0.5 deg higher and 1 deg to the right."""
    _, datagrams = sent_by(world, "robosense/helios-32", "strongest")
    difop = [one for one in datagrams if is_difop(one.payload)]
    assert {one.target[1] for one in difop} == {7788}
    assert np.diff([one.time_s for one in difop]) == pytest.approx(0.1)
    assert struct.unpack_from(">H", difop[0].payload, 8) == (600,)
    assert (difop[0].payload[300], difop[0].payload[-2:]) == (0x01, b"\x0f\xf0")
    data = bytearray(difop[0].payload)
    for laser, elevation in enumerate(HELIOS.rotor.elevation_deg):
        value = elevation + 0.5
        struct.pack_into(">BH", data, 468 + 3 * laser, value < 0, round(abs(value) * 100))
        struct.pack_into(">BH", data, 564 + 3 * laser, 0, 100)
    plain = [one.payload for one in datagrams]
    own = [bytes(data) if is_difop(one) else one for one in plain]
    nominal, unit = frames_of(plain)[0], frames_of(own)[0]
    d, e = nominal.shots.direction.astype(float), unit.shots.direction.astype(float)
    np.testing.assert_allclose(np.degrees(np.arcsin(e[:, 2]) - np.arcsin(d[:, 2])), 0.5, atol=1e-3)
    turned = np.degrees(np.arctan2(e[:, 1], e[:, 0]) - np.arctan2(d[:, 1], d[:, 0]))
    np.testing.assert_allclose((turned + 180.0) % 360.0 - 180.0, -1.0, atol=1e-3)


# ---- models that are read only ---------------------------------------------------------------------------------------


def difop_with(elevation: np.ndarray, azimuth: np.ndarray, second: int, mode: int = 1) -> bytes:
    data = bytearray(1248)
    data[:8], data[300], data[-2:] = bytes.fromhex("a5ff005a11115555"), mode, b"\x0f\xf0"
    for at, values in ((468, elevation), (second, azimuth)):
        for laser, value in enumerate(values):
            struct.pack_into(">BH", data, at + 3 * laser, int(value < 0), round(abs(float(value)) * 100))
    return bytes(data)


@pytest.mark.parametrize(("model", "code", "height"), [(RS_32, 2, 0.0), (BPEARL, 3, 0.09427)])
def test_models_whose_angles_are_in_difop(model: Any, code: int, height: float) -> None:
    """A wall of constant range 20 m; channel k stands k deg up and 0.1 k deg to the right."""
    elevation, azimuth = np.arange(32.0), 0.1 * np.arange(32.0)
    packets = []
    for number in range(40):
        data = bytearray(1248)
        data[:8] = bytes.fromhex("55aa050a5aa550a0")
        micro = number * 12 * 55.52
        struct.pack_into(">6BHH", data, 20, 23, 11, 14, 22, 13, 20, int(micro // 1000), int(micro % 1000))
        data[30] = code
        for block in range(12):
            struct.pack_into(">2sH", data, 42 + 100 * block, b"\xff\xee", round(20 * (number * 12 + block)) % 36000)
            for cell in range(32):
                struct.pack_into(">HB", data, 46 + 100 * block + 3 * cell, 4000, cell)
        packets.append(bytes(data))
    assert spinning_model_of(packets[0]) is model
    with pytest.raises(FormatError, match="are in its DIFOP packets, of which there is none"):
        frames_of(packets)
    (scan,) = frames_of([*packets[:5], difop_with(elevation, azimuth, 564), *packets[5:]])
    assert len(scan) == 40 * 12 * 32
    head = 0.2 * scan.column + 0.2 * np.array(model.rotor.fire_time_us)[scan.ring] / 55.52
    up, right = np.radians(elevation[scan.ring]), np.radians(head + azimuth[scan.ring])
    centre = model.rotor.exit_m
    x = 20 * np.cos(up) * np.cos(right) + centre * np.cos(np.radians(head))
    y = -20 * np.cos(up) * np.sin(right) - centre * np.sin(np.radians(head))
    expected = np.stack([x, y, 20 * np.sin(up) + height], axis=1)
    assert np.linalg.norm(scan.xyz - expected, axis=1).max() < 2e-3  # stamps are rounded to 1 us
    np.testing.assert_array_equal(scan.intensity, scan.ring)


def test_airy() -> None:
    """96 channels in two blocks of 48; the upper two bits of a distance are a class."""
    packets = []
    for number in range(30):
        data = bytearray(1248)
        data[:4], data[31], data[32] = bytes.fromhex("55aa055a"), 0, 2
        struct.pack_into(">HII", data, 20, 0, 1_700_000_000, round(number * 4 * 111.08))
        for block in range(8):
            at = 42 + 148 * block
            struct.pack_into(">2sH", data, at, b"\xff\xee", 40 * (number * 4 + block // 2))
            for cell in range(48):
                struct.pack_into(">HB", data, at + 4 + 3 * cell, 0x4000 | (1000 + 10 * (block % 2)), 9)
        packets.append(bytes(data))
    elevation = np.arange(96) * 0.9
    assert spinning_model_of(packets[0]) is AIRY
    (scan,) = frames_of([difop_with(elevation, np.zeros(96), 756), *packets])
    assert (scan.metadata["sensor"], len(scan), len(scan.shots)) == ("robosense/airy", 30 * 4 * 96, 30 * 4 * 96)
    np.testing.assert_allclose(scan.range, np.where(scan.ring >= 48, 5.05, 5.0), atol=1e-6)
    up = scan.xyz[:, 2] - 0.06056
    np.testing.assert_allclose(np.degrees(np.arcsin(up / scan.range)), elevation[scan.ring], atol=1e-3)
    assert scan.metadata["rate_hz"] == pytest.approx(0.4 / 111.08e-6 / 360.0, rel=2e-3)


@pytest.mark.parametrize("dual", [False, True])
def test_m1(dual: bool) -> None:
    packets = []
    for frame in range(2):
        for number in range(60):
            data = bytearray(1210)
            which = number // 2 if dual else number
            data[:4] = bytes.fromhex("55aa5aa5")
            struct.pack_into(">HHBB", data, 4, number + 1, 2, 0 if dual else 4, 0)
            struct.pack_into(">HII", data, 10, 0, 1_700_000_000, 100_000 * frame + 150 * which)
            for block in range(25):
                at = 32 + 47 * block
                struct.pack_into("BB", data, at, 6 * block, 1 + number % 2 if dual else 0)
                for channel in range(5):
                    far = 4000 if dual and number % 2 else 2000
                    pitch, yaw = 32768 + 100 * (channel - 2), 32768 + 10 * (which * 25 + block) - 1000
                    struct.pack_into(">HHHBBB", data, at + 2 + 9 * channel, far, pitch, yaw, 50 + channel, 0, 0)
            packets.append(bytes(data))
    frames = frames_of(packets)
    assert [frame.start_time - EPOCH_S for frame in frames] == pytest.approx([0.0, 0.1], abs=1e-6)
    first, pulses = frames[0], 25 * 5 * (30 if dual else 60)
    assert (len(first.shots), len(first)) == (pulses, pulses * (2 if dual else 1))
    assert set(np.rint(first.range)) == ({10.0, 20.0} if dual else {10.0})
    np.testing.assert_allclose(np.degrees(np.arcsin(first.xyz[:, 2] / first.range)), first.ring - 2.0, atol=1e-3)
    yaw = np.degrees(np.arctan2(first.xyz[:, 1], first.xyz[:, 0]))
    np.testing.assert_allclose(yaw, 0.1 * first.column - 10.0, atol=1e-3)
    np.testing.assert_allclose(first.time, (first.column // 25) * 150e-6 + (first.column % 25) * 6e-6, atol=1e-6)
    np.testing.assert_array_equal(first.intensity, 50 + first.ring)


def test_errors(world: ph.World) -> None:
    assert codec().model_for(ph.Lidar("robosense/helios-32").shots()) == "robosense/helios-32"
    with pytest.raises(ConfigError, match="cannot send the packets of a robosense/rs-16"):
        codec().model_for(ph.Lidar("velodyne/vlp-16").shots())
    with pytest.raises(ConfigError, match="RoboSense model whose packets are written"):
        codec().stream("robosense/m1")
    with pytest.raises(FormatError, match="no MSOP packets found"):
        frames_of([difop_with(np.ones(32), np.ones(32), 564)])
    _, datagrams = sent_by(world, "robosense/rs-16", "strongest")
    with pytest.raises(FormatError, match="they are of a robosense/rs-16, not of a robosense/m1"):
        frames_of([one.payload for one in datagrams], "robosense/m1")
    packet = next(one.payload for one in datagrams if not is_difop(one.payload))
    assert spinning_model_of(packet[:30] + b"\x09" + packet[31:]) is None
    assert spinning_model_of(packet[:-1]) is None
