"""Defects of image sensors: pixels and columns that are always dark or bright.

They are places of one unit, so all its pictures have them. They are applied to the finished picture: in a real colour
camera, the reconstruction of colours also spreads a defect to the neighbours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from parhelion.core.config import Fraction
from parhelion.core.image import Image
from parhelion.core.random import Stream, to_unit
from parhelion.sensors.faults.fault import TimedFault, Unit


class PixelFault(TimedFault):
    """Dead and hot pixels, and dead columns.

    Image sensors of grade 1 have up to about 1e-5 of defect pixels, which most cameras correct; radiation and age add
    hot ones.
    """

    kinds: ClassVar[Sequence[str]] = ("camera",)

    dead: Fraction = 0.0
    """Fraction of the pixels that are always dark."""
    hot: Fraction = 0.0
    """Fraction of the pixels that are always at the highest value."""
    columns: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Number of dark columns."""

    def masks(self, height: int, width: int, unit: Unit) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Masks (height, width) of the dark and of the bright pixels of a unit."""
        words = Stream(unit.seed, f"{unit.key}/faults/pixels").words(np.arange(height * width, dtype=np.uint32))
        draw = np.asarray(to_unit(words[0])).reshape(height, width)
        dark, bright = draw < self.dead, draw > 1.0 - self.hot
        own = Stream(unit.seed, f"{unit.key}/faults/columns").generator()
        dark = dark.copy()
        dark[:, own.permutation(width)[: self.columns]] = True
        return dark, bright & ~dark

    def applied(self, record: Image, unit: Unit) -> Image:
        """Picture with the defects."""
        if not self.active(record.start_time):
            return record
        dark, bright = self.masks(record.colour.shape[0], record.colour.shape[1], unit)
        most = float(record.colour.max()) if record.colour.dtype == np.float32 else np.iinfo(record.colour.dtype).max
        colour = record.colour.copy()
        colour[dark], colour[bright] = 0, most
        return dataclasses.replace(record, colour=colour)
