"""Metadata of an image as JSON: lens, pose, time, objects, names and further values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.errors import FormatError
from parhelion.core.image import TRUTH, Image, Intrinsics, SeenObject
from parhelion.core.pose import Pose
from parhelion.io.columns import plain_value
from parhelion.io.npz import TEXT, read_record, write_archive, write_record

KEY = "parhelion"
"""Keyword of the metadata in image files."""


def metadata_of(image: Image) -> dict[str, Any]:
    """All values of an image except its arrays, as plain values."""
    return {
        "start_time": float(image.start_time),
        "pose": _pose(image.pose),
        "bands": list(image.bands),
        "intrinsics": None if image.intrinsics is None else asdict(image.intrinsics),
        "objects": [
            {
                "instance": int(one.instance),
                "label": int(one.label),
                "visible_box": _numbers(one.visible_box),
                "full_box": _numbers(one.full_box),
                "pixels": int(one.pixels),
                "occlusion": float(one.occlusion),
                "truncation": float(one.truncation),
                "pose": _pose(one.pose),
                "size_m": _numbers(one.size_m),
            }
            for one in image.objects
        ],
        "names": {kind: {str(int(n)): str(word) for n, word in table.items()} for kind, table in image.names.items()},
        "metadata": dict(image.metadata),
    }


def to_json(image: Image) -> str:
    """Metadata as one line of ASCII JSON."""
    try:
        return json.dumps(metadata_of(image), default=plain_value, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"the image's metadata cannot be written as JSON ({error})") from None


def image_of(arrays: Mapping[str, Any], text: str | None) -> Image:
    """Return the image with these arrays by field name and the metadata in `text`, if any."""
    plain = Image(**arrays)
    if text is None:
        return plain
    try:
        values = json.loads(text)
        lens = values["intrinsics"]
        bands = tuple(str(band) for band in values["bands"])
        return replace(
            plain,
            bands=bands if len(bands) == (1 if plain.colour.ndim == 2 else plain.colour.shape[2]) else (),
            intrinsics=None if lens is None else Intrinsics(**{**lens, "distortion": tuple(lens["distortion"])}),
            start_time=float(values["start_time"]),
            pose=_read_pose(values["pose"]),
            objects=tuple(_object(one) for one in values["objects"]),
            names={kind: {int(n): str(word) for n, word in table.items()} for kind, table in values["names"].items()},
            metadata=dict(values["metadata"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError(f"the description of the image is damaged ({type(error).__name__}: {error})") from None


def _numbers(values: Any) -> list[float]:
    return [float(value) for value in values]


def _pose(pose: Pose) -> dict[str, list[float]]:
    return {"xyz": pose.xyz.tolist(), "quat_xyzw": pose.quat_xyzw.tolist()}


def _read_pose(found: Mapping[str, Any]) -> Pose:
    return Pose(np.array(found["xyz"], np.float64), np.array(found["quat_xyzw"], np.float64))


def _object(found: Mapping[str, Any]) -> SeenObject:
    boxes = [tuple(_numbers(found[name])) for name in ("visible_box", "full_box", "size_m")]
    if [len(box) for box in boxes] != [4, 4, 3] or not all(math.isfinite(v) for box in boxes for v in box):
        raise ValueError("the boxes of an object are invalid")
    return SeenObject(
        int(found["instance"]),
        int(found["label"]),
        boxes[0],  # type: ignore[arg-type]
        boxes[1],  # type: ignore[arg-type]
        int(found["pixels"]),
        float(found["occlusion"]),
        float(found["truncation"]),
        _read_pose(found["pose"]),
        boxes[2],  # type: ignore[arg-type]
    )


# ---- npz ------------------------------------------------------------------------------------------------------------
# NPZ: every array of an image under its own name, and the metadata as JSON text in `parhelion`. No pickle.


def write(image: Image, path: Path, *, compress: bool = True) -> tuple[str, ...]:
    """Write everything; without `compress`, writing is faster and the file larger."""
    if type(image) is not Image:
        return write_record(image, path, compress=compress)
    names = ("colour", "right", *TRUTH)
    arrays: dict[str, Any] = {name: getattr(image, name) for name in names if getattr(image, name) is not None}
    arrays[TEXT] = np.frombuffer(to_json(image).encode("ascii"), np.uint8)
    write_archive(arrays, path, compress=compress)
    return ()


def read(path: Path) -> Image:
    """Read an image; an archive from another program needs an array `colour`."""
    return read_record(path, Image)
