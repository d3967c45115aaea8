"""Origins and directions of camera rays: pixels, exposure, shutter and aperture, in kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Float, Int, Reals, Vectors, Vectors4
from parhelion.core.errors import ConfigError
from parhelion.core.trajectory import Trajectory
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.moving import interpolate_knots, rotate
from parhelion.sensors.scene import motion_knots

TILE = 8
"""Side of the squares in which pixels are traced [pixel]: their rays are coherent."""


@dataclass
class Ray:
    """Camera rays in the scene's local frame, as kernel variables."""

    origin: Vectors
    direction: Vectors
    time: Float
    """Time after the start of the first row's exposure [s]."""
    forward: Float
    """Cosine between the ray and the optical axis."""


@kernel_tree(fixed=("width", "height", "has_aperture"))
@dataclass
class View:
    """Lens and shutter of one exposure."""

    width: int
    height: int
    has_aperture: bool
    order: Int
    """Row-major pixel numbers, in tracing order."""
    corners: Vectors
    """Unit directions of pixel corners in the sensor frame, four numbers each."""
    knots: Float
    """Poses of the camera, equally spaced in time."""
    knot_count: Int
    knots_per_s: Float
    line_time: Float
    """Time between the exposures of consecutive rows [s]."""
    exposure: Float
    """Exposure time [s]."""
    aperture: Float
    """Radius of the aperture [m]."""
    focus: Float
    """Focus distance along the optical axis [m]."""

    @classmethod
    def of(
        cls,
        engine: Engine,
        corners: NDArray[np.float32],
        motion: Trajectory,
        start: float,
        *,
        line_time_s: float,
        exposure_s: float,
        aperture_m: float,
        focus_m: float,
        origin: NDArray[np.float64],
        tables: tuple[Any, Any],
    ) -> View:
        """View of an exposure that starts at `start` [s]; `tables` is the result of `upload`."""
        height, width = corners.shape[0] - 1, corners.shape[1] - 1
        duration = exposure_s + line_time_s * (height - 1)
        knots, count = motion_knots([motion], [start], duration, origin)
        if not np.all(np.isfinite(knots)):
            raise ConfigError("pose: the camera's motion is not finite during the exposure")
        return cls(
            width,
            height,
            aperture_m > 0.0 and np.isfinite(focus_m),
            *tables,
            engine.table(knots[0]),
            engine.whole(count),
            engine.number((count - 1) / max(duration, 1e-9)),
            engine.number(line_time_s),
            engine.number(exposure_s),
            engine.number(aperture_m),
            engine.number(min(focus_m, 1e9)),
        )

    def pixel(self, index: Int) -> tuple[Int, Int, Int]:
        """Number, row and column of the pixel at a position of the tracing order."""
        dr, mi = running_engine().dr, running_engine().mi
        pixel = dr.gather(mi.UInt32, self.order, index)
        row = pixel // self.width
        return pixel, row, pixel - row * self.width

    def ray(
        self, row: Int, column: Int, across: Reals, down: Reals, moment: Reals, lens: tuple[Float, Float] | None
    ) -> Ray:
        """Rays through positions `across` and `down` within pixels, at `moment` of the exposure, all from 0 to 1.

        `lens` is the position on the aperture, as a point of the unit disc; None for its centre.
        """
        dr, mi = running_engine().dr, running_engine().mi
        place = row * (self.width + 1) + column
        rows = [dr.gather(mi.Vector4f, self.corners, place + k) for k in (0, 1, self.width + 1, self.width + 2)]
        top = dr.lerp(rows[0], rows[1], across)
        corner = dr.lerp(top, dr.lerp(rows[2], rows[3], across), down)
        local = dr.normalize(mi.Vector3f(corner.x, corner.y, corner.z))
        time = mi.Float(row) * self.line_time + moment * self.exposure
        position, turn = interpolate_knots(dr, mi, self.knots, 0, time * self.knots_per_s, self.knot_count)
        start = mi.Vector3f(0.0)
        forward = local.x
        if self.has_aperture and lens is not None:
            # All rays of a pixel meet in the focal plane.
            sharp = local * (self.focus / local.x)
            start = mi.Vector3f(0.0, lens[0] * self.aperture, lens[1] * self.aperture)
            local = dr.normalize(sharp - start)
        origin = mi.Point3f(position + rotate(dr, mi, turn, start))
        return Ray(origin, rotate(dr, mi, turn, local), time, forward)

    def axis(self, time: Float) -> tuple[Vectors, Vectors4]:
        """Position and quaternion of the camera at times after the start [s]."""
        dr, mi = running_engine().dr, running_engine().mi
        return interpolate_knots(dr, mi, self.knots, 0, time * self.knots_per_s, self.knot_count)


def upload(engine: Engine, corners: NDArray[np.float32]) -> tuple[Any, Any]:
    """Tracing order and corner directions (h + 1, w + 1, 3), on the device."""
    height, width = corners.shape[0] - 1, corners.shape[1] - 1
    row, column = np.divmod(np.arange(height * width), width)
    order = np.lexsort((column % TILE, row % TILE, column // TILE, row // TILE))
    fours = np.pad(corners.reshape(-1, 3), ((0, 0), (0, 1))).astype(np.float32)
    return engine.table(order), engine.table(fours)
