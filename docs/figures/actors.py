"""A walker, the positions of its feet, and boxes around the objects that a lidar sees: docs/images/actors.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection
from page import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, finish, sheet

import parhelion as ph
from parhelion.core.trajectory import pose_at
from parhelion.motion import MotionLimits, SplineMotion
from parhelion.motion.actors import add_forklift, add_person, pedestrians, traffic
from parhelion.motion.actors.person import Walk
from parhelion.motion.boxes import BoxTruth

COLOURS = {"car": BLUE, "person": ORANGE, "forklift": GREEN}


def draw_walker(axes: Any) -> None:
    """The same person at seven instants of a stride and a half, seen from the right."""
    world = ph.World()
    person = add_person(world, ph.ConstantTwist(ph.Pose(), (1.4, 0.0, 0.0)))
    for number, time in enumerate(np.linspace(0.0, 1.58, 7)):
        triangles = []
        for item in person.objects:
            pose = pose_at(item.trajectory, float(time))
            far = "left" in item.name
            for part in item.parts:
                points = pose.apply(part.mesh.vertices)[part.mesh.faces]
                triangles.append((points[:, :, [0, 2]], far, part.material.name))
        for points, far, material in sorted(triangles, key=lambda one: not one[1]):
            shade = {"skin": "#d9a77f", "rubber": "#30343b"}.get(material, GREY if far else BLUE)
            axes.add_collection(PolyCollection(points, facecolors=shade, edgecolors="none", zorder=3 - far + number))
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set(xlim=(-0.6, 2.8), ylim=(-0.08, 1.9), aspect="equal", xlabel="x [m]", ylabel="z [m]")
    axes.set_title("A walker at 1.4 m/s, seven instants 0.26 s apart")


def draw_feet(axes: Any) -> None:
    """Path of body and feet of a person who walks, waits and walks on."""
    poses = [ph.Pose((x, 0.0, 0.0)) for x in (0.0, 3.0, 3.0, 6.0)]
    walk = Walk(ph.Waypoints([0.0, 2.5, 4.0, 6.5], poses), 1.75)
    times = np.linspace(-0.5, 7.0, 1500)
    placed = walk.poses(times)
    axes.plot(times, placed["torso"][0][:, 0], color="black", linewidth=1.0, label="body")
    for side, colour in (("left", ORANGE), ("right", PURPLE)):
        axes.plot(times, placed[f"{side} foot"][0][:, 0], color=colour, label=f"{side} ankle")
    axes.set(xlabel="time [s]", ylabel="x [m]", title="Feet stand still in the world")
    axes.legend(fontsize=8)


def draw_boxes(axes: Any) -> None:
    """One scan of a yard with traffic from above, and the boxes at the times of their points."""
    world = ph.World()
    world.add(ph.shapes.plane(80, 80), material="asphalt", label="road")
    corners = [
        (-22, -14, 0),
        (22, -14, 0),
        (28, -8, 0),
        (28, 8, 0),
        (22, 14, 0),
        (-22, 14, 0),
        (-28, 8, 0),
        (-28, -8, 0),
    ]
    traffic(world, SplineMotion(corners, limits=MotionLimits(10, 2, 3), closed=True), 9, seed=4, speed_m_s=9.0)
    walk = [(-14, -7, 0), (14, -7, 0), (14, 7, 0), (-14, 7, 0)]
    pedestrians(world, SplineMotion(walk, limits=MotionLimits(1.6, 1, 1), closed=True), 10, seed=4)
    add_forklift(world, ph.ConstantTwist(ph.Pose((-6, 3, 0), rpy_deg=(0, 0, -30)), (0.8, -0.45, 0.0)), 0.6)
    scan = ph.Lidar("ouster/os1-64").scan(world, pose=ph.Pose((0, 0, 2.2)), time=12.0, seed=1)
    frame = BoxTruth(world, mobility=("dynamic",)).of(scan, "points")
    points = scan.in_world()
    words = np.array([points.names["label"][number] for number in points.label.tolist()])
    for label, colour in COLOURS.items():
        axes.scatter(*points.xyz[words == label, :2].T, s=1.5, color=colour, linewidths=0, label=label, zorder=3)
    for box in frame.world:
        outline = box.corners()[[0, 1, 3, 2, 0], :2]
        axes.plot(*outline.T, color=COLOURS[box.label], linewidth=0.9)
        ahead = box.centre[:2] + np.outer([0.0, 0.6], box.velocity[:2])
        axes.plot(*ahead.T, color=RED, linewidth=1.0)
    axes.plot([0], [0], "^", color="black", markersize=5)
    axes.set(xlim=(-31, 31), ylim=(-18, 18), aspect="equal", xlabel="x [m]", ylabel="y [m]")
    axes.set_title("Boxes of ground truth; red: path of the next 0.6 s")
    axes.legend(fontsize=8, markerscale=5, loc=(0.13, 0.42), framealpha=1)


if __name__ == "__main__":
    figure, (left, middle, right) = sheet(14.0, 3.7, 3, width_ratios=(1.35, 0.8, 1.45))
    draw_walker(left)
    draw_feet(middle)
    draw_boxes(right)
    finish(figure, "actors")
