"""Positions from ranges or range differences: weighted least squares with dilution of precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats

STEPS = 40
_SINGULAR = 1e-9
_CONVERGED_M = 1e-9


@dataclass(frozen=True, eq=False)
class Fixes:
    """Positions, one per row; NaN if the measurements do not determine one."""

    position: Floats
    """Position in the anchors' frame [m], shape (n, 3)."""
    covariance: Floats
    """Covariance [m^2] propagated from the standard deviations of the ranges, shape (n, 3, 3)."""
    gdop: Floats
    """Geometric dilution of precision: sqrt(trace((H^T H)^-1)), shape (n,)."""


def locate(
    anchors: ArrayLike,
    ranges: ArrayLike,
    sigma: ArrayLike = 0.1,
    *,
    differences: bool = False,
    height_m: float | None = None,
    start: ArrayLike | None = None,
) -> Fixes:
    """Positions of a tag from ranges (n, a) [m] to anchors (a, 3) [m]. NaN ranges are ignored.

    With `differences`, each range is the distance to its anchor minus the distance to the first anchor; the first
    column is ignored. With `height_m`, the z coordinate [m] of the tag is known and three anchors suffice. Otherwise
    four anchors are needed that do not lie in one plane. Coplanar anchors leave two solutions; the lower one is
    returned, because tags are usually below their anchors, unless `start` (3,) [m] selects the other. The solver uses
    Gauss-Newton steps with Levenberg damping.
    """
    place = np.asarray(anchors, dtype=np.float64)
    measured = np.atleast_2d(np.asarray(ranges, dtype=np.float64))
    if place.ndim != 2 or place.shape[1] != 3 or not np.all(np.isfinite(place)):
        raise ConfigError("anchors: must be finite positions of shape (a, 3)")
    if measured.shape[1] != len(place):
        raise ConfigError(f"ranges: {measured.shape[1]} columns for {len(place)} anchors")
    spread = np.broadcast_to(np.asarray(sigma, dtype=np.float64), measured.shape)
    used = np.isfinite(measured) & np.isfinite(spread) & (spread > 0)
    check_layout(place, height_m is not None, differences)
    problem = _Problem(
        place,
        np.where(used, measured, 0.0),
        np.where(used, 1.0 / np.where(used, spread, 1.0), 0.0),
        differences,
        height_m,
    )
    return problem.solved(_start(place, height_m) if start is None else np.asarray(start, dtype=np.float64))


def check_layout(anchors: Floats, flat: bool, differences: bool) -> None:
    """Raise ConfigError if ranges to these anchors can never determine a position."""
    least = max(3, (2 if flat else 3) + int(differences))
    few = f"anchors: {len(anchors)} are too few for a position; give at least {least}"
    if len(anchors) < 2:
        raise ConfigError(few)
    spans = np.linalg.svd(anchors - anchors.mean(axis=0), compute_uv=False)
    if spans[0] < 1e-3:
        raise ConfigError(f"anchors: all {len(anchors)} are at one place, so ranges to them determine no position")
    if len(anchors) < least:
        raise ConfigError(few)
    if spans[1] < 1e-3:
        raise ConfigError(
            "anchors: all lie on one line, so ranges to them determine no position; move one off the line"
        )


def can_locate(anchors: Floats, flat: bool, differences: bool) -> bool:
    """Return True if ranges to these anchors can determine a position."""
    try:
        check_layout(anchors, flat, differences)
    except ConfigError:
        return False
    return True


def _start(anchors: Floats, height_m: float | None) -> Floats:
    middle = anchors.mean(axis=0)
    if height_m is not None:
        return np.array([middle[0], middle[1], height_m])
    # Start below the best-fit plane of the anchors.
    _, _, axes = np.linalg.svd(anchors - middle)
    normal = axes[2] if axes[2][2] <= 0 else -axes[2]
    return np.asarray(middle + normal * max(1.0, 0.1 * float(np.ptp(anchors, axis=0).max())))


@dataclass
class _Problem:
    anchors: Floats
    measured: Floats
    weight: Floats
    """1 / sigma, or 0 for missing ranges, shape (n, a)."""
    differences: bool
    height_m: float | None

    def parts(self, at: Floats) -> tuple[Floats, Floats]:
        """Weighted residuals (n, a) and Jacobian (n, a, 3) at positions (n, 3)."""
        vector = at[:, None] - self.anchors
        length = np.maximum(np.sqrt(np.sum(vector * vector, axis=2)), 1e-9)
        jacobian = vector / length[:, :, None]
        if self.differences:
            length, jacobian = length - length[:, :1], jacobian - jacobian[:, :1]
        if self.height_m is not None:
            jacobian = jacobian * np.array([1.0, 1.0, 0.0])
        return self.weight * (self.measured - length), self.weight[:, :, None] * jacobian

    def normal(self, jacobian: Floats) -> Floats:
        """Normal matrix H^T W H, with 1 on the diagonal for a known height, shape (n, 3, 3)."""
        found = np.sum(jacobian[:, :, :, None] * jacobian[:, :, None, :], axis=1)
        if self.height_m is not None:
            found[:, 2, 2] = 1.0
        return np.asarray(found)

    def solved(self, start: Floats) -> Fixes:
        n = len(self.measured)
        at, damping = np.tile(start, (n, 1)), np.full(n, 1e-3)
        residual, jacobian = self.parts(at)
        # Converged rows are frozen, so a result does not depend on the other rows of the batch.
        active = np.ones(n, bool)
        for _ in range(STEPS):
            if not active.any():
                break
            normal = self.normal(jacobian)
            scale = np.trace(normal, axis1=1, axis2=2)[:, None, None]
            damped = normal + np.eye(3) * (damping[:, None, None] * scale / 3.0 + 1e-12)
            step = np.linalg.solve(damped, np.sum(jacobian * residual[:, :, None], axis=1)[:, :, None])[:, :, 0]
            tried_residual, tried_jacobian = self.parts(at + step)
            better = active & (np.sum(tried_residual**2, axis=1) <= np.sum(residual**2, axis=1))
            at = np.where(better[:, None], at + step, at)
            residual = np.where(better[:, None], tried_residual, residual)
            jacobian = np.where(better[:, None, None], tried_jacobian, jacobian)
            damping = np.clip(np.where(better, damping * 0.1, damping * 10.0), 1e-12, 1e6)
            active &= np.max(np.abs(step), axis=1) > _CONVERGED_M
        return self._summary(at)

    def _summary(self, at: Floats) -> Fixes:
        used: NDArray[Any] = self.weight > 0
        if self.differences:
            used = used & used[:, :1] & (np.arange(len(self.anchors)) > 0)
        unweighted = _Problem(self.anchors, self.measured, used.astype(np.float64), self.differences, self.height_m)
        bare, weighted = unweighted.normal(unweighted.parts(at)[1]), self.normal(self.parts(at)[1])
        free = 2 if self.height_m is not None else 3
        values = np.linalg.eigvalsh(bare)
        good = (used.sum(axis=1) >= free) & (values[:, 0] > _SINGULAR)
        safe = np.where(good[:, None, None], bare, np.eye(3))
        gdop = np.sqrt(np.trace(np.linalg.inv(safe)[:, :free, :free], axis1=1, axis2=2))
        covariance = np.linalg.inv(np.where(good[:, None, None], weighted, np.eye(3)))
        if self.height_m is not None:
            covariance[:, 2, 2] = 0.0
        return Fixes(
            np.where(good[:, None], at, np.nan),
            np.where(good[:, None, None], covariance, np.nan),
            np.where(good, gdop, np.nan),
        )
