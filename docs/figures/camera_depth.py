"""Depth cameras against recordings, and infrared pictures: docs/images/camera-depth.png and camera-infrared.png.

The recorded panels need ../shared/data/depth_d435.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from page import BLUE, GREY, ORANGE, RED, finish, sheet

import parhelion as ph
from parhelion.core.trajectory import ConstantTwist

RECORDED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "depth_d435" / "roi_means_cm.csv"
ROI = np.s_[310:410, 700:800]
"""100 x 100 pixels near the middle of the image, outside the strip that the second lens does not see."""
FRAMES = 40


def recorded() -> dict[float, NDArray[np.float64]]:
    """Mean depth of the region in each frame [m], by distance [m]."""
    found: dict[float, list[float]] = defaultdict(list)
    file = RECORDED if RECORDED.exists() else Path("/work/shared/data/depth_d435/roi_means_cm.csv")
    with file.open() as lines:
        for row in csv.DictReader(lines):
            found[float(row["truth_cm"]) / 100.0].append(float(row["roi_mean_cm"]) / 100.0)
    return {distance: np.array(values) for distance, values in found.items()}


def wall(distance: float) -> ph.World:
    """A grey wall across the optical axis."""
    world = ph.World()
    world.add(ph.shapes.box(0.1, 12.0, 12.0), material="lambert-50", pose=ph.Pose((distance + 0.05, 0, 0)))
    return world


def corner() -> ph.World:
    """Two white walls that meet at 2.5 m on the optical axis, at right angles."""
    world = ph.World()
    for yaw in (-45.0, 45.0):
        pose = ph.Pose((2.5, 0, 0)) @ ph.Pose(rpy_deg=(0, 0, yaw)) @ ph.Pose((0.05, 0, 0))
        world.add(ph.shapes.box(0.1, 8.0, 6.0), material="lambert-70", pose=pose)
    return world


def draw_scatter(axes: Any, camera: ph.Camera) -> NDArray[np.float32]:
    """Scatter of the mean of 10^4 pixels: recorded, simulated, and for independent pixels. Returns one error map."""
    real = recorded()
    distances = np.array(sorted(real))
    simulated, single = [], []
    for distance in distances:
        world = wall(float(distance))
        depth = np.array([camera.shoot(world, pose=ph.Pose(), seed=seed).measured_depth[ROI] for seed in range(FRAMES)])
        simulated.append(np.nanstd(np.nanmean(depth, axis=(1, 2)), ddof=1))
        single.append(np.nanstd(depth - np.nanmean(depth, axis=(1, 2), keepdims=True)))
    axes.loglog(
        distances, [1e3 * np.std(real[d], ddof=1) for d in distances], "o", color=RED, label="recorded, 100 frames"
    )
    axes.loglog(distances, 1e3 * np.array(simulated), "x-", color=BLUE, label=f"simulated, {FRAMES} frames")
    axes.loglog(distances, 10.0 * np.array(single), "--", color=GREY, label="if pixels were independent")
    axes.set(xlabel="distance [m]", ylabel="deviation of the mean [mm]", title="D435: mean of 100 x 100 pixels")
    axes.set_xticks(distances, [f"{d:g}" for d in distances])
    axes.minorticks_off()
    axes.legend(fontsize=7)
    for distance, value in zip(distances, simulated, strict=True):
        print(f"{distance:g} m: recorded {1e3 * np.std(real[distance], ddof=1):.2f} mm, simulated {1e3 * value:.2f} mm")
    return camera.shoot(wall(2.0), pose=ph.Pose(), seed=3).measured_depth - np.float32(2.0)


def draw_corner(axes: Any) -> None:
    """Depth error of a time-of-flight camera over a corner."""
    for option, label, colour in ((True, "interreflection", BLUE), (False, "direct light alone", ORANGE)):
        camera = ph.Camera("microsoft/azure-kinect-depth", picture=False, noise=False)
        flight = camera.config.depth.time_of_flight.model_copy(update={"interreflection": option})
        depth = camera.config.depth.model_copy(update={"time_of_flight": flight})
        camera = ph.Camera(camera.config.model_copy(update={"depth": depth}), picture=False, noise=False)
        image = camera.shoot(corner(), pose=ph.Pose(), seed=1)
        error = 1e3 * (image.measured_depth - image.depth)[280:296].mean(axis=0)
        axes.plot(error, color=colour, lw=1.0, label=label)
    axes.set(xlabel="column [pixel]", ylabel="depth error [mm]", title="Azure Kinect: corner at 2.5 m", ylim=(-20, 42))
    axes.legend(fontsize=7, loc="upper left")


def draw_infrared(figure_name: str) -> None:
    """A moving and a parked car in the visible, mid-wave and long-wave infrared."""
    city = ph.World.load("city")
    cars = [item for item in city.objects if item.name.startswith("car-0/")]
    world = ph.World()
    world.add(ph.shapes.plane(60, 60), material="asphalt", label="road")
    world.add(ph.shapes.box(0.3, 30, 6), material="brick", label="building", pose=ph.Pose((14, 0, 3)))
    for shift, moving in ((2.6, False), (-2.6, True)):
        for item in cars:
            for part in item.parts:
                vertices = part.mesh.vertices
                pose = ph.Pose((8.0, shift, 0.0), rpy_deg=(0, 0, 155.0))
                if moving:
                    path = ConstantTwist(pose, (-0.01, 0.0, 0.0))
                    world.add_actor((vertices, part.mesh.faces), material=part.material, label="car", trajectory=path)
                else:
                    world.add((vertices, part.mesh.faces), material=part.material, label="car", pose=pose)
    world.daylight = ph.Daylight(sun_elevation_deg=25, sun_azimuth_deg=250, air_temperature_c=12)
    figure, panels = sheet(8.4, 2.2, 3)
    pose = ph.Pose((0, 0, 2.2), rpy_deg=(0, 9, 0))
    for axes, (name, title) in zip(
        panels,
        (("generic/vga", "visible"), ("generic/mwir-640", "3 to 5 µm [°C]"), ("flir/boson-640", "8 to 14 µm [°C]")),
        strict=True,
    ):
        camera = ph.Camera(name, width=320, samples=64, truth=())
        if name != "generic/vga":
            sheet_of = ph.Camera(name).config
            lens = sheet_of.lens.model_copy(update={"hfov_deg": 70.0, "focal_length_mm": None})
            camera = ph.Camera(sheet_of.model_copy(update={"lens": lens}), width=320, samples=16, truth=())
        colour = camera.shoot(world, pose=pose, seed=2).colour
        if name == "generic/vga":
            axes.imshow(colour)
        else:
            shown = axes.imshow(colour / 100.0 - 273.15, cmap="inferno", vmin=5, vmax=45)
            figure.colorbar(shown, ax=axes, shrink=0.8)
        axes.set(title=title, xticks=[], yticks=[])
    finish(figure, figure_name)


if __name__ == "__main__":
    figure, panels = sheet(9.2, 2.9, 3)
    error = draw_scatter(panels[0], ph.Camera("intel/realsense-d435-depth", picture=False, truth=()))
    shown = panels[1].imshow(1e3 * error[200:520, 500:980], cmap="coolwarm", vmin=-60, vmax=60, interpolation="nearest")
    panels[1].set(title="D435: error at 2 m [mm]", xticks=[], yticks=[])
    figure.colorbar(shown, ax=panels[1], shrink=0.8)
    draw_corner(panels[2])
    finish(figure, "camera-depth")
    draw_infrared("camera-infrared")
