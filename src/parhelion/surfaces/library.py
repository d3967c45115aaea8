"""Materials by name: library files, aliases, and grey targets `lambert-<percent>`."""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from pathlib import Path

from parhelion.core.config import load
from parhelion.core.errors import unknown_name
from parhelion.surfaces.material import Material, SpectrumTable

FOLDER = Path(__file__).parent / "library"

UNKNOWN_MATERIAL = "lambert-30"
"""Result of `match_material` where no material resembles the name."""

_OTHER_WORDS = {
    "aluminium": "aluminum",
    "asphalt": "bitumen blacktop road tarmac",
    "bark": "trunk",
    "brick": "brickwork",
    "car-paint-silver": "car-paint",
    "cardboard": "carton",
    "concrete": "building cement pavement sidewalk wall",
    "cotton": "cloth clothes clothing person textile",
    "fabric": "canvas nylon",
    "foam": "polystyrene styrofoam",
    "galvanised-steel": "galvanised galvanized galvanized-steel zinc",
    "glass": "window windshield",
    "granite": "quay quay-stone rock stone",
    "grass": "lawn",
    "grass-dry": "dry-grass",
    "lambert-50": "gray grey",
    "leaf": "bush foliage leaves tree vegetation",
    "needles": "conifer pine",
    "plastic": "pvc",
    "plywood": "board",
    "retro-sheeting": "licence-plate license-plate reflector retro-reflector sign traffic-sign",
    "road-paint": "lane-marking marking road-marking",
    "roof-tile": "roof roofing tile",
    "roofing-felt": "felt",
    "rubber": "tire tyre",
    "rusted-steel": "rust",
    "soil": "clay dirt earth mud",
    "stainless-steel": "chrome stainless",
    "steel": "iron metal plate",
    "water": "lake ocean sea",
    "white-paint": "hull white-wall",
    "wood": "lumber timber",
}
ALIASES = {word: name for name, words in _OTHER_WORDS.items() for word in words.split()}
"""Aliases of library materials."""

_GREY = re.compile(r"lambert-(\d{1,3})")


@lru_cache(maxsize=1)
def material_names() -> tuple[str, ...]:
    """Sorted names of the library materials. `lambert-0` to `lambert-100` are valid names as well."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.yaml")))


@lru_cache(maxsize=256)
def material(name: str) -> Material:
    """Material of a library name, an alias, or `lambert-<percent>`."""
    grey = _GREY.fullmatch(name)
    if grey and int(grey[1]) <= 100:
        return _grey_target(int(grey[1]))
    known = ALIASES.get(name, name)
    if known != name and known not in material_names():
        return material(known)
    if known not in material_names():
        hint = "(grey targets are 'lambert-0' to 'lambert-100')" if name.startswith("lambert") else ""
        raise unknown_name("material", name, [*material_names(), *ALIASES], hint)
    return load(Material, FOLDER / f"{known}.yaml")


def match_material(name_from_file: str, *, near: bool = True) -> tuple[Material, str | None]:
    """Material for a name in a mesh file, and a note for a warning if it is a guess.

    Candidates in order: the name or an alias; the longest known name whose words all occur in it (`CarPaint.White`,
    `Asphalt_01`); a known name within its letters; with `near`, the nearest spelling; a grey target.
    """
    words = _words(name_from_file)
    plain = "-".join(words)
    if _GREY.fullmatch(name_from_file.strip().lower()):
        return material(name_from_file.strip().lower()), None
    known = {*material_names(), *ALIASES}
    if plain in known:
        return material(plain), None
    contained = [option for option in known if set(option.split("-")) <= set(words)]
    if contained:
        # A material name takes precedence over an alias: `Tree Bark` is bark, not leaf.
        own = material_names()
        return material(max(contained, key=lambda word: (word.count("-"), word in own, len(word), word))), None
    letters = "".join(words)
    within = [option for option in known if len(option) >= 4 and option.replace("-", "") in letters]
    # The cutoff is stricter than for suggestions to users: `Material.001` must not match anything.
    spelled = difflib.get_close_matches(plain, sorted(known), n=1, cutoff=0.75) if near else []
    guess = max(within, key=lambda option: (len(option), option)) if within else (spelled or [UNKNOWN_MATERIAL])[0]
    chosen = material(guess)
    return chosen, f"unknown material {name_from_file!r}: using {chosen.name!r}"


def _words(name: str) -> list[str]:
    """Lower-case words of a name, split at punctuation, digits and capitals."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return re.findall(r"[a-z]+", spaced.lower())


def _grey_target(percent: int) -> Material:
    return Material(
        name=f"lambert-{percent}",
        description=f"Lambertian target of {percent} % reflectance at every wavelength.",
        sources=["by definition"],
        spectrum=SpectrumTable(wavelength_um=[0.2, 20.0], reflectance=[percent / 100, percent / 100]),
    )
