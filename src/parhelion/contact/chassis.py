"""Parameters of bodies in contact: from the chassis of a data sheet, or derived from mass and size without one."""

from __future__ import annotations

import math

import numpy as np

from parhelion.contact.kernel import BODY, WHEEL
from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.pose import Floats
from parhelion.motion.vehicles.sheets import CarConfig, ChassisConfig, DifferentialConfig, WheelConfig

TREAD_STIFFNESS_PER_LOAD_1_M = 500.0
"""Shear stiffness of tread and carcass divided by the static load [1/m]: 60 kN/m under 120 N, and the 200 kN/m of a car
tyre under 3 kN within a factor of 8."""
_TREAD_DAMPING_RATIO = 0.3
TRAVEL_PER_RADIUS = 0.25
"""Deflection of a tyre at its stop, divided by its radius, where the data sheet has none; assumed: the sidewall of a
205/55 R16 tyre from tread to rim flange is 0.3 radii, that of a 13 x 5.00-6 tyre 0.4."""
_NO_LIMIT = 1e3
_WIDTH_PER_RADIUS = 0.6
"""Width of a wheel whose data sheet has none, divided by its radius: 0.2 m for the tyre of a car."""


def chassis_of(sheet: DifferentialConfig | CarConfig) -> ChassisConfig:
    """Chassis of a data sheet; without one, a box of uniform density on four wheels, or two wheels and a caster."""
    if sheet.chassis is not None:
        return sheet.chassis
    length, width, height = sheet.size_m
    if isinstance(sheet, CarConfig):
        radius, com = 0.32 * height / 1.45, max(sheet.centre_of_mass_height_m, 0.1)
        places = [(x, y) for x in (sheet.front_axle_m, -sheet.rear_axle_m) for y in (0.42 * width, -0.42 * width)]
        front, rear = sheet.drive_front_share > 0.0, sheet.drive_front_share < 1.0
        wheels = [
            WheelConfig(x_m=x, y_m=y, radius_m=radius, driven=front if x > 0.0 else rear, steered=x > 0.0)
            for x, y in places
        ]
        clearance, torque = 0.45 * radius, sheet.mass_kg * sheet.max_acceleration_m_s2 * radius
    else:
        radius, com = sheet.wheel_radius_m, 0.5 * height
        skids = sheet.effective_track_m is not None
        half = 0.5 * sheet.track_m
        axles = (0.26 * length, -0.26 * length) if skids else (0.0,)
        wheels = [WheelConfig(x_m=x, y_m=y, radius_m=radius) for x in axles for y in (half, -half)]
        if not skids:
            small = 0.4 * radius
            wheels += [
                WheelConfig(x_m=x, y_m=0.0, radius_m=small, driven=False, caster=True)
                for x in (0.4 * length, -0.4 * length)
            ]
        clearance = 0.6 * min(wheel.radius_m for wheel in wheels)
        torque = sheet.mass_kg * STANDARD_GRAVITY_M_S2 * radius / len(wheels)
    load = sheet.mass_kg * STANDARD_GRAVITY_M_S2 / len(wheels)
    return ChassisConfig(
        wheels=wheels,
        centre_of_mass_m=(0.0, 0.0, com),
        inertia_kg_m2=_box_inertia(sheet.mass_kg, sheet.size_m),
        ground_clearance_m=clearance,
        tyre_stiffness_n_m=load / 0.002,
        relaxation_m=max(0.5 * radius, 0.02),
        wheel_inertia_kg_m2=0.5 * 0.03 * sheet.mass_kg * radius**2,
        max_wheel_torque_n_m=torque,
    )


def _box_inertia(mass: float, size: tuple[float, float, float]) -> tuple[float, float, float]:
    x, y, z = (side**2 for side in size)
    return (mass * (y + z) / 12.0, mass * (x + z) / 12.0, mass * (x + y) / 12.0)


def wheel_loads(mass_kg: float, chassis: ChassisConfig) -> Floats:
    """Static loads [N] of the wheels on flat ground: the smallest in the sum of squares that balance the weight."""
    x = np.array([wheel.x_m for wheel in chassis.wheels]) - chassis.centre_of_mass_m[0]
    y = np.array([wheel.y_m for wheel in chassis.wheels]) - chassis.centre_of_mass_m[1]
    balance = np.stack([np.ones(len(x)), x, y])
    return np.linalg.lstsq(balance, np.array([mass_kg * STANDARD_GRAVITY_M_S2, 0.0, 0.0]), rcond=None)[0]


def tyre_travel(wheel: WheelConfig, chassis: ChassisConfig, static_m: float) -> float:
    """Deflection [m] of a tyre at which its rim or core stops it; `static_m` is that under the static load."""
    if chassis.tyre_travel_m is not None:
        return max(chassis.tyre_travel_m, static_m)
    return max(TRAVEL_PER_RADIUS * wheel.radius_m, 3.0 * static_m)


def body_row(sheet: DifferentialConfig | CarConfig, chassis: ChassisConfig) -> Floats:
    """`BODY` parameters of a ground vehicle: the hull is a box from the ground clearance to the vehicle's height."""
    length, width, height = sheet.size_m
    low, com = chassis.ground_clearance_m, chassis.centre_of_mass_m
    half = (0.5 * length, 0.5 * width, 0.5 * (height - low))
    centre = (-com[0], -com[1], 0.5 * (height + low) - com[2])
    surface = (chassis.hull_friction, chassis.restitution, chassis.friction_share)
    row = np.array([sheet.mass_kg, *chassis.inertia_kg_m2, *half, *centre, *surface, *(-one for one in com)])
    assert len(row) == len(BODY)
    return row


def wheel_rows(sheet: DifferentialConfig | CarConfig, chassis: ChassisConfig, count: int) -> Floats:
    """`WHEEL` parameters (count, columns), rows of zeros beyond the vehicle's own wheels.

    Hub and radius are such that the loaded vehicle stands at its nominal height. The tyres of a car have the cornering
    stiffness of its data sheet.
    """
    rows = np.zeros((count, len(WHEEL)))
    for name in ("relaxation", "inertia", "bristle", "width"):
        rows[:, WHEEL.index(name)] = 1.0
    for k, (wheel, load) in enumerate(zip(chassis.wheels, wheel_loads(sheet.mass_kg, chassis), strict=True)):
        load = max(float(load), 0.02 * sheet.mass_kg * STANDARD_GRAVITY_M_S2 / len(chassis.wheels))
        stiffness = chassis.tyre_stiffness_n_m
        damping = 2.0 * chassis.tyre_damping_ratio * math.sqrt(stiffness * load / STANDARD_GRAVITY_M_S2)
        suspension, strut = wheel.suspension or chassis.suspension, (0.0,) * 5
        if suspension is not None:
            damping = 0.0  # the damper of the suspension exceeds that of the tyre
            soft, bar = suspension.stiffness_n_m, 0.0
            if suspension.anti_roll_n_m_rad:
                bar = suspension.anti_roll_n_m_rad / (wheel.y_m - chassis.wheels[k ^ 1].y_m) ** 2
            strut = (soft, suspension.damping_n_s_m, load / soft, suspension.travel_m, bar)
        tread = TREAD_STIFFNESS_PER_LOAD_1_M * load
        if isinstance(sheet, CarConfig):
            slope = sheet.front_stiffness_1_rad if wheel.x_m > 0.0 else sheet.rear_stiffness_1_rad
            tread = sheet.friction * slope * load / chassis.relaxation_m
        tread = 1e-3 if wheel.caster else tread
        grip = 2.0 * _TREAD_DAMPING_RATIO * math.sqrt(tread * load / STANDARD_GRAVITY_M_S2)
        place = np.array([wheel.x_m, wheel.y_m, wheel.radius_m]) - chassis.centre_of_mass_m
        width = wheel.width_m or _WIDTH_PER_RADIUS * wheel.radius_m
        rows[k] = [
            *place,
            wheel.radius_m + load / stiffness,
            stiffness,
            damping,
            *strut,
            tread,
            grip,
            chassis.relaxation_m,
            chassis.wheel_inertia_kg_m2,
            width,
            wheel.radius_m,
            _NO_LIMIT if wheel.friction is None else wheel.friction,
            tyre_travel(wheel, chassis, load / stiffness),
        ]
    return rows
