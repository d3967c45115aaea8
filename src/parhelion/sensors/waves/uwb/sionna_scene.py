"""The world as Sionna RT reads it: one file of triangles for each radio material, and a scene file that names them.

Surfaces mirror as half-spaces of our own permittivities, so that materials and bands without a value at Sionna RT have
one, and a carrier out of all bands is refused by the material's name. Leaves and waves of water are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats, quat_rotate
from parhelion.rays.geometry import Triangles
from parhelion.sensors.waves.uwb.scene import RadioScene
from parhelion.surfaces.radio import VACUUM_PERMITTIVITY_F_M

HALF_SPACE_M = 1000.0
"""Thickness of Sionna RT's slabs [m]: nothing comes back from behind."""
WELD_M = 1e-5
"""Corners nearer to each other are one corner [m]: Sionna RT finds edges between triangles that share corners."""


class SceneFiles:
    """Writes the scene of one radio world into a folder, at any time."""

    def __init__(self, radio: RadioScene, carrier_hz: float, folder: Path) -> None:
        self.radio, self.carrier_hz, self.folder = radio, carrier_hz, folder
        self.origin: Floats = radio.scene.origin
        self._eta, self._row = np.unique(radio.permittivity, return_inverse=True)
        geometry = radio.scene.geometry
        self._standing = self._write("standing", geometry.static)

    def at(self, time: float) -> Path:
        """The scene file for a time [s]."""
        shapes = dict(self._standing)
        for number, actor in enumerate(self.radio.scene.geometry.actors):
            xyz, quat = actor.trajectory.sample(np.array([time]))
            body = actor.triangles
            placed = Triangles(quat_rotate(quat[0], body.vertices) + xyz[0], body.faces, body.part)
            shapes.update(self._write(f"actor-{number}", placed))
        file = self.folder / "scene.xml"
        file.write_text(_scene_text([self._material(k) for k in range(len(self._eta))], shapes), encoding="utf-8")
        return file

    def _write(self, name: str, triangles: Triangles) -> dict[Path, str]:
        """Files of triangles, each with the name of its material."""
        part = triangles.part.astype(np.int64)
        solid = ~self.radio.foliage[part] if len(part) else np.zeros(0, bool)
        of_face = self._row[part] if len(part) else part
        files = {}
        for row in np.unique(of_face[solid]):
            faces = triangles.faces[solid & (of_face == row)]
            file = self.folder / f"{name}-{row}.ply"
            if write_welded(file, triangles.vertices - self.origin, faces):
                files[file] = f"radio-{row}"
        return files

    def _material(self, row: int) -> str:
        eta = self._eta[row]
        conductivity = -eta.imag * 2.0 * np.pi * self.carrier_hz * VACUUM_PERMITTIVITY_F_M
        values = {
            "relative_permittivity": max(float(eta.real), 1.0),
            "conductivity": max(float(conductivity), 0.0),
            "thickness": HALF_SPACE_M,
        }
        inside = "".join(f'<float name="{name}" value="{value!r}"/>' for name, value in values.items())
        return f'<bsdf type="radio-material" id="radio-{row}">{inside}</bsdf>'


def _scene_text(materials: list[str], shapes: dict[Path, str]) -> str:
    parts = [
        f'<shape type="ply" id="{file.stem}"><string name="filename" value={quoteattr(str(file))}/>'
        f'<boolean name="face_normals" value="true"/><ref id="{material}" name="bsdf"/></shape>'
        for file, material in shapes.items()
    ]
    used = [text for row, text in enumerate(materials) if f"radio-{row}" in shapes.values()]
    return f'<scene version="2.1.0">{"".join(used)}{"".join(parts)}</scene>'


def write_welded(file: Path, vertices: Floats, faces: NDArray[Any]) -> int:
    """Write triangles as binary PLY, corners at one place joined; how many there were."""
    used, index = np.unique(faces, return_inverse=True)
    place, joined = np.unique(np.round(vertices[used] / WELD_M).astype(np.int64), axis=0, return_inverse=True)
    corner = joined.reshape(-1)[index.reshape(-1, 3)]
    a, b, c = corner.T
    corner = corner[(a != b) & (b != c) & (a != c)]
    rows = np.zeros(len(corner), dtype=[("count", "u1"), ("corner", "<i4", (3,))])
    rows["count"], rows["corner"] = 3, corner
    head = (
        f"ply\nformat binary_little_endian 1.0\nelement vertex {len(place)}\n"
        "property float x\nproperty float y\nproperty float z\n"
        f"element face {len(rows)}\nproperty list uchar int vertex_indices\nend_header\n"
    )
    file.write_bytes(head.encode("ascii") + (place * WELD_M).astype("<f4").tobytes() + rows.tobytes())
    return len(rows)
