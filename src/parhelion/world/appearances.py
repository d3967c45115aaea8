"""Appearances of materials in model files: images with their budgets, glTF materials and MTL libraries."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.checks import check_budget
from parhelion.core.errors import FormatError
from parhelion.surfaces.appearance import LARGEST_EMISSION_CD_M2, AlphaMode, Appearance, Picture
from parhelion.surfaces.texture import LARGEST_SIDE

Colour = tuple[float, float, float]
ReadImage = Callable[[Any], "tuple[bytes, str] | None"]
"""Function that returns the content and the name of an image, or None if it is missing."""


class PictureStore:
    """Images of one file, each decoded once. All of them together have a budget."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self.omitted: list[str] = []
        """Images that cannot be read."""
        self._known: dict[Any, Picture | None] = {}
        self._pixels = 0

    def picture(self, key: Any, read: ReadImage) -> Picture | None:
        """Image with this key; `read` returns its content on first use."""
        if key not in self._known:
            found = read(key)
            if found is None:
                return None
            self._known[key] = self._decoded(*found)
        return self._known[key]

    def combined(
        self, key: Any, pictures: Sequence[Picture | None], combine: Callable[..., NDArray[np.uint8]]
    ) -> Picture | None:
        """Image made of several ones of the same size, for example of separate images of roughness and metalness.

        Smaller ones are enlarged without interpolation. `combine` receives arrays of shape (height, width, 4), or None.
        """
        given = [one for one in pictures if one is not None]
        if not given:
            return None
        if key not in self._known:
            height, width = (max(one.pixels.shape[axis] for one in given) for axis in (0, 1))
            self._spend(height * width)
            fitted = [None if one is None else _enlarged(one.pixels, height, width) for one in pictures]
            self._known[key] = Picture(combine(height, width, *fitted), given[0].name)
        return self._known[key]

    def _decoded(self, data: bytes, name: str) -> Picture | None:
        from PIL import Image

        where = f"{self._source}: image {name}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # sizes are checked here, before the pixels are decoded
                image = Image.open(io.BytesIO(data))
                width, height = image.size
                if max(width, height) > LARGEST_SIDE:
                    raise FormatError(f"{where}: {width} x {height} pixels exceed the limit of {LARGEST_SIDE} per side")
                check_budget("pixels", width * height, where)
                self._spend(width * height)
                if image.mode.startswith("I;16"):
                    grey = (np.asarray(image) >> 8).astype(np.uint8)
                    pixels = np.stack([grey, grey, grey, np.full_like(grey, 255)], axis=-1)
                else:
                    pixels = np.array(image.convert("RGBA"))
        except Image.DecompressionBombError as error:
            raise FormatError(f"{where}: {error}") from None
        except (OSError, ValueError, SyntaxError):
            self.omitted.append(f"image {name}, which cannot be read as an image")
            return None
        pixels.setflags(write=False)
        return Picture(pixels, name)

    def _spend(self, pixels: int) -> None:
        self._pixels += pixels
        check_budget("model_pixels", self._pixels, str(self._source))


def _enlarged(pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    rows = np.arange(height) * pixels.shape[0] // height
    columns = np.arange(width) * pixels.shape[1] // width
    return pixels if pixels.shape[:2] == (height, width) else pixels[np.ix_(rows, columns)]


# ---- glTF -----------------------------------------------------------------------------------------------------------


class GltfMaterials:
    """Materials of a glTF document, and a list of the properties that are omitted."""

    def __init__(self, document: Mapping[str, Any], source: Path, read: ReadImage) -> None:
        self._document, self._source, self._read = document, source, read
        self._pictures = PictureStore(source)
        self.omitted = self._pictures.omitted

    def appearance(self, number: int) -> Appearance:
        """Appearance of a material by its number; a missing material is white."""
        entry = _mapping(_list(self._document, "materials"), number)
        where = f"{self._source}: materials[{number}]"
        surface = _get(entry, "pbrMetallicRoughness")
        extensions = _get(entry, "extensions")
        for name in extensions:
            if name not in ("KHR_materials_emissive_strength", "KHR_materials_unlit"):
                self._omit(f"{name} of material {str(entry.get('name', number))[:60]!r}")
        base = _numbers(surface, "baseColorFactor", (1.0, 1.0, 1.0, 1.0), where)
        glow = _numbers(entry, "emissiveFactor", (0.0, 0.0, 0.0), where)
        strength = _number(_get(extensions, "KHR_materials_emissive_strength"), "emissiveStrength", 1.0, where)
        strength = min(max(strength, 0.0), LARGEST_EMISSION_CD_M2)
        mode: AlphaMode = {"MASK": "mask", "BLEND": "blend"}.get(str(entry.get("alphaMode")), "opaque")  # type: ignore[assignment]
        return Appearance(
            base=(base[0], base[1], base[2]),
            opacity=base[3] if mode != "opaque" else 1.0,
            metallic=_fraction(_number(surface, "metallicFactor", 1.0, where)),
            roughness=_fraction(_number(surface, "roughnessFactor", 1.0, where)),
            emission_cd_m2=(glow[0] * strength, glow[1] * strength, glow[2] * strength),
            normal_scale=_number(_get(entry, "normalTexture"), "scale", 1.0, where),
            alpha_mode=mode,
            alpha_cutoff=_fraction(_number(entry, "alphaCutoff", 0.5, where)),
            base_picture=self._picture(surface, "baseColorTexture"),
            surface_picture=self._picture(surface, "metallicRoughnessTexture"),
            normal_picture=self._picture(entry, "normalTexture"),
            glow_picture=self._picture(entry, "emissiveTexture"),
        )

    def _picture(self, entry: Mapping[str, Any], name: str) -> Picture | None:
        reference = entry.get(name)
        if not isinstance(reference, Mapping):
            return None
        texture = _mapping(_list(self._document, "textures"), reference.get("index"))
        image = texture.get("source")
        for extension, more in _get(texture, "extensions").items():
            if extension in ("EXT_texture_webp", "EXT_texture_avif") and isinstance(more, Mapping):
                image = more.get("source", image)
            elif image is None:
                self._omit(f"{extension} of a texture")
        if not isinstance(image, int) or isinstance(image, bool):
            return None
        return self._pictures.picture(image, self._read)

    def uv_of(self, number: int) -> tuple[int, NDArray[np.float64] | None]:
        """Set of texture coordinates of a material, and its transform (2, 3) in glTF's coordinates, or None.

        All images of a material share those of the base colour, or of the first image if there is no base colour.
        """
        entry = _mapping(_list(self._document, "materials"), number)
        surface = _get(entry, "pbrMetallicRoughness")
        found = []
        for holder, name in (
            (surface, "baseColorTexture"),
            (surface, "metallicRoughnessTexture"),
            (entry, "normalTexture"),
            (entry, "emissiveTexture"),
        ):
            reference = holder.get(name)
            if isinstance(reference, Mapping):
                found.append(_uv_reference(reference, f"{self._source}: materials[{number}].{name}"))
        if not found:
            return 0, None
        chosen, transform = found[0]
        for other, change in found[1:]:
            if change is None or transform is None:
                same = change is transform
            else:
                same = bool(np.allclose(change, transform))
            if other != chosen or not same:
                self._omit(f"second texture coordinates of material {str(entry.get('name', number))[:60]!r}")
        return chosen, transform

    def _omit(self, what: str) -> None:
        if what not in self.omitted:
            self.omitted.append(what)


def _uv_reference(reference: Mapping[str, Any], where: str) -> tuple[int, NDArray[np.float64] | None]:
    more = _get(_get(reference, "extensions"), "KHR_texture_transform")
    chosen = more.get("texCoord", reference.get("texCoord", 0))
    chosen = chosen if isinstance(chosen, int) and 0 <= chosen < 8 else 0
    if not more:
        return chosen, None
    (dx, dy), (sx, sy) = _pair(more, "offset", (0.0, 0.0), where), _pair(more, "scale", (1.0, 1.0), where)
    turn = _number(more, "rotation", 0.0, where)
    cos, sin = math.cos(turn), math.sin(turn)
    return chosen, np.array([[cos * sx, sin * sy, dx], [-sin * sx, cos * sy, dy]])


def _pair(entry: Mapping[str, Any], name: str, default: Sequence[float], where: str) -> list[float]:
    value = entry.get(name, default)
    if not isinstance(value, (list, tuple)) or len(value) != 2 or not all(_is_number(one) for one in value):
        raise FormatError(f"{where}: {name} must be two finite numbers, got {str(value)[:40]}")
    return [float(one) for one in value]


def _list(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document.get(name, [])
    return found if isinstance(found, list) else []


def _mapping(entries: list[Any], number: Any) -> Mapping[str, Any]:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(entries):
        return {}
    return entries[number] if isinstance(entries[number], Mapping) else {}


def _get(entry: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = entry.get(name)
    return found if isinstance(found, Mapping) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e12


def _number(entry: Mapping[str, Any], name: str, default: float, where: str) -> float:
    value = entry.get(name, default)
    if not _is_number(value):
        raise FormatError(f"{where}: {name} must be a finite number, got {str(value)[:40]}")
    return float(value)


def _numbers(entry: Mapping[str, Any], name: str, default: Sequence[float], where: str) -> list[float]:
    value = entry.get(name, default)
    good = isinstance(value, (list, tuple)) and len(value) == len(default) and all(_is_number(one) for one in value)
    if not good:
        raise FormatError(f"{where}: {name} must be {len(default)} numbers from 0 to 1, got {str(value)[:60]}")
    return [_fraction(float(one)) for one in value]


def _fraction(value: float) -> float:
    return min(max(value, 0.0), 1.0)


# ---- MTL ------------------------------------------------------------------------------------------------------------
# Wavefront MTL, with the physically based fields of http://exocortex.com/blog/extending_wavefront_mtl_to_support_pbr.
# Colours are linear, as exporters write them. A Phong exponent n has the roughness (2 / (n + 2))^(1/4).


_OPTIONS = {"-blendu": 1, "-blendv": 1, "-boost": 1, "-mm": 2, "-o": 3, "-s": 3, "-t": 3, "-texres": 1, "-clamp": 1,
            "-bm": 1, "-imfchan": 1, "-type": 1}  # fmt: skip


class MtlLibrary:
    """Materials of MTL libraries by name."""

    def __init__(self, source: Path, read: ReadImage) -> None:
        self._source, self._read = source, read
        self._pictures = PictureStore(source)
        self._entries: dict[str, dict[str, list[str]]] = {}
        self.omitted = self._pictures.omitted

    def add(self, text: str) -> None:
        """Read a library; the first material of a name counts."""
        entry: dict[str, list[str]] = {}
        for line in text.splitlines():
            words = line.partition("#")[0].split()
            if not words:
                continue
            if words[0] == "newmtl":
                entry = self._entries.setdefault(" ".join(words[1:]), {})
            else:
                entry.setdefault(words[0].lower(), words[1:])

    def appearance(self, name: str) -> Appearance | None:
        """Appearance of a material; None if the library does not define any of its colours."""
        entry = self._entries.get(name)
        if entry is None or not {"kd", "map_kd", "ke", "map_ke", "d", "tr", "map_d"} & set(entry):
            return None
        shines = (
            any(value > 0.0 for value in self._colour(entry, "ks", (0.0,) * 3)) and self._value(entry, "illum", 2) > 1
        )
        rough = (2.0 / (max(self._value(entry, "ns", 10.0), 0.0) + 2.0)) ** 0.25 if shines else 1.0
        opacity = _fraction(self._value(entry, "d", 1.0 - self._value(entry, "tr", 0.0)))
        base = self._image(entry, "map_kd")
        mask = self._image(entry, "map_d")
        if mask is not None:
            base = self._pictures.combined(("alpha", id(base), id(mask)), (base, mask), _with_alpha)
        metal, roughness = self._image(entry, "map_pm"), self._image(entry, "map_pr")
        surface = self._pictures.combined(("surface", id(metal), id(roughness)), (roughness, metal), _surface)
        glow = self._image(entry, "map_ke")
        emission = self._colour(entry, "ke", (1.0,) * 3 if glow is not None else (0.0,) * 3)
        for key in ("map_bump", "bump", "disp", "refl", "map_ks", "map_ns"):
            if key in entry and f"{key} of material {name!r}" not in self.omitted:
                self.omitted.append(f"{key} of material {name!r}")
        look = Appearance(
            base=self._colour(entry, "kd", (1.0,) * 3 if base is not None else (0.6,) * 3),
            opacity=opacity,
            metallic=_fraction(self._value(entry, "pm", 1.0 if metal is not None else 0.0)),
            roughness=_fraction(self._value(entry, "pr", 1.0 if roughness is not None else rough)),
            emission_cd_m2=emission,
            alpha_mode="blend" if opacity < 1.0 else "opaque",
            base_picture=base,
            surface_picture=surface,
            normal_picture=self._image(entry, "norm"),
            glow_picture=glow,
        )
        if mask is not None or (base is not None and base.has_alpha and opacity == 1.0):
            look = replace(look, alpha_mode="mask")
        return look

    def _image(self, entry: Mapping[str, list[str]], key: str) -> Picture | None:
        words = list(entry.get(key, ()))
        while words and words[0] in _OPTIONS:
            del words[: 1 + _OPTIONS[words[0]]]
        return self._pictures.picture(" ".join(words), self._read) if words else None

    def _value(self, entry: Mapping[str, list[str]], key: str, default: float) -> float:
        words = [word for word in entry.get(key, ()) if word != "-halo"]
        if not words:
            return default
        try:
            value = float(words[0])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise FormatError(f"{self._source}: material library: {key} must be a number, got {words[0][:40]!r}")
        return value

    def _colour(self, entry: Mapping[str, list[str]], key: str, default: Sequence[float]) -> Colour:
        words = entry.get(key, [])
        if not words or words[0] in ("spectral", "xyz"):
            return default[0], default[1], default[2]
        try:
            values = [float(word) for word in words[:3]]
        except ValueError:
            values = [math.nan]
        if not all(math.isfinite(value) for value in values):
            raise FormatError(f"{self._source}: material library: {key} must be numbers, got {' '.join(words)[:40]!r}")
        values = values if len(values) == 3 else [values[0]] * 3
        most = LARGEST_EMISSION_CD_M2 if key == "ke" else 1.0
        red, green, blue = (min(max(value, 0.0), most) for value in values)
        return red, green, blue


def _with_alpha(height: int, width: int, base: NDArray[np.uint8] | None, mask: NDArray[np.uint8]) -> NDArray[np.uint8]:
    made = np.full((height, width, 4), 255, np.uint8) if base is None else base.copy()
    # A mask with an alpha channel of its own stores the opacity there, otherwise in its grey value.
    made[..., 3] = mask[..., 3] if (mask[..., 3] < 255).any() else mask[..., 0]
    return made


def _surface(
    height: int, width: int, roughness: NDArray[np.uint8] | None, metal: NDArray[np.uint8] | None
) -> NDArray[np.uint8]:
    made = np.full((height, width, 4), 255, np.uint8)
    if roughness is not None:
        made[..., 1] = roughness[..., 0]
    if metal is not None:
        made[..., 2] = metal[..., 0]
    return made
