"""Range of a lidar in rain: boards against closed forms, and VANE's Table 6-1 in the city."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from page import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, changed, finish, sheet
from weather_page import SURFACE, VLP16, BoardFan, material_is, places, rate_axis, rated, table, write

import parhelion as ph
from parhelion.weather.media.rain import RAIN_MODELS, rain_extinction, range_in_extinction, vane_longest_range

RATES_MM_H = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0)
COLOURS = dict(zip(RAIN_MODELS, (BLUE, ORANGE, RED, GREEN, PURPLE), strict=True))
VANE_TABLE = {0.0: 118.8, 1.0: 116.0, 6.4: 73.9, 25.4: 40.4}
"""Longest range [m] of a 120 m lidar by rain rate [mm/h] (VANE, Table 6-1)."""
VANE_PLACES, VANE_SEEDS, VANE_FRAMES = 40, 3, 400
OPEN_GATE_M = 200.0


def closed_form(model: str, rate_mm_h: float, clear_range_m: float, wavelength_nm: float = 903.0) -> float:
    """Longest range [m] of a board that is just seen at `clear_range_m` in clear air."""
    if model == "vane":
        return vane_longest_range(rate_mm_h, clear_range_m)
    alpha = rain_extinction(rate_mm_h, model, wavelength_nm=wavelength_nm)
    return range_in_extinction(clear_range_m, alpha)


def rain(rate_mm_h: float, model: str) -> ph.Weather | None:
    """A weather of rain alone; clear air at rate 0."""
    return ph.Weather(rain={"rate_mm_h": rate_mm_h, "model": model}) if rate_mm_h > 0.0 else None


def maximum_range() -> None:
    """Section a: every model on boards of 90 %."""
    fan = BoardFan(changed(VLP16), "lambert-90")
    figure, (axes,) = sheet(7.0, 4.2, 1)
    fine = np.geomspace(0.8, 120.0, 60)
    rows = {rate: [f"{rate:g}"] for rate in RATES_MM_H}
    worst = 0.0
    for model, colour in COLOURS.items():
        axes.plot(fine, [closed_form(model, r, 100.0) for r in fine], color=colour, linewidth=1.2, label=model)
        for rate in RATES_MM_H:
            seen, expected = fan.longest(rain(rate, model)), closed_form(model, rate, 100.0)
            worst = max(worst, abs(seen / expected - 1.0))
            rows[rate].append(f"{expected:.1f} / {seen:.1f}")
            axes.plot([rate], [seen], "o", color=colour, markersize=4)
    axes.set(
        ylabel="longest range [m]", ylim=(0.0, 105.0),
        title="VLP-16 (100 m at 90 %): a 90 % board, by model of rain",
    )  # fmt: skip
    rate_axis(axes, RATES_MM_H)
    axes.legend(fontsize=8)
    finish(figure, "weather-range")
    note = f"Largest difference between scan and closed form: {100 * worst:.1f} %."
    write("maximum-range", table(["mm/h", *COLOURS], rows.values()) + "\n\n" + note)


def longest_ranges(scans: list[ph.Scan], *, sheeting: bool) -> NDArray[np.float64]:
    """Longest range of a surface in each scan [m], with or without points on retro-reflecting sheeting."""
    kept = [(scan.origin == SURFACE) & (sheeting | ~material_is(scan, "retro-sheeting")) for scan in scans]
    return np.array([scan.range[keep].max() for scan, keep in zip(scans, kept, strict=True)])


def vane_table() -> None:
    """Section b: VANE's table in the city and on boards."""
    sensor = changed(VLP16, range={"rated": rated((0.9, 120.0)), "max_m": 120.0})
    lidar, fan = ph.Lidar(sensor), BoardFan(sensor, "lambert-90")
    world = ph.World.load("city")
    poses = places(world, VANE_PLACES)
    rows, spread = [], {}
    for rate, published in VANE_TABLE.items():
        world.weather = rain(rate, "vane")
        scans = [scan for seed in range(VANE_SEEDS) for scan in lidar.scan_many(world, poses, seed=seed)]
        plain, every = (longest_ranges(scans, sheeting=with_it) for with_it in (False, True))
        spread[rate] = plain, every
        board = fan.longest(world.weather, VANE_FRAMES)
        rows.append([
            f"{rate:g}", published, f"**{plain.max():.1f}**", f"{100 * (plain.max() / published - 1.0):+.0f} %",
            " / ".join(f"{seed.max():.1f}" for seed in plain.reshape(VANE_SEEDS, -1)), f"{np.median(plain):.1f}",
            f"{every.max():.1f}", f"{100 * (every.max() / published - 1.0):+.0f} %",
            f"{vane_longest_range(rate, 120.0):.1f}", f"{board:.1f}",
        ])  # fmt: skip
    columns = [
        "mm/h", "VANE [m]", "city [m]", "difference", "each seed [m]", "median scan [m]", "with sheeting [m]",
        "difference", "board, closed form [m]", "board, scan [m]",
    ]  # fmt: skip
    world.weather = None
    ungated = ph.Lidar(changed(VLP16, range={"rated": rated((0.9, 120.0)), "max_m": OPEN_GATE_M}))
    farthest = longest_ranges(ungated.scan_many(world, poses), sheeting=False).max()
    note = f"With a range gate of {OPEN_GATE_M:g} m the longest range in clear air is {farthest:.0f} m."
    write("vane", table(columns, rows) + "\n\n" + note)
    figure, (axes,) = sheet(7.0, 4.0, 1)
    draw_vane(axes, spread)
    finish(figure, "weather-vane")


def draw_vane(axes: Any, spread: dict[float, tuple[NDArray[np.float64], NDArray[np.float64]]]) -> None:
    """Longest range of every single scan, the paper's, and the closed form of a board."""
    for place, (plain, every) in enumerate(spread.values()):
        beside = np.linspace(-0.3, 0.3, len(plain))
        axes.plot(place + beside, every, ".", color=ORANGE, markersize=4, label="all surfaces" if place == 0 else None)
        label = "without retro-reflecting sheeting" if place == 0 else None
        axes.plot(place + beside, plain, ".", color=BLUE, markersize=4, label=label)
    numbers = np.arange(len(VANE_TABLE))
    axes.plot(numbers, list(VANE_TABLE.values()), "_", color=RED, markersize=40, markeredgewidth=2.0)
    axes.plot([], [], color=RED, linewidth=2.0, label="VANE, Table 6-1")
    board = [vane_longest_range(rate, 120.0) for rate in VANE_TABLE]
    axes.plot(numbers, board, "_", color=GREY, markersize=40, markeredgewidth=1.2)
    axes.plot([], [], color=GREY, linewidth=1.2, label="90 % board, closed form")
    axes.set_xticks(numbers, [f"{rate:g}" for rate in VANE_TABLE])
    axes.set(
        xlabel="rain rate [mm/h]", ylabel="longest range of a scan [m]", ylim=(0.0, 130.0),
        title=f"120 m lidar in the city, model vane: {VANE_PLACES} places, {VANE_SEEDS} seeds",
    )  # fmt: skip
    axes.legend(fontsize=8, loc="lower left")
