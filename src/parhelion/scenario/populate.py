"""Adds the objects, people, traffic and machines of a scenario to its world."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Floats, Pose
from parhelion.core.trajectory import Fixed, Mounted, Trajectory, Waypoints, pose_at
from parhelion.motion.actors import (
    add_car,
    add_conveyor,
    add_door,
    add_forklift,
    add_loaded_pallet,
    add_person,
    add_robot_arm,
    pedestrians,
    scatter,
    set_mobility,
    traffic,
)
from parhelion.motion.actors.body import Actor, span_of
from parhelion.motion.actors.drivers import OpenRoute
from parhelion.motion.actors.live import Footprint, LiveActors, State
from parhelion.motion.actors.person import show_person
from parhelion.motion.actors.road_users import ROAD_USERS
from parhelion.motion.actors.traffic import DRIVERS, FOLLOWING, SLOW_DRIVERS, ClosedRoute, Following
from parhelion.motion.actors.vehicles import FORKLIFT_SIZE_M, car_size_m
from parhelion.motion.boxes import BoxTruth
from parhelion.motion.spline import SplineMotion
from parhelion.motion.time_law import MotionLimits
from parhelion.motion.vehicles.library import vehicle_sheet
from parhelion.motion.vehicles.sheets import CarConfig, VesselConfig
from parhelion.scenario.actors import (
    ArmEntry,
    CarEntry,
    ConveyorEntry,
    CrowdEntry,
    DoorEntry,
    ForkliftEntry,
    MachineEntry,
    MovingObject,
    PalletEntry,
    PersonEntry,
    RoadUserEntry,
    ScatterEntry,
    StaticObject,
    TrafficEntry,
)
from parhelion.scenario.bodies import model_in, motion_of, spline_of
from parhelion.scenario.motions import MotionEntry, schedule_of
from parhelion.scenario.raises import Raises
from parhelion.scenario.storyboard import play
from parhelion.scenario.sumo import add_moved, sumo_drives
from parhelion.world.file import mesh_and_options
from parhelion.world.schema import PoseEntry
from parhelion.world.sources import Tally
from parhelion.world.world import World

if TYPE_CHECKING:
    from parhelion.scenario.schema import ScenarioFile, StoryboardEntry, SumoEntry, VehicleEntry

_Made = TypeVar("_Made")
DEGREE = math.pi / 180.0
ON_FORKS = Pose((1.57, 0.0, -0.1))
"""Pose of a Euro pallet on a forklift's forks: its deck on the forks, its side against the carriage."""


class _InField(ConfigError):
    """Error in one field of an entry."""

    def __init__(self, field: str, what: str) -> None:
        super().__init__(what)
        self.field = field


def _in_field(field: str, make: Callable[..., _Made], *arguments: Any) -> _Made:
    try:
        return make(*arguments)
    except (ConfigError, FormatError) as error:
        raise _InField(field, str(error)) from None


def _fastest(motion: Trajectory, times: tuple[float, float] | None) -> float:
    """Largest speed [m/s] of a motion; of a body at rest, that of a walker."""
    span = span_of(motion, times)
    grid = np.linspace(span.start_s, span.end_s, 1001)
    xyz, _ = motion.sample(grid)
    with np.errstate(over="ignore"):  # the path of the person refuses such speeds
        fastest = float(np.max(np.linalg.norm(np.diff(xyz, axis=0), axis=1)) / (grid[1] - grid[0]))
    return fastest if fastest > 0.05 else 1.3


class Populate:
    """Adds the entries of a scenario to its world, in the order of the file's fields."""

    def __init__(self, world: World, settings: ScenarioFile, folder: Path, source: str) -> None:
        """`folder` and `source` are those of the scenario file, for relative paths and error messages."""
        self.world, self.settings, self.folder, self.source = world, settings, folder, source
        self.until_s = settings.duration_s + 1.0
        """End of precomputed motions [s], a little after the start of the last scan."""
        self.live = LiveActors(world, settings.seed)
        """Actors that react while the scenario runs."""
        self.raising: list[tuple[Raises, list[Actor]]] = []
        """Cars that may raise dust or spray, by entry."""
        self.entities: dict[str, Trajectory] | None = None
        """Motions of the entities of the storyboard."""

    def all(self) -> None:
        """Add all entries."""
        # Procedural worlds classify their movable objects.
        for instance, mobility in dict(getattr(self.world, "mobility", {})).items():
            set_mobility(self.world, instance, mobility)
        makers: dict[str, Callable[[int, Any], None]] = {
            "objects": self._object,
            "actors": self._actor,
            "people": self._person,
            "storyboard": self._storyboard,
            "sumo": self._sumo,
            "traffic": self._crowd,
            "pedestrians": self._crowd,
            "machines": self._machine,
            "scatter": self._scatter,
        }
        for field, make in makers.items():
            given = getattr(self.settings, field)
            single = not isinstance(given, list)
            for row, entry in enumerate([given] * (given is not None) if single else given):
                where = field if single else f"{field}[{row}]"
                try:
                    make(row, entry)
                except _InField as error:
                    raise ConfigError(f"{self.source}: {where}.{error.field}: {error}") from None
                except (ConfigError, FormatError) as error:
                    raise ConfigError(f"{self.source}: {where}: {error}") from None
        if not self.live.empty:
            self.live.begin()

    def _seed(self, row: int, own: int | None) -> int:
        """Seed of one entry: its own, or by default one that depends on the row."""
        return self.settings.seed + row if own is None else own

    def _motion(self, motion: MotionEntry, field: str = "motion") -> Trajectory:
        return _in_field(field, motion_of, motion, self.folder)

    def _pose(self, pose: PoseEntry) -> Pose:
        return _in_field("pose", pose.pose)

    def _motion_or_pose(self, motion: MotionEntry) -> Trajectory | Pose:
        """Pose of a fixed object, which counts as movable, or the motion of a dynamic one."""
        return self._motion(motion) if motion.fixed is None else _in_field("motion.fixed", motion.fixed.pose)

    def _times(self, motion: Trajectory | Pose) -> tuple[float, float] | None:
        """Times [s] of walking or rolling, for motions without a start and an end time."""
        if isinstance(motion, (Pose, Fixed, Waypoints)):
            return None
        start, end = getattr(motion, "start_time", None), getattr(motion, "end_time", None)
        return None if start is not None and end is not None and start < end else (0.0, self.until_s)

    # ---- one method per kind -------------------------------------------------------------------------------------

    def _object(self, row: int, entry: StaticObject) -> None:
        mesh, options = mesh_and_options(entry, self.folder / "scenario.yaml", {})
        item = self.world.add(mesh, pose=self._pose(entry.pose), **options)
        set_mobility(self.world, item.instance, entry.mobility)

    def _actor(self, row: int, entry: MovingObject) -> None:
        mesh, options = mesh_and_options(entry, self.folder / "scenario.yaml", {})
        item = self.world.add_actor(mesh, trajectory=self._motion(entry.trajectory, "trajectory"), **options)
        set_mobility(self.world, item.instance, entry.mobility)

    def _person(self, row: int, entry: PersonEntry) -> None:
        if entry.spline is not None:
            motion: Trajectory = _in_field("spline", spline_of, entry.spline)
        else:
            assert entry.motion is not None  # the entry's validator: spline or motion
            motion = self._motion(entry.motion)
        times = self._times(motion)
        options = entry.model_dump(exclude={"spline", "motion", "react"})
        if entry.react:
            walk = self.live.walk(motion, 0.0, _fastest(motion, times), options.pop("height_m"), times=times)
            show_person(self.world, walk, **options)
        else:
            add_person(self.world, motion, times=times, **options)

    def _crowd(self, row: int, entry: CrowdEntry) -> None:
        limits = MotionLimits(entry.speed_m_s * 1.2, 2.0, 2.5)
        if isinstance(entry.routes, str):
            lanes = _in_field("routes", _lane_motions, self.world, limits)
        else:
            lanes = [
                _in_field(f"routes[{k}]", lambda route: SplineMotion(route, limits=limits, closed=True), route)
                for k, route in enumerate(entry.routes)
            ]
        make: Callable[..., Any] = traffic if isinstance(entry, TrafficEntry) else pedestrians
        options = entry.model_dump(exclude={"routes", "seed", "react", *Raises.model_fields}, exclude_none=True)
        if entry.react:
            options["live"] = self.live
        made = make(self.world, lanes, seed=self._seed(row, entry.seed), duration_s=self.until_s, **options)
        if isinstance(entry, TrafficEntry):
            self.raising.append((entry, made))

    def _storyboard(self, row: int, entry: StoryboardEntry) -> None:
        file = self.folder / entry.file
        played = play(file, self.world, self.until_s, entry.parameters)
        self.entities = dict(played.motions)
        for name in entry.without:
            if name not in played.sheets:
                raise _InField("without", f"{file} has no entity {name!r}; it has {', '.join(played.sheets)}")
        carriers = {vehicle.entity for vehicle in self.settings.vehicles}
        for name, motion in played.motions.items():
            if name not in entry.without and name not in carriers:
                sheet = played.sheets[name]
                add_moved(self.world, motion, sheet.kind, sheet.size_m, name, sheet.centre_m, (0.0, self.until_s))
        air = self.settings.weather is not None or self.settings.daylight is not None
        _warn_omitted(file, played.omitted, known=("<EnvironmentAction>",) if air else ())

    def _sumo(self, row: int, entry: SumoEntry) -> None:
        file = self.folder / entry.file
        drives, omitted = sumo_drives(file, self.world, self.until_s, self.settings.seed, entry)
        for drive in drives:
            add_moved(self.world, drive.motion, drive.kind, drive.size_m, drive.name, times=(0.0, self.until_s))
        _warn_omitted(file, omitted)

    def _machine(self, row: int, entry: MachineEntry) -> None:
        if isinstance(entry, ForkliftEntry):
            self._forklift(row, entry)
        elif isinstance(entry, CarEntry):
            motion = self._motion_or_pose(entry.motion)
            options = entry.model_dump(exclude={"kind", "motion", "react", *Raises.model_fields})
            if entry.react and not isinstance(motion, Pose):
                motion = self._reacting(motion, *car_size_m(entry.model), DRIVERS)
            self.raising.append((entry, [add_car(self.world, motion, times=self._times(motion), **options)]))
        elif isinstance(entry, RoadUserEntry):
            self._road_user(entry)
        elif isinstance(entry, DoorEntry):
            opening = schedule_of(entry.opening_deg, DEGREE)
            options = entry.model_dump(include={"material", "name", "frame"})
            add_door(self.world, self._pose(entry.pose), entry.width_m, entry.height_m, opening, **options)
        elif isinstance(entry, ConveyorEntry):
            options = {"width": entry.width_m, "height": entry.height_m, "name": entry.name}
            options["seed"] = self._seed(row, entry.seed)
            add_conveyor(self.world, self._pose(entry.pose), entry.length_m, entry.boxes, entry.speed_m_s, **options)
        elif isinstance(entry, ArmEntry):
            angles = schedule_of(entry.joint_angles_deg, DEGREE)
            add_robot_arm(self.world, self._pose(entry.pose), angles, material=entry.material, name=entry.name)
        else:
            self._pallet(row, entry)

    def _road_user(self, entry: RoadUserEntry) -> None:
        user, motion = ROAD_USERS[entry.kind], self._motion_or_pose(entry.motion)
        options = {"paint": entry.paint} if entry.paint is not None else {}
        if entry.react and not isinstance(motion, Pose):
            motion = self._reacting(motion, *user.size_m, FOLLOWING.get(entry.kind, DRIVERS))
        user.add(self.world, motion, name=entry.name or entry.kind, times=self._times(motion), **options)

    def _reacting(self, motion: Trajectory, length_m: float, width_m: float, model: Following) -> Trajectory:
        """Motion of a vehicle that follows the path of a motion and brakes for what is in the way."""
        times = self._times(motion)
        span = span_of(motion, times)
        route = ClosedRoute(motion) if span.repeats else OpenRoute(motion, times)
        return self.live.drive(route, 0.0, _fastest(motion, times), length_m, width_m, model)

    def _forklift(self, row: int, entry: ForkliftEntry) -> None:
        motion = self._motion(entry.motion)
        if entry.react:
            motion = self._reacting(motion, *FORKLIFT_SIZE_M, SLOW_DRIVERS)
        truck = add_forklift(self.world, motion, schedule_of(entry.fork_height_m), paint=entry.paint, name=entry.name)
        if entry.load is not None:
            forks = truck.objects[-1].trajectory
            assert forks is not None  # a forklift's last body is its forks, which move
            add_loaded_pallet(
                self.world,
                Mounted(forks, ON_FORKS),
                layers=entry.load.layers,
                seed=self._seed(row, entry.load.seed),
                name=f"{entry.name}-load",
            )

    def _pallet(self, row: int, entry: PalletEntry) -> None:
        if entry.pose is not None:
            place: Trajectory | Pose = self._pose(entry.pose)
        else:
            assert entry.motion is not None  # the entry's validator: pose or motion
            place = self._motion_or_pose(entry.motion)
        add_loaded_pallet(self.world, place, layers=entry.layers, seed=self._seed(row, entry.seed), name=entry.name)

    def _scatter(self, row: int, entry: ScatterEntry) -> None:
        scatter(
            self.world, entry.area_m, entry.kinds, entry.count, self._seed(row, entry.seed), ground_m=entry.ground_m
        )


def entity_motions(settings: ScenarioFile, folder: Path, world: World) -> dict[str, Trajectory]:
    """Motions of the entities of a scenario's storyboard in a world."""
    story = settings.storyboard
    assert story is not None  # the file's validator
    return dict(play(folder / story.file, world, settings.duration_s + 1.0, story.parameters).motions)


def _warn_omitted(file: Path, tally: Tally, known: tuple[str, ...] = ()) -> None:
    rows = [row for row in tally.contents(file, "").omitted if row.what not in known]
    if rows:
        what = "; ".join(f"{row.count} {row.what} ({row.reason})" for row in rows)
        warnings.warn(f"{file}: omitted: {what}", stacklevel=2)


# ---- what reacting actors see ----------------------------------------------------------------------------------------


def watch(live: LiveActors, world: World, bodies: dict[str, Any], entries: list[VehicleEntry], folder: Path) -> None:
    """Let reacting actors see the vehicles of a scenario, and all that moves along a given motion."""
    seen: set[int] = set()
    for entry in entries:
        motion = bodies[entry.name].motion
        shown = {item.instance for item in world.objects if _carries(item.trajectory, motion)}
        seen |= shown
        model = None if entry.model is None else model_in(folder, entry.model)
        live.see(_state_of(bodies[entry.name]), _footprint(world, motion, shown, model))
    live.see_rails(seen)


def _carries(trajectory: Any, motion: Trajectory) -> bool:
    """True if a trajectory is a motion, or mounted on it."""
    while trajectory is not None and trajectory is not motion:
        trajectory = getattr(trajectory, "body", getattr(trajectory, "carrier", None))
    return trajectory is motion


def _state_of(body: Any) -> State:
    def state(time: float) -> tuple[Floats, Floats, Floats]:
        found = body.state(np.array([time]))
        return found.xyz[0], found.quat_xyzw[0], found.velocity[0]

    return state


def _footprint(world: World, motion: Trajectory, instances: set[int], model: str | None) -> Footprint:
    """Footprint of a vehicle: of its visible body, otherwise by its preset."""
    boxes = [box for box in BoxTruth(world).at(0.0) if box.instance in instances]
    if boxes:
        here = pose_at(motion, 0.0)
        level = Pose((here.xyz[0], here.xyz[1], 0.0), rpy_deg=(0.0, 0.0, here.rpy_deg[2]))
        corners = level.inverse().apply(np.concatenate([box.corners() for box in boxes]))[:, :2]
        low, high = corners.min(axis=0), corners.max(axis=0)
        middle = 0.5 * (low + high)
        return Footprint(float(high[0] - low[0]), float(high[1] - low[1]), (float(middle[0]), float(middle[1])))
    sheet = None if model is None else vehicle_sheet(model)
    if isinstance(sheet, VesselConfig):
        return Footprint(sheet.hull.length_m, sheet.hull.beam_m)
    if isinstance(sheet, CarConfig):
        return Footprint(4.5, 1.8)
    return Footprint(1.0, 0.7)


def _lane_motions(world: World, limits: MotionLimits) -> list[SplineMotion]:
    """Closed motions on the lanes of a world from OpenDRIVE that share no lane."""
    loops = [] if world.lanes is None else world.lanes.separate_loops()
    if not loops:
        raise ConfigError(f"world {world.name!r} has no closed routes of lanes; give points, or a world from OpenDRIVE")
    lines = [world.lanes.closed_line(loop) for loop in loops]
    return [SplineMotion(line, limits=limits, closed=True, follow_slope=True) for line in lines]
