"""A short round of damaged files through every reader; `make fuzz` runs the same for an hour."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import pytest

from fuzz.corpus import make_corpus
from fuzz.run import Tally, try_one
from fuzz.seed import Seed

SENSES = ["navigation", "sheets", "calibrations", "evaluations", "sounds"]
RUNS = ["vehicles", "robots", "run", "campaign", "records"]
CASES, SECONDS = 150, 2.0
"""Damages of each file, and how long a group of files may take in all; all groups stay below a minute."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[Seed]:
    return make_corpus(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize(
    "group", ["clouds", "scans", "bags", "meshes", "maps", "plain", "settings", "pictures", *SENSES, *RUNS]
)
def test_damaged_files_are_read_or_refused_by_name(corpus: list[Seed], group: str) -> None:
    seeds = [seed for seed in corpus if f"/{group}/" in str(seed.file)]
    if not seeds:
        pytest.skip("the package that reads these files is missing")
    whole = {seed.name: seed.file.read_bytes() for seed in seeds}
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # models list what is not supported
            seed.read(seed.file)
    tally = Tally(seed=1)
    end = time.monotonic() + SECONDS
    for number in range(CASES):
        for seed in seeds:
            try_one(seed, whole[seed.name], number, tally)
        if time.monotonic() > end:
            break
    assert not tally.failures, "\n".join([*tally.failures[:5], tally.line()])
    assert tally.cases >= 5 * len(seeds)
    assert tally.refused > tally.cases // 10  # the damage is real


def test_raw_errors_and_hunger_for_memory_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"some words 1 2 3")

    def raw(path: Path) -> None:
        raise KeyError(path)

    def hungry(path: Path) -> None:
        from parhelion.core.reading import reading

        with reading(path):
            bytearray(3 << 30)

    for read, word in ((raw, "KeyError"), (hungry, "asked for more than 1024 MiB")):
        tally = Tally(seed=1)
        try_one(Seed(file, read), b"some words 1 2 3", 0, tally)
        assert word in tally.failures[0]
    assert file.read_bytes() == b"some words 1 2 3"
