"""Ctrl-C while modules are imported."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

CODE = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
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
    code = CODE.replace("{raising}", raising).replace("{module}", "parhelion.cli.weather")
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "stopped\n")


IN_A_CALLBACK = """
            import os, signal, time, weakref
            target = type('Target', (), {})()
            ref = weakref.ref(target, lambda _: [os.kill(os.getpid(), signal.SIGINT), time.sleep(0.01)])
            del target
            time.sleep(20)"""


def test_an_interrupt_in_a_callback_of_a_weak_reference_is_raised_after_it() -> None:
    """Python prints and drops an exception there; the import system has such callbacks of its own."""
    code = CODE.replace("{raising}", IN_A_CALLBACK).replace("{module}", "parhelion.cli.weather")
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "stopped\n")
    assert time.monotonic() - begin < 19.0  # it does not wait for the end of the import


LOST = """
            import os, signal, time
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1)
            except BaseException:
                pass"""


@pytest.mark.parametrize(
    ("module", "command"),
    [("parhelion.cli.weather", "sensors"), ("parhelion.live.viewer.stages", "view --world cuboids --port 0")],
    ids=["command", "viewer"],
)
def test_an_interrupt_that_a_package_drops_still_stops(module: str, command: str) -> None:
    """Packages that try to import another one may drop any exception; the viewer would then run for ever."""
    code = CODE.replace("{raising}", LOST).replace("{module}", module)
    done = subprocess.run([sys.executable, "-c", code, *command.split()], capture_output=True, text=True, timeout=120)
    assert done.returncode == 130
