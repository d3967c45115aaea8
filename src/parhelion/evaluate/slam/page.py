"""The page of a study of odometry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from parhelion.core.pose import Floats
from parhelion.evaluate.files import made_by
from parhelion.evaluate.slam.study import MEASURES, RunResult, summary
from parhelion.pictures import run_page as html
from parhelion.pictures.run_plots import Curve, line_plot, number, polyline, ticks

_MAP_WIDTH, _MAP_MARGIN = 480, 34
_WAY_POINTS = 80


def with_interval(mean: dict[str, Any] | None, digits: int = 3) -> str:
    """A mean with its interval: '0.25 (0.21 to 0.30)'; a dash for none."""
    if mean is None:
        return "–"
    text = f"{mean['mean']:.{digits}g}"
    return text if mean["low"] is None else f"{text} ({mean['low']:.{digits}g} to {mean['high']:.{digits}g})"


def table_rows(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The summary for the terminal and the page."""
    return [
        (
            row["method"], row["weather"], str(row["runs"]), f"{row['path_m']:.0f}", f"{row['points']:.0f}",
            *(with_interval(row[name]) for name in MEASURES),
        )
        for row in rows
    ]  # fmt: skip


COLUMNS = ("method", "weather", "runs", "way [m]", "points a scan", *MEASURES.values())


def page_of(source: str, runs: Sequence[RunResult], command: str = "") -> str:
    """The whole page as HTML; `command` is what made it."""
    rows = summary(runs)
    best = min(rows, key=lambda row: row["end_drift_percent"]["mean"])
    tiles = [
        ("runs", len(runs)),
        ("way [m]", f"{rows[0]['path_m']:.0f}"),
        ("least error at the end [%]", f"{best['end_drift_percent']['mean']:.2g}"),
    ]
    head = (
        f'<header><h1>Odometry on a drive</h1><p class="lead">{html.text(source)}</p>{html.tiles(tiles)}'
        f"{made_by(command)}</header>\n"
    )
    note = (
        '<p class="note">Means over the seeds; in brackets the interval of 95 % by resampling the runs. '
        "ATE: root mean square after the best rigid alignment. KITTI drift: mean over stretches of 100 to 800 m.</p>"
    )
    table = html.table(COLUMNS, table_rows(rows), kinds="--nnn" + "n" * len(MEASURES))
    return html.page(
        "Odometry on a drive",
        head,
        html.section("summary", "By method and weather", table, note),
        html.section("error", "Error along the way", html.pair(*_error_plots(runs))),
        html.section("ways", "From above", html.pair(*_maps(runs))),
        html.section("runs", "All runs", _all(runs)),
    )


def _by(runs: Sequence[RunResult], *names: str) -> dict[tuple[Any, ...], list[RunResult]]:
    groups: dict[tuple[Any, ...], list[RunResult]] = {}
    for run in runs:
        groups.setdefault(tuple(getattr(run, name) for name in names), []).append(run)
    return groups


def error_curve(name: str, runs: Sequence[RunResult], colour: int) -> Curve:
    """Mean error along the way [m], with the least and the largest of all runs."""
    way = np.linspace(0.0, min(run.way_m[-1] for run in runs), _WAY_POINTS)
    errors = np.stack([np.interp(way, run.way_m, run.error_m) for run in runs])
    return Curve(name, way, errors.mean(axis=0), errors.min(axis=0), errors.max(axis=0), colour)


def _error_plots(runs: Sequence[RunResult]) -> list[str]:
    plots = []
    for (method,), members in _by(runs, "method").items():
        weathers = _by(members, "weather")
        curves = [error_curve(weather, group, k) for k, ((weather,), group) in enumerate(weathers.items())]
        drawn = line_plot(curves, unit="m", x_label="way [m]", zero=True)
        key = html.key((curve.name, curve.colour) for curve in curves)
        plots.append(html.figure(method, drawn + key, "Line: mean over the seeds. Band: least to largest."))
    return plots


def _maps(runs: Sequence[RunResult]) -> list[str]:
    plots = []
    for (method,), members in _by(runs, "method").items():
        firsts = [group[0] for group in _by(members, "weather").values()]
        lines: list[tuple[str, int | None, Floats]] = [("truth", None, np.array(firsts[0].true_xy))]
        lines += [(run.weather, k, np.array(run.estimated_xy)) for k, run in enumerate(firsts)]
        key = html.key((name, colour) for name, colour, _ in lines)
        plots.append(html.figure(method, _ways(lines) + key, "The first seed in each weather; the grey line is true."))
    return plots


def _ways(lines: Sequence[tuple[str, int | None, Floats]]) -> str:
    """Ways from above as an SVG element, to scale."""
    points = np.concatenate([line for _, _, line in lines])
    low, high = points.min(axis=0), points.max(axis=0)
    side = max(float(np.max(high - low)), 1.0)
    inner = _MAP_WIDTH - 2 * _MAP_MARGIN

    def placed(line: Floats) -> Floats:
        flat = (line - low) / side * inner
        return np.stack(
            [_MAP_MARGIN + flat[:, 0], _MAP_MARGIN + (high[1] - low[1]) / side * inner - flat[:, 1]], axis=1
        )

    height = _MAP_MARGIN * 2 + (high[1] - low[1]) / side * inner
    parts = []
    for tick in ticks(float(low[0]), float(high[0]), 5):
        x = _MAP_MARGIN + (tick - low[0]) / side * inner
        parts.append(f'<path class="grid" d="M{x:.1f} {_MAP_MARGIN}V{height - _MAP_MARGIN:.1f}"/>')
        parts.append(f'<text class="mid" x="{x:.1f}" y="{height - 12:.0f}">{number(tick)} m</text>')
    for _, colour, line in lines:
        look = 'class="axis" stroke-width="4" stroke-opacity="0.5"' if colour is None else f'class="line s{colour % 8}"'
        parts.append(f'<path {look} d="{polyline(placed(line))}"/>')
    words = "Ways from above: " + ", ".join(name for name, _, _ in lines)
    return (
        f'<svg class="plot" viewBox="0 0 {_MAP_WIDTH} {height:.0f}" role="img" aria-label="{html.text(words)}">'
        f"{''.join(parts)}</svg>"
    )


def _all(runs: Sequence[RunResult]) -> str:
    def shown(value: float | None) -> str:
        return "–" if value is None else f"{value:.3g}"

    rows = [
        (
            run.method, run.weather, run.seed, run.scans, f"{run.mean_points:.0f}", shown(run.drift_percent),
            shown(run.ate_m), shown(run.rpe_m), shown(run.end_drift_percent), f"{1e3 * run.seconds / run.scans:.0f}",
        )
        for run in runs
    ]  # fmt: skip
    columns = (
        "method", "weather", "seed", "scans", "points a scan", "drift [%]", "ATE [m]", "RPE [m]", "at the end [%]",
        "ms a scan",
    )  # fmt: skip
    return html.table(columns, rows, kinds="--nnnnnnnn")
