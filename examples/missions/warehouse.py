"""A robot drives to a goal in a warehouse: a grid from its own lidar, the cheapest way through it, pure pursuit.

    python examples/missions/warehouse.py --seed 7 -o warehouse.png

The robot knows its pose, as from a localisation, and the position of the goal; its VLP-16 measures everything else.
Needs pip install 'parhelion[gym]'.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np
from scipy.ndimage import distance_transform_edt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

import parhelion.gym  # noqa: F401  registers the environments
from parhelion.gym.env import map_picture

CELL_M, SIZE, HALF_WIDTH_M, LOOK_M, SPEED_M_S, REPLAN = 0.2, 300, 0.45, 0.9, 0.9, 5


class Navigator:
    """Map, planner and controller. The grid is centred on the start; cells without hits count as free."""

    def __init__(self, start: Any, goal: Any) -> None:
        self.low, self.goal = np.asarray(start)[:2] - 0.5 * SIZE * CELL_M, np.asarray(goal)[:2]
        self.hits = np.zeros((SIZE, SIZE), int)
        self.path = np.zeros((0, 2))

    def cells(self, xy: Any) -> Any:
        return np.clip(np.floor((np.asarray(xy) - self.low) / CELL_M).astype(int), 0, SIZE - 1)

    def see(self, points: Any) -> None:
        """Count the points (n, 3) at the height of the robot in each cell."""
        x, y = self.cells(points[(points[:, 2] > 0.1) & (points[:, 2] < 0.9), :2]).T
        np.add.at(self.hits, (x, y), 1)

    def plan(self, xy: Any) -> None:
        """Cheapest way from a position to the goal; cells near obstacles cost more."""
        clearance = distance_transform_edt(self.hits < 2) * CELL_M
        cost = np.where(clearance > HALF_WIDTH_M, 1.0 + 4.0 * np.maximum(0.0, 1.2 - clearance), 1e3)
        number, edges = np.arange(SIZE * SIZE).reshape(SIZE, SIZE), []
        for a, b, length in (
            (np.s_[:-1, :], np.s_[1:, :], 1.0),
            (np.s_[:, :-1], np.s_[:, 1:], 1.0),
            (np.s_[:-1, :-1], np.s_[1:, 1:], 2**0.5),
            (np.s_[1:, :-1], np.s_[:-1, 1:], 2**0.5),
        ):
            edges.append([number[a].ravel(), number[b].ravel(), (0.5 * length * (cost[a] + cost[b])).ravel()])
        rows, columns, lengths = (np.concatenate(part) for part in zip(*edges, strict=True))
        graph = coo_array((lengths, (rows, columns)), (SIZE**2, SIZE**2)).tocsr()
        _, before = dijkstra(graph, False, number[tuple(self.cells(self.goal))], return_predecessors=True)
        cell, way = number[tuple(self.cells(xy))], []
        while before[cell] >= 0:
            cell = before[cell]
            way.append(divmod(cell, SIZE))
        self.path = self.low + (np.array(way).reshape(-1, 2) + 0.5) * CELL_M

    def action(self, xy: Any, heading_rad: float) -> Any:
        """Speed and yaw rate toward the first point of the way at the look-ahead distance; turn in place first."""
        away = np.hypot(*(self.path - xy).T) if len(self.path) else np.zeros(0)
        far = np.flatnonzero(away > LOOK_M)
        target = self.path[far[0]] if len(far) else self.goal
        error = np.angle(np.exp(1j * (np.arctan2(*(target - xy)[::-1]) - heading_rad)))
        return np.array(
            [SPEED_M_S * max(0.0, np.cos(error)) ** 4 if abs(error) < 0.8 else 0.0, 2.0 * error], np.float32
        )


def drive(env: Any, seed: int, options: dict[str, Any] | None = None) -> dict[str, Any]:
    """Drive one episode and return its summary."""
    _, info = env.reset(seed=seed, options=options)
    robot, start, ended, steps, total = Navigator(info["xyz"], env.unwrapped.goal), info["xyz"], False, 0, 0.0
    while not ended:
        robot.see(env.unwrapped.outcome.records["lidar"].in_world().xyz)
        if steps % REPLAN == 0:
            robot.plan(info["xyz"][:2])
        _, reward, terminated, truncated, info = env.step(robot.action(info["xyz"][:2], info["heading_rad"]))
        ended, steps, total = terminated or truncated, steps + 1, total + reward
    length = float(np.sum(np.linalg.norm(np.diff(env.unwrapped.path, axis=0), axis=1)))
    straight = float(np.hypot(*(env.unwrapped.goal - start)[:2]))
    return {**info, "steps": steps, "length_m": length, "straight_m": straight, "reward": total}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("-o", "--output", default="warehouse.png")
    chosen = parser.parse_args()
    env = gymnasium.make("parhelion/Warehouse-v0", goal_distance_m=(12.0, 30.0), duration_s=120.0)
    result = drive(env, chosen.seed)
    cloud = env.unwrapped.outcome.records["lidar"].in_world().xyz
    map_picture(
        env.unwrapped.free_space, env.unwrapped.path, goal=env.unwrapped.goal, clouds=[cloud], file=chosen.output
    )
    end = "reached the goal" if result["reached"] else f"stopped by {result['collision'] or 'the time limit'}"
    print(
        f"{end} after {result['time_s']:.1f} s and {result['length_m']:.1f} m ({result['straight_m']:.1f} m straight)"
    )
    print(f"distance to the goal {result['distance_m']:.2f} m, reward {result['reward']:.1f}; map: {chosen.output}")


if __name__ == "__main__":
    main()
