"""Weather of a world: media in the air, their schedules, and weather files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import yaml
from pydantic import Field, ValidationInfo, create_model, field_validator

from parhelion.core import config
from parhelion.core.clouds import PointCloud
from parhelion.core.deprecation import deprecated_method
from parhelion.core.errors import ConfigError
from parhelion.core.files import write_whole
from parhelion.core.pose import Pose
from parhelion.weather.ground import AMOUNTS as GROUND
from parhelion.weather.ground import FROM_RAIN, HALF_WET, Ground, ground_at, share_check
from parhelion.weather.ground import is_constant as ground_is_constant
from parhelion.weather.media import Cover, Medium, Radio, table
from parhelion.weather.parts import Schedule, WholeNumber, Wind, bounds_of, plain, range_words, seconds, within

if TYPE_CHECKING:
    from parhelion.weather.media.dust import DustCloud, DustTrail
    from parhelion.weather.media.fog import Fog
    from parhelion.weather.media.rain import Rain
    from parhelion.weather.media.smoke import SmokeCloud
    from parhelion.weather.media.snow import Snow
    from parhelion.weather.media.spray import SprayCloud
    from parhelion.weather.raised import RaisedPart


AIR = {"temperature_c": (-60.0, 60.0), "humidity_percent": (0.0, 100.0), "pressure_hpa": (100.0, 1200.0)}
"""State of the air and its limits. A value that is not given is that of each sensor's data sheet or of the standard."""


def weather_fields() -> type[config.Config]:
    """Model of a weather file: for each medium its part, and its amount as a short form."""
    return _fields(tuple(table().values()))


@lru_cache(maxsize=8)
def _fields(media: tuple[Medium, ...]) -> type[config.Config]:
    shorts = {medium.amount.short: medium.name for medium in media if medium.place is None}

    def one_form(value: Schedule | None, info: ValidationInfo) -> Schedule | None:
        part = shorts[info.field_name or ""]
        if value is not None and info.data.get(part) is not None:
            raise ValueError(f"set {part} or {info.field_name}, not both")
        return value

    # The validator of a short form reads its part, so all parts come first.
    fields: dict[str, Any] = {}
    list_of: Any = list
    for medium in media:
        if medium.place is None:
            fields[medium.name] = (medium.part | None, None)
        else:
            fields[medium.name] = (list_of[medium.part], Field(default_factory=list))
    for medium in media:
        if medium.place is None:
            fields[medium.amount.short] = (Annotated[Schedule, medium.amount.check] | None, None)
    fields["wind_m_s"] = (tuple[Wind, Wind, Wind], (0.0, 0.0, 0.0))
    for name, (low, high) in AIR.items():
        fields[name] = (Annotated[float, Field(ge=low, le=high)] | None, None)
    for name in GROUND:
        fields[name] = (Annotated[Schedule | str, share_check(name)] | None, None)
    fields["seed"] = (Annotated[WholeNumber, within(0, 2**64 - 1)], 0)
    checks: dict[str, Any] = {"one_form": field_validator(*shorts)(one_form)}
    checks |= {f"list_of_{one.name}": _a_list(one) for one in media if one.place is not None}
    return create_model("WeatherFields", __base__=config.Config, __validators__=checks, **fields)


def _a_list(medium: Medium) -> Any:
    def check(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"must be a list of {medium.parts_word}")
        return value

    return field_validator(medium.name, mode="before")(check)


@dataclass(frozen=True)
class Conditions:
    """Weather at one time in plain numbers; means over space for heterogeneous weather.

    The amount of each medium is an attribute: `rain_rate_mm_h`, `visibility_m` (infinite without fog),
    `snow_rate_mm_h` (as melted water), `cloud_density_kg_m3` (at the centre of each dust cloud, trails left out),
    `trails_begun` (dust trails; their dust remains after they end), `spray_density_kg_m3` (at the centre of each cloud
    of spray), those of media of other packages, and `wetness`, `puddles` and `snow_cover` of the ground. Dust and
    spray that vehicles raise are left out.
    """

    time_s: float
    wind_m_s: tuple[float, float, float]
    amounts: Mapping[str, Any]

    def __init__(
        self, time_s: float, *, wind_m_s: tuple[float, float, float] = (0.0, 0.0, 0.0), **amounts: Any
    ) -> None:
        if unknown := amounts.keys() - _clear_air().keys():
            raise TypeError(f"Conditions: unknown amount {sorted(unknown)[0]!r}")
        for name, value in (("time_s", time_s), ("wind_m_s", wind_m_s), ("amounts", {**_clear_air(), **amounts})):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["amounts"][name]
        except KeyError:
            raise AttributeError(f"Conditions has no {name!r}") from None

    @property
    def is_clear(self) -> bool:
        """True if the air holds nothing, whatever the ground. Wind alone is clear air."""
        clear = _clear_air()
        air = [(name, now) for name, now in self.amounts.items() if name not in GROUND]
        return not any(any(now) if isinstance(now, tuple) else now != clear[name] for name, now in air)


def _clear_air() -> dict[str, Any]:
    amounts: dict[str, Any] = {}
    for medium in table().values():
        amounts |= medium.effects.conditions(medium, (), 0.0)
    return amounts | dict.fromkeys(GROUND, 0.0)


class Present(NamedTuple):
    """Medium that is in the air at one time."""

    medium: Medium
    part: Any
    amount: float
    row: int
    """Number of the part among those of a placed medium; 0 for others."""


class Weather:
    """Media in the air: rain, fog, snow, dust, spray, media of other packages, and wind. `Weather()` is clear air.

    Amounts are numbers, or pairs of time [s] and value. Each medium is an attribute: its part or None, or a tuple of
    parts for placed media such as dust.

    Args:
        rain_rate_mm_h: Rain rate [mm/h]; short for `rain`.
        visibility_m: Visibility in fog or haze [m]; short for `fog`.
        snow_rate_mm_h: Snow rate as melted water [mm/h]; short for `snow`.
        rain: Rain with its model and drop sizes.
        fog: Fog with its model and heterogeneity.
        snow: Snow and the surfaces that it covers.
        dust: Dust clouds and trails.
        spray: Clouds of spray.
        smoke: Clouds of smoke.
        wind_m_s: Velocity of the air in the world [m/s].
        temperature_c: Temperature of the air [°C]; by default each sensor uses that of its data sheet.
        humidity_percent: Relative humidity of the air [%]; by default that of the data sheet.
        pressure_hpa: Pressure of the air [hPa]; by default that of the data sheet.
        wetness: Wet share of surfaces, 0 to 1, or 'from-rain'; by default sensors see dry surfaces,
            and cameras wet ones in rain.
        puddles: Share of level ground under puddles, 0 to 1, or 'from-rain'.
        snow_cover: Share of surfaces facing up that snow covers, 0 to 1.
        seed: Selects the random positions of eddies and cells and the motion of dust.
        others: Media of other packages by name.

    Example:
        >>> import parhelion as ph
        >>> weather = ph.Weather(rain_rate_mm_h=[[0, 0], [60, 25]], visibility_m=800)
        >>> weather
        <Weather rain 0 to 25 mm/h, visibility 800 m>
        >>> weather.at(30.0).rain_rate_mm_h
        12.5
        >>> weather.replace(rain_rate_mm_h=None)
        <Weather visibility 800 m>
    """

    rain: Rain | None
    fog: Fog | None
    snow: Snow | None
    dust: tuple[DustCloud | DustTrail, ...]
    spray: tuple[SprayCloud, ...]
    smoke: tuple[SmokeCloud, ...]
    wind_m_s: tuple[float, float, float]
    """Velocity of the air in the world, the same everywhere."""
    temperature_c: float | None
    """Temperature of the air [°C]; None leaves it to the sensors."""
    humidity_percent: float | None
    """Relative humidity of the air [%]; None leaves it to the sensors."""
    pressure_hpa: float | None
    """Pressure of the air [hPa]; None leaves it to the sensors."""
    wetness: Schedule | str | None
    """Wet share of surfaces; None leaves it to the sensors."""
    puddles: Schedule | str | None
    """Share of level ground under puddles."""
    snow_cover: Schedule | None
    """Share of surfaces facing up that snow covers."""
    seed: int
    """Selects the random positions of eddies and cells and the motion of dust."""
    raised: tuple[tuple[str, RaisedPart], ...]
    """Media that vehicles of a scenario raise, by name; not part of weather files."""

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
        spray: Sequence[SprayCloud | Mapping[str, Any]] = (),
        smoke: Sequence[SmokeCloud | Mapping[str, Any]] = (),
        wind_m_s: Sequence[float] = (0.0, 0.0, 0.0),
        temperature_c: float | None = None,
        humidity_percent: float | None = None,
        pressure_hpa: float | None = None,
        wetness: Schedule | str | None = None,
        puddles: Schedule | str | None = None,
        snow_cover: Schedule | None = None,
        seed: int = 0,
        **others: Any,
    ) -> None:
        # The explicit names are for type checkers and editors; all media are handled in the same way.
        given = {
            **others,
            "rain_rate_mm_h": rain_rate_mm_h,
            "visibility_m": visibility_m,
            "snow_rate_mm_h": snow_rate_mm_h,
            "rain": rain,
            "fog": fog,
            "snow": snow,
            "dust": dust,
            "spray": spray,
            "smoke": smoke,
            "wind_m_s": wind_m_s,
            "seed": seed,
            "temperature_c": temperature_c,
            "humidity_percent": humidity_percent,
            "pressure_hpa": pressure_hpa,
            "wetness": wetness,
            "puddles": puddles,
            "snow_cover": snow_cover,
        }
        self._take(config.parse(weather_fields(), plain(given), "weather"))

    def _take(self, fields: Any) -> None:
        values: dict[str, Any] = {name: getattr(fields, name) for name in ("wind_m_s", *AIR, *GROUND, "seed")}
        for name, medium in table().items():
            part = getattr(fields, name)
            if medium.place is not None:
                values[name] = tuple(part)
                continue
            number = getattr(fields, medium.amount.short)
            values[name] = part if number is None else medium.part(**{medium.amount.field: number})
        self.__dict__.update(values, raised=())

    def __getattr__(self, name: str) -> Any:
        medium = None if name.startswith("_") else table().get(name)
        if medium is None:
            raise AttributeError(f"Weather has no {name!r}")
        return None if medium.place is None else ()  # registered after this weather was created

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in (*table(), "wind_m_s", *AIR, *GROUND, "seed", "raised"))

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Weather) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    # ---- queries -----------------------------------------------------------------------------------------------

    def parts(self) -> Iterator[tuple[Medium, Any, int]]:
        """Media with their parts, and the number of each part among those of its medium."""
        for name, medium in table().items():
            found = getattr(self, name)
            parts = () if found is None else found if medium.place is not None else (found,)
            yield from ((medium, part, row) for row, part in enumerate(parts))
            yield from ((medium, part, part.slot) for owner, part in self.raised if owner == name)

    def present(self, time: float) -> list[Present]:
        """Media that are in the air at a time [s], in the order of the table."""
        return [
            Present(medium, part, medium.amount.at(part, time), row)
            for medium, part, row in self.parts()
            if part.is_there(medium.amount, time)
        ]

    def at(self, time: float) -> Conditions:
        """Amounts of all media at a time [s]."""
        now = float(seconds(time))
        amounts: dict[str, Any] = {}
        for name, medium in table().items():
            found = getattr(self, name)
            parts = found if medium.place is not None else () if found is None else (found,)
            amounts |= medium.effects.conditions(medium, parts, now)
        ground = self.ground(now)
        if ground is not None:
            amounts |= {name: getattr(ground, name) for name in GROUND}
        return Conditions(now, wind_m_s=self.wind_m_s, **amounts)

    def is_clear(self, time: float | None = None) -> bool:
        """Return True if the air holds nothing at a time [s], or at any time. Wind alone is clear air."""
        now = None if time is None else float(seconds(time))
        return not any(part.is_there(medium.amount, now) for medium, part, _ in self.parts())

    @property
    def is_constant(self) -> bool:
        """True if the weather is the same at all times."""
        still = not any(self.wind_m_s) and all(part.is_constant(medium.amount) for medium, part, _ in self.parts())
        return still and ground_is_constant(self)

    def ground(self, time: float) -> Ground | None:
        """Wet and snowy ground at a time [s]; None if it is dry and bare, or if this weather does not state it."""
        return ground_at(self, float(seconds(time)))

    def radio(self, time: float, frequency_hz: float) -> list[tuple[Medium, Radio]]:
        """Effects of media on radio waves at a time [s]."""
        found = (
            (one.medium, one.medium.effects.radio(one.part, one.amount, frequency_hz)) for one in self.present(time)
        )
        return [(medium, effect) for medium, effect in found if effect is not None]

    def sound(self, time: float, frequency_hz: float) -> float:
        """One-way attenuation of sound [dB/m] by all media at a time [s]."""
        return sum(one.medium.effects.sound(one.part, one.amount, frequency_hz) for one in self.present(time))

    @property
    def covered(self) -> tuple[tuple[str, str, str], ...]:
        """Label of each covered surface, its material when covered, and the name of the medium."""
        return tuple((label, cover.material, name) for name, cover in self._covers() for label in cover.labels)

    @property
    def is_wet(self) -> bool:
        """True if porous surfaces are wet at some time: as `wetness` states, by default if it rains."""
        if self.wetness is not None and self.wetness != FROM_RAIN:
            return bounds_of(self.wetness)[1] >= HALF_WET  # type: ignore[arg-type]
        return any(cover.wets for _, cover in self._covers())

    def is_wet_at(self, time: float) -> bool:
        """Return True if the ground is wet at a time [s]: as `wetness` states, by default if it rains."""
        if self.wetness is not None:
            ground = self.ground(time)
            return ground is not None and ground.wetness >= HALF_WET
        covers = (one.medium.effects.cover(one.part) for one in self.present(time))
        return any(cover is not None and cover.wets for cover in covers)

    def _covers(self) -> Iterator[tuple[str, Cover]]:
        for medium, part, _ in self.parts():
            if (cover := medium.effects.cover(part)) is not None:
                yield medium.name, cover

    is_still = deprecated_method("is_still", "is_constant")

    # ---- changing ----------------------------------------------------------------------------------------------

    def replace(self, **changes: Any) -> Weather:
        """Copy with other values: `weather.replace(rain_rate_mm_h=5)`; None removes a part.

        A short field changes its number and leaves the rest of the part unmodified.
        """
        wanted = config.parse(weather_fields(), plain(changes), "weather")
        given = wanted.model_fields_set
        values: dict[str, Any] = {name: getattr(self, name) for name in (*table(), "wind_m_s", *AIR, *GROUND, "seed")}
        values |= {name: getattr(wanted, name) for name in given if name in values}
        for name, medium in table().items():
            field, short, part = medium.amount.field, medium.amount.short, values[name]
            number = getattr(wanted, short, None)
            if number is not None:
                values[name] = (
                    medium.part(**{field: number}) if part is None else part.model_copy(update={field: number})
                )
            elif short in given and name not in given:
                values[name] = None
        return Weather(**values).with_raised(self.raised)

    def with_raised(self, raised: Sequence[tuple[str, RaisedPart]]) -> Weather:
        """Copy with other media that vehicles raise, by name."""
        weather = Weather.__new__(Weather)
        weather.__dict__.update(self.__dict__, raised=tuple(raised))
        return weather

    but = deprecated_method("but", "replace")

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
        """Apply this weather to a recorded cloud.

        Args:
            cloud: Recorded cloud in the sensor frame.
            sensor: `Lidar` that recorded it, or its name.
            seed: Selects the random particles.
            frame: Number of the frame; each frame has different particles.
            time: Time [s] in the schedules of the weather, which is constant during the cloud.
            pose: Pose of the sensor, needed only for heterogeneous and placed weather.
            reflectance: Replaces intensity if the cloud has none.
            no_returns: 'auto' takes shots without a return from the cloud, or finds them by the sensor's pattern or
                between the points; 'none' ignores them.

        Returns:
            Cloud in weather; `metadata['weather_notes']` lists the limitations.
        """
        from parhelion.sensors.optics.lidar.recorded import lidar_of, weathered

        return weathered(
            cloud,
            self,
            lidar_of(sensor),
            seed=seed,
            frame=frame,
            time=time,
            pose=pose,
            reflectance=reflectance,
            no_returns=no_returns,
        )

    # ---- files -------------------------------------------------------------------------------------------------

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], source: str | PathLike[str] = "weather") -> Weather:
        """Create a weather from the fields of a weather file; `source` names the file in error messages."""
        data = plain(mapping) if isinstance(mapping, Mapping) else mapping
        fields = config.parse(weather_fields(), data, source)
        weather = cls.__new__(cls)
        weather._take(fields)
        return weather

    def to_mapping(self) -> dict[str, Any]:
        """Fields that differ from their defaults, as in a weather file; `from_mapping` returns the same weather."""
        content: dict[str, Any] = {}
        for medium, part, row in self.with_raised(()).parts():
            try:
                fields = part.to_mapping()
            except ConfigError as error:
                raise ConfigError(f"weather: {medium.name}[{row}].{error}") from None
            amount = medium.amount
            if medium.place is not None:
                content.setdefault(medium.name, []).append(fields)
            else:
                short = fields.keys() == {amount.field}
                content |= {amount.short: fields[amount.field]} if short else {medium.name: fields}
        if any(self.wind_m_s):
            content["wind_m_s"] = list(self.wind_m_s)
        content |= {name: plain(value) for name in (*AIR, *GROUND) if (value := getattr(self, name)) is not None}
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
        words, placed = [], Counter[str]()
        for medium, part, _ in self.parts():
            if medium.place is None:
                amount = medium.amount
                words.append(f"{medium.word} {range_words(getattr(part, amount.field))} {amount.unit}")
            else:
                placed[f"{medium.name} {getattr(part, 'kind', 'part')}"] += 1
        words += [f"{count} {word}{'s' if count > 1 else ''}" for word, count in sorted(placed.items())]
        if any(self.wind_m_s):
            words.append(f"wind ({', '.join(f'{v:g}' for v in self.wind_m_s)}) m/s")
        units = {"temperature_c": "°C", "humidity_percent": "% humidity", "pressure_hpa": "hPa"}
        words += [f"{value:g} {unit}" for name, unit in units.items() if (value := getattr(self, name)) is not None]
        for name, amount in GROUND.items():
            if (value := getattr(self, name)) is not None:
                words.append(f"{amount.word} {value if value == FROM_RAIN else range_words(value)}")
        return f"<Weather {', '.join(words) or 'clear'}>"
