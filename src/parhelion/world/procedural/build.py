"""Conversion of a layout to a world."""

from __future__ import annotations

import hashlib
import re
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError, ParhelionError, unknown_name
from parhelion.core.pose import Pose
from parhelion.core.reading import file_reader, is_regular_file
from parhelion.core.trajectory import Waypoints
from parhelion.world.emitters import put
from parhelion.world.kit.props import add_parts
from parhelion.world.procedural.checks import check
from parhelion.world.procedural.footprints import along_line
from parhelion.world.procedural.kinds import Mobility, RackParams
from parhelion.world.procedural.layout import Layout, PlannedDrive
from parhelion.world.procedural.object_parts import Load, parts_of, rack_loads
from parhelion.world.procedural.relief import ground_height
from parhelion.world.procedural.town_parts import lamps_of
from parhelion.world.world import World

# ---- Timed paths through the built-in worlds ------------------------------------------------------------------------


def timed_path(points: ArrayLike, speed: ArrayLike, height: ArrayLike) -> Waypoints:
    """Drive along `points` (n, 2) [m] at `speed` [m/s], one number or one per point, starting at time 0.

    The frame is level, `height` [m] above z = 0 (one number or one per point), and its x axis follows the path.
    """
    xy = np.asarray(points, dtype=np.float64)
    steps = np.diff(xy, axis=0)
    at_speed = np.broadcast_to(np.asarray(speed, dtype=np.float64), (len(xy),))
    durations = np.hypot(steps[:, 0], steps[:, 1]) * 2.0 / (at_speed[1:] + at_speed[:-1])
    times = np.concatenate([[0.0], np.cumsum(durations)])
    ahead = np.vstack([steps[:1], steps[:-1] + steps[1:], steps[-1:]])
    yaw = np.degrees(np.unwrap(np.arctan2(ahead[:, 1], ahead[:, 0])))
    z = np.broadcast_to(np.asarray(height, dtype=np.float64), (len(xy),))
    poses = [Pose((x, y, up), rpy_deg=(0.0, 0.0, turn)) for (x, y), up, turn in zip(xy, z, yaw, strict=True)]
    return Waypoints(times.tolist(), poses)


# ---- build ----------------------------------------------------------------------------------------------------------


LOAD_MOBILITY: Mobility = "movable"
"""Mobility of loads in racks."""
_WAYPOINT_STEP_M = 1.0


class LayoutWorld(World):
    """A world that was built from a layout."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout.name)
        self.patterns = True
        self.layout = layout
        """Layout from which the world was built."""
        self._mobility: dict[int, Mobility] = {}

    @property
    def mobility(self) -> MappingProxyType[int, Mobility]:
        """Mobility by instance number, of objects and of loads in racks."""
        return MappingProxyType(self._mobility)


def world_of(layout: Layout) -> LayoutWorld:
    """Build the world of a layout. Row k has the instance number k + 1, followed by the loads in racks."""
    world = LayoutWorld(layout)
    loads: list[tuple[str, Pose, Load]] = []
    for row, item in enumerate(layout.objects):
        pose, name = item.pose.pose(), layout.title(row)
        try:
            add_parts(world, parts_of(item), pose=pose, name=name, instance=row + 1)
        except ParhelionError as error:
            raise ConfigError(f"layout {layout.name!r}: objects[{row}] ({name}): {error}") from None
        world._mobility[row + 1] = item.mobility
        for lamp in lamps_of(item):
            world.add_lamp(**put(lamp, pose).model_dump(exclude_defaults=True))
        if isinstance(item.params, RackParams):
            held = rack_loads(*item.size, item.params)
            loads += [(f"{name}/load-{k}", pose @ load.pose, load) for k, load in enumerate(held)]
    for number, (name, pose, load) in enumerate(loads, start=len(layout.objects) + 1):
        add_parts(world, load.parts, pose=pose, name=name, instance=number)
        world._mobility[number] = LOAD_MOBILITY
    if layout.viewpoint is not None:
        world.viewpoint = layout.viewpoint.pose()
    if layout.drive is not None:
        world.path = _trajectory(layout, layout.drive)
    return world


def mobility_of(world: World) -> MappingProxyType[int, Mobility]:
    """Mobility (static, movable or dynamic) by instance number, of a world that was built from a layout."""
    if not isinstance(world, LayoutWorld):
        raise ConfigError(f"world {world.name!r}: it was not built from a layout and has no table of mobility")
    return world.mobility


def layout_of(world: World) -> Layout:
    """Return the layout from which a world was built."""
    if not isinstance(world, LayoutWorld):
        raise ConfigError(f"world {world.name!r}: it was not built from a layout")
    return world.layout


def world_digest(world: World) -> str:
    """Hash of a world's names, labels, materials and triangles, bit for bit."""
    total = hashlib.blake2b(digest_size=16)
    for item in world.objects:
        total.update(f"{item.name}|{item.label}|{item.instance}|{item.pose!r}".encode())
        for part in item.parts:
            total.update(part.material.name.encode())
            total.update(part.placed.tobytes())
            total.update(part.mesh.faces.tobytes())
    return total.hexdigest()


def _trajectory(layout: Layout, drive: PlannedDrive) -> Waypoints:
    """Timed poses of a drive that follow the ground: x forward, pitch with the slope, no roll.

    With a speed per point, the poses are at these points and level.
    """
    if drive.speeds_m_s is not None:
        x, y = np.array(drive.points).T
        z = ground_height(layout, x, y) + drive.height_m
        if float(np.hypot(np.diff(x), np.diff(y)).min()) == 0.0:
            raise ConfigError(f"layout {layout.name!r}: drive.points must differ from one to the next")
        return timed_path(drive.points, drive.speeds_m_s, z)
    points = along_line(drive.points, _WAYPOINT_STEP_M)
    z = ground_height(layout, points[:, 0], points[:, 1]) + drive.height_m
    xyz = np.column_stack([points, z])
    steps = np.diff(xyz, axis=0)
    keep = np.concatenate([[True], np.linalg.norm(steps, axis=1) > 1e-9])
    xyz = xyz[keep]
    if len(xyz) < 2:
        raise ConfigError(f"layout {layout.name!r}: drive.points must not all be the same point")
    steps = np.diff(xyz, axis=0)
    times = np.concatenate([[0.0], np.cumsum(np.linalg.norm(steps, axis=1))]) / drive.speed_m_s
    ahead = np.vstack([steps[:1], steps[:-1] + steps[1:], steps[-1:]])
    yaw = np.degrees(np.unwrap(np.arctan2(ahead[:, 1], ahead[:, 0])))
    pitch = -np.degrees(np.arctan2(ahead[:, 2], np.hypot(ahead[:, 0], ahead[:, 1])))
    poses = [Pose(at, rpy_deg=(0.0, nose, turn)) for at, nose, turn in zip(xyz, pitch, yaw, strict=True)]
    return Waypoints(times.tolist(), poses)


# ---- worlds from layout files (.yaml, .json) ------------------------------------------------------------------------


def is_list(path: str | PathLike[str]) -> bool:
    """Return True if a file is a layout, by its extension; a YAML layout has the field `size`."""
    file = Path(path)
    if file.suffix.lower() not in (".yaml", ".yml"):
        return file.suffix.lower() == ".json"
    if not is_regular_file(file):
        return False  # the reader of world files reports the problem
    try:
        with file.open("rb") as stream:
            return any(re.match(rb"""["']?size["']?\s*:""", line) for line in stream)
    except (OSError, ValueError):
        return False


@file_reader(ConfigError)
def load_listed(path: str | PathLike[str], params: dict[str, Any]) -> LayoutWorld:
    """Load the world of a layout file; `check=False` also builds a layout with problems."""
    file = Path(path)
    params = dict(params)
    checked = params.pop("check", True)
    for name in params:
        raise unknown_name(f"parameter for {file}:", name, ("check",))
    layout = Layout.load(file)
    if checked:
        require_sound(layout, file)
    return world_of(layout)


def require_sound(layout: Layout, source: str | PathLike[str] = "layout") -> None:
    """Raise an error with the rows of the list in which `check` finds problems."""
    rows = (
        item.model_copy(update={"name": f"objects[{row}] ({layout.title(row)})"})
        for row, item in enumerate(layout.objects)
    )
    problems = check(layout.model_copy(update={"objects": tuple(rows)}))
    if problems:
        more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise ConfigError(f"{source}: {'; '.join(problems[:3])}{more}")
