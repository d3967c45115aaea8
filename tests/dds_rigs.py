"""Second programs on the bus for tests of live ROS 2. All traffic stays on the loopback interface."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PEER = Path(__file__).parent / "live" / "dds_peer.py"

# One domain per test run; its ports lie below the ephemeral ports of the system.
DOMAIN = 60 + os.getpid() % 39
OTHER_DOMAIN = DOMAIN + 1


class Peer:
    """A second program that listens, or drives."""

    def __init__(self, **order: Any) -> None:
        order.setdefault("domain", DOMAIN)
        self.process = subprocess.Popen(
            [sys.executable, str(PEER), json.dumps(order)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self._lines = self.process.stdout
        assert self._lines.readline() == "ready\n"

    def report(self) -> dict[str, Any]:
        """Everything that it received, after it has ended."""
        return json.loads(self._lines.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._lines.close()


@contextmanager
def peer(**order: Any) -> Iterator[Peer]:
    """A second program for the duration of a block."""
    made = Peer(**order)
    try:
        yield made
    finally:
        made.close()
