"""A robot crosses open country on its own: it maps rocks, trees and steep ground with its lidar and drives around them.

    python examples/missions/off_road.py --seed 1 -o off-road.png

The robot knows its pose, as from satellite navigation and an IMU, and the position of the goal, about 200 m away; its
VLP-16 measures everything else. The drive takes about 5 minutes of simulated time. A mission in the manner of the VANE
studies of off-road autonomy: closed loop of ground, vehicle, sensor and controller. Needs pip install 'parhelion[gym]'.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.ndimage import distance_transform_edt, gaussian_filter
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from parhelion.gym import OFF_ROAD, ScenarioEnv
from parhelion.gym.env import map_picture

LENGTH_M, WIDTH_M = 230.0, 80.0
WORLD = {
    "name": "off-road",
    "seed": 3,
    "params": {"size_m": [LENGTH_M, WIDTH_M], "roughness_m": 1.5, "hurst": 0.9, "trail": False},
}
START, GOAL = (-100.0, -10.0, 0.0), (100.0, 15.0)
CELL_M, STEP_M, STEEPEST, CLEAR_M, LOOK_M, SPEED_M_S, REPLAN = 0.25, 0.15, 0.55, 0.65, 1.5, 1.0, 10
"""Cell of the map, highest free object on the ground and steepest free ground, clearance of the way from obstacles,
look-ahead distance, speed, periods between plans."""


class Explorer:
    """Height map, planner and controller. Cells that the lidar has not seen count as free."""

    def __init__(self, goal: Any) -> None:
        self.low, self.goal = np.array([-0.5 * LENGTH_M, -0.5 * WIDTH_M]), np.asarray(goal)[:2]
        self.shape = (2 * round(0.5 * LENGTH_M / CELL_M), 2 * round(0.5 * WIDTH_M / CELL_M))
        self.lowest, self.highest = np.full(self.shape, np.inf), np.full(self.shape, -np.inf)
        self.path = np.zeros((0, 2))
        self.places: list[Any] = []
        self.back = 0

    def cells(self, xy: Any, cell_m: float = CELL_M) -> Any:
        most = np.array(self.shape) * CELL_M / cell_m - 1
        return np.clip(np.floor((np.asarray(xy) - self.low) / cell_m), 0, most).astype(int)

    def see(self, points: Any, sensor: Any) -> None:
        """Enter points (n, 3) within 20 m into the map of lowest and highest points; not those above the robot."""
        away = np.linalg.norm(points - sensor, axis=1)
        near = points[(away > 1.0) & (away < 20.0) & (points[:, 2] < sensor[2] + 0.1 * away + 0.3)]
        x, y = self.cells(near[:, :2]).T
        np.minimum.at(self.lowest, (x, y), near[:, 2])
        np.maximum.at(self.highest, (x, y), near[:, 2])

    def blocked(self) -> Any:
        """Cells with a point more than `STEP_M` above the smoothed ground, and steep ones."""
        seen = np.isfinite(self.lowest)
        weight = gaussian_filter(seen.astype(float), 2.0, truncate=2.0)
        ground = gaussian_filter(np.where(seen, self.lowest, 0.0), 2.0, truncate=2.0) / np.maximum(weight, 1e-3)
        slope = np.hypot(*np.gradient(ground, CELL_M))
        return seen & ((self.highest - ground > STEP_M) | ((slope > STEEPEST) & (weight > 0.3)))

    def plan(self, xy: Any) -> None:
        """Cheapest way to the goal over cells of twice the size; cells near obstacles cost more."""
        wide, (nx, ny) = 2.0 * CELL_M, (size // 2 for size in self.shape)
        clearance = distance_transform_edt(~self.blocked().reshape(nx, 2, ny, 2).any(axis=(1, 3))) * wide
        cost = np.where(clearance > CLEAR_M, 1.0 + 3.0 * np.maximum(0.0, 1.6 - clearance), 200.0)
        number, edges = np.arange(cost.size).reshape(nx, ny), []
        for a, b, length in (
            (np.s_[:-1, :], np.s_[1:, :], 1.0),
            (np.s_[:, :-1], np.s_[:, 1:], 1.0),
            (np.s_[:-1, :-1], np.s_[1:, 1:], 2**0.5),
            (np.s_[1:, :-1], np.s_[:-1, 1:], 2**0.5),
        ):
            edges.append([number[a].ravel(), number[b].ravel(), (0.5 * length * (cost[a] + cost[b])).ravel()])
        rows, columns, lengths = (np.concatenate(part) for part in zip(*edges, strict=True))
        graph = coo_array((lengths, (rows, columns)), (cost.size, cost.size)).tocsr()
        _, before = dijkstra(graph, False, number[tuple(self.cells(self.goal, wide))], return_predecessors=True)
        cell, way = number[tuple(self.cells(xy, wide))], []
        while before[cell] >= 0:
            cell = before[cell]
            way.append(divmod(cell, ny))
        self.path = self.low + (np.array(way).reshape(-1, 2) + 0.5) * wide

    def action(self, xy: Any, heading_rad: float) -> Any:
        """Speed and yaw rate toward the way ahead, in wide turns, because soft soil holds wheels that turn slowly.

        If the robot has not moved for 2 s, it drives back for 1.5 s.
        """
        self.places.append(np.array(xy))
        stuck = len(self.places) > 20 and np.hypot(*(self.places[-1] - self.places[-20])) < 0.15
        if stuck or self.back > 0:
            self.back = 15 if self.back == 0 else self.back - 1
            self.places.clear()
            return np.array([-SPEED_M_S, 0.0], np.float32)
        away = np.hypot(*(self.path - xy).T) if len(self.path) else np.zeros(0)
        far = np.flatnonzero(away > LOOK_M)
        target = self.path[far[0]] if len(far) else self.goal
        error = np.angle(np.exp(1j * (np.arctan2(*(target - xy)[::-1]) - heading_rad)))
        if abs(error) > 1.2:
            return np.array([0.0, 2.0 * np.sign(error)], np.float32)
        return np.array([SPEED_M_S * max(0.7, np.cos(error)), np.clip(1.5 * error, -0.7, 0.7)], np.float32)


def environment(goal: Any = GOAL, duration_s: float = 600.0) -> ScenarioEnv:
    """Environment of the mission."""
    area = (-0.5 * LENGTH_M, -0.5 * WIDTH_M, 0.5 * LENGTH_M, 0.5 * WIDTH_M)
    return ScenarioEnv({**OFF_ROAD, "world": WORLD}, goal=goal, goal_radius_m=1.5, duration_s=duration_s, area_m=area)


def drive(
    env: ScenarioEnv, seed: int, start: Any = START, watch: Callable[[ScenarioEnv, Explorer], None] | None = None
) -> dict[str, Any]:
    """Drive the mission and return its summary; `watch` is called in every period."""
    _, info = env.reset(seed=seed, options={"start": start})
    robot, ended, steps = Explorer(env.goal), False, 0
    while not ended:
        assert env.outcome is not None
        scan = env.outcome.records["lidar"]
        robot.see(scan.in_world().xyz, scan.pose.xyz)
        if steps % REPLAN == 0:
            robot.plan(info["xyz"][:2])
        if watch is not None:
            watch(env, robot)
        _, _, terminated, truncated, info = env.step(robot.action(info["xyz"][:2], info["heading_rad"]))
        ended, steps = terminated or truncated, steps + 1
    path = np.array(env.path)
    length = float(np.sum(np.linalg.norm(np.diff(path, axis=0), axis=1)))
    climbed = float(np.sum(np.maximum(np.diff(path[:, 2]), 0.0)))
    return {**info, "fell": env.outcome.fell, "length_m": length, "climbed_m": climbed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--duration", type=float, default=600.0, help="longest time of the drive [s]")
    parser.add_argument("-o", "--output", default="off-road.png")
    chosen = parser.parse_args()
    env, began = environment(duration_s=chosen.duration), time.perf_counter()
    result = drive(env, chosen.seed)
    map_picture(env.free_space, env.path, goal=env.goal, longest=1600, file=chosen.output)
    cause = "a fall" if result["fell"] else result["collision"] or "the time limit"
    missed = f"stopped by {cause}, {result['distance_m']:.1f} m from the goal,"
    print("reached the goal" if result["reached"] else missed, end=" ")
    print(f"after {result['time_s']:.0f} s and {result['length_m']:.0f} m, with {result['climbed_m']:.0f} m of climb")
    print(f"computed in {time.perf_counter() - began:.0f} s; map: {chosen.output}")


if __name__ == "__main__":
    main()
