"""Gymnasium environments: scenarios in which an agent drives a vehicle by what its sensors measure.

    import gymnasium
    import parhelion.gym

    env = gymnasium.make("parhelion/Warehouse-v0")
    observation, info = env.reset(seed=7)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())

`ScenarioEnv` makes an environment of any scenario file.
"""

from __future__ import annotations

from importlib.util import find_spec

from parhelion.core.errors import MissingDependencyError

if find_spec("gymnasium") is None:
    raise MissingDependencyError("parhelion.gym needs gymnasium; run pip install 'parhelion[gym]'")

from parhelion.gym.actions import ACTIONS, Actions, actions_of
from parhelion.gym.env import (
    CITY,
    DYNAMICS,
    ENVIRONMENTS,
    OFF_ROAD,
    WAREHOUSE,
    Outcome,
    ScenarioEnv,
    finished,
    progress,
    register,
)
from parhelion.gym.free_space import FreeSpace
from parhelion.gym.observations import OBSERVATIONS, Options, Reading

__all__ = [
    "ACTIONS", "CITY", "DYNAMICS", "ENVIRONMENTS", "OBSERVATIONS", "OFF_ROAD", "WAREHOUSE", "Actions", "FreeSpace",
    "Options", "Outcome", "Reading", "ScenarioEnv", "actions_of", "finished", "progress", "register",
]  # fmt: skip

register()
