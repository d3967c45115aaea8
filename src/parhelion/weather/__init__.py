"""Weather: rain, fog, snow, dust and wind; what they take from a beam and what they send back. Imports core only."""

from parhelion.weather.config import DustCloud, DustTrail, Fog, Rain, Schedule, Snow, Uneven, value_at
from parhelion.weather.weather import Conditions, Weather

__all__ = [
    "Conditions",
    "DustCloud",
    "DustTrail",
    "Fog",
    "Rain",
    "Schedule",
    "Snow",
    "Uneven",
    "Weather",
    "value_at",
]
