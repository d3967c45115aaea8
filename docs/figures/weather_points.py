"""Points removed and added by weather: Huang's table of fog, drops in beams, detection in the rainy city."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from page import BLUE, GREEN, GREY, ORANGE, RED, changed, finish, sheet
from weather_page import RAIN, SURFACE, VLP16, places, rate_axis, rated, table, write

import parhelion as ph
from parhelion.sensors.optics.lidar.emit import cross_section
from parhelion.weather.media.fog import fog_extinction
from parhelion.weather.particles import drop_sizes, drops_in_beam

HUANG_RATED = rated((0.8, 120.0), (0.1, 50.0))
HUANG_TABLE = {(1.0, 5.0): (9.86, 18.11), (0.5, 1.0): (14.14, 25.29), (0.1, 0.5): (17.30, 29.87)}
"""Loss of density [%] at 35 to 70 m and beyond 70 m, by class of visibility [km] (Huang et al. 2023, Table V)."""
HUANG_PLACES, HUANG_STEPS = 12, 5
DISTANCES_M = ((35.0, 70.0), (70.0, np.inf))


def counts(lidar: ph.Lidar, world: ph.World, poses: list[ph.Pose]) -> NDArray[np.float64]:
    """Number of surface points at each of the two distances."""
    scans = lidar.scan_many(world, poses, seed=3)
    range_m = np.concatenate([scan.range[scan.origin == SURFACE] for scan in scans])
    return np.array([np.count_nonzero((range_m >= near) & (range_m < far)) for near, far in DISTANCES_M], dtype=float)


def huang_table() -> None:
    """Section c: loss of points by visibility, with the fog's own echo in the way and without."""
    sensor = changed(VLP16, range={"rated": HUANG_RATED, "max_m": 200.0})
    world = ph.World.load("city")
    poses = places(world, HUANG_PLACES)
    losses: dict[str, list[NDArray[np.float64]]] = {}
    for mode in ("last", "strongest"):
        lidar = ph.Lidar(sensor, returns=mode)
        world.weather = None
        clear = counts(lidar, world, poses)
        losses[mode] = []
        for low, high in HUANG_TABLE:
            middles = low + (high - low) * (np.arange(HUANG_STEPS) + 0.5) / HUANG_STEPS
            total = np.zeros(2)
            for visibility_km in middles:
                fog = ph.Fog(visibility_m=1000.0 * visibility_km, heterogeneity=ph.Heterogeneity())
                world.weather = ph.Weather(fog=fog)
                total += counts(lidar, world, poses)
            losses[mode].append(100.0 * (1.0 - total / HUANG_STEPS / clear))
    rows = []
    for row, ((low, high), paper) in enumerate(HUANG_TABLE.items()):
        ours = [losses[mode][row] for mode in ("last", "strongest")]
        for column, (near, far) in enumerate(DISTANCES_M):
            rows.append([
                f"{low:g} to {high:g} km", f"{near:g} to {far:g} m" if np.isfinite(far) else f"> {near:g} m",
                f"{paper[column]:.1f} %", *(f"{loss[column]:.1f} %" for loss in ours),
            ])  # fmt: skip
    columns = ["visibility", "distance", "Huang 2023", "returns: last", "returns: strongest"]
    constant = ph.Lidar(sensor).system_constant
    reach = [
        [f"{v:g} km", *(f"{_reach(constant, rho, v):.1f} m" for rho in (0.8, 0.44, 0.27, 0.1))]
        for v in (5.0, 1.0, 0.5, 0.3, 0.1)
    ]
    limits = table(["visibility", "80 %", "44 % (wall)", "27 % (road)", "10 %"], reach)
    write("huang", table(columns, rows))
    write("huang-reach", limits)
    figure, panels = sheet(9.0, 3.6, 2, sharey=True)
    for column, axes in enumerate(panels):
        draw_losses(axes, column, losses)
    panels[0].legend(fontsize=8, loc="upper left")
    finish(figure, "weather-huang")


def _reach(constant: Any, reflectance: float, visibility_km: float) -> float:
    """Longest range [m] by the paper's own equations: fog alone dims, by Kim's form."""
    return float(constant.max_range(reflectance, fog_extinction(1000.0 * visibility_km, wavelength_nm=905.0)))


def draw_losses(axes: Any, column: int, losses: dict[str, list[NDArray[np.float64]]]) -> None:
    """Bars of the paper and of the two modes."""
    place = np.arange(len(HUANG_TABLE))
    series = [
        ("Huang 2023", [paper[column] for paper in HUANG_TABLE.values()], GREY),
        ("last return (fog's echo gives way)", [loss[column] for loss in losses["last"]], BLUE),
        ("strongest return", [loss[column] for loss in losses["strongest"]], ORANGE),
    ]
    for number, (label, values, colour) in enumerate(series):
        axes.bar(place + 0.27 * (number - 1), values, width=0.25, color=colour, label=label)
    axes.set_xticks(place, [f"{low:g} to {high:g}" for low, high in HUANG_TABLE])
    axes.set(xlabel="visibility [km]", title=("35 to 70 m", "beyond 70 m")[column], ylim=(0.0, 100.0))
    if column == 0:
        axes.set_ylabel("loss of points [%]")


# ---- drops in the beam ---------------------------------------------------------------------------------------------

ARCE_RATES_MM_H = ((5.0, BLUE), (12.5, GREEN), (25.0, ORANGE), (100.0, RED))
BEAM_M = 100.0
BEAMS = 1000
SWEEP = 20


def beam_volume_m3(range_m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Volume of the VLP-16's beam up to a range; Simpson's rule is exact for an area quadratic in range."""
    beam = changed(VLP16).beam
    ends = [cross_section(beam, share * range_m) for share in (0.0, 0.5, 1.0)]
    return range_m / 6.0 * (ends[0] + 4.0 * ends[1] + ends[2])


def drops_counted(rate_mm_h: float) -> NDArray[np.int64]:
    """Number of drops in each of `BEAMS` beams, counted one by one.

    Drops stand evenly in a block of air around the beam; those within its ellipse are in it. It shares no formula with
    the volume that the mean is taken from.
    """
    beam = changed(VLP16).beam
    half_exit = 0.5e-3 * beam.exit_diameter_mm
    slope_y, slope_z = (np.tan(0.5e-3 * angle) for angle in beam.divergence_mrad)
    side_y, side_z = half_exit + BEAM_M * slope_y, half_exit + BEAM_M * slope_z
    in_block = drop_sizes("marshall-palmer", rate_mm_h).count() * BEAM_M * 4.0 * side_y * side_z
    generator = np.random.default_rng(int(10 * rate_mm_h))
    found = np.empty(BEAMS, dtype=np.int64)
    for first in range(0, BEAMS, 100):
        number = generator.poisson(in_block, 100)
        x, y, z = generator.random((3, number.sum()), dtype=np.float32)
        x *= BEAM_M
        y, z = (2.0 * y - 1.0) * side_y, (2.0 * z - 1.0) * side_z
        inside = (y / (half_exit + x * slope_y)) ** 2 + (z / (half_exit + x * slope_z)) ** 2 < 1.0
        found[first : first + 100] = np.add.reduceat(inside, np.cumsum(number) - number)
    return found


def drop_hits() -> None:
    """Section d: how many drops a beam holds, by rain rate."""
    figure, (left, right) = sheet(10.0, 3.8, 2)
    volume = float(beam_volume_m3(np.array(BEAM_M)))
    exit_area = float(cross_section(changed(VLP16).beam, np.array(0.0)))
    rows = []
    for rate, colour in ARCE_RATES_MM_H:
        sizes = drop_sizes("marshall-palmer", rate)
        mean = drops_in_beam(sizes, volume)
        found = drops_counted(rate)
        rows.append([
            f"{rate:g}", f"{sizes.count():.0f}", f"{drops_in_beam(sizes, exit_area * BEAM_M):.1f}", f"{mean:.0f}",
            f"{found.mean():.0f} ± {found.std() / np.sqrt(BEAMS):.0f}", f"{found.var() / found.mean():.2f}",
        ])  # fmt: skip
        draw_histogram(left, found, mean, f"{rate:g} mm/h", colour)
    left.set(xlabel="drops in a beam of 100 m", ylabel="share of beams per drop [%]", title="One rate at a time")
    left.legend(fontsize=8)
    draw_sweep(right)
    finish(figure, "weather-drops")
    columns = ["mm/h", "drops /m³", "mean, cylinder", "mean, frustum", "counted", "variance / mean"]
    write("drops", table(columns, rows))


def draw_histogram(axes: Any, found: NDArray[np.int64], mean: float, label: str, colour: str) -> None:
    """Counted drops as steps, Poisson's law as a line."""
    deviation = np.sqrt(mean)
    edges = np.arange(mean - 5.0 * deviation, mean + 5.0 * deviation, 0.4 * deviation)
    share, _ = np.histogram(found, edges)
    axes.stairs(100.0 * share / len(found) / np.diff(edges), edges, color=colour, fill=True, alpha=0.35)
    at = np.linspace(edges[0], edges[-1], 200)
    # Poisson's law for means in the thousands is the normal law to a part in a thousand.
    law = np.exp(-0.5 * ((at - mean) / deviation) ** 2) / (deviation * np.sqrt(2.0 * np.pi))
    axes.plot(at, 100.0 * law, color=colour, linewidth=1.2, label=label)


def draw_sweep(axes: Any) -> None:
    """All beams of a scan of the city, each as long as its range, the rate swept as in Arce's figures."""
    world = ph.World.load("city")
    scan = ph.Lidar(VLP16).scan(world, seed=1)
    volume = beam_volume_m3(scan.range.astype(np.float64))
    generator = np.random.default_rng(7)
    edges = np.round(np.geomspace(4.0, 1500.0, 27)) - 0.5
    for (low, high), colour in zip(
        ((5.0, 25.0), (25.0, 50.0), (50.0, 75.0), (75.0, 100.0)), (BLUE, GREEN, ORANGE, RED), strict=True
    ):
        sweep = [drop_sizes("marshall-palmer", float(rate)) for rate in np.linspace(low, high, SWEEP)]
        found = [generator.poisson(drops_in_beam(sizes, volume)) for sizes in sweep]
        share, _ = np.histogram(np.concatenate(found), edges)
        axes.stairs(share / SWEEP, edges, color=colour, label=f"{low:g} to {high:g} mm/h")
    axes.set_xscale("log")
    axes.set(xlabel="drops in a beam", ylabel="beams of a scan", title="All beams of a VLP-16 in the city, rates swept")
    axes.legend(fontsize=8)


# ---- detection in the rainy city -----------------------------------------------------------------------------------

CITY_RATES_MM_H = (0.0, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0)
CITY_PLACES = 12


def rainy_city() -> None:
    """Section f: clear-air points that stay, and points that are rain."""
    lidar = ph.Lidar(VLP16)
    world = ph.World.load("city")
    poses = places(world, CITY_PLACES)
    world.weather = None
    # A second clear scan with other noise is what rain is measured against: near the threshold points come and go.
    clear = [scan.shot[scan.origin == SURFACE] for scan in lidar.scan_many(world, poses, seed=1)]
    shots = len(lidar.shots()) * CITY_PLACES
    rows: list[list[str]] = []
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for rate in CITY_RATES_MM_H:
        cells = [f"{rate:g}"]
        for model in ("mie", "vane"):
            world.weather = ph.Weather(rain=ph.Rain(rate_mm_h=rate, model=model)) if rate else None
            scans = lidar.scan_many(world, poses, seed=2)
            kept = sum(
                np.isin(before, scan.shot[scan.origin == SURFACE]).sum()
                for before, scan in zip(clear, scans, strict=True)
            )
            false = sum(np.count_nonzero(scan.origin == RAIN) for scan in scans)
            points = sum(len(scan) for scan in scans)
            figures = 100.0 * kept / sum(map(len, clear)), 100.0 * false / points, 100.0 * false / shots
            curves.setdefault(model, []).append(figures)
            cells += [f"{figures[0]:.1f} %", f"{figures[1]:.3f} %", f"{figures[2]:.3f} %"]
        rows.append(cells)
    columns = ["mm/h"] + [
        f"{model}: {what}" for model in ("mie", "vane") for what in ("still there", "rain", "of shots")
    ]
    write("city", table(columns, rows))
    figure, (left, right) = sheet(10.0, 3.8, 2)
    for model, colour in (("mie", BLUE), ("vane", ORANGE)):
        kept, false, _ = np.array(curves[model]).T
        for axes, values in ((left, kept), (right, false)):
            axes.plot(CITY_RATES_MM_H, values, "o-", color=colour, markersize=4, label=model)
    left.set(title="Points of clear air that are still there", ylabel="share [%]", ylim=(0.0, 101.0))
    right.set(title="Points that are rain", ylabel="share of all points [%]", ylim=(0.0, None))
    for axes in (left, right):
        rate_axis(axes, CITY_RATES_MM_H)
        axes.legend(fontsize=8)
    finish(figure, "weather-city-rain")
