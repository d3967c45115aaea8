"""The rays of one launch, each at its own time: where they leave and point, and what their draws are keyed by."""

from __future__ import annotations

from dataclasses import dataclass

from parhelion.core.arrays import Ints, Keys, Reals, Vectors
from parhelion.rays.device import Engine, kernel_tree


@dataclass
class BeamAim:
    """Where a beam leaves and where it points, in the scene's local frame, as kernel variables."""

    axis: Vectors
    left: Vectors
    origin: Vectors
    time: Reals
    """Time after the window's start [s]."""
    luck: Reals
    """Random number of the pulse in (0, 1), where the weather needs one; else 0."""
    beam: Ints
    """Number of the beam."""
    gain: Reals = None
    """Strength of the beam's channel relative to the usual one; None where all are alike."""


@kernel_tree()
@dataclass
class Beams:
    """Beams of one launch, as evaluated device arrays of one length."""

    count: int
    scan: Ints
    """Number of the scan within the launch."""
    shot: Ints
    """Row in the table of shots."""
    rows: tuple[Reals, Reals, Reals]
    """Axis and time, left and luck, origin and gain: four numbers a beam each, so that one access fetches them."""
    has_gain: bool = False
    """Whether beams have strengths of their own; if not, all gains count as 1, whatever the rows hold."""

    def draws(self, engine: Engine, beam: Ints, keys: Keys) -> tuple[Ints, Keys]:
        """What the random draws of beams are keyed by: their shots, and the words of `keys` of their scans."""
        dr, mi = engine.dr, engine.mi
        scan = dr.gather(mi.UInt32, self.scan, beam)
        low, high = (dr.gather(mi.UInt32, word, scan) for word in keys)
        return dr.gather(mi.UInt32, self.shot, beam), (low, high)

    def aim(self, engine: Engine, beam: Ints) -> BeamAim:
        """The aim of beams by number."""
        dr, mi = engine.dr, engine.mi
        axis, left, origin = (dr.gather(mi.Vector4f, rows, beam) for rows in self.rows)
        return BeamAim(
            mi.Vector3f(axis.x, axis.y, axis.z), mi.Vector3f(left.x, left.y, left.z),
            mi.Point3f(origin.x, origin.y, origin.z), axis.w, left.w, beam, origin.w if self.has_gain else None,
        )  # fmt: skip
