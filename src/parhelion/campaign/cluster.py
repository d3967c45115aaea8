"""Workers of a Dask cluster, wherever its scheduler is.

Every worker must have the same program as this one; others are refused. Dask gives the runs of a lost worker to
another.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
import warnings
from typing import Any

from parhelion.campaign.identity import difference, identity
from parhelion.campaign.trial import run_job
from parhelion.core.errors import ConfigError, EngineError, MissingDependencyError

WAIT_S = 10.0
"""How long an address may take to answer, and a cluster to have its first worker."""
ALONE_S = 120.0
"""How long a campaign waits for workers when all have gone."""
_LOOK_AGAIN_S = 0.2
"""How long to wait where no worker is there to take a job."""
_AHEAD = 2
"""Jobs in the cluster for each thread of its workers, so that none waits for the next."""


class DaskWorkers:
    """The workers of a scheduler by its address, such as tcp://host:8786."""

    def __init__(self, address: str, wait_s: float = WAIT_S, packages: tuple[str, ...] = ()) -> None:
        try:
            import distributed
        except ImportError:
            raise MissingDependencyError("--dask needs Dask; run pip install 'parhelion[cluster]'") from None
        self._dask = distributed
        self.address = address
        self._packages = packages
        # What Dask has to say of lost connections, this module says in a sentence.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that minor versions of Dask differ, it tells itself elsewhere
                self._client = distributed.Client(address, timeout=wait_s, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            why = " ".join(str(error).split())[:200] or type(error).__name__
            raise EngineError(f"{address}: no Dask scheduler answered within {wait_s:g} s ({why})") from None
        self._futures: dict[Any, tuple[int, str]] = {}
        self._refused: set[str] = set()
        self.notes: list[str] = []
        """What happened that a user should know."""
        self._campaign = uuid.uuid4().hex[:8]
        self._submitted = 0
        self._alone_since: float | None = None
        try:
            self._check_all(wait_s)
        except BaseException:
            self._client.close(timeout=2)
            raise

    def _check_all(self, wait_s: float) -> None:
        """Refuse workers of another version before anything is run."""
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
                    f"{self.address}: worker {worker} is refused: {other}; a table must come from one version"
                )

    def _threads(self) -> dict[str, int]:
        """Threads of each worker that is not refused."""
        known = self._client.scheduler_info(n_workers=-1)["workers"]
        return {name: one["nthreads"] for name, one in known.items() if name not in self._refused}

    @property
    def room(self) -> int:
        """Jobs that may be submitted now."""
        return max(0, _AHEAD * sum(self._threads().values()) - len(self._futures))

    def submit(self, row: int, job: str) -> None:
        """Give a job to the cluster."""
        self._submitted += 1
        only = {"workers": list(self._threads()), "allow_other_workers": False} if self._refused else {}
        future = self._client.submit(
            run_job, job, key=f"parhelion-{self._campaign}-{self._submitted}-row-{row}", pure=False, **only
        )
        self._futures[future] = (row, job)

    def results(self) -> list[dict[str, Any]]:
        """Wait for something to happen: the results that there are then, perhaps none."""
        if not self._futures:
            time.sleep(_LOOK_AGAIN_S)
            self._see_that_someone_works()
            return []
        try:
            with self._client.as_current():
                self._dask.wait(list(self._futures), timeout=1.0, return_when="FIRST_COMPLETED")
        except TimeoutError:
            self._see_that_someone_works()
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
        """What became of a job; None where it must be run by another worker."""
        if future.status == "finished":
            result: dict[str, Any] = json.loads(future.result())
            if result["status"] != "refused":
                return result
            self._refuse(result)
            return None
        if future.status in ("cancelled", "lost"):
            raise EngineError(f"{self.address}: the scheduler was lost; run the same command again to go on")
        error = future.exception()
        words = f"{type(error).__name__}: {error}"
        if isinstance(error, self._dask.KilledWorker):
            words = "the workers that ran it died, one after the other"
        return {"row": row, "status": "failed", "error": " ".join(words.split())[:500], "numbers": {}}

    def _refuse(self, result: dict[str, Any]) -> None:
        """Give no more jobs to a worker that came later and has another version."""
        places = self._client.run(identity, self._packages, on_error="return")
        for worker, theirs in places.items():
            other = (
                difference(identity(self._packages), theirs) if isinstance(theirs, dict) else "it cannot run parhelion"
            )
            if other is not None and worker not in self._refused:
                self._refused.add(worker)
                self.notes.append(f"worker {worker} came later and is refused: {other}")
        if not self._threads():
            raise ConfigError(f"{self.address}: no worker of this version is left ({result['error']})")

    def _see_that_someone_works(self) -> None:
        if self._client.status not in ("running", "connecting"):
            raise EngineError(f"{self.address}: the scheduler was lost; run the same command again to go on")
        if self._threads():
            self._alone_since = None
            return
        self._alone_since = self._alone_since or time.monotonic()
        if time.monotonic() - self._alone_since > ALONE_S:
            raise EngineError(
                f"{self.address}: has had no worker for {ALONE_S:g} s; run the same command again to go on"
            )

    def close(self) -> None:
        """Take back what is not done; the cluster itself goes on."""
        try:
            self._client.cancel(list(self._futures), force=True)
        except Exception:  # a scheduler that is gone has nothing to cancel
            self._futures.clear()
        self._client.close(timeout=5)
