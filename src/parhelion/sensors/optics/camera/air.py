"""Extinction and airlight between the lens and the first surface.

    L = L_0 exp(-tau) + L_air (1 - exp(-tau))

(Koschmieder 1924.) The optical depth tau is that of the same weather as for the lidar, including heterogeneous fog and
dust, at the centre wavelength of each band. Only the path between the lens and the first surface is treated.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, pi

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import UNSET, Float, Int, Reals, namespace
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.optics.air import Air, DepthTable, DeviceField, DeviceGrid, GridDepth, integrate
from parhelion.sensors.optics.beams import BeamAim, Beams
from parhelion.sensors.optics.camera.view import Ray, View
from parhelion.weather.air import AirContents

GROUP = 64
"""Neighbouring pixels that share one integral of heterogeneous weather."""


@kernel_tree()
@dataclass
class AirLight:
    """Air in front of the camera."""

    air: Air
    """Extinction at the wavelength of the first band."""
    ratio: list[Float]
    """Extinction of each band relative to the first."""
    top: Float
    """Thickness of the layer above the camera [m]; rays to the sky leave it there."""
    even: list[Float]
    """Radiance of an opaque layer under diffuse light [W/(m^2 sr)], per band."""
    from_sun: list[Float]
    """Contribution of the sun before multiplication by the phase function [W/m^2], per band."""
    sun: list[Float]
    """Unit direction to the sun."""
    asymmetry: Float
    """Mean cosine of the scattering angle."""
    even_extinction: Float
    """Extinction outside of media on grids, at the wavelength of the first band [1/m]."""
    grid_ratio: list[Float]
    """Extinction of the media on grids in each band relative to the first; empty without such media."""
    grid_returns: list[Float]
    """Share of the light that an opaque layer of these media returns, per band."""

    def along(self, ray: Ray, index: Int, length: Float) -> tuple[list[Float], list[Float]]:
        """Transmittance and airlight [W/(m^2 sr)] of each band along rays."""
        dr, mi = running_engine().dr, running_engine().mi
        xp = namespace(length)
        out = self.top / xp.maximum(dr.abs(ray.direction.z), 1e-4)
        frame = BeamAim(ray.direction, UNSET, ray.origin, ray.time, mi.Float(0.0), index)
        path = xp.minimum(length, out)
        depth = self.air.depth(frame, path)
        phase = henyey_greenstein(dr.dot(ray.direction, mi.Vector3f(*self.sun)), self.asymmetry)
        lit = [even + sun * phase for even, sun in zip(self.even, self.from_sun, strict=True)]
        if not self.grid_ratio:
            passed = [dr.exp(-depth * ratio) for ratio in self.ratio]
            return passed, [light * (1.0 - share) for light, share in zip(lit, passed, strict=True)]
        # Media on grids are clouds in front of the rest of the air.
        behind = xp.minimum(self.even_extinction * path, depth)
        through = [dr.exp(-behind * ratio) for ratio in self.ratio]
        cloud = [dr.exp(-(depth - behind) * ratio) for ratio in self.grid_ratio]
        glow = [
            light * (returned * (1.0 - near) + near * (1.0 - far))
            for light, returned, near, far in zip(lit, self.grid_returns, cloud, through, strict=True)
        ]
        return [near * far for near, far in zip(cloud, through, strict=True)], glow


def henyey_greenstein(cos_angle: Reals, asymmetry: Reals) -> Reals:
    """Phase function of Henyey and Greenstein 1941 [1/sr].

    `cos_angle` is the cosine of the scattering angle, 1 for forward scattering (a camera that looks towards the sun).
    The integral over all directions is 1. Valid for |asymmetry| < 1.
    """
    xp = namespace(cos_angle, asymmetry)
    square = asymmetry * asymmetry
    base = xp.maximum(1.0 + square - 2.0 * asymmetry * cos_angle, 1e-6)
    return (1.0 - square) / (4.0 * pi) / (base * xp.sqrt(base))


def air_of(
    engine: Engine,
    view: View,
    contents: AirContents,
    clear_extinction: float,
    origin: NDArray[np.float64],
    reach: Float,
) -> Air:
    """Air of the given contents along the pixels of a view."""
    extinction = clear_extinction + sum(part.extinction_per_m for part in contents.components if part.field is None)
    fields = [DeviceField.of(engine, part, contents, origin) for part in contents.components if part.field is not None]
    air = Air(engine.number(extinction))
    if not fields and not contents.grids:
        return air
    beams = _middles(engine, view)
    group = gcd(GROUP, beams.count)
    tables: list[DepthTable | GridDepth] = []
    if fields:
        tables.append(integrate(engine, beams, group, fields, reach))
    for one in contents.grids:
        grid = DeviceGrid.of(engine, one.grid, one.per_mass, origin)
        tables.append(GridDepth.of(engine, beams, group, grid, reach))
    air.tables = tables
    return air


def _middles(engine: Engine, view: View) -> Beams:
    """Central rays of all pixels, in tracing order."""
    dr, mi = engine.dr, engine.mi
    count = view.width * view.height
    _, row, column = view.pixel(dr.arange(mi.UInt32, count))
    ray = view.ray(row, column, 0.5, 0.5, 0.5, None)
    zero = mi.Float(0.0)
    rows = (
        dr.ravel(mi.Vector4f(ray.direction.x, ray.direction.y, ray.direction.z, ray.time)),
        dr.ravel(mi.Vector4f(zero, zero, zero, zero)) if count == 1 else dr.zeros(mi.Float, 4 * count),
        dr.ravel(mi.Vector4f(ray.origin.x, ray.origin.y, ray.origin.z, 0.0)),
    )
    scan, shot = dr.zeros(mi.UInt32, count), dr.arange(mi.UInt32, count)
    dr.eval(rows, scan, shot)
    return Beams(count, scan, shot, rows)
