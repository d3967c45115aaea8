"""A tag driven through the warehouse: paths, impulse responses and range errors: docs/images/uwb.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, RED, finish, sheet

import parhelion as ph
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.sensors.waves.uwb.channel import impulse_response, response_noise_dbm, sent_dbm
from parhelion.sensors.waves.uwb.uwb import Uwb

SECONDS = 60.0
ORDER_COLOURS = (BLUE, GREEN, ORANGE)
MAST = ph.Pose((0, 0, 1.2))


def draw_paths(axes: Any, world: ph.World, sensor: Uwb, place: Any, anchor: int) -> None:
    """Seen from above: the paths to one anchor, and all anchors."""
    for item in world.objects:
        if item.label in ("shelf", "wall", "column"):
            lower, upper = item.bounds()
            x, y = lower[0], lower[1]
            axes.add_patch(_rectangle(x, y, upper[0] - x, upper[1] - y))
    found = sensor.paths(world, place)
    anchors = sensor.anchors(world)
    found = found.rows(found.anchor == anchor)
    strongest = found.loss_db.min()
    for row in np.argsort(-found.loss_db):
        corner = found.corner[row, : found.order[row]]
        line = np.concatenate([[place], corner, [anchors.xyz[anchor]]])
        weak = float(np.clip((found.loss_db[row] - strongest) / 40.0, 0.0, 0.85))
        axes.plot(line[:, 0], line[:, 1], color=ORDER_COLOURS[found.order[row]], alpha=1.0 - weak, linewidth=1.1)
    axes.plot(*anchors.xyz[:, :2].T, "^", color=RED, markersize=7, label="anchors")
    axes.plot(*place[:2], "o", color="black", markersize=6, label="tag")
    for order, word in enumerate(("direct", "one reflection", "two reflections")):
        axes.plot([], [], color=ORDER_COLOURS[order], label=word)
    axes.set(xlabel="x [m]", ylabel="y [m]", title=f"Paths to one anchor: {len(found)}", aspect="equal")
    axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=5)


def _rectangle(x: float, y: float, width: float, height: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, facecolor="#d6dae0", edgecolor="#9aa3ae", linewidth=0.5)


def draw_response(axes: Any, world: ph.World, place: Any, anchor: int) -> None:
    """The same paths in the bands of UWB and Wi-Fi."""
    for name, colour, word in (("qorvo/dw1000", BLUE, "499 MHz"), ("ieee/802.11mc-80mhz", ORANGE, "80 MHz")):
        sensor = ph.Uwb(name)
        found = sensor.paths(world, place)
        found = found.rows(found.anchor == anchor)
        first = found.length.min()
        extra = np.linspace(-6.0, 45.0, 1500)
        time = (extra + first) / SPEED_OF_LIGHT_M_S
        band = sensor.config
        response = impulse_response(found.delay, found.gain, time, band.bandwidth_hz, band.roll_off)
        power = 20.0 * np.log10(np.maximum(np.abs(response), 1e-12)) + sent_dbm(band)
        axes.plot(extra, power, color=colour, label=f"{band.name.partition(',')[0]}, {word}", linewidth=1.1)
        if name.startswith("qorvo"):
            stems = 20.0 * np.log10(np.abs(found.gain)) + sent_dbm(band)
            axes.plot(found.length - first, stems, "o", color=GREY, markersize=3, label="its paths")
            level = response_noise_dbm(band) + band.threshold_db
            axes.axhline(level, color=GREY, linestyle=":", linewidth=1.0, label="its threshold over noise")
    axes.set(xlabel="extra length [m]", ylabel="power [dBm]", title="Impulse response", xlim=(-6, 45), ylim=(-125, -35))
    axes.legend(fontsize=7, loc="upper right")


def draw_errors(axes: Any, world: ph.World) -> None:
    """Range errors of a drive, in sight and out of it."""
    assert world.path is not None
    for name, colours in (("qorvo/dw1000", (BLUE, GREEN)), ("ieee/802.11mc-80mhz", (ORANGE, RED))):
        found = ph.Uwb(name).run(world, world.path, 0.0, SECONDS, seed=3, mount=MAST)
        heard = np.isfinite(found.range)
        for which, colour, word in zip((found.los, ~found.los), colours, ("in sight", "out of sight"), strict=True):
            error = np.sort(found.error[heard & which])
            share = (np.arange(len(error)) + 0.5) / max(len(error), 1)
            label = f"{name.partition('/')[2]}, {word}: {len(error)}"
            axes.plot(error, share, color=colour, linewidth=1.3, label=label)
    axes.axvline(0.0, color=GREY, linewidth=0.8)
    axes.set(xlabel="range error [m]", ylabel="share below", title=f"A drive of {SECONDS:g} s", xlim=(-2, 6))
    axes.legend(fontsize=7, loc="lower right")


def main() -> None:
    """Draw the picture."""
    world = ph.World.load("warehouse")
    figure, (left, middle, right) = sheet(14.0, 4.4, 3, width_ratios=[1.25, 1.0, 1.0])
    assert world.path is not None
    place = (ph.Pose(*(row[0] for row in world.path.sample([14.0]))) @ MAST).xyz
    draw_paths(left, world, ph.Uwb("qorvo/dw1000"), place, 4)
    draw_response(middle, world, place, 4)
    draw_errors(right, world)
    finish(figure, "uwb")


if __name__ == "__main__":
    main()
