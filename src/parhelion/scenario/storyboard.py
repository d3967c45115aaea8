"""Player of OpenSCENARIO storyboards: entities follow lanes, and events start actions, in steps of 0.05 s.

It is played before the scenario starts, so the motions are known. Conditions do not see the scenario's own vehicles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, quat_from_rpy
from parhelion.motion.recorded import RecordedMotion
from parhelion.motion.staged import StagedMotion
from parhelion.scenario.lane_map import LaneMap
from parhelion.scenario.openscenario import Document, EntitySheet, read_openscenario
from parhelion.scenario.storyboard_entities import (
    STEP_S,
    Entity,
    FollowPath,
    KeepDistance,
    LateralAction,
    Place,
    SpeedAction,
    SpeedProfile,
)
from parhelion.world.sources import Tally
from parhelion.world.world import World
from parhelion.world.xml import Node

_RULES: dict[str, Callable[[float, float], bool]] = {
    "greaterThan": lambda a, b: a > b,
    "lessThan": lambda a, b: a < b,
    "equalTo": lambda a, b: abs(a - b) < 1e-6,
    "greaterOrEqual": lambda a, b: a >= b,
    "lessOrEqual": lambda a, b: a <= b,
    "notEqualTo": lambda a, b: abs(a - b) >= 1e-6,
}
_GROUPS = ("LongitudinalAction", "LateralAction", "RoutingAction", "ControllerAction", "AppearanceAction")  # of actions


@dataclass(frozen=True)
class Played:
    """Motions of the entities of a storyboard."""

    motions: dict[str, RecordedMotion | StagedMotion]
    """Motions of the entities that were in the world; frames are those of the file."""
    sheets: dict[str, EntitySheet]
    events: list[tuple[float, str]]
    """Times [s] and names of the events that started."""
    omitted: Tally


def play(file: Path, world: World, duration_s: float, parameters: Mapping[str, Any] | None = None) -> Played:
    """Play the storyboard of a file on the lanes of a world for a duration [s]."""
    document = read_openscenario(file, parameters)
    lanes = None if world.lanes is None or world.lanes.network is None else LaneMap(world.lanes)
    return _Player(document, lanes).run(duration_s)


# ---- elements of a storyboard ----------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Condition:
    """A condition with its edge and its delay."""

    node: Node
    edge: str
    delay: int
    """Steps by which it takes effect later."""
    before: bool | None = None
    past: list[bool] = field(default_factory=list)

    def result(self, value: bool) -> bool:
        """Result of the condition in this step, from its value."""
        before, self.before = self.before, value
        # There is no edge at the first evaluation.
        rises, falls = value and before is False, before is True and not value
        found = {"rising": rises, "falling": falls, "risingOrFalling": rises or falls}.get(self.edge, value)
        self.past.append(bool(found))
        return self.past[-1 - self.delay] if len(self.past) > self.delay else False


class _Trigger:
    """Groups of conditions: true if all conditions of one group are."""

    def __init__(self, node: Node | None) -> None:
        self.node = node
        groups = [] if node is None else node.children("ConditionGroup")
        self.groups = [
            [
                _Condition(one, one.element.get("conditionEdge", "none"), round(one.number("delay", 0.0) / STEP_S))
                for one in group.children("Condition")
            ]
            for group in groups
        ]

    def fires(self, player: _Player) -> bool:
        """Evaluate all conditions, so that edges and delays are right."""
        if self.node is None:
            return True
        rows = [[one.result(player.value(one.node)) for one in group] for group in self.groups]
        return any(all(row) for row in rows if row)


@dataclass(eq=False)
class _Element:
    """Act, maneuver group, maneuver, event or action with its state."""

    kind: str
    name: str
    node: Node
    parts: list[_Element] = field(default_factory=list)
    start: _Trigger | None = None
    stop: _Trigger | None = None
    state: str = "standby"
    changed: tuple[str, int] = ("", -9)
    """Last transition (startTransition, endTransition, stopTransition or skipTransition) and its step."""
    runs: int = 0
    actors: list[str] = field(default_factory=list)
    doing: list[tuple[Entity, str, Any]] = field(default_factory=list)
    """Entities, and the actions of a running event by their slot."""

    def to(self, state: str, transition: str, step: int) -> None:
        """Change the state."""
        self.state, self.changed = state, (transition, step)

    def halt(self, step: int) -> None:
        """Stop this element and all its parts."""
        if self.state != "complete":
            for entity, slot, action in self.doing:
                if getattr(entity, slot) is action:
                    setattr(entity, slot, None)
            self.doing = []
            self.to("complete", "stopTransition", step)
        for part in self.parts:
            part.halt(step)


def _elements(storyboard: Node) -> list[_Element]:
    stories = []
    for story in storyboard.children("Story"):
        acts = []
        for act in story.children("Act"):
            groups = []
            for group in act.children("ManeuverGroup"):
                found = [_maneuver(one) for one in group.children("Maneuver")]
                actors = group.child("Actors")
                names = [] if actors is None else [one.attribute("entityRef") for one in actors.children("EntityRef")]
                groups.append(_Element("maneuverGroup", group.element.get("name", ""), group, found, actors=names))
            stop = act.child("StopTrigger")
            acts.append(
                _Element(
                    "act", act.element.get("name", ""), act, groups, _Trigger(act.child("StartTrigger")),
                    None if stop is None else _Trigger(stop),
                )
            )  # fmt: skip
        stories.append(_Element("story", story.element.get("name", ""), story, acts, state="running"))
    return stories


def _maneuver(node: Node) -> _Element:
    events = []
    for event in node.children("Event"):
        actions = [_Element("action", one.element.get("name", ""), one) for one in event.children("Action")]
        trigger = _Trigger(event.child("StartTrigger"))
        events.append(_Element("event", event.element.get("name", ""), event, actions, trigger))
    return _Element("maneuver", node.element.get("name", ""), node, events)


# ---- player ----------------------------------------------------------------------------------------------------------


class _Player:
    """Entities and elements of one storyboard while it is played."""

    def __init__(self, document: Document, lanes: LaneMap | None) -> None:
        self.document, self.lanes, self.time, self.number = document, lanes, 0.0, 0
        self.entities = {name: Entity(sheet, lanes) for name, sheet in document.entities.items()}
        self.stories = _elements(document.storyboard)
        stop = document.storyboard.child("StopTrigger")
        self.stop = None if stop is None or not stop.children() else _Trigger(stop)
        self.tally = Tally()
        self.log: list[tuple[float, str]] = []
        self._counted: set[int] = set()

    def run(self, duration_s: float) -> Played:
        """Play the storyboard."""
        init = self.document.storyboard.child("Init")
        for actions in [] if init is None else init.children("Actions"):
            for private in actions.children("Private"):
                entity = self.entity(private, private.attribute("entityRef"))
                # The place comes first: lanes are needed by the other actions.
                rows = sorted(private.children("PrivateAction"), key=lambda one: one.child("TeleportAction") is None)
                for row in rows:
                    self._begin(row, [entity], None)
            for one in actions.children("GlobalAction"):
                self._global(one)
        stopped = False
        for self.number in range(math.ceil(duration_s / STEP_S) + 1):
            self.time = self.number * STEP_S
            if self.number:
                for entity in self.entities.values():
                    entity.step(self.time)
            stopped = stopped or (self.stop is not None and self.stop.fires(self))
            if not stopped:
                self._elements()
            for entity in self.entities.values():
                entity.record(self.time)
        motions = {name: _motion(entity) for name, entity in self.entities.items() if entity.parts}
        for name in self.entities.keys() - motions.keys():
            self.tally.omit("entity", f"{name} is never placed")
        return Played(motions, dict(self.document.entities), self.log, self.tally)

    # ---- events ----------------------------------------------------------------------------------------------------

    def _elements(self) -> None:
        for act in (act for story in self.stories for act in story.parts):
            if act.state == "standby" and act.start is not None and act.start.fires(self):
                for one in (act, *act.parts, *(maneuver for group in act.parts for maneuver in group.parts)):
                    one.to("running", "startTransition", self.number)
            elif act.state == "running" and act.stop is not None and act.stop.fires(self):
                act.halt(self.number)
        running = [
            (group, maneuver)
            for story in self.stories
            for act in story.parts
            for group in act.parts
            for maneuver in group.parts
            if maneuver.state == "running"
        ]
        fired = [
            (group, maneuver, event)
            for group, maneuver in running
            for event in maneuver.parts
            if event.state == "standby" and event.start is not None and event.start.fires(self)
        ]
        for _, maneuver in running:
            for event in maneuver.parts:
                if event.state == "running":
                    self._continue(event)
        for group, maneuver, event in fired:
            self._start(group, maneuver, event)
        for story in self.stories:
            self._complete(story)

    def _complete(self, element: _Element) -> None:
        """Complete elements whose parts are complete."""
        for part in element.parts:
            self._complete(part)
        outer = element.kind in ("story", "act", "maneuverGroup", "maneuver")
        if outer and element.state == "running" and all(part.state == "complete" for part in element.parts):
            element.to("complete", "endTransition", self.number)

    def _start(self, group: _Element, maneuver: _Element, event: _Element) -> None:
        priority = event.node.element.get("priority", "override")
        others = [one for one in maneuver.parts if one is not event and one.state == "running"]
        if priority == "skip" and others:
            event.changed = "skipTransition", self.number
            return
        if priority in ("override", "overwrite"):
            for one in others:
                one.halt(self.number)
        event.to("running", "startTransition", self.number)
        event.runs += 1
        self.log.append((self.time, event.name))
        actors = [self.entity(group.node, name) for name in group.actors]
        for action in event.parts:
            action.to("running", "startTransition", self.number)
            for child in action.node.children():
                if child.tag == "PrivateAction":
                    self._begin(child, actors, event)
                elif child.tag == "GlobalAction":
                    self._global(child)
                else:
                    self._count(child, f"<{child.tag}>")

    def _continue(self, event: _Element) -> None:
        """End an event whose actions have ended."""
        event.doing = [row for row in event.doing if getattr(row[0], row[1]) is row[2]]
        if not event.doing:
            for action in event.parts:
                action.to("complete", "endTransition", self.number)
            again = event.runs < event.node.number("maximumExecutionCount", 1.0)
            event.to("standby" if again else "complete", "endTransition", self.number)

    # ---- actions ---------------------------------------------------------------------------------------------------

    def _begin(self, private: Node, entities: list[Entity], event: _Element | None) -> None:
        """Start a private action of entities."""
        for group in private.children():
            for node in group.children() if group.tag in _GROUPS else [group]:
                for entity in entities:
                    for slot, action in self._action(node, entity):
                        setattr(entity, slot, action)
                        if event is None and slot == "longitudinal" and action.step(entity):
                            entity.longitudinal = None  # speeds of the start hold at once
                        elif event is not None:
                            event.doing.append((entity, slot, action))

    def _action(self, node: Node, entity: Entity) -> list[tuple[str, Any]]:
        """Slots and actions of a node; those without a duration are done at once."""
        if node.tag == "TeleportAction":
            entity.put(self.place(node.needed("Position"), entity))
            return []
        if entity.place is None:
            raise node.fail(f"{entity.sheet.name} has no place yet; teleport it first")
        if node.tag == "SpeedAction":
            return [("longitudinal", self._speed(node, entity))]
        if node.tag == "SpeedProfileAction":
            rows = node.children("SpeedProfileEntry")
            times = np.cumsum([0.0, *(one.number("time", 0.0) for one in rows)])
            speeds = np.array([entity.speed, *(one.number("speed") for one in rows)])
            return [("longitudinal", SpeedProfile(times, speeds))]
        if node.tag == "LongitudinalDistanceAction":
            other = self.entity(node, node.attribute("entityRef"))
            free = node.element.get("freespace") == "true"
            return [("longitudinal", KeepDistance(node, other, lambda: self._ahead(entity, other, free)))]
        if node.tag == "LaneChangeAction":
            return [("lateral", self._lane_change(node, entity))]
        if node.tag == "LaneOffsetAction":
            return [("lateral", self._lane_offset(node, entity))]
        if node.tag == "FollowTrajectoryAction":
            path = self._path(node, entity)
            return [] if path is None else [("path", path)]
        if node.tag in ("AssignRouteAction", "AcquirePositionAction"):
            self._route(node, entity)
            return []
        self._count(node, f"<{node.tag}>")
        return []

    def _speed(self, node: Node, entity: Entity) -> SpeedAction:
        target = node.needed("SpeedActionTarget")
        fixed = target.child("AbsoluteTargetSpeed")
        if fixed is not None:
            value = fixed.number("value")
            return SpeedAction(node, entity, lambda: value)
        relative = target.needed("RelativeTargetSpeed")
        other, value = self.entity(relative, relative.attribute("entityRef")), relative.number("value")
        by_factor = relative.element.get("speedTargetValueType") == "factor"
        follows = relative.element.get("continuous") == "true"
        start = other.speed

        def wanted() -> float:
            speed = other.speed if follows else start
            return speed * value if by_factor else speed + value

        return SpeedAction(node, entity, wanted, follows)

    def _on_lane(self, node: Node, entity: Entity) -> tuple[LaneMap, Place, int, float]:
        if self.lanes is None or entity.place is None or entity.place.lane is None:
            raise node.fail(f"{entity.sheet.name} is not on a lane for vehicles")
        return self.lanes, entity.place, *entity.place.lane

    def _lane_change(self, node: Node, entity: Entity) -> LateralAction:
        lanes, place, row, distance = self._on_lane(node, entity)
        target = node.needed("LaneChangeTarget")
        fixed = target.child("AbsoluteTargetLane")
        if fixed is not None:
            number = int(fixed.number("value"))
        else:
            relative = target.needed("RelativeTargetLane")
            other = self.entity(relative, relative.attribute("entityRef"))
            _, there, its_row, _ = self._on_lane(node, other)
            number = lanes.number_beside(its_row, there.way * int(relative.number("value")))
        found = lanes.lateral(row, number, distance)
        if found is None:
            road, _, lane = lanes.graph.lanes[row].key
            raise node.fail(f"there is no lane {number} for vehicles beside lane {lane} of road {road!r}")
        way = place.way if lanes.forward(row) == lanes.forward(found[0]) else -place.way
        centre, ahead = lanes.point(*found, 0.0)
        left = way * float(ahead[0] * (place.xyz[1] - centre[1]) - ahead[1] * (place.xyz[0] - centre[0]))
        entity.place = Place(place.xyz, place.heading, found, left / math.hypot(ahead[0], ahead[1]), way)
        entity.route = []
        wanted = node.number("targetLaneOffset", 0.0) * (way if lanes.forward(found[0]) else -way)
        return LateralAction.by(node.needed("LaneChangeActionDynamics"), entity, wanted)

    def _lane_offset(self, node: Node, entity: Entity) -> LateralAction:
        lanes, place, row, _ = self._on_lane(node, entity)
        target = node.needed("LaneOffsetTarget")
        fixed, base = target.child("AbsoluteTargetLaneOffset"), 0.0
        if fixed is None:
            fixed = target.needed("RelativeTargetLaneOffset")
            other = self.entity(fixed, fixed.attribute("entityRef")).place
            base = 0.0 if other is None else other.left_m
        wanted = base + fixed.number("value") * (place.way if lanes.forward(row) else -place.way)
        return LateralAction.within(node.needed("LaneOffsetActionDynamics"), entity, wanted)

    def _path(self, node: Node, entity: Entity) -> FollowPath | None:
        holder = node.child("TrajectoryRef") or node
        trajectory = holder.needed("Trajectory")
        line = trajectory.needed("Shape").child("Polyline")
        if line is None:
            self._count(node, "<FollowTrajectoryAction> with a clothoid or NURBS")
            return None
        rows = line.children("Vertex")
        if len(rows) < 2:
            raise line.fail("needs at least two <Vertex>")
        points = np.array([self.place(row.needed("Position"), entity).xyz for row in rows])
        timing = node.child("TimeReference")
        timing = None if timing is None else timing.child("Timing")
        times = None
        if timing is not None:
            times = np.array([row.number("time") for row in rows]) * timing.number("scale", 1.0) + timing.number(
                "offset", 0.0
            )
            if np.any(np.diff(times) <= 0):
                raise line.fail("the times of its vertices must increase")
            times = times + (self.time if timing.element.get("domainAbsoluteRelative") == "relative" else 0.0)
        return FollowPath(points, times, self.lanes)

    def _route(self, node: Node, entity: Entity) -> None:
        lanes, _, row, distance = self._on_lane(node, entity)
        single = node.child("Position")
        places = [single] if single is not None else []
        for route in node.children("Route"):
            places += [one.needed("Position") for one in route.children("Waypoint")]
        rows = [row]
        for position in places:
            found = self.place(position, entity).lane
            if found is None:
                raise position.fail("is not on a lane for vehicles")
            if found[0] == rows[-1] and (len(rows) > 1 or found[1] >= distance - 1.0):
                continue
            rows += lanes.graph.route(rows[-1], found[0])[1:]
        entity.route = rows[1:]

    def _global(self, node: Node) -> None:
        for child in node.children():
            if child.tag != "EntityAction":
                self._count(child, f"<{child.tag}>")
                continue
            entity = self.entity(child, child.attribute("entityRef"))
            add = child.child("AddEntityAction")
            entity.put(None if add is None else self.place(add.needed("Position"), entity))

    def _count(self, node: Node, what: str) -> None:
        """Count an element that has no effect, once."""
        if id(node.element) not in self._counted:
            self._counted.add(id(node.element))
            known = node.tag == "EnvironmentAction"
            self.tally.omit(what, "set weather and daylight of the scenario" if known else "not supported")

    # ---- places ----------------------------------------------------------------------------------------------------

    def entity(self, node: Node, name: str) -> Entity:
        """Return an entity by name."""
        if name not in self.entities:
            raise node.fail(f"has no entity {name!r}; the entities are {', '.join(list(self.entities)[:12])}")
        return self.entities[name]

    def place(self, position: Node, entity: Entity) -> Place:
        """Place of a position."""
        for node in position.children():
            kind = node.tag
            if kind == "WorldPosition":
                xyz = np.array([node.number("x"), node.number("y"), node.number("z", 0.0)])
                return self._near(xyz, node.number("h", 0.0))
            if kind in ("LanePosition", "RoadPosition"):
                return self._on_road(node)
            if kind in ("RelativeLanePosition", "RelativeObjectPosition", "RelativeWorldPosition"):
                other = self.entity(node, node.attribute("entityRef"))
                if other.place is None:
                    raise node.fail(f"{other.sheet.name} has no place yet; list it first in <Init>")
                return (
                    self._beside(node, other) if kind == "RelativeLanePosition" else self._relative(node, other.place)
                )
        tags = ", ".join(f"<{one.tag}>" for one in position.children()) or "nothing"
        raise position.fail(
            f"expected a WorldPosition, LanePosition, RoadPosition, or a position relative to an entity, got {tags}"
        )

    def _near(self, xyz: Floats, heading: float) -> Place:
        found = None if self.lanes is None else self.lanes.nearest(xyz, heading)
        return Place(xyz, heading) if found is None else Place(xyz, heading, found[:2], found[2])

    def _on_road(self, node: Node) -> Place:
        if self.lanes is None:
            raise node.fail("the world has no lanes; set world to the OpenDRIVE file of the scenario")
        lanes, road, s = self.lanes, node.attribute("roadId"), node.number("s")
        turned = node.child("Orientation")
        relative = turned is not None and turned.element.get("type", "absolute") == "relative"
        h = 0.0 if turned is None else turned.number("h", 0.0)
        try:
            if node.tag == "RoadPosition":
                xyz, along = lanes.beside_road(road, s, node.number("t"))
                return self._near(xyz, along + h if relative or turned is None else h)
            lane = int(node.number("laneId"))
            found = lanes.on_lane(road, lane, s)
            if found is None:
                xyz, along = lanes.beside_road(road, s, None, lane)
                return Place(xyz, along + h if relative or turned is None else h)
        except ConfigError as error:
            raise node.fail(str(error)) from None
        row, _ = found
        sense = 1 if lanes.forward(row) else -1
        _, ahead = lanes.point(*found, 0.0)
        travel = math.atan2(ahead[1], ahead[0])
        # A relative orientation refers to the road; without one, entities face in the direction of travel.
        heading = travel if turned is None else h + (travel + (0.0 if sense > 0 else math.pi)) * relative
        way = 1 if math.cos(heading - travel) >= 0 else -1
        left = node.number("offset", 0.0) * sense * way
        xyz, _ = lanes.point(*found, way * left)
        return Place(xyz, travel if way > 0 else travel + math.pi, found, left, way)

    def _beside(self, node: Node, other: Entity) -> Place:
        lanes, place, row, distance = self._on_lane(node, other)
        moved = int(node.number("dLane"))
        if moved:
            number = lanes.number_beside(row, place.way * moved)
            found = lanes.lateral(row, number, distance)
            if found is None:
                raise node.fail(f"there is no lane {number} for vehicles beside {other.sheet.name}")
            way = place.way if lanes.forward(row) == lanes.forward(found[0]) else -place.way
        else:
            found, way = (row, distance), place.way
        ds = node.number("ds", node.number("dsLane", 0.0))
        probe = Entity(other.sheet, lanes, Place(place.xyz, place.heading, found, 0.0, way))
        probe.route = list(other.route) if not moved else []
        # The probe drives the distance in one step, through the lanes that follow.
        probe.speed = ds / STEP_S
        probe._along_lane()
        assert probe.place is not None
        assert probe.place.lane is not None
        left = node.number("offset", 0.0) * (way if lanes.forward(probe.place.lane[0]) else -way)
        xyz, ahead = lanes.point(*probe.place.lane, way * left)
        return Place(xyz, math.atan2(way * ahead[1], way * ahead[0]), probe.place.lane, left, way)

    def _relative(self, node: Node, other: Place) -> Place:
        moved = np.array([node.number("dx", 0.0), node.number("dy", 0.0), node.number("dz", 0.0)])
        if node.tag == "RelativeObjectPosition":
            c, s = math.cos(other.heading), math.sin(other.heading)
            moved = np.array([c * moved[0] - s * moved[1], s * moved[0] + c * moved[1], moved[2]])
        turned = node.child("Orientation")
        heading = other.heading
        if turned is not None:
            absolute = turned.element.get("type", "absolute") == "absolute"
            heading = turned.number("h", 0.0) + (0.0 if absolute else other.heading)
        return self._near(other.xyz + moved, heading)

    # ---- conditions ------------------------------------------------------------------------------------------------

    def value(self, node: Node) -> bool:
        """Value of a condition now."""
        by_value, by_entity = node.child("ByValueCondition"), node.child("ByEntityCondition")
        if by_value is not None:
            return any(self._by_value(one) for one in by_value.children())
        if by_entity is None:
            raise node.fail("needs a <ByValueCondition> or a <ByEntityCondition>")
        who = by_entity.needed("TriggeringEntities")
        entities = [self.entity(one, one.attribute("entityRef")) for one in who.children("EntityRef")]
        found = [
            entity.place is not None and self._by_entity(one, entity)
            for entity in entities
            for one in by_entity.needed("EntityCondition").children()
        ]
        return bool(found) and (all(found) if who.element.get("triggeringEntitiesRule") == "all" else any(found))

    def _compared(self, node: Node, value: float, name: str = "value") -> bool:
        rule = node.element.get("rule", "greaterThan")
        if rule not in _RULES:
            raise node.fail(f"rule must be one of {', '.join(_RULES)}, got {rule!r}")
        return _RULES[rule](value, node.number(name))

    def _by_value(self, node: Node) -> bool:
        if node.tag == "SimulationTimeCondition":
            return self._compared(node, round(self.time, 6))
        if node.tag == "StoryboardElementStateCondition":
            kind, name, state = (
                node.attribute(one) for one in ("storyboardElementType", "storyboardElementRef", "state")
            )
            found = [one for one in _all(self.stories) if one.kind == kind and one.name == name.rpartition("::")[2]]
            if not found:
                raise node.fail(f"has no {kind} {name!r}")
            # A transition is visible in its own step and in the next one.
            recent = {one.changed[0] for one in found if one.changed[1] >= self.number - 1}
            return state in recent or any(state == f"{one.state}State" for one in found)
        self._count(node, f"<{node.tag}>, which is never true")
        return False

    def _by_entity(self, node: Node, entity: Entity) -> bool:
        kind = node.tag
        assert entity.place is not None
        if kind == "SpeedCondition":
            return self._compared(node, entity.speed)
        if kind == "AccelerationCondition":
            return self._compared(node, entity.acceleration)
        if kind == "TraveledDistanceCondition":
            return entity.travelled >= node.number("value")
        if kind == "StandStillCondition":
            return entity.still_s >= node.number("duration") - 1e-9
        if kind == "EndOfRoadCondition":
            return entity.at_end and entity.still_s >= node.number("duration") - 1e-9
        if kind == "OffroadCondition":
            return entity.place.lane is None
        if kind in ("ReachPositionCondition", "DistanceCondition"):
            gap = self.place(node.needed("Position"), entity).xyz[:2] - entity.place.xyz[:2]
            away = float(np.hypot(*gap))
            return away <= node.number("tolerance") if kind == "ReachPositionCondition" else self._compared(node, away)
        if kind == "TimeToCollisionCondition":
            target = node.needed("TimeToCollisionConditionTarget").needed("EntityRef")
            return self._timed(node, entity, self.entity(node, target.attribute("entityRef")), closing=True)
        if kind in ("RelativeSpeedCondition", "TimeHeadwayCondition", "RelativeDistanceCondition"):
            other = self.entity(node, node.attribute("entityRef"))
            if other.place is None:
                return False
            if kind == "RelativeSpeedCondition":
                return self._compared(node, entity.speed - other.speed)
            if kind == "TimeHeadwayCondition":
                return self._timed(node, entity, other, closing=False)
            return self._compared(node, self._distance(node, entity, other))
        if kind == "CollisionCondition":
            single = node.child("EntityRef")
            others = [self.entity(node, single.attribute("entityRef"))] if single else list(self.entities.values())
            return any(one is not entity and one.place is not None and _overlap(entity, one) for one in others)
        self._count(node, f"<{kind}>, which is never true")
        return False

    def _timed(self, node: Node, entity: Entity, other: Entity, *, closing: bool) -> bool:
        if other.place is None:
            return False
        speed = entity.speed - other.speed if closing else entity.speed
        away = self._ahead(entity, other, node.element.get("freespace") == "true")
        return self._compared(node, away / speed if speed > 1e-6 else math.inf)

    def _distance(self, node: Node, entity: Entity, other: Entity) -> float:
        assert entity.place is not None
        assert other.place is not None
        free, kind = node.element.get("freespace") == "true", node.element.get("relativeDistanceType", "")
        if kind == "longitudinal":
            return abs(self._ahead(entity, other, free))
        if kind == "lateral":
            gap = other.place.xyz[:2] - entity.place.xyz[:2]
            left = abs(math.cos(entity.place.heading) * gap[1] - math.sin(entity.place.heading) * gap[0])
            return max(left - free * 0.5 * (entity.sheet.size_m[1] + other.sheet.size_m[1]), 0.0)
        if free:
            a, b = entity.corners(), other.corners()
            return float(
                min(np.linalg.norm(a[:, None] - b[None], axis=2).min(), _edge_distance(a, b), _edge_distance(b, a))
            )
        return float(np.linalg.norm(other.place.xyz - entity.place.xyz))

    def _ahead(self, entity: Entity, other: Entity, free: bool) -> float:
        """Distance [m] along lanes, otherwise along the heading, from an entity to another one ahead."""
        assert entity.place is not None
        assert other.place is not None
        found = None
        if self.lanes is not None and entity.place.lane and other.place.lane and entity.place.way > 0:
            found = self.lanes.gap(*entity.place.lane, *other.place.lane, entity.route)
        if found is None:
            gap = other.place.xyz[:2] - entity.place.xyz[:2]
            found = float(math.cos(entity.place.heading) * gap[0] + math.sin(entity.place.heading) * gap[1])
        if not free:
            return found
        front = entity.sheet.centre_m[0] + 0.5 * entity.sheet.size_m[0]
        rear = other.sheet.centre_m[0] - 0.5 * other.sheet.size_m[0]
        return found - front + rear


# ---- states ----------------------------------------------------------------------------------------------------------


def _all(elements: list[_Element]) -> list[_Element]:
    return [one for element in elements for one in (element, *_all(element.parts))]


def _overlap(first: Entity, second: Entity) -> bool:
    """True if two boxes overlap, seen from above: no edge separates them."""
    boxes = first.corners(), second.corners()
    for box in boxes:
        for edge in np.roll(box, -1, axis=0)[:2] - box[:2]:
            spans = [one @ edge for one in boxes]
            if spans[0].max() < spans[1].min() or spans[1].max() < spans[0].min():
                return False
    return True


def _edge_distance(points: Floats, box: Floats) -> float:
    """Smallest distance of points (n, 2) to the edges of a box (4, 2)."""
    edge = np.roll(box, -1, axis=0) - box
    gap = points[:, None] - box[None]
    share = np.clip((gap * edge).sum(axis=2) / (edge**2).sum(axis=1), 0.0, 1.0)
    return float(np.linalg.norm(gap - share[..., None] * edge, axis=2).min())


def _motion(entity: Entity) -> RecordedMotion | StagedMotion:
    parts = []
    for rows in entity.parts:
        table = np.array(rows)
        quats = np.array([quat_from_rpy(0.0, row[5], row[4]) for row in rows])
        parts.append(RecordedMotion(table[:, 0], table[:, 1:4], quats))
    whole = len(parts) == 1 and entity.place is not None and parts[0].start_time == 0.0
    return parts[0] if whole else StagedMotion(parts, STEP_S)
