"""Sun and sky under a layer of cloud or fog: less beam, more even light."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.sensors.light.sky import SkyLight, cell_directions, cosine_weights

Floats = NDArray[np.float64]

CLOUD_ASYMMETRY = 0.85
"""Mean cosine of scattering of visible light by cloud drops of about 10 um (Stephens 1978)."""


def layer_transmittance(optical_depth: float, g: float, cosine: float) -> float:
    """Share of a beam's power on level ground that comes through a layer, straight or scattered.

    Two-stream with Eddington's closure and delta scaling (Joseph, Wiscombe and Weinman 1976), drops that absorb
    nothing, black ground: [2 + 3 m + (2 - 3 m) exp(-t'/m)] / [4 + 3 (1 - g) t], t' = (1 - g^2) t, m the cosine of the
    beam to the zenith, t the layer's vertical optical depth. 1 at t = 0. Valid for m from 0 to 1.
    """
    straight = float(np.exp(-(1.0 - g * g) * optical_depth / max(cosine, 1e-6)))
    return (2.0 + 3.0 * cosine + (2.0 - 3.0 * cosine) * straight) / (4.0 + 3.0 * (1.0 - g) * optical_depth)


def diffuse_transmittance(optical_depth: float, g: float) -> float:
    """The same for light from all directions alike: 1 / (1 + 3/4 (1 - g) t); the rest goes back up."""
    return 1.0 / (1.0 + 0.75 * (1.0 - g) * optical_depth)


def overcast_shape(sin_elevation: Floats) -> Floats:
    """CIE overcast sky: radiance over that of the zenith, (1 + 2 sin e) / 3 (Moon and Spencer 1942)."""
    return np.asarray((1.0 + 2.0 * np.clip(sin_elevation, 0.0, 1.0)) / 3.0)


def under_cloud(sky: SkyLight, optical_depth: float, g: float = CLOUD_ASYMMETRY) -> SkyLight:
    """The light under an even layer of vertical `optical_depth` (0 to 1000) and asymmetry `g` (-1 to 1).

    The beam and the sky's own radiance fade by exp(-t / sin e). What the layer scatters down has the shape of the CIE
    overcast sky, and its power is that of the two streams; light goes back and forth between layer and ground. Drops
    absorb nothing, which holds below about 1.3 um.
    """
    if not 0.0 <= optical_depth <= 1000.0:
        raise ConfigError(f"light: an optical depth must be from 0 to 1000, got {optical_depth:g}")
    if not -1.0 < g < 1.0:
        raise ConfigError(f"light: the asymmetry of scattering must be between -1 and 1, got {g:g}")
    if optical_depth == 0.0:
        return sky
    shape = sky.radiance.shape[:2]
    up, cosines = cell_directions(*shape)[..., 2], cosine_weights(*shape)
    cosine = max(float(sky.sun_direction[2]), 0.0)
    fade = float(np.exp(-optical_depth / max(cosine, 1e-6))) if cosine > 0.0 else 0.0
    through, spread = layer_transmittance(optical_depth, g, cosine), diffuse_transmittance(optical_depth, g)
    # One pass more for each reflection between ground and layer.
    repeats = 1.0 / (1.0 - sky.ground_albedo * (1.0 - spread))

    def total(beam: Floats, diffuse: Floats) -> Floats:
        """What arrives on level ground of a beam (normal to it) and of diffuse light."""
        return (beam * cosine * through + diffuse * spread) * repeats

    level = total(sky.sun_irradiance, sky.diffuse_irradiance)
    seen = np.where(up > 0.0, np.exp(-optical_depth / np.maximum(up, 1e-6)), 0.0)[..., None] * sky.radiance
    beam = sky.sun_irradiance * fade
    scattered = level - beam * cosine - np.tensordot(cosines, seen, axes=2)
    even = overcast_shape(up)
    even = even / float((cosines * even).sum())
    table = seen + even[..., None] * np.maximum(scattered, 0.0)
    table[up < 0.0] = sky.ground_albedo * level / np.pi
    sun_lux = sky.sun_illuminance_lux
    sky_lux = sky.illuminance_lux - sun_lux * cosine
    radiance = table.astype(np.float32)
    for array in (radiance, beam, level):
        array.setflags(write=False)
    return replace(
        sky,
        radiance=radiance,
        sun_irradiance=beam,
        horizontal_irradiance=level,
        illuminance_lux=float(total(np.array(sun_lux), np.array(sky_lux))),
        sun_illuminance_lux=sun_lux * fade,
    )
