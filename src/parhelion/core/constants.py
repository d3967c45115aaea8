"""Constants of nature that several rooms use, each in one place."""

from __future__ import annotations

SPEED_OF_LIGHT_M_S = 299_792_458.0
"""In vacuum; exact by the definition of the metre. Air is slower by 0.03 %, which makers calibrate out."""
STANDARD_GRAVITY_M_S2 = 9.80665
"""Standard acceleration of free fall (ISO 80000-3)."""
