"""Data sets in bulk: every row of a study is a labelled sequence; together they form one set with a split and a card.

sequences/000017/              output of row 17, with statistics.json
semantic-kitti/sequences/17/   layouts of numbered sequences are combined under one root
train.txt, val.txt             the split, by sequence
README.md, dataset.json        the card: contents and origin
manifest.json                  hash of every file; journal.jsonl while the campaign runs

A sequence is moved to its final place as soon as it is complete, and its hashes are added to the journal. A resumed
campaign runs the rows again whose files are missing or differ.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.campaign.measures import Number
from parhelion.campaign.study import Study
from parhelion.campaign.summary import words_of
from parhelion.campaign.trial import identity, version_words
from parhelion.core import config
from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.files import atomic_write
from parhelion.core.random import Stream
from parhelion.outputs.datasets import dataset_sink
from parhelion.outputs.manifest import MANIFEST, Journal, has_hash, listed, manifest_in, sha256_of, write_manifest
from parhelion.outputs.report.frames import counts_of
from parhelion.scenario.scenario import Scenario
from parhelion.scenario.schema import DatasetOutput, ScenarioFile
from parhelion.weather import media

NUMBERS = (
    Number("scans", "scans", "scans of the sequence"),
    Number("points", "points", "points of the sequence"),
    Number("moving_share", "1", "share of points on moving objects"),
)
RANGES_M = (0.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, np.inf)
"""Edges of the range classes."""
STATISTICS, NAMES = "statistics.json", "names.json"
_NUMBERED = ("kitti-odometry", "semantic-kitti")
"""Layouts of numbered sequences under one root."""


def sequence_folder(place: str, row: int) -> str:
    """Folder of a row's sequence; workers on other machines must have access to the same folder."""
    if "://" in place:
        raise ConfigError(f"{place}: the sequences of a data set are written to a folder, not to an address")
    return str(Path(place).resolve() / "sequences" / f"{row:06d}")


# ---- worker side ---------------------------------------------------------------------------------------------------


def write_sequence(job: dict[str, Any], settings: ScenarioFile) -> tuple[Scenario, dict[str, float | None]]:
    """Run a scenario into the folder of a data set, and count its contents. Return both."""
    kind, folder = job["dataset"], Path(job["into"])
    outputs = [DatasetOutput(kind=kind)]
    scenario = Scenario(settings.model_copy(update={"outputs": outputs, "report": False}), Path(job["folder"]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FormatError(f"{folder}: the folder cannot be created ({error.strerror})") from None
    sink = dataset_sink(kind, scenario, folder)
    counts = _Counts(scenario)
    try:
        for step in scenario.walk(batch_s=1.0):
            sink.take(step)
            counts.take(step.scans)
    except BaseException:
        sink.abandon()
        raise
    sink.close()
    statistics = counts.as_dict()
    with atomic_write(folder / STATISTICS) as temporary:
        temporary.write_text(json.dumps(statistics, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    share = statistics["moving_points"] / statistics["points"] if statistics["points"] else None
    counted = {"scans": float(statistics["scans"]), "points": float(statistics["points"]), "moving_share": share}
    return scenario, counted


class _Counts:
    """Points of a sequence by class and by range."""

    def __init__(self, scenario: Scenario) -> None:
        self._moving = {item.instance for item in scenario.world.objects if item.is_actor}
        self._labels: Counter[str] = Counter()
        self._ranges = np.zeros(len(RANGES_M) - 1, np.int64)
        self._scans = self._points = self._on_moving = self._air = 0

    def take(self, scans: dict[str, list[tuple[int, Scan]]]) -> None:
        for lidar, found in scans.items():
            for number, scan in found:
                counts = counts_of(lidar, number, scan, self._moving)
                self._labels.update(counts.labels)
                self._ranges += np.histogram(scan.fields["range"], RANGES_M)[0]
                self._scans += 1
                self._points += counts.points
                self._on_moving += sum(counts.instances.values())
                self._air += sum(counts.origins.get(word, 0) for word in media.names())

    def as_dict(self) -> dict[str, Any]:
        return {
            "scans": self._scans,
            "points": self._points,
            "moving_points": self._on_moving,
            "air_points": self._air,
            "labels": dict(sorted(self._labels.items())),
            "ranges": self._ranges.tolist(),
        }


# ---- completion ----------------------------------------------------------------------------------------------------


def finish_dataset(study: Study, results: dict[int, dict[str, Any]], place: str) -> None:
    """Combine the sequences, and write the split and the card."""
    folder, kind = Path(place), str(study.settings.dataset)
    rows = [row for row in sorted(results) if results[row]["status"] == "done"]
    statistics = {row: _read(folder / "sequences" / f"{row:06d}" / STATISTICS) for row in rows}
    parts, whole_worlds = split_of(study, rows)
    names = {row: _names(folder, kind, row) for row in rows}
    lines = {part: [name for row in own for name in names[row]] for part, own in parts.items()}
    for part, own_lines in lines.items():
        _write(folder / f"{part}.txt", "".join(f"{line}\n" for line in own_lines))
    if kind in _NUMBERED and rows:
        _finish_root(folder, kind, lines)
    card = {
        "name": study.title,
        "kind": kind,
        "version": version_words(identity()),
        "study_sha256": study.sha256,
        "varied": {path: _spread(study, path) for path in study.settings.vary},
        "sequences": len(rows),
        "failed": len(results) - len(rows),
        "split": {part: _total([statistics[row] for row in own]) for part, own in parts.items()},
        "split_by": "worlds: no world is in both parts" if whole_worlds else "sequences: all share one world",
        "range_classes_m": [None if np.isinf(end) else end for end in RANGES_M],
        **_total(list(statistics.values())),
    }
    _write(folder / "dataset.json", json.dumps(card, indent=1, sort_keys=True) + "\n")
    _write(folder / "README.md", _card(card))


def split_of(study: Study, rows: list[int]) -> tuple[dict[str, list[int]], bool]:
    """Rows for training and validation, and whether worlds were split as a whole.

    Sequences of one world go to the same part, so that validation worlds are unknown to training. If there is only one
    world, its sequences are split.
    """
    worlds: dict[str, list[int]] = {}
    for row in rows:
        world = study.scenario_of(study.row(row))["world"]
        worlds.setdefault(json.dumps(world, sort_keys=True), []).append(row)
    whole = len(worlds) > 1
    units = list(worlds.values()) if whole else [[row] for row in rows]
    order = np.argsort(Stream(study.settings.split.seed, "campaign/split").words(np.arange(len(units)))[0])
    wanted = round(study.settings.split.val * len(rows))
    val: list[int] = []
    for k in order.tolist():
        if len(val) < wanted and len(val) + len(units[k]) < len(rows):
            val += units[k]
    return {"train": sorted(set(rows) - set(val)), "val": sorted(val)}, whole


class SequenceFiles:
    """Files of the sequences of a data set, with their hashes: those of earlier runs, and a journal of new ones."""

    def __init__(self, folder: Path, kind: str, about: dict[str, Any]) -> None:
        self._folder, self._kind, self._about = folder, kind, about
        self._known = listed(folder, manifest_in(folder) or {})
        self._journal: Journal | None = None

    def keep(self, rows: list[int]) -> list[int]:
        """Rows whose files are all as they were written; the manifest lists them from now on."""
        files = {row: self._files(row) for row in rows}
        good = [row for row in rows if files[row] and all(map(self._matches, files[row]))]
        kept = {name: self._known[name] for row in good for name in files[row]}
        self._known = kept
        write_manifest(self._folder, self._about, complete=False, files=kept)
        self._journal = Journal(self._folder)
        return good

    def _matches(self, name: str) -> bool:
        return has_hash(self._folder / name, self._known[name])

    def _files(self, row: int) -> list[str]:
        """Listed files of a row; empty if they are not known."""
        try:
            names = _names(self._folder, self._kind, row)
        except FormatError:
            return []
        own = [f"sequences/{row:06d}/"]
        if self._kind in _NUMBERED:
            own += [f"{self._kind}/{place}" for name in names for place in (f"sequences/{name}/", f"poses/{name}.")]
        return [name for name in self._known if name.startswith(tuple(own))]

    def add(self, row: int) -> None:
        """Move a new sequence to its final place, and add its files to the journal."""
        assert self._journal is not None
        names = _put_in_place(self._folder, self._kind, row)
        places = [self._folder / "sequences" / f"{row:06d}"]
        if self._kind in _NUMBERED:
            root = self._folder / self._kind
            places += [root / "sequences" / name for name in names] + [root / "poses" / f"{name}.txt" for name in names]
        self._journal.add(*(file for place in places for file in _files_in(place)))

    def finish(self) -> None:
        """Write the manifest of the complete campaign: everything in its folder."""
        assert self._journal is not None
        known = self._known | self._journal.hashes
        self._journal.remove()
        files = {}
        for file in _files_in(self._folder):
            name = file.relative_to(self._folder).as_posix()
            if not name.startswith((".", "pieces/")) and name != MANIFEST:
                files[name] = known.get(name) or sha256_of(file)
        write_manifest(self._folder, self._about, complete=True, files=files)

    def close(self) -> None:
        """Close the journal of a campaign that was stopped."""
        if self._journal is not None:
            self._journal.close()


def _files_in(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())


def _names(folder: Path, kind: str, row: int) -> list[str]:
    """Names of the parts of a sequence in its final place."""
    own = folder / "sequences" / f"{row:06d}"
    if kind not in _NUMBERED:
        return [f"sequences/{own.name}/{kind}"]
    found = _read(own / NAMES)
    return [str(name) for name in found["names"]] if isinstance(found.get("names"), list) else []


def _put_in_place(folder: Path, kind: str, row: int) -> list[str]:
    """Move a new sequence to the root of its layout if it has one; return the names of its parts there."""
    own = folder / "sequences" / f"{row:06d}"
    if kind in _NUMBERED:
        source, root = own / kind, folder / kind
        found = sorted(path.name for path in (source / "sequences").iterdir())
        # Lidars of one row are consecutive; all rows have the same number.
        names = [f"{row * len(found) + k:02d}" for k in range(len(found))]
        for old, new in zip(found, names, strict=True):
            for below, ending in (("sequences", ""), ("poses", ".txt")):
                (root / below).mkdir(parents=True, exist_ok=True)
                here, there = source / below / f"{old}{ending}", root / below / f"{new}{ending}"
                if here.exists():
                    if there.is_dir():  # of an earlier run
                        shutil.rmtree(there)
                    os.replace(here, there)
        _write(own / NAMES, json.dumps({"names": names}) + "\n")
    return _names(folder, kind, row)


def _finish_root(folder: Path, kind: str, parts: dict[str, list[str]]) -> None:
    """Write the files at the root of a layout of numbered sequences, from those of its sequences."""
    words: dict[str, Any] = {}
    labels: dict[str, Any] = {}
    for own in sorted((folder / "sequences").iterdir()):
        readme = own / kind / "README.txt"
        if readme.is_file():
            _write(folder / kind / "README.txt", readme.read_text(encoding="utf-8"))
        if (own / kind / "semantic-kitti.yaml").is_file():
            words = config.read_yaml(own / kind / "semantic-kitti.yaml")
            labels = _joined(labels, config.read_yaml(own / kind / "label-map.yaml"))
    if kind == "semantic-kitti":
        import yaml

        words["split"] = {
            "train": [int(name) for name in parts["train"]],
            "valid": [int(name) for name in parts["val"]],
            "test": [],
        }
        _write(folder / kind / "semantic-kitti.yaml", yaml.safe_dump(words, sort_keys=False))
        _write(folder / kind / "label-map.yaml", yaml.safe_dump(labels, sort_keys=False))


def _joined(one: Any, other: Any) -> Any:
    """Two nested mappings merged into one."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{key: _joined(one[key], value) if key in one else value for key, value in other.items()}}
    return other


def _total(statistics: list[dict[str, Any]]) -> dict[str, Any]:
    labels: Counter[str] = Counter()
    ranges = np.zeros(len(RANGES_M) - 1, np.int64)
    for one in statistics:
        labels.update(one["labels"])
        ranges += np.array(one["ranges"], np.int64)
    sums = {name: sum(one[name] for one in statistics) for name in ("scans", "points", "moving_points", "air_points")}
    return {**sums, "labels": dict(labels.most_common()), "ranges": ranges.tolist(), "sequence_count": len(statistics)}


def _spread(study: Study, path: str) -> str:
    """Range of a varied parameter as text."""
    draws = study.settings.draws.get(path)
    if draws is None:
        return ", ".join(words_of(value) for value in study.settings.grid[path])
    return f"{draws.kind} {words_of(getattr(draws, draws.kind))}, {study.settings.draw_count} draws, seed {draws.seed}"


def _card(card: dict[str, Any]) -> str:
    """Card as Markdown."""
    ends = card["range_classes_m"]
    steps = [f"{low:g} to {high:g}" if high is not None else f"from {low:g}" for low, high in pairwise(ends)]
    points = max(1, card["points"])
    lines = [
        f"# {card['name']}",
        "",
        f"{card['sequences']} simulated lidar sequences in the layout `{card['kind']}`: {card['scans']} scans, "
        f"{card['points']} points. Every point has its true label; nothing was labelled by hand.",
        "",
        f"Made by Parhelion {card['version']}. Study: SHA-256 {card['study_sha256']}. "
        f"Failed runs, which are excluded: {card['failed']}.",
        "",
        "## Varied",
        "",
        *([f"- `{path}`: {words}" for path, words in card["varied"].items()] or ["- seeds alone"]),
        "",
        "## Split",
        "",
        f"By {card['split_by']}. `train.txt` and `val.txt` list the sequences.",
        "",
        "| part | sequences | scans | points |",
        "| --- | ---: | ---: | ---: |",
        *(f"| {p} | {one['sequence_count']} | {one['scans']} | {one['points']} |" for p, one in card["split"].items()),
        "",
        "## Classes",
        "",
        "| class | points | share | train | val |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {word} | {count} | {100 * count / points:.2f} % | {card['split']['train']['labels'].get(word, 0)} | "
            f"{card['split']['val']['labels'].get(word, 0)} |"
            for word, count in card["labels"].items()
        ),
        "",
        f"On moving objects: {card['moving_points']} points. On {' or '.join(media.names())}: {card['air_points']}.",
        "",
        "## Ranges",
        "",
        "| range [m] | points | share |",
        "| --- | ---: | ---: |",
        *(f"| {step} | {n} | {100 * n / points:.2f} % |" for step, n in zip(steps, card["ranges"], strict=True)),
        "",
        "## Limits",
        "",
        "The points come from a simulation; the documentation of Parhelion lists the limits of its models. Test a "
        "detector that was trained here on real recordings before relying on it.",
        "",
    ]
    return "\n".join(lines)


def _read(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("expected a mapping")
        return found
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{file}: cannot be read ({error}); run the campaign into another folder") from None


def _write(file: Path, text: str) -> None:
    with atomic_write(file) as temporary:
        temporary.write_text(text, encoding="utf-8")
