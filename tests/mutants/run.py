"""Change the source in one place at a time, and check that the tests of that place fail.

    python tests/mutants/run.py --count 100 --seed 1
    python tests/mutants/run.py --only core/random.py world/mesh.py
    python tests/mutants/run.py --again earlier-output.txt

The same seed gives the same changes. They are made in copies of the tree, never in the tree itself. A change is killed
when a test fails, or when the tests take far longer than without it; surviving changes are listed with their location.
The copies record their own `pins.json` first, because numbers of another processor are not compared.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutants.changes import Change, changes
from mutants.rooms import held_by
from pins import processor

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path("src/parhelion")


@dataclass(frozen=True)
class Mutant:
    """A change of one file."""

    path: str
    """Path under src/parhelion."""
    change: Change

    def __str__(self) -> str:
        return f"{SOURCE / self.path}:{self.change.line}: {self.change}"


def all_mutants(only: list[str]) -> list[Mutant]:
    """Every change of the files that have tests in the table, or of those under `only`."""
    found = []
    for file in sorted((ROOT / SOURCE).rglob("*.py")):
        path = file.relative_to(ROOT / SOURCE).as_posix()
        if held_by(path) and (not only or any(path.startswith(start) for start in only)):
            found += [Mutant(path, change) for change in changes(file.read_bytes())]
    return found


class Tree:
    """Copy of the files that tests need, in which changes are made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        skipped = shutil.ignore_patterns("__pycache__", ".*", "out", "site", "*.egg-info")
        for name in ("src", "tests", "docs", "examples", "tools", "bench"):
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=skipped)
        for file in ROOT.iterdir():
            if file.is_file():
                shutil.copy2(file, folder / file.name)

    def environment(self) -> dict[str, str]:
        """Environment of this process, with the modules of the copy first."""
        paths = [str(self.folder / name) for name in ("src", "tests")]
        if others := os.environ.get("PYTHONPATH"):
            paths.append(others)
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def check(self) -> None:
        """Check that the tests import the copy."""
        command = [sys.executable, "-c", "import parhelion; print(parhelion.__file__)"]
        found = subprocess.run(command, cwd=self.folder, env=self.environment(), capture_output=True, text=True)
        if not Path(found.stdout.strip()).is_relative_to(self.folder):
            raise SystemExit(f"mutants: tests would import {found.stdout.strip() or found.stderr}, not the copy")

    def recorded_pins(self, test: Path) -> dict[str, object]:
        """Numbers of `pins.json` on this processor, as far as a test file records them."""
        pins = self.folder / "tests" / "pins.json"
        before = pins.read_text()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
        written = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environment(), "PARHELION_PINS": "write"},
            capture_output=True,
            text=True,
        )
        if written.returncode:
            # The tests that need them fail without a change, so their files are left out below.
            print(f"the numbers of {test} cannot be recorded\n{written.stdout[-2000:]}", flush=True)
        old, new = json.loads(before), json.loads(pins.read_text())
        pins.write_text(before)
        return {key: value for key, value in new.items() if value != old.get(key)}

    def run(self, tests: list[str], limit_s: float) -> str:
        """Return 'passed', 'failed' or 'late'."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *(f"tests/{t}" for t in tests)]
        # The tests run in a separate session, so that the processes of a late test end with it.
        with subprocess.Popen(
            command, cwd=self.folder, env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                return "passed" if process.wait(limit_s) == 0 else "failed"
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                return "late"

    def run_changed(self, mutant: Mutant, tests: list[str], limit_s: float) -> str:
        """Run the tests with a change in place, and undo the change."""
        file = self.folder / SOURCE / mutant.path
        whole = file.read_bytes()
        try:
            self._write(file, mutant.change.applied(whole))
            return self.run(tests, limit_s)
        finally:
            self._write(file, whole)

    @staticmethod
    def _write(file: Path, text: bytes) -> None:
        file.write_bytes(text)
        # Compiled modules are identified by size and modification time in seconds, which may be equal.
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
            compiled.unlink()


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="how many changes; 0 for all")
    parser.add_argument("--seed", type=int, default=1, help="which changes")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time, each in a copy of its own")
    parser.add_argument("--only", nargs="+", default=[], help="beginnings of paths under src/parhelion")
    parser.add_argument("--seconds", type=float, default=0.0, help="try no further change after this time; 0 for all")
    parser.add_argument("--again", type=Path, help="output of an earlier run: only the changes that survived it")
    options = parser.parse_args()
    mutants = all_mutants(options.only)
    total = len(mutants)
    if options.again is not None:
        lines = options.again.read_text(encoding="utf-8").splitlines()
        survived = {line.removeprefix("SURVIVED").strip() for line in lines if line.startswith("SURVIVED")}
        mutants, options.count = [one for one in mutants if str(one) in survived], 0
    if options.count and options.count < total:
        mutants = random.Random(options.seed).sample(mutants, options.count)
    print(f"{len(mutants)} of {total} changes, seed {options.seed}", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        copies = [Tree(Path(folder) / str(number)) for number in range(options.jobs)]
        copies[0].check()
        trees: Queue[Tree] = Queue()
        for tree in copies:
            trees.put(tree)

        def recorded(test: Path) -> dict[str, object]:
            tree = trees.get()
            try:
                return tree.recorded_pins(test)
            finally:
                trees.put(tree)

        pins = json.loads((ROOT / "tests/pins.json").read_text())
        if pins["processor"] != processor():
            tests = {test.partition("::")[0] for mutant in mutants for test in held_by(mutant.path)}
            files = [Path("tests") / test for test in sorted(tests)]
            files = [file for file in files if "from pins import" in (ROOT / file).read_text()]
            for numbers in pool.map(recorded, files):
                pins.update(numbers)
            for tree in copies:
                (tree.folder / "tests/pins.json").write_text(json.dumps(pins))
            print(f"{time.monotonic() - begin:5.0f} s   numbers of this processor recorded", flush=True)

        def limit_s(tests: list[str]) -> float:
            """Time after which a change is killed: a multiple of the time without it, or 0 if the tests fail then."""
            tree, begin = trees.get(), time.monotonic()
            try:
                found = tree.run(tests, 1200.0)
            finally:
                trees.put(tree)
            took = time.monotonic() - begin
            if found != "passed":
                print(f"  {found} without a change, so left out: {' '.join(tests)}", flush=True)
                return 0.0
            print(f"{took:5.0f} s   {' '.join(tests)}", flush=True)
            # Fewer tests may run at a time here than later.
            return 30.0 + 4.0 * max(1.0, options.jobs / (os.cpu_count() or 1)) * took

        rows = {str(held_by(mutant.path)): held_by(mutant.path) for mutant in mutants}
        limits = dict(zip(rows, pool.map(limit_s, rows.values()), strict=True))

        def judged(mutant: Mutant) -> str:
            tests = held_by(mutant.path)
            late = options.seconds and time.monotonic() - begin > options.seconds
            if late or not limits[str(tests)]:
                return "not tried"
            tree = trees.get()
            try:
                found = tree.run_changed(mutant, tests, limits[str(tests)])
            finally:
                trees.put(tree)
            word = {"passed": "SURVIVED", "failed": "killed", "late": "timeout"}[found]
            print(f"{word:9}{mutant}", flush=True)
            return word

        words = list(pool.map(judged, mutants))
    tried = [(mutant, word) for mutant, word in zip(mutants, words, strict=True) if word != "not tried"]
    print(f"\n{len(words) - len(tried)} changes were not tried")
    tally = Counter(word for _, word in tried)
    noticed = len(tried) - tally["SURVIVED"]
    print(
        f"{tally['killed']} killed, {tally['timeout']} timed out, {tally['SURVIVED']} survived: "
        f"{100.0 * noticed / max(len(tried), 1):.0f} % of {len(tried)} changes were noticed"
    )
    for mutant, word in sorted(tried, key=lambda one: str(one[0])):
        if word == "SURVIVED":
            print(f"  {mutant}")
    return 0 if all(limits.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
