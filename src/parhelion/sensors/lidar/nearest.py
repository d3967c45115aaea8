"""Materials without a profile, seen through the nearest calibrated one.

The nearest is the calibrated material whose model returns most nearly as much at every angle: the least root mean
square of ln(f cos) between the two, both at the sensor's wavelength. Its profile is then shifted by the ratio of the
two models, so that what is left to chance is how far real materials differ from their models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.errors import ParhelionError
from parhelion.surfaces import library
from parhelion.surfaces.material import Material
from parhelion.surfaces.reflection import reflected, reflection_table

COMPARED_DEG = np.arange(2.5, 80.0, 5.0)
"""Angles of incidence at which models are compared; beyond, all of them fall to 0."""
LEAST_RETURN = 1e-6
"""f cos [1/sr] that counts as nothing: a white target that faces the sensor has 0.32."""
_LEAST_KEPT = 1e-9


@dataclass(frozen=True, eq=False)
class Standing:
    """A calibrated material that stands for one without a profile."""

    name: str
    """Of the material without a profile."""
    calibrated: str
    distance: float
    """Root mean square of the logarithm of the ratio over the compared angles."""
    own: Material
    other: Material
    wavelength_nm: float

    def ratio(self, angle_deg: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the material returns over what the calibrated one does, by angle of incidence."""
        one, two = returned([self.own, self.other], angle_deg, self.wavelength_nm)
        return np.asarray(np.maximum(one, LEAST_RETURN) / np.maximum(two, LEAST_RETURN))


def drop_at(drop: Reals, ratio: Reals) -> Reals:
    """Share of lost shots when the signal is `ratio` times that at which the share `drop` is lost.

    1 - (1 - drop)^(1 / ratio): a pulse is lost where its energy falls below a threshold, and energy that speckle or
    grain scatters exponentially about its mean does so with the chance 1 - exp(-threshold / mean). A material of which
    nothing is lost stays so; a signal of 0 is always lost. Arrays of either kind.
    """
    xp = namespace(drop, ratio)
    kept = xp.maximum(1.0 - drop, _LEAST_KEPT)
    return 1.0 - xp.exp(xp.log(kept) / xp.maximum(ratio, _LEAST_KEPT))


def returned(
    materials: Sequence[Material], angle_deg: NDArray[np.float64], wavelength_nm: float
) -> NDArray[np.float64]:
    """f cos(theta) [1/sr] of materials, shape (materials, angles)."""
    table = reflection_table(materials, wavelength_nm, textured=False).astype(np.float64)
    cosine = np.cos(np.radians(np.asarray(angle_deg, np.float64)))
    number = np.repeat(np.arange(len(materials)), len(cosine))
    return np.asarray(reflected(np.tile(cosine, len(materials)), number, table)).reshape(len(materials), -1)


def standing_for(
    calibrated: Sequence[str], materials: Sequence[Material], wavelength_nm: float
) -> tuple[list[Standing], list[str]]:
    """Which calibrated material stands for each other one of a world; and the names of those for which none does.

    Mirrors, panes, water and retro-reflectors are left to the sensor's own model: a ratio of diffuse returns says
    nothing of them. So are all materials where no calibrated one is known to the world or the library.
    """
    own = {material.name: material for material in materials}
    known = [found for found in (_known(name, own) for name in calibrated) if found is not None and _is_plain(found[1])]
    missing = [material for material in own.values() if material.name not in calibrated]
    plain = [material for material in missing if _is_plain(material)] if known else []
    alone = [material.name for material in missing if material not in plain]
    if not plain:
        return [], sorted(alone)
    levels = np.log(
        np.maximum(returned([*plain, *(one for _, one in known)], COMPARED_DEG, wavelength_nm), LEAST_RETURN)
    )
    apart = levels[: len(plain), None] - levels[None, len(plain) :]
    distance = np.sqrt(np.mean(apart**2, axis=-1))
    chosen = np.argmin(distance, axis=1)
    found = [
        Standing(material.name, known[k][0], float(distance[row, k]), material, known[k][1], wavelength_nm)
        for row, (material, k) in enumerate(zip(plain, chosen.tolist(), strict=True))
    ]
    return found, sorted(alone)


def _is_plain(material: Material) -> bool:
    return material.retro is None and material.specular is None


def _known(name: str, own: dict[str, Material]) -> tuple[str, Material] | None:
    """The material that a profile is of: the world's of this name, else the library's."""
    if name in own:
        return name, own[name]
    try:
        return name, library.material(name)
    except ParhelionError:
        return None
