"""What the receiver gets over each link, before its own errors: arrival, strength and line of sight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.pose import Floats
from parhelion.sensors.uwb.channel import arrival_sigma, effective_bandwidth, first_path, noise_dbm, received_gain
from parhelion.sensors.uwb.config import UwbConfig
from parhelion.sensors.uwb.paths import Paths


@dataclass(frozen=True, eq=False)
class Links:
    """Links of n measurements to a anchors; NaN where nothing was received."""

    arrival_m: Floats
    """Length [m] by the arrival time of what passes for the first path, shape (n, a)."""
    snr: Floats
    """Power of that over the noise of the impulse response, a ratio, shape (n, a)."""
    rssi_dbm: Floats
    """Received power over the band [dBm], shape (n, a)."""
    los: NDArray[np.bool_]
    """Whether the direct path meets nothing, shape (n, a)."""


def sent_dbm(sheet: UwbConfig) -> float:
    """Transmitted power with the gain of both antennas [dBm]."""
    return sheet.tx_power_dbm + sheet.antenna_gain_dbi


def response_noise_dbm(sheet: UwbConfig) -> float:
    """Noise power of the impulse response [dBm]: the receiver's, less what adding up symbols gains."""
    return noise_dbm(sheet.bandwidth_hz, sheet.noise_figure_db) - sheet.processing_gain_db


def links_of(paths: Paths, count: int, anchors: int, sheet: UwbConfig) -> Links:
    """Links of `count` measurements to `anchors` anchors, from all their paths."""
    arrival, snr, rssi = (np.full((count, anchors), np.nan) for _ in range(3))
    los = np.zeros((count, anchors), bool)
    direct = (paths.order == 0) & (paths.surfaces == 0) & (paths.edges == 0)
    los[paths.sample[direct], paths.anchor[direct]] = True
    sent, noise = sent_dbm(sheet), response_noise_dbm(sheet)
    least = 10.0 ** ((noise + sheet.threshold_db - sent) / 10.0)
    number = paths.sample * anchors + paths.anchor
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    for first, last in zip(starts, [*starts[1:], len(number)], strict=False):
        delay, gain = paths.delay[first:last], paths.gain[first:last]
        power = received_gain(delay, gain, sheet.bandwidth_hz)
        strength = sent + 10.0 * np.log10(max(power, 1e-40))
        if strength < sheet.sensitivity_dbm:
            continue
        at = int(paths.sample[first]), int(paths.anchor[first])
        if sheet.method == "rssi":
            rssi[at], snr[at], arrival[at] = strength, 10.0 ** ((strength - noise) / 10.0), paths.length[first]
            continue
        found = first_path(delay, gain, sheet.bandwidth_hz, sheet.roll_off, least, sheet.dynamic_range_db)
        if found is None or found.delay_s * SPEED_OF_LIGHT_M_S > sheet.max_range_m:
            continue
        arrival[at], rssi[at] = found.delay_s * SPEED_OF_LIGHT_M_S, strength
        snr[at] = found.power * 10.0 ** ((sent - noise) / 10.0)
    return Links(arrival, snr, rssi, los)


def arrival_sigma_m(links: Links, sheet: UwbConfig) -> Floats:
    """Standard deviation [m] of each arrival by noise, shape (n, a)."""
    ratio = np.where(np.isfinite(links.snr), links.snr, 1.0)
    sigma = SPEED_OF_LIGHT_M_S * arrival_sigma(ratio, effective_bandwidth(sheet.bandwidth_hz, sheet.roll_off))
    return np.where(np.isfinite(links.snr), sigma, np.nan)
