"""Moving bodies: cost of scans as cars drive through the city."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scans import scanner
from tables import Table
from timing import ratio, take_turns
from workloads import OS1, Settings

import parhelion as ph
from parhelion.core.trajectory import ConstantTwist
from parhelion.world.kit.vehicles import CAR_SHAPES, PAINTS, car

_COUNTS = (0, 10, 50)
_LANE_M, _SPEED_M_S = 1.75, 10.0


def tables(settings: Settings) -> Iterator[Table]:
    """One row per number of actors."""
    table = Table(
        "actors",
        "Moving bodies: OS1-128 in the city with cars driving through the two main streets",
        ["cars", "triangles that move", "ms per scan", "M beams/s", "time against none", "points on cars"],
        notes=["Each scan is 0.1 s later than the last, so the bodies are placed again for each scan."],
    )
    counts = _COUNTS[:2] if settings.quick else _COUNTS
    worlds = {number: _city_with(number) for number in counts}
    lidar = {number: ph.Lidar(OS1) for number in counts}
    runs = {str(number): scanner(lidar[number], worlds[number]) for number in counts}
    times = take_turns(runs, rounds=settings.rounds(12), most_seconds=1.5 * settings.most_seconds)
    for number in counts:
        scan = lidar[number].scan(worlds[number], time=0.5, seed=1)
        table.add(
            {
                "cars": number,
                "triangles that move": sum(len(a.triangles) for a in worlds[number].geometry("lidar").actors),
                "ms per scan": 1e3 * times[str(number)].best,
                "M beams/s": len(lidar[number].shots()) / times[str(number)].best / 1e6,
                "time against none": ratio(times[str(number)], times["0"]),
                "points on cars": int(np.count_nonzero(np.any(scan.fields["velocity"] != 0, axis=1))),
            }
        )
    yield table


def _city_with(number: int) -> ph.World:
    """The city, with cars in four lanes of the two streets that cross at its centre."""
    world = ph.World.load("city")
    shapes = list(CAR_SHAPES)
    # Each car is one body with one paint, because the motion costs time, not the material.
    bodies = {shape: ph.Mesh.merged([part.mesh for part in car(shape)]) for shape in shapes}
    for index in range(number):
        lane, place = index % 4, index // 4
        along = 12.0 * (place - (number / 4.0 - 1.0) / 2.0) + 3.0 * lane
        heading = (0.0, 180.0, 90.0, 270.0)[lane]
        c, s = np.cos(np.radians(heading)), np.sin(np.radians(heading))
        xyz = (c * along + s * _LANE_M, s * along - c * _LANE_M, 0.0)
        motion = ConstantTwist(
            ph.Pose(xyz, rpy_deg=(0.0, 0.0, heading)), velocity=(c * _SPEED_M_S, s * _SPEED_M_S, 0.0)
        )
        shape = shapes[index % len(shapes)]
        world.add_actor(bodies[shape], material=PAINTS[index % len(PAINTS)], label="car", trajectory=motion)
    return world
