"""The page of a comparison of clouds."""

from __future__ import annotations

from typing import Any

from parhelion.evaluate.files import made_by
from parhelion.pictures import run_page as html
from parhelion.pictures.run_plots import Curve, line_plot

_UNITS = {"range": "m", "intensity": "vendor scale"}
_MOST_PAIRS = 200


def shown(value: Any, digits: int = 4) -> str:
    """A number for tables; a dash for none."""
    return "–" if value is None else f"{value:.{digits}g}"


def summary_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    """The means in words and numbers, for the terminal and the page."""

    def both(part: str, unit: str) -> str:
        values = result[part]
        return f"{shown(values.get('real'))} / {shown(values.get('simulated'))}{unit}" if values else "–"

    kind = "exact" if result["emd_exact"] else "approximate, a lower bound"
    rows = [
        ("pairs of clouds", str(result["pairs_count"])),
        ("points, real / simulated", f"{result['points_real']:.0f} / {result['points_simulated']:.0f}"),
        ("Chamfer distance", f"{shown(result['chamfer_m'])} m"),
        ("earth mover's distance", f"{shown(result['emd_m'])} m a point ({kind}: {result['emd_method']})"),
        ("range error of the same shots", f"{shown(result['range_error_m'])} m"),
        ("detection rate, real / simulated", both("detection_rate_percent", " %")),
        ("false detection rate, real / simulated", both("false_detection_rate_percent", " %")),
        ("SNR of the intensity, real / simulated", both("snr_db", " dB")),
        ("density, real / simulated", both("density_m2", " points/m²")),
        ("sparsity", f"{shown(result['sparsity_percent'])} %"),
    ]
    for word, value in result["wasserstein"].items():
        rows.append(
            (f"Wasserstein, KS of {word}", f"{shown(value)} {_UNITS.get(word, '')}, {shown(result['ks'][word])}")
        )
    for word, value in result["mape_percent"].items():
        rows.append((f"MAPE of {word.replace('_', ' ')}", f"{shown(value)} %"))
    return rows


def page_of(result: dict[str, Any], real: str, simulated: str, command: str = "") -> str:
    """The whole page as HTML; `command` is what made it."""
    tiles = [
        ("Chamfer [m]", shown(result["chamfer_m"], 3)),
        ("EMD [m a point]", shown(result["emd_m"], 3)),
        ("range error [m]", shown(result["range_error_m"], 3)),
        ("pairs", result["pairs_count"]),
    ]
    head = (
        f'<header><h1>Clouds compared</h1><p class="lead">Real: {html.text(real)}<br>Simulated: '
        f"{html.text(simulated)}</p>{html.tiles(tiles)}{made_by(command)}</header>\n"
    )
    return html.page(
        "Clouds compared",
        head,
        html.section("summary", "All measures", html.table((), summary_rows(result))),
        html.section("distributions", "Distributions of the first pair", html.pair(*_distributions(result))),
        _objects(result),
        _pairs(result),
    )


def _distributions(result: dict[str, Any]) -> list[str]:
    plots = []
    for word, bins in result["pairs"][0]["histograms"].items():
        curves = [Curve.of(who, bins["middle"], bins[who], k) for k, who in enumerate(("real", "simulated"))]
        unit = _UNITS.get(word, "")
        plot = line_plot(curves, unit="share", x_label=f"{word} [{unit}]" if unit else word, zero=True)
        plots.append(html.figure(word.capitalize(), plot + html.key([("real", 0), ("simulated", 1)])))
    return plots


def _objects(result: dict[str, Any]) -> str:
    rows = []
    for row in result["pairs"][0]["objects"]:
        for who in ("real", "simulated"):
            if who not in row:
                continue
            part = row[who]
            lost = part["truncation_percent"]
            rows.append(
                (
                    row["label"], f"{row['from_m']:g}–{row['to_m']:g} m", who, part["objects"], f"{part['count']:.0f}",
                    shown(part["volume_m3"], 3), shown(part["density_m3"], 3), shown(lost, 3),
                    shown(row.get("chamfer_m"), 3), shown(row.get("emd_m"), 3),
                )
            )  # fmt: skip
    columns = (
        "label", "distance", "cloud", "objects", "points", "box [m³]", "points/m³", "truncated [%]", "Chamfer [m]",
        "EMD [m]",
    )  # fmt: skip
    note = (
        '<p class="note">Means over the objects of the first pair. A box is truncated by the share of the largest box '
        "of that object in either cloud that its points do not span.</p>"
    )
    table = html.table(columns, rows, kinds="---nnnnnnn")
    return html.section("objects", "Objects by distance", table, note) if rows else ""


def _pairs(result: dict[str, Any]) -> str:
    rows = [
        (
            pair["name"], pair["points_real"], pair["points_simulated"], shown(pair["chamfer_m"]), shown(pair["emd_m"]),
            shown(pair["range_error_m"]),
        )
        for pair in result["pairs"][:_MOST_PAIRS]
    ]  # fmt: skip
    columns = ("pair", "points, real", "points, simulated", "Chamfer [m]", "EMD [m]", "range error [m]")
    return html.section("pairs", "Pairs", html.table(columns, rows, kinds="-nnnnn")) if len(rows) > 1 else ""
