"""Rigid bodies on wheels in contact with triangles: all substeps of a clock step in one kernel, one lane per body.

A wheel is two discs, near the two sides of its tread, that `RAYS` rays probe. The tyre presses it onto what they hit,
its suspension lets it move up and down, and bristles (Dahl 1968) carry friction up to the Coulomb limit. The hull is a
box: each substep finds the deepest axis between it and every triangle nearby (separating axes, Gottschalk et al. 1996)
and removes the closing velocity by impulses with friction, one triangle after the other (sequential impulses, Catto
2005). A large number of triangles on the same wall therefore does not make it harder. Contacts act before the hull
reaches a surface, so that nothing passes through one, however thin and fast. On soft soil, wheels sink by Bekker's
equation (`parhelion.contact.soil`).

Positions and velocities are float64; only the rays are float32, relative to the origin of their scene.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

from parhelion.contact import soil
from parhelion.contact.box_triangle import along_sides, separation
from parhelion.core.arrays import Bool, Float, Int, Mitsuba, State, Vectors, namespace
from parhelion.rays.device import engine as running_engine
from parhelion.rays.replay import SceneArrays

RAYS = 9
"""Rays per wheel, from 75° behind to 75° ahead of straight down: in turn in its outer and its inner disc."""
FINER_RAYS = 3
"""Rays that bisect the angle between the two rays with the deepest edge between them."""
SPACING_RAD = math.radians(37.5)
"""Angle between the rays of a disc."""
FARTHEST = 1.0 / math.cos(SPACING_RAD)
"""Distance of a plane along a ray that counts for it, at most, divided by the radius."""
TREAD_SHARE = 0.8
"""Distance of the two discs divided by the width of the wheel: its shoulders are round; assumed."""
_STEP_M = 0.002
"""Distance [m] beyond the plane that the next ray meets from which an edge lies between two rays."""
_NOTHING_M = 1e3
"""Distance [m] of the plane of a ray that meets nothing."""
BEHIND_M = 0.1
"""Distance above the hub at which rays straight down start, so that a wheel that was pushed in still meets the surface.
It falls to 0 for level rays: one that points up would start below the ground and meet it from behind."""

BODY = (
    "mass", "inertia_x", "inertia_y", "inertia_z", "half_x", "half_y", "half_z", "centre_x", "centre_y", "centre_z",
    "friction", "restitution", "grip", "frame_x", "frame_y", "frame_z",
)  # fmt: skip
"""Columns of a body's parameters: SI units, body frame at the centre of mass; the last three are the vehicle frame."""
WHEEL = (
    "x", "y", "z", "radius", "stiffness", "damping", "spring", "damper", "sag", "travel", "bar", "bristle",
    "bristle_damping", "relaxation", "inertia", "width", "rim", "most", "stop",
)  # fmt: skip
"""Columns of a wheel's parameters: `radius` is that without load, `rim` that by which it rolls, `most` its largest
friction. `spring` is 0 without a suspension; `sag` [m] is the deflection of the spring under the static load, `travel`
[m] that at its stop, and `bar` [N/m] the force per difference of the deflections of wheels 2 n and 2 n + 1, an
anti-roll bar. `stop` [m] is the deflection of the tyre at which its rim or core touches the ground."""
COMMAND = ("rate", "steering", "torque")
"""Columns of a wheel's command: rate [rad/s], angle [rad], largest torque [N m]."""
STATE = ("x", "y", "z", "qx", "qy", "qz", "qw", "vx", "vy", "vz", "wx", "wy", "wz")
"""Columns of a body's state: centre of mass and velocity in the world, angular velocity in the body frame."""
WHEEL_STATE = ("rate", "along", "across", "load", "sinkage", "shear", "lift")
"""Columns of a wheel's state: rate [rad/s], bristle deflections [m], load [N], sinkage and shear of soft soil [m], and
height [m] above its place at rest, by the suspension."""
REPORT = ("impulse", "row", "px", "py", "pz", "nx", "ny", "nz", "total", "depth")
"""Columns of a body's report on a step: largest impulse [N s], its triangle row, point and normal; sum; depth [m]."""
ROW = 19
"""Numbers per body at the vehicle frame: those of `Vehicle.row()` without the time."""
TRIANGLE = 9
"""Numbers per triangle near a hull: three corners."""
SURFACE = ("friction", "rolling", "k_c", "k_phi", "exponent", "cohesion", "tan_friction", "shear", "thickness")
"""Columns of the properties of a part's surface; `thickness` [m] of soft soil is 0 on hard ground."""
HEADER = ("substep", "substeps", "origin_x", "origin_y", "origin_z", "gravity_x", "gravity_y", "gravity_z")
"""Numbers at the start of `inputs`; the first row and the number of rows of triangles of each body follow, then
`COMMAND`, for one wheel after the other."""

SLOP_M = 0.001
_RECOVERY = 0.2
FASTEST_RECOVERY_M_S = 1.0
_ROCKING_1_S = 2.0
"""Rate [1/s] at which hull contacts damp rotation; assumed."""
_SINKING_S = 0.1
"""Time constant [s] of sinkage."""
DEEPEST_SHARE = 0.75
"""Largest sinkage divided by the radius of the wheel: then fork and axle stand on the soil; assumed."""
_STICKING_M_S = 0.2
"""Rolling speed [m/s] at which the damping of the bristles has dropped by half. Rolling itself damps them."""
_STANDING_M_S = 0.02
"""Speed [m/s] below which the compaction of soil resists in proportion to the speed."""


def columns(wheels: int) -> int:
    """Number of columns of the result of `advance`: state, report and row."""
    return len(STATE) + wheels * len(WHEEL_STATE) + len(REPORT) + ROW


def advance(
    wheels: int,
    capacity: int,
    lanes: Int,
    count: Int,
    scene: SceneArrays,
    surfaces: Float,
    parameters: Float,
    inputs: Float,
    state: Float,
    triangles: Float,
) -> Float:
    """Return state, report and rows after all substeps, as a block of `columns` numbers per body.

    Args:
        wheels: Number of wheels per body, a constant of the kernel; missing ones have a radius of 0.
        capacity: Number of bodies, for the memory of the result.
        lanes: Body numbers, read in order.
        count: Number of bodies, in device memory.
        scene: Solid triangles for the wheels' rays.
        surfaces: `SURFACE` of each part.
        parameters: `BODY`, then `WHEEL` for one wheel after the other; one block of `count` numbers per column.
        inputs: `HEADER`, rows of triangles and commands.
        state: Result of the last call, of which it reads `STATE`, then `WHEEL_STATE` for one wheel after the other.
        triangles: Corners of triangles near the hulls, relative to the origin.
    """
    work = _Work(wheels, lanes, count, scene, surfaces, parameters, inputs, triangles)
    mi, dr = work.mi, work.dr
    size = columns(wheels)
    start = [dr.gather(mi.Float64, state, lanes * size + k) for k in range(len(STATE) + wheels * len(WHEEL_STATE))]
    for k in range(3):
        start[k] = start[k] - work.origin[k]
    report = [0.0 * start[0] for _ in REPORT]
    report[1] = report[1] - 1.0
    begin = (mi.UInt32(0), *start, *report)
    final: State = dr.while_loop(begin, lambda number, *_: number < work.substeps, work.substep)
    after, reported = list(final[1 : 1 + len(start)]), list(final[1 + len(start) :])
    for k in range(3):
        after[k] = after[k] + work.origin[k]
        reported[2 + k] = reported[2 + k] + work.origin[k]
    values = [*after, *reported, *work.row(start, after)]
    result = dr.empty(mi.Float64, size * capacity)
    dr.scatter(result, mi.ArrayXd(values), lanes)  # a scatter of each column would be a kernel of its own
    return result


class _Work:
    """One launch: parameters of the bodies, and the physics of a substep."""

    def __init__(
        self,
        wheels: int,
        lanes: Int,
        count: Int,
        scene: SceneArrays,
        surfaces: Float,
        parameters: Float,
        inputs: Float,
        triangles: Float,
    ) -> None:
        engine = running_engine()
        self.mi, self.dr = engine.mi, engine.dr
        self.wheels, self.lanes, self.count, self.scene, self.surfaces = wheels, lanes, count, scene, surfaces
        self.triangles = triangles
        dr, mi = self.dr, self.mi
        header = [dr.gather(mi.Float64, inputs, mi.UInt32(k)) for k in range(len(HEADER))]
        self.dt, self.substeps = header[0], mi.UInt32(header[1])
        self.origin, self.gravity = self._vector(header[2:5]), self._vector(header[5:8])
        self.first, self.near = (mi.UInt32(self.column(inputs, k, len(HEADER))) for k in range(2))
        values = [self.column(parameters, k) for k in range(len(BODY) + wheels * len(WHEEL))]
        self.mass = values[0]
        self.inertia, self.half, self.centre = (self._vector(values[k : k + 3]) for k in (1, 4, 7))
        self.friction, self.restitution, self.grip = values[10:13]
        self.frame_at = self._vector(values[13:16])
        self.wheel = [values[len(BODY) + w * len(WHEEL) :][: len(WHEEL)] for w in range(wheels)]
        self.command = [
            [self.column(inputs, 2 + w * len(COMMAND) + k, len(HEADER)) for k in range(len(COMMAND))]
            for w in range(wheels)
        ]

    def column(self, table: Float, column: int, first: int = 0) -> Float:
        return self.dr.gather(self.mi.Float64, table, self.lanes + (self.count * column + first))

    def _vector(self, values: Any) -> Vectors:
        return self.mi.Vector3d(*values)

    def row(self, before: list[Float], after: list[Float]) -> list[Float]:
        """State of the vehicle frame, with mean accelerations of all substeps."""
        dr = self.dr
        frame, lever = _Frame(self.mi, after[3:7]), self.frame_at
        duration = self.dt * self.mi.Float64(self.substeps)
        pull, turn = (self._vector([(after[k] - before[k]) / duration for k in range(n, n + 3)]) for n in (7, 10))
        spin = self._vector(after[10:13])
        twist = dr.cross(spin, lever)
        place = self._vector(after[:3]) + frame.out(lever)
        velocity = self._vector(after[7:10]) + frame.out(twist)
        pull = pull + frame.out(dr.cross(turn, lever) + dr.cross(spin, twist))
        return [*place, *after[3:7], *velocity, *spin, *pull, *turn]

    def substep(self, number: Int, *state: Float) -> State:
        """Advance by one substep: wheels, gravity, hull, then positions (semi-implicit Euler)."""
        dr, mi, dt = self.dr, self.mi, self.dt
        size = len(STATE) + self.wheels * len(WHEEL_STATE)
        body, report = list(state[:size]), list(state[size:])
        place, velocity, spin = (self._vector(body[k : k + 3]) for k in (0, 7, 10))
        frame = _Frame(mi, body[3:7])
        force, torque = self.gravity * self.mass, mi.Vector3d(0.0)
        rows: list[Float] = []
        wheels = [body[len(STATE) + w * len(WHEEL_STATE) :][: len(WHEEL_STATE)] for w in range(self.wheels)]
        for w in range(self.wheels):
            push, moment, after = self._wheel(w, place, frame, velocity, spin, wheels[w], wheels[w ^ 1][-1])
            force, torque, rows = force + push, torque + moment, [*rows, *after]
        velocity = velocity + force / self.mass * dt
        spin = spin + (torque - dr.cross(spin, self.inertia * spin)) / self.inertia * dt
        velocity, spin, report = self._hull(place, frame, velocity, spin, report)
        place = place + velocity * dt
        quat = frame.after(spin, dt)
        return (number + 1, *place, *quat, *velocity, *spin, *rows, *report)

    # ---- wheels ----------------------------------------------------------------------------------------------------

    def _wheel(
        self, w: int, place: Vectors, frame: _Frame, velocity: Vectors, spin: Vectors, state: list[Float], other: Float
    ) -> tuple[Vectors, Vectors, list[Float]]:
        """Force in the world and torque in the body frame of a wheel, and its state after the substep.

        `other` is the lift of the other wheel of its axle.
        """
        dr, mi, dt = self.dr, self.mi, self.dt
        at, radius, stiffness, damping, *suspension = self.wheel[w][:3], *self.wheel[w][3:11]
        bristle, bristle_damping, relaxation, inertia, width, rim, stickiest, stop = self.wheel[w][11:]
        xp = namespace(radius)
        rate, along, across, _, sunk, sheared, lift = state
        hub = mi.Vector3d(at[0], at[1], at[2] + lift)
        outward = dr.select(at[1] > 0.0, 0.5 * TREAD_SHARE, -0.5 * TREAD_SHARE) * width
        target, steering, most = self.command[w]
        ahead = frame.out(mi.Vector3d(dr.cos(steering), dr.sin(steering), 0.0))
        down = frame.out(mi.Vector3d(0.0, 0.0, -1.0))
        centre = place + frame.out(hub)
        speed = velocity + frame.out(dr.cross(spin, hub))
        aside = dr.cross(ahead, down) * outward
        load, press, foot, deep, rigid, beside, part = self._probe(
            centre, ahead, down, aside, radius, speed, sunk, stiffness, damping
        )
        touches = (load > 0.0) & (radius > 0.0)
        ground = self._ground(part, touches)
        normal = dr.select(touches, press / xp.maximum(dr.norm(press), 1e-9), -down)
        forward = ahead - normal * dr.dot(ahead, normal)
        forward = forward / xp.maximum(dr.norm(forward), 1e-6)
        left = dr.cross(normal, forward)
        foot = dr.select(touches, foot / xp.maximum(dr.norm(foot), 1e-9), down)
        contact = centre + beside + foot * (radius - deep)
        arm = frame.into(contact - place)
        moving = velocity + frame.out(dr.cross(spin, arm))
        spring, top = suspension[0], suspension[3] - suspension[2]
        left_m = stop - rigid + dr.select(spring > 0.0, top - lift, 0.0)
        struck = self._rim_strike(left_m, moving, frame.into(normal), arm, normal, load)
        load, press = load + struck, press + normal * struck
        slip = mi.Vector2d(dr.dot(moving, forward) - rate * rim, dr.dot(moving, left))
        rolling = dr.abs(rate) * rim
        soft = ground.thickness > 0.0
        length = soil.contact_length(xp.maximum(sunk, 1e-4), radius)
        strength = soil.shear_strength(load, width * length, ground.cohesion, ground.tan_friction)
        # Rolling renews the tread in contact: the steady deflection is the slip times the relaxation length.
        renewed = 1.0 / (1.0 + rolling * dt / relaxation)
        # Soil gives way until its shear displacement mobilises the force; rolling reaches fresh soil.
        sheared = sheared * renewed
        mobile = soil.mobilised(length * xp.minimum(sheared / relaxation, 1.0), ground.shear)
        limit = dr.select(soft, strength * mobile, xp.minimum(self.grip * ground.friction, stickiest) * load)
        bent = (mi.Vector2d(along, across) + slip * dt) * renewed
        grip = -(bent * bristle + slip * (bristle_damping / (1.0 + rolling / _STICKING_M_S)))
        size = dr.norm(grip)
        slides = size > limit
        grip = dr.select(slides, grip * (limit / xp.maximum(size, 1e-9)), grip)
        # A sliding bristle holds the deflection that its force belongs to.
        bent = dr.select(slides, -grip / bristle, bent)
        bent = dr.select(touches, bent, 0.0)
        sheared = dr.select(
            touches & soft, xp.minimum(dr.select(slides, sheared + dr.norm(slip) * dt, sheared), relaxation), 0.0
        )
        # Compaction resists the motion of the hub, not the rotation of the wheel.
        firm = cast("Float", soil.stiffness(ground.k_c, ground.k_phi, width))
        compaction = soil.compaction_resistance(xp.maximum(sunk, 1e-6), width, firm, ground.exponent)
        advance = dr.dot(moving, forward)
        resistance = dr.select(soft, compaction * advance / xp.maximum(dr.abs(advance), _STANDING_M_S), 0.0)
        force = press + forward * (grip.x - resistance) + left * grip.y
        torque = dr.cross(arm, frame.into(force))
        rate = self._turned(rate, target, most, inertia, -grip.x * rim, ground.rolling * load * rim)
        deepest = soil.sinkage(xp.maximum(load, 1e-6), width, 2.0 * radius, firm, ground.exponent)
        deepest = xp.minimum(xp.minimum(deepest, ground.thickness), DEEPEST_SHARE * radius)
        aim = dr.select(touches & soft, deepest, 0.0)
        sunk = sunk + (aim - sunk) * xp.minimum(dt / _SINKING_S, 1.0)
        lifted = self._lifted(lift, other, -dr.dot(press, down), dr.select(touches, stiffness, 0.0), *suspension)
        # A wheel without mass moves up with its rim, before that reaches the ground.
        least = lift + rigid - stop - xp.minimum(dr.dot(moving, normal), 0.0) * dt
        lift = dr.select(touches & (spring > 0.0), xp.minimum(xp.maximum(lifted, least), top), lifted)
        there = radius > 0.0
        force = dr.select(touches, force, 0.0)
        torque = dr.select(touches, torque, 0.0)
        return force, torque, [dr.select(there, rate, 0.0), *bent, dr.select(there, load, 0.0), sunk, sheared, lift]

    def _rim_strike(
        self, gap: Float, moving: Vectors, facing: Vectors, arm: Vectors, normal: Vectors, load: Float
    ) -> Float:
        """Force [N] along the normal, `facing` in the body frame, that stops a rim `gap` [m] above the ground.

        It takes away what the tyre leaves of the closing velocity beyond that which closes the gap in a substep.
        """
        dr, dt, xp = self.dr, self.dt, namespace(gap)
        across = dr.cross(arm, facing)
        yields = 1.0 / self.mass + dr.dot(across * across, 1.0 / self.inertia)
        recovery = xp.clip(-gap * _RECOVERY / dt, 0.0, FASTEST_RECOVERY_M_S)
        excess = recovery - dr.dot(moving, normal) - load * yields * dt - xp.maximum(gap, 0.0) / dt
        return dr.select(load > 0.0, xp.maximum(excess, 0.0) / (yields * dt), 0.0)

    def _lifted(self, lift: Float, opposite: Float, push: Float, tyre: Float, *suspension: Float) -> Float:
        """Lift of a wheel after the substep: forces of tyre, spring, damper and bar balance on a wheel without mass.

        Exact for a body that rests meanwhile, so that stiff tyres need no shorter substeps.
        """
        dt, xp, (spring, damper, sag, travel, bar) = self.dt, namespace(lift), suspension
        force = push - spring * (lift + sag) - bar * (lift - opposite)
        stiff, damped = xp.maximum(spring + bar + tyre, 1e-6), xp.maximum(damper, 1e-6)
        moved = lift + force / stiff * (1.0 - xp.exp(-stiff * dt / damped))
        return self.dr.select(spring > 0.0, xp.clip(moved, -sag, travel - sag), 0.0)

    def _ground(self, part: Int, touches: Bool) -> WheelGround:
        """Properties of the surface under a wheel, as kernel variables."""
        dr, mi = self.dr, self.mi
        row = dr.select(touches, part, 0) * len(SURFACE)
        values = [mi.Float64(dr.gather(mi.Float, self.surfaces, row + k, touches)) for k in range(len(SURFACE))]
        soft = values[-1] > 0.0
        # Values that keep the formulas of soil finite on hard ground.
        harmless = (None, None, 0.0, 1e6, 1.0, 0.0, 0.5, 0.01, None)
        return WheelGround(
            *(v if other is None else dr.select(soft, v, other) for v, other in zip(values, harmless, strict=True))
        )

    def _turned(self, rate: Float, target: Float, most: Float, inertia: Float, road: Float, resistance: Float) -> Float:
        """Rate of a wheel after the substep: a speed servo with limited torque, road and rolling torque."""
        dr, dt = self.dr, self.dt
        xp = namespace(rate)
        inertia = xp.maximum(inertia, 1e-6)
        free = rate + road / inertia * dt
        brake = resistance / inertia * dt
        free = dr.select(dr.abs(free) > brake, free - dr.sign(free) * brake, 0.0)
        change = most / inertia * dt
        return xp.clip(target, free - change, free + change)

    def _probe(
        self,
        centre: Vectors,
        ahead: Vectors,
        down: Vectors,
        aside: Vectors,
        radius: Float,
        speed: Vectors,
        sunk: Float,
        stiffness: Float,
        damping: Float,
    ) -> tuple[Float, Vectors, Vectors, Float, Float, Vectors, Int]:
        """Load [N], normal force (3) [N], and where it acts; the part under a wheel.

        It acts along the third value from the hub, whose length has no meaning, less the fourth, the deflection [m] in
        the wheel's plane; the fifth is the deflection [m] across the ground; the sixth leads beside the middle [m].
        The wheel has sunk by `sunk` [m]; `aside` leads from its middle to its outer disc. Planes press on each disc
        along their normal by the depth of its lowest point, which is the gradient of that depth: a wheel that lies on
        its side gains no energy. A wheel that stands on one disc has the stiffness of the whole wheel. One edge ahead
        and one behind add to them.
        """
        dr, mi = self.dr, self.mi
        xp = namespace(radius)
        size = radius - sunk

        def pressed(deep: Float, weight: float | Float, normal: Vectors) -> Float:
            closing = -dr.dot(speed, normal)
            return dr.select(deep > 0.0, xp.maximum(stiffness * deep + damping * weight * closing, 0.0), 0.0)

        def turned(angle: Float) -> tuple[Float, Float]:
            """Cosine and sine of an angle, as precise as the rays."""
            sine, cosine = dr.sincos(mi.Float(angle))
            return mi.Float64(cosine), mi.Float64(sine)

        def along(aim: Any, distance: Float, cosine: Float, sine: Float) -> Float:
            """Distance along a ray to a plane, given its distance and direction."""
            return distance / xp.maximum(aim[0] * cosine + aim[1] * sine, 0.1)

        def ray(k: Int, discs: Any, edges: Any, gap: Any, last: Any, most: Float, under: Int) -> State:
            finer = k >= RAYS
            near, far, *surface, beside, potential = gap
            angle = dr.select(finer, 0.5 * (near + far), (mi.Float64(k) - 0.5 * (RAYS - 1)) * (0.5 * SPACING_RAD))
            side = dr.select(finer, beside, dr.select((k & 1) == 0, 1.0, -1.0))
            aim = turned(angle)
            direction = down * aim[0] + ahead * aim[1]
            behind = BEHIND_M * xp.maximum(-direction.z, 0.0)
            start = mi.Point3f(centre + aside * side - direction * behind)
            limit = mi.Float(radius * FARTHEST + behind)
            hit = self.scene.trace(start, mi.Vector3f(direction), mi.Float(0.0), limit, radius > 0.0)
            distance = mi.Float64(dr.select(hit.found, hit.t, limit)) - behind
            plane = mi.Vector3d(hit.normal)
            plane = dr.select(dr.dot(plane, direction) > 0.0, -plane, plane)
            # Where the disc is nearest to the plane, as an angle from straight down in its own plane.
            a, d = -dr.dot(plane, ahead), -dr.dot(plane, down)
            length = xp.maximum(dr.sqrt(a * a + d * d), 1e-6)
            toward = down * (d / length) + ahead * (a / length)
            cosine = dr.dot(toward, direction)
            apart = dr.acos(xp.clip(cosine, -1.0, 1.0)) / SPACING_RAD
            share = dr.select(hit.found & ~finer, xp.maximum(1.0 - apart, 0.0), 0.0)
            depth = xp.maximum(size - distance * cosine, 0.0)
            of_plane = share * depth
            depth = xp.minimum(2.0 * share, 1.0) * depth  # two rays beside the lowest point have a share of 1/2 each
            force = pressed(of_plane * length, share, plane)
            for n, own in ((0, side > 0.0), (1, side < 0.0)):
                load, press, foot, *deepest = discs[n]
                one, depths = dr.select(own, force, 0.0), (of_plane, depth * length)
                deepest = [dr.select(own, xp.maximum(a, b), a) for a, b in zip(deepest, depths, strict=True)]
                discs[n] = (load + one, press + plane * one, foot + toward * one, *deepest)
            # Beyond 70° between disc and plane normal, the rays of a disc pass along the plane.
            across = xp.clip(3.0 * length - 1.0, 0.0, 1.0)
            weight = across * dr.select(finer, 1.0, xp.clip(2.0 * apart - 1.0, 0.0, 1.0))
            weight = dr.select(hit.found, weight, 0.0)
            of_edge = weight * xp.maximum(size - distance, 0.0)
            for n, own in ((0, angle > 0.0), (1, angle <= 0.0)):
                deep, at, lateral = edges[n]
                more = own & (of_edge > deep)
                edges[n] = (dr.select(more, of_edge, deep), dr.select(more, angle, at), dr.select(more, side, lateral))
            # An edge lies between two rays if the inner one passes beyond the plane that the outer one meets.
            own = dr.select(hit.found, distance * cosine, _NOTHING_M)
            across = own - dr.dot(plane, aside) * (2.0 * side / length)  # the distance of the plane from the other disc
            here = (*aim, angle, distance, across, own, d / length, a / length)
            forward = angle > 0.0
            inside, outside = (
                [dr.select(forward, one, other) for one, other in zip(*pair, strict=True)]
                for pair in ((last, here), (here, last))
            )
            reach = along(inside[:2], outside[4], *outside[6:])
            deep = dr.select(inside[3] > reach + _STEP_M, size - reach, 0.0)
            found = ~finer & (k > 0) & (deep > potential)
            new = (inside[2], outside[2], *outside[5:], dr.select(forward, side, -side), deep)
            beyond = distance > along(aim, *surface) + _STEP_M
            rest = (dr.select(finer & beyond, angle, near), dr.select(finer & ~beyond, angle, far), *gap[2:])
            gap = tuple(dr.select(found, one, other) for one, other in zip(new, rest, strict=True))
            strongest = xp.maximum(force, stiffness * of_edge)
            more = strongest > most
            most, under = dr.select(more, strongest, most), dr.select(more, hit.part, under)
            return k + 1, discs, edges, gap, here, most, under

        zero = mi.Float64(0.0)
        begin = (
            mi.UInt32(0),
            [(zero, mi.Vector3d(0.0), mi.Vector3d(0.0), zero, zero)] * 2,
            [(zero, zero, zero)] * 2,
            (zero,) * 7,
            (zero,) * 8,
            zero,
            mi.UInt32(0),
        )
        final = dr.while_loop(
            begin, lambda k, discs, edges, gap, *_: (k < RAYS) | ((k < RAYS + FINER_RAYS) & (gap[-1] > 0.0)), ray
        )
        discs, edges, under = final[1], final[2], final[6]
        sizes = [disc[0] for disc in discs]
        shares = [one / xp.maximum(sizes[0] + sizes[1], 1e-9) for one in sizes]
        load = sizes[0] * shares[0] + sizes[1] * shares[1]
        press = discs[0][1] * shares[0] + discs[1][1] * shares[1]
        foot = discs[0][2] * shares[0] + discs[1][2] * shares[1]
        deep = discs[0][3] * shares[0] + discs[1][3] * shares[1]
        moment, rigid = load * (shares[0] - shares[1]), xp.maximum(discs[0][4], discs[1][4])
        for far, angle, side in edges:
            cosine, sine = turned(angle)
            direction = down * cosine + ahead * sine
            force = pressed(far, 1.0, -direction)
            load, press, foot = load + force, press - direction * force, foot + direction * force
            moment = moment + side * force
            deep, rigid = xp.maximum(deep, far), xp.maximum(rigid, far)
        return load, press, foot, deep, rigid, aside * (moment / xp.maximum(load, 1e-9)), under

    # ---- hull ------------------------------------------------------------------------------------------------------

    def _hull(
        self, place: Vectors, frame: _Frame, velocity: Vectors, spin: Vectors, report: list[Float]
    ) -> tuple[Vectors, Vectors, list[Float]]:
        """Velocities after the impulses of the triangles near the hull, and the report.

        If any of them pushes, all are visited a second time, because one may push the hull toward another.
        """
        dr, mi = self.dr, self.mi
        lever = dr.norm(self.half) + dr.norm(self.centre)

        def one(k: Int, own: Vectors, spin: Vectors, visits: Int, *report: Float) -> State:
            row = self.first + dr.select(k < self.near, k, k - self.near)
            numbers = [dr.gather(mi.Float64, self.triangles, row * TRIANGLE + n) for n in range(TRIANGLE)]
            corners = [frame.into(mi.Vector3d(*numbers[n : n + 3]) - place) - self.centre for n in (0, 3, 6)]
            reach = (dr.norm(own) + dr.norm(spin) * lever) * self.dt + SLOP_M
            pushed, turned, *reported = dr.if_stmt(
                (own, spin, *report),
                along_sides(corners, self.half) < reach,
                lambda own, spin, *report: self._impulse(row, corners, reach, place, frame, own, spin, report),
                lambda *same: same,
            )
            visits = dr.select(reported[8] > report[8], 2 * self.near, visits)
            return (k + 1, pushed, turned, visits, *reported)

        begin = (mi.UInt32(0), frame.into(velocity), spin, mi.UInt32(self.near), *report)
        final: State = dr.while_loop(begin, lambda k, own, spin, visits, *_: k < visits, one)
        # Deformation at contacts damps rotation, so that a body that rocks on its edges comes to rest.
        spin = dr.select(final[3] > self.near, final[2] * (1.0 - _ROCKING_1_S * self.dt), final[2])
        return frame.out(final[1]), spin, list(final[4:])

    def _impulse(
        self,
        row: Int,
        corners: list[Vectors],
        reach: Float,
        place: Vectors,
        frame: _Frame,
        own: Vectors,
        spin: Vectors,
        report: tuple[Float, ...],
    ) -> State:
        """Velocities in the body frame after the impulse of a triangle, and the report."""
        dr, mi, dt = self.dr, self.mi, self.dt
        xp = namespace(own.x)
        normal, gap, point = separation(dr, mi, corners, self.half, reach)
        point = point + self.centre
        close = gap < reach
        closing = dr.dot(own + dr.cross(spin, point), normal)
        wanted = dr.select(
            gap > 0.0, -gap / dt, xp.minimum(xp.maximum(-gap - SLOP_M, 0.0) * _RECOVERY / dt, FASTEST_RECOVERY_M_S)
        )
        bounce = dr.select(closing < -0.5, -self.restitution * closing, 0.0)
        wanted = xp.maximum(wanted, dr.select(gap < reach, bounce, wanted))
        across = dr.cross(point, normal)
        eased = 1.0 / self.mass + dr.dot(across * across / self.inertia, mi.Vector3d(1.0))
        push = dr.select(close, xp.maximum((wanted - closing) / eased, 0.0), 0.0)
        own, spin = own + normal * (push / self.mass), spin + across / self.inertia * push
        # Friction against sliding, up to the Coulomb limit.
        slide = own + dr.cross(spin, point)
        slide = slide - normal * dr.dot(slide, normal)
        fast = dr.norm(slide)
        tangent = slide / xp.maximum(fast, 1e-9)
        twist = dr.cross(point, tangent)
        loose = 1.0 / self.mass + dr.dot(twist * twist / self.inertia, mi.Vector3d(1.0))
        drag = xp.minimum(fast / loose, self.friction * push)
        own, spin = own - tangent * (drag / self.mass), spin - twist / self.inertia * drag
        strongest = push > report[0]
        where, facing = place + frame.out(point), frame.out(normal)
        new = [push, mi.Float64(row), *where, *facing]
        reported = [dr.select(strongest, a, b) for a, b in zip(new, report[:8], strict=True)]
        reported += [report[8] + push, xp.maximum(report[9], dr.select(close, -gap, 0.0))]
        return (own, spin, *reported)


@dataclass
class WheelGround:
    """Properties of the surface under a wheel, in the order of `SURFACE`."""

    friction: Float
    rolling: Float
    k_c: Float
    k_phi: Float
    exponent: Float
    cohesion: Float
    tan_friction: Float
    shear: Float
    thickness: Float


class _Frame:
    """Rotation of a body, as kernel variables."""

    def __init__(self, mi: Mitsuba, quat: list[Float]) -> None:
        self._mi, self._quat = mi, quat
        x, y, z, w = quat
        xx, yy, zz, xy, xz, yz, wx, wy, wz = x * x, y * y, z * z, x * y, x * z, y * z, w * x, w * y, w * z
        self._rows = [
            mi.Vector3d(1.0 - 2.0 * (yy + zz), 2.0 * (xy - wz), 2.0 * (xz + wy)),
            mi.Vector3d(2.0 * (xy + wz), 1.0 - 2.0 * (xx + zz), 2.0 * (yz - wx)),
            mi.Vector3d(2.0 * (xz - wy), 2.0 * (yz + wx), 1.0 - 2.0 * (xx + yy)),
        ]

    def out(self, v: Vectors) -> Vectors:
        """Body to world."""
        a, b, c = self._rows
        return self._mi.Vector3d(
            a.x * v.x + a.y * v.y + a.z * v.z, b.x * v.x + b.y * v.y + b.z * v.z, c.x * v.x + c.y * v.y + c.z * v.z
        )

    def into(self, v: Vectors) -> Vectors:
        """World to body."""
        a, b, c = self._rows
        return a * v.x + b * v.y + c * v.z

    def after(self, spin: Vectors, dt: Float) -> tuple[Float, ...]:
        """Quaternion after turning with an angular velocity in the body frame."""
        x, y, z, s = self._quat
        p, q, r = spin.x * dt * 0.5, spin.y * dt * 0.5, spin.z * dt * 0.5
        new = (
            x + s * p + y * r - z * q,
            y + s * q - x * r + z * p,
            z + s * r + x * q - y * p,
            s - x * p - y * q - z * r,
        )
        size = 1.0 / running_engine().dr.sqrt(sum(n * n for n in new))
        return tuple(n * size for n in new)
