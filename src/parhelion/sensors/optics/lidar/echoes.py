"""Echoes in device memory.

A row holds four numbers, because rows of four are read and written in one access. Gathers of single numbers are slow on
many processors since the mitigations of the Downfall vulnerability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.core.arrays import UNSET, Bool, DrJit, Float, Int, Ints, IntVector, Masks, State, Vectors, Vectors4
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.scene import NOTHING

NO_ECHO = 1e30
"""Range that marks a missing echo in kernels."""


GHOST_BIT = 0x40000000
"""Bit of the actor number: a mirror folded the path. Actor numbers are far below it."""
NO_ACTOR = 0x3FFFFFFF
"""Lower bits of the actor number if there is no actor."""
SCATTERER_BIT = 0x80000000
"""Bit of the actor number: the echo comes from the air, and the lower bits are the code of its origin."""


@kernel_tree()
@dataclass
class ReturnEcho:
    """Echoes of sub-rays, as kernel variables."""

    range: Float = UNSET
    """Range [m], NO_ECHO if there is no echo."""
    power: Float = UNSET
    """Received power [P_min]."""
    part: Int = UNSET
    """Part number, or NOTHING."""
    actor: Int = UNSET
    """Actor number, or NO_ACTOR; with GHOST_BIT if a mirror folded the path."""

    @classmethod
    def none(cls, engine: Engine) -> ReturnEcho:
        mi = engine.mi
        return cls(mi.Float(NO_ECHO), mi.Float(0.0), mi.UInt32(NOTHING), mi.UInt32(NO_ACTOR))


@kernel_tree()
@dataclass
class EchoRows:
    """Rows of echoes, evaluated."""

    words: Int = UNSET

    @classmethod
    def of(cls, engine: Engine, echo: ReturnEcho, *also: object, index: Int | None = None, size: int = 0) -> EchoRows:
        """Evaluate echoes together with the variables `also`, which depend on the same rays, in one kernel.

        `index` and `size` are as for `in_rows`.
        """
        words = in_rows(engine, echo_bits(engine, echo), index, size)
        engine.dr.eval(words, *also)
        return cls(words)

    def at(self, row: Int, active: Masks = True) -> ReturnEcho:
        """Rows by number; zeros where not active."""
        mi, dr = running_engine().mi, running_engine().dr
        words = dr.gather(mi.Vector4u, self.words, row, active)
        return ReturnEcho(
            dr.reinterpret_array(mi.Float, words.x), dr.reinterpret_array(mi.Float, words.y), words.z, words.w
        )

    def put(self, row: Int, echo: ReturnEcho, active: Masks) -> None:
        """Overwrite rows."""
        dr = running_engine().dr
        dr.scatter(self.words, echo_bits(running_engine(), echo), row, active)
        dr.eval(self.words)


def in_rows(engine: Engine, vectors: Vectors | Vectors4 | IntVector, index: Int | None = None, size: int = 0) -> Any:
    """Store vectors row by row; with `index`, at these rows of a buffer of `size` rows."""
    if index is None:
        return engine.dr.ravel(vectors)
    dr = engine.dr
    words = dr.empty(type(vectors.x), len(vectors) * size)
    dr.scatter(words, vectors, index)
    return words


def echo_bits(engine: Engine, echo: ReturnEcho) -> IntVector:
    """Echo as four 32-bit words."""
    mi, dr = engine.mi, engine.dr
    return mi.Vector4u(
        dr.reinterpret_array(mi.UInt32, mi.Float(echo.range)),
        dr.reinterpret_array(mi.UInt32, mi.Float(echo.power)),
        mi.UInt32(echo.part),
        mi.UInt32(echo.actor),
    )


@dataclass
class Block:
    """Group of echoes of each beam, in consecutive rows of memory."""

    rows: EchoRows
    first: Int
    """Row of each beam's first echo."""
    count: Int
    """Number of rows per beam."""
    scale: Float | None = None
    """Factor on the power of each beam's rows, or None."""
    is_read: bool = False
    """True if powers include the receiver's noise. Windows in which such rows dominate get no further noise."""
    held: int = 0
    """Number of a beam's first rows that kernels hold in registers if they read the rows several times."""

    @property
    def is_held(self) -> bool:
        """True if all rows are held in registers: the compiler knows their count, and it does not exceed `held`."""
        known = self.count.state == running_engine().dr.VarState.Literal
        return bool(known and self.count[0] <= self.held)


@kernel_tree()
@dataclass
class SpecularBeams:
    """Numbers of the beams that met glass, water or a mirror, grouped by the number of rows of their echoes.

    SIMD lanes run in lockstep, so one wide beam would slow down every narrow one in its group.
    """

    narrow: Int | None
    """Beams with one row, or all beams if all have the same number of rows. None if there are none, because a replayed
    kernel does not accept an empty array."""
    wide: Int | None
    """Beams with many rows; None if there are none."""
    first_wide: Int
    """Number of narrow beams."""

    @classmethod
    def of(cls, engine: Engine, narrow: Int, wide: Int | None = None) -> SpecularBeams:
        """Wrap arrays that may be empty."""
        some, others = (numbers if numbers is not None and len(numbers) else None for numbers in (narrow, wide))
        return cls(some, others, engine.whole(0 if some is None else len(some)))

    def __len__(self) -> int:
        return sum(len(numbers) for numbers in (self.narrow, self.wide) if numbers is not None)

    def at(self, place: Int) -> Int:
        """Beam numbers by position, narrow beams first."""
        dr, mi = running_engine().dr, running_engine().mi
        if self.narrow is None or self.wide is None:
            only = self.wide if self.narrow is None else self.narrow
            assert only is not None
            return dr.gather(mi.UInt32, only, place)
        is_wide = place >= self.first_wide
        narrow = dr.gather(mi.UInt32, self.narrow, place, ~is_wide)
        return dr.select(is_wide, dr.gather(mi.UInt32, self.wide, place - self.first_wide, is_wide), narrow)


@kernel_tree()
@dataclass
class Echoes:
    """Surface echoes of a launch: one row for (narrow) beams on one surface, `slots` rows for the other (wide) ones."""

    slots: int
    """Rows per wide beam."""
    wide: EchoRows | None
    """Rows of wide beams; row = number of the wide beam * slots + sub-ray."""
    wide_beams: Int | None
    """Beam numbers of the wide beams. None if no beam is wide, or if all are (then they are in order)."""
    narrow: EchoRows | None
    """One row per beam, with zero power for wide beams; None if all beams are wide."""
    wide_place: Int | None
    """Number of each beam among the wide ones, or NOTHING; None if all beams are wide."""
    casts: list[Ints]
    """Numbers of rays cast, to be summed. Some are arrays that the device is still computing."""
    probes: Any = None
    """Hits of the first four sub-rays of every beam, as `illuminate.ProbeRows`; None without adaptive sampling."""
    specular: SpecularBeams | None = None
    """Beams with a probe on glass, water or a mirror; None if not determined yet."""

    def reach(self, engine: Engine, beam: Int, active: Bool) -> Float:
        """Range of the farthest surface that each beam meets [m]; NO_ECHO if part of the beam meets none."""
        dr, mi = engine.dr, engine.mi
        if self.probes is not None:
            return self.probes.reach(beam, active)
        assert self.wide is not None
        rows, first = self.wide, beam * self.slots

        def step(k: Int, farthest: Float) -> State:
            range_m = rows.at(first + k, active).range
            return k + 1, dr.select(range_m > farthest, range_m, farthest)

        state = (mi.UInt32(0), mi.Float(0.0))
        _, farthest = dr.while_loop(state, lambda k, farthest: active & (k < self.slots), step)
        return farthest

    def blocks(self, engine: Engine, beam: Int) -> list[Block]:
        """Echoes of the beams with these numbers."""
        dr, mi = engine.dr, engine.mi
        if self.narrow is None:
            assert self.wide is not None
            return [Block(self.wide, beam * self.slots, mi.UInt32(self.slots))]
        one = Block(self.narrow, beam, mi.UInt32(1), held=1)
        if self.wide is None or self.wide_place is None:
            return [one]
        place = dr.gather(mi.UInt32, self.wide_place, beam)
        is_wide = place != NOTHING
        first = dr.select(is_wide, place, 0) * self.slots
        return [one, Block(self.wide, first, dr.select(is_wide, mi.UInt32(self.slots), 0))]


def choose(dr: DrJit, mask: Bool, a: ReturnEcho, b: ReturnEcho) -> ReturnEcho:
    """Return `a` where the mask is set and `b` elsewhere."""
    return ReturnEcho(*(dr.select(mask, x, y) for x, y in zip(vars(a).values(), vars(b).values(), strict=True)))
