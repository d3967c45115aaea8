"""Tables of the run report: sensors, weather, moving objects, files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parhelion.pictures import html
from parhelion.pictures.html import count
from parhelion.pictures.top_view import Way, steps_m
from parhelion.weather.ground import AMOUNTS, FROM_RAIN
from parhelion.weather.parts import schedule_words

if TYPE_CHECKING:
    from parhelion.outputs.report.collect import RunReport
    from parhelion.scenario.scenario import Scenario
    from parhelion.sensors.optics.lidar.validity import Validity

_TIMES = 400
_MOST_ACTORS = 60
_MANY_FILES = 8
"""More files than this in one folder become one row of the table."""
_MOST_LISTED = 400


def percent(share: float) -> str:
    """Format a fraction as percent; tiny fractions are not rounded to 0."""
    return "0 %" if share == 0 else f"{100 * share:.1f} %" if share >= 0.0005 else "< 0.1 %"


def seconds(time_s: float) -> str:
    """Format a duration [s], in minutes and hours if it is long."""
    if time_s < 300:
        return f"{time_s:g} s"
    hours, rest = divmod(round(time_s), 3600)
    return f"{hours} h {rest // 60:02d} min" if hours else f"{rest // 60} min {rest % 60:02d} s"


def size_of(size: int) -> str:
    """Format a size [bytes] with a suitable unit."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.5 else f"{value:.3g} {unit}"
        value /= 1000.0
    return ""


# ---- sensors -------------------------------------------------------------------------------------------------------


def sensors_table(report: RunReport) -> str:
    """Model, rate, mount and output of each sensor."""
    from parhelion.core.clouds import Scan
    from parhelion.outputs.report.frames import SAMPLED
    from parhelion.scenario.sensors import FrameOnBoard

    rows = []
    for sensor in report.scenario.sensors:
        mount, entry = sensor.mount, sensor.entry
        place = "(" + ", ".join(f"{value:.4g}" for value in mount.xyz + 0.0) + ")"
        turned = np.round(mount.rpy_deg, 2) + 0.0
        if np.any(turned):
            place += " rotated " + ", ".join(f"{value:g}°" for value in turned)
        carrier = (entry.vehicle or "in the world") + (f", {entry.link}" if entry.link else "")
        if isinstance(sensor, FrameOnBoard) and not issubclass(sensor.record_type, Scan):
            number = sensor.count(report.scenario.duration_s)
            given: tuple[Any, ...] = (f"{count(number)} {SAMPLED.require(sensor.record_type).word}", "", "", "")
        elif isinstance(sensor, FrameOnBoard):
            counts = [row for key, row in report.tally.rows.items() if key[0] == sensor.name]
            points, shots = sum(row.points for row in counts), sum(row.shots for row in counts)
            lost = percent(sum(row.lost for row in counts) / shots) if shots else ""
            given = (f"{count(len(counts))} scans", count(points), lost, _ranges(counts))
        else:
            given = (f"{count(report.sample_counts.get(sensor.name, 0))} samples", "", "", "")
        rate = f"{float(sensor.sensor.rate_hz):g} Hz"
        rows.append((sensor.name, entry.type, entry.model, rate, carrier, place, *given))
    columns = ("name", "kind", "model", "rate", "on", "mount [m]", "output", "points", "lost shots", "range")
    return html.table(columns, rows, kinds="---n--nnnn")


def _ranges(counts: Sequence[Any]) -> str:
    ranges = [row.range_m for row in counts if row.range_m is not None]
    if not ranges:
        return ""
    return f"{min(r[0] for r in ranges):.2f} to {max(r[2] for r in ranges):.1f} m"


# ---- weather -------------------------------------------------------------------------------------------------------


def weather_table(scenario: Scenario) -> str:
    """Contents of the air and the water: name, amount and time."""
    weather = scenario.world.weather
    rows: list[tuple[str, str, str]] = []
    if weather is not None:
        rows += [part.summary(medium.name, medium.amount) for medium, part, _ in weather.parts()]
        for name, amount in AMOUNTS.items():
            if (value := getattr(weather, name)) is not None:
                rows.append(
                    (amount.word, *((value, "all the time") if value == FROM_RAIN else schedule_words(value, "")))
                )
        if any(weather.wind_m_s):
            wind = ", ".join(f"{value:g}" for value in weather.wind_m_s)
            rows.append(("wind", f"({wind}) m/s", "all the time"))
    water = scenario.settings.water
    if water is not None:
        text = _listed(water.model_dump(exclude_defaults=True, exclude={"kind"}))
        rows.append(("water", f"{water.kind}: {text}" if text else water.kind, "all the time"))
    if not rows:
        return html.paragraph("Clear air, no wind.")
    return html.table(("what", "how much", "when"), rows, kinds="-ll") + validity_table(scenario.weather_validity)


def validity_table(found: Mapping[str, Mapping[str, Validity]]) -> str:
    """Validity of sensors in weather, by name of sensor and medium; nothing if none is graded."""
    rows = [(name, medium, one.words, one.reason) for name, grades in found.items() for medium, one in grades.items()]
    note = "Validity of the points from the air. Attenuation of surfaces follows closed forms for every sensor."
    columns = ("sensor", "medium", "validity", "reason")
    return html.paragraph(note) + html.table(columns, rows, kinds="---l") if rows else ""


def _listed(values: Mapping[str, Any]) -> str:
    """Fields with their values; for lists, the number of entries."""
    words = (f"{len(v)} {name}" if isinstance(v, list) else f"{name} {v:g}" for name, v in values.items())
    return ", ".join(words)


# ---- moving objects ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MovingObjectRow:
    """A moving object of the world, with all its parts."""

    instance: int
    label: str
    parts: int
    """Number of parts."""
    name: str
    way: Way
    """Track of the first part."""
    fastest_m_s: float
    """Highest speed [m/s]."""


def moving_objects(scenario: Scenario) -> list[MovingObjectRow]:
    """Actors of the world; parts with the same instance number are one object."""
    times = np.linspace(0.0, scenario.duration_s, _TIMES)
    parts: dict[int, list[Any]] = {}
    for item in scenario.world.objects:
        if item.trajectory is not None:
            parts.setdefault(item.instance, []).append(item)
    found = []
    for instance, items in parts.items():
        xyz = np.asarray(items[0].trajectory.sample(times)[0], np.float64)
        fastest = steps_m(xyz).max(initial=0.0) / (times[1] - times[0])
        # Names of parts start with the name of the object: walker/torso.
        name = items[0].name.partition("/")[0] if len(items) > 1 else items[0].name
        found.append(MovingObjectRow(instance, items[0].label, len(items), name, Way(name, xyz), float(fastest)))
    return found


def actors_table(report: RunReport, moving: Sequence[MovingObjectRow]) -> str:
    """Moving objects with distance, highest speed and number of points."""
    points: Counter[str] = Counter()
    for row in report.tally.rows.values():
        points.update(row.instances)
    rows = [
        (
            one.name,
            one.label,
            one.instance,
            count(one.parts),
            f"{one.way.length_m:.1f} m",
            f"{one.fastest_m_s:.2f} m/s",
            count(points[str(one.instance)]),
        )
        for one in sorted(moving, key=lambda one: (-points[str(one.instance)], one.instance))
    ]
    columns = ("name", "label", "instance", "parts", "distance", "highest speed", "points")
    shown = html.table(columns, rows[:_MOST_ACTORS], kinds="--nnnnn")
    left = len(rows) - _MOST_ACTORS
    return shown + html.paragraph(f"{count(left)} more with fewer points are not shown." if left > 0 else "")


# ---- files ---------------------------------------------------------------------------------------------------------


def files_table(folder: Path, hashes: Mapping[str, str]) -> str:
    """Files with sizes and hashes. Many files in one folder are one row, with a folded list if it is not too long."""
    by_folder: dict[str, list[str]] = {}
    for name in sorted(hashes):
        by_folder.setdefault(name.rpartition("/")[0], []).append(name)
    rows, listed, total = [], [], 0
    for names in by_folder.values():
        sizes = [(folder / name).stat().st_size for name in names]
        total += sum(sizes)
        single = [(name, 1, size_of(size), _short(hashes[name])) for name, size in zip(names, sizes, strict=True)]
        if len(names) <= _MANY_FILES:
            rows += single
            continue
        listed += single
        together = hashlib.sha256("".join(hashes[name] for name in names).encode()).hexdigest()
        span = f"{names[0]} … {names[-1].rpartition('/')[2]}"
        rows.append((span, len(names), size_of(sum(sizes)), _short(together)))
    shown = [(html.code(name), count(n), size, hash) for name, n, size, hash in rows]
    columns = ("file", "files", "size", "SHA-256")
    note = (
        f"{count(len(hashes))} files, {size_of(total)}. A row of several files has the hash of their hashes in order."
    )
    more = ""
    if 0 < len(listed) <= _MOST_LISTED:
        each = [(html.code(name), size, hash) for name, _, size, hash in listed]
        more = html.folded("All files", html.table(("file", "size", "SHA-256"), each, kinds="-n-"))
    return html.table(columns, shown, kinds="-nn-") + html.paragraph(note) + more


def _short(hash: str) -> html.Raw:
    return html.Raw(f'<code title="{hash}">{hash[:16]}</code>')
