"""A fence for hostile files: what is done inside of it may take only so long, and only so much memory."""

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
    """No reader's guard may take this for a failure of the file."""


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise TooSlow


def mapped_bytes() -> int:
    """Address space of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


@contextmanager
def fence(seconds: float = MOST_SECONDS, more_bytes: int = MOST_BYTES) -> Iterator[None]:
    """Fail what takes longer than `seconds`, and let no more than `more_bytes` be allocated.

    The processor's time counts, so that other work on the machine does not; what waits may wait four times as long. A
    loop inside of compiled code does not hear the alarm: after eight times as long the whole process is ended.
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
