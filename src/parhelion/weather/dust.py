"""Dust that vehicles raise: how much of it, how the air slows it, and what it does to light.

The model is that of the VANE simulator (Carrillo, Goodin and Fernandez 2020, chapter 8) with slips of the print set
right: the weight in the emission formula is in short tons (AP-42), not pounds; the number of particles is mass divided
by particle mass; the optical depth is -ln(I / I_0), which is positive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.arrays import Reals, is_drjit, namespace
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats

KG_PER_SHORT_TON = 907.18474
KG_PER_M_FROM_LB_PER_MILE = 0.45359237 / 1609.344
"""2.8185e-4; VANE rounds it to 2.82e-4."""

VEHICLE_DUST_EXTINCTION_M2_KG = 2600.0
"""Extinction of light by a kilogram of vehicle dust [m^2/kg]: VANE's fit by eye to field tests."""
FINE_DUST_EXTINCTION_M2_KG = 650.0
"""The same for fine dust high in the air, visible and near infrared (Gerasopoulos and others 2009)."""

DUST_LIFETIME_S = 10.0
DRAG_PER_M = 1.0
DRAG_GROWTH = 4.6
"""-ln(0.01), rounded as VANE does: at the end of its life a particle has 99 % of the full drag."""


def check_number(
    name: str, value: Any, *, above: float = -np.inf, least: float = -np.inf, most: float = np.inf
) -> float:
    """`value` as a finite float within the limits; otherwise an error that names the field."""
    limits = [f"above {above:g}"] if above > -np.inf else []
    limits += [f"at least {least:g}"] if least > -np.inf else []
    limits += [f"at most {most:g}"] if most < np.inf else []
    allowed = " and ".join(["a finite number", *limits])
    try:
        number = np.nan if isinstance(value, (str, bytes, bool)) else float(value)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{name}: must be {allowed}, got {value!r}") from None
    if not (np.isfinite(number) and above < number and least <= number <= most):
        raise ConfigError(f"{name}: must be {allowed}, got {value!r}")
    return number


def check_vector(name: str, value: Any, *, above: float = -np.inf) -> Floats:
    """`value` as three finite numbers, each above the limit; otherwise an error that names the field."""
    words = "3 finite numbers" + (f", each above {above:g}" if above > -np.inf else "")
    try:
        vector = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{name}: must be {words}, got {value!r}") from None
    if vector.shape != (3,) or not np.all(np.isfinite(vector)) or np.any(vector <= above):
        raise ConfigError(f"{name}: must be {words}, got {value!r}")
    return vector


def check_not_negative(name: str, value: Any) -> Any:
    """`value` unchanged; an error where any of it is negative or not finite. Kernel arrays pass unread."""
    if not is_drjit(value):
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise ConfigError(f"{name}: must hold numbers, got {value!r}") from None
        bad = array[~(np.isfinite(array) & (array >= 0.0))]
        if bad.size:
            raise ConfigError(f"{name}: must be finite and not negative, got {bad.flat[0]}")
    return value


def emission_factor_lb_per_mile(
    silt_percent: float,
    weight_kg: float,
    moisture_percent: float,
    *,
    k: float = 10.0,
    a: float = 0.8,
    b: float = 0.5,
    c: float = 0.4,
) -> float:
    """Dust raised by one vehicle on an unpaved road [lb per vehicle mile]: k (s/12)^a (W/3)^b / (M/0.2)^c.

    EPA AP-42 section 13.2.2 in its 1998 form, with s the silt and M the moisture of the surface [%] and W the weight
    in short tons. The default constants are those of PM30, particles of up to 30 um (Tong 2014; VANE eq. 8.1).
    AP-42's own data cover silt of 1.8 to 35 %, weights of 1.4 to 260 t, moisture of 0.03 to 13 % and 8 to 88 km/h;
    outside them the formula is a guess. Speed is not in it: mass grows with the way driven.
    """
    silt = check_number("silt_percent", silt_percent, least=0.0, most=100.0)
    tons = check_number("weight_kg", weight_kg, above=0.0) / KG_PER_SHORT_TON
    moisture = check_number("moisture_percent", moisture_percent, above=0.0, most=100.0)
    scale = check_number("k", k, least=0.0)
    exponents = [check_number(name, value, least=0.0) for name, value in (("a", a), ("b", b), ("c", c))]
    return float(
        scale * (silt / 12.0) ** exponents[0] * (tons / 3.0) ** exponents[1] / (moisture / 0.2) ** exponents[2]
    )


def emitted_mass_kg(emission_factor: Reals, speed_m_s: Reals, dt_s: Reals) -> Reals:
    """Mass [kg] raised in a time `dt_s` by a vehicle of `speed_m_s` (VANE eq. 8.2), factor in lb per mile."""
    check_not_negative("emission_factor", emission_factor)
    check_not_negative("speed_m_s", speed_m_s)
    check_not_negative("dt_s", dt_s)
    return KG_PER_M_FROM_LB_PER_MILE * emission_factor * speed_m_s * dt_s


def particle_mass(radius_m: float, density_kg_m3: float = 2650.0) -> float:
    """Mass [kg] of a solid sphere; the default density is that of quartz."""
    radius = check_number("radius_m", radius_m, above=0.0)
    return float(4.0 / 3.0 * np.pi * radius**3 * check_number("density_kg_m3", density_kg_m3, above=0.0))


def particle_count(mass_kg: ArrayLike, particle_mass_kg: float) -> Reals:
    """Number of particles in a mass: their quotient (VANE eq. 8.3 prints a sum), not rounded."""
    check_not_negative("mass_kg", mass_kg)
    return np.asarray(mass_kg, dtype=np.float64) / check_number("particle_mass_kg", particle_mass_kg, above=0.0)


def drag_coefficient(age_s: Reals, *, lifetime_s: float = DUST_LIFETIME_S, drag_per_m: float = DRAG_PER_M) -> Reals:
    """Drag factor [1/m] of a dust parcel of an age: C_d (1 - exp(-4.6 t / t_max)); arrays of either kind.

    The deceleration is this times the square of the speed through the air (VANE eqs. 8.6, 8.10). Valid for ages from
    0 to `lifetime_s`. An empirical law: it starts without drag so that the wake can throw the dust up, and ends at a
    falling speed of sqrt(g / C_d), 3.1 m/s for the default, far above that of any real grain of this size.
    """
    lifetime = check_number("lifetime_s", lifetime_s, above=0.0)
    full = check_number("drag_per_m", drag_per_m, least=0.0)
    age = check_not_negative("age_s", age_s)
    return full * (1.0 - namespace(age).exp(age * (-DRAG_GROWTH / lifetime)))


def optical_depth(density_path_kg_m2: Reals, mass_extinction_m2_kg: Reals = VEHICLE_DUST_EXTINCTION_M2_KG) -> Reals:
    """One-way optical depth mu = sigma_m * integral of density along the path; arrays of either kind."""
    path = check_not_negative("density_path_kg_m2", density_path_kg_m2)
    return path * check_not_negative("mass_extinction_m2_kg", mass_extinction_m2_kg)


def transmission(density_path_kg_m2: Reals, mass_extinction_m2_kg: Reals = VEHICLE_DUST_EXTINCTION_M2_KG) -> Reals:
    """Share of light that passes once through dust: exp(-sigma_m * integral of density) (VANE eq. 8.12).

    `density_path_kg_m2` is the integral of density [kg/m^3] along the path [m]. Single scattering: light that
    scatters is lost. VANE's eq. 8.11 has the path length once too often; eq. 8.12 is right. Arrays of either kind.
    """
    return namespace(density_path_kg_m2).exp(-optical_depth(density_path_kg_m2, mass_extinction_m2_kg))


def dust_return_probability(optical_depth: Reals, threshold: float) -> Reals:
    """Chance that a pulse comes back from the dust itself: mu / threshold, at most 1; arrays of either kind.

    `optical_depth` is one way and not negative. `threshold` belongs to the sensor: 0.1 to 0.3 for time-of-flight
    lidars (VANE section 8.2.2, after Goodin and others 2013).
    """
    limit = check_number("threshold", threshold, above=0.0)
    depth = check_not_negative("optical_depth", optical_depth)
    return namespace(depth).minimum(depth / limit, 1.0)
