"""The light of sun, sky and ground on the device: what rays see that leave the world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import namespace
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine

SIDE = 129
"""Points along each side of the map of the sky."""


@kernel_tree(fixed=("bands",))
@dataclass
class SkyOnDevice:
    """Radiance of the sky, as a map of the upper half of all directions seen from below in a paraboloid.

    A direction (x, y, z) has its place at x / (1 + z), y / (1 + z): no angle has to be worked out in kernels.
    """

    bands: int
    table: Any
    """Radiance [W/(m^2 sr)] of each point, bands in fours."""
    below: list[Any]
    """Radiance of directions below the horizon, for each band."""
    sun: list[Any]
    """Direction to the sun."""
    sun_irradiance: list[Any]
    """On a surface that faces the sun [W/m^2], for each band."""
    sun_radius: Any
    """Half the angle of the disc [rad]."""
    sun_radiance: list[Any]
    """Of the disc itself, for each band."""

    @classmethod
    def of(
        cls,
        engine: Engine,
        radiance: NDArray[Any],
        below: NDArray[Any],
        sun_direction: NDArray[Any],
        sun_irradiance: NDArray[Any],
        sun_radius_rad: float,
    ) -> SkyOnDevice:
        """From a map (SIDE, SIDE, bands) of the upper half, see `directions`, and the numbers of the sun."""
        bands = radiance.shape[2]
        fours = np.zeros((SIDE * SIDE, 4 * ((bands + 3) // 4)), np.float32)
        fours[:, :bands] = radiance.reshape(-1, bands)
        disc = 2.0 * np.pi * (1.0 - np.cos(sun_radius_rad))
        number = engine.number
        return cls(
            bands, engine.table(fours), [number(float(v)) for v in below], [number(float(v)) for v in sun_direction],
            [number(float(v)) for v in sun_irradiance], number(sun_radius_rad),
            [number(float(v / disc)) for v in sun_irradiance],
        )  # fmt: skip

    def radiance(self, direction: Any, *, with_sun: Any) -> list[Any]:
        """Radiance from a direction, for each band; `with_sun` says where the disc of the sun is seen, too."""
        dr, mi = running_engine().dr, running_engine().mi
        xp = namespace(direction.x)
        scale = 0.5 * (SIDE - 1) / (1.0 + xp.maximum(direction.z, 0.0))
        # Just below the horizon the map's edge is read, which is the horizon itself.
        across, down = (xp.clip(v * scale + 0.5 * (SIDE - 1), 0.0, SIDE - 1.001) for v in (direction.x, direction.y))
        column, row = mi.UInt32(across), mi.UInt32(down)
        fx, fy = across - mi.Float(column), down - mi.Float(row)
        groups = (self.bands + 3) // 4
        found: list[Any] = []
        for group in range(groups):

            def point(k: int, group: int = group) -> Any:
                return dr.gather(mi.Vector4f, self.table, (row * SIDE + column + k) * groups + group)

            four = dr.lerp(dr.lerp(point(0), point(1), fx), dr.lerp(point(SIDE), point(SIDE + 1), fx), fy)
            found += [four.x, four.y, four.z, four.w]
        up = direction.z >= 0.0
        values = [dr.select(up, value, low) for value, low in zip(found[: self.bands], self.below, strict=True)]
        in_disc = mi.Bool(with_sun) & (self.off_sun(direction) < self.sun_radius)
        return [v + dr.select(in_disc, sun, 0.0) for v, sun in zip(values, self.sun_radiance, strict=True)]

    def off_sun(self, direction: Any) -> Any:
        """Angle between directions and the sun's middle [rad], exact for small ones."""
        dr, mi = running_engine().dr, running_engine().mi
        # 1 - cos has no digits left at half a degree in float32; the chord has.
        return dr.norm(direction - mi.Vector3f(*self.sun))

    def to_sun(self, u: tuple[Any, Any]) -> Any:
        """Directions to points of the sun's disc, drawn evenly by two numbers within (0, 1)."""
        dr, mi = running_engine().dr, running_engine().mi
        middle = mi.Vector3f(*self.sun)
        side, up = mi.coordinate_system(middle)
        sine, cosine = dr.sincos(2.0 * np.pi * u[1])
        radius = self.sun_radius * dr.sqrt(u[0])
        return dr.normalize(middle + side * (radius * cosine) + up * (radius * sine))


def directions() -> NDArray[np.float64]:
    """The directions of the map's points, shape (SIDE, SIDE, 3); those outside of its circle lie on the horizon."""
    place = np.linspace(-1.0, 1.0, SIDE)
    y, x = np.meshgrid(place, place, indexing="ij")
    square = x * x + y * y
    z = np.maximum((1.0 - square) / (1.0 + square), 0.0)
    level = np.where(square > 1.0, 1.0 / np.sqrt(np.maximum(square, 1e-12)), 1.0 + z)
    return np.stack([x * level, y * level, z], axis=-1)
