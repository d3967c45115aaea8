"""The page of a detector's score."""

from __future__ import annotations

from typing import Any

import numpy as np

from parhelion.evaluate.files import made_by
from parhelion.pictures import run_page as html
from parhelion.pictures.run_plots import Curve, line_plot

COLUMNS = ("class", "objects", "labels", "AP 3D [%]", "AP BEV [%]")


def shown(value: float | None) -> str:
    """A precision for tables; a dash for none."""
    return "–" if value is None else f"{value:.2f}"


def table_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """By class: difficulties, then distance classes."""
    rows = []
    for kind, found in result["classes"].items():
        parts = list(found["difficulty"].items())
        parts += [(f"{part['from_m']:g}–{part['to_m']:g} m", part) for part in found["distance"]]
        for name, views in parts:
            values = [shown(views[view]["ap_percent"]) for view in ("3d", "bev")]
            rows.append((f"{kind} (IoU {found['least_overlap']:g})", name, str(views["3d"]["labels"]), *values))
    return rows


def page_of(result: dict[str, Any], labels: str, detections: str, command: str = "") -> str:
    """The whole page as HTML; `command` is what made it."""
    tiles = [(word, result[word]) for word in ("frames", "labels", "detections")]
    head = (
        f'<header><h1>Detections scored</h1><p class="lead">Labels: {html.text(labels)}<br>Detections: '
        f"{html.text(detections)}</p>{html.tiles(tiles)}{made_by(command)}</header>\n"
    )
    note = (
        '<p class="note">KITTI average precision at 40 recall points. Easy, moderate and hard as KITTI has them; “all” '
        "and the distance classes leave out no label for its height, truncation or occlusion.</p>"
    )
    table = html.table(COLUMNS, table_rows(result), kinds="--nnn")
    return html.page(
        "Detections scored",
        head,
        html.section("precision", "Average precision", table, note),
        html.section("curves", "Precision over recall, in space", html.pair(*_curves(result))),
    )


def _curves(result: dict[str, Any]) -> list[str]:
    plots = []
    for kind, found in result["classes"].items():
        curves = [
            Curve.of(name, np.linspace(0.0, 1.0, len(views["3d"]["curve"])), views["3d"]["curve"], k)
            for k, (name, views) in enumerate(found["difficulty"].items())
            if views["3d"]["curve"]
        ]
        key = html.key((curve.name, curve.colour) for curve in curves)
        drawn = line_plot(curves, unit="precision", x_label="recall", zero=True)
        plots.append(html.figure(kind, drawn + key if drawn else ""))
    return plots
