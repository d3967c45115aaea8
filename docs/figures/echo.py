"""The picture of docs/models/echo.md, docs/images/echo.png: absorption, a room, and a bottom by a multibeam."""

from __future__ import annotations

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, RED, finish, sheet

import parhelion as ph
from parhelion.sensors.waves.echo import sound


def room() -> ph.World:
    """Four walls, floor and ceiling, a crate and a column."""
    world = ph.World("room")
    world.add(ph.shapes.box(6, 5, 3), material="concrete", label="wall", pose=ph.Pose((2.5, 0, 1.5)))
    world.add(ph.shapes.box(0.6, 0.6, 0.8), material="cardboard", label="object", pose=ph.Pose((2.5, 1.2, 0.4)))
    world.add(ph.shapes.cylinder(0.2, 3), material="steel", label="pole", pose=ph.Pose((3.0, -1.0, 1.5)))
    return world


def sea() -> ph.World:
    """Sand in waves of half a metre, and a pipe on it."""
    world = ph.World("sea")
    y, _ = np.mgrid[-60:61, -20:21]
    height = 0.4 * np.sin(y / 4.0) + 0.004 * np.abs(y) ** 1.5
    world.add(ph.shapes.grid_terrain(height, 1.0), material="sand", label="terrain", pose=ph.Pose((0, 0, -20)))
    world.add(ph.shapes.box(40, 1.5, 1.5), material="steel", label="object", pose=ph.Pose((0, 8, -18.9)))
    return world


def main() -> None:
    """Draw all three."""
    figure, (first, second, third) = sheet(13.5, 4.0, 3)
    hertz = np.geomspace(1e3, 1e6, 200)
    air = [sound.air_absorption_db_per_m(hertz[hertz < 2.2e5], 20.0, h) for h in (20.0, 50.0, 90.0)]
    for values, colour, h in zip(air, (ORANGE, RED, GREY), (20, 50, 90), strict=True):
        first.loglog(hertz[hertz < 2.2e5] / 1e3, values, color=colour, label=f"air, 20 °C, {h} %")
    for t, colour in ((4.0, BLUE), (20.0, GREEN)):
        first.loglog(hertz / 1e3, sound.water_absorption_db_per_m(hertz, t), color=colour, label=f"sea, {t:g} °C")
    first.set(xlabel="frequency [kHz]", ylabel="absorption, one way [dB/m]", title="Absorption")
    first.legend(fontsize=8)
    echo = ph.Echo("cosys/ertis-array", waveform=True)
    heard = echo.ping(room(), pose=ph.Pose((0.5, 0, 1.2)), seed=3)
    assert heard.waveform is not None
    time = np.arange(heard.waveform.samples.shape[1]) / heard.waveform.rate_hz
    second.plot(1e3 * time, heard.waveform.samples[0], color=BLUE, lw=0.4)
    second.set(xlabel="time after the pulse [ms]", ylabel="pressure [Pa]", title="A room at the first microphone")
    down = ph.Pose((0, 0, 0), rpy_deg=(0, 90, 0))
    found = ph.Echo("generic/multibeam-400").ping(sea(), pose=down, seed=3).in_world()
    drawn = third.scatter(found.xyz[:, 1], found.xyz[:, 2], c=found.fields["attenuation"], s=4, cmap="viridis_r")
    figure.colorbar(drawn, ax=third, label="attenuation [dB]")
    third.set(xlabel="across the track [m]", ylabel="height [m]", title="Sand and a pipe by a multibeam")
    finish(figure, "echo")


if __name__ == "__main__":
    main()
