"""One thread at a time uses the engine, and only that thread frees its memory.

Dr.Jit keeps what it records, schedules and frees in tables that threads share without a word to each other: two threads
that run kernels end the process. So every door that runs kernels is behind one lock, `engine_lock`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from threading import Lock, get_ident
from traceback import clear_frames
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_Result = TypeVar("_Result")


class EngineLock:
    """A re-entrant lock that lets threads in by turns: who waits comes before who has just been in.

    Kernels may still run when Python's part is over, and only the thread that started them can wait for them. So the
    lock is handed on when they are done.
    """

    def __init__(self) -> None:
        self.settle: Callable[[], None] | None = None
        """Waits for the kernels of this thread; set when the engine starts."""
        self._discarded: list[dict[str, Any]] = []
        self._unlock()

    def _unlock(self) -> None:
        self._running, self._next = Lock(), Lock()
        self._owner: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        me = get_ident()
        if self._owner != me:
            # Only one thread waits at the lock itself, the others behind it: the last owner has to queue, too.
            with self._next:
                self._running.acquire()
            self._owner = me
        self._depth += 1

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._depth > 1:
            self._depth -= 1
            return
        try:
            _forget_locals(error)
            if self.settle is not None:
                self.settle()
            self._free()
        finally:
            self._hand_on()

    def discard(self, held: dict[str, Any]) -> None:
        """Drop the last hold on device memory: at once if no thread uses the engine, else when that thread is done.

        Empties `held`, whose owner may live on for a while, and would free out of turn what is left in it. Never waits,
        so that it may be called by Python's garbage collection, in any thread and at any moment.
        """
        taken = dict(held)
        held.clear()
        self._discarded.append(taken)
        if self._owner != get_ident() and self._running.acquire(blocking=False):
            self._owner, self._depth = get_ident(), 1
            try:
                self._free()
            finally:
                self._hand_on()

    def _hand_on(self) -> None:
        # Only now: what is freed may come here again, in the same thread.
        self._owner, self._depth = None, 0
        self._running.release()

    def _free(self) -> None:
        while self._discarded:
            self._discarded.pop().clear()


def _forget_locals(error: BaseException | None) -> None:
    """Let an error on its way out take no arrays with it: whoever catches it would free them, out of turn."""
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


engine_lock = EngineLock()
if hasattr(os, "register_at_fork"):
    # A fork copies the lock as it is, but not the thread that would open it.
    os.register_at_fork(after_in_child=engine_lock._unlock)


def locked(function: Callable[_P, _Result]) -> Callable[_P, _Result]:
    """Let a function that runs kernels wait for its turn."""

    @wraps(function)
    def waits(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
        with engine_lock:
            return function(*args, **kwargs)

    return waits


class DeviceOwned:
    """Base of what holds device memory for long: any thread may drop it, the memory is freed in turn.

    Dr.Jit 1.5 ends the process where memory borrowed from NumPy is freed while a recording is made.
    """

    def __del__(self, discard: Callable[[Any], None] = engine_lock.discard) -> None:
        # The names of this module may be gone when the interpreter ends; the default argument is not.
        discard(self.__dict__)
