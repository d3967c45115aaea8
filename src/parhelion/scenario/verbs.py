"""Verbs that control a scenario from outside: typed records, the same for every protocol and for the event log.

A verb is a mapping with `op` and its fields, for example {"op": "step", "steps": 10}. Poses are mappings with `xyz` and
`rpy_deg` or `quat_xyzw`, as in scenario files. Velocities are in the world frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from parhelion.core import config
from parhelion.core.config import Config
from parhelion.core.errors import ParhelionError, nearest_name
from parhelion.motion.vehicles import base as commands
from parhelion.scenario.schema import SensorEntry
from parhelion.world.schema import ObjectFields, PoseEntry, Xyz

MOST_STEPS = 1_000_000
"""Largest number of steps of one call."""
MOST_RAYS = 10_000
"""Largest number of rays or places of one query."""
MOST_VERTICES = 20_000
"""Largest number of vertices or triangles of a mesh in a verb; larger ones are files."""
Corner = Annotated[int, Field(ge=0, lt=2**31)]
Face = tuple[Corner, Corner, Corner]
"""Rows of the vertices of a triangle."""

EntityName = Annotated[str, Field(min_length=1, max_length=128)]
Speed = Annotated[float, Field(ge=-1000, le=1000)]
Velocity = tuple[Speed, Speed, Speed]
Points = Annotated[list[Xyz], Field(min_length=1, max_length=MOST_RAYS)]
Code = Literal["invalid", "unknown_op", "not_found", "wrong_state", "unsupported", "failed", "busy", "name_taken"]


class VerbError(ParhelionError):
    """A verb that was refused; `code` is for programs."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


class Verb(Config):
    """Base of all verbs."""

    edits: ClassVar[bool] = False
    """True if the verb changes the run, so that it is logged and replayed."""
    summary: ClassVar[str] = ""

    def arguments(self) -> dict[str, Any]:
        """Fields that were given, as in the event log."""
        return self.model_dump(mode="json", exclude_unset=True, exclude={"op"})


class Edit(Verb):
    """Base of the verbs that change the run."""

    edits: ClassVar[bool] = True


# ---- clock -----------------------------------------------------------------------------------------------------------


class Play(Edit):
    """Let the clock run."""

    op: Literal["play"] = "play"


class Pause(Edit):
    """Stop the clock after the current step."""

    op: Literal["pause"] = "pause"


class StepVerb(Edit):
    """Advance a paused scenario; the reply comes after the last step."""

    op: Literal["step"] = "step"
    steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] = 1


class Reset(Edit):
    """Return to time 0."""

    op: Literal["reset"] = "reset"
    keep: list[Literal["spawned", "weather", "sensors"]] = Field(default_factory=list)
    """Edits that remain: spawned and moved entities, weather and daylight, attached and moved sensors."""


class Quit(Edit):
    """End the run and the server."""

    op: Literal["quit"] = "quit"


# ---- entities --------------------------------------------------------------------------------------------------------


class Spawn(ObjectFields, Edit):
    """Add an object that can be moved.

    Its shape is `shape` (as in world files), `mesh` (a file below the scenario's folder), or `vertices` with `faces`.
    """

    op: Literal["spawn"] = "spawn"
    name: EntityName | None = None
    allow_renaming: bool = False
    """True to append a number to a name that is taken."""
    vertices: Annotated[list[Xyz], Field(min_length=3, max_length=MOST_VERTICES)] | None = None
    faces: Annotated[list[Face], Field(min_length=1, max_length=2 * MOST_VERTICES)] | None = None
    pose: PoseEntry = PoseEntry()
    velocity: Velocity = (0.0, 0.0, 0.0)
    """Velocity [m/s] in the world."""
    angular_velocity: Velocity = (0.0, 0.0, 0.0)
    """Angular velocity [rad/s] in the world frame."""

    @model_validator(mode="after")
    def _one_source(self) -> Spawn:
        if (self.vertices is None) != (self.faces is None):
            raise ValueError("give vertices and faces together")
        if sum(given is not None for given in (self.mesh, self.shape, self.vertices)) != 1:
            raise ValueError("give one of shape, mesh, vertices with faces")
        return self


class Delete(Edit):
    """Remove an entity: a spawned one, an actor or an object of the world, but no vehicle."""

    op: Literal["delete"] = "delete"
    entity: EntityName


class SetState(Edit):
    """Place an entity, with its twist from now on. A vehicle with `dynamics: external` arrives in the next step."""

    op: Literal["set_state"] = "set_state"
    entity: EntityName
    pose: PoseEntry | None = None
    """New pose in the world; by default the current one."""
    velocity: Velocity | None = None
    """Velocity [m/s] in the world; by default 0, for vehicles the mean of the step."""
    angular_velocity: Velocity | None = None
    """Angular velocity [rad/s] in the world frame, for vehicles in their own; by default 0, or the mean of the step."""


class GetState(Verb):
    """Pose and twist of an entity."""

    op: Literal["get_state"] = "get_state"
    entity: EntityName


class Entities(Verb):
    """Names of entities."""

    op: Literal["entities"] = "entities"
    filter: Annotated[str, Field(max_length=128)] = ""
    """Part of the name, or a pattern with * and ?; empty for all."""
    kinds: list[Literal["vehicle", "spawned", "actor", "object"]] = Field(default_factory=list)
    """Kinds; empty for all."""


class Bounds(Verb):
    """Corners of the box around an entity, or around the world."""

    op: Literal["bounds"] = "bounds"
    entity: EntityName | None = None


# ---- weather and light -----------------------------------------------------------------------------------------------


class SetWeather(Edit):
    """Change the weather: `changes` are fields of a weather file, null removes a medium."""

    op: Literal["weather"] = "weather"
    changes: dict[str, Any] = Field(default_factory=dict)
    clear: bool = False
    """True to start from clear air instead of the current weather."""


class SetDaylight(Edit):
    """Change sun and sky: `changes` are fields of `daylight` in a scenario file."""

    op: Literal["daylight"] = "daylight"
    changes: dict[str, Any] = Field(default_factory=dict)


# ---- sensors and vehicles --------------------------------------------------------------------------------------------


class Attach(Edit):
    """Attach a sensor; its fields are those of a scenario file."""

    op: Literal["attach"] = "attach"
    sensor: SensorEntry


class Detach(Edit):
    """Remove a sensor."""

    op: Literal["detach"] = "detach"
    sensor: EntityName


class Mount(Edit):
    """Change the mount of a frame sensor."""

    op: Literal["mount"] = "mount"
    sensor: EntityName
    pose: PoseEntry


class Latest(Verb):
    """Latest record of a sensor, as a binary reply."""

    op: Literal["latest"] = "latest"
    sensor: EntityName


class Sensors(Verb):
    """Sensors with kind, model, vehicle and rate."""

    op: Literal["sensors"] = "sensors"


COMMANDS = {
    name.removesuffix("Command").lower(): getattr(commands, name)
    for name in ("DriveCommand", "SteerCommand", "VelocityCommand", "PositionCommand", "ThrustCommand", "MotorsOff")
}
"""Commands of vehicles by name: drive, steer, velocity, position, thrust, motorsoff."""


class CommandVerb(Edit):
    """Command a vehicle; the command holds until the next one."""

    op: Literal["command"] = "command"
    vehicle: EntityName
    kind: Literal["drive", "steer", "velocity", "position", "thrust", "motorsoff"]
    values: dict[str, float | Xyz | None] = Field(default_factory=dict)
    """Fields of the command, for example {"speed_m_s": 0.8, "yaw_rate_rad_s": 0.1} for `drive`."""


# ---- queries ---------------------------------------------------------------------------------------------------------


class CastRays(Verb):
    """Range, label and entity of the first surface on each ray."""

    op: Literal["rays"] = "rays"
    origins: Points
    directions: Points
    max_range_m: Annotated[float, Field(gt=0, le=1e6)] = 1e6


class Height(Verb):
    """Height of the ground [m] at places; null without ground."""

    op: Literal["height"] = "height"
    xy: Annotated[list[tuple[float, float]], Field(min_length=1, max_length=MOST_RAYS)]


class Clearance(Verb):
    """Distance [m] from a vehicle to the nearest solid obstacle; null without one within 10 m."""

    op: Literal["clearance"] = "clearance"
    vehicle: EntityName


class Collisions(Verb):
    """Latest contacts of vehicles."""

    op: Literal["collisions"] = "collisions"
    since_step: Annotated[int, Field(ge=0)] = 0


class Status(Verb):
    """State of the clock, weather and daylight."""

    op: Literal["status"] = "status"


class Features(Verb):
    """Names of the supported features, as in simulation_interfaces."""

    op: Literal["features"] = "features"


# ---- edits of a Python loop, only in event logs ----------------------------------------------------------------------


class AddObject(ObjectFields, Edit):
    """Object that a loop added: `World.add`, or `World.add_actor` at a pose."""

    op: Literal["add"] = "add"
    vertices: list[Xyz] | None = None
    faces: list[Face] | None = None
    pose: PoseEntry = PoseEntry()
    actor: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> AddObject:
        if (self.vertices is None) != (self.faces is None):
            raise ValueError("give vertices and faces together")
        if sum(given is not None for given in (self.mesh, self.shape, self.vertices)) != 1:
            raise ValueError("give one of shape, mesh, vertices with faces")
        return self


class RemoveObject(Edit):
    """Object that a loop removed, by its index in the world."""

    op: Literal["remove"] = "remove"
    index: Annotated[int, Field(ge=0)]


VERBS: dict[str, type[Verb]] = {
    verb.model_fields["op"].default: verb
    for verb in (
        Play,
        Pause,
        StepVerb,
        Reset,
        Quit,
        Spawn,
        Delete,
        SetState,
        GetState,
        Entities,
        Bounds,
        SetWeather,
        SetDaylight,
        Attach,
        Detach,
        Mount,
        Latest,
        Sensors,
        CommandVerb,
        CastRays,
        Height,
        Clearance,
        Collisions,
        Status,
        Features,
    )
}
"""Verbs of clients, by name."""
LOGGED = VERBS | {"add": AddObject, "remove": RemoveObject}
"""Verbs of event logs."""


def verb_of(fields: Mapping[str, Any], source: str = "message", known: Mapping[str, type[Verb]] = VERBS) -> Verb:
    """Return the verb of a message; raise VerbError if it is unknown or its fields are not valid."""
    op = fields.get("op")
    if not isinstance(op, str) or op not in known:
        nearest = nearest_name(op, known) if isinstance(op, str) else None
        hint = f" (did you mean {nearest!r}?)" if nearest else ""
        raise VerbError("unknown_op", f"{source}: unknown op {str(op)[:60]!r}{hint}")
    try:
        return config.parse(known[op], dict(fields), f"{source}: {op}")
    except ParhelionError as error:
        raise VerbError("invalid", str(error)) from None
