"""Pictures of the near field: docs/images/near-field-overlap.png and docs/images/near-field-noise.png."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from near_field_measures import Overlap, RangeNoise, fit_sigma
from page import BLUE, GREEN, GREY, ORANGE, RED, finish, sheet

COLOURS = {"os0-32": BLUE, "os1-32": ORANGE}
CLASS_CURVE = ((2.5, 0.0), (3.5, 0.02), (5.0, 0.1), (8.0, 0.3), (12.0, 0.55), (20.0, 1.0))
"""Curve A: range [m] and overlap assumed for the Velodyne class, which publishes no photons."""
ONE_NUMBER_M = (5.0, 7.5)
"""Ranges of full overlap, least and most, by which the defocus law alone serves for a VLP-16."""
PUBLISHED_NOISE_CM = {"os0-32": (0.5, 0.5), "os1-32": (0.7, 0.7)}
"""Found before on more recordings of the two families, at 20 photons and above 200."""


def draw_overlap(curves: Mapping[str, Overlap], published: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Measured curves with the points found before, and the class that has no photons."""
    figure, panels = sheet(9.2, 3.6, 3, sharey=True)
    for axes, (name, curve) in zip(panels, curves.items(), strict=False):
        axes.plot(
            *np.array(published[name]).T, "D", color=RED, fillstyle="none", markersize=5, label="published points"
        )
        bars = np.abs([curve.share - curve.low, curve.high - curve.share])
        axes.errorbar(
            curve.range,
            curve.share,
            bars,
            color=COLOURS[name],
            fmt="o-",
            linewidth=0.8,
            markersize=3.5,
            label="this recording",
        )
        below = np.array([0.8, 1.0]) * curve.range[0]
        below[0] = 1.0
        axes.plot(below, curve.at(below), "--", color=COLOURS[name], label="R² below the first point")
        axes.set_title(
            f"{name}: ξ = 0.1 / 0.5 / 0.9\nat " + " / ".join(f"{reach(curve, x):.1f}" for x in (0.1, 0.5, 0.9)) + " m"
        )
        decorate(axes)
    panels[0].set_ylabel("overlap ξ")
    draw_class(panels[2])
    finish(figure, "near-field-overlap")


def reach(curve: Overlap, share: float) -> float:
    """Range at which a share is first reached [m]."""
    first = int(np.argmax(curve.share >= share))
    pair = slice(first - 1, first + 1)
    return float(np.exp(np.interp(np.log(share), np.log(curve.share[pair]), np.log(curve.range[pair]))))


def draw_class(axes: Any) -> None:
    """The assumed curve of the Velodyne class and the defocus law with one number."""
    far = np.geomspace(1.0, 80.0, 200)
    at, share = np.array(CLASS_CURVE).T
    axes.plot(far, np.interp(far, at, share, left=np.nan), color=GREEN, label="curve A")
    axes.plot(at[1:], share[1:], "o", color=GREEN, markersize=4)
    least, most = (np.minimum(1.0, (far / full) ** 2) for full in ONE_NUMBER_M)
    label = "min(1, (R/R₀)²), R₀ = {:g}–{:g} m".format(*ONE_NUMBER_M)
    axes.fill_between(far, most, least, color=GREY, alpha=0.3, label=label)
    axes.set_title("Velodyne class: assumed")
    decorate(axes)


def decorate(axes: Any) -> None:
    axes.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    axes.set(xscale="log", yscale="log", xlim=(1.0, 80.0), ylim=(0.0015, 1.6), xlabel="range R [m]")
    ticks = [1, 2, 5, 10, 20, 50]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    levels = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
    axes.set_yticks(levels, [f"{level:g}" for level in levels])
    axes.set_yticks([], minor=True)
    axes.legend(fontsize=8, loc="lower right")


def draw_noise(noises: Mapping[str, RangeNoise], shares: Mapping[str, list[tuple[int, int, float]]]) -> None:
    """Range noise over photons with the fitted law, and the share of pixels with a return."""
    figure, (left, right) = sheet(11.0, 4.2, 2)
    photons = np.geomspace(5.0, 500.0, 200)
    for name, noise in noises.items():
        colour = COLOURS[name]
        floor, slope, _ = fit_sigma(noise)
        left.plot(photons, 100.0 * np.hypot(floor, slope / photons), color=colour, linewidth=1.2)
        left.errorbar(
            noise.photons, 100.0 * noise.sigma_m, 100.0 * noise.error_m, fmt="o", color=colour, markersize=5,
            label=f"{name}, flat surfaces",
        )  # fmt: skip
        left.plot(noise.photons, 100.0 * noise.all_m, "x", color=colour, markersize=5, label=f"{name}, all it sees")
        left.plot((20.0, 300.0), PUBLISHED_NOISE_CM[name], "D", color=colour, fillstyle="none", markersize=7)
        counts, _, share = zip(*shares[name], strict=True)
        right.plot(counts, 100.0 * np.array(share), "o-", color=colour, markersize=3.5, linewidth=1.0, label=name)
    left.plot([], [], color=GREY, linewidth=1.2, label="√(σ₀² + (σ₁/photons)²)")
    left.plot([], [], "D", color=GREY, fillstyle="none", markersize=7, label="published, 20 and > 200 photons")
    ticks = [0.2, 0.5, 1, 2, 5]
    left.set(xscale="log", yscale="log", xlabel="photons", ylabel="noise of one range [cm]", ylim=(0.2, 8.0))
    left.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    left.set_yticks([], minor=True)
    marks = [5, 10, 20, 50, 100, 200, 500]
    left.set_xticks(marks, [str(mark) for mark in marks])
    left.set_xticks([], minor=True)
    left.set_title("Range noise: each pixel against its row")
    left.legend(fontsize=7.5, ncols=2, loc="upper right")
    right.set(
        xlabel="photons of the pixel", ylabel="pixels with a return [%]", title="Where returns begin", ylim=(0, 104)
    )
    right.legend(fontsize=8, loc="lower right")
    finish(figure, "near-field-noise")
