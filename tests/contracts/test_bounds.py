"""Kernels read and write within their arrays: the engine's own checks find nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RIG = Path(__file__).parents[1] / "bounds_rigs.py"


@pytest.mark.slow
def test_kernels_stay_within_their_arrays() -> None:
    """In a world with nothing in it, too, where what beams meet is one constant for all."""
    done = subprocess.run([sys.executable, str(RIG)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr[-2000:]
    assert "out-of-bounds" not in done.stderr, done.stderr[:2000]
