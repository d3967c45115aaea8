"""Weather: rain, fog, snow, dust, spray and wind, with their extinction and backscatter. Imports core only."""

from parhelion.core.deprecation import deprecated_names
from parhelion.weather.media import Medium, register_medium
from parhelion.weather.media.dust import DustCloud, DustTrail
from parhelion.weather.media.fog import Fog
from parhelion.weather.media.rain import Rain
from parhelion.weather.media.smoke import SmokeCloud
from parhelion.weather.media.snow import Snow
from parhelion.weather.media.spray import SprayCloud
from parhelion.weather.parts import Heterogeneity, Schedule, value_at
from parhelion.weather.weather import Conditions, Weather

__all__ = [
    "Conditions",
    "DustCloud",
    "DustTrail",
    "Fog",
    "Heterogeneity",
    "Medium",
    "Rain",
    "Schedule",
    "SmokeCloud",
    "Snow",
    "SprayCloud",
    "Weather",
    "register_medium",
    "value_at",
]

__getattr__ = deprecated_names(__name__, {"Uneven": "Heterogeneity"})
