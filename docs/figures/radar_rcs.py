"""Cross-sections of a plate, a corner and a car by physical optics and by power: docs/images/radar-rcs.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREY, ORANGE, finish, sheet

import parhelion as ph
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.motion.actors import add_car
from parhelion.sensors.waves.radar.rcs import corner_m2, plate_m2

GHZ = 76.5
"""Frequency of the radar below [GHz]."""
WAVELENGTH = SPEED_OF_LIGHT_M_S / (GHZ * 1e9)


def corner(side: float) -> tuple[Any, Any]:
    """Three right triangles that open along x."""
    corners = side * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)
    forward = np.ones(3) / np.sqrt(3.0)
    left = np.cross([0.0, 0.0, 1.0], forward)
    left /= np.linalg.norm(left)
    return corners @ np.stack([forward, left, np.cross(forward, left)]).T, np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1]])


def published_car(azimuth: Any) -> Any:
    """3GPP TR 38.901 release 19, table 7.9.2.1-4 [dBsm]: a car as one point, without its spread of 3.4 dB."""
    sides = np.array([[0, 40.54, 15.52, 8.45], [90, 26.90, 20.75, 13.68], [180, 36.32, 14.56, 7.50]])
    centre, width, gain, depth = sides[np.argmin(np.abs(azimuth[:, None] - sides[:, 0]), axis=1)].T
    return gain - np.minimum(12.0 * ((azimuth - centre) / width) ** 2, depth)


def main() -> None:
    """Draw the picture."""
    radar = ph.Radar("continental/ars408-21-far")
    assert radar.config.frequency_ghz == GHZ
    figure, axes = sheet(13.0, 4.2, 3)
    angle = np.linspace(-8, 8, 161)
    plate = ph.shapes.board(0.1, 0.1, 1e-3)
    axes[0].plot(angle, 10 * np.log10(plate_m2(0.1, 0.1, np.radians(angle), WAVELENGTH)), color=GREY, lw=4, alpha=0.5)
    axes[0].plot(angle, radar.rcs(plate, 180 + angle).dbsm, color=BLUE)
    axes[0].plot(angle, radar.rcs(plate, 180 + angle, mode="power", rays=20_000).dbsm, color=ORANGE)
    axes[0].set(title="Plate, 0.1 m", xlabel="aspect [deg]", ylabel="cross-section [dBsm]", ylim=(-30, 22))
    wide = np.linspace(-50, 50, 101)
    peak = 10 * np.log10(corner_m2(0.1, WAVELENGTH))
    axes[1].axhline(peak, color=GREY, lw=4, alpha=0.5, label="closed form")
    axes[1].plot(wide, radar.rcs(corner(0.1), wide).dbsm, color=BLUE, label="physical optics")
    axes[1].plot(wide, radar.rcs(corner(0.1), wide, mode="power", rays=20_000).dbsm, color=ORANGE, label="power")
    axes[1].set(title="Corner of three triangles, 0.1 m", xlabel="azimuth [deg]", ylim=(-20, 22))
    axes[1].legend(fontsize=8, loc="lower center")
    around = np.linspace(0, 180, 181)
    car = add_car(ph.World(), ph.Pose())
    axes[2].plot(around, published_car(around), color=GREY, lw=4, alpha=0.5, label="3GPP TR 38.901")
    rough = np.linspace(0, 180, 61)
    axes[2].plot(rough, radar.rcs(car, rough, tubes_per_wavelength=0.7).dbsm, color=BLUE, lw=0.8)
    power = radar.rcs(car, around, mode="power", distance_m=50.0, rays=40_000)
    axes[2].plot(around, power.dbsm, color=ORANGE)
    axes[2].set(title="Car (sedan); power at 50 m", xlabel="azimuth, 0 is from ahead [deg]", ylim=(-45, 72))
    axes[2].legend(fontsize=8, loc="upper left")
    finish(figure, "radar-rcs")


if __name__ == "__main__":
    main()
