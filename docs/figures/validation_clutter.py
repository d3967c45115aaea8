"""Clutter in weather, recorded and simulated: a table of docs/weather-validation.md."""

from __future__ import annotations

import numpy as np
from clutter import FOG, RAIN, SNOW, Count, fog_count, isolated, points_of, scans_of, within_box
from weather_page import places, table, write

import parhelion as ph

PLACES, SEEDS = 8, (1, 2, 3)


def share(count: Count) -> str:
    """A share in percent, with as many digits as it has; the largest that three missed draws allow where it is 0."""
    if count.found == 0:
        return f"0 of {count.of}"
    return f"{count.percent:.0f} %" if count.percent >= 10.0 else f"{count.percent:.2g} %"


def clutter() -> None:
    """Section: what recordings of five sensors in weather show, and the same sensors simulated."""
    city, harbour = ph.World.load("city"), ph.World.load("harbour")
    drive = places(city, PLACES)
    rows = [*fog_rows(city, drive), *rain_rows(city, drive), *snow_rows(city, drive)]
    columns = ["recorded", "what is counted", "recording", "simulated", "result"]
    write("clutter", table(columns, rows).replace("---:", "---"))
    write("clutter-vlp-16", vlp16_table(city, harbour))


def fog_rows(city: ph.World, drive: list[ph.Pose]) -> list[list[str]]:
    """HDL-32E and HDL-64E in fog."""
    rows = []
    for visibility in (50.0, 75.0, 100.0):
        scans = scans_of("velodyne/hdl-32e", city, ph.Weather(visibility_m=visibility), drive, SEEDS)
        found = fog_count(scans, 3.0, above_deg=2.0)
        first = visibility == 50.0
        rows.append([
            "HDL-32E, fog, 60 scans" if first else "",
            "rings above +2°: fog nearer than 3 m / lost shots / returns nearer than 20 m" if first else "",
            "0 of 911 400 / 65 % / 95 %" if first else "",
            f"V = {visibility:g} m",
            f"{share(found.near)} / {share(found.lost)} / {share(found.within_20_m)}",
        ])  # fmt: skip
    for visibility in (30.0, 50.0, 100.0):
        scans = scans_of("velodyne/hdl-64e", city, ph.Weather(visibility_m=visibility), drive, SEEDS)
        found = fog_count(scans, 2.5, highest=7)
        first = visibility == 30.0
        rows.append([
            "HDL-64E, dense fog, 548 scans" if first else "", "top 7 rings: nearer than 2.5 m" if first else "",
            "0.00 %, 95th percentile of scans 0.07 %" if first else "", f"V = {visibility:g} m", share(found.near),
        ])  # fmt: skip
    return rows


def rain_rows(city: ph.World, drive: list[ph.Pose]) -> list[list[str]]:
    """HDL-64E in rain."""
    rows = []
    for rate in (0.0, 1.0, 25.0, 100.0):
        scans = scans_of("velodyne/hdl-64e", city, ph.Weather(rain_rate_mm_h=rate), drive, SEEDS)
        first = rate == 0.0
        every, of_rain = isolated(scans, 1.6, 4.0, 24)
        rows.append([
            "HDL-64E, rain, 114 scans" if first else "",
            "upper 24 rings: isolated points at 1.6 to 4 m, drops among them" if first else "",
            "median of scans 0.007 %, 95th percentile 0.52 %" if first else "", f"{rate:g} mm/h",
            f"{share(every)}, {share(of_rain)}",
        ])  # fmt: skip
    return rows


def snow_rows(city: ph.World, drive: list[ph.Pose]) -> list[list[str]]:
    """Pandar64 and VLP-32C in snow."""
    rows = []
    for rate in (0.1, 0.5, 2.5):
        scans = scans_of("hesai/pandar64", city, ph.Weather(snow_rate_mm_h=rate), drive, SEEDS[:1], "dual")
        shots, range_m = points_of(scans, SNOW)
        spread = " / ".join(f"{value:.1f}" for value in np.percentile(range_m, [5, 50, 95]))
        first = rate == 0.1
        rows.append([
            "Pandar64, severe snow, dual returns, 50 scans" if first else "",
            "shots with a flake; range 5 / 50 / 95 %; flakes nearer than 2 m" if first else "",
            "7.1 %; 4.0 / 6.6 / 11.5 m; none" if first else "", f"{rate:g} mm/h",
            f"{share(shots)}; {spread} m; {100.0 * np.mean(range_m < 2.0):.0f} %",
        ])  # fmt: skip
    for rate in (0.5, 1.0, 1.5, 2.5):
        scans = scans_of("velodyne/vlp-32c", city, ph.Weather(snow_rate_mm_h=rate), drive, SEEDS)
        counts = within_box(scans, SNOW, 4.0)
        first = rate == 0.5
        rows.append([
            "VLP-32C, snow, published counts" if first else "", "points of snow within ±4 m, a scan" if first else "",
            "light 25–249, medium 250–499, heavy 500–749, extreme 750–1500" if first else "", f"{rate:g} mm/h",
            f"{min(counts)} to {max(counts)}, mean {np.mean(counts):.0f}",
        ])  # fmt: skip
    return rows


def vlp16_table(city: ph.World, harbour: ph.World) -> str:
    """Share of shots with points of fog and rain for a VLP-16, for which no recording in weather is available."""
    rows = []
    weathers = [(f"fog, V = {v:g} m", ph.Weather(visibility_m=v), FOG) for v in (100.0, 200.0, 300.0, 500.0)]
    weathers += [(f"rain, {r:g} mm/h", ph.Weather(rain_rate_mm_h=r), RAIN) for r in (1.0, 5.0, 25.0, 100.0)]
    for words, weather, origin in weathers:
        row = [words]
        for world in (city, harbour):
            count, range_m = points_of(
                scans_of("velodyne/vlp-16", world, weather, places(world, PLACES), SEEDS), origin
            )
            row.append(share(count))
        spread = " / ".join(f"{value:.1f}" for value in np.percentile(range_m, [5, 50, 95])) if len(range_m) else "–"
        rows.append([*row, spread])
    return table(["weather", "city, of shots", "harbour, of shots", "harbour, range 5 / 50 / 95 % [m]"], rows)
