"""Physical optics of ray tubes: reflection with polarisation, the currents of a surface, and the far field they send.

Time goes as exp(+j w t). A tube is a small square of a plane wave. On flat surfaces it keeps its size, so that its
footprint is a parallelogram over which the phase is linear: the integral over it has a closed form. Fields are pairs,
one for each polarisation that was sent, shape (n, 2, 3). The currents are those of Ling, Chou and Lee 1989 (IEEE Trans.
AP 37, 194), taken at every surface that a tube meets; no current flows in the shadow, and edges add nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parhelion.surfaces.radio import fresnel

Floats = NDArray[np.float64]
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
    """Vectors (n, 3) as a plane mirror of unit normals (n, 3) shows them."""
    return np.asarray(vectors - 2.0 * dots(vectors, normal)[:, None] * normal)


def reflected(
    field: Complexes, direction: Floats, normal: Floats, permittivity: Complexes, kept: Floats
) -> tuple[Complexes, Floats]:
    """The mirrored fields (n, 2, 3) of plane waves, and their directions (n, 3).

    `normal` (n, 3) faces the wave; `permittivity` (n,) is the surface's; `kept` (n,) is the share of the amplitude that
    roughness leaves. Coefficients are Fresnel's of half-spaces, each polarisation with its own.
    """
    cosine = np.clip(-dots(direction, normal), 0.0, 1.0)
    # At normal incidence every direction across is as good as another.
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
    field: Complexes, direction: Floats, mirrored: Complexes, onward: Floats, normal: Floats, toward: Floats,
    polarisation: Floats,
) -> Complexes:  # fmt: skip
    """Far field for each area that surfaces send to a unit direction `toward` (3,), up to -j k / 4 pi; shape (n, 2).

    The surface carries J = n x H and M = E x n of the wave that comes and of the one that goes; the component along
    `polarisation` (3,) of (eta J) + M x s is returned, s the direction (Balanis 2012, section 6.7).
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
    """Integral of the phase over the footprint of tubes, relative to that of its middle [m^2], shape (n,).

    `first` and `second` (n, 3) are the sides of the tube's square [m], across its direction. Along the surface the
    phase goes as k (s - d): over a parallelogram that integrates to two sines over their arguments.
    """
    cosine = dots(direction, normal)
    spread = toward - direction
    area = np.linalg.norm(np.cross(first, second), axis=1) / np.maximum(np.abs(cosine), 1e-9)
    for side in (first, second):
        on_surface = side - (dots(side, normal) / cosine)[:, None] * direction
        area = area * np.sinc(wavenumber * dots(spread, on_surface) / (2.0 * np.pi))
    return np.asarray(area)


def plate_m2(width_m: float, height_m: float, aspect_rad: Floats, wavelength_m: float) -> Floats:
    """Cross-section [m^2] of a flat metal plate turned by `aspect_rad` about its height, by physical optics.

    4 pi A^2 / lambda^2 cos^2 a sinc^2(k w sin a): within a few lobes of the normal, for sides of several wavelengths
    (Knott, Shaeffer and Tuley 2004, chapter 6).
    """
    angle = np.asarray(aspect_rad, np.float64)
    peak = 4.0 * np.pi * (width_m * height_m / wavelength_m) ** 2
    return np.asarray(peak * np.cos(angle) ** 2 * np.sinc(2.0 * width_m * np.sin(angle) / wavelength_m) ** 2)


def sphere_m2(radius_m: float, wavelength_m: float) -> float:
    """Cross-section [m^2] of a metal sphere by physical optics: pi a^2 but for the edge of its shadow."""
    ka = 2.0 * np.pi * radius_m / wavelength_m
    return float(np.pi * radius_m**2 * (1.0 - np.sin(2.0 * ka) / ka + (np.sin(ka) / ka) ** 2))


def corner_m2(side_m: float, wavelength_m: float, faces: str = "triangles") -> float:
    """Largest cross-section [m^2] of a metal corner of three faces whose inner edges are `side_m` long.

    Seen along its axis, a tube comes back if the point opposite its entry lies in the opening, too. That leaves an area
    of a^2 / sqrt(3) of three right triangles and of sqrt(3) a^2 of three squares; with 4 pi A^2 / lambda^2 these are
    4 pi a^4 / 3 lambda^2 and 12 pi a^4 / lambda^2.
    """
    area = side_m**2 * {"triangles": 3.0**-0.5, "squares": 3.0**0.5}[faces]
    return 4.0 * np.pi * (area / wavelength_m) ** 2


def dihedral_m2(width_m: float, height_m: float, wavelength_m: float) -> float:
    """Largest cross-section [m^2] of two metal plates at a right angle: 8 pi (w h / lambda)^2, of area sqrt(2) w h."""
    return 8.0 * np.pi * (width_m * height_m / wavelength_m) ** 2
