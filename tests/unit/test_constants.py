"""Recorded constants of sensors, calibration, evaluation and campaigns: a changed number of a table or fit is noticed.

The record `tests/constants.json` shows only that they stay, not that they are right. After a change on purpose, run
this test with PARHELION_PINS=write and check the difference of the file.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import pytest

import parhelion
from mutants.rooms import RECORDED, held_by
from pins import fingerprint

FILE = Path(__file__).parents[1] / "constants.json"
SOURCE = Path(parhelion.__file__).parent
MOST = 40
"""Longer tables are recorded as fingerprints."""


def numbers(value: Any) -> list[float]:
    """All numbers of a constant, in a fixed order; none if it holds no number."""
    if isinstance(value, (bool, int, float, np.number)) and not isinstance(value, np.complexfloating):
        return [float(value)]
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, np.ndarray):
        found = [float(one) for one in value.ravel()] if value.dtype.kind in "biuf" else []
    elif isinstance(value, Mapping):
        found = [one for key in sorted(value, key=str) for part in (key, value[key]) for one in numbers(part)]
    elif isinstance(value, (set, frozenset)):
        found = [one for part in sorted(value, key=str) for one in numbers(part)]
    elif isinstance(value, (tuple, list)):
        found = [one for part in value for one in numbers(part)]
    elif isinstance(value, pydantic.BaseModel):
        found = numbers(value.model_dump())
    elif is_dataclass(value) and not isinstance(value, type):
        found = [one for part in fields(value) for one in numbers(getattr(value, part.name))]
    else:
        found = []
    return fingerprint(found) if len(found) > MOST else found


def defaults(function: Any) -> list[float]:
    """Numbers that the arguments of a function have by default."""
    given = inspect.signature(function).parameters.values()
    return [one for part in given if part.default is not part.empty for one in numbers(part.default)]


def of_class(kind: type) -> list[float]:
    """Numbers of the fields, constants and methods of a class."""
    found = []
    if issubclass(kind, pydantic.BaseModel):
        for field in kind.model_fields.values():
            found += numbers(field.default) + [
                one for limit in field.metadata for word in ("gt", "ge", "lt", "le", "min_length", "max_length")
                for one in numbers(getattr(limit, word, None))
            ]  # fmt: skip
    elif is_dataclass(kind):
        found += [one for part in fields(kind) for one in numbers(part.default)]
    for name, value in sorted(vars(kind).items()):
        if inspect.isfunction(value):
            found += defaults(value) if name != "__init__" or not is_dataclass(kind) else []
        elif not name.startswith("__") and not name.startswith("model_"):
            found += numbers(value)
    return found


def recorded(path: str) -> dict[str, list[float]]:
    """Numbers that a module defines outside of its functions, by name."""
    module = importlib.import_module("parhelion." + path.removesuffix(".py").replace("/", "."))
    found: dict[str, list[float]] = {}
    for statement in ast.parse((SOURCE / path).read_text()).body:
        if isinstance(statement, ast.FunctionDef):
            function = inspect.unwrap(getattr(module, statement.name, len))
            found[statement.name] = defaults(function) if inspect.isfunction(function) else []
        elif isinstance(statement, ast.ClassDef):
            found[statement.name] = of_class(getattr(module, statement.name))
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
            found |= {name: numbers(getattr(module, name, None)) for name in names}
    return {name: [float(f"{one:.12g}") for one in values] for name, values in found.items() if values}


def test_constants_are_those_recorded() -> None:
    files = sorted(file.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("*.py"))
    files = [path for path in files if path.startswith(RECORDED) and held_by(path)]
    found = {path: values for path in files if (values := recorded(path))}
    if os.environ.get("PARHELION_PINS") == "write":
        FILE.write_text("{\n" + ",\n".join(f'"{path}": {json.dumps(one)}' for path, one in found.items()) + "\n}\n")
    stored = json.loads(FILE.read_text())
    assert sorted(found) == sorted(stored)
    for path, values in found.items():
        assert sorted(values) == sorted(stored[path]), path
        for name, one in values.items():
            assert one == pytest.approx(stored[path][name], rel=1e-9, nan_ok=True), f"{path}: {name}"
