"""Streets for training and tests: built-in cities with further road users, places for the lidar, and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Annotated, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from parhelion.campaign.scan_dataset import ScanDataset
from parhelion.core import config
from parhelion.core.config import Config, Positive
from parhelion.core.pose import Floats, Pose
from parhelion.core.random import Stream
from parhelion.core.trajectory import ConstantTwist, Fixed, Trajectory
from parhelion.motion.actors import add_person
from parhelion.motion.actors.body import stand_still
from parhelion.motion.actors.cycles import add_cyclist
from parhelion.motion.actors.vehicles import CAR_MODELS, add_car
from parhelion.motion.boxes import BoxTruth
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.weather.weather import Weather
from parhelion.world.kit.instances import boxes, struts
from parhelion.world.mesh import Mesh
from parhelion.world.procedural.kinds import BushParams
from parhelion.world.procedural.object_parts import bush_parts
from parhelion.world.world import World

CLASSES = ("Car", "Pedestrian", "Cyclist")
"""Types of objects that the detector finds, in the order of its outputs."""
_PAINTS = ("white", "silver", "blue", "red", "black", "yellow")
_CLOTHES = ("cotton", "fabric", "fabric-red", "fabric-blue")
_CARS, _PEDESTRIANS, _CYCLISTS = (10, 60), (15, 50), (8, 25)
"""Smallest and largest numbers of added road users of a street."""
_POSTS, _BLOCKS_OF_STONE, _BUSHES = (20, 150), (10, 60), (5, 40)
"""Smallest and largest numbers of added objects of the size of road users, which are none."""
_BLOCKS = 2
_MOMENT_S = 1.0
"""Time of the snapshot of moving road users."""
_MOVING_SHARE = 0.7
_ALIGNED_SHARE = 0.8
"""Share of the cars that are parallel to a street; the rest has any heading."""


def street(seed: int) -> World:
    """Return a city of two by two blocks with road users at rest: parked cars, and cars, people and cyclists anywhere.

    The number of road users, their models, paints, sizes, places, headings and speeds depend on the seed only.
    """
    rng = Stream(seed, "detect/street").generator()
    parked, walkers, trees = int(rng.integers(8, 52)), int(rng.integers(10, 60)), int(rng.integers(10, 84))
    world = World.load("city", seed=seed, blocks=_BLOCKS, cars=parked, people=walkers, trees=trees)
    taken = _discs(world)
    roads, paths = _ground(world, rng, ("road",)), _ground(world, rng, ("road", "sidewalk"))

    def free(xyz: Floats, radius: float) -> NDArray[np.bool_]:
        away = np.hypot(*(taken[None, :, :2] - xyz[:, None, :2]).transpose(2, 0, 1)) - taken[:, 2]
        return np.all(away > radius, axis=1)

    def place(ground: Floats, radius: float) -> Pose | None:
        """Free place with a heading, or None."""
        nonlocal taken
        for xyz in ground[rng.integers(0, len(ground), 20)]:
            if free(xyz[None], radius)[0]:
                taken = np.vstack([taken, [*xyz[:2], radius]])
                return Pose(xyz, rpy_deg=(0.0, 0.0, float(np.degrees(_heading(rng)))))
        return None

    for _ in range(int(rng.integers(*_CARS))):
        model, paint = str(rng.choice(list(CAR_MODELS))), f"car-paint-{rng.choice(_PAINTS)}"
        where = place(roads, 2.6)
        if where is not None:
            add_car(world, where, model, paint=paint)
    for _ in range(int(rng.integers(*_PEDESTRIANS))):
        height, clothes, motion = float(rng.uniform(1.1, 1.95)), str(rng.choice(_CLOTHES)), _gait(rng, 1.6)
        where = place(paths, 0.5)
        if where is not None:
            actor = add_person(world, motion(where), height, clothes=clothes, times=(0.0, _MOMENT_S))
            stand_still(world, actor, _MOMENT_S)
    for _ in range(int(rng.integers(*_CYCLISTS))):
        clothes, motion = str(rng.choice(_CLOTHES)), _gait(rng, 5.0)
        where = place(paths, 1.0)
        if where is not None:
            stand_still(world, add_cyclist(world, motion(where), clothes=clothes, times=(0.0, _MOMENT_S)), _MOMENT_S)
    _add_clutter(world, Stream(seed, "detect/clutter").generator(), lambda radius: place(paths, radius), free)
    return world


def _add_clutter(
    world: World,
    rng: np.random.Generator,
    place: Callable[[float], Pose | None],
    free: Callable[[Floats, float], NDArray[np.bool_]],
) -> None:
    """Posts and bollards, cabinets and stones, and bushes: of the size of road users, but none."""
    posts, stones, leaves = [], [], []
    for _ in range(int(rng.integers(*_POSTS))):
        radius, height = float(rng.uniform(0.03, 0.2)), float(np.exp(rng.uniform(np.log(0.4), np.log(4.0))))
        # Two in three stand in a row, as along a kerb.
        count = 1 if rng.random() < 0.33 else int(rng.integers(2, 9))
        gap, turn = float(rng.uniform(0.9, 2.5)), float(rng.uniform(0.0, 2.0 * np.pi))
        where = place(radius)
        if where is not None:
            along = np.arange(1, count)[:, None] * gap * np.array([np.cos(turn), np.sin(turn), 0.0])
            feet = np.vstack([where.xyz, (where.xyz + along)[free(where.xyz + along, radius)]])
            top = np.array([0.0, 0.0, height])
            cone = [radius, radius * float(rng.uniform(0.4, 1.0))]
            posts.append(struts(feet, feet + top, np.tile([cone], (len(feet), 1)), 10))
    for _ in range(int(rng.integers(*_BLOCKS_OF_STONE))):
        size = np.array([*rng.uniform(0.25, 1.4, 2), rng.uniform(0.3, 2.0)])
        if rng.random() < 0.3:
            size[0] = rng.uniform(2.0, 6.0)  # low walls and hedges
        where = place(0.5 * float(np.hypot(*size[:2])))
        if where is not None:
            stones.append(boxes(where.xyz + np.array([0.0, 0.0, 0.5 * size[2]]), size, rng.uniform(0.0, np.pi)))
    for number in range(int(rng.integers(*_BUSHES))):
        (length, width), height = rng.uniform(0.5, 2.2, 2).tolist(), float(rng.uniform(0.5, 2.0))
        where = place(0.5 * max(length, width))
        if where is not None:
            (bush,) = bush_parts(length, width, height, BushParams(seed=number))
            leaves.append(bush.mesh.transformed(where))
    for meshes, material, name in (
        (posts, "steel", "posts"),
        (stones, "concrete", "blocks"),
        (leaves, "leaf", "bushes"),
    ):
        if meshes:
            world.add(Mesh.merged(meshes), material=material, label="other-object", name=name)


def _gait(rng: np.random.Generator, fastest_m_s: float) -> Callable[[Pose], Trajectory]:
    """Motion that leads to a pose at `_MOMENT_S`: at rest, or at a random speed."""
    speed = float(rng.uniform(0.4, 1.0)) * fastest_m_s if rng.random() < _MOVING_SHARE else 0.0
    phase = float(rng.uniform(0.0, 1.0))
    if not speed:
        return Fixed

    def motion(where: Pose) -> Trajectory:
        start = where @ Pose((-speed * (_MOMENT_S + phase), 0.0, 0.0))
        return ConstantTwist(start, tuple(speed * where.rotation[:, 0]), start_time=-phase)

    return motion


def _discs(world: World) -> Floats:
    """Position and radius (n, 3) [m] of all objects of up to the size of a lorry, from above."""
    boxes = BoxTruth(world).at(0.0)
    discs = np.array([[*box.centre[:2], 0.5 * np.hypot(*box.size[:2])] for box in boxes]).reshape(-1, 3)
    return discs[discs[:, 2] < 5.0]


def _heading(rng: np.random.Generator) -> float:
    """Heading [rad]: near one of the directions of the streets, or any."""
    if rng.random() < _ALIGNED_SHARE:
        return float(rng.integers(0, 4) * np.pi / 2 + rng.normal(0.0, np.radians(5.0)))
    return float(rng.uniform(-np.pi, np.pi))


def _ground(world: World, rng: np.random.Generator, labels: Sequence[str], count: int = 4000) -> Floats:
    """Random places (n, 3) [m] on the open ground with one of the labels."""
    low, high = world.bounds or (np.zeros(3), np.zeros(3))
    xy = rng.uniform(low[:2], high[:2], (count, 2))
    top = float(high[2]) + 1.0
    down = world.cast(np.column_stack([xy, np.full(count, top)]), np.tile([0.0, 0.0, -1.0], (count, 1)))
    names = world.label_names
    found = np.array([names.get(int(label)) in labels for label in world.parts.label])
    good = down.found & np.where(down.part >= 0, found[down.part], False)
    return np.column_stack([xy, top - down.range])[good]


class Mounts:
    """Places of a lidar on a car: on a road, clear of others, at a height drawn between two limits, nearly level."""

    def __init__(self, heights_m: tuple[float, float] = (1.6, 2.0), seed: int = 0) -> None:
        self.heights_m, self.seed = heights_m, seed
        self._roads: WeakKeyDictionary[World, Floats] = WeakKeyDictionary()

    def __call__(self, world: World, number: int) -> Pose:
        """Pose of the lidar of an item in a world."""
        if world not in self._roads:
            rng = Stream(self.seed, "detect/roads").generator()
            roads = _ground(world, rng, ("road",))
            taken = _discs(world)
            away = np.hypot(*(roads[:, None, :2] - taken[None, :, :2]).transpose(2, 0, 1)) - taken[:, 2]
            self._roads[world] = roads[np.min(away, axis=1, initial=np.inf) > 2.0]
        rng = Stream(self.seed, "detect/mounts", number).generator()
        roads = self._roads[world]
        ground = roads[int(rng.integers(len(roads)))]
        height = float(rng.uniform(*self.heights_m))
        tilt = rng.normal(0.0, 0.7, 2)
        return Pose(ground + np.array([0.0, 0.0, height]), rpy_deg=(tilt[0], tilt[1], float(np.degrees(_heading(rng)))))


def street_scans(
    lidar: Lidar | str,
    *,
    streets: Sequence[int | World],
    length: int,
    weathers: Sequence[Weather | Mapping[str, Any] | None] = (None,),
    heights_m: tuple[float, float] = (1.6, 2.0),
    seed: int = 0,
    visibility: bool = False,
    fields: Sequence[str] = ("xyz",),
) -> ScanDataset:
    """Labelled scans in streets, or in those with these seeds, with boxes of all classes."""
    return ScanDataset(
        lidar,
        [one if isinstance(one, World) else partial(street, one) for one in streets],
        length=length,
        weathers=weathers,
        places=Mounts(heights_m, seed),
        fields=fields,
        boxes=CLASSES,
        visibility=visibility,
        seed=seed,
        form="arrays",
    )


# ---- settings of a training run -------------------------------------------------------------------------------------


class TrainingStudy(Config):
    """Settings of a training run."""

    name: str = "detector"
    sensor: str = "velodyne/hdl-64e-s2"
    """Preset or data sheet of the lidar."""
    streets: Annotated[int, Field(ge=1, le=100_000)] = 80
    """Number of streets, of the seeds 0, 1, 2 and so on."""
    scans: Annotated[int, Field(ge=1, le=1_000_000)] = 12_000
    weathers: Annotated[list[dict[str, Any] | None], Field(min_length=1)] = [None]  # noqa: RUF012 - copied by pydantic
    """Weathers to draw from, as in world files; null is clear air."""
    heights_m: tuple[Positive, Positive] = (1.6, 2.0)
    """Lowest and highest mount of the lidar above the road."""
    epochs: Annotated[int, Field(ge=1, le=1000)] = 4
    """Passes over all scans."""
    batch: Annotated[int, Field(ge=1, le=256)] = 16
    learning_rate: Positive = 2e-3
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0

    @classmethod
    def load(cls, path: str | PathLike[str]) -> TrainingStudy:
        """Read a file of settings."""
        return config.load(cls, Path(path))
