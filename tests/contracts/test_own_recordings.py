"""Real captures through `convert`, `weather` and `view`, turn by turn, with no option but the sensor's name.

Shots without a return are counted against the packets by the makers' or others' decoders, which know nothing of us. The
recordings lie outside the repository (`../shared/data/lidar`); where they or the decoders are absent, tests skip.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import parhelion as ph
from parhelion.cli.app import app
from parhelion.core.clouds import Scan
from parhelion.io import read_cloud
from parhelion.sensors.optics.lidar.recorded_shots import recorded_shots

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "lidar"


@dataclass(frozen=True)
class Recording:
    """One capture, what made it, and its turns."""

    file: str
    sensor: str
    turns: int
    document: str = ""

    @property
    def path(self) -> Path:
        path = (DATA / self.file).resolve()
        if not path.exists():
            pytest.skip(f"recording {self.file} is not here")
        return path


VLP16 = Recording("velodyne_vlp16.pcap", "velodyne/vlp-16", 2)
RECORDINGS = (
    VLP16,
    Recording("OS-0-128-U1_v2.3.0_1024x10.pcap", "ouster/os0-128", 1, "OS-0-128-U1_v2.3.0_1024x10.json"),
    Recording("OS-1-128_v2.3.0_1024x10_lb_n3.pcap", "ouster/os1-128", 3, "OS-1-128_v2.3.0_1024x10.json"),
    Recording("OS-0-32-U1_v2.2.0_1024x10.pcap", "ouster/os0-32", 1, "OS-0-32-U1_v2.2.0_1024x10.json"),
    Recording("OS-1-32-G_v2.1.1_1024x10.pcap", "ouster/os1-32", 1, "OS-1-32-G_v2.1.1_1024x10.json"),
)
OUSTERS = RECORDINGS[1:]


def named(recording: Recording) -> str:
    return recording.sensor


@pytest.fixture(params=RECORDINGS, ids=named)
def recording(request: pytest.FixtureRequest) -> Recording:
    assert isinstance(request.param, Recording)
    return request.param


def run(*arguments: object, ends_with: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="parhelion")
    assert result.exit_code == ends_with, result.output
    return result


# ---- lost shots against the packets --------------------------------------------------------------------------------


@pytest.mark.parametrize("recording", OUSTERS, ids=named)
def test_lost_shots_of_an_ouster_are_those_of_its_makers_decoder(recording: Recording) -> None:
    sdk = pytest.importorskip("ouster.sdk", reason="ouster-sdk is not installed")
    source = sdk.open_source(str(recording.path), meta=[str(DATA / recording.document)])
    theirs = [scan_set[0] for scan_set in source]
    turns = list(ph.read_frames(recording.path))
    assert len(turns) == len(theirs) == recording.turns
    for turn, scan in zip(turns, theirs, strict=True):
        fired = (scan.status & 1) == 1
        ranges = [scan.field(name) for name in ("RANGE", "RANGE2") if scan.has_field(name)]
        seen = np.any([values > 0 for values in ranges], axis=0)
        assert len(turn.shots) == fired.sum() * scan.h
        assert turn.lost.sum() == (~seen[:, fired]).sum() > 1000
        # And each of them, by row and column.
        lost = np.flatnonzero(turn.lost)
        place = (scan.h - 1 - turn.shots.ring[lost].astype(int), turn.shots.column[lost].astype(int))
        assert not seen[place].any()


def vlp16_blocks(file: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Azimuths [0.01 deg] of all blocks, and their numbers of records without a distance, from the bytes alone."""
    content, position = file.read_bytes(), 24
    azimuths, empty = [], []
    while position < len(content):
        length = struct.unpack_from("<I", content, position + 8)[0]
        payload = content[position + 16 + 42 : position + 16 + length]
        position += 16 + length
        if len(payload) != 1206:
            continue
        for block in range(12):
            azimuths.append(struct.unpack_from("<H", payload, 100 * block + 2)[0])
            distances = [struct.unpack_from("<H", payload, 100 * block + 4 + 3 * k)[0] for k in range(32)]
            empty.append(distances.count(0))
    return np.array(azimuths), np.array(empty)


def test_lost_shots_of_a_vlp16_are_those_of_its_packets() -> None:
    """A capture that starts in the middle of a revolution and names the HDL-32E as its product."""
    turns = list(ph.read_frames(VLP16.path))
    azimuth, empty = vlp16_blocks(VLP16.path)
    assert [turn.metadata["sensor"] for turn in turns] == [VLP16.sensor] * 2
    assert sum(len(turn.shots) for turn in turns) == 32 * len(azimuth)
    assert sum(int(turn.lost.sum()) for turn in turns) == empty.sum() == 12677
    (border,) = np.flatnonzero(np.diff(azimuth) < 0) + 1
    counts = [empty[:border].sum(), empty[border:].sum()]
    # The one block in which the head passes azimuth 0 holds sequences of both turns.
    assert [int(turn.lost.sum()) for turn in turns] == pytest.approx(counts, abs=16)
    assert azimuth[0] == pytest.approx(25035, abs=1)  # 110 degrees from x, counter-clockwise


def test_points_of_a_vlp16_are_those_of_a_decoder_of_others() -> None:
    vd = pytest.importorskip("velodyne_decoder", reason="velodyne-decoder is not installed")
    from parhelion.io.pcap import read_pcap

    decoder = vd.StreamDecoder(vd.Config(model=vd.Model.VLP16, min_range=0.0, max_range=300.0))
    packets = [d for d in read_pcap(VLP16.path) if len(d.payload) == 1206]
    # It goes by the factory byte alone, which is wrong here.
    parts = [decoder.decode(d.time_s, d.payload[:-1] + b"\x22", True) for d in packets] + [decoder.finish(True)]
    theirs = np.concatenate([part[1] for part in parts if part is not None])
    turns = list(ph.read_frames(VLP16.path))
    assert sum(map(len, turns)) == len(theirs) == 19579
    assert (np.concatenate([turn.ring for turn in turns]) == theirs["ring"]).all()
    xyz = np.concatenate([turn.xyz for turn in turns])
    away = np.linalg.norm(xyz - np.stack([theirs[axis] for axis in "xyz"], axis=1), axis=1)
    assert np.median(away / np.linalg.norm(xyz, axis=1)) < np.radians(0.01)  # it rounds azimuths to 0.01 degrees


# ---- the commands --------------------------------------------------------------------------------------------------


def test_convert_gives_every_turn(recording: Recording, tmp_path: Path) -> None:
    turns = list(ph.read_frames(recording.path))
    assert len(turns) == recording.turns
    folder, bag = tmp_path / recording.path.stem, tmp_path / "drive.mcap"
    result = run("convert", recording.path, folder)
    assert f"converted {recording.turns} frame" in result.stdout
    clouds = [read_cloud(file) for file in sorted(folder.iterdir())]
    assert [len(cloud) for cloud in clouds] == [len(turn) for turn in turns]
    assert all(cloud.metadata["sensor"] == recording.sensor for cloud in clouds)
    assert f"wrote {recording.turns} cloud" in run("convert", recording.path, bag).stdout


def test_weather_goes_along_every_shot_of_the_recording(recording: Recording, tmp_path: Path) -> None:
    turns = list(ph.read_frames(recording.path))
    result = run(
        "weather", recording.path, "-o", tmp_path / "fog", "--visibility", 40, "--format", "npz",
        "--sensor", recording.sensor,
    )  # fmt: skip
    files = sorted((tmp_path / "fog").iterdir())
    assert [file.name for file in files] == [f"{k:06d}.npz" for k in range(recording.turns)]
    for number, (file, turn) in enumerate(zip(files, turns, strict=True)):
        wet = read_cloud(file)
        assert isinstance(wet, Scan)
        np.testing.assert_array_equal(wet.shots.direction, turn.shots.direction)
        in_air = wet.origin == 2
        assert in_air.sum() > 20
        # Fog answers along shots that met nothing and along those that did.
        open_shots = turn.lost[wet.shot[in_air]]
        assert open_shots.any()
        assert np.count_nonzero(~in_air) < 0.95 * len(turn)
        again = ph.Weather(visibility_m=40).apply(
            turn, sensor=recording.sensor, frame=number, time=turn.start_time - turns[0].start_time
        )
        np.testing.assert_array_equal(wet.xyz, again.xyz)
    assert "not that of the recording" not in result.stdout
    assert ("its reflectivity was used" in result.stdout) == ("intensity" not in turns[0].fields)


def test_points_alone_reveal_the_lost_shots(recording: Recording) -> None:
    """Cloud of a driver: ring, but neither the table of shots nor rows for those without return."""
    for turn in ph.read_frames(recording.path):
        first = turn.return_index == 0
        cloud = ph.PointCloud(turn.xyz[first], {"ring": turn.ring[first]})
        wet = ph.Weather(visibility_m=40).apply(cloud, sensor=recording.sensor, reflectance=0.3)
        (note,) = (note for note in wet.metadata["weather_notes"] if "found between the points" in note)
        assert int(note.partition(" ")[0]) == pytest.approx(int(turn.lost.sum()), rel=0.005)


@pytest.mark.parametrize("as_rows", [False, True], ids=["missing", "rows of NaN"])
@pytest.mark.parametrize("recording", OUSTERS, ids=named)
def test_lost_shots_of_a_cloud_take_the_beam_angles_of_the_recording(recording: Recording, as_rows: bool) -> None:
    """Beams of these units lie up to 13 degrees from those of the preset; a driver's cloud has ring and column alone.

    The azimuths and elevations of the preset were used where they agree with the points within two degrees.
    """
    turn = next(iter(ph.read_frames(recording.path)))
    whole = turn.with_lost_shots() if as_rows else turn
    cloud = ph.PointCloud(whole.xyz, {"ring": whole.ring, "column": whole.column})
    shots = recorded_shots(cloud, ph.Lidar(recording.sensor), "auto")
    row = np.zeros((int(turn.shots.ring.max()) + 1, int(turn.shots.column.max()) + 1), np.int64)
    row[turn.shots.ring, turn.shots.column] = np.arange(len(turn.shots))
    lost = row[shots.lost["ring"], shots.lost["column"]]
    np.testing.assert_array_equal(np.sort(lost), np.flatnonzero(turn.lost))
    chord = np.linalg.norm(shots.vectors[shots.points_shots :] - turn.shots.direction[lost], axis=1)
    # Smaller shifts of a beam, 0.02 degrees in azimuth and in elevation, count as those of the preset.
    assert np.degrees(chord.max()) < 0.04
    assert "beam angles of the recording" in shots.notes[-1]


def test_view_serves_every_turn(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("viser", reason="viser is not installed")
    from parhelion.live.viewer import Viewer

    turns = list(ph.read_frames(recording.path))
    seen: list[int] = []

    def look(viewer: Viewer, *_: Any) -> None:
        with socket.create_connection((viewer.host, viewer.port), timeout=5) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert line.recv(64).startswith(b"HTTP/1.1 200")
        for _ in turns:
            viewer.step()
            assert viewer.session.measured is not None
            seen.append(len(viewer.session.measured.cloud))
            viewer.session.step()
        raise KeyboardInterrupt

    monkeypatch.setattr(Viewer, "run", look)
    result = run("view", recording.path, "--port", 0, ends_with=130)
    assert seen == [len(turn) for turn in turns]
    assert result.stdout.startswith(f"{recording.file}: open http://127.0.0.1:")
