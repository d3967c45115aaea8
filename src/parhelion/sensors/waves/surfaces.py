"""What surfaces do to waves, as kernels look it up: how much they mirror by angle, how rough they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine

ANGLES = 65
"""Cosines of incidence at which reflection is tabulated, evenly from 0 to 1."""


@dataclass(frozen=True)
class Finish:
    """How rough a kind of surface is, at the scale of the wavelengths in use."""

    slope: float
    """Root of twice the variance of its slopes: the m of Beckmann's lobe."""
    height_m: float
    """Standard deviation of its height [m]: what it takes from the mirrored wave."""
    scattered_db: float
    """Share that it scatters to all sides: backscatter for each area is this times the cosine of incidence [dB]."""


@kernel_tree()
@dataclass
class WaveSurfaces:
    """Tables of materials on the device, and the material of each part."""

    materials: Any
    """Row of each part."""
    rows: Any
    """Four numbers a material: slope^2, (4 pi height / wavelength)^2, scattered share, 0."""
    reflection: Any
    """Share of the power that is mirrored, `ANGLES` numbers a material."""

    @classmethod
    def of(
        cls, engine: Engine, part_rows: NDArray[Any], reflection: NDArray[np.float64], finishes: list[Finish],
        wavelength_m: float,
    ) -> WaveSurfaces:  # fmt: skip
        """`reflection` (materials, ANGLES) by cosine of incidence."""
        columns = [
            (one.slope**2, (4.0 * np.pi * one.height_m / wavelength_m) ** 2, 10.0 ** (one.scattered_db / 10.0), 0.0)
            for one in finishes
        ]
        # Kernels cannot read from empty arrays: hence one row at least.
        rows = np.array(columns or [(0.0, 0.0, 0.0, 0.0)], np.float32)
        shares = reflection if len(reflection) else np.zeros((1, ANGLES))
        parts = part_rows if len(part_rows) else np.zeros(1, np.uint32)
        return cls(engine.table(parts), engine.table(rows), engine.table(shares.astype(np.float32)))

    def material(self, part: Any, active: Any) -> Any:
        """Row of parts."""
        dr, mi = running_engine().dr, running_engine().mi
        return dr.gather(mi.UInt32, self.materials, dr.select(active, part, 0), active)

    def finish(self, material: Any, active: Any) -> tuple[Any, Any, Any]:
        """Slope^2, squared phase of the height at normal incidence, scattered share."""
        dr, mi = running_engine().dr, running_engine().mi
        row = dr.gather(mi.Vector4f, self.rows, material, active)
        return row.x, row.y, row.z

    def mirrored(self, material: Any, cosine: Any, active: Any) -> Any:
        """Share of the power that a smooth surface would mirror."""
        dr, mi = running_engine().dr, running_engine().mi
        place = cosine * (ANGLES - 1.0)
        place = dr.select(place < 0.0, 0.0, dr.select(place > ANGLES - 1.001, ANGLES - 1.001, place))
        below = mi.UInt32(place)
        at = material * ANGLES + below
        low, high = (dr.gather(mi.Float, self.reflection, at + k, active) for k in (0, 1))
        return dr.fma(place - mi.Float(below), high - low, low)


def cosines() -> NDArray[np.float64]:
    """The cosines of incidence of the table, shape (ANGLES,)."""
    return np.linspace(0.0, 1.0, ANGLES)
