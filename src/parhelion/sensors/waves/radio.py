"""Radio propagation: free space, reflection, slabs, foliage, and the scenes of ranging radios and GNSS receivers.

Fields are linearly polarised complex vectors perpendicular to the direction of travel. Antennas have no pattern. At
each reflection and slab, a field is split into the components perpendicular (TE) and parallel (TM) to the plane of
incidence, as in ITU-R P.2040-3.

Ranging radios (GHz) interact with every surface. Satellite signals have wavelengths of decimetres: foliage attenuates
them by the path length inside ellipsoids; bark and parts narrower than the Fresnel zone neither block nor reflect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.pose import Floats
from parhelion.rays.geometry import MovingTriangles, SceneGeometry, Triangles
from parhelion.rays.records import Hits, Rays
from parhelion.rays.scene import RayScene
from parhelion.sensors.waves.planes import PlanePatches, TrianglePlanes, cached, patches_of, triangle_planes
from parhelion.surfaces.radio import RADIO_MATERIALS, Complexes, fresnel, permittivity, radio_name, slab, slab_loss_db
from parhelion.world.world import World

Polarisation = Literal["vertical", "horizontal"]


@dataclass(frozen=True)
class Wave:
    """Carrier and polarisation of a link."""

    carrier_hz: float
    polarisation: Polarisation = "vertical"

    @property
    def length_m(self) -> float:
        """Wavelength in air [m]."""
        return SPEED_OF_LIGHT_M_S / self.carrier_hz

    def field(self, direction: Floats) -> Floats:
        """Unit vectors of the antenna's field for waves that travel along directions (n, 3)."""
        up = upright(direction)
        return up if self.polarisation == "vertical" else np.cross(up, direction)


def free_space_gain(length_m: ArrayLike, carrier_hz: float) -> Floats:
    """Amplitude between isotropic antennas at a distance [m] > 0: lambda / (4 pi L) (Friis 1946, Proc. IRE 34, 254)."""
    return np.asarray(SPEED_OF_LIGHT_M_S / carrier_hz / (4.0 * np.pi * np.asarray(length_m, dtype=np.float64)))


def decibel(amplitude: ArrayLike) -> Floats:
    """Level [dB], 20 log10 of an amplitude; -400 dB for zero."""
    return np.asarray(20.0 * np.log10(np.maximum(np.abs(amplitude), 1e-20)))


def upright(direction: Floats) -> Floats:
    """Unit vector perpendicular to each direction (n, 3) and closest to vertical: the field of a vertical antenna."""
    z = np.array([0.0, 0.0, 1.0])
    up = z - direction[:, 2:3] * direction
    steep = np.einsum("ij,ij->i", up, up) < 1e-12
    x = np.array([1.0, 0.0, 0.0])
    up = np.where(steep[:, None], x - direction[:, 0:1] * direction, up)
    return np.asarray(up / np.sqrt(np.einsum("ij,ij->i", up, up))[:, None])


def _dot(a: Floats | Complexes, b: Floats | Complexes) -> Floats | Complexes:
    return np.asarray(np.einsum("ij,ij->i", a, b))


def _across(direction: Floats, normal: Floats) -> Floats:
    """Unit vectors perpendicular to the plane of incidence, shape (n, 3); arbitrary at normal incidence."""
    s = np.cross(direction, normal)
    size = np.sqrt(np.einsum("ij,ij->i", s, s))
    plain = size < 1e-9
    s = np.where(plain[:, None], upright(direction), s)
    return np.asarray(s / np.where(plain, 1.0, size)[:, None])


def mirrored(direction: Floats, normal: Floats) -> Floats:
    """Directions after a specular reflection: d - 2 (d . n) n."""
    return np.asarray(direction - 2.0 * np.einsum("ij,ij->i", direction, normal)[:, None] * normal)


def reflect(field: Complexes, direction: Floats, normal: Floats, permittivity: Complexes) -> Complexes:
    """Field reflected by a half-space (P.2040-3, eqs. 31, 32); field, direction and normal have shape (n, 3)."""
    te, tm = fresnel(np.abs(_dot(direction, normal)), permittivity)
    s, out = _across(direction, normal), mirrored(direction, normal)
    p_in, p_out = np.cross(s, direction), np.cross(s, out)
    return np.asarray((te * _dot(field, s))[:, None] * s + (tm * _dot(field, p_in))[:, None] * p_out)


def transmit(
    field: Complexes, direction: Floats, normal: Floats, permittivity: Complexes, thickness_m: Floats, carrier_hz: float
) -> Complexes:
    """Field behind a slab (P.2040-3, eqs. 42 to 44) relative to that without it; the direction is unchanged."""
    cos = np.abs(_dot(direction, normal))
    _, (te, tm) = slab(cos, permittivity, thickness_m, carrier_hz)
    # The slab's phase is from face to face along the normal. The path already includes the air that it replaces.
    back = np.exp(2j * np.pi * carrier_hz / SPEED_OF_LIGHT_M_S * thickness_m * cos)
    s = _across(direction, normal)
    p = np.cross(s, direction)
    return np.asarray((te * back * _dot(field, s))[:, None] * s + (tm * back * _dot(field, p))[:, None] * p)


def slab_delay_m(cos_incidence: ArrayLike, permittivity: ArrayLike, thickness_m: ArrayLike) -> Floats:
    """Extra length [m] of a signal through a slab: d (sqrt(e' - sin^2) - cos), e' the real part of the permittivity.

    Group delay of a slab without dispersion minus that of the air in its place (Born and Wolf, stratified media).
    """
    cos = np.asarray(cos_incidence, dtype=np.float64)
    real = np.maximum(np.real(np.asarray(permittivity)), 1.0)
    return np.asarray(thickness_m * (np.sqrt(real - 1.0 + cos * cos) - cos))


def foliage_loss_db(length_m: ArrayLike, carrier_hz: float) -> Floats:
    """Loss [dB] in leaves: 0.2 f^0.3 d^0.6, f in MHz from 200 to 95 000, d below 400 m (CCIR Report 236-2)."""
    return np.asarray(0.2 * (carrier_hz / 1e6) ** 0.3 * np.asarray(length_m, dtype=np.float64) ** 0.6)


def plate_share(
    area_m2: ArrayLike, cos_incidence: ArrayLike, before_m: ArrayLike, after_m: ArrayLike, wavelength_m: float
) -> Floats:
    """Amplitude of a small plane mirror relative to an infinite one, at most 1: A cos (d1 + d2) / (lambda d1 d2).

    Physical optics of a plate in the specular direction (Balanis 2012, chapter 11), for plates smaller than the first
    Fresnel zone.
    """
    d1, d2 = np.asarray(before_m, dtype=np.float64), np.asarray(after_m, dtype=np.float64)
    share = np.asarray(area_m2) * np.asarray(cos_incidence) * (d1 + d2) / (wavelength_m * d1 * d2)
    return np.asarray(np.minimum(share, 1.0))


# ---- ranging radios --------------------------------------------------------------------------------------------------

HOUSING = "anchor"
"""Name prefix of anchor housings. Radio waves pass through them; sensors without own anchors use their positions."""

SHEET_THICKNESS_M: Mapping[str, float] = {
    "brick": 0.12,
    "concrete": 0.15,
    "glass": 0.006,
    "plasterboard": 0.0125,
    "wood": 0.03,
    "plywood": 0.018,
    "chipboard": 0.018,
    "ceiling-board": 0.015,
    "marble": 0.03,
    "asphalt": 0.1,
    "plastic": 0.003,
    "rubber": 0.01,
    "cloth": 0.002,
    "skin": 0.2,
}
"""Thickness [m] of a surface without a second face nearby. Assumed: common sizes of walls, panes and boards."""
OTHER_THICKNESS_M = 0.1
"""Thickness [m] for all other materials; the default of Sionna RT for every material."""
FOLIAGE = "foliage"
CLOSED_DB = 120.0
"""Loss [dB] above which a material is opaque: no link has a larger budget."""


@dataclass(frozen=True, eq=False)
class RadioScene:
    """Ray scenes and radio properties of a world for one carrier."""

    scene: RayScene
    standing: RayScene
    """Scene without moving bodies, for the search of mirrors."""
    patches: PlanePatches
    permittivity: Complexes
    """Complex relative permittivity of each part, shape (parts,)."""
    thickness: Floats
    """Thickness of each part that is modelled as a single sheet [m], shape (parts,)."""
    foliage: NDArray[np.bool_]
    """Mask of foliage parts, which do not reflect and attenuate by the length inside."""
    closed: NDArray[np.bool_]
    """Mask of opaque parts (metal)."""
    object_index: NDArray[np.int32]
    """Object of each part."""
    object_names: Mapping[int, str]


def radio_scene(world: World, names: tuple[str, ...], carrier_hz: float) -> RadioScene:
    """Scene for sensors of these names and a carrier [Hz], cached until the world changes."""
    geometry = world.geometry(*names)
    key = ("radio", id(geometry))
    rays = cached(world, key, lambda: _ray_scenes(world, geometry))
    return cached(world, (*key, carrier_hz), lambda: _made(world, rays, carrier_hz))


def housings(world: World) -> dict[str, Floats]:
    """Anchors in a world: centre [m] of each housing, by its name up to the first slash."""
    found = {}
    for item in world.objects:
        if not item.is_actor and item.name.lower().startswith(HOUSING):
            lower, upper = item.bounds()
            found[item.name.partition("/")[0]] = np.asarray((lower + upper) / 2.0)
    return found


def _ray_scenes(world: World, geometry: SceneGeometry) -> tuple[RayScene, RayScene, PlanePatches]:
    """Scene, scene without moving bodies, and plane patches; all carriers share them."""
    seen = SceneGeometry(without_housings(world, geometry.static), geometry.actors, geometry.surface)
    scene = RayScene(seen)
    standing = RayScene(SceneGeometry(seen.static), zero=scene.origin) if scene.changes else scene
    return scene, standing, patches_of(seen, world.parts.material)


def _made(world: World, rays: tuple[RayScene, RayScene, PlanePatches], carrier_hz: float) -> RadioScene:
    parts = world.parts
    radio = [radio_name(material.name) for material in world.materials]
    known = {name: complex(permittivity(name, carrier_hz)) for name in sorted(set(radio))}
    of_material = np.array([known[name] for name in radio], dtype=np.complex128)
    sheet = np.array([SHEET_THICKNESS_M.get(name, OTHER_THICKNESS_M) for name in radio])
    leaves = np.array([name == FOLIAGE for name in radio], dtype=bool)
    closed = np.asarray(slab_loss_db(1.0, of_material, 1e-4, carrier_hz) > CLOSED_DB)
    return RadioScene(
        *rays,
        of_material[parts.material],
        sheet[parts.material],
        leaves[parts.material],
        closed[parts.material],
        parts.object_index,
        {item.index: item.name for item in world.objects},
    )


def without_housings(world: World, triangles: Triangles) -> Triangles:
    """Static triangles of a world without anchor housings, which are transparent to radio waves."""
    hidden = {item.index for item in world.objects if item.name.lower().startswith(HOUSING)}
    if not hidden:
        return triangles
    keep = ~np.isin(world.parts.object_index, list(hidden))[triangles.part]
    return Triangles(triangles.vertices, triangles.faces[keep], triangles.part[keep])


# ---- signals of satellites -------------------------------------------------------------------------------------------

NARROW_M = 0.5
"""Parts with two extents below this [m] are ignored: poles, wires, signs. At 20 m the Fresnel zone of L1 is 4 m
wide."""
CROWN_M = 12.0
"""Wider foliage is split into crowns of this size [m]."""
RADIO = tuple(RADIO_MATERIALS)
"""Radio materials in the order of their numbers."""


@dataclass(frozen=True, eq=False)
class FoliageEllipsoids:
    """Axis-aligned ellipsoids of foliage in the world frame."""

    middle: Floats
    """Centres [m], shape (k, 3)."""
    half: Floats
    """Half axes [m], shape (k, 3)."""

    def inside(self, origin: Floats, direction: Floats, limit: Floats) -> Floats:
        """Path length [m] inside the crowns for rays with unit directions (m, 3) and lengths `limit` (m,) [m]."""
        found = np.zeros(len(origin))
        if not len(self.middle):
            return found
        for start in range(0, len(origin), 4096):
            rows = slice(start, start + 4096)
            o = (origin[rows, None] - self.middle) / self.half
            d = direction[rows, None] / self.half
            a, b = np.sum(d * d, axis=2), np.sum(o * d, axis=2)
            root = b * b - a * (np.sum(o * o, axis=2) - 1.0)
            width = np.sqrt(np.maximum(root, 0.0))
            first = np.clip((-b - width) / a, 0.0, limit[rows, None])
            last = np.clip((-b + width) / a, 0.0, limit[rows, None])
            row, crown = np.nonzero(last > first)
            length = (last - first)[row, crown]
            # Sorted, so that neither the order of the crowns nor distant ones change the rounding of the sum.
            order = np.lexsort((length, row))
            found[rows] = np.bincount(row[order], length[order], len(o))
        return found


@dataclass(frozen=True, eq=False)
class SatelliteScene:
    """Scene of a world for satellite signals, cached until the world changes."""

    scene: RayScene
    """Blocking surfaces."""
    planes: TrianglePlanes
    radio: NDArray[np.int64]
    """Index into RADIO of each part's material."""
    foliage: FoliageEllipsoids

    def cast(self, rays: Rays) -> Hits:
        """Nearest hit of each ray within its range."""
        if len(self.planes) or self.scene.geometry.surface is not None:
            return self.scene.cast(rays)
        count = len(rays)
        nothing = np.full(count, -1)
        return Hits(np.full(count, np.inf), nothing, nothing, nothing, np.zeros((count, 3)))

    def is_blocked(self, rays: Rays) -> NDArray[np.bool_]:
        """Mask of the rays that hit anything within their range."""
        if len(self.planes) or self.scene.geometry.surface is not None:
            return self.scene.is_blocked(rays)
        return np.zeros(len(rays), bool)


def satellite_scene(world: World, names: tuple[str, ...]) -> SatelliteScene:
    """Scene for a sensor of these names (kind, model, own name), cached until the world changes."""
    geometry = world.geometry(*names)
    return cached(world, ("satellites", id(geometry)), lambda: _built(world, geometry))


def _built(world: World, geometry: SceneGeometry) -> SatelliteScene:
    parts = world.parts
    by_material = np.array([RADIO.index(radio_name(one.name)) for one in world.materials] or [0], dtype=np.int64)
    bark = np.array([one.name == "bark" for one in world.materials] or [False])
    count = max(len(parts), 1)
    radio = by_material[parts.material] if len(parts) else np.zeros(1, np.int64)
    leafy = radio == RADIO.index(FOLIAGE)
    aside = leafy | (bark[parts.material] if len(parts) else np.zeros(1, bool)) | _narrow(geometry, count)
    static = _without(geometry.static, aside)
    actors = [MovingTriangles(_without(one.triangles, aside), one.trajectory) for one in geometry.actors]
    hard = SceneGeometry(static, [one for one in actors if len(one.triangles)], geometry.surface)
    return SatelliteScene(RayScene(hard), triangle_planes(hard), radio, _ellipsoids(geometry.static, leafy))


def _without(triangles: Triangles, aside: NDArray[np.bool_]) -> Triangles:
    """Triangles of blocking parts."""
    rows = ~aside[triangles.part] if len(triangles) else np.zeros(0, bool)
    if np.all(rows):
        return triangles
    return Triangles(triangles.vertices, triangles.faces[rows], triangles.part[rows])


def _narrow(geometry: SceneGeometry, count: int) -> NDArray[np.bool_]:
    """Mask of the parts with two extents below NARROW_M."""
    low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
    for triangles in (geometry.static, *(one.triangles for one in geometry.actors)):
        for corner in range(3):
            points = triangles.vertices[triangles.faces[:, corner]]
            np.minimum.at(low, triangles.part, points)
            np.maximum.at(high, triangles.part, points)
    extent = np.sort(np.where(np.isfinite(low), high - low, np.inf), axis=1)
    return np.asarray(extent[:, 1] < NARROW_M)


def _ellipsoids(static: Triangles, leafy: NDArray[np.bool_]) -> FoliageEllipsoids:
    """Ellipsoids around the foliage of each part; wide parts are split."""
    rows = leafy[static.part] if len(static) else np.zeros(0, bool)
    if not np.any(rows):
        return FoliageEllipsoids(np.zeros((0, 3)), np.zeros((0, 3)))
    corners = static.vertices[static.faces[rows]].reshape(-1, 3)
    part = np.repeat(static.part[rows].astype(np.int64), 3)
    low, high = np.full((len(leafy), 3), np.inf), np.full((len(leafy), 3), -np.inf)
    np.minimum.at(low, part, corners)
    np.maximum.at(high, part, corners)
    wide = np.any((high - low)[part, :2] > CROWN_M, axis=1)
    cell = np.where(wide[:, None], np.floor(corners[:, :2] / (CROWN_M / 2.0)), 0.0).astype(np.int64)
    _, group = np.unique(np.concatenate([part[:, None], cell], axis=1), axis=0, return_inverse=True)
    group = np.asarray(group).reshape(-1)
    count = int(group.max()) + 1
    low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
    np.minimum.at(low, group, corners)
    np.maximum.at(high, group, corners)
    return FoliageEllipsoids((low + high) / 2.0, np.maximum((high - low) / 2.0, 0.05))
