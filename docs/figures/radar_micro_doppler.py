"""A walker, a car with rolling wheels and a cyclist, speed over time: docs/images/radar-micro-doppler.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import finish, sheet

import parhelion as ph
from parhelion.core.config import parse
from parhelion.motion import MotionLimits, SplineMotion
from parhelion.motion.actors import add_car, add_cyclist, add_person
from parhelion.sensors.waves.radar.config import RadarConfig

WALK_M_S, DRIVE_M_S, CYCLE_M_S = 1.4, 8.0, 4.0


def radar(interval_us: float, ramps: int, rays: int, gain_db: float = 0.0) -> ph.Radar:
    """77 GHz radar with one beam ahead; the ramps determine the largest speed and the speed resolution."""
    sheet_ = ph.Radar("ti/mmwcas-imaging").config.model_dump(mode="python")
    sheet_["rate_hz"] = 20.0
    sheet_["power_dbm"] += gain_db
    sheet_["array"] |= {"azimuth_channels": 1, "elevation_channels": 1}
    sheet_["waveform"] |= {"ramp_us": 0.8 * interval_us, "interval_us": interval_us, "ramps": ramps, "range_bins": 128}
    sheet_["field"] |= {"azimuth_deg": (-16, 16), "elevation_deg": (-10, 8), "rays": rays, "bounces": 1}
    sheet_["minimum_range_m"] = 1.0
    return ph.Radar(parse(RadarConfig, sheet_, "figure"), cube=True)


def spectrogram(sensor: ph.Radar, world: ph.World, place: ph.Pose, times: Any) -> tuple[Any, Any]:
    """Speeds towards the radar [m/s], and the strongest cell at each (speeds, times) [dB over noise]."""
    columns = []
    for number, time in enumerate(times):
        cube = sensor.scan(world, pose=place, time=float(time), seed=3, frame=number).cube
        assert cube is not None
        columns.append(10.0 * np.log10(cube.power[4:].sum(axis=(0, 2, 3)) / (len(cube.range) - 4)))
    return -sensor.axes.speed, np.array(columns).T


def main() -> None:
    """Draw the picture."""
    figure, axes = sheet(12.0, 3.2, 3)
    walker = ph.World()
    way = ph.ConstantTwist(ph.Pose((9.0, 0.0, 0.0), rpy_deg=(0, 0, 180)), velocity=(-WALK_M_S, 0.0, 0.0))
    add_person(walker, way, times=(-2.0, 8.0))
    driver = ph.World()
    way = ph.ConstantTwist(ph.Pose((26.0, 0.0, 0.0), rpy_deg=(0, 0, 180)), velocity=(-DRIVE_M_S, 0.0, 0.0))
    add_car(driver, way, wheels=True, times=(-1.0, 8.0))
    cyclist = ph.World()
    add_cyclist(cyclist, SplineMotion([(24, 0, 0), (-10, 0, 0)], limits=MotionLimits(CYCLE_M_S, 20.0, 20.0)))
    ahead, beside = ph.Pose((0, 0, 0.9)), ph.Pose((0, 3.0, 0.4), rpy_deg=(0, 0, -8))
    near = ph.Pose((0, 2.0, 0.7), rpy_deg=(0, 0, -6))
    scenes = (
        ("A walker, 1.4 m/s", walker, radar(160.0, 256, 30_000), ahead, 2.5, (-1.1, 5.0), 35),
        ("A car with rolling wheels, 8 m/s", driver, radar(40.0, 512, 60_000, 30.0), beside, 2.4, (-6.0, 21.0), 50),
        ("A cyclist, 4 m/s", cyclist, radar(60.0, 512, 30_000, 20.0), near, 4.0, (-2.0, 10.0), 40),
    )
    for panel, (title, world, sensor, place, seconds, limits, brightest) in zip(axes, scenes, strict=True):
        times = np.arange(0.0, seconds, seconds / 80)
        speeds, power = spectrogram(sensor, world, place, times)
        look = {"cmap": "magma", "vmin": 3, "vmax": brightest, "shading": "nearest", "rasterized": True}
        picture = panel.pcolormesh(times, speeds, power, **look)
        panel.set(title=title, xlabel="time [s]", ylim=limits)
        figure.colorbar(picture, ax=panel, label="mean over range [dB over noise]")
    axes[0].set_ylabel("speed towards the radar [m/s]")
    finish(figure, "radar-micro-doppler")


if __name__ == "__main__":
    main()
