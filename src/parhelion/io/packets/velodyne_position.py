"""Velodyne position packets: 512 bytes with the time of the hour, the state of the clock and a GPRMC sentence.

Sources: VLP-16 user manual 63-9243, section on position packets; NMEA 0183 for the sentence. The HDL-32E's gyroscopes
and accelerometers, and the boards' temperatures, are left at 0.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.io.packets.velodyne import HOUR_US, Packets

POSITION_PORT = 8308
POSITION_PACKET = np.dtype(
    {
        "names": ["timestamp", "pps", "sentence"],
        "formats": ["<u4", "u1", "S128"],
        "offsets": [198, 202, 206],
        "itemsize": 512,
    }
)
"""Layout of a position packet; what has no name is 0."""
PPS_LOCKED = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def gprmc(utc_s: float, latitude_deg: float | None = None, longitude_deg: float | None = None) -> bytes:
    """The GPRMC sentence of a UTC time [s since 1970], of the last whole second; void where no place is given."""
    known = latitude_deg is not None and longitude_deg is not None
    latitude, longitude = (latitude_deg or 0.0, longitude_deg or 0.0) if known else (0.0, 0.0)
    if not (abs(latitude) <= 90.0 and abs(longitude) <= 180.0):
        raise ConfigError(
            f"position: latitude must be within -90 and 90 deg, longitude within -180 and 180 deg, "
            f"got {latitude} and {longitude}"
        )
    moment = _EPOCH + timedelta(seconds=int(np.floor(utc_s)))
    body = ",".join(
        [
            "GPRMC",
            moment.strftime("%H%M%S"),
            "A" if known else "V",
            _degrees_and_minutes(latitude, 2),
            "N" if latitude >= 0 else "S",
            _degrees_and_minutes(longitude, 3),
            "E" if longitude >= 0 else "W",
            "000.0",
            "000.0",
            moment.strftime("%d%m%y"),
            "000.0",
            "E",
        ]
    )
    total = int(np.bitwise_xor.reduce(np.frombuffer(body.encode("ascii"), np.uint8)))
    return f"${body}*{total:02X}\r\n".encode("ascii")


def _degrees_and_minutes(angle: float, digits: int) -> str:
    # In whole 1/10000 minutes first, so that 59.99999 minutes do not become 60.0000.
    whole, minutes = divmod(round(abs(angle) * 600000), 600000)
    return f"{whole:0{digits}d}{minutes / 10000:07.4f}"


def position_packets(
    time_s: NDArray[np.float64],
    *,
    epoch_s: float = 0.0,
    latitude_deg: float | None = None,
    longitude_deg: float | None = None,
) -> Packets:
    """One position packet at each time [s], on the clock whose 0 is `epoch_s` in UTC [s since 1970].

    The clock counts as locked to a pulse per second.
    """
    utc = epoch_s + np.asarray(time_s, np.float64)
    if not np.isfinite(utc).all():
        raise ConfigError("position packets: times must be finite")
    data = np.zeros(len(utc), POSITION_PACKET)
    data["timestamp"] = np.rint(utc * 1e6).astype(np.int64) % HOUR_US
    data["pps"] = PPS_LOCKED
    seconds, place = np.unique(np.floor(utc), return_inverse=True)
    sentences = np.array([gprmc(second, latitude_deg, longitude_deg) for second in seconds], "S128")
    data["sentence"] = sentences[place] if len(utc) else b""
    return Packets(np.asarray(time_s, np.float64), data)
