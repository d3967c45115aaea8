"""Nominal constellations: circular orbits in the slots that the systems publish, as ephemerides.

They hold no satellite's true place on a day. What they hold is how many satellites stand how high over a place, and how
they move. Sources:

- GPS: SPS Performance Standard, 4th edition 2008, table 2.1-2 (24 slots, epoch 1993-07-01).
- Galileo: reference constellation of the European GNSS Service Centre (24/3/1, epoch 2016-11-21).
- GLONASS: ICD L1, L2, edition 5.1, 2008, section 3.3.1 (24 slots, epoch 1983-01-01, Moscow time).
- BeiDou: B1C ICD 1.0, 2017, section 3.1 (24/3/1 at 55 degrees, three geostationary, three inclined). It says no
  longitudes of nodes; 0 was taken for the first plane, and 118 degrees east for the crossing of the inclined ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

import numpy as np

from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.gps_time import GpsTime
from parhelion.sensors.gnss.orbits import GEOSTATIONARY, MU, RATE, Ephemerides

SYSTEMS = {"gps": "G", "galileo": "E", "glonass": "R", "beidou": "C"}
"""Letters of the systems, as RINEX has them."""
GLONASS_CHANNEL = (1, -4, 5, 6, 1, -4, 5, 6, -2, -7, 0, -1, -2, -7, 0, -1, 4, -3, 3, 2, 4, -3, 3, 2)
"""Frequency channel of GLONASS slots 1 to 24; antipodal slots share one (ICD 5.1; the assignment of 2021)."""
REFRESH_S = 7200.0
"""Reference times are whole multiples of this, as GPS's are."""

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
    axis_m: float
    """Semi-major axis."""
    inclination_deg: float
    right_ascension_deg: float
    """Of the ascending node."""
    latitude_deg: float
    """Argument of latitude."""


def _walker(
    names: Iterable[str], axis: float, tilt: float, planes: int, node: float, first: float, phase: float
) -> list[Slot]:
    """Even planes with even slots; `phase` [deg] is how much the slots of a plane lead those of the one before."""
    called = list(names)
    each = len(called) // planes
    slots = []
    for k, name in enumerate(called):
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
    # Node longitudes are told at midnight of Moscow, three hours before that of UTC.
    slots = [
        Slot(
            f"R{j:02d}", 25_508_200.0, 64.8, 215.25 + 120.0 * ((j - 1) // 8),
            145.0 + 26.0 / 60.0 + 37.0 / 3600.0 + 15.0 * (27 - 3 * j + 25 * ((j - 1) // 8)),
        )
        for j in range(1, 25)
    ]  # fmt: skip
    return datetime(1982, 12, 31, 21, tzinfo=timezone.utc), slots


def _beidou() -> tuple[datetime, list[Slot]]:
    epoch = datetime(2020, 1, 1, tzinfo=timezone.utc)
    spin = sidereal_deg(GpsTime.of(epoch))
    slots = _walker((f"C{k:02d}" for k in _BEIDOU_MEO), 27_906_100.0, 55.0, 3, 0.0, 0.0, 15.0)
    for k in range(3):
        # On a figure of eight over 118 degrees east: latitude and node move against each other.
        slots.append(Slot(f"C{38 + k}", 42_164_170.0, 55.0, spin + 118.0 + 120.0 * k, -120.0 * k))
    for k, longitude in enumerate((80.0, 110.5, 140.0)):
        slots.append(Slot(f"C{59 + k}", 42_164_170.0, 0.0, spin, longitude))
    return epoch, slots


_SLOTS = {"gps": _gps, "galileo": _galileo, "glonass": _glonass, "beidou": _beidou}


def sidereal_deg(time: GpsTime) -> float:
    """Greenwich mean sidereal time [deg]: the Earth's turn (Meeus 1998, eq. 12.4, without its small square terms)."""
    days = time.since(GpsTime.of(datetime(2000, 1, 1, 12, tzinfo=timezone.utc)))
    return (280.46061837 + 360.98564736629 * days / 86_400.0) % 360.0


def nominal(systems: Sequence[str], epoch: GpsTime) -> Ephemerides:
    """The constellations of some systems as ephemerides, with times counted from the start of the epoch's week."""
    if not systems:
        raise ConfigError("constellations: name at least one of " + ", ".join(_SLOTS))
    parts = []
    for system in systems:
        if system not in _SLOTS:
            raise unknown_name("constellation", system, _SLOTS)
        began, slots = _SLOTS[system]()
        parts.append(_ephemerides(slots, GpsTime.of(began), epoch))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.joined(part)
    return whole


def _ephemerides(slots: list[Slot], began: GpsTime, epoch: GpsTime) -> Ephemerides:
    """Slots carried on to the last reference time before the epoch, with the nodes' drift by the Earth's flattening."""
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
    still = a > 42e6  # stations keep these over their longitudes
    drift = np.where(still, 0.0, drift)
    dn = np.where(still, rate - n, 0.0)
    turned = np.radians(sidereal_deg(GpsTime(epoch.week, 0.0)))
    spun = np.radians(sidereal_deg(began))
    # Longitude of the node at the start of the week; those on stations turn with the Earth.
    longitude = np.where(still, node - spun + rate * toe, node + drift * after - turned + (rate - RATE["G"]) * toe)
    m0 = np.where(still, latitude, latitude + (n + dn) * after)
    tilted = np.array([slot.name[0] == "C" and int(slot.name[1:]) in GEOSTATIONARY for slot in slots])
    # Told in a plane tilted by 5 degrees about the x axis: its node is where the equator comes out again.
    longitude, m0 = longitude + np.pi * tilted, m0 - np.pi * tilted
    zero, count = np.zeros(len(slots)), len(slots)
    return Ephemerides(
        satellite=np.array([slot.name for slot in slots], dtype="U3"),
        toe=np.full(count, toe), toc=np.full(count, toe), root_a=np.sqrt(a), e=zero, m0=np.mod(m0, 2.0 * np.pi), dn=dn,
        omega0=longitude, i0=np.where(tilted, np.radians(5.0), tilt), omega=zero, omega_dot=drift, i_dot=zero,
        cuc=zero, cus=zero, crc=zero, crs=zero, cic=zero, cis=zero, af0=zero, af1=zero, af2=zero, tgd=zero,
        toe_second=np.full(count, toe), health=np.zeros(count, np.int64), fit_s=np.full(count, np.inf),
        accuracy_m=np.full(count, 2.0),
    )  # fmt: skip
