"""A resumed run reuses unchanged files, and writes the others again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from test_scenario import DRIVE, YARD, files_of

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.files import atomic_write
from parhelion.outputs.run import RunSummary
from parhelion.outputs.verify import verify
from parhelion.scenario import Scenario
from run_rigs import Stop, stop_after

PLAIN = {
    **DRIVE,
    "outputs": [],
    "boxes": "kitti",
    "sensors": DRIVE["sensors"][:1],
}
DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": lambda file: os.truncate(file, file.stat().st_size // 2),
    "empty": lambda file: file.write_bytes(b""),
    "other bytes": lambda file: file.write_bytes(file.read_bytes()[:-1] + b"\x7f"),
    "removed": Path.unlink,
}


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("yard")
    (folder / "yard.yaml").write_text(yaml.safe_dump(YARD))
    (folder / "drive.yaml").write_text(yaml.safe_dump(PLAIN))
    return folder


@pytest.fixture
def run(yard: Path, tmp_path: Path) -> Callable[..., RunSummary]:
    def run_again(**options: object) -> RunSummary:
        return Scenario.load(yard / "drive.yaml").run(tmp_path / "out", **options)  # type: ignore[arg-type]

    run_again()
    return run_again


@pytest.mark.parametrize("name", ["top/000002.pcd", "top-boxes/000002.txt"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_file_of_a_finished_run_is_made_anew(
    run: Callable[..., RunSummary], tmp_path: Path, damage: Callable[[Path], object], name: str
) -> None:
    whole = files_of(tmp_path / "out")
    damage(tmp_path / "out" / name)
    assert files_of(tmp_path / "out") != whole
    summary = run()
    assert (summary.scans, summary.found) == (1, 4)
    assert files_of(tmp_path / "out") == whole


def test_damage_is_found_after_a_second_run_was_stopped(run: Callable[..., RunSummary], tmp_path: Path) -> None:
    whole, clouds = files_of(tmp_path / "out"), tmp_path / "out" / "top"
    (clouds / "000004.pcd").unlink()

    def stop(there: int, total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        run(progress=stop)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert not manifest["complete"]
    assert "top/000001.pcd" in manifest["files"]
    os.truncate(clouds / "000001.pcd", 100)
    run()
    assert files_of(tmp_path / "out") == whole


def test_a_cloud_that_a_finished_run_does_not_know_is_made_anew(run: Callable[..., RunSummary], tmp_path: Path) -> None:
    whole, file = files_of(tmp_path / "out"), tmp_path / "out" / "manifest.json"
    manifest = json.loads(file.read_text())
    del manifest["files"]["top/000003.pcd"]
    file.write_text(json.dumps(manifest))
    (tmp_path / "out" / "top" / "000003.pcd").write_bytes(b"anything")
    assert run().scans == 1
    assert files_of(tmp_path / "out") == whole


def test_litter_of_killed_runs_is_removed(run: Callable[..., RunSummary], tmp_path: Path) -> None:
    out = tmp_path / "out"
    whole = files_of(out)
    for place in (out, out / "top", out / "truth"):
        (place / ".parhelion-0123456789ab-000001.pcd").write_bytes(b"half a cloud")
    busy = out / "busy"
    busy.mkdir()
    kept = [out / ".parhelion-notes", busy / ".writing", busy / ".parhelion-0123456789ab-mine.pcd"]
    for file in kept:
        file.write_bytes(b"of another program")
    run()
    assert set(files_of(out)) == set(whole) | {file.relative_to(out).as_posix() for file in kept}


def _with_seed(yard: Path, seed: int, **fields: object) -> Scenario:
    return Scenario.from_mapping({**PLAIN, "seed": seed, **fields}, yard)


def test_a_replaced_run_that_is_stopped_leaves_no_cloud_of_the_earlier_one(yard: Path, tmp_path: Path) -> None:
    _with_seed(yard, 1).run(tmp_path / "out")
    _with_seed(yard, 2).run(tmp_path / "whole")

    with pytest.raises(Stop):
        _with_seed(yard, 2).run(tmp_path / "out", replace=True, progress=stop_after(2))
    # The second scenario may go on now, and must not take a cloud of the first for its own.
    _with_seed(yard, 2).run(tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def test_a_run_is_replaced_only_by_a_scenario_of_the_same_name(yard: Path, tmp_path: Path) -> None:
    _with_seed(yard, 1, name="mine").run(tmp_path / "out")
    before = files_of(tmp_path / "out")
    with pytest.raises(ConfigError, match="contains a run of a scenario other than 'theirs'"):
        _with_seed(yard, 1, name="theirs").run(tmp_path / "out", replace=True)
    assert files_of(tmp_path / "out") == before


def test_an_output_that_cannot_be_made_leaves_the_earlier_run_whole(yard: Path, tmp_path: Path) -> None:
    _with_seed(yard, 1).run(tmp_path / "out")
    before = files_of(tmp_path / "out")
    twice = _with_seed(yard, 2, outputs=[{"kind": "nuscenes"}, {"kind": "nuscenes"}])
    with pytest.raises(ConfigError, match="is given twice"):
        twice.run(tmp_path / "out", replace=True)
    assert files_of(tmp_path / "out") == before


def test_a_sensor_names_the_folder_of_its_frames(yard: Path, tmp_path: Path) -> None:
    plain = _with_seed(yard, 1).run(tmp_path / "plain")
    sensor = {**PLAIN["sensors"][0], "folder": "clouds"}
    _with_seed(yard, 1, sensors=[sensor]).run(tmp_path / "named")
    there, named = files_of(tmp_path / "plain"), files_of(tmp_path / "named")
    assert plain.scans == 5
    for number in range(5):
        for folder, ending in (("", ".pcd"), ("-boxes", ".txt")):
            name = f"{folder}/{number:06d}{ending}"
            assert named[f"clouds{name}"] == there[f"top{name}"]
    assert not any(name.startswith("top") for name in named)
    with pytest.raises(ConfigError, match="two sensors have the folder 'top'"):
        _with_seed(yard, 1, sensors=[PLAIN["sensors"][0], {**sensor, "name": "other", "folder": "top"}])


# ---- killed runs ----------------------------------------------------------------------------------------------------


KILLED = """
import os, pathlib, sys, time
from parhelion.scenario import Scenario

def stop(done, total):
    if done == 4:
        while not pathlib.Path(sys.argv[2], "top", "000002.pcd").exists():  # frames are written in the background
            time.sleep(0.01)
        os.kill(os.getpid(), 9)

Scenario.load(sys.argv[1]).run(sys.argv[2], progress=stop)
"""


def _killed_run(yard: Path, out: Path, **fields: object) -> tuple[Path, dict[str, bytes]]:
    """Run that was killed after some frames, and the files of the complete run."""
    file = yard / "killed.yaml"
    file.write_text(yaml.safe_dump({**PLAIN, "report": True, **fields}))
    Scenario.load(file).run(out.with_name("whole"))
    done = subprocess.run([sys.executable, "-c", KILLED, str(file), str(out)], timeout=120)
    assert done.returncode == -9
    assert len(list((out / "top").glob("0*.pcd"))) >= 2
    return file, _without_timing(out.with_name("whole"))


def _without_timing(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in files_of(folder).items() if name != "report.html"}


def test_damaged_files_of_a_killed_run_are_regenerated(yard: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    file, whole = _killed_run(yard, out)
    (out / "top" / "000000.pcd").write_bytes(b"")
    data = bytearray((out / "top" / "000001.pcd").read_bytes())
    data[-5] ^= 1
    (out / "top" / "000001.pcd").write_bytes(data)
    statistics = out / "statistics.jsonl"
    statistics.write_text(statistics.read_text().replace('"points": ', '"points": 1', 1))
    found = verify(out)
    assert not found.complete
    assert found.changed == ["top/000000.pcd", "top/000001.pcd"]
    Scenario.load(file).run(out)
    assert _without_timing(out) == whole
    assert verify(out).good


def test_intact_frames_of_a_killed_run_are_reused(yard: Path, tmp_path: Path) -> None:
    file, whole = _killed_run(yard, tmp_path / "out")
    assert verify(tmp_path / "out").changed == []
    summary = Scenario.load(file).run(tmp_path / "out")
    assert summary.found >= 2
    assert summary.found + summary.scans == 5
    assert _without_timing(tmp_path / "out") == whole
    assert not (tmp_path / "out" / "journal.jsonl").exists()


def test_a_killed_run_with_collisions_is_resumed_with_the_same_bits(yard: Path, tmp_path: Path) -> None:
    """A robot pushes against a wall and against an actor that drives into it."""
    start, route = {"xyz": [10.98, 0, 0]}, {"points": [[14, 0, 0]], "speed_m_s": 0.9}
    robot = {"name": "husky", "model": "clearpath/husky", "start": start, "follow": route}
    shape, motion = {"kind": "box", "size_m": [0.5, 0.5, 1.8]}, {"xyz": [10.1, 0, 0.9], "velocity_m_s": [1, 0, 0]}
    actor = {"shape": shape, "material": "cotton", "label": "person", "name": "it", "trajectory": {"constant": motion}}
    file, whole = _killed_run(yard, tmp_path / "out", vehicles=[robot], actors=[actor])
    lines = [json.loads(line)["other"] for line in whole["truth/collisions.jsonl"].decode().splitlines()]
    assert set(lines) == {"building-1", "it"}
    Scenario.load(file).run(tmp_path / "out")
    assert _without_timing(tmp_path / "out") == whole


def test_a_damaged_journal_costs_only_time(yard: Path, tmp_path: Path) -> None:
    file, whole = _killed_run(yard, tmp_path / "out")
    journal = tmp_path / "out" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"\xff{[\n" + b'["top/000000.pcd"]\n{"top/000001.pcd": 7}\n' + lines[-1][:20])
    assert Scenario.load(file).run(tmp_path / "out").found == 0
    assert _without_timing(tmp_path / "out") == whole


def test_files_are_on_the_disk_before_they_are_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, real=real, name=name: (events.append(name), real(*a))[1])
    with atomic_write(tmp_path / "a.txt") as temporary:
        temporary.write_text("a")
    assert events == ["fsync", "replace"]


# ---- parhelion verify -----------------------------------------------------------------------------------------------


def test_verify_names_what_differs(run: Callable[..., RunSummary], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert verify(out).good
    (out / "top" / "000001.pcd").write_bytes(b"")
    (out / "truth" / "husky.csv").unlink()
    found = verify(out)
    assert (found.changed, found.missing) == (["top/000001.pcd"], ["truth/husky.csv"])
    assert found.complete
    assert not found.good
    part = verify(out / "top")
    assert (part.changed, part.missing) == (["top/000001.pcd"], [])
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["scenario"]["seed"] = 12345
    manifest["files"]["../elsewhere"] = "0" * 64
    (out / "manifest.json").write_text(json.dumps(manifest))
    problems = " ".join(verify(out).problems)
    assert "does not match its hash" in problems
    assert "'../elsewhere', which is outside" in problems
    (out / "manifest.json").write_text("[")
    with pytest.raises(FormatError, match="cannot be read as a manifest"):
        verify(out)
    (tmp_path / "a" / "b" / "c" / "d" / "e").mkdir(parents=True)
    with pytest.raises(FormatError, match="contains no manifest"):
        verify(tmp_path / "a" / "b" / "c" / "d" / "e")
