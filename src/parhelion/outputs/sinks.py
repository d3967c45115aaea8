"""Where the measurements of a run go, beside the clouds: one sink an output that the scenario asks for."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from parhelion.core.errors import ParhelionError
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
        from parhelion.outputs.bag import BagSink

        return BagSink(entry, scenario, folder)
    if isinstance(entry, PcapOutput):
        from parhelion.outputs.pcap import PcapSink

        return PcapSink(scenario, folder)
    if isinstance(entry, FoxgloveOutput):
        from parhelion.outputs.foxglove.output import FoxgloveSink

        return FoxgloveSink(scenario, folder, entry.images)
    assert isinstance(entry, DatasetOutput)
    from parhelion.outputs.datasets import dataset_sink

    return dataset_sink(entry.kind, scenario, folder)
