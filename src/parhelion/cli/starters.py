"""`parhelion examples`, `new` and `schema`: where to start a file of your own."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.core.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from pydantic import BaseModel

# ---- `parhelion examples` --------------------------------------------------------------------------------------------

EXAMPLES_EXAMPLES = (
    "parhelion examples                              # all examples that ship with the package",
    "parhelion examples warehouse.yaml               # the text of one",
    "parhelion examples warehouse.yaml -o out        # run it",
    "parhelion examples --copy my-examples           # a copy of all, to edit",
)


def examples(
    name: Annotated[str | None, typer.Argument(help="Name of an example, as the list shows it.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Run the example, and write here.")] = None,
    copy: Annotated[
        Path | None, typer.Option("--copy", metavar="FOLDER", help="Copy all examples to a folder.")
    ] = None,
) -> None:
    """List the examples that ship with the package, show or run one, or copy them all."""
    place = _examples_folder()
    if copy is not None:
        _copy(place, copy)
        if name is None:
            return
    found = {file.relative_to(place).as_posix(): file for file in _example_files(place)}
    if name is None:
        rows = [(one, _purpose(file)) for one, file in found.items()]
        screen.table("", ("example", "content"), rows)
        screen.print_line(
            "Show one: parhelion examples warehouse.yaml; run it: parhelion examples warehouse.yaml -o out"
        )
        return
    if name not in found:
        raise unknown_name("example", name, found)
    if output is None:
        screen.print_line(found[name].read_text(encoding="utf-8").rstrip())
        return
    _run_example(found[name], output)


def _examples_folder() -> Path:
    """Folder of the examples: inside the installed package, or in the source tree."""
    package = Path(__file__).resolve().parents[1]
    for place in (package / "examples", package.parents[1] / "examples"):
        if place.is_dir():
            return place
    raise ConfigError("this installation of parhelion contains no examples; install the wheel again")


def is_example(name: str) -> bool:
    """Return whether a name is that of an example that ships with the package."""
    try:
        place = _examples_folder()
    except ConfigError:
        return False
    return name in {file.relative_to(place).as_posix() for file in _example_files(place)}


def _example_files(place: Path) -> list[Path]:
    return sorted(
        (file for ending in ("*.yaml", "*.py", "*.cpp") for file in place.rglob(ending)),
        key=lambda file: (len(file.relative_to(place).parts), file),
    )


def _purpose(file: Path) -> str:
    """First sentence of an example: its leading comment or docstring."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0].replace("\n", " ")
    lines = []
    for line in text.splitlines():
        words = line.lstrip("#/")
        if not line.startswith(("#", "//")) or not words.strip() or words.startswith("    "):
            break
        lines.append(words.strip())
    return " ".join(lines).partition(". ")[0]


def _copy(place: Path, target: Path) -> None:
    if target.exists():
        raise ConfigError(f"{target}: already exists; choose another folder")
    shutil.copytree(place, target, ignore=shutil.ignore_patterns("__pycache__"))
    screen.print_line(f"copied the examples to {target}/")


def _run_example(file: Path, output: Path) -> None:
    """Run an example with the command that its contents are for."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".yaml":
        keys = {line.partition(":")[0] for line in text.splitlines() if line[:1].isalpha()}
        command = [sys.executable, "-m", "parhelion", *_command_of(keys, str(file), output)]
    elif file.suffix == ".py":
        given = ["-o", str(output)] if '"-o"' in text else []
        command = [sys.executable, str(file), *given]
    else:
        raise ConfigError(f"{file.name}: is compiled, not run; its first lines state how")
    screen.print_line(f"running {' '.join(command[1:])}")
    raise typer.Exit(subprocess.run(command, check=False).returncode)


def _command_of(keys: set[str], file: str, output: Path) -> list[str]:
    """Words of the command for a YAML file with these fields."""
    if "vary" in keys:
        return ["campaign", file, "-o", str(output)]
    if "duration_s" in keys:
        return ["run", file, "-o", str(output)]
    if "objects" in keys:
        output.mkdir(parents=True, exist_ok=True)
        return ["worlds", file, "--png", str(output / "world.png")]
    return ["evaluate", "placement", file, "-o", str(output / "report.html")]


# ---- `parhelion schema` ----------------------------------------------------------------------------------------------

SCHEMA_EXAMPLES = (
    "parhelion schema                                # all kinds of files",
    "parhelion schema lidar > lidar.schema.json",
    "parhelion schema scenario -o scenario.schema.json",
)


def schema(
    kind: Annotated[str | None, typer.Argument(help="Kind of file: scenario, study, world, lidar, ...")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File; by default the schema is printed.")
    ] = None,
) -> None:
    """Print the JSON schema of a kind of file, with every field and its meaning.

    Editors complete and check a YAML file whose first line is `# yaml-language-server: $schema=FILE`.
    """
    known = schema_kinds()
    if kind is None:
        screen.table("", ("kind", "file"), [(name, summary) for name, (summary, _) in known.items()])
        return
    if kind not in known:
        raise unknown_name("kind of file", kind, known)
    found = described_schema(known[kind][1](), f"Parhelion {kind}")
    if output is None:
        screen.print_schema(found)
        return
    from parhelion.core.files import write_whole

    write_whole(output, (json.dumps(found, indent=1) + "\n").encode("utf-8"))
    screen.print_line(f"wrote {output}; refer to it in the first line: # yaml-language-server: $schema={output}")


def schema_kinds() -> dict[str, tuple[str, Callable[[], Any]]]:
    """Summary and model of every kind of YAML file."""
    from parhelion.sensors.kinds import SensorKind, kinds

    def model(path: str) -> Callable[[], Any]:
        def found() -> Any:
            from pkgutil import resolve_name

            return resolve_name(f"parhelion.{path}")

        return found

    def weather() -> Any:
        from parhelion.weather.weather import weather_fields

        return weather_fields()

    def sheet(kind: SensorKind) -> Callable[[], Any]:
        return lambda: type(kind.sensor(kind.preset_names()[0]).config)

    return {
        "scenario": ("scenario: world, weather, vehicles, sensors, outputs", model("scenario.schema:ScenarioFile")),
        "study": ("study of a campaign: what varies, what is measured", model("campaign.study:StudyFile")),
        "detector": ("training of a detector on simulated streets", model("detect.scenes:TrainingStudy")),
        "search": ("search for the mildest conditions that break a measure", model("campaign.search:SearchFile")),
        "placement": ("where to put sensors: candidates and requirements", model("evaluate.placement:PlacementFile")),
        "world": ("world: objects, materials, actors, lamps", model("world.schema:WorldFile")),
        "layout": ("object list of a procedural world", model("world.procedural:Layout")),
        "weather": ("weather: rain, fog, snow, dust, wind", weather),
        "vehicle": ("data sheet of a vehicle", model("motion.vehicles.sheets:VehicleConfig")),
        **{
            kind.name: (f"data sheet: {kind.summary}", sheet(kind))
            for kind in kinds().values()
            if kind.preset_names() and hasattr(kind.sensor(kind.preset_names()[0]), "config")
        },
    }


def described_schema(model: Any, title: str) -> dict[str, Any]:
    """JSON schema of a configuration model, in which the docstrings of fields are their descriptions."""
    from pydantic import TypeAdapter

    found: dict[str, Any] = TypeAdapter(model).json_schema()
    by_name = {one.__name__: one for one in _models_in(model)}
    for name, part in {**found.get("$defs", {}), getattr(model, "__name__", ""): found}.items():
        if name not in by_name:
            continue
        for field, words in _field_docs(by_name[name]).items():
            if field in part.get("properties", {}):
                part["properties"][field].setdefault("description", words)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "title": title}


def _models_in(annotation: Any, seen: set[Any] | None = None) -> Iterator[type[BaseModel]]:
    """Every configuration model that an annotation contains, at any depth."""
    from typing import get_args

    from pydantic import BaseModel

    seen = set() if seen is None else seen
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation in seen:
            return
        seen.add(annotation)
        yield annotation
        for field in annotation.model_fields.values():
            yield from _models_in(field.annotation, seen)
    for inner in get_args(annotation):
        yield from _models_in(inner, seen)


def _field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Docstrings of the fields of a model and of its base classes."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if "__annotations__" not in base.__dict__ or not base.__module__.startswith("parhelion"):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):  # a model that was created at run time
            continue
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for field, words in itertools.pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(words, ast.Expr)
                and isinstance(words.value, ast.Constant)
                and isinstance(words.value.value, str)
            ):
                found[field.target.id] = " ".join(words.value.value.split())
    return found


# ---- `parhelion new` -------------------------------------------------------------------------------------------------

NEW_EXAMPLES = (
    "parhelion new scenario                          # scenario.yaml with comments, ready to run",
    "parhelion new world -o my-hall.yaml",
    "parhelion new sensor --like velodyne/vlp-16 -o my-lidar.yaml",
    "parhelion new scenario --from settings.json     # vehicles and sensors of AirSim and Cosys-AirSim",
    "parhelion new scenario --from cut-in.xosc       # plays an OpenSCENARIO file, with sensors on its ego",
    "parhelion new study",
)
STARTERS = Path(__file__).resolve().parent / "starters"


def new(
    kind: Annotated[str, typer.Argument(help="scenario, world, study or sensor.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; by default KIND.yaml.")] = None,
    like: Annotated[
        str | None, typer.Option("--like", metavar="PRESET", help="Data sheet that a new sensor starts from.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="settings.json of AirSim or Cosys-AirSim, or OpenSCENARIO file (.xosc), that a scenario starts from.",
        ),
    ] = None,
) -> None:
    """Write a commented file to start from. An existing file is never overwritten."""
    from parhelion.core.files import write_whole

    kinds = sorted([*(file.stem for file in STARTERS.glob("*.yaml")), "sensor"])
    if kind not in kinds:
        raise unknown_name("kind of file", kind, kinds)
    if like is not None and kind != "sensor":
        raise typer.BadParameter("applies to sensors", param_hint="--like")
    target = output if output is not None else Path(f"{kind}.yaml")
    if target.suffix.lower() not in (".yaml", ".yml"):
        raise typer.BadParameter(f"expected a .yaml file, got {str(target)!r}", param_hint="--output")
    if target.exists():
        raise ConfigError(f"{target}: already exists; choose another name with -o")
    if source is not None:
        if kind != "scenario":
            raise typer.BadParameter("applies to scenarios", param_hint="--from")
        if source.suffix.lower() == ".xosc":
            _import_storyboard(source, target)
        else:
            _import_settings(source, target)
        return
    text, name = _sensor_starter(like or "velodyne/vlp-16") if kind == "sensor" else (_starter(kind), kind)
    head = f"# yaml-language-server: $schema={name}.schema.json\n"
    head += f"# Completion in editors: parhelion schema {name} -o {name}.schema.json\n"
    write_whole(target, (head + text).encode("utf-8"))
    follow = {
        "scenario": f"parhelion run {target} -o out",
        "world": f"parhelion worlds {target} --png world.png",
        "study": f"parhelion campaign {target} -o study-out",
        "sensor": f"parhelion sensors {target}",
    }
    screen.print_line(f"wrote {target}; next: {follow[kind]}")


def _import_settings(source: Path, target: Path) -> None:
    """Write a scenario and its data sheets from the settings of another simulator, and list what is left out."""
    from parhelion.core.files import write_whole
    from parhelion.scenario.airsim import imported, read_settings

    found = imported(read_settings(source), target.stem, source.name)
    for name in found.files:
        if (target.parent / name).exists():
            raise ConfigError(f"{target.parent / name}: already exists; choose another name with -o")
    for name, text in reversed(found.files.items()):
        write_whole(target if name == f"{target.stem}.yaml" else target.parent / name, text.encode("utf-8"))
    if found.left_out:
        screen.print_line(f"not imported from {source}:")
        for line in found.left_out:
            screen.print_line(f"  {line}")
    sheets = len(found.files) - 1
    screen.print_line(
        f"wrote {target}: {found.vehicles} vehicles, {found.sensors} sensors, {sheets} data sheets beside it; "
        f"next: parhelion run {target} -o out"
    )


def _import_storyboard(source: Path, target: Path) -> None:
    """Write a scenario that plays an OpenSCENARIO file."""
    import os

    from parhelion.core.files import write_whole
    from parhelion.scenario.openscenario import scenario_of

    name = Path(os.path.relpath(source, target.parent))
    write_whole(target, scenario_of(source, name).encode("utf-8"))
    screen.print_line(f"wrote {target}; next: parhelion run {target} -o out")


def _starter(kind: str) -> str:
    return (STARTERS / f"{kind}.yaml").read_text(encoding="utf-8")


def _sensor_starter(preset: str) -> tuple[str, str]:
    """Text of a preset's data sheet, and the name of its kind."""
    from parhelion.sensors.kinds import kinds
    from parhelion.sensors.sheets import PRESETS

    for kind in kinds().values():
        file = PRESETS / kind.name / f"{preset.lower()}.yaml"
        if preset.lower() in kind.preset_names() and file.is_file():
            return file.read_text(encoding="utf-8"), kind.name
    known = [name for kind in kinds().values() for name in kind.preset_names()]
    raise unknown_name("sensor", preset, known, "(parhelion sensors lists them)")
