"""Radar and camera of a car, fused: detections are projected into the picture and get the class of their pixel.

    python 06-fusion.py -o fusion.png

The radar measures range and speed, the camera sees the class; together they yield the speed of each road user. A
detection counts only if its range fits the depth of its pixel: false alarms and reflections between objects do not.
"""

from __future__ import annotations

import sys

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import parhelion as ph

SPEEDS = {"car": 6.0, "truck": -4.0}
"""Speed of each road user along the street [m/s]; the radar measures the difference to its own."""
OWN_M_S = 5.0


def street() -> ph.World:
    world = ph.World()
    world.add(ph.shapes.plane(200, 40), material="asphalt", label="road")
    world.add(ph.shapes.box(200, 1, 8), material="brick", label="building", pose=ph.Pose(xyz=(0, 15, 4)))
    for name, size, place in (("car", (4.3, 1.8, 1.5), (22, -1.8, 0.75)), ("truck", (8, 2.5, 3.2), (38, 3.5, 1.6))):
        motion = ph.ConstantTwist(ph.Pose(xyz=place), velocity=(SPEEDS[name], 0, 0))
        world.add_actor(ph.shapes.box(*size), material="car-paint-white", label=name, trajectory=motion)
    return world


def main() -> None:
    world = street()
    drive = ph.ConstantTwist(ph.Pose(xyz=(0, 0, 0)), velocity=(OWN_M_S, 0, 0))
    radar = ph.Radar("continental/ars408-21-near", name="bumper")
    camera = ph.Camera("generic/vga", width=480, name="windscreen")
    radar_mount, camera_mount = ph.Pose(xyz=(3.5, 0, 0.6)), ph.Pose(xyz=(1.5, 0, 1.4))
    detections = radar.measure(world, trajectory=drive, mount=radar_mount, time=0.1, seed=7)
    image = camera.measure(world, trajectory=drive, mount=camera_mount, time=0.1, seed=7)

    pixels, inside = camera.project(image.pose.inverse().apply(detections.in_world().xyz))
    columns, rows = pixels[inside].round().astype(int).T
    label = image.label[rows.clip(0, image.label.shape[0] - 1), columns.clip(0, image.label.shape[1] - 1)]
    speed, distance = detections.radial_velocity[inside], detections.range[inside]
    depth = image.depth[rows.clip(0, image.depth.shape[0] - 1), columns.clip(0, image.depth.shape[1] - 1)]
    fits = np.abs(distance + radar_mount.xyz[0] - camera_mount.xyz[0] - depth) < 2.0
    for name, true in SPEEDS.items():
        its = fits & (label == next(number for number, word in image.names["label"].items() if word == name))
        fused = float(np.median(speed[its])) + OWN_M_S if its.any() else float("nan")
        print(f"{name:6} {its.sum():3} detections, {fused:5.1f} m/s along the street, true {true:5.1f} m/s")
        if not abs(fused - true) < 0.5:
            raise SystemExit(f"the fused speed of the {name} is off")

    figure = Figure(figsize=(8, 6), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.imshow(image.colour)
    dots = axes.scatter(
        columns, rows, c=speed, cmap="coolwarm", vmin=-12, vmax=12, s=36, edgecolors="black", linewidths=0.5
    )
    figure.colorbar(dots, ax=axes, label="radial velocity [m/s]", orientation="horizontal", shrink=0.6)
    axes.set_axis_off()
    figure.savefig(sys.argv[sys.argv.index("-o") + 1] if "-o" in sys.argv else "fusion.png")


if __name__ == "__main__":
    main()
