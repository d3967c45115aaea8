"""Velodyne models with packets: lasers in the order of the packet, their firing times, units and codes.

Sources: user manuals VLP-16 63-9243, VLP-32C 63-9325 and HDL-32E 63-9113 with the application note 63-9277 on the
HDL-32E's packets and timing. Angles are the maker's nominal ones; calibrated units differ by about 0.01 deg.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, unknown_name
from parhelion.makers import spinning
from parhelion.makers.codec import ShotPattern

RETURN_MODES = {"strongest": 0x37, "last": 0x38, "dual": 0x39}
"""First factory byte."""
RECORDS_PER_BLOCK = 32
BLOCKS_PER_PACKET = 12


@dataclass(frozen=True)
class VelodyneModel(spinning.Lasers):
    """Packet format of one model."""

    product: int
    """Second factory byte."""
    fire_step_us: float
    """Time between firings within a sequence."""
    fired_together: int
    """Lasers in one firing."""
    focus_mm: float
    """Distance from the axis at which all beams cross the horizontal plane through the optical centre."""
    azimuth_deg: tuple[float, ...] | None = None
    """Azimuth of each laser relative to the head, counter-clockwise as seen from above."""

    @property
    def sequences_per_block(self) -> int:
        """Firing sequences that share one azimuth."""
        return RECORDS_PER_BLOCK // self.channels

    def sequences_per_packet(self, dual: bool) -> int:
        """Firing sequences per packet; half as many in dual mode."""
        return BLOCKS_PER_PACKET * self.sequences_per_block // (2 if dual else 1)

    @property
    def farthest_m(self) -> float:
        """Longest range that the 16-bit distance field can represent [m]."""
        return 65535 * self.unit_m

    @cached_property
    def fire_time_s(self) -> NDArray[np.float64]:
        """See `Lasers.fire_time_s`."""
        firing = np.arange(self.channels) // self.fired_together
        return firing.astype(np.float64) * (self.fire_step_us * 1e-6)

    @cached_property
    def offset_deg(self) -> NDArray[np.float64]:
        """See `Lasers.offset_deg`."""
        return np.zeros(self.channels) if self.azimuth_deg is None else np.asarray(self.azimuth_deg, np.float64)

    @cached_property
    def height_m(self) -> NDArray[np.float64]:
        """Height at which each beam leaves the axis [m], shape (channels,)."""
        return -self.focus_mm * 1e-3 * np.tan(np.radians(self.elevation_deg))


_VLP_16 = tuple(float(v) for low in range(-15, 0, 2) for v in (low, low + 16))
# Two interleaved rows, 4/3 deg apart within a row.
_HDL_32E = (
    -30.67, -9.33, -29.33, -8.0, -28.0, -6.67, -26.67, -5.33, -25.33, -4.0, -24.0, -2.67, -22.67, -1.33, -21.33, 0.0,
    -20.0, 1.33, -18.67, 2.67, -17.33, 4.0, -16.0, 5.33, -14.67, 6.67, -13.33, 8.0, -12.0, 9.33, -10.67, 10.67,
)  # fmt: skip
_VLP_32C = (
    -25.0, -1.0, -1.667, -15.639, -11.31, 0.0, -0.667, -8.843, -7.254, 0.333, -0.333, -6.148, -5.333, 1.333, 0.667,
    -4.0, -4.667, 1.667, 1.0, -3.667, -3.333, 3.333, 2.333, -2.667, -3.0, 7.0, 4.667, -2.333, -2.0, 15.0, 10.333,
    -1.333,
)  # fmt: skip
_VLP_32C_AZIMUTH = (
    -1.4, 4.2, -1.4, 1.4, -1.4, 1.4, -4.2, 1.4, -1.4, 4.2, -1.4, 1.4, -4.2, 1.4, -4.2, 1.4, -1.4, 4.2, -1.4, 4.2,
    -4.2, 1.4, -1.4, 1.4, -1.4, 1.4, -1.4, 4.2, -4.2, 1.4, -1.4, 1.4,
)  # fmt: skip

_ALL = (
    VelodyneModel("velodyne/vlp-16", _VLP_16, 55.296, 0.002, 0x22, 2.304, 1, 41.91),
    VelodyneModel("velodyne/vlp-32c", _VLP_32C, 55.296, 0.004, 0x28, 2.304, 2, 42.40, _VLP_32C_AZIMUTH),
    VelodyneModel("velodyne/hdl-32e", _HDL_32E, 46.08, 0.002, 0x21, 1.152, 1, 28.95),
)
MODELS: dict[str, VelodyneModel] = {model.name: model for model in _ALL}
"""Models with packets, by the name of their preset."""


def velodyne_model(name: str | VelodyneModel) -> VelodyneModel:
    """Model by name; 'vlp-16' means 'velodyne/vlp-16'."""
    if isinstance(name, VelodyneModel):
        return name
    wanted = name.lower()
    wanted = wanted if "/" in wanted else f"velodyne/{wanted}"
    if wanted not in MODELS:
        raise unknown_name("Velodyne model with packets", name, MODELS)
    return MODELS[wanted]


def model_of_product(product: int, spacing_us: float | None = None) -> VelodyneModel:
    """Model with the product code of a packet's second factory byte.

    `spacing_us` is the time between packets, if known: early VLP-16 have the code of the HDL-32E and are identified by
    the spacing.
    """
    for model in _ALL:
        if model.product == product:
            slow = spacing_us is not None and abs(spacing_us - 24 * 55.296) < 5.0
            return MODELS["velodyne/vlp-16"] if slow and model.name == "velodyne/hdl-32e" else model
    known = ", ".join(f"0x{model.product:02x} ({model.name})" for model in _ALL)
    raise ConfigError(f"Velodyne packets: unknown product code 0x{product:02x}; known: {known}")


def matching_model(shots: ShotPattern) -> VelodyneModel:
    """Model whose packets can hold these shots; the error states the difference from each candidate."""
    return spinning.matching_model(shots, MODELS.values(), "Velodyne")
