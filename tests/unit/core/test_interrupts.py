"""Ctrl-C: recorded within sections, raised at safe points, and never lost."""

# ruff: noqa: PT012
from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from parhelion.core.interrupts import BOUNCE_S, uninterrupted
from parhelion.rays.lock import EngineLock, engine_lock


@pytest.fixture(autouse=True)
def _default_handler() -> None:
    # A test run in the background may have SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)


def test_a_section_ends_before_the_interrupt_is_raised() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), engine_lock, engine_lock:
        press()
        reached.append("end")
    assert reached == ["end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with engine_lock:  # nothing is left over
        pass


def test_a_safe_point_raises_within_a_section() -> None:
    with pytest.raises(KeyboardInterrupt), engine_lock:
        press()
        uninterrupted.safe_point()
        pytest.fail("the safe point did not raise")
    uninterrupted.safe_point()


def test_a_second_interrupt_does_not_wait() -> None:
    with pytest.raises(KeyboardInterrupt), engine_lock:
        press()
        press()  # counts as the same
        time.sleep(BOUNCE_S)
        press()
        pytest.fail("the second interrupt did not raise")
    with engine_lock:
        pass


def test_a_handler_of_the_user_stays_in_place() -> None:
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    with engine_lock:
        press()
        assert seen == [1]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_an_interrupt_in_a_finaliser_is_raised_after_it() -> None:
    lock = EngineLock()

    class Pressing(dict):  # type: ignore[type-arg]
        def clear(self) -> None:
            press()

    lock._discarded.append(Pressing())
    with pytest.raises(KeyboardInterrupt):
        lock.discard({})
        time.sleep(1.0)


def test_waiting_for_another_thread_can_be_interrupted() -> None:
    lock, held, release = EngineLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            release.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt), lock:
        pytest.fail("the lock was not free")
    release.set()
    thread.join()
    with lock:
        pass


PROGRAM = """
import os, signal, sys, time
from parhelion.core.interrupts import uninterrupted
signal.signal(signal.SIGINT, signal.default_int_handler)
uninterrupted.own_process()
class Late:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
try:
    {action}
    time.sleep(2)
    print("went on")
except KeyboardInterrupt:
    print("stopped", uninterrupted.pressed)
"""


@pytest.mark.parametrize(
    ("action", "output", "code"),
    [
        ("Late().__del__()", "stopped True\n", 0),
        ("uninterrupted.end_process(); Late().__del__(); sys.exit(0)", "", 0),
        ("uninterrupted.__enter__(); Late().__del__(); time.sleep(0.5); Late().__del__()", "", 130),
    ],
    ids=["finaliser", "after the end", "second"],
)
def test_interrupts_of_the_program(action: str, output: str, code: int) -> None:
    text = PROGRAM.replace("{action}", action)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr, done.returncode) == (output, "", code)
