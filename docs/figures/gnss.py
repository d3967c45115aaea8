"""Sky over a city, C/N0 by elevation, multipath error, and position errors in streets: docs/images/gnss.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, RED, finish, sheet

import parhelion as ph
from parhelion.core.streams import BLOCKED, DIRECT, MULTIPATH, REFLECTED, GnssData
from parhelion.sensors.waves.gnss.reception import track

CHIP_M = 293.05
WIDTHS = (80.0, 60.0, 40.0, 30.0, 20.0, 14.0)
KINDS = ((DIRECT, GREEN, "direct"), (MULTIPATH, ORANGE, "multipath"), (REFLECTED, RED, "no direct path"))


def draw_sky(axes: Any, fixes: GnssData) -> None:
    """Sky plot of the satellites at one place, coloured by the way they are received."""
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    for number, colour, label in (*KINDS, (BLOCKED, GREY, "blocked")):
        seen = fixes.status[-1] == number
        axes.scatter(
            fixes.azimuth[-1, seen], 90.0 - np.degrees(fixes.elevation[-1, seen]), color=colour, s=26, label=label
        )
    axes.set_ylim(0, 90)
    axes.set_yticks([30, 60, 90], ["60", "30", "0"], fontsize=7)
    axes.set_xticks(np.radians([0, 90, 180, 270]), ["N", "E", "S", "W"])
    axes.set_title("Sky over a street of the built-in city")
    axes.legend(fontsize=7, loc="lower left", bbox_to_anchor=(-0.28, -0.12))


def draw_strength(axes: Any, fixes: GnssData) -> None:
    """C/N0 of all tracked signals on a drive."""
    for number, colour, label in KINDS:
        seen = (fixes.status == number) & fixes.tracked
        axes.plot(np.degrees(fixes.elevation[seen]), fixes.cn0[seen], ".", color=colour, markersize=3, label=label)
    axes.set(xlabel="elevation [deg]", ylabel="C/N0 [dB-Hz]", title="Signals on a drive through the city")
    axes.legend(fontsize=8)


def draw_envelope(axes: Any) -> None:
    """Code error due to one reflection of half the amplitude, in phase and in opposite phase."""
    extra = np.linspace(0.0, 480.0, 241)
    for spacing, colour in ((1.0, RED), (0.5, ORANGE), (0.1, BLUE)):
        for sign in (1.0, -1.0):
            delay = np.stack([0 * extra, extra / CHIP_M], axis=1)
            rest, _ = track(delay, np.tile([1.0, 0.5 * sign], (len(extra), 1)), spacing)
            label = f"spacing {spacing:g} chip" if sign > 0 else None
            axes.plot(extra, rest * CHIP_M, color=colour, label=label)
    boc, _ = track(np.stack([0 * extra, extra / CHIP_M], axis=1), np.tile([1.0, 0.5], (len(extra), 1)), 0.1, True)
    axes.plot(extra, boc * CHIP_M, color=GREEN, linewidth=0.9, label="BOC(1,1), spacing 0.1")
    axes.set(xlabel="excess path [m]", ylabel="code error [m]", title="One reflection of -6 dB")
    axes.legend(fontsize=8)


def street(width: float) -> ph.World:
    """A street along x between rows of houses 25 m high."""
    world = ph.World()
    world.add(ph.shapes.plane(600, 400), material="asphalt", label="road")
    for side in (-1, 1):
        row = ph.Pose((0, side * (width / 2 + 10), 12.5))
        world.add(ph.shapes.box(300, 20, 25), material="concrete", label="building", pose=row)
    return world


def draw_streets(axes: Any) -> None:
    """Horizontal error by width of the street, over two hours."""
    for name, colour in (("generic/phone", RED), ("u-blox/m8", ORANGE), ("u-blox/f9p", BLUE)):
        receiver, spread = ph.Gnss(name, rate_hz=0.02), []
        for width in WIDTHS:
            crawl = ph.ConstantTwist(ph.Pose((-30, -width / 4, 1.6)), velocity=(0.01, 0.0, 0.0))
            found = receiver.run(street(width), crawl, duration=7200.0, seed=2)
            spread.append(np.sqrt(np.nanmean(np.sum(found.error[:, :2] ** 2, axis=1))))
        axes.semilogy(WIDTHS, spread, "o-", color=colour, markersize=4, label=name)
    axes.invert_xaxis()
    axes.set(
        xlabel="width of the street [m]", ylabel="horizontal error, rms [m]", title="Streets between houses of 25 m"
    )
    axes.legend(fontsize=8)


def main() -> None:
    figure, panels = sheet(15.5, 3.9, 4)
    world = ph.World.load("city")
    assert world.path is not None
    fixes = ph.Gnss("u-blox/m8", rate_hz=1.0, constellations=["gps", "galileo", "glonass"]).run(
        world, world.path, duration=90.0, seed=2
    )
    place = panels[0].get_subplotspec()
    panels[0].remove()
    draw_sky(figure.add_subplot(place, projection="polar"), fixes)
    draw_strength(panels[1], fixes)
    draw_envelope(panels[2])
    draw_streets(panels[3])
    finish(figure, "gnss")


if __name__ == "__main__":
    main()
