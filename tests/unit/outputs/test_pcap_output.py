"""Captures of a run: one for each lidar with known packets, whole or not there. Read by decoders of others."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import velodyne_decoder as vd
import yaml

import parhelion as ph
from parhelion.core.errors import ConfigError, FormatError
from parhelion.io import read_cloud
from parhelion.io.pcap import read_pcap
from parhelion.makers.velodyne.decode import is_data_packet
from parhelion.makers.velodyne.models import MODELS
from parhelion.outputs.captures import PcapSink, packets_like

PRESETS = Path(ph.__file__).parent / "sensors" / "presets" / "lidar"

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
    with pytest.warns(UserWarning, match=r"no capture of odd \(velodyne/hdl-64e\): it has 64 channels, but"):
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


def test_a_run_that_cannot_have_captures_is_reported_before_it_begins(tmp_path: Path) -> None:
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


def _own_sheet(folder: Path, preset: str, **changes: Any) -> Path:
    """A copy of a preset under another name, with fields of its pattern changed."""
    maker, _, model = preset.partition("/")
    sheet = yaml.safe_load((PRESETS / maker / f"{model}.yaml").read_text())
    sheet["name"], sheet["maker"] = "Mine", changes.pop("maker", sheet["maker"])
    channels = sheet["pattern"]["channels"]
    for name, change in changes.items():
        (channels if name in {*channels, "azimuth_deg"} else sheet["pattern"])[name] = change
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump(sheet))
    return file


@pytest.mark.parametrize("preset", sorted(MODELS))
def test_a_copy_of_a_velodyne_sheet_sends_what_the_original_does(tmp_path: Path, preset: str) -> None:
    own = _own_sheet(tmp_path, preset)
    captures = []
    for name, model in (("original", preset), ("copy", str(own))):
        sensor = {"name": "top", "type": "lidar", "model": model, "options": {"sub_rays": 1, "noise": False}}
        ph.Scenario.from_mapping({**RUN, "sensors": [sensor]}).run(tmp_path / name)
        captures.append((tmp_path / name / "top.pcap").read_bytes())
    assert captures[0] == captures[1]
    assert len(captures[0]) > 100_000
    scan = ph.Lidar(own, sub_rays=1).scan(ph.World.load("mixed-objects"), seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scan.save(tmp_path / "scan.pcap")
    assert len(read_cloud(tmp_path / "scan.pcap")) == len(scan) > 1000


_VLP_16 = list(MODELS["velodyne/vlp-16"].elevation_deg)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"maker": "robosense"}, "because it fires every 55.296 us, not every 55.5 us"),
        ({"maker": "unknown"}, "packets of the maker 'unknown' are not known"),
        ({"elevation_deg": [*_VLP_16[:-1], 14.0]}, "because channel 15 is 1.00 deg off its elevation"),
        ({"azimuth_deg": [0.0] * 15 + [1.0]}, "because channel 15 is 1.00 deg off its azimuth"),
        ({"firing_period_us": 50.0}, "because it fires every 50.000 us, not every 55.296 us"),
        ({"fire_time_us": [0.0] * 16}, "because channel 15 fires 34.56 us off its time"),
        ({"direction": "counter-clockwise"}, "because it rotates counter-clockwise"),
    ],
)  # fmt: skip
def test_why_a_sheet_has_no_packets_is_reported(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    own = _own_sheet(tmp_path, "velodyne/vlp-16", **changes)
    with pytest.raises(ConfigError, match=re.escape(reason) + "$"):
        packets_like(ph.Lidar(own))
    if "maker" not in changes:
        scan = ph.Lidar(own, sub_rays=1).scan(ph.World.load("mixed-objects"), seed=1)
        with pytest.raises(FormatError, match=re.escape(reason) + "$"):
            scan.save(tmp_path / "scan.pcap")


def test_the_calibration_of_a_single_unit_does_not_change_its_packets(tmp_path: Path) -> None:
    turned = [angle + 0.05 * (-1) ** k for k, angle in enumerate(_VLP_16)]
    assert packets_like(ph.Lidar(_own_sheet(tmp_path, "velodyne/vlp-16", elevation_deg=turned)))[1] == "velodyne/vlp-16"


def test_an_ouster_has_its_imu_and_its_metadata(tmp_path: Path) -> None:
    ouster_pcap = pytest.importorskip("ouster.sdk.pcap", reason="ouster-sdk is not installed")

    from parhelion.io.captures import read_frames

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
    scans = list(read_frames(tmp_path / "roof.pcap"))
    clouds = [ph.PointCloud.load(tmp_path / "roof" / f"{number:06d}.pcd") for number in range(2)]
    assert [len(scan) for scan in scans] == [len(cloud) for cloud in clouds]
    assert len(ph.ImuData.load(tmp_path / "roof.pcap")) == 20
    times = [datagram.time_s for datagram in read_pcap(tmp_path / "roof.pcap")]
    assert times == sorted(times)
    source = ouster_pcap.PcapPacketSource(str(tmp_path / "roof.pcap"))
    kinds = [type(packet).__name__ for _, packet in source]
    assert (kinds.count("LidarPacket"), kinds.count("ImuPacket")) == (128, 20)


def test_an_own_ouster_sheet_sends_its_own_beams(tmp_path: Path) -> None:
    """Ouster's decoder and ours put every point where the run had it, by the angles in the metadata."""
    core = pytest.importorskip("ouster.sdk.core", reason="ouster-sdk is not installed")
    from ouster.sdk import pcap as ouster_pcap

    from ouster_scans import sdk_frames
    from parhelion.io.captures import read_frames

    channels = ph.Lidar("ouster/os0-32").config.pattern.channels  # type: ignore[union-attr]
    up = [angle + 0.3 * (-1) ** k for k, angle in enumerate(channels.elevation_deg)]
    aside = [angle - 0.02 * k for k, angle in enumerate(channels.azimuth_deg)]
    own = _own_sheet(tmp_path, "ouster/os0-32", elevation_deg=up, azimuth_deg=aside)
    sensor = {"name": "roof", "type": "lidar", "model": str(own), "options": {"sub_rays": 1}}
    ph.Scenario.from_mapping({**RUN, "duration_s": 0.11, "sensors": [sensor]}).run(tmp_path)
    scan = ph.Lidar(own, sub_rays=1).scan(ph.World.load("mixed-objects"), seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scan.save(tmp_path / "scan.pcap")
    known = {"roof": ph.PointCloud.load(tmp_path / "roof" / "000000.pcd"), "scan": scan}
    for name, cloud in known.items():
        (again,) = list(read_frames(tmp_path / f"{name}.pcap"))
        assert again.metadata["sensor"] == "ouster/os0-32"
        assert len(again) == len(cloud) > 1000
        source = ouster_pcap.PcapPacketSource(str(tmp_path / f"{name}.pcap"))
        info = source.sensor_info[0]
        np.testing.assert_allclose(info.beam_altitude_angles, up, atol=1e-5)
        np.testing.assert_allclose(info.beam_azimuth_angles, -np.array(aside), atol=1e-5)
        (frame,) = sdk_frames([packet.buf for _, packet in source if isinstance(packet, core.LidarPacket)], info)
        theirs = core.XYZLut(info)(frame.field("RANGE"))
        place = (31 - cloud.fields["ring"].astype(int), cloud.fields["column"].astype(int))
        # Half a millimetre of range, and 1e-5 degrees of angle.
        assert np.linalg.norm(theirs[place] - cloud.xyz, axis=1).max() < 7e-4
        order = (np.lexsort((one.fields["ring"], one.fields["column"])) for one in (again, cloud))
        mine, true = (one.xyz[rows] for one, rows in zip((again, cloud), order, strict=True))
        assert np.linalg.norm(mine - true, axis=1).max() < 7e-4
