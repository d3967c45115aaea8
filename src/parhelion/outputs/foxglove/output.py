"""A run as a recording for Foxglove: folder/foxglove.mcap with the scene, clouds, samples, truth and boxes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parhelion.core.errors import FormatError
from parhelion.outputs.foxglove.feed import FoxgloveFeed
from parhelion.outputs.foxglove.messages import Channels, FoxgloveMessage, need_foxglove

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parhelion.scenario.scenario import Scenario, Step

NAME = "foxglove.mcap"
BATCH_S = 1.0
"""Time of the run [s] whose messages are made together."""


class _Through:
    """A file whose every chunk reaches the operating system at once; what fails is kept, to be told by its name."""

    def __init__(self, place: Path) -> None:
        self.failure: OSError | None = None
        self._file = place.open("wb", buffering=0)

    def write(self, data: bytes) -> int:
        try:
            # Without a buffer a write may take a part only.
            view = memoryview(data)
            done = 0
            while done < len(view):
                done += self._file.write(view[done:]) or 0
        except OSError as error:
            self.failure = self.failure or error
            raise
        return done

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def flush(self) -> None:
        """Nothing to do: all is written already."""

    def close(self) -> None:
        self._file.close()


class FoxgloveSink:
    """Writes the messages of every step; a run that is stopped leaves a recording that can be read as far as it goes.

    A recording of an earlier run stays until this one is whole.
    """

    def __init__(self, scenario: Scenario, folder: Path, images: str = "png") -> None:
        foxglove = need_foxglove()
        from foxglove.mcap import MCAPWriteOptions

        self._feed = FoxgloveFeed(scenario, images=images, batch_s=BATCH_S)
        self.path = folder / NAME
        if self.path.is_dir():
            raise FormatError(f"{self.path}: is a folder, not a file")
        self._place = self.path.with_name("foxglove.new.mcap") if self.path.exists() else self.path
        # Channels let go of their sinks with the context, so it is kept.
        self._context = foxglove.Context()
        try:
            self._file = _Through(self._place)
        except OSError as error:
            raise FormatError(f"{self.path}: cannot be written ({error.strerror})") from None
        # One thread and no seeking back: the same bits on every machine, and whole chunks on disk.
        options = MCAPWriteOptions(compression_threads=0, disable_seeking=True)
        self._writer: Any = foxglove.open_mcap(self._file, context=self._context, writer_options=options)
        self._channels = Channels(self._context, self._feed.topics)
        try:
            self._write(self._feed.first())
        except BaseException:
            self.abandon()
            raise

    def take(self, step: Step) -> None:
        """Write what a step gave."""
        self._write(self._feed.of(step))

    def close(self) -> list[Path]:
        """Finish the recording: its file."""
        self._write(self._feed.last())
        self._finish()
        if self._place != self.path:
            try:
                os.replace(self._place, self.path)
            except OSError as error:
                raise FormatError(f"{self.path}: cannot be written ({error.strerror})") from None
        return [self.path]

    def abandon(self) -> None:
        """Finish the recording where the run was stopped, or leave an earlier one as it was."""
        with suppress(FormatError):
            if self._file.failure is None:
                self._write(self._feed.last())
        with suppress(FormatError):
            self._finish()
        if self._place != self.path:
            with suppress(OSError):
                self._place.unlink()

    def _write(self, messages: Iterable[FoxgloveMessage]) -> None:
        for message in messages:
            self._channels.log(message)
            self._check()

    def _finish(self) -> None:
        self._channels.close()
        try:
            self._writer.close()
        except Exception as error:  # the SDK's own, which names no file
            raise self._unwritten(error) from None
        finally:
            self._file.close()
        self._check()

    def _check(self) -> None:
        if self._file.failure is not None:
            raise self._unwritten(self._file.failure)

    def _unwritten(self, error: Exception) -> FormatError:
        reason = self._file.failure or error
        return FormatError(f"{self.path}: cannot be written ({getattr(reason, 'strerror', None) or reason})")
