"""Scans with Dr.Jit's bounds checks of kernel reads and writes. Run as a program; violations are printed on stderr."""

from __future__ import annotations

import parhelion as ph
from parhelion.rays.device import engine
from rigs import many_beams, sheet, wall
from weather_rigs import BEAM

machine = engine()
machine.dr.set_flag(machine.dr.JitFlag.Debug, True)
moving = wall(20.0)
moving.add_actor(ph.shapes.box(2, 1, 1), trajectory=ph.ConstantTwist(ph.Pose((10, -2, 0)), (0, 4, 0)))
for world in (ph.World(), wall(20.0), moving):
    for model in (many_beams(500, beam=BEAM), sheet(beam=BEAM)):
        lidar, world.weather = ph.Lidar(model), None
        scan = lidar.scan(world, pose=ph.Pose())
        world.weather = ph.Weather(rain_rate_mm_h=20)
        lidar.scan(world, pose=ph.Pose())
        world.weather.apply(scan, sensor=lidar)
print("done")
