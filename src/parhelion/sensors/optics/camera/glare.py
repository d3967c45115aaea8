"""Glare of a lens: a share of the light is scattered over the picture, so that lamps at night have halos.

The lens scatters the share g of the light of each point over angles t with the point spread

    p(t) ~ 1 / (t^2 + t_0^2)

which is that of a polished surface with a roughness whose scatter falls with the square of the angle (J. E. Harvey,
"Light-scattering characteristics of optical surfaces", University of Arizona, 1976, slope s = -2); t_0 is the angle of
a pixel. ISO 9358:1994 defines the veiling glare of lenses; those of good ones scatter 1 to 3 %. Light from outside of
the picture counts as the mean of what the kernel covers within it, so that an even picture stays even.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

Array = NDArray[np.float32]


def spread_kernel(height: int, width: int) -> NDArray[np.float64]:
    """Point spread at all offsets within a picture, of sum 1, shape (2 height - 1, 2 width - 1)."""
    down = np.arange(1 - height, height, dtype=np.float64)[:, None]
    across = np.arange(1 - width, width, dtype=np.float64)[None, :]
    kernel = 1.0 / (down**2 + across**2 + 1.0)
    return np.asarray(kernel / kernel.sum())


def with_glare(radiance: Array, share: float) -> Array:
    """Radiance (h, w, bands) of which a lens scatters this share over the picture."""
    kernel = spread_kernel(*radiance.shape[:2])
    inside = fftconvolve(np.ones(radiance.shape[:2]), kernel, mode="same")
    found = np.empty_like(radiance)
    for band in range(radiance.shape[2]):
        plane = radiance[..., band].astype(np.float64)
        # Rounding of the transform leaves tiny negative values next to bright lamps.
        scattered = np.maximum(fftconvolve(plane, kernel, mode="same"), 0.0) / inside
        found[..., band] = (1.0 - share) * plane + share * scattered
    return found
