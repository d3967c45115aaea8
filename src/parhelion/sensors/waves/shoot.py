"""Shoot and bounce: rays from the sensor into the world, and every way back to it, in one kernel.

At each surface a ray may be answered in two ways. Straight: from that surface to the receiver, if nothing stands in
between. And back along the way it came, over the same mirrors: that is how things appear where a mirror shows them.
Otherwise the ray goes on as a mirror sends it.

The strength of an answer is its apparent cross-section: that of a thing at half the path's length which would answer as
strongly. For a ray of solid angle dW that meets a surface under the angle a after L metres it is

    (pi F D(h) + s cos a) dA,   dA = L^2 dW / cos a

with F Fresnel's reflection, D Beckmann's density of facets that face the half-vector h, and s the share that roughness
scatters to all sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.core.arrays import namespace
from parhelion.core.random import to_unit, words
from parhelion.rays.device import engine as running_engine
from parhelion.rays.device import kernel_tree
from parhelion.rays.moving import rotate, rotate_back
from parhelion.rays.replayable import SceneArrays
from parhelion.rays.scene import NOTHING
from parhelion.sensors.waves.lobe import beckmann, lobe_width2
from parhelion.sensors.waves.motion import Moves
from parhelion.sensors.waves.patches import Patches
from parhelion.sensors.waves.surfaces import WaveSurfaces

# Rays go on from a surface by this much along its normal, so that they do not meet it again.
_STEP_OFF_M = 2e-4
_STEP_OFF_PER_M = 1e-5
_WEAKEST = 1e-5
"""Rays whose share of the power falls below this are not followed on."""
_HALF_POWER = 4.0 * math.log(2.0)


@kernel_tree()
@dataclass
class Pattern:
    """The gain of an antenna or transducer relative to its axis: a bell over direction cosines, with a floor."""

    across: Any
    """Full width at half power over the sideways direction cosine."""
    upward: Any
    """The same over the upward one."""
    floor: Any
    """Least relative gain in front."""

    def gain(self, local: Any, turns: bool) -> Any:
        """Relative power gain into unit directions of the sensor's frame; one that turns has it all around."""
        dr, mi = running_engine().dr, running_engine().mi
        up = local.z / self.upward
        aside = mi.Float(0.0) if turns else local.y / self.across
        bell = dr.exp(-_HALF_POWER * (aside * aside + up * up))
        bell = namespace(bell).maximum(bell, self.floor)
        return bell if turns else dr.select(local.x > 0.0, bell, 0.0)


@kernel_tree(fixed=("bounces", "turns", "moves"))
@dataclass
class Emission:
    """The rays of one measurement."""

    bounces: int
    """Surfaces that a ray meets at most."""
    turns: bool
    """Whether the beam sweeps in azimuth, so that columns of rays have times of their own."""
    moves: bool
    """Whether bodies move in the scene."""
    rows: Any
    """Rays of one column."""
    azimuth: Any
    """Of the first column's edge [rad]."""
    azimuth_step: Any
    elevation: Any
    """Of the first row's edge [rad]."""
    elevation_step: Any
    time: Any
    """Of the first column, after the start [s]."""
    time_step: Any
    """From one column to the next [s]."""
    send: Pattern
    receive: Pattern
    wavelength: Any
    reach: Any
    """Rays are followed so far [m]."""
    weakest: Any
    """Apparent cross-section at 1 m below which an answer is dropped, falling with the fourth power of range [m^2]."""
    absorption: Any
    """Loss of power along the way [1/m]."""


@dataclass
class _Ray:
    """Rays after their last surface, as kernel variables."""

    origin: Any
    direction: Any
    share: Any
    """Power left after the mirrors on the way."""
    length: Any
    rate: Any
    """How fast the way to the last surface grows [m/s], the last point's own motion left out."""
    active: Any
    before: Any
    """Patch of the last surface."""
    earlier: Any
    """And of the one before it."""


def shoot(
    emission: Emission, moves: Moves, patches: Patches, surfaces: WaveSurfaces, cast: SceneArrays, index: Any,
    keys: tuple[Any, Any],
) -> list[Any]:  # fmt: skip
    """Nine arrays for each way of answering: apparent cross-section [m^2], length of the path there and back [m], how
    fast that grows [m/s], the direction it comes from (3, sensor's frame), distance of the last surface [m], part,
    patch. The first surface has one way; each further one has two, straight and back along the way. One more array
    says how near the first surface is that is seen from behind [m], infinite where there is none.
    """
    dr, mi = running_engine().dr, running_engine().mi
    column = index // emission.rows
    row = index - column * emission.rows
    first, second, _, _ = (to_unit(word) for word in words(keys, index))
    azimuth = emission.azimuth + (mi.Float(column) + first) * emission.azimuth_step
    elevation = emission.elevation + (mi.Float(row) + second) * emission.elevation_step
    sin_a, cos_a = dr.sincos(azimuth)
    sin_e, cos_e = dr.sincos(elevation)
    local = mi.Vector3f(cos_e * cos_a, cos_e * sin_a, sin_e)
    solid_angle = emission.azimuth_step * emission.elevation_step * cos_e
    spacing = dr.sqrt(solid_angle)
    time = emission.time + (mi.Float(column) + first) * emission.time_step
    place, turn = moves.pose(time)
    velocity, _ = moves.speed(mi.UInt32(0), time)
    direction = rotate(dr, mi, turn, local)
    sent = emission.send.gain(local, emission.turns)
    ray = _Ray(
        mi.Point3f(place), direction, mi.Float(1.0), mi.Float(0.0), -dr.dot(velocity, direction), mi.Bool(True),
        mi.UInt32(NOTHING), mi.UInt32(NOTHING),
    )  # fmt: skip
    results: list[Any] = []
    behind = mi.Float(0.0)
    for bounce in range(emission.bounces):
        hit = cast.trace(ray.origin, ray.direction, time, emission.reach - ray.length, ray.active, coherent=bounce == 0)
        met = ray.active & hit.found
        point = dr.fma(ray.direction, hit.t, ray.origin)
        length = ray.length + hit.t
        from_behind = dr.dot(hit.normal, ray.direction) > 0.0
        normal = dr.select(from_behind, -hit.normal, hit.normal)
        if bounce == 0:
            behind = dr.select(met & from_behind, hit.t, dr.inf)
        axis, patch, extent, bend = patches.at(hit.triangle, met)
        moved = mi.Vector3f(0.0)
        if emission.moves:
            on_body = met & (hit.actor != NOTHING)
            body = dr.select(on_body, hit.actor, 0)
            at, body_turn = cast.scene().moving.pose_at(body, time)  # type: ignore[union-attr]
            speed, spin = moves.speed(body + 1, time)
            moved = dr.select(on_body, speed + dr.cross(spin, mi.Vector3f(point) - at), moved)
            axis = dr.select(on_body, rotate(dr, mi, body_turn, axis), axis)
        material = surfaces.material(hit.part, met)
        slope2, phase2, scattered = surfaces.finish(material, met)
        cosine = namespace(length).maximum(-dr.dot(normal, ray.direction), 1e-4)
        other = dr.cross(normal, axis)

        def answer(  # type: ignore[no-untyped-def]half: Any, facing: Any, back: Any, distance: Any, *,
                   cosine=cosine, normal=normal, axis=axis, other=other, extent=extent, bend=bend, slope2=slope2,
                   material=material, scattered=scattered, length=length, met=met) -> Any:  # fmt: skip
            """Bistatic cross-section for each area of surface."""
            zone = emission.wavelength * distance * length / (distance + length)
            inverse = 1.0 / cosine
            m2 = [
                lobe_width2(extent[k], bend[k], slope2, emission.wavelength * dr.sqrt(inverse), zone, spacing, length)
                for k in (0, 1)
            ]
            density = beckmann(dr.dot(normal, half), dr.dot(axis, half), dr.dot(other, half), m2[0], m2[1])
            return np.pi * surfaces.mirrored(material, facing, met) * density + scattered * dr.sqrt(cosine * back)

        # Back along the way: the half-vector is the ray itself, and all mirrors are passed again.
        strength = answer(-ray.direction, mi.Float(1.0), cosine, length) * solid_angle * length * length / cosine
        strength *= ray.share * ray.share * sent * emission.receive.gain(local, emission.turns)
        results += _told(
            emission, met, strength, 2.0 * length, 2.0 * (ray.rate + dr.dot(moved, ray.direction)), local, length,
            hit.part, patch,
        )  # fmt: skip
        if bounce:
            results += _straight(
                emission, cast, ray, answer, point, normal, hit, patch, moved, place, turn, velocity, time, length,
                cosine, solid_angle, sent, local, met,
            )  # fmt: skip
        if bounce + 1 < emission.bounces:
            mirrored = ray.direction + 2.0 * cosine * normal
            kept = surfaces.mirrored(material, cosine, met) * dr.exp(-phase2 * cosine * cosine)
            share = ray.share * kept
            off = (_STEP_OFF_M + _STEP_OFF_PER_M * hit.t) * normal
            ray = _Ray(
                mi.Point3f(point + off), dr.normalize(mirrored), share, length,
                ray.rate + dr.dot(moved, ray.direction - mirrored),
                met & (share > _WEAKEST) & (length < emission.reach), patch, ray.before,
            )  # fmt: skip
    results.append(behind)
    dr.eval(results)
    return results


def _straight(
    emission: Emission, cast: SceneArrays, ray: _Ray, answer: Any, point: Any, normal: Any, hit: Any, patch: Any,
    moved: Any, place: Any, turn: Any, velocity: Any, time: Any, length: Any, cosine: Any, solid_angle: Any,
    sent: Any, local: Any, met: Any,
) -> list[Any]:  # fmt: skip
    """Answers from a surface behind mirrors straight to the receiver."""
    dr, mi = running_engine().dr, running_engine().mi
    way = place - mi.Vector3f(point)
    distance = dr.sqrt(dr.dot(way, way))
    way = way / distance
    back = dr.dot(normal, way)
    # A path that ends on the patch it began on is one that came back along its way, which is told already.
    open_to = met & (back > 1e-3) & (patch != ray.earlier)
    half = dr.normalize(way - ray.direction)
    strength = answer(half, dr.dot(half, way), dr.select(back > 0.0, back, 0.0), distance)
    total = length + distance
    apart = 0.25 * total * total / distance
    strength *= ray.share * sent * solid_angle * apart * apart / cosine
    comes_from = rotate_back(dr, mi, turn, -way)
    strength *= emission.receive.gain(comes_from, emission.turns)
    if emission.turns:
        # The beam points at one azimuth at a time: half-way between both ends is where it passes most.
        level = dr.sqrt((comes_from.x**2 + comes_from.y**2) * (local.x**2 + local.y**2))
        cos_between = (comes_from.x * local.x + comes_from.y * local.y) / level
        apart2 = 0.5 * (1.0 - cos_between)  # square of the sine of half the angle
        strength *= dr.exp(-2.0 * _HALF_POWER * apart2 / (emission.receive.across * emission.receive.across))
    worth = open_to & (strength > emission.weakest * (0.5 * total) ** 4)
    off = (_STEP_OFF_M + _STEP_OFF_PER_M * hit.t) * normal
    hidden = cast.blocked(mi.Point3f(point + off), way, time, distance - 2.0 * _STEP_OFF_M, worth)
    rate = ray.rate + dr.dot(moved, ray.direction - way) + dr.dot(velocity, way)
    return _told(emission, worth & ~hidden, strength, total, rate, comes_from, distance, hit.part, patch)


def _told(
    emission: Emission, there: Any, strength: Any, length: Any, rate: Any, comes_from: Any, distance: Any, part: Any,
    patch: Any,
) -> list[Any]:  # fmt: skip
    dr = running_engine().dr
    strength = strength * dr.exp(-emission.absorption * length)
    kept = there & (strength > emission.weakest * (0.5 * length) ** 4)
    return [
        dr.select(kept, strength, 0.0), length, rate, comes_from.x, comes_from.y, comes_from.z, distance, part, patch
    ]  # fmt: skip
