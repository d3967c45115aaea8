"""Labelled scans on demand: a data set without files, for PyTorch data loaders."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from os import PathLike
from typing import Any, Literal

import numpy as np

from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.pose import Pose, quat_conjugate, quat_multiply, quat_rotate
from parhelion.core.random import Stream, to_unit
from parhelion.core.trajectory import Waypoints
from parhelion.motion.actors.body import heading_of
from parhelion.motion.boxes import Box, BoxTruth
from parhelion.outputs.datasets.boxes import KITTI_TYPES
from parhelion.outputs.datasets.folder import HiddenShare
from parhelion.rays.lock import engine_lock, locked
from parhelion.sensors.base import FrameSensor
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.sensors.optics.lidar.points import DEFAULT_TENSORS, ScanTensors, chosen_fields
from parhelion.weather.weather import Weather
from parhelion.world.world import World

Form = Literal["torch", "arrays"]
Places = Sequence[Pose] | Callable[[World, int], Pose]
WorldSource = World | str | PathLike[str] | Callable[[], World]
_MOST = 2**32
_BUILT_WORLDS = 4
"""Number of worlds from functions that stay in memory."""


@dataclass(frozen=True)
class Sample:
    """World, weather, pose and time of one item of a data set."""

    world: int
    """Index in the list of worlds."""
    weather: int
    """Index in the list of weathers."""
    pose: Pose
    time: float = 0.0
    """Start of the scan [s] on the clock of the world."""


class ScanDataset:
    """Labelled scans of a lidar in several worlds and weathers, simulated on access.

    >>> dataset = ScanDataset("velodyne/vlp-16", worlds=["test-range"], length=100, seed=7, form="arrays")
    >>> sorted(dataset[3])
    ['instance', 'intensity', 'label', 'ring', 'time', 'xyz']

    Use it with PyTorch: `torch.utils.data.DataLoader(dataset, batch_size=64, collate_fn=list)`.

    World, weather and place of each item depend only on `seed` and the index of the item, so an item is the same in any
    order of access. PyTorch's loaders request whole batches, which is faster than single scans. Workers of a loader are
    processes, and GPU tensors cannot be passed between them: leave `num_workers` at 0 on a GPU.

    With `boxes`, items also have the objects of these types that are not hidden from the lidar: `boxes` (n, 7) float32,
    the centre x, y, z, length, width, height [m] and the heading [rad] in the frame of the sensor at the start of the
    scan; `box_class` (n,), the index of the type in `boxes`; `box_points` (n,), the number of points on the object.

    >>> dataset = ScanDataset("velodyne/vlp-16", ["city"], length=9, fields=["xyz"], boxes=["Car"], form="arrays")
    >>> item = dataset[0]
    >>> item["boxes"].shape[1]
    7

    Args:
        lidar: A lidar, or its preset name, YAML file or configuration.
        worlds: Worlds to draw from, their names or files, or functions that build them. A function is called when an
            item needs its world; the latest four worlds of functions stay in memory.
        length: Number of items.
        weathers: Weathers to draw from, None for clear air; by default every world has its own.
        places: Poses to draw from, or a function of world and number; by default places along the drive of the world,
            or around its viewpoint.
        times: Times [s] on the clocks of the worlds to draw from, for worlds with actors; a few are faster than many.
        fields: Fields of the items.
        boxes: Types of the objects with boxes: Car, Truck, Pedestrian, Cyclist, Tram.
        visibility: True adds `box_visible` (n,), the share of each object that nothing hides (NaN if no shot passes
            through its box). It takes a millisecond per box.
        others: Further sensors by the name of their field, each alone or with its pose in the frame of the lidar. Items
            contain their records of the same time and place.
        seed: Seed of all random numbers.
        form: "torch" (tensors on the device of the engine, the default if PyTorch is installed) or "arrays" (NumPy
            arrays, on a GPU those of Dr.Jit; both have `__dlpack__`).
    """

    def __init__(
        self,
        lidar: Lidar | str | PathLike[str] | LidarConfig,
        worlds: Sequence[WorldSource],
        *,
        length: int,
        weathers: Sequence[Weather | Mapping[str, Any] | None] | None = None,
        places: Places | None = None,
        times: Sequence[float] = (0.0,),
        fields: Sequence[str] = DEFAULT_TENSORS,
        boxes: Sequence[str] = (),
        visibility: bool = False,
        others: Mapping[str, FrameSensor[Any, Any] | tuple[FrameSensor[Any, Any], Pose]] | None = None,
        seed: int = 0,
        form: Form | None = None,
    ) -> None:
        self.lidar = lidar if isinstance(lidar, Lidar) else Lidar(lidar)
        if isinstance(worlds, (str, PathLike, World)) or not len(worlds):
            raise ConfigError("worlds: give a list of worlds, at least one")
        self.worlds = [one if isinstance(one, World) or callable(one) else World.load(one) for one in worlds]
        self._built: OrderedDict[int, World] = OrderedDict()
        if weathers is not None and not len(weathers):
            raise ConfigError("weathers: give a list of weathers, at least one; None is clear air")
        self.weathers = None if weathers is None else [_weather(row, given) for row, given in enumerate(weathers)]
        if isinstance(length, bool) or not isinstance(length, (int, np.integer)) or not 0 < length < _MOST:
            raise ConfigError(f"length: must be a whole number from 1 to {_MOST - 1}, got {length!r}")
        if places is not None and not callable(places) and not len(places):
            raise ConfigError("places: give poses to draw from, at least one, or a function")
        self.length, self.seed, self.places = int(length), seed, places
        self.times = np.array(times, np.float64)
        if self.times.ndim != 1 or not len(self.times) or not np.all(np.isfinite(self.times)):
            raise ConfigError(f"times: give a list of times in seconds, at least one, got {times!r}")
        self.fields = chosen_fields(fields)
        for name in boxes:
            if name not in KITTI_TYPES.values():
                raise unknown_name("type of boxes", name, sorted({*KITTI_TYPES.values()}))
        self.boxes, self.visibility = tuple(boxes), visibility
        extra = ("instance", *(("range", "shot", "origin") if visibility else ())) if boxes else ()
        self._fields = (*self.fields, *(name for name in extra if name not in self.fields))
        self._truth: dict[int, BoxTruth] = {}
        self.others = {name: one if isinstance(one, tuple) else (one, Pose()) for name, one in (others or {}).items()}
        if form not in (None, "torch", "arrays"):
            raise ConfigError(f"form: must be 'torch' or 'arrays', got {form!r}")
        self.form: Form = form or ("torch" if find_spec("torch") is not None else "arrays")
        self._stream = Stream(seed, "scan-dataset")

    def __len__(self) -> int:
        return self.length

    def sample(self, index: int) -> Sample:
        """World, weather and place of an item."""
        return self._samples([index])[0]

    def worlds_of(self, indices: Sequence[int]) -> list[int]:
        """Position of the world of each item in the list of worlds; builds no world."""
        return self._drawn(indices)[0].tolist()  # type: ignore[no-any-return]

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    @locked
    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Several items at once, in order; called by PyTorch's loaders."""
        numbers = [self._checked(index) for index in indices]
        made: list[dict[str, Any] | None] = [None] * len(numbers)
        for rows, tensors in self._measured(numbers):
            found = self.boxes_of([numbers[row] for row in rows], tensors) if self.boxes else [{} for _ in rows]
            fields = tensors.torch() if self.form == "torch" else tensors.fields
            borders = tensors.first.tolist()
            for row, boxes, first, last in zip(rows, found, borders[:-1], borders[1:], strict=True):
                item = {name: fields[name][first:last] for name in self.fields}
                made[row] = {**item, **self._formed(boxes), **self._other_records(numbers[row])}
        return made  # type: ignore[return-value]

    def world(self, index: int) -> World:
        """World of an index in the list of worlds; one from a function is built if it is not in memory."""
        source = self.worlds[index]
        if isinstance(source, World):
            return source
        if index not in self._built:
            if len(self._built) >= _BUILT_WORLDS:
                self._truth.pop(self._built.popitem(last=False)[0], None)
            self._built[index] = source()
        self._built.move_to_end(index)
        return self._built[index]

    def boxes_of(self, indices: Sequence[int], tensors: ScanTensors) -> list[dict[str, Any]]:
        """Boxes of some items, whose scans are given, as NumPy arrays; items of `batches` have none of their own."""
        samples = self._samples(indices)
        every = self._boxes_at(samples)
        host = {name: np.array(tensors[name]) for name in self._fields if name not in ("xyz", "velocity")}
        made = []
        for row, (sample, boxes) in enumerate(zip(samples, every, strict=True)):
            part = slice(int(tensors.first[row]), int(tensors.first[row + 1]))
            counts = np.bincount(host["instance"][part], minlength=1 + max((box.instance for box in boxes), default=0))
            table = _seen_from(sample.pose, boxes)
            found = {
                "boxes": table,
                "box_class": np.array([self.boxes.index(KITTI_TYPES[box.label]) for box in boxes], np.int32),
                "box_points": np.array([counts[box.instance] for box in boxes], np.int32),
            }
            if self.visibility:
                found["box_visible"] = self._visible(sample, table, {name: host[name][part] for name in host})
            made.append(found)
        return made

    def _boxes_at(self, samples: Sequence[Sample]) -> list[list[Box]]:
        made: list[list[Box]] = [[] for _ in samples]
        for index in sorted({sample.world for sample in samples}):
            world = self.world(index)
            if index not in self._truth:
                keys = self.lidar.visibility_keys
                labels = [label for label, name in KITTI_TYPES.items() if name in self.boxes]
                self._truth[index] = BoxTruth(world, labels=labels, sensor=keys)
            rows = [row for row, sample in enumerate(samples) if sample.world == index]
            times, at = np.unique([samples[row].time for row in rows], return_inverse=True)
            every = self._truth[index].over(times)
            for row, time in zip(rows, at.tolist(), strict=True):
                made[row] = every[time]
        return made

    def _visible(self, sample: Sample, table: Any, fields: Mapping[str, Any]) -> Any:
        shots = self.lidar.shots(sample.time)
        solid = fields["origin"] == 0  # drops do not occlude
        first = np.full(len(shots), np.inf)
        np.minimum.at(first, fields["shot"][solid], fields["range"][solid].astype(np.float64))
        shares = HiddenShare(shots, first)
        hidden = [
            shares.of(row[:3], 0.5 * row[3:6], Pose(rpy_deg=(0.0, 0.0, float(np.degrees(row[6])))).rotation)
            for row in table.astype(np.float64)
        ]
        return 1.0 - np.array(hidden, np.float32).reshape(len(table))

    def _formed(self, arrays: dict[str, Any]) -> dict[str, Any]:
        if self.form != "torch":
            return arrays
        import torch

        return {name: torch.from_numpy(values) for name, values in arrays.items()}

    def _other_records(self, index: int) -> dict[str, Any]:
        if not self.others:
            return {}
        sample = self.sample(index)
        with self._weathered(sample.world, sample.weather) as world:
            return {
                name: sensor.measure(world, sample.pose @ mount, sample.time, self.seed, frame=index)
                for name, (sensor, mount) in self.others.items()
            }

    def batches(self, size: int) -> Iterator[tuple[list[int], ScanTensors]]:
        """All items in large batches: indices of the items, and their scans concatenated.

        This is the fastest access to a data set. A batch has at most `size` scans, all of one world and weather.
        """
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise ConfigError(f"size: must be a whole number of 1 or more, got {size!r}")
        part = int(size) * len(self.worlds) * len(self.weathers or [None])
        if sum(not isinstance(one, World) for one in self.worlds) > _BUILT_WORLDS:
            part = max(part, self.length)  # each world is built once
        for start in range(0, self.length, part):
            numbers = list(range(start, min(self.length, start + part)))
            for rows, tensors in self._measured(numbers, int(size)):
                yield [numbers[row] for row in rows], tensors

    def _checked(self, index: int) -> int:
        if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            raise ConfigError(f"item: must be a whole number, got {index!r}")
        number = int(index) + self.length if index < 0 else int(index)
        if not 0 <= number < self.length:
            raise IndexError(f"item {index} of a data set of {self.length}")  # ends iteration by index
        return number

    def _measured(self, numbers: list[int], most: int | None = None) -> Iterator[tuple[list[int], ScanTensors]]:
        """Scans of items grouped by world and weather: positions in `numbers`, and the scans in that order."""
        world, weather, *_ = self._drawn(numbers)
        # World by world: each is built once.
        for place in np.unique(world).tolist():
            own = np.flatnonzero(world == place)
            samples = dict(zip(own.tolist(), self._samples([numbers[row] for row in own]), strict=True))
            for air in np.unique(weather[own]).tolist():
                rows = own[weather[own] == air].tolist()
                for first in range(0, len(rows), most or len(rows)):
                    some = rows[first : first + (most or len(rows))]
                    chosen = [samples[row] for row in some]
                    done = 0
                    for tensors in self._scanned(place, air, chosen, [numbers[row] for row in some]):
                        yield some[done : done + len(tensors)], tensors
                        done += len(tensors)

    def _scanned(self, world: int, weather: int, samples: list[Sample], numbers: list[int]) -> list[ScanTensors]:
        poses, times = [sample.pose for sample in samples], [sample.time for sample in samples]
        with self._weathered(world, weather) as place:
            return self.lidar.scan_tensors(
                place, poses, time=times, seed=self.seed, frames=numbers, fields=self._fields
            )

    @contextmanager
    def _weathered(self, world: int, weather: int) -> Iterator[World]:
        """World in one of the weathers."""
        place = self.world(world)
        with engine_lock, place.edits():  # in the same order as scans
            before = place.weather
            if self.weathers is not None:
                place.weather = self.weathers[weather]
            try:
                yield place
            finally:
                if self.weathers is not None:
                    place.weather = before

    def _drawn(self, numbers: Sequence[int]) -> tuple[Any, Any, Any, Any]:
        """World and weather of some items, and two numbers between 0 and 1 for their poses."""
        which, air, along, turn = (
            to_unit(word) for word in self._stream.words(np.array([self._checked(n) for n in numbers], np.uint32))
        )
        world = np.minimum((which * len(self.worlds)).astype(int), len(self.worlds) - 1)
        kinds = len(self.weathers or [None])
        return world, np.minimum((air * kinds).astype(int), kinds - 1), along, turn

    def _samples(self, numbers: Sequence[int]) -> list[Sample]:
        world, weather, along, turn = self._drawn(numbers)
        poses: list[Pose] = [Pose()] * len(numbers)
        for row in np.unique(world):
            mine = np.flatnonzero(world == row)
            for at, pose in zip(mine, self._poses(self.world(int(row)), mine, numbers, along, turn), strict=True):
                poses[at] = pose
        words = Stream(self.seed, "scan-dataset/times").words(np.array([self._checked(n) for n in numbers], np.uint32))
        time = self.times[(to_unit(words[0]) * len(self.times)).astype(int)]
        rows = zip(world.tolist(), weather.tolist(), poses, time.tolist(), strict=True)
        return [Sample(*row) for row in rows]

    def _poses(self, world: World, rows: Any, numbers: Sequence[int], along: Any, turn: Any) -> list[Pose]:
        """Poses of some items in one world, from two numbers between 0 and 1 for each."""
        if callable(self.places):
            return [self.places(world, int(numbers[row])) for row in rows]
        if self.places is not None:
            last = len(self.places) - 1
            return [self.places[min(int(along[row] * len(self.places)), last)] for row in rows]
        path = world.path
        if isinstance(path, Waypoints) and len(path.times) > 1:
            times = path.times[0] + along[rows] * (path.times[-1] - path.times[0])
            return [Pose(xyz, quat) for xyz, quat in zip(*path.sample(times), strict=True)]
        return [world.viewpoint @ Pose(rpy_deg=(0.0, 0.0, 360.0 * float(turn[row]))) for row in rows]


def _seen_from(sensor: Pose, boxes: Sequence[Box]) -> Any:
    """Boxes (n, 7) float32 in the frame of a sensor."""
    if not boxes:
        return np.zeros((0, 7), np.float32)
    back = quat_conjugate(sensor.quat_xyzw)
    centre = quat_rotate(back, np.array([box.centre for box in boxes]) - sensor.xyz)
    yaw = heading_of(quat_multiply(back, np.array([box.quat_xyzw for box in boxes])))
    return np.column_stack([centre, np.array([box.size for box in boxes]), yaw]).astype(np.float32)


def _weather(row: int, given: Weather | Mapping[str, Any] | None) -> Weather | None:
    if given is None or isinstance(given, Weather):
        return given
    if isinstance(given, Mapping):
        return Weather.from_mapping(dict(given), f"weathers[{row}]")
    raise ConfigError(f"weathers[{row}]: must be a Weather, its fields, or None for clear air, got {given!r}")
