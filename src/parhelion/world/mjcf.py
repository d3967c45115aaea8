"""Bodies of MuJoCo models: the visible geoms as meshes, and their poses and velocities in a simulation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError
from parhelion.core.pose import Floats, Pose, quat_conjugate, quat_rotate
from parhelion.core.reading import read_bytes
from parhelion.world import shapes
from parhelion.world.mesh import Mesh

ENDLESS_M = 200.0
"""Side length [m] of planes that MuJoCo treats as infinite."""
VISIBLE_GROUPS = (0, 1, 2)
"""Groups of geoms that MuJoCo's viewer shows by default; collision shapes are in group 3 by convention."""
_MOST_BYTES = 32 * 1024 * 1024


def mujoco_module() -> Any:
    """Return the module `mujoco`."""
    try:
        import mujoco
    except ImportError:
        raise MissingDependencyError(
            "robots with joints and MJCF files need MuJoCo and Python 3.11 or later; run pip install "
            "'parhelion[physics]'"
        ) from None
    return mujoco


@dataclass(frozen=True, eq=False)
class Geom:
    """A visible geom."""

    name: str
    material: str
    """Name of its material in the model; may be empty."""
    mesh: Mesh
    """Mesh in the frame of its body."""


@dataclass(frozen=True, eq=False)
class MjcfBody:
    """A body of a model with visible geoms."""

    name: str
    number: int
    """Number in the model."""
    moves: bool
    """False for bodies that are fixed to the world."""
    start: Pose
    """Pose in the initial state of the model."""
    geoms: tuple[Geom, ...]


class MujocoScene:
    """Bodies of a MuJoCo model, and their states in a simulation.

    Args:
        model: A `mujoco.MjModel`, or the path of an MJCF or URDF file that MuJoCo compiles.
        groups: Groups of geoms that sensors see.
    """

    def __init__(self, model: Any, groups: Collection[int] = VISIBLE_GROUPS) -> None:
        self._mj = mujoco_module()
        self.model = self._compiled(model) if isinstance(model, (str, PathLike)) else model
        if not isinstance(self.model, self._mj.MjModel):
            raise ConfigError(f"model: expected a mujoco.MjModel or a file, got {type(model).__name__}")
        self.bodies = self._bodies(groups)
        """Bodies with visible geoms."""
        self._moving = np.array([one.number for one in self.bodies if one.moves], dtype=np.intp)
        self._names = [one.name for one in self.bodies if one.moves]

    def _compiled(self, path: str | PathLike[str]) -> Any:
        file = Path(path)
        read_bytes(file, ConfigError, largest=_MOST_BYTES, what="a MuJoCo model")
        try:
            return self._mj.MjModel.from_xml_path(str(file))
        except (ValueError, self._mj.FatalError) as error:
            raise FormatError(f"{file}: {' '.join(str(error).split())}") from None

    def _bodies(self, groups: Collection[int]) -> tuple[MjcfBody, ...]:
        model, data = self.model, self._mj.MjData(self.model)
        self._mj.mj_kinematics(model, data)
        found = []
        for body in range(model.nbody):
            geoms = tuple(
                self._geom(int(k))
                for k in np.flatnonzero(model.geom_bodyid == body)
                if int(model.geom_group[k]) in groups and (model.geom_rgba[k][3] > 0.0 or model.geom_matid[k] >= 0)
            )
            if geoms:
                moves = bool(model.body_weldid[body] != 0 or model.body_mocapid[body] >= 0)
                start = Pose(data.xpos[body], _xyzw(data.xquat[body]))
                found.append(MjcfBody(model.body(body).name or f"body-{body}", body, moves, start, geoms))
        return tuple(found)

    def _geom(self, k: int) -> Geom:
        model = self.model
        mesh = self._shape(k).transformed(Pose(model.geom_pos[k], _xyzw(model.geom_quat[k])))
        material = int(model.geom_matid[k])
        return Geom(model.geom(k).name or f"geom-{k}", "" if material < 0 else self.model.mat(material).name, mesh)

    def _shape(self, k: int) -> Mesh:
        """Mesh of a geom in its own frame."""
        mj, model = self._mj, self.model
        kind, (a, b, c) = mj.mjtGeom(model.geom_type[k]), (float(value) for value in model.geom_size[k])
        if kind == mj.mjtGeom.mjGEOM_PLANE:
            return shapes.plane(2.0 * a or ENDLESS_M, 2.0 * b or ENDLESS_M)
        if kind == mj.mjtGeom.mjGEOM_BOX:
            return shapes.box(2.0 * a, 2.0 * b, 2.0 * c)
        if kind == mj.mjtGeom.mjGEOM_SPHERE:
            return shapes.sphere(a)
        if kind == mj.mjtGeom.mjGEOM_ELLIPSOID:
            return shapes.sphere(1.0).scaled((a, b, c))
        if kind == mj.mjtGeom.mjGEOM_CYLINDER:
            return shapes.cylinder(a, 2.0 * b)
        if kind == mj.mjtGeom.mjGEOM_CAPSULE:
            return shapes.capsule(a, 2.0 * b)
        if kind == mj.mjtGeom.mjGEOM_HFIELD:
            number = int(model.geom_dataid[k])
            rows, columns, at = (int(one[number]) for one in (model.hfield_nrow, model.hfield_ncol, model.hfield_adr))
            rx, ry, top, _ = (float(value) for value in model.hfield_size[number])
            heights = top * model.hfield_data[at : at + rows * columns].reshape(rows, columns)
            return shapes.grid_terrain(heights, (2.0 * rx / (columns - 1), 2.0 * ry / (rows - 1)))
        number = int(model.geom_dataid[k])
        if kind not in (mj.mjtGeom.mjGEOM_MESH, mj.mjtGeom.mjGEOM_SDF) or number < 0:
            raise ConfigError(f"geom {model.geom(k).name or k}: shape {kind.name} is not supported; use a mesh")
        v, n = int(model.mesh_vertadr[number]), int(model.mesh_vertnum[number])
        f, m = int(model.mesh_faceadr[number]), int(model.mesh_facenum[number])
        return Mesh(model.mesh_vert[v : v + n].astype(np.float64), model.mesh_face[f : f + m].astype(np.int32))

    def poses(self, data: Any) -> dict[str, Floats]:
        """Rows (13,) of the moving bodies at `data.time`, for `Bridge.push`; see `parhelion.motion.pushed`.

        `mj_step` leaves the poses of the start of the step in `data`, so they are computed for its end here. The
        simulation is not affected: `mj_step` computes them again.
        """
        model = self.model
        for compute in (self._mj.mj_kinematics, self._mj.mj_comPos, self._mj.mj_comVel):
            compute(model, data)
        rows, xyz, quat = self._moving, data.xpos[self._moving], _xyzw(data.xquat[self._moving])
        # MuJoCo's spatial velocity is that of the point of the body at the centre of mass of its tree.
        turning, moving = data.cvel[rows, :3], data.cvel[rows, 3:]
        moving = moving + np.cross(turning, xyz - data.subtree_com[model.body_rootid[rows]])
        table = np.concatenate([xyz, quat, moving, quat_rotate(quat_conjugate(quat), turning)], axis=1)
        return dict(zip(self._names, table, strict=True))


class NamedGeom(Protocol):
    """Visible geometry with the name of its material in the file, which may be empty."""

    @property
    def name(self) -> str: ...

    @property
    def material(self) -> str: ...


def material_of(geom: NamedGeom, body: str, materials: Mapping[str, str], default: str) -> str:
    """Material of a geom: by its name, by that of its material in the model, by its body, or the default."""
    return next((materials[key] for key in (geom.name, geom.material, body) if key in materials), default)


def _xyzw(quat_wxyz: Any) -> Floats:
    return np.asarray(quat_wxyz, np.float64)[..., [1, 2, 3, 0]]
