"""Errors a user can act on: one clear sentence each, never a bare traceback from the depths."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ParhelionError(Exception):
    """Base of every error that is the input's fault, or the machine's, and not a bug of ours."""


class ConfigError(ParhelionError):
    """A value, field or file of the user's configuration is not acceptable."""


class FormatError(ParhelionError):
    """A data file is truncated, empty, of another kind, or cannot hold what is asked of it."""


class MissingDependencyError(ParhelionError):
    """An optional package or a system library is not installed; the message says how to get it."""


class EngineError(ParhelionError):
    """The ray engine cannot do what was asked of it."""


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name closest in spelling to `name`, or None where nothing is close."""
    options = list(known)
    lowered = {option.lower(): option for option in options}
    matches = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    if matches:
        return lowered[matches[0]]
    contained = [option for option in options if name and name.lower() in option.lower()]
    return min(contained, key=len) if contained else None


def unknown_name(kind: str, name: str, known: Iterable[str], hint: str = "") -> ConfigError:
    """The error for a name that is not in a table, with the nearest one that is."""
    options = sorted(known)
    nearest = nearest_name(name, options)
    if nearest is not None:
        advice = f"did you mean {nearest!r}?"
    elif len(options) <= 12:
        advice = f"known: {', '.join(options)}"
    else:
        advice = f"{len(options)} are known"
    return ConfigError(f"unknown {kind} {name!r}: {advice}{' ' + hint if hint else ''}")
