"""Ctrl-C at safe points only.

Python runs the handler of SIGINT between any two instructions of the main thread. An exception there is unsafe in three
places: in a callback of native code, which may replace it by another error or end the process; between taking a lock
and noting its owner, which blocks all other threads; and in a finaliser or a callback of a weak reference, where Python
prints and drops it.

`uninterrupted` marks such places. Within it, Ctrl-C is recorded, and KeyboardInterrupt is raised at its end or at the
next `safe_point`. A second Ctrl-C does not wait. Elsewhere Ctrl-C raises immediately.

In a user's program, Python's default handler is replaced only within these sections, and any other handler stays in
place. In the program `parhelion`, `own_process` installs the handler once, and a second Ctrl-C ends the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType

INTERRUPTED = 130
"""Exit code of an interrupted command, as shells report it."""
BOUNCE_S = 0.3
"""Signals within this time [s] count as one: a terminal and a wrapper script may both send it."""
_REPEAT_S = 0.02
"""Delay [s] of a signal that arrived in a finaliser or a callback."""
_SIGINT = int(signal.SIGINT)
_fast = getattr(signal, "_signal", signal)
"""Module `signal` without the conversion to enumerations, which takes ten times as long as the rest of a section."""


class Interrupts:
    """State of Ctrl-C in this process. Only the main thread runs signal handlers, so only it changes the state."""

    def __init__(self) -> None:
        self._pressed = False
        self._waiting = False  # recorded, and not raised yet
        self._since = 0.0
        self._depth = 0
        self._installed = False  # for the outermost section of a user's program
        self._owned = False
        self._ended = False
        self._repeated = False

    # ---- sections -------------------------------------------------------------------------------------------------

    def __enter__(self) -> None:
        if not _in_main_thread():
            return
        if self._depth == 0 and not self._owned and _fast.getsignal(_SIGINT) is signal.default_int_handler:
            self._waiting = False
            # One call, so that a signal is either raised before it or recorded after it.
            _fast.signal(_SIGINT, self._handle)
            self._installed = True
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        if self._left():
            self._raise()

    def leave_finaliser(self) -> None:
        """End a section without an exception: Python would drop it in a finaliser. The signal is sent again instead."""
        if self._left():
            self._repeat()

    def _left(self) -> bool:
        """End a section; return True if it was the outermost, and Ctrl-C was pressed in it."""
        if not _in_main_thread():
            return False
        if self._depth == 1 and self._installed:
            self._installed = False
            self._depth = 0
            _fast.signal(_SIGINT, signal.default_int_handler)
        else:
            self._depth -= 1
        return self._depth == 0 and self._waiting

    def safe_point(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed within a section. Without effect in other threads."""
        if self._waiting and _in_main_thread():
            self._raise()

    def _raise(self) -> None:
        self._waiting = False
        raise KeyboardInterrupt

    @property
    def pressed(self) -> bool:
        """True if Ctrl-C was pressed since `own_process`, even if native code or a finaliser lost the exception."""
        return self._pressed and self._owned

    # ---- signals --------------------------------------------------------------------------------------------------

    def _handle(self, _: int, frame: FrameType | None) -> None:
        if self._ended:
            return
        now = time.monotonic()
        second = self._pressed if self._owned else self._waiting
        if self._repeated:
            self._repeated = second = False
        elif second and now - self._since < BOUNCE_S:
            return
        self._since = now
        if second and self._owned:
            os._exit(INTERRUPTED)
        self._pressed = True
        if _in_finaliser(frame):
            self._repeat()
        elif second or (self._owned and not self._depth):
            self._raise()
        else:
            self._waiting = True

    def _repeat(self) -> None:
        self._waiting, self._repeated = False, self._owned
        if sys.platform == "win32":
            timer = threading.Timer(_REPEAT_S, signal.raise_signal, (signal.SIGINT,))
        else:
            # To the main thread itself, so that a system call in which it waits ends.
            target = threading.main_thread().ident
            timer = threading.Timer(_REPEAT_S, signal.pthread_kill, (target, signal.SIGINT))
        timer.daemon = True
        timer.start()

    # ---- program --------------------------------------------------------------------------------------------------

    def own_process(self) -> None:
        """Handle Ctrl-C in the whole process from now on, and end the process at a second one.

        A SIGINT that the shell ignores (background jobs) stays ignored.
        """
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._owned = True
            sys.unraisablehook = self._dropped
            signal.signal(signal.SIGINT, self._handle)

    def _dropped(self, about: sys.UnraisableHookArgs) -> None:
        """Repeat an interrupt that was raised where Python drops exceptions, such as a weak-reference callback."""
        if issubclass(about.exc_type, KeyboardInterrupt) and _in_main_thread():
            self._repeat()
        else:
            sys.__unraisablehook__(about)

    def end_process(self) -> None:
        """Ignore Ctrl-C from now on, because the command has ended and Python shuts down.

        The shutdown replaces handlers by the system's default, which ends the process, but leaves an ignored signal.
        """
        self._ended = True
        if self._owned:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _in_finaliser(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


uninterrupted = Interrupts()
"""Context in which Ctrl-C is recorded; it may be nested."""
