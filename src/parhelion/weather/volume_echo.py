"""Echo of a volume of scatterers such as fog, and the pulse shape that it shares with surface echoes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import namespace
from parhelion.core.errors import ConfigError

_NEAREST_M = 0.05
_PANELS, _NODES = 256, 3


def pulse_shape(offset_m: Any, *, length_m: Any) -> Any:
    """Pulse over range with peak 1 at 0: cos^2(pi x / L) for |x| < L / 2, L = c tau_H.

    This is the emitted sin^2(pi t / 2 tau_H) on [0, 2 tau_H] with x = c t / 2 measured from its peak. The half-power
    width is tau_H in time and L / 2 in range. NumPy or Dr.Jit arrays.
    """
    xp = namespace(offset_m)
    wave = xp.cos(np.pi * offset_m / length_m)
    return xp.where(xp.abs(offset_m) < 0.5 * length_m, wave * wave, 0.0 * wave)


def soft_echo(
    range_m: ArrayLike,
    *,
    extinction_per_m: float,
    backscatter_per_m_sr: float,
    pulse_length_m: float,
    overlap: Callable[[NDArray[np.float64]], ArrayLike],
) -> NDArray[np.float64]:
    """Signal of homogeneous fog at each range, P / C [1/(m^2 sr)]: beta x integral of p(R - r) T^2(r) xi(r) / r^2 dr.

    The pulse p(x) = cos^2(pi x / L) for |x| < L / 2 has a peak of 1 at 0, with L = c tau_H, so that the signal has the
    units of a surface echo: rho / pi T^2 xi / R^2. Accurate to 1e-4, including kinks of `overlap`. Fog within 5 cm is
    left out, where 1 / r^2 is not meaningful. Single scattering, valid while alpha R is not much larger than 1.
    """
    return SoftEchoShares.of(range_m, pulse_length_m, overlap).signal(extinction_per_m, backscatter_per_m_sr)


@dataclass(frozen=True, eq=False)
class SoftEchoShares:
    """Contribution of each fog segment to the signal at each range without attenuation; independent of the fog."""

    r: NDArray[np.float64]
    """Ranges of the segments [m]; those of one signal are along the last axis."""
    share: NDArray[np.float64]
    """p(R - r) xi(r) / r^2 dr [1/m]."""

    def signal(self, extinction_per_m: float, backscatter_per_m_sr: float) -> NDArray[np.float64]:
        """Signal of homogeneous fog at each range, see `soft_echo`."""
        alpha, beta = float(extinction_per_m), float(backscatter_per_m_sr)
        for name, value in (("extinction_per_m", alpha), ("backscatter_per_m_sr", beta)):
            if not (np.isfinite(value) and value >= 0.0):
                raise ConfigError(f"{name}: must be finite and 0 or more, got {value!r}")
        return np.asarray(beta * np.sum(self.share * np.exp(-2.0 * alpha * self.r), axis=-1))

    @classmethod
    def of(
        cls, range_m: ArrayLike, pulse_length_m: float, overlap: Callable[[NDArray[np.float64]], ArrayLike]
    ) -> SoftEchoShares:
        """Shares for signals at these ranges."""
        length = float(pulse_length_m)
        if not (np.isfinite(length) and length > 0.0):
            raise ConfigError(f"pulse_length_m: must be finite and above 0 m, got {length!r}")
        centre = np.asarray(range_m, dtype=np.float64)
        bad = ~(np.isfinite(centre) & (centre >= 0.0))
        if np.any(bad):
            raise ConfigError(f"range_m: must be finite and 0 m or more, got {centre[bad].flat[0]:g}")
        low = np.maximum(centre - 0.5 * length, _NEAREST_M)
        # If the pulse does not extend beyond 5 cm, the interval is empty.
        high = np.maximum(centre + 0.5 * length, low)
        node, weight = np.polynomial.legendre.leggauss(_NODES)
        share = ((np.arange(_PANELS)[:, None] + 0.5 * (node + 1.0)) / _PANELS).ravel()
        weights = np.tile(0.5 * weight / _PANELS, _PANELS)
        # Equal steps in ln r follow 1 / r^2 near the sensor; far away they are nearly equal steps in r.
        span = np.log(high / low)[..., None]
        r = low[..., None] * np.exp(span * share)
        offset = centre[..., None] - r
        pulse = pulse_shape(offset, length_m=length)
        # dr = r d(ln r), which cancels one r of 1 / r^2.
        return cls(r, pulse * np.asarray(overlap(r)) / r * weights * span)
