"""Storage of a campaign: a folder, or any fsspec address (s3://bucket/name).

Files are written atomically: in a folder under a temporary name first, in an object store in one upload.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from parhelion.campaign.study import Study
from parhelion.core.errors import FormatError, MissingDependencyError
from parhelion.core.files import atomic_write, only_writer, remove_litter

INSTALL = "pip install 'parhelion[campaign]'"
_PIECES = "pieces"
_PIECE_ROWS = 256
_PIECE_S = 2.0
"""Results are written in groups of this many rows, or after this time [s], which bounds the loss after a kill."""


class LocalStore:
    """Folder on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> bytes | None:
        """Contents of a file; None if it does not exist."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FormatError(f"{self.folder / name}: cannot be read ({error.strerror})") from None

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically."""
        if "/" in name:
            self._make(self.folder / name.rpartition("/")[0])
        with atomic_write(self.folder / name) as temporary:
            temporary.write_bytes(data)

    def names(self, folder: str) -> list[str]:
        """Names of the files of a subfolder, sorted."""
        return sorted(f"{folder}/{file.name}" for file in (self.folder / folder).glob("[!.]*") if file.is_file())

    def remove(self, names: list[str]) -> None:
        """Remove files."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FormatError(f"{self.folder}: the folder cannot be created ({error.strerror})") from None

    @contextmanager
    def only_writer(self) -> Iterator[None]:
        """Context that excludes other writers."""
        self._make(self.folder)
        with only_writer(self.folder):
            remove_litter(self.folder)
            yield


class RemoteStore:
    """Folder at an address, without protection against two campaigns that write to the same one."""

    def __init__(self, address: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise MissingDependencyError(f"{address}: needs fsspec; run {INSTALL}") from None
        self.address = address
        try:
            self._files, self._root = fsspec.core.url_to_fs(address)
        except (ImportError, ValueError) as error:
            raise MissingDependencyError(f"{address}: {error}") from None
        if not self._root.strip("/"):
            raise FormatError(f"{address}: add the name of a folder")

    def _error(self, name: str, error: Exception) -> FormatError:
        why = " ".join(str(getattr(error, "strerror", None) or error).split())
        return FormatError(f"{self.address.rstrip('/')}/{name}: {why or type(error).__name__}")

    def read(self, name: str) -> bytes | None:
        """Contents of a file; None if it does not exist."""
        try:
            self._files.invalidate_cache()  # others may have written it recently
            found: bytes = self._files.cat_file(f"{self._root}/{name}")
            return found
        except FileNotFoundError:
            return None
        except Exception as error:  # exceptions depend on the library of the store
            raise self._error(name, error) from None

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically."""
        try:
            self._files.pipe_file(f"{self._root}/{name}", data)
        except Exception as error:
            raise self._error(name, error) from None

    def names(self, folder: str) -> list[str]:
        """Names of the files of a subfolder, sorted."""
        try:
            self._files.invalidate_cache()
            found = self._files.ls(f"{self._root}/{folder}", detail=False)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise self._error(folder, error) from None
        return sorted(f"{folder}/{name.rpartition('/')[2]}" for name in found if not name.endswith("/"))

    def remove(self, names: list[str]) -> None:
        """Remove files."""
        if names:
            try:
                self._files.rm([f"{self._root}/{name}" for name in names])
            except Exception as error:
                raise self._error(names[0], error) from None

    @contextmanager
    def only_writer(self) -> Iterator[None]:
        """Context without effect: object stores have no locks."""
        yield


Store = LocalStore | RemoteStore
"""Storage location."""


def store_at(place: str | PathLike[str]) -> Store:
    """Storage at a folder or an address."""
    text = fspath(place)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    return RemoteStore(text.rstrip("/")) if "://" in text else LocalStore(Path(text))


def _is_result(result: Any) -> bool:
    """Return whether a value is a complete result of a row."""
    if not isinstance(result, dict) or type(result.get("row")) is not int:
        return False
    texts = [result.get(name) for name in _AFTER if name != "status"]
    numbers = result.get("numbers")
    return (
        result.get("status") in ("done", "failed")
        and all(text is None or isinstance(text, str) for text in texts)
        and isinstance(numbers, dict)
        and all(value is None or type(value) in (int, float) for value in numbers.values())
    )


class Pieces:
    """Incremental results: small files of JSON lines, which exist until the table contains them all."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.files = store.names(_PIECES)
        self._waiting: list[str] = []
        self._since = time.monotonic()
        last = [name.rpartition("/")[2].partition(".")[0] for name in self.files]
        self._next = max((int(name) for name in last if name.isdecimal()), default=-1) + 1

    def load(self) -> dict[int, dict[str, Any]]:
        """All results of earlier pieces, by row; unreadable lines are dropped and their rows run again."""
        found: dict[int, dict[str, Any]] = {}
        for file in self.files:
            for line in io.BytesIO(self._store.read(file) or b""):
                try:
                    result = json.loads(line)
                    if _is_result(result):
                        found[result["row"]] = result
                except (ValueError, RecursionError):
                    continue
        return found

    def add(self, result: dict[str, Any]) -> None:
        """Record a result; it is written to disk soon after."""
        self._waiting.append(json.dumps(result))
        if len(self._waiting) >= _PIECE_ROWS or time.monotonic() - self._since >= _PIECE_S:
            self.flush()

    def flush(self) -> None:
        """Write pending results."""
        self._since = time.monotonic()
        if self._waiting:
            name = f"{_PIECES}/{self._next:06d}.jsonl"
            self._store.write(name, ("\n".join(self._waiting) + "\n").encode())
            self.files.append(name)
            self._next += 1
            self._waiting.clear()

    def remove(self) -> None:
        """Remove all pieces, once the table contains them."""
        self._store.remove(self.files)
        self.files.clear()


# ---- Table of a campaign: one row per run, in row order, as Parquet -------------------------------------------------


TABLE = "results.parquet"
_OWN = ("row", "cell", "draw", "seed")
_AFTER = ("status", "error", "scenario_sha256", "version", "device", "weather_validity")


def arrow() -> Any:
    """Module pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet

        return pyarrow
    except ImportError:
        raise MissingDependencyError(f"the table of a campaign needs pyarrow; run {INSTALL}") from None


def table_bytes(
    study: Study, results: dict[int, dict[str, Any]], numbers: Iterable[int], about: dict[str, Any]
) -> bytes:
    """Parquet file of the given rows; `about` is stored in it as JSON."""
    pa = arrow()
    rows = [study.row(number) for number in sorted(numbers)]
    columns: dict[str, Any] = {
        name: pa.array([getattr(row, "number" if name == "row" else name) for row in rows], pa.int64()) for name in _OWN
    }
    for path in study.settings.vary:
        columns[path] = _column(pa, [row.values[path] for row in rows], study.options(path))
    for name in _AFTER:
        columns[name] = pa.array([results[row.number].get(name) for row in rows], pa.string())
    for name in study.numbers:
        columns[name] = pa.array([results[row.number].get("numbers", {}).get(name) for row in rows], pa.float64())
    table = pa.table(columns).replace_schema_metadata({"parhelion": json.dumps(about, sort_keys=True)})
    out = io.BytesIO()
    pa.parquet.write_table(table, out, compression="zstd")
    return out.getvalue()


def _column(pa: Any, values: list[Any], options: list[Any]) -> Any:
    """Column with the narrowest type for all values that the study may give; lists and mappings as JSON text."""
    kinds = {type(value) for value in options}
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int}:
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array([float(value) for value in values], pa.float64())
    if kinds == {str}:
        return pa.array(values, pa.string())
    return pa.array([json.dumps(value, sort_keys=True) for value in values], pa.string())


def results_of(data: bytes, where: str, numbers: Iterable[str]) -> dict[int, dict[str, Any]]:
    """Results in a table, by row."""
    pa = arrow()
    try:
        table = pa.parquet.read_table(io.BytesIO(data)).to_pydict()
        kept = {name: table[name] for name in (*_AFTER, *numbers)}
        return {
            row: {
                "row": row,
                **{name: kept[name][k] for name in _AFTER},
                "numbers": {name: kept[name][k] for name in numbers},
            }
            for k, row in enumerate(table["row"])
        }
    except (pa.ArrowException, KeyError, OSError, ValueError, TypeError) as error:
        raise FormatError(f"{where}: is not a table of this study ({' '.join(str(error).split())[:200]})") from None
