"""Pictures of data sets: undistorted, and paired with the nearest scan in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.core.image import Image, Intrinsics
from parhelion.core.pose import Floats
from parhelion.io.images.plain import shown_colours

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario
    from parhelion.scenario.sensors import FrameOnBoard


def bends(lens: Intrinsics | None) -> bool:
    """Return whether a lens has distortion, so that its picture differs from that of a pinhole camera."""
    return lens is not None and (lens.model == "equidistant" or any(lens.distortion))


def straight(pixels: NDArray[Any], image: Image) -> NDArray[np.uint8]:
    """Picture as 8-bit colours of a pinhole camera with the same matrix; pixels outside the lens image are black."""
    shown = shown_colours(pixels, image.bands)
    return straightened(shown, image.intrinsics) if image.intrinsics is not None and bends(image.intrinsics) else shown


def straightened(pixels: NDArray[np.uint8], lens: Intrinsics) -> NDArray[np.uint8]:
    """Undistort pixels (h, w) or (h, w, bands) with bilinear interpolation."""
    row, column, down, right, seen = _map(lens)
    values = pixels.astype(np.float32).reshape(*pixels.shape[:2], -1)
    upper = values[row, column] * (1.0 - right) + values[row, column + 1] * right
    lower = values[row + 1, column] * (1.0 - right) + values[row + 1, column + 1] * right
    mixed = (upper * (1.0 - down) + lower * down) * seen
    return np.round(mixed).astype(np.uint8).reshape(pixels.shape)


@lru_cache(maxsize=4)
def _map(lens: Intrinsics) -> tuple[NDArray[Any], ...]:
    """Undistortion map: row, column, and the offsets down and right, of each undistorted pixel in the original picture,
    and whether it lies within that picture."""
    from parhelion.sensors.optics.camera.lens import project

    v, u = np.mgrid[: lens.height, : lens.width].reshape(2, -1).astype(np.float64)
    y = (v - lens.cy) / lens.fy
    x = (u - lens.cx - lens.skew * y) / lens.fx
    uv, inside = project(lens, np.stack([np.ones_like(x), -x, -y], axis=1))
    uv = np.where(inside[:, None], uv, 0.0)
    column, row = (np.clip(np.floor(uv[:, k]), 0, size - 2) for k, size in ((0, lens.width), (1, lens.height)))
    shape = (lens.height, lens.width, 1)
    down, right = (np.clip(uv[:, k] - low, 0.0, 1.0).reshape(shape) for k, low in ((1, row), (0, column)))
    return (
        row.astype(np.intp).reshape(shape[:2]),
        column.astype(np.intp).reshape(shape[:2]),
        down.astype(np.float32),
        right.astype(np.float32),
        inside.reshape(shape),
    )


def projection_of(lens: Intrinsics, *, right: bool = False) -> Floats:
    """Projection matrix (3, 4) of the undistorted picture; with `right`, of the second lens."""
    found = np.concatenate([lens.matrix, np.zeros((3, 1))], axis=1)
    found[0, 3] = -lens.fx * lens.baseline_m if right else 0.0
    return found


@dataclass(frozen=True, eq=False)
class Pair:
    """A scan and the picture nearest to its start."""

    scanner: FrameOnBoard
    number: int
    scan: Scan
    image: Image | None


class Pairs:
    """Pairs the scans of each lidar with pictures of the first camera on the same vehicle, in any order of arrival."""

    def __init__(self, scenario: Scenario, scanners: dict[str, FrameOnBoard]) -> None:
        self.cameras: dict[str, FrameOnBoard] = {}
        """Camera of each lidar that has one on its vehicle."""
        self._wanted: dict[str, NDArray[np.intp]] = {}
        self._users: dict[tuple[str, int], int] = {}
        self._images: dict[tuple[str, int], Image] = {}
        self._waiting: dict[tuple[str, int], list[tuple[FrameOnBoard, int, Scan]]] = {}
        for name, scanner in scanners.items():
            cameras = [
                one for one in scenario.giving(Image) if one.body is scanner.body and one.count(scenario.duration_s)
            ]
            if not cameras:
                continue
            camera = self.cameras[name] = cameras[0]
            starts, times = (
                one.start(0) + one.period_s * np.arange(one.count(scenario.duration_s)) for one in (camera, scanner)
            )
            self._wanted[name] = np.searchsorted(0.5 * (starts[1:] + starts[:-1]), times)
            for number in self._wanted[name].tolist():
                key = (camera.name, number)
                self._users[key] = self._users.get(key, 0) + 1

    def scan(self, scanner: FrameOnBoard, number: int, scan: Scan) -> Iterator[Pair]:
        """Add a scan; yield its pair if the picture is available."""
        if scanner.name not in self.cameras:
            yield Pair(scanner, number, scan, None)
            return
        key = (self.cameras[scanner.name].name, int(self._wanted[scanner.name][number]))
        self._waiting.setdefault(key, []).append((scanner, number, scan))
        yield from self._ready(key)

    def image(self, camera: FrameOnBoard, number: int, image: Image) -> Iterator[Pair]:
        """Add a picture; yield the pairs that wait for it."""
        key = (camera.name, number)
        if key in self._users:
            self._images[key] = image
            yield from self._ready(key)

    def _ready(self, key: tuple[str, int]) -> Iterator[Pair]:
        image = self._images.get(key)
        if image is None:
            return
        for scanner, number, scan in self._waiting.pop(key, []):
            self._users[key] -= 1
            yield Pair(scanner, number, scan, image)
        if not self._users[key]:
            del self._images[key]
