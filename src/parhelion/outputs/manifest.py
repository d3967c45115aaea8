"""Manifest of a run: everything that determines its result, and the hash of every file."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.files import atomic_write

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario

MANIFEST = "manifest.json"


class EarlierRun:
    """Valid files of an earlier run of the same scenario in a folder."""

    def __init__(self, folder: Path, known: dict[str, str], complete: bool) -> None:
        self._folder, self._known, self._complete = folder, known, complete
        self.hashes: dict[str, str] = {}
        """Hashes of the files that were checked and match the manifest."""

    @classmethod
    def of(cls, folder: Path, content: dict[str, Any], resume: bool) -> EarlierRun:
        """Read the manifest of a folder. Raise ConfigError if it belongs to another scenario."""
        earlier = _manifest_in(folder)
        if earlier is None:
            return cls(folder, {}, complete=False)
        if any(earlier.get(key) != content[key] for key in ("scenario_sha256", "versions")):
            raise ConfigError(
                f"{folder}: contains a run of another scenario or version; choose another folder, or remove it first"
            )
        if not resume:
            raise ConfigError(f"{folder}: already contains a run of this scenario; resume it, or remove it first")
        files = earlier.get("files")
        return cls(folder, files if isinstance(files, dict) else {}, complete=earlier.get("complete") is True)

    @classmethod
    def replaced(cls, folder: Path, content: dict[str, Any]) -> EarlierRun:
        """Run to replace, without reusable files. Raise ConfigError if its scenario has another name."""
        earlier = _manifest_in(folder)
        if earlier is not None:
            scenario, name = earlier.get("scenario"), content["scenario"]["name"]
            if not isinstance(scenario, dict) or scenario.get("name") != name:
                raise ConfigError(
                    f"{folder}: contains a run of a scenario other than {name!r}; choose another folder, or remove it"
                )
        return cls(folder, {}, complete=True)

    def has(self, *files: Path) -> bool:
        """Return whether files exist and are unchanged.

        The manifest of a finished run lists every file. That of an interrupted run lists the files of earlier runs; its
        own files were written atomically, so they are complete if they exist.
        """
        hashes: dict[str, str] = {}
        for file in files:
            name = file.relative_to(self._folder).as_posix()
            known = self._known.get(name)
            if not file.is_file() or (known is None and self._complete):
                return False
            if known is not None:
                if sha256_of(file) != known:
                    return False
                hashes[name] = known
        self.hashes |= hashes
        return True

    def hash_of(self, file: Path) -> str:
        """Hash of a file, reused if it was checked before."""
        return self.hashes.get(file.relative_to(self._folder).as_posix()) or sha256_of(file)


def _manifest_in(folder: Path) -> dict[str, Any] | None:
    """Manifest of an earlier run in a folder; None if there is none."""
    file = folder / MANIFEST
    if not file.exists():
        return None
    try:
        earlier = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise FormatError(f"{file}: cannot be read as the manifest of an earlier run; choose another folder") from None
    return earlier if isinstance(earlier, dict) else {}


def write_manifest(folder: Path, content: dict[str, Any], *, complete: bool, files: dict[str, str]) -> None:
    """Write the manifest; before a run is complete, `files` are those of earlier runs."""
    known = {"files": dict(sorted(files.items()))} if complete or files else {}
    with atomic_write(folder / MANIFEST) as temporary:
        text = json.dumps({**content, "complete": complete, **known}, indent=1, sort_keys=True)
        temporary.write_text(text + "\n", encoding="utf-8")


def content_of(scenario: Scenario) -> dict[str, Any]:
    """Everything that determines the result of a run: the resolved scenario, the seed and the versions."""
    packages = {name: _version(name) for name in ("parhelion", "mitsuba", "drjit", "numpy", "scipy")}
    settings = scenario.settings.model_dump(mode="json")
    text = json.dumps(settings, sort_keys=True)
    return {
        "scenario": settings,
        "scenario_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "seed": scenario.seed,
        "versions": packages,
    }


def _version(package: str) -> str:
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
