"""Adds the objects, people, traffic and machines of a scenario to its world."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import Fixed, Mounted, Trajectory, Waypoints
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
from parhelion.motion.actors.body import Actor
from parhelion.motion.spline import SplineMotion
from parhelion.motion.time_law import MotionLimits
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
    ScatterEntry,
    StaticObject,
    TrafficEntry,
)
from parhelion.scenario.bodies import motion_of, spline_of
from parhelion.scenario.motions import MotionEntry, schedule_of
from parhelion.scenario.raises import Raises
from parhelion.world.file import mesh_and_options
from parhelion.world.schema import PoseEntry
from parhelion.world.world import World

if TYPE_CHECKING:
    from parhelion.scenario.schema import ScenarioFile

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


class Populate:
    """Adds the entries of a scenario to its world, in the order of the file's fields."""

    def __init__(self, world: World, settings: ScenarioFile, folder: Path, source: str) -> None:
        """`folder` and `source` are those of the scenario file, for relative paths and error messages."""
        self.world, self.settings, self.folder, self.source = world, settings, folder, source
        self.until_s = settings.duration_s + 1.0
        """End of precomputed motions [s], a little after the start of the last scan."""
        self.raising: list[tuple[Raises, list[Actor]]] = []
        """Cars that may raise dust or spray, by entry."""

    def all(self) -> None:
        """Add all entries."""
        # Procedural worlds classify their movable objects.
        for instance, mobility in dict(getattr(self.world, "mobility", {})).items():
            set_mobility(self.world, instance, mobility)
        makers: dict[str, Callable[[int, Any], None]] = {
            "objects": self._object,
            "actors": self._actor,
            "people": self._person,
            "traffic": self._crowd,
            "pedestrians": self._crowd,
            "machines": self._machine,
            "scatter": self._scatter,
        }
        for field, make in makers.items():
            for row, entry in enumerate(getattr(self.settings, field)):
                try:
                    make(row, entry)
                except _InField as error:
                    raise ConfigError(f"{self.source}: {field}[{row}].{error.field}: {error}") from None
                except (ConfigError, FormatError) as error:
                    raise ConfigError(f"{self.source}: {field}[{row}]: {error}") from None

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
        add_person(self.world, motion, times=self._times(motion), **entry.model_dump(exclude={"spline", "motion"}))

    def _crowd(self, row: int, entry: CrowdEntry) -> None:
        limits = MotionLimits(entry.speed_m_s * 1.2, 2.0, 2.5)
        lanes = [
            _in_field(f"routes[{k}]", lambda route: SplineMotion(route, limits=limits, closed=True), route)
            for k, route in enumerate(entry.routes)
        ]
        make: Callable[..., Any] = traffic if isinstance(entry, TrafficEntry) else pedestrians
        options = entry.model_dump(exclude={"routes", "seed", *Raises.model_fields}, exclude_none=True)
        made = make(self.world, lanes, seed=self._seed(row, entry.seed), duration_s=self.until_s, **options)
        if isinstance(entry, TrafficEntry):
            self.raising.append((entry, made))

    def _machine(self, row: int, entry: MachineEntry) -> None:
        if isinstance(entry, ForkliftEntry):
            self._forklift(row, entry)
        elif isinstance(entry, CarEntry):
            motion = self._motion_or_pose(entry.motion)
            options = entry.model_dump(exclude={"kind", "motion", *Raises.model_fields})
            self.raising.append((entry, [add_car(self.world, motion, times=self._times(motion), **options)]))
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

    def _forklift(self, row: int, entry: ForkliftEntry) -> None:
        motion = self._motion(entry.motion)
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
