"""Results of a placement study as plain numbers, for the JSON file, the table and the report."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.files import atomic_write
from parhelion.core.pose import Floats, Pose
from parhelion.evaluate.placement.objectives import Covered, Located
from parhelion.evaluate.placement.search import BestSet
from parhelion.evaluate.placement.study import Answer, Candidate
from parhelion.pictures import html, panels
from parhelion.pictures.images import rgb_uri
from parhelion.pictures.relief import from_above
from parhelion.pictures.style import ACCENT, INK, MUTED, PANEL, SHEET, colour_bar, legend, pixels_of, quiet, rgb, sheet

GREEDY_SHARE = 1.0 - math.exp(-1.0)
PLACE, TURN = ("x_m", "y_m", "z_m"), ("roll_deg", "pitch_deg", "yaw_deg")
"""Columns of a candidate's pose."""


def result_of(answer: Answer) -> dict[str, Any]:
    """All results as a dictionary."""
    question, score, best = answer.question, answer.score, answer.best
    settings = question.settings
    state = score.state_of(best.chosen)
    everyone = np.arange(score.count)
    alone = score.parts(score.start(), everyone)
    table = [
        {
            **_row(one),
            "alone": float(score.weight @ alone[:, k]),
            **{f"{part.name}_alone": float(alone[row, k]) for row, part in enumerate(score.objectives)},
            "chosen": k in best.chosen,
            # Loss of score without one of its members.
            "loss": best.score - score.of([other for other in best.chosen if other != k]) if k in best.chosen else None,
        }
        for k, one in enumerate(question.candidates)
    ]
    with_all = score.value(score.state_of(everyone.tolist()))
    return {
        "name": settings.name,
        "source": question.source,
        "world": question.world.name,
        "seed": settings.seed,
        "choose": settings.choose,
        "chosen": [table[k]["name"] for k in best.chosen],
        "score": best.score,
        "score_of_all": with_all,
        "parts": {
            one.name: {"value": one.value(part), **_measures(answer, one, part)}
            for one, part in zip(score.objectives, state, strict=True)
        },
        "search": _search(answer),
        "candidates": table,
    }


def _row(one: Candidate) -> dict[str, Any]:
    turn = (float(value) + 0.0 for value in np.round(one.pose.rpy_deg, 9))
    return {
        "name": one.name,
        "type": one.type,
        "model": one.model,
        **dict(zip(PLACE, map(float, one.pose.xyz), strict=True)),
        **dict(zip(TURN, turn, strict=True)),
    }


def _search(answer: Answer) -> dict[str, Any]:
    question, exact = answer.question, answer.exact
    submodular = answer.score.submodular

    def fields(found: BestSet) -> dict[str, Any]:
        names = [question.candidates[k].name for k in found.chosen]
        return {"chosen": names, "score": found.score, "history": list(found.history)}

    return {
        "used": "greedy" if exact is None else "exact",
        "combinations": math.comb(answer.score.count, question.settings.choose),
        "exact_limit": question.settings.search.exact_limit,
        "visited": answer.visited,
        "greedy": fields(answer.greedy),
        "exact": None if exact is None else {"chosen": fields(exact)["chosen"], "score": exact.score},
        "gap": None if exact is None else exact.score - answer.greedy.score,
        "greedy_has_at_least": GREEDY_SHARE if submodular else None,
        "upper_bound": answer.upper_bound,
    }


def search_words(search: dict[str, Any]) -> str:
    """Text on the search method, and on the gap between greedy and exact."""
    count = html.count(search["combinations"])
    if search["used"] == "exact":
        gap, best = search["gap"], search["exact"]["score"]
        share = f", {100 * gap / best:.2g} % of the best score" if best > 0.0 and gap > 1e-12 else ""
        found = "the same score" if gap <= 1e-12 else f"{gap:.4f} less{share}"
        visited = html.count(search["visited"])
        rest = ", bounds rule out the rest" if search["visited"] < search["combinations"] else ""
        return f"exact: {visited} of {count} combinations evaluated{rest}; greedy finds {found}"
    known = search["greedy_has_at_least"]
    limit = html.count(search["exact_limit"])
    many = search["combinations"] > search["exact_limit"]
    why = f"{count} combinations are more than {limit}" if many else "as asked for"
    sure = f", and greedy has at least {100 * known:.0f} % of the best" if known else ""
    return f"greedy: {why}; no set has a score above {search['upper_bound']:.4f}{sure}"


def _measures(answer: Answer, one: Any, state: Any) -> dict[str, Any]:
    question = answer.question
    if isinstance(one, Located):
        errors = one.errors(state.parts, state.count)
        fixed = errors[np.isfinite(errors)]
        low, middle, high = np.percentile(fixed, [5, 50, 95]).tolist() if len(fixed) else (math.nan,) * 3
        return {
            "places": len(errors),
            "share_with_position": float(np.isfinite(errors).mean()),
            "mean_error_m": float(fixed.mean()) if len(fixed) else math.nan,
            "error_5_m": low,
            "error_50_m": middle,
            "error_95_m": high,
            "mean_gdop": float(fixed.mean() / one.sigma_m) if len(fixed) else math.nan,
            "sigma_m": one.sigma_m,
            "limit_m": one.limit_m,
            "mean_anchors_in_sight": float(state.count.mean()),
        }
    assert isinstance(one, Covered)
    with_all = one.value_with_all(one.start(), np.arange(answer.score.count))
    if one.name == "blind":
        assert question.settings.score.blind is not None
        area = question.settings.score.blind.cell_m**2 / len(question.poses)
        cells = len(one.cell_weight)
        blind = int(np.count_nonzero(~one.seen(state)))
        return {"blind_m2": area * blind, "ground_m2": area * cells, "blind_of_all_m2": area * cells * (1.0 - with_all)}
    return {
        "cells": len(one.cell_weight),
        "at_least": one.at_least,
        "value_of_all": with_all,
        "share_of_reachable": one.value(state) / with_all if with_all > 0.0 else math.nan,
    }


# ---- tables ----------------------------------------------------------------------------------------------------------


def write_csv(path: Path, result: dict[str, Any]) -> None:
    """Write the candidates as a table."""
    text = io.StringIO()
    rows = result["candidates"]
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")  # None becomes an empty cell
    writer.writeheader()
    writer.writerows(rows)
    with atomic_write(path) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8")


CHOSEN_COLUMNS = ("chosen", "type", "model", "x, y, z [m]", "roll, pitch, yaw [°]", "score alone", "loss without it")


def chosen_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Table rows of the chosen set, for the terminal and the report."""
    by_name = {row["name"]: row for row in result["candidates"]}
    return [_shown(by_name[name]) for name in result["chosen"]]


def _shown(row: dict[str, Any]) -> tuple[str, ...]:
    place = ", ".join(f"{row[name]:g}" for name in PLACE)
    turn = ", ".join(f"{row[name]:g}" for name in TURN)
    loss = "–" if row["loss"] is None else f"{row['loss']:.4f}"
    turn = "–" if row["type"] == "anchor" else turn
    return row["name"], row["type"], row["model"] or "–", place, turn, f"{row['alone']:.4f}", loss


def part_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Parts of the score as text."""
    rows = [("score", f"{result['score']:.4f} (all candidates together: {result['score_of_all']:.4f})")]
    for name, part in result["parts"].items():
        if name == "coverage":
            needed = f"{part['at_least']} point{'s' if part['at_least'] > 1 else ''} or more"
            text = (
                f"{100 * part['value']:.1f} % of {part['cells']} cells by weight, {needed}; "
                f"{100 * part['share_of_reachable']:.1f} % of what all candidates see"
            )
        elif name == "blind":
            text = (
                f"{part['blind_m2']:.2f} m² of {part['ground_m2']:.1f} m² of ground; "
                f"{part['blind_of_all_m2']:.2f} m² with all candidates"
            )
        else:
            text = (
                f"mean error {part['mean_error_m']:.3f} m, 95 % below {part['error_95_m']:.3f} m, a position at "
                f"{100 * part['share_with_position']:.1f} % of {part['places']} places; mean GDOP "
                f"{part['mean_gdop']:.2f}"
            )
        rows.append(({"blind": "blind ground"}.get(name, name), text))
    return [*rows, ("search", search_words(result["search"]))]


# ---- Plan view: coverage of the chosen set, and positions of the candidates -----------------------------------------


_SEEN, _BLIND, _NONE = "#3fb8af", "#ff5d5d", "#8c2f66"
_PANEL_IN = 6.4


def answer_picture(answer: Answer) -> Any:
    """Plan view as a figure."""
    states = answer.score.state_of(answer.best.chosen)
    pairs = list(zip(answer.score.objectives, states, strict=True))
    first, state_of_first = pairs[0]
    located = isinstance(first, Located)
    mounted = answer.question.settings.vehicle is not None
    count = 2 if located else len(pairs) + int(mounted)
    figure = sheet(_PANEL_IN * count + 0.4, _height_in(answer) if located else 7.2)
    names = ", ".join(answer.question.candidates[k].name for k in answer.best.chosen)
    used = "exact" if answer.exact is not None else "greedy"
    facts = f"chosen of {answer.score.count}: {names}   |   score {answer.best.score:.3f}   |   {used} search"
    panels.heading(figure, answer.question.settings.name or "Placement", facts)
    width = 1.0 / count
    across, up = (1.0 / side for side in figure.get_size_inches())
    frames = [
        figure.add_axes((0.8 * across + k * width, 0.65 * up, width * 0.76, 1.0 - 1.85 * up)) for k in range(count)
    ]
    if isinstance(first, Located):
        _error_panel(frames[0], answer, first, state_of_first)
        _sight_panel(frames[1], answer, state_of_first)
    for axes, (one, state) in zip(frames, pairs, strict=False):
        if isinstance(one, Covered):
            draw = _blind_panel if one.name == "blind" else _coverage_panel
            draw(axes, answer, one, state)
    if mounted and not located:
        _mount_panel(frames[-1], answer)
    return figure


def _height_in(answer: Answer) -> float:
    """Height of the figure for the shape of the region [inch]."""
    sides = np.ptp(np.concatenate([answer.question.maps.places, _placed(answer)])[:, :2], axis=0)
    return float(np.clip(0.78 * _PANEL_IN * (sides[1] + 3.0) / (sides[0] + 1.0), 2.5, 5.4)) + 1.85


def _map(answer: Answer, axes: Any, points: Floats) -> None:
    """World from above, dimmed, around the shown region."""
    low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
    half = np.maximum(0.53 * (high - low), 1.0)
    extent = panels.fitted_extent(axes, 0.5 * (low + high), *half)
    columns, rows = (int(side) for side in panels.panel_pixels(axes))
    image, _ = from_above(answer.question.world, extent, columns, rows, answer.question.settings.time_s)
    grey = image[:, :, :3].mean(axis=2, keepdims=True)
    image[:, :, :3] = 0.75 * (0.75 * grey + 0.25 * image[:, :, :3])
    axes.imshow(image, extent=extent, interpolation="nearest", aspect="equal")
    axes.set(xlim=extent[:2], ylim=extent[2:], xlabel="x [m]", ylabel="y [m]")


def _fill(
    axes: Any, points: Floats, cell_m: float, colours: NDArray[Any], *, yaw: float = 0.0, alpha: float = 0.85
) -> None:
    """Colour the square cells around points (n, 3) [m], rotated by `yaw` [rad]; colours are (n, 3 or 4)."""
    from scipy.spatial import cKDTree

    if not len(points):
        return
    extent = (*axes.get_xlim(), *axes.get_ylim())
    columns, rows = (int(side) for side in panels.panel_pixels(axes))
    x = extent[0] + (np.arange(columns) + 0.5) * (extent[1] - extent[0]) / columns
    y = extent[3] - (np.arange(rows) + 0.5) * (extent[3] - extent[2]) / rows
    pixels = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    away, row = cKDTree(points[:, :2]).query(pixels, distance_upper_bound=cell_m)
    near = np.flatnonzero(np.isfinite(away))
    offset = pixels[near] - points[row[near], :2]
    turn = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
    inside = near[np.abs(offset @ turn).max(axis=1) <= 0.501 * cell_m]
    image = np.zeros((len(pixels), 4))
    image[inside, :3] = colours[row[inside], :3]
    image[inside, 3] = alpha
    axes.imshow(image.reshape(rows, columns, 4), extent=extent, interpolation="nearest", aspect="equal")


def _yaw(pose: Pose) -> float:
    return float(np.radians(pose.rpy_deg[2]))


def _scale(colours: str, norm: Any) -> Any:
    """Colour scale."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable

    return ScalarMappable(norm, colormaps[colours])


def _key(axes: Any, *entries: tuple[str, str]) -> None:
    """Legend of colours, above the panel at the right."""
    legend(axes, entries, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(entries), borderaxespad=0.3)


def _coverage_panel(axes: Any, answer: Answer, one: Covered, state: Any) -> None:
    """Covered share of each column of cells; for a region attached to the vehicle, at its first pose."""
    from matplotlib.colors import Normalize

    cells = answer.question.maps.cells[0]
    # Cells that no candidate covers, such as the inside of walls, are not shown.
    seeable = np.flatnonzero(one.points[:, : len(cells)].any(axis=0))
    middle, weight = cells.middle[seeable], cells.weight[seeable]
    _map(answer, axes, middle if len(middle) else cells.middle)
    seen = one.seen(state)[seeable]
    cell = cells.voxels.cell_m
    column = np.round(cells.pose.inverse().apply(middle)[:, :2] / cell).astype(np.int64)
    _, first, group = np.unique(column, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    share = np.bincount(group, weights=weight * seen) / np.bincount(group, weights=weight)
    scale = _scale("viridis", Normalize(0.0, 100.0))
    _fill(axes, middle[first], cell, scale.to_rgba(100.0 * share), yaw=_yaw(cells.pose))
    quiet(axes, f"Coverage: {100 * one.value(state):.1f} % by weight")
    colour_bar(scale, axes, "covered, of what any candidate covers [%]")
    _sites(axes, answer, names=False)


def _blind_panel(axes: Any, answer: Answer, one: Covered, state: Any) -> None:
    entry = answer.question.settings.score.blind
    assert entry is not None
    ground = answer.question.maps.ground
    _map(answer, axes, ground)
    seen = one.seen(state)[: len(ground)]
    colours = np.where(seen[:, None], rgb(_SEEN), rgb(_BLIND))
    _fill(axes, ground, entry.cell_m, colours, yaw=_yaw(answer.question.poses[0]), alpha=0.7)
    quiet(axes, f"Ground at the first pose: {100 * (1.0 - seen.mean()):.1f} % blind")
    _key(axes, ("seen", _SEEN), ("blind", _BLIND))
    _sites(axes, answer, names=False)


def _mount_panel(axes: Any, answer: Answer) -> None:
    """Vehicle from above, with all mounts."""
    question = answer.question
    places = np.array([one.pose.xyz for one in question.candidates])
    body = question.body_triangles()
    every = np.concatenate([places[:, :2], body.reshape(-1, 2)])
    low, high = every.min(axis=0), every.max(axis=0)
    extent = panels.fitted_extent(axes, 0.5 * (low + high), *(0.62 * np.maximum(high - low, 0.4)))
    quiet(axes, "Mounts on the vehicle, x forward")
    axes.set(xlim=extent[:2], ylim=extent[2:], xlabel="x [m]", ylabel="y [m]", aspect="equal")
    if len(body):
        from matplotlib.collections import PolyCollection

        axes.add_collection(PolyCollection(list(body), facecolor="#39424f", edgecolor="#39424f", linewidth=0.4))
    _sites(axes, answer, names=True, on_vehicle=True)


def _error_panel(axes: Any, answer: Answer, one: Located, state: Any) -> None:
    entry = answer.question.settings.score.localisation
    assert entry is not None
    places, errors = _layer(answer, one.errors(state.parts, state.count))
    _map(answer, axes, np.concatenate([places, _placed(answer)]))
    fixed = np.isfinite(errors)
    from matplotlib.colors import LogNorm

    values = errors[fixed]
    low, high = (float(values.min()), float(np.percentile(values, 98))) if len(values) else (0.1, 1.0)
    norm = LogNorm(low, max(high, 1.2 * low))
    scale = _scale("viridis", norm)
    colours = np.tile(rgb(_NONE), (len(places), 1))
    colours[fixed] = scale.to_rgba(values)[:, :3]
    _fill(axes, places, entry.cell_m, colours)
    quiet(axes, f"Position error, tag at {min(entry.heights_m):g} m")
    colour_bar(scale, axes, "error [m]")
    if not fixed.all():
        _key(axes, ("no position", _NONE))
    _sites(axes, answer, names=True)


def _sight_panel(axes: Any, answer: Answer, state: Any) -> None:
    entry = answer.question.settings.score.localisation
    assert entry is not None
    places, count = _layer(answer, state.count)
    _map(answer, axes, np.concatenate([places, _placed(answer)]))
    from matplotlib.colors import BoundaryNorm

    most = answer.question.settings.choose
    scale = _scale("viridis", BoundaryNorm(np.arange(-0.5, most + 1.0), 256))
    _fill(axes, places, entry.cell_m, scale.to_rgba(count))
    quiet(axes, "Visible anchors")
    bar = axes.get_figure().colorbar(scale, cax=axes.inset_axes([1.02, 0.0, 0.025, 1.0]), ticks=range(most + 1))
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=MUTED, labelsize=8, length=2, width=0.6)
    _sites(axes, answer, names=False)


def _layer(answer: Answer, values: NDArray[Any]) -> tuple[Floats, NDArray[Any]]:
    """Places at the lowest height, and their values."""
    places = answer.question.maps.places
    lowest = places[:, 2] <= places[:, 2].min() + 1e-9
    return places[lowest], values[lowest]


def _placed(answer: Answer) -> Floats:
    """Positions of the candidates in the world, at the first pose of the vehicle, shape (n, 3) [m]."""
    pose = answer.question.poses[0]
    return pose.apply(np.array([one.pose.xyz for one in answer.question.candidates]))


def _sites(axes: Any, answer: Answer, *, names: bool, on_vehicle: bool = False) -> None:
    """Candidates as rings, chosen ones filled, with their directions if they have one."""
    question = answer.question
    places = np.array([one.pose.xyz for one in question.candidates]) if on_vehicle else _placed(answer)
    chosen = list(answer.best.chosen)
    if on_vehicle or question.settings.vehicle is None:
        axes.plot(places[:, 0], places[:, 1], "o", markersize=6, color="none", markeredgecolor=INK, alpha=0.8)
    axes.plot(
        places[chosen, 0], places[chosen, 1], "o", markersize=8 if names else 6, color=ACCENT, markeredgecolor=SHEET
    )
    (low, high), middle = axes.get_xlim(), float(np.mean(axes.get_ylim()))
    for k in chosen:
        one = question.candidates[k]
        if on_vehicle:
            yaw = np.radians(one.pose.rpy_deg[2])
            panels.sensor_mark(axes, places[k, 0], places[k, 1], float(yaw), 0.08 * (high - low))
        if names:
            height = f"{one.pose.xyz[2]:g} m"
            up = places[k, 1] < middle
            axes.annotate(
                f"{one.name}\n{height}",
                places[k, :2],
                xytext=(0, 12 if up else -12),
                textcoords="offset points",
                color=INK,
                fontsize=8,
                ha="center",
                va="bottom" if up else "top",
                bbox={"boxstyle": "round,pad=0.2", "facecolor": PANEL, "edgecolor": "none", "alpha": 0.75},
            )


# ---- Report of a placement study ------------------------------------------------------------------------------------


def page_of(answer: Answer, result: dict[str, Any], command: str = "", picture: Any = None) -> str:
    """Report as HTML; `picture` is that of `answer_picture` if it already exists."""
    title = result["name"] or "Placement"
    tiles = [
        ("score", f"{result['score']:.3f}"),
        ("chosen", f"{result['choose']} of {len(result['candidates'])}"),
        ("combinations", html.count(result["search"]["combinations"])),
        ("search", result["search"]["used"]),
    ]
    note = html.paragraph(
        "“Loss without it” is the decrease of the set’s score without that candidate. A score is a share of 1: "
        "coverage by weight, visible ground, and one minus the mean error over the largest error that counts."
    )
    kinds = "---nnnn"
    every = [_shown(row) for row in sorted(result["candidates"], key=lambda row: -row["alone"])]
    figure = answer_picture(answer) if picture is None else picture
    drawn = html.image(rgb_uri(pixels_of(figure) / 255.0), "The chosen set", "sheet")
    return html.page(
        title,
        html.section("map", "From above", html.figure("", drawn)),
        html.section("chosen", "Chosen", html.table(CHOSEN_COLUMNS, chosen_rows(result), kinds=kinds), note),
        html.section("parts", "Score", html.table((), part_rows(result), kinds="-l")),
        html.section(
            "candidates",
            "All candidates, by their score alone",
            html.table(("candidate", *CHOSEN_COLUMNS[1:]), every, kinds=kinds),
        ),
        lead=(f"{result['source']}, world {result['world']}",),
        facts=tiles,
        command=command,
    )
