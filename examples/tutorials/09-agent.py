"""An agent that learns to steer by its lidar: three numbers, found by random search over short episodes.

    python 09-agent.py --rounds 3 --steps 40 -o agent.png

The policy turns towards the goal and away from near returns. Replace it by a network and any reinforcement learning
library; the environment is the same. Needs pip install 'parhelion[gym]'.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

try:
    import gymnasium

    import parhelion.gym  # noqa: F401  registers the environments
except ImportError:
    raise SystemExit("this file needs Gymnasium: pip install 'parhelion[gym]'") from None


def act(weights: Any, observation: dict[str, Any]) -> Any:
    """Speed [m/s] and yaw rate [rad/s] from the goal and from the nearest returns ahead on both sides."""
    ranges = observation["lidar"]
    low = np.where(ranges > 0, ranges, np.inf)[len(ranges) // 2 :].min(axis=0)  # rings below the horizon are the floor
    width = len(low)
    left, right = low[width // 4 : width // 2].min(), low[width // 2 : 3 * width // 4].min()
    x, y = observation["goal"]
    turn = weights[0] * np.arctan2(y, x) + weights[1] * (1.0 / max(right, 0.3) - 1.0 / max(left, 0.3))
    return np.array([weights[2] / (1.0 + abs(turn)), np.clip(turn, -1.0, 1.0)], np.float32)


def episode(env: Any, weights: Any, steps: int, seed: int) -> tuple[float, list[Any]]:
    """Sum of rewards, and the distances to the goal."""
    observation, _ = env.reset(seed=seed)
    total, distances = 0.0, []
    for _ in range(steps):
        action = np.clip(act(weights, observation), env.action_space.low, env.action_space.high)
        observation, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        distances.append(float(np.hypot(*observation["goal"])))
        if terminated or truncated:
            break
    return total, distances


def main() -> None:
    options = argparse.ArgumentParser(description="Learn to drive in the warehouse.")
    options.add_argument("--rounds", type=int, default=12)
    options.add_argument("--steps", type=int, default=120)
    options.add_argument("-o", "--output", default="agent.png")
    given = options.parse_args()
    env = gymnasium.make("parhelion/Warehouse-v0")
    random = np.random.default_rng(1)
    best, score, curves = np.array([0.2, 0.0, 0.2]), -np.inf, []
    for number in range(given.rounds):
        weights = best if number == 0 else best + random.normal(0.0, [0.5, 0.3, 0.3])
        total, distances = episode(env, weights, given.steps, seed=3)
        curves.append(distances)
        if total > score:
            best, score = weights, total
        print(f"round {number}: reward {total:6.2f}, best {score:6.2f}, {distances[-1]:.1f} m from the goal")
    env.close()

    figure = Figure(figsize=(7, 3.6), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for number, curve in enumerate(curves):
        axes.plot(
            0.1 * np.arange(len(curve)),
            curve,
            color=str(0.8 - 0.8 * number / max(len(curves) - 1, 1)),
            label=f"{number}",
        )
    axes.set(xlabel="time [s]", ylabel="distance to the goal [m]")
    axes.legend(title="round", fontsize=7, ncols=2)
    figure.savefig(given.output)


if __name__ == "__main__":
    main()
