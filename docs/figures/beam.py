"""Sub-rays of a footprint, and agreement of adaptive sampling with tracing all of them: docs/images/lidar-beam.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.patches import Ellipse
from numpy.typing import NDArray
from page import BLUE, GREEN, GREY, ORANGE, RED, changed, finish, sheet

import parhelion as ph
from parhelion.sensors.optics.lidar.emit import ALL_PROBES, MIDDLE, PROBES, footprint

SENSOR = "velodyne/vlp-16"


def draw_footprint(axes: Any) -> None:
    """The 25 sub-rays in the order adaptive sampling takes them, in milliradians."""
    beam = ph.Lidar(SENSOR).config.beam
    points = footprint(beam)
    slope = 1e3 * points.slope.astype(float)
    late = np.array([MIDDLE, *range(MIDDLE + 1, ALL_PROBES)])
    groups = (
        (slice(ALL_PROBES, None), GREY, 16, "the rest, where still open"),
        (late, ORANGE, 34, "five more, where those disagree"),
        (slice(0, PROBES), RED, 34, "four probes, always"),
    )
    for rows, colour, size, label in groups:
        axes.scatter(*slope[rows].T, s=size, color=colour, label=label, zorder=3)
    for first, second in points.sector_rim:
        for probe in (first, second):
            axes.plot(*np.stack([slope[MIDDLE], slope[probe]]).T, color=GREY, linewidth=0.4)
    width, height = beam.divergence_mrad
    axes.add_patch(Ellipse((0, 0), width, height, fill=False, edgecolor=BLUE, linewidth=1.2))
    axes.text(0, -height / 2 - 0.12, "1/e² of the stated divergence", color=BLUE, fontsize=8, ha="center", va="top")
    axes.set(
        xlabel="horizontal [mrad]", ylabel="vertical [mrad]", title=f"{SENSOR}: 25 sub-rays of equal weight",
        xlim=(-2.0, 2.0), ylim=(-1.55, 1.75), aspect="equal",
    )  # fmt: skip
    axes.legend(fontsize=8, loc="upper center", ncols=1, framealpha=1)


def by_shot(scan: ph.Scan, name: str) -> NDArray[np.float64]:
    """A field as one value per shot, NaN without a return; one return per shot."""
    values = np.full(len(scan.shots), np.nan)
    values[scan.fields["shot"]] = scan.fields[name]
    return values


def draw_agreement(axes: Any) -> None:
    """Share of the city's beams whose result differs by more than x between adaptive and fixed sampling."""
    world = ph.World.load("city")
    # The reported range is not quantised here, because that would turn a micrometre into a millimetre.
    smooth = changed("ouster/os1-128", range={"resolution_m": 0.0})
    few, full = (ph.Lidar(smooth, noise=False, sampling=way).scan(world) for way in ("adaptive", "fixed"))
    casts = few.metadata["casts_per_beam"], full.metadata["casts_per_beam"]
    off_m = np.abs(by_shot(few, "range") - by_shot(full, "range"))
    off_power = np.abs(by_shot(few, "power") / by_shot(full, "power") - 1.0)
    seen = np.isfinite(by_shot(few, "range")) | np.isfinite(by_shot(full, "range"))
    for values, unit, limit, colour in (
        (1e3 * off_m, "range [mm]", 1.0, BLUE),
        (100 * off_power, "power [%]", 1.0, GREEN),
    ):
        # A return in only one of the scans counts as a difference of any size.
        off = np.sort(np.where(np.isfinite(values[seen]), values[seen], np.inf))
        share = 100.0 * (1.0 - np.arange(1, len(off) + 1) / len(off))
        within = 100.0 * np.mean(off <= limit)
        axes.loglog(
            np.maximum(off, 1e-4),
            np.maximum(share, 1e-3),
            color=colour,
            label=f"{unit}: {within:.2f} % within {limit:g}",
        )
        print(f"{unit}: {within:.3f} % within {limit:g}")
    axes.axvline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    axes.set(
        xlabel="difference from tracing all 25 sub-rays", ylabel="beams that differ by more [%]",
        title=f"os1-128 in the city: {casts[0]:.1f} casts a beam for {casts[1]:.1f}",
        xlim=(1e-3, 1e4), ylim=(1e-2, 100),
    )  # fmt: skip
    axes.legend(fontsize=8)
    print(f"casts a beam: {casts[0]:.2f} adaptive, {casts[1]:.2f} fixed; {seen.sum()} beams with a return")


if __name__ == "__main__":
    figure, (left, right) = sheet(10.0, 4.1, 2)
    draw_footprint(left)
    draw_agreement(right)
    finish(figure, "lidar-beam")
