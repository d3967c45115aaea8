"""Radar cross-section of one object from any direction: coherent, by ray tubes and physical optics.

    from parhelion.sensors.waves.radar.rcs import rcs
    table = rcs(ph.shapes.box(0.3, 0.2, 0.1), frequency_ghz=77, azimuth_deg=np.arange(-90, 91))
    table.dbsm, table.scattering

A plane wave from each direction is divided into a grid of square tubes. The tubes are reflected specularly. At every
surface, the currents of physical optics radiate a far field to the receiver with the phase of the whole path. This is
the reference for the power mode of `Radar`, which adds rays by power: it includes polarisation, phase and interference.
Its cost grows with the area of the object in square wavelengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.config import parse
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.core.frames import CrossSections
from parhelion.core.pose import Pose
from parhelion.core.trajectory import pose_at
from parhelion.motion.actors.body import Actor
from parhelion.rays.geometry import SceneGeometry, Triangles
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene
from parhelion.sensors.waves.radar.config import RadarConfig
from parhelion.sensors.waves.radar.device import finish, half_space
from parhelion.sensors.waves.radar.radar import Radar
from parhelion.surfaces.radio import fresnel
from parhelion.world.parts import WorldObject
from parhelion.world.world import World

# ---- optics ---------------------------------------------------------------------------------------------------------
# Physical optics of ray tubes: reflection with polarisation, surface currents and their far field. The time dependence
# is exp(+j w t). A tube is a small square of a plane wave. It keeps its size on flat surfaces, so its footprint is a
# parallelogram over which the phase is linear, and the integral has a closed form. Fields are pairs, one for each
# transmitted polarisation, shape (n, 2, 3). The currents are those of Ling, Chou and Lee 1989 (IEEE Trans. AP 37, 194)
# at every surface that a tube hits. Shadowed surfaces carry no current, and edges have no additional currents.


Complexes = NDArray[np.complex128]


def polarisations(toward: Floats) -> tuple[Floats, Floats]:
    """Horizontal and vertical unit vectors (3,) of a wave to or from a unit direction `toward` (3,).

    Horizontal is along z x toward, and along y for directions within a microradian of the z axis.
    """
    across = np.cross([0.0, 0.0, 1.0], toward)
    length = float(np.linalg.norm(across))
    horizontal = across / length if length > 1e-6 else np.array([0.0, 1.0, 0.0])
    return horizontal, np.cross(toward, horizontal)


def dots(a: Floats, b: Floats) -> Floats:
    """Scalar products along the last axis."""
    return np.asarray(np.einsum("...i,...i->...", a, b))


def reflect(vectors: Floats, normal: Floats) -> Floats:
    """Vectors (n, 3) mirrored at planes with unit normals (n, 3)."""
    return np.asarray(vectors - 2.0 * dots(vectors, normal)[:, None] * normal)


def reflected(
    field: Complexes, direction: Floats, normal: Floats, permittivity: Complexes, kept: Floats
) -> tuple[Complexes, Floats]:
    """Reflected fields (n, 2, 3) of plane waves, and their directions (n, 3).

    `normal` (n, 3) faces the wave, `permittivity` (n,) is that of the surface, and `kept` (n,) is the roughness factor
    of the amplitude. The coefficients are Fresnel's for half-spaces, separately for each polarisation.
    """
    cosine = np.clip(-dots(direction, normal), 0.0, 1.0)
    # At normal incidence, any direction perpendicular to the normal can be used.
    axis = np.where(np.abs(normal[:, :1]) < 0.9, [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
    across = np.cross(direction, normal)
    length = np.linalg.norm(across, axis=1, keepdims=True)
    across = np.where(length > 1e-9, across, np.cross(axis, normal))
    across = across / np.linalg.norm(across, axis=1, keepdims=True)
    onward = reflect(direction, normal)
    te, tm = fresnel(np.maximum(cosine, 1e-6), permittivity)
    along_in, along_out = np.cross(across, direction), np.cross(across, onward)
    first = np.einsum("npi,ni->np", field, across) * (kept * te)[:, None]
    second = np.einsum("npi,ni->np", field, along_in) * (kept * tm)[:, None]
    return first[:, :, None] * across[:, None] + second[:, :, None] * along_out[:, None], onward


def radiated(
    field: Complexes,
    direction: Floats,
    mirrored: Complexes,
    onward: Floats,
    normal: Floats,
    toward: Floats,
    polarisation: Floats,
) -> Complexes:
    """Far field per area of surfaces in a unit direction `toward` (3,), without the factor -j k / 4 pi; shape (n, 2).

    The surface carries J = n x H and M = E x n of the incident and the reflected wave. The result is the component of
    eta J + M x s along `polarisation` (3,), where s is the direction (Balanis 2012, section 6.7).
    """
    across = np.cross(toward, polarisation)
    # eta n x (d x E) = d (n . E) - E (n . d)
    current = np.zeros(field.shape[:2], np.complex128)
    magnetic = np.zeros_like(current)
    for wave, way in ((field, direction), (mirrored, onward)):
        along = np.einsum("npi,ni->np", wave, normal)
        current += along * (way @ polarisation)[:, None] - (wave @ polarisation) * dots(way, normal)[:, None]
        # (E x n) . b = E . (n x b)
        magnetic += np.einsum("npi,ni->np", wave, np.cross(normal, across))
    return current + magnetic


def footprint(
    first: Floats, second: Floats, direction: Floats, normal: Floats, toward: Floats, wavenumber: float
) -> Floats:
    """Integral of the phase factor over the footprint of tubes, relative to its centre [m^2], shape (n,).

    `first` and `second` (n, 3) are the sides of the tube's square [m]. The phase along the surface is k (s - d), which
    integrates to a product of two sinc functions over a parallelogram.
    """
    cosine = dots(direction, normal)
    spread = toward - direction
    area = np.linalg.norm(np.cross(first, second), axis=1) / np.maximum(np.abs(cosine), 1e-9)
    for side in (first, second):
        on_surface = side - (dots(side, normal) / cosine)[:, None] * direction
        area = area * np.sinc(wavenumber * dots(spread, on_surface) / (2.0 * np.pi))
    return np.asarray(area)


def plate_m2(width_m: float, height_m: float, aspect_rad: Floats, wavelength_m: float) -> Floats:
    """Cross-section [m^2] of a flat metal plate rotated by `aspect_rad` about its height, by physical optics.

    4 pi A^2 / lambda^2 cos^2 a sinc^2(k w sin a). Valid within a few lobes of the normal, for sides of several
    wavelengths (Knott, Shaeffer and Tuley 2004, chapter 6).
    """
    angle = np.asarray(aspect_rad, np.float64)
    peak = 4.0 * np.pi * (width_m * height_m / wavelength_m) ** 2
    return np.asarray(peak * np.cos(angle) ** 2 * np.sinc(2.0 * width_m * np.sin(angle) / wavelength_m) ** 2)


def corner_m2(side_m: float, wavelength_m: float, faces: str = "triangles") -> float:
    """Largest cross-section [m^2] of a metal corner reflector of three faces with inner edges of `side_m`.

    Along its axis, a tube returns if the point opposite its entry lies in the opening as well. The effective area is
    a^2 / sqrt(3) for three right triangles and sqrt(3) a^2 for three squares. With 4 pi A^2 / lambda^2, the
    cross-sections are 4 pi a^4 / 3 lambda^2 and 12 pi a^4 / lambda^2.
    """
    area = side_m**2 * {"triangles": 3.0**-0.5, "squares": 3.0**0.5}[faces]
    return 4.0 * np.pi * (area / wavelength_m) ** 2


# ---- target ---------------------------------------------------------------------------------------------------------
# Triangles and materials of a mesh, an object, an actor or a world.


def object_geometry(target: Any, material: str | None = None, time: float = 0.0) -> tuple[Triangles, list[str]]:
    """Triangles in the frame of the object at `time` [s], and the material names of their parts.

    The default material of a mesh is steel. An actor of several bodies uses the frame of its first body.
    """
    frame = Pose()
    if isinstance(target, World):
        objects = [item for item in target.objects if not item.hides_from(("radar",))]
    elif isinstance(target, (WorldObject, Actor)):
        objects = [target] if isinstance(target, WorldObject) else list(target.objects)
        frame = _pose(objects[0], time)
    else:
        objects = [World().add(target, material=material or "steel")]
    if material is not None and isinstance(target, (World, WorldObject, Actor)):
        raise ConfigError("rcs: material applies to meshes only; objects of worlds have their own materials")
    vertices, faces, part = [], [], []
    names: list[str] = []
    first = 0
    for item in objects:
        for piece in item.parts:
            # Vertices of actors are in the frame of the actor, those of static objects in the world frame.
            placed = piece.placed if item.trajectory is None else _pose(item, time).apply(piece.placed)
            vertices.append(frame.inverse().apply(placed))
            faces.append(piece.mesh.faces + first)
            part.append(np.full(len(piece.mesh.faces), len(names), np.uint32))
            names.append(piece.material.name)
            first += len(placed)
    if not names:
        return Triangles.empty(), []
    return Triangles(np.concatenate(vertices), np.concatenate(faces).astype(np.int32), np.concatenate(part)), names


def _pose(item: WorldObject, time: float) -> Pose:
    return item.pose if item.trajectory is None else pose_at(item.trajectory, time)


# ---- rcs ------------------------------------------------------------------------------------------------------------


Floats = NDArray[np.float64]

_CHUNK = 1 << 17
"""Tubes per batch: about 100 MB of fields."""
MOST_TUBES = 50_000_000
"""Largest number of tubes for one direction: about a minute on two cores."""
_GRID_TURN_RAD = 0.31
"""Rotation of the grid against the horizontal [rad], so that edges of objects are not aligned with its rows."""


def rcs(
    target: Any,
    *,
    frequency_ghz: float,
    azimuth_deg: ArrayLike = 0.0,
    elevation_deg: ArrayLike = 0.0,
    receiver_azimuth_deg: ArrayLike | None = None,
    receiver_elevation_deg: ArrayLike | None = None,
    material: str | None = None,
    bounces: int = 3,
    tubes_per_wavelength: float = 8.0,
    time: float = 0.0,
) -> CrossSections:
    """Scattering of an object for directions in its own frame (x forward, y left, z up), one row per direction.

    `target` is a mesh (any input of `World.add`) of a `material`, an object or actor of a world, or a whole world at
    `time` [s]. Azimuth and elevation are the direction from the object to the radar. A separate receiver direction
    (`receiver_azimuth_deg`, `receiver_elevation_deg`) makes the geometry bistatic. Meshes must follow the true shape
    within a sixteenth of a wavelength. More `tubes_per_wavelength` resolve smaller facets; flat plates need less than
    one.
    """
    if not 0.1 <= frequency_ghz <= 1000.0:
        raise ConfigError(f"rcs: frequency_ghz must be from 0.1 to 1000, got {frequency_ghz!r}")
    if not 1 <= bounces <= 20:
        raise ConfigError(f"rcs: bounces must be from 1 to 20, got {bounces!r}")
    if not 0.01 <= tubes_per_wavelength <= 1000.0:
        raise ConfigError(f"rcs: tubes_per_wavelength must be from 0.01 to 1000, got {tubes_per_wavelength!r}")
    azimuth, elevation = checked_angles("azimuth_deg and elevation_deg", azimuth_deg, elevation_deg)
    there = azimuth, elevation
    apart = receiver_azimuth_deg is not None or receiver_elevation_deg is not None
    if apart:
        there = checked_angles(
            "receiver_azimuth_deg and receiver_elevation_deg",
            azimuth if receiver_azimuth_deg is None else receiver_azimuth_deg,
            elevation if receiver_elevation_deg is None else receiver_elevation_deg,
        )
    azimuth, elevation, *there = np.broadcast_arrays(azimuth, elevation, *there)  # type: ignore[assignment]
    tubes = Tubes.of(target, frequency_ghz, material, bounces, tubes_per_wavelength, time)
    found = [
        tubes.scattering(unit_toward(a, e), unit_toward(b, f) if apart else None)
        for a, e, b, f in zip(azimuth, elevation, *there, strict=True)
    ]
    matrix = np.array(found).reshape(-1, 2, 2)
    sigma = 2.0 * np.pi * np.sum(np.abs(matrix) ** 2, axis=(1, 2))
    return CrossSections(azimuth, elevation, *there, sigma, matrix, frequency_ghz)


@dataclass(frozen=True, eq=False)
class Tubes:
    """Object prepared for ray tubes of one wavelength."""

    scene: RayScene
    triangles: Triangles
    normal: Floats
    """Normals of triangles, shape (m, 3)."""
    permittivity: NDArray[np.complex128]
    """Complex relative permittivity of parts."""
    share: Floats
    """Share of the reflected amplitude that clothes leave, of parts."""
    height2: Floats
    """Half the squared phase of the roughness of parts at normal incidence."""
    wavelength_m: float
    bounces: int
    spacing_m: float

    @classmethod
    def of(
        cls,
        target: Any,
        frequency_ghz: float,
        material: str | None,
        bounces: int,
        tubes_per_wavelength: float,
        time: float,
    ) -> Tubes:
        """Prepare a mesh, an object, an actor or a world."""
        triangles, names = object_geometry(target, material, time)
        triangles = triangles.solid()[0]
        if not len(triangles):
            raise ConfigError("rcs: the target has no triangles")
        wavelength = SPEED_OF_LIGHT_M_S / (frequency_ghz * 1e9)
        eta, share = zip(*(half_space(name, frequency_ghz * 1e9) for name in names), strict=True)
        height = np.array([finish(name).height_m for name in names])
        return cls(
            RayScene(SceneGeometry(triangles)),
            triangles,
            triangles.normals(),
            np.array(eta),
            np.sqrt(share),
            0.5 * (4.0 * np.pi * height / wavelength) ** 2,
            wavelength,
            bounces,
            wavelength / tubes_per_wavelength,
        )

    def scattering(self, toward: Floats, receiver: Floats | None = None) -> NDArray[np.complex128]:
        """Scattering matrix S [m] for a radar at a unit direction `toward` (3,): rows receive, columns send; H, then V.

        The scattered field is S E exp(-j k r) / r; the phase reference is the origin of the object.
        """
        direction = -toward
        first, second = _turned(direction)
        corner = self.triangles.vertices[self.triangles.faces.ravel()]
        low, high = (np.array([edge(corner @ one) for one in (first, second, direction)]) for edge in (np.min, np.max))
        # Whole cells around the centre, plus one on each side, because footprints extend beyond the edge.
        counts = (np.ceil((high - low)[:2] / self.spacing_m) + 1).astype(np.int64)
        if counts.prod() > MOST_TUBES:
            raise ConfigError(
                f"rcs: {counts.prod()} tubes for one direction exceed the limit of {MOST_TUBES}; lower "
                "tubes_per_wavelength or the frequency"
            )
        start = 0.5 * (low + high)[:2] - 0.5 * (counts - 1) * self.spacing_m
        size = float(np.linalg.norm(high - low))
        total = np.zeros((2, 2), np.complex128)
        for begin in range(0, int(counts.prod()), _CHUNK):
            number = np.arange(begin, min(begin + _CHUNK, int(counts.prod())))
            a = start[0] + (number // counts[1]) * self.spacing_m
            b = start[1] + (number % counts[1]) * self.spacing_m
            origin = a[:, None] * first + b[:, None] * second + (low[2] - 0.1 * size) * direction
            total += self._scattered(origin, direction, first, second, toward, receiver, size)
        return -0.5j / self.wavelength_m * total

    def _scattered(
        self,
        origin: Floats,
        incident: Floats,
        first: Floats,
        second: Floats,
        toward: Floats,
        receiver: Floats | None,
        size: float,
    ) -> NDArray[np.complex128]:
        """Contribution of tubes with origins (n, 3) to the far field, without the factor -j k / 4 pi."""
        wavenumber = 2.0 * np.pi / self.wavelength_m
        seen_from = toward if receiver is None else receiver
        receive = polarisations(seen_from)
        count = len(origin)
        direction = np.broadcast_to(incident, (count, 3))
        sides = [np.broadcast_to(self.spacing_m * one, (count, 3)) for one in (first, second)]
        field = np.broadcast_to(np.array(polarisations(toward), np.complex128), (count, 2, 3))
        length = origin @ incident
        total = np.zeros((2, 2), np.complex128)
        for bounce in range(self.bounces):
            hits = self.scene.cast(Rays.of(origin, direction), coherent=bounce == 0)
            rows = np.flatnonzero(hits.triangle >= 0)
            if not len(rows):
                break
            triangle = hits.triangle[rows]
            origin, direction, field, length = origin[rows], direction[rows], field[rows], length[rows]
            sides = [side[rows] for side in sides]
            normal = self.normal[triangle]
            level = dots(direction, normal)
            normal = np.where(level[:, None] > 0.0, -normal, normal)
            # The ray engine finds the triangle. The hit point is computed from its plane in float64, because phases
            # require micrometres.
            corner = self.triangles.vertices[self.triangles.faces[triangle, 0]]
            steep = np.where(np.abs(level) > 1e-6, level, 1e-6)
            along = np.where(
                np.abs(level) > 1e-6, dots(corner - origin, self.normal[triangle]) / steep, hits.range[rows]
            )
            point = origin + along[:, None] * direction
            length = length + along
            part = self.triangles.part[triangle]
            kept = self.share[part] * np.exp(-self.height2[part] * level**2)
            mirrored, onward = reflected(field, direction, normal, self.permittivity[part], kept)
            lit = np.flatnonzero(self._sees(point, normal, seen_from, size, bounce, receiver))
            if len(lit):
                phase = np.exp(-1j * wavenumber * (length[lit] - point[lit] @ seen_from))
                weight = phase * footprint(
                    sides[0][lit], sides[1][lit], direction[lit], normal[lit], seen_from, wavenumber
                )
                for row, one in enumerate(receive):
                    sent = radiated(field[lit], direction[lit], mirrored[lit], onward[lit], normal[lit], seen_from, one)
                    total[row] += np.sum(weight[:, None] * sent, axis=0)
            sides = [reflect(side, normal) for side in sides]
            origin, direction, field = point + 1e-5 * size * normal, onward, mirrored
            # The displacement above the surface does not belong to the path.
            length = length + dots(origin - point, direction)
        return total

    def _sees(
        self, point: Floats, normal: Floats, seen_from: Floats, size: float, bounce: int, receiver: Floats | None
    ) -> NDArray[np.bool_]:
        """Mask of the surface points that the receiver sees."""
        facing = normal @ seen_from > 0.0
        if bounce == 0 and receiver is None:
            return facing  # the tube arrived from the receiver
        rows = np.flatnonzero(facing)
        if len(rows):
            away = Rays.of(point[rows] + 1e-5 * size * normal[rows], seen_from)
            facing[rows] = self.scene.cast(away).triangle < 0
        return np.asarray(facing)


def checked_angles(field: str, azimuth: ArrayLike, elevation: ArrayLike) -> tuple[Floats, Floats]:
    """Validated azimuths and elevations (n,) [deg]."""
    try:
        a, e = np.broadcast_arrays(*(np.atleast_1d(np.asarray(one, np.float64)) for one in (azimuth, elevation)))
    except ValueError as error:
        raise ConfigError(f"rcs: {field} must be numbers or lists of the same length") from error
    if a.ndim != 1 or not (np.all(np.isfinite(a)) and np.all(np.abs(e) <= 90.0)):
        raise ConfigError(f"rcs: {field} must be finite lists of degrees, elevations from -90 to 90")
    return a, e


def unit_toward(azimuth_deg: float, elevation_deg: float) -> Floats:
    """Unit vector (3,) of a direction [deg]."""
    a, e = np.radians(azimuth_deg), np.radians(elevation_deg)
    return np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])


def _turned(direction: Floats) -> tuple[Floats, Floats]:
    """Two unit vectors perpendicular to a direction, rotated against horizontal and vertical."""
    horizontal, vertical = polarisations(direction)
    cos, sin = np.cos(_GRID_TURN_RAD), np.sin(_GRID_TURN_RAD)
    return cos * horizontal + sin * vertical, cos * vertical - sin * horizontal


# ---- power rcs ------------------------------------------------------------------------------------------------------
# Cross-section of one object in the power mode, for comparison with physical optics.


def power_rcs(
    target: Any,
    *,
    frequency_ghz: float,
    azimuth_deg: ArrayLike = 0.0,
    elevation_deg: ArrayLike = 0.0,
    distance_m: float | None = None,
    material: str | None = None,
    rays: int = 100_000,
    bounces: int = 3,
    time: float = 0.0,
) -> CrossSections:
    """Cross-sections of an object from rays added by power, as in scans; arguments as for `rcs`.

    `distance_m` is the distance from the radar to the centre of the object. The default is in the far field,
    8 D^2 / lambda, at least ten times the size D of the object and at most 1000 m. Large plates return less power at
    smaller distances.
    """
    azimuth, elevation = checked_angles("azimuth_deg and elevation_deg", azimuth_deg, elevation_deg)
    triangles, names = object_geometry(target, material, time)
    if not len(triangles):
        raise ConfigError("rcs: the target has no triangles")
    used = triangles.vertices[np.unique(triangles.faces)]
    middle = 0.5 * (used.min(axis=0) + used.max(axis=0))
    radius = float(np.linalg.norm(used - middle, axis=1).max())
    wavelength = SPEED_OF_LIGHT_M_S / (frequency_ghz * 1e9)
    far = float(np.clip(32.0 * radius**2 / wavelength, 20.0 * radius, 1000.0))
    distance = far if distance_m is None else float(distance_m)
    if not 2.0 * radius < distance < 1e5:
        raise ConfigError(
            f"rcs: distance_m must exceed the target's size of {2.0 * radius:g} m and be at most 1e5, got {distance:g}"
        )
    world = World()
    for row, name in enumerate(names):
        faces = triangles.faces[triangles.part == row]
        if len(faces):
            world.add((triangles.vertices - middle, faces), material=name, label="target")
    radar = Radar(_virtual_radar(radius, distance, frequency_ghz, rays, bounces))
    sigma = []
    for a, e in zip(azimuth, elevation, strict=True):
        pose = Pose.look_at(distance * unit_toward(a, e), np.zeros(3))
        sigma.append(_far(radar.paths(world, pose=pose), distance))
    return CrossSections(azimuth, elevation, azimuth, elevation, np.array(sigma), None, frequency_ghz)


def _far(paths: Any, distance: float) -> float:
    """Sum of cross-sections, normalised to a common range."""
    half = 0.5 * paths.length.astype(np.float64)
    sigma: NDArray[np.float64] = paths.cross_section.astype(np.float64) * (distance / half) ** 4
    return float(sigma.sum())


def _virtual_radar(radius: float, distance: float, frequency_ghz: float, rays: int, bounces: int) -> RadarConfig:
    """Radar whose rays cover a sphere of `radius` at `distance` [m], with isotropic antennas and no noise floor."""
    half = float(np.degrees(np.arcsin(min(0.99, 1.02 * radius / distance))))
    antenna = {"gain_dbi": 40, "azimuth_width_deg": 180, "elevation_width_deg": 180, "sidelobe_db": 0}
    bins = 256
    sheet = {
        "name": "rcs",
        "rate_hz": 10,
        "frequency_ghz": frequency_ghz,
        "power_dbm": 120,
        "transmit": antenna,
        "receive": antenna,
        "noise_figure_db": 0,
        "array": {"azimuth_channels": 1},
        "waveform": {
            "bandwidth_mhz": SPEED_OF_LIGHT_M_S * (bins - 1) / (2e6 * 1.5 * (distance + 4.0 * radius)),
            "ramp_us": 40,
            "interval_us": 60,
            "ramps": 1,
            "range_bins": bins,
        },
        "field": {"azimuth_deg": (-half, half), "elevation_deg": (-half, half), "rays": rays, "bounces": bounces},
        "sources": ["virtual radar for cross-sections"],
    }
    return parse(RadarConfig, sheet, "rcs")
