"""Recorded and simulated radar: docs/images/radar-real.png. Needs ../shared/data (radar_ti_adc, nebula_packets)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from page import BLUE, GREY, ORANGE, finish, sheet

import parhelion as ph
from parhelion.core.config import parse
from parhelion.core.frames import AdcFrame
from parhelion.motion.actors import add_person
from parhelion.sensors.waves.radar.config import RadarConfig

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
RANGE_M, SPEED_M_S = 0.0488, 0.0823
"""Cells of the recording: 3072 MHz in 51.2 us, 128 ramps every 184 us at 77.42 GHz."""


def recorded() -> Any:
    """Recorded samples; the file holds 16-bit words as unsigned numbers."""
    raw = np.load(DATA / "radar_ti_adc" / "doppler_example_1.npy")
    real, imaginary = (part.astype(np.uint16).view(np.int16).astype(np.float32) for part in (raw.real, raw.imag))
    return AdcFrame((real + 1j * imaginary).astype(np.complex64), RANGE_M, SPEED_M_S)


def ti_radar() -> RadarConfig:
    """The radar of the recording, with the antennas and the leakage of the 60 GHz preset."""
    data = ph.Radar("ti/iwr6843").config.model_dump(mode="python")
    data |= {"name": "TI 77 GHz, 8 channels", "frequency_ghz": 77.42, "rate_hz": 20.0}
    data["waveform"] |= {
        "bandwidth_mhz": 3072.0,
        "ramp_us": 51.2,
        "interval_us": 184.0,
        "ramps": 128,
        "range_bins": 128,
    }
    data["array"] |= {"azimuth_channels": 8, "elevation_channels": 1}
    return parse(RadarConfig, data, "figure")


def room() -> ph.World:
    """A room of unknown resemblance to that of the recording: walls, a cupboard, and two people who walk."""
    world = ph.World()
    world.add(ph.shapes.plane(8, 8), material="wood", pose=ph.Pose((3.5, 0, -1.0)))
    world.add(ph.shapes.box(0.2, 8.0, 3.0), material="plaster", pose=ph.Pose((6.0, 0, 0.5), rpy_deg=(0, 0, 6)))
    for side in (-2.6, 2.6):
        world.add(ph.shapes.box(6.0, 0.2, 3.0), material="plaster", pose=ph.Pose((3.0, side, 0.5)))
    world.add(ph.shapes.box(0.4, 1.2, 2.0), material="wood", pose=ph.Pose((4.6, 1.6, 0.0), rpy_deg=(0, 0, 20)))
    for x, y, turn, speed in ((2.9, 0.3, 0.0, 0.6), (3.0, -0.6, 180.0, 0.6)):
        toward = np.array([np.cos(np.radians(turn)), np.sin(np.radians(turn)), 0.0]) * speed
        walk = ph.ConstantTwist(ph.Pose((x, y, -1.0), rpy_deg=(0, 0, turn)), velocity=tuple(toward))
        add_person(world, walk, times=(-2.0, 4.0))
    return world


def recorded_rcs(name: str) -> Any:
    """Cross-sections [dBsm] of the detections of one cycle, as the driver decoded them."""
    text = (DATA / "nebula_packets" / name).read_text(encoding="utf-8")
    return np.array([float(value) for value in re.findall(r"^\s+rcs: (\S+)", text, re.MULTILINE)])


def decibels(frame: Any) -> Any:
    """Range-velocity map in dB over its median."""
    power = frame.range_velocity()
    return 10.0 * np.log10(power / np.median(power))


def main() -> None:
    """Draw the picture."""
    maps = {"Recorded (TI, 77 GHz)": decibels(recorded())}
    maps["Simulated room"] = decibels(ph.Radar(ti_radar()).adc(room(), pose=ph.Pose(), time=0.3, seed=1))
    figure, axes = sheet(8.4, 7.4, 2, 2)
    speeds, ranges = (np.arange(128) - 64) * SPEED_M_S, np.arange(128) * RANGE_M
    for panel, (title, power) in zip(axes, maps.items(), strict=False):
        picture = panel.pcolormesh(
            speeds, ranges, power, cmap="magma", vmin=0, vmax=50, shading="nearest", rasterized=True
        )
        panel.set(title=title, xlabel="radial velocity [m/s]", ylabel="range [m]", xlim=(-2, 2))
    figure.colorbar(picture, ax=axes[1], label="dB over the median")
    for (title, power), colour in zip(maps.items(), (BLUE, ORANGE), strict=True):
        axes[2].plot(ranges, power[:, 64], color=colour, label=title)
        axes[2].plot(ranges, power[:, 90], color=colour, lw=0.6, alpha=0.5)
    axes[2].set(title="Velocity 0; thin: 2.1 m/s", xlabel="range [m]", ylabel="dB over the median")
    axes[2].legend(fontsize=8)
    city = ph.World.load("city")
    found = []
    for name in ("continental/ars408-21-far", "continental/ars408-21-near"):
        for time in range(0, 20, 4):
            scan = ph.Radar(name).scan(city, trajectory=city.path, time=float(time), seed=1)
            found.append(scan.rcs[scan.origin != 6])
    rows = (
        ("ARS548, traffic", recorded_rcs("continental_ars548_detection.yaml"), GREY),
        ("SRR520, near", recorded_rcs("continental_srr520_near.yaml"), BLUE),
        ("ARS408 simulated, city", np.concatenate(found), ORANGE),
    )
    for label, values, colour in rows:
        axes[3].plot(np.sort(values), np.linspace(0, 1, len(values)), color=colour, label=f"{label} ({len(values)})")
        print(label, len(values), np.percentile(values, [5, 50, 95]).round(1))
    axes[3].set(title="Cross-sections of detections", xlabel="dBsm", ylabel="share", xlim=(-40, 45))
    axes[3].legend(fontsize=7)
    finish(figure, "radar-real")


if __name__ == "__main__":
    main()
