"""Campaigns on a Dask cluster and in an object store, both on loopback."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import parhelion
from campaign_rigs import InThisProcess, study_in
from oracles import oracle
from parhelion.campaign import Study, repeat_row, run_campaign
from parhelion.campaign import campaign as campaign_module
from parhelion.core.errors import ConfigError, EngineError

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'parhelion[campaign]'")
pytestmark = [
    pytest.mark.slow,
    # Dask's servers leave sockets to the end of the process.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study_in(tmp_path_factory.mktemp("study"), seeds=4)


@pytest.fixture(scope="module")
def alone(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the campaign, run by one process."""
    folder = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaign_module, "crew_of", InThisProcess)
        run_campaign(study, folder)
    return folder


# ---- Dask ------------------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


def start_worker(address: str, folder: Path, **changes: str) -> subprocess.Popen[bytes]:
    """Worker as started by a user, without a nanny, so that a killed one is not restarted."""
    command = [
        sys.executable, "-m", "distributed.cli.dask_worker", address, "--host", "127.0.0.1", "--nthreads", "1",
        "--no-nanny", "--no-dashboard", "--local-directory", str(folder), "--death-timeout", "60",
    ]  # fmt: skip
    environment = {**os.environ, "PARHELION_THREADS": "1", **changes}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def scheduler_process() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Address and process of a separate scheduler."""
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'parhelion[cluster]'")
    port = free_port()
    command = [
        sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port),
        "--no-dashboard", "--no-show",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"tcp://127.0.0.1:{port}", process
    finally:
        stop(process)


@pytest.fixture
def scheduler(scheduler_process: tuple[str, subprocess.Popen[bytes]]) -> str:
    """Address of a separate scheduler."""
    return scheduler_process[0]


def test_a_killed_scheduler_is_reported_and_the_campaign_resumes(
    study: Study, alone: Path, scheduler_process: tuple[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    address, process = scheduler_process
    worker = start_worker(address, tmp_path)

    def progress(done: int, total: int) -> None:
        if done == 2:
            process.kill()
            process.wait(10)

    try:
        with pytest.raises(EngineError, match=r"scheduler was lost.*run the same command again"):
            run_campaign(study, tmp_path / "out", dask=address, progress=progress)
    finally:
        stop(worker)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaign_module, "crew_of", InThisProcess)
        assert run_campaign(study, tmp_path / "out").found >= 2
    assert (tmp_path / "out" / "results.parquet").read_bytes() == (alone / "results.parquet").read_bytes()


def test_a_killed_dask_worker_loses_no_run_and_the_table_is_that_of_one_process(
    study: Study, alone: Path, scheduler: str, tmp_path: Path
) -> None:
    workers = [start_worker(scheduler, tmp_path) for _ in range(2)]
    try:
        # Both must be present before the first row; otherwise the killed one may be the only one.
        from distributed import Client

        with Client(scheduler, timeout=30, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)

        def progress(done: int, total: int) -> None:
            if done == 2:
                workers[0].send_signal(signal.SIGKILL)

        summary = run_campaign(study, tmp_path / "out", dask=scheduler, progress=progress)
        assert workers[0].wait(10) == -signal.SIGKILL
        assert (summary.done, summary.failed) == (12, 0)
        assert (tmp_path / "out" / "results.parquet").read_bytes() == (alone / "results.parquet").read_bytes()
        _another_version_is_rejected(study, alone, scheduler, tmp_path)
    finally:
        for worker in workers:
            stop(worker)


def _another_version_is_rejected(study: Study, alone: Path, scheduler: str, tmp_path: Path) -> None:
    """Worker whose source differs by a comment: rejected at the start, and given no job if it joins later."""
    from distributed import Client

    from parhelion.campaign.workers import DaskWorkers

    source = Path(inspect.getfile(parhelion)).parent
    shutil.copytree(source, tmp_path / "other" / "parhelion", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "other" / "parhelion" / "core" / "errors.py").open("a") as file:
        file.write("# Changed.\n")
    search = [str(tmp_path / "other"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    worker = start_worker(scheduler, tmp_path, PYTHONPATH=os.pathsep.join(search))
    try:
        with Client(scheduler, timeout=30, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        with pytest.raises(ConfigError, match=r"worker tcp://127\.0\.0\.1:\d+ is rejected: it has another source"):
            run_campaign(study, tmp_path / "refused", dask=scheduler)
        assert not (tmp_path / "refused" / "results.parquet").exists()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DaskWorkers, "_check_all", lambda self, wait_s: None)
            summary = run_campaign(study, tmp_path / "later", dask=scheduler)
        assert len(summary.notes) == 1
        assert "joined later and is rejected: it has another source" in summary.notes[0]
        assert (tmp_path / "later" / "results.parquet").read_bytes() == (alone / "results.parquet").read_bytes()
    finally:
        stop(worker)


# ---- a network that is cut -------------------------------------------------------------------------------------------

_LINKS = {
    "relay": [],
    "namespace": ["unshare", "--user", "--map-root-user", "--net"],
}
"""Command that starts `cut_link.py` for each link: a namespace has its own isolated network."""


def _no_namespaces() -> str | None:
    """Reason why network namespaces are not available; None if they are."""
    if shutil.which("unshare") is None or shutil.which("ip") is None or shutil.which("nsenter") is None:
        return "unshare, nsenter and ip (util-linux, iproute2) are not installed"
    pair = "unshare --net sleep 2 & sleep 0.2; ip link add near type veth peer name far netns $!"
    tried = subprocess.run([*_LINKS["namespace"], "sh", "-c", pair], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"network namespaces are not permitted here: {tried.stderr.strip()}"


@pytest.fixture(scope="module")
def cut_campaigns(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Campaigns behind each link, started together because they mostly wait: the process and its output folder."""
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'parhelion[cluster]'")
    why_not = _no_namespaces()
    program = str(Path(__file__).parents[1] / "cut_link.py")
    running: dict[str, Any] = {"namespace": why_not}
    for kind, prefix in _LINKS.items():
        if kind == "namespace" and why_not is not None:
            continue
        folder = tmp_path_factory.mktemp(kind) / "out"
        command = [*prefix, sys.executable, program, kind, str(study.folder / "study.yaml"), str(folder)]
        running[kind] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True), folder
    yield running
    for started in running.values():
        if isinstance(started, tuple):
            stop(started[0])


@pytest.mark.parametrize("kind", _LINKS)
def test_a_link_that_is_cut_and_restored_costs_no_row_and_the_table_is_that_of_one_process(
    kind: str, alone: Path, cut_campaigns: dict[str, Any]
) -> None:
    if not isinstance(cut_campaigns[kind], tuple):
        pytest.skip(cut_campaigns[kind])
    process, folder = cut_campaigns[kind]
    output, errors = process.communicate(timeout=90)
    assert process.returncode == 0, errors[-2000:]
    # The only worker was dropped, so the rows after the cut come from the worker that joined after the repair.
    assert json.loads(output.splitlines()[-1]) == {"done": 12, "failed": 0, "left_alone": True}
    assert (folder / "results.parquet").read_bytes() == (alone / "results.parquet").read_bytes()


# ---- an object store -------------------------------------------------------------------------------------------------


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a server that speaks S3."""
    oracle("moto.server")
    s3fs = oracle("s3fs")
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    try:
        _wait_for(port)
        s3fs.S3FileSystem(skip_instance_cache=True).mkdir("campaigns")
        yield "s3://campaigns"
    finally:
        stop(process)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError("the S3 server did not start")


@pytest.mark.oracle
def test_results_in_a_bucket_are_those_of_a_folder(
    study: Study, alone: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    monkeypatch.setattr(campaign_module, "crew_of", InThisProcess)

    place = f"{bucket}/rain/first"
    seen: list[Any] = []

    class Enough(Exception):
        pass

    def progress(done: int, total: int) -> None:
        seen.append(done)
        if done == 5 and len(seen) == 5:
            raise Enough

    with pytest.raises(Enough):
        run_campaign(study, place, progress=progress)
    files = fsspec.filesystem("s3", skip_instance_cache=True)
    assert any("pieces/" in name for name in files.find("campaigns/rain/first"))
    summary = run_campaign(study, place)
    assert summary.found >= 5
    files.invalidate_cache()
    assert files.cat_file("campaigns/rain/first/results.parquet") == (alone / "results.parquet").read_bytes()
    assert repeat_row(study, place, 9).differences == []
    names = sorted(name.rpartition("/")[2] for name in files.find("campaigns/rain/first"))
    assert names == ["campaign.json", "report.html", "results.parquet", "summary.json"]
