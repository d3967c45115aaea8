"""Satellites: orbits from broadcast ephemerides, nominal constellations, and signals.

Nominal constellations are circular orbits in the published slots of each system. They do not reproduce the position of
an individual satellite on a given day, but the number, elevation and motion of the satellites over a place. Sources:

- GPS: SPS Performance Standard, 4th edition 2008, table 2.1-2 (24 slots, epoch 1993-07-01).
- Galileo: reference constellation of the European GNSS Service Centre (24/3/1, epoch 2016-11-21).
- GLONASS: ICD L1, L2, edition 5.1, 2008, section 3.3.1 (24 slots, epoch 1983-01-01, Moscow time).
- BeiDou: B1C ICD 1.0, 2017, section 3.1 (24/3/1 at 55 degrees, three geostationary, three inclined). It gives no
  longitudes of nodes; 0 is used for the first plane, and 118 degrees east for the crossing of the inclined ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.gps_time import GpsTime
from parhelion.core.pose import Floats
from parhelion.sensors.waves.gnss.earth import EARTH_RATE_RAD_S

# ---- orbits ---------------------------------------------------------------------------------------------------------
# Satellites from broadcast ephemerides: Kepler elements with corrections to position, velocity and clock in ECEF.
# The closed form of IS-GPS-200 (20.3.3.4.3), which Galileo (OS SIS ICD 5.1.1) and BeiDou (B1I ICD 5.2.4.12) share with
# their own constants. Times are seconds of GPS time since the start of the week of the first row's reference time.


MU = {"G": 3.986005e14, "E": 3.986004418e14, "C": 3.986004418e14, "R": 3.986004418e14}
"""Gravitational constant of the Earth [m^3/s^2] by system."""
RATE = {"G": EARTH_RATE_RAD_S, "E": EARTH_RATE_RAD_S, "C": 7.2921150e-5, "R": 7.292115e-5}
"""Rotation rate of the Earth [rad/s] by system."""
FIT_S = {"G": 7201.0, "E": 10_801.0, "C": 7201.0, "R": 7201.0}
"""Validity of an ephemeris around its reference time [s]: GPS 4 h in total, Galileo and BeiDou as in RTKLIB."""
GEOSTATIONARY = {*range(1, 6), *range(59, 64)}
"""BeiDou satellites in geostationary orbit, whose elements refer to a plane tilted by 5 degrees."""
_TILT = np.radians(-5.0)
_KEPLER_STEPS = 12


@dataclass(frozen=True, eq=False)
class Ephemerides(Table):
    """Broadcast ephemerides, one per row; a satellite may have several rows. Units are SI and radians."""

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
    """Group delay of the first frequency [s]."""
    toe_second: Floats
    """Reference time of the orbit as second of its week, to which the longitude of the node refers [s]."""
    health: NDArray[np.int64]
    """0 is healthy."""
    fit_s: Floats
    """Validity before and after the reference time [s]."""
    accuracy_m: Floats
    """Broadcast range accuracy (URA, SISA) [m]."""

    @cached_property
    def constants(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Gravitational constant, rotation rate of the Earth, and flag of a tilted plane, per row."""
        letters = self.satellite.astype("U1").tolist()
        tilted = np.isin(self.satellite, [f"C{number:02d}" for number in GEOSTATIONARY])
        return np.array([MU[one] for one in letters]), np.array([RATE[one] for one in letters]), tilted

    @cached_property
    def healthy(self) -> dict[str, NDArray[np.int64]]:
        """Rows of healthy ephemerides by satellite."""
        found = {name: np.flatnonzero((self.satellite == name) & (self.health == 0)) for name in self.names}
        return {name: rows for name, rows in found.items() if len(rows)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the satellites, sorted."""
        return tuple(sorted(set(self.satellite.tolist())))

    def pick(self, times: Floats, names: tuple[str, ...]) -> NDArray[np.int64]:
        """Row of the nearest healthy ephemeris for each time (n,) and satellite (s,); -1 where none is valid."""
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
    """Position, velocity and clock of satellites, in the ECEF frame of the same time."""

    xyz: Floats
    """Position [m], shape (..., 3)."""
    velocity: Floats
    """Velocity in the rotating frame [m/s], shape (..., 3)."""
    clock: Floats
    """Clock bias [s] with the relativistic term, without the group delay of the first frequency."""
    clock_rate: Floats
    """Clock drift [s/s]."""


def eccentric_anomaly(mean: Floats, e: Floats) -> Floats:
    """Solve Kepler's equation M = E - e sin E by Newton's method; accurate to rounding for e up to 0.2."""
    found = mean + e * np.sin(mean)
    for _ in range(_KEPLER_STEPS):
        found = found - (found - e * np.sin(found) - mean) / (1.0 - e * np.cos(found))
    return np.asarray(found)


def states(eph: Ephemerides, row: NDArray[np.int64], times: Floats) -> SatelliteStates:
    """Satellite states for the ephemerides `row` at `times` [s], arrays of one shape; row -1 gives NaN."""
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
    """Position and velocity from polar coordinates in the orbital plane and the angles of the plane."""
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
    """BeiDou geostationary orbits: rotation by -5 degrees about x, then with the Earth (B1I ICD, table 5-11)."""
    c, s = np.cos(_TILT), np.sin(_TILT)

    def tilted(v: Floats) -> Floats:
        return np.stack([v[..., 0], c * v[..., 1] + s * v[..., 2], -s * v[..., 1] + c * v[..., 2]], axis=-1)

    cw, sw = np.cos(rate * tk), np.sin(rate * tk)

    def turned(v: Floats) -> Floats:
        return np.stack([cw * v[..., 0] + sw * v[..., 1], -sw * v[..., 0] + cw * v[..., 1], v[..., 2]], axis=-1)

    place, speed = turned(tilted(xyz)), turned(tilted(velocity))
    spin = np.stack([rate * place[..., 1], -rate * place[..., 0], np.zeros_like(rate)], axis=-1)
    return place, speed + spin


# ---- satellites -----------------------------------------------------------------------------------------------------


SYSTEMS = {"gps": "G", "galileo": "E", "glonass": "R", "beidou": "C"}
"""RINEX letters of the systems."""
GLONASS_CHANNEL = (1, -4, 5, 6, 1, -4, 5, 6, -2, -7, 0, -1, -2, -7, 0, -1, 4, -3, 3, 2, 4, -3, 3, 2)
"""Frequency channel of GLONASS slots 1 to 24; antipodal slots share one (ICD 5.1; the assignment of 2021)."""
REFRESH_S = 7200.0
"""Interval of the reference times [s], as for GPS."""

_J2, _EARTH_M = 1.0826359e-3, 6_378_137.0
_GPS_RAAN = {"A": 272.847, "B": 332.847, "C": 32.847, "D": 92.847, "E": 152.847, "F": 212.847}
_GPS_LATITUDE = {
    "A": (268.126, 161.786, 11.676, 41.806), "B": (80.956, 173.336, 309.976, 204.376),
    "C": (111.876, 11.796, 339.666, 241.556), "D": (135.226, 265.446, 35.156, 167.356),
    "E": (197.046, 302.596, 66.066, 333.686), "F": (238.886, 345.226, 105.206, 135.346),
}  # fmt: skip
"""Arguments of latitude [deg] of the slots of each plane."""
_BEIDOU_MEO = (*range(19, 31), *range(32, 38), *range(41, 47))


@dataclass(frozen=True)
class Slot:
    """One circular orbit at the epoch of its constellation."""

    name: str
    """Name of the satellite, for example 'G01'."""
    axis_m: float
    """Semi-major axis [m]."""
    inclination_deg: float
    """Inclination [deg]."""
    right_ascension_deg: float
    """Right ascension of the ascending node [deg]."""
    latitude_deg: float
    """Argument of latitude [deg]."""


def _walker(
    names: Iterable[str], axis: float, tilt: float, planes: int, node: float, first: float, phase: float
) -> list[Slot]:
    """Walker constellation; `phase` [deg] is the lead of the slots of a plane over those of the previous plane."""
    satellites = list(names)
    each = len(satellites) // planes
    slots = []
    for k, name in enumerate(satellites):
        plane, place = divmod(k, each)
        latitude = first + phase * plane + 360.0 / each * place
        slots.append(Slot(name, axis, tilt, node + 360.0 / planes * plane, latitude))
    return slots


def _gps() -> tuple[datetime, list[Slot]]:
    slots = [
        Slot(f"G{4 * p + k + 1:02d}", 26_559_700.0, 55.0, _GPS_RAAN[plane], latitude)
        for p, plane in enumerate(_GPS_RAAN)
        for k, latitude in enumerate(_GPS_LATITUDE[plane])
    ]
    return datetime(1993, 7, 1, tzinfo=timezone.utc), slots


def _galileo() -> tuple[datetime, list[Slot]]:
    names = (f"E{k:02d}" for k in range(1, 25))
    return datetime(2016, 11, 21, tzinfo=timezone.utc), _walker(names, 29_599_801.0, 56.0, 3, 317.632, 225.153, 15.0)


def _glonass() -> tuple[datetime, list[Slot]]:
    # Longitudes of the nodes refer to midnight in Moscow, three hours before midnight UTC.
    slots = [
        Slot(
            f"R{j:02d}",
            25_508_200.0,
            64.8,
            215.25 + 120.0 * ((j - 1) // 8),
            145.0 + 26.0 / 60.0 + 37.0 / 3600.0 + 15.0 * (27 - 3 * j + 25 * ((j - 1) // 8)),
        )
        for j in range(1, 25)
    ]
    return datetime(1982, 12, 31, 21, tzinfo=timezone.utc), slots


def _beidou() -> tuple[datetime, list[Slot]]:
    epoch = datetime(2020, 1, 1, tzinfo=timezone.utc)
    spin = sidereal_deg(GpsTime.of(epoch))
    slots = _walker((f"C{k:02d}" for k in _BEIDOU_MEO), 27_906_100.0, 55.0, 3, 0.0, 0.0, 15.0)
    for k in range(3):
        # Figure of eight over 118 degrees east: latitude and node move in opposite directions.
        slots.append(Slot(f"C{38 + k}", 42_164_170.0, 55.0, spin + 118.0 + 120.0 * k, -120.0 * k))
    for k, longitude in enumerate((80.0, 110.5, 140.0)):
        slots.append(Slot(f"C{59 + k}", 42_164_170.0, 0.0, spin, longitude))
    return epoch, slots


_SLOTS = {"gps": _gps, "galileo": _galileo, "glonass": _glonass, "beidou": _beidou}


def sidereal_deg(time: GpsTime) -> float:
    """Greenwich mean sidereal time [deg] (Meeus 1998, eq. 12.4, without its small quadratic terms)."""
    days = time.since(GpsTime.of(datetime(2000, 1, 1, 12, tzinfo=timezone.utc)))
    return (280.46061837 + 360.98564736629 * days / 86_400.0) % 360.0


def nominal(systems: Sequence[str], epoch: GpsTime) -> Ephemerides:
    """Nominal constellations of the given systems as ephemerides; times count from the start of the epoch's week."""
    if not systems:
        raise ConfigError("constellations: name at least one of " + ", ".join(_SLOTS))
    parts = []
    for system in systems:
        if system not in _SLOTS:
            raise unknown_name("constellation", system, _SLOTS)
        began, slots = _SLOTS[system]()
        parts.append(_ephemerides(slots, GpsTime.of(began), epoch))
    return Ephemerides.joined(parts)


def _ephemerides(slots: list[Slot], began: GpsTime, epoch: GpsTime) -> Ephemerides:
    """Slots propagated to the last reference time before the epoch, with the nodal drift due to J2."""
    toe = np.floor(epoch.second / REFRESH_S) * REFRESH_S
    after = GpsTime(epoch.week, toe).since(began)
    a = np.array([slot.axis_m for slot in slots])
    tilt, node, latitude = (
        np.radians([getattr(slot, name) for slot in slots])
        for name in ("inclination_deg", "right_ascension_deg", "latitude_deg")
    )
    mu = np.array([MU[slot.name[0]] for slot in slots])
    rate = np.array([RATE[slot.name[0]] for slot in slots])
    n = np.sqrt(mu / a**3)
    drift = -1.5 * _J2 * (_EARTH_M / a) ** 2 * n * np.cos(tilt)  # first order in J2
    still = a > 42e6  # station keeping holds these at their longitudes
    drift = np.where(still, 0.0, drift)
    dn = np.where(still, rate - n, 0.0)
    turned = np.radians(sidereal_deg(GpsTime(epoch.week, 0.0)))
    spun = np.radians(sidereal_deg(began))
    # Longitude of the node at the start of the week; geosynchronous orbits rotate with the Earth.
    longitude = np.where(still, node - spun + rate * toe, node + drift * after - turned + (rate - RATE["G"]) * toe)
    m0 = np.where(still, latitude, latitude + (n + dn) * after)
    tilted = np.array([slot.name[0] == "C" and int(slot.name[1:]) in GEOSTATIONARY for slot in slots])
    # Elements refer to a plane tilted by 5 degrees about the x axis; its node must reproduce the equator.
    longitude, m0 = longitude + np.pi * tilted, m0 - np.pi * tilted
    zero, count = np.zeros(len(slots)), len(slots)
    return Ephemerides(
        satellite=np.array([slot.name for slot in slots], dtype="U3"),
        toe=np.full(count, toe),
        toc=np.full(count, toe),
        root_a=np.sqrt(a),
        e=zero,
        m0=np.mod(m0, 2.0 * np.pi),
        dn=dn,
        omega0=longitude,
        i0=np.where(tilted, np.radians(5.0), tilt),
        omega=zero,
        omega_dot=drift,
        i_dot=zero,
        cuc=zero,
        cus=zero,
        crc=zero,
        crs=zero,
        cic=zero,
        cis=zero,
        af0=zero,
        af1=zero,
        af2=zero,
        tgd=zero,
        toe_second=np.full(count, toe),
        health=np.zeros(count, np.int64),
        fit_s=np.full(count, np.inf),
        accuracy_m=np.full(count, 2.0),
    )


# ---- Signals: frequency, chip rate, modulation and RINEX code -------------------------------------------------------


@dataclass(frozen=True)
class OpenSignal:
    """One open signal of one system."""

    frequency_hz: float
    chip_rate_hz: float
    boc: bool
    """True for BOC(1,1), False for BPSK."""
    code: str
    """RINEX 3 band and attribute."""
    channel_hz: float = 0.0
    """Channel spacing of GLONASS [Hz]."""


SIGNALS: dict[str, dict[str, OpenSignal]] = {
    "L1": {
        "G": OpenSignal(1_575.42e6, 1.023e6, False, "1C"),
        "E": OpenSignal(1_575.42e6, 1.023e6, True, "1C"),
        "C": OpenSignal(1_575.42e6, 1.023e6, True, "1P"),
        "R": OpenSignal(1_602.0e6, 0.511e6, False, "1C", 562.5e3),
    },
    "L2": {
        "G": OpenSignal(1_227.60e6, 1.023e6, False, "2L"),
        "E": OpenSignal(1_207.14e6, 10.23e6, False, "7Q"),
        "C": OpenSignal(1_207.14e6, 10.23e6, False, "7D"),
        "R": OpenSignal(1_246.0e6, 0.511e6, False, "2C", 437.5e3),
    },
    "L5": {
        "G": OpenSignal(1_176.45e6, 10.23e6, False, "5Q"),
        "E": OpenSignal(1_176.45e6, 10.23e6, False, "5Q"),
        "C": OpenSignal(1_176.45e6, 10.23e6, False, "5P"),
    },
}
"""Signals by band and system: IS-GPS-200 and 705, Galileo OS SIS ICD, BeiDou B1C, B2a and B2b ICDs, GLONASS ICD 5.1.
The second band of a receiver with L2 is E5b for Galileo and B2b for BeiDou, as in u-blox receivers."""
BANDS = {"L1": 1_575.42e6, "L2": 1_227.60e6, "L5": 1_176.45e6}
"""Representative frequency [Hz] of each band, used for material properties."""


@dataclass(frozen=True, eq=False)
class BandOfSatellites:
    """Signals of satellites in one band, arrays of shape (s,); NaN for satellites without a signal in this band."""

    frequency_hz: Floats
    chip_m: Floats
    boc: NDArray[np.bool_]

    @property
    def wavelength_m(self) -> Floats:
        """Wavelengths [m]."""
        return SPEED_OF_LIGHT_M_S / self.frequency_hz


def channel_of(satellite: str) -> int:
    """Frequency channel of a GLONASS satellite; 0 for others."""
    return GLONASS_CHANNEL[int(satellite[1:]) - 1] if satellite[0] == "R" else 0


WITHOUT: dict[str, frozenset[str]] = {
    "L1": frozenset(),
    "L2": frozenset(f"G{number:02d}" for number in (2, 13, 16, 19, 20, 21, 22)),
    "L5": frozenset(f"G{number:02d}" for number in (2, 5, 7, 12, 13, 15, 16, 17, 19, 20, 21, 22, 29, 31)),
}
"""GPS satellites without the civil signal of a band in 2024: L2C needs block IIR-M or later, L5 block IIF or later."""


def band_of(band: str, satellites: tuple[str, ...], single_band: Sequence[str] = ()) -> BandOfSatellites:
    """Return the signals of satellites in a band; of systems in `single_band`, those in L1 only."""
    if band not in SIGNALS:
        raise ConfigError(f"bands: must be of {', '.join(SIGNALS)}, got {band!r}")
    frequency, chip, boc = [], [], []
    for name in satellites:
        signal = SIGNALS[band].get(name[0])
        if name in WITHOUT[band] or (band != "L1" and name[0] in {SYSTEMS[one] for one in single_band}):
            signal = None
        frequency.append(np.nan if signal is None else signal.frequency_hz + channel_of(name) * signal.channel_hz)
        chip.append(np.nan if signal is None else SPEED_OF_LIGHT_M_S / signal.chip_rate_hz)
        boc.append(signal is not None and signal.boc)
    return BandOfSatellites(np.array(frequency), np.array(chip), np.array(boc))
