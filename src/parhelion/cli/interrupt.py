"""Ctrl-C, remembered: native code may turn the exception into another one, or lose it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_pressed = False


def _remember(number: int, frame: FrameType | None) -> None:
    global _pressed
    _pressed = True
    raise KeyboardInterrupt


@contextmanager
def remembered_interrupts() -> Iterator[None]:
    """Within the block, `was_interrupted` tells whether Ctrl-C was pressed."""
    global _pressed
    _pressed = False
    # Where the shell has SIGINT ignored (background jobs), or another program its own handler, it stays so.
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def was_interrupted() -> bool:
    """Whether Ctrl-C was pressed since the command began."""
    return _pressed


def stop_if_interrupted() -> None:
    """Raise KeyboardInterrupt where an earlier one was lost on its way."""
    if _pressed:
        raise KeyboardInterrupt
