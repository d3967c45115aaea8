"""Tables and pictures of docs/models/lidar-near-field.md: properties of real receivers from recordings.

python docs/figures/near_field.py    # some ten seconds; needs the recordings, see docs/figures/recordings.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from near_field_measures import (
    PHOTON_EDGES,
    Overlap,
    RangeNoise,
    dropout,
    fit_sigma,
    overlap,
    pile_up,
    range_noise,
    retro_scale,
    returned_share,
)
from near_field_pictures import draw_noise, draw_overlap
from recordings import FILES, Frame, read
from weather_page import table

PAGE = Path(__file__).resolve().parents[1] / "models" / "lidar-near-field.md"
PLATEAU_M = {"os0-32": (6.0, 9.0), "os1-32": (25.0, 79.0)}
"""Range where the curve is level, by recording. No recording of an OS2 is available."""
OPEN_M = {"os0-32": 3.4, "os1-32": 6.0}
"""Range from which the strengths of rows are compared."""
PUBLISHED = {
    "os0-32": (
        (1.9, 0.045), (2.1, 0.085), (2.4, 0.14), (2.6, 0.21), (2.9, 0.33), (3.2, 0.46), (3.7, 0.63), (4.2, 0.76),
        (4.7, 0.87), (5.5, 0.93), (6.5, 1.0),
    ),
    "os1-32": (
        (2.4, 0.013), (3.2, 0.019), (3.7, 0.027), (4.2, 0.046), (4.7, 0.078), (5.5, 0.109), (6.5, 0.227), (7.5, 0.348),
        (8.5, 0.423), (9.5, 0.521), (11.0, 0.637), (13.0, 0.76), (15.4, 0.861), (18.4, 0.954), (22.0, 1.0),
    ),
}  # fmt: skip
"""Range [m] and overlap of the OS0 and the OS1 as found before on more recordings of these families."""
MANY = 200
"""Number of points that a bin needs for the comparison."""
PERCENTILES = (1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0)
RANGES_M = (0.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 50.0, 80.0, np.inf)
REFLECTIVITIES = (0.0, 2.0, 5.0, 10.0, 20.0, 35.0, 50.0, 75.0, 101.0, 256.0)
BRIGHT = (100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 1000.0)
RETRO = (80.0, 101.0, 120.0, 140.0, 165.0, 200.0, 230.0, 256.0)
FEW_PHOTONS = range(3, 19)


def write(name: str, content: str) -> None:
    """Put tables between their marks on the page, and show them."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{PAGE}: has no marks for {name!r}")
    PAGE.write_text(f"{before}{begin}\n\n{content}\n\n{end}{after}", encoding="utf-8")
    print(f"{name}\n{content}\n", flush=True)


def span(low: float, high: float) -> str:
    """A bin in words."""
    return f"{low:g}–{high:g}" if np.isfinite(high) else f"> {low:g}"


def percent(part: float, whole: float) -> str:
    return f"{100.0 * part / whole:.1f} %" if whole else "–"


def difference(ratio: float) -> str:
    """A ratio as a difference from 1, without a minus before 0."""
    return f"{round(100.0 * (ratio - 1.0)) + 0:+d} %"


def quantiles(values: np.ndarray) -> list[str]:
    return [f"{value:.0f}" for value in np.percentile(values, PERCENTILES)]


def overlap_tables(curves: dict[str, Overlap]) -> None:
    """Bin by bin, and how far that is from the published points."""
    for name, curve in curves.items():
        at, share = np.array(PUBLISHED[name]).T
        known = np.exp(np.interp(np.log(curve.range), np.log(at), np.log(share), left=np.nan))
        rows = [
            [
                f"{r:.2f}", f"**{xi:.3g}**", f"{low:.3g}–{high:.3g}", count, f"{plain:.3g}",
                f"{other:.3g}" if np.isfinite(other) else "–",
                difference(xi / other) if np.isfinite(other) else "–",
            ]
            for r, xi, low, high, count, plain, other in zip(
                curve.range, curve.share, curve.low, curve.high, curve.count, curve.plain, known, strict=True
            )
        ]  # fmt: skip
        columns = ["R [m]", "ξ", "68 % interval", "points", "rows as they are", "published", "difference"]
        many = (curve.count >= MANY) & np.isfinite(known)
        inside = many & (curve.range <= at[-1])
        notes = [f"Plateau: {curve.constant:.0f} ± {curve.constant_error:.0f} photons · m² for 100 %."]
        for what, mask in ((f"up to {at[-1]:g} m", inside), ("beyond", many & ~inside)):
            off = curve.share[mask] / known[mask]
            notes.append(
                f"Against the published points, bins of {MANY} points or more, {what}: {difference(off.min())} to "
                f"{difference(off.max())}, median {difference(np.median(off))}."
            )
        factor = curve.row_factor
        notes.append(f"Rows differ: {factor.min():.2f} to {factor.max():.2f} of the median row.")
        write(f"overlap-{name}", table(columns, rows) + "\n\n" + " ".join(notes))


def photon_table(curves: dict[str, Overlap]) -> None:
    """Photons of a 10 % target, which fix the scale of the signal."""
    ranges = np.array([2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 40.0])
    rows = [[name, *(f"{count:.1f}" for count in curve.photons(0.1, ranges))] for name, curve in curves.items()]
    write("photons", table(["photons of 10 % at", *(f"{r:g} m" for r in ranges)], rows))


def noise_tables(noises: dict[str, RangeNoise]) -> None:
    """Range noise by photons, and the two laws fitted to it."""
    rows = []
    for k, (low, high) in enumerate(pairwise(PHOTON_EDGES)):
        row = [span(low, high)]
        for noise in noises.values():
            sigma, error, rough = (f"{100.0 * part[k]:.2f}" for part in (noise.sigma_m, noise.error_m, noise.all_m))
            row += [f"**{sigma}** ± {error}", str(noise.count[k]), rough]
        rows.append(row)
    columns = ["photons"]
    for name in noises:
        columns += [f"{name}, flat [cm]", "windows", "all [cm]"]
    laws = []
    for name, noise in noises.items():
        for what, most, power in (("all bins", np.inf, 1.0), ("below 100", 100.0, 1.0), ("below 100", 100.0, 0.5)):
            floor, slope, misfit = fit_sigma(noise, most, power)
            law = "photons" if power == 1.0 else "√photons"
            laws.append([name, what, law, f"{100.0 * floor:.2f}", f"{100.0 * slope:.2f}", f"{100.0 * misfit:.0f} %"])
    fits = table(["fit", "photons", "law in", "σ_0 [cm]", "σ_1 [cm · law]", "misfit"], laws)
    write("noise", table(columns, rows) + "\n\n" + fits)


def weak_tables(frames: dict[str, Frame]) -> None:
    """The weakest and strongest returns, dropout, and what lost pixels carry."""
    rows = []
    for name, frame in frames.items():
        signal, near_ir = frame.signal, frame.near_ir
        lost = frame.lost & ~frame.withheld
        for what, mask in (("returned", ~frame.lost), ("lost", lost), ("withheld", frame.withheld)):
            rows.append([f"{name}, {what}", int(mask.sum()), "photons", *quantiles(signal[mask])])
            rows.append(["", "", "near infrared", *quantiles(near_ir[mask])])
    heads = [f"{p:g} %" for p in PERCENTILES]
    write("lost", table(["pixels", "number", "field", *heads], rows))
    weak = []
    for name, frame in frames.items():
        photons = frame.signal[~frame.lost]
        weak.append([
            name, *(f"{value:.0f}" for value in np.percentile(photons, (0.1, 1.0, 5.0))),
            *(percent((photons < limit).sum(), len(photons)) for limit in (8, 12)), f"{photons.max():.0f}",
        ])  # fmt: skip
    columns = ["photons of returns", "0.1 %", "1 %", "5 %", "below 8", "below 12", "largest"]
    write("weak", table(columns, weak))
    seen = []
    for name, frame in frames.items():
        third, two_thirds = np.percentile(frame.near_ir, (100.0 / 3.0, 200.0 / 3.0))
        dark, bright = frame.near_ir < third, frame.near_ir >= two_thirds
        for what, among in (("all", None), (f"near ir < {third:.0f}", dark), (f"near ir ≥ {two_thirds:.0f}", bright)):
            found = returned_share(frame, FEW_PHOTONS, among)
            seen.append([f"{name}, {what}", *(f"{100.0 * share:.0f}" if number else "–" for _, number, share in found)])
    losses = []
    for k, (low, high) in enumerate(pairwise(PHOTON_EDGES)):
        found = [dropout(frame, PHOTON_EDGES)[k] for frame in frames.values()]
        losses.append(
            [span(low, high), *(f"{percent(lost, whole)} ({lost} of {whole})" for _, _, whole, lost in found)]
        )
    write(
        "dropout",
        table(["photons of the neighbours", *(f"{name}, lost" for name in frames)], losses)
        + "\n\n"
        + table(["returns [%] at so many photons", *map(str, FEW_PHOTONS)], seen),
    )


def bright_tables(frames: dict[str, Frame], curves: dict[str, Overlap]) -> None:
    """Pile-up of many photons, and the counts above 100."""
    piled = {name: pile_up(frames[name], curve, BRIGHT) for name, curve in curves.items()}
    retro = {name: retro_scale(frames[name], curve, RETRO) for name, curve in curves.items()}
    for mark, first, found, form in (
        ("pile-up", "photons", piled, "{:.2f}"), ("retro", "reflectivity [counts]", retro, "{:.0f} %")
    ):  # fmt: skip
        rows = [
            [
                span(*bins[:2]),
                *(f"{form.format(found[n][k][3])} ({found[n][k][2]})" if found[n][k][2] else "–" for n in found),
            ]
            for k, bins in enumerate(next(iter(found.values())))
        ]
        write(mark, table([first, *found], rows))


def near_ir_table(frames: dict[str, Frame]) -> None:
    """Near infrared by reflectivity: 5, 50 and 95 %, and the median with the rows made equal."""
    rows = []
    for low, high in pairwise(REFLECTIVITIES):
        row = [span(low, high - 1)]
        for frame in frames.values():
            mask = ~frame.lost & (frame.reflectivity >= low) & (frame.reflectivity < high)
            even = frame.near_ir / np.median(frame.near_ir, axis=1, keepdims=True)
            spread = " / ".join(f"{value:.0f}" for value in np.percentile(frame.near_ir[mask], (5, 50, 95)))
            row += [spread, f"{np.median(even[mask]):.2f}"]
        rows.append(row)
    columns = ["reflectivity [counts]"]
    for name in frames:
        columns += [name, "over the row's median"]
    write("near-ir", table(columns, rows))


def signal_tables(frames: dict[str, Frame]) -> None:
    """Signal and ranges of every recording, for comparison with simulated scans."""
    rows, shares = [], []
    for name, frame in frames.items():
        has_signal = np.isfinite(frame.signal).any()
        level = frame.signal[~frame.lost] if has_signal else frame.reflectivity[~frame.lost]
        what = "reflectivity" if not has_signal else "intensity" if name.startswith("vlp") else "photons"
        points = [f"{value:.0f}" for value in np.percentile(level, (1, 50, 99))]
        far = [f"{value:.1f}" for value in np.percentile(frame.range[~frame.lost], (1, 50, 99))]
        rows.append([name, frame.lost.size, percent(frame.lost.sum(), frame.lost.size), what, *points, *far])
        counts = np.histogram(frame.range[~frame.lost], RANGES_M)[0]
        shares.append([name, *(f"{100.0 * count / counts.sum():.1f}" for count in counts)])
    columns = ["recording", "pulses", "lost", "level", "1 %", "50 %", "99 %", "R 1 % [m]", "50 %", "99 %"]
    spans = [span(a, b) for a, b in pairwise(RANGES_M)]
    write("signal", table(columns, rows) + "\n\n" + table(["returns [%] by range [m]", *spans], shares))


def vlp16_tables(frame: Frame) -> None:
    """Intensity, noise and lost pulses of the Velodyne."""
    edges = (1.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 40.0, 60.0, 130.0)
    noise = range_noise(frame, frame.range, edges)
    rows = []
    for k, (low, high) in enumerate(pairwise(edges)):
        level = frame.signal[(frame.range >= low) & (frame.range < high)]
        spread = " / ".join(f"{value:.0f}" for value in np.percentile(level, (5, 50, 95))) if len(level) else "–"
        sigma = f"{100.0 * noise.sigma_m[k]:.1f} ± {100.0 * noise.error_m[k]:.1f}" if noise.count[k] else "–"
        rows.append([span(low, high), len(level), spread, percent((level == 0).sum(), len(level)), sigma])
    columns = ["R [m]", "returns", "intensity 5 / 50 / 95 %", "intensity 0", "range noise, flat [cm]"]
    levels = (0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 101.0)
    by_level = range_noise(frame, frame.signal, levels)
    scatter = [
        [
            span(low, high - 1),
            f"{100.0 * by_level.sigma_m[k]:.2f} ± {100.0 * by_level.error_m[k]:.2f}",
            by_level.count[k],
        ]
        for k, (low, high) in enumerate(pairwise(levels))
    ]
    lost = [f"{100.0 * share:.0f}" for share in frame.lost.mean(axis=1)]
    write(
        "vlp-16",
        "\n\n".join((
            table(columns, rows),
            table(["intensity", "range noise, flat [cm]", "windows"], scatter),
            table(["elevation [deg]", *(f"{e:g}" for e in frame.elevation_deg)], [["lost [%]", *lost]]),
        )),
    )  # fmt: skip


def main(names: Iterable[str] = FILES, counted: Sequence[str] = tuple(PLATEAU_M)) -> None:
    """Everything; `counted` are the recordings that hold photons."""
    try:
        frames = {name: read(name)[0] for name in names}
    except FileNotFoundError as missing:
        raise SystemExit(f"{missing}; the page keeps its earlier figures") from None
    photons = {name: frames[name] for name in counted}
    curves = {name: overlap(frame, PLATEAU_M[name], OPEN_M[name]) for name, frame in photons.items()}
    noises = {name: range_noise(frame, frame.signal, PHOTON_EDGES) for name, frame in photons.items()}
    overlap_tables(curves)
    photon_table(curves)
    noise_tables(noises)
    weak_tables(photons)
    bright_tables(photons, curves)
    near_ir_table(photons)
    signal_tables(frames)
    vlp16_tables(frames["vlp-16"])
    draw_overlap(curves, PUBLISHED)
    draw_noise(noises, {name: returned_share(frame, range(2, 26)) for name, frame in photons.items()})


if __name__ == "__main__":
    main()
