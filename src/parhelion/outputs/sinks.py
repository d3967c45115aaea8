"""Where the measurements of a run go, beside the clouds: one sink an output that the scenario asks for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from parhelion.core.errors import ParhelionError
from parhelion.io.ros.bag import BagWriter
from parhelion.io.ros.messages import Message
from parhelion.outputs.ros.feed import RosFeed
from parhelion.scenario.schema import BagOutput, DatasetOutput, FoxgloveOutput, OutputEntry, PcapOutput

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step


class Sink(Protocol):
    """Takes the steps of a run in order, all of them, from the first.

    A run that goes on after an interruption begins its sinks anew: scans that are there already are measured again
    for them, to the same bits.
    """

    def take(self, step: Step) -> None:
        """Write what a step gave."""
        ...

    def close(self) -> list[Path]:
        """Finish after the last step: the files that were written, whole."""
        ...

    def abandon(self) -> None:
        """Leave off where the run was stopped: what was written stays readable as far as it goes, or is removed."""
        ...


class Watcher(Sink, Protocol):
    """A sink that the caller of a run brings along: it takes every step, may write files and add to the run's page."""

    def on_page(self) -> str:
        """HTML that the run's page shows before its list of files; asked for after `close`."""
        ...


class Sinks:
    """All sinks that a scenario asks for, writing into a folder, and the caller's own after them.

    Where one fails, the others are left off in order.
    """

    def __init__(self, scenario: Scenario, folder: Path, watch: Sink | None = None) -> None:
        self._open: list[Sink] = []
        try:
            for entry in scenario.settings.outputs:
                self._open.append(_sink(entry, scenario, folder))
            self._open += [] if watch is None else [watch]
        except BaseException:
            self.abandon()
            raise

    def __bool__(self) -> bool:
        return bool(self._open)

    def take(self, step: Step) -> None:
        """Write what a step gave."""
        for sink in self._open:
            sink.take(step)

    def close(self) -> list[Path]:
        """Finish after the last step: the files of all."""
        files: list[Path] = []
        try:
            while self._open:
                files += self._open[0].close()
                del self._open[0]
        except BaseException:
            self.abandon()
            raise
        return files

    def abandon(self) -> None:
        """Leave off where the run was stopped; what stopped it is to be told, not what goes wrong here, too."""
        for sink in self._open:
            with suppress(ParhelionError, OSError):
                sink.abandon()
        self._open = []


def _sink(entry: OutputEntry, scenario: Scenario, folder: Path) -> Sink:
    # Each brings packages of its own, so it is imported when it is asked for.
    if isinstance(entry, BagOutput):
        return BagSink(entry, scenario, folder)
    if isinstance(entry, PcapOutput):
        from parhelion.outputs.captures import PcapSink

        return PcapSink(scenario, folder)
    if isinstance(entry, FoxgloveOutput):
        from parhelion.outputs.foxglove.feed import FoxgloveSink

        return FoxgloveSink(scenario, folder, entry.images)
    assert isinstance(entry, DatasetOutput)
    from parhelion.outputs.datasets import dataset_sink

    return dataset_sink(entry.kind, scenario, folder)


# ---- Files are written beside the simulation: while one frame goes to disk, the next is measured --------------------


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


# ---- A run as a ROS 2 bag: folder/bag with all measurements, truth, transforms and clock ----------------------------


NAME = "bag"
"""Folder of the bag in that of the run."""
BATCH_S = 1.0
"""Time of the run [s] whose messages are made together, as its samples are measured together."""


class BagSink:
    """Writes the messages of every step; a run that is stopped leaves a bag that can be read as far as it goes."""

    def __init__(self, entry: BagOutput, scenario: Scenario, folder: Path) -> None:
        self._feed = RosFeed(
            scenario,
            entry.topics,
            entry.frames,
            entry.layout,
            images=entry.images,
            epoch_s=entry.epoch_s,
            batch_s=BATCH_S,
        )
        # The bag of an earlier run stays until this one is whole. LZ4: a run should not wait for its bag.
        self._bag = BagWriter(folder / NAME, entry.storage, compression="lz4", overwrite=True)
        self._writer = Writer()
        self._write(self._feed.first())

    def _write(self, messages: list[Message]) -> None:
        for message in messages:
            self._bag.write(message)

    def take(self, step: Step) -> None:
        """Write what a step gave."""
        messages = self._feed.of(step)
        if messages:
            self._writer.put(partial(self._write, messages))

    def close(self) -> list[Path]:
        """Finish the bag: its files."""
        self._writer.put(partial(self._write, self._feed.last()))
        self._writer.close()
        self._bag.close()
        return self._bag.files

    def abandon(self) -> None:
        """Finish the bag where the run was stopped, or leave an earlier one as it was."""
        try:
            self._writer.abandon()
            self._write(self._feed.last())
        finally:
            self._bag.leave_off()
