"""A client of simulation_interfaces with types of its own, written for Cyclone DDS and without code of the package.

    python simulation_peer.py '{"domain": 70, "seed": 1, "verbs": 20}'

It prints one line of JSON: replies to fixed calls, then statistics of random calls and of damaged requests.
"""

import json
import os
import random
import sys
import time
from dataclasses import dataclass, make_dataclass
from typing import Any

from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import final
from cyclonedds.idl.types import array, float64, int8, int32, int64, sequence, uint8, uint16, uint32, uint64
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

SETTINGS = """<CycloneDDS><Domain Id='any'><General><Interfaces><NetworkInterface name='lo' multicast='true'/>
</Interfaces><AllowMulticast>spdp</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>
<MaxAutoParticipantIndex>32</MaxAutoParticipantIndex><Peers><Peer Address='127.0.0.1'/></Peers></Discovery></Domain>
</CycloneDDS>"""


@final
@dataclass
class Vector(IdlStruct, typename="geometry_msgs.msg.dds_.Vector3_"):
    x: float64
    y: float64
    z: float64


@final
@dataclass
class Quaternion(IdlStruct, typename="geometry_msgs.msg.dds_.Quaternion_"):
    x: float64
    y: float64
    z: float64
    w: float64


@final
@dataclass
class Point(IdlStruct, typename="geometry_msgs.msg.dds_.Point_"):
    x: float64
    y: float64
    z: float64


@final
@dataclass
class Pose(IdlStruct, typename="geometry_msgs.msg.dds_.Pose_"):
    position: Point
    orientation: Quaternion


@final
@dataclass
class Twist(IdlStruct, typename="geometry_msgs.msg.dds_.Twist_"):
    linear: Vector
    angular: Vector


@final
@dataclass
class Accel(IdlStruct, typename="geometry_msgs.msg.dds_.Accel_"):
    linear: Vector
    angular: Vector


@final
@dataclass
class Time(IdlStruct, typename="builtin_interfaces.msg.dds_.Time_"):
    sec: int32
    nanosec: uint32


@final
@dataclass
class Header(IdlStruct, typename="std_msgs.msg.dds_.Header_"):
    stamp: Time
    frame_id: str


@final
@dataclass
class PoseStamped(IdlStruct, typename="geometry_msgs.msg.dds_.PoseStamped_"):
    header: Header
    pose: Pose


@final
@dataclass
class Result(IdlStruct, typename="simulation_interfaces.msg.dds_.Result_"):
    result: uint8
    error_message: str


@final
@dataclass
class State(IdlStruct, typename="simulation_interfaces.msg.dds_.EntityState_"):
    header: Header
    pose: Pose
    twist: Twist
    acceleration: Accel


@final
@dataclass
class SimulationState(IdlStruct, typename="simulation_interfaces.msg.dds_.SimulationState_"):
    state: uint8


@final
@dataclass
class Category(IdlStruct, typename="simulation_interfaces.msg.dds_.EntityCategory_"):
    category: uint8


@final
@dataclass
class Tags(IdlStruct, typename="simulation_interfaces.msg.dds_.TagsFilter_"):
    tags: sequence[str]
    filter_mode: uint8


@final
@dataclass
class Bounds(IdlStruct, typename="simulation_interfaces.msg.dds_.Bounds_"):
    type: uint8
    points: sequence[Vector]


@final
@dataclass
class Filters(IdlStruct, typename="simulation_interfaces.msg.dds_.EntityFilters_"):
    filter: str
    categories: sequence[Category]
    tags: Tags
    bounds: Bounds


@final
@dataclass
class Features(IdlStruct, typename="simulation_interfaces.msg.dds_.SimulatorFeatures_"):
    features: sequence[uint16]
    spawn_formats: sequence[str]
    custom_info: str


@final
@dataclass
class Value(IdlStruct, typename="rcl_interfaces.msg.dds_.ParameterValue_"):
    type: uint8
    bool_value: bool
    integer_value: int64
    double_value: float64
    string_value: str
    byte_array_value: sequence[uint8]
    bool_array_value: sequence[bool]
    integer_array_value: sequence[int64]
    double_array_value: sequence[float64]
    string_array_value: sequence[str]


@final
@dataclass
class Parameter(IdlStruct, typename="rcl_interfaces.msg.dds_.Parameter_"):
    name: str
    value: Value


@final
@dataclass
class SetResult(IdlStruct, typename="rcl_interfaces.msg.dds_.SetParametersResult_"):
    successful: bool
    reason: str


@final
@dataclass
class Resource(IdlStruct, typename="simulation_interfaces.msg.dds_.Resource_"):
    uri: str
    resource_string: str


@final
@dataclass
class Spawnable(IdlStruct, typename="simulation_interfaces.msg.dds_.Spawnable_"):
    uri: str
    description: str
    spawn_bounds: Bounds


@final
@dataclass
class Spawn(IdlStruct, typename="simulation_interfaces.msg.dds_.SpawnEntity_"):
    name: str
    allow_renaming: bool
    uri: str
    resource_string: str
    entity_namespace: str
    initial_pose: PoseStamped


@final
@dataclass
class Spawned(IdlStruct, typename="simulation_interfaces.msg.dds_.SpawnResult_"):
    result: Result
    entity_name: str


@final
@dataclass
class NamedPose(IdlStruct, typename="simulation_interfaces.msg.dds_.NamedPose_"):
    name: str
    description: str
    tags: sequence[str]
    pose: Pose


@final
@dataclass
class World(IdlStruct, typename="simulation_interfaces.msg.dds_.WorldResource_"):
    name: str
    world_resource: Resource
    description: str
    tags: sequence[str]


@final
@dataclass
class Info(IdlStruct, typename="simulation_interfaces.msg.dds_.EntityInfo_"):
    category: Category
    description: str
    tags: sequence[str]


@final
@dataclass
class Uuid(IdlStruct, typename="unique_identifier_msgs.msg.dds_.UUID_"):
    uuid: array[uint8, 16]


@final
@dataclass
class GoalInfo(IdlStruct, typename="action_msgs.msg.dds_.GoalInfo_"):
    goal_id: Uuid
    stamp: Time


@final
@dataclass
class GoalStatus(IdlStruct, typename="action_msgs.msg.dds_.GoalStatus_"):
    goal_info: GoalInfo
    status: int8


@final
@dataclass
class StatusArray(IdlStruct, typename="action_msgs.msg.dds_.GoalStatusArray_"):
    status_list: sequence[GoalStatus]


@final
@dataclass
class StepGoal(IdlStruct, typename="simulation_interfaces.action.dds_.SimulateSteps_Goal_"):
    steps: uint64


@final
@dataclass
class StepResult(IdlStruct, typename="simulation_interfaces.action.dds_.SimulateSteps_Result_"):
    result: Result


@final
@dataclass
class StepFeedback(IdlStruct, typename="simulation_interfaces.action.dds_.SimulateSteps_Feedback_"):
    completed_steps: uint64
    remaining_steps: uint64


@final
@dataclass
class StepMessage(IdlStruct, typename="simulation_interfaces.action.dds_.SimulateSteps_FeedbackMessage_"):
    goal_id: Uuid
    feedback: StepFeedback


EMPTY = [("structure_needs_at_least_one_member", uint8)]
ENTITY = [("entity", str)]
RESULT = [("result", Result)]
SERVICES: dict[str, tuple[str, str, list[Any], list[Any]]] = {
    "step": ("simulation_interfaces", "StepSimulation", [("steps", uint64)], RESULT),
    "spawn": (
        "simulation_interfaces",
        "SpawnEntity",
        [
            ("name", str),
            ("allow_renaming", bool),
            ("uri", str),
            ("resource_string", str),
            ("entity_namespace", str),
            ("initial_pose", PoseStamped),
        ],
        [*RESULT, ("entity_name", str)],
    ),
    "delete": ("simulation_interfaces", "DeleteEntity", ENTITY, RESULT),
    "get": ("simulation_interfaces", "GetEntityState", ENTITY, [*RESULT, ("state", State)]),
    "set": ("simulation_interfaces", "SetEntityState", [*ENTITY, ("state", State)], RESULT),
    "bounds": ("simulation_interfaces", "GetEntityBounds", ENTITY, [*RESULT, ("bounds", Bounds)]),
    "list": ("simulation_interfaces", "GetEntities", [("filters", Filters)], [*RESULT, ("entities", sequence[str])]),
    "reset": ("simulation_interfaces", "ResetSimulation", [("scope", uint8)], RESULT),
    "features": ("simulation_interfaces", "GetSimulatorFeatures", EMPTY, [("features", Features)]),
    "state": ("simulation_interfaces", "GetSimulationState", EMPTY, [("state", SimulationState), *RESULT]),
    "set_state": ("simulation_interfaces", "SetSimulationState", [("state", SimulationState)], RESULT),
    "set_parameters": (
        "rcl_interfaces",
        "SetParameters",
        [("parameters", sequence[Parameter])],
        [("results", sequence[SetResult])],
    ),
    "info": ("simulation_interfaces", "GetEntityInfo", ENTITY, [*RESULT, ("info", Info)]),
    "spawn_all": (
        "simulation_interfaces",
        "SpawnEntities",
        [("spawn_requests", sequence[Spawn])],
        [*RESULT, ("results", sequence[Spawned])],
    ),
    "spawnables": (
        "simulation_interfaces",
        "GetSpawnables",
        [("sources", sequence[str])],
        [*RESULT, ("spawnables", sequence[Spawnable])],
    ),
    "poses": ("simulation_interfaces", "GetNamedPoses", [("tags", Tags)], [*RESULT, ("poses", sequence[NamedPose])]),
    "world": ("simulation_interfaces", "GetCurrentWorld", EMPTY, [*RESULT, ("world", World)]),
}
ACTION = "/parhelion/simulate_steps/_action"
PARTS: dict[str, tuple[str, str, list[Any], list[Any]]] = {
    "send_goal": ("simulation_interfaces.action", "SimulateSteps_SendGoal", [("goal_id", Uuid), ("goal", StepGoal)],
                  [("accepted", bool), ("stamp", Time)]),
    "cancel_goal": ("action_msgs.srv", "CancelGoal", [("goal_info", GoalInfo)],
                    [("return_code", int8), ("goals_canceling", sequence[GoalInfo])]),
    "get_result": ("simulation_interfaces.action", "SimulateSteps_GetResult", [("goal_id", Uuid)],
                   [("status", int8), ("result", StepResult)]),
}  # fmt: skip


def half(package: str, name: str, members: list[Any]) -> Any:
    """Type of a request or reply of rmw_cyclonedds: two numbers before the members."""
    made = make_dataclass(name, [("guid", uint64), ("number", int64), *members], bases=(IdlStruct,),
                          namespace={})  # fmt: skip
    # `make_dataclass` cannot pass the type name, so the class is declared again.
    body = {"__annotations__": {one.name: one.type for one in made.__dataclass_fields__.values()}}
    place = package if "." in package else f"{package}.srv"
    declared = type(IdlStruct)(name, (IdlStruct,), body, typename=f"{place}.dds_.{name}_")
    return final(dataclass(declared))


class Service:
    """Client of one service."""

    def __init__(
        self,
        participant: Any,
        package: str,
        kind: str,
        request: list[Any],
        reply: list[Any],
        number: int,
        name: str = "",
    ):
        snake = "".join(f"_{one.lower()}" if one.isupper() else one for one in kind).lstrip("_")
        name = name or f"/parhelion/{snake}"
        identity = ".".join(f"{one:x}" for one in [*random.Random(number).randbytes(15), number])
        qos = Qos(
            Policy.Reliability.Reliable(duration(seconds=1)), Policy.Durability.Volatile, Policy.History.KeepLast(10),
            Policy.DataRepresentation(use_cdrv0_representation=True),
            Policy.TypeConsistency.AllowTypeCoercion(ignore_member_names=True),
            Policy.Userdata(f"clientid={identity};".encode()),
        )  # fmt: skip
        self.request, self.reply = half(package, f"{kind}_Request", request), half(package, f"{kind}_Response", reply)
        self.reader = DataReader(participant, Topic(participant, f"rr{name}Reply", self.reply), qos)
        self.writer = DataWriter(participant, Topic(participant, f"rq{name}Request", self.request), qos)
        self.guid, self.number = 1000 + number, 0

    def call(self, *values: Any, seconds: float = 30.0) -> Any:
        """Send a request and wait for its reply."""
        self.send(*values)
        return self.reply_of(self.number, seconds)

    def send(self, *values: Any) -> int:
        """Send a request and return its number."""
        self.number += 1
        self.writer.write(self.request(self.guid, self.number, *values))
        return self.number

    def reply_of(self, number: int, seconds: float = 30.0) -> Any:
        """Wait for the reply to a request."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for sample in self.reader.take(10):
                if (sample.guid, sample.number) == (self.guid, number):
                    return sample
            time.sleep(0.001)
        raise TimeoutError(type(self.request).__name__)


def place(x: float, y: float = 0.0, z: float = 0.5) -> Pose:
    return Pose(Point(x, y, z), Quaternion(0.0, 0.0, 0.0, 1.0))


def header() -> Header:
    return Header(Time(0, 0), "map")


def still() -> Accel:
    return Accel(Vector(0.0, 0.0, 0.0), Vector(0.0, 0.0, 0.0))


def state(pose: Pose, speed: float = 0.0) -> State:
    return State(header(), pose, Twist(Vector(speed, 0.0, 0.0), Vector(0.0, 0.0, 0.0)), still())


def filters(text: str = "") -> Filters:
    return Filters(text, [], Tags([], 0), Bounds(0, []))


def number(name: str, value: float) -> Parameter:
    return Parameter(name, Value(3, False, 0, value, "", [], [], [], [], []))


BOX = json.dumps({"shape": {"kind": "box", "size_m": [1, 1, 1]}, "label": "box"})


def fixed(to: dict[str, Service]) -> dict[str, Any]:
    """Replies to a fixed sequence of calls."""
    found: dict[str, Any] = {"features": list(to["features"].call(0).features.features)}
    found["state"] = to["state"].call(0).state.state
    found["spawned"] = to["spawn"].call("crate", False, "", BOX, "", PoseStamped(header(), place(2.0))).entity_name
    codes = [
        to["spawn"].call("crate", False, "", BOX, "", PoseStamped(header(), place(2.0))),
        to["spawn"].call("x", False, "", "", "", PoseStamped(header(), place(2.0))),
        to["spawn"].call("x", False, "", "<sdf/>", "", PoseStamped(header(), place(2.0))),
        to["spawn"].call("x", False, "", "{", "", PoseStamped(header(), place(2.0))),
        to["get"].call("ghost"),
        to["delete"].call("robot"),
        to["set"].call("crate", state(place(3.0), speed=2.0)),
        to["step"].call(0),
        to["step"].call(10**15),
        to["list"].call(filters("(a+)+$")),
    ]
    found["codes"] = [one.result.result for one in codes]
    found["messages"] = [one.result.error_message for one in codes]
    to["step"].call(10)
    moved = to["get"].call("crate").state
    found["pose"] = [moved.pose.position.x, moved.twist.linear.x, moved.header.stamp.nanosec, moved.header.frame_id]
    corners = to["bounds"].call("crate").bounds
    found["bounds"] = [corners.type, *[one.x for one in corners.points]]
    found["crates"] = list(to["list"].call(filters("^cra")).entities)
    weather = [
        number("weather.rain_rate_mm_h", 30.0),
        number("weather.hail", 1.0),
        number("weather.visibility_m", -5.0),
    ]
    found["parameters"] = [one.successful for one in to["set_parameters"].call(weather).results]
    found["playing"] = [to["set_state"].call(SimulationState(value)).result.result for value in (1, 1, 7, 2)]
    found["reset"] = to["reset"].call(0).result.result
    found["after"] = list(to["list"].call(filters("^cra")).entities)
    return found


def mixed(to: dict[str, Service], count: int, seed: int) -> dict[str, Any]:
    """Random calls, and how long they took."""
    chance = random.Random(seed)
    took, codes = [], []
    for _ in range(count):
        name = chance.choice(["a", "b", "c", "cuboid-1", "robot"])
        pose = place(chance.uniform(-6, 6), chance.uniform(-6, 6))
        began = time.perf_counter()
        kind = chance.randrange(8)
        if kind == 0:
            found = to["spawn"].call(name, chance.random() < 0.3, "", BOX, "", PoseStamped(header(), pose))
        elif kind == 1:
            found = to["delete"].call(name)
        elif kind == 2:
            found = to["set"].call(name, state(pose, chance.uniform(-2, 2)))
        elif kind == 3:
            found = to["get"].call(name)
        elif kind == 4:
            found = to["step"].call(chance.randint(1, 3))
        elif kind == 5:
            rain = [number("weather.rain_rate_mm_h", chance.choice([0.0, 5.0, 40.0]))]
            found = to["set_parameters"].call(rain)
        elif kind == 6:
            found = to["list"].call(filters(name))
        else:
            found = to["reset"].call(chance.choice([0, 1, 4])) if chance.random() < 0.1 else to["state"].call(0)
        took.append(time.perf_counter() - began)
        codes.append(found.result.result if hasattr(found, "result") else 1)
    took.sort()
    return {"answered": len(codes), "ok": codes.count(1), "p50_ms": 1e3 * took[len(took) // 2]}


def further(to: dict[str, Service]) -> dict[str, Any]:
    """Replies of the services beyond the basic ones."""
    at = [PoseStamped(header(), place(-5.0, y)) for y in (-5.0, 0.0)]
    both = to["spawn_all"].call([Spawn(f"s{k}", False, "", BOX, "", pose) for k, pose in enumerate(at)])
    again = to["spawn_all"].call([Spawn("s0", False, "", BOX, "", at[0]), Spawn("s2", False, "", BOX, "", at[0])])
    found: dict[str, Any] = {
        "both": [both.result.result, *[one.entity_name for one in both.results]],
        "again": [again.result.result, *[[one.result.result, one.entity_name] for one in again.results]],
        "spawnables": [[one.uri, one.description] for one in to["spawnables"].call([]).spawnables],
        "sources": to["spawnables"].call(["http://elsewhere"]).result.result,
        "tags": list(to["info"].call("s0").info.tags),
        "world": to["world"].call(0).world.name,
        "poses": {one.name: one.pose.position.z for one in to["poses"].call(Tags([], 0)).poses},
        "starts": [one.name for one in to["poses"].call(Tags(["start"], 0)).poses],
    }

    def named(tags: list[str], mode: int, bounds: Bounds) -> list[str]:
        return list(to["list"].call(Filters("^s", [], Tags(tags, mode), bounds)).entities)

    everywhere = Bounds(0, [])
    found["any"] = named(["box", "ghost"], 0, everywhere)
    found["all"] = named(["box", "ghost"], 1, everywhere)
    corner = [Vector(-4.0, -4.0, 2.0), Vector(-6.0, -6.0, 0.0)]
    found["in_box"] = named([], 0, Bounds(1, corner))
    found["in_sphere"] = named([], 0, Bounds(3, [Vector(-5.0, 2.0, 0.5), Vector(1.6, 0.0, 0.0)]))
    hull = to["list"].call(Filters("", [], Tags([], 0), Bounds(2, corner)))
    found["hull"] = hull.result.result
    return found


def action(participant: Any, to: dict[str, Service]) -> dict[str, Any]:
    """Goals of the action: one to its end, one that is cancelled, and two that are refused."""
    parts = {
        name: Service(participant, *what, 100 + row, f"{ACTION}/{name}")
        for row, (name, what) in enumerate(PARTS.items())
    }
    topics = {"feedback": StepMessage, "status": StatusArray}
    latched = {"feedback": Policy.Durability.Volatile, "status": Policy.Durability.TransientLocal}
    readers = {
        name: DataReader(
            participant,
            Topic(participant, f"rt{ACTION}/{name}", kind),
            Qos(Policy.Reliability.Reliable(duration(seconds=1)), latched[name], Policy.History.KeepLast(1000)),
        )
        for name, kind in topics.items()
    }
    matched([*parts.values()])
    until = time.monotonic() + 20.0
    while time.monotonic() < until and not readers["feedback"].get_subscription_matched_status().current_count:
        time.sleep(0.02)
    ids = [Uuid([k] * 16) for k in range(1, 5)]
    found: dict[str, Any] = {"accepted": parts["send_goal"].call(ids[0], StepGoal(25)).accepted}
    ended = parts["get_result"].call(ids[0])
    found["result"] = [ended.status, ended.result.result.result]
    found["again"] = parts["send_goal"].call(ids[0], StepGoal(25)).accepted
    long = parts["send_goal"].call(ids[1], StepGoal(10**6)).accepted
    waiting = parts["get_result"].send(ids[1])
    parts["send_goal"].call(ids[2], StepGoal(5))
    busy = parts["get_result"].call(ids[2])
    found["busy"] = [busy.status, busy.result.result.error_message]
    canceled = parts["cancel_goal"].call(GoalInfo(ids[1], Time(0, 0)))
    found["canceling"] = [canceled.return_code, [one.goal_id.uuid[0] for one in canceled.goals_canceling]]
    late = parts["get_result"].reply_of(waiting)
    found["canceled"] = [long, late.status, late.result.result.result]
    parts["send_goal"].call(ids[3], StepGoal(0))
    none = parts["get_result"].call(ids[3])
    found["none"] = [none.status, none.result.result.result]
    found["unknown"] = [
        parts["get_result"].call(Uuid([9] * 16)).status,
        parts["cancel_goal"].call(GoalInfo(Uuid([9] * 16), Time(0, 0))).return_code,
        parts["cancel_goal"].call(GoalInfo(ids[0], Time(0, 0))).return_code,
    ]
    time.sleep(0.2)
    progress = [one for one in readers["feedback"].take(1000) if one.goal_id.uuid[0] == 1]
    found["feedback"] = [[one.feedback.completed_steps, one.feedback.remaining_steps] for one in progress]
    statuses = readers["status"].take(1000)
    found["statuses"] = {one.goal_info.goal_id.uuid[0]: one.status for one in statuses[-1].status_list}
    return found


def matched(services: list[Service]) -> None:
    """Wait for the server of each service."""
    until = time.monotonic() + 20.0
    while time.monotonic() < until and not all(
        one.writer.get_publication_matched_status().current_count
        and one.reader.get_subscription_matched_status().current_count
        for one in services
    ):
        time.sleep(0.02)


def main() -> None:
    order = json.loads(sys.argv[1])
    domain = Domain(order["domain"], SETTINGS)
    participant = DomainParticipant(order["domain"])
    to = {name: Service(participant, *what, number) for number, (name, what) in enumerate(SERVICES.items(), 1)}
    matched([*to.values()])
    found = fixed(to) if order.get("fixed") else {}
    if order.get("further"):
        found |= further(to)
    if order.get("action"):
        found |= action(participant, to)
    if order.get("verbs"):
        found["mixed"] = mixed(to, order["verbs"], order["seed"])
    if order.get("leave"):  # the process ends at once, with requests on their way and no reply read
        for _ in range(5):
            to["step"].send(1)
        os._exit(0)
    if order.get("quit"):
        found["quit"] = to["set_state"].call(SimulationState(3)).result.result
    print(json.dumps(found), flush=True)
    del domain


if __name__ == "__main__":
    main()
