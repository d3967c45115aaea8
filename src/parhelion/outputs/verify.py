"""Check of a run folder or data set against the hashes in its manifest or journal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any

from parhelion.core.errors import FormatError
from parhelion.outputs.manifest import MANIFEST, has_hash, is_present, listed

_ABOVE = 3
"""Number of parent folders in which the manifest of a part of a run is searched."""


@dataclass
class Verification:
    """Result of the check of a folder."""

    folder: Path
    """Folder that was checked."""
    manifest: Path
    """Manifest that lists its files."""
    complete: bool
    """False if the run was interrupted, so that files may be missing from the list."""
    intact: int = 0
    """Number of files that have the listed hash."""
    changed: list[str] = field(default_factory=list)
    """Files with other contents."""
    missing: list[str] = field(default_factory=list)
    """Listed files that do not exist."""
    problems: list[str] = field(default_factory=list)
    """Other problems, as sentences."""

    @property
    def good(self) -> bool:
        """Return True if the run is complete and every file is as it was written."""
        return self.complete and not (self.changed or self.missing or self.problems)


def verify(folder: str | PathLike[str], progress: Callable[[], None] | None = None) -> Verification:
    """Compare every listed file of a run folder, or of a part of it, with its hash.

    The manifest is searched in the folder and in the folders above it. `progress` is called after every file. Raise
    FormatError if there is no manifest, or if it cannot be read.
    """
    place = Path(folder)
    if not place.is_dir():
        raise FormatError(f"{place}: {'is not a folder' if place.exists() else 'the folder does not exist'}")
    manifest, content = _manifest_of(place)
    root = manifest.parent
    found = Verification(place, manifest, complete=content.get("complete") is True)
    prefix = place.resolve().relative_to(root.resolve()).as_posix()
    files = listed(root, content)
    if not isinstance(content.get("files", {}), dict) or len(files) < len(content.get("files", {})):
        found.problems.append(f"{manifest.name}: contains invalid hashes")
    if not _scenario_matches(content):
        found.problems.append(f"{manifest.name}: the scenario in it does not match its hash")
    if found.complete and not files:
        found.problems.append(f"{manifest.name}: lists no files")
    for name, known in sorted(files.items()):
        if name.startswith("#") or (prefix != "." and not name.startswith(f"{prefix}/")):
            continue
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\0" in name:
            found.problems.append(f"{manifest.name}: lists {name!r}, which is outside of the folder")
            continue
        file = root / name
        if not is_present(file):
            found.missing.append(name)
        elif not has_hash(file, known):
            found.changed.append(name)
        else:
            found.intact += 1
        if progress is not None:
            progress()
    return found


def _manifest_of(place: Path) -> tuple[Path, dict[str, Any]]:
    """Manifest that lists the files of a folder, and its content."""
    whole = place.resolve()
    for k, folder in enumerate((whole, *whole.parents[:_ABOVE])):
        file = folder / MANIFEST
        if file.is_file():
            # The name is given relative to the user's own spelling of the folder.
            return (place / MANIFEST if k == 0 else file), _content(file)
    raise FormatError(f"{place}: contains no {MANIFEST}, so it is not the folder of a run")


def _content(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise FormatError(f"{file}: cannot be read as a manifest; it is damaged, so the files cannot be checked")
    return content


def _scenario_matches(content: dict[str, Any]) -> bool:
    if "scenario_sha256" not in content:
        return True
    text = json.dumps(content.get("scenario"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest() == content["scenario_sha256"]
