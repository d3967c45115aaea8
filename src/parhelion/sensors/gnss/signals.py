"""Signals of the systems: frequency, chip rate, shape of the code, and what RINEX calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.sensors.gnss.constellations import GLONASS_CHANNEL

BandName = Literal["L1", "L2", "L5"]


@dataclass(frozen=True)
class Signal:
    """One open signal of one system."""

    frequency_hz: float
    chip_rate_hz: float
    boc: bool
    """Whether its code is BOC(1,1), else BPSK."""
    code: str
    """Band and attribute as RINEX 3 has them."""
    channel_hz: float = 0.0
    """Step between the channels of GLONASS."""


SIGNALS: dict[str, dict[str, Signal]] = {
    "L1": {
        "G": Signal(1_575.42e6, 1.023e6, False, "1C"),
        "E": Signal(1_575.42e6, 1.023e6, True, "1C"),
        "C": Signal(1_575.42e6, 1.023e6, True, "1P"),
        "R": Signal(1_602.0e6, 0.511e6, False, "1C", 562.5e3),
    },
    "L2": {
        "G": Signal(1_227.60e6, 1.023e6, False, "2L"),
        "E": Signal(1_207.14e6, 10.23e6, False, "7Q"),
        "C": Signal(1_207.14e6, 10.23e6, False, "7D"),
        "R": Signal(1_246.0e6, 0.511e6, False, "2C", 437.5e3),
    },
    "L5": {
        "G": Signal(1_176.45e6, 10.23e6, False, "5Q"),
        "E": Signal(1_176.45e6, 10.23e6, False, "5Q"),
        "C": Signal(1_176.45e6, 10.23e6, False, "5P"),
    },
}
"""Signals by band and system: IS-GPS-200 and 705, Galileo OS SIS ICD, BeiDou B1C, B2a and B2b ICDs, GLONASS ICD 5.1.
The second band of a receiver with L2 is E5b for Galileo and B2b for BeiDou, as those of u-blox have it."""
BANDS = {"L1": 1_575.42e6, "L2": 1_227.60e6, "L5": 1_176.45e6}
"""One frequency [Hz] for each band, at which materials are looked up."""


@dataclass(frozen=True, eq=False)
class BandOfSatellites:
    """One band's signals of some satellites, arrays of shape (s,); NaN for satellites that have none there."""

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


def band_of(band: str, satellites: tuple[str, ...]) -> BandOfSatellites:
    """The signals of satellites in a band."""
    if band not in SIGNALS:
        raise ConfigError(f"bands: must be of {', '.join(SIGNALS)}, got {band!r}")
    frequency, chip, boc = [], [], []
    for name in satellites:
        signal = SIGNALS[band].get(name[0])
        frequency.append(np.nan if signal is None else signal.frequency_hz + channel_of(name) * signal.channel_hz)
        chip.append(np.nan if signal is None else SPEED_OF_LIGHT_M_S / signal.chip_rate_hz)
        boc.append(signal is not None and signal.boc)
    return BandOfSatellites(np.array(frequency), np.array(chip), np.array(boc))
