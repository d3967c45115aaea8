"""Ouster packets, checked with Ouster's own decoder: points, fields, headers and times of every preset and mode."""

from __future__ import annotations

import json
import lzma
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ouster_scans import random_scan, sdk_frames
from parhelion.core.clouds import PointCloud, Scan, Shots
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Pose
from parhelion.core.streams import ImuData
from parhelion.makers.ouster.layout import MODES, PROFILES, crc64, packet_type
from parhelion.makers.ouster.metadata import describe, geometry
from parhelion.makers.ouster.packets import (
    OusterEncoder,
    decode,
    decode_imu,
    encode,
    encode_imu,
    metadata,
    reflectivity_counts,
    reflectivity_of_counts,
)
from parhelion.sensors.optics.lidar.lidar import Lidar

core = pytest.importorskip("ouster.sdk.core", reason="ouster-sdk is not installed")

PRESETS = [f"ouster/os{kind}-{rows}" for kind in (0, 1, 2) for rows in (32, 64, 128)]
OFFERED = [(512, 10.0), (1024, 10.0), (2048, 10.0), (512, 20.0), (1024, 20.0)]
SINGLE, DUAL, LOW = "RNG19_RFL8_SIG16_NIR16", "RNG19_RFL8_SIG16_NIR16_DUAL", "RNG15_RFL8_NIR8"
HALF_STEP_M = {"LEGACY": 0.5e-3, SINGLE: 0.5e-3, DUAL: 0.5e-3, LOW: 4e-3}
SLACK_M = 0.15e-3  # single-precision coordinates at 150 m, and angles of 1e-5 degrees


@pytest.fixture(scope="module")
def lidar() -> Lidar:
    return Lidar("ouster/os0-32", columns=512)


def flat_metadata(document: dict[str, Any]) -> dict[str, Any]:
    """A document in the flat form that firmware 2.3 and tools of its time write and read."""
    beams, config, info = (document[name] for name in ("beam_intrinsics", "config_params", "sensor_info"))
    data_format = {key: value for key, value in document["lidar_data_format"].items() if key != "fps"}
    return {
        **info,
        "beam_altitude_angles": beams["beam_altitude_angles"],
        "beam_azimuth_angles": beams["beam_azimuth_angles"],
        "client_version": "",
        "data_format": data_format,
        "hostname": "",
        "imu_to_sensor_transform": document["imu_intrinsics"]["imu_to_sensor_transform"],
        "json_calibration_version": 4,
        "lidar_mode": config["lidar_mode"],
        "lidar_origin_to_beam_origin_mm": beams["lidar_origin_to_beam_origin_mm"],
        "lidar_to_sensor_transform": document["lidar_intrinsics"]["lidar_to_sensor_transform"],
        "udp_port_imu": config["udp_port_imu"],
        "udp_port_lidar": config["udp_port_lidar"],
    }


def info_of(document: dict[str, Any]) -> Any:
    return core.SensorInfo(json.dumps(document))


def with_shots(scan: Scan, keep: np.ndarray) -> Scan:
    """The scan with only these of its shots."""
    row = np.cumsum(keep) - 1
    of_point = keep[scan.shot]
    fields = {name: values[of_point] for name, values in scan.fields.items()}
    fields["shot"] = row[fields["shot"]].astype(np.uint32)
    shots = Shots(*(None if values is None else values[keep] for values in vars(scan.shots).values()))
    return Scan(scan.xyz[of_point], fields, metadata=scan.metadata, shots=shots, start_time=scan.start_time)


def check_points(scan: Scan, frame: Any, info: Any, profile: str) -> None:
    """Every pixel of the decoder's frame is a return of the scan, at its place, and every return is there."""
    rows, columns = info.format.pixels_per_column - 1 - scan.ring.astype(int), scan.column.astype(int)
    lut = core.XYZLut(info)
    half_step = HALF_STEP_M[profile]
    found = np.zeros(len(scan), int)
    pixels = 0
    for name in ("RANGE", "RANGE2") if profile == DUAL else ("RANGE",):
        field = frame.field(name)
        pixels += int((field > 0).sum())
        away = np.linalg.norm(lut(field)[rows, columns] - scan.xyz, axis=1)
        found += (field[rows, columns] > 0) & (away <= half_step + SLACK_M)
    if profile == DUAL:
        np.testing.assert_array_equal(found, 1)
        assert pixels == len(scan)
    else:
        assert pixels == int((scan.shots.return_count > 0).sum())
        per_shot = np.bincount(scan.shot, weights=found, minlength=len(scan.shots))
        np.testing.assert_array_equal(per_shot, scan.shots.return_count > 0)


# ---- points --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_points_of_every_preset_and_mode(preset: str) -> None:
    for number, (columns, rate) in enumerate(OFFERED):
        profile = list(PROFILES)[(number + PRESETS.index(preset)) % 4]
        lidar = Lidar(preset, columns=columns, rate_hz=rate)
        scan = random_scan(lidar, number, dual=profile == DUAL, start=2.0)
        document = metadata(scan, profile)
        info = info_of(document)
        assert str(info.config.lidar_mode) == f"{columns}x{rate:g}"
        assert info.prod_line == preset.replace("ouster/os", "OS-")
        packets = encode(scan, document, frame_number=3)
        frames = sdk_frames(packets.data, info)
        assert len(frames) == 1
        assert frames[0].complete()
        assert len(packets) == columns // 16
        check_points(scan, frames[0], info, profile)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("dual", [False, True])
def test_every_profile_with_one_and_two_returns(profile: str, dual: bool, lidar: Lidar) -> None:
    scan = random_scan(lidar, 5, dual=dual)
    document = metadata(lidar, profile)
    frame = sdk_frames(encode(scan, document).data, info_of(document))[0]
    check_points(scan, frame, info_of(document), profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_fields_of_the_strongest_return_come_first(profile: str, lidar: Lidar) -> None:
    scan = random_scan(lidar, 6, dual=True)
    document = metadata(scan, profile)
    frame = sdk_frames(encode(scan, document).data, info_of(document))[0]
    order = np.lexsort((-scan.power, scan.shot))
    shot = scan.shot[order]
    first = np.concatenate([[True], shot[1:] != shot[:-1]])
    for suffix, chosen in (("", order[first]), ("2", order[~first])):
        if suffix and profile != DUAL:
            continue
        place = (31 - scan.ring[chosen].astype(int), scan.column[chosen].astype(int))
        expected = reflectivity_counts(scan.reflectivity[chosen])
        np.testing.assert_array_equal(frame.field(f"REFLECTIVITY{suffix}")[place], expected)
        if profile != LOW:
            np.testing.assert_array_equal(frame.field(f"SIGNAL{suffix}")[place], scan.intensity[chosen])
        unit = 16 if profile == LOW else 1
        if not suffix:
            got = frame.field("NEAR_IR")[place].astype(int)
            np.testing.assert_allclose(got, scan.near_ir[chosen], atol=unit / 2)
            np.testing.assert_array_equal(got % unit, 0)


def test_lost_shots_are_zero(lidar: Lidar) -> None:
    scan = random_scan(lidar, 7)
    empty = Scan(
        np.zeros((0, 3), np.float32), {name: values[:0] for name, values in scan.fields.items()}, shots=scan.shots
    )
    document = metadata(lidar, SINGLE)
    frame = sdk_frames(encode(empty, document).data, info_of(document))[0]
    for name in ("RANGE", "REFLECTIVITY", "SIGNAL", "NEAR_IR"):
        assert not frame.field(name).any()
    assert frame.complete()
    assert frame.status.all()


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_lost_pixels_keep_near_infrared_and_the_signal_of_noise(profile: str, lidar: Lidar) -> None:
    scan, rng = random_scan(lidar, 3), np.random.default_rng(8)
    light = rng.integers(0, 250, len(scan.shots)).astype(np.float32) * 16
    noise = np.where(scan.lost, rng.integers(1, 12, len(scan.shots)), 0).astype(np.float32)
    counted = replace(scan, shots=replace(scan.shots, near_ir=light, noise=noise))
    document = metadata(lidar, profile)
    decoded = decode([bytes(row) for row in encode(counted, document).data], document)[0]
    # Columns and rows stand in Ouster's own order there.
    ours, theirs = (np.lexsort((one.shots.ring, one.shots.column)) for one in (counted, decoded))
    lost = counted.lost[ours]
    assert np.array_equal(lost, decoded.lost[theirs])
    assert decoded.shots.near_ir is not None
    assert np.array_equal(decoded.shots.near_ir[theirs][lost], light[ours][lost])
    if PROFILES[profile].of("signal", 0) is None:
        assert decoded.shots.noise is None
    else:
        assert decoded.shots.noise is not None
        assert np.array_equal(decoded.shots.noise[theirs], noise[ours])


def test_metadata_of_firmware_2_3_is_read_as_the_same_sensor(lidar: Lidar) -> None:
    document = metadata(lidar)
    flat = flat_metadata(document)
    assert all(not isinstance(value, dict) for key, value in flat.items() if key != "data_format")
    ours, theirs = describe(document), describe(flat)
    for name in ("profile", "columns", "rate_hz", "window", "beam_offset_m", "product", "serial", "initialisation"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert np.array_equal(ours.altitude_deg, theirs.altitude_deg)
    assert np.array_equal(ours.lidar_to_sensor, theirs.lidar_to_sensor)
    info = info_of(flat)
    assert (info.prod_line, str(info.config.lidar_mode)) == (document["sensor_info"]["prod_line"], flat["lidar_mode"])


@pytest.mark.parametrize(("profile", "longest"), [("LEGACY", 1048.575), (SINGLE, 524.287), (LOW, 262.136)])
def test_ranges_beyond_the_field_are_left_out(profile: str, longest: float, lidar: Lidar) -> None:
    assert PROFILES[profile].longest_m == pytest.approx(longest)
    scan = random_scan(lidar, 8)
    offset, step = geometry(lidar).beam_offset_m, PROFILES[profile].range_unit_mm * 1e-3
    metres = np.where(np.arange(len(scan)) % 2, longest - offset - 1e-4, longest - offset + step).astype(np.float32)
    document = metadata(lidar, profile)
    field = sdk_frames(encode(scan.with_fields(range=metres), document).data, info_of(document))[0].field("RANGE")
    assert int((field > 0).sum()) == len(scan) // 2
    assert int(field.max()) == round(longest * 1e3)


def test_near_ir_and_signal_saturate(lidar: Lidar) -> None:
    scan = random_scan(lidar, 9)
    many = np.full(len(scan), 1e6, np.float32)
    for profile, limit in ((SINGLE, 65535), (LOW, 255 * 16)):
        document = metadata(lidar, profile)
        frame = sdk_frames(encode(scan.with_fields(near_ir=many, intensity=many), document).data, info_of(document))[0]
        assert int(frame.field("NEAR_IR").max()) == limit


def test_reflectivity_scale() -> None:
    assert reflectivity_counts(np.array([0.0, 0.004, 0.1, 1.0, 2.0, 1e9, np.nan])).tolist() == [
        0, 0, 10, 100, 116, 255, 0,
    ]  # fmt: skip
    counts = np.arange(256)
    np.testing.assert_array_equal(reflectivity_counts(reflectivity_of_counts(counts)), counts)


# ---- headers and times ---------------------------------------------------------------------------------------------


def test_headers_as_the_decoder_reads_them(lidar: Lidar) -> None:
    scan = random_scan(lidar, 10, start=12.5)
    document = metadata(lidar, SINGLE, name="front")
    info = info_of(document)
    reader = core.PacketFormat(info)
    packets = encode(scan, document, frame_number=65536 + 41)
    for number, payload in enumerate(packets.data):
        assert reader.packet_type(payload) == 1
        assert reader.frame_id(payload) == 41
        assert reader.init_id(payload) == info.init_id == document["sensor_info"]["initialization_id"]
        assert reader.prod_sn(payload) == info.sn
        assert reader.alert_flags(payload) == 0
        assert str(reader.thermal_shutdown(payload)) == str(reader.shot_limiting(payload)) == "NORMAL"
        assert reader.crc(payload) == reader.calculate_crc(payload)
        ids = reader.packet_header(core.ColHeader.MEASUREMENT_ID, payload)
        np.testing.assert_array_equal(ids, np.arange(16) + 16 * number)
        np.testing.assert_array_equal(reader.packet_header(core.ColHeader.STATUS, payload), 1)


def test_legacy_columns_have_frame_encoder_and_status(lidar: Lidar) -> None:
    document = metadata(lidar, "LEGACY")
    reader = core.PacketFormat(info_of(document))
    payload = encode(random_scan(lidar), document, frame_number=7).data[2]
    encoder = reader.packet_header(core.ColHeader.ENCODER_COUNT, payload)
    np.testing.assert_array_equal(encoder, (np.arange(16) + 32) * 90112 // 512)
    np.testing.assert_array_equal(reader.packet_header(core.ColHeader.FRAME_ID, payload), 7)
    np.testing.assert_array_equal(reader.packet_header(core.ColHeader.STATUS, payload), 0xFFFFFFFF)


def test_times_go_on_from_scan_to_scan(lidar: Lidar) -> None:
    encoder = OusterEncoder(metadata(lidar, SINGLE))
    groups = [encoder.packets(random_scan(lidar, k, start=100.0 + 0.1 * k), 65534 + k) for k in range(4)]
    frames = sdk_frames([row for group in groups for row in group.data], info_of(dict(encoder.document)))
    times = np.concatenate([frame.timestamp for frame in frames]).astype(np.int64)
    assert times[0] == 100_000_000_000
    steps = np.diff(times)
    assert steps.min() > 0
    np.testing.assert_allclose(steps, 1e9 / 5120, atol=1.5)
    assert [int(frame.frame_id) for frame in frames] == [65534, 65535, 0, 1]
    sent = np.concatenate([group.time for group in groups])
    assert (np.diff(sent) > 0).all()
    # A packet leaves when its last column is there.
    np.testing.assert_allclose(sent, times.reshape(-1, 16)[:, -1] * 1e-9, rtol=0, atol=1e-9)


def test_columns_that_the_scan_lacks_are_invalid(lidar: Lidar) -> None:
    scan = random_scan(lidar, 11, start=1.0)
    lost = np.isin(scan.shots.column, [0, 1, 37, 200, 511])
    part = with_shots(scan, ~lost)
    for profile in PROFILES:
        document = metadata(lidar, profile)
        frame = sdk_frames(encode(part, document).data, info_of(document))[0]
        assert np.flatnonzero((frame.status & 1) == 0).tolist() == [0, 1, 37, 200, 511]
        check_points(part, frame, info_of(document), profile)


def test_a_column_window_has_only_its_packets(lidar: Lidar) -> None:
    scan = random_scan(lidar, 12)
    part = with_shots(scan, (scan.shots.column >= 100) & (scan.shots.column <= 300))
    document = metadata(part, SINGLE)
    assert document["lidar_data_format"]["column_window"] == [100, 300]
    packets = encode(part, document)
    assert len(packets) == 300 // 16 - 100 // 16 + 1
    frame = sdk_frames(packets.data, info_of(document))[0]
    assert np.flatnonzero(frame.status).tolist() == list(range(100, 301))
    check_points(with_shots(scan, (scan.shots.column >= 100) & (scan.shots.column <= 300)), frame, info_of(document),
                 SINGLE)  # fmt: skip
    again = decode([row.tobytes() for row in packets.data], document)[0]
    assert sorted(set(again.column.tolist())) == list(range(100, 301))


# ---- metadata ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
def test_metadata_has_the_preset_s_own_angles(preset: str) -> None:
    lidar = Lidar(preset)
    document = metadata(lidar)
    pattern = lidar.config.pattern
    beams = document["beam_intrinsics"]
    np.testing.assert_allclose(beams["beam_altitude_angles"], pattern.channels.elevation_deg, atol=2e-5)
    np.testing.assert_allclose(beams["beam_azimuth_angles"], np.negative(pattern.channels.azimuth_deg), atol=2e-5)
    assert beams["lidar_origin_to_beam_origin_mm"] == pytest.approx(pattern.beam_offset_mm, abs=1e-3)
    info = info_of(document)
    assert info.lidar_to_sensor_transform[2, 3] == pytest.approx(pattern.height_mm, abs=1e-3)
    np.testing.assert_allclose(np.diag(info.lidar_to_sensor_transform), [-1, -1, 1, 1])
    assert not info.has_fields_equal(core.SensorInfo())
    assert min(document["lidar_data_format"]["pixel_shift_by_row"]) == 0


def test_pixel_shifts_are_those_of_a_real_unit() -> None:
    shifts = metadata(Lidar("ouster/os1-128"))["lidar_data_format"]["pixel_shift_by_row"]
    assert shifts[:5] == [24, 16, 8, 0, 24]


def test_profile_follows_the_returns() -> None:
    def profile(**options: Any) -> str:
        return str(metadata(Lidar("ouster/os0-32", **options))["lidar_data_format"]["udp_profile_lidar"])

    assert profile() == SINGLE
    assert profile(returns="dual") == DUAL


def test_the_imu_s_pose_is_in_millimetres(lidar: Lidar) -> None:
    document = metadata(lidar, imu=Pose(xyz=(0.1, -0.02, 0.3), rpy_deg=(0, 0, 90)))
    matrix = info_of(document).imu_to_sensor_transform
    np.testing.assert_allclose(matrix[:3, 3], [100.0, -20.0, 300.0])
    np.testing.assert_allclose(matrix[:3, :3], [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-12)


def test_sensors_of_one_model_have_serial_numbers_of_their_own(lidar: Lidar) -> None:
    serials = {metadata(lidar, name=name)["sensor_info"]["prod_sn"] for name in ("", "left", "right")}
    assert len(serials) == 3
    assert metadata(lidar, name="left") == metadata(lidar, name="left")


# ---- IMU, checksum, decoding ---------------------------------------------------------------------------------------


def test_imu_packets(lidar: Lidar) -> None:
    rng = np.random.default_rng(3)
    samples = ImuData(
        np.arange(50) * 0.01 + 5.0, specific_force=rng.normal(0, 9, (50, 3)), angular_rate=rng.normal(0, 1, (50, 3)),
        specific_force_covariance=np.zeros((3, 3)), angular_rate_covariance=np.zeros((3, 3)),
    )  # fmt: skip
    packets = encode_imu(samples)
    assert packets.data.shape == (50, 48)
    reader = core.PacketFormat(info_of(metadata(lidar)))
    assert reader.imu_packet_size == 48
    for row, payload in enumerate(packets.data):
        assert reader.imu_sys_ts(payload) == reader.imu_gyro_ts(payload) == round(samples.time[row] * 1e9)
        force = [getattr(reader, f"imu_la_{axis}")(payload) for axis in "xyz"]
        rate = [getattr(reader, f"imu_av_{axis}")(payload) for axis in "xyz"]
        np.testing.assert_allclose(np.array(force) * 9.80665, samples.specific_force[row], rtol=1e-6)
        np.testing.assert_allclose(np.radians(rate), samples.angular_rate[row], rtol=1e-6)
    again = decode_imu([row.tobytes() for row in packets.data])
    np.testing.assert_allclose(again.specific_force, samples.specific_force, rtol=1e-6)
    np.testing.assert_allclose(again.time, samples.time, rtol=0, atol=1e-9)


@given(st.integers(8, 3000), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_checksum_is_that_of_xz_files(size: int, seed: int) -> None:
    data = np.random.default_rng(seed).integers(0, 256, (3, size)).astype(np.uint8)
    for row, value in zip(data, crc64(data), strict=True):
        archive = lzma.compress(row.tobytes(), format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=0)
        # The checksum ends the only block: before the index, whose size is in the last 12 bytes.
        index = (int.from_bytes(archive[-8:-4], "little") + 1) * 4
        assert int(value) == int.from_bytes(archive[-12 - index - 8 : -12 - index], "little")


@pytest.mark.parametrize("profile", PROFILES)
def test_decoding_gives_the_scan_back(profile: str, lidar: Lidar) -> None:
    scan = random_scan(lidar, 13, dual=profile == DUAL, start=3.0)
    document = metadata(lidar, profile)
    payloads = [row.tobytes() for row in encode(scan, document, frame_number=9).data]
    (again,) = decode([b"x" * 48, *payloads, b""], document)
    np.testing.assert_allclose(again.xyz, scan.xyz, atol=HALF_STEP_M[profile] + SLACK_M)
    np.testing.assert_allclose(again.range, scan.range, atol=HALF_STEP_M[profile] + 2e-5)
    for name in ("ring", "column", "return_index", "return_count", "shot"):
        np.testing.assert_array_equal(again.fields[name], scan.fields[name])
    np.testing.assert_allclose(again.shots.direction, scan.shots.direction, atol=3e-7)
    np.testing.assert_allclose(again.shots.origin, scan.shots.origin, atol=1e-7)
    np.testing.assert_array_equal(again.shots.return_count, scan.shots.return_count)
    np.testing.assert_allclose(again.shots.time, scan.shots.time, atol=1e-8)
    assert again.start_time == pytest.approx(3.0, abs=1e-9)
    assert again.metadata["sensor"] == "ouster/os0-32"
    assert again.metadata["frame_id"] == 9
    if profile != LOW:
        np.testing.assert_array_equal(again.intensity, scan.intensity)
    if profile != DUAL:
        first, second = (encode(one, document, frame_number=9).data for one in (again, scan))
        np.testing.assert_array_equal(first, second)


def test_frames_are_distinguished_across_the_wrap_and_late_packets(lidar: Lidar) -> None:
    encoder = OusterEncoder(metadata(lidar, SINGLE))
    scans = [random_scan(lidar, k, start=1.0 + 0.1 * k) for k in range(3)]
    payloads = [row.tobytes() for k, scan in enumerate(scans) for row in encoder.packets(scan, 65535 + k).data]
    payloads[31], payloads[32] = payloads[32], payloads[31]
    payloads.insert(5, payloads[4])
    del payloads[50]
    again = decode(payloads, encoder.document)
    assert [scan.metadata["frame_id"] for scan in again] == [65535, 0, 1]
    assert [len(set(scan.shots.column.tolist())) for scan in again] == [512, 496, 512]
    assert len(again[0]) == len(scans[0])


# ---- wrong input ---------------------------------------------------------------------------------------------------


def test_wrong_input_is_reported(lidar: Lidar) -> None:
    scan = random_scan(lidar)
    document = metadata(lidar, SINGLE)
    with pytest.raises(ConfigError, match="unknown Ouster lidar profile 'LEGACI': did you mean 'LEGACY'"):
        metadata(lidar, "LEGACI")
    with pytest.raises(ConfigError, match="expected a Scan with its table of shots, got a PointCloud"):
        encode(PointCloud(np.zeros((1, 3))), document)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected a scan or a lidar"):
        metadata("ouster/os1-128")
    with pytest.raises(ConfigError, match="mode 512x10 with 32 channels, the metadata of 1024x10 with 32"):
        encode(scan, metadata(Lidar("ouster/os0-32")))
    with pytest.raises(ConfigError, match="beam angles differ"):
        encode(scan, metadata(Lidar("ouster/os1-32", columns=512)))
    with pytest.raises(ConfigError, match=r"times must be from 0 to 9e\+09 s; the scan starts at -1 s"):
        encode(random_scan(lidar, start=-1.0), document)
    with pytest.raises(ConfigError, match="none of Ouster's modes"):
        metadata(Lidar("velodyne/vlp-16"))
    with pytest.raises(ConfigError, match="single column"):
        metadata(with_shots(scan, scan.shots.column == 3))
    with pytest.raises(FormatError, match=r"no lidar packet of 6400 bytes, .* sizes of payloads: 48, 100"):
        decode([bytes(48), bytes(100)], document)


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("lidar_data_format", "udp_profile_lidar", "FUSA_RNG15_RFL8_NIR8_DUAL", "is not supported; supported: LEGACY"),
        ("config_params", "lidar_mode", "77x3", "lidar_mode '77x3' is not supported"),
        ("beam_intrinsics", "beam_altitude_angles", [1.0, float("nan")], "beam_altitude_angles must be numbers"),
        ("beam_intrinsics", "beam_azimuth_angles", [1.0], "beam_azimuth_angles must be 32 numbers"),
        ("lidar_intrinsics", "lidar_to_sensor_transform", "none", "must be 16 numbers, got none"),
        ("lidar_data_format", "columns_per_packet", 32, "packets hold 16"),
    ],
)
def test_wrong_metadata_is_reported(section: str, key: str, value: Any, message: str, lidar: Lidar) -> None:
    document = metadata(lidar)
    document[section][key] = value
    with pytest.raises(FormatError, match=message):
        decode([], document)


def test_packet_sizes_are_the_documented_ones() -> None:
    sizes = {name: packet_type(name, 128).itemsize for name in PROFILES}
    assert sizes == {"LEGACY": 24896, SINGLE: 24832, DUAL: 33024, LOW: 8448}
    assert set(MODES) >= {f"{columns}x{rate:g}" for columns, rate in OFFERED}


# ---- early firmware ------------------------------------------------------------------------------------------------


def with_firmware(document: dict[str, Any], version: str) -> dict[str, Any]:
    """The document of a sensor with another firmware."""
    info = {**document["sensor_info"], "build_rev": version, "image_rev": version}
    return {**document, "sensor_info": info}


def wide_reflectivity(packets: Any, document: dict[str, Any], values: np.ndarray) -> list[bytes]:
    """LEGACY packets whose pixels hold 16-bit reflectivity."""
    sensor = describe(document)
    data = packets.data.copy().view(packet_type("LEGACY", sensor.channels)).reshape(-1)
    pixels = data["columns"]["pixels"]
    raw = pixels.view(np.uint8).reshape(*pixels.shape, pixels.dtype.itemsize).copy()
    raw[..., 4], raw[..., 5] = values & 0xFF, values >> 8
    data["columns"]["pixels"] = raw.view(pixels.dtype).reshape(pixels.shape)
    return [row.tobytes() for row in data]


@pytest.mark.parametrize("version", ["v1.13.0", "v2.0.0", ""])
def test_reflectivity_of_early_firmware_is_not_read_as_a_byte(version: str, lidar: Lidar) -> None:
    """Before 2.1 it has 16 bits, about signal times range squared; without a version, the upper bytes decide."""
    scan, document = random_scan(lidar), with_firmware(metadata(lidar, "LEGACY"), version)
    packets = encode(scan, document)
    payloads = wide_reflectivity(packets, document, np.full(packets.data.shape[0], 300)[:, None, None])
    (found,) = decode(payloads, document)
    assert "reflectivity" not in found.fields
    assert found.metadata["reflectivity_calibrated"] is False
    assert np.array_equal(found.intensity, scan.intensity)


@pytest.mark.parametrize("version", ["v2.1.1", "v2.3.0", "ousteros-image-prod-aries-v2.2.0"])
def test_reflectivity_of_later_firmware_is_a_calibrated_byte(version: str, lidar: Lidar) -> None:
    document = with_firmware(metadata(lidar, "LEGACY"), version)
    (found,) = decode([row.tobytes() for row in encode(random_scan(lidar), document).data], document)
    assert "reflectivity" in found.fields
    assert found.metadata["reflectivity_calibrated"] is True
    status = {"calibration_status": {"reflectivity": {"timestamp": "", "valid": False}}}
    (found,) = decode([row.tobytes() for row in encode(random_scan(lidar), document).data], {**document, **status})
    assert found.metadata["reflectivity_calibrated"] is False


def test_beam_angles_of_reduced_metadata_are_read() -> None:
    """Some captures come with the angles alone; the mode is then the most common one."""
    whole = metadata(Lidar("ouster/os0-32"))
    angles = {name: whole["beam_intrinsics"][name] for name in ("beam_altitude_angles", "beam_azimuth_angles")}
    found = describe({**angles, "data_format": {"columns_per_frame": 2048}})
    assert found.altitude_deg.tolist() == angles["beam_altitude_angles"]
    assert (found.columns, found.rate_hz, found.profile) == (2048, 10.0, "LEGACY")
    assert describe(angles).columns == 1024
