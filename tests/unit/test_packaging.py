"""Extras of pyproject.toml against the imports of the source."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import oracles

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
DEVELOPMENT = {"dev", "docs", "bench", "devkits", "oracles"}
"""Extras for work on Parhelion itself."""
DISTRIBUTIONS = {
    "PIL": "pillow", "yaml": "pyyaml", "lzf": "python-neo-lzf", "ot": "pot", "distributed": "dask",
    "foxglove": "foxglove-sdk", "sionna": "sionna-rt", "mujoco": "mujoco-core",
    "pxr": "usd-core", "zenoh": "eclipse-zenoh", "sklearn": "scikit-learn", "cv2": "opencv-python-headless",
}  # fmt: skip
"""Distribution of a module, if its name is another one."""
INDIRECT = {
    "lazrs": "laspy", "lz4": "rosbags", "zstandard": "rosbags", "pydantic_core": "pydantic",
    "typing_extensions": "pydantic", "threadpoolctl": "scikit-learn",
}  # fmt: skip
"""Distribution that installs a module as its own dependency."""
NOT_ON_THE_INDEX = {"rclpy"}
"""Modules that come with a ROS 2 installation."""


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def name_of(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def extras_in(requirements: list[str]) -> set[str]:
    """Extras of Parhelion that a list of requirements names."""
    inner = [re.fullmatch(r"parhelion\[([\w,-]+)\]", one) for one in requirements]
    return {extra for found in inner if found for extra in found[1].split(",")}


def imported() -> set[str]:
    """Modules of other packages that the source imports, anywhere in a file."""
    found = set()
    for file in (ROOT / "src" / "parhelion").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add(str(node.module))
    return {name.split(".")[0] for name in found} - sys.stdlib_module_names - {"parhelion"}


def test_all_is_every_extra_for_users(project: dict[str, Any]) -> None:
    extras = project["optional-dependencies"]
    assert extras_in(extras["all"]) == set(extras) - DEVELOPMENT - {"all"}
    assert len(extras["all"]) == 1


def test_whatever_the_source_imports_is_installed_by_all(project: dict[str, Any]) -> None:
    extras = project["optional-dependencies"]
    installed = {name_of(one) for one in project["dependencies"]}
    installed |= {name_of(one) for extra in extras_in(extras["all"]) for one in extras[extra]}
    wanted = {
        name_of(DISTRIBUTIONS.get(module) or INDIRECT.get(module) or module) for module in imported() - NOT_ON_THE_INDEX
    }
    assert wanted - installed == set()


def test_the_version_has_a_heading_in_the_changelog(project: dict[str, Any]) -> None:
    headings = re.findall(r"^## \[(.+)\] - (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert project["version"] in dict(headings)
    numbers = [tuple(map(int, version.split("."))) for version, _ in headings]
    assert numbers == sorted(numbers, reverse=True)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", date) for _, date in headings[1:])


@pytest.mark.parametrize(("value", "outcome"), [("1", "failed"), ("", "skipped")])
def test_a_missing_oracle_fails_when_it_is_required(value: str, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARHELION_ORACLES", value)
    expected = {"failed": pytest.fail.Exception, "skipped": pytest.skip.Exception}[outcome]
    with pytest.raises(expected, match="the oracle no_such_package is missing"):
        oracles.oracle("no_such_package")


def test_constraints_of_ci_pin_every_package_of_the_environment(project: dict[str, Any]) -> None:
    """One version of each package, within the bounds of pyproject.toml, and nothing about where it comes from."""
    lines = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in lines[1:])
    optional = project["optional-dependencies"]
    wanted = [*project["dependencies"], *optional["dev"]]
    wanted += [one for extra in extras_in(optional["dev"]) for one in optional[extra]]
    for requirement in (Requirement(one) for one in wanted):
        if requirement.name != "parhelion":
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement
