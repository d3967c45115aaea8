"""The picture of docs/models/radar.md: a street with a car, a walker and a wall that mirrors; docs/images/radar.png."""

from __future__ import annotations

from pathlib import Path

import parhelion as ph
from parhelion.core.config import parse
from parhelion.pictures import draw_radar
from parhelion.sensors.waves.radar.config import RadarConfig

IMAGE = Path(__file__).resolve().parents[1] / "images" / "radar.png"


def street() -> ph.World:
    """A road, a steel fence on the left, a parked car and a coming one, and someone who walks across."""
    world = ph.World("street")
    world.add(ph.shapes.plane(120, 60), material="asphalt", label="road", pose=ph.Pose((50, 0, 0)))
    world.add(ph.shapes.box(60, 0.1, 2.5), material="galvanised-steel", label="fence", pose=ph.Pose((35, 9, 1.25)))
    world.add(ph.shapes.box(4.4, 1.8, 1.4), material="car-paint-blue", label="car", pose=ph.Pose((18, -6, 0.9)))
    world.add(ph.shapes.cylinder(0.12, 5.0), material="steel", label="pole", pose=ph.Pose((30, -9, 2.5)))
    world.add_actor(
        ph.shapes.box(4.4, 1.8, 1.4), material="car-paint-red", label="car",
        trajectory=ph.ConstantTwist(ph.Pose((38, 3.0, 0.9)), velocity=(-9.0, 0.0, 0.0)),
    )  # fmt: skip
    world.add_actor(
        ph.shapes.cylinder(0.25, 1.75), material="cotton", label="person",
        trajectory=ph.ConstantTwist(ph.Pose((12, 2.0, 0.9)), velocity=(-0.6, 1.2, 0.0)),
    )  # fmt: skip
    return world


def radar() -> RadarConfig:
    """The imaging radar with fewer channels, a shorter interval and 60 m of range."""
    sheet = ph.Radar("ti/mmwcas-imaging").config.model_dump(mode="python")
    sheet["name"] = "77 GHz, 32 channels"
    sheet["array"] |= {"azimuth_channels": 32, "elevation_channels": 1, "window": "none"}
    sheet["waveform"] |= {"bandwidth_mhz": 300.0, "interval_us": 60.0, "ramps": 128, "range_bins": 120}
    sheet["detection"] = {"method": "ca", "false_alarm": 1e-6, "training": 16, "guard": 2}
    return parse(RadarConfig, sheet, "figure")


def main() -> None:
    """Draw the picture."""
    motion = ph.ConstantTwist(ph.Pose((0, 0, 0.7)), velocity=(5.0, 0.0, 0.0))
    scan = ph.Radar(radar(), cube=True).scan(street(), trajectory=motion, seed=7)
    draw_radar(scan, IMAGE, f"{len(scan)} detections, the radar drives at 5 m/s")


if __name__ == "__main__":
    main()
