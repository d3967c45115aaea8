"""The weather on the command line: options that several commands share, and the weather that they mean."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli.screen import count, percent

if TYPE_CHECKING:
    from parhelion.core.clouds import PointCloud
    from parhelion.pictures.weather import Changes
    from parhelion.weather import DustCloud, Weather

USUAL_DUST_KG_M3 = 1e-4
"""Density of a dust cloud where none is said: one sees about 15 m into it, as behind a vehicle on a dry dirt road."""
IN_THE_AIR = "in the air"
"""What points are called that belong to no labelled thing."""
_GROUP = "Weather"


class RainModel(str, Enum):
    """How the extinction of rain follows from its rate."""

    mie = "mie"
    vane = "vane"
    goodin2019 = "goodin2019"
    guo2015 = "guo2015"
    ulbrich_atlas = "ulbrich-atlas"


class FogModel(str, Enum):
    """How the extinction of fog follows from its visibility."""

    kim = "kim"
    kruse = "kruse"
    koschmieder = "koschmieder"
    hahner2021 = "hahner2021"


RainOption = Annotated[
    float | None, typer.Option("--rain", metavar="MM_H", help="Rain rate, 0 to 500 mm/h.", rich_help_panel=_GROUP)
]
VisibilityOption = Annotated[
    float | None,
    typer.Option("--visibility", metavar="M", help="Visibility in fog or haze, 5 m or more.", rich_help_panel=_GROUP),
]
SnowOption = Annotated[
    float | None,
    typer.Option("--snow", metavar="MM_H", help="Snow rate as melted water, 0 to 50 mm/h.", rich_help_panel=_GROUP),
]
DustOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dust",
        metavar="X,Y,Z,R[,KG_M3]",
        help=f"Dust cloud: centre and radius in m, density ({USUAL_DUST_KG_M3:g} unless said). May be repeated.",
        rich_help_panel=_GROUP,
    ),
]
WindOption = Annotated[
    str | None, typer.Option("--wind", metavar="X,Y[,Z]", help="Wind in the world, in m/s.", rich_help_panel=_GROUP)
]
RainModelOption = Annotated[
    RainModel | None,
    typer.Option(
        "--rain-model",
        metavar="NAME",
        help="Extinction of rain: mie (the usual), vane, goodin2019, guo2015, ulbrich-atlas.",
        rich_help_panel=_GROUP,
    ),
]
FogModelOption = Annotated[
    FogModel | None,
    typer.Option(
        "--fog-model",
        metavar="NAME",
        help="Extinction of fog: kim (the usual), kruse, koschmieder, hahner2021.",
        rich_help_panel=_GROUP,
    ),
]
UnevenFogOption = Annotated[
    bool, typer.Option("--uneven-fog", help="Fog with thicker and thinner places.", rich_help_panel=_GROUP)
]
WeatherFileOption = Annotated[
    Path | None,
    typer.Option("--weather", metavar="FILE", help="Weather file (.yaml); options change it.", rich_help_panel=_GROUP),
]


@dataclass(frozen=True)
class WeatherOptions:
    """What was said of the weather on the command line; None is not said."""

    rain: float | None = None
    visibility: float | None = None
    snow: float | None = None
    dust: list[str] | None = None
    wind: str | None = None
    rain_model: RainModel | None = None
    fog_model: FogModel | None = None
    uneven_fog: bool = False
    file: Path | None = None

    def weather(self, base: Weather | None = None) -> Weather | None:
        """The weather meant: the file's, or else `base`, with what the options change; None where nothing is said."""
        from parhelion.weather import Weather

        if self == WeatherOptions():
            return base
        meant = Weather.load(self.file) if self.file is not None else base or Weather()
        meant = _changed(meant, "--rain", "rain_rate_mm_h", self.rain)
        meant = _changed(meant, "--visibility", "visibility_m", self.visibility)
        meant = _changed(meant, "--snow", "snow_rate_mm_h", self.snow)
        meant = _changed(meant, "--wind", "wind_m_s", _wind(self.wind))
        if self.dust:
            meant = meant.but(dust=[*meant.dust, *map(_dust_cloud, self.dust)])
        return self._with_models(meant)

    def _with_models(self, weather: Weather) -> Weather:
        """The details of parts that are there."""
        from parhelion.weather import Uneven

        if self.rain_model is not None:
            rain = _there(weather.rain, "--rain-model", "--rain")
            weather = weather.but(rain=rain.model_copy(update={"model": self.rain_model.value}))
        if self.fog_model is not None:
            fog = _there(weather.fog, "--fog-model", "--visibility")
            weather = weather.but(fog=fog.model_copy(update={"model": self.fog_model.value}))
        if self.uneven_fog:
            fog = _there(weather.fog, "--uneven-fog", "--visibility")
            weather = weather.but(fog=fog.model_copy(update={"uneven": fog.uneven or Uneven()}))
        return weather


def in_words(weather: Weather) -> str:
    """A weather in one line, such as `rain 25 mm/h, visibility 800 m`."""
    return repr(weather).removeprefix("<Weather ").removesuffix(">")


def air_counts(cloud: PointCloud) -> dict[str, int]:
    """Number of points that each kind of weather sent back, those without left out."""
    import numpy as np

    from parhelion.core.clouds import ORIGINS
    from parhelion.pictures.weather import AIR

    if "origin" not in cloud.fields:
        return {}
    number = np.bincount(cloud.fields["origin"], minlength=len(ORIGINS))
    # Recordings keep shots without return as rows without coordinates.
    number -= np.bincount(cloud.fields["origin"][~np.isfinite(cloud.xyz[:, 0])], minlength=len(number))
    return {word: int(number[ORIGINS.index(word)]) for word in AIR if number[ORIGINS.index(word)]}


def add_counts(total: dict[str, int], more: dict[str, int]) -> None:
    """Add counts to earlier ones, in place."""
    for word, number in more.items():
        total[word] = total.get(word, 0) + number


def shares(counts: dict[str, int], points: int) -> str:
    """Counts of each kind and their shares of all points, in words."""
    parts = [f"{word} {count(number)} ({percent(number / points)})" for word, number in counts.items()]
    return ", ".join(parts) or "no points"


def lost_words(changes: Changes) -> str:
    """How many of the points of clear air are lost, and how many of them with an echo of the air instead."""
    lost = len(changes.lost)
    clear = lost + len(changes.kept_before)
    words = f"{count(lost)} of {count(clear)} points of clear air ({percent(lost / max(clear, 1))})"
    return words + (f", {count(changes.outshone)} of them with an echo of the air instead" if changes.outshone else "")


def _changed(weather: Weather, option: str, field: str, value: Any) -> Weather:
    from parhelion.core.errors import ConfigError

    if value is None:
        return weather
    try:
        return weather.but(**{field: value})
    except ConfigError as error:
        # Without the field's name in files, since it is the option's that was written.
        reason = str(error).removeprefix("weather: ").partition(": ")[2].partition("; ")[0]
        raise ConfigError(f"{option}: {reason.replace(field, option)}") from None


def _there(part: Any, option: str, needed: str) -> Any:
    if part is None:
        raise typer.BadParameter(f"goes with {needed}", param_hint=option)
    return part


def numbers(text: str, option: str, names: str, counts: tuple[int, ...]) -> list[float]:
    """The numbers in `1,2,3`; `names` says what was expected, `counts` how many there may be."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"expected numbers {names}, got {text!r}", param_hint=option) from None
    if len(found) not in counts:
        many = " or ".join(map(str, counts))
        raise typer.BadParameter(f"expected {many} numbers {names}, got {len(found)}", param_hint=option)
    return found


def _wind(text: str | None) -> list[float] | None:
    if text is None:
        return None
    found = numbers(text, "--wind", "X,Y[,Z]", (2, 3))
    return [*found, *[0.0] * (3 - len(found))]


def _dust_cloud(text: str) -> DustCloud:
    from parhelion.core.errors import ConfigError
    from parhelion.weather import DustCloud

    x, y, z, radius, density, *_ = *numbers(text, "--dust", "X,Y,Z,RADIUS[,KG_M3]", (4, 5)), USUAL_DUST_KG_M3
    try:
        return DustCloud(centre_m=(x, y, z), half_size_m=(radius, radius, radius), density_kg_m3=density)
    except ConfigError as error:
        reason = str(error).removeprefix("DustCloud: ").partition("; ")[0]
        raise ConfigError(f"--dust: {reason.replace('half_size_m[0]', 'radius')}") from None
