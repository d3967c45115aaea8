"""The type checker sees what kernels do with arrays: wrong operands and missing members are errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import parhelion

KERNEL = """
from parhelion.core.arrays import Bool, DrJit, Float, Int, Mitsuba, Reals, Vectors, namespace


def correct(dr: DrJit, mi: Mitsuba, table: Float, row: Int, direction: Vectors, near: Bool, scale: Reals) -> Float:
    four = dr.gather(mi.Vector4f, table, row + 1, near)
    axis = mi.Vector3f(four.x, four.y, four.z)
    xp = namespace(scale)
    return dr.select(near & (four.w > 0.0), dr.dot(axis, 2.0 * direction) * xp.sqrt(scale), 0.0)


def wrong(dr: DrJit, mi: Mitsuba, table: Float, row: Int, direction: Vectors, near: Bool, scale: Reals) -> None:
    direction + "north"
    direction.w
    row & 1.5
    near + row
    dr.gather(mi.Vector3f, 3.0, row)
    dr.cross(direction, row)
    mi.Vector5f(0.0)
    dr.gathr(table, row)
    scale.unit
    namespace(scale).sqare(scale)
    held: Int = dr.select(near, 0.5, table)
"""
EXPECTED = [
    "operator", "attr-defined", "operator", "operator", "arg-type", "arg-type", "attr-defined", "attr-defined",
    "union-attr", "attr-defined", "assignment",
]  # fmt: skip


@pytest.mark.slow
def test_wrong_operands_and_members_in_kernels_are_errors(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL)
    source = Path(parhelion.__file__).parent.parent
    settings = tmp_path / "mypy.ini"
    settings.write_text(f"[mypy]\nstrict = true\nmypy_path = {source}\nfollow_imports = silent\n")
    command = [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", tmp_path / "cache", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    lines = KERNEL.splitlines()
    first = lines.index(next(line for line in lines if line.startswith("def wrong")))
    found: dict[int, set[str]] = {}
    for line in done.stdout.splitlines():
        if ": error: " in line:
            found.setdefault(int(line.split(":")[1]) - first - 2, set()).add(line.rsplit("[", 1)[1].rstrip("]"))
    assert sorted(found) == list(range(len(EXPECTED))), done.stdout
    assert [code for number, code in enumerate(EXPECTED) if code not in found[number]] == [], done.stdout
