"""Tables that map a type of record to the function by which one consumer handles it.

A consumer of measurements (files, ROS messages, Foxglove, viewer, report, data sets) never asks which kind of sensor
made a record: it looks up the record's type. A type that the consumer skips has a reason instead of a function, so that
no data is dropped silently.

    MESSAGES = Consumer("Foxglove", {Scan: cloud_messages, Samples: sample_messages})
    MESSAGES.skip(Image, "pictures are not sent yet")
    MESSAGES.require(type(record))(record)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from parhelion.core.errors import ConfigError

Function = TypeVar("Function")


class Consumer(Generic[Function]):
    """Functions of one consumer by type of record. A type without an entry inherits that of its nearest base class."""

    def __init__(self, name: str, table: Mapping[type, Function]) -> None:
        self.name = name
        self._table: dict[type, Function] = dict(table)
        self._reasons: dict[type, str] = {}

    def add(self, record: type, function: Function) -> None:
        """Register the function for a type of record; packages that add sensors call this."""
        self._table[record] = function
        self._reasons.pop(record, None)

    def skip(self, record: type, reason: str) -> None:
        """Register the reason why the consumer skips a type of record."""
        self._reasons[record] = reason
        self._table.pop(record, None)

    def get(self, record: type) -> Function | None:
        """Return the function for a type of record, or None if the type is skipped. Raise ConfigError without entry."""
        base = self._entry_for(record)
        if base is None:
            raise ConfigError(
                f"{self.name}: no entry for records of type {record.__name__}; add a function, or a reason to skip them"
            )
        return self._table.get(base)

    def require(self, record: type) -> Function:
        """Return the function for a type of record. Raise ConfigError if the type is skipped or has no entry."""
        function = self.get(record)
        if function is None:
            raise ConfigError(f"{self.name}: skips {record.__name__}: {self.reason(record)}")
        return function

    def reason(self, record: type) -> str | None:
        """Return the reason why a type of record is skipped; None if it is not."""
        base = self._entry_for(record)
        return None if base is None else self._reasons.get(base)

    def covers(self, record: type) -> bool:
        """Return whether a type of record has a function or a reason."""
        return self._entry_for(record) is not None

    def _entry_for(self, record: type) -> type | None:
        """The type itself or its nearest base class that has a function or a reason."""
        return next((base for base in record.__mro__ if base in self._table or base in self._reasons), None)
