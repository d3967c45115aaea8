"""Report on realism: tables, curves, and pictures of the places that give the simulation away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from parhelion.core.pose import Floats
from parhelion.evaluate.realism.features import FEATURES, shown_value
from parhelion.evaluate.realism.rings import Frame, Numbers
from parhelion.evaluate.realism.study import Realism
from parhelion.evaluate.realism.two_sample import FeatureResult, TwoSample
from parhelion.pictures import html
from parhelion.pictures.charts import Chart, Curve
from parhelion.pictures.html import shown

PLACES = 6
_CELL_DEG = (12.0, 6.0)
"""Azimuth and elevation of a place."""
_FEWEST = 12
"""Fewest classified points of a place."""
_MATTERS = 0.003
"""Smallest importance of a feature that may explain a place."""
TESTS = {"shape": "shape", "everything": "shape and intensity"}
FEATURE_COLUMNS = ("feature", "importance", "AUC alone", "real", "simulated")


def columns(result: Realism) -> tuple[str, ...]:
    """Columns of the table of tests: the floors that the recording allows."""
    return ("test", "AUC", *(f"real/real, {split}" for split in result.floor))


def table_rows(result: Realism) -> list[tuple[str, ...]]:
    """The tests with their floors."""
    return [
        (TESTS[name], _auc(test), *(_auc(found.get(name)) for found in result.floor.values()))
        for name, test in result.tests().items()
    ]


def _auc(test: TwoSample | None) -> str:
    return "–" if test is None else html.with_interval(test.auc, test.low, test.high, ".3f")


def feature_rows(rows: Sequence[FeatureResult]) -> list[tuple[str, ...]]:
    """Features with their contribution and their medians."""
    return [
        (
            row.title,
            f"{row.importance:+.3f}",
            f"{row.auc_alone:.3f}",
            f"{shown(row.real, '.3g')} {row.unit}".strip(),
            f"{shown(row.simulated, '.3g')} {row.unit}".strip(),
        )
        for row in rows
    ]


def shot_rows(result: Realism) -> list[tuple[str, str]]:
    """Comparison shot by shot, as labelled values."""
    rows = []
    shots = result.shots
    if shots is None:
        rows.append(("shots", f"not compared: {result.unmatched}"))
    else:
        rows += [
            ("shots", f"{html.count(shots.shots)} in {shots.pairs} pairs of frames, matched by {shots.matched_by}"),
            ("range error", f"{shown(shots.range_error_median_m, '.3g')} m median, "
                            f"{shown(shots.range_error_mean_m, '.3g')} m mean"),
            ("within 10 cm", f"{shots.near_share_of_hits:.3f} of the shots that return in both, "
                             f"{shots.near_share_of_returns:.3f} of all real returns"),
            ("hit agreement", f"{shots.hit_agreement:.3f} (neighbouring real shots: "
                              f"{shots.hit_agreement_neighbours:.3f})"),
            ("simulated returns", f"for {shots.real_returns_hit:.3f} of the real returns, "
                                  f"{shots.real_losses_hit:.3f} of the real losses"),
            ("lost-shot calibration", f"error {shots.calibration_error:.3f}; Brier score {shots.brier:.3f}, constant "
                                      f"prediction {shots.brier_constant:.3f}"),
        ]  # fmt: skip
        if shots.intensity_wasserstein is not None:
            rows.append(("intensity", f"Wasserstein distance {shots.intensity_wasserstein:.3f} of the mean by range, "
                                      "with equal medians"))  # fmt: skip
    if result.chamfer is not None:
        rows.append(("Chamfer distance", f"{shown(result.chamfer['chamfer_m'], '.3g')} m; medians "
                     f"{shown(result.chamfer['simulated_to_real_median_m'], '.3g')} m from simulated to real, "
                     f"{shown(result.chamfer['real_to_simulated_median_m'], '.3g')} m back"))  # fmt: skip
    return rows


def facts(result: Realism) -> list[tuple[str, str]]:
    """Sets and their resolution, as labelled values."""
    rows = [
        (who, f"{result.frames[who]} frames, {html.count(result.points[who])} points, rings from "
              f"{result.rings_from[who]}, ranges in steps of {_step(result.range_step_m[who])}")
        for who in ("real", "simulated")
    ]  # fmt: skip
    rows.append(("common resolution", _step(result.resolution_m)))
    rings = [{(one.rings, round(np.degrees(one.step), 2)) for one in frames} for frames in result.sets]
    if not rings[0] & rings[1]:
        words = [" or ".join(f"{number} rings, {step:g}°" for number, step in sorted(one)) for one in rings]
        rows.append(("warning", f"the sets differ in rings or azimuth step, which gives them away: {words[0]} real, "
                                f"{words[1]} simulated"))  # fmt: skip
    if result.range_step_m["simulated"] > result.resolution_m:
        rows.append(("warning", "the simulated ranges are coarser than the common resolution, which gives them away"))
    if result.omitted:
        rows.append(("unknown in one set", ", ".join(name.replace("_", " ") for name in result.omitted)))
    return rows


def _step(metres: float) -> str:
    return f"{1000.0 * metres:g} mm" if metres > 0.0 else "less than 1 mm"


def verdict(result: Realism) -> str:
    """One sentence: distance from the floor, and the feature that contributes most."""
    test, name = result.best, "everything" if result.everything else "shape"
    floors = [found[name].auc for found in result.floor.values() if name in found]
    base = f"real against real: {max(floors):.2f}" if floors else "one real frame gives no floor"
    first = test.features[0]
    medians = [f"{shown(value, '.3g')} {first.unit}".strip() for value in (first.real, first.simulated)]
    if test.auc < max([0.55, *[value + 0.02 for value in floors]]):
        return f"The classifier does not separate the sets (AUC {test.auc:.2f}; {base})."
    return (
        f"The classifier separates the sets with an AUC of {test.auc:.2f} ({base}). The largest contribution is the "
        f"{first.title}: {medians[0]} real, {medians[1]} simulated (medians)."
    )


# ---- places ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecognisedPart:
    """Part of a simulated frame that the classifier recognises."""

    frame: int
    azimuth_deg: float
    elevation_deg: float
    """Centre of the cell."""
    score: float
    """Mean probability of 'simulated'."""
    reason: str
    """Feature that differs most from the real points."""
    distance_m: float


def places(result: Realism, most: int = PLACES) -> list[RecognisedPart]:
    """Cells of azimuth and elevation whose simulated points have the highest scores, the worst first."""
    sample, scores = result.samples[1], result.best.scores_simulated
    known = np.isfinite(scores)
    azimuth, elevation = _angles(result.sets[1], sample.frame, sample.row)
    cell = [np.floor(part / size).astype(np.int64) for part, size in zip((azimuth, elevation), _CELL_DEG, strict=True)]
    key = (sample.frame * 1000 + cell[0]) * 1000 + cell[1] + 500
    names, number = np.unique(key[known], return_inverse=True)
    count = np.bincount(number)
    mean = np.bincount(number, scores[known]) / count
    chosen: list[RecognisedPart] = []
    taken: set[tuple[int, int]] = set()
    for best in np.argsort(-np.where(count >= _FEWEST, mean, -1.0), kind="stable")[: 50 * most]:
        rows = np.flatnonzero(key == names[best])
        where = (int(cell[0][rows[0]]), int(cell[1][rows[0]]))
        # Neighbouring cells and further frames show the same objects.
        if count[best] < _FEWEST or any(abs(where[0] - a) <= 1 and abs(where[1] - e) <= 1 for a, e in taken):
            continue
        taken.add(where)
        frame = int(sample.frame[rows[0]])
        middle = [(k + 0.5) * size for k, size in zip(where, _CELL_DEG, strict=True)]
        metres = float(np.median(result.sets[1][frame].range[sample.row[rows]]))
        chosen.append(RecognisedPart(frame, middle[0], middle[1], float(mean[best]), _reason(result, rows), metres))
        if len(chosen) == most:
            break
    return chosen


def _angles(frames: Sequence[Frame], frame: Numbers, row: Numbers) -> tuple[Floats, Floats]:
    """Azimuth, 0 to 360, and elevation of points [deg]."""
    first = np.concatenate([[0], np.cumsum([len(one) for one in frames])])[frame] + row
    azimuth = np.concatenate([one.azimuth for one in frames])[first]
    elevation = np.concatenate([one.elevation for one in frames])[first]
    return np.degrees(azimuth), np.degrees(elevation)


def _reason(result: Realism, rows: Numbers) -> str:
    """Feature of these points that differs most from the real ones, relative to the real spread."""
    place = {feature.name: k for k, feature in enumerate(FEATURES)}
    found = []
    for one in result.best.features:
        column = place[one.name]
        own = result.samples[1].values[rows, column]
        real = result.samples[0].values[:, column]
        own, real = own[np.isfinite(own)], real[np.isfinite(real)]
        if one.importance < _MATTERS or len(own) < _FEWEST // 2 or not len(real):
            continue
        low, middle, high = np.percentile(real, [25, 50, 75])
        value = float(np.median(own))
        feature = FEATURES[column]
        words = f"{one.name.replace('_', ' ')} {shown(shown_value(feature, value), '.2g')}"
        found.append((abs(value - middle) / max(high - low, 1e-6), f"{words} {one.unit}".strip()))
    return max(found)[1] if found else "several features together"


def as_dict(result: Realism) -> dict[str, Any]:
    """Plain values, as in the JSON file, with the verdict and the worst places."""
    return {**result.as_dict(), "verdict": verdict(result), "places": [asdict(place) for place in places(result)]}


def score_picture(result: Realism, most_points: int = 12_000) -> Any:
    """Panoramas of the real and the simulated frame with the highest score, coloured by the classifier."""
    from parhelion.pictures.style import colour_bar, quiet, sheet

    test = result.best
    scores = test.scores_simulated
    known = np.isfinite(scores)
    mean = np.bincount(result.samples[1].frame[known], scores[known], len(result.sets[1]))
    counts = np.maximum(np.bincount(result.samples[1].frame[known], minlength=len(result.sets[1])), 1)
    worst = int(np.argmax(mean / counts))
    figure = sheet(11.0, 5.0)
    figure.subplots_adjust(left=0.06, right=0.9, top=0.93, bottom=0.1, hspace=0.42)
    for k, (title, value) in enumerate((("real", test.scores_real), ("simulated", scores))):
        frames, sample = result.sets[k], result.samples[k]
        number = min(worst, len(frames) - 1) if k == 0 else worst
        own = np.flatnonzero((sample.frame == number) & np.isfinite(value))[:most_points]
        azimuth, elevation = _angles(frames, sample.frame[own], sample.row[own])
        axes = figure.add_subplot(2, 1, k + 1)
        quiet(axes, f"{title}, {frames[number].name}")
        image = axes.scatter(azimuth, elevation, c=value[own], s=5, cmap="coolwarm", vmin=0, vmax=1, linewidths=0)
        axes.set(xlim=(0, 360), ylabel="elevation [°]", xlabel="azimuth [°]" if k else "")
        colour_bar(image, axes, "P(simulated)")
    return figure


def place_picture(result: Realism, found: Sequence[RecognisedPart]) -> Any:
    """Every place as the simulated and the real frame show it, coloured by range."""
    from parhelion.pictures.style import quiet, sheet

    figure = sheet(11.0, 1.0 + 2.1 * ((len(found) + 1) // 2))
    height = figure.get_size_inches()[1]
    figure.subplots_adjust(left=0.03, right=0.985, top=1 - 0.5 / height, bottom=0.12 / height, hspace=0.32, wspace=0.06)
    rows = (len(found) + 1) // 2
    for number, place in enumerate(found):
        spread: tuple[float, float] | None = None
        for k in (1, 0):
            frames = result.sets[k]
            frame = frames[min(place.frame, len(frames) - 1)]
            azimuth, elevation = np.degrees(frame.azimuth), np.degrees(frame.elevation)
            aside = (azimuth - place.azimuth_deg + 180.0) % 360.0 - 180.0
            near = (np.abs(aside) < _CELL_DEG[0]) & (np.abs(elevation - place.elevation_deg) < _CELL_DEG[1])
            metres = np.log10(frame.range[near])
            if spread is None and len(metres):
                low, high = (float(v) for v in np.percentile(metres, [2, 98]))
                spread = (low, max(high, low + 0.02))
            axes = figure.add_subplot(rows, 4, number * 2 + 2 - k)
            words = f"{number + 1}: {place.reason}, {place.distance_m:.0f} m" if k else "real, same direction"
            quiet(axes, words)
            axes.title.set_fontsize(8.5)
            low, high = spread or (0.0, 2.0)
            axes.scatter(aside[near], elevation[near], c=metres, s=4, cmap="viridis_r", vmin=low, vmax=high, lw=0)
            axes.set(
                xlim=(-_CELL_DEG[0], _CELL_DEG[0]),
                ylim=(place.elevation_deg - _CELL_DEG[1], place.elevation_deg + _CELL_DEG[1]),
                xticks=[], yticks=[],
            )  # fmt: skip
    return figure


# ---- page ------------------------------------------------------------------------------------------------------------


def page_of(result: Realism, real: str, simulated: str, command: str = "") -> str:
    """Report as HTML; `command` is the command line that created it."""
    floors = [found["shape"].auc for found in result.floor.values()]
    tiles = [
        ("AUC by shape", f"{result.shape.auc:.2f}"),
        ("AUC with intensity", f"{result.everything.auc:.2f}" if result.everything else "–"),
        ("real against real", f"{max(floors):.2f}" if floors else "–"),
        ("hit agreement", f"{result.shots.hit_agreement:.2f}" if result.shots else "–"),
    ]
    found = places(result)
    return html.page(
        "Realism",
        html.section("test", "Two-sample test", _test(result)),
        html.section("features", "Contribution of each feature", _features(result)),
        html.section("places", "Places that give the simulation away", _pictures(result, found)),
        html.section("shots", "Shot by shot", html.table((), shot_rows(result)), html.pair(*_curves(result))),
        html.section("sets", "Sets", html.table((), facts(result))),
        lead=(verdict(result), f"Real: {real}", f"Simulated: {simulated}"),
        facts=tiles,
        command=command,
    )


def _test(result: Realism) -> str:
    note = (
        "Area under the ROC curve of a classifier that separates real from simulated points by local features: 0.5 if "
        "it cannot, 1 if every point is recognised. 95 % intervals by resampling sectors of frames. Training and test "
        "never share a sector. Both sets were first brought to the same resolution of range and intensity."
    )
    return html.table(columns(result), table_rows(result), kinds="-mmmm") + html.paragraph(note)


def _features(result: Realism) -> str:
    note = (
        "Importance is the AUC that is lost if the values of the feature are shuffled among the test points; features "
        "that carry the same information share it. Medians of the selected points."
    )
    return html.table(FEATURE_COLUMNS, feature_rows(result.best.features), kinds="lnnnn") + html.paragraph(note)


def _pictures(result: Realism, found: Sequence[RecognisedPart]) -> str:
    from parhelion.pictures.images import photo_uri
    from parhelion.pictures.style import pixels_of

    def shown_picture(figure: Any, title: str, caption: str) -> str:
        uri = photo_uri(pixels_of(figure))
        return html.figure(title, html.image(uri, title, "sheet"), caption)

    parts = [
        shown_picture(
            score_picture(result),
            "Score of every classified point",
            "Red points look simulated to the classifier, blue points real. Empty stripes separate the sectors.",
        )
    ]
    if found:
        caption = (
            f"Cells of {_CELL_DEG[0]:g}° by {_CELL_DEG[1]:g}° with the highest scores and their surroundings, by "
            "range. The title names the feature that differs most from the real points. The real frame beside each "
            "shows the same direction, and the same place only if the frames correspond."
        )
        parts.append(shown_picture(place_picture(result, found), "Worst places", caption))
        rows = [
            (k + 1, result.sets[1][one.frame].name, f"{one.azimuth_deg:.0f}°", f"{one.elevation_deg:.0f}°",
             f"{one.distance_m:.1f} m", f"{one.score:.2f}", one.reason)
            for k, one in enumerate(found)
        ]  # fmt: skip
        heads = ("place", "frame", "azimuth", "elevation", "distance", "score", "differs most in")
        parts.append(html.table(heads, rows, kinds="nlnnnnl"))
    return "".join(parts)


def _curves(result: Realism) -> list[str]:
    if result.shots is None:
        return []
    bins = [row for row in result.shots.calibration if row["shots"] >= 20]
    share = [row["predicted"] for row in bins]
    curves = [
        Curve.of("simulation", share, [row["real"] for row in bins], 0, "joined"),
        Curve.of("calibrated", [0.0, 1.0], [0.0, 1.0], 7, "dashed"),
    ]
    parts = [
        Chart(curves, "real share of returns", "simulated share of returns around the shot", zero=True).figure(
            "Calibration of lost shots", "Simulated share over three rings and nine columns."
        )
    ]
    if result.shots.intensity:
        middle = [float(np.sqrt(max(row["from_m"], 2.0) * min(row["to_m"], 120.0))) for row in result.shots.intensity]
        lines = [
            Curve.of(name, middle, [row[word] for row in result.shots.intensity], k, "joined")
            for k, (name, word) in enumerate((("as recorded", "recorded"), ("equal medians", "scaled")))
        ]
        parts.append(
            Chart(lines, "Wasserstein distance / real mean", "range [m]", zero=True, log="x").figure(
                "Intensity by range"
            )
        )
    return parts
