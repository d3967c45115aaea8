"""Worlds rebuilt from recordings, for `World.load`: a folder with surfels, the path of the sensor and the coverage.

`parhelion rebuild` writes the folder. Surfels are disks on surfaces; here each becomes a hexagon of four triangles.
Their reflectance is one texel each. Of thin structures, which only part of the light meets, the hexagons have the share
of the area that the recording shows.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from parhelion.core import config
from parhelion.core.checks import check_budget
from parhelion.core.config import Config
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Floats, Pose
from parhelion.core.reading import UnpackingBudget, array_of, file_reader
from parhelion.core.trajectory import Waypoints
from parhelion.surfaces.material import Material, SpectrumTable
from parhelion.surfaces.texture import LARGEST_SIDE
from parhelion.world.coverage import Coverage
from parhelion.world.mesh import Mesh
from parhelion.world.world import World

PLACE_FILE = "world.yaml"
SURFEL_FILE = "surfels.npz"
COVERAGE_FILE = "coverage.npz"
CORNERS = 6
TRIANGLES = CORNERS - 2
"""Triangles of one surfel."""
LABELS = ("object", "ground")
"""Labels of surfels by number."""
NORMAL_STEPS = 32767
"""Steps of a stored normal component."""
LEAST_RADIUS_M = 1e-3
_COLUMNS = {"centre": 3, "normal": 3, "radius": 0, "reflectance": 0, "cover": 0, "label": 0}


class PlaceFile(Config):
    """File `world.yaml` of a rebuilt world."""

    kind: Literal["rebuilt"]
    """Distinguishes the file from a world file."""
    name: str = ""
    source: str = ""
    """Recording from which the world was rebuilt."""
    sensor: str = ""
    """Sensor of the recording."""
    wavelength_nm: Annotated[float, Field(gt=0)] = 905.0
    """Wavelength at which the reflectances hold."""
    voxel_m: Annotated[float, Field(gt=0)] = 0.05
    """Resolution of the surfels."""
    times: list[float] = Field(default_factory=list)
    """Times of the path [s]."""
    path: list[tuple[float, float, float, float, float, float, float]] = Field(default_factory=list)
    """Poses of the sensor: x, y, z [m] and quaternion x, y, z, w."""


@file_reader(ConfigError)
def load_rebuilt(path: str | PathLike[str], seed: int = 0) -> World:
    """Load a rebuilt world.

    Args:
        path: The folder, or its file `world.yaml`.
        seed: Not used.
    """
    file = Path(path)
    file = file / PLACE_FILE if file.is_dir() else file
    sheet = config.load(PlaceFile, file)
    world = World(sheet.name or file.parent.name)
    surfels = _read(file.parent / SURFEL_FILE, _COLUMNS)
    count = len(surfels["radius"])
    check_budget("triangles", TRIANGLES * count, str(file))
    centre = surfels["centre"].astype(np.float64)
    normal = surfels["normal"].astype(np.float64) / NORMAL_STEPS
    length = np.linalg.norm(normal, axis=1)
    finite = all(np.isfinite(surfels[name]).all() for name in ("centre", "radius", "reflectance"))
    if not (finite and np.all(length > 0.5) and np.all(surfels["radius"] > 0.0)):
        raise FormatError(f"{file.parent / SURFEL_FILE}: surfels must be finite, with unit normals and positive radii")
    normal /= length[:, None]
    cover = surfels["cover"] / 255.0
    reflectance = np.clip(surfels["reflectance"].astype(np.float32), 0.0, 1.0)
    centre, radius = _thinned(centre, normal, surfels["radius"].astype(np.float64), cover)
    with world.edits():
        for number, label in enumerate(LABELS):
            rows = np.flatnonzero(surfels["label"] == number)
            if len(rows):
                texture, uv = _one_texel_each(reflectance[rows])
                mesh = Mesh(*hexagons(centre[rows], normal[rows], radius[rows]), uv)
                world.add(mesh, material=_material(), label=label, name=f"rebuilt {label}", texture=texture)
    if sheet.path:
        if len(sheet.times) != len(sheet.path):
            raise ConfigError(
                f"{file}: times: expected {len(sheet.path)}, one per pose of path, got {len(sheet.times)}"
            )
        poses = [Pose(tuple(row[:3]), tuple(row[3:])) for row in sheet.path]
        world.path = Waypoints(sheet.times, poses) if len(poses) > 1 else None
        world.viewpoint = poses[len(poses) // 2]
    covered = file.parent / COVERAGE_FILE
    if covered.exists():
        table = _read(covered, {"cells": 0, "cell_m": None})
        cell_m = float(table["cell_m"])
        if not 0.0 < cell_m < np.inf:
            raise FormatError(f"{covered}: cell_m must be above 0 m, got {cell_m:g}")
        world.coverage = Coverage(cell_m, table["cells"].astype(np.int64))
    return world


def _thinned(centre: Floats, normal: Floats, radius: NDArray[Any], cover: Floats) -> tuple[Floats, Floats]:
    """Centres and radii of surfels of which only a share of the area exists: a smaller disk somewhere in the larger.

    Rays that meet the disk at random places are stopped with a probability of `cover`, for every sensor alike.
    """
    scale = np.sqrt(np.clip(cover, 0.0, 1.0))
    random = np.random.default_rng(1)
    angle = 2.0 * np.pi * random.random(len(radius))
    away = (1.0 - scale) * radius * np.sqrt(random.random(len(radius)))
    across, up = tangents(normal)
    moved = centre + away[:, None] * (np.cos(angle)[:, None] * across + np.sin(angle)[:, None] * up)
    return moved, np.maximum(scale * radius, LEAST_RADIUS_M)


def _material() -> Material:
    """White diffuser, which the texture darkens to the reflectance of each surfel."""
    return Material(
        name="rebuilt",
        description="Surface of a recording; the texture is the reflectance at the wavelength of its sensor.",
        sources=["measured in the recording; assumed to be Lambertian, and the same at all wavelengths"],
        spectrum=SpectrumTable(wavelength_um=[0.25, 15.0], reflectance=[1.0, 1.0]),
    )


def _one_texel_each(values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Texture with one texel per surfel, and the texture coordinates of its triangles, shape (4 n, 3, 2)."""
    width = min(LARGEST_SIDE, max(1, int(np.ceil(np.sqrt(len(values))))))
    height = -(-len(values) // width)
    texture = np.zeros(height * width, np.float32)
    texture[: len(values)] = values
    number = np.arange(len(values))
    u = (number % width + 0.5) / width
    v = 1.0 - (number // width + 0.5) / height
    uv = np.broadcast_to(np.stack([u, v], axis=1)[:, None, None].astype(np.float32), (len(values), TRIANGLES, 3, 2))
    return texture.reshape(height, width), np.ascontiguousarray(uv.reshape(-1, 3, 2))


def hexagons(centre: Floats, normal: NDArray[Any], radius: NDArray[Any]) -> tuple[Floats, NDArray[np.int32]]:
    """Vertices (6 n, 3) [m] and faces (4 n, 3) of regular hexagons, each with the area of a disk."""
    across, up = tangents(normal.astype(np.float64))
    # The area of a hexagon is 2.598 times its squared circumradius.
    reach = radius.astype(np.float64) * np.sqrt(np.pi / (1.5 * np.sqrt(3.0)))
    angle = 2.0 * np.pi * np.arange(CORNERS) / CORNERS
    edge = np.cos(angle)[None, :, None] * across[:, None] + np.sin(angle)[None, :, None] * up[:, None]
    vertices = (centre[:, None] + reach[:, None, None] * edge).reshape(-1, 3)
    fan = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5]], np.int32)
    faces = (CORNERS * np.arange(len(centre), dtype=np.int32)[:, None, None] + fan).reshape(-1, 3)
    return vertices, faces


def tangents(normal: Floats) -> tuple[Floats, Floats]:
    """Two unit vectors across each unit normal, right-handed, without a branch (Duff et al. 2017), shapes (n, 3)."""
    x, y, z = normal.T
    sign = np.where(z >= 0.0, 1.0, -1.0)
    a = -1.0 / (sign + z)
    b = x * y * a
    first = np.stack([1.0 + sign * x * x * a, sign * b, -sign * x], axis=1)
    return first, np.stack([b, sign + y * y * a, -y], axis=1)


def _read(file: Path, columns: Mapping[str, int | None]) -> dict[str, NDArray[Any]]:
    """Arrays of an .npz file: `columns` maps each name to the width of its rows, 0 for numbers, None for one number."""
    if not file.exists():
        raise FormatError(f"{file}: no such file; the folder of a rebuilt world contains it")
    budget = UnpackingBudget(file, file.stat().st_size)
    found: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(file) as archive:
        names = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        for name, width in columns.items():
            if name not in names:
                raise FormatError(f"{file}: has no array {name!r}; it has {', '.join(names) or 'none'}")
            budget.spend(names[name].file_size)
            try:
                found[name] = array_of(archive.read(names[name]))
            except ValueError as error:
                raise FormatError(f"{file}: the array {name!r} is damaged: {error}") from None
            shape = found[name].shape
            expected = () if width is None else (shape[0] if shape else -1, *((width,) if width else ()))
            if shape != expected or found[name].dtype.kind not in "fiu":
                raise FormatError(f"{file}: the array {name!r} has the shape {shape} of {found[name].dtype}")
    rows = {len(value) for name, value in found.items() if columns[name] is not None}
    if len(rows) > 1:
        raise FormatError(f"{file}: its arrays have different numbers of rows: {', '.join(map(str, sorted(rows)))}")
    return found
