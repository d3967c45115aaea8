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

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table, namespace
from parhelion.core.errors import ConfigError
from parhelion.core.random import Stream, to_unit, words
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.moving import rotate, rotate_back
from parhelion.rays.replay import SceneArrays
from parhelion.rays.scene import NOTHING
from parhelion.sensors.waves.motion import Moves
from parhelion.sensors.waves.scene import (
    HALF_POWER,
    FacetPatches,
    WaveScene,
    WaveSurfaces,
    beam_gain,
    beckmann,
    lobe_width2,
)

# Rays go on from a surface by this much along its normal, so that they do not meet it again.
_STEP_OFF_M = 2e-4
_STEP_OFF_PER_M = 1e-5
_WEAKEST = 1e-5
"""Rays whose share of the power falls below this are not followed on."""


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

    @classmethod
    def of(cls, engine: Engine, shape: tuple[float, float, float]) -> Pattern:
        """From widths over both direction cosines and the floor."""
        return cls(*map(engine.number, shape))

    def gain(self, local: Any, turns: bool) -> Any:
        """Relative power gain into unit directions of the sensor's frame; one that turns has it all around."""
        mi = running_engine().mi
        if turns:
            return beam_gain(mi.Float(1.0), mi.Float(0.0), local.z, self.across, self.upward, self.floor)
        return beam_gain(local.x, local.y, local.z, self.across, self.upward, self.floor)


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
    nearest: Any
    """Answers over less than this, there and back, are dropped [m]."""
    farthest: Any
    """And over more than this [m]."""
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


@dataclass
class _Start:
    """Where rays began, as kernel variables."""

    place: Any
    turn: Any
    velocity: Any
    time: Any
    local: Any
    solid_angle: Any
    spacing: Any
    sent: Any


@dataclass
class _Met:
    """What rays met, as kernel variables."""

    there: Any
    point: Any
    length: Any
    """From the sensor, along the way [m]."""
    off: Any
    """A small step off the surface."""
    normal: Any
    axis: Any
    other: Any
    cosine: Any
    """Of incidence."""
    patch: Any
    extent: tuple[Any, Any]
    bend: tuple[Any, Any]
    material: Any
    finish: tuple[Any, Any, Any]
    moved: Any
    """Velocity of the point [m/s]."""

    def answer(
        self, emission: Emission, surfaces: WaveSurfaces, half: Any, facing: Any, back: Any, distance: Any, spacing: Any
    ) -> Any:
        """Bistatic cross-section for each area of surface.

        `half` lies half-way between both directions, `facing` is the cosine between it and either of them, `back` that
        of the direction to the receiver over the normal, which is `distance` [m] away.
        """
        dr = running_engine().dr
        zone = emission.wavelength * distance * self.length / (distance + self.length)
        # A patch under an angle is as large as it looks.
        wavelength = emission.wavelength * dr.rsqrt(self.cosine)
        slope2, _, scattered = self.finish
        m2 = [lobe_width2(self.extent[k], self.bend[k], slope2, wavelength, zone, spacing, self.length) for k in (0, 1)]
        density = beckmann(dr.dot(self.normal, half), dr.dot(self.axis, half), dr.dot(self.other, half), *m2)
        mirrored = surfaces.mirrored(self.material, facing, self.there)
        return np.pi * mirrored * density + scattered * dr.sqrt(self.cosine * back)


def shoot(
    emission: Emission, moves: Moves, patches: FacetPatches, surfaces: WaveSurfaces, cast: SceneArrays, index: Any,
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
    start = _Start(place, turn, velocity, time, local, solid_angle, spacing, sent)
    results: list[Any] = []
    behind = mi.Float(0.0)
    for bounce in range(emission.bounces):
        hit = cast.trace(ray.origin, ray.direction, time, emission.reach - ray.length, ray.active, coherent=bounce == 0)
        if bounce == 0:
            from_behind = hit.found & (dr.dot(hit.normal, ray.direction) > 0.0)
            behind = dr.select(from_behind, hit.t, dr.inf)
        met = _met(emission, moves, patches, surfaces, cast, ray, hit, time)
        # Back along the way: the half-vector is the ray itself, and all mirrors are passed again.
        strength = met.answer(emission, surfaces, -ray.direction, mi.Float(1.0), met.cosine, met.length, spacing)
        strength *= solid_angle * met.length * met.length / met.cosine
        strength *= ray.share * ray.share * sent * emission.receive.gain(local, emission.turns)
        rate = 2.0 * (ray.rate + dr.dot(met.moved, ray.direction))
        results += _accepted(
            emission, met.there, strength, 2.0 * met.length, rate, local, met.length, hit.part, met.patch
        )  # fmt: skip
        if bounce:
            results += _straight(emission, surfaces, cast, start, ray, met, hit.part)
        if bounce + 1 < emission.bounces:
            ray = _mirrored(emission, surfaces, ray, met)
    results.append(behind)
    dr.eval(results)
    return results


def _met(
    emission: Emission, moves: Moves, patches: FacetPatches, surfaces: WaveSurfaces, cast: SceneArrays, ray: _Ray,
    hit: Any, time: Any,
) -> _Met:  # fmt: skip
    """What rays met, and how that moves."""
    dr, mi = running_engine().dr, running_engine().mi
    there = ray.active & hit.found
    point = dr.fma(ray.direction, hit.t, ray.origin)
    normal = dr.select(dr.dot(hit.normal, ray.direction) > 0.0, -hit.normal, hit.normal)
    axis, patch, extent, bend = patches.at(hit.triangle, there)
    moved = mi.Vector3f(0.0)
    if emission.moves:
        on_body = there & (hit.actor != NOTHING)
        body = dr.select(on_body, hit.actor, 0)
        bodies = cast.scene().moving
        assert bodies is not None
        at, turn = bodies.pose_at(body, time)
        speed, spin = moves.speed(body + 1, time)
        moved = dr.select(on_body, speed + dr.cross(spin, mi.Vector3f(point) - at), moved)
        axis = dr.select(on_body, rotate(dr, mi, turn, axis), axis)
    material = surfaces.material(hit.part, there)
    cosine = -dr.dot(normal, ray.direction)
    return _Met(
        there, point, ray.length + hit.t, (_STEP_OFF_M + _STEP_OFF_PER_M * hit.t) * normal, normal, axis,
        dr.cross(normal, axis), namespace(cosine).maximum(cosine, 1e-4), patch, extent, bend, material,
        surfaces.finish(material, there), moved,
    )  # fmt: skip


def _mirrored(emission: Emission, surfaces: WaveSurfaces, ray: _Ray, met: _Met) -> _Ray:
    """Rays behind the surface that they met: what roughness leaves of the mirrored wave."""
    dr, mi = running_engine().dr, running_engine().mi
    direction = dr.normalize(ray.direction + 2.0 * met.cosine * met.normal)
    kept = surfaces.mirrored(met.material, met.cosine, met.there)
    share = ray.share * kept * dr.exp(-met.finish[1] * met.cosine * met.cosine)
    return _Ray(
        mi.Point3f(met.point + met.off), direction, share, met.length,
        ray.rate + dr.dot(met.moved, ray.direction - direction),
        met.there & (share > _WEAKEST) & (met.length < emission.reach), met.patch, ray.before,
    )  # fmt: skip


def _straight(
    emission: Emission, surfaces: WaveSurfaces, cast: SceneArrays, start: _Start, ray: _Ray, met: _Met, part: Any
) -> list[Any]:
    """Answers from a surface behind mirrors straight to the receiver."""
    dr, mi = running_engine().dr, running_engine().mi
    way = start.place - mi.Vector3f(met.point)
    distance = dr.sqrt(dr.dot(way, way))
    way = way / distance
    back = dr.dot(met.normal, way)
    # A path that ends on the patch it began on is one that came back along its way, which is counted already.
    open_to = met.there & (back > 1e-3) & (met.patch != ray.earlier)
    half = dr.normalize(way - ray.direction)
    back = dr.select(back > 0.0, back, 0.0)
    strength = met.answer(emission, surfaces, half, dr.dot(half, way), back, distance, start.spacing)
    total = met.length + distance
    apart = 0.25 * total * total / distance
    strength *= ray.share * start.sent * start.solid_angle * apart * apart / met.cosine
    comes_from, local = rotate_back(dr, mi, start.turn, -way), start.local
    strength *= emission.receive.gain(comes_from, emission.turns)
    if emission.turns:
        # The beam points at one azimuth at a time: half-way between both ends is where it passes most.
        level = dr.sqrt((comes_from.x**2 + comes_from.y**2) * (local.x**2 + local.y**2))
        cos_between = (comes_from.x * local.x + comes_from.y * local.y) / level
        apart2 = 0.5 * (1.0 - cos_between)  # square of the sine of half the angle
        strength *= dr.exp(-2.0 * HALF_POWER * apart2 / (emission.receive.across * emission.receive.across))
    worth = open_to & (strength > emission.weakest * (0.5 * total) ** 4)
    hidden = cast.blocked(mi.Point3f(met.point + met.off), way, start.time, distance - 2.0 * _STEP_OFF_M, worth)
    rate = ray.rate + dr.dot(met.moved, ray.direction - way) + dr.dot(start.velocity, way)
    return _accepted(emission, worth & ~hidden, strength, total, rate, comes_from, distance, part, met.patch)


def _accepted(
    emission: Emission, there: Any, strength: Any, length: Any, rate: Any, comes_from: Any, distance: Any, part: Any,
    patch: Any,
) -> list[Any]:  # fmt: skip
    dr = running_engine().dr
    strength = strength * dr.exp(-emission.absorption * length)
    kept = there & (strength > emission.weakest * (0.5 * length) ** 4)
    kept &= (length >= emission.nearest) & (length < emission.farthest)
    return [
        dr.select(kept, strength, 0.0), length, rate, comes_from.x, comes_from.y, comes_from.z, distance, part, patch
    ]  # fmt: skip


_COLUMNS = 9
ENCLOSED_M = 0.5
"""A sensor that sees nothing but insides of surfaces this near is in a wall."""
_JITTER = Stream(0, "waves/jitter").key
"""Where within its cell each ray goes: always the same, so that what stands still looks the same in every frame."""


@dataclass(frozen=True, eq=False)
class BouncePaths(Table):
    """Ways from the sensor to a surface and back, one row a ray and way."""

    cross_section: NDArray[np.float32]
    """Apparent radar cross-section [m^2] of the ray's share, gains relative to the axis and absorption included."""
    length: NDArray[np.float32]
    """There and back [m]."""
    rate: NDArray[np.float32]
    """How fast the length grows [m/s]."""
    direction: NDArray[np.float32]
    """Unit vectors that it comes from, sensor's frame, shape (n, 3)."""
    distance: NDArray[np.float32]
    """From the receiver to the last surface, along `direction` [m]."""
    part: NDArray[np.uint32]
    patch: NDArray[np.uint32]
    bounces: NDArray[np.uint8]
    """Surfaces on the way, mirrors on the way back included."""
    ray: NDArray[np.int64]
    """Number of the ray."""

    @classmethod
    def none(cls) -> BouncePaths:
        """Of a sensor that sends nothing."""
        real, whole = np.zeros(0, np.float32), np.zeros(0, np.uint32)
        return cls(
            real, real, real, np.zeros((0, 3), np.float32), real, whole, whole, np.zeros(0, np.uint8),
            np.zeros(0, np.int64),
        )  # fmt: skip


def trace_paths(
    engine: Engine, target: WaveScene, emission: Emission, moves: Moves, cast: SceneArrays, rays: int
) -> BouncePaths:
    """Shoot all rays and collect the answers, in the order of rays within each way of answering."""
    opaque, kind = engine.dr.opaque, engine.mi.UInt32
    keys = (opaque(kind, _JITTER[0]), opaque(kind, _JITTER[1]))
    run = engine.frozen(shoot, casts=True)
    found = run(emission, moves, target.patches, target.surfaces, cast, engine.counting(rays), keys)
    tables: list[list[NDArray[Any]]] = [[] for _ in range(_COLUMNS + 2)]
    for way in range(len(found) // _COLUMNS):
        columns = [values.numpy() for values in found[way * _COLUMNS : (way + 1) * _COLUMNS]]
        rows = np.flatnonzero(columns[0])
        for table, values in zip(tables, columns, strict=False):
            table.append(values[rows])
        # 1; then back along the way and straight, by turns.
        surfaces = 1 if way == 0 else (way + 1) // 2 + 1
        bounces = 2 * surfaces - 1 if way % 2 or way == 0 else surfaces
        tables[-2].append(np.full(len(rows), bounces, np.uint8))
        tables[-1].append(rows)
    if np.all(found[-1].numpy() < ENCLOSED_M):
        raise ConfigError(
            f"pose: the sensor is inside something: every ray meets its inside within {ENCLOSED_M:g} m; move "
            "the sensor, or hide the body around it with hidden_from"
        )
    sigma, length, rate, x, y, z, distance, part, patch, bounces_of, ray = (np.concatenate(one) for one in tables)
    return BouncePaths(sigma, length, rate, np.stack([x, y, z], axis=1), distance, part, patch, bounces_of, ray)
