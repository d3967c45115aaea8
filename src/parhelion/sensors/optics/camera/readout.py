"""Read-out of a pixel: photons, electrons, noise, converter.

Written once for NumPy and Dr.Jit. Each random draw is a function of the pixel number and the stream key, so images do
not depend on threads or batches.

Sources: EMVA Standard 1288 (photons, dark signal, gain, non-uniformity); R. A. Fisher and E. A. Cornish, "The
percentile points of distributions having known cumulants", Technometrics 2, 1960 (Poisson numbers of large mean).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Keys, Reals, is_drjit, namespace
from parhelion.core.constants import PLANCK_J_S, SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.core.random import to_normal, to_unit, words
from parhelion.sensors.optics.camera.pixel_planes import Array

EXACT_POISSON_MEAN = 16.0
"""Largest mean for which Poisson numbers are drawn by inversion. Larger means use the expansion of Fisher and Cornish,
whose distribution function has an error of at most 1.3e-4 at 16, 2.3e-5 at 50 and 8e-6 at 100."""
_MOST_STEPS = 64
"""Largest number drawn by inversion: larger ones have a probability below 1e-17."""


def irradiance(radiance: Array, *, f_number: Reals, transmission: Reals) -> Array:
    """Irradiance on the axis [W/m^2] of a scene of radiance L [W/(m^2 sr)], focused at infinity: pi L tau / (4 N^2)."""
    return radiance * (math.pi * transmission / (4.0 * f_number * f_number))


def falloff(cos_axis: Array, strength: float = 1.0) -> Array:
    """Relative illumination by the cosine of the angle to the axis: cos^(4 strength).

    A strength of 1 is the natural law of a thin lens, 0 no falloff. Mechanical vignetting exceeds 1; retrofocus lenses
    are below 1.
    """
    squared = cos_axis * cos_axis
    if strength == 1.0:
        return squared * squared
    return namespace(cos_axis).power(squared, 2.0 * strength)


def electrons_per_radiance(
    *, pixel_um: float, wavelength_nm: float, quantum_efficiency: float, f_number: float, transmission: float
) -> float:
    """Electrons per second in an on-axis pixel per radiance [W/(m^2 sr)] of a band: QE E A lambda / (h c)."""
    area = (pixel_um * 1e-6) ** 2
    photons = area * wavelength_nm * 1e-9 / (PLANCK_J_S * SPEED_OF_LIGHT_M_S)
    return quantum_efficiency * photons * float(irradiance(1.0, f_number=f_number, transmission=transmission))


def fixed_pattern(element: Array, key: Keys) -> tuple[Array, Array]:
    """Two constant standard normal numbers per pixel, for its response (PRNU) and its dark signal (DSNU)."""
    a, b, _, _ = words(key, element)
    return to_normal(a, b)


def poisson(mean: Array, word_a: Array, word_b: Array) -> Array:
    """Poisson numbers for each mean from two random words, as floats.

    Up to EXACT_POISSON_MEAN, the distribution function is inverted with the 2^-23 resolution of a uniform number.
    Beyond,

        floor(1/2 + mu + sqrt(mu) z + (z^2 - 1) / 6 - (z^3 + 2 z) / (72 sqrt(mu)))

    with z normal. This is the normal approximation with corrections for skewness, kurtosis and rounding (Sheppard's
    correction, 1/12 of the variance).
    """
    xp = namespace(mean, word_a)
    normal, _ = to_normal(word_a, word_b)
    root = xp.sqrt(xp.maximum(mean, EXACT_POISSON_MEAN))
    squared = normal * normal
    bent = (squared - 1.0) * (1.0 / 6.0) + normal * (squared + 2.0) / (-72.0 * root)
    expanded = xp.maximum(xp.floor(root * root + root * normal + bent + 0.5), 0.0)
    exact = _inverted(xp.clip(mean, 0.0, EXACT_POISSON_MEAN), to_unit(word_a), mean <= EXACT_POISSON_MEAN)
    return xp.where(mean <= EXACT_POISSON_MEAN, exact, expanded)


def _inverted(mean: Array, uniform: Array, wanted: Array) -> Array:
    """Poisson numbers of small mean: the smallest k whose distribution function reaches `uniform`."""
    xp = namespace(mean, uniform)
    chance = xp.exp(-mean)

    def going(k: Array, chance: Array, below: Array) -> Array:
        return wanted & (below < uniform) & (k < _MOST_STEPS)

    def step(k: Array, chance: Array, below: Array) -> tuple[Array, Array, Array]:
        k = k + 1.0
        chance = chance * mean / k
        return k, chance, below + chance

    state = (0.0 * mean, chance, chance + 0.0)
    if is_drjit(mean):
        import drjit as dr

        return dr.while_loop(state, going, step)[0]
    for _ in range(_MOST_STEPS):
        active = going(*state)
        if not active.any():
            break
        state = tuple(xp.where(active, new, old) for new, old in zip(step(*state), state, strict=True))  # type: ignore[assignment]
    return state[0]


def collected(
    signal: Array,
    element: Array,
    noise_key: Keys,
    pattern_key: Keys,
    *,
    dark_e: Reals,
    prnu: Reals,
    dsnu_e: Reals,
    full_well_e: Reals,
    read_noise_e: Reals,
    patterned: bool = True,
    noisy: bool = True,
) -> Array:
    """Electrons at the amplifier of a pixel, for the mean photo-signal `signal` [e].

    `dark_e` is the mean dark signal [e] of the exposure. Shot noise covers light and dark signal together. Electrons
    beyond the full well are lost. `patterned` and `noisy` select the kernel.
    """
    xp = namespace(signal, element)
    mean = signal + dark_e
    offset = 0.0
    if patterned:
        response, dark = fixed_pattern(element, pattern_key)
        mean = signal * xp.maximum(1.0 + prnu * response, 0.0) + dark_e
        offset = dsnu_e * dark
    if not noisy:
        return xp.minimum(mean, full_well_e) + offset
    a, b, c, d = words(noise_key, element)
    electrons = xp.minimum(poisson(mean, a, b), full_well_e)
    return electrons + offset + read_noise_e * to_normal(c, d)[0]


def digitised(electrons: Array, *, dn_per_e: Reals, black_level_dn: Reals, largest_dn: Reals) -> Array:
    """Digital numbers as floats: black level plus gain times electrons, rounded and clipped to the converter range."""
    xp = namespace(electrons)
    return xp.clip(xp.floor(black_level_dn + dn_per_e * electrons + 0.5), 0.0, largest_dn)


# ---- Exposure time and gain: fixed, or chosen automatically ---------------------------------------------------------
# Automatic exposure depends on the current frame only, so that a frame is the same alone and in a sequence.


_LEAST_LOG2 = -8.0
_OCTAVES = 40
_PER_OCTAVE = 128
BINS = _OCTAVES * _PER_OCTAVE
"""Bins of the light meter: 128 per octave, from 2^-8 to 2^32 electrons/s. A bin is 0.54 % wide."""


@dataclass(frozen=True)
class Exposure:
    """Settings of one exposure."""

    time_s: float
    """Exposure time [s]."""
    gain_db: float = 0.0
    """Gain [dB]."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time_s) and self.time_s > 0.0 and math.isfinite(self.gain_db)):
            raise ConfigError(f"exposure: time_s must be above 0, got {self.time_s!r} s and {self.gain_db!r} dB")


@dataclass(frozen=True)
class AutoExposure:
    """Limits and target of automatic exposure."""

    min_time_s: float = 20e-6
    """Shortest exposure time [s]."""
    max_time_s: float = 0.02
    """Longest exposure time [s]."""
    gain_db: float = 0.0
    """Smallest gain [dB], used until the exposure time is at its limit."""
    max_gain_db: float = 24.0
    """Largest gain [dB]."""
    target: float = 0.18
    """Target level of the linear raw signal, 0 black and 1 saturated."""
    meter: Literal["mean", "percentile"] = "mean"
    """Statistic that reaches the target: the mean of the digitised signal, or a percentile."""
    percentile: float = 99.0
    """Percentile of the meter `percentile`."""

    def __post_init__(self) -> None:
        if not 0.0 < self.min_time_s <= self.max_time_s < math.inf:
            raise ConfigError("exposure: must have 0 < min_time_s <= max_time_s")
        if not self.gain_db <= self.max_gain_db:
            raise ConfigError("exposure: gain_db must not be above max_gain_db")
        if not 0.0 < self.target < 1.0 or not 0.0 < self.percentile <= 100.0:
            raise ConfigError("exposure: target must lie between 0 and 1, percentile between 0 and 100")


def meter_bin(rate: Array) -> Array:
    """Bin number of a photo-current [electrons/s], as a float."""
    xp = namespace(rate)
    level = (xp.log(xp.maximum(rate, 1e-30)) * (1.0 / math.log(2.0)) - _LEAST_LOG2) * _PER_OCTAVE
    return xp.clip(xp.floor(level), 0.0, BINS - 1.0)


def meter(rate: Array) -> Any:
    """Number of pixels per bin. Integer counts do not depend on the order of summation."""
    if not is_drjit(rate):
        return np.bincount(meter_bin(rate).astype(np.int64), minlength=BINS)
    import drjit as dr

    kind = dr.uint32_array_t(type(rate))
    counts = dr.zeros(kind, BINS)
    dr.scatter_reduce(dr.ReduceOp.Add, counts, kind(1), kind(meter_bin(rate)))
    return counts


def bin_rates() -> NDArray[np.float64]:
    """Photo-current [electrons/s] at the centre of each bin; the lowest bin includes darkness and counts as 0."""
    rates = np.exp2(_LEAST_LOG2 + (np.arange(BINS) + 0.5) / _PER_OCTAVE)
    rates[0] = 0.0
    return rates


def auto_exposure(counts: NDArray[Any], full_scale_e: float, settings: AutoExposure) -> Exposure:
    """Exposure time and gain for the histogram of `meter`.

    The exposure factor k satisfies mean(min(k e, 1)) = target, or k e_percentile = target, where e is the photo-current
    in multiples of `full_scale_e` per second. The time provides k within its limits, and the gain the remainder. The
    histogram adds an error of at most 0.27 %. An image in the dark gets the longest time and the largest gain.
    """
    counts = np.asarray(counts, dtype=np.float64)
    level = bin_rates() / full_scale_e
    if settings.meter == "percentile":
        reached = np.searchsorted(np.cumsum(counts), settings.percentile / 100.0 * counts.sum())
        found = float(level[min(int(reached), BINS - 1)])
        factor = settings.target / found if found > 0.0 else math.inf
    else:
        factor = _factor_for_mean(counts, level, settings.target)
    least_gain = 10.0 ** (settings.gain_db / 20.0)
    time = min(max(factor / least_gain, settings.min_time_s), settings.max_time_s)
    gain_db = settings.max_gain_db if math.isinf(factor) else 20.0 * math.log10(factor / time)
    return Exposure(time, min(max(gain_db, settings.gain_db), settings.max_gain_db))


def _factor_for_mean(counts: NDArray[np.float64], level: NDArray[np.float64], target: float) -> float:
    """Factor k with mean(min(k level, 1)) = target; infinite where too few pixels receive light."""
    total = counts.sum()
    lit = np.flatnonzero((counts > 0.0) & (level > 0.0))
    if len(lit) == 0 or counts[lit].sum() <= target * total:
        return math.inf
    light = np.cumsum(counts[lit] * level[lit])
    brighter = counts[lit].sum() - np.cumsum(counts[lit])
    # With k = 1 / level of a bin, that bin just saturates; the mean decreases with k from bin to bin.
    mean = (light / level[lit] + brighter) / total
    # The last bin that saturates at or above the target mean; all brighter bins are saturated as well.
    last = int(np.flatnonzero(mean >= target)[-1])
    return float((target * total - brighter[last]) / light[last])


# ---- glare of a lens -------------------------------------------------------------------------------------------------


def spread_kernel(height: int, width: int) -> NDArray[np.float64]:
    """Point spread at all offsets within a picture, of sum 1, shape (2 height - 1, 2 width - 1)."""
    down = np.arange(1 - height, height, dtype=np.float64)[:, None]
    across = np.arange(1 - width, width, dtype=np.float64)[None, :]
    kernel = 1.0 / (down**2 + across**2 + 1.0)
    return np.asarray(kernel / kernel.sum())


def with_glare(radiance: NDArray[np.float32], share: float) -> NDArray[np.float32]:
    """Radiance (h, w, bands) of which a lens scatters this share over the picture, so that lamps have halos.

    The lens scatters the share g of the light of each point over angles t with the point spread

        p(t) ~ 1 / (t^2 + t_0^2)

    which is that of a polished surface with a roughness whose scatter falls with the square of the angle (J. E. Harvey,
    "Light-scattering characteristics of optical surfaces", University of Arizona, 1976, slope s = -2); t_0 is the angle
    of a pixel. ISO 9358:1994 defines the veiling glare of lenses; those of good ones scatter 1 to 3 %. Light from
    outside of the picture counts as the mean of what the kernel covers within it, so that an even picture stays even.
    """
    from scipy.signal import fftconvolve

    kernel = spread_kernel(*radiance.shape[:2])
    inside = fftconvolve(np.ones(radiance.shape[:2]), kernel, mode="same")
    found = np.empty_like(radiance)
    for band in range(radiance.shape[2]):
        plane = radiance[..., band].astype(np.float64)
        # Rounding of the transform leaves tiny negative values next to bright lamps.
        scattered = np.maximum(fftconvolve(plane, kernel, mode="same"), 0.0) / inside
        found[..., band] = (1.0 - share) * plane + share * scattered
    return found
