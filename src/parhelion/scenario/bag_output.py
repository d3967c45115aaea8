"""A run as a ROS 2 bag: folder/bag with all measurements, truth, transforms and clock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from parhelion.io.ros.bag import BagWriter
from parhelion.scenario.ros_feed import RosFeed
from parhelion.scenario.schema import BagOutput

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step

NAME = "bag"
"""Folder of the bag in that of the run."""
BATCH_S = 1.0
"""Time of the run [s] whose messages are made together."""


class BagSink:
    """Writes the messages of every step; a run that is stopped leaves a bag that can be read as far as it goes."""

    def __init__(self, entry: BagOutput, scenario: Scenario, folder: Path) -> None:
        self._feed = RosFeed(scenario, entry.topics, entry.frames, entry.layout, epoch_s=entry.epoch_s, batch_s=BATCH_S)
        # The bag of an earlier run stays until this one is whole.
        self._bag = BagWriter(folder / NAME, entry.storage, overwrite=True)
        for message in self._feed.first():
            self._bag.write(message)

    def take(self, step: Step) -> None:
        """Write what a step gave."""
        for message in self._feed.of(step):
            self._bag.write(message)

    def close(self) -> list[Path]:
        """Finish the bag: its files."""
        for message in self._feed.last():
            self._bag.write(message)
        self._bag.close()
        return self._bag.files

    def abandon(self) -> None:
        """Finish the bag where the run was stopped, or leave an earlier one as it was."""
        try:
            for message in self._feed.last():
                self._bag.write(message)
        finally:
            self._bag.leave_off()
