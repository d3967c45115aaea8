"""Spray behind a car: a camera picture, the light that crosses it, and lidar points by speed: docs/images/spray.png."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from page import BLUE, GREEN, GREY, ORANGE, finish, sheet

import parhelion as ph
from parhelion.weather.media.spray import EXTINCTION_M2_KG, SPRAY

START_M = -250.0
LENGTH_M = 15.0
"""Distance of the sensors behind the middle of the car."""
ROAD = {"shape": {"kind": "plane", "size_m": [1200, 14]}, "material": "asphalt", "label": "road"}
VERGE = {
    "shape": {"kind": "plane", "size_m": [1200, 200]}, "material": "grass", "label": "terrain",
    "pose": {"xyz": [0, 0, -0.1]},
}  # fmt: skip


def scenario(folder: Path, speed_m_s: float, film_mm: float, sensor: dict[str, Any]) -> ph.Scenario:
    """A car on a wet road, and a sensor that follows it."""
    posts = [
        {"shape": {"kind": "cylinder", "radius_m": 0.1, "height_m": 1.2}, "material": "white-paint", "label": "pole",
         "pose": {"xyz": [float(x), y, 0.6]}}
        for x in range(-300, 300, 25) for y in (-7.5, 7.5)
    ]  # fmt: skip
    (folder / "road.yaml").write_text(yaml.safe_dump({"objects": [ROAD, VERGE, *posts]}))

    def motion(x: float) -> dict[str, Any]:
        ends = [(0.0, x), (9.0, x + 9.0 * speed_m_s)]
        return {"waypoints": [{"time_s": time, "xyz": [at, 0, 0]} for time, at in ends]}

    machine = {"kind": "car", "name": "ahead", "motion": motion(START_M), "paint": "car-paint-red"}
    if film_mm > 0.0:
        machine["raises_spray"] = {"film_mm": film_mm}
    fields = {
        "duration_s": 5.2, "world": "road.yaml", "machines": [machine], "outputs": [], "report": False,
        "vehicles": [{"name": "own", "motion": motion(START_M - LENGTH_M)}],
        "sensors": [{"name": "eye", "vehicle": "own", "phase_s": 4.0, **sensor}],
    }  # fmt: skip
    return ph.Scenario.from_mapping(fields, folder)


def draw_picture(folder: Path, axes: Any) -> None:
    """Picture of a camera in the next lane."""
    mount = {"xyz": [0, 4.0, 1.5], "rpy_deg": [0, 0, -16]}
    sensor = {"type": "camera", "model": "generic/vga", "mount": mount, "options": {"samples": 24}}
    made = scenario(folder, 30.0, 0.5, sensor)
    picture = made.frame_sensors[0].measure(made.world, 0, 1).colour
    axes.imshow(picture[150:390:2, 80:560:2], interpolation="bilinear")
    axes.set_axis_off()
    axes.set_title("Camera in the next lane, 108 km/h, 0.5 mm")


def draw_side(folder: Path, figure: Any, axes: Any) -> None:
    """Share of light that crosses the plume."""
    sensor = {"type": "lidar", "model": "velodyne/vlp-16"}
    made = scenario(folder, 30.0, 0.5, sensor)
    weather = made.world.weather
    assert weather is not None
    (grid,) = weather.raised[0][1].raised.grids(weather, 4.0)
    middle = START_M + 4.0 * 30.0
    x, z = np.linspace(-40.0, 4.0, 221), np.linspace(0.0, 4.0, 41)
    rays = np.stack(np.meshgrid(middle + x, [-20.0], z, indexing="ij"), axis=-1).reshape(-1, 3)
    depth = grid.optical_depth(rays, (0.0, 1.0, 0.0), np.inf, EXTINCTION_M2_KG)
    shown = axes.pcolormesh(
        x, z, np.exp(-depth).reshape(len(x), len(z)).T, cmap="Blues_r", vmin=0.0, vmax=1.0, rasterized=True
    )
    axes.fill([-2.2, 2.2, 2.2, -2.2], [0.2, 0.2, 1.4, 1.4], color=ORANGE, alpha=0.8)
    axes.set(xlabel="behind the car [m]", ylabel="height [m]", title="Light across the plume, 108 km/h, 0.5 mm")
    figure.colorbar(shown, ax=axes, label="one-way transmission", shrink=0.85)


def draw_counts(folder: Path, axes: Any) -> None:
    """Points of a lidar behind the car."""
    sensor = {"type": "lidar", "model": "velodyne/vlp-32c", "mount": {"xyz": [0, 0, 1.8]}, "options": {"sub_rays": 5}}
    speeds = np.array([50.0, 65.0, 80.0, 95.0, 110.0, 130.0])
    for film_mm, colour in ((0.5, BLUE), (0.8, GREEN), (1.2, ORANGE)):
        means = []
        for speed in speeds:
            made = scenario(folder, speed / 3.6, film_mm, sensor)
            scans = [made.frame_sensors[0].measure(made.world, number, 1) for number in range(10)]
            means.append(np.mean([np.count_nonzero(scan.origin == SPRAY.code) for scan in scans]))
        print(film_mm, dict(zip(speeds.tolist(), np.round(means, 1).tolist(), strict=True)))
        axes.plot(speeds, np.maximum(means, 0.1), ".-", color=colour, label=f"film of {film_mm:g} mm")
    axes.axhspan(10.0, 1000.0, xmin=0.35, color=GREY, alpha=0.2, linewidth=0, label="tens to hundreds (published)")
    axes.set_yscale("log")
    axes.set_ylim(0.1, 3000.0)
    axes.set(xlabel="speed [km/h]", ylabel="points per scan", title="VLP-32C 15 m behind")
    axes.legend(fontsize=8, loc="lower right")


if __name__ == "__main__":
    figure, (left, middle, right) = sheet(11.6, 3.1, 3, width_ratios=(1.3, 1.3, 1.0))
    with tempfile.TemporaryDirectory() as name:
        draw_picture(Path(name), left)
        draw_side(Path(name), figure, middle)
        draw_counts(Path(name), right)
    finish(figure, "spray")
