"""Data sheets of vehicles: the fields of a preset file. Units are part of the names; sources are required."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from parhelion.core.config import Config, NonNegative, Positive, Source
from parhelion.core.constants import STANDARD_GRAVITY_M_S2

Fraction = Annotated[float, Field(ge=0, lt=1)]
Three = tuple[Positive, Positive, Positive]
Six = tuple[NonNegative, NonNegative, NonNegative, NonNegative, NonNegative, NonNegative]


class Sheet(Config):
    """Fields of every vehicle."""

    name: str
    mass_kg: Positive
    """Mass ready to move, without payload."""
    size_m: Three
    """Overall length, width, height."""
    sources: list[Source] = Field(min_length=1)
    assumed: dict[str, str] = Field(default_factory=dict)
    """Fields without a source, and the reason for their value."""


class SuspensionConfig(Config):
    """Spring and damper of one wheel, as felt at the wheel."""

    stiffness_n_m: Positive
    damping_n_s_m: Positive
    travel_m: Positive
    """Deflection from the unloaded length at the stop."""
    anti_roll_n_m_rad: NonNegative = 0.0
    """Stiffness of an anti-roll bar between the two wheels of the axle, which follow one another in the list."""


class WheelConfig(Config):
    """A wheel, at its place in the vehicle frame."""

    x_m: float
    """Forward of the frame."""
    y_m: float
    """To the left of the frame."""
    radius_m: Positive
    width_m: Positive | None = None
    """Width of the tread; None for 0.6 radii."""
    driven: bool = True
    steered: bool = False
    caster: bool = False
    """True for a wheel that turns freely in all directions and only carries load."""
    friction: NonNegative | None = None
    """Largest friction coefficient of the wheel on any ground; None if the ground alone decides."""
    suspension: SuspensionConfig | None = None
    """Suspension of this wheel; None for that of the chassis."""


class ChassisConfig(Config):
    """Properties of a ground vehicle in contact with the ground and with obstacles."""

    wheels: list[WheelConfig] = Field(min_length=3, max_length=12)
    centre_of_mass_m: tuple[float, float, Positive]
    """Centre of mass in the vehicle frame, whose origin is on the ground."""
    inertia_kg_m2: Three
    """Moments of inertia about x, y, z through the centre of mass."""
    ground_clearance_m: Positive
    """Height of the lower side of the hull, a box of the vehicle's length and width."""
    tyre_stiffness_n_m: Positive
    """Vertical stiffness of one tyre."""
    tyre_damping_ratio: Annotated[float, Field(gt=0, le=1)] = 0.2
    tyre_travel_m: Positive | None = None
    """Deflection of a tyre at which its rim or core stops it; None for a quarter of the radius of a wheel, at least
    three static deflections."""
    suspension: SuspensionConfig | None = None
    """Suspension of each wheel; None for wheels fixed to the chassis."""
    relaxation_m: Positive
    """Distance that a tyre rolls until its side force has built up to 63 %."""
    wheel_inertia_kg_m2: Positive
    max_wheel_torque_n_m: Positive
    """Largest torque of one driven wheel."""
    friction_share: Positive = 1.0
    """Friction of the tyres divided by that of a car tyre on the same ground."""
    hull_friction: NonNegative = 0.4
    restitution: Fraction = 0.1
    """Share of the closing speed that remains after a collision."""

    @model_validator(mode="after")
    def _wheels_reach_the_ground(self) -> ChassisConfig:
        for row, wheel in enumerate(self.wheels):
            if not wheel.caster and 2.0 * wheel.radius_m <= self.ground_clearance_m:
                raise ValueError(
                    f"wheels[{row}].radius_m: {wheel.radius_m:g} m is less than half the ground clearance of "
                    f"{self.ground_clearance_m:g} m, so the wheel would hang below the hull"
                )
        return self

    @model_validator(mode="after")
    def _is_a_rigid_body_that_stands(self) -> ChassisConfig:
        *small, large = sorted(self.inertia_kg_m2)
        if large > 1.01 * sum(small):
            raise ValueError(
                f"inertia_kg_m2: {large:g} exceeds the sum of the other two, {sum(small):g}; "
                "no rigid body has such moments"
            )
        for axis, at in enumerate(self.centre_of_mass_m[:2]):
            places = [(wheel.x_m, wheel.y_m)[axis] for wheel in self.wheels]
            if not min(places) <= at <= max(places):
                raise ValueError(
                    f"centre_of_mass_m[{axis}]: {at:g} m is not between the wheels, which are at {min(places):g} to "
                    f"{max(places):g} m, so the vehicle would tip over"
                )
        return self

    @model_validator(mode="after")
    def _bars_join_wheels_of_an_axle(self) -> ChassisConfig:
        for row, wheel in enumerate(self.wheels):
            suspension, other = wheel.suspension or self.suspension, (self.wheels + self.wheels[-1:])[row ^ 1]
            apart = wheel.x_m != other.x_m or wheel.y_m == other.y_m
            if suspension is not None and suspension.anti_roll_n_m_rad and apart:
                raise ValueError(
                    f"wheels[{row}]: an anti-roll bar joins two wheels of an axle; list them one after the other, with "
                    "the same x_m"
                )
        return self


class DifferentialConfig(Sheet):
    """A robot with independently driven left and right wheels."""

    kind: Literal["differential"]
    wheel_radius_m: Positive
    track_m: Positive
    """Distance between the centres of the left and right wheels."""
    effective_track_m: Positive | None = None
    """Track of an ideal robot that turns equally; wider than the real one if wheels skid in turns."""
    max_speed_m_s: Positive
    max_yaw_rate_rad_s: Positive
    max_acceleration_m_s2: Positive
    max_yaw_acceleration_rad_s2: Positive
    max_wheel_speed_m_s: Positive | None = None
    """Largest speed at the wheel rim; limits the yaw rate at high speed."""
    forward_slip: Fraction = 0.0
    """Share of the wheels' travel that is lost to slip."""
    turn_slip: Fraction = 0.0
    """Share of the wheels' yaw rate that is lost to slip."""
    chassis: ChassisConfig | None = None
    """Contact properties; None derives them from mass, size and track."""

    @property
    def effective_track(self) -> float:
        return self.track_m if self.effective_track_m is None else self.effective_track_m


class CarConfig(Sheet):
    """A car, by the dynamic bicycle model."""

    kind: Literal["car"]
    yaw_inertia_kg_m2: Positive
    front_axle_m: Positive
    """Distance from the centre of mass to the front axle."""
    rear_axle_m: Positive
    centre_of_mass_height_m: NonNegative
    friction: Positive
    """Largest tyre force divided by the load."""
    front_stiffness_1_rad: Positive
    """Lateral force of the front tyres divided by friction, load and slip angle, for small angles."""
    rear_stiffness_1_rad: Positive
    drive_front_share: Annotated[float, Field(ge=0, le=1)]
    """Share of the driving force on the front axle; brakes act on both by their load."""
    max_speed_m_s: Positive
    max_reverse_speed_m_s: Positive
    max_acceleration_m_s2: Positive
    max_braking_m_s2: Positive
    full_power_speed_m_s: Positive
    """Speed above which engine power limits the acceleration to max_acceleration * this / speed."""
    max_steering_rad: Annotated[float, Field(gt=0, lt=1.5)]
    max_steering_rate_rad_s: Positive
    steering_lag_s: Annotated[float, Field(ge=0.02)]
    speed_lag_s: Annotated[float, Field(ge=0.05)]
    """Time constant of the speed control."""
    chassis: ChassisConfig | None = None
    """Contact properties; None derives them from mass, size and axles."""


class Rotor(Config):
    """One rotor with its axis upward."""

    x_m: float
    y_m: float
    spin: Literal[-1, 1]
    """1 for counter-clockwise seen from above."""


class FlightControl(Config):
    """Gains and bandwidths of the control loops from position to torque."""

    position_1_s: Positive
    """Commanded speed per distance."""
    velocity_1_s: Positive
    """Commanded acceleration per speed error."""
    attitude_rad_s: Positive
    """Bandwidth of roll and pitch, critically damped."""
    yaw_rad_s: Positive
    max_speed_m_s: Positive
    max_climb_m_s: Positive
    max_tilt_rad: Annotated[float, Field(gt=0, lt=1.2)]


class HullSheet(Sheet):
    """Fields of vehicles whose hull touches walls and the ground without wheels."""

    hull_friction: NonNegative = 0.4
    """Friction between the hull and anything it touches; assumed, as for ground vehicles."""
    restitution: Fraction = 0.1
    """Share of the closing speed that remains after a collision; assumed, as for ground vehicles."""


class MultirotorConfig(HullSheet):
    """A rigid body with rotors; its frame is at the centre of mass."""

    kind: Literal["multirotor"]
    inertia_kg_m2: Three
    leg_height_m: Positive | None = None
    """Height of the frame above the ground when it stands; None for half of the overall height."""
    rotors: list[Rotor] = Field(min_length=4)
    thrust_n_s2: Positive
    """Thrust of a rotor divided by the square of its speed."""
    torque_to_thrust_m: Positive
    rotor_drag_n_s2_m: NonNegative
    """Drag perpendicular to a rotor's axis, divided by rotor speed and air speed."""
    body_drag_n_s2_m2: NonNegative = 0.0
    """Drag of the body divided by the square of the air speed."""
    max_rotor_speed_rad_s: Positive
    spin_up_s: Positive
    """Time constant of an accelerating rotor."""
    spin_down_s: Positive
    """Time constant of a decelerating rotor."""
    control: FlightControl

    @property
    def standing_height_m(self) -> float:
        """Height [m] of the frame above the ground when it stands."""
        return 0.5 * self.size_m[2] if self.leg_height_m is None else self.leg_height_m

    @model_validator(mode="after")
    def _stands_on_its_legs(self) -> MultirotorConfig:
        if self.standing_height_m >= self.size_m[2]:
            raise ValueError(
                f"leg_height_m: {self.standing_height_m:g} m must be less than the height of {self.size_m[2]:g} m"
            )
        return self

    @model_validator(mode="after")
    def _can_hover(self) -> MultirotorConfig:
        most = len(self.rotors) * self.thrust_n_s2 * self.max_rotor_speed_rad_s**2
        if most <= STANDARD_GRAVITY_M_S2 * self.mass_kg:
            raise ValueError(
                f"the rotors lift {most:.3g} N, less than the weight of {STANDARD_GRAVITY_M_S2 * self.mass_kg:.3g} N"
            )
        return self


class HullConfig(Config):
    """Shape of a hull: a box, or a boat with a pointed bow and a V-shaped bottom."""

    shape: Literal["box", "boat"]
    length_m: Positive
    beam_m: Positive
    height_m: Positive
    """Height from keel to deck."""
    bow_share: Fraction = 0.0
    """Share of the length over which the bow narrows (boat)."""
    bow_rise_m: NonNegative = 0.0
    """Rise of the keel at the stem (boat)."""
    deadrise_deg: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Angle of the bottom to the horizontal (boat)."""


class Thruster(Config):
    """A propeller that pushes along the body's x axis, or sideways if it is steered."""

    x_m: float
    """Position forward of the centre of mass."""
    y_m: float
    """Position to the left of the centre of mass."""
    height_m: float
    """Height above the keel, negative for a propeller below it."""
    max_forward_n: Positive
    max_reverse_n: Positive
    lag_s: Annotated[float, Field(ge=0)]


class VesselConfig(HullSheet):
    """A floating rigid body; its frame is at the centre of mass, which lies over the centre of buoyancy at rest."""

    kind: Literal["vessel"]
    hull: HullConfig
    centre_of_mass_height_m: Positive
    """Height above the keel."""
    gyration_m: Three
    """Radii of gyration about x, y, z."""
    added_mass: Six
    """Added mass along x, y, z divided by the mass, and added inertia about x, y, z divided by the inertia."""
    linear_drag: Six
    """Linear drag [N s/m] along x, y, z and [N m s] about x, y, z."""
    quadratic_drag: Six
    """Quadratic drag [N s^2/m^2] along x, y, z and [N m s^2] about x, y, z."""
    port: Thruster
    starboard: Thruster
    max_steering_rad: Annotated[float, Field(ge=0, lt=1.5)] = 0.0
    """Largest steering angle of both thrusters about the vertical axis; 0 for fixed thrusters."""
    steering_lag_s: NonNegative = 0.0


VehicleConfig = DifferentialConfig | CarConfig | MultirotorConfig | VesselConfig
