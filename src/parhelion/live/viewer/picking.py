"""Which point a click means, and what that point says."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.records import FIELDS, PointCloud

PICK_WITHIN_DEG = 2.0
"""A click farther than this from every point, as seen from the camera, picks none."""
_SAME_SPOT_DEG = 0.05


def nearest_to_ray(
    xyz: NDArray[Any], origin: ArrayLike, direction: ArrayLike, within_deg: float = PICK_WITHIN_DEG
) -> int | None:
    """Row of the point that is seen nearest to a ray, or None.

    Nearest by the angle at the ray's origin, as on the screen; of points at the same spot (0.05 degrees), the one in
    front.
    """
    along = np.asarray(direction, dtype=np.float64)
    length = float(np.linalg.norm(along))
    if len(xyz) == 0 or not length > 0:
        return None
    offset = np.asarray(xyz, dtype=np.float64) - np.asarray(origin, dtype=np.float64)
    depth = offset @ (along / length)
    aside = np.linalg.norm(offset - depth[:, None] * (along / length), axis=1)
    with np.errstate(invalid="ignore"):
        angle = np.where(depth > 1e-6, np.degrees(np.arctan2(aside, depth)), np.inf)
    best = float(np.nanmin(angle, initial=np.inf))
    if not best <= within_deg:
        return None
    rows = np.flatnonzero(angle <= best + _SAME_SPOT_DEG)
    return int(rows[np.argmin(depth[rows])])


def point_facts(cloud: PointCloud, row: int) -> list[tuple[str, str, str]]:
    """Name, value and unit of everything that a cloud knows of one point."""
    x, y, z = (float(v) for v in cloud.xyz[row])
    facts = [("point", str(row), ""), ("x, y, z", f"{x:.3f}, {y:.3f}, {z:.3f}", "m")]
    for name, values in cloud.fields.items():
        unit = FIELDS[name].unit if name in FIELDS else ""
        words = cloud.names.get(name, {})
        value = values[row]
        if np.ndim(value):
            text = ", ".join(_number(v) for v in value)
        elif words:
            text = f"{words[int(value)]} ({int(value)})" if int(value) in words else str(int(value))
        else:
            text = _number(value)
        facts.append((name, text, "" if unit == "1" else unit))
    return facts


def _number(value: Any) -> str:
    return str(int(value)) if np.issubdtype(np.asarray(value).dtype, np.integer) else f"{float(value):.6g}"
