"""Pictures of the page on water: a wind sea, its spectrum, Gerstner's profile, and a vessel in waves."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, finish, sheet
from scipy.signal import welch

import parhelion as ph
from parhelion.motion.drivers import drive
from parhelion.motion.sea_spectrum import jonswap
from parhelion.motion.vehicles import ThrustCommand, vehicle
from parhelion.motion.water import GerstnerWater, GerstnerWave, OceanWater


def draw_sea(figure: Any, axes: Any) -> None:
    """Heights of a sea under a fresh breeze."""
    water = OceanWater(10.0, 100e3, seed=3, direction_deg=20.0)
    vertices, _ = water.mesh(0.0, (0.0, 0.0), 240.0, 80)
    x, y, z = np.moveaxis(vertices.reshape(81, 81, 3), -1, 0)
    picture = axes.pcolormesh(x, y, z, cmap="Blues_r", vmin=-1.6, vmax=1.6, shading="nearest", rasterized=True)
    axes.set_aspect("equal")
    axes.set(xlabel="x [m]", ylabel="y [m]", title=f"10 m/s over 100 km: H_s = {water.significant_height_m:.2f} m")
    figure.colorbar(picture, ax=axes, label="height [m]", shrink=0.85)


def draw_spectrum(axes: Any) -> None:
    """Record of a buoy, against the requested spectrum."""
    times = np.arange(0.0, 6000.0, 0.5)
    for depth, colour, label in ((np.inf, BLUE, "deep"), (8.0, GREEN, "8 m deep")):
        water = OceanWater(10.0, 100e3, seed=5, components=512, depth_m=depth)
        waves = water.components
        record = np.cos(waves.phase_rad - np.outer(times, waves.omega_rad_s)) @ waves.amplitude_m
        frequency, density = welch(record, fs=2.0, nperseg=512)
        omega = np.linspace(0.4, 3.0, 400)
        axes.plot(omega, jonswap(omega, 10.0, 100e3, depth), color=colour, label=f"JONSWAP, {label}")
        axes.plot(2 * np.pi * frequency, density / (2 * np.pi), "o", color=colour, markersize=3, alpha=0.6)
    axes.plot([], [], "o", color=GREY, markersize=3, label="100 minutes at one place")
    axes.set(xlabel="ω [rad/s]", ylabel="S [m² s]", title="Spectrum", xlim=(0.4, 3.0))
    axes.legend(fontsize=8)


def draw_profile(axes: Any) -> None:
    """Trochoids of three steepnesses."""
    x = np.linspace(0.0, 40.0, 801)
    for steepness, colour in ((0.2, BLUE), (0.44, GREEN), (0.85, ORANGE)):
        water = GerstnerWater([GerstnerWave(steepness * 20.0 / (2 * np.pi), 20.0)])
        axes.plot(x, water.height(x, 0.0, 0.0), color=colour, label=f"k A = {steepness:g}")
    axes.set(xlabel="x [m]", ylabel="height [m]", title="Gerstner's waves, 20 m long")
    axes.legend(fontsize=8, loc="lower right")


def draw_vessel(axes: Any) -> None:
    """AURORA drifting in a chop from the side and from ahead."""
    water = OceanWater(6.0, 3000.0, seed=2, depth_m=4.0)
    for heading, colour, label in ((90.0, BLUE, "from the side"), (180.0, ORANGE, "from ahead")):
        one = vehicle("dlr/aurora", water=water)
        one.reset(ph.Pose(rpy_deg=(0, 0, heading)))
        state = drive(one, ThrustCommand(0.0, 0.0), 30.0, 0.05).recorded
        roll = [ph.Pose(quat_xyzw=q).rpy_deg[0] for q in state.quat_xyzw]
        axes.plot(state.time, roll, color=colour, label=label, linewidth=1.0)
    title = f"AURORA's roll, H_s = {100 * water.significant_height_m:.0f} cm, {water.peak_period_s:.1f} s"
    axes.set(xlabel="time [s]", ylabel="roll [°]", title=title)
    axes.legend(fontsize=8)


if __name__ == "__main__":
    figure, panels = sheet(15.0, 3.6, 4, width_ratios=(1.15, 1.0, 1.0, 1.0))
    draw_sea(figure, panels[0])
    draw_spectrum(panels[1])
    draw_profile(panels[2])
    draw_vessel(panels[3])
    finish(figure, "water")
