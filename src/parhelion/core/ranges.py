"""What a ranging radio measures, as a frozen record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.inertial import Samples, column
from parhelion.core.pose import Floats


@dataclass(frozen=True, eq=False)
class UwbData(Samples):
    """Ranges of a tag to a anchors; NaN where an anchor was not heard."""

    anchors: tuple[str, ...]
    """Names of the a anchors, in the order of the columns."""
    anchor_xyz: Floats = field(metadata=column("m", "world", "a", 3))
    """Positions of the anchors [m], shape (a, 3)."""
    range: Floats = field(metadata=column("m", "", "n", "a", finite=False))
    """Measured range [m], shape (n, a); with TDoA, range less that to the first anchor."""
    range_std: Floats = field(metadata=column("m", "", "n", "a", finite=False))
    """Standard deviation of each range's noise [m], shape (n, a); bias is not part of it."""
    rssi: Floats = field(metadata=column("dBm", "", "n", "a", finite=False))
    """Received signal strength [dBm], shape (n, a)."""
    snr: Floats = field(metadata=column("dB", "", "n", "a", finite=False))
    """Signal-to-noise ratio of the first path in the impulse response [dB], shape (n, a)."""
    los: NDArray[np.bool_] = field(metadata=column("1", "", "n", "a", dtype="bool"))
    """Truth: whether nothing stood between tag and anchor, shape (n, a)."""
    true_range: Floats = field(metadata=column("m", "", "n", "a"))
    """Truth: what `range` would be without errors [m], shape (n, a)."""
    position: Floats = field(metadata=column("m", "world", "n", 3, finite=False))
    """Position of the tag by the ranges [m], shape (n, 3); NaN where they give none."""
    position_covariance: Floats = field(metadata=column("m^2", "world", "n", 3, 3, finite=False))
    """Covariance of the position by the ranges' standard deviations [m^2], shape (n, 3, 3)."""
    gdop: Floats = field(metadata=column("1", "", "n", finite=False))
    """Geometric dilution of precision of the position, shape (n,)."""
    method: str = "two-way"
    """How ranges were measured: two-way, tdoa or rssi."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values that came with the samples: sensor, seed, rate."""

    def _sizes(self) -> Mapping[str, int]:
        return {**super()._sizes(), "a": len(self.anchors)}

    @property
    def error(self) -> Floats:
        """Measured less true range [m], shape (n, a)."""
        return np.asarray(self.range - self.true_range)

    def column_names(self, name: str) -> Sequence[str]:
        """Names of the columns of a field: anchors, or axes."""
        values = getattr(self, name)
        return self.anchors if values.ndim == 2 and name != "position" else super().column_names(name)
