"""Random drives of ground vehicles in contact with built-in worlds.

    python tests/soak/drives.py --worlds off-road city warehouse harbour --drives 250 --seconds 10 --seed 1

Many vehicles drive at once, as lanes of one driver that ignore each other, with random commands. Every 0.1 s the script
checks that no number is undefined, no wheel is more than 2 cm below the ground for longer than a landing lasts, no
centre of mass passed through a surface, and how deep hulls are in the true triangles. A second run, resumed from a
state saved in the middle, must have the same bits. Exits with 1 if a check fails.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass, field

import numpy as np

import parhelion as ph
from parhelion.contact import boxes
from parhelion.contact.chassis import wheel_loads as static_loads
from parhelion.contact.driver import ContactDriver
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.motion.vehicles.base import DriveCommand
from parhelion.motion.vehicles.library import vehicle
from parhelion.rays.records import Rays

MODELS = ("clearpath/husky", "pioneer/p3-dx", "bmw/320i")
TOP_M = {"off-road": 40.0, "city": 0.5, "warehouse": 0.3, "harbour": 3.0}
"""Height above which starts do not look for ground, so that vehicles do not start on roofs."""
DT, CHECK = 0.01, 10
LANDING_S = 0.3
DEEPEST_WHEEL_M = 0.02
DEEPEST_HULL_M = 0.1
_DEPTHS_M = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass
class Outcome:
    """Findings of a set of drives."""

    world: str
    drives: int
    hull_m: Floats
    """Depth of each hull in the true triangles at each check: the largest of a few levels that it exceeds."""
    wheel_m: Floats
    """Depth of the deepest wheel of each vehicle below the ground at each check."""
    problems: list[str] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
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


def wheel_depths(driver: ContactDriver) -> Floats:
    """Depth [m] of each vehicle's deepest wheel: how far a surface reaches into the lower half of its disc, radially.

    Sinkage into soil and the deflection of tyres under more than their static load do not count. Rays go from the hub
    to the rim; a hub that is less than a radius below a surface that faces up has been pushed through it. Farther
    above, a surface may be a window sill over free space.
    """
    hubs, ways, sizes, owners = [], [], [], []
    turns = boxes.rotation(driver._state[3:7].T)
    sunk, loads, lifts = driver.sinkages(), driver.wheel_loads(), driver.lifts()
    angles = np.radians(np.arange(-90.0, 91.0, 5.0))
    around = np.column_stack([np.sin(angles), 0.0 * angles, -np.cos(angles)])
    for k, one in enumerate(driver._members):
        wheels = one.chassis.wheels
        more = (loads[k][: len(wheels)] - static_loads(one.vehicle.config.mass_kg, one.chassis)).clip(0.0)
        less = sunk[k][: len(wheels)] + more / one.chassis.tyre_stiffness_n_m
        for wheel, depth, lift in zip(wheels, less, lifts[k], strict=False):
            hub = np.array([wheel.x_m, wheel.y_m, wheel.radius_m + lift]) - one.offset
            hubs.append(np.tile(driver._state[:3, k] + turns[k] @ hub, (len(angles), 1)))
            ways.append(around @ turns[k].T)
            sizes.append(np.full(len(angles), wheel.radius_m - depth))
            owners.append(np.full(len(angles), k))
    start, way, size, owner = (np.concatenate(one) for one in (hubs, ways, sizes, owners))
    hit = driver.solid.scene.cast(Rays(start, way, np.zeros(len(start)), size))
    up = np.tile([0.0, 0.0, 1.0], (len(start), 1))
    above = driver.solid.scene.cast(Rays(start, up, np.zeros(len(start)), size))
    normal = driver.solid.triangles.normals()[np.where(above.found, above.triangle, 0)]
    buried = above.found & (normal[:, 2] > 0.3)
    depth = np.where(buried, size + above.range, np.where(hit.found, size - hit.range, 0.0))
    found = np.zeros(len(driver._members))
    np.maximum.at(found, owner, np.where(turns[owner, 2, 2] > 0.5, depth, 0.0))
    return found


def drive(world: ph.World, name: str, count: int, seconds: float, seed: int) -> Outcome:
    """Drive, check, and repeat from a state that was saved in the middle."""
    begin = time.perf_counter()
    driver = placed(world, name, count, seed)
    count = len(driver._members)
    table = commands_of(driver, seconds, seed)
    steps = round(seconds / DT)
    result = Outcome(name, count, np.zeros((0, count)), np.zeros((0, count)))
    hulls, wheels, saved, last = [], [], b"", driver._state[:3].T.copy()
    under = np.zeros(count)
    for number in range(steps):
        driver.step(table[int(number * DT)], DT)
        if number == steps // 2:
            saved = driver.save()
        if number % CHECK:
            continue
        if not np.isfinite(driver._state).all():
            result.problems.append(f"undefined state at {number * DT:.1f} s")
            break
        now = driver._state[:3].T.copy()
        for k in passed(driver, last, now):
            result.problems.append(
                f"{driver._members[k].name} passed through a surface at {number * DT:.1f} s, {now[k]}"
            )
        hulls.append(hull_depths(driver))
        wheels.append(wheel_depths(driver))
        under = np.where(wheels[-1] > DEEPEST_WHEEL_M, under + CHECK * DT, 0.0)
        for k in np.flatnonzero((under > LANDING_S) & (under <= LANDING_S + CHECK * DT)).tolist():
            result.problems.append(f"{driver._members[k].name}: wheel {wheels[-1][k]:.3f} m below ground, {now[k]}")
        for k in np.flatnonzero(hulls[-1] > DEEPEST_HULL_M).tolist():
            result.problems.append(f"{driver._members[k].name}: hull {hulls[-1][k]:.2f} m deep at {now[k]}")
        last = now
    end = driver.save()
    for one in driver.events():
        result.events[one.kind] = result.events.get(one.kind, 0) + 1
    driver.load(saved)
    for number in range(steps // 2 + 1, steps):
        driver.step(table[int(number * DT)], DT)
    if driver.save() != end:
        result.problems.append("resumed drives have other bits")
    result.hull_m, result.wheel_m = np.array(hulls), np.array(wheels)
    result.seconds = time.perf_counter() - begin
    return result


def passed(driver: ContactDriver, before: Floats, after: Floats) -> list[int]:
    """Vehicles whose centre of mass passed through a surface."""
    way = after - before
    length = np.linalg.norm(way, axis=1)
    rows = np.flatnonzero(length > 1e-6)
    if not len(rows):
        return []
    rays = Rays(before[rows], way[rows] / length[rows, None], np.zeros(len(rows)), length[rows])
    return rows[driver.solid.scene.cast(rays).found].tolist()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", default=list(TOP_M), choices=list(TOP_M))
    parser.add_argument("--drives", type=int, default=250, help="drives per world")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--lanes", type=int, default=50, help="vehicles that drive at the same time")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    failed = 0
    for name in args.worlds:
        world, done = ph.World.load(name), 0
        while done < args.drives:
            found = drive(world, name, min(args.lanes, args.drives - done), args.seconds, args.seed + done)
            done += max(found.drives, 1)
            hull, wheel = found.hull_m.ravel(), found.wheel_m.ravel()
            print(
                f"{name}, seed {args.seed + done - found.drives}: {found.drives} drives in {found.seconds:.0f} s, "
                f"{found.events}, hull over 1 cm deep {100 * np.mean(hull >= 0.01):.2f} %, deepest {hull.max():.3f} m, "
                f"wheel over 2 cm {100 * np.mean(wheel > 0.02):.3f} %, deepest {wheel.max():.3f} m, "
                f"{len(found.problems)} problems",
                flush=True,
            )
            for problem in found.problems[:8]:
                print("   ", problem)
            failed += len(found.problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
