"""Physical constants that several packages use."""

from __future__ import annotations

SPEED_OF_LIGHT_M_S = 299_792_458.0
"""Speed of light in vacuum, exact by definition of the metre. In air it is 0.03 % lower, which makers calibrate out."""
STANDARD_GRAVITY_M_S2 = 9.80665
"""Standard acceleration of free fall (ISO 80000-3)."""
PLANCK_J_S = 6.626_070_15e-34
BOLTZMANN_J_K = 1.380_649e-23
"""Planck's and Boltzmann's constants; exact by the definition of the SI."""
STEFAN_BOLTZMANN_W_M2_K4 = 5.670_374_419e-8
"""2 pi^5 k^4 / (15 h^3 c^2)."""
ZERO_CELSIUS_K = 273.15
