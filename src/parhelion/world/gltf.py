"""glTF files: checks before anything is allocated, instances, and the appearance of materials.

trimesh reads the geometry. Before it does, images are removed and materials are replaced by their numbers, so that
nothing is decoded twice, and materials with the same name stay apart.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.pose import quat_rotate
from parhelion.core.reading import UnpackingBudget
from parhelion.surfaces.appearance import Appearance
from parhelion.world.appearances import GltfMaterials

# ---- Sizes that a glTF file declares, checked before the parser allocates memory for them ---------------------------
# An accessor without a buffer declares any number of zeros; one with a buffer cannot exceed its data.
# Layout: glTF 2.0, https://registry.khronos.org/glTF/specs/2.0/glTF-2.0.html


_BYTES = {5120: 1, 5121: 1, 5122: 2, 5123: 2, 5125: 4, 5126: 4}
_VALUES = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
_COMPRESSED = ("KHR_draco_mesh_compression", "EXT_meshopt_compression", "KHR_meshopt_compression")
MOST_INSTANCES = 1_000_000
"""Largest number of instances of one node."""
NUMBERED = "parhelion-material-"
"""Prefix of the names that replace those of materials."""

ReadFile = Callable[[str], bytes]
"""Function that returns the content of a file next to the document; raises FileNotFoundError."""


def check_gltf(file: Path, data: bytes) -> None:
    """Raise FormatError if the accessors of a .gltf or .glb file violate the format."""
    document, _ = _document(file, data)
    budget = UnpackingBudget(file, len(data))
    accessors = document.get("accessors", [])
    if not isinstance(accessors, list):
        raise FormatError(f"{file}: accessors must be a list")
    for row, entry in enumerate(accessors):
        where = f"{file}: accessors[{row}]"
        if not isinstance(entry, Mapping):
            raise FormatError(f"{where}: must be a mapping")
        count, part, kind = entry.get("count"), entry.get("componentType"), entry.get("type")
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count < 2**31:
            raise FormatError(f"{where}: count must be a whole number above 0, got {str(count)[:40]}")
        if not isinstance(part, int) or part not in _BYTES:
            raise FormatError(
                f"{where}: componentType must be one of {', '.join(map(str, _BYTES))}, got {str(part)[:40]}"
            )
        if not isinstance(kind, str) or kind not in _VALUES:
            raise FormatError(f"{where}: type must be one of {', '.join(_VALUES)}, got {str(kind)[:40]}")
        if entry.get("bufferView") is None:
            budget.spend(count * _BYTES[part] * _VALUES[kind])


def _document(file: Path, data: bytes) -> tuple[dict[str, Any], bytes]:
    """JSON of a file, and the chunks that follow it in a .glb file."""
    text, rest = data, b""
    if data[:4] == b"glTF":
        if len(data) < 20:
            raise FormatError(f"{file}: not a whole .glb file: it ends within its header")
        length, kind = struct.unpack_from("<I4s", data, 12)
        if kind != b"JSON" or length > len(data) - 20:
            raise FormatError(f"{file}: not a whole .glb file: its first chunk is no JSON, or not all there")
        text, rest = data[20 : 20 + length], data[20 + length :]
    try:
        document = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        raise FormatError(f"{file}: not a whole {file.suffix} file: its JSON is damaged") from None
    if not isinstance(document, dict):
        raise FormatError(f"{file}: not a whole {file.suffix} file: its JSON is no mapping")
    return document, rest


# ---- appearance and instances ---------------------------------------------------------------------------------------


class GltfFile:
    """A glTF document, its buffers, and the materials in it."""

    def __init__(self, file: Path, data: bytes, read: ReadFile) -> None:
        self.file, self._read = file, read
        self.document, rest = _document(file, data)
        self._binary_chunk = rest
        self._is_glb = data[:4] == b"glTF"
        self._buffers: dict[int, bytes] = {}
        self.materials = GltfMaterials(self.document, file, self._image)
        self._looks: dict[int, Appearance] = {}
        for name in self._entries("extensionsRequired"):
            if name in _COMPRESSED:
                raise FormatError(
                    f"{file}: it is compressed with {name}; convert it: gltf-transform copy in.glb out.glb"
                )

    def _entries(self, name: str) -> list[Any]:
        found = self.document.get(name, [])
        return found if isinstance(found, list) else []

    def named(self, name: str | None) -> tuple[str | None, int | None]:
        """Name and number of a material, from the name that replaced it."""
        if name is None or not name.startswith(NUMBERED):
            return name, None
        number = int(name[len(NUMBERED) :])
        entries = self._entries("materials")
        entry = entries[number] if number < len(entries) else None
        own = entry.get("name") if isinstance(entry, Mapping) else None
        return (own.strip() if isinstance(own, str) and own.strip() else f"material-{number}"), number

    def appearance(self, number: int) -> Appearance:
        """Appearance of a material by number."""
        if number not in self._looks:
            self._looks[number] = self.materials.appearance(number)
        return self._looks[number]

    def transformed_uv(self, number: int, uv: NDArray[np.float32]) -> NDArray[np.float32]:
        """Texture coordinates (n, 3, 2), v up, after the transform of the material's images."""
        _, transform = self.materials.uv_of(number)
        if transform is None:
            return uv
        own = np.stack([uv[..., 0], 1.0 - uv[..., 1]], axis=-1).astype(np.float64)
        moved = own @ transform[:, :2].T + transform[:, 2]
        return np.stack([moved[..., 0], 1.0 - moved[..., 1]], axis=-1).astype(np.float32)

    def for_geometry(self) -> bytes:
        """The file with numbered materials, without images, and with a node for each instance."""
        document = dict(self.document)
        materials = self._entries("materials")
        document["materials"] = [{"name": f"{NUMBERED}{number}"} for number in range(len(materials))]
        for name in ("textures", "images", "samplers"):
            document.pop(name, None)
        meshes = []
        for entry in self._entries("meshes"):
            if isinstance(entry, Mapping) and isinstance(entry.get("primitives"), list):
                entry = {**entry, "primitives": [self._primitive(one) for one in entry["primitives"]]}
            meshes.append(entry)
        if "meshes" in document:
            document["meshes"] = meshes
        self._expand_instances(document)
        text = json.dumps(document).encode("utf-8")
        if not self._is_glb:
            return text
        text += b" " * (-len(text) % 4)
        size = 20 + len(text) + len(self._binary_chunk)
        return struct.pack("<4sIII4s", b"glTF", 2, size, len(text), b"JSON") + text + self._binary_chunk

    def _primitive(self, entry: Any) -> Any:
        """Primitive without vertex colours and with the texture coordinates of its material as the first ones."""
        if not isinstance(entry, Mapping) or not isinstance(entry.get("attributes"), Mapping):
            return entry
        attributes = dict(entry["attributes"])
        if attributes.pop("COLOR_0", None) is not None:
            self.materials._omit("vertex colours")
        number = entry.get("material")
        if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
            chosen, _ = self.materials.uv_of(number)
            if chosen and f"TEXCOORD_{chosen}" in attributes:
                attributes["TEXCOORD_0"] = attributes[f"TEXCOORD_{chosen}"]
        return {**entry, "attributes": attributes}

    # ---- buffers ------------------------------------------------------------------------------------------------

    def _image(self, number: int) -> tuple[bytes, str] | None:
        entries = self._entries("images")
        entry = entries[number] if 0 <= number < len(entries) else None
        if not isinstance(entry, Mapping):
            return None
        name = str(entry.get("name") or number)[:60]
        if entry.get("bufferView") is not None:
            return self._view(entry["bufferView"], f"images[{number}]"), name
        uri = entry.get("uri")
        if not isinstance(uri, str):
            return None
        try:
            return self._uri(uri), name if uri.startswith("data:") else uri[:60]
        except FileNotFoundError:
            return None

    def _uri(self, uri: str) -> bytes:
        if not uri.startswith("data:"):
            return self._read(uri)
        try:
            return base64.b64decode(uri.partition(",")[2], validate=False)
        except (binascii.Error, ValueError):
            raise FormatError(f"{self.file}: a data URI is not valid base64") from None

    def _view(self, number: Any, where: str) -> bytes:
        views = self._entries("bufferViews")
        entry = views[number] if isinstance(number, int) and 0 <= number < len(views) else None
        if not isinstance(entry, Mapping):
            raise FormatError(f"{self.file}: {where}: no bufferView {str(number)[:20]}")
        start, length, buffer = entry.get("byteOffset", 0), entry.get("byteLength"), entry.get("buffer", 0)
        whole = all(isinstance(value, int) and value >= 0 for value in (start, length, buffer))
        content = self._buffer(buffer) if whole else b""
        if not whole or start + length > len(content):
            raise FormatError(f"{self.file}: {where}: bufferView {number} lies outside its buffer")
        return content[start : start + length]

    def _buffer(self, number: int) -> bytes:
        if number not in self._buffers:
            entries = self._entries("buffers")
            entry = entries[number] if number < len(entries) else None
            uri = entry.get("uri") if isinstance(entry, Mapping) else None
            if isinstance(uri, str):
                try:
                    self._buffers[number] = self._uri(uri)
                except FileNotFoundError:
                    raise FormatError(f"{self.file}: its buffer {uri[:80]!r} is missing") from None
            else:
                self._buffers[number] = self._binary_chunk[8:] if self._is_glb and number == 0 else b""
        return self._buffers[number]

    # ---- EXT_mesh_gpu_instancing --------------------------------------------------------------------------------

    def _expand_instances(self, document: dict[str, Any]) -> None:
        """Replace nodes with instances by one child node per instance."""
        nodes = document.get("nodes")
        if not isinstance(nodes, list):
            return
        made: list[Any] = list(nodes)
        for row, node in enumerate(nodes):
            extensions = node.get("extensions") if isinstance(node, Mapping) else None
            instancing = extensions.get("EXT_mesh_gpu_instancing") if isinstance(extensions, Mapping) else None
            if not isinstance(instancing, Mapping) or "mesh" not in node:
                continue
            places = self._places(instancing, f"nodes[{row}]")
            first = len(made)
            made += [{"mesh": node["mesh"], "matrix": place.T.ravel().tolist()} for place in places]
            plain = {key: value for key, value in node.items() if key != "mesh"}
            children = node.get("children", [])
            plain["children"] = [*(children if isinstance(children, list) else []), *range(first, len(made))]
            made[row] = plain
        document["nodes"] = made

    def _places(self, instancing: Mapping[str, Any], where: str) -> NDArray[np.float64]:
        """Transforms of the instances of a node, shape (n, 4, 4)."""
        attributes = instancing.get("attributes")
        columns = {}
        if isinstance(attributes, Mapping):
            for name, width in (("TRANSLATION", 3), ("ROTATION", 4), ("SCALE", 3)):
                if name in attributes:
                    columns[name] = self._accessor(attributes[name], width, where)
        counts = {len(column) for column in columns.values()}
        if len(counts) != 1:
            raise FormatError(f"{self.file}: {where}: EXT_mesh_gpu_instancing needs attributes of equal length")
        count = counts.pop()
        if count > MOST_INSTANCES:
            raise FormatError(f"{self.file}: {where}: {count} instances exceed the limit of {MOST_INSTANCES}")
        turn = columns.get("ROTATION", np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)))
        length = np.linalg.norm(turn, axis=1, keepdims=True)
        if not np.all(np.isfinite(length)) or np.any(length == 0.0):
            raise FormatError(f"{self.file}: {where}: ROTATION must have unit quaternions")
        size = columns.get("SCALE", np.ones((count, 3)))
        places = np.zeros((count, 4, 4))
        for axis in range(3):
            places[:, :3, axis] = quat_rotate(turn / length, np.eye(3)[axis]) * size[:, axis : axis + 1]
        places[:, :3, 3] = columns.get("TRANSLATION", np.zeros((count, 3)))
        places[:, 3, 3] = 1.0
        return places

    def _accessor(self, number: Any, width: int, where: str) -> NDArray[np.float64]:
        """Values of an accessor without gaps, shape (n, width)."""
        entries = self._entries("accessors")
        entry = entries[number] if isinstance(number, int) and 0 <= number < len(entries) else {}
        kind = {5126: "<f4", 5120: "<i1", 5122: "<i2"}.get(entry.get("componentType", 0))
        if kind is None or _VALUES.get(str(entry.get("type"))) != width:
            raise FormatError(
                f"{self.file}: {where}: accessor {str(number)[:20]} must have {width} numbers per instance"
            )
        data, start = self._view(entry.get("bufferView"), where), entry.get("byteOffset", 0)
        count = entry["count"]
        dtype = np.dtype(kind)
        if not isinstance(start, int) or start < 0 or start + count * width * dtype.itemsize > len(data):
            raise FormatError(f"{self.file}: {where}: accessor {number} lies outside its bufferView")
        values = np.frombuffer(data, dtype, count * width, start).reshape(count, width).astype(np.float64)
        return values / (127.0 if kind == "<i1" else 32767.0 if kind == "<i2" else 1.0)
