"""A vessel: a floating rigid body with six degrees of freedom, with buoyancy for each part of its hull."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.checks import above, finite, vector, whole
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.motion.sea_spectrum import GRAVITY_M_S2
from parhelion.motion.vehicles import base
from parhelion.motion.vehicles.base import (
    Body,
    Matrix,
    Quaternion,
    RigidBody,
    Row,
    ThrustCommand,
    Vector,
    cross,
    to_body,
    to_world,
)
from parhelion.motion.vehicles.sheets import HullConfig, Thruster, VesselConfig
from parhelion.motion.water import CalmWater, Water
from parhelion.world.water_surface import Lattice

# ---- hull -----------------------------------------------------------------------------------------------------------
# A hull as vertical columns, with wetted volume, centre of buoyancy and stability. Columns stand at the nodes of a
# Gauss rule, so that for a hull with straight sides sums over few columns are exact integrals: volume, its centre and
# the moments of the waterplane, while the deck is dry and the keel wet.


@dataclass(frozen=True, eq=False)
class Hull:
    """Columns of a hull, arrays of shape (n,), in a frame with x forward, y left and z up from the lowest point."""

    x: Floats
    y: Floats
    bottom: Floats
    """Lower end of a column [m]."""
    top: Floats
    """Upper end of a column, the deck [m]."""
    area: Floats
    """Cross-section [m^2]."""

    @classmethod
    def box(cls, length_m: float, beam_m: float, height_m: float, *, along: int = 6, across: int = 4) -> Hull:
        """Return a box centred at x = y = 0."""
        return cls.boat(length_m, beam_m, height_m, along=along, across=across)

    @classmethod
    def boat(
        cls,
        length_m: float,
        beam_m: float,
        height_m: float,
        *,
        bow_share: float = 0.0,
        bow_rise_m: float = 0.0,
        deadrise_deg: float = 0.0,
        along: int = 6,
        across: int = 4,
    ) -> Hull:
        """Return a boat: straight sides, a parabolic bow, and a V-shaped bottom whose keel rises towards the stem."""
        for name, value in (("length_m", length_m), ("beam_m", beam_m), ("height_m", height_m)):
            above(f"hull: {name}", value, 0.0)
        if not (0.0 <= bow_share < 1.0 and bow_rise_m >= 0.0 and 0.0 <= deadrise_deg < 90.0):
            raise ConfigError(
                f"hull: bow_share {bow_share} must be from 0 to below 1, bow_rise_m {bow_rise_m} not below 0 and "
                f"deadrise_deg {deadrise_deg} from 0 to below 90"
            )
        rear, front = -length_m / 2.0, length_m / 2.0
        shoulder = front - bow_share * length_m
        stations = [_gauss(rear, shoulder, along)]
        if bow_share > 0.0:
            stations.append(_gauss(shoulder, front, max(2, along // 2)))
        x, wide = (np.concatenate(parts) for parts in zip(*stations, strict=True))
        reach = np.maximum(x - shoulder, 0.0) / max(front - shoulder, 1e-12)
        half = beam_m / 2.0 * (1.0 - reach**2)
        side, share = _gauss(0.0, 1.0, max(1, across // 2))
        # Each half of the beam has its own nodes, because the bottom has a kink at the keel.
        side, share = np.concatenate([-side[::-1], side]), np.concatenate([share[::-1], share])
        y = half[:, None] * side
        bottom = np.abs(y) * math.tan(math.radians(deadrise_deg)) + (bow_rise_m * reach**2)[:, None]
        area = (wide * half)[:, None] * share
        columns = np.broadcast_arrays(x[:, None], y, np.minimum(bottom, height_m), np.full_like(y, height_m), area)
        return cls(*(np.ascontiguousarray(column).ravel() for column in columns))

    @classmethod
    def from_mesh(cls, vertices: ArrayLike, faces: ArrayLike, *, along: int = 10, across: int = 8) -> Hull:
        """Return the hull of a closed mesh (n, 3) [m], (m, 3): columns from the lowest to the highest triangle.

        Tunnels and overhangs count as filled. There are no columns outside of the mesh's outline.
        """
        corners = np.asarray(vertices, dtype=np.float64)[np.asarray(faces, dtype=np.int64)]
        if corners.ndim != 3 or corners.shape[1:] != (3, 3) or not np.all(np.isfinite(corners)):
            raise ConfigError(f"hull: the mesh must be finite triangles, got an array of shape {corners.shape}")
        low, high = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
        x, wide = _gauss(low[0], high[0], whole("hull: along", along, 1, 200))
        y, share = _gauss(low[1], high[1], whole("hull: across", across, 1, 200))
        px, py = (grid.ravel() for grid in np.meshgrid(x, y, indexing="ij"))
        bottom, top = _vertical_span(corners, px, py)
        inside = top > bottom
        if not np.any(inside):
            raise ConfigError("hull: the mesh has no height over any of the columns' places")
        columns = (px, py, bottom - low[2], top - low[2], np.outer(wide, share).ravel())
        return cls(*(column[inside] for column in columns))

    def volume(self, level_m: float) -> float:
        """Wetted volume [m^3] of the upright hull with the water `level_m` above its lowest point."""
        return float(np.sum(self.area * self._wet(level_m)))

    def draught(self, volume_m3: float) -> float:
        """Water level [m] above the lowest point at which the upright hull displaces a volume (Archimedes)."""
        most = float(np.sum(self.area * (self.top - self.bottom)))
        if not 0.0 < volume_m3 < most:
            raise ConfigError(
                f"hull: displaces up to {most:.4g} m^3 and would sink with {volume_m3:.4g} m^3; reduce mass_kg or "
                "enlarge the hull"
            )
        low, high = float(self.bottom.min()), float(self.top.max())
        for _ in range(200):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            low, high = (middle, high) if self.volume(middle) < volume_m3 else (low, middle)
        return 0.5 * (low + high)

    def centre_of_buoyancy(self, level_m: float) -> tuple[float, float]:
        """x and z [m] of the centre of the wetted volume."""
        wet = self._wet(level_m)
        volume = self.area * wet
        total = np.sum(volume)
        return float(np.sum(volume * self.x) / total), float(np.sum(volume * (self.bottom + 0.5 * wet)) / total)

    def waterplane(self, level_m: float) -> tuple[float, float, float]:
        """Area [m^2] of the waterplane, and its second moments [m^4] about its longitudinal and transverse axes."""
        area = np.where((self.bottom < level_m) & (level_m < self.top), self.area, 0.0)
        total = np.sum(area)
        middle = np.sum(area * self.x) / total
        return float(total), float(np.sum(area * self.y**2)), float(np.sum(area * (self.x - middle) ** 2))

    def _wet(self, level_m: float) -> Floats:
        return np.clip(level_m - self.bottom, 0.0, self.top - self.bottom)


def hull_of(config: HullConfig) -> Hull:
    """Hull of a data sheet."""
    if config.shape == "box":
        return Hull.box(config.length_m, config.beam_m, config.height_m)
    return Hull.boat(**config.model_dump(exclude={"shape"}))


def _gauss(low: float, high: float, count: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    half = (high - low) / 2.0
    return low + half * (1.0 + nodes), half * weights


def _vertical_span(corners: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Lowest and highest z of the triangles (m, 3, 3) at each place; bottom above top if there are none."""
    ax, ay, az = np.moveaxis(corners[:, 0], -1, 0)
    (bx, by, bz), (cx, cy, cz) = (np.moveaxis(corners[:, n] - corners[:, 0], -1, 0) for n in (1, 2))
    area = bx * cy - by * cx
    seen = np.abs(area) > 1e-12  # vertical triangles have no unique z
    px, py = x[:, None] - ax[seen], y[:, None] - ay[seen]
    s = (px * cy[seen] - py * cx[seen]) / area[seen]
    t = (py * bx[seen] - px * by[seen]) / area[seen]
    z = np.where((s >= 0.0) & (t >= 0.0) & (s + t <= 1.0), az[seen] + s * bz[seen] + t * cz[seen], np.nan)
    hit = np.any(np.isfinite(z), axis=1)
    bottom, top = np.full(len(x), np.inf), np.full(len(x), -np.inf)
    if np.any(hit):
        bottom[hit], top[hit] = np.nanmin(z[hit], axis=1), np.nanmax(z[hit], axis=1)
    return bottom, top


# ---- vessel ---------------------------------------------------------------------------------------------------------


_Thrust = tuple[float, float, float]
"""Thrust of port and starboard [N], and the angle of both [rad]."""

PROBES = (9, 5)
"""Number of samples of the water surface along and across the hull; it is linear between them."""


class Vessel(RigidBody):
    """A floating vessel. Weight, buoyancy, drag and two thrusters act on mass and added mass:

        (m + A) dv/dt = F - m w x v,   (I + A) dw/dt = T - w x (I w)

    Buoyancy is rho (g + a) times the wetted length of each hull column, normal to the water surface above it, where a
    is the upward acceleration of the water: the pressure of water at rest and of long waves (Froude and Krylov). Drag
    is linear and quadratic in the velocity relative to the mean motion of the water under the hull, and proportional
    to the wetted volume; added mass acts on the acceleration relative to that motion. Added mass is constant. Its
    Coriolis forces are omitted, because the lift of a real hull balances their Munk moment. The vessel does not affect
    the waves. Valid afloat and up to about 60 degrees of heel. Waves shorter than twice the distance of the samples
    (an eighth of the hull length) do not move it.

    The body frame is at the centre of mass, x forward, z up; at rest the deck is level.
    """

    accepts: ClassVar[tuple[type, ...]] = (ThrustCommand,)
    longest_part_s: ClassVar[float] = 0.01

    def __init__(self, config: VesselConfig, water: Water | None = None, hull: Hull | None = None) -> None:
        super().__init__(config.name)
        self.config = config
        self.water = CalmWater() if water is None else water
        self.hull = hull_of(config.hull) if hull is None else hull
        mass = config.mass_kg
        self.draught_m = self.hull.draught(mass / self.water.density_kg_m3)
        """Depth of the keel at rest [m]."""
        self._middle, self._buoyancy_height = self.hull.centre_of_buoyancy(self.draught_m)
        self.inertia_kg_m2: Vector = tuple(mass * radius**2 for radius in config.gyration_m)  # type: ignore[assignment]
        heavy = (mass, mass, mass, *self.inertia_kg_m2)
        self._heavy = tuple(own * (1.0 + added) for own, added in zip(heavy, config.added_mass, strict=True))
        """Mass and inertia, including added mass and added inertia."""
        self._added = tuple(own * added for own, added in zip(heavy, config.added_mass, strict=True))
        self._prepare_columns()
        self.reset()

    def _prepare_columns(self) -> None:
        hull = self.hull
        x, z = hull.x - self._middle, hull.bottom - self.config.centre_of_mass_height_m
        self._bottoms = np.stack([x, hull.y, z], axis=1)
        self._arms = np.stack([np.ones_like(x), x, hull.y, z], axis=1)
        self._lengths = hull.top - hull.bottom
        ends = [(float(side.min()), float(side.max())) for side in (x, hull.y)]
        self._corner = (ends[0][0], ends[1][0])
        self._steps = tuple((high - low) / (count - 1) for (low, high), count in zip(ends, PROBES, strict=True))
        along, across = (
            _linear_weights((place - low) / max(step, 1e-12), count)
            for place, (low, _), step, count in zip((x, hull.y), ends, self._steps, PROBES, strict=True)
        )
        # One matrix interpolates from the samples to the columns.
        self._spread = (along[:, :, None] * across[:, None, :]).reshape(len(x), -1)
        share = hull.area / np.sum(hull.area)
        middle = float(np.sum(share * x))
        roll = share * hull.y / max(np.sum(share * hull.y**2), 1e-12)
        pitch = -share * (x - middle) / max(np.sum(share * (x - middle) ** 2), 1e-12)
        self._fit = np.stack([share, roll, pitch])

    def reset(
        self,
        pose: Pose = Pose(),
        *,
        time: float = 0.0,
        afloat: bool = True,
        velocity_m_s: Sequence[float] = (0.0, 0.0, 0.0),
        turn_rate_rad_s: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> None:
        """Place the vessel at `pose`; if `afloat`, level and at its equilibrium height, with only the pose's heading.

        Velocity and angular velocity are in the body frame.
        """
        self.time = finite(f"{self.name}: time", time)
        x, y, z = pose.xyz.tolist()
        a, b, c, d = pose.quat_xyzw.tolist()
        quat: Quaternion = (a, b, c, d)
        if afloat:
            half = 0.5 * base.heading(quat)
            quat = (0.0, 0.0, math.sin(half), math.cos(half))
            z = self.water.level_m + self.config.centre_of_mass_height_m - self.draught_m
        u, v, w = vector(f"{self.name}: velocity_m_s", velocity_m_s, 3)
        p, q, r = vector(f"{self.name}: turn_rate_rad_s", turn_rate_rad_s, 3)
        self._body = ((x, y, z), quat, (u, v, w), (p, q, r))
        self._thrust: _Thrust = (0.0, 0.0, 0.0)
        self._sample_water(self.time, 0.0)

    @property
    def heavy(self) -> tuple[Vector, Vector]:
        mx, my, mz, ix, iy, iz = self._heavy
        return (mx, my, mz), (ix, iy, iz)

    @property
    def keel(self) -> Vector:
        """Lowest point below the middle of the hull's length, in the body frame [m]."""
        return (-self._middle, 0.0, -self.config.centre_of_mass_height_m)

    def motion(self) -> Body:
        xyz, quat, velocity, turn = self._body
        return xyz, quat, to_world(base.matrix(quat), velocity), turn

    def carry(self, xyz: Vector, quat: Quaternion, velocity: Vector, turn: Vector) -> None:
        """Take over pose and velocities, in the order of `motion`, after an impact."""
        self._body = (xyz, quat, to_body(base.matrix(quat), velocity), turn)

    @property
    def speed_m_s(self) -> float:
        return self._body[2][0]

    @property
    def course_rad(self) -> float:
        """Course over ground [rad]; the heading below a forward speed of 0.2 m/s."""
        if self._body[2][0] < 0.2:
            return self.yaw_rad
        x, y, _ = to_world(base.matrix(self._body[1]), self._body[2])
        return math.atan2(y, x)

    @property
    def yaw_rate_rad_s(self) -> float:
        return self._body[3][2]

    @property
    def thrust_n(self) -> tuple[float, float]:
        """Current thrust of port and starboard [N]."""
        return self._thrust[:2]

    @property
    def steering_rad(self) -> float:
        """Current angle of the thrusters [rad]."""
        return self._thrust[2]

    @property
    def moving_mass_kg(self) -> float:
        """Mass and added mass along x [kg]."""
        return self._heavy[0]

    @property
    def turning_inertia_kg_m2(self) -> float:
        """Inertia and added inertia about z [kg m^2]."""
        return self._heavy[5]

    def resistance_n(self, speed_m_s: float) -> float:
        """Drag along x [N] at a speed through the water [m/s]."""
        return (self.config.linear_drag[0] + self.config.quadratic_drag[0] * abs(speed_m_s)) * speed_m_s

    @property
    def metacentric_height_m(self) -> float:
        """Metacentric height GM at rest [m]: KB + I/V - KG. If negative, the vessel capsizes."""
        _, moment, _ = self.hull.waterplane(self.draught_m)
        volume = self.config.mass_kg / self.water.density_kg_m3
        return self._buoyancy_height + moment / volume - self.config.centre_of_mass_height_m

    @property
    def roll_period_s(self) -> float:
        """Period [s] of small undamped rolls: 2 pi sqrt((I + A) / (m g GM)); infinite if the vessel capsizes."""
        if self.metacentric_height_m <= 0.0:
            return math.inf
        return (
            2.0 * math.pi * math.sqrt(self._heavy[3] / (self.config.mass_kg * GRAVITY_M_S2 * self.metacentric_height_m))
        )

    def _target(self, command: ThrustCommand) -> _Thrust:
        most = self.config.max_steering_rad
        port, starboard = (
            _limited(self.config.port, command.port_n),
            _limited(self.config.starboard, command.starboard_n),
        )
        return (port, starboard, min(max(command.steering_rad, -most), most))

    # ---- water -------------------------------------------------------------------------------------------------

    def _sample_water(self, time: float, ahead: float) -> None:
        """Sample the surface at `time` at the hull's place in `ahead` [s]; it then changes linearly."""
        (x, y, _), quat, velocity, turn = self._body
        r = base.matrix(quat)
        along, across, _ = to_world(r, velocity)
        if isinstance(self.water, CalmWater):
            self._height: Any = self.water.level_m
            self._climb: Any = 0.0
            self._up: Any = _CALM_UP
            u, v = self.water.current_m_s
            self._stream: tuple[float, ...] = (*to_body(r, (u, v, 0.0)), 0.0, 0.0, 0.0)
            self._surge: tuple[float, ...] = (0.0,) * 6
            return
        if ahead > 0.0:
            rate = base.spin(quat, turn)
            a, b, c, d = (one + ahead * change for one, change in zip(quat, rate, strict=True))
            r = base.matrix(base.normalised((a, b, c, d)))
            x, y = x + ahead * along, y + ahead * across
        (ax, ay), (dx, dy) = self._corner, self._steps
        deep = -self.config.centre_of_mass_height_m + 0.5 * self.draught_m
        corner = (x + r[0] * ax + r[1] * ay + r[2] * deep, y + r[3] * ax + r[4] * ay + r[5] * deep)
        probes = Lattice(corner, (r[0] * dx, r[3] * dx), (r[1] * dy, r[4] * dy), PROBES)
        seen = self.water.lattice(probes, time, 2.0 * max(dx, dy))
        fields = (seen.height, seen.slope_x, seen.slope_y, seen.rate, seen.velocity_x, seen.velocity_y)
        columns = self._spread @ np.stack([*fields, seen.acceleration_z], axis=-1).reshape(-1, 7)
        self._climb = columns[:, 3] + columns[:, 1] * along + columns[:, 2] * across
        self._height = columns[:, 0] - ahead * self._climb
        # Apparent weight of the water in the waves, relative to that at rest.
        self._up = np.empty((len(columns), 3))
        self._up[:, 2] = 1.0 + columns[:, 6] / GRAVITY_M_S2
        self._up[:, :2] = -columns[:, 1:3] * self._up[:, 2:]
        self._stream = self._water_motion(r, columns[:, 4:6], columns[:, 3])
        self._surge = self._water_motion(r, GRAVITY_M_S2 * self._up[:, :2], columns[:, 6])

    def _water_motion(self, r: Matrix, level: Floats, up: Floats) -> tuple[float, ...]:
        """Best-fitting rigid motion of the water under the columns: along and about the body's axes."""
        (x, y), (z, roll, pitch) = (self._fit[0] @ level).tolist(), (self._fit @ up).tolist()
        return (*to_body(r, (x, y, z)), roll, pitch, 0.0)

    def _wetted(self, z: float, r: Matrix, later: float) -> Floats:
        """Wetted length [m] of each column, `later` [s] after the start of the step."""
        level = self._height + later * self._climb - z
        wet = (level - self._bottoms @ np.array(r[6:9])) / max(r[8], 0.05)
        return np.minimum(np.maximum(wet, 0.0), self._lengths)

    def _buoyancy(self, z: float, r: Matrix, later: float) -> tuple[Vector, Vector, float]:
        """Force [N] and torque [N m] of the water pressure, body frame, and the wetted volume relative to rest."""
        wet = self._wetted(z, r, later)
        volume = self.hull.area * wet
        arms = self._arms.copy()
        arms[:, 3] += 0.5 * wet
        # Row k, column l: sum over columns of volume, force direction k (world), and 1 or arm l (body).
        sums = (self._up * volume[:, None]).T @ arms
        body = np.array(((r[0], r[3], r[6]), (r[1], r[4], r[7]), (r[2], r[5], r[8]))) @ sums
        body *= self.water.density_kg_m3 * GRAVITY_M_S2
        (fx, _, xy, xz), (fy, yx, _, yz), (fz, zx, zy, _) = body.tolist()
        share = float(np.add.reduce(volume)) * self.water.density_kg_m3 / self.config.mass_kg
        return (fx, fy, fz), (zy - yz, xz - zx, yx - xy), share

    # ---- motion ------------------------------------------------------------------------------------------------

    def _advance(self, target: _Thrust, dt: float) -> None:
        # Sampled in the middle of the step, constant values are accurate to second order.
        self._sample_water(self.time + 0.5 * dt, 0.5 * dt)
        end = self._lagged(target, dt)
        thrusts = (self._thrust, self._lagged(target, 0.5 * dt), end)
        self._body = base.integrated(
            self._body, lambda body, half: self._rates(body, thrusts[half], 0.5 * half * dt), dt
        )
        self._thrust = end

    def _lagged(self, target: _Thrust, dt: float) -> _Thrust:
        """Thrust and steering after `dt`: the exact solution of the lags."""
        lags = (self.config.port.lag_s, self.config.starboard.lag_s, self.config.steering_lag_s)
        port, starboard, steering = (
            to + (now - to) * (math.exp(-dt / lag) if lag > 0.0 else 0.0)
            for now, to, lag in zip(self._thrust, target, lags, strict=True)
        )
        return port, starboard, steering

    def _rates(self, body: Body, thrust: _Thrust, later: float) -> Body:
        (_, _, z), quat, velocity, turn = body
        r = base.matrix(quat)
        force, torque, wet = self._buoyancy(z, r, later)
        down = -self.config.mass_kg * GRAVITY_M_S2
        flow = self._flow(velocity, turn, wet)
        pull, push, twist = self._push(thrust)
        mass, (ix, iy, iz) = self.config.mass_kg, self.inertia_kg_m2
        swing = cross(turn, velocity)
        gyro = cross(turn, (ix * turn[0], iy * turn[1], iz * turn[2]))
        heavy = self._heavy
        acceleration = (
            (force[0] + down * r[6] + flow[0] + pull - mass * swing[0]) / heavy[0],
            (force[1] + down * r[7] + flow[1] + push - mass * swing[1]) / heavy[1],
            (force[2] + down * r[8] + flow[2] - mass * swing[2]) / heavy[2],
        )
        spin = (
            (torque[0] + flow[3] + twist[0] - gyro[0]) / heavy[3],
            (torque[1] + flow[4] + twist[1] - gyro[1]) / heavy[4],
            (torque[2] + flow[5] + twist[2] - gyro[2]) / heavy[5],
        )
        return to_world(r, velocity), base.spin(quat, turn), acceleration, spin

    def _flow(self, velocity: Vector, turn: Vector, wet: float) -> list[float]:
        """Forces [N] and torques [N m] of the flow: drag, scaled by the wetted volume, and moving added mass."""
        sheet = self.config
        return [
            added * surge - wet * (linear + square * abs(speed - stream)) * (speed - stream)
            for added, surge, linear, square, speed, stream in zip(
                self._added,
                self._surge,
                sheet.linear_drag,
                sheet.quadratic_drag,
                velocity + turn,
                self._stream,
                strict=True,
            )
        ]

    def _push(self, thrust: _Thrust) -> tuple[float, float, Vector]:
        """Force along x and y [N], and torque [N m], of the thrusters."""
        port, starboard = self.config.port, self.config.starboard
        keel = self.config.centre_of_mass_height_m
        along, aside = math.cos(thrust[2]), -math.sin(thrust[2])
        total = thrust[0] + thrust[1]
        lift = thrust[0] * (port.height_m - keel) + thrust[1] * (starboard.height_m - keel)
        arm = thrust[0] * port.x_m + thrust[1] * starboard.x_m
        turn = aside * arm - along * (thrust[0] * port.y_m + thrust[1] * starboard.y_m)
        return along * total, aside * total, (-aside * lift, along * lift, turn)

    def row(self) -> Row:
        xyz, quat, velocity, turn = self._body
        self._sample_water(self.time, 0.0)
        speed, _, rate, spin = self._rates(self._body, self._thrust, 0.0)
        swing = cross(turn, velocity)
        pull = to_world(base.matrix(quat), (rate[0] + swing[0], rate[1] + swing[1], rate[2] + swing[2]))
        return (self.time, *xyz, *quat, *speed, *turn, *pull, *spin)

    def energy_j(self) -> float:
        """Energy [J] of motion (with added mass), of height, and of the displaced water; for water without waves.

        Without thrust and current it never grows, because buoyancy has a potential and drag dissipates energy.
        """
        (_, _, z), quat, velocity, turn = self._body
        r = base.matrix(quat)
        wet = self._wetted(z, r, 0.0)
        depth = self._height - z - self._bottoms @ np.array(r[6:9])
        aside = float(np.sum(self.hull.area * wet * (depth - 0.5 * wet * r[8])))
        motion = sum(heavy * speed * speed for heavy, speed in zip(self._heavy, velocity + turn, strict=True))
        above = self.config.mass_kg * (z - self.water.level_m)
        return 0.5 * motion + GRAVITY_M_S2 * (above + self.water.density_kg_m3 * aside)


_CALM_UP = np.array([[0.0, 0.0, 1.0]])


def _limited(motor: Thruster, thrust_n: float) -> float:
    return min(max(thrust_n, -motor.max_reverse_n), motor.max_forward_n)


def _linear_weights(place: Floats, count: int) -> Floats:
    """Linear interpolation weights (n, count) of the nodes 0, 1, ..., count - 1."""
    return np.maximum(1.0 - np.abs(place[:, None] - np.arange(count)), 0.0)
