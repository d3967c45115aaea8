"""Material classes of a model's materials: guesses by name and colour, and the table that corrects them.

A model file states the appearance of its materials in visible light. Lidars, radars and other bands use the class, a
material of the library. `materials.yaml` next to the model lists the classes, for all models of that folder:

    models:
      car.glb:
        Body: {class: car-paint-red}
        Screen: {class: glass, emission_cd_m2: 300}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import Field

from parhelion.core import config
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.files import write_whole
from parhelion.surfaces import library
from parhelion.surfaces.appearance import LARGEST_EMISSION_CD_M2, Appearance
from parhelion.surfaces.bands import band_reflectance, named_band
from parhelion.world.loaders import LoadedMesh, LoadedPart

TABLE = "materials.yaml"
"""Name of the table."""
METALS = ("aluminium", "copper", "rusted-steel", "steel", "stainless-steel")
"""Classes of materials with a metalness of at least 0.5."""
NON_METALS = (
    "asphalt", "bark", "brick", "car-paint-black", "car-paint-blue", "car-paint-green", "car-paint-grey",
    "car-paint-red", "car-paint-white", "car-paint-yellow", "cardboard", "concrete", "fabric-blue", "fabric-green",
    "fabric-red", "grass", "leaf", "plaster", "plywood", "roof-tile", "rubber", "sand", "soil", "white-paint", "wood",
)  # fmt: skip
"""Classes of all other materials whose name is not known."""
PAINTS = tuple(name for name in NON_METALS if name.endswith("-paint") or name.startswith("car-paint-"))
"""Classes of materials whose name contains 'paint'."""


class TableEntry(config.Config):
    """Correction of one material of a model."""

    class_: Annotated[str, Field(alias="class")]
    """Material of the library."""
    emission_cd_m2: Annotated[float, Field(ge=0, le=LARGEST_EMISSION_CD_M2)] | None = None
    """Emission of the brightest channel of the material [cd/m^2], instead of that in the file."""
    guessed_by: str | None = None
    """Origin of the class; not used."""
    colour: tuple[float, float, float] | None = None
    """Mean linear red, green and blue in the file; not used."""


class TableFile(config.Config):
    """A table of materials."""

    models: dict[str, dict[str, TableEntry]] = Field(default_factory=dict)
    """Materials by name, by model file."""


@dataclass(frozen=True)
class Guess:
    """Class of a material of a model."""

    name: str
    """Class: a material of the library."""
    by: str
    """'name', 'spelling', 'colour', or 'default'."""

    @property
    def is_certain(self) -> bool:
        """True if the words of the material's name are those of the class."""
        return self.by == "name"


def guess(name: str | None, look: Appearance | None) -> Guess:
    """Class of a material by the words of its name, by a known name within its letters, or by its colour.

    Without a colour, the nearest spelling counts.
    """
    matched, note = library.match_material(name or "", near=look is None)
    if note is None:
        return Guess(matched.name, "name")
    if look is None:
        return Guess(matched.name, "spelling" if matched.name != library.UNKNOWN_MATERIAL else "default")
    if "paint" in (name or "").lower():
        return Guess(nearest_class(look.mean_colour(), among=PAINTS), "colour")
    if look.alpha_mode == "blend" and look.opacity < 0.7 and look.base_picture is None:
        return Guess("glass", "colour")
    if matched.name != library.UNKNOWN_MATERIAL:
        return Guess(matched.name, "spelling")
    is_metal = look.metallic >= 0.5 and look.surface_picture is None
    return Guess(nearest_class(look.mean_colour(), among=METALS if is_metal else NON_METALS), "colour")


def nearest_class(colour: Iterable[float], *, among: tuple[str, ...] = NON_METALS) -> str:
    """Class whose colour is nearest to a linear red, green and blue, by the distance in CIELAB (CIE 15)."""
    own = _lab(np.array([list(colour)]))
    return among[int(np.argmin(np.linalg.norm(_colours(among) - own, axis=1)))]


@lru_cache(maxsize=8)
def _colours(names: tuple[str, ...]) -> NDArray[np.float64]:
    """CIELAB colours of library materials, shape (n, 3)."""
    bands = [named_band(name) for name in ("red", "green", "blue")]
    return _lab(np.array([[band_reflectance(library.material(name), band) for band in bands] for name in names]))


def _lab(linear: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIELAB of linear sRGB colours under D65, shape (n, 3)."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratio = linear @ to_xyz.T / to_xyz.sum(axis=1)
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


# ---- table ----------------------------------------------------------------------------------------------------------


def read_table(model: Path) -> dict[str, TableEntry]:
    """Entries of a model in the table of its folder; empty without a table."""
    file = model.parent / TABLE
    if not file.is_file():
        return {}
    table = _table(file)
    if table is None:
        return {}
    entries = table.models.get(model.name, {})
    for name, entry in entries.items():
        try:
            library.material(entry.class_)
        except ConfigError as error:
            raise ConfigError(f"{file}: models.{model.name}.{name}.class: {error}") from None
    return entries


def _table(file: Path) -> TableFile | None:
    """Content of a table; None for a file of that name without the field `models`, which belongs to something else."""
    content = config.read_yaml(file)
    if not isinstance(content, Mapping) or "models" not in content:
        return None
    return config.parse(TableFile, content, file)


def check_table(model: str, entries: Mapping[str, TableEntry], names: list[str]) -> None:
    """Refuse entries of materials that the model does not have."""
    for name in entries:
        if name not in names:
            file = Path(model)
            raise unknown_name(f"{file.parent / TABLE}: models.{file.name}: material", name, names)


def adjusted(part: LoadedPart, table: Mapping[str, TableEntry]) -> Appearance | None:
    """Appearance of a part with the emission of the table."""
    look, entry = part.appearance, table.get(part.material or "")
    if look is None or entry is None or entry.emission_cd_m2 is None:
        return look
    most = max(look.emission_cd_m2)
    red, green, blue = (value / most for value in look.emission_cd_m2) if most > 0.0 else look.base
    level = entry.emission_cd_m2
    return replace(look, emission_cd_m2=(red * level, green * level, blue * level))


def write_table(model: Path, loaded: LoadedMesh) -> tuple[Path, list[tuple[str, Guess, Appearance | None]]]:
    """Write the guesses for a model into the table of its folder; entries of the user remain.

    Return the table's path, and name, class and appearance of each material.
    """
    file = model.parent / TABLE
    table = _table(file) if file.is_file() else TableFile()
    if table is None:
        raise ConfigError(f"{file}: exists, but is no table of materials (it has no field 'models'); rename it")
    known = table.models.get(model.name, {})
    rows: dict[str, dict[str, Any]] = {}
    listed = []
    for part in loaded.parts:
        name = part.material
        if name is None or name in rows:
            continue
        found, look = guess(name, part.appearance), part.appearance
        if name in known:
            found = Guess(known[name].class_, "table")
            rows[name] = _fields(known[name])
        else:
            rows[name] = {"class": found.name, "guessed_by": found.by}
            if look is not None:
                rows[name]["colour"] = [round(value, 3) for value in look.mean_colour()]
        listed.append((name, found, look))
    models = {one: {name: _fields(entry) for name, entry in entries.items()} for one, entries in table.models.items()}
    models[model.name] = rows
    head = (
        "# Classes of the materials of model files, for all sensors and bands outside of visible light.\n"
        "# Correct `class` (see `parhelion materials`) and load the model again.\n"
    )
    text = yaml.safe_dump({"models": models}, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
    write_whole(file, (head + text).encode("utf-8"))
    return file, listed


def _fields(entry: TableEntry) -> dict[str, Any]:
    return entry.model_dump(mode="json", by_alias=True, exclude_none=True)
