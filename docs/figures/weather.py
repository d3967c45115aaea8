"""One street in rain, fog, snow and dust, from above, with the points lost to the weather: docs/images/weather.png."""

from __future__ import annotations

import numpy as np
from page import BLUE, finish, sheet
from weather_page import AIR, draw_from_above

import parhelion as ph

SENSOR = "ouster/os1-128"
PLACE = ph.Pose((0.0, -1.75, 1.8))
# A lorry that drove past on the other lane and is 25 m down the road now.
LORRY = ph.DustTrail(path=[[0.0, -35.0, 1.75, 0.0], [6.0, 25.0, 1.75, 0.0]], weight_kg=12_000.0, width_m=2.5)
WEATHERS = {
    "rain, 25 mm/h": ph.Weather(rain_rate_mm_h=25.0),
    "heterogeneous fog, visibility 80 m": ph.Weather(
        fog=ph.Fog(visibility_m=80.0, heterogeneity=ph.Heterogeneity(contrast=0.8))
    ),
    "snow, 2 mm/h": ph.Weather(snow_rate_mm_h=2.0),
    "dust of a lorry": ph.Weather(dust=[LORRY]),
}


if __name__ == "__main__":
    world, lidar = ph.World.load("city"), ph.Lidar(SENSOR)
    clear = lidar.scan(world, pose=PLACE, time=6.0, seed=7)
    figure, panels = sheet(13.0, 4.1, len(WEATHERS), sharey=True)
    for axes, (title, weather) in zip(panels, WEATHERS.items(), strict=True):
        world.weather = weather
        scan = lidar.scan(world, pose=PLACE, time=6.0, seed=7)
        in_air = np.isin(scan.origin, AIR)
        taken = ~np.isin(clear.shot, scan.shot[~in_air])
        axes.plot(*clear.xyz[taken, :2].T, ",", color=BLUE, rasterized=True)
        draw_from_above(axes, scan.xyz, in_air, 50.0)
        axes.set_title(f"{title}\n{100 * taken.mean():.0f} % taken, {int(in_air.sum())} points of the air")
        print(f"{title}: {len(scan)} points, {100 * in_air.mean():.2f} % of the air, {100 * taken.mean():.1f} % taken")
    panels[0].set_ylabel("y [m]")
    finish(figure, "weather")
