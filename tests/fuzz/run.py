"""Read damaged files for a given time, and report failures of the readers.

    python tests/fuzz/run.py --seconds 3600 --seed 1

Every case must be read, or refused by one of our errors that names the file, within 10 s and 1 GiB of further memory.
What is not goes, with its number, to the folder `fuzz-failures`. The same seed gives the same cases.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.corpus import make_corpus
from fuzz.mutations import mutated
from fuzz.seed import Seed
from hostile_rigs import fence
from parhelion.core.errors import ParhelionError

MOST_SECONDS, MOST_BYTES = 10.0, 1 << 30


@dataclass
class Tally:
    """Results of the cases so far."""

    seed: int
    keep: Path | None = None
    """Folder for files that fail."""
    cases: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    slowest: str = ""
    seconds: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def line(self) -> str:
        """All of it in one line."""
        return (
            f"seed {self.seed}: {self.cases} cases, {self.refused} refused, {self.cases - self.refused} read, "
            f"{len(self.failures)} failures; slowest {self.slowest_s:.2f} s ({self.slowest}), "
            f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB"
        )


def _wanted_memory(error: BaseException | None) -> bool:
    """Return whether an error was caused by a failed allocation, so that the reader has no limit of its own."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def try_one(seed: Seed, whole: bytes, number: int, tally: Tally) -> None:
    """One damaged file, by its number; the file is whole again afterwards."""
    data = mutated(whole, random.Random(f"{tally.seed}/{seed.name}/{number}"))
    seed.file.write_bytes(data)
    problem = ""
    start = time.perf_counter()
    try:
        with fence(MOST_SECONDS, MOST_BYTES), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seed.read(seed.file)
    except ParhelionError as error:
        tally.refused += 1
        message = str(error)
        place = seed.file.name if seed.file.name in message else seed.file.parent.name
        if place not in message or "\n" in message:
            problem = f"does not name the file in one line: {message}"
        if _wanted_memory(error):
            problem = f"asked for more than {MOST_BYTES >> 20} MiB: {message}"
    except (Exception, AssertionError):
        problem = traceback.format_exc()
    took = time.perf_counter() - start
    tally.cases += 1
    tally.seconds[seed.name] += took
    if took > tally.slowest_s:
        tally.slowest_s, tally.slowest = took, f"{seed.name} number {number}"
    if problem:
        tally.failures.append(f"{seed.name} number {number}: {problem.rstrip()}")
        if tally.keep is not None:
            tally.keep.mkdir(exist_ok=True)
            (tally.keep / f"{number}-{seed.file.name}").write_bytes(data)
    seed.file.write_bytes(whole)


def main() -> int:
    """Run for the time that was asked for; 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long (default: an hour)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only files whose name contains this")
    parser.add_argument("--number", type=int, help="only the case of this number, such as one that failed")
    asked = parser.parse_args()
    tally = Tally(asked.seed, Path("fuzz-failures"))
    # Files in memory, where the system has such a folder: on a disk, writing them takes longer than reading them.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="parhelion-fuzz-", dir=memory if memory.is_dir() else None) as folder:
        seeds = [seed for seed in make_corpus(Path(folder)) if asked.only in seed.name]
        whole = {seed.name: seed.file.read_bytes() for seed in seeds}
        for seed in seeds:
            seed.read(seed.file)  # what is not damaged is read
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 2)  # native libraries print a line for many damaged files
        end, sent, number = time.monotonic() + asked.seconds, time.monotonic(), asked.number or 0
        while time.monotonic() < end:
            for seed in seeds:
                # Readers that take more than 3 ms on average get fewer turns, so that none starves the others.
                if number % max(1, round(tally.seconds[seed.name] / (0.003 * max(number, 1)))) == 0:
                    try_one(seed, whole[seed.name], number, tally)
            number += 1
            if time.monotonic() - sent > 60.0:
                sent = time.monotonic()
                print(tally.line(), flush=True)
            if asked.number is not None:
                break
    for failure, count in Counter(text.splitlines()[-1][:160] for text in tally.failures).most_common(40):
        print(f"{count} x {failure}")
    for text in tally.failures[:20]:
        print(text)
    print(tally.line())
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
