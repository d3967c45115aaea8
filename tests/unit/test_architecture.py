"""The house plan, checked on the source: which room imports which, what is loaded when, and how long that takes."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import parhelion
from house_plan import PAGE, PUBLIC, ROOMS, WORLD_ROOMS, may_import, with_tables
from parhelion.world.parts import DescribedShape
from parhelion.world.schema import Shape

SOURCE = Path(parhelion.__file__).resolve().parent
MODULES = sorted(SOURCE.rglob("*.py"))
UNIT_TESTS = Path(__file__).parent
WORLD_MODULES = [module for module in MODULES if module.is_relative_to(SOURCE / "world")]

MAY_IMPORT = may_import(ROOMS)
WORLD_MAY_IMPORT = may_import(WORLD_ROOMS)
# A cloud reads and writes itself: two methods open the door to the formats, when they are called.
# Likewise a weather that is applied to a cloud opens the door to the sensor that recorded it, and a scenario that is
# run to files the door to what writes them.
DOORS = {
    ("core/image.py", "load", "io"),
    ("core/image.py", "save", "io"),
    ("core/clouds.py", "load", "io"),
    ("core/clouds.py", "save", "io"),
    ("weather/weather.py", "apply", "sensors"),
    ("scenario/scenario.py", "run", "outputs"),
}
# A world is loaded by name or from a list of things: two methods open the door to those who build it.
WORLD_DOORS = {
    ("world/world.py", "load", "procedural"),
    ("world/world.py", "_from_builtin", "builtin"),
}

HEAVY = {
    "mitsuba",
    "drjit",
    "trimesh",
    "scipy",
    "matplotlib",
    "PIL",
    "laspy",
    "plyfile",
    "lazrs",
    "miepython",
    "rosbags",
    "mcap",
    "cyclonedds",
    "viser",
    "foxglove",
    "pyarrow",
    "fsspec",
    "dask",
    "distributed",
}


def name_of(module: Path) -> str:
    return module.relative_to(SOURCE).as_posix()


def room_of(module: Path) -> str:
    parts = module.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else "(package)"


def imported(node: ast.AST) -> list[str]:
    """Dotted names that an import statement brings in; none for other nodes."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are written in full"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


@cache
def imports_with_function(module: Path) -> tuple[tuple[str, str], ...]:
    """Each import of a module, with the function it stands in ('' at the top, or in a class body)."""

    def walk(node: ast.AST, function: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            for name in imported(child):
                yield name, function
            inside = child.name if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
            yield from walk(child, inside)

    return tuple(walk(ast.parse(module.read_text(encoding="utf-8")), ""))


def room_imported(name: str) -> str | None:
    """The room of ours that an import reaches into, or None where it is not ours."""
    first, _, rest = name.partition(".")
    if first != "parhelion":
        return None
    room = rest.partition(".")[0]
    return room if room in MAY_IMPORT else PUBLIC


def world_room_of(module: Path) -> str:
    """The room inside the world that one of its modules lies in."""
    parts = module.relative_to(SOURCE / "world").parts
    return parts[0] if len(parts) > 1 else "world"


def world_room_imported(name: str) -> str | None:
    """The room inside the world that an import reaches into, or None where it reaches elsewhere."""
    first, _, rest = name.removeprefix("parhelion.").partition(".")
    if first != "world" or not name.startswith("parhelion."):
        return None
    room = rest.partition(".")[0]
    return room if room in WORLD_MAY_IMPORT else "world"


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=True
    )


def seconds(*command: str, tries: int = 5) -> float:
    """The best of several runs, by the time of the processor: other work on the machine does not count."""
    times = []
    for _ in range(tries):
        before = os.times()
        run(*command)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(times)


# ---- imports -------------------------------------------------------------------------------------------------------


def test_every_folder_is_a_room_of_the_plan() -> None:
    assert {room_of(module) for module in MODULES} == {*MAY_IMPORT, "(package)"}


def test_folders_of_unit_tests_are_rooms_of_the_plan() -> None:
    folders = {test.parent.name for test in UNIT_TESTS.glob("*/test_*.py")}
    assert len(folders) >= 8
    assert folders <= set(MAY_IMPORT)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_rooms_import_only_what_lies_below_them(room: str) -> None:
    wrong = []
    for module in MODULES:
        if room_of(module) != room:
            continue
        for name, function in imports_with_function(module):
            other = room_imported(name)
            if other is None or other == room or other in MAY_IMPORT[room]:
                continue
            if (name_of(module), function, other) not in DOORS:
                wrong.append(f"{name_of(module)} imports {name}")
    assert wrong == []


def test_every_folder_of_the_world_is_a_room_of_the_plan() -> None:
    assert {world_room_of(module) for module in WORLD_MODULES} == set(WORLD_MAY_IMPORT)


@pytest.mark.parametrize("room", WORLD_MAY_IMPORT)
def test_rooms_of_the_world_import_only_what_lies_below_them(room: str) -> None:
    wrong = []
    for module in WORLD_MODULES:
        if world_room_of(module) != room:
            continue
        for name, function in imports_with_function(module):
            other = world_room_imported(name)
            if other is None or other == room or other in WORLD_MAY_IMPORT[room]:
                continue
            if (name_of(module), function, other) not in WORLD_DOORS:
                wrong.append(f"{name_of(module)} imports {name}")
    assert wrong == []


def test_the_doors_are_still_used() -> None:
    found = {
        (name_of(module), function, room)
        for module in MODULES
        for name, function in imports_with_function(module)
        for room in (room_imported(name), world_room_imported(name))
    }
    assert found >= DOORS | WORLD_DOORS


@pytest.mark.parametrize("plan", [MAY_IMPORT, WORLD_MAY_IMPORT], ids=["the package", "the world"])
def test_the_plan_has_no_way_back(plan: dict[str, frozenset[str]]) -> None:
    below: set[str] = set()
    for room, allowed in plan.items():
        assert allowed <= below | {PUBLIC}
        below.add(room)


def test_the_page_shows_the_plan() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tables(page), "run python tests/house_plan.py"
    changed = page.replace("| `kit/` |", "| `parts/` |").replace("| `core/` |", "| `centre/` |")
    assert with_tables(changed) == page != changed


def at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when a module is imported: function bodies and `if TYPE_CHECKING:` left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            continue
        yield node
        yield from at_import(node)


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_heavy_packages_are_imported_where_they_are_used(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    loaded = {name.partition(".")[0] for node in at_import(tree) for name in imported(node)}
    assert loaded.isdisjoint(HEAVY)


def test_the_checks_can_fail(tmp_path: Path) -> None:
    source = "import scipy.special\nif TYPE_CHECKING:\n    import trimesh\ndef f():\n    import drjit\n"
    loaded = [name for node in at_import(ast.parse(source)) for name in imported(node)]
    assert loaded == ["scipy.special"]
    (tmp_path / "m.py").write_text("class A:\n    def load(self):\n        from parhelion.io import x\nimport os\n")
    assert imports_with_function(tmp_path / "m.py") == (("parhelion.io.x", "load"), ("os", ""))
    assert room_imported("parhelion.io.x") == "io"
    assert room_imported("parhelion.Lidar") == PUBLIC
    assert room_imported("numpy.linalg") is None
    assert world_room_imported("parhelion.world.kit.instances.boxes") == "kit"
    assert world_room_imported("parhelion.world.builtin") == "builtin"
    assert world_room_imported("parhelion.world.parts.WorldPart") == "world"
    assert world_room_imported("parhelion.core.pose.Pose") is None
    assert world_room_imported("world.kit") is None


# ---- importing the package -----------------------------------------------------------------------------------------


def test_importing_is_quick() -> None:
    bare = seconds(sys.executable, "-c", "pass")
    assert seconds(sys.executable, "-c", "import parhelion") - bare < 0.3


def test_importing_loads_nothing_but_the_standard_library() -> None:
    script = "import sys; before = set(sys.modules); import parhelion; print(*sorted(set(sys.modules) - before))"
    loaded = {name.partition(".")[0] for name in run(sys.executable, "-c", script).stdout.split()}
    assert "parhelion" in loaded
    assert loaded - {"parhelion"} <= set(sys.stdlib_module_names)


@pytest.mark.slow
def test_modules_of_the_base_load_no_heavy_package() -> None:
    script = (
        "import sys, parhelion as ph; ph.World, ph.Lidar, ph.Scan, ph.shapes, ph.Material, ph.Weather; "
        f"print(*({HEAVY!r} & set(sys.modules)))"
    )
    assert run(sys.executable, "-c", script).stdout.strip() == ""


def test_importing_touches_no_disk_but_the_modules_themselves(tmp_path: Path) -> None:
    script = """
import sys
touched = []
sys.addaudithook(lambda event, args: touched.append((event, args)) if event in EVENTS else None)
import parhelion
for event, args in touched:
    print(event, args[0], args[1] if event == "open" else "")
"""
    events = "('open', 'os.mkdir', 'os.rename', 'os.remove', 'os.utime', 'socket.connect', 'subprocess.Popen')"
    out = run(
        sys.executable, "-B", "-c", script.replace("EVENTS", events), HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path)
    ).stdout
    home = str(Path(sys.base_prefix).resolve())
    for line in out.splitlines():
        event, path, *mode = line.split(" ")
        assert event == "open", line
        assert not set("".join(mode)) & set("wax+"), line
        assert str(Path(path).resolve()).startswith((str(SOURCE), home, str(Path(sys.prefix).resolve()))), line
    assert str(SOURCE) in out
    assert list(tmp_path.iterdir()) == []


def test_every_public_name_resolves() -> None:
    for name in parhelion.__all__:
        assert getattr(parhelion, name) is not None, name
    assert dir(parhelion) == sorted(parhelion.__all__)
    assert re.fullmatch(r"\d+\.\d+\.\d+", parhelion.__version__)
    with pytest.raises(AttributeError, match="module 'parhelion' has no attribute 'Sonar'"):
        _ = parhelion.Sonar


@pytest.mark.parametrize(
    ("names", "one"),
    [
        ("lidar_names", "velodyne/vlp-16"),
        ("imu_names", "bosch/bmi160"),
        ("odometry_names", "clearpath-husky"),
        ("barometer_names", "bosch-bmp388"),
        ("magnetometer_names", "pni-rm3100"),
        ("vehicle_names", "clearpath/husky"),
        ("material_names", "asphalt"),
    ],
)
def test_lists_of_presets_are_public(names: str, one: str) -> None:
    known = list(getattr(parhelion, names)())
    assert one in known
    assert known == sorted(known)


def test_public_names_are_the_same_for_type_checkers() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    named = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert named == set(parhelion.__all__) - {"__version__"}


@pytest.mark.slow
def test_help_is_quick_and_names_the_commands() -> None:
    command = (sys.executable, "-m", "parhelion", "--help")
    text = run(*command, COLUMNS="120", NO_COLOR="1").stdout
    for name in ("demo", "scan", "weather", "convert", "sensors", "worlds", "materials", "doctor"):
        assert name in text
    assert seconds(*command, tries=3) < 1.0


# ---- the text itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_files_are_short_and_finished(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 700
    assert re.findall(r"\b(?:TODO|FIXME|XXX|HACK|placeholder|lorem)\b", text, re.IGNORECASE) == []
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "every module says what it is"
    raised = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Raise) and is_unfinished(node)]
    assert raised == []


def is_unfinished(node: ast.Raise) -> bool:
    return node.exc is not None and "NotImplementedError" in ast.unparse(node.exc)


def test_every_shape_of_a_world_file_fills_in_the_interface() -> None:
    members = get_args(get_args(Shape)[0])
    assert len(members) >= 5
    for shape in members:
        assert issubclass(shape, DescribedShape)
