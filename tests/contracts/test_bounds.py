"""Kernels read and write within their arrays: Dr.Jit's bounds checks report nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RIG = Path(__file__).parents[1] / "bounds_rigs.py"


@pytest.mark.slow
def test_kernels_stay_within_their_arrays() -> None:
    """Includes an empty world, where the hit of all beams is a single constant."""
    done = subprocess.run([sys.executable, str(RIG)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr[-2000:]
    assert "out-of-bounds" not in done.stderr, done.stderr[:2000]
