"""The files of a camera's frames: the picture, and a folder for each kind of truth beside it.

    front/images/000000.png     what the camera reads
    front/depth/000000.png      and measured_depth, normal, label, instance, flow: see `parhelion.io.images.truth`
    front/right/000000.png      of the second lens of a stereo pair
    front/info/000000.json      time, pose, lens, bands, names, objects, and which colour each instance has

EXR and NPZ hold all of it in one file a frame, front/images/000000.exr.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.image import Image
from parhelion.io.description import plain_value
from parhelion.io.images import image_format_of, png, truth
from parhelion.io.images.facts import facts_of
from parhelion.io.images.plain import put

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario
    from parhelion.scenario.sensors import OnBoard

FOLDER = "images"
"""Of the pictures, in that of the camera."""
INFO, RIGHT = "info", "right"
TRUTH: dict[str, Callable[[Any], NDArray[Any]]] = {
    "depth": truth.depth_pixels,
    "measured_depth": truth.depth_pixels,
    "normal": truth.normal_pixels,
    "label": lambda label: label,
    "instance": truth.instance_colours,
    "flow": truth.flow_pixels,
}
"""Folders of truth, and how each array becomes the pixels of a PNG file."""


def image_ending(sensor: OnBoard, scenario: Scenario) -> str:
    """Ending of a camera's pictures: as asked for, else PNG; TIFF for numbers of bands that PNG does not have, and EXR
    for light that no sensor has read."""
    count = len(getattr(sensor.sensor, "bands", ()))
    usual = "png" if count in (0, 1, 3, 4) else "tiff"
    usual = usual if getattr(sensor.sensor, "developed", True) else "exr"
    return image_format_of(Path("image"), sensor.entry.format or usual).endings[0]


def write_frame(image: Image, file: Path) -> list[str]:
    """Write a frame: the truth first, so that a picture that is there says that its truth is, too."""
    kind = image_format_of(file)
    if not kind.whole:
        for name, pixels in TRUTH.items():
            values = getattr(image, name)
            if values is not None:
                _write(_beside(file, name, ".png"), png.encode(pixels(values)))
        if image.right is not None:
            right = _beside(file, RIGHT, file.suffix)
            _make_folder(right)
            kind.write(_second(image), right)
        _write(_beside(file, INFO, ".json"), info(image))
    kind.write(image, file)
    return []


def files_beside(file: Path) -> list[Path]:
    """The files that belong to a picture: one in each folder of truth that there is."""
    found = []
    for name in (*TRUTH, RIGHT, INFO):
        if (file.parent.parent / name).is_dir():
            found.append(_beside(file, name, {INFO: ".json", RIGHT: file.suffix}.get(name, ".png")))
    return [] if image_format_of(file).whole else found


def info(image: Image) -> bytes:
    """All that an image is besides its arrays, and its instances with their colours, as JSON."""
    content = facts_of(image)
    if image.instance is not None:
        content["instances"] = _instances(image)
    try:
        return (json.dumps(content, indent=1, default=plain_value) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise FormatError(f"the image's metadata cannot be written as JSON ({error})") from None


def _instances(image: Image) -> list[dict[str, Any]]:
    """Number, colour, label and pixels of each instance that the mask shows."""
    assert image.instance is not None
    numbers, first, counts = np.unique(image.instance, return_index=True, return_counts=True)
    colours = truth.instance_colours(numbers)
    rows = []
    for number, at, count, colour in zip(numbers.tolist(), first.tolist(), counts.tolist(), colours, strict=True):
        row: dict[str, Any] = {"instance": number, "rgb": colour.tolist(), "pixels": count}
        if image.label is not None:
            row["label"] = int(image.label.ravel()[at])
        rows.append(row)
    return [row for row in rows if row["instance"]]


def _second(image: Image) -> Image:
    """The picture of the second lens as an image of its own, where that lens is."""
    from parhelion.core.pose import Pose

    assert image.right is not None
    base = 0.0 if image.intrinsics is None else image.intrinsics.baseline_m
    return replace(
        image, colour=image.right, right=None, pose=image.pose @ Pose((0.0, -base, 0.0)), depth=None, normal=None,
        label=None, instance=None, flow=None, measured_depth=None, objects=(),
    )  # fmt: skip


def _beside(file: Path, folder: str, ending: str) -> Path:
    return file.parent.parent / folder / f"{file.stem}{ending}"


def _make_folder(file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FormatError(f"{file}: cannot be written ({error.strerror or error})") from None


def _write(file: Path, data: bytes) -> None:
    _make_folder(file)
    put(file, data)
