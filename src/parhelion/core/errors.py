"""Errors that a user can act on. Each message is one sentence: the problem, the place and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ParhelionError(Exception):
    """Base of all errors caused by the input or the machine rather than by a bug in Parhelion.

    >>> try:
    ...     ph.Pose(xyz=(0, 0))
    ... except ph.ParhelionError as error:
    ...     print(error)
    pose: xyz must be 3 numbers, got shape (2,)
    """


class ConfigError(ParhelionError):
    """A value, field or file of the user's configuration is not acceptable.

    >>> ph.Lidar("velodyne/vlp-17")
    Traceback (most recent call last):
    parhelion.core.errors.ConfigError: unknown lidar 'velodyne/vlp-17': did you mean 'velodyne/vlp-16'? ...
    """


class FieldError(ConfigError):
    """A ConfigError whose text begins with the path of a field, relative to the entry that is checked."""


def at_field(path: str, error: ParhelionError) -> str:
    """Text of an error in an entry: 'sensors[0].model: ...' if it names the field, otherwise 'sensors[0]: ...'."""
    return f"{path}.{error}" if isinstance(error, FieldError) else f"{path}: {error}"


class FormatError(ParhelionError):
    """A data file is truncated, empty or of another kind, or its format cannot hold the data to write.

    >>> issubclass(ph.FormatError, ph.ParhelionError)
    True
    """


class MissingDependencyError(ParhelionError):
    """An optional package or a system library is not installed; the message states how to install it.

    >>> issubclass(ph.MissingDependencyError, ph.ParhelionError)
    True
    """


class EngineError(ParhelionError):
    """The ray engine cannot perform the requested operation.

    >>> issubclass(ph.EngineError, ph.ParhelionError)
    True
    """


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest in spelling to `name`, or None if none is similar."""
    options = list(known)
    lowered = {option.lower(): option for option in options}
    matches = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    if matches:
        return lowered[matches[0]]
    contained = [option for option in options if name and name.lower() in option.lower()]
    return min(contained, key=len) if contained else None


def unknown_name(kind: str, name: str, known: Iterable[str], hint: str = "") -> ConfigError:
    """Return the error for a name that is not in a table, with the most similar known name."""
    options = sorted(known)
    nearest = nearest_name(name, options)
    if nearest is not None:
        advice = f"did you mean {nearest!r}?"
    elif len(options) <= 12:
        advice = f"known: {', '.join(options)}"
    else:
        advice = f"{len(options)} are known"
    return ConfigError(f"unknown {kind} {name!r}: {advice}{' ' + hint if hint else ''}")
