"""The answers of the two examples of placement: docs/images/placement-city.png, placement-warehouse.png, and numbers.

The tables of docs/placement.md, and how simulated ranging compares with the errors foretold, are printed.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import yaml
from page import IMAGES, MOST_BYTES
from PIL import Image

import parhelion as ph
from parhelion.core.trajectory import Fixed
from parhelion.evaluate.placement import Answer, Placement, result_of
from parhelion.evaluate.placement.report import answer_picture

EXAMPLES = IMAGES.parents[1] / "examples" / "placement"
WIDTH = 1400


def draw(example: str, name: str) -> Answer:
    """The picture of one example, as wide as a page shows it."""
    answer = Placement.load(EXAMPLES / f"{example}.yaml").solve()
    figure = answer_picture(answer)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", facecolor=figure.get_facecolor())
    picture = Image.open(stream).convert("RGB")
    size = WIDTH, round(WIDTH * picture.height / picture.width)
    file = IMAGES / f"{name}.png"
    picture.resize(size, Image.Resampling.LANCZOS).save(file, optimize=True)
    print(f"{file}: {file.stat().st_size / 1e3:.0f} kB")
    if file.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{file}: larger than {MOST_BYTES / 1e3:.0f} kB")
    return answer


def print_pairs(answer: Answer) -> None:
    """Scores of some pairs of lidars: all, coverage of what all see, blind ground."""
    question, score = answer.question, answer.score
    number = {one.name: k for k, one in enumerate(question.candidates)}
    named = [[question.candidates[k].name for k in found.chosen] for found in (answer.best, answer.greedy)]
    named += [["front-left-3", "back-right-3"], ["left", "right"], ["front", "back"], ["mast", "lid"], ["mast"]]
    coverage, blind = (one for one in score.objectives)
    with_all: Any = score.state_of(range(score.count))
    entry = question.settings.score.blind
    assert entry is not None
    for names in named:
        state = score.state_of([number[name] for name in names])
        share = coverage.value(state[0]) / coverage.value(with_all[0])
        area = (1.0 - blind.value(state[1])) * len(state[1]) * entry.cell_m**2 / len(question.poses)
        print(f"{', '.join(names)}: {score.value(state):.3f}, {100 * share:.1f} %, {area:.1f} m²")


def print_counts() -> None:
    """The best three to eight anchors."""
    fields = yaml.safe_load((EXAMPLES / "warehouse-anchors.yaml").read_text(encoding="utf-8"))
    for count in (3, 4, 5, 6, 8):
        result = result_of(Placement.from_mapping({**fields, "choose": count}, EXAMPLES).solve())
        facts, search = result["parts"]["localisation"], result["search"]
        lost = "not known" if search["gap"] is None else f"{100 * search['gap'] / result['score']:.1f} %"
        print(
            f"{count}: {search['used']}, {search['visited']} of {search['combinations']}, "
            f"{facts['mean_error_m']:.3f} m, {facts['error_95_m']:.3f} m, "
            f"{100 * facts['share_with_position']:.0f} %, greedy loses {lost}; at most "
            f"{100 * (search['upper_bound'] / result['score'] - 1):.0f} % better"
        )


def print_trust(answer: Answer, places: int = 30, fixes: int = 20) -> None:
    """Errors of positions by the whole simulation of ranging, with and without mirrors, beside those foretold."""
    question = answer.question
    located: Any = answer.score.objectives[0]
    state = answer.score.state_of(answer.best.chosen)[0]
    foretold = located.errors(state.parts, state.count)
    anchors = {question.candidates[k].name: question.candidates[k].pose.xyz for k in answer.best.chosen}
    sheet = ph.Uwb("qorvo/dw1000").config.model_copy(update={"unit_bias_m": 0.0})
    groups = {
        "all in sight": state.count == len(anchors),
        "some in sight": (state.count < len(anchors)) & (foretold < located.limit_m),
    }
    for order in (0, 2):
        tag = ph.Uwb(sheet, anchors=anchors, height_m=1.2, rate_hz=10.0, order=order)
        for name, group in groups.items():
            rows = np.random.default_rng(0).choice(np.flatnonzero(group), places, replace=False)
            squares = []
            for row in rows:
                place = question.maps.places[row]
                found = tag.run(question.world, Fixed(ph.Pose(place)), 0.0, fixes / 10.0, seed=int(row))
                squares.append(np.mean(np.sum((found.position[:, :2] - place[:2]) ** 2, axis=1)))
            print(
                f"{order} mirrors, {name}: root mean square {np.sqrt(np.nanmean(squares)):.3f} m (foretold "
                f"{np.sqrt(np.mean(foretold[rows] ** 2)):.3f} m), median "
                f"{np.sqrt(np.nanmedian(squares)):.3f} m (foretold {np.median(foretold[rows]):.3f} m)"
            )


if __name__ == "__main__":
    print_pairs(draw("city-lidars", "placement-city"))
    print_trust(draw("warehouse-anchors", "placement-warehouse"))
    print_counts()
