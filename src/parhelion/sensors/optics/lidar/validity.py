"""Validity of lidar results in weather: how far each combination of preset and medium was checked.

| grade | meaning |
| --- | --- |
| `validated` | points of this sensor in this medium were compared with recordings or published counts |
| `class` | a sensor of the same maker was compared in this medium, or the receiver's near field was measured |
| `assumed` | the receiver's near field, which decides on points of the air, is assumed |

The grade concerns points of the air and their ranges. Attenuation of surfaces follows closed forms for every sensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from parhelion.makers import Maker, maker_called
from parhelion.weather import media
from parhelion.weather.media import Medium
from parhelion.weather.weather import Weather

Grade = Literal["validated", "class", "assumed"]
GRADES: tuple[Grade, ...] = ("validated", "class", "assumed")


@dataclass(frozen=True)
class Validity:
    """Grade of one combination of sensor and medium, and its reason."""

    grade: Grade
    reason: str

    @property
    def words(self) -> str:
        """Grade as text."""
        return "by class" if self.grade == "class" else self.grade


def validity_in(sensor: Any, weather: Weather | None) -> dict[str, Validity]:
    """Validity of a sensor in each medium of a weather, at any time; empty in clear air or if the sensor has no grades.

    Example:
        >>> import parhelion as ph
        >>> in_words(validity_in(ph.Lidar("velodyne/vlp-32c"), ph.Weather(rain_rate_mm_h=5, snow_rate_mm_h=1)))
        'rain by class, snow validated'
    """
    grades: Mapping[str, Validity] = getattr(sensor, "weather_validity", {})
    there = {medium.name for medium, part, _ in weather.parts() if part.is_there(medium.amount)} if weather else set()
    return {name: one for name, one in grades.items() if name in there}


def in_words(found: Mapping[str, Validity]) -> str:
    """Grades by medium as one line of text."""
    return ", ".join(f"{name} {one.words}" for name, one in found.items())


def as_plain(found: Mapping[str, Mapping[str, Validity]]) -> dict[str, dict[str, dict[str, str]]]:
    """Grades by sensor and medium in plain values, for files."""
    return {name: {medium: asdict(one) for medium, one in grades.items()} for name, grades in found.items()}


def weather_validity(preset: str, *, maker: str = "", calibrated: bool = False) -> dict[str, Validity]:
    """Validity of a lidar preset in each medium, by name of the medium.

    `maker` is that of a data sheet which is not a preset. `calibrated` is True if its overlap was fitted to the user's
    own unit: the near field is then measured.

    Example:
        >>> weather_validity("velodyne/vlp-32c")["snow"].grade
        'validated'
        >>> {name: one.grade for name, one in weather_validity("livox/avia").items()}["rain"]
        'assumed'
    """
    known = maker_called(maker or preset.partition("/")[0])
    return {name: _validity(preset, known, medium, calibrated) for name, medium in media.table().items()}


def _validity(preset: str, maker: Maker, medium: Medium, calibrated: bool) -> Validity:
    compared = maker.compared.get(medium.name, {})
    if preset in compared:
        return Validity("validated", compared[preset])
    if "*" in compared:
        return Validity("class", compared["*"])
    if medium.unchecked:
        return Validity("assumed", medium.unchecked)
    if calibrated:
        return Validity("class", "the overlap of this unit is measured")
    if maker.near_field:
        return Validity("class", maker.near_field)
    return Validity("assumed", "no recording in this medium, and the receiver's overlap is assumed")
