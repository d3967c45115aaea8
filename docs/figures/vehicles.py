"""Pictures of the page on vehicles: routes, a car's turning, a multirotor's step, a vessel's roll."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, RED, finish, sheet

import parhelion as ph
from parhelion.motion.drivers import drive, follow
from parhelion.motion.vehicles import Car, PositionCommand, SteerCommand, ThrustCommand, Vessel, vehicle, vehicle_sheet
from parhelion.motion.vehicles.ground import understeer_gradient
from parhelion.motion.vehicles.sheets import CarConfig

SQUARE = np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)])


def draw_routes(axes: Any) -> None:
    """Three sides of a square, sides scaled to 1."""
    runs = (
        ("clearpath/husky", 8.0, 0.8, 40.0, BLUE),
        ("bmw/320i", 60.0, 10.0, 40.0, GREEN),
        ("asctec/hummingbird", 20.0, 3.0, 30.0, ORANGE),
        ("dlr/aurora", 80.0, 2.5, 120.0, RED),
    )
    for name, side, speed, duration, colour in runs:
        one = vehicle(name)
        points = np.column_stack([side * SQUARE, np.zeros(4)])
        state = drive(one, follow(one, points, speed), duration, 0.05).recorded
        label = f"{name.split('/')[1]}, {side:g} m, {speed:g} m/s"
        axes.plot(state.xyz[:, 0] / side, state.xyz[:, 1] / side, color=colour, label=label, linewidth=1.3)
    axes.plot(*SQUARE.T, ":", color=GREY, linewidth=1.0)
    axes.set_aspect("equal")
    axes.set(xlabel="x / side", ylabel="y / side", title="Three sides of a square")
    axes.legend(fontsize=7, loc="center left")


def draw_turning(axes: Any) -> None:
    """Turn rate of a steady circle over the steering angle."""
    sheet_of_car = vehicle_sheet("bmw/320i")
    assert isinstance(sheet_of_car, CarConfig)
    steering = 0.02
    for front, rear, label, colour in (
        (20.898, 20.898, "neutral (the preset)", BLUE),
        (15.0, 20.898, "understeer", GREEN),
        (20.898, 17.0, "oversteer", ORANGE),
    ):
        changes = {"front_stiffness_1_rad": front, "rear_stiffness_1_rad": rear}
        one = Car(sheet_of_car.model_copy(update=changes))
        speeds = np.linspace(1.0, 32.0, 200)
        closed = speeds / (one.wheelbase_m + understeer_gradient(one.config) * speeds**2)
        axes.plot(speeds, closed, color=colour, label=label)
        for speed in (4.0, 10.0, 16.0, 22.0, 28.0):
            one.reset(speed_m_s=speed)
            for _ in range(800):
                one.step(SteerCommand(speed, steering), 0.01)
            axes.plot(one.speed_m_s, one.row()[13] / steering, "o", color=colour, markersize=4)
    axes.set(xlabel="speed [m/s]", ylabel="turn rate / steering [1/s]", title="A car's steady circle", ylim=(0, 18))
    axes.legend(fontsize=8)


def draw_step(axes: Any) -> None:
    """Position of a multirotor that is sent 3 m away."""
    one = vehicle("asctec/hummingbird")
    one.reset(ph.Pose((0, 0, 2)))
    state = drive(one, PositionCommand((3.0, 0.0, 3.0)), 6.0, 0.01).recorded
    tilt = np.degrees(np.arccos(1.0 - 2.0 * np.sum(state.quat_xyzw[:, :2] ** 2, axis=1)))
    axes.plot(state.time, state.xyz[:, 0], color=BLUE, label="x [m]")
    axes.plot(state.time, state.xyz[:, 2], color=GREEN, label="z [m]")
    axes.plot(state.time, tilt / 10.0, color=ORANGE, label="tilt [10°]")
    axes.axhline(3.0, color=GREY, linestyle=":", linewidth=1.0)
    axes.set(xlabel="time [s]", title="A multirotor's step to x = z = 3 m")
    axes.legend(fontsize=8)


def draw_roll(axes: Any) -> None:
    """AURORA let go at 10 degrees of heel, and the linear oscillator with the same numbers."""
    one = vehicle("dlr/aurora")
    assert isinstance(one, Vessel)
    height = one.xyz[2]
    one.reset(ph.Pose((0, 0, height), rpy_deg=(10, 0, 0)), afloat=False)
    state = drive(one, ThrustCommand(0.0, 0.0), 8.0, 0.02).recorded
    roll = np.array([ph.Pose(quat_xyzw=q).rpy_deg[0] for q in state.quat_xyzw])
    axes.plot(state.time, roll, color=BLUE, label="model")
    natural = 2.0 * math.pi / one.roll_period_s
    inertia = one.inertia_kg_m2[0] * (1.0 + one.config.added_mass[3])
    damping = one.config.linear_drag[3] / (2.0 * inertia)
    damped = math.sqrt(natural**2 - damping**2)
    curve = np.exp(-damping * state.time) * (
        np.cos(damped * state.time) + damping / damped * np.sin(damped * state.time)
    )
    axes.plot(state.time, 10.0 * curve, "--", color=ORANGE, label="linear closed form")
    axes.set(xlabel="time [s]", ylabel="roll [°]", title=f"AURORA let go at 10°, period {one.roll_period_s:.2f} s")
    axes.legend(fontsize=8)


if __name__ == "__main__":
    figure, panels = sheet(15.0, 3.8, 4)
    for draw, panel in zip((draw_routes, draw_turning, draw_step, draw_roll), panels, strict=True):
        draw(panel)
    finish(figure, "vehicles")
