"""Lobes: which share of a patch's facets faces a direction, and a transducer's gain. NumPy and Dr.Jit arrays alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from parhelion.core.arrays import namespace


def beckmann(cosine: Any, first: Any, second: Any, m2_first: Any, m2_second: Any) -> Any:
    """Density of facet normals [1/sr] about a direction: Beckmann's, with its own width along two axes.

    `cosine`, `first` and `second` are the direction's components along the normal and two axes of the surface; the
    widths m^2 are twice the variance of slopes. Over the half-sphere, density times cosine integrates to 1 (Beckmann
    and Spizzichino 1963; Walter et al. 2007).
    """
    xp = namespace(cosine, m2_first)
    safe = xp.maximum(cosine, 1e-4)
    inverse = 1.0 / (safe * safe)
    exponent = (first * first / m2_first + second * second / m2_second) * inverse
    value = xp.exp(-exponent) * inverse * inverse / (np.pi * xp.sqrt(m2_first * m2_second))
    return xp.where(cosine > 1e-4, value, 0.0)


HALF_POWER = 4.0 * float(np.log(2.0))


def beam_gain(x: Any, aside: Any, up: Any, across: Any, upward: Any, floor: Any) -> Any:
    """Power gain over that of the axis into unit directions (x forward, `aside`, `up`): a bell with a floor.

    `across` and `upward` are full widths at half power over both direction cosines; behind there is nothing.
    """
    xp = namespace(up, x)
    a, b = aside / across, up / upward
    bell = xp.maximum(xp.exp(-HALF_POWER * (a * a + b * b)), floor)
    return xp.where(x > 0.0, bell, 0.0)


def lobe_width2(length: Any, bend2: Any, slope2: Any, wavelength: Any, zone: Any, spacing: Any, distance: Any) -> Any:
    """Square of the lobe's width m along one axis of a patch.

    Roughness, the angle to the next facets, and diffraction at the patch: lambda^2 / (4 pi L^2), where a patch larger
    than the Fresnel zone (area `zone` [m^2]) counts as large as the zone. With that a plate at a distance sends back
    4 pi A^2 / lambda^2, and a wall as a mirror does, pi R^2. Of patches many rays wide, the rays' own spacing [rad] is
    added: it blurs where a wall answers, not how strongly.
    """
    xp = namespace(length, bend2)
    square = length * length
    seen = xp.minimum(square, zone)
    footprint = 3.0 * spacing * distance
    wide = xp.where(length > footprint, spacing * spacing, 0.0)
    return slope2 + bend2 + wide + wavelength * wavelength / (4.0 * np.pi * xp.maximum(seen, 1e-12))
