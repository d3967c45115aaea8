"""The signal of a recording's shots as a function that can be differentiated: by pose, materials and receiver.

Each shot keeps the plane that it met. Range, angle of incidence, BRDF, overlap and received power then follow from one
row of parameters through the same functions that scans use, on double-precision arrays of Dr.Jit, which gives their
derivatives (automatic differentiation). What happens at edges has none, so shots that meet edges are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import namespace
from parhelion.rays.device import Engine, copied
from parhelion.rays.lock import locked
from parhelion.sensors.optics.lidar.config import Overlap
from parhelion.sensors.optics.lidar.link_budget import SystemConstant, received_power
from parhelion.surfaces.material import COLUMNS, Material, columns_of, monostatic_brdf

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

POSE = 6
"""Parameters of a pose: a shift in the world [m], and a turn about its axes [rad]."""
LEAST_ROUGHNESS = 0.02


@dataclass(frozen=True, eq=False)
class ShotPlanes:
    """Shots and the planes that they met, in the world frame."""

    origin: Floats
    """Where the shot leaves, shape (n, 3)."""
    direction: Floats
    """Unit direction, shape (n, 3)."""
    pivot: Floats
    """The sensor's place, about which the pose turns, shape (3,)."""
    place: Floats
    """A point of the plane, shape (n, 3)."""
    normal: Floats
    """Unit normal on the sensor's side, shape (n, 3)."""
    material: Rows
    """Row of the list of materials, shape (n,)."""

    def __len__(self) -> int:
        return len(self.direction)


class SignalModel:
    """Ranges and powers of shots from one row of parameters.

    Parameters in order: pose (6), logarithm of each material's factor on its reflectance, logarithm of each material's
    roughness (Oren and Nayar's slope angle [rad], or that of Cook and Torrance's facets), and the overlap: the
    logarithm of the range of full overlap, or of the share at each point of its curve.
    """

    def __init__(
        self,
        engine: Engine,
        materials: Sequence[Material],
        wavelength_nm: float,
        constant: SystemConstant,
        overlap: Overlap,
    ) -> None:
        from drjit.auto import ad as module

        self.engine, self.real, self.whole = engine, module.Float64, module.UInt32
        self.materials, self.constant = list(materials), constant
        rows = [columns_of(one, one.reflectance_at(wavelength_nm)) for one in self.materials]
        self.columns = {name: np.array([row.get(name, usual) for row in rows]) for name, usual in COLUMNS.items()}
        self.metal = (self.columns["ct_weight"] > 0) & (self.columns["diffuse"] == 0)
        count = len(self.materials)
        self.reflectance = slice(POSE, POSE + count)
        self.roughness = slice(POSE + count, POSE + 2 * count)
        self.knots: Floats | None = None
        lobe = self.columns["ct_weight"] > 0
        rough = np.where(lobe, self.columns["ct_roughness"], np.maximum(self.columns["sigma_rad"], LEAST_ROUGHNESS))
        start = [np.zeros(POSE + count), np.log(rough)]
        if isinstance(overlap, (int, float)) and overlap > 0:
            start.append(np.log([float(overlap)]))
        elif isinstance(overlap, (list, tuple)):
            self.knots, shares = np.asarray(overlap, dtype=np.float64).T
            start.append(np.log(np.maximum(shares, 1e-6)))
        self.start: Floats = np.concatenate(start)
        self.overlap = slice(POSE + 2 * count, len(self.start))

    @property
    def has_roughness(self) -> NDArray[np.bool_]:
        """Which materials have a roughness that the signal depends on."""
        return (self.columns["sigma_rad"] > 0) | ((self.columns["ct_weight"] > 0) & (self.columns["ct_f0"] > 0))

    @property
    def is_modelled(self) -> NDArray[np.bool_]:
        """Materials whose BRDF is a formula of these parameters: no measured curves, glass or mirrors."""
        smooth = (self.columns["mirror"] > 0) | (self.columns["pane_index"] > 1)
        return (self.columns["curve_level"] == 0) & ~smooth

    @locked
    def at(self, shots: ShotPlanes, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        """Range [m], and logarithms of power [P_min] and of reflectivity, of each shot, each of shape (n,).

        Reflectivity is what makers report that have divided range and overlap out.
        """
        ranges, powers, shares = self._traced(shots, self.real(parameters))
        return copied(ranges), copied(powers), copied(shares)

    @locked
    def derivatives(self, shots: ShotPlanes, parameters: Floats, which: Rows) -> Floats:
        """Derivatives of the three by some parameters, shape (3, n, len(which))."""
        dr = self.engine.dr
        found = np.zeros((3, len(shots), len(which)))
        row = self.real(parameters)
        dr.enable_grad(row)
        values = self._traced(shots, row)
        # The graph is used once for every parameter.
        keep = dr.ADFlag.ClearInput | dr.ADFlag.ClearInterior
        for column, number in enumerate(which):
            dr.clear_grad(list(values))
            dr.set_grad(row, self.real(np.eye(len(parameters))[number]))
            dr.enqueue(dr.ADMode.Forward, row)
            dr.traverse(dr.ADMode.Forward, flags=keep)
            slopes = [dr.grad(one) for one in values]
            dr.eval(slopes)
            for one, slope in zip(found, slopes, strict=True):
                one[:, column] = copied(slope)
        return found

    def _traced(self, shots: ShotPlanes, row: Any) -> tuple[Any, Any, Any]:
        """The same for arrays of Dr.Jit, with their derivatives where `row` has any."""
        dr, real = self.engine.dr, self.real

        def pick(first: int, where: Any = 0) -> Any:
            return dr.gather(real, row, self.whole(where) + first)

        def vector(values: Floats) -> tuple[Any, ...]:
            return tuple(real(np.ascontiguousarray(column)) for column in values.T)

        turn = [pick(3 + k) for k in range(3)]
        # Second order in the turn: exact where derivatives are taken, which is at no turn.
        direction = _turned(vector(shots.direction), turn)
        arm = _turned(vector(shots.origin - shots.pivot), turn)
        origin = [a + pivot + pick(k) for k, (a, pivot) in enumerate(zip(arm, shots.pivot.tolist(), strict=True))]
        normal, place = vector(shots.normal), vector(shots.place)
        towards = _dot(normal, direction)
        range_m = _dot(normal, [q - o for q, o in zip(place, origin, strict=True)]) / towards
        cosine = -towards / dr.sqrt(_dot(direction, direction))
        reflected = monostatic_brdf(cosine, self._columns(shots, pick)) * cosine
        power = received_power(
            weight=1.0,
            reflected=reflected,
            range_m=range_m,
            optical_depth=self.constant.gamma_per_m * range_m,
            threshold=self.constant.threshold,
            overlap=self._overlap(range_m, pick),
        )
        # Numbers of their own: what others depend on loses its slope on the way to them.
        one = dr.opaque(real, 1.0)
        values = range_m * one, dr.log(power), dr.log(np.pi * reflected) * one
        dr.eval(values)
        return values

    def _columns(self, shots: ShotPlanes, pick: Any) -> dict[str, Any]:
        """The columns of each shot's material, with the parameters in place of the material's own."""
        dr, real = self.engine.dr, self.real
        columns = {name: real(values[shots.material]) for name, values in self.columns.items()}
        number = np.asarray(shots.material, np.uint32)
        factor = dr.exp(pick(self.reflectance.start, number))
        rough = dr.exp(pick(self.roughness.start, number))
        columns["diffuse"] = columns["diffuse"] * factor
        columns["phong_specular"] = columns["phong_specular"] * factor
        metal = real(np.where(self.metal, 1.0, 0.0)[shots.material])
        columns["ct_f0"] = columns["ct_f0"] * (1.0 + metal * (factor - 1.0))
        columns["sigma_rad"] = dr.select(columns["sigma_rad"] > 0.0, rough, 0.0)
        columns["ct_roughness"] = dr.select(columns["ct_weight"] > 0.0, rough, columns["ct_roughness"])
        return columns

    def _overlap(self, range_m: Any, pick: Any) -> Any:
        """The share that the receiver collects, of the fitted curve; as `overlap_share`."""
        dr, first = self.engine.dr, self.overlap.start
        if self.overlap.start == self.overlap.stop:
            return 1.0
        if self.knots is None:
            ratio = range_m / dr.exp(pick(first))
            return namespace(range_m).minimum(ratio * ratio, 1.0)
        shares = [dr.exp(pick(first + k)) for k in range(len(self.knots))]
        near = range_m / float(self.knots[0])
        share = shares[0] * near * near
        for k in range(len(self.knots) - 1):
            low, high = float(self.knots[k]), float(self.knots[k + 1])
            straight = shares[k] + (shares[k + 1] - shares[k]) * (range_m - low) / (high - low)
            share = dr.select(range_m >= low, straight, share)
        return dr.select(range_m >= float(self.knots[-1]), shares[-1], share)


def _dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _turned(v: Sequence[Any], turn: Sequence[Any]) -> list[Any]:
    once = _cross(turn, v)
    twice = _cross(turn, once)
    return [a + b + 0.5 * c for a, b, c in zip(v, once, twice, strict=True)]
