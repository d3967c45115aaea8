"""Manifest of a run: everything that determines its result, and the hash of every file.

While a run is in progress, its journal lists the hash of every frame as soon as the frame is written. The manifest of
the finished run replaces it.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.files import atomic_write
from parhelion.scenario.events import NAME as EVENTS
from parhelion.scenario.events import settings_hash
from parhelion.sensors.optics.lidar.validity import as_plain

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario

MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"
"""File of the hashes of an unfinished run: one line per frame, {"top/000000.pcd": "<SHA-256>", ...}."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Journal:
    """Hashes of the files of a run in progress. Every call of `add` appends one line, which survives a kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()  # frames are added by the writer's thread, statistics by the simulation
        try:
            self._stream = (folder / JOURNAL).open("w", encoding="utf-8")
        except OSError as error:
            raise FormatError(f"{folder / JOURNAL}: cannot be written ({error.strerror})") from None

    def add(self, *files: Path) -> None:
        """Add files that were written."""
        self.add_hashes({file.relative_to(self._folder).as_posix(): sha256_of(file) for file in files})

    @property
    def hashes(self) -> dict[str, str]:
        """Hashes of all files added so far, read from the journal: a long run has many files."""
        return {name: value for name, value in journal_in(self._folder).items() if not name.startswith("#")}

    def add_hashes(self, hashes: dict[str, str]) -> None:
        """Append one line of names and hashes."""
        if not hashes:
            return
        try:
            with self._lock:
                self._stream.write(json.dumps(hashes) + "\n")
                self._stream.flush()
        except OSError as error:
            raise FormatError(f"{self._folder / JOURNAL}: cannot be written ({error.strerror})") from None

    def close(self) -> None:
        """Close the file; the run can be resumed with it."""
        self._stream.close()

    def remove(self) -> None:
        """Close and remove the file, once the manifest lists all files."""
        self.close()
        (self._folder / JOURNAL).unlink(missing_ok=True)


def journal_in(folder: Path) -> dict[str, str]:
    """Hashes in the journal of an unfinished run; damaged lines are skipped, so that their files are regenerated."""
    found: dict[str, str] = {}
    file = folder / JOURNAL
    if not file.is_file():
        return found
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise FormatError(f"{file}: cannot be read ({error.strerror})") from None
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            found |= hashes_in(entry)
    return found


def hashes_in(entry: dict[str, Any]) -> dict[str, str]:
    """Valid hashes of a mapping from names to hashes."""
    return {name: value for name, value in entry.items() if isinstance(value, str) and _SHA256.fullmatch(value)}


class EarlierRun:
    """Valid files of an earlier run of the same scenario in a folder."""

    def __init__(self, folder: Path, known: dict[str, str]) -> None:
        self._folder, self.known = folder, known
        """Hashes in the manifest and the journal."""
        self.hashes: dict[str, str] = {}
        """Hashes of the files that were checked and match."""

    @classmethod
    def of(cls, folder: Path, content: dict[str, Any], resume: bool) -> EarlierRun:
        """Read the manifest of a folder. Raise ConfigError if it belongs to another scenario."""
        earlier = manifest_in(folder)
        if earlier is None:
            return cls(folder, {})
        if any(earlier.get(key) != content.get(key) for key in ("scenario_sha256", "versions", "events")):
            raise ConfigError(
                f"{folder}: contains a run of another scenario or version; choose another folder, or remove it first"
            )
        if not resume:
            raise ConfigError(f"{folder}: already contains a run of this scenario; resume it, or remove it first")
        return cls(folder, listed(folder, earlier))

    @classmethod
    def replaced(cls, folder: Path, content: dict[str, Any]) -> EarlierRun:
        """Run to replace, without reusable files. Raise ConfigError if its scenario has another name."""
        earlier = manifest_in(folder)
        if earlier is not None:
            scenario, name = earlier.get("scenario"), content["scenario"]["name"]
            if not isinstance(scenario, dict) or scenario.get("name") != name:
                raise ConfigError(
                    f"{folder}: contains a run of a scenario other than {name!r}; choose another folder, or remove it"
                )
        return cls(folder, {})

    def has(self, *files: Path) -> bool:
        """Return whether files exist, are listed in the manifest or the journal, and are unchanged."""
        if not all(map(self.matches, files)):
            return False
        names = [file.relative_to(self._folder).as_posix() for file in files]
        self.hashes |= {name: self.known[name] for name in names}
        return True

    def matches(self, file: Path) -> bool:
        """Return whether a file has the listed hash; it may change later in the run."""
        known = self.known.get(file.relative_to(self._folder).as_posix())
        return known is not None and file.is_file() and sha256_of(file) == known

    def hash_of(self, file: Path) -> str:
        """Hash of a file, reused if it was checked before."""
        return self.hashes.get(file.relative_to(self._folder).as_posix()) or sha256_of(file)


def listed(folder: Path, manifest: dict[str, Any]) -> dict[str, str]:
    """Hashes of all files that a manifest and, if the run is unfinished, its journal list."""
    files = manifest.get("files")
    known = hashes_in(files) if isinstance(files, dict) else {}
    return known if manifest.get("complete") is True else known | journal_in(folder)


def manifest_in(folder: Path) -> dict[str, Any] | None:
    """Manifest of an earlier run in a folder; None if there is none."""
    file = folder / MANIFEST
    if not file.exists():
        return None
    try:
        earlier = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise FormatError(f"{file}: cannot be read as the manifest of an earlier run; choose another folder") from None
    return earlier if isinstance(earlier, dict) else {}


def write_manifest(folder: Path, content: dict[str, Any], *, complete: bool, files: dict[str, str]) -> None:
    """Write the manifest; before a run is complete, `files` are those of earlier runs."""
    known = {"files": dict(sorted(files.items()))} if complete or files else {}
    with atomic_write(folder / MANIFEST) as temporary:
        text = json.dumps({**content, "complete": complete, **known}, indent=1, sort_keys=True)
        temporary.write_text(text + "\n", encoding="utf-8")


def content_of(scenario: Scenario, *, controlled: bool = False) -> dict[str, Any]:
    """Everything that determines the result of a run: the resolved scenario, the seed and the versions.

    A run that events changed (`controlled`) names their log. `weather_validity` grades the result: grade and reason for
    each graded sensor in each medium of the weather.
    """
    packages = {name: version_of(name) for name in ("parhelion", "mitsuba", "drjit", "numpy", "scipy")}
    settings, digest = settings_hash(scenario)
    return {
        "scenario": settings,
        "scenario_sha256": digest,
        **({"events": EVENTS} if controlled else {}),
        "seed": scenario.seed,
        "versions": packages,
        "weather_validity": as_plain(scenario.weather_validity),
    }


def version_of(package: str) -> str:
    """Installed version of a package."""
    try:
        return version(package)
    except PackageNotFoundError:  # run from a source folder
        return "not installed"


def sha256_of(file: Path) -> str:
    """SHA-256 of a file, as hexadecimal digits."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
