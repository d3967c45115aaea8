"""Weather on the command line: one option per medium of the table, and the weather that they describe.

    @weather_options
    def scan(world: ..., *, weather: WeatherOptions) -> None: ...

    app.command(cls=WeatherCommand)(scan)

The options are created when a command is used, so that `parhelion --help` imports no medium.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli.screen import Command, count, percent, warn
from parhelion.core.errors import ConfigError

if TYPE_CHECKING:
    from parhelion.core.clouds import PointCloud
    from parhelion.pictures.weather import Changes
    from parhelion.sensors.optics.lidar.validity import Validity
    from parhelion.weather import Medium, Weather
    from parhelion.weather.media import Option

IN_THE_AIR = "in the air"
"""Label of points that belong to no labelled object."""
_GROUP = "Weather"
_META = "parhelion.weather"


class WeatherCommand(Command):
    """A command with options for the weather, one or more per medium of the table."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Options of the command itself, then those of the weather, then `--help`."""
        own = super().get_params(ctx)
        return [*self.params, *_parameters(), *own[len(self.params) :]]

    def invoke(self, ctx: Any) -> Any:
        """Run the command with the weather options as one argument."""
        ctx.meta[_META] = WeatherOptions(**{one.name: ctx.params.pop(one.name) for one in _parameters()})
        return super().invoke(ctx)


def weather_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a function of a `WeatherCommand`: its parameter `weather` holds the weather options."""
    signature = inspect.signature(command, eval_str=True)
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    shown = [context, *(one for one in signature.parameters.values() if one.name != "weather")]

    @wraps(command)
    def call(ctx: typer.Context, **arguments: Any) -> None:
        command(**arguments, weather=ctx.meta[_META])

    call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in shown}
    return call


def _parameters() -> list[Any]:
    from parhelion.weather import media

    return _made_for(tuple(media.table().values()))


@lru_cache(maxsize=8)
def _made_for(media: tuple[Medium, ...]) -> list[Any]:
    """Parameters of the weather options as typer makes them."""
    from parhelion.weather.ground import AMOUNTS

    found = [_option(_name(one.amount.option), *_amount_type(one), one.amount.option) for one in media]
    found.append(_option("wind", str, "X,Y[,Z]", "Wind in the world, in m/s.", "--wind"))
    found += [_option(name, str, one.metavar, one.help, one.option) for name, one in AMOUNTS.items()]
    choice: Any = Enum
    for option in (option for one in media for option in one.options):
        words = {word: word for word in option.choices}
        kind = choice(_name(option.flag), words, type=str) if words else bool
        metavar = "NAME" if option.choices else None
        found.append(_option(_name(option.flag), kind, metavar, option.help, option.flag))
        if option.old:
            found.append(_option(_name(option.old), kind, metavar, option.help, option.old, hidden=True))
    found.append(_option("file", Path, "FILE", "Weather file (.yaml); options change it.", "--weather"))

    def no_command() -> None: ...

    no_command.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    maker = typer.Typer(add_completion=False)
    maker.command()(no_command)
    return list(typer.main.get_command(maker).params)


def _option(
    name: str, kind: Any, metavar: str | None, words: str, flag: str, *, hidden: bool = False
) -> inspect.Parameter:
    shown = typer.Option(flag, metavar=metavar, help=words, rich_help_panel=_GROUP, hidden=hidden)
    default = False if kind is bool else None
    annotated: Any = Annotated
    annotation = annotated[kind if kind is bool else kind | None, shown]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _amount_type(medium: Medium) -> tuple[Any, str, str]:
    return float if medium.place is None else list[str], medium.amount.metavar, medium.amount.help


def _name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


class WeatherOptions:
    """Weather options of a command line, by name: `rain=25, rain_model="vane", dust=["1,2,3,4"], file=...`."""

    def __init__(self, **given: Any) -> None:
        # An amount of 0 counts as given; a flag that is not set does not.
        there = {name: value for name, value in given.items() if value is not None and value is not False}
        self.given = {name: getattr(value, "value", value) for name, value in there.items() if value not in ([], ())}

    def __bool__(self) -> bool:
        return bool(self.given)

    def weather(self, base: Weather | None = None) -> Weather | None:
        """Weather of the file or of `base`, changed by the options; without any option, `base`."""
        from parhelion.weather import Weather, media
        from parhelion.weather.ground import AMOUNTS

        if not self.given:
            return base
        file = self.given.get("file")
        found = Weather.load(file) if file is not None else base or Weather()
        for medium in media.table().values():
            value = self.given.get(_name(medium.amount.option))
            if medium.place is None:
                found = _changed(found, medium.amount.option, medium.amount.short, value)
            elif value is not None:
                parts = [_placed(medium, text) for text in value]
                found = found.replace(**{medium.name: [*getattr(found, medium.name), *parts]})
        found = _changed(found, "--wind", "wind_m_s", _wind(self.given.get("wind")))
        for name, amount in AMOUNTS.items():
            found = _changed(found, amount.option, name, _share(self.given.get(name)))
        for medium in media.table().values():
            for option in medium.options:
                found = self._with_detail(found, medium, option)
        return found

    def _with_detail(self, weather: Weather, medium: Medium, option: Option) -> Weather:
        """Weather with a further option of a medium that is already present."""
        flag, value = option.flag, self.given.get(_name(option.flag))
        if value is None and option.old and (value := self.given.get(_name(option.old))) is not None:
            flag = option.old
            warn(f"{option.old} is deprecated; use {option.flag}")
        if value is None:
            return weather
        part = getattr(weather, medium.name)
        if part is None:
            raise typer.BadParameter(f"requires {medium.amount.option}", param_hint=flag)
        if not option.choices:
            value = getattr(part, option.field) or option.value
        return weather.replace(**{medium.name: part.model_copy(update={option.field: value})})


def in_words(weather: Weather) -> str:
    """A weather in one line, such as `rain 25 mm/h, visibility 800 m`."""
    return repr(weather).removeprefix("<Weather ").removesuffix(">")


def validity_rows(found: Mapping[str, Mapping[str, Validity]]) -> list[tuple[str, str]]:
    """Row of a summary with the validity of sensors in weather; none if none is graded. One sensor needs no name."""
    from parhelion.sensors.optics.lidar.validity import in_words

    words = [(f"{name}: " if len(found) > 1 else "") + in_words(grades) for name, grades in found.items() if grades]
    return [("validity", "; ".join(words))] if words else []


def air_counts(cloud: PointCloud) -> dict[str, int]:
    """Number of echoes per medium; media without echoes are omitted."""
    import numpy as np

    from parhelion.weather import media

    if "origin" not in cloud.fields:
        return {}
    number = np.bincount(cloud.fields["origin"], minlength=256)
    # Recordings keep shots without return as rows without coordinates.
    number -= np.bincount(cloud.fields["origin"][~np.isfinite(cloud.xyz[:, 0])], minlength=256)
    return {name: int(number[medium.code]) for name, medium in media.table().items() if number[medium.code]}


def add_counts(total: dict[str, int], more: dict[str, int]) -> None:
    """Add counts to earlier ones, in place."""
    for word, number in more.items():
        total[word] = total.get(word, 0) + number


def shares(counts: dict[str, int], points: int) -> str:
    """Text with the count of each medium and its share of all points."""
    parts = [f"{word} {count(number)} ({percent(number / points)})" for word, number in counts.items()]
    return ", ".join(parts) or "no points"


def lost_words(changes: Changes) -> str:
    """Text with the number of lost clear-air points, and how many were replaced by echoes of the air."""
    lost = len(changes.lost)
    clear = lost + len(changes.kept_before)
    words = f"{count(lost)} of {count(clear)} points of clear air ({percent(lost / max(clear, 1))})"
    return words + (f", {count(changes.outshone)} of them replaced by an echo of the air" if changes.outshone else "")


def _changed(weather: Weather, option: str, field: str, value: Any) -> Weather:
    if value is None:
        return weather
    try:
        return weather.replace(**{field: value})
    except ConfigError as error:
        # The message names the option that the user wrote, not the field of a file.
        reason = str(error).removeprefix("weather: ").partition(": ")[2].partition("; ")[0]
        raise ConfigError(f"{option}: {reason.replace(field, option)}") from None


def numbers(text: str, option: str, names: str, counts: tuple[int, ...]) -> list[float]:
    """Parse numbers such as `1,2,3`; `names` describes them, `counts` lists the allowed lengths."""
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


def _share(text: str | None) -> float | str | None:
    """Number of a share, or the text for the check of the field."""
    try:
        return text if text is None else float(text)
    except ValueError:
        return text


def _placed(medium: Medium, text: str) -> Any:
    """Parse a part of a placed medium from `X,Y,Z,RADIUS[,AMOUNT]`."""
    amount = medium.amount
    assert medium.place is not None
    counts = (5,) if amount.default is None else (4, 5)
    x, y, z, radius, value, *_ = *numbers(text, amount.option, amount.metavar, counts), amount.default
    try:
        return medium.place((x, y, z), (radius, radius, radius), value)
    except ConfigError as error:
        reason = str(error).partition(": ")[2].partition("; ")[0]
        raise ConfigError(f"{amount.option}: {reason.replace('half_size_m[0]', 'radius')}") from None
