"""Import and use of the package without the modules and functions that only Unix has.

The interpreter is that of this machine; what Windows lacks is removed from it. Packages of others may need it, so they
are imported first.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src" / "parhelion").rglob("*.py"))

WITHOUT_UNIX = """
import importlib, os, pkgutil, signal, sys, types
import mitsuba, drjit, scipy.spatial, trimesh, matplotlib, rosbags, mcap
import multiprocessing.resource_tracker, subprocess, tempfile

UNIX = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "readline", "syslog", "_posixshmem"}

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in UNIX:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
for name in UNIX:
    sys.modules.pop(name, None)
for module, names in {os: ("pread", "sched_getaffinity", "fork", "getuid", "geteuid", "mkfifo", "uname"),
                      signal: ("pthread_kill", "pthread_sigmask", "SIGKILL", "SIGHUP", "SIGALRM")}.items():
    for name in names:
        delattr(module, name)

import parhelion as ph
count = 0
for module in pkgutil.walk_packages(ph.__path__, "parhelion."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
        count += 1
    except ModuleNotFoundError as error:  # networks are classes of PyTorch, which is optional
        if error.name != "torch" or not module.name.startswith("parhelion.detect."):
            raise
assert count > 200, count

locked = []
def locking(descriptor, mode, size):
    if locked:
        raise OSError("locked")
    locked.append((descriptor, mode, size))
sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=locking)

from pathlib import Path
from parhelion.campaign.workers import _without_interrupts, usable_cores
from parhelion.core import files, history
sys.platform = "win32"
with files.only_writer(Path(".")):
    assert Path(".writing").exists() and locked[0][1:] == (2, 1)
    try:
        with files.only_writer(Path(".")):
            raise SystemExit("two writers")
    except ph.ConfigError as error:
        assert "another program is writing" in str(error)
assert not Path(".writing").exists()
files.write_whole("text.txt", b"as it is")
rows = history.History((1,))
for number in range(100_000):
    rows.append((float(number),))
assert rows.rows(3, 5).tolist() == [[3.0], [4.0]]
for number in range(100_000):
    rows.append((float(number),))
assert rows.rows(150_000, 150_001).tolist() == [[50_000.0]]
assert usable_cores() == os.cpu_count()
with _without_interrupts():
    pass
sys.platform = "linux"
scan = ph.Lidar("velodyne/vlp-16").scan(ph.World.load("cuboids"), pose=ph.Pose(xyz=(0, 0, 2)), seed=7)
scan.save("scan.npz")
print(len(ph.Scan.load("scan.npz")) == len(scan) > 1000)
"""


@pytest.mark.slow
def test_everything_imports_and_scans_without_unix(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_UNIX], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"]


@pytest.mark.slow
def test_sources_are_of_the_oldest_python_and_import_modules_of_unix_in_functions_only() -> None:
    """`fcntl` at the top of a module would end every import on Windows."""
    unix = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "readline", "syslog"}
    found = []
    for file in SOURCES:
        for node in ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 10)).body:
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            found += [f"{file.name}: {name}" for name in names if name.split(".")[0] in unix]
    assert found == []
