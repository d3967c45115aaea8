"""`parhelion worlds`: the built-in worlds, as a table or one in detail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import check_file
from parhelion.cli.engine import start_engine
from parhelion.cli.scan import load_world

if TYPE_CHECKING:
    from parhelion import World

EXAMPLES = (
    "parhelion worlds",
    "parhelion worlds city --png city.png",
    "parhelion worlds hall.obj",
    "parhelion worlds city --seed 3 --param blocks=2 --param cars=40 --list city.yaml --plan city-plan.png",
    "parhelion worlds my-list.json --check",
)


def worlds(
    name: Annotated[str | None, typer.Argument(help="A world's name, a world, list, map or mesh file.")] = None,
    png: Annotated[Path | None, typer.Option(help="Picture of the world from above.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of a built-in world.")] = None,
    param: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Parameter of the world; may be given again.")
    ] = None,
    list_file: Annotated[
        Path | None, typer.Option("--list", help="Write the list of things, .yaml or .json, of a world that has one.")
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="Write the plan as a bitmap (.png): what stands where.")] = None,
    resolution: Annotated[float, typer.Option(help="Width of the plan's pixels in m.")] = 0.1,
    check: Annotated[bool, typer.Option("--check", help="Say what is wrong with a list of things.")] = False,
) -> None:
    """List the built-in worlds, or show one of them; any world, list, map or mesh file works too."""
    if name is not None:
        params = _params(param or [])
        if check:
            _check(name, seed, params)
        else:
            _show(name, png, seed, params, list_file, plan, resolution)
    elif png is not None:
        raise typer.BadParameter(
            "name the world to draw, such as: parhelion worlds city --png city.png", param_hint="--png"
        )
    elif seed is not None or param or list_file is not None or plan is not None or check:
        raise typer.BadParameter("name the world that the options are for, such as: parhelion worlds city --seed 3")
    else:
        _list()


def _params(entries: list[str]) -> dict[str, Any]:
    """Parameters from NAME=VALUE, each value as YAML has it: a number, true, a word, or a list such as [60, 40]."""
    import yaml

    params = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"must be NAME=VALUE, such as blocks=2, got {entry!r}", param_hint="--param")
        try:
            params[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise typer.BadParameter(f"cannot be read: {entry!r}", param_hint="--param") from None
    return params


def _check(name: str, seed: int | None, params: dict[str, Any]) -> None:
    """Print what is wrong with a world's list; exit code 1 where something is."""
    from parhelion.world.procedural import check, layout_of

    if Path(name).suffix.lower() in (".yaml", ".yml", ".json"):
        from parhelion.world.procedural import Layout

        layout = Layout.load(name)
    else:
        layout = layout_of(_load(name, seed, params))
    problems = check(layout)
    for sentence in problems:
        screen.say(sentence)
    screen.say(f"{layout.name}: {len(layout.objects)} things, {len(problems) or 'nothing'} wrong")
    if problems:
        raise typer.Exit(1)


def _load(name: str, seed: int | None, params: dict[str, Any]) -> World:
    if seed is None and not params:
        return load_world(name)
    from parhelion import World

    return World.load(name, seed=seed, **params)


def _list() -> None:
    from parhelion.world.builtin import BUILTIN

    rows = []
    with screen.progress("building", len(BUILTIN)) as advance:
        for entry in BUILTIN.values():
            world = load_world(entry.name)
            way = "path" if world.path is not None else ""
            rows.append((entry.name, screen.count(world.triangle_count), way, entry.description))
            advance()
    screen.table("", ("world", "triangles", "drive", "what is there"), rows, numbers=("triangles",))


def _show(
    name: str,
    png: Path | None,
    seed: int | None,
    params: dict[str, Any],
    list_file: Path | None,
    plan: Path | None,
    resolution: float,
) -> None:
    from parhelion.world.builtin import BUILTIN

    if png is not None:
        from parhelion.pictures.style import check_picture

        check_file(check_picture(png))
    for file in (list_file, plan):
        if file is not None:
            check_file(file)
    world = _load(name, seed, params)
    rows = []
    if name in BUILTIN:
        rows.append(("what is there", BUILTIN[name].description))
    actors = sum(item.is_actor for item in world.objects)
    rows.append(("triangles", screen.count(world.triangle_count)))
    rows.append(("objects", f"{len(world.objects) - actors} standing, {actors} moving"))
    if world.bounds is not None:
        lower, upper = world.bounds
        sides = zip("xyz", lower, upper, strict=True)
        rows.append(("bounds", ", ".join(f"{axis} {low:.1f} to {high:.1f} m" for axis, low, high in sides)))
    rows.append(("viewpoint", repr(world.viewpoint)))
    times = getattr(world.path, "times", None)
    if times is not None:
        rows.append(("path", f"{times[0]:.1f} to {times[-1]:.1f} s, {len(times)} poses"))
    rows.append(("labels", ", ".join(world.label_names.values())))
    rows.append(("materials", ", ".join(sorted(material.name for material in world.materials))))
    rows += [
        (f"parameter {key}", meaning) for key, meaning in (BUILTIN[name].params if name in BUILTIN else {}).items()
    ]
    screen.facts(world.name or name, rows)
    if png is not None:
        from parhelion.pictures import draw_world

        start_engine()
        draw_world(world, png)
        screen.say(f"wrote {png}")
    if list_file is not None or plan is not None:
        _write_list(world, list_file, plan, resolution)


def _write_list(world: World, list_file: Path | None, plan: Path | None, resolution: float) -> None:
    """The list of a world's things, and its bitmap."""
    from parhelion.pictures.layout import save_layout_bitmap
    from parhelion.world.procedural import layout_of

    layout = layout_of(world)
    if list_file is not None:
        layout.save(list_file)
        screen.say(f"wrote {list_file}: {len(layout.objects)} things")
    if plan is not None:
        save_layout_bitmap(layout, plan, resolution)
        screen.say(f"wrote {plan}")
