"""The page of a detector's nuScenes score."""

from __future__ import annotations

from typing import Any

import numpy as np

from parhelion.evaluate.detections.nuscenes_score import DISTANCES_M, ERRORS
from parhelion.pictures import run_page as html
from parhelion.pictures.run_plots import Curve, line_plot

_WORDS = {"ate_m": "ATE [m]", "ase": "ASE", "aoe_rad": "AOE [rad]", "ave_m_s": "AVE [m/s]", "aae": "AAE"}
_CURVES = 5
COLUMNS = (
    "class", "labels", "detections", "AP [%]", *(f"{distance:g} m" for distance in DISTANCES_M),
    *(_WORDS[word] for word in ERRORS),
)  # fmt: skip


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _shown(error: float | None) -> str:
    return "–" if error is None else f"{error:.3f}"


def table_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Classes that have labels or detections."""
    return [
        (
            name, str(one["labels"]), str(one["detections"]), _percent(one["ap"]),
            *(_percent(share) for share in one["ap_by_distance_m"].values()),
            *(_shown(one["errors"][word]) for word in ERRORS),
        )
        for name, one in result["classes"].items()
        if one["labels"] or one["detections"]
    ]  # fmt: skip


def summary_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """NDS, mAP and mean errors: of all ten classes, and of those that were scored."""
    names = result["scored"]["classes"]
    parts = [("all ten classes", result)]
    if len(names) < len(result["classes"]):
        parts.append((f"{', '.join(names)} alone", result["scored"]))
    return [
        (name, _percent(one["nds"]), _percent(one["map"]), *(_shown(one["errors"][word]) for word in ERRORS))
        for name, one in parts
    ]


SUMMARY_COLUMNS = ("over", "NDS [%]", "mAP [%]", *(f"m{_WORDS[word]}" for word in ERRORS))


def page_of(result: dict[str, Any], labels: str, detections: str, command: str = "") -> str:
    """The whole page as HTML."""
    tiles = [
        ("NDS [%]", _percent(result["nds"])),
        ("mAP [%]", _percent(result["map"])),
        *((word, result[word]) for word in ("samples", "labels", "detections")),
    ]
    made = f"<p><code>{html.text(command)}</code></p>" if command else ""
    head = (
        f'<header><h1>Detections scored</h1><p class="lead">Data set: {html.text(labels)}<br>Detections: '
        f"{html.text(detections)}</p>{made}{html.tiles(tiles)}</header>\n"
    )
    note = (
        '<p class="note">nuScenes’ detection score with the settings of its 2019 challenge. A class without labels '
        "has a precision of 0 and errors of 1 in the line of all ten classes; a line below it leaves such classes out. "
        f"{result['scenes']} of {result['all_scenes']} scenes.</p>"
    )
    errors_note = '<p class="note">Errors are means over detections whose centre is within 2 m of a label’s.</p>'
    return html.page(
        "Detections scored",
        head,
        html.section("score", "Score", html.table(SUMMARY_COLUMNS, summary_rows(result), kinds="l" + "n" * 7), note),
        html.section("classes", "Classes", html.table(COLUMNS, table_rows(result), kinds="-" + "n" * 12), errors_note),
        html.section("curves", "Precision over recall, within 2 m", html.pair(*_curves(result))),
    )


def _curves(result: dict[str, Any]) -> list[str]:
    """Two plots: ten curves in one are hard to tell apart."""
    there = [(name, one["curve"]) for name, one in result["classes"].items() if one["labels"]]
    plots = []
    for first in range(0, len(there), _CURVES):
        curves = [
            Curve.of(name, np.linspace(0.0, 1.0, len(curve)), curve, k)
            for k, (name, curve) in enumerate(there[first : first + _CURVES])
        ]
        drawn = line_plot(curves, unit="precision", x_label="recall", zero=True)
        plots.append(html.figure("", drawn + html.key((curve.name, curve.colour) for curve in curves)))
    return plots
