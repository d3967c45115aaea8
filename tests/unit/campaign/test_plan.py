"""Early stopping of cells: decided by their own rows in order, independent of the workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from campaign_rigs import study_in
from parhelion.campaign.campaign import Plan
from parhelion.campaign.study import Study

SPREAD = {0: 0.001, 1: 0.05, 2: 1.0}
"""Standard deviation of the number in each cell."""
STOP = {"measure": "detection_share", "half_width": 0.05, "at_least": 5, "every": 3}


def result(study: Study, row: int) -> dict[str, Any]:
    value = np.random.default_rng(row).normal(0.5, SPREAD[study.row(row).cell])
    return {"row": row, "status": "done", "numbers": {"detection_share": value}}


def run(study: Study, at_once: int, order: np.random.Generator) -> Plan:
    """Finish rows in random order, with `at_once` of them running at a time."""
    plan, running = Plan(study, {}), []
    while True:
        while len(running) < at_once and (row := plan.next_row()) is not None:
            running.append(row)
        if not running:
            return plan
        plan.take(result(study, running.pop(order.integers(len(running)))))


def test_narrow_cells_stop_and_wide_ones_use_all_seeds(tmp_path: Path) -> None:
    study = study_in(tmp_path, seeds=40, stop=STOP)
    plan = run(study, 1, np.random.default_rng(1))
    cells = [study.row(row).cell for row in plan.rows()]
    assert cells.count(0) == 5
    assert 5 <= cells.count(1) < 40
    assert cells.count(2) == 40
    assert plan.saved == 120 - plan.planned > 0
    assert plan.waiting == 0


@pytest.mark.parametrize("at_once", [2, 7, 50])
def test_rows_of_the_table_do_not_depend_on_the_workers(tmp_path: Path, at_once: int) -> None:
    study = study_in(tmp_path, seeds=40, stop=STOP)
    one = run(study, 1, np.random.default_rng(1))
    for seed in range(3):
        assert run(study, at_once, np.random.default_rng(seed)).rows() == one.rows()


def test_a_campaign_continues_where_it_was(tmp_path: Path) -> None:
    study = study_in(tmp_path, seeds=40, stop=STOP)
    whole = run(study, 1, np.random.default_rng(1))
    some = {row: whole.results[row] for row in whole.rows()[::2]}
    plan = Plan(study, dict(some))
    again = []
    while (row := plan.next_row()) is not None:
        again.append(row)
        plan.take(result(study, row))
    assert plan.rows() == whole.rows()
    assert set(again) == set(whole.rows()) - set(some)


def test_without_stop_every_row_is_handed_out_once(tmp_path: Path) -> None:
    plan = run(study_in(tmp_path), 3, np.random.default_rng(2))
    assert plan.rows() == list(range(12))
    assert plan.saved == 0


def test_draws_are_the_units_if_there_are_any(tmp_path: Path) -> None:
    draws = {"weather.rain_rate_mm_h": {"uniform": [0, 50], "count": 30}}
    study = study_in(tmp_path, vary=draws, seeds=2, stop=STOP)
    plan = run(study, 4, np.random.default_rng(3))
    assert len(plan.rows()) == 2 * 5  # five draws with two seeds each


def test_failed_runs_do_not_make_an_interval(tmp_path: Path) -> None:
    study = study_in(tmp_path, seeds=6, stop=STOP)
    plan = Plan(study, {})
    while (row := plan.next_row()) is not None:
        plan.take({"row": row, "status": "failed", "error": "no", "numbers": {}})
    assert plan.rows() == list(range(18))
