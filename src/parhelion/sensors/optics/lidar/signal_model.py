"""Differentiable model of the signal of a recording's shots, by pose, materials and receiver.

Each shot stores the plane that it met. Range, angle of incidence, BRDF, overlap and received power then follow from one
row of parameters through the functions that scans use, on double-precision Dr.Jit arrays, which provide the derivatives
by automatic differentiation. Edges are not differentiable, so shots that meet edges are excluded.
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
"""Number of pose parameters: a shift in the world [m] and a rotation about its axes [rad]."""
LEAST_ROUGHNESS = 0.02


@dataclass(frozen=True, eq=False)
class ShotPlanes:
    """Shots and the planes that they met, in the world frame."""

    origin: Floats
    """Beam exit of each shot, shape (n, 3)."""
    direction: Floats
    """Unit direction, shape (n, 3)."""
    pivot: Floats
    """Position of the sensor, the centre of rotation, shape (3,)."""
    place: Floats
    """Point on the plane, shape (n, 3)."""
    normal: Floats
    """Unit normal that faces the sensor, shape (n, 3)."""
    material: Rows
    """Row of the list of materials, shape (n,)."""

    def __len__(self) -> int:
        return len(self.direction)


class SignalModel:
    """Ranges and powers of shots from one row of parameters.

    Parameters in order: pose (6), logarithm of a factor on each material's reflectance, logarithm of each material's
    roughness (Oren-Nayar's slope angle [rad], or Cook-Torrance's facet roughness), and the overlap: the logarithm of
    the range of full overlap, or of the share at each point of its curve.
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
        self.columns = {name: np.array([row.get(name, default) for row in rows]) for name, default in COLUMNS.items()}
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
        """Mask of materials whose signal depends on a roughness."""
        return (self.columns["sigma_rad"] > 0) | ((self.columns["ct_weight"] > 0) & (self.columns["ct_f0"] > 0))

    @property
    def is_modelled(self) -> NDArray[np.bool_]:
        """Mask of materials whose BRDF is a formula of these parameters: no measured curves, glass or mirrors."""
        smooth = (self.columns["mirror"] > 0) | (self.columns["pane_index"] > 1)
        return (self.columns["curve_level"] == 0) & ~smooth

    @locked
    def at(self, shots: ShotPlanes, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        """Range [m], logarithm of power [P_min] and logarithm of reflectivity of each shot, each of shape (n,).

        Reflectivity is the signal after division by the effects of range and overlap, as some makers report it.
        """
        ranges, powers, shares = self._traced(shots, self.real(parameters))
        return copied(ranges), copied(powers), copied(shares)

    @locked
    def derivatives(self, shots: ShotPlanes, parameters: Floats, which: Rows) -> Floats:
        """Derivatives of the values of `at` with respect to parameters `which`, shape (3, n, len(which))."""
        dr = self.engine.dr
        found = np.zeros((3, len(shots), len(which)))
        row = self.real(parameters)
        dr.enable_grad(row)
        values = self._traced(shots, row)
        # The graph is traversed once per parameter.
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
        """Values of `at` as Dr.Jit arrays, with derivatives if `row` has gradients enabled."""
        dr, real = self.engine.dr, self.real

        def pick(first: int, where: Any = 0) -> Any:
            return dr.gather(real, row, self.whole(where) + first)

        def vector(values: Floats) -> tuple[Any, ...]:
            return tuple(real(np.ascontiguousarray(column)) for column in values.T)

        rotation = [pick(3 + k) for k in range(3)]
        # Second order in the rotation: exact at zero rotation, where derivatives are evaluated.
        direction = _rotated(vector(shots.direction), rotation)
        arm = _rotated(vector(shots.origin - shots.pivot), rotation)
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
        # Separate variables: a traversed variable that others depend on would lose its own gradient.
        one = dr.opaque(real, 1.0)
        values = range_m * one, dr.log(power), dr.log(np.pi * reflected) * one
        dr.eval(values)
        return values

    def _columns(self, shots: ShotPlanes, pick: Any) -> dict[str, Any]:
        """Columns of each shot's material, with the fitted parameters in place of the material's own."""
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
        """Share that the receiver collects, from the fitted curve (see `overlap_share`)."""
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


def _rotated(v: Sequence[Any], rotation: Sequence[Any]) -> list[Any]:
    once = _cross(rotation, v)
    twice = _cross(rotation, once)
    return [a + b + 0.5 * c for a, b, c in zip(v, once, twice, strict=True)]
