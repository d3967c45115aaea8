"""Event log of a run: every edit with the step before which it was applied, so that the run can be repeated.

The file has one JSON object per line. The first one identifies the scenario, the others are edits:

    {"parhelion": "events", "version": 1, "scenario": "yard", "scenario_sha256": "...", "seed": 7, "playing": true}
    {"step": 120, "time_s": 1.2, "op": "weather", "args": {"changes": {"rain_rate_mm_h": 25}}, "result": {...}}

`step` is the number of completed steps, `time_s` the time of the scenario. There are no wall times, so the log of a
repeated run is the same file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parhelion.core.errors import ConfigError, FormatError, ParhelionError
from parhelion.core.pose import Pose
from parhelion.core.reading import read_bytes
from parhelion.core.trajectory import Fixed
from parhelion.scenario import verbs
from parhelion.scenario.verbs import Verb, VerbError, verb_of
from parhelion.world.mesh import Mesh
from parhelion.world.parts import DescribedShape, WorldObject

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step

NAME = "events.jsonl"
VERSION = 1
LARGEST_BYTES = 1 << 30
LONGEST_LINE = 16 << 20


def settings_hash(scenario: Scenario) -> tuple[dict[str, Any], str]:
    """Settings of a scenario as plain data, and their SHA-256."""
    settings = scenario.settings.model_dump(mode="json")
    return settings, hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Event:
    """One line of a log."""

    step: int
    """Number of completed steps."""
    verb: Verb
    outcome: Mapping[str, Any]
    """{"result": ...} or {"error": {"code", "message"}}."""
    line: int = 0
    """Line in the file."""


class EventLog:
    """Writes events line by line; each line is on the disk's side of a crash of this program once it is written."""

    def __init__(self, path: str | PathLike[str], scenario: Scenario, *, playing: bool = True) -> None:
        self.path = Path(path)
        self.count = 0
        """Number of events."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = self.path.open("w", encoding="utf-8")
        except OSError as error:
            raise FormatError(f"{path}: cannot be written ({error.strerror})") from None
        self._write(
            {
                "parhelion": "events",
                "version": VERSION,
                "scenario": scenario.settings.name,
                "scenario_sha256": settings_hash(scenario)[1],
                "seed": scenario.seed,
                "playing": playing,
            }
        )

    def add(self, step: int, time_s: float, verb: Verb, outcome: Mapping[str, Any]) -> None:
        """Append an event."""
        self.count += 1
        op: str = verb.op  # type: ignore[attr-defined]
        self._write({"step": step, "time_s": time_s, "op": op, "args": verb.arguments(), **outcome})

    def _write(self, line: Mapping[str, Any]) -> None:
        try:
            self._stream.write(json.dumps(line, separators=(", ", ": ")) + "\n")
            self._stream.flush()
        except OSError as error:
            raise FormatError(f"{self.path}: cannot be written ({error.strerror})") from None

    def close(self) -> None:
        """Close the file. A second call has no effect."""
        self._stream.close()


def log_in(folder: str | PathLike[str], scenario: Scenario, *, playing: bool) -> EventLog:
    """Log in the folder of a run; raise ConfigError if the folder already holds one."""
    file = Path(folder) / NAME
    if file.exists():
        raise ConfigError(f"{folder}: already contains {NAME} of another run; choose another folder")
    return EventLog(file, scenario, playing=playing)


@dataclass(frozen=True)
class Script:
    """Events of a log."""

    path: Path
    playing: bool
    """True if the clock ran at the start."""
    events: tuple[Event, ...]


def read_events(path: str | PathLike[str], scenario: Scenario) -> Script:
    """Read a log; raise ConfigError if it belongs to another scenario, FormatError if it is damaged.

    An incomplete last line, as a killed program leaves it, is ignored.
    """
    file = Path(path)
    data = read_bytes(file, largest=LARGEST_BYTES, what="an event log")
    lines = data.split(b"\n")[:-1]
    head = _object(file, 1, lines[0]) if lines else {}
    if head.get("parhelion") != "events":
        raise FormatError(f"{file}: is not an event log of parhelion")
    if head.get("version") != VERSION:
        raise FormatError(f"{file}: has version {head.get('version')!r}, expected {VERSION}")
    if head.get("scenario_sha256") != settings_hash(scenario)[1] or head.get("seed") != scenario.seed:
        name = head.get("scenario") or "without a name"
        raise ConfigError(
            f"{file}: was recorded with another scenario, seed or setting (scenario {name!r}); use the same file"
        )
    events, before = [], 0
    for number, text in enumerate(lines[1:], 2):
        line = _object(file, number, text)
        step, args = line.get("step"), line.get("args", {})
        if not isinstance(step, int) or isinstance(step, bool) or step < 0 or not isinstance(args, dict):
            raise FormatError(f"{file}: line {number}: expected step, op and args")
        try:
            verb = verb_of({"op": line.get("op"), **args}, f"{file}: line {number}", verbs.LOGGED)
        except VerbError as error:
            raise FormatError(str(error)) from None
        # Steps start again after a reset.
        if step < before:
            raise FormatError(f"{file}: line {number}: step {step} follows step {before}")
        before = 0 if isinstance(verb, verbs.Reset) and "error" not in line else step
        outcome: dict[str, Any] = {key: line[key] for key in ("result", "error") if key in line}
        events.append(Event(step, verb, outcome, number))
    return Script(file, head.get("playing") is not False, tuple(events))


def _object(file: Path, number: int, text: bytes) -> dict[str, Any]:
    if len(text) > LONGEST_LINE:
        raise FormatError(f"{file}: line {number} is longer than {LONGEST_LINE} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise FormatError(f"{file}: line {number} is not a JSON object")
    return found


# ---- edits of a Python loop ------------------------------------------------------------------------------------------


def logged(scenario: Scenario, path: str | PathLike[str], steps: Iterator[Step]) -> Generator[Step, None, None]:
    """Yield steps, and log the edits that the loop body makes to world, vehicles and sensors.

    Raise ConfigError for edits that a log cannot hold, such as an actor along a trajectory.
    """
    log = EventLog(path, scenario)
    now = (0, 0.0)
    editing = False

    def world_edited(edit: str, item: WorldObject | None, given: Mapping[str, Any]) -> None:
        if editing:
            verb, result = _world_verb(scenario, edit, item, given)
            log.add(*now, verb, {"result": result})

    def scenario_edited(edit: str, given: Mapping[str, Any]) -> None:
        if editing:
            verb, result = _scenario_verb(edit, given)
            log.add(*now, verb, {"result": result})

    if scenario.on_edit is not None or scenario.world.on_edit is not None:
        raise ConfigError(f"{path}: the edits of this scenario are logged already")
    scenario.on_edit, scenario.world.on_edit = scenario_edited, world_edited
    try:
        editing = True
        for edit, value, first in zip(
            ("weather", "daylight"), (scenario.world.weather, scenario.world.daylight), scenario.first_air, strict=True
        ):
            if value != first:  # changed before the loop, for example by options of a command
                world_edited(edit, None, {edit: value})
        editing = False
        for step in steps:
            now, editing = (step.number + 1, step.time), True
            yield step
            editing = False
        now = (scenario.steps, scenario.now_s)
        log.add(*now, verbs.Quit(), {"result": {}})
    except GeneratorExit:  # the loop was left early
        log.add(*now, verbs.Quit(), {"result": {}})
        raise
    finally:
        scenario.on_edit = scenario.world.on_edit = None
        log.close()


def _world_verb(
    scenario: Scenario, edit: str, item: WorldObject | None, given: Mapping[str, Any]
) -> tuple[Verb, dict[str, Any]]:
    """Verb that repeats an edit of a world, and its result."""
    if edit == "weather":
        weather = given["weather"]
        changes = {} if weather is None else weather.to_mapping()
        return verbs.SetWeather(changes=changes, clear=True), {"weather": changes}
    if edit == "daylight" and given["daylight"] is not None:
        changes = given["daylight"].model_dump(mode="json", exclude_unset=True)
        return verbs.SetDaylight(changes=changes), {"daylight": changes}
    if edit == "remove" and item is not None:
        return verbs.RemoveObject(index=item.index), {}
    if edit in ("add", "add_actor") and item is not None:
        return _added(scenario, item, given), {"index": item.index}
    raise ConfigError(f"world.{edit}: cannot be logged; make this edit before the loop, or run without a log")


def _added(scenario: Scenario, item: WorldObject, given: Mapping[str, Any]) -> verbs.AddObject:
    mesh, place = given["mesh"], given.get("pose", given.get("trajectory"))
    if isinstance(place, Fixed):
        place = place.pose
    if not isinstance(place, Pose):
        raise ConfigError(f"world: {item.name}: an actor along a trajectory cannot be logged; give a pose")
    if given["texture"] is not None and not isinstance(given["texture"], (str, PathLike)):
        raise ConfigError(f"world: {item.name}: a texture without a file cannot be logged")
    if given["material"] is not None and not isinstance(given["material"], str):
        raise ConfigError(f"world: {item.name}: a material that is not in the library cannot be logged")
    fields: dict[str, Any] = {
        "material": given["material"],
        "label": given["label"],
        "name": given["name"],
        "scale": given["scale"],
        "up": given["up"],
        "instance": given["instance"],
        "hidden_from": list(item.hidden_from),
        "materials": {str(key): str(value) for key, value in (given["materials"] or {}).items()},
        "texture": None if given["texture"] is None else _relative(scenario, given["texture"]),
        "pose": pose_fields(place),
        "actor": "trajectory" in given,
    }
    if isinstance(mesh, (str, PathLike)):
        fields["mesh"] = _relative(scenario, mesh)
    elif isinstance(mesh, DescribedShape):
        fields["shape"] = mesh.description()
    else:
        (part, *others) = item.parts
        if others or len(part.mesh.vertices) > verbs.MOST_VERTICES:
            raise ConfigError(f"world: {item.name}: only files and meshes of one material can be logged")
        source = mesh if isinstance(mesh, Mesh) else Mesh(*mesh) if isinstance(mesh, tuple | list) else None
        if source is None:
            raise ConfigError(f"world: {item.name}: a {type(mesh).__name__} cannot be logged; save it to a file")
        fields |= {"vertices": source.vertices.tolist(), "faces": np.asarray(source.faces).tolist()}
    defaults = {
        name: field.get_default(call_default_factory=True) for name, field in verbs.AddObject.model_fields.items()
    }
    return verbs.AddObject(**{name: value for name, value in fields.items() if value != defaults[name]})


def _relative(scenario: Scenario, file: str | PathLike[str]) -> str:
    try:
        return Path(os.path.realpath(file)).relative_to(scenario.folder.resolve()).as_posix()
    except ValueError:
        raise ConfigError(f"{file}: is outside of the scenario's folder, so the edit cannot be logged") from None


def _scenario_verb(edit: str, given: Mapping[str, Any]) -> tuple[Verb, dict[str, Any]]:
    """Verb that repeats an edit of vehicles and sensors, and its result."""
    if edit == "command":
        command = given["command"]
        kind: Any = next((name for name, one in verbs.COMMANDS.items() if type(command) is one), None)
        if kind is None:
            raise ConfigError(f"{given['vehicle']}: a {type(command).__name__} cannot be logged")
        return verbs.CommandVerb(vehicle=given["vehicle"], kind=kind, values=dict(vars(command))), {}
    if edit == "move":
        rates: dict[str, Any] = {
            name: tuple(given[name].tolist()) for name in ("velocity", "angular_velocity") if given[name] is not None
        }
        return verbs.SetState(entity=given["vehicle"], pose=pose_fields(given["pose"]), **rates), {}
    if edit == "attach":
        return verbs.Attach(sensor=given["sensor"]), {"sensor": given["sensor"].name}
    if edit == "detach":
        return verbs.Detach(sensor=given["sensor"]), {}
    if edit == "mount":
        return verbs.Mount(sensor=given["sensor"], pose=pose_fields(given["pose"])), {}
    raise ParhelionError(f"scenario.{edit}: cannot be logged")


def pose_fields(pose: Pose) -> Any:
    """Fields of a pose in a verb."""
    return {"xyz": pose.xyz.tolist(), "quat_xyzw": pose.quat_xyzw.tolist()}
