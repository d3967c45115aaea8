"""Labelled scans on demand: a data set without files, for PyTorch data loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from os import PathLike
from typing import Any, Literal

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.random import Stream, to_unit
from parhelion.core.trajectory import Waypoints
from parhelion.rays.lock import engine_lock, locked
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.sensors.optics.lidar.points import DEFAULT_TENSORS, ScanTensors, chosen_fields
from parhelion.weather.weather import Weather
from parhelion.world.world import World

Form = Literal["torch", "arrays"]
Places = Sequence[Pose] | Callable[[World, int], Pose]
_MOST = 2**32


@dataclass(frozen=True)
class Sample:
    """World, weather and pose of one item of a data set."""

    world: int
    """Index in the list of worlds."""
    weather: int
    """Index in the list of weathers."""
    pose: Pose


class ScanDataset:
    """Labelled scans of a lidar in several worlds and weathers, simulated on access.

    >>> dataset = ScanDataset("velodyne/vlp-16", worlds=["test-range"], length=100, seed=7, form="arrays")
    >>> sorted(dataset[3])
    ['instance', 'intensity', 'label', 'ring', 'time', 'xyz']

    Use it with PyTorch: `torch.utils.data.DataLoader(dataset, batch_size=64, collate_fn=list)`.

    World, weather and place of each item depend only on `seed` and the index of the item, so an item is the same in any
    order of access. PyTorch's loaders request whole batches, which is faster than single scans. Workers of a loader are
    processes, and GPU tensors cannot be passed between them: leave `num_workers` at 0 on a GPU.

    Args:
        lidar: A lidar, or its preset name, YAML file or configuration.
        worlds: Worlds to draw from, or their names or files.
        length: Number of items.
        weathers: Weathers to draw from, None for clear air; by default every world has its own.
        places: Poses to draw from, or a function of world and number; by default places along the drive of the world,
            or around its viewpoint.
        fields: Fields of the items.
        seed: Seed of all random numbers.
        form: "torch" (tensors on the device of the engine, the default if PyTorch is installed) or "arrays" (NumPy
            arrays, on a GPU those of Dr.Jit; both have `__dlpack__`).
    """

    def __init__(
        self,
        lidar: Lidar | str | PathLike[str] | LidarConfig,
        worlds: Sequence[World | str | PathLike[str]],
        *,
        length: int,
        weathers: Sequence[Weather | Mapping[str, Any] | None] | None = None,
        places: Places | None = None,
        fields: Sequence[str] = DEFAULT_TENSORS,
        seed: int = 0,
        form: Form | None = None,
    ) -> None:
        self.lidar = lidar if isinstance(lidar, Lidar) else Lidar(lidar)
        if isinstance(worlds, (str, PathLike, World)) or not len(worlds):
            raise ConfigError("worlds: give a list of worlds, at least one")
        self.worlds = [world if isinstance(world, World) else World.load(world) for world in worlds]
        if weathers is not None and not len(weathers):
            raise ConfigError("weathers: give a list of weathers, at least one; None is clear air")
        self.weathers = None if weathers is None else [_weather(row, given) for row, given in enumerate(weathers)]
        if isinstance(length, bool) or not isinstance(length, (int, np.integer)) or not 0 < length < _MOST:
            raise ConfigError(f"length: must be a whole number from 1 to {_MOST - 1}, got {length!r}")
        if places is not None and not callable(places) and not len(places):
            raise ConfigError("places: give poses to draw from, at least one, or a function")
        self.length, self.seed, self.places = int(length), seed, places
        self.fields = chosen_fields(fields)
        if form not in (None, "torch", "arrays"):
            raise ConfigError(f"form: must be 'torch' or 'arrays', got {form!r}")
        self.form: Form = form or ("torch" if find_spec("torch") is not None else "arrays")
        self._stream = Stream(seed, "scan-dataset")

    def __len__(self) -> int:
        return self.length

    def sample(self, index: int) -> Sample:
        """World, weather and place of an item."""
        return self._samples([index])[0]

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    @locked
    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Several items at once, in order; called by PyTorch's loaders."""
        numbers = [self._checked(index) for index in indices]
        made: list[dict[str, Any] | None] = [None] * len(numbers)
        for rows, tensors in self._measured(numbers):
            fields = tensors.torch() if self.form == "torch" else tensors.fields
            borders = tensors.first.tolist()
            for row, first, last in zip(rows, borders[:-1], borders[1:], strict=True):
                made[row] = {name: values[first:last] for name, values in fields.items()}
        return made  # type: ignore[return-value]

    def batches(self, size: int) -> Iterator[tuple[list[int], ScanTensors]]:
        """All items in large batches: indices of the items, and their scans concatenated.

        This is the fastest access to a data set. A batch has at most `size` scans, all of one world and weather.
        """
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise ConfigError(f"size: must be a whole number of 1 or more, got {size!r}")
        kinds = len(self.worlds) * len(self.weathers or [None])
        for start in range(0, self.length, int(size) * kinds):
            numbers = list(range(start, min(self.length, start + int(size) * kinds)))
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
        samples = self._samples(numbers)
        groups: dict[tuple[int, int], list[int]] = {}
        for row, sample in enumerate(samples):
            groups.setdefault((sample.world, sample.weather), []).append(row)
        for (world, weather), rows in groups.items():
            for first in range(0, len(rows), most or len(rows)):
                some = rows[first : first + (most or len(rows))]
                poses = [samples[row].pose for row in some]
                done = 0
                for tensors in self._scanned(self.worlds[world], weather, poses, [numbers[row] for row in some]):
                    yield some[done : done + len(tensors)], tensors
                    done += len(tensors)

    def _scanned(self, world: World, weather: int, poses: list[Pose], numbers: list[int]) -> list[ScanTensors]:
        with engine_lock, world.edits():  # in the same order as scans
            before = world.weather
            if self.weathers is not None:
                world.weather = self.weathers[weather]
            try:
                return self.lidar.scan_tensors(world, poses, seed=self.seed, frames=numbers, fields=self.fields)
            finally:
                if self.weathers is not None:
                    world.weather = before

    def _samples(self, numbers: Sequence[int]) -> list[Sample]:
        which, air, along, turn = (
            to_unit(word) for word in self._stream.words(np.array([self._checked(n) for n in numbers], np.uint32))
        )
        world = np.minimum((which * len(self.worlds)).astype(int), len(self.worlds) - 1)
        kinds = len(self.weathers or [None])
        weather = np.minimum((air * kinds).astype(int), kinds - 1)
        poses: list[Pose] = [Pose()] * len(numbers)
        for row in np.unique(world):
            mine = np.flatnonzero(world == row)
            for at, pose in zip(mine, self._poses(self.worlds[row], mine, numbers, along, turn), strict=True):
                poses[at] = pose
        return [Sample(int(w), int(a), pose) for w, a, pose in zip(world, weather, poses, strict=True)]

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


def _weather(row: int, given: Weather | Mapping[str, Any] | None) -> Weather | None:
    if given is None or isinstance(given, Weather):
        return given
    if isinstance(given, Mapping):
        return Weather.from_mapping(dict(given), f"weathers[{row}]")
    raise ConfigError(f"weathers[{row}]: must be a Weather, its fields, or None for clear air, got {given!r}")
