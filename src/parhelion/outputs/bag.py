"""A run as a ROS 2 bag: folder/bag with all measurements, truth, transforms and clock."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from parhelion.io.ros.bag import BagWriter
from parhelion.io.ros.messages import Message
from parhelion.outputs.ros.feed import RosFeed
from parhelion.outputs.writer import Writer
from parhelion.scenario.schema import BagOutput

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step

NAME = "bag"
"""Folder of the bag in that of the run."""
BATCH_S = 1.0
"""Time of the run [s] whose messages are made together, as its samples are measured together."""


class BagSink:
    """Writes the messages of every step; a run that is stopped leaves a bag that can be read as far as it goes."""

    def __init__(self, entry: BagOutput, scenario: Scenario, folder: Path) -> None:
        self._feed = RosFeed(
            scenario, entry.topics, entry.frames, entry.layout, images=entry.images, epoch_s=entry.epoch_s,
            batch_s=BATCH_S,
        )  # fmt: skip
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
