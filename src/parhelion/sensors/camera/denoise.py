"""Smoothing the grain of few rays with Intel's Open Image Denoise. The picture is then no longer without bias."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import MissingDependencyError


def denoised(radiance: NDArray[np.float32]) -> NDArray[np.float32]:
    """Band radiance (h, w, bands) without its grain.

    Bands are smoothed three at a time, each three with the same network; noise of the sensor comes afterwards.
    """
    run = _denoiser()
    bands = radiance.shape[2]
    result = np.empty_like(radiance)
    for first in range(0, bands, 3):
        # Three bands at least: the last ones are repeated where there are fewer.
        chosen = [min(first + k, bands - 1) for k in range(3)]
        colour = np.ascontiguousarray(radiance[..., chosen], dtype=np.float32)
        smooth = np.asarray(run(colour, hdr=True))
        for k, band in enumerate(chosen):
            result[..., band] = smooth[..., k]
    return np.maximum(result, 0.0)


def _denoiser() -> Any:
    try:
        from pyoidn import denoise
    except ImportError:
        raise MissingDependencyError(
            "denoise: needs the package pyoidn: run 'pip install parhelion[denoise]'"
        ) from None
    return denoise
