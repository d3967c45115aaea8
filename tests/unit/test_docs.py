"""Checks of the documentation: code runs, commands parse, links resolve, and named files and tests exist."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import trimesh
import yaml
from typer.main import get_command

import parhelion
from parhelion.io import FieldsDroppedWarning

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def python_blocks(page: Path) -> list[str]:
    """Python code of a page, except blocks with the fence `python { .no-run }`."""
    return [code for info, code in _FENCE.findall(text_of(page)) if info.strip() == "python"]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_fences_are_such_as_the_site_knows(page: Path) -> None:
    """A language, and classes in braces; for other fences the site shows the backticks and loses later headings."""
    for line in text_of(page).splitlines():
        if line.startswith("```"):
            assert re.fullmatch(r"```([a-z0-9]+( \{( \.[a-z-]+)+ \})?)?", line), line


ROVER = """<robot name="rover">
<material name="grey"><color rgba="0.5 0.5 0.5 1"/></material>
<link name="base_link"><visual><geometry><box size="0.8 0.6 0.3"/></geometry><material name="grey"/></visual></link>
<link name="arm"><visual><geometry><box size="0.1 0.1 0.6"/></geometry><material name="grey"/></visual></link>
<joint name="arm_joint" type="revolute"><parent link="base_link"/><child link="arm"/><origin xyz="0.3 0 0.3"/>
<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
<link name="gripper"><visual><geometry><box size="0.1 0.1 0.2"/></geometry><material name="grey"/></visual></link>
<joint name="lift_joint" type="prismatic"><parent link="arm"/><child link="gripper"/><origin xyz="0 0 0.6"/>
<axis xyz="0 0 1"/><limit lower="0" upper="0.5" effort="1" velocity="1"/></joint>
<gazebo reference="base_link"><sensor name="top" type="gpu_lidar"><pose>0 0 0.6 0 0 0</pose></sensor></gazebo>
</robot>"""


@pytest.fixture(scope="module")
def files_of_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the files that examples read: a mesh, a robot, a capture, clouds and a scenario."""
    folder = tmp_path_factory.mktemp("files")
    for name in ("hall.glb", "car.glb", "crate.obj", "truck.obj", "curtain.obj", "rig.obj", "ghost.obj"):
        mesh = trimesh.creation.box((8, 6, 3))
        if name.endswith(".glb"):
            paint = {"hall.glb": "Mat07", "car.glb": "car-paint-red"}[name]
            mesh.visual = trimesh.visual.TextureVisuals(material=trimesh.visual.material.PBRMaterial(name=paint))
        mesh.export(folder / name)
    rover = folder / "rover_description" / "urdf"
    rover.mkdir(parents=True)
    (rover / "rover.urdf").write_text(ROVER, encoding="utf-8")
    world = parhelion.World.load("cuboids")
    lidar = parhelion.Lidar("velodyne/vlp-16", noise=False)
    scan = lidar.scan(world, pose=parhelion.Pose(xyz=(0, 0, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldsDroppedWarning)
        for name in ("drive.pcap", "recorded.pcd", "scan.npz"):
            scan.save(folder / name)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=name)
def test_python_of_a_page_runs_from_top_to_bottom(page: Path, files_of_pages: Path, tmp_path: Path) -> None:
    """Blocks share one namespace, which starts with `ph` and `np`."""
    shutil.copytree(files_of_pages, tmp_path, dirs_exist_ok=True)
    script = tmp_path / "page.py"
    # Examples render few samples per pixel to be quick, which cameras warn about.
    first = ["import warnings", "import numpy as np", "import parhelion as ph"]
    first.append("warnings.filterwarnings('ignore', message='.*the noise of the renderer')")
    script.write_text("\n".join([*first, *python_blocks(page)]), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-W", "ignore::DeprecationWarning", str(script)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        prose = _FENCE.sub("", text_of(page))
        for target in _LINK.findall(prose):
            if not re.match(r"[a-z]+:", target):
                yield page, target


def slugs(page: Path) -> set[str]:
    """Anchors that headings get, as Python-Markdown makes them."""
    prose = _FENCE.sub("", text_of(page))
    words = (re.sub(r"[^\w\s-]", "", line).strip().lower() for line in re.findall(r"^#+ (.*)$", prose, re.MULTILINE))
    return {re.sub(r"[-\s]+", "-", word) for word in words}


def test_links_and_pictures_lead_somewhere() -> None:
    found = list(links())
    assert len(found) > 30
    broken = []
    for page, target in found:
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        if not place.is_file() or (anchor and anchor not in slugs(place)):
            broken.append(f"{name(page)}: {target}")
    assert broken == []


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_fetches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    # With --quiet, warnings would not count as errors.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    built = list((tmp_path / "site").rglob("*.html"))
    assert len(built) > 15
    # Links to elsewhere are for people to follow; scripts, styles and pictures would be fetched.
    fetched = re.compile(r"""(?:src=|<link[^>]*href=|url\()["']?(?:https?:)?//""")
    assert [file.name for file in built if fetched.search(text_of(file))] == []
    _search_from_disk(tmp_path / "site" / "index.html")


def _search_from_disk(page: Path) -> None:
    """Search the site in a browser, without a server."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    if chromium is None:
        pytest.skip("no Chromium: the search was not tried")
    with playwright.sync_playwright() as control:
        program = control.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            window = program.new_page()
            window.goto(page.as_uri())
            window.click("input.md-search__input")
            window.keyboard.type("fog")
            window.wait_for_selector(".md-search-result__item", timeout=60_000)
            assert "matching documents" in window.inner_text(".md-search-result__meta")
        finally:
            program.close()


def nav_files(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for value in entry.values():
            yield from nav_files(value)
    elif isinstance(entry, list):
        for value in entry:
            yield from nav_files(value)


def test_every_page_is_in_the_navigation_and_there() -> None:
    config = yaml.safe_load(text_of(ROOT / "mkdocs.yml"))
    listed = sorted(nav_files(config["nav"]))
    assert listed == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_every_public_name_is_in_the_api_reference_once() -> None:
    shown = [
        name for page in DOCS.glob("api/*.md") for name in re.findall(r"^::: parhelion\.(\w+)$", text_of(page), re.M)
    ]
    assert sorted(shown) == sorted(set(parhelion.__all__) - {"__version__"})


def test_the_version_is_the_same_everywhere() -> None:
    places = {
        "pyproject.toml": r'^version = "(.+)"$',
        "CITATION.cff": r"^version: (.+)$",
        "README.md": r"^\s+version = \{(.+)\},$",
        "docs/cite.md": r"^\s+version = \{(.+)\},$",
    }
    for file, pattern in places.items():
        assert re.findall(pattern, text_of(ROOT / file), re.M) == [parhelion.__version__], file


@pytest.mark.parametrize(("script", "page"), [("field_table", "point-fields.md"), ("reader_table", "architecture.md")])
def test_tables_made_from_the_code_are_those_in_the_code(script: str, page: str) -> None:
    spec = spec_from_file_location(script, DOCS / "figures" / f"{script}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    shown = text_of(DOCS / page).partition(module.BEGIN)[2].partition(module.END)[0].strip()
    assert shown == module.table(), f"run python docs/figures/{script}.py"


def test_the_walks_through_the_source_name_what_is_there() -> None:
    """At most ten stops each, from a command or a class on; every stop is a file and a name that it defines."""
    walks = re.findall(r"<!-- walk -->\n(.*?)<!-- end -->", text_of(DOCS / "architecture.md"), re.DOTALL)
    assert len(walks) >= 6
    for walk in walks:
        stops = re.findall(r"^\d+\. \[`(.+?)`\]\((.+?)\), `(\w+)`: (.*?[.])\n", walk + "\n", re.MULTILINE | re.DOTALL)
        assert len(stops) == len(re.findall(r"^\d+\. ", walk, re.MULTILINE)) <= 10
        assert stops[0][0].startswith(("cli/", "sensors/"))
        for shown, target, what, _ in stops:
            file = (DOCS / target).resolve()
            assert file == ROOT / "src" / "parhelion" / shown
            assert re.search(rf"^(def |class )?{what}\b[(:]", text_of(file), re.MULTILINE), f"{shown} has no {what}"


def test_lines_quoted_of_the_toy_sensor_are_its_own() -> None:
    file = "tests/user_package/toy_sensors/thermometer.py"
    _, _, rest = text_of(DOCS / "architecture.md").partition(f"<!-- toy sensor: lines of {file} -->")
    quoted = [line for line in _FENCE.findall(rest)[0][1].splitlines() if line]
    own = iter(text_of(ROOT / file).splitlines())
    assert len(quoted) > 15
    for line in quoted:
        assert line in own, f"not in {file}, or not in this order: {line}"


def commands_shown(page: Path) -> list[list[str]]:
    """Arguments of each line of a page that calls the program."""
    lines = re.findall(r"^\s*parhelion ([^\n]*)$", re.sub(r"\\\n\s*", " ", text_of(page)), re.MULTILINE)
    return [shlex.split(line.partition(" > ")[0], comments=True) for line in lines]


def parse(program: Any, words: list[str]) -> None:
    """Parse a command line down to its innermost command, without running it."""
    context = program.make_context("parhelion", list(words))
    while hasattr(program, "commands"):
        name, program, rest = program.resolve_command(context, [*context._protected_args, *context.args])
        context = program.make_context(name, rest, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_shown_are_parsed(page: Path) -> None:
    """Every command line of a page has existing options, required arguments and valid values; files need not exist."""
    from parhelion.cli.app import app

    program = get_command(app)
    shown = commands_shown(page)
    assert shown or page.name not in ("README.md", "cli.md")
    for words in shown:
        try:
            parse(program, words)
        except Exception as error:  # typer may bundle its own click, so its classes are known by their methods
            if not hasattr(error, "exit_code"):
                raise
            if hasattr(error, "format_message"):
                pytest.fail(f"{name(page)}: parhelion {shlex.join(words)}: {error}")


def commands_of(program: Any) -> Iterator[Any]:
    """Innermost commands of the program."""
    below = getattr(program, "commands", {}).values()
    yield from (command for one in below for command in commands_of(one)) if below else (program,)


def test_help_shows_examples_that_parse() -> None:
    """Every command has two examples at least, each valid as written."""
    from parhelion.cli.app import app

    program = get_command(app)
    for command in commands_of(program):
        lines = re.findall(r"^\s*parhelion (.*)$", command.epilog or "", re.MULTILINE)
        lines += re.findall(r"^\s*[A-Z_]+=\w+ parhelion (.*)$", command.epilog or "", re.MULTILINE)
        assert len(lines) >= 2, command.name
        for line in lines:
            parse(program, shlex.split(line.partition(" > ")[0], comments=True))


def test_tests_named_by_pages_exist() -> None:
    """`tests/a.py::test_b`, and bare `test_c` below a named file, exist."""
    named = 0
    for page in PAGES:
        files = re.findall(r"`(tests/[\w/]+\.py)", text_of(page))
        for file in files:
            assert (ROOT / file).is_file(), f"{name(page)}: {file}"
        for file, test in re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text_of(page)):
            assert f"def {test}(" in text_of(ROOT / file), f"{name(page)}: {file}::{test}"
            named += 1
        sources = "".join(text_of(ROOT / file) for file in set(files))
        for test in re.findall(r"`(test_\w+)`", text_of(page)):
            assert f"def {test}(" in sources, f"{name(page)}: {test}"
            named += 1
    assert named > 40


def test_scripts_named_by_pages_exist() -> None:
    scripts = {match for page in PAGES for match in re.findall(r"`(docs/figures/\w+\.py)`", text_of(page))}
    assert len(scripts) > 5
    assert [script for script in sorted(scripts) if not (ROOT / script).is_file()] == []


def test_counts_in_the_readme_are_true() -> None:
    from parhelion.io import FORMATS
    from parhelion.sensors.sheets import preset_names
    from parhelion.surfaces.library import material_names
    from parhelion.world.builtin import BUILTIN

    readme = text_of(ROOT / "README.md")
    counts = {
        "lidars": len(preset_names("lidar")),
        "materials": len(material_names()),
        "worlds": len(BUILTIN),
        "file formats": len(FORMATS),
    }
    for what, count in counts.items():
        assert f"**{count} {what}**" in readme, f"README.md: there are {count} {what}"
