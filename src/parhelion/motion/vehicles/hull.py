"""A hull as upright columns, and what floating takes from it: wetted volume, centre of buoyancy, stability.

Columns stand at the nodes of a Gauss rule, so that for a hull of straight sides sums over few columns are the exact
integrals: volume, its centre and the waterplane's moments while the deck is dry and the keel wet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.motion.checks import above, whole
from parhelion.motion.vehicles.config import HullConfig


@dataclass(frozen=True, eq=False)
class Hull:
    """Columns of a hull, arrays of shape (n,), in a frame with x forward, y left and z up from the lowest point."""

    x: Floats
    y: Floats
    bottom: Floats
    """Where a column begins [m]."""
    top: Floats
    """Where it ends: the deck."""
    area: Floats
    """Cross-section [m^2]."""

    @classmethod
    def box(cls, length_m: float, beam_m: float, height_m: float, *, along: int = 6, across: int = 4) -> Hull:
        """A box centred at x = y = 0."""
        return cls.boat(length_m, beam_m, height_m, along=along, across=across)

    @classmethod
    def boat(
        cls,
        length_m: float,
        beam_m: float,
        height_m: float,
        *,
        bow_share: float = 0.0,
        bow_rise_m: float = 0.0,
        deadrise_deg: float = 0.0,
        along: int = 6,
        across: int = 4,
    ) -> Hull:
        """Straight sides that narrow as a parabola at the bow; a V-shaped bottom whose keel rises towards the stem."""
        for name, value in (("length_m", length_m), ("beam_m", beam_m), ("height_m", height_m)):
            above(f"hull: {name}", value, 0.0)
        if not (0.0 <= bow_share < 1.0 and bow_rise_m >= 0.0 and 0.0 <= deadrise_deg < 90.0):
            raise ConfigError(
                f"hull: bow_share {bow_share} must be from 0 to below 1, bow_rise_m {bow_rise_m} not below 0 and "
                f"deadrise_deg {deadrise_deg} from 0 to below 90"
            )
        rear, front = -length_m / 2.0, length_m / 2.0
        shoulder = front - bow_share * length_m
        stations = [_gauss(rear, shoulder, along)]
        if bow_share > 0.0:
            stations.append(_gauss(shoulder, front, max(2, along // 2)))
        x, wide = (np.concatenate(parts) for parts in zip(*stations, strict=True))
        reach = np.maximum(x - shoulder, 0.0) / max(front - shoulder, 1e-12)
        half = beam_m / 2.0 * (1.0 - reach**2)
        side, share = _gauss(0.0, 1.0, max(1, across // 2))
        # Each half of the beam has its own nodes: the keel line is a kink.
        side, share = np.concatenate([-side[::-1], side]), np.concatenate([share[::-1], share])
        y = half[:, None] * side
        bottom = np.abs(y) * math.tan(math.radians(deadrise_deg)) + (bow_rise_m * reach**2)[:, None]
        area = (wide * half)[:, None] * share
        columns = np.broadcast_arrays(x[:, None], y, np.minimum(bottom, height_m), np.full_like(y, height_m), area)
        return cls(*(np.ascontiguousarray(column).ravel() for column in columns))

    @classmethod
    def from_mesh(cls, vertices: ArrayLike, faces: ArrayLike, *, along: int = 10, across: int = 8) -> Hull:
        """From a closed mesh (n, 3) [m], (m, 3): a column reaches from the lowest to the highest triangle over a place.

        So tunnels and overhangs count as filled. Places outside the mesh's outline have no column.
        """
        corners = np.asarray(vertices, dtype=np.float64)[np.asarray(faces, dtype=np.int64)]
        if corners.ndim != 3 or corners.shape[1:] != (3, 3) or not np.all(np.isfinite(corners)):
            raise ConfigError(f"hull: the mesh must be finite triangles, got an array of shape {corners.shape}")
        low, high = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
        x, wide = _gauss(low[0], high[0], whole("hull: along", along, 1, 200))
        y, share = _gauss(low[1], high[1], whole("hull: across", across, 1, 200))
        px, py = (grid.ravel() for grid in np.meshgrid(x, y, indexing="ij"))
        bottom, top = _vertical_span(corners, px, py)
        kept = top > bottom
        if not np.any(kept):
            raise ConfigError("hull: the mesh has no height over any of the columns' places")
        columns = (px, py, bottom - low[2], top - low[2], np.outer(wide, share).ravel())
        return cls(*(column[kept] for column in columns))

    def volume(self, level_m: float) -> float:
        """Wetted volume [m^3] of the upright hull with the water `level_m` above its lowest point."""
        return float(np.sum(self.area * self._wet(level_m)))

    def draught(self, volume_m3: float) -> float:
        """Water level [m] above the lowest point at which the upright hull displaces a volume (Archimedes)."""
        most = float(np.sum(self.area * (self.top - self.bottom)))
        if not 0.0 < volume_m3 < most:
            raise ConfigError(f"hull: displaces up to {most:.4g} m^3 and would sink with {volume_m3:.4g} m^3")
        low, high = float(self.bottom.min()), float(self.top.max())
        for _ in range(200):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            low, high = (middle, high) if self.volume(middle) < volume_m3 else (low, middle)
        return 0.5 * (low + high)

    def centre_of_buoyancy(self, level_m: float) -> tuple[float, float]:
        """x and z [m] of the wetted volume's centre."""
        wet = self._wet(level_m)
        volume = self.area * wet
        total = np.sum(volume)
        return float(np.sum(volume * self.x) / total), float(np.sum(volume * (self.bottom + 0.5 * wet)) / total)

    def waterplane(self, level_m: float) -> tuple[float, float, float]:
        """Area [m^2] of the waterplane, and its second moments [m^4] about its long and its cross axis."""
        area = np.where((self.bottom < level_m) & (level_m < self.top), self.area, 0.0)
        total = np.sum(area)
        middle = np.sum(area * self.x) / total
        return float(total), float(np.sum(area * self.y**2)), float(np.sum(area * (self.x - middle) ** 2))

    def _wet(self, level_m: float) -> Floats:
        return np.clip(level_m - self.bottom, 0.0, self.top - self.bottom)


def hull_of(config: HullConfig) -> Hull:
    """The hull a data sheet describes."""
    if config.shape == "box":
        return Hull.box(config.length_m, config.beam_m, config.height_m)
    return Hull.boat(
        config.length_m,
        config.beam_m,
        config.height_m,
        bow_share=config.bow_share,
        bow_rise_m=config.bow_rise_m,
        deadrise_deg=config.deadrise_deg,
    )


def _gauss(low: float, high: float, count: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    half = (high - low) / 2.0
    return low + half * (1.0 + nodes), half * weights


def _vertical_span(corners: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Lowest and highest z of the triangles (m, 3, 3) over each place; bottom above top where there are none."""
    ax, ay, az = np.moveaxis(corners[:, 0], -1, 0)
    (bx, by, bz), (cx, cy, cz) = (np.moveaxis(corners[:, n] - corners[:, 0], -1, 0) for n in (1, 2))
    area = bx * cy - by * cx
    seen = np.abs(area) > 1e-12  # triangles on edge have no z over a place
    px, py = x[:, None] - ax[seen], y[:, None] - ay[seen]
    s = (px * cy[seen] - py * cx[seen]) / area[seen]
    t = (py * bx[seen] - px * by[seen]) / area[seen]
    z = np.where((s >= 0.0) & (t >= 0.0) & (s + t <= 1.0), az[seen] + s * bz[seen] + t * cz[seen], np.nan)
    hit = np.any(np.isfinite(z), axis=1)
    bottom, top = np.full(len(x), np.inf), np.full(len(x), -np.inf)
    if np.any(hit):
        bottom[hit], top[hit] = np.nanmin(z[hit], axis=1), np.nanmax(z[hit], axis=1)
    return bottom, top
