"""Workers of this machine: processes that were spawned, each with an engine of its own.

Jobs and results are JSON text through a pipe. A process that dies takes no run with it: its row goes to a new one, and
only a row that ends three processes is written down as failed.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from parhelion.campaign.trial import run_job
from parhelion.core.errors import EngineError

ATTEMPTS = 3
_READY = b"ready"
_END_S = 5.0


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _serve(connection: Connection, threads: int) -> None:
    """A worker's whole life: jobs in, results out, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that started it
    os.environ.setdefault("PARHELION_THREADS", str(threads))
    connection.send_bytes(_READY)
    while True:
        try:
            job = connection.recv_bytes()
        except (EOFError, OSError):
            return
        connection.send_bytes(run_job(job.decode()).encode())


@dataclass
class _Worker:
    process: Any
    connection: Connection
    ready: bool = False
    job: tuple[int, str] | None = None


@dataclass
class LocalWorkers:
    """A number of processes, kept at that number."""

    count: int
    threads: int = 0
    """Threads of each; 0 for its share of the cores."""
    deaths: int = 0
    """Processes that ended by themselves or were killed."""
    _stillborn: int = 0
    """Processes in a row that died before they were ready."""
    _workers: list[_Worker] = field(default_factory=list)
    _waiting: deque[tuple[int, str]] = field(default_factory=deque)
    _attempts: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._spawn = multiprocessing.get_context("spawn")
        self._workers = [self._started() for _ in range(self.count)]

    def _started(self) -> _Worker:
        ours, theirs = self._spawn.Pipe()
        threads = self.threads or max(1, usable_cores() // self.count)
        process = self._spawn.Process(target=_serve, args=(theirs, threads), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    @property
    def notes(self) -> list[str]:
        """What happened that a user should know."""
        if self.deaths < 2:
            return ["1 worker process died; its row was run again"] * self.deaths
        return [f"{self.deaths} worker processes died; their rows were run again"]

    @property
    def room(self) -> int:
        """Jobs that may be submitted now."""
        busy = sum(worker.job is not None for worker in self._workers)
        return max(0, self.count - busy - len(self._waiting))

    def submit(self, row: int, job: str) -> None:
        """Give a job to the next free worker."""
        self._waiting.append((row, job))
        self._hand_out()

    def _hand_out(self) -> None:
        for worker in self._workers:
            if self._waiting and worker.ready and worker.job is None:
                worker.job = self._waiting.popleft()
                with suppress(OSError):  # of one that has died, which `results` finds out
                    worker.connection.send_bytes(worker.job[1].encode())

    def results(self) -> list[dict[str, Any]]:
        """Wait for something to happen: the results that there are then, perhaps none."""
        self._hand_out()
        ends: dict[Any, _Worker] = {}
        for worker in self._workers:
            ends[worker.connection] = ends[worker.process.sentinel] = worker
        found: list[dict[str, Any]] = []
        touched = {id(worker): worker for worker in (ends[end] for end in wait(list(ends), timeout=1.0))}
        for worker in touched.values():
            found += self._heard(worker)
        self._hand_out()
        return found

    def _heard(self, worker: _Worker) -> list[dict[str, Any]]:
        try:
            if not worker.connection.poll():
                return [] if worker.process.is_alive() else self._buried(worker)
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            return self._buried(worker)
        if message == _READY:
            worker.ready = True
            return []
        worker.job = None
        return [json.loads(message)]

    def _buried(self, worker: _Worker) -> list[dict[str, Any]]:
        """A worker has died: another takes its place, and its row is run again or given up."""
        worker.process.join(_END_S)
        code = worker.process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        worker.connection.close()
        self.deaths += 1
        self._stillborn = 0 if worker.ready else self._stillborn + 1
        if self._stillborn >= ATTEMPTS:
            raise EngineError(f"worker processes end before they can start ({how}); --row 0 shows why")
        self._workers[self._workers.index(worker)] = self._started()
        if worker.job is None:
            return []
        row, job = worker.job
        self._attempts[row] = self._attempts.get(row, 0) + 1
        if self._attempts[row] < ATTEMPTS:
            self._waiting.appendleft((row, job))
            return []
        error = f"the worker process died in each of {ATTEMPTS} attempts (last: {how})"
        return [{"row": row, "status": "failed", "error": error, "numbers": {}}]

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.connection.close()
            if worker.job is not None:
                worker.process.terminate()
        for worker in self._workers:
            worker.process.join(_END_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join(_END_S)
