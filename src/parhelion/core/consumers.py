"""Tables from a type of record to what one reader of measurements does with it.

A reader (files, ROS messages, Foxglove, viewer, report, data sets) never asks what kind a sensor is: it looks up the
type of the record it was given. A type that a reader cannot use has a reason in place of a function, so that nothing is
left out in silence.

    READERS = Consumer("Foxglove", {Scan: cloud_messages, Samples: sample_messages})
    READERS.leaves_out(Image, "pictures are not sent yet")
    READERS.of(type(record))(record)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from parhelion.core.errors import ConfigError

Function = TypeVar("Function")


class Consumer(Generic[Function]):
    """What one reader does with each type of record; a type without an entry of its own has that of its base."""

    def __init__(self, name: str, table: Mapping[type, Function]) -> None:
        self.name = name
        self._table: dict[type, Function] = dict(table)
        self._reasons: dict[type, str] = {}

    def add(self, record: type, function: Function) -> None:
        """Let the reader use a type of record; packages with sensors of their own call this."""
        self._table[record] = function
        self._reasons.pop(record, None)

    def leaves_out(self, record: type, reason: str) -> None:
        """Say why the reader does not use a type of record."""
        self._reasons[record] = reason
        self._table.pop(record, None)

    def get(self, record: type) -> Function | None:
        """The function for a type of record; None where it is left out for a reason."""
        base = self._known_base(record)
        if base is None:
            raise ConfigError(
                f"{self.name}: does not know what to do with {record.__name__}; "
                "add a function for it, or a reason why it is left out"
            )
        return self._table.get(base)

    def of(self, record: type) -> Function:
        """The same, where the type must not be left out."""
        function = self.get(record)
        if function is None:
            raise ConfigError(f"{self.name}: leaves out {record.__name__}: {self.reason(record)}")
        return function

    def reason(self, record: type) -> str | None:
        """Why a type of record is left out; None where it is not."""
        base = self._known_base(record)
        return None if base is None else self._reasons.get(base)

    def knows(self, record: type) -> bool:
        """Whether a type of record has a function or a reason."""
        return self._known_base(record) is not None

    def _known_base(self, record: type) -> type | None:
        """The nearest base with a function or a reason, the type itself first."""
        return next((base for base in record.__mro__ if base in self._table or base in self._reasons), None)
