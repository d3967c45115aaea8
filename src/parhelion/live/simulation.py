"""ROS 2 control of a scenario: the services of simulation_interfaces, and weather and daylight as parameters.

    with SimulationServices(control, DdsNode()):        # /parhelion/spawn_entity, /parhelion/step_simulation ...
        control.run()

Services translate requests to the verbs of `parhelion.scenario.verbs` and wait for their replies in their own threads.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import threading
import time as wall
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from parhelion.core.errors import FormatError, ParhelionError
from parhelion.core.pose import Pose
from parhelion.io.ros.messages import CLOCK, clock
from parhelion.io.ros.service_types import PARAMETERS, SERVICES, SIMULATION, VERSION_2, register_services
from parhelion.io.ros.types import Message, decode, header, new
from parhelion.live.actions import StepAction
from parhelion.live.dds import DdsNode
from parhelion.live.ros import DAYLIGHT_FIELDS, FLOAT, STATE, STRING, AirControl, air_subscriptions, state_message
from parhelion.live.services import ServiceServer
from parhelion.outputs.topics import MAP
from parhelion.scenario.control import Control, Reply
from parhelion.scenario.editor import FEATURES, MOST_SPAWNED
from parhelion.scenario.verbs import Verb, VerbError, verb_of
from parhelion.weather.media import whole_amounts
from parhelion.weather.weather import Weather
from parhelion.world.loaders import MESH_SUFFIXES

if TYPE_CHECKING:
    from typing_extensions import Self

NODE = "/parhelion"
UNSUPPORTED, OK, NOT_FOUND, INCORRECT_STATE, FAILED = range(5)
"""Codes of simulation_interfaces/Result."""
CODES = {"not_found": NOT_FOUND, "wrong_state": INCORRECT_STATE, "unsupported": UNSUPPORTED}
NAME_NOT_UNIQUE, UNSUPPORTED_FORMAT, NO_RESOURCE, PARSE_ERROR, INVALID_POSE = 101, 103, 104, 106, 109
ALREADY = 101
STOPPED, PLAYING, PAUSED, QUITTING = range(4)
STATES = {"playing": PLAYING, "paused": PAUSED, "ended": PAUSED}
FEATURE_NUMBERS = {
    "SPAWNING": 0, "DELETING": 1, "NAMED_POSES": 2, "ENTITY_TAGS": 4,
    "ENTITY_BOUNDS": 5, "ENTITY_BOUNDS_BOX": 6, "ENTITY_CATEGORIES": 8,
    "SPAWNING_RESOURCE_STRING": 9, "ENTITY_STATE_GETTING": 10, "ENTITY_STATE_SETTING": 11, "ENTITY_INFO_GETTING": 12,
    "SPAWNABLES": 14, "SIMULATION_RESET": 20, "SIMULATION_RESET_TIME": 21, "SIMULATION_RESET_STATE": 22,
    "SIMULATION_RESET_SPAWNED": 23, "SIMULATION_STATE_GETTING": 24, "SIMULATION_STATE_SETTING": 25,
    "SIMULATION_STATE_PAUSE": 26, "STEP_SIMULATION_SINGLE": 31, "STEP_SIMULATION_MULTIPLE": 32,
    "STEP_SIMULATION_ACTION": 33, "WORLD_INFO_GETTING": 44, "SPAWNING_ENTITIES": 50,
}  # fmt: skip
"""Numbers of the supported features in simulation_interfaces."""
ONLY_ROS = (
    "NAMED_POSES",
    "ENTITY_TAGS",
    "SPAWNABLES",
    "STEP_SIMULATION_ACTION",
    "WORLD_INFO_GETTING",
    "SPAWNING_ENTITIES",
)
"""Features of these services that are no verbs."""
_SCOPE_STATE, _SCOPE_SPAWNED = 2, 4
_CATEGORY = {"vehicle": 1, "spawned": 0, "actor": 0, "object": 0}
_HUMAN = 2
_EMPTY_BOUNDS, _BOX, _SPHERE = 0, 1, 3
_ANY_TAG = 0
SOME_NOT_SPAWNED = 150
MOST_SPAWNABLES = 1000
_DOUBLE = 3
"""ParameterType of a number."""
_CALL_S = 3600.0
_LONGEST_FILTER, _MOST_REPEATS = 128, 3


class SimulationServices:
    """Services of a served scenario on a DDS node; `with` closes both.

    Args:
        control: Control of the scenario.
        node: Node of the services.
        version: Version of simulation_interfaces: 1 (Humble, Jazzy, Kilted) or 2, where SetEntityState has flags.
        name: Name of the node, which precedes the names of the services.
    """

    def __init__(self, control: Control, node: DdsNode, *, version: int = 1, name: str = NODE) -> None:
        register_services()
        self.control, self.node, self.server = control, node, ServiceServer(node)
        self._flags = version >= 2
        for service in SERVICES:
            snake = re.sub(r"(?<!^)(?=[A-Z])", "_", service).lower()
            kind = VERSION_2.get(service, service) if self._flags else service
            handler = getattr(self, f"_{snake}")
            self.server.serve(f"{name}/{snake}", f"{SIMULATION}/srv/{kind}", self._guarded(kind, handler))
        _serve_parameters(self.server, name, _Parameters(self._call))
        self.steps = StepAction(self.server, self._call, f"{name}/simulate_steps")
        self.server.start()

    def close(self) -> None:
        """Stop the services and leave the domain."""
        self.steps.close()
        self.server.close()
        self.node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- calls ---------------------------------------------------------------------------------------------------

    def _call(self, op: str, **fields: Any) -> dict[str, Any]:
        verb: Verb = verb_of({"op": op, **fields}, "request")
        return self.control.call(verb, _CALL_S)

    def _guarded(self, kind: str, handler: Callable[[Any], dict[str, Any]]) -> Callable[[Any], Any]:
        """Handler whose refusals become results; fields that it does not set are empty."""
        reply = f"{SIMULATION}/srv/{kind}_Response"

        def handle(request: Any) -> Any:
            try:
                found = {"result": (OK, ""), **handler(request)}
            except _Refused as error:
                found = {"result": (error.code, str(error))}
            except VerbError as error:
                found = {"result": (CODES.get(error.code, FAILED), str(error))}
            code, text = found["result"]
            found["result"] = new(f"{SIMULATION}/msg/Result", result=code, error_message=text[:1000])
            return new(reply, **{**_EMPTY[kind](), **found} if kind in _EMPTY else found)

        if kind == "GetSimulatorFeatures":
            return lambda request: new(reply, **handler(request))
        return handle

    # ---- entities ------------------------------------------------------------------------------------------------

    def _spawn_entity(self, request: Any) -> dict[str, Any]:
        fields = _resource(request.uri, request.resource_string)
        fields |= {"pose": _pose_of(request.initial_pose.pose), "allow_renaming": bool(request.allow_renaming)}
        if request.name:
            fields["name"] = request.name
        try:
            found = self._call("spawn", **fields)
        except VerbError as error:
            codes = {"name_taken": NAME_NOT_UNIQUE, "invalid": PARSE_ERROR, "not_found": NO_RESOURCE}
            raise _Refused(codes.get(error.code, FAILED), str(error)) from None
        return {"entity_name": found["entity"]}

    def _spawn_entities(self, request: Any) -> dict[str, Any]:
        """Spawn each entity; the others are spawned even if one is refused."""
        results, failed = [], 0
        for one in request.spawn_requests[:MOST_SPAWNED]:
            code, text, name = OK, "", ""
            try:
                name = self._spawn_entity(one)["entity_name"]
            except (_Refused, VerbError) as error:
                code, text = getattr(error, "number", FAILED), str(error)[:1000]
                failed += 1
            result = new(f"{SIMULATION}/msg/Result", result=code, error_message=text)
            results.append(new(f"{SIMULATION}/msg/SpawnResult", result=result, entity_name=name))
        failed += max(len(request.spawn_requests) - MOST_SPAWNED, 0)
        if failed:
            text = f"{failed} of {len(request.spawn_requests)} entities were not spawned"
            return {"result": (SOME_NOT_SPAWNED, text), "results": results}
        return {"results": results}

    def _get_spawnables(self, request: Any) -> dict[str, Any]:
        """Mesh files below the scenario's folder, by the uri of SpawnEntity."""
        if len(request.sources):
            raise VerbError("unsupported", "sources: only the scenario's folder is searched; leave the list empty")
        folder = self.control.scenario.folder.resolve()
        files = (file for file in sorted(folder.rglob("*")) if file.suffix.lower() in MESH_SUFFIXES and file.is_file())
        found = []
        for file in itertools.islice(files, MOST_SPAWNABLES):
            uri, text = file.relative_to(folder).as_posix(), f"mesh file ({file.suffix[1:].lower()})"
            if self._flags:
                place = new(f"{SIMULATION}/msg/Resource", uri=uri, resource_string="")
                kind, fields = "SpawnableResource", {"entity_resource": place}
            else:
                kind, fields = "Spawnable", {"uri": uri}
            found.append(new(f"{SIMULATION}/msg/{kind}", description=text, spawn_bounds=_bounds(), **fields))
        return {"spawnables": found}

    _get_spawnable_resources = _get_spawnables

    def _get_named_poses(self, request: Any) -> dict[str, Any]:
        """Viewpoint of the world, and the start of each vehicle."""
        scenario = self.control.scenario
        places = {"viewpoint": ("viewpoint of the world", ["viewpoint"], scenario.world.viewpoint)}
        for entry in scenario.settings.vehicles:
            state = scenario.body(entry.name).state(np.zeros(1))
            start = Pose(state.xyz[0], state.quat_xyzw[0])
            places[f"start/{entry.name}"] = (f"start of {entry.name}", ["start"], start)
        poses = [
            new(f"{SIMULATION}/msg/NamedPose", name=name, description=text, tags=tags, pose=_pose_message(pose))
            for name, (text, tags, pose) in places.items()
            if _tagged(tags, request.tags)
        ]
        return {"poses": poses}

    def _get_current_world(self, request: Any) -> dict[str, Any]:
        world = self.control.scenario.world
        source = self.control.scenario.settings.world
        uri = source if isinstance(source, str) else source.name
        resource = new(f"{SIMULATION}/msg/Resource", uri=uri, resource_string="")
        text = f"{len(world.objects)} objects"
        found = new(
            f"{SIMULATION}/msg/WorldResource", name=world.name, world_resource=resource, description=text, tags=[]
        )
        return {"world": found}

    def _delete_entity(self, request: Any) -> dict[str, Any]:
        self._call("delete", entity=request.entity)
        return {}

    def _get_entity_state(self, request: Any) -> dict[str, Any]:
        return {"state": _state_of(self._call("get_state", entity=request.entity))}

    def _set_entity_state(self, request: Any) -> dict[str, Any]:
        state, fields = request.state, {"entity": request.entity}
        if not self._flags or request.set_pose:
            fields["pose"] = _pose_of(state.pose)
        if not self._flags or request.set_twist:
            fields["velocity"] = _xyz(state.twist.linear)
            fields["angular_velocity"] = _xyz(state.twist.angular)
        self._call("set_state", **fields)
        return {}

    def _get_entity_info(self, request: Any) -> dict[str, Any]:
        found = self._find(request.entity)
        category = new(f"{SIMULATION}/msg/EntityCategory", category=_category(found))
        info = new(f"{SIMULATION}/msg/EntityInfo", category=category, description=found["label"], tags=_tags(found))
        return {"info": info}

    def _get_entity_bounds(self, request: Any) -> dict[str, Any]:
        found = self._call("bounds", entity=request.entity)
        if found["lower"] is None:
            return {}
        points = [
            new("geometry_msgs/msg/Vector3", **dict(zip("xyz", found[key], strict=True))) for key in ("upper", "lower")
        ]
        return {"bounds": new(f"{SIMULATION}/msg/Bounds", type=_BOX, points=points)}

    def _find(self, name: str) -> dict[str, Any]:
        for one in self._call("entities")["entities"]:
            if one["name"] == name:
                return dict(one)
        raise VerbError("not_found", f"no entity {name[:128]!r}")

    def _get_entities(self, request: Any) -> dict[str, Any]:
        return {"entities": self._chosen(request.filters)}

    def _get_entities_states(self, request: Any) -> dict[str, Any]:
        names = self._chosen(request.filters)
        return {"entities": names, "states": [_state_of(self._call("get_state", entity=name)) for name in names]}

    def _chosen(self, filters: Any) -> list[str]:
        """Names of the entities that pass the filters."""
        pattern = _pattern(filters.filter)
        wanted = {one.category for one in filters.categories}
        names = [
            one["name"]
            for one in self._call("entities")["entities"]
            if pattern.search(one["name"])
            and (not wanted or _category(one) in wanted)
            and _tagged(_tags(one), filters.tags)
        ]
        inside = _overlap(filters.bounds)
        return names if inside is None else [name for name in names if inside(self._call("bounds", entity=name))]

    # ---- clock ---------------------------------------------------------------------------------------------------

    def _step_simulation(self, request: Any) -> dict[str, Any]:
        try:
            self._call("step", steps=int(request.steps))
        except VerbError as error:
            raise _Refused(FAILED, str(error)) from None
        return {}

    def _reset_simulation(self, request: Any) -> dict[str, Any]:
        scope = int(request.scope) or 255
        keep = [] if scope & _SCOPE_SPAWNED else ["spawned"]
        if not scope & _SCOPE_STATE:
            keep += ["weather", "sensors"]
        self._call("reset", keep=keep)
        return {}

    def _get_simulation_state(self, request: Any) -> dict[str, Any]:
        state = STATES[self._call("status")["state"]]
        return {"state": new(f"{SIMULATION}/msg/SimulationState", state=state)}

    def _set_simulation_state(self, request: Any) -> dict[str, Any]:
        wanted = int(request.state.state)
        if wanted not in (STOPPED, PLAYING, PAUSED, QUITTING):
            raise VerbError("invalid", f"state {wanted} cannot be set")
        if wanted == STATES[self._call("status")["state"]]:
            raise _Refused(ALREADY, "the simulation is in this state already")
        if wanted == STOPPED:
            self._call("pause")
            self._call("reset")
        else:
            self._call({PLAYING: "play", PAUSED: "pause", QUITTING: "quit"}[wanted])
        return {}

    def _get_simulator_features(self, request: Any) -> dict[str, Any]:
        found = self._call("features")
        numbers = [FEATURE_NUMBERS[name] for name in (*FEATURES, *ONLY_ROS)]
        text = "parhelion; resource_string is JSON with the fields of an object: shape or mesh, material, label, scale"
        features = new(
            f"{SIMULATION}/msg/SimulatorFeatures",
            features=np.array(numbers, np.uint16),
            spawn_formats=list(found["spawn_formats"]),
            custom_info=text,
        )
        return {"features": features}


def _tags(entity: dict[str, Any]) -> list[str]:
    """Tags of an entity: its label and its kind."""
    return [entity["label"], entity["kind"]]


def _tagged(tags: list[str], wanted: Any) -> bool:
    """Return whether tags pass a TagsFilter; an empty one passes all."""
    if not wanted.tags:
        return True
    found = [one in tags for one in wanted.tags]
    return any(found) if wanted.filter_mode == _ANY_TAG else all(found)


def _overlap(bounds: Any) -> Callable[[dict[str, Any]], bool] | None:
    """Function that returns whether the box of an entity overlaps the bounds of a filter; None without bounds."""
    if bounds.type == _EMPTY_BOUNDS:
        return None
    points = [np.array(_xyz(one)) for one in bounds.points[:3]]
    if bounds.type not in (_BOX, _SPHERE) or len(points) != 2 or not np.all(np.isfinite(points)):
        raise VerbError("unsupported", "bounds: give a box (upper, lower corner) or a sphere (centre, radius as x)")
    first, second = points
    low, high = np.minimum(first, second), np.maximum(first, second)

    def box(found: dict[str, Any]) -> bool:
        return found["lower"] is not None and bool(np.all(low <= found["upper"]) and np.all(found["lower"] <= high))

    def sphere(found: dict[str, Any]) -> bool:
        if found["lower"] is None:
            return False
        nearest = np.clip(first, found["lower"], found["upper"])
        return float(np.linalg.norm(nearest - first)) <= second[0]

    return box if bounds.type == _BOX else sphere


class _Refused(ParhelionError):
    """A request that is refused with a code of its service."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = self.number = code


def _bounds() -> Any:
    return new(f"{SIMULATION}/msg/Bounds", type=0, points=[])


def _info() -> Any:
    category = new(f"{SIMULATION}/msg/EntityCategory", category=0)
    return new(f"{SIMULATION}/msg/EntityInfo", category=category, description="", tags=[])


def _rest() -> Any:
    zero = [0.0, 0.0, 0.0]
    pose = {"xyz": zero, "quat_xyzw": [0.0, 0.0, 0.0, 1.0]}
    return _state_of({"time_s": 0.0, "pose": pose, "velocity": zero, "angular_velocity": zero})


_EMPTY: dict[str, Callable[[], dict[str, Any]]] = {
    "SpawnEntity": lambda: {"entity_name": ""},
    "SpawnEntities": lambda: {"results": []},
    "GetSpawnables": lambda: {"spawnables": []},
    "GetSpawnableResources": lambda: {"spawnables": []},
    "GetNamedPoses": lambda: {"poses": []},
    "GetCurrentWorld": dict,
    "GetEntityState": lambda: {"state": _rest()},
    "GetEntityInfo": lambda: {"info": _info()},
    "GetEntityBounds": lambda: {"bounds": _bounds()},
    "GetEntities": lambda: {"entities": []},
    "GetEntitiesStates": lambda: {"entities": [], "states": []},
    "GetSimulationState": lambda: {"state": new(f"{SIMULATION}/msg/SimulationState", state=STOPPED)},
}
"""Fields of a reply without a result, by service."""


def _resource(uri: str, text: str) -> dict[str, Any]:
    """Fields of an object from the uri of a mesh file, or from a JSON text."""
    if uri:
        return {"mesh": uri.removeprefix("file://")}
    if not text.strip():
        raise _Refused(NO_RESOURCE, "give uri (a mesh file in the scenario's folder) or resource_string (JSON)")
    if text.lstrip().startswith("<"):
        raise _Refused(UNSUPPORTED_FORMAT, "URDF and SDF are not supported; give JSON, or the uri of a mesh file")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or {"op", "pose", "name"} & set(fields):
        raise _Refused(PARSE_ERROR, 'resource_string: expected JSON such as {"shape": {"kind": "box", ...}}')
    return fields


def _pattern(text: str) -> re.Pattern[str]:
    """Regular expression of a filter; forms that can take very long are refused."""
    if len(text) > _LONGEST_FILTER or set("()") & set(text) or sum(map(text.count, "*+?{")) > _MOST_REPEATS:
        raise VerbError("invalid", f"filter: at most {_MOST_REPEATS} repetitions, no groups, {_LONGEST_FILTER} letters")
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise VerbError("invalid", f"filter: {error}") from None


def _category(entity: dict[str, Any]) -> int:
    return _HUMAN if entity["label"] == "person" else _CATEGORY[entity["kind"]]


def _xyz(vector: Any) -> list[float]:
    return [float(vector.x), float(vector.y), float(vector.z)]


def _pose_of(pose: Any) -> dict[str, Any]:
    """Fields of a pose; a quaternion of zeros, as of a message without one, is no rotation."""
    quat = [float(getattr(pose.orientation, axis)) for axis in "xyzw"]
    values = [*_xyz(pose.position), *quat]
    if not all(math.isfinite(value) for value in values):
        raise _Refused(INVALID_POSE, "the pose is not finite")
    return {"xyz": values[:3], "quat_xyzw": quat if any(quat) else [0.0, 0.0, 0.0, 1.0]}


def _pose_message(pose: Pose) -> Any:
    point = new("geometry_msgs/msg/Point", **dict(zip("xyz", pose.xyz.tolist(), strict=True)))
    quat = new("geometry_msgs/msg/Quaternion", **dict(zip("xyzw", pose.quat_xyzw.tolist(), strict=True)))
    return new("geometry_msgs/msg/Pose", position=point, orientation=quat)


def _state_of(found: dict[str, Any]) -> Any:
    """EntityState of the result of `get_state`."""

    def vector(values: Any) -> Any:
        return new("geometry_msgs/msg/Vector3", **dict(zip("xyz", map(float, values), strict=True)))

    pose = Pose(found["pose"]["xyz"], found["pose"]["quat_xyzw"])
    none = (0.0, 0.0, 0.0)
    return new(
        f"{SIMULATION}/msg/EntityState",
        header=header(round(found["time_s"] * 1e9), MAP),
        pose=_pose_message(pose),
        twist=new(
            "geometry_msgs/msg/Twist", linear=vector(found["velocity"]), angular=vector(found["angular_velocity"])
        ),
        acceleration=new("geometry_msgs/msg/Accel", linear=vector(none), angular=vector(none)),
    )


# ---- parameters ------------------------------------------------------------------------------------------------------


class AirTopics:
    """Topics of weather, daylight and clock of a served scenario, in a thread of its own; `close` ends it.

    Messages of `/weather/...` and `/daylight/...` become the verbs `weather` and `daylight`, which apply before the
    next step and are logged. `/weather/state` reports every change, also those of other clients. While the scenario is
    paused, `/clock` repeats its last message, so that programs that join later know the time.
    """

    def __init__(self, control: Control, node: DdsNode) -> None:
        self.control, self.node = control, node
        self.messages = 0
        """Number of executed messages."""
        self.refused = 0
        """Number of ignored messages: damaged, not finite or out of range."""
        self.clock = clock_message(0)
        """Last message of `/clock`."""
        self._clear = {name: one.clear for name, one in whole_amounts().items()}
        self._received = air_subscriptions(node)
        node.advertise(STATE, STRING)
        node.advertise(self.clock.topic, self.clock.type)
        self._published: dict[str, Any] | None = None
        self._asking = False
        self._due_s = 0.0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="parhelion-air", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, before the node is closed."""
        self._ending.set()
        self._thread.join(10.0)

    def _work(self) -> None:
        while not self._ending.wait(_AIR_POLL_S):
            for (kind, name), received in self._received.items():
                for data in received.take()[-1:]:  # an earlier one would have no effect
                    self._change(kind.strip("/"), name, data)
            now = wall.monotonic()
            if now >= self._due_s and not self._asking:
                self._due_s, self._asking = now + _STATE_S, True
                self._submit({"op": "status"}, self._take_status)

    def _change(self, op: str, name: str, data: bytes) -> None:
        def answer(reply: Reply) -> None:
            self.messages, self.refused = (
                self.messages + (reply.error is None),
                self.refused + (reply.error is not None),
            )
            self._due_s = 0.0

        try:
            value = float(decode(FLOAT, data).data)
        except FormatError:
            self.refused += 1
            return
        gone = op == "weather" and value in (0.0, self._clear[name])
        self._submit({"op": op, "changes": {name: None if gone else value}}, answer)

    def _submit(self, fields: dict[str, Any], answer: Callable[[Reply], None]) -> None:
        try:
            self.control.submit(verb_of(fields, "message"), answer)
        except VerbError as error:
            answer(Reply(error=error))

    def _take_status(self, reply: Reply) -> None:
        """Publish a change of the air, and the clock while the scenario stands. Called in the simulation thread."""
        self._asking = False
        if reply.error is not None:
            return
        air = {name: reply.result[name] for name in ("weather", "daylight")}
        if air != self._published:
            self._published = air
            self.node.publish(state_message({"time_s": reply.result["time_s"], **air}))
        if reply.result["state"] != "playing":
            self.node.publish(self.clock)


_AIR_POLL_S, _STATE_S = 0.01, 0.1
"""Intervals [s] at which the topics and the state of the scenario are read."""


def clock_message(time_ns: int) -> Message:
    """Message of `/clock`."""
    return Message("/clock", CLOCK, time_ns, clock(time_ns))


class AirParameters:
    """Parameters of the weather and daylight of a stream: the services of a ROS 2 node; `close` ends them."""

    def __init__(self, air: AirControl, node: DdsNode, name: str = NODE) -> None:
        self._air, self.server = air, ServiceServer(node)
        _serve_parameters(self.server, name, _Parameters(self._call))
        self.server.start()

    def _call(self, op: str, **fields: Any) -> dict[str, Any]:
        if op == "status":
            return self._air.state
        for name, value in fields["changes"].items():
            refused = self._air.ask(f"/{op}", name, 0.0 if value is None else float(value))
            if refused:
                raise VerbError("invalid", refused)
        return {}

    def close(self) -> None:
        """End the services, before the node is closed."""
        self.server.close()


def _serve_parameters(server: ServiceServer, name: str, parameters: _Parameters) -> None:
    register_services()
    for service in PARAMETERS:
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", service).lower()
        server.serve(f"{name}/{snake}", f"rcl_interfaces/srv/{service}", getattr(parameters, snake))


class _Parameters:
    """Amounts of media and fields of daylight as numbers, such as `weather.rain_rate_mm_h`."""

    def __init__(self, call: Callable[..., dict[str, Any]]) -> None:
        self._call = call
        self._clear = {f"weather.{name}": one.clear for name, one in whole_amounts().items()}
        self.names = [*self._clear, *(f"daylight.{name}" for name in DAYLIGHT_FIELDS)]

    def _values(self) -> dict[str, float | None]:
        status = self._call("status")
        now = Weather.from_mapping(status["weather"]).at(status["time_s"])
        found: dict[str, float | None] = {name: getattr(now, name.partition(".")[2]) for name in self._clear}
        daylight = status["daylight"]
        found |= {f"daylight.{name}": daylight.get(name) for name in DAYLIGHT_FIELDS}
        return found

    def set_parameters(self, request: Any) -> Any:
        """Set numbers; each has its own result."""
        results = []
        for one in request.parameters[:64]:
            reason = ""
            try:
                self._set(one.name, one.value)
            except VerbError as error:
                reason = str(error)
            results.append(new("rcl_interfaces/msg/SetParametersResult", successful=not reason, reason=reason[:1000]))
        return new("rcl_interfaces/srv/SetParameters_Response", results=results)

    def _set(self, name: str, value: Any) -> None:
        if name not in self.names:
            raise VerbError("not_found", f"there is no parameter {name[:128]!r}")
        if value.type not in (2, _DOUBLE):
            raise VerbError("invalid", f"{name}: must be a number")
        number = float(value.double_value if value.type == _DOUBLE else value.integer_value)
        kind, _, field = name.partition(".")
        if kind == "weather":
            gone = number in (0.0, self._clear[name])
            self._call("weather", changes={field: None if gone else number})
        else:
            self._call("daylight", changes={field: number})

    def get_parameters(self, request: Any) -> Any:
        """Return numbers; a parameter that is not set has the type 0."""
        values = self._values()
        found = [_value(values.get(name)) for name in request.names[:1024]]
        return new("rcl_interfaces/srv/GetParameters_Response", values=found)

    def get_parameter_types(self, request: Any) -> Any:
        """Return the types."""
        kinds = np.array([_DOUBLE if name in self.names else 0 for name in request.names[:1024]], np.uint8)
        return new("rcl_interfaces/srv/GetParameterTypes_Response", types=kinds)

    def list_parameters(self, request: Any) -> Any:
        """Return the names."""
        prefixes = list(request.prefixes)[:64]
        names = [one for one in self.names if not prefixes or any(one.startswith(prefix) for prefix in prefixes)]
        kinds = sorted({name.partition(".")[0] for name in names})
        result = new("rcl_interfaces/msg/ListParametersResult", names=names, prefixes=kinds)
        return new("rcl_interfaces/srv/ListParameters_Response", result=result)

    def describe_parameters(self, request: Any) -> Any:
        """Return the types and units."""
        limits = {f"weather.{name}": one for name, one in whole_amounts().items()}
        found = []
        for name in request.names[:1024]:
            amount = limits.get(name)
            spans = []
            if amount is not None:
                spans = [
                    new(
                        "rcl_interfaces/msg/FloatingPointRange",
                        from_value=min(amount.low, 0.0),
                        to_value=float(amount.high),
                        step=0.0,
                    )
                ]
            found.append(
                new(
                    "rcl_interfaces/msg/ParameterDescriptor",
                    name=name,
                    type=_DOUBLE if name in self.names else 0,
                    description="" if amount is None else f"{amount.help} [{amount.unit}]",
                    additional_constraints="",
                    read_only=False,
                    dynamic_typing=False,
                    floating_point_range=spans,
                    integer_range=[],
                )
            )
        return new("rcl_interfaces/srv/DescribeParameters_Response", descriptors=found)


def _value(number: float | None) -> Any:
    empty = {
        "bool_value": False,
        "integer_value": 0,
        "string_value": "",
        "byte_array_value": np.zeros(0, np.uint8),
        "bool_array_value": np.zeros(0, np.bool_),
        "integer_array_value": np.zeros(0, np.int64),
        "double_array_value": np.zeros(0, np.float64),
        "string_array_value": [],
    }
    kind = 0 if number is None else _DOUBLE
    return new("rcl_interfaces/msg/ParameterValue", type=kind, double_value=float(number or 0.0), **empty)
