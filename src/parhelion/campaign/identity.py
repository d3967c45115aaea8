"""Which program computes: rows of one table must all come from the same one."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("parhelion", "mitsuba", "drjit", "numpy", "scipy")


@cache
def identity(further: tuple[str, ...] = ()) -> dict[str, str]:
    """Versions of all that decides a run's numbers, and a hash of our own source: a checkout may have been changed.

    `further` are packages that a study's measures need.
    """
    return {**{name: _version(name) for name in (*_PACKAGES, *further)}, "source": _source()}


def version_words(known: dict[str, str]) -> str:
    """The version as a row of the table has it."""
    return f"{known['parhelion']}+source.{known['source']}"


def difference(ours: dict[str, str], theirs: dict[str, str]) -> str | None:
    """In what another program differs from this one, in words; None where it does not."""
    for name, mine in ours.items():
        other = theirs.get(name)
        if other != mine:
            what = "another source of parhelion" if name == "source" else f"{name} {other}"
            return f"it has {what}, where this campaign has {mine}"
    return None


def place() -> str:
    """The machine and process, for people to find."""
    return f"{platform.node()}:{os.getpid()}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@cache
def _source() -> str:
    folder = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".py", ".yaml", ".csv", ".npy") and "__pycache__" not in file.parts:
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
