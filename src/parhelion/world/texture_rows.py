"""The textures of a world, by row: one row for all the objects that use the same file or array."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.world.choose import TextureLike, texture_image
from parhelion.world.sources import file_key

SPARE_BYTES = 32 * 1024 * 1024
"""Textures that no object uses any more are kept up to this size: to move an object is to remove it and add it anew."""


class TextureRows:
    """Images with a count of the objects that use each; rows that nobody uses are taken by the next textures."""

    def __init__(self) -> None:
        self.images: list[NDArray[np.float32]] = []
        """Factors on the reflectance in [0, 1], each of shape (height, width); a white texel in free rows."""
        self.colours: dict[int, NDArray[np.uint8]] = {}
        """Colours of each texture that has some, 8 bits of sRGB each, shape (height, width, 3)."""
        self.files: dict[int, Path] = {}
        """The image file of each texture that came from one."""
        self._row_of: dict[tuple[Any, ...], int] = {}
        self._given: dict[int, tuple[tuple[Any, ...], Any]] = {}
        self._uses: dict[int, int] = {}
        """How many objects use each row; those that none uses come in the order in which they were left."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Arrays go by their id, which is another one in a copy.
        for row, (key, given) in list(self._given.items()):
            if row not in self.files:
                del self._row_of[key]
                self._given[row] = ((id(given),), given)
        self._row_of |= {key: row for row, (key, _) in self._given.items()}

    def row(self, texture: TextureLike) -> int:
        """Row of a texture, which is read if it is new."""
        path = Path(texture) if isinstance(texture, (str, PathLike)) else None
        key = (id(texture),) if path is None else file_key(path)
        if key not in self._row_of:
            image, colours = texture_image(texture)
            row = next((k for k in range(len(self.images)) if k not in self._uses), len(self.images))
            self.images[row : row + 1] = [image]
            # The array is kept with its row: while it lives, its id can mean no other array.
            self._row_of[key], self._given[row], self._uses[row] = row, (key, texture), 0
            if path is not None:
                self.files[row] = path
            if colours is not None:
                self.colours[row] = colours
        return self._row_of[key]

    def use(self, row: int) -> None:
        """Count one more object that uses a row."""
        self._uses[row] += 1

    def leave(self, row: int) -> None:
        """Count one less; what nobody uses is forgotten, the longest unused first, but for a few."""
        left = self._uses.pop(row) - 1
        self._uses[row] = left
        spare = [row for row, uses in self._uses.items() if uses == 0]
        size = sum(map(self._bytes, spare))
        for row in spare:
            if size <= SPARE_BYTES:
                break
            size -= self._bytes(row)
            self._forget(row)

    def _bytes(self, row: int) -> int:
        return self.images[row].nbytes + (self.colours[row].nbytes if row in self.colours else 0)

    def _forget(self, row: int) -> None:
        key, _ = self._given.pop(row)
        del self._row_of[key], self._uses[row]
        self.files.pop(row, None)
        self.colours.pop(row, None)
        self.images[row] = np.ones((1, 1), np.float32)
        while self.images and len(self.images) - 1 not in self._uses:
            self.images.pop()
