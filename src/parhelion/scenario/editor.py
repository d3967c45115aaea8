"""Edits and queries of a running scenario: the effect of each verb, applied between two steps.

Entities are vehicles, spawned objects, and the actors and objects of the world. Spawned and moved entities are actors
with a `PlacedMotion`, so that a new pose needs no new ray scene.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.contact.driver import ContactDriver
from parhelion.core import config
from parhelion.core.errors import ConfigError, FormatError, ParhelionError, nearest_name
from parhelion.core.pose import Pose, quat_rotate
from parhelion.core.trajectory import Fixed
from parhelion.motion.pushed import PlacedMotion
from parhelion.motion.state import state_of
from parhelion.scenario import verbs
from parhelion.scenario.bodies import DrivenBody, LiveBody
from parhelion.scenario.drivers import ExternalDriver
from parhelion.scenario.scenario import Scenario, Step
from parhelion.scenario.verbs import Verb, VerbError
from parhelion.weather.daylight import Daylight
from parhelion.weather.weather import Weather
from parhelion.world.mesh import Mesh
from parhelion.world.parts import WorldObject
from parhelion.world.schema import ObjectFields

MOST_SPAWNED = 1000
"""Largest number of spawned entities."""
MOST_ATTACHED = 32
"""Largest number of attached sensors in one run."""
_CONTACTS = 1000
"""Number of contacts that are remembered."""
_SUN = ("sun_elevation_deg", "sun_azimuth_deg")
_PLACE = ("time", "latitude_deg", "longitude_deg")

FEATURES = (
    "SPAWNING", "DELETING", "ENTITY_BOUNDS", "ENTITY_BOUNDS_BOX", "ENTITY_CATEGORIES", "SPAWNING_RESOURCE_STRING",
    "ENTITY_STATE_GETTING", "ENTITY_STATE_SETTING", "ENTITY_INFO_GETTING", "SIMULATION_RESET",
    "SIMULATION_RESET_TIME", "SIMULATION_RESET_STATE", "SIMULATION_RESET_SPAWNED", "SIMULATION_STATE_GETTING",
    "SIMULATION_STATE_SETTING", "SIMULATION_STATE_PAUSE", "STEP_SIMULATION_SINGLE", "STEP_SIMULATION_MULTIPLE",
)  # fmt: skip
"""Supported features, by their names in simulation_interfaces."""


@dataclass(frozen=True)
class Entity:
    """A vehicle, or objects of the world that share an instance number."""

    name: str
    kind: str
    """'vehicle', 'spawned', 'actor' or 'object'."""
    items: tuple[WorldObject, ...] = ()

    @property
    def label(self) -> str:
        """Semantic class."""
        return self.items[0].label if self.items else "vehicle"


class Editor:
    """Applies verbs to a scenario; only the thread that runs the scenario may call it."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.latest: dict[str, tuple[int, float, Any]] = {}
        """Number, time [s] at the end of its step, and record of the latest measurement, by sensor."""
        self.collisions: deque[dict[str, Any]] = deque(maxlen=_CONTACTS)
        self._counts: dict[str, int] = {}
        self._spawned: dict[str, WorldObject] = {}
        self._placed: dict[int, PlacedMotion] = {}
        """Motions of spawned and moved entities, by index of the object."""
        self._moved: dict[int, WorldObject] = {}
        """Objects of the world as they were before they were moved or deleted, by index."""
        self._attached: list[str] = []
        self._numbers = 0
        self._first_weather, self._first_daylight = scenario.world.weather, scenario.world.daylight
        self._table: tuple[int, dict[str, Entity]] = (-1, {})

    # ---- steps ---------------------------------------------------------------------------------------------------

    def take(self, step: Step) -> Iterable[tuple[str, int, float, Any]]:
        """Remember the records of a step; return sensor, number, time [s] and record of each."""
        found: list[tuple[str, int, float, Any]] = []
        for name, frames in step.frames.items():
            found += [(name, number, step.time, record) for number, record in frames]
        for name, samples in step.new_samples().items():
            if len(samples):
                found.append((name, self._counts.setdefault(name, 0), step.time, samples))
                self._counts[name] += 1
        for name, number, time, record in found:
            self.latest[name] = (number, time, record)
        for one in step.collisions:
            self.collisions.append({"step": step.number, "time_s": step.time, **asdict(one)})
        return found

    def reset(self, keep: Iterable[str] = ()) -> None:
        """Undo the edits of a run, except those to `keep`: spawned, weather, sensors."""
        world, keep = self.scenario.world, set(keep)
        if "spawned" not in keep:
            for item in self._spawned.values():
                world.remove(item)
                self._placed.pop(item.index, None)
            self._spawned.clear()
            for item in self._moved.values():
                world.restore(item)
                self._placed.pop(item.index, None)
            self._moved.clear()
        for motion in self._placed.values():
            motion.restart()
        if "weather" not in keep:
            world.weather, world.daylight = self._first_weather, self._first_daylight
        if "sensors" not in keep:
            for name in self._attached:
                if any(one.name == name for one in self.scenario.sensors):
                    self.scenario.detach(name)
            self._attached.clear()
            kept = {one.name: one for one in (*self.scenario.sensors, *self.scenario.detached)}
            self.scenario.sensors[:] = [kept[entry.name] for entry in self.scenario.settings.sensors]
            for sensor in self.scenario.sensors:
                sensor.until_s = np.inf
                sensor.restart(first_mount=True)
        self.scenario.detached.clear()
        self.latest.clear()
        self.collisions.clear()
        self._counts.clear()

    # ---- verbs ---------------------------------------------------------------------------------------------------

    def apply(self, verb: Verb) -> dict[str, Any]:
        """Apply a verb and return its result; raise VerbError if it is refused, which changes nothing."""
        try:
            result: dict[str, Any] = getattr(self, f"_do_{verb.op}")(verb)  # type: ignore[attr-defined]
            return result
        except VerbError:
            raise
        except (ConfigError, FormatError) as error:
            raise VerbError("invalid", str(error)) from None
        except ParhelionError as error:
            raise VerbError("failed", str(error)) from None

    # ---- entities ------------------------------------------------------------------------------------------------

    def entities(self) -> dict[str, Entity]:
        """All entities by name. Objects that share an instance number are one entity; equal names get its number."""
        world = self.scenario.world
        if self._table[0] != world.version:
            groups: dict[int, list[WorldObject]] = {}
            own = {robot.instance for robot in self.scenario.robots.values()}
            for item in world.objects:
                vehicle = item.is_actor and item.name.split("/")[0] in self.scenario.bodies
                if not vehicle and item.instance not in own and "*" not in item.hidden_from:
                    groups.setdefault(item.instance, []).append(item)
            found = {name: Entity(name, "vehicle") for name in self.scenario.bodies}
            for instance, items in groups.items():
                first = items[0]
                spawned = self._spawned.get(first.name) is first
                kind = "spawned" if spawned else "actor" if first.is_actor else "object"
                name = first.name if first.name not in found else f"{first.name}-{instance}"
                found[name] = Entity(name, kind, tuple(items))
            self._table = world.version, found
        return self._table[1]

    def entity(self, name: str) -> Entity:
        """Return an entity by name."""
        found = self.entities()
        if name not in found:
            nearest = nearest_name(name, found)
            hint = f"; did you mean {nearest!r}?" if nearest else ""
            raise VerbError("not_found", f"no entity {name!r}{hint}")
        return found[name]

    def _do_spawn(self, verb: verbs.Spawn) -> dict[str, Any]:
        if len(self._spawned) >= MOST_SPAWNED:
            raise VerbError("failed", f"{MOST_SPAWNED} entities are spawned already; delete one first")
        name, taken = verb.name, self.entities()
        while name is None or (verb.allow_renaming and name in taken):
            self._numbers += 1
            name = f"{verb.name or 'entity'}-{self._numbers}"
            name = None if name in taken else name
        if name in taken:
            raise VerbError("name_taken", f"an entity is already called {name!r}; choose another name")
        motion = PlacedMotion(verb.pose.pose(), verb.velocity, verb.angular_velocity, self.scenario.now_s)
        item = self._add(verb, verb.vertices, verb.faces, name, trajectory=motion)
        try:
            self._check_free(name, item, verb.pose.pose())
        except VerbError:
            self.scenario.world.remove(item)
            raise
        self._spawned[name], self._placed[item.index] = item, motion
        self._forget_obstacles()
        return {"entity": name, "instance": item.instance}

    def _add(self, fields: ObjectFields, vertices: Any, faces: Any, name: str | None, **place: Any) -> WorldObject:
        """Add the object of a verb to the world."""
        mesh: Any = fields.shape
        if vertices is not None:
            mesh = Mesh(np.array(vertices, np.float64), np.array(faces, np.int64))
        elif fields.mesh is not None:
            mesh = self._file(fields.mesh)
        texture = None if fields.texture is None else self._file(fields.texture)
        add = self.scenario.world.add_actor if "trajectory" in place else self.scenario.world.add
        return add(
            mesh,
            material=fields.material,
            materials=fields.materials or None,
            label=fields.label,
            name=name,
            instance=fields.instance,
            hidden_from=fields.hidden_from,
            texture=texture,
            scale=fields.scale,
            up=fields.up,
            **place,
        )

    def _file(self, name: str) -> Path:
        """File below the scenario's folder: a client must not read others."""
        folder = self.scenario.folder.resolve()
        file = (folder / name).resolve()
        if not file.is_relative_to(folder):
            raise VerbError("invalid", f"{name}: is outside of the scenario's folder")
        if not file.is_file():
            raise VerbError("not_found", f"{name}: there is no such file in the scenario's folder")
        return file

    def _do_delete(self, verb: verbs.Delete) -> dict[str, Any]:
        entity = self.entity(verb.entity)
        if entity.kind == "vehicle":
            raise VerbError("unsupported", f"{entity.name}: is a vehicle of the scenario and cannot be deleted")
        if entity.kind == "spawned":
            item = self._spawned.pop(entity.name)
            self._placed.pop(item.index, None)
            self.scenario.world.remove(item)
        else:
            for item in entity.items:
                self._moved.setdefault(item.index, item)
                self.scenario.world.revise(item, hidden_from=("*",))
        return {}

    def _do_set_state(self, verb: verbs.SetState) -> dict[str, Any]:
        entity = self.entity(verb.entity)
        pose = verb.pose.pose() if verb.pose is not None else self._pose(entity)
        if entity.kind == "vehicle":
            body = self.scenario.body(entity.name)
            if not (isinstance(body, LiveBody) and isinstance(body.driver, ExternalDriver)):
                raise VerbError("unsupported", f"{entity.name}: is driven; command it, or set dynamics: external")
            self.scenario.move(entity.name, pose, verb.velocity, verb.angular_velocity)
            return {}
        if len(entity.items) != 1:
            raise VerbError("unsupported", f"{entity.name}: has several moving parts and cannot be placed")
        (item,) = entity.items
        self._check_free(entity.name, item, pose)
        if item.index not in self._placed:
            if item.is_actor and not isinstance(item.trajectory, Fixed):
                raise VerbError("unsupported", f"{entity.name}: moves along its own path and cannot be placed")
            motion = PlacedMotion(self._pose(entity))
            self._moved.setdefault(item.index, item)
            self.scenario.world.revise(item, trajectory=motion)
            self._placed[item.index] = motion
        still = (0.0, 0.0, 0.0)
        self._placed[item.index].place(
            self.scenario.now_s, pose, verb.velocity or still, verb.angular_velocity or still
        )
        self._forget_obstacles()
        return {}

    def _check_free(self, name: str, item: WorldObject, pose: Pose) -> None:
        """Refuse a place inside of a vehicle in contact with the world: it would be thrown away."""
        vertices = pose.apply(np.concatenate([part.mesh.vertices for part in item.parts]))
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        for vehicle, body in self.scenario.bodies.items():
            if isinstance(body, DrivenBody) and isinstance(body.driver, ContactDriver):
                size = np.array(body.vehicle.config.size_m)  # type: ignore[attr-defined]
                centre = body.motion.latest().xyz[0] + (0.0, 0.0, size[2] / 2.0)
                if np.linalg.norm(centre - np.clip(centre, low, high)) < np.linalg.norm(size) / 2.0:
                    raise VerbError("invalid", f"{name}: would overlap the vehicle {vehicle}; choose another place")

    def _forget_obstacles(self) -> None:
        """Let vehicles in contact look for actors again: one of them may have jumped."""
        for driver in self.scenario._drivers.values():
            if isinstance(driver, ContactDriver) and driver.obstacles is not None:
                driver.obstacles.forget()

    def _pose(self, entity: Entity) -> Pose:
        state = self._state(entity)
        return Pose(state.xyz[0], state.quat_xyzw[0])

    def _state(self, entity: Entity) -> Any:
        now = np.array([self.scenario.now_s])
        if entity.kind == "vehicle":
            return self.scenario.body(entity.name).state(now)
        item = entity.items[0]
        return state_of(Fixed(item.pose) if item.trajectory is None else item.trajectory, now)

    def _do_get_state(self, verb: verbs.GetState) -> dict[str, Any]:
        return self.state_of(self.entity(verb.entity))

    def state_of(self, entity: Entity) -> dict[str, Any]:
        """Pose, velocity and angular velocity of an entity in the world frame."""
        state = self._state(entity)
        spin = quat_rotate(state.quat_xyzw, state.angular_velocity)
        return {
            "time_s": self.scenario.now_s,
            "pose": {"xyz": state.xyz[0].tolist(), "quat_xyzw": state.quat_xyzw[0].tolist()},
            "velocity": state.velocity[0].tolist(),
            "angular_velocity": spin[0].tolist(),
        }

    def _do_entities(self, verb: verbs.Entities) -> dict[str, Any]:
        text = verb.filter
        pattern = text if set(text) & set("*?[") else f"*{text}*"
        return {
            "entities": [
                {"name": one.name, "kind": one.kind, "label": one.label}
                for one in self.entities().values()
                if fnmatchcase(one.name, pattern) and (not verb.kinds or one.kind in verb.kinds)
            ]
        }

    def _do_bounds(self, verb: verbs.Bounds) -> dict[str, Any]:
        if verb.entity is None:
            corners = self.scenario.world.bounds
        else:
            items = self.items_of(self.entity(verb.entity))
            boxes = [item.bounds(self.scenario.now_s) for item in items]
            corners = None
            if boxes:
                corners = np.min([box[0] for box in boxes], axis=0), np.max([box[1] for box in boxes], axis=0)
        if corners is None:
            return {"lower": None, "upper": None}
        return {"lower": corners[0].tolist(), "upper": corners[1].tolist()}

    def items_of(self, entity: Entity) -> list[WorldObject]:
        """Objects of an entity; for a vehicle, its visible body."""
        if entity.kind != "vehicle":
            return list(entity.items)
        robot = self.scenario.robots.get(entity.name)
        own = None if robot is None else robot.instance
        return [
            item
            for item in self.scenario.world.objects
            if item.is_actor and (item.name.split("/")[0] == entity.name or item.instance == own)
        ]

    # ---- weather and light ---------------------------------------------------------------------------------------

    def _do_weather(self, verb: verbs.SetWeather) -> dict[str, Any]:
        world = self.scenario.world
        if verb.clear or world.weather is None:
            world.weather = Weather.from_mapping(verb.changes)
        else:
            world.weather = world.weather.replace(**verb.changes)
        return {"weather": world.weather.to_mapping()}

    def _do_daylight(self, verb: verbs.SetDaylight) -> dict[str, Any]:
        world = self.scenario.world
        before = {} if world.daylight is None else world.daylight.model_dump(exclude_unset=True)
        for given, other in ((_SUN, _PLACE), (_PLACE, _SUN)):
            if any(name in verb.changes for name in given):
                before = {name: value for name, value in before.items() if name not in other}
        world.daylight = config.parse(Daylight, {**before, **verb.changes}, "daylight")
        return {"daylight": world.daylight.model_dump(mode="json", exclude_unset=True)}

    # ---- sensors and vehicles ------------------------------------------------------------------------------------

    def _do_attach(self, verb: verbs.Attach) -> dict[str, Any]:
        if len(self._attached) >= MOST_ATTACHED:
            raise VerbError("failed", f"{MOST_ATTACHED} sensors were attached in this run already")
        if verb.sensor.model.lower().endswith((".yaml", ".yml")):
            self._file(verb.sensor.model)
        for name, value in verb.sensor.options.items():
            place = Path(value) if isinstance(value, str) else Path()
            if place.is_absolute() or ".." in place.parts:
                raise VerbError("invalid", f"attach: {name}: {value} is outside of the scenario's folder")
        made = self.scenario.attach(verb.sensor)
        self._attached.append(made.name)
        return {"sensor": made.name}

    def _do_detach(self, verb: verbs.Detach) -> dict[str, Any]:
        self._sensor(verb.sensor)
        self.scenario.detach(verb.sensor)
        self.latest.pop(verb.sensor, None)
        return {}

    def _do_mount(self, verb: verbs.Mount) -> dict[str, Any]:
        self._sensor(verb.sensor)
        self.scenario.mount(verb.sensor, verb.pose.pose())
        return {}

    def _sensor(self, name: str) -> None:
        known = [one.name for one in self.scenario.sensors]
        if name not in known:
            raise VerbError("not_found", f"no sensor {name!r}; sensors: {', '.join(known)}")

    def _do_latest(self, verb: verbs.Latest) -> dict[str, Any]:
        self._sensor(verb.sensor)
        if verb.sensor not in self.latest:
            raise VerbError("not_found", f"{verb.sensor}: has no measurement yet; play or step first")
        number, time, record = self.latest[verb.sensor]
        return {"sensor": verb.sensor, "frame": number, "time_s": time, "record": record}

    def _do_sensors(self, verb: verbs.Sensors) -> dict[str, Any]:
        return {
            "sensors": [
                {
                    "name": one.name,
                    "type": one.entry.type,
                    "model": one.entry.model,
                    "vehicle": one.entry.vehicle,
                    "rate_hz": float(one.sensor.rate_hz),
                }
                for one in self.scenario.sensors
            ]
        }

    def _no_vehicle(self, name: str) -> VerbError:
        return VerbError("not_found", f"no vehicle {name!r}; vehicles: {', '.join(self.scenario.bodies) or 'none'}")

    def _do_command(self, verb: verbs.CommandVerb) -> dict[str, Any]:
        if verb.vehicle not in self.scenario.bodies:
            raise self._no_vehicle(verb.vehicle)
        body = self.scenario.body(verb.vehicle)
        kind = verbs.COMMANDS[verb.kind]
        accepted = getattr(getattr(body, "vehicle", None), "accepts", None)
        if accepted is None and not hasattr(body, "follower"):
            raise VerbError("unsupported", f"{verb.vehicle}: has a given motion and accepts no commands")
        if accepted is not None and kind not in accepted:
            words = ", ".join(name for name, one in verbs.COMMANDS.items() if one in accepted)
            raise VerbError("unsupported", f"{verb.vehicle}: accepts {words}, got {verb.kind}")
        try:
            command = kind(**verb.values)
        except TypeError:
            names = ", ".join(kind.__dataclass_fields__) or "none"
            raise VerbError("invalid", f"command: fields of {verb.kind}: {names}") from None
        self.scenario.command(verb.vehicle, command)
        return {}

    # ---- queries -------------------------------------------------------------------------------------------------

    def _do_rays(self, verb: verbs.CastRays) -> dict[str, Any]:
        if len(verb.origins) not in (1, len(verb.directions)):
            raise VerbError("invalid", "rays: give one origin, or as many as directions")
        world = self.scenario.world
        hits = world.cast(np.array(verb.origins), np.array(verb.directions), self.scenario.now_s, verb.max_range_m)
        parts, names = world.parts, world.label_names
        by_instance = {item.instance: one.name for one in self.entities().values() for item in self.items_of(one)}
        rows = hits.part.tolist()
        return {
            "range_m": [_finite(value) for value in hits.range.tolist()],
            "label": [None if row < 0 else names.get(int(parts.label[row])) for row in rows],
            "entity": [None if row < 0 else by_instance.get(int(parts.instance[row])) for row in rows],
        }

    def _do_height(self, verb: verbs.Height) -> dict[str, Any]:
        x, y = np.array(verb.xy).T
        return {"height_m": [_finite(value) for value in np.atleast_1d(self.scenario.world.height(x, y)).tolist()]}

    def _do_clearance(self, verb: verbs.Clearance) -> dict[str, Any]:
        if verb.vehicle not in self.scenario.bodies:
            raise self._no_vehicle(verb.vehicle)
        return {"clearance_m": _finite(self.scenario.clearance(verb.vehicle))}

    def _do_collisions(self, verb: verbs.Collisions) -> dict[str, Any]:
        return {"collisions": [one for one in self.collisions if one["step"] >= verb.since_step]}

    def _do_features(self, verb: verbs.Features) -> dict[str, Any]:
        return {"features": list(FEATURES), "spawn_formats": list(SPAWN_FORMATS)}

    # ---- edits of a Python loop ----------------------------------------------------------------------------------

    def _do_add(self, verb: verbs.AddObject) -> dict[str, Any]:
        place: Mapping[str, Any] = {"trajectory" if verb.actor else "pose": verb.pose.pose()}
        return {"index": self._add(verb, verb.vertices, verb.faces, verb.name, **place).index}

    def _do_remove(self, verb: verbs.RemoveObject) -> dict[str, Any]:
        found = next((item for item in self.scenario.world.objects if item.index == verb.index), None)
        if found is None:
            raise VerbError("not_found", f"no object with the index {verb.index}")
        self.scenario.world.remove(found)
        return {}


SPAWN_FORMATS = ("obj", "ply", "stl", "glb", "gltf")
"""File formats of spawned meshes."""


def _finite(value: float) -> float | None:
    """Number for JSON, which has neither infinity nor NaN."""
    return value if math.isfinite(value) else None
