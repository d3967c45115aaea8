"""The ROS 2 package `parhelion_ros`: everything about it that can be checked without ROS."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import parhelion

PACKAGE = Path(__file__).resolve().parents[2] / "ros" / "parhelion_ros"
# Order and number of the first elements, and the names of all others, of package format 3 (REP 149).
HEAD = ["name", "version", "description", "maintainer", "license"]
OTHERS = {
    "url", "author", "depend", "build_depend", "build_export_depend", "buildtool_depend", "buildtool_export_depend",
    "exec_depend", "doc_depend", "test_depend", "conflict", "replace", "group_depend", "member_of_group", "export",
}  # fmt: skip


def options(command: str) -> set[str]:
    from parhelion.cli.app import app

    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    return set(re.findall(r"--[a-z0-9][a-z0-9-]*", shown))


def test_package_file_follows_format_3() -> None:
    root = xml.parse(PACKAGE / "package.xml").getroot()
    assert (root.tag, root.get("format")) == ("package", "3")
    names = [child.tag for child in root]
    assert names[: len(HEAD)] == HEAD
    assert set(names[len(HEAD) :]) <= OTHERS
    text = {tag: root.findtext(tag) or "" for tag in HEAD}
    assert re.fullmatch(r"[a-z][a-z0-9_]*", text["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", text["version"])
    assert "@" in (root.find("maintainer").get("email") or "")  # type: ignore[union-attr]
    assert all(value.strip() for value in text.values())
    assert root.findtext("export/build_type") == "ament_python"


def test_versions_are_those_of_parhelion() -> None:
    assert xml.parse(PACKAGE / "package.xml").findtext("version") == parhelion.__version__
    assert f'version="{parhelion.__version__}"' in (PACKAGE / "setup.py").read_text()


def test_installed_files_exist() -> None:
    assert (PACKAGE / "resource" / "parhelion_ros").is_file()
    assert (PACKAGE / "setup.cfg").read_text().count("$base/lib/parhelion_ros") == 2
    done = subprocess.run(
        [sys.executable, "setup.py", "--name", "--version"], cwd=PACKAGE, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-2:] == ["parhelion_ros", parhelion.__version__]


def test_entry_points_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PACKAGE)
    points = re.findall(r'"(\w+) = ([\w.]+):(\w+)"', (PACKAGE / "setup.py").read_text())
    assert [name for name, _, _ in points] == ["stream", "weather"]
    for _, module, function in points:
        assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("file", sorted((PACKAGE / "launch").glob("*.py")), ids=lambda file: file.name)
def test_launch_files_compile_and_use_options_that_exist(file: Path) -> None:
    tree = ast.parse(file.read_text())
    compile(tree, str(file), "exec")
    assert any(isinstance(one, ast.FunctionDef) and one.name == "generate_launch_description" for one in tree.body)
    words = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    command = words[words.index("parhelion") + 1]
    used = {word for word in words if word.startswith("--")}
    assert used
    if command == "weather" and "--ros2" not in options(command):
        pytest.skip("this version of `parhelion weather` has no --ros2")
    assert used <= options(command)


@pytest.mark.parametrize("name", ["stream", "weather"])
def test_parameters_are_options_of_the_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PACKAGE)
    from parhelion_ros.commands import options_of

    file = PACKAGE / "config" / f"{name}.yaml"
    parameters = yaml.safe_load(file.read_text())["/**"]["ros__parameters"]
    assert {"--" + one.replace("_", "-") for one in parameters} <= options(name)
    given = options_of(["a.yaml", "--ros-args", "--params-file", str(file), "-r", "__node:=x", "--", "--seed", "3"])
    assert given[0] == "a.yaml"
    assert given[-2:] == ["--seed", "3"]
    assert "--loop" not in given


def test_arguments_of_ros_become_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PACKAGE)
    from parhelion_ros.commands import options_of

    words = ["s.yaml", "--ros-args", "-p", "speed:=0.5", "-p", "loop:=true", "-p", "use_sim_time:=true"]
    assert options_of(words) == ["s.yaml", "--speed", "0.5", "--loop"]
    with pytest.raises(SystemExit, match="remapping /a:=/b is not supported"):
        options_of(["--ros-args", "-r", "/a:=/b"])


def test_launch_files_run_where_ros_is_installed() -> None:
    pytest.importorskip("launch", reason="needs ROS 2: launch is not installed")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", str(PACKAGE / "test")], check=False)
    assert done.returncode == 0
