"""Small model files that are written for tests: glTF with textures, and their geometry."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Array = NDArray[Any]


def png(pixels: Array) -> bytes:
    """PNG file of an image of 8 bits per channel."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="png")
    return stream.getvalue()


def chequer(first: Sequence[int], second: Sequence[int], tiles: int = 4, texels: int = 16) -> Array:
    """Chequered image of two colours, shape (tiles * texels, tiles * texels, channels)."""
    row, column = np.indices((tiles * texels, tiles * texels)) // texels
    return np.where(((row + column) % 2 == 0)[..., None], np.array(first, np.uint8), np.array(second, np.uint8))


def quad(size: float = 1.0) -> dict[str, Array]:
    """Square in glTF's xz plane that faces up (y), centred, with texture coordinates."""
    h = size / 2
    return {
        "POSITION": np.array([[-h, 0, h], [h, 0, h], [h, 0, -h], [-h, 0, -h]], np.float32),
        "TEXCOORD_0": np.array([[0, 1], [1, 1], [1, 0], [0, 0]], np.float32),
        "indices": np.array([0, 1, 2, 0, 2, 3], np.uint32),
    }


def sphere(radius: float = 1.0, rows: int = 48) -> dict[str, Array]:
    """Sphere with texture coordinates by longitude and latitude."""
    u, v = np.meshgrid(np.linspace(0, 1, 2 * rows + 1), np.linspace(0, 1, rows + 1))
    turn, fall = 2 * np.pi * u, np.pi * v
    xyz = radius * np.stack([np.sin(fall) * np.cos(turn), np.cos(fall), -np.sin(fall) * np.sin(turn)], axis=-1)
    a = (np.arange(rows)[:, None] * (2 * rows + 1) + np.arange(2 * rows)).ravel()
    b = a + 2 * rows + 1
    # Without the triangles at the poles, which have no area.
    faces = np.concatenate([np.stack([a, b, b + 1], 1)[: -2 * rows], np.stack([a, b + 1, a + 1], 1)[2 * rows :]])
    return {
        "POSITION": xyz.reshape(-1, 3).astype(np.float32),
        "TEXCOORD_0": np.stack([u, v], axis=-1).reshape(-1, 2).astype(np.float32),
        "indices": faces.astype(np.uint32).ravel(),
    }


class Glb:
    """A .glb file in the making; methods return the numbers that its document refers to."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {"asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": []}]}
        self._binary = b""

    def entry(self, kind: str, value: Mapping[str, Any]) -> int:
        """Add an entry to a list of the document."""
        self.document.setdefault(kind, []).append(dict(value))
        return len(self.document[kind]) - 1

    def view(self, data: bytes) -> int:
        """Add binary data."""
        self._binary += b"\0" * (-len(self._binary) % 4)
        start = len(self._binary)
        self._binary += data
        return self.entry("bufferViews", {"buffer": 0, "byteOffset": start, "byteLength": len(data)})

    def accessor(self, values: Array) -> int:
        """Add an array of numbers."""
        kind = {np.dtype(np.float32): 5126, np.dtype(np.uint32): 5125}[values.dtype]
        width = 1 if values.ndim == 1 else values.shape[1]
        entry: dict[str, Any] = {
            "bufferView": self.view(values.tobytes()), "componentType": kind, "count": len(values),
            "type": {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4"}[width],
        }  # fmt: skip
        if width == 3:
            entry |= {"min": values.min(axis=0).tolist(), "max": values.max(axis=0).tolist()}
        return self.entry("accessors", entry)

    def texture(self, image: Array | bytes) -> dict[str, int]:
        """Add an image; return a reference to its texture."""
        data = image if isinstance(image, bytes) else png(image)
        source = self.entry("images", {"bufferView": self.view(data), "mimeType": "image/png"})
        return {"index": self.entry("textures", {"source": source})}

    def material(self, name: str, **fields: Any) -> int:
        """Add a material; fields of pbrMetallicRoughness are recognised by their names."""
        surface = (
            "baseColorFactor",
            "baseColorTexture",
            "metallicFactor",
            "roughnessFactor",
            "metallicRoughnessTexture",
        )
        inner = {key: value for key, value in fields.items() if key in surface}
        outer = {key: value for key, value in fields.items() if key not in surface}
        return self.entry("materials", {"name": name, "pbrMetallicRoughness": inner, **outer})

    def mesh(self, geometry: Mapping[str, Array], material: int | None) -> int:
        """Add a mesh of one primitive."""
        attributes = {name: self.accessor(values) for name, values in geometry.items() if name != "indices"}
        primitive: dict[str, Any] = {"attributes": attributes, "indices": self.accessor(geometry["indices"])}
        if material is not None:
            primitive["material"] = material
        return self.entry("meshes", {"primitives": [primitive]})

    def node(self, **fields: Any) -> int:
        """Add a node to the scene."""
        number = self.entry("nodes", fields)
        self.document["scenes"][0]["nodes"].append(number)
        return number

    def bytes(self) -> bytes:
        """Return the file."""
        self._binary += b"\0" * (-len(self._binary) % 4)
        document = {**self.document, "buffers": [{"byteLength": len(self._binary)}]}
        text = json.dumps(document).encode()
        text += b" " * (-len(text) % 4)
        size = 28 + len(text) + len(self._binary)
        head = struct.pack("<4sII", b"glTF", 2, size) + struct.pack("<I4s", len(text), b"JSON") + text
        return head + struct.pack("<I4s", len(self._binary), b"BIN\0") + self._binary

    def write(self, path: Path) -> Path:
        """Write the file and return its path."""
        path.write_bytes(self.bytes())
        return path


def one(path: Path, geometry: Mapping[str, Array], name: str = "thing", **material: Any) -> Path:
    """Write a file of one mesh with one material; arrays among the fields become textures."""
    glb = Glb()
    fields = {key: glb.texture(value) if isinstance(value, np.ndarray) else value for key, value in material.items()}
    glb.node(mesh=glb.mesh(geometry, glb.material(name, **fields)))
    return glb.write(path)
