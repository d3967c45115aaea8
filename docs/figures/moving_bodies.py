"""A moving lidar and a passing truck, as recorded and deskewed: docs/images/moving-bodies.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREY, ORANGE, finish, sheet

import parhelion as ph

SPEED_M_S, TRUCK_M_S, TURN_RAD_S = 20.0, -25.0, 0.6


def street() -> ph.World:
    """Two rows of houses along x and a truck that comes the other way."""
    world = ph.World("street")
    world.add(ph.shapes.plane(200, 60), material="asphalt", label="road")
    for x in np.arange(-28.0, 36.0, 14.0):
        for side in (-1.0, 1.0):
            pose = ph.Pose((x, 14.0 * side, 5.0))
            world.add(ph.shapes.box(11.0, 8.0, 10.0), material="brick", label="building", pose=pose)
    motion = ph.ConstantTwist(ph.Pose((18.0, 4.0, 1.9)), (TRUCK_M_S, 0.0, 0.0))
    world.add_actor(ph.shapes.box(9.0, 2.5, 3.4), material="car-paint-white", label="truck", trajectory=motion)
    return world


def plan(axes: Any, world: ph.World, time: float) -> None:
    """Outlines of houses, and of the truck at a time."""
    for item in world.objects:
        if item.label not in ("building", "truck"):
            continue
        centre = item.pose.xyz if item.trajectory is None else item.trajectory.sample(np.array([time]))[0][0]
        half = np.array([5.5, 4.0]) if item.label == "building" else np.array([4.5, 1.25])
        corners = centre[:2] + half * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
        axes.plot(*corners.T, color=GREY, linewidth=0.8)


def draw(axes: Any, world: ph.World, points: ph.PointCloud, title: str) -> None:
    """Points from above, those of the truck in another colour, in the sensor frame at the start of the scan."""
    names = points.names["label"]
    label = np.array([names[number] for number in points.label.tolist()])
    for word, colour in (("building", BLUE), ("truck", ORANGE)):
        axes.scatter(*points.xyz[label == word, :2].T, s=2.5, color=colour, label=word, linewidths=0, zorder=3)
    plan(axes, world, 0.0)
    axes.plot([0], [0], "^", color="black", markersize=6)
    axes.set(title=title, xlabel="x [m]", ylabel="y [m]", aspect="equal", xlim=(-28, 30), ylim=(-13, 13))
    axes.legend(fontsize=8, loc="lower right", markerscale=3, framealpha=1)


if __name__ == "__main__":
    scene = street()
    drive = ph.ConstantTwist(ph.Pose((0.0, 0.0, 1.8)), (SPEED_M_S, 0.0, 0.0), (0.0, 0.0, TURN_RAD_S))
    scan = ph.Lidar("velodyne/vlp-16").scan(scene, trajectory=drive, time=0.0, seed=1)
    figure, (left, right) = sheet(11.0, 2.85, 2)
    draw(left, scene, scan, "As recorded: sensor at 20 m/s, turning; truck at 25 m/s")
    draw(right, scene, scan.deskewed(), "Deskewed: houses fit their plan, the truck does not")
    finish(figure, "moving-bodies")
