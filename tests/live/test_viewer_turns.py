"""A capture in the viewer: its frames at the times of the recording, forwards and backwards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import FormatError
from parhelion.io.pcap import PcapWriter
from parhelion.live.viewer import FramesStage, Request, Session
from parhelion.makers.velodyne.encode import VelodyneStream
from velodyne_rigs import made_up_scan

NAME, TURNS = "velodyne/vlp-32c", 12


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("captures") / "drive.pcap"
    lidar, stream = ph.Lidar(NAME), VelodyneStream(NAME, epoch_s=1e9)
    with PcapWriter(file) as written:
        for number in range(TURNS):
            for datagram in stream.add(made_up_scan(lidar, start=0.1 * number, seed=number, lost=0.02 * number)):
                written.write(*datagram)
        for datagram in stream.finish():
            written.write(*datagram)
    return file


def test_every_turn_is_shown_forwards_and_back(capture: Path) -> None:
    turns = list(ph.read_frames(capture))
    stage = FramesStage(capture)
    assert stage.duration_s == pytest.approx(1.1, abs=1e-3)
    assert stage.title == "drive.pcap"
    for number in (0, 1, 5, 11, 3, 2, 11, 0):
        request = Request(time_s=0.1 * number + 0.05)
        measured = stage.measure(request)
        np.testing.assert_array_equal(measured.cloud.xyz, turns[number].xyz)
        assert stage.scan_start(request) == pytest.approx(0.1 * number, abs=1e-3)
        assert stage.period_s(request) == pytest.approx(0.1, abs=1e-3)
        assert measured.shots == len(turns[number].shots)
        lost = int(turns[number].lost.sum())
        assert measured.notes == (f"frame {number} of {TURNS}, {lost} shots without a return",)


def test_the_clock_plays_the_turns(capture: Path) -> None:
    session = Session(FramesStage(capture))
    first = session.update()
    assert first is not None
    shown = [len(first.measured.cloud)]
    session.toggle()
    assert session.playing
    for _ in range(40):
        session.tick(0.05)
        update = session.update()
        if update is not None and update.new_cloud:
            shown.append(len(update.measured.cloud))
    assert shown == [len(turn) for turn in ph.read_frames(capture)]
    assert not session.playing
    session.step(-1)
    back = session.update()
    assert back is not None
    assert len(back.measured.cloud) == shown[-2]


def test_a_capture_without_a_revolution_is_reported(tmp_path: Path) -> None:
    with PcapWriter(tmp_path / "none.pcap") as written:
        written.write(0.0, bytes(48))
    with pytest.raises(FormatError, match=r"none\.pcap: contains no Velodyne data packets"):
        FramesStage(tmp_path / "none.pcap")
