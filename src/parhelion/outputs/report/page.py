"""Sections of the run report."""

from __future__ import annotations

import datetime
import os
import platform
import time as wall
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan, origin_names
from parhelion.outputs.report.frames import FRAMES, SAMPLED
from parhelion.outputs.report.tables import (
    MovingObjectRow,
    actors_table,
    files_table,
    moving_objects,
    percent,
    seconds,
    sensors_table,
    weather_table,
)
from parhelion.pictures import html
from parhelion.pictures.charts import Chart, Curve
from parhelion.pictures.html import count
from parhelion.pictures.images import air_colours, points_uri
from parhelion.pictures.relief import Relief, class_names
from parhelion.pictures.style import label_colour, rgb
from parhelion.pictures.top_view import Way, label_key, places_of, way_map

if TYPE_CHECKING:
    from parhelion.outputs.report.collect import RunReport

_LIDARS_IN_FULL = 3
"""With more lidars, one scan per lidar is drawn instead of three."""
_MOST_IMAGES = 24
_ORIGIN_COLOURS = {"multipath": 3}
"""Curve colours of origins that must not be confused with those of rain and fog; the others have that of their code."""
_TIMES = 1500
"""Number of times at which tracks and speeds are sampled."""
_MOST_TRACKS = 60


def page_of(report: RunReport, hashes: Mapping[str, str], found: int, more: str) -> str:
    """Complete run report as HTML; `hashes`, `found` and `more` are as in `RunReport.write`."""
    drawing = wall.perf_counter()
    settings = report.scenario.settings
    title = settings.name or "Run of a scenario"
    moving = moving_objects(report.scenario)
    ways = _ways(report)
    world = report.scenario.world
    relief = Relief(world, below=places_of(ways)) if world.bounds is not None else None
    parts = [
        _points(report, relief),
        _map(report, moving, ways, relief),
        _frames(report),
        _over_time(report),
        _streams(report),
        html.section("sensors", "Sensors", sensors_table(report)),
        html.section("weather", "Weather", weather_table(report.scenario)),
        _labels(report),
        _collisions(report),
        html.section("actors", "Moving objects", actors_table(report, moving)),
        more,
        html.section("files", "Files", files_table(report.folder, hashes)),
        _reproduction(report),
    ]
    return html.page(title, *parts, _timings(report, found, drawing), lead=_lead(report, drawing), facts=_facts(report))


# ---- summary -------------------------------------------------------------------------------------------------------


def _lead(report: RunReport, drawing: float) -> tuple[str, html.Raw]:
    """World and weather, and the speed of the run."""
    scenario = report.scenario
    needed = drawing - report.began
    world = scenario.settings.world
    name = scenario.world.name or (world if isinstance(world, str) else world.name)
    air = repr(scenario.world.weather)[9:-1] if scenario.world.weather is not None else "clear air"
    finished = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    pace = scenario.duration_s / needed if needed > 0 else 0.0
    timing = f"{seconds(scenario.duration_s)} in {needed:.1f} s, {pace:.2g} times real time; finished {finished}"
    return f"World {name}, {air}", html.Raw(f'<span class="timing">{timing}</span>')


def _facts(report: RunReport) -> list[tuple[str, Any]]:
    """Key figures of the run."""
    scenario = report.scenario
    rows = report.tally.rows.values()
    facts: list[tuple[str, Any]] = [("simulated", seconds(scenario.duration_s)), ("seed", scenario.seed)]
    if scenario.giving(Scan):
        facts += [("scans", count(len(rows))), ("points", count(sum(row.points for row in rows)))]
    others = [sensor for sensor in scenario.frame_sensors if not issubclass(sensor.record_type, Scan)]
    for word in dict.fromkeys(SAMPLED.require(sensor.record_type).word for sensor in others):
        alike = [sensor for sensor in others if SAMPLED.require(sensor.record_type).word == word]
        facts.append((word, count(sum(sensor.count(scenario.duration_s) for sensor in alike))))
    if report.sample_counts:
        facts.append(("samples", count(sum(report.sample_counts.values()))))
    if scenario.has_contact:
        facts.append(("collisions", count(len(report.collisions.hits))))
    for word, items in (("vehicle", scenario.bodies), ("sensor", scenario.sensors)):
        facts.append((word if len(items) == 1 else f"{word}s", count(len(items))))
    return facts


def _collisions(report: RunReport) -> str:
    """Table of the collisions; nothing without vehicles in contact with the world."""
    scenario = report.scenario
    if not scenario.has_contact:
        return ""
    rows = [
        (hit.body, hit.other, f"{hit.start_s:.2f} s", f"{hit.end_s - hit.start_s:.2f} s", f"{hit.impulse_n_s:.3g} N s")
        for hit in report.collisions.hits
    ]
    note = "No vehicle hit anything."
    if rows:
        note = f"{len(rows)} collision{'s' if len(rows) > 1 else ''}; every contact is in truth/collisions.jsonl."
    if scenario.ended is not None:
        note += f" The run ended at {scenario.ended[0]:g} s: {scenario.ended[1]}."
    table = html.table(("vehicle", "with", "at", "for", "impulse"), rows, kinds="--nnn") if rows else ""
    return html.section("collisions", "Collisions", html.paragraph(note), table)


def _reproduction(report: RunReport) -> str:
    from parhelion.outputs.manifest import content_of

    content = content_of(report.scenario)
    rows = [
        ("scenario", html.code(content["scenario_sha256"])),
        ("seed", report.scenario.seed),
        ("time step", f"{report.scenario.settings.step_s:g} s"),
        *content["versions"].items(),
    ]
    note = html.paragraph("The same scenario, seed and versions give the same files, bit for bit.")
    return html.section("origin", "Reproduction", html.table((), rows), note)


def _timings(report: RunReport, found: int, drawing: float) -> str:
    scenario = report.scenario
    made = scenario.frame_count - found
    clouds_only = len(scenario.giving(Scan)) == len(scenario.frame_sensors)
    rows: list[tuple[str, Any]] = [
        ("clouds" if clouds_only else "frames", f"{count(made)} made, {count(found)} from an earlier run"),
        ("driving, measuring, writing clouds", f"{report.measured - report.began:.2f} s"),
        ("streams, truth, hashes", f"{max(drawing - report.measured, 0.0):.2f} s"),
        ("counting for this report", f"{report.collecting_s:.3f} s"),
        ("drawing this report", f"{wall.perf_counter() - drawing:.2f} s"),
        ("times real time", f"{scenario.duration_s / max(drawing - report.began, 1e-9):.3g}"),
        (
            "machine",
            f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        ),
    ]
    return html.section("timings", "Timings of this run", html.table((), rows), kind="timing")


# ---- pictures ------------------------------------------------------------------------------------------------------


def _ways(report: RunReport) -> list[Way]:
    """Paths of the vehicles, and places of the sensors that stand in the world."""
    scenario = report.scenario
    times = _times(report, _TIMES)
    ways = [Way(name, body.state(times).xyz, k) for k, (name, body) in enumerate(scenario.bodies.items())]
    standing = [sensor for sensor in scenario.sensors if sensor.body is None]
    return ways + [
        Way(sensor.name, np.array([sensor.mount.xyz] * 2, np.float64), len(scenario.bodies) + k)
        for k, sensor in enumerate(standing)
    ]


def _points(report: RunReport, relief: Relief | None) -> str:
    batches = report.points()
    if not batches or not sum(len(batch["xyz"]) for batch in batches):
        return ""
    points = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    times = _times(report, 50)
    ways = [np.asarray(scanner.motion.sample(times)[0], np.float64) for scanner in report.scenario.giving(Scan)]
    names = class_names(report.scenario.world)
    # Relative to the first position, because map coordinates would exceed the precision of the renderer.
    start = ways[0][0]
    address = points_uri(
        points["xyz"] - start,
        points["label"],
        points["origin"],
        points["brightness"],
        names,
        [way - start for way in ways],
        relief,
        start,
    )
    caption = (
        f"{count(len(points['xyz']))} points of {count(len(batches))} scans spread over the run, seen from behind and "
        "above. Colour shows the label, brightness the reflectance."
    )
    if not np.isin(points["label"], list(report.scenario.world.label_names)).all():
        caption = caption.replace("the label", "the label, of objects without one the material")
    caption += " The dark background shows the surfaces of the world." if relief is not None else ""
    surface = points["origin"] == 0
    legend = label_key(points["label"][surface], names)
    if not np.all(surface):
        caption += " Points that are not from a surface are pale; multipath points are pink."
        words = [origin_names().get(int(code), "") for code in np.unique(points["origin"])]
        shades = air_colours()
        legend += html.key([(word, shades[word], "dots") for word in words if word in shades])
    picture = html.image(address, "Points of the run from behind and above", "cloud")
    return html.section("points", "Points", html.figure("", picture + legend, caption))


def _map(report: RunReport, moving: list[MovingObjectRow], ways: list[Way], relief: Relief | None) -> str:
    scenario = report.scenario
    # The body of a vehicle follows the track of the vehicle, which is drawn already.
    own = {robot.instance for robot in scenario.robots.values()}
    own |= {item.instance for item in moving if item.name in scenario.bodies}
    others = [item.way for item in moving if item.instance not in own and item.way.length_m > 0.2]
    entries = [
        (f"{way.name} ({way.length_m:.1f} m)" if way.length_m > 0.05 else f"{way.name} (stands)", way.colour or 0)
        for way in ways
    ]
    caption = "Ring: start. Dot: end."
    if others:
        caption += f" Dotted: {count(len(others))} other moving objects."
    content = way_map(scenario.world, [*ways, *others[:_MOST_TRACKS]], relief) + html.key(entries, on_map=True)
    return html.section("map", "From above", html.figure("", content, caption))


def _frames(report: RunReport) -> str:
    sections: dict[tuple[str, str], list[str]] = {}
    images = 0
    sensors = report.scenario.frame_sensors
    for sensor in sensors:
        show, rule = FRAMES.get(sensor.record_type), SAMPLED.require(sensor.record_type)
        sampled = report.sampled_frames.get(sensor.name, {})
        numbers = sorted(sampled)
        large = rule is SAMPLED.require(Scan)
        if large and len(sensors) > _LIDARS_IN_FULL:
            numbers = numbers[len(numbers) // 2 :][:1]
        if show is None or not numbers or (large and images >= _MOST_IMAGES):
            continue
        images += 2 * len(numbers) if large else 0
        part = show(sensor.name, sensor.entry.model, {n: sampled[n] for n in numbers})
        sections.setdefault((rule.anchor, rule.title), []).append(part)
    return "".join(html.section(anchor, title, *parts) for (anchor, title), parts in sections.items())


def _times(report: RunReport, number: int) -> NDArray[np.float64]:
    """Times from the start to the last step that vehicles were driven to."""
    scenario = report.scenario
    # Slightly less, because the sum of steps may be below their product, and vehicles are at rest after the last step.
    return np.linspace(0.0, scenario.steps * scenario.settings.step_s * (1.0 - 1e-9), number)


# ---- over time -----------------------------------------------------------------------------------------------------


def _over_time(report: RunReport) -> str:
    scenario = report.scenario
    times = _times(report, _TIMES)
    speeds = [
        Curve.of(name, times, np.linalg.norm(body.state(times).velocity, axis=1), k)
        for k, (name, body) in enumerate(scenario.bodies.items())
    ]
    by_lidar = {
        scanner.name: [report.tally.rows[key] for key in sorted(report.tally.rows) if key[0] == scanner.name]
        for scanner in scenario.giving(Scan)
    }
    points = [
        Curve.of(name, [row.time_s for row in rows], [row.points for row in rows], k)
        for k, (name, rows) in enumerate(by_lidar.items())
    ]
    plots = [
        Chart(speeds, "m/s", zero=True).figure("Speed"), Chart(points, "points", zero=True).figure("Points per scan")
    ]  # fmt: skip
    for name, rows in by_lidar.items():
        codes = {word: code for code, word in origin_names().items() if code}
        seen = [word for word in codes if any(row.origins.get(word) for row in rows)]
        times_s = [row.time_s for row in rows]
        curves = [
            Curve.of(word, times_s, [row.origins.get(word, 0) for row in rows], _ORIGIN_COLOURS.get(word, codes[word]))
            for word in seen
        ]
        title = f"Points per scan {'from ' + seen[0] if len(seen) == 1 else 'that are not from a surface'}"
        plots.append(Chart(curves, "points", zero=True).figure(title + (f", {name}" if len(by_lidar) > 1 else "")))
    return html.section("time", "Over time", html.pair(*plots))


def _streams(report: RunReport) -> str:
    plots = [
        Chart(curves, unit).figure(f"{name}: {words.lower()}")
        for name, drawn in report.curves.items()
        for words, unit, curves in drawn
    ]
    plots += [
        html.figure(f"{name}: {title}", picture, caption)
        for name, drawn in report.pictures.items()
        for title, picture, caption in drawn
    ]
    tables = [f"<h3>{html.text(name)}</h3>{table}" for name, table in report.sample_tables.items() if table]
    return html.section("streams", "Stream sensors", html.pair(*plots) + "".join(tables))


# ---- labels --------------------------------------------------------------------------------------------------------


def _labels(report: RunReport) -> str:
    totals: Counter[str] = Counter()
    for row in report.tally.rows.values():
        totals.update(row.labels)
    whole = max(sum(totals.values()), 1)
    largest = max(totals.values(), default=1)
    rows = [
        (
            html.swatch(word, rgb(label_colour(word))),
            count(points),
            percent(points / whole),
            html.share_bar(points / largest),
        )
        for word, points in sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    ]
    table = html.table(("label", "points", "share", ""), rows, kinds="-nns")
    return html.section("labels", "Labels", table)
