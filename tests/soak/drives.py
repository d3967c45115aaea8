"""Random drives of ground vehicles in contact with built-in worlds.

    python tests/soak/drives.py --worlds off-road city warehouse harbour --drives 250 --seconds 10 --seed 1

Many vehicles drive at once, as lanes of one driver that ignore each other, with random commands. The script checks

- in every step of 10 ms that no number is undefined, that no wheel is more than 2 cm below the ground, that no point of
  a hull 2 cm inside of its sides passed through a surface, and that no hull overlaps the true triangles by more than
  2 cm in two steps in succession;
- that a second run has the same bits, and a third one that resumes from a state saved in the middle.

A tyre deflects under load, so the depth of a wheel is that of its rigid part: how far a surface reaches into the
outline of the unloaded tyre, less the sinkage into soil and the largest deflection of the tyre, from tread to rim
flange or core (`tyre_travel_m` of the data sheet). The script also reports how often a surface reaches more than 2 cm
deeper into a tyre than its load explains: obstacles between the rays of a wheel. Exits with 1 if a check fails.

`--jobs 16` divides the drives among processes; each of them has its own seed, which does not depend on their number.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import starmap
from multiprocessing import get_context

import numpy as np

import parhelion as ph
from parhelion.contact import boxes
from parhelion.contact.chassis import tyre_travel
from parhelion.contact.chassis import wheel_loads as static_loads
from parhelion.contact.driver import ContactDriver
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.motion.vehicles.base import DriveCommand
from parhelion.motion.vehicles.library import vehicle
from parhelion.rays.records import Rays

MODELS = ("clearpath/husky", "pioneer/p3-dx", "bmw/320i", "amgeneral/hmmwv")
TOP_M = {"off-road": 40.0, "city": 0.5, "warehouse": 0.3, "harbour": 3.0}
"""Height above which starts do not look for ground, so that vehicles do not start on roofs."""
DT = 0.01
DEEPEST_M = 0.02
"""Depth [m] up to which a wheel may be below the ground at any moment, and a hull in a wall for longer than a step."""
_DEPTHS_M = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass
class Outcome:
    """Findings of a set of drives."""

    world: str
    drives: int
    hull_m: Floats
    """Depth of each hull in the true triangles in each step: the largest of a few levels that it exceeds."""
    wheel_m: Floats
    """Depth of the rigid part of the deepest wheel of each vehicle below the ground in each step."""
    missed: float = 0.0
    """Share of the steps in which a surface reaches over 2 cm deeper into a tyre than its load explains."""
    problems: list[str] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    touched: int = 0
    """Vehicles whose hull touched something."""
    seconds: float = 0.0


def placed(world: ph.World, name: str, count: int, seed: int) -> ContactDriver:
    """A driver with vehicles at random places on the ground."""
    rng = np.random.default_rng([seed, len(name)])
    driver = ContactDriver(world, mutual=False)
    low, high = world.bounds  # type: ignore[misc]
    added = tries = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while added < count and tries < 40 * count:
            tries += 1
            x, y = rng.uniform(low[:2] + 3.0, high[:2] - 3.0)
            yaw = rng.uniform(-np.pi, np.pi)
            top = min(TOP_M[name], float(high[2]) + 1.0)
            down = Rays(np.array([[x, y, top]]), np.array([[0.0, 0.0, -1.0]]), np.zeros(1), np.full(1, 1e3))
            hit = driver.solid.scene.cast(down)
            if not hit.found[0]:
                continue
            pose = ph.Pose((x, y, top - float(hit.range[0])), (0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2)))
            try:
                driver.add(f"v{added}", vehicle(MODELS[added % len(MODELS)]), pose)
                added += 1
            except ConfigError:
                continue
    return driver


def commands_of(driver: ContactDriver, seconds: float, seed: int) -> list[list[DriveCommand]]:
    """Commands of each vehicle for each second."""
    rng = np.random.default_rng([seed, 7])
    table = []
    for _ in range(int(np.ceil(seconds))):
        row = []
        for one in driver._members:
            most = min(one.vehicle.config.max_speed_m_s, 15.0)
            speed = most * rng.uniform(-0.3, 1.0)
            row.append(DriveCommand(float(speed), float(rng.uniform(-0.8, 0.8))))
        table.append(row)
    return table


def hull_depths(driver: ContactDriver) -> Floats:
    """Depth of each hull in the triangles, as the largest level by which it can shrink and still overlaps one."""
    found = np.zeros(len(driver._members))
    place = driver._state[:3].T - driver.solid.scene.origin
    turns = boxes.rotation(driver._state[3:7].T)
    for k in range(len(found)):
        reach = driver._lists.lever[k]
        rows = driver.solid.near(place[k] - reach, place[k] + reach)
        corners = (driver.solid.corners[rows] - place[k]) @ turns[k] - driver._centre[k]
        for depth in _DEPTHS_M:
            half = driver._half[k] - depth
            if half.min() <= 0.0 or not boxes.overlaps(corners, half).any():
                break
            found[k] = depth
    return found


def wheel_depths(driver: ContactDriver) -> tuple[Floats, Floats]:
    """Depths (n,) [m] of the rigid part of each vehicle's deepest wheel, and largest deflections without load.

    Rays go from the hub to the outline of the unloaded tyre. A hub that is less than a radius below a surface that
    faces up has been pushed through it. Farther above, a surface may be a window sill over free space.
    """
    hubs, ways, sizes, bends, stops, owners = [], [], [], [], [], []
    turns = boxes.rotation(driver._state[3:7].T)
    sunk, loads, lifts = driver.sinkages(), driver.wheel_loads(), driver.lifts()
    angles = np.radians(np.arange(-90.0, 91.0, 5.0))
    around = np.column_stack([np.sin(angles), 0.0 * angles, -np.cos(angles)])
    for k, one in enumerate(driver._members):
        static = static_loads(one.vehicle.config.mass_kg, one.chassis) / one.chassis.tyre_stiffness_n_m
        for n, wheel in enumerate(one.chassis.wheels):
            hub = np.array([wheel.x_m, wheel.y_m, wheel.radius_m + lifts[k][n]]) - one.offset
            hubs.append(np.tile(driver._state[:3, k] + turns[k] @ hub, (len(angles), 1)))
            ways.append(around @ turns[k].T)
            sizes.append(wheel.radius_m + static[n])
            bends.append(sunk[k][n] + loads[k][n] / one.chassis.tyre_stiffness_n_m)
            stops.append(sunk[k][n] + tyre_travel(wheel, one.chassis, float(static[n])))
            owners.append(k)
    start, way = np.concatenate(hubs), np.concatenate(ways)
    size, bend, stop, owner = (np.repeat(one, len(angles)) for one in (sizes, bends, stops, owners))
    hit = driver.solid.scene.cast(Rays(start, way, np.zeros(len(start)), size))
    up = np.tile([0.0, 0.0, 1.0], (len(start), 1))
    above = driver.solid.scene.cast(Rays(start, up, np.zeros(len(start)), size))
    normal = driver.solid.triangles.normals()[np.where(above.found, above.triangle, 0)]
    buried = above.found & (normal[:, 2] > 0.3)
    depth = np.where(buried, size + above.range, np.where(hit.found, size - hit.range, 0.0))
    depth = np.where(turns[owner, 2, 2] > 0.5, depth, 0.0)
    rigid, missed = np.zeros(len(driver._members)), np.zeros(len(driver._members))
    np.maximum.at(rigid, owner, depth - stop)
    np.maximum.at(missed, owner, depth - bend)
    return rigid, missed


def drive(world: ph.World, name: str, count: int, seconds: float, seed: int) -> Outcome:
    """Drive and check, then repeat from the start and from a state that was saved in the middle."""
    begin = time.perf_counter()
    driver = placed(world, name, count, seed)
    count = len(driver._members)
    table = commands_of(driver, seconds, seed)
    steps = round(seconds / DT)
    result = Outcome(name, count, np.zeros((0, count)), np.zeros((0, count)))
    hulls, wheels, saved, last = [], [], b"", inner_points(driver)
    before, begun, touched = np.zeros(count), driver.save(), set()
    for number in range(steps):
        touched |= {one.body for one in driver.step(table[int(number * DT)], DT)}
        if number == steps // 2:
            saved = driver.save()
        if not np.isfinite(driver._state).all():
            result.problems.append(f"undefined state at {number * DT:.2f} s")
            break
        now = number * DT
        rigid, missed = wheel_depths(driver)
        wheels.append(rigid)
        result.missed += float(np.mean(missed > DEEPEST_M)) / steps
        for k in np.flatnonzero((wheels[-1] > DEEPEST_M) & ~(before > DEEPEST_M)).tolist():
            result.problems.append(
                f"{driver._members[k].name}: wheel {wheels[-1][k]:.3f} m below ground at {now:.2f} s, {_at(driver, k)}"
            )
        before = wheels[-1]
        points = inner_points(driver)
        for k in passed(driver, last, points):
            result.problems.append(
                f"{driver._members[k].name}: passed through a surface at {now:.2f} s, {_at(driver, k)}"
            )
        last = points
        hulls.append(hull_depths(driver))
        lasts = hulls[-1] >= DEEPEST_M if len(hulls) < 2 else (hulls[-1] >= DEEPEST_M) & (hulls[-2] >= DEEPEST_M)
        new = lasts if len(hulls) < 3 else lasts & ~(hulls[-3] >= DEEPEST_M)
        for k in np.flatnonzero(new).tolist():
            result.problems.append(
                f"{driver._members[k].name}: hull {hulls[-1][k]:.3f} m deep at {now:.2f} s, {_at(driver, k)}"
            )
    end, result.touched = driver.save(), len(touched)
    for one in driver.events():
        result.events[one.kind] = result.events.get(one.kind, 0) + 1
    for state, first, what in ((begun, 0, "repeated"), (saved, steps // 2 + 1, "resumed")):
        driver.load(state)
        for number in range(first, steps):
            driver.step(table[int(number * DT)], DT)
        if driver.save() != end:
            result.problems.append(f"{what} drives have other bits")
    result.hull_m, result.wheel_m = np.array(hulls), np.array(wheels)
    result.seconds = time.perf_counter() - begin
    return result


def _at(driver: ContactDriver, number: int) -> str:
    """Model, place and speed of a vehicle."""
    x, y, z, *_, vx, vy, vz = driver._state[:10, number].tolist()
    model = driver._members[number].vehicle.config.name
    return f"{model} at ({x:.2f}, {y:.2f}, {z:.2f}), velocity ({vx:.1f}, {vy:.1f}, {vz:.1f}) m/s"


def inner_points(driver: ContactDriver) -> Floats:
    """Points (n, 15, 3) of the hulls in the world: the centre, and corners and middles of sides, 2 cm inside."""
    turns = boxes.rotation(driver._state[3:7].T)
    shape = np.concatenate([np.zeros((1, 3)), boxes.CORNERS, np.eye(3), -np.eye(3)])
    half = np.maximum(driver._half - DEEPEST_M, 0.2 * driver._half)
    local = shape * half[:, None] + driver._centre[:, None]
    return local @ turns.swapaxes(1, 2) + driver._state[:3].T[:, None]


def passed(driver: ContactDriver, before: Floats, after: Floats) -> list[int]:
    """Vehicles of which a point passed through a surface and is still behind it."""
    start, way = before.reshape(-1, 3), (after - before).reshape(-1, 3)
    length = np.linalg.norm(way, axis=1)
    rows = np.flatnonzero(length > 1e-6)
    if not len(rows):
        return []
    rays = Rays(start[rows], way[rows] / length[rows, None], np.zeros(len(rows)), length[rows])
    return np.unique(rows[driver.solid.scene.cast(rays).found] // before.shape[1]).tolist()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", default=list(TOP_M), choices=list(TOP_M))
    parser.add_argument("--drives", type=int, default=250, help="drives per world")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--lanes", type=int, default=50, help="vehicles that drive at the same time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--show", type=int, default=8, help="problems shown per run")
    args = parser.parse_args()
    parts = []
    for name in args.worlds:
        for done in range(0, args.drives, args.lanes):
            parts.append((name, min(args.lanes, args.drives - done), args.seconds, args.seed + done))
    failed = 0
    if args.jobs == 1:
        results = starmap(_run, parts)
    else:
        os.environ.setdefault("PARHELION_THREADS", "1")
        pool = ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn"))
        results = pool.map(_run, *zip(*parts, strict=True))
    for (*_, seed), found in zip(parts, results, strict=True):
        hull, wheel = found.hull_m.ravel(), found.wheel_m.ravel()
        print(
            f"{found.world}, seed {seed}: {found.drives} drives in {found.seconds:.0f} s, "
            f"{found.touched} touched something, {found.events}, "
            f"hull over 1 cm deep {100 * np.mean(hull >= 0.01):.2f} %, deepest {hull.max():.3f} m, "
            f"wheel deepest {wheel.max():.3f} m, tyre without load {100 * found.missed:.3f} %, "
            f"{len(found.problems)} problems",
            flush=True,
        )
        for problem in found.problems[: args.show]:
            print("   ", problem, flush=True)
        failed += len(found.problems)
    return 1 if failed else 0


def _run(name: str, count: int, seconds: float, seed: int) -> Outcome:
    """Drive in a built-in world."""
    return drive(ph.World.load(name), name, count, seconds, seed)


if __name__ == "__main__":
    sys.exit(main())
