"""Wake of a vessel from above and along its course, and its foam in a picture: docs/images/wake.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREY, ORANGE, finish, sheet

import parhelion as ph
from parhelion.contact.hulls import hull_shape
from parhelion.motion.vehicles.library import vehicle
from parhelion.motion.wake import KELVIN_ANGLE_RAD, Wake, WaterWithWakes, kelvin_waves, transverse_length_m
from parhelion.motion.water import OceanWater

SPEED_M_S = 4.0


def picture() -> Any:
    """Picture of a boat at 5 m/s from above and behind."""
    boat = vehicle("dlr/aurora")
    corners = hull_shape(boat).triangles.reshape(-1, 3) + np.array([0.0, 0.0, 0.42])
    motion = ph.ConstantTwist(ph.Pose(), velocity=(5.0, 0.0, 0.0))
    world = ph.World()
    world.add(ph.shapes.plane(300, 300), material="water", label="water")
    faces = np.arange(len(corners)).reshape(-1, 3)
    world.add_actor((corners, faces), material="car-paint-red", label="vessel", trajectory=motion)
    length, width, _ = boat.config.size_m
    world.set_water(
        WaterWithWakes(OceanWater(wind_speed_m_s=4.0, fetch_m=1000.0, seed=1), [Wake(motion, length, width)])
    )
    camera = ph.Camera("generic/vga")
    pose = ph.Pose.look_at((-4.0, -9.0, 7.0), (7.0, 1.0, -1.0))
    colour = np.asarray(camera.shoot(world, pose=pose, time=2.0, seed=1).colour, np.float64)[120:450, :540]
    return colour.reshape(110, 3, 180, 3, 3).mean(axis=(1, 3)) / 255.0


if __name__ == "__main__":
    figure, (left, right, view) = sheet(11.0, 2.9, 3, width_ratios=(1.2, 0.9, 1.1))
    x, y = np.linspace(0.0, 120.0, 241), np.linspace(-50.0, 50.0, 201)
    behind, aside = np.meshgrid(x, y, indexing="ij")
    height = np.concatenate([
        kelvin_waves(b, a, SPEED_M_S, 0.5)[0] for b, a in zip(behind, aside, strict=True)
    ]).reshape(behind.shape)  # fmt: skip
    shown = left.pcolormesh(x, y, 100.0 * height.T, cmap="RdBu_r", vmin=-8, vmax=8, rasterized=True)
    for sign in (-1.0, 1.0):
        left.plot(x, sign * np.tan(KELVIN_ANGLE_RAD) * x, "--", color=GREY, linewidth=1.0)
    left.set(xlabel="behind the bow [m]", ylabel="aside [m]", title="4 m/s, lines at 19.47°", ylim=(-50, 50))
    figure.colorbar(shown, ax=left, label="height [cm]", shrink=0.85)
    length = transverse_length_m(SPEED_M_S)
    course = kelvin_waves(x, np.zeros_like(x), SPEED_M_S, 0.5)[0]
    k = 2.0 * np.pi / length
    far = x > 0.5 * length
    share = 0.1 * SPEED_M_S**2 / (2.0 * 9.80665) * np.exp(-0.5 * (0.5 * k) ** 2)
    phase = share * np.sqrt(2.0 * np.pi / (k * x[far])) * np.cos(k * x[far] + np.pi / 4.0)
    right.plot(x, 100.0 * course, color=BLUE, label="sum of the waves")
    right.plot(x[far], 100.0 * phase, "--", color=ORANGE, label="stationary phase")
    right.set(xlabel="behind the bow [m]", ylabel="height [cm]", title=f"On the course: length 2πv²/g = {length:.1f} m")
    right.legend(fontsize=8)
    view.imshow(picture(), interpolation="nearest")
    view.set_axis_off()
    view.set_title("Foam behind a boat of 6 m at 5 m/s")
    finish(figure, "wake")
