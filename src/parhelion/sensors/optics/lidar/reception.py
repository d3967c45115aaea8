"""Reception: from the echoes of a launch's beams to the reported returns.

Beams with one echo, with many, and with echoes behind glass are processed separately. SIMD lanes run in lockstep, so
one beam with many echoes would slow down every beam with one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.core.arrays import Int, Ints, Keys
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.replay import Rows
from parhelion.sensors.optics.air import Air
from parhelion.sensors.optics.beams import Beams
from parhelion.sensors.optics.lidar.air_echoes import ScattererRows
from parhelion.sensors.optics.lidar.detection import Detector, detect
from parhelion.sensors.optics.lidar.echoes import Block, Echoes, EchoRows
from parhelion.sensors.optics.lidar.emit import ShotArrays
from parhelion.sensors.optics.lidar.points import Returns
from parhelion.sensors.optics.lidar.profiles import ProfiledParts
from parhelion.sensors.optics.lidar.readout import Readout, ReadReturn, ReturnRow, read_out
from parhelion.sensors.optics.lidar.specular import Behind


@kernel_tree()
@dataclass
class Reception:
    """Inputs of the reception that all beams of a launch share."""

    detector: Detector
    readout: Readout
    beams: Beams
    keys: Keys
    """Two words per scan that select the random streams."""
    in_air: ScattererRows | None
    """Echoes of the air, or None."""
    displaced: Any
    """Function of range, shot and key that returns the range as displaced by weather; None if unchanged."""
    profiled: ProfiledParts | None = None
    """Parts whose noise comes from profiles, or None."""
    air: Air | None = None
    """Air that attenuates the signal of such parts; None in clear air."""

    def of(self, blocks: list[Block], beam: Int) -> list[ReadReturn]:
        """Returns of the beams with these numbers, from their surface echoes and those of the air."""
        engine = running_engine()
        if self.in_air is not None:
            blocks = self.in_air.join(engine, blocks, beam)
        found = detect(engine, self.detector, blocks, self.beams, beam, self.keys)
        return read_out(self, blocks, found, beam)


def receive(engine: Engine, reception: Reception, echoes: Echoes, behind: Behind | None, shots: ShotArrays) -> Returns:
    """Returns of all beams, including targets seen through glass and water or in mirrors."""
    count, most = reception.beams.count, reception.detector.registers
    rows = Rows.cached(engine, count), Rows.cached(engine, count * most)
    order = engine.whole(shots.count), shots.place
    surfaces = echoes.narrow, echoes.wide, echoes.wide_beams, echoes.wide_place
    return engine.frozen(_receive)(reception, *rows, order, *surfaces, echoes.slots, behind)


def _receive(
    reception: Reception,
    beams: Rows,
    returns: Rows,
    order: tuple[Int, Int],
    narrow: EchoRows | None,
    wide: EchoRows | None,
    wide_beams: Int,
    wide_place: Int,
    slots: int,
    behind: Behind | None,
) -> Returns:
    """Kernel of `receive`, traced once: everything that changes from scan to scan is an argument.

    `returns` numbers the possible returns of all beams; `order` holds the number of shots per scan and their places.
    """
    engine = running_engine()
    dr, mi, everyone = engine.dr, engine.mi, beams.index
    if narrow is None:
        assert wide is not None
        found = reception.of([Block(wide, everyone * slots, mi.UInt32(slots))], everyone)
    else:
        found = reception.of([Block(narrow, everyone, mi.UInt32(1), held=1)], everyone)
    rows = [ReturnRow.of(engine, item) for item in found]

    def again(blocks: list[Block], beam: Int) -> None:
        for row, better in zip(rows, reception.of(blocks, beam), strict=True):
            row.overwrite(engine, beam, better)

    if narrow is not None and wide is not None:
        again([Block(wide, dr.arange(mi.UInt32, dr.width(wide_beams)) * slots, mi.UInt32(slots))], wide_beams)
    if behind is not None:
        # Narrow beams have no wide rows. With fixed sampling all beams are wide, and their rows are in order.
        some = behind.beams
        sorts: list[tuple[Int | None, EchoRows | None, Ints]] = [
            (some.narrow, wide if narrow is None else None, 0),
            (some.wide, wide, some.first_wide),
        ]
        for beam, their_wide, before in sorts:
            if beam is not None:
                blocks = Echoes(slots, their_wide, None, narrow, wide_place, []).blocks(engine, beam)
                number = dr.arange(mi.UInt32, dr.width(beam)) + before
                blocks.append(behind.block(number))
                again(blocks, beam)
    return Returns.of(engine, rows, reception.beams.count, beams, returns, *order)
