"""Shooting and bouncing rays: rays from the sensor into the world and all their paths back, in one kernel.

At each surface, a ray can return to the receiver in two ways: directly, if the line to the receiver is free, or back
along the incoming path over the same mirrors, which creates ghost targets. The ray itself continues in the specular
direction.

The strength of a return is its apparent cross-section: that of a target at half the path length which returns the same
power. For a ray of solid angle dW that hits a surface at the angle of incidence a after L metres it is

    (pi F D(h) + s cos a) dA,   dA = L^2 dW / cos a

where F is Fresnel's reflectance, D Beckmann's density of facets that face the half-vector h, and s the share that
roughness scatters diffusely. Radars add the diffraction at sharp edges, and bundles of rays on small objects.
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
from parhelion.sensors.waves.focus import Bundles
from parhelion.sensors.waves.motion import Moves
from parhelion.sensors.waves.scene import (
    HALF_POWER,
    FacetPatches,
    WaveScene,
    WaveSurfaces,
    beam_gain,
    beckmann,
    lobe_width2,
    near_bend2,
)

# Reflected rays start this far above a surface, so that they do not hit it again: 16 roundings of float32 of the
# distance. More would lose the rays near the corner of a small reflector that is far away.
_STEP_OFF_M = 2e-4
_STEP_OFF_PER_M = 2e-6
_WEAKEST = 1e-5
"""Rays that carry less than this share of the power are terminated."""
_LOBE_FACETS = 2.0
"""Reach of the lobe of a curved facet in facets: e^-4 of its power lies beyond."""
_SMOOTH_SLOPE2 = 0.005
"""Squared slope below which a curved surface reflects at its specular point: metal, glass, plastic, concrete."""


@kernel_tree()
@dataclass
class Pattern:
    """Gain of an antenna or transducer relative to its axis: a Gaussian in direction cosines with a floor."""

    across: Any
    """Full width at half power in the lateral direction cosine."""
    upward: Any
    """Full width at half power in the vertical direction cosine."""
    floor: Any
    """Smallest relative gain in the front hemisphere."""

    @classmethod
    def of(cls, engine: Engine, shape: tuple[float, float, float]) -> Pattern:
        """Create a pattern from its widths in both direction cosines and its floor."""
        return cls(*map(engine.number, shape))

    def gain(self, local: Any, turns: bool) -> Any:
        """Relative power gain into unit directions of the sensor frame; a rotating antenna covers every azimuth."""
        mi = running_engine().mi
        if turns:
            return beam_gain(mi.Float(1.0), mi.Float(0.0), local.z, self.across, self.upward, self.floor)
        return beam_gain(local.x, local.y, local.z, self.across, self.upward, self.floor)


@kernel_tree(fixed=("bounces", "turns", "moves", "detailed"))
@dataclass
class Emission:
    """Rays of one measurement."""

    bounces: int
    """Largest number of surfaces that a ray hits."""
    turns: bool
    """Set if the beam rotates in azimuth; each column of rays then has its own time."""
    moves: bool
    """Set if the scene contains moving bodies."""
    rows: Any
    """Number of rays per column."""
    azimuth: Any
    """Azimuth of the edge of the first column [rad]."""
    azimuth_step: Any
    elevation: Any
    """Elevation of the edge of the first row [rad]."""
    elevation_step: Any
    time: Any
    """Time of the first column after the start [s]."""
    time_step: Any
    """Time between columns [s]."""
    send: Pattern
    receive: Pattern
    wavelength: Any
    reach: Any
    """Largest one-way path length of a ray [m]."""
    nearest: Any
    """Smallest two-way path length of a return [m]."""
    farthest: Any
    """Largest two-way path length of a return [m]."""
    weakest: Any
    """Smallest apparent cross-section at 1 m [m^2]; the limit grows with the fourth power of range."""
    absorption: Any
    """Power absorption coefficient of the medium [1/m]."""
    detailed: bool = False
    """Set to include sharp edges, the specular points of curved surfaces, and ray bundles on small objects."""
    claims: Any = None
    """Bundle of each part of the world, NOTHING for parts that the ray grid samples."""
    bundles: Bundles | None = None
    """Bundles that replace the ray grid in this launch."""


@dataclass
class _Ray:
    """Rays that leave their last surface, as kernel variables."""

    origin: Any
    direction: Any
    share: Any
    """Share of the power left after all reflections."""
    length: Any
    rate: Any
    """Growth rate of the path to the last surface [m/s], without the motion of the last point."""
    active: Any
    before: Any
    """Patch of the last surface."""
    earlier: Any
    """Patch of the surface before the last."""


@dataclass
class _Start:
    """Pose, time and direction of rays at the sensor, as kernel variables."""

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
    """Surface points that rays hit, as kernel variables."""

    there: Any
    point: Any
    length: Any
    """Path length from the sensor [m]."""
    off: Any
    """Small displacement above the surface [m]."""
    normal: Any
    axis: Any
    other: Any
    cosine: Any
    """Cosine of incidence."""
    patch: Any
    extent: tuple[Any, Any]
    bend: tuple[Any, Any]
    material: Any
    finish: tuple[Any, Any, Any]
    moved: Any
    """Velocity of the point [m/s]."""
    edges: list[tuple[tuple[Any, Any], Any]]
    """Vector [m] and signed height [m] of each edge as in `PatchRows.edges`, and the distance of the point from it [m];
    empty unless the emission is detailed."""

    def scattering(
        self,
        emission: Emission,
        surfaces: WaveSurfaces,
        half: Any,
        facing: Any,
        back: Any,
        distance: Any,
        spacing: Any,
        edge_paths: float = 1.0,
    ) -> Any:
        """Bistatic cross-section per area.

        `half` is the half-vector, `facing` the cosine between it and the ray, `back` the cosine between the normal and
        the direction to the receiver, and `distance` the distance to the receiver [m]. `edge_paths` is the squared
        number of paths of equal length that a ray at an edge represents.
        """
        dr = running_engine().dr
        zone = emission.wavelength * distance * self.length / (distance + self.length)
        # The projected size of a patch determines its diffraction.
        wavelength = emission.wavelength * dr.rsqrt(self.cosine)
        slope2, _, scattered = self.finish
        bend = self.bend
        if emission.detailed:
            bend = tuple(near_bend2(self.bend[k], self.extent[k], self.length) for k in (0, 1))
        m2 = [lobe_width2(self.extent[k], bend[k], slope2, wavelength, zone, spacing, self.length) for k in (0, 1)]
        density = beckmann(dr.dot(self.normal, half), dr.dot(self.axis, half), dr.dot(self.other, half), *m2)
        mirrored = surfaces.mirrored(self.material, facing, self.there)
        found = np.pi * mirrored * density + scattered * dr.sqrt(self.cosine * back)
        for (vector, height), away in self.edges:
            # Rays within a strip along the edge sample it: the strip's area times 1 / width is the edge's length.
            width = namespace(height).minimum(2.0 * spacing * self.length, dr.select(height < 0.0, -height, height))
            line = edge_density(vector, half, emission.wavelength, zone, slope2)
            share = dr.select(height < 0.0, 1.0, 0.5)  # an edge between two faces is sampled on both
            line *= edge_paths * share * mirrored
            found += dr.select((height != 0.0) & (away < width), line / width, 0.0)
        return found

    def specular_point(self, direction: Any) -> tuple[Any, Any]:
        """Specular point of the curved surface that the facet approximates: displacement from the hit (3) [m], and how
        much shorter the path to it is [m].

        A facet tilted by d against the ray belongs to a surface of radius rho, convex as seen from the sensor. Its
        specular point is x = d / (1 / rho + 1 / L) away along the surface, at a range that is smaller by x d / 2. The
        displacement is limited to the reach of the facet's lobe, and 0 for rough surfaces, which scatter where the ray
        hits.
        """
        dr, mi = running_engine().dr, running_engine().mi
        displacement, shorter = mi.Vector3f(0.0), mi.Float(0.0)
        for axis, extent, bend in zip((self.axis, self.other), self.extent, self.bend, strict=True):
            tilt = -dr.dot(axis, direction) / self.cosine
            shift = tilt / (dr.sqrt(bend) / extent + 1.0 / self.length)
            most = _LOBE_FACETS * extent
            shift = dr.select(shift > most, most, dr.select(shift < -most, -most, shift))
            shift = dr.select((bend > 1e-6) & (self.finish[0] < _SMOOTH_SLOPE2), shift, 0.0)
            tilt = dr.select(tilt > 1.0, 1.0, dr.select(tilt < -1.0, -1.0, tilt))
            displacement += shift * axis
            shorter += 0.5 * shift * tilt
        return displacement, shorter


def edge_density(vector: Any, half: Any, wavelength: Any, zone: Any, slope2: Any) -> Any:
    """Cross-section per length [m] of a straight metal edge for unit half-vectors.

    An edge of length L at normal incidence has L^2 / pi, the mean over polarisations and wedge angles to 3 dB (Knott,
    Shaeffer and Tuley 2004, chapter 5). Off normal incidence it falls as a Gaussian of the width of diffraction,
    m = lambda / (2 sqrt(pi) L). An edge longer than the Fresnel zone (area `zone` [m^2]) counts as long as the zone.
    """
    xp = namespace(zone)
    square = vector.x * vector.x + vector.y * vector.y + vector.z * vector.z
    along = vector.x * half.x + vector.y * half.y + vector.z * half.z
    seen = xp.maximum(xp.minimum(square, zone), 1e-12)
    m2 = slope2 + wavelength * wavelength / (4.0 * np.pi * seen)
    tilt2 = along * along / xp.maximum(square, 1e-12)
    return wavelength / (2.0 * np.pi * xp.sqrt(np.pi * m2)) * xp.exp(-tilt2 / m2)


def shoot(
    emission: Emission,
    moves: Moves,
    patches: FacetPatches,
    surfaces: WaveSurfaces,
    cast: SceneArrays,
    index: Any,
    keys: tuple[Any, Any],
) -> list[Any]:
    """Trace rays and return nine arrays for each kind of return, followed by one more array.

    The nine arrays are apparent cross-section [m^2], two-way path length [m], its growth rate [m/s], direction of
    arrival (3, sensor frame), distance of the last surface [m], part and patch. The first surface has one kind of
    return; each further surface has two, back along the path and direct. The last array is the distance of the first
    surface that is seen from behind [m], infinite if there is none.
    """
    dr, mi = running_engine().dr, running_engine().mi
    column = index // emission.rows
    row = index - column * emission.rows
    inside, bundle = mi.Bool(True), mi.UInt32(NOTHING)
    if emission.bundles is None:
        first, second, _, _ = (to_unit(word) for word in words(keys, index))
        azimuth = emission.azimuth + (mi.Float(column) + first) * emission.azimuth_step
        elevation = emission.elevation + (mi.Float(row) + second) * emission.elevation_step
        sin_a, cos_a = dr.sincos(azimuth)
        sin_e, cos_e = dr.sincos(elevation)
        local = mi.Vector3f(cos_e * cos_a, cos_e * sin_a, sin_e)
        solid_angle = emission.azimuth_step * emission.elevation_step * cos_e
        spacing = dr.sqrt(solid_angle)
        time = emission.time + (mi.Float(column) + first) * emission.time_step
    else:
        # The jitter is that of the ray's number within its bundle, so that bundles do not depend on each other.
        number = dr.gather(mi.UInt32, emission.bundles.number, index)
        first, second, _, _ = (to_unit(word) for word in words(keys, number))
        local, solid_angle, spacing, time, bundle = emission.bundles.rays(index, first, second)
        inside = emission.bundles.inside(local, emission.turns)
    place, turn = moves.pose(time)
    velocity, _ = moves.speed(mi.UInt32(0), time)
    direction = rotate(dr, mi, turn, local)
    sent = emission.send.gain(local, emission.turns)
    ray = _Ray(
        mi.Point3f(place),
        direction,
        mi.Float(1.0),
        mi.Float(0.0),
        -dr.dot(velocity, direction),
        inside,
        mi.UInt32(NOTHING),
        mi.UInt32(NOTHING),
    )
    start = _Start(place, turn, velocity, time, local, solid_angle, spacing, sent)
    results: list[Any] = []
    behind = mi.Float(0.0)
    for bounce in range(emission.bounces):
        hit = cast.trace(ray.origin, ray.direction, time, emission.reach - ray.length, ray.active, coherent=bounce == 0)
        if bounce == 0:
            from_behind = hit.found & (dr.dot(hit.normal, ray.direction) > 0.0)
            behind = dr.select(from_behind, hit.t, dr.inf)
            if emission.detailed:
                ray.active &= dr.gather(mi.UInt32, emission.claims, hit.part, hit.found) == bundle
        met = _met(emission, moves, patches, surfaces, cast, ray, hit, time)
        # Back along the path: the half-vector is the reversed ray, and all mirrors reflect a second time.
        strength = met.scattering(emission, surfaces, -ray.direction, mi.Float(1.0), met.cosine, met.length, spacing)
        strength *= solid_angle * met.length * met.length / met.cosine
        strength *= ray.share * ray.share * sent * emission.receive.gain(local, emission.turns)
        rate = 2.0 * (ray.rate + dr.dot(met.moved, ray.direction))
        length, comes_from = met.length, local
        if emission.detailed:
            displacement, shorter = met.specular_point(ray.direction)
            length = length - shorter
            if bounce == 0:
                comes_from = dr.normalize(local + rotate_back(dr, mi, turn, displacement) / met.length)
        results += _accepted(
            emission, met.there, strength, 2.0 * length, rate, comes_from, met.length, hit.part, met.patch
        )
        if bounce:
            results += _straight(emission, surfaces, cast, start, ray, met, hit.part)
        if bounce + 1 < emission.bounces:
            ray = _mirrored(emission, surfaces, ray, met)
    results.append(behind)
    dr.eval(results)
    return results


def _met(
    emission: Emission,
    moves: Moves,
    patches: FacetPatches,
    surfaces: WaveSurfaces,
    cast: SceneArrays,
    ray: _Ray,
    hit: Any,
    time: Any,
) -> _Met:
    """Surface points that rays hit, with their velocities."""
    dr, mi = running_engine().dr, running_engine().mi
    there = ray.active & hit.found
    point = dr.fma(ray.direction, hit.t, ray.origin)
    normal = dr.select(dr.dot(hit.normal, ray.direction) > 0.0, -hit.normal, hit.normal)
    axis, patch, extent, bend = patches.at(hit.triangle, there)
    moved = mi.Vector3f(0.0)
    edges: list[tuple[tuple[Any, Any], Any]] = []
    if emission.detailed:
        for corner, share in enumerate((1.0 - hit.u - hit.v, hit.u, hit.v)):
            edge = patches.edge(hit.triangle, corner, there)
            height = dr.select(edge.w < 0.0, -edge.w, edge.w)
            edges.append(((mi.Vector3f(edge.x, edge.y, edge.z), edge.w), share * height))
    if emission.moves:
        on_body = there & (hit.actor != NOTHING)
        body = dr.select(on_body, hit.actor, 0)
        bodies = cast.scene().moving
        assert bodies is not None
        at, turn = bodies.pose_at(body, time)
        speed, spin = moves.speed(body + 1, time)
        moved = dr.select(on_body, speed + dr.cross(spin, mi.Vector3f(point) - at), moved)
        axis = dr.select(on_body, rotate(dr, mi, turn, axis), axis)
        edges = [
            ((dr.select(on_body, rotate(dr, mi, turn, vector), vector), height), away)
            for (vector, height), away in edges
        ]
    material = surfaces.material(hit.part, there)
    cosine = -dr.dot(normal, ray.direction)
    return _Met(
        there,
        point,
        ray.length + hit.t,
        (_STEP_OFF_M + _STEP_OFF_PER_M * hit.t) * normal,
        normal,
        axis,
        dr.cross(normal, axis),
        namespace(cosine).maximum(cosine, 1e-4),
        patch,
        extent,
        bend,
        material,
        surfaces.finish(material, there),
        moved,
        edges,
    )


def _mirrored(emission: Emission, surfaces: WaveSurfaces, ray: _Ray, met: _Met) -> _Ray:
    """Specularly reflected rays, attenuated by Fresnel reflection and roughness."""
    dr, mi = running_engine().dr, running_engine().mi
    direction = dr.normalize(ray.direction + 2.0 * met.cosine * met.normal)
    kept = surfaces.mirrored(met.material, met.cosine, met.there)
    share = ray.share * kept * dr.exp(-met.finish[1] * met.cosine * met.cosine)
    return _Ray(
        mi.Point3f(met.point + met.off),
        direction,
        share,
        met.length,
        ray.rate + dr.dot(met.moved, ray.direction - direction),
        met.there & (share > _WEAKEST) & (met.length < emission.reach),
        met.patch,
        ray.before,
    )


def _straight(
    emission: Emission, surfaces: WaveSurfaces, cast: SceneArrays, start: _Start, ray: _Ray, met: _Met, part: Any
) -> list[Any]:
    """Returns from a surface directly to the receiver, after one or more reflections on the way there."""
    dr, mi = running_engine().dr, running_engine().mi
    way = start.place - mi.Vector3f(met.point)
    distance = dr.sqrt(dr.dot(way, way))
    way = way / distance
    back = dr.dot(met.normal, way)
    # A path that ends on the patch where it began returns along itself and has already been counted.
    open_to = met.there & (back > 1e-3) & (met.patch != ray.earlier)
    half = dr.normalize(way - ray.direction)
    back = dr.select(back > 0.0, back, 0.0)
    # An edge also diffracts along the reversed path, directly there and back over the mirrors. Rays do not find it,
    # since edges have no specular direction. Both paths have the same length, so their amplitudes add.
    strength = met.scattering(emission, surfaces, half, dr.dot(half, way), back, distance, start.spacing, 4.0)
    total = met.length + distance
    apart = 0.25 * total * total / distance
    strength *= ray.share * start.sent * start.solid_angle * apart * apart / met.cosine
    comes_from, local = rotate_back(dr, mi, start.turn, -way), start.local
    strength *= emission.receive.gain(comes_from, emission.turns)
    if emission.turns:
        # A rotating beam has the largest two-way gain half-way between departure and arrival.
        level = dr.sqrt((comes_from.x**2 + comes_from.y**2) * (local.x**2 + local.y**2))
        cos_between = (comes_from.x * local.x + comes_from.y * local.y) / level
        apart2 = 0.5 * (1.0 - cos_between)  # squared sine of half the angle
        strength *= dr.exp(-2.0 * HALF_POWER * apart2 / (emission.receive.across * emission.receive.across))
    worth = open_to & (strength > emission.weakest * (0.5 * total) ** 4)
    hidden = cast.blocked(mi.Point3f(met.point + met.off), way, start.time, distance - 2.0 * _STEP_OFF_M, worth)
    rate = ray.rate + dr.dot(met.moved, ray.direction - way) + dr.dot(start.velocity, way)
    return _accepted(emission, worth & ~hidden, strength, total, rate, comes_from, distance, part, met.patch)


def _accepted(
    emission: Emission,
    there: Any,
    strength: Any,
    length: Any,
    rate: Any,
    comes_from: Any,
    distance: Any,
    part: Any,
    patch: Any,
) -> list[Any]:
    dr = running_engine().dr
    strength = strength * dr.exp(-emission.absorption * length)
    kept = there & (strength > emission.weakest * (0.5 * length) ** 4)
    kept &= (length >= emission.nearest) & (length < emission.farthest)
    return [
        dr.select(kept, strength, 0.0),
        length,
        rate,
        comes_from.x,
        comes_from.y,
        comes_from.z,
        distance,
        part,
        patch,
    ]


_COLUMNS = 9
"""Arrays per kind of return of `shoot`."""
ENCLOSED_M = 0.5
"""A sensor is inside a body if every ray hits a surface from behind within this distance [m]."""
_JITTER = Stream(0, "waves/jitter").key
"""Key of the ray jitter within the angular cells; constant, so that static scenes look the same in every frame."""


@dataclass(frozen=True, eq=False)
class BouncePaths(Table):
    """Paths from the sensor to a surface and back, one row per ray and return."""

    cross_section: NDArray[np.float32]
    """Apparent cross-section of the ray [m^2], including absorption and the antenna gains relative to the axis."""
    length: NDArray[np.float32]
    """Two-way path length [m]."""
    rate: NDArray[np.float32]
    """Growth rate of the length [m/s]."""
    direction: NDArray[np.float32]
    """Unit vectors of the direction of arrival in the sensor frame, shape (n, 3)."""
    distance: NDArray[np.float32]
    """Distance from the receiver to the last surface along `direction` [m]."""
    part: NDArray[np.uint32]
    """Part of the world that the last surface belongs to."""
    patch: NDArray[np.uint32]
    """Flat patch that the last surface belongs to."""
    bounces: NDArray[np.uint8]
    """Number of reflections, including those on the way back."""
    ray: NDArray[np.int64]
    """Number of the ray."""

    @classmethod
    def none(cls) -> BouncePaths:
        """Return an empty table."""
        real, whole = np.zeros(0, np.float32), np.zeros(0, np.uint32)
        return cls(
            real,
            real,
            real,
            np.zeros((0, 3), np.float32),
            real,
            whole,
            whole,
            np.zeros(0, np.uint8),
            np.zeros(0, np.int64),
        )


def trace_paths(
    engine: Engine, target: WaveScene, emission: Emission, moves: Moves, cast: SceneArrays, rays: int
) -> BouncePaths:
    """Trace all rays and collect their returns, ordered by kind of return and then by ray."""
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
        # The first surface has one kind of return; every later one has two: back along the path, then direct.
        surfaces = 1 if way == 0 else (way + 1) // 2 + 1
        bounces = 2 * surfaces - 1 if way % 2 or way == 0 else surfaces
        tables[-2].append(np.full(len(rows), bounces, np.uint8))
        tables[-1].append(rows)
    if np.all(found[-1].numpy() < ENCLOSED_M):
        raise ConfigError(
            f"pose: the sensor is inside something: every ray hits an inner side within {ENCLOSED_M:g} m; move "
            "the sensor, or hide the body with hidden_from"
        )
    sigma, length, rate, x, y, z, distance, part, patch, bounces_of, ray = (np.concatenate(one) for one in tables)
    return BouncePaths(sigma, length, rate, np.stack([x, y, z], axis=1), distance, part, patch, bounces_of, ray)
