"""Sets of sensors: greedy and exact search against all combinations, and dilution of precision against closed forms."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from parhelion.core.errors import ConfigError
from parhelion.evaluate.placement.objectives import Covered, Located, gdop, information
from parhelion.evaluate.placement.search import Exact, Score, greedy
from parhelion.sensors.waves.uwb.solve import locate
from pins import check


def polygon(corners: int, radius: float = 10.0, height: float = 0.0, turn: float = 0.3) -> np.ndarray:
    angle = turn + 2 * np.pi * np.arange(corners) / corners
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), np.full(corners, height)], axis=1)


def covered(
    rng: np.random.Generator, candidates: int, cells: int, at_least: int = 1, name: str = "coverage"
) -> Covered:
    points = rng.poisson(0.25 * at_least, (candidates, cells)).astype(np.int32)
    return Covered(name, float(rng.uniform(0.5, 2.0)), points, rng.uniform(0.1, 1.0, cells), at_least)


def located(rng: np.random.Generator, candidates: int, places: int, dimensions: int = 2) -> Located:
    anchors = np.column_stack([rng.uniform(-10, 10, (candidates, 2)), rng.uniform(2, 6, candidates)])
    tags = np.column_stack([rng.uniform(-8, 8, (places, 2)), rng.uniform(0, 2, places)])
    visible = rng.random((candidates, places)) < 0.7
    parts = information(anchors, tags, visible, dimensions)
    return Located(1.0, parts, visible, dimensions + 1, 0.1, 1.0)


# ---- dilution of precision -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("corners", [3, 4, 5, 8, 17])
def test_the_middle_of_a_polygon_of_anchors(corners: int) -> None:
    """H^T H is n/2 times the identity there, so the dilution is sqrt(2 * 2/n)."""
    assert gdop(polygon(corners), [[0.0, 0.0, 0.0]]) == pytest.approx([2.0 / np.sqrt(corners)])


def test_anchors_above_a_tag_whose_height_is_known() -> None:
    """Horizontal parts of the unit vectors are shorter by the cosine of the elevation."""
    found = gdop(polygon(6, radius=3.0, height=4.0), [[0.0, 0.0, 0.0]])
    assert found == pytest.approx([2.0 / np.sqrt(6) / 0.6])


def test_a_tetrahedron_of_anchors_in_space() -> None:
    """Four anchors at the corners of a regular tetrahedron: H^T H is 4/3 of the identity."""
    anchors = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    assert gdop(anchors, [[0.0, 0, 0]], dimensions=3) == pytest.approx([np.sqrt(3 * 3 / 4)])


@pytest.mark.parametrize("dimensions", [2, 3])
def test_it_agrees_with_the_position_solver(dimensions: int) -> None:
    rng = np.random.default_rng(3)
    anchors = np.column_stack([rng.uniform(-10, 10, (6, 2)), rng.uniform(2, 6, 6)])
    for place in np.column_stack([rng.uniform(-8, 8, (5, 2)), np.full(5, 1.0)]):
        ranges = np.linalg.norm(anchors - place, axis=1)
        fix = locate(anchors, ranges, height_m=1.0 if dimensions == 2 else None, start=place)
        assert gdop(anchors, [place], dimensions=dimensions) == pytest.approx(fix.gdop, rel=1e-6)


def test_the_error_of_positions_is_dilution_times_scatter() -> None:
    rng = np.random.default_rng(4)
    anchors, place, sigma, draws = polygon(5, height=3.0), np.array([6.0, 2.0, 1.0]), 0.01, 20_000
    ranges = np.linalg.norm(anchors - place, axis=1) + rng.normal(0.0, sigma, (draws, 5))
    error = locate(anchors, ranges, sigma, height_m=1.0).position - place
    mean_square = np.mean(np.sum(error[:, :2] ** 2, axis=1))
    expected = (gdop(anchors, [place])[0] * sigma) ** 2
    # A mean of squares of two normal numbers: its relative standard deviation is at most sqrt(2 / draws).
    assert mean_square == pytest.approx(expected, rel=5 * np.sqrt(2 / draws))


def test_anchors_that_give_no_position() -> None:
    line = np.array([[-5.0, 0, 2], [0, 0, 2], [5, 0, 2], [9, 0, 2]])
    found = gdop(line, [[2.0, 0.0, 2.0], [2.0, 3.0, 2.0]])
    assert np.isinf(found[0])
    assert np.isfinite(found[1])
    assert np.isinf(gdop(line, [[2.0, 3.0, 2.0]], dimensions=3)).all()
    square = polygon(4)
    visible = np.array([[True, True], [True, False], [True, True], [True, False]])
    assert np.isinf(gdop(square, [[1.0, 2, 0], [1, 2, 0]], visible, least=3)).tolist() == [False, True]
    assert np.isinf(gdop(square[:2], [[1.0, 2, 0]], least=3)).all()
    with pytest.raises(ConfigError, match="must be 2 or 3"):
        gdop(square, [[0, 0, 0]], dimensions=4)


def test_positions_far_worse_than_their_ranges_are_none() -> None:
    """Two anchors at 1 m on both sides fix a place along their line; off the line the dilution is 1 / (sqrt(2) y)."""
    pair = np.array([[-1.0, 0, 0], [1.0, 0, 0]])
    found = gdop(pair, [[0.0, 2e-4, 0.0], [0.0, 5e-5, 0.0]])
    assert found[0] == pytest.approx(1.0 / (np.sqrt(2.0) * 2e-4), rel=1e-3)
    assert np.isinf(found[1])


# ---- search ----------------------------------------------------------------------------------------------------------


def best_of_all(score: Score, choose: int) -> float:
    return max(score.of(chosen) for chosen in combinations(range(score.count), choose))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["one point", "three points", "both", "anchors", "anchors in space"])
def test_exact_search_finds_the_best_of_all_combinations(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, choose = int(rng.integers(6, 10)), int(rng.integers(2, 5))
    objectives = {
        "one point": lambda: [covered(rng, count, 60)],
        "three points": lambda: [covered(rng, count, 60, 3)],
        "both": lambda: [covered(rng, count, 60, 2), covered(rng, count, 40, name="blind")],
        "anchors": lambda: [located(rng, count, 25)],
        "anchors in space": lambda: [located(rng, count, 25, 3)],
    }[kind]()
    score = Score(objectives, count)
    quick = greedy(score, choose)
    exact = Exact(score, choose, quick).run()
    assert exact.score == pytest.approx(best_of_all(score, choose), abs=1e-12)
    assert exact.score == pytest.approx(score.of(exact.chosen), abs=1e-12)
    assert quick.score == pytest.approx(score.of(quick.chosen), abs=1e-12)
    assert quick.score <= exact.score + 1e-12
    assert len(set(quick.chosen)) == len(set(exact.chosen)) == choose


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["one point", "three points", "anchors", "anchors in space"])
def test_values_are_those_of_the_sets_and_bounds_hold(kind: str, seed: int) -> None:
    """From any state: the value of each further candidate, of all of them, and a bound on every choice of them."""
    rng = np.random.default_rng(40 + seed)
    one = {
        "one point": lambda: covered(rng, 8, 50),
        "three points": lambda: covered(rng, 8, 50, 3),
        "anchors": lambda: located(rng, 8, 20),
        "anchors in space": lambda: located(rng, 8, 20, 3),
    }[kind]()

    def state_of(*chosen: int) -> Any:
        state = one.start()
        for candidate in chosen:
            state = one.with_one(state, candidate)
        return state

    for chosen in ((), (0,), (0, 3), (0, 3, 5, 6)):
        state, left = state_of(*chosen), np.array([k for k in range(8) if k not in chosen])
        values = one.values(state, left)
        assert values == pytest.approx([one.value(state_of(*chosen, int(k))) for k in left], abs=1e-12)
        assert one.value_with_all(state, left) == pytest.approx(one.value(state_of(*chosen, *left)), abs=1e-12)
        for more in (1, 2, 3):
            best = max(one.value(state_of(*chosen, *further)) for further in combinations(left.tolist(), more))
            bound = one.bound(state, values, left, more)
            assert best <= bound + 1e-12
            assert bound <= one.value_with_all(state, left) + 1e-12
            if one.submodular:
                gains = np.sort(values)[::-1][:more] - one.value(state)
                assert bound <= one.value(state) + gains.sum() + 1e-12
        promised = one.promise(state, left)
        if isinstance(one, Covered):
            share = [np.minimum(state + one.points[k], one.at_least) @ one.cell_weight / one.at_least for k in left]
            assert promised == pytest.approx(share, abs=1e-12)
        else:
            size, order = (2, [0, 1, 1, 2]) if one.parts.shape[2] == 3 else (3, [0, 1, 3, 1, 2, 4, 3, 4, 5])
            matrices = [(state.parts + one.parts[k])[:, order].reshape(-1, size, size) for k in left]
            determinants = [np.linalg.det(np.eye(size) + matrix / 0.01) for matrix in matrices]
            assert promised == pytest.approx([np.log(each).mean() for each in determinants], abs=1e-9)


def test_greedy_coverage_keeps_its_promise() -> None:
    shares = []
    for seed in range(40):
        rng = np.random.default_rng(100 + seed)
        score = Score([covered(rng, 12, 80)], 12)
        quick = greedy(score, 4)
        shares.append(quick.score / Exact(score, 4, quick).run().score)
    assert score.submodular
    assert min(shares) >= 1.0 - np.exp(-1.0)
    assert min(shares) < 1.0  # greedy is not exact, so the test is meaningful


def test_a_trap_for_greedy() -> None:
    """The middle set is the largest, but the two halves together cover everything."""
    points = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 1, 0]])
    score = Score([Covered("coverage", 1.0, points, np.ones(6))], 3)
    quick = greedy(score, 2)
    assert quick.chosen == (2, 0)
    assert quick.history == pytest.approx((4 / 6, 5 / 6))
    exact = Exact(score, 2, quick)
    assert exact.run().chosen == (0, 1)
    assert exact.visited <= 3


def test_bounds_hold_and_cut() -> None:
    rng = np.random.default_rng(7)
    score = Score([covered(rng, 14, 200), located(rng, 14, 30)], 14)
    quick = greedy(score, 5)
    everyone = np.arange(14)
    parts = score.parts(score.start(), everyone)
    exact = Exact(score, 5, quick)
    found = exact.run()
    assert found.score <= score.bound(score.start(), parts, everyone, 5) + 1e-12
    one = score.with_one(score.start(), 3)
    rest = np.delete(everyone, 3)
    reachable = max(score.of((3, *more)) for more in combinations(rest.tolist(), 2))
    assert reachable <= score.bound(one, score.parts(one, rest), rest, 2) + 1e-12
    assert exact.visited < 2002  # 14 over 5


@pytest.mark.parametrize("dimensions", [2, 3])
def test_all_candidates_together(dimensions: int) -> None:
    rng = np.random.default_rng(11)
    everyone = list(range(7))
    for one in (covered(rng, 7, 50, 2), located(rng, 7, 20, dimensions)):
        score = Score([one], 7)
        assert one.value_with_all(one.start(), np.array(everyone)) == pytest.approx(score.of(everyone))
        assert score.of(everyone) > score.of(everyone[:4]) > 0.0


def test_progress_is_reported_for_every_branch() -> None:
    rng = np.random.default_rng(12)
    score = Score([covered(rng, 8, 30)], 8)
    for choose in (1, 3, 8):
        calls: list[int] = []
        quick = greedy(score, choose, lambda calls=calls: calls.append(1))
        assert len(calls) == choose
        Exact(score, choose, quick).run(lambda calls=calls: calls.append(1))
        assert len(calls) == 9  # one call for each branch at the root


def test_candidates_that_add_nothing_yet_are_ranked() -> None:
    """The first two anchors give no position; greedy still prefers those visible most, from different sides."""
    anchors = np.concatenate([polygon(4), polygon(4, radius=11.0)])
    visible = np.ones((8, 9), bool)
    visible[:4] = False
    tags = np.column_stack([np.random.default_rng(0).uniform(-3, 3, (9, 2)), np.zeros(9)])
    score = Score([Located(1.0, information(anchors, tags, visible), visible, 3, 0.1, 1.0)], 8)
    quick = greedy(score, 4)
    assert set(quick.chosen) == {4, 5, 6, 7}
    assert quick.history[0] == quick.history[1] == 0.0
    assert quick.history[2] > 0.8
    points = np.random.default_rng(1).uniform(-5, 5, (2, 6, 3))
    one = Located(1.0, information(points[0], points[1], None, 3), np.ones((6, 6), bool), 4, 0.1, 1.0)
    unit = (points[1] - points[0][2]) / np.linalg.norm(points[1] - points[0][2], axis=1, keepdims=True)
    # For one unit vector u, det(1 + 100 u u^T) is 101.
    assert one.promise(one.start(), np.array([2])) == pytest.approx([np.log(101.0)])
    state = one.with_one(one.start(), 0)
    first = points[1] - points[0][0]
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    cosine = np.sum(unit * first, axis=1)
    expected = np.log(101.0**2 - (100.0 * cosine) ** 2).mean()
    assert one.promise(state, np.array([2])) == pytest.approx([expected])
    few = Score([Covered("coverage", 1.0, np.array([[1, 0], [2, 2], [0, 2]]), np.ones(2), 4)], 3)
    assert greedy(few, 2).chosen == (1, 2)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_bound_of_positions_by_hand(dimensions: int) -> None:
    """sigma d / sqrt(trace) with the traces of the best candidates, or the error with all of them if that is larger."""
    one = located(np.random.default_rng(3), 9, 6, dimensions)
    diagonal = [0, 2] if dimensions == 2 else [0, 2, 5]
    state, rest = one.with_one(one.start(), 4), np.array([0, 1, 2, 3, 5, 6])
    level = one.parts[rest][:, :, diagonal].sum(axis=2)
    trace = state.parts[:, diagonal].sum(axis=1) + np.sort(level, axis=0)[-2:].sum(axis=0)
    count = state.count + np.minimum(one.visible[rest].sum(axis=0), 2)
    everyone = one.errors(state.parts + one.parts[rest].sum(axis=0), count)
    errors = np.maximum(0.1 * dimensions / np.sqrt(trace), everyone)
    expected = np.mean(1.0 - np.minimum(errors, 1.0))
    assert one.bound(state, np.zeros(6), rest, 2) == pytest.approx(expected, rel=1e-12)
    check(
        f"placement/located-{dimensions}", values=one.values(state, rest), promise=one.promise(state, rest),
        all=one.value_with_all(state, rest), bound=one.bound(state, np.zeros(6), rest, 3),
    )  # fmt: skip
