"""Ultrasonic ranger against an HC-SR04, and an imaging sonar: docs/images/echo-ranger.png."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from page import BLUE, GREY, finish, sheet

import parhelion as ph

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "ultrasonic_hcsr04" / "hcsr04_cm.csv"
RANGER = "generic/ultrasonic-ranger"


def wall(distance: float, tilt_deg: float = 0.0, size: float = 4.0) -> ph.World:
    """A board whose front is at a distance on the axis."""
    world = ph.World()
    pose = ph.Pose(xyz=(distance + 0.005, 0, 0), rpy_deg=(0, 0, tilt_deg))
    world.add(ph.shapes.board(size, size, 0.01), material="concrete", label="wall", pose=pose)
    return world


def draw_readings(axes: Any) -> None:
    """Deviation of repeated readings of a plate from the shortest one of its row."""
    rows = [[float(v) for v in row] for row in list(csv.reader(RECORDED.open()))[1:]] if RECORDED.exists() else []
    for k, row in enumerate(one for one in rows if one[0] >= 10):
        real = 10.0 * np.array(row[1:])
        sensor, world = ph.Echo(RANGER), wall(row[0] / 100.0, size=0.4)
        made = 1e3 * np.array([sensor.ping(world, pose=ph.Pose(), time=0.05 * n, seed=k).nearest for n in range(10)])
        for values, colour, mark, shift in ((real, GREY, "o", -0.1), (made, BLUE, ".", 0.1)):
            near = values[np.abs(values - np.median(values)) < 10.0]
            label = {"o": "recorded", ".": "simulated"}[mark] if k == 0 else None
            axes.plot(np.full(len(near), k + shift), near - near.min(), mark, color=colour, alpha=0.6, label=label)
    names = [f"{one[0]:.0f}" for one in rows if one[0] >= 10]
    axes.set_xticks(range(len(names)), names)
    axes.axhline(4.29, color=GREY, linewidth=0.7, linestyle="--")
    axes.set(xlabel="plate at [cm]", ylabel="reading above the shortest [mm]", title="Half-wave slips, 4.3 mm each")
    axes.legend(fontsize=7)


def draw_reach(axes: Any) -> None:
    """Largest tilt at which a wall is detected, over distance."""
    sensor = ph.Echo(RANGER, noise=False)
    distances, tilts = np.arange(0.25, 4.51, 0.25), np.arange(0.0, 51.0, 5.0)
    found = [[np.isfinite(sensor.ping(wall(d, t, 6.0), pose=ph.Pose()).nearest) for d in distances] for t in tilts]
    axes.pcolormesh(distances, tilts, np.array(found, float), cmap="Blues", vmin=0, vmax=1.4, shading="nearest")
    axes.set(xlabel="distance [m]", ylabel="tilt of the wall [°]", title="Walls that the ranger detects (blue)")


def draw_sonar(axes: Any) -> None:
    """Image of a forward-looking sonar: range over azimuth."""
    world = ph.World()
    world.add(ph.shapes.plane(80, 80), material="sand", label="bottom", pose=ph.Pose(xyz=(20, 0, -3)))
    world.add(ph.shapes.sphere(0.4, 4), material="steel", label="ball", pose=ph.Pose(xyz=(8, 1, -2.4)))
    world.add(ph.shapes.box(0.4, 0.4, 3), material="steel", label="pile", pose=ph.Pose(xyz=(12, -3, -1.5)))
    found = ph.Echo("generic/forward-looking-750").ping(world, pose=ph.Pose(rpy_deg=(0, 12, 0)), seed=1)
    # The strongest echo per pixel: a sum over the many cells of the bottom in a pixel would hide the ball.
    place = found.range * np.array([np.sin(found.azimuth), np.cos(found.azimuth)])
    column, row = np.floor((place + np.array([[13.0], [0.0]])) / 0.2).astype(int)
    inside = (column >= 0) & (column < 130) & (row >= 0) & (row < 100)
    image = np.zeros((100, 130))
    np.maximum.at(image, (row[inside], column[inside]), found.snr[inside])
    axes.imshow(image[:, ::-1], origin="lower", extent=(13, -13, 0, 20), cmap="copper", vmin=5, vmax=40)
    axes.set(xlabel="left [m]", ylabel="ahead [m]", title="Forward-looking sonar", aspect="equal")


if __name__ == "__main__":
    figure, panels = sheet(9.2, 3.4, 3)
    draw_readings(panels[0])
    draw_reach(panels[1])
    draw_sonar(panels[2])
    finish(figure, "echo-ranger")
