"""A mirror and a pane in a room, seen by a 2D lidar: docs/images/specular.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, RED, add_wall, changed, finish, raster, sheet, wall

import parhelion as ph

SENSOR = "hokuyo/utm-30lx"


def room() -> tuple[ph.World, list[tuple[str, tuple[float, float], tuple[float, float]]]]:
    """Four walls, a mirror on one of them, a pane across a niche, two pillars; and the plan as lines."""
    world = ph.World()
    plan = [
        ("plaster", (-4.0, -3.0), (5.0, -3.0)), ("plaster", (-4.0, 3.0), (5.0, 3.0)),
        ("plaster", (-4.0, -3.0), (-4.0, 3.0)), ("plaster", (7.0, -3.0), (7.0, 3.0)),
        ("plaster", (5.0, -3.0), (7.0, -3.0)), ("plaster", (5.0, 3.0), (7.0, 3.0)),
        ("glass", (5.0, -3.0), (5.0, 3.0)), ("mirror", (-2.0, 2.95), (2.0, 2.95)),
    ]  # fmt: skip
    for material, (x0, y0), (x1, y1) in plan:
        length, yaw = np.hypot(x1 - x0, y1 - y0), np.degrees(np.arctan2(y1 - y0, x1 - x0))
        thickness = 0.02 if material == "plaster" else None
        shape = ph.shapes.box(length, 0.02, 3.0) if thickness else ph.shapes.plane(length, 3.0)
        flat = ph.Pose() if thickness else ph.Pose(rpy_deg=(90, 0, 0))
        pose = ph.Pose(((x0 + x1) / 2, (y0 + y1) / 2, 0.0), rpy_deg=(0, 0, yaw)) @ flat
        world.add(shape, material=material, label="wall", pose=pose)
    for x, y in ((1.5, -1.8), (6.1, 1.2)):
        world.add(ph.shapes.cylinder(0.25, 3.0), material="plaster", label="column", pose=ph.Pose((x, y, 0)))
    return world, plan


def draw_room(axes: Any) -> None:
    """Positions of the points, coloured by their origin."""
    world, plan = room()
    lidar = ph.Lidar(changed(SENSOR, noise={"range_sigma_table": [(0.0, 0.004), (30.0, 0.004)]}), bounces=2)
    scan = lidar.scan(world, pose=ph.Pose((0, 0, 0), rpy_deg=(0, 0, 20)), seed=1)
    points = scan.in_world()
    ghost = points.origin == 5
    for rows, colour, label in ((~ghost, BLUE, "surface"), (ghost, RED, "multipath")):
        axes.scatter(*points.xyz[rows, :2].T, s=4, color=colour, label=label, linewidths=0, zorder=3)
    colours = {"plaster": GREY, "glass": GREEN, "mirror": ORANGE}
    for material, start, end in plan:
        axes.plot(
            *np.array([start, end]).T,
            color=colours[material],
            linewidth=1.0 if material == "plaster" else 3.0,
            alpha=0.7,
        )
    axes.plot([0], [0], "^", color="black", markersize=6)
    axes.text(0.1, 2.45, "mirror", color=ORANGE, fontsize=8, ha="center")
    axes.text(4.85, -2.6, "pane", color=GREEN, fontsize=8, ha="right")
    axes.set(
        xlabel="x [m]",
        ylabel="y [m]",
        title="Points of a 2D lidar (triangle) in a room",
        aspect="equal",
        xlim=(-5, 8),
        ylim=(-4, 9.5),
    )
    axes.legend(fontsize=8, loc="center right", bbox_to_anchor=(1.0, 0.64), markerscale=2)


def draw_glass_power(axes: Any) -> None:
    """Power of a wall behind a pane against the angle of the pane."""
    lidar = ph.Lidar(
        changed("velodyne/vlp-16", pattern=raster(), range={"resolution_m": 0.0}), noise=False, returns="last"
    )
    # The wall is small, so that the pane's mirrored path misses it.
    clear = lidar.scan(wall(20.0, "lambert-80", size_m=3.0), pose=ph.Pose()).power[0]
    angles, left = np.arange(0.0, 81.0, 5.0), []
    for angle in angles:
        world = wall(20.0, "lambert-80", size_m=3.0)
        add_wall(world, 10.0, "glass", size_m=15.0, turn_deg=float(angle))
        scan = lidar.scan(world, pose=ph.Pose())
        left.append(scan.power[-1] / clear if len(scan) and scan.range[-1] > 19 else np.nan)
    axes.plot(angles, left, "o", color=BLUE, markersize=5, label="scans")
    fine = np.linspace(0.0, 85.0, 200)
    axes.plot(fine, transmitted(fine) ** 2, color=ORANGE, label="T² of the pane")
    axes.set(
        xlabel="incidence on the pane [°]", ylabel="power against open air", title="A wall behind a pane", ylim=(0, 1)
    )
    axes.legend(fontsize=8)


def transmitted(angle_deg: Any) -> Any:
    """Transmitted share of the library's glass at 903 nm."""
    from parhelion.surfaces.library import material
    from parhelion.surfaces.material import material_table, specular_split

    columns = {name: values[0] for name, values in material_table([material("glass")], 903.0).items()}
    return specular_split(np.cos(np.radians(angle_deg)), columns)[1]


if __name__ == "__main__":
    figure, (left, right) = sheet(10.0, 4.6, 2)
    draw_room(left)
    draw_glass_power(right)
    finish(figure, "specular")
