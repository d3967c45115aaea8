"""Sinks of a run: one per entry of `outputs` in the scenario, and the bag sink."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from parhelion.core.errors import ParhelionError
from parhelion.io.ros.bag import BagWriter
from parhelion.io.ros.messages import Message
from parhelion.outputs.ros.feed import RosFeed
from parhelion.scenario.schema import BagOutput, DatasetOutput, FoxgloveOutput, LasOutput, OutputEntry, PcapOutput
from parhelion.sensors.sheets import YAML_SUFFIXES

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step


class Sink(Protocol):
    """Consumer of all steps of a run, in order, from the first.

    A resumed run restarts its sinks: existing scans are measured again for them, with the same bits.
    """

    def take(self, step: Step) -> None:
        """Write the measurements of a step."""
        ...

    def close(self) -> list[Path]:
        """Finish after the last step and return the files."""
        ...

    def abandon(self) -> None:
        """Stop after an interruption: the files stay readable up to that point, or are removed."""
        ...


class Watcher(Sink, Protocol):
    """Sink of the caller of a run. It receives every step, may write files, and may add to the run report."""

    def on_page(self) -> str:
        """HTML to insert before the list of files in the run report; called after `close`."""
        ...


class Sinks:
    """All sinks of a scenario, followed by the caller's sink. If one fails, the others are abandoned."""

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
        """Write the measurements of a step."""
        for sink in self._open:
            sink.take(step)

    def close(self) -> list[Path]:
        """Finish after the last step and return the files of all sinks."""
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
        """Stop all sinks after an interruption. Errors are suppressed, because the original one is more important."""
        for sink in self._open:
            with suppress(ParhelionError, OSError):
                sink.abandon()
        self._open = []


def _sink(entry: OutputEntry, scenario: Scenario, folder: Path) -> Sink:
    # Each sink needs further packages, so it is imported on use.
    if isinstance(entry, BagOutput):
        return BagSink(entry, scenario, folder)
    if isinstance(entry, PcapOutput):
        from parhelion.outputs.captures import PcapSink

        return PcapSink(scenario, folder)
    if isinstance(entry, FoxgloveOutput):
        from parhelion.outputs.foxglove.feed import FoxgloveSink

        return FoxgloveSink(scenario, folder, entry.images)
    if isinstance(entry, LasOutput):
        from parhelion.outputs.survey import SurveySink

        return SurveySink(scenario, folder, waveforms=entry.waveforms, epoch_s=entry.epoch_s, index=entry.water_index)
    assert isinstance(entry, DatasetOutput)
    from parhelion.outputs.datasets import dataset_sink

    return dataset_sink(entry.kind, scenario, folder)


# ---- background writing: while one frame is written, the next is measured -------------------------------------------


WAITING = 3
"""Largest number of queued frames; beyond it the simulation waits, so that memory is bounded on a slow disk."""


class Writer:
    """Runs jobs one after the other in a background thread. The error of a failed job is raised by `put` or `close`.

    A job may return notes, for example on fields that were not written.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parhelion-writer")
        self._waiting: deque[Future[Iterable[str] | None]] = deque()
        self._notes: Counter[str] = Counter()

    def put(self, job: Callable[[], Iterable[str] | None]) -> None:
        """Queue a job."""
        while self._waiting and (len(self._waiting) >= WAITING or self._waiting[0].done()):
            self._notes.update(self._waiting.popleft().result())
        self._waiting.append(self._thread.submit(job))

    def close(self) -> Counter[str]:
        """Wait for all jobs and return how often each note was given."""
        while self._waiting:
            self._notes.update(self._waiting.popleft().result())
        self._thread.shutdown()
        return self._notes

    def abandon(self) -> None:
        """Finish all queued jobs after an error elsewhere; further errors are ignored."""
        self._thread.shutdown(wait=True)


# ---- ROS 2 bag of a run: folder/bag with all measurements, truth, transforms and clock ------------------------------


NAME = "bag"
"""Folder of the bag in the folder of the run."""
BATCH_S = 1.0
"""Duration of a batch of messages [s of the run], the same as for samples."""


class BagSink:
    """Writes the messages of every step. An interrupted run leaves a bag that is readable up to that point."""

    def __init__(self, entry: BagOutput, scenario: Scenario, folder: Path) -> None:
        self._feed = RosFeed(
            scenario,
            entry.topics,
            entry.frames,
            entry.layout,
            images=entry.images,
            epoch_s=entry.epoch_s,
            batch_s=BATCH_S,
            objects=entry.objects,
            distro=entry.ros_distro,
        )
        # The bag of an earlier run is replaced when this one is complete. LZ4 is fast, so the run need not wait.
        self._bag = BagWriter(folder / NAME, entry.storage, compression="lz4", overwrite=True, distro=entry.ros_distro)
        self._writer = Writer()
        self._name_sensors()
        self._write(self._feed.first())

    def _name_sensors(self) -> None:
        """State the model of each sensor in the bag; data sheets of users may not be there when it is read."""
        models = {one.name: one.entry.model for one in self._feed.scenario.sensors}
        named = {name: model for name, model in models.items() if not model.lower().endswith(YAML_SUFFIXES)}
        self._bag.sensors = {topic.topic: named[name] for name, topic in self._feed.sensors.items() if name in named}

    def _write(self, messages: list[Message]) -> None:
        for message in messages:
            self._bag.write(message)

    def take(self, step: Step) -> None:
        """Write the messages of a step."""
        messages = self._feed.of(step)
        if messages:
            self._writer.put(partial(self._write, messages))

    def close(self) -> list[Path]:
        """Finish the bag and return its files."""
        self._writer.put(partial(self._write, self._feed.last()))
        self._writer.close()
        self._name_sensors()
        self._bag.close()
        return self._bag.files

    def abandon(self) -> None:
        """Finish the bag of an interrupted run, or discard it if it would replace an earlier one."""
        try:
            self._writer.abandon()
            self._write(self._feed.last())
        finally:
            self._bag.leave_off()
