"""Captures: right in every header, whole datagrams back, clear words for what is none. Checked with dpkt."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import dpkt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parhelion.core.errors import ConfigError, FormatError
from parhelion.io.pcap import PcapWriter, read_pcap
from parhelion.makers import Datagram

SENSOR, HERE = ("192.168.1.201", 2368), ("192.168.1.77", 7502)
REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "lidar"


def payload(size: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def frames(path: Path) -> list[tuple[float, bytes]]:
    return list(dpkt.pcap.Reader(io.BytesIO(path.read_bytes())))


def test_a_whole_datagram_is_right_in_every_header(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    data = payload(1206)
    with PcapWriter(file) as capture:
        capture.write(1700000000.123456, data, SENSOR, ("255.255.255.255", 2368))
    [(time, raw)] = frames(file)
    assert time == pytest.approx(1700000000.123456, abs=6e-7)
    frame = dpkt.ethernet.Ethernet(raw)
    assert frame.dst == b"\xff" * 6
    ip = frame.data
    assert (ip.len, ip.ttl, ip.p, ip.df, ip.mf, ip.offset) == (20 + 8 + 1206, 255, 17, 1, 0, 0)
    assert dpkt.in_cksum(raw[14:34]) == 0
    udp = ip.data
    assert (udp.sport, udp.dport, udp.ulen, bytes(udp.data)) == (2368, 2368, 1214, data)
    pseudo = raw[26:34] + struct.pack(">BBH", 0, 17, 1214)
    assert dpkt.in_cksum(pseudo + raw[34:]) == 0


def test_large_datagrams_are_cut_as_the_network_cuts_them(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    data = payload(24832)
    with PcapWriter(file) as capture:
        capture.write(1.0, data, HERE, HERE)
        capture.write(1.5, data, HERE, HERE)
    cut = [dpkt.ethernet.Ethernet(raw).data for _, raw in frames(file)]
    assert len(cut) == 2 * 17  # 24840 bytes with the UDP header, 1480 per frame
    assert all(len(bytes(ip)) <= 1500 for ip in cut)
    one = cut[:17]
    assert {ip.id for ip in one} == {one[0].id}
    assert one[0].id != cut[17].id
    assert [ip.mf for ip in one] == [1] * 16 + [0]
    assert [ip.offset * 8 for ip in one] == [k * 1480 for k in range(17)]
    assert all(dpkt.in_cksum(raw[14:34]) == 0 for _, raw in frames(file))
    whole = b"".join(bytes(ip.data) for ip in one)
    pseudo = raw_ends(frames(file)[0][1]) + struct.pack(">BBH", 0, 17, len(whole))
    assert dpkt.in_cksum(pseudo + whole) == 0
    assert [d.payload for d in read_pcap(file)] == [data, data]


def raw_ends(raw: bytes) -> bytes:
    return raw[26:34]


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 65507), min_size=1, max_size=6),
    nanoseconds=st.booleans(),
    mtu=st.sampled_from([68, 576, 1500, 9000, 65535]),
)
def test_what_is_written_comes_back(
    sizes: list[int], nanoseconds: bool, mtu: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("captures") / "a.pcap"
    sent = [Datagram(5.0 + 0.25 * k, payload(size, k), SENSOR, HERE) for k, size in enumerate(sizes)]
    with PcapWriter(file, nanoseconds=nanoseconds, mtu=mtu) as capture:
        for datagram in sent:
            capture.write(*datagram)
    assert list(read_pcap(file)) == sent


def test_times_are_rounded_to_the_files_ticks(tmp_path: Path) -> None:
    for nanoseconds, tick in ((False, 1e-6), (True, 1e-9)):
        file = tmp_path / "a.pcap"
        times = [0.0, 0.9999996, 12.3456789012]
        with PcapWriter(file, nanoseconds=nanoseconds) as capture:
            for time in times:
                capture.write(time, b"x")
        assert [d.time_s for d in read_pcap(file)] == pytest.approx(times, abs=0.51 * tick)


def write_frames(file: Path, raws: list[bytes], order: str = "<", magic: int = 0xA1B2C3D4, link: int = 1) -> Path:
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, link)]
    for number, raw in enumerate(raws):
        parts += [struct.pack(f"{order}IIII", number, 5, len(raw), len(raw)), raw]
    file.write_bytes(b"".join(parts))
    return file


def fragments(tmp_path: Path, size: int = 5000) -> tuple[bytes, list[bytes]]:
    with PcapWriter(tmp_path / "whole.pcap") as capture:
        capture.write(0.0, payload(size))
    return payload(size), [raw for _, raw in frames(tmp_path / "whole.pcap")]


def test_fragments_may_come_in_any_order_and_twice(tmp_path: Path) -> None:
    data, raws = fragments(tmp_path)
    assert len(raws) == 4
    file = write_frames(tmp_path / "b.pcap", [raws[2], raws[0], raws[0], raws[3], raws[1]])
    assert [d.payload for d in read_pcap(file)] == [data]


def test_a_datagram_with_a_lost_fragment_is_left_out(tmp_path: Path) -> None:
    _, raws = fragments(tmp_path)
    assert list(read_pcap(write_frames(tmp_path / "b.pcap", [raws[0], raws[2], raws[3]]))) == []


@pytest.mark.parametrize(("order", "magic"), [(o, m) for o in "<>" for m in (0xA1B2C3D4, 0xA1B23C4D)])
def test_every_kind_of_header_is_read(tmp_path: Path, order: str, magic: int) -> None:
    data, raws = fragments(tmp_path, 100)
    [found] = read_pcap(write_frames(tmp_path / "b.pcap", raws, order, magic))
    assert found.payload == data
    assert found.time_s == (5e-9 if magic == 0xA1B23C4D else 5e-6)


@pytest.mark.parametrize(
    ("link", "head"),
    [
        (101, b""),
        (113, bytes(14) + b"\x08\x00"),
        (276, b"\x08\x00" + bytes(18)),
        (0, b"\x02\0\0\0"),
        (1, bytes(12) + b"\x81\x00\x00\x05\x08\x00"),
    ],
)
def test_other_links_are_read(tmp_path: Path, link: int, head: bytes) -> None:
    data, [raw] = fragments(tmp_path, 100)
    [found] = read_pcap(write_frames(tmp_path / "b.pcap", [head + raw[14:]], link=link))
    assert found.payload == data


def test_other_protocols_are_left_out(tmp_path: Path) -> None:
    data, [raw] = fragments(tmp_path, 100)
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    tcp = raw[:23] + b"\x06" + raw[24:]
    short = raw[:20]
    file = write_frames(tmp_path / "b.pcap", [arp, tcp, short, b"", raw])
    assert [d.payload for d in read_pcap(file)] == [data]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a.pcap: the file is empty"),
        (b"\x0a\x0d\x0d\x0a" + bytes(40), "a.pcap: is a pcapng capture"),
        (b"# .PCD v0.7", "a.pcap: is not a pcap capture"),
        (b"ab", "a.pcap: is not a pcap capture"),
        (b"\xd4\xc3\xb2\xa1\x02\x00", "a.pcap: truncated, the file ends within its header"),
        (
            struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 105),
            "frames of link type 105 are not supported; known are Ether",
        ),
    ],
)
def test_foreign_files_are_reported_at_once(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        read_pcap(file)


def test_a_truncated_file_gives_its_whole_datagrams_first(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    with PcapWriter(file) as capture:
        for k in range(3):
            capture.write(k, payload(100, k))
    whole = file.read_bytes()
    size = (len(whole) - 24) // 3
    for cut, message in ((24 + 2 * size + 7, "truncated within the header of frame 3"), (-1, "frame 3 has 141 of 142")):
        file.write_bytes(whole[:cut])
        source = read_pcap(file)
        assert [next(source).payload for _ in range(2)] == [payload(100, 0), payload(100, 1)]
        with pytest.raises(FormatError, match=message):
            next(source)


def test_frames_captured_in_part_and_damaged_ones_are_reported(tmp_path: Path) -> None:
    _, [raw] = fragments(tmp_path, 100)
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 1)
    file = tmp_path / "b.pcap"
    file.write_bytes(head + struct.pack("<IIII", 0, 0, 96, len(raw)) + raw[:96])
    with pytest.raises(FormatError, match=r"b.pcap: frame 1 was captured only in part \(96 of 142 bytes\)"):
        list(read_pcap(file))
    file.write_bytes(head + struct.pack("<IIII", 0, 0, 1 << 30, 1 << 30) + raw)
    with pytest.raises(FormatError, match="frame 1 is damaged"):
        list(read_pcap(file))


def test_missing_files_and_folders_are_reported(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file"):
        read_pcap(tmp_path / "none.pcap")
    with pytest.raises(FormatError, match="is a folder"):
        read_pcap(tmp_path)
    with pytest.raises(FormatError, match="does not exist"):
        PcapWriter(tmp_path / "no" / "a.pcap")


def test_files_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(b"before")
    capture = PcapWriter(file)
    capture.write(0.0, b"x")
    assert file.read_bytes() == b"before"
    capture.abandon()
    capture.abandon()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.pcap"]
    assert file.read_bytes() == b"before"
    with pytest.raises(ConfigError), PcapWriter(file) as capture:
        capture.write(-1.0, b"x")
    assert file.read_bytes() == b"before"
    capture = PcapWriter(file)
    capture.write(0.0, b"x")
    capture.close()
    capture.close()
    assert [d.payload for d in read_pcap(file)] == [b"x"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.pcap"]
    with pytest.raises(ConfigError, match="already closed"):
        capture.write(0.0, b"x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1.0, b"x"), "times in a capture must be from 0 to"),
        ((float("nan"), b"x"), "times in a capture must be from 0 to"),
        ((2.0**32, b"x"), "times in a capture must be from 0 to"),
        ((0.0, bytes(65508)), "a UDP datagram has at most 65507 bytes of payload, got 65508"),
        ((0.0, b"x", ("localhost", 1)), "'localhost' is not an IPv4 address"),
        ((0.0, b"x", ("1.2.3.4", 65536)), "a UDP port must be from 0 to 65535, got 65536"),
    ],
)
def test_what_a_capture_cannot_hold_is_reported(tmp_path: Path, arguments: tuple, message: str) -> None:
    with PcapWriter(tmp_path / "a.pcap") as capture, pytest.raises(ConfigError, match=message):
        capture.write(*arguments)
    with pytest.raises(ConfigError, match="mtu"):
        PcapWriter(tmp_path / "b.pcap", mtu=20)


def test_a_real_recording_is_read_like_dpkt_reads_it() -> None:
    file = REAL / "velodyne_vlp16.pcap"
    if not file.is_file():
        pytest.skip("no recording of a VLP-16 at ../shared/data/lidar")
    found = list(read_pcap(file))
    sizes = [len(d.payload) for d in found]
    assert (sizes.count(1206), sizes.count(512), len(sizes)) == (84, 16, 100)
    # This firmware's position packets carry the IP length of data packets.
    [other] = {d.target for d in found if len(d.payload) == 512}
    assert other == ("255.255.255.255", 8308)
    for datagram, (time, raw) in zip(found, frames(file), strict=True):
        assert datagram.time_s == pytest.approx(float(time), abs=1e-6)
        assert raw.endswith(datagram.payload)
