"""View sources of simulated clouds: a world with a lidar, and a scenario. `recordings.py` has the recorded ones."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from parhelion.contact.bodies import Collision
from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError
from parhelion.core.image import Image
from parhelion.core.pose import Pose, quat_rotate
from parhelion.core.streams import Samples
from parhelion.core.trajectory import Fixed, Mounted, Trajectory, pose_at
from parhelion.live.viewer.colours import IN_THE_AIR
from parhelion.live.viewer.frames import CameraFrame, Cameras, Points
from parhelion.live.viewer.layers import VIEWER, Dots, Segments, collision_marks
from parhelion.live.viewer.opening import free_place
from parhelion.pictures.camera import image_colours
from parhelion.scenario.scenario import Scenario, Step
from parhelion.scenario.sensors import FrameOnBoard
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.weather import Weather, media
from parhelion.weather.ground import AMOUNTS as GROUND
from parhelion.world.world import World

# ---- a subset of the beams of a scan as lines, which show the field of view -----------------------------------------


BEAM_COUNT = 144
LOST_LENGTH_M = 12.0
"""Displayed length of a beam without a return [m]."""
_GOLDEN = 0.618033988749895


@dataclass(frozen=True, eq=False)
class Beams:
    """Lines from the sensor to the returns."""

    ends: NDArray[np.float64]
    """Start and end in the world [m], shape (n, 2, 3)."""
    point: NDArray[np.int64]
    """Row of the point at the end, -1 for a lost shot, shape (n,)."""


def beams_of(scan: Scan, count: int = BEAM_COUNT) -> Beams:
    """At most `count` beams of a scan, spread over its shots without a visible pattern."""
    total = len(scan.shots)
    # Steps by the golden ratio are incommensurate with the number of rings, so all rings and directions are sampled.
    rows = np.unique((np.mod(np.arange(min(count, total)) * _GOLDEN, 1.0) * total).astype(np.int64))
    first_point = np.full(total, -1, dtype=np.int64)
    first_point[scan.fields["shot"][::-1]] = np.arange(len(scan))[::-1]
    point = first_point[rows]
    begin = scan.shots.origin[rows].astype(np.float64)
    end = begin + LOST_LENGTH_M * scan.shots.direction[rows]
    met = point >= 0
    end[met] = scan.xyz[point[met]]
    position, turn = scan.motion.sample(scan.start_time + scan.shots.time[rows].astype(np.float64))
    ends = np.stack([quat_rotate(turn, local) + position for local in (begin, end)], axis=1)
    return Beams(ends, point)


# ---- stages ---------------------------------------------------------------------------------------------------------


PLACED_AHEAD_M = 15.0
"""Distance [m] of a part placed by a slider, such as a dust cloud, ahead of the initial sensor position."""
PLACED_HALF_SIZE_M = (12.0, 12.0, 5.0)
CLOCK_S = 60.0
"""Length of the time slider [s] for worlds without a finite path."""
READING_S = 0.1
"""Reading interval of the other sensors [s]."""
MARKED_S = 1.0
"""Time [s] for which a collision is marked."""
_LIDARS_KEPT = 3

Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Request:
    """Requested measurement. Equal requests give equal clouds."""

    place: str = ""
    """Name of the lidar in a scenario; empty for other sources."""
    model: str = ""
    """Preset or data sheet of the lidar."""
    mount_xyz: Triple = (0.0, 0.0, 0.0)
    """Position of the lidar on its vehicle or in the world [m]."""
    mount_rpy_deg: Triple = (0.0, 0.0, 0.0)
    time_s: float = 0.0
    amounts: tuple[tuple[str, float], ...] = ()
    """Names of media and their amounts, which replace those of the world's weather. For a placed medium, such as dust,
    the amount of one additional part."""
    pictures: bool = True
    """True if the cameras of a scenario take images."""
    daylight: tuple[tuple[str, float], ...] = ()
    """Fields of daylight and their values, in a stream."""
    points_over: bool = False
    """True if the cloud is projected onto the images."""
    hidden: tuple[str, ...] = ()
    """Names of the lidars that are not shown."""

    @property
    def mount(self) -> Pose:
        """Mount as a pose."""
        return Pose(self.mount_xyz, rpy_deg=self.mount_rpy_deg)


@dataclass(frozen=True, eq=False)
class ViewFrame:
    """Cloud to show, with its sensor pose."""

    cloud: PointCloud
    """Points in the world frame, or in the frame of a recording."""
    time_s: float = 0.0
    pose: Pose | None = None
    """Sensor pose at the start of the scan; None for recordings."""
    beams: Beams | None = None
    shots: int = 0
    """Number of shots; 0 if unknown."""
    seconds: float = 0.0
    """Duration of the measurement [s]."""
    offset: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    """Offset subtracted from all coordinates on the screen [m], because GPUs use single precision."""
    notes: tuple[str, ...] = ()
    pictures: tuple[CameraFrame, ...] = ()
    """Images of cameras."""
    segments: tuple[Segments, ...] = ()
    """Lines of other sensors."""
    dots: tuple[Dots, ...] = ()
    """Points of other sensors."""
    drawings: tuple[tuple[str, str], ...] = ()
    """SVG drawings for the panel, by sensor."""
    air: tuple[tuple[str, float], ...] = ()
    """Values that the sliders of weather and daylight show, if something else may change them."""


@dataclass(frozen=True, eq=False)
class PlainBody:
    """Box on the screen for a vehicle without a body; no sensor sees it."""

    name: str
    size_m: Triple
    motion: Trajectory


PLAIN_SIZE_M: Triple = (0.8, 0.5, 0.3)
"""Size of the box of a vehicle without a data sheet [m]."""


def plain_bodies(scenario: Scenario, models: Mapping[str, str | None]) -> tuple[PlainBody, ...]:
    """Boxes for the vehicles that have neither body nor URDF; `models` are the names of their data sheets."""
    from parhelion.motion.vehicles.library import vehicle_sheet
    from parhelion.scenario.bodies import model_in

    found = []
    for entry in scenario.settings.vehicles:
        if entry.body is None and entry.urdf is None:
            model = models.get(entry.name)
            sheet = None if model is None else vehicle_sheet(model_in(scenario.folder, model))
            size = PLAIN_SIZE_M if sheet is None else tuple(float(v) for v in sheet.size_m)
            found.append(PlainBody(entry.name, size, scenario.bodies[entry.name].motion))  # type: ignore[arg-type]
    return tuple(found)


class ViewSource(Protocol):
    """Source of a view."""

    title: str
    world: World | None
    duration_s: float
    """Duration [s]; 0 for a source without time."""
    places: dict[str, Request]
    """Lidars by name in their initial state; empty for recordings."""
    cameras: tuple[str, ...]
    """Names of cameras whose images are shown."""
    lidars: tuple[str, ...]
    """Names of lidars that are shown together, if there are several."""
    media: tuple[str, ...]
    """Names of the media with a slider."""
    base_weather: Weather | None
    """Weather without the changes of the sliders."""
    plain_bodies: tuple[PlainBody, ...]
    """Vehicles without a body of their own."""

    def measure(self, request: Request) -> ViewFrame:
        """Measure the requested cloud."""
        ...

    def scan_start(self, request: Request) -> float:
        """Start [s] of the scan that covers the requested time."""
        ...

    def period_s(self, request: Request) -> float:
        """Time between scans [s]."""
        ...


class LidarCache:
    """Cache of the most recent lidars by model and name."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Lidar] = {}

    def put(self, name: str, lidar: Lidar) -> None:
        """Add an existing lidar."""
        self._kept[lidar.model, name] = lidar

    def get(self, model: str, name: str = "") -> Lidar:
        """Return the cached lidar, or create it."""
        lidar = self._kept.pop((model, name), None) or Lidar(model, name=name)
        self._kept[model, name] = lidar
        while len(self._kept) > _LIDARS_KEPT:
            del self._kept[next(iter(self._kept))]
        return lidar


def weather_of(base: Weather | None, request: Request, placed_at: Triple) -> Weather | None:
    """Weather of the world with the changes of the request."""
    weather = base if base is not None else Weather()
    for name, value in request.amounts:
        if name in GROUND:
            weather = weather.replace(**{name: value})
            continue
        medium = media.table()[name]
        if medium.place is None:
            weather = weather.replace(**{medium.amount.short: None if value == medium.amount.clear else value})
        elif value != medium.amount.clear:
            part = medium.place(placed_at, PLACED_HALF_SIZE_M, value)
            weather = weather.replace(**{name: [*getattr(weather, name), part]})
    stated = any(getattr(weather, name) is not None for name in GROUND)
    return None if weather.is_clear() and not stated else weather


def joined(clouds: Mapping[str, PointCloud]) -> PointCloud:
    """Clouds of several lidars as one, with their common fields and the field `lidar`; a single one is unchanged."""
    parts = list(clouds.values())
    if len(parts) == 1:
        return parts[0]
    shared = [
        name
        for name, values in parts[0].fields.items()
        if all(name in one.fields and one.fields[name].shape[1:] == values.shape[1:] for one in parts)
    ]
    fields = {name: np.concatenate([one.fields[name] for one in parts]) for name in shared}
    fields["lidar"] = np.repeat(np.arange(len(parts), dtype=np.uint8), [len(one) for one in parts])
    names: dict[str, dict[int, str]] = {"lidar": dict(enumerate(clouds))}
    for one in parts:
        for field_name, words in one.names.items():
            names.setdefault(field_name, {}).update(words)
    xyz = np.concatenate([np.asarray(one.xyz, np.float64) for one in parts])
    return PointCloud(xyz, fields, parts[0].frame, names, parts[0].metadata)


class WorldStage:
    """World with one lidar, at a given pose or on the path of the world."""

    cameras: tuple[str, ...] = ()
    lidars: tuple[str, ...] = ()
    plain_bodies: tuple[PlainBody, ...] = ()

    def __init__(self, world: World, model: str, *, pose: Pose | None = None, time: float = 0.0, seed: int = 0) -> None:
        self.world: World | None = world
        self._world, self._seed = world, seed
        self.title = world.name or "world"
        self._lidars = LidarCache()
        self._lidars.get(model)
        rides = pose is None and world.path is not None
        self._rides = rides
        self._body: Trajectory = world.path if rides and world.path is not None else Fixed(Pose())
        mount = Pose() if rides else free_place(world) if pose is None else pose
        times = getattr(world.path, "times", None) if rides else None
        ends = math.floor(100.0 * float(times[-1])) / 100.0 if times is not None else CLOCK_S
        self.duration_s = max(ends, float(time))
        first = _request("", model, mount, time)
        self.places, self._opened_at = {"": first}, mount
        self.media = tuple(media.table())
        self.base_weather = world.weather
        self._placed_at = _ahead(pose_at(Mounted(self._body, mount), 0.0))

    def lidar_of(self, request: Request) -> Lidar:
        """Lidar of a request."""
        return self._lidars.get(request.model)

    @property
    def viewpoint(self) -> Pose | None:
        """Pose of the lidar in the world; None if it drives along the path of the world."""
        return None if self._rides else self.places[""].mount

    def replace_world(self, world: World, viewpoint: Pose | None = None) -> None:
        """Show another version of the world, with the lidar at a new viewpoint or where it was at first."""
        self.world = self._world = world
        if not self._rides:
            first = self.places[""]
            self.places = {"": _request("", first.model, viewpoint or self._opened_at, first.time_s)}

    def period_s(self, request: Request) -> float:
        """Time between scans [s]."""
        return 1.0 / self._lidars.get(request.model).rate_hz

    def scan_start(self, request: Request) -> float:
        """Start [s] of the scan that covers the requested time."""
        period = self.period_s(request)
        return math.floor(request.time_s / period + 1e-6) * period

    def measure(self, request: Request) -> ViewFrame:
        """One scan."""
        self._world.weather = weather_of(self.base_weather, request, self._placed_at)
        lidar = self._lidars.get(request.model)
        motion = Mounted(self._body, request.mount)
        begun = clock.perf_counter()
        scan = lidar.scan(self._world, trajectory=motion, time=request.time_s, seed=self._seed)
        return measured(scan, begun)


class _DrivenStage:
    """Common part of scenario sources: cameras, and vehicles that are advanced on demand."""

    def __init__(self, scenario: Scenario, title: str, batch_s: float = 0.0) -> None:
        self._scenario = scenario
        self.world: World | None = scenario.world
        self.title = scenario.settings.name or title or "scenario"
        self.media = tuple(media.table())
        self.lidars: tuple[str, ...] = ()
        self.plain_bodies = plain_bodies(scenario, {entry.name: entry.model for entry in scenario.settings.vehicles})
        self.duration_s = scenario.duration_s
        self.base_weather = scenario.world.weather
        self._cameras = Cameras(scenario)
        self.cameras: tuple[str, ...] = self._cameras.names
        self._walk: Iterator[Any] = scenario.walk(lambda sensor, number: False, batch_s=batch_s)
        self._walked_s = 0.0
        self._hits: list[tuple[float, Collision]] = []

    def _drive_until(self, time: float) -> None:
        """Advance the vehicles; their motion is stored, so going back in time is free."""
        while self._walked_s < time - 1e-12:
            step = next(self._walk, None)
            if step is None:
                return
            self._walked_s = step.time
            self._hits += [(step.time, one) for one in step.collisions]
            self._took(step)

    def _with_collisions(self, found: ViewFrame, time: float) -> ViewFrame:
        """Add marks and lines of text for the collisions within `MARKED_S` before a time [s]."""
        recent = [(at, one) for at, one in self._hits if time - MARKED_S < at <= time + 1e-9]
        if not recent:
            return found
        last = {(one.body, one.other): (at, one) for at, one in recent}
        notes = [
            f"collision: {one.body} and {one.other} at {at:.2f} s, {one.impulse_n_s:.3g} N s"
            for at, one in last.values()
        ]
        marks, arrows = collision_marks([one for _, one in last.values()])
        return replace(
            found, notes=(*notes, *found.notes), dots=(*found.dots, marks), segments=(*found.segments, arrows)
        )

    def _took(self, step: Step) -> None:
        """Store the data of a step."""


class ScenarioStage(_DrivenStage):
    """Scenario; scans equal those of `parhelion run` unless model, mount or weather is changed."""

    def __init__(self, scenario: Scenario, title: str = "", *, time: float = 0.0) -> None:
        if not scenario.giving(Scan):
            raise ConfigError(f"{scenario.source}: has no lidar, so there is no cloud to show")
        super().__init__(scenario, title, READING_S)
        self._scanners = {scanner.name: scanner for scanner in scenario.giving(Scan)}
        self._lidars = {name: LidarCache() for name in self._scanners}
        self.places = {}
        for name, scanner in self._scanners.items():
            self._lidars[name].put(name, scanner.sensor)
            self.places[name] = _request(
                name, scanner.sensor.model, scanner.mount, min(float(time), scenario.duration_s)
            )
        self._points = Points(scenario)
        self._samples: dict[str, list[Samples]] = {sensor.name: [] for sensor in scenario.stream_sensors}
        first = next(iter(self._scanners.values()))
        self.lidars = tuple(self._scanners) if len(self._scanners) > 1 else ()
        self._placed_at = _ahead(pose_at(first.motion, 0.0))

    def lidar_of(self, request: Request) -> Lidar:
        """Lidar of a request."""
        return self._lidar(request)[1]

    def _lidar(self, request: Request) -> tuple[FrameOnBoard, Lidar]:
        return self._scanners[request.place], self._lidars[request.place].get(request.model, request.place)

    def period_s(self, request: Request) -> float:
        """Time between scans [s]."""
        return 1.0 / self._lidar(request)[1].rate_hz

    def _number(self, request: Request) -> int:
        scanner, lidar = self._lidar(request)
        number = math.floor((request.time_s - scanner.entry.phase_s) * lidar.rate_hz + 1e-6)
        last = math.floor((self.duration_s - scanner.entry.phase_s - _length_s(lidar)) * lidar.rate_hz + 1e-9)
        return max(0, min(number, last))

    def scan_start(self, request: Request) -> float:
        """Start [s] of the scan that covers the requested time; the last scan ends before the scenario."""
        return self._scanners[request.place].entry.phase_s + self._number(request) * self.period_s(request)

    def measure(self, request: Request) -> ViewFrame:
        """Measure one scan of each shown lidar, numbered as in a run of the scenario."""
        begun = clock.perf_counter()
        shown = [name for name in self._scanners if name not in request.hidden or name == request.place]
        others = [replace(self.places[name], time_s=request.time_s) for name in shown if name != request.place]
        start = self.scan_start(request)
        over = self._cameras.over_at(start) if request.pictures else 0.0
        ends = [self.scan_start(one) + _length_s(self._lidar(one)[1]) for one in (request, *others)]
        self._drive_until(max(*ends, over, self._points.over_at(start)))
        self._scenario.world.weather = weather_of(self.base_weather, request, self._placed_at)
        found = measured(self._scan(request), begun)
        if others:
            of_others = {one.place: measured(self._scan(one)).cloud for one in others}
            found = replace(
                found,
                cloud=joined({name: of_others.get(name, found.cloud) for name in shown}),
                beams=None,
                seconds=clock.perf_counter() - begun,
            )
        shots = self._shots(request, found, start)
        found = self._with_readings(found, ends[0])
        points = list(self._points.at(start, request.amounts))
        described = [line for _, lines in points for line in lines]
        notes = [*found.notes, *described, *(line for shot in shots for line in shot.lines)]
        dots = tuple(one for one, _ in points)
        found = replace(found, notes=tuple(notes), pictures=shots, dots=dots)
        return self._with_collisions(found, ends[0])

    def _scan(self, request: Request) -> Scan:
        """Scan of the lidar of a request."""
        scanner, lidar = self._lidar(request)
        mount = request.mount
        if request == _request(request.place, lidar.model, scanner.mount, request.time_s, like=request):
            mount = scanner.mount  # not through angles, which would round it
        motion: Trajectory = Fixed(mount) if scanner.body is None else Mounted(scanner.body.motion, mount)
        return lidar.scan(
            self._scenario.world,
            trajectory=motion,
            time=self.scan_start(request),
            seed=self._scenario.seed,
            frame=self._number(request),
        )

    def _shots(self, request: Request, found: ViewFrame, start: float) -> tuple[CameraFrame, ...]:
        """Images that accompany a scan."""
        if not request.pictures:
            return ()
        return tuple(self._cameras.at(start, request.amounts, found.cloud.xyz if request.points_over else None))

    def _took(self, step: Step) -> None:
        for name, samples in step.new_samples().items():
            if len(samples):
                self._samples[name].append(samples)

    def _with_readings(self, found: ViewFrame, time: float) -> ViewFrame:
        """Add the latest data of the other sensors before a time [s]: text, lines and drawings."""
        lines: list[str] = []
        segments: list[Segments] = []
        drawings: list[tuple[str, str]] = []
        for sensor in self._scenario.stream_sensors:
            layer = VIEWER.get(sensor.record_type)
            before = [part for part in self._samples[sensor.name] if part.time[0] <= time]
            if layer is not None and before:
                latest = before[-1].select(before[-1].time <= time)
                lines += layer.lines(sensor.name, latest)
                drawn = None if layer.segments is None else layer.segments(latest)
                segments += [] if drawn is None else [drawn]
                text = "" if layer.drawing is None else layer.drawing(latest)
                drawings += [(sensor.name, text)] if text else []
        return replace(found, notes=tuple(lines), segments=tuple(segments), drawings=tuple(drawings))


def _request(place: str, model: str, mount: Pose, time: float, like: Request | None = None) -> Request:
    xyz, rpy = (tuple(float(round(v, 6)) for v in part) for part in (mount.xyz, mount.rpy_deg))
    fields: dict[str, Any] = {"place": place, "model": model, "mount_xyz": xyz, "mount_rpy_deg": rpy, "time_s": time}
    return replace(like or Request(), **fields)


def _length_s(lidar: Lidar) -> float:
    return float(lidar.shots(0.0).time.max(initial=0.0))


def _ahead(pose: Pose) -> Triple:
    x, y, z = (float(v) for v in pose.apply((PLACED_AHEAD_M, 0.0, 0.0)))
    return x, y, z


def measured(scan: Scan, begun: float | None = None) -> ViewFrame:
    """Scan in the world frame, with its beams; `begun` is the start of the measurement."""
    cloud = scan.in_world()
    names = {**cloud.names, "label": {0: IN_THE_AIR, **cloud.names.get("label", {})}}
    return ViewFrame(
        replace(cloud, names=names),
        time_s=scan.start_time,
        pose=scan.pose,
        beams=beams_of(scan),
        shots=len(scan.shots),
        seconds=0.0 if begun is None else clock.perf_counter() - begun,
    )


# ---- pictures stage -------------------------------------------------------------------------------------------------
# Scenario with cameras and no lidar: its images, and their pixels as points where depth is known.


MOST_PICTURE_POINTS = 150_000
"""Maximum number of pixels shown as points; larger images are subsampled by an integer step."""


def scenario_stage(scenario: Scenario, title: str = "", *, time: float = 0.0) -> ViewSource:
    """View source of a scenario: its lidars, or its cameras if it has no lidar."""
    if not scenario.giving(Scan) and Cameras(scenario).names:
        return PicturesStage(scenario, title, time=time)
    return ScenarioStage(scenario, title, time=time)


class PicturesStage(_DrivenStage):
    """Cameras of a scenario, as in `parhelion run`; time advances by the frames of the selected camera."""

    def __init__(self, scenario: Scenario, title: str = "", *, time: float = 0.0) -> None:
        super().__init__(scenario, title)
        if not self.cameras:
            raise ConfigError(f"{scenario.source}: has neither lidar nor camera, so there is nothing to show")
        at = min(float(time), scenario.duration_s)
        self.places = {name: Request(place=name, time_s=at) for name in self.cameras}
        self._sensors = {sensor.name: sensor for sensor in scenario.frame_sensors}

    def period_s(self, request: Request) -> float:
        """Time between images [s]."""
        return self._sensors[request.place].period_s

    def scan_start(self, request: Request) -> float:
        """Start [s] of the image at the requested time."""
        sensor = self._sensors[request.place]
        last = sensor.count(self.duration_s) - 1
        return sensor.start(
            int(np.clip(np.floor((request.time_s - sensor.start(0)) / sensor.period_s + 1e-6), 0, last))
        )

    def measure(self, request: Request) -> ViewFrame:
        """Images at a time, and the points of the selected one."""
        begun = clock.perf_counter()
        start = self.scan_start(request)
        self._drive_until(self._cameras.over_at(start))
        self._scenario.world.weather = weather_of(self.base_weather, request, (0.0, 0.0, 0.0))
        air = request.amounts
        shots = tuple(self._cameras.at(start, air)) if request.pictures else ()
        image = self._cameras.image(request.place, start, air)
        found = ViewFrame(
            points_of(image),
            image.start_time,
            image.pose,
            seconds=clock.perf_counter() - begun,
            pictures=shots,
            notes=tuple(line for shot in shots for line in shot.lines),
        )
        return self._with_collisions(found, self._cameras.over_at(start))


def points_of(image: Image) -> PointCloud:
    """Pixels of an image as coloured points of the world; none without depth."""
    depth = image.depth if image.measured_depth is None else image.measured_depth
    if depth is None or image.intrinsics is None:
        return PointCloud(np.zeros((0, 3)), {"rgb": np.zeros((0, 3), np.uint8)}, "world")
    from parhelion.sensors.optics.camera.lens import directions

    step = int(np.ceil(np.sqrt(image.width * image.height / MOST_PICTURE_POINTS)))
    v, u = (axis.ravel() for axis in np.mgrid[: image.height : step, : image.width : step])
    along = directions(image.intrinsics, np.stack([u, v], axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = depth[v, u] / along[:, 0]
    known = np.isfinite(distance) & (distance > 0.0)
    fields: dict[str, NDArray[Any]] = {
        "rgb": image_colours(image)[v, u][known],
        "range": distance[known].astype(np.float32),
    }
    for name in ("label", "instance"):
        values = getattr(image, name)
        if values is not None:
            fields[name] = values[v, u][known]
    local = along[known] * distance[known, None]
    return PointCloud(image.pose.apply(local), fields, "world", image.names, image.metadata)
