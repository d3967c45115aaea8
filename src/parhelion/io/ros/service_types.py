"""Types of the ROS 2 services that this package serves: simulation_interfaces and the parameters of rcl_interfaces.

The two halves of a service are messages, `pkg/srv/X_Request` and `pkg/srv/X_Response`. Fields of simulation_interfaces
are those of its versions 1.4 (Humble) to 1.6 (Kilted). In version 2, SetEntityState has three flags at its end; the
other services here have the same bytes. https://github.com/ros-simulation/simulation_interfaces
"""

from __future__ import annotations

from functools import lru_cache

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
}
"""Request and reply of each service of simulation_interfaces."""
STATE_FLAGS = "bool set_pose\nbool set_twist\nbool set_acceleration"
"""Further fields of the request of SetEntityState in version 2."""
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
    flagged = {
        "SetEntityStateFlags": (f"{SERVICES['SetEntityState'][0]}\n{STATE_FLAGS}", SERVICES["SetEntityState"][1])
    }
    for package, services in ((SIMULATION, {**SERVICES, **flagged}), (_RCL, PARAMETERS)):
        for name, halves in services.items():
            for half, text in zip(("Request", "Response"), halves, strict=True):
                # The parser knows messages only.
                found = get_types_from_msg(text, f"{package}/msg/{name}_{half}")
                store.register({f"{package}/srv/{name}_{half}": found[f"{package}/msg/{name}_{half}"]})
