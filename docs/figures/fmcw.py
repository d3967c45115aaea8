"""FMCW lidar: a street with radial velocities, errors by signal, and speckle: docs/images/fmcw.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREY, ORANGE, RED, finish, sheet

import parhelion as ph
from parhelion.sensors.optics.lidar.fmcw import range_sigma_m, speed_sigma_m_s

AERIES = "aeva/aeries-ii"


def draw_street(axes: Any) -> None:
    """Point cloud from above, coloured by the velocity relative to the ground."""
    world = ph.World.load("city")
    drive = ph.ConstantTwist(ph.Pose(xyz=(0, 0, 1.8)), velocity=(10.0, 0.0, 0.0))
    for x, y, speed in ((25.0, 1.8, 4.0), (45.0, -1.8, -12.0), (60.0, 1.8, 14.0)):
        path = ph.ConstantTwist(ph.Pose(xyz=(x, y, 0.8)), velocity=(speed, 0.0, 0.0))
        world.add_actor(ph.shapes.box(4.2, 1.8, 1.5), material="car-paint-silver", label="car", trajectory=path)
    scan = ph.Lidar(AERIES).scan(world, trajectory=drive, seed=1)
    way = scan.xyz / np.linalg.norm(scan.xyz, axis=1, keepdims=True)
    ground = scan.fields["radial_velocity"] + 10.0 * way[:, 0]
    order = np.argsort(np.abs(ground))
    x, y, shown = scan.xyz[order, 0], scan.xyz[order, 1], ground[order]
    dots = axes.scatter(x, y, c=shown, s=0.6, cmap="coolwarm", vmin=-12, vmax=12, rasterized=True)
    axes.figure.colorbar(dots, ax=axes, label="radial velocity less own motion [m/s]")
    axes.set(xlim=(0, 80), ylim=(-25, 25), xlabel="x [m]", ylabel="y [m]", title="Street at 10 m/s, three cars")


def draw_errors(axes: Any) -> None:
    """Standard deviations by the signal: the bound, and scans of a wall."""
    config = ph.Lidar(AERIES).config
    fmcw = config.fmcw
    assert fmcw is not None
    quick = config.model_copy(update={"fmcw": fmcw.model_copy(update={"speed_sigma_m_s": 0.0})})
    world = ph.World()
    world.add(ph.shapes.box(0.2, 100, 100), material="concrete", label="wall", pose=ph.Pose(xyz=(60, 0, 0)))
    scan = ph.Lidar(quick).scan(world, pose=ph.Pose(), seed=2)
    snr_db = 10.0 * np.log10(scan.fields["power"]) + fmcw.threshold_snr_db
    edges = np.arange(13.0, 40.0, 2.0)
    bins = np.digitize(snr_db, edges)
    mid = 0.5 * (edges[1:] + edges[:-1])
    spread = [np.std(scan.fields["radial_velocity"][bins == k + 1]) for k in range(len(mid))]
    axes.semilogy(mid, 1e3 * np.array(spread), "o", color=ORANGE, label="scan of a wall")
    db = np.linspace(13.0, 40.0, 50)
    speed = speed_sigma_m_s(10 ** (db / 10), chirp_s=fmcw.chirp_us * 1e-6, wavelength_m=1.55e-6)
    axes.semilogy(db, 1e3 * speed, color=BLUE, label="velocity [mm/s]")
    length = range_sigma_m(10 ** (db / 10), bandwidth_hz=fmcw.bandwidth_ghz * 1e9, chirp_s=fmcw.chirp_us * 1e-6)
    axes.semilogy(db, 1e3 * length, color=RED, label="range [mm]")
    axes.set(xlabel="SNR [dB]", ylabel="standard deviation", title="Cramer-Rao bound")
    axes.legend(fontsize=8)


def draw_speckle(axes: Any) -> None:
    """Power of equal targets, over its mean."""
    world = ph.World()
    world.add(ph.shapes.box(0.2, 400, 100), material="concrete", label="wall", pose=ph.Pose(xyz=(12, 0, 0)))
    config = ph.Lidar(AERIES).config
    assert config.fmcw is not None
    clean = ph.Lidar(config, noise=False).scan(world, pose=ph.Pose(), seed=1)
    edges = np.linspace(0.0, 4.0, 60)
    for looks, colour in ((1, BLUE), (4, GREY)):
        some = config.model_copy(update={"fmcw": config.fmcw.model_copy(update={"looks": looks})})
        scan = ph.Lidar(some).scan(world, pose=ph.Pose(), seed=1)
        _, first, second = np.intersect1d(clean.fields["shot"], scan.fields["shot"], return_indices=True)
        ratio = scan.fields["power"][second] / clean.fields["power"][first]
        axes.hist(ratio, edges, density=True, histtype="step", color=colour, label=f"{looks} looks")
    axes.plot(edges, np.exp(-edges), "--", color=RED, lw=0.8, label="exponential")
    axes.set(xlabel="power over its mean", ylabel="density", title="Speckle of a wall at 12 m")
    axes.legend(fontsize=8)


def main() -> None:
    figure, (street, errors, speckles) = sheet(13.0, 3.7, 3, width_ratios=(1.5, 1, 1))
    draw_street(street)
    draw_errors(errors)
    draw_speckle(speckles)
    finish(figure, "fmcw")


if __name__ == "__main__":
    main()
