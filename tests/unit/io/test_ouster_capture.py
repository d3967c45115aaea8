"""Ouster recordings: our captures opened by Ouster's own tools, and real ones read by ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ouster_scans import random_scan, sdk_frames
from parhelion.core.errors import FormatError
from parhelion.core.streams import ImuData
from parhelion.io.captures import read_frames, write_capture
from parhelion.io.pcap import read_pcap
from parhelion.makers.codec import json_beside
from parhelion.makers.ouster.layout import PROFILES
from parhelion.makers.ouster.metadata import describe, read_metadata
from parhelion.makers.ouster.packets import OusterEncoder, metadata
from parhelion.sensors.optics.lidar.lidar import Lidar

core = pytest.importorskip("ouster.sdk.core", reason="ouster-sdk is not installed")

DATA = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "lidar"
REAL = {
    "OS-1-128_v2.3.0_1024x10_lb_n3": (128, 3),
    "OS-0-128-U1_v2.3.0_1024x10": (128, 1),
}
"""Recordings and their numbers of channels and frames."""


def imu_samples(count: int, start: float) -> ImuData:
    none = np.zeros((3, 3))
    return ImuData(
        start + 0.01 * np.arange(count), specific_force=np.tile([0.0, 0.0, 9.80665], (count, 1)),
        angular_rate=np.zeros((count, 3)), specific_force_covariance=none, angular_rate_covariance=none,
    )  # fmt: skip


@pytest.mark.parametrize("profile", PROFILES)
def test_ouster_s_reader_opens_our_captures(profile: str, tmp_path: Path) -> None:
    from ouster.sdk.pcap import PcapPacketSource

    lidar = Lidar("ouster/os1-64")
    dual = profile.endswith("DUAL")
    scans = [random_scan(lidar, k, dual=dual, start=7.0 + 0.1 * k) for k in range(3)]
    file = tmp_path / "drive.pcap"
    write_capture(scans, file, imu=imu_samples(30, 7.0), metadata=metadata(scans[0], profile))
    source = PcapPacketSource(str(file))
    info = source.sensor_info[0]
    packets = [packet for _, packet in source]
    lidar_packets = [packet for packet in packets if isinstance(packet, core.LidarPacket)]
    assert (len(lidar_packets), len(packets)) == (192, 222)
    arrived = np.array([packet.host_timestamp for packet in packets], np.int64)
    assert (np.diff(arrived) >= 0).all()
    assert arrived[0] == pytest.approx(7.0e9, abs=2e3)
    frames = sdk_frames([packet.buf for packet in lidar_packets], info)
    assert [int(frame.frame_id) for frame in frames] == [0, 1, 2]
    lut = core.XYZLut(info)
    for scan, frame in zip(scans, frames, strict=True):
        place = (63 - scan.ring.astype(int), scan.column.astype(int))
        away = np.min(
            [np.linalg.norm(lut(frame.field(name))[place] - scan.xyz, axis=1)
             for name in (("RANGE", "RANGE2") if dual else ("RANGE",))],
            axis=0,
        )  # fmt: skip
        assert away.max() < (0.0042 if profile == "RNG15_RFL8_NIR8" else 0.0007)


def test_our_reader_gives_scans_and_imu_back(tmp_path: Path) -> None:
    lidar = Lidar("ouster/os0-32", columns=512)
    scans = [random_scan(lidar, k, start=1.0 + 0.1 * k) for k in range(2)]
    write_capture(iter(scans), tmp_path / "a.pcap", imu=imu_samples(20, 1.0))
    again = list(read_frames(tmp_path / "a.pcap"))
    assert [len(scan) for scan in again] == [len(scan) for scan in scans]
    assert [scan.start_time for scan in again] == pytest.approx([1.0, 1.1], abs=1e-9)
    assert read_metadata(tmp_path / "a.json") == metadata(scans[0])
    imu = ImuData.load(tmp_path / "a.pcap")
    np.testing.assert_allclose(imu.specific_force[:, 2], 9.80665, rtol=1e-6)
    assert len(imu) == 20
    other = tmp_path / "elsewhere.json"
    (tmp_path / "a.json").rename(other)
    assert json_beside(tmp_path / "a.pcap") is None
    with pytest.raises(
        FormatError,
        match=r"no Ouster packets with the sensor's metadata beside",
    ):
        list(read_frames(tmp_path / "a.pcap"))
    assert len(list(read_frames(tmp_path / "a.pcap", metadata=other))) == 2


def test_packets_of_two_sensors_are_distinguished(tmp_path: Path) -> None:
    from parhelion.io.pcap import PcapWriter

    lidar = Lidar("ouster/os0-32", columns=512)
    encoders = [OusterEncoder(metadata(lidar, name=name)) for name in ("left", "right")]
    scans = [random_scan(lidar, k, start=1.0) for k in range(2)]
    with PcapWriter(tmp_path / "two.pcap") as capture:
        groups = [encoder.packets(scan) for encoder, scan in zip(encoders, scans, strict=True)]
        for left, right in zip(groups[0].data, groups[1].data, strict=True):
            capture.write(1.0, left.tobytes())
            capture.write(1.0, right.tobytes())
    for encoder, scan in zip(encoders, scans, strict=True):
        (tmp_path / "one.json").write_text(json.dumps(encoder.document))
        (found,) = read_frames(tmp_path / "two.pcap", metadata=tmp_path / "one.json")
        np.testing.assert_array_equal(found.shot, scan.shot)


def test_wrong_files_are_reported(tmp_path: Path) -> None:
    lidar = Lidar("ouster/os0-32", columns=512)
    file = tmp_path / "x.pcap"
    with pytest.raises(FormatError, match="there is no scan to write"):
        write_capture([], file)
    assert list(tmp_path.iterdir()) == []
    write_capture([random_scan(lidar)], file)
    with pytest.raises(FormatError, match=r"folder .*none does not exist"):
        write_capture([random_scan(lidar)], tmp_path / "none" / "x.pcap")
    whole, document = file.read_bytes(), (tmp_path / "x.json").read_text()
    file.write_bytes(whole[: len(whole) // 2 + 7])
    with pytest.raises(FormatError, match="truncated"):
        list(read_frames(file))
    file.write_bytes(whole)
    for text, message in (
        ("{", "is not a JSON file"),
        ("[]", "expected Ouster metadata"),
        ("{}", "'beam_altitude_angles' is missing"),
    ):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(FormatError, match=message):
            list(read_frames(file))
    (tmp_path / "x.json").write_text(document.replace("RNG19_RFL8_SIG16_NIR16", "RNG15_RFL8_NIR8"))
    with pytest.raises(FormatError, match=r"no lidar packet of 2304 bytes, .* sizes of payloads: 6400"):
        list(read_frames(file))


def test_a_failed_write_leaves_the_earlier_recording(tmp_path: Path) -> None:
    lidar = Lidar("ouster/os0-32", columns=512)
    file = tmp_path / "x.pcap"
    write_capture([random_scan(lidar)], file)
    before = file.read_bytes()

    def failing() -> Any:
        yield random_scan(lidar)
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_capture(failing(), file)
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json", "x.pcap"]


# ---- real recordings -----------------------------------------------------------------------------------------------


@pytest.fixture(params=REAL)
def real(request: pytest.FixtureRequest) -> Path:
    file = DATA / f"{request.param}.pcap"
    if not file.is_file():
        pytest.skip(f"the recording {file.name} is not there")
    return file


def test_real_recordings_are_read_as_ouster_reads_them(real: Path) -> None:
    document = json_beside(real)
    assert document is not None
    info = core.SensorInfo(document.read_text())
    lut = core.XYZLut(info)
    payloads = [datagram.payload for datagram in read_pcap(real) if len(datagram.payload) == 8448]
    frames = sdk_frames(payloads, info)
    scans = list(read_frames(real))
    channels, count = REAL[real.stem]
    assert len(scans) == len(frames) == count
    for scan, frame in zip(scans, frames, strict=True):
        field = frame.field("RANGE")
        assert len(scan) == int((field > 0).sum()) > 10_000
        place = (channels - 1 - scan.ring.astype(int), scan.column.astype(int))
        np.testing.assert_allclose(scan.xyz, lut(field)[place], atol=2e-5)
        np.testing.assert_array_equal(scan.near_ir, frame.field("NEAR_IR")[place])
        assert scan.metadata["frame_id"] == frame.frame_id
        times = np.round((scan.start_time + scan.time.astype(np.float64)) * 1e9) - frame.timestamp[place[1]].astype(
            float
        )
        assert np.abs(times).max() < 50  # single-precision seconds


def test_real_headers_and_rhythm_are_as_ours(real: Path, tmp_path: Path) -> None:
    """Packets of the preset, beside those of a real unit of its kind: sizes, headers, numbers and steps of time."""
    document = json_beside(real)
    assert document is not None
    known = read_metadata(document)
    sensor = describe(known)
    lidar = Lidar(sensor.model)
    ours_document = metadata(lidar, sensor.profile)
    ours = OusterEncoder(ours_document).packets(random_scan(lidar, start=991.0), 1795).data
    theirs = np.array(
        [np.frombuffer(part.payload, np.uint8) for part in read_pcap(real) if len(part.payload) == ours.shape[1]]
    )[: len(ours)]
    assert theirs.shape == ours.shape
    readers = [core.PacketFormat(core.SensorInfo(json.dumps(one))) for one in (ours_document, known)]
    columns = [
        {
            header: np.concatenate([reader.packet_header(header, row) for row in rows]).astype(np.int64)
            for header in (core.ColHeader.MEASUREMENT_ID, core.ColHeader.STATUS, core.ColHeader.TIMESTAMP)
        }
        for reader, rows in zip(readers, (ours, theirs), strict=True)
    ]
    for header in (core.ColHeader.MEASUREMENT_ID, core.ColHeader.STATUS):
        np.testing.assert_array_equal(columns[0][header], columns[1][header])
    steps = [np.diff(one[core.ColHeader.TIMESTAMP]) for one in columns]
    assert steps[0].mean() == pytest.approx(97656.25, abs=0.01)
    # The real head turns unevenly by a few parts in a thousand.
    assert steps[1].mean() == pytest.approx(steps[0].mean(), rel=5e-3)
    # Type, and the bytes between alerts and the first column: zero in both.
    np.testing.assert_array_equal(ours[:, :2], theirs[:, :2])
    np.testing.assert_array_equal(ours[:, 12:32], theirs[:, 12:32])
    # The real unit's firmware is older than the checksum, and has a mark in its place.
    np.testing.assert_array_equal(ours[:, -32:-8], theirs[:, -32:-8])
    info = core.SensorInfo(json.dumps(ours_document))
    real_info = core.SensorInfo(document.read_text())
    assert info.format.columns_per_frame == real_info.format.columns_per_frame
    assert abs(info.lidar_origin_to_beam_origin_mm - real_info.lidar_origin_to_beam_origin_mm) < 1e-3
    np.testing.assert_allclose(info.lidar_to_sensor_transform, real_info.lidar_to_sensor_transform, atol=1e-3)
    np.testing.assert_allclose(info.imu_to_sensor_transform, real_info.imu_to_sensor_transform, atol=1e-9)


def test_real_recordings_written_anew_hold_the_same_ranges(real: Path, tmp_path: Path) -> None:
    """Decoded and encoded again with the unit's own metadata: every range, reflectivity and near-infrared is back."""
    document = json_beside(real)
    assert document is not None
    shutil.copy(document, tmp_path / "own.json")
    known = read_metadata(tmp_path / "own.json")
    scans = list(read_frames(real))
    encoder = OusterEncoder(known)
    reader = core.PacketFormat(core.SensorInfo(document.read_text()))
    originals = [part.payload for part in read_pcap(real) if len(part.payload) == 8448]
    number = 0
    for scan in scans:
        for row in encoder.packets(scan, scan.metadata["frame_id"]).data:
            original = np.frombuffer(originals[number], np.uint8)
            ranges = [reader.packet_field("RANGE", part) for part in (row, original)]
            np.testing.assert_array_equal(*ranges)
            hit = ranges[1] > 0
            for name in ("REFLECTIVITY", "NEAR_IR"):
                ours, theirs = (reader.packet_field(name, part) for part in (row, original))
                np.testing.assert_array_equal(ours[hit], theirs[hit])
            assert reader.frame_id(row) == reader.frame_id(original)
            number += 1
    assert number == len(originals)
