"""Campaigns on real processes: the same table regardless of the workers."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from campaign_rigs import WALL, InThisProcess, study_in
from parhelion.campaign import Study, repeat_row, run_campaign
from parhelion.campaign import campaign as campaign_module
from parhelion.campaign.trial import run_job
from parhelion.core.errors import ConfigError, EngineError, FormatError

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'parhelion[campaign]'")
pytestmark = pytest.mark.slow

VARY = {"weather.rain_rate_mm_h": [0, 50, 200], "world.name": ["wall.yaml", "missing.yaml"]}
LONGER = {"duration_s": 1.0}


def table(folder: Path) -> dict[str, list[Any]]:
    import pyarrow.parquet as parquet

    found: dict[str, list[Any]] = parquet.read_table(io.BytesIO((folder / "results.parquet").read_bytes())).to_pydict()
    return found


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study_in(tmp_path_factory.mktemp("study"), LONGER, vary=VARY, seeds=8)


@pytest.fixture(scope="module")
def alone(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the campaign, run by one process."""
    folder = tmp_path_factory.mktemp("alone")
    run_campaign(study, folder, workers=1, command="parhelion campaign study.yaml -o alone")
    return folder


def test_a_table_of_all_rows_with_the_failed_ones(study: Study, alone: Path) -> None:
    rows = table(alone)
    assert rows["row"] == list(range(48))
    failed = [row for row, status in enumerate(rows["status"]) if status == "failed"]
    assert failed == [row for row in range(48) if study.row(row).values["world.name"] == "missing.yaml"]
    assert all("missing.yaml" in rows["error"][row] for row in failed)
    done = sorted(set(range(48)) - set(failed))
    assert {rows["device"][row] for row in done} <= {"cpu", "cuda"}
    assert all(len(rows["scenario_sha256"][row]) == 64 for row in done)
    assert all(rows["points_per_scan"][row] > 0 for row in done)
    rain = rows["weather.rain_rate_mm_h"]
    dry, wet = (sum(rows["air_points"][row] for row in done if rain[row] == rate) for rate in (0, 200))
    assert dry == 0 < wet
    assert json.loads((alone / "campaign.json").read_text())["complete"] is True
    assert list((alone / "pieces").iterdir()) == []


def test_the_page_has_a_curve_and_a_command_for_every_number(study: Study, alone: Path) -> None:
    page = (alone / "report.html").read_text()
    assert page.count("<figure>") == len(study.numbers) * len(study.settings.vary)
    assert page.count("parhelion campaign study.yaml -o alone") == page.count("<figure>") + 1
    assert "missing.yaml" in page
    assert "bootstrap" in page
    cells = json.loads((alone / "summary.json").read_text())["cells"]
    assert [cell["failed"] for cell in cells] == [0, 8, 0, 8, 0, 8]
    found = cells[4]["numbers"]["air_points"]
    assert found["low"] <= found["mean"] <= found["high"]


def test_a_killed_worker_loses_no_run_and_the_table_is_that_of_one_process(
    study: Study, alone: Path, tmp_path: Path
) -> None:
    killed: list[int] = []

    def progress(done: int, total: int) -> None:
        assert total == 48
        if done == 5 and not killed:
            victim = multiprocessing.active_children()[0]
            assert victim.pid is not None
            os.kill(victim.pid, signal.SIGKILL)
            killed.append(victim.pid)

    summary = run_campaign(
        study, tmp_path, workers=2, progress=progress, command="parhelion campaign study.yaml -o alone"
    )
    assert len(killed) == 1
    assert summary.notes == ["1 worker process died; its row was run again"]
    for name in ("results.parquet", "summary.json", "report.html"):
        assert (tmp_path / name).read_bytes() == (alone / name).read_bytes(), name


def test_a_killed_campaign_continues_to_the_same_table(study: Study, alone: Path, tmp_path: Path) -> None:
    file = Path(study.source)
    command = [sys.executable, "-m", "parhelion", "campaign", str(file), "-o", str(tmp_path / "out"), "--workers", "1"]
    patched = "import sys, parhelion.campaign.store as s\ns._PIECE_S = 0.0\nfrom parhelion.cli import main\nmain()\n"
    process = subprocess.Popen([sys.executable, "-c", patched, *command[3:]], stderr=subprocess.PIPE)
    pieces = tmp_path / "out" / "pieces"
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if pieces.is_dir() and len(list(pieces.glob("[!.]*.jsonl"))) >= 5:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    assert not (tmp_path / "out" / "results.parquet").exists()
    there = len(list(pieces.glob("[!.]*.jsonl")))
    summary = run_campaign(study, tmp_path / "out", workers=1)
    assert there <= summary.found < 48
    assert summary.found + summary.done == 48
    assert (tmp_path / "out" / "results.parquet").read_bytes() == (alone / "results.parquet").read_bytes()
    again = run_campaign(study, tmp_path / "out")
    assert (again.done, again.found) == (0, 48)
    assert (tmp_path / "out" / "results.parquet").read_bytes() == (alone / "results.parquet").read_bytes()


def test_a_row_alone_gives_the_same_numbers(study: Study, alone: Path) -> None:
    for row in (0, 17, 35, 42):
        again = repeat_row(study, alone, row)
        assert again.earlier is not None
        assert again.differences == []
    changed = table(alone)["air_points"][35] + 1
    assert again.result["status"] == "failed"
    again = repeat_row(study, alone, 35)
    assert again.earlier is not None
    again.earlier["numbers"]["air_points"] = changed
    assert again.differences == [f"air_points: {changed - 1} now, {changed} in the table"]


def test_a_reused_world_gives_the_same_numbers(study: Study) -> None:
    rows = [0, 33, 1, 17]
    jobs = [campaign_module.job_of(study, row) for row in rows]
    in_a_row = [json.loads(run_job(job))["numbers"] for job in jobs]
    fresh = []
    for job in jobs:
        run_job.__globals__["_cached"].clear()
        fresh.append(json.loads(run_job(job))["numbers"])
    assert in_a_row == fresh


def test_a_row_that_kills_its_workers_is_recorded_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from parhelion.campaign import workers
    from parhelion.campaign.workers import LocalWorkers

    monkeypatch.setattr(workers, "ATTEMPTS", 2)
    crew = LocalWorkers(1)
    try:
        monkeypatch.setattr(LocalWorkers, "_hand_out", _kill_who_gets_it(LocalWorkers._hand_out))
        crew.submit(3, "{}")
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + 60
        while not found and time.monotonic() < deadline:
            found = crew.results()
    finally:
        crew.close()
    assert found[0]["row"] == 3
    assert found[0]["error"] == "the worker process died in each of 2 attempts (last: signal 9)"


def _kill_who_gets_it(hand_out: Any) -> Any:
    def handing(crew: Any) -> None:
        for worker in crew._workers:
            if worker.ready and worker.job is None and crew._waiting:
                os.kill(worker.process.pid, signal.SIGKILL)
                worker.process.join(10)
        hand_out(crew)

    return handing


# ---- rejections: no process is started -----------------------------------------------------------------------------


@pytest.fixture
def finished(alone: Path, tmp_path: Path) -> Path:
    """Copy of the finished campaign."""
    import shutil

    shutil.copytree(alone, tmp_path / "copy")
    return tmp_path / "copy"


def test_another_study_or_version_is_rejected(
    study: Study, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(ConfigError, match="contains a campaign of another study; choose another folder"):
        run_campaign(study_in(tmp_path / "b", seeds=2), finished)
    before = (finished / "results.parquet").read_bytes()
    about = json.loads((finished / "campaign.json").read_text())
    (finished / "campaign.json").write_text(json.dumps({**about, "identity": {**about["identity"], "numpy": "1.0"}}))
    with pytest.raises(ConfigError, match=r"another version: it has numpy 1\.0, but this program has"):
        run_campaign(study, finished)
    (finished / "campaign.json").write_text("{")
    with pytest.raises(FormatError, match="is not that of a campaign"):
        run_campaign(study, finished)
    assert (finished / "results.parquet").read_bytes() == before


def test_a_job_of_another_version_is_not_run(study: Study) -> None:
    job = json.loads(campaign_module.job_of(study, 0))
    job["identity"]["drjit"] = "0.1"
    result = json.loads(run_job(json.dumps(job)))
    assert result["status"] == "refused"
    assert "but this campaign has 0.1" in result["error"]


def test_a_missing_scheduler_is_reported_soon(study: Study, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'parhelion[cluster]'")
    from parhelion.campaign.workers import DaskWorkers

    began = time.monotonic()
    with pytest.raises(EngineError, match=r"tcp://127\.0\.0\.1:9: no Dask scheduler answered within 1 s"):
        DaskWorkers("tcp://127.0.0.1:9", wait_s=1.0)
    assert time.monotonic() - began < 10


def test_the_command_reports_its_results(study: Study, finished: Path) -> None:
    from typer.testing import CliRunner

    from parhelion.cli.app import app

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["campaign", study.source, "-o", str(finished), *arguments])

    again = run()
    assert again.exit_code == 0, again.output
    assert "48 from before, 24 failed" in again.output
    row = run("--row", "17")
    assert row.exit_code == 0, row.output
    assert "identical to the table, bit for bit" in row.output
    assert run("--row", "99").exit_code == 1
    assert run("--workers", "2", "--dask", "tcp://127.0.0.1:9").exit_code == 2


def test_a_full_disk_stops_the_campaign_and_it_continues_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(campaign_module, "crew_of", InThisProcess)
    study = study_in(tmp_path, seeds=2)
    run_job(campaign_module.job_of(study, 0))  # writes compiled kernels to disk before it fills up
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, before[1]))
    try:
        with pytest.raises(FormatError, match=rf"{tmp_path / 'out'}/\S+: cannot be written \("):
            run_campaign(study, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list((tmp_path / "out").rglob(".parhelion-*"))
    summary = run_campaign(study, tmp_path / "out")
    assert (summary.found, summary.done, summary.rows) == (6, 0, 6)
    assert len(table(tmp_path / "out")["row"]) == 6


# ---- data sets -------------------------------------------------------------------------------------------------------


def test_a_data_set_has_its_sequences_a_split_by_worlds_and_a_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import yaml

    monkeypatch.setattr(campaign_module, "crew_of", InThisProcess)
    for name in ("second.yaml", "third.yaml"):
        (tmp_path / name).write_text(yaml.safe_dump(WALL))
    vary = {"world.name": ["wall.yaml", "second.yaml", "third.yaml"]}
    settings = {"kind": "dataset", "dataset": "semantic-kitti", "split": {"val": 0.34}}
    study = study_in(tmp_path, LONGER, vary=vary, seeds=2, **settings)
    out = tmp_path / "out"
    run_campaign(study, out)
    root = out / "semantic-kitti"
    assert sorted(path.name for path in (root / "sequences").iterdir()) == [f"{k:02d}" for k in range(6)]
    parts = {part: (out / f"{part}.txt").read_text().split() for part in ("train", "val")}
    assert sorted(parts["train"] + parts["val"]) == [f"{k:02d}" for k in range(6)]
    assert len(parts["val"]) == 2
    assert int(parts["val"][1]) == int(parts["val"][0]) + 1  # both of one world
    split = yaml.safe_load((root / "semantic-kitti.yaml").read_text())["split"]
    assert split["valid"] == [int(name) for name in parts["val"]]
    card = json.loads((out / "dataset.json").read_text())
    clouds = list(root.glob("sequences/*/velodyne/*.bin"))
    assert card["scans"] == len(clouds) == sum(table(out)["scans"])
    assert card["points"] == sum(file.stat().st_size for file in clouds) // 16 == sum(card["ranges"])
    assert card["labels"].keys() >= {"wall"}
    assert sum(card["labels"].values()) == card["points"]
    assert "| wall |" in (out / "README.md").read_text()
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    again = run_campaign(study, out)
    assert (again.done, again.found) == (0, 6)
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before


def test_a_data_set_does_not_go_to_an_address(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    study = study_in(tmp_path, kind="dataset", dataset="semantic-kitti")
    with pytest.raises(ConfigError, match="are written to a folder, not to an address"):
        run_campaign(study, "memory://campaign-test/set", workers=1)


class SometimesAway(InThisProcess):
    """Worker that is unavailable before each job."""

    def __init__(self, *_: Any) -> None:
        super().__init__()
        self._away = True

    @property
    def capacity(self) -> int:
        self._away = not self._away
        return 0 if not self._away else super().capacity

    def results(self) -> list[dict[str, Any]]:
        return super().results() if self._jobs else []


def test_a_campaign_waits_for_unavailable_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost link does not end the campaign; formerly it ended with a table that lacked rows."""
    monkeypatch.setattr(campaign_module, "crew_of", SometimesAway)
    summary = run_campaign(study_in(tmp_path, seeds=2), tmp_path / "out")
    assert (summary.rows, summary.failed) == (6, 0)


def test_a_dry_run_estimates_time_and_storage_and_writes_nothing(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from parhelion.campaign import dry_run as module

    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(module, "LocalWorkers", lambda count: InThisProcess())
    found = module.dry_run(study, str(tmp_path / "out"), workers=2, progress=lambda *done: calls.append(done))
    assert (found.rows, found.workers, found.tried) == (len(study), 2, 3)
    assert calls[-1] == (3, 3)
    least, mean, most = found.row_s
    assert 0.0 < least <= mean <= most
    assert found.seconds == pytest.approx(found.start_s + len(study) * mean / 2)
    assert 10_000 < found.storage_bytes < 10_000_000
    assert found.free_bytes is not None
    assert list(tmp_path.iterdir()) == []


def test_varied_fields_in_words() -> None:
    from parhelion.scenario.fields import path_in_words, value_in_words

    assert path_in_words("weather.rain_rate_mm_h") == ("rain rate", "mm/h")
    assert path_in_words("sensors.top.options.sub_rays") == ("sub rays of top", "")
    assert path_in_words("vehicles.car.follow.speed_m_s") == ("follow speed of car", "m/s")
    assert path_in_words("range_p95_m") == ("range p95", "m")
    assert path_in_words("duration_s") == ("duration", "s")
    assert path_in_words("sensors.top.mount.xyz.0") == ("mount x of top", "m")
    assert path_in_words("vehicles.car.start.rpy_deg.2") == ("start yaw of car", "°")
    assert value_in_words("weather.temperature_c", "5") == "temperature 5 °C"
