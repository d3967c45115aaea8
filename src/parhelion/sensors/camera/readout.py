"""From light on a pixel to a digital number: photons, electrons, noise, converter.

Written once for NumPy and Dr.Jit. A draw is a function of the pixel's number and the stream's key, so that pictures
do not depend on threads or batches.

Sources: EMVA Standard 1288 (photons, dark signal, gain, non-uniformity); R. A. Fisher and E. A. Cornish, "The
percentile points of distributions having known cumulants", Technometrics 2, 1960 (Poisson numbers of large mean).
"""

from __future__ import annotations

import math
from typing import Any

from parhelion.core.arrays import is_drjit, namespace
from parhelion.core.random import to_normal, to_unit, words
from parhelion.sensors.camera.planes import Array

PLANCK = 6.62607015e-34
"""[J s]"""
LIGHT_SPEED = 299_792_458.0
"""[m/s]"""
EXACT_POISSON_MEAN = 16.0
"""Up to this mean Poisson numbers are drawn by inversion; beyond, by Fisher and Cornish's expansion, whose distribution
function is off by at most 1.3e-4 there, 2.3e-5 at 50 and 8e-6 at 100."""
_MOST_STEPS = 64
"""No number of that mean passes it: the chance is below 1e-17."""


def irradiance(radiance: Array, *, f_number: Any, transmission: Any, falloff: Any = 1.0) -> Array:
    """Irradiance on the sensor [W/m^2] of a scene of radiance L [W/(m^2 sr)]: pi L tau cos^4 / (4 N^2).

    `falloff` is the share of light off the axis (`falloff`); the lens is focused far away.
    """
    return radiance * falloff * (math.pi * transmission / (4.0 * f_number * f_number))


def falloff(cos_axis: Array, strength: float = 1.0) -> Array:
    """Share of light at an angle to the axis, by its cosine: cos^(4 strength).

    1 is the natural law of a thin lens, 0 none; lenses that vignette mechanically have more, retrofocal ones less.
    """
    squared = cos_axis * cos_axis
    if strength == 1.0:
        return squared * squared
    return namespace(cos_axis).power(squared, 2.0 * strength)


def electrons_per_radiance(
    *,
    pixel_um: float,
    wavelength_nm: float,
    quantum_efficiency: float,
    f_number: float,
    transmission: float,
) -> float:
    """Electrons a second in a pixel on the axis per radiance [W/(m^2 sr)] of a band: QE E A lambda / (h c)."""
    area = (pixel_um * 1e-6) ** 2
    photons = area * wavelength_nm * 1e-9 / (PLANCK * LIGHT_SPEED)
    return quantum_efficiency * photons * float(irradiance(1.0, f_number=f_number, transmission=transmission))


def fixed_pattern(element: Array, key: tuple[Any, Any]) -> tuple[Array, Array]:
    """Two standard normal numbers of each pixel that stay: of its response (PRNU) and of its dark signal (DSNU)."""
    a, b, _, _ = words(key, element)
    return to_normal(a, b)


def poisson(mean: Array, word_a: Array, word_b: Array) -> Array:
    """Poisson numbers, as floats, of each mean from two random words.

    Up to EXACT_POISSON_MEAN the distribution function is inverted, to the 2^-23 that a uniform number resolves. Beyond,

        floor(1/2 + mu + sqrt(mu) z + (z^2 - 1) / 6 - (z^3 + 2 z) / (72 sqrt(mu)))

    with z normal: the normal approximation with the corrections for skewness, kurtosis and whole numbers (Sheppard's,
    1/12 of the variance).
    """
    xp = namespace(mean, word_a)
    normal, _ = to_normal(word_a, word_b)
    root = xp.sqrt(xp.maximum(mean, EXACT_POISSON_MEAN))
    squared = normal * normal
    bent = (squared - 1.0) * (1.0 / 6.0) + normal * (squared + 2.0) / (-72.0 * root)
    many = xp.maximum(xp.floor(root * root + root * normal + bent + 0.5), 0.0)
    few = _inverted(xp.clip(mean, 0.0, EXACT_POISSON_MEAN), to_unit(word_a), mean <= EXACT_POISSON_MEAN)
    return xp.where(mean <= EXACT_POISSON_MEAN, few, many)


def _inverted(mean: Array, uniform: Array, wanted: Array) -> Array:
    """Poisson numbers of small mean: the first k whose distribution function reaches `uniform`."""
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
    noise_key: tuple[Any, Any],
    pattern_key: tuple[Any, Any],
    *,
    dark_e: Any,
    prnu: Any,
    dsnu_e: Any,
    full_well_e: Any,
    read_noise_e: Any,
    patterned: bool = True,
    noisy: bool = True,
) -> Array:
    """Electrons that a pixel hands to its amplifier, of the mean `signal` [e] that light makes in it.

    `dark_e` is the mean dark signal [e] of the exposure. Shot noise is that of light and dark signal together; what
    passes the full well is lost. `patterned` and `noisy` select the kernel.
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


def digitised(electrons: Array, *, dn_per_e: Any, black_level_dn: Any, largest_dn: Any) -> Array:
    """Digital numbers, as floats: the black level and the gain times the electrons, rounded, cut to the converter."""
    xp = namespace(electrons)
    return xp.clip(xp.floor(black_level_dn + dn_per_e * electrons + 0.5), 0.0, largest_dn)
