"""The answer as plain numbers: what the JSON file, the table and the page hold."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.evaluate.placement.objectives import Covered, Located
from parhelion.evaluate.placement.search import Found, combinations
from parhelion.evaluate.placement.study import Answer, Candidate
from parhelion.io.atomic import atomic_write

GREEDY_SHARE = 1.0 - math.exp(-1.0)


def result_of(answer: Answer) -> dict[str, Any]:
    """All numbers."""
    question, score, best = answer.question, answer.score, answer.best
    said = question.settings
    state = score.state_of(best.chosen)
    everyone = np.arange(score.count)
    alone = score.parts(score.start(), everyone)
    table = [
        {
            **_row(one),
            "alone": float(score.weight @ alone[:, k]),
            **{f"{part.name}_alone": float(alone[row, k]) for row, part in enumerate(score.objectives)},
            "chosen": k in best.chosen,
            "loss": _loss(answer, k) if k in best.chosen else None,
        }
        for k, one in enumerate(question.candidates)
    ]
    with_all = score.value(score.state_of(everyone.tolist()))
    return {
        "name": said.name, "source": question.source, "world": question.world.name, "seed": said.seed,
        "choose": said.choose, "chosen": [table[k]["name"] for k in best.chosen],
        "score": best.score, "score_of_all": with_all,
        "parts": {
            one.name: {"value": one.value(part), **_facts(answer, one, part)}
            for one, part in zip(score.objectives, state, strict=True)
        },
        "search": _search(answer),
        "candidates": table,
    }  # fmt: skip


def _row(one: Candidate) -> dict[str, Any]:
    x, y, z = (float(value) for value in one.pose.xyz)
    roll, pitch, yaw = (float(value) + 0.0 for value in np.round(one.pose.rpy_deg, 9))
    return {
        "name": one.name, "type": one.type, "model": one.model, "x_m": x, "y_m": y, "z_m": z,
        "roll_deg": roll, "pitch_deg": pitch, "yaw_deg": yaw,
    }  # fmt: skip


def _loss(answer: Answer, candidate: int) -> float:
    """What the set loses without one of its members."""
    rest = [one for one in answer.best.chosen if one != candidate]
    return answer.best.score - answer.score.of(rest)


def _search(answer: Answer) -> dict[str, Any]:
    question, exact = answer.question, answer.exact
    submodular = answer.score.submodular

    def told(found: Found) -> dict[str, Any]:
        names = [question.candidates[k].name for k in found.chosen]
        return {"chosen": names, "score": found.score, "history": list(found.history)}

    return {
        "used": "greedy" if exact is None else "exact",
        "combinations": combinations(answer.score.count, question.settings.choose),
        "exact_limit": question.settings.search.exact_limit,
        "visited": answer.visited,
        "greedy": told(answer.greedy),
        "exact": None if exact is None else {"chosen": told(exact)["chosen"], "score": exact.score},
        "gap": None if exact is None else exact.score - answer.greedy.score,
        "greedy_has_at_least": GREEDY_SHARE if submodular else None,
        "upper_bound": answer.upper_bound,
    }


def search_words(search: dict[str, Any]) -> str:
    """Which search was used, and how far greedy is from exact."""
    count = f"{search['combinations']:,}".replace(",", " ")
    if search["used"] == "exact":
        gap, best = search["gap"], search["exact"]["score"]
        share = f", {100 * gap / best:.2g} % of the best score" if best > 0.0 and gap > 1e-12 else ""
        found = "the same score" if gap <= 1e-12 else f"{gap:.4f} less{share}"
        visited = f"{search['visited']:,}".replace(",", " ")
        rest = ", bounds rule out the rest" if search["visited"] < search["combinations"] else ""
        return f"exact: {visited} of {count} combinations looked at{rest}; greedy finds {found}"
    known = search["greedy_has_at_least"]
    limit = f"{search['exact_limit']:,}".replace(",", " ")
    many = search["combinations"] > search["exact_limit"]
    why = f"{count} combinations are more than {limit}" if many else "as asked for"
    sure = f", and greedy has {100 * known:.0f} % of the best at least" if known else ""
    return f"greedy: {why}; no set has a score above {search['upper_bound']:.4f}{sure}"


def _facts(answer: Answer, one: Any, state: Any) -> dict[str, Any]:
    question = answer.question
    if isinstance(one, Located):
        errors = one.errors(state.parts, state.count)
        fixed = errors[np.isfinite(errors)]
        low, middle, high = np.percentile(fixed, [5, 50, 95]).tolist() if len(fixed) else (math.nan,) * 3
        return {
            "places": len(errors), "share_with_position": float(np.isfinite(errors).mean()),
            "mean_error_m": float(fixed.mean()) if len(fixed) else math.nan, "error_5_m": low, "error_50_m": middle,
            "error_95_m": high, "mean_gdop": float(fixed.mean() / one.sigma_m) if len(fixed) else math.nan,
            "sigma_m": one.sigma_m, "limit_m": one.limit_m, "mean_anchors_in_sight": float(state.count.mean()),
        }  # fmt: skip
    assert isinstance(one, Covered)
    with_all = one.value_with_all(one.start(), np.arange(answer.score.count))
    if one.name == "blind":
        assert question.settings.score.blind is not None
        area = question.settings.score.blind.cell_m**2 / len(question.poses)
        cells = len(one.cell_weight)
        blind = int(np.count_nonzero(~one.seen(state)))
        return {
            "blind_m2": area * blind,
            "ground_m2": area * cells,
            "blind_of_all_m2": area * cells * (1.0 - with_all),
        }
    return {
        "cells": len(one.cell_weight), "at_least": one.at_least, "value_of_all": with_all,
        "share_of_reachable": one.value(state) / with_all if with_all > 0.0 else math.nan,
    }  # fmt: skip


# ---- tables ----------------------------------------------------------------------------------------------------------


def write_csv(path: Path, result: dict[str, Any]) -> None:
    """The candidates as a table."""
    text = io.StringIO()
    rows = result["candidates"]
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "" if value is None else value for key, value in row.items()} for row in rows)
    with atomic_write(path) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8")


CHOSEN_COLUMNS = ("chosen", "type", "model", "x, y, z [m]", "roll, pitch, yaw [°]", "score alone", "loss without it")


def chosen_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """The chosen set, for the terminal and the page."""
    by_name = {row["name"]: row for row in result["candidates"]}
    return [_shown(by_name[name]) for name in result["chosen"]]


def all_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Every candidate, the best by itself first."""
    return [_shown(row) for row in sorted(result["candidates"], key=lambda row: -row["alone"])]


def _shown(row: dict[str, Any]) -> tuple[str, ...]:
    place = ", ".join(f"{row[name]:g}" for name in ("x_m", "y_m", "z_m"))
    turn = ", ".join(f"{row[name]:g}" for name in ("roll_deg", "pitch_deg", "yaw_deg"))
    loss = "–" if row["loss"] is None else f"{row['loss']:.4f}"
    turn = "–" if row["type"] == "anchor" else turn
    return row["name"], row["type"], row["model"] or "–", place, turn, f"{row['alone']:.4f}", loss


def part_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    """What the score is made of, in words."""
    rows = [("score", f"{result['score']:.4f} (all candidates together: {result['score_of_all']:.4f})")]
    for name, part in result["parts"].items():
        if name == "coverage":
            needed = f"{part['at_least']} point{'s' if part['at_least'] > 1 else ''} or more"
            said = (
                f"{100 * part['value']:.1f} % of {part['cells']} cells by weight, {needed}; "
                f"{100 * part['share_of_reachable']:.1f} % of what all candidates see"
            )
        elif name == "blind":
            said = (
                f"{part['blind_m2']:.2f} m² of {part['ground_m2']:.1f} m² of ground; "
                f"{part['blind_of_all_m2']:.2f} m² with all candidates"
            )
        else:
            said = (
                f"mean error {part['mean_error_m']:.3f} m, 95 % below {part['error_95_m']:.3f} m, a position at "
                f"{100 * part['share_with_position']:.1f} % of {part['places']} places; mean GDOP "
                f"{part['mean_gdop']:.2f}"
            )
        rows.append(({"blind": "blind ground"}.get(name, name), said))
    return [*rows, ("search", search_words(result["search"]))]
