"""Reader of OpenSCENARIO files (.xosc, 1.0 to 1.3): parameters and catalogs are resolved, entities become plain data.

Source: ASAM OpenSCENARIO XML 1.2. `storyboard.py` plays the storyboard of a file.
"""

from __future__ import annotations

import ast
import copy
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from parhelion.core.errors import ConfigError, FormatError
from parhelion.world.xml import Node, guarded_text, parse_xml

_LARGEST_BYTES = 16 * 1024 * 1024
_MOST_ENTITIES = 1000
_MOST_REFERENCES = 2000
_DEEPEST = 8
"""Largest nesting of catalog references."""
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: math.fmod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "round": round, "floor": math.floor, "ceil": math.ceil, "sqrt": math.sqrt, "abs": abs, "max": max, "min": min
}  # fmt: skip


@dataclass(frozen=True)
class EntitySheet:
    """An entity of a file: its kind, its size and the place of its box."""

    name: str
    kind: str
    """Vehicle category, `pedestrian` or `object`."""
    size_m: tuple[float, float, float]
    """Length, width and height."""
    centre_m: tuple[float, float, float]
    """Centre of the box in the entity's frame: of a vehicle, the middle of the rear axle on the ground."""


@dataclass(frozen=True, eq=False)
class Document:
    """A file whose parameters and catalog references are resolved."""

    file: Path
    root: Node
    entities: dict[str, EntitySheet]
    roads: str
    """Road network that the file names; empty without one."""

    @property
    def storyboard(self) -> Node:
        """Storyboard of the file."""
        return self.root.needed("Storyboard")


def read_openscenario(file: Path, parameters: Mapping[str, Any] | None = None) -> Document:
    """Read a file; `parameters` replace the values of its parameter declarations."""
    root = _parsed(file)
    if root.tag != "OpenSCENARIO":
        raise FormatError(f"{file}: the root element must be <OpenSCENARIO>, got <{root.tag[:40]}>")
    given = {name: str(value) for name, value in (parameters or {}).items()}
    declared = {row.get("name") for row in root.findall("ParameterDeclarations/ParameterDeclaration")}
    for name in given:
        if name not in declared:
            known = ", ".join(sorted(str(one) for one in declared)) or "none"
            raise ConfigError(f"{file}: has no parameter {name!r}; it declares: {known}")
    _resolve(file, root, {}, _Catalogs(file, root), 0, given)
    node = Node(root, file)
    entities = {}
    for row in node.needed("Entities").children("ScenarioObject"):
        sheet = _sheet(row)
        if sheet.name in entities:
            raise row.fail(f"the entity {sheet.name!r} is declared twice")
        entities[sheet.name] = sheet
    if not 0 < len(entities) <= _MOST_ENTITIES:
        raise ConfigError(f"{file}: has {len(entities)} entities; expected 1 to {_MOST_ENTITIES}")
    logic = root.find("RoadNetwork/LogicFile")
    return Document(file, node, entities, "" if logic is None else logic.get("filepath", ""))


def _parsed(file: Path) -> Element:
    return parse_xml(file, guarded_text(file, _LARGEST_BYTES, what="a scenario"))


# ---- parameters ------------------------------------------------------------------------------------------------------


def _resolve(
    file: Path,
    element: Element,
    values: Mapping[str, str],
    catalogs: _Catalogs,
    level: int,
    assigned: Mapping[str, str],
) -> None:
    """Replace parameters and catalog references in an element and below.

    Nearer declarations take precedence; `assigned` replaces the values of those of the element itself.
    """
    declared = element.findall("ParameterDeclarations/ParameterDeclaration")
    own = {row.get("name", ""): _valued(file, row.get("value", ""), values) for row in declared}
    values = {**values, **own, **assigned}
    for name, text in element.attrib.items():
        element.set(name, _valued(file, text, values))
    for place, child in enumerate(list(element)):
        if child.tag == "CatalogReference":
            for row in child.iter():
                for name, text in row.attrib.items():
                    if name != "parameterRef":
                        row.set(name, _valued(file, text, values))
            element[place] = catalogs.entry(child, level)
        elif child.tag != "ParameterDeclarations":
            _resolve(file, child, values, catalogs, level, {})


def _valued(file: Path, text: str, values: Mapping[str, str]) -> str:
    """Text of an attribute with `$name` and `${expression}` replaced."""
    if not text.startswith("$"):
        return text
    if not text.startswith("${"):
        if text[1:] not in values:
            raise ConfigError(f"{file}: parameter {text!r} is not declared")
        return values[text[1:]]
    source = text[2:].removesuffix("}")
    for name in sorted(values, key=len, reverse=True):
        source = source.replace(f"${name}", f"({values[name]})")
    try:
        return repr(_number(ast.parse(source.strip(), mode="eval").body))
    except (SyntaxError, ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
        raise ConfigError(f"{file}: cannot evaluate the expression {text[:80]!r}; use numbers and + - * / %") from None


def _number(node: ast.AST) -> float:
    """Value of an arithmetic expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    if isinstance(node, ast.UnaryOp):
        return float(_OPERATORS[type(node.op)](_number(node.operand)))
    if isinstance(node, ast.BinOp):
        return float(_OPERATORS[type(node.op)](_number(node.left), _number(node.right)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return float(_FUNCTIONS[node.func.id](*(_number(one) for one in node.args)))
    raise ValueError("not arithmetic")


# ---- catalogs --------------------------------------------------------------------------------------------------------


class _Catalogs:
    """Entries of the catalogs in the folders that a file names."""

    def __init__(self, file: Path, root: Element) -> None:
        self._file = file
        self._folders = [file.parent / row.get("path", "") for row in root.findall("CatalogLocations/*/Directory")]
        self._entries: dict[tuple[str, str], tuple[Path, Element]] | None = None
        self._used = 0

    def _read(self) -> dict[tuple[str, str], tuple[Path, Element]]:
        found: dict[tuple[str, str], tuple[Path, Element]] = {}
        for folder in dict.fromkeys(self._folders):
            for file in sorted(folder.glob("*.xosc")) if folder.is_dir() else []:
                catalog = _parsed(file).find("Catalog")
                for entry in catalog if catalog is not None else []:
                    assert catalog is not None
                    found.setdefault((catalog.get("name", ""), entry.get("name", "")), (file, entry))
        return found

    def entry(self, reference: Element, level: int) -> Element:
        """Return the entry of a reference, with its parameters assigned."""
        if self._entries is None:
            self._entries = self._read()
        key = reference.get("catalogName", ""), reference.get("entryName", "")
        self._used += 1
        if key not in self._entries:
            folders = ", ".join(str(folder) for folder in dict.fromkeys(self._folders)) or "none"
            raise ConfigError(
                f"{self._file}: no catalog {key[0]!r} with an entry {key[1]!r}; folders searched: {folders}"
            )
        if level >= _DEEPEST or self._used > _MOST_REFERENCES:
            raise ConfigError(f"{self._file}: catalog references are nested too deeply or too many")
        file, entry = self._entries[key]
        made = copy.deepcopy(entry)
        rows = reference.findall("ParameterAssignments/ParameterAssignment")
        values = {row.get("parameterRef", "").removeprefix("$"): row.get("value", "") for row in rows}
        _resolve(file, made, {}, self, level + 1, values)
        return made


# ---- entities --------------------------------------------------------------------------------------------------------


def _sheet(node: Node) -> EntitySheet:
    name = node.attribute("name")
    for tag, category in (("Vehicle", "vehicleCategory"), ("Pedestrian", ""), ("MiscObject", "")):
        body = node.child(tag)
        if body is None:
            continue
        kind = body.element.get(category, "car") if category else {"Pedestrian": "pedestrian"}.get(tag, "object")
        box = body.child("BoundingBox")
        if box is None:
            return EntitySheet(name, kind, (0.6, 0.6, 1.75) if kind == "pedestrian" else (4.5, 1.8, 1.5), (0, 0, 0))
        centre, size = box.needed("Center"), box.needed("Dimensions")
        numbers = tuple(size.positive(axis)[0] for axis in ("length", "width", "height"))
        if max(numbers) > 200.0:
            raise size.fail("an entity is at most 200 m long")
        x, y, z = (centre.number(axis, 0.0) for axis in "xyz")
        return EntitySheet(name, kind, (numbers[0], numbers[1], numbers[2]), (x, y, z))
    raise node.fail("needs a <Vehicle>, <Pedestrian>, <MiscObject> or a <CatalogReference> to one")


# ---- starter ---------------------------------------------------------------------------------------------------------


def scenario_of(file: Path, name: Path) -> str:
    """Text of a scenario file that plays an OpenSCENARIO file, with a lidar and a camera on its first vehicle.

    `name` is the path that the text uses. Rain, snow and fog of the file's environment at the start are set.
    """
    document = read_openscenario(file)
    if not document.roads:
        raise ConfigError(f"{file}: names no road network; give <RoadNetwork> a <LogicFile> with an OpenDRIVE file")
    vehicles = [one for one in document.entities.values() if one.kind not in ("pedestrian", "object")]
    if not vehicles:
        raise ConfigError(f"{file}: has no vehicle that could carry sensors")
    carrier = next((one for one in vehicles if one.name.lower() in ("ego", "hero", "host")), vehicles[0])
    stop = document.storyboard.child("StopTrigger")
    times = [] if stop is None else list(stop.element.iter("SimulationTimeCondition"))
    duration = float(times[0].get("value", "20")) if times else 20.0
    length, _, height = carrier.size_m
    front = carrier.centre_m[0] + 0.2 * length
    lines = [
        f"# Plays the storyboard of {name.name}; see docs/scenarios.md.",
        f"duration_s: {duration:g}",
        f"world: {name.parent / document.roads}",
        f"storyboard: {{file: {name}}}",
        *_weather_lines(document.storyboard),
        "vehicles:",
        f"  - {{name: ego, entity: {carrier.name}}}   # carries the sensors; its own body is not built",
        "sensors:",
        "  - {name: roof, type: lidar, model: velodyne/vlp-16, vehicle: ego, "
        f"mount: {{xyz: [{carrier.centre_m[0]:.2f}, 0, {height + 0.4:.2f}]}}}}",
        "  - {name: front, type: camera, model: generic/vga, vehicle: ego, "
        f"mount: {{xyz: [{front:.2f}, 0, {0.9 * height:.2f}]}}, rate_hz: 2}}",
    ]
    return "\n".join(lines) + "\n"


def _weather_lines(storyboard: Node) -> list[str]:
    """Fields of the weather of the environment at the start."""
    found: dict[str, float] = {}
    for node in storyboard.element.iterfind("Init//EnvironmentAction//Weather"):
        rain = node.find("Precipitation")
        kind = "none" if rain is None else rain.get("precipitationType", "none")
        if rain is not None and kind in ("rain", "snow"):
            amount = float(rain.get("precipitationIntensity", rain.get("intensity", "0")))
            found |= {f"{kind}_rate_mm_h": amount} if amount > 0 else {}
        fog = node.find("Fog")
        if fog is not None and float(fog.get("visualRange", "1e9")) < 20_000.0:
            found["visibility_m"] = float(fog.get("visualRange", "1e9"))
    rows = ", ".join(f"{name}: {value:g}" for name, value in found.items())
    return [f"weather: {{{rows}}}"] if rows else []
