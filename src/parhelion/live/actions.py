"""The action SimulateSteps of simulation_interfaces on a service server: steps with feedback that can be cancelled.

A ROS 2 action consists of the services `_action/send_goal`, `_action/cancel_goal` and `_action/get_result`, and of the
topics `_action/feedback` and `_action/status` (design.ros2.org, "Actions").
"""

from __future__ import annotations

import threading
import time as wall
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parhelion.core.errors import ParhelionError
from parhelion.io.ros.service_types import CANCEL, SIMULATION, STEP_ACTION
from parhelion.io.ros.types import Message, encode, nanoseconds, new, stamp
from parhelion.live.services import ServiceServer

EXECUTING, CANCELING, SUCCEEDED, CANCELED, ABORTED = 2, 3, 4, 5, 6
"""Codes of action_msgs/GoalStatus; 0 is unknown."""
NONE_CANCELED, UNKNOWN_GOAL, ALREADY_OVER = 0, 2, 3
"""Codes of action_msgs/CancelGoal."""
OK, FAILED = 1, 4
CHUNK = 10
"""Number of steps between two feedback messages."""
MOST_GOALS, MOST_WAITING = 16, 16
"""Numbers of goals that are remembered, and of waiting requests for the result of each."""
STATUS = "action_msgs/msg/GoalStatusArray"
FEEDBACK = f"{STEP_ACTION}_FeedbackMessage"


@dataclass
class _Goal:
    number: bytes
    steps: int
    accepted_ns: int
    status: int = EXECUTING
    outcome: tuple[int, str] = (OK, "")
    canceled: bool = False
    waiting: list[Future[Any]] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return self.status >= SUCCEEDED

    @property
    def info(self) -> Any:
        return new("action_msgs/msg/GoalInfo", goal_id=_uuid(self.number), stamp=stamp(self.accepted_ns))


def _uuid(number: bytes) -> Any:
    return new("unique_identifier_msgs/msg/UUID", uuid=np.frombuffer(number, np.uint8))


class StepAction:
    """Server of an action that steps a paused simulation; one goal at a time, others are aborted.

    Args:
        server: Server of the services; it must not have been started.
        call: Function that applies a verb and waits for its result: `call("step", steps=10)`.
        name: Name of the action, such as `/parhelion/simulate_steps`.
    """

    def __init__(self, server: ServiceServer, call: Callable[..., Any], name: str) -> None:
        self._call, self._node, self._name = call, server.node, name
        self._goals: dict[bytes, _Goal] = {}
        self._lock = threading.RLock()
        self._threads: list[threading.Thread] = []
        self._closed = False
        server.serve(f"{name}/_action/send_goal", f"{STEP_ACTION}_SendGoal", self._send_goal)
        server.serve(f"{name}/_action/cancel_goal", CANCEL, self._cancel_goal)
        server.serve(f"{name}/_action/get_result", f"{STEP_ACTION}_GetResult", self._get_result)
        self._node.advertise(f"{name}/_action/feedback", FEEDBACK)
        self._node.advertise(f"{name}/_action/status", STATUS)
        self._report()

    def close(self) -> None:
        """Cancel the goals and wait for their threads, before the node is closed."""
        with self._lock:
            self._closed = True
            for goal in self._goals.values():
                goal.canceled = True
        for thread in self._threads:
            thread.join(60.0)

    # ---- services --------------------------------------------------------------------------------------------------

    def _send_goal(self, request: Any) -> Any:
        goal = _Goal(request.goal_id.uuid.tobytes(), int(request.goal.steps), wall.time_ns())
        with self._lock:
            accepted = not self._closed and goal.number not in self._goals and self._has_room()
            if accepted:
                self._goals[goal.number] = goal
                thread = threading.Thread(target=self._execute, args=[goal], name="parhelion-steps", daemon=True)
                self._threads = [one for one in self._threads if one.is_alive()] + [thread]
                thread.start()
        return new(f"{STEP_ACTION}_SendGoal_Response", accepted=accepted, stamp=stamp(goal.accepted_ns))

    def _has_room(self) -> bool:
        """Forget the oldest finished goals; False if too many are not finished."""
        for number in [number for number, one in self._goals.items() if one.over][: len(self._goals) - MOST_GOALS + 1]:
            del self._goals[number]
        return len(self._goals) < MOST_GOALS

    def _cancel_goal(self, request: Any) -> Any:
        """Cancel one goal, or all for a number of zeros; with a time, all that were accepted until then."""
        number, until = request.goal_info.goal_id.uuid.tobytes(), nanoseconds(request.goal_info.stamp)
        with self._lock:
            if any(number):
                chosen = [one for one in (self._goals.get(number),) if one is not None]
                code = UNKNOWN_GOAL if not chosen else ALREADY_OVER if chosen[0].over else NONE_CANCELED
            else:
                chosen, code = list(self._goals.values()), NONE_CANCELED
            if until:
                chosen += [one for one in self._goals.values() if one.accepted_ns <= until and one not in chosen]
            chosen = [one for one in chosen if not one.over and (any(number) or not until or one.accepted_ns <= until)]
            for goal in chosen:
                goal.canceled, goal.status = True, CANCELING
        self._report()
        infos = [goal.info for goal in chosen]
        return new(f"{CANCEL}_Response", return_code=code if not infos else NONE_CANCELED, goals_canceling=infos)

    def _get_result(self, request: Any) -> Any:
        """Result of a goal, when it is over; the status of an unknown one is 0."""
        with self._lock:
            goal = self._goals.get(request.goal_id.uuid.tobytes())
            if goal is None or len(goal.waiting) >= MOST_WAITING:
                return self._result(0, (FAILED, "no such goal" if goal is None else "too many requests are waiting"))
            if goal.over:
                return self._result(goal.status, goal.outcome)
            future: Future[Any] = Future()
            goal.waiting.append(future)
            return future

    @staticmethod
    def _result(status: int, outcome: tuple[int, str]) -> Any:
        found = new(f"{SIMULATION}/msg/Result", result=outcome[0], error_message=outcome[1][:1000])
        return new(
            f"{STEP_ACTION}_GetResult_Response", status=status, result=new(f"{STEP_ACTION}_Result", result=found)
        )

    # ---- steps -----------------------------------------------------------------------------------------------------

    def _execute(self, goal: _Goal) -> None:
        """Step in chunks, with feedback after each."""
        self._report()
        done, status, outcome = 0, SUCCEEDED, (OK, "")
        try:
            while done < goal.steps or not goal.steps:
                if goal.canceled:
                    status, outcome = CANCELED, (FAILED, f"canceled after {done} of {goal.steps} steps")
                    break
                count = min(CHUNK, goal.steps - done)
                self._call("step", steps=count)
                done += count
                self._feed_back(goal, done)
        except ParhelionError as error:
            status, outcome = ABORTED, (FAILED, str(error))
        with self._lock:
            goal.status, goal.outcome = status, outcome
            waiting, goal.waiting = goal.waiting, []
        self._report()
        for future in waiting:
            future.set_result(self._result(status, outcome))

    def _feed_back(self, goal: _Goal, done: int) -> None:
        progress = new(f"{STEP_ACTION}_Feedback", completed_steps=done, remaining_steps=goal.steps - done)
        message = new(FEEDBACK, goal_id=_uuid(goal.number), feedback=progress)
        self._publish("feedback", FEEDBACK, message)

    def _report(self) -> None:
        """Publish the status of all goals."""
        with self._lock:
            listed = [
                new("action_msgs/msg/GoalStatus", goal_info=one.info, status=one.status) for one in self._goals.values()
            ]
        self._publish("status", STATUS, new(STATUS, status_list=listed))

    def _publish(self, end: str, kind: str, message: Any) -> None:
        if not self._closed:
            self._node.publish(Message(f"{self._name}/_action/{end}", kind, wall.time_ns(), encode(kind, message)))
