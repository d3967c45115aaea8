"""A resumed run keeps intact files and regenerates the others."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from test_scenario import DRIVE, YARD, files_of

from parhelion.core.errors import ConfigError
from parhelion.outputs.run import RunSummary
from parhelion.scenario import Scenario

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

    class Stop(Exception):
        pass

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

    class Stop(Exception):
        pass

    def stop(there: int, total: int) -> None:
        if there == 2:
            raise Stop

    with pytest.raises(Stop):
        _with_seed(yard, 2).run(tmp_path / "out", replace=True, progress=stop)
    # The second scenario may continue now, and must not take a cloud of the first one for its own.
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
