"""Reception: from the echoes of a launch's beams to what the sensor reports of each.

Beams of one echo, of many, and of those behind glass are received apart, since kernels take beams in step: among beams
of many echoes, those of one would take as long as they.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.rays.device import Engine
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.lidar.echoes import Block, Echoes, EchoRows
from parhelion.sensors.lidar.emit import Beams
from parhelion.sensors.lidar.receiver import Detector, detect
from parhelion.sensors.lidar.report import Reporter, Row, report
from parhelion.sensors.lidar.scatterers import ScattererRows
from parhelion.sensors.lidar.specular import ROWS as SPECULAR_ROWS


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

    def of(self, blocks: list[Block], beam: Any) -> list[Row]:
        """Detect and report the beams with these numbers, from their surfaces' echoes and those of the air."""
        engine = running_engine()
        if self.in_air is not None:
            blocks = self.in_air.join(engine, blocks, beam)
        found = detect(engine, self.detector, blocks, self.beams, beam, self.keys)
        return report(engine, self.reporter, blocks, found, self.beams, beam, self.keys, self.displaced)


def receive(engine: Engine, reception: Reception, echoes: Echoes) -> list[Row]:
    """Returns of all beams: of the narrow ones from their one echo, of the wide ones from all their slots."""
    dr, mi = engine.dr, engine.mi
    everyone = dr.arange(mi.UInt32, reception.beams.count)
    if echoes.narrow is None:
        return engine.frozen(_receive_wide)(reception, everyone, echoes.wide, echoes.slots)
    rows = engine.frozen(_receive_narrow)(reception, everyone, echoes.narrow)
    if echoes.wide is not None:
        engine.frozen(_receive_again)(reception, rows, echoes.wide_beams, echoes.wide, echoes.slots)
    return rows


def receive_specular(
    engine: Engine, reception: Reception, echoes: Echoes, behind: EchoRows, some: Any, rows: list[Row]
) -> None:
    """Put returns of the beams that met glass, water or a mirror, with what lies behind it, into their rows."""
    dr, mi = engine.dr, engine.mi
    receive_behind = engine.frozen(_receive_behind)
    if echoes.specular is None:
        receive_behind(reception, rows, some, None, echoes.wide, None, echoes.slots, behind, dr.opaque(mi.UInt32, 0))
        return
    narrow, wide = echoes.specular.narrow, echoes.specular.wide
    if len(narrow):
        receive_behind(
            reception, rows, narrow, echoes.narrow, None, None, echoes.slots, behind, dr.opaque(mi.UInt32, 0)
        )
    if len(wide):
        first = dr.opaque(mi.UInt32, len(narrow))
        receive_behind(
            reception, rows, wide, echoes.narrow, echoes.wide, echoes.wide_place, echoes.slots, behind, first
        )


# ---- recorded once: all that changes from scan to scan is an argument ----------------------------------------------


def _receive_narrow(reception: Reception, everyone: Any, narrow: EchoRows) -> list[Row]:
    return reception.of([Block(narrow, everyone, running_engine().mi.UInt32(1))], everyone)


def _receive_wide(reception: Reception, everyone: Any, wide: EchoRows, slots: int) -> list[Row]:
    return reception.of([Block(wide, everyone * slots, running_engine().mi.UInt32(slots))], everyone)


def _receive_again(reception: Reception, rows: list[Row], beam: Any, wide: EchoRows, slots: int) -> None:
    dr, mi = running_engine().dr, running_engine().mi
    first = dr.arange(mi.UInt32, dr.width(beam)) * slots
    _overwrite(rows, beam, reception.of([Block(wide, first, mi.UInt32(slots))], beam))


def _receive_behind(
    reception: Reception,
    rows: list[Row],
    beam: Any,
    narrow: EchoRows | None,
    wide: EchoRows | None,
    place: Any,
    slots: int,
    behind: EchoRows,
    first: Any,
) -> None:
    engine = running_engine()
    dr, mi = engine.dr, engine.mi
    blocks = Echoes(slots, wide, None, narrow, place, 0).blocks(engine, beam)
    number = dr.arange(mi.UInt32, dr.width(beam)) + first
    blocks.append(Block(behind, number * SPECULAR_ROWS, mi.UInt32(SPECULAR_ROWS)))
    _overwrite(rows, beam, reception.of(blocks, beam))


def _overwrite(rows: list[Row], beam: Any, better: list[Row]) -> None:
    dr = running_engine().dr
    for row, new in zip(rows, better, strict=True):
        for name in vars(row):
            dr.scatter(getattr(row, name), getattr(new, name), beam)
        dr.eval(*vars(row).values())
