"""Reception: from the echoes of a launch's beams to what the sensor reports of each.

Beams of one echo, of many, and of those behind glass are received apart, since kernels take beams in step: among beams
of many echoes, those of one would take as long as they.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.lidar.echoes import Block, Echoes, EchoRows
from parhelion.sensors.lidar.emit import Beams
from parhelion.sensors.lidar.receiver import Detector, detect
from parhelion.sensors.lidar.report import Reported, Reporter, Row, report
from parhelion.sensors.lidar.scatterers import ScattererRows
from parhelion.sensors.lidar.specular import ROWS as SPECULAR_ROWS


@kernel_tree
@dataclass
class Reception:
    """What all beams of a launch are received with."""

    detector: Detector
    reporter: Reporter
    beams: Beams
    keys: tuple[Any, Any]
    """Two words a scan, for the random streams."""
    in_air: ScattererRows | None
    """Echoes of the air, or None."""
    displaced: Any
    """Range of a surface's return as the rain lets it appear, or None where it is the true one."""

    def of(self, blocks: list[Block], beam: Any) -> list[Reported]:
        """Detect and report the beams with these numbers, from their surfaces' echoes and those of the air."""
        engine = running_engine()
        if self.in_air is not None:
            blocks = self.in_air.join(engine, blocks, beam)
        found = detect(engine, self.detector, blocks, self.beams, beam, self.keys)
        return report(engine, self.reporter, blocks, found, self.beams, beam, self.keys, self.displaced)


def receive(engine: Engine, reception: Reception, echoes: Echoes) -> list[Row]:
    """Returns of all beams: of the narrow ones from their one echo, of the wide ones from all their slots."""
    dr, mi = engine.dr, engine.mi
    everyone, slots = dr.arange(mi.UInt32, reception.beams.count), echoes.slots
    if echoes.narrow is None:
        return engine.frozen(_receive_wide)(reception, everyone, echoes.wide, slots)
    rows = engine.frozen(_receive_narrow)(reception, everyone, echoes.narrow)
    if echoes.wide is not None:
        receive_again = engine.frozen(_receive_again)
        _overwrite(engine, rows, echoes.wide_beams, receive_again(reception, echoes.wide_beams, echoes.wide, slots))
    return rows


def receive_specular(
    engine: Engine, reception: Reception, echoes: Echoes, behind: EchoRows, some: Any, rows: list[Row]
) -> None:
    """Put returns of the beams that met glass, water or a mirror, with what lies behind it, into their rows."""
    receive_behind, slots = engine.frozen(_receive_behind), echoes.slots
    if echoes.specular is None:
        found = receive_behind(reception, some, None, echoes.wide, None, slots, behind, engine.whole(0))
        _overwrite(engine, rows, some, found)
        return
    narrow, wide = echoes.specular.narrow, echoes.specular.wide
    if len(narrow):
        found = receive_behind(reception, narrow, echoes.narrow, None, None, slots, behind, engine.whole(0))
        _overwrite(engine, rows, narrow, found)
    if len(wide):
        first = engine.whole(len(narrow))
        surfaces = echoes.narrow, echoes.wide, echoes.wide_place
        _overwrite(engine, rows, wide, receive_behind(reception, wide, *surfaces, slots, behind, first))


def _overwrite(engine: Engine, rows: list[Row], beam: Any, better: list[Reported]) -> None:
    for row, new in zip(rows, better, strict=True):
        row.overwrite(engine, beam, new)


# ---- recorded once: all that changes from scan to scan is an argument ----------------------------------------------


def _receive_narrow(reception: Reception, everyone: Any, narrow: EchoRows) -> list[Row]:
    engine = running_engine()
    found = reception.of([Block(narrow, everyone, engine.mi.UInt32(1), held=1)], everyone)
    return [Row.of(engine, item) for item in found]


def _receive_wide(reception: Reception, everyone: Any, wide: EchoRows, slots: int) -> list[Row]:
    engine = running_engine()
    found = reception.of([Block(wide, everyone * slots, engine.mi.UInt32(slots))], everyone)
    return [Row.of(engine, item) for item in found]


def _receive_again(reception: Reception, beam: Any, wide: EchoRows, slots: int) -> list[Reported]:
    dr, mi = running_engine().dr, running_engine().mi
    first = dr.arange(mi.UInt32, dr.width(beam)) * slots
    return reception.of([Block(wide, first, mi.UInt32(slots))], beam)


def _receive_behind(
    reception: Reception,
    beam: Any,
    narrow: EchoRows | None,
    wide: EchoRows | None,
    place: Any,
    slots: int,
    behind: EchoRows,
    first: Any,
) -> list[Reported]:
    engine = running_engine()
    dr, mi = engine.dr, engine.mi
    blocks = Echoes(slots, wide, None, narrow, place, 0).blocks(engine, beam)
    number = dr.arange(mi.UInt32, dr.width(beam)) + first
    blocks.append(Block(behind, number * SPECULAR_ROWS, mi.UInt32(SPECULAR_ROWS), held=SPECULAR_ROWS))
    return reception.of(blocks, beam)
