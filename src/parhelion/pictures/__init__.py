"""Pictures of scans, drives, worlds and materials, drawn without a screen.

from parhelion import pictures

pictures.draw_scan(scan, "scan.png")
pictures.draw_drive(scans, "drive.png")
pictures.draw_weather(clear, wet, "weather.png")
pictures.draw_image(image, "image.png")
"""

from parhelion.pictures.camera import (
    depth_colours,
    draw_image,
    image_colours,
    label_colours_of,
    normal_colours,
    points_over,
)
from parhelion.pictures.charts import draw_spectrum
from parhelion.pictures.grids import birds_eye, field_image, intensity_image, is_organised, range_image
from parhelion.pictures.layout import layout_bitmap, save_layout_bitmap
from parhelion.pictures.radar import draw_echoes, draw_radar
from parhelion.pictures.scan import DrivePoints, draw_drive, draw_scan
from parhelion.pictures.top_view import draw_world
from parhelion.pictures.weather import Changes, draw_weather, weather_changes, weather_picture

__all__ = [
    "Changes",
    "DrivePoints",
    "birds_eye",
    "depth_colours",
    "draw_drive",
    "draw_echoes",
    "draw_image",
    "draw_radar",
    "draw_scan",
    "draw_spectrum",
    "draw_weather",
    "draw_world",
    "field_image",
    "image_colours",
    "intensity_image",
    "is_organised",
    "label_colours_of",
    "layout_bitmap",
    "normal_colours",
    "points_over",
    "range_image",
    "save_layout_bitmap",
    "weather_changes",
    "weather_picture",
]
