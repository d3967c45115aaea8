"""`parhelion worlds`: the built-in worlds, as a table or one in detail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import check_file
from parhelion.cli.engine import start_engine
from parhelion.cli.scan import load_world

EXAMPLES = ("parhelion worlds", "parhelion worlds city --png city.png", "parhelion worlds hall.obj")


def worlds(
    name: Annotated[str | None, typer.Argument(help="A world's name, a world file or a mesh file.")] = None,
    png: Annotated[Path | None, typer.Option(help="Picture of the world from above.")] = None,
) -> None:
    """List the built-in worlds, or show one of them; any world file or mesh file works too."""
    if name is not None:
        _show(name, png)
    elif png is not None:
        raise typer.BadParameter(
            "name the world to draw, such as: parhelion worlds city --png city.png", param_hint="--png"
        )
    else:
        _list()


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


def _show(name: str, png: Path | None) -> None:
    from parhelion.world.builtin import BUILTIN

    if png is not None:
        from parhelion.pictures.style import check_picture

        check_file(check_picture(png))
    world = load_world(name)
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
