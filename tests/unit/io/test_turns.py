"""Captures as sequences of frames: any start; lost, late and duplicate packets; at most one frame in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from ouster_scans import random_scan
from parhelion.core.clouds import Scan
from parhelion.core.errors import FormatError
from parhelion.io import read_cloud
from parhelion.io.captures import write_capture
from parhelion.io.pcap import PcapWriter
from parhelion.makers import Datagram
from parhelion.makers.ouster.packets import OusterEncoder, metadata
from parhelion.makers.velodyne.encode import VelodyneStream
from parhelion.makers.velodyne.models import MODELS
from velodyne_rigs import azimuth_deg, made_up_scan, turned

RATE_HZ = 10.0


def velodyne(name: str, turns: int, *, returns: str = "strongest") -> tuple[list[Scan], list[Datagram]]:
    """Scans of one sensor, and the datagrams that it would have sent."""
    lidar = ph.Lidar(name, returns=returns)
    scans = [made_up_scan(lidar, start=40.0 + k / RATE_HZ, seed=k) for k in range(turns)]
    stream = VelodyneStream(name, position_interval_s=None)
    return scans, [d for scan in scans for d in stream.add(scan)] + stream.finish()


def written(datagrams: Iterable[Datagram], file: Path) -> Path:
    with PcapWriter(file) as capture:
        for datagram in datagrams:
            capture.write(*datagram)
    return file


def shot_keys(scan: Scan) -> np.ndarray:
    """Ring and column of every shot, as one number each."""
    return scan.shots.ring.astype(int) * 65536 + scan.shots.column


# ---- Velodyne ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["velodyne/vlp-32c", "velodyne/hdl-32e"])
@pytest.mark.parametrize("returns", ["strongest", "dual"])
def test_every_turn_comes_back_with_its_lost_shots(name: str, returns: str, tmp_path: Path) -> None:
    scans, datagrams = velodyne(name, 5, returns=returns)
    found = list(ph.read_frames(written(datagrams, tmp_path / "drive.pcap")))
    assert len(found) == 5
    for turn, scan in zip(found, scans, strict=True):
        assert turn.metadata["sensor"] == name
        assert turn.metadata["missing_columns"] == 0
        assert turn.start_time == pytest.approx(scan.start_time, abs=6e-5)  # packets do not contain the pause before it
        for field in ("ring", "column", "intensity", "return_index", "return_count"):
            np.testing.assert_array_equal(turn.fields[field], scan.fields[field], err_msg=field)
        # A stream's last packet is filled up, which gives its last turn the sequence that a pause is in all others.
        filling = len(turn.shots) - len(scan.shots)
        assert filling == (32 if turn is found[-1] else 0)
        assert turn.lost.sum() == (scan.shots.return_count == 0).sum() + filling > 10_000
        inside = np.flatnonzero(turn.shots.column <= scan.shots.column.max())
        ours, theirs = inside[np.argsort(shot_keys(turn)[inside])], np.argsort(shot_keys(scan))
        np.testing.assert_array_equal(turn.shots.return_count[ours], scan.shots.return_count[theirs])
        away = turned(azimuth_deg(turn.shots.direction[ours]), azimuth_deg(scan.shots.direction[theirs]))
        assert np.abs(away).max() < 0.12  # as between two scans, where the head turns on untold
        np.testing.assert_allclose(turn.shots.origin[ours], scan.shots.origin[theirs], atol=2e-5)
        np.testing.assert_allclose(turn.shots.direction[ours, 2], scan.shots.direction[theirs, 2], atol=2e-5)
        np.testing.assert_allclose(
            turn.xyz, turn.shots.origin[turn.shot] + turn.range[:, None] * turn.shots.direction[turn.shot], atol=2e-4
        )


def test_a_vlp16_whose_blocks_lie_in_two_turns_loses_no_shot(tmp_path: Path) -> None:
    scans, datagrams = velodyne("velodyne/vlp-16", 6)
    found = list(ph.read_frames(written(datagrams, tmp_path / "drive.pcap")))
    assert len(found) == 6
    shots = [len(turn.shots) for turn in found]
    # The second sequence of a block has no azimuth of its own, so it may be counted to the turn beside it.
    assert max(abs(n - len(scan.shots)) for n, scan in zip(shots, scans, strict=True)) <= 2 * 16
    assert sum(map(len, found)) == sum(map(len, scans))
    assert sum(int(turn.lost.sum()) for turn in found) == pytest.approx(
        sum(int(scan.lost.sum()) for scan in scans), abs=16
    )


def test_a_recording_may_begin_and_end_anywhere(tmp_path: Path) -> None:
    scans, datagrams = velodyne("velodyne/hdl-32e", 3)
    per_turn = len(datagrams) / 3
    part = datagrams[round(0.3 * per_turn) : round(2.6 * per_turn)]
    first, whole, last = ph.read_frames(written(part, tmp_path / "part.pcap"))
    shares = [len(turn.shots) / len(scans[0].shots) for turn in (first, whole, last)]
    assert shares == pytest.approx([0.7, 1.0, 0.6], abs=0.01)
    assert azimuth_deg(first.shots.direction[:1])[0] % 360.0 == pytest.approx(360.0 * 0.7, abs=4.0)  # clockwise
    assert sum(map(len, (first, whole, last))) == len(read_cloud(tmp_path / "part.pcap"))
    assert first.shots.column.min() == first.shots.time.min() == 0


@pytest.mark.parametrize("gap", [1, 7, 100, 181, 250])
def test_lost_packets_leave_a_gap_and_nothing_else(gap: int, tmp_path: Path) -> None:
    """Gaps of more than a revolution: packets after the gap keep their frame, their columns and their times."""
    name = "velodyne/hdl-32e"
    _, datagrams = velodyne(name, 4)
    whole = list(ph.read_frames(written(datagrams, tmp_path / "whole.pcap")))
    begin = 250
    found = list(ph.read_frames(written([*datagrams[:begin], *datagrams[begin + gap :]], tmp_path / "gap.pcap")))
    per_packet = MODELS[name].sequences_per_packet(False) * 32
    assert sum(len(turn.shots) for turn in found) == sum(len(turn.shots) for turn in whole) - gap * per_packet
    assert len(found) == len(whole)
    for turn, same in zip(found, whole, strict=True):
        missing = (len(same.shots) - len(turn.shots)) // 32
        inner = min(missing, turn.metadata["missing_columns"])
        assert turn.metadata["missing_columns"] in (0, missing)
        if turn.metadata["missing_columns"] == missing:
            kept = np.isin(shot_keys(same), shot_keys(turn))
            assert kept.sum() == len(turn.shots)
            np.testing.assert_allclose(turn.shots.direction, same.shots.direction[kept], atol=1e-6)
            np.testing.assert_allclose(turn.shots.time, same.shots.time[kept], atol=1e-6)
        else:
            assert inner == 0  # lost at the turn's beginning or end


def test_late_and_doubled_packets_are_put_in_their_place(tmp_path: Path) -> None:
    _, datagrams = velodyne("velodyne/hdl-32e", 3)
    rng = np.random.default_rng(3)
    mixed = list(datagrams)
    for place in rng.choice(len(mixed) - 6, 60, replace=False):
        mixed[place], mixed[place + 5] = mixed[place + 5], mixed[place]
    doubled = [d for datagram in mixed for d in [datagram] * (2 if rng.random() < 0.2 else 1)]
    assert doubled != datagrams
    right = list(ph.read_frames(written(datagrams, tmp_path / "right.pcap")))
    found = list(ph.read_frames(written(doubled, tmp_path / "mixed.pcap")))
    assert len(found) == len(right)
    for turn, same in zip(found, right, strict=True):
        np.testing.assert_array_equal(turn.xyz, same.xyz)
        np.testing.assert_array_equal(turn.shots.direction, same.shots.direction)
        np.testing.assert_array_equal(turn.shots.column, same.shots.column)


def test_a_pause_begins_a_new_turn_and_the_hour_may_end(tmp_path: Path) -> None:
    lidar = ph.Lidar("velodyne/vlp-32c")
    stream = VelodyneStream("velodyne/vlp-32c", epoch_s=7200.0, position_interval_s=None)
    starts = [3599.85, 3599.95, 3600.05, 3610.0]
    found = [d for k, start in enumerate(starts) for d in stream.add(made_up_scan(lidar, start=start, seed=k))]
    turns = list(ph.read_frames(written([*found, *stream.finish()], tmp_path / "hour.pcap")))
    assert [turn.start_time for turn in turns] == pytest.approx([7200.0 + start for start in starts], abs=1e-4)
    whole = len(lidar.shots())
    assert [len(turn.shots) - whole for turn in turns] == [
        0,
        0,
        0,
        32,
    ]  # three turns end with a packet, the last is filled up


def test_a_head_that_stands_still_is_cut_by_time(tmp_path: Path) -> None:
    """Else the recording of a stopped sensor would be one endless turn."""
    _, datagrams = velodyne("velodyne/hdl-32e", 30)
    still = []
    for datagram in datagrams:
        payload = bytearray(datagram.payload)
        for block in range(12):
            payload[100 * block + 2 : 100 * block + 4] = (9000).to_bytes(2, "little")
        still.append(datagram._replace(payload=bytes(payload)))
    turns = list(ph.read_frames(written(still, tmp_path / "still.pcap")))
    assert len(turns) == 3
    assert max(turn.shots.time.max() for turn in turns) < 1.1


def test_turns_come_one_by_one(tmp_path: Path) -> None:
    """The second turn is given before the rest of the file is read: damage at its end is met last."""
    _, datagrams = velodyne("velodyne/hdl-32e", 8)
    file = written(datagrams, tmp_path / "drive.pcap")
    content = file.read_bytes()
    file.write_bytes(content[:-500])
    turns = ph.read_frames(file)
    assert len(next(turns)) > 0
    assert len(next(turns)) > 0
    with pytest.raises(FormatError, match=r"drive\.pcap: truncated"):
        list(turns)


@pytest.mark.parametrize("maker", ["velodyne", "ouster"])
def test_a_recording_that_breaks_off_gives_what_it_holds(maker: str, tmp_path: Path) -> None:
    """File of a recorder that was killed: the last frame is incomplete, and then the error is raised."""
    file = tmp_path / "drive.pcap"
    datagrams = velodyne("velodyne/hdl-32e", 2)[1] if maker == "velodyne" else ouster(2, tmp_path)[1]
    content = written(datagrams, file).read_bytes()
    whole = list(ph.read_frames(file))
    file.write_bytes(content[: round(0.8 * len(content))])
    turns = ph.read_frames(file)
    found = [next(turns), next(turns)]
    with pytest.raises(FormatError, match=r"drive\.pcap: truncated"):
        next(turns)
    assert len(found[0].shots) == len(whole[0].shots)
    assert len(found[1].shots) == pytest.approx(0.6 * len(whole[1].shots), rel=0.05)


def test_a_model_may_be_named_where_packets_say_nothing(tmp_path: Path) -> None:
    scans, datagrams = velodyne("velodyne/vlp-32c", 1)
    unknown = [d._replace(payload=d.payload[:-1] + b"\x77") for d in datagrams]
    file = written(unknown, tmp_path / "a.pcap")
    with pytest.raises(FormatError, match=r"a\.pcap: .*unknown product code 0x77"):
        list(ph.read_frames(file))
    (turn,) = ph.read_frames(file, model="velodyne/vlp-32c")
    assert len(turn) == len(scans[0])


# ---- Ouster --------------------------------------------------------------------------------------------------------


def ouster(turns: int, tmp_path: Path) -> tuple[list[Scan], list[Datagram], Path]:
    """Scans of a small Ouster, their datagrams, and a file for them with the metadata beside it."""
    lidar = ph.Lidar("ouster/os0-32", columns=512)
    scans = [random_scan(lidar, k, start=1.0 + k / RATE_HZ) for k in range(turns)]
    encoder = OusterEncoder(metadata(lidar))
    groups = [encoder.packets(scan, 65534 + k) for k, scan in enumerate(scans)]
    datagrams = [
        Datagram(t, row.tobytes(), ("127.0.0.1", 7502), ("127.0.0.1", 7502))
        for group in groups
        for t, row in zip(group.time.tolist(), group.data, strict=True)
    ]
    (tmp_path / "drive.json").write_text(json.dumps(encoder.document))
    return scans, datagrams, tmp_path / "drive.pcap"


def test_ouster_frames_come_one_by_one_with_their_lost_shots(tmp_path: Path) -> None:
    scans, datagrams, file = ouster(5, tmp_path)
    # Late by three packets, over the border of two frames, and some twice.
    datagrams[32 * 2 - 1], datagrams[32 * 2 + 2] = datagrams[32 * 2 + 2], datagrams[32 * 2 - 1]
    datagrams.insert(40, datagrams[39])
    found = list(ph.read_frames(written(datagrams, file)))
    assert [turn.metadata["frame_id"] for turn in found] == [65534, 65535, 0, 1, 2]
    for turn, scan in zip(found, scans, strict=True):
        assert turn.lost.sum() == (scan.shots.return_count == 0).sum()
        np.testing.assert_array_equal(turn.column, scan.column)
        assert turn.metadata["missing_columns"] == 0


def test_ouster_frames_with_gaps_partial_ones_and_a_restart(tmp_path: Path) -> None:
    _, datagrams, file = ouster(4, tmp_path)
    part = [*datagrams[10:40], *datagrams[45:100], *datagrams[:32]]  # at the end the sensor is restarted
    found = list(ph.read_frames(written(part, file)))
    assert [len(turn.shots) // (32 * 16) for turn in found] == [22, 27, 32, 4, 32]
    assert [turn.metadata["missing_columns"] for turn in found] == [0, 5 * 16, 0, 0, 0]
    assert [turn.metadata["frame_id"] for turn in found] == [65534, 65535, 0, 1, 65534]


def test_a_json_of_something_else_does_not_hide_a_velodyne(tmp_path: Path) -> None:
    _, datagrams = velodyne("velodyne/vlp-32c", 1)
    (tmp_path / "a.json").write_text('{"note": "a drive"}')
    file = written([datagrams[0]._replace(payload=bytes(512)), *datagrams], tmp_path / "a.pcap")
    assert len(list(ph.read_frames(file))) == 1


def test_one_turn_of_a_capture_is_a_scan(tmp_path: Path) -> None:
    lidar = ph.Lidar("ouster/os0-32", columns=512)
    write_capture([random_scan(lidar, k, start=1.0 + 0.1 * k) for k in range(3)], tmp_path / "a.pcap")
    second = read_cloud(tmp_path / "a.pcap", scan=1)
    assert isinstance(second, Scan)
    assert len(second) == len(random_scan(lidar, 1))
    with pytest.raises(FormatError, match="has the scans 0 to 2, not 3"):
        read_cloud(tmp_path / "a.pcap", scan=3)
    assert len(replace(second).shots) == 512 * 32
