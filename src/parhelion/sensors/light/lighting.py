"""The light of a scene from a few words: time and place or the sun's height, haze, cloud, and the weather."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from parhelion.sensors.light.airlight import turbidity_of_visibility
from parhelion.sensors.light.cloud import CLOUD_ASYMMETRY, under_cloud
from parhelion.sensors.light.sky import SkyLight, clear_sky
from parhelion.surfaces.bands import Band
from parhelion.weather.daylight import Daylight
from parhelion.weather.fog import fog_extinction
from parhelion.weather.weather import Weather

RAIN_CLOUD, SNOW_CLOUD = 30.0, 20.0
"""Optical depth of the cloud that rain or snow falls from. Nimbostratus is 23 and more in the classes of the ISCCP
(Rossow and Schiffer 1999); the two numbers are assumed."""
FULL_CLOUD_RATE_MM_H = 0.5
"""From this rate on the sky is closed; below, the optical depth grows in proportion."""
FOG_ASYMMETRY = 0.8
STEP_S = 10.0
"""The sun moves on in steps of this: 0.04 degrees."""


def cloud_of_weather(rain_rate_mm_h: float, snow_rate_mm_h: float) -> float:
    """Optical depth of the cloud that rain and snow imply."""
    rain = RAIN_CLOUD * min(rain_rate_mm_h / FULL_CLOUD_RATE_MM_H, 1.0)
    snow = SNOW_CLOUD * min(snow_rate_mm_h / FULL_CLOUD_RATE_MM_H, 1.0)
    return max(rain, snow)


def haze_share(visibility_m: float) -> float:
    """How far a visibility speaks of haze in the whole air, and not of fog near the ground.

    0 at 1 km and below, where the air above the fog keeps its own turbidity; 1 from 5 km up, where there is no layer
    of fog; between, in proportion to the logarithm.
    """
    return float(np.interp(np.log(visibility_m), np.log([1000.0, 5000.0]), [0.0, 1.0]))


def lighting(
    daylight: Daylight, bands: Sequence[Band], *, weather: Weather | None = None, time: float = 0.0
) -> SkyLight:
    """Sun and sky at a time of the scene [s], under the cloud that is said or that rain and snow imply, and in fog.

    The answer is kept: the same arguments give the same object, and times within 10 s of each other the same sun.
    """
    turbidity, cloud, fog = daylight.turbidity, daylight.cloud_optical_depth, 0.0
    if weather is not None:
        now = weather.at(time)
        cloud = max(cloud, cloud_of_weather(now.rain_rate_mm_h, now.snow_rate_mm_h))
        if weather.fog is not None:
            haze = haze_share(now.visibility_m)
            turbidity += haze * max(turbidity_of_visibility(now.visibility_m) - turbidity, 0.0)
            per_m = float(fog_extinction(now.visibility_m, model=weather.fog.model, wavelength_nm=550.0))
            fog = min((1.0 - haze) * per_m * daylight.fog_layer_m, 1000.0)
    moved = 0.0 if daylight.time is None else STEP_S * math.floor(time / STEP_S)
    return _made(daylight, tuple(bands), turbidity, cloud, fog, moved)


@lru_cache(maxsize=32)
def _made(
    daylight: Daylight, bands: tuple[Band, ...], turbidity: float, cloud: float, fog: float, after_s: float
) -> SkyLight:
    sky = clear_sky(
        bands,
        daylight.sun(after_s),
        turbidity=turbidity,
        ground_albedo=daylight.ground_albedo,
        distance_factor=daylight.distance_factor,
    )
    return under_cloud(under_cloud(sky, cloud, CLOUD_ASYMMETRY), fog, FOG_ASYMMETRY)
