"""Checks of the source against the list of packages: allowed imports, modules loaded on import, and import time."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import parhelion
from packages import PACKAGES, PAGE, PUBLIC, SENSOR_PACKAGES, WORLD_PACKAGES, may_import, with_tables
from parhelion.world.parts import DescribedShape
from parhelion.world.schema import Shape

SOURCE = Path(parhelion.__file__).resolve().parent
MODULES = sorted(SOURCE.rglob("*.py"))
UNIT_TESTS = Path(__file__).parent

MAY_IMPORT = may_import(PACKAGES)
INNER_PACKAGES = {"world": may_import(WORLD_PACKAGES), "sensors": may_import(SENSOR_PACKAGES)}
"""Packages inside a folder, by folder."""
# Exceptions: file, function and imported package. These methods import a higher package when they are called: records
# load, save and plot themselves, `Weather.apply` needs the sensor that recorded the cloud, and `Scenario.run` writes
# files.
EXCEPTIONS = {
    ("core/records.py", "load", "io"),
    ("core/records.py", "save", "io"),
    ("core/records.py", "plot", "pictures"),
    ("weather/weather.py", "apply", "sensors"),
    ("scenario/scenario.py", "run", "outputs"),
}
# Worlds load by name or from a list of objects: two methods import the packages that build them.
INNER_EXCEPTIONS = {
    ("world/world.py", "load", "procedural"),
    ("world/world.py", "load", "urdf"),
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
    "shapely",
    "ezdxf",
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
    "pandas",
}


def name_of(module: Path) -> str:
    return module.relative_to(SOURCE).as_posix()


def package_of(module: Path) -> str:
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
    """Each import of a module, with its enclosing function ('' at module level or in a class body)."""

    def walk(node: ast.AST, function: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            for name in imported(child):
                yield name, function
            inside = child.name if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
            yield from walk(child, inside)

    return tuple(walk(ast.parse(module.read_text(encoding="utf-8")), ""))


def package_imported(name: str) -> str | None:
    """Package of Parhelion that an import refers to, or None for other distributions."""
    first, _, rest = name.partition(".")
    if first != "parhelion":
        return None
    package = rest.partition(".")[0]
    return package if package in MAY_IMPORT else PUBLIC


def inner_package(folder: str, parts: Sequence[str]) -> str:
    """Package inside a folder that contains a module path: the deepest one in the list."""
    paths = ("/".join(parts[:depth]) for depth in (2, 1))
    return next((path for path in paths if path in INNER_PACKAGES[folder]), folder)


def inner_package_of(folder: str, module: Path) -> str:
    return inner_package(folder, module.relative_to(SOURCE / folder).parts[:-1])


def inner_package_imported(folder: str, name: str) -> str | None:
    """Package inside a folder that an import refers to, or None for imports from elsewhere."""
    package, *parts = name.split(".")
    return inner_package(folder, parts[1:]) if package == "parhelion" and parts[:1] == [folder] else None


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=True
    )


def seconds(*command: str, tries: int = 5) -> float:
    """Shortest processor time [s] of several runs, which is independent of other work on the machine."""
    times = []
    for _ in range(tries):
        before = os.times()
        run(*command)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(times)


# ---- imports -------------------------------------------------------------------------------------------------------


def test_every_folder_is_a_package_of_the_plan() -> None:
    assert {package_of(module) for module in MODULES} == {*MAY_IMPORT, "(package)"}


def test_folders_of_unit_tests_are_packages_of_the_plan() -> None:
    folders = {test.parent.name for test in UNIT_TESTS.glob("*/test_*.py")}
    assert len(folders) >= 8
    assert folders <= set(MAY_IMPORT)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_only_what_lies_below_them(package: str) -> None:
    wrong = []
    for module in MODULES:
        if package_of(module) != package:
            continue
        for name, function in imports_with_function(module):
            other = package_imported(name)
            if other is None or other == package or other in MAY_IMPORT[package]:
                continue
            if (name_of(module), function, other) not in EXCEPTIONS:
                wrong.append(f"{name_of(module)} imports {name}")
    assert wrong == []


@pytest.mark.parametrize("folder", INNER_PACKAGES)
def test_every_inner_package_of_the_plan_is_there(folder: str) -> None:
    modules = [module for module in MODULES if module.is_relative_to(SOURCE / folder)]
    assert {inner_package_of(folder, module) for module in modules} == set(INNER_PACKAGES[folder])
    folders = {module.relative_to(SOURCE / folder).parts[0] for module in modules if module.parent.parent != SOURCE}
    assert folders <= {*INNER_PACKAGES[folder], "presets"}


@pytest.mark.parametrize(
    ("folder", "package"), [(folder, package) for folder in INNER_PACKAGES for package in INNER_PACKAGES[folder]]
)
def test_inner_packages_import_only_what_lies_below_them(folder: str, package: str) -> None:
    wrong = []
    for module in MODULES:
        if not module.is_relative_to(SOURCE / folder) or inner_package_of(folder, module) != package:
            continue
        for name, function in imports_with_function(module):
            other = inner_package_imported(folder, name)
            if other is None or other == package or other in INNER_PACKAGES[folder][package]:
                continue
            if (name_of(module), function, other) not in INNER_EXCEPTIONS:
                wrong.append(f"{name_of(module)} imports {name}")
    assert wrong == []


def test_the_exceptions_are_still_used() -> None:
    found = {
        (name_of(module), function, package)
        for module in MODULES
        for name, function in imports_with_function(module)
        for package in (package_imported(name), *(inner_package_imported(folder, name) for folder in INNER_PACKAGES))
    }
    assert found >= EXCEPTIONS | INNER_EXCEPTIONS


@pytest.mark.parametrize("plan", [MAY_IMPORT, *INNER_PACKAGES.values()], ids=["the package", *INNER_PACKAGES])
def test_the_plan_has_no_cycles(plan: dict[str, frozenset[str]]) -> None:
    below: set[str] = set()
    for package, allowed in plan.items():
        assert allowed <= below | {PUBLIC}
        below.add(package)


def test_the_page_shows_the_plan() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tables(page), "run python tests/packages.py"
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


@pytest.mark.slow
def test_names_of_a_module_are_defined_once() -> None:
    """A later constant of the same name would silently replace the first one, as when two modules are joined."""
    for module in MODULES:
        found: list[str] = []
        for node in ast.parse(module.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found += [] if any("overload" in ast.unparse(one) for one in node.decorator_list) else [node.name]
            elif isinstance(node, ast.Assign):
                names = [one for target in node.targets for one in getattr(target, "elts", [target])]
                found += [one.id for one in names if isinstance(one, ast.Name) and one.id != "_"]
        assert len(found) == len(set(found)), (
            f"{module}: {sorted(name for name in set(found) if found.count(name) > 1)}"
        )


NEW_IN_NUMPY_2 = {
    "trapezoid", "concat", "permute_dims", "matrix_transpose", "vecdot", "matvec", "vecmat", "astype",
    "isdtype", "unstack", "unique_all", "unique_counts", "unique_inverse", "unique_values", "cumulative_sum",
    "cumulative_prod", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift", "acos",
    "acosh", "asin", "asinh", "atan", "atan2", "atanh", "pow", "long", "ulong", "strings",
}  # fmt: skip
"""Names of NumPy that its lowest allowed version, 1.26, lacks."""


def test_no_name_is_newer_than_the_lowest_numpy() -> None:
    used = {name for module in MODULES for name in re.findall(r"\bnp\.(\w+)", module.read_text(encoding="utf-8"))}
    assert "concatenate" in used
    assert not used & NEW_IN_NUMPY_2


def test_the_checks_can_fail(tmp_path: Path) -> None:
    source = "import scipy.special\nif TYPE_CHECKING:\n    import trimesh\ndef f():\n    import drjit\n"
    loaded = [name for node in at_import(ast.parse(source)) for name in imported(node)]
    assert loaded == ["scipy.special"]
    (tmp_path / "m.py").write_text("class A:\n    def load(self):\n        from parhelion.io import x\nimport os\n")
    assert imports_with_function(tmp_path / "m.py") == (("parhelion.io.x", "load"), ("os", ""))
    assert package_imported("parhelion.io.x") == "io"
    assert package_imported("parhelion.Lidar") == PUBLIC
    assert package_imported("numpy.linalg") is None
    assert inner_package_imported("world", "parhelion.world.kit.instances.boxes") == "kit"
    assert inner_package_imported("world", "parhelion.world.builtin") == "builtin"
    assert inner_package_imported("world", "parhelion.world.parts.WorldPart") == "world"
    assert inner_package_imported("world", "parhelion.core.pose.Pose") is None
    assert inner_package_imported("world", "world.kit") is None


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
        ("odometry_names", "clearpath/husky"),
        ("barometer_names", "bosch/bmp388"),
        ("magnetometer_names", "pni/rm3100"),
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
    assert ast.get_docstring(tree), "every module has a docstring"
    raised = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Raise) and is_unfinished(node)]
    assert raised == []


def is_unfinished(node: ast.Raise) -> bool:
    return node.exc is not None and "NotImplementedError" in ast.unparse(node.exc)


def test_every_shape_of_a_world_file_fills_in_the_interface() -> None:
    members = get_args(get_args(Shape)[0])
    assert len(members) >= 5
    for shape in members:
        assert issubclass(shape, DescribedShape)
