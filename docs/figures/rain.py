"""Drop sizes, echoes of drops and where they are seen, and all models: docs/images/rain.png and rain-models.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from page import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, changed, finish, raster, sheet

import parhelion as ph
from parhelion.sensors.optics.lidar.emit import cross_section
from parhelion.sensors.optics.lidar.link_budget import overlap_share, system_constant
from parhelion.weather.media.fog import FOG_MODELS, fog_extinction
from parhelion.weather.media.rain import RAIN_MODELS, drop_backscatter, rain_extinction
from parhelion.weather.particles import Detectable, detectable, drop_echo, drop_sizes

VLP16 = "velodyne/vlp-16"
CONFIG = changed(VLP16)
COLOURS = (BLUE, ORANGE, RED, GREEN, PURPLE)
SHOTS, FRAMES = 30_000, 40


def area(range_m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cross-section of the VLP-16's beam [m^2]."""
    return cross_section(CONFIG.beam, range_m)


def overlap(range_m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of a return that the VLP-16's receiver collects."""
    return overlap_share(CONFIG.range.overlap, range_m)


def draw_sizes(axes: Any) -> None:
    """Number of drops by diameter in the three distributions."""
    diameter = np.linspace(0.05, 6.0, 300)
    for name, colour in zip(("marshall-palmer", "feingold-levin", "deirmendjian"), COLOURS, strict=False):
        for rate, style in ((5.0, ":"), (25.0, "-")):
            label = name if style == "-" else None
            axes.semilogy(diameter, drop_sizes(name, rate).density(diameter), style, color=colour, label=label)
    axes.plot([], [], ":", color=GREY, label="5 mm/h (lines: 25)")
    axes.set(xlabel="diameter [mm]", ylabel="drops [1/(m³ mm)]", ylim=(0.1, 2e4), title="Drop sizes")
    axes.legend(fontsize=8)


def draw_echoes(axes: Any) -> None:
    """Echo of one drop over range, in units of the detection threshold."""
    range_m = np.linspace(CONFIG.range.min_m, 9.0, 500)
    for diameter, colour in ((1.0, GREEN), (2.0, ORANGE), (3.0, PURPLE), (4.0, RED), (5.0, BLUE)):
        echo = drop_echo(
            drop_backscatter(diameter, CONFIG.wavelength_nm), beam_area_m2=area(range_m), range_m=range_m,
            extinction_per_m=rain_extinction(25.0), overlap=overlap(range_m),
            threshold=system_constant(CONFIG).threshold,
        )  # fmt: skip
        axes.semilogy(range_m, np.maximum(echo, 1e-3), color=colour, label=f"{diameter:g} mm")
        seen = range_m[echo >= 1.0]
        print(
            f"{diameter:g} mm: {echo.max():.2f} P_min at most, "
            + (f"seen to {seen.max():.1f} m" if len(seen) else "not seen")
        )
    axes.axhline(1.0, color=GREY, linewidth=1.0, label="detection threshold")
    axes.set(xlabel="range [m]", ylabel="echo of one drop [P_min]", ylim=(0.01, 10.0), title="VLP-16, 25 mm/h")
    axes.legend(fontsize=8)


def seen_drops(rate_mm_h: float) -> Detectable:
    """The drops that a VLP-16 without noise detects."""
    return detectable(
        drop_sizes("marshall-palmer", rate_mm_h), lambda d: drop_backscatter(d, CONFIG.wavelength_nm), area=area,
        overlap=overlap, extinction_per_m=rain_extinction(rate_mm_h),
        threshold=system_constant(CONFIG).threshold, least_range_m=CONFIG.range.min_m,
        largest_range_m=CONFIG.range.max_m,
    )  # fmt: skip


def draw_false_points(axes: Any) -> None:
    """Ranges of rain points: scans of an empty world against the integral."""
    fan = changed(VLP16, pattern=raster(azimuth_deg=(-180.0, 180.0), columns=SHOTS), range={"resolution_m": 0.0})
    lidar = ph.Lidar(fan, noise=False, returns="last")
    edges = np.linspace(1.0, 6.0, 26)
    world = ph.World()
    world.add(ph.shapes.box(1, 1, 1), material="concrete", label="box", pose=ph.Pose((0, 0, 100)))
    for rate, colour in ((5.0, BLUE), (25.0, GREEN), (100.0, ORANGE)):
        world.weather = ph.Weather(rain_rate_mm_h=rate)
        scans = lidar.scan_many(world, [ph.Pose()] * FRAMES, frames=range(FRAMES))
        range_m = np.concatenate([scan.range for scan in scans])
        found, _ = np.histogram(range_m, edges)
        per_m = 100.0 / (FRAMES * SHOTS * (edges[1] - edges[0]))
        axes.plot(0.5 * (edges[1:] + edges[:-1]), per_m * found, "o", color=colour, markersize=3)
        table = seen_drops(rate)
        # The last drop is nearer than z if there is none beyond z, with probability exp(-mean number beyond z).
        beyond = table.mean * (1.0 - np.interp(edges, table.range_m, np.linspace(0.0, 1.0, len(table.range_m))))
        shots = 100.0 * np.diff(np.exp(-beyond)) / np.diff(edges)
        axes.stairs(shots, edges, color=colour, label=f"{rate:g} mm/h: {100.0 * table.mean:.2g} % of shots")
        print(f"{rate:g} mm/h: {table.mean:.4f} detectable drops a shot, {len(range_m) / FRAMES / SHOTS:.4f} points")
    axes.set(xlabel="range [m]", ylabel="shots with a drop there [%/m]", title="Last drop in empty air, VLP-16")
    axes.legend(fontsize=8)


def draw_rain_models(axes: Any) -> None:
    """Extinction over rain rate by every model of rain."""
    rates = np.geomspace(0.5, 100.0, 80)
    for (name, colour), style in zip(zip(RAIN_MODELS, COLOURS, strict=True), ("-", "-", "-", "-", "--"), strict=True):
        axes.loglog(rates, [1e3 * rain_extinction(r, name) for r in rates], style, color=colour, label=name)
    for rate in (1.0, 5.0, 10.0, 25.0, 100.0):
        values = [rain_extinction(rate, name) for name in RAIN_MODELS]
        names = list(RAIN_MODELS)
        print(
            f"rain {rate:g} mm/h: {names[int(np.argmax(values))]} is {max(values) / min(values):.1f} times "
            f"{names[int(np.argmin(values))]}"
        )
    axes.set(xlabel="rain rate [mm/h]", ylabel="one-way extinction [1/km]", title="Models of rain, 905 nm")
    axes.legend(fontsize=8)


def draw_fog_models(axes: Any) -> None:
    """Extinction over visibility by every model of fog, at two wavelengths."""
    visibility = np.geomspace(20.0, 60_000.0, 300)
    for name, colour in zip(FOG_MODELS, COLOURS, strict=False):
        for wavelength, style in ((905.0, "-"), (1550.0, ":")):
            if wavelength == 905.0 or name in ("kim", "kruse"):
                ratio = fog_extinction(visibility, name, wavelength) * visibility
                axes.semilogx(visibility, ratio, style, color=colour, label=name if style == "-" else None)
    axes.plot([], [], ":", color=GREY, label="1550 nm (lines: 905 nm)")
    for v in (50.0, 500.0, 2000.0, 10_000.0):
        values = [float(fog_extinction(v, name)) for name in FOG_MODELS]
        print(f"fog {v:g} m: {max(values) / min(values):.2f} times")
    axes.set(
        xlabel="visibility [m]", ylabel="extinction × visibility", ylim=(0.0, 4.3),
        title="Models of fog: how much is left of 3.91",
    )  # fmt: skip
    axes.legend(fontsize=8)


if __name__ == "__main__":
    figure, (left, middle, right) = sheet(13.0, 3.8, 3)
    draw_sizes(left)
    draw_echoes(middle)
    draw_false_points(right)
    finish(figure, "rain")
    figure, (left, right) = sheet(10.0, 4.0, 2)
    draw_rain_models(left)
    draw_fog_models(right)
    finish(figure, "rain-models")
