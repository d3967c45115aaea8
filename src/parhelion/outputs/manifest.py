"""Manifest of a run: everything that determines its result, and the hash of every file.

While a run is in progress, its journal lists the hash of every frame as soon as the frame is written. The manifest of
the finished run replaces it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.files import atomic_write

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario

MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"
"""File of the hashes of an unfinished run: one line per frame, {"top/000000.pcd": "<SHA-256>", ...}."""
INPUTS = "inputs.json"
"""File of the hashes of the files that the run has read."""
MOST_DIFFERENCES = 4
"""Number of differences from an earlier run that an error lists."""
_ABSENT = object()
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
    def of(cls, folder: Path, content: dict[str, Any], resume: bool, place: Path | None = None) -> EarlierRun:
        """Read the manifest of a folder. Raise ConfigError if it belongs to another scenario.

        With `place`, the folder of the scenario, files that the earlier run has read must be unchanged, too.
        """
        earlier = manifest_in(folder)
        if earlier is None:
            return cls(folder, {})
        differing = differences(earlier, content) + ([] if place is None else changed_inputs(folder, place))
        if differing:
            raise ConfigError(
                f"{folder}: contains a run of another scenario or version: {'; '.join(differing[:MOST_DIFFERENCES])}"
                f"{f' and {len(differing) - MOST_DIFFERENCES} more' if len(differing) > MOST_DIFFERENCES else ''}; "
                "choose another folder, or replace the run (parhelion run --force)"
            )
        if not resume:
            raise ConfigError(f"{folder}: already contains a run of this scenario; resume it, or remove it first")
        return cls(folder, listed(folder, earlier))

    @classmethod
    def replaced(cls, folder: Path, content: dict[str, Any], *, any_scenario: bool = False) -> EarlierRun:
        """Run to replace, without reusable files.

        With `any_scenario`, the files that its manifest lists are removed; else its scenario must have the same name.
        """
        earlier = manifest_in(folder)
        if earlier is not None and any_scenario:
            _remove_files(folder, listed(folder, earlier))
        elif earlier is not None:
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
        return known is not None and has_hash(file, known)

    def hash_of(self, file: Path) -> str:
        """Hash of a file, reused if it was checked before."""
        return self.hashes.get(file.relative_to(self._folder).as_posix()) or sha256_of(file)


def _remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove listed files of a run, and folders that are empty then; names that lead out of the folder are skipped."""
    root = folder.resolve()
    folders = set()
    for name in names:
        file = root / name
        if name.startswith("#") or not is_present(file) or root not in file.resolve().parents:
            continue
        file.unlink()
        folders |= {parent for parent in file.parents if root in parent.parents}
    for place in sorted(folders, key=lambda one: len(one.parts), reverse=True):
        if not any(place.iterdir()):
            place.rmdir()


def differences(earlier: Mapping[str, Any], content: Mapping[str, Any]) -> list[str]:
    """List the differences between an earlier run and one with this content, as parts of a sentence."""
    found = []
    if earlier.get("scenario_sha256") != content["scenario_sha256"]:
        known, wanted = earlier.get("scenario"), _leaves(content["scenario"])
        before = _leaves(known) if isinstance(known, dict) else {}
        for path in dict.fromkeys([*wanted, *before]):
            if before.get(path, _ABSENT) != wanted.get(path, _ABSENT):
                found.append(f"{path} is {_shown(before, path)} there, {_shown(wanted, path)} here")
        found = found or ["its scenario is damaged"]
    versions = earlier.get("versions")
    for name, version_now in content["versions"].items():
        there = versions.get(name) if isinstance(versions, dict) else None
        if there != version_now:
            found.append(f"{name} was {there or 'not listed'}, is {version_now}")
    if earlier.get("events") != content.get("events"):
        found.append("events changed it" if "events" in earlier else "no events changed it")
    return found


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Plain values of nested settings by path; entries of lists by their name or index, absent ones (None) skipped."""
    if isinstance(value, dict):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list) and any(isinstance(entry, (dict, list)) for entry in value):
        items = ((entry.get("name") or k if isinstance(entry, dict) else k, entry) for k, entry in enumerate(value))
    else:
        return {} if value is None else {path: value}
    found: dict[str, Any] = {}
    for name, entry in items:
        found |= _leaves(entry, f"{path}.{name}" if path else str(name))
    return found


def _shown(values: Mapping[str, Any], path: str) -> str:
    text = json.dumps(values[path], ensure_ascii=False) if path in values else "absent"
    return text if len(text) <= 60 else text[:57] + "..."


# ---- inputs of a run -------------------------------------------------------------------------------------------------
# The settings name files: meshes, data sheets, maps. Their hashes are stored beside the manifest, so that a run with
# other inputs is refused, and a finished run of which nothing changed is recognised without loading its scenario.


def write_inputs(folder: Path, scenario: Scenario, files: Iterable[Path]) -> None:
    """Write the hashes of the files that a run read; files of the package and of the run itself are left out."""
    place, own = scenario.folder.absolute(), Path(__file__).parents[1]
    source = Path(scenario.source)
    read = {
        _relative(file, place): sha256_of(file)
        for file in sorted(set(files))
        if file.is_file() and own not in file.parents and folder.absolute() not in file.parents
    }
    request = None
    if source.is_file():
        # The settings of the scenario file are compared, so that a new comment in it does not count as a change.
        read.pop(_relative(source.absolute(), place), None)
        request = {"sha256": sha256_of(source), "changes": _as_json(scenario.changes)}
    content = {"folder": _way_to(place, folder), "scenario": request, "files": read}
    with atomic_write(folder / INPUTS) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def scenario_folder(folder: Path) -> Path:
    """Folder to which the files in the settings of a run are relative; that of the run if it no longer exists."""
    way = _inputs_in(folder).get("folder")
    place = folder / way if isinstance(way, str) and "\0" not in way else folder
    return place if place.is_dir() else folder


def _way_to(place: Path, folder: Path) -> str:
    """Path of a folder relative to the run, so that both can be moved together; absolute on another drive."""
    try:
        return Path(os.path.relpath(place, folder.absolute())).as_posix()
    except ValueError:
        return str(place)


def _relative(file: Path, place: Path) -> str:
    return file.relative_to(place).as_posix() if place in file.parents else str(file)


def _as_json(changes: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(dict(changes), default=str))


def _inputs_in(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / INPUTS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def changed_inputs(folder: Path, place: Path) -> list[str]:
    """Files that a run in a folder has read and that changed since, one sentence part per file.

    `place` is the folder of the scenario. Files that no longer exist are reported when the scenario is loaded.
    """
    files = _inputs_in(folder).get("files")
    found = []
    for name, known in hashes_in(files).items() if isinstance(files, dict) else ():
        file = place / name
        if is_present(file) and not has_hash(file, known):
            found.append(f"{name} changed since")
    return found


def finished(folder: Path, source: Path, changes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Manifest of a finished run of a scenario file if neither its inputs nor its files have changed, else None.

    The scenario is not loaded: its file must be the same, byte for byte, and so must the `changes` and all versions.
    """
    try:
        manifest, inputs = manifest_in(folder), _inputs_in(folder)
        request = inputs.get("scenario")
        if manifest is None or manifest.get("complete") is not True or not isinstance(request, dict):
            return None
        same = (
            manifest.get("versions") == versions()
            and "events" not in manifest
            and request.get("changes") == _as_json(changes)
            and request.get("sha256") == sha256_of(source)
            and all(is_present(source.parent / name) for name in hashes_in(inputs["files"]))
            and not changed_inputs(folder, source.parent)
        )
        known = listed(folder, manifest)
        whole = bool(known) and all(is_present(folder / name) for name in known)
        return manifest if same and whole and EarlierRun(folder, known).has(*(folder / one for one in known)) else None
    except (OSError, ValueError, FormatError, KeyError, TypeError, AttributeError):
        return None  # the complete run reports it


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
    # Imported here, so that a finished run is recognised without loading the modules of scenarios.
    from parhelion.scenario.events import NAME, settings_hash
    from parhelion.sensors.optics.lidar.validity import as_plain

    settings, digest = settings_hash(scenario)
    return {
        "scenario": settings,
        "scenario_sha256": digest,
        **({"events": NAME} if controlled else {}),
        "seed": scenario.seed,
        "versions": versions(),
        "weather_validity": as_plain(scenario.weather_validity),
    }


def versions() -> dict[str, str]:
    """Installed versions of the packages that determine results."""
    return {name: version_of(name) for name in ("parhelion", "mitsuba", "drjit", "numpy", "scipy")}


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


def is_present(file: Path) -> bool:
    """Return whether a name, also one from a damaged list, is a file: not one with NUL or too many characters."""
    try:
        return file.is_file()
    except (OSError, ValueError):  # pathlib lets "File name too long" through
        return False


def has_hash(file: Path, known: str) -> bool:
    """Return whether a file exists, can be read, and has a SHA-256 hash."""
    try:
        return is_present(file) and sha256_of(file) == known
    except OSError:
        return False
