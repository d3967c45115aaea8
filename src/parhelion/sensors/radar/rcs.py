"""The radar cross-section of one thing, from every side: coherent, by ray tubes and physical optics.

    from parhelion.sensors.radar.rcs import rcs
    table = rcs(ph.shapes.box(0.3, 0.2, 0.1), frequency_ghz=77, azimuth_deg=np.arange(-90, 91))
    table.dbsm, table.scattering

A plane wave comes from each direction as a grid of square tubes. They bounce as mirrors send them; at every surface the
currents of physical optics send a far field to the receiver, with the phase of the whole way. This is the reference for
the power mode of `Radar`, which adds rays by power with lobes: it knows polarisation, phase and interference, and costs
as many tubes as the thing has wavelengths squared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.core.radar import CrossSections
from parhelion.rays.geometry import SceneGeometry, Triangles
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene
from parhelion.sensors.radar.materials import finish
from parhelion.sensors.radar.optics import dots, footprint, polarisations, radiated, reflect, reflected
from parhelion.sensors.radar.target import one_thing
from parhelion.surfaces.radio import permittivity, radio_name

Floats = NDArray[np.float64]

_CHUNK = 1 << 17
"""Tubes at a time: some 100 MB of fields."""
MOST_TUBES = 50_000_000
"""For one direction: about a minute on two cores."""
_GRID_TURN_RAD = 0.31
"""The grid is turned by this against the horizontal: edges of things then cut its rows at all places alike."""


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
    """Scattering of a thing, seen from directions in its own frame (x forward, y left, z up), one row a direction.

    `target` is a mesh (what `World.add` takes) of a `material`, an object or actor of a world, or a whole world at
    `time` [s]. Azimuth and elevation say where the radar stands as seen from the thing. A receiver elsewhere
    (`receiver_azimuth_deg`, `receiver_elevation_deg`) makes it bistatic. Meshes must follow the true shape within a
    sixteenth of a wavelength. More `tubes_per_wavelength` resolve smaller facets; flat plates need less than one.
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
    """A thing ready for tubes of one wavelength."""

    scene: RayScene
    triangles: Triangles
    normal: Floats
    """Of triangles, shape (m, 3)."""
    permittivity: NDArray[np.complex128]
    """Of parts."""
    height2: Floats
    """Of parts: half the squared phase of its roughness at normal incidence."""
    wavelength_m: float
    bounces: int
    spacing_m: float

    @classmethod
    def of(
        cls, target: Any, frequency_ghz: float, material: str | None, bounces: int, tubes_per_wavelength: float,
        time: float,
    ) -> Tubes:  # fmt: skip
        """For a mesh, an object, an actor or a world."""
        triangles, names = one_thing(target, material, time)
        triangles = triangles.solid()[0]
        if not len(triangles):
            raise ConfigError("rcs: the thing has no triangles")
        wavelength = SPEED_OF_LIGHT_M_S / (frequency_ghz * 1e9)
        eta = np.array([complex(permittivity(radio_name(name), frequency_ghz * 1e9)) for name in names])
        height = np.array([finish(name).height_m for name in names])
        return cls(
            RayScene(SceneGeometry(triangles)), triangles, triangles.normals(), eta,
            0.5 * (4.0 * np.pi * height / wavelength) ** 2, wavelength, bounces, wavelength / tubes_per_wavelength,
        )  # fmt: skip

    def scattering(self, toward: Floats, receiver: Floats | None = None) -> NDArray[np.complex128]:
        """The matrix S [m] for a radar at a unit direction `toward` (3,): rows receive, columns send; H, then V.

        The scattered field is S E exp(-j k r) / r, with the phase of the thing's own origin.
        """
        direction = -toward
        first, second = _turned(direction)
        corner = self.triangles.vertices[self.triangles.faces.ravel()]
        low, high = (np.array([edge(corner @ one) for one in (first, second, direction)]) for edge in (np.min, np.max))
        # Whole cells around the middle; one more on each side, since footprints reach over.
        counts = (np.ceil((high - low)[:2] / self.spacing_m) + 1).astype(np.int64)
        if counts.prod() > MOST_TUBES:
            raise ConfigError(
                f"rcs: {counts.prod()} tubes for one direction, allowed are {MOST_TUBES}; lower tubes_per_wavelength "
                "or the frequency"
            )
        start = 0.5 * (low + high)[:2] - 0.5 * (counts - 1) * self.spacing_m
        size = float(np.linalg.norm(high - low))
        total = np.zeros((2, 2), np.complex128)
        for begin in range(0, int(counts.prod()), _CHUNK):
            number = np.arange(begin, min(begin + _CHUNK, int(counts.prod())))
            a = start[0] + (number // counts[1]) * self.spacing_m
            b = start[1] + (number % counts[1]) * self.spacing_m
            origin = a[:, None] * first + b[:, None] * second + (low[2] - 0.1 * size) * direction
            total += self._sent_back(origin, direction, first, second, toward, receiver, size)
        return -0.5j / self.wavelength_m * total

    def _sent_back(
        self, origin: Floats, way: Floats, first: Floats, second: Floats, toward: Floats, receiver: Floats | None,
        size: float,
    ) -> NDArray[np.complex128]:  # fmt: skip
        """What tubes that begin at origins (n, 3) add to the far field, up to -j k / 4 pi."""
        wavenumber = 2.0 * np.pi / self.wavelength_m
        seen_from = toward if receiver is None else receiver
        receive = polarisations(seen_from)
        count = len(origin)
        direction = np.broadcast_to(way, (count, 3))
        sides = [np.broadcast_to(self.spacing_m * one, (count, 3)) for one in (first, second)]
        field = np.broadcast_to(np.array(polarisations(toward), np.complex128), (count, 2, 3))
        length = origin @ way
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
            # The ray engine says which triangle; the plane says where, in float64: phases ask for micrometres.
            corner = self.triangles.vertices[self.triangles.faces[triangle, 0]]
            steep = np.where(np.abs(level) > 1e-6, level, 1e-6)
            along = np.where(
                np.abs(level) > 1e-6, dots(corner - origin, self.normal[triangle]) / steep, hits.range[rows]
            )
            point = origin + along[:, None] * direction
            length = length + along
            part = self.triangles.part[triangle]
            kept = np.exp(-self.height2[part] * level**2)
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
            # The step off the surface is no part of the way.
            length = length + dots(origin - point, direction)
        return total

    def _sees(
        self, point: Floats, normal: Floats, seen_from: Floats, size: float, bounce: int, receiver: Floats | None
    ) -> NDArray[np.bool_]:
        """Which points on surfaces the receiver sees."""
        facing = normal @ seen_from > 0.0
        if bounce == 0 and receiver is None:
            return facing  # the tube came from there
        rows = np.flatnonzero(facing)
        if len(rows):
            away = Rays.of(point[rows] + 1e-5 * size * normal[rows], seen_from)
            facing[rows] = self.scene.cast(away).triangle < 0
        return np.asarray(facing)


def checked_angles(field: str, azimuth: ArrayLike, elevation: ArrayLike) -> tuple[Floats, Floats]:
    """Azimuths and elevations (n,) [deg], checked."""
    try:
        a, e = np.broadcast_arrays(*(np.atleast_1d(np.asarray(one, np.float64)) for one in (azimuth, elevation)))
    except ValueError as error:
        raise ConfigError(f"rcs: {field} must be numbers, or lists of one length") from error
    if a.ndim != 1 or not (np.all(np.isfinite(a)) and np.all(np.abs(e) <= 90.0)):
        raise ConfigError(f"rcs: {field} must be finite lists of degrees, elevations from -90 to 90")
    return a, e


def unit_toward(azimuth_deg: float, elevation_deg: float) -> Floats:
    """Unit vector (3,) of a direction in degrees."""
    a, e = np.radians(azimuth_deg), np.radians(elevation_deg)
    return np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])


def _turned(direction: Floats) -> tuple[Floats, Floats]:
    """Two unit vectors across a direction, turned against horizontal and vertical."""
    horizontal, vertical = polarisations(direction)
    cos, sin = np.cos(_GRID_TURN_RAD), np.sin(_GRID_TURN_RAD)
    return cos * horizontal + sin * vertical, cos * vertical - sin * horizontal
