"""A maker that Parhelion does not have: one folder with a scale, a ROS layout, a packet codec and a data sheet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.clouds import PointCloud
from parhelion.makers import Maker, RosDriver
from parhelion.makers.layouts import CloudLayout, Columns, whole, with_xyz
from parhelion.makers.scales import IntensityScale

SHEET = Path(__file__).parent / "a4.yaml"


class SquareRoot(IntensityScale):
    """One byte: 100 for a white diffuser, growing with the square root of reflectivity."""

    bits = 8

    def encode(self, power: Reals, reflectivity: Reals, photons: Reals) -> Reals:
        """See `IntensityScale.encode`."""
        xp = namespace(reflectivity)
        return xp.minimum(100.0 * xp.sqrt(reflectivity), 255.0)

    def reflectivity(self, value: Reals) -> Reals:
        """See `IntensityScale.reflectivity`."""
        return (0.01 * value) ** 2


class AcmePoints(CloudLayout):
    """Six fields: `level` is the intensity, `beam` counts from the top, `us` is the time [us] after the stamp."""

    dtype = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("level", "u1"), ("beam", "u1"), ("us", "<u4")])

    def points(self, cloud: PointCloud, height: int = 0) -> NDArray[Any]:
        """See `CloudLayout.points`."""
        rows, fields = with_xyz(self.dtype, cloud), cloud.fields
        rows["level"] = whole(fields["intensity"], "u1")
        rows["beam"] = 3 - fields["ring"]
        rows["us"] = whole(1e6 * fields["time"].astype(np.float64), "u4")
        return rows

    def matches(self, dtype: np.dtype[Any]) -> bool:
        """See `CloudLayout.matches`."""
        return {"level", "beam", "us"} <= set(dtype.names or ())

    def columns(self, columns: Columns, height: int) -> Columns:
        """See `CloudLayout.columns`."""
        ours = {name: values for name, values in columns.items() if name not in ("level", "beam", "us")}
        level, ring = columns["level"].astype(np.float32), (3 - columns["beam"]).astype(np.uint16)
        return {**ours, "intensity": level, "ring": ring, "time": (1e-6 * columns["us"]).astype(np.float32)}


MAKER = Maker(
    "acme", "Acme", {"acme-root": SquareRoot()}, RosDriver("/acme/points", "acme_link", AcmePoints()),
    codec="toy_maker.codec:CODEC",
)  # fmt: skip
