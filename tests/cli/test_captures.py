"""Captures on the command line are sequences of frames, written to folders, bags and captures."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from ouster_scans import random_scan
from parhelion.core.clouds import Scan
from parhelion.io import read_cloud
from parhelion.io.captures import write_capture
from parhelion.io.pcap import PcapWriter
from parhelion.makers.velodyne.encode import VelodyneStream
from parhelion.sensors.check import same_bits
from velodyne_rigs import made_up_scan

Run = Callable[..., Any]
Fails = Callable[..., str]
TURNS = 4
DENSE_M = 15
"""Visibility at which fog itself answers every sensor."""
SENSOR = "velodyne/vlp-32c"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a capture of a Velodyne and one of an Ouster, four turns each; the Velodyne lost a packet."""
    folder = tmp_path_factory.mktemp("recordings")
    lidar = ph.Lidar(SENSOR)
    stream = VelodyneStream(SENSOR, epoch_s=1e9)
    datagrams = [d for k in range(TURNS) for d in stream.add(made_up_scan(lidar, start=0.1 * k, seed=k))]
    with PcapWriter(folder / "roof.pcap") as capture:
        for number, datagram in enumerate([*datagrams, *stream.finish()]):
            if number != 300:
                capture.write(*datagram)
    ouster = ph.Lidar("ouster/os0-32", columns=512)
    write_capture([random_scan(ouster, k, start=5.0 + 0.1 * k) for k in range(TURNS)], folder / "front.pcap")
    return folder


@pytest.fixture
def velodyne(recordings: Path) -> Path:
    return recordings / "roof.pcap"


@pytest.fixture
def ouster(recordings: Path) -> Path:
    return recordings / "front.pcap"


# ---- convert -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["roof", "front"])
def test_turns_become_numbered_files_of_a_new_folder(name: str, recordings: Path, tmp_path: Path, run: Run) -> None:
    source, folder = recordings / f"{name}.pcap", tmp_path / "turns"
    result = run("convert", source, folder, "--format", "pcd")
    assert result.exit_code == 0, result.output
    assert sorted(file.name for file in folder.iterdir()) == [f"{k:06d}.pcd" for k in range(TURNS)]
    for number, turn in enumerate(ph.read_frames(source)):
        cloud = read_cloud(folder / f"{number:06d}.pcd")
        np.testing.assert_array_equal(cloud.xyz, turn.xyz)
        np.testing.assert_array_equal(cloud.ring, turn.ring)
        assert cloud.metadata["sensor"] == turn.metadata["sensor"]
    assert f"converted 4 frames of {source} to {folder}" in result.stdout
    assert ("packets were lost, 12 columns are missing" in result.stdout) == (name == "roof")
    again = run("convert", source, folder)
    assert "converted 0 frames" in again.stdout
    assert "skipped 4 existing" in again.stdout


def test_lost_shots_can_be_kept(velodyne: Path, tmp_path: Path, run: Run) -> None:
    assert run("convert", velodyne, tmp_path / "all", "--keep-lost").exit_code == 0
    for number, turn in enumerate(ph.read_frames(velodyne)):
        cloud = read_cloud(tmp_path / "all" / f"{number:06d}.pcd")
        assert np.isnan(cloud.xyz[:, 0]).sum() == turn.lost.sum() > 10_000
        np.testing.assert_allclose(np.linalg.norm(cloud.direction, axis=1), 1.0, atol=1e-6)


def test_one_file_takes_one_turn(velodyne: Path, tmp_path: Path, run: Run, fails: Fails) -> None:
    error = fails("convert", velodyne, tmp_path / "one.ply")
    assert "holds more than one frame" in error
    assert f"a folder for all frames ({tmp_path / 'one'}/)" in error
    assert "--index 0" in error
    assert list(tmp_path.iterdir()) == []
    assert run("convert", velodyne, tmp_path / "one.ply", "--index", 2).exit_code == 0
    turns = list(ph.read_frames(velodyne))
    np.testing.assert_array_equal(read_cloud(tmp_path / "one.ply").xyz, turns[2].xyz)
    assert "has the frames 0 to 3, not 4" in fails("convert", velodyne, tmp_path / "no.ply", "--index", 4)
    assert "already exists; --force replaces it" in fails("convert", velodyne, tmp_path / "one.ply", "--index", 1)
    assert "--index" in run("convert", tmp_path / "one.ply", tmp_path / "two.pcd", "--index", 1).stderr
    assert "unknown file extension" in fails("convert", velodyne, tmp_path / "one.pdc")


def test_a_capture_of_one_turn_is_one_file(tmp_path: Path, run: Run) -> None:
    scan = made_up_scan(ph.Lidar(SENSOR), seed=2)
    scan.save(tmp_path / "one.pcap")
    assert run("convert", tmp_path / "one.pcap", tmp_path / "one.npz").exit_code == 0
    cloud = read_cloud(tmp_path / "one.npz")
    assert isinstance(cloud, Scan)
    assert len(cloud) == len(scan)


def test_turns_become_messages(recordings: Path, tmp_path: Path, run: Run) -> None:
    from parhelion.io.ros import BagReader, cloud_of

    for name in ("roof", "front"):
        bag = tmp_path / f"{name}.mcap"
        result = run("convert", recordings / f"{name}.pcap", bag, "--topic", "/scan")
        assert result.exit_code == 0, result.output
        assert f"wrote 4 clouds on /scan to {bag}" in result.stdout
        clouds = [cloud_of(message) for message in BagReader(bag).messages(["/scan"])]
        turns = list(ph.read_frames(recordings / f"{name}.pcap"))
        assert [len(cloud) for cloud in clouds] == [len(turn) for turn in turns]
        assert [cloud.metadata["time"] for cloud in clouds] == pytest.approx([t.start_time for t in turns], abs=1e-6)
        assert {cloud.metadata["frame_id"] for cloud in clouds} == {"lidar"}


def test_a_folder_of_captures_and_clouds(recordings: Path, tmp_path: Path, run: Run, fails: Fails) -> None:
    folder = tmp_path / "in"
    shutil.copytree(recordings, folder)
    made_up_scan(ph.Lidar("velodyne/vlp-16")).save(folder / "scan.pcd")
    result = run("convert", folder, tmp_path / "out", "--format", "ply")
    assert result.exit_code == 0, result.output
    found = sorted(str(file.relative_to(tmp_path / "out")) for file in (tmp_path / "out").rglob("*.ply"))
    assert found == [*(f"front/{k:06d}.ply" for k in range(4)), *(f"roof/{k:06d}.ply" for k in range(4)), "scan.ply"]
    assert "converted 1 file to" in result.stdout
    # One that is broken does not stop the others.
    (folder / "a.pcap").write_bytes(b"no capture")
    (tmp_path / "out" / "roof" / "000002.ply").unlink()
    assert "1 of 3 files could not be read" in fails("convert", folder, tmp_path / "out", "--format", "ply")
    assert (tmp_path / "out" / "roof" / "000002.ply").exists()
    assert not (tmp_path / "out" / "a").exists()


def test_the_model_can_be_named(velodyne: Path, tmp_path: Path, run: Run, fails: Fails) -> None:
    from parhelion.io.pcap import read_pcap

    unknown = tmp_path / "unknown.pcap"
    with PcapWriter(unknown) as capture:
        for datagram in read_pcap(velodyne):
            if len(datagram.payload) == 1206:
                datagram = datagram._replace(payload=datagram.payload[:-1] + b"\x77")
            capture.write(*datagram)
    assert "unknown product code 0x77" in fails("convert", unknown, tmp_path / "turns")
    assert not (tmp_path / "turns").exists()
    assert run("convert", unknown, tmp_path / "turns", "--sensor", SENSOR).exit_code == 0
    assert len(list((tmp_path / "turns").iterdir())) == TURNS
    result = run("weather", unknown, "-o", tmp_path / "wet", "--visibility", DENSE_M, "--sensor", SENSOR)
    assert result.exit_code == 0, result.output


# ---- weather -------------------------------------------------------------------------------------------------------


def weathered(source: Path, seed: int) -> list[ph.PointCloud]:
    """Fog on each turn's own cloud."""
    fog = ph.Weather(visibility_m=DENSE_M)
    turns = list(ph.read_frames(source))
    return [
        fog.apply(turn, sensor=turn.metadata["sensor"], seed=seed, frame=k, time=turn.start_time - turns[0].start_time)
        for k, turn in enumerate(turns)
    ]


@pytest.mark.parametrize("name", ["roof", "front"])
def test_weather_turn_by_turn_is_weather_on_each_turns_cloud(
    name: str, recordings: Path, tmp_path: Path, run: Run
) -> None:
    source = recordings / f"{name}.pcap"
    result = run("weather", source, "-o", tmp_path / "wet", "--visibility", DENSE_M, "--seed", 7, "--format", "npz")
    assert result.exit_code == 0, result.output
    expected = weathered(source, 7)
    files = sorted((tmp_path / "wet").iterdir())
    assert [file.name for file in files] == [f"{k:06d}.npz" for k in range(TURNS)]
    for file, wet in zip(files, expected, strict=True):
        cloud = read_cloud(file)
        assert isinstance(cloud, Scan)
        assert same_bits(cloud, wet)
    fog = sum(int((wet.origin == 2).sum()) for wet in expected)
    # Along shots that met nothing, too, which are a third of all.
    pairs = zip(expected, ph.read_frames(source), strict=True)
    assert sum(int(np.isin(wet.shot, np.flatnonzero(turn.lost)).sum()) for wet, turn in pairs) > 100
    assert f"fog {fog:,}".replace(",", " ") in " ".join(result.stdout.split())
    assert "clouds 4" in " ".join(result.stdout.split())
    # An interrupted run goes on with the same drops.
    files[2].unlink()
    again = run("weather", source, "-o", tmp_path / "wet", "--visibility", DENSE_M, "--seed", 7, "--format", "npz")
    assert "skipped 3 existing" in again.stdout
    assert same_bits(read_cloud(files[2]), expected[2])


def test_weather_goes_into_bags_and_captures(recordings: Path, tmp_path: Path, run: Run) -> None:
    from parhelion.io.ros import BagReader, cloud_of

    ouster = recordings / "front.pcap"
    expected = weathered(ouster, 0)
    bag, capture = tmp_path / "wet.mcap", tmp_path / "wet.pcap"
    for target in (bag, capture):
        result = run("weather", ouster, "-o", target, "--visibility", DENSE_M)
        assert result.exit_code == 0, result.output
        assert result.stdout.count("wrote") == 1
    clouds = [cloud_of(message) for message in BagReader(bag).messages(["/points"])]
    turns = list(ph.read_frames(capture))
    assert [len(cloud) for cloud in clouds] == [len(wet) for wet in expected]
    assert [len(turn) for turn in turns] == [len(wet) for wet in expected]
    for turn, wet in zip(turns, expected, strict=True):
        np.testing.assert_array_equal(turn.shots.return_count, wet.shots.return_count)
        by_shot = np.argsort(wet.shot, kind="stable")
        assert np.abs(turn.range - wet.range[by_shot]).max() < 0.0006  # steps of 1 mm


def test_a_turn_that_packets_cannot_hold_again_is_reported(velodyne: Path, tmp_path: Path, fails: Fails) -> None:
    error = fails("weather", velodyne, "-o", tmp_path / "wet.pcap", "--visibility", DENSE_M)
    assert "frame 1 cannot be written as packets" in error  # it has a gap
    assert "give a folder or a bag" in error
    assert list(tmp_path.iterdir()) == []


def test_one_turn_in_weather(ouster: Path, tmp_path: Path, run: Run, fails: Fails) -> None:
    assert "--index 0" in fails("weather", ouster, "-o", tmp_path / "wet.npz", "--visibility", DENSE_M)
    assert run("weather", ouster, "-o", tmp_path / "wet.npz", "--visibility", DENSE_M, "--index", 2).exit_code == 0
    turn = list(ph.read_frames(ouster))[2]
    wet = ph.Weather(visibility_m=DENSE_M).apply(turn, sensor="ouster/os0-32", frame=2)
    assert same_bits(read_cloud(tmp_path / "wet.npz"), wet)


def test_a_folder_of_captures_in_weather(recordings: Path, tmp_path: Path, run: Run) -> None:
    result = run("weather", recordings, "-o", tmp_path / "wet", "--visibility", DENSE_M)
    assert result.exit_code == 0, result.output
    found = sorted(str(file.relative_to(tmp_path / "wet")) for file in (tmp_path / "wet").rglob("*.pcd"))
    assert found == [*(f"front/{k:06d}.pcd" for k in range(4)), *(f"roof/{k:06d}.pcd" for k in range(4))]
    again = run("weather", recordings, "-o", tmp_path / "wet", "--visibility", DENSE_M)
    assert "skipped 8 existing" in again.stdout


# ---- SemanticKITTI -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["sequence", "beside"])
def test_labels_beside_a_scan_survive_weather(layout: str, tmp_path: Path, run: Run) -> None:
    scan = ph.Lidar("velodyne/hdl-64e", sub_rays=1).scan(ph.World.load("cuboids"), pose=ph.Pose((0, 0, 1.7)), seed=1)
    codes = ph.PointCloud(scan.xyz, {name: scan.fields[name] for name in ("intensity", "label", "instance")})
    points = tmp_path / "00" / ("velodyne" if layout == "sequence" else "scans") / "000007.bin"
    labels = tmp_path / "00" / ("labels" if layout == "sequence" else "scans") / "000007.label"
    for folder in {points.parent, labels.parent}:
        folder.mkdir(parents=True)
    codes.save(points, labels=labels)
    result = run("weather", tmp_path / "00", "-o", tmp_path / "01", "--visibility", 80, "-s", "velodyne/hdl-64e")
    assert result.exit_code == 0, result.output
    assert "label" not in result.stderr
    new = tmp_path / "01" / labels.relative_to(tmp_path / "00")
    wet = read_cloud(tmp_path / "01" / points.relative_to(tmp_path / "00"), labels=new)
    before = read_cloud(points, labels=labels)
    expected = ph.Weather(visibility_m=80).apply(before, sensor="velodyne/hdl-64e")
    np.testing.assert_array_equal(wet.label, expected.label)
    np.testing.assert_array_equal(wet.instance, expected.instance)
    air = expected.origin != 0
    assert air.sum() > 300
    assert set(wet.label[air].tolist()) == {1}  # SemanticKITTI's outlier
    assert set(wet.label[~air].tolist()) <= set(before.label.tolist())
    assert "shots without a return were found between the points" in result.stdout
    # As one archive, labels stay in it.
    assert run("weather", points, "-o", tmp_path / "a.npz", "--visibility", 80, "-s", "velodyne/hdl-64e").exit_code == 0
    np.testing.assert_array_equal(read_cloud(tmp_path / "a.npz").label, expected.label)


def test_weather_on_weather_is_reported(velodyne: Path, tmp_path: Path, run: Run) -> None:
    run("weather", velodyne, "-o", tmp_path / "a.npz", "--visibility", DENSE_M, "--index", 0)
    result = run("weather", tmp_path / "a.npz", "-o", tmp_path / "b.npz", "--rain", 20)
    assert "note: the cloud contains weather already (" in result.stdout
    assert any("contains weather already" in note for note in read_cloud(tmp_path / "b.npz").metadata["weather_notes"])
