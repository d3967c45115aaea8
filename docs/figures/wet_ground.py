"""Wet and snowy ground: a street at night, shares over time, and the road in a lidar: docs/images/wet-ground.webp."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, IMAGES, ORANGE, RED
from PIL import Image

import parhelion as ph
from parhelion.weather.ground import AMOUNTS

STATES = (
    ("dry", GREY, None),
    ("wet", ORANGE, ph.Weather(wetness=1.0)),
    ("wet with puddles", BLUE, ph.Weather(wetness=1.0, puddles=0.3)),
    ("snow", GREEN, ph.Weather(snow_cover=0.7)),
)
SHOWER = [[0, 0], [300, 15], [1800, 15], [2100, 0]]


def street(weather: ph.Weather | None) -> Any:
    """A street at night."""
    world = ph.World.load("city")
    world.daylight = ph.Daylight(sun_elevation_deg=-12)
    world.weather = weather
    return ph.Camera("generic/vga", samples=64).shoot(world, pose=world.viewpoint, seed=1).colour[150:]


def draw_shares(axes: Any) -> None:
    """Wetness and puddles during and after a shower."""
    weather = ph.Weather(rain_rate_mm_h=SHOWER, wetness="from-rain", puddles="from-rain", wind_m_s=(2, 0, 0))
    hours = np.linspace(0.0, 20.0, 500)
    found = [weather.at(3600.0 * hour) for hour in hours]
    for name, colour in (("wetness", BLUE), ("puddles", RED)):
        axes.plot(hours, [getattr(one, name) for one in found], color=colour, label=AMOUNTS[name].word)
    axes.set(xlabel="time [h]", ylabel="share", title="Half an hour of rain, 15 mm/h")
    axes.legend(fontsize=8)


def draw_road(axes: Any) -> None:
    """Share of the shots at a road that return, by distance."""
    world = ph.World()
    world.add(ph.shapes.box(300, 300, 0.2), material="asphalt", label="road", pose=ph.Pose(xyz=(0, 0, -0.1)))
    lidar = ph.Lidar("ouster/os1-128")
    shots = lidar.shots(0.0).direction
    down = shots[:, 2] < -0.01
    distance = 1.8 * np.hypot(shots[:, 0], shots[:, 1])[down] / -shots[down, 2]
    edges = np.geomspace(4.0, 80.0, 18)
    aimed, _ = np.histogram(distance, edges)
    for name, colour, weather in STATES:
        world.weather = weather
        scan = lidar.scan(world, pose=ph.Pose(xyz=(0, 0, 1.8)), seed=1)
        back = np.isin(np.flatnonzero(down), scan.fields["shot"][np.abs(scan.xyz[:, 2] + 1.8) < 0.2])
        share = np.histogram(distance[back], edges)[0] / np.maximum(aimed, 1)
        axes.semilogx(edges[:-1], np.where(aimed > 0, 100.0 * share, np.nan), ".-", color=colour, label=name)
    axes.set_xticks([5, 10, 20, 50], ["5", "10", "20", "50"])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="distance on the road [m]", ylabel="shots that return [%]", title="Asphalt, OS1-128 at 1.8 m")
    axes.legend(fontsize=8)


def main() -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 9.0), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(3, 2, height_ratios=(1, 1, 1.1))
    for axes, (name, _, weather) in zip(panels[:2].ravel(), STATES, strict=True):
        axes.imshow(street(weather))
        axes.set_title(name, fontsize=10)
        axes.set_axis_off()
    draw_shares(panels[2, 0])
    draw_road(panels[2, 1])
    figure.canvas.draw()
    picture = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3])
    picture.save(IMAGES / "wet-ground.webp", quality=85, method=6)


if __name__ == "__main__":
    main()
