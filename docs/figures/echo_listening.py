"""Picture docs/images/echo-listening.png: noise of the sea, image sources in a room, and a siren that drives past."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, RED, finish, sheet

import parhelion as ph
from parhelion.core.config import parse
from parhelion.core.trajectory import ConstantTwist
from parhelion.sensors.waves.echo import sound
from parhelion.sensors.waves.echo.config import EchoConfig


def microphone(low_khz: float, high_khz: float) -> EchoConfig:
    """A microphone that receives all sound in front of it."""
    fields = ph.Echo("generic/ultrasonic-ranger").config.model_dump(mode="python")
    wide = {"azimuth_width_deg": 180.0, "elevation_width_deg": 180.0, "sidelobe_db": 0.0}
    fields |= {"mode": "passive", "listening_band_khz": (low_khz, high_khz), "receiver": wide, "name": "microphone"}
    fields |= {"sample_rate_khz": 4.0 * high_khz, "range_m": (0.02, 8.0), "rate_hz": 10.0}
    return parse(EchoConfig, fields, "microphone")


def noises(axes: Any) -> None:
    """Noise of the sea by wind speed, and its components."""
    hertz = np.geomspace(10.0, 1e6, 300)
    for wind, colour in ((0.0, GREY), (5.0, BLUE), (10.0, GREEN), (20.0, ORANGE)):
        axes.semilogx(hertz / 1e3, sound.sea_noise_db(hertz, wind), color=colour, label=f"wind {wind:g} m/s")
    axes.semilogx(hertz / 1e3, sound.thermal_noise_db(hertz), color=RED, ls="--", lw=0.9, label="thermal alone")
    axes.set(
        xlabel="frequency [kHz]", ylabel="spectrum level [dB re 1 µPa²/Hz]", title="Noise of the sea", ylim=(10, 110)
    )
    axes.legend(fontsize=8)


def images(axes: Any) -> None:
    """A whistle in a room, and the apparent directions of its reflections."""
    world = ph.World("room")
    size = np.array([5.0, 4.0, 2.8])
    world.add(ph.shapes.box(*size), material="concrete", label="wall", pose=ph.Pose(tuple(size / 2)))
    world.add_sound("whistle", xyz=(3.6, 2.9, 1.4), level_db=90, tone_khz=8)
    place = ph.Pose((0.6, 1.2, 1.2))
    found = ph.Echo(microphone(1, 20), bounces=3).ping(world, pose=place, seed=1).in_world()
    axes.plot([0, 5, 5, 0, 0], [0, 0, 4, 4, 0], color=GREY, lw=1.2)
    level = 90.0 - found.fields["attenuation"]
    drawn = axes.scatter(
        found.xyz[:, 0], found.xyz[:, 1], c=level, s=18 + 6 * (3 - found.fields["bounces"]), cmap="viridis"
    )
    axes.plot(*place.xyz[:2], "^", color=RED)
    axes.figure.colorbar(drawn, ax=axes, label="level [dB re 20 µPa]")
    axes.set(xlabel="x [m]", ylabel="y [m]", title="A whistle in a room and its images", aspect="equal")


def passing(axes: Any) -> None:
    """Received frequency of a siren at 2 kHz on a car at 25 m/s, 8 m from the road."""
    world = ph.World("road")
    drive = ConstantTwist(ph.Pose((8.0, 60.0, 1.0)), (0.0, -25.0, 0.0))
    world.add_sound("siren", motion=drive, level_db=110, tone_khz=2)
    echo = ph.Echo(microphone(1, 4), waveform=True, noise=False)
    times = np.arange(0.0, 5.0, 0.1)
    measured_hz = []
    for time in times:
        wave = echo.ping(world, pose=ph.Pose((0, 0, 1.0)), time=float(time)).waveform
        samples = wave.samples[0, 50:-50].astype(float)
        rises = np.flatnonzero((samples[:-1] < 0) & (samples[1:] >= 0))
        exact = rises - samples[rises] / (samples[rises + 1] - samples[rises])
        measured_hz.append((len(exact) - 1) / (exact[-1] - exact[0]) * wave.rate_hz)
    speed = echo.config.medium.speed_m_s
    y = 60.0 - 25.0 * times
    rate = -25.0 * y / np.hypot(8.0, y)
    axes.plot(times, 2000.0 / (1.0 + rate / speed), color=GREY, lw=2.5, alpha=0.6, label="f / (1 + v/c)")
    axes.plot(times, measured_hz, "o", color=BLUE, ms=3, label="heard")
    axes.set(xlabel="time [s]", ylabel="frequency [Hz]", title="A siren of 2 kHz passes at 25 m/s")
    axes.legend(fontsize=8)


def main() -> None:
    """Draw all three."""
    figure, (first, second, third) = sheet(13.5, 4.0, 3)
    noises(first)
    images(second)
    passing(third)
    finish(figure, "echo-listening")


if __name__ == "__main__":
    main()
