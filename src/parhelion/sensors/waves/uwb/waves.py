"""What paths do to a wave: spreading, mirrors, slabs and leaves. Linear polarisation, antennas without a pattern.

The field is a complex vector across the direction of travel. At each mirror and slab it is split into the part across
the plane of incidence (TE) and the part in it (TM), as ITU-R P.2040-3 has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.pose import Floats
from parhelion.surfaces.radio import Complexes, fresnel, slab

Polarisation = Literal["vertical", "horizontal"]


@dataclass(frozen=True)
class Wave:
    """What both antennas send and hear."""

    carrier_hz: float
    polarisation: Polarisation = "vertical"

    @property
    def length_m(self) -> float:
        """Wavelength in air [m]."""
        return SPEED_OF_LIGHT_M_S / self.carrier_hz

    def field(self, direction: Floats) -> Floats:
        """Unit vectors of the antennas' field for waves that travel along directions (n, 3)."""
        up = upright(direction)
        return up if self.polarisation == "vertical" else np.cross(up, direction)


def free_space_gain(length_m: ArrayLike, carrier_hz: float) -> Floats:
    """Amplitude between isotropic antennas at a distance [m] > 0: lambda / (4 pi L) (Friis 1946, Proc. IRE 34, 254)."""
    return np.asarray(SPEED_OF_LIGHT_M_S / carrier_hz / (4.0 * np.pi * np.asarray(length_m, dtype=np.float64)))


def decibel(amplitude: ArrayLike) -> Floats:
    """20 log10 of an amplitude; -400 dB for nothing."""
    return np.asarray(20.0 * np.log10(np.maximum(np.abs(amplitude), 1e-20)))


def upright(direction: Floats) -> Floats:
    """The unit vector across each direction (n, 3) that points up most: the field of a vertical antenna."""
    z = np.array([0.0, 0.0, 1.0])
    up = z - direction[:, 2:3] * direction
    steep = np.einsum("ij,ij->i", up, up) < 1e-12
    x = np.array([1.0, 0.0, 0.0])
    up = np.where(steep[:, None], x - direction[:, 0:1] * direction, up)
    return np.asarray(up / np.sqrt(np.einsum("ij,ij->i", up, up))[:, None])


def _dot(a: Floats | Complexes, b: Floats | Complexes) -> Floats | Complexes:
    return np.asarray(np.einsum("ij,ij->i", a, b))


def _across(direction: Floats, normal: Floats) -> Floats:
    """Unit vectors across the plane of incidence, shape (n, 3); any across the ray at normal incidence."""
    s = np.cross(direction, normal)
    size = np.sqrt(np.einsum("ij,ij->i", s, s))
    plain = size < 1e-9
    s = np.where(plain[:, None], upright(direction), s)
    return np.asarray(s / np.where(plain, 1.0, size)[:, None])


def mirrored(direction: Floats, normal: Floats) -> Floats:
    """Directions after a mirror: d - 2 (d . n) n."""
    return np.asarray(direction - 2.0 * np.einsum("ij,ij->i", direction, normal)[:, None] * normal)


def reflect(field: Complexes, direction: Floats, normal: Floats, permittivity: Complexes) -> Complexes:
    """The field after a half-space (P.2040-3, eqs. 31, 32); field, direction and normal have shape (n, 3)."""
    te, tm = fresnel(np.abs(_dot(direction, normal)), permittivity)
    s, out = _across(direction, normal), mirrored(direction, normal)
    p_in, p_out = np.cross(s, direction), np.cross(s, out)
    return np.asarray((te * _dot(field, s))[:, None] * s + (tm * _dot(field, p_in))[:, None] * p_out)


def transmit(
    field: Complexes,
    direction: Floats,
    normal: Floats,
    permittivity: Complexes,
    thickness_m: Floats,
    carrier_hz: float,
) -> Complexes:
    """The field behind a slab (P.2040-3, eqs. 42 to 44), against that without it; it goes straight on."""
    cos = np.abs(_dot(direction, normal))
    _, (te, tm) = slab(cos, permittivity, thickness_m, carrier_hz)
    # The slab's phase counts from face to face along the normal; the air that it replaces is counted by the path.
    back = np.exp(2j * np.pi * carrier_hz / SPEED_OF_LIGHT_M_S * thickness_m * cos)
    s = _across(direction, normal)
    p = np.cross(s, direction)
    return np.asarray((te * back * _dot(field, s))[:, None] * s + (tm * back * _dot(field, p))[:, None] * p)


def slab_delay_m(cos_incidence: ArrayLike, permittivity: ArrayLike, thickness_m: ArrayLike) -> Floats:
    """Extra length [m] of a signal through a slab: d (sqrt(e' - sin^2) - cos), e' the real part of the permittivity.

    The group delay of a slab without dispersion, less that of the air in its place (Born and Wolf, stratified media).
    """
    cos = np.asarray(cos_incidence, dtype=np.float64)
    real = np.maximum(np.real(np.asarray(permittivity)), 1.0)
    return np.asarray(thickness_m * (np.sqrt(real - 1.0 + cos * cos) - cos))


def foliage_loss_db(length_m: ArrayLike, carrier_hz: float) -> Floats:
    """Loss [dB] in leaves: 0.2 f^0.3 d^0.6, f in MHz from 200 to 95 000, d below 400 m (CCIR Report 236-2)."""
    return np.asarray(0.2 * (carrier_hz / 1e6) ** 0.3 * np.asarray(length_m, dtype=np.float64) ** 0.6)


def plate_share(area_m2: ArrayLike, cos_incidence: ArrayLike, before_m: ArrayLike, after_m: ArrayLike,
                wavelength_m: float) -> Floats:  # fmt: skip
    """Amplitude of a small plane mirror against one without an end, at most 1: A cos (d1 + d2) / (lambda d1 d2).

    Physical optics of a plate in its mirror direction (Balanis 2012, chapter 11), where it is smaller than the first
    Fresnel zone.
    """
    d1, d2 = np.asarray(before_m, dtype=np.float64), np.asarray(after_m, dtype=np.float64)
    share = np.asarray(area_m2) * np.asarray(cos_incidence) * (d1 + d2) / (wavelength_m * d1 * d2)
    return np.asarray(np.minimum(share, 1.0))
