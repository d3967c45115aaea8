"""The disk cache of kernels is pruned by age and size."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from parhelion.core.errors import ConfigError
from parhelion.rays.kernel_cache import contents, prune


def kernel(folder: Path, name: str, days: float, mib: int) -> Path:
    file = folder / f"{name}.llvm.v6.bin"
    with file.open("wb") as out:
        out.truncate(mib << 20)
    then = time.time() - days * 86400.0
    os.utime(file, (then, then))
    return file


def test_old_kernels_go_first_and_new_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "settings.txt"
    other.write_text("not a kernel")
    os.utime(other, (0, 0))
    for name, days, mib in (("ancient", 61, 1), ("old", 50, 3), ("recent", 2, 3), ("new", 0, 9)):
        kernel(tmp_path, name, days, mib)
    assert prune(tmp_path) == 1  # by age alone
    monkeypatch.setenv("PARHELION_CACHE_MIB", "12")
    assert prune(tmp_path) == 1
    assert [path.name.partition(".")[0] for *_, path in contents(tmp_path)] == ["recent", "new"]
    monkeypatch.setenv("PARHELION_CACHE_MIB", "0")
    assert prune(tmp_path) == 1  # the last hour's kernels stay: another process may be writing them
    assert other.exists()
    assert prune(tmp_path / "nowhere") == 0


def test_a_setting_that_is_no_number_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARHELION_CACHE_DAYS", "-3")
    with pytest.raises(ConfigError, match=r"PARHELION_CACHE_DAYS: must be a whole number of at least 0, got '-3'"):
        prune(tmp_path)
