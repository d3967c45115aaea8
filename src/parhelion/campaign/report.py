"""Report of a campaign: each number against each parameter, with intervals and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parhelion.campaign.study import Study
from parhelion.campaign.summary import METHOD, Series, curves_of, parted_by, validity_of_rows, words_of
from parhelion.campaign.trial import identity, version_words
from parhelion.outputs.report.tables import validity_table
from parhelion.pictures import html
from parhelion.pictures.charts import Chart, Curve
from parhelion.scenario.fields import path_in_words, value_in_words

if TYPE_CHECKING:
    from parhelion.campaign.search import Search, SearchSummary, TriedPoint

_MOST_FAILURES = 20
_MOST_CELLS = 200
_MOST_COLUMNS = 6
"""Largest number of columns of varied values and means in one table."""
_ASIDE = 0.08
"""Distance of the marks of one category."""
_LOG_FROM = 30.0
"""Ratio of the largest to the smallest value from which positive parameters have a logarithmic axis."""


def page_of(study: Study, results: dict[int, dict[str, Any]], summary: dict[str, Any], command: str) -> str:
    """Report as HTML."""
    failed = [results[row] for row in sorted(results) if results[row]["status"] != "done"]
    devices = sorted({str(result["device"]) for result in results.values() if result.get("device")})
    settings = study.settings
    facts = [
        ("runs", len(results)),
        ("failed", len(failed)),
        ("cells", len(summary["cells"])),
        ("draws", settings.draw_count if settings.draws else "none"),
        ("seeds", len(settings.seed_list)),
        ("device", ", ".join(devices) or "none"),
    ]
    scenario = settings.scenario if isinstance(settings.scenario, str) else study.base.get("name") or "a scenario"
    method = f"Intervals contain the mean with {100 * settings.confidence:g} % confidence: {METHOD}. {_units(study)}"
    return html.page(
        study.title,
        *(_against(study, results, path, command) for path in settings.vary),
        _failures(failed),
        html.section("validity", "Validity in weather", validity_table(validity_of_rows(results, results))),
        _cells(study, summary),
        html.section("method", "Method", html.paragraph(method, "")),
        lead=(f"{len(results)} runs of {scenario}, version {version_words(identity())}",),
        facts=facts,
        command=command,
    )


def _units(study: Study) -> str:
    if study.settings.draw_count > 1:
        return "The resampled units are the joint draws, each the mean over its seeds."
    return (
        "The resampled units are the seeds. Runs of one seed share their random numbers at all values, so differences "
        "between values are more certain than their separate intervals suggest."
    )


def _against(study: Study, results: dict[int, dict[str, Any]], path: str, command: str) -> str:
    figures = []
    for name, number in study.numbers.items():
        curves = curves_of(study, results, path, name)
        other = parted_by(study, path)
        names = [value_in_words(other, series.name) if other else "" for series in curves]
        numeric = study.is_numeric(path)
        # Categories have no line between them; their marks lie beside each other.
        aside = [0.0 if numeric else _ASIDE * (k - (len(curves) - 1) / 2) for k in range(len(curves))]
        drawn = [curve for k, one in enumerate(curves) if (curve := _curve(names[k], one, k, numeric, aside[k]))]
        if not drawn:
            continue
        caption = f"{html.text(number.words.capitalize())}; error bars are intervals of the mean."
        caption += f"<br>{html.code(command)}" if command else ""
        log = "x" if numeric and _spans_decades(drawn) else ""
        unit = "share of 1" if number.unit == "1" else number.unit
        categories = [] if numeric else list(dict.fromkeys(words_of(value) for value in study.options(path)))
        chart = Chart(drawn, unit, in_words(path), log=log, size=(480, 230), categories=categories)
        figures.append(chart.figure(number_in_words(name), html.Raw(caption)))
    note = html.paragraph(html.Raw(f"Field {html.code(path)} of the scenario."))
    return html.section(f"vary-{path}", f"Against {path_in_words(path)[0]}", note, html.pair(*figures))


def in_words(path: str) -> str:
    """Name of a varied field with its unit: 'rain rate [mm/h]'."""
    words, unit = path_in_words(path)
    return f"{words} [{unit}]" if unit else words


def number_in_words(name: str) -> str:
    """Name of a number for headings: 'range p95' for `range_p95_m`."""
    words = path_in_words(name)[0]
    return words[:1].upper() + words[1:]


def _curve(name: str, series: Series, colour: int, joined: bool, aside: float) -> Curve | None:
    points = [point for point in series.points if np.isfinite(point.interval.mean)]
    if not points:
        return None
    part = [(point.x + aside, point.interval.mean, point.interval.low, point.interval.high) for point in points]
    x, mean, low, high = np.array(part, np.float64).T
    known = np.isfinite(low) & np.isfinite(high)
    ends = np.where(known, low, mean), np.where(known, high, mean)
    return Curve(name, x, mean, *ends, colour, "joined" if joined else "dots")


def _spans_decades(curves: list[Curve]) -> bool:
    x = np.concatenate([curve.x for curve in curves])
    return bool(x.min() > 0.0 and x.max() >= _LOG_FROM * x.min())


def _failures(failed: list[dict[str, Any]]) -> str:
    if not failed:
        return ""
    rows = [(result["row"], result["error"]) for result in failed[:_MOST_FAILURES]]
    more = len(failed) - len(rows)
    note = html.paragraph(f"The table contains {more} more.") if more else ""
    return html.section("failed", "Failed runs", html.table(["row", "error"], rows, kinds="nl"), note)


def _cells(study: Study, summary: dict[str, Any]) -> str:
    paths, every = list(study.settings.grid), list(study.numbers)
    tables, most = [], max(2, _MOST_COLUMNS - len(paths))
    for first in range(0, len(every), most):
        numbers = every[first : first + most]
        rows = [
            (
                *(words_of(cell["values"][path]) for path in paths),
                f"{cell['rows'][0]}–{cell['rows'][1]}",
                *(html.with_interval(found["mean"], found["low"], found["high"], ".5g") for found in of_cell),
            )
            for cell in summary["cells"][:_MOST_CELLS]
            for of_cell in [[cell["numbers"][name] for name in numbers]]
        ]
        columns = [*map(in_words, paths), "rows", *map(in_words, numbers)]
        tables.append(html.table(columns, rows, kinds="n" * (len(paths) + 1) + "m" * len(numbers)))
    return html.section("cells", "Means and intervals", html.folded("All cells", "<br>".join(tables)))


# ---- search ---------------------------------------------------------------------------------------------------------


def page_of_search(search: Search, summary: SearchSummary, command: str) -> str:
    """Report of a search as HTML."""
    seeds = search.study.settings.seed_list
    facts = [
        *((in_words(path), f"{value:.5g}") for path, value in summary.values.items()),
        ("points", len(summary.points)),
        ("runs", len(summary.points) * len(seeds)),
        ("broken", sum(one.breaks for one in summary.points)),
    ]
    replays = [html.code(f"parhelion run {name} -o out") for name in summary.replays]
    return html.page(
        search.study.title,
        html.section("points", "Points", html.pair(*_search_figures(search, summary, command))),
        html.section("all", "All points", html.folded("Table", _search_table(search, summary))),
        html.section("replay", "Repeat a broken run", *(html.paragraph(one) for one in replays)) if replays else "",
        lead=(outcome_in_words(search, summary), f"Version {version_words(identity())}, {len(seeds)} seeds per point."),
        facts=facts,
        command=command,
    )


def outcome_in_words(search: Search, summary: SearchSummary) -> str:
    """Result of a search as a sentence."""
    breaks, found, holds = search.settings.breaks, summary.found, summary.holds
    if found is None:
        return f"No point was found with {breaks.in_words}."
    if found is summary.mild:
        return f"The mild ends already have {breaks.in_words}."
    text = f"The mildest point with {breaks.in_words}: {_values_in_words(found)}."
    return text if holds is None else f"{text} It holds at {_values_in_words(holds)}."


def _values_in_words(point: TriedPoint) -> str:
    return ", ".join(
        f"{path_in_words(path)[0]} {value:.5g} {path_in_words(path)[1]}".strip() for path, value in point.values.items()
    )


def _search_figures(search: Search, summary: SearchSummary, command: str) -> list[str]:
    """The number against each field; for several fields, also each field against the first."""
    axes, tried = search.settings.search, summary.points
    paths, broken = list(axes), np.array([one.breaks for one in tried])
    note = html.Raw(html.code(command)) if command else ""
    number = search.study.numbers[search.settings.breaks.measure]
    found = []

    def both(x: np.ndarray, y: np.ndarray, part: np.ndarray) -> list[Curve]:  # type: ignore[type-arg]
        return [
            Curve.of("holds", x[~part], y[~part], 1, "rings"),
            Curve.of("breaks", x[part], y[part], 0, "dots"),
        ]

    for path, axis in axes.items():
        each = [
            (one.values[path], value, bad) for one in tried for value, bad in zip(one.numbers, one.broken, strict=True)
        ]
        x, y, bad = np.array(each, np.float64).T
        log = "x" if axis.scale == "log" else ""
        curves = both(x, y, bad > 0)
        limits = {search.settings.breaks.limit(value) for value in summary.mild.numbers}
        curves += [
            Curve.level(one, [x.min(), x.max()], "limit" if k == 0 else "", "dashed") for k, one in enumerate(limits)
        ]
        unit = "share of 1" if number.unit == "1" else number.unit
        chart = Chart(curves, unit, in_words(path), log=log, size=(480, 260))
        found.append(chart.figure(f"{number_in_words(number.name)}, one mark per run", note))
    for path in paths[1:]:
        x, y = (np.array([one.values[name] for one in tried], np.float64) for name in (paths[0], path))
        log = "".join(letter for letter, name in zip("xy", (paths[0], path), strict=True) if axes[name].scale == "log")
        chart = Chart(both(x, y, broken), in_words(path), in_words(paths[0]), log=log, size=(480, 260))
        found.append(chart.figure("Points that hold, and points that break", note))
    return found


def _search_table(search: Search, summary: SearchSummary) -> str:
    rows = [
        (
            *(f"{value:.5g}" for value in one.values.values()),
            f"{one.total:.3f}",
            ", ".join(html.shown(None if np.isnan(value) else value) for value in one.numbers[:8]),
            "breaks" if one.breaks else "holds",
        )
        for one in sorted(summary.points, key=lambda one: one.total)
    ]
    name = number_in_words(search.settings.breaks.measure)
    columns = [*map(in_words, search.settings.search), "severity", f"{name} by seed", "verdict"]
    return html.table(columns, rows, kinds="n" * (len(columns) - 2) + "ll")
