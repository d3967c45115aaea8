"""Print the installed version of every package that an extra of Parhelion requires, as constraints for pip.

    python tools/lock.py dev > .ci/constraints.txt

Follows the requirements from pyproject.toml through the metadata of the installed packages, so that other packages in
the environment are left out. `make lock` runs it after an install without constraints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]


def requirements(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    """Requirements of a package and its extras that apply to this Python and system."""
    if name == "parhelion":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        optional = project["optional-dependencies"]
        yield from (Requirement(one) for one in project["dependencies"])
        yield from (Requirement(one) for extra in extras for one in optional[extra])
        return
    for text in distribution(name).requires or []:
        one = Requirement(text)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in (extras or {""})):
            yield one


def locked(extras: frozenset[str]) -> dict[str, str]:
    """Version of every required package, by canonical name."""
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    left = [("parhelion", extras)]
    while left:
        name, wanted = left.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        if name != "parhelion":
            found[name] = distribution(name).version
        left += [(canonicalize_name(one.name), frozenset(one.extras)) for one in requirements(name, wanted)]
    return found


def main() -> None:
    """Print the constraints of the extras in the arguments."""
    extras = frozenset(sys.argv[1:])
    print(f"# Versions that CI installs for the extras {', '.join(sorted(extras))}; `make lock` writes this file.")
    for name, version in sorted(locked(extras).items()):
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
