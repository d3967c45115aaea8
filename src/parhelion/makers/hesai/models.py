"""Hesai models with packets: lasers in the order of the packet, their firing times, and the layout of the packets.

Sources: user manuals of the Pandar40P, Pandar64, PandarXT-32 and PandarQT (tables of the point cloud data packet and of
angles and firing times); `hesai_packet.hpp`, `pandar_40.hpp`, `pandar_64.hpp`, `pandar_xt32.hpp` and `pandar_qt64.hpp`
of tier4/nebula (order of the fields, time of each block and laser relative to the time stamp). Angles are those of one
unit each; an angle correction file of the user's unit replaces them. Azimuths have their sign turned, since Hesai
counts clockwise. The block's azimuth is taken as that of the head at the start of its firing sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.makers.spinning import LaserHead

RETURN_MODES = {"last": 0x38, "strongest": 0x37, "first": 0x33, "dual": 0x39}
"""Codes that are written."""
MODE_NAMES = {0x33: "first", 0x34: "second", 0x37: "strongest", 0x38: "last"}
"""Names of single-return modes; all others hold two returns per shot."""

_STAMP = [("micro", "<u4")]
_DATE = [("date", "u1", 6)]
_MODE, _FACTORY, _SPEED = [("mode", "u1")], [("factory", "u1")], [("rpm", "<u2")]
_NUMBER = [("number", "<u4")]
_RESERVED = ("reserved_1", "u1", 9), ("hot", "u1")
_OLD_TAIL = [
    ("reserved_1", "u1", 5), ("hot", "u1"), ("reserved_2", "u1", 2), *_SPEED, *_STAMP, *_MODE, *_FACTORY, *_DATE,
]  # fmt: skip
_XT_TAIL = [*_RESERVED, *_MODE, *_SPEED, *_DATE, *_STAMP, *_FACTORY, *_NUMBER]
_QT_TAIL = [*_RESERVED, *_SPEED, *_STAMP, *_MODE, *_FACTORY, *_DATE, *_NUMBER]
_HEAD_8 = [
    ("start", "<u2"), ("lasers", "u1"), ("blocks_held", "u1"), ("reserved_0", "u1"), ("unit_mm", "u1"),
    ("reserved_00", "u1", 2),
]  # fmt: skip
_HEAD_12 = [
    ("start", "<u2"), ("major", "u1"), ("minor", "u1"), ("reserved_0", "u1", 2), ("lasers", "u1"),
    ("blocks_held", "u1"), ("first_return", "u1"), ("unit_mm", "u1"), ("returns", "u1"), ("flags", "u1"),
]  # fmt: skip
START = 0xFFEE
"""Start of packets with a header: the bytes EE FF; blocks of the Pandar40P start with FF EE."""


@dataclass(frozen=True)
class HesaiModel:
    """Packets of one model."""

    rotor: LaserHead
    packet: np.dtype[Any]
    """Layout of a packet with sequence number."""
    start_us: float
    """Start of the reference block's firing sequence after the time stamp [us]."""
    from_first: bool = False
    """True if the reference block is the first of the packet, False if it is the last."""
    year_zero: int = 1900
    head: tuple[tuple[str, int], ...] = ()
    """Fixed values of the header."""

    @property
    def blocks(self) -> int:
        """Blocks per packet."""
        return int(self.packet["blocks"].shape[0])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of a packet; older models omit the sequence number unless it is switched on."""
        size = self.packet.itemsize
        return (size,) if "flags" in (self.packet.names or ()) else (size, size - 4)


def _packet(head: list[Any], blocks: int, lasers: int, unit: int, tail: list[Any], sob: bool = False) -> np.dtype[Any]:
    record = [("distance", "<u2"), ("intensity", "u1"), ("confidence", "u1")][: unit - 1]
    block = [*([("flag", "<u2")] if sob else []), ("azimuth", "<u2"), ("records", np.dtype(record), (lasers,))]
    return np.dtype([*head, ("blocks", np.dtype(block), (blocks,)), *tail])


_40P_ELEVATION = (
    14.794, 10.944, 7.971, 4.969, 2.952, 1.94, 1.6, 1.263, 0.925, 0.587, 0.249, -0.088, -0.425, -0.763, -1.101,
    -1.439, -1.776, -2.116, -2.453, -2.788, -3.128, -3.463, -3.8, -4.138, -4.473, -4.808, -5.145, -5.479,
    -5.814, -6.149, -7.151, -8.147, -9.148, -10.133, -11.12, -12.094, -13.062, -14.018, -18.977, -24.985,
)  # fmt: skip
_40P_AZIMUTH = (
    1.042, 1.042, 1.042, 1.042, 1.042, 1.042, -3.125, 5.208, 1.042, -3.125, 5.208, 1.042, -3.125, 5.208, 1.042,
    -3.125, 5.208, 1.042, -3.125, 5.208, 1.042, -3.125, 5.208, 1.042, -3.125, 5.208, 1.042, -3.125, 5.208,
    1.042, 1.042, 1.042, 1.042, 1.042, 1.042, 1.042, 1.042, 1.042, 1.042, 1.042,
)  # fmt: skip
_40P_FIRE_US = (
    12.45, 26.2, 38.63, 51.05, 9.18, 22.93, 7.21, 0.0, 34.05, 20.96, 13.76, 46.48, 34.05, 27.51, 3.94, 46.48,
    39.93, 17.69, 9.18, 1.97, 30.78, 22.93, 15.72, 43.2, 36.02, 29.48, 5.91, 48.44, 41.9, 19.66, 32.75, 45.17,
    11.15, 24.9, 37.32, 49.75, 12.45, 26.2, 38.63, 51.05,
)  # fmt: skip
_64_ELEVATION = (
    14.838, 10.983, 8.003, 5.017, 3.022, 1.999, 1.813, 1.674, 1.509, 1.318, 1.14, 0.981, 0.801, 0.664, 0.506,
    0.307, 0.168, -0.024, -0.179, -0.348, -0.531, -0.722, -0.87, -1.044, -1.217, -1.355, -1.55, -1.716, -1.875,
    -2.058, -2.241, -2.376, -2.546, -2.732, -2.872, -3.087, -3.23, -3.389, -3.543, -3.757, -3.892, -4.094,
    -4.241, -4.425, -4.574, -4.75, -4.9, -5.09, -5.248, -5.425, -5.596, -5.78, -5.878, -6.109, -7.097, -8.09,
    -9.08, -10.084, -11.052, -12.018, -13.023, -13.951, -18.913, -24.883,
)  # fmt: skip
_64_AZIMUTH = (
    -1.091, -1.089, -1.087, -1.079, 1.123, 1.119, -5.525, -3.301, 3.347, -1.077, 5.545, 1.129, -5.52, -3.3,
    3.35, -1.074, 5.556, 1.122, -5.537, -3.301, 3.347, -1.075, 5.564, 1.133, -5.543, -3.314, 3.356, -1.082,
    5.566, 1.136, -5.552, -3.317, 3.359, -1.074, 5.572, 1.131, -5.557, -3.326, 3.366, -1.085, 5.583, 1.142,
    -5.571, -3.34, 3.365, -1.086, 5.588, 1.148, -5.581, -3.339, 3.371, -1.082, 5.607, 1.154, 1.149, 1.165,
    -1.103, -1.102, -1.107, -1.111, 1.174, 1.167, 1.16, 1.159,
)  # fmt: skip
_64_FIRE_US = (
    31.488, 32.792, 34.096, 35.4, 36.704, 38.008, 43.224, 7.872, 47.136, 17.712, 3.936, 0.0, 13.776, 9.84,
    23.616, 19.68, 5.904, 1.968, 15.744, 11.808, 25.584, 21.648, 7.872, 29.52, 17.712, 3.936, 27.552, 13.776,
    9.84, 23.616, 19.68, 5.904, 29.52, 15.744, 11.808, 25.584, 21.648, 1.968, 48.44, 0.0, 39.312, 27.552,
    44.528, 31.488, 49.744, 32.792, 40.616, 36.704, 45.832, 35.4, 51.048, 34.096, 41.92, 38.008, 47.136, 43.224,
    48.44, 39.312, 44.528, 49.744, 51.048, 40.616, 45.832, 41.92,
)  # fmt: skip
_QT64_ELEVATION = (
    -52.121, -49.785, -47.577, -45.477, -43.465, -41.528, -39.653, -37.831, -36.055, -34.32, -32.619, -30.95,
    -29.308, -27.69, -26.094, -24.517, -22.964, -21.42, -19.889, -18.372, -16.865, -15.368, -13.88, -12.399,
    -10.925, -9.457, -7.994, -6.535, -5.079, -3.626, -2.175, -0.725, 0.725, 2.175, 3.626, 5.079, 6.534, 7.993,
    9.456, 10.923, 12.397, 13.877, 15.365, 16.861, 18.368, 19.885, 21.415, 22.959, 24.524, 26.101, 27.697,
    29.315, 30.957, 32.627, 34.328, 36.064, 37.84, 39.662, 41.537, 43.475, 45.487, 47.587, 49.795, 52.133,
)  # fmt: skip
_QT64_AZIMUTH = (
    -8.736, -8.314, -7.964, -7.669, -7.417, -7.198, -7.007, -6.838, -6.688, -6.554, -6.434, -6.326, -6.228,
    -6.14, -6.059, -5.987, 5.27, 5.216, 5.167, 5.123, 5.083, 5.047, 5.016, 4.988, 4.963, 4.942, 4.924, 4.91,
    4.898, 4.889, 4.884, 4.881, -5.493, -5.496, -5.502, -5.512, -5.525, -5.541, -5.561, -5.584, -5.611, -5.642,
    -5.676, -5.716, -5.759, -5.808, -5.862, -5.921, 5.33, 5.396, 5.469, 5.55, 5.64, 5.74, 5.85, 5.974, 6.113,
    6.269, 6.447, 6.651, 6.887, 7.163, 7.493, 7.892,
)  # fmt: skip
_QT64_FIRE_US = (
    0.0, 2.06, 4.12, 6.18, 8.23, 10.29, 12.35, 14.4, 16.85, 18.91, 20.97, 23.03, 25.08, 27.14, 29.19, 31.25,
    34.3, 36.36, 38.42, 40.47, 42.53, 44.59, 46.64, 48.7, 51.14, 53.21, 55.27, 57.32, 59.38, 61.43, 63.49,
    65.55, 68.59, 70.66, 72.71, 74.77, 76.83, 78.88, 80.94, 82.99, 85.44, 87.51, 89.56, 91.62, 93.67, 95.73,
    97.79, 99.84, 102.89, 104.95, 107.01, 109.07, 111.12, 113.18, 115.23, 117.29, 119.74, 121.8, 123.86, 125.91,
    127.97, 130.03, 132.08, 134.14,
)  # fmt: skip
_XT32_ELEVATION = tuple(float(15 - laser) for laser in range(32))
_XT32_FIRE_US = tuple(round(1.512 * laser, 3) for laser in range(32))

_HELD = (("start", START), ("unit_mm", 4))
MODELS = {
    model.rotor.name: model
    for model in (
        HesaiModel(
            LaserHead("hesai/pandar40p", _40P_ELEVATION, 55.56, 0.004, _40P_AZIMUTH, _40P_FIRE_US),
            _packet([], 10, 40, 3, [*_OLD_TAIL, *_NUMBER], sob=True),
            -28.58 - 54.67,
            year_zero=2000,
        ),
        HesaiModel(
            LaserHead("hesai/pandar64", _64_ELEVATION, 55.56, 0.004, _64_AZIMUTH, _64_FIRE_US),
            _packet(_HEAD_8, 6, 64, 3, [*_OLD_TAIL, *_NUMBER]),
            -42.58 - 54.668,
            year_zero=2000,
            head=(*_HELD, ("lasers", 64), ("blocks_held", 6)),
        ),
        HesaiModel(
            LaserHead("hesai/xt32", _XT32_ELEVATION, 50.0, 0.004, (0.0,) * 32, _XT32_FIRE_US),
            _packet(_HEAD_12, 8, 32, 4, _XT_TAIL),
            5.632 + 0.368,
            head=(*_HELD, ("lasers", 32), ("blocks_held", 8), ("major", 6), ("minor", 1), ("flags", 1)),
        ),
        HesaiModel(
            LaserHead("hesai/qt64", _QT64_ELEVATION, 166.667, 0.004, _QT64_AZIMUTH, _QT64_FIRE_US),
            _packet(_HEAD_12, 4, 64, 4, _QT_TAIL),
            25.71 + 12.31,
            from_first=True,
            head=(*_HELD, ("lasers", 64), ("blocks_held", 4), ("major", 3), ("minor", 1), ("flags", 1)),
        ),
    )
}
"""Models with packets, by name. The Pandar40P and the QT64 have no preset; their recordings are read."""


def model_of(payload: bytes) -> HesaiModel | None:
    """Model of a point packet; None for other datagrams."""
    size = len(payload)
    for model in MODELS.values():
        if size not in model.sizes:
            continue
        if not model.head:
            step = model.packet["blocks"].base.itemsize
            if all(payload[at : at + 2] == b"\xff\xee" for at in range(0, model.blocks * step, step)):
                return model
        elif payload[:2] == b"\xee\xff":
            fields: Mapping[str, Any] = model.packet.fields or {}
            expected = dict(model.head)
            names = [name for name in ("lasers", "blocks_held", "major") if name in expected]
            if all(payload[fields[name][1]] == expected[name] for name in names):
                return model
    return None
