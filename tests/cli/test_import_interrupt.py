"""Ctrl-C while modules are imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "parhelion.cli.weather":
            {raising}

sys.meta_path.insert(0, Interrupt())
from parhelion.cli import main
main()
"""
REPLACED = """
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt:
                raise ImportError('x')"""


@pytest.mark.parametrize("raising", ["raise KeyboardInterrupt", REPLACED], ids=["plain", "replaced"])
def test_an_interrupted_import_prints_no_traceback(raising: str) -> None:
    code = CODE.replace("{raising}", raising)
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "stopped\n")
