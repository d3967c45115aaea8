"""Shapes of SVG drawings: lines and filled outlines in the units of the drawing, curves as short segments.

Format: https://www.w3.org/TR/SVG2/paths.html and https://www.w3.org/TR/css-transforms-1/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.errors import FormatError
from parhelion.core.pose import Floats
from parhelion.world.sources import Tally
from parhelion.world.xml import guarded_text, parse_xml

UNITS_M = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "in": 0.0254, "ft": 0.3048, "pt": 0.0254 / 72, "pc": 0.0254 / 6}
_LARGEST_BYTES = 64 * 1024 * 1024
_SEGMENTS = 16
"""Segments of a curve."""
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_ARGUMENTS = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "S": 4, "Q": 4, "T": 2, "A": 7, "Z": 0}
_SHAPES = ("path", "line", "polyline", "polygon", "rect", "circle", "ellipse")
_NOT_DRAWN = {"defs", "metadata", "title", "desc", "style", "clipPath", "mask", "symbol", "pattern", "marker", "script"}


def drawn_shapes(file: Path, tally: Tally) -> tuple[list[Floats], list[Floats], float | None]:
    """Lines (n, 2), filled outlines (n, 2), and the size of a unit [m], or None if the drawing states none."""
    root = parse_xml(file, guarded_text(file, _LARGEST_BYTES, what="a drawing"))
    if _tag(root) != "svg":
        raise FormatError(f"{file}: the root element must be <svg>, got <{_tag(root)[:40]}>")
    lines: list[Floats] = []
    solids: list[Floats] = []
    for element, matrix, style in _walk(root, np.eye(3), {"fill": "black"}):
        tag = _tag(element)
        if tag not in _SHAPES:
            tally.omit(f"<{tag[:40]}>", "no wall")
            continue
        filled = style.get("fill", "black") not in ("none", "white", "#fff", "#ffffff", "transparent")
        if style.get("display") == "none" or style.get("visibility") == "hidden":
            tally.omit(f"<{tag}>", "hidden")
            continue
        count = 0
        for points, closed in _outlines(file, element, tag):
            if len(points) < 2 or not np.isfinite(points).all():
                continue
            placed = points @ matrix[:2, :2].T + matrix[:2, 2]
            count += 1
            if filled and closed and len(points) >= 3:
                solids.append(placed)
            else:
                lines.append(np.vstack([placed, placed[:1]]) if closed else placed)
        tally.add(f"<{tag}>", count=count) if count else tally.omit(f"<{tag}>", "it has no points")
    return lines, solids, _unit(root)


def _tag(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _unit(root: Any) -> float | None:
    found = re.fullmatch(r"\s*([\d.]+)\s*(mm|cm|m|in|pt|pc)\s*", root.get("width") or "")
    if not found:
        return None
    size = float(found[1]) * UNITS_M[found[2]]
    box = [float(word) for word in _NUMBER.findall(root.get("viewBox") or "")]
    return size / box[2] if len(box) == 4 and box[2] > 0 else UNITS_M[found[2]]


def _walk(element: Any, matrix: Floats, style: dict[str, str]) -> Iterator[tuple[Any, Floats, dict[str, str]]]:
    """Elements that are drawn, with their transform and style."""
    for child in element:
        tag = _tag(child)
        if tag in _NOT_DRAWN:
            continue
        own = matrix @ _transform(child.get("transform") or "")
        looks = {
            **style,
            **{key: child.get(key) for key in ("fill", "stroke", "display", "visibility") if child.get(key)},
        }
        for entry in (child.get("style") or "").split(";"):
            key, colon, value = entry.partition(":")
            if colon:
                looks[key.strip()] = value.strip().lower()
        if tag in ("g", "svg", "a", "switch"):
            yield from _walk(child, own, looks)
        else:
            yield child, own, looks


def _transform(text: str) -> Floats:
    total = np.eye(3)
    for name, arguments in re.findall(r"(\w+)\s*\(([^)]*)\)", text):
        v = [float(word) for word in _NUMBER.findall(arguments)]
        m = np.eye(3)
        if name == "matrix" and len(v) == 6:
            m[:2] = np.array(v).reshape(3, 2).T
        elif name == "translate" and v:
            m[:2, 2] = v[0], v[1] if len(v) > 1 else 0.0
        elif name == "scale" and v:
            m[0, 0], m[1, 1] = v[0], v[-1]
        elif name == "rotate" and v:
            angle = np.radians(v[0])
            m[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
            if len(v) == 3:
                m[:2, 2] = np.array(v[1:]) - m[:2, :2] @ v[1:]
        elif name in ("skewX", "skewY") and v:
            m[(0, 1) if name == "skewX" else (1, 0)] = np.tan(np.radians(v[0]))
        total = total @ m
    return total


def _outlines(file: Path, element: Any, tag: str) -> Iterator[tuple[Floats, bool]]:
    def number(name: str) -> float:
        found = _NUMBER.match((element.get(name) or "0").strip())
        return float(found[0]) if found else 0.0

    if tag == "path":
        yield from path_points(file, element.get("d") or "")
    elif tag == "line":
        yield np.array([[number("x1"), number("y1")], [number("x2"), number("y2")]]), False
    elif tag in ("polyline", "polygon"):
        values = [float(word) for word in _NUMBER.findall(element.get("points") or "")]
        yield np.array(values[: len(values) // 2 * 2]).reshape(-1, 2), tag == "polygon"
    elif tag == "rect":
        x, y, w, h = (number(name) for name in ("x", "y", "width", "height"))
        yield np.array([[x, y], [x + w, y], [x + w, y + h], [x, y + h]]), True
    else:
        rx, ry = (number("r"),) * 2 if tag == "circle" else (number("rx"), number("ry"))
        angle = np.linspace(0, 2 * np.pi, 4 * _SEGMENTS, endpoint=False)
        yield np.column_stack([number("cx") + rx * np.cos(angle), number("cy") + ry * np.sin(angle)]), True


def path_points(file: Path, text: str) -> Iterator[tuple[Floats, bool]]:
    """Points of each part of a path, and True if it is closed."""
    at, start, control = np.zeros(2), np.zeros(2), None
    points: list[Floats] = []
    for letter, arguments in re.findall(r"([MmLlHhVvCcSsQqTtAaZz])([^MmLlHhVvCcSsQqTtAaZz]*)", text):
        command, relative = letter.upper(), letter.islower()
        size = _ARGUMENTS[command]
        values = _flags(arguments) if command == "A" else [float(word) for word in _NUMBER.findall(arguments)]
        if size == 0:
            if points:
                yield np.array(points), True
            points, at, control = [], start, None
            continue
        if len(values) % size or not values:
            raise FormatError(f"{file}: the path command {letter} needs {size} numbers, got {len(values)}")
        for k in range(0, len(values), size):
            v = np.array(values[k : k + size])
            base = at if relative else np.zeros(2)
            if command == "M" and k == 0:
                if len(points) > 1:
                    yield np.array(points), False
                at = start = base + v
                points, control = [at], None
                continue
            if not points:
                points = [at]
            before = at
            if command in "ML":
                at, control = base + v, None
                points.append(at)
            elif command in "HV":
                at, control = at.copy(), None
                axis = 0 if command == "H" else 1
                at[axis] = base[axis] + v[0]
                points.append(at)
            elif command == "A":
                at, control = base + v[5:], None
                points += list(_arc(before, at, v))
            else:
                corners = [base + pair for pair in v.reshape(-1, 2)]
                if command in "ST":
                    corners.insert(0, before if control is None else 2 * before - control)
                at, control = corners[-1], corners[-2]
                points += list(_bezier([before, *corners]))
    if len(points) > 1:
        yield np.array(points), False


def _flags(text: str) -> list[float]:
    """Arguments of arcs, whose two flags may be written without spaces."""
    found: list[float] = []
    rest = text.lstrip(" ,\n\t\r")
    while rest:
        pattern = r"[01]" if len(found) % 7 in (3, 4) else _NUMBER.pattern
        match = re.match(pattern, rest)
        if match is None:
            break
        found.append(float(match[0]))
        rest = rest[match.end() :].lstrip(" ,\n\t\r")
    return found


def _bezier(corners: list[Floats]) -> Floats:
    t = np.linspace(0.0, 1.0, _SEGMENTS + 1)[1:, None]
    rows = [np.broadcast_to(corner, (len(t), 2)) for corner in corners]
    while len(rows) > 1:  # de Casteljau
        rows = [(1 - t) * a + t * b for a, b in pairwise(rows)]
    return rows[0]


def _arc(start: Floats, end: Floats, v: Floats) -> Floats:
    """Points of an elliptical arc (SVG 2, appendix B.2.4)."""
    rx, ry, turn, large, sweep = abs(v[0]), abs(v[1]), np.radians(v[2]), bool(v[3]), bool(v[4])
    if rx == 0 or ry == 0 or np.allclose(start, end):
        return end[None]
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    p = rotation @ (start - end) / 2
    excess = (p[0] / rx) ** 2 + (p[1] / ry) ** 2
    if excess > 1:
        rx, ry = rx * np.sqrt(excess), ry * np.sqrt(excess)
    under = (rx * ry) ** 2 - (rx * p[1]) ** 2 - (ry * p[0]) ** 2
    factor = np.sqrt(max(0.0, under / ((rx * p[1]) ** 2 + (ry * p[0]) ** 2))) * (1 if large != sweep else -1)
    centre = factor * np.array([rx * p[1] / ry, -ry * p[0] / rx])
    first, last = (np.arctan2((s * p[1] - centre[1]) / ry, (s * p[0] - centre[0]) / rx) for s in (1, -1))
    swept = (last - first) % (2 * np.pi)
    swept = swept if sweep else swept - 2 * np.pi
    angle = first + swept * np.linspace(0, 1, max(3, int(_SEGMENTS * abs(swept) / (np.pi / 2))))[1:]
    local = np.column_stack([centre[0] + rx * np.cos(angle), centre[1] + ry * np.sin(angle)])
    return np.asarray(local @ rotation + (start + end) / 2)
