"""Fiducial markers: squares of dark and bright cells from which a camera finds its pose.

The patterns are those of OpenCV's predefined dictionaries (S. Garrido-Jurado et al., "Automatic generation and
detection of highly reliable fiducial markers under occlusion", Pattern Recognition 47, 2014; E. Olson, "AprilTag",
ICRA 2011). OpenCV is needed to make a marker, and not to load a saved mesh of one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, MissingDependencyError, unknown_name
from parhelion.core.pose import Pose
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import box, split_quads

Family = Literal["aruco", "apriltag"]
DICTIONARIES: dict[str, tuple[str, ...]] = {
    "aruco": (*(f"{side}x{side}_{count}" for side in (4, 5, 6, 7) for count in (50, 100, 250, 1000)), "original"),
    "apriltag": ("16h5", "25h9", "36h10", "36h11"),
}
"""Dictionaries of each family; the first number is the side in cells, or their number for AprilTags."""
DEFAULTS: dict[str, str] = {"aruco": "4x4_50", "apriltag": "36h11"}
"""Default dictionary of each family."""
PAPER, INK = "paper", "plastic-black"
"""Materials of bright and of dark cells."""
THICKNESS_M = 0.002


@lru_cache(maxsize=256)
def marker_cells(family: str, dictionary: str | None = None, number: int = 0) -> NDArray[np.bool_]:
    """Dark cells of a marker with its dark border, shape (n, n), row 0 at the top."""
    if family not in get_args(Family):
        raise unknown_name("marker family", family, get_args(Family))
    chosen = DEFAULTS[family] if dictionary is None else dictionary
    if chosen not in DICTIONARIES[family]:
        raise unknown_name(f"dictionary of {family} markers", chosen, DICTIONARIES[family])
    try:
        from cv2 import aruco
    except ImportError:
        raise MissingDependencyError(
            "markers need OpenCV for their patterns; run 'pip install parhelion[markers]'"
        ) from None
    name = {"aruco": f"DICT_{chosen.upper()}", "apriltag": f"DICT_APRILTAG_{chosen}"}[family]
    table = aruco.getPredefinedDictionary(getattr(aruco, name if chosen != "original" else "DICT_ARUCO_ORIGINAL"))
    count = len(table.bytesList)
    if isinstance(number, bool) or not 0 <= number < count:
        raise ConfigError(f"marker: number must be from 0 to {count - 1} in {family} {chosen}, got {number!r}")
    side = table.markerSize + 2
    cells = np.asarray(aruco.generateImageMarker(table, int(number), side, borderBits=1)) < 128
    cells.setflags(write=False)
    return cells


def marker_meshes(
    cells: NDArray[np.bool_], size_m: float, margin_cells: int = 1, thickness_m: float = THICKNESS_M
) -> dict[str, Mesh]:
    """Meshes of a marker on a plate by material; its face is the plane x = 0 and points along +x, up is z.

    `size_m` is the side of the dark square [m]; a bright margin of `margin_cells` surrounds it.
    """
    n = len(cells)
    side = size_m / n
    whole = np.pad(cells, margin_cells)
    # Seen from the front, columns run along +y.
    edges = (np.arange(len(whole) + 1) - 0.5 * len(whole)) * side
    rows, columns = np.divmod(np.arange(whole.size), len(whole))
    y0, y1 = edges[columns], edges[columns + 1]
    z0, z1 = edges[::-1][rows + 1], edges[::-1][rows]
    x = np.zeros(whole.size)
    corners = np.stack([np.stack([x, y, z], axis=1) for y, z in ((y0, z0), (y1, z0), (y1, z1), (y0, z1))], axis=1)
    dark = whole.ravel()
    width = len(whole) * side
    # The plate ends just behind the cells, so that rays never meet two faces in one plane.
    plate = box(0.9 * thickness_m, width, width).transformed(Pose((-0.55 * thickness_m, 0.0, 0.0)))
    return {PAPER: Mesh.merged([_cells(corners[~dark]), plate]), INK: _cells(corners[dark])}


def _cells(corners: NDArray[np.float64]) -> Mesh:
    return Mesh(corners.reshape(-1, 3), split_quads(np.arange(4 * len(corners)).reshape(-1, 4)))
