"""Layout of Ouster's packets: four lidar profiles and the IMU packet, as NumPy record types.

Sources: Ouster sensor data documentation (https://static.ouster.dev/sensor-docs/), checked byte by byte against
ouster-sdk 1.0.1. All numbers are little-endian.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, unknown_name

COLUMNS_PER_PACKET = 16
"""Measurement blocks in one lidar packet."""
ENCODER_TICKS = 90112
"""Encoder counts per revolution in LEGACY packets."""
MODES = {"512x10": (512, 10), "512x20": (512, 20), "1024x10": (1024, 10), "1024x20": (1024, 20)}
MODES |= {"2048x10": (2048, 10), "4096x5": (4096, 5)}
"""Modes by name: columns per revolution and revolutions per second."""
LIDAR_PACKET = 1
"""Packet type in the header of a lidar packet."""

IMU = np.dtype(
    [
        ("system_time", "<u8"), ("accelerometer_time", "<u8"), ("gyroscope_time", "<u8"),
        ("specific_force", "<f4", 3), ("angular_rate", "<f4", 3),
    ]
)  # fmt: skip
"""IMU packet, 48 bytes: times [ns], specific force [g], angular rate [deg/s]."""


@dataclass(frozen=True)
class Profile:
    """One layout of lidar packets."""

    name: str
    """Name in the sensor's setting `udp_profile_lidar`."""
    pixel: np.dtype[Any]
    """One channel of one column."""
    range_bits: int
    range_unit_mm: int
    """Step of the range field."""
    near_ir_unit: int = 1
    """Step of the near-infrared field [counts]."""
    returns: int = 1
    """Number of returns per pixel."""
    has_header: bool = True
    """True if packets have a header and a footer; LEGACY packets have neither."""

    @property
    def longest_m(self) -> float:
        """Longest range that the field can represent [m], from the axis."""
        return ((1 << self.range_bits) - 1) * self.range_unit_mm * 1e-3

    def of(self, quantity: str, number: int) -> str | None:
        """Name of the pixel's field for a quantity of return 0 or 1; None if the profile lacks it."""
        name = quantity if number == 0 else f"{quantity}_2"
        return name if name in (self.pixel.names or ()) else None


def _pixel(size: int, **fields: tuple[Any, int]) -> np.dtype[Any]:
    """Record type of `size` bytes from the type and offset of each field."""
    return np.dtype(
        {
            "names": list(fields),
            "formats": [kind for kind, _ in fields.values()],
            "offsets": [offset for _, offset in fields.values()],
            "itemsize": size,
        }
    )


_SINGLE = {"range": ("<u4", 0), "reflectivity": ("u1", 4), "signal": ("<u2", 6), "near_ir": ("<u2", 8)}
# Ranges and reflectivities share words: the range is written first, because writing it clears the word's upper byte.
_DUAL = {
    "range": ("<u4", 0), "reflectivity": ("u1", 3), "range_2": ("<u4", 4), "reflectivity_2": ("u1", 7),
    "signal": ("<u2", 8), "signal_2": ("<u2", 10), "near_ir": ("<u2", 12),
}  # fmt: skip
_LOW = {"range": ("<u2", 0), "reflectivity": ("u1", 2), "near_ir": ("u1", 3)}

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("LEGACY", _pixel(12, **_SINGLE), 20, 1, has_header=False),
        Profile("RNG19_RFL8_SIG16_NIR16", _pixel(12, **_SINGLE), 19, 1),
        Profile("RNG19_RFL8_SIG16_NIR16_DUAL", _pixel(16, **_DUAL), 19, 1, returns=2),
        Profile("RNG15_RFL8_NIR8", _pixel(4, **_LOW), 15, 8, near_ir_unit=16),
    )
}
"""Lidar profiles by name."""


def profile_called(name: str) -> Profile:
    """Lidar profile by name."""
    if name not in PROFILES:
        raise unknown_name("Ouster lidar profile", name, PROFILES)
    return PROFILES[name]


@cache
def packet_type(profile: str, channels: int) -> np.dtype[Any]:
    """Record type of one lidar packet: header, 16 columns of `channels` pixels, footer."""
    kind = profile_called(profile)
    if not 1 <= channels <= 128:
        raise ConfigError(f"Ouster packets: a column has 1 to 128 channels, got {channels}")
    pixels = kind.pixel.itemsize * channels
    if kind.has_header:
        column = _pixel(12 + pixels, time=("<u8", 0), number=("<u2", 8), status=("<u2", 10))
        column = _with(column, "pixels", (kind.pixel, (channels,)), 12)
        body = column.itemsize * COLUMNS_PER_PACKET
        packet = _pixel(
            32 + body + 32,
            type=("<u2", 0),
            frame=("<u2", 2),
            initialisation=("3u1", 4),
            serial=("5u1", 7),
            alerts=("u1", 12),
            shutdown_countdown=("u1", 16),
            limiting_countdown=("u1", 17),
            shutdown=("u1", 18),
            limiting=("u1", 19),
            checksum=("<u8", 32 + body + 24),
        )
        return _with(packet, "columns", (column, (COLUMNS_PER_PACKET,)), 32)
    column = _pixel(
        16 + pixels + 4,
        time=("<u8", 0),
        number=("<u2", 8),
        frame=("<u2", 10),
        encoder=("<u4", 12),
        status=("<u4", 16 + pixels),
    )
    column = _with(column, "pixels", (kind.pixel, (channels,)), 16)
    return np.dtype([("columns", column, (COLUMNS_PER_PACKET,))])


def _with(base: np.dtype[Any], name: str, kind: Any, offset: int) -> np.dtype[Any]:
    """Record type with one more field at an offset."""
    assert base.fields is not None
    fields = {key: (value[0], value[1]) for key, value in base.fields.items()}
    return _pixel(base.itemsize, **fields, **{name: (np.dtype(kind), offset)})


# ---- checksum -------------------------------------------------------------------------------------------------------
# Packets end with a CRC-64/XZ, computed for many packets at once.
# Polynomial 0x42F0E1EBA9EA3693, bits reflected, start and end inverted: the same as in .xz files. A CRC is linear over
# single bits, so words are processed independently and combined in pairs; only the pairing is sequential.

Words = NDArray[np.uint64]

_POLYNOMIAL = np.uint64(0xC96C5795D7870F42)  # reflected
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


def crc64(messages: NDArray[np.uint8]) -> Words:
    """CRC of each row, shape (n,). Rows are of equal length, at least 8 bytes."""
    count, size = messages.shape
    # Leading zeros do not change a CRC that starts at zero, so rows are padded to a power of two of words.
    words = 1 << max(0, (-(-size // 8) - 1).bit_length())
    padded = np.zeros((count, words * 8), np.uint8)
    padded[:, words * 8 - size :] = messages
    # A start value of all ones is equivalent to inverting the first eight bytes.
    padded[:, words * 8 - size : words * 8 - size + 8] ^= 0xFF
    state = _apply(_advance(0), padded.view("<u8"))
    level = 0
    while state.shape[1] > 1:
        state = _apply(_advance(level), state[:, 0::2]) ^ state[:, 1::2]
        level += 1
    return state[:, 0] ^ _ALL_ONES


def _apply(tables: Words, states: NDArray[np.uint64]) -> Words:
    """Apply a linear map of 64 bits, given as eight tables of one byte each."""
    lanes = np.ascontiguousarray(states).view(np.uint8).reshape(*states.shape, 8)
    result = np.take(tables[0], lanes[..., 0])
    for lane in range(1, 8):
        result ^= np.take(tables[lane], lanes[..., lane])
    return result


@cache
def _advance(level: int) -> Words:
    """Tables of the effect of 2**level zero words on the state, shape (8, 256)."""
    bits = np.uint64(1) << np.arange(64, dtype=np.uint64)
    if level == 0:
        images = bits
        for _ in range(64):
            images = (images >> np.uint64(1)) ^ np.where(images & np.uint64(1), _POLYNOMIAL, np.uint64(0))
    else:
        half = _advance(level - 1)
        images = _apply(half, _apply(half, bits))
    tables = np.zeros((8, 256), np.uint64)
    byte = np.arange(256)
    for bit in range(8):
        tables ^= np.where(byte >> bit & 1, images[bit::8, None], np.uint64(0))
    tables.setflags(write=False)
    return tables
