"""Satellites from broadcast ephemerides: Kepler elements with corrections to position, velocity and clock in ECEF.

The closed form of IS-GPS-200 (20.3.3.4.3), which Galileo (OS SIS ICD 5.1.1) and BeiDou (B1I ICD 5.2.4.12) share with
constants of their own. Times are seconds of GPS time since the start of one week, that of the first row's reference.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.pose import Floats
from parhelion.sensors.gnss.earth import EARTH_RATE_RAD_S

MU = {"G": 3.986005e14, "E": 3.986004418e14, "C": 3.986004418e14, "R": 3.986004418e14}
"""Earth's gravitational constant [m^3/s^2] as each system has it."""
RATE = {"G": EARTH_RATE_RAD_S, "E": EARTH_RATE_RAD_S, "C": 7.2921150e-5, "R": 7.292115e-5}
"""Rotation of the Earth [rad/s] as each system has it."""
FIT_S = {"G": 7201.0, "E": 10_801.0, "C": 7201.0, "R": 7201.0}
"""How far from its reference time an ephemeris is used [s]: GPS 4 h in all, Galileo and BeiDou after RTKLIB."""
GEOSTATIONARY = {*range(1, 6), *range(59, 64)}
"""BeiDou satellites on geostationary orbits, whose elements are told in a plane tilted by 5 degrees."""
_TILT = np.radians(-5.0)
_KEPLER_STEPS = 12


@dataclass(frozen=True, eq=False)
class Ephemerides:
    """Broadcast ephemerides, one row each; several rows may be of one satellite. Units are SI and radians."""

    satellite: NDArray[np.str_]
    """Names such as G01, shape (m,)."""
    toe: Floats
    """Reference time of the orbit [s]."""
    toc: Floats
    """Reference time of the clock [s]."""
    root_a: Floats
    """Square root of the semi-major axis [sqrt(m)]."""
    e: Floats
    m0: Floats
    dn: Floats
    """Correction of the mean motion [rad/s]."""
    omega0: Floats
    """Longitude of the ascending node at the start of the week of `toe_week` [rad]."""
    i0: Floats
    omega: Floats
    omega_dot: Floats
    i_dot: Floats
    cuc: Floats
    cus: Floats
    crc: Floats
    crs: Floats
    cic: Floats
    cis: Floats
    af0: Floats
    af1: Floats
    af2: Floats
    tgd: Floats
    """Delay of the first frequency against the clock's [s]."""
    toe_second: Floats
    """Seconds of the week of `toe` as the message has it, which the node's longitude counts from."""
    health: NDArray[np.int64]
    """0 is healthy."""
    fit_s: Floats
    """How far from its reference time it is used [s]."""
    accuracy_m: Floats
    """Accuracy of the range that the satellite itself tells (URA, SISA) [m]."""

    def __len__(self) -> int:
        return len(self.satellite)

    @cached_property
    def constants(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Of each row: gravitational constant, rotation of the Earth, and whether its plane is tilted."""
        letters = self.satellite.astype("U1").tolist()
        tilted = np.isin(self.satellite, [f"C{number:02d}" for number in GEOSTATIONARY])
        return np.array([MU[one] for one in letters]), np.array([RATE[one] for one in letters]), tilted

    @cached_property
    def healthy(self) -> dict[str, NDArray[np.int64]]:
        """Healthy rows of each satellite that has some."""
        found = {name: np.flatnonzero((self.satellite == name) & (self.health == 0)) for name in self.names}
        return {name: rows for name, rows in found.items() if len(rows)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Satellites, sorted."""
        return tuple(sorted(set(self.satellite.tolist())))

    def rows(self, wanted: NDArray[Any]) -> Ephemerides:
        """Some rows: a mask or numbers."""
        return Ephemerides(**{one.name: getattr(self, one.name)[wanted] for one in fields(self)})

    def joined(self, other: Ephemerides) -> Ephemerides:
        """The rows of both."""
        return Ephemerides(
            **{one.name: np.concatenate([getattr(self, one.name), getattr(other, one.name)]) for one in fields(self)}
        )

    def pick(self, times: Floats, names: tuple[str, ...]) -> NDArray[np.int64]:
        """Row for each time (n,) and satellite (s,): the healthy one nearest in time; -1 where none is near enough."""
        found = np.full((len(times), len(names)), -1, dtype=np.int64)
        for column, name in enumerate(names):
            mine = self.healthy.get(name)
            if mine is None:
                continue
            away = np.abs(times[:, None] - self.toe[mine])
            best = np.argmin(away, axis=1)
            near = away[np.arange(len(times)), best] <= self.fit_s[mine[best]]
            found[:, column] = np.where(near, mine[best], -1)
        return found


@dataclass(frozen=True, eq=False)
class SatelliteStates:
    """Where satellites are and how their clocks are, in ECEF of the same time."""

    xyz: Floats
    """Position [m], shape (..., 3)."""
    velocity: Floats
    """Velocity in the turning frame [m/s], shape (..., 3)."""
    clock: Floats
    """What the clock is ahead [s], relativity included, the first frequency's delay not."""
    clock_rate: Floats
    """Its change [s/s]."""


def eccentric_anomaly(mean: Floats, e: Floats) -> Floats:
    """Solve Kepler's equation M = E - e sin E by Newton's steps from M; to rounding for e up to 0.2."""
    found = mean + e * np.sin(mean)
    for _ in range(_KEPLER_STEPS):
        found = found - (found - e * np.sin(found) - mean) / (1.0 - e * np.cos(found))
    return np.asarray(found)


def states(eph: Ephemerides, row: NDArray[np.int64], times: Floats) -> SatelliteStates:
    """States of the rows at times [s], arrays of one shape; a row of -1 gives NaN."""
    known = row >= 0
    at = np.where(known, row, 0)
    get = {one.name: getattr(eph, one.name)[at] for one in fields(eph) if one.name not in ("satellite", "health")}
    mu, rate, tilted = eph.constants[0][at], eph.constants[1][at], eph.constants[2][at]
    tk = times - get["toe"]
    a = get["root_a"] ** 2
    n = np.sqrt(mu / a**3) + get["dn"]
    e = get["e"]
    anomaly = eccentric_anomaly(get["m0"] + n * tk, e)
    sin_e, cos_e = np.sin(anomaly), np.cos(anomaly)
    shrink = 1.0 - e * cos_e
    flat = np.sqrt(1.0 - e * e)
    phi = np.arctan2(flat * sin_e, cos_e - e) + get["omega"]
    sin2, cos2 = np.sin(2.0 * phi), np.cos(2.0 * phi)
    u = phi + get["cus"] * sin2 + get["cuc"] * cos2
    r = a * shrink + get["crs"] * sin2 + get["crc"] * cos2
    i = get["i0"] + get["i_dot"] * tk + get["cis"] * sin2 + get["cic"] * cos2
    e_rate = n / shrink
    phi_rate = flat * e_rate / shrink
    u_rate = phi_rate * (1.0 + 2.0 * (get["cus"] * cos2 - get["cuc"] * sin2))
    r_rate = a * e * sin_e * e_rate + 2.0 * phi_rate * (get["crs"] * cos2 - get["crc"] * sin2)
    i_rate = get["i_dot"] + 2.0 * phi_rate * (get["cis"] * cos2 - get["cic"] * sin2)
    turning = np.where(tilted, 0.0, rate)
    node = get["omega0"] + (get["omega_dot"] - turning) * tk - rate * get["toe_second"]
    xyz, velocity = _in_space(r, r_rate, u, u_rate, i, i_rate, node, get["omega_dot"] - turning)
    if np.any(tilted):
        turned, moved = _from_tilted(xyz, velocity, rate, tk)
        xyz, velocity = (np.where(tilted[..., None], a, b) for a, b in ((turned, xyz), (moved, velocity)))
    dt = times - get["toc"]
    # Relativity (IS-GPS-200, 20.3.3.3.3.1): F e sqrt(A) sin E with F = -2 sqrt(mu) / c^2.
    strength = -2.0 * np.sqrt(mu) / SPEED_OF_LIGHT_M_S**2 * e * get["root_a"]
    clock = get["af0"] + get["af1"] * dt + get["af2"] * dt * dt + strength * sin_e
    clock_rate = get["af1"] + 2.0 * get["af2"] * dt + strength * cos_e * e_rate
    nan = np.where(known, 0.0, np.nan)
    return SatelliteStates(xyz + nan[..., None], velocity + nan[..., None], clock + nan, clock_rate + nan)


def _in_space(
    r: Floats, r_rate: Floats, u: Floats, u_rate: Floats, i: Floats, i_rate: Floats, node: Floats, node_rate: Floats
) -> tuple[Floats, Floats]:
    """Position and velocity of an orbit's polar coordinates and angles."""
    cu, su, ci, si, cn, sn = np.cos(u), np.sin(u), np.cos(i), np.sin(i), np.cos(node), np.sin(node)
    x, y = r * cu, r * su
    vx, vy = r_rate * cu - r * su * u_rate, r_rate * su + r * cu * u_rate
    xyz = np.stack([x * cn - y * ci * sn, x * sn + y * ci * cn, y * si], axis=-1)
    side = vy * ci - y * si * i_rate
    velocity = np.stack(
        [
            vx * cn - side * sn - xyz[..., 1] * node_rate,
            vx * sn + side * cn + xyz[..., 0] * node_rate,
            vy * si + y * ci * i_rate,
        ],
        axis=-1,
    )
    return xyz, velocity


def _from_tilted(xyz: Floats, velocity: Floats, rate: Floats, tk: Floats) -> tuple[Floats, Floats]:
    """BeiDou's geostationary orbits: turn by -5 degrees about x, then with the Earth (B1I ICD, table 5-11)."""
    c, s = np.cos(_TILT), np.sin(_TILT)

    def tilted(v: Floats) -> Floats:
        return np.stack([v[..., 0], c * v[..., 1] + s * v[..., 2], -s * v[..., 1] + c * v[..., 2]], axis=-1)

    cw, sw = np.cos(rate * tk), np.sin(rate * tk)

    def turned(v: Floats) -> Floats:
        return np.stack([cw * v[..., 0] + sw * v[..., 1], -sw * v[..., 0] + cw * v[..., 1], v[..., 2]], axis=-1)

    place, speed = turned(tilted(xyz)), turned(tilted(velocity))
    spin = np.stack([rate * place[..., 1], -rate * place[..., 0], np.zeros_like(rate)], axis=-1)
    return place, speed + spin
