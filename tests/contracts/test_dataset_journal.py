"""Data sets of campaigns after a kill: damaged files are found and regenerated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from campaign_rigs import study_in, write_study
from parhelion.campaign import run_campaign
from parhelion.outputs.verify import verify

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'parhelion[campaign]'")
SETTINGS = {"kind": "dataset", "dataset": "semantic-kitti", "vary": {"weather.rain_rate_mm_h": [0, 50]}, "seeds": 2}
NOT_COMPARED = {"report.html", "campaign.json", "manifest.json"}
"""Files that contain the time or the place of the run."""


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.name not in NOT_COMPARED)
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


@pytest.mark.slow
def test_damaged_sequences_of_a_killed_campaign_are_regenerated(tmp_path: Path) -> None:
    study, whole, out = write_study(tmp_path, **SETTINGS), tmp_path / "whole", tmp_path / "out"
    run_campaign(study_in(tmp_path, **SETTINGS), whole, workers=1)
    assert verify(whole).good
    command = [sys.executable, "-m", "parhelion", "campaign", str(study), "-o", str(out), "--workers", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    clouds = out / "semantic-kitti" / "sequences"
    deadline = time.monotonic() + 120
    while not (out / "pieces" / "000000.jsonl").exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    first = sorted(clouds.glob("00/velodyne/*.bin"))
    first[0].write_bytes(b"")
    data = bytearray(first[1].read_bytes())
    data[5] ^= 1
    first[1].write_bytes(data)
    assert not verify(out).good
    assert subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0
    assert contents(out) == contents(whole)
    assert verify(out).good
    # The same applies to a complete data set.
    first[2].write_bytes(b"")
    assert verify(out).changed == ["semantic-kitti/sequences/00/velodyne/000002.bin"]
    summary = run_campaign(study_in(tmp_path, **SETTINGS), out, workers=1)
    assert (summary.found, summary.done) == (3, 1)
    assert contents(out) == contents(whole)
