"""Materials of a map: by the values of tags, and tinted with a stated colour."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from parhelion.surfaces import library
from parhelion.surfaces.material import Material, SpectrumTable

_WALLS = {
    "brick": "brick", "concrete": "concrete", "glass": "glass", "wood": "wood", "timber": "wood", "plaster": "plaster",
    "metal": "galvanised-steel", "steel": "galvanised-steel", "metal_plates": "galvanised-steel", "stone": "limestone",
    "sandstone": "limestone", "limestone": "limestone", "granite": "granite", "cement_block": "concrete",
    "plastic": "plastic", "masonry": "plaster", "mirror": "mirror", "timber_framing": "plaster", "copper": "copper",
}  # fmt: skip
_ROOFS = {
    "roof_tiles": "roof-tile",
    "tile": "roof-tile",
    "tiles": "roof-tile",
    "concrete": "concrete",
    "metal": "galvanised-steel",
    "tar_paper": "roofing-felt",
    "slate": "slate",
    "glass": "glass",
    "grass": "grass",
    "gravel": "gravel",
    "wood": "wood",
    "copper": "copper",
    "thatch": "grass-dry",
    "eternit": "shingle",
    "asphalt_shingle": "shingle",
}
_PAVING = {
    "asphalt": "asphalt",
    "paved": "asphalt",
    "chipseal": "asphalt",
    "concrete": "concrete",
    "concrete:plates": "concrete",
    "concrete:lanes": "concrete",
    "paving_stones": "concrete",
    "sett": "granite",
    "cobblestone": "granite",
    "unhewn_cobblestone": "granite",
    "gravel": "gravel",
    "fine_gravel": "gravel",
    "pebblestone": "gravel",
    "compacted": "gravel",
    "unpaved": "soil",
    "ground": "soil",
    "dirt": "soil",
    "earth": "soil",
    "mud": "soil",
    "sand": "sand",
    "grass": "grass",
    "grass_paver": "grass",
    "wood": "wood",
    "metal": "steel",
    "rock": "limestone",
    "tartan": "rubber",
    "artificial_turf": "grass",
}

_COLOURS = {
    "white": "#ffffff", "black": "#202020", "grey": "#808080", "gray": "#808080", "silver": "#c0c0c0", "red": "#b02020",
    "maroon": "#800000", "brown": "#7b4a2b", "orange": "#d97a1e", "yellow": "#e0c030", "beige": "#d9cfb0",
    "cream": "#efe6c8", "green": "#3c7a3c", "darkgreen": "#1f4d1f", "blue": "#3a5fa0", "lightblue": "#a8c8e0",
    "navy": "#203060", "purple": "#6a3d80", "pink": "#d890a0", "darkgrey": "#505050", "darkgray": "#505050",
    "lightgrey": "#c8c8c8", "lightgray": "#c8c8c8", "lightyellow": "#efe8b0", "tan": "#c8ab80", "khaki": "#b8a878",
    "sandstone": "#cdb48a", "terracotta": "#b5603c", "teal": "#2f7070", "olive": "#707030", "gold": "#c9a227",
}  # fmt: skip


def wall_of(tag: str, default: str) -> str:
    """Material of walls with a value of `building:material`."""
    return _WALLS.get(tag, default)


def roof_of(tag: str, default: str) -> str:
    """Material of roofs with a value of `roof:material`."""
    return _ROOFS.get(tag, default)


def paving_of(tag: str, default: str) -> str:
    """Material of ground with a value of `surface`."""
    return _PAVING.get(tag, default)


def colour_of(tag: str) -> str | None:
    """Colour `#rrggbb` of a value of `building:colour`; None for unknown names."""
    if re.fullmatch(r"#[0-9a-f]{6}", tag):
        return tag
    if re.fullmatch(r"#[0-9a-f]{3}", tag):
        return "#" + "".join(2 * digit for digit in tag[1:])
    return _COLOURS.get(tag.replace(" ", "").replace("_", ""))


@lru_cache(maxsize=512)
def tinted(name: str, colour: str) -> Material:
    """Material of the library with the colour `#rrggbb` in visible light; its infrared is unchanged.

    The reflectance from 0.40 to 0.70 um is linear between the linear sRGB values at 0.45, 0.55 and 0.61 um (the
    dominant wavelengths of the three primaries, CIE 15), limited to 0.04 to 0.85, the range of paints; it joins the
    spectrum of the base material at 0.78 um.
    """
    base = library.material(name)
    code = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255.0
    red, green, blue = np.clip(np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4), 0.04, 0.85)
    wave, value = np.array(base.spectrum.wavelength_um), np.array(base.spectrum.reflectance)
    grid = np.concatenate([[0.38, 0.45, 0.50, 0.55, 0.59, 0.61, 0.70], wave[wave >= 0.78]])
    infrared = np.interp(grid, wave, value)
    visible = np.interp(grid, [0.45, 0.50, 0.55, 0.59, 0.61], [blue, (blue + green) / 2, green, (green + red) / 2, red])
    mixed = np.where(grid < 0.75, visible, infrared)
    spectrum = SpectrumTable(wavelength_um=grid.tolist(), reflectance=np.round(mixed, 4).tolist())
    sources = [*base.sources, f"Visible colour {colour} from the tags of a map."]
    return base.model_copy(
        update={
            "name": f"{name}-{colour[1:]}",
            "description": f"{name} of colour {colour}.",
            "spectrum": spectrum,
            "sources": sources,
        }
    )
