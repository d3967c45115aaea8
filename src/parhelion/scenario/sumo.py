"""Traffic of SUMO as actors: the simulation runs before the scenario starts, and its vehicles and people are recorded.

Positions in SUMO are those of the middle of the front bumper, angles are clockwise from north (SUMO documentation,
TraCI/Vehicle Value Retrieval). SUMO does not see the vehicles of the scenario.
"""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.core.pose import Floats, Pose, quat_from_rpy
from parhelion.core.trajectory import Mounted, Trajectory
from parhelion.motion.actors import add_car, add_person
from parhelion.motion.actors.body import set_mobility
from parhelion.motion.actors.road_users import ROAD_USERS
from parhelion.motion.recorded import RecordedMotion
from parhelion.motion.staged import StagedMotion
from parhelion.world.kit.vehicles import CAR_SHAPES, PAINTS
from parhelion.world.shapes import box
from parhelion.world.sources import Tally
from parhelion.world.world import World
from parhelion.world.xml import guarded_text, parse_xml

if TYPE_CHECKING:
    from parhelion.scenario.schema import SumoEntry

_USERS = {
    "motorbike": "motorcycle",
    "motorcycle": "motorcycle",
    "moped": "motorcycle",
    "bicycle": "cyclist",
    "bus": "bus",
    "coach": "bus",
    "tram": "tram",
    "rail_urban": "tram",
    "train": "tram",
    "truck": "lorry",
    "delivery": "van",
    "van": "van",
    "trailer": "truck-trailer",
    "semitrailer": "truck-trailer",
}
"""Models of bodies by OpenSCENARIO's vehicle categories and SUMO's classes; all others on roads are cars."""
_PEOPLE = ("pedestrian", "wheelchair", "person")
_LONG_TRUCK_M = 10.0
_Kind = tuple[str, tuple[float, float, float]]
"""Class, and length, width and height."""
_LARGEST_NETWORK_BYTES = 256 * 1024 * 1024


# ---- bodies ----------------------------------------------------------------------------------------------------------


def add_moved(
    world: World,
    motion: Trajectory,
    kind: str,
    size_m: tuple[float, float, float],
    name: str,
    centre_m: tuple[float, float, float] = (0.0, 0.0, 0.0),
    times: tuple[float, float] = (0.0, 60.0),
) -> None:
    """Add the body of a vehicle, a person or an object that another simulator describes by kind and size.

    The body is the model of the kind whose length is nearest; `centre_m` is the middle of its box in the frame of the
    motion. Objects are boxes.
    """
    middle = motion if not any(centre_m[:2]) else Mounted(motion, Pose((centre_m[0], centre_m[1], 0.0)))
    paint = PAINTS[zlib.crc32(name.encode()) % len(PAINTS)]
    if kind in _PEOPLE:
        add_person(world, middle, float(np.clip(size_m[2], 0.8, 2.3)), name=name, times=times)
        return
    if kind in ("object", "obstacle", "barrier", "none"):
        item = world.add_actor(
            box(*size_m),
            material="plastic",
            label="object",
            name=name,
            trajectory=Mounted(middle, Pose((0, 0, size_m[2] / 2))),
        )
        set_mobility(world, item.instance, "movable")
        return
    model = _USERS.get(kind) or min(CAR_SHAPES, key=lambda one: (abs(CAR_SHAPES[one].length - size_m[0]), one))
    if model == "lorry" and size_m[0] > _LONG_TRUCK_M:
        model = "truck-trailer"
    if model in ROAD_USERS:
        ROAD_USERS[model].add(world, middle, paint=paint, name=name, times=times)
    else:
        add_car(world, middle, model, paint=paint, name=name, times=times)


# ---- SUMO ------------------------------------------------------------------------------------------------------------


class SumoActor(NamedTuple):
    """A vehicle or a person of SUMO."""

    name: str
    kind: str
    size_m: tuple[float, float, float]
    motion: Trajectory


def sumo_drives(file: Path, world: World, until_s: float, seed: int, entry: SumoEntry) -> tuple[list[SumoActor], Tally]:
    """Run SUMO's configuration until `until_s` [s], and return the motions of all that moves in it."""
    try:
        import libsumo
    except ImportError:
        raise MissingDependencyError("traffic of SUMO needs libsumo: pip install 'parhelion[sumo]'") from None
    if not file.is_file():
        raise ConfigError(f"{file}: no such file; give a SUMO configuration (.sumocfg)")
    offset = _offset(file) if entry.offset_m is None else np.array(entry.offset_m)
    command = ["sumo", "-c", str(file), "--step-length", repr(entry.step_s), "--seed", str(seed % 2**31)]
    # The pre-run fills the roads; only what is in the world from begin_s on is recorded.
    command += ["--no-step-log", "true", "--duration-log.disable", "true", "--no-warnings", "true"]
    rows: dict[str, list[tuple[float, ...]]] = {}
    kinds: dict[str, _Kind] = {}
    try:
        libsumo.start(command)
    except libsumo.TraCIException as error:
        raise ConfigError(f"{file}: SUMO cannot load it: {str(error).strip()[:300]}") from None
    try:
        steps = math.ceil((entry.begin_s + until_s) / entry.step_s) + 1
        start = float(libsumo.simulation.getTime())
        for number in range(steps):
            time = float(libsumo.simulation.getTime()) - start - entry.begin_s
            if time >= -1e-9:
                _record(libsumo, round(time, 6), rows, kinds)
            if number < steps - 1:
                libsumo.simulationStep()
    except libsumo.TraCIException as error:
        raise ConfigError(f"{file}: SUMO stopped: {str(error).strip()[:300]}") from None
    finally:
        libsumo.close()
    tally = Tally()
    drives: list[SumoActor] = []
    for name in sorted(rows, key=lambda one: (rows[one][0][0], one)):
        if len(drives) == entry.most:
            tally.omit("vehicles and people", f"more than most: {entry.most}", len(rows) - len(drives))
            break
        kind, size = kinds[name]
        motion = _motion(np.array(rows[name]), offset, world, entry.step_s, until_s)
        drives.append(SumoActor(_plain(name), kind, size, motion))
    return drives, tally


def _offset(file: Path) -> Floats:
    """Position of the world's origin in SUMO's network: its `netOffset`."""
    config = parse_xml(file, guarded_text(file))
    node = config.find(".//net-file")
    if node is None:
        return np.zeros(2)
    name = file.parent / (node.get("value") or node.get("v") or "")
    if name.suffix != ".xml" or not name.is_file():
        return np.zeros(2)
    location = parse_xml(name, guarded_text(name, _LARGEST_NETWORK_BYTES, what="a network")).find("location")
    words = "0,0" if location is None else location.get("netOffset", "0,0")
    try:
        return np.array([float(word) for word in words.split(",")][:2])
    except ValueError:
        raise ConfigError(f"{name}: location: netOffset must be two numbers, got {words[:40]!r}") from None


def _record(sumo: Any, time: float, rows: dict[str, list[tuple[float, ...]]], kinds: dict[str, _Kind]) -> None:
    """Append time, position of the middle and heading of all vehicles and people."""
    for domain, person in ((sumo.vehicle, False), (sumo.person, True)):
        for name in domain.getIDList():
            x, y, z = domain.getPosition3D(name)
            heading = math.radians(90.0 - domain.getAngle(name))
            length = domain.getLength(name)
            if name not in kinds:
                kind = "pedestrian" if person else domain.getVehicleClass(name)
                kinds[name] = kind, (length, domain.getWidth(name), domain.getHeight(name))
            back = 0.0 if person else 0.5 * length
            row = (time, x - back * math.cos(heading), y - back * math.sin(heading), z, heading)
            rows.setdefault(name, []).append(row)


def _motion(rows: Floats, offset: Floats, world: World, step_s: float, until_s: float) -> Trajectory:
    xyz = rows[:, 1:4].copy()
    xyz[:, :2] -= offset
    # Networks are level unless they come from roads with heights; the ground of the world is below the wheels.
    ground = np.asarray(world.height(xyz[:, 0], xyz[:, 1]), dtype=np.float64)
    xyz[:, 2] = np.where(np.isfinite(ground) & ~np.any(rows[:, 3]), ground, xyz[:, 2])
    heading = np.unwrap(rows[:, 4])
    quats = np.array([quat_from_rpy(0.0, 0.0, one) for one in heading])
    motion = RecordedMotion(rows[:, 0], xyz, quats)
    return motion if rows[0, 0] <= 0.0 and rows[-1, 0] >= until_s else StagedMotion([motion], step_s)


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)[:64] or "body"
