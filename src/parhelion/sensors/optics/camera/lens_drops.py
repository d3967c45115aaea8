"""Water drops on the front lens: small lenses that show the scene inverted and reduced.

A drop is a spherical cap on glass. A ray from the camera meets its surface at the angle phi to the normal, with
sin phi = rho sin psi at the relative radius rho and the contact angle psi. It is deflected towards the centre by
asin(n sin phi) - phi. Beyond n sin phi = 1 it is totally reflected, and the rim is dark. Drops are out of focus, so
their edge is a ramp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import namespace
from parhelion.core.errors import ConfigError
from parhelion.core.image import Intrinsics
from parhelion.core.random import Stream, to_unit
from parhelion.sensors.optics.camera.pixel_planes import Array, bilinear
from parhelion.surfaces.wet import WATER_INDEX

CONTACT_ANGLE_DEG = 55.0
"""Contact angle of water on coated glass [deg]; 40 to 90 are common."""
_RIM_LIGHT = 0.25
"""Relative brightness of a totally reflecting rim, due to light inside the drop."""
_BLUR = 0.3
"""Width of the edge relative to the radius."""
_STEEPEST = 0.995
"""Sine of the steepest ray; steeper ones would run along the lens."""


@dataclass(frozen=True, eq=False)
class LensDrops:
    """Drops in front of an image; flat arrays with one value per pixel."""

    share: NDArray[np.float32]
    """Fraction of the pixel covered by a drop."""
    column: NDArray[np.float32]
    """Column in the image without drops that the pixel shows [pixel]."""
    row: NDArray[np.float32]
    """Row in the image without drops that the pixel shows [pixel]."""
    spread_px: NDArray[np.float32]
    """Width of the region that the pixel shows [pixel]."""
    light: NDArray[np.float32]
    """Transmittance of the drop."""


def lens_drops(lens: Intrinsics, *, seed: int, count: int, radius_px: tuple[float, float] = (6.0, 30.0)) -> LensDrops:
    """Random drops with log-uniform radii.

    Positions depend on the seed only, so they are the same in all frames. Where two drops overlap, the later one covers
    the earlier one.
    """
    if count < 0 or not 1.0 <= radius_px[0] <= radius_px[1]:
        raise ConfigError("lens drops: count must be 0 or more, radii 1 pixel or more")
    a, b, c, _ = Stream(seed, "camera/lens-drops").words(np.arange(count))
    centre_u, centre_v = to_unit(a) * lens.width - 0.5, to_unit(b) * lens.height - 0.5
    radii = radius_px[0] * (radius_px[1] / radius_px[0]) ** to_unit(c)
    shape = (lens.height, lens.width)
    share, spread, light = (np.zeros(shape, np.float32) for _ in range(3))
    row, column = (grid.astype(np.float32) for grid in np.mgrid[: lens.height, : lens.width])
    focal = (lens.fx * lens.fy) ** 0.5
    for u, v, radius in zip(centre_u, centre_v, radii, strict=True):
        reach = radius * (1.0 + 0.5 * _BLUR)
        rows = slice(max(int(v - reach), 0), max(int(v + reach) + 2, 0))
        columns = slice(max(int(u - reach), 0), max(int(u + reach) + 2, 0))
        y, x = np.mgrid[rows.start : min(rows.stop, shape[0]), columns.start : min(columns.stop, shape[1])]
        x, y = x - u, y - v
        away = np.hypot(x, y)
        here = np.clip((radius - away) / (_BLUR * radius) + 0.5, 0.0, 1.0)
        tilt = np.minimum(away / radius, 1.0) * np.sin(np.radians(CONTACT_ANGLE_DEG))
        bent = np.arcsin(np.minimum(WATER_INDEX * tilt, _STEEPEST)) - np.arcsin(tilt)
        pull = focal * np.tan(bent) / np.maximum(away, 1e-9)
        at = np.s_[rows, columns]
        inside = here > 0.0
        column[at] = np.where(inside, u + x * (1.0 - pull), column[at])
        row[at] = np.where(inside, v + y * (1.0 - pull), row[at])
        minified = focal * (WATER_INDEX - 1.0) * np.sin(np.radians(CONTACT_ANGLE_DEG)) / radius
        spread[at] = np.where(inside, minified, spread[at])
        clear = np.clip((1.0 - WATER_INDEX * tilt) / 0.1, 0.0, 1.0)
        light[at] = np.where(inside, _RIM_LIGHT + (1.0 - _RIM_LIGHT) * clear, light[at])
        share[at] = np.maximum(share[at], here)
    return LensDrops(*(values.astype(np.float32).ravel() for values in (share, column, row, spread, light)))


def through_lens_drops(plane: Array, drops: Any, width: int, height: int) -> Array:
    """Radiance of one band behind drops; the fields of `drops` are arrays of the same kind as the plane.

    A pixel behind a drop shows the mean of 2 x 2 positions.
    """
    xp = namespace(plane, drops.share)
    step = 0.25 * drops.spread_px
    total = 0.0
    for down in (-1.0, 1.0):
        for right in (-1.0, 1.0):
            total = total + bilinear(plane, drops.column + right * step, drops.row + down * step, width, height)
    seen = 0.25 * total * drops.light
    return xp.where(drops.share > 0.0, plane + (seen - plane) * drops.share, plane)
