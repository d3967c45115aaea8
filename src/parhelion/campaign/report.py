"""The page of a campaign: a curve with its interval for each number against each parameter, and the command of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from parhelion.campaign.study import Study
from parhelion.campaign.summary import METHOD, Series, curves_of, parted_by, words_of
from parhelion.campaign.trial import identity, version_words
from parhelion.pictures import run_page as html
from parhelion.pictures.interval_plots import interval_plot
from parhelion.pictures.run_plots import Curve

_MOST_FAILURES = 20
_MOST_CELLS = 200


def page_of(study: Study, results: dict[int, dict[str, Any]], summary: dict[str, Any], command: str) -> str:
    """The whole page as HTML."""
    failed = [results[row] for row in sorted(results) if results[row]["status"] != "done"]
    devices = sorted({str(result["device"]) for result in results.values() if result.get("device")})
    said = study.settings
    lead = html.text(f"{len(results)} runs of {_scenario_name(study)}, version {version_words(identity())}")
    parts = [
        f"<h1>{html.text(study.title)}</h1>",
        f'<p class="lead">{lead}</p>',
        f"<p><code>{html.text(command)}</code></p>" if command else "",
        html.tiles(
            [
                ("runs", len(results)),
                ("failed", len(failed)),
                ("cells", len(summary["cells"])),
                ("draws", said.draw_count if said.draws else "none"),
                ("seeds", len(said.seed_list)),
                ("device", ", ".join(devices) or "none"),
            ]
        ),
    ]
    for path in said.vary:
        parts.append(_against(study, results, path, command))
    parts.append(_failures(failed))
    parts.append(_cells(study, summary))
    parts.append(
        html.section(
            "method", "Method",
            f"<p>Intervals hold the mean with {100 * said.confidence:g} % confidence: {html.text(METHOD)}. "
            f"{html.text(_units(study))}</p>",
        )
    )  # fmt: skip
    return html.page(study.title, *parts)


def _scenario_name(study: Study) -> str:
    given = study.settings.scenario
    return given if isinstance(given, str) else str(study.base.get("name") or "a scenario")


def _units(study: Study) -> str:
    if study.settings.draw_count > 1:
        return "Units that are resampled are the joint draws, each the mean over its seeds."
    return (
        "Units that are resampled are the seeds: runs of one seed at other values share their random numbers, so "
        "differences between values are surer than two intervals side by side suggest."
    )


def _against(study: Study, results: dict[int, dict[str, Any]], path: str, command: str) -> str:
    figures = []
    for name, number in study.numbers.items():
        curves = curves_of(study, results, path, name)
        drawn = [curve for k, series in enumerate(curves) if (curve := _curve(series, k, _log(study, path)))]
        if not drawn:
            continue
        plot = interval_plot(drawn, unit=_unit(number.unit), x_label=_axis(study, path))
        other = parted_by(study, path)
        key = html.key((f"{other} {curve.name}", curve.colour) for curve in drawn) if other else ""
        caption = html.Raw(
            f"{html.text(number.words.capitalize())}; a whisker is the interval of the mean."
            + (f"<br><code>{html.text(command)}</code>" if command else "")
        )
        figures.append(html.figure(name, plot + key, caption))
    return html.section(f"vary-{path}", f"Against {path}", html.pair(*figures))


def _curve(series: Series, colour: int, log: bool) -> Curve | None:
    points = [point for point in series.points if np.isfinite(point.interval.mean)]
    if not points:
        return None
    x = np.array([point.x for point in points])
    mean = np.array([point.interval.mean for point in points])
    low = np.array([point.interval.low for point in points])
    high = np.array([point.interval.high for point in points])
    known = np.isfinite(low) & np.isfinite(high)
    return Curve(
        series.name or "mean", np.log10(x) if log else x, mean,
        np.where(known, low, mean), np.where(known, high, mean), colour,
    )  # fmt: skip


def _unit(unit: str) -> str:
    return "share of 1" if unit == "1" else unit


def _log(study: Study, path: str) -> bool:
    draws = study.settings.draws.get(path)
    return draws is not None and draws.loguniform is not None


def _axis(study: Study, path: str) -> str:
    options = study.drawn[path] if path in study.drawn else study.settings.grid[path]
    words = f"log10 of {path}" if _log(study, path) else path
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in options):
        distinct = list(dict.fromkeys(words_of(value) for value in options))
        words += ": " + ", ".join(f"{k + 1} is {value}" for k, value in enumerate(distinct[:6]))
    return words


def _failures(failed: list[dict[str, Any]]) -> str:
    if not failed:
        return ""
    rows = [(result["row"], result["error"]) for result in failed[:_MOST_FAILURES]]
    more = len(failed) - len(rows)
    note = f'<p class="note">And {more} more, in the table.</p>' if more else ""
    return html.section("failed", "Runs that failed", html.table(["row", "error"], rows, kinds="nl"), note)


def _cells(study: Study, summary: dict[str, Any]) -> str:
    paths, numbers = list(study.settings.grid), list(study.numbers)
    rows = [
        (
            *(words_of(cell["values"][path]) for path in paths),
            f"{cell['rows'][0]}–{cell['rows'][1]}",
            *(_shown(cell["numbers"][name]) for name in numbers),
        )
        for cell in summary["cells"][:_MOST_CELLS]
    ]
    table = html.table([*paths, "rows", *numbers], rows, kinds="n" * (len(paths) + 1 + len(numbers)))
    return html.section("cells", "Means and intervals", html.folded("All cells", table))


def _shown(told: dict[str, Any]) -> str:
    if told["mean"] is None:
        return "–"
    if told["low"] is None:
        return f"{told['mean']:.5g}"
    return f"{told['mean']:.5g} ({told['low']:.5g} to {told['high']:.5g})"
