"""AMCW lidar: ambiguity, and an edge seen by phases and by pulses: docs/images/amcw.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREY, ORANGE, finish, sheet

import parhelion as ph
from parhelion.sensors.optics.lidar.config import Amcw, LidarConfig, RatedRange


def sheet_of(amcw: Amcw | None) -> LidarConfig:
    """URG-04LX that sees far, or the same beam with pulses."""
    config = ph.Lidar("hokuyo/urg-04lx").config
    limits = config.range.model_copy(update={"max_m": 60.0, "rated": [RatedRange(reflectance=0.9, range_m=59.0)]})
    return config.model_copy(update={"amcw": amcw, "range": limits})


def board(x: float, y: float, world: ph.World) -> None:
    """White board whose right edge is at y."""
    world.add(ph.shapes.box(0.1, 4, 4), material="lambert-90", label="board", pose=ph.Pose(xyz=(x + 0.05, y + 2, 0)))


def range_ahead(lidar: ph.Lidar, world: ph.World) -> float:
    """Range of the shot along x; NaN without a return."""
    scan = lidar.scan(world, pose=ph.Pose(), seed=1)
    row = int(np.argmax(lidar.shots().direction[:, 0]))
    found = scan.fields["range"][scan.fields["shot"] == row]
    return float(found[0]) if len(found) else np.nan


def draw_ambiguity(axes: Any) -> None:
    """Measured by true range, with one frequency and with two."""
    true = np.arange(0.5, 30.0, 0.25)
    for amcw, colour, label in (
        (Amcw(fine_mhz=53.2), ORANGE, "53.2 MHz"),
        (Amcw(fine_mhz=53.2, coarse_mhz=6.65), BLUE, "and 6.65 MHz"),
    ):
        lidar, measured = ph.Lidar(sheet_of(amcw), noise=False), []
        for range_m in true:
            world = ph.World()
            board(float(range_m), -2.0, world)
            measured.append(range_ahead(lidar, world))
        axes.plot(true, measured, ".", color=colour, ms=4, label=label)
    axes.set(xlabel="true range [m]", ylabel="measured [m]", title="ranges repeat after c / 2f")
    axes.legend(fontsize=8)


def draw_edge(axes: Any) -> None:
    """Range while the edge of a near board crosses the beam."""
    places = np.linspace(-0.012, 0.012, 49)
    pulses = sheet_of(None)
    pulses = pulses.model_copy(update={"receiver": pulses.receiver.model_copy(update={"merge_distance_m": 0.3})})
    for config, colour, label in (
        (pulses, GREY, "pulses"),
        (sheet_of(Amcw(fine_mhz=53.2, coarse_mhz=6.65)), BLUE, "phase"),
    ):
        lidar, measured = ph.Lidar(config, noise=False, sub_rays=201), []
        for y in places:
            world = ph.World()
            board(1.5, float(y), world)
            board(2.1, -2.0, world)
            measured.append(range_ahead(lidar, world))
        axes.plot(1e3 * places, measured, ".-", color=colour, ms=4, lw=0.7, label=label)
    axes.set(xlabel="edge of the near board [mm]", ylabel="measured [m]", title="boards at 1.5 and 2.1 m in one beam")
    axes.legend(fontsize=8)


def main() -> None:
    figure, panels = sheet(9.0, 3.4, 2)
    draw_ambiguity(panels[0])
    draw_edge(panels[1])
    finish(figure, "amcw")


if __name__ == "__main__":
    main()
