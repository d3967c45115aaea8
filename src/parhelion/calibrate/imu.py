"""Allan deviation: difference between the means over consecutive intervals of length τ.

White noise falls as N / √τ, a Gauss-Markov bias rises as √τ, reaches its highest point near 1.9 correlation times, and
falls again. Definitions as in IEEE Std 952 (gyro test procedures) and NIST SP 1065 (Riley 2008).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.noise import GAUSS_MARKOV_PEAK
from parhelion.core.pose import Floats


def allan_deviation(values: ArrayLike, rate_hz: float, tau_s: ArrayLike | None = None) -> tuple[Floats, Floats]:
    """Overlapping Allan deviation of evenly sampled values: τ [s], shape (m,), and deviation, (m,) or (m, k).

    `values` have shape (n,) or (n, k). `tau_s` are rounded to whole samples. The default is 20 per decade up to a
    tenth of the record; a single record constrains longer times poorly.
    """
    data = np.asarray(values, dtype=np.float64)
    n = data.shape[0] if data.ndim in (1, 2) else 0
    if n < 3 or not np.all(np.isfinite(data)):
        raise ConfigError(f"allan deviation: values must be at least 3 finite samples, got shape {data.shape}")
    if not (np.isfinite(rate_hz) and rate_hz > 0):
        raise ConfigError(f"rate_hz: must be above 0, got {rate_hz!r}")
    if tau_s is None:
        wanted = np.geomspace(1.0, max(n // 10, 1), max(2, int(20 * np.log10(max(n / 10, 1.0))) + 1))
    else:
        wanted = np.asarray(tau_s, dtype=np.float64) * rate_hz
    if wanted.ndim != 1 or not np.all(np.isfinite(wanted)):
        raise ConfigError("tau_s: must be a list of finite numbers")
    spans = np.unique(np.rint(wanted).astype(np.int64))
    if spans[0] < 1 or spans[-1] > (n - 1) // 2:
        raise ConfigError(f"tau_s: must be from {1 / rate_hz:g} to {(n - 1) // 2 / rate_hz:g} s for these samples")
    # The deviation does not depend on the mean; subtracting it avoids rounding errors in the cumulative sums.
    total = np.concatenate([np.zeros((1, *data.shape[1:])), np.cumsum(data - data.mean(axis=0), axis=0)])
    deviation = [
        np.sqrt(np.mean((total[2 * m :] - 2.0 * total[m:-m] + total[: -2 * m]) ** 2, axis=0) / 2.0) / m
        for m in spans.tolist()
    ]
    return spans / rate_hz, np.array(deviation)


def gauss_markov_allan(tau_s: ArrayLike, sigma: float, correlation_time_s: float) -> Floats:
    """Allan deviation of a continuous first-order Gauss-Markov process of standard deviation `sigma`.

    σ²(τ) = (2 σ² / x) [1 - (3 - 4 e^-x + e^-2x) / (2x)], x = τ / correlation time (IEEE Std 952).
    """
    x = np.asarray(tau_s, dtype=np.float64) / correlation_time_s
    with np.errstate(divide="ignore", invalid="ignore"):
        bracket = 1.0 - (3.0 - 4.0 * np.exp(-x) + np.exp(-2.0 * x)) / (2.0 * x)
    # The closed form suffers from cancellation at small x.
    series = x * x * (1.0 / 3.0 - x * (0.25 - x * 7.0 / 60.0))
    return sigma * np.sqrt(2.0 / x * np.where(x < 3e-3, series, bracket))


@dataclass(frozen=True)
class AllanFit:
    """White noise plus a Gauss-Markov bias, fitted to a measured Allan deviation."""

    white_noise: float
    """N: Allan deviation of the white part at 1 s, in the unit of the values per √Hz."""
    bias_instability: float
    """Highest Allan deviation of the bias, in the unit of the values."""
    correlation_time_s: float
    """Correlation time of the bias."""

    @property
    def bias_sigma(self) -> float:
        """Standard deviation of the bias itself, in the unit of the values."""
        return self.bias_instability / GAUSS_MARKOV_PEAK

    def deviation(self, tau_s: ArrayLike) -> Floats:
        """Allan deviation of the fit at τ [s]."""
        tau = np.asarray(tau_s, dtype=np.float64)
        walk = gauss_markov_allan(tau, self.bias_sigma, self.correlation_time_s)
        return np.sqrt(self.white_noise**2 / tau + walk**2)


def fit_allan(tau_s: ArrayLike, deviation: ArrayLike) -> AllanFit:
    """Least-squares fit of the logarithm, weighted by 1 / √τ because long times have fewer independent intervals.

    The record should span about twenty correlation times, and τ should include the maximum of the bias. One record of
    T seconds determines the deviation at τ to about √(τ / 2T). Average several records of one sensor in variance first.
    """
    from scipy.optimize import least_squares

    tau, measured = np.asarray(tau_s, dtype=np.float64), np.asarray(deviation, dtype=np.float64)
    if tau.ndim != 1 or tau.shape != measured.shape or tau.size < 4:
        raise ConfigError("allan fit: give at least four pairs of tau_s and deviation")
    if not (np.all(np.isfinite(measured)) and np.all(measured > 0) and np.all(np.isfinite(tau)) and np.all(tau > 0)):
        raise ConfigError("allan fit: tau_s and deviation must be finite and above 0")
    weight = 1.0 / np.sqrt(tau)
    weight /= np.linalg.norm(weight)

    def misfit(logs: Floats) -> Floats:
        fit = AllanFit(*np.exp(logs).tolist())
        return weight * np.log(fit.deviation(tau) / measured)

    white = measured[0] * np.sqrt(tau[0])
    # Several starting points, because a bias whose maximum lies outside the given times is a local minimum.
    starts = [np.log([white, measured.min(), time]) for time in np.geomspace(tau[0], tau[-1], 5)]
    lowest = np.log([white * 1e-6, measured.min() * 1e-6, tau[0] / 100.0])
    highest = np.log([white * 1e6, measured.max() * 1e3, tau[-1] * 100.0])
    found = [least_squares(misfit, start, bounds=(lowest, highest)) for start in starts]
    best = min(found, key=lambda result: float(result.cost))
    return AllanFit(*np.exp(best.x).tolist())
