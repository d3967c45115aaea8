"""Types of the ROS 2 services and actions that this package serves: simulation_interfaces and rcl_interfaces.

The two halves of a service are messages, `pkg/srv/X_Request` and `pkg/srv/X_Response`. Fields of simulation_interfaces
are those of its versions 1.4 (Humble) to 1.6 (Kilted). In version 2, SetEntityState has three flags at its end and
Spawnable has another field; the other services here have the same bytes. An action consists of three services and two
topics, with types of its own. https://github.com/ros-simulation/simulation_interfaces
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from parhelion.io.ros.types import type_store

_EMPTY = "uint8 structure_needs_at_least_one_member"
SIMULATION = "simulation_interfaces"
MESSAGES = {
    "Result": "uint8 result\nstring error_message",
    "EntityCategory": "uint8 category",
    "EntityState": "std_msgs/Header header\ngeometry_msgs/Pose pose\ngeometry_msgs/Twist twist\n"
    "geometry_msgs/Accel acceleration",
    "EntityInfo": "EntityCategory category\nstring description\nstring[] tags",
    "Bounds": "uint8 type\ngeometry_msgs/Vector3[] points",
    "TagsFilter": "string[] tags\nuint8 filter_mode",
    "EntityFilters": "string filter\nEntityCategory[] categories\nTagsFilter tags\nBounds bounds",
    "SimulationState": "uint8 state",
    "SimulatorFeatures": "uint16[] features\nstring[] spawn_formats\nstring custom_info",
    "Resource": "string uri\nstring resource_string",
    "Spawnable": "string uri\nstring description\nBounds spawn_bounds",
    "SpawnableResource": "Resource entity_resource\nstring description\nBounds spawn_bounds",
    "SpawnEntity": "string name\nbool allow_renaming\nstring uri\nstring resource_string\nstring entity_namespace\n"
    "geometry_msgs/PoseStamped initial_pose",
    "SpawnResult": "Result result\nstring entity_name",
    "NamedPose": "string name\nstring description\nstring[] tags\ngeometry_msgs/Pose pose",
    "WorldResource": "string name\nResource world_resource\nstring description\nstring[] tags",
}
"""Messages of simulation_interfaces, in order of their use in others."""
_RESULT = "simulation_interfaces/Result result"
_STATE = "simulation_interfaces/EntityState"
SERVICES: dict[str, tuple[str, str]] = {
    "SpawnEntity": (
        "string name\nbool allow_renaming\nstring uri\nstring resource_string\nstring entity_namespace\n"
        "geometry_msgs/PoseStamped initial_pose",
        f"{_RESULT}\nstring entity_name",
    ),
    "DeleteEntity": ("string entity", _RESULT),
    "GetEntityState": ("string entity", f"{_RESULT}\n{_STATE} state"),
    "SetEntityState": (f"string entity\n{_STATE} state", _RESULT),
    "GetEntityInfo": ("string entity", f"{_RESULT}\nsimulation_interfaces/EntityInfo info"),
    "GetEntityBounds": ("string entity", f"{_RESULT}\nsimulation_interfaces/Bounds bounds"),
    "GetEntities": ("simulation_interfaces/EntityFilters filters", f"{_RESULT}\nstring[] entities"),
    "GetEntitiesStates": (
        "simulation_interfaces/EntityFilters filters",
        f"{_RESULT}\nstring[] entities\n{_STATE}[] states",
    ),
    "GetSimulationState": (_EMPTY, f"simulation_interfaces/SimulationState state\n{_RESULT}"),
    "SetSimulationState": ("simulation_interfaces/SimulationState state", _RESULT),
    "GetSimulatorFeatures": (_EMPTY, "simulation_interfaces/SimulatorFeatures features"),
    "ResetSimulation": ("uint8 scope", _RESULT),
    "StepSimulation": ("uint64 steps", _RESULT),
    "SpawnEntities": (
        "simulation_interfaces/SpawnEntity[] spawn_requests",
        f"{_RESULT}\nsimulation_interfaces/SpawnResult[] results",
    ),
    "GetSpawnables": ("string[] sources", f"{_RESULT}\nsimulation_interfaces/Spawnable[] spawnables"),
    "GetNamedPoses": ("simulation_interfaces/TagsFilter tags", f"{_RESULT}\nsimulation_interfaces/NamedPose[] poses"),
    "GetCurrentWorld": (_EMPTY, f"{_RESULT}\nsimulation_interfaces/WorldResource world"),
}
"""Request and reply of each service of simulation_interfaces."""
VERSION_2 = {"SetEntityState": "SetEntityStateFlags", "GetSpawnables": "GetSpawnableResources"}
"""Services whose fields differ in version 2, and the names of these variants here."""
STATE_FLAGS = "bool set_pose\nbool set_twist\nbool set_acceleration"
"""Further fields of the request of SetEntityState in version 2."""
STEP_ACTION = "simulation_interfaces/action/SimulateSteps"
_GOAL_ID = "unique_identifier_msgs/UUID goal_id"
ACTION_PARTS = {
    "Goal": "uint64 steps",
    "Result": _RESULT,
    "Feedback": "uint64 completed_steps\nuint64 remaining_steps",
    "SendGoal_Request": f"{_GOAL_ID}\nsimulation_interfaces/SimulateSteps_Goal goal",
    "SendGoal_Response": "bool accepted\nbuiltin_interfaces/Time stamp",
    "GetResult_Request": _GOAL_ID,
    "GetResult_Response": "int8 status\nsimulation_interfaces/SimulateSteps_Result result",
    "FeedbackMessage": f"{_GOAL_ID}\nsimulation_interfaces/SimulateSteps_Feedback feedback",
}
"""Types of the action SimulateSteps, in order of their use in others."""
CANCEL = "action_msgs/srv/CancelGoal"
_CANCEL = ("action_msgs/GoalInfo goal_info", "int8 return_code\naction_msgs/GoalInfo[] goals_canceling")
_RCL = "rcl_interfaces"
PARAMETERS: dict[str, tuple[str, str]] = {
    "SetParameters": ("rcl_interfaces/Parameter[] parameters", "rcl_interfaces/SetParametersResult[] results"),
    "GetParameters": ("string[] names", "rcl_interfaces/ParameterValue[] values"),
    "ListParameters": ("string[] prefixes\nuint64 depth", "rcl_interfaces/ListParametersResult result"),
    "GetParameterTypes": ("string[] names", "uint8[] types"),
    "DescribeParameters": ("string[] names", "rcl_interfaces/ParameterDescriptor[] descriptors"),
}
"""Request and reply of each service of the parameters of a node."""


@lru_cache(maxsize=1)
def register_services() -> None:
    """Add the types of all services to the type store."""
    from rosbags.typesys import get_types_from_msg

    store = type_store()
    for name, text in MESSAGES.items():
        store.register(get_types_from_msg(text, f"{SIMULATION}/msg/{name}"))
    second = {
        VERSION_2["SetEntityState"]: (f"{SERVICES['SetEntityState'][0]}\n{STATE_FLAGS}", SERVICES["SetEntityState"][1]),
        VERSION_2["GetSpawnables"]: (
            SERVICES["GetSpawnables"][0],
            SERVICES["GetSpawnables"][1].replace("Spawnable[]", "SpawnableResource[]"),
        ),
    }
    groups = ((SIMULATION, {**SERVICES, **second}), (_RCL, PARAMETERS), ("action_msgs", {"CancelGoal": _CANCEL}))
    for package, services in groups:
        for name, halves in services.items():
            for half, text in zip(("Request", "Response"), halves, strict=True):
                _register(f"{package}/srv/{name}_{half}", text)
    for part, text in ACTION_PARTS.items():
        _register(f"{STEP_ACTION}_{part}", text)


def _register(name: str, text: str) -> None:
    """Add a type whose name is not that of a message; the parser knows messages only."""
    from rosbags.typesys import get_types_from_msg

    package, kind, short = name.split("/")
    as_message = f"{package}/msg/{short}"
    constants, fields = get_types_from_msg(text, as_message)[as_message]
    if kind == "action":
        fields = [(member, _of_action(node)) for member, node in fields]
    type_store().register({name: (constants, fields)})


def _of_action(node: Any) -> Any:
    """Type of a field, in which the parts of the action have their names."""
    kind, what = node
    prefix = STEP_ACTION.replace("/action/", "/msg/")
    return (kind, STEP_ACTION + what[len(prefix) :]) if isinstance(what, str) and what.startswith(prefix) else node
