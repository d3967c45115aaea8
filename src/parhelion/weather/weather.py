"""The weather of a world: what is in the air, how it changes with time, and how it is written down."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from parhelion.core import config
from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError
from parhelion.core.files import write_whole
from parhelion.core.pose import Pose
from parhelion.weather.config import (
    DustCloud,
    DustTrail,
    Fog,
    Part,
    Rain,
    Schedule,
    Snow,
    WeatherFields,
    bounds_of,
    plain,
    seconds,
    value_at,
)

_SHORT = {
    "rain_rate_mm_h": ("rain", "rate_mm_h"),
    "visibility_m": ("fog", "visibility_m"),
    "snow_rate_mm_h": ("snow", "rate_mm_h"),
}
"""Short field -> the part that it stands for, and that part's field."""
_PARTS: dict[str, type[Part]] = {"rain": Rain, "fog": Fog, "snow": Snow}


@dataclass(frozen=True)
class Conditions:
    """A weather at one time, in plain numbers: means over space where it is uneven."""

    time_s: float
    rain_rate_mm_h: float = 0.0
    visibility_m: float = math.inf
    """Infinite where there is no fog."""
    snow_rate_mm_h: float = 0.0
    """As melted water."""
    cloud_density_kg_m3: tuple[float, ...] = ()
    """At the centre of each placed dust cloud, in the order of the weather's `dust`, trails left out."""
    trails_begun: int = 0
    """Number of dust trails that have begun. Their dust hangs on after they end."""
    wind_m_s: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def is_clear(self) -> bool:
        """Whether the air holds nothing. Wind alone is clear air."""
        falling = self.rain_rate_mm_h > 0.0 or self.snow_rate_mm_h > 0.0
        dusty = any(density > 0.0 for density in self.cloud_density_kg_m3) or self.trails_begun > 0
        return not falling and not dusty and math.isinf(self.visibility_m)


@dataclass(frozen=True, init=False, repr=False)
class Weather:
    """Rain, fog, snow, dust and wind. Several may be on at once; `Weather()` is clear air.

        Weather(rain_rate_mm_h=25, visibility_m=800)
        Weather(rain=Rain(rate_mm_h=[[0, 0], [60, 25]], model="vane"), wind_m_s=(3, 0, 0))

    Rates and visibility are numbers, or pairs of time [s] and value.
    """

    rain: Rain | None
    fog: Fog | None
    snow: Snow | None
    dust: tuple[DustCloud | DustTrail, ...]
    wind_m_s: tuple[float, float, float]
    """Velocity of the air in the world, the same everywhere."""
    seed: int
    """Chooses where eddies and cells are, and how dust swirls."""

    def __init__(
        self,
        *,
        rain_rate_mm_h: Schedule | None = None,
        visibility_m: Schedule | None = None,
        snow_rate_mm_h: Schedule | None = None,
        rain: Rain | Mapping[str, Any] | None = None,
        fog: Fog | Mapping[str, Any] | None = None,
        snow: Snow | Mapping[str, Any] | None = None,
        dust: Sequence[DustCloud | DustTrail | Mapping[str, Any]] = (),
        wind_m_s: Sequence[float] = (0.0, 0.0, 0.0),
        seed: int = 0,
        **unknown: Any,
    ) -> None:
        given = {
            "rain": rain,
            "fog": fog,
            "snow": snow,
            "rain_rate_mm_h": rain_rate_mm_h,
            "visibility_m": visibility_m,
            "snow_rate_mm_h": snow_rate_mm_h,
            "dust": dust,
            "wind_m_s": wind_m_s,
            "seed": seed,
            **unknown,  # told with the nearest name, as in a file
        }
        self._take(config.parse(WeatherFields, plain(given), "weather"))

    def _take(self, fields: WeatherFields) -> None:
        values: dict[str, Any] = {"dust": tuple(fields.dust), "wind_m_s": fields.wind_m_s, "seed": fields.seed}
        for short, (kind, field) in _SHORT.items():
            number = getattr(fields, short)
            values[kind] = getattr(fields, kind) if number is None else _PARTS[kind](**{field: number})
        for name, value in values.items():
            object.__setattr__(self, name, value)

    # ---- asking ------------------------------------------------------------------------------------------------

    def at(self, time: float) -> Conditions:
        """What the weather is at a time [s]."""
        now = float(seconds(time))
        return Conditions(
            time_s=now,
            rain_rate_mm_h=value_at(0.0 if self.rain is None else self.rain.rate_mm_h, now),
            visibility_m=value_at(math.inf if self.fog is None else self.fog.visibility_m, now),
            snow_rate_mm_h=value_at(0.0 if self.snow is None else self.snow.rate_mm_h, now),
            cloud_density_kg_m3=tuple(value_at(cloud.density_kg_m3, now) for cloud in self.dust_clouds),
            trails_begun=sum(trail.span_s[0] <= now for trail in self.dust_trails),
            wind_m_s=self.wind_m_s,
        )

    def is_clear(self, time: float | None = None) -> bool:
        """Whether the air holds nothing at a time [s], or at any time. Wind alone is clear air."""
        if time is not None:
            return self.at(time).is_clear
        rates = [part.rate_mm_h for part in (self.rain, self.snow) if part is not None]
        rates += [cloud.density_kg_m3 for cloud in self.dust_clouds]
        return self.fog is None and not self.dust_trails and all(bounds_of(rate)[1] == 0.0 for rate in rates)

    @property
    def is_still(self) -> bool:
        """Whether it is the same at all times."""
        schedules: list[Schedule] = [part.rate_mm_h for part in (self.rain, self.snow) if part is not None]
        schedules += [] if self.fog is None else [self.fog.visibility_m]
        schedules += [cloud.density_kg_m3 for cloud in self.dust_clouds]
        changes = any(low != high for low, high in map(bounds_of, schedules))
        return not changes and not self.dust_trails and not any(self.wind_m_s)

    @property
    def dust_clouds(self) -> tuple[DustCloud, ...]:
        """The dust that is placed by hand."""
        return tuple(part for part in self.dust if isinstance(part, DustCloud))

    @property
    def dust_trails(self) -> tuple[DustTrail, ...]:
        """The dust that vehicles raise."""
        return tuple(part for part in self.dust if isinstance(part, DustTrail))

    # ---- changing ----------------------------------------------------------------------------------------------

    def but(self, **changes: Any) -> Weather:
        """A copy with other values: `weather.but(rain_rate_mm_h=5)`; None takes a part away.

        A short field changes the one number and leaves the rest of its part as it is.
        """
        wanted = config.parse(WeatherFields, plain(changes), "weather")
        given = wanted.model_fields_set
        values: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values |= {name: getattr(wanted, name) for name in given if name not in _SHORT}
        for short, (kind, field) in _SHORT.items():
            number, part = getattr(wanted, short), values[kind]
            if number is not None:
                values[kind] = (
                    _PARTS[kind](**{field: number}) if part is None else part.model_copy(update={field: number})
                )
            elif short in given and kind not in given:
                values[kind] = None
        return Weather(**values)

    def apply(
        self,
        cloud: PointCloud,
        *,
        sensor: Any,
        seed: int = 0,
        frame: int = 0,
        time: float = 0.0,
        pose: Pose | None = None,
        reflectance: float | None = None,
        no_returns: str = "auto",
    ) -> PointCloud:
        """A recorded cloud as it would have been in this weather.

        `sensor` is the `Lidar` that recorded it, or its name; `seed` and `frame` choose the drops; `time` [s] is where
        in its changes the weather is, which stands still for the length of the cloud. `pose` is where the sensor stood,
        which only uneven weather and dust ask for.
        `reflectance` stands for intensity where the cloud has none. `no_returns`: 'auto' takes shots without a return
        from the cloud, or finds them by the sensor's pattern or between the points; 'none' leaves them out.
        What could not be done is said in `metadata['weather_notes']`.
        """
        from parhelion.sensors.optics.lidar.recorded import lidar_of, weathered

        return weathered(
            cloud, self, lidar_of(sensor), seed=seed, frame=frame, time=time, pose=pose, reflectance=reflectance,
            no_returns=no_returns,
        )  # fmt: skip

    # ---- files -------------------------------------------------------------------------------------------------

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], source: str | PathLike[str] = "weather") -> Weather:
        """From fields as a weather file has them; `source` stands first in what is said of wrong ones."""
        data = plain(mapping) if isinstance(mapping, Mapping) else mapping
        fields = config.parse(WeatherFields, data, source)
        weather = cls.__new__(cls)
        weather._take(fields)
        return weather

    def to_mapping(self) -> dict[str, Any]:
        """The fields that are not as usual, as a weather file has them; `from_mapping` gives the same weather."""
        content: dict[str, Any] = {}
        for short, (kind, field) in _SHORT.items():
            part: Part | None = getattr(self, kind)
            if part is not None:
                fields = part.to_mapping()
                content |= {short: fields[field]} if fields.keys() == {field} else {kind: fields}
        if self.dust:
            for row, part in enumerate(self.dust):
                if isinstance(part, DustTrail) and not isinstance(part.path, tuple):
                    raise ConfigError(
                        f"weather: dust[{row}].path: a file holds rows of [time_s, x, y, z], "
                        f"not this {type(part.path).__name__}"
                    )
            content["dust"] = [part.to_mapping() for part in self.dust]
        if any(self.wind_m_s):
            content["wind_m_s"] = list(self.wind_m_s)
        if self.seed:
            content["seed"] = self.seed
        return content

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Weather:
        """Read a weather file (.yaml)."""
        return cls.from_mapping(config.read_yaml(path), path)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a weather file (.yaml); an earlier file is replaced whole or not at all."""
        file = Path(path)
        if file.suffix.lower() not in (".yaml", ".yml"):
            raise ConfigError(f"{file}: a weather file's name ends in .yaml")
        text = yaml.safe_dump(
            self.to_mapping(), sort_keys=False, allow_unicode=True, default_flow_style=None, width=110
        )
        write_whole(file, text.encode("utf-8"))

    def __repr__(self) -> str:
        said = []
        if self.rain is not None:
            said.append(f"rain {_amount(self.rain.rate_mm_h)} mm/h")
        if self.fog is not None:
            said.append(f"visibility {_amount(self.fog.visibility_m)} m")
        if self.snow is not None:
            said.append(f"snow {_amount(self.snow.rate_mm_h)} mm/h")
        for word, count in (("cloud", len(self.dust_clouds)), ("trail", len(self.dust_trails))):
            if count:
                said.append(f"{count} dust {word}{'s' if count > 1 else ''}")
        if any(self.wind_m_s):
            said.append(f"wind ({', '.join(f'{v:g}' for v in self.wind_m_s)}) m/s")
        return f"<Weather {', '.join(said) or 'clear'}>"


def _amount(schedule: Schedule) -> str:
    low, high = bounds_of(schedule)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
