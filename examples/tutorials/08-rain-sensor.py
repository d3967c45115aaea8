"""A sensor that Parhelion does not have: an optical rain sensor, with its own data sheet, noise and record.

    python 08-rain-sensor.py -o rain-run

It counts drops that cross a light sheet. The count of a second scatters as a Poisson number does, and a few false drops
are counted in dry air. In a package, an entry point of the group `parhelion.sensors` replaces `register_kind`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import parhelion as ph
from parhelion.core.pose import Floats
from parhelion.core.random import Stream, to_normal
from parhelion.core.streams import column
from parhelion.outputs.run import run


@dataclass(frozen=True)
class Sheet:
    """Data sheet of a rain sensor."""

    rate_hz: float = 1.0
    max_rate_hz: float = 10.0
    drops_per_mm_h: float = 4.0
    """Drops that cross the sheet per second, per mm/h of rain."""
    false_drops_hz: float = 0.5
    """Counts per second in dry air."""


@dataclass(frozen=True, eq=False)
class RainData(ph.Samples):
    """Samples of a rain sensor."""

    rain_rate: Floats = field(metadata=column("mm/h", "", "n"))
    """Rain rate [mm/h], shape (n,)."""


class RainSensor(ph.StreamSensor[Sheet, RainData]):
    """Rain rate of the weather, from a count of drops."""

    kind = "rain-sensor"

    def __init__(self, model: str, *, name: str = "", rate_hz: float | None = None, noise: bool = True) -> None:
        super().__init__(Sheet(), model, name=name, rate_hz=rate_hz, noise=noise)

    def _samples(
        self, world: ph.World, motion: ph.Trajectory, first: int, count: int, seed: int, mount: ph.Pose | None
    ) -> RainData:
        sheet, number = self.config, np.arange(first, first + count)
        true = 0.0 if world.weather is None else float(world.weather.at(first / self.rate_hz).rain_rate_mm_h)
        expected = (sheet.drops_per_mm_h * true + sheet.false_drops_hz) / self.rate_hz
        a, b, _, _ = Stream(seed, f"rain-sensor/{self.model}/{self.name}").words(number)
        scatter = np.sqrt(expected) * to_normal(a, b)[0] if self.noise else 0.0  # Poisson, for more than a few drops
        drops = np.maximum(expected + scatter, 0.0)
        return RainData(number / self.rate_hz, drops * self.rate_hz / sheet.drops_per_mm_h)


def presets() -> list[str]:
    """Names of its presets."""
    return ["generic/light-sheet"]


def main() -> None:
    kind = ph.SensorKind(
        name="rain-sensor",
        class_path=f"{__name__}:RainSensor",
        presets=f"{__name__}:presets",
        output="samples",
        record=f"{__name__}:RainData",
        summary="rain sensors: rate from a count of drops",
    )
    ph.register_kind(kind)
    sensor = ph.sensor("rain-sensor", "generic/light-sheet")
    ph.check_sensor(sensor)  # the contract of every sensor: seeds, units, frames, empty worlds
    print("the contract holds")

    world = ph.World()
    world.weather = ph.Weather(rain_rate_mm_h=40)
    samples = sensor.run(world, ph.Fixed(ph.Pose()), duration=60.0, seed=7)
    print(f"{samples.rain_rate.mean():.1f} mm/h, with a scatter of {samples.rain_rate.std():.1f} mm/h; true 40 mm/h")
    samples.plot("08-rain.png")  # every record has plot, save, load and to_dataframe

    if "-o" in sys.argv:  # the same kind in a scenario: a CSV file and a curve in the report, without further code
        scenario = {
            "duration_s": 1,
            "world": "cuboids",
            "weather": {"rain_rate_mm_h": 40},
            "sensors": [
                {"name": "rain", "type": "rain-sensor", "model": "generic/light-sheet"},
                {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [0, 0, 2]}},
            ],
            "outputs": [],
        }
        folder = Path(sys.argv[sys.argv.index("-o") + 1])
        run(ph.Scenario.from_mapping(scenario), folder)
        print((folder / "rain.csv").read_text(encoding="utf-8").splitlines()[:2])


if __name__ == "__main__":
    main()
