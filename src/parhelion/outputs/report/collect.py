"""Run report, report.html: the configuration, the measurements and the files of a run.

    report = RunReport(scenario, folder)
    for step in scenario.walk(wanted):
        report.take(step)                   # counts every scan, stores points of some
    report.sampled("imu", samples)          # streams
    report.write(hashes)

Except for elements of class `timing`, the report depends only on the scenario.
"""

from __future__ import annotations

import time as wall
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.core.consumers import Consumer
from parhelion.core.pose import quat_rotate
from parhelion.core.streams import (
    QUALITY,
    BarometerData,
    GnssData,
    ImuData,
    MagnetometerData,
    OdometryData,
    Samples,
    UwbData,
    units,
)
from parhelion.outputs.collisions import Hits
from parhelion.outputs.report.frames import SAMPLED, CountsFile, counts_of
from parhelion.pictures import html
from parhelion.pictures.charts import Curve, sky_plot

if TYPE_CHECKING:
    from parhelion.outputs.manifest import EarlierRun, Journal
    from parhelion.scenario.scenario import Scenario, Step

# ---- ranges to radio anchors ----------------------------------------------------------------------------------------


def ranges_table(found: UwbData) -> str:
    """Table of anchors: share received, share in line of sight, and range errors with and without line of sight."""
    rows = []
    for k, name in enumerate(found.anchors):
        heard = np.isfinite(found.range[:, k])
        sight, error = found.los[:, k], found.error[:, k]
        place = "(" + ", ".join(f"{value:.4g}" for value in found.anchor_xyz[k].tolist()) + ")"
        strength = f"{np.mean(found.rssi[heard, k]):.1f} dBm" if heard.any() else ""
        errors = _error(error[heard & sight]), _error(error[heard & ~sight])
        first = None if found.first_path_power is None else found.first_path_power[heard, k]
        first_path = f"{np.nanmean(first):.1f} dBm" if first is not None and np.isfinite(first).any() else ""
        rows.append((name, place, _share(heard), _share(sight), strength, first_path, *errors))
    columns = ("anchor", "position [m]", "received", "line of sight", "RSSI", "first path", "error, LOS", "error, NLOS")
    note = ""
    fixed = np.all(np.isfinite(found.position), axis=1)
    if len(found):
        note = f"Positions from {int(fixed.sum())} of {len(found)} measurements"
        note += f"; median GDOP {np.median(found.gdop[fixed]):.2f}." if fixed.any() else "."
    return html.table(columns, rows, kinds="--nnnnnn") + html.paragraph(note)


def _share(which: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> str:
    return f"{100.0 * float(np.mean(which)):.0f} %" if len(which) else ""


def _error(error: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    return f"{np.mean(error):+.3f} ± {np.std(error):.3f} m" if len(error) else ""


TABLES: Consumer[Callable[[Any], str]] = Consumer(
    "report, tables of streams", {Samples: lambda samples: "", UwbData: ranges_table}
)
"""Table of a stream of samples as HTML, by type of record; most types have none."""


# ---- collect --------------------------------------------------------------------------------------------------------


PAGE = "report.html"
COUNTS = "statistics.jsonl"
"""File of the statistics of every scan."""

_CLOUDS = 48
"""Number of scans in the point picture."""
_MOST_POINTS = 500_000
"""Number of points in the point picture."""
_POSES = 101
"""Number of sensor poses per scan in the point picture."""
_GOLDEN = 0.6180339887498949

Drawn = tuple[tuple[str, str, str, float], ...]
"""Field, title, unit, and factor from the unit of the record, for each plot."""


def _all_fields(samples: Samples) -> Drawn:
    """Every scalar or vector field of a record, in its own unit."""
    known = units(samples)
    return tuple(
        (name, name.replace("_", " ").capitalize(), known[name][0], 1.0)
        for name in samples._columns()
        if name != "time" and name in known and getattr(samples, name)[:1].size <= 3
    )


def _these(*drawn: tuple[str, str, str, float]) -> Callable[[Samples], Drawn]:
    return lambda samples: drawn


STREAMS: Consumer[Callable[[Samples], Drawn]] = Consumer(
    "report, streams",
    {
        Samples: _all_fields,
        ImuData: _these(
            ("specific_force", "Specific force", "m/s²", 1.0), ("angular_rate", "Angular rate", "°/s", 180.0 / np.pi)
        ),
        OdometryData: _these(
            ("velocity", "Velocity from wheels", "m/s", 1.0),
            ("angular_velocity", "Angular rate from wheels", "°/s", 180.0 / np.pi),
        ),
        BarometerData: _these(("pressure", "Pressure", "hPa", 0.01), ("altitude", "Altitude from pressure", "m", 1.0)),
        MagnetometerData: _these(("magnetic_field", "Magnetic field", "µT", 1e6)),
        GnssData: _these(("error", "Position error", "m", 1.0), ("satellites_used", "Satellites in the fix", "", 1.0)),
        UwbData: _these(("range", "Range", "m", 1.0), ("error", "Range error", "m", 1.0), ("rssi", "RSSI", "dBm", 1.0)),
    },
)
"""Plots of a stream of samples, by type of record; for unknown types, all fields."""


def _no_pictures(samples: Samples) -> list[tuple[str, str, str]]:
    return []


def _qualities(quality: np.ndarray[tuple[int], np.dtype[Any]]) -> str:
    """Share of epochs of each quality other than without a fix."""
    shares = [
        f"{name} {_share(quality == value)}" for value, name in QUALITY.items() if value and (quality == value).any()
    ]
    return f" Quality of the fixes: {', '.join(shares)}." if shares else ""


def _sky(samples: GnssData) -> list[tuple[str, str, str]]:
    lost = int(np.count_nonzero(samples.mode == 0))
    grades = "" if samples.quality is None else _qualities(samples.quality)
    caption = "Green: direct. Amber: with reflections; hollow: only by reflection or diffraction. Grey: blocked."
    return [("sky", sky_plot(samples), f"{caption} {lost} of {len(samples)} epochs without a fix.{grades}")]


STREAM_PICTURES: Consumer[Callable[[Any], list[tuple[str, str, str]]]] = Consumer(
    "report, pictures of streams", {Samples: _no_pictures, GnssData: _sky}
)
"""Further pictures of a stream: title, SVG and caption of each."""


class NoReport:
    """Report of a run without one: all methods do nothing."""

    def wants(self, sensor: str, number: int) -> bool:
        """Return whether the report needs a frame that an earlier run has already written."""
        return False

    def start(self, journal: Journal) -> None:
        """Record the statistics of every scan in a journal, from now on."""

    def take(self, step: Step) -> None:
        """Add the measurements of a step. Call this before its clouds are written, so that every cloud is counted."""

    def sampled(self, name: str, samples: Samples) -> None:
        """Add all samples of a sensor."""

    def counts(self) -> list[Path]:
        """Finish the statistics after the last step and return their files."""
        return []

    def write(self, hashes: Mapping[str, str], found: int = 0, more: str = "") -> Path | None:
        """Write the report.

        `hashes` holds the SHA-256 of every file by its path in the folder; `found` is the number of clouds from an
        earlier run; `more` is HTML that is inserted before the list of files.
        """
        return None


class RunReport(NoReport):
    """Collects statistics and sampled frames during a run, and writes the report."""

    def __init__(self, scenario: Scenario, folder: Path, earlier: EarlierRun | None = None) -> None:
        """Start a report; it continues the statistics of an earlier run in the folder."""
        self.scenario, self.folder = scenario, folder
        self.began = self.measured = wall.perf_counter()
        """Wall time [s] at the start, and after the last step."""
        self.collecting_s = 0.0
        """Wall time spent on collecting [s]."""
        self.curves: dict[str, list[tuple[str, str, list[Curve]]]] = {}
        """Title, unit and curves of each plot, by sensor."""
        self.pictures: dict[str, list[tuple[str, str, str]]] = {}
        """Title, SVG and caption of each picture, by stream sensor."""
        self.sample_counts: dict[str, int] = {}
        """Number of samples, by sensor."""
        self.sample_tables: dict[str, str] = {}
        """Table of the samples as HTML, by sensor; may be empty."""
        self.sampled_frames: dict[str, dict[int, Any]] = {}
        """Some frames of each frame sensor, including the first and the last, reduced by `SampledFrames.keep`."""
        self._clouds: dict[tuple[str, int], dict[str, NDArray[Any]]] = {}
        """Some points of some scans with the motion of the sensor; see `points`."""
        self._shown: dict[str, set[int]] = {}
        self._sampled: dict[str, set[int]] = {}
        counts = {scanner.name: scanner.count(scenario.duration_s) for scanner in scenario.giving(Scan)}
        for sensor in scenario.frame_sensors:
            number = sensor.count(scenario.duration_s)
            rule = SAMPLED.require(sensor.record_type)
            alike = sum(SAMPLED.require(other.record_type) is rule for other in scenario.frame_sensors)
            most = min(number, max(3, rule.most // alike))
            spread = [0, number // 2, number - 1]
            if most > 3:
                spread = np.linspace(0, number - 1, most).astype(int).tolist()
            self._shown[sensor.name] = set(spread) if number else set()
            self._sampled[sensor.name] = set()
        for name, count in counts.items():
            share = min(count, max(3, _CLOUDS // len(counts)))
            self._sampled[name] = set(np.linspace(0, count - 1, share).round().astype(int).tolist())
        chosen = sum(map(len, self._sampled.values()))
        self._points_per_cloud = _MOST_POINTS // max(chosen, 1)
        there = {(name, number) for name, count in counts.items() for number in range(count)}
        self.tally = CountsFile(folder / COUNTS, there, earlier)
        self._lidars = set(counts)
        self.collisions = Hits()
        self._moving = {item.instance for item in scenario.world.objects if item.is_actor}

    def wants(self, sensor: str, number: int) -> bool:
        """Return whether the report needs a frame: one that is drawn, or a scan without statistics."""
        if sensor not in self._shown:
            return False
        if number in self._shown[sensor] or number in self._sampled[sensor]:
            return True
        return sensor in self._lidars and (sensor, number) not in self.tally.rows

    def start(self, journal: Journal) -> None:
        """Record the statistics of every scan in a journal, from now on."""
        self.tally.start(journal)

    def take(self, step: Step) -> None:
        """Add the measurements of a step."""
        before = wall.perf_counter()
        self.collisions.take(step)
        for name, frames in step.frames.items():
            if name not in self._shown:  # attached during the run
                continue
            for number, record in frames:
                if number in self._shown[name]:
                    self.sampled_frames.setdefault(name, {})[number] = SAMPLED.require(type(record)).keep(record)
                if not isinstance(record, Scan):
                    continue
                if (name, number) not in self.tally.rows:
                    self.tally.add(counts_of(name, number, record, self._moving))
                if number in self._sampled[name]:
                    self._clouds[name, number] = _some_points(record, self._points_per_cloud)
        self.measured = wall.perf_counter()
        self.collecting_s += self.measured - before

    def sampled(self, name: str, samples: Samples) -> None:
        """Add all samples of a sensor; only the plotted data is stored."""
        self.sample_counts[name] = len(samples)
        self.sample_tables[name] = TABLES.require(type(samples))(samples)
        plots = []
        chosen = STREAMS.get(type(samples))
        for field, words, unit, factor in () if chosen is None else chosen(samples):
            values = np.asarray(getattr(samples, field), np.float64) * factor
            columns = values.reshape(len(values), -1)
            names = samples.column_names(field) if values.ndim == 2 else [words]
            curves = [Curve.of(names[k], samples.time, columns[:, k], k) for k in range(columns.shape[1])]
            plots.append((words, unit, curves))
        self.curves[name] = plots
        drawn = STREAM_PICTURES.get(type(samples))
        self.pictures[name] = [] if drawn is None else drawn(samples)

    def points(self) -> list[dict[str, NDArray[Any]]]:
        """Some points of some scans, spread over the run: `xyz` in the world [m], `label`, `origin`, `brightness`."""
        # Transformed at the end, so that the run does not wait for its picture.
        return [_in_world(self._clouds[key]) for key in sorted(self._clouds)]

    def counts(self) -> list[Path]:
        """Finish the statistics after the last step; return their file if there are lidars."""
        if not self.scenario.giving(Scan):
            return []
        self.tally.finish()
        return [self.tally.file]

    def write(self, hashes: Mapping[str, str], found: int = 0, more: str = "") -> Path | None:
        """Write the report."""
        from parhelion.core.files import write_whole
        from parhelion.outputs.report.page import page_of

        file = self.folder / PAGE
        write_whole(file, page_of(self, hashes, found, more).encode("utf-8"))
        return file


def report_of(scenario: Scenario, folder: Path, earlier: EarlierRun) -> NoReport:
    """Return the report of a run: `RunReport`, or `NoReport` if the scenario disables it."""
    return RunReport(scenario, folder, earlier) if scenario.settings.report else NoReport()


def _some_points(scan: Scan, most: int) -> dict[str, NDArray[Any]]:
    """At most `most` points of a scan, spread evenly, with the poses that transform them into the world."""
    rows = np.arange(len(scan))
    if len(scan) > most:
        # Steps of the golden ratio do not align with the order of rings and columns.
        rows = (np.arange(most) * _GOLDEN % 1.0 * len(scan)).astype(np.intp)
    # The motion of a sensor within a hundredth of a scan is not visible in the picture.
    times = np.linspace(0.0, float(scan.shots.time.max(initial=0.0)), _POSES)
    late = scan.shots.time[scan.fields["shot"][rows]]
    positions, quats = scan.motion.sample(scan.start_time + times)
    zeros = np.zeros(len(rows), np.uint8)
    return {
        "xyz": scan.xyz[rows],
        "pose": np.round(late * ((_POSES - 1) / max(times[-1], 1e-9))).astype(np.intp),
        "positions": positions,
        "quats": quats,
        "label": _classes(scan)[rows] if "label" in scan.fields else zeros,
        "origin": scan.fields["origin"][rows] if "origin" in scan.fields else zeros,
        "brightness": scan.fields["reflectivity"][rows] if "reflectivity" in scan.fields else zeros,
    }


def _classes(scan: Scan) -> NDArray[Any]:
    from parhelion.pictures.relief import classes

    label = scan.fields["label"]
    return classes(label, scan.fields["material"]) if "material" in scan.fields else label


def _in_world(points: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Stored points of a scan, in the world [m]."""
    pose = points["pose"]
    moved = quat_rotate(points["quats"][pose], points["xyz"].astype(np.float64)) + points["positions"][pose]
    return {"xyz": moved, **{name: points[name] for name in ("label", "origin", "brightness")}}
