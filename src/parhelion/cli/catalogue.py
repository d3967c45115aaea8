"""`parhelion sensors`, `worlds`, `materials` and `dossier`: list what ships with the package, or show one entry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.measure import ScaleOption, UpOption, load_world, parse_params
from parhelion.cli.recordings import check_file
from parhelion.cli.screen import start_engine
from parhelion.core.errors import unknown_name

if TYPE_CHECKING:
    from parhelion import Lidar, Material, World
    from parhelion.sensors.kinds import SensorKind

SENSORS_EXAMPLES = (
    "parhelion sensors                       # every kind, with its presets",
    "parhelion sensors ouster/os1-128        # one data sheet, with sources and assumptions",
    "parhelion sensors bosch/bmi160",
    "parhelion sensors my-imu.yaml           # your own data sheet, of any kind",
    "parhelion sensors my-lidar.yaml --png my-lidar.png   # its pattern, link budget and noise",
)


def sensors(
    name: Annotated[str | None, typer.Argument(help="Preset name or YAML file whose data sheet is shown.")] = None,
    png: Annotated[
        Path | None,
        typer.Option("--png", help="Picture: pattern, link budget and noise of a lidar; samples or a frame of others."),
    ] = None,
) -> None:
    """List all kinds of sensors with their presets, or show one data sheet with its sources and assumptions."""
    if name is None:
        if png is not None:
            raise typer.BadParameter("draws one sensor; give its name or file", param_hint="--png")
        _list()
        return
    if png is not None:
        from parhelion.pictures.style import check_picture

        check_file(check_picture(png))
    kind = kind_of_name(name)
    if kind.name == "lidar":
        _show(name)
    else:
        _show_sheet(kind.sensor(name), name)
    if png is not None:
        _draw(kind, name, png)
        screen.print_line(f"wrote {png}")


_AT_REST_S = 60.0
"""Length of the samples in the picture of a stream sensor."""


def _draw(kind: SensorKind, name: str, file: Path) -> None:
    """Draw a data sheet: a lidar by its numbers, other kinds by samples at rest or a frame in the warehouse."""
    if kind.name == "lidar":
        from parhelion import Lidar
        from parhelion.calibrate.sheet_picture import draw_sheet

        draw_sheet(Lidar(name), file)
        return
    import parhelion as ph

    sensor = kind.sensor(name)
    start_engine()
    world = ph.World.load("warehouse")
    if kind.output == "samples":
        sensor.run(world, ph.Fixed(world.viewpoint), duration=_AT_REST_S, seed=0).plot(file)
    else:
        sensor.measure(world, pose=world.viewpoint, seed=0).plot(file)


def _warn_noise(name: str, left: list[str]) -> None:
    if left:
        screen.warn(f"{name}: the sheet does not give {', '.join(left)}; they are 0")


def kind_of_name(name: str) -> SensorKind:
    """Sensor kind that a preset or a data sheet describes."""
    from parhelion.sensors.kinds import kind_of_sheet, kinds
    from parhelion.sensors.sheets import RENAMED, YAML_SUFFIXES

    presets = {
        preset: kind for kind in kinds().values() for preset in (*kind.preset_names(), *RENAMED.get(kind.name, ()))
    }
    if name.lower() in presets:
        return presets[name.lower()]
    if not name.lower().endswith(YAML_SUFFIXES):
        raise unknown_name("sensor", name, presets, "(or give the path of a YAML file)")
    return kind_of_sheet(name)


def _list() -> None:
    from parhelion.sensors.kinds import kinds

    for kind in kinds().values():
        if kind.name == "lidar":
            _list_lidars(kind.preset_names())
        else:
            rows = [(preset, f"{kind.sensor(preset).rate_hz:g}") for preset in kind.preset_names()]
            screen.table(kind.summary, ("sensor", "Hz"), rows, numbers=("Hz",))
    screen.print_line("One data sheet: parhelion sensors ouster/os1-128")


def _show_sheet(sensor: Any, name: str) -> None:
    """Print the fields of a data sheet and their sources."""
    from parhelion.sensors.sheets import unstated_noise

    sheet = sensor.config.model_dump(mode="json")
    sources, assumed = sheet.pop("sources", []), sheet.pop("assumed", {})
    rows = []
    for key, value in sheet.items():
        if isinstance(value, dict):
            rows += [(f"{key}.{inner}", str(number)) for inner, number in value.items() if number is not None]
        elif value is not None and key != "name":
            rows.append((key, str(value)))
    screen.facts(f"{sheet.get('name', name)}  ({name})", rows)
    _say_sources(sources, assumed)
    _warn_noise(name, unstated_noise(sensor.config))


def _list_lidars(presets: list[str]) -> None:
    from parhelion import Lidar
    from parhelion.weather import media

    rows = []
    for preset in presets:
        lidar = Lidar(preset)
        config = lidar.config
        rows.append(
            (
                preset,
                config.pattern.kind,
                _channels(lidar),
                screen.count(len(lidar.shots())),
                f"{lidar.rate_hz:g}",
                f"{lidar.max_range(0.1):.0f}",
                f"{lidar.max_range(0.9):.0f}",
                f"{config.wavelength_nm:g}",
                "/".join(one.grade for one in lidar.weather_validity.values()),
            )
        )
    columns = (
        "sensor",
        "pattern",
        "channels",
        "shots/scan",
        "Hz",
        "m at 10 %",
        "m at 90 %",
        "nm",
        "/".join(media.names()),
    )
    screen.table("lidars: one cloud per revolution or frame", columns, rows, numbers=columns[2:-1])


def _channels(lidar: Lidar) -> int:
    import numpy as np

    return len(np.unique(lidar.shots().ring))


def _show(name: str) -> None:
    import numpy as np

    from parhelion import Lidar
    from parhelion.sensors.optics.lidar.validity import in_words

    lidar = Lidar(name)
    config, shots = lidar.config, lidar.shots()
    elevation = np.degrees(shots.elevation)
    beam, limits, receiver = config.beam, config.range, config.receiver
    rated = ", ".join(f"{entry.range_m:g} m at {100 * entry.reflectance:g} %" for entry in limits.rated)
    # For a full revolution the azimuth range carries no information, and it wraps.
    azimuth = np.degrees(shots.azimuth)
    screen.facts(
        f"{config.name}  ({name})",
        [
            ("pattern", _pattern(lidar)),
            ("shots per scan", f"{screen.count(len(shots))}, {_channels(lidar)} channels"),
            ("azimuth", "full circle" if np.ptp(azimuth) > 350 else f"{azimuth.min():.1f} to {azimuth.max():.1f} deg"),
            ("elevation", f"{elevation.min():.2f} to {elevation.max():.2f} deg"),
            ("wavelength", f"{config.wavelength_nm:g} nm"),
            ("beam", _beam(beam)),
            ("range", f"{limits.min_m:g} to {limits.max_m:g} m, step {limits.resolution_m:g} m"),
            ("rated", rated),
            ("detects", ", ".join(f"{100 * r:g} % to {lidar.max_range(r):.0f} m" for r in (0.1, 0.5, 0.9))),
            ("returns", _returns(receiver)),
            ("noise", _noise(config.noise)),
            ("intensity", f"{config.intensity.scale} scale"),
            ("weather", in_words(lidar.weather_validity)),
        ],
    )
    sheet = config.model_dump(mode="json")
    _say_sources(sheet["sources"], sheet["assumed"])
    _warn_noise(name, lidar.unstated_noise)


def _say_sources(sources: list[dict[str, Any]], assumed: dict[str, str]) -> None:
    screen.print_line("\nsources")
    for source in sources:
        quoted = " (as commonly quoted, not checked against it)" if source.get("quoted") else ""
        screen.print_line(f"  - {source['title']}{quoted}: {', '.join(source['covers'])}")
        if source.get("note"):
            screen.print_line(f"    {' '.join(source['note'].split())}")
    if assumed:
        screen.print_line("\nassumed")
        for field, reason in assumed.items():
            screen.print_line(f"  - {field}: {' '.join(reason.split())}")


def _pattern(lidar: Lidar) -> str:
    pattern = lidar.config.pattern
    rates = sorted({pattern.rate_hz, *pattern.rates_hz})
    text = f"{pattern.kind}, {lidar.rate_hz:g} Hz"
    if len(rates) > 1:
        text += f" (offers {', '.join(f'{rate:g}' for rate in rates)} Hz)"
    columns = getattr(pattern, "columns_offered", [])
    if columns:
        text += f", {pattern.columns} columns (offers {', '.join(map(str, sorted({pattern.columns, *columns})))})"  # type: ignore[union-attr]
    return text


def _beam(beam: Any) -> str:
    wide, high = beam.divergence_mrad
    size = f"{wide:g} x {high:g} mrad at {beam.divergence_at}"
    return f"{size}, {beam.exit_diameter_mm:g} mm at the exit, {beam.profile} {beam.shape}, {beam.sub_rays} sub-rays"


def _returns(receiver: Any) -> str:
    offered = f" (offers {', '.join(receiver.returns_offered)})" if receiver.returns_offered else ""
    most = f"up to {receiver.max_returns}"
    return f"{receiver.returns}{offered}, {most}; echoes within {receiver.merge_distance_m:g} m merge"


def _noise(noise: Any) -> str:
    if noise.range_sigma_table:
        points = ", ".join(f"{100 * sigma:g} cm at {distance:g} m" for distance, sigma in noise.range_sigma_table)
        return f"range sigma {points}"
    text = f"range sigma {100 * noise.range_sigma_m:g} cm"
    if noise.range_sigma_snr_m:
        text += f" and {noise.range_sigma_snr_m:g} m / SNR"
    if noise.azimuth_jitter_deg or noise.elevation_jitter_deg:
        text += f", angles {noise.azimuth_jitter_deg:g} / {noise.elevation_jitter_deg:g} deg"
    return text


# ---- `parhelion worlds`: the built-in worlds, as a table or one in detail -------------------------------------------


WORLDS_EXAMPLES = (
    "parhelion worlds",
    "parhelion worlds city --png city.png",
    "parhelion worlds hall.obj",
    "parhelion worlds district.osm --png district.png   # what was read from a map, and what was omitted",
    "parhelion worlds city --seed 3 --param blocks=2 --param cars=40 --list city.yaml --plan city-plan.png",
    "parhelion worlds my-list.json --check",
)


def worlds(
    name: Annotated[
        str | None, typer.Argument(help="World name, or a world, layout, map, road, floor plan or mesh file.")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Picture of the world from above.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of a built-in world.")] = None,
    param: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Parameter of the world; repeatable.")
    ] = None,
    up: UpOption = None,
    scale: ScaleOption = None,
    list_file: Annotated[
        Path | None, typer.Option("--list", help="Write the object list (.yaml or .json) of a procedural world.")
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="Write the plan of the world as a bitmap (.png).")] = None,
    resolution: Annotated[float, typer.Option(help="Pixel size of the plan in m.")] = 0.1,
    check: Annotated[bool, typer.Option("--check", help="Check an object list and report its problems.")] = False,
) -> None:
    """List the built-in worlds, or show one world; files of worlds, maps, roads, floor plans and meshes work too."""
    if name is not None:
        params = parse_params(param or [])
        params |= {key: one for key, one in {"up": up, "scale": scale}.items() if one is not None}
        if check:
            _check(name, seed, params)
        else:
            _show_worlds(name, png, seed, params, list_file, plan, resolution)
    elif png is not None:
        raise typer.BadParameter(
            "name the world to draw, such as: parhelion worlds city --png city.png", param_hint="--png"
        )
    elif seed is not None or param or up or scale or list_file is not None or plan is not None or check:
        raise typer.BadParameter("name the world that the options are for, such as: parhelion worlds city --seed 3")
    else:
        _list_worlds()


def _check(name: str, seed: int | None, params: dict[str, Any]) -> None:
    """Print the problems of an object list; exit with code 1 if there are any."""
    from parhelion.world.procedural import check, layout_of
    from parhelion.world.sources import source_of

    if Path(name).suffix.lower() in (".yaml", ".yml", ".json") and source_of(name) is None:
        from parhelion.world.procedural import Layout

        layout = Layout.load(name)
    else:
        layout = layout_of(_load(name, seed, params))
    problems = check(layout)
    for sentence in problems:
        screen.print_line(sentence)
    screen.print_line(f"{layout.name}: {len(layout.objects)} objects, {len(problems) or 'no'} problems")
    if problems:
        raise typer.Exit(1)


def _load(name: str, seed: int | None, params: dict[str, Any]) -> World:
    if seed is None and not params:
        return load_world(name)
    from parhelion import World

    return World.load(name, seed=seed, **params)


def _list_worlds() -> None:
    from parhelion.world.builtin import BUILTIN

    rows = []
    with screen.progress("building", len(BUILTIN)) as advance:
        for entry in BUILTIN.values():
            world = load_world(entry.name)
            way = "path" if world.path is not None else ""
            rows.append((entry.name, screen.count(world.triangle_count), way, entry.description))
            advance()
    screen.table("", ("world", "triangles", "drive", "contents"), rows, numbers=("triangles",))


def _show_worlds(
    name: str,
    png: Path | None,
    seed: int | None,
    params: dict[str, Any],
    list_file: Path | None,
    plan: Path | None,
    resolution: float,
) -> None:
    from parhelion.world.builtin import BUILTIN

    check_file(list_file, plan, picture=png)
    world = _load(name, seed, params)
    rows = []
    if name in BUILTIN:
        rows.append(("contents", BUILTIN[name].description))
    actors = sum(item.is_actor for item in world.objects)
    rows.append(("triangles", screen.count(world.triangle_count)))
    rows.append(("memory", f"{world.memory_bytes / 1e6:.1f} MB of triangles and images"))
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
    if world.origin is not None:
        place = world.origin
        rows.append(("origin", f"{place.latitude_deg:.7f}, {place.longitude_deg:.7f} deg, {place.altitude_m:g} m"))
    screen.facts(world.name or name, rows)
    _show_contents(world)
    if png is not None:
        from parhelion.pictures import draw_world

        start_engine()
        draw_world(world, png)
        screen.print_line(f"wrote {png}")
    if list_file is not None or plan is not None:
        _write_list(world, list_file, plan, resolution)


def _show_contents(world: World) -> None:
    """Tables of what the loader of a map, of roads or of a floor plan read and omitted."""
    contents = world.contents
    if contents is None:
        return
    units = {"m": "m", "m2": "m²", "": ""}
    read = [
        (
            entry.what,
            screen.count(entry.count),
            f"{entry.measure:,.1f} {units[entry.unit]}".replace(",", " ") if entry.unit else "",
        )
        for entry in contents.read
    ]
    screen.table(f"read from {contents.format}", ("contents", "count", "size"), read, numbers=("count", "size"))
    if contents.omitted:
        omitted = [(entry.what, screen.count(entry.count), entry.reason) for entry in contents.omitted]
        screen.table("omitted", ("contents", "count", "reason"), omitted, numbers=("count",))


def _write_list(world: World, list_file: Path | None, plan: Path | None, resolution: float) -> None:
    """Write the object list of a world and its bitmap."""
    from parhelion.pictures.layout import save_layout_bitmap
    from parhelion.world.procedural import layout_of

    layout = layout_of(world)
    if list_file is not None:
        layout.save(list_file)
        screen.print_line(f"wrote {list_file}: {len(layout.objects)} objects")
    if plan is not None:
        save_layout_bitmap(layout, plan, resolution)
        screen.print_line(f"wrote {plan}")


# ---- `parhelion materials`: the material library, as a table or one entry in detail ----------------------------------


MATERIALS_EXAMPLES = (
    "parhelion materials",
    "parhelion materials --wavelength 1550",
    "parhelion materials leaf --png leaf.png",
    "parhelion materials guess model.glb",
)


def materials(
    name: Annotated[
        str | None, typer.Argument(help="Material whose values and sources are shown, or 'guess' and a model file.")
    ] = None,
    model: Annotated[Path | None, typer.Argument(metavar="[MODEL]", help="Model file, with 'guess'.")] = None,
    wavelength: Annotated[float, typer.Option(help="Wavelength of the reflectance, in nm.")] = 905.0,
    png: Annotated[Path | None, typer.Option(help="Picture of the spectrum.")] = None,
) -> None:
    """List the materials with their reflectance at a wavelength, or show one of them.

    'parhelion materials guess MODEL' writes the classes of a model's materials to materials.yaml next to it, where they
    can be corrected.
    """
    if name == "guess" and model is not None:
        _guess_materials(model, wavelength)
    elif model is not None or name == "guess":
        raise typer.BadParameter("to guess the materials of a model, write: parhelion materials guess model.glb")
    elif name is not None:
        _show_materials(name, wavelength, png)
    elif png is not None:
        example = "parhelion materials leaf --png leaf.png"
        raise typer.BadParameter(f"name the material to draw, such as: {example}", param_hint="--png")
    else:
        _list_materials(wavelength)


def _guess_materials(model: Path, wavelength_nm: float) -> None:
    from parhelion.surfaces.library import material
    from parhelion.world.guess import write_table
    from parhelion.world.loaders import load_mesh

    file, listed = write_table(model, load_mesh(model))
    rows = []
    for name, found, look in listed:
        colour = "" if look is None else " ".join(f"{value:.2f}" for value in look.mean_colour())
        entry = material(found.name)
        first, last = entry.wavelength_range_nm
        level = f"{100 * entry.reflectance_at(wavelength_nm):.0f}" if first <= wavelength_nm <= last else ""
        rows.append((name, colour, found.name, found.by, level))
    share = f"% at {wavelength_nm:g} nm"
    screen.table(model.name, ("material", "red green blue", "class", "found by", share), rows, numbers=(share,))
    screen.print_line(f"wrote {file}; correct the classes there and load the model again")


def _list_materials(wavelength_nm: float) -> None:
    from parhelion.surfaces.library import material, material_names

    rows = []
    for name in material_names():
        entry = material(name)
        rows.append((name, f"{100 * entry.reflectance_at(wavelength_nm):.1f}", _kind(entry), entry.description))
    share = f"% at {wavelength_nm:g} nm"
    screen.table("", ("material", share, "surface", "description"), rows, numbers=(share,))
    screen.print_line("Grey targets of any whole percent: lambert-0 to lambert-100.")


def _kind(material: Material) -> str:
    kinds: list[str] = [material.brdf.model]
    if material.specular is not None:
        kinds.append(material.specular.kind)
    if material.retro is not None:
        kinds.append("retro")
    return " + ".join(kinds)


def _show_materials(name: str, wavelength_nm: float, png: Path | None) -> None:
    from parhelion.surfaces.library import material

    check_file(picture=png)
    entry = material(name)
    first, last = entry.wavelength_range_nm
    details = [part for part in (entry.brdf, entry.specular, entry.retro) if part is not None]
    numbers = [f"{key} {value}" for part in details for key, value in part.model_dump().items() if value is not None]
    common = [w for w in (850.0, 905.0, 1064.0, 1550.0) if first <= w <= last]
    screen.facts(
        entry.name,
        [
            ("description", entry.description),
            (f"at {wavelength_nm:g} nm", f"{100 * entry.reflectance_at(wavelength_nm):.1f} %"),
            ("elsewhere", ", ".join(f"{100 * entry.reflectance_at(w):.1f} % at {w:g} nm" for w in common)),
            ("spectrum", f"{len(entry.spectrum.wavelength_um)} values from {first:g} to {last:g} nm"),
            ("surface", ", ".join(numbers)),
            *(("source", source) for source in entry.sources),
        ],
    )
    if png is not None:
        from parhelion.pictures import draw_spectrum

        draw_spectrum(entry, png, wavelength_nm)
        screen.print_line(f"wrote {png}")


# ---- dossier ---------------------------------------------------------------------------------------------------------


DOSSIER_EXAMPLES = (
    "parhelion dossier ouster/os0-64 -o os0-64.html --json os0-64.json",
    "parhelion dossier velodyne/hdl-64e-s2            # the checks alone",
    "parhelion dossier my-lidar.yaml -o my-lidar.html # your own data sheet",
)


def dossier(
    name: Annotated[str, typer.Argument(metavar="SENSOR", help="Preset name or YAML file, of any kind.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Page with all claims (.html).")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="All claims and checks as JSON.")] = None,
) -> None:
    """List the claims of a sensor model: source or assumption of every number, checks, tolerances and verdicts."""
    from parhelion.core.files import write_json
    from parhelion.evaluate.dossier.dossier import dossier_of, page_of, summary_rows
    from parhelion.pictures.html import write_page

    check_file(output, json)
    found = dossier_of(kind_of_name(name).sensor(name), name)
    screen.facts(f"{found.name}  ({name})", summary_rows(found))
    rows = [(one.quantity, one.verdict, one.basis, one.reference, one.tolerance) for one in found.checks]
    screen.table("Checks", ("quantity", "verdict", "basis", "compared with", "tolerance"), rows)
    if json is not None:
        write_json(json, found.as_dict())
        screen.print_line(f"wrote {json}")
    if output is not None:
        write_page(output, page_of(found, screen.command_line()))
        screen.print_line(f"look at {output}")
