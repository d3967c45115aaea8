"""Position packets of a Velodyne, its complete stream, and captures as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import velodyne_decoder as vd

import parhelion as ph
from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError, FormatError
from parhelion.io import read_cloud, write_cloud
from parhelion.io.pcap import PcapWriter
from parhelion.makers.velodyne.encode import VelodyneStream, gprmc, position_packets
from velodyne_rigs import made_up_scan

# ---- position packets and the whole stream ---------------------------------------------------------------------------


def test_position_packets_are_read_by_others() -> None:
    epoch = 1_700_000_000.0  # 2023-11-14 22:13:20
    packets = position_packets(np.array([0.5, 61.25]), epoch_s=epoch, latitude_deg=-33.85655, longitude_deg=151.2152)
    first, second = (vd.TelemetryPacket(list(payload)) for payload in packets.payloads())
    assert first.usec_since_toh == (13 * 60 + 20) * 1_000_000 + 500_000
    assert second.usec_since_toh - first.usec_since_toh == 60_750_000
    assert first.pps_status == vd.TelemetryPacket.PpsStatus.LOCKED
    info = first.parse_nmea()
    assert (info.utc_hours, info.utc_minutes, info.utc_seconds) == (22, 13, 20)
    assert (info.utc_year, info.utc_month, info.utc_day, info.fix_available) == (2023, 11, 14, True)
    assert (info.latitude, info.longitude) == pytest.approx((-33.85655, 151.2152), abs=2e-6)
    assert all(len(payload) == 512 for payload in packets.payloads())


def test_a_sentence_without_a_place_is_void() -> None:
    assert gprmc(59.9) == b"$GPRMC,000059,V,0000.0000,N,00000.0000,E,000.0,000.0,010170,000.0,E*6A\r\n"
    assert b",A,0000.0000,N,00000.0000,E," in gprmc(0.0, 0.0, 0.0)  # where the equator meets Greenwich is a place
    # 59.99999 minutes are the next degree.
    assert b",4800.0000,N,01100.0000,W," in gprmc(0.0, 47.9999999, -10.9999999)
    with pytest.raises(ConfigError, match="latitude must be within -90 and 90"):
        gprmc(0.0, 91.0, 0.0)
    with pytest.raises(ConfigError, match="longitude within -180 and 180"):
        gprmc(0.0, 0.0, float("nan"))


def test_the_stream_has_both_kinds_in_order_of_time() -> None:
    lidar = ph.Lidar("velodyne/vlp-16")
    stream = VelodyneStream("velodyne/vlp-16", epoch_s=1e9)
    found = [d for k in range(3) for d in stream.add(made_up_scan(lidar, start=0.1 * k, seed=k))] + stream.finish()
    times = np.array([d.time_s for d in found])
    assert (np.diff(times) >= 0).all()
    kinds = {(len(d.payload), d.target[1], d.source) for d in found}
    assert kinds == {(1206, 2368, ("192.168.1.201", 2368)), (512, 8308, ("192.168.1.201", 8308))}
    position = times[[len(d.payload) == 512 for d in found]]
    assert np.diff(position) == pytest.approx(0.007, abs=1e-6)
    assert len(position) == pytest.approx(0.3 / 0.007, abs=1)
    quiet = VelodyneStream("velodyne/vlp-16", position_interval_s=None)
    assert {len(d.payload) for d in quiet.add(made_up_scan(lidar))} == {1206}


# ---- files ----------------------------------------------------------------------------------------------------------


def test_captures_are_read_by_others_and_by_us(tmp_path: Path) -> None:
    lidar = ph.Lidar("velodyne/hdl-32e", returns="dual")
    scan = made_up_scan(lidar, start=3.0, seed=6)
    file = tmp_path / "scan.pcap"
    write_cloud(scan, file, epoch_s=1.6e9)
    [(stamp, points)] = list(vd.read_pcap(str(file), vd.Config(min_range=0.0, max_range=300.0), as_pcl_structs=True))
    assert len(points) == len(scan)
    assert stamp.device == pytest.approx(1.6e9 + 3.1, abs=2e-3)
    cloud = read_cloud(file)
    assert len(cloud) == len(scan)
    assert (cloud.ring == scan.ring).all()
    assert [entry.name for entry in tmp_path.iterdir()] == ["scan.pcap"]
    first = file.read_bytes()
    write_cloud(scan, file, epoch_s=1.6e9)
    assert file.read_bytes() == first


def test_one_scan_or_one_sensor_of_a_capture(tmp_path: Path) -> None:
    lidar = ph.Lidar("velodyne/vlp-16", rate_hz=20.0)
    stream = VelodyneStream("velodyne/vlp-16")
    scans = [made_up_scan(lidar, start=0.05 * k, seed=k) for k in range(2)]
    found = [d for scan in scans for d in stream.add(scan)] + stream.finish()
    file = tmp_path / "a.pcap"
    with PcapWriter(file) as capture:
        for datagram in found:
            capture.write(*datagram)
    assert len(read_cloud(file)) == len(scans[0]) + len(scans[1])
    second = read_cloud(file, scan=1)
    assert "turn" not in second.fields
    assert (second.ring == scans[1].ring).all()
    with pytest.raises(FormatError, match="has the scans 0 to 1, not 2"):
        read_cloud(file, scan=2)
    with PcapWriter(file) as capture:
        for datagram in found:
            for address in ("10.0.0.1", "10.0.0.2"):
                capture.write(datagram.time_s, datagram.payload, (address, 2368), datagram.target)
    with pytest.raises(
        FormatError, match=r"packets of the sensors 10\.0\.0\.1, 10\.0\.0\.2; pass one of them as source"
    ):
        read_cloud(file)
    assert len(read_cloud(file, source="10.0.0.2")) == len(scans[0]) + len(scans[1])


def test_what_a_capture_cannot_be_made_of_is_reported(tmp_path: Path) -> None:
    scan = made_up_scan(ph.Lidar("velodyne/vlp-16"))
    file = tmp_path / "a.pcap"
    with pytest.raises(FormatError, match=r"a.pcap: a capture contains every pulse of a scan"):
        write_cloud(PointCloud(scan.xyz, scan.fields), file)
    other = ph.Lidar("velodyne/hdl-64e")
    with pytest.raises(
        FormatError, match="the packets of velodyne/hdl-64e are not supported; supported are velodyne/vlp-16"
    ):
        write_cloud(made_up_scan(other), file)
    assert list(tmp_path.iterdir()) == []
    with pytest.warns(UserWarning, match="pcap cannot store label; skipped"):
        write_cloud(scan.with_fields(label=scan.ring), file)


def test_captures_without_packets_that_are_known(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    with PcapWriter(file) as capture:
        capture.write(0.0, bytes(77))
    with pytest.raises(FormatError, match=r"no Velodyne data packets .* sizes of its datagrams: 77 bytes"):
        read_cloud(file)
