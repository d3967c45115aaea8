"""An environment of a scenario: an agent drives one vehicle by what its sensors measure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from parhelion.contact.bodies import Collision
from parhelion.contact.driver import ContactDriver
from parhelion.core import config
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.pose import Floats, Pose
from parhelion.core.random import Stream
from parhelion.gym.actions import actions_of
from parhelion.gym.free_space import STEEPEST, FreeSpace
from parhelion.gym.observations import OBSERVATIONS, Options, Reading
from parhelion.motion.state import BodyState
from parhelion.motion.vehicles.base import Command, heading, matrix
from parhelion.motion.vehicles.ground import Car, DifferentialDrive
from parhelion.scenario.bodies import DrivenBody
from parhelion.scenario.scenario import Scenario, Step
from parhelion.scenario.schema import ScenarioFile, SensorEntry, VehicleEntry
from parhelion.scenario.sensors import StreamOnBoard
from parhelion.sensors.kinds import find_kind

GROUND_LABELS = ("floor", "road", "sidewalk", "terrain", "ground", "lane-marking", "parking")
"""Labels of ground: a hull that touches it has not collided."""
OVERTURNED = 0.3
"""Upward component of the vehicle's z axis below which it counts as fallen: a tilt of 73 deg."""
_FAR_M = 1e4
_AREA_M = 60.0
"""Half the width of the area around the vehicle's start in which starts and goals are drawn [m]."""
_MARGIN_M = 0.15
"""Distance between a vehicle at its start and the nearest obstacle [m], at least."""
_MOST_TRIES = 1000

Sensors = Mapping[str, str | Mapping[str, Any]] | Sequence[str]
"""Sensors of an environment: presets or fields of a scenario file by name, or a list of names and presets."""
Place = Literal["random", "scenario"]
Observation = dict[str, Any]


# ---- rewards and ends of episodes: functions of the outcome of a step ------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """Result of one step of an environment."""

    time: float
    """Time since the start of the episode [s]."""
    state: BodyState
    """True state of the vehicle, one row."""
    command: Command | None
    """Command of the step; None in the first one, after a reset."""
    records: Mapping[str, Any]
    """Latest record of each sensor, by name; sensors without a measurement so far are absent."""
    collisions: tuple[Collision, ...]
    """Contacts of the vehicle's hull in the step, except with ground."""
    travelled_m: float
    """Distance between the positions before and after the step [m], negative in reverse."""
    goal: Floats | None
    """Position of the goal [m], shape (3,); None without a goal."""
    distance_m: float
    """Horizontal distance to the goal [m]; 0 without a goal."""
    approach_m: float
    """Decrease of that distance in the step [m]."""
    reached: bool
    """True within the radius of the goal."""
    fell: bool
    """True if the vehicle lies on its side or is below the world."""


Reward = Callable[[Outcome], float]
Terminated = Callable[[Outcome], bool]

COLLISION, REACHED, STEP = -10.0, 10.0, -0.01


def progress(outcome: Outcome) -> float:
    """Default reward: metres of approach to the goal, 10 at the goal, -10 for a collision or fall, -0.01 per step.

    Without a goal, distance travelled replaces the approach.
    """
    gained = outcome.travelled_m if outcome.goal is None else outcome.approach_m
    bad = bool(outcome.collisions) or outcome.fell
    return gained + STEP + (REACHED if outcome.reached else 0.0) + (COLLISION if bad else 0.0)


def finished(outcome: Outcome) -> bool:
    """Default end of an episode: goal, collision or fall."""
    return outcome.reached or outcome.fell or bool(outcome.collisions)


# ---- environment -----------------------------------------------------------------------------------------------------


class ScenarioEnv(gymnasium.Env[Observation, NDArray[np.float32]]):
    """Environment of a scenario file or of its fields.

    Observations are a dictionary with one entry for each sensor (see `OBSERVATIONS`) and `goal`, the position of the
    goal in the vehicle frame [m]. Actions are the commands of the vehicle (see `ACTIONS`). World, ray scenes and
    kernels are made once; a reset moves the vehicle and advances one period at rest.

    Args:
        scenario: Path or fields of a scenario file.
        vehicle: Name of the vehicle that the agent drives; the first one by default.
        sensors: Sensors to observe instead of those of the scenario: preset or fields by name, or a list of names of
            the scenario's sensors and of presets. New sensors are mounted as the first one of the vehicle.
        period_s: Time between observations [s], a multiple of the scenario's step.
        duration_s: Length of an episode [s], after which it is truncated; that of the scenario by default.
        start: "random" (in free space), or "scenario" for the start in the file. Vehicles that do not drive on the
            ground always use the latter.
        goal: "random", a position (x, y) [m], or None for no goal.
        goal_distance_m: Smallest and largest distance of a random goal from the start [m].
        goal_radius_m: Distance at which the goal is reached [m].
        reward: Function of an `Outcome`; `progress` by default.
        terminated: Function of an `Outcome` that returns True at the end of an episode; `finished` by default.
        area_m: x and y of the lower and the upper corner of the area for starts and goals [m]; by default 120 m by
            120 m around the vehicle's start in the scenario.
        azimuths: Largest number of columns of the range images of lidars.
        render_mode: None, or "rgb_array" for pictures of the map.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012  as in the base class
        "render_modes": ["rgb_array"],
        "render_fps": 10,
    }

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any],
        *,
        vehicle: str | None = None,
        sensors: Sensors | None = None,
        period_s: float = 0.1,
        duration_s: float | None = None,
        start: Place = "random",
        goal: Literal["random"] | Sequence[float] | None = "random",
        goal_distance_m: tuple[float, float] = (4.0, 15.0),
        goal_radius_m: float = 0.5,
        reward: Reward = progress,
        terminated: Terminated = finished,
        area_m: tuple[float, float, float, float] | None = None,
        azimuths: int = 360,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise unknown_name("render_mode", str(render_mode), self.metadata["render_modes"])
        settings, folder, source = _settings(scenario)
        self.vehicle = _driven(settings, vehicle, source)
        self.period_s, self._ticks = _period(period_s, settings.step_s, source)
        length_s = settings.duration_s if duration_s is None else duration_s
        self._periods = max(1, round(length_s / period_s))
        if sensors is not None:
            settings = _with_sensors(settings, sensors, self.vehicle, source)
        settings = _for_agent(settings, self.vehicle, (self._periods + 1) * period_s)
        self.scenario = Scenario(settings, folder, source)
        """The scenario; its world may be edited between episodes."""
        body = self.scenario.bodies[self.vehicle]
        assert isinstance(body, DrivenBody)
        sheet: Any = body.vehicle.config  # type: ignore[attr-defined]
        self._body, self._actions, self._size_m = body, actions_of(sheet), sheet.size_m
        self._drives = isinstance(body.vehicle, Car | DifferentialDrive)
        self._start: Place = start if self._drives else "scenario"
        self._goal_is, self._goal_distance_m, self._goal_radius_m = goal, goal_distance_m, goal_radius_m
        self._reward, self._terminated = reward, terminated
        self.render_mode, self._area_m = render_mode, area_m
        self._own_start = next(one.start.pose() for one in settings.vehicles if one.name == self.vehicle)
        self._free: FreeSpace | None = None
        self._labels = {item.name: item.label for item in self.scenario.world.objects}
        self._readings = self._read_spaces(azimuths)
        entries: dict[str, spaces.Space[Any]] = {name: one.space for name, one in self._readings.items()}
        if goal is not None:
            entries["goal"] = spaces.Box(-_FAR_M, _FAR_M, (2,), np.float32)
        self.observation_space = spaces.Dict(entries)
        self.action_space = self._actions.space  # type: ignore[assignment]
        self._key: int | None = None
        self._episode = 0
        self._walk: Iterator[Step] | None = None
        self._boundary_s = 0.0
        self.path: list[Floats] = []
        """Positions of the vehicle [m] in this episode, one per period."""
        self.goal: Floats | None = None
        """Position of the goal [m], shape (3,); None without a goal."""
        self.outcome: Outcome | None = None
        """Outcome of the last step: true state and records."""

    # ---- gymnasium -------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; the same seed gives the same episode, and the episodes after it.

        Args:
            seed: Seed of start, goal and all noise; by default that of the last call, with the next episode's number.
            options: `start`, (x, y, heading_deg), and `goal`, (x, y), replace those of the environment.
        """
        super().reset(seed=seed)
        if seed is not None or self._key is None:
            self._key, self._episode = (self.np_random_seed if seed is None else seed) % 2**64, 0
        else:
            self._episode += 1
        draw = Stream(self._key, "gym/episode", self._episode).generator()
        self.scenario.seed = int(draw.integers(2**63))
        pose, self.goal = self._drawn(draw, options or {})
        self.scenario.place(self.vehicle, pose)
        self._observed = {name: one.blank for name, one in self._readings.items()}
        self._records: dict[str, Any] = {}
        self.path, self._passed, self._boundary_s = [np.array(pose.xyz)], 0, 0.0
        self._walk = self.scenario.walk(self._is_latest)
        self.outcome = self._advance(None)
        return self._observation(), self._info(self.outcome)

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Follow an action for one period."""
        if self._walk is None or self._passed > self._periods:
            raise ConfigError("step: the episode has ended; call reset first")
        self.outcome = outcome = self._advance(self._actions.command(action))
        reward, terminated = float(self._reward(outcome)), bool(self._terminated(outcome))
        truncated = self._passed > self._periods
        return self._observation(), reward, terminated, truncated, self._info(outcome)

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        """Picture of the map with path, goal and the points of lidars, shape (h, w, 3); None without a render mode."""
        if self.render_mode is None:
            return None
        clouds = [one.in_world().xyz for one in self._records.values() if hasattr(one, "in_world")]
        return np.asarray(map_picture(self.free_space, self.path, goal=self.goal, clouds=clouds))

    @property
    def free_space(self) -> FreeSpace:
        """Free ground around the vehicle's start in the scenario, measured on first use."""
        if self._free is None:
            _, width, height = self._size_m
            x, y = self._own_start.xyz[:2].tolist()
            area = self._area_m or (x - _AREA_M, y - _AREA_M, x + _AREA_M, y + _AREA_M)
            top = max([height, *(float(one.mount.xyz[2]) for one in self.scenario.sensors if one.body is self._body)])
            cell = float(np.clip(width / 5.0, 0.1, 0.25))
            self._free = FreeSpace.of(self.scenario.world, height_m=top, cell_m=cell, area_m=area)
        return self._free

    # ---- episodes --------------------------------------------------------------------------------------------------

    def _drawn(self, draw: np.random.Generator, options: Mapping[str, Any]) -> tuple[Pose, Floats | None]:
        """Start and goal of an episode."""
        length, width, _ = self._size_m
        radius = 0.5 * math.hypot(length, width) + _MARGIN_M
        start, goal = options.get("start"), options.get("goal", self._goal_is)
        for _ in range(_MOST_TRIES):
            pose = self._own_start
            if start is not None:
                pose = self._at(*start)
            elif self._start == "random":
                places = self.free_space.places(radius)
                pose = self._standing(places[draw.integers(len(places))], float(draw.uniform(-math.pi, math.pi)))
            if goal is None:
                return pose, None
            if not isinstance(goal, str):
                x, y = (float(one) for one in goal[:2])
                return pose, np.array([x, y, self.free_space.height_at(x, y) if self._drives else pose.xyz[2]])
            places = self.free_space.places(radius)
            away = np.hypot(*(places[:, :2] - pose.xyz[:2]).T)
            low, high = self._goal_distance_m
            found = np.flatnonzero((away >= low) & (away <= high))
            if len(found):
                return pose, places[found[draw.integers(len(found))]]
        raise ConfigError(
            f"goal_distance_m: no free place {self._goal_distance_m} m from a start; change the distances"
        )

    def _standing(self, xyz: ArrayLike, yaw: float) -> Pose:
        """Pose at a position on the ground; a vehicle in contact is held above slopes, and put down by its driver."""
        lift = 0.5 * STEEPEST * self._size_m[0]
        above = (0.0, 0.0, lift if isinstance(self._body.driver, ContactDriver) else 0.0)
        return Pose(xyz=np.asarray(xyz, np.float64) + above, rpy_deg=(0.0, 0.0, math.degrees(yaw)))

    def _at(self, x: float, y: float, heading_deg: float = 0.0) -> Pose:
        height = self.free_space.height_at(x, y)
        if math.isnan(height):
            raise ConfigError(f"start: no ground at ({x:g}, {y:g}); choose a place in the world")
        return self._standing((x, y, height), math.radians(heading_deg))

    def _advance(self, command: Command | None) -> Outcome:
        """Advance by one period and read the sensors."""
        assert self._walk is not None
        before = self.path[-1]
        self._passed += 1
        self._boundary_s = self._passed * self.period_s
        collisions = []
        if command is not None:
            self.scenario.command(self.vehicle, command)
        for _ in range(self._ticks):
            step = next(self._walk)
            collisions += [one for one in step.collisions if one.body == self.vehicle]
            for name, frames in step.frames.items():
                self._take(name, frames[-1][1])
        for name, samples in step.new_samples().items():
            self._take(name, samples)
        state = self._body.motion.latest()
        self.path.append(state.xyz[0])
        rotation = matrix(tuple(state.quat_xyzw[0].tolist()))  # type: ignore[arg-type]
        moved = state.xyz[0] - before
        distance, last = (0.0, 0.0) if self.goal is None else (self._away(state.xyz[0]), self._away(before))
        bounds = self.scenario.world.bounds
        lowest = -math.inf if bounds is None else float(bounds[0][2]) - 1.0
        return Outcome(
            time=step.time - self.period_s,
            state=state,
            command=command,
            records=self._records,
            collisions=tuple(one for one in collisions if self._labels.get(one.other, one.other) not in GROUND_LABELS),
            travelled_m=math.copysign(float(np.linalg.norm(moved)), float(moved @ np.array(rotation)[[0, 3, 6]])),
            goal=self.goal,
            distance_m=distance,
            approach_m=last - distance,
            reached=self.goal is not None and distance <= self._goal_radius_m,
            fell=rotation[8] < OVERTURNED or float(state.xyz[0, 2]) < lowest,
        )

    def _take(self, name: str, record: Any) -> None:
        self._observed[name] = self._readings[name].read(self._observed[name], record)
        self._records[name] = record

    def _is_latest(self, sensor: str, number: int) -> bool:
        """True for the last frame of a sensor in the period; earlier ones are not measured."""
        one = self._frames[sensor]
        return one.start(number + 1) + one.length_s > self._boundary_s + 1e-9

    def _away(self, xyz: Floats) -> float:
        assert self.goal is not None
        return float(math.hypot(*(self.goal[:2] - xyz[:2])))

    # ---- observations ----------------------------------------------------------------------------------------------

    def _read_spaces(self, azimuths: int) -> dict[str, Reading]:
        """Observation of each sensor, from one measurement at the start."""
        found = {}
        self._frames = {one.name: one for one in self.scenario.frame_sensors}
        for one in self.scenario.sensors:
            function = OBSERVATIONS.require(one.record_type)
            if isinstance(one, StreamOnBoard):
                rows = max(1, round(float(one.sensor.rate_hz) * self.period_s))
                example: Any = one.example(self.scenario.world, self.scenario.seed)
            else:
                rows, example = 1, one.measure(self.scenario.world, 0, self.scenario.seed)
            found[one.name] = function(one.sensor, example, Options(rows=rows, azimuths=azimuths))
        return found

    def _observation(self) -> Observation:
        assert self.outcome is not None
        observed = dict(self._observed)
        if "goal" in self.observation_space.spaces:  # type: ignore[attr-defined]
            state, goal = self.outcome.state, self.goal
            away = np.zeros(3) if goal is None else goal - state.xyz[0]
            yaw = heading(tuple(state.quat_xyzw[0].tolist()))  # type: ignore[arg-type]
            c, s = math.cos(yaw), math.sin(yaw)
            ahead = (c * away[0] + s * away[1], c * away[1] - s * away[0])
            observed["goal"] = np.clip(np.array(ahead), -_FAR_M, _FAR_M).astype(np.float32)
        return observed

    def _info(self, outcome: Outcome) -> dict[str, Any]:
        state = outcome.state
        return {
            "time_s": outcome.time,
            "xyz": np.array(state.xyz[0]),
            "heading_rad": heading(tuple(state.quat_xyzw[0].tolist())),  # type: ignore[arg-type]
            "distance_m": outcome.distance_m,
            "reached": outcome.reached,
            "collision": outcome.collisions[0].other if outcome.collisions else "",
        }


# ---- settings -------------------------------------------------------------------------------------------------------


def _settings(scenario: str | PathLike[str] | Mapping[str, Any]) -> tuple[ScenarioFile, Path, str]:
    if isinstance(scenario, Mapping):
        return config.parse(ScenarioFile, dict(scenario), "scenario"), Path(), "scenario"
    file = Path(scenario)
    return config.load(ScenarioFile, file), file.parent, str(scenario)


def _driven(settings: ScenarioFile, vehicle: str | None, source: str) -> str:
    """Name of the agent's vehicle."""
    names = [one.name for one in settings.vehicles if one.motion is None and one.dynamics != "external"]
    if not names:
        raise ConfigError(f"{source}: vehicles: an environment needs a vehicle with a model to drive")
    if vehicle is not None and vehicle not in names:
        raise unknown_name(f"{source}: vehicle", vehicle, names)
    return names[0] if vehicle is None else vehicle


def _period(period_s: float, step_s: float, source: str) -> tuple[float, int]:
    ticks = round(period_s / step_s)
    if ticks < 1 or abs(ticks * step_s - period_s) > 1e-9:
        raise ConfigError(f"period_s: must be a multiple of step_s ({step_s:g} s) of {source}, got {period_s:g}")
    return ticks * step_s, ticks


def _for_agent(settings: ScenarioFile, vehicle: str, duration_s: float) -> ScenarioFile:
    """Settings of the length of an episode, in which the agent's vehicle follows commands only."""

    def alone(one: VehicleEntry) -> VehicleEntry:
        return one.model_copy(update={"follow": None}) if one.name == vehicle else one

    return settings.model_copy(update={"duration_s": duration_s, "vehicles": [alone(one) for one in settings.vehicles]})


def _with_sensors(settings: ScenarioFile, sensors: Sensors, vehicle: str, source: str) -> ScenarioFile:
    """Settings with other sensors."""
    known = {one.name: one for one in settings.sensors}
    mount = next((one.mount for one in settings.sensors if one.vehicle == vehicle), None)
    entries = []
    for name, given in _named(sensors, known):
        if isinstance(given, SensorEntry):
            entries.append(given)
            continue
        fields = {"model": given} if isinstance(given, str) else dict(given)
        place = {} if mount is None else {"mount": mount.model_dump()}
        if "type" not in fields and "model" in fields:
            fields["type"] = find_kind(fields["model"]).name
        entries.append(
            config.parse(
                SensorEntry, {"name": name, "vehicle": vehicle, **place, **fields}, f"{source}: sensors: {name}"
            )
        )
    if not entries:
        raise ConfigError("sensors: give at least one sensor")
    return settings.model_copy(update={"sensors": entries})


def _named(
    sensors: Sensors, known: Mapping[str, SensorEntry]
) -> Iterator[tuple[str, SensorEntry | str | Mapping[str, Any]]]:
    """Names of sensors, and their entries, presets or fields."""
    if isinstance(sensors, str):
        raise ConfigError(f"sensors: expected a list or a mapping, got {sensors!r}")
    if isinstance(sensors, Mapping):
        yield from sensors.items()
        return
    for one in sensors:
        if one in known:
            yield one, known[one]
        else:
            yield find_kind(one).name, one


# ---- registered environments and their scenarios ---------------------------------------------------------------------

DYNAMICS = "rays"
"""Value of `dynamics` for vehicles that wheels carry and walls stop."""


def _scenario(world: Any, model: str, lidar: str, mount: tuple[float, float, float], **options: Any) -> dict[str, Any]:
    """Scenario with one vehicle that carries a lidar."""
    return {
        "duration_s": 60.0,
        "step_s": 0.05,
        "world": world,
        "vehicles": [{"name": "robot", "model": model, "dynamics": DYNAMICS, "start": {"xyz": [0, 0, 0.2]}}],
        "sensors": [
            {
                "name": "lidar",
                "type": "lidar",
                "model": lidar,
                "vehicle": "robot",
                "mount": {"xyz": list(mount)},
                "options": options,
            }
        ],
    }


# Three rays per beam: edges give mixed returns as with all 25, in about half of the time.
WAREHOUSE = _scenario("warehouse", "clearpath/husky", "velodyne/vlp-16", (0.08, 0.0, 0.72), sub_rays=3)
"""A Husky with a VLP-16 in the warehouse."""
CITY = _scenario("city", "bmw/320i", "velodyne/vlp-16", (0.0, 0.0, 1.9), sub_rays=3)
"""A car with a VLP-16 in the city."""
OFF_ROAD = _scenario("off-road", "clearpath/husky", "velodyne/vlp-16", (0.08, 0.0, 0.72), sub_rays=3)
"""A Husky with a VLP-16 in open country."""

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "parhelion/Warehouse-v0": {"scenario": WAREHOUSE, "goal_distance_m": (4.0, 15.0)},
    "parhelion/City-v0": {"scenario": CITY, "goal_distance_m": (15.0, 60.0), "goal_radius_m": 2.0},
    "parhelion/OffRoad-v0": {"scenario": OFF_ROAD, "goal_distance_m": (10.0, 40.0), "goal_radius_m": 1.0},
}
"""Arguments of `ScenarioEnv` by identifier."""


def register() -> None:
    """Register the environments; `import parhelion.gym` calls this."""
    for name, arguments in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point="parhelion.gym.env:ScenarioEnv", kwargs=arguments)


# ---- picture of the map ----------------------------------------------------------------------------------------------


BLOCKED, LOW, HIGH = (38, 42, 50), (150, 158, 140), (238, 234, 220)
"""Colours of blocked ground, and of the lowest and highest free ground."""
PATH, GOAL, START, POINT = (214, 39, 40), (44, 160, 44), (31, 119, 180), (20, 60, 200)
_LONGEST = 900


def ground_image(space: FreeSpace) -> NDArray[np.uint8]:
    """Colour of each cell by height, dark where it is blocked or out of reach, shape (ny, nx, 3); y points up."""
    free = space.reachable()
    low, high = (np.nanpercentile(space.height[free], share) for share in (1.0, 99.0))
    share = np.clip((np.nan_to_num(space.height) - low) / max(high - low, 0.5), 0.0, 1.0)[..., None]
    colour = np.where(free[..., None], (1.0 - share) * np.array(LOW) + share * np.array(HIGH), np.array(BLOCKED))
    return np.asarray(colour.transpose(1, 0, 2)[::-1], np.uint8)


def map_picture(
    space: FreeSpace,
    path: Sequence[ArrayLike] | Floats,
    *,
    goal: ArrayLike | None = None,
    clouds: Sequence[NDArray[Any]] = (),
    longest: int = _LONGEST,
    file: str | PathLike[str] | None = None,
) -> Any:
    """Picture (PIL) of the map with a path, its start, the goal and points; `file` writes it as well.

    Args:
        space: Free ground.
        path: Positions [m], shape (n, 2) or (n, 3).
        goal: Position of the goal [m].
        clouds: Points in the world [m], each of shape (n, 3).
        longest: Pixels of the longer side.
        file: Image file to write.
    """
    from PIL import Image, ImageDraw

    ground = Image.fromarray(ground_image(space))
    scale = longest / max(ground.size)
    image = ground.resize((round(ground.width * scale), round(ground.height * scale)))
    draw, top = ImageDraw.Draw(image), space.low[1] + space.height.shape[1] * space.cell_m
    per_metre = scale / space.cell_m

    def pixels(points: ArrayLike) -> list[tuple[float, float]]:
        xy = np.asarray(points, np.float64).reshape(-1, np.shape(points)[-1])[:, :2]
        x, y = (xy[:, 0] - space.low[0]) * per_metre, (top - xy[:, 1]) * per_metre
        return list(zip(x.tolist(), y.tolist(), strict=True))

    for cloud in clouds:
        if len(cloud):
            draw.point(pixels(cloud), fill=POINT)
    if len(path) > 1:
        draw.line(pixels(np.asarray(path)), fill=PATH, width=max(2, round(0.004 * longest)), joint="curve")
    for place, colour in ((path[0] if len(path) else None, START), (goal, GOAL)):
        if place is not None:
            x, y = pixels(np.asarray(place)[None])[0]
            size = 0.009 * longest
            draw.ellipse((x - size, y - size, x + size, y + size), fill=colour, outline=(255, 255, 255), width=2)
    if file is not None:
        image.save(file)
    return image
