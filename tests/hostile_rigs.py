"""Limits for hostile files: code inside the block has bounded time and memory."""

from __future__ import annotations

import faulthandler
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

MOST_SECONDS = 10.0
MOST_BYTES = 1 << 30


class TooSlow(BaseException):
    """Exception that no reader may treat as a failure of the file."""


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise TooSlow


def mapped_bytes() -> int:
    """Address space of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


@contextmanager
def fence(seconds: float = MOST_SECONDS, more_bytes: int = MOST_BYTES) -> Iterator[None]:
    """Fail code that takes longer than `seconds`, and limit allocations to `more_bytes`.

    The limit is processor time, so that other work on the machine does not count; the wall time may be four times as
    long. The alarm does not interrupt a loop in compiled code, so the whole process is ended after eight times as long.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped_bytes() + more_bytes, hard))
    before = [(number, signal.signal(number, _stop)) for number in (signal.SIGALRM, signal.SIGPROF)]
    faulthandler.dump_traceback_later(8.0 * seconds, exit=True)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 4.0 * seconds)
    try:
        yield
    except TooSlow:
        raise AssertionError(f"it took longer than {seconds:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        faulthandler.cancel_dump_traceback_later()
        for number, handler in before:
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
