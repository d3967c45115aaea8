"""Files are written beside the simulation: while one frame goes to disk, the next is measured."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

WAITING = 3
"""Frames that may wait to be written; then the simulation waits, so that memory stays bounded on a slow disk."""


class Writer:
    """Does jobs one after the other in a thread of its own. A failed job is told at the next `put` or at `close`."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parhelion-writer")
        self._waiting: deque[Future[Any]] = deque()
        self._results: list[Any] = []

    def put(self, job: Callable[[], Any]) -> None:
        """Have a job done."""
        while self._waiting and (len(self._waiting) >= WAITING or self._waiting[0].done()):
            self._results.append(self._waiting.popleft().result())
        self._waiting.append(self._thread.submit(job))

    def close(self) -> list[Any]:
        """Wait for all jobs: what they returned, in order."""
        while self._waiting:
            self._results.append(self._waiting.popleft().result())
        self._thread.shutdown()
        return self._results

    def abandon(self) -> None:
        """Finish after an error elsewhere: what was measured is written, and further errors are not told."""
        self._thread.shutdown(wait=True)
