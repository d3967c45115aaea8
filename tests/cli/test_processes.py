"""The program as the shell starts it: `python -m parhelion`, signals, limits and missing libraries."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import parhelion as ph

PROGRAM = [sys.executable, "-m", "parhelion"]
SCAN = ["scan", "--world", "cuboids", "--sensor", "velodyne/vlp-16", "--sub-rays", "1"]


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom parhelion.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'scipy', 'matplotlib', 'drjit', 'mitsuba', 'trimesh', 'pydantic'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Usage: parhelion" in done.stdout


def test_scan_as_a_process(tmp_path: Path) -> None:
    done = start(*SCAN, "-o", str(tmp_path / "scan.pcd"))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(ph.PointCloud.load(tmp_path / "scan.pcd")) > 1000


def test_errors_are_one_line_on_stderr() -> None:
    done = start("sensors", "no-such")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: unknown sensor 'no-such'")
    assert done.stderr.count("\n") == 1
    traced = start("--traceback", "sensors", "no-such")
    assert traced.returncode == 1
    assert "Traceback" in traced.stderr


@pytest.mark.parametrize(
    ("library", "words", "remedy"),
    [
        ("/nonexistent/libLLVM.so", "error: DRJIT_LIBLLVM_PATH: /nonexistent/libLLVM.so does not exist", "unset it"),
        ("/etc/hostname", "error: no LLVM shared library", "apt-get install"),
    ],
)
def test_missing_llvm_library_is_one_sentence(library: str, words: str, remedy: str) -> None:
    done = start(*SCAN, DRJIT_LIBLLVM_PATH=library, PARHELION_DEVICE="cpu")
    assert done.returncode == 1
    assert done.stderr.startswith(words)
    assert remedy in done.stderr
    assert done.stderr.count("\n") == 1


def test_doctor_without_llvm_says_how_to_get_it() -> None:
    done = start("doctor", DRJIT_LIBLLVM_PATH="/etc/hostname", PARHELION_DEVICE="cpu")
    assert done.returncode == 1
    assert "missing: no LLVM shared library" in done.stdout
    assert "apt-get install" in done.stdout
    assert done.stderr == ""


def test_ctrl_c_keeps_finished_files_and_leaves_no_half_ones(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*PROGRAM, *SCAN, "--scans", "500", "-o", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_interruptible,
    )
    deadline = time.monotonic() + 30
    while len(list(tmp_path.glob("[0-9]*.pcd"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stderr.strip() == "stopped"
    files = sorted(tmp_path.iterdir())
    assert 5 <= len(files) < 500
    assert [file.name for file in files] == [f"{number:06d}.pcd" for number in range(len(files))]
    sizes = {len(ph.PointCloud.load(file)) for file in files}
    assert min(sizes) > 1000


def _interruptible() -> None:
    # A test run in the background may have SIGINT ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_file_that_does_not_fit_is_reported_and_not_left_behind(tmp_path: Path) -> None:
    def small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    source = tmp_path / "scan.pcd"
    ph.PointCloud(np.zeros((50_000, 3))).save(source)
    target = tmp_path / "scan.ply"
    target.write_text("earlier")
    done = subprocess.run(
        [*PROGRAM, "convert", str(source), str(target), "--force"],
        capture_output=True, text=True, timeout=60, preexec_fn=small_files_only,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {target}: cannot be written (")
    assert done.stderr.count("\n") == 1
    assert target.read_text() == "earlier"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["scan.pcd", "scan.ply"]


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    # The reading end is closed before anything is printed, as `parhelion materials | true` does.
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*PROGRAM, "materials"], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writing)
    assert "Traceback" not in done.stderr
    assert "error" not in done.stderr
