"""Materials as a radar meets them: Fresnel's reflection at its frequency, and how rough they are.

Permittivities are those of `surfaces/radio.py`. The finishes are assumed: round figures of the order that is measured
at millimetre waves (Ulaby and Dobson 1989, Handbook of Radar Scattering Statistics for Terrain; Li, Nashashibi and
Sarabandi 1998 for roads). Roughness matters less at longer waves by itself, since heights count in wavelengths.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parhelion.sensors.waves.surfaces import ANGLES, Finish, cosines
from parhelion.surfaces.radio import fresnel, permittivity, radio_name

FINISHES = {
    "metal": Finish(0.0, 1e-5, -40.0),
    "glass": Finish(0.0, 5e-6, -45.0),
    "plastic": Finish(0.02, 5e-5, -28.0),
    "plasterboard": Finish(0.02, 5e-5, -26.0),
    "ceiling-board": Finish(0.05, 2e-4, -24.0),
    "concrete": Finish(0.05, 2e-4, -22.0),
    "marble": Finish(0.05, 2e-4, -22.0),
    "brick": Finish(0.1, 5e-4, -17.0),
    "asphalt": Finish(0.1, 4e-4, -18.0),
    "wood": Finish(0.05, 2e-4, -22.0),
    "plywood": Finish(0.05, 1e-4, -23.0),
    "chipboard": Finish(0.05, 1e-4, -23.0),
    "floorboard": Finish(0.03, 1e-4, -25.0),
    "very-dry-ground": Finish(0.2, 3e-3, -16.0),
    "medium-dry-ground": Finish(0.2, 5e-3, -13.0),
    "wet-ground": Finish(0.2, 5e-3, -12.0),
    "water": Finish(0.05, 1e-3, -35.0),
    "dry-snow": Finish(0.2, 2e-3, -14.0),
    "wet-snow": Finish(0.2, 2e-3, -18.0),
    "rubber": Finish(0.1, 5e-4, -20.0),
    "cloth": Finish(0.3, 2e-3, -16.0),
    "skin": Finish(0.2, 1e-3, -18.0),
    "foliage": Finish(0.5, 2e-2, -8.0),
    "vacuum": Finish(0.0, 0.0, -100.0),
}
"""Finish of each radio material: slope, height [m], scattered share [dB]."""


BODYWORK = Finish(0.2, 1e-5, 0.0)
"""Of cars, where plain meshes are flatter and barer than cars are. The slope stands for curved sheets: a side of 4 m^2
then sends back A / m^2 = 100 m^2 over 19 degrees. What is scattered stands for lamps, mirrors, handles, gaps and
wheels, which send back most of what a car does off its flat sides: about a third of what comes in. Both were chosen so
that our cars follow 3GPP TR 38.901 (release 19), table 7.9.2.1-4: 20.8, 15.5 and 14.6 dBsm from the side, front and
back, 7.1 dBsm in between, 11.3 dBsm as the mean, from car to car 3.4 dB."""


def finish(material: str) -> Finish:
    """How rough a material is."""
    return BODYWORK if material.startswith("car-paint") else FINISHES[radio_name(material)]


def reflection(material: str, frequency_hz: float) -> NDArray[np.float64]:
    """Share of the power that a smooth half-space mirrors, mean of both polarisations, over `cosines()`."""
    # At exactly grazing incidence on what is like air, Fresnel has 0 / 0.
    te, tm = fresnel(np.maximum(cosines(), 1e-6), permittivity(radio_name(material), frequency_hz))
    return 0.5 * (np.abs(te) ** 2 + np.abs(tm) ** 2)


def table(names: list[str], frequency_hz: float) -> tuple[NDArray[np.float64], list[Finish]]:
    """Reflection and finishes of materials by name; an error names one that has no permittivity at the frequency."""
    found = [reflection(name, frequency_hz) for name in names]
    return np.array(found).reshape(len(names), ANGLES), [finish(name) for name in names]
