"""Velodyne packets: byte by byte as in the manuals, and read by another decoder to the resolution of the format."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import velodyne_decoder as vd

import parhelion as ph
from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError, FormatError
from parhelion.io import read_cloud
from parhelion.io.pcap import read_pcap
from parhelion.makers.velodyne.decode import decode, is_data_packet
from parhelion.makers.velodyne.encode import DATA_PACKET, Packets, VelodyneEncoder, encode, joined
from parhelion.makers.velodyne.models import MODELS, velodyne_model
from velodyne_rigs import azimuth_deg, made_up_scan, turned

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "lidar" / "velodyne_vlp16.pcap"
NAMES = tuple(MODELS)
PACKET_US = {"velodyne/vlp-16": 1327.104, "velodyne/vlp-32c": 663.552, "velodyne/hdl-32e": 552.96}
# Azimuths are rounded to 0.01 deg in the packet and again by the decoder, which knows the turn's rate to 0.25 %.
AZIMUTH_DEG = 0.0115


def decoded_by_others(packets: Packets) -> np.ndarray:
    """The points that velodyne_decoder finds, as records, nearest first within a shot."""
    decoder = vd.StreamDecoder(vd.Config(min_range=0.0, max_range=300.0))
    found = []
    for time, payload in zip(packets.time_s.tolist(), packets.payloads(), strict=True):
        found.append(decoder.decode(time, payload, True))
    found.append(decoder.finish(True))
    return np.concatenate([entry[1] for entry in found if entry is not None])


def in_order(scans: list[Any]) -> list[Any]:
    """Columns of a table of all points of scans: range, intensity, ring, time, true azimuth."""
    rows = []
    for scan in scans:
        shot = scan.fields["shot"]
        rows.append(
            (
                scan.fields["range"],
                scan.fields["intensity"],
                scan.fields["ring"],
                scan.start_time - scans[0].start_time + scan.shots.time[shot].astype(np.float64),
                azimuth_deg(scan.shots.direction[shot]),
            )
        )
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


# ---- the models -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_those_of_the_presets_and_of_the_decoder(name: str) -> None:
    model, channels = MODELS[name], ph.Lidar(name).config.pattern.channels
    assert list(model.elevation_deg) == channels.elevation_deg
    assert model.offset_deg.tolist() == (channels.azimuth_deg or [0.0] * model.channels)
    assert model.fire_time_s * 1e6 == pytest.approx(channels.fire_time_us, abs=1e-9)
    assert model.height_m * 1e3 == pytest.approx(channels.origin_height_mm, abs=0.02)
    assert model.period_us == ph.Lidar(name).config.pattern.firing_period_us
    assert model.unit_m == ph.Lidar(name).config.range.resolution_m
    lasers = vd.Calibration.default_calibs[
        {"velodyne/vlp-16": vd.Model.VLP16, "velodyne/vlp-32c": vd.Model.VLP32C, "velodyne/hdl-32e": vd.Model.HDL32E}[
            name
        ]
    ]
    text = lasers.to_string()
    offsets = [float(line.split(":")[1]) for line in text.splitlines() if "vert_offset_correction" in line]
    assert model.height_m == pytest.approx(offsets, abs=2e-5)


def test_names_of_models() -> None:
    assert velodyne_model("VLP-16") is MODELS["velodyne/vlp-16"]
    with pytest.raises(ConfigError, match=r"unknown Velodyne model with packets 'velodyne/vlp-17': did you mean"):
        velodyne_model("velodyne/vlp-17")


# ---- one packet, byte by byte ----------------------------------------------------------------------------------------


def test_a_vlp_16_packet_byte_by_byte() -> None:
    lidar = ph.Lidar("velodyne/vlp-16")
    scan = made_up_scan(lidar, start=7300.25, seed=1)
    raw = encode(scan).payloads()[3]
    assert len(raw) == 1206
    assert raw[1204:] == b"\x37\x22"
    # The fourth packet begins 72 firing sequences after the scan, which begins 100.25 s after the full hour.
    assert struct.unpack_from("<I", raw, 1200)[0] == 100_250_000 + round(72 * 55.296)
    values = {(int(s), int(k)): 0 for s, k in zip(scan.shots.column, scan.shots.ring, strict=True)}
    shades = dict(values)
    for column, ring, distance, shade in zip(scan.column, scan.ring, scan.range, scan.intensity, strict=True):
        values[int(column), int(ring)] = round(float(distance) / 0.002)
        shades[int(column), int(ring)] = int(shade)
    rings = [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]  # -15, 1, -13, 3 ... deg
    for block in range(12):
        assert raw[100 * block : 100 * block + 2] == b"\xff\xee"
        azimuth = struct.unpack_from("<H", raw, 100 * block + 2)[0]
        sequence = 72 + 2 * block
        assert azimuth == round(sequence * 55.296e-6 * 10.0 * 36000)
        for record in range(32):
            distance, shade = struct.unpack_from("<HB", raw, 100 * block + 4 + 3 * record)
            at = (sequence + record // 16, rings[record % 16])
            assert (distance, shade) == (values[at], shades[at] if values[at] else 0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("returns", ["strongest", "last", "dual"])
def test_headers_spacing_and_azimuth_steps(name: str, returns: str) -> None:
    lidar = ph.Lidar(name, returns=returns)
    model = MODELS[name]
    packets = encode(made_up_scan(lidar, start=3599.95, seed=2))
    data = packets.data
    assert data.dtype == DATA_PACKET
    assert data.dtype.itemsize == 1206
    code = {"strongest": 0x37, "last": 0x38, "dual": 0x39}[returns]
    product = {"velodyne/vlp-16": 0x22, "velodyne/vlp-32c": 0x28, "velodyne/hdl-32e": 0x21}[name]
    assert set(data["return_mode"].tolist()) == {code}
    assert set(data["product"].tolist()) == {product}
    assert set(data["blocks"]["flag"].ravel().tolist()) == {0xEEFF}
    spacing = PACKET_US[name] / (2 if returns == "dual" else 1)
    stamps = data["timestamp"].astype(np.int64)
    assert stamps[0] == 3_599_950_000
    assert stamps.max() < 3_600_000_000  # the time stamp wraps every hour
    steps = np.diff(stamps) % 3_600_000_000
    assert set(steps.tolist()) <= {int(spacing), int(spacing) + 1}
    assert steps.mean() == pytest.approx(spacing, abs=0.01)
    assert np.diff(packets.time_s) == pytest.approx(spacing * 1e-6, abs=1e-8)
    # Sent when the last firing sequence of the packet is over.
    assert packets.time_s[0] - 3599.95 == pytest.approx(spacing * 1e-6, abs=1e-8)
    heads = data["blocks"]["azimuth"].astype(np.int64)
    if returns == "dual":
        assert (heads[:, ::2] == heads[:, 1::2]).all()
        heads = heads[:, ::2]
    step = 36000 * 10.0 * model.period_us * 1e-6 * model.sequences_per_block
    assert np.abs((np.diff(heads.ravel()) % 36000) - step).max() <= 1.0


def test_dual_blocks_hold_the_last_return_and_then_the_other() -> None:
    lidar = ph.Lidar("velodyne/hdl-32e", returns="dual")
    scan = made_up_scan(lidar, seed=3)
    blocks = encode(scan).data["blocks"]["records"]["distance"]
    last, strongest = blocks[:, ::2].reshape(-1, 32), blocks[:, 1::2].reshape(-1, 32)
    rank = MODELS["velodyne/hdl-32e"].ring
    counts = np.zeros((last.shape[0], 32, 3), np.int64)
    counts[scan.column, scan.ring, scan.return_index] = np.rint(scan.range / 0.002)
    total = np.zeros(counts.shape[:2], np.int64)
    total[scan.column, scan.ring] = scan.return_count
    counts, total = counts[:, rank], total[:, rank]
    assert (last == np.where(total == 2, counts[..., 1], counts[..., 0])).all()
    assert (strongest == counts[..., 0]).all()
    assert (last[total == 0] == 0).all()
    assert (total == 0).any()
    assert (total == 2).any()


# ---- the decoder of others -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("returns", "rate"), [("strongest", 10.0), ("strongest", 5.0), ("last", 20.0), ("dual", 10.0)])
def test_a_decoder_of_others_finds_the_scan(name: str, returns: str, rate: float) -> None:
    lidar = ph.Lidar(name, returns=returns, rate_hz=rate)
    scan = made_up_scan(lidar, start=12.5, seed=4)
    found = decoded_by_others(encode(scan))
    measured, intensity, ring, time, azimuth = in_order([scan])
    assert len(found) == len(scan)
    place = np.stack([found[axis] for axis in "xyz"], axis=1)
    height = np.asarray(MODELS[name].height_m)[MODELS[name].laser_of_ring][found["ring"]]
    distance = np.linalg.norm(place - np.stack([0 * height, 0 * height, height], axis=1), axis=1)
    # The decoder puts both returns of a shot together, the last one first.
    order = np.lexsort((distance, found["ring"], np.rint(found["time"] * 1e7)))
    ours = np.lexsort((measured, ring, np.rint(time * 1e7)))
    unit = MODELS[name].unit_m
    assert np.abs(distance[order] - measured[ours]).max() < unit / 10
    assert (found["ring"][order] == ring[ours]).all()
    assert (found["intensity"][order] == intensity[ours]).all()
    assert np.abs(turned(azimuth_deg(place)[order], azimuth[ours])).max() <= AZIMUTH_DEG
    since = found["time"][order] - found["time"][order][0]
    assert np.abs(since - (time[ours] - time[ours][0])).max() < 1.2e-6
    if returns == "dual":
        two = scan.return_count == 2
        kinds = found["return_type"]
        both, strongest, last = (
            kind.value for kind in (vd.ReturnMode.BOTH, vd.ReturnMode.STRONGEST, vd.ReturnMode.LAST)
        )
        assert (np.count_nonzero(kinds == both), np.count_nonzero(kinds == last)) == ((~two).sum(), two.sum() // 2)
        assert distance[kinds == strongest].max() < 61.0 < distance[kinds == last].min()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("returns", "rate"), [("strongest", 10.0), ("strongest", 7.0), ("dual", 20.0)])
def test_packets_go_on_from_scan_to_scan(name: str, returns: str, rate: float) -> None:
    lidar = ph.Lidar(name, returns=returns, rate_hz=rate)
    model = MODELS[name]
    scans = [made_up_scan(lidar, start=40.0 + k / rate, seed=k) for k in range(4)]
    encoder = VelodyneEncoder(name)
    parts = [encoder.add(scan) for scan in scans]
    packets = joined([*parts, encoder.finish()])
    shots = 4 * len(scans[0].shots) // model.channels
    per_packet = model.sequences_per_packet(returns == "dual")
    assert len(packets) == -(-shots // per_packet)
    assert len(joined(parts)) == shots // per_packet
    assert (np.diff(packets.time_s) > 0).all()
    measured, intensity, ring, time, azimuth = in_order(scans)
    cloud = decode(packets)
    assert np.abs(cloud.range - measured).max() < 2e-5
    assert (cloud.intensity == intensity).all()
    assert (cloud.ring == ring).all()
    # A block of a VLP-16 that lies in two scans belongs to the turn of its azimuth.
    assert np.mean(cloud.turn != np.repeat(np.arange(4), [len(scan) for scan in scans])) < 5e-4
    # Between two scans the head turns on for less than one firing period; packets do not contain that pause.
    late = np.abs(cloud.time - time)
    assert late.max() < model.period_us * 1e-6
    assert np.mean(late > 1e-6) < 0.01
    error = np.abs(turned(azimuth_deg(cloud.xyz), azimuth))
    assert error.max() < 0.12
    assert np.mean(error > AZIMUTH_DEG) < 0.005
    assert len(decoded_by_others(packets)) == len(cloud)


def test_a_pause_in_the_scans_ends_the_packet() -> None:
    lidar = ph.Lidar("velodyne/vlp-16")
    encoder = VelodyneEncoder("velodyne/vlp-16")
    first, second = (made_up_scan(lidar, start=start, seed=1) for start in (0.0, 5.0))
    packets = joined([encoder.add(first), encoder.add(second), encoder.finish()])
    assert len(packets) == 2 * len(encode(first))
    cloud = decode(packets)
    assert len(cloud) == 2 * len(first)
    assert np.abs(cloud.time[len(first) :] - 5.0 - second.time).max() < 1e-6
    assert np.abs(turned(azimuth_deg(cloud.xyz), np.tile(azimuth_deg(first.xyz), 2))).max() < 2 * AZIMUTH_DEG


# ---- decoding by ourselves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("returns", ["strongest", "dual"])
def test_our_own_decoder_gives_the_scan_back(name: str, returns: str) -> None:
    scan = made_up_scan(ph.Lidar(name, returns=returns), start=1.0, seed=5)
    cloud = decode(encode(scan))
    assert cloud.metadata["sensor"] == name
    assert cloud.metadata["returns"] == returns
    assert cloud.metadata["time_of_hour_us"] == 1_000_000
    for field in ("intensity", "ring", "column", "return_index", "return_count"):
        assert (cloud.fields[field] == scan.fields[field]).all(), field
        assert cloud.fields[field].dtype == scan.fields[field].dtype
    assert np.abs(cloud.range - scan.range).max() < 2e-5
    assert np.abs(cloud.time - scan.time).max() < 6e-7
    assert np.linalg.norm(cloud.xyz - scan.xyz, axis=1).max() < 125.0 * np.radians(0.0075)
    raw = np.frombuffer(b"".join(encode(scan).payloads()), np.uint8).reshape(-1, 1206)
    assert (decode(raw, "vlp-16" if "16" in name else name).xyz == cloud.xyz).all()


def test_a_scan_of_a_world_keeps_what_it_measured() -> None:
    scan = ph.Lidar("velodyne/vlp-16", returns="dual").scan(ph.World.load("mixed-objects"), seed=1)
    cloud = decode(encode(scan))
    assert len(cloud) == len(scan) > 1000
    assert cloud.range.astype(np.float64).sum() == pytest.approx(scan.range.astype(np.float64).sum(), rel=1e-7)
    assert cloud.intensity.sum() == pytest.approx(scan.intensity.sum())


def test_a_change_of_mode_is_followed() -> None:
    one = encode(made_up_scan(ph.Lidar("velodyne/vlp-16"), seed=1))
    two = encode(made_up_scan(ph.Lidar("velodyne/vlp-16", returns="dual"), start=0.1, seed=2))
    cloud = decode(joined([one, two]))
    assert len(cloud) == len(decode(one)) + len(decode(two))
    assert (cloud.return_count[: len(decode(one))] == 1).all()


def test_the_real_recording_is_like_ours() -> None:
    if not REAL.is_file():
        pytest.skip("no recording of a VLP-16 at ../shared/data/lidar")
    found = [d for d in read_pcap(REAL) if is_data_packet(d.payload)]
    data = np.frombuffer(b"".join(d.payload for d in found), DATA_PACKET)
    ours = encode(made_up_scan(ph.Lidar("velodyne/vlp-16"), seed=1)).data
    assert set(data["blocks"]["flag"].ravel().tolist()) == set(ours["blocks"]["flag"].ravel().tolist())
    assert set(data["return_mode"].tolist()) == set(ours["return_mode"].tolist())
    theirs, mine = (np.diff(part["timestamp"].astype(np.int64)) for part in (data, ours))
    assert set(theirs.tolist()) == set(mine.tolist()) == {1327, 1328}
    assert theirs.mean() == pytest.approx(mine.mean(), abs=0.02)
    steps = [np.diff(part["blocks"]["azimuth"].ravel().astype(np.int64)) % 36000 for part in (data, ours)]
    assert steps[0].mean() == pytest.approx(steps[1].mean(), abs=0.2)  # 39.8 counts at 10 turns a second
    # The host sees packets after their last firing: position packets, stamped when sent, show the difference.
    others = [d for d in read_pcap(REAL) if len(d.payload) == 512]
    stamp = np.array([struct.unpack_from("<I", d.payload, 198)[0] for d in others])
    after = np.median([d.time_s for d in found] - data["timestamp"] * 1e-6)
    at_once = np.median([d.time_s for d in others] - stamp * 1e-6)
    assert 0.9e-3 < after - at_once < 1.4e-3
    # Early firmware reports HDL-32E; the spacing of the packets gives the VLP-16 away.
    cloud = read_cloud(REAL)
    assert cloud.metadata["sensor"] == "velodyne/vlp-16"
    decoder = vd.StreamDecoder(vd.Config(model=vd.Model.VLP16, min_range=0.0, max_range=300.0))
    parts = [decoder.decode(d.time_s, d.payload[:-1] + b"\x22", True) for d in found] + [decoder.finish(True)]
    points = np.concatenate([part[1] for part in parts if part is not None])
    place = np.stack([points[axis] for axis in "xyz"], axis=1)
    assert len(points) == len(cloud) == 19579
    assert (points["ring"] == cloud.ring).all()
    assert np.abs(turned(azimuth_deg(place), azimuth_deg(cloud.xyz))).max() < 0.0055  # it rounds to 0.01 deg
    assert np.abs(np.linalg.norm(place, axis=1) - np.linalg.norm(cloud.xyz, axis=1)).max() < 1e-4


# ---- what cannot be ------------------------------------------------------------------------------------------------


def test_scans_that_do_not_fit_are_refused() -> None:
    scan = made_up_scan(ph.Lidar("velodyne/vlp-16"))
    cloud = PointCloud(scan.xyz, scan.fields)
    with pytest.raises(ConfigError, match="need a scan with its table of shots"):
        encode(cloud, "velodyne/vlp-16")
    with pytest.raises(ConfigError, match=r"the scan does not .* its sensor"):
        encode(cloud)
    with pytest.raises(ConfigError, match="not whole firing sequences of the 32 lasers of a velodyne/hdl-32e"):
        encode(scan, "velodyne/hdl-32e")
    with pytest.raises(ConfigError, match="unknown return mode of Velodyne packets 'first'"):
        encode(scan, returns="first")
    with pytest.raises(ConfigError, match="epoch_s: must be finite"):
        encode(scan, epoch_s=float("inf"))


def test_ranges_beyond_the_field_are_no_returns() -> None:
    lidar = ph.Lidar("velodyne/vlp-16")
    scan = made_up_scan(lidar, lost=0.0)
    ranges = scan.range.copy()
    ranges[:4] = [131.07, 131.1, np.nan, np.inf]
    cloud = decode(encode(replace(scan, fields={**scan.fields, "range": ranges})))
    assert len(cloud) == len(scan) - 3
    assert cloud.range[0] == pytest.approx(131.07)


def test_packets_that_are_none_are_refused() -> None:
    raw = encode(made_up_scan(ph.Lidar("velodyne/vlp-16"))).payloads()
    with pytest.raises(FormatError, match="there are none"):
        decode([])
    with pytest.raises(FormatError, match="a data packet has 1206 bytes, got one of 512"):
        decode([raw[0], bytes(512)])
    with pytest.raises(FormatError, match="a block has the flag 0xffdd, not 0xffee"):
        decode([b"\xff\xdd" + raw[0][2:]])
    with pytest.raises(ConfigError, match="product code 0x77 is not known"):
        decode([raw[0][:-1] + b"\x77"])
    with pytest.raises(FormatError, match="expected rows of 1206 bytes"):
        decode(np.zeros((3, 7), np.uint8))
