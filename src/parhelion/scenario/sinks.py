"""Where the measurements of a run go, beside the clouds: one sink an output that the scenario asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

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


def sinks_of(scenario: Scenario, folder: Path) -> list[Sink]:
    """The sinks that a scenario asks for, writing into a folder."""
    return [_sink(entry, scenario, folder) for entry in scenario.settings.outputs]


def _sink(entry: OutputEntry, scenario: Scenario, folder: Path) -> Sink:
    # Each brings packages of its own, so it is imported when it is asked for.
    if isinstance(entry, BagOutput):
        from parhelion.scenario.bag_output import BagSink

        return BagSink(entry, scenario, folder)
    if isinstance(entry, PcapOutput):
        from parhelion.scenario.pcap_output import PcapSink

        return PcapSink(scenario, folder)
    if isinstance(entry, FoxgloveOutput):
        from parhelion.scenario.foxglove_output import FoxgloveSink

        return FoxgloveSink(scenario, folder)
    assert isinstance(entry, DatasetOutput)
    from parhelion.scenario.dataset_output import dataset_sink

    return dataset_sink(entry.kind, scenario, folder)
