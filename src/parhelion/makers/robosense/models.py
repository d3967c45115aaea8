"""RoboSense models with packets: lasers, firing times, and the layout of MSOP and DIFOP packets.

Sources: decoders of RoboSense-LiDAR/rs_driver (`decoder_RS16`, `decoder_RS32`, `decoder_RSBP`, `decoder_RSHELIOS`,
`decoder_RSAIRY`, `decoder_RSM1`, `chan_angles`, `basic_attr`): identifiers, order and width of the fields, firing
times, exits of the beams, resolutions, return modes; user manuals of the RS-LiDAR-16 and RS-Helios for the angles.
Multi-byte numbers are big-endian. The MSOP packets carry neither angles nor, but for the Airy and M1, the return mode:
both are in the DIFOP packets, which the sensor sends to a port of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.makers.spinning import LaserHead

MSOP_ID_8 = bytes.fromhex("55aa050a5aa550a0")
"""Start of MSOP packets of the RS-16, RS-32 and Bpearl."""
MSOP_ID_4 = bytes.fromhex("55aa055a")
"""Start of MSOP packets of the Helios and Airy."""
M1_ID = bytes.fromhex("55aa5aa5")
DIFOP_ID = bytes.fromhex("a5ff005a11115555")
BLOCK_ID = b"\xff\xee"
SIZE, M1_SIZE, M1_DIFOP_SIZE = 1248, 1210, 256
RETURN_MODES = {"strongest": 0x01, "last": 0x02, "first": 0x03, "dual": 0x00}
"""Byte 300 of DIFOP packets of the spinning models."""

_RECORD = np.dtype([("distance", ">u2"), ("intensity", "u1")])
BLOCK = np.dtype([("id", "S2"), ("azimuth", ">u2"), ("records", _RECORD, (32,))])
MSOP = np.dtype(
    [
        ("start", "V20"), ("stamp", "u1", 10), ("lidar_type", "u1"), ("reserved_1", "u1", 7), ("temperature", "<u2"),
        ("reserved_2", "u1", 2), ("blocks", BLOCK, (12,)), ("index", "u1", 4), ("tail", ">u2"),
    ]
)  # fmt: skip
"""Layout of MSOP packets with 12 blocks of 32 channels."""
AIRY_BLOCK = np.dtype([("id", "S2"), ("azimuth", ">u2"), ("records", _RECORD, (48,))])
AIRY_MSOP = np.dtype(
    [
        ("start", "V8"), ("counts", "u1", 8), ("return_type", "u1", 2), ("reserved_1", "u1", 2), ("stamp", "u1", 10),
        ("reserved_2", "u1"), ("lidar_type", "u1"), ("lidar_mode", "u1"), ("reserved_3", "u1", 5),
        ("temperature", "<u2", 2), ("blocks", AIRY_BLOCK, (8,)), ("tail", "u1", 6), ("reserved_4", "u1", 16),
    ]
)  # fmt: skip
M1_CHANNEL = np.dtype(
    [("distance", ">u2"), ("pitch", ">u2"), ("yaw", ">u2"), ("intensity", "u1"), ("attribute", "u1"), ("spread", "u1")]
)
M1_BLOCK = np.dtype([("delay_us", "u1"), ("return_number", "u1"), ("channels", M1_CHANNEL, (5,))])
M1_MSOP = np.dtype(
    [
        ("id", "S4"), ("number", ">u2"), ("protocol", ">u2"), ("return_mode", "u1"), ("time_mode", "u1"),
        ("stamp", "u1", 10), ("reserved_1", "u1", 10), ("lidar_type", "u1"), ("temperature", "u1"),
        ("blocks", M1_BLOCK, (25,)), ("reserved_2", "u1", 3),
    ]
)  # fmt: skip
ANGLE = np.dtype([("sign", "u1"), ("value", ">u2")])
"""Angle of a laser in DIFOP packets [0.01 deg]; sign 0 is positive."""


@dataclass(frozen=True)
class RoboSenseModel:
    """Packets of one spinning model."""

    rotor: LaserHead
    """Lasers with nominal angles, or zeros if these are only in the DIFOP packets."""
    packet: np.dtype[Any]
    start: bytes
    lidar_type: int
    """Number of the model in its packets; unknown numbers of packets with an 8-byte start are not recognised."""
    sequences_per_block: int = 1
    blocks_per_sequence: int = 1
    utc_stamp: bool = False
    """True if the time stamp is in seconds and microseconds since 1970, False if it is a date since 2000."""
    pitch_at: int = 468
    """Place of the lasers' elevations in DIFOP packets; azimuths follow."""
    nominal: bool = False
    """True if `rotor` has nominal angles."""

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.rotor.name


_RS16_ELEVATION = tuple(float(v) for v in (*range(-15, 0, 2), *range(15, 0, -2)))
_RS16_FIRE_US = tuple(round(2.8 * laser, 1) for laser in range(16))
_RS32_FIRE_US = (
    0.0, 2.88, 5.76, 8.64, 11.52, 14.4, 17.28, 20.16, 23.04, 25.92, 28.8, 31.68, 34.56, 37.44, 40.32, 44.64,
    1.44, 4.32, 7.2, 10.08, 12.96, 15.84, 18.72, 21.6, 24.48, 27.36, 30.24, 33.12, 36.0, 38.88, 41.76, 46.08,
)  # fmt: skip
_BPEARL_FIRE_US = (
    0.0, 2.56, 5.12, 7.68, 10.24, 12.8, 15.36, 17.92, 25.68, 28.24, 30.8, 33.36, 35.92, 38.48, 41.04, 43.6,
    1.28, 3.84, 6.4, 8.96, 11.52, 14.08, 16.64, 19.2, 26.96, 29.52, 32.08, 34.64, 37.2, 39.76, 42.32, 44.88,
)  # fmt: skip
_HELIOS_ELEVATION = (
    15.0, 13.0, 11.0, 9.0, 7.0, 5.5, 4.0, 2.67, 1.33, 0.0, -1.33, -2.67, -4.0, -5.33, -6.67, -8.0, -10.0, -13.0, -16.0,
    -19.0, -22.0, -25.0, -28.0, -31.0, -34.0, -37.0, -40.0, -43.0, -46.0, -49.0, -52.0, -55.0,
)  # fmt: skip
_HELIOS_FIRE_US = (
    0.0, 1.57, 3.15, 4.72, 6.3, 7.87, 9.45, 11.36, 13.26, 15.17, 17.08, 18.99, 20.56, 22.14, 23.71, 25.29, 26.53, 27.77,
    29.01, 30.25, 31.49, 32.73, 33.98, 35.22, 36.46, 37.7, 38.94, 40.18, 41.42, 42.67, 43.91, 45.15,
)  # fmt: skip
_AIRY_FIRE_US = tuple(
    time for time in (0.0, 7.616, 16.184, 24.752, 33.32, 42.84, 52.36, 61.88, 71.4, 79.968, 88.536, 97.104)
    for _ in range(8)
)  # fmt: skip


def _without_angles(
    name: str, fire_time_us: tuple[float, ...], period_us: float, exit_m: float, height_m: float
) -> LaserHead:
    lasers = len(fire_time_us)
    return LaserHead(name, (0.0,) * lasers, period_us, 0.005, (0.0,) * lasers, fire_time_us, exit_m, height_m)


RS_16 = RoboSenseModel(
    LaserHead("robosense/rs-16", _RS16_ELEVATION, 55.5, 0.005, (0.0,) * 16, _RS16_FIRE_US, 0.03825),
    MSOP, MSOP_ID_8, 1, sequences_per_block=2, pitch_at=1165, nominal=True,
)  # fmt: skip
RS_32 = RoboSenseModel(_without_angles("robosense/rs-32", _RS32_FIRE_US, 55.52, 0.03997, 0.0), MSOP, MSOP_ID_8, 2)
BPEARL = RoboSenseModel(
    _without_angles("robosense/bpearl", _BPEARL_FIRE_US, 55.52, 0.01473, 0.09427), MSOP, MSOP_ID_8, 3
)
HELIOS = RoboSenseModel(
    LaserHead("robosense/helios-32", _HELIOS_ELEVATION, 55.56, 0.0025, (0.0,) * 32, _HELIOS_FIRE_US, 0.03498),
    MSOP, MSOP_ID_4, 6, utc_stamp=True, nominal=True,
)  # fmt: skip
AIRY = RoboSenseModel(
    # The beams leave 10.8 mm ahead and 3.75 mm beside the axis, 11.43 mm in all.
    _without_angles("robosense/airy", _AIRY_FIRE_US, 111.08, 0.01143, 0.06056),
    AIRY_MSOP, MSOP_ID_4, 0, blocks_per_sequence=2, utc_stamp=True,
)  # fmt: skip
SPINNING = {model.name: model for model in (RS_16, RS_32, HELIOS, BPEARL, AIRY)}
"""Spinning models with packets, by name. Only the RS-16 and the Helios have presets; the others are read."""
M1 = "robosense/m1"


def is_difop(payload: bytes) -> bool:
    """Return True for a DIFOP packet."""
    return payload[:8] == DIFOP_ID and len(payload) in (SIZE, M1_DIFOP_SIZE)


def is_m1(payload: bytes) -> bool:
    """Return True for an MSOP packet of an M1."""
    return len(payload) == M1_SIZE and payload[:4] == M1_ID


def spinning_model_of(payload: bytes) -> RoboSenseModel | None:
    """Model of an MSOP packet of a spinning sensor; None for other datagrams."""
    if len(payload) != SIZE:
        return None
    if payload[:8] == MSOP_ID_8 and payload[42:44] == BLOCK_ID:
        # Newer firmware repeats the model in the next byte.
        return next((one for one in (RS_16, RS_32, BPEARL) if one.lidar_type in (payload[30], payload[31])), None)
    if payload[:4] == MSOP_ID_4 and payload[42:44] == BLOCK_ID:
        # Blocks of the Helios have 100 bytes, those of the Airy 148.
        if payload[142:144] == BLOCK_ID:
            return HELIOS
        return AIRY if payload[190:192] == BLOCK_ID else None
    return None
