"""The lock of the ray engine: one thread at a time runs kernels, and only that thread frees device memory.

Dr.Jit keeps its recordings, schedules and allocations in tables that threads share without synchronisation: two
threads that run kernels at the same time crash the process. Every function that runs kernels therefore holds one lock,
`engine_lock`. Ctrl-C is recorded while the main thread holds the lock, and raised when it releases the lock or reaches
a `safe_point` between two kernels: an exception in a callback of Dr.Jit leaves a recording half finished.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from threading import Lock, get_ident
from traceback import clear_frames
from typing import Any, ParamSpec, TypeVar

from parhelion.core.interrupts import uninterrupted

_P = ParamSpec("_P")
_Result = TypeVar("_Result")
_WAIT_S = 0.1
"""Interval [s] between checks for Ctrl-C while another thread holds the lock."""


class EngineLock:
    """A fair re-entrant lock: waiting threads run before the previous owner.

    Kernels may still run after the Python code that launched them has ended, and only the thread that launched them can
    wait for them. The lock is therefore released after they have finished.
    """

    def __init__(self) -> None:
        self.settle: Callable[[], None] | None = None
        """Function that waits for the kernels of this thread; set when the engine starts."""
        self._discarded: list[dict[str, Any]] = []
        self._unlock()

    def _unlock(self) -> None:
        self._running, self._next = Lock(), Lock()
        self._owner: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        if self._owner != get_ident():
            uninterrupted.__enter__()
            try:
                self._acquire()
            except BaseException:
                uninterrupted.__exit__()
                raise
        self._depth += 1

    def _acquire(self) -> None:
        # Only one thread waits for the lock itself, the others queue behind it. The previous owner queues as well.
        while not self._next.acquire(timeout=_WAIT_S):
            uninterrupted.safe_point()
        try:
            while not self._running.acquire(timeout=_WAIT_S):
                uninterrupted.safe_point()
        finally:
            self._next.release()
        self._owner = get_ident()

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
            self._release()
            uninterrupted.__exit__()

    def discard(self, held: dict[str, Any]) -> None:
        """Release device memory: immediately if no thread uses the engine, otherwise when that thread has finished.

        Empties `held`: its owner may live on and would free the rest without the lock. Never waits, so that Python's
        garbage collection can call it in any thread at any time.
        """
        taken = dict(held)
        held.clear()
        self._discarded.append(taken)
        if self._owner == get_ident():
            return
        uninterrupted.__enter__()
        try:
            if self._running.acquire(blocking=False):
                self._owner, self._depth = get_ident(), 1
                try:
                    self._free()
                finally:
                    self._release()
        finally:
            uninterrupted.leave_finaliser()

    def _release(self) -> None:
        # Last, because freeing an object may call `discard` again in the same thread.
        self._owner, self._depth = None, 0
        self._running.release()

    def _free(self) -> None:
        while self._discarded:
            self._discarded.pop().clear()


def _forget_locals(error: BaseException | None) -> None:
    """Clear the local variables of an exception's frames: its handler would free their arrays without the lock."""
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


engine_lock = EngineLock()
if hasattr(os, "register_at_fork"):
    # A fork copies a lock in its current state, but not the thread that would release it.
    os.register_at_fork(after_in_child=engine_lock._unlock)


def locked(function: Callable[_P, _Result]) -> Callable[_P, _Result]:
    """Decorate a function that runs kernels, so that it holds the engine lock."""

    @wraps(function)
    def waits(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
        with engine_lock:
            return function(*args, **kwargs)

    return waits


class DeviceOwned:
    """Base class of objects that own device memory: any thread may drop them, and the memory is freed under the lock.

    Dr.Jit 1.5 crashes the process if memory borrowed from NumPy is freed during a recording.
    """

    def __del__(self, discard: Callable[[Any], None] = engine_lock.discard) -> None:
        # At interpreter shutdown the names of this module may already be deleted; the default argument still exists.
        discard(self.__dict__)
