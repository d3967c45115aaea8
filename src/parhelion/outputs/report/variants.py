"""Comparison of runs of one scenario with different values: numbers, curves and the same frame of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.clouds import ORIGINS, Scan
from parhelion.core.files import write_whole
from parhelion.outputs.report.collect import PAGE, RunReport
from parhelion.outputs.report.frames import FRAMES, ScanCounts
from parhelion.pictures import html
from parhelion.pictures.charts import Chart, Curve


@dataclass
class Variant:
    """One run in a comparison."""

    title: str
    """Values that distinguish the run, for example 'rain rate 25 mm/h'."""
    folder: str
    """Folder of the run, relative to the comparison."""
    models: dict[str, str]
    """Model of each frame sensor."""
    frames: dict[str, Any] = field(default_factory=dict)
    """Middle frame of each frame sensor."""
    counts: dict[str, list[ScanCounts]] = field(default_factory=dict)
    """Statistics of the scans of each lidar."""
    collisions: int | None = None
    """Number of collisions; None without vehicles in contact."""

    @classmethod
    def of(cls, title: str, folder: str, report: RunReport) -> Variant:
        """Take from a report what the comparison needs."""
        scenario = report.scenario
        made = cls(title, folder, {one.name: one.entry.model for one in scenario.frame_sensors})
        for name, frames in report.sampled_frames.items():
            numbers = sorted(frames)
            made.frames[name] = frames[numbers[len(numbers) // 2]]
        for lidar in scenario.giving(Scan):
            rows = report.tally.rows
            made.counts[lidar.name] = [rows[key] for key in sorted(rows) if key[0] == lidar.name]
        if scenario.has_contact:
            made.collisions = len(report.collisions.hits)
        return made


def write_comparison(folder: Path, title: str, variants: Sequence[Variant], command: str = "") -> Path:
    """Write a comparison, report.html, into a folder."""
    page = html.page(
        title,
        html.section("numbers", "Runs", _numbers(variants)),
        html.section("time", "Points per scan", html.pair(*_points(variants))),
        html.section("frames", "The same frame of each run", *_frames(variants)),
        lead=(f"{len(variants)} runs of one scenario",),
        command=command,
    )
    file = folder / PAGE
    write_whole(file, page.encode("utf-8"))
    return file


def _numbers(variants: Sequence[Variant]) -> str:
    rows = []
    for variant in variants:
        link = html.link(f"{variant.folder}/{PAGE}", variant.title)
        hits = "" if variant.collisions is None else html.count(variant.collisions)
        for lidar, counts in (variant.counts or {"": []}).items():
            rows.append((link, lidar, *_of_scans(counts), hits))
    columns = (
        "run",
        "lidar",
        "scans",
        "points per scan",
        "lost shots",
        "not from surfaces",
        "median range",
        "collisions",
    )
    return html.table(columns, rows, kinds="l-nnnnnn")


def _of_scans(counts: Sequence[ScanCounts]) -> tuple[str, ...]:
    """Number of scans, mean number of points, share of lost shots and of points in the air, median range."""
    points, shots = sum(one.points for one in counts), sum(one.shots for one in counts)
    if not shots:
        return (html.count(len(counts)), "", "", "", "")
    surface = sum(one.origins.get(ORIGINS[0], 0) for one in counts)
    middle = [one.range_m[1] for one in counts if one.range_m is not None]
    return (
        html.count(len(counts)),
        html.count(round(points / len(counts))),
        f"{100 * sum(one.lost for one in counts) / shots:.1f} %",
        f"{100 * (points - surface) / points:.2f} %" if points else "",
        f"{np.median(middle):.2f} m" if middle else "",
    )


def _points(variants: Sequence[Variant]) -> list[str]:
    """Points per scan over time, one chart per lidar with a curve per run."""
    charts = []
    for lidar in dict.fromkeys(name for variant in variants for name in variant.counts):
        curves = [
            Curve.of(variant.title, [one.time_s for one in rows], [one.points for one in rows], k)
            for k, variant in enumerate(variants)
            if (rows := variant.counts.get(lidar))
        ]
        ends = [end for curve in curves for end in (np.min(curve.low), np.max(curve.high))]
        close = bool(ends) and min(ends) > 0.5 * max(ends)  # from 0, such curves would lie on each other
        charts.append(Chart(curves, "points", zero=not close).figure(lidar))
    return charts


def _frames(variants: Sequence[Variant]) -> list[str]:
    """The middle frame of each sensor, from every run and with the same colours."""
    parts = []
    models: Mapping[str, str] = {name: model for variant in variants for name, model in variant.models.items()}
    for name, model in models.items():
        frames: dict[int | str, Any] = {
            variant.title: variant.frames[name] for variant in variants if name in variant.frames
        }
        show = FRAMES.get(type(next(iter(frames.values())))) if frames else None
        if show is not None:
            parts.append(show(name, model, frames))
    return parts
