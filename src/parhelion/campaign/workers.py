"""Workers on this machine: spawned processes, each with its own engine.

Jobs and results are JSON text through a pipe. The row of a process that dies goes to a new one; only a row that ends
three processes is recorded as failed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import signal
import sys
import time
import uuid
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from parhelion.campaign.trial import difference, identity, run_job
from parhelion.core.errors import ConfigError, EngineError, MissingDependencyError, ParhelionError

ATTEMPTS = 3
_READY = b"ready"
_END_S = 5.0


def usable_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block Ctrl-C, which a terminal sends to all processes. A new process inherits the mask until it ignores it."""
    if sys.platform == "win32":  # no signal masks
        yield
        return
    resource_tracker.ensure_running()  # its own start unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, threads: int) -> None:
    """Main loop of a worker: jobs in, results out, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process
    os.environ.setdefault("PARHELION_THREADS", str(threads))
    with suppress(EOFError, OSError):  # the parent process has closed the pipe
        connection.send_bytes(_READY)
        while True:
            job = connection.recv_bytes()
            connection.send_bytes(run_job(job.decode()).encode())


@dataclass
class _Worker:
    process: Any
    connection: Connection
    ready: bool = False
    job: tuple[int, str] | None = None


@dataclass
class LocalWorkers:
    """Fixed number of worker processes; dead ones are replaced."""

    count: int
    deaths: int = 0
    """Number of processes that ended unexpectedly."""
    _stillborn: int = 0
    """Number of consecutive processes that died before they were ready."""
    _workers: list[_Worker] = field(default_factory=list)
    _waiting: deque[tuple[int, str]] = field(default_factory=deque)
    _attempts: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._spawn = multiprocessing.get_context("spawn")
        self._workers = [self._started() for _ in range(self.count)]

    def _started(self) -> _Worker:
        ours, theirs = self._spawn.Pipe()
        threads = max(1, usable_cores() // self.count)
        process = self._spawn.Process(target=_serve, args=(theirs, threads), daemon=True)
        with _without_interrupts():
            process.start()
        theirs.close()
        return _Worker(process, ours)

    @property
    def notes(self) -> list[str]:
        """Messages for the user."""
        if self.deaths < 2:
            return ["1 worker process died; its row was run again"] * self.deaths
        return [f"{self.deaths} worker processes died; their rows were run again"]

    @property
    def capacity(self) -> int:
        """Number of jobs that may be submitted now."""
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
                with suppress(OSError):  # the worker died, which `results` will detect
                    worker.connection.send_bytes(worker.job[1].encode())

    def results(self) -> list[dict[str, Any]]:
        """Wait for an event; return the results available then, possibly none."""
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
        """Replace a dead worker; its row is run again or recorded as failed."""
        worker.process.join(_END_S)
        code = worker.process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        worker.connection.close()
        self.deaths += 1
        self._stillborn = 0 if worker.ready else self._stillborn + 1
        if self._stillborn >= ATTEMPTS:
            raise EngineError(f"worker processes end before they can start ({how}); run --row 0 to see the reason")
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


# ---- Workers of a Dask cluster --------------------------------------------------------------------------------------
# Every worker must have the same program as this one; others are rejected. Dask gives the runs of a lost worker to
# another.


WAIT_S = 10.0
"""Timeout for the scheduler to answer and for its first worker [s]."""
ALONE_S = 120.0
"""Timeout of a campaign without workers [s]."""
_LOOK_AGAIN_S = 0.2
"""Interval between checks for a free worker [s]."""
_AHEAD = 2
"""Jobs in the cluster per thread of its workers, so that no thread waits for the next job."""


class DaskWorkers:
    """Workers of a Dask scheduler by its address, for example tcp://host:8786."""

    def __init__(self, address: str, wait_s: float = WAIT_S, packages: tuple[str, ...] = ()) -> None:
        try:
            import distributed
        except ImportError:
            raise MissingDependencyError("--dask needs Dask; run pip install 'parhelion[cluster]'") from None
        self._dask = distributed
        self.address = address
        self._packages = packages
        # Dask's messages on lost connections are replaced by those of this module.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Dask also reports different minor versions elsewhere
                self._client = distributed.Client(address, timeout=wait_s, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            why = " ".join(str(error).split())[:200] or type(error).__name__
            raise EngineError(f"{address}: no Dask scheduler answered within {wait_s:g} s ({why})") from None
        self._futures: dict[Any, tuple[int, str]] = {}
        self._refused: set[str] = set()
        self.notes: list[str] = []
        """Messages for the user."""
        self._campaign = uuid.uuid4().hex[:8]
        self._submitted = 0
        self._alone_since: float | None = None
        try:
            self._check_all(wait_s)
        except BaseException:
            self._client.close(timeout=2)
            raise

    def _check_all(self, wait_s: float) -> None:
        """Reject workers of another version before anything is run."""
        try:
            self._client.wait_for_workers(1, timeout=wait_s)
        except TimeoutError:
            raise EngineError(f"{self.address}: the scheduler had no worker within {wait_s:g} s") from None
        for worker, theirs in self._client.run(identity, self._packages, on_error="return").items():
            if not isinstance(theirs, dict):
                raise ConfigError(f"{self.address}: worker {worker} cannot run parhelion ({theirs}); install it there")
            other = difference(identity(self._packages), theirs)
            if other is not None:
                raise ConfigError(
                    f"{self.address}: worker {worker} is rejected: {other}; a table must come from one version"
                )

    @contextmanager
    def _scheduler_errors(self) -> Iterator[None]:
        """Report any failure of Dask in the block as a lost scheduler.

        The exceptions of a client whose scheduler disappears depend on the moment: closed connections, cancelled
        futures, time-outs, missing keys.
        """
        try:
            yield
        except (ParhelionError, TimeoutError):
            raise
        except (Exception, asyncio.CancelledError) as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise EngineError(
                f"{self.address}: the scheduler was lost ({why}); run the same command again to continue"
            ) from None

    def _threads(self) -> dict[str, int]:
        """Number of threads of each accepted worker."""
        known = self._client.scheduler_info(n_workers=-1)["workers"]
        return {name: one["nthreads"] for name, one in known.items() if name not in self._refused}

    @property
    def capacity(self) -> int:
        """Number of jobs that may be submitted now."""
        with self._scheduler_errors():
            return max(0, _AHEAD * sum(self._threads().values()) - len(self._futures))

    def submit(self, row: int, job: str) -> None:
        """Give a job to the cluster."""
        self._submitted += 1
        with self._scheduler_errors():
            only = {"workers": list(self._threads()), "allow_other_workers": False} if self._refused else {}
            future = self._client.submit(
                run_job, job, key=f"parhelion-{self._campaign}-{self._submitted}-row-{row}", pure=False, **only
            )
        self._futures[future] = (row, job)

    def results(self) -> list[dict[str, Any]]:
        """Wait for an event; return the results available then, possibly none."""
        with self._scheduler_errors():
            return self._results()

    def _results(self) -> list[dict[str, Any]]:
        if not self._futures:
            time.sleep(_LOOK_AGAIN_S)
            self._check_workers()
            return []
        try:
            with self._client.as_current():
                self._dask.wait(list(self._futures), timeout=1.0, return_when="FIRST_COMPLETED")
        except TimeoutError:
            self._check_workers()
            return []
        self._alone_since = None
        found = []
        for future in [future for future in self._futures if future.done()]:
            row, job = self._futures.pop(future)
            result = self._result(future, row)
            if result is None:
                self.submit(row, job)
            else:
                found.append(result)
        return found

    def _result(self, future: Any, row: int) -> dict[str, Any] | None:
        """Result of a job; None if another worker must run it."""
        if future.status == "finished":
            result: dict[str, Any] = json.loads(future.result())
            if result["status"] != "refused":
                return result
            self._refuse(result)
            return None
        if future.status in ("cancelled", "lost"):
            raise EngineError(f"{self.address}: the scheduler was lost; run the same command again to continue")
        error = future.exception()
        words = f"{type(error).__name__}: {error}"
        if isinstance(error, self._dask.KilledWorker):
            words = "the workers that ran it died, one after the other"
        return {"row": row, "status": "failed", "error": " ".join(words.split())[:500], "numbers": {}}

    def _refuse(self, result: dict[str, Any]) -> None:
        """Give no more jobs to a worker that joined later and has another version."""
        places = self._client.run(identity, self._packages, on_error="return")
        for worker, theirs in places.items():
            other = (
                difference(identity(self._packages), theirs) if isinstance(theirs, dict) else "it cannot run parhelion"
            )
            if other is not None and worker not in self._refused:
                self._refused.add(worker)
                self.notes.append(f"worker {worker} joined later and is rejected: {other}")
        if not self._threads():
            raise ConfigError(f"{self.address}: no worker of this version is left ({result['error']})")

    def _check_workers(self) -> None:
        if self._client.status not in ("running", "connecting"):
            raise EngineError(f"{self.address}: the scheduler was lost; run the same command again to continue")
        if self._threads():
            self._alone_since = None
            return
        self._alone_since = self._alone_since or time.monotonic()
        if time.monotonic() - self._alone_since > ALONE_S:
            raise EngineError(
                f"{self.address}: has had no worker for {ALONE_S:g} s; run the same command again to continue"
            )

    def close(self) -> None:
        """Cancel unfinished jobs; the cluster itself keeps running."""
        try:
            self._client.cancel(list(self._futures), force=True)
        except Exception:  # a scheduler that is gone has nothing to cancel
            self._futures.clear()
        with suppress(Exception, asyncio.CancelledError):  # the same applies to its connection
            self._client.close(timeout=5)
