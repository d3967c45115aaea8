"""Contact: a Husky off-road, closed forms of wheels, and hulls of vessel and multirotor: docs/images/contact-*.png.

python contact.py [off-road] [closed-forms] [hulls]
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, IMAGES, ORANGE, RED, finish, sheet

import parhelion as ph
from parhelion.contact.driver import ContactDriver
from parhelion.contact.hulls import HullDriver, hull_shape
from parhelion.core.pose import quat_rotate
from parhelion.motion.vehicles.base import DriveCommand, MotorsOff, ThrustCommand, VelocityCommand
from parhelion.motion.vehicles.library import vehicle

sys.path.insert(0, str(IMAGES.parents[1] / "tests"))
from contact_rigs import CAR, HUSKY, REST, G, flat, launched, model, run, tilted

DT = 0.01
ASPHALT = 0.85


def draw_off_road() -> None:
    """A Husky on off-road ground: side view with its wheels, height and pitch by time."""
    world = ph.World.load("off-road")
    driver = ContactDriver(world)
    robot = vehicle("clearpath/husky")
    chassis = robot.config.chassis
    number = driver.add("robot", robot, ph.Pose((19.5, 8.8, world.height(19.5, 8.8)), rpy_deg=(0, 0, 220)))
    rows, loads = [], []
    for _ in range(2000):
        driver.step([DriveCommand(0.8)], DT)
        rows.append(driver.rows()[number].copy())
        loads.append(driver.wheel_loads()[number].copy())
    states, load = np.array(rows), np.array(loads)
    ground = driver.solid.heights(states[:, 1:4], 0.5)
    figure, (side, height, pitch) = sheet(11.0, 3.4, 3, width_ratios=(1.5, 1.0, 1.0))
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(states[:, 1:3], axis=0).T))])
    side.plot(along, ground, color=GREY, lw=1.2, label="ground below the middle")
    hubs = np.array([(wheel.x_m, wheel.y_m, wheel.radius_m) for wheel in chassis.wheels])
    for k in range(50, 2000, 380):
        xyz, quat = states[k, 1:4], states[k, 4:8]
        forward = quat_rotate(quat, np.array([1.0, 0.0, 0.0]))
        heading = forward[:2] / np.hypot(*forward[:2])
        for hub, force in zip(hubs, load[k], strict=False):
            place = xyz + quat_rotate(quat, hub)
            x = along[k] + float((place - xyz)[:2] @ heading)
            turn = np.linspace(0.0, 2.0 * np.pi, 60)
            side.plot(x + hub[2] * np.cos(turn), place[2] + hub[2] * np.sin(turn), color=BLUE, lw=0.7)
            below = driver.solid.heights(place[None])[0]
            side.plot(x, below, "o", ms=1.5 + force / 80.0, color=ORANGE, mec="none")
        low, high = chassis.ground_clearance_m, robot.config.size_m[2]
        half = 0.5 * robot.config.size_m[0]
        box = np.array([(-half, 0, low), (half, 0, low), (half, 0, high), (-half, 0, high), (-half, 0, low)])
        corners = xyz + quat_rotate(quat, box)
        side.plot(along[k] + (corners - xyz)[:, :2] @ heading, corners[:, 2], color=BLUE, lw=1.0)
    side.plot([], [], "o", color=ORANGE, label="ground under a wheel; size by load")
    side.set(xlabel="distance [m]", ylabel="height [m]", title="Husky in `off-road`, every 3.8 s", aspect="equal")
    side.legend(fontsize=7, loc="lower right")
    side.margins(x=0.02, y=0.5)
    time = states[:, 0]
    height.plot(time, ground, color=GREY, lw=2.5, label="ground")
    height.plot(time, states[:, 3], color=BLUE, lw=1.0, label="vehicle frame")
    height.set(xlabel="time [s]", ylabel="z [m]", title=f"Height; within {1e3 * _worst(states, ground):.0f} mm (95 %)")
    height.legend(fontsize=7)
    forward = quat_rotate(states[:, 4:8], np.array([1.0, 0.0, 0.0]))
    tilt = np.degrees(np.arctan2(forward[:, 2], np.hypot(forward[:, 0], forward[:, 1])))
    slope = _slope(driver, states, 0.5 * (hubs[:, 0].max() - hubs[:, 0].min()))
    pitch.plot(time, slope, color=GREY, lw=2.5, label="ground between the axles")
    pitch.plot(time, tilt, color=BLUE, lw=1.0, label="vehicle")
    pitch.set(xlabel="time [s]", ylabel="nose up [°]", title="Pitch")
    pitch.legend(fontsize=7)
    finish(figure, "contact-off-road")


def _worst(states: Any, ground: Any) -> float:
    return float(np.percentile(np.abs(states[:, 3] - ground), 95))


def _slope(driver: ContactDriver, states: Any, half_m: float) -> Any:
    """Slope [deg] of the ground between points ahead and behind, over both tracks."""
    total = np.zeros(len(states))
    for y in (-0.27, 0.27):
        ends = []
        for x in (-half_m, half_m):
            place = states[:, 1:4] + quat_rotate(states[:, 4:8], np.array([x, y, 0.0]))
            ends.append(driver.solid.heights(place, 0.5))
        total += 0.5 * (ends[1] - ends[0])
    return np.degrees(np.arctan2(total, 2.0 * half_m))


def draw_closed_forms() -> None:
    """Braking distance by speed, tip-over angle by the height of the centre of mass, and kerbs that a Husky climbs."""
    figure, (brake, tip, kerb) = sheet(11.0, 3.3, 3)
    speeds = np.array([5.0, 10.0, 15.0, 20.0, 25.0])
    brake.plot(speeds, speeds**2 / (2.0 * ASPHALT * G), color=GREY, label="v²/(2 μ g), μ = 0.85")
    brake.plot(speeds, [_braking(speed) for speed in speeds], "o", color=BLUE, label="320i on asphalt")
    brake.set(xlabel="speed [m/s]", ylabel="distance [m]", title="Braking")
    brake.legend(fontsize=8)
    heights = np.linspace(0.15, 0.55, 60)
    half = 0.5 * 0.5708 + 0.4 * 0.6 * 0.1651
    label = "rigid wheels, about their outer discs"
    tip.plot(heights, np.degrees(np.arctan(half / heights)), color=GREY, label=label)
    some = np.array([0.15, 0.25, 0.35, 0.45, 0.55])
    tip.plot(some, [_tipping(h) for h in some], "o", color=BLUE, label="Husky, gravity tilts by 1°/s")
    tip.set(xlabel="height of the centre of mass [m]", ylabel="angle [°]", title="Tipping over")
    tip.legend(fontsize=8)
    radius = vehicle("clearpath/husky").config.wheel_radius_m
    most = radius * (1.0 - math.cos(math.atan(ASPHALT)))
    steps = np.array([0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14])
    rise = np.array([_climbed(step) for step in steps])
    kerb.plot(100 * steps, 100 * steps, color=GREY, label="height of the kerb")
    kerb.plot(100 * steps, 100 * rise, "o", color=BLUE, label="height of the Husky behind it")
    label = f"front wheels alone: r (1 - cos atan μ) = {100 * most:.1f} cm"
    kerb.axvline(100 * most, color=ORANGE, ls="--", lw=1.0, label=label)
    kerb.axvline(13.8, color=RED, ls=":", lw=1.2, label="rear wheels push as well: 13.8 cm")
    kerb.set(xlabel="kerb [cm]", ylabel="[cm]", title="Kerbs at 0.5 m/s")
    kerb.set_ylim(-1.0, 23.0)
    kerb.legend(fontsize=7, loc="upper left")
    finish(figure, "contact-closed-forms")


def _braking(speed: float) -> float:
    driver = ContactDriver(flat())
    driver.add("car", model(CAR, speed_lag_s=0.05, max_braking_m_s2=12.0), ph.Pose((-100, 0, 0)))
    run(driver, [REST], 0.3)
    launched(driver, 0, (speed, 0.0, 0.0))
    start = driver.rows()[0, 1]
    run(driver, [REST], speed / (ASPHALT * G) + 1.0)
    return float(driver.rows()[0, 1] - start)


def _tipping(height: float) -> float:
    """Angle [deg] of gravity at which a Husky tips over."""
    driver = ContactDriver(flat())
    driver.add("robot", model(HUSKY, friction_share=3.0, centre_of_mass_m=(0.0, 0.0, height)), ph.Pose())
    angle = 15.0
    while angle < 90.0:
        tilted(driver, angle, axis=1)
        run(driver, [REST], 0.1)
        if abs(driver.rows()[0, 4]) > 0.2:
            return angle
        angle += 0.1
    return math.nan


def _climbed(step: float) -> float:
    world = flat()
    world.add(ph.shapes.box(6, 6, 2 * step), material="asphalt", label="sidewalk", pose=ph.Pose((4.0, 0, 0)))
    driver = ContactDriver(world)
    driver.add("robot", vehicle("clearpath/husky"), ph.Pose())
    for _ in range(900):
        driver.step([DriveCommand(0.5)], DT)
    return float(driver.rows()[0, 3])


def draw_hulls() -> None:
    """A vessel against a quay, and a multirotor that lands, hits a wall and falls."""
    figure, (plan, flight, speed) = sheet(11.0, 3.4, 3, width_ratios=(1.7, 1.0, 1.0))
    world = ph.World()
    world.add(ph.shapes.box(1, 60, 6), material="concrete", label="quay", name="quay", pose=ph.Pose((10.5, 0, 0)))
    boat, driver = vehicle("dlr/aurora"), HullDriver(world)
    driver.add("boat", boat, ph.Pose((0, -12, 0), rpy_deg=(0, 0, 42)))
    deck = hull_shape(boat).vertices
    outline = deck[deck[:, 2] > deck[:, 2].max() - 1e-6]
    order = np.argsort(np.arctan2(outline[:, 1], outline[:, 0]))
    outline = outline[np.append(order, order[0])]
    hits = []
    for k in range(1701):
        if k % 170 == 0:
            corners = np.array(boat.xyz) + quat_rotate(np.array(boat.quat_xyzw), outline)
            plan.plot(corners[:, 1], corners[:, 0], color=BLUE, lw=0.9)
        hits += driver.step([ThrustCommand(500.0, 500.0)], DT)
    plan.axhspan(10.0, 11.0, color=GREY, alpha=0.5, lw=0)
    places = np.array([hit.xyz for hit in hits])
    size = np.array([hit.impulse_n_s for hit in hits])
    plan.scatter(places[:, 1], places[:, 0], s=4.0 + 60.0 * size / size.max(), color=RED, zorder=3, label="collisions")
    plan.set(xlabel="y [m]", ylabel="x [m]", title="AURORA against a quay, every 1.7 s", aspect="equal")
    plan.legend(fontsize=7, loc="lower right")
    room = ph.World()
    room.add(ph.shapes.box(40, 40, 1), material="concrete", label="floor", pose=ph.Pose((0, 0, -0.5)))
    room.add(ph.shapes.box(0.2, 40, 5), material="brick", label="wall", name="wall", pose=ph.Pose((3.1, 0, 2.5)))
    for title, command, colour in (
        ("lands at 0.7 m/s", lambda t: VelocityCommand((0, 0, -0.7)) if t < 4.0 else MotorsOff(), GREEN),
        ("hits the wall, then hovers", lambda t: VelocityCommand((3.0 if t < 1.4 else 0.0, 0, 0)), BLUE),
        ("pushes on at the wall", lambda t: VelocityCommand((3.0, 0, 0)), ORANGE),
    ):
        quad, aloft = vehicle("asctec/hummingbird"), HullDriver(room)
        aloft.add("quad", quad, ph.Pose((0, 0, 2.0)))
        track = [quad.xyz]
        for k in range(600):
            aloft.step([command(k * DT)], DT)
            track.append(quad.xyz)
        xyz = np.array(track)
        flight.plot(xyz[:, 0], xyz[:, 2], color=colour, lw=1.2, label=title)
        speed.plot(DT * np.arange(len(xyz)), xyz[:, 2], color=colour, lw=1.2)
    flight.axvspan(3.0, 3.2, color=GREY, alpha=0.5, lw=0)
    flight.axhspan(-0.1, 0.0, color=GREY, alpha=0.5, lw=0)
    flight.set(xlabel="x [m]", ylabel="z [m]", title="Hummingbird: path of its middle", ylim=(-0.1, 2.6))
    flight.legend(fontsize=7, loc="center left")
    legs = vehicle("asctec/hummingbird").config.standing_height_m
    speed.axhline(legs, color=GREY, ls="--", lw=1.0, label=f"on its legs: {legs:.2f} m")
    speed.set(xlabel="time [s]", ylabel="z [m]", title="Height by time")
    speed.legend(fontsize=7)
    finish(figure, "contact-hulls")


PICTURES = {"off-road": draw_off_road, "closed-forms": draw_closed_forms, "hulls": draw_hulls}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()
