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

from parhelion.weather import media
from parhelion.weather.weather import Weather

Grade = Literal["validated", "class", "assumed"]
GRADES: tuple[Grade, ...] = ("validated", "class", "assumed")

_HDL_64E_FOG = "548 scans in dense fog: hardly any return below 2.5 m"
_HDL_64E_RAIN = "114 scans in rain: isolated points at 1.6 to 4 m"
_COMPARED: dict[tuple[str, str], str] = {
    ("velodyne/hdl-32e", "fog"): "60 scans in fog: nearest returns, lost shots, share of returns within 20 m",
    ("velodyne/hdl-64e", "fog"): _HDL_64E_FOG,
    ("velodyne/hdl-64e", "rain"): _HDL_64E_RAIN,
    ("velodyne/hdl-64e-s2", "fog"): _HDL_64E_FOG,
    ("velodyne/hdl-64e-s2", "rain"): _HDL_64E_RAIN,
    ("velodyne/vlp-32c", "snow"): "published counts within 4 m from light to extreme snow",
    ("hesai/pandar64", "snow"): "60 scans in severe snow: share of shots and ranges of flakes",
}
"""Preset and medium that were compared, and with what (docs/weather-validation.md)."""
_FAMILY: dict[tuple[str, str], str] = {
    ("velodyne", "rain"): "the HDL-64E was compared in rain",
    ("velodyne", "fog"): "the HDL-32E and HDL-64E were compared in fog",
    ("velodyne", "snow"): "the VLP-32C was compared in snow",
    ("hesai", "snow"): "the Pandar64 was compared in snow",
}

_MEASURED_NEAR_FIELD = ("ouster",)


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
    maker = maker or preset.partition("/")[0]
    return {name: _validity(preset, maker, name, calibrated) for name in media.names()}


def _validity(preset: str, maker: str, medium: str, calibrated: bool) -> Validity:
    if (preset, medium) in _COMPARED:
        return Validity("validated", _COMPARED[preset, medium])
    if (maker, medium) in _FAMILY:
        return Validity("class", _FAMILY[maker, medium])
    if medium == "dust":
        return Validity("assumed", "VANE's rule for dust; no recording is available")
    if medium == "spray":
        return Validity("assumed", "amount and drop sizes of spray are assumed; published counts give the order only")
    if medium == "smoke":
        return Validity("assumed", "extinction of soot is measured, its lidar ratio assumed; no recording is available")
    if calibrated:
        return Validity("class", "the overlap of this unit is measured")
    if maker in _MEASURED_NEAR_FIELD:
        return Validity("class", "the near field of the family is measured on recordings")
    return Validity("assumed", "no recording in this medium, and the receiver's overlap is assumed")
