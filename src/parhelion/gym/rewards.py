"""Rewards and ends of episodes: functions of the outcome of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from parhelion.contact.driver import Collision
from parhelion.core.pose import Floats
from parhelion.motion.state import BodyState
from parhelion.motion.vehicles.base import Command


@dataclass(frozen=True)
class Outcome:
    """Result of one step of an environment."""

    time: float
    """Time since the start of the episode [s]."""
    state: BodyState
    """True state of the vehicle, one row."""
    command: Command | None
    """Command of the step; None in the first one, after a reset."""
    records: Mapping[str, Any]
    """Latest record of each sensor, by name; sensors without a measurement so far are absent."""
    collisions: tuple[Collision, ...]
    """Contacts of the vehicle's hull in the step, except with ground."""
    travelled_m: float
    """Distance between the positions before and after the step [m], negative in reverse."""
    goal: Floats | None
    """Position of the goal [m], shape (3,); None without a goal."""
    distance_m: float
    """Horizontal distance to the goal [m]; 0 without a goal."""
    approach_m: float
    """Decrease of that distance in the step [m]."""
    reached: bool
    """True within the radius of the goal."""
    fell: bool
    """True if the vehicle lies on its side or is below the world."""


Reward = Callable[[Outcome], float]
Terminated = Callable[[Outcome], bool]

COLLISION, REACHED, STEP = -10.0, 10.0, -0.01


def progress(outcome: Outcome) -> float:
    """Default reward: metres of approach to the goal, 10 at the goal, -10 for a collision or fall, -0.01 per step.

    Without a goal, distance travelled replaces the approach.
    """
    gained = outcome.travelled_m if outcome.goal is None else outcome.approach_m
    bad = bool(outcome.collisions) or outcome.fell
    return gained + STEP + (REACHED if outcome.reached else 0.0) + (COLLISION if bad else 0.0)


def finished(outcome: Outcome) -> bool:
    """Default end of an episode: goal, collision or fall."""
    return outcome.reached or outcome.fell or bool(outcome.collisions)
