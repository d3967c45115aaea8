"""Presets and shot geometry against recordings of real sensors, and against the makers' own decoders.

The recordings lie outside the repository (`../shared/data/lidar`); where they or the decoders are absent, tests skip.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.sensors.optics.lidar.config import SpinningPattern
from parhelion.sensors.optics.lidar.patterns import shot_table

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "lidar"
OUSTER_UNITS = {
    "ouster/os0-128": ("OS-0-128-U1_v2.3.0_1024x10.json", "OS-0-128-U1_v2.3.0_1024x10.pcap"),
    "ouster/os1-128": ("OS-1-128_v2.3.0_1024x10.json", "OS-1-128_v2.3.0_1024x10_lb_n3.pcap"),
}
VELODYNE_PORT = 2368
VLP16_PRODUCT_BYTE = 0x22


def recording(name: str) -> Path:
    file = DATA / name
    if not file.exists():
        pytest.skip(f"recording {name} is not here")
    return file


def preset(name: str) -> SpinningPattern:
    pattern = ph.Lidar(name).config.pattern
    assert isinstance(pattern, SpinningPattern)
    return pattern


def preset_column(name: str, field: str) -> np.ndarray[Any, Any]:
    channels = preset(name).channels
    return np.asarray(getattr(channels, field) or np.zeros(len(channels.elevation_deg)))


# Ouster -----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=sorted(OUSTER_UNITS))
def ouster_unit(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], Path, Path]:
    metadata, packets = (recording(file) for file in OUSTER_UNITS[request.param])
    return request.param, json.loads(metadata.read_text()), metadata, packets


def unit_pattern(name: str, metadata: dict[str, Any]) -> SpinningPattern:
    """The preset's pattern with this unit's calibration in place of the nominal one."""
    pattern = preset(name)
    channels = pattern.channels.model_copy(
        update={
            "elevation_deg": metadata["beam_altitude_angles"],
            "azimuth_deg": [-angle for angle in metadata["beam_azimuth_angles"]],
        }
    )
    offset = metadata["lidar_origin_to_beam_origin_mm"]
    height = metadata["lidar_to_sensor_transform"][11]
    return pattern.model_copy(update={"channels": channels, "beam_offset_mm": offset, "height_mm": height})


def test_ouster_nominal_beams_are_a_real_units_within_its_calibration(
    ouster_unit: tuple[str, dict[str, Any], Path, Path],
) -> None:
    name, metadata, _, _ = ouster_unit
    altitude = np.asarray(metadata["beam_altitude_angles"])
    nominal = preset_column(name, "elevation_deg")
    assert np.abs(altitude - nominal).max() < 1.3
    assert np.diff(altitude).mean() == pytest.approx(np.diff(nominal).mean(), rel=0.025)
    azimuth = np.asarray(metadata["beam_azimuth_angles"])
    ours = -preset_column(name, "azimuth_deg")
    np.testing.assert_allclose(azimuth.reshape(-1, 4).mean(axis=0), ours[:4], atol=0.015)
    assert np.abs(azimuth - ours).max() < (2.2 if "os0" in name else 0.04)  # wide lenses spread azimuth off axis


def test_ouster_offsets_and_mode_are_the_units(ouster_unit: tuple[str, dict[str, Any], Path, Path]) -> None:
    name, metadata, _, _ = ouster_unit
    pattern = preset(name)
    transform = np.reshape(metadata["lidar_to_sensor_transform"], (4, 4))
    assert pattern.beam_offset_mm == metadata["lidar_origin_to_beam_origin_mm"]
    assert pattern.height_mm == transform[2, 3]
    np.testing.assert_array_equal(transform[:2, :2], -np.eye(2))  # the half turn that azimuth_start_deg stands for
    assert f"{pattern.columns}x{pattern.rate_hz:g}" == metadata["lidar_mode"]


def test_ouster_rays_are_those_of_the_makers_lookup(ouster_unit: tuple[str, dict[str, Any], Path, Path]) -> None:
    core = pytest.importorskip("ouster.sdk.core")
    name, metadata, file, _ = ouster_unit
    rows, columns = 128, 1024
    lut = core.XYZLut(core.SensorInfo(file.read_text()), use_extrinsics=False)
    near, far = (lut(np.full((rows, columns), mm, dtype=np.uint32)) for mm in (10_000, 20_000))
    direction = np.swapaxes((far - near) / 10.0, 0, 1).reshape(-1, 3)
    start = np.swapaxes(near, 0, 1).reshape(-1, 3) - 10.0 * direction
    table = shot_table(unit_pattern(name, metadata))
    np.testing.assert_allclose(table.direction, direction, atol=2e-7)
    # Ouster's ranges start at the axis of rotation, ours where the beam leaves: the same line, further along.
    offset = metadata["lidar_origin_to_beam_origin_mm"] * 1e-3
    np.testing.assert_allclose(table.origin, start + offset * direction, atol=1e-6)


def test_ouster_columns_are_as_far_apart_as_recorded(ouster_unit: tuple[str, dict[str, Any], Path, Path]) -> None:
    sdk = pytest.importorskip("ouster.sdk")
    name, _, metadata_file, packets = ouster_unit
    table = shot_table(preset(name))
    period = table.time[128] * 1e9
    assert period == pytest.approx(97_656.25)
    scans = 0
    for scan_set in sdk.open_source(str(packets), meta=[str(metadata_file)]):
        scan = scan_set[0]
        stamps = scan.timestamp[(scan.status & 1) == 1].astype(np.int64)
        assert len(stamps) == 1024
        steps = np.diff(stamps)
        assert steps.mean() == pytest.approx(period, rel=1.5e-3)  # the motor's regulation
        assert np.abs(steps - period).max() < 0.06 * period  # its ripple within a turn
        scans += 1
    assert scans >= 1


# Velodyne ---------------------------------------------------------------------------------------------------------


def velodyne_payloads(file: Path) -> Iterator[tuple[int, bytearray]]:
    """Offsets in the file and contents of the 1206-byte data packets of a little-endian Ethernet capture."""
    content = file.read_bytes()
    assert content[:4] == b"\xd4\xc3\xb2\xa1"
    position = 24
    while position < len(content):
        length = struct.unpack_from("<I", content, position + 8)[0]
        frame = position + 16
        port = struct.unpack_from(">H", content, frame + 36)[0]
        if port == VELODYNE_PORT and length == 42 + 1206:
            yield frame + 42, bytearray(content[frame + 42 : frame + length])
        position = frame + length


@pytest.fixture(scope="module")
def vlp16_packets() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Azimuths [0.01 deg] (packets, 12), distances [2 mm] (packets, 12, 32), times [us] (packets,)."""
    payloads = [payload for _, payload in velodyne_payloads(recording("velodyne_vlp16.pcap"))]
    block = np.dtype([("flag", "<u2"), ("azimuth", "<u2"), ("shots", [("distance", "<u2"), ("level", "u1")], (32,))])
    blocks = np.stack([np.frombuffer(bytes(p[:1200]), dtype=block) for p in payloads])
    times = np.array([struct.unpack_from("<I", p, 1200)[0] for p in payloads], dtype=np.int64)
    assert (blocks["flag"] == 0xEEFF).all()
    return blocks["azimuth"].astype(np.int64), blocks["shots"]["distance"].astype(float), times


def test_vlp16_packets_come_when_the_preset_says(
    vlp16_packets: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]],
) -> None:
    azimuth, _, times = vlp16_packets
    period_us = preset("velodyne/vlp-16").firing_period_us
    assert period_us is not None
    assert len(times) > 50
    assert np.diff(times).mean() == pytest.approx(24 * period_us, abs=0.05)  # 1327.1 us; stamps are whole us
    assert set(np.diff(times)) <= {1327, 1328}
    # Blocks are two sequences apart; the head turns as far in that time as at the rate seen over the whole recording.
    steps = np.diff(azimuth.reshape(-1)) % 36000
    seconds = (times[-1] - times[0]) * 1e-6
    turned = steps[: 12 * (len(times) - 1)].sum() / 36000.0
    rate_hz = turned / seconds
    assert rate_hz == pytest.approx(10.0, rel=0.005)
    assert steps.mean() == pytest.approx(36000 * rate_hz * 2 * period_us * 1e-6, rel=1e-3)
    table = shot_table(preset("velodyne/vlp-16"))
    ours = -np.degrees(np.diff(np.unwrap(table.azimuth[::16].astype(float)))).mean() * 2 * 100
    assert steps.mean() == pytest.approx(ours, rel=0.005)


def test_vlp16_channels_are_in_the_presets_order(
    vlp16_packets: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]],
) -> None:
    """Both halves of a block hold the same sixteen lasers, and the lowest five see one floor."""
    _, distance, _ = vlp16_packets
    first, second = distance[..., :16], distance[..., 16:]
    both = (first > 0) & (second > 0)
    assert np.median(np.abs(first - second)[both]) * 0.002 < 0.05
    ranges = np.where(distance > 0, distance * 0.002, np.nan).reshape(-1, 16)
    elevation = np.radians(preset_column("velodyne/vlp-16", "elevation_deg"))
    order = np.argsort(elevation)
    floor = np.nanmedian(ranges * np.sin(elevation), axis=0)[order[:5]]
    assert np.ptp(floor) < 0.25  # the sensor stands 1.5 m high; swapping -15 and -7 deg would tear it by 0.8 m
    # Neighbours in elevation see like ranges; neighbours in firing order, 14 or 16 degrees apart, do not.
    rough, torn = (np.nanmedian(np.abs(np.diff(r, axis=1))) for r in (ranges[:, order], ranges))
    assert rough < 0.2 * torn


def test_vlp16_points_of_the_decoder_lie_on_our_rays(tmp_path: Path) -> None:
    decoder = pytest.importorskip("velodyne_decoder")
    source = recording("velodyne_vlp16.pcap")
    # This early unit names itself HDL-32E (0x21) while it fires like a VLP-16; the decoder goes by the name alone.
    content = bytearray(source.read_bytes())
    for position, payload in velodyne_payloads(source):
        assert payload[1205] == 0x21
        content[position + 1205] = VLP16_PRODUCT_BYTE
    renamed = tmp_path / "vlp16.pcap"
    renamed.write_bytes(content)

    elevation = np.sort(preset_column("velodyne/vlp-16", "elevation_deg"))
    order = np.argsort(preset_column("velodyne/vlp-16", "elevation_deg"))
    height = preset_column("velodyne/vlp-16", "origin_height_mm")[order] * 1e-3
    fire = preset_column("velodyne/vlp-16", "fire_time_us")[order]
    points = 0
    for _, cloud in decoder.read_pcap(str(renamed), as_pcl_structs=True):
        ring = cloud["ring"]
        level = np.hypot(cloud["x"], cloud["y"])
        seen = np.degrees(np.arctan2(cloud["z"] - height[ring], level))
        np.testing.assert_allclose(seen, elevation[ring], atol=2e-3)
        # Times within a sequence, from its earliest point: laser by laser 2.304 us apart.
        for column in np.unique(cloud["column"])[::50]:
            group = cloud[cloud["column"] == column]
            elapsed = (group["time"] - group["time"][0]) * 1e6
            expected = fire[group["ring"]] - fire[group["ring"][0]]
            assert np.abs(elapsed - expected).max() < 0.05
        points += len(cloud)
    assert points > 5000


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("velodyne/vlp-16", "VLP16"),
        ("velodyne/vlp-32c", "VLP32C"),
        ("velodyne/hdl-32e", "HDL32E"),
        ("velodyne/vls-128", "VLS128"),
    ],
)
def test_velodyne_angles_and_heights_are_the_decoders(name: str, model: str) -> None:
    decoder = pytest.importorskip("velodyne_decoder")
    yaml = pytest.importorskip("yaml")
    calibration = yaml.safe_load(decoder.Calibration.default_calibs[getattr(decoder.Model, model)].to_string())
    compare_calibration(name, calibration)
    lasers = calibration["lasers"]
    heights = [1e3 * laser.get("vert_offset_correction", 0.0) for laser in lasers]
    np.testing.assert_allclose(preset_column(name, "origin_height_mm"), heights, atol=0.006)


def test_hdl64_calibration_is_the_decoders() -> None:
    pytest.importorskip("velodyne_decoder")
    yaml = pytest.importorskip("yaml")
    from importlib.resources import files

    text = (files("velodyne_decoder") / "calibrations" / "HDL-64E_S3-VeloView.yml").read_text()
    calibration = yaml.safe_load(text)
    compare_calibration("velodyne/hdl-64e", calibration)
    lasers = calibration["lasers"]
    side = [1e3 * laser["horiz_offset_correction"] for laser in lasers]
    np.testing.assert_allclose(preset_column("velodyne/hdl-64e", "origin_side_mm"), side, atol=0.06)
    across = [1e3 * laser["vert_offset_correction"] for laser in lasers]
    height, forward = (preset_column("velodyne/hdl-64e", f"origin_{which}_mm") for which in ("height", "forward"))
    np.testing.assert_allclose(np.hypot(height, forward), across, atol=0.1)


def compare_calibration(name: str, calibration: dict[str, Any]) -> None:
    lasers = calibration["lasers"]
    elevation, azimuth = (np.degrees([laser[f"{which}_correction"] for laser in lasers]) for which in ("vert", "rot"))
    np.testing.assert_allclose(preset_column(name, "elevation_deg"), elevation, atol=6e-3)
    np.testing.assert_allclose(preset_column(name, "azimuth_deg"), azimuth, atol=6e-3)
    resolution = ph.Lidar(name).config.range.resolution_m
    assert resolution == pytest.approx(calibration["distance_resolution"], rel=1e-6)
