"""Steps per second of the Gymnasium environments, and the shares of contact step and scan.

    python bench/gym_steps.py [--steps 200] [--rays 3]

Processor times are independent of other work on the machine; rates by the wall clock are not.
"""

from __future__ import annotations

import argparse
import time

import gymnasium
import numpy as np

from parhelion.gym import ENVIRONMENTS, ScenarioEnv
from parhelion.rays.device import engine


class Clock:
    """Sum of wall and processor time [s] of the calls of a function."""

    def __init__(self, owner: object, name: str) -> None:
        self.calls, self.wall, self.processor = 0, 0.0, 0.0
        self._call = getattr(owner, name)
        setattr(owner, name, self)

    def __call__(self, *args: object, **options: object) -> object:
        wall, processor = time.perf_counter(), time.process_time()
        result = self._call(*args, **options)
        self.calls += 1
        self.wall += time.perf_counter() - wall
        self.processor += time.process_time() - processor
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rays", type=int, default=3, help="sub-rays of a beam of the lidar")
    parser.add_argument("--env", default="parhelion/Warehouse-v0", choices=list(ENVIRONMENTS))
    chosen = parser.parse_args()
    lidar = {**ENVIRONMENTS[chosen.env]["scenario"]["sensors"][0], "options": {"sub_rays": chosen.rays}}
    began = time.perf_counter()
    env: ScenarioEnv = gymnasium.make(chosen.env, sensors={"lidar": lidar}).unwrapped  # type: ignore[assignment]
    env.reset(seed=1)
    print(f"{chosen.env}, {chosen.rays} rays per beam: made and first reset in {time.perf_counter() - began:.1f} s")
    for _ in range(5):
        env.step(np.zeros(2))
    contact, scan = Clock(env._body.driver, "step"), Clock(env.scenario.frame_sensors[0], "measure")
    resets, steps = Clock(env, "reset"), Clock(env, "step")
    resets(seed=2)
    for number in range(chosen.steps):
        _, _, terminated, truncated, _ = steps(np.array([0.3, 0.5 * np.sin(0.1 * number)]))  # type: ignore[misc]
        if terminated or truncated:
            resets(seed=number)
    engine().dr.sync_thread()
    count = chosen.steps
    each = [1e3 * one.processor / count for one in (steps, contact, scan)]
    print(f"step {each[0]:.1f} ms of processor time: contact {each[1]:.1f}, scan {each[2]:.1f} (resets included)")
    print(f"{count / steps.wall:.0f} steps/s by the wall clock, {count / steps.processor:.0f} by processor time")
    print(f"reset {1e3 * resets.processor / resets.calls:.1f} ms of processor time")


if __name__ == "__main__":
    main()
