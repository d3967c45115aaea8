"""Contract of makers: a folder outside the package is used by captures, bags, UDP and the command line.

The toy maker is in `tests/toy_maker`; no file of the package refers to it.
"""

from __future__ import annotations

import ast
import re
import socket
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import parhelion as ph
import toy_maker
from parhelion import makers
from parhelion.core.errors import ConfigError
from parhelion.io.pcap import read_pcap
from parhelion.makers import Maker, codecs, maker_called
from parhelion.makers.scales import scale_called

SOURCE = Path(ph.__file__).parent
OWN = ("velodyne", "ouster", "hesai", "robosense", "livox", "sick", "hokuyo", "slamtec", "aeva", "leica", "riegl")
RUN = {
    "duration_s": 0.11,
    "step_s": 0.05,
    "world": "mixed-objects",
    "sensors": [{"name": "top", "type": "lidar", "model": str(toy_maker.SHEET), "mount": {"xyz": [0, 0, 1]}}],
    "report": False,
}


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> Maker:
    monkeypatch.setattr(makers, "_registered", {})
    ph.register_maker(toy_maker.MAKER)
    return toy_maker.MAKER


# ---- the toy maker --------------------------------------------------------------------------------------------------


def test_no_file_of_the_package_knows_the_toy_maker() -> None:
    assert [str(file) for file in SOURCE.rglob("*.py") if "acme" in file.read_text(encoding="utf-8").lower()] == []
    with pytest.raises(ConfigError, match=r"intensity\.scale: expected 'velodyne', .*, got 'acme-root'"):
        ph.Lidar(toy_maker.SHEET)


def test_packages_add_makers_by_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    def entries(group: str, value: str = "toy_maker:MAKER") -> list[EntryPoint]:
        return [EntryPoint("acme", value, group)] if group == "parhelion.makers" else []

    makers._of_other_packages.cache_clear()
    monkeypatch.setattr(makers, "entry_points", entries)
    try:
        assert makers.makers()["acme"] is toy_maker.MAKER
        assert ph.Lidar(toy_maker.SHEET).config.maker == "acme"
        makers._of_other_packages.cache_clear()
        monkeypatch.setattr(makers, "entry_points", lambda group: entries(group, "toy_maker:SHEET"))
        with pytest.raises(ConfigError, match=r"the entry point 'acme' \(toy_maker:SHEET\) is not a Maker"):
            makers.makers()
    finally:
        makers._of_other_packages.cache_clear()


def test_built_in_makers_stay() -> None:
    with pytest.raises(ConfigError, match="'velodyne' is a built-in maker"):
        ph.register_maker(Maker("velodyne", "Mine"))
    assert tuple(makers.makers()) == OWN
    assert tuple(codecs()) == ("velodyne", "ouster", "hesai", "robosense", "livox")
    with pytest.raises(ConfigError, match="packets of the maker 'unheard' are not known"):
        maker_called("unheard").load_codec()
    with pytest.raises(ConfigError, match="its datagrams are encrypted"):
        Maker("other", "Other", no_codec="its datagrams are encrypted").load_codec()


def test_scan_and_capture(acme: Maker, tmp_path: Path) -> None:
    lidar = ph.Lidar(toy_maker.SHEET)
    scan = lidar.scan(ph.World.load("mixed-objects"), pose=ph.Pose(xyz=(0, 0, 1)), seed=3)
    white = np.rint(100.0 * np.sqrt(scan.fields["reflectivity"])).clip(0, 255)
    assert np.abs(scan.intensity - white).max() <= 1.0
    with pytest.warns(UserWarning, match="pcap cannot store"):
        scan.save(tmp_path / "scan.pcap")
    (again,) = ph.read_frames(tmp_path / "scan.pcap")
    assert (len(again), len(again.shots)) == (len(scan), len(scan.shots))
    assert len(again) > 100
    np.testing.assert_allclose(again.range, scan.range, atol=6e-4)
    np.testing.assert_array_equal(again.intensity, scan.intensity)
    np.testing.assert_array_equal(again.lost, scan.lost)
    with pytest.raises(ConfigError, match="Acme packets hold four channels"):
        codecs()["acme"].model_for(ph.Lidar("velodyne/vlp-16").shots())


def test_run_with_a_capture_and_a_bag(acme: Maker, tmp_path: Path) -> None:
    from parhelion.io.ros import BagReader, cloud_of

    scenario = ph.Scenario.from_mapping({**RUN, "outputs": [{"kind": "pcap"}, {"kind": "bag"}]})
    scenario.run(tmp_path)
    clouds = [ph.PointCloud.load(tmp_path / "top" / f"{number:06d}.pcd") for number in range(2)]
    turns = list(ph.read_frames(tmp_path / "top.pcap"))
    assert [len(turn) for turn in turns] == [len(cloud) for cloud in clouds]
    (bag,) = (path for path in tmp_path.rglob("*.mcap"))
    messages = list(BagReader(bag.parent).messages(["/acme/points"]))
    assert len(messages) == 2
    for message, cloud in zip(messages, clouds, strict=True):
        found = cloud_of(message)
        assert found.metadata["frame_id"] == "acme_link"
        for name in ("xyz", "ring", "intensity"):
            np.testing.assert_array_equal(getattr(found, name), getattr(cloud, name))
        np.testing.assert_allclose(found.time, cloud.time, atol=1e-6)


def test_udp_on_loopback(acme: Maker) -> None:
    from parhelion.live.udp import PacketUdp

    scenario = ph.Scenario.from_mapping({**RUN, "duration_s": 0.06})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(5.0)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        outlet = PacketUdp(scenario, "acme", ports=receiver.getsockname()[1], epoch_s=0.0)
        scans = []
        for step in scenario:
            scans += [scan for _, scan in step.scans.get("top", ())]
            outlet.take(step)
        outlet.close()
        got = [receiver.recv(65536) for _ in range(outlet.sent)]
    stream = codecs()["acme"].stream("acme/a4")
    assert got == [datagram.payload for scan in scans for datagram in stream.add(scan)]
    assert len(got) == 250


def test_shell_knows_the_maker(acme: Maker, tmp_path: Path) -> None:
    from parhelion.cli.app import app
    from parhelion.io.ros import BagReader, cloud_of

    def run(*words: object) -> Any:
        done = CliRunner().invoke(app, [str(word) for word in words], prog_name="parhelion")
        assert done.exit_code == 0, done.output
        return done

    scene = tmp_path / "scene.yaml"
    scene.write_text(yaml.safe_dump(RUN))
    assert "Acme UDP: 127.0.0.1:9100" in run("stream", scene, "--acme-udp").stdout
    target = tmp_path / "scan.pcap"
    run("scan", "--world", "mixed-objects", "--sensor", toy_maker.SHEET, "-o", target)
    assert {len(datagram.payload) for datagram in read_pcap(target)} == {86}
    run("convert", target, tmp_path / "drive.mcap", "--layout", "acme")
    (message,) = BagReader(tmp_path / "drive.mcap").messages()
    assert len(cloud_of(message)) == len(next(ph.read_frames(target))) > 100


# ---- built-in makers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OWN)
def test_scales_of_makers_invert(name: str) -> None:
    for key, scale in maker_called(name).scales.items():
        assert scale_called(key) is scale
        reflectivity = np.array([0.05, 0.5, 0.9])
        power = np.array([5.0, 20.0, 300.0])
        value = np.asarray(scale.encode(power, reflectivity, 6.0))
        assert value.max() <= 2**scale.bits - 1
        back = scale.reflectivity(value)
        if back is not None:
            np.testing.assert_allclose(back, reflectivity, rtol=1e-6)
        back = scale.power(value, 6.0)
        if back is not None:
            np.testing.assert_allclose(back, power, rtol=1e-6)
        if scale.byte_reflectivity:
            counts = scale.reflectivity_bytes(reflectivity)
            np.testing.assert_allclose(scale.reflectivity_of_bytes(counts), reflectivity)


def test_no_code_outside_the_makers_compares_with_a_maker_s_name() -> None:
    files = [file for file in SOURCE.rglob("*.py") if file.relative_to(SOURCE).parts[0] != "makers"]
    # KITTI names a folder after its lidar, and the calibration example is made for selected presets.
    files = [file for file in files if file.stem not in ("kitti", "raw_scans", "example")]
    assert [f"{file.relative_to(SOURCE)}: {word}" for file in files for word in _compared(file)] == []


def _compared(file: Path) -> list[str]:
    """Names of makers, their presets and scales that a file compares with."""
    named = re.compile(rf"({'|'.join(OWN)})([/-].*)?")
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        asks = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith"
        if asks or isinstance(node, ast.Compare):
            words = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
            found += [word for word in words if isinstance(word, str) and named.fullmatch(word)]
    return found
