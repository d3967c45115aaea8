"""Scene messages of a world for Foxglove: static and moving objects as models (glTF binary), and bounding boxes.

Models use the axes of glTF, y up, which viewers convert to z up. Lengths are in metres.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from parhelion.core.pose import Floats
from parhelion.core.trajectory import Trajectory
from parhelion.motion.boxes import Box
from parhelion.outputs.topics import actor_frame
from parhelion.surfaces.material import Material
from parhelion.world.parts import WorldPart
from parhelion.world.world import World

MEDIA_TYPE = "model/gltf-binary"
STANDING = "world"
"""Identifier of the static part of the scene."""
_RED_GREEN_BLUE_NM = (640.0, 550.0, 465.0)
_WATER_COLOUR = (0.03, 0.09, 0.14)  # water mostly reflects the sky
_SEE_THROUGH = {"GlassPane": 0.35, "WaterSurface": 0.85}
_BOX_ALPHA = 0.3
_JSON_CHUNK, _BINARY_CHUNK = b"JSON", b"BIN\0"
_ARRAY_BUFFER, _ELEMENT_BUFFER, _FLOAT32, _UINT32 = 34962, 34963, 5126, 5125


def moving(world: World) -> list[tuple[str, Trajectory]]:
    """Frame and trajectory of every moving object."""
    return [(actor_frame(item), item.trajectory) for item in world.objects if item.trajectory is not None]


def scene_update(world: World, frame: str, time_ns: int) -> bytes:
    """SceneUpdate of the whole world: static objects in `frame`, and each moving object in its own frame."""
    from foxglove.messages import SceneUpdate

    standing = [part for item in world.objects if not item.is_actor for part in item.parts]
    entities = [_entity(STANDING, frame, standing, {}, time_ns)] if standing else []
    for item in world.objects:
        if item.is_actor:
            about = {"name": item.name, "label": item.label, "instance": str(item.instance)}
            entities.append(_entity(actor_frame(item), actor_frame(item), item.parts, about, time_ns))
    return packed(SceneUpdate(entities=entities))


def boxes_update(boxes: Iterable[Box], colours: Mapping[str, Floats], frame: str, time_ns: int) -> bytes:
    """SceneUpdate with boxes around instances; `colours` are red, green and blue in [0, 1] by label."""
    from foxglove.messages import Color, CubePrimitive, SceneEntity, SceneUpdate, Vector3

    entities = []
    for box in boxes:
        red, green, blue = colours[box.label].tolist()
        cube = CubePrimitive(
            pose=pose_of(box.centre, box.quat_xyzw),
            size=Vector3(**axes_of(box.size)),
            color=Color(r=red, g=green, b=blue, a=_BOX_ALPHA),
        )
        about = {"label": box.label, "instance": str(box.instance), "mobility": str(box.mobility)}
        entities.append(
            SceneEntity(
                timestamp=timestamp(time_ns),
                frame_id=frame,
                id=f"box/{box.instance}",
                metadata=_pairs(about),
                cubes=[cube],
            )
        )
    return packed(SceneUpdate(entities=entities))


def packed(message: Any) -> bytes:
    """Serialize a message of the SDK, which has no type annotations."""
    return bytes(message.encode())


def timestamp(time_ns: int) -> Any:
    """foxglove.Timestamp of a time [ns]."""
    from foxglove.messages import Timestamp

    return Timestamp(time_ns // 10**9, time_ns % 10**9)


def pose_of(xyz: Floats, quat_xyzw: Floats) -> Any:
    """foxglove.Pose of a position [m] and quaternion."""
    from foxglove.messages import Pose, Quaternion, Vector3

    return Pose(position=Vector3(**axes_of(xyz)), orientation=Quaternion(**axes_of(quat_xyzw)))


def axes_of(values: Floats) -> dict[str, float]:
    """Components of a vector or quaternion by axis."""
    return dict(zip("xyzw", values.tolist(), strict=False))


def _pairs(about: Mapping[str, str]) -> list[Any]:
    from foxglove.messages import KeyValuePair

    return [KeyValuePair(key=key, value=value) for key, value in about.items()]


def _entity(name: str, frame: str, parts: Iterable[WorldPart], about: Mapping[str, str], time_ns: int) -> Any:
    from foxglove.messages import ModelPrimitive, SceneEntity, Vector3

    model = ModelPrimitive(
        pose=pose_of(np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])),
        scale=Vector3(x=1.0, y=1.0, z=1.0),
        media_type=MEDIA_TYPE,
        data=glb(parts),
    )
    # Locked to its frame, so that it follows later transforms.
    return SceneEntity(
        timestamp=timestamp(time_ns), frame_id=frame, id=name, frame_locked=True, metadata=_pairs(about), models=[model]
    )


# ---- models ----------------------------------------------------------------------------------------------------------


def glb(parts: Iterable[WorldPart]) -> bytes:
    """glTF 2.0 binary file of triangles, one primitive per material, flat-shaded and double-sided."""
    groups: dict[str, list[WorldPart]] = {}
    for part in parts:
        groups.setdefault(part.material.name, []).append(part)
    blobs: list[bytes] = []
    views: list[dict[str, Any]] = []
    accessors: list[dict[str, Any]] = []
    primitives: list[dict[str, Any]] = []

    def add(array: Any, kind: str, component: int, target: int, **more: Any) -> int:
        views.append({"buffer": 0, "byteOffset": sum(map(len, blobs)), "byteLength": array.nbytes, "target": target})
        blobs.append(array.tobytes())
        accessors.append(
            {"bufferView": len(views) - 1, "componentType": component, "count": len(array), "type": kind, **more}
        )
        return len(accessors) - 1

    for number, group in enumerate(groups.values()):
        vertices, indices = _triangles(group)
        limits = {"min": vertices.min(axis=0).tolist(), "max": vertices.max(axis=0).tolist()}
        primitives.append(
            {
                "attributes": {"POSITION": add(vertices, "VEC3", _FLOAT32, _ARRAY_BUFFER, **limits)},
                "indices": add(indices, "SCALAR", _UINT32, _ELEMENT_BUFFER),
                "material": number,
            }
        )
    document = {
        "asset": {"version": "2.0", "generator": "parhelion"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": primitives}],
        "materials": [_gltf_material(group[0].material) for group in groups.values()],
        "buffers": [{"byteLength": sum(map(len, blobs))}],
        "bufferViews": views,
        "accessors": accessors,
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    body = b"".join(blobs)
    chunks = b"".join(
        (struct.pack("<I4s", len(text), _JSON_CHUNK), text, struct.pack("<I4s", len(body), _BINARY_CHUNK), body)
    )
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def _triangles(group: list[WorldPart]) -> tuple[Any, Any]:
    """Vertices (n, 3) float32 in glTF axes and indices (m,) uint32 of all parts."""
    starts = np.cumsum([0, *(len(part.placed) for part in group[:-1])])
    placed = np.concatenate([part.placed for part in group])
    faces = np.concatenate([part.mesh.faces + start for part, start in zip(group, starts, strict=True)])
    vertices = np.stack([placed[:, 0], placed[:, 2], -placed[:, 1]], axis=1).astype("<f4")
    return vertices, faces.reshape(-1).astype("<u4")


def linear_colour(material: Material) -> tuple[list[float], float | None]:
    """Reflectance in red, green and blue, and the opacity of transparent materials; None for opaque ones."""
    low, high = material.wavelength_range_nm
    colour = [float(material.reflectance_at(min(max(nm, low), high))) for nm in _RED_GREEN_BLUE_NM]
    kind = type(material.specular).__name__
    return list(_WATER_COLOUR) if kind == "WaterSurface" else colour, _SEE_THROUGH.get(kind)


def _gltf_material(material: Material) -> dict[str, Any]:
    """glTF material with the reflectance as linear colour."""
    colour, opacity = linear_colour(material)
    alpha = 1.0 if opacity is None else opacity
    return {
        "name": material.name,
        "pbrMetallicRoughness": {
            "baseColorFactor": [*(round(min(max(value, 0.0), 1.0), 6) for value in colour), alpha],
            "metallicFactor": 0.0,
            "roughnessFactor": 1.0,
        },
        "doubleSided": True,
        **({"alphaMode": "BLEND"} if alpha < 1.0 else {}),
    }
