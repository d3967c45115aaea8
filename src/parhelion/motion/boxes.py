"""Ground-truth boxes: position, size, heading and velocity of every instance of a world.

    truth = BoxTruth(world)
    boxes = truth.at(12.3)                        # all boxes at a time, world frame
    frame = truth.of(scan)                        # boxes of a scan in both frames, with point counts

A box is upright (its z axis is that of the world) and has the heading of the instance's main body, the first object
that was added under its number. It is the tightest such box around all parts of the instance at that time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_conjugate, quat_multiply, quat_rotate
from parhelion.motion.actors.body import Mobility, about, heading_of, mobility_of, mobility_table
from parhelion.world.parts import WorldObject
from parhelion.world.world import World

STEP_S = 1e-3
"""Time step [s] of the central differences that give velocities."""


@dataclass(frozen=True, eq=False)
class Box:
    """A box around one instance at one time."""

    instance: int
    label: str
    mobility: Mobility
    centre: Floats
    """Middle of the box [m], shape (3,)."""
    size: Floats
    """Length along its x axis, width along y, height along z [m], shape (3,)."""
    quat_xyzw: Floats
    """Orientation, box to frame."""
    velocity: Floats
    """Velocity [m/s] of the main body at the centre of the box, relative to the ground, in the frame, shape (3,)."""
    points: int
    """Number of points of the scan on this instance; 0 without a scan."""
    time: float
    """Time [s] of the box."""
    frame: str = "world"
    """'world' or 'sensor'."""

    @property
    def yaw(self) -> float:
        """Angle [rad] of the box's x axis about the frame's z axis, from -π to π."""
        return float(heading_of(self.quat_xyzw[None])[0])

    def seen_from(self, sensor: Pose) -> Box:
        """Return the box in the frame of a sensor at a pose in the world."""
        back = quat_conjugate(sensor.quat_xyzw)
        return replace(
            self,
            centre=quat_rotate(back, self.centre - sensor.xyz),
            quat_xyzw=quat_multiply(back, self.quat_xyzw),
            velocity=quat_rotate(back, self.velocity),
            frame="sensor",
        )

    def corners(self) -> Floats:
        """Corners (8, 3) [m]; bits 0, 1 and 2 of the row number select the front, left and upper side."""
        bits = (np.arange(8)[:, None] >> np.arange(3)) & 1
        return quat_rotate(self.quat_xyzw, (bits - 0.5) * self.size) + self.centre

    def contains(self, points: ArrayLike, margin_m: float = 0.0) -> NDArray[np.bool_]:
        """Mask of the points (n, 3) [m] of the same frame that lie inside, or at most `margin_m` outside."""
        local = quat_rotate(quat_conjugate(self.quat_xyzw), np.asarray(points, dtype=np.float64) - self.centre)
        inside: NDArray[np.bool_] = np.all(np.abs(local) <= 0.5 * self.size + margin_m, axis=-1)
        return inside


@dataclass(frozen=True, eq=False)
class BoxFrame:
    """The boxes of one scan, in the same order in both frames."""

    time: float
    """Start of the scan [s]."""
    world: tuple[Box, ...]
    sensor: tuple[Box, ...]


class BoxTruth:
    """Boxes of a world's instances. Boxes of static objects are cached until the world changes."""

    def __init__(
        self,
        world: World,
        *,
        labels: Collection[str] | None = None,
        mobility: Collection[Mobility] = ("static", "movable", "dynamic"),
        sensor: Sequence[str] = ("lidar",),
        without: Collection[int] = (),
    ) -> None:
        """Select the instances that get a box.

        Args:
            world: The world. Its instance 0, geometry that belongs to no object, has no box.
            labels: Labels of the instances; all by default.
            mobility: Mobility of the instances.
            sensor: Kinds and names of the sensor: objects that are hidden from it get no box.
            without: Instances to omit, for example the robot that carries the sensor.
        """
        self.world = world
        self._labels = None if labels is None else frozenset(labels)
        self._mobility, self._sensor, self._without = frozenset(mobility), tuple(sensor), frozenset({0, *without})
        self._known: tuple[object, ...] = ()
        self._instances: dict[int, list[WorldObject]] = {}
        self._kinds: dict[int, Mobility] = {}
        self._static: dict[int, Box] = {}
        self._used: dict[int, Floats] = {}

    def at(self, time: float) -> list[Box]:
        """Return all boxes at a time [s] in the world frame, sorted by instance number."""
        return self.over([time])[0]

    def over(self, times: ArrayLike, *, update: bool = True) -> list[list[Box]]:
        """Return the boxes at several times [s], which is faster than one by one.

        Without `update`, objects that were added or removed since the last call are not taken into account.
        """
        if update:
            self.refresh()
        clock = np.asarray(times, np.float64)
        columns = [self._boxes(instance, clock) for instance in self._instances]
        return [[column[row] for column in columns] for row in range(len(clock))]

    def of(self, scan: Scan, when: Literal["start", "points"] | float = "start") -> BoxFrame:
        """Return the boxes of a scan of this world.

        `when` selects the time: "start", the time of `scan.deskewed()`; a time [s]; or "points", per instance the mean
        time of its points, so that boxes of fast objects coincide with their points. The sensor frame is that of the
        same time.
        """
        if "instance" not in scan.fields:
            raise ConfigError("boxes: the scan has no field 'instance'")
        self.refresh()
        counts, seen = _seen(scan)
        times = [scan.start_time + seen.get(instance, 0.0) for instance in self._instances]
        if when != "points":
            times = [scan.start_time if isinstance(when, str) else float(when)] * len(times)
        in_world = [
            replace(self._box(instance, time), points=counts.get(instance, 0))
            for instance, time in zip(self._instances, times, strict=True)
        ]
        # One call for all poses of the sensor: procedural worlds have hundreds of objects.
        places = zip(*scan.motion.sample(np.array(times)), strict=True) if times else ()
        in_sensor = [box.seen_from(Pose(xyz, quat)) for box, (xyz, quat) in zip(in_world, places, strict=True)]
        return BoxFrame(float(scan.start_time), tuple(in_world), tuple(in_sensor))

    def refresh(self) -> None:
        """Collect the instances again if the world has changed."""
        table = mobility_table(self.world)
        known = (self.world.version, *table.items())
        if self._known == known:
            return
        found: dict[int, list[WorldObject]] = {}
        for item in self.world.objects:
            if item.instance not in self._without and not (item.hidden_from and item.hides_from(self._sensor)):
                found.setdefault(item.instance, []).append(item)
        self._kinds = {instance: mobility_of(self.world, instance, items) for instance, items in found.items()}
        self._instances = {
            instance: items
            for instance, items in sorted(found.items())
            if (self._labels is None or items[0].label in self._labels) and self._kinds[instance] in self._mobility
        }
        self._static.clear()
        self._used.clear()
        self._known = known

    def _box(self, instance: int, time: float) -> Box:
        return self._boxes(instance, np.array([time], np.float64))[0]

    def _boxes(self, instance: int, times: Floats) -> list[Box]:
        """Boxes of an instance at times (n,) [s]."""
        if not np.all(np.isfinite(times)):
            raise ConfigError(f"boxes: time must be finite, got {float(times[~np.isfinite(times)][0])!r}")
        if instance in self._static:
            return [replace(self._static[instance], time=float(time)) for time in times]
        items = self._instances[instance]
        # All parts are sampled at the same times: those of a person are computed together.
        around = (times[:, None] + STEP_S * np.array([-0.5, 0.0, 0.5])).ravel()
        xyz, quat = _poses(items[0], around)
        # Shortly before, at and after each time: (n, 3, 3) and (n, 3, 4).
        xyz, quat = xyz.reshape(-1, 3, 3), quat.reshape(-1, 3, 4)
        yaws = heading_of(quat[:, 1])
        placed = [self._vertices(item, around) for item in items]
        found = []
        for row, time in enumerate(times):
            rotation = about(2, float(yaws[row]))
            low, high = np.full(3, np.inf), np.full(3, -np.inf)
            for vertices in placed:
                points = (vertices(row) if callable(vertices) else vertices) - xyz[row, 1]
                local = quat_rotate(quat_conjugate(rotation), points)
                low, high = np.minimum(low, local.min(axis=0)), np.maximum(high, local.max(axis=0))
            centre = xyz[row, 1] + quat_rotate(rotation, 0.5 * (low + high))
            carried = quat_rotate(quat_conjugate(quat[row, 1]), centre - xyz[row, 1])
            ends = xyz[row, [0, 2]] + quat_rotate(quat[row, [0, 2]], carried)
            found.append(
                Box(
                    instance=instance,
                    label=items[0].label,
                    mobility=self._kinds[instance],
                    centre=centre,
                    size=high - low,
                    quat_xyzw=rotation,
                    velocity=(ends[1] - ends[0]) / STEP_S,
                    points=0,
                    time=float(time),
                )
            )
        if not any(item.is_actor for item in items) and found:
            self._static[instance] = found[0]
        return found

    def _vertices(self, item: WorldObject, around: Floats) -> Floats | Callable[[int], Floats]:
        """Vertices (n, 3) of an object in the world, without unused ones; of an actor, a function of the row."""
        if item.index not in self._used:
            used = [part.placed[np.unique(part.mesh.faces)] for part in item.parts]
            self._used[item.index] = np.concatenate(used)
        placed = self._used[item.index]
        if item.trajectory is None:
            return placed
        xyz, quat = item.trajectory.sample(around)
        return lambda row: Pose(xyz[3 * row + 1], quat[3 * row + 1]).apply(placed)


def _poses(item: WorldObject, times: Floats) -> tuple[Floats, Floats]:
    """Positions (n, 3) and quaternions (n, 4) of an object at times (n,) [s]."""
    if item.trajectory is None:
        return np.tile(item.pose.xyz, (len(times), 1)), np.tile(item.pose.quat_xyzw, (len(times), 1))
    return item.trajectory.sample(times)


def _seen(scan: Scan) -> tuple[dict[int, int], dict[int, float]]:
    """Number of points on each instance, and their mean time [s] after the start of the scan."""
    instance = scan.fields["instance"]
    time = np.asarray(scan.fields.get("time", np.zeros(len(scan))), dtype=np.float64)
    if "origin" in scan.fields:  # drops and ghosts are not on a surface
        on_surface = scan.fields["origin"] == 0
        instance, time = instance[on_surface], time[on_surface]
    numbers, row, count = np.unique(instance, return_inverse=True, return_counts=True)
    mean = np.bincount(row, weights=time, minlength=len(numbers)) / np.maximum(count, 1)
    keys = numbers.tolist()
    return dict(zip(keys, count.tolist(), strict=True)), dict(zip(keys, mean.tolist(), strict=True))
