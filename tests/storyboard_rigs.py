"""OpenSCENARIO files for tests, as text."""

from __future__ import annotations

from pathlib import Path

import parhelion as ph
from road_rigs import geometry, lane, network, road

CAR = (
    '<Vehicle name="car" vehicleCategory="car"><BoundingBox><Center x="1.4" y="0" z="0.75"/>'
    '<Dimensions width="1.8" length="4.5" height="1.5"/></BoundingBox></Vehicle>'
)
WALKER = (
    '<Pedestrian name="p" pedestrianCategory="pedestrian" mass="70"><BoundingBox><Center x="0" y="0" z="0.9"/>'
    '<Dimensions width="0.5" length="0.5" height="1.8"/></BoundingBox></Pedestrian>'
)
STEP = '<SpeedActionDynamics dynamicsShape="step" value="0" dynamicsDimension="time"/>'


def street(folder: Path, length: float = 900.0) -> ph.World:
    """World of a straight road along x with two lanes to the right and one to the left, 3.5 m wide."""
    line = geometry("<line/>", length)
    file = folder / "street.xodr"
    file.write_text(network(road(1, line, length, right=lane(-1) + lane(-2), left=lane(1))))
    return ph.World.load(str(file))


def at_lane(s: float, number: int, more: str = "", road_number: int = 1) -> str:
    """Position on a lane."""
    return f'<LanePosition roadId="{road_number}" laneId="{number}" s="{s}">{more}</LanePosition>'


def begin(name: str, position: str, speed: float = 0.0) -> str:
    """Place and speed of an entity at the start."""
    return (
        f'<Private entityRef="{name}"><PrivateAction><TeleportAction><Position>{position}</Position></TeleportAction>'
        f"</PrivateAction><PrivateAction><LongitudinalAction>{speed_to(speed, STEP)}</LongitudinalAction>"
        "</PrivateAction></Private>"
    )


def speed_to(value: float, dynamics: str) -> str:
    """Speed action with an absolute target."""
    target = f'<SpeedActionTarget><AbsoluteTargetSpeed value="{value}"/></SpeedActionTarget>'
    return f"<SpeedAction>{dynamics}{target}</SpeedAction>"


def event(name: str, action: str, condition: str, *, edge: str = "none", delay: float = 0.0, more: str = "") -> str:
    """Event with one private action and one condition."""
    trigger = (
        f'<StartTrigger><ConditionGroup><Condition name="c" delay="{delay}" conditionEdge="{edge}">{condition}'
        "</Condition></ConditionGroup></StartTrigger>"
    )
    what = action if action.startswith("<GlobalAction") else f"<PrivateAction>{action}</PrivateAction>"
    return f'<Event name="{name}" {more}><Action name="{name}-a">{what}</Action>{trigger}</Event>'


def after(time: float) -> str:
    """Condition that holds from a time on."""
    return f'<ByValueCondition><SimulationTimeCondition value="{time}" rule="greaterOrEqual"/></ByValueCondition>'


def when(entity: str, condition: str) -> str:
    """Condition of an entity."""
    return (
        f'<ByEntityCondition><TriggeringEntities triggeringEntitiesRule="any"><EntityRef entityRef="{entity}"/>'
        f"</TriggeringEntities><EntityCondition>{condition}</EntityCondition></ByEntityCondition>"
    )


def file_of(
    folder: Path,
    entities: dict[str, str],
    init: str,
    events: dict[str, str] | None = None,
    *,
    head: str = "",
    name: str = "drive.xosc",
) -> Path:
    """File with entities, their start, and events by actor."""
    bodies = "".join(f'<ScenarioObject name="{one}">{body}</ScenarioObject>' for one, body in entities.items())
    groups = "".join(
        f'<ManeuverGroup name="g-{actor}" maximumExecutionCount="1"><Actors selectTriggeringEntities="false">'
        f'<EntityRef entityRef="{actor}"/></Actors><Maneuver name="m-{actor}">{text}</Maneuver></ManeuverGroup>'
        for actor, text in (events or {}).items()
    )
    story = f'<Story name="story"><Act name="act">{groups}</Act></Story>' if groups else ""
    file = folder / name
    file.write_text(
        f'<?xml version="1.0"?><OpenSCENARIO>{head}<RoadNetwork><LogicFile filepath="street.xodr"/></RoadNetwork>'
        f"<Entities>{bodies}</Entities><Storyboard><Init><Actions>{init}</Actions></Init>{story}</Storyboard>"
        "</OpenSCENARIO>"
    )
    return file
