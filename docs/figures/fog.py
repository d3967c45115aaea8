"""Signal of fog, ranges of its points, visibility of boards, and heterogeneous fog from above: docs/images/fog.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, RED, changed, finish, raster, sheet
from weather_page import VLP16, BoardFan

import parhelion as ph
from parhelion.sensors.optics.lidar.link_budget import overlap_share, received_power, system_constant
from parhelion.weather.fields import density_field
from parhelion.weather.media.fog import default_backscatter, fog_backscatter, fog_extinction
from parhelion.weather.volume_echo import soft_echo

CONFIG = changed(VLP16, receiver={"returns": "last"})
CONSTANT = system_constant(CONFIG)
PULSE_M = 0.299792458 * CONFIG.receiver.pulse_length_ns
COLOURS = {50.0: RED, 100.0: ORANGE, 200.0: GREEN, 300.0: BLUE}
"""Colour by visibility [m]."""
SHOTS, FRAMES = 30_000, 4


def draw_echo(axes: Any) -> None:
    """Signal that a VLP-16 receives from fog at every range, and from a board at that range."""
    range_m = np.linspace(CONFIG.range.min_m, 80.0, 1600)
    factor = default_backscatter("kim", CONFIG.wavelength_nm)
    share = overlap_share(CONFIG.range.overlap, range_m)
    for visibility, colour in COLOURS.items():
        alpha = float(fog_extinction(visibility, wavelength_nm=CONFIG.wavelength_nm))
        soft = soft_echo(
            range_m, extinction_per_m=alpha, backscatter_per_m_sr=fog_backscatter(alpha, factor),
            pulse_length_m=PULSE_M, overlap=lambda r: overlap_share(CONFIG.range.overlap, r),
        ) / CONSTANT.threshold  # fmt: skip
        board = received_power(
            weight=1.0, reflected=0.5 / np.pi, range_m=range_m, optical_depth=alpha * range_m,
            threshold=CONSTANT.threshold, overlap=share,
        )  # fmt: skip
        axes.semilogy(range_m, np.maximum(soft, 1e-3), color=colour, label=f"{visibility:g} m")
        axes.semilogy(range_m, board, ":", color=colour)
        top = float(soft.max())
        beaten = float(range_m[board >= top].max())
        at = range_m[soft.argmax()]
        print(f"V = {visibility:g} m: {top:.2f} P_min at {at:.1f} m, as much as a 50 % board at {beaten:.0f} m")
    axes.plot([], [], ":", color=GREY, label="50 % board there")
    axes.axhline(1.0, color=GREY, linewidth=1.0)
    axes.set(
        xlabel="range [m]", ylabel="received power [P_min]", xlim=(0, 35), ylim=(0.02, 60), title="VLP-16 in even fog"
    )
    axes.legend(fontsize=8, title="visibility", title_fontsize=8)


def draw_points(axes: Any) -> None:
    """Ranges of fog points: empty air, with receiver noise, strongest return."""
    fan = changed(VLP16, pattern=raster(azimuth_deg=(-180.0, 180.0), columns=SHOTS), range={"resolution_m": 0.0})
    lidar = ph.Lidar(fan)
    world = ph.World()
    world.add(ph.shapes.box(1, 1, 1), material="concrete", label="box", pose=ph.Pose((0, 0, 100)))
    edges = np.linspace(0.8, 9.0, 42)
    for visibility, colour in (*COLOURS.items(), (500.0, GREY)):
        world.weather = ph.Weather(visibility_m=visibility)
        scans = lidar.scan_many(world, [ph.Pose()] * FRAMES, frames=range(FRAMES))
        found = np.concatenate([scan.range for scan in scans])
        share = 100.0 * len(found) / (FRAMES * SHOTS)
        if share > 0.5:
            per_m = 100.0 * np.histogram(found, edges)[0] / (FRAMES * SHOTS * np.diff(edges))
            axes.stairs(per_m, edges, color=colour, label=f"{visibility:g} m: {share:.0f} % of shots")
        spread = np.percentile(found, [5, 50, 95]) if len(found) else np.full(3, np.nan)
        print(f"V = {visibility:g} m: {share:.3f} % of shots give fog, 5/50/95 % of them at {spread.round(2)} m")
    axes.set(xlabel="range [m]", ylabel="shots with a point there [%/m]", title="Points of fog in empty air, VLP-16")
    axes.legend(fontsize=8)


def draw_reach(axes: Any) -> None:
    """Longest range of three boards over visibility: closed form, and scans that report the last return."""
    fine = np.geomspace(20.0, 20_000.0, 100)
    for percent, colour in ((90, BLUE), (30, GREEN), (10, ORANGE)):
        alpha = [float(fog_extinction(v, wavelength_nm=CONFIG.wavelength_nm)) for v in fine]
        reach = [float(CONSTANT.max_range(percent / 100, a)) for a in alpha]
        axes.loglog(fine, reach, color=colour, label=f"{percent} % board")
        fan = BoardFan(CONFIG, f"lambert-{percent}", nearest_m=4.0)
        worst = 0.0
        for visibility in (30.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 15_000.0):
            seen = fan.longest(ph.Weather(visibility_m=visibility), frames=4)
            axes.plot([visibility], [seen], "o", color=colour, markersize=4)
            alpha_v = float(fog_extinction(visibility, wavelength_nm=CONFIG.wavelength_nm))
            worst = max(worst, abs(seen / float(CONSTANT.max_range(percent / 100, alpha_v)) - 1.0))
        print(f"{percent} % board: scans within {100 * worst:.1f} % of the closed form")
    axes.set_xticks([20, 100, 1000, 10_000], ["20", "100", "1000", "10000"])
    axes.set_yticks([10, 20, 50, 100], ["10", "20", "50", "100"])
    axes.set_yticks([], minor=True)
    axes.set(xlabel="visibility [m]", ylabel="longest range [m]", title="VLP-16, boards facing it")
    axes.legend(fontsize=8)


def draw_heterogeneous(figure: Any, axes: Any) -> None:
    """Extinction relative to its mean in a horizontal section through heterogeneous fog."""
    field = density_field(ph.Heterogeneity(), seed=0, name="fog")
    side = np.linspace(-80.0, 80.0, 240)
    x, y = np.meshgrid(side, side)
    factor = field.at(np.column_stack([x.ravel(), y.ravel(), np.full(x.size, 2.0)])).reshape(x.shape)
    picture = axes.contourf(side, side, factor, np.arange(0.0, 2.6, 0.25), cmap="Blues", extend="max")
    axes.set(xlabel="x [m]", ylabel="y [m]", title="Heterogeneity(): density over its mean", aspect="equal")
    figure.colorbar(picture, ax=axes, shrink=0.85)


if __name__ == "__main__":
    figure, (left, second, third, right) = sheet(16.0, 3.8, 4)
    draw_echo(left)
    draw_points(second)
    draw_reach(third)
    draw_heterogeneous(figure, right)
    finish(figure, "fog")
