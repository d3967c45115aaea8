"""Captures of a run: one for each lidar with known packets, whole or not there. Read by decoders of others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import velodyne_decoder as vd

import parhelion as ph
from parhelion.core.errors import ConfigError, FormatError
from parhelion.io import read_cloud
from parhelion.io.packets.pcap import read_pcap
from parhelion.io.packets.velodyne_decode import is_data_packet
from parhelion.outputs.pcap import PcapSink

RUN = {
    "duration_s": 0.21,
    "step_s": 0.05,
    "world": "mixed-objects",
    "sensors": [
        {
            "name": "top",
            "type": "lidar",
            "model": "velodyne/vlp-16",
            "mount": {"xyz": [0, 0, 1]},
            "options": {"sub_rays": 1},
        },
        {
            "name": "front",
            "type": "lidar",
            "model": "velodyne/hdl-32e",
            "mount": {"xyz": [0, 0, 2]},
            "options": {"returns": "dual", "sub_rays": 1},
        },
        {"name": "odd", "type": "lidar", "model": "velodyne/hdl-64e", "options": {"sub_rays": 1}},
    ],
    "outputs": [{"kind": "pcap"}],
    "report": False,
}


def test_a_run_writes_a_capture_for_every_lidar_with_packets(tmp_path: Path) -> None:
    scenario = ph.Scenario.from_mapping(RUN)
    with pytest.warns(UserWarning, match=r"no capture of odd \(velodyne/hdl-64e\): their packets are not known"):
        summary = scenario.run(tmp_path)
    assert {file.name for file in summary.files if file.suffix == ".pcap"} == {"top.pcap", "front.pcap"}
    assert sum(is_data_packet(d.payload) for d in read_pcap(tmp_path / "top.pcap")) == 151  # 2 scans of 1808 sequences
    for name in ("top", "front"):
        clouds = [ph.PointCloud.load(tmp_path / name / f"{number:06d}.pcd") for number in range(2)]
        whole = read_cloud(tmp_path / f"{name}.pcap")
        assert len(whole) == sum(map(len, clouds)) > 1000
        assert np.abs(np.sort(whole.range) - np.sort(np.concatenate([c.range for c in clouds]))).max() < 2e-5
        found = vd.read_pcap(str(tmp_path / f"{name}.pcap"), vd.Config(min_range=0.0, max_range=300.0))
        assert sum(len(points) for _, points in found) == len(whole)


def test_a_run_that_cannot_have_captures_is_told_before_it_begins(tmp_path: Path) -> None:
    sensors = [{"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "options": {"returns": "first"}}]
    scenario = ph.Scenario.from_mapping({**RUN, "sensors": sensors})
    with pytest.raises(ConfigError, match="sensors: top: unknown return mode of Velodyne packets 'first'"):
        PcapSink(scenario, tmp_path)
    both = ph.Scenario.from_mapping({**RUN, "sensors": RUN["sensors"][:2]})
    sink = PcapSink(both, tmp_path)
    sink.take(next(step for step in both if step.scans))
    sink.abandon()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "front.pcap").mkdir()
    with pytest.raises(FormatError, match=r"front.pcap: is a folder"):
        PcapSink(both, tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["front.pcap"]


def test_an_ouster_has_its_imu_and_its_metadata(tmp_path: Path) -> None:
    from ouster.sdk import pcap as ouster_pcap

    from parhelion.io.packets.ouster_capture import read_capture, read_imu

    sensors = [
        {
            "name": "roof", "type": "lidar", "model": "ouster/os1-32", "vehicle": "car",
            "mount": {"xyz": [0, 0, 2]}, "options": {"sub_rays": 1},
        },
        {"name": "imu", "type": "imu", "model": "analog-devices/adis16470", "vehicle": "car", "rate_hz": 100},
    ]  # fmt: skip
    vehicles = [{"name": "car", "motion": {"fixed": {}}}]
    scenario = ph.Scenario.from_mapping({**RUN, "sensors": sensors, "vehicles": vehicles})
    summary = scenario.run(tmp_path)
    assert {"roof.pcap", "roof.json"} <= {file.name for file in summary.files}
    scans = read_capture(tmp_path / "roof.pcap")
    clouds = [ph.PointCloud.load(tmp_path / "roof" / f"{number:06d}.pcd") for number in range(2)]
    assert [len(scan) for scan in scans] == [len(cloud) for cloud in clouds]
    assert len(read_imu(tmp_path / "roof.pcap")) == 20
    times = [datagram.time_s for datagram in read_pcap(tmp_path / "roof.pcap")]
    assert times == sorted(times)
    source = ouster_pcap.PcapPacketSource(str(tmp_path / "roof.pcap"))
    kinds = [type(packet).__name__ for _, packet in source]
    assert (kinds.count("LidarPacket"), kinds.count("ImuPacket")) == (128, 20)
